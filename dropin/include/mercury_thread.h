/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads, and what belongs to each of them.
 */
#ifndef MERCURY_THREAD_H
#define MERCURY_THREAD_H

/* The C library shows sets of processors to ISO C programs only if this is defined first of all. */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "mercury_util_config.h"

#include <pthread.h>
#include <sched.h>

/* A thread, its function, what that returns, and a variable of which each thread has its own. */
typedef pthread_t hg_thread_t;
typedef void *(*hg_thread_func_t)(void *);
typedef void *hg_thread_ret_t;
typedef pthread_key_t hg_thread_key_t;

/* The C library's set of processors, or its like where it does not show it. */
#ifdef CPU_SETSIZE
typedef cpu_set_t hg_cpu_set_t;
#else
typedef struct {
    unsigned long bits[1024 / (8 * sizeof(unsigned long))];
} hg_cpu_set_t;
#endif

/* What the function of a thread is declared with. */
#define HG_THREAD_RETURN_TYPE hg_thread_ret_t

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Set a variable to "no thread".
 *
 * \param thread [OUT]      variable
 *
 * One thread at a time for a variable. \since 1.0
 */
HG_UTIL_PUBLIC void hg_thread_init(hg_thread_t *thread);

/**
 * Start a thread.
 *
 * \param thread [OUT]      thread, to be given to hg_thread_join()
 * \param f [IN]            what it runs
 * \param data [IN]         its argument
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_create(hg_thread_t *thread, hg_thread_func_t f, void *data);

/**
 * End the calling thread.
 *
 * \param ret [IN]          what it returns
 *
 * The thread that hg_thread_create() started. \since 1.0
 */
HG_UTIL_PUBLIC void hg_thread_exit(hg_thread_ret_t ret);

/**
 * Wait until a thread has ended.
 *
 * \param thread [IN]       thread
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any other thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_join(hg_thread_t thread);

/**
 * Ask a thread to end at its next cancellation point. It is to be joined all the same.
 *
 * \param thread [IN]       thread
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_cancel(hg_thread_t thread);

/**
 * Let other threads run.
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_yield(void);

/**
 * \return the calling thread
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE hg_thread_t hg_thread_self(void)
{
    return pthread_self();
}

/**
 * Compare two threads.
 *
 * \param t1 [IN]           thread
 * \param t2 [IN]           thread
 *
 * \return not 0 if they are the same
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int hg_thread_equal(hg_thread_t t1, hg_thread_t t2)
{
    return pthread_equal(t1, t2);
}

/**
 * Make a key, under which each thread has a pointer of its own.
 *
 * \param key [OUT]         key, to be freed by hg_thread_key_delete()
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_key_create(hg_thread_key_t *key);

/**
 * Free a key; what the pointers point to is not touched.
 *
 * \param key [IN]          key
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * One thread, after all others are done with the key. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_key_delete(hg_thread_key_t key);

/**
 * \return pointer that the calling thread has under a key, which stays the program's, or NULL if
 *         it set none
 * \param key [IN]          key
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE void *hg_thread_getspecific(hg_thread_key_t key)
{
    return pthread_getspecific(key);
}

/**
 * Set the pointer that the calling thread has under a key.
 *
 * \param key [IN]          key
 * \param value [IN]        pointer
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int hg_thread_setspecific(hg_thread_key_t key, const void *value)
{
    return pthread_setspecific(key, value) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

/**
 * Tell on which processors a thread may run.
 *
 * \param thread [IN]       thread
 * \param cpu_mask [OUT]    set of processors
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_getaffinity(hg_thread_t thread, hg_cpu_set_t *cpu_mask);

/**
 * Say on which processors a thread may run.
 *
 * \param thread [IN]       thread
 * \param cpu_mask [IN]     set of processors
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_setaffinity(hg_thread_t thread, const hg_cpu_set_t *cpu_mask);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_THREAD_H */
