/* SPDX-License-Identifier: BSD-3-Clause */
/* The second process of the limits: takes turns with the first during a task, and sleeps
 * otherwise. */

#ifndef AMALGAM_PERF_LIMITS_PEER_H
#define AMALGAM_PERF_LIMITS_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "hg_perf/perf_options.h"

enum perf_limits_task {
    PERF_LIMITS_CACHELINE,
    PERF_LIMITS_BOUNCE,
    PERF_LIMITS_EVENTFD
};

struct limits_shared;

struct perf_limits_peer {
    pid_t pid; /* 0: not running */
    struct limits_shared *shared;
};

/* Starts the process, with a buffer of each size. False after an error on stderr. */
bool perf_limits_peer_start(struct perf_limits_peer *peer, const struct perf_options *options,
                            const uint64_t sizes[], size_t size_count);

/* Ends the process; allowed if it was never started. */
void perf_limits_peer_stop(struct perf_limits_peer *peer);

/* Starts a task of the process, and ends it. False after an error on stderr, or a signal. */
bool perf_limits_peer_begin(struct perf_limits_peer *peer, enum perf_limits_task task);
bool perf_limits_peer_end(struct perf_limits_peer *peer);

/* Takes `count` turns. */
void perf_limits_peer_turns(struct perf_limits_peer *peer, enum perf_limits_task task,
                            unsigned int count);

/* Returns the address of a buffer in the process, and its pid. */
void *perf_limits_peer_buffer(const struct perf_limits_peer *peer, size_t index);
pid_t perf_limits_peer_pid(const struct perf_limits_peer *peer);

#endif /* AMALGAM_PERF_LIMITS_PEER_H */
