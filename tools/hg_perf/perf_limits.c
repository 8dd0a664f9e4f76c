/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine's own limits: a shared cache line, an eventfd, memcpy and cross-memory attach. Each
 * is measured between two processes that the scheduler puts on two cores, or --bind does. */

#include "hg_perf/perf_limits.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/tool_clock.h"
#include "common/tool_message.h"
#include "common/tool_process.h"
#include "common/tool_signal.h"
#include "hg_perf/perf_bind.h"
#include "hg_perf/perf_memory.h"

/* Turns between two looks at the clock, and most of such batches that are kept. */
#define BATCH_TURNS 1000U
#define BATCH_MAX   20000U

/* What the two processes share. Each part has a line of its own, and the neighbour that the
 * prefetcher may fetch with it. */
struct limits_shared {
    _Alignas(128) atomic_uint turn;
    _Alignas(128) atomic_uint answer;
    _Alignas(128) atomic_bool stop;
    _Alignas(128) _Atomic(void *) buffer;
    int eventfds[2];
    char padding[128];
};

typedef void (*limits_peer_t)(struct limits_shared *shared, uint64_t size);
typedef ssize_t (*limits_attach_t)(pid_t pid, const struct iovec *local, unsigned long local_count,
                                   const struct iovec *remote, unsigned long remote_count,
                                   unsigned long flags);

static bool measure_round_trips(const struct perf_options *options, struct limits_shared *shared,
                                double seconds, struct perf_limits *limits);
static pid_t peer_start(const struct perf_options *options, struct limits_shared *shared,
                        limits_peer_t peer, uint64_t size);
static void peer_stop(struct limits_shared *shared, pid_t pid);
static void peer_cacheline(struct limits_shared *shared, uint64_t size);
static void peer_bounce(struct limits_shared *shared, uint64_t size);
static void peer_eventfd(struct limits_shared *shared, uint64_t size);
static void peer_buffer(struct limits_shared *shared, uint64_t size);
static void turn_cacheline(struct limits_shared *shared);
static void turn_bounce(struct limits_shared *shared);
static void turn_eventfd(struct limits_shared *shared);
static double median_turn_us(struct limits_shared *shared, void (*turn)(struct limits_shared *),
                             unsigned int batch_turns, double seconds, double *min_us);
static int compare_doubles(const void *a, const void *b);
static double measure_memcpy(void *local, const void *other, uint64_t size, double seconds);
static double measure_attach(limits_attach_t attach, pid_t pid, void *local, void *remote,
                             uint64_t size, double seconds);
static struct limits_shared *shared_create(void);
static void shared_destroy(struct limits_shared *shared);

bool perf_limits_measure(const struct perf_options *options, struct perf_limits *limits)
{
    double seconds = options->seconds > 0 ? options->seconds : 1;
    struct limits_shared *shared;
    bool done;

    memset(limits, 0, sizeof(*limits));
    shared = shared_create();
    if (shared == NULL)
        return false;
    done = measure_round_trips(options, shared, seconds, limits);
    shared_destroy(shared);
    if (!done || !perf_limits_measure_copy(options, options->size, seconds, &limits->at_size))
        return false;
    for (size_t i = 0; i < PERF_LIMITS_SIZES; i++) {
        if (!perf_limits_measure_copy(options, UINT64_C(1) << (20 + i), seconds / 4,
                                      &limits->by_size[i]))
            return false;
        limits->by_size_count++;
    }
    return true;
}

bool perf_limits_measure_copy(const struct perf_options *options, uint64_t size, double seconds,
                              struct perf_limits_copy *copy)
{
    struct limits_shared *shared = shared_create();
    void *local = perf_buffer_create(size, 1), *other = perf_buffer_create(size, 2);
    void *remote = NULL;
    bool done = false;
    pid_t pid = 0;

    if (shared == NULL || local == NULL || other == NULL)
        goto out;
    pid = peer_start(options, shared, peer_buffer, size);
    if (pid < 0)
        goto out;
    while ((remote = atomic_load(&shared->buffer)) == NULL && tool_signal_received() == 0) {
        if (tool_process_wait(pid, 1, NULL)) {
            pid = 0;
            goto out;
        }
    }
    copy->size = size;
    copy->memcpy_MBps = measure_memcpy(local, other, size, seconds / 3);
    copy->process_vm_readv_MBps =
        measure_attach(process_vm_readv, pid, local, remote, size, seconds / 3);
    copy->process_vm_writev_MBps =
        measure_attach(process_vm_writev, pid, local, remote, size, seconds / 3);
    done = tool_signal_received() == 0;
out:
    if (shared != NULL && pid > 0)
        peer_stop(shared, pid);
    shared_destroy(shared);
    perf_buffer_destroy(local, size);
    perf_buffer_destroy(other, size);
    return done;
}

