/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HELLO and HELLO_ACK. A HELLO carries the name and the process of its sender, and the token under
 * which the sender knows the receiver; a HELLO_ACK carries the same of the receiver. HELLOs may
 * cross: each of them introduces its sender completely.
 */

#include "session_state.h"

#include <endian.h>
#include <string.h>

static bool hello_is_from(struct kit_session *session, const void *path,
                          const struct kit_hello *hello);
static bool peer_is_at(const struct kit_peer *peer, const void *path);
static void hello_is_forged(struct kit_session *session, const struct kit_hello *hello);
static struct kit_peer *hello_find(struct kit_session *session, const void *path,
                                   const struct kit_hello *hello);
static bool hello_accept(struct kit_peer *peer, const struct kit_hello *hello);
static const void *peer_path(const struct kit_peer *peer);
static void hello_find_alias(struct kit_peer *peer, const struct kit_hello *hello);

_Static_assert(sizeof(struct kit_hello_wire) == 64, "layout of the wire");

/* A sealed HELLO_ACK needs no share; kit_offer_answer() writes those without a seal. */
void kit_hello_write(struct kit_peer *peer, bool is_ack, uint8_t *place)
{
    struct kit_hello_key key = {0};

    if (peer->auth != NULL && !is_ack) {
        kit_exchange_open(peer);
        memcpy(key.share[0], peer->auth->exchange[peer->auth->key_index].share,
               sizeof(key.share[0]));
    }
    kit_hello_fill(peer, is_ack ? peer->their_epoch : peer->epoch, &key, place);
}

/* Without a key of ours `key` is ignored. */
void kit_hello_fill(const struct kit_peer *peer, uint32_t epoch, const struct kit_hello_key *key,
                    uint8_t *place)
{
    const struct kit_session *session = peer->session;
    const struct kit_peer *self = session->self;
    const size_t name_size = strlen(self->name);
    const struct kit_hello_wire wire = {
        .token = htole64(kit_peer_token(peer)),
        .incarnation = htole64(session->incarnation),
        .host = htole64(session->host_id),
        .pid_namespace = htole64(session->pid_namespace),
        .start_time = htole64(session->start_time),
        .mask = htole32(peer->mask),
        .flags = htole32(kit_session_flags(session)),
        .pid = htole32(session->pid),
        .epoch = htole32(epoch),
        .name_size = htole16((uint16_t) name_size),
        .raw_size = htole16((uint16_t) self->raw_size),
    };

    memcpy(place, &wire, sizeof(wire));
    place += sizeof(wire);
    if (session->secret != NULL) {
        memcpy(place, key, sizeof(*key));
        place += sizeof(*key);
    }
    memcpy(place, self->name, name_size);
    if (self->raw_size != 0)
        memcpy(place + name_size, self->raw, self->raw_size);
}

struct kit_peer *kit_hello_read(struct kit_session *session, const void *path, const void *data,
                                uint32_t size, struct kit_hello *hello)
{
    struct kit_peer *peer;

    if (!kit_hello_parse(session, data, size, hello)) {
        session->bad++;
        SESSION_LOG_DEBUG(session, "dropped a HELLO of %u bytes that is malformed", size);
        return NULL;
    }
    if (!hello_is_from(session, path, hello))
        return NULL;
    peer = hello_find(session, path, hello);
    return peer != NULL && !peer->is_self ? peer : NULL;
}

bool kit_hello_take(struct kit_peer *peer, const struct kit_hello *hello)
{
    return kit_hello_take_as(peer, hello, kit_hello_is_restart(peer, hello));
}

bool kit_hello_take_as(struct kit_peer *peer, const struct kit_hello *hello, bool is_restart)
{
    peer->session->hellos++;
    if (is_restart) {
        kit_peer_lose_before(peer, peer->answered + 1);
        peer->pending |= KIT_PENDING_CLOSE;
        peer->connection++;
        peer->in_flight = 0;
        kit_peer_set_canonical(peer, peer);
    }
    if (!hello_accept(peer, hello))
        return false;
    peer->their_epoch = hello->wire.epoch;
    peer->answered = peer->epoch;
    peer->pending &= ~KIT_PENDING_HELLO;
    peer->pending |= KIT_PENDING_HELLO_ACK;
    return true;
}

