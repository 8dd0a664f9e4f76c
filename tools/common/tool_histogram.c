/* SPDX-License-Identifier: BSD-3-Clause */
/* Histogram of durations: functions that are not on the measured path. */

#include "common/tool_histogram.h"

#include <string.h>

static double bucket_middle(uint32_t bucket);

void tool_histogram_reset(struct tool_histogram *histogram)
{
    memset(histogram, 0, sizeof(*histogram));
}

void tool_histogram_merge(struct tool_histogram *into, const struct tool_histogram *from)
{
    into->count += from->count;
    into->sum += from->sum;
    if (from->max > into->max)
        into->max = from->max;
    for (uint32_t i = 0; i < TOOL_HISTOGRAM_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

double tool_histogram_quantile(const struct tool_histogram *histogram, double part)
{
    uint64_t rank = (uint64_t) (part * (double) histogram->count);
    uint64_t seen = 0;

    if (histogram->count == 0)
        return 0;
    for (uint32_t i = 0; i < TOOL_HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen > rank) {
            double middle = bucket_middle(i);

            return middle < (double) histogram->max ? middle : (double) histogram->max;
        }
    }
    return (double) histogram->max;
}

static double bucket_middle(uint32_t bucket)
{
    uint32_t shift;
    uint64_t low;

    if (bucket < 2 * TOOL_HISTOGRAM_SUB)
        return (double) bucket;
    shift = (bucket >> TOOL_HISTOGRAM_SUB_BITS) - 1;
    low = (uint64_t) (bucket - (shift << TOOL_HISTOGRAM_SUB_BITS)) << shift;
    return (double) low + (double) (UINT64_C(1) << shift) / 2;
}
