/* SPDX-License-Identifier: BSD-3-Clause */
/* Taking messages out of a ring. What a slot says is read once and checked. poll_lock is held. */

#include "sm.h"

#define SM_PUBLISH_SLOTS (SM_RING_SLOTS / 4)

static void sm_ring_publish_head(struct sm_in_ring *ring);
static void sm_ring_wake_blocked(const struct sm_in_ring *ring);
static inline bool sm_ring_read(const struct sm_in_ring *ring, const struct sm_ring_slot *slot,
                                struct sm_message *message, uint32_t *lines_p);
static inline enum sm_verdict sm_message_dispatch(struct na_plugin_context *context,
                                                  struct sm_in_ring *ring,
                                                  const struct sm_message *message);

/* Returns how many operations completed. */
uint32_t sm_ring_drain(struct na_plugin_context *context, struct sm_in_ring *ring)
{
    uint32_t published = ring->published_slot;
    uint32_t completed = 0;

    for (uint32_t i = 0; i < SM_POLL_BUDGET; i++) {
        const struct sm_ring_slot *slot = &ring->slots[ring->head_slot % SM_RING_SLOTS];
        struct sm_message message;
        enum sm_verdict verdict;
        uint32_t lines;

        if (atomic_load_explicit(&slot->sequence, memory_order_acquire) != ring->head_slot + 1)
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
                atomic_fetch_add_explicit(&context->rings_stalled, 1, memory_order_relaxed);
            ring->stalled = verdict == SM_NO_ROOM;
            break;
        }
        if (kit_unlikely(ring->stalled)) {
            ring->stalled = false;
            atomic_fetch_sub_explicit(&context->rings_stalled, 1, memory_order_relaxed);
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

/*
 * Lets the sender reuse what was read. Done in batches: what is unpublished never exceeds a quarter
 * of the ring, and no message is larger than a quarter, so an empty ring always has room.
 */
static void sm_ring_publish_head(struct sm_in_ring *ring)
{
    struct sm_peer_slot *slot = ring->peer_slot;

    atomic_store_explicit(&slot->head, ((uint64_t) ring->head_slot << 32) | ring->head_data,
                          memory_order_release);
    ring->published_slot = ring->head_slot;
    ring->published_data = ring->head_data;
}

/*
 * Senders that sleep until there is room: woken once for all that a drain has published, because a
 * wake-up costs more than the rest of a ring.
 */
static void sm_ring_wake_blocked(const struct sm_in_ring *ring)
{
    struct sm_peer_slot *slot = ring->peer_slot;
    uint32_t blocked;

    atomic_thread_fence(memory_order_seq_cst);
    if (kit_likely(atomic_load_explicit(&slot->blocked, memory_order_relaxed) == 0))
        return;
    blocked = atomic_exchange_explicit(&slot->blocked, 0, memory_order_acq_rel);
    for (uint32_t id = 0; id < ring->peer->max_contexts; id++)
        if (blocked & (UINT32_C(1) << (id % 32)))
            sm_wake_peer(ring->peer, id);
}

static inline bool sm_ring_read(const struct sm_in_ring *ring, const struct sm_ring_slot *slot,
                                struct sm_message *message, uint32_t *lines_p)
{
    uint32_t capacity = ring->data_lines * SM_CACHE_LINE;
    uint32_t size = *(const volatile uint16_t *) &slot->length; /* once: the sender can write on */
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
    case SM_KIND_PIECE:
        return sm_copy_receive_piece(context, ring, message);
    case SM_KIND_DONE:
        return sm_copy_receive_done(context, ring, message);
    default:
        return sm_target_receive(context, ring, message);
    }
}
