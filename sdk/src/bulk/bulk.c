/* SPDX-License-Identifier: BSD-3-Clause */
/* Bulk descriptors: creation, release, binding and accessors. */
#include "bulk/bulk_internal.h"
#include "bulk/bulk_registry.h"
#include "engine/fork.h"
#include "engine/memory.h"

#include <inttypes.h>
#include <stdlib.h>

/* Alignment of segments that HG_Bulk_create() allocates, sufficient for any type. */
#define HG_BULK_ALIGNMENT 16u

static hg_return_t hg_bulk_create_check(hg_class_t *hg_class, uint32_t count, void **buf_ptrs,
                                        const hg_size_t *buf_sizes, uint8_t flags,
                                        const struct hg_bulk_attr *attrs, hg_bulk_t *handle);
static hg_return_t hg_bulk_segments_check(uint32_t count, void **buf_ptrs,
                                          const hg_size_t *buf_sizes, hg_size_t *size_p);
static hg_return_t hg_bulk_memory_alloc(struct hg_bulk *bulk, uint32_t count,
                                        const hg_size_t *buf_sizes);
static hg_return_t hg_bulk_memory_set(struct hg_bulk *bulk, uint32_t count, void **buf_ptrs,
                                      const hg_size_t *buf_sizes);
static void hg_bulk_destroy(struct hg_bulk *bulk);
static hg_return_t hg_bulk_addr_serialize(struct hg_bulk *bulk);
static hg_return_t hg_bulk_addr_to_string(struct hg_bulk *bulk);

hg_return_t HG_Bulk_create(hg_class_t *hg_class, uint32_t count, void **buf_ptrs,
                           const hg_size_t *buf_sizes, uint8_t flags, hg_bulk_t *handle)
{
    return HG_Bulk_create_attr(hg_class, count, buf_ptrs, buf_sizes, flags, NULL, handle);
}

hg_return_t HG_Bulk_create_attr(hg_class_t *hg_class, uint32_t count, void **buf_ptrs,
                                const hg_size_t *buf_sizes, uint8_t flags,
                                const struct hg_bulk_attr *attrs, hg_bulk_t *handle)
{
    struct hg_bulk *bulk = NULL;
    hg_size_t size = 0;
    hg_return_t ret;

    if (hg_class != NULL && hg_fork_refuses(hg_class, __func__))
        return HG_PERMISSION;
    ret = hg_bulk_create_check(hg_class, count, buf_ptrs, buf_sizes, flags, attrs, handle);
    if (ret == HG_SUCCESS)
        ret = hg_bulk_segments_check(count, buf_ptrs, buf_sizes, &size);
    if (ret != HG_SUCCESS)
        return ret;
    bulk = hg_bulk_new(hg_class);
    if (bulk == NULL)
        return HG_NOMEM;
    bulk->is_local = true;
    bulk->segment_count = count;
    bulk->size = size;
    bulk->access = flags;
    bulk->mem_type = attrs != NULL ? attrs->mem_type : HG_MEM_TYPE_HOST;
    bulk->device = attrs != NULL ? attrs->device : 0;
    if (buf_ptrs == NULL)
        ret = hg_bulk_memory_alloc(bulk, count, buf_sizes);
    else
        ret = hg_bulk_memory_set(bulk, count, buf_ptrs, buf_sizes);
    if (ret == HG_SUCCESS)
        ret = hg_bulk_register(bulk);
    if (ret != HG_SUCCESS) {
        hg_bulk_destroy(bulk);
        return ret;
    }
    *handle = bulk;
    return HG_SUCCESS;
}

hg_return_t HG_Bulk_free(hg_bulk_t handle)
{
    if (handle == HG_BULK_NULL)
        return HG_SUCCESS;
    if (hg_fork_refuses(handle->hg_class, __func__))
        return HG_PERMISSION;
    if (atomic_fetch_sub_explicit(&handle->refs, 1, memory_order_acq_rel) == 1)
        hg_bulk_destroy(handle);
    return HG_SUCCESS;
}

hg_return_t HG_Bulk_ref_incr(hg_bulk_t handle)
{
    if (handle == HG_BULK_NULL) {
        HG_LOG_ERROR("cannot reference HG_BULK_NULL");
        return HG_INVALID_ARG;
    }
    if (hg_fork_refuses(handle->hg_class, __func__))
        return HG_PERMISSION;
    (void) atomic_fetch_add_explicit(&handle->refs, 1, memory_order_relaxed);
    return HG_SUCCESS;
}

