/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory handles. A region that is registered is found by its id and a random key, so that a peer
 * which was not given the handle cannot name it, nor one that was given it after deregistration.
 */

#include "state.h"

#include <endian.h>
#include <string.h>
#include <sys/random.h>

#define MEMORY_MAGIC   UINT32_C(0x4d546d41)
#define MEMORY_VERSION 2u

/* Little-endian. */
struct memory_packed {
    uint32_t magic;
    uint16_t version;
    uint16_t reserved;
    uint32_t flags;
    uint32_t reserved2;
    uint64_t owner;
    uint64_t id;
    struct kit_key key;
    uint64_t length;
};

_Static_assert(sizeof(struct memory_packed) == TWOSIDED_MEMORY_PACKED, "layout of the wire");

static struct twosided_memory *memory_make(struct twosided *ts);
static void memory_jobs_end(struct twosided *ts, const struct twosided_memory *memory);
static bool memory_is_touched(const struct kit_link *list, const struct twosided_memory *memory);

int32_t twosided_mem_create(struct twosided *ts, void *base, uint64_t length, uint32_t flags,
                            struct twosided_memory **memory_p)
{
    struct twosided_memory *memory;

    if (length > TWOSIDED_LENGTH_MAX || (uint64_t) (uintptr_t) base > UINT64_MAX - length) {
        TWOSIDED_LOG_ERROR(ts, "%llu bytes at %p do not lie in the address space",
                           (unsigned long long) length, base);
        return NA_PLUGIN_INVALID_ARG;
    }
    memory = memory_make(ts);
    if (memory == NULL)
        return NA_PLUGIN_NOMEM;
    memory->base = base;
    memory->length = length;
    memory->flags = flags;
    memory->owner = ts->nonce;
    *memory_p = memory;
    return NA_PLUGIN_SUCCESS;
}

void twosided_mem_destroy(struct twosided *ts, struct twosided_memory *memory)
{
    (void) twosided_mem_deregister(ts, memory);
    kit_list_remove(&memory->node);
    ts->host->mem_free(memory);
}

