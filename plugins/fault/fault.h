/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plugin that wraps another one and injects faults: messages are dropped, delayed or reordered,
 * cancel is refused for a while, the endpoint dies. docs/transports/fault.md describes the faults.
 */

#ifndef FAULT_H
#define FAULT_H

#include "kit_base.h"
#include "na_plugin.h"
#include "na_plugin_addr_serialize.h"
#include "na_plugin_counters.h"
#include "na_plugin_mem_segments.h"
#include "na_plugin_multi_recv.h"
#include "na_plugin_peer_events.h"
#include "na_plugin_wrap.h"
#include "options.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define FAULT_PLUGIN_NAME "fault"

/* The capabilities that are passed on if the wrapped class has them. */
#define FAULT_CAPABILITIES                                                             \
    (NA_PLUGIN_CAP_RMA | NA_PLUGIN_CAP_RMA_NATIVE | NA_PLUGIN_CAP_WAIT_FD |            \
     NA_PLUGIN_CAP_CANCEL_SEND | NA_PLUGIN_CAP_PEER_DEATH | NA_PLUGIN_CAP_DEVICE_MEM | \
     NA_PLUGIN_CAP_FORWARD_PROG)

/* Most segments of a memory handle. The limit of a class is that of the wrapped one, if lower. */
#define FAULT_SEGMENTS_MAX 1024u

/* wrap.c */
extern const struct na_plugin_wrap *fault_wrap;
/* Splits the wrapped plugin's options off an address, in place. Logs an error in them. */
int32_t fault_split_options(const struct na_plugin *inner, char *address, const char **options_p);

#define FAULT_LOG(level, ...) KIT_LOG(level, FAULT_PLUGIN_NAME, __VA_ARGS__)
#define FAULT_ERROR(...)      FAULT_LOG(NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define FAULT_INFO(...)       FAULT_LOG(NA_PLUGIN_LOG_INFO, __VA_ARGS__)

/* Each kind of operation of a context has its own count, so its own sequence of random numbers. */
enum fault_stream {
    FAULT_STREAM_MESSAGES,
    FAULT_STREAM_RMA,
    FAULT_STREAM_CANCELS,
    FAULT_STREAMS
};

enum fault_draw {
    FAULT_DRAW_DROP,
    FAULT_DRAW_DELAY,
    FAULT_DRAW_REORDER,
    FAULT_DRAW_PASSES,
    FAULT_DRAW_CANCEL
};

enum fault_counter {
    FAULT_DROPPED,
    FAULT_DELAYED,
    FAULT_REORDERED,
    FAULT_CANCELS_REFUSED,
    FAULT_FAILED, /* after the endpoint's death */
    FAULT_COUNTERS
};

/* Deferred operations, see defer.c. */
struct fault_paths {
    struct kit_link heads; /* ordered by due_ns; guarded by the class's `order` */
    uint64_t due_ns;       /* of the first head; guarded by the class's `state` */
};

/* An open endpoint. */
struct fault_class {
    const struct na_plugin *inner;
    struct na_plugin_class *inner_class;
    struct na_plugin_multi_recv multi_recv;         /* zeroed when the wrapped plugin has none */
    struct na_plugin_addr_serialize addr_serialize; /* likewise */
    struct na_plugin_mem_segments mem_segments;     /* likewise */
    struct na_plugin_counters inner_counters;       /* likewise */
    struct na_plugin_peer_events peer_events;       /* likewise */
    uint64_t max_segments;                          /* 1 without the extension */
    struct fault_options options;
    bool may_defer;  /* a fault that defers operations is enabled */
    bool has_faults; /* any fault is enabled; if not, all calls are only passed on */
    bool may_sleep;  /* the program did not ask for busy progress */

    /*
     * Contexts share the paths, so that messages to a peer keep their order across contexts, and a
     * poll of any context posts due operations. If only one thread may call a context, each context
     * has its own paths.
     */
    bool single_context;
    struct fault_paths paths;

