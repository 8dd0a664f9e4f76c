/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines of operations on handles. */
#ifndef HG_DEADLINE_H
#define HG_DEADLINE_H

#include "engine/context_timer.h"
#include "hg/handle.h"

/*
 * Start an operation with a deadline. hg_deadline_begin() adds two parts before any is posted: the
 * timer and the call that starts the operation. When all parts are posted, hg_deadline_started()
 * arms the timer and ends the second one.
 */
void hg_deadline_begin(struct hg_handle *handle, uint32_t deadline_ms);
void hg_deadline_started(struct hg_handle *handle);

/* Arm the timer of a forward whose only part is that it waits; end_ns is set. */
void hg_deadline_wait(struct hg_handle *handle);

/* Returns the milliseconds until the deadline of an operation, at least 1. */
uint32_t hg_deadline_left(const struct hg_handle *handle);

/* One part of an operation with a deadline ended; returns true if it was the last one. */
bool hg_deadline_part_drop(struct hg_handle *handle);

/* One part of an operation ended; returns true if it was the last one. */
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

/* One part of an operation ended; the last one ends the operation. */
static inline void hg_handle_part_done(struct hg_handle *handle)
{
    if (hg_handle_part_drop(handle))
        handle->kind->ended(handle);
}

#endif /* HG_DEADLINE_H */
