/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines of operations on handles. */
#ifndef HG_DEADLINE_H
#define HG_DEADLINE_H

#include "engine/context_timer.h"
#include "hg/handle.h"

/*
 * An operation with a deadline: before its parts are posted, it gets two parts more, of the timer
 * and of who starts it; when all is posted the timer is armed, and the operation may end.
 */
void hg_deadline_begin(struct hg_handle *handle, uint32_t deadline_ms);
void hg_deadline_started(struct hg_handle *handle);

/* A forward whose only part is that it waits for its turn: its end_ns counts from now on. */
void hg_deadline_wait(struct hg_handle *handle);

/* What is left of the time of an operation with a deadline, at least 1 ms. */
uint32_t hg_deadline_left(const struct hg_handle *handle);

/* One part of such an operation ended; true if it was the last one. */
bool hg_deadline_part_drop(struct hg_handle *handle);

/* One part of the operation ended; true if it was the last one. */
static inline bool hg_handle_part_drop(struct hg_handle *handle)
{
    int32_t pending = atomic_load_explicit(&handle->pending, memory_order_acquire);

    if (pending == 1)
        return true;
    if (util_unlikely(pending > HG_PENDING_TIMER))
        return hg_deadline_part_drop(handle);
    if (handle->info.hg_class->is_single_thread) {
        atomic_store_explicit(&handle->pending, pending - 1, memory_order_relaxed);
        return false;
    }
    return atomic_fetch_sub_explicit(&handle->pending, 1, memory_order_acq_rel) == 1;
}

/* One part of the operation ended; with the last one all of it. */
static inline void hg_handle_part_done(struct hg_handle *handle)
{
    if (hg_handle_part_drop(handle))
        handle->kind->ended(handle);
}

#endif /* HG_DEADLINE_H */
