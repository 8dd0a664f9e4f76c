/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping and being woken. Each context has a datagram socket beside the segment: a sender that
 * finds the context asleep sends it one byte. The wait descriptor is an epoll of that socket and a
 * timer that ticks only while something depends on a peer being alive.
 */

#include "sm.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#define SM_WAKE_BYTES 1024 /* datagrams taken after one sleep */

static int32_t sm_wake_socket_make(struct na_plugin_context *context);
static int32_t sm_wait_descriptor_make(struct na_plugin_context *context);
static void sm_wait_set_flags(struct na_plugin_context *context, uint32_t flags);
static void sm_wait_timer(struct na_plugin_context *context, bool wanted);
static void sm_wait_sleep(struct na_plugin_context *context, uint64_t end);

int32_t sm_wait_setup(struct na_plugin_context *context)
{
    int32_t ret = sm_wake_socket_make(context);

    if (ret == NA_PLUGIN_SUCCESS && !context->na_class->busy)
        ret = sm_wait_descriptor_make(context);
    return ret;
}

void sm_wait_teardown(struct na_plugin_context *context)
{
    if (context->epoll_fd >= 0)
        (void) close(context->epoll_fd);
    if (context->timer_fd >= 0)
        (void) close(context->timer_fd);
    if (context->wake_fd >= 0) {
        (void) unlink(context->wake_path); /* we hold the segment's lock */
        (void) close(context->wake_fd);
    }
    context->wake_fd = context->timer_fd = context->epoll_fd = -1;
}

int32_t sm_poll_get_fd(struct na_plugin_context *context)
{
    return context->epoll_fd;
}

uint32_t sm_poll_try_wait(struct na_plugin_context *context)
{
    uint64_t moved;
    bool idle;

    if (context->na_class->busy || !sm_lock_try(&context->poll_lock))
        return 0;
    /* Nobody is told of a sleep that will not be. */
    if (sm_poll_peek(context) || sm_rma_flows(context)) {
        sm_lock_drop(&context->poll_lock);
        return 0;
    }
    atomic_store_explicit(&context->armed, 1, memory_order_seq_cst);
    context->sleep_number += SM_CONTEXT_SLEEP;
    sm_wait_set_flags(context, context->sleep_number | SM_CONTEXT_ASLEEP);
    idle = sm_barrier(context->na_class) && !sm_poll_peek(context) &&
           sm_backlog_announce(context->na_class, context);
    if (idle && (atomic_load_explicit(&context->copy_count, memory_order_acquire) != 0 ||
                 atomic_load_explicit(&context->job_count, memory_order_acquire) != 0)) {
        moved = atomic_load_explicit(&context->rma_moved, memory_order_relaxed);
        sm_rma_announce(context);
        idle = sm_rma_progress(context) == 0 &&
               moved == atomic_load_explicit(&context->rma_moved, memory_order_relaxed);
    }
    if (idle)
        sm_wait_timer(context, sm_watch_wanted(context));
    sm_lock_drop(&context->poll_lock);
    return idle;
}

/* The first poll after a sleep. poll_lock is held. */
void sm_wait_disarm(struct na_plugin_context *context)
{
    uint64_t ticks;

    atomic_store_explicit(&context->armed, 0, memory_order_seq_cst);
    sm_wait_set_flags(context, 0);
    for (int i = 0; i < SM_WAKE_BYTES; i++) /* what is left makes the next sleep a short one */
        if (!sm_handover_read(context))
            break;
    if (atomic_load_explicit(&context->timer_armed, memory_order_relaxed) != 0 &&
        read(context->timer_fd, &ticks, sizeof(ticks)) == (ssize_t) sizeof(ticks))
        atomic_store_explicit(&context->watch_now, 1, memory_order_relaxed);
}

/* Who never sleeps looks now and then who wants the memory. poll_lock is held. */
void sm_wait_look(struct na_plugin_context *context)
{
    uint64_t now = kit_host->clock_ns();

    if (now - context->handover_last < SM_HANDOVER_NS ||
        atomic_load_explicit(&context->armed, memory_order_relaxed) != 0)
        return;
    context->handover_last = now;
    for (int i = 0; i < SM_WAKE_BYTES; i++)
        if (!sm_handover_read(context))
            break;
}

