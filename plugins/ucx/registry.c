/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registry: an array of the registered regions that other processes of this node read. The
 * origin of a get that reads the memory itself reads the entry before, and again behind each piece
 * (rma_read.c). The array is neither moved nor shrunk while the class is open.
 */

#include "ucx.h"

#include <sys/mman.h>

static struct ucx_entry *registry_find(const struct na_plugin_class *na_class,
                                       const struct na_plugin_mem *mem);

/* Unused entries take no memory. If this fails the engine carries out all gets. */
void ucx_registry_open(struct na_plugin_class *na_class)
{
    void *memory = mmap(NULL, UCX_REGISTRY * sizeof(struct ucx_entry), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    na_class->registry = memory != MAP_FAILED ? memory : NULL;
}

void ucx_registry_close(struct na_plugin_class *na_class)
{
    if (na_class->registry != NULL)
        (void) munmap(na_class->registry, UCX_REGISTRY * sizeof(struct ucx_entry));
    na_class->registry = NULL;
}

void ucx_registry_add(struct na_plugin_class *na_class, const struct na_plugin_mem *mem)
{
    struct ucx_entry *entry = registry_find(na_class, mem);

    if (entry == NULL)
        return;
    entry->base = mem->region.base;
    entry->length = mem->region.length;
    entry->flags = mem->region.flags;
    entry->mem_type = mem->region.mem_type;
    atomic_store_explicit(&entry->key[1], mem->region.key.word[1], memory_order_relaxed);
    atomic_store_explicit(&entry->key[0], mem->region.key.word[0], memory_order_release);
}

/* The fence orders this before the caller's next use of the memory: a read of that is detected. */
void ucx_registry_remove(struct na_plugin_class *na_class, const struct na_plugin_mem *mem)
{
    struct ucx_entry *entry = registry_find(na_class, mem);

    if (entry == NULL)
        return;
    atomic_store_explicit(&entry->key[0], 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

static struct ucx_entry *registry_find(const struct na_plugin_class *na_class,
                                       const struct na_plugin_mem *mem)
{
    uint32_t index = (uint32_t) mem->region.id;

    return na_class->registry != NULL && index < UCX_REGISTRY ? &na_class->registry[index] : NULL;
}
