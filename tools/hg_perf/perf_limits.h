/* SPDX-License-Identifier: BSD-3-Clause */
/* What this machine can do between two processes, without any of the SDK: the yardstick that the
 * other measurements are held against. It is measured in rounds, so that they can take turns with
 * rounds of what is compared: what the machine gives varies by a third from second to second. */

#ifndef AMALGAM_PERF_LIMITS_H
#define AMALGAM_PERF_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hg_perf/perf_options.h"
#include "hg_perf/perf_series.h"

/* Copies are measured at the size that was asked for, and `limits` adds 1, 2, 4, 8 and 16 MiB. */
#define PERF_LIMITS_SIZES 6

/* Bandwidths of copying one warmed buffer of size bytes into another, in 10^6 bytes/s; NAN where
 * the machine refuses the call. */
struct perf_limits_copy {
    uint64_t size;
    struct perf_series memcpy_MBps;
    struct perf_series process_vm_readv_MBps;
    struct perf_series process_vm_writev_MBps;
};

struct perf_limits {
    struct perf_series cacheline_rtt_us;    /* a line written there, another written back */
    struct perf_series cacheline_bounce_us; /* one line that both write in turns, which no message
                                               can be */
    struct perf_series eventfd_rtt_us;      /* two processes that wake each other */
    double cacheline_rtt_min_us;            /* the quickest batch of turns */
    struct perf_limits_copy copies[PERF_LIMITS_SIZES]; /* the first at the size asked for */
    size_t copy_count;
};

struct perf_limits_bench;

/* Starts the second process, which sleeps between rounds, and makes the buffers. NULL: said on
 * stderr. */
struct perf_limits_bench *perf_limits_open(const struct perf_options *options);

/* Measures everything once, in about this many seconds in all, and adds it to the series of limits.
 * False: said on stderr, or a signal came. */
bool perf_limits_round(struct perf_limits_bench *bench, double seconds, struct perf_limits *limits);

/* Ends the second process; NULL is allowed. */
void perf_limits_close(struct perf_limits_bench *bench);

#endif /* AMALGAM_PERF_LIMITS_H */
