/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's side of a request: post receives, check the requests that arrive, and call their
 * handlers.
 *
 * A context has many handles for requests, but posts only a window of them at a time, so that few
 * handles are reused and stay in the cache; the transport queues further requests. A handle that is
 * released is posted again if the window is not full, otherwise it goes back to the pool.
 */
#include "hg/recv.h"

#include "engine/probes.h"
#include "engine/progress.h"
#include "hg/control.h"
#include "hg/header.h"
#include "hg/loopback.h"
#include "hg/overflow.h"
#include "hg/respond.h"

#include <inttypes.h>

/* With fewer receives posted the pool grows; otherwise only free handles are posted. */
#define HG_WINDOW_LOW(window) (((window) + 3) / 4)

/* Nanoseconds that hg_recv_stop() waits for cancelled receives. */
#define HG_STOP_NS UINT64_C(30000000000)

static void hg_recv_released(struct hg_handle *handle);
static void hg_recv_recycle(struct hg_handle *handle);
static void hg_recv_set_lacking(hg_context_t *context);
static hg_return_t hg_recv_post(struct hg_handle *handle);
static int32_t hg_recv_count(hg_context_t *context, uint8_t path, int32_t change);
static void hg_recv_done(const struct na_cb_info *info);
static void hg_recv_failed(struct hg_handle *handle, na_return_t na_return);
static hg_return_t hg_recv_accept(struct hg_handle *handle, const struct na_cb_info *info);
static hg_return_t hg_recv_refuse(struct hg_handle *handle,
                                  const struct hg_core_header_request *header, hg_return_t ret);
static void hg_recv_hello(struct hg_handle *handle);
static void hg_recv_fetched(struct hg_handle *handle, hg_return_t ret);
static void hg_recv_refuse_unknown(struct hg_handle *handle);
static void hg_recv_run(struct hg_completion *completion);
static uint32_t hg_recv_find_unanswered(struct hg_pool *pool, bool release);
static bool hg_recv_is_stopped(hg_context_t *context);
static void hg_recv_cancel_all(hg_context_t *context, enum hg_path path);

const struct hg_handle_kind hg_recv_kind = {
    .is_origin = false,
    .released = hg_recv_released,
    .ended = hg_respond_ended,
    .cancel = hg_respond_cancel,
};

hg_return_t HG_Context_unpost(hg_context_t *context)
{
    hg_return_t ret;

    if (!hg_context_is_usable(context))
        return hg_context_refuse(context, __func__);
    ret = hg_recv_stop(context);
    hg_context_rearm(context);
    return ret;
}

hg_return_t hg_recv_fill(hg_context_t *context, enum hg_path path)
{
    struct hg_rpc_context *rpc_context = hg_rpc_context(context);
    hg_return_t ret = HG_SUCCESS;

    while (ret == HG_SUCCESS && atomic_load(&rpc_context->is_receiving) &&
           atomic_load(&rpc_context->posted[path]) < rpc_context->window) {
        const int32_t posted = atomic_load(&rpc_context->posted[path]);
        uint32_t step = posted < HG_WINDOW_LOW(rpc_context->window)
                            ? hg_rpc_class(context->hg_class)->post_incr
                            : 0;
        struct hg_handle *handle = hg_pool_get(&rpc_context->targets[path], step, &ret);

        if (handle == NULL)
            break;
        ret = hg_recv_post(handle);
    }
    if (util_unlikely(ret != HG_SUCCESS) && atomic_load(&rpc_context->posted[path]) == 0)
        hg_recv_set_lacking(context);
    return ret;
}

void hg_recv_retry(hg_context_t *context)
{
    int path;

    if (!hg_context_refused_clear(context, &hg_rpc_context(context)->lacks_receives))
        return;
    for (path = 0; path < HG_PATH_MAX; path++)
        if (context->na_context[path] != NULL)
            (void) hg_recv_fill(context, (enum hg_path) path);
}

static void hg_recv_released(struct hg_handle *handle)
{
    hg_handle_advance_any(handle, hg_target_next, HG_EVENT_RELEASE);
    if (util_unlikely(atomic_load_explicit(&handle->self, memory_order_relaxed) != HG_SELF_NONE))
        hg_loopback_release(handle);
    hg_recv_recycle(handle);
}

/* Post the receive of a released handle, or give it back to its pool. */
static void hg_recv_recycle(struct hg_handle *handle)
{
    struct hg_rpc_context *context = hg_rpc_context(handle->info.context);

    if (util_unlikely(handle->session != NULL)) {
        hg_session_unref(handle->session);
        handle->session = NULL;
    }
    if (handle->source.na_addr[handle->path] != NULL) {
        NA_Addr_free(hg_handle_path(handle)->na_class, handle->source.na_addr[handle->path]);
        handle->source.na_addr[handle->path] = NULL;
    }
    handle->rpc = NULL;
    if (atomic_load_explicit(&context->is_receiving, memory_order_relaxed) &&
        atomic_load_explicit(&context->posted[handle->path], memory_order_relaxed) <
            context->window)
        (void) hg_recv_post(handle);
    else
        hg_pool_put(&context->targets[handle->path], handle);
}

