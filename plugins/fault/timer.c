/* SPDX-License-Identifier: BSD-3-Clause */
/* A timer beside the wrapped plugin's descriptor, for deferred operations and refused cancels. */

#include "fault.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)

static uint64_t first_due_ns(const struct fault_context *context);
static bool epoll_add(int epoll_fd, int fd);

bool fault_timer_open(struct fault_context *context)
{
    const struct fault_class *fault_class = context->fault_class;

    if (!fault_class->has_faults || !fault_class->may_sleep ||
        fault_class->inner->poll_get_fd == NULL)
        return true;
    context->inner_fd = fault_class->inner->poll_get_fd(context->inner);
    if (context->inner_fd < 0)
        return true;
    context->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    context->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (context->timer_fd >= 0 && context->epoll_fd >= 0 &&
        epoll_add(context->epoll_fd, context->inner_fd) &&
        epoll_add(context->epoll_fd, context->timer_fd))
        return true;
    FAULT_ERROR(
        "no descriptor to wait on (%s); the limit of descriptors (ulimit -n) may be too low, "
        "or a seccomp filter refuses the call",
        strerror(errno));
    fault_timer_close(context);
    return false;
}

void fault_timer_close(struct fault_context *context)
{
    if (context->timer_fd >= 0)
        (void) close(context->timer_fd);
    if (context->epoll_fd >= 0)
        (void) close(context->epoll_fd);
    context->timer_fd = context->epoll_fd = -1;
}

void fault_timer_forget_inner(struct fault_context *context)
{
    if (context->epoll_fd >= 0)
        (void) epoll_ctl(context->epoll_fd, EPOLL_CTL_DEL, context->inner_fd, NULL);
}

/* Setting the timer also makes its descriptor unreadable. */
void fault_timer_update(struct fault_context *context)
{
    const uint64_t due_ns = first_due_ns(context);
    struct itimerspec time = {{0, 0}, {0, 0}};

    if (context->timer_fd < 0 || due_ns == context->armed_ns)
        return;
    if (due_ns != UINT64_MAX) {
        const uint64_t at_ns = due_ns > 0 ? due_ns : 1; /* 0 would disarm it */

        time.it_value.tv_sec = (time_t) (at_ns / NS_PER_S);
        time.it_value.tv_nsec = (long) (at_ns % NS_PER_S);
    }
    (void) timerfd_settime(context->timer_fd, TFD_TIMER_ABSTIME, &time, NULL);
    context->armed_ns = due_ns;
}

bool fault_timer_is_due(struct fault_context *context)
{
    bool is_due;

    (void) pthread_mutex_lock(&context->fault_class->state);
    is_due = first_due_ns(context) <= kit_host->clock_ns();
    (void) pthread_mutex_unlock(&context->fault_class->state);
    return is_due;
}

/* The class's `state` is held. */
static uint64_t first_due_ns(const struct fault_context *context)
{
    const struct kit_link *link = kit_list_first(&context->cancels);
    uint64_t due_ns = context->paths->due_ns;

    if (atomic_load(&context->fault_class->dying) && !atomic_load(&context->gone))
        return 0;
    if (link != NULL) {
        const struct fault_op *op = kit_container(link, struct fault_op, state_link);

        if (op->cancel_due_ns < due_ns)
            due_ns = op->cancel_due_ns;
    }
    return due_ns;
}

static bool epoll_add(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}
