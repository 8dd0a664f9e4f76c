/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory handles, and the transfers of peers that access them. */

#include "rma_state.h"

static struct kit_region *memory_make(void);
static void memory_free(struct kit_region *memory);
static void memory_targets_end(struct kit_rma *rma, const struct kit_region *memory);
static const struct kit_rma_transfer *memory_user(const struct kit_link *list,
                                                  const struct kit_region *memory);

int32_t kit_rma_mem_create(struct kit_rma *rma, void *base, uint64_t length, uint32_t flags,
                           struct kit_region **memory_p)
{
    struct kit_region *memory = memory_make();
    int32_t ret;

    if (memory == NULL)
        return NA_PLUGIN_NOMEM;
    ret = kit_region_add(rma->regions, memory, base, length, flags);
    if (ret != NA_PLUGIN_SUCCESS) {
        RMA_LOG_ERROR(rma, "%llu bytes at %p do not lie in the address space",
                      (unsigned long long) length, base);
        memory_free(memory);
        return ret;
    }
    *memory_p = memory;
    return NA_PLUGIN_SUCCESS;
}

void kit_rma_mem_destroy(struct kit_rma *rma, struct kit_region *memory)
{
    (void) kit_rma_mem_deregister(rma, memory);
    memory_free(memory);
}

int32_t kit_rma_mem_register(struct kit_rma *rma, struct kit_region *memory, uint32_t mem_type)
{
    int32_t ret;

    if (mem_type != NA_PLUGIN_MEM_TYPE_HOST) {
        RMA_LOG_ERROR(rma,
                      "memory of type %u cannot be registered: messages carry that of the "
                      "host only",
                      mem_type);
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    ret = kit_region_register(rma->regions, memory);
    if (ret != NA_PLUGIN_SUCCESS)
        RMA_LOG_ERROR(rma, "memory cannot be registered: %s", kit_status_name(ret));
    return ret;
}

bool kit_rma_mem_deregister(struct kit_rma *rma, struct kit_region *memory)
{
    if (memory->is_registered)
        kit_region_deregister(rma->regions, memory);
    return memory->is_remote || kit_rma_region_leave(rma, memory);
}

bool kit_rma_region_leave(struct kit_rma *rma, const struct kit_region *region)
{
    memory_targets_end(rma, region);
    return memory_user(&rma->targets, region) == NULL && memory_user(&rma->closing, region) == NULL;
}

void *kit_rma_region_peer(const struct kit_rma *rma, const struct kit_region *region)
{
    const struct kit_rma_transfer *transfer = memory_user(&rma->closing, region);

    return transfer != NULL ? transfer->peer : NULL;
}

int32_t kit_rma_mem_serialize(struct kit_rma *rma, const struct kit_region *memory, void *buf,
                              uint64_t size)
{
    int32_t ret = kit_region_pack(memory, NULL, 0, buf, size);

    if (ret == NA_PLUGIN_INVALID_ARG)
        RMA_LOG_ERROR(rma, "a handle that is not registered cannot be serialized");
    else if (ret != NA_PLUGIN_SUCCESS)
        RMA_LOG_ERROR(rma, "a serialized handle has %u bytes, %llu are given", KIT_REGION_PACKED,
                      (unsigned long long) size);
    return ret;
}

int32_t kit_rma_mem_deserialize(struct kit_rma *rma, const void *buf, uint64_t size,
                                struct kit_region **memory_p)
{
    struct kit_region *memory = memory_make();
    const void *extra;
    uint32_t extra_size;
    int32_t ret;

    if (memory == NULL)
        return NA_PLUGIN_NOMEM;
    ret = kit_region_unpack(rma->regions, buf, size, memory, &extra, &extra_size);
    if (ret != NA_PLUGIN_SUCCESS) {
        RMA_LOG_ERROR(rma, "%llu bytes are not a serialized memory handle",
                      (unsigned long long) size);
        memory_free(memory);
        return ret;
    }
    *memory_p = memory;
    return NA_PLUGIN_SUCCESS;
}

/* Frees the handles that the caller did not free. */
void kit_rma_mem_free_all(struct kit_rma *rma)
{
    struct kit_link *node;

    if (rma->regions != &rma->own_regions)
        return;
    while ((node = kit_list_first(&rma->own_regions.all)) != NULL)
        memory_free(kit_container(node, struct kit_region, node));
    kit_regions_close(&rma->own_regions);
}

static struct kit_region *memory_make(void)
{
    struct kit_region *memory = kit_host->mem_alloc(sizeof(*memory), 0);

    if (memory != NULL)
        kit_list_init(&memory->node);
    return memory;
}

static void memory_free(struct kit_region *memory)
{
    kit_region_remove(memory);
    kit_host->mem_free(memory);
}

static void memory_targets_end(struct kit_rma *rma, const struct kit_region *memory)
{
    struct kit_link *node = rma->targets.next;

    while (node != &rma->targets) {
        struct kit_rma_transfer *transfer = kit_container(node, struct kit_rma_transfer, node);

        node = node->next;
        if (transfer->region == memory)
            kit_rma_transfer_end(transfer, NA_PLUGIN_PERMISSION, true);
    }
    kit_rma_dispatch(rma);
}

/* Returns a transfer for which the network may access the memory, or NULL. */
static const struct kit_rma_transfer *memory_user(const struct kit_link *list,
                                                  const struct kit_region *memory)
{
    for (const struct kit_link *node = list->next; node != list; node = node->next) {
        const struct kit_rma_transfer *transfer =
            kit_container(node, const struct kit_rma_transfer, node);

        if (transfer->region == memory && transfer->in_use != 0)
            return transfer;
    }
    return NULL;
}
