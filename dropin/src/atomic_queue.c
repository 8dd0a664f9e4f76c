/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of pointers. Each cell has a turn: a cell of index i is free for the entry of position
 * p when its turn is p, and has that entry when its turn is p + 1. Producers and consumers take
 * positions by a compare-and-swap, so nobody waits for anybody who was interrupted between.
 */
#include "mercury_atomic_queue.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

struct hg_atomic_queue_cell {
    _Atomic(unsigned int) turn;
    void *entry;
};

struct hg_atomic_queue {
    unsigned int mask;                                          /* number of cells, less one */
    alignas(HG_MEM_CACHE_LINE_SIZE) _Atomic(unsigned int) tail; /* position of the next push */
    alignas(HG_MEM_CACHE_LINE_SIZE) _Atomic(unsigned int) head; /* position of the next pop */
    alignas(HG_MEM_CACHE_LINE_SIZE) struct hg_atomic_queue_cell cells[];
};

struct hg_atomic_queue *hg_atomic_queue_alloc(unsigned int count)
{
    struct hg_atomic_queue *queue;

    if (count < 2 || (count & (count - 1)) != 0)
        return NULL;
    queue = hg_mem_aligned_alloc(HG_MEM_CACHE_LINE_SIZE,
                                 sizeof(*queue) + count * sizeof(queue->cells[0]));
    if (queue == NULL)
        return NULL;
    queue->mask = count - 1;
    atomic_init(&queue->tail, 0);
    atomic_init(&queue->head, 0);
    for (unsigned int i = 0; i < count; i++)
        atomic_init(&queue->cells[i].turn, i);
    return queue;
}

void hg_atomic_queue_free(struct hg_atomic_queue *hg_atomic_queue)
{
    hg_mem_aligned_free(hg_atomic_queue);
}

int hg_atomic_queue_push(struct hg_atomic_queue *hg_atomic_queue, void *entry)
{
    struct hg_atomic_queue *queue = hg_atomic_queue;
    unsigned int position = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    struct hg_atomic_queue_cell *cell;

    for (;;) {
        unsigned int head = atomic_load_explicit(&queue->head, memory_order_acquire);
        unsigned int turn;

        cell = &queue->cells[position & queue->mask];
        turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
        if (turn == position && position - head < queue->mask) {
            if (atomic_compare_exchange_weak_explicit(&queue->tail, &position, position + 1,
                                                      memory_order_relaxed, memory_order_relaxed))
                break;
        } else {
            /* Full, unless another thread has taken the position. */
            unsigned int now = atomic_load_explicit(&queue->tail, memory_order_relaxed);

            if (now == position)
                return HG_UTIL_FAIL;
            position = now;
        }
    }
    cell->entry = entry;
    atomic_store_explicit(&cell->turn, position + 1, memory_order_release);
    return HG_UTIL_SUCCESS;
}

void *hg_atomic_queue_pop_mc(struct hg_atomic_queue *hg_atomic_queue)
{
    struct hg_atomic_queue *queue = hg_atomic_queue;
    unsigned int position = atomic_load_explicit(&queue->head, memory_order_relaxed);
    struct hg_atomic_queue_cell *cell;
    void *entry;

    for (;;) {
        cell = &queue->cells[position & queue->mask];
        if (atomic_load_explicit(&cell->turn, memory_order_acquire) == position + 1) {
            if (atomic_compare_exchange_weak_explicit(&queue->head, &position, position + 1,
                                                      memory_order_acq_rel, memory_order_relaxed))
                break;
        } else {
            unsigned int now = atomic_load_explicit(&queue->head, memory_order_relaxed);

            if (now == position)
                return NULL;
            position = now;
        }
    }
    entry = cell->entry;
    atomic_store_explicit(&cell->turn, position + queue->mask + 1, memory_order_release);
    return entry;
}

void *hg_atomic_queue_pop_sc(struct hg_atomic_queue *hg_atomic_queue)
{
    return hg_atomic_queue_pop_mc(hg_atomic_queue);
}

bool hg_atomic_queue_is_empty(const struct hg_atomic_queue *hg_atomic_queue)
{
    return hg_atomic_queue_count(hg_atomic_queue) == 0;
}

unsigned int hg_atomic_queue_count(const struct hg_atomic_queue *hg_atomic_queue)
{
    unsigned int head = atomic_load_explicit(&hg_atomic_queue->head, memory_order_acquire);
    unsigned int count = atomic_load_explicit(&hg_atomic_queue->tail, memory_order_acquire) - head;

    /* The head may have moved on in between. */
    return count < hg_atomic_queue->mask ? count : hg_atomic_queue->mask;
}
