/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits of this machine between two processes, without the SDK: the yardstick for the other
 * measurements. They are measured in rounds that alternate with rounds of the compared
 * measurement, because the machine's speed varies by a third from second to second. */

#ifndef AMALGAM_PERF_LIMITS_H
#define AMALGAM_PERF_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hg_perf/perf_options.h"
#include "hg_perf/perf_series.h"

/* Copies are measured at the requested size; `hg_perf limits` adds 1, 2, 4, 8 and 16 MiB. */
#define PERF_LIMITS_SIZES 6

/* Bandwidths of copying one warmed buffer of size bytes into another, in 10^6 bytes/s; NAN if the
 * kernel refuses the call. */
struct perf_limits_copy {
    uint64_t size;
    struct perf_series memcpy_MBps;
    struct perf_series process_vm_readv_MBps;
    struct perf_series process_vm_writev_MBps;
};

struct perf_limits {
    struct perf_series cacheline_rtt_us; /* one line written by each side */
    struct perf_series
        cacheline_bounce_us; /* one line written by both in turns: faster than any message */
    struct perf_series eventfd_rtt_us;                 /* two processes that wake each other */
    double cacheline_rtt_min_us;                       /* the fastest batch */
    struct perf_limits_copy copies[PERF_LIMITS_SIZES]; /* the first one has the requested size */
    size_t copy_count;
};

struct perf_limits_bench;

/* Starts the second process, which sleeps between rounds, and allocates the buffers. NULL after
 * an error on stderr. */
struct perf_limits_bench *perf_limits_open(const struct perf_options *options);

/* Measures everything once, in about this many seconds in total, and adds the values to the
 * series of limits. False after an error on stderr, or a signal. */
bool perf_limits_round(struct perf_limits_bench *bench, double seconds, struct perf_limits *limits);

/* Ends the second process; NULL is allowed. */
void perf_limits_close(struct perf_limits_bench *bench);

#endif /* AMALGAM_PERF_LIMITS_H */
