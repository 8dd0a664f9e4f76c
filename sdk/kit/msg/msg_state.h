/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internal types and functions of the message layer. The endpoint's lock guards everything here
 * unless a comment says otherwise.
 */

#ifndef MSG_STATE_H
#define MSG_STATE_H

#include "kit_match.h"
#include "kit_msg.h"
#include "kit_parts.h"
#include "na_plugin_addr_serialize.h"
#include "na_plugin_counters.h"
#include "na_plugin_multi_recv.h"
#include "na_plugin_peer_events.h"
#include "wire.h"

#include <stdatomic.h>

#define MSG_DEFERRED_BYTES (UINT64_C(16) << 20)

/* Most deferred frames of a plugin without cookies, which are copied. */
#define MSG_DEFERRED_FRAMES 256u
#define MSG_FRAME_BYTES     (UINT64_C(128) << 20) /* most memory for frames to send, */
#define MSG_FRAME_MIN       256u                  /* but at least this number of frames */
#define MSG_RETRY_NS        UINT64_C(1000000)     /* sleep until a refused frame is tried again */
#define MSG_RETRY_NS_MAX    UINT64_C(32000000)    /* the same, while no frame is sent or received */
#define MSG_PAUSE_NS        UINT64_C(50000000)    /* sleep while the descriptor is paused */
#define MSG_POLLS_A_CLOCK   32u                   /* polls between two readings of the clock */
#define MSG_MESSAGE_MAX     (UINT64_C(256) << 10) /* longest message, in parts if need be */
#define MSG_PARTS_BYTES     (UINT64_C(256) << 20) /* most memory for incomplete messages */
#define MSG_PART_MIN        256u                  /* smallest part that shares a frame */
#define MSG_PARTED          4u /* incomplete messages of a peer, each to another name of ours */

/* For functions on the path of every message: always inlined, whatever their size. */
#define MSG_INLINE                     inline __attribute__((always_inline))

#define MSG_LOG(endpoint, level, ...)  KIT_LOG(level, (endpoint)->plugin, __VA_ARGS__)
#define MSG_LOG_ERROR(endpoint, ...)   MSG_LOG(endpoint, NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define MSG_LOG_WARNING(endpoint, ...) MSG_LOG(endpoint, NA_PLUGIN_LOG_WARNING, __VA_ARGS__)
#define MSG_LOG_INFO(endpoint, ...)    MSG_LOG(endpoint, NA_PLUGIN_LOG_INFO, __VA_ARGS__)
#define MSG_LOG_DEBUG(endpoint, ...)   MSG_LOG(endpoint, NA_PLUGIN_LOG_DEBUG, __VA_ARGS__)

/* The kind of an operation; that of a send is the kind of its record. */
enum msg_op_kind {
    MSG_OP_UNEXPECTED = WIRE_UNEXPECTED,
    MSG_OP_EXPECTED = WIRE_EXPECTED,
    MSG_OP_CONTROL = WIRE_CONTROL, /* internal: the core does not know it */
    MSG_OP_RECV,
    MSG_OP_RMA,
};

/* Tag of a WIRE_FLOW record. */
enum msg_flow {
    MSG_FLOW_NONE,
    MSG_FLOW_XOFF,
    MSG_FLOW_XON,
};

/* The private part of an operation; in one list at a time. */
struct msg_op {
    union {
        struct kit_link link;
        struct kit_recv recv;
    };
    struct msg_context *context;
    struct msg_peer *peer;
    const void *data; /* of a send */
    uint64_t size;
    uint32_t kind;
    uint32_t tag;
    uint32_t remote_id; /* context id at the peer */
    uint32_t epoch;     /* peer->base.epoch when it was posted */
    uint32_t cancelled; /* not 0: cancelled while its frame was in flight; counts ticks from 1 */
    uint32_t sent;      /* bytes sent already, of a queued message that is sent in parts */
};

