/* SPDX-License-Identifier: BSD-3-Clause */
/* Forwards that their origins abandoned before the response. */
#ifndef HG_ABANDONED_H
#define HG_ABANDONED_H

#include "hg/class.h"

/* A forward that its origin abandoned, remembered for a response that comes later. */
struct hg_abandoned {
    na_addr_t *na_addr; /* NULL: unused */
    hg_id_t id;
    na_tag_t tag;
    uint32_t cookie;
    uint8_t origin;
    uint8_t path;
    uint16_t next; /* with the same hash, from 1; 0: none */
};

/* So many are remembered; then the oldest is forgotten for each that comes. */
#define HG_ABANDONED_MAX     4096u
#define HG_ABANDONED_BUCKETS (HG_ABANDONED_MAX / 2)

struct hg_abandoned_table {
    uint64_t seed;
    uint32_t next;                          /* how many came; place in the ring, modulo its size */
    uint16_t buckets[HG_ABANDONED_BUCKETS]; /* first one, from 1; 0: none */
    struct hg_abandoned ring[HG_ABANDONED_MAX];
};

/* They have a lock around them. NULL: there is no memory for them. */
struct hg_abandoned_table *hg_abandoned_new(void);
void hg_abandoned_free(struct hg_abandoned_table *table, const hg_class_t *hg_class);

/*
 * Remember one, with its address; returns the address that is not needed any more, of the oldest or
 * of one that is there already, and in *path_p its path. NULL: there is none.
 */
na_addr_t *hg_abandoned_add(struct hg_abandoned_table *table, const hg_class_t *hg_class,
                            const struct hg_abandoned *abandoned, uint8_t *path_p);

/* Forget the one that equals `wanted`; returns its address, or NULL if there is none. */
na_addr_t *hg_abandoned_take(struct hg_abandoned_table *table, const hg_class_t *hg_class,
                             const struct hg_abandoned *wanted);

/* Whether both are of one forward. */
bool hg_abandoned_equals(const hg_class_t *hg_class, const struct hg_abandoned *one,
                         const struct hg_abandoned *other);

#endif /* HG_ABANDONED_H */
