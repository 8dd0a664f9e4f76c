/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing of serialized descriptors, see bulk_wire.h. Received ones are passed on unchanged. */
#include "bulk/bulk_internal.h"
#include "bulk/bulk_registry.h"
#include "engine/checksum.h"
#include "engine/fork.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool hg_bulk_is_eager(const struct hg_bulk *bulk, unsigned long flags);
static bool hg_bulk_has_path(const struct hg_bulk *bulk, int path, unsigned long flags);
static hg_size_t hg_bulk_regions_size(struct hg_bulk *bulk, unsigned long flags);
static hg_return_t hg_bulk_write(uint8_t *buf, hg_size_t total, struct hg_bulk *bulk,
                                 unsigned long flags, uint32_t addr_size);
static void hg_bulk_wire_write(uint8_t *buf, struct hg_bulk *bulk, unsigned long flags,
                               uint32_t addr_size, hg_size_t total);
static void hg_bulk_data_write(uint8_t *pos, const struct hg_bulk *bulk);
static hg_return_t hg_bulk_regions_write(uint8_t *pos, const uint8_t *end, struct hg_bulk *bulk,
                                         unsigned long flags);
static hg_return_t hg_bulk_region_write(uint8_t **pos, const uint8_t *end, na_class_t *na_class,
                                        const struct hg_bulk_extent *extent);

hg_size_t HG_Bulk_get_serialize_size(hg_bulk_t handle, unsigned long flags)
{
    hg_size_t size;

    if (handle == HG_BULK_NULL || hg_fork_refuses(handle->hg_class, __func__))
        return 0;
    if (handle->wire != NULL)
        return handle->wire_size;
    size =
        HG_BULK_WIRE_HEADER_SIZE + atomic_load_explicit(&handle->addr_size, memory_order_acquire);
    if (hg_bulk_is_eager(handle, flags))
        return size + handle->size;
    return size + hg_bulk_regions_size(handle, flags);
}

hg_return_t HG_Bulk_serialize(void *buf, hg_size_t buf_size, unsigned long flags, hg_bulk_t handle)
{
    hg_size_t total = HG_Bulk_get_serialize_size(handle, flags);

    if (handle != HG_BULK_NULL && hg_fork_refuses(handle->hg_class, __func__))
        return HG_PERMISSION;
    if (buf == NULL || handle == HG_BULK_NULL) {
        HG_LOG_ERROR("cannot serialize descriptor %p to %p; pass both", (void *) handle, buf);
        return HG_INVALID_ARG;
    }
    if (total > buf_size || total > UINT32_MAX) {
        HG_LOG_ERROR("descriptor of %" PRIu64 " bytes does not fit a buffer of %" PRIu64
                     "; ask HG_Bulk_get_serialize_size() first, and stay below 4 GiB",
                     total, buf_size);
        return HG_OVERFLOW;
    }
    if (handle->wire != NULL) {
        memcpy(buf, handle->wire, handle->wire_size);
        return HG_SUCCESS;
    }
    return hg_bulk_write(buf, total, handle, flags,
                         atomic_load_explicit(&handle->addr_size, memory_order_acquire));
}

bool hg_bulk_is_wire_of(const void *buf, const struct hg_bulk_wire *wire, struct hg_bulk *bulk)
{
    const unsigned long flags = wire->region_count[HG_PATH_SM] > 0 ? HG_BULK_SM : 0;
    uint32_t addr_size = atomic_load_explicit(&bulk->addr_size, memory_order_acquire);
    uint8_t *copy;
    bool is_equal;

    if ((wire->flags & HG_BULK_WIRE_BOUND) == 0)
        addr_size = 0;
    if (HG_BULK_WIRE_HEADER_SIZE + addr_size + hg_bulk_regions_size(bulk, flags) != wire->total)
        return false;
    copy = malloc(wire->total);
    if (copy == NULL)
        return false;
    is_equal = hg_bulk_write(copy, wire->total, bulk, flags, addr_size) == HG_SUCCESS &&
               memcmp(copy, buf, wire->total) == 0;
    free(copy);
    return is_equal;
}

uint32_t hg_bulk_wire_checksum(const void *buf, size_t total)
{
    const uint8_t *bytes = buf;
    const size_t after = HG_BULK_WIRE_CHECKSUM_AT + 4;
    uint64_t seed = hg_checksum(bytes, HG_BULK_WIRE_CHECKSUM_AT, 0);

    return (uint32_t) hg_checksum(bytes + after, total - after, seed);
}

/* Write a whole descriptor; addr_size is 0 for the form without the address. */
static hg_return_t hg_bulk_write(uint8_t *buf, hg_size_t total, struct hg_bulk *bulk,
                                 unsigned long flags, uint32_t addr_size)
{
    uint8_t *pos = buf + HG_BULK_WIRE_HEADER_SIZE + addr_size;
    hg_return_t ret = HG_SUCCESS;

    hg_bulk_wire_write(buf, bulk, flags, addr_size, total);
    if (hg_bulk_is_eager(bulk, flags))
        hg_bulk_data_write(pos, bulk);
    else
        ret = hg_bulk_regions_write(pos, buf + total, bulk, flags);
    if (ret != HG_SUCCESS)
        return ret;
    pos = buf + HG_BULK_WIRE_CHECKSUM_AT;
    hg_bulk_wire_put(&pos, hg_bulk_wire_checksum(buf, (size_t) total), 4);
    return HG_SUCCESS;
}

