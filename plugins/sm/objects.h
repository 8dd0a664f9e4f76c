/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects of one process. Those that processes share are in layout.h. */

#ifndef SM_OBJECTS_H
#define SM_OBJECTS_H

#include <stdbool.h>
#include <sys/types.h>

#include "kit_match.h"
#include "kit_parts.h"
#include "kit_rma.h"
#include "layout.h"
#include "na_plugin.h"
#include "na_plugin_addr_serialize.h"
#include "na_plugin_counters.h"
#include "na_plugin_mem_alloc.h"
#include "na_plugin_mem_segments.h"
#include "na_plugin_multi_recv.h"
#include "na_plugin_offer_details.h"
#include "na_plugin_peer_events.h"

#define SM_PLUGIN_NAME      "sm"
#define SM_ADDRESS_START    "na+sm://"
#define SM_PATH_MAX         108 /* size of sockaddr_un.sun_path; files have shorter paths */

#define SM_PEER_BUCKETS     1024u
#define SM_POLL_BUDGET      64u      /* messages taken from one ring in one poll */
#define SM_HOUSEKEEPING     256u     /* polls between two checks of silent rings */
#define SM_IDLE_AFTER       256u     /* housekeepings without a message until a ring is idle */
#define SM_POLLED_MAX       64u      /* with more polled rings, silent ones are idle much sooner */
#define SM_DEFERRED_BYTES   1048576u /* budget of a context for deferred messages */
#define SM_RMA_CHUNK        1048576u /* native RMA: bytes copied in one turn */
#define SM_POOL_CLASSES     128u     /* sizes of a pool's blocks */
#define SM_RMA_SEGMENTS     256u     /* largest number of segments of a memory handle */
#define SM_COPY_AWAKE_NS    UINT64_C(20000) /* copied transfers: no sleep so soon after a record */
#define SM_WATCH_NS         UINT64_C(200000000)
#define SM_CONNECT_WAIT_NS  UINT64_C(5000000000)
#define SM_CONNECT_RETRY_NS UINT64_C(10000000)
#define SM_HANDOVER_NS      UINT64_C(10000000) /* between reads of a wake socket without a sleep */

/* Short names for atomic accesses: relaxed, or in the order that the name says. */
#define sm_load(p)                 atomic_load_explicit(p, memory_order_relaxed)
#define sm_load_acquire(p)         atomic_load_explicit(p, memory_order_acquire)
#define sm_store(p, value)         atomic_store_explicit(p, value, memory_order_relaxed)
#define sm_store_release(p, value) atomic_store_explicit(p, value, memory_order_release)
#define sm_add(p, n)               ((void) atomic_fetch_add_explicit(p, n, memory_order_relaxed))
#define sm_add_release(p, n)       ((void) atomic_fetch_add_explicit(p, n, memory_order_release))
#define sm_sub(p, n)               ((void) atomic_fetch_sub_explicit(p, n, memory_order_relaxed))
#define sm_sub_release(p, n)       ((void) atomic_fetch_sub_explicit(p, n, memory_order_release))

struct sm_conn;
struct sm_in_ring;

/* The plugin's part of an operation. `link` is first, so that a list's element is cast to it. */
struct sm_op {
    union {
        struct kit_link link;
        struct kit_recv recv;
    };
    struct na_plugin_addr *peer; /* not set in receives of unexpected messages */
    bool gone;                   /* expected receives: the sending context was destroyed */
    uint8_t kind;                /* sends: SM_KIND_* */
    bool is_put;
    bool is_shared; /* transfers: the remote memory is in the peer's pool, which is mapped */
    struct na_plugin_context *context;
    uint32_t tag;
    uint32_t remote_id; /* context of the peer */
    const void *send_buf;
    uint64_t size; /* of the buffer, or of the transfer */
    uint64_t used; /* bytes done, of a transfer or of a message sent in parts */
    struct na_plugin_mem *local;
    struct na_plugin_mem *remote;
    uint64_t local_offset;
    uint64_t remote_offset;
    struct kit_rma_transfer *transfer; /* in the kit's engine, while it is copied */
    _Atomic(struct kit_link *) list; /* the list of sends or transfers that `link` is in, or NULL */
};

