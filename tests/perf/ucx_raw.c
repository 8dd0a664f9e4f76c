/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What UCX alone reaches between two processes of this machine, as JSON: the measure for what the
 * ucx plugin makes of the same transports. Endpoints from worker addresses, busy polling.
 */

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

/* Nothing here lasts so long: seconds after which both processes end, whatever they do. */
#define TIME_LIMIT  600

#define BUFFER_SIZE (UINT64_C(16) << 20)
#define WINDOW_MAX  64u
#define BLOCKS      5
#define TAG         1

struct options {
    const char *tls;
    const char *device; /* UCX_NET_DEVICES */
    uint64_t message;   /* bytes of a ping */
    uint32_t window;    /* bulk requests in flight */
    double seconds;     /* for each measurement */
    bool handles_errors;
};

struct side {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h endpoint;
    ucp_mem_h memory;
    ucp_rkey_h key;
    uint64_t peer_base;
    uint8_t *buffer; /* WINDOW_MAX * BUFFER_SIZE, touched as far as used */
    int socket;      /* to the other process, for the start of each measurement */
    bool is_origin;
    const struct options *options;
    uint64_t done; /* requests that ended */
};

enum direction {
    DIRECTION_READ,
    DIRECTION_WRITE
};

static bool parse(int argc, char **argv, struct options *options);
static void usage(const char *program);
static void end_with_parent(pid_t parent);
static void side_open(struct side *side);
static void side_configure(const struct side *side, ucp_config_t *config);
static void side_connect(struct side *side);
static void side_exchange(struct side *side, const void *own, size_t own_size, void *other,
                          size_t other_size);
static void side_close(struct side *side);
static void side_barrier(struct side *side);
static void side_drain(struct side *side, uint64_t count);
static void side_send(struct side *side, uint64_t offset, uint64_t size);
static void side_receive(struct side *side, uint64_t offset, uint64_t size);
static void side_rma(struct side *side, enum direction direction, uint64_t offset, uint64_t size);
static void take_request(struct side *side, ucs_status_ptr_t request, const char *what);
static void request_sent(void *request, ucs_status_t status, void *arg);
static void request_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                             void *arg);
static double measure_ping_pong(struct side *side);
static double ping_pong_block(struct side *side, uint64_t count);
static double measure_rate(struct side *side);
static double measure_stream(struct side *side, uint64_t size);
static double measure_rma(struct side *side, enum direction direction, uint64_t size);
static int compare_doubles(const void *a, const void *b);
static double now(void);
static void check(ucs_status_t status, const char *what);
static void check_system(bool is_good, const char *what);

int main(int argc, char **argv)
{
    static const uint64_t sizes[] = {65536, 262144, 1 << 20, 4 << 20, 16 << 20};
    struct options options = {.tls = "tcp", .message = 8, .window = 1, .seconds = 1.0};
    struct side side = {.options = &options};
    double round_trip, rate;
    int sockets[2], status = 0;
    pid_t child, parent = getpid();

    if (!parse(argc, argv, &options)) {
        usage(argv[0]);
        return 2;
    }
    check_system(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "socketpair");
    (void) alarm(TIME_LIMIT);
    child = fork();
    check_system(child >= 0, "fork");
    if (child == 0)
        end_with_parent(parent);
    side.is_origin = child != 0;
    side.socket = sockets[side.is_origin];
    (void) close(sockets[!side.is_origin]);
    side_open(&side);
    side_connect(&side);

    round_trip = measure_ping_pong(&side);
    rate = measure_rate(&side);
    if (side.is_origin)
        printf("{\"tls\": \"%s\", \"window\": %u, \"message\": %llu, \"round_trip_us\": %.3f, "
               "\"messages_per_s\": %.0f, \"bulk\": [",
               options.tls, options.window, (unsigned long long) options.message, round_trip * 1e6,
               rate);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        double read = measure_rma(&side, DIRECTION_READ, sizes[i]);
        double write = measure_rma(&side, DIRECTION_WRITE, sizes[i]);
        double stream = measure_stream(&side, sizes[i]);

        if (side.is_origin)
            printf("%s{\"bytes\": %llu, \"read_mb_s\": %.0f, \"write_mb_s\": %.0f, "
                   "\"stream_mb_s\": %.0f}",
                   i > 0 ? ", " : "", (unsigned long long) sizes[i], read / 1e6, write / 1e6,
                   stream / 1e6);
    }
    if (side.is_origin)
        printf("]}\n");
    side_barrier(&side);
    side_close(&side);
    if (side.is_origin)
        (void) waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static bool parse(int argc, char **argv, struct options *options)
{
    static const struct option words[] = {
        {"tls", required_argument, NULL, 't'},
        {"device", required_argument, NULL, 'd'},
        {"message", required_argument, NULL, 'm'},
        {"window", required_argument, NULL, 'w'},
        {"seconds", required_argument, NULL, 's'},
        {"errors", no_argument, NULL, 'e'},
        {NULL, 0, NULL, 0},
    };
    int word;

    while ((word = getopt_long(argc, argv, "t:d:m:w:s:e", words, NULL)) != -1) {
        switch (word) {
        case 't':
            options->tls = optarg;
            break;
        case 'd':
            options->device = optarg;
            break;
        case 'm':
            options->message = strtoull(optarg, NULL, 10);
            break;
        case 'w':
            options->window = (uint32_t) strtoul(optarg, NULL, 10);
            break;
        case 's':
            options->seconds = strtod(optarg, NULL);
            break;
        case 'e':
            options->handles_errors = true;
            break;
        default:
            return false;
        }
    }
    return optind == argc && options->window > 0 && options->window < WINDOW_MAX &&
           options->message <= BUFFER_SIZE;
}

