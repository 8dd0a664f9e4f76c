/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing, and what the owner's poll gives time to. */

#include "state.h"

#include <string.h>

#define CONFIG_PIECE_SIZE (UINT32_C(256) << 10)
#define CONFIG_WINDOW     4u
#define CONFIG_PIECES     64u
#define CONFIG_TIMEOUT_MS 30000u

static int32_t config_check(const struct twosided_config *config);
static void config_settle(struct twosided_config *config);
static void tick(struct twosided *ts);
static void tick_list(struct twosided *ts, const struct kit_link *list);
static void jobs_look(struct twosided *ts);
static void list_move(struct kit_link *from, const void *peer, struct kit_link *to);
static void transfers_free(struct twosided *ts, struct kit_link *list);

int32_t twosided_open(const struct twosided_config *config, struct twosided **twosided_p)
{
    struct twosided *ts;
    int32_t ret;

    if (config_check(config) != NA_PLUGIN_SUCCESS)
        return NA_PLUGIN_INVALID_ARG;
    kit_host = config->host;
    ts = config->host->mem_alloc(sizeof(*ts), 64);
    if (ts == NULL)
        return NA_PLUGIN_NOMEM;
    ret = kit_regions_open(&ts->regions);
    if (ret != NA_PLUGIN_SUCCESS) {
        na_plugin_log(config->host, NA_PLUGIN_LOG_ERROR, config->plugin, __func__, __LINE__,
                      "the system has no random numbers");
        config->host->mem_free(ts);
        return ret;
    }
    ts->host = config->host;
    ts->ops = config->ops;
    ts->owner = config->owner;
    ts->config = *config;
    config_settle(&ts->config);
    ts->timeout_ticks = ts->config.timeout_ms / TWOSIDED_TICK_MS + 2;
    kit_list_init(&ts->retry);
    kit_list_init(&ts->send_room);
    kit_list_init(&ts->receive_room);
    kit_list_init(&ts->transfers);
    kit_list_init(&ts->jobs);
    kit_list_init(&ts->orphans);
    kit_list_init(&ts->free_transfers);
    kit_list_init(&ts->free_parts);
    *twosided_p = ts;
    return NA_PLUGIN_SUCCESS;
}

void twosided_close(struct twosided *ts)
{
    const struct na_host *host;

    if (ts == NULL)
        return;
    host = ts->host;
    transfers_free(ts, &ts->transfers);
    transfers_free(ts, &ts->jobs);
    transfers_free(ts, &ts->orphans);
    transfers_free(NULL, &ts->free_transfers);
    while (!kit_list_empty(&ts->free_parts)) {
        struct twosided_part *part = kit_container(ts->free_parts.next, struct twosided_part, node);

        kit_list_remove(&part->node);
        host->mem_free(part);
    }
    kit_table_free(&ts->ids);
    twosided_mem_free_all(ts);
    host->mem_free(ts);
}

/* One round of those that wait; who has to wait again is behind them. */
void twosided_poll(struct twosided *ts, uint64_t now_ns)
{
    struct kit_link waiting;

    if (kit_unlikely(!kit_list_empty(&ts->retry))) {
        waiting = ts->retry;
        waiting.next->prev = &waiting;
        waiting.prev->next = &waiting;
        kit_list_init(&ts->retry);
        while (!kit_list_empty(&waiting)) {
            struct twosided_transfer *transfer =
                kit_container(waiting.next, struct twosided_transfer, retry);

            kit_list_remove(&transfer->retry);
            twosided_transfer_run(transfer);
        }
    }
    if (kit_unlikely(now_ns != 0) && now_ns - ts->tick_last >= TWOSIDED_TICK_NS) {
        ts->tick_last = now_ns;
        tick(ts);
    }
}

/* What is reported may start new ones, which are not meant: those that are are set apart first. */
void twosided_peer_failed(struct twosided *ts, void *peer, int32_t status)
{
    struct kit_link failed;

    kit_list_init(&failed);
    list_move(&ts->transfers, peer, &failed);
    list_move(&ts->jobs, peer, &failed);
    list_move(&ts->orphans, peer, &failed);
    for (struct kit_link *node = failed.next; node != &failed; node = node->next)
        twosided_transfer_cut(kit_container(node, struct twosided_transfer, node));
    while (!kit_list_empty(&failed)) {
        struct twosided_transfer *transfer =
            kit_container(failed.next, struct twosided_transfer, node);

        /* Where its kind belongs; the end moves it on or frees it. */
        kit_list_remove(&transfer->node);
        kit_list_append(transfer->is_over     ? &ts->orphans
                        : transfer->is_origin ? &ts->transfers
                                              : &ts->jobs,
                        &transfer->node);
        twosided_transfer_end(transfer, status, false);
    }
}

bool twosided_has_work(const struct twosided *ts)
{
    return !kit_list_empty(&ts->retry);
}

bool twosided_is_active(const struct twosided *ts)
{
    return ts->transfer_count != 0 || ts->job_count != 0 || ts->orphan_count != 0;
}

void twosided_counters_get(const struct twosided *ts, struct twosided_counters *counters)
{
    *counters = ts->counters;
    counters->transfers = ts->transfer_count;
    counters->jobs = ts->job_count;
    counters->orphans = ts->orphan_count;
    counters->sends = ts->sends;
    counters->receives = ts->receives;
}

