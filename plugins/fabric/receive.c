/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Received frames: which peer sent them, and their records one after the other. A frame whose next
 * unexpected message has no place to go is deferred, with those of the same peer behind it.
 */

#include "state.h"

#include <stddef.h>
#include <string.h>

static FABRIC_INLINE bool fabric_frame_arrived(struct fabric_peer_state *peer, uint32_t sequence,
                                               const uint8_t *data, uint64_t size, uint64_t offset,
                                               void *cookie);
static FABRIC_INLINE bool fabric_compact_received(struct fabric_endpoint_state *state,
                                                  const uint8_t *data, uint64_t size, void *cookie);
static bool fabric_frame_is_next(struct fabric_peer_state *peer, uint32_t sequence);
static bool fabric_frame_unknown(struct fabric_endpoint_state *state,
                                 const struct wire_header *header, const void *data, uint64_t size,
                                 const void *path, void *cookie);
static struct fabric_peer_state *fabric_hello_received(struct fabric_endpoint_state *state,
                                                       const void *path, const void *data,
                                                       uint32_t size);
static void fabric_frame_bad(struct fabric_endpoint_state *state, const char *what, uint64_t value);
static void fabric_frame_stale(struct fabric_endpoint_state *state, uint64_t token,
                               uint32_t incarnation);
static uint64_t fabric_frame_walk(struct fabric_peer_state *peer, const uint8_t *data,
                                  uint64_t size, uint64_t offset);
static bool fabric_record_take(struct fabric_peer_state *peer, const struct wire_record *record,
                               const void *content, uint32_t size);
static FABRIC_INLINE bool fabric_compact_take(struct fabric_peer_state *peer, const uint8_t *data,
                                              uint64_t size);
static FABRIC_INLINE bool fabric_message_take(struct fabric_peer_state *peer, uint32_t kind,
                                              uint32_t source_id, uint32_t dest_id, uint32_t tag,
                                              const void *content, uint32_t size);
static bool fabric_frame_take(struct fabric_peer_state *peer, const void *data, uint64_t size,
                              uint64_t offset, void *cookie, bool is_own);
static bool fabric_frame_defer(struct fabric_peer_state *peer, const void *data, uint64_t size,
                               uint64_t offset, void *cookie, bool is_own);
static void fabric_deferred_release(struct fabric_peer_state *peer,
                                    struct fabric_deferred *deferred);
static void fabric_peer_resume(struct fabric_peer_state *peer);
static void fabric_own_frame_done(struct fabric_endpoint_state *state, struct fabric_out *out);

bool fabric_frame_received(struct fabric_endpoint *endpoint, const void *data, uint64_t size,
                           const void *path, void *cookie)
{
    struct fabric_endpoint_state *state = endpoint->state;
    struct wire_header header;
    struct fabric_peer_state *peer;

    state->counters.frames_received++;
    if (kit_likely(size >= sizeof(struct wire_compact) && *(const uint8_t *) data == WIRE_COMPACT))
        return fabric_compact_received(state, data, size, cookie);
    if (kit_unlikely(size < sizeof(header))) {
        fabric_frame_bad(state, "a frame shorter than its header", size);
        return true;
    }
    memcpy(&header, data, sizeof(header));
    if (kit_unlikely(le16toh(header.magic) != WIRE_MAGIC || header.version != WIRE_VERSION)) {
        fabric_frame_bad(state, "a frame of another protocol or version", header.version);
        return true;
    }
    if (kit_unlikely(le32toh(header.size) != size)) {
        fabric_frame_bad(state, "a frame that is not as long as it says", le32toh(header.size));
        return true;
    }
    if (kit_unlikely(header.flags != 0))
        return fabric_frame_unknown(state, &header, data, size, path, cookie);
    peer = fabric_peer_by_token(state, le64toh(header.token));
    if (kit_unlikely(peer == NULL ||
                     le32toh(header.incarnation) != (uint32_t) state->incarnation)) {
        fabric_frame_stale(state, le64toh(header.token), le32toh(header.incarnation));
        return true;
    }
    return fabric_frame_arrived(peer, le32toh(header.sequence), data, size, sizeof(header), cookie);
}

/* Frames to ourselves. */
void fabric_own_frames_deliver(struct fabric_endpoint_state *state)
{
    struct kit_link *last = state->own_frames.prev;
    bool is_last = kit_list_empty(&state->own_frames);

    while (!is_last) {
        struct fabric_out *out = kit_container(state->own_frames.next, struct fabric_out, link);

        is_last = &out->link == last;
        kit_list_remove(&out->link);
        if (fabric_frame_take(state->self, out->frame.data, out->frame.size,
                              sizeof(struct wire_header), out, true))
            fabric_own_frame_done(state, out);
    }
}

