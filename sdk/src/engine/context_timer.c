/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/context_timer.h"

#include "engine/log.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

static bool hg_timers_open_fd(hg_context_t *context);

void hg_context_timerfd_set(hg_context_t *context)
{
    struct hg_timers *timers = &context->timers;
    struct itimerspec spec = {{0, 0}, {0, 0}};
    uint64_t next;

    if (util_likely(!hg_timers_are_armed(timers)))
        return;
    (void) pthread_mutex_lock(&timers->lock);
    next = atomic_load(&timers->next_ns);
    if (next < atomic_load(&timers->programmed_ns) && hg_timers_open_fd(context)) {
        spec.it_value.tv_sec = (time_t) (next / UINT64_C(1000000000));
        spec.it_value.tv_nsec = (long) (next % UINT64_C(1000000000));
        if (timerfd_settime(timers->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL) == 0)
            atomic_store(&timers->programmed_ns, next);
    }
    (void) pthread_mutex_unlock(&timers->lock);
}

void hg_context_timerfd_clear(hg_context_t *context)
{
    struct hg_timers *timers = &context->timers;
    uint64_t count;

    if (util_likely(atomic_load_explicit(&timers->programmed_ns, memory_order_relaxed) ==
                    HG_TIMER_NEVER))
        return;
    (void) pthread_mutex_lock(&timers->lock);
    /* An expired timerfd stays readable until it is read, even if its timer was disarmed. */
    if (atomic_load(&timers->programmed_ns) <= hg_clock_ns()) {
        (void) !read(timers->timer_fd, &count, sizeof(count));
        atomic_store(&timers->programmed_ns, HG_TIMER_NEVER);
    }
    (void) pthread_mutex_unlock(&timers->lock);
}

/*
 * Create the timerfd; the lock of the timers is held. Without it the context's descriptor does not
 * wake for deadlines.
 */
static bool hg_timers_open_fd(hg_context_t *context)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd;

    if (context->timers.timer_fd >= 0)
        return true;
    fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    event.data.fd = fd;
    if (fd < 0 || epoll_ctl(context->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        HG_LOG_WARNING("cannot wait for deadlines on a descriptor; a program that waits on that "
                       "of HG_Event_get_wait_fd() sees them late");
        if (fd >= 0)
            (void) close(fd);
        return false;
    }
    context->timers.timer_fd = fd;
    return true;
}
