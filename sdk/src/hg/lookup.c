/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lookups that end by a callback. Without a deadline the address is looked up in the call. With one
 * a thread does that, because a name server may not answer. If the deadline passes first, the
 * thread frees the address that it finds.
 */
#include "hg/lookup.h"

#include "engine/addr.h"
#include "engine/context_timer.h"
#include "engine/fork.h"
#include "engine/log.h"
#include "engine/probes.h"
#include "engine/queue.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct hg_lookup {
    struct hg_completion completion;
    uintptr_t id;
    struct hg_lookup *next_live;
    struct hg_lookup **live_link; /* the pointer to this one; both guarded by hg_lookup_lock */
    hg_context_t *context;        /* valid until the callback */
    hg_class_t *hg_class;
    hg_cb_t callback;
    void *arg;
    char *name;
    struct hg_timer timer;
    _Atomic int32_t ref; /* held by the completion, the timer, the thread */
    pthread_mutex_t lock;
    bool is_timed;    /* the timer is armed or firing */
    bool is_ended;    /* the result is set; the completion is or will be queued */
    bool is_canceled; /* a result that is set already is discarded */
    hg_addr_t addr;
    hg_return_t ret;
};

pthread_mutex_t hg_lookup_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hg_lookup *hg_lookup_live; /* their callbacks have not returned */
/*
 * Ids are never reused, so that a late cancel finds nothing. They are odd, and those of bulk
 * transfers are even.
 */
static uintptr_t hg_lookup_last_id = (uintptr_t) HG_OP_ID_IGNORE;

static struct hg_lookup *hg_lookup_new(hg_context_t *context, hg_cb_t callback, void *arg,
                                       const char *name);
static void hg_lookup_unref(struct hg_lookup *lookup);
static void hg_lookup_unlink(struct hg_lookup *lookup);
static struct hg_lookup *hg_lookup_find(uintptr_t id);
static void hg_lookup_start_timed(struct hg_lookup *lookup, unsigned int deadline_ms);
static bool hg_lookup_start_thread(struct hg_lookup *lookup);
static void *hg_lookup_thread(void *arg);
static void hg_lookup_end(struct hg_lookup *lookup, hg_return_t ret, hg_addr_t addr);
static void hg_lookup_fire(struct hg_timer *timer);
static void hg_lookup_finish(struct hg_timer *timer);
static void hg_lookup_run(struct hg_completion *completion);

hg_return_t HG_Addr_lookup1(hg_context_t *context, hg_cb_t callback, void *arg, const char *name,
                            hg_op_id_t *op_id_p)
{
    const unsigned int deadline_ms = context != NULL ? hg_class_get_deadline(context->hg_class) : 0;

    return HG_Addr_lookup_deadline(context, callback, arg, name, deadline_ms, op_id_p);
}

hg_return_t HG_Addr_lookup_deadline(hg_context_t *context, hg_cb_t callback, void *arg,
                                    const char *name, unsigned int deadline_ms, hg_op_id_t *op_id_p)
{
    struct hg_lookup *lookup;
    hg_addr_t addr;
    hg_return_t ret;

    if (hg_context_fork_refused(context, __func__))
        return HG_PERMISSION;
    if (context == NULL || callback == NULL || name == NULL) {
        HG_LOG_ERROR("cannot look up \"%s\": context and callback must be given",
                     name != NULL ? name : "NULL");
        return HG_INVALID_ARG;
    }
    lookup = hg_lookup_new(context, callback, arg, name);
    if (lookup == NULL) {
        HG_LOG_ERROR("cannot look up \"%s\": out of memory", name);
        return HG_NOMEM;
    }
    /* Set before the operation starts, because another thread may then end it at any time. */
    if (op_id_p != NULL && op_id_p != HG_OP_ID_IGNORE)
        *op_id_p = (hg_op_id_t) lookup->id;
    hg_context_op_begin(context);
    if (deadline_ms != 0 && !context->hg_class->is_single_thread) {
        hg_lookup_start_timed(lookup, deadline_ms);
        return HG_SUCCESS;
    }
    addr = HG_ADDR_NULL;
    ret = HG_Addr_lookup2(context->hg_class, name, &addr);
    hg_lookup_end(lookup, ret, addr);
    return HG_SUCCESS;
}

