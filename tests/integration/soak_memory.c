/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the soak's transfers, allocated by the library or by the test, and the check that
 * withdrawn memory is not written any more. */
#include "soak_origin.h"

#include <stdlib.h>

bool soak_memory_take(struct soak_slot *slot, uint64_t size, uint8_t flags)
{
    struct soak *soak = slot->soak;
    void *buffer = NULL;

    slot->size = size;
    slot->is_library_memory = soak_below(soak, 2) == 0;
    if (!slot->is_library_memory) {
        soak_memory_check(slot);
        if (slot->buffer == NULL)
            slot->buffer = malloc(SOAK_BULK_MAX);
        buffer = slot->buffer;
        if (buffer == NULL)
            return false;
    }
    if (HG_Bulk_create(soak->hg_class, 1, slot->is_library_memory ? NULL : &buffer, &size, flags,
                       &slot->local) != HG_SUCCESS)
        return false;
    soak->bulks++;
    if (slot->is_library_memory &&
        HG_Bulk_access(slot->local, 0, size, flags, 1, &buffer, &size, NULL) != HG_SUCCESS)
        return false;
    slot->memory = buffer;
    return true;
}

void soak_memory_give(struct soak_slot *slot, bool is_exposed)
{
    struct soak *soak = slot->soak;
    struct soak_parked *parked;

    if (slot->local == HG_BULK_NULL)
        return;
    if (!slot->is_library_memory && HG_Bulk_in_use(slot->local) &&
        (parked = malloc(sizeof(*parked))) != NULL) {
        *parked = (struct soak_parked){soak->parked, slot->local, slot->buffer};
        soak->parked = parked;
        slot->buffer = NULL;
    } else {
        (void) HG_Bulk_free(slot->local);
        soak->bulks--;
        if (!slot->is_library_memory && is_exposed) {
            slot->is_withdrawn = true;
            slot->withdrawn_size = slot->size;
            slot->withdrawn_digest = soak_digest(slot->buffer, slot->size);
        }
    }
    slot->local = HG_BULK_NULL;
    slot->memory = NULL;
}

void soak_memory_check(struct soak_slot *slot)
{
    if (slot->is_withdrawn &&
        soak_digest(slot->buffer, slot->withdrawn_size) != slot->withdrawn_digest)
        slot->soak->report->touched++;
    slot->is_withdrawn = false;
}

bool soak_free_parked(struct soak *soak)
{
    struct soak_parked **link = &soak->parked;

    while (*link != NULL) {
        struct soak_parked *parked = *link;

        if (HG_Bulk_in_use(parked->bulk)) {
            link = &parked->next;
            continue;
        }
        *link = parked->next;
        (void) HG_Bulk_free(parked->bulk);
        soak->bulks--;
        free(parked->buffer);
        free(parked);
    }
    return soak->parked == NULL;
}
