/* SPDX-License-Identifier: BSD-3-Clause */
/* Message buffers and memory handles: calls are passed on to the wrapped plugin. Functions that it
 * lacks are done as the core would, or refused. */

#include "fault.h"

#define CACHE_LINE 64u
#define PAGE       4096u

static int32_t mem_create_segments(struct na_plugin_class *na_class,
                                   const struct na_plugin_segment *segments, uint64_t count,
                                   uint32_t flags, struct na_plugin_mem **mem_p);

const struct na_plugin_mem_segments fault_mem_segments_extension = {
    .extension = {.size = sizeof(struct na_plugin_mem_segments)},
    .max_segments = FAULT_SEGMENTS_MAX,
    .mem_create_segments = mem_create_segments,
};

void *fault_msg_buf_alloc(struct na_plugin_class *na_class, uint64_t size, uint32_t flags,
                          void **data_p)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    if (fault_class->inner->msg_buf_alloc != NULL)
        return fault_class->inner->msg_buf_alloc(fault_class->inner_class, size, flags, data_p);
    *data_p = NULL;
    return kit_host->mem_alloc(size, size >= PAGE ? PAGE : CACHE_LINE);
}

void fault_msg_buf_free(struct na_plugin_class *na_class, void *buf, void *data)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    if (fault_class->inner->msg_buf_free != NULL)
        fault_class->inner->msg_buf_free(fault_class->inner_class, buf, data);
    else
        kit_host->mem_free(buf);
}

int32_t fault_msg_init_unexpected(struct na_plugin_class *na_class, void *buf, uint64_t size)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    if (fault_class->inner->msg_init_unexpected == NULL)
        return NA_PLUGIN_SUCCESS;
    return fault_class->inner->msg_init_unexpected(fault_class->inner_class, buf, size);
}

int32_t fault_msg_init_expected(struct na_plugin_class *na_class, void *buf, uint64_t size)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    if (fault_class->inner->msg_init_expected == NULL)
        return NA_PLUGIN_SUCCESS;
    return fault_class->inner->msg_init_expected(fault_class->inner_class, buf, size);
}

int32_t fault_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                         uint32_t flags, struct na_plugin_mem **mem_p)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    if (fault_class->inner->mem_create == NULL)
        return NA_PLUGIN_OPNOTSUPPORTED;
    return fault_class->inner->mem_create(fault_class->inner_class, base, length, flags, mem_p);
}

void fault_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    fault_class->inner->mem_destroy(fault_class->inner_class, mem);
}

int32_t fault_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                           uint32_t mem_type, uint64_t device)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    if (fault_class->inner->mem_register == NULL)
        return NA_PLUGIN_SUCCESS;
    return fault_class->inner->mem_register(fault_class->inner_class, mem, mem_type, device);
}

int32_t fault_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    if (fault_class->inner->mem_deregister == NULL)
        return NA_PLUGIN_SUCCESS;
    return fault_class->inner->mem_deregister(fault_class->inner_class, mem);
}

uint64_t fault_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    return fault_class->inner->mem_serialize_size(fault_class->inner_class, mem);
}

int32_t fault_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem, void *buf,
                            uint64_t size)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    return fault_class->inner->mem_serialize(fault_class->inner_class, mem, buf, size);
}

int32_t fault_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                              struct na_plugin_mem **mem_p)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    if (fault_class->inner->mem_deserialize == NULL)
        return NA_PLUGIN_OPNOTSUPPORTED;
    return fault_class->inner->mem_deserialize(fault_class->inner_class, buf, size, mem_p);
}

/* The table has one limit for all classes; this class may have a lower one. */
static int32_t mem_create_segments(struct na_plugin_class *na_class,
                                   const struct na_plugin_segment *segments, uint64_t count,
                                   uint32_t flags, struct na_plugin_mem **mem_p)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    if (count > fault_class->max_segments)
        return NA_PLUGIN_OPNOTSUPPORTED;
    return fault_class->mem_segments.mem_create_segments(fault_class->inner_class, segments, count,
                                                         flags, mem_p);
}