/* A control record that is queued or being sent. */
struct msg_control {
    struct msg_op op;
    bool is_large; /* more than WIRE_CONTROL_MAX bytes: freed instead of reused */
    uint8_t data[WIRE_CONTROL_MAX];
};

/* A frame to send. */
struct msg_out {
    struct kit_frame frame; /* first */
    struct kit_link link;   /* in state->free_frames, peer->frames or state->own_frames */
    struct kit_link ops;    /* operations whose messages are in the frame */
    struct msg_peer *peer;
    uint32_t connection;  /* peer->base.connection when the frame was begun */
    uint32_t pending;     /* KIT_PENDING_* of the records in this frame */
    uint64_t reply_token; /* token for an answer to an offer, or for a refusal */
    uint32_t reply_incarnation;
    uint32_t tag_size; /* bytes of the seal, included in frame.size; 0: no seal */
    struct msg_out *next_copied;
    bool is_compact;
    bool is_alone; /* messages must not be added */
};

struct msg_slab {
    struct msg_slab *next;
    uint8_t *memory;
    struct msg_out *outs;
    uint8_t *privs;
    void *registration;
    bool is_registered;
};

/* A received frame that waits for receives or room for its unexpected messages. */
struct msg_deferred {
    struct kit_link link; /* in peer->deferred */
    const uint8_t *data;
    uint64_t size;
    uint64_t offset; /* of the first record that was not processed; 0: a compact frame */
    void *cookie;    /* NULL: `data` is `copy` */
    bool is_own;     /* a frame to ourselves: cookie is a struct msg_out */
    uint64_t taken;  /* kit_peer_auth.taken of the frame */
    uint8_t copy[];
};

/* A put or get. */
struct msg_request {
    struct kit_msg_rma rma; /* first */
    struct kit_link link;   /* in a list of the peer, or in rma_abandon or rma_done */
    struct msg_op *op;      /* NULL: completed */
    struct msg_peer *peer;
    int32_t status;   /* in rma_abandon, rma_done: of the operation */
    bool is_detached; /* its context was stopped, and the fabric still uses the request */
};

struct msg_context {
    struct kit_endpoint *endpoint;
    uint32_t id;
    bool active;
    bool stopped;  /* was active: messages to it are dropped */
    bool armed;    /* a thread may sleep on its descriptor */
    bool signaled; /* event_fd is readable */
    int epoll_fd;
    int event_fd;
    struct kit_match match;
};

/* Selects the operations that end early; all three conditions must hold. */
struct msg_op_filter {
    const struct msg_op *op;           /* NULL: any; only compared, may be invalid */
    const struct msg_context *context; /* NULL: any */
    uint32_t before_epoch;             /* posted before this epoch; UINT32_MAX: any */
};

static inline bool msg_op_matches(const struct msg_op_filter *filter, const struct msg_op *op)
{
    return (filter->op == NULL || filter->op == op) &&
           (filter->context == NULL || filter->context == op->context) &&
           op->epoch < filter->before_epoch;
}

struct msg_peer {
    struct kit_peer base; /* first: visible to the plugin and the core */
    struct kit_endpoint *endpoint;
    struct kit_link queue;   /* sends that wait for a frame */
    struct kit_link paused;  /* unexpected sends that the peer has no room for (flow.c) */
    bool is_paused;          /* XOFF came from the peer, under any of its names */
    bool is_xoff;            /* XOFF is or will be sent to the peer */
    bool has_flow;           /* XOFF was sent at any time */
    uint32_t followers;      /* number of other peers whose `source` is this one */
    uint32_t flow_received;  /* enum msg_flow, not acted on yet */
    struct msg_out *stalled; /* a frame that the fabric had no room for */
    uint32_t part;           /* bytes of the first queued message in the frame being built */
    struct kit_parted *parted[MSG_PARTED]; /* incomplete messages; NULL: none */
    struct kit_peer *source;               /* source in matching; updated to base.canonical */
    struct kit_link frames;                /* frames being sent, over any connection */
    struct kit_link rma_queue;
    struct kit_link rma_started;
    struct kit_link deferred; /* received frames */
    struct kit_link retry_link;
    struct kit_link reply_link; /* in replies_opening or replies_waiting (reply.c) */
    uint32_t reply_ticks;       /* session.ticks when the connection for a reply was opened */
    bool is_reply_opening;
};

