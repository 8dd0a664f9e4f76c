/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Received frames: finds the peer that sent a frame, and processes its records in order. A frame
 * whose next unexpected message has neither a receive nor room is deferred, with all later frames
 * of the same peer.
 */

#include "msg_state.h"

#include <stddef.h>
#include <string.h>

static MSG_INLINE bool frame_arrived(struct msg_peer *peer, uint32_t sequence, const uint8_t *data,
                                     uint64_t size, uint64_t offset, void *cookie);
static MSG_INLINE bool compact_received(struct msg_endpoint *state, const uint8_t *data,
                                        uint64_t size, void *cookie);
static bool frame_is_next(struct msg_peer *peer, uint32_t sequence);
static bool frame_is_of_other(struct kit_peer *peer, uint32_t sequence);
static bool frame_unknown(struct msg_endpoint *state, const struct wire_header *header,
                          const void *data, uint64_t size, const void *path, void *cookie);
static struct msg_peer *hello_received(struct msg_endpoint *state, const void *path,
                                       const void *data, uint32_t size);
static uint64_t frame_walk(struct msg_peer *peer, const uint8_t *data, uint64_t size,
                           uint64_t offset);
static bool record_take(struct msg_peer *peer, const struct wire_record *record,
                        const void *content, uint32_t size);
static MSG_INLINE bool compact_take(struct msg_peer *peer, const uint8_t *data, uint64_t size);
static MSG_INLINE bool message_take(struct msg_peer *peer, uint32_t kind, uint32_t source_id,
                                    uint32_t dest_id, uint32_t tag, const void *content,
                                    uint32_t size);
static bool part_take(struct msg_peer *peer, const struct wire_record *record, const void *content,
                      uint32_t size);
static struct kit_parted **part_slot(struct msg_peer *peer, uint32_t queue);
static bool part_drop_oldest(struct msg_endpoint *state);
static bool frame_defer(struct msg_peer *peer, const void *data, uint64_t size, uint64_t offset,
                        void *cookie, bool is_own);
static void deferred_release(struct msg_peer *peer, struct msg_deferred *deferred);
static void own_frame_done(struct msg_endpoint *state, struct msg_out *out);

bool kit_msg_frame_received(struct kit_endpoint *endpoint, void *data, uint64_t size,
                            const void *path, void *cookie)
{
    struct msg_endpoint *state = endpoint->state;
    struct wire_header header;
    struct msg_peer *peer;

    state->counters.frames_received++;
    if (kit_unlikely(state->session.secret != NULL))
        return kit_msg_sealed_received(state, data, size, path, cookie);
    if (kit_likely(size >= sizeof(struct wire_compact) && *(const uint8_t *) data == WIRE_COMPACT))
        return compact_received(state, data, size, cookie);
    if (kit_unlikely(size < sizeof(header))) {
        kit_msg_frame_bad(state, "a frame shorter than its header", size);
        return true;
    }
    memcpy(&header, data, sizeof(header));
    if (kit_unlikely(!wire_header_is_good(&header, size))) {
        kit_msg_header_bad(state, &header, size);
        return true;
    }
    if (kit_unlikely(header.flags != 0))
        return frame_unknown(state, &header, data, size, path, cookie);
    peer = (struct msg_peer *) kit_peer_by_token(&state->session, le64toh(header.token));
    if (kit_unlikely(peer == NULL ||
                     le32toh(header.incarnation) != (uint32_t) state->session.incarnation)) {
        kit_msg_frame_stale(state, le64toh(header.token), le32toh(header.incarnation));
        return true;
    }
    return frame_arrived(peer, le32toh(header.sequence), data, size, sizeof(header), cookie);
}

bool kit_msg_may_receive(const struct kit_endpoint *endpoint)
{
    return endpoint->state->deferred_count < MSG_DEFERRED_FRAMES;
}

/* Processes the frames to ourselves that were sent before this call. */
void kit_msg_own_frames_deliver(struct msg_endpoint *state)
{
    struct kit_link *last = state->own_frames.prev;
    bool is_last = kit_list_empty(&state->own_frames);

    while (!is_last) {
        struct msg_out *out = kit_container(state->own_frames.next, struct msg_out, link);

        is_last = &out->link == last;
        kit_list_remove(&out->link);
        if (kit_msg_frame_take(state->self, out->frame.data, out->frame.size,
                               sizeof(struct wire_header), out, true))
            own_frame_done(state, out);
    }
}

