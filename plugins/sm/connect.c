/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sending end of a connection, made at the first message to a context of a peer: a ring in our
 * segment, and a slot in the peer's table that says where the ring is.
 */

#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static int32_t sm_conn_establish(struct sm_conn *conn);
static int32_t sm_conn_map_ring(struct sm_conn *conn);
static int32_t sm_conn_take_region(struct sm_conn *conn, uint32_t *data_size_p, uint64_t *region_p);
static int32_t sm_conn_claim_slot(struct sm_conn *conn, struct sm_peer_slot **slot_p);
static struct sm_peer_slot *sm_conn_try_slots(struct sm_conn *conn, uint32_t count, bool reclaim);
static int32_t sm_conn_reserve_slots(struct sm_conn *conn, uint32_t reserved);
static void sm_conn_announce_ring(struct sm_conn *conn, struct sm_peer_slot *slot);
static void sm_conn_ring_doorbell(struct sm_conn *conn);
static void sm_conn_wake(struct sm_conn *conn);

/* The slow path of sm_conn_get(), which also checks the number of the context. */
int32_t sm_conn_make(struct na_plugin_addr *peer, uint32_t remote_id, struct sm_conn **conn_p)
{
    struct na_plugin_class *na_class = peer->na_class;
    struct sm_conn *conn;

    if (remote_id >= peer->header.max_contexts) {
        SM_LOG_ERROR("there is no context %u at %s, which was opened for max_contexts %u",
                     remote_id, peer->name, peer->header.max_contexts);
        return NA_PLUGIN_INVALID_ARG;
    }
    kit_lock_take(&na_class->lock);
    conn = sm_load(&peer->conns[remote_id]);
    if (conn == NULL &&
        (conn = kit_host->mem_alloc(sizeof(*conn), _Alignof(struct sm_conn))) != NULL) {
        conn->peer = peer;
        conn->remote_id = remote_id;
        conn->fence = !na_class->membarrier || (peer->header.flags & SM_ENDPOINT_FENCE) != 0;
        conn->lock.is_elided = na_class->backlog_lock.is_elided;
        conn->context_area = sm_context_area_of(peer->base, remote_id);
        kit_list_init(&conn->pending);
        kit_list_init(&conn->backlog_link);
        sm_store(&conn->gate, 1);
        sm_store_release(&peer->conns[remote_id], conn);
    }
    kit_lock_drop(&na_class->lock);
    *conn_p = conn;
    return conn != NULL ? NA_PLUGIN_SUCCESS : NA_PLUGIN_NOMEM;
}

/* Nothing is sent from now on: the slow path fails pending sends and new ones. [any thread] */
void sm_conn_abort(struct sm_conn *conn, int32_t status)
{
    int32_t none = 0;

    (void) atomic_compare_exchange_strong_explicit(&conn->failure, &none, status,
                                                   memory_order_acq_rel, memory_order_relaxed);
    sm_store_release(&conn->gate, 1);
}

/* A living receiver is told, and still reads the ring; else the ring's region is free again. */
void sm_conn_destroy(struct sm_conn *conn)
{
    struct na_plugin_class *na_class = conn->peer->na_class;
    bool told = false;

    if (conn->state == SM_CONN_READY && !na_class->forked) {
        uint64_t owner = sm_class_owner(na_class, SM_SLOT_READY);

        if (atomic_compare_exchange_strong_explicit(&conn->peer_slot->owner, &owner,
                                                    sm_class_owner(na_class, SM_SLOT_CLOSING),
                                                    memory_order_release, memory_order_relaxed) &&
            conn->peer != na_class->self && sm_peer_alive(conn->peer)) {
            told = true;
            sm_conn_ring_doorbell(conn);
            if (atomic_load_explicit(&conn->context_area->flags, memory_order_seq_cst) &
                SM_CONTEXT_ASLEEP)
                sm_wake_peer(conn->peer, conn->remote_id);
        }
    }
    if (conn->slots != NULL)
        (void) munmap(conn->slots, conn->region_size);
    if (conn->slots != NULL && !told) {
        kit_lock_take(&na_class->connect_lock);
        sm_region_give(&na_class->segment, conn->region, conn->region_size);
        kit_lock_drop(&na_class->connect_lock);
    }
    kit_host->mem_free(conn);
}

