/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An extension of the plugin ABI: notice of peers that are lost, also while no operation waits for
 * them. NA_Class_set_peer_lost() has it. Without it users learn of a death from operations that
 * fail. Since 1.2. The rules at the top of na_plugin.h hold here, too.
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
 * Takes a peer that is lost: its process has ended, it has closed its endpoint, another process has
 * taken its place, or there is no way to it any more. `addr` is a reference to it which passes to
 * the core (it ends in addr_free), `status` the one with which operations fail that wait for it
 * (NA_PLUGIN_HOSTUNREACH). Never calls back into the plugin, so locks may be held. [any thread]
 */
typedef void (*na_plugin_peer_lost_fn)(void *arg, struct na_plugin_addr *addr, int32_t status);

struct na_plugin_peer_events {
    struct na_plugin_extension extension;

    /*
     * From now on `report` is called, with `arg`, for each peer that is lost, once for each address
     * object of it: those that have sent something to the class or have answered it, as far as they
     * have not been lost yet; others may be reported. A peer that is met again may be lost again.
     * What the peer sent before is delivered first, or dropped, as when operations fail. It is
     * called in any function of the table, or in a thread of the plugin's own; the class is polled,
     * and who sleeps in poll_wait or on the descriptor wakes in time to notice. With `report` NULL
     * it ends: none is called, or still runs in another thread, when this returns. The plugin
     * watches nobody for it as long as nobody asks. Returns NA_PLUGIN_OPNOTSUPPORTED where a class
     * of it cannot. [any thread] [may not block]
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
