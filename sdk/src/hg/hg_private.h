/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The objects of the RPC layer, for src/hg only. Which file owns what is said at each object.
 */
#ifndef HG_PRIVATE_H
#define HG_PRIVATE_H

#include "hg/hg_internal.h"
#include "hg/hg_log.h"
#include "hg/key.h"
#include "mercury_bulk.h"
#include "mercury_ext.h"
#include "proc/proc_internal.h"
#include "util/compiler.h"

#include <pthread.h>

/*
 * Options [options.c] ---------------------------------------------------------------------------
 */

/*
 * Checked init info. Strings belong to the caller of HG_Init_opt2() and are valid during it only.
 */
struct hg_options {
    struct na_init_info na_init_info;
    na_class_t *na_class;
    const char *sm_info_string;
    const char *auth_key; /* NULL: none */
    uint32_t request_post_init;
    uint32_t request_post_incr;
    hg_checksum_level_t checksum_level;
    bool auto_sm;
    bool no_bulk_eager;
    bool no_loopback;
    bool stats;
    bool release_input_early;
    bool no_overflow;
};

hg_return_t hg_options_read(struct hg_options *options, unsigned int version,
                            const struct hg_init_info *info);

/*
 * Counters [counters.c] -------------------------------------------------------------------------
 */

/*
 * One set for each context; added up when asked for. The first six, the bytes of messages and the
 * forwards that succeeded are kept by a context's handles.
 */
struct hg_counters {
    _Atomic uint64_t req_sent;
    _Atomic uint64_t req_recv;
    _Atomic uint64_t resp_sent;
    _Atomic uint64_t resp_recv;
    _Atomic uint64_t req_sent_sm;
    _Atomic uint64_t req_recv_sm;
    _Atomic uint64_t bulk_sm;
    _Atomic uint64_t req_extra;
    _Atomic uint64_t resp_extra;
    _Atomic uint64_t bulk;
    _Atomic uint64_t refused_magic;
    _Atomic uint64_t refused_version;
    _Atomic uint64_t refused_header;
    _Atomic uint64_t refused_checksum;
    _Atomic uint64_t unknown_rpc;
    _Atomic uint64_t refused_key;
    _Atomic uint64_t late_response;
    _Atomic uint64_t send_error;
    _Atomic uint64_t timed_out;
    _Atomic uint64_t detached;
    _Atomic uint64_t forward_done;
    _Atomic uint64_t forward_canceled;
    _Atomic uint64_t forward_timeout;
    _Atomic uint64_t forward_error;
    _Atomic uint64_t bulk_bytes;
    _Atomic uint64_t bulk_canceled;
    _Atomic uint64_t bulk_timeout;
    _Atomic uint64_t bulk_error;
    _Atomic uint64_t retry;
    _Atomic uint64_t queued;
    _Atomic uint64_t req_sent_bytes;
    _Atomic uint64_t req_recv_bytes;
    _Atomic uint64_t resp_sent_bytes;
    _Atomic uint64_t resp_recv_bytes;
};

static inline void hg_count(_Atomic uint64_t *counter)
{
    (void) atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* The level for what a peer can cause at will: only the first one is shown by default. */
static inline enum na_log_level hg_count_level(_Atomic uint64_t *counter)
{
    return atomic_fetch_add_explicit(counter, 1, memory_order_relaxed) == 0 ? NA_LOG_LEVEL_WARNING
                                                                            : NA_LOG_LEVEL_DEBUG;
}

static inline void hg_count_add(_Atomic uint64_t *counter, uint64_t value)
{
    (void) atomic_fetch_add_explicit(counter, value, memory_order_relaxed);
}

/* A counter that only the thread that works on its handle writes: no locked instruction. */
static inline void hg_count_own_add(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value,
                          memory_order_relaxed);
}

static inline void hg_count_own(_Atomic uint64_t *counter)
{
    hg_count_own_add(counter, 1);
}

/* All that a class has counted. */
struct hg_counters_sum {
    struct hg_diag_counters diag;
    struct hg_ext_counters ext;
};

/* Add the counters of a class to `sum`. */
void hg_counters_add(hg_class_t *hg_class, struct hg_counters_sum *sum);

/* Count a forward that did not succeed. */
void hg_counters_forward_failed(hg_context_t *context, hg_return_t ret);

/* Keep the counters of a context that is destroyed. The class's lock is held. */
void hg_counters_retire(hg_class_t *hg_class, hg_context_t *context);

/* Write the counters of a class to the log at level info, or at level error if `force`. */
void hg_counters_log(hg_class_t *hg_class, bool force);

/*
 * Registry [registry.c] -------------------------------------------------------------------------
 */

/* A registered RPC. It stays allocated until the class is closed, so that readers need no lock. */
struct hg_rpc {
    hg_id_t id;
    char *name; /* NULL if registered by number; under the registry's lock */
    _Atomic bool is_registered;
    _Atomic bool no_response;
    _Atomic(hg_rpc_cb_t) rpc_cb;
    _Atomic(hg_proc_cb_t) in_proc;
    _Atomic(hg_proc_cb_t) out_proc;
    _Atomic(void *) data;
    void (*data_free)(void *); /* under the registry's lock */
};

struct hg_rpc_table;

