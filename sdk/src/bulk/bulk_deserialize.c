/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading of serialized descriptors, see bulk_wire.h. The bytes come from another process: they are
 * copied once, and each number is checked before it is used.
 */
#include "bulk/bulk_internal.h"
#include "bulk/bulk_registry.h"
#include "engine/fork.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static hg_return_t hg_bulk_wire_read(const uint8_t *buf, struct hg_bulk_wire *wire);
static hg_return_t hg_bulk_wire_check(const struct hg_bulk_wire *wire);
static hg_return_t hg_bulk_receive(struct hg_bulk *bulk, const struct hg_bulk_wire *wire);
static void hg_bulk_canonical_set(struct hg_bulk *bulk, const struct hg_bulk_wire *wire);
static hg_return_t hg_bulk_data_set(struct hg_bulk *bulk, uint8_t *data, size_t left);
static hg_return_t hg_bulk_addr_read(struct hg_bulk *bulk, const struct hg_bulk_wire *wire,
                                     const uint8_t *addr);
static hg_return_t hg_bulk_regions_read(struct hg_bulk *bulk, const struct hg_bulk_wire *wire,
                                        const uint8_t *pos, const uint8_t *end);
static hg_return_t hg_bulk_path_read(struct hg_bulk *bulk, int path, uint32_t count,
                                     const uint8_t **pos_p, const uint8_t *end);
static hg_return_t hg_bulk_region_read(na_class_t *na_class, struct hg_bulk_map *map,
                                       hg_size_t *offset_p, hg_size_t size, const uint8_t **pos_p,
                                       const uint8_t *end);

hg_return_t HG_Bulk_deserialize(hg_class_t *hg_class, hg_bulk_t *handle, const void *buf,
                                hg_size_t buf_size)
{
    struct hg_bulk_wire wire;
    struct hg_bulk *bulk = NULL;
    hg_return_t ret;

    if (hg_class != NULL && hg_fork_refuses(hg_class, __func__))
        return HG_PERMISSION;
    if (hg_class == NULL || handle == NULL || buf == NULL) {
        HG_LOG_ERROR("cannot make a descriptor: class %p, result %p, bytes %p; pass all of them",
                     (void *) hg_class, (void *) handle, buf);
        return HG_INVALID_ARG;
    }
    if (buf_size < HG_BULK_WIRE_HEADER_SIZE) {
        HG_LOG_ERROR("%" PRIu64 " bytes are too few for a bulk descriptor", buf_size);
        return HG_OVERFLOW;
    }
    ret = hg_bulk_wire_read(buf, &wire);
    if (ret != HG_SUCCESS)
        return ret;
    if (wire.total > buf_size) {
        HG_LOG_ERROR("bulk descriptor of %" PRIu32 " bytes is cut off after %" PRIu64, wire.total,
                     buf_size);
        return HG_OVERFLOW;
    }
    bulk = hg_bulk_new(hg_class);
    if (bulk == NULL)
        return HG_NOMEM;
    bulk->wire_size = wire.total;
    bulk->wire = malloc(wire.total);
    if (bulk->wire == NULL) {
        HG_LOG_ERROR("cannot make a descriptor of %" PRIu32 " bytes: out of memory", wire.total);
        ret = HG_NOMEM;
        goto error;
    }
    memcpy(bulk->wire, buf, wire.total);
    ret = hg_bulk_receive(bulk, &wire);
    if (ret != HG_SUCCESS)
        goto error;
    *handle = bulk;
    return HG_SUCCESS;

error:
    (void) HG_Bulk_free(bulk);
    return ret;
}

