/* SPDX-License-Identifier: BSD-3-Clause */
/* Many contexts driven by one thread with the event API: make progress on ready contexts, arm
 * them, wait for the descriptors of all. */

#include "hg_perf/perf_events.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/tool_endpoint.h"

/* Maximum number of events of one epoll_wait(). */
#define EVENTS_AT_ONCE 64

static hg_return_t item_progress(struct perf_events *events, struct perf_events_item *item,
                                 bool arm);

bool perf_events_open(struct perf_events *events, unsigned int count)
{
    events->items = calloc(count, sizeof(*events->items));
    events->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    events->can_wait = true;
    events->item_count = events->unarmed_count = 0;
    return events->items != NULL && events->epoll_fd >= 0;
}

hg_return_t perf_events_add(struct perf_events *events, hg_context_t *context)
{
    struct perf_events_item *item = &events->items[events->item_count];
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = item};
    int fd = HG_Event_get_wait_fd(context);

    if (fd < 0)
        events->can_wait = false; /* this transport has no descriptor, and can only be polled */
    else if (epoll_ctl(events->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return errno == ENOMEM || errno == ENOSPC ? HG_NOMEM : HG_INVALID_ARG;
    item->context = context;
    item->armed = false;
    events->item_count++;
    events->unarmed_count++;
    return HG_SUCCESS;
}

hg_return_t perf_events_progress(struct perf_events *events, unsigned int timeout_ms)
{
    bool may_wait = events->can_wait && timeout_ms > 0;
    struct epoll_event ready[EVENTS_AT_ONCE];
    hg_return_t ret = HG_SUCCESS;
    int count;

    events->triggered = 0;
    for (unsigned int i = 0;
         i < events->item_count && events->unarmed_count > 0 && ret == HG_SUCCESS; i++) {
        if (!events->items[i].armed)
            ret = item_progress(events, &events->items[i], may_wait);
    }
    /* A callback may be what the caller waits for, so only a round without callbacks may sleep. */
    if (ret != HG_SUCCESS || !may_wait || events->triggered > 0)
        return ret;
    count = epoll_wait(events->epoll_fd, ready, EVENTS_AT_ONCE,
                       events->unarmed_count > 0 ? 0 : (int) timeout_ms);
    if (count < 0 && errno != EINTR)
        return HG_FAULT;
    for (int i = 0; i < count; i++) {
        struct perf_events_item *item = ready[i].data.ptr;

        if (item->armed) {
            item->armed = false;
            events->unarmed_count++;
        }
    }
    return HG_SUCCESS;
}

void perf_events_close(struct perf_events *events)
{
    if (events->epoll_fd >= 0)
        (void) close(events->epoll_fd);
    free(events->items);
}

static hg_return_t item_progress(struct perf_events *events, struct perf_events_item *item,
                                 bool arm)
{
    unsigned int triggered;
    bool may_wait;
    hg_return_t ret = tool_endpoint_event_round(item->context, &triggered, &may_wait);

    events->triggered += triggered;
    if (arm && may_wait) {
        item->armed = true;
        events->unarmed_count--;
    }
    return ret;
}
