/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles: the two ends of an RPC. */
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

/* What the timer of an operation with a deadline counts in hg_handle.pending. */
#define HG_PENDING_TIMER 0x10000

/* Where a request to the own address is. */
enum hg_self_state {
    HG_SELF_NONE,
    HG_SELF_QUEUED,   /* its handler was not called yet */
    HG_SELF_RUNNING,  /* it was */
    HG_SELF_CANCELED, /* it will not be */
    HG_SELF_ORPHAN    /* at the origin: it dropped its handle without a response */
};

/* Whether a limit of RPCs in flight lets a forward start. */
enum hg_turn {
    HG_TURN_NONE,    /* no limit applies */
    HG_TURN_WAITING, /* not yet */
    HG_TURN_RUNNING  /* it was started, and counts */
};

/* A message buffer with the NA operation that moves it. */
struct hg_msg {
    na_op_id_t *op;
    char *buf; /* starts with NA's own header */
    void *plugin_data;
    size_t size;   /* of the buffer */
    size_t header; /* bytes of NA's own header */
    size_t used;   /* payload bytes behind our header, valid when has_payload */
    uint8_t flags; /* HG_CORE_HEADER_ flags of the message that is in it */
    bool has_payload;
    hg_op_t kind;
};

/* Input or output that does not fit a message. */
struct hg_extra {
    struct hg_block *block; /* NULL: all is in the message */
    hg_size_t size;         /* encoded bytes in the block */
    uint64_t hash;          /* of the data, when they are fetched */
    hg_bulk_t remote;       /* the peer's data while they are fetched */
    hg_op_id_t op_id;       /* fetch that runs, under the handle's lock */
    uint64_t end_ns;        /* when it is to have ended; 0: never */
    struct hg_budget_wait wait;
    void (*run)(struct hg_completion *completion); /* the completion's, while it waits */
    void (*done)(struct hg_handle *handle, hg_return_t ret);
};

/* What either end of an RPC does of its own; see forward.c and recv.c. Pools are given it. */
struct hg_handle_kind {
    bool is_origin;
    /* The last reference is gone: the handle goes back to where it is taken from. */
    void (*released)(struct hg_handle *handle);
    /* All parts of the operation ended. */
    void (*ended)(struct hg_handle *handle);
    /* Ask for the end of all that runs on it. */
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
    bool no_response;  /* of the operation that runs */
    bool is_buf_given; /* at the origin: the program may write to the request */
    bool is_exposing;  /* the request that runs described memory to be pulled or pushed */
    bool is_deferred;  /* the forward had to wait before it was started */
    uint8_t path;
    na_tag_t tag;
    _Atomic(struct hg_flow *) flow;          /* that counts the operation; NULL: none does */
    uint32_t deadline_ms;                    /* of the next operation; 0: none */
    uint32_t cookie;                         /* HG_COOKIE_MASK says how much of it */
    _Atomic uint64_t req_count[HG_PATH_MAX]; /* requests sent, at the target: received */
    _Atomic uint64_t resp_count;             /* responses received, at the target: sent */
    _Atomic uint64_t req_bytes;              /* bytes of these requests */
    _Atomic uint64_t resp_bytes;             /* bytes of these responses */
    _Atomic uint64_t done_count;             /* forwards that succeeded */

    hg_cb_t callback;
    void *arg;
    struct hg_completion completion;

    struct hg_msg in;  /* request */
    struct hg_msg out; /* response */

    /* From here on: colder. */
    struct hg_proc proc;
    struct hg_proc free_proc; /* frees while another thread may encode */
    struct hg_extra in_extra;
    struct hg_extra out_extra;
    struct hg_msg ack;     /* made when first needed */
    struct hg_addr source; /* at the target: the origin; info.addr points here */
    void *data;
    void (*data_free)(void *);
    const struct hg_handle_kind *kind;
    struct hg_session *session; /* of the request; NULL: it is not sealed, or not looked at yet */
    uint64_t number;            /* of the request in the session */
    _Atomic(struct hg_remote_conn *) remote; /* whose session the forward waits for */
    uint32_t slot;                           /* number among the origin's handles of the context */
    uint64_t generation;                     /* of the origin's handle: its use, see generation.c */
    struct hg_stale_tags *stale;             /* NULL: all were answered */
    struct hg_timer timer;
    uint64_t end_ns;        /* of the time of an operation with a deadline */
    struct hg_handle *peer; /* other side of a request to the own address; under the class's lock */
    _Atomic(struct hg_handle *) other_end; /* the same, until either is destroyed or used again */
    _Atomic uint32_t self;                 /* enum hg_self_state */
    _Atomic bool is_awaited;               /* in the list of controls; written under its lock */
    _Atomic bool is_acknowledged; /* another handle received the acknowledgement for this one */
    _Atomic uint32_t ack_ret;     /* what it said */
    bool is_refused;              /* a deferred forward was refused for lack of resources */
    uint8_t turn;                 /* enum hg_turn; under the flow's lock */
    uint8_t deferred_flags;
    size_t deferred_payload;
    uint32_t deferred_deadline_ms;
    struct hg_handle *next_waiting;  /* at the target: in the list of refused error responses */
    struct hg_handle **waiting_link; /* what points here */
    struct hg_handle *next_awaiting;
    struct hg_handle **awaiting_link; /* what points here */
    struct hg_handle *next_free;
    struct hg_handle *next_all;
    pthread_mutex_t lock; /* of fetches, and of the messages when they are cancelled or exchanged */
};

