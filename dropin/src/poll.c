/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sets of descriptors, by epoll(7). The kernel keeps the data that a program wants back.
 */
#include "mercury_poll.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Events that are fetched at a time. */
#define HG_POLL_EVENTS 64u

struct hg_poll_set {
    int fd;
    pthread_mutex_t lock;
    unsigned int count; /* descriptors in the set */
};

static uint32_t hg_poll_to_epoll(uint32_t events);
static uint32_t hg_poll_from_epoll(uint32_t events);

hg_poll_set_t *hg_poll_create(void)
{
    hg_poll_set_t *poll_set = calloc(1, sizeof(*poll_set));

    if (poll_set == NULL)
        return NULL;
    poll_set->fd = epoll_create1(EPOLL_CLOEXEC);
    if (poll_set->fd < 0) {
        free(poll_set);
        return NULL;
    }
    (void) pthread_mutex_init(&poll_set->lock, NULL);
    return poll_set;
}

int hg_poll_destroy(hg_poll_set_t *poll_set)
{
    unsigned int count;

    if (poll_set == NULL)
        return HG_UTIL_SUCCESS;
    (void) pthread_mutex_lock(&poll_set->lock);
    count = poll_set->count;
    (void) pthread_mutex_unlock(&poll_set->lock);
    if (count > 0)
        return HG_UTIL_FAIL;
    (void) close(poll_set->fd);
    (void) pthread_mutex_destroy(&poll_set->lock);
    free(poll_set);
    return HG_UTIL_SUCCESS;
}

int hg_poll_get_fd(const hg_poll_set_t *poll_set)
{
    return poll_set != NULL ? poll_set->fd : HG_UTIL_FAIL;
}

int hg_poll_add(hg_poll_set_t *poll_set, int fd, struct hg_poll_event *event)
{
    struct epoll_event kernel_event = {0};
    int ret = HG_UTIL_FAIL;

    if (poll_set == NULL || event == NULL)
        return HG_UTIL_FAIL;
    kernel_event.events = hg_poll_to_epoll(event->events);
    kernel_event.data.u64 = event->data.u64;
    (void) pthread_mutex_lock(&poll_set->lock);
    if (epoll_ctl(poll_set->fd, EPOLL_CTL_ADD, fd, &kernel_event) == 0) {
        poll_set->count++;
        ret = HG_UTIL_SUCCESS;
    }
    (void) pthread_mutex_unlock(&poll_set->lock);
    return ret;
}

int hg_poll_remove(hg_poll_set_t *poll_set, int fd)
{
    int ret = HG_UTIL_FAIL;

    if (poll_set == NULL)
        return HG_UTIL_FAIL;
    (void) pthread_mutex_lock(&poll_set->lock);
    if (epoll_ctl(poll_set->fd, EPOLL_CTL_DEL, fd, NULL) == 0) {
        poll_set->count--;
        ret = HG_UTIL_SUCCESS;
    }
    (void) pthread_mutex_unlock(&poll_set->lock);
    return ret;
}

int hg_poll_wait(hg_poll_set_t *poll_set, unsigned int timeout, unsigned int max_events,
                 struct hg_poll_event events[], unsigned int *actual_events)
{
    unsigned int room = max_events < HG_POLL_EVENTS ? max_events : HG_POLL_EVENTS;
    struct epoll_event kernel_events[HG_POLL_EVENTS];
    int count;

    if (poll_set == NULL || actual_events == NULL || (max_events > 0 && events == NULL))
        return HG_UTIL_FAIL;
    *actual_events = 0;
    if (room == 0)
        return HG_UTIL_SUCCESS;
    count = epoll_wait(poll_set->fd, kernel_events, (int) room,
                       timeout <= INT_MAX ? (int) timeout : -1);
    if (count < 0 && errno == EINTR) {
        events[0].events = HG_POLLINTR;
        events[0].data.u64 = 0;
        *actual_events = 1;
        return HG_UTIL_SUCCESS;
    }
    if (count < 0)
        return HG_UTIL_FAIL;
    for (int i = 0; i < count; i++) {
        events[i].events = hg_poll_from_epoll(kernel_events[i].events);
        events[i].data.u64 = kernel_events[i].data.u64;
    }
    *actual_events = (unsigned int) count;
    return HG_UTIL_SUCCESS;
}

static uint32_t hg_poll_to_epoll(uint32_t events)
{
    return ((events & HG_POLLIN) ? (uint32_t) EPOLLIN : 0) |
           ((events & HG_POLLOUT) ? (uint32_t) EPOLLOUT : 0);
}

static uint32_t hg_poll_from_epoll(uint32_t events)
{
    uint32_t ret = 0;

    if (events & EPOLLIN)
        ret |= HG_POLLIN;
    if (events & EPOLLOUT)
        ret |= HG_POLLOUT;
    if (events & EPOLLERR)
        ret |= HG_POLLERR;
    if (events & EPOLLHUP)
        ret |= HG_POLLHUP;
    return ret;
}
