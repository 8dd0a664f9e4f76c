/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of the RPCs in flight to one target. Equal addresses share a flow, which counts the
 * forwards that were started and have not ended; forwards beyond the limit wait in it, in order.
 * When a forward ends the next one is started by the same thread, or, if it belongs to another
 * context, by the next HG_Trigger() of that context.
 *
 * A class without limits has no flows; then a forward costs one more load.
 */
#include "hg/flow.h"

#include "hg/deadline.h"
#include "hg/forward.h"

#include <stdlib.h>

static hg_return_t hg_flow_find(struct hg_addr *addr, struct hg_flow **flow_p);
static struct hg_flow *hg_flow_new(struct hg_addr *addr);
static uint32_t hg_flow_limit(const struct hg_flow *flow);
static void hg_flow_dispatch(struct hg_flow *flow, hg_context_t *context);
static struct hg_handle *hg_flow_next(struct hg_flow *flow);
static void hg_flow_dispatch_all(hg_class_t *hg_class, hg_context_t *context, bool only_stalled);
static struct hg_flow *hg_flows_next(struct hg_flows *flows, struct hg_flow *flow);
static bool hg_flow_wait_again(struct hg_flow *flow, struct hg_handle *handle);
static void hg_flow_add(struct hg_flow *flow, struct hg_handle *handle);
static void hg_flow_remove(struct hg_flow *flow, struct hg_handle *handle);
static void hg_flows_update(struct hg_flows *flows);

hg_return_t HG_Class_set_max_in_flight(hg_class_t *hg_class, unsigned int max)
{
    if (hg_class_fork_refused(hg_class, __func__))
        return HG_PERMISSION;
    if (hg_class == NULL || max == HG_MAX_IN_FLIGHT_DEFAULT) {
        HG_LOG_ERROR("cannot limit RPCs in flight to %u: pass a class, and a number or 0", max);
        return HG_INVALID_ARG;
    }
    (void) pthread_mutex_lock(&hg_rpc_class(hg_class)->flows.lock);
    atomic_store(&hg_rpc_class(hg_class)->flows.max, max);
    hg_flows_update(&hg_rpc_class(hg_class)->flows);
    (void) pthread_mutex_unlock(&hg_rpc_class(hg_class)->flows.lock);
    hg_flow_dispatch_all(hg_class, NULL, false);
    return HG_SUCCESS;
}

unsigned int HG_Class_get_max_in_flight(const hg_class_t *hg_class)
{
    return hg_class != NULL ? atomic_load(&hg_rpc_class(hg_class)->flows.max) : 0;
}

hg_return_t HG_Addr_set_max_in_flight(hg_class_t *hg_class, hg_addr_t addr, unsigned int max)
{
    struct hg_flow *flow;
    hg_return_t ret;

    if (hg_class_fork_refused(hg_class, __func__))
        return HG_PERMISSION;
    if (hg_class == NULL || addr == HG_ADDR_NULL || addr->hg_class != hg_class ||
        addr->is_embedded) {
        HG_LOG_ERROR("cannot limit RPCs in flight to %u: class %p, address %p; pass an address of "
                     "the class, one of a handle by HG_Addr_dup()",
                     max, (void *) hg_class, (void *) addr);
        return HG_INVALID_ARG;
    }
    ret = hg_flow_find(addr, &flow);
    if (ret != HG_SUCCESS)
        return ret;
    (void) pthread_mutex_lock(&hg_rpc_class(hg_class)->flows.lock);
    if (atomic_load(&flow->max) != HG_MAX_IN_FLIGHT_DEFAULT)
        hg_rpc_class(hg_class)->flows.own_count--;
    if (max != HG_MAX_IN_FLIGHT_DEFAULT)
        hg_rpc_class(hg_class)->flows.own_count++;
    atomic_store(&flow->max, max);
    hg_flows_update(&hg_rpc_class(hg_class)->flows);
    (void) pthread_mutex_unlock(&hg_rpc_class(hg_class)->flows.lock);
    hg_flow_dispatch(flow, NULL);
    return HG_SUCCESS;
}

bool UTIL_COLD hg_flow_enter(struct hg_handle *handle, size_t payload, uint8_t flags,
                             hg_return_t *ret_p)
{
    hg_context_t *context = handle->info.context;
    struct hg_flow *flow;
    uint32_t limit;
    bool is_waiting;

    *ret_p = hg_flow_find(handle->info.addr, &flow);
    if (*ret_p != HG_SUCCESS)
        return true;
    (void) pthread_mutex_lock(&flow->lock);
    limit = hg_flow_limit(flow);
    is_waiting = flow->waiting.first != NULL || (limit != 0 && flow->in_flight >= limit);
    atomic_store_explicit(&handle->flow, flow, memory_order_relaxed);
    if (!is_waiting) {
        handle->turn = HG_TURN_RUNNING;
        flow->in_flight++;
    } else {
        hg_waiting_defer(handle, payload, flags);
        hg_count(&context->counters.queued);
        hg_flow_add(flow, handle);
    }
    (void) pthread_mutex_unlock(&flow->lock);
    if (!is_waiting)
        return false;
    hg_context_wake(context); /* a sleeping thread has to see a new deadline */
    return true;
}

