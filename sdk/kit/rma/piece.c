/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces: receives are posted before the sender learns their tags, sends follow what it learned. */

#include "rma_state.h"

static bool pieces_send(struct kit_rma_transfer *transfer);
static bool pieces_receive(struct kit_rma_transfer *transfer);
static bool piece_has_room(const struct kit_rma *rma, bool is_send);
static int32_t piece_start(struct kit_rma_transfer *transfer, uint64_t number, uint32_t tag);
static struct rma_part *part_get(struct kit_rma *rma);
static void part_put(struct kit_rma *rma, struct rma_part *part);
static void piece_count(struct kit_rma_transfer *transfer, const struct rma_part *part,
                        int32_t status, uint64_t size);
static void pieces_cancel(struct kit_rma_transfer *transfer);
static bool room_pass(struct kit_rma *rma, struct kit_link *list, bool is_send);
static uint32_t tag_get(struct kit_rma *rma);
static void tag_put(struct kit_rma *rma, uint32_t tag);

/* Whether a transfer that waited for room is the next to be looked after. */
bool kit_rma_room_pass(struct kit_rma *rma)
{
    return room_pass(rma, &rma->send_room, true) || room_pass(rma, &rma->receive_room, false);
}

/* False when the owner wants to be asked again. */
bool kit_rma_pieces_move(struct kit_rma_transfer *transfer)
{
    return transfer->is_sender ? pieces_send(transfer) : pieces_receive(transfer);
}

void kit_rma_piece_done(struct kit_rma *rma, struct kit_rma_piece *piece, int32_t status,
                        uint64_t size)
{
    struct rma_part *part = (struct rma_part *) (void *) piece;
    struct kit_rma_transfer *transfer = part->transfer;

    kit_list_remove(&part->node);
    if (piece->is_send != 0) {
        rma->sends--;
    } else {
        rma->receives--;
        tag_put(rma, piece->tag);
    }
    if (part->is_in_touch)
        transfer->in_touch--;
    piece_count(transfer, part, status, size);
    part_put(rma, part);
    kit_rma_activate(transfer);
}

void kit_rma_piece_released(struct kit_rma *rma, struct kit_rma_piece *piece)
{
    struct rma_part *part = (struct rma_part *) (void *) piece;

    (void) rma;
    if (!part->is_in_touch)
        return;
    part->is_in_touch = false;
    part->transfer->in_touch--;
    kit_rma_activate(part->transfer);
}

/*
 * The transfer is over: the network is to leave its memory alone, and receives whose piece will not
 * come are withdrawn, or all of them when the peer is gone. Pieces may end in here.
 */
void kit_rma_pieces_leave(struct kit_rma_transfer *transfer)
{
    const struct kit_rma *rma = transfer->rma;
    struct kit_link *node;

    if (!transfer->is_canceled)
        pieces_cancel(transfer);
    node = transfer->parts.next;
    while (node != &transfer->parts) {
        struct rma_part *part = kit_container(node, struct rma_part, node);
        bool is_coming = transfer->is_sender
                             ? !transfer->is_aborted
                             : part->number < transfer->stop && part->number < transfer->moved;

        node = node->next;
        if (part->is_withdrawn || is_coming)
            continue;
        part->is_withdrawn = true;
        rma->ops->piece_withdraw(rma->owner, &part->piece);
        node = transfer->parts.next;
    }
}

/* Tags that the receiver tells us; the record is in our byte order. False: it is not right. */
bool kit_rma_tags_take(struct kit_rma_transfer *transfer, const struct rma_record *record,
                       const uint32_t *tags)
{
    const struct kit_rma_config *config = &transfer->rma->config;

    if (record->number != transfer->granted || record->tag_count == 0 ||
        record->tag_count > transfer->pieces - transfer->granted ||
        transfer->granted - transfer->moved + record->tag_count > RMA_WINDOW_MAX)
        return false;
    for (uint32_t i = 0; i < record->tag_count; i++)
        if (tags[i] < config->peer_tag_low || tags[i] > config->peer_tag_high)
            return false;
    for (uint32_t i = 0; i < record->tag_count; i++)
        transfer->tags[transfer->granted++ % RMA_WINDOW_MAX] = tags[i];
    return true;
}

