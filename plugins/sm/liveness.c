/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is alive. Only peers that something outstanding depends on are looked at, every 200 ms; an
 * idle process looks at nobody.
 */

#include "sm.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* What a pass over the receives of a context finds. */
struct sm_watch {
    struct na_plugin_context *context;
    bool gone;
};

static bool sm_peer_socket_answers(struct na_plugin_addr *peer);
static bool sm_watch_collect(struct na_plugin_context *context);
static bool sm_watch_receive(struct kit_recv *recv, void *watch);
static void sm_watch_add(struct na_plugin_context *context, struct na_plugin_addr *peer);

/*
 * Its segment must still be the one at its path, its process run, and its socket have an owner: the
 * last works across PID namespaces, but a child of the dead may hold the socket.
 */
bool sm_peer_alive(struct na_plugin_addr *peer)
{
    char path[SM_PATH_MAX];
    struct stat status;

    if (peer == peer->na_class->self)
        return true;
    if (sm_peer_mapped(peer) &&
        atomic_load_explicit(&peer->base->state, memory_order_acquire) != SM_STATE_OPEN)
        return false;
    sm_segment_path(path, peer->name);
    if (lstat(path, &status) != 0 || status.st_dev != peer->device || status.st_ino != peer->inode)
        return false;
    if (peer->same_pid_namespace && sm_process_is_dead(peer->pid, peer->process))
        return false;
    return sm_peer_socket_answers(peer);
}

/* Ends everything that depends on the peer, now and later, with `status`. */
void sm_peer_fail(struct na_plugin_addr *peer, int32_t status)
{
    struct na_plugin_class *na_class = peer->na_class;
    int32_t none = 0;

    if (!atomic_compare_exchange_strong_explicit(&peer->failure, &none, status,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return;
    SM_LOG_DEBUG("peer %s is gone (status %d)", peer->name, status);
    for (uint32_t i = 0; i < na_class->max_contexts; i++) {
        atomic_store_explicit(&na_class->contexts[i].watch_now, 1, memory_order_release);
        sm_context_kick(&na_class->contexts[i]);
    }
}

/* Something hints at its death: look now, and let the polls draw the consequences. */
void sm_peer_suspect(struct na_plugin_addr *peer)
{
    if (!sm_peer_alive(peer))
        sm_peer_fail(peer, NA_PLUGIN_HOSTUNREACH);
}

bool sm_watch_wanted(struct na_plugin_context *context)
{
    return context->accept_later != 0 || kit_match_expected_count(&context->match) != 0 ||
           atomic_load_explicit(&context->send_count, memory_order_relaxed) != 0 ||
           atomic_load_explicit(&context->copy_count, memory_order_relaxed) != 0 ||
           atomic_load_explicit(&context->job_count, memory_order_relaxed) != 0;
}

/*
 * Looks after the peers that this context waits for. What the dead sent before they died is
 * delivered before what waits for more of it fails. poll_lock is held.
 */
uint32_t sm_watch(struct na_plugin_context *context)
{
    uint32_t completed = 0;
    bool any, gone;

    context->watch_last = kit_host->clock_ns();
    (void) atomic_exchange_explicit(&context->watch_now, 0, memory_order_acquire);
    any = gone = sm_watch_collect(context);
    for (uint32_t i = 0; i < context->watched_count; i++) {
        struct na_plugin_addr *peer = context->watched[i];

        if (sm_peer_failure(peer) == 0 && !sm_peer_alive(peer))
            sm_peer_fail(peer, NA_PLUGIN_HOSTUNREACH);
        any = any || sm_peer_failure(peer) != 0;
    }
    if (gone)
        completed += sm_in_ring_read_all(context);
    if (any) {
        completed += sm_in_ring_settle(context);
        completed += sm_receive_fail_peers(context);
        completed += sm_rma_fail_peers(context);
    }
    completed += sm_backlog_flush(context->na_class, context);
    (void) atomic_fetch_or_explicit(&context->area->doorbell_summary, context->accept_later,
                                    memory_order_release);
    context->accept_later = 0;
    for (uint32_t i = 0; i < context->watched_count; i++)
        sm_peer_release(context->watched[i]);
    context->watched_count = 0;
    return completed;
}

static bool sm_peer_socket_answers(struct na_plugin_addr *peer)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int ret;

    sm_wake_path(address.sun_path, peer->name, &peer->secret, 0);
    do {
        ret = connect(peer->na_class->probe_fd, (struct sockaddr *) &address, sizeof(address));
    } while (ret != 0 && errno == EINTR);
    return ret == 0 || (errno != ECONNREFUSED && errno != ENOENT);
}

/* Every peer once, each with a reference. True when a context that is waited for is gone. */
static bool sm_watch_collect(struct na_plugin_context *context)
{
    struct na_plugin_class *na_class = context->na_class;
    struct kit_link *link;
    struct sm_watch watch = {.context = context};

    (void) pthread_mutex_lock(&na_class->watch_lock);
    na_class->watch_round++;
    sm_lock_take(&context->match_lock);
    kit_match_take_if(&context->match, sm_watch_receive, &watch, NULL);
    sm_lock_drop(&context->match_lock);

    sm_lock_take(&context->rma_lock);
    for (link = context->copies.next; link != &context->copies; link = link->next)
        sm_watch_add(context, ((struct sm_op *) link)->peer);
    sm_lock_drop(&context->rma_lock);

    for (link = context->jobs.next; link != &context->jobs; link = link->next)
        sm_watch_add(context, ((struct sm_job *) link)->ring->peer);

    sm_lock_take(&na_class->backlog_lock);
    for (link = na_class->backlog.next; link != &na_class->backlog; link = link->next) {
        struct sm_conn *conn =
            (struct sm_conn *) ((char *) link - offsetof(struct sm_conn, backlog_link));

        sm_watch_add(context, conn->peer);
    }
    sm_lock_drop(&na_class->backlog_lock);
    (void) pthread_mutex_unlock(&na_class->watch_lock);
    return watch.gone;
}

/* `gone`: its message can only be one that was sent before the context was destroyed. */
static bool sm_watch_receive(struct kit_recv *recv, void *watch_p)
{
    struct sm_op *op = (struct sm_op *) recv;
    struct sm_watch *watch = watch_p;
    const uint8_t *base;

    if (recv->kind != KIT_RECV_EXPECTED)
        return false;
    base = (const uint8_t *) op->peer->base;
    sm_watch_add(watch->context, op->peer);
    op->gone = recv->source_id < op->peer->max_contexts &&
               sm_context_gone(
                   (const struct sm_context_area *) (base + sm_layout_context(recv->source_id)));
    watch->gone |= op->gone;
    return false;
}

/* watch_lock is held. Without memory the peer is looked after the next time. */
static void sm_watch_add(struct na_plugin_context *context, struct na_plugin_addr *peer)
{
    if (peer->watch_round == context->na_class->watch_round)
        return;
    if (context->watched_count == context->watched_capacity) {
        uint32_t capacity = context->watched_capacity == 0 ? 16 : 2 * context->watched_capacity;
        struct na_plugin_addr **watched = kit_host->mem_alloc(capacity * sizeof(*watched), 0);

        if (watched == NULL)
            return;
        if (context->watched_count != 0)
            memcpy(watched, context->watched, context->watched_count * sizeof(*watched));
        kit_host->mem_free(context->watched);
        context->watched = watched;
        context->watched_capacity = capacity;
    }
    peer->watch_round = context->na_class->watch_round;
    sm_peer_hold(peer);
    context->watched[context->watched_count++] = peer;
}
