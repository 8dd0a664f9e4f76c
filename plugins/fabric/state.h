/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of the message layer, and what its files offer each other. Everything here is guarded
 * by the endpoint's lock unless a comment says otherwise.
 */

#ifndef FABRIC_STATE_H
#define FABRIC_STATE_H

#include "fabric.h"
#include "kit_base.h"
#include "kit_match.h"
#include "wire.h"

#include <stdatomic.h>

#define FABRIC_DEFERRED_BYTES (UINT64_C(16) << 20)
#define FABRIC_FRAME_BYTES    (UINT64_C(128) << 20) /* memory for frames to send, at most */
#define FABRIC_FRAME_MIN      256u                  /* but at least so many frames */
#define FABRIC_PEER_MAX       (UINT32_C(1) << 20)
#define FABRIC_TICK_NS        UINT64_C(100000000)
#define FABRIC_RETRY_NS       UINT64_C(1000000)  /* until a sleeper tries a refused frame again */
#define FABRIC_RETRY_NS_MAX   UINT64_C(32000000) /* the same while nothing moves */
#define FABRIC_PAUSE_NS       UINT64_C(50000000) /* a sleep that the fabric cannot end */
#define FABRIC_POLLS_A_CLOCK  32u
#define FABRIC_PING_MS        250u  /* silence after which a peer that is waited for gets a HELLO */
#define FABRIC_HELLO_MS       1000u /* for a successor of a dead process to answer */
#define FABRIC_CLOSED_MS      5000u /* after a BYE, for the peer to be opened again */
#define FABRIC_PING_MS_MAX    2000u /* longest distance of further HELLOs */

/* Of what every message passes: part of its caller, whatever the compiler thinks of the size. */
#define FABRIC_INLINE                     inline __attribute__((always_inline))

#define FABRIC_LOG(endpoint, level, ...)  KIT_LOG(level, (endpoint)->plugin, __VA_ARGS__)
#define FABRIC_LOG_ERROR(endpoint, ...)   FABRIC_LOG(endpoint, NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define FABRIC_LOG_WARNING(endpoint, ...) FABRIC_LOG(endpoint, NA_PLUGIN_LOG_WARNING, __VA_ARGS__)
#define FABRIC_LOG_INFO(endpoint, ...)    FABRIC_LOG(endpoint, NA_PLUGIN_LOG_INFO, __VA_ARGS__)
#define FABRIC_LOG_DEBUG(endpoint, ...)   FABRIC_LOG(endpoint, NA_PLUGIN_LOG_DEBUG, __VA_ARGS__)

enum fabric_op_kind {
    FABRIC_OP_NONE,
    FABRIC_OP_UNEXPECTED, /* sends */
    FABRIC_OP_EXPECTED,
    FABRIC_OP_CONTROL, /* ours, not the core's */
    FABRIC_OP_RECV,
    FABRIC_OP_RMA,
};

/* The private part of an operation; in one list at a time. */
struct fabric_op {
    union {
        struct kit_link link;
        struct kit_recv recv;
    };
    struct fabric_context *context;
    struct fabric_peer_state *peer;
    const void *data; /* sends */
    uint64_t size;
    uint32_t kind;
    uint32_t tag;
    uint32_t remote_id; /* context at the other side */
    uint32_t epoch;     /* of the peer when it was posted */
    uint32_t cancelled; /* asked for while its frame was in progress */
};

/* A control record that waits or is being sent. */
struct fabric_control {
    struct fabric_op op;
    uint8_t data[WIRE_CONTROL_MAX];
};

/* A frame of ours. */
struct fabric_out {
    struct fabric_frame frame; /* first */
    struct kit_link link;      /* free, being sent, or on its way to ourselves */
    struct kit_link ops;
    struct fabric_peer_state *peer;
    uint32_t connection; /* of the peer when it was sent */
    uint32_t pending;    /* what was pending for the peer, and is in this frame */
    bool is_compact;
};

struct fabric_slab {
    struct fabric_slab *next;
    uint8_t *memory;
    struct fabric_out *outs;
    uint8_t *privs;
    void *registration;
    bool is_registered;
};

