/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping: each context has an epoll descriptor over the fabric's descriptor, a timer and an
 * eventfd. Another thread writes to the eventfd after a completion for a sleeping context, or for
 * work that only a poll can do.
 */

#include "msg_state.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static void log_no_descriptor(const struct kit_endpoint *endpoint);
static bool wait_watch_fd(int epoll_fd, int operation, int fd, bool is_paused);
static void wait_timer_set(struct msg_endpoint *state);
static uint64_t wait_retry_delay(struct msg_endpoint *state);
static bool wait_has_work(const struct msg_endpoint *state);

int32_t kit_msg_poll_get_fd(struct na_plugin_context *context)
{
    return msg_context(context)->epoll_fd;
}

/* Prepares a sleep. Returns false if a poll has work to do. */
bool kit_msg_wait_arm(struct msg_context *context)
{
    struct kit_endpoint *endpoint = context->endpoint;
    struct msg_endpoint *state = endpoint->state;

    if (wait_has_work(state) || !endpoint->ops->try_wait(endpoint) || state->session.is_marked)
        return false;
    if (!context->armed) {
        context->armed = true;
        state->armed_count++;
    }
    state->is_tick_due = true;
    wait_timer_set(state);
    return true;
}

int32_t kit_msg_wait_setup(struct msg_endpoint *state)
{
    state->timer_fd = -1;
    if (state->is_busy)
        return NA_PLUGIN_SUCCESS;
    state->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (state->timer_fd >= 0)
        return NA_PLUGIN_SUCCESS;
    log_no_descriptor(state->endpoint);
    return NA_PLUGIN_NOMEM;
}

static void log_no_descriptor(const struct kit_endpoint *endpoint)
{
    MSG_LOG_ERROR(endpoint,
                  "no descriptor to wait on (%s); the limit of descriptors (ulimit -n) may be too "
                  "low, or a seccomp filter refuses the call",
                  strerror(errno));
}

int32_t kit_msg_wait_setup_context(struct msg_context *context)
{
    struct kit_endpoint *endpoint = context->endpoint;
    int fabric_fd;

    if (endpoint->state->is_busy || context->epoll_fd >= 0 || endpoint->ops->get_fd == NULL ||
        endpoint->ops->try_wait == NULL)
        return NA_PLUGIN_SUCCESS;
    fabric_fd = endpoint->ops->get_fd(endpoint);
    if (fabric_fd < 0)
        return NA_PLUGIN_SUCCESS;
    context->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    context->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (context->epoll_fd >= 0 && context->event_fd >= 0 &&
        wait_watch_fd(context->epoll_fd, EPOLL_CTL_ADD, fabric_fd, endpoint->state->is_paused) &&
        wait_watch_fd(context->epoll_fd, EPOLL_CTL_ADD, context->event_fd, false) &&
        wait_watch_fd(context->epoll_fd, EPOLL_CTL_ADD, endpoint->state->timer_fd, false))
        return NA_PLUGIN_SUCCESS;
    log_no_descriptor(endpoint);
    kit_msg_wait_teardown_context(context);
    return NA_PLUGIN_NOMEM;
}

void kit_msg_wait_teardown_context(struct msg_context *context)
{
    if (context->epoll_fd >= 0)
        (void) close(context->epoll_fd);
    if (context->event_fd >= 0)
        (void) close(context->event_fd);
    context->epoll_fd = context->event_fd = -1;
}

void kit_msg_wait_pause(struct kit_endpoint *endpoint, bool is_paused)
{
    struct msg_endpoint *state = endpoint->state;

    if (kit_likely(state->is_paused == is_paused))
        return;
    state->is_paused = is_paused;
    for (uint32_t i = 0; i < state->max_contexts; i++)
        if (state->contexts[i].epoll_fd >= 0)
            (void) wait_watch_fd(state->contexts[i].epoll_fd, EPOLL_CTL_MOD,
                                 endpoint->ops->get_fd(endpoint), is_paused);
}

void kit_msg_wait_fd_changed(struct kit_endpoint *endpoint)
{
    struct msg_endpoint *state = endpoint->state;
    int fd = endpoint->ops->get_fd(endpoint);

    for (uint32_t i = 0; fd >= 0 && i < state->max_contexts; i++)
        if (state->contexts[i].epoll_fd >= 0 &&
            !wait_watch_fd(state->contexts[i].epoll_fd, EPOLL_CTL_ADD, fd, state->is_paused))
            log_no_descriptor(endpoint);
}

