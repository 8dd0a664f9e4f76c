/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How two endpoints get to know each other. A HELLO carries the name and the process of its sender,
 * and the token under which the sender knows the receiver; HELLO_ACK is the same the other way
 * round. HELLOs may cross: each of them introduces its sender completely.
 */

#include "state.h"

#include <string.h>

static bool hello_parse(const struct fabric_endpoint_state *state, const void *data, uint32_t size,
                        struct fabric_hello *hello);
static bool hello_is_from(struct fabric_endpoint_state *state, const void *path,
                          const struct fabric_hello *hello);
static bool fabric_peer_is_at(const struct fabric_peer_state *peer, const void *path);
static void hello_is_forged(struct fabric_endpoint_state *state, const struct fabric_hello *hello);
static struct fabric_peer_state *hello_find(struct fabric_endpoint_state *state, const void *path,
                                            const struct fabric_hello *hello);
static bool hello_is_other(const struct fabric_peer_state *peer, const struct fabric_hello *hello);
static bool hello_accept(struct fabric_peer_state *peer, const struct fabric_hello *hello);
static void hello_find_alias(struct fabric_peer_state *peer, const void *path,
                             const struct fabric_hello *hello);

/* Bytes that a HELLO of ours takes in a frame. */
uint32_t fabric_hello_size(const struct fabric_endpoint_state *state)
{
    return (uint32_t) (sizeof(struct wire_hello) + strlen(state->name) + state->raw_size);
}

/* Also writes HELLO_ACK; it takes fabric_hello_size() bytes. */
void fabric_hello_write(const struct fabric_peer_state *peer, uint32_t kind, uint8_t *place)
{
    const struct fabric_endpoint_state *state = peer->endpoint->state;
    const size_t name_size = strlen(state->name);
    const struct wire_hello wire = {
        .token = htole64(fabric_peer_token(peer)),
        .incarnation = htole64(state->incarnation),
        .host = htole64(state->host_id),
        .pid_namespace = htole64(state->pid_namespace),
        .start_time = htole64(state->start_time),
        .mask = htole32(peer->mask),
        .pid = htole32(state->pid),
        .epoch = htole32(kind == WIRE_HELLO_ACK ? peer->their_epoch : peer->epoch),
        .name_size = htole16((uint16_t) name_size),
        .raw_size = htole16((uint16_t) state->raw_size),
    };

    memcpy(place, &wire, sizeof(wire));
    memcpy(place + sizeof(wire), state->name, name_size);
    if (state->raw_size != 0)
        memcpy(place + sizeof(wire) + name_size, state->raw, state->raw_size);
}

/* The peer that sent it; NULL when the frame is to be dropped. */
struct fabric_peer_state *fabric_hello_read(struct fabric_endpoint_state *state, const void *path,
                                            const void *data, uint32_t size,
                                            struct fabric_hello *hello)
{
    struct fabric_peer_state *peer;

    if (!hello_parse(state, data, size, hello)) {
        state->counters.frames_bad++;
        FABRIC_LOG_DEBUG(state->endpoint, "dropped a HELLO of %u bytes that is malformed", size);
        return NULL;
    }
    if (!hello_is_from(state, path, hello))
        return NULL;
    peer = hello_find(state, path, hello);
    return peer != NULL && !peer->is_self ? peer : NULL;
}

/*
 * Makes the peer the one that sent it; a HELLO_ACK is pending for it then. What was posted before
 * the epoch peer->lost_before was for another process, to which the way is to be closed. False
 * without memory.
 */
bool fabric_hello_take(struct fabric_peer_state *peer, const struct fabric_hello *hello)
{
    peer->endpoint->state->counters.hellos++;
    if (hello_is_other(peer, hello)) {
        peer->lost_before = peer->answered + 1;
        peer->pending |= FABRIC_STALE;
        peer->connection++;
        peer->in_flight = 0;
        fabric_peer_set_canonical(peer, peer);
    }
    if (!hello_accept(peer, hello))
        return false;
    peer->their_epoch = hello->wire.epoch;
    peer->answered = peer->epoch;
    peer->pending &= ~FABRIC_PENDING_HELLO;
    peer->pending |= FABRIC_PENDING_HELLO_ACK;
    return true;
}

/* False when it is malformed. As to what was posted before see fabric_hello_take(). */
bool fabric_hello_ack_received(struct fabric_peer_state *peer, const void *data, uint32_t size)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;
    const struct fabric_ops *ops = peer->endpoint->ops;
    const void *path = ops->peer_path != NULL ? ops->peer_path(peer->endpoint, &peer->peer) : NULL;
    struct fabric_hello hello;
    uint32_t epoch;

    if (!hello_parse(state, data, size, &hello) || peer->is_self ||
        !hello_is_from(state, path, &hello))
        return false;
    epoch = hello.wire.epoch;
    if (epoch == 0 || epoch > peer->epoch || epoch < peer->answered)
        return epoch != 0 && epoch <= peer->epoch; /* an answer to what is long answered */
    if (hello_is_other(peer, &hello)) {
        peer->lost_before = epoch > peer->answered ? epoch : peer->answered + 1;
        fabric_peer_set_canonical(peer, peer);
    } else {
        hello_find_alias(peer, path, &hello);
    }
    if (!hello_accept(peer, &hello))
        return true;
    peer->answered = epoch;
    if (epoch == peer->epoch)
        peer->pending &= ~FABRIC_PENDING_HELLO;
    return true;
}

