/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles: an origin has one for a request, and the target another one. */
#ifndef HG_HANDLE_H
#define HG_HANDLE_H

#include "bulk/block.h"
#include "engine/addr.h"
#include "engine/library.h"
#include "engine/log.h"
#include "hg/class.h"
#include "hg/context.h"
#include "hg/handle_state.h"
#include "proc/proc_internal.h"

/* Added to hg_handle.pending while the timer of the operation is armed. */
#define HG_PENDING_TIMER 0x10000

/* The state of a request to the own address. */
enum hg_self_state {
    HG_SELF_NONE,
    HG_SELF_QUEUED,   /* the handler was not called yet */
    HG_SELF_RUNNING,  /* at the target: the handler was called; at the origin: no response yet */
    HG_SELF_CANCELED, /* the handler will not be called */
    HG_SELF_ORPHAN    /* at the origin: the target released its handle without a response */
};

/* Whether a limit of RPCs in flight lets a forward start. */
enum hg_turn {
    HG_TURN_NONE,    /* no limit applies */
    HG_TURN_WAITING, /* it is queued */
    HG_TURN_RUNNING  /* it is counted as in flight */
};

/* A message buffer with the NA operation that moves it. */
struct hg_msg {
    na_op_id_t *op;
    char *buf; /* starts with NA's own header */
    void *plugin_data;
    size_t size;   /* bytes of the buffer */
    size_t header; /* bytes of NA's own header */
    size_t used;   /* payload bytes after our header, valid if has_payload */
    uint8_t flags; /* HG_CORE_HEADER_ flags of the message in the buffer */
    bool has_payload;
};

/* Input or output that does not fit a message. */
struct hg_extra {
    struct hg_block *block; /* NULL: the message has all of it */
    hg_size_t size;         /* encoded bytes in the block */
    uint64_t hash;          /* of the data, from the peer's descriptor */
    hg_bulk_t remote;       /* descriptor of the peer's data, during a fetch */
    hg_op_id_t op_id;       /* the transfer of the fetch; guarded by the handle's lock */
    uint64_t end_ns;        /* time limit of the fetch; 0: none */
    struct hg_budget_wait wait;
    void (*run)(struct hg_completion *completion); /* the completion's own, during `wait` */
    void (*done)(struct hg_handle *handle, hg_return_t ret);
};

/* What differs between handles of origins (forward.c) and targets (recv.c). */
struct hg_handle_kind {
    bool is_origin;
    /* The last reference was dropped: give the handle back. */
    void (*released)(struct hg_handle *handle);
    /* The last part of the operation ended. */
    void (*ended)(struct hg_handle *handle);
    /* Cancel the parts of the operation. */
    hg_return_t (*cancel)(struct hg_handle *handle);
};

struct hg_handle {
    struct hg_info info;
    struct hg_rpc *rpc;
    _Atomic uint32_t state; /* enum hg_handle_state */
    _Atomic int32_t ref;
    _Atomic int32_t pending; /* parts of the operation that still have to end */
    _Atomic uint32_t ret;    /* first error of the operation */
    _Atomic bool is_canceled;
    bool is_origin;
    bool no_response;  /* the RPC is one-way */
    bool is_buf_given; /* at the origin: the program has a pointer into the request */
    bool is_exposing;  /* the running request has bulk descriptors, which peers may access */
    bool is_deferred;  /* the forward waited for its turn or a session */
    uint8_t path;
    na_tag_t tag;
    _Atomic(struct hg_flow *) flow;          /* that counts the forward; NULL: none */
    uint32_t deadline_ms;                    /* for the next operation; 0: none */
    uint32_t cookie;                         /* in HG_COOKIE_MASK */
    _Atomic uint64_t req_count[HG_PATH_MAX]; /* requests sent, or at the target received */
    _Atomic uint64_t resp_count;             /* responses received, or at the target sent */
    _Atomic uint64_t req_bytes;              /* bytes of these requests */
    _Atomic uint64_t resp_bytes;             /* bytes of these responses */
    _Atomic uint64_t done_count;             /* forwards that succeeded */

    hg_cb_t callback;
    void *arg;
    struct hg_completion completion;

    struct hg_msg in;  /* request */
    struct hg_msg out; /* response */

