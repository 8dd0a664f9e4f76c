/* SPDX-License-Identifier: BSD-3-Clause */
/* Control records: what a transfer has pending, and what peers send, none of which is trusted. */

#include "rma_state.h"

#include <endian.h>
#include <string.h>

/* A record that came, in our byte order. */
struct record_in {
    struct rma_record record;
    uint32_t tags[RMA_WINDOW_MAX];
};

static int32_t record_send(struct kit_rma_transfer *transfer, enum rma_kind kind);
static void record_request(struct kit_rma *rma, void *peer, const struct record_in *in);
static void record_answer(struct kit_rma *rma, void *peer, const struct rma_record *to,
                          enum rma_kind kind, uint64_t number, int32_t status);
static uint32_t record_tags(struct kit_rma_transfer *transfer, uint32_t *tags);
static bool record_read(const void *data, uint64_t size, struct record_in *in);
static bool record_fits(const struct kit_rma_transfer *transfer, const struct rma_record *record);
static void record_stale(struct kit_rma *rma, void *peer, const struct rma_record *record);
static void record_take(struct kit_rma_transfer *transfer, const struct record_in *in);
static int32_t record_status(const struct rma_record *record);

/* Sends the pending records, in order. False when the owner wants to be asked again. */
bool kit_rma_records_send(struct kit_rma_transfer *transfer)
{
    for (int kind = 0; kind < RMA_KINDS && transfer->pending != 0; kind++) {
        int32_t ret;

        if ((transfer->pending & RMA_PENDING(kind)) == 0)
            continue;
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
    struct kit_rma_transfer *transfer;
    struct record_in in;

    if (kit_unlikely(!record_read(data, size, &in))) {
        rma->counters.records_bad++;
        RMA_LOG_DEBUG(rma, "dropped %llu bytes that are no control record",
                      (unsigned long long) size);
        return;
    }
    transfer = kit_rma_transfer_find(rma, peer, in.record.transfer,
                                     (in.record.flags & RMA_FROM_ORIGIN) == 0);
    if (in.record.kind == RMA_REQUEST) {
        if (kit_likely(transfer == NULL))
            record_request(rma, peer, &in);
        else
            rma->counters.records_bad++;
        return;
    }
    if (kit_unlikely(transfer == NULL)) {
        record_stale(rma, peer, &in.record);
        return;
    }
    if (kit_unlikely(!record_fits(transfer, &in.record))) {
        rma->counters.records_bad++;
        return;
    }
    transfer->quiet = 0;
    record_take(transfer, &in);
}

/* All that can be done for want of a transfer is to answer once. */
static void record_request(struct kit_rma *rma, void *peer, const struct record_in *in)
{
    const bool is_put = (in->record.flags & RMA_IS_PUT) != 0;
    int32_t ret = kit_rma_target_start(rma, peer, &in->record, in->tags);

    if (ret != NA_PLUGIN_SUCCESS)
        record_answer(rma, peer, &in->record, is_put ? RMA_CANCEL : RMA_STOP, 0, ret);
}

/* Without a transfer, and once. */
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

/* What was sent is not pending any more. */
static int32_t record_send(struct kit_rma_transfer *transfer, enum rma_kind kind)
{
    struct kit_rma *rma = transfer->rma;
    struct {
        struct rma_record record;
        uint32_t tags[RMA_WINDOW_MAX];
    } out = {.record = {
                 .magic = htole32(RMA_MAGIC),
                 .version = RMA_VERSION,
                 .kind = (uint8_t) kind,
                 .transfer = htole64(transfer->id),
             }};
    uint64_t moved = transfer->moved;
    uint32_t sent = RMA_PENDING(kind);
    int32_t ret;

    if (transfer->is_origin)
        out.record.flags |= RMA_FROM_ORIGIN;
    if (transfer->is_put)
        out.record.flags |= RMA_IS_PUT;
    if (kind == RMA_REQUEST) {
        out.record.memory = htole64(transfer->remote_id);
        out.record.key = transfer->remote_key;
        out.record.offset = htole64(transfer->remote_offset);
        out.record.length = htole64(transfer->length);
        out.record.piece_size = htole32(transfer->piece_size);
    }
    if (kind <= RMA_GRANT && !transfer->is_sender) {
        out.record.number = htole64(transfer->moved);
        out.record.tag_count = (uint8_t) record_tags(transfer, out.tags);
        moved = transfer->granted;
        sent |= RMA_PENDING(RMA_GRANT);
    }
    if (kind == RMA_STOP)
        out.record.number = htole64(transfer->moved);
    if (kind == RMA_STOP || kind == RMA_CANCEL)
        out.record.status = (int32_t) htole32((uint32_t) transfer->status);
    /* The answer may come inside of the call. */
    transfer->pending &= ~sent;
    transfer->is_known |= kind == RMA_REQUEST;
    if (!transfer->is_sender)
        transfer->moved = moved;
    ret = rma->ops->control_send(rma->owner, transfer->peer, &out,
                                 (uint32_t) sizeof(out.record) + 4 * out.record.tag_count);
    if (kit_likely(ret == NA_PLUGIN_SUCCESS))
        return ret;
    if (!transfer->is_aborted && !transfer->is_over)
        transfer->pending |= sent;
    if (!transfer->is_sender)
        transfer->moved -= out.record.tag_count;
    if (kind == RMA_REQUEST)
        transfer->is_known = false;
    if (transfer->is_over && !transfer->is_aborted)
        transfer->pending |= RMA_PENDING(kind) & (RMA_PENDING(RMA_STOP) | RMA_PENDING(RMA_CANCEL));
    return ret;
}

static uint32_t record_tags(struct kit_rma_transfer *transfer, uint32_t *tags)
{
    uint32_t count = 0;

    for (uint64_t i = transfer->moved; i < transfer->granted; i++)
        tags[count++] = htole32(transfer->tags[i % RMA_WINDOW_MAX]);
    return count;
}

/* False when it is none. */
static bool record_read(const void *data, uint64_t size, struct record_in *in)
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
        (record->flags & ~(RMA_FROM_ORIGIN | RMA_IS_PUT)) != 0 ||
        record->tag_count > RMA_WINDOW_MAX || size != sizeof(*record) + 4u * record->tag_count)
        return false;
    memcpy(in->tags, (const uint8_t *) data + sizeof(*record), 4u * record->tag_count);
    for (uint32_t i = 0; i < record->tag_count; i++)
        in->tags[i] = le32toh(in->tags[i]);
    return record->kind != RMA_REQUEST || (record->flags & RMA_FROM_ORIGIN) != 0;
}

