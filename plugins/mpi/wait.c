/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting. MPI has no descriptor to sleep on, so it is polled: without pause while messages move,
 * and with longer pauses the longer none does.
 */

#include "mpi_class.h"

#include <time.h>

#define WAIT_SPINS    (32u / MPI_TESTS_ALONE)
#define WAIT_AWAKE_NS UINT64_C(100000)  /* no pause for this time after a message */
#define WAIT_SHARE    8u                /* a pause is this part of the idle time */
#define WAIT_NAP_NS   UINT64_C(1000000) /* the longest pause */

static int32_t wait_round(struct na_plugin_context *context, uint64_t now, uint64_t end,
                          uint32_t *count);
static bool wait_has_seen(uint64_t now);

/* For all classes of the process. A waiting thread returns once for activity that is new to it. */
_Atomic uint32_t mpi_activity; /* changes when a message moves */
static _Atomic uint32_t wakes;
static _Atomic uint64_t awake_ns; /* when a thread last saw new activity */
static _Thread_local uint32_t activity_seen, wakes_seen;

int32_t mpi_poll_wait(struct na_plugin_context *context, uint32_t timeout_ms, uint32_t *count)
{
    uint64_t now = kit_host->clock_ns();
    uint64_t end = now + (uint64_t) timeout_ms * UINT64_C(1000000);
    uint32_t before = *count;

    for (;;) {
        int32_t ret = wait_round(context, now, end, count);

        now = kit_host->clock_ns();
        if (wait_has_seen(now) || *count != before || ret != NA_PLUGIN_SUCCESS)
            return ret;
        if (now >= end)
            return NA_PLUGIN_TIMEOUT;
    }
}

void mpi_wake(struct na_plugin_context *context)
{
    (void) context;
    (void) atomic_fetch_add(&wakes, 1);
}

/* True if there was new activity: another thread may have completed what this one waits for. */
static bool wait_has_seen(uint64_t now)
{
    uint32_t newest = atomic_load_explicit(&mpi_activity, memory_order_relaxed);
    uint32_t woken = atomic_load(&wakes);
    bool is_new = newest != activity_seen || woken != wakes_seen;

    if (newest != activity_seen)
        atomic_store_explicit(&awake_ns, now, memory_order_relaxed);
    activity_seen = newest;
    wakes_seen = woken;
    return is_new;
}

/* Polls for a while, or sleeps and polls once. */
static int32_t wait_round(struct na_plugin_context *context, uint64_t now, uint64_t end,
                          uint32_t *count)
{
    struct timespec nap = {0, 0};
    uint32_t before = *count;
    int32_t ret = NA_PLUGIN_SUCCESS;
    uint64_t quiet;

    quiet = now - atomic_load_explicit(&awake_ns, memory_order_relaxed);
    if (quiet < WAIT_AWAKE_NS) {
        for (uint32_t i = 0; i < WAIT_SPINS && *count == before && ret == NA_PLUGIN_SUCCESS; i++)
            ret = kit_msg_poll(context, count);
        return ret;
    }
    quiet /= WAIT_SHARE;
    if (quiet > WAIT_NAP_NS)
        quiet = WAIT_NAP_NS;
    if (quiet > end - now)
        quiet = end - now;
    nap.tv_nsec = (long) quiet;
    (void) nanosleep(&nap, NULL);
    return kit_msg_poll(context, count);
}
