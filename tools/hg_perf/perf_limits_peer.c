/* SPDX-License-Identifier: BSD-3-Clause */
/* The second process of the limits, and the turns of both processes. */

#include "hg_perf/perf_limits_peer.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/tool_clock.h"
#include "common/tool_message.h"
#include "common/tool_process.h"
#include "common/tool_signal.h"
#include "hg_perf/perf_bind.h"
#include "hg_perf/perf_limits.h"
#include "hg_perf/perf_memory.h"

/* Seconds that the process may take to allocate its buffers, and to end a task. */
#define START_SECONDS 60
#define END_SECONDS   10

/* Memory shared by the two processes. Each flag has its own cache line, and the adjacent one that
 * the prefetcher may fetch with it. */
struct limits_shared {
    _Alignas(128) atomic_uint turn;
    _Alignas(128) atomic_uint answer;
    _Alignas(128) atomic_bool stop;
    _Alignas(128) atomic_bool running; /* a task or the start is in progress */
    enum perf_limits_task task;
    void *buffers[PERF_LIMITS_SIZES]; /* addresses in the second process */
    int wake_fd;                      /* eventfd that starts a task */
    int eventfds[2];                  /* for PERF_LIMITS_EVENTFD */
    char padding[128];
};

static bool shared_create(struct perf_limits_peer *peer);
static bool peer_wait_idle(struct perf_limits_peer *peer, unsigned int seconds);
static _Noreturn void peer_main(struct limits_shared *shared, const uint64_t sizes[],
                                size_t size_count);
static void peer_cacheline(struct limits_shared *shared);
static void peer_bounce(struct limits_shared *shared);
static void peer_eventfd(struct limits_shared *shared);
static void turn_cacheline(struct limits_shared *shared);
static void turn_bounce(struct limits_shared *shared);
static void turn_eventfd(struct limits_shared *shared);

bool perf_limits_peer_start(struct perf_limits_peer *peer, const struct perf_options *options,
                            const uint64_t sizes[], size_t size_count)
{
    pid_t parent = getpid();

    if (!shared_create(peer))
        return false;
    atomic_store(&peer->shared->running, true);
    (void) fflush(NULL);
    peer->pid = fork();
    if (peer->pid == 0) {
        if (tool_process_die_with_parent(parent, SIGKILL) && perf_bind(options, PERF_BIND_TARGET))
            peer_main(peer->shared, sizes, size_count);
        _exit(TOOL_EXIT_FAILED);
    }
    if (peer->pid < 0) {
        tool_error("cannot start the second process of a measurement: %s", strerror(errno));
        peer->pid = 0;
        return false;
    }
    return peer_wait_idle(peer, START_SECONDS);
}

void perf_limits_peer_stop(struct perf_limits_peer *peer)
{
    if (peer->pid > 0) {
        (void) kill(peer->pid, SIGKILL); /* it has nothing to clean up */
        (void) waitpid(peer->pid, NULL, 0);
    }
    peer->pid = 0;
    if (peer->shared == NULL)
        return;
    (void) close(peer->shared->wake_fd);
    (void) close(peer->shared->eventfds[0]);
    (void) close(peer->shared->eventfds[1]);
    (void) munmap(peer->shared, sizeof(*peer->shared));
    peer->shared = NULL;
}

bool perf_limits_peer_begin(struct perf_limits_peer *peer, enum perf_limits_task task)
{
    struct limits_shared *shared = peer->shared;
    uint64_t one = 1;

    shared->task = task;
    atomic_store(&shared->stop, false);
    atomic_store(&shared->turn, 0);
    atomic_store(&shared->answer, 0);
    atomic_store(&shared->running, true);
    if (write(shared->wake_fd, &one, sizeof(one)) == sizeof(one))
        return tool_signal_received() == 0;
    tool_error("cannot write to an eventfd: %s", strerror(errno));
    return false;
}

