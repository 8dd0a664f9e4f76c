/* SPDX-License-Identifier: BSD-3-Clause */
/* One measurement: starts the origin processes, drives their phases, and sums up the results. */

#include "hg_perf/perf_run.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/tool_clock.h"
#include "common/tool_message.h"
#include "common/tool_process.h"
#include "common/tool_signal.h"
#include "hg_perf/perf_bind.h"

/* Maximum number of processes if --processes does not give a number. */
#define PROCESSES_DEFAULT 16U

/* Seconds that processes may take to end. */
#define ABORT_SECONDS 5

/* Seconds that connecting and finishing may take, in addition to the measured time. */
#define PHASE_TIMEOUT_S 120U

/* Each process passes the phases in order, and waits before each until it is announced. */
enum perf_phase {
    PHASE_START,
    PHASE_CONNECT,
    PHASE_MEASURE, /* the first round */
    PHASE_CLOSE = PHASE_MEASURE + PERF_ROUNDS_MAX,
    PHASE_ABORT
};

struct control {
    atomic_uint phase; /* last announced phase */
    struct perf_process processes[];
};

struct run {
    const struct perf_options *options;
    const char *address;
    pid_t target_pid;
    double target_cpu_seconds; /* used during the rounds */
    double wall_seconds;       /* duration of the rounds */
    unsigned int process_count;
    size_t control_size;
    struct control *control;
    pid_t *pids; /* 0: the process has ended */
};

static bool run_open(struct run *run);
static void run_close(struct run *run);
static bool run_start_processes(struct run *run);
static _Noreturn void process_main(const struct run *run, unsigned int index);
static void process_phases(const struct run *run, unsigned int index);
static void process_measure(struct perf_process *process, const struct run *run, void *origin,
                            const struct perf_origin_ops *ops);
static bool process_wait_phase(struct control *control, unsigned int phase);
static bool run_phase(struct run *run, unsigned int phase, double seconds);
static bool run_process_failed(struct run *run, unsigned int index, unsigned int phase);
static bool run_rounds(struct run *run, const struct perf_between *between,
                       struct perf_result *result);
static bool run_measure(struct run *run, unsigned int phase);
static bool run_measure_idle(const struct run *run);
static double target_cpu_seconds(pid_t pid);
static void result_add_memory(const struct run *run, struct perf_result *result,
                              const struct perf_memory *before, const struct perf_memory *after);
static void result_add_round(const struct run *run, struct perf_result *result);

bool perf_run(const struct perf_options *options, const char *address, pid_t target_pid,
              const struct perf_between *between, struct perf_result *result)
{
    struct run run = {.options = options, .address = address, .target_pid = target_pid};
    struct perf_memory before, after;
    bool memory_known, done = false;

    memset(result, 0, sizeof(*result));
    if (!run_open(&run) || !run_start_processes(&run))
        goto out;
    memory_known = perf_memory_measure(target_pid, run.pids, run.process_count, &before);
    if (!run_phase(&run, PHASE_CONNECT, 0))
        goto out;
    if (memory_known && perf_memory_measure(target_pid, run.pids, run.process_count, &after))
        result_add_memory(&run, result, &before, &after);
    if (!run_rounds(&run, between, result) || !run_phase(&run, PHASE_CLOSE, 0))
        goto out;
    result->processes = run.process_count;
    result->target_cpu_percent = run.target_cpu_seconds * 100 / run.wall_seconds;
    /* Origins stopped by a signal have finished their phases, too. */
    done = tool_signal_received() == 0;
    if (done && result->count == 0 && result->errors == 0 && options->mode != PERF_IDLE) {
        tool_error("no operation has completed");
        done = false;
    }
out:
    run_close(&run);
    return done;
}

void perf_process_add(struct perf_process *process, const struct perf_window *window)
{
    double seconds = perf_window_seconds(window);

    tool_histogram_merge(&process->latency, &window->latency);
    process->rate_per_s += perf_window_rate(window);
    if (seconds > process->seconds)
        process->seconds = seconds;
}

double perf_run_warm_up(double seconds)
{
    double warm_up = seconds / 5;

    return warm_up < 0.2 ? warm_up : 0.2;
}

