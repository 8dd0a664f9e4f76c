/* SPDX-License-Identifier: BSD-3-Clause */
/* The course of the soak's origin: opens, issues operations, kills targets, waits for the last
 * operation, closes and counts leaks. */
#include "soak_origin.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAST_MS 30000 /* the longest wait for the last operation */

#define INIT_MAX \
    (sizeof(((struct soak_options *) 0)->init) + sizeof(((struct soak_options *) 0)->faults) + 16)

static void origin_init_string(const struct soak_options *options, char *init);
static bool origin_open(struct soak *soak);
static bool origin_open_class(struct soak *soak);
static bool origin_slots(struct soak *soak);
static void origin_issue(struct soak *soak);
static void origin_step(struct soak *soak);
static void origin_kill(struct soak *soak);
static void origin_peers(struct soak *soak);
static void origin_found(struct soak *soak, struct soak_peer *peer);
static void origin_forget(struct soak *soak, struct soak_peer *peer);
static bool origin_wait(struct soak *soak);
static int64_t origin_bytes(void);
static void origin_end(struct soak *soak);
static void origin_close(struct soak *soak);

bool soak_origin_run(const struct soak_options *options, struct soak_report *report)
{
    struct soak soak = {.options = options, .report = report, .random = options->seed};
    char init[INIT_MAX];
    int descriptors;
    bool ok;

    origin_init_string(options, init);
    descriptors = soak_descriptors_at_rest(init);
    report->is_closed = true;
    soak.slot_count = options->window + options->peers;
    soak.record_count = 2 * (options->rpcs + options->bulks) + 65536;
    soak.records = calloc(soak.record_count, sizeof(*soak.records));
    soak.slots = calloc(soak.slot_count, sizeof(*soak.slots));
    ok = soak.records != NULL && soak.slots != NULL && origin_open(&soak);
    if (ok) {
        origin_issue(&soak);
        report->lost = origin_wait(&soak) ? 0 : soak.in_flight;
        origin_end(&soak);
        report->leaked_handles = soak.handles;
        report->leaked_bulks = soak.bulks;
        report->leaked_addresses = soak.addresses;
        report->leaked_descriptors = soak_descriptors() - descriptors;
    }
    free(soak.slots);
    free(soak.records);
    return ok;
}

static void origin_init_string(const struct soak_options *options, char *init)
{
    const bool is_fault = options->faults[0] != '\0';

    (void) snprintf(init, INIT_MAX, "%s%s%s%s%s", is_fault ? "fault+" : "", options->init,
                    is_fault && strstr(options->init, "://") == NULL ? "://" : "",
                    is_fault ? "?" : "", options->faults);
}

static bool origin_open(struct soak *soak)
{
    if (!origin_open_class(soak) || !origin_slots(soak))
        return false;
    for (uint32_t i = 0; i < soak->options->peers; i++) {
        struct soak_peer *peer = &soak->peers[i];

        /* Each generation of each target has different contents. */
        peer->generation = (uint64_t) i * 1000000;
        if (!soak_peer_start(peer, soak->options))
            return false;
    }
    return true;
}

static bool origin_open_class(struct soak *soak)
{
    char init[INIT_MAX];

    origin_init_string(soak->options, init);
    soak->hg_class = HG_Init(init, false);
    if (soak->hg_class == NULL)
        return false;
    soak->context = HG_Context_create(soak->hg_class);
    if (soak->context == NULL) {
        (void) HG_Finalize(soak->hg_class);
        return false;
    }
    soak->ids.echo =
        HG_Register_name(soak->hg_class, "soak_echo", soak_proc_data, soak_proc_data, NULL);
    soak->ids.expose = MERCURY_REGISTER(soak->hg_class, "soak_expose", void, soak_expose_t, NULL);
    soak->ids.check =
        MERCURY_REGISTER(soak->hg_class, "soak_check", soak_check_in_t, soak_check_out_t, NULL);
    soak->ids.move =
        MERCURY_REGISTER(soak->hg_class, "soak_move", soak_move_in_t, soak_move_out_t, NULL);
    return true;
}

/* All buffers are allocated before the soak begins, so that growth is a leak. */
static bool origin_slots(struct soak *soak)
{
    for (uint32_t i = 0; i < soak->slot_count; i++) {
        soak->slots[i].soak = soak;
        soak->slots[i].buffer = malloc(SOAK_BULK_MAX);
        if (soak->slots[i].buffer == NULL)
            return false;
    }
    return true;
}

/* Issues operations until none is left. By a quarter of them, everything that the run needs has
 * been allocated: memory is measured then. */
static void origin_issue(struct soak *soak)
{
    const struct soak_options *options = soak->options;
    const uint64_t total = options->rpcs + options->bulks;
    const long long end = options->seconds != 0 ? now_ms() + options->seconds * 1000LL : 0;
    int64_t bytes = -1;

    for (;;) {
        const uint64_t left = soak_left(options->rpcs, &soak->report->rpc) +
                              soak_left(options->bulks, &soak->report->bulk);

        if (left == 0 || soak->records_used == soak->record_count || (end != 0 && now_ms() > end))
            break;
        if (bytes < 0 && left <= total - total / 4) {
            if (!origin_wait(soak))
                break;
            bytes = origin_bytes();
        }
        for (uint32_t i = 0; i < options->window; i++)
            if (soak->slots[i].record == NULL)
                soak_slot_start(&soak->slots[i]);
        if (soak->report->kills * total < options->kills * (total - left))
            origin_kill(soak);
        origin_step(soak);
    }
    if (origin_wait(soak) && bytes >= 0)
        soak->report->leaked_bytes = origin_bytes() - bytes;
}