/* Let the program attach its data to a new handle. */
hg_return_t hg_handle_attach(struct hg_handle *handle);

/* Allocate a handle for a pool, with its buffers and operations; free it. */
struct hg_handle *hg_handle_new(const struct hg_pool *pool, hg_return_t *ret_p);
void hg_handle_delete(struct hg_handle *handle);

/*
 * Take a handle of the library's own for a peer, with a reference; NULL: *ret_p says why. The
 * program's callback for new handles is not called.
 */
struct hg_handle *hg_handle_take(hg_context_t *context, enum hg_path path, hg_addr_t addr,
                                 hg_id_t id, hg_return_t *ret_p);

/* Make the buffer and operation to receive an acknowledgement, once. */
hg_return_t hg_handle_open_ack(struct hg_handle *handle);

/* Move an origin's handle to another path: buffers and operations are made anew. */
hg_return_t hg_handle_set_path(struct hg_handle *handle, enum hg_path path);

/*
 * Take one from a counter of which the caller holds one; true if it was the last. The holder of
 * the only one needs no locked instruction to know it.
 */
static inline bool hg_counter_drop(_Atomic int32_t *counter)
{
    return atomic_load_explicit(counter, memory_order_acquire) == 1 ||
           atomic_fetch_sub_explicit(counter, 1, memory_order_acq_rel) == 1;
}

/* Write to the log that an event was not expected in a handle's state: a bug of the library's. */
void hg_handle_stray(const struct hg_handle *handle, enum hg_handle_event event);

/* Sanitized builds check that a handle is in the state that the code says. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#    define HG_HANDLE_CHECKED true
#elif defined(__has_feature)
#    define HG_HANDLE_CHECKED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#    define HG_HANDLE_CHECKED false
#endif

/* An event at a handle in a known state: it goes on to the one that the table of its end says. */
static UTIL_ALWAYS_INLINE void hg_handle_advance(struct hg_handle *handle,
                                                 const uint8_t next[][HG_EVENTS],
                                                 enum hg_handle_state state,
                                                 enum hg_handle_event event)
{
    if (next[state][event] == HG_HANDLE_NONE ||
        (HG_HANDLE_CHECKED && atomic_load(&handle->state) != state))
        hg_handle_stray(handle, event);
    atomic_store_explicit(&handle->state, next[state][event], memory_order_release);
}

/* An event that comes in several states. */
static inline void hg_handle_advance_any(struct hg_handle *handle, const uint8_t next[][HG_EVENTS],
                                         enum hg_handle_event event)
{
    const uint8_t to = next[atomic_load_explicit(&handle->state, memory_order_relaxed)][event];

    if (util_likely(to != HG_HANDLE_NONE))
        atomic_store_explicit(&handle->state, to, memory_order_release);
    else
        hg_handle_stray(handle, event);
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

/* The last reference is gone: make the handle ready for its next use. */
void hg_handle_release(struct hg_handle *handle);

/* Write to the log that a program cannot do that with this handle; false. */
bool hg_handle_refuse(const struct hg_handle *handle, const char *purpose);

/* Whether a program has a reference to the handle: one to an earlier use does not count. */
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

/* Whether the program has destroyed a request, and may still answer it. */
static inline bool hg_handle_is_unanswered(const struct hg_handle *handle)
{
    return atomic_load(&handle->state) == HG_HANDLE_IDLE && !handle->no_response &&
           atomic_load(&handle->ref) == 1;
}

/* Keep the first error of an operation. */
static inline void hg_handle_set_error(struct hg_handle *handle, hg_return_t ret)
{
    uint32_t success = HG_SUCCESS;

    atomic_compare_exchange_strong(&handle->ret, &success, (uint32_t) ret);
}

static inline bool hg_handle_is_refused(const struct hg_handle *handle, const char *function)
{
    return handle != NULL && hg_class_is_refused(handle->info.hg_class, function);
}

/* The pool that it is in when nobody uses it. */
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

/* Free what belongs to one operation: extra buffers and descriptors. */
void hg_extra_free(struct hg_extra *extra);

/* Cancel one of a handle's messages. */
hg_return_t hg_handle_cancel_msg(struct hg_handle *handle, const struct hg_msg *msg);

/*
 * The handle at the other end of the last RPC to the own address is not that of this one any more;
 * hg_rpc_class.self_lock is held.
 */
void hg_handle_drop_other_end(struct hg_handle *handle);

#endif /* HG_HANDLE_H */