bool kit_hello_ack_received(struct kit_peer *peer, const void *data, uint32_t size)
{
    struct kit_hello hello;

    if (!kit_hello_parse(peer->session, data, size, &hello) || peer->is_self ||
        kit_hello_is_foreign(peer->session, &hello) || !kit_hello_is_from(peer, &hello) ||
        (peer->auth != NULL && (!kit_peer_is_sealed(peer) || !kit_hello_is_of(peer, &hello))))
        return false; /* with a key it was sealed, but the session may have ended since */
    if (hello.wire.epoch == 0 || hello.wire.epoch > peer->epoch)
        return false;
    if (hello.wire.epoch < peer->answered)
        return true; /* that HELLO was answered before */
    if (kit_hello_ack_take(peer, &hello) && peer->auth != NULL && hello.wire.epoch == peer->epoch)
        kit_exchange_close(peer); /* no other process may answer that HELLO */
    return true;
}

/* The caller has checked the epoch. Returns false without memory. */
bool kit_hello_ack_take(struct kit_peer *peer, const struct kit_hello *hello)
{
    const uint32_t epoch = hello->wire.epoch;

    if (kit_hello_is_restart(peer, hello)) {
        kit_peer_lose_before(peer, epoch > peer->answered ? epoch : peer->answered + 1);
        kit_peer_set_canonical(peer, peer);
    } else {
        hello_find_alias(peer, hello);
    }
    if (!hello_accept(peer, hello))
        return false;
    peer->answered = epoch;
    if (epoch == peer->epoch)
        peer->pending &= ~KIT_PENDING_HELLO;
    return true;
}

bool kit_hello_parse(const struct kit_session *session, const void *data, uint32_t size,
                     struct kit_hello *hello)
{
    struct kit_hello_wire *wire = &hello->wire;
    const uint8_t *rest = (const uint8_t *) data + sizeof(*wire);
    size_t key_size;

    if (size < sizeof(*wire))
        return false;
    memcpy(wire, data, sizeof(*wire));
    wire->token = le64toh(wire->token);
    wire->incarnation = le64toh(wire->incarnation);
    wire->host = le64toh(wire->host);
    wire->pid_namespace = le64toh(wire->pid_namespace);
    wire->start_time = le64toh(wire->start_time);
    wire->mask = le32toh(wire->mask);
    wire->flags = le32toh(wire->flags);
    wire->pid = le32toh(wire->pid);
    wire->epoch = le32toh(wire->epoch);
    wire->name_size = le16toh(wire->name_size);
    wire->raw_size = le16toh(wire->raw_size);
    hello->has_key = (wire->flags & KIT_HELLO_HAS_KEY) != 0;
    key_size = hello->has_key ? sizeof(hello->key) : 0;
    if (wire->incarnation == 0 || wire->incarnation == session->incarnation ||
        wire->token >> 32 == 0 || wire->epoch == 0 || wire->raw_size > KIT_RAW_MAX ||
        size != sizeof(*wire) + key_size + wire->name_size + wire->raw_size ||
        !kit_name_is_good(rest + key_size, wire->name_size))
        return false;
    memcpy(&hello->key, rest, key_size);
    rest += key_size;
    memcpy(hello->name, rest, wire->name_size);
    hello->name[wire->name_size] = '\0';
    hello->raw = rest + wire->name_size;
    return true;
}

bool kit_name_is_good(const uint8_t *name, uint32_t size)
{
    if (size == 0 || size >= KIT_NAME_MAX)
        return false;
    for (uint32_t i = 0; i < size; i++)
        if (name[i] <= ' ' || name[i] >= 0x7f)
            return false;
    return true;
}

/* True if the sender over that path may use the name, or the fabric does not tell. */
static bool hello_is_from(struct kit_session *session, const void *path,
                          const struct kit_hello *hello)
{
    const struct kit_session_config *ops = &session->config;

    if (ops->path_is_named == NULL ||
        (path != NULL && ops->path_is_named(ops->endpoint, path, hello->name)))
        return true;
    hello_is_forged(session, hello);
    return false;
}

/* The same for a HELLO_ACK. Where the path tells the sender's name, a peer has only that name. */
bool kit_hello_is_from(const struct kit_peer *peer, const struct kit_hello *hello)
{
    const struct kit_session_config *ops = &peer->session->config;

    if (ops->path_is_named == NULL || ops->peer_path != NULL)
        return hello_is_from(peer->session, peer_path(peer), hello);
    if (strcmp(hello->name, peer->name) == 0)
        return true;
    hello_is_forged(peer->session, hello);
    return false;
}

