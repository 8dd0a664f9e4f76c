/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timers of a context, and how it waits for the next one. A thread that sleeps in progress
 * sleeps no longer than until the next timer; a thread that waits on the context's descriptor is
 * woken by a timerfd. The timerfd joins the epoll set when it is first needed, and the thread that
 * goes to sleep sets it, so that an operation that ends in time costs no system call.
 */
#ifndef HG_ENGINE_CONTEXT_TIMER_H
#define HG_ENGINE_CONTEXT_TIMER_H

#include "engine/context.h"

/* How long a cancelled operation with a deadline waits for the transport to complete it. */
#define HG_CANCEL_NS UINT64_C(20000000)

/* Delay before another attempt to end an operation that could not end when its deadline expired. */
#define HG_FINISH_AGAIN_NS UINT64_C(5000000)

/*
 * Arm, disarm or expedite a timer; timer.h has the results. After arming, the caller must call
 * hg_context_wake(), because threads may sleep until a later timer. [any thread]
 */
static inline void hg_context_arm(hg_context_t *context, struct hg_timer *timer, uint64_t at_ns)
{
    hg_timers_add(&context->timers, timer, hg_clock_ns(), at_ns);
}

static inline bool hg_context_disarm(hg_context_t *context, struct hg_timer *timer)
{
    return hg_timers_remove(&context->timers, timer);
}

static inline void hg_context_expedite(hg_context_t *context, struct hg_timer *timer,
                                       uint64_t at_ns)
{
    hg_timers_expedite(&context->timers, timer, at_ns);
}

/* Whether a timer is due. */
static inline bool hg_context_is_due(hg_context_t *context)
{
    return hg_timers_are_armed(&context->timers) &&
           atomic_load(&context->timers.next_ns) <= hg_clock_ns();
}

/* Make the context's descriptor readable when the next timer is due, or no longer readable. */
void hg_context_timerfd_set(hg_context_t *context);
void hg_context_timerfd_clear(hg_context_t *context);

#endif /* HG_ENGINE_CONTEXT_TIMER_H */
