/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory handles: creating, registering, serializing. */

#include "sm.h"

#include <string.h>

static int32_t sm_mem_create_segments(struct na_plugin_class *na_class,
                                      const struct na_plugin_segment *segments, uint64_t count,
                                      uint32_t flags, struct na_plugin_mem **mem_p);
static struct na_plugin_mem *sm_mem_alloc(struct sm_registry *registry, uint64_t count);
static bool sm_segments_read(const struct kit_region *region, const void *extra, uint32_t size,
                             struct na_plugin_mem *mem);
static bool sm_segments_sum(const struct na_plugin_segment *segments, uint64_t count,
                            uint64_t *length_p);
static uint32_t sm_segments_size(const struct na_plugin_mem *mem);
static void sm_mem_free_list(struct kit_link *list);

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

/* Handles of one segment are kept for the next use. */
void sm_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    struct sm_registry *registry = &na_class->registry;

    (void) sm_mem_deregister(na_class, mem);
    kit_lock_take(&registry->lock);
    kit_region_remove(&mem->region);
    if (mem->segment_count == 1) {
        kit_list_prepend(&registry->free_mems, &mem->region.node);
        mem = NULL;
    }
    kit_lock_drop(&registry->lock);
    kit_host->mem_free(mem);
}

int32_t sm_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                        uint32_t mem_type, uint64_t device)
{
    struct sm_registry *registry = &na_class->registry;
    int32_t ret = NA_PLUGIN_SUCCESS;

    (void) device;
    if (mem_type != NA_PLUGIN_MEM_TYPE_HOST) {
        SM_LOG_ERROR("memory of type %u cannot be registered, host memory only", mem_type);
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    if (mem->region.is_remote || mem->region.is_registered)
        return NA_PLUGIN_SUCCESS;
    kit_lock_take(&registry->lock);
    ret = kit_region_register(&registry->regions, &mem->region);
    if (ret == NA_PLUGIN_SUCCESS) {
        sm_registration_grow(na_class, mem);
        if ((mem->region.flags & NA_PLUGIN_MEM_WRITE) != 0)
            sm_writers_offer(na_class);
    }
    kit_lock_drop(&registry->lock);
    if (ret == NA_PLUGIN_SUCCESS)
        sm_registration_publish(na_class, mem);
    else
        SM_LOG_ERROR("memory cannot be registered: %s",
                     ret == NA_PLUGIN_IO_ERROR ? "no random numbers" : kit_status_name(ret));
    return ret;
}

/* Waits for the puts of peers that have begun. */
int32_t sm_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    struct sm_registry *registry = &na_class->registry;

    if (!mem->region.is_registered)
        return NA_PLUGIN_SUCCESS;
    kit_lock_take(&registry->lock);
    sm_registration_withdraw(na_class, mem);
    kit_region_deregister(&registry->regions, &mem->region);
    sm_copy_leave(na_class, &mem->region);
    kit_lock_drop(&registry->lock);
    if ((mem->region.flags & NA_PLUGIN_MEM_WRITE) != 0 &&
        !sm_writers_await(na_class, sm_load(&mem->digest)))
        sm_pool_lose(na_class, mem);
    return NA_PLUGIN_SUCCESS;
}

uint64_t sm_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) na_class;
    return KIT_REGION_PACKED + sm_segments_size(mem);
}

int32_t sm_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem, void *buf,
                         uint64_t size)
{
    int32_t ret = kit_region_pack(&mem->region, mem->segments, sm_segments_size(mem), buf, size);

    if (ret == NA_PLUGIN_INVALID_ARG)
        SM_LOG_ERROR("a memory handle that is not registered cannot be serialized");
    else if (ret != NA_PLUGIN_SUCCESS)
        SM_LOG_ERROR("a memory handle needs %llu bytes, %llu are given",
                     (unsigned long long) sm_mem_serialize_size(na_class, mem),
                     (unsigned long long) size);
    return ret;
}

int32_t sm_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                           struct na_plugin_mem **mem_p)
{
    struct sm_registry *registry = &na_class->registry;
    struct kit_region region = {.id = 0};
    struct na_plugin_mem *mem = NULL;
    const void *extra;
    uint32_t extra_size, count;
    int32_t ret;

    kit_lock_take(&registry->lock);
    ret = kit_region_unpack(&registry->regions, buf, size, &region, &extra, &extra_size);
    if (ret != NA_PLUGIN_SUCCESS)
        goto out;
    kit_region_remove(&region); /* the handle replaces it in the list */
    count = extra_size == 0 ? 1 : extra_size / (uint32_t) sizeof(struct na_plugin_segment);
    mem = sm_mem_alloc(registry, count != 0 ? count : 1);
    if (mem == NULL)
        ret = NA_PLUGIN_NOMEM;
    else if (!sm_segments_read(&region, extra, extra_size, mem))
        ret = NA_PLUGIN_PROTOCOL_ERROR;

out:
    kit_lock_drop(&registry->lock);
    if (ret == NA_PLUGIN_PROTOCOL_ERROR)
        SM_LOG_ERROR("%llu bytes are not a serialized memory handle of this transport",
                     (unsigned long long) size);
    if (ret == NA_PLUGIN_SUCCESS)
        *mem_p = mem;
    else if (mem != NULL)
        sm_mem_destroy(na_class, mem);
    return ret;
}

