/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of completions of a context, and waking the threads that wait for one. */
#ifndef HG_ENGINE_QUEUE_H
#define HG_ENGINE_QUEUE_H

#include "engine/context.h"

/*
 * A completion that HG_Trigger() runs, embedded in the operation it ends. `run` calls the program's
 * callback, and logs an error that the callback returns; it may free or reuse the completion.
 */
struct hg_completion {
    struct mpsc_node node;
    void (*run)(struct hg_completion *completion);
};

/* Wake a thread of each kind that is set in `waiters`, as read from hg_context.waiters. */
void hg_context_signal(hg_context_t *context, uint32_t waiters);

/*
 * Wake threads that wait in HG_Progress() or on the wait descriptor. Also needed after an NA
 * operation was started that may have completed within the call: its completion then waits in NA's
 * queue for a poll. Costs one load when no thread sleeps. [any thread] [may not block]
 */
static inline void hg_context_wake(hg_context_t *context)
{
    uint32_t waiters = atomic_load(&context->waiters) & HG_WAITERS_OF_PROGRESS;

    if (util_unlikely(waiters != 0))
        hg_context_signal(context, waiters);
}

/* Queue a completion, and wake a thread that waits for one. [any thread] [may not block] */
static inline void hg_context_push(hg_context_t *context, struct hg_completion *completion)
{
    uint32_t waiters;

    if (context->hg_class->is_single_thread)
        mpsc_queue_push_alone(&context->queue, &completion->node);
    else
        mpsc_queue_push(&context->queue, &completion->node);
    waiters = atomic_load(&context->waiters);
    if (util_unlikely(waiters != 0))
        hg_context_signal(context, waiters);
}

#endif /* HG_ENGINE_QUEUE_H */
