/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libfabric alone reaches between two processes of this machine, as JSON: the measure for what
 * the ofi plugin makes of the same provider. Reliable datagram endpoints, busy polling.
 */

#include <errno.h>
#include <getopt.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
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
#include <unistd.h>

/* Nothing here lasts so long: seconds after which both processes end, whatever they do. */
#define TIME_LIMIT  600

#define BUFFER_SIZE (UINT64_C(16) << 20)
#define WINDOW_MAX  64
#define TRIPS_MAX   1000000
#define TAG         1
#define TAG_END     2

struct options {
    const char *provider;
    const char *node;
    uint64_t message; /* bytes of a ping */
    uint32_t window;  /* bulk requests in flight */
    double seconds;   /* for each measurement */
    bool untagged;    /* fi_send and fi_recv in the ping-pong */
};

struct side {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *endpoint;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_mr *mr;
    void *descriptor;
    uint8_t *buffer; /* WINDOW_MAX * BUFFER_SIZE, touched as far as used */
    fi_addr_t peer;
    uint64_t peer_key;
    uint64_t peer_base;
    int socket; /* to the other process, for the start of each measurement */
    bool is_origin;
    const struct options *options;
    uint64_t sends; /* completions seen */
    uint64_t receives;
    uint64_t rmas;
    struct fi_context2 contexts[2 * WINDOW_MAX];
};

enum direction {
    DIRECTION_READ,
    DIRECTION_WRITE
};

static void usage(const char *program);
static void end_with_parent(pid_t parent);
static void side_open(struct side *side);
static void side_connect(struct side *side);
static void side_close(struct side *side);
static void side_barrier(struct side *side);
static void side_poll(struct side *side);
static void side_send(struct side *side, uint64_t offset, uint64_t size, uint32_t slot);
static void side_receive(struct side *side, uint64_t offset, uint64_t size, uint32_t slot);
static void side_rma(struct side *side, enum direction direction, uint64_t offset, uint64_t size,
                     uint32_t slot);
static double measure_ping_pong(struct side *side);
static double measure_rate(struct side *side);
static double measure_stream(struct side *side, uint64_t size);
static double measure_rma(struct side *side, enum direction direction, uint64_t size);
static void ping_pong(struct side *side, double *trips, uint64_t count);
static int compare_doubles(const void *a, const void *b);
static double now(void);
static void check(int64_t ret, const char *what);

