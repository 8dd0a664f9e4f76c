/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The origin's side of an RPC: send the request, receive the response, complete.
 *
 * The operation has two parts: the send and, unless the RPC is one-way, the receive, which is
 * posted first. The last part to end queues the completion. The tag of the receive holds the
 * handle's slot, which is unique in the context, and the low bits of a generation that changes with
 * each use (see generation.c), so that the response to a cancelled use matches no receive. The
 * cookie holds the next bits of the generation.
 */
#include "hg/forward.h"

#include "engine/auto_sm.h"
#include "engine/probes.h"
#include "hg/control.h"
#include "hg/counters.h"
#include "hg/deadline.h"
#include "hg/flow.h"
#include "hg/generation.h"
#include "hg/header.h"
#include "hg/loopback.h"
#include "hg/overflow.h"
#include "hg/payload.h"
#include "hg/remote.h"

#include <inttypes.h>

static UTIL_ALWAYS_INLINE void hg_forward_begin(struct hg_handle *handle, hg_cb_t callback,
                                                void *arg);
static inline void hg_forward_part_done(struct hg_handle *handle);
static void hg_forward_end(struct hg_handle *handle);
static void hg_forward_released(struct hg_handle *handle);
static hg_return_t hg_forward_cancel(struct hg_handle *handle);
static void hg_forward_expose_end(struct hg_handle *handle);
static void hg_forward_run_deferred(struct hg_completion *completion);
static hg_return_t hg_forward_refused_deferred(struct hg_handle *handle, hg_return_t ret);
static hg_return_t hg_forward_check(const struct hg_handle *handle);
static hg_return_t hg_forward_switch_path(struct hg_handle *handle);
static void hg_forward_failed(struct hg_handle *handle, na_return_t na_return);
static UTIL_ALWAYS_INLINE hg_return_t hg_forward_start(struct hg_handle *handle, size_t payload,
                                                       uint8_t flags, bool *is_draining_p);
static void hg_forward_cancel_unsent(struct hg_handle *handle);
static UTIL_ALWAYS_INLINE hg_return_t hg_forward_post(struct hg_handle *handle);
static UTIL_ALWAYS_INLINE hg_return_t hg_forward_send(struct hg_handle *handle, size_t size);
static void hg_forward_uncount(struct hg_handle *handle, size_t size);
static void hg_forward_drain(struct hg_handle *handle);
static void hg_forward_drained(struct hg_handle *handle);
static void hg_forward_new_tag(struct hg_handle *handle);
static void hg_forward_sent(const struct na_cb_info *info);
static void hg_forward_received(const struct na_cb_info *info);
static bool hg_forward_accept(struct hg_handle *handle, size_t size, hg_return_t *ret_p);
static hg_return_t hg_forward_post_again(struct hg_handle *handle);
static void hg_forward_no_output(struct hg_handle *handle, hg_return_t ret);
static bool hg_forward_discard(struct hg_handle *handle,
                               const struct hg_core_header_response *header, hg_return_t *ret_p);
static void hg_forward_fetched(struct hg_handle *handle, hg_return_t ret);
static void hg_forward_run(struct hg_completion *completion);

const struct hg_handle_kind hg_forward_kind = {
    .is_origin = true,
    .released = hg_forward_released,
    .ended = hg_forward_end,
    .cancel = hg_forward_cancel,
};