static void usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--tls UCX_TLS] [--device UCX_NET_DEVICES] [--message BYTES]\n"
            "       [--window BULK REQUESTS IN FLIGHT, 1..%u] [--seconds S] [--errors]\n"
            "--errors: endpoints that are told when their peer dies\n",
            program, WINDOW_MAX - 1);
}

/* A child that spins on for nobody would slow the whole machine. */
static void end_with_parent(pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        fprintf(stderr, "the parent is gone, or its end would go unnoticed\n");
        exit(1);
    }
    (void) alarm(TIME_LIMIT);
}

static void side_open(struct side *side)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA,
    };
    ucp_worker_params_t worker_params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    ucp_mem_map_params_t map_params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .length = WINDOW_MAX * BUFFER_SIZE,
    };
    ucp_config_t *config;

    check(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
    side_configure(side, config);
    check(ucp_init(&params, config, &side->context), "ucp_init");
    ucp_config_release(config);
    check(ucp_worker_create(side->context, &worker_params, &side->worker), "ucp_worker_create");
    side->buffer = mmap(NULL, WINDOW_MAX * BUFFER_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check_system(side->buffer != MAP_FAILED, "mmap");
    memset(side->buffer, 1, (side->options->window + 1) * BUFFER_SIZE);
    map_params.address = side->buffer;
    check(ucp_mem_map(side->context, &map_params, &side->memory), "ucp_mem_map");
}

static void side_configure(const struct side *side, ucp_config_t *config)
{
    check(ucp_config_modify(config, "TLS", side->options->tls), "UCX_TLS");
    if (side->options->device != NULL)
        check(ucp_config_modify(config, "NET_DEVICES", side->options->device), "UCX_NET_DEVICES");
    if (side->options->handles_errors && strstr(side->options->tls, "tcp") == NULL)
        check(ucp_config_modify(config, "MM_ERROR_HANDLING", "y"), "UCX_MM_ERROR_HANDLING");
}

/* What each side tells the other. */
struct introduction {
    uint64_t base;
    uint64_t address_size;
    uint64_t key_size;
    uint8_t address[8192];
    uint8_t key[4096];
};

static void side_connect(struct side *side)
{
    static struct introduction own, other;
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = (const ucp_address_t *) (const void *) other.address,
        .err_mode =
            side->options->handles_errors ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE,
    };
    ucp_address_t *address;
    size_t size;
    void *key;

    own.base = (uint64_t) (uintptr_t) side->buffer;
    check(ucp_worker_get_address(side->worker, &address, &size), "ucp_worker_get_address");
    check_system(size <= sizeof(own.address), "size of the worker's address");
    memcpy(own.address, address, size);
    own.address_size = size;
    ucp_worker_release_address(side->worker, address);
    check(ucp_rkey_pack(side->context, side->memory, &key, &size), "ucp_rkey_pack");
    check_system(size <= sizeof(own.key), "size of the remote key");
    memcpy(own.key, key, size);
    own.key_size = size;
    ucp_rkey_buffer_release(key);
    side_exchange(side, &own, sizeof(own), &other, sizeof(other));
    side->peer_base = other.base;
    check(ucp_ep_create(side->worker, &params, &side->endpoint), "ucp_ep_create");
    check(ucp_ep_rkey_unpack(side->endpoint, other.key, &side->key), "ucp_ep_rkey_unpack");
}

