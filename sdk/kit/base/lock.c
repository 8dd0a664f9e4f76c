/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slow paths of a lock.
 *
 * kit_lock_drop() stores `held` and then loads `sleepers`, without a fence in between, which would
 * cost each poll as much as taking the lock. So a thread that goes to sleep at the same time may
 * miss the wakeup, and each sleep is limited to LOCK_NAP.
 */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* syscall */
#endif

#include "kit_base.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOCK_SPINS 256u
#define LOCK_NAP   1000000 /* ns */

static bool lock_spin(struct kit_lock *lock);
static void lock_sleep(struct kit_lock *lock);

void kit_lock_wait(struct kit_lock *lock)
{
    (void) __atomic_fetch_add(&lock->waiters, 1, __ATOMIC_RELAXED);
    while (!lock_spin(lock))
        lock_sleep(lock);
    (void) __atomic_fetch_sub(&lock->waiters, 1, __ATOMIC_RELAXED);
}

void kit_lock_wake(struct kit_lock *lock)
{
    (void) syscall(SYS_futex, &lock->held, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool lock_spin(struct kit_lock *lock)
{
    for (uint32_t i = 0; i < LOCK_SPINS; i++) {
        if (kit_lock_try(lock))
            return true;
        kit_cpu_relax();
    }
    return false;
}

/* Returns at once if the lock is free. */
static void lock_sleep(struct kit_lock *lock)
{
    const struct timespec nap = {.tv_nsec = LOCK_NAP};

    (void) __atomic_fetch_add(&lock->sleepers, 1, __ATOMIC_SEQ_CST);
    (void) syscall(SYS_futex, &lock->held, FUTEX_WAIT_PRIVATE, 1, &nap, NULL, 0);
    (void) __atomic_fetch_sub(&lock->sleepers, 1, __ATOMIC_SEQ_CST);
}
