/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How two endpoints with a key get to know each other. Each sends its share in a HELLO; the
 * HELLO_ACK has the other share and a code that proves the key, and the first thing that is sealed
 * proves that of the other side. HELLOs that cross have the same two shares, and so the same keys.
 */

#include "session_state.h"

#include <endian.h>
#include <stddef.h>
#include <string.h>

#define OFFERS_MAX 4096u
#define EXCHANGE_MAX \
    16u /* shares that one of ours is used with: as many guesses has who sends them */
#define HELLO_MAX \
    (sizeof(struct kit_hello_wire) + sizeof(struct kit_hello_key) + KIT_NAME_MAX + KIT_RAW_MAX)
#define CONFIRM_AT (sizeof(struct kit_hello_wire) + offsetof(struct kit_hello_key, confirm))

static void refuse(struct kit_peer *peer, const struct kit_hello *hello, uint32_t reason);
static void digest_make(uint8_t digest[KIT_AUTH_KEY], const uint8_t *data, uint32_t size);
static bool keys_make(struct kit_peer *peer, const struct kit_hello *hello, const void *data,
                      uint32_t size, struct kit_auth_keys *keys);
static bool is_confirmed(const struct kit_auth_keys *keys, const struct kit_hello *hello,
                         const void *data, uint32_t size);
static void seal_begin(struct kit_peer *peer, const struct kit_seal *seal, bool is_alias);
static bool is_alias_of(const struct kit_peer *peer, const struct kit_hello *hello);

static const char *const refusal_texts[] = {
    [KIT_REFUSAL_NO_KEY] = "it asks for a key (auth_key), and we have none",
    [KIT_REFUSAL_KEY] = "we have a key (auth_key), and it has none",
    [KIT_REFUSAL_OTHER_KEY] = "its key (auth_key) is not ours",
};

void kit_hello_refuse(struct kit_peer *peer, const struct kit_hello *hello)
{
    const bool is_ours = peer->session->secret != NULL;
    const uint32_t level =
        kit_session_refuse(peer->session) ? NA_PLUGIN_LOG_WARNING : NA_PLUGIN_LOG_DEBUG;

    SESSION_LOG(peer->session, level,
                "refused %s: %s; further ones are counted, and logged as debug", hello->name,
                refusal_texts[is_ours ? KIT_REFUSAL_KEY : KIT_REFUSAL_NO_KEY]);
    refuse(peer, hello, is_ours ? KIT_REFUSAL_NO_KEY : KIT_REFUSAL_KEY);
}

/* It may come from anybody who saw our HELLO: what is met does not end by it. */
void kit_refusal_received(struct kit_peer *peer, uint32_t reason)
{
    if (reason < KIT_REFUSAL_NO_KEY || reason > KIT_REFUSAL_OTHER_KEY) {
        peer->session->bad++;
        return;
    }
    if (peer->phase == KIT_PEER_HELLO_SENT) {
        kit_peer_failed(peer, NA_PLUGIN_PERMISSION, refusal_texts[reason]);
    } else if (peer->auth != NULL && peer->auth->offer != NULL) {
        const uint32_t level =
            kit_session_refuse(peer->session) ? NA_PLUGIN_LOG_WARNING : NA_PLUGIN_LOG_DEBUG;

        SESSION_LOG(peer->session, level,
                    "%s turns away: %s; further ones are counted, and logged as debug", peer->name,
                    refusal_texts[reason]);
        kit_offer_drop(peer);
    }
}

