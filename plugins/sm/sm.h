/* SPDX-License-Identifier: BSD-3-Clause */
/* The private objects of the plugin and what its rooms offer each other. */

#ifndef SM_H
#define SM_H

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "layout.h"
#include "lock.h"
#include "na_plugin.h"

#define SM_PLUGIN_NAME      "sm"
#define SM_ADDRESS_START    "na+sm://"
#define SM_PATH_MAX         108 /* of a socket's path, the shorter of both kinds */

#define SM_PEER_BUCKETS     1024u
#define SM_POLL_BUDGET      64u   /* messages taken from one ring in one poll */
#define SM_HOUSEKEEPING     256u  /* polls between two looks at what is idle */
#define SM_PARK_AFTER       256u  /* housekeepings without a message before a ring is parked */
#define SM_HOT_MAX          64u   /* above that many polled rings they are parked much sooner */
#define SM_EARLY_COUNT      4096u /* unexpected messages kept without a receive, per context */
#define SM_EARLY_BYTES      1048576u
#define SM_RMA_CHUNK        1048576u /* native RMA: bytes copied in one turn */
#define SM_RMA_SEGMENTS     256u     /* largest number of segments of a memory handle */
#define SM_COPY_WINDOW      16u      /* copy RMA: operations in flight to one peer */
#define SM_COPY_TABLE       256u     /* copy RMA: operations in flight of one context */
#define SM_WATCH_NS         UINT64_C(200000000)
#define SM_CONNECT_WAIT_NS  UINT64_C(5000000000)
#define SM_CONNECT_RETRY_NS UINT64_C(10000000)

#define SM_LOG(level, ...) \
    na_plugin_log(sm_host, level, SM_PLUGIN_NAME, __func__, __LINE__, __VA_ARGS__)
#define SM_LOG_ERROR(...)   SM_LOG(NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define SM_LOG_WARNING(...) SM_LOG(NA_PLUGIN_LOG_WARNING, __VA_ARGS__)
#define SM_LOG_INFO(...)    SM_LOG(NA_PLUGIN_LOG_INFO, __VA_ARGS__)
#define SM_LOG_DEBUG(...)   SM_LOG(NA_PLUGIN_LOG_DEBUG, __VA_ARGS__)

extern const struct na_host *sm_host;

struct sm_conn;
struct sm_in_ring;

/* A circular list with a head; an element that is in no list points to itself. */
struct sm_link {
    struct sm_link *next;
    struct sm_link *prev;
};

enum sm_op_kind {
    SM_OP_NONE,
    SM_OP_SEND_UNEXPECTED,
    SM_OP_SEND_EXPECTED,
    SM_OP_RECV_UNEXPECTED,
    SM_OP_RECV_MULTI,
    SM_OP_RECV_EXPECTED,
    SM_OP_PUT,
    SM_OP_GET
};

/* The private part of an operation. `link` is first: an element of a list is its operation. */
struct sm_op {
    struct sm_link link;
    struct na_plugin_context *context;
    struct na_plugin_addr *peer;
    enum sm_op_kind kind;
    uint32_t tag;
    uint32_t remote_id; /* context of the peer */
    uint32_t token_index;
    union {
        void *recv_buf;
        const void *send_buf;
    };
    uint64_t size; /* of the buffer, or of the transfer */
    uint64_t used; /* filled bytes of a multi-receive, finished bytes of a transfer */
    struct na_plugin_mem *local;
    struct na_plugin_mem *remote;
    uint64_t local_offset;
    uint64_t remote_offset;
    struct sm_conn *conn; /* copy RMA */
    uint64_t token;       /* copy RMA; 0 while it waits for its turn */
};