hg_return_t HG_Bulk_bind(hg_bulk_t handle, hg_context_t *context)
{
    hg_return_t ret;

    if (handle != HG_BULK_NULL && hg_fork_refuses(handle->hg_class, __func__))
        return HG_PERMISSION;
    if (handle == HG_BULK_NULL || context == NULL || !handle->is_local ||
        HG_Context_get_class(context) != handle->hg_class || handle->addr != HG_ADDR_NULL) {
        HG_LOG_ERROR("cannot bind descriptor %p to context %p; pass a descriptor made by "
                     "HG_Bulk_create(), not bound yet, and a context of its class",
                     (void *) handle, (void *) context);
        return HG_INVALID_ARG;
    }
    ret = HG_Addr_self(handle->hg_class, &handle->addr);
    if (ret != HG_SUCCESS)
        return ret;
    handle->context_id = HG_Context_get_id(context);
    ret = hg_bulk_addr_serialize(handle);
    if (ret != HG_SUCCESS) {
        (void) HG_Addr_free(handle->hg_class, handle->addr);
        handle->addr = HG_ADDR_NULL;
        handle->context_id = 0;
    }
    return ret;
}

hg_addr_t HG_Bulk_get_addr(hg_bulk_t handle)
{
    return handle != HG_BULK_NULL ? handle->addr : HG_ADDR_NULL;
}

uint8_t HG_Bulk_get_context_id(hg_bulk_t handle)
{
    return handle != HG_BULK_NULL ? handle->context_id : 0;
}

hg_size_t HG_Bulk_get_size(hg_bulk_t handle)
{
    return handle != HG_BULK_NULL ? handle->size : 0;
}

uint32_t HG_Bulk_get_segment_count(hg_bulk_t handle)
{
    return handle != HG_BULK_NULL ? handle->segment_count : 0;
}

uint8_t HG_Bulk_get_flags(hg_bulk_t handle)
{
    return handle != HG_BULK_NULL ? handle->access : 0;
}

bool HG_Bulk_in_use(hg_bulk_t handle)
{
    return handle != HG_BULK_NULL &&
           atomic_load_explicit(&handle->in_use, memory_order_acquire) > 0;
}

hg_return_t HG_Bulk_access(hg_bulk_t handle, hg_size_t offset, hg_size_t size, uint8_t flags,
                           uint32_t max_count, void **buf_ptrs, hg_size_t *buf_sizes,
                           uint32_t *actual_count)
{
    const struct hg_bulk *owner = handle;
    struct hg_bulk_cursor cursor;
    uint32_t count = 0;

    if (handle != HG_BULK_NULL && hg_fork_refuses(handle->hg_class, __func__))
        return HG_PERMISSION;
    /* Access flags restrict remote peers; the process that owns the memory needs no permission. */
    (void) flags;
    if (handle != HG_BULK_NULL && handle->canonical != NULL)
        owner = handle->canonical;
    if (handle == HG_BULK_NULL || (owner->memory.count == 0 && owner->size > 0)) {
        HG_LOG_ERROR("cannot access descriptor %p; its memory must be in this process",
                     (void *) handle);
        return HG_INVALID_ARG;
    }
    if (offset > owner->size) {
        HG_LOG_ERROR("offset %" PRIu64 " is behind the descriptor's %" PRIu64 " bytes", offset,
                     owner->size);
        return HG_OVERFLOW;
    }
    /* Leave the count and the arrays unchanged. */
    if (size == 0 || max_count == 0)
        return HG_SUCCESS;
    if (size > owner->size - offset)
        size = owner->size - offset;
    if (size > 0)
        cursor = hg_bulk_cursor_at(&owner->memory, offset);
    while (size > 0 && count < max_count) {
        hg_size_t left = hg_bulk_cursor_left(&cursor);
        hg_size_t length = left < size ? left : size;

        if (buf_ptrs != NULL)
            buf_ptrs[count] = cursor.extent->at.base + cursor.within;
        if (buf_sizes != NULL)
            buf_sizes[count] = length;
        size -= length;
        hg_bulk_cursor_advance(&cursor, length);
        count++;
    }
    if (actual_count != NULL)
        *actual_count = count;
    return HG_SUCCESS;
}

void hg_bulk_own(hg_bulk_t bulk, void (*free_callback)(void *), void *arg)
{
    bulk->owned = arg;
    bulk->owned_free = free_callback;
}