bool UTIL_COLD hg_flow_leave(struct hg_handle *handle)
{
    struct hg_flow *flow = atomic_load_explicit(&handle->flow, memory_order_relaxed);
    bool is_waiting = false;

    (void) pthread_mutex_lock(&flow->lock);
    if (handle->turn == HG_TURN_RUNNING)
        flow->in_flight--;
    handle->turn = HG_TURN_NONE;
    if (handle->is_refused)
        is_waiting = hg_flow_wait_again(flow, handle);
    if (!is_waiting) {
        handle->is_deferred = false;
        atomic_store_explicit(&handle->flow, NULL, memory_order_relaxed);
    }
    (void) pthread_mutex_unlock(&flow->lock);
    /* Until its callback the handle keeps its address, which has a reference to the flow. */
    if (!is_waiting)
        hg_flow_dispatch(flow, handle->info.context);
    return is_waiting;
}

bool UTIL_COLD hg_flow_cancel(struct hg_handle *handle)
{
    struct hg_flow *flow = atomic_load_explicit(&handle->flow, memory_order_relaxed);
    bool was_waiting;

    if (flow == NULL)
        return false;
    (void) pthread_mutex_lock(&flow->lock);
    was_waiting = handle->turn == HG_TURN_WAITING;
    if (was_waiting)
        hg_flow_remove(flow, handle);
    (void) pthread_mutex_unlock(&flow->lock);
    if (!was_waiting)
        return false;
    hg_handle_set_error(handle, HG_CANCELED);
    hg_handle_part_done(handle);
    return true;
}

void hg_flow_retry(hg_context_t *context)
{
    if (hg_context_refused_clear(context, &hg_rpc_context(context)->is_stalled))
        hg_flow_dispatch_all(context->hg_class, context, true);
}

void hg_flow_unref(struct hg_flow *flow)
{
    struct hg_flows *flows = &hg_rpc_class(flow->addr->hg_class)->flows;
    struct hg_flow **link;
    bool is_last;

    (void) pthread_mutex_lock(&flows->lock);
    is_last = --flow->ref == 0;
    if (is_last) {
        for (link = &flows->first; *link != flow; link = &(*link)->next)
            ;
        *link = flow->next;
        if (atomic_load(&flow->max) != HG_MAX_IN_FLIGHT_DEFAULT)
            flows->own_count--;
        hg_flows_update(flows);
    }
    (void) pthread_mutex_unlock(&flows->lock);
    if (!is_last)
        return;
    (void) HG_Addr_free(flow->addr->hg_class, flow->addr);
    (void) pthread_mutex_destroy(&flow->lock);
    free(flow);
}

/* Find or make the flow of an address, which holds a reference to it. */
static hg_return_t hg_flow_find(struct hg_addr *addr, struct hg_flow **flow_p)
{
    hg_class_t *hg_class = addr->hg_class;
    struct hg_flow *flow = atomic_load_explicit(&addr->flow, memory_order_acquire);

    if (flow == NULL) {
        (void) pthread_mutex_lock(&hg_rpc_class(hg_class)->flows.lock);
        flow = atomic_load_explicit(&addr->flow, memory_order_relaxed);
        if (flow == NULL) {
            for (flow = hg_rpc_class(hg_class)->flows.first; flow != NULL; flow = flow->next)
                if (HG_Addr_cmp(hg_class, flow->addr, addr))
                    break;
            if (flow == NULL)
                flow = hg_flow_new(addr);
            if (flow != NULL)
                flow->ref++;
            atomic_store_explicit(&addr->flow, flow, memory_order_release);
        }
        (void) pthread_mutex_unlock(&hg_rpc_class(hg_class)->flows.lock);
    }
    *flow_p = flow;
    if (flow != NULL)
        return HG_SUCCESS;
    HG_LOG_ERROR("cannot count RPCs in flight: out of memory");
    return HG_NOMEM;
}

/* hg_flows.lock is held. The flow's copy of the address holds no reference to the flow. */
static struct hg_flow *hg_flow_new(struct hg_addr *addr)
{
    struct hg_flows *flows = &hg_rpc_class(addr->hg_class)->flows;
    struct hg_flow *flow = calloc(1, sizeof(*flow));

    if (flow == NULL)
        return NULL;
    if (hg_addr_copy(addr->hg_class, addr, &flow->addr) != HG_SUCCESS) {
        free(flow);
        return NULL;
    }
    (void) pthread_mutex_init(&flow->lock, NULL);
    atomic_init(&flow->max, HG_MAX_IN_FLIGHT_DEFAULT);
    hg_waiting_init(&flow->waiting);
    flow->next = flows->first;
    flows->first = flow;
    return flow;
}

