/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fixed number of threads that run what is handed to them, in the order in which it was handed
 * over.
 */
#ifndef MERCURY_THREAD_POOL_H
#define MERCURY_THREAD_POOL_H

#include "mercury_thread.h"

#include "mercury_queue.h"
#include "mercury_thread_condition.h"

/* A pool of threads. */
typedef struct hg_thread_pool hg_thread_pool_t;

/* A piece of work. The program owns it, and keeps it until its function has begun. */
struct hg_thread_work {
    hg_thread_func_t func;
    void *args;
    STAILQ_ENTRY(hg_thread_work) entry; /* the pool's */
};

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Start threads.
 *
 * \param thread_count [IN]     how many
 * \param pool [OUT]            pool, to be freed by hg_thread_pool_destroy()
 *
 * \return HG_UTIL_SUCCESS; HG_UTIL_FAIL if \a pool is NULL, or a thread or memory is not to be had
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_pool_init(unsigned int thread_count, hg_thread_pool_t **pool);

/**
 * Run what was handed over, then end the threads and free the pool.
 *
 * \param pool [IN]     pool, NULL is allowed
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * No thread of the pool. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_pool_destroy(hg_thread_pool_t *pool);

/**
 * Hand work over.
 *
 * \param pool [IN]     pool
 * \param work [IN]     its function and argument
 *
 * \return HG_UTIL_SUCCESS; HG_UTIL_FAIL if an argument or the function is NULL, or the pool is
 *         being destroyed
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_thread_pool_post(hg_thread_pool_t *pool, struct hg_thread_work *work);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_THREAD_POOL_H */
