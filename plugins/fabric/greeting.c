/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How two endpoints get to know each other. A greeting carries who its sender is and the token
 * under which it knows the receiver; the welcome is the same the other way round. Greetings may
 * cross: each of them introduces its sender completely.
 */

#include "state.h"

#include <string.h>

/* A greeting, checked. */
struct fabric_card {
    struct wire_greeting greeting; /* in our byte order */
    char name[FABRIC_NAME_MAX];
    const uint8_t *raw;
};

static bool fabric_card_read(const struct fabric_endpoint_state *state, const void *data,
                             uint32_t size, struct fabric_card *card);
static bool fabric_card_is_from(struct fabric_endpoint_state *state, const void *path,
                                const struct fabric_card *card);
static bool fabric_peer_is_at(const struct fabric_peer_state *peer, const void *path);
static void fabric_card_forged(struct fabric_endpoint_state *state, const struct fabric_card *card);
static struct fabric_peer_state *fabric_card_find(struct fabric_endpoint_state *state,
                                                  const void *path, const struct fabric_card *card);
static bool fabric_card_is_other(const struct fabric_peer_state *peer,
                                 const struct fabric_card *card);
static bool fabric_card_accept(struct fabric_peer_state *peer, const struct fabric_card *card);
static void fabric_card_find_twin(struct fabric_peer_state *peer, const void *path,
                                  const struct fabric_card *card);

/* Bytes that a greeting of ours takes in a frame. */
uint32_t fabric_greeting_size(const struct fabric_endpoint_state *state)
{
    return (uint32_t) (sizeof(struct wire_greeting) + strlen(state->name) + state->raw_size);
}

/* Also writes a welcome. The caller knows that it fits. */
void fabric_greeting_add(struct fabric_out *out, struct fabric_peer_state *peer, uint32_t kind)
{
    const struct fabric_endpoint_state *state = peer->endpoint->state;
    size_t name_size = strlen(state->name);
    struct wire_greeting greeting = {
        .token = htole64(fabric_peer_token(peer)),
        .incarnation = htole64(state->incarnation),
        .host = htole64(state->host_id),
        .pid_namespace = htole64(state->pid_namespace),
        .start_time = htole64(state->start_time),
        .mask = htole32(peer->mask),
        .pid = htole32(state->pid),
        .epoch = htole32(kind == WIRE_WELCOME ? peer->their_epoch : peer->epoch),
        .name_size = htole16((uint16_t) name_size),
        .raw_size = htole16((uint16_t) state->raw_size),
    };
    uint8_t content[sizeof(greeting) + FABRIC_NAME_MAX + FABRIC_RAW_MAX];

    memcpy(content, &greeting, sizeof(greeting));
    memcpy(content + sizeof(greeting), state->name, name_size);
    if (state->raw_size != 0)
        memcpy(content + sizeof(greeting) + name_size, state->raw, state->raw_size);
    fabric_out_add(out, kind, 0, content, fabric_greeting_size(peer->endpoint->state));
}

/*
 * The peer that greets, which is owed a welcome now; NULL when the frame is to be dropped, as all
 * are when we are leaving.
 */
struct fabric_peer_state *fabric_greeting_received(struct fabric_endpoint_state *state,
                                                   const void *path, const void *data,
                                                   uint32_t size)
{
    struct fabric_peer_state *peer;
    struct fabric_card card;
    bool is_other;

    if (state->open_contexts == 0)
        return NULL;
    if (!fabric_card_read(state, data, size, &card)) {
        state->counters.frames_bad++;
        FABRIC_LOG_DEBUG(state->endpoint, "dropped a greeting of %u bytes that is malformed", size);
        return NULL;
    }
    peer = fabric_card_is_from(state, path, &card) ? fabric_card_find(state, path, &card) : NULL;
    if (peer == NULL || peer->is_self)
        return NULL;
    state->counters.greetings++;
    is_other = fabric_card_is_other(peer, &card);
    if (is_other) {
        fabric_peer_restarted(peer, peer->answered + 1);
        fabric_peer_close(peer); /* the way to its predecessor, with what is on it */
        peer->life++;
        peer->in_flight = 0;
    }
    if (!fabric_card_accept(peer, &card))
        return NULL;
    peer->their_epoch = card.greeting.epoch;
    peer->answered = peer->epoch;
    peer->owed &= ~FABRIC_OWE_GREETING;
    peer->owed |= FABRIC_OWE_WELCOME;
    return peer;
}

