/* SPDX-License-Identifier: BSD-3-Clause */
/* hg_perf: measures RPC, bulk data, raw transport operations, and the machine under them. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tool_clock.h"
#include "common/tool_endpoint.h"
#include "common/tool_key.h"
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
#include "mercury_ext.h"

#define PERF_KEY_VARIABLE "HG_PERF_KEY"

/* How long a target may take to open its endpoint. */
#define TARGET_TIMEOUT_MS 60000U

/* State shared by a measurement and by the measurement of limits between its rounds. */
struct comparison {
    const struct perf_options *options;
    struct tool_target *target;
    struct perf_limits_bench *bench;
    struct perf_limits limits;
};

static int run_limits(const struct perf_options *options);
static int run_measurement(const struct perf_options *options);
static bool measure(const struct perf_options *options, const char *address,
                    struct tool_target *target);
static bool reported(bool written);
static bool measure_limits(void *data);
static bool read_key(struct perf_options *options, struct tool_key *key, int *exit_code);
static bool start_target(const struct perf_options *options, struct tool_target *target);

int main(int argc, char *argv[])
{
    struct tool_key key;
    struct perf_options options;
    int exit_code;

    tool_message_set_name("hg_perf");
    if (!perf_options_parse(argc, argv, &options, &exit_code))
        return exit_code;
    if (!read_key(&options, &key, &exit_code))
        return exit_code;
    tool_signal_install();
    tool_endpoint_log();
    if (options.listen) {
        tool_signal_install_pause();
        exit_code =
            options.mode == PERF_NA ? perf_na_target_run(&options) : perf_target_run(&options);
    } else if (options.mode == PERF_LIMITS) {
        exit_code = run_limits(&options);
    } else {
        exit_code = run_measurement(&options);
    }
    if (tool_signal_received() == 0 || (exit_code == TOOL_EXIT_OK && !options.listen))
        return exit_code;
    if (!options.listen)
        tool_signal_note("nothing is reported");
    return tool_signal_exit_code();
}

static int run_limits(const struct perf_options *options)
{
    struct perf_limits_bench *bench = perf_limits_open(options);
    struct perf_limits limits = {.copy_count = 0};
    bool done = bench != NULL;

    for (unsigned int i = 0; i < options->rounds && done; i++)
        done = perf_limits_round(bench, options->seconds / options->rounds, &limits);
    perf_limits_close(bench);
    return done && reported(perf_report_limits(options, &limits)) ? TOOL_EXIT_OK : TOOL_EXIT_FAILED;
}

static int run_measurement(const struct perf_options *options)
{
    struct perf_options own = *options;
    struct tool_target target = {.pid = 0};
    char *origin_init = NULL;
    bool done = false;

    own.origin_init = options->init;
    if (options->target == NULL) {
        origin_init = tool_endpoint_origin_init(options->init);
        own.origin_init = origin_init;
        if (origin_init == NULL || !start_target(options, &target))
            goto out;
    }
    done = measure(&own, options->target != NULL ? options->target : target.address, &target);
out:
    tool_target_stop(&target);
    free(origin_init);
    return done ? TOOL_EXIT_OK : TOOL_EXIT_FAILED;
}

static bool measure(const struct perf_options *options, const char *address,
                    struct tool_target *target)
{
    static struct perf_result result; /* large for a stack */
    struct comparison comparison = {.options = options, .target = target};
    struct perf_between between = {measure_limits, &comparison};
    bool compare = options->with_limits, done = false;

    if (options->mode == PERF_SWEEP)
        return perf_sweep_run(options, address, target->pid);
    if (compare) {
        comparison.bench = perf_limits_open(options);
        if (comparison.bench == NULL)
            return false;
    }
    if (perf_run(options, address, target->pid, compare ? &between : NULL, &result))
        done = reported(perf_report_run(options, &result, compare ? &comparison.limits : NULL)) &&
               result.errors == 0;
    perf_limits_close(comparison.bench);
    return done;
}

static bool reported(bool written)
{
    if (!written)
        tool_error("cannot write the result: %s", strerror(errno));
    return written;
}

/* Measures the limits. A busy target is paused meanwhile: it would take a core from them. */
static bool measure_limits(void *data)
{
    struct comparison *comparison = data;
    const struct perf_options *options = comparison->options;
    bool measured;

    if (options->busy) {
        tool_target_pause(comparison->target, true);
        tool_clock_sleep_ms(2);
    }
    measured = perf_limits_round(comparison->bench, options->seconds / options->rounds,
                                 &comparison->limits);
    if (options->busy)
        tool_target_pause(comparison->target, false);
    return measured;
}

/* Reads the key from a file or the environment, because everybody sees the command line. */
static bool read_key(struct perf_options *options, struct tool_key *key, int *exit_code)
{
    *exit_code = TOOL_EXIT_FAILED;
    if (!tool_key_read(key, options->key_file, PERF_KEY_VARIABLE))
        return false;
    options->key = key->text[0] != '\0' ? key->text : NULL;
    if (!options->encrypt || options->key != NULL)
        return true;
    tool_error("--encrypt needs a key: see --key-file");
    *exit_code = TOOL_EXIT_USAGE;
    return false;
}

static bool start_target(const struct perf_options *options, struct tool_target *target)
{
    enum perf_mode mode = options->mode == PERF_SWEEP ? options->sweep_mode : options->mode;
    char threads[16], in_flight[16], clients[16], bind[32], poll[16];
    const char *args[24];
    size_t count = 0;

    args[count++] = perf_mode_name(mode);
    args[count++] = "--listen";
    args[count++] = "--init";
    args[count++] = options->init;
    args[count++] = "--threads";
    (void) snprintf(threads, sizeof(threads), "%u", options->threads);
    args[count++] = threads;
    if (mode == PERF_NA) {
        (void) snprintf(in_flight, sizeof(in_flight), "%u", options->in_flight);
        (void) snprintf(clients, sizeof(clients), "%u", options->clients);
        args[count++] = "--in-flight";
        args[count++] = in_flight;
        args[count++] = "--clients";
        args[count++] = clients;
        if (options->allocated)
            args[count++] = "--allocated";
    }
    if (mode != PERF_NA) {
        args[count++] = "--loop";
        args[count++] = perf_loop_name(options->loop);
    }
    if (options->poll_us != HG_POLL_TIME_DEFAULT) {
        (void) snprintf(poll, sizeof(poll), "%u", options->poll_us);
        args[count++] = "--poll";
        args[count++] = poll;
    }
    if (options->busy)
        args[count++] = "--busy";
    if (options->bind[0] >= 0) {
        (void) snprintf(bind, sizeof(bind), "%d,%d", options->bind[0], options->bind[1]);
        args[count++] = "--bind";
        args[count++] = bind;
    }
    if (options->encrypt)
        args[count++] = "--encrypt";
    args[count] = NULL;
    if (options->key != NULL && setenv(PERF_KEY_VARIABLE, options->key, 1) != 0) {
        tool_error("no memory");
        return false;
    }
    return tool_target_start(target, args, TARGET_TIMEOUT_MS);
}