/* A peer, known by name and incarnation; one object for each in a class. */
struct na_plugin_addr {
    struct na_plugin_addr *hash_next;
    struct kit_link link; /* of all peers of the class */
    struct na_plugin_class *na_class;
    _Atomic uint32_t refs;
    _Atomic uint32_t transfers;               /* copied transfers of all contexts with it */
    _Atomic int32_t failure;                  /* 0, or the status that its operations end with */
    _Atomic(struct na_plugin_addr *) arrived; /* of an absent peer: the endpoint found later */
    struct sm_conn *_Atomic *conns;           /* one for each of its contexts, made at first use */
    struct sm_segment_header header; /* checked copy of its file; incarnation 0: an absent peer */
    struct sm_segment_header *base;  /* mapping of the base of its segment */
    atomic_bool mapped;              /* false: `base` is a placeholder of zeros */
    int memory_fd;                   /* its segment, if the peer handed it over, or -1 */
    int ask_fd;                      /* the socket on which memory_fd arrives, or -1 */
    uint64_t asked;                  /* when memory_fd was last requested, or 0 */
    uint64_t base_size;
    dev_t device;
    ino_t inode;
    bool same_pid_namespace;
    _Atomic uint32_t rma; /* enum sm_rma_mode */
    uint64_t watch_round; /* the last one that collected it; guarded by watch_lock */
    const _Atomic uint64_t *_Atomic registrations[SM_TABLE_PARTS]; /* mapped at first use */
    struct sm_writer *_Atomic writer;  /* our entry in its table of writers */
    struct sm_pool_view *_Atomic pool; /* its pool, mapped at first use */
    _Atomic uint64_t pool_watched;     /* when it was last checked because of its pool */
    char name[SM_NAME_MAX + 1];
};

enum sm_rma_mode {
    SM_RMA_UNKNOWN,
    SM_RMA_NATIVE,
    SM_RMA_COPY
};

enum sm_conn_state {
    SM_CONN_NEW,
    SM_CONN_READY
};

/* The sending end of a connection to one context of a peer: a ring in our segment. */
struct sm_conn {
    /* Read by every sender */
    _Alignas(SM_CACHE_LINE) struct sm_ring_slot *slots;
    uint8_t *data;
    struct sm_peer_slot *peer_slot;       /* in the peer's segment */
    struct sm_context_area *context_area; /* likewise */
    uint32_t data_lines;                  /* a power of two */
    bool fence;                           /* a sender must fence after publishing */
    _Atomic uint32_t gate;  /* not 0: take the slow path (not connected, failed, or a queue) */
    _Atomic uint32_t woken; /* flags of the receiver's last sleep that we ended */

    /* Written by every sender */
    _Alignas(SM_CACHE_LINE) _Atomic uint64_t tail; /* slot << 32 | data line */
    _Atomic uint64_t head;                         /* see sm_ring_limit() */

    _Alignas(SM_CACHE_LINE) struct kit_lock lock; /* guards the members below */
    struct kit_link pending;                      /* sends that wait for space */
    enum sm_conn_state state;
    uint64_t connect_since;                      /* since when the peer's table is full, or 0 */
    uint64_t connect_next;                       /* when to try to connect again */
    struct kit_link backlog_link;                /* guarded by the class's backlog_lock */
    _Atomic int32_t failure;                     /* 0, or the status that sends end with */
    struct sm_peer_slot *_Atomic connected_slot; /* read without the lock */
    struct na_plugin_addr *peer;
    uint32_t remote_id;
    uint32_t peer_slot_index;
    uint64_t region; /* offset of the ring in our segment */
    uint64_t region_size;
    _Atomic uint32_t slots_ready; /* reserved slots; written under the class's connect_lock */
    _Atomic uint32_t lines_ready; /* likewise, lines of the data area */
    bool is_starved;              /* the last try to reserve ring memory failed */
};

/* The receiving end of a connection to one of our contexts: a ring in the sender's segment. */
struct sm_in_ring {
    struct kit_link polled; /* in the list of polled rings; in none when idle */
    const struct sm_ring_slot *slots;
    const uint8_t *data;
    struct sm_peer_slot *peer_slot; /* in our segment */
    struct na_plugin_addr *peer;
    uint32_t head_slot;
    uint32_t head_data;
    uint32_t published_slot; /* the head that the sender was told last */
    uint32_t published_data; /* likewise */
    uint32_t data_lines;
    uint32_t index;            /* of the peer slot */
    uint32_t received;         /* since the last housekeeping */
    uint32_t idle_rounds;      /* housekeepings without a message */
    uint32_t references;       /* to the peer, taken in advance */
    struct kit_parted *parted; /* a message of which parts have arrived */
    bool stalled;              /* there is no room for its next message */
    bool closing;              /* the sender writes nothing more */
    bool refused;              /* we read nothing more */
};