/* Returns the path to the peer, or NULL if there is none or the fabric does not tell. */
static const void *peer_path(const struct kit_peer *peer)
{
    const struct kit_session_config *ops = &peer->session->config;

    return ops->peer_path != NULL ? ops->peer_path(ops->endpoint, peer) : NULL;
}

/* True if the path is the known peer's own, or has introduced itself by its name to the fabric. */
static bool peer_is_at(const struct kit_peer *peer, const void *path)
{
    const struct kit_session_config *ops = &peer->session->config;
    const void *own;

    if (ops->path_is_named == NULL || peer->is_self)
        return true;
    own = peer_path(peer);
    if (own != NULL)
        return own == path;
    return path != NULL && ops->path_is_named(ops->endpoint, path, peer->name);
}

static void hello_is_forged(struct kit_session *session, const struct kit_hello *hello)
{
    const uint32_t level = kit_log_level_first(&session->bad);

    SESSION_LOG(session, level,
                "dropped a HELLO in the name of %s that is not from there; further ones are "
                "logged as debug",
                hello->name);
}

/* Returns the peer that sent the HELLO. NULL: the HELLO is forged, or there is no memory. */
static struct kit_peer *hello_find(struct kit_session *session, const void *path,
                                   const struct kit_hello *hello)
{
    struct kit_peer *peer = kit_peer_by_incarnation(session, hello->wire.incarnation);

    if (peer == NULL || !peer_is_at(peer, path))
        peer = kit_peer_by_name(session, hello->name);
    if (peer != NULL && !peer_is_at(peer, path)) {
        hello_is_forged(session, hello);
        return NULL;
    }
    if (peer == NULL && kit_peer_make(session, hello->name, &peer) != NA_PLUGIN_SUCCESS) {
        SESSION_LOG_ERROR(session, "no memory for the peer %s that sends a HELLO", hello->name);
        return NULL;
    }
    return peer;
}

/* True if the peer was restarted or has lost us: what was sent to it before is lost. */
bool kit_hello_is_restart(const struct kit_peer *peer, const struct kit_hello *hello)
{
    if (peer->their_incarnation == 0 || peer->their_token == 0)
        return false;
    return peer->their_incarnation != hello->wire.incarnation ||
           peer->their_token != hello->wire.token || peer->their_mask != hello->wire.mask;
}

/* Copies the HELLO to the peer, which is ready then. Returns false without memory. */
static bool hello_accept(struct kit_peer *peer, const struct kit_hello *hello)
{
    const struct kit_session *session = peer->session;
    const struct kit_hello_wire *wire = &hello->wire;

    if (kit_peer_set_raw(peer, hello->raw, wire->raw_size) != NA_PLUGIN_SUCCESS) {
        SESSION_LOG_ERROR(peer->session, "no memory for the address of %s", hello->name);
        return false;
    }
    kit_peer_set_incarnation(peer, wire->incarnation);
    if (peer->their_token != wire->token)
        peer->sent_sequence = 0;
    peer->their_token = wire->token;
    peer->their_mask = wire->mask;
    peer->host = wire->host;
    peer->pid_namespace = wire->pid_namespace;
    peer->start_time = wire->start_time;
    peer->pid = wire->pid;
    peer->local = session->host_id != 0 && wire->host == session->host_id;
    peer->is_removable = false;
    peer->has_closed = false;
    peer->is_suspect = false;
    peer->phase = KIT_PEER_READY;
    peer->pending &= ~(KIT_PENDING_ANSWER | KIT_PENDING_PING);
    kit_peer_mark(peer);
    if (session->is_watching && !peer->is_watched)
        kit_peer_watch(peer);
    return true;
}

/* If the process is known by another name already, that peer is the canonical one. */
static void hello_find_alias(struct kit_peer *peer, const struct kit_hello *hello)
{
    struct kit_peer *alias = kit_peer_by_incarnation(peer->session, hello->wire.incarnation);

    if (alias == NULL || alias->canonical == peer->canonical || !peer_is_at(alias, peer_path(peer)))
        return;
    alias = alias->canonical;
    if (alias == peer || peer->canonical != peer)
        return;
    kit_peer_set_canonical(peer, alias);
}
