/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of the soak's origin: starting, cancelling, ending, and checking their results. */
#include "soak_origin.h"

#include "../test_random.h"

#include <stdio.h>
#include <string.h>

static void slot_echo(struct soak_slot *slot);
static void slot_check(struct soak_slot *slot);
static void slot_move(struct soak_slot *slot);
static void slot_transfer(struct soak_slot *slot, enum soak_kind kind);
static bool slot_take_handle(struct soak_slot *slot, hg_id_t id);
static void slot_forward(struct soak_slot *slot, enum soak_kind kind, hg_id_t id, void *in);
static unsigned int slot_plan(struct soak_slot *slot);
static bool slot_begin(struct soak_slot *slot, enum soak_kind kind);
static bool slot_begun(struct soak_slot *slot, hg_return_t ret);
static struct soak_sums *slot_sums(const struct soak_slot *slot);
static void slot_cancel(struct soak_slot *slot);
static hg_return_t slot_ended(const struct hg_cb_info *info);
static void slot_count(struct soak_slot *slot, hg_return_t ret);
static void slot_look(struct soak_slot *slot, hg_return_t ret);
static void look_echo(struct soak_slot *slot);
static void look_expose(struct soak_slot *slot, hg_return_t ret);
static void look_check(struct soak_slot *slot, hg_return_t ret);
static void look_move(struct soak_slot *slot);
static void digest_counted(struct soak_slot *slot, bool is_right);

uint64_t soak_below(struct soak *soak, uint64_t limit)
{
    return test_random(&soak->random) % limit;
}

uint64_t soak_left(uint64_t wanted, const struct soak_sums *sums)
{
    return sums->issued < wanted ? wanted - sums->issued : 0;
}

void soak_slot_start(struct soak_slot *slot)
{
    struct soak *soak = slot->soak;
    const uint64_t rpcs_left = soak_left(soak->options->rpcs, &soak->report->rpc);
    const uint64_t bulks_left = soak_left(soak->options->bulks, &soak->report->bulk);

    if (slot->has_pushed && rpcs_left > 0) {
        slot_check(slot);
        return;
    }
    slot->has_pushed = false;
    slot->peer = &soak->peers[soak_below(soak, soak->options->peers)];
    /* Most operations avoid a target that is not up; a few are sent to it and have to fail. */
    if (slot->peer->addr == HG_ADDR_NULL || rpcs_left + bulks_left == 0 ||
        (slot->peer->state != SOAK_PEER_UP && soak_below(soak, 50) != 0))
        return;
    if (soak_below(soak, rpcs_left + bulks_left) < bulks_left) {
        slot_transfer(slot, soak_below(soak, 2) == 0 ? SOAK_PULL : SOAK_PUSH);
    } else if (soak_below(soak, 16) == 0) {
        slot_move(slot);
    } else {
        slot_echo(slot);
    }
}

/* Messages that fit one packet, that fit a message, and that are too large for one, in both
 * directions. */
static void slot_echo(struct soak_slot *slot)
{
    static const uint32_t sizes[] = {8, 8, 8, 100, 500, 500, 3000, 3000, 20000, SOAK_PAYLOAD};
    struct soak *soak = slot->soak;
    struct soak_data in = {.number = soak->records_used};

    in.size = sizes[soak_below(soak, sizeof(sizes) / sizeof(sizes[0]))];
    in.reply_size = sizes[soak_below(soak, sizeof(sizes) / sizeof(sizes[0]))];
    if (in.size + in.reply_size >= 20000 && soak_below(soak, 4) != 0)
        in.size = in.reply_size = 8;
    in.hold_ms = soak_below(soak, 20) == 0 ? (uint32_t) soak_below(soak, 30) : 0;
    in.bytes = (void *) (uintptr_t) soak_bytes(in.number, in.size);
    in.digest = soak_digest(in.bytes, in.size);
    slot->number = in.number;
    slot->size = in.reply_size;
    slot_forward(slot, SOAK_ECHO, soak->ids.echo, &in);
}

void soak_slot_expose(struct soak_slot *slot, struct soak_peer *peer)
{
    slot->peer = peer;
    peer->state = SOAK_PEER_ASKED;
    slot_forward(slot, SOAK_EXPOSE, slot->soak->ids.expose, NULL);
    if (slot->record == NULL)
        peer->state = SOAK_PEER_UNKNOWN;
}