/* A receive was posted or an early message went. */
void fabric_deferred_resume(struct fabric_endpoint_state *state)
{
    for (uint32_t i = 0; i < state->slot_count && state->deferred_count != 0; i++)
        if (state->slots[i].peer != NULL)
            fabric_peer_resume(state->slots[i].peer);
}

/* Only when the endpoint closes: the plugin's memory is not given back. */
void fabric_deferred_drop(struct fabric_peer_state *peer)
{
    while (!kit_list_empty(&peer->deferred)) {
        struct fabric_deferred *deferred =
            kit_container(peer->deferred.next, struct fabric_deferred, link);

        kit_list_remove(&deferred->link);
        peer->endpoint->state->deferred_count--;
        kit_host->mem_free(deferred);
    }
}

/*
 * When the token and the receiver do not fit it cannot be told which of them is out of date: the
 * peer that we know by that number is the one most likely to need to hear of it.
 */
static FABRIC_INLINE bool fabric_compact_received(struct fabric_endpoint_state *state,
                                                  const uint8_t *data, uint64_t size, void *cookie)
{
    const uint32_t index = wire_number(data + offsetof(struct wire_compact, index));
    const uint32_t check = wire_number(data + offsetof(struct wire_compact, check));
    const uint32_t sequence = wire_number(data + offsetof(struct wire_compact, sequence));
    struct fabric_peer_state *peer = NULL;

    if (kit_likely(index < state->slot_count &&
                   check == wire_compact_check(state->slots[index].nonce,
                                               (uint32_t) state->incarnation, size)))
        peer = state->slots[index].peer;
    if (kit_unlikely(peer == NULL)) {
        fabric_frame_stale(state, index, (uint32_t) state->incarnation);
        return true;
    }
    return fabric_frame_arrived(peer, sequence, data, size, 0, cookie);
}

/* A frame of a peer that is known; its messages begin at `offset`. */
static FABRIC_INLINE bool fabric_frame_arrived(struct fabric_peer_state *peer, uint32_t sequence,
                                               const uint8_t *data, uint64_t size, uint64_t offset,
                                               void *cookie)
{
    bool is_taken;

    peer->is_heard = true;
    if (kit_unlikely(!fabric_frame_is_next(peer, sequence))) {
        peer->pending |= FABRIC_PENDING_PING;
        return true;
    }
    if (kit_likely(offset == 0 && kit_list_empty(&peer->deferred)))
        is_taken = fabric_compact_take(peer, data, size) ||
                   !fabric_frame_defer(peer, data, size, 0, cookie, false) || cookie == NULL;
    else
        is_taken = fabric_frame_take(peer, data, size, offset, cookie, false);
    if (kit_unlikely(peer->pending != 0))
        fabric_peer_mark(peer);
    return is_taken;
}

/*
 * False when frames before it were lost, as happens when a fabric makes a broken connection again
 * without a word: the peer has failed then, and learns that we have for it by our new token. A
 * sender begins again at 1 when it takes us for another.
 */
static bool fabric_frame_is_next(struct fabric_peer_state *peer, uint32_t sequence)
{
    uint32_t expected = fabric_sequence_next(peer->received_sequence);

    sequence -= peer->mask;
    if (kit_unlikely(sequence == 0 || peer->is_self))
        return true;
    peer->received_sequence = sequence;
    if (kit_likely(sequence == expected || sequence == 1))
        return true;
    fabric_peer_failed(peer->endpoint, &peer->peer, NA_PLUGIN_HOSTUNREACH,
                       "the fabric has lost messages from it");
    return false;
}

/* A frame that begins with a HELLO, or one of a later version. */
static bool fabric_frame_unknown(struct fabric_endpoint_state *state,
                                 const struct wire_header *header, const void *data, uint64_t size,
                                 const void *path, void *cookie)
{
    uint64_t offset = sizeof(*header);
    struct fabric_peer_state *peer;
    struct wire_record record;

    if ((header->flags & ~WIRE_HAS_HELLO) != 0) {
        fabric_frame_bad(state, "a frame with flags that do not exist", header->flags);
        return true;
    }
    if (size - offset < sizeof(record)) {
        fabric_frame_bad(state, "a frame that ends before its HELLO", size);
        return true;
    }
    peer = fabric_peer_by_token(state, le64toh(header->token));
    if (peer != NULL && le32toh(header->incarnation) == (uint32_t) state->incarnation)
        (void) fabric_frame_is_next(peer, le32toh(header->sequence)); /* it begins anew anyway */
    memcpy(&record, (const uint8_t *) data + offset, sizeof(record));
    offset += sizeof(record);
    if (le16toh(record.kind) != WIRE_HELLO || le32toh(record.size) > size - offset) {
        fabric_frame_bad(state, "a HELLO that is none, or longer than its frame",
                         le32toh(record.size));
        return true;
    }
    peer =
        fabric_hello_received(state, path, (const uint8_t *) data + offset, le32toh(record.size));
    if (peer == NULL)
        return true;
    offset += wire_record_size(le32toh(record.size)) - sizeof(record);
    peer->is_heard = true;
    return fabric_frame_take(peer, data, size, offset, cookie, false);
}

