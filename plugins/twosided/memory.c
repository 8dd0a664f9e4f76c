/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory handles: regions of the kit, and the transfers of peers that touch them. */

#include "state.h"

static struct twosided_memory *memory_make(struct twosided *ts);
static void memory_free(struct twosided *ts, struct twosided_memory *memory);
static void memory_jobs_end(struct twosided *ts, const struct twosided_memory *memory);
static bool memory_is_touched(const struct kit_link *list, const struct twosided_memory *memory);

int32_t twosided_mem_create(struct twosided *ts, void *base, uint64_t length, uint32_t flags,
                            struct twosided_memory **memory_p)
{
    struct twosided_memory *memory = memory_make(ts);
    int32_t ret;

    if (memory == NULL)
        return NA_PLUGIN_NOMEM;
    ret = kit_region_add(&ts->regions, &memory->region, base, length, flags);
    if (ret != NA_PLUGIN_SUCCESS) {
        TWOSIDED_LOG_ERROR(ts, "%llu bytes at %p do not lie in the address space",
                           (unsigned long long) length, base);
        memory_free(ts, memory);
        return ret;
    }
    *memory_p = memory;
    return NA_PLUGIN_SUCCESS;
}

void twosided_mem_destroy(struct twosided *ts, struct twosided_memory *memory)
{
    (void) twosided_mem_deregister(ts, memory);
    memory_free(ts, memory);
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
    ret = kit_region_register(&ts->regions, &memory->region);
    if (ret != NA_PLUGIN_SUCCESS)
        TWOSIDED_LOG_ERROR(ts, "memory cannot be registered: %s", kit_status_name(ret));
    return ret;
}

bool twosided_mem_deregister(struct twosided *ts, struct twosided_memory *memory)
{
    if (memory->region.is_registered) {
        (void) kit_region_deregister(&ts->regions, &memory->region);
        memory_jobs_end(ts, memory);
    }
    return memory->region.is_remote ||
           (!memory_is_touched(&ts->jobs, memory) && !memory_is_touched(&ts->orphans, memory));
}

int32_t twosided_mem_serialize(struct twosided *ts, const struct twosided_memory *memory, void *buf,
                               uint64_t size)
{
    int32_t ret = kit_region_pack(&memory->region, NULL, 0, buf, size);

    if (ret == NA_PLUGIN_INVALID_ARG)
        TWOSIDED_LOG_ERROR(ts, "a handle that is not registered cannot be serialized");
    else if (ret != NA_PLUGIN_SUCCESS)
        TWOSIDED_LOG_ERROR(ts, "a serialized handle has %u bytes, %llu are given",
                           KIT_REGION_PACKED, (unsigned long long) size);
    return ret;
}

int32_t twosided_mem_deserialize(struct twosided *ts, const void *buf, uint64_t size,
                                 struct twosided_memory **memory_p)
{
    struct twosided_memory *memory = memory_make(ts);
    const void *extra;
    uint32_t extra_size;
    int32_t ret;

    if (memory == NULL)
        return NA_PLUGIN_NOMEM;
    ret = kit_region_unpack(&ts->regions, buf, size, &memory->region, &extra, &extra_size);
    if (ret != NA_PLUGIN_SUCCESS) {
        TWOSIDED_LOG_ERROR(ts, "%llu bytes are not a serialized memory handle",
                           (unsigned long long) size);
        memory_free(ts, memory);
        return ret;
    }
    *memory_p = memory;
    return NA_PLUGIN_SUCCESS;
}

/* The region that a peer names, held against all that it may not do. */
int32_t twosided_mem_find(struct twosided *ts, uint64_t id, const struct kit_key *key,
                          uint32_t access, uint64_t offset, uint64_t length,
                          struct twosided_memory **memory_p)
{
    struct kit_region *region = NULL;
    int32_t ret = kit_region_find(&ts->regions, id, key, access, offset, length, &region);

    if (ret == NA_PLUGIN_SUCCESS)
        *memory_p = kit_container(region, struct twosided_memory, region);
    return ret;
}

/* What callers forgot. */
void twosided_mem_free_all(struct twosided *ts)
{
    struct kit_link *node;

    while ((node = kit_list_first(&ts->regions.all)) != NULL)
        memory_free(ts, kit_container(node, struct twosided_memory, region.node));
    kit_regions_close(&ts->regions);
}

static struct twosided_memory *memory_make(struct twosided *ts)
{
    struct twosided_memory *memory = ts->host->mem_alloc(sizeof(*memory), 0);

    if (memory != NULL)
        kit_list_init(&memory->region.node);
    return memory;
}

static void memory_free(struct twosided *ts, struct twosided_memory *memory)
{
    kit_region_remove(&memory->region);
    ts->host->mem_free(memory);
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
