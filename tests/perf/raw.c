/* SPDX-License-Identifier: BSD-3-Clause */
/* Ping-pong, message rate, streams, puts and gets, measured in the same way over each library. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "raw.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Seconds after which both processes end in any case; no measurement takes so long. */
#define TIME_LIMIT 600

#define TRIPS_MAX  1000000

static bool parse(int argc, char **argv, struct raw_options *options);
static void usage(const char *program, const struct raw_library *library);
static uint64_t touched(const struct raw_options *options);
static void end_with_parent(pid_t parent);
static void bind_to(int processor);
static bool parse_windows(const char *text, struct raw_options *options);
static void measure(const struct raw_library *library, struct raw_side *side);
static void measure_bulk(const struct raw_library *library, struct raw_side *side, uint64_t size,
                         uint32_t window);
static void barrier(const struct raw_library *library, struct raw_side *side);
static void drain(const struct raw_library *library, struct raw_side *side, uint64_t count);
static double measure_ping_pong(const struct raw_library *library, struct raw_side *side);
static void ping_pong(const struct raw_library *library, struct raw_side *side, double *trips,
                      uint64_t count);
static double measure_rate(const struct raw_library *library, struct raw_side *side);
static double measure_stream(const struct raw_library *library, struct raw_side *side,
                             uint64_t size, uint32_t window);
static double measure_rma(const struct raw_library *library, struct raw_side *side,
                          enum raw_direction direction, uint64_t size, uint32_t window);
static int compare_doubles(const void *a, const void *b);
static double now(void);

int raw_main(int argc, char **argv, const struct raw_library *library)
{
    struct raw_options options = {.provider = library->provider,
                                  .message = 8,
                                  .windows = {1},
                                  .window_count = 1,
                                  .seconds = 1.0,
                                  .processors = {-1, -1}};
    struct raw_side *side = calloc(1, library->side_size);
    int sockets[2], status = 0;
    pid_t child, parent = getpid();

    raw_check(side != NULL, "calloc");
    if (!parse(argc, argv, &options)) {
        usage(argv[0], library);
        return 2;
    }
    raw_check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "socketpair");
    (void) alarm(TIME_LIMIT);
    child = fork();
    raw_check(child >= 0, "fork");
    if (child == 0)
        end_with_parent(parent);
    bind_to(options.processors[child == 0]);
    side->options = &options;
    side->is_origin = child != 0;
    side->socket = sockets[side->is_origin];
    (void) close(sockets[!side->is_origin]);
    side->buffer = mmap(NULL, RAW_WINDOW_MAX * RAW_BUFFER_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    raw_check(side->buffer != MAP_FAILED, "mmap");
    memset(side->buffer, 1, touched(&options) * RAW_BUFFER_SIZE);
    library->open(side);
    library->connect(side);
    measure(library, side);
    barrier(library, side);
    library->close(side);
    (void) munmap(side->buffer, RAW_WINDOW_MAX * RAW_BUFFER_SIZE);
    (void) close(side->socket);
    if (side->is_origin)
        (void) waitpid(child, &status, 0);
    free(side);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

void raw_exchange(struct raw_side *side, const void *own, size_t own_size, void *other,
                  size_t other_size)
{
    raw_check(write(side->socket, own, own_size) == (ssize_t) own_size, "write");
    raw_check(recv(side->socket, other, other_size, MSG_WAITALL) == (ssize_t) other_size, "recv");
}

void raw_check(bool is_good, const char *what)
{
    if (is_good)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static bool parse(int argc, char **argv, struct raw_options *options)
{
    static const struct option words[] = {
        {"provider", required_argument, NULL, 'p'}, {"device", required_argument, NULL, 'd'},
        {"message", required_argument, NULL, 'm'},  {"window", required_argument, NULL, 'w'},
        {"seconds", required_argument, NULL, 's'},  {"bind", required_argument, NULL, 'b'},
        {"variant", no_argument, NULL, 'v'},        {NULL, 0, NULL, 0},
    };
    int word;

    while ((word = getopt_long(argc, argv, "p:d:m:w:s:b:v", words, NULL)) != -1) {
        switch (word) {
        case 'p':
            options->provider = optarg;
            break;
        case 'd':
            options->device = optarg;
            break;
        case 'm':
            options->message = strtoull(optarg, NULL, 10);
            break;
        case 'w':
            if (!parse_windows(optarg, options))
                return false;
            break;
        case 's':
            options->seconds = strtod(optarg, NULL);
            break;
        case 'b':
            if (sscanf(optarg, "%d,%d", &options->processors[0], &options->processors[1]) != 2)
                return false;
            break;
        case 'v':
            options->variant = true;
            break;
        default:
            return false;
        }
    }
    return optind == argc && options->message <= RAW_BUFFER_SIZE;
}

/* Numbers separated by commas. */
static bool parse_windows(const char *text, struct raw_options *options)
{
    char *end;

    options->window_count = 0;
    do {
        unsigned long window = strtoul(text, &end, 10);

        if (end == text || window == 0 || window > RAW_WINDOW_MAX ||
            options->window_count == RAW_WINDOWS_MAX)
            return false;
        options->windows[options->window_count++] = (uint32_t) window;
        text = end + 1;
    } while (*end == ',');
    return *end == '\0';
}

static void usage(const char *program, const struct raw_library *library)
{
    fprintf(stderr,
            "usage: %s [--provider NAME] [--device NAME] [--message BYTES]\n"
            "       [--window BULK REQUESTS IN FLIGHT, 1..%u, OR A LIST: 1,2,8] [--seconds S]\n"
            "       [--bind PROCESSOR OF ORIGIN,OF TARGET] [--variant]\n"
            "--provider: %s unless another is named\n"
            "--variant: %s\n",
            program, RAW_WINDOW_MAX, library->provider, library->variant);
}

/* Number of buffers in use: the largest window, and at least two for ping-pong. */
static uint64_t touched(const struct raw_options *options)
{
    uint64_t count = 2;

    for (uint32_t i = 0; i < options->window_count; i++)
        count = options->windows[i] > count ? options->windows[i] : count;
    return count;
}

/* A child that went on polling after its parent's end would slow down the whole machine. */
static void end_with_parent(pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        fprintf(stderr, "the parent is gone, or its end would go unnoticed\n");
        exit(1);
    }
    (void) alarm(TIME_LIMIT);
}

static void bind_to(int processor)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (processor < 0)
        return;
    CPU_SET((unsigned int) processor, &set);
    raw_check(sched_setaffinity(0, sizeof(set), &set) == 0, "sched_setaffinity");
}

