/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory handles: making, registering, the form in which they travel, walking their segments. */

#include "sm.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#define SM_MEM_MAGIC   0x4d454d53u
#define SM_MEM_VERSION 2u

/* The form in which a handle travels: this, then the segments. */
struct sm_mem_packed {
    uint32_t magic;
    uint32_t version;
    uint32_t flags;
    uint32_t segment_count;
    uint64_t incarnation;
    struct kit_key key;
    uint32_t index;
    uint32_t reserved;
    uint64_t length;
};

static int32_t sm_mem_create_segments(struct na_plugin_class *na_class,
                                      const struct na_plugin_segment *segments, uint64_t count,
                                      uint32_t flags, struct na_plugin_mem **mem_p);
static struct na_plugin_mem *sm_mem_alloc(struct sm_registry *registry, uint64_t count);
static void sm_mem_free(struct sm_registry *registry, struct na_plugin_mem *mem);
static void sm_mem_free_list(struct kit_link *list);
static bool sm_segments_sum(const struct na_plugin_segment *segments, uint64_t count,
                            uint64_t *length_p);
static bool sm_registry_grow(struct na_plugin_class *na_class);

const struct na_plugin_mem_segments sm_mem_segments_extension = {
    .extension = {.size = sizeof(struct na_plugin_mem_segments)},
    .max_segments = SM_RMA_SEGMENTS,
    .mem_create_segments = sm_mem_create_segments,
};

int32_t sm_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length, uint32_t flags,
                      struct na_plugin_mem **mem_p)
{
    struct na_plugin_segment segment = {.base = base, .length = length};

    return sm_mem_create_segments(na_class, &segment, 1, flags, mem_p);
}

void sm_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) sm_mem_deregister(na_class, mem);
    sm_mem_free(&na_class->registry, mem);
}

int32_t sm_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                        uint32_t mem_type, uint64_t device)
{
    struct sm_registry *registry = &na_class->registry;
    int32_t ret = NA_PLUGIN_SUCCESS;
    uint32_t index;

    (void) device;
    if (mem_type != NA_PLUGIN_MEM_TYPE_HOST) {
        SM_LOG_ERROR("memory of type %u cannot be registered, host memory only", mem_type);
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    kit_lock_take(&registry->lock);
    if (mem->is_registered)
        goto out;
    if (registry->free_count == 0 && !sm_registry_grow(na_class)) {
        ret = NA_PLUGIN_NOMEM;
        goto out;
    }
    ret = kit_key_take(&registry->keys, &mem->key);
    if (ret != NA_PLUGIN_SUCCESS) {
        SM_LOG_ERROR("no random numbers for the key of a memory handle (%s)", strerror(errno));
        goto out;
    }
    if ((mem->flags & NA_PLUGIN_MEM_WRITE) != 0)
        sm_writers_offer(na_class);
    index = registry->free_indices[--registry->free_count];
    mem->index = index;
    mem->is_registered = true;
    mem->incarnation = na_class->incarnation;
    registry->entries[index] = mem;
    kit_lock_drop(&registry->lock);
    sm_registration_publish(na_class, mem);
    return NA_PLUGIN_SUCCESS;

out:
    kit_lock_drop(&registry->lock);
    return ret;
}

/* Puts of peers that have begun are over when this returns. */
int32_t sm_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    struct sm_registry *registry = &na_class->registry;
    bool is_withdrawn;

    kit_lock_take(&registry->lock);
    is_withdrawn = !mem->is_remote && mem->is_registered;
    if (is_withdrawn) {
        sm_registration_withdraw(na_class, mem);
        registry->entries[mem->index] = NULL;
        registry->free_indices[registry->free_count++] = mem->index;
        mem->is_registered = false;
    }
    kit_lock_drop(&registry->lock);
    if (is_withdrawn && (mem->flags & NA_PLUGIN_MEM_WRITE) != 0)
        sm_writers_await(na_class, sm_load(&mem->digest));
    return NA_PLUGIN_SUCCESS;
}

uint64_t sm_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) na_class;
    return sizeof(struct sm_mem_packed) + mem->segment_count * sizeof(struct na_plugin_segment);
}

int32_t sm_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem, void *buf,
                         uint64_t size)
{
    struct sm_mem_packed packed = {
        .magic = SM_MEM_MAGIC,
        .version = SM_MEM_VERSION,
        .flags = mem->flags,
        .segment_count = mem->segment_count,
        .incarnation = mem->incarnation,
        .key = mem->key,
        .index = mem->index,
        .length = mem->length,
    };

    if (!mem->is_registered) {
        SM_LOG_ERROR("a memory handle that is not registered cannot be serialized");
        return NA_PLUGIN_INVALID_ARG;
    }
    if (size < sm_mem_serialize_size(na_class, mem)) {
        SM_LOG_ERROR("a memory handle needs %llu bytes, %llu are given",
                     (unsigned long long) sm_mem_serialize_size(na_class, mem),
                     (unsigned long long) size);
        return NA_PLUGIN_OVERFLOW;
    }
    memcpy(buf, &packed, sizeof(packed));
    memcpy((uint8_t *) buf + sizeof(packed), mem->segments,
           mem->segment_count * sizeof(*mem->segments));
    return NA_PLUGIN_SUCCESS;
}

