/* SPDX-License-Identifier: BSD-3-Clause */
/* Generations number the uses of an origin's handles. */
#ifndef HG_GENERATION_H
#define HG_GENERATION_H

#include "hg/handle.h"

/* The lock of the number that they start from, for a fork(). */
extern UTIL_HIDDEN pthread_mutex_t hg_generation_lock;

/* Where the handles of a new context start to count their uses. */
uint64_t hg_generation_begin(void);

/* The handles of a context, which is gone, have counted this far. */
void hg_generation_end(uint64_t generation);

/* Tags of an origin's handle that are left out, by their generation. */
#define HG_STALE_MAX 2048u

struct hg_stale_tags {
    uint32_t count;
    uint64_t bits[HG_STALE_MAX / 64];
};

/* The first generation from this one on that no late answer can be of. */
uint64_t hg_generation_fresh(const struct hg_handle *handle, uint64_t generation);

/* A handle's use ended without its answer, which may still come. */
void hg_generation_mark_stale(struct hg_handle *handle);

/* The generation of a handle's next use. */
static inline uint64_t hg_generation_after(const struct hg_handle *handle)
{
    const uint64_t next = handle->generation + 1;

    return util_likely(handle->stale == NULL) ? next : hg_generation_fresh(handle, next);
}

#endif /* HG_GENERATION_H */
