/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts: creating and destroying them. */
#include "hg/context.h"

#include "bulk/bulk_pool.h"
#include "engine/log.h"
#include "engine/progress.h"
#include "hg/class.h"
#include "hg/counters.h"
#include "hg/forward.h"
#include "hg/generation.h"
#include "hg/recv.h"
#include "hg/remote.h"
#include "hg/respond.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Receives of requests that are posted at a time, unless the pool is smaller. */
#define HG_WINDOW 64u

/*
 * Limits in nanoseconds for what HG_Context_destroy() waits for: operations that only need
 * progress, and responses. Another thread may still respond, and a transport may take some time to
 * detect that a peer is gone.
 */
#define HG_QUIESCE_NS            UINT64_C(500000000)
#define HG_QUIESCE_RESPONDING_NS UINT64_C(5000000000)
#define HG_QUIESCE_POLL_NS       UINT64_C(1000000) /* after this time progress sleeps, */
#define HG_QUIESCE_SLEEP_MS      2u                /* but not longer: not every end wakes it */

static hg_context_t *hg_context_create(hg_class_t *hg_class, uint32_t id);
static hg_context_t *hg_context_new(hg_class_t *hg_class, uint8_t id);
static hg_return_t hg_context_open_receives(hg_context_t *context);
static hg_return_t hg_context_quiesce(hg_context_t *context);
static hg_return_t hg_context_drain(hg_context_t *context);
static bool hg_context_is_quiet(hg_context_t *context);
static bool hg_context_is_quiet_but_requests(hg_context_t *context);
static bool hg_context_release_unanswered(hg_context_t *context);
static bool hg_context_is_responding(hg_context_t *context);
static void hg_context_delete(hg_context_t *context);

hg_context_t *HG_Context_create(hg_class_t *hg_class)
{
    if (hg_class_fork_refused(hg_class, __func__))
        return NULL;
    return hg_context_create(hg_class, HG_CONTEXT_ANY);
}

hg_context_t *HG_Context_create_id(hg_class_t *hg_class, uint8_t id)
{
    if (hg_class_fork_refused(hg_class, __func__))
        return NULL;
    return hg_context_create(hg_class, id);
}