bool perf_limits_peer_end(struct perf_limits_peer *peer)
{
    struct limits_shared *shared = peer->shared;
    uint64_t one = 1;

    atomic_store(&shared->stop, true);
    if (shared->task == PERF_LIMITS_EVENTFD)
        (void) !write(shared->eventfds[0], &one, sizeof(one));
    return peer_wait_idle(peer, END_SECONDS);
}

void perf_limits_peer_turns(struct perf_limits_peer *peer, enum perf_limits_task task,
                            unsigned int count)
{
    for (unsigned int i = 0; i < count && tool_signal_received() == 0; i++) {
        if (task == PERF_LIMITS_CACHELINE)
            turn_cacheline(peer->shared);
        else if (task == PERF_LIMITS_BOUNCE)
            turn_bounce(peer->shared);
        else
            turn_eventfd(peer->shared);
    }
}

void *perf_limits_peer_buffer(const struct perf_limits_peer *peer, size_t index)
{
    return peer->shared->buffers[index];
}

pid_t perf_limits_peer_pid(const struct perf_limits_peer *peer)
{
    return peer->pid;
}

static bool shared_create(struct perf_limits_peer *peer)
{
    struct limits_shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED) {
        tool_error("cannot map shared memory: %s", strerror(errno));
        return false;
    }
    peer->shared = shared;
    shared->wake_fd = eventfd(0, EFD_CLOEXEC);
    shared->eventfds[0] = eventfd(0, EFD_CLOEXEC);
    shared->eventfds[1] = eventfd(0, EFD_CLOEXEC);
    if (shared->wake_fd >= 0 && shared->eventfds[0] >= 0 && shared->eventfds[1] >= 0)
        return true;
    tool_error("cannot make an eventfd: %s", strerror(errno));
    return false;
}

/* Waits until the process sleeps. */
static bool peer_wait_idle(struct perf_limits_peer *peer, unsigned int seconds)
{
    uint64_t end = tool_clock_ns() + seconds * TOOL_NS_PER_S;
    char text[128] = "does not come to an end";
    int status;

    while (atomic_load(&peer->shared->running)) {
        bool ended = tool_process_wait(peer->pid, 1, &status);

        if (tool_signal_received() != 0)
            return false;
        if (ended) {
            peer->pid = 0;
            tool_process_describe(status, text, sizeof(text));
        }
        if (ended || tool_clock_ns() > end) {
            tool_error("the second process of the limits %s", text);
            return false;
        }
    }
    return true;
}

static _Noreturn void peer_main(struct limits_shared *shared, const uint64_t sizes[],
                                size_t size_count)
{
    uint64_t value;

    for (size_t i = 0; i < size_count; i++) {
        shared->buffers[i] = perf_buffer_create(sizes[i], 3);
        if (shared->buffers[i] == NULL)
            _exit(TOOL_EXIT_FAILED);
    }
    for (;;) {
        atomic_store(&shared->running, false);
        while (read(shared->wake_fd, &value, sizeof(value)) != sizeof(value))
            ; /* a signal for the first process arrived here, too */
        if (shared->task == PERF_LIMITS_CACHELINE)
            peer_cacheline(shared);
        else if (shared->task == PERF_LIMITS_BOUNCE)
            peer_bounce(shared);
        else
            peer_eventfd(shared);
    }
}

static void peer_cacheline(struct limits_shared *shared)
{
    unsigned int turn = 1;

    while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
        /* stop has its own line, which stays in this core's cache until it is written. */
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

static void peer_bounce(struct limits_shared *shared)
{
    unsigned int turn = 1;

    while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
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

static void peer_eventfd(struct limits_shared *shared)
{
    uint64_t value;

    for (;;) {
        if (read(shared->eventfds[0], &value, sizeof(value)) != sizeof(value))
            continue;
        if (atomic_load(&shared->stop))
            return; /* nobody waits for an answer */
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
