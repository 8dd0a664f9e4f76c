/* SPDX-License-Identifier: BSD-3-Clause */
/* The requests for which an ABANDON came before the response. */
#ifndef HG_ABANDONED_H
#define HG_ABANDONED_H

#include "hg/class.h"

/* A request for which an ABANDON came before the response. */
struct hg_abandoned {
    na_addr_t *na_addr; /* NULL: the entry is unused */
    hg_id_t id;
    na_tag_t tag;
    uint32_t cookie;
    uint8_t origin;
    uint8_t path;
    uint16_t next; /* index + 1 of the next entry of the hash chain; 0: none */
};

/* Entries of the table; one more replaces the oldest. */
#define HG_ABANDONED_MAX     4096u
#define HG_ABANDONED_BUCKETS (HG_ABANDONED_MAX / 2)

struct hg_abandoned_table {
    uint64_t seed;
    uint32_t next;                          /* number of adds; index in the ring, modulo its size */
    uint16_t buckets[HG_ABANDONED_BUCKETS]; /* index + 1 of the first entry; 0: none */
    struct hg_abandoned ring[HG_ABANDONED_MAX];
};

/* The caller locks the table in all functions. Returns NULL if out of memory. */
struct hg_abandoned_table *hg_abandoned_new(void);
void hg_abandoned_free(struct hg_abandoned_table *table, const hg_class_t *hg_class);

/*
 * Add an entry and take over its address. Returns an address that the caller has to free, or NULL,
 * and its path in *path_p: of the replaced entry, or of the new one if an equal entry exists.
 */
na_addr_t *hg_abandoned_add(struct hg_abandoned_table *table, const hg_class_t *hg_class,
                            const struct hg_abandoned *abandoned, uint8_t *path_p);

/* Remove the entry that equals `wanted`; returns its address, or NULL if there is none. */
na_addr_t *hg_abandoned_take(struct hg_abandoned_table *table, const hg_class_t *hg_class,
                             const struct hg_abandoned *wanted);

/* Returns true if both are of the same request. */
bool hg_abandoned_equals(const hg_class_t *hg_class, const struct hg_abandoned *one,
                         const struct hg_abandoned *other);

#endif /* HG_ABANDONED_H */
