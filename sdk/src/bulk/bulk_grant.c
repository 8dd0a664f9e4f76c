/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Grants (mem_per_session): the peers that may reach the memory of a descriptor are those to which
 * its owner gave the descriptor.
 */
#include "bulk/bulk_grant.h"

#include "bulk/bulk_internal.h"
#include "engine/fork.h"

static hg_return_t hg_bulk_grant_path(const struct hg_bulk *bulk, enum hg_path path,
                                      na_addr_t *na_addr);

hg_return_t HG_Bulk_grant(hg_bulk_t handle, hg_addr_t addr)
{
    if (handle != HG_BULK_NULL && hg_fork_refuses(handle->hg_class, __func__))
        return HG_PERMISSION;
    if (handle == HG_BULK_NULL || addr == HG_ADDR_NULL || addr->hg_class != handle->hg_class ||
        (!handle->is_local && handle->canonical == NULL)) {
        HG_LOG_ERROR(
            "cannot grant descriptor %p to address %p; pass a descriptor of memory of this "
            "process, and an address of its class",
            (void *) handle, (void *) addr);
        return HG_INVALID_ARG;
    }
    return hg_bulk_grant(handle, addr);
}

hg_return_t hg_bulk_grant(hg_bulk_t bulk, hg_addr_t addr)
{
    const struct hg_bulk *owner = bulk->canonical != NULL ? bulk->canonical : bulk;
    hg_return_t ret = HG_SUCCESS;

    if (util_likely(!bulk->hg_class->bulk->has_grants) || !owner->is_local)
        return HG_SUCCESS;
    for (int path = 0; path < HG_PATH_MAX && ret == HG_SUCCESS; path++)
        if (addr->na_addr[path] != NULL)
            ret = hg_bulk_grant_path(owner, (enum hg_path) path, addr->na_addr[path]);
    return ret;
}

static hg_return_t hg_bulk_grant_path(const struct hg_bulk *bulk, enum hg_path path,
                                      na_addr_t *na_addr)
{
    na_class_t *na_class = bulk->hg_class->paths[path].na_class;
    const struct hg_bulk_map *map = &bulk->paths[path];

    for (uint32_t i = 0; i < map->count; i++) {
        na_return_t ret = NA_Mem_handle_grant(na_class, map->extents[i].at.mem, na_addr);

        if (ret == NA_SUCCESS)
            continue;
        HG_LOG_ERROR("memory is not granted by %s: %s", NA_Get_class_name(na_class),
                     NA_Error_to_string(ret));
        return hg_return_from_na(ret);
    }
    return HG_SUCCESS;
}