/* A received frame that waits until there is room for its unexpected messages. */
struct fabric_deferred {
    struct kit_link link; /* of the peer */
    const uint8_t *data;
    uint64_t size;
    uint64_t offset; /* of the first record that was not taken; 0: a compact frame */
    void *cookie;    /* NULL: it is a copy */
    bool is_own;     /* a frame to ourselves: cookie is a struct fabric_out */
    uint8_t copy[];
};

/* A put or get. */
struct fabric_request {
    struct fabric_rma rma; /* first */
    struct kit_link link;  /* of the peer, or of those that are to be abandoned, or that are done */
    struct fabric_op *op;  /* NULL once it completed */
    struct fabric_peer_state *peer;
    int32_t status; /* with which it is to be abandoned, or is done */
};

struct fabric_context {
    struct fabric_endpoint *endpoint;
    uint32_t id;
    bool active;
    bool stopped;  /* was active: what comes for it is dropped */
    bool armed;    /* a thread may sleep on its descriptor */
    bool signaled; /* event_fd was written to */
    int epoll_fd;
    int event_fd;
    struct kit_match match;
};

/* What the next frame to a peer has to carry or wait for. Not 0: the fast path is closed. */
#define FABRIC_PENDING_HELLO     0x01u /* until it is answered every frame carries one */
#define FABRIC_PENDING_HELLO_ACK 0x02u
#define FABRIC_PENDING_BYE       0x04u
#define FABRIC_PENDING_PING      0x10u /* a HELLO, also while an earlier one is not answered */
#define FABRIC_NOT_READY         0x20u /* it did not answer yet */
#define FABRIC_FAILED            0x40u /* its failure was reported, and is not dealt with yet */
#define FABRIC_STALE             0x80u /* the way to its predecessor is to be closed */

enum fabric_peer_phase {
    FABRIC_PEER_NEW,
    FABRIC_PEER_HELLO_SENT,
    FABRIC_PEER_READY,
};

struct fabric_peer_state {
    struct fabric_peer peer; /* first: what the plugin and the core see */
    struct fabric_endpoint *endpoint;
    _Atomic uint32_t refs; /* of the core and of messages; any thread */

    /* Read and written by every message */
    uint32_t pending;
    uint32_t in_flight; /* frames of this connection that are being sent */
    bool is_heard;      /* since the last tick */
    bool is_watched;
    uint64_t their_token;
    uint32_t their_incarnation_low;
    uint32_t epoch;
    uint32_t sent_sequence; /* of the last frame under their token */
    uint32_t their_mask;    /* is added to it on the way */
    uint32_t received_sequence;
    struct kit_link queue;      /* operations that wait for a frame */
    struct fabric_out *stalled; /* a frame that the fabric had no room for */
    uint32_t waiting;           /* operations that wait for it: receives, queue, RMA */
    uint32_t connection; /* counts connections: frames of an earlier one end without effect */

    uint32_t phase;
    uint32_t hello_epoch; /* of the last HELLO that we sent */
    uint32_t answered;    /* epochs up to this are of the incarnation that we know */
    uint64_t their_incarnation;
    uint32_t their_epoch; /* to be echoed */
    uint32_t index;       /* our token for it: slot and nonce, which is random */
    uint32_t nonce;
    uint32_t mask; /* of the sequences of its frames; it is told with the token */
    struct fabric_peer_state *canonical; /* the object that stands for its process */
    struct fabric_peer_state *source;    /* the same in matching, which follows */
    struct kit_link frames;              /* being sent, over any connection */
    struct kit_link rma_queue;
    struct kit_link rma_started;
    struct kit_link deferred;
    struct kit_link watch_link;
    struct kit_link retry_link;
    struct kit_link active_link;
    struct fabric_peer_state *name_next;
    struct fabric_peer_state *incarnation_next;
    uint64_t host, pid_namespace, start_time;
    uint32_t pid;
    uint32_t name_hash;
    uint32_t silent_ms; /* how long something has been waiting for it without a sign of life */
    uint32_t quiet_ms;  /* likewise, and without an answer of its host */
    uint32_t probed_ms; /* the silence at which the host was asked last */
    int probe_fd;
    bool is_probing;
    bool is_probe_answered; /* the host took the connection */
    uint32_t idle_sweeps;
    uint32_t ping_ms; /* silence at which it gets another HELLO */
    bool is_open;     /* ops.peer_open succeeded */
    bool is_self;
    bool is_removable; /* goes when nobody needs it any more */
    bool has_closed;   /* sent a BYE, and no HELLO since */
    bool is_suspect;   /* its process was gone at the last tick */
    int32_t failure;   /* FABRIC_FAILED: the status for what waits for it, and the reason */
    const char *failure_reason;
    uint32_t lost_before; /* what was posted before this epoch is lost; 0: nothing */
};

