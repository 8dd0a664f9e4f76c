/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step 7: memory that peers may access. A handle is made, registered, and travels to a peer as some
 * bytes, of which the peer makes a remote handle. What comes back in a request is checked against
 * the list of what is registered: the key, the range and the access.
 */

#include "template.h"

#include <string.h>
#include <sys/random.h>

/* A handle as it travels. */
struct template_mem_packed {
    uint32_t magic;
    uint32_t flags;
    uint64_t key;
    uint64_t length;
};

#define PACKED_MAGIC 0x6d706d74u

int32_t template_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                            uint32_t flags, struct na_plugin_mem **mem_p)
{
    struct na_plugin_mem *mem = template_host->mem_alloc(sizeof(*mem), 0);

    if (mem == NULL)
        return NA_PLUGIN_NOMEM;
    mem->base = base;
    mem->length = length;
    mem->flags = flags;
    (void) pthread_mutex_lock(&na_class->lock);
    template_list_append(&na_class->memory, &mem->link);
    (void) pthread_mutex_unlock(&na_class->lock);
    *mem_p = mem;
    return NA_PLUGIN_SUCCESS;
}

void template_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) pthread_mutex_lock(&na_class->lock);
    template_list_remove(&mem->link);
    (void) pthread_mutex_unlock(&na_class->lock);
    template_host->mem_free(mem);
}

/* The key cannot be guessed: who has not been given the handle has no access. */
int32_t template_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                              uint32_t mem_type, uint64_t device)
{
    (void) device;
    if (mem_type != NA_PLUGIN_MEM_TYPE_HOST)
        return NA_PLUGIN_OPNOTSUPPORTED;
    if (getrandom(&mem->key, sizeof(mem->key), 0) != (ssize_t) sizeof(mem->key))
        return NA_PLUGIN_IO_ERROR;
    (void) pthread_mutex_lock(&na_class->lock);
    mem->registered = true;
    (void) pthread_mutex_unlock(&na_class->lock);
    return NA_PLUGIN_SUCCESS;
}

int32_t template_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) pthread_mutex_lock(&na_class->lock);
    mem->registered = false;
    (void) pthread_mutex_unlock(&na_class->lock);
    return NA_PLUGIN_SUCCESS;
}

uint64_t template_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) na_class;
    (void) mem;
    return sizeof(struct template_mem_packed);
}

int32_t template_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                               void *buf, uint64_t size)
{
    const struct template_mem_packed packed = {PACKED_MAGIC, mem->flags, mem->key, mem->length};

    (void) na_class;
    if (size < sizeof(packed))
        return NA_PLUGIN_OVERFLOW;
    memcpy(buf, &packed, sizeof(packed));
    return NA_PLUGIN_SUCCESS;
}

int32_t template_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                                 struct na_plugin_mem **mem_p)
{
    struct template_mem_packed packed;
    int32_t status;

    if (size < sizeof(packed))
        return NA_PLUGIN_PROTOCOL_ERROR;
    memcpy(&packed, buf, sizeof(packed));
    if (packed.magic != PACKED_MAGIC)
        return NA_PLUGIN_PROTOCOL_ERROR;
    status = template_mem_create(na_class, NULL, packed.length, packed.flags, mem_p);
    if (status == NA_PLUGIN_SUCCESS)
        (*mem_p)->key = packed.key;
    return status;
}

/* What a peer's request means here, or why not. */
int32_t template_mem_find_locked(struct na_plugin_class *na_class, uint64_t key, uint64_t offset,
                                 uint64_t length, uint32_t access, uint8_t **where_p)
{
    for (struct template_link *link = na_class->memory.next; link != &na_class->memory;
         link = link->next) {
        const struct na_plugin_mem *mem = (struct na_plugin_mem *) (void *) link;

        if (!mem->registered || mem->key != key)
            continue;
        if ((mem->flags & access) == 0)
            return NA_PLUGIN_PERMISSION;
        if (offset > mem->length || length > mem->length - offset)
            return NA_PLUGIN_OVERFLOW;
        *where_p = mem->base + offset;
        return NA_PLUGIN_SUCCESS;
    }
    return NA_PLUGIN_PERMISSION; /* deregistered, or never known */
}