hg_return_t HG_Forward(hg_handle_t handle, hg_cb_t callback, void *arg, void *in_struct)
{
    bool is_draining = false;
    size_t payload;
    uint8_t flags;
    hg_return_t ret;

    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    ret = hg_forward_check(handle);
    if (ret != HG_SUCCESS)
        return ret;
    hg_handle_advance(handle, hg_origin_next, HG_HANDLE_IDLE, HG_EVENT_START);
    if (util_unlikely(handle->path !=
                      atomic_load_explicit(&handle->info.addr->path, memory_order_relaxed))) {
        ret = hg_forward_switch_path(handle);
        if (ret != HG_SUCCESS)
            goto error;
    }
    handle->out.has_payload = false;
    if (handle->out_extra.block != NULL)
        hg_extra_free(&handle->out_extra);
    ret = hg_payload_encode(handle, HG_INPUT, in_struct, &payload, &flags);
    if (ret != HG_SUCCESS)
        goto error;

    handle->no_response = atomic_load_explicit(&handle->rpc->no_response, memory_order_relaxed);
    hg_forward_begin(handle, callback, arg);
    HG_PROBE3(forward, handle, handle->info.id, payload);
    if (hg_loopback_applies(handle)) {
        ret = hg_loopback_forward(handle, payload, flags);
    } else if (util_likely(!atomic_load_explicit(
                   &hg_rpc_class(handle->info.hg_class)->flows.has_limits, memory_order_relaxed)) ||
               !hg_flow_enter(handle, payload, flags, &ret)) {
        ret = hg_forward_start(handle, payload, flags, &is_draining);
    }
    if (util_likely(ret == HG_SUCCESS))
        return ret; /* another thread may use the handle already */
    HG_PROBE2(forward__done, handle, ret);
    if (is_draining)
        return ret; /* likewise */
    hg_forward_expose_end(handle);
    if (util_unlikely(atomic_load_explicit(&handle->flow, memory_order_relaxed) != NULL))
        (void) hg_flow_leave(handle);
    atomic_fetch_sub_explicit(&handle->ref, 1, memory_order_relaxed);

error:
    if (handle->in_extra.block != NULL)
        hg_extra_free(&handle->in_extra);
    hg_handle_advance(handle, hg_origin_next, HG_HANDLE_ACTIVE, HG_EVENT_FAIL);
    return ret;
}

hg_return_t UTIL_COLD hg_forward_hello(struct hg_handle *handle, hg_cb_t callback, void *arg,
                                       size_t payload)
{
    bool is_draining = false;
    hg_return_t ret;

    hg_handle_advance(handle, hg_origin_next, HG_HANDLE_IDLE, HG_EVENT_START);
    handle->out.has_payload = false;
    handle->proc.has_bulk = false;
    handle->no_response = false;
    hg_forward_begin(handle, callback, arg);
    ret = hg_forward_start(handle, payload, HG_CORE_HEADER_HELLO, &is_draining);
    if (ret == HG_SUCCESS || is_draining)
        return ret;
    atomic_fetch_sub_explicit(&handle->ref, 1, memory_order_relaxed);
    hg_handle_advance(handle, hg_origin_next, HG_HANDLE_ACTIVE, HG_EVENT_FAIL);
    return ret;
}

static UTIL_ALWAYS_INLINE void hg_forward_begin(struct hg_handle *handle, hg_cb_t callback,
                                                void *arg)
{
    handle->callback = callback;
    handle->arg = arg;
    handle->completion.run = hg_forward_run;
    atomic_store_explicit(&handle->ret, HG_SUCCESS, memory_order_relaxed);
    atomic_store_explicit(&handle->is_canceled, false, memory_order_relaxed);
    hg_handle_ref(handle);
}

static inline void hg_forward_part_done(struct hg_handle *handle)
{
    if (hg_handle_part_drop(handle))
        hg_forward_end(handle);
}

static inline void hg_forward_end(struct hg_handle *handle)
{
    hg_forward_expose_end(handle);
    if (util_unlikely(atomic_load_explicit(&handle->flow, memory_order_relaxed) != NULL) &&
        hg_flow_leave(handle))
        return;
    if (util_unlikely(handle->is_deferred) && hg_remote_leave(handle))
        return;
    if (util_likely(atomic_load_explicit(&handle->state, memory_order_relaxed) == HG_HANDLE_ACTIVE))
        hg_context_push(handle->info.context, &handle->completion);
    else
        hg_forward_drained(handle);
}

/*
 * The timer was armed while the forward waited. It is disarmed first, because it cancels messages
 * and so must not fire while they are being posted.
 */
