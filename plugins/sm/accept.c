/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiving end of connections: rings of new senders, activating idle rings, releasing those
 * whose sender closed or died. poll_lock is held everywhere here.
 */

#include "sm.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void sm_handover_wake(struct na_plugin_addr *peer);
static void sm_doorbell_answer(struct na_plugin_context *context, uint32_t index);
static void sm_in_ring_accept(struct na_plugin_context *context, uint32_t index,
                              struct sm_peer_slot *slot);
static int32_t sm_in_ring_make(struct na_plugin_context *context, uint32_t index,
                               struct sm_peer_slot *slot, struct sm_in_ring **ring_p);
static void sm_in_ring_unmap(struct na_plugin_context *context, struct sm_in_ring *ring);
static void sm_slot_release(struct sm_peer_slot *slot);
static void sm_in_ring_sweep(struct na_plugin_context *context, uint32_t count);

void sm_doorbells_answer(struct na_plugin_context *context)
{
    struct sm_context_area *area = context->area;
    uint64_t summary = atomic_exchange_explicit(&area->doorbell_summary, 0, memory_order_acquire);

    while (summary != 0) {
        uint32_t word = (uint32_t) __builtin_ctzll(summary);
        uint64_t bits = atomic_exchange_explicit(&area->doorbells[word], 0, memory_order_acquire);

        summary &= summary - 1;
        for (; bits != 0; bits &= bits - 1)
            sm_doorbell_answer(context, word * 64 + (uint32_t) __builtin_ctzll(bits));
    }
    /* When few slots are free, those of dead senders are released; checking all takes a while. */
    if (context->in_count >= SM_PEER_SLOTS - SM_PEER_SLOTS / 16 &&
        kit_host->clock_ns() - context->sweep_last >= SM_WATCH_NS) {
        sm_in_ring_sweep(context, SM_PEER_SLOTS);
        context->sweep_last = kit_host->clock_ns();
    }
}

/* Starts polling the ring. */
void sm_in_ring_activate(struct na_plugin_context *context, struct sm_in_ring *ring)
{
    sm_store(&ring->peer_slot->status, 0);
    ring->idle_rounds = 0;
    if (!kit_list_empty(&ring->polled))
        return;
    kit_list_append(&context->polled, &ring->polled);
    context->polled_count++;
}

/*
 * Stops polling the ring. The caller has announced that (SM_RING_IDLE), run the barrier, and
 * found the ring empty after it.
 */
void sm_in_ring_idle(struct na_plugin_context *context, struct sm_in_ring *ring)
{
    if (kit_list_empty(&ring->polled))
        return;
    kit_list_remove(&ring->polled);
    context->polled_count--;
}

/* Frees a ring whose sender closed or died, when all its messages are read. */
void sm_in_ring_release(struct na_plugin_context *context, struct sm_in_ring *ring)
{
    struct sm_peer_slot *slot = ring->peer_slot;

    sm_in_ring_idle(context, ring);
    sm_copy_fail_peer(context, ring->peer, NA_PLUGIN_HOSTUNREACH);
    context->in[ring->index / 64][ring->index % 64] = NULL;
    context->in_count--;
    if (ring->stalled)
        sm_sub(&context->rings_stalled, 1);
    sm_in_ring_unmap(context, ring);
    sm_slot_release(slot);
}

/* Called when the sender breaks the protocol: its ring is not read, and its operations fail. */
void sm_in_ring_refuse(struct na_plugin_context *context, struct sm_in_ring *ring,
                       const char *reason)
{
    if (!ring->refused)
        SM_LOG_ERROR("%s sent what is not of this protocol (%s): closed", ring->peer->name, reason);
    ring->refused = true;
    sm_store_release(&ring->peer_slot->status, SM_RING_REFUSED);
    sm_peer_fail(ring->peer, NA_PLUGIN_PROTOCOL_ERROR);
    sm_copy_fail_peer(context, ring->peer, NA_PLUGIN_PROTOCOL_ERROR);
}

void sm_in_ring_release_all(struct na_plugin_context *context)
{
    for (uint32_t word = 0; word < SM_PEER_SLOTS / 64; word++) {
        for (uint32_t bit = 0; context->in[word] != NULL && bit < 64; bit++)
            if (context->in[word][bit] != NULL)
                sm_in_ring_unmap(context, context->in[word][bit]);
        kit_host->mem_free(context->in[word]);
        context->in[word] = NULL;
    }
    context->in_count = 0;
}

