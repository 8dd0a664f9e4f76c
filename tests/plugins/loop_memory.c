/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop plugin's memory handles, and its transfers, which copy byte by byte within the call, and
 * only from and to registered memory.
 */

#include "loop.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The memory that peers may access; guarded by registered_mutex. */
static pthread_mutex_t registered_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct na_plugin_mem *registered;
static uint64_t last_key;

static int32_t mem_make(const struct na_plugin_segment *segments, uint64_t segment_count,
                        uint32_t flags, struct na_plugin_mem **mem_p)
{
    struct na_plugin_mem *mem = calloc(1, sizeof(*mem));

    if (mem == NULL)
        return NA_PLUGIN_NOMEM;
    memcpy(mem->segments, segments, (size_t) segment_count * sizeof(*segments));
    mem->count = segment_count;
    mem->flags = flags;
    loop_count(1);
    *mem_p = mem;
    return NA_PLUGIN_SUCCESS;
}

static void mem_hide(struct na_plugin_mem *mem)
{
    struct na_plugin_mem **place = &registered;

    pthread_mutex_lock(&registered_mutex);
    while (*place != NULL && *place != mem)
        place = &(*place)->next;
    if (*place != NULL)
        *place = mem->next;
    pthread_mutex_unlock(&registered_mutex);
}

int32_t loop_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                        uint32_t flags, struct na_plugin_mem **mem_p)
{
    const struct na_plugin_segment segment = {base, length};

    (void) na_class;
    return loop_fails("mem_create") != 0 ? loop_fails("mem_create")
                                         : mem_make(&segment, 1, flags, mem_p);
}

int32_t loop_mem_create_segments(struct na_plugin_class *na_class,
                                 const struct na_plugin_segment *segments, uint64_t segment_count,
                                 uint32_t flags, struct na_plugin_mem **mem_p)
{
    (void) na_class;
    return loop_fails("mem_create_segments") != 0 ? loop_fails("mem_create_segments")
                                                  : mem_make(segments, segment_count, flags, mem_p);
}

void loop_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) na_class;
    mem_hide(mem);
    free(mem);
    loop_count(-1);
}

int32_t loop_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                          uint32_t mem_type, uint64_t device)
{
    (void) na_class;
    (void) mem_type;
    (void) device;
    if (loop_fails("mem_register") != 0)
        return loop_fails("mem_register");
    pthread_mutex_lock(&registered_mutex);
    mem->key = ++last_key;
    mem->next = registered;
    registered = mem;
    pthread_mutex_unlock(&registered_mutex);
    return NA_PLUGIN_SUCCESS;
}

int32_t loop_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) na_class;
    mem_hide(mem);
    return loop_fails("mem_deregister");
}

uint64_t loop_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) na_class;
    return sizeof(*mem);
}

int32_t loop_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem, void *buf,
                           uint64_t size)
{
    (void) na_class;
    pthread_mutex_lock(&registered_mutex);
    if (loop_fails("mem_serialize") == 0 && size >= sizeof(*mem))
        memcpy(buf, mem, sizeof(*mem));
    pthread_mutex_unlock(&registered_mutex);
    return loop_fails("mem_serialize");
}

int32_t loop_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                             struct na_plugin_mem **mem_p)
{
    struct na_plugin_mem mem;
    int32_t ret;

    (void) na_class;
    if (loop_fails("mem_deserialize") != 0)
        return loop_fails("mem_deserialize");
    if (size != sizeof(mem))
        return NA_PLUGIN_PROTOCOL_ERROR;
    memcpy(&mem, buf, sizeof(mem));
    if (mem.count > sizeof(mem.segments) / sizeof(mem.segments[0]))
        return NA_PLUGIN_PROTOCOL_ERROR;
    ret = mem_make(mem.segments, mem.count, mem.flags, mem_p);
    if (ret == NA_PLUGIN_SUCCESS)
        (*mem_p)->key = mem.key;
    return ret;
}

static char *mem_at(const struct na_plugin_mem *mem, uint64_t offset)
{
    for (uint64_t i = 0; i < mem->count; i++) {
        if (offset < mem->segments[i].length)
            return (char *) mem->segments[i].base + offset;
        offset -= mem->segments[i].length;
    }
    return NULL;
}

/*
 * Ranges are checked against the registered memory, and not against the handle that the peer sent.
 * The caller holds the mutex.
 */
static int32_t copy(const struct na_plugin_mem *local, uint64_t local_offset, uint64_t key,
                    uint64_t offset, uint64_t length, bool is_put)
{
    const struct na_plugin_mem *remote = registered;

    while (remote != NULL && remote->key != key)
        remote = remote->next;
    if (remote == NULL)
        return NA_PLUGIN_PERMISSION;
    if (length > 0 && (offset + length < offset || mem_at(remote, offset + length - 1) == NULL))
        return NA_PLUGIN_OVERFLOW;
    for (uint64_t i = 0; i < length; i++)
        if (is_put)
            *mem_at(remote, offset + i) = *mem_at(local, local_offset + i);
        else
            *mem_at(local, local_offset + i) = *mem_at(remote, offset + i);
    return NA_PLUGIN_SUCCESS;
}

static int32_t transfer(struct na_plugin_context *context, struct loop_op *op,
                        const struct na_plugin_mem *local, uint64_t local_offset,
                        const struct na_plugin_mem *remote, uint64_t remote_offset, uint64_t length,
                        bool is_put)
{
    int32_t ret = loop_fails(is_put ? "put" : "get");

    if (ret != 0)
        return ret;
    pthread_mutex_lock(&registered_mutex);
    ret = copy(local, local_offset, remote->key, remote_offset, length, is_put);
    pthread_mutex_unlock(&registered_mutex);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    op->kind = TRANSFER;
    pthread_mutex_lock(&context->mutex);
    loop_append(&context->done, op);
    loop_notify(context);
    pthread_mutex_unlock(&context->mutex);
    return NA_PLUGIN_SUCCESS;
}

int32_t loop_put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                 uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                 uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    (void) addr;
    (void) remote_id;
    return transfer(context, op, local, local_offset, remote, remote_offset, length, true);
}

int32_t loop_get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                 uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                 uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    (void) addr;
    (void) remote_id;
    return transfer(context, op, local, local_offset, remote, remote_offset, length, false);
}
