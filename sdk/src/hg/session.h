/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions, where the transport does not prove auth_key: from a context of the origin to a context
 * of the target. The exchange of hello.h gives both a key for each direction.
 *
 * Unexpected messages of the origin (requests, ABANDON) have a sequence number, and the target
 * accepts each number once. Expected messages (responses, acknowledgements) have the number of the
 * request that they belong to, and only the handle of that request accepts them. So no message can
 * be replayed, swapped, or moved to another session or direction. See docs/decisions/0037.
 */
#ifndef HG_SESSION_H
#define HG_SESSION_H

#include "hg/window.h"
#include "kit_auth.h"
#include "mercury.h"
#include "mercury_core_header.h"

#include <stdatomic.h>

/* Set in the numbers of expected messages, so that no nonce is used for both kinds of messages. */
#define HG_SESSION_EXPECTED (UINT64_C(1) << 63)

struct hg_session {
    uint8_t send[KIT_AUTH_KEY];    /* key of messages to the peer */
    uint8_t receive[KIT_AUTH_KEY]; /* key of messages from the peer */
    uint64_t id;                   /* random, chosen by the target */
    _Atomic int32_t ref;
    _Atomic uint64_t sent;          /* number of the last unexpected message */
    _Atomic uint64_t sent_expected; /* number of the last expected message */
    uint64_t made_ns;               /* time of the exchange */

    /* At the target only; constant. */
    na_class_t *na_class;
    na_addr_t *na_addr; /* of the origin */
    uint8_t instance[16];
    uint8_t origin; /* id of the origin's context */
    uint8_t path;

    /* At the target only; guarded by hg_sessions.lock of its context, see sessions.c. */
    struct hg_window window;
    bool is_open;     /* the origin has proved the key; false: the session is an offer */
    bool is_listed;   /* false: dropped from the hash table and the lists */
    uint64_t lost_ns; /* when the origin was lost; 0: never, or a request came since */
    struct hg_session *next_in_bucket;
    struct hg_session *next; /* in its list, ordered by the time of offer or last use */
    struct hg_session *previous;
};

/* The caller gets a reference; NULL: out of memory. */
struct hg_session *hg_session_new(uint64_t id, const struct kit_auth_keys *keys);

/* The last reference wipes the keys. NULL is ignored. */
void hg_session_unref(struct hg_session *session);

static inline struct hg_session *hg_session_ref(struct hg_session *session)
{
    atomic_fetch_add_explicit(&session->ref, 1, memory_order_relaxed);
    return session;
}

/*
 * Seal a message of `size` bytes, which starts with its header. An unexpected message is bound to
 * the session and to NA's tag, and its number is returned; an expected one is bound to the number
 * of its request.
 */
uint64_t hg_session_seal(struct hg_session *session, char *header, size_t size, na_tag_t tag);
void hg_session_seal_expected(struct hg_session *session, char *header, size_t size,
                              uint64_t request);

/* Give back the number of a message that the transport refused, if it is the last one. */
void hg_session_unsend(struct hg_session *session, uint64_t number);

/* Read the seal of a message whose flags and size the caller has checked. */
void hg_session_read_seal(const char *header, struct hg_core_header_seal *seal);

/* Returns true if the seal is valid in the session; `tag` is 0 for an expected message. */
bool hg_session_verify(const struct hg_session *session, char *header, size_t size,
                       const struct hg_core_header_seal *seal, na_tag_t tag);

#endif /* HG_SESSION_H */
