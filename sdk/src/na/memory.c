/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory: allocation; memory handles: creation, registration, and their wire format. */

#include "na/memory.h"

#include "na/log.h"

#include <stdlib.h>
#include <string.h>

#define SEGMENTS_ON_STACK 16

/* Precedes the plugin's bytes in a serialized handle. Its byte order is the host's, because plugins
 * refuse peers of another architecture. */
struct mem_header {
    uint16_t magic;
    uint8_t version;
    uint8_t flags;
    uint32_t plugin_size; /* bytes that follow */
    uint64_t length;
};

#define MEM_MAGIC   0x4d4eu
#define MEM_VERSION 1u

_Static_assert(sizeof(struct mem_header) == 16, "no padding");

static na_return_t mem_refused(const struct na_class *na_class, const void *what, const char *name);
static na_return_t flags_refused(unsigned long flags);
static na_return_t mem_finish(struct na_class *na_class, int32_t status,
                              struct na_plugin_mem *plugin_mem, const struct na_mem_handle *model,
                              na_mem_handle_t **mem_handle_p);
static na_return_t create_in_segments(struct na_class *na_class, const struct na_segment *segments,
                                      size_t count, struct na_mem_handle *model,
                                      na_mem_handle_t **mem_handle_p);
static na_return_t segments_length(const struct na_segment *segments, size_t count,
                                   uint64_t *length_p);
static na_return_t header_check(const struct mem_header *header, size_t buf_size);

void *NA_Mem_alloc(na_class_t *na_class, size_t size)
{
    void *memory = NULL;

    if (na_class_fork_refused(na_class, __func__))
        return NULL;
    if (na_class == NULL || size == 0) {
        NA_LOG_ERROR("cannot allocate %zu bytes for class %p; pass a class and a size", size,
                     (void *) na_class);
        return NULL;
    }
    if (na_class->transport->mem_alloc.mem_alloc != NULL)
        memory = na_class->transport->mem_alloc.mem_alloc(na_class->plugin_class, size);
    return memory != NULL ? memory : calloc(1, size);
}

void NA_Mem_free(na_class_t *na_class, void *buf)
{
    if (buf == NULL || na_class_fork_refused(na_class, __func__))
        return;
    if (na_class == NULL) {
        NA_LOG_ERROR("memory %p cannot be freed without its class", buf);
        return;
    }
    if (na_class->transport->mem_alloc.mem_free == NULL ||
        na_class->transport->mem_alloc.mem_free(na_class->plugin_class, buf) == NA_PLUGIN_NOENTRY)
        free(buf);
}

na_return_t NA_Mem_handle_create(na_class_t *na_class, void *buf, size_t buf_size,
                                 unsigned long flags, na_mem_handle_t **mem_handle_p)
{
    struct na_segment segment = {buf, buf_size};

    return NA_Mem_handle_create_segments(na_class, &segment, 1, flags, mem_handle_p);
}

na_return_t NA_Mem_handle_create_segments(na_class_t *na_class, struct na_segment *segments,
                                          size_t segment_count, unsigned long flags,
                                          na_mem_handle_t **mem_handle_p)
{
    struct na_mem_handle model = {.na_class = na_class};
    struct na_plugin_mem *plugin_mem = NULL;
    na_return_t ret;
    int32_t status;

    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (na_class == NULL || segments == NULL || segment_count == 0)
        return mem_refused(na_class, NULL, "the list of segments");
    if (mem_handle_p == NULL)
        return mem_refused(na_class, mem_handle_p, "mem_handle_p");
    *mem_handle_p = NULL;
    if (flags == 0 || (flags & ~(unsigned long) NA_MEM_READWRITE) != 0)
        return flags_refused(flags);
    if (na_class->table.mem_create == NULL) {
        NA_LOG_ERROR("plugin %s has no RMA", na_class->transport->name);
        return NA_OPNOTSUPPORTED;
    }
    model.flags = (uint32_t) flags;
    ret = segments_length(segments, segment_count, &model.length);
    if (ret != NA_SUCCESS)
        return ret;
    if (segment_count > 1)
        return create_in_segments(na_class, segments, segment_count, &model, mem_handle_p);
    status = na_class->table.mem_create(na_class->plugin_class, segments[0].base, segments[0].len,
                                        model.flags, &plugin_mem);
    return mem_finish(na_class, status, plugin_mem, &model, mem_handle_p);
}

