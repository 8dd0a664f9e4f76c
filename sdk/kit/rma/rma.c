/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine's public functions. Events that the owner reports only mark transfers; kit_rma_poll()
 * and kit_rma_start() act on them.
 */

#include "rma_state.h"

#include <errno.h>
#include <string.h>

#define CONFIG_PIECE_SIZE (UINT32_C(256) << 10)
#define CONFIG_WINDOW     4u
#define CONFIG_PIECES     64u
#define CONFIG_TIMEOUT_MS 30000u
#define CONFIG_PART_SIZE  (UINT32_C(4) << 20)

static int32_t transfer_local(struct kit_rma *rma, const struct kit_rma_request *request);
static void transfer_run(struct kit_rma_transfer *transfer);
static bool transfer_move(struct kit_rma_transfer *transfer);
static void transfer_quiesce(struct kit_rma_transfer *transfer);
static bool transfer_is_reportable(const struct kit_rma_transfer *transfer);
static bool transfer_is_complete(const struct kit_rma_transfer *transfer);
static void transfer_free_unused(struct kit_rma_transfer *transfer);
static void transfers_quiesce(struct kit_rma *rma, const void *peer);
static int32_t config_check(const struct kit_rma_config *config);
static void config_complete(struct kit_rma_config *config);
static void tick(struct kit_rma *rma);
static void tick_list(struct kit_rma *rma, const struct kit_link *list);
static void targets_check(struct kit_rma *rma);
static void transfers_free(struct kit_rma *rma, struct kit_link *list);

int32_t kit_rma_open(const struct kit_rma_config *config, struct kit_rma **kit_rma_p)
{
    struct kit_rma *rma;
    int32_t ret;

    if (config_check(config) != NA_PLUGIN_SUCCESS)
        return NA_PLUGIN_INVALID_ARG;
    rma = kit_host->mem_alloc(sizeof(*rma), 64);
    if (rma == NULL)
        return NA_PLUGIN_NOMEM;
    rma->regions = config->regions != NULL ? config->regions : &rma->own_regions;
    ret = config->regions == NULL ? kit_regions_open(&rma->own_regions) : NA_PLUGIN_SUCCESS;
    if (ret != NA_PLUGIN_SUCCESS) {
        KIT_LOG(NA_PLUGIN_LOG_ERROR, config->plugin, "no random numbers (%s)", strerror(errno));
        kit_host->mem_free(rma);
        return ret;
    }
    rma->ops = config->ops;
    rma->owner = config->owner;
    rma->config = *config;
    config_complete(&rma->config);
    rma->timeout_ticks = rma->config.timeout_ms / RMA_TICK_MS + 2;
    kit_list_init(&rma->retry);
    kit_list_init(&rma->send_room);
    kit_list_init(&rma->receive_room);
    kit_list_init(&rma->origins);
    kit_list_init(&rma->active);
    kit_list_init(&rma->targets);
    kit_list_init(&rma->closing);
    kit_list_init(&rma->free_transfers);
    kit_list_init(&rma->free_parts);
    *kit_rma_p = rma;
    return NA_PLUGIN_SUCCESS;
}

void kit_rma_inline_only(struct kit_rma *rma, const struct kit_rma_sealed *sealed)
{
    if (rma->is_inline_only)
        return;
    rma->is_inline_only = true;
    rma->sealed_ops = *rma->ops;
    rma->sealed_ops.data_send = sealed->data_send;
    rma->sealed_ops.data_take = sealed->data_take;
    rma->sealed_ops.inline_size = NULL;
    rma->ops = &rma->sealed_ops;
    rma->config.inline_size = sealed->inline_size;
    rma->config.eager_size = 0;
}

void kit_rma_set_may_reach(struct kit_rma *rma,
                           bool (*may_reach)(void *owner, void *peer, struct kit_region *region))
{
    rma->may_reach = may_reach;
}

void kit_rma_close(struct kit_rma *rma)
{
    if (rma == NULL)
        return;
    transfers_free(rma, &rma->origins);
    transfers_free(rma, &rma->targets);
    transfers_free(rma, &rma->closing);
    transfers_free(NULL, &rma->free_transfers);
    while (!kit_list_empty(&rma->free_parts)) {
        struct rma_part *part = kit_container(rma->free_parts.next, struct rma_part, node);

        kit_list_remove(&part->node);
        kit_host->mem_free(part);
    }
    kit_table_free(&rma->ids);
    kit_rma_mem_free_all(rma);
    kit_host->mem_free(rma);
}

int32_t kit_rma_start(struct kit_rma *rma, const struct kit_rma_request *request,
                      struct kit_rma_transfer **transfer_p)
{
    struct kit_rma_transfer *transfer;
    int32_t ret;