void UTIL_COLD hg_forward_start_deferred(struct hg_handle *handle)
{
    bool is_draining = false;
    hg_return_t ret;

    handle->completion.run = hg_forward_run;
    if (atomic_load(&handle->pending) >= HG_PENDING_TIMER) {
        if (!hg_context_disarm(handle->info.context, &handle->timer)) {
            hg_handle_set_error(handle,
                                atomic_load(&handle->is_canceled) ? HG_CANCELED : HG_TIMEOUT);
            hg_forward_part_done(handle);
            return;
        }
        atomic_store(&handle->pending, 1);
    }
    if (atomic_load(&handle->is_canceled)) {
        hg_handle_set_error(handle, HG_CANCELED);
        hg_forward_part_done(handle);
        return;
    }
    handle->is_deferred = true;
    ret = hg_forward_start(handle, handle->deferred_payload, handle->deferred_flags, &is_draining);
    if (ret == HG_SUCCESS)
        return;
    /* Nothing is posted, so the only part of the operation ends here. */
    if (ret == HG_AGAIN)
        handle->is_refused = true;
    else
        hg_handle_set_error(handle, ret);
    atomic_store(&handle->pending, 1);
    hg_forward_part_done(handle);
}

void UTIL_COLD hg_forward_push_deferred(struct hg_handle *handle)
{
    handle->completion.run = hg_forward_run_deferred;
    atomic_fetch_add(&hg_rpc_context(handle->info.context)->deferred_count, 1);
    hg_context_push(handle->info.context, &handle->completion);
}

static void hg_forward_run_deferred(struct hg_completion *completion)
{
    struct hg_handle *handle = util_container_of(completion, struct hg_handle, completion);
    hg_context_t *context = handle->info.context;

    hg_forward_start_deferred(handle);
    atomic_fetch_sub(&hg_rpc_context(context)->deferred_count, 1);
}

/*
 * The transport did not accept a send, but the receive is posted: the operation ends, or is queued
 * again, when the receive has ended.
 */
static hg_return_t UTIL_COLD hg_forward_refused_deferred(struct hg_handle *handle, hg_return_t ret)
{
    if (ret == HG_AGAIN)
        handle->is_refused = true;
    else
        hg_handle_set_error(handle, ret);
    if (handle->deferred_deadline_ms != 0)
        atomic_fetch_sub(&handle->pending, HG_PENDING_TIMER + 1);
    (void) hg_handle_cancel_msg(handle, &handle->out);
    hg_forward_part_done(handle);
    return HG_SUCCESS;
}

static void hg_forward_expose_end(struct hg_handle *handle)
{
    if (util_likely(!handle->is_exposing))
        return;
    handle->is_exposing = false;
    atomic_fetch_sub_explicit(&handle->info.context->exposing_count, 1, memory_order_relaxed);
}

static hg_return_t hg_forward_check(const struct hg_handle *handle)
{
    if (util_unlikely(handle == HG_HANDLE_NULL || !handle->is_origin ||
                      handle->info.addr == HG_ADDR_NULL)) {
        HG_LOG_ERROR("cannot forward handle %p: it has to be made by HG_Create() and to have an "
                     "address",
                     (const void *) handle);
        return HG_INVALID_ARG;
    }
    if (util_unlikely(handle->rpc == NULL)) {
        HG_LOG_ERROR("cannot forward handle %p: its RPC id is 0; give it an RPC by HG_Reset()",
                     (const void *) handle);
        return HG_FAULT;
    }
    if (!atomic_load_explicit(&handle->rpc->is_registered, memory_order_relaxed)) {
        HG_LOG_ERROR("cannot forward RPC %#" PRIx64
                     ": it was deregistered; call HG_Register() first",
                     handle->info.id);
        return HG_NOENTRY;
    }
    if (util_likely(atomic_load_explicit(&handle->state, memory_order_acquire) == HG_HANDLE_IDLE))
        return HG_SUCCESS;
    HG_LOG_ERROR("cannot forward RPC %#" PRIx64 ": an operation runs on its handle; wait for its "
                 "callback",
                 handle->info.id);
    return HG_BUSY;
}

/*
 * The address has moved to another path. The handle stays on its path if the program has a pointer
 * to the request's buffer, which the move would free: then the program has to call HG_Reset().
 */
static hg_return_t hg_forward_switch_path(struct hg_handle *handle)
{
    if (handle->is_buf_given)
        return HG_SUCCESS;
    return hg_handle_set_path(handle, hg_addr_get_path(handle->info.addr));
}