hg_return_t hg_recv_stop(hg_context_t *context)
{
    uint64_t start = hg_clock_ns();
    hg_return_t ret = HG_SUCCESS;
    int path;

    atomic_store(&hg_rpc_context(context)->is_receiving, false);
    while (!hg_recv_is_stopped(context)) {
        for (path = 0; path < HG_PATH_MAX; path++)
            if (atomic_load(&hg_rpc_context(context)->posted[path]) > 0)
                hg_recv_cancel_all(context, (enum hg_path) path);
        ret = hg_context_poll(context);
        if (ret != HG_SUCCESS && ret != HG_TIMEOUT)
            return ret;
        if (hg_clock_ns() - start > HG_STOP_NS) {
            HG_LOG_ERROR("cannot stop receiving: the transport does not cancel its receives");
            return HG_TIMEOUT;
        }
    }
    return HG_SUCCESS;
}

bool hg_recv_release_unanswered(hg_context_t *context)
{
    uint32_t count = 0;
    int path;

    for (path = 0; path < HG_PATH_MAX; path++)
        count += hg_recv_find_unanswered(&hg_rpc_context(context)->targets[path], false);
    if (count != hg_pools_count(hg_rpc_context(context)->targets))
        return false;
    for (path = 0; path < HG_PATH_MAX; path++)
        (void) hg_recv_find_unanswered(&hg_rpc_context(context)->targets[path], true);
    return true;
}

/* Count the requests that were destroyed without a response, and optionally release them. */
static uint32_t hg_recv_find_unanswered(struct hg_pool *pool, bool release)
{
    struct hg_handle *handle;
    uint32_t count = 0;

    (void) pthread_mutex_lock(&pool->lock);
    handle = pool->all;
    (void) pthread_mutex_unlock(&pool->lock);
    for (; handle != NULL; handle = handle->next_all) {
        if (!hg_handle_is_unanswered(handle))
            continue;
        count++;
        if (!release)
            continue;
        HG_LOG_WARNING("RPC %#" PRIx64 " ends without a response: its handle was destroyed, and "
                       "now its context is",
                       handle->info.id);
        hg_handle_unref(handle);
    }
    return count;
}

void hg_recv_restart(hg_context_t *context)
{
    int path;

    atomic_store(&hg_rpc_context(context)->is_receiving, true);
    for (path = 0; path < HG_PATH_MAX; path++)
        if (context->na_context[path] != NULL)
            (void) hg_recv_fill(context, (enum hg_path) path);
}

void hg_recv_dispatch(struct hg_handle *handle)
{
    handle->completion.run = hg_recv_run;
    hg_context_push(handle->info.context, &handle->completion);
}

/* No receive is posted, so no request will cause the next one to be posted: progress has to. */
static void UTIL_COLD hg_recv_set_lacking(hg_context_t *context)
{
    if (atomic_load(&hg_rpc_context(context)->is_receiving))
        hg_context_refused_set(context, &hg_rpc_context(context)->lacks_receives);
}

/* Post the receive of a handle; after an error the handle is back in its pool. */
static hg_return_t hg_recv_post(struct hg_handle *handle)
{
    const struct hg_class_path *path = hg_handle_path(handle);
    hg_context_t *context = handle->info.context;
    const uint8_t path_index = handle->path;
    na_return_t na_return;
    int32_t posted;

    posted = hg_recv_count(context, path_index, 1) - 1;
    hg_handle_advance(handle, hg_target_next, HG_HANDLE_UNUSED, HG_EVENT_POST);
    na_return = NA_Msg_recv_unexpected(path->na_class, hg_handle_na_context(handle), hg_recv_done,
                                       handle, handle->in.buf, handle->in.size,
                                       handle->in.plugin_data, handle->in.op);
    if (util_likely(na_return == NA_SUCCESS)) {
        if (util_unlikely(posted == 0))
            hg_context_wake(context); /* the transport may have queued requests */
        return HG_SUCCESS;
    }
    HG_LOG_WARNING("cannot post a receive for requests: %s", NA_Error_to_string(na_return));
    hg_handle_advance(handle, hg_target_next, HG_HANDLE_POSTED, HG_EVENT_ARRIVE);
    hg_pool_put(&hg_rpc_context(context)->targets[path_index], handle);
    if (atomic_fetch_sub(&hg_rpc_context(context)->posted[path_index], 1) == 1)
        hg_recv_set_lacking(context);
    return hg_return_from_na(na_return);
}