    *transfer_p = NULL;
    if (request->remote->owner == rma->regions->owner && !kit_rma_owner_copies(rma))
        return transfer_local(rma, request);
    if (rma->is_inline_only && (request->local->mem_type != NA_PLUGIN_MEM_TYPE_HOST ||
                                request->remote->mem_type != NA_PLUGIN_MEM_TYPE_HOST))
        return NA_PLUGIN_OPNOTSUPPORTED;
    transfer = kit_rma_transfer_get(rma, request->peer, request->length);
    if (transfer == NULL)
        return NA_PLUGIN_NOMEM;
    transfer->is_origin = true;
    transfer->is_put = request->is_put != 0;
    transfer->request = *request;
    transfer->region = request->local;
    transfer->base = kit_rma_mem_base(request->local) + request->local_offset;
    kit_rma_transfer_plan(transfer);
    rma->origin_count++;
    kit_list_append(&rma->origins, &transfer->node);
    ret = kit_table_add(&rma->ids, transfer, &transfer->id);
    if (ret != NA_PLUGIN_SUCCESS) {
        transfer->is_aborted = true; /* it has no id to be removed */
        kit_rma_transfer_put(transfer);
        return ret;
    }
    *transfer_p = transfer;
    transfer_run(transfer);
    if (kit_likely(!transfer_is_reportable(transfer)))
        return NA_PLUGIN_SUCCESS;
    *transfer_p = NULL;
    ret = transfer->status;
    transfer->is_reported = true;
    transfer_free_unused(transfer);
    return ret;
}

/* The next poll sends the record that tells the other side. */
bool kit_rma_abandon(struct kit_rma *rma, struct kit_rma_transfer *transfer, int32_t status,
                     bool is_peer_gone)
{
    (void) rma;
    if (is_peer_gone)
        kit_rma_transfer_abort(transfer);
    kit_rma_transfer_end(transfer, status, !is_peer_gone);
    transfer_quiesce(transfer);
    if (transfer->in_use != 0)
        return false;
    transfer->is_reported = true; /* by the caller */
    return true;
}

void kit_rma_peer_failed(struct kit_rma *rma, void *peer, int32_t status)
{
    struct kit_link *const lists[] = {&rma->origins, &rma->targets, &rma->closing};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct kit_link *node = lists[i]->next;

        while (node != lists[i]) {
            struct kit_rma_transfer *transfer = kit_container(node, struct kit_rma_transfer, node);

            node = node->next;
            if ((peer != NULL && transfer->peer != peer) ||
                (transfer->is_aborted && lists[i] == &rma->closing))
                continue;
            kit_rma_transfer_abort(transfer);
            kit_rma_transfer_end(transfer, status, false);
        }
    }
    transfers_quiesce(rma, peer);
}

void kit_rma_poll(struct kit_rma *rma, uint64_t now_ns)
{
    while (kit_unlikely(!kit_list_empty(&rma->retry))) {
        struct kit_rma_transfer *transfer =
            kit_container(rma->retry.next, struct kit_rma_transfer, retry);

        kit_list_remove(&transfer->retry);
        kit_rma_activate(transfer);
    }
    if (kit_unlikely(now_ns != 0) && now_ns - rma->tick_last >= RMA_TICK_NS) {
        rma->tick_last = now_ns;
        tick(rma);
    }
    rma->attach_budget = RMA_ATTACH_BUDGET;
    kit_rma_dispatch(rma);
}

/* The owner's functions may activate further transfers, which are run before this returns. */
void kit_rma_dispatch(struct kit_rma *rma)
{
    while (kit_rma_room_activate(rma) || !kit_list_empty(&rma->active)) {
        struct kit_rma_transfer *transfer =
            kit_container(rma->active.next, struct kit_rma_transfer, active);

        transfer_run(transfer);
        if (transfer_is_reportable(transfer)) {
            transfer->is_reported = true;
            rma->ops->transfer_done(rma->owner, transfer->request.cookie, transfer->status);
        }
        transfer_free_unused(transfer);
    }
}

bool kit_rma_has_work(const struct kit_rma *rma)
{
    return !kit_list_empty(&rma->retry) || !kit_list_empty(&rma->active);
}

bool kit_rma_is_active(const struct kit_rma *rma)
{
    return rma->origin_count != 0 || rma->target_count != 0 || rma->closing_count != 0;
}

void kit_rma_counters_get(const struct kit_rma *rma, struct kit_rma_counters *counters)
{
    *counters = rma->counters;
    counters->transfers = rma->origin_count;
    counters->targets = rma->target_count;
    counters->closing = rma->closing_count;
    counters->sends = rma->sends;
    counters->receives = rma->receives;
}

