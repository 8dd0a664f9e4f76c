/* SPDX-License-Identifier: BSD-3-Clause */
/* Results as a table for people and as JSON for programs. */

#include "hg_perf/perf_report.h"

#include <inttypes.h>
#include <math.h>

#include "common/tool_options.h"

static void report_add_params(struct json_object *object, const struct perf_options *options,
                              const struct perf_result *result);
static void report_add_latency(struct json_object *object, const struct perf_result *result);
static void report_add_memory(struct json_object *object, const struct perf_result *result);
static void report_add_ratios(struct json_object *object, const struct perf_options *options,
                              const struct perf_result *result, const struct perf_limits *limits);
static void report_add_copy(struct json_object *object, const struct perf_limits_copy *copy);
static double report_copy_limit(const struct perf_options *options,
                                const struct perf_limits *limits);
static double latency_us(const struct perf_result *result, double part);
static void print_run(const struct perf_options *options, const struct perf_result *result);
static void print_ratios(const struct perf_options *options, const struct perf_result *result,
                         const struct perf_limits *limits);
static void print_limits(const struct perf_limits *limits);
static void print_copy(const struct perf_limits_copy *copy);

struct json_object *perf_report_run_json(const struct perf_options *options,
                                         const struct perf_result *result,
                                         const struct perf_limits *limits)
{
    struct json_object *object = json_object_new_object();

    tool_json_add_string(object, "mode", perf_mode_name(options->mode));
    report_add_params(object, options, result);
    if (options->mode != PERF_IDLE) {
        tool_json_add_uint(object, "count", result->count);
        tool_json_add_uint(object, "errors", result->errors);
        tool_json_add_number(object, "rate_per_s", result->rate_per_s);
        tool_json_add_number(object, "bandwidth_MBps", result->bandwidth_MBps);
        report_add_latency(object, result);
    }
    tool_json_add_number(object, "target_cpu_percent", result->target_cpu_percent);
    report_add_memory(object, result);
    if (limits != NULL) {
        (void) json_object_object_add(object, "limits", perf_report_limits_json(limits));
        report_add_ratios(object, options, result, limits);
    }
    return object;
}

struct json_object *perf_report_limits_json(const struct perf_limits *limits)
{
    struct json_object *object = json_object_new_object();
    struct json_object *sizes = json_object_new_array();

