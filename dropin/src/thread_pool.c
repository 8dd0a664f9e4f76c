/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of threads: one queue of work under one lock.
 */
#include "mercury_thread_pool.h"

#include <stdlib.h>

struct hg_thread_pool {
    hg_thread_mutex_t mutex;
    hg_thread_cond_t cond; /* there is work, or the end */
    STAILQ_HEAD(, hg_thread_work) queue;
    bool is_ending;
    unsigned int thread_count;
    hg_thread_t threads[];
};

static HG_THREAD_RETURN_TYPE hg_thread_pool_run(void *arg);

int hg_thread_pool_init(unsigned int thread_count, hg_thread_pool_t **pool)
{
    hg_thread_pool_t *new_pool;

    if (pool == NULL)
        return HG_UTIL_FAIL;
    new_pool = calloc(1, sizeof(*new_pool) + thread_count * sizeof(new_pool->threads[0]));
    if (new_pool == NULL)
        return HG_UTIL_FAIL;
    STAILQ_INIT(&new_pool->queue);
    if (hg_thread_mutex_init(&new_pool->mutex) != HG_UTIL_SUCCESS)
        goto error;
    if (hg_thread_cond_init(&new_pool->cond) != HG_UTIL_SUCCESS)
        goto error_mutex;
    for (; new_pool->thread_count < thread_count; new_pool->thread_count++)
        if (hg_thread_create(&new_pool->threads[new_pool->thread_count], hg_thread_pool_run,
                             new_pool) != HG_UTIL_SUCCESS) {
            (void) hg_thread_pool_destroy(new_pool);
            return HG_UTIL_FAIL;
        }
    *pool = new_pool;
    return HG_UTIL_SUCCESS;

error_mutex:
    (void) hg_thread_mutex_destroy(&new_pool->mutex);
error:
    free(new_pool);
    return HG_UTIL_FAIL;
}

int hg_thread_pool_destroy(hg_thread_pool_t *pool)
{
    int ret = HG_UTIL_SUCCESS;

    if (pool == NULL)
        return HG_UTIL_SUCCESS;
    hg_thread_mutex_lock(&pool->mutex);
    pool->is_ending = true;
    (void) hg_thread_cond_broadcast(&pool->cond);
    hg_thread_mutex_unlock(&pool->mutex);
    for (unsigned int i = 0; i < pool->thread_count; i++)
        if (hg_thread_join(pool->threads[i]) != HG_UTIL_SUCCESS)
            ret = HG_UTIL_FAIL;
    (void) hg_thread_cond_destroy(&pool->cond);
    (void) hg_thread_mutex_destroy(&pool->mutex);
    free(pool);
    return ret;
}

int hg_thread_pool_post(hg_thread_pool_t *pool, struct hg_thread_work *work)
{
    int ret = HG_UTIL_FAIL;

    if (pool == NULL || work == NULL || work->func == NULL)
        return HG_UTIL_FAIL;
    hg_thread_mutex_lock(&pool->mutex);
    if (!pool->is_ending) {
        STAILQ_INSERT_TAIL(&pool->queue, work, entry);
        ret = hg_thread_cond_signal(&pool->cond);
    }
    hg_thread_mutex_unlock(&pool->mutex);
    return ret;
}

static HG_THREAD_RETURN_TYPE hg_thread_pool_run(void *arg)
{
    hg_thread_pool_t *pool = arg;

    hg_thread_mutex_lock(&pool->mutex);
    for (;;) {
        struct hg_thread_work *work = STAILQ_FIRST(&pool->queue);

        if (work != NULL) {
            hg_thread_func_t func = work->func;
            void *args = work->args;

            STAILQ_REMOVE_HEAD(&pool->queue, entry);
            hg_thread_mutex_unlock(&pool->mutex);
            (void) func(args);
            hg_thread_mutex_lock(&pool->mutex);
        } else if (pool->is_ending) {
            break;
        } else {
            (void) hg_thread_cond_wait(&pool->cond, &pool->mutex);
        }
    }
    hg_thread_mutex_unlock(&pool->mutex);
    return NULL;
}
