/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Maps from offsets in a descriptor to where the bytes are: memory addresses, or memory handles of
 * the transport. Header only.
 */
#ifndef HG_BULK_MAP_H
#define HG_BULK_MAP_H

#include "mercury_types.h"

/* A part of a descriptor that lies in one place. */
struct hg_bulk_extent {
    hg_size_t offset; /* in the descriptor */
    hg_size_t length; /* never 0 */
    union {
        char *base;           /* in a map of memory */
        na_mem_handle_t *mem; /* in a map of memory handles */
    } at;
};

/* All parts, in order and without gaps. Empty for a descriptor without bytes. */
struct hg_bulk_map {
    struct hg_bulk_extent *extents; /* `single`, or allocated */
    uint32_t count;
    struct hg_bulk_extent single; /* the usual case needs no allocation */
};

/* A position in a map. Valid as long as the map. */
struct hg_bulk_cursor {
    const struct hg_bulk_extent *extent;
    hg_size_t within; /* bytes of the extent that are behind */
};

/* The extent that an offset below the descriptor's size is in: the last that does not begin after
 * it. */
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

/* Bytes that follow in one place. */
static inline hg_size_t hg_bulk_cursor_left(const struct hg_bulk_cursor *cursor)
{
    return cursor->extent->length - cursor->within;
}

/* Steps over bytes that are in one place. Past the last byte the cursor is not to be used. */
static inline void hg_bulk_cursor_advance(struct hg_bulk_cursor *cursor, hg_size_t size)
{
    cursor->within += size;
    if (cursor->within == cursor->extent->length) {
        cursor->extent++;
        cursor->within = 0;
    }
}

#endif /* HG_BULK_MAP_H */
