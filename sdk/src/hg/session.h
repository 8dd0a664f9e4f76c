/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions, where the transport does not prove auth_key: from one context, the origin's, to one of
 * a target. Both have made keys in an exchange (hello.h), one for each direction.
 *
 * What an origin sends unexpected (requests, ABANDON) has a number that the target takes once. What
 * is expected (responses, acknowledgements) says the number of the request that it is about, and
 * only the handle of that request takes it. So nothing is replayed, swapped, or moved to another
 * session or direction. docs/decisions/0037.
 */
#ifndef HG_SESSION_H
#define HG_SESSION_H

#include "hg/window.h"
#include "kit_auth.h"
#include "mercury.h"
#include "mercury_core_header.h"

#include <stdatomic.h>

/* Of numbers of what is expected: those of the two kinds of messages never meet. */
#define HG_SESSION_EXPECTED (UINT64_C(1) << 63)

struct hg_session {
    uint8_t send[KIT_AUTH_KEY];
    uint8_t receive[KIT_AUTH_KEY];
    uint64_t id; /* drawn by the target */
    _Atomic int32_t ref;
    _Atomic uint64_t sent; /* numbers of the last messages of each kind */
    _Atomic uint64_t sent_expected;
    uint64_t made_ns;

    /* Of the target's; under the lock of its context's sessions, see sessions.c. */
    struct hg_window window;
    na_class_t *na_class;
    na_addr_t *na_addr; /* of the origin */
    uint8_t instance[16];
    uint8_t origin; /* context */
    uint8_t path;
    bool is_open; /* its origin has proved the key; otherwise it is an offer */
    bool is_listed;
    uint64_t lost_ns; /* when its origin was lost; 0: it was not, or something came since */
    struct hg_session *next_in_bucket;
    struct hg_session *next; /* the one that was used, or offered, after this one */
    struct hg_session *previous;
};

/* With one reference; NULL without memory. */
struct hg_session *hg_session_new(uint64_t id, const struct kit_auth_keys *keys);

/* The last one wipes it. NULL does nothing. */
void hg_session_unref(struct hg_session *session);

static inline struct hg_session *hg_session_ref(struct hg_session *session)
{
    atomic_fetch_add_explicit(&session->ref, 1, memory_order_relaxed);
    return session;
}

/*
 * Seal a message of `size` bytes from its header on; returns its number. An unexpected one is bound
 * to the session and to NA's tag, and an expected one to the number of its request.
 */
uint64_t hg_session_seal(struct hg_session *session, char *header, size_t size, na_tag_t tag);
void hg_session_seal_expected(struct hg_session *session, char *header, size_t size,
                              uint64_t request);

/* The network did not take the last message. */
void hg_session_unsend(struct hg_session *session, uint64_t number);

/* The seal of a message whose flags say that it has one, and which is long enough. */
void hg_session_read_seal(const char *header, struct hg_core_header_seal *seal);

/* Whether it is the session's; NA's tag is 0 for an expected message. */
bool hg_session_fits(const struct hg_session *session, char *header, size_t size,
                     const struct hg_core_header_seal *seal, na_tag_t tag);

#endif /* HG_SESSION_H */