int32_t sm_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                           struct na_plugin_mem **mem_p)
{
    struct sm_mem_packed packed;
    struct na_plugin_mem *mem;
    uint64_t length;

    if (size < sizeof(packed))
        goto refuse;
    memcpy(&packed, buf, sizeof(packed));
    if (packed.magic != SM_MEM_MAGIC || packed.version != SM_MEM_VERSION || packed.reserved != 0 ||
        packed.incarnation == 0 || packed.segment_count == 0 ||
        packed.segment_count > SM_RMA_SEGMENTS ||
        (packed.flags & ~(NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE)) != 0 ||
        (size - sizeof(packed)) / sizeof(struct na_plugin_segment) < packed.segment_count)
        goto refuse;
    mem = sm_mem_alloc(&na_class->registry, packed.segment_count);
    if (mem == NULL)
        return NA_PLUGIN_NOMEM;
    memcpy(mem->segments, (const uint8_t *) buf + sizeof(packed),
           packed.segment_count * sizeof(*mem->segments));
    if (!sm_segments_sum(mem->segments, packed.segment_count, &length) || length != packed.length) {
        sm_mem_free(&na_class->registry, mem);
        goto refuse;
    }
    mem->is_remote = true;
    mem->flags = packed.flags;
    mem->incarnation = packed.incarnation;
    mem->is_registered = true;
    mem->key = packed.key;
    mem->index = packed.index;
    mem->length = length;
    *mem_p = mem;
    return NA_PLUGIN_SUCCESS;

refuse:
    SM_LOG_ERROR("%llu bytes are not a serialized memory handle of this transport",
                 (unsigned long long) size);
    return NA_PLUGIN_PROTOCOL_ERROR;
}

void sm_registry_destroy(struct na_plugin_class *na_class)
{
    struct sm_registry *registry = &na_class->registry;

    sm_registration_close(na_class);
    sm_mem_free_list(&registry->mems); /* handles that the caller forgot */
    sm_mem_free_list(&registry->free_mems);
    kit_host->mem_free(registry->entries);
    kit_host->mem_free(registry->free_indices);
}

/*
 * The handle that a peer names, if it grants the access to that range. Every bit of the question
 * may be forged. The registry's lock is held.
 */
int32_t sm_registry_find(const struct sm_registry *registry, uint32_t index,
                         const struct kit_key *key, uint32_t access, uint64_t offset,
                         uint64_t length, struct na_plugin_mem **mem_p)
{
    struct na_plugin_mem *mem = index < registry->capacity ? registry->entries[index] : NULL;

    if (mem == NULL || !kit_key_is_equal(&mem->key, key) || (mem->flags & access) == 0)
        return NA_PLUGIN_PERMISSION;
    if (offset > mem->length || length > mem->length - offset)
        return NA_PLUGIN_OVERFLOW;
    *mem_p = mem;
    return NA_PLUGIN_SUCCESS;
}

/* Copies a message from that offset on into the memory, where it has room. */
void sm_mem_store(const struct na_plugin_mem *mem, uint64_t mem_offset,
                  const struct sm_message *message, uint32_t offset)
{
    struct sm_cursor cursor;

    sm_cursor_seek(&cursor, mem, mem_offset);
    while (offset < message->size) {
        uint64_t span;
        void *to = sm_cursor_span(&cursor, message->size - offset, &span);

        sm_message_copy(to, message, offset, (uint32_t) span);
        offset += (uint32_t) span;
    }
}

void sm_cursor_seek(struct sm_cursor *cursor, const struct na_plugin_mem *mem, uint64_t offset)
{
    cursor->segments = mem->segments;
    cursor->index = 0;
    while (cursor->index < mem->segment_count && offset >= mem->segments[cursor->index].length)
        offset -= mem->segments[cursor->index++].length;
    cursor->offset = offset;
}

/* The next contiguous piece, of at most `wanted` bytes, which must not pass the handle's end. */
void *sm_cursor_span(struct sm_cursor *cursor, uint64_t wanted, uint64_t *size_p)
{
    const struct na_plugin_segment *segment = &cursor->segments[cursor->index];
    uint64_t left;
    void *at;

    while (segment->length == cursor->offset) {
        segment = &cursor->segments[++cursor->index];
        cursor->offset = 0;
    }
    left = segment->length - cursor->offset;
    at = (void *) ((uintptr_t) segment->base + cursor->offset);
    *size_p = wanted < left ? wanted : left;
    cursor->offset += *size_p;
    return at;
}

