/* SPDX-License-Identifier: BSD-3-Clause */
/* Deferred messages, multi-receives, and the table of receives for expected messages. */

#include "kit_match.h"

#include <string.h>

#define MATCH_BUCKETS 256u

/* Memory of deferred messages up to DEFERRED_SMALL bytes is reused; so many blocks are kept. */
#define DEFERRED_SMALL  256u
#define DEFERRED_REUSED 256u

struct kit_deferred {
    struct kit_deferred *next;
    struct na_plugin_addr *source; /* holds a reference */
    uint32_t tag;
    uint32_t size;
    uint64_t capacity;
    uint8_t data[];
};

static bool deferred_deliver(struct kit_match *match, struct kit_recv *recv, uint32_t *count);
static struct kit_deferred *deferred_make(struct kit_deferrals *deferrals, uint32_t size);
static void deferred_discard(struct kit_match *match);
static uint64_t deferred_capacity(uint64_t size);
static void match_take_from(struct kit_match *match, struct kit_link *list,
                            bool (*matches)(struct kit_recv *recv, void *arg), void *arg,
                            struct kit_link *taken);

void kit_match_open(struct kit_match *match, struct kit_deferrals *deferrals, uint64_t max_message,
                    void (*source_release)(struct na_plugin_addr *source))
{
    memset(match, 0, sizeof(*match));
    kit_list_init(&match->receives);
    match->deferrals = deferrals;
    match->max_message = max_message;
    match->source_release = source_release;
}

void kit_match_drop(struct kit_match *match)
{
    while (match->first != NULL) {
        match->source_release(match->first->source);
        deferred_discard(match);
    }
}

void kit_match_close(struct kit_match *match)
{
    kit_host->mem_free(match->buckets);
    match->buckets = NULL;
    match->bucket_count = 0;
}

void kit_deferrals_free(struct kit_deferrals *deferrals)
{
    while (deferrals->free != NULL) {
        struct kit_deferred *deferred = deferrals->free;

        deferrals->free = deferred->next;
        kit_host->mem_free(deferred);
    }
    deferrals->free_count = 0;
}

bool kit_deferrals_have_room(const struct kit_deferrals *deferrals, uint64_t size)
{
    return deferrals->count < KIT_DEFERRED_MIN ||
           deferrals->bytes + sizeof(struct kit_deferred) + deferred_capacity(size) <=
               deferrals->bytes_max;
}

int32_t kit_match_complete_multi(struct kit_match *match, struct kit_recv *recv,
                                 struct na_plugin_addr *source, uint32_t tag, uint32_t size)
{
    const uint64_t before = recv->used;
    const uint64_t used = before + (((uint64_t) size + 7) & ~UINT64_C(7));
    const bool is_last = used > recv->size || recv->size - used < match->max_message;
    int32_t ret;

    /* Before the call: after its last completion the core may reuse the operation. */
    if (is_last)
        kit_match_remove(match, recv);
    else
        recv->used = used;
    ret = kit_host->op_complete_multi_recv(recv, NA_PLUGIN_SUCCESS, recv->buf + before, size,
                                           source, tag, is_last);
    if (kit_likely(ret == NA_PLUGIN_SUCCESS))
        return ret;
    recv->used = before;
    if (is_last) {
        recv->match = match;
        kit_list_prepend(&match->receives, &recv->link);
    }
    return ret;
}

void *kit_match_defer(struct kit_match *match, struct na_plugin_addr *source, uint32_t tag,
                      uint32_t size)
{
    struct kit_deferrals *deferrals = match->deferrals;
    struct kit_deferred *deferred;

    if (!kit_deferrals_have_room(deferrals, size))
        return NULL;
    deferred = deferred_make(deferrals, size);
    if (deferred == NULL)
        return NULL;
    deferred->next = NULL;
    deferred->source = source;
    deferred->tag = tag;
    deferred->size = size;
    if (match->last != NULL)
        match->last->next = deferred;
    else
        match->first = deferred;
    match->last = deferred;
    deferrals->count++;
    deferrals->bytes += sizeof(*deferred) + deferred->capacity;
    return deferred->data;
}

uint32_t kit_match_dispatch(struct kit_match *match)
{
    uint32_t count = 0;

    while (kit_match_is_pending(match))
        if (!deferred_deliver(match, (struct kit_recv *) (void *) match->receives.next, &count))
            break;
    return count;
}

struct kit_recv *kit_match_find(struct kit_match *match, const void *op)
{
    if (kit_list_contains(&match->receives, op))
        return (struct kit_recv *) (uintptr_t) op;
    for (uint32_t i = 0; match->expected != 0 && i < match->bucket_count; i++)
        if (kit_list_contains(&match->buckets[i], op))
            return (struct kit_recv *) (uintptr_t) op;
    return NULL;
}