static hg_return_t hg_bulk_wire_read(const uint8_t *buf, struct hg_bulk_wire *wire)
{
    wire->magic = (uint32_t) hg_bulk_wire_get(&buf, 4);
    wire->version = (uint8_t) hg_bulk_wire_get(&buf, 1);
    wire->flags = (uint8_t) hg_bulk_wire_get(&buf, 1);
    wire->context_id = (uint8_t) hg_bulk_wire_get(&buf, 1);
    wire->mem_type = (uint8_t) hg_bulk_wire_get(&buf, 1);
    wire->total = (uint32_t) hg_bulk_wire_get(&buf, 4);
    wire->checksum = (uint32_t) hg_bulk_wire_get(&buf, 4);
    wire->size = hg_bulk_wire_get(&buf, 8);
    wire->segment_count = (uint32_t) hg_bulk_wire_get(&buf, 4);
    wire->addr_size = (uint32_t) hg_bulk_wire_get(&buf, 4);
    wire->name.half[0] = hg_bulk_wire_get(&buf, 8);
    wire->name.half[1] = hg_bulk_wire_get(&buf, 8);
    wire->device = hg_bulk_wire_get(&buf, 8);
    wire->region_count[HG_PATH_MAIN] = (uint32_t) hg_bulk_wire_get(&buf, 4);
    wire->region_count[HG_PATH_SM] = (uint32_t) hg_bulk_wire_get(&buf, 4);
    return hg_bulk_wire_check(wire);
}

/* Check the fixed part by itself. */
static hg_return_t hg_bulk_wire_check(const struct hg_bulk_wire *wire)
{
    bool is_bound = (wire->flags & HG_BULK_WIRE_BOUND) != 0;
    bool is_string = (wire->flags & HG_BULK_WIRE_ADDR_STRING) != 0;
    bool is_eager = (wire->flags & HG_BULK_WIRE_EAGER) != 0;

    if (wire->magic != HG_BULK_WIRE_MAGIC || wire->version != HG_BULK_WIRE_VERSION) {
        HG_LOG_ERROR("not a bulk descriptor of version %u: begins with 0x%08" PRIx32
                     ", version %u; both sides must run the same major version",
                     HG_BULK_WIRE_VERSION, wire->magic, (unsigned int) wire->version);
        return HG_PROTOCOL_ERROR;
    }
    if (wire->total < HG_BULK_WIRE_HEADER_SIZE ||
        wire->addr_size > wire->total - HG_BULK_WIRE_HEADER_SIZE ||
        is_bound != (wire->addr_size > 0) || (is_string && !is_bound) ||
        (wire->flags & ~HG_BULK_WIRE_FLAGS) != 0 || (wire->flags & HG_BULK_WIRE_ACCESS) == 0 ||
        wire->segment_count == 0 || wire->mem_type >= (uint8_t) HG_MEM_TYPE_MAX ||
        (is_eager && (wire->flags & HG_BULK_WIRE_ACCESS) != HG_BULK_READ_ONLY)) {
        HG_LOG_ERROR("damaged bulk descriptor: %" PRIu32 " bytes, flags 0x%x, address of %" PRIu32
                     ", %" PRIu32 " segments, memory type %u",
                     wire->total, (unsigned int) wire->flags, wire->addr_size, wire->segment_count,
                     (unsigned int) wire->mem_type);
        return HG_PROTOCOL_ERROR;
    }
    return HG_SUCCESS;
}

static hg_return_t hg_bulk_receive(struct hg_bulk *bulk, const struct hg_bulk_wire *wire)
{
    uint8_t *addr = (uint8_t *) bulk->wire + HG_BULK_WIRE_HEADER_SIZE;
    uint8_t *body = addr + wire->addr_size;
    uint8_t *end = (uint8_t *) bulk->wire + wire->total;
    hg_return_t ret;

    if (hg_bulk_wire_checksum(bulk->wire, wire->total) != wire->checksum) {
        HG_LOG_ERROR("damaged bulk descriptor: checksum 0x%08" PRIx32 " does not match its %" PRIu32
                     " bytes",
                     wire->checksum, wire->total);
        return HG_PROTOCOL_ERROR;
    }
    bulk->size = wire->size;
    bulk->segment_count = wire->segment_count;
    bulk->access = wire->flags & HG_BULK_WIRE_ACCESS;
    bulk->mem_type = (hg_mem_type_t) wire->mem_type;
    bulk->device = wire->device;
    if ((wire->flags & HG_BULK_WIRE_EAGER) != 0)
        ret = hg_bulk_data_set(bulk, body, (size_t) (end - body));
    else
        ret = hg_bulk_regions_read(bulk, wire, body, end);
    if (ret == HG_SUCCESS && wire->addr_size > 0)
        ret = hg_bulk_addr_read(bulk, wire, addr);
    if (ret == HG_SUCCESS && (wire->flags & HG_BULK_WIRE_EAGER) == 0)
        hg_bulk_canonical_set(bulk, wire);
    return ret;
}

