/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal functions of the session layer. */

#ifndef SESSION_STATE_H
#define SESSION_STATE_H

#include "kit_session.h"

#define SESSION_PING_MS                  250u  /* silence after which another HELLO is sent */
#define SESSION_PING_MS_MAX              2000u /* longest interval between further ones */

#define SESSION_LOG(session, level, ...) KIT_LOG(level, (session)->config.plugin, __VA_ARGS__)
#define SESSION_LOG_ERROR(session, ...)  SESSION_LOG(session, NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define SESSION_LOG_DEBUG(session, ...)  SESSION_LOG(session, NA_PLUGIN_LOG_DEBUG, __VA_ARGS__)

/* peer.c */
void kit_peer_set_incarnation(struct kit_peer *peer, uint64_t incarnation);
void kit_peer_set_canonical(struct kit_peer *peer, struct kit_peer *canonical);

/* Operations posted, and memory granted, before the epoch were for another process. */
static inline void kit_peer_lose_before(struct kit_peer *peer, uint32_t epoch)
{
    peer->lost_before = peer->granted_from = epoch;
}

/* hello.c */
bool kit_hello_parse(const struct kit_session *session, const void *data, uint32_t size,
                     struct kit_hello *hello);
void kit_hello_fill(const struct kit_peer *peer, uint32_t epoch, const struct kit_hello_key *key,
                    uint8_t *place);
bool kit_hello_is_from(const struct kit_peer *peer, const struct kit_hello *hello);
bool kit_hello_is_restart(const struct kit_peer *peer, const struct kit_hello *hello);
bool kit_hello_take_as(struct kit_peer *peer, const struct kit_hello *hello, bool is_restart);
bool kit_hello_ack_take(struct kit_peer *peer, const struct kit_hello *hello);

/* peer_auth.c */
bool kit_peer_auth_make(struct kit_peer *peer);
void kit_peer_auth_free(struct kit_peer *peer);
void kit_offer_free(struct kit_offer *offer);
void kit_offer_refuse(struct kit_offer *offer);
void kit_offers_drop(struct kit_peer *peer);
void kit_offers_expire(struct kit_session *session);
bool kit_offer_is_open(const struct kit_peer *peer);
void kit_exchange_open(struct kit_peer *peer);
void kit_exchange_close(struct kit_peer *peer);

/* Number of our keys. */
static inline uint32_t kit_session_secrets(const struct kit_session *session)
{
    return session->secret_also != NULL ? 2 : session->secret != NULL;
}

/* liveness.c */
void kit_session_describe_process(struct kit_session *session);
bool kit_peer_process_gone(const struct kit_peer *peer);

/* silence.c */
int32_t kit_silence_setup(struct kit_session *session);
void kit_silence_end(struct kit_peer *peer);
bool kit_silence_check(struct kit_peer *peer, uint64_t elapsed_ms);

#endif /* SESSION_STATE_H */