    tool_json_add_number(object, "cacheline_rtt_us", limits->cacheline_rtt_us);
    tool_json_add_number(object, "cacheline_rtt_min_us", limits->cacheline_rtt_min_us);
    tool_json_add_number(object, "cacheline_bounce_us", limits->cacheline_bounce_us);
    tool_json_add_number(object, "eventfd_rtt_us", limits->eventfd_rtt_us);
    report_add_copy(object, &limits->at_size);
    for (size_t i = 0; i < limits->by_size_count; i++) {
        struct json_object *size = json_object_new_object();

        report_add_copy(size, &limits->by_size[i]);
        (void) json_object_array_add(sizes, size);
    }
    (void) json_object_object_add(object, "by_size", sizes);
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
    tool_json_add_uint(params, "threads", options->threads);
    tool_json_add_uint(params, "clients", options->clients);
    tool_json_add_uint(params, "processes", result->processes);
    tool_json_add_number(params, "seconds", options->seconds);
    tool_json_add_bool(params, "busy", options->busy);
    if (options->mode == PERF_BULK)
        tool_json_add_string(params, "direction", options->push ? "push" : "pull");
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

static void report_add_memory(struct json_object *object, const struct perf_result *result)
{
    struct json_object *memory;

    if (!result->memory_known)
        return;
    memory = json_object_new_object();
    tool_json_add_number(memory, "total", result->peer_memory_bytes);
    tool_json_add_number(memory, "shared", result->peer_shared_bytes);
    tool_json_add_number(memory, "target_private", result->peer_target_bytes);
    tool_json_add_number(memory, "origin_private", result->origin_memory_bytes);
    (void) json_object_object_add(object, "peer_memory_bytes", memory);
}

static void report_add_ratios(struct json_object *object, const struct perf_options *options,
                              const struct perf_result *result, const struct perf_limits *limits)
{
    if (perf_options_move_data(options)) {
        tool_json_add_number(object, "ratio_to_process_vm",
                             result->bandwidth_MBps / report_copy_limit(options, limits));
    } else if (options->mode != PERF_IDLE) {
        tool_json_add_number(object, "cacheline_round_trips",
                             latency_us(result, 0.5) / limits->cacheline_rtt_us);
        tool_json_add_number(object, "cacheline_bounces",
                             latency_us(result, 0.5) / limits->cacheline_bounce_us);
    }
}

static void report_add_copy(struct json_object *object, const struct perf_limits_copy *copy)
{
    tool_json_add_uint(object, "size", copy->size);
    tool_json_add_number(object, "memcpy_MBps", copy->memcpy_MBps);
    tool_json_add_number(object, "process_vm_readv_MBps", copy->process_vm_readv_MBps);
    tool_json_add_number(object, "process_vm_writev_MBps", copy->process_vm_writev_MBps);
}

static double report_copy_limit(const struct perf_options *options,
                                const struct perf_limits *limits)
{
    bool writes = options->mode == PERF_BULK ? options->push : options->na_op == PERF_NA_PUT;

    return writes ? limits->at_size.process_vm_writev_MBps : limits->at_size.process_vm_readv_MBps;
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
        printf("  rate              %12.0f /s\n", result->rate_per_s);
        printf("  bandwidth         %12.1f MBps\n", result->bandwidth_MBps);
        printf("  latency p50       %12.2f us\n", latency_us(result, 0.5));
        printf("  latency p99       %12.2f us\n", latency_us(result, 0.99));
        printf("  latency max       %12.2f us\n", (double) result->latency.max / 1000);
        printf("  errors            %12" PRIu64 "\n", result->errors);
    }
    if (isfinite(result->target_cpu_percent))
        printf("  target processor  %12.2f %% of a core\n", result->target_cpu_percent);
    if (result->memory_known) {
        printf("  memory of a peer  %12.1f KiB (%.1f shared, %.1f in the target)\n",
               result->peer_memory_bytes / 1024, result->peer_shared_bytes / 1024,
               result->peer_target_bytes / 1024);
        printf("  the peer itself   %12.1f KiB\n", result->origin_memory_bytes / 1024);
    }
}

static void print_ratios(const struct perf_options *options, const struct perf_result *result,
                         const struct perf_limits *limits)
{
    if (perf_options_move_data(options))
        printf("  this run          %12.2f of the copy that the kernel does between processes\n",
               result->bandwidth_MBps / report_copy_limit(options, limits));
    else if (options->mode != PERF_IDLE)
        printf(
            "  this run          %12.2f cache-line round trips, %.2f bounces of one line (p50)\n",
            latency_us(result, 0.5) / limits->cacheline_rtt_us,
            latency_us(result, 0.5) / limits->cacheline_bounce_us);
}

static void print_limits(const struct perf_limits *limits)
{
    printf("limits of this machine\n");
    printf("  cache line        %12.3f us round trip, a line each way (quickest %.3f)\n",
           limits->cacheline_rtt_us, limits->cacheline_rtt_min_us);
    printf("  one cache line    %12.3f us bounced, written by both in turns\n",
           limits->cacheline_bounce_us);
    printf("  eventfd           %12.2f us round trip\n", limits->eventfd_rtt_us);
    printf("  %-10s %14s %18s %18s  MBps\n", "copy of", "memcpy", "process_vm_readv",
           "process_vm_writev");
    print_copy(&limits->at_size);
    for (size_t i = 0; i < limits->by_size_count; i++) {
        if (limits->by_size[i].size != limits->at_size.size)
            print_copy(&limits->by_size[i]);
    }
}

static void print_copy(const struct perf_limits_copy *copy)
{
    char size[32];

    printf("  %-10s %14.0f %18.0f %18.0f\n", tool_format_size(copy->size, size, sizeof(size)),
           copy->memcpy_MBps, copy->process_vm_readv_MBps, copy->process_vm_writev_MBps);
}
