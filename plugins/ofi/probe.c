/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a peer still listens at its address. Providers over TCP return -FI_EAGAIN as long as
 * there is no connection, also when every attempt is refused; after a while of that, a connection
 * attempt of this file finds out. shm returns it as well when the peer's file was removed.
 */

#include "ofi.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OFI_STALLED_NS UINT64_C(500000000)

/* Sends are paced after OFI_UNPACED_NS, within which most connections are established. */
#define OFI_UNPACED_NS     UINT64_C(20000000)
#define OFI_RETRY_NS       UINT64_C(1000000)
#define OFI_RETRY_LATER_NS UINT64_C(10000000)

/* Directory of the shm provider's files. */
#define OFI_SHARED_DIRECTORY "/dev/shm"

static int32_t ofi_probe_begin(struct na_plugin_class *na_class, struct kit_peer *peer);
static int32_t ofi_probe_cm_begin(struct na_plugin_class *na_class, struct kit_peer *peer,
                                  const struct sockaddr_storage *address);
static int32_t ofi_probe_check(struct na_plugin_class *na_class, struct kit_peer *peer);
static int32_t ofi_probe_result(struct na_plugin_class *na_class, struct kit_peer *peer, int error);

/*
 * Each send to a peer without a connection makes libfabric connect. A proxy whose target is gone
 * accepts and closes at once; without pacing there would be a connection for each poll.
 */
bool ofi_probe_is_paced(struct ofi_peer *peer)
{
    uint64_t now = kit_host->clock_ns(), blocked_ns = now - peer->blocked_since;

    if (blocked_ns < OFI_UNPACED_NS)
        return false;
    if (now < peer->retry_at)
        return true;
    peer->retry_at = now + (blocked_ns < OFI_STALLED_NS ? OFI_RETRY_NS : OFI_RETRY_LATER_NS);
    return false;
}

/*
 * libfabric returned -FI_EAGAIN for a peer. Returns NA_PLUGIN_AGAIN, or NA_PLUGIN_HOSTUNREACH if
 * the peer does not listen.
 */
int32_t ofi_probe_stalled(struct na_plugin_class *na_class, struct kit_peer *peer)
{
    struct ofi_peer *priv = peer->priv;
    unsigned int user;
    uint64_t now;

    if (!na_class->protocol.tcp_port && !na_class->protocol.cm_port &&
        !na_class->protocol.node_local)
        return NA_PLUGIN_AGAIN;
    if (priv->probing)
        return ofi_probe_check(na_class, peer);
    now = kit_host->clock_ns();
    if (priv->stalled_since == 0) {
        priv->stalled_since = now;
        if (!priv->was_refused)
            return NA_PLUGIN_AGAIN;
    }
    if (now - priv->stalled_since < OFI_STALLED_NS && !priv->was_refused)
        return NA_PLUGIN_AGAIN;
    if (na_class->protocol.node_local)
        return ofi_probe_result(na_class, peer, ofi_probe_file(peer->name, &user) ? 0 : ENOENT);
    return ofi_probe_begin(na_class, peer);
}

/*
 * Whether there is a shared-memory file of that name, and its owner, which is this process's user
 * if that cannot be found out.
 */
bool ofi_probe_file(const char *name, unsigned int *user)
{
    char path[sizeof(OFI_SHARED_DIRECTORY "/") + KIT_NAME_MAX];
    struct stat status;

    *user = (unsigned int) geteuid();
    (void) snprintf(path, sizeof(path), OFI_SHARED_DIRECTORY "/%s", name);
    if (lstat(path, &status) != 0)
        return errno != ENOENT;
    *user = (unsigned int) status.st_uid;
    return true;
}

void ofi_probe_end(struct kit_peer *peer)
{
    struct ofi_peer *priv = peer->priv;

    if (priv->probe_fd >= 0)
        (void) close(priv->probe_fd);
    ofi_cm_end(&priv->cm_probe);
    priv->probing = false;
    priv->probe_fd = -1;
    priv->stalled_since = 0;
}

static int32_t ofi_probe_begin(struct na_plugin_class *na_class, struct kit_peer *peer)
{
    struct ofi_peer *priv = peer->priv;
    char reason[KIT_LOCATION_REASON_MAX];
    struct sockaddr_storage address;
    struct kit_location location;

    if (kit_location_parse(peer->name, &location, reason) != NA_PLUGIN_SUCCESS ||
        kit_location_resolve_formatted(&location, NA_PLUGIN_ADDR_UNSPEC, &address, reason) !=
            NA_PLUGIN_SUCCESS)
        return NA_PLUGIN_AGAIN;
    if (na_class->protocol.cm_port)
        return ofi_probe_cm_begin(na_class, peer, &address);
    priv->probe_fd =
        socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (priv->probe_fd < 0)
        return NA_PLUGIN_AGAIN;
    priv->probing = true;
    if (connect(priv->probe_fd, (const struct sockaddr *) &address,
                kit_location_length(&address)) != 0)
        return errno == EINPROGRESS ? NA_PLUGIN_AGAIN : ofi_probe_result(na_class, peer, errno);
    return ofi_probe_result(na_class, peer, 0);
}

static int32_t ofi_probe_cm_begin(struct na_plugin_class *na_class, struct kit_peer *peer,
                                  const struct sockaddr_storage *address)
{
    struct ofi_peer *priv = peer->priv;
    int error = ofi_cm_begin(na_class, &priv->cm_probe, address);

    if (error != 0)
        return error == FI_EAGAIN ? NA_PLUGIN_AGAIN : ofi_probe_result(na_class, peer, error);
    priv->probing = true;
    return NA_PLUGIN_AGAIN;
}

static int32_t ofi_probe_check(struct na_plugin_class *na_class, struct kit_peer *peer)
{
    struct ofi_peer *priv = peer->priv;
    struct pollfd descriptor = {.fd = priv->probe_fd, .events = POLLOUT};
    socklen_t size = sizeof(int);
    int error = 0;

    if (na_class->protocol.cm_port) {
        error = ofi_cm_check(&priv->cm_probe);
        return error == FI_EAGAIN ? NA_PLUGIN_AGAIN : ofi_probe_result(na_class, peer, error);
    }
    if (poll(&descriptor, 1, 0) != 1)
        return NA_PLUGIN_AGAIN;
    if (getsockopt(priv->probe_fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    return ofi_probe_result(na_class, peer, error);
}

/*
 * A peer that listens is probed again later. If it accepts no connection for connect_ns, because it
 * is out of descriptors or stopped, it is unreachable.
 */
static int32_t ofi_probe_result(struct na_plugin_class *na_class, struct kit_peer *peer, int error)
{
    struct ofi_peer *priv = peer->priv;
    uint64_t now = kit_host->clock_ns();

    ofi_probe_end(peer);
    priv->was_refused = error != 0;
    if (priv->is_connected || error != 0 || na_class->protocol.node_local)
        priv->connecting_since = 0;
    else if (priv->connecting_since == 0)
        priv->connecting_since = now;
    if (error == 0 && priv->connecting_since != 0 &&
        now - priv->connecting_since > na_class->connect_ns) {
        OFI_LOG_WARNING(
            "%s listens, but accepts no connection: it is stopped, very busy, or out of "
            "descriptors",
            peer->name);
        return NA_PLUGIN_HOSTUNREACH;
    }
    if (error == 0)
        return NA_PLUGIN_AGAIN;
    OFI_LOG_DEBUG("nobody answers at %s (%s)", peer->name, strerror(error));
    return NA_PLUGIN_HOSTUNREACH;
}
