/* SPDX-License-Identifier: BSD-3-Clause */
/* The hostile proxy: a thread that accepts connections, splits the streams into messages and
 * attacks some of them. */
#define _GNU_SOURCE /* memmem */
#include "hostile.h"

#include "hostile_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* One direction of a connection. */
struct flow {
    int from, to;
    uint32_t number; /* the number of the process that sends in this direction */
    struct hostile_stream stream;
    uint8_t data[2 * HOSTILE_MESSAGE_MAX];
    size_t size;
    struct hostile_message *held; /* reordered: sent after the next message */
};

struct hostile_link {
    struct flow flows[2];
    bool is_over;
};

static bool flow_read(struct hostile *hostile, struct flow *flow, struct flow *back);
static bool flow_cut(struct hostile *hostile, struct flow *flow, struct flow *back);
static bool flow_pass(struct hostile *hostile, struct flow *flow, struct flow *back,
                      struct hostile_message *message);
static bool flow_attack(struct hostile *hostile, struct flow *flow, struct flow *back,
                        struct hostile_message *message);

static bool write_all(int fd, const uint8_t *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        const ssize_t sent = send(fd, data + done, size - done, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        done += (size_t) sent;
    }
    return true;
}

static bool message_write(int fd, const struct hostile_message *message)
{
    return write_all(fd, message->data, message->size);
}

/* Connects to the port that the connecting process named to the proxy. */
static int target_connect(const uint8_t said[HOSTILE_SAID])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int target = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(&address.sin_port, said, sizeof(address.sin_port));
    if (target >= 0 && connect(target, (const struct sockaddr *) &address, sizeof(address)) == 0)
        return target;
    (void) close(target);
    return -1;
}

static void link_accept(struct hostile *hostile)
{
    const int one = 1;
    const int fd = accept(hostile->listen_fd, NULL, NULL);
    uint8_t said[HOSTILE_SAID];
    const bool is_said =
        fd >= 0 && recv(fd, said, sizeof(said), MSG_WAITALL) == (ssize_t) sizeof(said);
    const int target = is_said ? target_connect(said) : -1;
    struct hostile_link *link =
        target >= 0 && hostile->count < HOSTILE_LINKS_MAX ? calloc(1, sizeof(*link)) : NULL;

    if (link == NULL) {
        (void) close(fd);
        (void) close(target);
        return;
    }
    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void) setsockopt(target, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    for (uint32_t i = 0; i < 2; i++) {
        link->flows[i].from = i == 0 ? fd : target;
        link->flows[i].to = i == 0 ? target : fd;
        link->flows[i].number = (said[HOSTILE_SAID - 1] & 1) ^ i;
        hostile_stream_begin(&link->flows[i].stream, hostile->transport, i == 0);
    }
    hostile->links[hostile->count++] = link;
}

static void link_end(struct hostile_link *link)
{
    if (link->is_over)
        return;
    link->is_over = true;
    (void) close(link->flows[0].from);
    (void) close(link->flows[1].from);
    free(link->flows[0].held);
    free(link->flows[1].held);
}

/* Ends all connections if that was requested. Returns how many connections were ever accepted. */
static uint32_t links_cut(struct hostile *hostile)
{
    pthread_mutex_lock(&hostile->mutex);
    for (uint32_t i = 0; i < hostile->count && hostile->is_cut; i++)
        link_end(hostile->links[i]);
    hostile->is_cut = false;
    pthread_mutex_unlock(&hostile->mutex);
    return hostile->count;
}

static void *hostile_run(void *arg)
{
    struct hostile *hostile = arg;
    static struct pollfd polls[2 * HOSTILE_LINKS_MAX + 1];

    while (!atomic_load(&hostile->is_over)) {
        /* a connection accepted in this round is polled in the next */
        const uint32_t count = links_cut(hostile);

        for (uint32_t i = 0; i < 2 * count; i++)
            polls[i] = (struct pollfd){.fd = hostile->links[i / 2]->is_over
                                                 ? -1
                                                 : hostile->links[i / 2]->flows[i % 2].from,
                                       .events = POLLIN};
        polls[2 * count] = (struct pollfd){.fd = hostile->listen_fd, .events = POLLIN};
        if (poll(polls, 2 * count + 1, 10) <= 0)
            continue;
        if (polls[2 * count].revents != 0)
            link_accept(hostile);
        for (uint32_t i = 0; i < 2 * count; i++) {
            struct hostile_link *link = hostile->links[i / 2];

            if (polls[i].revents != 0 && !link->is_over &&
                !flow_read(hostile, &link->flows[i % 2], &link->flows[1 - i % 2]))
                link_end(link);
        }
    }
    return NULL;
}

/* Receives what has arrived and forwards each complete message. Returns false when the connection
 * ended. */
static bool flow_read(struct hostile *hostile, struct flow *flow, struct flow *back)
{
    const ssize_t size =
        recv(flow->from, flow->data + flow->size, sizeof(flow->data) - flow->size, 0);

    if (size <= 0)
        return false;
    if (memmem(flow->data + flow->size, (size_t) size, hostile->plaintext,
               strlen(hostile->plaintext)) != NULL)
        (void) atomic_fetch_add(&hostile->seen, 1);
    flow->size += (size_t) size;
    return flow_cut(hostile, flow, back);
}

