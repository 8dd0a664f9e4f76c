/* SPDX-License-Identifier: BSD-3-Clause */
#include "hg/waiting.h"

#include "hg/deadline.h"

void hg_waiting_init(struct hg_waiting *waiting)
{
    waiting->first = NULL;
    waiting->last = &waiting->first;
}

void hg_waiting_defer(struct hg_handle *handle, size_t payload, uint8_t flags)
{
    handle->deferred_payload = payload;
    handle->deferred_flags = flags;
    handle->deferred_deadline_ms = handle->deadline_ms;
    if (handle->deadline_ms != 0)
        handle->end_ns = hg_clock_ns() + handle->deadline_ms * HG_NS_PER_MS;
}

void hg_waiting_add(struct hg_waiting *waiting, struct hg_handle *handle, bool is_first)
{
    atomic_store_explicit(&handle->pending, 1, memory_order_relaxed);
    handle->next_waiting = is_first ? waiting->first : NULL;
    handle->waiting_link = is_first ? &waiting->first : waiting->last;
    if (handle->next_waiting != NULL)
        handle->next_waiting->waiting_link = &handle->next_waiting;
    else
        waiting->last = &handle->next_waiting;
    *handle->waiting_link = handle;
    if (handle->deferred_deadline_ms != 0)
        hg_deadline_wait(handle);
}

void hg_waiting_remove(struct hg_waiting *waiting, struct hg_handle *handle)
{
    *handle->waiting_link = handle->next_waiting;
    if (handle->next_waiting != NULL)
        handle->next_waiting->waiting_link = handle->waiting_link;
    else
        waiting->last = handle->waiting_link;
}
