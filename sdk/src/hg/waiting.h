/* SPDX-License-Identifier: BSD-3-Clause */
/* Forwards that are started later, in order: for their turn (flow.h), or a session (remote.h). */
#ifndef HG_WAITING_H
#define HG_WAITING_H

#include "hg/handle.h"

/* A list of handles; whoever has it guards it. */
struct hg_waiting {
    struct hg_handle *first; /* linked by next_waiting */
    struct hg_handle **last; /* where the next one is linked */
};

void hg_waiting_init(struct hg_waiting *waiting);

/* Keep what a forward needs to be started later; its time begins. */
void hg_waiting_defer(struct hg_handle *handle, size_t payload, uint8_t flags);

/*
 * From here on a deadline or a cancel may end the forward. Its one part is that it waits. What
 * finds the list from the handle is set before.
 */
void hg_waiting_add(struct hg_waiting *waiting, struct hg_handle *handle, bool is_first);

void hg_waiting_remove(struct hg_waiting *waiting, struct hg_handle *handle);

#endif /* HG_WAITING_H */