/* A free region of our segment. */
struct sm_region {
    struct sm_region *next;
    uint64_t offset;
    uint64_t size;
};

struct sm_segment {
    int fd;      /* the memfd */
    int file_fd; /* the file that names it, locked */
    char path[SM_PATH_MAX];
    struct sm_segment_header *header;
    uint64_t base_size;
    uint64_t file_size;
    struct sm_region *free_regions;
    dev_t device;
    ino_t inode;
};

/* A block of the pool. Blocks are never split or joined. */
struct sm_block {
    uint64_t offset;    /* in the pool */
    uint32_t next;      /* in its list of free blocks */
    uint8_t size_class; /* see sm_pool_class() */
    bool is_used;
    bool is_lost; /* a stopped process may still write to it: it is not used again */
};

/* Lists of free blocks: indexes into sm_pool.blocks, or SM_BLOCK_NONE. */
struct sm_block_list {
    uint32_t first[SM_POOL_CLASSES];
};
#define SM_BLOCK_NONE UINT32_MAX

/* The memory that the plugin allocates for programs: a region of our segment. */
struct sm_pool {
    struct kit_lock lock;
    uint64_t budget;         /* bytes of blocks that are used or kept; 0: no pool */
    uint64_t page;           /* the size of the smallest block */
    _Atomic(uint8_t *) base; /* NULL: not made yet */
    uint64_t size;           /* address space: more than the budget, as blocks are never joined */
    uint64_t offset;         /* in the segment */
    uint64_t next;           /* offset behind the last block */
    uint64_t held;           /* bytes of used and of kept blocks */
    uint64_t kept;           /* of free blocks that may have memory */
    uint32_t used;           /* number of used blocks */
    bool is_refused;         /* the system allows no pool */
    bool is_full_logged;
    struct sm_block *blocks; /* ordered by offset */
    uint32_t block_count;
    uint32_t block_capacity;
    struct sm_block_list ready; /* free blocks that may have memory */
    struct sm_block_list empty; /* free blocks without */
};

/* The pool of a peer, mapped by us. */
struct sm_pool_view {
    uint64_t base; /* its address in the peer's process */
    uint64_t size; /* 0: the peer's pool cannot be used */
    uint8_t *map;
};

/* A registered or deserialized memory handle. */
struct na_plugin_mem {
    struct kit_region region; /* its base is that of the first segment */
    _Atomic uint64_t digest;  /* see sm_digest(); 0: not computed yet */
    uint32_t segment_count;
    struct na_plugin_segment first; /* the target of `segments` if there is only one */
    struct na_plugin_segment *segments;
};

struct sm_registry {
    struct kit_lock lock; /* guards this and the transfers of all contexts */
    struct kit_regions regions;
    struct kit_key secret;
    _Atomic uint64_t *table[SM_TABLE_PARTS]; /* mapped parts; NULL: not made */
    struct kit_link free_mems;               /* handles of one segment, for reuse */
};

struct na_plugin_context {
    /* Polling: guarded by poll_lock */
    struct na_plugin_class *na_class;
    struct sm_context_area *area; /* in our segment */
    struct kit_lock poll_lock;
    uint32_t id;
    uint32_t polled_count;
    uint32_t polls;
    struct kit_link polled; /* polled rings, most recently used first */
    uint32_t in_count;
    uint32_t sweep_next;
    struct sm_in_ring **in[SM_PEER_SLOTS / 64]; /* all rings by peer slot */
    struct kit_parts parts;                     /* messages that arrive in parts */
    uint64_t watch_last;
    uint64_t sweep_last;
    uint64_t handover_last; /* when the wake socket was last read without a sleep */
    uint64_t accept_later;  /* doorbell words with senders that could not be mapped for now */
    uint32_t sleep_number;  /* counts in steps of SM_CONTEXT_SLEEP */
    struct na_plugin_addr **watched; /* scratch of sm_watch */
    uint32_t watched_count;
    uint32_t watched_capacity;

