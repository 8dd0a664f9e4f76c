/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: connecting, binding to an address, ending. */

#include "tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define KEEP_IDLE    30 /* seconds of silence until TCP probes the host */
#define KEEP_BETWEEN 10
#define KEEP_TIMES   3

/* Addresses without references whose connections stay open, as they may be looked up again. */
#define DROPPED_MAX 64u

static void silent_remove(struct tcp_connection *connection);
static void connection_leave(struct tcp_connection *connection, int error);

/* Begins to connect to an address that was looked up. */
int tcp_connect(struct tcp_address *address)
{
    struct tcp_instance *instance = address->instance;
    struct tcp_connection *connection;
    int fd;

    if (address->place_size == 0)
        return -BMI_EPIPE;
    fd = socket(address->place.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return tcp_error(errno);
    tcp_socket_prepare(instance, fd);
    if (connect(fd, (const struct sockaddr *) &address->place, address->place_size) != 0 &&
        errno != EINPROGRESS) {
        int error = errno;

        (void) close(fd);
        return tcp_error(error);
    }
    connection = tcp_connection_create(instance, fd, EPOLLOUT);
    if (connection == NULL)
        return -BMI_ENOMEM;
    connection->is_connecting = connection->is_dialed = true;
    connection->address = address;
    TAILQ_INSERT_TAIL(&address->connections, connection, address_link);
    address->sender = connection;
    return 0;
}

/*
 * Messages to the address are from now on sent by a connection to its place, not by one that a peer
 * made and said to be from there. Sends queued for such a connection fail with it.
 */
void tcp_address_dial(struct tcp_address *address)
{
    if (address->place_size == 0)
        return;
    address->references++;
    while (address->sender != NULL && !address->sender->is_dialed) {
        if (TAILQ_EMPTY(&address->sends))
            address->sender = NULL;
        else
            tcp_connection_abort(address->sender, -BMI_ECANCEL);
    }
    address->references--;
}

void tcp_socket_prepare(const struct tcp_instance *instance, int fd)
{
    int one = 1, idle = KEEP_IDLE, between = KEEP_BETWEEN, times = KEEP_TIMES;

    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void) setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof(between));
    (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
    if (instance->send_buffer != 0)
        (void) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &instance->send_buffer,
                          sizeof(instance->send_buffer));
    if (instance->receive_buffer != 0)
        (void) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &instance->receive_buffer,
                          sizeof(instance->receive_buffer));
}

/* Returns NULL without memory, and closes the socket then. */
struct tcp_connection *tcp_connection_create(struct tcp_instance *instance, int fd, uint32_t events)
{
    struct tcp_connection *connection = calloc(1, sizeof(*connection));
    struct epoll_event event = {.events = events, .data.ptr = connection};

    if (connection == NULL || epoll_ctl(instance->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        tcp_log(instance, 1, "no memory for a connection: it is closed");
        free(connection);
        (void) close(fd);
        return NULL;
    }
    connection->instance = instance;
    connection->fd = fd;
    connection->events = events;
    TAILQ_INSERT_TAIL(&instance->connections, connection, link);
    return connection;
}

/*
 * Binds the connection to the address that its first message names. False when that fails. If the
 * peer has older connections, `is_behind` is set: their messages and their end come first.
 */
bool tcp_connection_bind(struct tcp_connection *connection, uint32_t hash)
{
    struct tcp_instance *instance = connection->instance;
    struct tcp_address *address = hash != 0 ? tcp_address_find(instance, hash) : NULL;
    struct sockaddr_storage place;
    socklen_t size = sizeof(place);

    if (address == NULL)
        address = tcp_address_create(instance, hash);
    if (address == NULL) {
        tcp_connection_abort(connection, -BMI_ENOMEM);
        return false;
    }
    silent_remove(connection);
    connection->address = address;
    connection->is_behind = !TAILQ_EMPTY(&address->connections);
    TAILQ_INSERT_TAIL(&address->connections, connection, address_link);
    if (address->sender == NULL)
        address->sender = connection;
    if (getpeername(connection->fd, (struct sockaddr *) &place, &size) == 0)
        tcp_place_format(&place, address->peer, sizeof(address->peer));
    return true;
}

void tcp_connection_watch(struct tcp_connection *connection, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = connection};