static int32_t config_check(const struct twosided_config *config)
{
    struct twosided_config settled = *config;

    config_settle(&settled);
    if (settled.piece_size >= TWOSIDED_PIECE_MIN && settled.piece_size <= TWOSIDED_PIECE_MAX &&
        settled.window <= TWOSIDED_WINDOW_MAX && settled.tag_count >= TWOSIDED_TAGS_MIN &&
        settled.first_tag <= UINT32_MAX - settled.tag_count)
        return NA_PLUGIN_SUCCESS;
    na_plugin_log(config->host, NA_PLUGIN_LOG_ERROR, config->plugin, __func__, __LINE__,
                  "pieces of %u bytes, %u at a time, with the %u tags from %u on, do not make a "
                  "transfer: %u to %u bytes, up to %u, at least %u tags",
                  settled.piece_size, settled.window, settled.tag_count, settled.first_tag,
                  TWOSIDED_PIECE_MIN, TWOSIDED_PIECE_MAX, TWOSIDED_WINDOW_MAX, TWOSIDED_TAGS_MIN);
    return NA_PLUGIN_INVALID_ARG;
}

static void config_settle(struct twosided_config *config)
{
    if (config->piece_size == 0)
        config->piece_size = CONFIG_PIECE_SIZE;
    if (config->window == 0)
        config->window = CONFIG_WINDOW;
    if (config->max_sends == 0)
        config->max_sends = CONFIG_PIECES;
    if (config->max_receives == 0)
        config->max_receives = CONFIG_PIECES;
    if (config->tag_count == 0 || config->tag_count > TWOSIDED_TAGS_MAX)
        config->tag_count = TWOSIDED_TAGS_MAX;
    if (config->max_receives > config->tag_count / 4)
        config->max_receives = config->tag_count / 4;
    if (config->peer_tag_high == 0) {
        config->peer_tag_low = config->first_tag;
        config->peer_tag_high = config->first_tag + (config->tag_count - 1);
    }
    if (config->timeout_ms == 0)
        config->timeout_ms = CONFIG_TIMEOUT_MS;
}

static void tick(struct twosided *ts)
{
    if (!twosided_is_active(ts))
        return;
    ts->stalled = 0;
    tick_list(ts, &ts->transfers);
    tick_list(ts, &ts->jobs);
    tick_list(ts, &ts->orphans);
    jobs_look(ts);
    twosided_pieces_look(ts);
}

static void tick_list(struct twosided *ts, const struct kit_link *list)
{
    for (struct kit_link *node = list->next; node != list; node = node->next) {
        struct twosided_transfer *transfer = kit_container(node, struct twosided_transfer, node);

        if (++transfer->quiet < TWOSIDED_STALL_TICKS || transfer->is_sender)
            continue;
        for (struct kit_link *part = transfer->parts.next; part != &transfer->parts;
             part = part->next)
            ts->stalled++;
    }
}

/* Origins that are silent are asked whether they are there, and given up when they do not say so.
 * Ending one may free others: each time the list is looked at anew. */
static void jobs_look(struct twosided *ts)
{
    struct kit_link *node = ts->jobs.next;

    while (node != &ts->jobs) {
        struct twosided_transfer *job = kit_container(node, struct twosided_transfer, node);

        node = node->next;
        if (job->quiet < ts->timeout_ticks / 2)
            continue;
        if (job->quiet < ts->timeout_ticks) {
            if ((job->quiet - ts->timeout_ticks / 2) % (ts->timeout_ticks / 4 + 1) != 0)
                continue;
            job->owes |= TWOSIDED_OWES(TWOSIDED_PROBE);
            twosided_retry_add(job);
            continue;
        }
        ts->counters.timeouts++;
        TWOSIDED_LOG_WARNING(ts,
                             "a transfer of %llu bytes is given up: its origin was silent for "
                             "%u ms",
                             (unsigned long long) job->length, ts->config.timeout_ms);
        twosided_transfer_end(job, NA_PLUGIN_TIMEOUT, true);
        node = ts->jobs.next;
    }
}

static void list_move(struct kit_link *from, const void *peer, struct kit_link *to)
{
    struct kit_link *node, *next;

    for (node = from->next; node != from; node = next) {
        next = node->next;
        if (kit_container(node, struct twosided_transfer, node)->peer != peer)
            continue;
        kit_list_remove(node);
        kit_list_append(to, node);
    }
}

/* With their pieces. `ts` NULL: they are in no use, and hold no peer. */
static void transfers_free(struct twosided *ts, struct kit_link *list)
{
    while (!kit_list_empty(list)) {
        struct twosided_transfer *transfer =
            kit_container(list->next, struct twosided_transfer, node);
        const struct na_host *host = transfer->ts->host;

        kit_list_remove(&transfer->node);
        while (ts != NULL && !kit_list_empty(&transfer->parts)) {
            struct twosided_part *part =
                kit_container(transfer->parts.next, struct twosided_part, node);

            kit_list_remove(&part->node);
            host->mem_free(part);
        }
        if (ts != NULL && ts->ops->peer_release != NULL)
            ts->ops->peer_release(ts->owner, transfer->peer);
        host->mem_free(transfer);
    }
}
