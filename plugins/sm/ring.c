/* SPDX-License-Identifier: BSD-3-Clause */
/* The slow paths of the sending side of a ring. */

#include "ring.h"

static uint64_t sm_ring_limit(struct sm_conn *conn, uint64_t head);
static bool sm_ring_grow(struct sm_conn *conn, uint64_t tail, uint32_t lines);
static bool sm_ring_grow_slots(struct sm_conn *conn, uint64_t tail, uint32_t log_level);
static bool sm_ring_grow_data(struct sm_conn *conn, uint64_t tail, uint32_t lines,
                              uint32_t log_level);

void sm_ring_open(struct sm_conn *conn)
{
    sm_store_release(&conn->head, sm_ring_limit(conn, 0));
}

/* Reads the receiver's head again. True when a slot and `lines` of data are free. */
bool sm_ring_refresh(struct sm_conn *conn, uint32_t lines)
{
    uint64_t before = sm_load_acquire(&conn->tail);
    uint64_t head, tail, limit;

    /* Head and tail of one moment: other threads send, and the receiver reads their messages. */
    for (;;) {
        head = sm_load_acquire(&conn->peer_slot->head);
        tail = sm_load_acquire(&conn->tail);
        if (tail == before)
            break;
        before = tail;
    }

    if (sm_position_slot(tail) - sm_position_slot(head) > SM_RING_SLOTS ||
        sm_position_data(tail) - sm_position_data(head) > conn->data_lines) {
        if (sm_load(&conn->failure) == 0)
            SM_LOG_ERROR("%s says that it has read more than was sent: closed", conn->peer->name);
        sm_conn_abort(conn, NA_PLUGIN_PROTOCOL_ERROR);
        return false;
    }
    limit = sm_ring_limit(conn, head);
    if (!sm_ring_fits(conn, tail, limit, lines) && sm_ring_fits(conn, tail, head, lines) &&
        sm_ring_grow(conn, tail, lines))
        limit = sm_ring_limit(conn, head);
    sm_store_release(&conn->head, limit);
    return sm_ring_fits(conn, tail, limit, lines);
}

bool sm_ring_send_part(struct sm_conn *conn, struct sm_op *op)
{
    const struct sm_part part = {op->kind, (uint32_t) op->size, (uint32_t) op->used};
    uint64_t size = op->size - op->used;
    struct sm_ring_slot *slot;
    uint64_t position;

    /* The last two parts share the rest, so that both are longer than SM_INLINE_MAX. */
    if (size > SM_PART_MAX)
        size = size < 2 * SM_PART_MAX ? size / 2 : SM_PART_MAX;
    if (!sm_ring_claim(conn, sm_ring_lines((uint32_t) size), &position))
        return false;
    slot = sm_ring_slot_at(conn, position);
    slot->tag = op->tag;
    slot->length = (uint16_t) size;
    slot->kind = SM_KIND_PART;
    slot->context = (uint8_t) op->context->id;
    slot->flags = 0;
    memcpy(slot->payload, &part, sizeof(part));
    sm_ring_write(conn, position, 0, (const uint8_t *) op->send_buf + op->used, size);
    op->used += size;
    sm_ring_publish(conn, position, slot);
    return true;
}

bool sm_ring_send_piece(struct sm_conn *conn, uint32_t context, const void *record,
                        uint32_t record_size, const struct na_plugin_mem *mem, uint64_t offset,
                        uint32_t size)
{
    const bool is_apart = size > SM_INLINE_MAX; /* so that the piece begins at a cache line */
    uint32_t total = is_apart ? size : size + record_size;
    uint32_t done = is_apart ? 0 : record_size;
    bool is_inline = total <= SM_INLINE_MAX;
    struct sm_ring_slot *slot;
    struct sm_cursor cursor;
    uint64_t position;

    if (!sm_ring_claim(conn, sm_ring_lines(total), &position))
        return false;
    slot = sm_ring_slot_at(conn, position);
    slot->tag = 0;
    slot->length = (uint16_t) total;
    slot->kind = SM_KIND_DATA;
    slot->context = (uint8_t) context;
    slot->flags = is_apart ? SM_DATA_APART : 0;
    if (is_apart || is_inline)
        memcpy(slot->payload, record, record_size);
    else
        sm_ring_write(conn, position, 0, record, record_size);
    sm_cursor_seek(&cursor, mem, offset);
    while (done < total) {
        uint64_t span;
        const void *from = sm_cursor_span(&cursor, total - done, &span);

        if (is_inline)
            memcpy(slot->payload + done, from, span);
        else
            sm_ring_write(conn, position, done, from, span);
        done += (uint32_t) span;
    }
    sm_ring_publish(conn, position, slot);
    return true;
}