int32_t sm_poll_wait(struct na_plugin_context *context, uint32_t timeout_ms, uint32_t *count)
{
    uint64_t end = kit_host->clock_ns() + timeout_ms * UINT64_C(1000000);
    uint32_t before = *count;
    int32_t ret;

    for (;;) {
        ret = sm_poll(context, count);
        if (ret != NA_PLUGIN_SUCCESS || *count != before)
            return ret;
        if (atomic_exchange_explicit(&context->woken, 0, memory_order_acquire) != 0)
            return NA_PLUGIN_SUCCESS;
        if (timeout_ms == 0 || kit_host->clock_ns() >= end)
            return NA_PLUGIN_TIMEOUT;
        /* While a thread is counted here, polls of others leave the byte that wakes it alone. */
        atomic_fetch_add_explicit(&context->sleepers, 1, memory_order_seq_cst);
        if (sm_poll_try_wait(context))
            sm_wait_sleep(context, end);
        else
            kit_cpu_relax();
        atomic_fetch_sub_explicit(&context->sleepers, 1, memory_order_seq_cst);
    }
}

void sm_wake(struct na_plugin_context *context)
{
    atomic_store_explicit(&context->woken, 1, memory_order_release);
    sm_context_signal(context);
}

/* Has a sleeper of this context poll. */
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

/* True when senders need no fence because sleepers can interrupt them with a barrier. */
bool sm_membarrier_register(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}

/*
 * Between announcing and looking: after it every sender sees the announcement, or we its message.
 * False when that cannot be had any more, so that nothing may be built on the announcement.
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
    (void) unlink(context->wake_path); /* we hold the segment's lock: it is nobody's */
    /* The mode of the socket before bind() is that of the file it makes. */
    if (fchmod(context->wake_fd, 0600) != 0 ||
        bind(context->wake_fd, (struct sockaddr *) &address, sizeof(address)) != 0) {
        SM_LOG_ERROR("%s cannot be made (%s)%s", context->wake_path, strerror(errno),
                     sm_error_hint(errno));
        return errno == ENOSPC ? NA_PLUGIN_NOMEM : NA_PLUGIN_ACCESS;
    }
    return NA_PLUGIN_SUCCESS;
}

static int32_t sm_wait_descriptor_make(struct na_plugin_context *context)
{
    struct epoll_event event = {.events = EPOLLIN};

    context->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    context->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (context->timer_fd < 0 || context->epoll_fd < 0 ||
        epoll_ctl(context->epoll_fd, EPOLL_CTL_ADD, context->wake_fd, &event) != 0 ||
        epoll_ctl(context->epoll_fd, EPOLL_CTL_ADD, context->timer_fd, &event) != 0) {
        SM_LOG_ERROR("no wait descriptor (%s)%s", strerror(errno), sm_error_hint(errno));
        return NA_PLUGIN_NOMEM;
    }
    return NA_PLUGIN_SUCCESS;
}

/* Whether we are closed or gone is not changed by going to sleep and waking. */
static void sm_wait_set_flags(struct na_plugin_context *context, uint32_t flags)
{
    _Atomic uint32_t *shared = &context->area->flags;
    uint32_t before = atomic_load_explicit(shared, memory_order_relaxed);
    const uint32_t kept = SM_CONTEXT_CLOSED | SM_CONTEXT_GONE;

    while (!atomic_compare_exchange_weak_explicit(shared, &before, (before & kept) | flags,
                                                  memory_order_seq_cst, memory_order_relaxed))
        continue;
}

/*
 * Runs while something outstanding needs it, so that going to sleep costs no call for it each
 * time.
 */
static void sm_wait_timer(struct na_plugin_context *context, bool wanted)
{
    struct itimerspec spec = {0};

    if ((atomic_load_explicit(&context->timer_armed, memory_order_relaxed) != 0) == wanted)
        return;
    if (wanted) {
        spec.it_interval.tv_nsec = (long) SM_WATCH_NS;
        spec.it_value.tv_nsec = (long) SM_WATCH_NS;
    }
    if (timerfd_settime(context->timer_fd, 0, &spec, NULL) == 0)
        atomic_store_explicit(&context->timer_armed, wanted, memory_order_relaxed);
}

static void sm_wait_sleep(struct na_plugin_context *context, uint64_t end)
{
    struct pollfd descriptor = {.fd = context->epoll_fd, .events = POLLIN};
    uint64_t now = kit_host->clock_ns();
    struct timespec timeout;

    if (now >= end)
        return;
    timeout.tv_sec = (time_t) ((end - now) / UINT64_C(1000000000));
    timeout.tv_nsec = (long) ((end - now) % UINT64_C(1000000000));
    (void) ppoll(&descriptor, 1, &timeout, NULL);
}