/* An unreachable peer may have been restarted: ask for a new session, and leave shared memory. */
static void hg_forward_failed(struct hg_handle *handle, na_return_t na_return)
{
    if (na_return == NA_HOSTUNREACH && handle->session != NULL)
        hg_remote_doubt(handle);
    if (na_return == NA_HOSTUNREACH && handle->path == HG_PATH_SM)
        hg_auto_sm_lost(handle->info.addr);
}

/*
 * Post the receive and send the request. After an error nothing is posted, or *is_draining_p is set
 * and the receive still has to end.
 */
static UTIL_ALWAYS_INLINE hg_return_t hg_forward_start(struct hg_handle *handle, size_t payload,
                                                       uint8_t flags, bool *is_draining_p)
{
    hg_context_t *context = handle->info.context;
    const uint32_t deadline_ms =
        util_likely(!handle->is_deferred) ? handle->deadline_ms : handle->deferred_deadline_ms;
    bool is_answered = !handle->no_response;
    hg_return_t ret;
    size_t size;

    if (util_unlikely((flags & HG_CORE_HEADER_HAS_SEAL) != 0) &&
        hg_remote_enter(handle, payload, flags, &ret))
        return ret;
    handle->is_exposing = handle->proc.has_bulk;
    if (util_unlikely(handle->is_exposing))
        atomic_fetch_add_explicit(&context->exposing_count, 1, memory_order_relaxed);
    if (handle->no_response)
        flags |= HG_CORE_HEADER_NO_RESPONSE;
    hg_forward_new_tag(handle);
    if (util_unlikely(handle->in_extra.block != NULL)) {
        flags |= HG_CORE_HEADER_MORE_DATA;
        ret = hg_overflow_expose(handle, &handle->in, &handle->in_extra,
                                 hg_msg_payload_offset(&handle->in, flags), &payload);
        if (ret != HG_SUCCESS)
            return ret;
        hg_count(&context->counters.req_extra);
        is_answered = true; /* by the acknowledgement at least */
    }
    size = hg_header_write_request(handle, flags, payload);

    atomic_store_explicit(&handle->pending, is_answered ? 2 : 1, memory_order_relaxed);
    if (util_unlikely(deadline_ms != 0))
        hg_deadline_begin(handle, deadline_ms);
    if (is_answered) {
        ret = hg_forward_post(handle);
        if (ret != HG_SUCCESS)
            return ret;
        /* A cancel by another thread found no receive if it came before. */
        if (util_unlikely(atomic_load(&handle->is_canceled))) {
            hg_forward_cancel_unsent(handle);
            if (deadline_ms != 0)
                hg_deadline_started(handle);
            return HG_SUCCESS;
        }
    }
    hg_count_own(&handle->req_count[handle->path]);
    hg_count_own_add(&handle->req_bytes, size - handle->in.header);
    ret = hg_forward_send(handle, size);
    if (util_unlikely(ret != HG_SUCCESS))
        hg_forward_uncount(handle, size);
    if (util_unlikely(ret == HG_AGAIN) && (handle->in.flags & HG_CORE_HEADER_HAS_SEAL))
        hg_session_unsend(handle->session, handle->number);
    if (util_unlikely(ret != HG_SUCCESS) && is_answered && handle->is_deferred)
        return hg_forward_refused_deferred(handle, ret);
    if (util_unlikely(ret != HG_SUCCESS) && is_answered) {
        *is_draining_p = true;
        hg_forward_drain(handle);
    }
    if (util_unlikely(deadline_ms != 0) && (ret == HG_SUCCESS || is_answered))
        hg_deadline_started(handle);
    /*
     * The send may already have completed or need another poll, and a thread woken now is polling
     * when the response arrives.
     */
    hg_context_wake(context);
    return ret;
}

/* The forward was cancelled before its request was sent: only the receive has to end. */
static void hg_forward_cancel_unsent(struct hg_handle *handle)
{
    hg_handle_set_error(handle, HG_CANCELED);
    (void) NA_Cancel(hg_handle_path(handle)->na_class, hg_handle_na_context(handle),
                     handle->out.op);
    hg_forward_part_done(handle);
}

