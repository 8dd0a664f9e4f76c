/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress bar. */

#include "hg_cp/cp_progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/tool_clock.h"
#include "common/tool_options.h"

#define BAR_WIDTH   40
#define INTERVAL_NS UINT64_C(100000000)

void cp_progress_begin(struct cp_progress *progress, uint64_t size, bool quiet)
{
    progress->shown = !quiet && isatty(STDERR_FILENO) != 0;
    progress->size = size;
    progress->start_ns = tool_clock_ns();
    progress->drawn_ns = 0;
}

void cp_progress_update(struct cp_progress *progress, uint64_t done)
{
    uint64_t now = progress->shown ? tool_clock_ns() : 0;
    double part = progress->size > 0 ? (double) done / (double) progress->size : 1;
    int filled = (int) (part * BAR_WIDTH);
    char bar[BAR_WIDTH + 1], text[2][32];

    if (!progress->shown || now - progress->drawn_ns < INTERVAL_NS)
        return;
    progress->drawn_ns = now;
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t) filled);
    bar[BAR_WIDTH] = '\0';
    fprintf(stderr, "\r[%s] %3.0f %%  %s of %s  %.0f MBps \033[K", bar, part * 100,
            tool_format_size(done, text[0], sizeof(text[0])),
            tool_format_size(progress->size, text[1], sizeof(text[1])),
            (double) done / 1e6 / tool_clock_to_seconds(now - progress->start_ns + 1));
}

void cp_progress_end(struct cp_progress *progress)
{
    if (progress->shown)
        fprintf(stderr, "\r\033[K");
    progress->shown = false;
}
