/* SPDX-License-Identifier: BSD-3-Clause */
/* Control records: sends those that a transfer has pending, and checks those that peers send. */

#include "rma_state.h"

#include <endian.h>
#include <string.h>

/* A record to be sent, little-endian. */
struct record_out {
    struct rma_record record;
    uint8_t payload[RMA_PAYLOAD_MAX];
};

static int32_t record_send(struct kit_rma_transfer *transfer, enum rma_kind kind);
static uint32_t record_fill(struct kit_rma_transfer *transfer, enum rma_kind kind,
                            struct record_out *out);
static bool record_has_data(const struct kit_rma_transfer *transfer, enum rma_kind kind);
static uint64_t record_size_max(const struct kit_rma *rma);
static void record_received(struct kit_rma *rma, void *peer, const struct rma_in *in);
static bool record_is_allowed(const struct kit_rma_transfer *transfer, const struct rma_in *in);
static void record_request(struct kit_rma *rma, void *peer, const struct rma_in *in);
static void record_answer(struct kit_rma *rma, void *peer, const struct rma_record *to,
                          enum rma_kind kind, uint64_t number, int32_t status);
static uint32_t record_tags(struct kit_rma_transfer *transfer, uint8_t *payload);
static bool record_read(const void *data, uint64_t size, struct rma_in *in);
static bool record_has_payload(const struct rma_in *in);
static bool record_fits(const struct kit_rma_transfer *transfer, const struct rma_in *in);
static bool record_is_of_sender(const struct rma_record *record);
static void record_answer_stale(struct kit_rma *rma, void *peer, const struct rma_record *record);
static void record_take(struct kit_rma_transfer *transfer, const struct rma_in *in);
static void record_grant(struct kit_rma_transfer *transfer, const struct rma_in *in);
static void record_done(struct kit_rma_transfer *transfer);
static void record_stop(struct kit_rma_transfer *transfer, const struct rma_record *record);
static int32_t record_status(const struct rma_record *record);

/* Sends the pending records, in order. Returns false if the owner had no resources. */
bool kit_rma_records_send(struct kit_rma_transfer *transfer)
{
    for (int kind = 0; kind < RMA_KINDS && transfer->pending != 0; kind++) {
        int32_t ret = NA_PLUGIN_SUCCESS;

        /* A REQUEST waits for its note; a STOP waits until the network moves no bytes. */
        if ((kind == RMA_REQUEST && kit_rma_is_remote(transfer->mover) && !transfer->has_note) ||
            (kind == RMA_STOP && transfer->is_moving))
            continue;
        while ((transfer->pending & RMA_PENDING(kind)) != 0 && ret == NA_PLUGIN_SUCCESS)
            ret = record_send(transfer, (enum rma_kind) kind);
        if (kit_likely(ret == NA_PLUGIN_SUCCESS))
            continue;
        if (ret == NA_PLUGIN_AGAIN || ret == NA_PLUGIN_NOMEM)
            return false;
        /* The peer failed. */
        kit_rma_transfer_abort(transfer);
        kit_rma_transfer_end(transfer, ret, false);
        return true;
    }
    return true;
}

void kit_rma_control(struct kit_rma *rma, void *peer, const void *data, uint64_t size)
{
    struct rma_in in;

    if (kit_likely(
            size <= record_size_max(rma) && record_read(data, size, &in) &&
            (!(kit_rma_owner_copies(rma) && in.mover == KIT_RMA_INLINE && in.payload_size != 0) ||
             rma->is_inline_only))) {
        record_received(rma, peer, &in);
        return;
    }
    rma->counters.records_bad++;
    RMA_LOG_DEBUG(rma, "dropped %llu bytes that are no control record", (unsigned long long) size);
}

