/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues of deferred forwards, which wait for their turn (flow.h) or a session (remote.h). */
#ifndef HG_WAITING_H
#define HG_WAITING_H

#include "hg/handle.h"

/* A queue of handles, guarded by a lock of its owner. */
struct hg_waiting {
    struct hg_handle *first; /* linked by next_waiting */
    struct hg_handle **last; /* where the next one is linked */
};

void hg_waiting_init(struct hg_waiting *waiting);

/* Save what a forward needs to be started later; its order and deadline count from here on. */
void hg_waiting_defer(struct hg_handle *handle, size_t payload, uint8_t flags);

/*
 * Queue a forward, in the order in which forwards were deferred; a forward that is queued again
 * gets its old place. From here on a deadline or a cancel may end it, and must find the queue: the
 * caller has set the handle's `flow` or `remote` before. Waiting is the only part of the operation.
 */
void hg_waiting_add(struct hg_waiting *waiting, struct hg_handle *handle);

void hg_waiting_remove(struct hg_waiting *waiting, struct hg_handle *handle);

#endif /* HG_WAITING_H */
