/* SPDX-License-Identifier: BSD-3-Clause */
/* Checking whether a peer is alive, and marking a failed one. */

#include "sm.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static void sm_peer_drop_pool(const struct na_plugin_addr *peer);

/*
 * A peer is alive when its file is still at its path, its process runs, and its wake socket has an
 * owner. Across PID namespaces the socket alone counts, but a child of a dead peer may hold it.
 */
bool sm_peer_alive(struct na_plugin_addr *peer)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[SM_PATH_MAX];
    struct stat status;
    int ret;

    if (peer == peer->na_class->self)
        return true;
    if (sm_peer_mapped(peer) && sm_load_acquire(&peer->base->state) != SM_STATE_OPEN)
        return false;
    sm_segment_path(path, peer->name);
    if (lstat(path, &status) != 0 || status.st_dev != peer->device || status.st_ino != peer->inode)
        return false;
    if (peer->same_pid_namespace && kit_process_is_dead(peer->header.pid, peer->header.process))
        return false;
    sm_wake_path(address.sun_path, peer->name, &peer->header.secret, 0);
    do {
        ret = connect(peer->na_class->probe_fd, (struct sockaddr *) &address, sizeof(address));
    } while (ret != 0 && errno == EINTR);
    return ret == 0 || (errno != ECONNREFUSED && errno != ENOENT);
}

/* Marks the peer as failed: its operations, present and future ones, end with `status`. */
void sm_peer_fail(struct na_plugin_addr *peer, int32_t status)
{
    struct na_plugin_class *na_class = peer->na_class;
    int32_t none = 0;

    if (!atomic_compare_exchange_strong_explicit(&peer->failure, &none, status,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return;
    SM_LOG_DEBUG("peer %s is gone (status %d)", peer->name, status);
    sm_peer_drop_pool(peer);
    kit_lock_take(&na_class->peer_lost_lock);
    if (na_class->peer_lost != NULL) {
        sm_peer_hold(peer);
        na_class->peer_lost(na_class->peer_lost_arg, peer, status);
    }
    kit_lock_drop(&na_class->peer_lost_lock);
    for (uint32_t i = 0; i < na_class->max_contexts; i++) {
        sm_store_release(&na_class->contexts[i].watch_now, 1);
        sm_context_kick(&na_class->contexts[i]);
    }
}

/*
 * While a mapping is left, a dead peer's pool keeps its memory. Other pages take its place, for
 * threads that are copying from or to it.
 */
static void sm_peer_drop_pool(const struct na_plugin_addr *peer)
{
    const struct sm_pool_view *view = sm_load_acquire(&peer->pool);

    if (view != NULL && view->size != 0)
        (void) mmap(view->map, view->size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* Checks a peer that may be dead, and marks it if it is. */
void sm_peer_suspect(struct na_plugin_addr *peer)
{
    if (!sm_peer_alive(peer))
        sm_peer_fail(peer, NA_PLUGIN_HOSTUNREACH);
}

/* Sends the byte that ends the sleep of the peer's context. */
bool sm_wake_peer(struct na_plugin_addr *peer, uint32_t id)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int error;

    sm_wake_path(address.sun_path, peer->name, &peer->header.secret, id);
    error = sm_wake_send(peer->na_class, &address);
    if (error == ECONNREFUSED || error == ENOENT)
        sm_peer_suspect(peer);
    return error == 0;
}