void kit_match_take_if(struct kit_match *match, bool (*matches)(struct kit_recv *recv, void *arg),
                       void *arg, struct kit_link *taken)
{
    match_take_from(match, &match->receives, matches, arg, taken);
    for (uint32_t i = 0; match->expected != 0 && i < match->bucket_count; i++)
        match_take_from(match, &match->buckets[i], matches, arg, taken);
}

/* Receives of the same source and tag stay in posting order. */
void kit_match_grow(struct kit_match *match)
{
    const uint32_t count = match->bucket_count == 0 ? MATCH_BUCKETS : 2 * match->bucket_count;
    struct kit_link *old = match->buckets;
    const uint32_t old_count = match->bucket_count;
    struct kit_link *buckets = kit_host->mem_alloc(count * sizeof(*buckets), 0);

    if (buckets == NULL)
        return;
    for (uint32_t i = 0; i < count; i++)
        kit_list_init(&buckets[i]);
    match->buckets = buckets;
    match->bucket_count = count;
    for (uint32_t i = 0; i < old_count; i++) {
        while (!kit_list_empty(&old[i])) {
            struct kit_recv *recv = (struct kit_recv *) (void *) old[i].next;

            kit_list_take(&recv->link);
            kit_list_append(kit_match_bucket(match, recv->source, recv->source_id, recv->tag),
                            &recv->link);
        }
    }
    kit_host->mem_free(old);
}

/* Delivers the first deferred message. Returns false if the core has no memory for it. */
static bool deferred_deliver(struct kit_match *match, struct kit_recv *recv, uint32_t *count)
{
    struct kit_deferred *deferred = match->first;

    if (recv->kind == KIT_RECV_MULTI) {
        if (deferred->size > match->max_message) { /* recv may have no room for it */
            match->source_release(deferred->source);
            match->dropped++;
            deferred_discard(match);
            return true;
        }
        memcpy(kit_match_place(recv), deferred->data, deferred->size);
        if (kit_match_complete_multi(match, recv, deferred->source, deferred->tag,
                                     deferred->size) != NA_PLUGIN_SUCCESS)
            return false;
    } else {
        kit_match_remove(match, recv);
        if (deferred->size > recv->size) {
            match->source_release(deferred->source);
            kit_host->op_complete_recv(recv, NA_PLUGIN_MSGSIZE, 0, NULL, 0);
        } else {
            memcpy(recv->buf, deferred->data, deferred->size);
            kit_host->op_complete_recv(recv, NA_PLUGIN_SUCCESS, deferred->size, deferred->source,
                                       deferred->tag);
        }
    }
    ++*count;
    deferred_discard(match);
    return true;
}

static struct kit_deferred *deferred_make(struct kit_deferrals *deferrals, uint32_t size)
{
    const uint64_t capacity = deferred_capacity(size);
    struct kit_deferred *deferred = deferrals->free;

    if (capacity == DEFERRED_SMALL && deferred != NULL) {
        deferrals->free = deferred->next;
        deferrals->free_count--;
        return deferred;
    }
    deferred = kit_host->mem_alloc(sizeof(*deferred) + capacity, 0);
    if (deferred != NULL)
        deferred->capacity = capacity;
    return deferred;
}

/* Removes the first deferred message, whose source was released or passed to the core. */
static void deferred_discard(struct kit_match *match)
{
    struct kit_deferrals *deferrals = match->deferrals;
    struct kit_deferred *deferred = match->first;

    match->first = deferred->next;
    if (deferred->next == NULL)
        match->last = NULL;
    deferrals->count--;
    deferrals->bytes -= sizeof(*deferred) + deferred->capacity;
    if (deferred->capacity != DEFERRED_SMALL || deferrals->free_count >= DEFERRED_REUSED) {
        kit_host->mem_free(deferred);
        return;
    }
    deferred->next = deferrals->free;
    deferrals->free = deferred;
    deferrals->free_count++;
}

static uint64_t deferred_capacity(uint64_t size)
{
    return size <= DEFERRED_SMALL ? DEFERRED_SMALL : size;
}

static void match_take_from(struct kit_match *match, struct kit_link *list,
                            bool (*matches)(struct kit_recv *recv, void *arg), void *arg,
                            struct kit_link *taken)
{
    struct kit_link *next;

    for (struct kit_link *link = list->next; link != list; link = next) {
        struct kit_recv *recv = (struct kit_recv *) (void *) link;

        next = link->next;
        if (matches != NULL && !matches(recv, arg))
            continue;
        kit_match_remove(match, recv);
        kit_list_append(taken, link);
    }
}
