/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives, and taking messages out of the rings. Each field of a slot is read once and checked.
 * When the budget for deferred messages is used up, unexpected ones stay in their rings, which
 * holds back the senders.
 */

#include "sm.h"

#include <string.h>

#define SM_PUBLISH_SLOTS (SM_RING_SLOTS / 4)

static int32_t sm_post(struct na_plugin_context *context, struct sm_op *op, enum kit_recv_kind kind,
                       void *buf, uint64_t size);
static int32_t sm_post_multi(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                             void *data);
static void sm_ring_publish_head(struct sm_in_ring *ring);
static void sm_ring_wake_blocked(const struct sm_in_ring *ring);
static inline bool sm_ring_read(const struct sm_in_ring *ring, const struct sm_ring_slot *slot,
                                struct sm_message *message, uint32_t *lines_p);
static inline enum sm_verdict sm_message_dispatch(struct na_plugin_context *context,
                                                  struct sm_in_ring *ring,
                                                  const struct sm_message *message);
static enum sm_verdict sm_receive_unexpected(struct na_plugin_context *context,
                                             struct sm_in_ring *ring,
                                             const struct sm_message *message);
static enum sm_verdict sm_receive_expected(struct na_plugin_context *context,
                                           struct sm_in_ring *ring,
                                           const struct sm_message *message);
static enum sm_verdict sm_receive_part(struct na_plugin_context *context, struct sm_in_ring *ring,
                                       const struct sm_message *message);
static inline enum sm_verdict sm_receive_into(struct kit_recv *recv,
                                              const struct sm_message *message,
                                              struct na_plugin_addr *source);
static enum sm_verdict sm_receive_multi(struct na_plugin_context *context, struct kit_recv *recv,
                                        struct sm_in_ring *ring, const struct sm_message *message);
static enum sm_verdict sm_receive_defer(struct na_plugin_context *context, struct sm_in_ring *ring,
                                        const struct sm_message *message);
static int32_t sm_receive_failure(const struct sm_op *op);
static bool sm_receive_has_failed(struct kit_recv *recv, void *arg);

const struct na_plugin_multi_recv sm_multi_recv_extension = {
    .extension = {.size = sizeof(struct na_plugin_multi_recv)},
    .msg_multi_recv_unexpected = sm_post_multi,
};

int32_t sm_recv_unexpected(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                           void *data)
{
    (void) data;
    return sm_post(context, op, KIT_RECV_UNEXPECTED, buf, size);
}

int32_t sm_recv_expected(struct na_plugin_context *context, void *op_p, void *buf, uint64_t size,
                         void *data, struct na_plugin_addr *source, uint32_t source_id,
                         uint32_t tag)
{
    struct sm_op *op = op_p;
    int32_t ret;

    (void) data;
    source = sm_peer_current(source);
    op->peer = source;
    op->gone = false;
    op->recv.buf = buf;
    op->recv.size = size;
    kit_lock_take(&context->match_lock);
    ret = sm_peer_failure(source);
    if (kit_unlikely(!sm_load(&context->active)))
        ret = NA_PLUGIN_FAULT;
    if (kit_likely(ret == NA_PLUGIN_SUCCESS))
        ret = kit_match_post_expected(&context->match, &op->recv, source, source_id, tag);
    kit_lock_drop(&context->match_lock);
    sm_context_watch(context);
    return ret;
}

/* True when the receive was found. */
bool sm_receive_cancel(struct na_plugin_context *context, void *op, bool is_trusted)
{
    struct kit_recv *recv;

    kit_lock_take(&context->match_lock);
    recv = is_trusted ? kit_match_find_trusted(&context->match, op)
                      : kit_match_find(&context->match, op);
    if (recv != NULL)
        kit_match_remove(&context->match, recv);
    kit_lock_drop(&context->match_lock);
    if (recv != NULL)
        kit_host->op_complete(recv, NA_PLUGIN_CANCELED);
    return recv != NULL;
}

void sm_receive_cancel_all(struct na_plugin_context *context)
{
    struct kit_link taken;

    kit_list_init(&taken);
    kit_lock_take(&context->match_lock);
    kit_match_take_if(&context->match, NULL, NULL, &taken);
    kit_lock_drop(&context->match_lock);
    while (!kit_list_empty(&taken)) {
        struct kit_link *link = taken.next;

        kit_list_remove(link);
        kit_host->op_complete(link, NA_PLUGIN_CANCELED);
    }
}