/* The plugin's part begins behind these. */
#define FABRIC_PEER_SIZE    ((sizeof(struct fabric_peer_state) + 63) / 64 * 64)
#define FABRIC_REQUEST_SIZE ((sizeof(struct fabric_request) + 63) / 64 * 64)

struct fabric_slot {
    struct fabric_peer_state *peer; /* NULL: free */
    uint32_t nonce;
    uint32_t next_free;
};

struct fabric_counters {
    uint64_t frames_sent;
    uint64_t frames_received;
    uint64_t frames_bad;
    uint64_t frames_stale;
    uint64_t messages_dropped;
    uint64_t hellos;
};

struct fabric_endpoint_state {
    struct fabric_endpoint *endpoint;
    uint64_t incarnation;
    struct kit_keys keys; /* random numbers for tokens */
    uint64_t max_unexpected;
    uint64_t max_expected;
    uint32_t max_contexts;
    uint32_t open_contexts;
    struct fabric_context *contexts;
    bool is_busy;
    bool is_no_retry;
    bool is_sweep_due;
    _Alignas(64) struct kit_lock lock;
    _Atomic uint32_t gave_way; /* polls that left the lock to another thread */

    _Alignas(64) uint64_t completed;
    uint32_t polls;
    uint32_t armed_count; /* contexts */
    uint64_t waiting;     /* sums over the peers */
    uint64_t in_flight;
    uint64_t cancelling;
    bool is_marked; /* something is left for fabric_dispatch() */

    struct kit_link free_frames;
    struct kit_link own_frames; /* sent to ourselves */
    struct fabric_slab *slabs;
    uint32_t frame_count;
    uint32_t frame_limit;
    struct kit_link free_controls;
    struct kit_link free_requests;
    struct kit_link rma_done;    /* requests that the fabric has let go of */
    struct kit_link rma_abandon; /* requests that it is to be asked to end */
    struct kit_link active;      /* peers that something was learnt of */
    struct kit_link retry;       /* peers */
    struct kit_link watch;       /* peers */
    uint32_t deferred_count;     /* frames */
    struct kit_deferrals deferrals;
    bool is_refused; /* the core had no memory for a deferred message */

    struct fabric_peer_state *self;
    struct fabric_slot *slots;
    uint32_t slot_count;
    uint32_t slot_free; /* index; slot_count: none */
    uint32_t slot_sweep;
    uint32_t sweeps; /* peers that are to be checked */
    uint32_t peer_count;
    struct fabric_peer_state **names;
    struct fabric_peer_state **incarnations;
    uint32_t hash_mask;

    bool is_tick_due; /* the next poll reads the clock */
    bool is_paused;   /* sleepers are not woken by the fabric */
    int timer_fd;
    uint32_t ticks;
    uint32_t silence_ms; /* after which a peer has failed; 0: never */
    uint32_t watch_count;
    uint64_t timer_end;   /* when it goes off; 0: it is not set */
    uint64_t retry_delay; /* until what was refused is tried again by a sleeper */
    uint64_t retry_moved; /* frames sent and received when that was chosen */
    uint64_t tick_last;

    uint64_t host_id, pid_namespace, start_time;
    uint32_t pid;
    char *name;
    uint8_t *raw;
    uint32_t raw_size;
    struct fabric_counters counters;
};

static inline struct fabric_op *fabric_list_first_op(const struct kit_link *list)
{
    return (struct fabric_op *) (void *) list->next;
}

static inline struct fabric_peer_state *fabric_peer_state(struct fabric_peer *peer)
{
    return (struct fabric_peer_state *) (void *) peer;
}

static inline struct fabric_peer_state *fabric_addr_state(struct na_plugin_addr *addr)
{
    return (struct fabric_peer_state *) (void *) addr;
}

static inline struct na_plugin_addr *fabric_peer_addr(struct fabric_peer *peer)
{
    return (struct na_plugin_addr *) (void *) peer;
}

