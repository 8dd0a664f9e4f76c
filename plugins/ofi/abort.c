/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Aborting connections of libfabric, which has no call for that (decision 32). The sockets are shut
 * down: libfabric sees a connection closed by the peer, and its requests complete with errors. The
 * sockets are found in the epoll sets below the descriptor of the completion queue or, without
 * one, among all descriptors of the process. A socket is recognized by its addresses: a connection
 * that was opened here has the peer's port as its remote one, a connection that the peer opened has
 * our port as its local one. The latter has any remote port, so all from that host are aborted.
 *
 * It is also needed before an endpoint is closed: libfabric 1.17 follows a null pointer when it
 * closes a connection in the middle of the response to a read.
 */

#include "ofi.h"

#include <dirent.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OFI_ABORT_NS UINT64_C(1000000000)

/* Which connections are aborted: those to one silent peer, or those with moves in progress. */
struct ofi_abort_filter {
    const struct na_plugin_class *na_class;
    const struct ofi_address *silent; /* NULL: by moves */
    uint32_t silent_ms;
    const struct kit_region *region; /* moves of this memory; NULL: of any */
    struct sockaddr_storage own;     /* where the endpoint listens */
};

static void ofi_abort_sockets(struct ofi_abort_filter *filter);
static bool ofi_abort_in_epoll_sets(const struct ofi_abort_filter *filter);
static void ofi_abort_in_process(const struct ofi_abort_filter *filter);
static bool ofi_abort_matching(const struct ofi_abort_filter *filter, int fd);
static bool ofi_socket_is_silent(int fd, uint32_t silent_ms);
static void ofi_socket_abort(int fd);
static bool ofi_socket_is_of_peer(const struct sockaddr_storage *local,
                                  const struct sockaddr_storage *remote,
                                  const struct sockaddr_storage *own,
                                  const struct sockaddr_storage *peer);

/* Aborts the connections over which moves of `region`, or of any with NULL, are in progress. */
void ofi_abort_moves(struct na_plugin_class *na_class, const struct kit_region *region)
{
    struct ofi_abort_filter filter = {.na_class = na_class, .region = region};
    uint64_t end = kit_host->clock_ns() + OFI_ABORT_NS;

    ofi_abort_sockets(&filter);
    while (ofi_target_is_busy(na_class, NULL, region) && kit_host->clock_ns() < end)
        ofi_queue_drain(na_class);
}

/* The peer's host is silent. Data of its gets that are still on the way must not arrive later. */
void ofi_peer_abort(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t silent_ms)
{
    const struct ofi_peer *priv = peer->priv;
    struct ofi_abort_filter filter = {.na_class = (struct na_plugin_class *) endpoint,
                                      .silent = priv->address,
                                      .silent_ms = silent_ms};

    if (priv->address != NULL)
        ofi_abort_sockets(&filter);
}

/* Aborts at once, and completes what libfabric has read from the connection. */
void ofi_peer_abort_now(struct kit_endpoint *endpoint, struct kit_peer *peer)
{
    ofi_peer_abort(endpoint, peer, 0);
    ofi_queue_drain((struct na_plugin_class *) endpoint);
}

/* Opens the fdinfo of an epoll set, which lists its descriptors; NULL if that fails. */
FILE *ofi_epoll_set_open(int fd)
{
    char path[64];

    (void) snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    return fopen(path, "re");
}

bool ofi_epoll_set_next(FILE *set, int *fd_p)
{
    char line[256];

    while (fgets(line, sizeof(line), set) != NULL)
        if (sscanf(line, "tfd: %d", fd_p) == 1)
            return true;
    return false;
}

static void ofi_abort_sockets(struct ofi_abort_filter *filter)
{
    struct fid_ep *endpoint = filter->na_class->endpoint;
    size_t size = sizeof(filter->own);

    if (endpoint != NULL && fi_getname(&endpoint->fid, &filter->own, &size) == 0 &&
        !ofi_abort_in_epoll_sets(filter))
        ofi_abort_in_process(filter);
}

