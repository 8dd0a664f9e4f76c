/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Received frames of an endpoint with a key. Of a frame without a valid seal only a HELLO, a
 * HELLO_ACK and a refusal are processed, and these do not affect a peer that is ready.
 */

#include "msg_state.h"

#include <stddef.h>
#include <string.h>

/* A received frame and its header; `peer` is that of its token, which proves nothing. */
struct sealed {
    const uint8_t *data;
    uint64_t size;
    uint64_t offset; /* of the first record; 0: a compact frame */
    uint64_t token;
    uint32_t incarnation;
    uint32_t sequence;
    struct msg_peer *peer;
    bool is_sealed;
    bool has_hello;
};

static bool header_read(struct msg_endpoint *state, struct sealed *frame);
static bool compact_read(const struct msg_endpoint *state, struct sealed *frame);
static bool offer_take(struct msg_peer *peer);
static bool sealed_take(const struct sealed *frame, const void *path, void *cookie);
static bool sealed_hello_take(const struct sealed *frame, const void *path, uint64_t *offset);
static void sealed_refused(struct msg_endpoint *state, const char *what, const char *name);
static void open_take(struct msg_endpoint *state, const struct sealed *frame, const void *path);
static void offer_received(struct msg_endpoint *state, const void *path, const void *data,
                           uint32_t size);
static void open_record_take(struct msg_peer *peer, const struct wire_record *record,
                             const void *content, uint32_t size);

bool kit_msg_sealed_received(struct msg_endpoint *state, uint8_t *data, uint64_t size,
                             const void *path, void *cookie)
{
    struct sealed frame = {.data = data, .size = size};
    enum kit_seal_result result = KIT_SEAL_NONE;
    bool is_new;

    if (kit_unlikely(!header_read(state, &frame)))
        return true;
    if (kit_likely(frame.is_sealed && frame.peer != NULL))
        result = kit_peer_seal_open(&frame.peer->base, frame.sequence - frame.peer->base.mask, data,
                                    kit_msg_clear(state, frame.offset == 0, frame.has_hello, size),
                                    size, &is_new);
    switch (result) {
    case KIT_SEAL_NEXT:
        if (kit_unlikely(is_new) && !offer_take(frame.peer))
            return true;
        return sealed_take(&frame, path, cookie);
    case KIT_SEAL_LATER:
        kit_peer_failed(&frame.peer->base, NA_PLUGIN_HOSTUNREACH,
                        "the fabric has lost messages from it");
        frame.peer->base.pending |= KIT_PENDING_PING;
        return true;
    case KIT_SEAL_AGAIN:
        sealed_refused(state, "a frame that was there before", frame.peer->base.name);
        return true;
    default:
        open_take(state, &frame, path);
        return true;
    }
}

/* Returns false if the frame was dropped. */
static bool header_read(struct msg_endpoint *state, struct sealed *frame)
{
    struct wire_header header;

    if (kit_likely(frame->size >= sizeof(struct wire_compact) && frame->data[0] == WIRE_COMPACT))
        return compact_read(state, frame);
    if (frame->size < sizeof(header)) {
        kit_msg_frame_bad(state, "a frame shorter than its header", frame->size);
        return false;
    }
    memcpy(&header, frame->data, sizeof(header));
    if (!wire_header_is_good(&header, frame->size)) {
        kit_msg_header_bad(state, &header, frame->size);
        return false;
    }
    if ((header.flags & ~(WIRE_HAS_HELLO | WIRE_IS_SEALED)) != 0) {
        kit_msg_frame_bad(state, "a frame with flags that do not exist", header.flags);
        return false;
    }
    frame->offset = sizeof(header);
    frame->token = le64toh(header.token);
    frame->incarnation = le32toh(header.incarnation);
    frame->sequence = le32toh(header.sequence);
    frame->is_sealed = (header.flags & WIRE_IS_SEALED) != 0;
    frame->has_hello = (header.flags & WIRE_HAS_HELLO) != 0;
    if (frame->is_sealed && frame->size < sizeof(header) + KIT_AUTH_TAG) {
        kit_msg_frame_bad(state, "a frame shorter than its header and seal", frame->size);
        return false;
    }
    if (frame->incarnation == (uint32_t) state->session.incarnation)
        frame->peer = (struct msg_peer *) kit_peer_by_token(&state->session, frame->token);
    return true;
}

static bool compact_read(const struct msg_endpoint *state, struct sealed *frame)
{
    const uint32_t index = wire_number(frame->data + offsetof(struct wire_compact, index));
    const uint32_t check = wire_number(frame->data + offsetof(struct wire_compact, check));

    frame->token = index;
    frame->incarnation = (uint32_t) state->session.incarnation;
    frame->sequence = wire_number(frame->data + offsetof(struct wire_compact, sequence));
    frame->is_sealed = true;
    if (kit_likely(index < state->session.slot_count &&
                   frame->size >= sizeof(struct wire_compact) + KIT_AUTH_TAG &&
                   check == wire_compact_check(state->session.slots[index].nonce,
                                               frame->incarnation, frame->size)))
        frame->peer = msg_peer_at(state, index);
    return true;
}

/* The sender of an offer has proved our key. Returns false without memory. */
static bool offer_take(struct msg_peer *peer)
{
    if (!kit_offer_take(&peer->base))
        return false;
    kit_msg_peer_changed(peer);
    return true;
}