static bool measure_round_trips(const struct perf_options *options, struct limits_shared *shared,
                                double seconds, struct perf_limits *limits)
{
    pid_t pid = peer_start(options, shared, peer_cacheline, 0);

    if (pid < 0)
        return false;
    (void) median_turn_us(shared, turn_cacheline, BATCH_TURNS, seconds / 10, NULL); /* warm up */
    limits->cacheline_rtt_us =
        median_turn_us(shared, turn_cacheline, BATCH_TURNS, seconds, &limits->cacheline_rtt_min_us);
    peer_stop(shared, pid);

    pid = peer_start(options, shared, peer_bounce, 0);
    if (pid < 0)
        return false;
    (void) median_turn_us(shared, turn_bounce, BATCH_TURNS, seconds / 10, NULL);
    limits->cacheline_bounce_us = median_turn_us(shared, turn_bounce, BATCH_TURNS, seconds, NULL);
    peer_stop(shared, pid);

    pid = peer_start(options, shared, peer_eventfd, 0);
    if (pid < 0)
        return false;
    (void) median_turn_us(shared, turn_eventfd, BATCH_TURNS / 10, seconds / 10, NULL);
    limits->eventfd_rtt_us = median_turn_us(shared, turn_eventfd, BATCH_TURNS / 10, seconds, NULL);
    peer_stop(shared, pid);
    return tool_signal_received() == 0;
}

/* The other process of a measurement. The one that measures is on the origin's core. */
static pid_t peer_start(const struct perf_options *options, struct limits_shared *shared,
                        limits_peer_t peer, uint64_t size)
{
    pid_t parent = getpid(), pid;

    atomic_store(&shared->stop, false);
    atomic_store(&shared->turn, 0);
    atomic_store(&shared->answer, 0);
    (void) fflush(NULL);
    pid = fork();
    if (pid == 0) {
        if (tool_process_die_with_parent(parent, SIGKILL) && perf_bind(options, PERF_BIND_TARGET))
            peer(shared, size);
        _exit(0);
    }
    if (pid < 0)
        tool_error("cannot start the second process of a measurement: %s", strerror(errno));
    return pid;
}

static void peer_stop(struct limits_shared *shared, pid_t pid)
{
    uint64_t one = 1;

    atomic_store(&shared->stop, true);
    (void) !write(shared->eventfds[0], &one, sizeof(one));
    if (!tool_process_wait(pid, 1000, NULL)) {
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);
    }
}

static void peer_bounce(struct limits_shared *shared, uint64_t size)
{
    unsigned int turn = 1;

    (void) size;
    while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
        /* stop has its own line, which stays in this core's cache until it is written. */
        if (atomic_load_explicit(&shared->turn, memory_order_acquire) != turn)
            continue;
        atomic_store_explicit(&shared->turn, turn + 1, memory_order_release);
        turn += 2;
    }
}

static void turn_bounce(struct limits_shared *shared)
{
    unsigned int turn = atomic_load_explicit(&shared->turn, memory_order_relaxed) + 1;

    atomic_store_explicit(&shared->turn, turn, memory_order_release);
    while (atomic_load_explicit(&shared->turn, memory_order_acquire) == turn) {
        if (tool_signal_received() != 0)
            return;
    }
}

static void peer_cacheline(struct limits_shared *shared, uint64_t size)
{
    unsigned int turn = 1;

    (void) size;
    while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
        if (atomic_load_explicit(&shared->turn, memory_order_acquire) != turn)
            continue;
        atomic_store_explicit(&shared->answer, turn, memory_order_release);
        turn++;
    }
}

static void turn_cacheline(struct limits_shared *shared)
{
    unsigned int turn = atomic_load_explicit(&shared->turn, memory_order_relaxed) + 1;

    atomic_store_explicit(&shared->turn, turn, memory_order_release);
    while (atomic_load_explicit(&shared->answer, memory_order_acquire) != turn) {
        if (tool_signal_received() != 0)
            return;
    }
}