void NA_Mem_handle_free(na_class_t *na_class, na_mem_handle_t *mem_handle)
{
    if (na_class_fork_refused(na_class, __func__))
        return;
    if (mem_handle == NULL)
        return;
    if (mem_handle->na_class != na_class) {
        (void) mem_refused(NULL, mem_handle, "mem_handle");
        return;
    }
    na_class->table.mem_destroy(na_class->plugin_class, mem_handle->plugin_mem);
    free(mem_handle);
}

size_t NA_Mem_handle_get_max_segments(const na_class_t *na_class)
{
    const struct na_plugin_mem_segments *table;

    if (na_class == NULL || na_class->transport->mem_segments.mem_create_segments == NULL)
        return 1;
    table = &na_class->transport->mem_segments;
    return (size_t) (na_class->info.max_segments != 0 &&
                             na_class->info.max_segments < table->max_segments
                         ? na_class->info.max_segments
                         : table->max_segments);
}

na_return_t NA_Mem_register(na_class_t *na_class, na_mem_handle_t *mem_handle,
                            enum na_mem_type mem_type, uint64_t device)
{
    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (mem_handle == NULL || mem_handle->na_class != na_class || mem_handle->remote)
        return mem_refused(na_class, mem_handle, "mem_handle");
    if ((unsigned int) mem_type >= NA_MEM_TYPE_MAX) {
        NA_LOG_ERROR("memory type %d is unknown; use NA_MEM_TYPE_HOST or a device's",
                     (int) mem_type);
        return NA_INVALID_ARG;
    }
    if (mem_type != NA_MEM_TYPE_HOST &&
        (na_class->info.capabilities & NA_PLUGIN_CAP_DEVICE_MEM) == 0) {
        NA_LOG_ERROR("plugin %s cannot use device memory (type %d)", na_class->transport->name,
                     (int) mem_type);
        return NA_OPNOTSUPPORTED;
    }
    if (na_class->table.mem_register == NULL)
        return NA_SUCCESS;
    return na_return_from_plugin(na_class->table.mem_register(
        na_class->plugin_class, mem_handle->plugin_mem, (uint32_t) mem_type, device));
}

na_return_t NA_Mem_deregister(na_class_t *na_class, na_mem_handle_t *mem_handle)
{
    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (mem_handle == NULL || mem_handle->na_class != na_class || mem_handle->remote)
        return mem_refused(na_class, mem_handle, "mem_handle");
    if (na_class->table.mem_deregister == NULL)
        return NA_SUCCESS;
    return na_return_from_plugin(
        na_class->table.mem_deregister(na_class->plugin_class, mem_handle->plugin_mem));
}

na_return_t NA_Mem_handle_grant(na_class_t *na_class, na_mem_handle_t *mem_handle, na_addr_t *addr)
{
    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (mem_handle == NULL || mem_handle->na_class != na_class || mem_handle->remote)
        return mem_refused(na_class, mem_handle, "mem_handle");
    if (addr == NULL)
        return mem_refused(na_class, addr, "addr");
    if ((na_class->info.capabilities & NA_PLUGIN_CAP_MEM_PER_SESSION) == 0)
        return NA_SUCCESS;
    return na_return_from_plugin(na_class->transport->mem_grant.mem_grant(
        na_class->plugin_class, mem_handle->plugin_mem, (struct na_plugin_addr *) addr));
}

size_t NA_Mem_handle_get_serialize_size(na_class_t *na_class, na_mem_handle_t *mem_handle)
{
    uint64_t size;

    if (na_class_fork_refused(na_class, __func__))
        return 0;
    if (mem_handle == NULL || mem_handle->na_class != na_class) {
        (void) mem_refused(na_class, mem_handle, "mem_handle");
        return 0;
    }
    size = na_class->table.mem_serialize_size(na_class->plugin_class, mem_handle->plugin_mem);
    if (size > UINT32_MAX) {
        NA_LOG_ERROR("plugin %s says that a memory handle takes %llu bytes; report it to the "
                     "plugin's maker",
                     na_class->transport->name, (unsigned long long) size);
        return 0;
    }
    return sizeof(struct mem_header) + (size_t) size;
}

