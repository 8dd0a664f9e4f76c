/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool of equal chunks of memory, which come in blocks that the program may register somewhere.
 */
#ifndef MERCURY_MEM_POOL_H
#define MERCURY_MEM_POOL_H

#include "mercury_util_config.h"

struct hg_mem_pool;

/**
 * Registers a block.
 *
 * \param buf [IN]          its begin
 * \param size [IN]         bytes
 * \param flags [IN]        what hg_mem_pool_create() was given
 * \param handle [OUT]      handle of the registration
 * \param arg [IN]          what hg_mem_pool_create() was given
 *
 * \return HG_UTIL_SUCCESS, or another value: the block is not used
 */
typedef int (*hg_mem_pool_register_func_t)(const void *buf, size_t size, unsigned long flags,
                                           void **handle, void *arg);

/**
 * Undoes that.
 *
 * \param handle [IN]       handle of the registration
 * \param arg [IN]          what hg_mem_pool_create() was given
 *
 * \return HG_UTIL_SUCCESS or another value
 */
typedef int (*hg_mem_pool_deregister_func_t)(void *handle, void *arg);

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Make a pool. It grows by a block when all chunks are taken.
 *
 * \param chunk_size [IN]       bytes of a chunk
 * \param chunk_count [IN]      chunks of a block
 * \param block_count [IN]      blocks to begin with
 * \param register_func [IN]    registers a block; may be NULL
 * \param flags [IN]            passed to it
 * \param deregister_func [IN]  undoes that; may be NULL
 * \param arg [IN]              passed to both
 *
 * \return pool, to be freed by hg_mem_pool_destroy(); NULL if a size is 0, a block cannot be
 *         registered or memory is out
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC struct hg_mem_pool *hg_mem_pool_create(size_t chunk_size, size_t chunk_count,
                                                      size_t block_count,
                                                      hg_mem_pool_register_func_t register_func,
                                                      unsigned long flags,
                                                      hg_mem_pool_deregister_func_t deregister_func,
                                                      void *arg);

/**
 * Free a pool, with all of its chunks.
 *
 * \param hg_mem_pool [IN]      pool, NULL is allowed
 *
 * One thread, after all others are done with the pool. \since 1.0
 */
HG_UTIL_PUBLIC void hg_mem_pool_destroy(struct hg_mem_pool *hg_mem_pool);

/**
 * Take a chunk.
 *
 * \param hg_mem_pool [IN]      pool
 * \param size [IN]             bytes, at most a chunk's
 * \param mr_handle [OUT]       handle of its block's registration, which belongs to the pool; may
 *                              be NULL
 *
 * \return chunk, to be given back by hg_mem_pool_free(); NULL if \a size is more than a chunk or no
 *         further block can be made
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void *hg_mem_pool_alloc(struct hg_mem_pool *hg_mem_pool, size_t size,
                                       void **mr_handle);

/**
 * Give a chunk back.
 *
 * \param hg_mem_pool [IN]      pool
 * \param mem_ptr [IN]          chunk, NULL is allowed
 * \param mr_handle [IN]        handle that came with it
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_mem_pool_free(struct hg_mem_pool *hg_mem_pool, void *mem_ptr,
                                     void *mr_handle);

/**
 * Tell where in the memory that was registered a chunk lies.
 *
 * \param hg_mem_pool [IN]      pool
 * \param mem_ptr [IN]          chunk
 * \param mr_handle [IN]        handle that came with it
 *
 * \return bytes from the begin of what was registered
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC size_t hg_mem_pool_chunk_offset(struct hg_mem_pool *hg_mem_pool, void *mem_ptr,
                                               void *mr_handle);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_MEM_POOL_H */
