/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress and triggering: polling, sleeping, and waking sleeping threads.
 *
 * A thread that goes to sleep first counts itself in `waiters` and then checks the queue; a thread
 * that pushes a completion first pushes it and then reads `waiters`. Both steps are sequentially
 * consistent, so at least one of the threads sees the other. `is_signaled` keeps all but the first
 * of several pushes from writing to the eventfd.
 */
#include "engine/progress.h"

#include "engine/context_timer.h"
#include "engine/library.h"
#include "engine/log.h"
#include "engine/queue.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

/* Number of polls between two reads of the clock. */
#define HG_POLLS_PER_CLOCK 16

/* Maximum number of NA callbacks per NA_Trigger(). */
#define HG_NA_TRIGGER_MAX 64

/* For hg_context_tune(): nothing came until the timeout. */
#define HG_SLEPT_IN_VAIN UINT64_MAX

/* Longest polling time that can be set, in microseconds. */
#define HG_POLL_US_LIMIT 1000000u

/* Without a descriptor HG_Progress() checks the queue at this interval, in ms. */
#define HG_WAIT_SLICE_MS 5u

static void hg_context_fire(hg_context_t *context);
static void hg_context_drain_event(hg_context_t *context);
static hg_return_t hg_context_poll_unless_queued(hg_context_t *context);
static bool hg_context_poll_before_sleep(hg_context_t *context);
static na_return_t hg_context_poll_path(hg_context_t *context, enum hg_path path);
static void hg_context_trigger_path(hg_context_t *context, enum hg_path path);
static hg_return_t hg_context_wait(hg_context_t *context, unsigned int timeout);
static hg_return_t hg_context_wait_sleeping(hg_context_t *context, unsigned int timeout);
static hg_return_t hg_context_wait_na(hg_context_t *context, unsigned int timeout);
static hg_return_t hg_context_poll_for(hg_context_t *context, uint64_t start, uint64_t ns);
static bool hg_context_can_sleep(hg_context_t *context);
static void hg_context_sleep(hg_context_t *context, uint64_t start, uint64_t end);
static unsigned int hg_context_wait_ms(hg_context_t *context, uint64_t now, uint64_t ms);
static enum hg_poll hg_context_poll_kind(hg_context_t *context);
static uint32_t hg_context_poll_ns(hg_context_t *context, enum hg_poll kind);
static uint32_t hg_class_poll_max(const hg_class_t *hg_class, uint32_t by_default);
static void hg_context_tune(hg_context_t *context, enum hg_poll kind, uint64_t slept_ns);
static unsigned int hg_context_run_within(hg_context_t *context, unsigned int timeout,
                                          unsigned int max_count);
static unsigned int hg_context_run(hg_context_t *context, unsigned int max_count);
static unsigned int hg_context_run_alone(hg_context_t *context, unsigned int max_count);
static unsigned int hg_context_run_some(hg_context_t *context, unsigned int max_count);
static struct hg_completion *hg_context_pop(hg_context_t *context);
static void hg_context_wait_trigger(hg_context_t *context, uint64_t end);

hg_return_t HG_Progress(hg_context_t *context, unsigned int timeout)
{
    hg_return_t ret;

    if (util_unlikely(!hg_context_is_usable(context)))
        return hg_context_refuse(context, __func__);
    ret = hg_context_poll_unless_queued(context);
    if (util_likely(ret == HG_SUCCESS) && mpsc_queue_is_empty(&context->queue))
        ret = timeout == 0 ? HG_TIMEOUT : hg_context_wait(context, timeout);
    hg_context_rearm(context);
    return ret;
}

/*
 * The first call that finds completions queued does not poll the network. Further calls poll again
 * until a thread triggers, because another thread may be in a long callback.
 */
static UTIL_ALWAYS_INLINE hg_return_t hg_context_poll_unless_queued(hg_context_t *context)
{
    if (util_likely(mpsc_queue_is_empty(&context->queue)) ||
        atomic_load_explicit(&context->has_progressed, memory_order_relaxed))
        return hg_context_poll(context);
    atomic_store_explicit(&context->has_progressed, true, memory_order_relaxed);
    if (util_unlikely(hg_timers_are_armed(&context->timers)))
        hg_context_fire(context);
    return HG_SUCCESS;
}

hg_return_t HG_Trigger(hg_context_t *context, unsigned int timeout, unsigned int max_count,
                       unsigned int *actual_count_p)
{
    unsigned int count;

    if (util_unlikely(!hg_context_is_usable(context)))
        return hg_context_refuse(context, __func__);
    count = hg_context_run(context, max_count);
    if (count == 0 && timeout > 0 && max_count > 0)
        count = hg_context_run_within(context, timeout, max_count);
    if (actual_count_p != NULL)
        *actual_count_p = count;
    return count > 0 || max_count == 0 ? HG_SUCCESS : HG_TIMEOUT;
}

