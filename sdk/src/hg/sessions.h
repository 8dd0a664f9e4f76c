/* SPDX-License-Identifier: BSD-3-Clause */
/* The target's side of sessions: those in which a context receives requests. */
#ifndef HG_SESSIONS_H
#define HG_SESSIONS_H

#include "hg/hello.h"
#include "hg/session.h"

#include "engine/context.h"

#include <pthread.h>

/*
 * Limits of what unidentified peers can make a context hold: the number of offers, and their age in
 * nanoseconds. Old offers are dropped by the next HELLO, or when the counters are read.
 */
#define HG_OFFERS_MAX UINT32_C(4096)
#define HG_OFFERS_NS  UINT64_C(10000000000)

/* Open sessions of a context; one more drops the least recently used. */
#define HG_SESSIONS_MAX UINT32_C(16384)

/*
 * Nanoseconds that sessions of a lost origin are kept: messages of it may still be unread, and the
 * notice is no proof that it is dead.
 */
#define HG_LOST_NS UINT64_C(10000000000)

struct hg_session_list {
    struct hg_session *first; /* least recently offered or used, linked by next */
    struct hg_session *last;
    uint32_t count;
};

struct hg_sessions {
    pthread_mutex_t lock; /* guards the members below, and those that struct hg_session names */
    struct hg_session **buckets; /* by id, linked by next_in_bucket; NULL: never used */
    uint32_t bucket_count;       /* a power of 2 */
    struct hg_session_list offers;
    struct hg_session_list open;
    struct hg_session_list lost; /* open sessions whose origin is lost */
};

void hg_sessions_init(struct hg_sessions *sessions);
void hg_sessions_fini(struct hg_sessions *sessions);

/*
 * Keep a session that a HELLO asked for as an offer, until a request comes that is sealed in it.
 * Takes over the reference. The offers for both keys of one HELLO have ids that differ in the
 * lowest bit. An offer that expires unused is counted in refused_key; the next HELLO and the two
 * functions below drop expired offers.
 */
hg_return_t hg_sessions_offer(hg_context_t *context, struct hg_session *session);

/* Drop and count the offers that expired, before the counters of the context are read. */
void hg_sessions_expire(hg_context_t *context);

/* Drop and count all offers, when the context does not receive any more. */
void hg_sessions_drop_offers(hg_context_t *context);

/*
 * Returns the referenced session of a sealed request, or NULL: then *ret_p is HG_PERMISSION if the
 * seal is invalid, HG_HOSTUNREACH if there is no such session, HG_CANCELED if it is a replay.
 */
struct hg_session *hg_sessions_check(hg_context_t *context, uint8_t path, na_addr_t *source,
                                     char *header, size_t size, na_tag_t tag, uint64_t *number_p,
                                     hg_return_t *ret_p);

/*
 * The origin at an address was lost. The first HELLO, or notice of another lost origin, after
 * HG_LOST_NS drops its sessions, unless a request has come in them meanwhile.
 */
void hg_sessions_lose(hg_context_t *context, uint8_t path, na_addr_t *source);

#endif /* HG_SESSIONS_H */