    /* Set by any thread */
    _Alignas(SM_CACHE_LINE) _Atomic uint32_t armed; /* senders were told that we sleep */
    _Atomic uint32_t timer_armed;                   /* peers are being watched */
    _Atomic uint32_t native_count;                  /* native transfers under way */
    _Atomic uint32_t copying;                       /* 1: `engine` is active */
    _Atomic uint64_t rma_moved;    /* records of copied transfers sent and received */
    _Atomic uint64_t rma_moved_at; /* time of the last such record */
    _Atomic uint32_t rings_stalled;
    _Atomic uint32_t watch_now;  /* a peer is suspected to be dead */
    _Atomic uint32_t send_count; /* sends that wait for space */
    _Atomic uint32_t sleepers;   /* threads in poll_wait */
    _Atomic uint32_t woken;
    _Atomic uint64_t sends_queued;     /* sends that did not fit or had no connection yet */
    _Atomic uint64_t transfers_copied; /* puts and gets started in `engine` */
    _Atomic uint64_t transfers_shared; /* puts and gets with memory of a mapped pool */
    _Atomic uint32_t unstall;          /* a receive was posted while rings are stalled */

    /* Matching: guarded by match_lock */
    _Alignas(SM_CACHE_LINE) struct kit_lock match_lock;
    atomic_bool active; /* between context_create and context_stop */
    struct kit_match match;
    struct kit_deferrals deferrals;

    /* Transfers: guarded by the registry's lock */
    struct kit_link native;
    struct sm_op *native_current; /* a piece of it is being copied outside of the lock */
    bool native_cancel;           /* native_current was cancelled meanwhile */
    struct kit_link copies;       /* our transfers that `engine` copies */
    struct kit_rma *engine;       /* copies our and the peers' transfers; NULL until used */
    uint32_t copies_done;         /* completed in this poll */
    bool is_announcing;           /* receivers are asked to wake this context when they make room */

    /* Waiting */
    int wake_fd;
    int timer_fd;
    int epoll_fd;
    char wake_path[SM_PATH_MAX];
};

struct na_plugin_class {
    struct sm_segment segment;
    struct kit_link link; /* of all classes of the process */
    uint32_t max_contexts;
    uint32_t max_message;
    uint32_t pid;
    uint64_t pid_namespace;
    uint64_t incarnation;
    uint64_t cookie; /* read by peers to probe cross-memory attach */
    uint64_t capabilities;
    bool busy;
    bool no_retry;
    bool single_context; /* one thread at a time uses a context */
    bool force_copy;
    bool membarrier;             /* senders need no fence; see sm_barrier() */
    bool forked;                 /* this process is a forked child of the class's owner */
    atomic_bool barrier_refused; /* membarrier worked at first, and failed later */
    int send_fd;
    int probe_fd;
    char name[SM_NAME_MAX + 1];
    struct na_plugin_addr *self;
    struct na_plugin_context *contexts; /* max_contexts of them */

    struct kit_lock lock;         /* the table of peers */
    struct kit_lock connect_lock; /* the segment's regions, claiming peer slots */
    struct kit_lock watch_lock;   /* the two below */
    uint64_t watch_round;
    uint64_t watch_all_last;
    atomic_bool is_watching_all;
    struct kit_lock peer_lost_lock;   /* the two below */
    na_plugin_peer_lost_fn peer_lost; /* NULL: not wanted */
    void *peer_lost_arg;
    struct na_plugin_addr *peer_buckets[SM_PEER_BUCKETS];
    struct kit_link peers; /* the one checked longest ago first */

    struct kit_lock backlog_lock;
    struct kit_link backlog; /* connections with pending sends */
    _Atomic uint32_t backlog_count;

    struct sm_registry registry;
    struct sm_pool pool;
};

/* Returns the `owner` of a peer slot, or of a writer, that is this process's. */
static inline uint64_t sm_class_owner(const struct na_plugin_class *na_class, uint32_t state)
{
    return sm_owner_pack(state, na_class->pid, na_class->pid_namespace);
}

/* Add to and remove from a list of sends or transfers. The caller holds the list's lock. */
static inline void sm_op_list_append(struct kit_link *list, struct sm_op *op)
{
    kit_list_append(list, &op->link);
    sm_store_release(&op->list, list);
}

static inline void sm_op_list_remove(struct sm_op *op)
{
    kit_list_remove(&op->link);
    sm_store_release(&op->list, NULL);
}

static inline void sm_peer_hold(struct na_plugin_addr *peer)
{
    sm_add(&peer->refs, 1);
}

#endif /* SM_OBJECTS_H */