    /* Used less often. */
    struct hg_proc proc;
    struct hg_proc free_proc; /* for HG_FREE, while another thread may encode */
    struct hg_extra in_extra;
    struct hg_extra out_extra;
    struct hg_msg ack;     /* of an acknowledgement; allocated when first needed */
    struct hg_addr source; /* at the target: address of the origin; info.addr points here */
    void *data;
    void (*data_free)(void *);
    const struct hg_handle_kind *kind;
    struct hg_session *session;              /* that seals the request; NULL: none */
    uint64_t number;                         /* sequence number of the request in the session */
    _Atomic(struct hg_remote_conn *) remote; /* whose session the forward waits for */
    uint32_t slot;                           /* unique among the origin's handles of a context */
    uint64_t generation;                     /* at the origin: see generation.c */
    struct hg_stale_tags *stale;             /* NULL: no tag is stale */
    struct hg_timer timer;
    uint64_t end_ns;        /* deadline of the operation, if it has one */
    struct hg_handle *peer; /* other end of an RPC to the own address; guarded by self_lock */
    _Atomic(struct hg_handle *) other_end; /* likewise, until either is released or reused */
    _Atomic uint32_t self;                 /* enum hg_self_state */
    _Atomic bool is_awaited;               /* in hg_controls.awaiting; written under its lock */
    _Atomic bool is_acknowledged; /* another handle received the acknowledgement for this one */
    _Atomic uint32_t ack_ret; /* code of that acknowledgement, or of a deferred error response */
    bool is_refused;          /* the transport had no resources for a deferred forward */
    uint8_t turn;             /* enum hg_turn; guarded by the flow's lock */
    uint8_t deferred_flags;   /* of a deferred forward: its arguments, see waiting.h */
    uint64_t deferred_order;  /* position among the deferred forwards of the class */
    size_t deferred_payload;  /* at the target: bytes of a HELLO_ACK */
    uint32_t deferred_deadline_ms;
    struct hg_handle *next_waiting;  /* in hg_waiting, or at the target in hg_refusals */
    struct hg_handle **waiting_link; /* the pointer to this handle in that list */
    struct hg_handle *next_awaiting;
    struct hg_handle **awaiting_link; /* likewise, in hg_controls.awaiting */
    struct hg_handle *next_free;
    struct hg_handle *next_all;
    pthread_mutex_t lock; /* guards fetches, and messages while they are cancelled or exchanged */
};

/* Call the program's callback for new handles. */
hg_return_t hg_handle_attach(struct hg_handle *handle);

/* Allocate, and free, a handle with its buffers and operations. */
struct hg_handle *hg_handle_new(const struct hg_pool *pool, hg_return_t *ret_p);
void hg_handle_delete(struct hg_handle *handle);

/*
 * Take an origin's handle from its pool, with a reference. Returns NULL and an error in *ret_p if
 * that fails. The program's callback for new handles is not called.
 */
struct hg_handle *hg_handle_take(hg_context_t *context, enum hg_path path, hg_addr_t addr,
                                 hg_id_t id, hg_return_t *ret_p);

/* Allocate the buffer and operation to receive an acknowledgement, unless the handle has them. */
hg_return_t hg_handle_open_ack(struct hg_handle *handle);

/* Move an origin's handle to another path: reallocate its buffers and operations there. */
hg_return_t hg_handle_set_path(struct hg_handle *handle, enum hg_path path);

/*
 * Drop one count that the caller holds; returns true if it was the last. The holder of the only
 * count knows that without a locked instruction.
 */
static inline bool hg_counter_drop(_Atomic int32_t *counter)
{
    return atomic_load_explicit(counter, memory_order_acquire) == 1 ||
           atomic_fetch_sub_explicit(counter, 1, memory_order_acq_rel) == 1;
}

/* Log an event that must not happen in a handle's state: a bug of the library. */
void hg_handle_log_bad_event(const struct hg_handle *handle, enum hg_handle_event event);

/* Sanitized builds check that a handle is in the state that the caller passes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#    define HG_HANDLE_CHECKED true
#elif defined(__has_feature)
#    define HG_HANDLE_CHECKED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#    define HG_HANDLE_CHECKED false
#endif

/* Change the state of a handle from a known one, by the table `next`. */
static UTIL_ALWAYS_INLINE void hg_handle_advance(struct hg_handle *handle,
                                                 const uint8_t next[][HG_EVENTS],
                                                 enum hg_handle_state state,
                                                 enum hg_handle_event event)
{
    if (next[state][event] == HG_HANDLE_NONE ||
        (HG_HANDLE_CHECKED && atomic_load(&handle->state) != state))
        hg_handle_log_bad_event(handle, event);
    atomic_store_explicit(&handle->state, next[state][event], memory_order_release);
}

