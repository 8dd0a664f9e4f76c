/* SPDX-License-Identifier: BSD-3-Clause */
/* The values that one quantity had in the rounds of a measurement. */

#include "hg_perf/perf_series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static unsigned int series_sort(const struct perf_series *series, double sorted[PERF_ROUNDS_MAX]);
static int compare_doubles(const void *a, const void *b);

void perf_series_add(struct perf_series *series, double value)
{
    if (series->count < PERF_ROUNDS_MAX)
        series->values[series->count++] = value;
}

double perf_series_median(const struct perf_series *series)
{
    double sorted[PERF_ROUNDS_MAX];
    unsigned int count = series_sort(series, sorted);

    if (count == 0)
        return NAN;
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

double perf_series_min(const struct perf_series *series)
{
    double sorted[PERF_ROUNDS_MAX];

    return series_sort(series, sorted) > 0 ? sorted[0] : NAN;
}

double perf_series_max(const struct perf_series *series)
{
    double sorted[PERF_ROUNDS_MAX];
    unsigned int count = series_sort(series, sorted);

    return count > 0 ? sorted[count - 1] : NAN;
}

struct perf_series perf_series_divide(const struct perf_series *series,
                                      const struct perf_series *by)
{
    struct perf_series quotients = {.count = 0};

    for (unsigned int i = 0; i < series->count && i < by->count; i++)
        perf_series_add(&quotients, series->values[i] / by->values[i]);
    return quotients;
}

/* Returns the number of values, 0 if one is NAN, which cannot be ordered. */
static unsigned int series_sort(const struct perf_series *series, double sorted[PERF_ROUNDS_MAX])
{
    for (unsigned int i = 0; i < series->count; i++) {
        if (isnan(series->values[i]))
            return 0;
    }
    memcpy(sorted, series->values, series->count * sizeof(sorted[0]));
    qsort(sorted, series->count, sizeof(sorted[0]), compare_doubles);
    return series->count;
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *) a, right = *(const double *) b;

    return (left > right) - (left < right);
}