/* Embed the data if no peer may write them, so that a copy is as good as the original. */
static bool hg_bulk_is_eager(const struct hg_bulk *bulk, unsigned long flags)
{
    return (flags & HG_BULK_EAGER) != 0 && bulk->access == HG_BULK_READ_ONLY &&
           bulk->mem_type == HG_MEM_TYPE_HOST && bulk->size > 0 && !bulk->hg_class->bulk->no_eager;
}

/* The main path is always included, so that a third party can use the descriptor. */
static bool hg_bulk_has_path(const struct hg_bulk *bulk, int path, unsigned long flags)
{
    return bulk->paths[path].count > 0 && (path == HG_PATH_MAIN || (flags & HG_BULK_SM) != 0);
}

static hg_size_t hg_bulk_regions_size(struct hg_bulk *bulk, unsigned long flags)
{
    hg_size_t size = 0;

    for (int path = 0; path < HG_PATH_MAX; path++) {
        na_class_t *na_class = bulk->hg_class->paths[path].na_class;
        const struct hg_bulk_map *map = &bulk->paths[path];

        if (!hg_bulk_has_path(bulk, path, flags))
            continue;
        for (uint32_t i = 0; i < map->count; i++)
            size += HG_BULK_WIRE_REGION_SIZE +
                    NA_Mem_handle_get_serialize_size(na_class, map->extents[i].at.mem);
    }
    return size;
}

/* Write the fixed part and the address. */
static void hg_bulk_wire_write(uint8_t *buf, struct hg_bulk *bulk, unsigned long flags,
                               uint32_t addr_size, hg_size_t total)
{
    const struct hg_bulk_name name = hg_bulk_registry_name(bulk);
    bool is_eager = hg_bulk_is_eager(bulk, flags);
    uint8_t wire_flags = bulk->access;

    if (addr_size > 0)
        wire_flags |= HG_BULK_WIRE_BOUND;
    if (addr_size > 0 && bulk->addr_is_string)
        wire_flags |= HG_BULK_WIRE_ADDR_STRING;
    if (is_eager)
        wire_flags |= HG_BULK_WIRE_EAGER;
    hg_bulk_wire_put(&buf, HG_BULK_WIRE_MAGIC, 4);
    hg_bulk_wire_put(&buf, HG_BULK_WIRE_VERSION, 1);
    hg_bulk_wire_put(&buf, wire_flags, 1);
    hg_bulk_wire_put(&buf, addr_size > 0 ? bulk->context_id : 0, 1);
    hg_bulk_wire_put(&buf, (uint64_t) bulk->mem_type, 1);
    hg_bulk_wire_put(&buf, total, 4);
    hg_bulk_wire_put(&buf, 0, 4);
    hg_bulk_wire_put(&buf, bulk->size, 8);
    hg_bulk_wire_put(&buf, bulk->segment_count, 4);
    hg_bulk_wire_put(&buf, addr_size, 4);
    hg_bulk_wire_put(&buf, name.half[0], 8);
    hg_bulk_wire_put(&buf, name.half[1], 8);
    hg_bulk_wire_put(&buf, bulk->device, 8);
    for (int path = 0; path < HG_PATH_MAX; path++) {
        bool has_path = !is_eager && hg_bulk_has_path(bulk, path, flags);

        hg_bulk_wire_put(&buf, has_path ? bulk->paths[path].count : 0, 4);
    }
    if (addr_size > 0)
        memcpy(buf, bulk->addr_wire, addr_size);
}

static void hg_bulk_data_write(uint8_t *pos, const struct hg_bulk *bulk)
{
    for (uint32_t i = 0; i < bulk->memory.count; i++) {
        const struct hg_bulk_extent *extent = &bulk->memory.extents[i];

        memcpy(pos, extent->at.base, (size_t) extent->length);
        pos += extent->length;
    }
}

static hg_return_t hg_bulk_regions_write(uint8_t *pos, const uint8_t *end, struct hg_bulk *bulk,
                                         unsigned long flags)
{
    for (int path = 0; path < HG_PATH_MAX; path++) {
        na_class_t *na_class = bulk->hg_class->paths[path].na_class;
        const struct hg_bulk_map *map = &bulk->paths[path];

        if (!hg_bulk_has_path(bulk, path, flags))
            continue;
        for (uint32_t i = 0; i < map->count; i++) {
            hg_return_t ret = hg_bulk_region_write(&pos, end, na_class, &map->extents[i]);

            if (ret != HG_SUCCESS)
                return ret;
        }
    }
    return HG_SUCCESS;
}

static hg_return_t hg_bulk_region_write(uint8_t **pos, const uint8_t *end, na_class_t *na_class,
                                        const struct hg_bulk_extent *extent)
{
    size_t size = NA_Mem_handle_get_serialize_size(na_class, extent->at.mem);
    na_return_t ret;

    if (size > UINT32_MAX || (size_t) (end - *pos) < HG_BULK_WIRE_REGION_SIZE + size) {
        HG_LOG_ERROR("memory handle of %s grew to %zu bytes meanwhile", NA_Get_class_name(na_class),
                     size);
        return HG_OVERFLOW;
    }
    hg_bulk_wire_put(pos, extent->length, 8);
    hg_bulk_wire_put(pos, size, 4);
    ret = NA_Mem_handle_serialize(na_class, *pos, size, extent->at.mem);
    if (ret != NA_SUCCESS) {
        HG_LOG_ERROR("memory handle of %s not serialized: %s", NA_Get_class_name(na_class),
                     NA_Error_to_string(ret));
        return hg_return_from_na(ret);
    }
    *pos += size;
    return HG_SUCCESS;
}
