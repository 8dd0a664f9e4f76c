/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps from offsets in a descriptor to memory addresses or memory handles. Header only. */
#ifndef HG_BULK_MAP_H
#define HG_BULK_MAP_H

#include "mercury_types.h"

/* A contiguous part of a descriptor. */
struct hg_bulk_extent {
    hg_size_t offset; /* in the descriptor */
    hg_size_t length; /* never 0 */
    union {
        char *base;           /* in a map of memory */
        na_mem_handle_t *mem; /* in a map of memory handles */
    } at;
};

/* The extents of a descriptor, in order and without gaps. Empty for a descriptor of size 0. */
struct hg_bulk_map {
    struct hg_bulk_extent *extents; /* `single`, or allocated */
    uint32_t count;
    struct hg_bulk_extent single; /* avoids the allocation for one extent */
};

/* A position in a map. Valid as long as the map. */
struct hg_bulk_cursor {
    const struct hg_bulk_extent *extent;
    hg_size_t within; /* offset in the extent, in bytes */
};

/* Find the extent that an offset below the descriptor's size lies in. */
static inline const struct hg_bulk_extent *hg_bulk_map_find(const struct hg_bulk_map *map,
                                                            hg_size_t offset)
{
    uint32_t low = 0;
    uint32_t high = map->count;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (map->extents[middle].offset <= offset)
            low = middle;
        else
            high = middle;
    }
    return &map->extents[low];
}

static inline struct hg_bulk_cursor hg_bulk_cursor_at(const struct hg_bulk_map *map,
                                                      hg_size_t offset)
{
    struct hg_bulk_cursor cursor;

    cursor.extent = hg_bulk_map_find(map, offset);
    cursor.within = offset - cursor.extent->offset;
    return cursor;
}

/* Bytes up to the end of the extent. */
static inline hg_size_t hg_bulk_cursor_left(const struct hg_bulk_cursor *cursor)
{
    return cursor->extent->length - cursor->within;
}

/* Advance within the extent, or to the next one. After the last byte the cursor is invalid. */
static inline void hg_bulk_cursor_advance(struct hg_bulk_cursor *cursor, hg_size_t size)
{
    cursor->within += size;
    if (cursor->within == cursor->extent->length) {
        cursor->extent++;
        cursor->within = 0;
    }
}

#endif /* HG_BULK_MAP_H */