/* A receive was posted, or a deferred message was taken. */
void kit_msg_deferred_resume(struct msg_endpoint *state)
{
    for (uint32_t i = 0; i < state->session.slot_count && state->deferred_count != 0; i++)
        if (msg_peer_at(state, i) != NULL)
            kit_msg_peer_resume(msg_peer_at(state, i));
}

/* Only when the endpoint closes: ops.frame_release is not called. */
void kit_msg_deferred_drop(struct msg_peer *peer)
{
    while (!kit_list_empty(&peer->deferred)) {
        struct msg_deferred *deferred =
            kit_container(peer->deferred.next, struct msg_deferred, link);

        kit_list_remove(&deferred->link);
        peer->endpoint->state->deferred_count--;
        kit_host->mem_free(deferred);
    }
}

/*
 * If the check value is wrong, the token or the incarnation is stale. The peer in the slot is the
 * most likely sender, and is sent a HELLO (kit_msg_frame_stale()).
 */
static MSG_INLINE bool compact_received(struct msg_endpoint *state, const uint8_t *data,
                                        uint64_t size, void *cookie)
{
    const uint32_t index = wire_number(data + offsetof(struct wire_compact, index));
    const uint32_t check = wire_number(data + offsetof(struct wire_compact, check));
    const uint32_t sequence = wire_number(data + offsetof(struct wire_compact, sequence));
    struct msg_peer *peer = NULL;

    if (kit_likely(index < state->session.slot_count &&
                   check == wire_compact_check(state->session.slots[index].nonce,
                                               (uint32_t) state->session.incarnation, size)))
        peer = msg_peer_at(state, index);
    if (kit_unlikely(peer == NULL)) {
        kit_msg_frame_stale(state, index, (uint32_t) state->session.incarnation);
        return true;
    }
    return frame_arrived(peer, sequence, data, size, 0, cookie);
}

/* A frame with a valid token; its records begin at `offset`, 0: a compact frame. */
static MSG_INLINE bool frame_arrived(struct msg_peer *peer, uint32_t sequence, const uint8_t *data,
                                     uint64_t size, uint64_t offset, void *cookie)
{
    bool is_taken;

    peer->base.is_heard = true;
    if (kit_unlikely(!frame_is_next(peer, sequence))) {
        peer->base.pending |= KIT_PENDING_PING;
        return true;
    }
    if (kit_likely(offset == 0 && kit_list_empty(&peer->deferred)))
        is_taken = compact_take(peer, data, size) ||
                   !frame_defer(peer, data, size, 0, cookie, false) || cookie == NULL;
    else
        is_taken = kit_msg_frame_take(peer, data, size, offset, cookie, false);
    if (kit_unlikely(peer->base.pending != 0))
        kit_peer_mark(&peer->base);
    return is_taken;
}

/*
 * Returns false if earlier frames were lost, as happens when a fabric silently reconnects. The peer
 * has failed then, and learns from the HELLO with our new token that it has lost us, too.
 */
static bool frame_is_next(struct msg_peer *peer, uint32_t sequence)
{
    uint32_t expected = kit_sequence_next(peer->base.received_sequence);

    sequence -= peer->base.mask;
    if (kit_unlikely(sequence == 0 || peer->base.is_self))
        return true;
    if (kit_unlikely(sequence != expected && !frame_is_of_other(&peer->base, sequence))) {
        kit_peer_failed(&peer->base, NA_PLUGIN_HOSTUNREACH, "the fabric has lost messages from it");
        return false;
    }
    peer->base.received_sequence = sequence;
    return true;
}

/*
 * A peer counts from 1 again when it takes us for a new process, or first sends to another name of
 * ours; after that its frames to both names, each with its own sequence, come interleaved.
 */
static bool frame_is_of_other(struct kit_peer *peer, uint32_t sequence)
{
    if (sequence != 1 &&
        (peer->other_sequence == 0 || sequence != kit_sequence_next(peer->other_sequence)))
        return false;
    peer->other_sequence = peer->received_sequence;
    return true;
}