/* The context polls, so it needs no wakeup. */
void kit_msg_wait_disarm(struct msg_context *context)
{
    struct msg_endpoint *state = context->endpoint->state;
    uint64_t value;
    ssize_t size;

    if (context->armed) {
        context->armed = false;
        state->armed_count--;
    }
    if (!context->signaled)
        return;
    context->signaled = false;
    size = read(context->event_fd, &value, sizeof(value));
    (void) size;
}

/* After a poll the fabric has to be armed again to wake sleeping threads. */
void kit_msg_wait_rearm(struct msg_endpoint *state)
{
    if (wait_has_work(state) || !state->endpoint->ops->try_wait(state->endpoint) ||
        state->session.is_marked)
        kit_msg_wait_wake_any(state);
    else
        wait_timer_set(state);
}

void kit_msg_wait_wake(struct msg_context *context)
{
    const uint64_t one = 1;
    ssize_t size;

    if (context->armed) {
        context->armed = false;
        context->endpoint->state->armed_count--;
    }
    if (context->signaled || context->event_fd < 0)
        return;
    context->signaled = true;
    size = write(context->event_fd, &one, sizeof(one));
    (void) size;
}

/* Wakes one sleeping context. */
void kit_msg_wait_wake_any(struct msg_endpoint *state)
{
    for (uint32_t i = 0; i < state->max_contexts; i++) {
        if (!state->contexts[i].armed)
            continue;
        kit_msg_wait_wake(&state->contexts[i]);
        return;
    }
}

/* Reads an expired timer, so that its descriptor is not readable any more. */
void kit_msg_wait_timer_read(struct msg_endpoint *state, uint64_t now)
{
    uint64_t value;
    ssize_t size;

    state->is_tick_due = false;
    if (state->timer_end == 0 || now < state->timer_end)
        return;
    size = read(state->timer_fd, &value, sizeof(value));
    if (size > 0)
        state->timer_end = 0;
}

static bool wait_watch_fd(int epoll_fd, int operation, int fd, bool is_paused)
{
    struct epoll_event event = {.events = is_paused ? 0 : EPOLLIN};

    return epoll_ctl(epoll_fd, operation, fd, &event) == 0;
}

/* Arms the timer for the next retry or tick that is needed, unless it expires earlier. */
static void wait_timer_set(struct msg_endpoint *state)
{
    struct itimerspec timer = {{0, 0}, {0, 0}};
    uint64_t now, delay;

    if (!kit_list_empty(&state->retry))
        delay = wait_retry_delay(state);
    else if (state->is_paused)
        delay = MSG_PAUSE_NS;
    else if (state->session.waiting != 0 || state->in_flight != 0 || state->cancelling != 0 ||
             state->deferrals.count != 0 || state->deferred_count != 0 ||
             state->session.offers != 0 ||
             (state->session.is_watching && state->session.watch_count != 0))
        delay = KIT_SESSION_TICK_NS;
    else
        return;
    if (state->timer_end != 0 && delay == KIT_SESSION_TICK_NS)
        return;
    now = kit_host->clock_ns();
    if (state->timer_end != 0 && state->timer_end <= now + delay)
        return;
    timer.it_value.tv_nsec = (long) delay;
    if (timerfd_settime(state->timer_fd, 0, &timer, NULL) == 0)
        state->timer_end = now + delay;
}

/* The delay doubles while nothing moves: hundreds of retrying processes would starve their peer. */
static uint64_t wait_retry_delay(struct msg_endpoint *state)
{
    const uint64_t moved = state->counters.frames_sent + state->counters.frames_received;

    if (state->retry_delay == 0 || moved != state->retry_moved)
        state->retry_delay = MSG_RETRY_NS;
    else if (state->timer_end == 0 && state->retry_delay < MSG_RETRY_NS_MAX)
        state->retry_delay *= 2;
    state->retry_moved = moved;
    return state->retry_delay;
}

/* True if a poll has work that needs no event of the fabric. */
static bool wait_has_work(const struct msg_endpoint *state)
{
    return state->copied != NULL || !kit_list_empty(&state->own_frames);
}
