/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks that many readers or one writer have.
 */
#ifndef MERCURY_THREAD_RWLOCK_H
#define MERCURY_THREAD_RWLOCK_H

/* The C library shows these locks to ISO C programs only if this is defined first of all. */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "mercury_thread_annotation.h"
#include "mercury_util_config.h"

#include <pthread.h>

/* A lock of many readers or one writer. */
typedef pthread_rwlock_t HG_LOCK_CAPABILITY("rwlock") hg_thread_rwlock_t;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Make a lock.
 *
 * \param rwlock [OUT]  lock
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * One thread, before others use the lock. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_rwlock_init(hg_thread_rwlock_t *rwlock);

/**
 * Free a lock that nobody has.
 *
 * \param rwlock [IN]   lock
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * One thread, after all others are done with the lock. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_rwlock_destroy(hg_thread_rwlock_t *rwlock);

/**
 * Take a lock for reading, waiting for it.
 *
 * \param rwlock [IN]   lock
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE void hg_thread_rwlock_rdlock(hg_thread_rwlock_t *rwlock)
    HG_LOCK_ACQUIRE_SHARED(*rwlock);
static HG_UTIL_INLINE void hg_thread_rwlock_rdlock(hg_thread_rwlock_t *rwlock)
    HG_LOCK_NO_THREAD_SAFETY_ANALYSIS
{
    (void) pthread_rwlock_rdlock(rwlock);
}

/**
 * Take a lock for reading if no writer has it.
 *
 * \param rwlock [IN]   lock
 *
 * \return HG_UTIL_SUCCESS, or HG_UTIL_FAIL if it is taken
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int hg_thread_rwlock_try_rdlock(hg_thread_rwlock_t *rwlock)
    HG_LOCK_TRY_ACQUIRE_SHARED(HG_UTIL_SUCCESS, *rwlock);
static HG_UTIL_INLINE int hg_thread_rwlock_try_rdlock(hg_thread_rwlock_t *rwlock)
    HG_LOCK_NO_THREAD_SAFETY_ANALYSIS
{
    return pthread_rwlock_tryrdlock(rwlock) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

/**
 * Release a lock that was taken for reading.
 *
 * \param rwlock [IN]   lock
 *
 * The thread that has it. \since 1.0
 */
static HG_UTIL_INLINE void hg_thread_rwlock_release_rdlock(hg_thread_rwlock_t *rwlock)
    HG_LOCK_RELEASE_SHARED(*rwlock);
static HG_UTIL_INLINE void hg_thread_rwlock_release_rdlock(hg_thread_rwlock_t *rwlock)
    HG_LOCK_NO_THREAD_SAFETY_ANALYSIS
{
    (void) pthread_rwlock_unlock(rwlock);
}

/**
 * Take a lock for writing, waiting for it.
 *
 * \param rwlock [IN]   lock
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE void hg_thread_rwlock_wrlock(hg_thread_rwlock_t *rwlock)
    HG_LOCK_ACQUIRE(*rwlock);
static HG_UTIL_INLINE void hg_thread_rwlock_wrlock(hg_thread_rwlock_t *rwlock)
    HG_LOCK_NO_THREAD_SAFETY_ANALYSIS
{
    (void) pthread_rwlock_wrlock(rwlock);
}

/**
 * Take a lock for writing if nobody has it.
 *
 * \param rwlock [IN]   lock
 *
 * \return HG_UTIL_SUCCESS, or HG_UTIL_FAIL if it is taken
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int hg_thread_rwlock_try_wrlock(hg_thread_rwlock_t *rwlock)
    HG_LOCK_TRY_ACQUIRE(HG_UTIL_SUCCESS, *rwlock);
static HG_UTIL_INLINE int hg_thread_rwlock_try_wrlock(hg_thread_rwlock_t *rwlock)
    HG_LOCK_NO_THREAD_SAFETY_ANALYSIS
{
    return pthread_rwlock_trywrlock(rwlock) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

/**
 * Release a lock that was taken for writing.
 *
 * \param rwlock [IN]   lock
 *
 * The thread that has it. \since 1.0
 */
static HG_UTIL_INLINE void hg_thread_rwlock_release_wrlock(hg_thread_rwlock_t *rwlock)
    HG_LOCK_RELEASE(*rwlock);
static HG_UTIL_INLINE void hg_thread_rwlock_release_wrlock(hg_thread_rwlock_t *rwlock)
    HG_LOCK_NO_THREAD_SAFETY_ANALYSIS
{
    (void) pthread_rwlock_unlock(rwlock);
}

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_THREAD_RWLOCK_H */
