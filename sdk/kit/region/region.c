/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory and serialized handles. */

#include "kit_region.h"

#include <endian.h>
#include <string.h>

#define REGION_MAGIC   UINT32_C(0x4752414b)
#define REGION_VERSION 1u
#define REGION_RIGHTS  (NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE)

/* A serialized handle, little-endian; extra_size bytes of the plugin's follow. */
struct region_wire {
    uint32_t magic;
    uint16_t version;
    uint16_t extra_size;
    uint32_t flags;
    uint32_t mem_type;
    uint64_t owner;
    uint64_t id;
    struct kit_key key; /* bytes as in the owner's memory */
    uint64_t base;
    uint64_t length;
    uint64_t reserved; /* 0 */
    uint64_t digest;   /* of this struct with a digest of 0, and the extra bytes */
};

_Static_assert(sizeof(struct region_wire) == KIT_REGION_PACKED, "layout of the wire");

static bool region_is_possible(uint64_t base, uint64_t length);
static uint64_t region_digest(struct region_wire wire, const void *extra, uint32_t extra_size);

int32_t kit_regions_open(struct kit_regions *regions)
{
    struct kit_key random = {.word = {0}};
    int32_t ret = kit_key_draw(&random);

    memset(regions, 0, sizeof(*regions));
    kit_list_init(&regions->all);
    regions->owner = random.word[0];
    return ret;
}

void kit_regions_close(struct kit_regions *regions)
{
    kit_table_free(&regions->ids);
    memset(&regions->keys, 0, sizeof(regions->keys));
}

int32_t kit_region_add(struct kit_regions *regions, struct kit_region *region, const void *base,
                       uint64_t length, uint32_t flags)
{
    if (!region_is_possible((uint64_t) (uintptr_t) base, length))
        return NA_PLUGIN_INVALID_ARG;
    region->base = (uint64_t) (uintptr_t) base;
    region->length = length;
    region->flags = flags;
    region->owner = regions->owner;
    region->regions = regions;
    kit_list_append(&regions->all, &region->node);
    return NA_PLUGIN_SUCCESS;
}

void kit_region_remove(struct kit_region *region)
{
    kit_region_revoke(region);
    kit_list_remove(&region->node);
}

int32_t kit_region_register(struct kit_regions *regions, struct kit_region *region)
{
    int32_t ret;

    if (region->is_remote || region->is_registered)
        return NA_PLUGIN_SUCCESS;
    ret = kit_key_take(&regions->keys, &region->key);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = kit_table_add(&regions->ids, region, &region->id);
    region->is_registered = ret == NA_PLUGIN_SUCCESS;
    return ret;
}

void kit_region_deregister(struct kit_regions *regions, struct kit_region *region)
{
    if (region->is_registered)
        kit_table_remove(&regions->ids, region->id);
    region->is_registered = false;
    kit_region_revoke(region);
}

int32_t kit_region_find(const struct kit_regions *regions, uint64_t id, const struct kit_key *key,
                        uint32_t access, uint64_t offset, uint64_t length,
                        struct kit_region **region_p)
{
    struct kit_region *region = kit_table_find(&regions->ids, id);

    if (region == NULL || !kit_key_is_equal(&region->key, key) ||
        (region->flags & access) != access)
        return NA_PLUGIN_PERMISSION;
    if (offset > region->length || length > region->length - offset)
        return NA_PLUGIN_OVERFLOW;
    *region_p = region;
    return NA_PLUGIN_SUCCESS;
}

int32_t kit_region_pack(const struct kit_region *region, const void *extra, uint32_t extra_size,
                        void *buf, uint64_t size)
{
    struct region_wire wire = {
        .magic = htole32(REGION_MAGIC),
        .version = htole16(REGION_VERSION),
        .extra_size = htole16((uint16_t) extra_size),
        .flags = htole32(region->flags),
        .mem_type = htole32(region->mem_type),
        .owner = htole64(region->owner),
        .id = htole64(region->id),
        .key = region->key,
        .base = htole64(region->base),
        .length = htole64(region->length),
    };

    if ((!region->is_registered && !region->is_remote) || extra_size > KIT_REGION_EXTRA_MAX)
        return NA_PLUGIN_INVALID_ARG;
    if (size < sizeof(wire) + extra_size)
        return NA_PLUGIN_OVERFLOW;
    wire.digest = htole64(region_digest(wire, extra, extra_size));
    memcpy(buf, &wire, sizeof(wire));
    if (extra_size != 0)
        memcpy((uint8_t *) buf + sizeof(wire), extra, extra_size);
    return NA_PLUGIN_SUCCESS;
}

int32_t kit_region_unpack(struct kit_regions *regions, const void *buf, uint64_t size,
                          struct kit_region *region, const void **extra_p, uint32_t *extra_size_p)
{
    const uint8_t *extra = (const uint8_t *) buf + sizeof(struct region_wire);
    struct region_wire wire;
    uint32_t extra_size;

    if (size < sizeof(wire))
        return NA_PLUGIN_PROTOCOL_ERROR;
    memcpy(&wire, buf, sizeof(wire));
    extra_size = le16toh(wire.extra_size);
    if (le32toh(wire.magic) != REGION_MAGIC || le16toh(wire.version) != REGION_VERSION ||
        extra_size > KIT_REGION_EXTRA_MAX || extra_size > size - sizeof(wire) ||
        (le32toh(wire.flags) & ~REGION_RIGHTS) != 0 || wire.reserved != 0 ||
        le64toh(wire.digest) != region_digest(wire, extra, extra_size) ||
        !region_is_possible(le64toh(wire.base), le64toh(wire.length)))
        return NA_PLUGIN_PROTOCOL_ERROR;
    region->is_remote = true;
    region->flags = le32toh(wire.flags);
    region->mem_type = le32toh(wire.mem_type);
    region->owner = le64toh(wire.owner);
    region->id = le64toh(wire.id);
    region->key = wire.key;
    region->base = le64toh(wire.base);
    region->length = le64toh(wire.length);
    kit_list_append(&regions->all, &region->node);
    *extra_p = extra;
    *extra_size_p = extra_size;
    return NA_PLUGIN_SUCCESS;
}

/* The length is below 2^63, so that the sum of two lengths does not wrap. */
static bool region_is_possible(uint64_t base, uint64_t length)
{
    return length <= INT64_MAX && base <= UINT64_MAX - length;
}

static uint64_t region_digest(struct region_wire wire, const void *extra, uint32_t extra_size)
{
    wire.digest = 0;
    return kit_digest_add(kit_digest_add(KIT_DIGEST_NONE, &wire, sizeof(wire)), extra, extra_size);
}