    atomic_uint_fast64_t posted; /* operations with a peer, counted for die_after */
    atomic_bool dying;           /* each context closes in its next poll */
    atomic_uint_fast64_t counters[FAULT_COUNTERS];

    /*
     * Two locks, taken in this order. `order` guards the paths, and may be held while the wrapped
     * plugin compares addresses. `state` guards the states of operations. It is taken when the
     * wrapped plugin reports, perhaps under locks of that one, so nothing is called with it held.
     */
    pthread_mutex_t order;
    pthread_mutex_t state;
    struct kit_link contexts; /* changed under both locks, read under either */
};

struct fault_context {
    struct kit_link link; /* in the class's list */
    struct fault_class *fault_class;
    struct na_plugin_context *inner;
    uint32_t id;
    atomic_uint_fast64_t numbers[FAULT_STREAMS];
    int epoll_fd; /* of inner_fd and timer_fd; -1: none */
    int inner_fd;
    int timer_fd;

    /* Locked for reading around calls of the wrapped context, if die_after may close it. */
    pthread_rwlock_t gate;
    atomic_bool gone; /* the wrapped context is closed */

    struct fault_paths *paths; /* the class's, or our own */
    struct fault_paths own_paths;
    atomic_uint posting_count; /* our operations that a thread is posting from a path */

    /* Guarded by the class's `state`. */
    uint64_t armed_ns;         /* when the timer expires; UINT64_MAX: never */
    struct kit_link cancels;   /* operations with a refused cancel, by due time */
    struct kit_link unmatched; /* receives that a dead endpoint never completes */
    bool closing;              /* the endpoint died: the wrapped context is being closed */
    bool stopped;
};

enum fault_kind {
    FAULT_SEND_UNEXPECTED,
    FAULT_SEND_EXPECTED,
    FAULT_PUT,
    FAULT_GET,
    FAULT_RECV_UNEXPECTED,
    FAULT_RECV_MULTI,
    FAULT_RECV_EXPECTED
};

enum fault_state {
    FAULT_IDLE,
    FAULT_DEFERRED, /* in a path */
    FAULT_INNER,    /* posted to the wrapped plugin */
    FAULT_UNMATCHED
};

/* The arguments of a post. */
struct fault_post {
    enum fault_kind kind;
    uint32_t peer_id;
    uint32_t tag;
    void *buf;
    uint64_t size;
    void *data;
    struct na_plugin_addr *peer;
    struct na_plugin_mem *local, *remote;
    uint64_t local_offset, remote_offset;
};

/* A completion reported by the wrapped plugin. */
struct fault_report {
    int32_t status;
    uint32_t tag;
    void *buf;
    uint64_t size;
    struct na_plugin_addr *source;
    bool is_receive; /* by op_complete_recv or op_complete_multi_recv */
};

/* The plugin's part of an operation. */
struct fault_op {
    struct fault_class *fault_class;
    void *inner; /* the wrapped plugin's operation */
    struct fault_context *context;
    struct fault_post post;

    /* While it is in a path; guarded by the class's `order`. */
    struct kit_link path_link;  /* of a head: in `heads` */
    struct fault_op *path_next; /* the next operation of the path */
    uint64_t due_ns;
    uint32_t passes; /* of a reordered one: operations to post before it, or 0 */
    bool is_head;
    bool is_posting; /* a thread is posting it */
    bool ordered;

    /* Guarded by the class's `state`. */
    enum fault_state state;
    uint32_t pins;    /* calls of the wrapped plugin that must return before it completes */
    bool is_reported; /* `report` is valid: it was reported while it was pinned */
    bool cancel_wanted;
    struct fault_report report;
    struct kit_link state_link; /* in cancels or unmatched */
    bool cancel_refused;        /* it is in cancels */
    uint64_t cancel_due_ns;
};

