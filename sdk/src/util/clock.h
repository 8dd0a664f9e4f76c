/* SPDX-License-Identifier: BSD-3-Clause */
/* The monotonic clock. */

#ifndef UTIL_CLOCK_H
#define UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t util_clock_ns(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

#endif /* UTIL_CLOCK_H */