/* Change the number of posted receives, and return it. */
static inline int32_t hg_recv_count(hg_context_t *context, uint8_t path, int32_t change)
{
    int32_t posted;

    if (!context->hg_class->is_single_thread)
        return atomic_fetch_add_explicit(&hg_rpc_context(context)->posted[path], change,
                                         memory_order_relaxed) +
               change;
    posted =
        atomic_load_explicit(&hg_rpc_context(context)->posted[path], memory_order_relaxed) + change;
    atomic_store_explicit(&hg_rpc_context(context)->posted[path], posted, memory_order_relaxed);
    return posted;
}

static void hg_recv_done(const struct na_cb_info *info)
{
    struct hg_handle *handle = info->arg;
    hg_context_t *context = handle->info.context;
    uint8_t path = handle->path;
    int32_t posted;

    hg_handle_advance(handle, hg_target_next, HG_HANDLE_POSTED, HG_EVENT_ARRIVE);
    posted = hg_recv_count(context, path, -1);
    if (util_unlikely(info->ret != NA_SUCCESS))
        hg_recv_failed(handle, info->ret);
    else if (util_unlikely(hg_recv_accept(handle, info) != HG_SUCCESS))
        hg_recv_recycle(handle);
    if (util_unlikely(posted < HG_WINDOW_LOW(hg_rpc_context(context)->window)))
        (void) hg_recv_fill(context, (enum hg_path) path);
}

static void hg_recv_failed(struct hg_handle *handle, na_return_t na_return)
{
    if (na_return == NA_CANCELED ||
        !atomic_load(&hg_rpc_context(handle->info.context)->is_receiving)) {
        hg_pool_put(&hg_rpc_context(handle->info.context)->targets[handle->path], handle);
        return;
    }
    hg_count(&handle->info.context->counters.refused_header);
    HG_LOG_WARNING("receiving a request failed: %s", NA_Error_to_string(na_return));
    hg_recv_recycle(handle);
}

/* Process a request. After an error the caller recycles the handle. */
static hg_return_t hg_recv_accept(struct hg_handle *handle, const struct na_cb_info *info)
{
    struct hg_core_header_request header;
    hg_return_t ret;

    handle->source.na_addr[handle->path] = info->info.recv_unexpected.source;
    handle->source.is_self = false;
    ret = hg_header_read_request(handle, info->info.recv_unexpected.actual_buf_size,
                                 info->info.recv_unexpected.tag, &header);
    if (util_unlikely(ret != HG_SUCCESS && ret != HG_PERMISSION && ret != HG_HOSTUNREACH))
        return ret;
    handle->deadline_ms =
        atomic_load_explicit(&handle->info.hg_class->deadline_ms, memory_order_relaxed);
    handle->tag = info->info.recv_unexpected.tag;
    handle->cookie = hg_header_cookie(header.cookie, header.cookie_high);
    handle->info.id = header.id;
    handle->info.context_id = header.origin;
    if (util_unlikely(ret != HG_SUCCESS))
        return hg_recv_refuse(handle, &header, ret);
    if (util_unlikely(header.hg == HG_CORE_ABANDON_MAGIC)) {
        hg_control_recv_abandon(handle);
        return HG_CANCELED;
    }
    if (util_unlikely((header.flags & HG_CORE_HEADER_HELLO) != 0)) {
        hg_recv_hello(handle);
        return HG_SUCCESS;
    }

    hg_count_own(&handle->req_count[handle->path]);
    hg_count_own_add(&handle->req_bytes,
                     info->info.recv_unexpected.actual_buf_size - handle->in.header);
    HG_PROBE3(request, handle, handle->info.id, info->info.recv_unexpected.actual_buf_size);
    handle->no_response = (header.flags & HG_CORE_HEADER_NO_RESPONSE) != 0;
    handle->out.has_payload = false;
    atomic_store_explicit(&handle->ref, 1, memory_order_relaxed);
    handle->rpc = hg_registry_find(&hg_rpc_class(handle->info.hg_class)->registry, header.id);
    if (util_unlikely(handle->rpc == NULL)) {
        hg_recv_refuse_unknown(handle);
        return HG_SUCCESS;
    }
    if (util_likely(!(header.flags & HG_CORE_HEADER_MORE_DATA))) {
        hg_recv_dispatch(handle);
        return HG_SUCCESS;
    }
    ret = hg_overflow_fetch(handle, hg_recv_fetched);
    if (ret != HG_SUCCESS)
        hg_respond_error(handle, ret);
    return HG_SUCCESS;
}