/*
 * Reads a datagram of the context's wake socket; false when there is none. A datagram with
 * descriptors asks for our memory, any other has only ended a sleep.
 */
bool sm_handover_read(struct na_plugin_context *context)
{
    struct na_plugin_class *na_class = context->na_class;
    struct na_plugin_addr *peer = NULL;
    struct sm_handover asked;
    const char *reason;
    uint32_t count = 0;
    int fds[2];
    ssize_t size;
    int32_t ret;

    size = sm_descriptors_receive(context->wake_fd, &asked, sizeof(asked), fds, &count);
    if (size < 0)
        return errno == EINTR;
    if (kit_likely(count == 0))
        return true;
    if (count != 2 || size != (ssize_t) sizeof(asked) || asked.magic != SM_HANDOVER_MAGIC ||
        asked.name[SM_NAME_MAX] != '\0' || asked.incarnation == 0 ||
        !sm_name_check(asked.name, strlen(asked.name), &reason))
        goto out;
    ret = sm_peer_get(na_class, asked.name, asked.incarnation, false, &peer);
    if (ret != NA_PLUGIN_SUCCESS)
        goto out;
    kit_lock_take(&na_class->connect_lock);
    if (peer->memory_fd < 0 && !sm_peer_mapped(peer))
        ret = sm_handover_attach(peer, fds[0]);
    kit_lock_drop(&na_class->connect_lock);
    if (ret == NA_PLUGIN_SUCCESS) {
        (void) sm_descriptors_send(fds[1], NULL, "", 1, &na_class->segment.fd, 1);
        sm_handover_wake(peer);
    }

out:
    if (peer != NULL)
        sm_peer_release(peer);
    sm_descriptors_close(fds, count);
    return true;
}

/* Wakes the peer's contexts, any of which may wait for the answer. */
static void sm_handover_wake(struct na_plugin_addr *peer)
{
    for (uint32_t id = 0; id < peer->header.max_contexts; id++)
        if (atomic_load_explicit(&sm_context_area_of(peer->base, id)->flags, memory_order_seq_cst) &
            SM_CONTEXT_ASLEEP)
            (void) sm_wake_peer(peer, id);
}

static void sm_doorbell_answer(struct na_plugin_context *context, uint32_t index)
{
    struct sm_in_ring **page = context->in[index / 64];
    struct sm_in_ring *ring = page != NULL ? page[index % 64] : NULL;
    struct sm_peer_slot *slot =
        &sm_peer_slots_of(context->na_class->segment.header, context->id)[index];
    uint32_t reserved, state;

    reserved = sm_load_acquire(&context->area->slots_reserved);
    if (index >= reserved)
        return; /* a slot without memory has no ring */
    state = sm_owner_state(sm_load_acquire(&slot->owner));
    if (ring == NULL) {
        if (state == SM_SLOT_READY || state == SM_SLOT_CLOSING)
            sm_in_ring_accept(context, index, slot);
        return;
    }
    ring->closing = ring->closing || state == SM_SLOT_CLOSING;
    if (!ring->refused)
        sm_in_ring_activate(context, ring);
    else if (ring->closing)
        sm_in_ring_release(context, ring);
}

static void sm_in_ring_accept(struct na_plugin_context *context, uint32_t index,
                              struct sm_peer_slot *slot)
{
    struct sm_in_ring *ring = NULL;
    int32_t ret = sm_in_ring_make(context, index, slot, &ring);

    /* Without memory or descriptors, or while the peer's memory is missing, watch tries again. */
    if (ret == NA_PLUGIN_NOMEM || ret == NA_PLUGIN_AGAIN) {
        (void) atomic_fetch_or_explicit(&context->area->doorbells[index / 64],
                                        UINT64_C(1) << (index % 64), memory_order_relaxed);
        context->accept_later |= UINT64_C(1) << (index / 64);
        return;
    }
    if (ret == NA_PLUGIN_NOENTRY || ret == NA_PLUGIN_HOSTUNREACH) {
        sm_slot_release(slot); /* the sender died meanwhile */
        return;
    }
    if (ret != NA_PLUGIN_SUCCESS) {
        sm_store_release(&slot->status, SM_RING_REFUSED);
        SM_LOG_ERROR("a sender at slot %u describes no ring (status %d): refused", index, ret);
        return;
    }
    ring->closing = sm_owner_state(sm_load_acquire(&slot->owner)) == SM_SLOT_CLOSING;
    sm_store_release(&slot->accepted, 1);
    sm_in_ring_activate(context, ring);
    sm_in_ring_sweep(context, 4);
}

