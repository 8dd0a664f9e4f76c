/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools of handles. */
#ifndef HG_POOL_H
#define HG_POOL_H

#include "engine/context.h"

/*
 * Handles of one kind and path. All are kept until the context is destroyed. An origin's handle
 * may move to the other path by HG_Reset(): it is freed to the pool of the path that it has then.
 */
struct hg_pool {
    /* Written when the context is created. */
    hg_context_t *context;
    const struct hg_handle_kind *kind;
    enum hg_path path;

    pthread_mutex_t lock;   /* of what follows */
    struct hg_handle *free; /* linked by next_free, last in first out */
    struct hg_handle *all;  /* linked by next_all */
    uint32_t count;
    uint32_t free_count;
    uint32_t detached_count; /* hold what the transport did not let go of in time */
};

void hg_pool_init(struct hg_pool *pool, hg_context_t *context, const struct hg_handle_kind *kind,
                  enum hg_path path);
void hg_pool_fini(struct hg_pool *pool);

/* Take a handle, making `step` more if there is none; 0: NULL then. */
struct hg_handle *hg_pool_get(struct hg_pool *pool, uint32_t step, hg_return_t *ret_p);
void hg_pool_put(struct hg_pool *pool, struct hg_handle *handle);

/* Make handles ahead. */
hg_return_t hg_pool_grow(struct hg_pool *pool, uint32_t count);

/* Count a handle that was taken as one that nobody uses; back again. */
void hg_pool_detach(struct hg_pool *pool, int32_t count);

/*
 * Whether a response to a request is still to end: it is on its way, or the program has destroyed
 * the request and not answered it.
 */
bool hg_pool_has_responses(struct hg_pool *pool);

/* Handles in use of one kind, by its pools on all paths, with posted receives. */
uint32_t hg_pools_count(struct hg_pool pools[HG_PATH_MAX]);

#endif /* HG_POOL_H */
