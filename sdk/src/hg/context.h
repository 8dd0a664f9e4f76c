/* SPDX-License-Identifier: BSD-3-Clause */
/* The RPC layer's part of a context. */
#ifndef HG_RPC_CONTEXT_H
#define HG_RPC_CONTEXT_H

#include "engine/context.h"
#include "hg/control.h"
#include "hg/pool.h"
#include "hg/sessions.h"

/* Error responses that the transport refused, and that are sent again; see respond.c. */
struct hg_refusals {
    pthread_mutex_t lock;    /* guards `first` and `count` */
    struct hg_handle *first; /* linked by next_waiting */
    uint32_t count;
    _Atomic bool has_retry; /* counted in hg_context.refused_count */
};

struct hg_rpc_context {
    struct hg_context base;

    /* Receives of requests. */
    _Alignas(UTIL_CACHE_LINE) _Atomic int32_t posted[HG_PATH_MAX];
    _Atomic bool is_receiving;
    _Atomic bool lacks_receives; /* none could be posted; counted in hg_context.refused_count */
    int32_t window;              /* receives to keep posted */

    _Atomic int32_t deferred_count;   /* deferred forwards that HG_Trigger() has to start */
    _Atomic bool is_stalled;          /* a flow is; counted likewise */
    _Atomic bool are_remotes_stalled; /* a remote is; counted likewise */

    _Alignas(UTIL_CACHE_LINE) struct hg_pool origins[HG_PATH_MAX];
    struct hg_pool targets[HG_PATH_MAX];
    _Atomic uint32_t slot_count; /* origin's handles made so far */
    uint64_t generation;         /* of the first use of each */
    struct hg_controls controls;
    struct hg_refusals refusals;
    struct hg_sessions sessions;
};

/* Every hg_context is the base of an hg_rpc_context. */
static inline struct hg_rpc_context *hg_rpc_context(const hg_context_t *context)
{
    return util_container_of(context, struct hg_rpc_context, base);
}

#endif /* HG_RPC_CONTEXT_H */