/* A frame with flags, without a key of ours: it begins with a HELLO, is sealed, or is invalid. */
static bool frame_unknown(struct msg_endpoint *state, const struct wire_header *header,
                          const void *data, uint64_t size, const void *path, void *cookie)
{
    uint64_t offset = sizeof(*header);
    struct msg_peer *peer;
    uint32_t length;

    if ((header->flags & WIRE_HAS_HELLO) == 0) {
        if (header->flags == WIRE_IS_SEALED) /* for an earlier process at our address, with a key */
            kit_msg_frame_stale(state, le64toh(header->token), le32toh(header->incarnation));
        else
            kit_msg_frame_bad(state, "a frame with flags that do not exist", header->flags);
        return true;
    }
    peer = (struct msg_peer *) kit_peer_by_token(&state->session, le64toh(header->token));
    if (peer != NULL && le32toh(header->incarnation) == (uint32_t) state->session.incarnation &&
        (header->flags & WIRE_IS_SEALED) == 0)
        (void) frame_is_next(peer, le32toh(header->sequence)); /* the HELLO resets a failed peer */
    length = kit_msg_hello_find(state, data, size, &offset);
    if (length == 0)
        return true;
    peer = hello_received(state, path, (const uint8_t *) data + offset, length);
    if (peer == NULL)
        return true;
    offset += wire_record_size(length) - sizeof(struct wire_record);
    peer->base.is_heard = true;
    return kit_msg_frame_take(peer, data, size, offset, cookie, false);
}

/* Returns the size of the HELLO that a frame begins with, and moves *offset to it; 0: invalid. */
uint32_t kit_msg_hello_find(struct msg_endpoint *state, const uint8_t *data, uint64_t size,
                            uint64_t *offset)
{
    struct wire_record record;

    if (size - *offset < sizeof(record)) {
        kit_msg_frame_bad(state, "a frame that ends before its HELLO", size);
        return 0;
    }
    memcpy(&record, data + *offset, sizeof(record));
    *offset += sizeof(record);
    if (le16toh(record.kind) == WIRE_HELLO && le32toh(record.size) <= size - *offset)
        return le32toh(record.size);
    kit_msg_frame_bad(state, "a HELLO that is none, or longer than its frame",
                      le32toh(record.size));
    return 0;
}

/* Processes a HELLO and returns the peer that sent it. NULL: the frame is dropped. */
static struct msg_peer *hello_received(struct msg_endpoint *state, const void *path,
                                       const void *data, uint32_t size)
{
    struct kit_hello hello;
    struct msg_peer *peer = kit_msg_hello_peer(state, path, data, size, &hello);

    if (peer == NULL)
        return NULL;
    if (kit_hello_is_foreign(&state->session, &hello)) {
        kit_hello_refuse(&peer->base, &hello);
        return NULL;
    }
    if (!kit_hello_take(&peer->base, &hello))
        return NULL;
    kit_msg_peer_changed(peer);
    return peer;
}

/* Returns the peer that sent a HELLO. NULL: it is dropped, as all are without an open context. */
struct msg_peer *kit_msg_hello_peer(struct msg_endpoint *state, const void *path, const void *data,
                                    uint32_t size, struct kit_hello *hello)
{
    struct kit_peer *base;
    struct msg_peer *peer;

    if (state->open_contexts == 0)
        return NULL;
    base = kit_hello_read(&state->session, path, data, size, hello);
    if (base == NULL)
        return NULL;
    peer = kit_msg_peer_init(state->endpoint, base);
    if ((peer->base.pending & KIT_PENDING_FAILURE) != 0) /* the HELLO came after the failure */
        kit_msg_peer_fail(peer);
    return peer;
}

/* Counts and logs an invalid header. */
void kit_msg_header_bad(struct msg_endpoint *state, const struct wire_header *header, uint64_t size)
{
    const bool is_ours = le16toh(header->magic) == WIRE_MAGIC;
    const uint32_t level = kit_log_level_first(&state->session.bad);

    if (is_ours && header->version != WIRE_VERSION)
        MSG_LOG(state->endpoint, level,
                "dropped a frame of version %u of the protocol, ours is %u: both sides must use "
                "the same release; further ones are logged as debug",
                header->version, WIRE_VERSION);
    else
        MSG_LOG(state->endpoint, level,
                "dropped a frame of %llu bytes that is of another protocol or not as long as it "
                "says (%u); further ones are logged as debug",
                (unsigned long long) size, le32toh(header->size));
}

void kit_msg_frame_bad(struct msg_endpoint *state, const char *what, uint64_t value)
{
    const uint32_t level = kit_log_level_first(&state->session.bad);

    MSG_LOG(state->endpoint, level, "dropped %s (%llu); further ones are logged as debug", what,
            (unsigned long long) value);
}