/* Called after publishing, when the receiver wants a doorbell or wake-up, or refuses the ring. */
void sm_conn_notify_slow(struct sm_conn *conn, uint32_t status)
{
    if (status & SM_RING_REFUSED) {
        sm_conn_abort(conn, NA_PLUGIN_PROTOCOL_ERROR);
        sm_backlog_add(conn);
        return;
    }
    if (status & SM_RING_IDLE)
        sm_conn_ring_doorbell(conn);
    sm_conn_wake(conn);
}

/* As sm_conn_ready(), for copied transfers; it takes the connection's lock. */
int32_t sm_conn_prepare(struct sm_conn *conn)
{
    int32_t ret;

    if (kit_likely(sm_load_acquire(&conn->connected_slot) != NULL &&
                   sm_load_acquire(&conn->failure) == 0 && !sm_context_gone(conn->context_area)))
        return sm_peer_failure(conn->peer);
    kit_lock_take(&conn->lock);
    ret = sm_conn_ready(conn);
    kit_lock_drop(&conn->lock);
    return ret;
}

/* Asks the receiver to wake this context when it has made room in the ring. */
void sm_conn_announce(struct sm_conn *conn, struct na_plugin_context *context)
{
    struct sm_peer_slot *slot = sm_load_acquire(&conn->connected_slot);

    if (slot == NULL)
        return;
    (void) atomic_fetch_or_explicit(&slot->blocked, UINT32_C(1) << (context->id % 32),
                                    memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst);
}

void sm_backlog_add(struct sm_conn *conn)
{
    struct na_plugin_class *na_class = conn->peer->na_class;

    kit_lock_take(&na_class->backlog_lock);
    if (kit_list_empty(&conn->backlog_link)) {
        sm_peer_hold(conn->peer);
        kit_list_append(&na_class->backlog, &conn->backlog_link);
        sm_add_release(&na_class->backlog_count, 1);
    }
    kit_lock_drop(&na_class->backlog_lock);
}

/*
 * Connects if necessary. Success when messages can be written, NA_PLUGIN_AGAIN while the connection
 * is not made, another status when pending sends must fail. The connection's lock is held.
 */
int32_t sm_conn_ready(struct sm_conn *conn)
{
    int32_t ret = sm_load_acquire(&conn->failure);
    uint64_t now;

    if (ret == 0)
        ret = sm_peer_failure(conn->peer);
    if (ret == 0 && sm_context_gone(conn->context_area))
        ret = NA_PLUGIN_HOSTUNREACH;
    if (ret != 0 || conn->state == SM_CONN_READY)
        return ret;
    if (kit_unlikely(!sm_peer_mapped(conn->peer))) {
        /* Without a timeout: a peer that does not poll does not read messages either. */
        kit_lock_take(&conn->peer->na_class->connect_lock);
        ret = sm_handover_ask(conn->peer, conn->remote_id);
        kit_lock_drop(&conn->peer->na_class->connect_lock);
        if (ret != NA_PLUGIN_SUCCESS)
            return ret;
    }
    now = kit_host->clock_ns();
    if (now < conn->connect_next)
        return NA_PLUGIN_AGAIN;
    ret = sm_conn_establish(conn);
    if (ret != NA_PLUGIN_AGAIN)
        return ret;
    conn->connect_next = now + SM_CONNECT_RETRY_NS;
    if (conn->connect_since == 0)
        conn->connect_since = now;
    if (now - conn->connect_since < SM_CONNECT_WAIT_NS)
        return NA_PLUGIN_AGAIN;
    SM_LOG_ERROR("%s has no room for another sender to its context %u: %u are connected",
                 conn->peer->name, conn->remote_id, SM_PEER_SLOTS);
    conn->connect_since = 0; /* a later send tries again */
    return NA_PLUGIN_BUSY;
}

/* Takes the first connection off the backlog. Its reference passes to the caller. */
struct sm_conn *sm_backlog_next(struct na_plugin_class *na_class)
{
    struct sm_conn *conn = NULL;

    kit_lock_take(&na_class->backlog_lock);
    if (!kit_list_empty(&na_class->backlog)) {
        struct kit_link *link = na_class->backlog.next;

        conn = kit_container(link, struct sm_conn, backlog_link);
        kit_list_remove(link);
        sm_sub_release(&na_class->backlog_count, 1);
    }
    kit_lock_drop(&na_class->backlog_lock);
    return conn;
}