na_return_t NA_Mem_handle_serialize(na_class_t *na_class, void *buf, size_t buf_size,
                                    na_mem_handle_t *mem_handle)
{
    struct mem_header header = {.magic = MEM_MAGIC, .version = MEM_VERSION};
    uint64_t size;

    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (mem_handle == NULL || mem_handle->na_class != na_class)
        return mem_refused(na_class, mem_handle, "mem_handle");
    if (buf == NULL)
        return mem_refused(na_class, buf, "buf");
    size = na_class->table.mem_serialize_size(na_class->plugin_class, mem_handle->plugin_mem);
    if (size > UINT32_MAX || buf_size < sizeof(header) || buf_size - sizeof(header) < size) {
        NA_LOG_ERROR("a buffer of %zu bytes is too short for a memory handle of %llu; see "
                     "NA_Mem_handle_get_serialize_size()",
                     buf_size, (unsigned long long) (size + sizeof(header)));
        return NA_OVERFLOW;
    }
    header.flags = (uint8_t) mem_handle->flags;
    header.plugin_size = (uint32_t) size;
    header.length = mem_handle->length;
    memcpy(buf, &header, sizeof(header));
    return na_return_from_plugin(na_class->table.mem_serialize(
        na_class->plugin_class, mem_handle->plugin_mem, (char *) buf + sizeof(header), size));
}

na_return_t NA_Mem_handle_deserialize(na_class_t *na_class, na_mem_handle_t **mem_handle_p,
                                      const void *buf, size_t buf_size)
{
    struct na_mem_handle model = {.na_class = na_class, .remote = true};
    struct na_plugin_mem *plugin_mem = NULL;
    struct mem_header header;
    na_return_t ret;
    int32_t status;

    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (na_class == NULL || buf == NULL || mem_handle_p == NULL)
        return mem_refused(na_class, NULL, buf == NULL ? "buf" : "mem_handle_p");
    *mem_handle_p = NULL;
    if (na_class->table.mem_deserialize == NULL)
        return NA_OPNOTSUPPORTED;
    if (buf_size < sizeof(header)) {
        NA_LOG_ERROR("%zu bytes are too few for a memory handle", buf_size);
        return NA_OVERFLOW;
    }
    memcpy(&header, buf, sizeof(header));
    ret = header_check(&header, buf_size);
    if (ret != NA_SUCCESS)
        return ret;
    model.flags = header.flags;
    model.length = header.length;
    status =
        na_class->table.mem_deserialize(na_class->plugin_class, (const char *) buf + sizeof(header),
                                        header.plugin_size, &plugin_mem);
    return mem_finish(na_class, status, plugin_mem, &model, mem_handle_p);
}

static UTIL_COLD na_return_t mem_refused(const struct na_class *na_class, const void *what,
                                         const char *name)
{
    if (na_class != NULL && what != NULL)
        NA_LOG_ERROR("%s %p is of another class, or a peer's", name, what);
    else if (what != NULL)
        NA_LOG_ERROR("%s %p is of another class; pass its own", name, what);
    else
        NA_LOG_ERROR("%s is NULL or empty", na_class == NULL ? "na_class" : name);
    return NA_INVALID_ARG;
}

static UTIL_COLD na_return_t flags_refused(unsigned long flags)
{
    NA_LOG_ERROR("flags 0x%lx are not NA_MEM_READ_ONLY, NA_MEM_WRITE_ONLY or NA_MEM_READWRITE",
                 flags);
    return NA_INVALID_ARG;
}