/* The plugin's bytes (ops.rma_size) follow the request. */
#define MSG_REQUEST_SIZE ((sizeof(struct msg_request) + 63) / 64 * 64)

struct msg_counters {
    uint64_t frames_sent;
    uint64_t frames_received;
    uint64_t frames_stale;
};

struct msg_endpoint {
    struct kit_endpoint *endpoint;
    struct kit_session session;
    struct msg_peer *self;
    uint64_t max_unexpected;
    uint64_t max_expected;
    uint64_t frame_room; /* most bytes of a frame without its seal */
    uint64_t whole;      /* longest message that fits a frame; longer ones are sent in parts */
    uint32_t max_contexts;
    uint32_t open_contexts;
    struct msg_context *contexts;
    bool is_busy;
    bool is_no_retry;
    _Alignas(64) struct kit_lock lock;
    _Atomic uint32_t yielded; /* polls that left the lock to another thread */

    _Alignas(64) uint64_t completed;
    uint32_t polls;
    uint32_t armed_count; /* number of armed contexts */
    uint64_t in_flight;
    uint64_t cancelling;

    struct kit_link free_frames;
    struct kit_link own_frames; /* sent to ourselves */
    struct msg_out *copied;     /* frames that the fabric has copied since the last poll */
    struct msg_out **copied_end;
    struct msg_slab *slabs;
    uint32_t frame_count;
    uint32_t frame_limit;
    struct kit_link free_controls;
    struct kit_link free_requests;
    struct kit_link rma_done;        /* requests that the fabric is done with */
    struct kit_link rma_abandon;     /* requests for which ops.rma_abandon will be called */
    struct kit_link retry;           /* peers */
    struct kit_link replies_opening; /* peers to which a connection is opened for a reply only */
    struct kit_link replies_waiting; /* peers that wait for a place in replies_opening */
    uint32_t reply_count;            /* length of replies_opening */
    uint32_t detached_count;         /* number of detached requests */
    uint32_t deferred_count;         /* number of deferred frames */
    struct kit_deferrals deferrals;
    uint32_t xoff_count; /* number of peers with is_xoff */
    struct kit_parts parts;
    bool is_refused;                  /* the core had no memory for a deferred message */
    na_plugin_peer_lost_fn peer_lost; /* NULL: none */
    void *peer_lost_arg;

    bool is_tick_due; /* the next poll reads the clock */
    bool is_paused;   /* the fabric's descriptor does not wake sleeping threads */
    int timer_fd;
    uint64_t timer_end;   /* when the timer expires; 0: not armed */
    uint64_t retry_delay; /* sleep until refused frames are tried again */
    uint64_t retry_moved; /* frames sent and received when retry_delay was chosen */
    uint32_t sweep;       /* number of slots checked so far; modulo slot_count the next one */
    struct msg_counters counters;
    uint32_t control_most; /* bytes of the largest control record */
};

static inline struct msg_op *msg_list_first_op(const struct kit_link *list)
{
    return (struct msg_op *) (void *) list->next;
}

/* Returns NULL if the slot is free. */
static inline struct msg_peer *msg_peer_at(const struct msg_endpoint *state, uint32_t slot)
{
    return (struct msg_peer *) (void *) state->session.slots[slot].peer;
}

static inline struct msg_peer *msg_peer_of(struct na_plugin_addr *addr)
{
    return (struct msg_peer *) (void *) addr;
}

static inline struct na_plugin_addr *msg_peer_addr(struct kit_peer *peer)
{
    return (struct na_plugin_addr *) (void *) peer;
}

