/* SPDX-License-Identifier: BSD-3-Clause */
/* A context: a completion queue, and the plugin's queues behind it. */

#ifndef NA_CONTEXT_H
#define NA_CONTEXT_H

#include "na/class.h"
#include "util/mpsc_queue.h"

#include <sched.h>

struct na_event;
struct na_event_block;

/* Event nodes of multi-receives, shared by all of a context; grows and never shrinks. */
struct na_event_pool {
    pthread_mutex_t mutex;
    struct na_event *free;
    struct na_event_block *blocks;
};

struct na_context {
    /* Read on the hot path, not written. */
    struct na_class *na_class;
    struct na_plugin_context *plugin_context;
    int wait_fd; /* of the plugin, for NA_Poll_wait(); -1: none */
    int wake_fd; /* ours, beside it; -1: none */
    uint8_t id;
    bool stopped;
    bool single_thread; /* the user promised: one thread at a time triggers */
    bool is_alone;      /* and completes: nothing here has to be atomic */

    /* Threads in NA_Poll_wait(): who completes something wakes one. */
    _Alignas(UTIL_CACHE_LINE) atomic_uint waiters;

    struct mpsc_queue queue;

    /* Written by whoever holds the queue's consumer lock. */
    atomic_uint_fast64_t completed;
    atomic_uint_fast64_t failed;
    atomic_uint_fast64_t canceled;

    struct na_event_pool pool;
    struct na_context *next; /* under the class's lock */
};

/*
 * While this is held nothing of the context is triggered, so an operation that is posted or queued
 * stays what it is. For paths where speed does not matter: whoever triggers does not wait.
 */
static inline void na_context_hold(struct na_context *context)
{
    while (!context->single_thread && !mpsc_queue_try_lock(&context->queue))
        (void) sched_yield();
}

static inline void na_context_release(struct na_context *context)
{
    if (!context->single_thread)
        mpsc_queue_unlock(&context->queue);
}

/* Wakes a thread that waits in NA_Poll_wait(), because there is something to trigger. */
void na_context_wake(struct na_context *context);

#endif /* NA_CONTEXT_H */