/*
 * The frame is from a peer that we count as failed, or for an earlier process at our address. If we
 * know the peer it is sent a HELLO, by which it notices.
 */
void kit_msg_frame_stale(struct msg_endpoint *state, uint64_t token, uint32_t incarnation)
{
    uint32_t index = (uint32_t) token;
    struct msg_peer *peer = NULL;

    state->counters.frames_stale++;
    MSG_LOG_DEBUG(state->endpoint, "dropped a frame from a peer that does not know us (%#llx)",
                  (unsigned long long) token);
    if (incarnation == (uint32_t) state->session.incarnation && index < state->session.slot_count)
        peer = msg_peer_at(state, index);
    if (peer == NULL || peer->base.is_self || state->open_contexts == 0 ||
        ((peer->base.phase != KIT_PEER_NEW || peer->stalled != NULL) &&
         (peer->base.pending & KIT_PENDING_FAILURE) == 0))
        return;
    peer->base.pending |= KIT_PENDING_PING;
    kit_peer_mark(&peer->base);
}

/* Processes records, and returns the offset of the first one that has to wait, or `size`. */
static uint64_t frame_walk(struct msg_peer *peer, const uint8_t *data, uint64_t size,
                           uint64_t offset)
{
    struct msg_endpoint *state = peer->endpoint->state;

    if (kit_likely(offset == 0))
        return compact_take(peer, data, size) ? size : 0;
    while (offset < size && kit_likely((peer->base.pending & KIT_PENDING_FAILURE) == 0)) {
        struct wire_record record;
        uint32_t length;

        if (kit_unlikely(size - offset < sizeof(record))) {
            kit_msg_frame_bad(state, "a frame with half a record", size - offset);
            break;
        }
        memcpy(&record, data + offset, sizeof(record));
        length = le32toh(record.size);
        if (kit_unlikely(length > size - offset - sizeof(record))) {
            kit_msg_frame_bad(state, "a record that is longer than its frame", length);
            break;
        }
        if (kit_unlikely(!record_take(peer, &record, data + offset + sizeof(record), length)))
            return offset;
        offset += wire_record_size(length);
    }
    return size;
}

/* Returns false if the record has to wait. */
static bool record_take(struct msg_peer *peer, const struct wire_record *record,
                        const void *content, uint32_t size)
{
    struct kit_endpoint *endpoint = peer->endpoint;

    switch (le16toh(record->kind)) {
    case WIRE_UNEXPECTED:
    case WIRE_EXPECTED:
        return message_take(peer, le16toh(record->kind), le16toh(record->source_id),
                            le16toh(record->dest_id), le32toh(record->tag), content, size);
    case WIRE_PART:
        return part_take(peer, record, content, size);
    case WIRE_CONTROL:
        if (endpoint->ops->control != NULL && size <= endpoint->state->control_most)
            endpoint->ops->control(endpoint, &peer->base, le32toh(record->tag), content, size);
        return true;
    case WIRE_HELLO_ACK:
        if (!kit_hello_ack_received(&peer->base, content, size))
            kit_msg_frame_bad(endpoint->state, "a HELLO_ACK that is malformed", size);
        else
            kit_msg_peer_changed(peer);
        return true;
    case WIRE_REFUSAL:
        kit_refusal_received(&peer->base, le32toh(record->tag));
        return true;
    case WIRE_FLOW:
        if (le32toh(record->tag) == MSG_FLOW_XOFF || le32toh(record->tag) == MSG_FLOW_XON)
            kit_msg_flow_received(peer, le32toh(record->tag));
        else
            kit_msg_frame_bad(endpoint->state, "a flow control that does not exist",
                              le32toh(record->tag));
        return true;
    case WIRE_BYE:
        peer->base.is_removable = true;
        peer->base.has_closed = true;
        kit_peer_failed(&peer->base, NA_PLUGIN_HOSTUNREACH, "it has closed");
        return true;
    default:
        kit_msg_frame_bad(endpoint->state, "a record of a kind that does not exist",
                          le16toh(record->kind));
        return true;
    }
}