static uint32_t hg_flow_limit(const struct hg_flow *flow)
{
    const uint32_t max = atomic_load(&flow->max);

    return max != HG_MAX_IN_FLIGHT_DEFAULT
               ? max
               : atomic_load(&hg_rpc_class(flow->addr->hg_class)->flows.max);
}

/*
 * Start the forwards that wait, as far as the limit allows. One thread dispatches at a time; it
 * also sees what ends meanwhile, in other threads or in calls from here. Forwards of `context` may
 * be started by this thread, others by HG_Trigger() of their context.
 */
static void hg_flow_dispatch(struct hg_flow *flow, hg_context_t *context)
{
    struct hg_handle *handle;

    (void) pthread_mutex_lock(&flow->lock);
    if (!flow->is_dispatching) {
        flow->is_dispatching = true;
        while ((handle = hg_flow_next(flow)) != NULL) {
            (void) pthread_mutex_unlock(&flow->lock);
            if (handle->info.context == context &&
                atomic_load(&hg_rpc_context(context)->deferred_count) == 0)
                hg_forward_start_deferred(handle);
            else
                hg_forward_push_deferred(handle);
            (void) pthread_mutex_lock(&flow->lock);
        }
        flow->is_dispatching = false;
    }
    (void) pthread_mutex_unlock(&flow->lock);
}

/* Dequeue the next forward; NULL: none, or the limit is reached. The flow's lock is held. */
static struct hg_handle *hg_flow_next(struct hg_flow *flow)
{
    const uint32_t limit = hg_flow_limit(flow);
    struct hg_handle *handle = flow->waiting.first;

    if (handle == NULL || flow->is_stalled || (limit != 0 && flow->in_flight >= limit))
        return NULL;
    hg_flow_remove(flow, handle);
    handle->turn = HG_TURN_RUNNING;
    flow->in_flight++;
    return handle;
}

/* Dispatch all flows of a class, or only the stalled ones. */
static void hg_flow_dispatch_all(hg_class_t *hg_class, hg_context_t *context, bool only_stalled)
{
    struct hg_flow *flow = NULL;

    while ((flow = hg_flows_next(&hg_rpc_class(hg_class)->flows, flow)) != NULL) {
        bool is_wanted;

        (void) pthread_mutex_lock(&flow->lock);
        is_wanted = flow->is_stalled || !only_stalled;
        flow->is_stalled = false;
        (void) pthread_mutex_unlock(&flow->lock);
        if (is_wanted)
            hg_flow_dispatch(flow, context);
    }
}

/*
 * Iterate over the flows of a class, starting with NULL: takes a reference to the flow that it
 * returns, and drops the reference to the one before.
 */
static struct hg_flow *hg_flows_next(struct hg_flows *flows, struct hg_flow *flow)
{
    struct hg_flow *next;

    (void) pthread_mutex_lock(&flows->lock);
    next = flow != NULL ? flow->next : flows->first;
    if (next != NULL)
        next->ref++;
    (void) pthread_mutex_unlock(&flows->lock);
    if (flow != NULL)
        hg_flow_unref(flow);
    return next;
}

/*
 * The transport had no resources for a forward that was started: queue it again, for the next poll.
 * Returns false if the forward was cancelled or failed meanwhile. The flow's lock is held.
 */
static bool hg_flow_wait_again(struct hg_flow *flow, struct hg_handle *handle)
{
    const uint32_t ret = atomic_load(&handle->ret);

    handle->is_refused = false;
    if (atomic_load(&handle->is_canceled) || (ret != HG_SUCCESS && ret != HG_CANCELED)) {
        hg_handle_set_error(handle, HG_CANCELED);
        return false;
    }
    atomic_store(&handle->ret, HG_SUCCESS);
    hg_flow_add(flow, handle);
    flow->is_stalled = true;
    hg_context_refused_set(handle->info.context, &hg_rpc_context(handle->info.context)->is_stalled);
    return true;
}

/* The flow's lock is held. */
static void hg_flow_add(struct hg_flow *flow, struct hg_handle *handle)
{
    handle->turn = HG_TURN_WAITING;
    atomic_fetch_add_explicit(&hg_rpc_class(flow->addr->hg_class)->flows.waiting, 1,
                              memory_order_relaxed);
    hg_waiting_add(&flow->waiting, handle);
}

/* is_stalled is about the first forward, so it is reset with that. The flow's lock is held. */
static void hg_flow_remove(struct hg_flow *flow, struct hg_handle *handle)
{
    if (handle == flow->waiting.first)
        flow->is_stalled = false;
    hg_waiting_remove(&flow->waiting, handle);
    handle->turn = HG_TURN_NONE;
    atomic_fetch_sub_explicit(&hg_rpc_class(flow->addr->hg_class)->flows.waiting, 1,
                              memory_order_relaxed);
}

/* hg_flows.lock is held. */
static void hg_flows_update(struct hg_flows *flows)
{
    atomic_store(&flows->has_limits, atomic_load(&flows->max) != 0 || flows->own_count > 0);
}
