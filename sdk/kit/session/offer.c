/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The key exchange of two endpoints. One sends its share in a HELLO; the HELLO_ACK has the other
 * share and a code that proves the key, and the first sealed frame proves the key of the sender of
 * the HELLO. HELLOs that cross have the same two shares, and so the same keys.
 */

#include "session_state.h"

#include <stddef.h>
#include <string.h>

/* Beyond these the oldest offer is dropped: the offer of a peer with a key lasts one round trip. */
#define OFFERS_MAX     4096u
#define OFFERS_OF_PEER 64u
#define EXCHANGE_MAX   16u /* shares of others that one share of ours is combined with */
#define HELLO_MAX \
    (sizeof(struct kit_hello_wire) + sizeof(struct kit_hello_key) + KIT_NAME_MAX + KIT_RAW_MAX)
#define CONFIRM_AT (sizeof(struct kit_hello_wire) + offsetof(struct kit_hello_key, confirm))

static void refusal_set(struct kit_peer *peer, const struct kit_hello *hello, uint32_t reason);
static struct kit_offer *offer_find(const struct kit_peer *peer,
                                    const uint8_t digest[KIT_AUTH_KEY]);
static struct kit_offer *offer_make(struct kit_peer *peer, const struct kit_hello *hello,
                                    const void *data, uint32_t size);
static bool offer_fill(struct kit_offer *offer, const struct kit_hello *hello);
static void exchange_use(struct kit_peer *peer);
static bool exchange_switch_key(struct kit_peer *peer);
static bool answer_check(struct kit_peer *peer, const struct kit_hello *hello, const void *data,
                         uint32_t size, struct kit_auth_keys *keys, uint32_t *share_index_p);
static void answer_take(struct kit_peer *peer, const struct kit_hello *hello,
                        const struct kit_auth_keys *keys);
static void name_compare(const struct kit_peer *peer, const struct kit_hello *hello);
static void answer_refuse(struct kit_peer *peer, const struct kit_hello *hello);
static bool is_crossed(const struct kit_peer *peer, const struct kit_hello *hello,
                       uint32_t share_index);
static void digest_make(uint8_t digest[KIT_AUTH_KEY], const void *data, uint32_t size);
static bool keys_make(const struct kit_peer *peer, uint32_t secret,
                      const uint8_t their_share[KIT_AUTH_SHARE], const void *data, uint32_t size,
                      struct kit_auth_keys *keys);
static bool is_confirmed(const struct kit_auth_keys *keys, const struct kit_hello *hello,
                         const void *data, uint32_t size, uint32_t share_index);
static bool both_have_aes(const struct kit_session *session, const struct kit_hello *hello);
static void seal_begin(struct kit_peer *peer, const struct kit_seal *seal, bool is_alias);
static bool is_alias_of(const struct kit_peer *peer, const struct kit_hello *hello);
static bool is_of_session(const struct kit_peer *peer, const struct kit_hello *hello);

/* The reasons as seen by the receiver of the refusal. */
static const char *const refusal_texts[] = {
    [KIT_REFUSAL_NO_KEY] = "it asks for a key (auth_key), and we have none",
    [KIT_REFUSAL_KEY] = "we have a key (auth_key), and it has none",
    [KIT_REFUSAL_OTHER_KEY] = "its key (auth_key) is not ours",
    [KIT_REFUSAL_ENCRYPTS] = "it encrypts, and we do not (encrypt)",
    [KIT_REFUSAL_CLEAR] = "we encrypt, and it does not (encrypt)",
};

void kit_hello_refuse(struct kit_peer *peer, const struct kit_hello *hello)
{
    const bool has_key = peer->session->secret != NULL, encrypts = peer->session->config.encrypts;
    const bool key_differs = has_key != hello->has_key;
    const bool is_stricter = key_differs ? has_key : encrypts;
    const uint32_t at_stricter = key_differs ? KIT_REFUSAL_KEY : KIT_REFUSAL_CLEAR;
    const uint32_t at_laxer = key_differs ? KIT_REFUSAL_NO_KEY : KIT_REFUSAL_ENCRYPTS;
    const uint32_t level = kit_log_level_first(&peer->session->refused);

    SESSION_LOG(peer->session, level,
                "refused %s: %s; further ones are counted, and logged as debug", hello->name,
                refusal_texts[is_stricter ? at_stricter : at_laxer]);
    refusal_set(peer, hello, is_stricter ? at_laxer : at_stricter);
}

