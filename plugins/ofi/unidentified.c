/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accepted TCP connections to which nothing was sent but the provider's answer: a process that
 * introduces itself gets a HELLO_ACK. The tcp provider keeps them for as long as the remote side
 * does, and has no call to close them. They are in the epoll set of its listening socket, which is
 * in the set below the completion queue's descriptor; /proc lists what a set has. They are
 * disconnected here when they are silent, and the provider sees a connection that the remote side
 * has closed. If no such set is found, this file does nothing.
 *
 * Each connection can be in the middle of a message and so have one of the posted receives, for as
 * long as it likes. So there are more receives than connections.
 */

#include "ofi.h"

#include <linux/tcp.h>
#include <sys/resource.h>

#ifndef TCP_CLOSE /* an enumerator of netinet/tcp.h, which cannot be included beside linux/tcp.h */
#    define TCP_CLOSE 7
#endif

#define OFI_UNIDENTIFIED_SHARE    4u /* a quarter of the process's descriptors */
#define OFI_UNIDENTIFIED_MIN      8u
#define OFI_UNIDENTIFIED_READ_MAX 1024u /* in one go */
#define OFI_ANSWER_MAX            64u   /* bytes of the provider's answer to a connection request */
#define OFI_CHECK_NS              UINT64_C(100000000)
#define OFI_CHECK_SHARE           50u /* checks take at most this part of the time */
#define OFI_DISCONNECT_NS         UINT64_C(200000000)

struct ofi_silent {
    int fd;
    uint32_t state; /* TCP_CLOSE: disconnected, and not closed by the provider yet */
    uint32_t silent_ms;
};

/* The accepted connections at one moment. */
struct ofi_accepted {
    uint32_t total;
    uint32_t unidentified;
    uint32_t count; /* of those below */
    struct ofi_silent silent[OFI_UNIDENTIFIED_READ_MAX];
};

static bool ofi_epoll_set_is_listening(FILE *set, const struct na_plugin_class *na_class);
static bool ofi_socket_is_ours(const struct na_plugin_class *na_class, int fd, bool *is_listener_p);
static void ofi_disconnect(int fd);
static void ofi_accepted_read(struct na_plugin_class *na_class, struct ofi_accepted *accepted);
static void ofi_oldest_close(struct ofi_accepted *accepted);
static uint32_t ofi_unidentified_limit(void);

/* Finds the set of an open endpoint. The file stays open: later there may be no descriptor left. */
void ofi_unidentified_open(struct na_plugin_class *na_class)
{
    struct sockaddr_storage own = {0};
    size_t size = sizeof(own);
    FILE *outer;
    int fd;

    ofi_unidentified_close(na_class);
    if (!na_class->protocol.tcp_port || !na_class->is_listening || na_class->wait_fd < 0 ||
        fi_getname(&na_class->endpoint->fid, &own, &size) != 0)
        return;
    na_class->own_port = ofi_socket_port(&own);
    outer = ofi_epoll_set_open(na_class->wait_fd);
    if (outer == NULL)
        return;
    while (na_class->unidentified == NULL && ofi_epoll_set_next(outer, &fd)) {
        FILE *set = ofi_epoll_set_open(fd);

        if (set != NULL && ofi_epoll_set_is_listening(set, na_class))
            na_class->unidentified = set;
        else if (set != NULL)
            (void) fclose(set);
    }
    (void) fclose(outer);
}

void ofi_unidentified_close(struct na_plugin_class *na_class)
{
    if (na_class->unidentified != NULL)
        (void) fclose(na_class->unidentified);
    na_class->unidentified = NULL;
    na_class->listen_fd = -1;
}

/* Disconnects those that have been silent for too long, and the longest silent of too many. */
void ofi_unidentified_check(struct na_plugin_class *na_class)
{
    struct ofi_accepted accepted;
    uint32_t left, limit;
    uint64_t now, took;

    if (na_class->unidentified == NULL)
        return;
    now = kit_host->clock_ns();
    if (now < na_class->unidentified_check_at && !na_class->is_out_of_fds)
        return;
    ofi_accepted_read(na_class, &accepted);
    left = accepted.unidentified;
    ofi_receives_grow(na_class, accepted.total);
    took = kit_host->clock_ns() - now;
    na_class->unidentified_check_at =
        now + (took * OFI_CHECK_SHARE > OFI_CHECK_NS ? took * OFI_CHECK_SHARE : OFI_CHECK_NS);
    for (uint32_t i = 0; i < accepted.count; i++) {
        struct ofi_silent *silent = &accepted.silent[i];

        if (silent->state != TCP_CLOSE && silent->silent_ms <= na_class->unidentified_ms)
            continue;
        if (silent->state != TCP_CLOSE)
            ofi_disconnect(silent->fd);
        silent->fd = -1;
        left--;
    }
    limit = na_class->is_out_of_fds ? left / 2 : ofi_unidentified_limit();
    if (left > limit && !na_class->is_unidentified_logged)
        OFI_LOG_WARNING("%u connections that have not introduced themselves, which is too many: "
                        "the oldest are closed; let only trusted networks reach %s, or raise the "
                        "limit of descriptors (ulimit -n)",
                        left, na_class->name);
    na_class->is_unidentified_logged |= left > limit;
    for (; left > limit; left--)
        ofi_oldest_close(&accepted);
}

