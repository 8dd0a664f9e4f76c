/* SPDX-License-Identifier: BSD-3-Clause */
/* hg_perf: measures RPC, bulk data, raw transport operations, and the machine under them. */

#include <stdio.h>

#include "common/tool_message.h"
#include "common/tool_process.h"
#include "common/tool_signal.h"
#include "hg_perf/perf_bind.h"
#include "hg_perf/perf_limits.h"
#include "hg_perf/perf_na.h"
#include "hg_perf/perf_report.h"
#include "hg_perf/perf_run.h"
#include "hg_perf/perf_sweep.h"
#include "hg_perf/perf_target.h"

/* How long a target may take to open its endpoint. */
#define TARGET_TIMEOUT_MS 20000U

static int run_limits(const struct perf_options *options);
static int run_measurement(const struct perf_options *options);
static bool measure_with_limits(const struct perf_options *options, const char *address, pid_t pid,
                                struct perf_result *result, struct perf_limits *limits);
static bool start_target(const struct perf_options *options, struct tool_target *target);

int main(int argc, char *argv[])
{
    struct perf_options options;
    int exit_code;

    tool_message_set_name("hg_perf");
    if (!perf_options_parse(argc, argv, &options, &exit_code))
        return exit_code;
    tool_signal_install();
    if (options.listen)
        return options.mode == PERF_NA ? perf_na_target_run(&options) : perf_target_run(&options);
    if (options.mode == PERF_LIMITS)
        exit_code = run_limits(&options);
    else
        exit_code = run_measurement(&options);
    return tool_signal_received() != 0 ? tool_signal_exit_code() : exit_code;
}

static int run_limits(const struct perf_options *options)
{
    struct perf_limits limits;

    if (!perf_bind(options, PERF_BIND_ORIGIN) || !perf_limits_measure(options, &limits) ||
        !perf_report_limits(options, &limits))
        return TOOL_EXIT_FAILED;
    return TOOL_EXIT_OK;
}

static int run_measurement(const struct perf_options *options)
{
    static struct perf_result result; /* large for a stack */
    struct perf_limits limits;
    struct tool_target target = {.pid = 0};
    const char *address = options->target;
    int exit_code = TOOL_EXIT_FAILED;

    if (address == NULL) {
        if (!start_target(options, &target))
            goto out;
        address = target.address;
    }
    if (options->mode == PERF_SWEEP) {
        if (perf_sweep_run(options, address, target.pid))
            exit_code = TOOL_EXIT_OK;
        goto out;
    }
    if (!measure_with_limits(options, address, target.pid, &result, &limits) ||
        !perf_report_run(options, &result, options->with_limits ? &limits : NULL))
        goto out;
    exit_code = result.errors == 0 ? TOOL_EXIT_OK : TOOL_EXIT_FAILED;
out:
    tool_target_stop(&target);
    return exit_code;
}

/* The copies are measured before and after the run, because what the machine gives varies. */
static bool measure_with_limits(const struct perf_options *options, const char *address, pid_t pid,
                                struct perf_result *result, struct perf_limits *limits)
{
    struct perf_options limits_options = *options;
    struct perf_limits_copy after;

    if (!options->with_limits)
        return perf_run(options, address, pid, result);
    if (!perf_options_move_data(options))
        limits_options.size = UINT64_C(1) << 20; /* copies of a few bytes tell nothing */
    if (!perf_limits_measure(&limits_options, limits) || !perf_run(options, address, pid, result) ||
        !perf_limits_measure_copy(&limits_options, limits_options.size, options->seconds, &after))
        return false;
    limits->at_size.memcpy_MBps = (limits->at_size.memcpy_MBps + after.memcpy_MBps) / 2;
    limits->at_size.process_vm_readv_MBps =
        (limits->at_size.process_vm_readv_MBps + after.process_vm_readv_MBps) / 2;
    limits->at_size.process_vm_writev_MBps =
        (limits->at_size.process_vm_writev_MBps + after.process_vm_writev_MBps) / 2;
    return true;
}

static bool start_target(const struct perf_options *options, struct tool_target *target)
{
    enum perf_mode mode = options->mode == PERF_SWEEP ? options->sweep_mode : options->mode;
    char threads[16], bind[32];
    const char *args[12];
    size_t count = 0;

    args[count++] = perf_mode_name(mode);
    args[count++] = "--listen";
    args[count++] = "--init";
    args[count++] = options->init;
    args[count++] = "--threads";
    (void) snprintf(threads, sizeof(threads), "%u", options->threads);
    args[count++] = threads;
    if (options->busy)
        args[count++] = "--busy";
    if (options->bind[0] >= 0) {
        (void) snprintf(bind, sizeof(bind), "%d,%d", options->bind[0], options->bind[1]);
        args[count++] = "--bind";
        args[count++] = bind;
    }
    args[count] = NULL;
    return tool_target_start(target, args, TARGET_TIMEOUT_MS);
}
