/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces: the receiver posts receives and grants their tags, the sender sends to granted tags. */

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
static bool room_activate(struct kit_rma *rma, struct kit_link *list, bool is_send);
static uint32_t tag_get(struct kit_rma *rma);
static void tag_put(struct kit_rma *rma, uint32_t tag);

/* Activates a transfer that waited for max_sends or max_receives. False: there is none. */
bool kit_rma_room_activate(struct kit_rma *rma)
{
    return room_activate(rma, &rma->send_room, true) ||
           room_activate(rma, &rma->receive_room, false);
}

/* Returns false if the owner had no resources: the caller retries. */
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
    if (part->is_in_use)
        transfer->in_use--;
    piece_count(transfer, part, status, size);
    part_put(rma, part);
    kit_rma_activate(transfer);
}

void kit_rma_piece_released(struct kit_rma *rma, struct kit_rma_piece *piece)
{
    struct rma_part *part = (struct rma_part *) (void *) piece;

    (void) rma;
    if (!part->is_in_use)
        return;
    part->is_in_use = false;
    part->transfer->in_use--;
    kit_rma_activate(part->transfer);
}

/*
 * The transfer has ended: cancels its pieces, and withdraws receives whose piece will not come, or
 * all pieces if the peer is gone. The owner may complete pieces inside of these calls, so that the
 * list is walked from its start again.
 */
void kit_rma_pieces_quiesce(struct kit_rma_transfer *transfer)
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

/* Takes the tags that the receiver grants; in host byte order. False: the record is invalid. */
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
        transfer->moved++; /* before the call, in which the piece may complete */
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

/* Posts receives once a quarter of the window is free, so that one GRANT has several tags. */
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
    /* max_receives excludes stalled receives, but half of the tags stay free for tag_get(). */
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
    part->is_in_use = true;
    part->is_canceled = part->is_withdrawn = false;
    part->piece.peer = transfer->peer;
    part->piece.memory = transfer->base + offset;
    part->piece.size = left < transfer->piece_size ? left : transfer->piece_size;
    part->piece.tag = tag;
    part->piece.is_send = transfer->is_sender;
    part->piece.is_device = transfer->is_device;
    kit_list_append(&transfer->parts, &part->node);
    transfer->in_use++;
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
    if (part->is_in_use)
        transfer->in_use--;
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

/* Updates the transfer of a piece that completed. */
static void piece_count(struct kit_rma_transfer *transfer, const struct rma_part *part,
                        int32_t status, uint64_t size)
{
    bool is_send = part->piece.is_send != 0;

    transfer->silent_ticks = 0;
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

/* The owner may complete any pieces inside of piece_cancel: the walk starts again after each. */
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
        if (rma->ops->piece_cancel(rma->owner, &part->piece) && part->is_in_use) {
            part->is_in_use = false;
            transfer->in_use--;
        }
        node = transfer->parts.next;
    }
}

/* Activates the first waiting transfer, ahead of those that have pieces in flight already. */
static bool room_activate(struct kit_rma *rma, struct kit_link *list, bool is_send)
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

/* Tags are used in turn, so that a freed one is not reused soon. At most half are in use. */
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
