/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts: creating and destroying them, their data.
 */
#include "hg/hg_private.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Receives that are posted at a time, unless the pool is smaller. */
#define HG_WINDOW 64u

/* Wanted as an id: the lowest that is free. */
#define HG_CONTEXT_ANY HG_CONTEXT_IDS

/*
 * How long destroying waits for what only needs progress, and for responses: another thread may
 * still send one, and a peer that is gone is found out by the transport in its own time.
 */
#define HG_QUIESCE_NS            UINT64_C(500000000)
#define HG_QUIESCE_RESPONDING_NS UINT64_C(5000000000)

static hg_context_t *hg_context_create(hg_class_t *hg_class, uint32_t id);
static bool hg_context_id_take(hg_class_t *hg_class, uint32_t *id_p);
static void hg_context_id_give(hg_class_t *hg_class, uint32_t id);
static hg_context_t *hg_context_new(hg_class_t *hg_class, uint8_t id);
static hg_return_t hg_context_open(hg_context_t *context);
static hg_return_t hg_context_open_wait(hg_context_t *context);
static hg_return_t hg_context_open_receives(hg_context_t *context);
static void hg_context_link(hg_context_t *context);
static hg_return_t hg_context_quiesce(hg_context_t *context);
static hg_return_t hg_context_drain(hg_context_t *context);
static bool hg_context_is_quiet(hg_context_t *context);
static bool hg_context_is_quiet_but_requests(hg_context_t *context);
static bool hg_context_release_unanswered(hg_context_t *context);
static bool hg_context_is_responding(hg_context_t *context);
static void hg_context_delete(hg_context_t *context);
static na_return_t hg_context_close_na(hg_context_t *context);

hg_context_t *HG_Context_create(hg_class_t *hg_class)
{
    if (hg_class_is_refused(hg_class, __func__))
        return NULL;
    return hg_context_create(hg_class, HG_CONTEXT_ANY);
}

hg_context_t *HG_Context_create_id(hg_class_t *hg_class, uint8_t id)
{
    if (hg_class_is_refused(hg_class, __func__))
        return NULL;
    return hg_context_create(hg_class, id);
}

hg_return_t HG_Context_destroy(hg_context_t *context)
{
    hg_class_t *hg_class;
    hg_context_t **link;
    hg_return_t ret;
    uint32_t id;

    if (hg_context_is_refused(context, __func__))
        return HG_PERMISSION;
    if (context == NULL)
        return HG_SUCCESS;
    ret = hg_context_quiesce(context);
    if (ret != HG_SUCCESS)
        return ret;

    hg_class = context->hg_class;
    (void) pthread_mutex_lock(&hg_class->lock);
    for (link = &hg_class->contexts; *link != NULL; link = &(*link)->next) {
        if (*link != context)
            continue;
        *link = context->next;
        break;
    }
    hg_counters_retire(hg_class, context);
    (void) pthread_mutex_unlock(&hg_class->lock);
    if (context->data_free != NULL)
        context->data_free(context->data);
    id = context->id;
    hg_context_delete(context);
    hg_context_id_give(hg_class, id);
    return HG_SUCCESS;
}

hg_class_t *HG_Context_get_class(const hg_context_t *context)
{
    return context != NULL ? context->hg_class : NULL;
}

uint8_t HG_Context_get_id(const hg_context_t *context)
{
    return context != NULL ? context->id : 0;
}

hg_return_t HG_Context_set_data(hg_context_t *context, void *data, void (*free_callback)(void *))
{
    if (hg_context_is_refused(context, __func__))
        return HG_PERMISSION;
    if (context == NULL) {
        HG_LOG_ERROR("cannot attach data: the context is NULL");
        return HG_INVALID_ARG;
    }
    context->data = data;
    context->data_free = free_callback;
    return HG_SUCCESS;
}

void *HG_Context_get_data(const hg_context_t *context)
{
    return context != NULL ? context->data : NULL;
}

na_context_t *hg_context_get_na(const hg_context_t *context, enum hg_path path)
{
    return context->na_context[path];
}

void hg_context_count_bulk(hg_context_t *context, enum hg_path path)
{
    hg_count(&context->counters.bulk);
    if (path == HG_PATH_SM)
        hg_count(&context->counters.bulk_sm);
}

void hg_context_count_timeout(hg_context_t *context)
{
    hg_count(&context->counters.timed_out);
}