/* False when it is malformed. */
bool fabric_welcome_received(struct fabric_peer_state *peer, const void *data, uint32_t size)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;
    const struct fabric_ops *ops = peer->endpoint->ops;
    const void *path = ops->peer_path != NULL ? ops->peer_path(peer->endpoint, &peer->peer) : NULL;
    struct fabric_card card;
    uint32_t epoch;

    if (!fabric_card_read(state, data, size, &card) || peer->is_self ||
        !fabric_card_is_from(state, path, &card))
        return false;
    epoch = card.greeting.epoch;
    if (epoch == 0 || epoch > peer->epoch || epoch < peer->answered)
        return epoch != 0 && epoch <= peer->epoch; /* an answer to what is long answered */
    fabric_card_find_twin(peer, path, &card);
    if (fabric_card_is_other(peer, &card))
        fabric_peer_restarted(peer, epoch > peer->answered ? epoch : peer->answered + 1);
    if (!fabric_card_accept(peer, &card))
        return true;
    peer->answered = epoch;
    peer->owed |= FABRIC_OWE_LOOK;
    if (epoch == peer->epoch)
        peer->owed &= ~FABRIC_OWE_GREETING;
    return true;
}

/* So that the others need not find out. What cannot leave at once is not sent. */
void fabric_goodbyes_send(struct fabric_endpoint_state *state)
{
    for (uint32_t i = 0; i < state->slot_count; i++) {
        struct fabric_peer_state *peer = state->slots[i].peer;

        if (peer == NULL || peer->is_self || peer->phase == FABRIC_PEER_NEW)
            continue;
        peer->owed |= FABRIC_OWE_GOODBYE;
        fabric_peer_flush(peer);
    }
}

static bool fabric_card_read(const struct fabric_endpoint_state *state, const void *data,
                             uint32_t size, struct fabric_card *card)
{
    struct wire_greeting *greeting = &card->greeting;
    const uint8_t *rest = (const uint8_t *) data + sizeof(*greeting);

    if (size < sizeof(*greeting))
        return false;
    memcpy(greeting, data, sizeof(*greeting));
    greeting->token = le64toh(greeting->token);
    greeting->incarnation = le64toh(greeting->incarnation);
    greeting->host = le64toh(greeting->host);
    greeting->pid_namespace = le64toh(greeting->pid_namespace);
    greeting->start_time = le64toh(greeting->start_time);
    greeting->mask = le32toh(greeting->mask);
    greeting->pid = le32toh(greeting->pid);
    greeting->epoch = le32toh(greeting->epoch);
    greeting->name_size = le16toh(greeting->name_size);
    greeting->raw_size = le16toh(greeting->raw_size);
    if (greeting->incarnation == 0 || greeting->incarnation == state->incarnation ||
        greeting->token >> 32 == 0 || greeting->epoch == 0 || greeting->raw_size > FABRIC_RAW_MAX ||
        size != sizeof(*greeting) + greeting->name_size + greeting->raw_size ||
        !fabric_name_is_good(rest, greeting->name_size))
        return false;
    memcpy(card->name, rest, greeting->name_size);
    card->name[greeting->name_size] = '\0';
    card->raw = rest + greeting->name_size;
    return true;
}

/* It goes into logs and address strings. */
bool fabric_name_is_good(const uint8_t *name, uint32_t size)
{
    if (size == 0 || size >= FABRIC_NAME_MAX)
        return false;
    for (uint32_t i = 0; i < size; i++)
        if (name[i] <= ' ' || name[i] >= 0x7f)
            return false;
    return true;
}

/* Whether the sender over that path may call itself so; true where the fabric does not tell. */
static bool fabric_card_is_from(struct fabric_endpoint_state *state, const void *path,
                                const struct fabric_card *card)
{
    struct fabric_endpoint *endpoint = state->endpoint;

    if (endpoint->ops->peer_path == NULL ||
        (path != NULL && endpoint->ops->path_is_named(endpoint, path, card->name)))
        return true;
    fabric_card_forged(state, card);
    return false;
}

