/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching of the receives that are posted in a context with the messages that arrive for it.
 *
 * An expected message goes to the oldest receive with its source, source context and tag. An
 * unexpected message goes to the oldest receive for unexpected messages, single or multiple;
 * without one it is deferred, within a budget, so that it does not block expected messages.
 *
 * Nothing here locks. One lock of the caller's guards a struct kit_match and the budget, which
 * several of them may share. A receive that a function removes belongs to the caller, which copies
 * the message and reports the completion, with or without the lock. No function blocks. The status
 * codes are those of na_plugin.h. Since 1.1.
 */

#ifndef KIT_MATCH_H
#define KIT_MATCH_H

#include "kit_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* This number of messages can always be deferred, whatever their size. */
#define KIT_DEFERRED_MIN 64u

/* The kinds of receives: na_plugin.h has a function for each. */
enum kit_recv_kind {
    KIT_RECV_UNEXPECTED,
    KIT_RECV_MULTI,
    KIT_RECV_EXPECTED
};

/*
 * A receive. It is the first member of a plugin's private part of an operation, so its address is
 * the core's operation. The caller sets `buf` and `size` before posting it.
 */
struct kit_recv {
    struct kit_link link;
    union {
        const void *source; /* EXPECTED: pointer that identifies the peer; only compared */
        uint64_t used;      /* MULTI: bytes of buf that are filled */
    };
    uint8_t *buf;
    uint64_t size;      /* bytes of buf */
    uint32_t source_id; /* EXPECTED: the peer's context */
    uint32_t tag;       /* EXPECTED */
    enum kit_recv_kind kind;
    const struct kit_match *match; /* where it is posted; NULL, as initially: not posted */
};

struct kit_deferred;

/* The budget for deferred messages, of a context or of all contexts of an endpoint. */
struct kit_deferrals {
    uint64_t bytes_max; /* set by the caller; the rest is initially zero */
    uint64_t bytes;
    uint32_t count;
    uint32_t free_count;
    struct kit_deferred *free;
};

/* The receives and deferred messages of a context. */
struct kit_match {
    struct kit_link receives; /* UNEXPECTED and MULTI, in posting order */
    struct kit_deferred *first;
    struct kit_deferred *last;
    struct kit_link *buckets; /* EXPECTED; NULL before the first such receive */
    uint32_t bucket_count;    /* a power of two */
    uint32_t expected;        /* receives in the buckets */
    uint64_t max_message;
    struct kit_deferrals *deferrals;
    void (*source_release)(struct na_plugin_addr *source);
    uint64_t dropped; /* messages without a receive, or too large for it */
};

/*
 * Initializes a match. `max_message` is the largest unexpected message, for which a posted
 * multi-receive always has room. `source_release` drops the reference to a peer that was passed to
 * kit_match_defer(), if the message is not delivered.
 */
void kit_match_open(struct kit_match *match, struct kit_deferrals *deferrals, uint64_t max_message,
                    void (*source_release)(struct na_plugin_addr *source));

/* Drops the deferred messages, releasing their sources. Receives stay posted. */
void kit_match_drop(struct kit_match *match);

/* Frees the match. No receive is posted, and no message deferred. */
void kit_match_close(struct kit_match *match);

/* Frees the memory that is kept for reuse. No message is deferred. */
void kit_deferrals_free(struct kit_deferrals *deferrals);

/* True if a message of that size may be deferred. */
bool kit_deferrals_have_room(const struct kit_deferrals *deferrals, uint64_t size);

/*
 * Posts a receive for expected messages.
 *
 * NA_PLUGIN_SUCCESS, or NA_PLUGIN_NOMEM.
 */
static inline int32_t kit_match_post_expected(struct kit_match *match, struct kit_recv *recv,
                                              const void *source, uint32_t source_id, uint32_t tag);

/* Removes and returns the receive for an expected message. NULL: none; the message is dropped. */
static inline struct kit_recv *kit_match_expected(struct kit_match *match, const void *source,
                                                  uint32_t source_id, uint32_t tag);

