/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's side of sessions: a hash table by id, and lists in the order of offer or last use.
 *
 * Anybody can cause an offer, so an offer replaces no session. It is opened by the first request
 * that is sealed in it, which proves the key. Then it replaces the older session of the same
 * context of the origin, which does not use that any more.
 *
 * The notice that an origin is lost may come before its last messages are read, and does not prove
 * that it is dead. So its sessions are dropped only after some time without a request.
 */
#include "hg/sessions.h"

#include "engine/log.h"
#include "engine/timer.h"
#include "hg/context.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS_MIN 64u

static void sessions_expire_offers(hg_context_t *context, uint32_t max_count, uint64_t max_age_ns);
static void sessions_drop_lost(struct hg_sessions *sessions, uint64_t now_ns);
static bool sessions_grow(struct hg_sessions *sessions);
static struct hg_session **sessions_link(struct hg_sessions *sessions, uint64_t id);
static struct hg_session *sessions_find(struct hg_sessions *sessions, uint64_t id);
static void sessions_add(struct hg_sessions *sessions, struct hg_session *session);
static void sessions_remove(struct hg_sessions *sessions, struct hg_session *session);
static void sessions_open(struct hg_sessions *sessions, struct hg_session *session);
static void sessions_replace(struct hg_sessions *sessions, const struct hg_session_list *list,
                             const struct hg_session *session);
static bool session_replaces(const struct hg_session *session, const struct hg_session *older);
static hg_return_t sessions_take(hg_context_t *context, struct hg_session *session,
                                 uint64_t number);
static void list_add(struct hg_session_list *list, struct hg_session *session);
static void list_remove(struct hg_session_list *list, struct hg_session *session);
static struct hg_session_list *list_of(struct hg_sessions *sessions,
                                       const struct hg_session *session);

void hg_sessions_init(struct hg_sessions *sessions)
{
    (void) pthread_mutex_init(&sessions->lock, NULL);
}

void hg_sessions_fini(struct hg_sessions *sessions)
{
    while (sessions->offers.first != NULL)
        sessions_remove(sessions, sessions->offers.first);
    while (sessions->open.first != NULL)
        sessions_remove(sessions, sessions->open.first);
    while (sessions->lost.first != NULL)
        sessions_remove(sessions, sessions->lost.first);
    free(sessions->buckets);
    (void) pthread_mutex_destroy(&sessions->lock);
}

hg_return_t hg_sessions_offer(hg_context_t *context, struct hg_session *session)
{
    struct hg_sessions *sessions = &hg_rpc_context(context)->sessions;
    hg_return_t ret = HG_SUCCESS;

    (void) pthread_mutex_lock(&sessions->lock);
    sessions_expire_offers(context, HG_OFFERS_MAX - 1, HG_OFFERS_NS);
    sessions_drop_lost(sessions, session->made_ns);
    if (sessions_grow(sessions))
        sessions_add(sessions, session);
    else
        ret = HG_NOMEM;
    (void) pthread_mutex_unlock(&sessions->lock);
    if (ret != HG_SUCCESS)
        hg_session_unref(session);
    return ret;
}

void hg_sessions_expire(hg_context_t *context)
{
    struct hg_sessions *sessions = &hg_rpc_context(context)->sessions;

    (void) pthread_mutex_lock(&sessions->lock);
    sessions_expire_offers(context, HG_OFFERS_MAX, HG_OFFERS_NS);
    (void) pthread_mutex_unlock(&sessions->lock);
}

void hg_sessions_drop_offers(hg_context_t *context)
{
    struct hg_sessions *sessions = &hg_rpc_context(context)->sessions;

    (void) pthread_mutex_lock(&sessions->lock);
    sessions_expire_offers(context, 0, 0);
    (void) pthread_mutex_unlock(&sessions->lock);
}