static UTIL_ALWAYS_INLINE hg_return_t hg_forward_post(struct hg_handle *handle)
{
    const struct hg_class_path *path = hg_handle_path(handle);
    na_return_t na_return;

    na_return = NA_Msg_recv_expected(path->na_class, hg_handle_na_context(handle),
                                     hg_forward_received, handle, handle->out.buf, handle->out.size,
                                     handle->out.plugin_data, hg_handle_na_addr(handle),
                                     handle->info.context_id, handle->tag, handle->out.op);
    if (util_unlikely(na_return != NA_SUCCESS)) {
        hg_forward_failed(handle, na_return);
        HG_LOG_ERROR("cannot post the receive for RPC %#" PRIx64 ": %s", handle->info.id,
                     NA_Error_to_string(na_return));
    }
    return hg_return_from_na(na_return);
}

static UTIL_ALWAYS_INLINE hg_return_t hg_forward_send(struct hg_handle *handle, size_t size)
{
    const struct hg_class_path *path = hg_handle_path(handle);
    na_return_t na_return;

    na_return = NA_Msg_send_unexpected(path->na_class, hg_handle_na_context(handle),
                                       hg_forward_sent, handle, handle->in.buf, size,
                                       handle->in.plugin_data, hg_handle_na_addr(handle),
                                       handle->info.context_id, handle->tag, handle->in.op);
    if (util_likely(na_return == NA_SUCCESS))
        return HG_SUCCESS;
    hg_count(&handle->info.context->counters.send_error);
    hg_forward_failed(handle, na_return);
    if (na_return != NA_AGAIN)
        HG_LOG_ERROR("cannot send RPC %#" PRIx64 ": %s", handle->info.id,
                     NA_Error_to_string(na_return));
    return hg_return_from_na(na_return);
}

/*
 * The request is counted before it is sent, because another thread may use the handle afterwards:
 * take that back.
 */
static void UTIL_COLD hg_forward_uncount(struct hg_handle *handle, size_t size)
{
    hg_count_own_add(&handle->req_count[handle->path], UINT64_MAX);
    hg_count_own_add(&handle->req_bytes, UINT64_C(0) - (size - handle->in.header));
    if (handle->in_extra.block != NULL)
        hg_count_add(&handle->info.context->counters.req_extra, UINT64_MAX);
}

/* The request was not sent, but its receive is posted: cancel that, without a callback. */
static void hg_forward_drain(struct hg_handle *handle)
{
    hg_context_op_begin(handle->info.context);
    hg_handle_advance(handle, hg_origin_next, HG_HANDLE_ACTIVE, HG_EVENT_DRAIN);
    (void) NA_Cancel(hg_handle_path(handle)->na_class, hg_handle_na_context(handle),
                     handle->out.op);
    hg_forward_part_done(handle);
}

static void hg_forward_drained(struct hg_handle *handle)
{
    hg_context_t *context = handle->info.context;

    hg_extra_free(&handle->in_extra);
    hg_handle_advance(handle, hg_origin_next, HG_HANDLE_DRAINING, HG_EVENT_END);
    hg_handle_unref(handle);
    hg_context_op_end(context);
}

static void hg_forward_new_tag(struct hg_handle *handle)
{
    const struct hg_tag_layout *tags = hg_handle_tags(handle);

    handle->generation = hg_generation_after(handle);
    handle->tag = ((na_tag_t) handle->generation & tags->generation_mask) << tags->slot_bits;
    handle->tag |= handle->slot;
    handle->cookie = (uint32_t) (handle->generation >> tags->generation_bits) & HG_COOKIE_MASK;
}

static void hg_forward_sent(const struct na_cb_info *info)
{
    struct hg_handle *handle = info->arg;

    if (util_unlikely(info->ret != NA_SUCCESS)) {
        if (info->ret != NA_CANCELED)
            hg_count(&handle->info.context->counters.send_error);
        hg_forward_failed(handle, info->ret);
        hg_handle_set_error(handle, hg_return_from_na(info->ret));
        /* No response will come. For a one-way RPC there is no receive to cancel. */
        (void) hg_handle_cancel_msg(handle, &handle->out);
    }
    hg_forward_part_done(handle);
}