int32_t twosided_mem_register(struct twosided *ts, struct twosided_memory *memory,
                              uint32_t mem_type)
{
    int32_t ret;

    if (mem_type != NA_PLUGIN_MEM_TYPE_HOST) {
        TWOSIDED_LOG_ERROR(ts,
                           "memory of type %u cannot be registered: messages carry that of the "
                           "host only",
                           mem_type);
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    if (memory->is_remote || memory->is_registered)
        return NA_PLUGIN_SUCCESS;
    ret = kit_key_take(&ts->keys, &memory->key);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = kit_table_add(&ts->memory, memory, &memory->id);
    if (ret != NA_PLUGIN_SUCCESS)
        TWOSIDED_LOG_ERROR(ts, "memory cannot be registered: %s", kit_status_name(ret));
    memory->is_registered = ret == NA_PLUGIN_SUCCESS;
    return ret;
}

bool twosided_mem_deregister(struct twosided *ts, struct twosided_memory *memory)
{
    if (memory->is_registered) {
        memory->is_registered = false;
        kit_table_remove(&ts->memory, memory->id);
        memory_jobs_end(ts, memory);
    }
    return memory->is_remote ||
           (!memory_is_touched(&ts->jobs, memory) && !memory_is_touched(&ts->orphans, memory));
}

int32_t twosided_mem_serialize(struct twosided *ts, const struct twosided_memory *memory, void *buf,
                               uint64_t size)
{
    struct memory_packed packed = {
        .magic = htole32(MEMORY_MAGIC),
        .version = htole16(MEMORY_VERSION),
        .flags = htole32(memory->flags),
        .owner = htole64(memory->owner),
        .id = htole64(memory->id),
        .key = memory->key,
        .length = htole64(memory->length),
    };

    if (!memory->is_registered && !memory->is_remote) {
        TWOSIDED_LOG_ERROR(ts, "a handle that is not registered cannot be serialized");
        return NA_PLUGIN_INVALID_ARG;
    }
    if (size < sizeof(packed)) {
        TWOSIDED_LOG_ERROR(ts, "a serialized handle has %zu bytes, %llu are given", sizeof(packed),
                           (unsigned long long) size);
        return NA_PLUGIN_OVERFLOW;
    }
    memcpy(buf, &packed, sizeof(packed));
    return NA_PLUGIN_SUCCESS;
}

int32_t twosided_mem_deserialize(struct twosided *ts, const void *buf, uint64_t size,
                                 struct twosided_memory **memory_p)
{
    const uint32_t all = NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE;
    struct memory_packed packed;
    struct twosided_memory *memory;

    if (size < sizeof(packed))
        goto refuse;
    memcpy(&packed, buf, sizeof(packed));
    if (le32toh(packed.magic) != MEMORY_MAGIC || le16toh(packed.version) != MEMORY_VERSION ||
        packed.reserved != 0 || packed.reserved2 != 0 || (le32toh(packed.flags) & ~all) != 0 ||
        le64toh(packed.length) > TWOSIDED_LENGTH_MAX)
        goto refuse;
    memory = memory_make(ts);
    if (memory == NULL)
        return NA_PLUGIN_NOMEM;
    memory->is_remote = true;
    memory->flags = le32toh(packed.flags);
    memory->length = le64toh(packed.length);
    memory->owner = le64toh(packed.owner);
    memory->id = le64toh(packed.id);
    memory->key = packed.key;
    *memory_p = memory;
    return NA_PLUGIN_SUCCESS;

refuse:
    TWOSIDED_LOG_ERROR(ts, "%llu bytes are not a serialized memory handle",
                       (unsigned long long) size);
    return NA_PLUGIN_PROTOCOL_ERROR;
}

/* The region that a peer names, held against all that it may not do. */
int32_t twosided_mem_find(struct twosided *ts, uint64_t id, const struct kit_key *key,
                          uint32_t access, uint64_t offset, uint64_t length,
                          struct twosided_memory **memory_p)
{
    struct twosided_memory *memory = kit_table_find(&ts->memory, id);

    /* One that is not there any more is not told from one never made. */
    if (memory == NULL || !kit_key_is_equal(&memory->key, key) ||
        (memory->flags & access) != access)
        return NA_PLUGIN_PERMISSION;
    if (offset > memory->length || length > memory->length - offset)
        return NA_PLUGIN_OVERFLOW;
    *memory_p = memory;
    return NA_PLUGIN_SUCCESS;
}

static struct twosided_memory *memory_make(struct twosided *ts)
{
    struct twosided_memory *memory = ts->host->mem_alloc(sizeof(*memory), 0);

    if (memory != NULL)
        kit_list_append(&ts->handles, &memory->node);
    return memory;
}

/* Ending one may end others: those that are meant are set apart first. */
static void memory_jobs_end(struct twosided *ts, const struct twosided_memory *memory)
{
    struct kit_link ended, *node, *next;

    kit_list_init(&ended);
    for (node = ts->jobs.next; node != &ts->jobs; node = next) {
        next = node->next;
        if (kit_container(node, struct twosided_transfer, node)->memory != memory)
            continue;
        kit_list_remove(node);
        kit_list_append(&ended, node);
    }
    while (!kit_list_empty(&ended)) {
        node = ended.next;
        kit_list_remove(node);
        kit_list_append(&ts->jobs, node);
        twosided_transfer_end(kit_container(node, struct twosided_transfer, node),
                              NA_PLUGIN_PERMISSION, true);
    }
}

static bool memory_is_touched(const struct kit_link *list, const struct twosided_memory *memory)
{
    for (const struct kit_link *node = list->next; node != list; node = node->next) {
        const struct twosided_transfer *job =
            kit_container(node, const struct twosided_transfer, node);

        if (job->memory == memory && job->in_touch != 0)
            return true;
    }
    return false;
}
