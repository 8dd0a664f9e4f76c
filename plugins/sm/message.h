/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages on the receiving side: reading them from a ring, and the result of taking one. */

#ifndef SM_MESSAGE_H
#define SM_MESSAGE_H

#include "objects.h"

#define SM_REFERENCES 4096u

/* Returns the ring's sender with a reference, of which many are taken at a time: one atomic add. */
static inline struct na_plugin_addr *sm_in_ring_source(struct sm_in_ring *ring)
{
    if (kit_unlikely(ring->references == 0)) {
        sm_add(&ring->peer->refs, SM_REFERENCES);
        ring->references = SM_REFERENCES;
    }
    ring->references--;
    return ring->peer;
}

static inline bool sm_in_ring_ready(const struct sm_in_ring *ring)
{
    const struct sm_ring_slot *slot = &ring->slots[ring->head_slot % SM_RING_SLOTS];

    return sm_load_acquire(&slot->sequence) == ring->head_slot + 1;
}

/* A message in a ring: `size1` bytes at `payload`, the rest at `payload2` if it wraps around. */
struct sm_message {
    const uint8_t *payload;
    const uint8_t *payload2;
    uint32_t size1;
    uint32_t size;
    uint32_t tag;
    uint32_t flags;
    uint8_t kind;
    uint8_t source_id;
};

static inline void sm_message_copy(void *to, const struct sm_message *message, uint32_t offset,
                                   uint32_t size)
{
    if (kit_likely(offset + size <= message->size1)) {
        __builtin_memcpy(to, message->payload + offset, size);
    } else if (offset >= message->size1) {
        __builtin_memcpy(to, message->payload2 + (offset - message->size1), size);
    } else {
        uint32_t first = message->size1 - offset;

        __builtin_memcpy(to, message->payload + offset, first);
        __builtin_memcpy((uint8_t *) to + first, message->payload2, size - first);
    }
}

/* A message was taken, stays in its ring for lack of room, or is not of this protocol. */
enum sm_verdict {
    SM_TAKEN,
    SM_TAKEN_COMPLETED,
    SM_NO_ROOM,
    SM_BAD
};

#endif /* SM_MESSAGE_H */