static bool pieces_send(struct kit_rma_transfer *transfer)
{
    struct kit_rma *rma = transfer->rma;

    while (!transfer->is_over && transfer->moved < transfer->granted) {
        uint64_t number = transfer->moved;
        int32_t ret;

        if (kit_unlikely(!piece_has_room(rma, true))) {
            if (kit_list_empty(&transfer->room))
                kit_list_append(&rma->send_room, &transfer->room);
            return true;
        }
        transfer->moved++; /* also when it ends in the call */
        ret = piece_start(transfer, number, transfer->tags[number % RMA_WINDOW_MAX]);
        if (kit_likely(ret == NA_PLUGIN_SUCCESS))
            continue;
        transfer->moved--;
        if (ret == NA_PLUGIN_AGAIN || ret == NA_PLUGIN_NOMEM)
            return false;
        kit_rma_transfer_end(transfer, ret, true);
    }
    return true;
}

/* Of a large window some pieces at a time: each GRANT is a record. */
static bool pieces_receive(struct kit_rma_transfer *transfer)
{
    struct kit_rma *rma = transfer->rma;
    const uint32_t window = rma->config.window;

    if (transfer->granted - transfer->done > window - window / RMA_WINDOW_PARTS)
        return true;
    while (!transfer->is_over && transfer->granted < transfer->pieces &&
           transfer->granted - transfer->done < window) {
        uint64_t number = transfer->granted;
        uint32_t tag;
        int32_t ret;

        if (kit_unlikely(!piece_has_room(rma, false))) {
            if (kit_list_empty(&transfer->room))
                kit_list_append(&rma->receive_room, &transfer->room);
            return true;
        }
        tag = tag_get(rma);
        ret = piece_start(transfer, number, tag);
        if (kit_likely(ret == NA_PLUGIN_SUCCESS)) {
            transfer->tags[number % RMA_WINDOW_MAX] = tag;
            transfer->granted++;
            transfer->pending |= RMA_PENDING(RMA_GRANT);
            continue;
        }
        tag_put(rma, tag);
        if (ret == NA_PLUGIN_AGAIN || ret == NA_PLUGIN_NOMEM)
            return false;
        kit_rma_transfer_end(transfer, ret, true);
    }
    return true;
}

static bool piece_has_room(const struct kit_rma *rma, bool is_send)
{
    if (is_send)
        return rma->sends < rma->config.max_sends;
    /* Those that stall do not keep others out, but tags have an end. */
    return rma->receives < rma->config.tag_count / 2 &&
           (rma->receives < rma->stalled ||
            rma->receives - rma->stalled < rma->config.max_receives);
}

static int32_t piece_start(struct kit_rma_transfer *transfer, uint64_t number, uint32_t tag)
{
    struct kit_rma *rma = transfer->rma;
    struct rma_part *part = part_get(rma);
    uint64_t offset = number * transfer->piece_size;
    uint64_t left = transfer->length - offset;
    int32_t ret;

    if (part == NULL)
        return NA_PLUGIN_NOMEM;
    part->transfer = transfer;
    part->number = number;
    part->is_in_touch = true;
    part->is_canceled = part->is_withdrawn = false;
    part->piece.peer = transfer->peer;
    part->piece.memory = transfer->base + offset;
    part->piece.size = left < transfer->piece_size ? left : transfer->piece_size;
    part->piece.tag = tag;
    part->piece.is_send = transfer->is_sender;
    part->piece.is_device = transfer->is_device;
    kit_list_append(&transfer->parts, &part->node);
    transfer->in_touch++;
    if (transfer->is_sender) {
        rma->sends++;
        ret = rma->ops->piece_send(rma->owner, &part->piece);
    } else {
        rma->receives++;
        ret = rma->ops->piece_recv(rma->owner, &part->piece);
    }
    if (kit_likely(ret == NA_PLUGIN_SUCCESS))
        return ret;
    kit_list_remove(&part->node);
    if (part->is_in_touch)
        transfer->in_touch--;
    if (transfer->is_sender)
        rma->sends--;
    else
        rma->receives--;
    part_put(rma, part);
    return ret;
}

