/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Generations number the uses of an origin's handles. Tag and cookie of an RPC are made of one, so
 * a response, an acknowledgement or an ABANDON message that comes late is known by it.
 *
 * A context may follow one of the same id at the same address, with the same slots. Its handles
 * count on from where those of all contexts that are gone have come to. The first context of a
 * process starts anywhere, for the process may follow another one at its address.
 *
 * A tag has few bits for the generation, so a handle comes to one again. As long as the answer to
 * an earlier use may still come its tag is left out: together with the right one it would take the
 * only receive, and the right one, which the cookie would tell from it, be dropped by the
 * transport.
 */
#include "hg/generation.h"

#include "engine/random.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pthread_mutex_t hg_generation_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t hg_generation_next; /* under the lock */
static pid_t hg_generation_process; /* that drew it; a child of fork() draws its own */

static bool hg_generation_is_stale(const struct hg_handle *handle, uint64_t generation);
static uint32_t hg_generation_place(const struct hg_handle *handle, uint64_t generation);

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
    /* They may wrap around. */
    if ((int64_t) (generation - hg_generation_next) > 0)
        hg_generation_next = generation;
    (void) pthread_mutex_unlock(&hg_generation_lock);
}

uint64_t hg_generation_fresh(const struct hg_handle *handle, uint64_t generation)
{
    while (hg_generation_is_stale(handle, generation))
        generation++;
    return generation;
}

/* When half of the tags are left out it starts anew: the oldest are a thousand failures away. */
void hg_generation_mark_stale(struct hg_handle *handle)
{
    uint32_t tags = hg_handle_tags(handle)->generation_mask + 1;
    uint32_t place = hg_generation_place(handle, handle->generation);
    struct hg_stale_tags *stale = handle->stale;

    if (stale == NULL)
        stale = handle->stale = calloc(1, sizeof(*stale));
    if (stale == NULL || hg_generation_is_stale(handle, handle->generation))
        return;
    if (2 * (stale->count + 1) > (tags < HG_STALE_MAX ? tags : HG_STALE_MAX))
        memset(stale, 0, sizeof(*stale));
    stale->bits[place / 64] |= UINT64_C(1) << place % 64;
    stale->count++;
}

static bool hg_generation_is_stale(const struct hg_handle *handle, uint64_t generation)
{
    uint32_t place = hg_generation_place(handle, generation);

    return (handle->stale->bits[place / 64] >> place % 64 & 1) != 0;
}

/* Equal for equal tags. */
static uint32_t hg_generation_place(const struct hg_handle *handle, uint64_t generation)
{
    return ((uint32_t) generation & hg_handle_tags(handle)->generation_mask) % HG_STALE_MAX;
}