struct hg_registry {
    pthread_mutex_t lock; /* of writers */
    _Atomic(struct hg_rpc_table *) table;
    size_t count;
};

hg_return_t hg_registry_init(struct hg_registry *registry);
void hg_registry_fini(struct hg_registry *registry);

/* Id that a name stands for. */
hg_id_t hg_registry_hash(const char *name);

/* The RPC of an id, or NULL. [any thread], no lock. */
struct hg_rpc *hg_registry_find(const struct hg_registry *registry, hg_id_t id);

/* Add or replace an RPC. With a name: HG_EXIST if another name has this id. */
hg_return_t hg_registry_add(struct hg_registry *registry, hg_id_t id, const char *name,
                            hg_proc_cb_t in_proc, hg_proc_cb_t out_proc, hg_rpc_cb_t rpc_cb);

/*
 * Addresses [addr.c, auto_sm.c] -----------------------------------------------------------------
 */

struct hg_addr {
    hg_class_t *hg_class;
    na_addr_t *na_addr[HG_PATH_MAX];
    _Atomic int32_t ref;
    _Atomic uint8_t
        path; /* that messages take; the second one is left when the peer is gone there */
    _Atomic(struct hg_flow *) flow; /* NULL until it is needed */
    bool is_self;                   /* the class's own */
    bool is_embedded; /* part of a handle: lives as long as the request; is duplicated by a copy */
};

/* A stand-alone address for one that is part of a handle, or that nobody else is to keep. */
hg_return_t hg_addr_copy(hg_class_t *hg_class, const struct hg_addr *addr, hg_addr_t *new_addr_p);

/* Split "main;sm=node@address" and look both up; see auto_sm.c. */
hg_return_t hg_auto_sm_lookup(hg_class_t *hg_class, const char *name, struct hg_addr *addr);
hg_return_t hg_auto_sm_to_string(char *buf, hg_size_t *size_p, const struct hg_addr *addr);

/*
 * The peer is gone from the second path, as when its process was restarted: from now on messages
 * take the main one, if the address has it. Transfers that run are left alone. [any thread]
 */
void hg_auto_sm_lost(struct hg_addr *addr);

/* Open the class of path 1 if it makes sense. Failure is not an error: the path stays closed. */
void hg_auto_sm_open(hg_class_t *hg_class, const struct hg_options *options, bool listen);

/*
 * Limits of RPCs in flight [flow.c] -------------------------------------------------------------
 */

/* What is in flight to one target, or waits for it. */
struct hg_flow {
    struct hg_addr *addr;    /* a copy of the target's */
    _Atomic uint32_t max;    /* HG_MAX_IN_FLIGHT_DEFAULT: the class's; 0: no limit */
    struct hg_flow *next;    /* under the lock of the flows, as ref */
    uint32_t ref;            /* of equal addresses, and of who looks at it */
    pthread_mutex_t lock;    /* of what follows */
    uint32_t in_flight;      /* forwards that were started */
    bool is_dispatching;     /* a thread starts what waits */
    bool is_stalled;         /* the transport had no resources; the next poll tries again */
    struct hg_handle *first; /* who waits, linked by next_waiting */
    struct hg_handle **last; /* where the next one is linked */
};

struct hg_flows {
    _Atomic bool are_used; /* there is a limit */
    _Atomic uint32_t max;  /* of each target; 0: no limit */
    _Atomic uint32_t waiting;
    pthread_mutex_t lock; /* of what follows */
    uint32_t own_count;   /* flows with a limit of their own */
    struct hg_flow *first;
};

/*
 * Count a forward, or let it wait. True if the caller is not to start it: it waits, and may be in
 * other hands, or *ret_p is an error.
 */
bool hg_flow_enter(struct hg_handle *handle, size_t payload, uint8_t flags, hg_return_t *ret_p);

/*
 * A forward that was counted ended: start who waits. True if it did not: it waits again because the
 * transport refused it.
 */
bool hg_flow_leave(struct hg_handle *handle);

/* End a forward that waits; false if it does not. */
bool hg_flow_cancel(struct hg_handle *handle);

/* Try again what the transport refused. */
void hg_flow_retry(hg_context_t *context);

void hg_flow_unref(struct hg_flow *flow);

/*
 * Blocks [block.c] ------------------------------------------------------------------------------
 */

/* Lists of blocks: 4 KiB to 8 MiB, four sizes for each power of two. */
#define HG_BLOCK_CLASSES 45u

/* The blocks of a class that are not in use. */
struct hg_blocks {
    pthread_mutex_t lock;
    struct hg_block *free[HG_BLOCK_CLASSES]; /* linked by next, last in first out */
    hg_size_t kept;                          /* bytes of all of them */
};

void hg_blocks_init(struct hg_blocks *blocks);

/* Free what is kept. */
void hg_blocks_drain(hg_class_t *hg_class);

/*
 * Budgets of data beside messages [budget.c] ----------------------------------------------------
 */

