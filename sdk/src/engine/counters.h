/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters: each context has its own set; reading them sums over all contexts. */
#ifndef HG_ENGINE_COUNTERS_H
#define HG_ENGINE_COUNTERS_H

#include "na_ext.h"
#include "util/compiler.h"

#include <stdatomic.h>
#include <stdint.h>

/*
 * The counters of one context. Handles keep the first six, the bytes of messages and the successful
 * forwards themselves.
 */
struct hg_counters {
    _Atomic uint64_t req_sent;
    _Atomic uint64_t req_recv;
    _Atomic uint64_t resp_sent;
    _Atomic uint64_t resp_recv;
    _Atomic uint64_t req_sent_sm;
    _Atomic uint64_t req_recv_sm;
    _Atomic uint64_t bulk_sm;
    _Atomic uint64_t req_extra;
    _Atomic uint64_t resp_extra;
    _Atomic uint64_t bulk;
    _Atomic uint64_t refused_magic;
    _Atomic uint64_t refused_version;
    _Atomic uint64_t refused_header;
    _Atomic uint64_t refused_checksum;
    _Atomic uint64_t unknown_rpc;
    _Atomic uint64_t refused_key;
    _Atomic uint64_t late_response;
    _Atomic uint64_t send_error;
    _Atomic uint64_t timed_out;
    _Atomic uint64_t detached;
    _Atomic uint64_t forward_done;
    _Atomic uint64_t forward_canceled;
    _Atomic uint64_t forward_timeout;
    _Atomic uint64_t forward_error;
    _Atomic uint64_t bulk_bytes;
    _Atomic uint64_t bulk_canceled;
    _Atomic uint64_t bulk_timeout;
    _Atomic uint64_t bulk_error;
    _Atomic uint64_t retry;
    _Atomic uint64_t queued;
    _Atomic uint64_t req_sent_bytes;
    _Atomic uint64_t req_recv_bytes;
    _Atomic uint64_t resp_sent_bytes;
    _Atomic uint64_t resp_recv_bytes;
};

static inline void hg_count(_Atomic uint64_t *counter)
{
    (void) atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Count an event that a peer can cause at will; only the first one is logged as a warning. */
static inline enum na_log_level hg_count_level(_Atomic uint64_t *counter)
{
    return atomic_fetch_add_explicit(counter, 1, memory_order_relaxed) == 0 ? NA_LOG_LEVEL_WARNING
                                                                            : NA_LOG_LEVEL_DEBUG;
}

static inline void hg_count_add(_Atomic uint64_t *counter, uint64_t value)
{
    (void) atomic_fetch_add_explicit(counter, value, memory_order_relaxed);
}

/* Add to a counter that only the thread working on its handle writes: no locked instruction. */
static inline void hg_count_own_add(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value,
                          memory_order_relaxed);
}

static inline void hg_count_own(_Atomic uint64_t *counter)
{
    hg_count_own_add(counter, 1);
}

#endif /* HG_ENGINE_COUNTERS_H */
