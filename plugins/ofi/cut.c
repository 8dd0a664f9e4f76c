/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Aborting connections that libfabric keeps: it has no call for that (decision 32). We shut their
 * sockets down, which is to it as if the other side had gone; what waits there ends with an error.
 * The sockets are those in the epoll sets that the descriptor of our own queue leads to, or, where
 * there is none, of the process. A socket is known by its two addresses: theirs, where we
 * connected, or ours, where they did. In the second case the port tells nobody, and all
 * connections from that host are aborted.
 *
 * This also has to be done before libfabric 1.17 may close an endpoint: it closes a connection in
 * the middle of the answer to a read with a null pointer.
 */

#include "ofi.h"

#include <dirent.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OFI_CUT_NS UINT64_C(1000000000)

/* Which connections are meant. */
struct ofi_cut {
    const struct na_plugin_class *na_class;
    const struct ofi_address *silent; /* this peer's; NULL: those over which pieces are under way */
    uint32_t silent_ms;
    const struct kit_region *region; /* pieces of this memory; NULL: any */
    struct sockaddr_storage own;
};

static void ofi_cut_sockets(struct ofi_cut *cut);
static bool ofi_cut_in_sets(const struct ofi_cut *cut);
static void ofi_cut_in_process(const struct ofi_cut *cut);
static bool ofi_cut_socket(const struct ofi_cut *cut, int fd);
static bool ofi_socket_is_silent(int fd, uint32_t silent_ms);
static void ofi_abort(int fd);
static bool ofi_cut_is_of(const struct sockaddr_storage *near, const struct sockaddr_storage *far,
                          const struct sockaddr_storage *own, const struct sockaddr_storage *peer);

/* Those over which pieces of that memory, or with NULL of any, are under way for peers. */
void ofi_cut(struct na_plugin_class *na_class, const struct kit_region *region)
{
    struct ofi_cut cut = {.na_class = na_class, .region = region};
    uint64_t end = kit_host->clock_ns() + OFI_CUT_NS;

    ofi_cut_sockets(&cut);
    while (ofi_target_is_busy(na_class, NULL, region) && kit_host->clock_ns() < end)
        ofi_queue_drain(na_class);
}

/* Its host is silent: what was on the way from there when its gets end must not arrive later. */
void ofi_peer_abort(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t silent_ms)
{
    const struct ofi_peer *priv = peer->priv;
    struct ofi_cut cut = {.na_class = (struct na_plugin_class *) endpoint,
                          .silent = priv->address,
                          .silent_ms = silent_ms};

    if (priv->address != NULL)
        ofi_cut_sockets(&cut);
}

/* The same, and what libfabric has read of the connection is dealt with. */
void ofi_cut_peer(struct kit_endpoint *endpoint, struct kit_peer *peer)
{
    ofi_peer_abort(endpoint, peer, 0);
    ofi_queue_drain((struct na_plugin_class *) endpoint);
}

/* What the system says of an epoll set; NULL when it says nothing. */
FILE *ofi_set_open(int fd)
{
    char path[64];

    (void) snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    return fopen(path, "re");
}

/* The next descriptor in the set. */
bool ofi_set_next(FILE *set, int *fd_p)
{
    char line[256];

    while (fgets(line, sizeof(line), set) != NULL)
        if (sscanf(line, "tfd: %d", fd_p) == 1)
            return true;
    return false;
}

static void ofi_cut_sockets(struct ofi_cut *cut)
{
    struct fid_ep *endpoint = cut->na_class->endpoint;
    size_t size = sizeof(cut->own);

    if (endpoint != NULL && fi_getname(&endpoint->fid, &cut->own, &size) == 0 &&
        !ofi_cut_in_sets(cut))
        ofi_cut_in_process(cut);
}

/* Sockets of the endpoint, and no other class's. False when none is found like that. */
static bool ofi_cut_in_sets(const struct ofi_cut *cut)
{
    FILE *outer = cut->na_class->wait_fd >= 0 ? ofi_set_open(cut->na_class->wait_fd) : NULL;
    bool is_found = false;
    int fd;

    while (outer != NULL && ofi_set_next(outer, &fd)) {
        FILE *set = ofi_set_open(fd);

        while (set != NULL && ofi_set_next(set, &fd))
            is_found |= ofi_cut_socket(cut, fd);
        if (set != NULL)
            (void) fclose(set);
    }
    if (outer != NULL)
        (void) fclose(outer);
    return is_found;
}

/* Those of the whole process: one that another class has to the same peer looks the same. */
static void ofi_cut_in_process(const struct ofi_cut *cut)
{
    struct dirent *entry;
    DIR *directory = opendir("/proc/self/fd");

    if (directory == NULL) {
        OFI_LOG_ERROR("no descriptor is left to break connections with");
        return;
    }
    while ((entry = readdir(directory)) != NULL) {
        /* A copy, so that it stays what it is while we look at it. */
        int fd = entry->d_name[0] != '.' ? dup(atoi(entry->d_name)) : -1;

        if (fd < 0)
            continue;
        (void) ofi_cut_socket(cut, fd);
        (void) close(fd);
    }
    (void) closedir(directory);
}

/* True: it is a socket of the endpoint's family, connected or not. */
static bool ofi_cut_socket(const struct ofi_cut *cut, int fd)
{
    const struct na_plugin_class *na_class = cut->na_class;
    struct sockaddr_storage near = {0}, far = {0}, peer;
    socklen_t near_size = sizeof(near), far_size = sizeof(far);

    if (getsockname(fd, (struct sockaddr *) &near, &near_size) != 0 ||
        near.ss_family != cut->own.ss_family)
        return false;
    if (getpeername(fd, (struct sockaddr *) &far, &far_size) != 0)
        return true;
    for (const struct ofi_address *address = na_class->addresses; address != NULL;
         address = address->next) {
        bool is_meant = cut->silent != NULL ? address == cut->silent
                                            : ofi_target_is_busy(na_class, address, cut->region);
        size_t size = sizeof(peer);

        memset(&peer, 0, sizeof(peer));
        if (!is_meant || fi_av_lookup(na_class->av, address->fi_addr, &peer, &size) != 0 ||
            !ofi_cut_is_of(&near, &far, &cut->own, &peer))
            continue;
        if (cut->silent == NULL || ofi_socket_is_silent(fd, cut->silent_ms))
            ofi_abort(fd);
        break;
    }
    return true;
}

/*
 * Connections that others of the silent peer's host have made to us look the same, and what they
 * brought lately shows them. Half of the time, because the host may have answered for longer than
 * its process.
 */
static bool ofi_socket_is_silent(int fd, uint32_t silent_ms)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
           info.tcpi_last_data_recv >= silent_ms / 2;
}

/* What has come already is discarded, so libfabric's next read finds the end. */
static void ofi_abort(int fd)
{
    uint8_t discarded[65536];

    (void) shutdown(fd, SHUT_RDWR);
    while (recv(fd, discarded, sizeof(discarded), MSG_DONTWAIT) > 0)
        continue;
}

static bool ofi_cut_is_of(const struct sockaddr_storage *near, const struct sockaddr_storage *far,
                          const struct sockaddr_storage *own, const struct sockaddr_storage *peer)
{
    return ofi_host_equal(far, peer) && (ofi_socket_port(far) == ofi_socket_port(peer) ||
                                         ofi_socket_port(near) == ofi_socket_port(own));
}
