/* SPDX-License-Identifier: BSD-3-Clause */
/* What this machine can do between two processes, without any of the SDK: the yardstick that the
 * other measurements are held against. */

#ifndef AMALGAM_PERF_LIMITS_H
#define AMALGAM_PERF_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hg_perf/perf_options.h"

/* Sizes at which the copies are measured besides the one asked for: 1, 2, 4, 8 and 16 MiB. */
#define PERF_LIMITS_SIZES 5

/* Bandwidths of copying one warmed buffer of size bytes into another, in 10^6 bytes/s; NAN where
 * the machine refuses the call. */
struct perf_limits_copy {
    uint64_t size;
    double memcpy_MBps;
    double process_vm_readv_MBps;
    double process_vm_writev_MBps;
};

struct perf_limits {
    double cacheline_rtt_us;     /* a line written there, another written back, as messages are */
    double cacheline_rtt_min_us; /* the quickest thousand turns */
    double cacheline_bounce_us;  /* one line that both write in turns, which no message can be */
    double eventfd_rtt_us;       /* two processes that wake each other with an eventfd each */
    struct perf_limits_copy at_size;
    struct perf_limits_copy by_size[PERF_LIMITS_SIZES];
    size_t by_size_count;
};

/* Measures everything; false when processes or memory could not be had (said on stderr). */
bool perf_limits_measure(const struct perf_options *options, struct perf_limits *limits);

/* Measures the copies alone, for one size. */
bool perf_limits_measure_copy(const struct perf_options *options, uint64_t size, double seconds,
                              struct perf_limits_copy *copy);

#endif /* AMALGAM_PERF_LIMITS_H */