static void hg_forward_received(const struct na_cb_info *info)
{
    struct hg_handle *handle = info->arg;
    hg_return_t ret;

    if (util_likely(info->ret == NA_SUCCESS)) {
        if (!hg_forward_accept(handle, info->info.recv_expected.actual_buf_size, &ret))
            return;
    } else {
        hg_generation_mark_stale(handle);
        hg_forward_failed(handle, info->ret);
        ret = hg_return_from_na(info->ret);
        if (ret == HG_CANCELED && atomic_load(&handle->is_canceled) &&
            atomic_load(&handle->state) == HG_HANDLE_ACTIVE)
            hg_control_send_abandon(handle);
    }
    if (util_unlikely(ret != HG_SUCCESS))
        hg_handle_set_error(handle, ret);
    hg_forward_part_done(handle);
}

/*
 * Process a response. Returns false if the receive part of the operation has not ended: it waits
 * for another response, or for the output to be fetched.
 */
static bool hg_forward_accept(struct hg_handle *handle, size_t size, hg_return_t *ret_p)
{
    struct hg_core_header_response header;

    *ret_p = hg_header_read_response(handle, size, &header);
    if (util_unlikely(*ret_p != HG_SUCCESS))
        return hg_forward_discard(handle, &header, ret_p);
    if (util_unlikely(hg_header_cookie(header.cookie, header.cookie_high) != handle->cookie)) {
        hg_count(&handle->info.context->counters.late_response);
        HG_LOG_DEBUG("dropped a late response of RPC %#" PRIx64, handle->info.id);
        handle->out.has_payload = false;
        *ret_p = hg_forward_post_again(handle);
        return *ret_p != HG_SUCCESS;
    }
    *ret_p = (hg_return_t) header.ret_code;
    if (header.hg == HG_CORE_ACK_MAGIC) {
        hg_forward_no_output(handle, *ret_p);
        return true;
    }
    hg_count_own(&handle->resp_count);
    hg_count_own_add(&handle->resp_bytes, size - handle->out.header);
    if (util_likely(!(header.flags & HG_CORE_HEADER_MORE_DATA))) {
        if (util_unlikely(header.ret_code != HG_SUCCESS))
            hg_forward_no_output(handle, *ret_p);
        return true;
    }
    *ret_p = hg_overflow_fetch(handle, hg_forward_fetched);
    if (*ret_p == HG_SUCCESS)
        return false;
    handle->out.has_payload = false;
    hg_control_send_ack(handle, *ret_p);
    return true;
}

/*
 * The response has no output. HG_PERMISSION may mean that the target has a key and we have none, or
 * that its handler returned it.
 */
static void UTIL_COLD hg_forward_no_output(struct hg_handle *handle, hg_return_t ret)
{
    struct hg_rpc_class *rpc_class = hg_rpc_class(handle->info.hg_class);

    handle->out.has_payload = false;
    if (ret != HG_PERMISSION || rpc_class->has_key)
        return;
    HG_LOG_WRITE(atomic_exchange_explicit(&rpc_class->has_warned_of_key, true, memory_order_relaxed)
                     ? NA_LOG_LEVEL_DEBUG
                     : NA_LOG_LEVEL_WARNING,
                 "a peer refused RPC %#" PRIx64
                 ": it has a key (auth_key) and we have none, or its handler returned "
                 "HG_PERMISSION",
                 handle->info.id);
}

/*
 * A response was refused. One that is sealed for another request, or late, does not end the receive
 * part: then this returns false.
 */
static bool UTIL_COLD hg_forward_discard(struct hg_handle *handle,
                                         const struct hg_core_header_response *header,
                                         hg_return_t *ret_p)
{
    const bool is_read = *ret_p == HG_AGAIN || *ret_p == HG_PERMISSION || *ret_p == HG_HOSTUNREACH;
    const bool is_late =
        is_read && hg_header_cookie(header->cookie, header->cookie_high) != handle->cookie;

    handle->out.has_payload = false;
    if (is_late || *ret_p == HG_AGAIN) {
        hg_count(is_late ? &handle->info.context->counters.late_response
                         : &handle->info.context->counters.refused_key);
        *ret_p = hg_forward_post_again(handle);
        return *ret_p != HG_SUCCESS;
    }
    if (*ret_p == HG_HOSTUNREACH)
        hg_remote_doubt(handle);
    hg_generation_mark_stale(handle);
    return true;
}