/* Ends the receives whose peer failed or destroyed the context. Returns how many. */
uint32_t sm_receive_fail_peers(struct na_plugin_context *context)
{
    struct kit_link taken;
    uint32_t completed = 0;

    kit_list_init(&taken);
    kit_lock_take(&context->match_lock);
    kit_match_take_if(&context->match, sm_receive_has_failed, NULL, &taken);
    kit_lock_drop(&context->match_lock);
    while (!kit_list_empty(&taken)) {
        struct sm_op *op = (struct sm_op *) taken.next;

        kit_list_remove(&op->link);
        kit_host->op_complete(op, sm_receive_failure(op));
        completed++;
    }
    return completed;
}

/* Takes messages out of a ring. Returns how many operations completed. */
uint32_t sm_ring_drain(struct na_plugin_context *context, struct sm_in_ring *ring)
{
    uint32_t published = ring->published_slot;
    uint32_t completed = 0;

    for (uint32_t i = 0; i < SM_POLL_BUDGET; i++) {
        const struct sm_ring_slot *slot = &ring->slots[ring->head_slot % SM_RING_SLOTS];
        struct sm_message message;
        enum sm_verdict verdict;
        uint32_t lines;

        if (sm_load_acquire(&slot->sequence) != ring->head_slot + 1)
            break;
        __builtin_prefetch(&ring->slots[(ring->head_slot + 1) % SM_RING_SLOTS]);
        if (kit_unlikely(!sm_ring_read(ring, slot, &message, &lines))) {
            sm_in_ring_refuse(context, ring, "length");
            break;
        }
        verdict = sm_message_dispatch(context, ring, &message);
        if (kit_unlikely(verdict >= SM_NO_ROOM)) {
            if (verdict == SM_BAD)
                sm_in_ring_refuse(context, ring, "content");
            else if (!ring->stalled)
                sm_add(&context->rings_stalled, 1);
            ring->stalled = verdict == SM_NO_ROOM;
            break;
        }
        if (kit_unlikely(ring->stalled)) {
            ring->stalled = false;
            sm_sub(&context->rings_stalled, 1);
        }
        completed += verdict == SM_TAKEN_COMPLETED;
        ring->received++;
        ring->head_slot++;
        ring->head_data += lines;
        if (ring->head_slot - ring->published_slot >= SM_PUBLISH_SLOTS ||
            ring->head_data - ring->published_data >= ring->data_lines / 4)
            sm_ring_publish_head(ring);
    }
    if (ring->published_slot != published)
        sm_ring_wake_blocked(ring);
    return completed;
}

/* Posts a receive. Stalled rings must be polled for it, so a sleeper is woken. */
static int32_t sm_post(struct na_plugin_context *context, struct sm_op *op, enum kit_recv_kind kind,
                       void *buf, uint64_t size)
{
    int32_t ret = NA_PLUGIN_SUCCESS;

    op->recv.buf = buf;
    op->recv.size = size;
    kit_lock_take(&context->match_lock);
    if (kit_unlikely(!sm_load(&context->active))) {
        ret = NA_PLUGIN_FAULT;
    } else {
        kit_match_post(&context->match, &op->recv, kind);
        if (kit_unlikely(kit_match_is_pending(&context->match)))
            (void) kit_match_dispatch(&context->match);
    }
    kit_lock_drop(&context->match_lock);
    if (kit_likely(sm_load(&context->rings_stalled) == 0))
        return ret;
    atomic_store_explicit(&context->unstall, 1, memory_order_seq_cst);
    sm_context_kick(context);
    return ret;
}

static int32_t sm_post_multi(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                             void *data)
{
    (void) data;
    if (size >= context->na_class->max_message)
        return sm_post(context, op, KIT_RECV_MULTI, buf, size);
    SM_LOG_ERROR("a multi-receive of %llu bytes, which must take a message of %u",
                 (unsigned long long) size, context->na_class->max_message);
    return NA_PLUGIN_INVALID_ARG;
}

/*
 * Lets the sender reuse what was read, in batches. At most a quarter of the ring is unpublished,
 * and no message is larger than a quarter, so that a ring that was read always has room.
 */
