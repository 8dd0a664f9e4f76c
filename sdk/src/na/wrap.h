/* SPDX-License-Identifier: BSD-3-Clause */
/* What plugins get that wrap another plugin: finding it, and operations whose reports come to
 * them. */

#ifndef NA_WRAP_H
#define NA_WRAP_H

#include "na/operation.h"

/* The table of NA_PLUGIN_EXT_WRAP. */
const struct na_plugin_wrap *na_wrap_get(void);

/*
 * Pass a report on to the wrapping plugin. False, and nothing is done, when the operation is one of
 * the core's own.
 */
bool na_wrap_report(struct na_op_id *op, int32_t status);
bool na_wrap_report_recv(struct na_op_id *op, int32_t status, uint64_t size,
                         struct na_plugin_addr *source, uint32_t tag);
bool na_wrap_report_multi_recv(struct na_op_id *op, int32_t status, void *buf, uint64_t size,
                               struct na_plugin_addr *source, uint32_t tag, uint32_t last,
                               int32_t *ret_p);

#endif /* NA_WRAP_H */