static void origin_step(struct soak *soak)
{
    unsigned int count;
    hg_return_t ret;

    soak->steps++;
    do {
        count = 0;
        (void) HG_Trigger(soak->context, 0, 32, &count);
    } while (count > 0);
    soak->progress_before_ms = soak->progress_ms;
    soak->progress_ms = now_ms();
    ret = HG_Progress(soak->context, 1);
    if (ret != HG_SUCCESS && ret != HG_TIMEOUT)
        soak->report->progress_errors++;
    soak_cancel_due(soak);
    (void) soak_free_parked(soak);
    origin_peers(soak);
}

/* Kills only a target that is up, so that each death hits operations in flight. */
static void origin_kill(struct soak *soak)
{
    struct soak_peer *peer = &soak->peers[soak_below(soak, soak->options->peers)];

    if (peer->state != SOAK_PEER_UP)
        return;
    origin_forget(soak, peer);
    (void) soak_peer_restart(peer, soak->options);
    soak->report->kills++;
}

static void origin_peers(struct soak *soak)
{
    for (uint32_t i = 0; i < soak->options->peers; i++) {
        struct soak_peer *peer = &soak->peers[i];
        struct soak_slot *slot = &soak->slots[soak->options->window + i];

        if (peer->state == SOAK_PEER_UP && soak->steps % 256 == 0 && soak_peer_has_died(peer)) {
            (void) fprintf(stderr, "the target at %s has died by itself\n", peer->address);
            origin_forget(soak, peer);
            (void) soak_peer_restart(peer, soak->options);
        }
        if (peer->state == SOAK_PEER_STARTING && peer->is_running &&
            soak_peer_poll(peer, soak->options))
            origin_found(soak, peer);
        if (peer->state == SOAK_PEER_UNKNOWN && slot->record == NULL)
            soak_slot_expose(slot, peer);
    }
}

static void origin_found(struct soak *soak, struct soak_peer *peer)
{
    hg_addr_t addr;

    if (HG_Addr_lookup2(soak->hg_class, peer->address, &addr) != HG_SUCCESS) {
        (void) fprintf(stderr, "cannot look up %s\n", peer->address);
        return;
    }
    soak->addresses++;
    if (peer->addr != HG_ADDR_NULL) {
        (void) HG_Addr_free(soak->hg_class, peer->addr);
        soak->addresses--;
    }
    peer->addr = addr;
    peer->state = SOAK_PEER_UNKNOWN;
}

static void origin_forget(struct soak *soak, struct soak_peer *peer)
{
    if (peer->source == HG_BULK_NULL)
        return;
    (void) HG_Bulk_free(peer->source);
    (void) HG_Bulk_free(peer->sink);
    peer->source = peer->sink = HG_BULK_NULL;
    soak->bulks -= 2;
}

/* Waits until no operation is in flight; false if one does not end. */
static bool origin_wait(struct soak *soak)
{
    const long long end = now_ms() + LAST_MS;

    while (soak->in_flight > 0 || soak->parked != NULL) {
        if (now_ms() > end)
            return false;
        origin_step(soak);
    }
    return true;
}

static int64_t origin_bytes(void)
{
    const struct mallinfo2 info = mallinfo2();

    return (int64_t) (info.uordblks + info.hblkhd);
}

static void origin_end(struct soak *soak)
{
    for (uint32_t i = 0; i < soak->slot_count; i++) {
        struct soak_slot *slot = &soak->slots[i];

        soak_memory_check(slot);
        if (slot->handle != HG_HANDLE_NULL) {
            (void) HG_Destroy(slot->handle);
            soak->handles--;
        }
        free(slot->buffer);
    }
    for (uint32_t i = 0; i < soak->options->peers; i++) {
        struct soak_peer *peer = &soak->peers[i];

        origin_forget(soak, peer);
        if (peer->addr != HG_ADDR_NULL) {
            (void) HG_Addr_free(soak->hg_class, peer->addr);
            soak->addresses--;
        }
        if (!soak_peer_end(peer))
            soak->report->targets_unclean++;
        soak->report->targets_unclean += peer->crashes;
    }
    origin_close(soak);
}

static void origin_close(struct soak *soak)
{
    const hg_return_t context = HG_Context_destroy(soak->context);
    const hg_return_t hg_class = HG_Finalize(soak->hg_class);

    if (context == HG_SUCCESS && hg_class == HG_SUCCESS)
        return;
    soak->report->is_closed = false;
    (void) fprintf(stderr, "origin: context %s, class %s\n", HG_Error_to_string(context),
                   HG_Error_to_string(hg_class));
}
