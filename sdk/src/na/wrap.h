/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of a wrapped plugin: their completions go to the plugin that wraps it. */

#ifndef NA_WRAP_H
#define NA_WRAP_H

#include "na/operation.h"
#include "na_plugin_wrap.h"

/* na_plugin_wrap.op_create and na_plugin_wrap.op_destroy. */
void *na_wrap_op_create(const struct na_plugin *plugin, const struct na_plugin_wrap_events *events,
                        void *arg);
void na_wrap_op_destroy(void *op_private);

/*
 * Pass a completion on to the wrapping plugin. Return false, and do nothing, if the operation is
 * not one of a wrapped plugin.
 */
bool na_wrap_report(struct na_op_id *op, int32_t status);
bool na_wrap_report_recv(struct na_op_id *op, int32_t status, uint64_t size,
                         struct na_plugin_addr *source, uint32_t tag);
bool na_wrap_report_multi_recv(struct na_op_id *op, int32_t status, void *buf, uint64_t size,
                               struct na_plugin_addr *source, uint32_t tag, uint32_t last,
                               int32_t *ret_p);

#endif /* NA_WRAP_H */
