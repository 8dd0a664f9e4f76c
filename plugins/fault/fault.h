/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plugin that wraps another one and disturbs it: messages get lost, late or out of order, cancel
 * is refused for a while, the endpoint dies. docs/transports/fault.md says what each fault means.
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

/* What a class may have: of the wrapped one's no more. */
#define FAULT_CAPABILITIES                                                             \
    (NA_PLUGIN_CAP_RMA | NA_PLUGIN_CAP_RMA_NATIVE | NA_PLUGIN_CAP_WAIT_FD |            \
     NA_PLUGIN_CAP_CANCEL_SEND | NA_PLUGIN_CAP_PEER_DEATH | NA_PLUGIN_CAP_DEVICE_MEM | \
     NA_PLUGIN_CAP_FORWARD_PROG)

/* Most segments of a memory handle that are passed on; each class says how many it takes. */
#define FAULT_SEGMENTS_MAX 1024u

/* wrap.c */
extern const struct na_plugin_wrap *fault_wrap;
/* Cuts the wrapped plugin's options off an address, in place. Says what is wrong with them. */
int32_t fault_split_options(const struct na_plugin *inner, char *address, const char **options_p);

#define FAULT_LOG(level, ...) KIT_LOG(level, FAULT_PLUGIN_NAME, __VA_ARGS__)
#define FAULT_ERROR(...)      FAULT_LOG(NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define FAULT_INFO(...)       FAULT_LOG(NA_PLUGIN_LOG_INFO, __VA_ARGS__)

/* What is drawn is a function of the seed, the context, what is counted and its number. */
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
    FAULT_FAILED, /* after the death */
    FAULT_COUNTERS
};

/* Operations that wait, see hold.c. */
struct fault_paths {
    struct kit_link heads; /* by the time they are due; under the class's order */
    uint64_t due_ns;       /* of the first of them; under the class's state */
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
    uint64_t max_segments;                          /* of this class; 1 without the extension */
    struct fault_options options;
    bool holds;    /* operations may be held back */
    bool observes; /* anything at all may happen; otherwise all calls go straight through */
    bool sleeps;   /* not told to be busy for ever */

    /*
     * Messages keep their order across contexts, and whoever polls hands over what is due, so that
     * none waits for a context that nobody polls. Only where one thread may call a context each has
     * paths of its own.
     */
    bool single_context;
    struct fault_paths paths;

    atomic_uint_fast64_t posted; /* operations that go to a peer */
    atomic_bool dying;           /* contexts close when they notice */
    atomic_uint_fast64_t counters[FAULT_COUNTERS];

    /*
     * Two locks, taken in this order. `order` guards paths, and may be held while the wrapped
     * plugin compares addresses. `state` guards the states of operations; it is taken when the
     * wrapped plugin reports, under whatever locks that holds, and nothing is called with it.
     */
    pthread_mutex_t order;
    pthread_mutex_t state;
    struct kit_link contexts; /* under both: either is enough to read */
};

struct fault_context {
    struct kit_link link; /* in the class's list */
    struct fault_class *fault_class;
    struct na_plugin_context *inner;
    uint32_t id;
    atomic_uint_fast64_t numbers[FAULT_STREAMS];
    int epoll_fd; /* the wrapped plugin's descriptor and the timer; -1: none */
    int inner_fd;
    int timer_fd;

    /* Held for reading around calls of the wrapped context, when that may be closed under them. */
    pthread_rwlock_t gate;
    atomic_bool gone; /* the wrapped context is closed */

    struct fault_paths *paths; /* the class's, or our own */
    struct fault_paths own_paths;
    atomic_uint handing_over; /* operations of ours, by whatever thread */

    /* Under the class's state. */
    uint64_t armed_ns;         /* when the timer goes off, UINT64_MAX for never */
    struct kit_link cancels;   /* refused, in the order in which they are due */
    struct kit_link unmatched; /* receives of a dead endpoint, which nothing arrives for */
    bool closing;              /* the endpoint died */
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
    FAULT_HELD,  /* in a path */
    FAULT_INNER, /* with the wrapped plugin */
    FAULT_UNMATCHED
};

/* Everything that a post is called with. */
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