/*
 * Under the lock, so that a cancel either finds the receive or keeps it from being posted. The
 * receive may complete at once in another thread: one more part keeps the operation from ending
 * before the lock is released.
 */
static hg_return_t hg_forward_post_again(struct hg_handle *handle)
{
    hg_return_t ret = HG_CANCELED;

    atomic_fetch_add(&handle->pending, 1);
    (void) pthread_mutex_lock(&handle->lock);
    if (!atomic_load(&handle->is_canceled))
        ret = hg_forward_post(handle);
    (void) pthread_mutex_unlock(&handle->lock);
    if (ret == HG_SUCCESS) {
        hg_forward_part_done(handle);
        return HG_SUCCESS;
    }
    atomic_fetch_sub(&handle->pending, 1);
    hg_generation_mark_stale(handle);
    if (ret == HG_CANCELED)
        hg_control_send_abandon(handle);
    return ret;
}

/* The fetch of a large output ended. */
static void hg_forward_fetched(struct hg_handle *handle, hg_return_t ret)
{
    hg_control_send_ack(handle, ret);
    if (ret != HG_SUCCESS) {
        handle->out.has_payload = false;
        hg_handle_set_error(handle, ret);
    }
    hg_forward_part_done(handle);
}

static hg_return_t hg_forward_cancel(struct hg_handle *handle)
{
    hg_return_t ret;

    /* A thread that starts a part of the operation later than the checks below sees the flag. */
    atomic_store(&handle->is_canceled, true);
    if (hg_loopback_applies(handle)) {
        hg_loopback_cancel(handle);
        return HG_SUCCESS;
    }
    if (hg_flow_cancel(handle) || hg_remote_cancel(handle))
        return HG_SUCCESS;
    ret = hg_handle_cancel_msg(handle, &handle->out);
    (void) hg_handle_cancel_msg(handle, &handle->in);
    hg_overflow_cancel(handle);
    /* A sleeping thread has to poll for what was cancelled. */
    hg_context_wake(handle->info.context);
    return ret;
}

static void hg_forward_released(struct hg_handle *handle)
{
    hg_handle_advance_any(handle, hg_origin_next, HG_EVENT_RELEASE);
    if (handle->data_free != NULL)
        handle->data_free(handle->data);
    handle->data = NULL;
    handle->data_free = NULL;
    if (handle->info.addr != HG_ADDR_NULL)
        (void) HG_Addr_free(handle->info.hg_class, handle->info.addr);
    handle->info.addr = HG_ADDR_NULL;
    if (util_unlikely(handle->session != NULL)) {
        hg_session_unref(handle->session);
        handle->session = NULL;
    }
    handle->rpc = NULL;
    handle->info.id = 0;
    handle->is_buf_given = false;
    hg_pool_put(hg_handle_pool(handle), handle);
}

static void hg_forward_run(struct hg_completion *completion)
{
    struct hg_handle *handle = util_container_of(completion, struct hg_handle, completion);
    const struct hg_cb_info info = {
        .info.forward.handle = handle,
        .arg = handle->arg,
        .type = HG_CB_FORWARD,
        .ret = (hg_return_t) atomic_load_explicit(&handle->ret, memory_order_relaxed),
    };
    hg_cb_t callback = handle->callback;

    HG_PROBE2(forward__done, handle, info.ret);
    if (util_likely(info.ret == HG_SUCCESS))
        hg_count_own(&handle->done_count);
    else if (!(handle->in.flags & HG_CORE_HEADER_HELLO))
        hg_counters_forward_failed(handle->info.context, info.ret);
    if (util_unlikely(handle->in_extra.block != NULL))
        hg_extra_free(&handle->in_extra);
    hg_handle_advance(handle, hg_origin_next, HG_HANDLE_ACTIVE, HG_EVENT_END);
    if (callback != NULL) {
        hg_return_t ret = callback(&info);

        if (util_unlikely(ret != HG_SUCCESS))
            HG_LOG_WARNING("the callback of a forwarded RPC returned %s", HG_Error_to_string(ret));
    }
    hg_handle_unref(handle);
}