static unsigned int UTIL_COLD hg_context_run_within(hg_context_t *context, unsigned int timeout,
                                                    unsigned int max_count)
{
    const uint64_t end = hg_clock_ns() + timeout * HG_NS_PER_MS;
    unsigned int count;

    do {
        hg_context_wait_trigger(context, end);
        count = hg_context_run(context, max_count);
    } while (count == 0 && hg_clock_ns() < end);
    return count;
}

hg_return_t HG_Class_set_poll_time(hg_class_t *hg_class, unsigned int max_us)
{
    uint32_t set_ns = 0;

    if (!hg_class_is_usable(hg_class))
        return hg_class_refuse(hg_class, __func__);
    if (max_us != HG_POLL_TIME_DEFAULT) {
        if (max_us > HG_POLL_US_LIMIT) {
            HG_LOG_ERROR("cannot poll for %u us before sleep; pass at most %u", max_us,
                         HG_POLL_US_LIMIT);
            return HG_INVALID_ARG;
        }
        set_ns = max_us * 1000u + 1;
    }
    atomic_store_explicit(&hg_class->poll_set_ns, set_ns, memory_order_relaxed);
    return HG_SUCCESS;
}

int HG_Event_get_wait_fd(const hg_context_t *context)
{
    if (hg_context_fork_refused(context, __func__))
        return -1;
    return context != NULL ? context->epoll_fd : -1;
}

bool HG_Event_ready(hg_context_t *context)
{
    if (hg_context_fork_refused(context, __func__))
        return true;
    if (context == NULL || context->epoll_fd < 0)
        return true;
    hg_context_drain_event(context);
    if (hg_context_poll_before_sleep(context))
        return true;
    if (!(atomic_load(&context->waiters) & HG_WAITER_ARMED))
        atomic_fetch_or(&context->waiters, HG_WAITER_ARMED);
    if (mpsc_queue_is_empty(&context->queue) && hg_context_can_sleep(context)) {
        hg_context_timerfd_set(context);
        return false;
    }
    atomic_fetch_and(&context->waiters, ~HG_WAITER_ARMED);
    return true;
}

/*
 * Poll as HG_Progress() does before it sleeps: if a completion comes soon, polling is cheaper than
 * the system calls of sleeping. The time since HG_Event_ready() last allowed sleep tells how soon
 * completions come.
 */
static bool hg_context_poll_before_sleep(hg_context_t *context)
{
    const enum hg_poll kind = hg_context_poll_kind(context);
    const uint64_t now = hg_clock_ns();
    const uint64_t since = atomic_load_explicit(&context->ready_ns, memory_order_relaxed);
    uint32_t poll_ns;

    if (since != 0)
        hg_context_tune(context, kind, now - since);
    poll_ns = hg_context_poll_ns(context, kind);
    if (poll_ns > HG_POLL_NS_ALONE)
        poll_ns = HG_POLL_NS_ALONE;
    if (!mpsc_queue_is_empty(&context->queue) ||
        hg_context_poll_for(context, now, poll_ns) != HG_TIMEOUT) {
        atomic_store_explicit(&context->ready_ns, 0, memory_order_relaxed);
        return true;
    }
    atomic_store_explicit(&context->ready_ns, hg_clock_ns(), memory_order_relaxed);
    return false;
}

hg_return_t HG_Event_progress(hg_context_t *context, unsigned int *count_p)
{
    hg_return_t ret;

    if (util_unlikely(!hg_context_is_usable(context)))
        return hg_context_refuse(context, __func__);
    if (atomic_load_explicit(&context->waiters, memory_order_relaxed) & HG_WAITER_ARMED)
        atomic_fetch_and(&context->waiters, ~HG_WAITER_ARMED);
    hg_context_drain_event(context);
    ret = hg_context_poll_unless_queued(context);
    hg_context_rearm(context);
    if (count_p != NULL)
        *count_p = mpsc_queue_count(&context->queue);
    return ret;
}

hg_return_t HG_Event_trigger(hg_context_t *context, unsigned int max_count,
                             unsigned int *actual_count_p)
{
    unsigned int count;

    if (util_unlikely(!hg_context_is_usable(context)))
        return hg_context_refuse(context, __func__);
    count = hg_context_run(context, max_count);
    if (actual_count_p != NULL)
        *actual_count_p = count;
    return HG_SUCCESS;
}