struct hg_budget {
    pthread_mutex_t lock;         /* of what follows; taken before those of timers and the queue */
    hg_size_t class_max;          /* bytes of all */
    hg_size_t peer_max;           /* bytes of one peer */
    hg_size_t single_max;         /* what is larger is refused */
    hg_size_t used;               /* bytes of all */
    bool has_oversize;            /* one that is larger than peer_max */
    uint32_t waiting;             /* that do not fit now */
    uint32_t waiting_max;         /* more are refused */
    uint32_t peer_waiting_max;    /* likewise, of one peer */
    struct hg_budget_peer *first; /* those that have something, or wait */
    struct hg_budget_peer **last; /* where the next one is linked */
    _Atomic uint64_t queued;      /* had to wait */
    _Atomic uint64_t refused;
};

/* One that wants room for its data. Its owner sets what it waits with. */
struct hg_budget_wait {
    hg_context_t *context;
    struct hg_completion *completion;  /* queued when it need not wait any more */
    struct hg_timer *timer;            /* armed while it waits, and ends that; NULL: none */
    const _Atomic bool *is_canceled_p; /* set before a cancel looks for it; NULL: there is none */
    hg_return_t ret;                   /* how its wait ended */
    /* Under the budget's lock. */
    struct hg_charge charge; /* its own when it waits no more */
    bool is_waiting;
    struct hg_budget_wait *next;
    struct hg_budget_wait **link; /* what points here */
};

void hg_budget_init(struct hg_budget *budget);
void hg_budget_fini(struct hg_budget *budget);

/* 0: no limit. */
void hg_budget_set(struct hg_budget *budget, hg_size_t class_max, hg_size_t peer_max,
                   hg_size_t single_max);

/*
 * Charge a peer with so many bytes, or let them wait, if there is a timer until `end_ns`. One that
 * waits may be in other hands when this returns. HG_MSGSIZE: they can never fit; HG_AGAIN: too many
 * wait.
 */
hg_return_t hg_budget_enter(struct hg_budget *budget, na_class_t *na_class, na_addr_t *na_addr,
                            hg_size_t size, struct hg_budget_wait *wait, uint64_t end_ns,
                            bool *is_waiting_p);

/* They are released; nothing if there are none. */
void hg_budget_leave(struct hg_charge *charge);

/* End one that waits, if it does. `is_over` says that its timer has fired. */
void hg_budget_cancel(struct hg_budget *budget, struct hg_budget_wait *wait, hg_return_t ret,
                      bool is_over);

/* Wait until nobody touches a context any more for whom it let something of that one in. */
void hg_budget_quiesce(struct hg_budget *budget);

/* End all that wait with a context. */
void hg_budget_cancel_all(struct hg_budget *budget, const hg_context_t *context);

/* Add what it has counted. */
void hg_budget_count(struct hg_budget *budget, struct hg_ext_counters *ext);

/*
 * Class [class.c] -------------------------------------------------------------------------------
 */

#define HG_NODE_ID_SIZE 40

/* A context's id is a byte. */
#define HG_CONTEXT_IDS   256u
#define HG_CONTEXT_WORDS (HG_CONTEXT_IDS / 64)

struct hg_class_path {
    na_class_t *na_class; /* NULL: closed */
    size_t unexpected_size;
    size_t expected_size;
    size_t unexpected_header;
    size_t expected_header;
    uint32_t slot_bits; /* of a tag, see handle.c */
    uint32_t slot_mask;
    uint32_t generation_bits;
    uint32_t generation_mask;
    uint32_t ack_bit;
};

struct hg_class {
    struct hg_class_path paths[HG_PATH_MAX];
    unsigned int forks; /* hg_forks of the process that opened it */
    bool is_listening;
    bool is_busy;          /* never sleeps */
    bool is_single_thread; /* the program promised so */
    bool owns_na_class;
    bool no_bulk_eager;
    bool no_loopback;
    bool no_overflow;
    bool release_input_early;
    bool stats;
    uint8_t hash_flags; /* HG_CORE_HEADER_ flags that every message carries */
    uint32_t hash_size; /* bytes of the headers that these flags stand for */
    struct hg_key key;  /* of the tags that these flags may ask for */
    uint32_t post_init;
    uint32_t post_incr;
    _Atomic uint32_t deadline_ms; /* of operations for which none is set; 0: none */
    _Atomic uint32_t overflow_ms; /* how long data beside a message are waited for; 0: for ever */
    hg_size_t in_offset;
    hg_size_t out_offset;
    struct hg_registry registry;
    struct hg_proc_class proc_class;
    struct hg_blocks blocks;
    struct hg_budget in_budget;  /* of inputs that are fetched or were not released yet */
    struct hg_budget out_budget; /* of outputs that are fetched */
    struct hg_flows flows;
    hg_return_t (*handle_create)(hg_handle_t, void *);
    void *handle_create_arg;
    void *data;
    void (*data_free)(void *);
    _Atomic int32_t addr_count;
    _Atomic int32_t bulk_count;
    char node_id[HG_NODE_ID_SIZE]; /* of this machine, for auto_sm */

    uint32_t max_contexts; /* 0: the class was opened over an NA class, which knows */

    pthread_mutex_t self_lock; /* of who is whose peer in RPCs to the own address */

    pthread_mutex_t lock;                   /* of what follows */
    uint64_t context_ids[HG_CONTEXT_WORDS]; /* bitmap: ids of contexts, opened or being opened */
    struct hg_context *contexts;            /* linked by next */
    struct hg_counters retired;             /* sum over destroyed contexts */
    uint32_t number;                        /* of the class in the process, from 0 */
    struct hg_class *next;                  /* in the list of all classes */
    struct hg_class **previous_p;           /* what points here; NULL: not in that list */
};

