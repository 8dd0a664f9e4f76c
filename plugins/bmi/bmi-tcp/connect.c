/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: listening, connecting, accepting, whose they are, and their end. */

#include "tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG      1024
#define ACCEPTS      64 /* in one progress */
#define KEEP_IDLE    30 /* seconds after which a silent host is asked whether it is there */
#define KEEP_BETWEEN 10
#define KEEP_TIMES   3

static void socket_prepare(const struct tcp_instance *instance, int fd);
static struct tcp_connection *connection_create(struct tcp_instance *instance, int fd,
                                                uint32_t events);
static void accept_refuse(struct tcp_instance *instance);
static void silent_add(struct tcp_connection *connection);
static void silent_remove(struct tcp_connection *connection);
static bool silent_has_place(struct tcp_instance *instance);
static bool silent_is_oldest_young(const struct tcp_instance *instance);
static bool silent_make_room(struct tcp_instance *instance);
static uint32_t silent_limit(void);
static uint64_t clock_ms(void);
static void connection_leave(struct tcp_connection *connection, int error);

/* Writes the name with the port that we got. Negative errors are BMI's. */
int tcp_listen(struct tcp_instance *instance, const char *name, char *own_name)
{
    struct sockaddr_storage place;
    const char *port_text;
    char port[8];
    socklen_t size;
    int ret = tcp_place_parse(name, &place, &size);
    int one = 1;

    if (ret != 0)
        return ret;
    if ((instance->flags & BMI_TCP_BIND_SPECIFIC) == 0) {
        if (place.ss_family == AF_INET6)
            ((struct sockaddr_in6 *) &place)->sin6_addr = in6addr_any;
        else
            ((struct sockaddr_in *) &place)->sin_addr.s_addr = INADDR_ANY;
    }
    instance->listen_fd = socket(place.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (instance->listen_fd < 0)
        return tcp_error(errno);
    /* A predecessor's closed connections do not keep the port. */
    (void) setsockopt(instance->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(instance->listen_fd, (const struct sockaddr *) &place, size) != 0 ||
        listen(instance->listen_fd, BACKLOG) != 0 ||
        getsockname(instance->listen_fd, (struct sockaddr *) &place, &size) != 0)
        return tcp_error(errno);
    instance->port = ntohs(place.ss_family == AF_INET6 ? ((struct sockaddr_in6 *) &place)->sin6_port
                                                       : ((struct sockaddr_in *) &place)->sin_port);
    port_text = strrchr(name, ':') + 1;
    (void) snprintf(port, sizeof(port), "%d", instance->port);
    (void) snprintf(own_name, BMI_MAX_ADDR_LEN, "%.*s%s", (int) (port_text - name), name, port);
    return 0;
}

/* Begins to connect to a place that was looked up. */
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
    socket_prepare(instance, fd);
    if (connect(fd, (const struct sockaddr *) &address->place, address->place_size) != 0 &&
        errno != EINPROGRESS) {
        int error = errno;

        (void) close(fd);
        return tcp_error(error);
    }
    connection = connection_create(instance, fd, EPOLLOUT);
    if (connection == NULL)
        return -BMI_ENOMEM;
    connection->is_connecting = true;
    connection->address = address;
    TAILQ_INSERT_TAIL(&address->connections, connection, address_link);
    address->sender = connection;
    return 0;
}

/* Its socket became writable. */
void tcp_connected(struct tcp_connection *connection)
{
    socklen_t size = sizeof(int);
    int error = 0;

    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    if (error != 0) {
        tcp_connection_break(connection, tcp_error(error));
        return;
    }
    connection->is_connecting = false;
    tcp_connection_watch(connection, EPOLLIN);
    if (connection->address->sender == connection)
        tcp_flush(connection->address);
}

