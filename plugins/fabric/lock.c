/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock of an endpoint when somebody else has it. Who waits spins for a moment and then sleeps.
 *
 * Giving the lock back is a store and then a look at the number of sleepers, without the fence
 * between them that would make sure that one of the two sides sees the other: it would cost each
 * poll as much as taking the lock. So a sleeper may miss that, if it went to sleep just when the
 * store was on its way; that is why no sleep is long.
 */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* syscall */
#endif

#include "state.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FABRIC_LOCK_SPINS 256u
#define FABRIC_LOCK_NAP   1000000 /* ns */

static bool fabric_lock_spin(struct fabric_endpoint_state *state);
static void fabric_lock_sleep(struct fabric_endpoint_state *state);

void fabric_lock(struct fabric_endpoint *endpoint)
{
    fabric_state_lock(endpoint->state);
}

void fabric_unlock(struct fabric_endpoint *endpoint)
{
    fabric_state_unlock(endpoint->state);
}

void fabric_lock_wait(struct fabric_endpoint_state *state)
{
    (void) atomic_fetch_add_explicit(&state->lock_waiters, 1, memory_order_relaxed);
    while (!fabric_lock_spin(state))
        fabric_lock_sleep(state);
    (void) atomic_fetch_sub_explicit(&state->lock_waiters, 1, memory_order_relaxed);
}

void fabric_lock_wake(struct fabric_endpoint_state *state)
{
    (void) syscall(SYS_futex, &state->is_locked, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool fabric_lock_spin(struct fabric_endpoint_state *state)
{
    for (uint32_t i = 0; i < FABRIC_LOCK_SPINS; i++) {
        if (fabric_lock_try(state))
            return true;
        fabric_cpu_relax();
    }
    return false;
}

/* Returns at once when the lock is free. */
static void fabric_lock_sleep(struct fabric_endpoint_state *state)
{
    const struct timespec nap = {.tv_nsec = FABRIC_LOCK_NAP};

    (void) atomic_fetch_add(&state->lock_sleepers, 1);
    (void) syscall(SYS_futex, &state->is_locked, FUTEX_WAIT_PRIVATE, 1, &nap, NULL, 0);
    (void) atomic_fetch_sub(&state->lock_sleepers, 1);
}