static inline struct msg_context *msg_context(struct na_plugin_context *context)
{
    return (struct msg_context *) (void *) context;
}

static inline struct kit_endpoint *msg_class(struct na_plugin_class *na_class)
{
    return (struct kit_endpoint *) (void *) na_class;
}

/* wait.c */
int32_t kit_msg_wait_setup(struct msg_endpoint *state);
int32_t kit_msg_wait_setup_context(struct msg_context *context);
void kit_msg_wait_teardown_context(struct msg_context *context);
bool kit_msg_wait_arm(struct msg_context *context);
void kit_msg_wait_disarm(struct msg_context *context);
void kit_msg_wait_rearm(struct msg_endpoint *state);
void kit_msg_wait_timer_read(struct msg_endpoint *state, uint64_t now);
void kit_msg_wait_wake(struct msg_context *context);
void kit_msg_wait_wake_any(struct msg_endpoint *state);

/* After these two functions the core owns the operation. */
static inline void msg_complete(struct msg_endpoint *state, struct msg_op *op, int32_t status)
{
    struct msg_context *context = op->context;

    state->completed++;
    kit_host->op_complete(op, status);
    if (kit_unlikely(context->armed))
        kit_msg_wait_wake(context);
}

static inline void msg_complete_recv(struct msg_endpoint *state, struct msg_op *op, int32_t status,
                                     uint64_t size, struct kit_peer *source, uint32_t tag)
{
    struct msg_context *context = op->context;

    state->completed++;
    kit_host->op_complete_recv(op, status, size, msg_peer_addr(source), tag);
    if (kit_unlikely(context->armed))
        kit_msg_wait_wake(context);
}

static inline int32_t msg_peer_open(struct msg_peer *peer)
{
    int32_t ret = NA_PLUGIN_SUCCESS;

    if (kit_unlikely(!peer->base.is_open)) {
        ret = peer->endpoint->ops->peer_open(peer->endpoint, &peer->base);
        peer->base.is_open = ret == NA_PLUGIN_SUCCESS;
    }
    return ret;
}

/* reply.c */
bool kit_msg_reply_is_all(const struct msg_peer *peer);
bool kit_msg_reply_may_open(struct msg_peer *peer);
void kit_msg_reply_end(struct msg_peer *peer);
void kit_msg_reply_tick(struct msg_endpoint *state);

static inline void msg_peer_close(struct msg_peer *peer)
{
    kit_msg_reply_end(peer);
    if (!peer->base.is_open)
        return;
    peer->base.is_open = false;
    peer->endpoint->ops->peer_close(peer->endpoint, &peer->base);
}

/* frame.c */
bool kit_msg_slab_add(struct msg_endpoint *state);
void kit_msg_out_free_all(struct msg_endpoint *state);
struct msg_control *kit_msg_control_get(struct msg_endpoint *state, uint64_t size);
void kit_msg_control_put(struct msg_endpoint *state, struct msg_control *control);
bool kit_msg_out_add_op(struct msg_out *out, struct msg_op *op);
uint8_t *kit_msg_out_add(struct msg_out *out, uint32_t kind, uint32_t size);
void kit_msg_out_add_tagged(struct msg_out *out, uint32_t kind, uint32_t tag);
bool kit_msg_out_has_room(const struct msg_out *out, uint64_t size);
bool kit_msg_part_add(struct msg_out *out, struct msg_op *op);
void kit_msg_out_end(struct msg_out *out);
void kit_msg_out_seal(struct msg_out *out);
void kit_msg_out_unseal(struct msg_out *out);

/*
 * Returns the bytes of a sealed frame of `size` that are not encrypted: the header, or the whole
 * frame if it has a HELLO, because its receiver may have lost the keys.
 */
