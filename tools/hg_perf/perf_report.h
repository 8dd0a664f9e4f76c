/* SPDX-License-Identifier: BSD-3-Clause */
/* Results as a table for people and as JSON for programs. */

#ifndef AMALGAM_PERF_REPORT_H
#define AMALGAM_PERF_REPORT_H

#include <stdbool.h>

#include "common/tool_json.h"
#include "hg_perf/perf_limits.h"
#include "hg_perf/perf_run.h"

/* Returns the result of one run as an object; limits may be NULL. The caller owns it. */
struct json_object *perf_report_run_json(const struct perf_options *options,
                                         const struct perf_result *result,
                                         const struct perf_limits *limits);

/* Returns the limits as an object. The caller owns it. */
struct json_object *perf_report_limits_json(const struct perf_limits *limits);

/* Prints a table, or JSON with --json. */
bool perf_report_run(const struct perf_options *options, const struct perf_result *result,
                     const struct perf_limits *limits);
bool perf_report_limits(const struct perf_options *options, const struct perf_limits *limits);

#endif /* AMALGAM_PERF_REPORT_H */