/*
 * Connects, with the connection's lock held. NA_PLUGIN_AGAIN when the peer's table is full, to try
 * again; any other error fails the pending sends.
 */
static int32_t sm_conn_establish(struct sm_conn *conn)
{
    struct na_plugin_class *na_class = conn->peer->na_class;
    struct sm_peer_slot *slot = NULL;
    int32_t ret = sm_peer_failure(conn->peer);

    if (ret != 0)
        return ret;
    kit_lock_take(&na_class->connect_lock);
    ret = sm_conn_map_ring(conn);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = sm_conn_claim_slot(conn, &slot);
    kit_lock_drop(&na_class->connect_lock);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    sm_conn_announce_ring(conn, slot);
    conn->state = SM_CONN_READY;
    if (kit_list_empty(&conn->pending))
        sm_store_release(&conn->gate, 0);
    return NA_PLUGIN_SUCCESS;
}

/* Does nothing when an earlier try has mapped the ring. connect_lock is held. */
static int32_t sm_conn_map_ring(struct sm_conn *conn)
{
    struct na_plugin_class *na_class = conn->peer->na_class;
    uint64_t size, region;
    uint32_t data_size;
    uint8_t *ring;
    int32_t ret;

    if (conn->slots != NULL)
        return NA_PLUGIN_SUCCESS;
    ret = sm_conn_take_region(conn, &data_size, &region);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    size = sm_layout_ring_size(data_size);
    ring =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, na_class->segment.fd, (off_t) region);
    if (ring == MAP_FAILED) {
        SM_LOG_ERROR("a ring for %s cannot be mapped (%s)", conn->peer->name, strerror(errno));
        sm_region_give(&na_class->segment, region, size);
        return NA_PLUGIN_NOMEM;
    }
    memset(ring, 0, SM_RING_FIRST); /* the region may have been used */
    conn->slots = (struct sm_ring_slot *) ring;
    conn->data = ring + (size_t) SM_RING_SLOTS * SM_RING_SLOT;
    conn->data_lines = data_size / SM_CACHE_LINE;
    conn->region = region;
    conn->region_size = size;
    conn->slots_ready = SM_RING_FIRST / SM_RING_SLOT;
    conn->lines_ready = 0;
    sm_ring_open(conn);
    return NA_PLUGIN_SUCCESS;
}

/* If transfers are copied through the ring, a larger one saves wake-ups, if there is memory. */
static int32_t sm_conn_take_region(struct sm_conn *conn, uint32_t *data_size_p, uint64_t *region_p)
{
    struct na_plugin_class *na_class = conn->peer->na_class;
    struct sm_segment *segment = &na_class->segment;

    *data_size_p = SM_DATA_MAX;
    if (!sm_native_available(conn->peer) &&
        sm_region_take(segment, sm_layout_ring_size(SM_DATA_MAX), SM_RING_FIRST,
                       NA_PLUGIN_LOG_DEBUG, region_p) == NA_PLUGIN_SUCCESS)
        return NA_PLUGIN_SUCCESS;
    *data_size_p = SM_DATA_MIN;
    return sm_region_take(segment, sm_layout_ring_size(SM_DATA_MIN), SM_RING_FIRST,
                          NA_PLUGIN_LOG_ERROR, region_p);
}

static int32_t sm_conn_claim_slot(struct sm_conn *conn, struct sm_peer_slot **slot_p)
{
    struct sm_context_area *area = conn->context_area;

    for (;;) {
        uint32_t reserved = sm_load_acquire(&area->slots_reserved);
        int32_t ret;

        if (reserved > SM_PEER_SLOTS)
            return NA_PLUGIN_PROTOCOL_ERROR;
        *slot_p = sm_conn_try_slots(conn, reserved, false);
        if (*slot_p == NULL && reserved == SM_PEER_SLOTS) {
            *slot_p = sm_conn_try_slots(conn, reserved, true);
            if (*slot_p == NULL) {
                sm_conn_ring_doorbell(conn); /* the receiver releases slots of dead senders */
                sm_conn_wake(conn);
                return NA_PLUGIN_AGAIN;
            }
        }
        if (*slot_p != NULL)
            return NA_PLUGIN_SUCCESS;
        ret = sm_conn_reserve_slots(conn, reserved);
        if (ret != NA_PLUGIN_SUCCESS)
            return ret;
    }
}

