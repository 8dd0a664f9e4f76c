/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections over TCP that were accepted and have not asked for anything. The tcp provider keeps
 * them for as long as the other side does, and has no call for them. They are in the epoll set that
 * its listening socket is in, which the set of our own queue leads to, and the system tells what is
 * in a set. We disconnect them, which is to it as if the other side had gone. A set that
 * is not built like that is left alone.
 */

#include "ofi.h"

#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/resource.h>

#define OFI_UNIDENTIFIED_SHARE 4u /* of the descriptors that a process may have: a quarter */
#define OFI_UNIDENTIFIED_LEAST 8u
#define OFI_UNIDENTIFIED_SEEN  1024u /* in one go */
#define OFI_LOOK_NS            UINT64_C(100000000)
#define OFI_CLEAR_NS           UINT64_C(200000000)

struct ofi_silent {
    int fd;
    uint32_t state; /* TCP_CLOSE: the provider is about to see its end */
    uint32_t silent_ms;
};

static bool ofi_set_is_listening(FILE *set, const struct na_plugin_class *na_class);
static bool ofi_socket_is_ours(const struct na_plugin_class *na_class, int fd, bool *is_listener_p);
static void ofi_disconnect(int fd);
static uint32_t ofi_unidentified_read(struct na_plugin_class *na_class, struct ofi_silent *silent);
static void ofi_oldest_close(struct ofi_silent *silent, uint32_t count);
static uint32_t ofi_unidentified_limit(void);

/* Finds the set, once an endpoint is open. It stays open: later there may be no descriptor. */
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
    outer = ofi_set_open(na_class->wait_fd);
    if (outer == NULL)
        return;
    while (na_class->unidentified == NULL && ofi_set_next(outer, &fd)) {
        FILE *set = ofi_set_open(fd);

        if (set != NULL && ofi_set_is_listening(set, na_class))
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

/* Ends those that are silent for long, and the oldest of too many. */
void ofi_unidentified_look(struct na_plugin_class *na_class)
{
    struct ofi_silent silent[OFI_UNIDENTIFIED_SEEN];
    uint32_t count, left, limit;
    uint64_t now;

    if (na_class->unidentified == NULL)
        return;
    now = kit_host->clock_ns();
    if (now - na_class->unidentified_seen < OFI_LOOK_NS && !na_class->is_short)
        return;
    na_class->unidentified_seen = now;
    left = count = ofi_unidentified_read(na_class, silent);
    for (uint32_t i = 0; i < count; i++) {
        if (silent[i].state != TCP_CLOSE && silent[i].silent_ms <= na_class->unidentified_ms)
            continue;
        if (silent[i].state != TCP_CLOSE)
            ofi_disconnect(silent[i].fd);
        silent[i].fd = -1;
        left--;
    }
    limit = na_class->is_short ? left / 2 : ofi_unidentified_limit();
    if (left > limit && !na_class->is_unidentified_told)
        OFI_LOG_WARNING("%u connections that have not introduced themselves, which is too many: "
                        "the oldest are closed; let only trusted networks reach %s, or raise the "
                        "limit of descriptors (ulimit -n)",
                        left, na_class->name);
    na_class->is_unidentified_told |= left > limit;
    for (; left > limit; left--)
        ofi_oldest_close(silent, count);
}

/*
 * All of them, and nobody comes any more: the endpoint is about to be closed, which would leave
 * them open for ever.
 */
void ofi_unidentified_end(struct na_plugin_class *na_class)
{
    const uint64_t end = kit_host->clock_ns() + OFI_CLEAR_NS;
    struct ofi_silent silent[OFI_UNIDENTIFIED_SEEN];
    bool is_listener;
    uint32_t count;
    int fd;

    if (na_class->unidentified == NULL)
        return;
    rewind(na_class->unidentified);
    while (ofi_set_next(na_class->unidentified, &fd)) {
        if (!ofi_socket_is_ours(na_class, fd, &is_listener) || !is_listener)
            continue;
        (void) shutdown(fd, SHUT_RDWR);
        na_class->listen_fd = fd;
    }
    do {
        count = ofi_unidentified_read(na_class, silent);
        for (uint32_t i = 0; i < count; i++)
            if (silent[i].state != TCP_CLOSE)
                ofi_disconnect(silent[i].fd);
        ofi_queue_drain(na_class);
    } while (count != 0 && kit_host->clock_ns() < end);
}

static bool ofi_set_is_listening(FILE *set, const struct na_plugin_class *na_class)
{
    bool is_listener;
    int fd;

    while (ofi_set_next(set, &fd))
        if (ofi_socket_is_ours(na_class, fd, &is_listener) && is_listener)
            return true;
    return false;
}

/* Not a shutdown(): reading would give 0 then, and the provider asks what errno is. */
static void ofi_disconnect(int fd)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};

    (void) connect(fd, &none, sizeof(none));
}

/* The socket that listens at our port, or one that was accepted from it. */
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

static uint32_t ofi_unidentified_read(struct na_plugin_class *na_class, struct ofi_silent *silent)
{
    uint32_t count = 0;
    bool is_listener;
    int fd;

    rewind(na_class->unidentified);
    while (count < OFI_UNIDENTIFIED_SEEN && ofi_set_next(na_class->unidentified, &fd)) {
        struct tcp_info info = {0};
        socklen_t size = sizeof(info);

        if (fd == na_class->listen_fd || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
            (info.tcpi_state != TCP_CLOSE &&
             (!ofi_socket_is_ours(na_class, fd, &is_listener) || is_listener)))
            continue;
        silent[count++] = (struct ofi_silent){fd, info.tcpi_state, info.tcpi_last_data_recv};
    }
    return count;
}

static void ofi_oldest_close(struct ofi_silent *silent, uint32_t count)
{
    struct ofi_silent *oldest = NULL;

    for (uint32_t i = 0; i < count; i++)
        if (silent[i].fd >= 0 && (oldest == NULL || silent[i].silent_ms > oldest->silent_ms))
            oldest = &silent[i];
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
    return share < OFI_UNIDENTIFIED_LEAST ? OFI_UNIDENTIFIED_LEAST
           : share > UINT32_MAX           ? UINT32_MAX
                                          : (uint32_t) share;
}
