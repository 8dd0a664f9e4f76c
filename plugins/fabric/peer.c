/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: found by token, by name and by incarnation. A peer that answered stays known without
 * references, because its next message may come at any time; it goes when it sent a BYE, died or
 * was never met, and nothing needs it any more.
 */

#include "state.h"

#include <errno.h>
#include <string.h>

#define FABRIC_SLOTS_FIRST 64u
#define FABRIC_SWEEP       4u /* peers checked for each new one */

static int32_t fabric_slots_grow(struct fabric_endpoint_state *state);
static int32_t fabric_hash_grow(struct fabric_endpoint_state *state);
static uint32_t fabric_name_hash(const char *name);
static uint32_t fabric_incarnation_hash(uint64_t incarnation);
static bool fabric_peer_new_token(struct fabric_peer_state *peer);
static void fabric_peer_unlink(struct fabric_peer_state *peer);
static void fabric_peer_unlink_incarnation(struct fabric_peer_state *peer);

int32_t fabric_peers_setup(struct fabric_endpoint_state *state)
{
    int32_t ret = fabric_slots_grow(state);

    if (ret == NA_PLUGIN_SUCCESS)
        ret = fabric_hash_grow(state);
    return ret;
}

/* They are closed, and nothing refers to them any more. */
void fabric_peers_destroy(struct fabric_endpoint_state *state)
{
    for (uint32_t i = 0; i < state->slot_count; i++)
        if (state->slots[i].peer != NULL)
            fabric_peer_free(state->slots[i].peer);
    kit_host->mem_free(state->slots);
    kit_host->mem_free((void *) state->names);
    kit_host->mem_free((void *) state->incarnations);
}

/* A new peer of a name that is not known. Nobody refers to it yet. */
int32_t fabric_peer_make(struct fabric_endpoint_state *state, const char *name,
                         struct fabric_peer_state **peer_p)
{
    struct fabric_endpoint *endpoint = state->endpoint;
    size_t length = strlen(name) + 1;
    struct fabric_peer_state *peer;
    struct fabric_slot *slot;

    state->sweeps += FABRIC_SWEEP;
    state->is_marked = true;
    if (state->slot_free == state->slot_count && fabric_slots_grow(state) != NA_PLUGIN_SUCCESS)
        return NA_PLUGIN_NOMEM;
    if (state->peer_count > state->hash_mask)
        (void) fabric_hash_grow(state);
    peer = kit_host->mem_alloc(FABRIC_PEER_SIZE + endpoint->ops->peer_size + length, 64);
    if (peer == NULL)
        return NA_PLUGIN_NOMEM;
    peer->peer.priv = (uint8_t *) peer + FABRIC_PEER_SIZE;
    peer->peer.name = (char *) peer->peer.priv + endpoint->ops->peer_size;
    memcpy(peer->peer.name, name, length);
    peer->peer.state = peer;
    peer->endpoint = endpoint;
    peer->canonical = peer;
    peer->source = peer;
    peer->pending = FABRIC_NOT_READY;
    peer->phase = FABRIC_PEER_NEW;
    peer->epoch = 1;
    peer->ping_ms = FABRIC_PING_MS;
    kit_list_init(&peer->queue);
    kit_list_init(&peer->frames);
    kit_list_init(&peer->rma_queue);
    kit_list_init(&peer->rma_started);
    kit_list_init(&peer->deferred);
    kit_list_init(&peer->watch_link);
    kit_list_init(&peer->retry_link);
    kit_list_init(&peer->active_link);

    peer->index = state->slot_free;
    slot = &state->slots[peer->index];
    if (!fabric_peer_new_token(peer)) {
        FABRIC_LOG_ERROR(endpoint, "no random numbers for one more peer: errno %d", errno);
        kit_host->mem_free(peer);
        return NA_PLUGIN_IO_ERROR;
    }
    state->slot_free = slot->next_free;
    slot->peer = peer;
    peer->name_hash = fabric_name_hash(name);
    peer->name_next = state->names[peer->name_hash & state->hash_mask];
    state->names[peer->name_hash & state->hash_mask] = peer;
    state->peer_count++;
    *peer_p = peer;
    return NA_PLUGIN_SUCCESS;
}

struct fabric_peer_state *fabric_peer_by_name(struct fabric_endpoint_state *state, const char *name)
{
    uint32_t hash = fabric_name_hash(name);
    struct fabric_peer_state *peer = state->names[hash & state->hash_mask];

    while (peer != NULL && (peer->name_hash != hash || strcmp(peer->peer.name, name) != 0))
        peer = peer->name_next;
    return peer;
}

struct fabric_peer_state *fabric_peer_by_incarnation(struct fabric_endpoint_state *state,
                                                     uint64_t incarnation)
{
    struct fabric_peer_state *peer =
        state->incarnations[fabric_incarnation_hash(incarnation) & state->hash_mask];

    while (peer != NULL && peer->their_incarnation != incarnation)
        peer = peer->incarnation_next;
    return peer;
}

