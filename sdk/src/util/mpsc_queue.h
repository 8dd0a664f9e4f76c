/* SPDX-License-Identifier: BSD-3-Clause */
/* Intrusive queue with many producers and one consumer at a time. A push is wait-free: one atomic
 * exchange. The thread that holds mpsc_queue_try_lock() is the consumer. */

#ifndef UTIL_MPSC_QUEUE_H
#define UTIL_MPSC_QUEUE_H

#include "util/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Embedded in each queued object. */
struct mpsc_node {
    _Atomic(struct mpsc_node *) next;
};

/*
 * The stub is a node of the queue itself: `tail` points to it if and only if the queue is empty.
 * `tail` has a cache line apart from the members that the consumer writes.
 */
struct mpsc_queue {
    _Alignas(UTIL_CACHE_LINE) _Atomic(struct mpsc_node *) tail;
    _Alignas(UTIL_CACHE_LINE) struct mpsc_node *head; /* used by the consumer only */
    atomic_bool locked;                               /* there is a consumer */
    struct mpsc_node stub;
};

static inline void mpsc_queue_init(struct mpsc_queue *queue)
{
    atomic_init(&queue->stub.next, NULL);
    atomic_init(&queue->tail, &queue->stub);
    atomic_init(&queue->locked, false);
    queue->head = &queue->stub;
}

/* Adds a node at the end. Also a full memory barrier. Any thread. */
static inline void mpsc_queue_push(struct mpsc_queue *queue, struct mpsc_node *node)
{
    struct mpsc_node *previous;

    atomic_store_explicit(&node->next, NULL, memory_order_relaxed);
    previous = atomic_exchange(&queue->tail, node);
    /* Until the next store the queue is not empty, but the node cannot be popped. */
    atomic_store_explicit(&previous->next, node, memory_order_release);
}

/* Returns false also while the first push is not finished. Any thread. */
static inline bool mpsc_queue_is_empty(const struct mpsc_queue *queue)
{
    return atomic_load(&queue->tail) == &queue->stub;
}

/* Makes the calling thread the consumer, unless another thread is. Never waits. */
static inline bool mpsc_queue_try_lock(struct mpsc_queue *queue)
{
    return !atomic_load_explicit(&queue->locked, memory_order_relaxed) &&
           !atomic_exchange_explicit(&queue->locked, true, memory_order_acquire);
}

static inline void mpsc_queue_unlock(struct mpsc_queue *queue)
{
    atomic_store_explicit(&queue->locked, false, memory_order_release);
}

/*
 * Removes the first node. Consumer only. Returns NULL if the queue is empty, or if the push of that
 * node is not finished: mpsc_queue_is_empty() tells them apart.
 */
static inline struct mpsc_node *mpsc_queue_pop(struct mpsc_queue *queue)
{
    struct mpsc_node *head = queue->head, *next, *last;

    next = atomic_load_explicit(&head->next, memory_order_acquire);
    if (head == &queue->stub) {
        if (next == NULL)
            return NULL;
        queue->head = head = next;
        next = atomic_load_explicit(&head->next, memory_order_acquire);
    }
    if (next == NULL) {
        /* The last node: the stub takes its place, unless another thread is pushing. */
        atomic_store_explicit(&queue->stub.next, NULL, memory_order_relaxed);
        last = head;
        if (atomic_compare_exchange_strong(&queue->tail, &last, &queue->stub)) {
            queue->head = &queue->stub;
            return head;
        }
        next = atomic_load_explicit(&head->next, memory_order_acquire);
        if (next == NULL)
            return NULL;
    }
    queue->head = next;
    return head;
}

/* Like mpsc_queue_push() and mpsc_queue_pop(), for a queue that one thread at a time uses: without
 * atomic exchanges. */
static inline void mpsc_queue_push_alone(struct mpsc_queue *queue, struct mpsc_node *node)
{
    struct mpsc_node *previous = atomic_load_explicit(&queue->tail, memory_order_relaxed);

    atomic_store_explicit(&node->next, NULL, memory_order_relaxed);
    atomic_store_explicit(&queue->tail, node, memory_order_relaxed);
    atomic_store_explicit(&previous->next, node, memory_order_release);
}

static inline struct mpsc_node *mpsc_queue_pop_alone(struct mpsc_queue *queue)
{
    struct mpsc_node *head = queue->head, *next;

    if (head == &queue->stub)
        head = atomic_load_explicit(&head->next, memory_order_relaxed);
    if (head == NULL)
        return NULL;
    next = atomic_load_explicit(&head->next, memory_order_relaxed);
    if (next == NULL) {
        atomic_store_explicit(&queue->stub.next, NULL, memory_order_relaxed);
        atomic_store_explicit(&queue->tail, &queue->stub, memory_order_relaxed);
        next = &queue->stub;
    }
    queue->head = next;
    return head;
}

/* Counts the nodes that can be popped; returns at least 1 unless the queue is empty. Any thread.
 * Takes time in proportion to the count. */
static inline unsigned int mpsc_queue_count(struct mpsc_queue *queue)
{
    const struct mpsc_node *node;
    unsigned int count = 0;

    if (mpsc_queue_is_empty(queue))
        return 0;
    /* The consumer is popping a node, which counts. */
    if (!mpsc_queue_try_lock(queue))
        return 1;
    for (node = queue->head; node != NULL;
         node = atomic_load_explicit(&node->next, memory_order_acquire))
        if (node != &queue->stub)
            count++;
    mpsc_queue_unlock(queue);
    return count > 0 ? count : 1;
}

#endif /* UTIL_MPSC_QUEUE_H */
