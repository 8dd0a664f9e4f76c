/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether there are descriptors for one more peer. UCX opens sockets for each peer, some time after
 * its link was made, and aborts the process if it gets none. So the descriptors are reserved
 * beforehand, also those of peers that are being dialed.
 */

#include "ucx.h"

#include <dirent.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define DESCRIPTORS_RESERVE          128u /* left to the program, or a quarter if less */
#define DESCRIPTORS_FRESH_NS         UINT64_C(10000000000) /* UCX has opened its sockets then */
#define DESCRIPTORS_COUNT_NS         UINT64_C(1000000000)  /* the program may open some meanwhile */
#define DESCRIPTORS_COUNT_SHARE      10u /* counting takes a tenth of the time at most */
#define DESCRIPTORS_TWICE            2u  /* each side connects, and one of the two is closed */
#define DESCRIPTORS_RAILS            2u  /* tcp lanes that UCX uses for one peer */

#define DESCRIPTORS_UNIDENTIFIED     4u /* a quarter is for unidentified callers */
#define DESCRIPTORS_UNIDENTIFIED_MAX 1024u

static uint64_t descriptors_limit(void);
static uint32_t descriptors_of_peer(const struct na_plugin_class *na_class);
static void descriptors_count(struct na_plugin_class *na_class, uint64_t now);
static uint32_t descriptors_open(void);
static uint64_t thread_cpu_ns(void);

/*
 * Reserves what UCX will open for one more peer. False if too few are left. The descriptors are
 * counted anew, because UCX may have accepted any number of connections meanwhile. Counting many
 * takes a while; until count_not_before the last count and the reservations since then decide.
 */
bool ucx_descriptors_take_peer(struct na_plugin_class *na_class)
{
    if (kit_host->clock_ns() >= na_class->count_not_before)
        na_class->descriptors_at = 0;
    if (!ucx_spares_open(na_class))
        return false;
    return ucx_descriptors_take(na_class, descriptors_of_peer(na_class));
}

/* Reserves `wanted` descriptors, open or to be opened. False if too few are left. */
bool ucx_descriptors_take(struct na_plugin_class *na_class, uint32_t wanted)
{
    const uint64_t limit = descriptors_limit(), now = kit_host->clock_ns();
    uint64_t age = now - na_class->descriptors_at;

    if (limit == UINT64_MAX)
        return true;
    if (na_class->descriptors_at == 0 || age > DESCRIPTORS_COUNT_NS ||
        (na_class->descriptors + wanted > limit && now >= na_class->count_not_before))
        descriptors_count(na_class, now);
    if (na_class->descriptors + wanted > limit)
        return false;
    na_class->descriptors += wanted;
    return true;
}

/* True if all are open. */
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

/* How many unidentified callers are accepted at a time. */
uint32_t ucx_descriptors_for_unidentified(void)
{
    const uint64_t share = descriptors_limit() / DESCRIPTORS_UNIDENTIFIED;

    return share < DESCRIPTORS_UNIDENTIFIED_MAX ? (uint32_t) share : DESCRIPTORS_UNIDENTIFIED_MAX;
}

/* How many descriptors may be in use or reserved. */
static uint64_t descriptors_limit(void)
{
    struct rlimit limit;
    uint64_t reserve;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    reserve = limit.rlim_cur / 4;
    return limit.rlim_cur - (reserve < DESCRIPTORS_RESERVE ? reserve : DESCRIPTORS_RESERVE);
}

/* How many descriptors UCX opens for a peer. */
static uint32_t descriptors_of_peer(const struct na_plugin_class *na_class)
{
    const struct ucx_worker *worker = na_class->worker;
    uint32_t rails = worker->is_readable ? worker->tcp_count : DESCRIPTORS_RAILS;

    if (rails > DESCRIPTORS_RAILS)
        rails = DESCRIPTORS_RAILS;
    return DESCRIPTORS_TWICE * (rails != 0 ? rails : 1);
}

/*
 * Counts the open descriptors and adds what UCX will still open for new peers. If this side is
 * wired up, only the connections from the peer are missing. UCX opens none for a failed peer.
 */
static void descriptors_count(struct na_plugin_class *na_class, uint64_t now)
{
    const uint32_t per_peer = descriptors_of_peer(na_class);
    const struct kit_link *node;
    uint64_t expected = (uint64_t) na_class->dialing * per_peer, start = thread_cpu_ns();

    /* The list is in the order of made_at. */
    for (node = na_class->links.prev; node != &na_class->links; node = node->prev) {
        const struct ucx_link *link = kit_container(node, struct ucx_link, node);

        if (now - link->made_at > DESCRIPTORS_FRESH_NS)
            break;
        if (link->phase == UCX_LINK_READY || link->phase == UCX_LINK_DYING)
            expected += link->is_wired_up ? per_peer / DESCRIPTORS_TWICE : per_peer;
    }
    na_class->descriptors = descriptors_open() + expected;
    na_class->descriptors_at = now;
    na_class->count_not_before = now + DESCRIPTORS_COUNT_SHARE * (thread_cpu_ns() - start);
}

/* Without /proc it returns a number that is above any limit. */
static uint32_t descriptors_open(void)
{
    DIR *directory = opendir("/proc/self/fd");
    uint32_t count = 0;

    if (directory == NULL)
        return UINT32_MAX / 2;
    while (readdir(directory) != NULL)
        count++;
    (void) closedir(directory);
    return count - 3; /* the directory's own descriptor, "." and ".." */
}

/* CPU time of this thread: time in which other threads had the processor does not count. */
static uint64_t thread_cpu_ns(void)
{
    struct timespec used = {0};

    (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t) used.tv_sec * UINT64_C(1000000000) + (uint64_t) used.tv_nsec;
}
