/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration of local memory with the transports: one memory handle for all segments if the
 * transport takes so many in one handle, otherwise one for each run of as many segments as it
 * takes.
 */
#include "bulk/bulk_internal.h"

#include <inttypes.h>
#include <stdlib.h>

static hg_return_t hg_bulk_register_path(struct hg_bulk *bulk, enum hg_path path,
                                         na_class_t *na_class);
static hg_return_t hg_bulk_register_runs(struct hg_bulk *bulk, struct hg_bulk_map *map,
                                         na_class_t *na_class, uint32_t run,
                                         struct na_segment *segments);
static hg_return_t hg_bulk_register_run(struct hg_bulk *bulk, na_class_t *na_class,
                                        struct na_segment *segments, uint32_t count,
                                        na_mem_handle_t **mem_p);
static void hg_bulk_deregister_path(struct hg_bulk *bulk, enum hg_path path);

hg_return_t hg_bulk_register(struct hg_bulk *bulk)
{
    for (int path = 0; path < HG_PATH_MAX; path++) {
        na_class_t *na_class = bulk->hg_class->paths[path].na_class;
        hg_return_t ret;

        if (na_class == NULL || bulk->memory.count == 0)
            continue;
        ret = hg_bulk_register_path(bulk, (enum hg_path) path, na_class);
        if (ret != HG_SUCCESS)
            return ret;
    }
    return HG_SUCCESS;
}

void hg_bulk_deregister(struct hg_bulk *bulk)
{
    for (int path = 0; path < HG_PATH_MAX; path++)
        hg_bulk_deregister_path(bulk, (enum hg_path) path);
}

hg_return_t hg_bulk_map_init(struct hg_bulk_map *map, uint32_t count)
{
    map->extents = &map->single;
    map->count = 0;
    if (count <= 1)
        return HG_SUCCESS;
    map->extents = calloc(count, sizeof(*map->extents));
    if (map->extents == NULL) {
        HG_LOG_ERROR("cannot describe %" PRIu32 " segments: out of memory", count);
        return HG_NOMEM;
    }
    return HG_SUCCESS;
}

void hg_bulk_map_fini(struct hg_bulk_map *map)
{
    if (map->extents != &map->single)
        free(map->extents);
    map->extents = NULL;
    map->count = 0;
}

static hg_return_t hg_bulk_register_path(struct hg_bulk *bulk, enum hg_path path,
                                         na_class_t *na_class)
{
    uint32_t count = bulk->memory.count;
    size_t max = NA_Mem_handle_get_max_segments(na_class);
    uint32_t run = max < 1 ? 1 : (max < count ? (uint32_t) max : count);
    struct na_segment one;
    struct na_segment *segments = &one;
    hg_return_t ret;

    ret = hg_bulk_map_init(&bulk->paths[path], (count - 1) / run + 1);
    if (ret != HG_SUCCESS)
        return ret;
    if (run > 1) {
        segments = calloc(run, sizeof(*segments));
        if (segments == NULL) {
            HG_LOG_ERROR("cannot register %" PRIu32 " segments: out of memory", count);
            return HG_NOMEM;
        }
    }
    ret = hg_bulk_register_runs(bulk, &bulk->paths[path], na_class, run, segments);
    if (segments != &one)
        free(segments);
    return ret;
}

/* On failure the map contains the handles registered so far, for the caller to deregister. */
static hg_return_t hg_bulk_register_runs(struct hg_bulk *bulk, struct hg_bulk_map *map,
                                         na_class_t *na_class, uint32_t run,
                                         struct na_segment *segments)
{
    const struct hg_bulk_map *memory = &bulk->memory;

    for (uint32_t first = 0; first < memory->count; first += run) {
        struct hg_bulk_extent *extent = &map->extents[map->count];
        uint32_t count = memory->count - first < run ? memory->count - first : run;
        hg_return_t ret;

        extent->offset = memory->extents[first].offset;
        extent->length = 0;
        for (uint32_t i = 0; i < count; i++) {
            segments[i].base = memory->extents[first + i].at.base;
            segments[i].len = (size_t) memory->extents[first + i].length;
            extent->length += memory->extents[first + i].length;
        }
        ret = hg_bulk_register_run(bulk, na_class, segments, count, &extent->at.mem);
        if (ret != HG_SUCCESS)
            return ret;
        map->count++;
    }
    return HG_SUCCESS;
}

static hg_return_t hg_bulk_register_run(struct hg_bulk *bulk, na_class_t *na_class,
                                        struct na_segment *segments, uint32_t count,
                                        na_mem_handle_t **mem_p)
{
    unsigned long access = 0;
    na_return_t ret;

    if ((bulk->access & HG_BULK_READ_ONLY) != 0)
        access |= NA_MEM_READ_ONLY;
    if ((bulk->access & HG_BULK_WRITE_ONLY) != 0)
        access |= NA_MEM_WRITE_ONLY;
    if (count == 1)
        ret = NA_Mem_handle_create(na_class, segments->base, segments->len, access, mem_p);
    else
        ret = NA_Mem_handle_create_segments(na_class, segments, count, access, mem_p);
    if (ret != NA_SUCCESS)
        goto error;
    ret = NA_Mem_register(na_class, *mem_p, (enum na_mem_type) bulk->mem_type, bulk->device);
    if (ret != NA_SUCCESS) {
        NA_Mem_handle_free(na_class, *mem_p);
        goto error;
    }
    return HG_SUCCESS;

error:
    HG_LOG_ERROR("cannot register %" PRIu32 " segments from %p on (memory type %d) with %s: %s",
                 count, segments->base, (int) bulk->mem_type, NA_Get_class_name(na_class),
                 NA_Error_to_string(ret));
    return hg_return_from_na(ret);
}

static void hg_bulk_deregister_path(struct hg_bulk *bulk, enum hg_path path)
{
    na_class_t *na_class = bulk->hg_class->paths[path].na_class;
    struct hg_bulk_map *map = &bulk->paths[path];

    for (uint32_t i = 0; i < map->count; i++) {
        na_mem_handle_t *mem = map->extents[i].at.mem;
        na_return_t ret = bulk->is_local ? NA_Mem_deregister(na_class, mem) : NA_SUCCESS;

        if (ret != NA_SUCCESS)
            HG_LOG_WARNING("cannot deregister memory from %s: %s", NA_Get_class_name(na_class),
                           NA_Error_to_string(ret));
        NA_Mem_handle_free(na_class, mem);
    }
    hg_bulk_map_fini(map);
}