void kit_rma_control_data(struct kit_rma *rma, void *peer, const void *record, uint64_t record_size,
                          const void *data, uint64_t size)
{
    const bool owner_copies = kit_rma_owner_copies(rma);
    const uint32_t most = owner_copies ? rma->config.inline_size : rma->config.eager_size;
    struct rma_in in;

    if (kit_unlikely(rma->is_inline_only || record_size != sizeof(in.record) || most == 0 ||
                     size > most || !record_read(record, record_size, &in) ||
                     in.mover != KIT_RMA_INLINE || !record_has_payload(&in) ||
                     (!owner_copies &&
                      (in.record.kind != RMA_REQUEST || (in.record.flags & RMA_IS_PUT) == 0)))) {
        rma->counters.records_bad++;
        return;
    }
    in.payload = data;
    in.payload_size = (uint32_t) size;
    in.is_eager = !owner_copies;
    record_received(rma, peer, &in);
}

/* Most bytes of a record with its payload. */
static uint64_t record_size_max(const struct kit_rma *rma)
{
    const uint64_t most = sizeof(struct rma_record) + (uint64_t) rma->config.inline_size;

    return rma->is_inline_only && most > KIT_RMA_CONTROL_MAX ? most : KIT_RMA_CONTROL_MAX;
}

static void record_received(struct kit_rma *rma, void *peer, const struct rma_in *in)
{
    struct kit_rma_transfer *transfer = kit_rma_transfer_find(
        rma, peer, in->record.transfer, (in->record.flags & RMA_FROM_ORIGIN) == 0);

    if (in->record.kind == RMA_REQUEST && kit_likely(transfer == NULL)) {
        record_request(rma, peer, in);
    } else if (kit_unlikely(transfer == NULL)) {
        record_answer_stale(rma, peer, &in->record);
    } else if (kit_likely(record_fits(transfer, in))) {
        transfer->silent_ticks = 0;
        if (kit_unlikely(rma->may_reach != NULL) && !record_is_allowed(transfer, in))
            kit_rma_transfer_end(transfer, NA_PLUGIN_PERMISSION, true);
        else
            record_take(transfer, in);
    } else {
        rma->counters.records_bad++;
    }
}

/*
 * May the transfer of a peer go on? Access to the region may have ended since its REQUEST, with the
 * session that it was granted to. Records that end a transfer are always allowed.
 */
static bool record_is_allowed(const struct kit_rma_transfer *transfer, const struct rma_in *in)
{
    struct kit_rma *rma = transfer->rma;

    return transfer->is_origin || transfer->is_over || in->record.kind > RMA_DATA ||
           rma->may_reach(rma->owner, transfer->peer, transfer->region);
}

/* Without memory for a transfer the error is sent once, without a retry. */
static void record_request(struct kit_rma *rma, void *peer, const struct rma_in *in)
{
    int32_t ret = kit_rma_target_start(rma, peer, in);

    if (ret != NA_PLUGIN_SUCCESS)
        record_answer(rma, peer, &in->record,
                      record_is_of_sender(&in->record) ? RMA_CANCEL : RMA_STOP, 0, ret);
}

/* Answers a record for which there is no transfer, and does not retry. */
static void record_answer(struct kit_rma *rma, void *peer, const struct rma_record *to,
                          enum rma_kind kind, uint64_t number, int32_t status)
{
    struct rma_record record = {
        .magic = htole32(RMA_MAGIC),
        .version = RMA_VERSION,
        .kind = (uint8_t) kind,
        .flags = to->flags ^ RMA_FROM_ORIGIN,
        .transfer = htole64(to->transfer),
        .number = htole64(number),
        .status = (int32_t) htole32((uint32_t) status),
    };
    int32_t ret = rma->ops->control_send(rma->owner, peer, &record, sizeof(record));

    if (ret != NA_PLUGIN_SUCCESS)
        RMA_LOG_WARNING(rma, "a peer cannot be answered: %s", kit_status_name(ret));
}

