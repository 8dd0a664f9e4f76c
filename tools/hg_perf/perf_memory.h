/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers for measurements, and the memory use of processes. */

#ifndef AMALGAM_PERF_MEMORY_H
#define AMALGAM_PERF_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Allocates a page-aligned private buffer with every page touched, filled with a pattern that
 * begins with seed; NULL if out of memory. Limits and bulk transfers use the same kind, so that
 * they are comparable. */
void *perf_buffer_create(uint64_t size, uint64_t seed);

/* Writes the pattern of seed. */
void perf_buffer_fill(void *buffer, uint64_t size, uint64_t seed);

/* True if the buffer contains the pattern of seed. */
bool perf_buffer_check(const void *buffer, uint64_t size, uint64_t seed);

/* Releases a buffer; NULL is allowed. */
void perf_buffer_destroy(void *buffer, uint64_t size);

/* Memory use of a set of processes, in bytes. */
struct perf_memory {
    uint64_t target_private; /* anonymous memory of the target */
    uint64_t shared;         /* shared segments mapped by any of them, each counted once */
    uint64_t origin_private; /* anonymous memory of the origins */
};

/* Measures from /proc; target may be 0 (unknown, for instance with --target). */
bool perf_memory_measure(pid_t target, const pid_t *origins, size_t origin_count,
                         struct perf_memory *memory);

#endif /* AMALGAM_PERF_MEMORY_H */