static void side_exchange(struct side *side, const void *own, size_t own_size, void *other,
                          size_t other_size)
{
    check_system(write(side->socket, own, own_size) == (ssize_t) own_size, "write");
    check_system(recv(side->socket, other, other_size, MSG_WAITALL) == (ssize_t) other_size,
                 "recv");
}

static void side_close(struct side *side)
{
    ucp_rkey_destroy(side->key);
    (void) ucp_mem_unmap(side->context, side->memory);
    ucp_worker_destroy(side->worker);
    ucp_cleanup(side->context);
    (void) munmap(side->buffer, WINDOW_MAX * BUFFER_SIZE);
    (void) close(side->socket);
}

/* Waits for the other side, with progress. */
static void side_barrier(struct side *side)
{
    char byte = 0;

    check_system(send(side->socket, &byte, 1, MSG_NOSIGNAL) == 1, "send");
    for (;;) {
        ssize_t got = recv(side->socket, &byte, 1, MSG_DONTWAIT);

        if (got == 1)
            return;
        check_system(got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK), "the other process");
        (void) ucp_worker_progress(side->worker);
    }
}

static void side_drain(struct side *side, uint64_t count)
{
    while (side->done < count)
        (void) ucp_worker_progress(side->worker);
}

static void side_send(struct side *side, uint64_t offset, uint64_t size)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = request_sent,
        .user_data = side,
    };

    take_request(side, ucp_tag_send_nbx(side->endpoint, side->buffer + offset, size, TAG, &param),
                 "ucp_tag_send_nbx");
}

static void side_receive(struct side *side, uint64_t offset, uint64_t size)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.recv = request_received,
        .user_data = side,
    };

    take_request(
        side, ucp_tag_recv_nbx(side->worker, side->buffer + offset, size, TAG, UINT64_MAX, &param),
        "ucp_tag_recv_nbx");
}

static void side_rma(struct side *side, enum direction direction, uint64_t offset, uint64_t size)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = request_sent,
        .user_data = side,
    };

    if (direction == DIRECTION_READ)
        take_request(side,
                     ucp_get_nbx(side->endpoint, side->buffer + offset, size,
                                 side->peer_base + offset, side->key, &param),
                     "ucp_get_nbx");
    else
        take_request(side,
                     ucp_put_nbx(side->endpoint, side->buffer + offset, size,
                                 side->peer_base + offset, side->key, &param),
                     "ucp_put_nbx");
}

static void take_request(struct side *side, ucs_status_ptr_t request, const char *what)
{
    if (request == NULL)
        side->done++;
    else if (UCS_PTR_IS_ERR(request))
        check(UCS_PTR_STATUS(request), what);
}

static void request_sent(void *request, ucs_status_t status, void *arg)
{
    struct side *side = arg;

    check(status, "a request");
    side->done++;
    ucp_request_free(request);
}

static void request_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                             void *arg)
{
    (void) info;
    request_sent(request, status, arg);
}

/* Seconds of a round trip, the median of several blocks. */
static double measure_ping_pong(struct side *side)
{
    double blocks[BLOCKS];
    uint64_t count;

    (void) ping_pong_block(side, 1000);
    count = 2000 + (uint64_t) (side->options->seconds / BLOCKS * 50000);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = ping_pong_block(side, count);
    qsort(blocks, BLOCKS, sizeof(blocks[0]), compare_doubles);
    return blocks[BLOCKS / 2];
}