/*
 * Returns the head that senders compare with. The first round through the ring reserves its memory
 * as it is needed, so that a peer with few messages costs little. Until then the returned head is
 * lower than the receiver's, so that senders stop at the end of the reserved memory. The slot
 * behind the last message is reserved, too: the receiver polls it.
 */
static uint64_t sm_ring_limit(struct sm_conn *conn, uint64_t head)
{
    uint32_t slots = sm_load_acquire(&conn->slots_ready);
    uint32_t lines = sm_load_acquire(&conn->lines_ready);

    return sm_position_pack(
        slots < SM_RING_SLOTS ? slots - 1 - SM_RING_SLOTS : sm_position_slot(head),
        lines < conn->data_lines ? lines - conn->data_lines : sm_position_data(head));
}

/*
 * Reserves memory for one more message. False without memory: the message waits as for a receiver
 * that does not read, and only the first such failure is logged as a warning.
 */
static bool sm_ring_grow(struct sm_conn *conn, uint64_t tail, uint32_t lines)
{
    struct na_plugin_class *na_class = conn->peer->na_class;
    uint32_t log_level;
    bool is_grown;

    kit_lock_take(&na_class->connect_lock);
    log_level = conn->is_starved ? NA_PLUGIN_LOG_DEBUG : NA_PLUGIN_LOG_WARNING;
    is_grown = sm_ring_grow_slots(conn, tail, log_level) &&
               sm_ring_grow_data(conn, tail, lines, log_level);
    conn->is_starved = !is_grown;
    kit_lock_drop(&na_class->connect_lock);
    return is_grown;
}

static bool sm_ring_grow_slots(struct sm_conn *conn, uint64_t tail, uint32_t log_level)
{
    const struct sm_segment *segment = &conn->peer->na_class->segment;
    uint32_t ready = sm_load(&conn->slots_ready);
    uint64_t size = (uint64_t) ready * SM_RING_SLOT;

    if (ready == SM_RING_SLOTS || sm_position_slot(tail) + 1 < ready)
        return true;
    if (sm_reserve(segment->fd, conn->region + size, size, log_level) != NA_PLUGIN_SUCCESS)
        return false;
    memset(&conn->slots[ready], 0, size); /* the region may have been used */
    sm_store_release(&conn->slots_ready, 2 * ready);
    return true;
}

static bool sm_ring_grow_data(struct sm_conn *conn, uint64_t tail, uint32_t lines,
                              uint32_t log_level)
{
    const struct sm_segment *segment = &conn->peer->na_class->segment;
    const uint64_t data = conn->region + (uint64_t) SM_RING_SLOTS * SM_RING_SLOT;
    uint32_t ready = sm_load(&conn->lines_ready), wanted;

    if (ready == conn->data_lines || sm_position_data(tail) + lines <= ready)
        return true;
    wanted = ready == 0 ? SM_RING_FIRST / SM_CACHE_LINE : 2 * ready;
    while (wanted < sm_position_data(tail) + lines && wanted < conn->data_lines)
        wanted *= 2;
    if (sm_reserve(segment->fd, data + (uint64_t) ready * SM_CACHE_LINE,
                   (uint64_t) (wanted - ready) * SM_CACHE_LINE, log_level) != NA_PLUGIN_SUCCESS)
        return false;
    sm_store_release(&conn->lines_ready, wanted);
    return true;
}
