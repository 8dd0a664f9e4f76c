/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress bar: on stderr, and only when that is a terminal. */

#ifndef AMALGAM_CP_PROGRESS_H
#define AMALGAM_CP_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct cp_progress {
    bool shown;
    uint64_t size;
    uint64_t start_ns;
    uint64_t drawn_ns;
};

/* Begins a bar; quiet shows nothing. */
void cp_progress_begin(struct cp_progress *progress, uint64_t size, bool quiet);

/* Draws the bar, at most ten times a second. */
void cp_progress_update(struct cp_progress *progress, uint64_t done);

/* Removes the bar. */
void cp_progress_end(struct cp_progress *progress);

#endif /* AMALGAM_CP_PROGRESS_H */
