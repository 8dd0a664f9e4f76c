/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Grants of a region. Most regions are granted to one peer, some to all peers: a single grant is in
 * the region itself, several are in a hash table with open addressing, at most 3/4 full.
 */

#include "kit_region.h"

#include <string.h>

#define GRANTS_FIRST 8u

static struct kit_grant *grant_place(struct kit_region *region, uint32_t index);
static int32_t grants_grow(struct kit_region *region);

int32_t kit_region_grant(struct kit_region *region, const struct kit_grant *grant)
{
    struct kit_grant *place;

    if (region->is_remote || !region->is_registered)
        return NA_PLUGIN_INVALID_ARG;
    place = grant_place(region, grant->index);
    if (place == NULL || (place->holder == 0 && region->grants != NULL &&
                          region->grant_count == region->grant_room / 4 * 3)) {
        const int32_t ret = grants_grow(region);

        if (ret != NA_PLUGIN_SUCCESS)
            return ret;
        place = grant_place(region, grant->index);
    }
    region->grant_count += place->holder == 0;
    *place = *grant;
    return NA_PLUGIN_SUCCESS;
}

bool kit_region_is_granted(struct kit_region *region, const struct kit_grant *asked)
{
    const struct kit_grant *grant = grant_place(region, asked->index);

    return grant != NULL && grant->holder == asked->holder && grant->epoch >= asked->epoch;
}

void kit_region_revoke(struct kit_region *region)
{
    if (region->grants != NULL)
        region->regions->grant_room -= region->grant_room;
    kit_host->mem_free(region->grants);
    region->grants = NULL;
    region->grant_room = region->grant_count = 0;
    memset(&region->grant, 0, sizeof(region->grant));
}

/* Returns the entry of that index, used or free; NULL: there is no table, and another grant. */
static struct kit_grant *grant_place(struct kit_region *region, uint32_t index)
{
    const uint32_t mask = region->grant_room - 1;
    uint32_t at = (uint32_t) ((index * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;

    if (region->grants == NULL)
        return region->grant_count == 0 || region->grant.index == index ? &region->grant : NULL;
    while (region->grants[at].holder != 0 && region->grants[at].index != index)
        at = (at + 1) & mask;
    return &region->grants[at];
}

static int32_t grants_grow(struct kit_region *region)
{
    const uint32_t before = region->grant_room, room = before == 0 ? GRANTS_FIRST : 2 * before;
    struct kit_grant *grants = region->grants, *old = grants != NULL ? grants : &region->grant;

    if (region->regions->grant_room + room - before > KIT_GRANTS_MAX)
        return NA_PLUGIN_NOMEM;
    region->grants = kit_host->mem_alloc((uint64_t) room * sizeof(*grants), 0);
    if (region->grants == NULL) {
        region->grants = grants;
        return NA_PLUGIN_NOMEM;
    }
    region->grant_room = room;
    region->grant_count = 0;
    region->regions->grant_room += room - before;
    for (uint32_t i = 0; i < (before == 0 ? 1 : before); i++) {
        if (old[i].holder == 0)
            continue;
        *grant_place(region, old[i].index) = old[i];
        region->grant_count++;
    }
    kit_host->mem_free(grants);
    return NA_PLUGIN_SUCCESS;
}