static void peer_eventfd(struct limits_shared *shared, uint64_t size)
{
    uint64_t value;

    (void) size;
    while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
        if (read(shared->eventfds[0], &value, sizeof(value)) != sizeof(value))
            continue;
        value = 1;
        (void) !write(shared->eventfds[1], &value, sizeof(value));
    }
}

static void turn_eventfd(struct limits_shared *shared)
{
    uint64_t value = 1;

    (void) !write(shared->eventfds[0], &value, sizeof(value));
    (void) !read(shared->eventfds[1], &value, sizeof(value));
}

static void peer_buffer(struct limits_shared *shared, uint64_t size)
{
    void *buffer = perf_buffer_create(size, 3);
    uint64_t value;

    atomic_store(&shared->buffer, buffer);
    while (buffer != NULL && !atomic_load(&shared->stop))
        (void) !read(shared->eventfds[0], &value, sizeof(value));
    perf_buffer_destroy(buffer, size);
}

/* Time of a turn: the median over many short batches, which a process that takes the core away now
 * and then does not move. */
static double median_turn_us(struct limits_shared *shared, void (*turn)(struct limits_shared *),
                             unsigned int batch_turns, double seconds, double *min_us)
{
    double *batches = malloc(BATCH_MAX * sizeof(*batches));
    uint64_t end = tool_clock_ns() + tool_clock_from_seconds(seconds);
    uint64_t last = tool_clock_ns();
    double median = NAN;
    size_t count = 0;

    if (batches == NULL)
        return NAN;
    while (last < end && count < BATCH_MAX && tool_signal_received() == 0) {
        uint64_t now;

        for (unsigned int i = 0; i < batch_turns; i++)
            turn(shared);
        now = tool_clock_ns();
        batches[count++] = (double) (now - last) / batch_turns / 1000;
        last = now;
    }
    if (count > 0) {
        qsort(batches, count, sizeof(*batches), compare_doubles);
        median = batches[count / 2];
        if (min_us != NULL)
            *min_us = batches[0];
    }
    free(batches);
    return median;
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *) a, right = *(const double *) b;

    return (left > right) - (left < right);
}

static double measure_memcpy(void *local, const void *other, uint64_t size, double seconds)
{
    uint64_t start, now, copies = 0;

    memcpy(local, other, size);
    start = now = tool_clock_ns();
    while (now - start < tool_clock_from_seconds(seconds) && tool_signal_received() == 0) {
        memcpy(local, other, size);
        __asm__ volatile("" : : "r"(local) : "memory"); /* the copy is wanted, though never read */
        copies++;
        now = tool_clock_ns();
    }
    return now > start ? (double) (copies * size) * 1000 / (double) (now - start) : NAN;
}

static double measure_attach(limits_attach_t attach, pid_t pid, void *local, void *remote,
                             uint64_t size, double seconds)
{
    struct iovec local_part = {local, size}, remote_part = {remote, size};
    uint64_t start = 0, now = 0, bytes = 0;
    ssize_t got = attach(pid, &local_part, 1, &remote_part, 1, 0); /* warms up, or is refused */

    if (got <= 0)
        return NAN;
    start = now = tool_clock_ns();
    while (now - start < tool_clock_from_seconds(seconds) && tool_signal_received() == 0) {
        got = attach(pid, &local_part, 1, &remote_part, 1, 0);
        if (got <= 0)
            return NAN;
        bytes += (uint64_t) got;
        now = tool_clock_ns();
    }
    return now > start ? (double) bytes * 1000 / (double) (now - start) : NAN;
}

static struct limits_shared *shared_create(void)
{
    struct limits_shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED) {
        tool_error("cannot map shared memory: %s", strerror(errno));
        return NULL;
    }
    shared->eventfds[0] = eventfd(0, EFD_CLOEXEC);
    shared->eventfds[1] = eventfd(0, EFD_CLOEXEC);
    if (shared->eventfds[0] < 0 || shared->eventfds[1] < 0) {
        tool_error("cannot make an eventfd: %s", strerror(errno));
        shared_destroy(shared);
        return NULL;
    }
    return shared;
}

static void shared_destroy(struct limits_shared *shared)
{
    if (shared == NULL)
        return;
    for (size_t i = 0; i < 2; i++) {
        if (shared->eventfds[i] >= 0)
            (void) close(shared->eventfds[i]);
    }
    (void) munmap(shared, sizeof(*shared));
}
