/* SPDX-License-Identifier: BSD-3-Clause */
/* The values of one quantity in the rounds of a measurement. The median is reported: a moment of
 * other load on the machine spoils a round, not the result. */

#ifndef AMALGAM_PERF_SERIES_H
#define AMALGAM_PERF_SERIES_H

#include "hg_perf/perf_options.h"

struct perf_series {
    unsigned int count;
    double values[PERF_ROUNDS_MAX]; /* NAN if the machine refuses the measurement */
};

/* Adds the value of the next round; values beyond PERF_ROUNDS_MAX are dropped. */
void perf_series_add(struct perf_series *series, double value);

/* Median, minimum and maximum; NAN without values, or if one of them is NAN. */
double perf_series_median(const struct perf_series *series);
double perf_series_min(const struct perf_series *series);
double perf_series_max(const struct perf_series *series);

/* The quotients of two series, round by round. */
struct perf_series perf_series_divide(const struct perf_series *series,
                                      const struct perf_series *by);

#endif /* AMALGAM_PERF_SERIES_H */
