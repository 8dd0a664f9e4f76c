/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric: one datagram socket for each endpoint. The system delivers datagrams whole and in
 * order, with the name of the sender's socket. A send is refused while the receiver's socket is
 * full, and fails when no socket has the receiver's name.
 */

#include "template.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define READS_MAX 16u /* datagrams read in one poll, so that a poll ends */

static int32_t socket_send(struct kit_endpoint *endpoint, struct kit_frame *frame);
static int32_t socket_poll(struct kit_endpoint *endpoint);
static int socket_fd(struct kit_endpoint *endpoint);
static bool socket_try_wait(struct kit_endpoint *endpoint);
static int32_t peer_open(struct kit_endpoint *endpoint, struct kit_peer *peer);
static void peer_close(struct kit_endpoint *endpoint, struct kit_peer *peer);
static bool path_is_named(struct kit_endpoint *endpoint, const void *path, const char *name);
static struct template_address address_of(const char *name);
static ssize_t datagram_read(struct na_plugin_class *na_class, struct template_address *source);
static bool is_of_our_user(struct msghdr *message);

const struct kit_msg_ops template_ops = {
    .max_frame = TEMPLATE_FRAME,
    .max_sends = 1,
    .peer_size = sizeof(struct template_peer),
    .send = socket_send,
    .poll = socket_poll,
    .get_fd = socket_fd,
    .try_wait = socket_try_wait,
    .peer_open = peer_open,
    .peer_close = peer_close,
    .path_is_named = path_is_named,
    .rma_start = kit_remote_start,
    .rma_abandon = kit_remote_abandon,
    .control = kit_remote_control,
};

/*
 * Any user of the machine can send to the socket, so SO_PASSCRED has the system say which user sent
 * each datagram. The socket has an abstract name, which the system frees when the process ends.
 */
int32_t template_socket_open(struct na_plugin_class *na_class)
{
    const struct template_address address = address_of(na_class->name);
    const int on = 1, room = 16 * TEMPLATE_FRAME;

    na_class->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (na_class->socket >= 0 &&
        setsockopt(na_class->socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) == 0 &&
        setsockopt(na_class->socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0 &&
        bind(na_class->socket, (const struct sockaddr *) &address.name, address.length) == 0)
        return NA_PLUGIN_SUCCESS;
    TEMPLATE_LOG(NA_PLUGIN_LOG_ERROR, "no socket for the endpoint '%s': %s", na_class->name,
                 strerror(errno));
    return errno == EADDRINUSE ? NA_PLUGIN_ADDRINUSE : NA_PLUGIN_IO_ERROR;
}

void template_socket_close(struct na_plugin_class *na_class)
{
    if (na_class->socket >= 0)
        (void) close(na_class->socket);
}

/* The socket takes or refuses a datagram at once, so no send is in progress afterwards. */
static int32_t socket_send(struct kit_endpoint *endpoint, struct kit_frame *frame)
{
    const struct template_peer *peer = frame->peer->priv;
    const struct template_address *address = &peer->address;

    if (sendto(template_class(endpoint)->socket, frame->data, (size_t) frame->size, MSG_NOSIGNAL,
               (const struct sockaddr *) &address->name, address->length) >= 0) {
        frame->is_copied = true;
        return NA_PLUGIN_SUCCESS;
    }
    if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ENOMEM)
        return NA_PLUGIN_AGAIN; /* the kit tries again */
    TEMPLATE_LOG(NA_PLUGIN_LOG_DEBUG, "%s: %s", frame->peer->name, strerror(errno));
    return NA_PLUGIN_HOSTUNREACH;
}

/*
 * Reads datagrams and gives them to the kit. While too many messages wait for receives, datagrams
 * stay in the socket, and when that is full, the peers' sends wait.
 */
static int32_t socket_poll(struct kit_endpoint *endpoint)
{
    struct na_plugin_class *na_class = template_class(endpoint);
    struct template_address source;
    ssize_t size = 0;

    for (uint32_t i = 0; i < READS_MAX && size >= 0 && kit_msg_may_receive(endpoint); i++) {
        size = datagram_read(na_class, &source);
        if (size > 0)
            (void) kit_msg_frame_received(endpoint, na_class->frame, (uint64_t) size, &source,
                                          NULL);
    }
    kit_rma_poll(endpoint->rma, kit_host->clock_ns());
    return NA_PLUGIN_SUCCESS;
}

static int socket_fd(struct kit_endpoint *endpoint)
{
    return template_class(endpoint)->socket;
}

/* Called before a sleep. A datagram that may not be read yet must not end the sleep. */
static bool socket_try_wait(struct kit_endpoint *endpoint)
{
    kit_msg_wait_pause(endpoint, !kit_msg_may_receive(endpoint));
    return !kit_rma_has_work(endpoint->rma);
}

/* Prepares a peer for sends. A fabric with connections starts to connect here. */
static int32_t peer_open(struct kit_endpoint *endpoint, struct kit_peer *peer)
{
    struct template_peer *priv = peer->priv;

    (void) endpoint;
    if (!template_name_is_valid(peer->name))
        return NA_PLUGIN_HOSTUNREACH;
    priv->address = address_of(peer->name);
    return NA_PLUGIN_SUCCESS;
}

/* Fails the peer's puts and gets. A fabric with connections closes the connection here. */
static void peer_close(struct kit_endpoint *endpoint, struct kit_peer *peer)
{
    if (endpoint->rma != NULL)
        kit_rma_peer_failed(endpoint->rma, peer, NA_PLUGIN_HOSTUNREACH);
}

/* True if a peer that sent from the socket `path` may have that name: no peer can use another's. */
static bool path_is_named(struct kit_endpoint *endpoint, const void *path, const char *name)
{
    const struct template_address *source = path;
    const struct template_address address = address_of(name);

    (void) endpoint;
    return template_name_is_valid(name) && source->length == address.length &&
           memcmp(&source->name, &address.name, address.length) == 0;
}

/* Returns the address of the socket of the endpoint with that name. */
static struct template_address address_of(const char *name)
{
    struct template_address address = {.name = {.sun_family = AF_UNIX}};
    const int length = snprintf(address.name.sun_path + 1, sizeof(address.name.sun_path) - 1,
                                "amalgam/" TEMPLATE_NAME "/%.*s", (int) TEMPLATE_NAME_MAX, name);

    address.length = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) length);
    return address;
}

/* Returns the size of the next datagram, 0 if it must be dropped, negative if there is none. */
static ssize_t datagram_read(struct na_plugin_class *na_class, struct template_address *source)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec data = {na_class->frame, sizeof(na_class->frame)};
    struct msghdr message = {
        .msg_name = &source->name,
        .msg_namelen = sizeof(source->name),
        .msg_iov = &data,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    const ssize_t size = recvmsg(na_class->socket, &message, 0);

    source->length = message.msg_namelen;
    if (size < 0 || ((message.msg_flags & MSG_TRUNC) == 0 && is_of_our_user(&message)))
        return size;
    return 0;
}

static bool is_of_our_user(struct msghdr *message)
{
    const struct cmsghdr *header = CMSG_FIRSTHDR(message);
    struct ucred sender;

    if (header == NULL || header->cmsg_level != SOL_SOCKET ||
        header->cmsg_type != SCM_CREDENTIALS || header->cmsg_len < CMSG_LEN(sizeof(sender)))
        return false;
    memcpy(&sender, CMSG_DATA(header), sizeof(sender));
    return sender.uid == getuid();
}
