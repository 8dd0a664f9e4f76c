/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions of a context: queueing them, and waking the threads that wait for one.
 */
#ifndef HG_ENGINE_QUEUE_H
#define HG_ENGINE_QUEUE_H

#include "engine/context.h"

/*
 * Something to be run by HG_Trigger(), embedded in the operation that it ends. `run` may free or
 * reuse it. It calls the program's callback; what that returns is its own business to log.
 */
struct hg_completion {
    struct mpsc_node node;
    void (*run)(struct hg_completion *completion);
};

/* Wake those that `waiters`, of hg_context.waiters, counts. */
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