/* class.c */
int32_t fault_class_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                               struct na_plugin_class **class_p, struct na_plugin_class_info *info);
int32_t fault_class_finalize(struct na_plugin_class *na_class);
extern const struct na_plugin_counters fault_counters_extension;
extern const struct na_plugin_peer_events fault_peer_events_extension;
static inline struct fault_class *fault_class_get(struct na_plugin_class *na_class)
{
    return (struct fault_class *) (void *) na_class;
}

/* context.c */
int32_t fault_context_create(struct na_plugin_class *na_class, struct na_host_context *host_context,
                             uint32_t id, struct na_plugin_context **context_p);
int32_t fault_context_stop(struct na_plugin_context *context);
int32_t fault_context_destroy(struct na_plugin_context *context);
static inline struct fault_context *fault_context_get(struct na_plugin_context *context)
{
    return (struct fault_context *) (void *) context;
}

/* False when the wrapped context is closed; otherwise it stays open until fault_context_leave(). */
static inline bool fault_context_enter(struct fault_context *context)
{
    if (context->fault_class->options.die_after == 0)
        return true;
    (void) pthread_rwlock_rdlock(&context->gate);
    if (!atomic_load(&context->gone))
        return true;
    (void) pthread_rwlock_unlock(&context->gate);
    return false;
}

static inline void fault_context_leave(struct fault_context *context)
{
    if (context->fault_class->options.die_after != 0)
        (void) pthread_rwlock_unlock(&context->gate);
}

/* Returns the next number of a stream. */
static inline uint64_t fault_context_number(struct fault_context *context, enum fault_stream stream)
{
    return atomic_fetch_add_explicit(&context->numbers[stream], 1, memory_order_relaxed);
}

/* draw.c: 64 random bits; true with that probability. */
uint64_t fault_draw(const struct fault_context *context, enum fault_stream stream, uint64_t number,
                    enum fault_draw draw);
bool fault_happens(const struct fault_context *context, enum fault_stream stream, uint64_t number,
                   enum fault_draw draw, uint64_t probability);

/* address.c, memory.c: calls that are passed on to the wrapped plugin. */
int32_t fault_addr_lookup(struct na_plugin_class *na_class, const char *name,
                          struct na_plugin_addr **addr_p);
void fault_addr_free(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
int32_t fault_addr_dup(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                       struct na_plugin_addr **addr_p);
int32_t fault_addr_self(struct na_plugin_class *na_class, struct na_plugin_addr **addr_p);
uint32_t fault_addr_is_self(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
uint32_t fault_addr_compare(struct na_plugin_class *na_class, struct na_plugin_addr *addr1,
                            struct na_plugin_addr *addr2);
int32_t fault_addr_to_string(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                             char *buf, uint64_t *size);
uint64_t fault_addr_capabilities(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
int32_t fault_addr_set_remove(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
extern const struct na_plugin_addr_serialize fault_addr_serialize_extension;

void *fault_msg_buf_alloc(struct na_plugin_class *na_class, uint64_t size, uint32_t flags,
                          void **data_p);
void fault_msg_buf_free(struct na_plugin_class *na_class, void *buf, void *data);
int32_t fault_msg_init_unexpected(struct na_plugin_class *na_class, void *buf, uint64_t size);
int32_t fault_msg_init_expected(struct na_plugin_class *na_class, void *buf, uint64_t size);
int32_t fault_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                         uint32_t flags, struct na_plugin_mem **mem_p);
void fault_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
int32_t fault_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                           uint32_t mem_type, uint64_t device);
int32_t fault_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
uint64_t fault_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
int32_t fault_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem, void *buf,
                            uint64_t size);
int32_t fault_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                              struct na_plugin_mem **mem_p);

extern const struct na_plugin_mem_segments fault_mem_segments_extension;

/* post.c */
int32_t fault_send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                              uint64_t size, void *data, struct na_plugin_addr *dest,
                              uint32_t dest_id, uint32_t tag);
