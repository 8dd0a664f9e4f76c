/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sending side of a ring. Threads claim a slot and a piece of the data area with one
 * compare-and-swap, fill them and publish the slot's sequence number; the receiver takes slots in
 * order. The sender reads only the receiver's head and flags.
 */

#ifndef SM_RING_H
#define SM_RING_H

#include "sm.h"

#include <string.h>

/*
 * A slot passes from one sending thread to the next through the receiver, which is another process
 * or uses another mapping. ThreadSanitizer cannot see that order without these calls.
 */
#if defined(__SANITIZE_THREAD__)
#    define SM_TSAN 1
#elif defined(__has_feature)
#    if __has_feature(thread_sanitizer)
#        define SM_TSAN 1
#    endif
#endif

#ifdef SM_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#    define sm_tsan_acquire(addr) __tsan_acquire(addr)
#    define sm_tsan_release(addr) __tsan_release(addr)
#else
#    define sm_tsan_acquire(addr) ((void) 0)
#    define sm_tsan_release(addr) ((void) 0)
#endif

static inline uint64_t sm_position_pack(uint32_t slot, uint32_t data)
{
    return ((uint64_t) slot << 32) | data;
}

static inline uint32_t sm_position_slot(uint64_t position)
{
    return (uint32_t) (position >> 32);
}

static inline uint32_t sm_position_data(uint64_t position)
{
    return (uint32_t) position;
}

/* Lines of the data area that a payload takes. */
static inline uint32_t sm_ring_lines(uint32_t size)
{
    return size <= SM_INLINE_MAX ? 0 : (size + SM_CACHE_LINE - 1) / SM_CACHE_LINE;
}

static inline bool sm_ring_fits(const struct sm_conn *conn, uint64_t tail, uint64_t head,
                                uint32_t lines)
{
    return sm_position_slot(tail) - sm_position_slot(head) < SM_RING_SLOTS &&
           sm_position_data(tail) + lines - sm_position_data(head) <= conn->data_lines;
}

/* Lets a newly mapped ring take messages up to the end of its reserved memory. */
void sm_ring_open(struct sm_conn *conn);

bool sm_ring_refresh(struct sm_conn *conn, uint32_t lines);

/* Claims a slot and `lines` of the data area. False when the ring is full. */
static inline bool sm_ring_claim(struct sm_conn *conn, uint32_t lines, uint64_t *position_p)
{
    uint64_t tail = sm_load(&conn->tail);

    for (;;) {
        uint64_t head = sm_load_acquire(&conn->head);
        uint64_t next;

        if (kit_unlikely(!sm_ring_fits(conn, tail, head, lines))) {
            if (!sm_ring_refresh(conn, lines))
                return false;
            tail = sm_load(&conn->tail);
            continue;
        }
        next = sm_position_pack(sm_position_slot(tail) + 1, sm_position_data(tail) + lines);
        if (conn->lock.is_elided) {
            sm_store(&conn->tail, next);
            break;
        }
        if (atomic_compare_exchange_weak_explicit(&conn->tail, &tail, next, memory_order_relaxed,
                                                  memory_order_relaxed))
            break;
    }
    sm_tsan_acquire(conn);
    *position_p = tail;
    return true;
}

/* Writes into a claimed piece of the data area, `offset` bytes after its start. */
static inline void sm_ring_write(struct sm_conn *conn, uint64_t position, uint32_t offset,
                                 const void *from, size_t size)
{
    size_t capacity = (size_t) conn->data_lines * SM_CACHE_LINE;
    size_t at = ((size_t) sm_position_data(position) * SM_CACHE_LINE + offset) & (capacity - 1);
    size_t first = capacity - at;

    if (kit_likely(size <= first)) {
        memcpy(conn->data + at, from, size);
    } else {
        memcpy(conn->data + at, from, first);
        memcpy(conn->data, (const uint8_t *) from + first, size - first);
    }
}

static inline struct sm_ring_slot *sm_ring_slot_at(struct sm_conn *conn, uint64_t position)
{
    return &conn->slots[sm_position_slot(position) % SM_RING_SLOTS];
}

/* Hands a filled slot to the receiver, and wakes it when it sleeps. */
static inline void sm_ring_publish(struct sm_conn *conn, uint64_t position,
                                   struct sm_ring_slot *slot)
{
    uint32_t status, flags;

    sm_tsan_release(conn);
    sm_store_release(&slot->sequence, sm_position_slot(position) + 1);
    /*
     * Either the receiver sees the slot, or we see the flag that it sets before it sleeps. It runs
     * membarrier between setting the flag and polling, which saves our fence.
     */
    if (kit_unlikely(conn->fence))
        atomic_thread_fence(memory_order_seq_cst);
    else
        atomic_signal_fence(memory_order_seq_cst);
    status = sm_load(&conn->peer_slot->status);
    flags = sm_load(&conn->context_area->flags);
    if (kit_unlikely((status | flags) != 0))
        sm_conn_notify_slow(conn, status);
}

/* Sends one message. False when the ring is full. */
static inline bool sm_ring_send(struct sm_conn *conn, uint8_t kind, uint32_t context, uint32_t tag,
                                const void *payload, uint32_t size)
{
    struct sm_ring_slot *slot;
    uint64_t position;

    if (!sm_ring_claim(conn, sm_ring_lines(size), &position))
        return false;
    slot = sm_ring_slot_at(conn, position);
    slot->tag = tag;
    slot->length = (uint16_t) size;
    slot->kind = kind;
    slot->context = (uint8_t) context;
    slot->flags = 0;
    if (kit_unlikely(size > SM_INLINE_MAX))
        sm_ring_write(conn, position, 0, payload, size);
    else if (kit_likely(size != 0))
        memcpy(slot->payload, payload, size);
    sm_ring_publish(conn, position, slot);
    return true;
}

/* Sends the next part of the operation's message. False when the ring is full. */
bool sm_ring_send_part(struct sm_conn *conn, struct sm_op *op);

/* Sends a record, then a piece of a handle's memory. False when the ring is full. */
bool sm_ring_send_piece(struct sm_conn *conn, uint32_t context, const void *record,
                        uint32_t record_size, const struct na_plugin_mem *mem, uint64_t offset,
                        uint32_t size);

#endif /* SM_RING_H */
