/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools of handles. */
#ifndef HG_POOL_H
#define HG_POOL_H

#include "engine/context.h"

/*
 * Handles of one kind and path, which are freed when the context is destroyed. HG_Reset() may move
 * an origin's handle to the other path; then it is given back to the pool of that path.
 */
struct hg_pool {
    /* Constant. */
    hg_context_t *context;
    const struct hg_handle_kind *kind;
    enum hg_path path;

    pthread_mutex_t lock;    /* guards the members below */
    struct hg_handle *free;  /* linked by next_free, last in first out */
    struct hg_handle *all;   /* linked by next_all */
    uint32_t count;          /* of `all` */
    uint32_t free_count;     /* of `free` */
    uint32_t detached_count; /* spare handles that wait for detached messages */
};

void hg_pool_init(struct hg_pool *pool, hg_context_t *context, const struct hg_handle_kind *kind,
                  enum hg_path path);
void hg_pool_fini(struct hg_pool *pool);

/* Take a handle; if none is free the pool grows by `step`, or if that is 0 this returns NULL. */
struct hg_handle *hg_pool_get(struct hg_pool *pool, uint32_t step, hg_return_t *ret_p);
void hg_pool_put(struct hg_pool *pool, struct hg_handle *handle);

/* Allocate more handles. */
hg_return_t hg_pool_grow(struct hg_pool *pool, uint32_t count);

/* Change the number of detached handles, which do not count as in use. */
void hg_pool_detach(struct hg_pool *pool, int32_t count);

/*
 * Returns true if a response is being sent, or the program has destroyed a request without a
 * response to it.
 */
bool hg_pool_has_responses(struct hg_pool *pool);

/* Count the handles of one kind that are in use on all paths, including posted receives. */
uint32_t hg_pools_count(struct hg_pool pools[HG_PATH_MAX]);

#endif /* HG_POOL_H */
