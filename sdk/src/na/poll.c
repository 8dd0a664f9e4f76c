/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress, with and without waiting. An error of one peer never fails a poll. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* ppoll */
#endif

#include "na/log.h"
#include "na/operation.h"
#include "na/peer_lost.h"
#include "util/clock.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS        1000000u
#define BACKOFF_MIN_NS   1000u    /* first sleep where the plugin has no descriptor to wait on */
#define BACKOFF_MAX_NS   1000000u /* longest such sleep */
#define SPINS_BEFORE_NAP 1000

static na_return_t context_poll(struct na_class *na_class, struct na_context *context);
static na_return_t poll_ended(const struct na_class *na_class, int32_t status);
static na_return_t context_wait(struct na_class *na_class, struct na_context *context,
                                unsigned int timeout_ms);
static na_return_t wait_once(struct na_class *na_class, struct na_context *context,
                             uint64_t left_ns, unsigned int round);
static void wait_on_descriptor(struct na_context *context, uint64_t left_ns);
static void wait_with_backoff(uint64_t left_ns, unsigned int round);
static bool status_is_harmless(int32_t status);
static na_return_t args_refused(const struct na_class *na_class, const struct na_context *context);

int NA_Poll_get_fd(na_class_t *na_class, na_context_t *context)
{
    if (na_class_fork_refused(na_class, __func__))
        return -1;
    if (na_class == NULL || context == NULL || na_class->no_block ||
        na_class->table.poll_get_fd == NULL)
        return -1;
    return na_class->table.poll_get_fd(context->plugin_context);
}

bool NA_Poll_try_wait(na_class_t *na_class, na_context_t *context)
{
    if (util_unlikely(na_class == NULL || context == NULL || na_class->no_block ||
                      na_class_is_inherited(na_class)))
        return false;
    if (!mpsc_queue_is_empty(&context->queue))
        return false;
    if (na_class->table.poll_try_wait != NULL &&
        na_class->table.poll_try_wait(context->plugin_context) == 0)
        return false;
    /* Another thread may have completed an operation since the first check. */
    return mpsc_queue_is_empty(&context->queue);
}

na_return_t NA_Poll(na_class_t *na_class, na_context_t *context, unsigned int *count_p)
{
    na_return_t ret;

    if (util_unlikely(na_class == NULL || context == NULL || context->na_class != na_class))
        return args_refused(na_class, context);
    if (util_likely(count_p == NULL))
        return context_poll(na_class, context);
    ret = context_poll(na_class, context);
    *count_p = NA_Context_get_completion_count(context);
    return ret;
}

na_return_t NA_Poll_wait(na_class_t *na_class, na_context_t *context, unsigned int timeout_ms,
                         unsigned int *count_p)
{
    na_return_t ret;

    if (util_unlikely(na_class == NULL || context == NULL || context->na_class != na_class))
        return args_refused(na_class, context);
    ret = context_poll(na_class, context);
    if (ret == NA_SUCCESS && mpsc_queue_is_empty(&context->queue))
        ret = timeout_ms > 0 ? context_wait(na_class, context, timeout_ms) : NA_TIMEOUT;
    if (count_p != NULL)
        *count_p = NA_Context_get_completion_count(context);
    return ret;
}

na_return_t NA_Progress(na_class_t *na_class, na_context_t *context, unsigned int timeout_ms)
{
    return NA_Poll_wait(na_class, context, timeout_ms, NULL);
}

static inline na_return_t context_poll(struct na_class *na_class, struct na_context *context)
{
    uint32_t count = 0;
    int32_t status = na_class->table.poll(context->plugin_context, &count);

    na_peer_lost_look(na_class);
    return util_likely(status == NA_PLUGIN_SUCCESS) ? NA_SUCCESS : poll_ended(na_class, status);
}

static UTIL_COLD na_return_t poll_ended(const struct na_class *na_class, int32_t status)
{
    if (status_is_harmless(status))
        return NA_SUCCESS;
    if (na_class_fork_refused(na_class, "NA_Poll"))
        return NA_PERMISSION;
    NA_LOG_ERROR("plugin %s cannot go on: %s", na_class->transport->name,
                 NA_Error_to_string(na_return_from_plugin(status)));
    return na_return_from_plugin(status);
}