static inline uint64_t kit_msg_clear(const struct msg_endpoint *state, bool is_compact,
                                     bool has_hello, uint64_t size)
{
    if (kit_likely(!state->session.config.encrypts) || has_hello)
        return size - KIT_AUTH_TAG;
    return is_compact ? sizeof(struct wire_compact) : sizeof(struct wire_header);
}

/* Returns NULL if the limit is reached or memory is short; a frame that is sent makes room. */
static inline struct msg_out *msg_out_get(struct msg_endpoint *state)
{
    struct kit_link *link;

    if (kit_unlikely(kit_list_empty(&state->free_frames)) && !kit_msg_slab_add(state))
        return NULL;
    link = state->free_frames.next;
    kit_list_take(link);
    return kit_container(link, struct msg_out, link);
}

/* The last used frame is reused first, because it is in the cache. */
static inline void msg_out_put(struct msg_endpoint *state, struct msg_out *out)
{
    kit_list_prepend(&state->free_frames, &out->link);
}

static inline void msg_out_begin(struct msg_out *out, struct msg_peer *peer)
{
    out->frame.size = sizeof(struct wire_header);
    out->frame.is_hello = false;
    out->frame.is_copied = false;
    out->frame.peer = &peer->base;
    out->peer = peer;
    out->connection = peer->base.connection;
    out->pending = 0;
    out->tag_size = 0;
    out->is_compact = false;
    out->is_alone = false;
}

/* queue.c */
void kit_msg_peer_flush(struct msg_peer *peer);
bool kit_msg_out_send(struct msg_peer *peer, struct msg_out *out);
void kit_msg_out_refused(struct msg_peer *peer, struct msg_out *out, int32_t status);
void kit_msg_out_unbuild(struct msg_peer *peer);
bool kit_msg_queue_end(struct msg_peer *peer, const struct msg_op_filter *filter, int32_t status);
void kit_msg_queue_end_cancelled(struct msg_endpoint *state);

static inline void msg_retry_add(struct msg_peer *peer)
{
    if (kit_list_empty(&peer->retry_link))
        kit_list_append(&peer->endpoint->state->retry, &peer->retry_link);
}

static inline void msg_copied_add(struct msg_endpoint *state, struct msg_out *out)
{
    out->next_copied = NULL;
    *state->copied_end = out;
    state->copied_end = &out->next_copied;
}

/* Passes a frame to the fabric. False: it was refused, and the peer's state is restored. */
static MSG_INLINE bool msg_out_pass(struct msg_peer *peer, struct msg_out *out, uint32_t sequence,
                                    uint32_t phase)
{
    struct kit_endpoint *endpoint = peer->endpoint;
    int32_t ret;

    if (kit_unlikely(!peer->base.is_watched))
        kit_peer_watch(&peer->base);
    peer->base.in_flight++;
    endpoint->state->in_flight++;
    kit_list_append(&peer->frames, &out->link);
    ret = endpoint->ops->send(endpoint, &out->frame);
    if (kit_likely(ret == NA_PLUGIN_SUCCESS)) {
        endpoint->state->counters.frames_sent++;
        if (out->frame.is_copied)
            msg_copied_add(endpoint->state, out);
        return true;
    }
    peer->base.sent_sequence = sequence;
    peer->base.phase = phase;
    kit_msg_out_refused(peer, out, ret);
    return false;
}

/* receive.c */
void kit_msg_frame_bad(struct msg_endpoint *state, const char *what, uint64_t value);
void kit_msg_frame_stale(struct msg_endpoint *state, uint64_t token, uint32_t incarnation);
void kit_msg_parts_drop(struct msg_peer *peer);
bool kit_msg_frame_take(struct msg_peer *peer, const void *data, uint64_t size, uint64_t offset,
                        void *cookie, bool is_own);
void kit_msg_header_bad(struct msg_endpoint *state, const struct wire_header *header,
                        uint64_t size);
uint32_t kit_msg_hello_find(struct msg_endpoint *state, const uint8_t *data, uint64_t size,
                            uint64_t *offset);
