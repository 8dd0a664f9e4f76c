/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: found by token, by name and by incarnation. A ready peer is kept without references,
 * because its next message may come at any time. An unused peer is freed if it has sent a BYE, its
 * process has ended, or it was never ready.
 */

#include "session_state.h"

#include <errno.h>
#include <string.h>

#define SESSION_SLOTS_FIRST 64u
#define SESSION_SWEEP       4u /* slots checked for unused peers when a peer is made */

static int32_t self_make(struct kit_session *session, const struct kit_session_config *config);
static int32_t slots_grow(struct kit_session *session);
static int32_t hash_grow(struct kit_session *session);
static uint32_t name_hash(const char *name);
static uint32_t incarnation_hash(uint64_t incarnation);
static bool peer_new_token(struct kit_peer *peer);
static void peer_unlink(struct kit_peer *peer);
static void peer_unlink_incarnation(struct kit_peer *peer);

int32_t kit_session_open(struct kit_session *session, const struct kit_session_config *config)
{
    struct kit_key drawn;
    int32_t ret;

    kit_list_init(&session->active);
    kit_list_init(&session->watch);
    kit_list_init(&session->offers_by_age);
    session->config = *config;
    session->config.name = NULL;
    session->config.raw = NULL;
    session->config.auth_key = NULL;
    session->config.auth_key_also = NULL;
    ret = kit_auth_secret_open(config->plugin, config->auth_key, &session->secret);
    if (ret == NA_PLUGIN_SUCCESS && session->secret != NULL)
        ret = kit_auth_secret_open(config->plugin, config->auth_key_also, &session->secret_also);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    session->has_aes = session->secret != NULL && kit_auth_has_aes();
    ret = kit_key_take(&session->keys, &drawn);
    if (ret != NA_PLUGIN_SUCCESS) {
        SESSION_LOG_ERROR(session, "no random numbers (%s)", strerror(errno));
        return ret;
    }
    session->incarnation = drawn.word[0];
    kit_session_describe_process(session);
    ret = kit_silence_setup(session);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = slots_grow(session);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = hash_grow(session);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = self_make(session, config);
    return ret;
}

void kit_session_close(struct kit_session *session)
{
    for (uint32_t i = 0; i < session->slot_count; i++)
        if (session->slots[i].peer != NULL)
            kit_peer_free(session->slots[i].peer);
    kit_host->mem_free(session->slots);
    kit_host->mem_free((void *) session->names);
    kit_host->mem_free((void *) session->incarnations);
    kit_auth_secret_close(session->secret);
    kit_auth_secret_close(session->secret_also);
    session->secret = session->secret_also = NULL;
}

int32_t kit_peer_make(struct kit_session *session, const char *name, struct kit_peer **peer_p)
{
    const uint32_t size = (session->config.peer_size + 63) / 64 * 64;
    const size_t length = strlen(name) + 1;
    struct kit_session_slot *slot;
    struct kit_peer *peer;

    session->sweeps += SESSION_SWEEP;
    session->is_marked = true;
    if (session->slot_free == session->slot_count && slots_grow(session) != NA_PLUGIN_SUCCESS)
        return NA_PLUGIN_NOMEM;
    if (session->peer_count > session->hash_mask)
        (void) hash_grow(session);
    peer = kit_host->mem_alloc(size + session->config.private_size + length, 64);
    if (peer == NULL)
        return NA_PLUGIN_NOMEM;
    peer->priv = (uint8_t *) peer + size;
    peer->name = (char *) peer->priv + session->config.private_size;
    memcpy(peer->name, name, length);
    peer->session = session;
    peer->canonical = peer;
    peer->pending = KIT_PENDING_ANSWER;
    peer->phase = KIT_PEER_NEW;
    peer->epoch = 1;
    peer->ping_ms = SESSION_PING_MS;
    kit_list_init(&peer->watch_link);
    kit_list_init(&peer->active_link);

    peer->index = session->slot_free;
    slot = &session->slots[peer->index];
    if (session->self != NULL && !kit_peer_auth_make(peer)) {
        kit_host->mem_free(peer);
        return NA_PLUGIN_NOMEM;
    }
    if (!peer_new_token(peer)) {
        SESSION_LOG_ERROR(session, "no random numbers for one more peer (%s)", strerror(errno));
        kit_peer_auth_free(peer);
        kit_host->mem_free(peer);
        return NA_PLUGIN_IO_ERROR;
    }
    session->slot_free = slot->next_free;
    slot->peer = peer;
    peer->name_hash = name_hash(name);
    peer->name_next = session->names[peer->name_hash & session->hash_mask];
    session->names[peer->name_hash & session->hash_mask] = peer;
    session->peer_count++;
    *peer_p = peer;
    return NA_PLUGIN_SUCCESS;
}

struct kit_peer *kit_peer_by_name(struct kit_session *session, const char *name)
{
    uint32_t hash = name_hash(name);
    struct kit_peer *peer = session->names[hash & session->hash_mask];

    while (peer != NULL && (peer->name_hash != hash || strcmp(peer->name, name) != 0))
        peer = peer->name_next;
    return peer;
}