/* A peer, known by name and incarnation; one object for each in a class. */
struct na_plugin_addr {
    struct na_plugin_addr *hash_next;
    struct na_plugin_class *na_class;
    _Atomic uint32_t refs;
    _Atomic int32_t failure;        /* 0, or the status that its operations end with */
    struct sm_segment_header *base; /* mapping of the base of its segment */
    uint64_t base_size;
    uint64_t incarnation;
    uint64_t pid_namespace;
    uint64_t cookie;
    uint64_t cookie_address;
    dev_t device;
    ino_t inode;
    uint32_t pid;
    uint32_t max_contexts;
    uint32_t max_unexpected;
    uint32_t max_expected;
    bool fence;
    bool same_pid_namespace;
    bool removed;
    _Atomic uint32_t rma; /* enum sm_rma_mode */
    uint64_t watch_round;
    struct sm_conn *_Atomic *conns; /* one for each of its contexts, made at first use */
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

/* What this class sends to one context of one peer: a ring in our segment. */
struct sm_conn {
    /* Read by every sender */
    _Alignas(SM_CACHE_LINE) struct sm_ring_slot *slots;
    uint8_t *data;
    struct sm_peer_slot *peer_slot;       /* in the peer's segment */
    struct sm_context_area *context_area; /* likewise */
    uint32_t data_lines;                  /* a power of two */
    bool fence;
    _Atomic uint32_t gate;  /* not 0: take the slow path (not connected, failed, or a queue) */
    _Atomic uint32_t woken; /* flags of the receiver's sleep that was ended from here */

    /* Written by every sender */
    _Alignas(SM_CACHE_LINE) _Atomic uint64_t tail; /* slot << 32 | data line */
    _Atomic uint64_t head;                         /* the receiver's, as last seen */

