/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames to send: their pool, which grows in registered slabs up to a limit, and writing records
 * into them.
 */

#include "msg_state.h"

#include <string.h>

#define MSG_SLAB_FIRST 16u
#define MSG_SLAB_MAX   128u

static bool slab_fill(struct msg_endpoint *state, struct msg_slab *slab, uint32_t count,
                      uint64_t stride);
static void slab_free(struct msg_endpoint *state, struct msg_slab *slab);
static uint64_t out_clear(const struct msg_out *out);
static inline uint8_t *out_add_record(struct msg_out *out, const struct wire_record *record,
                                      uint64_t size);

void kit_msg_out_free_all(struct msg_endpoint *state)
{
    while (state->slabs != NULL) {
        struct msg_slab *slab = state->slabs;

        state->slabs = slab->next;
        slab_free(state, slab);
    }
    kit_list_init(&state->free_frames);
    while (!kit_list_empty(&state->free_controls)) {
        struct kit_link *link = state->free_controls.next;

        kit_list_remove(link);
        kit_host->mem_free(link);
    }
}

struct msg_control *kit_msg_control_get(struct msg_endpoint *state, uint64_t size)
{
    struct kit_link *link = state->free_controls.next;

    if (size > WIRE_CONTROL_MAX || link == &state->free_controls) {
        const uint64_t more = size > WIRE_CONTROL_MAX ? size - WIRE_CONTROL_MAX : 0;
        struct msg_control *control = kit_host->mem_alloc(sizeof(struct msg_control) + more, 0);

        if (control == NULL)
            return NULL;
        kit_list_init(&control->op.link);
        control->is_large = more != 0;
        return control;
    }
    kit_list_remove(link);
    return (struct msg_control *) (void *) link;
}

void kit_msg_control_put(struct msg_endpoint *state, struct msg_control *control)
{
    if (kit_unlikely(control->is_large))
        kit_host->mem_free(control);
    else
        kit_list_prepend(&state->free_controls, &control->op.link);
}

bool kit_msg_out_has_room(const struct msg_out *out, uint64_t size)
{
    return out->frame.size + wire_record_size(size) <= out->peer->endpoint->state->frame_room;
}

/* Returns false if the message does not fit. */
bool kit_msg_out_add_op(struct msg_out *out, struct msg_op *op)
{
    struct wire_record record = {
        .kind = htole16((uint16_t) op->kind),
        .dest_id = htole16((uint16_t) op->remote_id),
        .size = htole32((uint32_t) op->size),
        .tag = htole32(op->tag),
    };
    uint8_t *place;

    if (kit_unlikely(!kit_msg_out_has_room(out, op->size)))
        return false;
    if (kit_likely(op->context != NULL))
        record.source_id = htole16((uint16_t) op->context->id);
    place = out_add_record(out, &record, op->size);
    if (kit_likely(op->size != 0))
        memcpy(place, op->data, op->size);
    kit_list_append(&out->ops, &op->link);
    return true;
}

/*
 * Adds the next part of the first queued message. True: that was the last part, the operation moved
 * to the frame, and there may be room for more. The part counts as sent when the frame is sent.
 */
bool kit_msg_part_add(struct msg_out *out, struct msg_op *op)
{
    const uint64_t head = sizeof(struct wire_record) + sizeof(struct wire_part);
    const uint64_t room = out->peer->endpoint->state->frame_room - out->frame.size;
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
        .queue = htole32(peer->base.index),
    };
    uint8_t *place;

    /* Not in a frame with a HELLO: if the peer was restarted the part would be lost. */
    if ((out->pending & KIT_PENDING_HELLO) != 0 || peer->part != 0 || room < head + MSG_PART_MIN)
        return false;
    if (size > room - head)
        size = (uint32_t) ((room - head) & ~(uint64_t) (WIRE_ALIGN - 1));
    record.size = htole32((uint32_t) sizeof(part) + size);
    place = out_add_record(out, &record, sizeof(part) + size);
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

/* Adds a record and returns the place of its content; the caller has checked that it fits. */
uint8_t *kit_msg_out_add(struct msg_out *out, uint32_t kind, uint32_t size)
{
    const struct wire_record record = {.kind = htole16((uint16_t) kind), .size = htole32(size)};

    return out_add_record(out, &record, size);
}

static inline uint8_t *out_add_record(struct msg_out *out, const struct wire_record *record,
                                      uint64_t size)
{
    uint8_t *place = (uint8_t *) out->frame.data + out->frame.size;
    const uint64_t total = wire_record_size(size);

    memset(place + total - WIRE_ALIGN, 0, WIRE_ALIGN); /* no earlier bytes in the padding */
    memcpy(place, record, sizeof(*record));
    out->frame.size += total;
    return place + sizeof(*record);
}

/* Adds a record without content; the caller has checked that it fits. */
void kit_msg_out_add_tagged(struct msg_out *out, uint32_t kind, uint32_t tag)
{
    const struct wire_record record = {.kind = htole16((uint16_t) kind), .tag = htole32(tag)};

    memcpy((uint8_t *) out->frame.data + out->frame.size, &record, sizeof(record));
    out->frame.size += sizeof(record);
}