/* The peer that sent it; NULL when the frame is dropped, as all are when we are leaving. */
static struct fabric_peer_state *fabric_hello_received(struct fabric_endpoint_state *state,
                                                       const void *path, const void *data,
                                                       uint32_t size)
{
    struct fabric_peer_state *peer;
    struct fabric_hello hello;

    if (state->open_contexts == 0)
        return NULL;
    peer = fabric_hello_read(state, path, data, size, &hello);
    if (peer == NULL)
        return NULL;
    if ((peer->pending & FABRIC_FAILED) != 0) /* it came after what failed */
        fabric_peer_fail(peer);
    if (!fabric_hello_take(peer, &hello))
        return NULL;
    fabric_peer_changed(peer);
    return peer;
}

static void fabric_frame_bad(struct fabric_endpoint_state *state, const char *what, uint64_t value)
{
    uint32_t level =
        state->counters.frames_bad++ == 0 ? NA_PLUGIN_LOG_WARNING : NA_PLUGIN_LOG_DEBUG;

    FABRIC_LOG(state->endpoint, level, "dropped %s (%llu); further ones are logged as debug", what,
               (unsigned long long) value);
}

/*
 * From a peer that has failed for us since, or that knew another process at our address. A peer
 * that is still known is told so by a HELLO.
 */
static void fabric_frame_stale(struct fabric_endpoint_state *state, uint64_t token,
                               uint32_t incarnation)
{
    uint32_t index = (uint32_t) token;
    struct fabric_peer_state *peer = NULL;

    state->counters.frames_stale++;
    FABRIC_LOG_DEBUG(state->endpoint, "dropped a frame from a peer that does not know us (%#llx)",
                     (unsigned long long) token);
    if (incarnation == (uint32_t) state->incarnation && index < state->slot_count)
        peer = state->slots[index].peer;
    if (peer == NULL || peer->is_self || state->open_contexts == 0 ||
        ((peer->phase != FABRIC_PEER_NEW || peer->stalled != NULL) &&
         (peer->pending & FABRIC_FAILED) == 0))
        return;
    peer->pending |= FABRIC_PENDING_PING;
    fabric_peer_mark(peer);
}

/* The offset of the first record that has to wait, or `size`. Offset 0: a compact frame. */
static uint64_t fabric_frame_walk(struct fabric_peer_state *peer, const uint8_t *data,
                                  uint64_t size, uint64_t offset)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;

    if (kit_likely(offset == 0))
        return fabric_compact_take(peer, data, size) ? size : 0;
    while (offset < size && kit_likely((peer->pending & FABRIC_FAILED) == 0)) {
        struct wire_record record;
        uint32_t length;

        if (kit_unlikely(size - offset < sizeof(record))) {
            fabric_frame_bad(state, "a frame with half a record", size - offset);
            break;
        }
        memcpy(&record, data + offset, sizeof(record));
        length = le32toh(record.size);
        if (kit_unlikely(length > size - offset - sizeof(record))) {
            fabric_frame_bad(state, "a record that is longer than its frame", length);
            break;
        }
        if (kit_unlikely(
                !fabric_record_take(peer, &record, data + offset + sizeof(record), length)))
            return offset;
        offset += wire_record_size(length);
    }
    return size;
}

/* False when it has to wait. */
static bool fabric_record_take(struct fabric_peer_state *peer, const struct wire_record *record,
                               const void *content, uint32_t size)
{
    struct fabric_endpoint *endpoint = peer->endpoint;

    switch (le16toh(record->kind)) {
    case WIRE_UNEXPECTED:
    case WIRE_EXPECTED:
        return fabric_message_take(peer, le16toh(record->kind), le16toh(record->source_id),
                                   le16toh(record->dest_id), le32toh(record->tag), content, size);
    case WIRE_CONTROL:
        if (endpoint->ops->control != NULL && size <= WIRE_CONTROL_MAX)
            endpoint->ops->control(endpoint, &peer->peer, le32toh(record->tag), content, size);
        return true;
    case WIRE_HELLO_ACK:
        if (!fabric_hello_ack_received(peer, content, size))
            fabric_frame_bad(endpoint->state, "a HELLO_ACK that is malformed", size);
        else
            fabric_peer_changed(peer);
        return true;
    case WIRE_BYE:
        peer->is_removable = true;
        peer->has_closed = true;
        fabric_peer_failed(endpoint, &peer->peer, NA_PLUGIN_HOSTUNREACH, "it has closed");
        return true;
    default:
        fabric_frame_bad(endpoint->state, "a record of a kind that does not exist",
                         le16toh(record->kind));
        return true;
    }
}

