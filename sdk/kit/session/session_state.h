/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the session layer share. */

#ifndef SESSION_STATE_H
#define SESSION_STATE_H

#include "kit_session.h"

#define SESSION_PING_MS                  250u  /* silence after which another HELLO is sent */
#define SESSION_PING_MS_MAX              2000u /* longest distance of further ones */

#define SESSION_LOG(session, level, ...) KIT_LOG(level, (session)->config.plugin, __VA_ARGS__)
#define SESSION_LOG_ERROR(session, ...)  SESSION_LOG(session, NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define SESSION_LOG_DEBUG(session, ...)  SESSION_LOG(session, NA_PLUGIN_LOG_DEBUG, __VA_ARGS__)

/* peer.c */
void kit_peer_set_incarnation(struct kit_peer *peer, uint64_t incarnation);
void kit_peer_set_canonical(struct kit_peer *peer, struct kit_peer *canonical);

/* liveness.c */
void kit_session_describe_process(struct kit_session *session);
bool kit_peer_process_gone(const struct kit_peer *peer);

/* silence.c */
int32_t kit_silence_setup(struct kit_session *session);
void kit_silence_end(struct kit_peer *peer);
bool kit_silence_check(struct kit_peer *peer, uint64_t elapsed_ms);

#endif /* SESSION_STATE_H */