static void sm_ring_publish_head(struct sm_in_ring *ring)
{
    struct sm_peer_slot *slot = ring->peer_slot;

    sm_store_release(&slot->head, ((uint64_t) ring->head_slot << 32) | ring->head_data);
    ring->published_slot = ring->head_slot;
    ring->published_data = ring->head_data;
}

/*
 * Wakes the sender's contexts that sleep until there is room, once for each drain: a wake-up costs
 * more than reading the rest of a ring.
 */
static void sm_ring_wake_blocked(const struct sm_in_ring *ring)
{
    struct sm_peer_slot *slot = ring->peer_slot;
    uint32_t blocked;

    atomic_thread_fence(memory_order_seq_cst);
    if (kit_likely(sm_load(&slot->blocked) == 0))
        return;
    blocked = atomic_exchange_explicit(&slot->blocked, 0, memory_order_acq_rel);
    for (uint32_t id = 0; id < ring->peer->header.max_contexts; id++)
        if (blocked & (UINT32_C(1) << (id % 32)))
            sm_wake_peer(ring->peer, id);
}

static inline bool sm_ring_read(const struct sm_in_ring *ring, const struct sm_ring_slot *slot,
                                struct sm_message *message, uint32_t *lines_p)
{
    uint32_t capacity = ring->data_lines * SM_CACHE_LINE;
    uint32_t size = *(const volatile uint16_t *) &slot->length; /* once: the sender can change it */
    uint32_t at;

    message->tag = slot->tag;
    message->kind = *(const volatile uint8_t *) &slot->kind;
    message->source_id = *(const volatile uint8_t *) &slot->context;
    message->flags = slot->flags;
    message->size = size;
    message->size1 = size;
    if (kit_likely(size <= SM_INLINE_MAX)) {
        message->payload = slot->payload;
        message->payload2 = slot->payload;
        *lines_p = 0;
        return true;
    }
    if (size > capacity / 4)
        return false;
    at = (ring->head_data * SM_CACHE_LINE) & (capacity - 1);
    message->payload = ring->data + at;
    message->payload2 = ring->data;
    if (size > capacity - at)
        message->size1 = capacity - at;
    *lines_p = (size + SM_CACHE_LINE - 1) / SM_CACHE_LINE;
    return true;
}

static inline enum sm_verdict sm_message_dispatch(struct na_plugin_context *context,
                                                  struct sm_in_ring *ring,
                                                  const struct sm_message *message)
{
    switch (message->kind) {
    case SM_KIND_UNEXPECTED:
        return sm_receive_unexpected(context, ring, message);
    case SM_KIND_EXPECTED:
        return sm_receive_expected(context, ring, message);
    case SM_KIND_PART:
        return sm_receive_part(context, ring, message);
    default:
        return sm_copy_receive(context, ring, message);
    }
}

/* A message from a ring. poll_lock is held. */
static enum sm_verdict sm_receive_unexpected(struct na_plugin_context *context,
                                             struct sm_in_ring *ring,
                                             const struct sm_message *message)
{
    enum sm_verdict verdict;
    struct kit_recv *recv;

    if (kit_unlikely(message->size > context->na_class->max_message))
        return SM_BAD;
    kit_lock_take(&context->match_lock);
    if (kit_unlikely(kit_match_is_pending(&context->match)))
        (void) kit_match_dispatch(&context->match);
    recv = kit_match_unexpected(&context->match);
    if (kit_likely(recv != NULL && recv->kind == KIT_RECV_UNEXPECTED)) {
        kit_match_remove(&context->match, recv);
        kit_lock_drop(&context->match_lock);
        return sm_receive_into(recv, message, sm_in_ring_source(ring));
    }
    verdict = recv != NULL ? sm_receive_multi(context, recv, ring, message)
                           : sm_receive_defer(context, ring, message);
    kit_lock_drop(&context->match_lock);
    return verdict;
}

/* A message from a ring. poll_lock is held. */
static enum sm_verdict sm_receive_expected(struct na_plugin_context *context,
                                           struct sm_in_ring *ring,
                                           const struct sm_message *message)
{
    struct kit_recv *recv;

    if (kit_unlikely(message->size > context->na_class->max_message))
        return SM_BAD;
    kit_lock_take(&context->match_lock);
    recv = kit_match_expected(&context->match, ring->peer, message->source_id, message->tag);
    kit_lock_drop(&context->match_lock);
    if (kit_likely(recv != NULL))
        return sm_receive_into(recv, message, NULL);
    SM_LOG_DEBUG("dropped an expected message with tag %u from %s: no receive is posted",
                 message->tag, ring->peer->name);
    return SM_TAKEN;
}

