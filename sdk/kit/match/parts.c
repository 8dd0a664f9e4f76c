/* SPDX-License-Identifier: BSD-3-Clause */
/* Reassembly of messages that are sent in parts. */

#include "kit_parts.h"

#define PARTS_KEPT 8u

static bool part_is_good(const struct kit_parts *parts, const struct kit_part *part);
static struct kit_parted *parted_get(struct kit_parts *parts);
static bool parted_goes_on(const struct kit_parted *parted, const struct kit_part *part);

enum kit_part_result kit_part_take(struct kit_parts *parts, struct kit_parted **parted,
                                   const struct kit_part *part)
{
    if (!part_is_good(parts, part))
        return KIT_PART_BAD;
    if (part->offset == 0) {
        if (*parted == NULL)
            *parted = parted_get(parts);
        if (*parted == NULL)
            return KIT_PART_NO_MEMORY;
        (*parted)->first = *part;
        (*parted)->filled = 0;
    }
    if (!parted_goes_on(*parted, part))
        return KIT_PART_STRAY;
    (*parted)->taken = ++parts->taken;
    return KIT_PART_TAKEN;
}

bool kit_part_is_last(struct kit_parted *parted, const struct kit_part *part)
{
    parted->filled += part->size;
    return parted->filled == parted->first.total;
}

void kit_part_again(struct kit_parted *parted, const struct kit_part *part)
{
    parted->filled = part->offset;
}

void kit_parted_drop(struct kit_parts *parts, struct kit_parted **parted)
{
    struct kit_parted *dropped = *parted;

    if (dropped == NULL)
        return;
    *parted = NULL;
    if (parts->kept == PARTS_KEPT) {
        parts->count--;
        kit_host->mem_free(dropped);
        return;
    }
    dropped->next = parts->free;
    parts->free = dropped;
    parts->kept++;
}

void kit_parts_free(struct kit_parts *parts)
{
    while (parts->free != NULL) {
        struct kit_parted *parted = parts->free;

        parts->free = parted->next;
        kit_host->mem_free(parted);
    }
    parts->count -= parts->kept;
    parts->kept = 0;
}

static bool part_is_good(const struct kit_parts *parts, const struct kit_part *part)
{
    return part->size != 0 && part->total <= parts->longest && part->offset <= part->total &&
           part->size <= part->total - part->offset;
}

/* Each has memory for the longest message, so that it can be reused for any. */
static struct kit_parted *parted_get(struct kit_parts *parts)
{
    struct kit_parted *parted = parts->free;

    if (parted != NULL) {
        parts->free = parted->next;
        parts->kept--;
        return parted;
    }
    if ((parts->count + 1) * parts->longest > parts->bytes_max)
        return NULL;
    parted = kit_host->mem_alloc(sizeof(*parted) + parts->longest, 0);
    parts->count += parted != NULL;
    return parted;
}

static bool parted_goes_on(const struct kit_parted *parted, const struct kit_part *part)
{
    return parted != NULL && parted->filled == part->offset && parted->first.kind == part->kind &&
           parted->first.source_id == part->source_id && parted->first.dest_id == part->dest_id &&
           parted->first.queue == part->queue && parted->first.tag == part->tag &&
           parted->first.total == part->total;
}
