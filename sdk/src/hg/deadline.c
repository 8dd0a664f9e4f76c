/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deadlines: how programs set them, and how a context waits for the next one.
 *
 * Who sleeps in progress does so at the most until the next deadline; who waits on the context's
 * descriptor is woken by a timer's descriptor, which is in its epoll set from the first time on
 * that it is needed. It is programmed by who goes to sleep, so that an operation that ends in time
 * costs no system call.
 */
#include "hg/hg_private.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

static bool hg_timers_open_fd(hg_context_t *context);

hg_return_t HG_Class_set_default_deadline(hg_class_t *hg_class, unsigned int deadline_ms)
{
    if (hg_class_is_refused(hg_class, __func__))
        return HG_PERMISSION;
    if (hg_class == NULL) {
        HG_LOG_ERROR("cannot set a default deadline of %u ms: the class is NULL", deadline_ms);
        return HG_INVALID_ARG;
    }
    atomic_store_explicit(&hg_class->deadline_ms, deadline_ms, memory_order_relaxed);
    return HG_SUCCESS;
}

unsigned int HG_Class_get_default_deadline(const hg_class_t *hg_class)
{
    return hg_class != NULL ? hg_class_get_deadline(hg_class) : 0;
}

hg_return_t HG_Class_set_overflow_timeout(hg_class_t *hg_class, unsigned int timeout_ms)
{
    if (hg_class_is_refused(hg_class, __func__))
        return HG_PERMISSION;
    if (hg_class == NULL) {
        HG_LOG_ERROR("cannot set an overflow time-out of %u ms: the class is NULL", timeout_ms);
        return HG_INVALID_ARG;
    }
    atomic_store_explicit(&hg_class->overflow_ms, timeout_ms, memory_order_relaxed);
    return HG_SUCCESS;
}

hg_return_t HG_Set_deadline(hg_handle_t handle, unsigned int deadline_ms)
{
    if (hg_handle_is_refused(handle, __func__))
        return HG_PERMISSION;
    if (handle == HG_HANDLE_NULL) {
        HG_LOG_ERROR("cannot set a deadline of %u ms: the handle is NULL", deadline_ms);
        return HG_INVALID_ARG;
    }
    handle->deadline_ms = deadline_ms;
    return HG_SUCCESS;
}

unsigned int HG_Get_deadline(hg_handle_t handle)
{
    return handle != HG_HANDLE_NULL ? handle->deadline_ms : 0;
}

void hg_context_arm(hg_context_t *context, struct hg_timer *timer, uint64_t at_ns)
{
    hg_timers_add(&context->timers, timer, hg_clock_ns(), at_ns);
}

bool hg_context_disarm(hg_context_t *context, struct hg_timer *timer)
{
    return hg_timers_remove(&context->timers, timer);
}

void hg_context_expedite(hg_context_t *context, struct hg_timer *timer, uint64_t at_ns)
{
    hg_timers_expedite(&context->timers, timer, at_ns);
}

void UTIL_COLD hg_context_fire(hg_context_t *context)
{
    const uint64_t now = hg_clock_ns();
    struct hg_timer *due, *timer;

    if (now < atomic_load_explicit(&context->timers.next_ns, memory_order_relaxed))
        return;
    due = hg_timers_advance(&context->timers, now);
    if (due == NULL)
        return;
    for (timer = due; timer != NULL; timer = timer->next)
        timer->fire(timer);
    /* Most transports end at once what is cancelled. */
    hg_context_trigger_na(context);
    while (due != NULL) {
        timer = due;
        due = timer->next;
        timer->finish(timer);
    }
}

bool hg_context_is_due(hg_context_t *context)
{
    return hg_timers_are_armed(&context->timers) &&
           atomic_load(&context->timers.next_ns) <= hg_clock_ns();
}

void hg_context_program(hg_context_t *context)
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

void hg_context_unprogram(hg_context_t *context)
{
    struct hg_timers *timers = &context->timers;
    uint64_t count;

    if (util_likely(atomic_load_explicit(&timers->programmed_ns, memory_order_relaxed) ==
                    HG_TIMER_NEVER))
        return;
    (void) pthread_mutex_lock(&timers->lock);
    /* Readable, although what it was programmed for may have ended: not for ever. */
    if (atomic_load(&timers->programmed_ns) <= hg_clock_ns()) {
        (void) !read(timers->timer_fd, &count, sizeof(count));
        atomic_store(&timers->programmed_ns, HG_TIMER_NEVER);
    }
    (void) pthread_mutex_unlock(&timers->lock);
}

/* The lock of the timers is held. Without one the context's descriptor knows no deadlines. */
static bool hg_timers_open_fd(hg_context_t *context)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd;

    if (context->timers.timer_fd >= 0)
        return true;
    fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    event.data.fd = fd;
    if (fd < 0 || epoll_ctl(context->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        HG_LOG_WARNING("cannot wait for deadlines on a descriptor; who waits on that of "
                       "HG_Event_get_wait_fd() sees them late");
        if (fd >= 0)
            (void) close(fd);
        return false;
    }
    context->timers.timer_fd = fd;
    return true;
}