int32_t fault_send_expected(struct na_plugin_context *context, void *op, const void *buf,
                            uint64_t size, void *data, struct na_plugin_addr *dest,
                            uint32_t dest_id, uint32_t tag);
int32_t fault_put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                  uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                  uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);
int32_t fault_get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                  uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                  uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);
int32_t fault_recv_unexpected(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                              void *data);
int32_t fault_recv_expected(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                            void *data, struct na_plugin_addr *source, uint32_t source_id,
                            uint32_t tag);
extern const struct na_plugin_multi_recv fault_multi_recv_extension;

/* call.c: posts an operation to the wrapped plugin, or cancels it there. The caller has entered the
 * context. `is_trusted`: the caller keeps the promises of na_plugin.cancel_trusted. */
int32_t fault_call(const struct fault_op *op);
int32_t fault_call_cancel(const struct fault_context *context, const struct fault_op *op,
                          bool is_trusted);

/* operation.c */
int32_t fault_op_initialize(struct na_plugin_class *na_class, void *op);
void fault_op_finalize(struct na_plugin_class *na_class, void *op);

/* Completes an operation that is not posted to the wrapped plugin and is in no list. */
void fault_op_complete(struct fault_op *op, int32_t status);

/* A pinned operation does not complete, so it cannot be reused, until it is unpinned. */
void fault_op_unpin(struct fault_op *op);

/* Ends an operation that is posted to a dead endpoint. Always NA_PLUGIN_SUCCESS. */
int32_t fault_op_refuse(struct fault_op *op);

/* cancel.c */
int32_t fault_cancel(struct na_plugin_context *context, void *op);
int32_t fault_cancel_trusted(struct na_plugin_context *context, void *op);
/* Cancels an operation in any state; an idle one stays as it is. `is_trusted` as above. */
void fault_op_cancel(struct fault_op *op, bool is_trusted);
void fault_cancel_due(struct fault_context *context);

/* defer.c: deferred operations, in paths. A path is the messages to one context of one peer in
 * their order, or a single operation without an order. */

/* True if the operation was deferred: `deferred` is set, or earlier messages of its path are. */
bool fault_defer(struct fault_op *op, bool deferred, uint64_t due_ns, uint32_t passes,
                 bool ordered);

/* Called when an operation was posted: reordered ones may be due. */
void fault_defer_passed(struct fault_class *fault_class);

/* Posts the operations that are due in the context's paths. */
void fault_defer_release(struct fault_context *context);

void fault_paths_init(struct fault_paths *paths);

/* Takes an operation out of its path; false when it is in none, or being posted. */
bool fault_defer_remove(struct fault_op *op);

/* Completes all deferred operations of a context. Afterwards none is being posted. */
void fault_defer_drain(struct fault_context *context, int32_t status);

/* poll.c */
int32_t fault_poll(struct na_plugin_context *context, uint32_t *count);
int32_t fault_poll_get_fd(struct na_plugin_context *context);
uint32_t fault_poll_try_wait(struct na_plugin_context *context);

/* timer.c */
/* Sets the timer to the first due time. The class's `state` is held. */
void fault_timer_update(struct fault_context *context);
bool fault_timer_is_due(struct fault_context *context);
bool fault_timer_open(struct fault_context *context);
void fault_timer_close(struct fault_context *context);
/* Called before the wrapped context closes its descriptor. */
void fault_timer_forget_inner(struct fault_context *context);

/* death.c */
/* Counts an operation with a peer; false when the endpoint is dead. */
bool fault_death_count(struct fault_class *fault_class);
/* Closes the wrapped context if the endpoint is dead and no thread is in a call of it. */
void fault_death_close(struct fault_context *context);

static inline void fault_count(struct fault_class *fault_class, enum fault_counter counter)
{
    atomic_fetch_add_explicit(&fault_class->counters[counter], 1, memory_order_relaxed);
}

#endif /* FAULT_H */
