/* SPDX-License-Identifier: BSD-3-Clause */
/* The bulk layer's part of a context, created by its first transfer and freed with the context. */
#include "bulk/bulk_pool.h"

#include <stdlib.h>

struct hg_bulk_pool {
    pthread_mutex_t lock;
    struct hg_bulk_transfer *free; /* free list, LIFO, so that the next one is in the cache */
    struct hg_bulk_transfer *all;  /* all operations, linked by next_all */
    struct hg_bulk_transfer *retry_first;
    struct hg_bulk_transfer *retry_last;
    _Atomic uint32_t retry_count;
};

static hg_return_t hg_bulk_pool_of(hg_context_t *context, struct hg_bulk_pool **pool_p);
static void hg_bulk_pool_free(struct hg_bulk_pool *pool);
static hg_return_t hg_bulk_op_new(struct hg_bulk_pool *pool, hg_context_t *context,
                                  struct hg_bulk_transfer **op_p);
static void hg_bulk_op_free(struct hg_bulk_transfer *op);

hg_return_t hg_bulk_pool_get(hg_context_t *context, struct hg_bulk_transfer **op_p)
{
    struct hg_bulk_pool *pool;
    hg_return_t ret = hg_bulk_pool_of(context, &pool);
    struct hg_bulk_transfer *op;

    if (ret != HG_SUCCESS)
        return ret;
    (void) pthread_mutex_lock(&pool->lock);
    op = pool->free;
    if (op != NULL)
        pool->free = op->next;
    (void) pthread_mutex_unlock(&pool->lock);
    if (op == NULL)
        ret = hg_bulk_op_new(pool, context, &op);
    *op_p = op;
    return ret;
}

void hg_bulk_pool_put(struct hg_bulk_transfer *op)
{
    struct hg_bulk_pool *pool =
        atomic_load_explicit(&op->refs.context->bulk_pool, memory_order_acquire);

    (void) pthread_mutex_lock(&pool->lock);
    op->next = pool->free;
    pool->free = op;
    (void) pthread_mutex_unlock(&pool->lock);
}

void hg_bulk_pool_retry_later(struct hg_bulk_transfer *op)
{
    struct hg_bulk_pool *pool =
        atomic_load_explicit(&op->refs.context->bulk_pool, memory_order_acquire);

    if (op->is_retry_queued)
        return;
    op->is_retry_queued = true;
    op->next = NULL;
    (void) pthread_mutex_lock(&pool->lock);
    if (pool->retry_last != NULL)
        pool->retry_last->next = op;
    else
        pool->retry_first = op;
    pool->retry_last = op;
    (void) atomic_fetch_add_explicit(&pool->retry_count, 1, memory_order_relaxed);
    hg_context_refused_add(op->refs.context, 1);
    (void) pthread_mutex_unlock(&pool->lock);
}

void hg_bulk_pool_fini(hg_context_t *context)
{
    struct hg_bulk_pool *pool = atomic_load(&context->bulk_pool);

    if (pool != NULL)
        hg_bulk_pool_free(pool);
}

void hg_bulk_retry(hg_context_t *context)
{
    struct hg_bulk_pool *pool = atomic_load_explicit(&context->bulk_pool, memory_order_acquire);
    struct hg_bulk_transfer *op;

    if (pool == NULL || atomic_load_explicit(&pool->retry_count, memory_order_relaxed) == 0)
        return;
    /* Take the queue as it is: operations that are refused again wait for the next call. */
    (void) pthread_mutex_lock(&pool->lock);
    op = pool->retry_first;
    pool->retry_first = NULL;
    pool->retry_last = NULL;
    hg_context_refused_add(context, -(int32_t) atomic_exchange(&pool->retry_count, 0));
    (void) pthread_mutex_unlock(&pool->lock);
    while (op != NULL) {
        struct hg_bulk_transfer *next = op->next;

        hg_bulk_op_retry(op);
        op = next;
    }
}

static hg_return_t hg_bulk_pool_of(hg_context_t *context, struct hg_bulk_pool **pool_p)
{
    struct hg_bulk_pool *none = NULL;
    struct hg_bulk_pool *pool = atomic_load_explicit(&context->bulk_pool, memory_order_acquire);

    if (pool == NULL) {
        pool = calloc(1, sizeof(*pool));
        if (pool == NULL) {
            HG_LOG_ERROR("cannot start a bulk transfer: out of memory");
            return HG_NOMEM;
        }
        (void) pthread_mutex_init(&pool->lock, NULL);
        if (!atomic_compare_exchange_strong(&context->bulk_pool, &none, pool)) {
            /* Another thread has set its pool first. */
            hg_bulk_pool_free(pool);
            pool = none;
        }
    }
    *pool_p = pool;
    return HG_SUCCESS;
}

static void hg_bulk_pool_free(struct hg_bulk_pool *pool)
{
    while (pool->all != NULL) {
        struct hg_bulk_transfer *op = pool->all;

        pool->all = op->next_all;
        hg_bulk_op_free(op);
    }
    (void) pthread_mutex_destroy(&pool->lock);
    free(pool);
}

static hg_return_t hg_bulk_op_new(struct hg_bulk_pool *pool, hg_context_t *context,
                                  struct hg_bulk_transfer **op_p)
{
    struct hg_bulk_transfer *op = calloc(1, sizeof(*op));

    if (op == NULL) {
        HG_LOG_ERROR("cannot start a bulk transfer: out of memory");
        return HG_NOMEM;
    }
    (void) pthread_mutex_init(&op->lock, NULL);
    op->refs.context = context; /* constant: a late cancel reads it */
    for (unsigned int i = 0; i < HG_BULK_PIECES_MAX; i++)
        op->pieces[i].op = op;
    (void) pthread_mutex_lock(&pool->lock);
    op->next_all = pool->all;
    pool->all = op;
    (void) pthread_mutex_unlock(&pool->lock);
    *op_p = op;
    return HG_SUCCESS;
}

/* Destroy an operation and its transport operations. */
static void hg_bulk_op_free(struct hg_bulk_transfer *op)
{
    for (unsigned int i = 0; i < HG_BULK_PIECES_MAX; i++)
        for (int path = 0; path < HG_PATH_MAX; path++)
            if (op->pieces[i].na_op[path] != NULL)
                NA_Op_destroy(op->na_classes[path], op->pieces[i].na_op[path]);
    (void) pthread_mutex_destroy(&op->lock);
    free(op);
}