/* Creates the core's handle for the plugin's, or returns the plugin's error. */
static na_return_t mem_finish(struct na_class *na_class, int32_t status,
                              struct na_plugin_mem *plugin_mem, const struct na_mem_handle *model,
                              na_mem_handle_t **mem_handle_p)
{
    na_return_t ret = na_return_from_plugin(status);
    struct na_mem_handle *handle;

    if (ret == NA_SUCCESS && plugin_mem == NULL)
        ret = NA_FAULT;
    if (ret != NA_SUCCESS) {
        NA_LOG_DEBUG("plugin %s cannot make a memory handle of %llu bytes: %s",
                     na_class->transport->name, (unsigned long long) model->length,
                     NA_Error_to_string(ret));
        return ret;
    }
    handle = malloc(sizeof(*handle));
    if (handle == NULL) {
        na_class->table.mem_destroy(na_class->plugin_class, plugin_mem);
        NA_LOG_ERROR("no memory for a memory handle");
        return NA_NOMEM;
    }
    *handle = *model;
    handle->plugin_mem = plugin_mem;
    *mem_handle_p = handle;
    return NA_SUCCESS;
}

static na_return_t create_in_segments(struct na_class *na_class, const struct na_segment *segments,
                                      size_t count, struct na_mem_handle *model,
                                      na_mem_handle_t **mem_handle_p)
{
    const struct na_plugin_mem_segments *table = &na_class->transport->mem_segments;
    struct na_plugin_segment on_stack[SEGMENTS_ON_STACK] = {{0}};
    struct na_plugin_segment *copies = on_stack;
    struct na_plugin_mem *plugin_mem = NULL;
    na_return_t ret;
    int32_t status;

    if (count > NA_Mem_handle_get_max_segments(na_class)) {
        NA_LOG_ERROR(
            "%zu segments are more than the %zu that plugin %s takes; make several handles", count,
            NA_Mem_handle_get_max_segments(na_class), na_class->transport->name);
        return NA_OPNOTSUPPORTED;
    }
    if (count > SEGMENTS_ON_STACK) {
        copies = calloc(count, sizeof(*copies));
        if (copies == NULL)
            return NA_NOMEM;
    }
    for (size_t i = 0; i < count; i++)
        copies[i] = (struct na_plugin_segment){segments[i].base, segments[i].len};
    status = table->mem_create_segments(na_class->plugin_class, copies, count, model->flags,
                                        &plugin_mem);
    ret = mem_finish(na_class, status, plugin_mem, model, mem_handle_p);
    if (copies != on_stack)
        free(copies);
    return ret;
}

static na_return_t segments_length(const struct na_segment *segments, size_t count,
                                   uint64_t *length_p)
{
    uint64_t length = 0;

    for (size_t i = 0; i < count; i++) {
        if ((segments[i].base == NULL && segments[i].len > 0) ||
            segments[i].len > UINTPTR_MAX - (uintptr_t) segments[i].base ||
            segments[i].len > INT64_MAX - length) {
            NA_LOG_ERROR("segment %zu of %zu bytes at %p is not in memory", i, segments[i].len,
                         segments[i].base);
            return NA_INVALID_ARG;
        }
        length += segments[i].len;
    }
    *length_p = length;
    return NA_SUCCESS;
}

/* Checks every field, because a peer has sent them. */
static na_return_t header_check(const struct mem_header *header, size_t buf_size)
{
    if (header->magic != MEM_MAGIC || header->version != MEM_VERSION) {
        NA_LOG_ERROR("the bytes are not a memory handle: magic 0x%x, version %u", header->magic,
                     header->version);
        return NA_PROTOCOL_ERROR;
    }
    if (header->flags == 0 || (header->flags & ~NA_MEM_READWRITE) != 0 ||
        header->length > INT64_MAX) {
        NA_LOG_ERROR("a memory handle has impossible flags 0x%x or length %llu", header->flags,
                     (unsigned long long) header->length);
        return NA_PROTOCOL_ERROR;
    }
    if (header->plugin_size > buf_size - sizeof(*header)) {
        NA_LOG_ERROR("a memory handle of %u bytes is cut to %zu", header->plugin_size,
                     buf_size - sizeof(*header));
        return NA_OVERFLOW;
    }
    return NA_SUCCESS;
}