/* The same HELLO again has the same answer: its sender may have taken the one from before. */
void kit_offer_keep(struct kit_peer *peer, const struct kit_hello *hello, const void *data,
                    uint32_t size)
{
    struct kit_session *session = peer->session;
    struct kit_peer_auth *auth = peer->auth;
    struct kit_offer *offer = auth->offer;
    uint8_t digest[KIT_AUTH_KEY];

    digest_make(digest, data, size);
    if (offer == NULL || memcmp(offer->digest, digest, sizeof(digest)) != 0) {
        kit_offer_drop(peer);
        if (session->offers >= OFFERS_MAX) {
            SESSION_LOG_DEBUG(session, "no place for the HELLO of %s", hello->name);
            return;
        }
        offer = kit_host->mem_alloc(sizeof(*offer) + size, 0);
        if (offer == NULL ||
            kit_peer_set_raw(peer, peer->raw == NULL ? hello->raw : NULL,
                             peer->raw == NULL ? hello->wire.raw_size : 0) != NA_PLUGIN_SUCCESS) {
            SESSION_LOG_ERROR(session, "no memory for the HELLO of %s", hello->name);
            kit_host->mem_free(offer);
            return;
        }
        session->offers++;
        auth->offer = offer;
        offer->size = size;
        offer->data = (uint8_t *) (offer + 1);
        if (!keys_make(peer, hello, data, size, &offer->keys)) {
            session->bad++;
            kit_offer_drop(peer);
            return;
        }
        kit_seal_begin(&offer->seal, &offer->keys);
        memcpy(offer->share, auth->exchange.share, sizeof(offer->share));
        memcpy(offer->digest, digest, sizeof(digest));
        memcpy(offer->data, data, size);
        offer->token = hello->wire.token;
        offer->incarnation = hello->wire.incarnation;
    }
    offer->epoch = hello->wire.epoch;
    offer->ticks = session->ticks;
    peer->pending |= KIT_PENDING_OFFER;
    kit_peer_mark(peer);
}

void kit_offer_answer(struct kit_peer *peer, uint8_t *place)
{
    const struct kit_offer *offer = peer->auth->offer;
    const uint32_t size = kit_hello_size(peer->session);

    kit_hello_fill(peer, offer->epoch, offer->share, place);
    kit_auth_code(place + CONFIRM_AT, offer->keys.confirm_own, KIT_AUTH_KEY, place, size);
}

bool kit_offer_take(struct kit_peer *peer)
{
    struct kit_peer_auth *auth = peer->auth;
    struct kit_hello hello;
    bool is_alias;

    /* It was parsed when it came. */
    if (!kit_hello_parse(peer->session, auth->offer->data, auth->offer->size, &hello))
        return false;
    is_alias = is_alias_of(peer, &hello);
    if (!kit_hello_take_as(peer, &hello, auth->is_sealed || kit_hello_is_other(peer, &hello)))
        return false;
    seal_begin(peer, &auth->offer->seal, is_alias);
    peer->pending &= ~KIT_PENDING_HELLO_ACK; /* it was answered as an offer */
    return true;
}

/* One that does not prove our key has its sender told, and ends the attempt: one guess each. */
bool kit_offer_answered(struct kit_peer *peer, const void *data, uint32_t size)
{
    struct kit_session *session = peer->session;
    struct kit_peer_auth *auth = peer->auth;
    struct kit_auth_keys keys = {0};
    struct kit_hello hello;
    struct kit_seal seal;
    bool is_alias;

    if (!kit_hello_parse(session, data, size, &hello) || !hello.has_key ||
        !kit_hello_is_from(peer, &hello) || hello.wire.epoch == 0 || hello.wire.epoch > peer->epoch)
        return false;
    if (!auth->has_exchange || hello.wire.epoch < peer->answered)
        return true; /* the other side's HELLO was faster, or this is a second one */
    if (!keys_make(peer, &hello, data, size, &keys) || !is_confirmed(&keys, &hello, data, size)) {
        const uint32_t level =
            kit_session_refuse(session) ? NA_PLUGIN_LOG_WARNING : NA_PLUGIN_LOG_DEBUG;

        SESSION_LOG(session, level, "refused %s: %s; further ones are counted, and logged as debug",
                    hello.name, refusal_texts[KIT_REFUSAL_OTHER_KEY]);
        if (!auth->is_sealed) {
            refuse(peer, &hello, KIT_REFUSAL_OTHER_KEY);
            kit_peer_failed(peer, NA_PLUGIN_PERMISSION, refusal_texts[KIT_REFUSAL_OTHER_KEY]);
        }
        kit_auth_wipe(&keys, sizeof(keys));
        return true;
    }
    kit_seal_begin(&seal, &keys);
    is_alias = is_alias_of(peer, &hello);
    if (kit_hello_ack_take(peer, &hello)) {
        seal_begin(peer, &seal, is_alias);
        peer->pending |= KIT_PENDING_CONFIRM;
    }
    kit_auth_wipe(&keys, sizeof(keys));
    kit_auth_wipe(&seal, sizeof(seal));
    return true;
}