/* Copies to or from memory that is registered with this very object. */
static int32_t transfer_local(struct kit_rma *rma, const struct kit_rma_request *request)
{
    uint8_t *local = kit_rma_mem_base(request->local) + request->local_offset, *remote;
    struct kit_region *region;
    int32_t ret = kit_region_find(rma->regions, request->remote->id, &request->remote->key,
                                  request->is_put != 0 ? NA_PLUGIN_MEM_WRITE : NA_PLUGIN_MEM_READ,
                                  request->remote_offset, request->length, &region);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    if (region->mem_type != NA_PLUGIN_MEM_TYPE_HOST ||
        request->local->mem_type != NA_PLUGIN_MEM_TYPE_HOST)
        return NA_PLUGIN_OPNOTSUPPORTED;
    remote = kit_rma_mem_base(region) + request->remote_offset;
    if (request->is_put != 0)
        memmove(remote, local, request->length);
    else
        memmove(local, remote, request->length);
    return NA_PLUGIN_SUCCESS;
}

/* Moves bytes and sends records until the owner has no resources or nothing is left to be done. */
static void transfer_run(struct kit_rma_transfer *transfer)
{
    bool is_again;

    do {
        kit_list_remove(&transfer->active);
        is_again = false;
        if (transfer->is_over)
            transfer_quiesce(transfer);
        else
            is_again = !transfer_move(transfer);
        if (transfer->pending != 0)
            is_again |= !kit_rma_records_send(transfer);
    } while (!kit_list_empty(&transfer->active));
    if (kit_unlikely(is_again) && kit_list_empty(&transfer->retry))
        kit_list_append(&transfer->rma->retry, &transfer->retry);
}

static bool transfer_move(struct kit_rma_transfer *transfer)
{
    if (transfer->mover == KIT_RMA_PIECES)
        return kit_rma_pieces_move(transfer);
    return transfer->mover == KIT_RMA_INLINE ? kit_rma_inline_move(transfer)
                                             : kit_rma_move_run(transfer);
}

static void transfer_quiesce(struct kit_rma_transfer *transfer)
{
    if (kit_rma_is_remote(transfer->mover))
        kit_rma_move_quiesce(transfer);
    else
        kit_rma_pieces_quiesce(transfer);
}

static bool transfer_is_reportable(const struct kit_rma_transfer *transfer)
{
    return transfer->is_origin && !transfer->is_reported && transfer->in_use == 0 &&
           (transfer->is_over || transfer_is_complete(transfer));
}

static bool transfer_is_complete(const struct kit_rma_transfer *transfer)
{
    if (transfer->done != transfer->pieces)
        return false;
    return transfer->is_origin != transfer->is_sender || transfer->is_delivered;
}

/* Frees a transfer that is over for both sides, once no record and no piece of it is left. */
static void transfer_free_unused(struct kit_rma_transfer *transfer)
{
    if ((transfer->is_over || transfer_is_complete(transfer)) &&
        (!transfer->is_origin || transfer->is_reported) && kit_list_empty(&transfer->parts) &&
        transfer->in_use == 0 && transfer->pending == 0)
        kit_rma_transfer_put(transfer);
}

/* Cancels what the ended transfers of the peer have in flight. No callback changes rma->closing. */
static void transfers_quiesce(struct kit_rma *rma, const void *peer)
{
    for (struct kit_link *node = rma->closing.next; node != &rma->closing; node = node->next) {
        struct kit_rma_transfer *transfer = kit_container(node, struct kit_rma_transfer, node);

        if (peer == NULL || transfer->peer == peer)
            transfer_quiesce(transfer);
    }
}

static int32_t config_check(const struct kit_rma_config *config)
{
    struct kit_rma_config completed = *config;

    config_complete(&completed);
    if (completed.control_size < KIT_RMA_CONTROL_MIN ||
        completed.control_size > KIT_RMA_CONTROL_MAX ||
        (config->ops->data_take == NULL &&
         completed.inline_size > completed.control_size - sizeof(struct rma_record))) {
        KIT_LOG(NA_PLUGIN_LOG_ERROR, config->plugin,
                "control records of %u bytes with %u bytes of data are not possible: %u to %u "
                "bytes, of which %zu are not data",
                completed.control_size, completed.inline_size, KIT_RMA_CONTROL_MIN,
                KIT_RMA_CONTROL_MAX, sizeof(struct rma_record));
        return NA_PLUGIN_INVALID_ARG;
    }
    if (completed.piece_size >= RMA_PIECE_MIN && completed.piece_size <= RMA_PIECE_MAX &&
        completed.window <= RMA_WINDOW_MAX && completed.tag_count >= RMA_TAGS_MIN &&
        completed.first_tag <= UINT32_MAX - completed.tag_count)
        return NA_PLUGIN_SUCCESS;
    KIT_LOG(NA_PLUGIN_LOG_ERROR, config->plugin,
            "pieces of %u bytes, %u at a time, with the %u tags from %u on, do not make a "
            "transfer: %u to %u bytes, up to %u, at least %u tags",
            completed.piece_size, completed.window, completed.tag_count, completed.first_tag,
            RMA_PIECE_MIN, RMA_PIECE_MAX, RMA_WINDOW_MAX, RMA_TAGS_MIN);
    return NA_PLUGIN_INVALID_ARG;
}