struct hg_bulk *hg_bulk_new(hg_class_t *hg_class)
{
    struct hg_bulk *bulk = calloc(1, sizeof(*bulk));

    if (bulk == NULL) {
        HG_LOG_ERROR("cannot make a bulk descriptor: out of memory");
        return NULL;
    }
    bulk->hg_class = hg_class;
    atomic_init(&bulk->refs, 1);
    atomic_fetch_add_explicit(&hg_class->bulk->count, 1, memory_order_relaxed);
    return bulk;
}

static hg_return_t hg_bulk_create_check(hg_class_t *hg_class, uint32_t count, void **buf_ptrs,
                                        const hg_size_t *buf_sizes, uint8_t flags,
                                        const struct hg_bulk_attr *attrs, hg_bulk_t *handle)
{
    if (hg_class == NULL || count == 0 || buf_sizes == NULL || handle == NULL || flags == 0 ||
        (flags & ~HG_BULK_READWRITE) != 0) {
        HG_LOG_ERROR("cannot describe memory: class %p, %" PRIu32 " segments, sizes %p, flags "
                     "0x%x, result %p; pass all of them, and read-only, write-only or read-write",
                     (void *) hg_class, count, (const void *) buf_sizes, (unsigned int) flags,
                     (void *) handle);
        return HG_INVALID_ARG;
    }
    if (attrs == NULL || attrs->mem_type == HG_MEM_TYPE_HOST)
        return HG_SUCCESS;
    if ((unsigned int) attrs->mem_type >= HG_MEM_TYPE_MAX || buf_ptrs == NULL) {
        HG_LOG_ERROR("cannot describe memory of type %d at %p; pass a known type, and addresses",
                     (int) attrs->mem_type, (void *) buf_ptrs);
        return HG_INVALID_ARG;
    }
    return HG_SUCCESS;
}

static hg_return_t hg_bulk_segments_check(uint32_t count, void **buf_ptrs,
                                          const hg_size_t *buf_sizes, hg_size_t *size_p)
{
    hg_size_t size = 0;

    for (uint32_t i = 0; i < count; i++) {
        uintptr_t base = buf_ptrs != NULL ? (uintptr_t) buf_ptrs[i] : 0;

        if (buf_ptrs != NULL && buf_ptrs[i] == NULL && buf_sizes[i] > 0) {
            HG_LOG_ERROR("segment %" PRIu32 " of %" PRIu64 " bytes is NULL; pass addresses for all "
                         "segments or for none",
                         i, buf_sizes[i]);
            return HG_INVALID_ARG;
        }
        /* Leave room for the alignment of allocated segments. */
        if (buf_sizes[i] > (UINTPTR_MAX >> 1) - base / 2 ||
            buf_sizes[i] > (HG_SIZE_MAX >> 1) - size - HG_BULK_ALIGNMENT) {
            HG_LOG_ERROR("segment %" PRIu32 " of %" PRIu64 " bytes does not fit an address space",
                         i, buf_sizes[i]);
            return HG_OVERFLOW;
        }
        size += buf_sizes[i];
    }
    *size_p = size;
    return HG_SUCCESS;
}

/* Allocate one block for all segments. */
static hg_return_t hg_bulk_memory_alloc(struct hg_bulk *bulk, uint32_t count,
                                        const hg_size_t *buf_sizes)
{
    hg_size_t total = 0;
    void **buf_ptrs;
    hg_return_t ret;

    buf_ptrs = calloc(count, sizeof(*buf_ptrs));
    for (uint32_t i = 0; i < count; i++)
        total += (buf_sizes[i] + HG_BULK_ALIGNMENT - 1) & ~(hg_size_t) (HG_BULK_ALIGNMENT - 1);
    if (total >= bulk->size)
        bulk->allocated = hg_memory_alloc(bulk->hg_class, total > 0 ? total : 1);
    if (buf_ptrs == NULL || bulk->allocated == NULL) {
        HG_LOG_ERROR("cannot allocate %" PRIu64 " bytes for %" PRIu32 " segments: out of memory",
                     bulk->size, count);
        free(buf_ptrs);
        return HG_NOMEM;
    }
    total = 0;
    for (uint32_t i = 0; i < count; i++) {
        buf_ptrs[i] = (char *) bulk->allocated + total;
        total += (buf_sizes[i] + HG_BULK_ALIGNMENT - 1) & ~(hg_size_t) (HG_BULK_ALIGNMENT - 1);
    }
    ret = hg_bulk_memory_set(bulk, count, buf_ptrs, buf_sizes);
    free(buf_ptrs);
    return ret;
}

