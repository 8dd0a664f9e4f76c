/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An extension of the plugin ABI: memory handles of several segments. Without it a handle has one
 * segment. The rules at the top of na_plugin.h apply here, too.
 */

#ifndef NA_PLUGIN_MEM_SEGMENTS_H
#define NA_PLUGIN_MEM_SEGMENTS_H

#include "na_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The id of this table for get_extension. */
#define NA_PLUGIN_EXT_MEM_SEGMENTS "na.mem_segments/1"

/* Frozen. */
struct na_plugin_segment {
    void *base;
    uint64_t length;
};

struct na_plugin_mem_segments {
    struct na_plugin_extension extension;
    uint64_t max_segments; /* at least 2 */

    /*
     * Like mem_create, and returns the same: `*mem_p` is freed by mem_destroy. The handle's offsets
     * run through the segments as if they were joined; the caller owns the array. [any thread] [may
     * not block]
     */
    int32_t (*mem_create_segments)(struct na_plugin_class *na_class,
                                   const struct na_plugin_segment *segments, uint64_t count,
                                   uint32_t flags, struct na_plugin_mem **mem_p);
};

#if UINTPTR_MAX == UINT64_MAX
NA_PLUGIN_ASSERT(sizeof(struct na_plugin_segment) == 16);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_mem_segments, mem_create_segments) == 16);
#endif

#ifdef __cplusplus
}
#endif

#endif /* NA_PLUGIN_MEM_SEGMENTS_H */
