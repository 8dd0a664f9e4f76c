/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pools of handles. Taking and giving back is constant time, last in first out, so that the handle
 * is still in the cache. Pools grow in steps and do not shrink.
 */
#include "hg/pool.h"

#include "hg/generation.h"
#include "hg/handle.h"

static struct hg_handle *hg_pool_pop(struct hg_pool *pool);

void hg_pool_init(struct hg_pool *pool, hg_context_t *context, const struct hg_handle_kind *kind,
                  enum hg_path path)
{
    pool->context = context;
    pool->kind = kind;
    pool->path = path;
    (void) pthread_mutex_init(&pool->lock, NULL);
}

struct hg_handle *hg_pool_get(struct hg_pool *pool, uint32_t step, hg_return_t *ret_p)
{
    struct hg_handle *handle = hg_pool_pop(pool);

    *ret_p = HG_SUCCESS;
    while (handle == NULL && step > 0) {
        *ret_p = hg_pool_grow(pool, step);
        handle = hg_pool_pop(pool);
        /* Other threads may have taken the new handles: try again, unless growing failed. */
        if (handle == NULL && *ret_p != HG_SUCCESS)
            break;
    }
    if (handle != NULL)
        *ret_p = HG_SUCCESS;
    return handle;
}

void hg_pool_put(struct hg_pool *pool, struct hg_handle *handle)
{
    (void) pthread_mutex_lock(&pool->lock);
    handle->next_free = pool->free;
    pool->free = handle;
    pool->free_count++;
    (void) pthread_mutex_unlock(&pool->lock);
}

hg_return_t hg_pool_grow(struct hg_pool *pool, uint32_t count)
{
    uint32_t i;

    for (i = 0; i < count; i++) {
        hg_return_t ret = HG_SUCCESS;
        struct hg_handle *handle = hg_handle_new(pool, &ret);

        if (handle == NULL)
            return ret;
        if (!handle->is_origin) {
            ret = hg_handle_attach(handle);
            if (ret != HG_SUCCESS) {
                hg_handle_delete(handle);
                return ret;
            }
        }
        (void) pthread_mutex_lock(&pool->lock);
        handle->next_all = pool->all;
        pool->all = handle;
        pool->count++;
        handle->next_free = pool->free;
        pool->free = handle;
        pool->free_count++;
        (void) pthread_mutex_unlock(&pool->lock);
    }
    return HG_SUCCESS;
}

void hg_pool_detach(struct hg_pool *pool, int32_t count)
{
    (void) pthread_mutex_lock(&pool->lock);
    pool->detached_count += (uint32_t) count;
    (void) pthread_mutex_unlock(&pool->lock);
}

uint32_t hg_pools_count(struct hg_pool pools[HG_PATH_MAX])
{
    uint32_t count = 0;
    int path;

    for (path = 0; path < HG_PATH_MAX; path++) {
        struct hg_pool *pool = &pools[path];

        (void) pthread_mutex_lock(&pool->lock);
        count += pool->count - pool->free_count - pool->detached_count;
        (void) pthread_mutex_unlock(&pool->lock);
    }
    return count;
}

bool hg_pool_has_responses(struct hg_pool *pool)
{
    const struct hg_handle *handle;

    (void) pthread_mutex_lock(&pool->lock);
    for (handle = pool->all; handle != NULL; handle = handle->next_all)
        if (atomic_load(&handle->state) == HG_HANDLE_ACTIVE ||
            atomic_load(&handle->state) == HG_HANDLE_REFUSING || hg_handle_is_unanswered(handle))
            break;
    (void) pthread_mutex_unlock(&pool->lock);
    return handle != NULL;
}

void hg_pool_fini(struct hg_pool *pool)
{
    struct hg_handle *handle = pool->all;

    while (handle != NULL) {
        struct hg_handle *next = handle->next_all;

        if (handle->is_origin)
            hg_generation_end(handle->generation);
        hg_handle_delete(handle);
        handle = next;
    }
    (void) pthread_mutex_destroy(&pool->lock);
}

static struct hg_handle *hg_pool_pop(struct hg_pool *pool)
{
    struct hg_handle *handle;

    (void) pthread_mutex_lock(&pool->lock);
    handle = pool->free;
    if (handle != NULL) {
        pool->free = handle->next_free;
        pool->free_count--;
    }
    (void) pthread_mutex_unlock(&pool->lock);
    return handle;
}