    _Alignas(SM_CACHE_LINE) struct sm_lock lock; /* guards what follows */
    struct sm_link pending;                      /* sends that wait for space */
    enum sm_conn_state state;
    uint64_t connect_since;                      /* the peer's table is full since then */
    uint64_t connect_next;                       /* when to try again */
    bool in_backlog;                             /* guarded by the class's backlog_lock */
    struct sm_link backlog_link;                 /* likewise */
    _Atomic int32_t broken;                      /* 0, or the status that sends end with */
    _Atomic uint32_t copy_active;                /* copy RMA: operations in flight */
    struct sm_peer_slot *_Atomic connected_slot; /* for those who do not hold the lock */
    struct na_plugin_addr *peer;
    uint32_t remote_id;
    uint32_t peer_slot_index;
    uint64_t region; /* offset of the ring in our segment */
    uint64_t region_size;
};

/* What one sender sends to one of our contexts: a ring in the sender's segment. */
struct sm_in_ring {
    const struct sm_ring_slot *slots;
    const uint8_t *data;
    struct sm_peer_slot *peer_slot; /* in our segment */
    struct na_plugin_addr *peer;
    uint32_t head_slot;
    uint32_t head_data;
    uint32_t published_slot;
    uint32_t published_data;
    uint32_t data_lines;
    uint32_t index;        /* of the peer slot */
    uint32_t hot_index;    /* in the list of polled rings; UINT32_MAX when parked */
    uint32_t received;     /* since the last housekeeping */
    uint32_t idle_rounds;  /* housekeepings without a message */
    uint32_t job_count;    /* copy RMA requests of this peer in work */
    uint32_t references;   /* to the peer that are taken and not given out */
    bool stalled;          /* its next message finds no room */
    bool closing;          /* nothing more will be written */
    bool refused;          /* nothing more is read */
    uint64_t failed_token; /* copy RMA: the last put that was refused */
};

/* Copy RMA: a request of a peer that is in work, or our answer to one. */
struct sm_job {
    struct sm_link link;
    struct sm_in_ring *ring;
    struct sm_conn *conn;
    uint64_t token;
    uint64_t handle;
    uint64_t offset; /* in the handle */
    uint64_t length;
    uint64_t used;
    int32_t status;
    uint8_t reply_id; /* context of the peer */
    bool is_answer;
};

#define SM_REFERENCES 4096u

/*
 * A reference to the sender of a message. They are taken in bulk: that saves a locked
 * instruction.
 */
static inline struct na_plugin_addr *sm_in_ring_source(struct sm_in_ring *ring)
{
    if (sm_unlikely(ring->references == 0)) {
        atomic_fetch_add_explicit(&ring->peer->refs, SM_REFERENCES, memory_order_relaxed);
        ring->references = SM_REFERENCES;
    }
    ring->references--;
    return ring->peer;
}

/* A segment of ours: the file and what is in it. */
struct sm_region {
    struct sm_region *next;
    uint64_t offset;
    uint64_t size;
};

struct sm_segment {
    int fd;
    char path[SM_PATH_MAX];
    struct sm_segment_header *header;
    uint64_t base_size;
    uint64_t file_size;
    struct sm_region *free_regions;
    dev_t device;
    ino_t inode;
};

/* A registered or deserialized memory handle. */
struct na_plugin_mem {
    struct na_plugin_mem *next_free;
    uint64_t incarnation; /* of its owner */
    uint64_t key;         /* 0 while it is not registered */
    uint64_t length;
    uint32_t flags;
    uint32_t segment_count;
    bool is_remote;
    struct na_plugin_segment first; /* the segments themselves when there is one */
    struct na_plugin_segment *segments;
};

struct sm_registry {
    struct sm_lock lock;
    struct na_plugin_mem **entries;
    uint64_t *keys;
    uint32_t *free_indices;
    uint32_t capacity;
    uint32_t free_count;
    uint64_t salt;
    struct na_plugin_mem *free_mems;
};

struct sm_early {
    struct sm_early *next;
    struct na_plugin_addr *source; /* one reference */
    uint32_t tag;
    uint32_t size;
    uint32_t capacity;
    uint8_t payload[];
};

struct sm_expected_table {
    struct sm_link *buckets;
    uint32_t mask;
    uint32_t count;
};

struct sm_copy_slot {
    struct sm_op *op; /* NULL: cancelled, the rest of its answer is dropped */
    struct sm_conn *conn;
    struct na_plugin_addr *peer; /* one reference */
    uint64_t token;              /* 0: free */
    uint64_t length;
    uint64_t received; /* of a get */
    bool is_get;
};

struct na_plugin_context {
    /* Polling: guarded by poll_lock */
    struct na_plugin_class *na_class;
    struct sm_context_area *area; /* in our segment */
    struct sm_lock poll_lock;
    uint32_t id;
    uint32_t hot_count;
    uint32_t polls;
    struct sm_in_ring **hot; /* polled rings, most recently used first */
    uint32_t hot_capacity;
    uint32_t in_count;
    uint32_t sweep_next;
    struct sm_in_ring **in[SM_PEER_SLOTS / 64]; /* all rings by peer slot */
    struct sm_link jobs;                        /* copy RMA requests of peers */
    struct sm_job *free_jobs;
    uint64_t rma_moved; /* messages of copy RMA sent */
    uint64_t watch_last;
    uint64_t sweep_last;
    uint64_t accept_later; /* doorbell words with senders that could not be mapped for now */
    uint32_t sleep_number; /* counts in steps of SM_CONTEXT_SLEEP */
    struct na_plugin_addr **watched; /* scratch of sm_watch */
    uint32_t watched_count;
    uint32_t watched_capacity;

    /* Set by any thread */
    _Alignas(SM_CACHE_LINE) _Atomic uint32_t armed; /* asleep was announced */
    _Atomic uint32_t timer_armed;                   /* peers are being watched */
    _Atomic uint32_t native_count;                  /* RMA operations of ours in work */
    _Atomic uint32_t copy_count;
    _Atomic uint32_t job_count;
    _Atomic uint32_t rings_stalled;
    _Atomic uint32_t watch_now; /* a peer is suspected to be dead */
    _Atomic uint32_t expected_count;
    _Atomic uint32_t send_count; /* sends that wait for space */
    _Atomic uint32_t sleepers;   /* threads in poll_wait */
    _Atomic uint32_t woken;
    _Atomic uint32_t unstall; /* a receive was posted while rings are stalled */