static bool flow_cut(struct hostile *hostile, struct flow *flow, struct flow *back)
{
    static struct hostile_message message;
    size_t done = 0;
    bool is_good = true;

    while (is_good && done < flow->size) {
        const size_t size =
            hostile_stream_next(&flow->stream, &back->stream, flow->data + done, flow->size - done);

        if (size == 0)
            break;
        memcpy(message.data, flow->data + done, size);
        message.size = size;
        hostile_stream_classify(&flow->stream, &message);
        is_good = flow_pass(hostile, flow, back, &message);
        done += size;
    }
    memmove(flow->data, flow->data + done, flow->size - done);
    flow->size -= done;
    return is_good;
}

static bool flow_pass(struct hostile *hostile, struct flow *flow, struct flow *back,
                      struct hostile_message *message)
{
    struct hostile_message *held = flow->held;
    bool is_good;

    pthread_mutex_lock(&hostile->mutex);
    hostile->counts[flow->number][message->kind]++;
    if (hostile->is_armed && message->kind == hostile->order.kind &&
        flow->number == hostile->order.from) {
        hostile->is_armed = false;
        is_good = flow_attack(hostile, flow, back, message);
    } else {
        if (message->kind != HOSTILE_OTHER)
            hostile->last[flow->number][message->kind] = *message;
        is_good = message_write(flow->to, message);
    }
    /* A reordered message waits for one with a frame: overtaking the transport's own messages would
     * not change the order of the frames. */
    if (is_good && held != NULL && message->kind != HOSTILE_OTHER) {
        is_good = message_write(flow->to, held);
        hostile->done++;
        flow->held = NULL;
        free(held);
    }
    pthread_mutex_unlock(&hostile->mutex);
    return is_good;
}

/* Returns false when the connection ended. */
static bool flow_attack(struct hostile *hostile, struct flow *flow, struct flow *back,
                        struct hostile_message *message)
{
    static struct hostile_message refusal;
    const struct hostile_order *order = &hostile->order;
    const struct hostile_message *kept = &hostile->kept[flow->number][message->kind];

    hostile->done +=
        order->attack != HOSTILE_REORDER && (order->attack != HOSTILE_SWAP || kept->size != 0);
    switch (order->attack) {
    case HOSTILE_REPLAY:
        return message_write(flow->to, message) && message_write(flow->to, message);
    case HOSTILE_SWAP:
        return message_write(flow->to, kept->size != 0 ? kept : message);
    case HOSTILE_REFLECT:
        return message_write(flow->to, message) && message_write(back->to, message);
    case HOSTILE_TRUNCATE:
        hostile_stream_shorten(&flow->stream, message, 1 + order->place % (message->frame_size - 1),
                               order->place % 2 == 0);
        return message_write(flow->to, message);
    case HOSTILE_EDIT:
        message->data[message->at + order->place % message->frame_size] ^= 0x10;
        return message_write(flow->to, message);
    case HOSTILE_REFUSE:
        refusal = *message;
        hostile_stream_refuse(&flow->stream, &refusal);
        return message_write(flow->to, &refusal) && message_write(flow->to, message);
    default: /* counted as done once another message has overtaken this one */
        flow->held = malloc(sizeof(*message));
        if (flow->held != NULL)
            *flow->held = *message;
        return flow->held != NULL;
    }
}

void hostile_open(struct hostile *hostile, const char *transport, const char *plaintext)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);

    memset(hostile, 0, sizeof(*hostile));
    hostile->transport = transport;
    hostile->plaintext = plaintext;
    assert_int_equal(pthread_mutex_init(&hostile->mutex, NULL), 0);
    hostile->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(hostile->listen_fd >= 0);
    assert_int_equal(bind(hostile->listen_fd, (struct sockaddr *) &address, size), 0);
    assert_int_equal(listen(hostile->listen_fd, 128), 0);
    assert_int_equal(getsockname(hostile->listen_fd, (struct sockaddr *) &address, &size), 0);
    hostile->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&hostile->thread, NULL, hostile_run, hostile), 0);
}

void hostile_close(struct hostile *hostile)
{
    atomic_store(&hostile->is_over, true);
    (void) pthread_join(hostile->thread, NULL);
    for (uint32_t i = 0; i < hostile->count; i++) {
        link_end(hostile->links[i]);
        free(hostile->links[i]);
    }
    (void) close(hostile->listen_fd);
    (void) pthread_mutex_destroy(&hostile->mutex);
}

void hostile_arm(struct hostile *hostile, const struct hostile_order *order)
{
    pthread_mutex_lock(&hostile->mutex);
    hostile->is_armed = true;
    hostile->order = *order;
    hostile->done = 0;
    pthread_mutex_unlock(&hostile->mutex);
}

void hostile_disarm(struct hostile *hostile)
{
    pthread_mutex_lock(&hostile->mutex);
    hostile->is_armed = false;
    pthread_mutex_unlock(&hostile->mutex);
}

uint32_t hostile_done(struct hostile *hostile)
{
    uint32_t done;

    pthread_mutex_lock(&hostile->mutex);
    done = hostile->done;
    pthread_mutex_unlock(&hostile->mutex);
    return done;
}

uint32_t hostile_count(struct hostile *hostile, uint32_t from, enum hostile_kind kind)
{
    uint32_t count;

    pthread_mutex_lock(&hostile->mutex);
    count = hostile->counts[from][kind];
    pthread_mutex_unlock(&hostile->mutex);
    return count;
}

void hostile_cut(struct hostile *hostile)
{
    pthread_mutex_lock(&hostile->mutex);
    hostile->is_cut = true;
    pthread_mutex_unlock(&hostile->mutex);
}

void hostile_keep(struct hostile *hostile)
{
    pthread_mutex_lock(&hostile->mutex);
    memcpy(hostile->kept, hostile->last, sizeof(hostile->kept));
    pthread_mutex_unlock(&hostile->mutex);
}