/* Anybody who saw our HELLO can send a refusal, so it does not affect a peer that is ready. */
void kit_refusal_received(struct kit_peer *peer, uint32_t reason)
{
    if (reason < KIT_REFUSAL_NO_KEY || reason > KIT_REFUSAL_CLEAR) {
        peer->session->bad++;
        return;
    }
    if (peer->phase == KIT_PEER_HELLO_SENT) {
        kit_peer_failed(peer, NA_PLUGIN_PERMISSION, refusal_texts[reason]);
    } else if (kit_offer_is_open(peer)) {
        const uint32_t level = kit_log_level_first(&peer->session->refused);

        SESSION_LOG(peer->session, level,
                    "%s turns away: %s; further ones are counted, and logged as debug", peer->name,
                    refusal_texts[reason]);
        kit_offers_drop(peer);
    }
}

/*
 * A repeated HELLO is answered with the same share, because its sender may have used the earlier
 * answer. It does not renew the offer, which would otherwise never expire without a proof.
 */
void kit_offer_keep(struct kit_peer *peer, const struct kit_hello *hello, const void *data,
                    uint32_t size)
{
    struct kit_session *session = peer->session;
    struct kit_offer *offer;
    uint8_t digest[KIT_AUTH_KEY], description[KIT_AUTH_KEY];

    if (is_of_session(peer, hello)) {
        session->refused++;
        SESSION_LOG_DEBUG(session, "a HELLO of %s has not the seal of its session", hello->name);
        return;
    }
    digest_make(description, data, size);
    kit_auth_digest(digest, description, sizeof(description), &hello->key, sizeof(hello->key));
    offer = offer_find(peer, digest);
    if (offer == NULL)
        offer = offer_make(peer, hello, data, size);
    if (offer == NULL)
        return;
    memcpy(offer->digest, digest, sizeof(digest));
    offer->epoch = hello->wire.epoch;
    offer->is_pending = true;
    peer->pending |= KIT_PENDING_OFFER;
    kit_peer_mark(peer);
}

/* The answer has a share and a code for each of our keys: it is unknown which one the peer has. */
const struct kit_offer *kit_offer_answer(struct kit_peer *peer, uint8_t *place)
{
    const uint32_t size = kit_hello_size(peer->session);
    struct kit_hello_key key = {0};
    struct kit_offer *offer = NULL;

    peer->pending &= ~KIT_PENDING_OFFER;
    for (struct kit_link *link = peer->auth->offers.prev; link != &peer->auth->offers;
         link = link->prev) {
        struct kit_offer *other = kit_container(link, struct kit_offer, peer_link);

        if (!other->is_pending)
            continue;
        if (offer != NULL)
            peer->pending |= KIT_PENDING_OFFER;
        offer = other;
    }
    offer->is_pending = false;
    peer->auth->answered = offer;
    memcpy(key.share, offer->shares, sizeof(key.share));
    kit_hello_fill(peer, offer->epoch, &key, place);
    for (uint32_t i = 0; i < kit_session_secrets(peer->session); i++)
        kit_auth_code(key.confirm[i], offer->keys[i].confirm_own, KIT_AUTH_KEY, place, size);
    kit_hello_fill(peer, offer->epoch, &key, place);
    return offer;
}

void kit_offer_answer_again(struct kit_peer *peer)
{
    if (peer->auth->answered == NULL)
        return; /* the offer was taken or dropped before the answer was sent */
    peer->auth->answered->is_pending = true;
    peer->pending |= KIT_PENDING_OFFER;
}

bool kit_offer_take(struct kit_peer *peer)
{
    struct kit_peer_auth *auth = peer->auth;
    const struct kit_offer *offer = auth->confirmed;
    struct kit_hello hello;
    bool is_alias;

    /* The HELLO was parsed when it came, so that this cannot fail. */
    if (!kit_hello_parse(peer->session, offer->data, offer->size, &hello))
        return false;
    is_alias = is_alias_of(peer, &hello);
    if (!kit_hello_take_as(peer, &hello, auth->is_sealed || kit_hello_is_restart(peer, &hello))) {
        kit_peer_failed(peer, NA_PLUGIN_NOMEM, "no memory to take its HELLO");
        return false;
    }
    seal_begin(peer, &offer->seals[auth->confirmed_with], is_alias);
    peer->pending &= ~KIT_PENDING_HELLO_ACK; /* the offer was answered already */
    return true;
}