    /* Matching: guarded by match_lock */
    _Alignas(SM_CACHE_LINE) struct sm_lock match_lock;
    atomic_bool active; /* between context_create and context_stop */
    struct sm_link receives;
    struct sm_expected_table expected;
    struct sm_early *early_first;
    struct sm_early *early_last;
    struct sm_early *early_free;
    uint32_t early_count;
    uint32_t early_bytes;
    uint64_t dropped; /* expected messages that found no receive */

    /* Our RMA operations: guarded by rma_lock */
    _Alignas(SM_CACHE_LINE) struct sm_lock rma_lock;
    struct sm_link native;
    struct sm_op *native_current; /* is being copied outside of the lock */
    bool native_cancel;           /* and was cancelled meanwhile */
    struct sm_link copies;
    struct sm_copy_slot *copy_slots;
    uint32_t copy_next;
    uint64_t copy_generation;

    /* Waiting */
    int wake_fd;
    int timer_fd;
    int epoll_fd;
    char wake_path[SM_PATH_MAX];
};

struct na_plugin_class {
    struct sm_segment segment;
    struct na_plugin_class *next; /* of all classes of the process */
    uint32_t max_contexts;
    uint32_t max_message;
    uint32_t ring_data;
    uint32_t pid;
    uint64_t pid_namespace;
    uint64_t incarnation;
    uint64_t cookie; /* read by peers across address spaces */
    uint64_t capabilities;
    bool busy;
    bool no_retry;
    bool single_context; /* one thread at a time uses a context */
    bool force_copy;
    bool fence;      /* this process cannot take part in membarrier */
    bool membarrier; /* sleeping and parking may rely on membarrier */
    bool forked;     /* we are in a child that did not make this class */
    int send_fd;
    int probe_fd;
    char name[SM_NAME_MAX + 1];
    struct na_plugin_addr *self;
    struct na_plugin_context *contexts; /* max_contexts of them */

    pthread_mutex_t lock;         /* the table of peers */
    pthread_mutex_t connect_lock; /* the segment's regions, claiming peer slots */
    pthread_mutex_t watch_lock;   /* watch_round */
    uint64_t watch_round;
    struct na_plugin_addr *peers[SM_PEER_BUCKETS];
    uint32_t peer_count;
    uint32_t sweep_next;

    struct sm_lock backlog_lock;
    struct sm_link backlog; /* connections with something that waits for space */
    _Atomic uint32_t backlog_count;