/* Number of posted receives for expected messages; may be called without the lock. */
static inline uint32_t kit_match_expected_count(const struct kit_match *match)
{
    return __atomic_load_n(&match->expected, __ATOMIC_RELAXED);
}

/* Posts a receive for one unexpected message, or, with KIT_RECV_MULTI, for several. */
static inline void kit_match_post(struct kit_match *match, struct kit_recv *recv,
                                  enum kit_recv_kind kind)
{
    recv->kind = kind;
    recv->used = 0;
    recv->match = match;
    kit_list_append(&match->receives, &recv->link);
}

/*
 * Returns the receive for the next unexpected message, which stays posted. NULL: there is none, or
 * deferred messages come first.
 */
static inline struct kit_recv *kit_match_unexpected(const struct kit_match *match)
{
    if (kit_unlikely(match->first != NULL || kit_list_empty(&match->receives)))
        return NULL;
    return (struct kit_recv *) (void *) match->receives.next;
}

/* Removes a posted receive. */
static inline void kit_match_remove(struct kit_match *match, struct kit_recv *recv)
{
    if (recv->kind == KIT_RECV_EXPECTED)
        __atomic_store_n(&match->expected, match->expected - 1, __ATOMIC_RELAXED);
    recv->match = NULL;
    kit_list_remove(&recv->link);
}

/*
 * Returns the place for the next message in the buffer of a multi-receive, which is the core's; it
 * has room for max_message bytes.
 */
static inline uint8_t *kit_match_place(const struct kit_recv *recv)
{
    return recv->buf + recv->used;
}

/*
 * Reports a message of at most max_message bytes that was copied to kit_match_place(). A receive
 * without room for another message is removed and completed.
 *
 * NA_PLUGIN_SUCCESS: the core owns a reference to the source. NA_PLUGIN_NOMEM: the core has no
 * memory, and the receive is unchanged.
 */
int32_t kit_match_complete_multi(struct kit_match *match, struct kit_recv *recv,
                                 struct na_plugin_addr *source, uint32_t tag, uint32_t size);

/*
 * Defers an unexpected message: returns the place to which the caller copies its bytes, and takes
 * over a reference to its source. NULL: the budget or memory is exhausted, no reference is taken
 * over, and the caller keeps the message until kit_match_dispatch() has made room.
 */
void *kit_match_defer(struct kit_match *match, struct na_plugin_addr *source, uint32_t tag,
                      uint32_t size);

/*
 * Delivers deferred messages to posted receives, and returns the number of reported completions.
 * A message for which the core has no memory stays deferred: see kit_match_is_pending().
 */
uint32_t kit_match_dispatch(struct kit_match *match);

/* True if there are a deferred message and a receive: kit_match_dispatch() has to be called. */
static inline bool kit_match_is_pending(const struct kit_match *match)
{
    return match->first != NULL && !kit_list_empty(&match->receives);
}

/* Returns the receive of this operation, which stays posted, or NULL. `op` is only compared. */
struct kit_recv *kit_match_find(struct kit_match *match, const void *op);

/*
 * The same without a search, for na_plugin.cancel_trusted: `op` is valid and begins with a
 * kit_recv, of which other kinds of operations overwrite only the link.
 */
static inline struct kit_recv *kit_match_find_trusted(const struct kit_match *match, void *op)
{
    struct kit_recv *recv = (struct kit_recv *) op;

    return recv->match == match ? recv : NULL;
}

/*
 * Moves the receives for which the function returns true, or all if it is NULL, to the end of a
 * list of kit_recv.link: first those for unexpected messages, then those for expected ones.
 * Receives that match the same messages stay in posting order.
 */
void kit_match_take_if(struct kit_match *match, bool (*matches)(struct kit_recv *recv, void *arg),
                       void *arg, struct kit_link *taken);

/* Doubles the buckets, if there is memory. Called by kit_match_post_expected(). */
void kit_match_grow(struct kit_match *match);

/* Returns the bucket of expected receives with that source and tag; valid until it grows. */
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
