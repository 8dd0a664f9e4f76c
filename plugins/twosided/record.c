/* SPDX-License-Identifier: BSD-3-Clause */
/* Control records: writing what a transfer owes, reading what peers send and trusting nothing. */

#include "state.h"

#include <endian.h>
#include <string.h>

/* A record that came, in our byte order. */
struct record_in {
    struct twosided_record record;
    uint32_t tags[TWOSIDED_WINDOW_MAX];
};

static int32_t record_send(struct twosided_transfer *transfer, enum twosided_kind kind);
static uint32_t record_tags(struct twosided_transfer *transfer, uint32_t *tags);
static bool record_read(const void *data, uint64_t size, struct record_in *in);
static bool record_fits(const struct twosided_transfer *transfer,
                        const struct twosided_record *record);
static void record_stale(struct twosided *ts, void *peer, const struct twosided_record *record);
static void record_take(struct twosided_transfer *transfer, const struct record_in *in);
static int32_t record_status(const struct twosided_record *record);

/* What is owed, in order. False when the owner wants to be asked again. */
bool twosided_records_send(struct twosided_transfer *transfer)
{
    for (int kind = 0; kind < TWOSIDED_KINDS && transfer->owes != 0; kind++) {
        int32_t ret;

        if ((transfer->owes & TWOSIDED_OWES(kind)) == 0)
            continue;
        ret = record_send(transfer, (enum twosided_kind) kind);
        if (kit_likely(ret == NA_PLUGIN_SUCCESS))
            continue;
        if (ret == NA_PLUGIN_AGAIN || ret == NA_PLUGIN_NOMEM)
            return false;
        /* The peer failed. */
        twosided_transfer_cut(transfer);
        twosided_transfer_end(transfer, ret, false);
        return true;
    }
    return true;
}

/* Without a transfer, and once. */
void twosided_answer(struct twosided *ts, void *peer, const struct twosided_record *to,
                     enum twosided_kind kind, uint64_t number, int32_t status)
{
    struct twosided_record record = {
        .magic = htole32(TWOSIDED_MAGIC),
        .version = TWOSIDED_VERSION,
        .kind = (uint8_t) kind,
        .flags = to->flags ^ TWOSIDED_FROM_ORIGIN,
        .transfer = htole64(to->transfer),
        .number = htole64(number),
        .status = (int32_t) htole32((uint32_t) status),
    };
    int32_t ret = ts->ops->control_send(ts->owner, peer, &record, sizeof(record));

    if (ret != NA_PLUGIN_SUCCESS)
        TWOSIDED_LOG_WARNING(ts, "a peer could not be answered: status %d", ret);
}

void twosided_control(struct twosided *ts, void *peer, const void *data, uint64_t size)
{
    struct twosided_transfer *transfer;
    struct record_in in;

    if (kit_unlikely(!record_read(data, size, &in))) {
        ts->counters.records_bad++;
        TWOSIDED_LOG_DEBUG(ts, "dropped %llu bytes that are no control record",
                           (unsigned long long) size);
        return;
    }
    if ((in.record.flags & TWOSIDED_FROM_ORIGIN) != 0) {
        transfer = twosided_job_find(ts, peer, in.record.transfer);
    } else {
        transfer = kit_table_find(&ts->ids, in.record.transfer);
        if (transfer != NULL && transfer->peer != peer)
            transfer = NULL;
    }
    if (in.record.kind == TWOSIDED_REQUEST) {
        if (kit_likely(transfer == NULL))
            twosided_job_start(ts, peer, &in.record, in.tags);
        else
            ts->counters.records_bad++;
        return;
    }
    if (kit_unlikely(transfer == NULL)) {
        record_stale(ts, peer, &in.record);
        return;
    }
    if (kit_unlikely(!record_fits(transfer, &in.record))) {
        ts->counters.records_bad++;
        return;
    }
    transfer->quiet = 0;
    record_take(transfer, &in);
}

/* When it was sent it is not owed any more. */
static int32_t record_send(struct twosided_transfer *transfer, enum twosided_kind kind)
{
    struct twosided *ts = transfer->ts;
    struct {
        struct twosided_record record;
        uint32_t tags[TWOSIDED_WINDOW_MAX];
    } out = {.record = {
                 .magic = htole32(TWOSIDED_MAGIC),
                 .version = TWOSIDED_VERSION,
                 .kind = (uint8_t) kind,
                 .transfer = htole64(transfer->id),
             }};
    uint64_t moved = transfer->moved;
    uint32_t owed = TWOSIDED_OWES(kind);
    int32_t ret;

    if (transfer->is_origin)
        out.record.flags |= TWOSIDED_FROM_ORIGIN;
    if (transfer->is_put)
        out.record.flags |= TWOSIDED_IS_PUT;
    if (kind == TWOSIDED_REQUEST) {
        out.record.memory = htole64(transfer->remote_id);
        out.record.key = transfer->remote_key;
        out.record.offset = htole64(transfer->remote_offset);
        out.record.length = htole64(transfer->length);
        out.record.piece_size = htole32(transfer->piece_size);
    }
    if (kind <= TWOSIDED_GRANT && !transfer->is_sender) {
        out.record.number = htole64(transfer->moved);
        out.record.tag_count = (uint8_t) record_tags(transfer, out.tags);
        moved = transfer->granted;
        owed |= TWOSIDED_OWES(TWOSIDED_GRANT);
    }
    if (kind == TWOSIDED_STOP)
        out.record.number = htole64(transfer->moved);
    if (kind == TWOSIDED_STOP || kind == TWOSIDED_CANCEL)
        out.record.status = (int32_t) htole32((uint32_t) transfer->status);
    /* The answer may come inside of the call. */
    transfer->owes &= ~owed;
    transfer->is_known |= kind == TWOSIDED_REQUEST;
    if (!transfer->is_sender)
        transfer->moved = moved;
    ret = ts->ops->control_send(ts->owner, transfer->peer, &out,
                                (uint32_t) sizeof(out.record) + 4 * out.record.tag_count);
    if (kit_likely(ret == NA_PLUGIN_SUCCESS))
        return ret;
    if (!transfer->is_cut && !transfer->is_over)
        transfer->owes |= owed;
    if (!transfer->is_sender)
        transfer->moved -= out.record.tag_count;
    if (kind == TWOSIDED_REQUEST)
        transfer->is_known = false;
    if (transfer->is_over && !transfer->is_cut)
        transfer->owes |=
            TWOSIDED_OWES(kind) & (TWOSIDED_OWES(TWOSIDED_STOP) | TWOSIDED_OWES(TWOSIDED_CANCEL));
    return ret;
}