    struct sm_registry registry;
};

/* lists */
static inline void sm_list_init(struct sm_link *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool sm_list_empty(const struct sm_link *list)
{
    return list->next == list;
}

static inline void sm_list_append(struct sm_link *list, struct sm_link *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

static inline void sm_list_prepend(struct sm_link *list, struct sm_link *link)
{
    sm_list_append(list->next, link);
}

static inline void sm_list_remove(struct sm_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = link;
    link->prev = link;
}

static inline bool sm_list_contains(const struct sm_link *list, const void *element)
{
    for (const struct sm_link *link = list->next; link != list; link = link->next)
        if (link == element)
            return true;
    return false;
}

/* endpoint.c */
int32_t sm_class_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                            struct na_plugin_class **class_p, struct na_plugin_class_info *info);
int32_t sm_class_finalize(struct na_plugin_class *na_class);
void sm_class_prepare_fork(void);
uint64_t sm_pid_namespace(void);

/* context.c */
int32_t sm_context_setup(struct na_plugin_class *na_class, uint32_t id);
void sm_context_teardown(struct na_plugin_context *context);
int32_t sm_context_create(struct na_plugin_class *na_class, struct na_host_context *host_context,
                          uint32_t id, struct na_plugin_context **context_p);
int32_t sm_context_stop(struct na_plugin_context *context);
int32_t sm_context_destroy(struct na_plugin_context *context);
int32_t sm_cancel(struct na_plugin_context *context, void *op);

/* segment.c */
bool sm_name_check(const char *name, size_t length, const char **reason_p);
void sm_user_set(void);
uint32_t sm_user(void);
void sm_segment_path(char path[SM_PATH_MAX], const char *name);
void sm_wake_path(char path[SM_PATH_MAX], const char *name, uint32_t id);
int32_t sm_segment_create(struct na_plugin_class *na_class, const char *name);
void sm_segment_publish(struct na_plugin_class *na_class);
void sm_segment_destroy(struct na_plugin_class *na_class);
int32_t sm_segment_open(const char *name, int flags, int *fd_p, struct sm_segment_header *copy,
                        uint64_t *file_size_p, dev_t *device_p, ino_t *inode_p);
int32_t sm_reserve(int fd, uint64_t offset, uint64_t size);
int32_t sm_region_take(struct sm_segment *segment, uint64_t size, uint64_t *offset_p);
void sm_region_give(struct sm_segment *segment, uint64_t offset, uint64_t size);

/* reap.c */
bool sm_reap_name(const char *name);
void sm_reap_all(void);

/* address.c */
int32_t sm_addr_lookup(struct na_plugin_class *na_class, const char *name,
                       struct na_plugin_addr **addr_p);
void sm_addr_free(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
int32_t sm_addr_dup(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                    struct na_plugin_addr **addr_p);
int32_t sm_addr_self(struct na_plugin_class *na_class, struct na_plugin_addr **addr_p);
uint32_t sm_addr_is_self(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
uint32_t sm_addr_compare(struct na_plugin_class *na_class, struct na_plugin_addr *addr1,
                         struct na_plugin_addr *addr2);
int32_t sm_addr_to_string(struct na_plugin_class *na_class, struct na_plugin_addr *addr, char *buf,
                          uint64_t *size);
int32_t sm_addr_set_remove(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
extern const struct na_plugin_addr_serialize sm_addr_serialize_extension;

/* peer.c */
int32_t sm_peer_get(struct na_plugin_class *na_class, const char *name, uint64_t incarnation,
                    bool check_alive, struct na_plugin_addr **peer_p);
void sm_peer_release(struct na_plugin_addr *peer);
void sm_peer_sweep(struct na_plugin_class *na_class);
void sm_peer_destroy_all(struct na_plugin_class *na_class);

static inline void sm_peer_hold(struct na_plugin_addr *peer)
{
    atomic_fetch_add_explicit(&peer->refs, 1, memory_order_relaxed);
}

static inline int32_t sm_peer_failure(struct na_plugin_addr *peer)
{
    return atomic_load_explicit(&peer->failure, memory_order_acquire);
}

/* liveness.c */
bool sm_peer_alive(struct na_plugin_addr *peer);
void sm_peer_fail(struct na_plugin_addr *peer, int32_t status);
void sm_peer_suspect(struct na_plugin_addr *peer);
uint32_t sm_watch(struct na_plugin_context *context);
bool sm_watch_wanted(struct na_plugin_context *context);

/* connect.c */
int32_t sm_conn_get(struct na_plugin_addr *peer, uint32_t remote_id, struct sm_conn **conn_p);
int32_t sm_conn_establish(struct sm_conn *conn);
void sm_conn_break(struct sm_conn *conn, int32_t status);
void sm_conn_destroy(struct sm_conn *conn);
void sm_conn_notify_slow(struct sm_conn *conn, uint32_t status);
bool sm_wake_peer(struct na_plugin_addr *peer, uint32_t id);
struct sockaddr_un;
int sm_wake_send(const struct na_plugin_class *na_class, const struct sockaddr_un *address);

/* accept.c */
void sm_doorbells_answer(struct na_plugin_context *context);
void sm_in_ring_heat(struct na_plugin_context *context, struct sm_in_ring *ring);
void sm_in_ring_cool(struct na_plugin_context *context, struct sm_in_ring *ring);
void sm_in_ring_release(struct na_plugin_context *context, struct sm_in_ring *ring);
void sm_in_ring_refuse(struct na_plugin_context *context, struct sm_in_ring *ring,
                       const char *reason);
void sm_in_ring_sweep(struct na_plugin_context *context, uint32_t count);
uint32_t sm_in_ring_settle(struct na_plugin_context *context);
void sm_in_ring_release_all(struct na_plugin_context *context);

/* send.c */
int32_t sm_send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                           uint64_t size, void *data, struct na_plugin_addr *dest, uint32_t dest_id,
                           uint32_t tag);
int32_t sm_send_expected(struct na_plugin_context *context, void *op, const void *buf,
                         uint64_t size, void *data, struct na_plugin_addr *dest, uint32_t dest_id,
                         uint32_t tag);
bool sm_send_cancel(struct na_plugin_context *context, const struct sm_op *op);
int32_t sm_conn_prepare(struct sm_conn *conn);
void sm_conn_announce(struct sm_conn *conn, struct na_plugin_context *context);
void sm_backlog_add(struct sm_conn *conn);
uint32_t sm_backlog_flush(struct na_plugin_class *na_class, struct na_plugin_context *context);
bool sm_backlog_announce(struct na_plugin_class *na_class, struct na_plugin_context *context);

/* receive.c */
int32_t sm_recv_unexpected(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                           void *data);
extern const struct na_plugin_multi_recv sm_multi_recv_extension;
bool sm_receive_cancel(struct na_plugin_context *context, struct sm_op *op);
void sm_receive_cancel_all(struct na_plugin_context *context);
void sm_early_drop_all(struct na_plugin_context *context);

/* expected.c */
int32_t sm_recv_expected(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                         void *data, struct na_plugin_addr *source, uint32_t source_id,
                         uint32_t tag);
int32_t sm_expected_setup(struct sm_expected_table *table);
bool sm_expected_take(struct na_plugin_context *context, struct sm_op *op);
void sm_expected_cancel_all(struct na_plugin_context *context);
uint32_t sm_expected_fail_peers(struct na_plugin_context *context);

/* drain.c */
static inline bool sm_in_ring_ready(const struct sm_in_ring *ring)
{
    const struct sm_ring_slot *slot = &ring->slots[ring->head_slot % SM_RING_SLOTS];

    return atomic_load_explicit(&slot->sequence, memory_order_acquire) == ring->head_slot + 1;
}

uint32_t sm_ring_drain(struct na_plugin_context *context, struct sm_in_ring *ring);
void sm_ring_publish_head(struct sm_in_ring *ring);

/* A message that lies in a ring. `payload2` is where it goes on when it wraps round. */
struct sm_message {
    const uint8_t *payload;
    const uint8_t *payload2;
    uint32_t size1;
    uint32_t size;
    uint32_t tag;
    uint32_t flags;
    uint8_t kind;
    uint8_t source_id;
};

static inline void sm_message_copy(void *to, const struct sm_message *message, uint32_t offset,
                                   uint32_t size)
{
    if (sm_likely(offset + size <= message->size1)) {
        __builtin_memcpy(to, message->payload + offset, size);
    } else if (offset >= message->size1) {
        __builtin_memcpy(to, message->payload2 + (offset - message->size1), size);
    } else {
        uint32_t first = message->size1 - offset;

        __builtin_memcpy(to, message->payload + offset, first);
        __builtin_memcpy((uint8_t *) to + first, message->payload2, size - first);
    }
}

/* What became of a message: taken, or no room for it now, or it is not of this protocol. */
enum sm_verdict {
    SM_TAKEN,
    SM_TAKEN_COMPLETED,
    SM_NO_ROOM,
    SM_BAD
};
enum sm_verdict sm_receive_unexpected(struct na_plugin_context *context, struct sm_in_ring *ring,
                                      const struct sm_message *message);
enum sm_verdict sm_receive_expected(struct na_plugin_context *context, struct sm_in_ring *ring,
                                    const struct sm_message *message);

/* memory.c */
int32_t sm_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length, uint32_t flags,
                      struct na_plugin_mem **mem_p);
void sm_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
int32_t sm_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                        uint32_t mem_type, uint64_t device);
int32_t sm_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
uint64_t sm_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
int32_t sm_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem, void *buf,
                         uint64_t size);
int32_t sm_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                           struct na_plugin_mem **mem_p);
extern const struct na_plugin_mem_segments sm_mem_segments_extension;
void sm_registry_destroy(struct sm_registry *registry);
struct na_plugin_mem *sm_registry_find(struct sm_registry *registry, uint64_t key);

