/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An extension of the plugin ABI: memory that the plugin allocates for programs, because peers
 * reach it faster than other memory. Without it the core allocates ordinary memory. Since 1.2. The
 * rules at the top of na_plugin.h apply here, too.
 */

#ifndef NA_PLUGIN_MEM_ALLOC_H
#define NA_PLUGIN_MEM_ALLOC_H

#include "na_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The id of this table for get_extension. */
#define NA_PLUGIN_EXT_MEM_ALLOC "na.mem_alloc/1"

struct na_plugin_mem_alloc {
    struct na_plugin_extension extension;

    /*
     * Returns zero-filled memory of `size` bytes, which is not 0, aligned for any type, freed by
     * mem_free before the class is finalized; or NULL when the plugin has none of that size: the
     * core allocates ordinary memory then. The memory is used, and registered by mem_create and
     * mem_register, like any other. [mandatory] [any thread]
     */
    void *(*mem_alloc)(struct na_plugin_class *na_class, uint64_t size);

    /*
     * Frees memory of mem_alloc, which is not registered any more. Returns NA_PLUGIN_NOENTRY,
     * without an effect, for other memory, which the core frees itself. [mandatory] [any thread]
     */
    int32_t (*mem_free)(struct na_plugin_class *na_class, void *memory);
};

#if UINTPTR_MAX == UINT64_MAX
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_mem_alloc, mem_free) == 16);
#endif

#ifdef __cplusplus
}
#endif

#endif /* NA_PLUGIN_MEM_ALLOC_H */
