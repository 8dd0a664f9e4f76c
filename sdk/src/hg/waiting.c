/* SPDX-License-Identifier: BSD-3-Clause */
#include "hg/waiting.h"

#include "hg/class.h"
#include "hg/deadline.h"

static struct hg_handle **waiting_place(struct hg_waiting *waiting, const struct hg_handle *handle);

void hg_waiting_init(struct hg_waiting *waiting)
{
    waiting->first = NULL;
    waiting->last = &waiting->first;
}

void hg_waiting_defer(struct hg_handle *handle, size_t payload, uint8_t flags)
{
    struct hg_rpc_class *hg_class = hg_rpc_class(handle->info.hg_class);

    handle->deferred_order =
        atomic_fetch_add_explicit(&hg_class->deferrals, 1, memory_order_relaxed);
    handle->deferred_payload = payload;
    handle->deferred_flags = flags;
    handle->deferred_deadline_ms = handle->deadline_ms;
    if (handle->deadline_ms != 0)
        handle->end_ns = hg_clock_ns() + handle->deadline_ms * HG_NS_PER_MS;
}

void hg_waiting_add(struct hg_waiting *waiting, struct hg_handle *handle)
{
    struct hg_handle **link = waiting_place(waiting, handle);

    atomic_store_explicit(&handle->pending, 1, memory_order_relaxed);
    handle->next_waiting = *link;
    handle->waiting_link = link;
    if (handle->next_waiting != NULL)
        handle->next_waiting->waiting_link = &handle->next_waiting;
    else
        waiting->last = &handle->next_waiting;
    *handle->waiting_link = handle;
    if (handle->deferred_deadline_ms != 0)
        hg_deadline_wait(handle);
}

/* Returns the link that keeps the order: most forwards are the last, unless queued again. */
static struct hg_handle **waiting_place(struct hg_waiting *waiting, const struct hg_handle *handle)
{
    struct hg_handle **link = &waiting->first;

    if (waiting->first != NULL &&
        util_container_of(waiting->last, struct hg_handle, next_waiting)->deferred_order <
            handle->deferred_order)
        return waiting->last;
    while (*link != NULL && (*link)->deferred_order < handle->deferred_order)
        link = &(*link)->next_waiting;
    return link;
}

void hg_waiting_remove(struct hg_waiting *waiting, struct hg_handle *handle)
{
    *handle->waiting_link = handle->next_waiting;
    if (handle->next_waiting != NULL)
        handle->next_waiting->waiting_link = handle->waiting_link;
    else
        waiting->last = handle->waiting_link;
}
