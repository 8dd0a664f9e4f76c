/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context as all layers above NA see it: its transports' contexts, the queue of completions, the
 * threads that sleep, its timers and counters.
 */
#ifndef HG_ENGINE_CONTEXT_H
#define HG_ENGINE_CONTEXT_H

#include "engine/class.h"
#include "engine/fork.h"
#include "engine/timer.h"
#include "util/mpsc_queue.h"

struct hg_bulk_pool;

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
    na_context_t *na_context[HG_PATH_MAX]; /* NULL: the path is closed */
    unsigned int forks;                    /* as the class's */
    int epoll_fd;                          /* -1: the transport has no descriptors, or is busy */
    int event_fd;
    uint8_t id;
    _Atomic int32_t refused_count; /* what is to be tried again by hg_upper.retry */
    struct hg_timers timers;       /* its first member is read by each poll */
    void *data;
    void (*data_free)(void *);
    _Atomic(struct hg_bulk_pool *) bulk_pool; /* the bulk layer's part; NULL: none yet */
    struct hg_context *next;                  /* in the class; under its lock */

    /* What waits to be triggered. */
    struct mpsc_queue queue;

    /* The threads that sleep, and whether one was woken since. */
    _Alignas(UTIL_CACHE_LINE) _Atomic uint32_t waiters;
    _Atomic bool is_signaled;
    _Atomic bool has_progressed; /* with completions queued, and none was triggered since */
    _Atomic uint32_t poll_ns[HG_POLL_MAX]; /* how long to poll before sleeping */
    _Atomic uint64_t ready_ns; /* when HG_Event_ready() last allowed to sleep; 0: it did not */
    pthread_mutex_t trigger_lock;
    pthread_cond_t trigger_cond;

    /* Operations that are not handles: bulk transfers, lookups, forwards that drain. */
    _Alignas(UTIL_CACHE_LINE) _Atomic int32_t op_count;
    _Atomic int32_t exposing_count; /* forwards whose targets may be transferring */

    _Alignas(UTIL_CACHE_LINE) struct hg_counters counters;
};

/* Wanted as an id: the lowest that is free. */
#define HG_CONTEXT_ANY HG_CONTEXT_IDS

/* Take an id of a class for a context, with a line in the log if there is none; give it back. */
bool hg_context_id_take(hg_class_t *hg_class, uint32_t *id_p);
void hg_context_id_give(hg_class_t *hg_class, uint32_t id);

/* Initialize zeroed memory; undo that. */
void hg_context_init(hg_context_t *context, hg_class_t *hg_class, uint8_t id);
void hg_context_fini(hg_context_t *context);

/* Open the transports' contexts and the descriptors to wait on; close them. */
hg_return_t hg_context_open(hg_context_t *context);
void hg_context_close(hg_context_t *context);

/* Have it among the contexts of its class. */
void hg_context_link(hg_context_t *context);

/*
 * Count operations that still have to push a completion; a context that has some cannot be
 * destroyed. To be called before the operation starts, and after its completion was run or it
 * failed to start. [any thread]
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
 * Count what the transport refused for lack of resources. While there is some, each progress calls
 * hg_upper.retry() and does not sleep. [any thread]
 */
static inline void hg_context_refused_add(hg_context_t *context, int32_t count)
{
    atomic_fetch_add_explicit(&context->refused_count, count, memory_order_relaxed);
}

/* The same for a flag that says that there is something to try again; true if it was set. */
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

/* Whether a context is the parent's, from before a fork(), with a line in the log. NULL: false. */
static inline bool hg_context_is_refused(const hg_context_t *context, const char *function)
{
    return util_unlikely(context != NULL && context->forks != hg_forks) &&
           hg_fork_refuses(context->hg_class, function);
}

static inline bool hg_context_is_usable(const hg_context_t *context)
{
    return context != NULL && context->forks == hg_forks;
}

/* Says why it is not: HG_PERMISSION if it is the parent's, HG_INVALID_ARG if it is NULL. */
hg_return_t hg_context_refuse(const hg_context_t *context, const char *function);

#endif /* HG_ENGINE_CONTEXT_H */