struct kit_peer *kit_peer_by_incarnation(struct kit_session *session, uint64_t incarnation)
{
    struct kit_peer *peer =
        session->incarnations[incarnation_hash(incarnation) & session->hash_mask];

    while (peer != NULL && peer->their_incarnation != incarnation)
        peer = peer->incarnation_next;
    return peer;
}

int32_t kit_peer_set_raw(struct kit_peer *peer, const void *raw, uint32_t raw_size)
{
    void *copy;

    if (raw_size == 0 || (peer->raw_size == raw_size && memcmp(peer->raw, raw, raw_size) == 0))
        return NA_PLUGIN_SUCCESS;
    copy = kit_host->mem_alloc(raw_size, 0);
    if (copy == NULL)
        return NA_PLUGIN_NOMEM;
    memcpy(copy, raw, raw_size);
    kit_host->mem_free(peer->raw);
    peer->raw = copy;
    peer->raw_size = raw_size;
    return NA_PLUGIN_SUCCESS;
}

/* Also moves the peer in the hash table. */
void kit_peer_set_incarnation(struct kit_peer *peer, uint64_t incarnation)
{
    struct kit_session *session = peer->session;
    uint32_t hash = incarnation_hash(incarnation);

    if (peer->their_incarnation == incarnation)
        return;
    peer_unlink_incarnation(peer);
    peer->their_incarnation = incarnation;
    peer->their_incarnation_low = (uint32_t) incarnation;
    peer->incarnation_next = session->incarnations[hash & session->hash_mask];
    session->incarnations[hash & session->hash_mask] = peer;
}

/*
 * Frames that the peer sends under its old token are stale from now on. If getrandom fails the
 * token stays, because another one could be guessed. Returns false then.
 */
static bool peer_new_token(struct kit_peer *peer)
{
    struct kit_session_slot *slot = &peer->session->slots[peer->index];
    struct kit_key drawn;
    uint32_t old;

    if (kit_key_take(&peer->session->keys, &drawn) != NA_PLUGIN_SUCCESS)
        return false;
    /* The new nonce differs from the old one, and is not 0. */
    old = slot->nonce;
    slot->nonce = (uint32_t) drawn.word[0];
    while (slot->nonce == old || slot->nonce == 0)
        slot->nonce++;
    peer->nonce = slot->nonce;
    peer->mask = (uint32_t) drawn.word[1];
    peer->holder = ++peer->session->numbers;
    peer->received_sequence = 0;
    peer->other_sequence = 0;
    return true;
}

/*
 * The token changes at once: frames that still come before the message layer has acted on the
 * failure must not count for the connection that follows.
 */
void kit_peer_failed(struct kit_peer *peer, int32_t status, const char *reason)
{
    if (peer->is_self || (peer->pending & KIT_PENDING_FAILURE) != 0)
        return;
    peer->failure = status;
    kit_host->mem_free(peer->failure_reason);
    peer->failure_reason = kit_host->mem_alloc(strlen(reason) + 1, 0);
    if (peer->failure_reason != NULL)
        memcpy(peer->failure_reason, reason, strlen(reason) + 1);
    peer->pending = (peer->pending & (KIT_PENDING_CLOSE | KIT_PENDING_REFUSAL)) |
                    KIT_PENDING_FAILURE | KIT_PENDING_ANSWER;
    (void) peer_new_token(peer);
    kit_peer_auth_reset(peer);
    kit_peer_mark(peer);
}

/* The peer holds a reference to another canonical peer. */
void kit_peer_set_canonical(struct kit_peer *peer, struct kit_peer *canonical)
{
    if (canonical != peer)
        kit_peer_hold(canonical);
    if (peer->canonical != peer)
        kit_peer_release(peer->canonical);
    peer->canonical = canonical;
}

void kit_peer_hello_again(struct kit_peer *peer)
{
    if (peer->is_self)
        return;
    if (peer->phase == KIT_PEER_NEW && !peer->is_stalled)
        return; /* its first frame begins with a HELLO anyway */
    peer->epoch++;
    if (peer->phase == KIT_PEER_HELLO_SENT)
        peer->pending |= KIT_PENDING_PING;
    peer->pending |= KIT_PENDING_HELLO;
}

/* Frames in flight do not count for the peer any more; frames that it sends are stale. */
void kit_peer_reset(struct kit_peer *peer)
{
    peer->connection++;
    peer->phase = KIT_PEER_NEW;
    peer->pending = KIT_PENDING_ANSWER | KIT_PENDING_CLOSE |
                    (peer->pending & (KIT_PENDING_PING | KIT_PENDING_REFUSAL));
    peer->their_token = 0;
    peer->sent_sequence = 0;
    peer->in_flight = 0;
    peer->is_suspect = false;
    peer->silent_network_ms = 0;
    peer->silent_ms = 0;
    peer->ping_ms = SESSION_PING_MS;
    peer->answered = peer->epoch++;
    kit_silence_end(peer);
    (void) peer_new_token(peer);
    kit_peer_auth_reset(peer);
    kit_peer_set_canonical(peer, peer);
    kit_peer_mark(peer);
}