/* Asks the target whether the last push arrived. */
static void slot_check(struct soak_slot *slot)
{
    soak_check_in_t in = {
        .offset = (uint64_t) (slot - slot->soak->slots) * SOAK_BULK_MAX,
        .size = slot->pushed_size,
    };

    if (slot->peer->state != SOAK_PEER_UP || slot->peer->generation != slot->generation)
        slot->has_pushed = false;
    else
        slot_forward(slot, SOAK_CHECK, slot->soak->ids.check, &in);
}

/* The target pulls from our memory, or pushes to it. */
static void slot_move(struct soak_slot *slot)
{
    struct soak *soak = slot->soak;
    const bool is_pull = soak_below(soak, 2) == 0;
    soak_move_in_t in = {.number = soak->records_used, .pull = is_pull};
    const uint64_t size = 1 + soak_below(soak, SOAK_BULK_MAX / 2);

    slot->number = in.number;
    if (!soak_memory_take(slot, size, is_pull ? HG_BULK_READ_ONLY : HG_BULK_READWRITE)) {
        soak_memory_give(slot, false);
        return;
    }
    if (is_pull)
        memcpy(slot->memory, soak_bytes(in.number, size), size);
    else
        memset(slot->memory, 0, size);
    in.memory = slot->local;
    slot_forward(slot, SOAK_MOVE, soak->ids.move, &in);
    if (slot->record == NULL)
        soak_memory_give(slot, false);
}

/* The origin pulls from the target's memory, or pushes to it. */
static void slot_transfer(struct soak_slot *slot, enum soak_kind kind)
{
    struct soak *soak = slot->soak;
    const bool is_pull = kind == SOAK_PULL;
    hg_bulk_t origin = is_pull ? slot->peer->source : slot->peer->sink;
    const uint64_t size = 1 + soak_below(soak, soak_below(soak, 4) == 0 ? SOAK_BULK_MAX : 8192);
    hg_return_t ret;

    if (origin == HG_BULK_NULL || (!is_pull && now_ms() < slot->push_after_ms))
        return;
    slot->offset = is_pull ? soak_below(soak, SOAK_SOURCE - size)
                           : (uint64_t) (slot - soak->slots) * SOAK_BULK_MAX;
    slot->number = soak->records_used;
    if (!soak_memory_take(slot, size, HG_BULK_READWRITE) || !slot_begin(slot, kind)) {
        soak_memory_give(slot, false);
        return;
    }
    if (!is_pull)
        memcpy(slot->memory, soak_bytes(slot->number, size), size);
    ret = HG_Bulk_transfer_deadline(soak->context, slot_ended, slot->record,
                                    is_pull ? HG_BULK_PULL : HG_BULK_PUSH, slot->peer->addr, 0,
                                    origin, slot->offset, slot->local, 0, size, slot_plan(slot),
                                    &slot->op_id);
    if (!slot_begun(slot, ret))
        soak_memory_give(slot, false);
}

/* Most handles are reused; one in four is destroyed and created anew. */
static bool slot_take_handle(struct soak_slot *slot, hg_id_t id)
{
    struct soak *soak = slot->soak;

    if (slot->handle != HG_HANDLE_NULL && soak_below(soak, 4) == 0) {
        (void) HG_Destroy(slot->handle);
        slot->handle = HG_HANDLE_NULL;
        soak->handles--;
    }
    if (slot->handle != HG_HANDLE_NULL)
        return HG_Reset(slot->handle, slot->peer->addr, id) == HG_SUCCESS;
    if (HG_Create(soak->context, slot->peer->addr, id, &slot->handle) != HG_SUCCESS)
        return false;
    soak->handles++;
    return true;
}

static void slot_forward(struct soak_slot *slot, enum soak_kind kind, hg_id_t id, void *in)
{
    if (!slot_take_handle(slot, id) || !slot_begin(slot, kind))
        return;
    (void) HG_Set_deadline(slot->handle, slot_plan(slot));
    (void) slot_begun(slot, HG_Forward(slot->handle, slot_ended, slot->record, in));
}