struct hg_session *hg_sessions_check(hg_context_t *context, uint8_t path, na_addr_t *source,
                                     char *header, size_t size, na_tag_t tag, uint64_t *number_p,
                                     hg_return_t *ret_p)
{
    struct hg_sessions *sessions = &hg_rpc_context(context)->sessions;
    struct hg_core_header_seal seal;
    struct hg_session *session;

    hg_session_read_seal(header, &seal);
    (void) pthread_mutex_lock(&sessions->lock);
    session = sessions_find(sessions, seal.reference);
    if (session != NULL && session->path == path)
        (void) hg_session_ref(session);
    else
        session = NULL;
    (void) pthread_mutex_unlock(&sessions->lock);
    if (session == NULL)
        *ret_p = HG_HOSTUNREACH;
    else if ((seal.number & HG_SESSION_EXPECTED) != 0 ||
             !NA_Addr_cmp(session->na_class, session->na_addr, source) ||
             !hg_session_verify(session, header, size, &seal, tag))
        *ret_p = HG_PERMISSION;
    else
        *ret_p = sessions_take(context, session, seal.number);
    if (*ret_p == HG_SUCCESS) {
        *number_p = seal.number;
        return session;
    }
    hg_session_unref(session);
    return NULL;
}

void hg_sessions_lose(hg_context_t *context, uint8_t path, na_addr_t *source)
{
    struct hg_sessions *sessions = &hg_rpc_context(context)->sessions;
    const uint64_t now_ns = hg_clock_ns();
    struct hg_session *session, *next;

    (void) pthread_mutex_lock(&sessions->lock);
    sessions_drop_lost(sessions, now_ns);
    for (session = sessions->open.first; session != NULL; session = next) {
        next = session->next;
        if (session->path != path || !NA_Addr_cmp(session->na_class, session->na_addr, source))
            continue;
        list_remove(&sessions->open, session);
        session->lost_ns = now_ns;
        list_add(&sessions->lost, session);
    }
    (void) pthread_mutex_unlock(&sessions->lock);
}

/* Accept a request with a valid seal, once, and open its session if that is an offer. */
static hg_return_t sessions_take(hg_context_t *context, struct hg_session *session, uint64_t number)
{
    struct hg_sessions *sessions = &hg_rpc_context(context)->sessions;
    hg_return_t ret = HG_CANCELED;

    (void) pthread_mutex_lock(&sessions->lock);
    if (!session->is_listed)
        ret = HG_HOSTUNREACH; /* dropped since hg_sessions_check() found it */
    else if (hg_window_take(&session->window, number))
        ret = HG_SUCCESS;
    if (ret == HG_SUCCESS && !session->is_open) {
        sessions_open(sessions, session);
    } else if (ret == HG_SUCCESS && (session->next != NULL || session->lost_ns != 0)) {
        list_remove(list_of(sessions, session), session);
        session->lost_ns = 0;
        list_add(&sessions->open, session);
    }
    (void) pthread_mutex_unlock(&sessions->lock);
    return ret;
}

static void sessions_drop_lost(struct hg_sessions *sessions, uint64_t now_ns)
{
    while (sessions->lost.first != NULL && now_ns > sessions->lost.first->lost_ns &&
           now_ns - sessions->lost.first->lost_ns > HG_LOST_NS)
        sessions_remove(sessions, sessions->lost.first);
}

static void sessions_open(struct hg_sessions *sessions, struct hg_session *session)
{
    struct hg_session *other = sessions_find(sessions, session->id ^ 1);

    if (other != NULL && !other->is_open)
        sessions_remove(sessions, other);
    sessions_replace(sessions, &sessions->open, session);
    sessions_replace(sessions, &sessions->lost, session);
    if (sessions->open.count + sessions->lost.count == HG_SESSIONS_MAX)
        sessions_remove(sessions,
                        sessions->lost.first != NULL ? sessions->lost.first : sessions->open.first);
    list_remove(&sessions->offers, session);
    session->is_open = true;
    list_add(&sessions->open, session);
}

/* Drop the sessions of a list that a new one replaces. */
static void sessions_replace(struct hg_sessions *sessions, const struct hg_session_list *list,
                             const struct hg_session *session)
{
    struct hg_session *other, *next;

    for (other = list->first; other != NULL; other = next) {
        next = other->next;
        if (session_replaces(session, other))
            sessions_remove(sessions, other);
    }
}

