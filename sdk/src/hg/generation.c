/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Generations number the uses of an origin's handles. The tag and the cookie of an RPC contain the
 * generation, so that a late response, acknowledgement or ABANDON is recognized.
 *
 * A new context may have the id, address and slots of a destroyed one. So its handles continue from
 * the largest generation of all destroyed contexts. The first context of a process starts at a
 * random number, because the process may have the address of one that has ended.
 *
 * A tag has few bits for the generation, so the tags of a handle repeat. A tag is stale, and is not
 * used, while the response to an earlier use with it may still come: that would match the receive
 * of a later use. The cookie would detect that, but the transport might by then have dropped the
 * right response, for which no receive was posted.
 */
#include "hg/generation.h"

#include "engine/random.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pthread_mutex_t hg_generation_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t hg_generation_next; /* for the next context; guarded by the lock */
static pid_t hg_generation_process; /* that chose it; a child of fork() chooses its own */

static bool hg_generation_is_stale(const struct hg_handle *handle, uint64_t generation);
static uint32_t hg_generation_index(const struct hg_handle *handle, uint64_t generation);

uint64_t hg_generation_begin(void)
{
    uint64_t generation;

    (void) pthread_mutex_lock(&hg_generation_lock);
    if (hg_generation_process != getpid()) {
        hg_generation_process = getpid();
        hg_generation_next = hg_random();
    }
    generation = hg_generation_next;
    (void) pthread_mutex_unlock(&hg_generation_lock);
    return generation;
}

void hg_generation_end(uint64_t generation)
{
    (void) pthread_mutex_lock(&hg_generation_lock);
    /* Generations may wrap around. */
    if ((int64_t) (generation - hg_generation_next) > 0)
        hg_generation_next = generation;
    (void) pthread_mutex_unlock(&hg_generation_lock);
}

uint64_t hg_generation_skip_stale(const struct hg_handle *handle, uint64_t generation)
{
    while (hg_generation_is_stale(handle, generation))
        generation++;
    return generation;
}

/* When half of the tags are stale all are used again: most of the responses are lost by then. */
void hg_generation_mark_stale(struct hg_handle *handle)
{
    uint32_t tags = hg_handle_tags(handle)->generation_mask + 1;
    uint32_t index = hg_generation_index(handle, handle->generation);
    struct hg_stale_tags *stale = handle->stale;

    if (stale == NULL)
        stale = handle->stale = calloc(1, sizeof(*stale));
    if (stale == NULL || hg_generation_is_stale(handle, handle->generation))
        return;
    if (2 * (stale->count + 1) > (tags < HG_STALE_MAX ? tags : HG_STALE_MAX))
        memset(stale, 0, sizeof(*stale));
    stale->bits[index / 64] |= UINT64_C(1) << index % 64;
    stale->count++;
}

static bool hg_generation_is_stale(const struct hg_handle *handle, uint64_t generation)
{
    uint32_t index = hg_generation_index(handle, generation);

    return (handle->stale->bits[index / 64] >> index % 64 & 1) != 0;
}

/* Returns the index in the bit map; it is equal for equal tags. */
static uint32_t hg_generation_index(const struct hg_handle *handle, uint64_t generation)
{
    return ((uint32_t) generation & hg_handle_tags(handle)->generation_mask) % HG_STALE_MAX;
}