hg_return_t HG_Addr_lookup_cancel(hg_op_id_t op_id)
{
    struct hg_lookup *lookup;

    if (op_id == (hg_op_id_t) (void *) HG_OP_ID_IGNORE || ((uintptr_t) op_id & 1) == 0) {
        HG_LOG_ERROR("cannot cancel operation %p; pass one that a lookup returned", (void *) op_id);
        return HG_INVALID_ARG;
    }
    lookup = hg_lookup_find((uintptr_t) op_id);
    if (lookup == NULL)
        return HG_SUCCESS; /* it has ended */
    if (hg_class_fork_refused(lookup->hg_class, __func__))
        return HG_PERMISSION; /* after a fork(); the reference does not matter then */
    HG_PROBE1(cancel, lookup);
    (void) pthread_mutex_lock(&lookup->lock);
    lookup->is_canceled = true;
    (void) pthread_mutex_unlock(&lookup->lock);
    hg_lookup_end(lookup, HG_CANCELED, HG_ADDR_NULL);
    hg_lookup_unref(lookup);
    return HG_SUCCESS;
}

static struct hg_lookup *hg_lookup_new(hg_context_t *context, hg_cb_t callback, void *arg,
                                       const char *name)
{
    struct hg_lookup *lookup = calloc(1, sizeof(*lookup));

    if (lookup == NULL)
        return NULL;
    lookup->name = strdup(name);
    if (lookup->name == NULL) {
        free(lookup);
        return NULL;
    }
    (void) pthread_mutex_init(&lookup->lock, NULL);
    lookup->context = context;
    lookup->hg_class = context->hg_class;
    lookup->callback = callback;
    lookup->arg = arg;
    lookup->completion.run = hg_lookup_run;
    atomic_init(&lookup->ref, 1);
    (void) pthread_mutex_lock(&hg_lookup_lock);
    lookup->id = hg_lookup_last_id += 2;
    lookup->next_live = hg_lookup_live;
    lookup->live_link = &hg_lookup_live;
    if (hg_lookup_live != NULL)
        hg_lookup_live->live_link = &lookup->next_live;
    hg_lookup_live = lookup;
    (void) pthread_mutex_unlock(&hg_lookup_lock);
    return lookup;
}

/* Returns a referenced lookup; NULL: its callback has returned. */
static struct hg_lookup *hg_lookup_find(uintptr_t id)
{
    struct hg_lookup *lookup;

    (void) pthread_mutex_lock(&hg_lookup_lock);
    for (lookup = hg_lookup_live; lookup != NULL && lookup->id != id; lookup = lookup->next_live)
        ;
    if (lookup != NULL)
        atomic_fetch_add_explicit(&lookup->ref, 1, memory_order_relaxed);
    (void) pthread_mutex_unlock(&hg_lookup_lock);
    return lookup;
}

static void hg_lookup_unlink(struct hg_lookup *lookup)
{
    (void) pthread_mutex_lock(&hg_lookup_lock);
    *lookup->live_link = lookup->next_live;
    if (lookup->next_live != NULL)
        lookup->next_live->live_link = lookup->live_link;
    (void) pthread_mutex_unlock(&hg_lookup_lock);
}

static void hg_lookup_unref(struct hg_lookup *lookup)
{
    if (atomic_fetch_sub_explicit(&lookup->ref, 1, memory_order_acq_rel) != 1)
        return;
    (void) pthread_mutex_destroy(&lookup->lock);
    free(lookup->name);
    free(lookup);
}

