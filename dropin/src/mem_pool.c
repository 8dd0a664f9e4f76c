/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of chunks. In front of each chunk stands which block it is of; free chunks are linked
 * through their own memory.
 */
#include "mercury_mem_pool.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdlib.h>

/* A chunk's place begins with this, and what the program gets comes behind it. */
struct hg_mem_chunk {
    struct hg_mem_block *block;
    struct hg_mem_chunk *next; /* while it is free */
};

struct hg_mem_block {
    struct hg_mem_block *next;
    void *handle; /* of the registration */
    alignas(max_align_t) char places[];
};

struct hg_mem_pool {
    pthread_mutex_t lock;
    struct hg_mem_block *blocks;
    struct hg_mem_chunk *free_chunks;
    size_t chunk_size;
    size_t chunk_count;
    size_t place_size; /* bytes from one chunk to the next */
    hg_mem_pool_register_func_t register_func;
    hg_mem_pool_deregister_func_t deregister_func;
    unsigned long flags;
    void *arg;
};

#define HG_MEM_CHUNK_ALIGN alignof(max_align_t)
#define HG_MEM_CHUNK_HEADER                                                        \
    ((sizeof(struct hg_mem_chunk) + HG_MEM_CHUNK_ALIGN - 1) / HG_MEM_CHUNK_ALIGN * \
     HG_MEM_CHUNK_ALIGN)

static int hg_mem_pool_grow(struct hg_mem_pool *pool);

struct hg_mem_pool *hg_mem_pool_create(size_t chunk_size, size_t chunk_count, size_t block_count,
                                       hg_mem_pool_register_func_t register_func,
                                       unsigned long flags,
                                       hg_mem_pool_deregister_func_t deregister_func, void *arg)
{
    const size_t extra = HG_MEM_CHUNK_HEADER + HG_MEM_CHUNK_ALIGN;
    struct hg_mem_pool *pool;

    if (chunk_size == 0 || chunk_count == 0 || chunk_size > SIZE_MAX - extra)
        return NULL;
    if (chunk_count > (SIZE_MAX - sizeof(struct hg_mem_block)) / (chunk_size + extra))
        return NULL;
    pool = calloc(1, sizeof(*pool));
    if (pool == NULL)
        return NULL;
    (void) pthread_mutex_init(&pool->lock, NULL);
    pool->chunk_size = chunk_size;
    pool->chunk_count = chunk_count;
    pool->place_size = (HG_MEM_CHUNK_HEADER + chunk_size + HG_MEM_CHUNK_ALIGN - 1) /
                       HG_MEM_CHUNK_ALIGN * HG_MEM_CHUNK_ALIGN;
    pool->register_func = register_func;
    pool->deregister_func = deregister_func;
    pool->flags = flags;
    pool->arg = arg;
    for (size_t i = 0; i < block_count; i++)
        if (hg_mem_pool_grow(pool) != HG_UTIL_SUCCESS) {
            hg_mem_pool_destroy(pool);
            return NULL;
        }
    return pool;
}

void hg_mem_pool_destroy(struct hg_mem_pool *hg_mem_pool)
{
    struct hg_mem_block *block;

    if (hg_mem_pool == NULL)
        return;
    block = hg_mem_pool->blocks;
    while (block != NULL) {
        struct hg_mem_block *next = block->next;

        if (hg_mem_pool->deregister_func != NULL)
            (void) hg_mem_pool->deregister_func(block->handle, hg_mem_pool->arg);
        free(block);
        block = next;
    }
    (void) pthread_mutex_destroy(&hg_mem_pool->lock);
    free(hg_mem_pool);
}

void *hg_mem_pool_alloc(struct hg_mem_pool *hg_mem_pool, size_t size, void **mr_handle)
{
    struct hg_mem_chunk *chunk;

    if (size > hg_mem_pool->chunk_size)
        return NULL;
    (void) pthread_mutex_lock(&hg_mem_pool->lock);
    if (hg_mem_pool->free_chunks == NULL)
        (void) hg_mem_pool_grow(hg_mem_pool);
    chunk = hg_mem_pool->free_chunks;
    if (chunk != NULL)
        hg_mem_pool->free_chunks = chunk->next;
    (void) pthread_mutex_unlock(&hg_mem_pool->lock);
    if (chunk == NULL)
        return NULL;
    if (mr_handle != NULL)
        *mr_handle = chunk->block->handle;
    return (char *) chunk + HG_MEM_CHUNK_HEADER;
}

void hg_mem_pool_free(struct hg_mem_pool *hg_mem_pool, void *mem_ptr, void *mr_handle)
{
    struct hg_mem_chunk *chunk;

    (void) mr_handle;
    if (mem_ptr == NULL)
        return;
    chunk = (void *) ((char *) mem_ptr - HG_MEM_CHUNK_HEADER);
    (void) pthread_mutex_lock(&hg_mem_pool->lock);
    chunk->next = hg_mem_pool->free_chunks;
    hg_mem_pool->free_chunks = chunk;
    (void) pthread_mutex_unlock(&hg_mem_pool->lock);
}

size_t hg_mem_pool_chunk_offset(struct hg_mem_pool *hg_mem_pool, void *mem_ptr, void *mr_handle)
{
    struct hg_mem_chunk *chunk = (void *) ((char *) mem_ptr - HG_MEM_CHUNK_HEADER);

    (void) hg_mem_pool;
    (void) mr_handle;
    return (size_t) ((char *) mem_ptr - chunk->block->places);
}

/* Adds a block. Others wait meanwhile, or would make one each. */
static int hg_mem_pool_grow(struct hg_mem_pool *pool)
{
    size_t size = pool->place_size * pool->chunk_count;
    struct hg_mem_block *block = calloc(1, sizeof(*block) + size);

    if (block == NULL)
        return HG_UTIL_FAIL;
    if (pool->register_func != NULL &&
        pool->register_func(block->places, size, pool->flags, &block->handle, pool->arg) !=
            HG_UTIL_SUCCESS) {
        free(block);
        return HG_UTIL_FAIL;
    }
    block->next = pool->blocks;
    pool->blocks = block;
    for (size_t i = pool->chunk_count; i > 0; i--) {
        struct hg_mem_chunk *chunk = (void *) (block->places + (i - 1) * pool->place_size);

        chunk->block = block;
        chunk->next = pool->free_chunks;
        pool->free_chunks = chunk;
    }
    return HG_UTIL_SUCCESS;
}
