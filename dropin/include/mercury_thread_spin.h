/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks that are waited for by spinning.
 */
#ifndef MERCURY_THREAD_SPIN_H
#define MERCURY_THREAD_SPIN_H

/* The C library shows spin locks to ISO C programs only if this is defined first of all. */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "mercury_thread_annotation.h"
#include "mercury_util_config.h"

#include <pthread.h>

/* A spin lock. */
typedef pthread_spinlock_t HG_LOCK_CAPABILITY("spin") hg_thread_spin_t;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Make a lock.
 *
 * \param lock [OUT]    lock
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * One thread, before others use the lock. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_spin_init(hg_thread_spin_t *lock);

/**
 * Free a lock that nobody has.
 *
 * \param lock [IN]     lock
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * One thread, after all others are done with the lock. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_spin_destroy(hg_thread_spin_t *lock);

/**
 * Take a lock, waiting for it.
 *
 * \param lock [IN]     lock
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE void hg_thread_spin_lock(hg_thread_spin_t *lock) HG_LOCK_ACQUIRE(*lock);
static HG_UTIL_INLINE void hg_thread_spin_lock(hg_thread_spin_t *lock)
    HG_LOCK_NO_THREAD_SAFETY_ANALYSIS
{
    (void) pthread_spin_lock(lock);
}

/**
 * Take a lock if it is free.
 *
 * \param lock [IN]     lock
 *
 * \return HG_UTIL_SUCCESS, or HG_UTIL_FAIL if another thread has it
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int hg_thread_spin_try_lock(hg_thread_spin_t *lock)
    HG_LOCK_TRY_ACQUIRE(HG_UTIL_SUCCESS, *lock);
static HG_UTIL_INLINE int hg_thread_spin_try_lock(hg_thread_spin_t *lock)
    HG_LOCK_NO_THREAD_SAFETY_ANALYSIS
{
    return pthread_spin_trylock(lock) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

/**
 * Release a lock.
 *
 * \param lock [IN]     lock
 *
 * The thread that has it. \since 1.0
 */
static HG_UTIL_INLINE void hg_thread_spin_unlock(hg_thread_spin_t *lock) HG_LOCK_RELEASE(*lock);
static HG_UTIL_INLINE void hg_thread_spin_unlock(hg_thread_spin_t *lock)
    HG_LOCK_NO_THREAD_SAFETY_ANALYSIS
{
    (void) pthread_spin_unlock(lock);
}

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_THREAD_SPIN_H */
