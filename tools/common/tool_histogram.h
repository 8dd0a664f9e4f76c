/* SPDX-License-Identifier: BSD-3-Clause */
/* Histogram of durations with a fixed size: recording allocates nothing and takes a few
 * instructions. Buckets grow with the value, so that every value keeps two digits. It holds no
 * pointer and may live in memory that processes share. */

#ifndef AMALGAM_TOOL_HISTOGRAM_H
#define AMALGAM_TOOL_HISTOGRAM_H

#include <stdint.h>

/* 64 buckets for each power of two: a value is known to within 1.6 %. */
#define TOOL_HISTOGRAM_SUB_BITS 6
#define TOOL_HISTOGRAM_SUB      (1U << TOOL_HISTOGRAM_SUB_BITS)
/* Values up to 2^42 ns, more than an hour; larger ones count in the last bucket. */
#define TOOL_HISTOGRAM_BUCKETS ((42U - TOOL_HISTOGRAM_SUB_BITS + 1U) * TOOL_HISTOGRAM_SUB)

struct tool_histogram {
    uint64_t count;
    uint64_t sum;
    uint64_t max;
    uint64_t buckets[TOOL_HISTOGRAM_BUCKETS];
};

/* Bucket of a value: values below 64 have one each, the others share by their top bits. */
static inline uint32_t tool_histogram_bucket(uint64_t value)
{
    uint32_t shift, bucket;

    if (value < TOOL_HISTOGRAM_SUB)
        return (uint32_t) value;
    shift = 63U - (uint32_t) __builtin_clzll(value) - TOOL_HISTOGRAM_SUB_BITS;
    bucket = (shift << TOOL_HISTOGRAM_SUB_BITS) + (uint32_t) (value >> shift);
    return bucket < TOOL_HISTOGRAM_BUCKETS ? bucket : TOOL_HISTOGRAM_BUCKETS - 1;
}

static inline void tool_histogram_add(struct tool_histogram *histogram, uint64_t value)
{
    histogram->buckets[tool_histogram_bucket(value)]++;
    histogram->count++;
    histogram->sum += value;
    if (value > histogram->max)
        histogram->max = value;
}

void tool_histogram_reset(struct tool_histogram *histogram);

/* Adds the values of from to those of into. */
void tool_histogram_merge(struct tool_histogram *into, const struct tool_histogram *from);

/* Returns the value that a part (0 to 1) of all values does not exceed; 0 without values. */
double tool_histogram_quantile(const struct tool_histogram *histogram, double part);

#endif /* AMALGAM_TOOL_HISTOGRAM_H */