static inline struct fabric_context *fabric_context(struct na_plugin_context *context)
{
    return (struct fabric_context *) (void *) context;
}

static inline struct fabric_endpoint *fabric_class(struct na_plugin_class *na_class)
{
    return (struct fabric_endpoint *) (void *) na_class;
}

/* Any thread, unless there is only one at a time. */
static inline void fabric_peer_count(struct fabric_peer_state *peer, uint32_t change)
{
    if (peer->endpoint->state->lock.is_elided)
        atomic_store_explicit(&peer->refs,
                              atomic_load_explicit(&peer->refs, memory_order_relaxed) + change,
                              memory_order_relaxed);
    else
        (void) atomic_fetch_add_explicit(&peer->refs, change, memory_order_release);
}

static inline void fabric_peer_hold(struct fabric_peer_state *peer)
{
    fabric_peer_count(peer, 1);
}

static inline void fabric_peer_release(struct fabric_peer_state *peer)
{
    fabric_peer_count(peer, UINT32_MAX);
}

/* wait.c */
int32_t fabric_wait_setup(struct fabric_endpoint_state *state);
int32_t fabric_wait_setup_context(struct fabric_context *context);
void fabric_wait_teardown_context(struct fabric_context *context);
bool fabric_wait_arm(struct fabric_context *context);
void fabric_wait_disarm(struct fabric_context *context);
void fabric_wait_rearm(struct fabric_endpoint_state *state);
void fabric_wait_timer_read(struct fabric_endpoint_state *state, uint64_t now);
void fabric_wait_kick(struct fabric_context *context);
void fabric_wait_kick_any(struct fabric_endpoint_state *state);

/* The operation belongs to the core after these. */
static inline void fabric_complete(struct fabric_endpoint_state *state, struct fabric_op *op,
                                   int32_t status)
{
    struct fabric_context *context = op->context;

    state->completed++;
    kit_host->op_complete(op, status);
    if (kit_unlikely(context->armed))
        fabric_wait_kick(context);
}

static inline void fabric_complete_recv(struct fabric_endpoint_state *state, struct fabric_op *op,
                                        int32_t status, uint64_t size, struct fabric_peer *source,
                                        uint32_t tag)
{
    struct fabric_context *context = op->context;

    state->completed++;
    kit_host->op_complete_recv(op, status, size, fabric_peer_addr(source), tag);
    if (kit_unlikely(context->armed))
        fabric_wait_kick(context);
}

/* Something was learnt of the peer: fabric_dispatch() acts on it. */
static inline void fabric_peer_mark(struct fabric_peer_state *peer)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;

    state->is_marked = true;
    if (kit_list_empty(&peer->active_link))
        kit_list_append(&state->active, &peer->active_link);
}

static inline int32_t fabric_peer_open(struct fabric_peer_state *peer)
{
    int32_t ret = NA_PLUGIN_SUCCESS;

    if (kit_unlikely(!peer->is_open)) {
        ret = peer->endpoint->ops->peer_open(peer->endpoint, &peer->peer);
        peer->is_open = ret == NA_PLUGIN_SUCCESS;
    }
    return ret;
}

static inline void fabric_peer_close(struct fabric_peer_state *peer)
{
    if (!peer->is_open)
        return;
    peer->is_open = false;
    peer->endpoint->ops->peer_close(peer->endpoint, &peer->peer);
}

/* liveness.c */
void fabric_watch_add(struct fabric_peer_state *peer);
void fabric_watch_tick(struct fabric_endpoint_state *state, uint64_t now);
void fabric_process_describe(struct fabric_endpoint_state *state);
bool fabric_peer_process_gone(const struct fabric_peer_state *peer);

/* silence.c */
int32_t fabric_silence_setup(struct fabric_endpoint_state *state);
void fabric_silence_end(struct fabric_peer_state *peer);
bool fabric_silence_watch(struct fabric_peer_state *peer, uint64_t elapsed_ms);

static inline void fabric_waiting_add(struct fabric_peer_state *peer)
{
    peer->waiting++;
    peer->endpoint->state->waiting++;
    if (kit_unlikely(!peer->is_watched))
        fabric_watch_add(peer);
}

static inline void fabric_waiting_remove(struct fabric_peer_state *peer)
{
    peer->waiting--;
    peer->endpoint->state->waiting--;
}