static bool sealed_take(const struct sealed *frame, const void *path, void *cookie)
{
    struct msg_peer *peer = frame->peer;
    const uint64_t size = frame->size - KIT_AUTH_TAG;
    uint64_t offset = frame->offset;
    bool is_taken = true;

    peer->base.is_heard = true;
    if (kit_unlikely(peer->base.session->config.has_grants)) {
        peer->base.auth->taken = peer->base.auth->is_by_old ? 0 : peer->base.auth->number;
        peer->base.auth->is_by_old = false;
    }
    if (kit_likely(!frame->has_hello) || sealed_hello_take(frame, path, &offset))
        is_taken = kit_msg_frame_take(peer, frame->data, size, offset, cookie, false);
    if (kit_unlikely(peer->base.pending != 0))
        kit_peer_mark(&peer->base);
    return is_taken;
}

/* A sealed HELLO must have the incarnation and token that we know. */
static bool sealed_hello_take(const struct sealed *frame, const void *path, uint64_t *offset)
{
    struct msg_peer *peer = frame->peer;
    struct msg_endpoint *state = peer->endpoint->state;
    const uint32_t length =
        kit_msg_hello_find(state, frame->data, frame->size - KIT_AUTH_TAG, offset);
    struct kit_hello hello;

    if (length == 0)
        return false;
    if (kit_msg_hello_peer(state, path, frame->data + *offset, length, &hello) != peer ||
        !kit_hello_is_of(&peer->base, &hello)) {
        kit_msg_frame_bad(state, "a HELLO that does not fit its seal", length);
        return false;
    }
    *offset += wire_record_size(length) - sizeof(struct wire_record);
    if (!kit_hello_take(&peer->base, &hello))
        return false;
    kit_msg_peer_changed(peer);
    return true;
}

static void sealed_refused(struct msg_endpoint *state, const char *what, const char *name)
{
    const uint32_t level = kit_log_level_first(&state->session.refused);

    MSG_LOG(state->endpoint, level,
            "refused %s, in the name of %s; further ones are counted, and logged as debug", what,
            name);
}

/*
 * A frame without a seal, or with one that we cannot check. The latter may be of a peer that does
 * not know that we were restarted or have dropped its session: only its HELLO is processed.
 */
static void open_take(struct msg_endpoint *state, const struct sealed *frame, const void *path)
{
    uint64_t offset = frame->offset;

    if (frame->has_hello) {
        const uint32_t length = kit_msg_hello_find(state, frame->data, frame->size, &offset);

        if (length == 0)
            return;
        offer_received(state, path, frame->data + offset, length);
        offset += wire_record_size(length) - sizeof(struct wire_record);
    }
    if (frame->is_sealed) {
        if (!frame->has_hello && frame->peer != NULL && frame->peer->base.phase == KIT_PEER_READY)
            sealed_refused(state, "a frame without its session's seal", frame->peer->base.name);
        else if (!frame->has_hello)
            kit_msg_frame_stale(state, frame->token, frame->incarnation);
        return;
    }
    if (!frame->has_hello && frame->peer == NULL) {
        state->counters.frames_stale++;
        MSG_LOG_DEBUG(state->endpoint, "dropped a frame without a seal from nobody known (%#llx)",
                      (unsigned long long) frame->token);
        return;
    }
    while (frame->peer != NULL && !frame->peer->base.is_self && offset < frame->size) {
        struct wire_record record;
        uint32_t length;

        if (frame->size - offset < sizeof(record))
            break;
        memcpy(&record, frame->data + offset, sizeof(record));
        length = le32toh(record.size);
        if (length > frame->size - offset - sizeof(record)) {
            kit_msg_frame_bad(state, "a record that is longer than its frame", length);
            break;
        }
        open_record_take(frame->peer, &record, frame->data + offset + sizeof(record), length);
        offset += wire_record_size(length);
    }
}

static void offer_received(struct msg_endpoint *state, const void *path, const void *data,
                           uint32_t size)
{
    struct kit_hello hello;
    struct msg_peer *peer = kit_msg_hello_peer(state, path, data, size, &hello);

    if (peer == NULL)
        return;
    if (kit_hello_is_foreign(&state->session, &hello))
        kit_hello_refuse(&peer->base, &hello);
    else
        kit_offer_keep(&peer->base, &hello, data, size);
}

static void open_record_take(struct msg_peer *peer, const struct wire_record *record,
                             const void *content, uint32_t size)
{
    struct msg_endpoint *state = peer->endpoint->state;

    switch (le16toh(record->kind)) {
    case WIRE_HELLO_ACK:
        if (!kit_offer_answered(&peer->base, content, size))
            kit_msg_frame_bad(state, "a HELLO_ACK that is malformed", size);
        else if (kit_peer_is_sealed(&peer->base)) /* else another key is tried, or it failed */
            kit_msg_peer_changed(peer);
        break;
    case WIRE_REFUSAL:
        kit_refusal_received(&peer->base, le32toh(record->tag));
        break;
    default:
        sealed_refused(state, "a record without a seal", peer->base.name);
        break;
    }
    if (peer->base.pending != 0)
        kit_peer_mark(&peer->base);
}
