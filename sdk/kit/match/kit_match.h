/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching: the receives that are posted in a context, and the messages that come for it.
 *
 * An expected message goes to the oldest receive of its source, the context there and its tag. An
 * unexpected one goes to the oldest receive for such, single or multiple; without any it is
 * deferred, within a budget, so that expected messages behind it get through.
 *
 * Nothing here locks. One lock of the caller's guards a struct kit_match, and with it the budget
 * that it may share with others. What a function takes out of it belongs to the caller, who copies
 * the message and reports the completion, after unlocking if that is better. No function blocks.
 * The status codes are those of na_plugin.h. Since 1.1.
 */

#ifndef KIT_MATCH_H
#define KIT_MATCH_H

#include "kit_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Deferred messages of an endpoint that there is always room for, whatever their size. */
#define KIT_DEFERRED_MIN 64u

/* What a receive is for. */
enum kit_recv_kind {
    KIT_RECV_UNEXPECTED,
    KIT_RECV_MULTI,
    KIT_RECV_EXPECTED
};

/*
 * A receive. It is the first member of a plugin's private part of an operation: its address is the
 * operation's for the core. The caller sets `buf` and `size` before it is posted.
 */
struct kit_recv {
    struct kit_link link;
    union {
        const void *source; /* EXPECTED: what stands for the peer, the same for all its messages */
        uint64_t used;      /* MULTI: bytes of buf that are filled */
    };
    uint8_t *buf;
    uint64_t size;      /* bytes of buf */
    uint32_t source_id; /* EXPECTED: the peer's context */
    uint32_t tag;       /* EXPECTED */
    enum kit_recv_kind kind;
    const struct kit_match *match; /* where it is posted; NULL, as at the beginning: nowhere */
};

struct kit_deferred;

/* The budget for deferred messages, of a context or of all contexts of an endpoint. */
struct kit_deferrals {
    uint64_t bytes_max; /* set by the caller; the rest begins as zeroes */
    uint64_t bytes;
    uint32_t count;
    uint32_t free_count;
    struct kit_deferred *free;
};

/* The receives and deferred messages of a context. */
struct kit_match {
    struct kit_link receives; /* UNEXPECTED and MULTI, in the order of their posting */
    struct kit_deferred *first;
    struct kit_deferred *last;
    struct kit_link *buckets; /* EXPECTED; NULL before the first one */
    uint32_t bucket_count;    /* a power of two */
    uint32_t expected;        /* receives in the buckets */
    uint64_t max_message;
    struct kit_deferrals *deferrals;
    void (*source_release)(struct na_plugin_addr *source);
    uint64_t dropped; /* messages that found no receive, or no room in it */
};

/*
 * Makes an empty one. `max_message` is the most bytes of an unexpected message, which the buffer of
 * a multi-receive keeps room for. `source_release` gives back a reference to a peer that
 * kit_match_defer() was given, where no receive takes it over.
 */
void kit_match_open(struct kit_match *match, struct kit_deferrals *deferrals, uint64_t max_message,
                    void (*source_release)(struct na_plugin_addr *source));

/* Drops the deferred messages, releasing their sources. Receives stay. */
void kit_match_drop(struct kit_match *match);

/* Frees what the match itself holds; no receive is posted any more, and nothing deferred. */
void kit_match_close(struct kit_match *match);

/* Frees the memory that is kept for further deferred messages; none is left. */
void kit_deferrals_free(struct kit_deferrals *deferrals);

/* Whether a message of that size may be deferred. */
bool kit_deferrals_have_room(const struct kit_deferrals *deferrals, uint64_t size);

/*
 * Posts a receive for expected messages.
 *
 * NA_PLUGIN_SUCCESS, or NA_PLUGIN_NOMEM.
 */
static inline int32_t kit_match_post_expected(struct kit_match *match, struct kit_recv *recv,
                                              const void *source, uint32_t source_id, uint32_t tag);

/* Takes out the receive for an expected message. NULL: there is none, and the message is lost. */
static inline struct kit_recv *kit_match_expected(struct kit_match *match, const void *source,
                                                  uint32_t source_id, uint32_t tag);

/* How many receives wait for expected messages; may be called without the lock. */
static inline uint32_t kit_match_expected_count(const struct kit_match *match)
{
    return __atomic_load_n(&match->expected, __ATOMIC_RELAXED);
}

/* Posts a receive for one unexpected message, or with KIT_RECV_MULTI for many. */
static inline void kit_match_post(struct kit_match *match, struct kit_recv *recv,
                                  enum kit_recv_kind kind)
{
    recv->kind = kind;
    recv->used = 0;
    recv->match = match;
    kit_list_append(&match->receives, &recv->link);
}

/*
 * The receive for the next unexpected message; it stays posted. NULL: there is none, or deferred
 * messages go first.
 */
static inline struct kit_recv *kit_match_unexpected(const struct kit_match *match)
{
    if (kit_unlikely(match->first != NULL || kit_list_empty(&match->receives)))
        return NULL;
    return (struct kit_recv *) (void *) match->receives.next;
}

