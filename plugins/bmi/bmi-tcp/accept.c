/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening and accepting; silent connections, on which no message has begun. */

#include "tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 1024
#define ACCEPTS 64 /* in one progress */

static void accept_refuse(struct tcp_instance *instance);
static void silent_add(struct tcp_connection *connection);
static bool silent_has_place(struct tcp_instance *instance);
static bool silent_is_oldest_young(const struct tcp_instance *instance);
static bool silent_make_room(struct tcp_instance *instance);
static uint32_t silent_limit(void);
static uint64_t clock_ms(void);

/* Listens, and writes the name with the actual port to `own_name`. Returns 0 or BMI's error. */
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
    /* Closed connections of a process that had the port before do not block it. */
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

void tcp_accept(struct tcp_instance *instance)
{
    for (int i = 0; i < ACCEPTS && silent_has_place(instance); i++) {
        int fd = accept4(instance->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            instance->is_refusing = false;
            tcp_socket_prepare(instance, fd);
            silent_add(tcp_connection_create(instance, fd, EPOLLIN));
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

/* Closes connections that have been silent for too long. */
void tcp_silent_expire(struct tcp_instance *instance)
{
    uint64_t now = clock_ms();
    struct tcp_connection *connection;

    while ((connection = TAILQ_FIRST(&instance->silent)) != NULL &&
           now - connection->since >= instance->silent_ms)
        (void) silent_make_room(instance);
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

/*
 * True if a connection may be accepted. At the limit the oldest silent connection is closed first,
 * unless it is young: peers send a HELLO at once. Until then new ones wait in the system's backlog.
 */
static bool silent_has_place(struct tcp_instance *instance)
{
    struct pollfd listener = {.fd = instance->listen_fd, .events = POLLIN};

    if (instance->silent_count < silent_limit())
        return true;
    if (poll(&listener, 1, 0) != 1) /* no connection waits */
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

/* Closes the oldest, after a last read of it. False when there is no silent connection. */
static bool silent_make_room(struct tcp_instance *instance)
{
    struct tcp_connection *connection;

    while ((connection = TAILQ_FIRST(&instance->silent)) != NULL) {
        (void) tcp_read(connection);
        if (connection->fd >= 0 && !connection->is_silent)
            continue;
        tcp_connection_abort(connection, -BMI_ETIMEDOUT);
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

/* Without descriptors, the spare one is used to accept a connection and close it at once. */
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
