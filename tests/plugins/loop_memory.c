/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop plugin's memory handles, and transfers between them: byte by byte, at once. */

#include "loop.h"

#include <stdlib.h>
#include <string.h>

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
    free(mem);
    loop_count(-1);
}

int32_t loop_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                          uint32_t mem_type, uint64_t device)
{
    (void) na_class;
    (void) mem;
    (void) mem_type;
    (void) device;
    return loop_fails("mem_register");
}

int32_t loop_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) na_class;
    (void) mem;
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
    if (loop_fails("mem_serialize") == 0 && size >= sizeof(*mem))
        memcpy(buf, mem, sizeof(*mem));
    return loop_fails("mem_serialize");
}

int32_t loop_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                             struct na_plugin_mem **mem_p)
{
    struct na_plugin_mem mem;

    (void) na_class;
    if (loop_fails("mem_deserialize") != 0)
        return loop_fails("mem_deserialize");
    if (size != sizeof(mem))
        return NA_PLUGIN_PROTOCOL_ERROR;
    memcpy(&mem, buf, sizeof(mem));
    return mem_make(mem.segments, mem.count, mem.flags, mem_p);
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

static int32_t transfer(struct na_plugin_context *context, struct loop_op *op,
                        const struct na_plugin_mem *to, uint64_t to_offset,
                        const struct na_plugin_mem *from, uint64_t from_offset, uint64_t length,
                        const char *function)
{
    if (loop_fails(function) != 0)
        return loop_fails(function);
    for (uint64_t i = 0; i < length; i++)
        *mem_at(to, to_offset + i) = *mem_at(from, from_offset + i);
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
    return transfer(context, op, remote, remote_offset, local, local_offset, length, "put");
}

int32_t loop_get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                 uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                 uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    (void) addr;
    (void) remote_id;
    return transfer(context, op, local, local_offset, remote, remote_offset, length, "get");
}