/*
 * Recognize a descriptor of this class that came back. A peer that knows its name may have altered
 * the rest, so it must be identical to what was serialized; otherwise it is treated as a descriptor
 * of another process.
 */
static void hg_bulk_canonical_set(struct hg_bulk *bulk, const struct hg_bulk_wire *wire)
{
    struct hg_bulk *canonical = hg_bulk_registry_find(bulk->hg_class, &wire->name);

    if (canonical == NULL)
        return;
    if (hg_bulk_is_wire_of(bulk->wire, wire, canonical)) {
        bulk->canonical = canonical;
        return;
    }
    HG_LOG_WARNING("a bulk descriptor of %" PRIu64 " bytes came back other than it was made: it "
                   "does not reach the memory here",
                   wire->size);
    (void) HG_Bulk_free(canonical);
}

/* Eager data stay in the copy of the serialized descriptor. */
static hg_return_t hg_bulk_data_set(struct hg_bulk *bulk, uint8_t *data, size_t left)
{
    if (bulk->size != left || left == 0) {
        HG_LOG_ERROR("damaged bulk descriptor: %" PRIu64 " bytes described, %zu there", bulk->size,
                     left);
        return HG_PROTOCOL_ERROR;
    }
    (void) hg_bulk_map_init(&bulk->memory, 1);
    bulk->memory.count = 1;
    bulk->memory.single.offset = 0;
    bulk->memory.single.length = left;
    bulk->memory.single.at.base = (char *) data;
    return HG_SUCCESS;
}

static hg_return_t hg_bulk_addr_read(struct hg_bulk *bulk, const struct hg_bulk_wire *wire,
                                     const uint8_t *addr)
{
    const char *string = (const char *) addr;
    na_addr_t *na_addr = NULL;
    na_return_t ret;

    bulk->context_id = wire->context_id;
    if ((wire->flags & HG_BULK_WIRE_ADDR_STRING) != 0) {
        if (memchr(string, 0, wire->addr_size) != string + wire->addr_size - 1) {
            HG_LOG_ERROR("damaged bulk descriptor: its address is not a string");
            return HG_PROTOCOL_ERROR;
        }
        return HG_Addr_lookup2(bulk->hg_class, string, &bulk->addr);
    }
    ret = NA_Addr_deserialize(bulk->hg_class->paths[HG_PATH_MAIN].na_class, &na_addr, addr,
                              wire->addr_size, 0);
    if (ret != NA_SUCCESS) {
        HG_LOG_ERROR("bulk descriptor with an address of %" PRIu32 " bytes that is of no use: %s",
                     wire->addr_size, NA_Error_to_string(ret));
        return hg_return_from_na(ret);
    }
    bulk->addr = hg_addr_wrap(bulk->hg_class, HG_PATH_MAIN, na_addr);
    return bulk->addr != HG_ADDR_NULL ? HG_SUCCESS : HG_NOMEM;
}