/*
 * Forks [fork.c] --------------------------------------------------------------------------------
 */

/* Locks that a thread may hold while another one forks. */
extern UTIL_HIDDEN pthread_mutex_t hg_classes_lock, hg_lookup_lock, hg_generation_lock;

/* Have forks watched from now on. */
void hg_fork_watch(void);

static inline bool hg_class_is_inherited(const hg_class_t *hg_class)
{
    return hg_class->forks != hg_forks;
}

/* Whether an object is the parent's, with a line in the log. NULL: false. */
static inline bool hg_class_is_refused(const hg_class_t *hg_class, const char *function)
{
    return util_unlikely(hg_class != NULL && hg_class_is_inherited(hg_class)) &&
           hg_fork_refuses(hg_class, function);
}

/*
 * Call a function for each open class of this process. Classes cannot be opened or closed
 * meanwhile.
 */
void hg_class_for_each(void (*function)(hg_class_t *hg_class, void *arg), void *arg);

/*
 * Pools of handles [pool.c] ---------------------------------------------------------------------
 */

/*
 * Handles of one kind and path. All are kept until the context is destroyed. An origin's handle
 * may move to the other path by HG_Reset(): it is freed to the pool of the path that it has then.
 */
struct hg_pool {
    pthread_mutex_t lock;
    struct hg_handle *free; /* linked by next_free, last in first out */
    struct hg_handle *all;  /* linked by next_all */
    uint32_t count;
    uint32_t free_count;
    uint32_t detached_count; /* hold what the transport did not let go of in time */
};

hg_return_t hg_pool_init(struct hg_pool *pool);

/* Take a handle, making `step` more if there is none; 0: NULL then. */
struct hg_handle *hg_pool_get(hg_context_t *context, bool is_origin, enum hg_path path,
                              uint32_t step, hg_return_t *ret_p);
void hg_pool_put(struct hg_pool *pool, struct hg_handle *handle);

/* Make handles ahead. */
hg_return_t hg_pool_grow(hg_context_t *context, bool is_origin, enum hg_path path, uint32_t count);

/* Count a handle that was taken as one that nobody uses; back again. */
void hg_pool_detach(struct hg_pool *pool, int32_t count);

/*
 * Whether a response to a request is still to end: it is on its way, or the program has destroyed
 * the request and not answered it.
 */
bool hg_pool_has_responses(struct hg_pool *pool);

void hg_pool_fini(struct hg_pool *pool);

/* Handles in use, of one kind on all paths, with posted receives. */
uint32_t hg_context_count_handles(hg_context_t *context, bool is_origin);

/*
 * Forwards that were given up [abandoned.c] ------------------------------------------------------
 */

/* A forward that its origin gave up, remembered for a response that comes later. */
struct hg_abandoned {
    na_addr_t *na_addr; /* NULL: unused */
    hg_id_t id;
    na_tag_t tag;
    uint32_t cookie;
    uint8_t origin;
    uint8_t path;
    uint16_t next; /* with the same hash, from 1; 0: none */
};

/* So many are remembered; then the oldest is forgotten for each that comes. */
#define HG_ABANDONED_MAX     4096u
#define HG_ABANDONED_BUCKETS (HG_ABANDONED_MAX / 2)

struct hg_abandoned_table {
    uint64_t seed;
    uint32_t next;                          /* how many came; place in the ring, modulo its size */
    uint16_t buckets[HG_ABANDONED_BUCKETS]; /* first one, from 1; 0: none */
    struct hg_abandoned ring[HG_ABANDONED_MAX];
};

/* They have a lock around them. NULL: there is no memory for them. */
struct hg_abandoned_table *hg_abandoned_new(void);
void hg_abandoned_free(struct hg_abandoned_table *table, const hg_class_t *hg_class);

/*
 * Remember one, with its address; returns the address that is not needed any more, of the oldest or
 * of one that is there already, and in *path_p its path. NULL: there is none.
 */
na_addr_t *hg_abandoned_add(struct hg_abandoned_table *table, const hg_class_t *hg_class,
                            const struct hg_abandoned *abandoned, uint8_t *path_p);

/* Forget the one that equals `wanted`; returns its address, or NULL if there is none. */
na_addr_t *hg_abandoned_take(struct hg_abandoned_table *table, const hg_class_t *hg_class,
                             const struct hg_abandoned *wanted);

/* Whether both are of one forward. */
bool hg_abandoned_equals(const hg_class_t *hg_class, const struct hg_abandoned *one,
                         const struct hg_abandoned *other);

/*
 * Control messages [control.c] ------------------------------------------------------------------
 */

struct hg_control;

/*
 * Error responses that wait to be sent again; more are dropped, and only their origins' deadlines
 * end those RPCs.
 */
#define HG_CONTROL_REFUSED_MAX 256u

struct hg_controls {
    pthread_mutex_t lock;
    struct hg_control *free[HG_PATH_MAX]; /* linked by next_free */
    struct hg_control *all;               /* linked by next_all */
    struct hg_control *retry;             /* linked by next_free */
    struct hg_handle *refused; /* with error responses to be sent again, by next_waiting */
    uint32_t refused_count;    /* of these */
    _Atomic bool has_retry;
    uint32_t sending;
    struct hg_handle *awaiting; /* responses that wait to be fetched, linked by next_awaiting */
    struct hg_abandoned_table *abandoned; /* NULL: no forward was abandoned yet */
};

