/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Condition variables.
 */
#ifndef MERCURY_THREAD_CONDITION_H
#define MERCURY_THREAD_CONDITION_H

#include "mercury_thread_mutex.h"

/* A condition variable. */
typedef pthread_cond_t hg_thread_cond_t;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Make a condition variable.
 *
 * \param cond [OUT]        condition variable
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * One thread, before others use the variable. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_cond_init(hg_thread_cond_t *cond);

/**
 * Free a condition variable that nobody waits for.
 *
 * \param cond [IN]         condition variable
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * One thread, after all others are done with the variable. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_cond_destroy(hg_thread_cond_t *cond);

/**
 * Wake one thread that waits.
 *
 * \param cond [IN]         condition variable
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int hg_thread_cond_signal(hg_thread_cond_t *cond)
{
    return pthread_cond_signal(cond) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

/**
 * Wake all threads that wait.
 *
 * \param cond [IN]         condition variable
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int hg_thread_cond_broadcast(hg_thread_cond_t *cond)
{
    return pthread_cond_broadcast(cond) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

/**
 * Wait for a wake-up; it may also end without one.
 *
 * \param cond [IN]         condition variable
 * \param mutex [IN]        mutex that the thread has; released while it waits
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int hg_thread_cond_wait(hg_thread_cond_t *cond, hg_thread_mutex_t *mutex)
{
    return pthread_cond_wait(cond, mutex) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

/**
 * Wait for a wake-up, not for ever; it may also end without one.
 *
 * \param cond [IN]         condition variable of hg_thread_cond_init()
 * \param mutex [IN]        mutex that the thread has; released while it waits
 * \param timeout [IN]      milliseconds
 *
 * \return HG_UTIL_SUCCESS; HG_UTIL_FAIL when the time is over
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_cond_timedwait(hg_thread_cond_t *cond, hg_thread_mutex_t *mutex,
                                            unsigned int timeout);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_THREAD_CONDITION_H */
