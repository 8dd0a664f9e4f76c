/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting. MPI gives nothing to sleep on, so it is polled: all the time while something happens,
 * and the longer nothing does the more seldom.
 */

#include "mpi_class.h"

#include <time.h>

#define WAIT_SPINS    32u
#define WAIT_AWAKE_NS UINT64_C(100000)  /* so long after the last message without a nap */
#define WAIT_SHARE    8u                /* a nap is that part of the time that nothing happened */
#define WAIT_NAP_NS   UINT64_C(1000000) /* but not longer */

/* Of all classes of the process. */
static _Atomic bool is_awake;     /* something happened since somebody waited */
static _Atomic uint64_t awake_ns; /* when that was seen */

void mpi_stay_awake(void)
{
    if (!atomic_load_explicit(&is_awake, memory_order_relaxed))
        atomic_store_explicit(&is_awake, true, memory_order_relaxed);
}

/* The core calls it again until something is complete or its time is over. */
int32_t mpi_poll_wait(struct na_plugin_context *context, uint32_t timeout_ms, uint32_t *count)
{
    uint64_t now = mpi_host->clock_ns();
    struct timespec nap = {0, 0};
    uint64_t quiet;
    int32_t ret = NA_PLUGIN_SUCCESS;

    if (atomic_exchange_explicit(&is_awake, false, memory_order_relaxed))
        atomic_store_explicit(&awake_ns, now, memory_order_relaxed);
    quiet = now - atomic_load_explicit(&awake_ns, memory_order_relaxed);
    if (quiet < WAIT_AWAKE_NS || timeout_ms == 0) {
        for (uint32_t i = 0; i < WAIT_SPINS && *count == 0 && ret == NA_PLUGIN_SUCCESS; i++)
            ret = fabric_poll(context, count);
        return ret;
    }
    quiet /= WAIT_SHARE;
    nap.tv_nsec = (long) (quiet < WAIT_NAP_NS ? quiet : WAIT_NAP_NS);
    (void) nanosleep(&nap, NULL);
    return fabric_poll(context, count);
}
