/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock that the tools measure with. */

#ifndef AMALGAM_TOOL_CLOCK_H
#define AMALGAM_TOOL_CLOCK_H

#include <stdint.h>
#include <time.h>

#define TOOL_NS_PER_S UINT64_C(1000000000)

/* Monotonic time in nanoseconds. Read through the vDSO: no system call. */
static inline uint64_t tool_clock_ns(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * TOOL_NS_PER_S + (uint64_t) now.tv_nsec;
}

/* Seconds as nanoseconds. */
static inline uint64_t tool_clock_from_seconds(double seconds)
{
    return (uint64_t) (seconds * (double) TOOL_NS_PER_S);
}

/* Nanoseconds as seconds. */
static inline double tool_clock_to_seconds(uint64_t ns)
{
    return (double) ns / (double) TOOL_NS_PER_S;
}

/* Sleeps for some milliseconds. */
static inline void tool_clock_sleep_ms(unsigned int ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long) (ms % 1000) * 1000000};

    (void) nanosleep(&pause, NULL);
}

#endif /* AMALGAM_TOOL_CLOCK_H */
