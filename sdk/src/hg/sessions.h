/* SPDX-License-Identifier: BSD-3-Clause */
/* The sessions in which a context is called. */
#ifndef HG_SESSIONS_H
#define HG_SESSIONS_H

#include "hg/hello.h"
#include "hg/session.h"

#include "engine/context.h"

#include <pthread.h>

/*
 * What unidentified peers make a context hold: so many offers, and until another one comes, or the
 * counters are read, after so long.
 */
#define HG_OFFERS_MAX UINT32_C(4096)
#define HG_OFFERS_NS  UINT64_C(10000000000)

/* Sessions of a context, of which that used last goes first when there are more. */
#define HG_SESSIONS_MAX UINT32_C(16384)

/* How long a lost origin's are kept: what it sent before is still read, or it may live. */
#define HG_LOST_NS UINT64_C(10000000000)

struct hg_session_list {
    struct hg_session *first; /* the oldest, linked by next */
    struct hg_session *last;
    uint32_t count;
};

struct hg_sessions {
    pthread_mutex_t lock;
    struct hg_session **buckets; /* by id, linked by next_in_bucket; NULL: there was none yet */
    uint32_t bucket_count;       /* a power of 2 */
    struct hg_session_list offers;
    struct hg_session_list open;
    struct hg_session_list lost; /* likewise open, but of origins that were lost */
};

void hg_sessions_init(struct hg_sessions *sessions);
void hg_sessions_fini(struct hg_sessions *sessions);

/*
 * Keep a session that a HELLO asked for as an offer: it changes nothing until something comes that
 * is sealed by it. Takes over the reference. What was offered under the other key of the same
 * HELLO has the same id but for the lowest bit. Offers that come to nothing are counted as callers
 * with another key when the next one comes, and by the two functions below.
 */
hg_return_t hg_sessions_offer(hg_context_t *context, struct hg_session *session);

/* Drop and count what was not proved in time. The counters of the context are about to be read. */
void hg_sessions_lapse(hg_context_t *context);

/* Drop and count all offers: nothing is received any more. */
void hg_sessions_end(hg_context_t *context);

/*
 * The session of a sealed request, with a reference, or NULL: *ret_p is HG_PERMISSION if it is not
 * sealed as it says, HG_HOSTUNREACH if there is no such session, HG_CANCELED if it came before.
 */
struct hg_session *hg_sessions_check(hg_context_t *context, uint8_t path, na_addr_t *source,
                                     char *header, size_t size, na_tag_t tag, uint64_t *number_p,
                                     hg_return_t *ret_p);

/*
 * The origin at an address was lost: its sessions are dropped by a HELLO, or the notice of another
 * one, that comes later than HG_LOST_NS. What is sealed by them after that is refused, as by any
 * session that is not there.
 */
void hg_sessions_lose(hg_context_t *context, uint8_t path, na_addr_t *source);

#endif /* HG_SESSIONS_H */
