/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending side of a ring, off the shortest path. */

#include "ring.h"

/* Reads the receiver's head again. True when `lines` of data and a slot fit now. */
bool sm_ring_refresh(struct sm_conn *conn, uint32_t lines)
{
    uint64_t before = sm_load_acquire(&conn->tail);
    uint64_t head, tail;

    /* Both of one moment: other threads send meanwhile, and the receiver reads their messages. */
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
    sm_store_release(&conn->head, head);
    return sm_ring_fits(conn, tail, head, lines);
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
