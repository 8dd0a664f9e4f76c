/* SPDX-License-Identifier: BSD-3-Clause */
/* The options after the last "?" of an init string. */

#ifndef FAULT_OPTIONS_H
#define FAULT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A probability of 1. */
#define FAULT_CERTAIN (UINT64_C(1) << 53)

struct fault_options {
    uint64_t seed;
    uint64_t drop; /* probabilities, as parts of FAULT_CERTAIN */
    uint64_t reorder;
    uint64_t cancel_fails;
    uint64_t delay_min_ns;
    uint64_t delay_max_ns;
    uint64_t reorder_ns; /* how long an operation waits for others to pass it */
    uint64_t cancel_ns;  /* how long a cancel is refused */
    uint64_t die_after;  /* operations until death; 0: never */
    bool any_order;      /* messages to one peer may be reordered, too */
};

/*
 * Parses `name=value`, separated by "&"; NULL gives the defaults, without faults. False when it is
 * malformed: `reason` says why.
 */
bool fault_options_parse(const char *string, struct fault_options *options, char *reason,
                         size_t reason_size);

#endif /* FAULT_OPTIONS_H */
