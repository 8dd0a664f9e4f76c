/* SPDX-License-Identifier: BSD-3-Clause */
/* Results as a table for people and as JSON for programs. */

#include "hg_perf/perf_report.h"
#include "mercury_ext.h"

#include <inttypes.h>
#include <math.h>

#include "common/tool_options.h"

/* The ratio of a result to a limit of the machine. */
struct comparison {
    const char *name; /* NULL: no comparison */
    const char *text;
    struct perf_series ratios;
};

static void report_add_params(struct json_object *object, const struct perf_options *options,
                              const struct perf_result *result);
static void report_add_latency(struct json_object *object, const struct perf_result *result);
static void report_add_memory(struct json_object *object, const struct perf_options *options,
                              const struct perf_result *result);
static void report_add_ratios(struct json_object *object, struct json_object *spread,
                              const struct perf_options *options, const struct perf_result *result,
                              const struct perf_limits *limits);
static void report_add_copy(struct json_object *object, struct json_object *spread,
                            const struct perf_limits_copy *copy);
static void report_add_series(struct json_object *object, struct json_object *spread,
                              const char *name, const struct perf_series *series);
static void report_add_spread(struct json_object *spread, const char *name,
                              const struct perf_series *series);
static size_t report_compare(const struct perf_options *options, const struct perf_result *result,
                             const struct perf_limits *limits, struct comparison comparisons[2]);
static double latency_us(const struct perf_result *result, double part);
static void print_run(const struct perf_options *options, const struct perf_result *result);
static void print_memory(const struct perf_options *options, const struct perf_result *result);
static void print_ratios(const struct perf_options *options, const struct perf_result *result,
                         const struct perf_limits *limits);
static void print_limits(const struct perf_limits *limits);
static void print_copy(const struct perf_limits_copy *copy);
static void print_series(const char *name, const struct perf_series *series, int decimals,
                         const char *unit);

struct json_object *perf_report_run_json(const struct perf_options *options,
                                         const struct perf_result *result,
                                         const struct perf_limits *limits)
{
    struct json_object *object = json_object_new_object();
    struct json_object *spread = json_object_new_object();

    tool_json_add_string(object, "mode", perf_mode_name(options->mode));
    report_add_params(object, options, result);
    if (options->mode != PERF_IDLE) {
        tool_json_add_uint(object, "count", result->count);
        tool_json_add_uint(object, "errors", result->errors);
        tool_json_add_number(object, "measured_s", result->seconds);
        report_add_series(object, spread, "rate_per_s", &result->rate_per_s);
        report_add_series(object, spread, "bandwidth_MBps", &result->bandwidth_MBps);
        report_add_latency(object, result);
        report_add_spread(spread, "latency_p50_us", &result->latency_p50_us);
    }
    tool_json_add_number(object, "target_cpu_percent", result->target_cpu_percent);
    report_add_memory(object, options, result);
    if (limits != NULL) {
        (void) json_object_object_add(object, "limits", perf_report_limits_json(limits));
        report_add_ratios(object, spread, options, result, limits);
    }
    tool_json_add_uint(object, "repetitions", result->rate_per_s.count);
    (void) json_object_object_add(object, "spread", spread);
    return object;
}

struct json_object *perf_report_limits_json(const struct perf_limits *limits)
{
    struct json_object *object = json_object_new_object();
    struct json_object *spread = json_object_new_object();
    struct json_object *sizes = json_object_new_array();

    report_add_series(object, spread, "cacheline_rtt_us", &limits->cacheline_rtt_us);
    tool_json_add_number(object, "cacheline_rtt_min_us", limits->cacheline_rtt_min_us);
    report_add_series(object, spread, "cacheline_bounce_us", &limits->cacheline_bounce_us);
    report_add_series(object, spread, "eventfd_rtt_us", &limits->eventfd_rtt_us);
    report_add_copy(object, spread, &limits->copies[0]);
    for (size_t i = 1; i < limits->copy_count; i++) {
        struct json_object *size = json_object_new_object();
        struct json_object *size_spread = json_object_new_object();

        report_add_copy(size, size_spread, &limits->copies[i]);
        (void) json_object_object_add(size, "spread", size_spread);
        (void) json_object_array_add(sizes, size);
    }
    (void) json_object_object_add(object, "by_size", sizes);
    tool_json_add_uint(object, "repetitions", limits->cacheline_rtt_us.count);
    (void) json_object_object_add(object, "spread", spread);
    return object;
}

bool perf_report_run(const struct perf_options *options, const struct perf_result *result,
                     const struct perf_limits *limits)
{
    if (options->json)
        return tool_json_print(stdout, perf_report_run_json(options, result, limits));
    print_run(options, result);
    if (limits != NULL) {
        print_limits(limits);
        print_ratios(options, result, limits);
    }
    return fflush(stdout) == 0;
}

bool perf_report_limits(const struct perf_options *options, const struct perf_limits *limits)
{
    struct json_object *object;

    if (!options->json) {
        print_limits(limits);
        return fflush(stdout) == 0;
    }
    object = perf_report_limits_json(limits);
    tool_json_add_string(object, "mode", perf_mode_name(PERF_LIMITS));
    return tool_json_print(stdout, object);
}

