/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers that are measured with, and what processes occupy. */

#ifndef AMALGAM_PERF_MEMORY_H
#define AMALGAM_PERF_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A page-aligned private buffer with every page touched, filled with a pattern that begins with
 * seed; NULL without memory. Limits and bulk transfers use the same kind, so that they compare. */
void *perf_buffer_create(uint64_t size, uint64_t seed);

/* True when the buffer holds the pattern of seed. */
bool perf_buffer_check(const void *buffer, uint64_t size, uint64_t seed);

/* Releases a buffer; NULL is allowed. */
void perf_buffer_destroy(void *buffer, uint64_t size);

/* What a set of processes occupies. */
struct perf_memory {
    uint64_t target_private; /* anonymous memory of the target */
    uint64_t shared;         /* shared segments that any of them maps, each counted once */
    uint64_t origin_private; /* anonymous memory of the origins */
};

/* Measures from /proc; target may be 0 (unknown, as with --target). */
bool perf_memory_measure(pid_t target, const pid_t *origins, size_t origin_count,
                         struct perf_memory *memory);

#endif /* AMALGAM_PERF_MEMORY_H */
