/* SPDX-License-Identifier: BSD-3-Clause */
/* Many contexts driven by one thread: their wait descriptors are in one epoll set. */

#ifndef AMALGAM_PERF_EVENTS_H
#define AMALGAM_PERF_EVENTS_H

#include <stdbool.h>

#include <mercury.h>

struct perf_events_item {
    hg_context_t *context;
    bool armed; /* HG_Event_ready() has allowed to wait for its descriptor */
};

struct perf_events {
    int epoll_fd;
    bool can_wait; /* every context has a descriptor */
    unsigned int item_count;
    unsigned int unarmed_count;
    unsigned int triggered; /* callbacks that ran in this round */
    struct perf_events_item *items;
};

/* Allocates for at most count contexts; false if out of memory or descriptors. */
bool perf_events_open(struct perf_events *events, unsigned int count);

hg_return_t perf_events_add(struct perf_events *events, hg_context_t *context);

/* One round over the contexts that are ready; sleeps at most timeout_ms if none is. */
hg_return_t perf_events_progress(struct perf_events *events, unsigned int timeout_ms);

/* Releases all but the contexts. */
void perf_events_close(struct perf_events *events);

#endif /* AMALGAM_PERF_EVENTS_H */