/* A place in the segments of a handle. */
struct sm_cursor {
    const struct na_plugin_segment *segments;
    uint32_t index;
    uint64_t offset; /* in the segment */
};
struct iovec;
void sm_cursor_seek(struct sm_cursor *cursor, const struct na_plugin_mem *mem, uint64_t offset);
void *sm_cursor_span(struct sm_cursor *cursor, uint64_t wanted, uint64_t *size_p);
uint32_t sm_cursor_iovecs(struct sm_cursor *cursor, uint64_t length, struct iovec *vectors,
                          uint32_t count, uint64_t *length_p);

/* rma.c */
int32_t sm_put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
               uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
               uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);
int32_t sm_get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
               uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
               uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);
uint32_t sm_rma_progress(struct na_plugin_context *context);
bool sm_rma_cancel(struct na_plugin_context *context, struct sm_op *op);
void sm_rma_cancel_all(struct na_plugin_context *context);
uint32_t sm_rma_fail_peers(struct na_plugin_context *context);
void sm_rma_announce(struct na_plugin_context *context);

/* rma_native.c */
bool sm_native_available(struct na_plugin_addr *peer);
bool sm_native_step(struct sm_op *op, int32_t *status_p);

/* rma_copy.c: the side that asks. Callers hold rma_lock. */
int32_t sm_copy_start(struct na_plugin_context *context, struct sm_op *op);
uint32_t sm_copy_progress(struct na_plugin_context *context);
void sm_copy_forget(struct na_plugin_context *context, struct sm_op *op);
void sm_copy_bury(struct na_plugin_context *context);
enum sm_verdict sm_copy_receive_piece(struct na_plugin_context *context, struct sm_in_ring *ring,
                                      const struct sm_message *message);