/* Takes a free slot; with `reclaim` also one whose sender died before it was ready. */
static struct sm_peer_slot *sm_conn_try_slots(struct sm_conn *conn, uint32_t count, bool reclaim)
{
    struct na_plugin_class *na_class = conn->peer->na_class;
    uint64_t claimed = sm_class_owner(na_class, SM_SLOT_CLAIMED);
    struct sm_peer_slot *slots = sm_peer_slots_of(conn->peer->base, conn->remote_id);

    for (uint32_t i = 0; i < count; i++) {
        uint64_t owner = sm_load(&slots[i].owner);
        bool dead = reclaim && sm_owner_state(owner) == SM_SLOT_CLAIMED &&
                    (uint32_t) owner == (uint32_t) na_class->pid_namespace &&
                    sm_owner_pid(owner) != 0 && kill((pid_t) sm_owner_pid(owner), 0) != 0 &&
                    errno == ESRCH;

        if (owner != 0 && !dead)
            continue;
        if (atomic_compare_exchange_strong_explicit(&slots[i].owner, &owner, claimed,
                                                    memory_order_acquire, memory_order_relaxed)) {
            conn->peer_slot_index = i;
            return &slots[i];
        }
    }
    return NULL;
}

/* Backs the next few slots of the peer's table with memory. */
static int32_t sm_conn_reserve_slots(struct sm_conn *conn, uint32_t reserved)
{
    uint64_t file_size;
    int32_t ret;
    int fd;

    ret = sm_peer_open(conn->peer, O_RDWR, &fd, &file_size);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret == NA_PLUGIN_NOENTRY ? NA_PLUGIN_HOSTUNREACH : ret;
    ret = sm_reserve(fd,
                     sm_layout_peer_slots(conn->remote_id) + reserved * sizeof(struct sm_peer_slot),
                     SM_PEER_SLOTS_CHUNK * sizeof(struct sm_peer_slot), NA_PLUGIN_LOG_ERROR);
    (void) close(fd);
    if (ret == NA_PLUGIN_SUCCESS)
        (void) atomic_compare_exchange_strong_explicit(&conn->context_area->slots_reserved,
                                                       &reserved, reserved + SM_PEER_SLOTS_CHUNK,
                                                       memory_order_release, memory_order_relaxed);
    return ret;
}

static void sm_conn_announce_ring(struct sm_conn *conn, struct sm_peer_slot *slot)
{
    struct na_plugin_class *na_class = conn->peer->na_class;

    slot->incarnation = na_class->incarnation;
    slot->ring_offset = conn->region;
    slot->ring_data = conn->data_lines * SM_CACHE_LINE;
    slot->name_length = (uint32_t) strlen(na_class->name);
    memcpy(slot->name, na_class->name, sizeof(slot->name));
    sm_store(&slot->blocked, 0);
    sm_store(&slot->head, 0);
    sm_store(&slot->status, 0);
    sm_store(&slot->accepted, 0);
    conn->peer_slot = slot;
    sm_store_release(&conn->connected_slot, slot);
    sm_store_release(&slot->owner, sm_class_owner(na_class, SM_SLOT_READY));
    sm_conn_ring_doorbell(conn);
    sm_conn_wake(conn);
}

static void sm_conn_ring_doorbell(struct sm_conn *conn)
{
    uint32_t index = conn->peer_slot_index;

    (void) atomic_fetch_or_explicit(&conn->context_area->doorbells[index / 64],
                                    UINT64_C(1) << (index % 64), memory_order_release);
    (void) atomic_fetch_or_explicit(&conn->context_area->doorbell_summary,
                                    UINT64_C(1) << (index / 64), memory_order_seq_cst);
}

/*
 * Each connection wakes a sleeper once for each sleep. The flag is cleared by the sleeper alone: if
 * a sender cleared it and died before it sent the byte, the receiver would sleep on.
 */
static void sm_conn_wake(struct sm_conn *conn)
{
    uint32_t flags = atomic_load_explicit(&conn->context_area->flags, memory_order_seq_cst);

    if (flags & SM_CONTEXT_CLOSED) {
        sm_conn_abort(conn, NA_PLUGIN_HOSTUNREACH);
        sm_backlog_add(conn);
        return;
    }
    if ((flags & SM_CONTEXT_ASLEEP) == 0)
        return;
    if (sm_load(&conn->woken) == flags)
        return;
    if (sm_wake_peer(conn->peer, conn->remote_id))
        sm_store(&conn->woken, flags);
}