/* The same of a peer that we have: its own path, or where it would have introduced itself. */
static bool fabric_peer_is_at(const struct fabric_peer_state *peer, const void *path)
{
    const struct fabric_ops *ops = peer->endpoint->ops;
    const void *own;

    if (ops->peer_path == NULL || peer->is_self)
        return true;
    own = ops->peer_path(peer->endpoint, &peer->peer);
    return own != NULL ? own == path : ops->path_is_named(peer->endpoint, path, peer->peer.name);
}

static void fabric_card_forged(struct fabric_endpoint_state *state, const struct fabric_card *card)
{
    uint32_t level =
        state->counters.frames_bad++ == 0 ? NA_PLUGIN_LOG_WARNING : NA_PLUGIN_LOG_DEBUG;

    FABRIC_LOG(state->endpoint, level,
               "dropped a greeting in the name of %s that is not from there; further ones are "
               "logged as debug",
               card->name);
}

/* NULL: it is of somebody else, or there is no memory. */
static struct fabric_peer_state *fabric_card_find(struct fabric_endpoint_state *state,
                                                  const void *path, const struct fabric_card *card)
{
    struct fabric_peer_state *peer = fabric_peer_by_incarnation(state, card->greeting.incarnation);

    if (peer == NULL || !fabric_peer_is_at(peer, path))
        peer = fabric_peer_by_name(state, card->name);
    if (peer != NULL && !fabric_peer_is_at(peer, path)) {
        fabric_card_forged(state, card);
        return NULL;
    }
    if (peer == NULL && fabric_peer_make(state, card->name, &peer) != NA_PLUGIN_SUCCESS) {
        FABRIC_LOG_ERROR(state->endpoint, "no memory for the peer %s that greets us", card->name);
        return NULL;
    }
    return peer;
}

/* True when what was sent to the one that we knew does not count any more. */
static bool fabric_card_is_other(const struct fabric_peer_state *peer,
                                 const struct fabric_card *card)
{
    if (peer->their_incarnation == 0 || peer->their_token == 0)
        return false;
    return peer->their_incarnation != card->greeting.incarnation ||
           peer->their_token != card->greeting.token || peer->their_mask != card->greeting.mask;
}

/* False without memory. What was built for the one that we knew is built again. */
static bool fabric_card_accept(struct fabric_peer_state *peer, const struct fabric_card *card)
{
    const struct fabric_endpoint_state *state = peer->endpoint->state;
    const struct wire_greeting *greeting = &card->greeting;

    if (fabric_peer_set_raw(peer, card->raw, greeting->raw_size) != NA_PLUGIN_SUCCESS) {
        FABRIC_LOG_ERROR(peer->endpoint, "no memory for the address of %s", card->name);
        return false;
    }
    fabric_out_unbuild(peer);
    fabric_peer_set_incarnation(peer, greeting->incarnation);
    if (peer->their_token != greeting->token)
        peer->sent_sequence = 0;
    peer->their_token = greeting->token;
    peer->their_mask = greeting->mask;
    peer->host = greeting->host;
    peer->pid_namespace = greeting->pid_namespace;
    peer->start_time = greeting->start_time;
    peer->pid = greeting->pid;
    peer->peer.local = state->host_id != 0 && greeting->host == state->host_id;
    peer->is_removable = false;
    peer->has_closed = false;
    peer->is_suspect = false;
    peer->phase = FABRIC_PEER_READY;
    peer->owed &= ~(FABRIC_NOT_READY | FABRIC_OWE_PING);
    return true;
}

/* The same process may be known by another of its names already: it is one sender. */
static void fabric_card_find_twin(struct fabric_peer_state *peer, const void *path,
                                  const struct fabric_card *card)
{
    struct fabric_peer_state *twin =
        fabric_peer_by_incarnation(peer->endpoint->state, card->greeting.incarnation);

    if (twin == NULL || twin->identity == peer->identity || !fabric_peer_is_at(twin, path))
        return;
    twin = twin->identity;
    if (twin == peer || peer->identity != peer)
        return;
    fabric_peer_hold(twin);
    fabric_recv_rematch(peer, twin);
}
