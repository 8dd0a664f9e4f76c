/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine's own limits: a shared cache line, an eventfd, memcpy and cross-memory attach. Each
 * is measured between two processes on two cores, which the scheduler or --bind chooses. */

#include "hg_perf/perf_limits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "common/tool_clock.h"
#include "common/tool_message.h"
#include "common/tool_signal.h"
#include "hg_perf/perf_bind.h"
#include "hg_perf/perf_limits_peer.h"
#include "hg_perf/perf_memory.h"

/* Number of turns between two reads of the clock: as many as take BATCH_NS, so that two processes
 * that share a core, whose turns take milliseconds, do not measure for minutes. BATCH_MAX batches
 * are recorded at most. */
#define BATCH_TURNS_MIN 8U
#define BATCH_TURNS_MAX 512U
#define BATCH_NS        100000U
#define BATCH_MAX       20000U

typedef ssize_t (*limits_attach_t)(pid_t pid, const struct iovec *local, unsigned long local_count,
                                   const struct iovec *remote, unsigned long remote_count,
                                   unsigned long flags);

struct limits_copy {
    uint64_t size;
    double share; /* part of a round's time */
    void *local, *other;
};

struct perf_limits_bench {
    const struct perf_options *options;
    struct perf_limits_peer peer;
    struct limits_copy copies[PERF_LIMITS_SIZES];
    size_t copy_count;
    double *batches;
};

static bool bench_make_buffers(struct perf_limits_bench *bench);
static double bench_parts(const struct perf_limits_bench *bench);
static bool measure_turns(struct perf_limits_bench *bench, enum perf_limits_task task,
                          double seconds, double *median_us, double *min_us);
static unsigned int choose_turns(struct perf_limits_bench *bench, enum perf_limits_task task);
static int compare_doubles(const void *a, const void *b);
static bool measure_copy(struct perf_limits_bench *bench, size_t index, double seconds,
                         struct perf_limits_copy *copy);
static double measure_memcpy(const struct limits_copy *copy, double seconds);
static double measure_attach(limits_attach_t attach, pid_t pid, const struct limits_copy *copy,
                             void *remote, double seconds);

struct perf_limits_bench *perf_limits_open(const struct perf_options *options)
{
    struct perf_limits_bench *bench = calloc(1, sizeof(*bench));
    uint64_t sizes[PERF_LIMITS_SIZES];

    if (bench == NULL)
        return NULL;
    bench->options = options;
    bench->batches = malloc(BATCH_MAX * sizeof(*bench->batches));
    /* The bandwidth of tiny copies is meaningless. */
    bench->copies[0].size = perf_options_move_data(options) ? options->size : UINT64_C(1) << 20;
    bench->copies[0].share = 3;
    bench->copy_count = 1;
    for (unsigned int i = 20; options->mode == PERF_LIMITS && i < 25; i++) {
        struct limits_copy *copy = &bench->copies[bench->copy_count];

        copy->size = UINT64_C(1) << i;
        copy->share = 1.5;
        bench->copy_count++;
    }
    for (size_t i = 0; i < bench->copy_count; i++)
        sizes[i] = bench->copies[i].size;
    if (bench->batches != NULL && perf_bind(options, PERF_BIND_ORIGIN) &&
        bench_make_buffers(bench) &&
        perf_limits_peer_start(&bench->peer, options, sizes, bench->copy_count))
        return bench;
    perf_limits_close(bench);
    return NULL;
}

bool perf_limits_round(struct perf_limits_bench *bench, double seconds, struct perf_limits *limits)
{
    double part = seconds / bench_parts(bench), cacheline_us = 0, min_us = 0, value_us = 0;

    if (!measure_turns(bench, PERF_LIMITS_CACHELINE, part, &cacheline_us, &min_us))
        return false;
    perf_series_add(&limits->cacheline_rtt_us, cacheline_us);
    if (limits->cacheline_rtt_us.count == 1 || min_us < limits->cacheline_rtt_min_us)
        limits->cacheline_rtt_min_us = min_us;
    if (!measure_turns(bench, PERF_LIMITS_BOUNCE, part, &value_us, NULL))
        return false;
    perf_series_add(&limits->cacheline_bounce_us, value_us);
    if (!measure_turns(bench, PERF_LIMITS_EVENTFD, part, &value_us, NULL))
        return false;
    perf_series_add(&limits->eventfd_rtt_us, value_us);
    limits->copy_count = bench->copy_count;
    for (size_t i = 0; i < bench->copy_count; i++) {
        if (!measure_copy(bench, i, part * bench->copies[i].share, &limits->copies[i]))
            return false;
    }
    return tool_signal_received() == 0;
}

void perf_limits_close(struct perf_limits_bench *bench)
{
    if (bench == NULL)
        return;
    perf_limits_peer_stop(&bench->peer);
    for (size_t i = 0; i < bench->copy_count; i++) {
        perf_buffer_destroy(bench->copies[i].local, bench->copies[i].size);
        perf_buffer_destroy(bench->copies[i].other, bench->copies[i].size);
    }
    free(bench->batches);
    free(bench);
}