static bool run_open(struct run *run)
{
    const struct perf_options *options = run->options;
    unsigned int most = options->processes != 0 ? options->processes : PROCESSES_DEFAULT;

    run->process_count = options->clients < most ? options->clients : most;
    run->control_size =
        sizeof(*run->control) + run->process_count * sizeof(run->control->processes[0]);
    run->control =
        mmap(NULL, run->control_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    run->pids = calloc(run->process_count, sizeof(*run->pids));
    if (run->control != MAP_FAILED && run->pids != NULL)
        return true;
    tool_error("no memory to run %u processes", run->process_count);
    return false;
}

/* Ends the remaining processes; aborted ones have some seconds to clean up. */
static void run_close(struct run *run)
{
    uint64_t end = tool_clock_ns() + ABORT_SECONDS * TOOL_NS_PER_S;

    if (run->control != MAP_FAILED && run->control != NULL) {
        atomic_store(&run->control->phase, PHASE_ABORT);
        for (unsigned int i = 0; run->pids != NULL && i < run->process_count; i++) {
            if (run->pids[i] > 0)
                (void) kill(run->pids[i], SIGTERM);
        }
        for (unsigned int i = 0; run->pids != NULL && i < run->process_count; i++) {
            uint64_t now = tool_clock_ns();
            unsigned int left_ms = now < end ? (unsigned int) ((end - now) / 1000000) : 0;

            if (run->pids[i] > 0 && !tool_process_wait(run->pids[i], left_ms, NULL)) {
                (void) kill(run->pids[i], SIGKILL);
                (void) waitpid(run->pids[i], NULL, 0);
            }
        }
        (void) munmap(run->control, run->control_size);
    }
    free(run->pids);
}

static bool run_start_processes(struct run *run)
{
    pid_t parent = getpid();

    (void) fflush(NULL);
    for (unsigned int i = 0; i < run->process_count; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            if (!tool_process_die_with_parent(parent, SIGTERM))
                _exit(TOOL_EXIT_FAILED);
            process_main(run, i);
        }
        if (pid < 0) {
            tool_error("cannot start origin process %u of %u: %s", i + 1, run->process_count,
                       strerror(errno));
            return false;
        }
        run->pids[i] = pid;
    }
    return run_phase(run, PHASE_START, 0);
}

static _Noreturn void process_main(const struct run *run, unsigned int index)
{
    struct perf_process *process = &run->control->processes[index];

    tool_signal_clear();
    tool_process_raise_file_limit();
    memset(&process->latency, 0, sizeof(process->latency)); /* resident before memory is measured */
    process_phases(run, index);
    (void) fflush(NULL);
    _exit(atomic_load(&process->failed) ? TOOL_EXIT_FAILED : TOOL_EXIT_OK);
}

static void process_phases(const struct run *run, unsigned int index)
{
    const struct perf_options *options = run->options;
    const struct perf_origin_ops *ops =
        options->mode == PERF_NA ? &perf_origin_na_ops : &perf_origin_hg_ops;
    struct perf_process *process = &run->control->processes[index];
    unsigned int clients = options->clients / run->process_count +
                           (index < options->clients % run->process_count ? 1 : 0);
    void *origin;

    if (!perf_bind(options, PERF_BIND_ORIGIN)) {
        atomic_store(&process->failed, true);
        return;
    }
    if (!process_wait_phase(run->control, PHASE_CONNECT))
        return;
    origin = ops->open(options, run->address, clients, process);
    if (origin == NULL) {
        atomic_store(&process->failed, true);
        return;
    }
    atomic_store(&process->arrived, PHASE_CONNECT);
    process_measure(process, run, origin, ops);
    ops->close(origin);
    atomic_store(&process->arrived, PHASE_CLOSE);
}

/* Measures rounds until it is time to close. */
static void process_measure(struct perf_process *process, const struct run *run, void *origin,
                            const struct perf_origin_ops *ops)
{
    const struct perf_options *options = run->options;

    for (unsigned int i = 0; i < options->rounds; i++) {
        if (!process_wait_phase(run->control, PHASE_MEASURE + i) ||
            atomic_load(&run->control->phase) == PHASE_CLOSE)
            return;
        tool_histogram_reset(&process->latency);
        process->errors = 0;
        process->seconds = process->rate_per_s = 0;
        if (options->mode != PERF_IDLE)
            ops->measure(origin, process);
        atomic_store(&process->arrived, PHASE_MEASURE + i);
    }
    (void) process_wait_phase(run->control, PHASE_CLOSE);
}

/* In an origin process: waits for a phase; false if the run is aborted. */
static bool process_wait_phase(struct control *control, unsigned int phase)
{
    unsigned int announced;

    while ((announced = atomic_load(&control->phase)) < phase) {
        if (tool_signal_received() != 0)
            return false;
        tool_clock_sleep_ms(1);
    }
    return announced != PHASE_ABORT;
}