hg_return_t hg_controls_init(struct hg_controls *controls);
void hg_controls_fini(hg_context_t *context);

/*
 * Cancel control messages that are being sent, and waits for fetches; returns how many there were.
 */
uint32_t hg_controls_cancel(hg_context_t *context);

/* Send again what the transport could not take. */
void hg_controls_retry(hg_context_t *context);

/*
 * Have an error response that the transport could not take sent again when there is progress; false
 * if too many wait already.
 */
bool hg_control_respond_later(struct hg_handle *handle, hg_return_t ret_code);

/* Tell the other side that what it exposed was fetched (or will not be). */
void hg_control_send_ack(struct hg_handle *handle, hg_return_t ret_code);

/* Tell the target that nobody will fetch its response. */
void hg_control_send_abandon(struct hg_handle *handle);

/* That message came. `handle` received it and is not kept. */
void hg_control_recv_abandon(struct hg_handle *handle);

/* Register a handle as waiting to be fetched; false if its origin gave up before. */
bool hg_control_await(struct hg_handle *handle);
void hg_control_await_end(struct hg_handle *handle);

/*
 * `handle` received an acknowledgement with the cookie of another response: end the wait of the one
 * that it is for, if there is one.
 */
void hg_control_pass_ack(const struct hg_handle *handle, hg_id_t id, uint32_t cookie,
                         hg_return_t ret_code);

/*
 * Generations [generation.c] --------------------------------------------------------------------
 */

/* Where the handles of a new context start to count their uses. */
uint64_t hg_generation_begin(void);

/* The handles of a context, which is gone, have counted this far. */
void hg_generation_end(uint64_t generation);

/* Tags of an origin's handle that are left out, by their generation. */
#define HG_STALE_MAX 2048u

struct hg_stale_tags {
    uint32_t count;
    uint64_t bits[HG_STALE_MAX / 64];
};

/* The first generation from this one on that no late answer can be of. */
uint64_t hg_generation_fresh(const struct hg_handle *handle, uint64_t generation);

/* A handle's use ended without its answer, which may still come. */
void hg_generation_mark_stale(struct hg_handle *handle);

/*
 * Context [context.c] ---------------------------------------------------------------------------
 */

/* Parts of hg_context.waiters. */
#define HG_WAITER_PROGRESS      0x00000001u /* threads asleep in HG_Progress() */
#define HG_WAITER_PROGRESS_MASK 0x00007fffu
#define HG_WAITER_TRIGGER       0x00008000u /* threads asleep in HG_Trigger() */
#define HG_WAITER_TRIGGER_MASK  0x3fff8000u
#define HG_WAITER_ARMED         0x40000000u /* the program may wait on the descriptor */
#define HG_WAITERS_OF_PROGRESS  (HG_WAITER_PROGRESS_MASK | HG_WAITER_ARMED)

/* What a context waits for; each has its own time to poll before it sleeps. */
enum hg_poll {
    HG_POLL_MESSAGE,  /* requests and responses */
    HG_POLL_TRANSFER, /* the end of bulk transfers too, of their pieces, of what exposes memory */
    HG_POLL_MAX
};

struct hg_context {
    /* Written when the context is created. */
    hg_class_t *hg_class;
    na_context_t *na_context[HG_PATH_MAX];
    unsigned int forks; /* as the class's */
    int epoll_fd;       /* -1: the transport has no descriptors, or is busy */
    int event_fd;
    uint8_t id;
    _Atomic int32_t refused_count; /* bulk transfers and forwards to be tried again */
    _Atomic bool is_stalled;       /* forwards to be tried again, counted as one of these */
    struct hg_timers timers;       /* its first member is read by each poll */
    void *data;
    void (*data_free)(void *);
    void (*_Atomic bulk_data_free)(void *);
    _Atomic(void *) bulk_data;
    struct hg_context *next; /* in the class; under its lock */

    /* What waits to be triggered. */
    struct mpsc_queue queue;

    /* Who sleeps, and whether somebody was woken since. */
    _Alignas(UTIL_CACHE_LINE) _Atomic uint32_t waiters;
    _Atomic bool is_signaled;
    _Atomic bool has_progressed; /* with completions queued, and none was triggered since */
    _Atomic uint32_t poll_ns[HG_POLL_MAX]; /* how long to poll before sleeping */
    _Atomic uint64_t ready_ns; /* when HG_Event_ready() last allowed to sleep; 0: it did not */
    pthread_mutex_t trigger_lock;
    pthread_cond_t trigger_cond;

    /* Receives of requests. */
    _Alignas(UTIL_CACHE_LINE) _Atomic int32_t posted[HG_PATH_MAX];
    _Atomic bool is_receiving;
    int32_t window; /* receives to keep posted */

    /* Operations that are not handles: bulk transfers, lookups, cancelled forwards. */
    _Atomic int32_t op_count;
    _Atomic int32_t deferred_count; /* forwards that are queued to be started late */
    _Atomic int32_t exposing_count; /* forwards whose targets may be transferring */