static uint32_t record_tags(struct twosided_transfer *transfer, uint32_t *tags)
{
    uint32_t count = 0;

    for (uint64_t i = transfer->moved; i < transfer->granted; i++)
        tags[count++] = htole32(transfer->tags[i % TWOSIDED_WINDOW_MAX]);
    return count;
}

/* False when it is none. */
static bool record_read(const void *data, uint64_t size, struct record_in *in)
{
    struct twosided_record *record = &in->record;

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
    if (record->magic != TWOSIDED_MAGIC || record->version != TWOSIDED_VERSION ||
        record->kind >= TWOSIDED_KINDS ||
        (record->flags & ~(TWOSIDED_FROM_ORIGIN | TWOSIDED_IS_PUT)) != 0 ||
        record->tag_count > TWOSIDED_WINDOW_MAX || size != sizeof(*record) + 4u * record->tag_count)
        return false;
    memcpy(in->tags, (const uint8_t *) data + sizeof(*record), 4u * record->tag_count);
    for (uint32_t i = 0; i < record->tag_count; i++)
        in->tags[i] = le32toh(in->tags[i]);
    return record->kind != TWOSIDED_REQUEST || (record->flags & TWOSIDED_FROM_ORIGIN) != 0;
}

/* True when it can come from the other side of this transfer. */
static bool record_fits(const struct twosided_transfer *transfer,
                        const struct twosided_record *record)
{
    if (transfer->is_put != ((record->flags & TWOSIDED_IS_PUT) != 0))
        return false;
    switch (record->kind) {
    case TWOSIDED_GRANT:
    case TWOSIDED_CANCEL:
        return transfer->is_sender;
    case TWOSIDED_STOP:
        return !transfer->is_sender;
    case TWOSIDED_DONE:
        return transfer->is_sender && transfer->is_origin;
    case TWOSIDED_PROBE:
        return transfer->is_origin;
    case TWOSIDED_ALIVE:
        return !transfer->is_origin;
    default:
        return false;
    }
}

/* Who asks for an answer gets one: that all was sent, or that nobody is there. */
static void record_stale(struct twosided *ts, void *peer, const struct twosided_record *record)
{
    bool is_put = (record->flags & TWOSIDED_IS_PUT) != 0;
    bool is_from_origin = (record->flags & TWOSIDED_FROM_ORIGIN) != 0;

    ts->counters.records_stale++;
    if (record->kind == TWOSIDED_CANCEL && is_from_origin)
        twosided_answer(ts, peer, record, TWOSIDED_STOP, UINT64_MAX, NA_PLUGIN_SUCCESS);
    if (record->kind == TWOSIDED_PROBE && !is_from_origin)
        twosided_answer(ts, peer, record, is_put ? TWOSIDED_STOP : TWOSIDED_CANCEL, UINT64_MAX,
                        NA_PLUGIN_CANCELED);
}

/* The transfer may be gone afterwards. */
static void record_take(struct twosided_transfer *transfer, const struct record_in *in)
{
    const struct twosided_record *record = &in->record;

    switch (record->kind) {
    case TWOSIDED_GRANT:
        if (transfer->is_over)
            return;
        if (kit_likely(twosided_tags_take(transfer, record, in->tags)))
            twosided_transfer_run(transfer);
        else
            twosided_transfer_end(transfer, NA_PLUGIN_PROTOCOL_ERROR, true);
        return;
    case TWOSIDED_DONE:
        if (transfer->is_over)
            return;
        transfer->is_landed = true;
        if (transfer->moved == transfer->pieces)
            twosided_transfer_run(transfer);
        else
            twosided_transfer_end(transfer, NA_PLUGIN_PROTOCOL_ERROR, true);
        return;
    case TWOSIDED_STOP:
        transfer->stop = record->number;
        twosided_transfer_end(transfer, record_status(record), false);
        return;
    case TWOSIDED_CANCEL:
        if (!transfer->is_over)
            twosided_transfer_end(transfer, record_status(record), true);
        return;
    case TWOSIDED_PROBE:
        transfer->owes |= TWOSIDED_OWES(TWOSIDED_ALIVE);
        twosided_transfer_run(transfer);
        return;
    default:
        return;
    }
}

/* Of a failure. */
static int32_t record_status(const struct twosided_record *record)
{
    if (record->status >= NA_PLUGIN_PERMISSION && record->status <= NA_PLUGIN_HOSTFIREWALL)
        return record->status;
    return record->status == NA_PLUGIN_SUCCESS ? NA_PLUGIN_CANCELED : NA_PLUGIN_PROTOCOL_ERROR;
}
