/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An extension of the plugin ABI: unexpected receives that take several messages. Without it NA
 * offers single receives only. The rules at the top of na_plugin.h apply here, too.
 */

#ifndef NA_PLUGIN_MULTI_RECV_H
#define NA_PLUGIN_MULTI_RECV_H

#include "na_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The id of this table for get_extension. */
#define NA_PLUGIN_EXT_MULTI_RECV "na.multi_recv/1"

struct na_plugin_multi_recv {
    struct na_plugin_extension extension;

    /*
     * Posts a buffer that unexpected messages fill one after the other, each reported by
     * op_complete_multi_recv, until less than the largest unexpected message fits. Multi-receives
     * and single receives of a context are one queue in posting order. Returns as
     * msg_recv_unexpected. [any thread] [may not block]
     */
    int32_t (*msg_multi_recv_unexpected)(struct na_plugin_context *context, void *op, void *buf,
                                         uint64_t size, void *data);
};

#if UINTPTR_MAX == UINT64_MAX
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_multi_recv, msg_multi_recv_unexpected) == 8);
#endif

#ifdef __cplusplus
}
#endif

#endif /* NA_PLUGIN_MULTI_RECV_H */
