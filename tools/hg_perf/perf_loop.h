/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops in which programs make progress and run callbacks, for one context. */

#ifndef AMALGAM_PERF_LOOP_H
#define AMALGAM_PERF_LOOP_H

#include <stdbool.h>

#include <mercury.h>
#include <mercury_request.h>

#include "hg_perf/perf_options.h"

struct perf_loop {
    enum perf_loop_kind kind;
    hg_context_t *context;
    hg_request_class_t *request_class;
    hg_request_t *request; /* PERF_LOOP_REQUEST: the next operation to complete */
};

/* Prepares a loop; false if out of memory. The caller closes it in either case. */
bool perf_loop_open(struct perf_loop *loop, enum perf_loop_kind kind, hg_context_t *context);

/* One round; sleeps at most timeout_ms if there is nothing to do. */
hg_return_t perf_loop_round(struct perf_loop *loop, unsigned int timeout_ms);

/* Called when an operation has completed, because a round may wait for it. */
void perf_loop_completed(struct perf_loop *loop);

void perf_loop_close(struct perf_loop *loop);

#endif /* AMALGAM_PERF_LOOP_H */