void hg_context_count_detached(hg_context_t *context)
{
    hg_count(&context->counters.detached);
}

void hg_context_count_bulk_end(hg_context_t *context, hg_return_t ret, hg_size_t size)
{
    struct hg_counters *counters = &context->counters;

    if (util_likely(ret == HG_SUCCESS))
        hg_count_add(&counters->bulk_bytes, size);
    else
        hg_count(ret == HG_CANCELED  ? &counters->bulk_canceled
                 : ret == HG_TIMEOUT ? &counters->bulk_timeout
                                     : &counters->bulk_error);
}

void hg_context_count_retry(hg_context_t *context)
{
    hg_count(&context->counters.retry);
}

void hg_context_op_begin(hg_context_t *context)
{
    atomic_fetch_add_explicit(&context->op_count, 1, memory_order_relaxed);
}

void hg_context_op_end(hg_context_t *context)
{
    atomic_fetch_sub_explicit(&context->op_count, 1, memory_order_release);
}

void hg_context_refused_add(hg_context_t *context, int32_t count)
{
    atomic_fetch_add_explicit(&context->refused_count, count, memory_order_relaxed);
}

void *hg_context_get_bulk_data(const hg_context_t *context)
{
    return atomic_load_explicit(&context->bulk_data, memory_order_acquire);
}

bool hg_context_set_bulk_data(hg_context_t *context, void *data, void (*free_callback)(void *))
{
    void *none = NULL;

    if (!atomic_compare_exchange_strong(&context->bulk_data, &none, data))
        return false;
    atomic_store_explicit(&context->bulk_data_free, free_callback, memory_order_release);
    return true;
}

static hg_context_t *hg_context_create(hg_class_t *hg_class, uint32_t id)
{
    hg_context_t *context;
    hg_return_t ret;

    if (hg_class == NULL) {
        HG_LOG_ERROR("cannot create a context: the class is NULL");
        return NULL;
    }
    if (!hg_context_id_take(hg_class, &id))
        return NULL;
    context = hg_context_new(hg_class, (uint8_t) id);
    if (context == NULL) {
        HG_LOG_ERROR("cannot create a context: out of memory");
        hg_context_id_give(hg_class, id);
        return NULL;
    }
    ret = hg_context_open(context);
    if (ret != HG_SUCCESS) {
        HG_LOG_ERROR("cannot create a context with id %" PRIu32 ": %s", id,
                     HG_Error_to_string(ret));
        (void) hg_recv_stop(context);
        hg_context_delete(context);
        hg_context_id_give(hg_class, id);
        return NULL;
    }
    hg_context_link(context);
    return context;
}

/* Take an id, or any one. The transport was opened for a number of them. */
static bool hg_context_id_take(hg_class_t *hg_class, uint32_t *id_p)
{
    const uint32_t max = hg_class->max_contexts > 0 ? hg_class->max_contexts : HG_CONTEXT_IDS;
    const bool is_any = *id_p == HG_CONTEXT_ANY;
    uint32_t id = is_any ? 0 : *id_p;
    bool is_free;

    (void) pthread_mutex_lock(&hg_class->lock);
    while (is_any && id < max && (hg_class->context_ids[id / 64] >> id % 64 & 1) != 0)
        id++;
    is_free = id < max && (hg_class->context_ids[id / 64] >> id % 64 & 1) == 0;
    if (is_free)
        hg_class->context_ids[id / 64] |= UINT64_C(1) << id % 64;
    (void) pthread_mutex_unlock(&hg_class->lock);
    if (is_free)
        *id_p = id;
    else if (id < max)
        HG_LOG_ERROR("cannot create a context with id %" PRIu32 ": there is one; use another id",
                     id);
    else
        HG_LOG_ERROR("cannot create %s context%s: the class was opened for max_contexts %" PRIu32
                     "; set na_init_info.max_contexts in struct hg_init_info to as many as you "
                     "create",
                     is_any ? "another" : "a", is_any ? "" : " with such an id", max);
    return is_free;
}

static void hg_context_id_give(hg_class_t *hg_class, uint32_t id)
{
    (void) pthread_mutex_lock(&hg_class->lock);
    hg_class->context_ids[id / 64] &= ~(UINT64_C(1) << id % 64);
    (void) pthread_mutex_unlock(&hg_class->lock);
}