/* Writes the header, and the seal if there is one; called again when a refused frame is retried. */
void kit_msg_out_end(struct msg_out *out)
{
    const struct msg_peer *peer = out->peer;
    struct wire_header header = {
        .magic = htole16(WIRE_MAGIC),
        .version = WIRE_VERSION,
        .flags = (out->pending & KIT_PENDING_HELLO) != 0 ? WIRE_HAS_HELLO : 0,
        .token = htole64(peer->base.their_token),
        .incarnation = htole32(peer->base.their_incarnation_low),
        .sequence = htole32(kit_peer_sequence_sent(&peer->base)),
    };
    bool is_sealed = kit_peer_is_sealed(&peer->base);

    if (kit_unlikely((out->pending & (KIT_PENDING_OFFER | KIT_PENDING_REFUSAL)) != 0)) {
        header.token = htole64(out->reply_token);
        header.incarnation = htole32(out->reply_incarnation);
        header.sequence = htole32(peer->base.refusal.mask); /* 0: not counted without a key */
        is_sealed = false;
    }
    out->frame.is_hello = header.flags != 0;
    out->frame.size -= out->tag_size;
    out->tag_size = is_sealed ? KIT_AUTH_TAG : 0;
    out->frame.size += out->tag_size;
    if (is_sealed)
        header.flags |= WIRE_IS_SEALED;
    header.size = htole32((uint32_t) out->frame.size);
    memcpy(out->frame.data, &header, sizeof(header));
    if (is_sealed)
        kit_msg_out_seal(out);
}

/* The last step of building a frame. */
void kit_msg_out_seal(struct msg_out *out)
{
    struct kit_peer *peer = &out->peer->base;

    kit_seal_write(&peer->auth->seal, peer->sent_sequence, out->frame.data, out_clear(out),
                   out->frame.size - KIT_AUTH_TAG);
}

/* Undoes the seal of a refused frame: messages may be added before it is sealed again. */
void kit_msg_out_unseal(struct msg_out *out)
{
    kit_seal_take_back(&out->peer->base.auth->seal, out->frame.data, out_clear(out),
                       out->frame.size - KIT_AUTH_TAG);
}

/* Number of bytes that are not encrypted. */
static uint64_t out_clear(const struct msg_out *out)
{
    return kit_msg_clear(out->peer->endpoint->state, out->is_compact, out->frame.is_hello,
                         out->frame.size);
}

/* Returns false if the limit is reached or memory is short. */
bool kit_msg_slab_add(struct msg_endpoint *state)
{
    const struct kit_msg_ops *ops = state->endpoint->ops;
    uint64_t stride = (ops->max_frame + 63) & ~UINT64_C(63);
    uint32_t count = state->frame_count == 0 ? MSG_SLAB_FIRST : state->frame_count;
    struct msg_slab *slab;

    if (count > MSG_SLAB_MAX)
        count = MSG_SLAB_MAX;
    if (count > state->frame_limit - state->frame_count)
        count = state->frame_limit - state->frame_count;
    if (count == 0)
        return false;
    slab = kit_host->mem_alloc(sizeof(*slab), 0);
    if (slab == NULL)
        return false;
    if (!slab_fill(state, slab, count, stride)) {
        slab_free(state, slab);
        return false;
    }
    slab->next = state->slabs;
    state->slabs = slab;
    state->frame_count += count;
    return true;
}

static bool slab_fill(struct msg_endpoint *state, struct msg_slab *slab, uint32_t count,
                      uint64_t stride)
{
    const struct kit_msg_ops *ops = state->endpoint->ops;
    uint64_t private_stride = ((uint64_t) ops->frame_size + 15) & ~UINT64_C(15);

    slab->memory = kit_host->mem_alloc(count * stride, 4096);
    slab->outs = kit_host->mem_alloc(count * sizeof(*slab->outs), 64);
    slab->privs = kit_host->mem_alloc(count * private_stride, 64);
    if (slab->memory == NULL || slab->outs == NULL || slab->privs == NULL)
        return false;
    if (ops->slab_register != NULL) {
        int32_t ret =
            ops->slab_register(state->endpoint, slab->memory, count * stride, &slab->registration);

        if (ret != NA_PLUGIN_SUCCESS) {
            MSG_LOG_WARNING(state->endpoint, "%llu bytes for frames could not be registered: %d",
                            (unsigned long long) (count * stride), ret);
            return false;
        }
        slab->is_registered = true;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct msg_out *out = &slab->outs[i];

        out->frame.data = slab->memory + i * stride;
        out->frame.registration = slab->registration;
        out->frame.priv = slab->privs + i * private_stride;
        kit_list_init(&out->ops);
        kit_list_append(&state->free_frames, &out->link);
    }
    return true;
}

static void slab_free(struct msg_endpoint *state, struct msg_slab *slab)
{
    const struct kit_msg_ops *ops = state->endpoint->ops;

    if (slab->is_registered && ops->slab_deregister != NULL)
        ops->slab_deregister(state->endpoint, slab->registration);
    kit_host->mem_free(slab->memory);
    kit_host->mem_free(slab->outs);
    kit_host->mem_free(slab->privs);
    kit_host->mem_free(slab);
}