/* frame.c */
bool fabric_slab_add(struct fabric_endpoint_state *state);
void fabric_out_free_all(struct fabric_endpoint_state *state);
struct fabric_control *fabric_control_get(struct fabric_endpoint_state *state);
void fabric_control_put(struct fabric_endpoint_state *state, struct fabric_control *control);
bool fabric_out_add_op(struct fabric_out *out, struct fabric_op *op);
uint8_t *fabric_out_add(struct fabric_out *out, uint32_t kind, uint32_t size);
bool fabric_out_has_room(const struct fabric_out *out, uint64_t size);
void fabric_out_end(struct fabric_out *out);

/* NULL when the bound is reached or memory is short: try again when a frame comes back. */
static inline struct fabric_out *fabric_out_get(struct fabric_endpoint_state *state)
{
    struct kit_link *link;

    if (kit_unlikely(kit_list_empty(&state->free_frames)) && !fabric_slab_add(state))
        return NULL;
    link = state->free_frames.next;
    kit_list_take(link);
    return kit_container(link, struct fabric_out, link);
}

/* The one that was used last is the next: it is in the cache. */
static inline void fabric_out_put(struct fabric_endpoint_state *state, struct fabric_out *out)
{
    kit_list_prepend(&state->free_frames, &out->link);
}

static inline void fabric_out_begin(struct fabric_out *out, struct fabric_peer_state *peer)
{
    out->frame.size = sizeof(struct wire_header);
    out->frame.is_hello = false;
    out->frame.peer = &peer->peer;
    out->peer = peer;
    out->connection = peer->connection;
    out->pending = 0;
    out->is_compact = false;
}

/* queue.c */
void fabric_peer_flush(struct fabric_peer_state *peer);
bool fabric_out_send(struct fabric_peer_state *peer, struct fabric_out *out);
void fabric_out_refused(struct fabric_peer_state *peer, struct fabric_out *out, int32_t status);
void fabric_out_unbuild(struct fabric_peer_state *peer);
void fabric_queue_fail(struct fabric_peer_state *peer, uint32_t before_epoch, int32_t status);
bool fabric_queue_cancel(struct fabric_context *context, const struct fabric_op *op);
void fabric_queue_cancel_all(struct fabric_context *context);
void fabric_queue_end_cancelled(struct fabric_endpoint_state *state);

static inline void fabric_retry_add(struct fabric_peer_state *peer)
{
    if (kit_list_empty(&peer->retry_link))
        kit_list_append(&peer->endpoint->state->retry, &peer->retry_link);
}

/* To the fabric. False: it did not take it, and the peer is what it was before the frame. */
static FABRIC_INLINE bool fabric_out_pass(struct fabric_peer_state *peer, struct fabric_out *out,
                                          uint32_t sequence, uint32_t phase)
{
    struct fabric_endpoint *endpoint = peer->endpoint;
    int32_t ret;

    if (kit_unlikely(!peer->is_watched))
        fabric_watch_add(peer);
    peer->in_flight++;
    endpoint->state->in_flight++;
    kit_list_append(&peer->frames, &out->link);
    ret = endpoint->ops->send(endpoint, &out->frame);
    if (kit_likely(ret == NA_PLUGIN_SUCCESS)) {
        endpoint->state->counters.frames_sent++;
        return true;
    }
    peer->sent_sequence = sequence;
    peer->phase = phase;
    fabric_out_refused(peer, out, ret);
    return false;
}

/* receive.c */
void fabric_own_frames_deliver(struct fabric_endpoint_state *state);
void fabric_deferred_resume(struct fabric_endpoint_state *state);
void fabric_deferred_drop(struct fabric_peer_state *peer);

/* matching.c */
void fabric_matching_setup(struct fabric_context *context);
void fabric_matching_dispatch(struct fabric_context *context);
bool fabric_unexpected_deliver(struct fabric_peer_state *peer, struct fabric_context *context,
                               uint32_t tag, const void *data, uint32_t size);
void fabric_expected_deliver(struct fabric_peer_state *peer, struct fabric_context *context,
                             uint32_t source_id, uint32_t tag, const void *data, uint32_t size);
