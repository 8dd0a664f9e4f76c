/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Liveness of peers. Those that an operation waits for are checked every 100 ms: a silent one gets
 * another HELLO, and one of this node is looked up among the processes. A peer that is merely slow
 * does not fail, for its host answers (silence.c).
 */

#include "state.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define FABRIC_IDLE_TICKS  16u
#define FABRIC_CHECKS_TICK 64u /* processes looked up in one tick, about */
#define FABRIC_IDLE_SWEEPS 64u /* silence after which an idle peer gets a HELLO */

static void fabric_idle_watch(struct fabric_endpoint_state *state);
static void fabric_peer_watch(struct fabric_peer_state *peer, uint64_t elapsed_ms);
static bool fabric_peer_is_due(const struct fabric_peer_state *peer);
static bool fabric_peer_is_local(const struct fabric_peer_state *peer);
static bool fabric_peer_died(const struct fabric_peer_state *peer);

void fabric_watch_add(struct fabric_peer_state *peer)
{
    peer->is_watched = true;
    peer->endpoint->state->watch_count++;
    peer->is_heard = false;
    peer->silent_ms = 0;
    peer->ping_ms = FABRIC_PING_MS;
    kit_list_append(&peer->endpoint->state->watch, &peer->watch_link);
}

/* Every 100 ms. */
void fabric_watch_tick(struct fabric_endpoint_state *state, uint64_t now)
{
    uint64_t elapsed_ms = (now - state->tick_last) / 1000000;
    struct kit_link *link, *next;

    state->tick_last = now;
    for (link = state->watch.next; link != &state->watch; link = next) {
        next = link->next;
        fabric_peer_watch(kit_container(link, struct fabric_peer_state, watch_link), elapsed_ms);
    }
    if (++state->ticks % FABRIC_IDLE_TICKS == 0)
        fabric_idle_watch(state);
}

/* What others need to know to look after us. */
void fabric_process_describe(struct fabric_endpoint_state *state)
{
    bool is_over;

    state->pid = (uint32_t) getpid();
    if (!kit_process_read(state->pid, &state->start_time, &is_over))
        state->start_time = 0;
    state->pid_namespace = kit_process_namespace("pid");
    state->host_id = kit_process_node();
}

bool fabric_peer_process(const struct fabric_peer *fabric_peer, uint32_t *pid_p,
                         uint64_t *incarnation_p)
{
    const struct fabric_peer_state *peer = fabric_peer->state;

    if (!peer->is_self && (peer->their_incarnation == 0 || !fabric_peer_is_local(peer)))
        return false;
    *pid_p = peer->is_self ? peer->endpoint->state->pid : peer->pid;
    *incarnation_p = peer->their_incarnation;
    return true;
}

/* A cheap look, that a zombie passes. */
bool fabric_peer_process_gone(const struct fabric_peer_state *peer)
{
    return fabric_peer_is_local(peer) && kill((pid_t) peer->pid, 0) != 0 && errno == ESRCH;
}

/*
 * Peers that nothing waits for may have gone without a word, and what is kept for them would stay:
 * once in a while they get a HELLO, which fails when they have.
 */
static void fabric_idle_watch(struct fabric_endpoint_state *state)
{
    for (uint32_t i = 0; i < state->slot_count; i++) {
        struct fabric_peer_state *peer = state->slots[i].peer;

        if (peer == NULL || peer->is_watched || peer->is_self || peer->phase != FABRIC_PEER_READY)
            continue;
        if (peer->is_heard) {
            peer->is_heard = false;
            peer->idle_sweeps = 0;
        } else if (++peer->idle_sweeps >= FABRIC_IDLE_SWEEPS) {
            peer->idle_sweeps = 0;
            peer->pending |= FABRIC_PENDING_PING;
            fabric_peer_mark(peer);
        }
    }
}

/*
 * What the dead sent before they died is read before what waits for more of it fails: that takes
 * two ticks. A peer that has not answered a HELLO may be another process than the one that died at
 * its address: it has longer.
 */
static void fabric_peer_watch(struct fabric_peer_state *peer, uint64_t elapsed_ms)
{
    if (peer->is_self || (peer->waiting == 0 && peer->in_flight == 0 && peer->stalled == NULL)) {
        kit_list_remove(&peer->watch_link);
        peer->is_watched = false;
        peer->endpoint->state->watch_count--;
        fabric_silence_end(peer);
        return;
    }
    if (peer->is_heard) {
        peer->is_heard = false;
        peer->is_suspect = false;
        peer->silent_ms = 0;
        peer->ping_ms = FABRIC_PING_MS;
        fabric_silence_end(peer);
        return;
    }
    if (fabric_silence_watch(peer, elapsed_ms))
        return;
    peer->silent_ms += (uint32_t) (FABRIC_TICK_NS / 1000000);
    if (fabric_peer_is_due(peer) && fabric_peer_died(peer) &&
        (peer->phase == FABRIC_PEER_READY || peer->silent_ms > FABRIC_HELLO_MS)) {
        if (peer->is_suspect)
            fabric_peer_failed(peer->endpoint, &peer->peer, NA_PLUGIN_HOSTUNREACH,
                               "its process has ended");
        else
            peer->is_suspect = true;
        return;
    }
    if (peer->has_closed && peer->phase != FABRIC_PEER_READY &&
        peer->silent_ms > FABRIC_CLOSED_MS) {
        fabric_peer_failed(peer->endpoint, &peer->peer, NA_PLUGIN_HOSTUNREACH,
                           "it has closed and does not answer");
        return;
    }
    if (peer->silent_ms < peer->ping_ms || peer->in_flight != 0 || peer->stalled != NULL)
        return;
    peer->ping_ms = peer->silent_ms +
                    (peer->silent_ms < FABRIC_PING_MS_MAX ? peer->silent_ms : FABRIC_PING_MS_MAX);
    peer->pending |= FABRIC_PENDING_PING;
    fabric_peer_mark(peer);
}

/* Looking a process up takes some microseconds: when there are many their turns are spread. */
static bool fabric_peer_is_due(const struct fabric_peer_state *peer)
{
    const struct fabric_endpoint_state *state = peer->endpoint->state;

    return peer->is_suspect ||
           (peer->index + state->ticks) % (state->watch_count / FABRIC_CHECKS_TICK + 1) == 0;
}

static bool fabric_peer_is_local(const struct fabric_peer_state *peer)
{
    const struct fabric_endpoint_state *state = peer->endpoint->state;

    return peer->peer.local != 0 && peer->pid != 0 && peer->pid <= INT32_MAX &&
           peer->pid_namespace != 0 && peer->pid_namespace == state->pid_namespace;
}

/* Its process does not exist, is a zombie, or another one has its number. */
static bool fabric_peer_died(const struct fabric_peer_state *peer)
{
    uint64_t start;
    bool is_over;

    if (!fabric_peer_is_local(peer))
        return false;
    if (fabric_peer_process_gone(peer))
        return true;
    return kit_process_read(peer->pid, &start, &is_over) &&
           (is_over || (peer->start_time != 0 && start != peer->start_time));
}
