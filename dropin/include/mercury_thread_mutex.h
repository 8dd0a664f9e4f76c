/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mutexes.
 */
#ifndef MERCURY_THREAD_MUTEX_H
#define MERCURY_THREAD_MUTEX_H

#include "mercury_thread_annotation.h"
#include "mercury_util_config.h"

#include <pthread.h>

/* A mutex. */
typedef pthread_mutex_t HG_LOCK_CAPABILITY("mutex") hg_thread_mutex_t;

/* Initializer of a mutex that is not made by a function. */
#define HG_THREAD_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Make a mutex.
 *
 * \param mutex [OUT]   mutex
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * One thread, before others use the mutex. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_mutex_init(hg_thread_mutex_t *mutex);

/**
 * Make a mutex for short sections: a thread that waits spins for a while before it sleeps.
 *
 * \param mutex [OUT]   mutex
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * One thread, before others use the mutex. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_mutex_init_fast(hg_thread_mutex_t *mutex);

/**
 * Free a mutex that nobody has.
 *
 * \param mutex [IN]    mutex
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * One thread, after all others are done with the mutex. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_mutex_destroy(hg_thread_mutex_t *mutex);

/**
 * Take a mutex, waiting for it.
 *
 * \param mutex [IN]    mutex
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE void hg_thread_mutex_lock(hg_thread_mutex_t *mutex) HG_LOCK_ACQUIRE(*mutex);
static HG_UTIL_INLINE void hg_thread_mutex_lock(hg_thread_mutex_t *mutex)
    HG_LOCK_NO_THREAD_SAFETY_ANALYSIS
{
    (void) pthread_mutex_lock(mutex);
}

/**
 * Take a mutex if it is free.
 *
 * \param mutex [IN]    mutex
 *
 * \return HG_UTIL_SUCCESS, or HG_UTIL_FAIL if another thread has it
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int hg_thread_mutex_try_lock(hg_thread_mutex_t *mutex)
    HG_LOCK_TRY_ACQUIRE(HG_UTIL_SUCCESS, *mutex);
static HG_UTIL_INLINE int hg_thread_mutex_try_lock(hg_thread_mutex_t *mutex)
    HG_LOCK_NO_THREAD_SAFETY_ANALYSIS
{
    return pthread_mutex_trylock(mutex) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

/**
 * Release a mutex.
 *
 * \param mutex [IN]    mutex
 *
 * The thread that has it. \since 1.0
 */
static HG_UTIL_INLINE void hg_thread_mutex_unlock(hg_thread_mutex_t *mutex) HG_LOCK_RELEASE(*mutex);
static HG_UTIL_INLINE void hg_thread_mutex_unlock(hg_thread_mutex_t *mutex)
    HG_LOCK_NO_THREAD_SAFETY_ANALYSIS
{
    (void) pthread_mutex_unlock(mutex);
}

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_THREAD_MUTEX_H */