struct fabric_peer_state *fabric_peer_by_token(struct fabric_endpoint_state *state, uint64_t token)
{
    uint32_t index = (uint32_t) token;
    const struct fabric_slot *slot;

    if (kit_unlikely(index >= state->slot_count))
        return NULL;
    slot = &state->slots[index];
    return kit_likely(slot->nonce == (uint32_t) (token >> 32)) ? slot->peer : NULL;
}

/* A new address goes with a new block of memory. */
int32_t fabric_peer_set_raw(struct fabric_peer_state *peer, const void *raw, uint32_t raw_size)
{
    void *copy;

    if (raw_size == 0 ||
        (peer->peer.raw_size == raw_size && memcmp(peer->peer.raw, raw, raw_size) == 0))
        return NA_PLUGIN_SUCCESS;
    copy = kit_host->mem_alloc(raw_size, 0);
    if (copy == NULL)
        return NA_PLUGIN_NOMEM;
    memcpy(copy, raw, raw_size);
    kit_host->mem_free(peer->peer.raw);
    peer->peer.raw = copy;
    peer->peer.raw_size = raw_size;
    return NA_PLUGIN_SUCCESS;
}

/* Also moves it to where it is found by its incarnation. */
void fabric_peer_set_incarnation(struct fabric_peer_state *peer, uint64_t incarnation)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;
    uint32_t hash = fabric_incarnation_hash(incarnation);

    if (peer->their_incarnation == incarnation)
        return;
    fabric_peer_unlink_incarnation(peer);
    peer->their_incarnation = incarnation;
    peer->their_incarnation_low = (uint32_t) incarnation;
    peer->incarnation_next = state->incarnations[hash & state->hash_mask];
    state->incarnations[hash & state->hash_mask] = peer;
}

/*
 * What it sends under the token that it has been told is stale from now on. Without random numbers
 * it stays what it was: another one could be guessed.
 */
static bool fabric_peer_new_token(struct fabric_peer_state *peer)
{
    struct fabric_slot *slot = &peer->endpoint->state->slots[peer->index];
    struct kit_key drawn;
    uint32_t old;

    if (kit_key_take(&peer->endpoint->state->keys, &drawn) != NA_PLUGIN_SUCCESS)
        return false;
    /* The old one is out of date for certain, and none is 0. */
    old = slot->nonce;
    slot->nonce = (uint32_t) drawn.word[0];
    while (slot->nonce == old || slot->nonce == 0)
        slot->nonce++;
    peer->nonce = slot->nonce;
    peer->mask = (uint32_t) drawn.word[1];
    peer->received_sequence = 0;
    return true;
}

/*
 * Its token is another one at once: what it sends on, before the failure was dealt with, is not
 * taken for messages of the one that comes after it.
 */
void fabric_peer_failed(struct fabric_endpoint *endpoint, struct fabric_peer *fabric_peer,
                        int32_t status, const char *reason)
{
    struct fabric_peer_state *peer = fabric_peer_state(fabric_peer);

    (void) endpoint;
    if (peer->is_self || (peer->pending & FABRIC_FAILED) != 0)
        return;
    peer->failure = status;
    peer->failure_reason = reason;
    peer->pending = (peer->pending & FABRIC_STALE) | FABRIC_FAILED | FABRIC_NOT_READY;
    (void) fabric_peer_new_token(peer);
    fabric_peer_mark(peer);
}

void fabric_peers_failed(struct fabric_endpoint *endpoint, int32_t status, const char *reason)
{
    struct fabric_endpoint_state *state = endpoint->state;

    for (uint32_t i = 0; i < state->slot_count; i++) {
        struct fabric_peer_state *peer = state->slots[i].peer;

        if (peer != NULL && (peer->is_open || peer->phase != FABRIC_PEER_NEW))
            fabric_peer_failed(endpoint, &peer->peer, status, reason);
    }
}

/* The object that stands for the process of this one, from now on. */
void fabric_peer_set_canonical(struct fabric_peer_state *peer, struct fabric_peer_state *canonical)
{
    if (canonical != peer)
        fabric_peer_hold(canonical);
    if (peer->canonical != peer)
        fabric_peer_release(peer->canonical);
    peer->canonical = canonical;
}

/* Without stopping the traffic. */
void fabric_peer_hello_again(struct fabric_peer_state *peer)
{
    if (peer->is_self)
        return;
    if (peer->phase == FABRIC_PEER_NEW && peer->stalled == NULL)
        return; /* its first frame begins with one anyway */
    peer->epoch++;
    if (peer->phase == FABRIC_PEER_HELLO_SENT)
        peer->pending |= FABRIC_PENDING_PING;
    peer->pending |= FABRIC_PENDING_HELLO;
}

/*
 * Makes it one that was never met. Its frames that are under way count for nothing any more; what
 * it sends from now on is answered by a HELLO.
 */