/* `waiters` is raised before the queue is checked, and a thread that completes an operation pushes
 * it before it reads `waiters`: at least one of the two sees the other, and no wake-up is lost. */
static na_return_t context_wait(struct na_class *na_class, struct na_context *context,
                                unsigned int timeout_ms)
{
    const uint64_t end = util_clock_ns() + (uint64_t) timeout_ms * NS_PER_MS;
    na_return_t ret = NA_SUCCESS;
    unsigned int round = 0;

    atomic_fetch_add(&context->waiters, 1);
    while (ret == NA_SUCCESS && mpsc_queue_is_empty(&context->queue)) {
        const uint64_t now = util_clock_ns();

        if (now >= end)
            ret = NA_TIMEOUT;
        else
            ret = wait_once(na_class, context, end - now, round++);
    }
    atomic_fetch_sub(&context->waiters, 1);
    return ret;
}

static na_return_t wait_once(struct na_class *na_class, struct na_context *context,
                             uint64_t left_ns, unsigned int round)
{
    const uint64_t left_ms = (left_ns + NS_PER_MS - 1) / NS_PER_MS;
    uint32_t count = 0;
    int32_t status;

    if (na_class->no_block) {
        util_cpu_relax();
        return context_poll(na_class, context);
    }
    if (na_class->table.poll_wait != NULL) {
        status = na_class->table.poll_wait(context->plugin_context, (uint32_t) left_ms, &count);
        na_peer_lost_look(na_class);
        if (status == NA_PLUGIN_SUCCESS || status_is_harmless(status))
            return NA_SUCCESS;
        NA_LOG_ERROR("plugin %s cannot wait: %s", na_class->transport->name,
                     NA_Error_to_string(na_return_from_plugin(status)));
        return na_return_from_plugin(status);
    }
    if (context->wait_fd < 0)
        wait_with_backoff(left_ns, round);
    else if (NA_Poll_try_wait(na_class, context))
        wait_on_descriptor(context, left_ns);
    return context_poll(na_class, context);
}

static void wait_on_descriptor(struct na_context *context, uint64_t left_ns)
{
    struct pollfd fds[2] = {{.fd = context->wait_fd, .events = POLLIN},
                            {.fd = context->wake_fd, .events = POLLIN}};
    const struct timespec timeout = {.tv_sec = (time_t) (left_ns / 1000000000u),
                                     .tv_nsec = (long) (left_ns % 1000000000u)};
    uint64_t value;
    ssize_t got;

    if (ppoll(fds, 2, &timeout, NULL) > 0 && fds[1].revents != 0) {
        got = read(context->wake_fd, &value, sizeof(value));
        (void) got; /* fails if another waiter has read it */
    }
}

/* Without a descriptor: returns at once for the first rounds, then sleeps longer and longer. */
static void wait_with_backoff(uint64_t left_ns, unsigned int round)
{
    struct timespec nap = {0, BACKOFF_MAX_NS};

    if (round < SPINS_BEFORE_NAP) {
        util_cpu_relax();
        return;
    }
    if (round - SPINS_BEFORE_NAP < 10)
        nap.tv_nsec = (long) BACKOFF_MIN_NS << (round - SPINS_BEFORE_NAP);
    if ((uint64_t) nap.tv_nsec > left_ns)
        nap.tv_nsec = (long) left_ns;
    (void) nanosleep(&nap, NULL);
}

static bool status_is_harmless(int32_t status)
{
    return status == NA_PLUGIN_TIMEOUT || status == NA_PLUGIN_AGAIN ||
           status == NA_PLUGIN_INTERRUPT;
}

static UTIL_COLD na_return_t args_refused(const struct na_class *na_class,
                                          const struct na_context *context)
{
    NA_LOG_ERROR("context %p is not of class %p; pass a class and a context of it",
                 (const void *) context, (const void *) na_class);
    return NA_INVALID_ARG;
}