/* Also frees the handles that the caller did not destroy. */
void sm_registry_destroy(struct na_plugin_class *na_class)
{
    struct sm_registry *registry = &na_class->registry;

    sm_registration_close(na_class);
    sm_mem_free_list(&registry->regions.all);
    sm_mem_free_list(&registry->free_mems);
    kit_regions_close(&registry->regions);
}

static int32_t sm_mem_create_segments(struct na_plugin_class *na_class,
                                      const struct na_plugin_segment *segments, uint64_t count,
                                      uint32_t flags, struct na_plugin_mem **mem_p)
{
    struct sm_registry *registry = &na_class->registry;
    struct na_plugin_mem *mem;
    uint64_t length;
    int32_t ret = NA_PLUGIN_NOMEM;

    if (count == 0 || count > SM_RMA_SEGMENTS || !sm_segments_sum(segments, count, &length)) {
        SM_LOG_ERROR("%llu segments cannot be a memory handle: 1 to %u that lie in the address "
                     "space can",
                     (unsigned long long) count, SM_RMA_SEGMENTS);
        return NA_PLUGIN_INVALID_ARG;
    }
    kit_lock_take(&registry->lock);
    mem = sm_mem_alloc(registry, count);
    if (mem != NULL) {
        memcpy(mem->segments, segments, count * sizeof(*segments));
        kit_region_remove(&mem->region);
        ret = kit_region_add(&registry->regions, &mem->region, segments[0].base, length, flags);
    }
    kit_lock_drop(&registry->lock);
    if (ret == NA_PLUGIN_SUCCESS)
        *mem_p = mem;
    else if (mem != NULL)
        sm_mem_destroy(na_class, mem);
    return ret;
}

/* Returns an empty handle, in the list of all regions. The registry's lock is held. */
static struct na_plugin_mem *sm_mem_alloc(struct sm_registry *registry, uint64_t count)
{
    uint64_t more = count > 1 ? count * sizeof(struct na_plugin_segment) : 0;
    struct na_plugin_mem *mem;

    if (count == 1 && !kit_list_empty(&registry->free_mems)) {
        mem = (struct na_plugin_mem *) (void *) registry->free_mems.next;
        kit_list_take(&mem->region.node);
        memset(mem, 0, sizeof(*mem));
    } else {
        mem = kit_host->mem_alloc(sizeof(*mem) + more, 0);
        if (mem == NULL)
            return NULL;
    }
    kit_list_append(&registry->regions.all, &mem->region.node);
    mem->segments = count > 1 ? (struct na_plugin_segment *) (mem + 1) : &mem->first;
    mem->segment_count = (uint32_t) count;
    return mem;
}

/* Fills a handle from an unpacked region and its segments. False when they are not consistent. */
static bool sm_segments_read(const struct kit_region *region, const void *extra, uint32_t size,
                             struct na_plugin_mem *mem)
{
    const struct kit_link node = mem->region.node;
    uint64_t length;

    mem->region = *region;
    mem->region.node = node;
    mem->first = (struct na_plugin_segment){.base = (void *) (uintptr_t) region->base,
                                            .length = region->length};
    if (size != sm_segments_size(mem) || region->mem_type != NA_PLUGIN_MEM_TYPE_HOST)
        return false;
    if (size != 0)
        memcpy(mem->segments, extra, size);
    return sm_segments_sum(mem->segments, mem->segment_count, &length) &&
           length == region->length && (uintptr_t) mem->segments[0].base == region->base;
}

/* Bytes packed behind the region, which is itself the segment if there is one only. */
static uint32_t sm_segments_size(const struct na_plugin_mem *mem)
{
    return mem->segment_count > 1 ? mem->segment_count * (uint32_t) sizeof(struct na_plugin_segment)
                                  : 0;
}

static void sm_mem_free_list(struct kit_link *list)
{
    while (!kit_list_empty(list)) {
        struct kit_link *link = list->next;

        kit_list_take(link);
        kit_host->mem_free(link); /* the link is the first member of the handle */
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