static bool session_replaces(const struct hg_session *session, const struct hg_session *older)
{
    return memcmp(session->instance, older->instance, sizeof(session->instance)) == 0 &&
           session->origin == older->origin && session->path == older->path &&
           NA_Addr_cmp(session->na_class, session->na_addr, older->na_addr);
}

/*
 * Drop the offers that are older than max_age_ns, and the oldest ones of more than max_count. The
 * clock is read under the lock, so that no offer is later than now_ns.
 */
static void sessions_expire_offers(hg_context_t *context, uint32_t max_count, uint64_t max_age_ns)
{
    struct hg_sessions *sessions = &hg_rpc_context(context)->sessions;
    const uint64_t now_ns = sessions->offers.first != NULL ? hg_clock_ns() : 0;
    struct hg_session *offer;

    while ((offer = sessions->offers.first) != NULL &&
           (now_ns - offer->made_ns > max_age_ns || sessions->offers.count > max_count)) {
        struct hg_session *other = sessions_find(sessions, offer->id ^ 1);

        if (other != NULL)
            sessions_remove(sessions, other);
        sessions_remove(sessions, offer);
        HG_LOG_WRITE(hg_count_level(&context->counters.refused_key),
                     "a peer asked for a session and did not prove that its auth_key is ours");
    }
}

/* Make room in the hash table for one more session; false: out of memory. */
static bool sessions_grow(struct hg_sessions *sessions)
{
    const uint32_t old_count = sessions->bucket_count;
    struct hg_session **old = sessions->buckets, **buckets;

    if (sessions->offers.count + sessions->open.count + sessions->lost.count < old_count)
        return true;
    buckets = calloc(old_count == 0 ? BUCKETS_MIN : 2 * old_count, sizeof(struct hg_session *));
    if (buckets == NULL)
        return old != NULL;
    sessions->buckets = buckets;
    sessions->bucket_count = old_count == 0 ? BUCKETS_MIN : 2 * old_count;
    for (uint32_t i = 0; i < old_count; i++)
        while (old[i] != NULL) {
            struct hg_session *session = old[i];
            struct hg_session **link = sessions_link(sessions, session->id);

            old[i] = session->next_in_bucket;
            session->next_in_bucket = *link;
            *link = session;
        }
    free(old);
    return true;
}

/* Returns the head of the hash chain for a session id. */
static struct hg_session **sessions_link(struct hg_sessions *sessions, uint64_t id)
{
    return &sessions->buckets[id & (sessions->bucket_count - 1)];
}

static struct hg_session *sessions_find(struct hg_sessions *sessions, uint64_t id)
{
    struct hg_session *session = sessions->buckets != NULL ? *sessions_link(sessions, id) : NULL;

    while (session != NULL && session->id != id)
        session = session->next_in_bucket;
    return session;
}

static void sessions_add(struct hg_sessions *sessions, struct hg_session *session)
{
    struct hg_session **link = sessions_link(sessions, session->id);

    session->next_in_bucket = *link;
    *link = session;
    session->is_listed = true;
    list_add(&sessions->offers, session);
}

static void sessions_remove(struct hg_sessions *sessions, struct hg_session *session)
{
    struct hg_session **link = sessions_link(sessions, session->id);

    while (*link != session)
        link = &(*link)->next_in_bucket;
    *link = session->next_in_bucket;
    list_remove(list_of(sessions, session), session);
    session->is_listed = false;
    hg_session_unref(session);
}

static struct hg_session_list *list_of(struct hg_sessions *sessions,
                                       const struct hg_session *session)
{
    if (session->lost_ns != 0)
        return &sessions->lost;
    return session->is_open ? &sessions->open : &sessions->offers;
}

static void list_add(struct hg_session_list *list, struct hg_session *session)
{
    session->next = NULL;
    session->previous = list->last;
    if (list->last != NULL)
        list->last->next = session;
    else
        list->first = session;
    list->last = session;
    list->count++;
}

static void list_remove(struct hg_session_list *list, struct hg_session *session)
{
    if (session->previous != NULL)
        session->previous->next = session->next;
    else
        list->first = session->next;
    if (session->next != NULL)
        session->next->previous = session->previous;
    else
        list->last = session->previous;
    list->count--;
}