/* Draws a deadline, which is returned, and a time to cancel. Some operations have only one of the
 * two. */
static unsigned int slot_plan(struct soak_slot *slot)
{
    struct soak *soak = slot->soak;
    unsigned int deadline_ms = 300 + (unsigned int) soak_below(soak, 700);
    const uint64_t draw = soak_below(soak, 100);

    if (draw < 2)
        deadline_ms = 1 + (unsigned int) soak_below(soak, 3);
    else if (draw < 20)
        deadline_ms = 5 + (unsigned int) soak_below(soak, 100);
    slot->cancel_ms = 0;
    if (draw >= 20 && draw < 25)
        slot->cancel_ms = now_ms() + (long long) soak_below(soak, 6);
    if (draw == 24)
        deadline_ms = 0;
    slot->is_twice = soak_below(soak, 8) == 0;
    slot->deadline_ms = deadline_ms;
    return deadline_ms;
}

static bool slot_begin(struct soak_slot *slot, enum soak_kind kind)
{
    struct soak *soak = slot->soak;

    if (soak->records_used == soak->record_count)
        return false;
    slot->record = &soak->records[soak->records_used++];
    *slot->record = (struct soak_record){slot, SOAK_ISSUED};
    slot->kind = kind;
    slot->generation = slot->peer->generation;
    return true;
}

/* Called when the call has returned, before its callback is triggered. */
static bool slot_begun(struct soak_slot *slot, hg_return_t ret)
{
    struct soak_sums *sums = slot_sums(slot);

    if (ret == HG_SUCCESS) {
        sums->issued++;
        slot->soak->in_flight++;
        slot->due_ms = slot->deadline_ms != 0 ? now_ms() + slot->deadline_ms : 0;
        if (slot->cancel_ms != 0 && soak_below(slot->soak, 4) == 0)
            slot_cancel(slot);
        return true;
    }
    slot->record->state = SOAK_REFUSED;
    slot->record = NULL;
    if (ret == HG_AGAIN || ret == HG_BUSY)
        sums->again++;
    else
        sums->refused++;
    return false;
}

static struct soak_sums *slot_sums(const struct soak_slot *slot)
{
    return slot->kind >= SOAK_PULL ? &slot->soak->report->bulk : &slot->soak->report->rpc;
}

void soak_cancel_due(struct soak *soak)
{
    const long long now = now_ms();

    for (uint32_t i = 0; i < soak->slot_count; i++) {
        struct soak_slot *slot = &soak->slots[i];

        if (slot->record != NULL && slot->cancel_ms != 0 && slot->cancel_ms <= now)
            slot_cancel(slot);
    }
}

static void slot_cancel(struct soak_slot *slot)
{
    slot->cancel_ms = 0;
    for (int i = 0; i <= (int) slot->is_twice; i++) {
        if (slot->kind >= SOAK_PULL)
            (void) HG_Bulk_cancel(slot->op_id);
        else
            (void) HG_Cancel(slot->handle);
    }
}

static hg_return_t slot_ended(const struct hg_cb_info *info)
{
    struct soak_record *record = info->arg;
    struct soak_slot *slot = record->slot;
    struct soak *soak;

    if (record->state != SOAK_ISSUED || slot->record != record) {
        slot->soak->report->twice++;
        return HG_SUCCESS;
    }
    soak = slot->soak;
    record->state = SOAK_ENDED;
    if (soak_below(soak, 64) == 0) {
        slot_cancel(slot); /* the operation has ended already: no effect */
        soak_cancel_due(soak);
    }
    slot_count(slot, info->ret);
    slot_look(slot, info->ret);
    slot->record = NULL;
    soak->in_flight--;
    return HG_SUCCESS;
}

/* An operation is late if a whole progress call that began after the deadline did not complete
 * it. */
static void slot_count(struct soak_slot *slot, hg_return_t ret)
{
    struct soak_sums *sums = slot_sums(slot);
    const long long late_ms = slot->due_ms != 0 ? slot->soak->progress_before_ms - slot->due_ms : 0;

    if (ret == HG_SUCCESS)
        sums->succeeded++;
    else if (ret == HG_CANCELED)
        sums->cancelled++;
    else if (ret == HG_TIMEOUT)
        sums->timed_out++;
    else
        sums->failed++;
    if (late_ms > (long long) slot->soak->report->latest_ms)
        slot->soak->report->latest_ms = (uint64_t) late_ms;
}