/* False when it has to wait. */
static FABRIC_INLINE bool fabric_compact_take(struct fabric_peer_state *peer, const uint8_t *data,
                                              uint64_t size)
{
    const uint32_t source_id = data[offsetof(struct wire_compact, source_id)];
    const uint32_t dest_id = data[offsetof(struct wire_compact, dest_id)];
    const uint32_t tag = wire_number(data + offsetof(struct wire_compact, tag));
    const uint32_t kind = data[offsetof(struct wire_compact, kind)];

    if (kit_unlikely(kind != WIRE_UNEXPECTED && kind != WIRE_EXPECTED)) {
        fabric_frame_bad(peer->endpoint->state, "a message of a kind that does not exist", kind);
        return true;
    }
    return fabric_message_take(peer, kind, source_id, dest_id, tag,
                               data + sizeof(struct wire_compact),
                               (uint32_t) (size - sizeof(struct wire_compact)));
}

static FABRIC_INLINE bool fabric_message_take(struct fabric_peer_state *peer, uint32_t kind,
                                              uint32_t source_id, uint32_t dest_id, uint32_t tag,
                                              const void *content, uint32_t size)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;
    struct fabric_context *context;

    if (kit_unlikely(dest_id >= state->max_contexts)) {
        fabric_frame_bad(state, "a message for a context that does not exist", dest_id);
        return true;
    }
    context = &state->contexts[dest_id];
    if (kit_unlikely(context->stopped)) {
        state->counters.messages_dropped++;
        return true;
    }
    if (kind == WIRE_UNEXPECTED)
        return fabric_unexpected_deliver(peer, context, tag, content, size);
    fabric_expected_deliver(peer, context, source_id, tag, content, size);
    return true;
}

/* False when the frame is deferred where it lies. */
static bool fabric_frame_take(struct fabric_peer_state *peer, const void *data, uint64_t size,
                              uint64_t offset, void *cookie, bool is_own)
{
    if (kit_likely(kit_list_empty(&peer->deferred))) {
        offset = fabric_frame_walk(peer, data, size, offset);
        if (kit_likely(offset >= size))
            return true;
    }
    return !fabric_frame_defer(peer, data, size, offset, cookie, is_own) || cookie == NULL;
}

/*
 * Without a cookie it is copied. False when there is no memory to note it down: the rest of the
 * frame is lost.
 */
static bool fabric_frame_defer(struct fabric_peer_state *peer, const void *data, uint64_t size,
                               uint64_t offset, void *cookie, bool is_own)
{
    struct fabric_endpoint *endpoint = peer->endpoint;
    const uint64_t copied = cookie == NULL ? size : 0;
    struct fabric_deferred *deferred = kit_host->mem_alloc(sizeof(*deferred) + copied, 0);

    if (deferred == NULL) {
        endpoint->state->counters.messages_dropped++;
        FABRIC_LOG_ERROR(endpoint, "no memory to defer a frame from %s: its messages are lost",
                         peer->peer.name);
        return false;
    }
    deferred->data = cookie == NULL ? memcpy(deferred->copy, data, size) : data;
    deferred->size = size;
    deferred->offset = offset;
    deferred->cookie = cookie;
    deferred->is_own = is_own;
    kit_list_append(&peer->deferred, &deferred->link);
    endpoint->state->deferred_count++;
    return true;
}

static void fabric_deferred_release(struct fabric_peer_state *peer,
                                    struct fabric_deferred *deferred)
{
    struct fabric_endpoint *endpoint = peer->endpoint;
    void *cookie = deferred->cookie;
    bool is_own = deferred->is_own;

    kit_list_remove(&deferred->link);
    endpoint->state->deferred_count--;
    kit_host->mem_free(deferred);
    if (is_own)
        fabric_own_frame_done(endpoint->state, cookie);
    else if (cookie != NULL)
        endpoint->ops->frame_release(endpoint, cookie);
}

static void fabric_peer_resume(struct fabric_peer_state *peer)
{
    while (!kit_list_empty(&peer->deferred)) {
        struct fabric_deferred *deferred =
            kit_container(peer->deferred.next, struct fabric_deferred, link);

        deferred->offset =
            fabric_frame_walk(peer, deferred->data, deferred->size, deferred->offset);
        if (deferred->offset < deferred->size)
            break;
        fabric_deferred_release(peer, deferred);
    }
    if (peer->pending != 0)
        fabric_peer_mark(peer);
}

static void fabric_own_frame_done(struct fabric_endpoint_state *state, struct fabric_out *out)
{
    struct fabric_peer_state *self = state->self;

    state->in_flight--;
    self->in_flight--;
    fabric_out_put(state, out);
    if (!kit_list_empty(&self->queue))
        fabric_peer_mark(self);
}