hg_return_t hg_context_poll(hg_context_t *context)
{
    na_return_t na_return;

    if (util_unlikely(hg_timers_are_armed(&context->timers)))
        hg_context_fire(context);
    if (util_unlikely(atomic_load_explicit(&context->refused_count, memory_order_relaxed) != 0))
        context->hg_class->upper->retry(context);
    na_return = hg_context_poll_path(context, HG_PATH_MAIN);
    if (context->na_context[HG_PATH_SM] != NULL) {
        const na_return_t sm_return = hg_context_poll_path(context, HG_PATH_SM);

        if (util_unlikely(sm_return != NA_SUCCESS))
            na_return = sm_return;
    }
    return hg_return_from_na(na_return);
}

static UTIL_ALWAYS_INLINE na_return_t hg_context_poll_path(hg_context_t *context, enum hg_path path)
{
    na_return_t na_return =
        NA_Poll(context->hg_class->paths[path].na_class, context->na_context[path], NULL);

    hg_context_trigger_path(context, path);
    return util_likely(na_return != NA_TIMEOUT) ? na_return : NA_SUCCESS;
}

/* Run all callbacks that are queued, including those queued meanwhile. */
static UTIL_ALWAYS_INLINE void hg_context_trigger_path(hg_context_t *context, enum hg_path path)
{
    unsigned int count;

    do {
        count = 0;
        (void) NA_Trigger(context->na_context[path], HG_NA_TRIGGER_MAX, &count);
    } while (count == HG_NA_TRIGGER_MAX);
}

static void UTIL_COLD hg_context_fire(hg_context_t *context)
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
    /* Most transports complete a cancelled operation at once. */
    hg_context_trigger_path(context, HG_PATH_MAIN);
    if (context->na_context[HG_PATH_SM] != NULL)
        hg_context_trigger_path(context, HG_PATH_SM);
    while (due != NULL) {
        timer = due;
        due = timer->next;
        timer->finish(timer);
    }
}

/* Reset the eventfd and the timerfd after a wake-up. */
static void hg_context_drain_event(hg_context_t *context)
{
    uint64_t count;
    ssize_t size;

    hg_context_timerfd_clear(context);
    if (util_likely(!atomic_load_explicit(&context->is_signaled, memory_order_relaxed)))
        return;
    do {
        size = read(context->event_fd, &count, sizeof(count));
    } while (size < 0 && errno == EINTR);
    /*
     * If there is nothing to read, the thread that set the flag is about to write to the eventfd,
     * and clearing the flag would leave that write unread. A push between the read
     * above and the store below finds the flag set, but its node is seen afterwards.
     */
    if (size > 0)
        atomic_store(&context->is_signaled, false);
}

/* Wait after a poll that found nothing. Not inlined, to spare the polling path its registers. */
static __attribute__((__noinline__)) hg_return_t hg_context_wait(hg_context_t *context,
                                                                 unsigned int timeout)
{
    if (context->hg_class->is_busy)
        return hg_context_poll_for(context, hg_clock_ns(), timeout * HG_NS_PER_MS);
    return context->epoll_fd >= 0 ? hg_context_wait_sleeping(context, timeout)
                                  : hg_context_wait_na(context, timeout);
}

/*
 * A transport's promise to make its descriptor readable ends with the next poll. So a thread that
 * polled and leaves renews it for the threads that still sleep, or wakes them when there is
 * something to do.
 */
void UTIL_COLD hg_context_rearm_sleepers(hg_context_t *context)
{
    if (!hg_context_can_sleep(context))
        hg_context_wake(context);
}

/* Poll for a while, then sleep until there is something to do or the timeout expires. */
static hg_return_t hg_context_wait_sleeping(hg_context_t *context, unsigned int timeout)
{
    uint64_t start = hg_clock_ns();
    uint64_t end = start + timeout * HG_NS_PER_MS;
    uint64_t now = start;

    for (;;) {
        const enum hg_poll kind = hg_context_poll_kind(context);
        uint64_t poll_ns = hg_context_poll_ns(context, kind);
        hg_return_t ret;

        if (poll_ns > end - now)
            poll_ns = end - now;
        ret = hg_context_poll_for(context, now, poll_ns);
        if (ret != HG_TIMEOUT)
            return ret;
        now = hg_clock_ns();
        if (now >= end) {
            hg_context_tune(context, kind, HG_SLEPT_IN_VAIN);
            return HG_TIMEOUT;
        }
        hg_context_sleep(context, now, end);
        ret = hg_context_poll(context);
        if (ret != HG_SUCCESS)
            return ret;
        if (!mpsc_queue_is_empty(&context->queue))
            return HG_SUCCESS;
        now = hg_clock_ns();
        if (now >= end)
            return HG_TIMEOUT;
    }
}

