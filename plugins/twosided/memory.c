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
    struct twosided_key key;
    uint64_t length;
};

_Static_assert(sizeof(struct memory_packed) == TWOSIDED_MEMORY_PACKED, "layout of the wire");

static struct twosided_memory *memory_make(struct twosided *ts);
static int32_t memory_draw_key(struct twosided *ts, struct twosided_key *key_p);
static bool memory_is_key(const struct twosided_key *a, const struct twosided_key *b);
static void memory_jobs_end(struct twosided *ts, const struct twosided_memory *memory);
static bool memory_is_touched(const struct twosided_link *list,
                              const struct twosided_memory *memory);

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
    twosided_list_remove(&memory->node);
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
    ret = memory_draw_key(ts, &memory->key);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = twosided_table_add(ts, &ts->memory, memory, &memory->id);
    memory->is_registered = ret == NA_PLUGIN_SUCCESS;
    return ret;
}

bool twosided_mem_deregister(struct twosided *ts, struct twosided_memory *memory)
{
    if (memory->is_registered) {
        memory->is_registered = false;
        twosided_table_remove(&ts->memory, memory->id);
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
int32_t twosided_mem_find(struct twosided *ts, uint64_t id, const struct twosided_key *key,
                          uint32_t access, uint64_t offset, uint64_t length,
                          struct twosided_memory **memory_p)
{
    struct twosided_memory *memory = twosided_table_find(&ts->memory, id);

    /* One that is not there any more is not told from one never made. */
    if (memory == NULL || !memory_is_key(&memory->key, key) || (memory->flags & access) != access)
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
        twosided_list_append(&ts->handles, &memory->node);
    return memory;
}

static int32_t memory_draw_key(struct twosided *ts, struct twosided_key *key_p)
{
    if (ts->key_count == 0) {
        if (getrandom(ts->keys, sizeof(ts->keys), 0) != (ssize_t) sizeof(ts->keys)) {
            TWOSIDED_LOG_ERROR(ts, "no random numbers for the keys of memory");
            return NA_PLUGIN_IO_ERROR;
        }
        ts->key_count = sizeof(ts->keys) / sizeof(ts->keys[0]);
    }
    *key_p = ts->keys[--ts->key_count];
    return NA_PLUGIN_SUCCESS;
}

static bool memory_is_key(const struct twosided_key *a, const struct twosided_key *b)
{
    return ((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1])) == 0;
}

/* Ending one may end others: those that are meant are set apart first. */
static void memory_jobs_end(struct twosided *ts, const struct twosided_memory *memory)
{
    struct twosided_link ended, *node, *next;

    twosided_list_init(&ended);
    for (node = ts->jobs.next; node != &ts->jobs; node = next) {
        next = node->next;
        if (twosided_container(node, struct twosided_transfer, node)->memory != memory)
            continue;
        twosided_list_remove(node);
        twosided_list_append(&ended, node);
    }
    while (!twosided_list_empty(&ended)) {
        node = ended.next;
        twosided_list_remove(node);
        twosided_list_append(&ts->jobs, node);
        twosided_transfer_end(twosided_container(node, struct twosided_transfer, node),
                              NA_PLUGIN_PERMISSION, true);
    }
}

static bool memory_is_touched(const struct twosided_link *list,
                              const struct twosided_memory *memory)
{
    for (const struct twosided_link *node = list->next; node != list; node = node->next) {
        const struct twosided_transfer *job =
            twosided_container(node, const struct twosided_transfer, node);

        if (job->memory == memory && job->in_touch != 0)
            return true;
    }
    return false;
}