static int32_t self_make(struct kit_session *session, const struct kit_session_config *config)
{
    struct kit_peer *self;
    int32_t ret = kit_peer_make(session, config->name, &self);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    session->self = self;
    self->is_self = true;
    self->phase = KIT_PEER_READY;
    self->pending = 0;
    self->their_token = kit_peer_token(self);
    self->local = 1;
    kit_peer_set_incarnation(self, session->incarnation);
    return kit_peer_set_raw(self, config->raw, config->raw_size);
}

static int32_t slots_grow(struct kit_session *session)
{
    uint32_t count = session->slot_count == 0 ? SESSION_SLOTS_FIRST : 2 * session->slot_count;
    struct kit_session_slot *slots;

    if (count > KIT_SESSION_PEERS_MAX) {
        SESSION_LOG_ERROR(
            session, "%u peers are known, which is the limit; free addresses that are not needed",
            session->peer_count);
        return NA_PLUGIN_NOMEM;
    }
    slots = kit_host->mem_alloc(count * sizeof(*slots), 0);
    if (slots == NULL)
        return NA_PLUGIN_NOMEM;
    if (session->slot_count != 0)
        memcpy(slots, session->slots, session->slot_count * sizeof(*slots));
    for (uint32_t i = session->slot_count; i < count; i++) {
        slots[i].next_free = i + 1;
    }
    kit_host->mem_free(session->slots);
    session->slot_free = session->slot_count; /* no slot was free */
    session->slots = slots;
    session->slot_count = count;
    return NA_PLUGIN_SUCCESS;
}

/* Without memory the tables stay as they are, and lookups get slower. */
static int32_t hash_grow(struct kit_session *session)
{
    uint32_t size = session->names == NULL ? 256 : 2 * (session->hash_mask + 1);
    struct kit_peer **names = kit_host->mem_alloc(size * sizeof(*names), 0);
    struct kit_peer **incarnations = kit_host->mem_alloc(size * sizeof(*incarnations), 0);

    if (names == NULL || incarnations == NULL) {
        kit_host->mem_free((void *) names);
        kit_host->mem_free((void *) incarnations);
        return NA_PLUGIN_NOMEM;
    }
    for (uint32_t i = 0; i < session->slot_count; i++) {
        struct kit_peer *peer = session->slots[i].peer;
        uint32_t hash;

        if (peer == NULL)
            continue;
        peer->name_next = names[peer->name_hash & (size - 1)];
        names[peer->name_hash & (size - 1)] = peer;
        if (peer->their_incarnation == 0)
            continue;
        hash = incarnation_hash(peer->their_incarnation) & (size - 1);
        peer->incarnation_next = incarnations[hash];
        incarnations[hash] = peer;
    }
    kit_host->mem_free((void *) session->names);
    kit_host->mem_free((void *) session->incarnations);
    session->names = names;
    session->incarnations = incarnations;
    session->hash_mask = size - 1;
    return NA_PLUGIN_SUCCESS;
}

static uint32_t name_hash(const char *name)
{
    return (uint32_t) kit_digest(name, strlen(name));
}

static uint32_t incarnation_hash(uint64_t incarnation)
{
    return (uint32_t) ((incarnation * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

/* Without a reference no thread reaches the peer without the lock, so the check is not racy. */
bool kit_peer_is_unused(const struct kit_peer *peer)
{
    if (__atomic_load_n(&peer->refs, __ATOMIC_ACQUIRE) != 0 || peer->is_self ||
        peer->waiting != 0 || !kit_list_empty(&peer->active_link) || kit_offer_is_open(peer))
        return false;
    return peer->phase == KIT_PEER_NEW || peer->is_removable || kit_peer_process_gone(peer);
}

void kit_peer_free(struct kit_peer *peer)
{
    kit_silence_end(peer);
    kit_peer_set_canonical(peer, peer);
    peer_unlink(peer);
    kit_peer_auth_free(peer);
    kit_host->mem_free(peer->failure_reason);
    kit_host->mem_free(peer->raw);
    kit_host->mem_free(peer);
}

static void peer_unlink(struct kit_peer *peer)
{
    struct kit_session *session = peer->session;
    struct kit_peer **link = &session->names[peer->name_hash & session->hash_mask];

    while (*link != NULL && *link != peer)
        link = &(*link)->name_next;
    if (*link == peer)
        *link = peer->name_next;
    peer_unlink_incarnation(peer);
    if (peer->is_watched)
        session->watch_count--;
    kit_list_remove(&peer->watch_link);
    session->slots[peer->index].peer = NULL;
    session->slots[peer->index].next_free = session->slot_free;
    session->slot_free = peer->index;
    session->peer_count--;
}

static void peer_unlink_incarnation(struct kit_peer *peer)
{
    struct kit_session *session = peer->session;
    struct kit_peer **link;

    if (peer->their_incarnation == 0)
        return;
    link = &session->incarnations[incarnation_hash(peer->their_incarnation) & session->hash_mask];
    while (*link != NULL && *link != peer)
        link = &(*link)->incarnation_next;
    if (*link == peer)
        *link = peer->incarnation_next;
    peer->their_incarnation = 0;
    peer->their_incarnation_low = 0;
}