int main(int argc, char **argv)
{
    static const uint64_t sizes[] = {65536, 262144, 1 << 20, 4 << 20, 16 << 20};
    struct options options = {
        .provider = "tcp;ofi_rxm", .node = "127.0.0.1", .message = 8, .window = 1, .seconds = 1.0};
    struct side side = {.options = &options};
    int sockets[2], option, status = 0;
    double round_trip, rate;
    pid_t child, parent = getpid();

    while ((option = getopt(argc, argv, "p:n:m:w:s:u")) != -1) {
        switch (option) {
        case 'p':
            options.provider = optarg;
            break;
        case 'n':
            options.node = optarg;
            break;
        case 'm':
            options.message = strtoull(optarg, NULL, 10);
            break;
        case 'w':
            options.window = (uint32_t) strtoul(optarg, NULL, 10);
            break;
        case 's':
            options.seconds = strtod(optarg, NULL);
            break;
        case 'u':
            options.untagged = true;
            break;
        default:
            usage(argv[0]);
            return 2;
        }
    }
    if (options.window == 0 || options.window > WINDOW_MAX || options.message > BUFFER_SIZE) {
        usage(argv[0]);
        return 2;
    }
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    (void) alarm(TIME_LIMIT);
    child = fork();
    check(child, "fork");
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
        printf("{\"provider\": \"%s\", \"protocol\": \"%s\", \"window\": %u, "
               "\"message\": %llu, \"round_trip_us\": %.3f, \"messages_per_s\": %.0f, \"bulk\": [",
               side.info->fabric_attr->prov_name,
               fi_tostr(&side.info->ep_attr->protocol, FI_TYPE_PROTOCOL), options.window,
               (unsigned long long) options.message, round_trip * 1e6, rate);
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

static void usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [-p provider] [-n node] [-m message bytes] [-w bulk requests in flight, "
            "1..%d] [-s seconds] [-u untagged messages]\n",
            program, WINDOW_MAX);
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
    struct fi_info *hints = fi_allocinfo();
    struct fi_av_attr av_attr = {.type = FI_AV_MAP};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    bool by_name = strstr(side->options->provider, "shm") != NULL ||
                   strstr(side->options->provider, "psm") != NULL;

    if (hints == NULL)
        check(-FI_ENOMEM, "fi_allocinfo");
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(side->options->provider);
    check(fi_getinfo(FI_VERSION(1, 15), by_name ? NULL : side->options->node, NULL,
                     by_name ? 0 : FI_SOURCE, hints, &side->info),
          "fi_getinfo");
    fi_freeinfo(hints);
    check(fi_fabric(side->info->fabric_attr, &side->fabric, NULL), "fi_fabric");
    check(fi_domain(side->fabric, side->info, &side->domain, NULL), "fi_domain");
    check(fi_endpoint(side->domain, side->info, &side->endpoint, NULL), "fi_endpoint");
    check(fi_cq_open(side->domain, &cq_attr, &side->cq, NULL), "fi_cq_open");
    check(fi_av_open(side->domain, &av_attr, &side->av, NULL), "fi_av_open");
    check(fi_ep_bind(side->endpoint, &side->cq->fid, FI_SEND | FI_RECV), "fi_ep_bind");
    check(fi_ep_bind(side->endpoint, &side->av->fid, 0), "fi_ep_bind");
    check(fi_enable(side->endpoint), "fi_enable");
    side->buffer = mmap(NULL, WINDOW_MAX * BUFFER_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (side->buffer == MAP_FAILED)
        check(-errno, "mmap");
    memset(side->buffer, 1, side->options->window * BUFFER_SIZE);
    check(fi_mr_reg(side->domain, side->buffer, WINDOW_MAX * BUFFER_SIZE,
                    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1,
                    0, &side->mr, NULL),
          "fi_mr_reg");
    side->descriptor = fi_mr_desc(side->mr);
}

/* What each side tells the other. */
struct introduction {
    uint64_t key;
    uint64_t base;
    uint64_t length;
    uint8_t address[512];
};

static void side_connect(struct side *side)
{
    struct introduction own = {.key = fi_mr_key(side->mr)}, other;
    size_t length = sizeof(own.address);

    if ((side->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0)
        own.base = (uint64_t) (uintptr_t) side->buffer;
    check(fi_getname(&side->endpoint->fid, own.address, &length), "fi_getname");
    own.length = length;
    check(write(side->socket, &own, sizeof(own)) == sizeof(own) ? 0 : -errno, "write");
    check(recv(side->socket, &other, sizeof(other), MSG_WAITALL) == sizeof(other) ? 0 : -EPIPE,
          "recv");
    check(fi_av_insert(side->av, other.address, 1, &side->peer, 0, NULL) == 1 ? 0 : -FI_EINVAL,
          "fi_av_insert");
    side->peer_key = other.key;
    side->peer_base = other.base;
}

static void side_close(struct side *side)
{
    (void) fi_close(&side->mr->fid);
    (void) fi_close(&side->endpoint->fid);
    (void) fi_close(&side->av->fid);
    (void) fi_close(&side->cq->fid);
    (void) fi_close(&side->domain->fid);
    (void) fi_close(&side->fabric->fid);
    fi_freeinfo(side->info);
    (void) munmap(side->buffer, WINDOW_MAX * BUFFER_SIZE);
    (void) close(side->socket);
}

/* Waits for the other side, with progress. */
static void side_barrier(struct side *side)
{
    char byte = 0;

    check(send(side->socket, &byte, 1, MSG_NOSIGNAL) == 1 ? 0 : -EPIPE, "send");
    for (;;) {
        ssize_t got = recv(side->socket, &byte, 1, MSG_DONTWAIT);

        if (got == 1)
            return;
        check(got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -EPIPE, "recv");
        side_poll(side);
    }
}

static void side_poll(struct side *side)
{
    struct fi_cq_tagged_entry entries[16];
    struct fi_cq_err_entry error = {0};
    ssize_t count = fi_cq_read(side->cq, entries, 16);

    if (count == -FI_EAGAIN)
        return;
    if (count == -FI_EAVAIL && fi_cq_readerr(side->cq, &error, 0) == 1)
        check(-error.err, "completion");
    check(count, "fi_cq_read");
    for (ssize_t i = 0; i < count; i++) {
        if ((entries[i].flags & FI_RMA) != 0)
            side->rmas++;
        else if ((entries[i].flags & FI_RECV) != 0)
            side->receives++;
        else
            side->sends++;
    }
}

static void side_send(struct side *side, uint64_t offset, uint64_t size, uint32_t slot)
{
    ssize_t ret;

    do {
        if (side->options->untagged)
            ret = fi_send(side->endpoint, side->buffer + offset, size, side->descriptor, side->peer,
                          &side->contexts[slot]);
        else
            ret = fi_tsend(side->endpoint, side->buffer + offset, size, side->descriptor,
                           side->peer, TAG, &side->contexts[slot]);
        if (ret == -FI_EAGAIN)
            side_poll(side);
    } while (ret == -FI_EAGAIN);
    check(ret, "fi_tsend");
}

static void side_receive(struct side *side, uint64_t offset, uint64_t size, uint32_t slot)
{
    ssize_t ret;

    do {
        if (side->options->untagged)
            ret = fi_recv(side->endpoint, side->buffer + offset, size, side->descriptor,
                          FI_ADDR_UNSPEC, &side->contexts[WINDOW_MAX + slot]);
        else
            ret = fi_trecv(side->endpoint, side->buffer + offset, size, side->descriptor,
                           FI_ADDR_UNSPEC, TAG, 0, &side->contexts[WINDOW_MAX + slot]);
        if (ret == -FI_EAGAIN)
            side_poll(side);
    } while (ret == -FI_EAGAIN);
    check(ret, "fi_trecv");
}

static void side_rma(struct side *side, enum direction direction, uint64_t offset, uint64_t size,
                     uint32_t slot)
{
    struct iovec vector = {side->buffer + offset, size};
    struct fi_rma_iov remote = {side->peer_base + offset, size, side->peer_key};
    struct fi_msg_rma message = {
        .msg_iov = &vector,
        .desc = &side->descriptor,
        .iov_count = 1,
        .addr = side->peer,
        .rma_iov = &remote,
        .rma_iov_count = 1,
        .context = &side->contexts[slot],
    };
    ssize_t ret;

    do {
        if (direction == DIRECTION_READ)
            ret = fi_readmsg(side->endpoint, &message, FI_COMPLETION);
        else
            ret = fi_writemsg(side->endpoint, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
        if (ret == -FI_EAGAIN)
            side_poll(side);
    } while (ret == -FI_EAGAIN);
    check(ret, direction == DIRECTION_READ ? "fi_readmsg" : "fi_writemsg");
}

/* Seconds of a round trip, the median of single ones. */
static double measure_ping_pong(struct side *side)
{
    uint64_t count = 2000 + (uint64_t) (side->options->seconds * 50000);
    double *trips, median;

    if (count > TRIPS_MAX)
        count = TRIPS_MAX;
    trips = calloc(count, sizeof(*trips));
    if (trips == NULL)
        check(-FI_ENOMEM, "calloc");
    ping_pong(side, trips, 2000);
    ping_pong(side, trips, count);
    qsort(trips, count, sizeof(trips[0]), compare_doubles);
    median = trips[count / 2];
    free(trips);
    return median;
}

static void ping_pong(struct side *side, double *trips, uint64_t count)
{
    uint64_t size = side->options->message;
    double begin, end;

    side_barrier(side);
    side->receives = 0;
    side->sends = 0;
    side_receive(side, BUFFER_SIZE, BUFFER_SIZE, 0);
    side_barrier(side);
    begin = now();
    for (uint64_t i = 0; i < count; i++) {
        if (side->is_origin)
            side_send(side, 0, size, 0);
        while (side->receives == i)
            side_poll(side);
        if (i + 1 < count)
            side_receive(side, BUFFER_SIZE, BUFFER_SIZE, 0);
        if (!side->is_origin)
            side_send(side, 0, size, 0);
        while (side->sends == i)
            side_poll(side);
        end = now();
        trips[i] = end - begin;
        begin = end;
    }
}

/* Messages in a second, one way, as many in flight as the window of buffers allows. */
static double measure_rate(struct side *side)
{
    uint64_t count = 20000 + (uint64_t) (side->options->seconds * 200000);
    uint64_t size = side->options->message, done = 0;
    double begin;

    side_barrier(side);
    side->receives = 0;
    side->sends = 0;
    if (!side->is_origin)
        for (uint32_t i = 0; i < WINDOW_MAX; i++)
            side_receive(side, i * BUFFER_SIZE, size, i);
    side_barrier(side);
    begin = now();
    if (side->is_origin) {
        for (uint64_t i = 0; i < count; i++) {
            while (i - side->sends >= WINDOW_MAX)
                side_poll(side);
            side_send(side, 0, size, i % WINDOW_MAX);
        }
        while (side->sends < count)
            side_poll(side);
        side_receive(side, BUFFER_SIZE, size, 0);
        while (side->receives == 0)
            side_poll(side);
        return (double) count / (now() - begin);
    }
    while (done < count) {
        side_poll(side);
        for (; done < side->receives; done++)
            if (done + WINDOW_MAX < count)
                side_receive(side, (done % WINDOW_MAX) * BUFFER_SIZE, size, done % WINDOW_MAX);
    }
    side_send(side, 0, size, 0);
    while (side->sends == 0)
        side_poll(side);
    return 0;
}

/* Bytes in a second of tagged messages from target to origin: what a pull could be made of. */
static double measure_stream(struct side *side, uint64_t size)
{
    uint64_t count = 8 + (uint64_t) (side->options->seconds * 2e9 / (double) size);
    uint32_t window = side->options->window + 1;
    uint64_t posted = 0;
    double begin;

    side_barrier(side);
    side->receives = 0;
    side->sends = 0;
    if (window > WINDOW_MAX)
        window = WINDOW_MAX;
    if (side->is_origin)
        for (; posted < window && posted < count; posted++)
            side_receive(side, posted % window * BUFFER_SIZE, size, (uint32_t) (posted % window));
    side_barrier(side);
    begin = now();
    while ((side->is_origin ? side->receives : side->sends) < count) {
        if (side->is_origin && posted < count && posted - side->receives < window) {
            side_receive(side, posted % window * BUFFER_SIZE, size, (uint32_t) (posted % window));
            posted++;
        } else if (!side->is_origin && posted < count && posted - side->sends < window) {
            side_send(side, posted % window * BUFFER_SIZE, size, (uint32_t) (posted % window));
            posted++;
        }
        side_poll(side);
    }
    return (double) count * (double) size / (now() - begin);
}

static double measure_rma(struct side *side, enum direction direction, uint64_t size)
{
    uint64_t count = 8 + (uint64_t) (side->options->seconds * 2e9 / (double) size);
    uint64_t window = side->options->window, posted = 0;
    double begin, elapsed;

    side_barrier(side);
    side->rmas = 0;
    begin = now();
    while (side->is_origin && side->rmas < count) {
        if (posted < count && posted - side->rmas < window) {
            side_rma(side, direction, posted % window * BUFFER_SIZE, size,
                     (uint32_t) (posted % window));
            posted++;
        }
        side_poll(side);
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
static void check(int64_t ret, const char *what)
{
    if (ret >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, fi_strerror((int) -ret));
    exit(1);
}