/* Takes a receive out that is posted. */
static inline void kit_match_remove(struct kit_match *match, struct kit_recv *recv)
{
    if (recv->kind == KIT_RECV_EXPECTED)
        __atomic_store_n(&match->expected, match->expected - 1, __ATOMIC_RELAXED);
    recv->match = NULL;
    kit_list_remove(&recv->link);
}

/*
 * Where the next message of a multi-receive goes, in its buffer, which is the core's: there is room
 * for one of max_message bytes.
 */
static inline uint8_t *kit_match_place(const struct kit_recv *recv)
{
    return recv->buf + recv->used;
}

/*
 * Reports a message of at most max_message bytes that was copied to kit_match_place(). A receive
 * without room for another one is taken out, and ended.
 *
 * What the core returns: NA_PLUGIN_SUCCESS, with which it takes over a reference to the source; or
 * NA_PLUGIN_NOMEM, and the receive is as it was before.
 */
int32_t kit_match_complete_multi(struct kit_match *match, struct kit_recv *recv,
                                 struct na_plugin_addr *source, uint32_t tag, uint32_t size);

/*
 * Defers an unexpected message: returns where its bytes are to be copied to, with a reference to
 * its source taken over. NULL: the budget or memory is exhausted, nothing is taken over, and the
 * message stays where it is until kit_match_dispatch() has made room.
 */
void *kit_match_defer(struct kit_match *match, struct na_plugin_addr *source, uint32_t tag,
                      uint32_t size);

/*
 * Gives deferred messages to the receives that are posted, and reports their completions, of which
 * it returns the number. What the core has no memory for stays: see kit_match_is_pending().
 */
uint32_t kit_match_dispatch(struct kit_match *match);

/* Whether a deferred message could be given to a receive, but for the core's memory. */
static inline bool kit_match_is_pending(const struct kit_match *match)
{
    return match->first != NULL && !kit_list_empty(&match->receives);
}

/* The receive that is this operation, which stays posted; NULL when none of those posted is. */
struct kit_recv *kit_match_find(struct kit_match *match, const void *op);

/*
 * The same without a search, for na_plugin.cancel_trusted: the operation begins with a kit_recv, of
 * which other uses of it overwrite the link alone. It stays posted.
 */
static inline struct kit_recv *kit_match_find_trusted(const struct kit_match *match, void *op)
{
    struct kit_recv *recv = (struct kit_recv *) op;

    return recv->match == match ? recv : NULL;
}

/*
 * Moves the receives for which the function returns true, with NULL all, to the end of a list of
 * kit_recv.link, those for unexpected messages first, each kind in the order of its posting among
 * those that match equal messages.
 */
void kit_match_take_if(struct kit_match *match, bool (*is_meant)(struct kit_recv *recv, void *arg),
                       void *arg, struct kit_link *taken);

/* More buckets; without memory there are as many as before. Called by kit_match_post_expected(). */
void kit_match_grow(struct kit_match *match);

/* The list for expected receives of that source and tag; it belongs to the match. */
static inline struct kit_link *kit_match_bucket(const struct kit_match *match, const void *source,
                                                uint32_t source_id, uint32_t tag)
{
    uint64_t hash = (uint64_t) (uintptr_t) source >> 6;

    hash = (hash ^ tag ^ ((uint64_t) source_id << 32)) * UINT64_C(0x9e3779b97f4a7c15);
    return &match->buckets[(uint32_t) (hash >> 32) & (match->bucket_count - 1)];
}

static inline int32_t kit_match_post_expected(struct kit_match *match, struct kit_recv *recv,
                                              const void *source, uint32_t source_id, uint32_t tag)
{
    if (kit_unlikely(match->expected >= match->bucket_count)) {
        kit_match_grow(match);
        if (match->buckets == NULL)
            return NA_PLUGIN_NOMEM;
    }
    recv->kind = KIT_RECV_EXPECTED;
    recv->source = source;
    recv->source_id = source_id;
    recv->tag = tag;
    recv->match = match;
    kit_list_append(kit_match_bucket(match, source, source_id, tag), &recv->link);
    __atomic_store_n(&match->expected, match->expected + 1, __ATOMIC_RELAXED);
    return NA_PLUGIN_SUCCESS;
}

static inline struct kit_recv *kit_match_expected(struct kit_match *match, const void *source,
                                                  uint32_t source_id, uint32_t tag)
{
    const struct kit_link *bucket;

    if (kit_likely(match->expected != 0)) {
        bucket = kit_match_bucket(match, source, source_id, tag);
        for (struct kit_link *link = bucket->next; link != bucket; link = link->next) {
            struct kit_recv *recv = (struct kit_recv *) (void *) link;

            if (recv->tag != tag || recv->source != source || recv->source_id != source_id)
                continue;
            kit_match_remove(match, recv);
            return recv;
        }
    }
    match->dropped++;
    return NULL;
}

#ifdef __cplusplus
}
#endif

#endif /* KIT_MATCH_H */