/* Change the state of a handle for an event that comes in several states. */
static inline void hg_handle_advance_any(struct hg_handle *handle, const uint8_t next[][HG_EVENTS],
                                         enum hg_handle_event event)
{
    const uint8_t to = next[atomic_load_explicit(&handle->state, memory_order_relaxed)][event];

    if (util_likely(to != HG_HANDLE_NONE))
        atomic_store_explicit(&handle->state, to, memory_order_release);
    else
        hg_handle_log_bad_event(handle, event);
}

static inline void hg_handle_ref(struct hg_handle *handle)
{
    if (handle->info.hg_class->is_single_thread)
        atomic_store_explicit(&handle->ref,
                              atomic_load_explicit(&handle->ref, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&handle->ref, 1, memory_order_relaxed);
}

/* The last reference was dropped: clear the handle and give it back. */
void hg_handle_release(struct hg_handle *handle);

/* Log that the program cannot use the handle for this; returns false. */
bool hg_handle_refuse(const struct hg_handle *handle, const char *purpose);

/* Returns true if the program has a reference to the handle in its current use. */
static inline bool hg_handle_is_usable(const struct hg_handle *handle, const char *purpose)
{
    return util_likely(handle != HG_HANDLE_NULL &&
                       atomic_load_explicit(&handle->ref, memory_order_relaxed) > 0 &&
                       atomic_load_explicit(&handle->state, memory_order_relaxed) >
                           HG_HANDLE_REFUSING) ||
           hg_handle_refuse(handle, purpose);
}

static inline void hg_handle_unref(struct hg_handle *handle)
{
    if (handle->info.hg_class->is_single_thread) {
        int32_t rest = atomic_load_explicit(&handle->ref, memory_order_relaxed) - 1;

        if (rest > 0)
            atomic_store_explicit(&handle->ref, rest, memory_order_relaxed);
        else
            hg_handle_release(handle);
    } else if (hg_counter_drop(&handle->ref)) {
        hg_handle_release(handle);
    }
}

/* Returns true if the program has destroyed a request without a response to it. */
static inline bool hg_handle_is_unanswered(const struct hg_handle *handle)
{
    return atomic_load(&handle->state) == HG_HANDLE_IDLE && !handle->no_response &&
           atomic_load(&handle->ref) == 1;
}

/* Set the result of an operation, unless it has an error already. */
static inline void hg_handle_set_error(struct hg_handle *handle, hg_return_t ret)
{
    uint32_t success = HG_SUCCESS;

    atomic_compare_exchange_strong(&handle->ret, &success, (uint32_t) ret);
}

static inline bool hg_handle_fork_refused(const struct hg_handle *handle, const char *function)
{
    return handle != NULL && hg_class_fork_refused(handle->info.hg_class, function);
}

static inline struct hg_pool *hg_handle_pool(const struct hg_handle *handle)
{
    struct hg_rpc_context *context = hg_rpc_context(handle->info.context);
    struct hg_pool *pools = handle->is_origin ? context->origins : context->targets;

    return &pools[handle->path];
}

static inline const struct hg_tag_layout *hg_handle_tags(const struct hg_handle *handle)
{
    return &hg_rpc_class(handle->info.hg_class)->tags[handle->path];
}

static inline const struct hg_class_path *hg_handle_path(const struct hg_handle *handle)
{
    return &handle->info.hg_class->paths[handle->path];
}

/* NA address of the peer on the handle's path. */
static inline na_addr_t *hg_handle_na_addr(const struct hg_handle *handle)
{
    return handle->info.addr->na_addr[handle->path];
}

static inline na_context_t *hg_handle_na_context(const struct hg_handle *handle)
{
    return handle->info.context->na_context[handle->path];
}

/* Free an extra buffer and its descriptors. */
void hg_extra_free(struct hg_extra *extra);

/* Cancel one of a handle's messages. */
hg_return_t hg_handle_cancel_msg(struct hg_handle *handle, const struct hg_msg *msg);

/* Unlink a handle from its other_end; hg_rpc_class.self_lock is held. */
void hg_handle_drop_other_end(struct hg_handle *handle);

#endif /* HG_HANDLE_H */
