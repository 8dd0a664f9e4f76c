/* SPDX-License-Identifier: BSD-3-Clause */
/* What a peer has under a key: made, looked through for a seal, and wiped. */

#include "session_state.h"

#define OFFER_TICKS 100u /* for so long a peer stays known that made one */

/* Without a key there is none. False without memory. */
bool kit_peer_auth_make(struct kit_peer *peer)
{
    if (peer->session->secret == NULL)
        return true;
    peer->auth = kit_host->mem_alloc(sizeof(*peer->auth), 0);
    return peer->auth != NULL;
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
    kit_offer_drop(peer);
    kit_auth_wipe(peer->auth, sizeof(*peer->auth));
}

void kit_offer_drop(struct kit_peer *peer)
{
    struct kit_offer *offer = peer->auth->offer;

    peer->pending &= ~KIT_PENDING_OFFER;
    peer->auth->offer = NULL;
    if (offer == NULL)
        return;
    kit_auth_wipe(offer, sizeof(*offer) + offer->size);
    kit_host->mem_free(offer);
    peer->session->offers--;
}

/* Draws a share, unless there is one that is not used up. */
void kit_exchange_open(struct kit_peer *peer)
{
    struct kit_peer_auth *auth = peer->auth;

    if (auth->has_exchange)
        return;
    kit_auth_exchange_begin(peer->session->secret, &auth->exchange);
    auth->has_exchange = true;
    auth->exchange_uses = 0;
}

void kit_exchange_close(struct kit_peer *peer)
{
    struct kit_peer_auth *auth = peer->auth;

    kit_auth_wipe(&auth->exchange, sizeof(auth->exchange));
    auth->has_exchange = false;
}

bool kit_offer_is_open(const struct kit_peer *peer)
{
    return peer->auth != NULL && peer->auth->offer != NULL &&
           peer->session->ticks - peer->auth->offer->ticks < OFFER_TICKS;
}

enum kit_seal_result kit_peer_seal_check(struct kit_peer *peer, uint32_t sequence,
                                         const uint8_t *data, uint64_t size, bool *is_new_p)
{
    struct kit_peer_auth *auth = peer->auth;
    enum kit_seal_result result = KIT_SEAL_NONE;

    *is_new_p = false;
    if (auth == NULL)
        return KIT_SEAL_NONE;
    if (kit_likely(auth->is_sealed))
        result = kit_seal_check(&auth->seal, sequence, data, size);
    if (kit_likely(result != KIT_SEAL_NONE))
        return result;
    if (auth->has_old)
        result = kit_seal_check(&auth->old, sequence, data, size);
    if (result == KIT_SEAL_NONE && auth->offer != NULL) {
        result = kit_seal_check(&auth->offer->seal, sequence, data, size);
        *is_new_p = result == KIT_SEAL_NEXT;
    }
    return result;
}