static void report_add_params(struct json_object *object, const struct perf_options *options,
                              const struct perf_result *result)
{
    struct json_object *params = json_object_new_object();

    tool_json_add_string(params, "init", options->init);
    tool_json_add_string(params, "target", options->target);
    tool_json_add_uint(params, "size", options->size);
    tool_json_add_uint(params, "in_flight", options->in_flight);
    tool_json_add_uint(params, "every_us", options->every_us);
    if (options->poll_us != HG_POLL_TIME_DEFAULT)
        tool_json_add_uint(params, "poll_us", options->poll_us);
    tool_json_add_uint(params, "threads", options->threads);
    tool_json_add_uint(params, "clients", options->clients);
    tool_json_add_uint(params, "processes", result->processes);
    tool_json_add_number(params, "seconds", options->seconds);
    tool_json_add_bool(params, "busy", options->busy);
    if (options->mode != PERF_NA)
        tool_json_add_string(params, "loop", perf_loop_name(options->loop));
    if (options->mode == PERF_BULK || options->mode == PERF_NA)
        tool_json_add_bool(params, "allocated", options->allocated);
    if (options->mode == PERF_BULK) {
        tool_json_add_string(params, "direction", options->push ? "push" : "pull");
        tool_json_add_uint(params, "transfers", options->transfers);
    }
    if (options->mode == PERF_NA)
        tool_json_add_string(params, "op", perf_na_op_name(options->na_op));
    (void) json_object_object_add(object, "params", params);
}

static void report_add_latency(struct json_object *object, const struct perf_result *result)
{
    struct json_object *latency = json_object_new_object();

    tool_json_add_number(latency, "p50", latency_us(result, 0.5));
    tool_json_add_number(latency, "p99", latency_us(result, 0.99));
    tool_json_add_number(latency, "max", (double) result->latency.max / 1000);
    tool_json_add_number(latency, "mean",
                         result->latency.count > 0
                             ? (double) result->latency.sum / (double) result->latency.count / 1000
                             : 0);
    (void) json_object_object_add(object, "latency_us", latency);
}

static void report_add_memory(struct json_object *object, const struct perf_options *options,
                              const struct perf_result *result)
{
    struct json_object *memory;

    if (!result->memory_known)
        return;
    memory = json_object_new_object();
    tool_json_add_number(memory, "total", result->peer_memory_bytes);
    tool_json_add_number(memory, "shared", result->peer_shared_bytes);
    tool_json_add_number(memory, "target_private", result->peer_target_bytes);
    tool_json_add_number(memory, "origin_private", result->origin_memory_bytes);
    tool_json_add_uint(memory, "contexts", options->threads);
    tool_json_add_number(memory, "total_per_context", result->peer_memory_bytes / options->threads);
    (void) json_object_object_add(object, "peer_memory_bytes", memory);
}

static void report_add_ratios(struct json_object *object, struct json_object *spread,
                              const struct perf_options *options, const struct perf_result *result,
                              const struct perf_limits *limits)
{
    struct comparison comparisons[2];
    size_t count = report_compare(options, result, limits, comparisons);

    for (size_t i = 0; i < count; i++)
        report_add_series(object, spread, comparisons[i].name, &comparisons[i].ratios);
}

static void report_add_copy(struct json_object *object, struct json_object *spread,
                            const struct perf_limits_copy *copy)
{
    tool_json_add_uint(object, "size", copy->size);
    report_add_series(object, spread, "memcpy_MBps", &copy->memcpy_MBps);
    report_add_series(object, spread, "process_vm_readv_MBps", &copy->process_vm_readv_MBps);
    report_add_series(object, spread, "process_vm_writev_MBps", &copy->process_vm_writev_MBps);
}

/* Adds the median to the object, and minimum and maximum to the spread. */
static void report_add_series(struct json_object *object, struct json_object *spread,
                              const char *name, const struct perf_series *series)
{
    tool_json_add_number(object, name, perf_series_median(series));
    report_add_spread(spread, name, series);
}

static void report_add_spread(struct json_object *spread, const char *name,
                              const struct perf_series *series)
{
    struct json_object *range = json_object_new_object();

    tool_json_add_number(range, "min", perf_series_min(series));
    tool_json_add_number(range, "max", perf_series_max(series));
    (void) json_object_object_add(spread, name, range);
}

