/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context as all layers above NA see it: the contexts of its transports, the queue of
 * completions, the sleeping threads, its timers and counters.
 */
#ifndef HG_ENGINE_CONTEXT_H
#define HG_ENGINE_CONTEXT_H

#include "engine/class.h"
#include "engine/fork.h"
#include "engine/timer.h"
#include "util/mpsc_queue.h"

struct hg_bulk_pool;

/* Bit fields of hg_context.waiters. */
#define HG_WAITER_PROGRESS      0x00000001u /* threads asleep in HG_Progress() */
#define HG_WAITER_PROGRESS_MASK 0x00007fffu
#define HG_WAITER_TRIGGER       0x00008000u /* threads asleep in HG_Trigger() */
#define HG_WAITER_TRIGGER_MASK  0x3fff8000u
#define HG_WAITER_ARMED         0x40000000u /* the program may wait on the descriptor */
#define HG_WAITERS_OF_PROGRESS  (HG_WAITER_PROGRESS_MASK | HG_WAITER_ARMED)

/* What a context waits for; each kind has its own polling time before sleep. */
enum hg_poll {
    HG_POLL_MESSAGE,  /* requests and responses */
    HG_POLL_TRANSFER, /* also the end of bulk transfers or of RPCs that expose memory */
    HG_POLL_MAX
};

struct hg_context {
    /* Constant after the context was created. */
    hg_class_t *hg_class;
    na_context_t *na_context[HG_PATH_MAX]; /* NULL: the path is closed */
    unsigned int forks;                    /* hg_forks of the process that created it */
    int epoll_fd;                          /* -1: no descriptor to wait on, or is_busy */
    int event_fd;
    uint8_t id;
    _Atomic int32_t refused_count; /* operations and flags that hg_upper.retry will try again */
    struct hg_timers timers;       /* its first member is read by each poll */
    void *data;
    void (*data_free)(void *);
    _Atomic(struct hg_bulk_pool *) bulk_pool; /* owned by the bulk layer; NULL: none yet */
    struct hg_context *next;                  /* in the class's list; guarded by its lock */

    /* Completions that wait for HG_Trigger(). */
    struct mpsc_queue queue;

    /* The sleeping threads, and whether one was woken since. */
    _Alignas(UTIL_CACHE_LINE) _Atomic uint32_t waiters;
    _Atomic bool is_signaled;
    _Atomic bool has_progressed; /* progress ran with completions queued; reset by a trigger */
    _Atomic uint32_t poll_ns[HG_POLL_MAX]; /* polling time before sleep */
    _Atomic uint64_t ready_ns; /* when HG_Event_ready() last returned false; 0: it did not */
    pthread_mutex_t trigger_lock;
    pthread_cond_t trigger_cond;

    /* Operations that are not handles: bulk transfers, lookups, draining forwards. */
    _Alignas(UTIL_CACHE_LINE) _Atomic int32_t op_count;
    _Atomic int32_t exposing_count; /* forwards that let their targets transfer bulk data */

    _Alignas(UTIL_CACHE_LINE) struct hg_counters counters;
};

/* As an id: take the lowest free one. */
#define HG_CONTEXT_ANY HG_CONTEXT_IDS

/* Reserve a context id in a class, and release it. Logs an error if the id is not available. */
bool hg_context_id_take(hg_class_t *hg_class, uint32_t *id_p);
void hg_context_id_give(hg_class_t *hg_class, uint32_t id);

/* Initialize zeroed memory, and undo that. */
void hg_context_init(hg_context_t *context, hg_class_t *hg_class, uint8_t id);
void hg_context_fini(hg_context_t *context);

/* Open the contexts of the transports and the descriptors to wait on, and close them. */
hg_return_t hg_context_open(hg_context_t *context);
void hg_context_close(hg_context_t *context);

/* Add a context to the list of its class. */
void hg_context_link(hg_context_t *context);

/*
 * Count operations that still have to push a completion; a context with such operations cannot be
 * destroyed. Begin is called before the operation starts, end after its completion has run or after
 * it failed to start. [any thread]
 */
static inline void hg_context_op_begin(hg_context_t *context)
{
    atomic_fetch_add_explicit(&context->op_count, 1, memory_order_relaxed);
}

static inline void hg_context_op_end(hg_context_t *context)
{
    atomic_fetch_sub_explicit(&context->op_count, 1, memory_order_release);
}

/*
 * Count operations that the transport refused for lack of resources. While the count is not 0, each
 * progress call calls hg_upper.retry() and does not sleep. [any thread]
 */
static inline void hg_context_refused_add(hg_context_t *context, int32_t count)
{
    atomic_fetch_add_explicit(&context->refused_count, count, memory_order_relaxed);
}

/* The same for a flag that there is something to retry; clear returns whether it was set. */
static inline void hg_context_refused_set(hg_context_t *context, _Atomic bool *flag)
{
    if (!atomic_exchange(flag, true))
        hg_context_refused_add(context, 1);
}

static inline bool hg_context_refused_clear(hg_context_t *context, _Atomic bool *flag)
{
    if (!atomic_load_explicit(flag, memory_order_relaxed) || !atomic_exchange(flag, false))
        return false;
    hg_context_refused_add(context, -1);
    return true;
}

/* Whether a context was inherited by fork() and is the parent's; logs an error. NULL: false. */
static inline bool hg_context_fork_refused(const hg_context_t *context, const char *function)
{
    return util_unlikely(context != NULL && context->forks != hg_forks) &&
           hg_fork_refuses(context->hg_class, function);
}

static inline bool hg_context_is_usable(const hg_context_t *context)
{
    return context != NULL && context->forks == hg_forks;
}

/* Log why a context is unusable: HG_PERMISSION if inherited by fork(), HG_INVALID_ARG if NULL. */
hg_return_t hg_context_refuse(const hg_context_t *context, const char *function);

#endif /* HG_ENGINE_CONTEXT_H */
