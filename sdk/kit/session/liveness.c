/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Liveness of peers. Peers that an operation waits for are checked every 100 ms: a silent one is
 * sent another HELLO, and the process of a peer on this node is looked up. A peer that is merely
 * slow does not fail: over TCP its host is asked before (silence.c).
 */

#include "session_state.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define SESSION_NEXT_MS     5000u /* time in which a new process at its address may answer */
#define SESSION_IDLE_TICKS  16u
#define SESSION_CHECKS_TICK 64u /* approximate number of processes looked up in one tick */
#define SESSION_IDLE_SWEEPS 64u /* silence after which an idle peer is sent a HELLO */

static void idle_watch(struct kit_session *session);
static void peer_check(struct kit_peer *peer, uint64_t elapsed_ms);
static bool peer_is_wanted(const struct kit_peer *peer);
static bool peer_is_due(const struct kit_peer *peer);
static bool peer_is_local(const struct kit_peer *peer);
static bool peer_died(const struct kit_peer *peer);

void kit_peer_watch(struct kit_peer *peer)
{
    peer->is_watched = true;
    peer->session->watch_count++;
    peer->is_heard = false;
    peer->silent_ms = 0;
    peer->ping_ms = SESSION_PING_MS;
    kit_list_append(&peer->session->watch, &peer->watch_link);
}

void kit_session_tick(struct kit_session *session, uint64_t now_ns)
{
    uint64_t elapsed_ms = (now_ns - session->tick_last) / 1000000;
    struct kit_link *link, *next;

    session->tick_last = now_ns;
    for (link = session->watch.next; link != &session->watch; link = next) {
        next = link->next;
        peer_check(kit_container(link, struct kit_peer, watch_link), elapsed_ms);
    }
    kit_offers_expire(session);
    if (++session->ticks % SESSION_IDLE_TICKS == 0)
        idle_watch(session);
}

void kit_session_watch_all(struct kit_session *session, bool is_watching)
{
    session->is_watching = is_watching;
    for (uint32_t i = 0; is_watching && i < session->slot_count; i++) {
        struct kit_peer *peer = session->slots[i].peer;

        if (peer != NULL && !peer->is_watched && peer->phase == KIT_PEER_READY)
            kit_peer_watch(peer);
    }
}

/* Collects the description of our process for HELLOs, by which peers check that we are alive. */
void kit_session_describe_process(struct kit_session *session)
{
    bool is_over;

    session->pid = (uint32_t) getpid();
    if (!kit_process_read(session->pid, &session->start_time, &is_over))
        session->start_time = 0;
    session->pid_namespace = kit_process_namespace("pid");
    session->host_id = kit_process_node();
}

bool kit_peer_process(const struct kit_peer *peer, uint32_t *pid_p, uint64_t *incarnation_p)
{
    if (!peer->is_self && (peer->their_incarnation == 0 || !peer_is_local(peer)))
        return false;
    *pid_p = peer->is_self ? peer->session->pid : peer->pid;
    *incarnation_p = peer->their_incarnation;
    return true;
}

/* True if the process id does not exist; a cheap check, which does not notice zombies. */
bool kit_peer_process_gone(const struct kit_peer *peer)
{
    return peer_is_local(peer) && kill((pid_t) peer->pid, 0) != 0 && errno == ESRCH;
}

/*
 * A peer that no operation waits for may end without a BYE, and its state would stay. It is
 * sent a HELLO from time to time, which fails if it is gone.
 */
static void idle_watch(struct kit_session *session)
{
    for (uint32_t i = 0; i < session->slot_count; i++) {
        struct kit_peer *peer = session->slots[i].peer;

        if (peer == NULL || peer->is_watched || peer->is_self || peer->phase != KIT_PEER_READY)
            continue;
        if (peer->is_heard) {
            peer->is_heard = false;
            peer->idle_sweeps = 0;
        } else if (++peer->idle_sweeps >= SESSION_IDLE_SWEEPS) {
            peer->idle_sweeps = 0;
            peer->pending |= KIT_PENDING_PING;
            kit_peer_mark(peer);
        }
    }
}

/*
 * A peer whose process is gone fails at the second tick, after the frames that it sent before have
 * been read. A peer that has not answered a HELLO has SESSION_NEXT_MS, because a new process may
 * have its address.
 */
static void peer_check(struct kit_peer *peer, uint64_t elapsed_ms)
{
    const uint32_t idle_ms = peer->waiting == 0 ? SESSION_PING_MS_MAX : 0;

    if (!peer_is_wanted(peer)) {
        kit_list_remove(&peer->watch_link);
        peer->is_watched = false;
        peer->session->watch_count--;
        kit_silence_end(peer);
        return;
    }
    if (peer->is_heard) {
        peer->is_heard = false;
        peer->is_suspect = false;
        peer->silent_ms = 0;
        peer->ping_ms = SESSION_PING_MS;
        kit_silence_end(peer);
        return;
    }
    if (kit_silence_check(peer, elapsed_ms))
        return;
    peer->silent_ms += (uint32_t) (KIT_SESSION_TICK_NS / 1000000);
    if (peer_is_due(peer) && peer_died(peer) &&
        (peer->phase == KIT_PEER_READY || peer->silent_ms > SESSION_NEXT_MS)) {
        if (peer->is_suspect)
            kit_peer_failed(peer, NA_PLUGIN_HOSTUNREACH, "its process has ended");
        else
            peer->is_suspect = true;
        return;
    }
    if (peer->has_closed && peer->phase != KIT_PEER_READY && peer->silent_ms > SESSION_NEXT_MS) {
        kit_peer_failed(peer, NA_PLUGIN_HOSTUNREACH, "it has closed and does not answer");
        return;
    }
    if (peer->silent_ms < peer->ping_ms || peer->silent_ms < idle_ms || peer->in_flight != 0 ||
        peer->is_stalled)
        return;
    peer->ping_ms = peer->silent_ms +
                    (peer->silent_ms < SESSION_PING_MS_MAX ? peer->silent_ms : SESSION_PING_MS_MAX);
    peer->pending |= KIT_PENDING_PING;
    kit_peer_mark(peer);
}

static bool peer_is_wanted(const struct kit_peer *peer)
{
    if (peer->is_self)
        return false;
    return peer->waiting != 0 || peer->in_flight != 0 || peer->is_stalled ||
           (peer->session->is_watching && peer->phase == KIT_PEER_READY);
}

/* A process lookup takes some microseconds: with many peers the lookups are spread over ticks. */
static bool peer_is_due(const struct kit_peer *peer)
{
    const struct kit_session *session = peer->session;

    return peer->is_suspect ||
           (peer->index + session->ticks) % (session->watch_count / SESSION_CHECKS_TICK + 1) == 0;
}

static bool peer_is_local(const struct kit_peer *peer)
{
    const struct kit_session *session = peer->session;

    return peer->local != 0 && peer->pid != 0 && peer->pid <= INT32_MAX &&
           peer->pid_namespace != 0 && peer->pid_namespace == session->pid_namespace;
}

/* True if its process does not exist, is a zombie, or its process id was reused. */
static bool peer_died(const struct kit_peer *peer)
{
    uint64_t start;
    bool is_over;

    if (!peer_is_local(peer))
        return false;
    if (kit_peer_process_gone(peer))
        return true;
    return kit_process_read(peer->pid, &start, &is_over) &&
           (is_over || (peer->start_time != 0 && start != peer->start_time));
}
