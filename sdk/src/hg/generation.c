/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Generations number the uses of an origin's handles. Tag and cookie of an RPC are made of one, so
 * a response, an acknowledgement or a given-up word that comes late is known by it.
 *
 * A context may follow one of the same id at the same address, with the same slots. Its handles
 * count on from where those of all contexts that are gone have come to. The first context of a
 * process starts anywhere, for the process may follow another one at its address.
 */
#include "hg/hg_private.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t hg_generation_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t hg_generation_next; /* under the lock */
static pid_t hg_generation_process; /* that drew it; a child of fork() draws its own */

static uint64_t hg_generation_draw(void);

uint64_t hg_generation_begin(void)
{
    uint64_t generation;

    (void) pthread_mutex_lock(&hg_generation_lock);
    if (hg_generation_process != getpid()) {
        hg_generation_process = getpid();
        hg_generation_next = hg_generation_draw();
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

static uint64_t hg_generation_draw(void)
{
    struct timespec now = {0, 0};
    uint64_t drawn;
    ssize_t size;

    do {
        size = getrandom(&drawn, sizeof(drawn), 0);
    } while (size < 0 && errno == EINTR);
    if (size == (ssize_t) sizeof(drawn))
        return drawn;
    (void) clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t) now.tv_sec * 1000000007u + (uint64_t) now.tv_nsec + (uint64_t) getpid();
}
