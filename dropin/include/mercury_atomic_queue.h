/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bounded queue of pointers for many producers and many consumers, without locks.
 */
#ifndef MERCURY_ATOMIC_QUEUE_H
#define MERCURY_ATOMIC_QUEUE_H

#include "mercury_atomic.h"
#include "mercury_mem.h"

/* What a thread does while it spins. */
#ifndef cpu_spinwait
#    if defined(__x86_64__) || defined(__i386__)
#        define cpu_spinwait() __builtin_ia32_pause()
#    elif defined(__aarch64__)
#        define cpu_spinwait() __asm__ __volatile__("isb")
#    elif defined(__arm__)
#        define cpu_spinwait() __asm__ __volatile__("yield")
#    else
#        define cpu_spinwait() __asm__ __volatile__("" ::: "memory")
#    endif
#endif

struct hg_atomic_queue;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Make a queue.
 *
 * \param count [IN]    a power of two, at least 2; the queue holds one entry less
 *
 * \return queue, to be freed by hg_atomic_queue_free(); NULL if \a count is none or memory is out
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC struct hg_atomic_queue *hg_atomic_queue_alloc(unsigned int count);

/**
 * Free a queue that nobody uses any more; what it points to is not touched.
 *
 * \param hg_atomic_queue [IN]   queue, NULL is allowed
 *
 * One thread, after all others are done with the queue. \since 1.0
 */
HG_UTIL_PUBLIC void hg_atomic_queue_free(struct hg_atomic_queue *hg_atomic_queue);

/**
 * Append an entry.
 *
 * \param hg_atomic_queue [IN]   queue
 * \param entry [IN]             pointer, not NULL, never followed
 *
 * \return HG_UTIL_SUCCESS, or HG_UTIL_FAIL if the queue is full
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_atomic_queue_push(struct hg_atomic_queue *hg_atomic_queue, void *entry);

/**
 * Take the oldest entry.
 *
 * \param hg_atomic_queue [IN]   queue
 *
 * \return entry, which is the caller's from now on, or NULL if there is none
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void *hg_atomic_queue_pop_mc(struct hg_atomic_queue *hg_atomic_queue);

/**
 * Take the oldest entry, where no other thread takes entries at the same time.
 *
 * \param hg_atomic_queue [IN]   queue
 *
 * \return entry, which is the caller's from now on, or NULL if there is none
 *
 * One thread at a time. \since 1.0
 */
HG_UTIL_PUBLIC void *hg_atomic_queue_pop_sc(struct hg_atomic_queue *hg_atomic_queue);

/**
 * \return true if there is no entry; others may change that at once
 * \param hg_atomic_queue [IN]   queue
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC bool hg_atomic_queue_is_empty(const struct hg_atomic_queue *hg_atomic_queue);

/**
 * \return number of entries; others may change that at once
 * \param hg_atomic_queue [IN]   queue
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC unsigned int hg_atomic_queue_count(const struct hg_atomic_queue *hg_atomic_queue);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_ATOMIC_QUEUE_H */
