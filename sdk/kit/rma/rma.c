/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing, and what the owner's poll gives time to. */

#include "rma_state.h"

#include <string.h>

#define CONFIG_PIECE_SIZE (UINT32_C(256) << 10)
#define CONFIG_WINDOW     4u
#define CONFIG_PIECES     64u
#define CONFIG_TIMEOUT_MS 30000u

static int32_t config_check(const struct kit_rma_config *config);
static void config_complete(struct kit_rma_config *config);
static void tick(struct kit_rma *rma);
static void tick_list(struct kit_rma *rma, const struct kit_link *list);
static void targets_check(struct kit_rma *rma);
static void list_move(struct kit_link *from, const void *peer, struct kit_link *to);
static void transfers_free(struct kit_rma *rma, struct kit_link *list);

int32_t kit_rma_open(const struct kit_rma_config *config, struct kit_rma **kit_rma_p)
{
    struct kit_rma *rma;
    int32_t ret;

    if (config_check(config) != NA_PLUGIN_SUCCESS)
        return NA_PLUGIN_INVALID_ARG;
    kit_host = config->host;
    rma = config->host->mem_alloc(sizeof(*rma), 64);
    if (rma == NULL)
        return NA_PLUGIN_NOMEM;
    ret = kit_regions_open(&rma->regions);
    if (ret != NA_PLUGIN_SUCCESS) {
        na_plugin_log(config->host, NA_PLUGIN_LOG_ERROR, config->plugin, __func__, __LINE__,
                      "the system has no random numbers");
        config->host->mem_free(rma);
        return ret;
    }
    rma->host = config->host;
    rma->ops = config->ops;
    rma->owner = config->owner;
    rma->config = *config;
    config_complete(&rma->config);
    rma->timeout_ticks = rma->config.timeout_ms / RMA_TICK_MS + 2;
    kit_list_init(&rma->retry);
    kit_list_init(&rma->send_room);
    kit_list_init(&rma->receive_room);
    kit_list_init(&rma->transfers);
    kit_list_init(&rma->targets);
    kit_list_init(&rma->closing);
    kit_list_init(&rma->free_transfers);
    kit_list_init(&rma->free_parts);
    *kit_rma_p = rma;
    return NA_PLUGIN_SUCCESS;
}

void kit_rma_close(struct kit_rma *rma)
{
    const struct na_host *host;

    if (rma == NULL)
        return;
    host = rma->host;
    transfers_free(rma, &rma->transfers);
    transfers_free(rma, &rma->targets);
    transfers_free(rma, &rma->closing);
    transfers_free(NULL, &rma->free_transfers);
    while (!kit_list_empty(&rma->free_parts)) {
        struct rma_part *part = kit_container(rma->free_parts.next, struct rma_part, node);

        kit_list_remove(&part->node);
        host->mem_free(part);
    }
    kit_table_free(&rma->ids);
    kit_rma_mem_free_all(rma);
    host->mem_free(rma);
}

/* One round of those that wait; who has to wait again is behind them. */
void kit_rma_poll(struct kit_rma *rma, uint64_t now_ns)
{
    struct kit_link waiting;

    if (kit_unlikely(!kit_list_empty(&rma->retry))) {
        waiting = rma->retry;
        waiting.next->prev = &waiting;
        waiting.prev->next = &waiting;
        kit_list_init(&rma->retry);
        while (!kit_list_empty(&waiting)) {
            struct kit_rma_transfer *transfer =
                kit_container(waiting.next, struct kit_rma_transfer, retry);

            kit_list_remove(&transfer->retry);
            kit_rma_transfer_run(transfer);
        }
    }
    if (kit_unlikely(now_ns != 0) && now_ns - rma->tick_last >= RMA_TICK_NS) {
        rma->tick_last = now_ns;
        tick(rma);
    }
}

/* What is reported may start new ones, which are not meant: those that are are set apart first. */
void kit_rma_peer_failed(struct kit_rma *rma, void *peer, int32_t status)
{
    struct kit_link failed;

    kit_list_init(&failed);
    list_move(&rma->transfers, peer, &failed);
    list_move(&rma->targets, peer, &failed);
    list_move(&rma->closing, peer, &failed);
    for (struct kit_link *node = failed.next; node != &failed; node = node->next)
        kit_rma_transfer_abort(kit_container(node, struct kit_rma_transfer, node));
    while (!kit_list_empty(&failed)) {
        struct kit_rma_transfer *transfer =
            kit_container(failed.next, struct kit_rma_transfer, node);

        /* Where its kind belongs; the end moves it on or frees it. */
        kit_list_remove(&transfer->node);
        kit_list_append(transfer->is_over     ? &rma->closing
                        : transfer->is_origin ? &rma->transfers
                                              : &rma->targets,
                        &transfer->node);
        kit_rma_transfer_end(transfer, status, false);
    }
}