/* Announces a phase and waits until all processes have finished it. */
static bool run_phase(struct run *run, unsigned int phase, double seconds)
{
    uint64_t end = tool_clock_ns() + tool_clock_from_seconds(seconds + PHASE_TIMEOUT_S);

    atomic_store(&run->control->phase, phase);
    for (unsigned int i = 0; i < run->process_count;) {
        if (atomic_load(&run->control->processes[i].arrived) >= phase) {
            i++;
            continue;
        }
        if (tool_signal_received() != 0 || run_process_failed(run, i, phase))
            return false;
        if (tool_clock_ns() > end) {
            tool_error("an origin process does not finish in %u s; ending", PHASE_TIMEOUT_S);
            return false;
        }
        /* While the origins measure, this process leaves the cores to them. */
        tool_clock_sleep_ms(phase >= PHASE_MEASURE && phase < PHASE_CLOSE ? 10 : 1);
    }
    return true;
}

static bool run_process_failed(struct run *run, unsigned int index, unsigned int phase)
{
    const struct perf_process *process = &run->control->processes[index];
    char text[128];
    int status;

    if (!tool_process_wait(run->pids[index], 0, &status) || atomic_load(&process->arrived) >= phase)
        return false;
    run->pids[index] = 0;
    tool_process_describe(status, text, sizeof(text));
    if (process->message[0] != '\0')
        tool_error("%s", process->message);
    else
        tool_error("origin process %u %s", index + 1, text);
    return true;
}

/* A round with errors is the last one: further rounds would only take time. */
static bool run_rounds(struct run *run, const struct perf_between *between,
                       struct perf_result *result)
{
    for (unsigned int i = 0; i < run->options->rounds && result->errors == 0; i++) {
        if ((between != NULL && !between->call(between->data)) ||
            !run_measure(run, PHASE_MEASURE + i))
            return false;
        result_add_round(run, result);
    }
    return true;
}

static bool run_measure(struct run *run, unsigned int phase)
{
    double cpu = target_cpu_seconds(run->target_pid);
    uint64_t start = tool_clock_ns();
    bool measured;

    if (run->options->mode == PERF_IDLE) {
        tool_clock_sleep_ms(300); /* lets work left over from connecting finish */
        cpu = target_cpu_seconds(run->target_pid);
        start = tool_clock_ns();
        measured = run_measure_idle(run) && run_phase(run, phase, 0);
    } else {
        measured = run_phase(run, phase, run->options->seconds);
    }
    run->target_cpu_seconds += target_cpu_seconds(run->target_pid) - cpu;
    run->wall_seconds += tool_clock_to_seconds(tool_clock_ns() - start);
    return measured;
}

static bool run_measure_idle(const struct run *run)
{
    uint64_t end = tool_clock_ns() + tool_clock_from_seconds(run->options->seconds);

    while (tool_clock_ns() < end) {
        if (tool_signal_received() != 0)
            return false;
        tool_clock_sleep_ms(10);
    }
    return true;
}

/* Processor time used by a process, the sum over its threads, in seconds. */
static double target_cpu_seconds(pid_t pid)
{
    struct timespec time;
    clockid_t clock;

    if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0)
        return NAN;
    return (double) time.tv_sec + (double) time.tv_nsec / (double) TOOL_NS_PER_S;
}

static void result_add_memory(const struct run *run, struct perf_result *result,
                              const struct perf_memory *before, const struct perf_memory *after)
{
    const struct perf_options *options = run->options;
    double clients = options->clients;

    /* With bulk data, the buffers would dominate the result. */
    result->memory_known = run->target_pid > 0 && !perf_options_move_data(options);
    result->peer_shared_bytes = ((double) after->shared - (double) before->shared) / clients;
    result->peer_target_bytes =
        ((double) after->target_private - (double) before->target_private) / clients;
    result->origin_memory_bytes =
        ((double) after->origin_private - (double) before->origin_private) / clients;
    result->peer_memory_bytes = result->peer_shared_bytes + result->peer_target_bytes;
}

static void result_add_round(const struct run *run, struct perf_result *result)
{
    struct tool_histogram *latency = calloc(1, sizeof(*latency));
    double rate = 0, seconds = 0;

    for (unsigned int i = 0; i < run->process_count; i++) {
        const struct perf_process *process = &run->control->processes[i];

        rate += process->rate_per_s;
        if (process->seconds > seconds)
            seconds = process->seconds;
        if (process->errors > 0)
            tool_error("%s", process->message);
        result->errors += process->errors;
        tool_histogram_merge(&result->latency, &process->latency);
        if (latency != NULL)
            tool_histogram_merge(latency, &process->latency);
    }
    result->node_local = run->control->processes[0].node_local;
    result->count = result->latency.count;
    result->seconds += seconds;
    perf_series_add(&result->rate_per_s, rate);
    perf_series_add(&result->bandwidth_MBps,
                    rate * (double) run->options->transfers * (double) run->options->size / 1e6);
    perf_series_add(&result->latency_p50_us,
                    latency != NULL ? tool_histogram_quantile(latency, 0.5) / 1000 : NAN);
    free(latency);
}
