/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forwards that their origins gave up before the response, the latest ones: a ring in the order in
 * which they came, and a hash table over it. The hash has a seed of its own, so that no peer can
 * choose what meets in one place.
 */
#include "hg/hg_private.h"

#include <stdlib.h>

_Static_assert(HG_GIVEN_UP_MAX < UINT16_MAX, "places are 16 bits wide");
_Static_assert((HG_GIVEN_UP_BUCKETS & (HG_GIVEN_UP_BUCKETS - 1)) == 0, "a power of two");

static uint16_t *hg_given_up_bucket(struct hg_given_ups *given_ups,
                                    const struct hg_given_up *given_up);
static uint16_t *hg_given_up_find(struct hg_given_ups *given_ups, const hg_class_t *hg_class,
                                  const struct hg_given_up *wanted);
static void hg_given_up_unlink(struct hg_given_ups *given_ups, const struct hg_given_up *given_up);

struct hg_given_ups *hg_given_ups_new(void)
{
    struct hg_given_ups *given_ups = calloc(1, sizeof(*given_ups));

    if (given_ups != NULL)
        given_ups->seed = hg_random();
    return given_ups;
}

void hg_given_ups_free(struct hg_given_ups *given_ups, const hg_class_t *hg_class)
{
    uint32_t i;

    if (given_ups == NULL)
        return;
    for (i = 0; i < HG_GIVEN_UP_MAX; i++)
        if (given_ups->ring[i].na_addr != NULL)
            NA_Addr_free(hg_class->lanes[given_ups->ring[i].lane].na_class,
                         given_ups->ring[i].na_addr);
    free(given_ups);
}

na_addr_t *hg_given_ups_add(struct hg_given_ups *given_ups, const hg_class_t *hg_class,
                            const struct hg_given_up *given_up, uint8_t *lane_p)
{
    const uint32_t place = given_ups->next % HG_GIVEN_UP_MAX;
    struct hg_given_up *slot = &given_ups->ring[place];
    na_addr_t *old_addr = slot->na_addr;
    uint16_t *bucket;

    *lane_p = given_up->lane;
    if (*hg_given_up_find(given_ups, hg_class, given_up) != 0)
        return given_up->na_addr;
    if (old_addr != NULL) {
        *lane_p = slot->lane;
        hg_given_up_unlink(given_ups, slot);
    }
    given_ups->next++;
    bucket = hg_given_up_bucket(given_ups, given_up);
    *slot = *given_up;
    slot->next = *bucket;
    *bucket = (uint16_t) (place + 1);
    return old_addr;
}

na_addr_t *hg_given_ups_take(struct hg_given_ups *given_ups, const hg_class_t *hg_class,
                             const struct hg_given_up *wanted)
{
    uint16_t *link = hg_given_up_find(given_ups, hg_class, wanted);
    struct hg_given_up *found;
    na_addr_t *na_addr;

    if (*link == 0)
        return NULL;
    found = &given_ups->ring[*link - 1];
    *link = found->next;
    na_addr = found->na_addr;
    found->na_addr = NULL;
    return na_addr;
}

bool hg_given_up_equals(const hg_class_t *hg_class, const struct hg_given_up *one,
                        const struct hg_given_up *other)
{
    return one->id == other->id && one->tag == other->tag && one->cookie == other->cookie &&
           one->origin == other->origin && one->lane == other->lane &&
           NA_Addr_cmp(hg_class->lanes[one->lane].na_class, one->na_addr, other->na_addr);
}

/* Of all but the address, which has no bytes to look at. */
static uint16_t *hg_given_up_bucket(struct hg_given_ups *given_ups,
                                    const struct hg_given_up *given_up)
{
    const uint64_t words[] = {given_up->id, given_up->tag,
                              (uint64_t) given_up->cookie << 16 | (uint64_t) given_up->origin << 8 |
                                  given_up->lane};

    return &given_ups->buckets[hg_proc_checksum_bytes(words, sizeof(words), given_ups->seed) %
                               HG_GIVEN_UP_BUCKETS];
}

/* What points to it, or the end of where it would be. */
static uint16_t *hg_given_up_find(struct hg_given_ups *given_ups, const hg_class_t *hg_class,
                                  const struct hg_given_up *wanted)
{
    uint16_t *link = hg_given_up_bucket(given_ups, wanted);

    while (*link != 0 && !hg_given_up_equals(hg_class, &given_ups->ring[*link - 1], wanted))
        link = &given_ups->ring[*link - 1].next;
    return link;
}

static void hg_given_up_unlink(struct hg_given_ups *given_ups, const struct hg_given_up *given_up)
{
    const uint16_t place = (uint16_t) (given_up - given_ups->ring + 1);
    uint16_t *link = hg_given_up_bucket(given_ups, given_up);

    while (*link != place)
        link = &given_ups->ring[*link - 1].next;
    *link = given_up->next;
}