/* These sets have sockets of this endpoint alone. False if they have none of its family. */
static bool ofi_abort_in_epoll_sets(const struct ofi_abort_filter *filter)
{
    FILE *outer =
        filter->na_class->wait_fd >= 0 ? ofi_epoll_set_open(filter->na_class->wait_fd) : NULL;
    bool is_found = false;
    int fd;

    while (outer != NULL && ofi_epoll_set_next(outer, &fd)) {
        FILE *set = ofi_epoll_set_open(fd);

        while (set != NULL && ofi_epoll_set_next(set, &fd))
            is_found |= ofi_abort_matching(filter, fd);
        if (set != NULL)
            (void) fclose(set);
    }
    if (outer != NULL)
        (void) fclose(outer);
    return is_found;
}

/* A connection of another class to the same peer cannot be told apart, and is aborted as well. */
static void ofi_abort_in_process(const struct ofi_abort_filter *filter)
{
    struct dirent *entry;
    DIR *directory = opendir("/proc/self/fd");

    if (directory == NULL) {
        OFI_LOG_ERROR("no descriptor is left to break connections with");
        return;
    }
    while ((entry = readdir(directory)) != NULL) {
        /* Another thread may close the descriptor and reuse its number; the duplicate stays. */
        int fd = entry->d_name[0] != '.' ? dup(atoi(entry->d_name)) : -1;

        if (fd < 0)
            continue;
        (void) ofi_abort_matching(filter, fd);
        (void) close(fd);
    }
    (void) closedir(directory);
}

/* Aborts a connection that the filter matches. True for any socket of the endpoint's family. */
static bool ofi_abort_matching(const struct ofi_abort_filter *filter, int fd)
{
    const struct na_plugin_class *na_class = filter->na_class;
    struct sockaddr_storage local = {0}, remote = {0}, peer;
    socklen_t local_size = sizeof(local), remote_size = sizeof(remote);

    if (getsockname(fd, (struct sockaddr *) &local, &local_size) != 0 ||
        local.ss_family != filter->own.ss_family)
        return false;
    if (getpeername(fd, (struct sockaddr *) &remote, &remote_size) != 0)
        return true;
    for (const struct kit_link *node = na_class->addresses.next; node != &na_class->addresses;
         node = node->next) {
        const struct ofi_address *address = kit_container(node, const struct ofi_address, node);
        bool is_meant = filter->silent != NULL
                            ? address == filter->silent
                            : ofi_target_is_busy(na_class, address, filter->region);
        size_t size = sizeof(peer);

        memset(&peer, 0, sizeof(peer));
        if (!is_meant || fi_av_lookup(na_class->av, address->fi_addr, &peer, &size) != 0 ||
            !ofi_socket_is_of_peer(&local, &remote, &filter->own, &peer))
            continue;
        if (filter->silent == NULL || ofi_socket_is_silent(fd, filter->silent_ms))
            ofi_socket_abort(fd);
        break;
    }
    return true;
}

/*
 * Tells the silent peer's connection from those that other processes of its host opened, on which
 * data arrived lately. Half of the time is enough, because the host may have acknowledged data for
 * longer than its process sent any.
 */
static bool ofi_socket_is_silent(int fd, uint32_t silent_ms)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
           info.tcpi_last_data_recv >= silent_ms / 2;
}

/* Discards what was received, so that libfabric's next read returns the end of the stream. */
static void ofi_socket_abort(int fd)
{
    uint8_t discarded[65536];

    (void) shutdown(fd, SHUT_RDWR);
    while (recv(fd, discarded, sizeof(discarded), MSG_DONTWAIT) > 0)
        continue;
}

static bool ofi_socket_is_of_peer(const struct sockaddr_storage *local,
                                  const struct sockaddr_storage *remote,
                                  const struct sockaddr_storage *own,
                                  const struct sockaddr_storage *peer)
{
    return ofi_host_equal(remote, peer) && (ofi_socket_port(remote) == ofi_socket_port(peer) ||
                                            ofi_socket_port(local) == ofi_socket_port(own));
}