/* Adds a part to its message, which is received when it is complete. poll_lock is held. */
static enum sm_verdict sm_receive_part(struct na_plugin_context *context, struct sm_in_ring *ring,
                                       const struct sm_message *message)
{
    struct kit_part part = {.source_id = message->source_id, .tag = message->tag};
    struct sm_message whole = *message;
    enum sm_verdict verdict;
    struct sm_part wire;

    if (message->size <= SM_INLINE_MAX)
        return SM_BAD;
    memcpy(&wire, ring->slots[ring->head_slot % SM_RING_SLOTS].payload, sizeof(wire));
    part.kind = wire.kind;
    part.total = wire.total;
    part.offset = wire.offset;
    part.size = message->size;
    if (part.kind != SM_KIND_UNEXPECTED && part.kind != SM_KIND_EXPECTED)
        return SM_BAD;
    switch (kit_part_take(&context->parts, &ring->parted, &part)) {
    case KIT_PART_TAKEN:
        break;
    case KIT_PART_BAD:
        return SM_BAD;
    case KIT_PART_STRAY:
        return SM_TAKEN;
    case KIT_PART_NO_MEMORY:
        return SM_NO_ROOM;
    }
    sm_message_copy(kit_parted_data(ring->parted) + part.offset, message, 0, part.size);
    if (!kit_part_is_last(ring->parted, &part))
        return SM_TAKEN;
    whole.size = whole.size1 = part.total;
    whole.payload = whole.payload2 = kit_parted_data(ring->parted);
    verdict = part.kind == SM_KIND_UNEXPECTED ? sm_receive_unexpected(context, ring, &whole)
                                              : sm_receive_expected(context, ring, &whole);
    if (verdict == SM_NO_ROOM)
        kit_part_again(ring->parted, &part);
    else
        kit_parted_drop(&context->parts, &ring->parted);
    return verdict;
}

static inline enum sm_verdict sm_receive_into(struct kit_recv *recv,
                                              const struct sm_message *message,
                                              struct na_plugin_addr *source)
{
    if (kit_unlikely(message->size > recv->size)) {
        if (source != NULL)
            sm_peer_release(source);
        kit_host->op_complete_recv(recv, NA_PLUGIN_MSGSIZE, 0, NULL, 0);
        return SM_TAKEN_COMPLETED;
    }
    sm_message_copy(recv->buf, message, 0, message->size);
    kit_host->op_complete_recv(recv, NA_PLUGIN_SUCCESS, message->size, source, message->tag);
    return SM_TAKEN_COMPLETED;
}

/* The receive stays posted until its buffer is used up. match_lock is held. */
static enum sm_verdict sm_receive_multi(struct na_plugin_context *context, struct kit_recv *recv,
                                        struct sm_in_ring *ring, const struct sm_message *message)
{
    sm_message_copy(kit_match_place(recv), message, 0, message->size);
    if (kit_likely(kit_match_complete_multi(&context->match, recv, sm_in_ring_source(ring),
                                            message->tag, message->size) == NA_PLUGIN_SUCCESS))
        return SM_TAKEN_COMPLETED;
    ring->references++; /* the completion did not take it */
    return SM_NO_ROOM;
}

/* match_lock is held. */
static enum sm_verdict sm_receive_defer(struct na_plugin_context *context, struct sm_in_ring *ring,
                                        const struct sm_message *message)
{
    void *place =
        kit_match_defer(&context->match, sm_in_ring_source(ring), message->tag, message->size);

    if (place == NULL) {
        ring->references++;
        return SM_NO_ROOM;
    }
    sm_message_copy(place, message, 0, message->size);
    return SM_TAKEN;
}

static int32_t sm_receive_failure(const struct sm_op *op)
{
    int32_t failure = sm_peer_failure(op->peer);

    return failure == 0 && op->gone ? NA_PLUGIN_HOSTUNREACH : failure;
}

static bool sm_receive_has_failed(struct kit_recv *recv, void *arg)
{
    (void) arg;
    return recv->kind == KIT_RECV_EXPECTED && sm_receive_failure((struct sm_op *) recv) != 0;
}
