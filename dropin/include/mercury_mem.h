/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Aligned, huge-page and shared memory.
 */
#ifndef MERCURY_MEM_H
#define MERCURY_MEM_H

#include "mercury_util_config.h"

/* Bytes, as most machines have them; hg_mem_get_page_size() asks. */
#define HG_MEM_CACHE_LINE_SIZE 64
#define HG_MEM_PAGE_SIZE       4096

#ifdef __cplusplus
extern "C" {
#endif

/**
 * \return bytes of a page, or 0 if the system does not tell
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC long hg_mem_get_page_size(void);

/**
 * \return bytes of a huge page of the default size, or 0 if the system has none
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC long hg_mem_get_hugepage_size(void);

/**
 * Allocate aligned memory.
 *
 * \param alignment [IN]    a power of two
 * \param size [IN]         bytes
 *
 * \return memory, to be freed by hg_mem_aligned_free(); NULL if \a alignment is no power of two or
 *         memory is out
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void *hg_mem_aligned_alloc(size_t alignment, size_t size);

/**
 * Free memory of hg_mem_aligned_alloc().
 *
 * \param mem_ptr [IN]      memory, NULL is allowed
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_mem_aligned_free(void *mem_ptr);

/**
 * Allocate huge pages.
 *
 * \param size [IN]         bytes, a multiple of a huge page's
 *
 * \return memory, to be freed by hg_mem_huge_free(); NULL if the system has not enough of them
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void *hg_mem_huge_alloc(size_t size);

/**
 * Free huge pages.
 *
 * \param mem_ptr [IN]      memory of hg_mem_huge_alloc()
 * \param size [IN]         bytes that were asked for
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_mem_huge_free(void *mem_ptr, size_t size);

/**
 * Allocate memory behind a header.
 *
 * \param header_size [IN]  bytes of the header, right before the memory
 * \param alignment [IN]    alignment of the memory behind it, a power of two; 0 for any
 * \param size [IN]         bytes behind the header
 *
 * \return memory behind the header, to be freed by hg_mem_header_free(); NULL if memory is out
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void *hg_mem_header_alloc(size_t header_size, size_t alignment, size_t size);

/**
 * Free memory of hg_mem_header_alloc().
 *
 * \param header_size [IN]  bytes, as given there
 * \param alignment [IN]    what was given there
 * \param mem_ptr [IN]      memory behind the header, NULL is allowed
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_mem_header_free(size_t header_size, size_t alignment, void *mem_ptr);

/**
 * Map shared memory, which others see under its name.
 *
 * \param name [IN]         name, beginning with a slash
 * \param size [IN]         bytes
 * \param create [IN]       make it if it does not exist, and give it that size
 *
 * \return memory, to be given back by hg_mem_shm_unmap(); NULL if it cannot be mapped
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void *hg_mem_shm_map(const char *name, size_t size, bool create);

/**
 * Give back shared memory, and remove its name if one is given.
 *
 * \param name [IN]         name; NULL to leave it to others
 * \param mem_ptr [IN]      memory; NULL to remove the name alone
 * \param size [IN]         bytes that were asked for
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_mem_shm_unmap(const char *name, void *mem_ptr, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_MEM_H */