/* What the wrapped plugin reported. */
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

    /* In a path, under the class's order. */
    struct kit_link path_link;  /* of a head: in the paths */
    struct fault_op *path_next; /* waits until this one was handed over */
    uint64_t due_ns;
    uint32_t passes; /* operations that have to pass before it is due, if it is reordered */
    bool is_head;
    bool handed_over; /* at this moment */
    bool ordered;

    /* Under the class's state. */
    enum fault_state state;
    uint32_t
        pins;  /* calls of the wrapped plugin about it that must return before it is completed */
    bool done; /* reported while it was pinned */
    bool cancel_wanted;
    struct fault_report report;
    struct kit_link state_link; /* in cancels or unmatched */
    bool cancel_refused;        /* in cancels */
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

/* What a stream's next number is. */
static inline uint64_t fault_context_number(struct fault_context *context, enum fault_stream stream)
{
    return atomic_fetch_add_explicit(&context->numbers[stream], 1, memory_order_relaxed);
}

/* draw.c: 64 random bits, and whether something of a probability happens. */
uint64_t fault_draw(const struct fault_context *context, enum fault_stream stream, uint64_t number,
                    enum fault_draw draw);
bool fault_happens(const struct fault_context *context, enum fault_stream stream, uint64_t number,
                   enum fault_draw draw, uint64_t probability);

/* address.c, memory.c: straight to the wrapped plugin. */
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

/* call.c: hands an operation to the wrapped plugin, or cancels it there. The context is entered, or
 * cannot close. `is_trusted`: the caller is bound by na_plugin.cancel_trusted. */
int32_t fault_call(const struct fault_op *op);
int32_t fault_call_cancel(const struct fault_context *context, const struct fault_op *op,
                          bool is_trusted);

/* operation.c */
int32_t fault_op_initialize(struct na_plugin_class *na_class, void *op);
void fault_op_finalize(struct na_plugin_class *na_class, void *op);

/* Completes an operation that the wrapped plugin does not have, and that is in no list. */
void fault_op_complete(struct fault_op *op, int32_t status);

/* An operation that is pinned is not completed, and so not used again, until it is unpinned. */
void fault_op_unpin(struct fault_op *op);

/* The end of an operation that is posted to a dead endpoint. Always NA_PLUGIN_SUCCESS. */
int32_t fault_op_refuse(struct fault_op *op);

/* cancel.c */
int32_t fault_cancel(struct na_plugin_context *context, void *op);
int32_t fault_cancel_trusted(struct na_plugin_context *context, void *op);
/* Cancels it, wherever it is; what is not outstanding is left alone. `is_trusted` as above. */
void fault_op_cancel(struct fault_op *op, bool is_trusted);
void fault_cancel_due(struct fault_context *context);

/* hold.c: operations that wait in paths. A path holds messages to one context of one peer in
 * their order, or one operation that nothing waits for. */

/* True when the operation was put into a path: it is to be held, or others before it are. */
bool fault_hold(struct fault_op *op, bool held, uint64_t due_ns, uint32_t passes, bool ordered);

/* One operation was handed over: those that are reordered may be due now. */
void fault_hold_passed(struct fault_class *fault_class);

/* Hands over what is due in the context's paths. */
void fault_hold_release(struct fault_context *context);

void fault_paths_init(struct fault_paths *paths);

/* Takes an operation out of its path; false when it is in none, or handed over just now. */
bool fault_hold_remove(struct fault_op *op);

/* Takes everything of a context out of the paths and completes it; nothing of it is being handed
 * over afterwards. */
void fault_hold_drain(struct fault_context *context, int32_t status);

/* poll.c */
int32_t fault_poll(struct na_plugin_context *context, uint32_t *count);
int32_t fault_poll_get_fd(struct na_plugin_context *context);
uint32_t fault_poll_try_wait(struct na_plugin_context *context);

/* timer.c */
/* Sets the timer to what is due first. The class's state is locked. */
void fault_timer_update(struct fault_context *context);
bool fault_timer_is_due(struct fault_context *context);
bool fault_timer_open(struct fault_context *context);
void fault_timer_close(struct fault_context *context);
/* The wrapped context's descriptor is going to be closed. */
void fault_timer_forget_inner(struct fault_context *context);

/* death.c */
/* Counts an operation that goes to a peer; false when the endpoint is dead. */
bool fault_death_count(struct fault_class *fault_class);
/* Closes the wrapped context when the endpoint is dead and nobody is in it. */
void fault_death_close(struct fault_context *context);

static inline void fault_count(struct fault_class *fault_class, enum fault_counter counter)
{
    atomic_fetch_add_explicit(&fault_class->counters[counter], 1, memory_order_relaxed);
}

#endif /* FAULT_H */