static struct rma_part *part_get(struct kit_rma *rma)
{
    struct rma_part *part;

    if (kit_likely(!kit_list_empty(&rma->free_parts))) {
        part = kit_container(rma->free_parts.next, struct rma_part, node);
        kit_list_remove(&part->node);
        return part;
    }
    part = kit_host->mem_alloc(RMA_PART_SIZE + rma->config.piece_private, 64);
    if (part == NULL)
        return NULL;
    kit_list_init(&part->node);
    part->piece.priv = (uint8_t *) part + RMA_PART_SIZE;
    return part;
}

static void part_put(struct kit_rma *rma, struct rma_part *part)
{
    kit_list_append(&rma->free_parts, &part->node);
}

/* What a piece that ended means for its transfer. */
static void piece_count(struct kit_rma_transfer *transfer, const struct rma_part *part,
                        int32_t status, uint64_t size)
{
    bool is_send = part->piece.is_send != 0;

    transfer->quiet = 0;
    if (transfer->is_over) {
        if (!is_send && status == NA_PLUGIN_SUCCESS)
            transfer->rma->counters.pieces_late++;
        return;
    }
    if (status == NA_PLUGIN_SUCCESS && !is_send && size != part->piece.size)
        status = NA_PLUGIN_PROTOCOL_ERROR;
    if (status != NA_PLUGIN_SUCCESS) {
        kit_rma_transfer_end(transfer, status, true);
        return;
    }
    transfer->done++;
    if (!is_send && !transfer->is_origin && transfer->done == transfer->pieces) {
        transfer->is_delivered = true;
        transfer->pending |= RMA_PENDING(RMA_DONE);
    }
}

/* Pieces may end in here, this one and others. */
static void pieces_cancel(struct kit_rma_transfer *transfer)
{
    const struct kit_rma *rma = transfer->rma;
    struct kit_link *node = transfer->parts.next;

    transfer->is_canceled = true;
    while (node != &transfer->parts) {
        struct rma_part *part = kit_container(node, struct rma_part, node);

        node = node->next;
        if (part->is_canceled)
            continue;
        part->is_canceled = true;
        if (rma->ops->piece_cancel(rma->owner, &part->piece) && part->is_in_touch) {
            part->is_in_touch = false;
            transfer->in_touch--;
        }
        node = transfer->parts.next;
    }
}

/* Before those that have pieces under way already. */
static bool room_pass(struct kit_rma *rma, struct kit_link *list, bool is_send)
{
    struct kit_rma_transfer *transfer;

    if (kit_likely(kit_list_empty(list)) || !piece_has_room(rma, is_send))
        return false;
    transfer = kit_container(list->next, struct kit_rma_transfer, room);
    kit_list_remove(&transfer->room);
    kit_list_remove(&transfer->active);
    kit_list_prepend(&rma->active, &transfer->active);
    return true;
}

/* In turn, so that one which was just free is long not used; fewer than half are in use. */
static uint32_t tag_get(struct kit_rma *rma)
{
    uint32_t tag;

    do {
        tag = rma->tag_next++ % rma->config.tag_count;
    } while ((rma->tags_used[tag / 64] >> tag % 64 & 1) != 0);
    rma->tags_used[tag / 64] |= UINT64_C(1) << tag % 64;
    return rma->config.first_tag + tag;
}

static void tag_put(struct kit_rma *rma, uint32_t tag)
{
    tag -= rma->config.first_tag;
    rma->tags_used[tag / 64] &= ~(UINT64_C(1) << tag % 64);
}