void fabric_peer_reset(struct fabric_peer_state *peer)
{
    peer->connection++;
    peer->phase = FABRIC_PEER_NEW;
    peer->pending = FABRIC_NOT_READY | FABRIC_STALE | (peer->pending & FABRIC_PENDING_PING);
    peer->their_token = 0;
    peer->sent_sequence = 0;
    peer->in_flight = 0;
    peer->is_suspect = false;
    peer->silent_ms = 0;
    peer->ping_ms = FABRIC_PING_MS;
    peer->answered = peer->epoch++;
    fabric_silence_end(peer);
    (void) fabric_peer_new_token(peer);
    fabric_peer_set_canonical(peer, peer);
    fabric_peer_mark(peer);
}

static int32_t fabric_slots_grow(struct fabric_endpoint_state *state)
{
    uint32_t count = state->slot_count == 0 ? FABRIC_SLOTS_FIRST : 2 * state->slot_count;
    struct fabric_slot *slots;

    if (count > FABRIC_PEER_MAX) {
        FABRIC_LOG_ERROR(state->endpoint, "%u peers are known, which is the limit",
                         state->peer_count);
        return NA_PLUGIN_NOMEM;
    }
    slots = kit_host->mem_alloc(count * sizeof(*slots), 0);
    if (slots == NULL)
        return NA_PLUGIN_NOMEM;
    if (state->slot_count != 0)
        memcpy(slots, state->slots, state->slot_count * sizeof(*slots));
    for (uint32_t i = state->slot_count; i < count; i++) {
        slots[i].next_free = i + 1;
    }
    kit_host->mem_free(state->slots);
    state->slot_free = state->slot_count; /* there was none left */
    state->slots = slots;
    state->slot_count = count;
    return NA_PLUGIN_SUCCESS;
}

/* Without memory the tables stay as they are, only slower. */
static int32_t fabric_hash_grow(struct fabric_endpoint_state *state)
{
    uint32_t size = state->names == NULL ? 256 : 2 * (state->hash_mask + 1);
    struct fabric_peer_state **names = kit_host->mem_alloc(size * sizeof(*names), 0);
    struct fabric_peer_state **incarnations = kit_host->mem_alloc(size * sizeof(*incarnations), 0);

    if (names == NULL || incarnations == NULL) {
        kit_host->mem_free((void *) names);
        kit_host->mem_free((void *) incarnations);
        return NA_PLUGIN_NOMEM;
    }
    for (uint32_t i = 0; i < state->slot_count; i++) {
        struct fabric_peer_state *peer = state->slots[i].peer;
        uint32_t hash;

        if (peer == NULL)
            continue;
        peer->name_next = names[peer->name_hash & (size - 1)];
        names[peer->name_hash & (size - 1)] = peer;
        if (peer->their_incarnation == 0)
            continue;
        hash = fabric_incarnation_hash(peer->their_incarnation) & (size - 1);
        peer->incarnation_next = incarnations[hash];
        incarnations[hash] = peer;
    }
    kit_host->mem_free((void *) state->names);
    kit_host->mem_free((void *) state->incarnations);
    state->names = names;
    state->incarnations = incarnations;
    state->hash_mask = size - 1;
    return NA_PLUGIN_SUCCESS;
}

static uint32_t fabric_name_hash(const char *name)
{
    return (uint32_t) kit_digest(name, strlen(name));
}

static uint32_t fabric_incarnation_hash(uint64_t incarnation)
{
    return (uint32_t) ((incarnation * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

/* Nobody can get at it without the lock when there is no reference. */
bool fabric_peer_is_unused(struct fabric_peer_state *peer)
{
    if (atomic_load_explicit(&peer->refs, memory_order_acquire) != 0 || peer->is_self ||
        peer->waiting != 0 || !kit_list_empty(&peer->active_link))
        return false;
    return peer->phase == FABRIC_PEER_NEW || peer->is_removable || fabric_peer_process_gone(peer);
}

void fabric_peer_free(struct fabric_peer_state *peer)
{
    fabric_silence_end(peer);
    fabric_peer_set_canonical(peer, peer);
    fabric_peer_unlink(peer);
    kit_host->mem_free(peer->peer.raw);
    kit_host->mem_free(peer);
}

static void fabric_peer_unlink(struct fabric_peer_state *peer)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;
    struct fabric_peer_state **link = &state->names[peer->name_hash & state->hash_mask];

    while (*link != NULL && *link != peer)
        link = &(*link)->name_next;
    if (*link == peer)
        *link = peer->name_next;
    fabric_peer_unlink_incarnation(peer);
    if (peer->is_watched)
        state->watch_count--;
    kit_list_remove(&peer->watch_link);
    state->slots[peer->index].peer = NULL;
    state->slots[peer->index].next_free = state->slot_free;
    state->slot_free = peer->index;
    state->peer_count--;
}

static void fabric_peer_unlink_incarnation(struct fabric_peer_state *peer)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;
    struct fabric_peer_state **link;

    if (peer->their_incarnation == 0)
        return;
    link =
        &state->incarnations[fabric_incarnation_hash(peer->their_incarnation) & state->hash_mask];
    while (*link != NULL && *link != peer)
        link = &(*link)->incarnation_next;
    if (*link == peer)
        *link = peer->incarnation_next;
    peer->their_incarnation = 0;
    peer->their_incarnation_low = 0;
}