/* Sends a record. If that fails the state of the transfer is as before. */
static int32_t record_send(struct kit_rma_transfer *transfer, enum rma_kind kind)
{
    struct kit_rma *rma = transfer->rma;
    const uint32_t pending = transfer->pending;
    const uint64_t moved = transfer->moved;
    const bool is_known = transfer->is_known;
    struct record_out out;
    uint32_t size = record_fill(transfer, kind, &out);
    int32_t ret;

    if (record_has_data(transfer, kind) && (transfer->is_eager || kit_rma_owner_copies(rma)))
        ret = rma->ops->data_send(rma->owner, transfer->peer, &out.record, sizeof(out.record),
                                  transfer->region, kit_rma_inline_offset(transfer, moved),
                                  kit_rma_inline_size(transfer, moved));
    else
        ret = rma->ops->control_send(rma->owner, transfer->peer, &out,
                                     (uint32_t) sizeof(out.record) + size);
    /* The answer may have come inside of the call, so the transfer is not touched on success. */
    if (kit_likely(ret == NA_PLUGIN_SUCCESS))
        return ret;
    transfer->moved = moved;
    if (transfer->mover == KIT_RMA_INLINE && transfer->is_sender)
        transfer->done = moved;
    if (kind == RMA_REQUEST) {
        transfer->is_known = is_known;
        if (kit_rma_is_remote(transfer->mover))
            transfer->in_use = 0;
    }
    if (!transfer->is_over)
        transfer->pending |= pending;
    else if (!transfer->is_aborted)
        transfer->pending |= RMA_PENDING(kind) & (RMA_PENDING(RMA_STOP) | RMA_PENDING(RMA_CANCEL));
    return ret;
}

/* True if the record travels with bytes of an inline transfer. */
static bool record_has_data(const struct kit_rma_transfer *transfer, enum rma_kind kind)
{
    return transfer->mover == KIT_RMA_INLINE && transfer->is_sender && kind <= RMA_DATA;
}

/*
 * Writes the record, and updates the transfer as if it was sent. Returns the size of the payload,
 * without bytes that data_send takes from the region.
 */
static uint32_t record_fill(struct kit_rma_transfer *transfer, enum rma_kind kind,
                            struct record_out *out)
{
    const struct kit_rma_request *request = &transfer->request;
    struct rma_record *record = &out->record;
    uint32_t size = 0;

    *record = (struct rma_record){
        .magic = htole32(RMA_MAGIC),
        .version = RMA_VERSION,
        .kind = (uint8_t) kind,
        .flags = (uint8_t) ((uint32_t) transfer->mover << RMA_MOVER_SHIFT |
                            (transfer->is_origin ? RMA_FROM_ORIGIN : 0u) |
                            (transfer->is_put ? RMA_IS_PUT : 0u)),
        .transfer = htole64(transfer->id),
    };
    transfer->pending &= ~RMA_PENDING(kind);
    if (kind == RMA_REQUEST) {
        record->flags |= transfer->is_device ? RMA_IS_DEVICE : 0;
        record->memory = htole64(request->remote->id);
        record->key = request->remote->key;
        record->offset = htole64(request->remote_offset + transfer->position);
        record->length = htole64(transfer->length);
        record->piece_size = htole32(transfer->piece_size);
        transfer->is_known = true;
        if (kit_rma_is_remote(transfer->mover)) {
            if (transfer->mover == KIT_RMA_ONE_SIDED)
                record->length = htole64(transfer->exposure.size);
            transfer->in_use = 1;
            memcpy(out->payload, transfer->note, transfer->note_size);
            return transfer->note_size;
        }
    }
    if (kind == RMA_STOP)
        record->number = htole64(transfer->moved);
    if (kind == RMA_STOP || kind == RMA_CANCEL)
        record->status = (int32_t) htole32((uint32_t) transfer->status);
    if (record_has_data(transfer, kind)) {
        record->number = htole64(transfer->moved);
        record->piece_size = htole32(transfer->piece_size);
        if (!transfer->is_eager && !kit_rma_owner_copies(transfer->rma)) {
            size = kit_rma_inline_size(transfer, transfer->moved);
            memcpy(out->payload, transfer->base + transfer->moved * transfer->piece_size, size);
        }
        transfer->done = ++transfer->moved;
        if (transfer->moved < transfer->granted)
            transfer->pending |= RMA_PENDING(RMA_DATA);
    } else if (transfer->mover == KIT_RMA_INLINE && kind <= RMA_GRANT) {
        record->number = htole64(transfer->granted);
        transfer->pending &= ~RMA_PENDING(RMA_GRANT);
    } else if (!transfer->is_sender && kind <= RMA_GRANT) {
        record->number = htole64(transfer->moved);
        record->tag_count = (uint8_t) record_tags(transfer, out->payload);
        transfer->moved = transfer->granted;
        transfer->pending &= ~RMA_PENDING(RMA_GRANT);
        size = 4u * record->tag_count;
    }
    return size;
}

