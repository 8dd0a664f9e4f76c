/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The latest requests for which an ABANDON came before the response: a ring in the order of
 * arrival, and a hash table over it. The hash is seeded, so that no peer can cause collisions.
 */
#include "hg/abandoned.h"

#include "engine/checksum.h"
#include "engine/random.h"

#include <stdlib.h>

_Static_assert(HG_ABANDONED_MAX < UINT16_MAX, "links are 16 bits wide");
_Static_assert((HG_ABANDONED_BUCKETS & (HG_ABANDONED_BUCKETS - 1)) == 0, "a power of two");

static uint16_t *hg_abandoned_bucket(struct hg_abandoned_table *table,
                                     const struct hg_abandoned *abandoned);
static uint16_t *hg_abandoned_find(struct hg_abandoned_table *table, const hg_class_t *hg_class,
                                   const struct hg_abandoned *wanted);
static void hg_abandoned_unlink(struct hg_abandoned_table *table,
                                const struct hg_abandoned *abandoned);

struct hg_abandoned_table *hg_abandoned_new(void)
{
    struct hg_abandoned_table *table = calloc(1, sizeof(*table));

    if (table != NULL)
        table->seed = hg_random();
    return table;
}

void hg_abandoned_free(struct hg_abandoned_table *table, const hg_class_t *hg_class)
{
    uint32_t i;

    if (table == NULL)
        return;
    for (i = 0; i < HG_ABANDONED_MAX; i++)
        if (table->ring[i].na_addr != NULL)
            NA_Addr_free(hg_class->paths[table->ring[i].path].na_class, table->ring[i].na_addr);
    free(table);
}

na_addr_t *hg_abandoned_add(struct hg_abandoned_table *table, const hg_class_t *hg_class,
                            const struct hg_abandoned *abandoned, uint8_t *path_p)
{
    const uint32_t index = table->next % HG_ABANDONED_MAX;
    struct hg_abandoned *slot = &table->ring[index];
    na_addr_t *old_addr = slot->na_addr;
    uint16_t *bucket;

    *path_p = abandoned->path;
    if (*hg_abandoned_find(table, hg_class, abandoned) != 0)
        return abandoned->na_addr;
    if (old_addr != NULL) {
        *path_p = slot->path;
        hg_abandoned_unlink(table, slot);
    }
    table->next++;
    bucket = hg_abandoned_bucket(table, abandoned);
    *slot = *abandoned;
    slot->next = *bucket;
    *bucket = (uint16_t) (index + 1);
    return old_addr;
}

na_addr_t *hg_abandoned_take(struct hg_abandoned_table *table, const hg_class_t *hg_class,
                             const struct hg_abandoned *wanted)
{
    uint16_t *link = hg_abandoned_find(table, hg_class, wanted);
    struct hg_abandoned *found;
    na_addr_t *na_addr;

    if (*link == 0)
        return NULL;
    found = &table->ring[*link - 1];
    *link = found->next;
    na_addr = found->na_addr;
    found->na_addr = NULL;
    return na_addr;
}

bool hg_abandoned_equals(const hg_class_t *hg_class, const struct hg_abandoned *one,
                         const struct hg_abandoned *other)
{
    return one->id == other->id && one->tag == other->tag && one->cookie == other->cookie &&
           one->origin == other->origin && one->path == other->path &&
           NA_Addr_cmp(hg_class->paths[one->path].na_class, one->na_addr, other->na_addr);
}

/* The hash covers all members but the address, which is opaque. */
static uint16_t *hg_abandoned_bucket(struct hg_abandoned_table *table,
                                     const struct hg_abandoned *abandoned)
{
    const uint64_t words[] = {abandoned->id, abandoned->tag,
                              (uint64_t) abandoned->cookie << 16 |
                                  (uint64_t) abandoned->origin << 8 | abandoned->path};

    return &table->buckets[hg_checksum(words, sizeof(words), table->seed) % HG_ABANDONED_BUCKETS];
}

/* Returns the link to the entry, or the end of its hash chain. */
static uint16_t *hg_abandoned_find(struct hg_abandoned_table *table, const hg_class_t *hg_class,
                                   const struct hg_abandoned *wanted)
{
    uint16_t *link = hg_abandoned_bucket(table, wanted);

    while (*link != 0 && !hg_abandoned_equals(hg_class, &table->ring[*link - 1], wanted))
        link = &table->ring[*link - 1].next;
    return link;
}

static void hg_abandoned_unlink(struct hg_abandoned_table *table,
                                const struct hg_abandoned *abandoned)
{
    const uint16_t link_value = (uint16_t) (abandoned - table->ring + 1);
    uint16_t *link = hg_abandoned_bucket(table, abandoned);

    while (*link != link_value)
        link = &table->ring[*link - 1].next;
    *link = abandoned->next;
}