/* Returns false if the message has to wait. */
static MSG_INLINE bool compact_take(struct msg_peer *peer, const uint8_t *data, uint64_t size)
{
    const uint32_t source_id = data[offsetof(struct wire_compact, source_id)];
    const uint32_t dest_id = data[offsetof(struct wire_compact, dest_id)];
    const uint32_t tag = wire_number(data + offsetof(struct wire_compact, tag));
    const uint32_t kind = data[offsetof(struct wire_compact, kind)];

    if (kit_unlikely(kind != WIRE_UNEXPECTED && kind != WIRE_EXPECTED)) {
        kit_msg_frame_bad(peer->endpoint->state, "a message of a kind that does not exist", kind);
        return true;
    }
    return message_take(peer, kind, source_id, dest_id, tag, data + sizeof(struct wire_compact),
                        (uint32_t) (size - sizeof(struct wire_compact)));
}

static MSG_INLINE bool message_take(struct msg_peer *peer, uint32_t kind, uint32_t source_id,
                                    uint32_t dest_id, uint32_t tag, const void *content,
                                    uint32_t size)
{
    struct msg_endpoint *state = peer->endpoint->state;
    struct msg_context *context;

    if (kit_unlikely(dest_id >= state->max_contexts)) {
        kit_msg_frame_bad(state, "a message for a context that does not exist", dest_id);
        return true;
    }
    context = &state->contexts[dest_id];
    if (kit_unlikely(context->stopped))
        return true;
    if (kind == WIRE_UNEXPECTED)
        return kit_msg_unexpected_deliver(peer, context, tag, content, size);
    kit_msg_expected_deliver(peer, context, source_id, tag, content, size);
    return true;
}

/* Returns false if the message is complete and has to wait; its last part is processed later. */
static bool part_take(struct msg_peer *peer, const struct wire_record *record, const void *content,
                      uint32_t size)
{
    struct msg_endpoint *state = peer->endpoint->state;
    struct kit_part part = {
        .source_id = le16toh(record->source_id),
        .dest_id = le16toh(record->dest_id),
        .tag = le32toh(record->tag),
    };
    struct kit_parted **parted_p;
    enum kit_part_result result;
    struct wire_part wire;

    if (kit_likely(size > sizeof(wire))) {
        memcpy(&wire, content, sizeof(wire));
        part.kind = le32toh(wire.kind);
        part.total = le32toh(wire.total);
        part.offset = le32toh(wire.offset);
        part.queue = le32toh(wire.queue);
        part.size = size - (uint32_t) sizeof(wire);
    }
    if (kit_unlikely(part.kind != WIRE_UNEXPECTED && part.kind != WIRE_EXPECTED))
        part.size = 0;
    parted_p = part_slot(peer, part.queue);
    result = kit_part_take(&state->parts, parted_p, &part);
    if (kit_unlikely(result == KIT_PART_NO_MEMORY) && part_drop_oldest(state))
        result = kit_part_take(&state->parts, parted_p, &part);
    switch (result) {
    case KIT_PART_TAKEN:
        break;
    case KIT_PART_BAD:
        kit_msg_frame_bad(state, "a part of no message, or of one that is too long", part.total);
        return true;
    case KIT_PART_STRAY:
        MSG_LOG_DEBUG(state->endpoint, "dropped a part from %s whose message has not begun",
                      peer->base.name);
        return true;
    case KIT_PART_NO_MEMORY:
        kit_peer_failed(&peer->base, NA_PLUGIN_NOMEM, "a message in parts of it finds no room");
        return true;
    }
    memcpy(kit_parted_data(*parted_p) + part.offset, (const uint8_t *) content + sizeof(wire),
           part.size);
    if (!kit_part_is_last(*parted_p, &part))
        return true;
    if (!message_take(peer, part.kind, part.source_id, part.dest_id, part.tag,
                      kit_parted_data(*parted_p), part.total)) {
        kit_part_again(*parted_p, &part);
        return false;
    }
    kit_parted_drop(&state->parts, parted_p);
    return true;
}

/* Returns the slot of the queue's incomplete message; the first slot if all are used by others. */
static struct kit_parted **part_slot(struct msg_peer *peer, uint32_t queue)
{
    struct kit_parted **free_slot = NULL;

    for (uint32_t i = 0; i < MSG_PARTED; i++) {
        if (peer->parted[i] != NULL && peer->parted[i]->first.queue == queue)
            return &peer->parted[i];
        if (peer->parted[i] == NULL && free_slot == NULL)
            free_slot = &peer->parted[i];
    }
    return free_slot != NULL ? free_slot : &peer->parted[0];
}