static void hg_lookup_start_timed(struct hg_lookup *lookup, unsigned int deadline_ms)
{
    hg_context_t *context = lookup->context;

    lookup->timer.fire = hg_lookup_fire;
    lookup->timer.finish = hg_lookup_finish;
    lookup->is_timed = true;
    atomic_store_explicit(&lookup->ref, 3, memory_order_relaxed);
    hg_context_arm(context, &lookup->timer, hg_clock_ns() + deadline_ms * HG_NS_PER_MS);
    /* The count keeps the class open while the thread uses it. */
    atomic_fetch_add_explicit(&lookup->hg_class->addr_count, 1, memory_order_relaxed);
    hg_context_wake(context);
    if (!hg_lookup_start_thread(lookup))
        (void) hg_lookup_thread(lookup);
}

/* The thread blocks all signals, so that the program's threads get them. */
static bool hg_lookup_start_thread(struct hg_lookup *lookup)
{
    sigset_t all, old;
    pthread_t thread;
    int error;

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&thread, NULL, hg_lookup_thread, lookup);
    (void) pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error == 0)
        (void) pthread_detach(thread);
    else
        HG_LOG_WARNING("cannot start a thread to look up \"%s\", it is done in the call",
                       lookup->name);
    return error == 0;
}

static void *hg_lookup_thread(void *arg)
{
    struct hg_lookup *lookup = arg;
    hg_class_t *hg_class = lookup->hg_class;
    hg_addr_t addr = HG_ADDR_NULL;
    hg_return_t ret = HG_Addr_lookup2(hg_class, lookup->name, &addr);

    hg_lookup_end(lookup, ret, addr);
    hg_lookup_unref(lookup);
    atomic_fetch_sub_explicit(&hg_class->addr_count, 1, memory_order_release);
    return NULL;
}

/* Set the result, unless it is set; a later address is freed. */
static void hg_lookup_end(struct hg_lookup *lookup, hg_return_t ret, hg_addr_t addr)
{
    bool is_first, was_timed = false;

    (void) pthread_mutex_lock(&lookup->lock);
    is_first = !lookup->is_ended;
    if (is_first) {
        lookup->is_ended = true;
        lookup->ret = ret;
        lookup->addr = addr;
        /* A timer that is already firing sees is_ended. */
        was_timed = lookup->is_timed && hg_context_disarm(lookup->context, &lookup->timer);
    }
    (void) pthread_mutex_unlock(&lookup->lock);
    if (is_first)
        hg_context_push(lookup->context, &lookup->completion);
    else if (addr != HG_ADDR_NULL)
        (void) HG_Addr_free(lookup->hg_class, addr);
    if (was_timed)
        hg_lookup_unref(lookup);
}

static void hg_lookup_fire(struct hg_timer *timer)
{
    struct hg_lookup *lookup = util_container_of(timer, struct hg_lookup, timer);
    bool is_first;

    (void) pthread_mutex_lock(&lookup->lock);
    lookup->is_timed = false;
    is_first = !lookup->is_ended;
    (void) pthread_mutex_unlock(&lookup->lock);
    if (is_first) {
        HG_PROBE1(timeout, lookup);
        hg_count(&lookup->context->counters.timed_out);
        hg_lookup_end(lookup, HG_TIMEOUT, HG_ADDR_NULL);
    }
}

static void hg_lookup_finish(struct hg_timer *timer)
{
    hg_lookup_unref(util_container_of(timer, struct hg_lookup, timer));
}

static void hg_lookup_run(struct hg_completion *completion)
{
    struct hg_lookup *lookup = util_container_of(completion, struct hg_lookup, completion);
    hg_context_t *context = lookup->context;
    struct hg_cb_info info = {.arg = lookup->arg, .type = HG_CB_LOOKUP};

    (void) pthread_mutex_lock(&lookup->lock);
    if (lookup->is_canceled && lookup->ret == HG_SUCCESS) {
        (void) HG_Addr_free(lookup->hg_class, lookup->addr);
        lookup->addr = HG_ADDR_NULL;
        lookup->ret = HG_CANCELED;
    }
    info.info.lookup.addr = lookup->addr;
    info.ret = lookup->ret;
    (void) pthread_mutex_unlock(&lookup->lock);
    (void) lookup->callback(&info);
    /* The id is valid until here, because the program may still cancel during its callback. */
    hg_lookup_unlink(lookup);
    hg_lookup_unref(lookup);
    hg_context_op_end(context);
}