    _Alignas(UTIL_CACHE_LINE) struct hg_counters counters;
    _Alignas(UTIL_CACHE_LINE) struct hg_pool origins[HG_PATH_MAX];
    struct hg_pool targets[HG_PATH_MAX];
    _Atomic uint32_t slot_count; /* handles made by HG_Create() so far */
    uint64_t generation;         /* of their first use */
    struct hg_controls controls;
};

/* The open context of a class with an id, or NULL. It is not kept from being destroyed. */
hg_context_t *hg_class_find_context(hg_class_t *hg_class, uint8_t id);

/*
 * Progress [progress.c] -------------------------------------------------------------------------
 */

/*
 * How long HG_Progress() polls before it sleeps: it adapts between these, of which the upper ones
 * are for messages and for transfers (about 4 MiB on one node). Longer waits bring it down at once.
 */
#define HG_POLL_NS_MIN          1000u
#define HG_POLL_NS_ALONE        50000u /* then others may have the processor in between */
#define HG_POLL_NS_MAX_MESSAGE  150000u
#define HG_POLL_NS_MAX_TRANSFER 600000u

/* Poll all paths once and run NA's callbacks. */
hg_return_t hg_context_poll(hg_context_t *context);

/* To be called by who polled and does not poll on, for those who sleep. */
void hg_context_rearm_sleepers(hg_context_t *context);

static inline void hg_context_rearm(hg_context_t *context)
{
    if (util_unlikely((atomic_load(&context->waiters) & HG_WAITERS_OF_PROGRESS) != 0))
        hg_context_rearm_sleepers(context);
}

/* Wake those that `waiters`, of hg_context.waiters, counts. */
void hg_context_signal(hg_context_t *context, uint32_t waiters);

/* What hg_context_wake() and hg_context_push() do, for the hot path. */
static inline void hg_context_wake_progress(hg_context_t *context)
{
    uint32_t waiters = atomic_load(&context->waiters) & HG_WAITERS_OF_PROGRESS;

    if (util_unlikely(waiters != 0))
        hg_context_signal(context, waiters);
}

static inline void hg_context_queue(hg_context_t *context, struct hg_completion *completion)
{
    uint32_t waiters;

    if (context->hg_class->is_single_thread)
        mpsc_queue_push_alone(&context->queue, &completion->node);
    else
        mpsc_queue_push(&context->queue, &completion->node);
    waiters = atomic_load(&context->waiters);
    if (util_unlikely(waiters != 0))
        hg_context_signal(context, waiters);
}

/* Forget that somebody was woken. */
void hg_context_drain_event(hg_context_t *context);

/*
 * Deadlines [deadline.c, expire.c] --------------------------------------------------------------
 */

/* Fire the timers that are due. */
void hg_context_fire(hg_context_t *context);

/* Whether a timer is due. */
bool hg_context_is_due(hg_context_t *context);

/* Have the context's descriptor readable when the next timer is due, or not any more. */
void hg_context_program(hg_context_t *context);
void hg_context_unprogram(hg_context_t *context);

/* Run the callbacks of NA that wait, on all paths. */
void hg_context_trigger_na(hg_context_t *context);

/* What the timer of an operation with a deadline counts in hg_handle.pending. */
#define HG_PENDING_TIMER 0x10000

/*
 * An operation with a deadline: before its parts are posted, it gets two parts more, of the timer
 * and of who starts it; when all is posted the timer is armed, and the operation may end.
 */
void hg_deadline_begin(struct hg_handle *handle, uint32_t deadline_ms);
void hg_deadline_started(struct hg_handle *handle);

/* A forward whose only part is that it waits for its turn: its end_ns counts from now on. */
void hg_deadline_wait(struct hg_handle *handle);

/* What is left of the time of an operation with a deadline, at least 1 ms. */
uint32_t hg_deadline_left(const struct hg_handle *handle);

/* One part of such an operation ended; true if it was the last one. */
bool hg_deadline_part_drop(struct hg_handle *handle);

/*
 * Handles [handle.c] ----------------------------------------------------------------------------
 */

/* Where an operation on a handle is. */
enum hg_handle_state {
    HG_HANDLE_UNUSED, /* no program has the handle: it is free, posted or about to be handed over */
    HG_HANDLE_REFUSING, /* nor this one: the library answers the request with an error */
    HG_HANDLE_IDLE,     /* nothing runs; at the target: there was no response yet */
    HG_HANDLE_ACTIVE,   /* an operation runs; its callback will run */
    HG_HANDLE_DRAINING, /* an operation failed to start, but part of it still has to end */
    HG_HANDLE_DONE      /* at the target: the response was sent */
};