static void measure(const struct raw_library *library, struct raw_side *side)
{
    static const uint64_t sizes[] = {65536, 262144, 1 << 20, 4 << 20, 16 << 20};
    const struct raw_options *options = side->options;
    double round_trip = measure_ping_pong(library, side);
    double rate = measure_rate(library, side);

    if (side->is_origin)
        printf("{\"provider\": \"%s\", \"message\": %llu, \"round_trip_us\": %.3f, "
               "\"messages_per_s\": %.0f, \"bulk\": [",
               options->provider, (unsigned long long) options->message, round_trip * 1e6, rate);
    for (uint32_t at = 0; at < options->window_count; at++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            if (side->is_origin && at + i > 0)
                printf(", ");
            measure_bulk(library, side, sizes[i], options->windows[at]);
        }
    }
    if (side->is_origin)
        printf("]}\n");
}

/* One line of the table: the reference for pulls of this size with as many in flight. */
static void measure_bulk(const struct raw_library *library, struct raw_side *side, uint64_t size,
                         uint32_t window)
{
    double read = measure_rma(library, side, RAW_READ, size, window);
    double write = measure_rma(library, side, RAW_WRITE, size, window);
    double stream = measure_stream(library, side, size, window);

    if (side->is_origin)
        printf("{\"bytes\": %llu, \"in_flight\": %u, \"read_mb_s\": %.0f, \"write_mb_s\": %.0f, "
               "\"stream_mb_s\": %.0f}",
               (unsigned long long) size, window, read / 1e6, write / 1e6, stream / 1e6);
}

/* Wait for the other side, and make progress meanwhile. */
static void barrier(const struct raw_library *library, struct raw_side *side)
{
    char byte = 0;

    raw_check(send(side->socket, &byte, 1, MSG_NOSIGNAL) == 1, "send");
    for (;;) {
        ssize_t got = recv(side->socket, &byte, 1, MSG_DONTWAIT);

        if (got == 1)
            return;
        raw_check(got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK), "the other process");
        library->poll(side);
    }
}

static void drain(const struct raw_library *library, struct raw_side *side, uint64_t count)
{
    while (side->done < count)
        library->poll(side);
}

