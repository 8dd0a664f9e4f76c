/* SPDX-License-Identifier: BSD-3-Clause */
/* Measurements over sizes and depths. */

#ifndef AMALGAM_PERF_SWEEP_H
#define AMALGAM_PERF_SWEEP_H

#include <stdbool.h>
#include <sys/types.h>

#include "hg_perf/perf_options.h"

/* Measures every size with every depth against the target; writes OUTPUT.json and OUTPUT.svg. */
bool perf_sweep_run(const struct perf_options *options, const char *address, pid_t target_pid);

#endif /* AMALGAM_PERF_SWEEP_H */
