/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces: receives are posted before the sender learns their tags, sends follow what it learned. */

#include "state.h"

static bool pieces_send(struct twosided_transfer *transfer);
static bool pieces_receive(struct twosided_transfer *transfer);
static bool piece_has_room(const struct twosided *ts, bool is_send);
static int32_t piece_start(struct twosided_transfer *transfer, uint64_t number, uint32_t tag);
static struct twosided_part *part_get(struct twosided *ts);
static void part_put(struct twosided *ts, struct twosided_part *part);
static void piece_count(struct twosided_transfer *transfer, const struct twosided_part *part,
                        int32_t status, uint64_t size);
static void room_serve(struct twosided *ts, struct kit_link *list, bool is_send);
static uint32_t tag_get(struct twosided *ts);
static void tag_put(struct twosided *ts, uint32_t tag);

/* There may be room now that those which stall do not count. */
void twosided_pieces_look(struct twosided *ts)
{
    room_serve(ts, &ts->receive_room, false);
}

/* False when the owner wants to be asked again. */
bool twosided_pieces_move(struct twosided_transfer *transfer)
{
    return transfer->is_sender ? pieces_send(transfer) : pieces_receive(transfer);
}

void twosided_piece_done(struct twosided *ts, struct twosided_piece *piece, int32_t status,
                         uint64_t size)
{
    struct twosided_part *part = (struct twosided_part *) (void *) piece;
    struct twosided_transfer *transfer = part->transfer;
    bool is_send = piece->is_send != 0;

    kit_list_remove(&part->node);
    if (is_send) {
        ts->sends--;
    } else {
        ts->receives--;
        tag_put(ts, piece->tag);
    }
    transfer->holds++;
    if (part->is_in_touch)
        transfer->in_touch--;
    piece_count(transfer, part, status, size);
    part_put(ts, part);
    /* Those that wait come first. */
    room_serve(ts, is_send ? &ts->send_room : &ts->receive_room, is_send);
    transfer->holds--;
    twosided_transfer_run(transfer);
}

void twosided_piece_released(struct twosided *ts, struct twosided_piece *piece)
{
    struct twosided_part *part = (struct twosided_part *) (void *) piece;

    (void) ts;
    if (!part->is_in_touch)
        return;
    part->is_in_touch = false;
    part->transfer->in_touch--;
    twosided_transfer_run(part->transfer);
}

/* The transfer is over. */
void twosided_pieces_cancel(struct twosided_transfer *transfer)
{
    const struct twosided *ts = transfer->ts;

    for (struct kit_link *node = transfer->parts.next; node != &transfer->parts;
         node = node->next) {
        struct twosided_part *part = kit_container(node, struct twosided_part, node);

        if (ts->ops->piece_cancel(ts->owner, &part->piece) && part->is_in_touch) {
            part->is_in_touch = false;
            transfer->in_touch--;
        }
    }
}

/* Receives whose piece will not come, and all when the peer is gone. Each may end in the call. */
void twosided_pieces_withdraw(struct twosided_transfer *transfer)
{
    const struct twosided *ts = transfer->ts;
    struct kit_link *node = transfer->parts.next;

    while (node != &transfer->parts) {
        struct twosided_part *part = kit_container(node, struct twosided_part, node);
        bool is_coming = transfer->is_sender
                             ? !transfer->is_cut
                             : part->number < transfer->stop && part->number < transfer->moved;

        node = node->next;
        if (part->is_withdrawn || is_coming)
            continue;
        part->is_withdrawn = true;
        ts->ops->piece_withdraw(ts->owner, &part->piece);
        node = transfer->parts.next;
    }
}

/* Tags that the receiver tells us; the record is in our byte order. False: it is not right. */
bool twosided_tags_take(struct twosided_transfer *transfer, const struct twosided_record *record,
                        const uint32_t *tags)
{
    const struct twosided_config *config = &transfer->ts->config;

    if (record->number != transfer->granted || record->tag_count == 0 ||
        record->tag_count > transfer->pieces - transfer->granted ||
        transfer->granted - transfer->moved + record->tag_count > TWOSIDED_WINDOW_MAX)
        return false;
    for (uint32_t i = 0; i < record->tag_count; i++)
        if (tags[i] < config->peer_tag_low || tags[i] > config->peer_tag_high)
            return false;
    for (uint32_t i = 0; i < record->tag_count; i++)
        transfer->tags[transfer->granted++ % TWOSIDED_WINDOW_MAX] = tags[i];
    return true;
}

static bool pieces_send(struct twosided_transfer *transfer)
{
    struct twosided *ts = transfer->ts;

    while (!transfer->is_over && transfer->moved < transfer->granted) {
        uint64_t number = transfer->moved;
        int32_t ret;

        if (kit_unlikely(!piece_has_room(ts, true))) {
            if (kit_list_empty(&transfer->room))
                kit_list_append(&ts->send_room, &transfer->room);
            return true;
        }
        transfer->moved++; /* also when it ends in the call */
        ret = piece_start(transfer, number, transfer->tags[number % TWOSIDED_WINDOW_MAX]);
        if (kit_likely(ret == NA_PLUGIN_SUCCESS))
            continue;
        transfer->moved--;
        if (ret == NA_PLUGIN_AGAIN || ret == NA_PLUGIN_NOMEM)
            return false;
        twosided_transfer_end(transfer, ret, true);
    }
    return true;
}