/* True when it can come from the other side of this transfer. */
static bool record_fits(const struct kit_rma_transfer *transfer, const struct rma_record *record)
{
    if (transfer->is_put != ((record->flags & RMA_IS_PUT) != 0))
        return false;
    switch (record->kind) {
    case RMA_GRANT:
    case RMA_CANCEL:
        return transfer->is_sender;
    case RMA_STOP:
        return !transfer->is_sender;
    case RMA_DONE:
        return transfer->is_sender && transfer->is_origin;
    case RMA_PROBE:
        return transfer->is_origin;
    case RMA_ALIVE:
        return !transfer->is_origin;
    default:
        return false;
    }
}

/* Who asks for an answer gets one: that all was sent, or that nobody is there. */
static void record_stale(struct kit_rma *rma, void *peer, const struct rma_record *record)
{
    bool is_put = (record->flags & RMA_IS_PUT) != 0;
    bool is_from_origin = (record->flags & RMA_FROM_ORIGIN) != 0;

    rma->counters.records_stale++;
    if (record->kind == RMA_CANCEL && is_from_origin)
        record_answer(rma, peer, record, RMA_STOP, UINT64_MAX, NA_PLUGIN_SUCCESS);
    if (record->kind == RMA_PROBE && !is_from_origin)
        record_answer(rma, peer, record, is_put ? RMA_STOP : RMA_CANCEL, UINT64_MAX,
                      NA_PLUGIN_CANCELED);
}

static void record_take(struct kit_rma_transfer *transfer, const struct record_in *in)
{
    const struct rma_record *record = &in->record;

    switch (record->kind) {
    case RMA_GRANT:
        if (transfer->is_over)
            return;
        if (kit_likely(kit_rma_tags_take(transfer, record, in->tags)))
            kit_rma_activate(transfer);
        else
            kit_rma_transfer_end(transfer, NA_PLUGIN_PROTOCOL_ERROR, true);
        return;
    case RMA_DONE:
        if (transfer->is_over)
            return;
        transfer->is_delivered = true;
        if (transfer->moved == transfer->pieces)
            kit_rma_activate(transfer);
        else
            kit_rma_transfer_end(transfer, NA_PLUGIN_PROTOCOL_ERROR, true);
        return;
    case RMA_STOP:
        transfer->stop = record->number;
        kit_rma_transfer_end(transfer, record_status(record), false);
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

/* Of a failure. */
static int32_t record_status(const struct rma_record *record)
{
    if (record->status >= NA_PLUGIN_PERMISSION && record->status <= NA_PLUGIN_HOSTFIREWALL)
        return record->status;
    return record->status == NA_PLUGIN_SUCCESS ? NA_PLUGIN_CANCELED : NA_PLUGIN_PROTOCOL_ERROR;
}