/* Up to `count` pieces of together at most `length` bytes. Returns how many, and their bytes. */
uint32_t sm_cursor_iovecs(struct sm_cursor *cursor, uint64_t length, struct iovec *vectors,
                          uint32_t count, uint64_t *length_p)
{
    uint64_t done = 0;
    uint32_t used = 0;

    while (used < count && done < length) {
        uint64_t size;

        vectors[used].iov_base = sm_cursor_span(cursor, length - done, &size);
        vectors[used].iov_len = size;
        done += size;
        used++;
    }
    *length_p = done;
    return used;
}

static int32_t sm_mem_create_segments(struct na_plugin_class *na_class,
                                      const struct na_plugin_segment *segments, uint64_t count,
                                      uint32_t flags, struct na_plugin_mem **mem_p)
{
    struct na_plugin_mem *mem;
    uint64_t length;

    if (count == 0 || count > SM_RMA_SEGMENTS || !sm_segments_sum(segments, count, &length)) {
        SM_LOG_ERROR("%llu segments cannot be a memory handle: 1 to %u that lie in the address "
                     "space can",
                     (unsigned long long) count, SM_RMA_SEGMENTS);
        return NA_PLUGIN_INVALID_ARG;
    }
    mem = sm_mem_alloc(&na_class->registry, count);
    if (mem == NULL)
        return NA_PLUGIN_NOMEM;
    memcpy(mem->segments, segments, count * sizeof(*segments));
    mem->length = length;
    mem->flags = flags;
    *mem_p = mem;
    return NA_PLUGIN_SUCCESS;
}

static struct na_plugin_mem *sm_mem_alloc(struct sm_registry *registry, uint64_t count)
{
    uint64_t more = count > 1 ? count * sizeof(struct na_plugin_segment) : 0;
    struct na_plugin_mem *mem = NULL;

    kit_lock_take(&registry->lock);
    if (count == 1 && !kit_list_empty(&registry->free_mems)) {
        mem = kit_container(registry->free_mems.next, struct na_plugin_mem, link);
        kit_list_take(&mem->link);
    } else {
        mem = kit_host->mem_alloc(sizeof(*mem) + more, 0);
    }
    if (mem != NULL)
        kit_list_append(&registry->mems, &mem->link);
    kit_lock_drop(&registry->lock);
    if (mem == NULL)
        return NULL;
    mem->segments = count > 1 ? (struct na_plugin_segment *) (mem + 1) : &mem->first;
    mem->segment_count = (uint32_t) count;
    mem->is_registered = false;
    sm_store(&mem->digest, 0);
    mem->incarnation = 0;
    mem->is_remote = false;
    return mem;
}

/* Handles of one segment are kept for the next use. */
static void sm_mem_free(struct sm_registry *registry, struct na_plugin_mem *mem)
{
    kit_lock_take(&registry->lock);
    kit_list_remove(&mem->link);
    if (mem->segment_count == 1) {
        kit_list_prepend(&registry->free_mems, &mem->link);
        mem = NULL;
    }
    kit_lock_drop(&registry->lock);
    kit_host->mem_free(mem);
}

static void sm_mem_free_list(struct kit_link *list)
{
    while (!kit_list_empty(list)) {
        struct kit_link *link = list->next;

        kit_list_take(link);
        kit_host->mem_free(kit_container(link, struct na_plugin_mem, link));
    }
}

static bool sm_segments_sum(const struct na_plugin_segment *segments, uint64_t count,
                            uint64_t *length_p)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t base = (uint64_t) (uintptr_t) segments[i].base;

        if (segments[i].length > INT64_MAX || base > UINT64_MAX - segments[i].length)
            return false;
        sum += segments[i].length;
        if (sum > INT64_MAX)
            return false;
    }
    *length_p = sum;
    return true;
}

static bool sm_registry_grow(struct na_plugin_class *na_class)
{
    struct sm_registry *registry = &na_class->registry;
    uint32_t capacity = registry->capacity == 0 ? SM_TABLE_FIRST : 2 * registry->capacity;
    struct na_plugin_mem **entries;
    uint32_t *free_indices;

    if (registry->capacity == SM_TABLE_ENTRIES) {
        SM_LOG_ERROR("%u memory handles are registered, which is the limit: deregister some",
                     SM_TABLE_ENTRIES);
        return false;
    }
    entries = kit_host->mem_alloc(capacity * sizeof(*entries), 0);
    free_indices = kit_host->mem_alloc(capacity * sizeof(*free_indices), 0);
    if (entries == NULL || free_indices == NULL) {
        kit_host->mem_free(entries);
        kit_host->mem_free(free_indices);
        return false;
    }
    if (registry->capacity != 0)
        memcpy(entries, registry->entries, registry->capacity * sizeof(*entries));
    for (uint32_t i = capacity; i > registry->capacity; i--)
        free_indices[registry->free_count++] = i - 1;
    kit_host->mem_free(registry->entries);
    kit_host->mem_free(registry->free_indices);
    sm_registration_grow(na_class, registry->capacity);
    registry->entries = entries;
    registry->free_indices = free_indices;
    registry->capacity = capacity;
    return true;
}