void tcp_accept(struct tcp_instance *instance)
{
    for (int i = 0; i < ACCEPTS && silent_has_place(instance); i++) {
        int fd = accept4(instance->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            instance->is_refusing = false;
            socket_prepare(instance, fd);
            silent_add(connection_create(instance, fd, EPOLLIN));
        } else if (errno == EMFILE || errno == ENFILE) {
            if (silent_is_oldest_young(instance))
                return;
            if (silent_make_room(instance))
                continue;
            accept_refuse(instance);
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

/* Those that were accepted long ago, and have begun no message since. */
void tcp_silent_expire(struct tcp_instance *instance)
{
    uint64_t now = clock_ms();
    struct tcp_connection *connection;

    while ((connection = TAILQ_FIRST(&instance->silent)) != NULL &&
           now - connection->since >= instance->silent_ms)
        (void) silent_make_room(instance);
}

/*
 * The first message tells whose connection it is. False: the connection is broken, or has to wait
 * for what older connections of the same peer still have, their end included.
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
        tcp_connection_break(connection, -BMI_ENOMEM);
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

/* Reads the older connections of the same peer. */
void tcp_connection_precede(struct tcp_connection *connection)
{
    struct tcp_connection *older = TAILQ_FIRST(&connection->address->connections);

    connection->is_behind = false;
    while (older != NULL && older != connection) {
        struct tcp_connection *next = TAILQ_NEXT(older, address_link);

        if (!older->is_connecting && !older->is_stalled)
            tcp_read(older);
        older = next;
    }
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
 * Closes it. What was under way on it fails with the error, which is negative; if the peer was
 * heard or talked to through it, so does everything that waits for the peer.
 */
void tcp_connection_break(struct tcp_connection *connection, int error)
{
    struct tcp_instance *instance = connection->instance;

    if (connection->fd < 0)
        return;
    /* A child that was forked may have the socket, too. */
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

void tcp_connections_free(struct tcp_connections *list)
{
    struct tcp_connection *connection;

    while ((connection = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, connection, link);
        free(connection->kept);
        free(connection);
    }
}

static void socket_prepare(const struct tcp_instance *instance, int fd)
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

/* NULL without memory; the socket is closed then. */
static struct tcp_connection *connection_create(struct tcp_instance *instance, int fd,
                                                uint32_t events)
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

static void silent_add(struct tcp_connection *connection)
{
    if (connection == NULL)
        return;
    connection->is_silent = true;
    connection->since = clock_ms();
    TAILQ_INSERT_TAIL(&connection->instance->silent, connection, silent_link);
    connection->instance->silent_count++;
}

static void silent_remove(struct tcp_connection *connection)
{
    if (!connection->is_silent)
        return;
    connection->is_silent = false;
    connection->instance->silent_count--;
    TAILQ_REMOVE(&connection->instance->silent, connection, silent_link);
}

/*
 * Whether one more is accepted now. When there are as many as there may be the oldest goes, if it
 * had time enough: peers introduce themselves at once. Others wait in the system's queue.
 */
static bool silent_has_place(struct tcp_instance *instance)
{
    struct pollfd listener = {.fd = instance->listen_fd, .events = POLLIN};

    if (instance->silent_count < silent_limit())
        return true;
    if (poll(&listener, 1, 0) != 1) /* nobody comes */
        return false;
    if (!instance->is_silent_told)
        tcp_log(instance, 2,
                "%u connections have not said anything, which is too many: the oldest are closed; "
                "let only trusted networks reach port %d, or raise the limit of descriptors "
                "(ulimit -n)",
                instance->silent_count, instance->port);
    instance->is_silent_told = true;
    return !silent_is_oldest_young(instance) && silent_make_room(instance);
}

static bool silent_is_oldest_young(const struct tcp_instance *instance)
{
    const struct tcp_connection *oldest = TAILQ_FIRST(&instance->silent);

    return oldest != NULL && clock_ms() - oldest->since < TCP_SILENT_LEAST_MS;
}

/* False when there is none to close. What one has said by now was perhaps not read yet. */
static bool silent_make_room(struct tcp_instance *instance)
{
    struct tcp_connection *connection;

    while ((connection = TAILQ_FIRST(&instance->silent)) != NULL) {
        (void) tcp_read(connection);
        if (connection->fd >= 0 && !connection->is_silent)
            continue;
        tcp_connection_break(connection, -BMI_ETIMEDOUT);
        return true;
    }
    return false;
}

static uint32_t silent_limit(void)
{
    struct rlimit limit;
    rlim_t share;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT32_MAX;
    share = limit.rlim_cur / TCP_SILENT_SHARE;
    if (share > UINT32_MAX)
        return UINT32_MAX;
    return share < TCP_SILENT_LEAST ? TCP_SILENT_LEAST : (uint32_t) share;
}

static uint64_t clock_ms(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/* There are no descriptors: who knocks is told so by a connection that ends at once. */
static void accept_refuse(struct tcp_instance *instance)
{
    int fd;

    if (!instance->is_refusing)
        tcp_log(instance, 1,
                "connections are refused: this process has no file descriptor left "
                "for them (see ulimit -n)");
    instance->is_refusing = true;
    if (instance->spare_fd < 0)
        return;
    (void) close(instance->spare_fd);
    fd = accept4(instance->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        (void) close(fd);
    instance->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
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

        /* Nothing can follow the half of a message that is given up. */
        address->references++;
        if (!was_sender && first != NULL && first->state == TCP_MOVING)
            tcp_connection_break(address->sender, error);
        address->references--;
        for (other = TAILQ_FIRST(&address->connections); other != NULL;
             other = TAILQ_NEXT(other, address_link))
            address->sender = other; /* the newest */
        tcp_address_fail(address, error);
    }
    tcp_address_release(address);
}
