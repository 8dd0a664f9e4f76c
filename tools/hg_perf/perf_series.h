/* SPDX-License-Identifier: BSD-3-Clause */
/* The values that one quantity had in the rounds of a measurement. What is reported is the median:
 * a machine that does something else for a moment spoils a round, not the result. */

#ifndef AMALGAM_PERF_SERIES_H
#define AMALGAM_PERF_SERIES_H

#include "hg_perf/perf_options.h"

struct perf_series {
    unsigned int count;
    double values[PERF_ROUNDS_MAX]; /* NAN where the machine refuses what is measured */
};

/* Adds the value of the next round; more than PERF_ROUNDS_MAX are dropped. */
void perf_series_add(struct perf_series *series, double value);

/* The median, the least and the most; NAN without values, or when one of them is NAN. */
double perf_series_median(const struct perf_series *series);
double perf_series_min(const struct perf_series *series);
double perf_series_max(const struct perf_series *series);

/* The quotients of two series, round by round. */
struct perf_series perf_series_divide(const struct perf_series *series,
                                      const struct perf_series *by);

#endif /* AMALGAM_PERF_SERIES_H */
