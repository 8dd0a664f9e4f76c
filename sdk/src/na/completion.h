/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion: from the plugin into the queue of the context, and from there to the callback. */

#ifndef NA_COMPLETION_H
#define NA_COMPLETION_H

#include "na/operation.h"

/* What plugins call, by way of struct na_host. */
void na_completion_report(void *private_part, int32_t status);
void na_completion_report_recv(void *private_part, int32_t status, uint64_t size,
                               struct na_plugin_addr *source, uint32_t tag);
int32_t na_completion_report_multi_recv(void *private_part, int32_t status, void *buf,
                                        uint64_t size, struct na_plugin_addr *source, uint32_t tag,
                                        uint32_t last);

/* Completes an operation with success that the plugin need not see. It is posted. */
void na_completion_report_nothing(struct na_op_id *op);

/* The nodes of multi-receive events. */
na_return_t na_event_pool_init(struct na_event_pool *pool);
void na_event_pool_destroy(struct na_event_pool *pool);

#endif /* NA_COMPLETION_H */
