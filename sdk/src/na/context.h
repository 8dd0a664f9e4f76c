/* SPDX-License-Identifier: BSD-3-Clause */
/* A context: a completion queue, and the plugin's queues behind it. */

#ifndef NA_CONTEXT_H
#define NA_CONTEXT_H

#include "na/class.h"
#include "util/mpsc_queue.h"

#include <sched.h>

struct na_event;
struct na_event_block;

/* Completion events of a context's multi-receives; the pool grows and never shrinks. */
struct na_event_pool {
    pthread_mutex_t mutex;
    struct na_event *free;
    struct na_event_block *blocks;
};

struct na_context {
    /* Constant while the context is open, and read on the hot path. */
    struct na_class *na_class;
    struct na_plugin_context *plugin_context;
    int wait_fd; /* the plugin's descriptor that NA_Poll_wait() sleeps on; -1: none */
    int wake_fd; /* the core's eventfd that ends such a sleep; -1: none */
    uint8_t id;
    bool stopped;         /* NA_Context_destroy() has begun */
    bool single_consumer; /* one thread at a time triggers: no consumer lock is taken */
    bool is_alone;        /* one thread at a time uses the queue: it needs no atomic exchange */

    /* Threads in NA_Poll_wait(); a post or cancel that completes an operation wakes one. */
    _Alignas(UTIL_CACHE_LINE) atomic_uint waiters;

    struct mpsc_queue queue;

    /* Callbacks by result; written under the queue's consumer lock. */
    atomic_uint_fast64_t completed;
    atomic_uint_fast64_t failed;
    atomic_uint_fast64_t canceled;

    struct na_event_pool pool;
    struct na_context *next; /* in na_class.contexts, under na_class.mutex */
};

/*
 * Takes the consumer lock of the queue: nothing of the context is triggered meanwhile, so that a
 * posted or queued operation stays posted or queued. Only for slow paths: NA_Trigger() returns at
 * once, with 0 callbacks, while another thread has the lock.
 */
static inline void na_context_hold(struct na_context *context)
{
    while (!context->single_consumer && !mpsc_queue_try_lock(&context->queue))
        (void) sched_yield();
}

static inline void na_context_release(struct na_context *context)
{
    if (!context->single_consumer)
        mpsc_queue_unlock(&context->queue);
}

/* Wakes a thread that sleeps in NA_Poll_wait(), if the queue has a completion. */
void na_context_wake(struct na_context *context);

#endif /* NA_CONTEXT_H */