static int32_t sm_in_ring_make(struct na_plugin_context *context, uint32_t index,
                               struct sm_peer_slot *slot, struct sm_in_ring **ring_p)
{
    char name[SM_NAME_MAX + 1];
    uint64_t incarnation = slot->incarnation;
    uint64_t offset = slot->ring_offset;
    uint32_t data_size = slot->ring_data;
    struct sm_in_ring ***page = &context->in[index / 64];
    struct sm_in_ring *ring;
    const char *reason;
    int32_t ret;
    void *map;

    memcpy(name, slot->name, sizeof(name));
    name[SM_NAME_MAX] = '\0';
    if (!sm_name_check(name, strlen(name), &reason) || incarnation == 0 ||
        data_size < SM_DATA_MIN || data_size > SM_DATA_MAX || (data_size & (data_size - 1)) != 0 ||
        offset % (uint64_t) sysconf(_SC_PAGESIZE) != 0)
        return NA_PLUGIN_PROTOCOL_ERROR;
    if (*page == NULL && (*page = kit_host->mem_alloc(64 * sizeof(**page), 0)) == NULL)
        return NA_PLUGIN_NOMEM;
    ring = kit_host->mem_alloc(sizeof(*ring), SM_CACHE_LINE);
    if (ring == NULL)
        return NA_PLUGIN_NOMEM;
    ring->peer_slot = slot;
    ring->index = index;
    kit_list_init(&ring->polled);
    ret = sm_peer_get(context->na_class, name, incarnation, false, &ring->peer);
    if (ret != NA_PLUGIN_SUCCESS)
        goto error;
    ret = sm_peer_map(ring->peer, offset, sm_layout_ring_size(data_size), false, &map);
    if (ret != NA_PLUGIN_SUCCESS)
        goto error;
    ring->slots = map;
    ring->data = (const uint8_t *) map + (size_t) SM_RING_SLOTS * SM_RING_SLOT;
    ring->data_lines = data_size / SM_CACHE_LINE;
    (*page)[index % 64] = ring;
    context->in_count++;
    *ring_p = ring;
    return NA_PLUGIN_SUCCESS;

error:
    sm_in_ring_unmap(context, ring);
    return ret;
}

static void sm_in_ring_unmap(struct na_plugin_context *context, struct sm_in_ring *ring)
{
    kit_parted_drop(&context->parts, &ring->parted);
    if (ring->slots != NULL)
        (void) munmap((void *) (uintptr_t) ring->slots,
                      sm_layout_ring_size(ring->data_lines * SM_CACHE_LINE));
    if (ring->peer != NULL) {
        sm_sub(&ring->peer->refs, ring->references);
        sm_peer_release(ring->peer);
    }
    kit_host->mem_free(ring);
}

static void sm_slot_release(struct sm_peer_slot *slot)
{
    sm_store(&slot->status, 0);
    sm_store_release(&slot->owner, 0);
}

/* Checks the next `count` slots and releases those whose sender died. */
static void sm_in_ring_sweep(struct na_plugin_context *context, uint32_t count)
{
    uint32_t reserved = sm_load_acquire(&context->area->slots_reserved);

    if (reserved == 0 || reserved > SM_PEER_SLOTS)
        reserved = SM_PEER_SLOTS;
    for (uint32_t i = 0; i < count && i < reserved; i++) {
        uint32_t index = context->sweep_next++ % reserved;
        struct sm_in_ring **page = context->in[index / 64];
        struct sm_in_ring *ring = page != NULL ? page[index % 64] : NULL;

        if (ring == NULL || ring->closing)
            continue;
        if (sm_peer_failure(ring->peer) == 0 && sm_peer_alive(ring->peer))
            continue;
        sm_peer_fail(ring->peer, NA_PLUGIN_HOSTUNREACH);
        ring->closing = true;
        if (!ring->refused)
            sm_in_ring_activate(context, ring); /* the poll drains and then releases it */
        else
            sm_in_ring_release(context, ring);
    }
}