static hg_context_t *hg_context_new(hg_class_t *hg_class, uint8_t id)
{
    hg_context_t *context = aligned_alloc(UTIL_CACHE_LINE, sizeof(*context));
    pthread_condattr_t attr;
    int i;

    if (context == NULL)
        return NULL;
    memset(context, 0, sizeof(*context));
    context->hg_class = hg_class;
    context->forks = hg_class->forks;
    context->id = id;
    context->generation = hg_generation_begin();
    context->epoll_fd = context->event_fd = -1;
    mpsc_queue_init(&context->queue);
    hg_timers_init(&context->timers);
    (void) pthread_mutex_init(&context->trigger_lock, NULL);
    (void) pthread_condattr_init(&attr);
    (void) pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void) pthread_cond_init(&context->trigger_cond, &attr);
    (void) pthread_condattr_destroy(&attr);
    for (i = 0; i < HG_PATH_MAX; i++) {
        (void) hg_pool_init(&context->origins[i]);
        (void) hg_pool_init(&context->targets[i]);
    }
    (void) hg_controls_init(&context->controls);
    return context;
}

static hg_return_t hg_context_open(hg_context_t *context)
{
    hg_class_t *hg_class = context->hg_class;
    hg_return_t ret;
    int i;

    for (i = 0; i < HG_PATH_MAX; i++) {
        if (hg_class->paths[i].na_class == NULL)
            continue;
        context->na_context[i] = NA_Context_create_id(hg_class->paths[i].na_class, context->id);
        if (context->na_context[i] == NULL)
            return HG_NA_ERROR;
    }
    ret = hg_context_open_wait(context);
    if (ret == HG_SUCCESS && hg_class->is_listening)
        ret = hg_context_open_receives(context);
    return ret;
}

/*
 * One descriptor over those of the transports and our own. Without any of them waiting is polling.
 */
static hg_return_t hg_context_open_wait(hg_context_t *context)
{
    hg_class_t *hg_class = context->hg_class;
    int fds[HG_PATH_MAX + 1], count = 0, i;

    atomic_store(&context->poll_ns[HG_POLL_MESSAGE], HG_POLL_NS_MAX_MESSAGE);
    atomic_store(&context->poll_ns[HG_POLL_TRANSFER], HG_POLL_NS_MAX_TRANSFER);
    if (hg_class->is_busy)
        return HG_SUCCESS;
    for (i = 0; i < HG_PATH_MAX; i++) {
        if (context->na_context[i] == NULL)
            continue;
        fds[count] = NA_Poll_get_fd(hg_class->paths[i].na_class, context->na_context[i]);
        if (fds[count++] < 0)
            return HG_SUCCESS;
    }
    context->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    context->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (context->event_fd < 0 || context->epoll_fd < 0) {
        HG_LOG_ERROR("cannot create a wait descriptor: are there too many open files?");
        return HG_NOMEM;
    }
    fds[count++] = context->event_fd;
    for (i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[i]};

        if (epoll_ctl(context->epoll_fd, EPOLL_CTL_ADD, fds[i], &event) != 0) {
            HG_LOG_ERROR("cannot wait on descriptor %d of the transport", fds[i]);
            return HG_IO_ERROR;
        }
    }
    return HG_SUCCESS;
}

static hg_return_t hg_context_open_receives(hg_context_t *context)
{
    const uint32_t post_init = context->hg_class->post_init;
    hg_return_t ret = HG_SUCCESS;
    int i;

    context->window = (int32_t) (post_init < HG_WINDOW ? post_init : HG_WINDOW);
    atomic_store(&context->is_receiving, true);
    for (i = 0; i < HG_PATH_MAX && ret == HG_SUCCESS; i++) {
        if (context->na_context[i] == NULL)
            continue;
        ret = hg_pool_grow(context, false, (enum hg_path) i,
                           i == HG_PATH_MAIN ? post_init : (uint32_t) context->window);
        if (ret == HG_SUCCESS)
            ret = hg_recv_fill(context, (enum hg_path) i);
    }
    return ret;
}

static void hg_context_link(hg_context_t *context)
{
    hg_class_t *hg_class = context->hg_class;

    (void) pthread_mutex_lock(&hg_class->lock);
    context->next = hg_class->contexts;
    hg_class->contexts = context;
    (void) pthread_mutex_unlock(&hg_class->lock);
}

/*
 * Stop receiving, and progress what ends by itself. HG_BUSY if something is left to the program:
 * then the context goes on as it was.
 */