static bool hello_parse(const struct fabric_endpoint_state *state, const void *data, uint32_t size,
                        struct fabric_hello *hello)
{
    struct wire_hello *wire = &hello->wire;
    const uint8_t *rest = (const uint8_t *) data + sizeof(*wire);

    if (size < sizeof(*wire))
        return false;
    memcpy(wire, data, sizeof(*wire));
    wire->token = le64toh(wire->token);
    wire->incarnation = le64toh(wire->incarnation);
    wire->host = le64toh(wire->host);
    wire->pid_namespace = le64toh(wire->pid_namespace);
    wire->start_time = le64toh(wire->start_time);
    wire->mask = le32toh(wire->mask);
    wire->pid = le32toh(wire->pid);
    wire->epoch = le32toh(wire->epoch);
    wire->name_size = le16toh(wire->name_size);
    wire->raw_size = le16toh(wire->raw_size);
    if (wire->incarnation == 0 || wire->incarnation == state->incarnation ||
        wire->token >> 32 == 0 || wire->epoch == 0 || wire->raw_size > FABRIC_RAW_MAX ||
        size != sizeof(*wire) + wire->name_size + wire->raw_size ||
        !fabric_name_is_good(rest, wire->name_size))
        return false;
    memcpy(hello->name, rest, wire->name_size);
    hello->name[wire->name_size] = '\0';
    hello->raw = rest + wire->name_size;
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
static bool hello_is_from(struct fabric_endpoint_state *state, const void *path,
                          const struct fabric_hello *hello)
{
    struct fabric_endpoint *endpoint = state->endpoint;

    if (endpoint->ops->peer_path == NULL ||
        (path != NULL && endpoint->ops->path_is_named(endpoint, path, hello->name)))
        return true;
    hello_is_forged(state, hello);
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

static void hello_is_forged(struct fabric_endpoint_state *state, const struct fabric_hello *hello)
{
    uint32_t level =
        state->counters.frames_bad++ == 0 ? NA_PLUGIN_LOG_WARNING : NA_PLUGIN_LOG_DEBUG;

    FABRIC_LOG(state->endpoint, level,
               "dropped a HELLO in the name of %s that is not from there; further ones are "
               "logged as debug",
               hello->name);
}

/* NULL: it is of another peer, or there is no memory. */
static struct fabric_peer_state *hello_find(struct fabric_endpoint_state *state, const void *path,
                                            const struct fabric_hello *hello)
{
    struct fabric_peer_state *peer = fabric_peer_by_incarnation(state, hello->wire.incarnation);

    if (peer == NULL || !fabric_peer_is_at(peer, path))
        peer = fabric_peer_by_name(state, hello->name);
    if (peer != NULL && !fabric_peer_is_at(peer, path)) {
        hello_is_forged(state, hello);
        return NULL;
    }
    if (peer == NULL && fabric_peer_make(state, hello->name, &peer) != NA_PLUGIN_SUCCESS) {
        FABRIC_LOG_ERROR(state->endpoint, "no memory for the peer %s that sends a HELLO",
                         hello->name);
        return NULL;
    }
    return peer;
}

/* True when what was sent to the one that we knew does not count any more. */
static bool hello_is_other(const struct fabric_peer_state *peer, const struct fabric_hello *hello)
{
    if (peer->their_incarnation == 0 || peer->their_token == 0)
        return false;
    return peer->their_incarnation != hello->wire.incarnation ||
           peer->their_token != hello->wire.token || peer->their_mask != hello->wire.mask;
}

/* False without memory. */
static bool hello_accept(struct fabric_peer_state *peer, const struct fabric_hello *hello)
{
    const struct fabric_endpoint_state *state = peer->endpoint->state;
    const struct wire_hello *wire = &hello->wire;

    if (fabric_peer_set_raw(peer, hello->raw, wire->raw_size) != NA_PLUGIN_SUCCESS) {
        FABRIC_LOG_ERROR(peer->endpoint, "no memory for the address of %s", hello->name);
        return false;
    }
    fabric_peer_set_incarnation(peer, wire->incarnation);
    if (peer->their_token != wire->token)
        peer->sent_sequence = 0;
    peer->their_token = wire->token;
    peer->their_mask = wire->mask;
    peer->host = wire->host;
    peer->pid_namespace = wire->pid_namespace;
    peer->start_time = wire->start_time;
    peer->pid = wire->pid;
    peer->peer.local = state->host_id != 0 && wire->host == state->host_id;
    peer->is_removable = false;
    peer->has_closed = false;
    peer->is_suspect = false;
    peer->phase = FABRIC_PEER_READY;
    peer->pending &= ~(FABRIC_NOT_READY | FABRIC_PENDING_PING);
    fabric_peer_mark(peer);
    return true;
}

/* The same process may be known by another of its names already: it is one sender. */
static void hello_find_alias(struct fabric_peer_state *peer, const void *path,
                             const struct fabric_hello *hello)
{
    struct fabric_peer_state *alias =
        fabric_peer_by_incarnation(peer->endpoint->state, hello->wire.incarnation);

    if (alias == NULL || alias->canonical == peer->canonical || !fabric_peer_is_at(alias, path))
        return;
    alias = alias->canonical;
    if (alias == peer || peer->canonical != peer)
        return;
    fabric_peer_set_canonical(peer, alias);
}