bool fabric_recv_cancel(struct fabric_context *context, void *op, bool is_trusted);
void fabric_recv_cancel_all(struct fabric_context *context);
void fabric_recv_fail(struct fabric_peer_state *peer, uint32_t before_epoch, int32_t status);
void fabric_recv_rematch(struct fabric_peer_state *peer);
void fabric_unexpected_again(struct fabric_endpoint_state *state);

/* op.c */
extern const struct na_plugin_multi_recv fabric_multi_recv_extension;

/* rma.c */
struct fabric_request *fabric_request_get(struct fabric_endpoint_state *state);
void fabric_rma_flush(struct fabric_peer_state *peer);
void fabric_rma_drain(struct fabric_endpoint_state *state);
bool fabric_rma_refuse(struct fabric_peer_state *peer, const struct fabric_op *op);
bool fabric_rma_cancel(struct fabric_context *context, const struct fabric_op *op);
void fabric_rma_cancel_all(struct fabric_context *context);
void fabric_rma_forget(struct fabric_context *context);
bool fabric_rma_is_idle(const struct fabric_context *context);
void fabric_rma_fail(struct fabric_peer_state *peer, uint32_t before_epoch, int32_t status);
void fabric_rma_free_all(struct fabric_endpoint_state *state);

/* poll.c */
int32_t fabric_progress(struct fabric_endpoint_state *state);

/* failure.c */
void fabric_peer_fail(struct fabric_peer_state *peer);
void fabric_peer_leave(struct fabric_peer_state *peer);
void fabric_peer_changed(struct fabric_peer_state *peer);

/* peer.c */
int32_t fabric_peers_setup(struct fabric_endpoint_state *state);
void fabric_peers_destroy(struct fabric_endpoint_state *state);
int32_t fabric_peer_make(struct fabric_endpoint_state *state, const char *name,
                         struct fabric_peer_state **peer_p);
struct fabric_peer_state *fabric_peer_by_name(struct fabric_endpoint_state *state,
                                              const char *name);
struct fabric_peer_state *fabric_peer_by_incarnation(struct fabric_endpoint_state *state,
                                                     uint64_t incarnation);
struct fabric_peer_state *fabric_peer_by_token(struct fabric_endpoint_state *state, uint64_t token);
int32_t fabric_peer_set_raw(struct fabric_peer_state *peer, const void *raw, uint32_t raw_size);
void fabric_peer_set_incarnation(struct fabric_peer_state *peer, uint64_t incarnation);
void fabric_peer_set_canonical(struct fabric_peer_state *peer, struct fabric_peer_state *canonical);
void fabric_peer_reset(struct fabric_peer_state *peer);
bool fabric_peer_is_unused(struct fabric_peer_state *peer);
void fabric_peer_free(struct fabric_peer_state *peer);
void fabric_peer_hello_again(struct fabric_peer_state *peer);

/* The one after it; 0 is for frames that are not counted. */
static inline uint32_t fabric_sequence_next(uint32_t sequence)
{
    return sequence == UINT32_MAX ? 1 : sequence + 1;
}

/* As it travels. */
static inline uint32_t fabric_sequence_sent(const struct fabric_peer_state *peer)
{
    return peer->sent_sequence + peer->their_mask;
}

static inline uint64_t fabric_peer_token(const struct fabric_peer_state *peer)
{
    return (uint64_t) peer->nonce << 32 | peer->index;
}

/* hello.c */

/* What a HELLO or HELLO_ACK says, checked. */
struct fabric_hello {
    struct wire_hello wire; /* in our byte order */
    char name[FABRIC_NAME_MAX];
    const uint8_t *raw;
};

uint32_t fabric_hello_size(const struct fabric_endpoint_state *state);
void fabric_hello_write(const struct fabric_peer_state *peer, uint32_t kind, uint8_t *place);
struct fabric_peer_state *fabric_hello_read(struct fabric_endpoint_state *state, const void *path,
                                            const void *data, uint32_t size,
                                            struct fabric_hello *hello);
bool fabric_hello_take(struct fabric_peer_state *peer, const struct fabric_hello *hello);
bool fabric_name_is_good(const uint8_t *name, uint32_t size);
bool fabric_hello_ack_received(struct fabric_peer_state *peer, const void *data, uint32_t size);

/* address.c */
extern const struct na_plugin_addr_serialize fabric_addr_serialize_extension;

#endif /* FABRIC_STATE_H */
