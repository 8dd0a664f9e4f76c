/* SPDX-License-Identifier: BSD-3-Clause */
/* The target of the rpc, bulk and idle measurements. */

#ifndef AMALGAM_PERF_TARGET_H
#define AMALGAM_PERF_TARGET_H

#include <stdbool.h>

#include "hg_perf/perf_options.h"

/* Reports its address and answers until a signal; returns the exit code. */
int perf_target_run(const struct perf_options *options);

/* Reports an address: to the parent process with --address-fd, otherwise to stdout. */
bool perf_target_report(const struct perf_options *options, const char *address);

#endif /* AMALGAM_PERF_TARGET_H */
