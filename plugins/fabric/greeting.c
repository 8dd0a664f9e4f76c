/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How two endpoints get to know each other. A greeting carries who its sender is and the token
 * under which it knows the receiver; the welcome is the same the other way round. Greetings may
 * cross: each of them introduces its sender completely.
 */

#include "state.h"

#include <string.h>

static bool fabric_hello_read(const struct fabric_endpoint_state *state, const void *data,
                              uint32_t size, struct fabric_hello *hello);
static bool fabric_hello_is_from(struct fabric_endpoint_state *state, const void *path,
                                 const struct fabric_hello *hello);
static bool fabric_peer_is_at(const struct fabric_peer_state *peer, const void *path);
static void fabric_hello_forged(struct fabric_endpoint_state *state,
                                const struct fabric_hello *hello);
static struct fabric_peer_state *fabric_hello_find(struct fabric_endpoint_state *state,
                                                   const void *path,
                                                   const struct fabric_hello *hello);
static bool fabric_hello_is_other(const struct fabric_peer_state *peer,
                                  const struct fabric_hello *hello);
static bool fabric_hello_accept(struct fabric_peer_state *peer, const struct fabric_hello *hello);
static void fabric_hello_find_alias(struct fabric_peer_state *peer, const void *path,
                                    const struct fabric_hello *hello);

/* Bytes that a greeting of ours takes in a frame. */
uint32_t fabric_greeting_size(const struct fabric_endpoint_state *state)
{
    return (uint32_t) (sizeof(struct wire_greeting) + strlen(state->name) + state->raw_size);
}

/* Also writes a welcome; it takes fabric_greeting_size() bytes. */
void fabric_greeting_write(const struct fabric_peer_state *peer, uint32_t kind, uint8_t *place)
{
    const struct fabric_endpoint_state *state = peer->endpoint->state;
    const size_t name_size = strlen(state->name);
    const struct wire_greeting greeting = {
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

    memcpy(place, &greeting, sizeof(greeting));
    memcpy(place + sizeof(greeting), state->name, name_size);
    if (state->raw_size != 0)
        memcpy(place + sizeof(greeting) + name_size, state->raw, state->raw_size);
}

/* The peer that greets; NULL when the frame is to be dropped. */
struct fabric_peer_state *fabric_greeting_read(struct fabric_endpoint_state *state,
                                               const void *path, const void *data, uint32_t size,
                                               struct fabric_hello *hello)
{
    struct fabric_peer_state *peer;

    if (!fabric_hello_read(state, data, size, hello)) {
        state->counters.frames_bad++;
        FABRIC_LOG_DEBUG(state->endpoint, "dropped a greeting of %u bytes that is malformed", size);
        return NULL;
    }
    if (!fabric_hello_is_from(state, path, hello))
        return NULL;
    peer = fabric_hello_find(state, path, hello);
    return peer != NULL && !peer->is_self ? peer : NULL;
}

/*
 * Makes the peer the one that greets, which is owed a welcome then. What was posted before
 * peer->lost_before was for another one, to which the way is to be closed. False without memory.
 */
bool fabric_greeting_take(struct fabric_peer_state *peer, const struct fabric_hello *hello)
{
    peer->endpoint->state->counters.greetings++;
    if (fabric_hello_is_other(peer, hello)) {
        peer->lost_before = peer->answered + 1;
        peer->owed |= FABRIC_STALE;
        peer->life++;
        peer->in_flight = 0;
        fabric_peer_set_identity(peer, peer);
    }
    if (!fabric_hello_accept(peer, hello))
        return false;
    peer->their_epoch = hello->greeting.epoch;
    peer->answered = peer->epoch;
    peer->owed &= ~FABRIC_OWE_GREETING;
    peer->owed |= FABRIC_OWE_WELCOME;
    return true;
}

/* False when it is malformed. As to what was posted before see fabric_greeting_take(). */
bool fabric_welcome_received(struct fabric_peer_state *peer, const void *data, uint32_t size)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;
    const struct fabric_ops *ops = peer->endpoint->ops;
    const void *path = ops->peer_path != NULL ? ops->peer_path(peer->endpoint, &peer->peer) : NULL;
    struct fabric_hello hello;
    uint32_t epoch;

    if (!fabric_hello_read(state, data, size, &hello) || peer->is_self ||
        !fabric_hello_is_from(state, path, &hello))
        return false;
    epoch = hello.greeting.epoch;
    if (epoch == 0 || epoch > peer->epoch || epoch < peer->answered)
        return epoch != 0 && epoch <= peer->epoch; /* an answer to what is long answered */
    if (fabric_hello_is_other(peer, &hello)) {
        peer->lost_before = epoch > peer->answered ? epoch : peer->answered + 1;
        fabric_peer_set_identity(peer, peer);
    } else {
        fabric_hello_find_alias(peer, path, &hello);
    }
    if (!fabric_hello_accept(peer, &hello))
        return true;
    peer->answered = epoch;
    if (epoch == peer->epoch)
        peer->owed &= ~FABRIC_OWE_GREETING;
    return true;
}