/* Wait in slices inside a transport that has no descriptor. */
static hg_return_t hg_context_wait_na(hg_context_t *context, unsigned int timeout)
{
    uint64_t end = hg_clock_ns() + timeout * HG_NS_PER_MS;

    for (;;) {
        uint64_t now = hg_clock_ns();
        uint64_t left_ms = now < end ? (end - now + HG_NS_PER_MS - 1) / HG_NS_PER_MS : 0;
        na_return_t na_return;
        hg_return_t ret;

        if (left_ms == 0)
            return HG_TIMEOUT;
        if (left_ms > HG_WAIT_SLICE_MS)
            left_ms = HG_WAIT_SLICE_MS;
        na_return = NA_Poll_wait(context->hg_class->paths[HG_PATH_MAIN].na_class,
                                 context->na_context[HG_PATH_MAIN],
                                 hg_context_wait_ms(context, now, left_ms), NULL);
        if (na_return != NA_SUCCESS && na_return != NA_TIMEOUT)
            return hg_return_from_na(na_return);
        ret = hg_context_poll(context);
        if (ret != HG_SUCCESS || !mpsc_queue_is_empty(&context->queue))
            return ret;
    }
}

/* Poll for `ns` after `start`: HG_SUCCESS if a completion is queued, HG_TIMEOUT otherwise. */
static hg_return_t hg_context_poll_for(hg_context_t *context, uint64_t start, uint64_t ns)
{
    for (;;) {
        uint64_t polled_ns;
        int i;

        for (i = 0; i < HG_POLLS_PER_CLOCK; i++) {
            hg_return_t ret = hg_context_poll(context);

            if (util_unlikely(ret != HG_SUCCESS))
                return ret;
            if (!mpsc_queue_is_empty(&context->queue))
                return HG_SUCCESS;
            util_cpu_relax();
        }
        polled_ns = hg_clock_ns() - start;
        if (polled_ns >= ns)
            return HG_TIMEOUT;
        /* The peer that this thread waits for may need this processor. */
        if (polled_ns >= HG_POLL_NS_ALONE)
            (void) sched_yield();
    }
}

static bool hg_context_can_sleep(hg_context_t *context)
{
    int i;

    if (atomic_load_explicit(&context->refused_count, memory_order_relaxed) != 0 ||
        hg_context_is_due(context))
        return false;
    for (i = 0; i < HG_PATH_MAX; i++)
        if (context->na_context[i] != NULL &&
            !NA_Poll_try_wait(context->hg_class->paths[i].na_class, context->na_context[i]))
            return false;
    return true;
}

static void hg_context_sleep(hg_context_t *context, uint64_t start, uint64_t end)
{
    struct epoll_event events[HG_PATH_MAX + 2];
    const uint64_t ms = (end - start + HG_NS_PER_MS - 1) / HG_NS_PER_MS;
    const enum hg_poll kind = hg_context_poll_kind(context);
    int count = 0;
    bool has_slept = false;

    atomic_fetch_add(&context->waiters, HG_WAITER_PROGRESS);
    if (mpsc_queue_is_empty(&context->queue) && hg_context_can_sleep(context)) {
        hg_context_timerfd_set(context);
        count = epoll_wait(context->epoll_fd, events, HG_PATH_MAX + 2,
                           (int) hg_context_wait_ms(context, start, ms < INT_MAX ? ms : INT_MAX));
        has_slept = true;
    }
    atomic_fetch_sub(&context->waiters, HG_WAITER_PROGRESS);
    hg_context_drain_event(context);
    if (has_slept)
        hg_context_tune(context, kind, count != 0 ? hg_clock_ns() - start : HG_SLEPT_IN_VAIN);
}

/* Return `ms`, or less if a timer is due earlier. */
static unsigned int hg_context_wait_ms(hg_context_t *context, uint64_t now, uint64_t ms)
{
    const uint64_t next = atomic_load(&context->timers.next_ns);

    if (util_unlikely(next != HG_TIMER_NEVER)) {
        uint64_t left_ms = next > now ? (next - now + HG_NS_PER_MS - 1) / HG_NS_PER_MS : 0;

        if (left_ms < ms)
            ms = left_ms;
    }
    return (unsigned int) ms;
}

/*
 * A context without requests learns to sleep at once. Transfers are tuned separately, because their
 * pieces complete shortly after one another.
 */
