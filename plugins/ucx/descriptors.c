/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether there are descriptors for one more peer. UCX opens sockets of its own for each, some time
 * after we took it in, and ends the process when it gets none: so what it will want is set aside
 * beforehand, for those that are on their way, too.
 */

#include "ucx.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define DESCRIPTORS_RESERVE       128u                  /* for others' use, or a quarter if less */
#define DESCRIPTORS_FRESH_NS      UINT64_C(10000000000) /* by then UCX has opened what it wants */
#define DESCRIPTORS_COUNT_NS      UINT64_C(1000000000)  /* the program opens some, too */
#define DESCRIPTORS_COUNT_SHARE   10u                   /* a tenth of the time is for counting */
#define DESCRIPTORS_TWICE         2u /* each side connects, and one of the two is closed */
#define DESCRIPTORS_RAILS         2u /* TCP devices that UCX uses for one peer */

#define DESCRIPTORS_STRANGERS     4u /* a quarter is for callers that have said nothing yet */
#define DESCRIPTORS_STRANGERS_MAX 1024u

static uint64_t descriptors_limit(void);
static uint32_t descriptors_of_peer(const struct na_plugin_class *na_class);
static void descriptors_count(struct na_plugin_class *na_class, uint64_t now);
static uint32_t descriptors_open(void);
static uint64_t processor_ns(void);

/*
 * Sets aside what UCX will open for one more peer. False: there are not so many. They are counted
 * anew, for UCX may have accepted any number of unidentified connections since the last time; when
 * they are many, counting takes a while, and what is set aside for others has to do in between.
 */
bool ucx_descriptors_take_peer(struct na_plugin_class *na_class)
{
    if (kit_host->clock_ns() >= na_class->count_next)
        na_class->descriptors_at = 0;
    if (!ucx_spares_open(na_class))
        return false;
    return ucx_descriptors_take(na_class, descriptors_of_peer(na_class));
}

/* Counts `wanted` more, whether they are open already or will be. False: there are not so many. */
bool ucx_descriptors_take(struct na_plugin_class *na_class, uint32_t wanted)
{
    const uint64_t limit = descriptors_limit(), now = kit_host->clock_ns();
    uint64_t age = now - na_class->descriptors_at;

    if (limit == UINT64_MAX)
        return true;
    if (na_class->descriptors_at == 0 || age > DESCRIPTORS_COUNT_NS ||
        (na_class->descriptors + wanted > limit && now >= na_class->count_next))
        descriptors_count(na_class, now);
    if (na_class->descriptors + wanted > limit)
        return false;
    na_class->descriptors += wanted;
    return true;
}

/* False: not all of them are open. */
bool ucx_spares_open(struct na_plugin_class *na_class)
{
    bool are_open = true;

    for (uint32_t i = 0; i < UCX_SPARES; i++) {
        if (na_class->spares[i] < 0)
            na_class->spares[i] = eventfd(0, EFD_CLOEXEC);
        are_open = are_open && na_class->spares[i] >= 0;
    }
    return are_open;
}

void ucx_spares_close(struct na_plugin_class *na_class)
{
    for (uint32_t i = 0; i < UCX_SPARES; i++) {
        if (na_class->spares[i] >= 0)
            (void) close(na_class->spares[i]);
        na_class->spares[i] = -1;
    }
}

/* How many callers that have said nothing yet may hold one. */
uint32_t ucx_descriptors_of_strangers(void)
{
    const uint64_t share = descriptors_limit() / DESCRIPTORS_STRANGERS;

    return share < DESCRIPTORS_STRANGERS_MAX ? (uint32_t) share : DESCRIPTORS_STRANGERS_MAX;
}

/* How many there may be in use. */
static uint64_t descriptors_limit(void)
{
    struct rlimit limit;
    uint64_t reserve;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    reserve = limit.rlim_cur / 4;
    return limit.rlim_cur - (reserve < DESCRIPTORS_RESERVE ? reserve : DESCRIPTORS_RESERVE);
}

/* That UCX opens for one. */
static uint32_t descriptors_of_peer(const struct na_plugin_class *na_class)
{
    const struct ucx_worker *worker = na_class->worker;
    uint32_t rails = worker->is_readable ? worker->tcp_count : DESCRIPTORS_RAILS;

    if (rails > DESCRIPTORS_RAILS)
        rails = DESCRIPTORS_RAILS;
    return DESCRIPTORS_TWICE * (rails != 0 ? rails : 1);
}

/*
 * What is open, and what is still to be for those that came in a moment ago: once UCX is connected
 * to the peer's worker only the connection that comes from there is missing. For a peer that has
 * failed UCX opens nothing any more.
 */
static void descriptors_count(struct na_plugin_class *na_class, uint64_t now)
{
    const uint32_t whole = descriptors_of_peer(na_class);
    const struct kit_link *node;
    uint64_t expected = (uint64_t) na_class->dialing * whole, start = processor_ns();

    /* Those that were met last are behind. */
    for (node = na_class->links.prev; node != &na_class->links; node = node->prev) {
        const struct ucx_link *link = kit_container(node, struct ucx_link, node);

        if (now - link->made_at > DESCRIPTORS_FRESH_NS)
            break;
        if (link->phase == UCX_LINK_READY || link->phase == UCX_LINK_DYING)
            expected += link->is_joined ? whole / DESCRIPTORS_TWICE : whole;
    }
    na_class->descriptors = descriptors_open() + expected;
    na_class->descriptors_at = now;
    na_class->count_next = now + DESCRIPTORS_COUNT_SHARE * (processor_ns() - start);
}

/* When the system does not say how many they are it is as if there were none left. */
static uint32_t descriptors_open(void)
{
    DIR *directory = opendir("/proc/self/fd");
    uint32_t count = 0;

    if (directory == NULL)
        return UINT32_MAX / 2;
    while (readdir(directory) != NULL)
        count++;
    (void) closedir(directory);
    return count - 3; /* it itself, and the two that are no files */
}

/* What this thread has used: time that others had the processor for does not count. */
static uint64_t processor_ns(void)
{
    struct timespec used = {0};

    (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t) used.tv_sec * UINT64_C(1000000000) + (uint64_t) used.tv_nsec;
}