struct msg_peer *kit_msg_hello_peer(struct msg_endpoint *state, const void *path, const void *data,
                                    uint32_t size, struct kit_hello *hello);
void kit_msg_own_frames_deliver(struct msg_endpoint *state);
void kit_msg_deferred_resume(struct msg_endpoint *state);
void kit_msg_peer_resume(struct msg_peer *peer);
void kit_msg_deferred_drop(struct msg_peer *peer);

/* flow.c */
void kit_msg_flow_deferred(struct msg_peer *peer);
void kit_msg_flow_taken(struct msg_endpoint *state);
void kit_msg_flow_add(struct msg_out *out, struct msg_peer *peer);
void kit_msg_flow_received(struct msg_peer *peer, uint32_t flow);
void kit_msg_flow_act(struct msg_peer *peer);
void kit_msg_flow_reset(struct msg_peer *peer);
void kit_msg_flow_tell_again(struct msg_peer *peer);
void kit_msg_flow_forget(struct msg_peer *peer);
void kit_msg_flow_follow(struct msg_peer *peer, struct kit_peer *source);

/* True if XON or XOFF can be sent to the peer now. */
static inline bool kit_msg_flow_is_due(const struct msg_peer *peer)
{
    return (peer->base.pending & (KIT_PENDING_FLOW | KIT_PENDING_HELLO)) == KIT_PENDING_FLOW &&
           peer->base.phase == KIT_PEER_READY;
}

/* sealed.c */
bool kit_msg_sealed_received(struct msg_endpoint *state, uint8_t *data, uint64_t size,
                             const void *path, void *cookie);

/* matching.c */
void kit_msg_matching_setup(struct msg_context *context);
void kit_msg_matching_dispatch(struct msg_context *context);
bool kit_msg_unexpected_deliver(struct msg_peer *peer, struct msg_context *context, uint32_t tag,
                                const void *data, uint32_t size);
void kit_msg_expected_deliver(struct msg_peer *peer, struct msg_context *context,
                              uint32_t source_id, uint32_t tag, const void *data, uint32_t size);
bool kit_msg_recv_cancel(struct msg_context *context, void *op, bool is_trusted);
void kit_msg_recv_cancel_all(struct msg_context *context);
void kit_msg_recv_fail(struct msg_peer *peer, uint32_t before_epoch, int32_t status);
void kit_msg_recv_rematch(struct msg_peer *peer);
void kit_msg_unexpected_again(struct msg_endpoint *state);

/* op.c */
extern const struct na_plugin_multi_recv kit_msg_multi_recv_extension;

/* request.c */
struct msg_request *kit_msg_request_get(struct msg_endpoint *state);
void kit_msg_rma_flush(struct msg_peer *peer);
void kit_msg_rma_drain(struct msg_endpoint *state);
bool kit_msg_rma_refuse(struct msg_peer *peer, const struct msg_op *op);
bool kit_msg_rma_end(struct msg_peer *peer, const struct msg_op_filter *filter, int32_t status);
void kit_msg_rma_detach(struct msg_context *context);
bool kit_msg_rma_uses(const struct msg_endpoint *state, const struct na_plugin_mem *mem);
void kit_msg_rma_free_all(struct msg_endpoint *state);

/* failure.c */
extern const struct na_plugin_peer_events kit_msg_peer_events_extension;
void kit_msg_cancel_matching(struct msg_endpoint *state, const struct msg_op_filter *filter);
struct msg_peer *kit_msg_peer_init(struct kit_endpoint *endpoint, struct kit_peer *peer);
void kit_msg_peer_fail(struct msg_peer *peer);
void kit_msg_peer_leave(struct msg_peer *peer);
void kit_msg_peer_changed(struct msg_peer *peer);

/* endpoint.c */
extern const struct na_plugin_counters kit_msg_counters_extension;

/* address.c */
extern const struct na_plugin_addr_serialize kit_msg_addr_serialize_extension;

#endif /* MSG_STATE_H */