    if (connection->events == events || connection->fd < 0)
        return;
    connection->events = events;
    (void) epoll_ctl(connection->instance->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
}

/*
 * Closes the connection. Messages under way on it fail with the error, which is negative. If the
 * connection was used in either direction, all operations with its address fail, too.
 */
void tcp_connection_abort(struct tcp_connection *connection, int error)
{
    struct tcp_instance *instance = connection->instance;

    if (connection->fd < 0)
        return;
    /* Closing does not remove the socket from epoll if a forked child has it, too. */
    (void) epoll_ctl(instance->epoll_fd, EPOLL_CTL_DEL, connection->fd, NULL);
    (void) close(connection->fd);
    connection->fd = -1;
    silent_remove(connection);
    if (instance->hot == connection)
        instance->hot = NULL;
    if (connection->is_to_resume)
        TAILQ_REMOVE(&instance->resume, connection, resume_link);
    connection->is_to_resume = false;
    if (connection->receive != NULL)
        tcp_operation_complete(connection->receive, error);
    connection->receive = NULL;
    if (connection->message != NULL) {
        if (connection->in.mode == WIRE_EAGER)
            tcp_early_uncount(connection->address);
        tcp_message_put(instance, connection->message);
    }
    connection->message = NULL;
    TAILQ_REMOVE(&instance->connections, connection, link);
    TAILQ_INSERT_TAIL(&instance->closed, connection, link);
    if (connection->address != NULL)
        connection_leave(connection, error);
}

/* Called when the last reference is dropped. Beyond DROPPED_MAX, the oldest is disconnected. */
void tcp_address_drop(struct tcp_address *address)
{
    struct tcp_instance *instance = address->instance;

    address->is_looked_up = false;
    /* The result of connecting must not be reported, nor fail operations of a later lookup. */
    address->references++;
    if (address->sender != NULL && address->sender->is_connecting)
        tcp_connection_abort(address->sender, -BMI_ECANCEL);
    address->references--;
    tcp_notice_drop(address);
    if (address->is_dropped)
        return;
    address->is_dropped = true;
    TAILQ_INSERT_TAIL(&instance->dropped, address, dropped_link);
    if (++instance->dropped_count <= DROPPED_MAX)
        return;
    address = TAILQ_FIRST(&instance->dropped);
    tcp_address_keep(address);
    tcp_address_disconnect(address);
}

/* Disconnects without a notice, and releases the address: a caller needs a reference to go on. */
void tcp_address_disconnect(struct tcp_address *address)
{
    address->references++;
    while (!TAILQ_EMPTY(&address->connections))
        tcp_connection_abort(TAILQ_FIRST(&address->connections), -BMI_ECANCEL);
    address->references--;
    tcp_notice_drop(address);
    tcp_address_release(address);
}

void tcp_connections_free(struct tcp_connections *list)
{
    struct tcp_connection *connection;

    while ((connection = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, connection, link);
        free(connection->kept);
        free(connection);
    }
}

static void silent_remove(struct tcp_connection *connection)
{
    if (!connection->is_silent)
        return;
    connection->is_silent = false;
    connection->instance->silent_count--;
    TAILQ_REMOVE(&connection->instance->silent, connection, silent_link);
}

static void connection_leave(struct tcp_connection *connection, int error)
{
    struct tcp_address *address = connection->address;
    const struct tcp_operation *first = TAILQ_FIRST(&address->sends);
    bool was_sender = address->sender == connection;

    TAILQ_REMOVE(&address->connections, connection, address_link);
    connection->address = NULL;
    if (was_sender)
        address->sender = NULL;
    if (was_sender || connection->is_heard || TAILQ_EMPTY(&address->connections)) {
        struct tcp_connection *other;

        /* The sending connection is useless after a message that was sent in part and failed. */
        address->references++;
        if (!was_sender && first != NULL && first->state == TCP_MOVING)
            tcp_connection_abort(address->sender, error);
        address->references--;
        TAILQ_FOREACH (other, &address->connections, address_link)
            address->sender = other; /* the newest */
        tcp_address_fail(address, error);
    }
    tcp_address_release(address);
}