/* The receive for the answer is posted before what is answered is sent. */
static double ping_pong_block(struct side *side, uint64_t count)
{
    uint64_t size = side->options->message;
    double begin;

    side_barrier(side);
    side->done = 0;
    if (!side->is_origin)
        side_receive(side, BUFFER_SIZE, size);
    side_barrier(side);
    begin = now();
    for (uint64_t i = 0; i < count; i++) {
        if (side->is_origin) {
            side_receive(side, BUFFER_SIZE, size);
            side_send(side, 0, size);
            side_drain(side, 2 * (i + 1));
        } else {
            side_drain(side, 2 * i + 1);
            if (i + 1 < count)
                side_receive(side, BUFFER_SIZE, size);
            side_send(side, 0, size);
            side_drain(side, 2 * i + 2);
        }
    }
    return (now() - begin) / (double) count;
}

/* Messages in a second, one way, as many in flight as the window of buffers allows. */
static double measure_rate(struct side *side)
{
    uint64_t count = 20000 + (uint64_t) (side->options->seconds * 200000), posted = 0;
    uint64_t size = side->options->message;
    double begin;

    side_barrier(side);
    side->done = 0;
    for (; !side->is_origin && posted < WINDOW_MAX; posted++)
        side_receive(side, posted * BUFFER_SIZE, size);
    side_barrier(side);
    begin = now();
    if (side->is_origin) {
        for (; posted < count; posted++) {
            while (posted - side->done >= WINDOW_MAX)
                (void) ucp_worker_progress(side->worker);
            side_send(side, 0, size);
        }
        side_drain(side, count);
        side_receive(side, BUFFER_SIZE, size);
        side_drain(side, count + 1);
        return (double) count / (now() - begin);
    }
    while (side->done < count) {
        (void) ucp_worker_progress(side->worker);
        while (posted < count && posted - side->done < WINDOW_MAX) {
            side_receive(side, posted % WINDOW_MAX * BUFFER_SIZE, size);
            posted++;
        }
    }
    side_send(side, 0, size);
    side_drain(side, count + 1);
    return 0;
}

/* Bytes in a second of tagged messages from target to origin: what a pull could be made of. */
static double measure_stream(struct side *side, uint64_t size)
{
    uint64_t count = 8 + (uint64_t) (side->options->seconds * 2e9 / (double) size);
    uint64_t posted = 0, window = side->options->window + 1;
    double begin;

    side_barrier(side);
    side->done = 0;
    for (; side->is_origin && posted < window && posted < count; posted++)
        side_receive(side, posted % window * BUFFER_SIZE, size);
    side_barrier(side);
    begin = now();
    while (side->done < count) {
        for (; posted < count && posted - side->done < window; posted++) {
            if (side->is_origin)
                side_receive(side, posted % window * BUFFER_SIZE, size);
            else
                side_send(side, posted % window * BUFFER_SIZE, size);
        }
        (void) ucp_worker_progress(side->worker);
    }
    return (double) count * (double) size / (now() - begin);
}

/* A put counts when the endpoint was flushed behind all of them. */
static double measure_rma(struct side *side, enum direction direction, uint64_t size)
{
    uint64_t count = 8 + (uint64_t) (side->options->seconds * 1e9 / (double) size);
    uint64_t window = side->options->window, posted = 0;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = request_sent,
        .user_data = side,
    };
    double begin, elapsed;

    side_barrier(side);
    side->done = 0;
    begin = now();
    while (side->is_origin && side->done < count) {
        for (; posted < count && posted - side->done < window; posted++)
            side_rma(side, direction, posted % window * BUFFER_SIZE, size);
        (void) ucp_worker_progress(side->worker);
    }
    if (side->is_origin) {
        take_request(side, ucp_ep_flush_nbx(side->endpoint, &param), "ucp_ep_flush_nbx");
        side_drain(side, count + 1);
    }
    elapsed = now() - begin;
    side_barrier(side);
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

/* This is a measuring tool: whatever fails, there is nothing to measure. */
static void check(ucs_status_t status, const char *what)
{
    if (status == UCS_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
    exit(1);
}

static void check_system(bool is_good, const char *what)
{
    if (is_good)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}