bool kit_rma_has_work(const struct kit_rma *rma)
{
    return !kit_list_empty(&rma->retry);
}

bool kit_rma_is_active(const struct kit_rma *rma)
{
    return rma->transfer_count != 0 || rma->target_count != 0 || rma->closing_count != 0;
}

void kit_rma_counters_get(const struct kit_rma *rma, struct kit_rma_counters *counters)
{
    *counters = rma->counters;
    counters->transfers = rma->transfer_count;
    counters->targets = rma->target_count;
    counters->closing = rma->closing_count;
    counters->sends = rma->sends;
    counters->receives = rma->receives;
}

static int32_t config_check(const struct kit_rma_config *config)
{
    struct kit_rma_config completed = *config;

    config_complete(&completed);
    if (completed.piece_size >= RMA_PIECE_MIN && completed.piece_size <= RMA_PIECE_MAX &&
        completed.window <= RMA_WINDOW_MAX && completed.tag_count >= RMA_TAGS_MIN &&
        completed.first_tag <= UINT32_MAX - completed.tag_count)
        return NA_PLUGIN_SUCCESS;
    na_plugin_log(config->host, NA_PLUGIN_LOG_ERROR, config->plugin, __func__, __LINE__,
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
    if (config->timeout_ms == 0)
        config->timeout_ms = CONFIG_TIMEOUT_MS;
}

static void tick(struct kit_rma *rma)
{
    if (!kit_rma_is_active(rma))
        return;
    rma->stalled = 0;
    tick_list(rma, &rma->transfers);
    tick_list(rma, &rma->targets);
    tick_list(rma, &rma->closing);
    targets_check(rma);
    kit_rma_pieces_retry(rma);
}

static void tick_list(struct kit_rma *rma, const struct kit_link *list)
{
    for (struct kit_link *node = list->next; node != list; node = node->next) {
        struct kit_rma_transfer *transfer = kit_container(node, struct kit_rma_transfer, node);

        if (++transfer->quiet < RMA_STALL_TICKS || transfer->is_sender)
            continue;
        for (struct kit_link *part = transfer->parts.next; part != &transfer->parts;
             part = part->next)
            rma->stalled++;
    }
}

/* Origins that are silent are asked whether they are there, and given up when they do not say so.
 * Ending one may free others: each time the list is looked at anew. */
static void targets_check(struct kit_rma *rma)
{
    struct kit_link *node = rma->targets.next;

    while (node != &rma->targets) {
        struct kit_rma_transfer *job = kit_container(node, struct kit_rma_transfer, node);

        node = node->next;
        if (job->quiet < rma->timeout_ticks / 2)
            continue;
        if (job->quiet < rma->timeout_ticks) {
            if ((job->quiet - rma->timeout_ticks / 2) % (rma->timeout_ticks / 4 + 1) != 0)
                continue;
            job->pending |= RMA_PENDING(RMA_PROBE);
            kit_rma_retry_add(job);
            continue;
        }
        rma->counters.timeouts++;
        RMA_LOG_WARNING(rma,
                        "a transfer of %llu bytes is given up: its origin was silent for "
                        "%u ms",
                        (unsigned long long) job->length, rma->config.timeout_ms);
        kit_rma_transfer_end(job, NA_PLUGIN_TIMEOUT, true);
        node = rma->targets.next;
    }
}

static void list_move(struct kit_link *from, const void *peer, struct kit_link *to)
{
    struct kit_link *node, *next;

    for (node = from->next; node != from; node = next) {
        next = node->next;
        if (kit_container(node, struct kit_rma_transfer, node)->peer != peer)
            continue;
        kit_list_remove(node);
        kit_list_append(to, node);
    }
}

/* With their pieces. `rma` NULL: they are in no use, and hold no peer. */
static void transfers_free(struct kit_rma *rma, struct kit_link *list)
{
    while (!kit_list_empty(list)) {
        struct kit_rma_transfer *transfer =
            kit_container(list->next, struct kit_rma_transfer, node);
        const struct na_host *host = transfer->rma->host;

        kit_list_remove(&transfer->node);
        while (rma != NULL && !kit_list_empty(&transfer->parts)) {
            struct rma_part *part = kit_container(transfer->parts.next, struct rma_part, node);

            kit_list_remove(&part->node);
            host->mem_free(part);
        }
        if (rma != NULL && rma->ops->peer_release != NULL)
            rma->ops->peer_release(rma->owner, transfer->peer);
        host->mem_free(transfer);
    }
}
