/* SPDX-License-Identifier: BSD-3-Clause */
/* Measurements over sizes and depths, as a table, JSON and a plot. */

#include "hg_perf/perf_sweep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tool_message.h"
#include "common/tool_options.h"
#include "hg_perf/perf_report.h"
#include "hg_perf/perf_run.h"
#include "hg_perf/perf_svg.h"

/* Results of a sweep, by depth, then size. */
struct sweep {
    const struct perf_options *options;
    double sizes[PERF_SWEEP_MAX];
    double rates[PERF_SWEEP_MAX][PERF_SWEEP_MAX];
    double latencies[PERF_SWEEP_MAX][PERF_SWEEP_MAX];
    struct json_object *points;
    char json_path[512], svg_path[512];
    FILE *json_file, *svg_file;
    struct perf_result result;
};

static bool sweep_measure(struct sweep *sweep, const char *address, pid_t target_pid);
static bool sweep_point(struct sweep *sweep, const char *address, pid_t target_pid, size_t depth,
                        size_t size);
static bool sweep_write(struct sweep *sweep);
static FILE *sweep_create_file(const struct sweep *sweep, const char *suffix, char path[512]);
static bool sweep_write_svg(const struct sweep *sweep, FILE *file);

bool perf_sweep_run(const struct perf_options *options, const char *address, pid_t target_pid)
{
    struct sweep *sweep = calloc(1, sizeof(*sweep));
    bool done = false;

    if (sweep == NULL)
        return false;
    sweep->options = options;
    sweep->points = json_object_new_array();
    /* Before the measurement, which would otherwise be lost. */
    sweep->json_file = sweep_create_file(sweep, ".json", sweep->json_path);
    sweep->svg_file = sweep_create_file(sweep, ".svg", sweep->svg_path);
    if (sweep->json_file != NULL && sweep->svg_file != NULL)
        done = sweep_measure(sweep, address, target_pid) && sweep_write(sweep);
    if (sweep->json_file != NULL)
        (void) fclose(sweep->json_file);
    if (sweep->svg_file != NULL)
        (void) fclose(sweep->svg_file);
    (void) json_object_put(sweep->points);
    free(sweep);
    return done;
}

static bool sweep_measure(struct sweep *sweep, const char *address, pid_t target_pid)
{
    const struct perf_options *options = sweep->options;

    if (!options->json)
        printf("%10s %10s %14s %14s %12s %12s\n", "size", "in flight", "rate /s", "MBps", "p50 us",
               "p99 us");
    for (size_t i = 0; i < options->sweep_size_count; i++) {
        sweep->sizes[i] = (double) options->sweep_sizes[i];
        for (size_t j = 0; j < options->sweep_depth_count; j++) {
            if (!sweep_point(sweep, address, target_pid, j, i))
                return false;
        }
    }
    return true;
}

static bool sweep_point(struct sweep *sweep, const char *address, pid_t target_pid, size_t depth,
                        size_t size)
{
    struct perf_options options = *sweep->options;
    struct perf_result *result = &sweep->result;
    double p50, p99;
    char text[32];

    options.mode = options.sweep_mode;
    options.size = options.sweep_sizes[size];
    options.in_flight = (unsigned int) options.sweep_depths[depth];
    if (options.mode == PERF_RPC && options.size < PERF_RPC_SIZE_MIN)
        options.size = PERF_RPC_SIZE_MIN;
    if (!perf_run(&options, address, target_pid, NULL, result) || result->errors > 0)
        return false;
    p50 = tool_histogram_quantile(&result->latency, 0.5) / 1000;
    p99 = tool_histogram_quantile(&result->latency, 0.99) / 1000;
    sweep->rates[depth][size] = perf_series_median(
        options.mode == PERF_BULK ? &result->bandwidth_MBps : &result->rate_per_s);
    sweep->latencies[depth][size] = p50;
    (void) json_object_array_add(sweep->points, perf_report_run_json(&options, result, NULL));
    if (!options.json) {
        printf("%10s %10u %14.0f %14.1f %12.2f %12.2f\n",
               tool_format_size(options.size, text, sizeof(text)), options.in_flight,
               perf_series_median(&result->rate_per_s), perf_series_median(&result->bandwidth_MBps),
               p50, p99);
        (void) fflush(stdout);
    }
    return true;
}

static bool sweep_write(struct sweep *sweep)
{
    const struct perf_options *options = sweep->options;
    struct json_object *object = json_object_new_object();
    bool written;

    tool_json_add_string(object, "mode", perf_mode_name(PERF_SWEEP));
    tool_json_add_string(object, "kind", perf_mode_name(options->sweep_mode));
    tool_json_add_string(object, "init", options->init);
    (void) json_object_object_add(object, "points", json_object_get(sweep->points));
    written = !options->json || tool_json_print(stdout, json_object_get(object));
    written = tool_json_print(sweep->json_file, object) && written;
    written = sweep_write_svg(sweep, sweep->svg_file) && written;
    if (!written)
        tool_error("cannot write %s and %s: %s", sweep->json_path, sweep->svg_path,
                   strerror(errno));
    else if (!options->json)
        printf("wrote %s and %s\n", sweep->json_path, sweep->svg_path);
    return written;
}

static FILE *sweep_create_file(const struct sweep *sweep, const char *suffix, char path[512])
{
    FILE *file;

    if (snprintf(path, 512, "%s%s", sweep->options->output, suffix) >= 512) {
        tool_error("--output: the name is too long");
        return NULL;
    }
    file = fopen(path, "we");
    if (file == NULL)
        tool_error("cannot write %s: %s", path, strerror(errno));
    return file;
}

static bool sweep_write_svg(const struct sweep *sweep, FILE *file)
{
    const struct perf_options *options = sweep->options;
    bool bulk = options->sweep_mode == PERF_BULK;
    struct perf_svg_series series[2][PERF_SWEEP_MAX];
    struct perf_svg_chart charts[2];
    char title[160];

    memset(series, 0, sizeof(series));
    for (size_t i = 0; i < options->sweep_depth_count; i++) {
        for (size_t j = 0; j < 2; j++) {
            (void) snprintf(series[j][i].label, sizeof(series[j][i].label), "%u in flight",
                            (unsigned int) options->sweep_depths[i]);
            series[j][i].x = sweep->sizes;
            series[j][i].y = j == 0 ? sweep->rates[i] : sweep->latencies[i];
            series[j][i].count = options->sweep_size_count;
        }
    }
    charts[0] = (struct perf_svg_chart){bulk ? "Bandwidth" : "Rate", "bytes",
                                        bulk ? "MB/s (10^6 bytes)" : "RPC/s", series[0],
                                        options->sweep_depth_count};
    charts[1] = (struct perf_svg_chart){"Latency, median", "bytes", "us", series[1],
                                        options->sweep_depth_count};
    (void) snprintf(title, sizeof(title), "hg_perf %s, %.80s, %s",
                    perf_mode_name(options->sweep_mode), options->init,
                    options->busy ? "busy" : "not busy");
    return perf_svg_write(file, title, charts, 2);
}