static void slot_look(struct soak_slot *slot, hg_return_t ret)
{
    switch (slot->kind) {
    case SOAK_ECHO:
        if (ret == HG_SUCCESS)
            look_echo(slot);
        break;
    case SOAK_EXPOSE:
        look_expose(slot, ret);
        break;
    case SOAK_CHECK:
        look_check(slot, ret);
        break;
    case SOAK_MOVE:
        if (ret == HG_SUCCESS)
            look_move(slot);
        soak_memory_give(slot, true);
        break;
    case SOAK_PULL:
        if (ret == HG_SUCCESS)
            digest_counted(
                slot, soak_digest(slot->memory, slot->size) ==
                          soak_peer_digest(slot->peer, slot->generation, slot->offset, slot->size));
        soak_memory_give(slot, false);
        break;
    case SOAK_PUSH:
        slot->has_pushed = ret == HG_SUCCESS;
        slot->pushed_size = slot->size;
        slot->pushed_digest = soak_digest(slot->memory, slot->size);
        if (ret != HG_SUCCESS)
            slot->push_after_ms = now_ms() + 1000;
        soak_memory_give(slot, false);
        break;
    }
}

static void look_echo(struct soak_slot *slot)
{
    struct soak_data out;

    if (HG_Get_output(slot->handle, &out) != HG_SUCCESS) {
        digest_counted(slot, false);
        return;
    }
    digest_counted(slot,
                   out.number == slot->number && out.size == slot->size && !out.is_wrong &&
                       soak_digest(out.bytes, out.size) == out.digest &&
                       memcmp(out.bytes, soak_bytes(slot->number + 1, out.size), out.size) == 0);
    (void) HG_Free_output(slot->handle, &out);
}

static void look_expose(struct soak_slot *slot, hg_return_t ret)
{
    struct soak_peer *peer = slot->peer;
    soak_expose_t out;

    if (peer->state != SOAK_PEER_ASKED || peer->generation != slot->generation)
        return;
    peer->state = SOAK_PEER_UNKNOWN;
    if (ret != HG_SUCCESS || HG_Get_output(slot->handle, &out) != HG_SUCCESS)
        return;
    if (out.generation == peer->generation) {
        (void) HG_Bulk_ref_incr(out.source);
        (void) HG_Bulk_ref_incr(out.sink);
        peer->source = out.source;
        peer->sink = out.sink;
        peer->state = SOAK_PEER_UP;
        slot->soak->bulks += 2;
    }
    (void) HG_Free_output(slot->handle, &out);
}

static void look_check(struct soak_slot *slot, hg_return_t ret)
{
    soak_check_out_t out;

    if (ret == HG_SUCCESS && HG_Get_output(slot->handle, &out) == HG_SUCCESS) {
        if (out.generation == slot->generation)
            digest_counted(slot, out.digest == slot->pushed_digest);
        (void) HG_Free_output(slot->handle, &out);
    }
    slot->has_pushed = false;
}

static void look_move(struct soak_slot *slot)
{
    soak_move_out_t out;

    if (HG_Get_output(slot->handle, &out) != HG_SUCCESS) {
        digest_counted(slot, false);
        return;
    }
    if (out.status == HG_SUCCESS)
        digest_counted(
            slot, out.digest == soak_digest(slot->memory, slot->size) &&
                      memcmp(slot->memory, soak_bytes(slot->number, slot->size), slot->size) == 0);
    (void) HG_Free_output(slot->handle, &out);
}

static void digest_counted(struct soak_slot *slot, bool is_right)
{
    struct soak_report *report = slot->soak->report;

    report->digests++;
    if (is_right)
        return;
    if (report->digests_wrong++ < 10)
        (void) fprintf(stderr, "wrong data: kind %d, number %llu, size %llu, offset %llu\n",
                       (int) slot->kind, (unsigned long long) slot->number,
                       (unsigned long long) slot->size, (unsigned long long) slot->offset);
}