/* The sender has another key, or no session: respond so, without calling a handler. */
static hg_return_t UTIL_COLD hg_recv_refuse(struct hg_handle *handle,
                                            const struct hg_core_header_request *header,
                                            hg_return_t ret)
{
    handle->in.has_payload = false;
    if (header->hg != HG_CORE_REQUEST_MAGIC)
        return ret;
    handle->no_response = (header->flags & HG_CORE_HEADER_NO_RESPONSE) != 0;
    handle->out.has_payload = false;
    atomic_store_explicit(&handle->ref, 1, memory_order_relaxed);
    hg_respond_error(handle, ret);
    return HG_SUCCESS;
}

static void UTIL_COLD hg_recv_hello(struct hg_handle *handle)
{
    handle->no_response = false;
    handle->out.has_payload = false;
    atomic_store_explicit(&handle->ref, 1, memory_order_relaxed);
    handle->completion.run = hg_rpc_class(handle->info.hg_class)->answer_hello;
    hg_context_push(handle->info.context, &handle->completion);
}

/* The fetch of a large input ended; called by HG_Trigger(). */
static void hg_recv_fetched(struct hg_handle *handle, hg_return_t ret)
{
    if (ret != HG_SUCCESS) {
        HG_LOG_ERROR("cannot fetch the input of RPC %#" PRIx64 ": %s", handle->info.id,
                     HG_Error_to_string(ret));
        handle->in.has_payload = false;
        hg_respond_error(handle, ret);
        return;
    }
    if (handle->no_response)
        hg_control_send_ack(handle, HG_SUCCESS);
    hg_recv_run(&handle->completion);
}

static void hg_recv_refuse_unknown(struct hg_handle *handle)
{
    HG_LOG_WRITE(hg_count_level(&handle->info.context->counters.unknown_rpc),
                 "a request came for RPC %#" PRIx64 ", which is not registered here",
                 handle->info.id);
    hg_respond_error(handle, HG_NOENTRY);
}

/* Call the handler of a request to which the library has the only reference. */
static void hg_recv_run(struct hg_completion *completion)
{
    struct hg_handle *handle = util_container_of(completion, struct hg_handle, completion);
    hg_rpc_cb_t rpc_cb = atomic_load_explicit(&handle->rpc->rpc_cb, memory_order_relaxed);
    uint32_t state;
    hg_return_t ret;

    if (util_unlikely(atomic_load_explicit(&handle->self, memory_order_relaxed) != HG_SELF_NONE)) {
        uint32_t queued = HG_SELF_QUEUED;

        if (!atomic_compare_exchange_strong(&handle->self, &queued, HG_SELF_RUNNING)) {
            hg_handle_unref(handle);
            return;
        }
    }
    if (util_unlikely(rpc_cb == NULL)) {
        hg_recv_refuse_unknown(handle);
        return;
    }
    /* References: the program, this call, and the response unless the RPC is one-way. */
    atomic_store_explicit(&handle->ref, handle->no_response ? 2 : 3, memory_order_relaxed);
    hg_handle_advance(handle, hg_target_next, HG_HANDLE_UNUSED, HG_EVENT_HAND_OVER);
    ret = rpc_cb(handle);
    if (util_likely(ret == HG_SUCCESS)) {
        hg_handle_unref(handle);
        return;
    }
    state = HG_HANDLE_IDLE;
    HG_LOG_ERROR("the handler of RPC %#" PRIx64 " returned %s", handle->info.id,
                 HG_Error_to_string(ret));
    /* A handler that keeps its handle may still respond. */
    if (!handle->no_response && atomic_load(&handle->ref) == 2 &&
        atomic_compare_exchange_strong(&handle->state, &state,
                                       hg_target_next[HG_HANDLE_IDLE][HG_EVENT_REFUSE])) {
        atomic_store(&handle->ref, 1);
        hg_respond_error(handle, ret);
    } else {
        hg_handle_unref(handle);
    }
}

static bool hg_recv_is_stopped(hg_context_t *context)
{
    int path;

    for (path = 0; path < HG_PATH_MAX; path++)
        if (atomic_load(&hg_rpc_context(context)->posted[path]) > 0)
            return false;
    return true;
}

/* Only the state of each handle says whether its receive is posted. */
static void hg_recv_cancel_all(hg_context_t *context, enum hg_path path)
{
    struct hg_handle *handle;

    (void) pthread_mutex_lock(&hg_rpc_context(context)->targets[path].lock);
    handle = hg_rpc_context(context)->targets[path].all;
    (void) pthread_mutex_unlock(&hg_rpc_context(context)->targets[path].lock);
    for (; handle != NULL; handle = handle->next_all)
        if (atomic_load_explicit(&handle->state, memory_order_relaxed) == HG_HANDLE_POSTED)
            (void) NA_Cancel(context->hg_class->paths[path].na_class, context->na_context[path],
                             handle->in.op);
}
