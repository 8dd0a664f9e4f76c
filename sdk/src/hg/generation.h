/* SPDX-License-Identifier: BSD-3-Clause */
/* Generations number the uses of an origin's handles. */
#ifndef HG_GENERATION_H
#define HG_GENERATION_H

#include "hg/handle.h"

/* Guards where new contexts start to count; hg/fork.c takes it around a fork(). */
extern UTIL_HIDDEN pthread_mutex_t hg_generation_lock;

/* Returns the first generation for the handles of a new context. */
uint64_t hg_generation_begin(void);

/* A handle is deleted whose last generation was this. */
void hg_generation_end(uint64_t generation);

/* Size of the bit map of a handle's stale tags, by their generation. */
#define HG_STALE_MAX 2048u

struct hg_stale_tags {
    uint32_t count; /* bits that are set */
    uint64_t bits[HG_STALE_MAX / 64];
};

/* Returns the first generation, from this one on, whose tag is not stale. */
uint64_t hg_generation_skip_stale(const struct hg_handle *handle, uint64_t generation);

/* The handle's use ended without the response, which may still come: its tag is stale. */
void hg_generation_mark_stale(struct hg_handle *handle);

/* Returns the generation of the handle's next use. */
static inline uint64_t hg_generation_after(const struct hg_handle *handle)
{
    const uint64_t next = handle->generation + 1;

    return util_likely(handle->stale == NULL) ? next : hg_generation_skip_stale(handle, next);
}

#endif /* HG_GENERATION_H */
