/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion: from the plugin into the queue of the context, and from there to the callback. */

#ifndef NA_COMPLETION_H
#define NA_COMPLETION_H

#include "na/operation.h"

/* The completion functions of struct na_host; `op_private` is the plugin's part of an operation. */
void na_completion_report(void *op_private, int32_t status);
void na_completion_report_recv(void *op_private, int32_t status, uint64_t size,
                               struct na_plugin_addr *source, uint32_t tag);
int32_t na_completion_report_multi_recv(void *op_private, int32_t status, void *buf, uint64_t size,
                                        struct na_plugin_addr *source, uint32_t tag, uint32_t last);

/* Completes a posted operation with success without giving it to the plugin. */
void na_completion_report_empty(struct na_op_id *op);

na_return_t na_event_pool_init(struct na_event_pool *pool);
void na_event_pool_destroy(struct na_event_pool *pool);

#endif /* NA_COMPLETION_H */
