/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a context sleeps on, and what ends its sleep. Each context has a datagram socket beside the
 * segment: a sender that finds the context asleep sends it one byte. The wait descriptor is an
 * epoll of that socket and of a timer, which ticks only while something depends on a peer.
 */

#include "sm.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

static int32_t sm_wake_socket_make(struct na_plugin_context *context);
static int32_t sm_wake_descriptor_make(struct na_plugin_context *context);
static int sm_wake_send_from(int fd, const struct sockaddr_un *address);

int32_t sm_wake_setup(struct na_plugin_context *context)
{
    int32_t ret = sm_wake_socket_make(context);

    if (ret == NA_PLUGIN_SUCCESS && !context->na_class->busy)
        ret = sm_wake_descriptor_make(context);
    return ret;
}

/* Keeps the socket's file, which in the child of a fork is the parent's. */
void sm_wake_close(struct na_plugin_context *context)
{
    int *const fds[] = {&context->epoll_fd, &context->timer_fd, &context->wake_fd};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (*fds[i] >= 0)
            (void) close(*fds[i]);
        *fds[i] = -1;
    }
}

void sm_wake_teardown(struct na_plugin_context *context)
{
    if (context->wake_fd >= 0)
        (void) unlink(context->wake_path); /* we hold the segment's lock */
    sm_wake_close(context);
}

void sm_wake(struct na_plugin_context *context)
{
    sm_store_release(&context->woken, 1);
    sm_context_signal(context);
}

/* Wakes a sleeper of this context, so that it polls. */
void sm_context_kick(struct na_plugin_context *context)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&context->armed, memory_order_seq_cst) != 0)
        sm_context_signal(context);
}

void sm_context_signal(struct na_plugin_context *context)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (context->wake_fd < 0)
        return;
    memcpy(address.sun_path, context->wake_path, sizeof(address.sun_path));
    (void) sm_wake_send(context->na_class, &address);
}

/* True when senders need no fence, because a sleeper can run membarrier on all of them. */
bool sm_membarrier_register(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}

/*
 * Called between an announcement and a poll: either a sender sees the announcement, or the poll
 * sees its message. False when the system refuses membarrier, so that neither may happen.
 */
bool sm_barrier(struct na_plugin_class *na_class)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (!na_class->membarrier ||
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0)
        return true;
    if (!atomic_exchange_explicit(&na_class->barrier_refused, true, memory_order_relaxed))
        SM_LOG_WARNING(
            "membarrier is refused by now (%s): waiting polls instead of sleeping; allow "
            "it, or refuse it before the endpoint is opened",
            strerror(errno));
    return false;
}

static int32_t sm_wake_socket_make(struct na_plugin_context *context)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    sm_wake_path(context->wake_path, context->na_class->name, &context->na_class->registry.secret,
                 context->id);
    memcpy(address.sun_path, context->wake_path, sizeof(address.sun_path));
    context->wake_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (context->wake_fd < 0) {
        SM_LOG_ERROR("no socket (%s)%s", strerror(errno), sm_error_hint(errno));
        return NA_PLUGIN_NOMEM;
    }
    (void) unlink(context->wake_path); /* a stale file, since we hold the segment's lock */
    /* bind() makes the file with the socket's mode. */
    if (fchmod(context->wake_fd, 0600) != 0 ||
        bind(context->wake_fd, (struct sockaddr *) &address, sizeof(address)) != 0) {
        SM_LOG_ERROR("%s cannot be made (%s)%s", context->wake_path, strerror(errno),
                     sm_error_hint(errno));
        return errno == ENOSPC ? NA_PLUGIN_NOMEM : NA_PLUGIN_ACCESS;
    }
    return NA_PLUGIN_SUCCESS;
}

static int32_t sm_wake_descriptor_make(struct na_plugin_context *context)
{
    struct epoll_event event = {.events = EPOLLIN};

    context->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    context->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (context->timer_fd < 0 || context->epoll_fd < 0 ||
        epoll_ctl(context->epoll_fd, EPOLL_CTL_ADD, context->wake_fd, &event) != 0 ||
        epoll_ctl(context->epoll_fd, EPOLL_CTL_ADD, context->timer_fd, &event) != 0) {
        SM_LOG_ERROR("no descriptor to wait on (%s)%s", strerror(errno), sm_error_hint(errno));
        return NA_PLUGIN_NOMEM;
    }
    return NA_PLUGIN_SUCCESS;
}

/*
 * Sends a byte to a wake socket. Returns 0 or errno. Unread bytes are charged to the socket that
 * sent them: when send_fd has no budget left, this byte is sent by a new socket. A socket with a
 * full queue needs no byte to be readable.
 */
int sm_wake_send(const struct na_plugin_class *na_class, const struct sockaddr_un *address)
{
    int fd, error = sm_wake_send_from(na_class->send_fd, address);

    if (error != EAGAIN && error != ENOBUFS)
        return error;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error;
    error = sm_wake_send_from(fd, address);
    (void) close(fd);
    return error == EAGAIN ? 0 : error;
}

static int sm_wake_send_from(int fd, const struct sockaddr_un *address)
{
    ssize_t ret;

    do {
        ret = sendto(fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *) address,
                     sizeof(*address));
    } while (ret < 0 && errno == EINTR);
    return ret < 0 ? errno : 0;
}

/* Replaces our area's flags, except CLOSED and GONE. */
void sm_wake_set_flags(struct na_plugin_context *context, uint32_t flags)
{
    _Atomic uint32_t *shared = &context->area->flags;
    uint32_t before = sm_load(shared);
    const uint32_t kept = SM_CONTEXT_CLOSED | SM_CONTEXT_GONE;

    while (!atomic_compare_exchange_weak_explicit(shared, &before, (before & kept) | flags,
                                                  memory_order_seq_cst, memory_order_relaxed))
        continue;
}

/* The timer runs across sleeps while an operation needs it: no system call for each sleep. */
void sm_wake_timer(struct na_plugin_context *context, bool wanted)
{
    struct itimerspec spec = {0};

    if ((sm_load(&context->timer_armed) != 0) == wanted)
        return;
    if (wanted) {
        spec.it_interval.tv_nsec = (long) SM_WATCH_NS;
        spec.it_value.tv_nsec = (long) SM_WATCH_NS;
    }
    if (timerfd_settime(context->timer_fd, 0, &spec, NULL) == 0)
        sm_store(&context->timer_armed, wanted);
}
