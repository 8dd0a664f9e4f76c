/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that are lost. */

#ifndef NA_PEER_LOST_H
#define NA_PEER_LOST_H

#include "na/class.h"

/* Tells the user of those that were reported: na_peer_lost_look() does when there are some. */
void na_peer_lost_run(struct na_class *na_class);

/* After a poll of the plugin, with no lock held. */
static inline void na_peer_lost_look(struct na_class *na_class)
{
    if (util_unlikely(atomic_load_explicit(&na_class->has_lost, memory_order_relaxed)))
        na_peer_lost_run(na_class);
}

/* Before the class is closed. */
void na_peer_lost_end(struct na_class *na_class);

#endif /* NA_PEER_LOST_H */