/*
 * A HELLO_ACK that does not prove our key is refused and ends the attempt, so that its sender has
 * one guess for each share. With two keys the attempt is first repeated with the other key.
 */
bool kit_offer_answered(struct kit_peer *peer, const void *data, uint32_t size)
{
    struct kit_peer_auth *auth = peer->auth;
    struct kit_auth_keys keys = {0};
    struct kit_hello hello;
    uint32_t share_index;

    if (!kit_hello_parse(peer->session, data, size, &hello) ||
        kit_hello_is_foreign(peer->session, &hello) || !kit_hello_is_from(peer, &hello) ||
        hello.wire.epoch == 0 || hello.wire.epoch > peer->epoch)
        return false;
    if (!auth->has_exchange || hello.wire.epoch < peer->answered ||
        hello.wire.epoch < auth->key_epoch || is_of_session(peer, &hello))
        return true; /* a HELLO of the peer was faster, or the HELLO was answered twice */
    if (!answer_check(peer, &hello, data, size, &keys, &share_index)) {
        answer_refuse(peer, &hello);
    } else if (!is_crossed(peer, &hello, share_index)) {
        answer_take(peer, &hello, &keys);
    }
    kit_auth_wipe(&keys, sizeof(keys));
    return true;
}

bool kit_hello_is_of(const struct kit_peer *peer, const struct kit_hello *hello)
{
    return hello->wire.incarnation == peer->their_incarnation && !kit_hello_is_restart(peer, hello);
}

static void refusal_set(struct kit_peer *peer, const struct kit_hello *hello, uint32_t reason)
{
    peer->refusal = (struct kit_refusal){
        .token = hello->wire.token,
        .incarnation_low = (uint32_t) hello->wire.incarnation,
        .mask = hello->wire.mask,
        .reason = reason,
    };
    peer->pending |= KIT_PENDING_REFUSAL;
    kit_peer_mark(peer);
}

static struct kit_offer *offer_find(const struct kit_peer *peer, const uint8_t digest[KIT_AUTH_KEY])
{
    const struct kit_link *offers = &peer->auth->offers;

    for (struct kit_link *link = offers->next; link != offers; link = link->next) {
        struct kit_offer *offer = kit_container(link, struct kit_offer, peer_link);

        if (memcmp(offer->digest, digest, KIT_AUTH_KEY) == 0)
            return offer;
    }
    return NULL;
}

/* Returns NULL if the HELLO is dropped. An invalid share does not displace another offer. */
static struct kit_offer *offer_make(struct kit_peer *peer, const struct kit_hello *hello,
                                    const void *data, uint32_t size)
{
    struct kit_session *session = peer->session;
    struct kit_peer_auth *auth = peer->auth;
    struct kit_offer *offer = kit_host->mem_alloc(sizeof(*offer) + size, 0);

    if (offer == NULL) {
        SESSION_LOG_ERROR(session, "no memory for the HELLO of %s", hello->name);
        return NULL;
    }
    exchange_use(peer);
    offer->peer = peer;
    offer->ticks = session->ticks;
    offer->size = size;
    offer->data = (uint8_t *) (offer + 1);
    memcpy(offer->data, data, size);
    if (!offer_fill(offer, hello)) {
        session->bad++;
        kit_auth_wipe(offer, sizeof(*offer) + size);
        kit_host->mem_free(offer);
        return NULL;
    }
    if (auth->offer_count >= OFFERS_OF_PEER)
        kit_offer_refuse(kit_container(auth->offers.next, struct kit_offer, peer_link));
    if (session->offers >= OFFERS_MAX)
        kit_offer_refuse(kit_container(session->offers_by_age.next, struct kit_offer, age_link));
    kit_list_append(&session->offers_by_age, &offer->age_link);
    kit_list_append(&auth->offers, &offer->peer_link);
    auth->offer_count++;
    session->offers++;
    return offer;
}

/* Returns false if the share in the HELLO is invalid. */
static bool offer_fill(struct kit_offer *offer, const struct kit_hello *hello)
{
    const struct kit_peer *peer = offer->peer;

    for (uint32_t i = 0; i < kit_session_secrets(peer->session); i++) {
        if (!keys_make(peer, i, hello->key.share[0], offer->data, offer->size, &offer->keys[i]))
            return false;
        kit_seal_begin(&offer->seals[i], &offer->keys[i], both_have_aes(peer->session, hello));
        memcpy(offer->shares[i], peer->auth->exchange[i].share, KIT_AUTH_SHARE);
    }
    memcpy(offer->their_share, hello->key.share[0], KIT_AUTH_SHARE);
    offer->token = hello->wire.token;
    offer->incarnation = hello->wire.incarnation;
    return true;
}

