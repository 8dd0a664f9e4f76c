/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that are longer than a frame. They leave in parts, from the front of the queue, and are
 * put together where they arrive. A sender that gives one up begins with the next, and a peer that
 * fails takes what it had begun along.
 */

#include "msg_state.h"

#include <string.h>

/*
 * The next part of the first operation of the queue. True when that was the last: the operation is
 * the frame's, and there may be room for another one. It counts as sent when the frame is.
 */
bool kit_msg_part_add(struct msg_out *out, struct msg_op *op)
{
    const uint64_t head = sizeof(struct wire_record) + sizeof(struct wire_part);
    const uint64_t room = out->peer->endpoint->state->room - out->frame.size;
    struct msg_peer *peer = out->peer;
    uint32_t size = (uint32_t) op->size - op->sent;
    struct wire_record record = {
        .kind = htole16(WIRE_PART),
        .source_id = htole16((uint16_t) op->context->id),
        .dest_id = htole16((uint16_t) op->remote_id),
        .tag = htole32(op->tag),
    };
    struct wire_part part = {
        .kind = htole32(op->kind),
        .total = htole32((uint32_t) op->size),
        .offset = htole32(op->sent),
    };
    uint8_t *place;

    /* Beside a HELLO it could be lost: the peer may be another process by now. */
    if ((out->pending & KIT_PENDING_HELLO) != 0 || peer->part != 0 || room < head + MSG_PART_MIN)
        return false;
    if (size > room - head)
        size = (uint32_t) ((room - head) & ~(uint64_t) (WIRE_ALIGN - 1));
    record.size = htole32((uint32_t) sizeof(part) + size);
    place = kit_msg_out_add(out, WIRE_PART, (uint32_t) sizeof(part) + size);
    memcpy(place - sizeof(record), &record, sizeof(record));
    memcpy(place, &part, sizeof(part));
    memcpy(place + sizeof(part), (const uint8_t *) op->data + op->sent, size);
    if (op->sent + size < op->size) {
        peer->part = size;
        return false;
    }
    kit_list_remove(&op->link);
    kit_peer_waiting_remove(&peer->base);
    kit_list_append(&out->ops, &op->link);
    return true;
}

/*
 * False when the message is whole and has to wait: the same part comes again then. Peers whose
 * messages are not whole must not wait for each other: one that there is no memory for fails.
 */
bool kit_msg_part_take(struct msg_peer *peer, const struct wire_record *record, const void *content,
                       uint32_t size)
{
    struct msg_endpoint *state = peer->endpoint->state;
    struct kit_part part = {
        .source_id = le16toh(record->source_id),
        .dest_id = le16toh(record->dest_id),
        .tag = le32toh(record->tag),
    };
    struct wire_part wire;

    if (kit_likely(size > sizeof(wire))) {
        memcpy(&wire, content, sizeof(wire));
        part.kind = le32toh(wire.kind);
        part.total = le32toh(wire.total);
        part.offset = le32toh(wire.offset);
        part.size = size - (uint32_t) sizeof(wire);
    }
    if (kit_unlikely(part.kind != WIRE_UNEXPECTED && part.kind != WIRE_EXPECTED))
        part.size = 0;
    switch (kit_part_take(&state->parts, &peer->parted, &part)) {
    case KIT_PART_TAKEN:
        break;
    case KIT_PART_BAD:
        kit_msg_frame_bad(state, "a part of no message, or of one that is too long", part.total);
        return true;
    case KIT_PART_STRAY:
        state->counters.messages_dropped++;
        MSG_LOG_DEBUG(state->endpoint, "dropped a part from %s whose message has not begun",
                      peer->base.name);
        return true;
    case KIT_PART_NO_MEMORY:
        kit_peer_failed(&peer->base, NA_PLUGIN_NOMEM,
                        "its message comes in parts, and memory for such is used up");
        return true;
    }
    memcpy(peer->parted->data + part.offset, (const uint8_t *) content + sizeof(wire), part.size);
    if (!kit_part_is_last(peer->parted, &part))
        return true;
    if (!kit_msg_message_take(peer, part.kind, part.source_id, part.dest_id, part.tag,
                              peer->parted->data, part.total)) {
        kit_part_again(peer->parted, &part);
        return false;
    }
    kit_parted_drop(&state->parts, &peer->parted);
    return true;
}