/* Where a request to the own address is. */
enum hg_self_state {
    HG_SELF_NONE,
    HG_SELF_QUEUED,   /* its handler was not called yet */
    HG_SELF_RUNNING,  /* it was */
    HG_SELF_CANCELED, /* it will not be */
    HG_SELF_ORPHAN    /* at the origin: it dropped its handle without a response */
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
    uint32_t slot;               /* number among the origin's handles of the context */
    uint64_t generation;         /* of the origin's handle: its use, see generation.c */
    struct hg_stale_tags *stale; /* NULL: all were answered */
    struct hg_timer timer;
    uint64_t end_ns;        /* of the time of an operation with a deadline */
    struct hg_handle *peer; /* other side of a request to the own address; under the class's lock */
    _Atomic(struct hg_handle *) other_end; /* the same, until either is destroyed or used again */
    _Atomic uint32_t self;                 /* enum hg_self_state */
    _Atomic bool is_posted;                /* its receive is posted */
    _Atomic bool is_awaited;               /* in the list of controls; written under its lock */
    _Atomic bool is_acknowledged; /* another handle received the acknowledgement for this one */
    _Atomic uint32_t ack_ret;     /* what it said */
    bool is_refused;              /* a late forward was refused for lack of resources */
    bool is_running;              /* under the flow's lock, as what follows: it was started */
    bool is_waiting;
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

/* Allocate a handle with its buffers and operations; free it. */
struct hg_handle *hg_handle_new(hg_context_t *context, bool is_origin, enum hg_path path,
                                hg_return_t *ret_p);
void hg_handle_delete(struct hg_handle *handle);

/* Make the buffer and operation to receive an acknowledgement, once. */
hg_return_t hg_handle_open_ack(struct hg_handle *handle);

/* Move an origin's handle to another path: buffers and operations are made anew. */
hg_return_t hg_handle_set_path(struct hg_handle *handle, enum hg_path path);

/*
 * Take one from a counter of which the caller holds one; true if it was the last. Who holds the
 * only one needs no locked instruction to know it.
 */
static inline bool hg_counter_drop(_Atomic int32_t *counter)
{
    return atomic_load_explicit(counter, memory_order_acquire) == 1 ||
           atomic_fetch_sub_explicit(counter, 1, memory_order_acq_rel) == 1;
}

/* The generation of a handle's next use. */
static inline uint64_t hg_generation_after(const struct hg_handle *handle)
{
    const uint64_t next = handle->generation + 1;

    return util_likely(handle->stale == NULL) ? next : hg_generation_fresh(handle, next);
}

/* One part of the operation ended; true if it was the last one. */
static inline bool hg_handle_part_drop(struct hg_handle *handle)
{
    int32_t pending = atomic_load_explicit(&handle->pending, memory_order_acquire);

    if (pending == 1)
        return true;
    if (util_unlikely(pending > HG_PENDING_TIMER))
        return hg_deadline_part_drop(handle);
    if (handle->info.hg_class->is_single_thread) {
        atomic_store_explicit(&handle->pending, pending - 1, memory_order_relaxed);
        return false;
    }
    return atomic_fetch_sub_explicit(&handle->pending, 1, memory_order_acq_rel) == 1;
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

static inline bool hg_context_is_refused(const hg_context_t *context, const char *function)
{
    return util_unlikely(context != NULL && context->forks != hg_forks) &&
           hg_fork_refuses(context->hg_class, function);
}

static inline bool hg_handle_is_refused(const struct hg_handle *handle, const char *function)
{
    return handle != NULL && hg_class_is_refused(handle->info.hg_class, function);
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

/*
 * Header [header.h, header.c] -------------------------------------------------------------------
 */

/* Bits of a cookie, which comes back in the response: the generation continued behind the tag. */
#define HG_COOKIE_MASK        0x00ffffffu

#define HG_CORE_ABANDON_MAGIC 0x4348 /* "HC": a request's origin will not fetch its response */

/*
 * Complete a header that no payload follows, in a buffer that has room for what a class's flags
 * ask for: returns the size of the message.
 */
size_t hg_header_seal(const hg_class_t *hg_class, char *header);

/* The cookie of a header that was read. */
static inline uint32_t hg_header_cookie(uint16_t low, uint8_t high)
{
    return (uint32_t) high << 16 | low;
}

/* Check the payload's checksum, if it has one. */
hg_return_t hg_header_check_payload(const struct hg_handle *handle, const struct hg_msg *msg);

/* What may follow a header to check it by. */
#define HG_HEADER_SEALS (HG_CORE_HEADER_HAS_HASH | HG_CORE_HEADER_HAS_TAG)

/* Where the payload of a message starts, and how much fits. */
static inline size_t hg_msg_payload_offset(const struct hg_msg *msg, uint8_t flags)
{
    size_t offset = msg->header + sizeof(struct hg_core_header_request);

    if (util_likely(!(flags & HG_HEADER_SEALS)))
        return offset;
    return offset + ((flags & HG_CORE_HEADER_HAS_HASH) ? sizeof(struct hg_core_header_hash) : 0) +
           ((flags & HG_CORE_HEADER_HAS_TAG) ? sizeof(struct hg_core_header_tag) : 0);
}

/*
 * Payload [payload.c] ---------------------------------------------------------------------------
 */

static inline struct hg_msg *hg_payload_msg(struct hg_handle *handle, hg_op_t op)
{
    return op == HG_INPUT ? &handle->in : &handle->out;
}

static inline struct hg_extra *hg_payload_extra(struct hg_handle *handle, hg_op_t op)
{
    return op == HG_INPUT ? &handle->in_extra : &handle->out_extra;
}

/* Bytes of the program's own header. */
static inline size_t hg_payload_reserved(const struct hg_handle *handle, hg_op_t op)
{
    const hg_class_t *hg_class = handle->info.hg_class;

    return (size_t) (op == HG_INPUT ? hg_class->in_offset : hg_class->out_offset);
}

/* NULL: there is nothing to encode or to decode. */
static inline hg_proc_cb_t hg_payload_proc(const struct hg_handle *handle, hg_op_t op)
{
    if (handle->rpc == NULL)
        return NULL;
    return atomic_load_explicit(op == HG_INPUT ? &handle->rpc->in_proc : &handle->rpc->out_proc,
                                memory_order_relaxed);
}

/* The rest of hg_payload_encode(), where there is a structure: *payload_p grows by its size. */
hg_return_t hg_payload_encode_with(struct hg_handle *handle, hg_op_t op, hg_proc_cb_t proc_cb,
                                   void *data, uint8_t flags, size_t *payload_p);

/*
 * Encode a structure behind the program's own header. Sets *payload_p and *flags_p for the header;
 * what does not fit is left in `extra` (and then *payload_p counts only what is in the message).
 */
static UTIL_ALWAYS_INLINE hg_return_t hg_payload_encode(struct hg_handle *handle, hg_op_t op,
                                                        void *data, size_t *payload_p,
                                                        uint8_t *flags_p)
{
    struct hg_extra *extra = hg_payload_extra(handle, op);
    hg_proc_cb_t proc_cb = data != NULL ? hg_payload_proc(handle, op) : NULL;

    *flags_p = handle->info.hg_class->hash_flags;
    if (util_unlikely(handle->proc.is_portable))
        *flags_p |= HG_CORE_HEADER_PORTABLE;
    *payload_p = hg_payload_reserved(handle, op);
    handle->proc.has_bulk = false;
    if (util_unlikely(extra->block != NULL))
        hg_extra_free(extra);
    /* No structure is an empty payload: handlers respond so when they have nothing to say. */
    if (proc_cb == NULL)
        return HG_SUCCESS;
    return hg_payload_encode_with(handle, op, proc_cb, data, *flags_p, payload_p);
}

/*
 * Overflow [overflow.c] -------------------------------------------------------------------------
 */

/*
 * Put a description of `extra` into a message whose payload starts at `start`, behind the
 * *payload_p bytes that are there; add its size to *payload_p.
 */
hg_return_t hg_overflow_expose(struct hg_handle *handle, struct hg_msg *msg, struct hg_extra *extra,
                               size_t start, size_t *payload_p);

/*
 * Fetch what the message in `msg` describes. `done` runs inside of HG_Trigger() with the result,
 * unless this returns an error.
 */
hg_return_t hg_overflow_fetch(struct hg_handle *handle, hg_op_t op,
                              void (*done)(struct hg_handle *handle, hg_return_t ret));

/* Cancel a fetch that runs or waits for the budget. */
void hg_overflow_cancel(struct hg_handle *handle);

/*
 * Forward, respond, receive [forward.c, respond.c, recv.c, loopback.c] --------------------------
 */

/* One part of the operation ended. */
void hg_forward_part_done(struct hg_handle *handle);
void hg_respond_part_done(struct hg_handle *handle);

/* Start a forward that waited, in this thread or in the next HG_Trigger() of its context. */
void hg_forward_start_deferred(struct hg_handle *handle);
void hg_forward_push_deferred(struct hg_handle *handle);

/* All of it ended. */
void hg_forward_ended(struct hg_handle *handle);
void hg_respond_ended(struct hg_handle *handle);

/* Ask for the end of all that runs on a handle [cancel.c]. */
hg_return_t hg_handle_cancel(struct hg_handle *handle);

/* Cancel one of its messages. */
hg_return_t hg_handle_cancel_msg(struct hg_handle *handle, const struct hg_msg *msg);

/*
 * Response for the program to be told that the RPC failed; the handle is released when it is sent.
 */
void hg_respond_error(struct hg_handle *handle, hg_return_t ret);

/* Keep enough receives posted. */
hg_return_t hg_recv_fill(hg_context_t *context, enum hg_path path);

/* Post the receive of a handle that is not in use any more, or give it back to its pool. */
void hg_recv_recycle(struct hg_handle *handle);

/*
 * Release the requests that the program has destroyed and not answered, if it has no others: false
 * if it has, then nothing was done.
 */
bool hg_recv_release_unanswered(hg_context_t *context);

/* Cancel all receives and wait until they ended; receive again. */
hg_return_t hg_recv_stop(hg_context_t *context);
void hg_recv_restart(hg_context_t *context);

/* Call the handler. */
void hg_recv_dispatch(struct hg_handle *handle);

bool hg_loopback_applies(const struct hg_handle *handle);
hg_return_t hg_loopback_forward(struct hg_handle *handle, size_t payload, uint8_t flags);
void hg_loopback_respond(struct hg_handle *handle, hg_return_t ret, size_t payload, uint8_t flags);
void hg_loopback_cancel(struct hg_handle *handle);

/* The target's handle is released; its origin may still wait. */
void hg_loopback_release(struct hg_handle *handle);

/* References to the handle at the other end of the last such RPC, as long as it is in use. */
int32_t hg_loopback_get_other_end_refs(struct hg_handle *handle);

/* The handle at either end is not one of this RPC any more. */
void hg_loopback_forget_other_end(struct hg_handle *handle);

#endif /* HG_PRIVATE_H */
