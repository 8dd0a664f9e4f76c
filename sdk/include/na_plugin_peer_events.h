/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An extension of the plugin ABI: reports of lost peers, also while no operation waits for them,
 * for NA_Class_set_peer_lost(). Without it users learn of a peer's death from failing operations
 * only. Since 1.2. The rules at the top of na_plugin.h apply here, too.
 */

#ifndef NA_PLUGIN_PEER_EVENTS_H
#define NA_PLUGIN_PEER_EVENTS_H

#include "na_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The id of this table for get_extension. */
#define NA_PLUGIN_EXT_PEER_EVENTS "na.peer_events/1"

/*
 * Receives a lost peer: its process has ended, it has closed its endpoint, another process has
 * taken its place, or it cannot be reached any more. `addr` is a reference to it, which the core
 * takes over (and releases by addr_free), `status` the error of operations that wait for it
 * (NA_PLUGIN_HOSTUNREACH). Never calls back into the plugin, so locks may be held. [any thread]
 */
typedef void (*na_plugin_peer_lost_fn)(void *arg, struct na_plugin_addr *addr, int32_t status);

struct na_plugin_peer_events {
    struct na_plugin_extension extension;

    /*
     * From now on `report` is called, with `arg`, for each peer that is lost, once for each of its
     * address objects: at least for peers that have sent a message to the class or have answered
     * it, and are not lost yet. A peer that is met again may be lost again. Messages that the peer
     * sent before are delivered first, or dropped, as when operations fail. It is called in any
     * function of the table, or in one of the plugin's own threads; the class is polled, and a
     * thread that sleeps in poll_wait or on the descriptor is woken in time. `report` NULL ends
     * this: when the call returns, no report is called or still running in another thread. Without
     * a report function the plugin does not watch peers for this purpose. Returns
     * NA_PLUGIN_OPNOTSUPPORTED if the class cannot do this. [any thread] [may not block]
     */
    int32_t (*peer_events_set)(struct na_plugin_class *na_class, na_plugin_peer_lost_fn report,
                               void *arg);
};

#if UINTPTR_MAX == UINT64_MAX
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_peer_events, peer_events_set) == 8);
#endif

#ifdef __cplusplus
}
#endif

#endif /* NA_PLUGIN_PEER_EVENTS_H */