/*
 * Our shares are replaced after EXCHANGE_MAX uses, unless a HELLO with one of them is unanswered.
 * Each HELLO of a peer is one guess of the key, whichever share of ours answers it.
 */
static void exchange_use(struct kit_peer *peer)
{
    struct kit_peer_auth *auth = peer->auth;

    if (auth->has_exchange && auth->exchange_uses >= EXCHANGE_MAX &&
        peer->phase != KIT_PEER_HELLO_SENT)
        kit_exchange_close(peer);
    kit_exchange_open(peer);
    auth->exchange_uses++;
}

/* Sends another HELLO, under the other one of our keys. False: there is none, or it was tried. */
static bool exchange_switch_key(struct kit_peer *peer)
{
    struct kit_peer_auth *auth = peer->auth;

    if (peer->session->secret_also == NULL || auth->has_switched)
        return false;
    auth->has_switched = true;
    auth->key_index = 1 - auth->key_index;
    kit_peer_hello_again(peer);
    auth->key_epoch = peer->epoch;
    return true;
}

/*
 * Checks whether a HELLO_ACK proves the key of our HELLO, and returns the keys and the index of the
 * share that does. Each of its shares counts as a guess.
 */
static bool answer_check(struct kit_peer *peer, const struct kit_hello *hello, const void *data,
                         uint32_t size, struct kit_auth_keys *keys, uint32_t *share_index_p)
{
    static const uint8_t none[KIT_AUTH_SHARE];
    struct kit_peer_auth *auth = peer->auth;

    for (uint32_t i = 0; i < KIT_SECRETS; i++) {
        if (memcmp(hello->key.share[i], none, sizeof(none)) == 0)
            continue;
        exchange_use(peer);
        *share_index_p = i;
        if (keys_make(peer, auth->key_index, hello->key.share[i], data, size, keys) &&
            is_confirmed(keys, hello, data, size, i))
            return true;
    }
    return false;
}

/* If an earlier answer began a seal that this one replaces, frames under that seal are lost. */
static void answer_take(struct kit_peer *peer, const struct kit_hello *hello,
                        const struct kit_auth_keys *keys)
{
    const bool is_alias = is_alias_of(peer, hello);
    const bool is_lost = peer->auth->is_sealed && !is_alias;
    const uint32_t answered = peer->answered;
    struct kit_seal seal;

    kit_seal_begin(&seal, keys, both_have_aes(peer->session, hello));
    if (kit_hello_ack_take(peer, hello)) {
        if (is_lost)
            kit_peer_lose_before(peer,
                                 hello->wire.epoch > answered ? hello->wire.epoch : answered + 1);
        seal_begin(peer, &seal, is_alias);
        peer->pending |= KIT_PENDING_CONFIRM;
        name_compare(peer, hello);
    }
    kit_auth_wipe(&seal, sizeof(seal));
}

/*
 * The peer that answers has the key, but may have another name than the one that the HELLO was sent
 * to. That is no error: a process may have several names and be behind a forwarder.
 */
static void name_compare(const struct kit_peer *peer, const struct kit_hello *hello)
{
    if (strcmp(hello->name, peer->name) == 0)
        return;
    peer->session->other_names++;
    SESSION_LOG(peer->session, NA_PLUGIN_LOG_INFO,
                "%s was called, and %s answers: one process with two names, or another one that "
                "has the key",
                peer->name, hello->name);
}

static void answer_refuse(struct kit_peer *peer, const struct kit_hello *hello)
{
    struct kit_session *session = peer->session;
    uint32_t level;

    if (exchange_switch_key(peer))
        return;
    level = kit_log_level_first(&session->refused);
    SESSION_LOG(session, level, "refused %s: %s; further ones are counted, and logged as debug",
                hello->name, refusal_texts[KIT_REFUSAL_OTHER_KEY]);
    if (peer->auth->is_sealed)
        return;
    refusal_set(peer, hello, KIT_REFUSAL_OTHER_KEY);
    kit_peer_failed(peer, NA_PLUGIN_PERMISSION, refusal_texts[KIT_REFUSAL_OTHER_KEY]);
}