enum sm_verdict sm_copy_receive_done(struct na_plugin_context *context, struct sm_in_ring *ring,
                                     const struct sm_message *message);

/* rma_target.c: the side that is asked. Callers hold poll_lock. */
enum sm_verdict sm_target_receive(struct na_plugin_context *context, struct sm_in_ring *ring,
                                  const struct sm_message *message);
void sm_target_progress(struct na_plugin_context *context);
void sm_target_drop_failed(struct na_plugin_context *context);
void sm_target_drop_ring(struct na_plugin_context *context, const struct sm_in_ring *ring);
void sm_target_drop_all(struct na_plugin_context *context);

/* poll.c */
int32_t sm_poll(struct na_plugin_context *context, uint32_t *count);
bool sm_poll_peek(struct na_plugin_context *context);

/* wait.c */
int32_t sm_wait_setup(struct na_plugin_context *context);
void sm_wait_teardown(struct na_plugin_context *context);
void sm_wait_disarm(struct na_plugin_context *context);
int32_t sm_poll_wait(struct na_plugin_context *context, uint32_t timeout_ms, uint32_t *count);
int32_t sm_poll_get_fd(struct na_plugin_context *context);
uint32_t sm_poll_try_wait(struct na_plugin_context *context);
void sm_wake(struct na_plugin_context *context);
void sm_context_kick(struct na_plugin_context *context);
void sm_context_signal(struct na_plugin_context *context);
bool sm_membarrier_register(void);
void sm_barrier(struct na_plugin_class *na_class);

/* Something now depends on a peer: a sleeper that watches nobody must begin to. */
static inline void sm_context_watch(struct na_plugin_context *context)
{
    if (sm_unlikely(atomic_load_explicit(&context->armed, memory_order_relaxed) != 0 &&
                    atomic_load_explicit(&context->timer_armed, memory_order_relaxed) == 0))
        sm_context_kick(context);
}

#endif /* SM_H */