/* Record the segments; empty ones are in no range, and are left out. */
static hg_return_t hg_bulk_memory_set(struct hg_bulk *bulk, uint32_t count, void **buf_ptrs,
                                      const hg_size_t *buf_sizes)
{
    struct hg_bulk_map *map = &bulk->memory;
    hg_size_t offset = 0;
    hg_return_t ret = hg_bulk_map_init(map, count);

    if (ret != HG_SUCCESS)
        return ret;
    for (uint32_t i = 0; i < count; i++) {
        if (buf_sizes[i] == 0)
            continue;
        map->extents[map->count].offset = offset;
        map->extents[map->count].length = buf_sizes[i];
        map->extents[map->count].at.base = buf_ptrs[i];
        map->count++;
        offset += buf_sizes[i];
    }
    return HG_SUCCESS;
}

static void hg_bulk_destroy(struct hg_bulk *bulk)
{
    hg_class_t *hg_class = bulk->hg_class;

    hg_bulk_registry_remove(bulk);
    hg_bulk_deregister(bulk);
    hg_bulk_map_fini(&bulk->memory);
    if (bulk->addr != HG_ADDR_NULL)
        (void) HG_Addr_free(hg_class, bulk->addr);
    (void) HG_Bulk_free(bulk->canonical);
    free(bulk->addr_wire);
    if (bulk->allocated != NULL)
        hg_memory_free(hg_class, bulk->allocated);
    if (bulk->owned_free != NULL)
        bulk->owned_free(bulk->owned);
    free(bulk->wire);
    free(bulk);
    atomic_fetch_sub_explicit(&hg_class->bulk->count, 1, memory_order_release);
}

/* Serialize the own address for the wire. */
static hg_return_t hg_bulk_addr_serialize(struct hg_bulk *bulk)
{
    na_class_t *na_class = bulk->hg_class->paths[HG_PATH_MAIN].na_class;
    na_addr_t *na_addr = bulk->addr->na_addr[HG_PATH_MAIN];
    size_t size = na_addr != NULL ? NA_Addr_get_serialize_size(na_class, na_addr) : 0;
    na_return_t ret;

    /* Only the address string has the addresses on both paths. */
    if (size == 0 || bulk->hg_class->paths[HG_PATH_SM].na_class != NULL)
        return hg_bulk_addr_to_string(bulk);
    bulk->addr_wire = size <= UINT16_MAX ? malloc(size) : NULL;
    if (bulk->addr_wire == NULL) {
        HG_LOG_ERROR("cannot bind: no memory for an address of %zu bytes", size);
        return HG_NOMEM;
    }
    ret = NA_Addr_serialize(na_class, bulk->addr_wire, size, na_addr);
    if (ret != NA_SUCCESS) {
        HG_LOG_ERROR("cannot bind: address of %s not serialized: %s", NA_Get_class_name(na_class),
                     NA_Error_to_string(ret));
        free(bulk->addr_wire);
        bulk->addr_wire = NULL;
        return hg_return_from_na(ret);
    }
    bulk->addr_is_string = false;
    atomic_store_explicit(&bulk->addr_size, (uint32_t) size, memory_order_release);
    return HG_SUCCESS;
}

static hg_return_t hg_bulk_addr_to_string(struct hg_bulk *bulk)
{
    hg_size_t size = 0;
    hg_return_t ret = HG_Addr_to_string(bulk->hg_class, NULL, &size, bulk->addr);

    if (ret != HG_SUCCESS)
        return ret;
    bulk->addr_wire = size > 0 && size <= UINT16_MAX ? malloc((size_t) size) : NULL;
    if (bulk->addr_wire == NULL) {
        HG_LOG_ERROR("cannot bind: no memory for an address of %" PRIu64 " bytes", size);
        return HG_NOMEM;
    }
    ret = HG_Addr_to_string(bulk->hg_class, bulk->addr_wire, &size, bulk->addr);
    if (ret != HG_SUCCESS) {
        free(bulk->addr_wire);
        bulk->addr_wire = NULL;
        return ret;
    }
    bulk->addr_is_string = true;
    atomic_store_explicit(&bulk->addr_size, (uint32_t) size, memory_order_release);
    return HG_SUCCESS;
}