static enum hg_poll hg_context_poll_kind(hg_context_t *context)
{
    bool is_transfer = atomic_load_explicit(&context->op_count, memory_order_relaxed) > 0 ||
                       atomic_load_explicit(&context->exposing_count, memory_order_relaxed) > 0;

    return is_transfer ? HG_POLL_TRANSFER : HG_POLL_MESSAGE;
}

/* The time to poll before sleep, at most what is set now. */
static uint32_t hg_context_poll_ns(hg_context_t *context, enum hg_poll kind)
{
    const uint32_t poll_ns = atomic_load_explicit(&context->poll_ns[kind], memory_order_relaxed);
    const uint32_t max_ns = hg_class_poll_max(context->hg_class, UINT32_MAX);

    return poll_ns < max_ns ? poll_ns : max_ns;
}

static uint32_t hg_class_poll_max(const hg_class_t *hg_class, uint32_t by_default)
{
    const uint32_t set_ns = atomic_load_explicit(&hg_class->poll_set_ns, memory_order_relaxed);

    return set_ns != 0 ? set_ns - 1 : by_default;
}

/*
 * If a completion came shortly after polling ended, poll longer the next time; if it came late,
 * halve the polling time.
 */
static void hg_context_tune(hg_context_t *context, enum hg_poll kind, uint64_t slept_ns)
{
    const uint32_t max =
        hg_class_poll_max(context->hg_class, kind == HG_POLL_TRANSFER ? HG_POLL_NS_MAX_TRANSFER
                                                                      : HG_POLL_NS_MAX_MESSAGE);
    uint32_t poll_ns = atomic_load_explicit(&context->poll_ns[kind], memory_order_relaxed);

    if (slept_ns < max)
        poll_ns = max;
    else
        poll_ns = poll_ns / 2 > HG_POLL_NS_MIN ? poll_ns / 2 : HG_POLL_NS_MIN;
    atomic_store_explicit(&context->poll_ns[kind], poll_ns, memory_order_relaxed);
}

/* The queue is empty most of the time, so this check is inlined. */
static UTIL_ALWAYS_INLINE unsigned int hg_context_run(hg_context_t *context, unsigned int max_count)
{
    if (mpsc_queue_is_empty(&context->queue))
        return 0;
    if (atomic_load_explicit(&context->has_progressed, memory_order_relaxed))
        atomic_store_explicit(&context->has_progressed, false, memory_order_relaxed);
    return context->hg_class->is_single_thread ? hg_context_run_alone(context, max_count)
                                               : hg_context_run_some(context, max_count);
}

/* Run completions when no other thread uses the queue. */
static __attribute__((__noinline__)) unsigned int hg_context_run_alone(hg_context_t *context,
                                                                       unsigned int max_count)
{
    unsigned int count = 0;

    while (count < max_count) {
        struct mpsc_node *node = mpsc_queue_pop_alone(&context->queue);
        struct hg_completion *completion;

        if (node == NULL)
            break;
        completion = util_container_of(node, struct hg_completion, node);
        completion->run(completion);
        count++;
    }
    return count;
}

static __attribute__((__noinline__)) unsigned int hg_context_run_some(hg_context_t *context,
                                                                      unsigned int max_count)
{
    unsigned int count = 0;

    while (count < max_count) {
        struct hg_completion *completion = hg_context_pop(context);

        if (completion == NULL)
            break;
        completion->run(completion);
        count++;
    }
    return count;
}

static struct hg_completion *hg_context_pop(hg_context_t *context)
{
    struct mpsc_queue *queue = &context->queue;
    struct mpsc_node *node;

    if (mpsc_queue_is_empty(queue) || !mpsc_queue_try_lock(queue))
        return NULL;
    node = mpsc_queue_pop(queue);
    mpsc_queue_unlock(queue);
    return node != NULL ? util_container_of(node, struct hg_completion, node) : NULL;
}

/* Sleep until a completion is pushed or `end` is reached. */
static void hg_context_wait_trigger(hg_context_t *context, uint64_t end)
{
    const struct timespec until = {.tv_sec = (time_t) (end / UINT64_C(1000000000)),
                                   .tv_nsec = (long) (end % UINT64_C(1000000000))};

    (void) pthread_mutex_lock(&context->trigger_lock);
    atomic_fetch_add(&context->waiters, HG_WAITER_TRIGGER);
    if (mpsc_queue_is_empty(&context->queue))
        (void) pthread_cond_timedwait(&context->trigger_cond, &context->trigger_lock, &until);
    atomic_fetch_sub(&context->waiters, HG_WAITER_TRIGGER);
    (void) pthread_mutex_unlock(&context->trigger_lock);
}