/*
 * Stops listening and disconnects all of them: the endpoint is about to be closed, which would
 * leave them open for ever.
 */
void ofi_unidentified_end(struct na_plugin_class *na_class)
{
    const uint64_t end = kit_host->clock_ns() + OFI_DISCONNECT_NS;
    struct ofi_accepted accepted;
    bool is_listener;
    int fd;

    if (na_class->unidentified == NULL)
        return;
    rewind(na_class->unidentified);
    while (ofi_epoll_set_next(na_class->unidentified, &fd)) {
        if (!ofi_socket_is_ours(na_class, fd, &is_listener) || !is_listener)
            continue;
        (void) shutdown(fd, SHUT_RDWR);
        na_class->listen_fd = fd;
    }
    do {
        ofi_accepted_read(na_class, &accepted);
        for (uint32_t i = 0; i < accepted.count; i++)
            if (accepted.silent[i].state != TCP_CLOSE)
                ofi_disconnect(accepted.silent[i].fd);
        ofi_queue_drain(na_class);
    } while (accepted.count != 0 && kit_host->clock_ns() < end);
}

static bool ofi_epoll_set_is_listening(FILE *set, const struct na_plugin_class *na_class)
{
    bool is_listener;
    int fd;

    while (ofi_epoll_set_next(set, &fd))
        if (ofi_socket_is_ours(na_class, fd, &is_listener) && is_listener)
            return true;
    return false;
}

/* After a shutdown() a read would return 0, for which the provider reads errno (queue.c). */
static void ofi_disconnect(int fd)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};

    (void) connect(fd, &none, sizeof(none));
}

/* Whether the socket listens at the endpoint's port, or was accepted from there. */
static bool ofi_socket_is_ours(const struct na_plugin_class *na_class, int fd, bool *is_listener_p)
{
    struct sockaddr_storage own = {0};
    socklen_t size = sizeof(own), value_size = sizeof(int);
    int value = 0;

    if (getsockname(fd, (struct sockaddr *) &own, &size) != 0 ||
        ofi_socket_port(&own) != na_class->own_port ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &value_size) != 0)
        return false;
    *is_listener_p = value != 0;
    return true;
}

static void ofi_accepted_read(struct na_plugin_class *na_class, struct ofi_accepted *accepted)
{
    bool is_listener;
    int fd;

    accepted->total = accepted->unidentified = accepted->count = 0;
    rewind(na_class->unidentified);
    while (ofi_epoll_set_next(na_class->unidentified, &fd)) {
        struct tcp_info info = {0};
        socklen_t size = sizeof(info);

        if (fd == na_class->listen_fd || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
            (info.tcpi_state != TCP_CLOSE &&
             (!ofi_socket_is_ours(na_class, fd, &is_listener) || is_listener)))
            continue;
        accepted->total++;
        if (info.tcpi_state != TCP_CLOSE && info.tcpi_bytes_acked > OFI_ANSWER_MAX)
            continue;
        accepted->unidentified++;
        if (accepted->count < OFI_UNIDENTIFIED_READ_MAX)
            accepted->silent[accepted->count++] =
                (struct ofi_silent){fd, info.tcpi_state, info.tcpi_last_data_recv};
    }
}

static void ofi_oldest_close(struct ofi_accepted *accepted)
{
    struct ofi_silent *oldest = NULL;

    for (uint32_t i = 0; i < accepted->count; i++) {
        struct ofi_silent *silent = &accepted->silent[i];

        if (silent->fd >= 0 && (oldest == NULL || silent->silent_ms > oldest->silent_ms))
            oldest = silent;
    }
    if (oldest == NULL)
        return;
    ofi_disconnect(oldest->fd);
    oldest->fd = -1;
}

static uint32_t ofi_unidentified_limit(void)
{
    struct rlimit limit;
    uint64_t share;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT32_MAX;
    share = limit.rlim_cur / OFI_UNIDENTIFIED_SHARE;
    return share < OFI_UNIDENTIFIED_MIN ? OFI_UNIDENTIFIED_MIN
           : share > UINT32_MAX         ? UINT32_MAX
                                        : (uint32_t) share;
}
