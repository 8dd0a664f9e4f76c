/* SPDX-License-Identifier: BSD-3-Clause */
/* State of a peer of an endpoint with a key: made, searched for a seal, wiped. */

#include "session_state.h"

#define OFFER_TICKS 100u  /* lifetime of an offer */
#define CONFIRM_MAX 3072u /* most bytes of a peer's first sealed frame, which has no messages */

static bool has_pending(const struct kit_peer_auth *auth);
static enum kit_seal_result offers_open(struct kit_peer *peer, uint32_t sequence, uint8_t *data,
                                        uint64_t clear, uint64_t size);

/* Without a key peer->auth stays NULL. Returns false without memory. */
bool kit_peer_auth_make(struct kit_peer *peer)
{
    if (peer->session->secret == NULL)
        return true;
    peer->auth = kit_host->mem_alloc(sizeof(*peer->auth), _Alignof(struct kit_peer_auth));
    if (peer->auth == NULL)
        return false;
    kit_list_init(&peer->auth->offers);
    return true;
}

void kit_peer_auth_free(struct kit_peer *peer)
{
    kit_peer_auth_reset(peer);
    kit_host->mem_free(peer->auth);
    peer->auth = NULL;
}

void kit_peer_auth_reset(struct kit_peer *peer)
{
    if (peer->auth == NULL)
        return;
    while (!kit_list_empty(&peer->auth->offers))
        kit_offer_refuse(kit_container(peer->auth->offers.next, struct kit_offer, peer_link));
    kit_auth_wipe(peer->auth, sizeof(*peer->auth));
    kit_list_init(&peer->auth->offers);
}

void kit_offer_free(struct kit_offer *offer)
{
    struct kit_peer *peer = offer->peer;

    kit_list_remove(&offer->peer_link);
    kit_list_remove(&offer->age_link);
    if (peer->auth->answered == offer)
        peer->auth->answered = NULL;
    peer->auth->offer_count--;
    peer->session->offers--;
    if (!has_pending(peer->auth))
        peer->pending &= ~KIT_PENDING_OFFER;
    kit_auth_wipe(offer, sizeof(*offer) + offer->size);
    kit_host->mem_free(offer);
}

/* Drops an offer whose sender has not proved a key of ours while the offer was kept. */
void kit_offer_refuse(struct kit_offer *offer)
{
    struct kit_session *session = offer->peer->session;
    const uint32_t level = kit_log_level_first(&session->refused);

    SESSION_LOG(session, level,
                "%s did not prove that its auth_key is ours; further ones are counted, and logged "
                "as debug",
                offer->peer->name);
    kit_offer_free(offer);
}

void kit_offers_drop(struct kit_peer *peer)
{
    while (!kit_list_empty(&peer->auth->offers))
        kit_offer_free(kit_container(peer->auth->offers.next, struct kit_offer, peer_link));
}

/* Drops offers whose sender has proved no key in time. */
void kit_offers_expire(struct kit_session *session)
{
    while (!kit_list_empty(&session->offers_by_age)) {
        struct kit_offer *offer =
            kit_container(session->offers_by_age.next, struct kit_offer, age_link);

        if (session->ticks - offer->ticks < OFFER_TICKS)
            break;
        kit_offer_refuse(offer);
    }
}

bool kit_offer_is_open(const struct kit_peer *peer)
{
    return peer->auth != NULL && !kit_list_empty(&peer->auth->offers);
}

/* Draws shares, unless the peer has some. */
void kit_exchange_open(struct kit_peer *peer)
{
    const struct kit_session *session = peer->session;
    struct kit_peer_auth *auth = peer->auth;

    if (auth->has_exchange)
        return;
    kit_auth_exchange_begin(session->secret, &auth->exchange[0]);
    if (session->secret_also != NULL)
        kit_auth_exchange_begin(session->secret_also, &auth->exchange[1]);
    auth->has_exchange = true;
    auth->exchange_uses = 0;
}

void kit_exchange_close(struct kit_peer *peer)
{
    struct kit_peer_auth *auth = peer->auth;

    kit_auth_wipe(auth->exchange, sizeof(auth->exchange));
    auth->has_exchange = false;
}

enum kit_seal_result kit_peer_seal_open(struct kit_peer *peer, uint32_t sequence, uint8_t *data,
                                        uint64_t clear, uint64_t size, bool *is_new_p)
{
    struct kit_peer_auth *auth = peer->auth;
    enum kit_seal_result result = KIT_SEAL_NONE;

    *is_new_p = false;
    if (auth == NULL)
        return KIT_SEAL_NONE;
    if (kit_likely(auth->is_sealed))
        result = kit_seal_open(&auth->seal, sequence, data, clear, size,
                               !auth->has_old && kit_list_empty(&auth->offers));
    if (kit_likely(result != KIT_SEAL_NONE))
        return result;
    if (auth->has_old)
        result = kit_seal_open(&auth->old, sequence, data, clear, size, false);
    auth->is_by_old = result == KIT_SEAL_NEXT;
    if (result == KIT_SEAL_NONE && sequence == 1 && size <= CONFIRM_MAX) {
        result = offers_open(peer, sequence, data, clear, size);
        *is_new_p = result == KIT_SEAL_NEXT;
    }
    return result;
}

/* True if an offer has not been answered. */
static bool has_pending(const struct kit_peer_auth *auth)
{
    for (struct kit_link *link = auth->offers.next; link != &auth->offers; link = link->next)
        if (kit_container(link, struct kit_offer, peer_link)->is_pending)
            return true;
    return false;
}

/*
 * Tries the seals of all offers, under each of our keys. The caller admits only small frames that
 * may be a peer's first one, because anybody who sees the token can send a frame that fits no seal.
 */
static enum kit_seal_result offers_open(struct kit_peer *peer, uint32_t sequence, uint8_t *data,
                                        uint64_t clear, uint64_t size)
{
    struct kit_peer_auth *auth = peer->auth;

    for (struct kit_link *link = auth->offers.next; link != &auth->offers; link = link->next) {
        struct kit_offer *offer = kit_container(link, struct kit_offer, peer_link);

        for (uint32_t i = 0; i < kit_session_secrets(peer->session); i++) {
            const enum kit_seal_result result =
                kit_seal_open(&offer->seals[i], sequence, data, clear, size, false);

            if (result == KIT_SEAL_NONE)
                continue;
            auth->confirmed = offer;
            auth->confirmed_with = i;
            return result;
        }
    }
    return KIT_SEAL_NONE;
}