/* Median time of a round trip, in seconds. */
static double measure_ping_pong(const struct raw_library *library, struct raw_side *side)
{
    uint64_t count = 2000 + (uint64_t) (side->options->seconds * 50000);
    double *trips, median;

    if (count > TRIPS_MAX)
        count = TRIPS_MAX;
    trips = calloc(count, sizeof(*trips));
    raw_check(trips != NULL, "calloc");
    ping_pong(library, side, trips, 2000);
    ping_pong(library, side, trips, count);
    qsort(trips, count, sizeof(trips[0]), compare_doubles);
    median = trips[count / 2];
    free(trips);
    return median;
}

/* The receive for the answer is posted before the ping is sent. */
static void ping_pong(const struct raw_library *library, struct raw_side *side, double *trips,
                      uint64_t count)
{
    uint64_t size = side->options->message;
    double begin, end;

    side->done = 0;
    barrier(library, side);
    library->receive(side, RAW_BUFFER_SIZE, size, 0);
    barrier(library, side);
    begin = now();
    for (uint64_t i = 0; i < count; i++) {
        if (side->is_origin)
            library->send(side, 0, size, 0);
        drain(library, side, side->is_origin ? 2 * i + 2 : 2 * i + 1);
        if (i + 1 < count)
            library->receive(side, RAW_BUFFER_SIZE, size, 0);
        if (!side->is_origin)
            library->send(side, 0, size, 0);
        drain(library, side, 2 * i + 2);
        end = now();
        trips[i] = end - begin;
        begin = end;
    }
}

/* Messages per second in one direction, with as many in flight as there are buffers. */
static double measure_rate(const struct raw_library *library, struct raw_side *side)
{
    uint64_t count = 20000 + (uint64_t) (side->options->seconds * 200000), posted = 0;
    uint64_t size = side->options->message;
    double begin;

    side->done = 0;
    barrier(library, side);
    for (; !side->is_origin && posted < RAW_WINDOW_MAX; posted++)
        library->receive(side, posted * RAW_BUFFER_SIZE, size, (uint32_t) posted);
    barrier(library, side);
    begin = now();
    for (; posted < count; posted++) {
        uint32_t slot = (uint32_t) (posted % RAW_WINDOW_MAX);

        drain(library, side, posted < RAW_WINDOW_MAX ? 0 : posted - RAW_WINDOW_MAX + 1);
        if (side->is_origin)
            library->send(side, 0, size, slot);
        else
            library->receive(side, slot * RAW_BUFFER_SIZE, size, slot);
    }
    drain(library, side, count);
    if (side->is_origin)
        library->receive(side, RAW_BUFFER_SIZE, size, 0);
    else
        library->send(side, 0, size, 0);
    drain(library, side, count + 1);
    return (double) count / (now() - begin);
}

/* Bytes per second in messages from the target to the origin: a way to implement a pull. */
static double measure_stream(const struct raw_library *library, struct raw_side *side,
                             uint64_t size, uint32_t window)
{
    uint64_t count = 8 + (uint64_t) (side->options->seconds * 2e9 / (double) size);
    uint64_t posted = 0;
    double begin;

    side->done = 0;
    barrier(library, side);
    for (; side->is_origin && posted < window; posted++)
        library->receive(side, posted * RAW_BUFFER_SIZE, size, (uint32_t) posted);
    barrier(library, side);
    begin = now();
    while (side->done < count) {
        for (; posted < count && posted - side->done < window; posted++) {
            uint32_t slot = (uint32_t) (posted % window);

            if (side->is_origin)
                library->receive(side, slot * RAW_BUFFER_SIZE, size, slot);
            else
                library->send(side, slot * RAW_BUFFER_SIZE, size, slot);
        }
        library->poll(side);
    }
    return (double) count * (double) size / (now() - begin);
}

static double measure_rma(const struct raw_library *library, struct raw_side *side,
                          enum raw_direction direction, uint64_t size, uint32_t window)
{
    uint64_t count = 8 + (uint64_t) (side->options->seconds * 2e9 / (double) size);
    uint64_t posted = 0;
    double begin, elapsed;

    if (library->rma == NULL)
        return 0;
    side->done = 0;
    barrier(library, side);
    begin = now();
    while (side->is_origin && side->done < count) {
        for (; posted < count && posted - side->done < window; posted++)
            library->rma(side, direction, posted % window * RAW_BUFFER_SIZE, size,
                         (uint32_t) (posted % window));
        library->poll(side);
    }
    elapsed = now() - begin;
    barrier(library, side);
    return (double) count * (double) size / elapsed;
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *) a, right = *(const double *) b;

    return (left > right) - (left < right);
}

static double now(void)
{
    struct timespec time;

    (void) clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + (double) time.tv_nsec * 1e-9;
}