static uint32_t record_tags(struct kit_rma_transfer *transfer, uint8_t *payload)
{
    uint32_t count = 0;

    for (uint64_t i = transfer->moved; i < transfer->granted; i++) {
        const uint32_t tag = htole32(transfer->tags[i % RMA_WINDOW_MAX]);

        memcpy(payload + 4 * count++, &tag, sizeof(tag));
    }
    return count;
}

/* Reads a received record into host byte order. Returns false if it is not a valid record. */
static bool record_read(const void *data, uint64_t size, struct rma_in *in)
{
    struct rma_record *record = &in->record;

    if (size < sizeof(*record))
        return false;
    memcpy(record, data, sizeof(*record));
    record->magic = le32toh(record->magic);
    record->transfer = le64toh(record->transfer);
    record->number = le64toh(record->number);
    record->memory = le64toh(record->memory);
    record->offset = le64toh(record->offset);
    record->length = le64toh(record->length);
    record->piece_size = le32toh(record->piece_size);
    record->status = (int32_t) le32toh((uint32_t) record->status);
    if (record->magic != RMA_MAGIC || record->version != RMA_VERSION || record->kind >= RMA_KINDS ||
        kit_rma_flags_mover(record->flags) >= KIT_RMA_MOVERS || record->tag_count > RMA_WINDOW_MAX)
        return false;
    in->mover = (enum kit_rma_mover) kit_rma_flags_mover(record->flags);
    in->payload = (const uint8_t *) data + sizeof(*record);
    in->payload_size = (uint32_t) (size - sizeof(*record));
    in->is_eager = false;
    if (record->tag_count != 0 || !record_has_payload(in)) {
        if (in->payload_size != 4u * record->tag_count)
            return false;
        memcpy(in->tags, in->payload, in->payload_size);
        for (uint32_t i = 0; i < record->tag_count; i++)
            in->tags[i] = le32toh(in->tags[i]);
    }
    return record->kind != RMA_REQUEST || (record->flags & RMA_FROM_ORIGIN) != 0;
}

/* True if the payload may be something else than tags. */
static bool record_has_payload(const struct rma_in *in)
{
    return in->record.kind == RMA_DATA ||
           (in->record.kind == RMA_REQUEST && in->mover != KIT_RMA_PIECES);
}

/* True if the other side of this transfer may send such a record. */
static bool record_fits(const struct kit_rma_transfer *transfer, const struct rma_in *in)
{
    const struct rma_record *record = &in->record;

    if (transfer->is_put != ((record->flags & RMA_IS_PUT) != 0) || transfer->mover != in->mover)
        return false;
    switch (record->kind) {
    case RMA_GRANT:
        return transfer->is_sender && !kit_rma_is_remote(in->mover);
    case RMA_CANCEL:
        return transfer->is_sender;
    case RMA_DATA:
        return !transfer->is_sender && in->mover == KIT_RMA_INLINE;
    case RMA_STOP:
        return !transfer->is_sender;
    case RMA_DONE:
        return transfer->is_origin && (transfer->is_sender || kit_rma_is_remote(in->mover));
    case RMA_PROBE:
        return transfer->is_origin;
    case RMA_ALIVE:
        return !transfer->is_origin;
    default:
        return false;
    }
}

/*
 * The transfer does not exist any more. A CANCEL is answered by STOP, as if all pieces were sent,
 * and a PROBE by the record that ends the transfer.
 */