bool kit_hello_is_of(const struct kit_peer *peer, const struct kit_hello *hello)
{
    return hello->wire.incarnation == peer->their_incarnation && !kit_hello_is_other(peer, hello);
}

static void refuse(struct kit_peer *peer, const struct kit_hello *hello, uint32_t reason)
{
    if (peer->raw == NULL &&
        kit_peer_set_raw(peer, hello->raw, hello->wire.raw_size) != NA_PLUGIN_SUCCESS)
        return; /* then it is not told */
    peer->refusal = (struct kit_refusal){
        .token = hello->wire.token,
        .incarnation_low = (uint32_t) hello->wire.incarnation,
        .mask = hello->wire.mask,
        .reason = reason,
    };
    peer->pending |= KIT_PENDING_REFUSAL;
    kit_peer_mark(peer);
}

/* Of a HELLO or HELLO_ACK with a key: all but its epoch and the code, which answer another one. */
static void digest_make(uint8_t digest[KIT_AUTH_KEY], const uint8_t *data, uint32_t size)
{
    struct kit_hello_wire wire;

    memcpy(&wire, data, sizeof(wire));
    wire.epoch = 0;
    kit_auth_digest(digest, &wire, sizeof(wire), data + sizeof(wire) + sizeof(struct kit_hello_key),
                    size - sizeof(wire) - sizeof(struct kit_hello_key));
}

/* False when what came is no share. One of ours that was used often enough gives way to another. */
static bool keys_make(struct kit_peer *peer, const struct kit_hello *hello, const void *data,
                      uint32_t size, struct kit_auth_keys *keys)
{
    struct kit_peer_auth *auth = peer->auth;
    uint8_t own[KIT_AUTH_KEY], their[KIT_AUTH_KEY], buffer[HELLO_MAX];

    if (auth->exchange_uses++ >= EXCHANGE_MAX)
        auth->has_exchange = false;
    kit_exchange_open(peer);
    kit_hello_fill(peer, 0, auth->exchange.share, buffer);
    digest_make(own, buffer, kit_hello_size(peer->session));
    digest_make(their, data, size);
    return kit_auth_exchange_end(&auth->exchange, hello->key.share, own, their, keys);
}

static bool is_confirmed(const struct kit_auth_keys *keys, const struct kit_hello *hello,
                         const void *data, uint32_t size)
{
    uint8_t code[KIT_AUTH_CODE], buffer[HELLO_MAX];

    memcpy(buffer, data, size);
    memset(buffer + CONFIRM_AT, 0, KIT_AUTH_CODE);
    kit_auth_code(code, keys->confirm_their, KIT_AUTH_KEY, buffer, size);
    return kit_auth_code_is_equal(code, hello->key.confirm);
}

/* Under another name of the same process the peer goes on with the seal that it has. */
static bool is_alias_of(const struct kit_peer *peer, const struct kit_hello *hello)
{
    return peer->auth->is_sealed && peer->their_incarnation == hello->wire.incarnation &&
           (uint32_t) peer->their_token != (uint32_t) hello->wire.token;
}

static void seal_begin(struct kit_peer *peer, const struct kit_seal *seal, bool is_alias)
{
    struct kit_peer_auth *auth = peer->auth;

    if (is_alias)
        auth->old = auth->seal;
    else
        kit_auth_wipe(&auth->old, sizeof(auth->old));
    auth->has_old = is_alias;
    auth->seal = *seal;
    auth->is_sealed = true;
    peer->sent_sequence = 0;
    kit_exchange_close(peer);
    kit_offer_drop(peer);
}