static bool bench_make_buffers(struct perf_limits_bench *bench)
{
    for (size_t i = 0; i < bench->copy_count; i++) {
        struct limits_copy *copy = &bench->copies[i];

        copy->local = perf_buffer_create(copy->size, 1);
        copy->other = perf_buffer_create(copy->size, 2);
        if (copy->local == NULL || copy->other == NULL)
            return false;
        /* Child processes started later do not share these pages, which would make them
         * copy-on-write. */
        (void) madvise(copy->local, copy->size, MADV_DONTFORK);
        (void) madvise(copy->other, copy->size, MADV_DONTFORK);
    }
    return true;
}

/* Number of parts that a round's time is divided into: one for each kind of turns, and the shares
 * of the copies. */
static double bench_parts(const struct perf_limits_bench *bench)
{
    double parts = 3;

    for (size_t i = 0; i < bench->copy_count; i++)
        parts += bench->copies[i].share;
    return parts;
}

/* Returns the median over batches, which hides batches that the scheduler interrupted. */
static bool measure_turns(struct perf_limits_bench *bench, enum perf_limits_task task,
                          double seconds, double *median_us, double *min_us)
{
    unsigned int turns;
    uint64_t end, start;
    size_t count = 0;

    if (!perf_limits_peer_begin(&bench->peer, task))
        return false;
    perf_limits_peer_turns(&bench->peer, task, 1); /* wakes the other process */
    turns = choose_turns(bench, task);
    start = tool_clock_ns();
    end = start + tool_clock_from_seconds(seconds);
    do {
        uint64_t now;

        perf_limits_peer_turns(&bench->peer, task, turns);
        now = tool_clock_ns();
        bench->batches[count++] = (double) (now - start) / 1000 / turns;
        start = now;
    } while (start < end && count < BATCH_MAX && tool_signal_received() == 0);
    qsort(bench->batches, count, sizeof(*bench->batches), compare_doubles);
    *median_us = bench->batches[count / 2];
    if (min_us != NULL)
        *min_us = bench->batches[0];
    return perf_limits_peer_end(&bench->peer);
}

static unsigned int choose_turns(struct perf_limits_bench *bench, enum perf_limits_task task)
{
    unsigned int turns = BATCH_TURNS_MIN / 2;
    uint64_t start;

    do {
        turns *= 2;
        start = tool_clock_ns();
        perf_limits_peer_turns(&bench->peer, task, turns);
    } while (turns < BATCH_TURNS_MAX && tool_clock_ns() - start < BATCH_NS);
    return turns;
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *) a, right = *(const double *) b;

    return (left > right) - (left < right);
}

/* Measures copies of one size: within a process, and by both system calls between two processes. */
static bool measure_copy(struct perf_limits_bench *bench, size_t index, double seconds,
                         struct perf_limits_copy *copy)
{
    const struct limits_copy *buffers = &bench->copies[index];
    void *remote = perf_limits_peer_buffer(&bench->peer, index);
    pid_t pid = perf_limits_peer_pid(&bench->peer);

    copy->size = buffers->size;
    perf_series_add(&copy->memcpy_MBps, measure_memcpy(buffers, seconds / 3));
    perf_series_add(&copy->process_vm_readv_MBps,
                    measure_attach(process_vm_readv, pid, buffers, remote, seconds / 3));
    perf_series_add(&copy->process_vm_writev_MBps,
                    measure_attach(process_vm_writev, pid, buffers, remote, seconds / 3));
    return tool_signal_received() == 0;
}

static double measure_memcpy(const struct limits_copy *copy, double seconds)
{
    uint64_t start, now, copies = 0;

    memcpy(copy->local, copy->other, copy->size);
    start = now = tool_clock_ns();
    do {
        memcpy(copy->local, copy->other, copy->size);
        __asm__ volatile("" : : "r"(copy->local) : "memory"); /* keeps the unread copy */
        copies++;
        now = tool_clock_ns();
    } while (now - start < tool_clock_from_seconds(seconds) && tool_signal_received() == 0);
    return (double) (copies * copy->size) * 1000 / (double) (now - start + 1);
}

static double measure_attach(limits_attach_t attach, pid_t pid, const struct limits_copy *copy,
                             void *remote, double seconds)
{
    struct iovec local_part = {copy->local, copy->size}, remote_part = {remote, copy->size};
    uint64_t start = 0, now = 0, bytes = 0;
    ssize_t got = attach(pid, &local_part, 1, &remote_part, 1, 0); /* warms up, or fails */

    if (got <= 0)
        return NAN;
    start = now = tool_clock_ns();
    do {
        got = attach(pid, &local_part, 1, &remote_part, 1, 0);
        if (got <= 0)
            return NAN;
        bytes += (uint64_t) got;
        now = tool_clock_ns();
    } while (now - start < tool_clock_from_seconds(seconds) && tool_signal_received() == 0);
    return (double) bytes * 1000 / (double) (now - start + 1);
}