static void record_answer_stale(struct kit_rma *rma, void *peer, const struct rma_record *record)
{
    bool is_from_origin = (record->flags & RMA_FROM_ORIGIN) != 0;

    rma->counters.records_stale++;
    if (record->kind == RMA_CANCEL && is_from_origin)
        record_answer(rma, peer, record, RMA_STOP, UINT64_MAX, NA_PLUGIN_SUCCESS);
    if (record->kind == RMA_PROBE && !is_from_origin)
        record_answer(rma, peer, record, record_is_of_sender(record) ? RMA_STOP : RMA_CANCEL,
                      UINT64_MAX, NA_PLUGIN_CANCELED);
}

/* True if the origin of the transfer moves the bytes. */
static bool record_is_of_sender(const struct rma_record *record)
{
    return (record->flags & RMA_IS_PUT) != 0 &&
           !kit_rma_is_remote((enum kit_rma_mover) kit_rma_flags_mover(record->flags));
}

static void record_take(struct kit_rma_transfer *transfer, const struct rma_in *in)
{
    const struct rma_record *record = &in->record;

    switch (record->kind) {
    case RMA_GRANT:
        if (!transfer->is_over)
            record_grant(transfer, in);
        return;
    case RMA_DATA:
        if (transfer->is_over)
            return;
        if (kit_likely(kit_rma_inline_take(transfer, in)))
            kit_rma_activate(transfer);
        else
            kit_rma_transfer_end(transfer, NA_PLUGIN_PROTOCOL_ERROR, true);
        return;
    case RMA_DONE:
        record_done(transfer);
        return;
    case RMA_STOP:
        record_stop(transfer, record);
        return;
    case RMA_CANCEL:
        if (!transfer->is_over)
            kit_rma_transfer_end(transfer, record_status(record), true);
        return;
    case RMA_PROBE:
        transfer->pending |= RMA_PENDING(RMA_ALIVE);
        kit_rma_activate(transfer);
        return;
    default:
        return;
    }
}

static void record_grant(struct kit_rma_transfer *transfer, const struct rma_in *in)
{
    const bool is_right = transfer->mover == KIT_RMA_INLINE
                              ? kit_rma_inline_grant(transfer, in->record.number)
                              : kit_rma_tags_take(transfer, &in->record, in->tags);

    if (kit_likely(is_right))
        kit_rma_activate(transfer);
    else
        kit_rma_transfer_end(transfer, NA_PLUGIN_PROTOCOL_ERROR, true);
}

static void record_done(struct kit_rma_transfer *transfer)
{
    const bool is_remote = kit_rma_is_remote(transfer->mover);

    if (transfer->is_over && !is_remote)
        return;
    if (is_remote ? transfer->in_use != 0 : transfer->moved == transfer->pieces) {
        transfer->is_delivered = true;
        kit_rma_activate(transfer);
    } else {
        kit_rma_transfer_end(transfer, NA_PLUGIN_PROTOCOL_ERROR, true);
    }
}

static void record_stop(struct kit_rma_transfer *transfer, const struct rma_record *record)
{
    const int32_t status = record_status(record);

    if (transfer->mover == KIT_RMA_ATTACH && status == NA_PLUGIN_OPNOTSUPPORTED &&
        !transfer->is_over) {
        transfer->is_refused = true;
        kit_rma_activate(transfer);
        return;
    }
    transfer->stop = kit_rma_is_remote(transfer->mover) ? 0 : record->number;
    kit_rma_transfer_end(transfer, status, false);
}

/* Returns the error in a STOP or CANCEL; never success, nor a value that is no status. */
static int32_t record_status(const struct rma_record *record)
{
    if (record->status >= NA_PLUGIN_PERMISSION && record->status <= NA_PLUGIN_HOSTFIREWALL)
        return record->status;
    return record->status == NA_PLUGIN_SUCCESS ? NA_PLUGIN_CANCELED : NA_PLUGIN_PROTOCOL_ERROR;
}
