/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP without Amalgam: one connection, blocking writes, and blocking reads into the posted buffers
 * in order.
 */

#include "raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* Time-out of a read, because the other process may have nothing to send before a barrier. */
#define READ_US 1000

struct posted {
    uint64_t offset;
    uint64_t size;
};

struct side {
    struct raw_side raw;
    int fd;
    struct posted posted[RAW_WINDOW_MAX + 1];
    uint64_t first, last; /* posted buffers in use, as running counts */
    uint64_t received;    /* bytes in the first posted buffer */
};

static void side_open(struct raw_side *raw);
static void side_connect(struct raw_side *raw);
static void side_close(struct raw_side *raw);
static void side_poll(struct raw_side *raw);
static void side_send(struct raw_side *raw, uint64_t offset, uint64_t size, uint32_t slot);
static void side_receive(struct raw_side *raw, uint64_t offset, uint64_t size, uint32_t slot);

int main(int argc, char **argv)
{
    static const struct raw_library library = {
        .provider = "127.0.0.1",
        .variant = "nothing",
        .side_size = sizeof(struct side),
        .open = side_open,
        .connect = side_connect,
        .close = side_close,
        .poll = side_poll,
        .send = side_send,
        .receive = side_receive,
    };

    return raw_main(argc, argv, &library);
}

/* The target will listen on this socket; the origin will connect it. */
static void side_open(struct raw_side *raw)
{
    struct side *side = (struct side *) raw;

    side->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    raw_check(side->fd >= 0, "socket");
}

static void side_connect(struct raw_side *raw)
{
    struct side *side = (struct side *) raw;
    const struct timeval patience = {.tv_usec = READ_US};
    struct sockaddr_in own = {.sin_family = AF_INET}, other;
    socklen_t size = sizeof(own);
    int one = 1;

    raw_check(inet_pton(AF_INET, raw->options->provider, &own.sin_addr) == 1, "the address");
    if (!raw->is_origin)
        raw_check(bind(side->fd, (struct sockaddr *) &own, sizeof(own)) == 0 &&
                      listen(side->fd, 1) == 0 &&
                      getsockname(side->fd, (struct sockaddr *) &own, &size) == 0,
                  "listen");
    raw_exchange(raw, &own, sizeof(own), &other, sizeof(other));
    if (raw->is_origin) {
        raw_check(connect(side->fd, (struct sockaddr *) &other, sizeof(other)) == 0, "connect");
    } else {
        int listener = side->fd;

        side->fd = accept(listener, NULL, NULL);
        raw_check(side->fd >= 0, "accept");
        (void) close(listener);
    }
    raw_check(setsockopt(side->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0 &&
                  setsockopt(side->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0,
              "setsockopt");
}

static void side_close(struct raw_side *raw)
{
    (void) close(((struct side *) raw)->fd);
}

static void side_poll(struct raw_side *raw)
{
    struct side *side = (struct side *) raw;
    struct posted *posted = &side->posted[side->first % (RAW_WINDOW_MAX + 1)];
    ssize_t size;

    if (side->first == side->last)
        return;
    size = recv(side->fd, raw->buffer + posted->offset + side->received,
                posted->size - side->received, MSG_WAITALL);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    raw_check(size > 0, "recv");
    side->received += (uint64_t) size;
    if (side->received < posted->size)
        return;
    side->received = 0;
    side->first++;
    raw->done++;
}

static void side_send(struct raw_side *raw, uint64_t offset, uint64_t size, uint32_t slot)
{
    struct side *side = (struct side *) raw;

    (void) slot;
    while (size != 0) {
        ssize_t written = send(side->fd, raw->buffer + offset, size, MSG_NOSIGNAL);

        raw_check(written > 0, "send");
        offset += (uint64_t) written;
        size -= (uint64_t) written;
    }
    raw->done++;
}

static void side_receive(struct raw_side *raw, uint64_t offset, uint64_t size, uint32_t slot)
{
    struct side *side = (struct side *) raw;

    (void) slot;
    side->posted[side->last++ % (RAW_WINDOW_MAX + 1)] = (struct posted){offset, size};
}