/* Returns the number of comparisons. There are none with another machine, whose limits differ. */
static size_t report_compare(const struct perf_options *options, const struct perf_result *result,
                             const struct perf_limits *limits, struct comparison comparisons[2])
{
    bool writes = options->mode == PERF_BULK ? options->push : options->na_op == PERF_NA_PUT;
    const struct perf_limits_copy *copy = &limits->copies[0];

    if (!result->node_local || options->mode == PERF_IDLE)
        return 0;
    if (perf_options_move_data(options)) {
        comparisons[0].name = "ratio_to_process_vm";
        comparisons[0].text = "of the copy that the kernel does between processes";
        comparisons[0].ratios =
            perf_series_divide(&result->bandwidth_MBps, writes ? &copy->process_vm_writev_MBps
                                                               : &copy->process_vm_readv_MBps);
        return 1;
    }
    comparisons[0].name = "cacheline_round_trips";
    comparisons[0].text = "cache-line round trips (p50)";
    comparisons[0].ratios = perf_series_divide(&result->latency_p50_us, &limits->cacheline_rtt_us);
    comparisons[1].name = "cacheline_bounces";
    comparisons[1].text = "bounces of one line (p50)";
    comparisons[1].ratios =
        perf_series_divide(&result->latency_p50_us, &limits->cacheline_bounce_us);
    return 2;
}

static double latency_us(const struct perf_result *result, double part)
{
    return tool_histogram_quantile(&result->latency, part) / 1000;
}

static void print_run(const struct perf_options *options, const struct perf_result *result)
{
    char size[32];

    printf("%s %s %s, %u in flight, %u client%s, %u thread%s, %s\n", options->init,
           perf_mode_name(options->mode), tool_format_size(options->size, size, sizeof(size)),
           options->in_flight, options->clients, options->clients == 1 ? "" : "s", options->threads,
           options->threads == 1 ? "" : "s", options->busy ? "busy" : "not busy");
    if (options->mode != PERF_IDLE) {
        print_series("rate", &result->rate_per_s, 0, "/s");
        print_series("bandwidth", &result->bandwidth_MBps, 1, "MBps");
        printf("  latency p50       %12.2f us\n", latency_us(result, 0.5));
        printf("  latency p99       %12.2f us\n", latency_us(result, 0.99));
        printf("  latency max       %12.2f us\n", (double) result->latency.max / 1000);
        printf("  errors            %12" PRIu64 "\n", result->errors);
    }
    if (isfinite(result->target_cpu_percent))
        printf("  target processor  %12.2f %% of a core\n", result->target_cpu_percent);
    if (result->memory_known)
        print_memory(options, result);
}

static void print_memory(const struct perf_options *options, const struct perf_result *result)
{
    printf("  memory of a peer  %12.1f KiB (%.1f shared, %.1f in the target)\n",
           result->peer_memory_bytes / 1024, result->peer_shared_bytes / 1024,
           result->peer_target_bytes / 1024);
    if (options->threads > 1)
        printf("  of that           %12.1f KiB for each of its %u contexts\n",
               result->peer_memory_bytes / 1024 / options->threads, options->threads);
    printf("  the peer itself   %12.1f KiB\n", result->origin_memory_bytes / 1024);
}

static void print_ratios(const struct perf_options *options, const struct perf_result *result,
                         const struct perf_limits *limits)
{
    struct comparison comparisons[2];
    size_t count = report_compare(options, result, limits, comparisons);

    for (size_t i = 0; i < count; i++)
        print_series("this run", &comparisons[i].ratios, 2, comparisons[i].text);
    if (count == 0 && options->mode != PERF_IDLE)
        printf("  not compared: %s is no transport within one machine\n", options->init);
}

static void print_limits(const struct perf_limits *limits)
{
    printf("limits of this machine, medians of %u rounds\n", limits->cacheline_rtt_us.count);
    print_series("cache line", &limits->cacheline_rtt_us, 3, "us round trip, a line each way");
    print_series("one cache line", &limits->cacheline_bounce_us, 3,
                 "us bounced, written by both in turns");
    print_series("eventfd", &limits->eventfd_rtt_us, 2, "us round trip");
    printf("  %-10s %20s %24s %24s\n", "MBps", "memcpy", "process_vm_readv", "process_vm_writev");
    for (size_t i = 0; i < limits->copy_count; i++) {
        if (i == 0 || limits->copies[i].size != limits->copies[0].size)
            print_copy(&limits->copies[i]);
    }
}

static void print_copy(const struct perf_limits_copy *copy)
{
    const struct perf_series *series[] = {&copy->memcpy_MBps, &copy->process_vm_readv_MBps,
                                          &copy->process_vm_writev_MBps};
    char text[64];

    printf("  %-10s", tool_format_size(copy->size, text, sizeof(text)));
    for (size_t i = 0; i < 3; i++) {
        (void) snprintf(text, sizeof(text), "%.0f (%.0f..%.0f)", perf_series_median(series[i]),
                        perf_series_min(series[i]), perf_series_max(series[i]));
        printf(" %*s", i == 0 ? 20 : 24, text);
    }
    printf("\n");
}

/* Prints the median, and with several rounds minimum and maximum. */
static void print_series(const char *name, const struct perf_series *series, int decimals,
                         const char *unit)
{
    printf("  %-17s %12.*f %s", name, decimals, perf_series_median(series), unit);
    if (series->count > 1)
        printf("  (%.*f..%.*f)", decimals, perf_series_min(series), decimals,
               perf_series_max(series));
    printf("\n");
}