static bool fabric_hello_read(const struct fabric_endpoint_state *state, const void *data,
                              uint32_t size, struct fabric_hello *hello)
{
    struct wire_greeting *greeting = &hello->greeting;
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
    memcpy(hello->name, rest, greeting->name_size);
    hello->name[greeting->name_size] = '\0';
    hello->raw = rest + greeting->name_size;
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
static bool fabric_hello_is_from(struct fabric_endpoint_state *state, const void *path,
                                 const struct fabric_hello *hello)
{
    struct fabric_endpoint *endpoint = state->endpoint;

    if (endpoint->ops->peer_path == NULL ||
        (path != NULL && endpoint->ops->path_is_named(endpoint, path, hello->name)))
        return true;
    fabric_hello_forged(state, hello);
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

static void fabric_hello_forged(struct fabric_endpoint_state *state,
                                const struct fabric_hello *hello)
{
    uint32_t level =
        state->counters.frames_bad++ == 0 ? NA_PLUGIN_LOG_WARNING : NA_PLUGIN_LOG_DEBUG;

    FABRIC_LOG(state->endpoint, level,
               "dropped a greeting in the name of %s that is not from there; further ones are "
               "logged as debug",
               hello->name);
}

/* NULL: it is of somebody else, or there is no memory. */
static struct fabric_peer_state *fabric_hello_find(struct fabric_endpoint_state *state,
                                                   const void *path,
                                                   const struct fabric_hello *hello)
{
    struct fabric_peer_state *peer = fabric_peer_by_incarnation(state, hello->greeting.incarnation);

    if (peer == NULL || !fabric_peer_is_at(peer, path))
        peer = fabric_peer_by_name(state, hello->name);
    if (peer != NULL && !fabric_peer_is_at(peer, path)) {
        fabric_hello_forged(state, hello);
        return NULL;
    }
    if (peer == NULL && fabric_peer_make(state, hello->name, &peer) != NA_PLUGIN_SUCCESS) {
        FABRIC_LOG_ERROR(state->endpoint, "no memory for the peer %s that greets us", hello->name);
        return NULL;
    }
    return peer;
}

/* True when what was sent to the one that we knew does not count any more. */
static bool fabric_hello_is_other(const struct fabric_peer_state *peer,
                                  const struct fabric_hello *hello)
{
    if (peer->their_incarnation == 0 || peer->their_token == 0)
        return false;
    return peer->their_incarnation != hello->greeting.incarnation ||
           peer->their_token != hello->greeting.token || peer->their_mask != hello->greeting.mask;
}

/* False without memory. */
static bool fabric_hello_accept(struct fabric_peer_state *peer, const struct fabric_hello *hello)
{
    const struct fabric_endpoint_state *state = peer->endpoint->state;
    const struct wire_greeting *greeting = &hello->greeting;

    if (fabric_peer_set_raw(peer, hello->raw, greeting->raw_size) != NA_PLUGIN_SUCCESS) {
        FABRIC_LOG_ERROR(peer->endpoint, "no memory for the address of %s", hello->name);
        return false;
    }
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
    fabric_peer_mark(peer);
    return true;
}

/* The same process may be known by another of its names already: it is one sender. */
static void fabric_hello_find_alias(struct fabric_peer_state *peer, const void *path,
                                    const struct fabric_hello *hello)
{
    struct fabric_peer_state *alias =
        fabric_peer_by_incarnation(peer->endpoint->state, hello->greeting.incarnation);

    if (alias == NULL || alias->identity == peer->identity || !fabric_peer_is_at(alias, path))
        return;
    alias = alias->identity;
    if (alias == peer || peer->identity != peer)
        return;
    fabric_peer_set_identity(peer, alias);
}
