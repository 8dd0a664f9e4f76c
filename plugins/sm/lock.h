/* SPDX-License-Identifier: BSD-3-Clause */
/* Spin locks for sections of a few dozen instructions, and what ThreadSanitizer must be told. */

#ifndef SM_LOCK_H
#define SM_LOCK_H

#include "kit_base.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* `elide` is set once, before the lock is used: the caller promised one thread at a time. */
struct sm_lock {
    _Atomic uint32_t held;
    bool elide;
};

static inline bool sm_lock_try(struct sm_lock *lock)
{
    if (lock->elide)
        return true;
    return atomic_load_explicit(&lock->held, memory_order_relaxed) == 0 &&
           atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) == 0;
}

static inline void sm_lock_take(struct sm_lock *lock)
{
    uint32_t spins = 0;

    while (kit_unlikely(!sm_lock_try(lock))) {
        if (++spins % 64 == 0)
            (void) sched_yield(); /* the holder may want this very core */
        else
            kit_cpu_relax();
    }
}

static inline void sm_lock_drop(struct sm_lock *lock)
{
    if (!lock->elide)
        atomic_store_explicit(&lock->held, 0, memory_order_release);
}

/*
 * The memory of a ring passes from one sending thread to the next by way of the receiver, which is
 * another process or another mapping: an order that ThreadSanitizer cannot see.
 */
#if defined(__SANITIZE_THREAD__)
#    define SM_TSAN 1
#elif defined(__has_feature)
#    if __has_feature(thread_sanitizer)
#        define SM_TSAN 1
#    endif
#endif

#ifdef SM_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#    define sm_tsan_acquire(addr) __tsan_acquire(addr)
#    define sm_tsan_release(addr) __tsan_release(addr)
#else
#    define sm_tsan_acquire(addr) ((void) 0)
#    define sm_tsan_release(addr) ((void) 0)
#endif

#endif /* SM_LOCK_H */