static void config_complete(struct kit_rma_config *config)
{
    if (config->piece_size == 0)
        config->piece_size = CONFIG_PIECE_SIZE;
    if (config->window == 0)
        config->window = CONFIG_WINDOW;
    if (config->max_sends == 0)
        config->max_sends = CONFIG_PIECES;
    if (config->max_receives == 0)
        config->max_receives = CONFIG_PIECES;
    if (config->tag_count == 0 || config->tag_count > RMA_TAGS_MAX)
        config->tag_count = RMA_TAGS_MAX;
    if (config->max_receives > config->tag_count / 4)
        config->max_receives = config->tag_count / 4;
    if (config->peer_tag_high == 0) {
        config->peer_tag_low = config->first_tag;
        config->peer_tag_high = config->first_tag + (config->tag_count - 1);
    }
    if (config->control_size == 0)
        config->control_size = KIT_RMA_CONTROL_MIN;
    if (config->part_size == 0)
        config->part_size = CONFIG_PART_SIZE;
    if (config->timeout_ms == 0)
        config->timeout_ms = CONFIG_TIMEOUT_MS;
}

static void tick(struct kit_rma *rma)
{
    if (!kit_rma_is_active(rma))
        return;
    rma->stalled = 0;
    tick_list(rma, &rma->origins);
    tick_list(rma, &rma->targets);
    tick_list(rma, &rma->closing);
    targets_check(rma);
}

static void tick_list(struct kit_rma *rma, const struct kit_link *list)
{
    for (struct kit_link *node = list->next; node != list; node = node->next) {
        struct kit_rma_transfer *transfer = kit_container(node, struct kit_rma_transfer, node);

        if (++transfer->silent_ticks < RMA_STALL_TICKS || transfer->is_sender)
            continue;
        for (struct kit_link *part = transfer->parts.next; part != &transfer->parts;
             part = part->next)
            rma->stalled++;
    }
}

/* Probes silent origins, and abandons the transfers of those that do not answer in time. */
static void targets_check(struct kit_rma *rma)
{
    struct kit_link *node = rma->targets.next;

    while (node != &rma->targets) {
        struct kit_rma_transfer *transfer = kit_container(node, struct kit_rma_transfer, node);

        node = node->next;
        if (transfer->silent_ticks < rma->timeout_ticks / 2)
            continue;
        if (transfer->silent_ticks < rma->timeout_ticks) {
            if ((transfer->silent_ticks - rma->timeout_ticks / 2) % (rma->timeout_ticks / 4 + 1) !=
                0)
                continue;
            transfer->pending |= RMA_PENDING(RMA_PROBE);
            kit_rma_activate(transfer);
            continue;
        }
        rma->counters.timeouts++;
        RMA_LOG_WARNING(rma,
                        "a transfer of %llu bytes is abandoned: its origin was silent for %u ms",
                        (unsigned long long) transfer->length, rma->config.timeout_ms);
        kit_rma_transfer_end(transfer, NA_PLUGIN_TIMEOUT, true);
    }
}

/* Frees transfers and their pieces. `rma` NULL: unused transfers, without a peer. */
static void transfers_free(struct kit_rma *rma, struct kit_link *list)
{
    while (!kit_list_empty(list)) {
        struct kit_rma_transfer *transfer =
            kit_container(list->next, struct kit_rma_transfer, node);

        kit_list_remove(&transfer->node);
        while (rma != NULL && !kit_list_empty(&transfer->parts)) {
            struct rma_part *part = kit_container(transfer->parts.next, struct rma_part, node);

            kit_list_remove(&part->node);
            kit_host->mem_free(part);
        }
        if (rma != NULL && kit_rma_is_remote(transfer->mover)) {
            transfer->is_aborted = true;
            kit_rma_move_quiesce(transfer);
        }
        if (rma != NULL && rma->ops->peer_release != NULL)
            rma->ops->peer_release(rma->owner, transfer->peer);
        kit_host->mem_free(transfer);
    }
}
