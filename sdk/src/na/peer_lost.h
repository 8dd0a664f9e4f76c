/* SPDX-License-Identifier: BSD-3-Clause */
/* Lost peers: the plugin reports them, and the next poll calls the program's callback. */

#ifndef NA_PEER_LOST_H
#define NA_PEER_LOST_H

#include "na/class.h"

/* Calls the callback for each reported peer. Called by na_peer_lost_look() if there is one. */
void na_peer_lost_run(struct na_class *na_class);

/* Called after each poll of the plugin, with no lock held. */
static inline void na_peer_lost_look(struct na_class *na_class)
{
    if (util_unlikely(atomic_load_explicit(&na_class->has_lost, memory_order_relaxed)))
        na_peer_lost_run(na_class);
}

/* Removes the callback and frees what was reported. Called before the class is closed. */
void na_peer_lost_end(struct na_class *na_class);

#endif /* NA_PEER_LOST_H */