hg_return_t HG_Context_destroy(hg_context_t *context)
{
    hg_class_t *hg_class;
    hg_context_t **link;
    hg_return_t ret;
    uint32_t id;

    if (hg_context_fork_refused(context, __func__))
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
    if (ret == HG_SUCCESS && hg_rpc_class(hg_class)->is_listening)
        ret = hg_context_open_receives(context);
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

static hg_context_t *hg_context_new(hg_class_t *hg_class, uint8_t id)
{
    struct hg_rpc_context *context = aligned_alloc(UTIL_CACHE_LINE, sizeof(*context));
    int i;

    if (context == NULL)
        return NULL;
    memset(context, 0, sizeof(*context));
    hg_context_init(&context->base, hg_class, id);
    context->generation = hg_generation_begin();
    for (i = 0; i < HG_PATH_MAX; i++) {
        hg_pool_init(&context->origins[i], &context->base, &hg_forward_kind, (enum hg_path) i);
        hg_pool_init(&context->targets[i], &context->base, &hg_recv_kind, (enum hg_path) i);
    }
    hg_controls_init(&context->controls);
    hg_sessions_init(&context->sessions);
    (void) pthread_mutex_init(&context->refusals.lock, NULL);
    return &context->base;
}

static hg_return_t hg_context_open_receives(hg_context_t *context)
{
    const uint32_t post_init = hg_rpc_class(context->hg_class)->post_init;
    hg_return_t ret = HG_SUCCESS;
    int i;

    hg_rpc_context(context)->window = (int32_t) (post_init < HG_WINDOW ? post_init : HG_WINDOW);
    atomic_store(&hg_rpc_context(context)->is_receiving, true);
    for (i = 0; i < HG_PATH_MAX && ret == HG_SUCCESS; i++) {
        if (context->na_context[i] == NULL)
            continue;
        ret = hg_pool_grow(&hg_rpc_context(context)->targets[i],
                           i == HG_PATH_MAIN ? post_init
                                             : (uint32_t) hg_rpc_context(context)->window);
        if (ret == HG_SUCCESS)
            ret = hg_recv_fill(context, (enum hg_path) i);
    }
    return ret;
}

/*
 * Stop receiving, and make progress until nothing runs. If the program has to end something itself
 * this returns HG_BUSY and the context receives again.
 */
static hg_return_t hg_context_quiesce(hg_context_t *context)
{
    bool was_receiving = atomic_load(&hg_rpc_context(context)->is_receiving);
    hg_return_t ret = hg_recv_stop(context);

    if (ret == HG_SUCCESS)
        ret = hg_context_drain(context);
    if (ret != HG_SUCCESS && was_receiving)
        hg_recv_restart(context);
    return ret;
}

static hg_return_t hg_context_drain(hg_context_t *context)
{
    uint64_t start = hg_clock_ns(), waited_ns = 0;

    while (!hg_context_is_quiet(context)) {
        (void) hg_controls_cancel(context);
        hg_remotes_cancel(context);
        hg_budget_cancel_all(&hg_rpc_class(context->hg_class)->in_budget, context);
        (void) HG_Progress(context, waited_ns < HG_QUIESCE_POLL_NS ? 0 : HG_QUIESCE_SLEEP_MS);
        /* Run the callbacks of what completes. */
        (void) HG_Trigger(context, 0, UINT_MAX, NULL);
        waited_ns = hg_clock_ns() - start;
        if (waited_ns > HG_QUIESCE_NS &&
            (waited_ns > HG_QUIESCE_RESPONDING_NS || !hg_context_is_responding(context)) &&
            !hg_context_is_quiet(context) && !hg_context_release_unanswered(context)) {
            HG_LOG_ERROR("cannot destroy the context while it is in use (handles of HG_Create(): "
                         "%" PRIu32 ", handles of requests: %" PRIu32 ", other operations: %" PRId32
                         ", callbacks that wait: %s); end and destroy these, then call again",
                         hg_pools_count(hg_rpc_context(context)->origins),
                         hg_pools_count(hg_rpc_context(context)->targets),
                         atomic_load(&context->op_count),
                         mpsc_queue_is_empty(&context->queue) ? "no" : "yes");
            return HG_BUSY;
        }
    }
    return HG_SUCCESS;
}

static bool hg_context_is_quiet(hg_context_t *context)
{
    return hg_context_is_quiet_but_requests(context) &&
           hg_pools_count(hg_rpc_context(context)->targets) == 0;
}

static bool hg_context_is_quiet_but_requests(hg_context_t *context)
{
    return mpsc_queue_is_empty(&context->queue) && hg_controls_cancel(context) == 0 &&
           hg_respond_drop_refused(context) == 0 &&
           hg_pools_count(hg_rpc_context(context)->origins) == 0 &&
           atomic_load_explicit(&context->op_count, memory_order_acquire) == 0;
}

/* Release requests without a response; false if something else is in use. */
static bool hg_context_release_unanswered(hg_context_t *context)
{
    return hg_context_is_quiet_but_requests(context) && hg_recv_release_unanswered(context);
}

static bool hg_context_is_responding(hg_context_t *context)
{
    int path;

    for (path = 0; path < HG_PATH_MAX; path++)
        if (hg_pool_has_responses(&hg_rpc_context(context)->targets[path]))
            return true;
    return false;
}

static void hg_context_delete(hg_context_t *context)
{
    struct hg_rpc_context *rpc_context = hg_rpc_context(context);
    struct hg_rpc_class *rpc_class = hg_rpc_class(context->hg_class);
    int i;

    hg_budget_quiesce(&rpc_class->in_budget);
    hg_budget_quiesce(&rpc_class->out_budget);
    /* Before the pools: detached messages end only with the NA context. */
    hg_context_close(context);
    hg_bulk_pool_fini(context);
    for (i = 0; i < HG_PATH_MAX; i++) {
        hg_pool_fini(&rpc_context->origins[i]);
        hg_pool_fini(&rpc_context->targets[i]);
    }
    hg_controls_fini(context);
    hg_remotes_drop(context);
    hg_sessions_fini(&rpc_context->sessions);
    (void) pthread_mutex_destroy(&rpc_context->refusals.lock);
    hg_context_fini(context);
    free(rpc_context);
}