static bool pieces_receive(struct twosided_transfer *transfer)
{
    struct twosided *ts = transfer->ts;

    while (!transfer->is_over && transfer->granted < transfer->pieces &&
           transfer->granted - transfer->done < ts->config.window) {
        uint64_t number = transfer->granted;
        uint32_t tag;
        int32_t ret;

        if (kit_unlikely(!piece_has_room(ts, false))) {
            if (kit_list_empty(&transfer->room))
                kit_list_append(&ts->receive_room, &transfer->room);
            return true;
        }
        tag = tag_get(ts);
        ret = piece_start(transfer, number, tag);
        if (kit_likely(ret == NA_PLUGIN_SUCCESS)) {
            transfer->tags[number % TWOSIDED_WINDOW_MAX] = tag;
            transfer->granted++;
            transfer->owes |= TWOSIDED_OWES(TWOSIDED_GRANT);
            continue;
        }
        tag_put(ts, tag);
        if (ret == NA_PLUGIN_AGAIN || ret == NA_PLUGIN_NOMEM)
            return false;
        twosided_transfer_end(transfer, ret, true);
    }
    return true;
}

static bool piece_has_room(const struct twosided *ts, bool is_send)
{
    if (is_send)
        return ts->sends < ts->config.max_sends;
    /* Those that stall do not keep others out, but tags have an end. */
    return ts->receives < ts->config.tag_count / 2 &&
           (ts->receives < ts->stalled || ts->receives - ts->stalled < ts->config.max_receives);
}

static int32_t piece_start(struct twosided_transfer *transfer, uint64_t number, uint32_t tag)
{
    struct twosided *ts = transfer->ts;
    struct twosided_part *part = part_get(ts);
    uint64_t offset = number * transfer->piece_size;
    uint64_t left = transfer->length - offset;
    int32_t ret;

    if (part == NULL)
        return NA_PLUGIN_NOMEM;
    part->transfer = transfer;
    part->number = number;
    part->is_in_touch = true;
    part->is_withdrawn = false;
    part->piece.peer = transfer->peer;
    part->piece.memory = transfer->base + offset;
    part->piece.size = left < transfer->piece_size ? left : transfer->piece_size;
    part->piece.tag = tag;
    part->piece.is_send = transfer->is_sender;
    kit_list_append(&transfer->parts, &part->node);
    transfer->in_touch++;
    if (transfer->is_sender) {
        ts->sends++;
        ret = ts->ops->piece_send(ts->owner, &part->piece);
    } else {
        ts->receives++;
        ret = ts->ops->piece_recv(ts->owner, &part->piece);
    }
    if (kit_likely(ret == NA_PLUGIN_SUCCESS))
        return ret;
    kit_list_remove(&part->node);
    if (part->is_in_touch)
        transfer->in_touch--;
    if (transfer->is_sender)
        ts->sends--;
    else
        ts->receives--;
    part_put(ts, part);
    return ret;
}

static struct twosided_part *part_get(struct twosided *ts)
{
    struct twosided_part *part;

    if (kit_likely(!kit_list_empty(&ts->free_parts))) {
        part = kit_container(ts->free_parts.next, struct twosided_part, node);
        kit_list_remove(&part->node);
        return part;
    }
    part = ts->host->mem_alloc(TWOSIDED_PART_SIZE + ts->config.piece_private, 64);
    if (part == NULL)
        return NULL;
    kit_list_init(&part->node);
    part->piece.private = (uint8_t *) part + TWOSIDED_PART_SIZE;
    return part;
}

static void part_put(struct twosided *ts, struct twosided_part *part)
{
    kit_list_append(&ts->free_parts, &part->node);
}

/* What a piece that ended means for its transfer. */
static void piece_count(struct twosided_transfer *transfer, const struct twosided_part *part,
                        int32_t status, uint64_t size)
{
    bool is_send = part->piece.is_send != 0;

    transfer->quiet = 0;
    if (transfer->is_over) {
        if (!is_send && status == NA_PLUGIN_SUCCESS)
            transfer->ts->counters.pieces_late++;
        return;
    }
    if (status == NA_PLUGIN_SUCCESS && !is_send && size != part->piece.size)
        status = NA_PLUGIN_PROTOCOL_ERROR;
    if (status != NA_PLUGIN_SUCCESS) {
        twosided_transfer_end(transfer, status, true);
        return;
    }
    transfer->done++;
    if (!is_send && !transfer->is_origin && transfer->done == transfer->pieces) {
        transfer->is_landed = true;
        transfer->owes |= TWOSIDED_OWES(TWOSIDED_DONE);
    }
}

/* One after the other, not one inside of the other. */
static void room_serve(struct twosided *ts, struct kit_link *list, bool is_send)
{
    if (kit_likely(kit_list_empty(list)) || ts->is_serving)
        return;
    ts->is_serving = true;
    while (!kit_list_empty(list) && piece_has_room(ts, is_send)) {
        struct twosided_transfer *transfer =
            kit_container(list->next, struct twosided_transfer, room);

        kit_list_remove(&transfer->room);
        twosided_transfer_run(transfer);
    }
    ts->is_serving = false;
}

/* In turn, so that one which was just free is long not used; fewer than half are in use. */
static uint32_t tag_get(struct twosided *ts)
{
    uint32_t tag;

    do {
        tag = ts->tag_next++ % ts->config.tag_count;
    } while ((ts->tags_used[tag / 64] >> tag % 64 & 1) != 0);
    ts->tags_used[tag / 64] |= UINT64_C(1) << tag % 64;
    return ts->config.first_tag + tag;
}

static void tag_put(struct twosided *ts, uint32_t tag)
{
    tag -= ts->config.first_tag;
    ts->tags_used[tag / 64] &= ~(UINT64_C(1) << tag % 64);
}
