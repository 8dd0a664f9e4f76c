/* SPDX-License-Identifier: BSD-3-Clause */
/* The period in which the operations of one thread are counted. It lies between two completions,
 * the first of which is not counted; so it is right for long operations, and if it is cut short. */

#ifndef AMALGAM_PERF_WINDOW_H
#define AMALGAM_PERF_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/tool_clock.h"
#include "common/tool_histogram.h"

struct perf_window {
    uint64_t from_ns;  /* completions before are not counted */
    uint64_t until_ns; /* the first completion after this is the last one */
    uint64_t first_ns; /* first and last counted completion; 0: none yet */
    uint64_t last_ns;
    bool closed; /* completed operations are not started again */
    struct tool_histogram latency;
};

/* Empties the window and opens it for some seconds after a warm-up; zero seconds close it. */
static inline void perf_window_open(struct perf_window *window, double warm_up, double seconds)
{
    window->from_ns = tool_clock_ns() + tool_clock_from_seconds(warm_up);
    window->until_ns = window->from_ns + tool_clock_from_seconds(seconds);
    window->first_ns = window->last_ns = 0;
    window->closed = seconds <= 0;
    tool_histogram_reset(&window->latency);
}

/* Counts an operation that started at start_ns and completes now. */
static inline void perf_window_complete(struct perf_window *window, uint64_t start_ns, uint64_t now)
{
    if (now < window->from_ns || window->closed)
        return;
    if (window->first_ns == 0) {
        window->first_ns = now;
        return;
    }
    tool_histogram_add(&window->latency, now - start_ns);
    window->last_ns = now;
    if (now >= window->until_ns)
        window->closed = true;
}

/* Duration of the counted period in seconds. */
static inline double perf_window_seconds(const struct perf_window *window)
{
    return window->last_ns > window->first_ns
               ? tool_clock_to_seconds(window->last_ns - window->first_ns)
               : 0;
}

/* Operations per second. */
static inline double perf_window_rate(const struct perf_window *window)
{
    double seconds = perf_window_seconds(window);

    return seconds > 0 ? (double) window->latency.count / seconds : 0;
}

#endif /* AMALGAM_PERF_WINDOW_H */