static hg_return_t hg_bulk_regions_read(struct hg_bulk *bulk, const struct hg_bulk_wire *wire,
                                        const uint8_t *pos, const uint8_t *end)
{
    for (int path = 0; path < HG_PATH_MAX; path++) {
        uint32_t count = wire->region_count[path];
        hg_return_t ret;

        if (count == 0)
            continue;
        if (count > (size_t) (end - pos) / HG_BULK_WIRE_REGION_SIZE) {
            HG_LOG_ERROR("damaged bulk descriptor: %" PRIu32 " regions in %zu bytes", count,
                         (size_t) (end - pos));
            return HG_PROTOCOL_ERROR;
        }
        ret = hg_bulk_path_read(bulk, path, count, &pos, end);
        if (ret != HG_SUCCESS)
            return ret;
    }
    if (pos != end) {
        HG_LOG_ERROR("damaged bulk descriptor: %zu bytes too many", (size_t) (end - pos));
        return HG_PROTOCOL_ERROR;
    }
    if (bulk->size > 0 && wire->region_count[HG_PATH_MAIN] == 0) {
        HG_LOG_ERROR("damaged bulk descriptor: %" PRIu64 " bytes without a region", bulk->size);
        return HG_PROTOCOL_ERROR;
    }
    return HG_SUCCESS;
}

/* Read the regions of one path; those of a path that this class has not opened are skipped. */
static hg_return_t hg_bulk_path_read(struct hg_bulk *bulk, int path, uint32_t count,
                                     const uint8_t **pos_p, const uint8_t *end)
{
    na_class_t *na_class = bulk->hg_class->paths[path].na_class;
    struct hg_bulk_map *map = &bulk->paths[path];
    hg_size_t offset = 0;
    hg_return_t ret = hg_bulk_map_init(map, na_class != NULL ? count : 0);

    if (ret != HG_SUCCESS)
        return ret;
    for (uint32_t i = 0; i < count; i++) {
        ret = hg_bulk_region_read(na_class, map, &offset, bulk->size, pos_p, end);
        if (ret != HG_SUCCESS)
            return ret;
    }
    if (offset != bulk->size) {
        HG_LOG_ERROR("damaged bulk descriptor: %" PRIu64 " bytes described, %" PRIu64
                     " in its regions",
                     bulk->size, offset);
        return HG_PROTOCOL_ERROR;
    }
    return HG_SUCCESS;
}

static hg_return_t hg_bulk_region_read(na_class_t *na_class, struct hg_bulk_map *map,
                                       hg_size_t *offset_p, hg_size_t size, const uint8_t **pos_p,
                                       const uint8_t *end)
{
    struct hg_bulk_extent *extent = &map->extents[map->count];
    hg_size_t length;
    uint32_t mem_size;
    na_return_t ret;

    if ((size_t) (end - *pos_p) < HG_BULK_WIRE_REGION_SIZE) {
        HG_LOG_ERROR("damaged bulk descriptor: a region is cut off");
        return HG_PROTOCOL_ERROR;
    }
    length = hg_bulk_wire_get(pos_p, 8);
    mem_size = (uint32_t) hg_bulk_wire_get(pos_p, 4);
    if (length == 0 || length > size - *offset_p || mem_size > (size_t) (end - *pos_p)) {
        HG_LOG_ERROR("damaged bulk descriptor: region of %" PRIu64 " bytes at %" PRIu64
                     " of %" PRIu64 ", memory handle of %" PRIu32,
                     length, *offset_p, size, mem_size);
        return HG_PROTOCOL_ERROR;
    }
    if (na_class != NULL) {
        ret = NA_Mem_handle_deserialize(na_class, &extent->at.mem, *pos_p, mem_size);
        if (ret != NA_SUCCESS) {
            HG_LOG_ERROR("bulk descriptor with a memory handle of %" PRIu32
                         " bytes that %s refuses: %s",
                         mem_size, NA_Get_class_name(na_class), NA_Error_to_string(ret));
            return hg_return_from_na(ret);
        }
        extent->offset = *offset_p;
        extent->length = length;
        map->count++;
    }
    *offset_p += length;
    *pos_p += mem_size;
    return HG_SUCCESS;
}