/*
 * True if the peer's own HELLO makes the session and not this answer to ours. If HELLOs under
 * different keys have crossed, each is answered with another share, and the HELLO with the smaller
 * share counts.
 */
static bool is_crossed(const struct kit_peer *peer, const struct kit_hello *hello,
                       uint32_t share_index)
{
    const struct kit_peer_auth *auth = peer->auth;

    for (struct kit_link *link = auth->offers.next; link != &auth->offers; link = link->next) {
        const struct kit_offer *offer = kit_container(link, struct kit_offer, peer_link);

        if (offer->incarnation == hello->wire.incarnation && offer->token == hello->wire.token &&
            memcmp(offer->their_share, hello->key.share[share_index], KIT_AUTH_SHARE) != 0)
            return peer->session->secret_also != NULL &&
                   memcmp(offer->their_share, auth->exchange[auth->key_index].share,
                          KIT_AUTH_SHARE) < 0;
    }
    return false;
}

/* Digest of a HELLO or HELLO_ACK with a key, without its epoch, its shares and its codes. */
static void digest_make(uint8_t digest[KIT_AUTH_KEY], const void *data, uint32_t size)
{
    const uint64_t rest = sizeof(struct kit_hello_wire) + sizeof(struct kit_hello_key);
    struct kit_hello_wire wire;

    memcpy(&wire, data, sizeof(wire));
    wire.epoch = 0;
    kit_auth_digest(digest, &wire, sizeof(wire), (const uint8_t *) data + rest, size - rest);
}

/* Derives the keys from one of our keys and the peer's share. False: the share is invalid. */
static bool keys_make(const struct kit_peer *peer, uint32_t secret,
                      const uint8_t their_share[KIT_AUTH_SHARE], const void *data, uint32_t size,
                      struct kit_auth_keys *keys)
{
    static const struct kit_hello_key none;
    uint8_t own[KIT_AUTH_KEY], their[KIT_AUTH_KEY], buffer[HELLO_MAX];

    kit_hello_fill(peer, 0, &none, buffer);
    digest_make(own, buffer, kit_hello_size(peer->session));
    digest_make(their, data, size);
    return kit_auth_exchange_end(&peer->auth->exchange[secret], their_share, own, their, keys);
}

static bool is_confirmed(const struct kit_auth_keys *keys, const struct kit_hello *hello,
                         const void *data, uint32_t size, uint32_t share_index)
{
    uint8_t code[KIT_AUTH_CODE], buffer[HELLO_MAX];

    memcpy(buffer, data, size);
    memset(buffer + CONFIRM_AT, 0, sizeof(hello->key.confirm));
    kit_auth_code(code, keys->confirm_their, KIT_AUTH_KEY, buffer, size);
    return kit_auth_code_is_equal(code, hello->key.confirm[share_index]);
}

/* True if the same process knows us by another name already: it may go on using the old seal. */
static bool is_alias_of(const struct kit_peer *peer, const struct kit_hello *hello)
{
    return peer->auth->is_sealed && peer->their_incarnation == hello->wire.incarnation &&
           (uint32_t) peer->their_token != (uint32_t) hello->wire.token;
}

/*
 * True if the HELLO, which has no seal, is a copy or was altered: a peer that has sealed a frame of
 * this session would seal its HELLO too, and would have another token if it had lost the session.
 */
static bool is_of_session(const struct kit_peer *peer, const struct kit_hello *hello)
{
    return peer->auth->is_sealed && peer->auth->seal.received != 0 && kit_hello_is_of(peer, hello);
}

/* The digest of the HELLO is part of the keys, so that nobody on the path can alter the flag. */
static bool both_have_aes(const struct kit_session *session, const struct kit_hello *hello)
{
    return session->has_aes && (hello->wire.flags & KIT_HELLO_HAS_AES) != 0;
}

static void seal_begin(struct kit_peer *peer, const struct kit_seal *seal, bool is_alias)
{
    struct kit_peer_auth *auth = peer->auth;

    if (is_alias)
        auth->old = auth->seal;
    else
        kit_auth_wipe(&auth->old, sizeof(auth->old));
    auth->old.contexts = NULL;
    auth->has_old = is_alias;
    auth->seal = *seal;
    kit_seal_prepare(&auth->seal, &auth->contexts);
    auth->is_sealed = true;
    auth->number = ++peer->session->numbers;
    peer->sent_sequence = 0;
    auth->has_switched = false;
    kit_exchange_close(peer);
    kit_offers_drop(peer);
}