static hg_return_t hg_context_quiesce(hg_context_t *context)
{
    bool was_receiving = atomic_load(&context->is_receiving);
    hg_return_t ret = hg_recv_stop(context);

    if (ret == HG_SUCCESS)
        ret = hg_context_drain(context);
    if (ret != HG_SUCCESS && was_receiving)
        hg_recv_restart(context);
    return ret;
}

static hg_return_t hg_context_drain(hg_context_t *context)
{
    uint64_t start = hg_clock_ns(), waited_ns;

    while (!hg_context_is_quiet(context)) {
        (void) hg_controls_cancel(context);
        hg_budget_cancel_all(&context->hg_class->in_budget, context);
        (void) hg_context_poll(context);
        /* What is complete is called back, as the program would have done with HG_Trigger(). */
        (void) HG_Trigger(context, 0, UINT_MAX, NULL);
        waited_ns = hg_clock_ns() - start;
        if (waited_ns > HG_QUIESCE_NS &&
            (waited_ns > HG_QUIESCE_RESPONDING_NS || !hg_context_is_responding(context)) &&
            !hg_context_is_quiet(context) && !hg_context_release_unanswered(context)) {
            HG_LOG_ERROR("cannot destroy the context: %" PRIu32 " handles of forwards and %" PRIu32
                         " of requests are not destroyed, %" PRId32
                         " other operations run, callbacks are %s; see to them and try again",
                         hg_context_count_handles(context, true),
                         hg_context_count_handles(context, false), atomic_load(&context->op_count),
                         mpsc_queue_is_empty(&context->queue) ? "not queued" : "queued");
            return HG_BUSY;
        }
    }
    return HG_SUCCESS;
}

static bool hg_context_is_quiet(hg_context_t *context)
{
    return hg_context_is_quiet_but_requests(context) &&
           hg_context_count_handles(context, false) == 0;
}

static bool hg_context_is_quiet_but_requests(hg_context_t *context)
{
    return mpsc_queue_is_empty(&context->queue) && hg_controls_cancel(context) == 0 &&
           hg_context_count_handles(context, true) == 0 &&
           atomic_load_explicit(&context->op_count, memory_order_acquire) == 0;
}

/* The last step of destroying: true if nothing but such requests was left. */
static bool hg_context_release_unanswered(hg_context_t *context)
{
    return hg_context_is_quiet_but_requests(context) && hg_recv_release_unanswered(context);
}

static bool hg_context_is_responding(hg_context_t *context)
{
    int path;

    for (path = 0; path < HG_PATH_MAX; path++)
        if (hg_pool_has_responses(&context->targets[path]))
            return true;
    return false;
}

static void hg_context_delete(hg_context_t *context)
{
    void (*bulk_data_free)(void *) = atomic_load(&context->bulk_data_free);
    na_return_t na_return;
    int i;

    hg_budget_quiesce(&context->hg_class->in_budget);
    hg_budget_quiesce(&context->hg_class->out_budget);
    if (context->epoll_fd >= 0)
        (void) close(context->epoll_fd);
    if (context->event_fd >= 0)
        (void) close(context->event_fd);
    /* First, for what the transport did not let go of in time ends with its context. */
    na_return = hg_context_close_na(context);
    if (na_return != NA_SUCCESS)
        HG_LOG_ERROR("destroying the transport's context failed: %s",
                     NA_Error_to_string(na_return));
    if (bulk_data_free != NULL)
        bulk_data_free(atomic_load(&context->bulk_data));
    for (i = 0; i < HG_PATH_MAX; i++) {
        hg_pool_fini(&context->origins[i]);
        hg_pool_fini(&context->targets[i]);
    }
    hg_controls_fini(context);
    hg_timers_fini(&context->timers);
    (void) pthread_mutex_destroy(&context->trigger_lock);
    (void) pthread_cond_destroy(&context->trigger_cond);
    free(context);
}

static na_return_t hg_context_close_na(hg_context_t *context)
{
    na_return_t na_return = NA_SUCCESS;
    int i;

    for (i = 0; i < HG_PATH_MAX; i++) {
        na_return_t path_return;

        if (context->na_context[i] == NULL)
            continue;
        do {
            (void) NA_Trigger(context->na_context[i], UINT_MAX, NULL);
            path_return =
                NA_Context_destroy(context->hg_class->paths[i].na_class, context->na_context[i]);
        } while (path_return == NA_BUSY);
        if (path_return != NA_SUCCESS)
            na_return = path_return;
    }
    return na_return;
}