/*
 * Peers with incomplete messages must not wait for each other's memory: the peer whose message has
 * got no part for the longest time fails. False: there is no such peer.
 */
static bool part_drop_oldest(struct msg_endpoint *state)
{
    struct msg_peer *oldest = NULL;
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < state->session.slot_count; i++) {
        struct msg_peer *peer = msg_peer_at(state, i);

        for (uint32_t k = 0; peer != NULL && k < MSG_PARTED; k++) {
            if (peer->parted[k] == NULL || peer->parted[k]->taken >= least)
                continue;
            least = peer->parted[k]->taken;
            oldest = peer;
        }
    }
    if (oldest == NULL)
        return false;
    kit_peer_failed(&oldest->base, NA_PLUGIN_NOMEM,
                    "it does not end a message in parts, and memory for such is used up");
    kit_msg_parts_drop(oldest);
    return true;
}

void kit_msg_parts_drop(struct msg_peer *peer)
{
    for (uint32_t i = 0; i < MSG_PARTED; i++)
        kit_parted_drop(&peer->endpoint->state->parts, &peer->parted[i]);
}

/* Returns false if the frame is deferred without a copy. */
bool kit_msg_frame_take(struct msg_peer *peer, const void *data, uint64_t size, uint64_t offset,
                        void *cookie, bool is_own)
{
    if (kit_likely(kit_list_empty(&peer->deferred) &&
                   (peer->base.pending & KIT_PENDING_CLOSE) == 0))
        offset = frame_walk(peer, data, size, offset);
    if (kit_likely(offset >= size))
        return true;
    return !frame_defer(peer, data, size, offset, cookie, is_own) || cookie == NULL;
}

/* Copies the frame if there is no cookie. False: no memory; the rest of the frame is lost. */
static bool frame_defer(struct msg_peer *peer, const void *data, uint64_t size, uint64_t offset,
                        void *cookie, bool is_own)
{
    struct kit_endpoint *endpoint = peer->endpoint;
    const uint64_t copied = cookie == NULL ? size : 0;
    struct msg_deferred *deferred = kit_host->mem_alloc(sizeof(*deferred) + copied, 0);

    if (deferred == NULL) {
        MSG_LOG_ERROR(endpoint, "no memory to defer a frame from %s: its messages are lost",
                      peer->base.name);
        return false;
    }
    deferred->data = cookie == NULL ? memcpy(deferred->copy, data, size) : data;
    deferred->size = size;
    deferred->offset = offset;
    deferred->cookie = cookie;
    deferred->is_own = is_own;
    deferred->taken = peer->base.auth != NULL ? peer->base.auth->taken : 0;
    kit_list_append(&peer->deferred, &deferred->link);
    endpoint->state->deferred_count++;
    return true;
}

static void deferred_release(struct msg_peer *peer, struct msg_deferred *deferred)
{
    struct kit_endpoint *endpoint = peer->endpoint;
    void *cookie = deferred->cookie;
    bool is_own = deferred->is_own;

    kit_list_remove(&deferred->link);
    endpoint->state->deferred_count--;
    kit_host->mem_free(deferred);
    if (is_own)
        own_frame_done(endpoint->state, cookie);
    else if (cookie != NULL)
        endpoint->ops->frame_release(endpoint, cookie);
}

/*
 * Processes deferred frames. Those of a restarted peer wait until the connection to its earlier
 * process is closed, which ends the transfers of that process.
 */
void kit_msg_peer_resume(struct msg_peer *peer)
{
    while (!kit_list_empty(&peer->deferred) && (peer->base.pending & KIT_PENDING_CLOSE) == 0) {
        struct msg_deferred *deferred =
            kit_container(peer->deferred.next, struct msg_deferred, link);

        if (peer->base.auth != NULL)
            peer->base.auth->taken = deferred->taken;
        deferred->offset = frame_walk(peer, deferred->data, deferred->size, deferred->offset);
        if (deferred->offset < deferred->size)
            break;
        deferred_release(peer, deferred);
    }
    if (peer->base.pending != 0)
        kit_peer_mark(&peer->base);
}

static void own_frame_done(struct msg_endpoint *state, struct msg_out *out)
{
    struct msg_peer *self = state->self;

    state->in_flight--;
    self->base.in_flight--;
    msg_out_put(state, out);
    if (!kit_list_empty(&self->queue))
        kit_peer_mark(&self->base);
}
