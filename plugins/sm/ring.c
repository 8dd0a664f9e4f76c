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

bool sm_ring_send_piece(struct sm_conn *conn, uint8_t kind, uint32_t context, uint32_t flags,
                        const struct sm_rma_header *header, const struct na_plugin_mem *mem,
                        uint64_t offset, uint32_t size)
{
    uint32_t total = size + (uint32_t) sizeof(*header);
    uint32_t done = (uint32_t) sizeof(*header);
    bool is_inline = total <= SM_INLINE_MAX;
    struct sm_ring_slot *slot;
    struct sm_cursor cursor;
    uint64_t position;

    if (!sm_ring_claim(conn, sm_ring_lines(total), &position))
        return false;
    slot = sm_ring_slot_at(conn, position);
    slot->tag = 0;
    slot->length = (uint16_t) total;
    slot->kind = kind;
    slot->context = (uint8_t) context;
    slot->flags = flags;
    if (is_inline)
        memcpy(slot->payload, header, sizeof(*header));
    else
        sm_ring_write(conn, position, 0, header, sizeof(*header));
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
