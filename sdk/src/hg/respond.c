/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's side of a response: send it, and if the output does not fit the message wait until
 * the origin has fetched it.
 */
#include "hg/respond.h"

#include "engine/probes.h"
#include "hg/control.h"
#include "hg/deadline.h"
#include "hg/header.h"
#include "hg/loopback.h"
#include "hg/overflow.h"
#include "hg/payload.h"

#include <inttypes.h>

static struct hg_handle *hg_respond_take_refused(struct hg_refusals *refusals);
static bool hg_respond_defer(struct hg_handle *handle, hg_return_t ret_code);
static uint8_t hg_respond_flags(const struct hg_handle *handle);
static hg_return_t hg_respond_check(const struct hg_handle *handle);
static hg_return_t hg_respond_start(struct hg_handle *handle, uint16_t magic, hg_return_t ret_code,
                                    size_t payload, uint8_t flags);
static hg_return_t hg_respond_expose(struct hg_handle *handle, uint8_t flags, size_t *payload_p,
                                     bool *is_abandoned_p);
static void hg_respond_drop_output(struct hg_handle *handle);
static hg_return_t hg_respond_post_ack(struct hg_handle *handle);
static hg_return_t hg_respond_post_ack_again(struct hg_handle *handle);
static void hg_respond_cancel_ack(struct hg_handle *handle);
static void hg_respond_sent(const struct na_cb_info *info);
static void hg_respond_acknowledged(const struct na_cb_info *info);
static bool hg_respond_skip_ack(struct hg_handle *handle,
                                const struct hg_core_header_response *header, hg_return_t *ret_p);
static void hg_respond_run(struct hg_completion *completion);

hg_return_t HG_Respond(hg_handle_t handle, hg_cb_t callback, void *arg, void *out_struct)
{
    size_t payload;
    uint8_t flags;
    hg_return_t ret;

    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    ret = hg_respond_check(handle);
    if (ret != HG_SUCCESS)
        return ret;
    /* The operation uses the reference that hg_recv_run() took for the response. */
    hg_handle_advance(handle, hg_target_next, HG_HANDLE_IDLE, HG_EVENT_START);
    ret = hg_payload_encode(handle, HG_OUTPUT, out_struct, &payload, &flags);
    if (ret != HG_SUCCESS)
        goto error;
    handle->callback = callback;
    handle->arg = arg;
    handle->completion.run = hg_respond_run;
    atomic_store_explicit(&handle->ret, HG_SUCCESS, memory_order_relaxed);
    atomic_store_explicit(&handle->is_canceled, false, memory_order_relaxed);
    HG_PROBE3(respond, handle, handle->info.id, payload);
    if (atomic_load_explicit(&handle->self, memory_order_relaxed) != HG_SELF_NONE) {
        hg_loopback_respond(handle, HG_SUCCESS, payload, flags);
        return HG_SUCCESS;
    }
    ret = hg_respond_start(handle, HG_CORE_RESPONSE_MAGIC, HG_SUCCESS, payload, flags);
    if (ret == HG_SUCCESS)
        return HG_SUCCESS;
    HG_PROBE2(respond__done, handle, ret);

error:
    if (handle->out_extra.block != NULL)
        hg_extra_free(&handle->out_extra);
    hg_handle_advance(handle, hg_target_next, HG_HANDLE_ACTIVE, HG_EVENT_FAIL);
    return ret;
}

void hg_respond_ended(struct hg_handle *handle)
{
    if (handle->callback != NULL) {
        hg_context_push(handle->info.context, &handle->completion);
    } else {
        /* Without a callback there is no need to go through the queue. */
        HG_PROBE2(respond__done, handle, atomic_load_explicit(&handle->ret, memory_order_relaxed));
        if (util_unlikely(handle->out_extra.block != NULL))
            hg_extra_free(&handle->out_extra);
        hg_handle_advance_any(handle, hg_target_next, HG_EVENT_END);
        hg_handle_unref(handle);
    }
}

void hg_respond_error(struct hg_handle *handle, hg_return_t ret_code)
{
    const bool is_acknowledged = (handle->in.flags & HG_CORE_HEADER_MORE_DATA) != 0;
    const bool is_hello_ack =
        ret_code == HG_SUCCESS && (handle->in.flags & HG_CORE_HEADER_HELLO) != 0;
    hg_return_t ret;

    if (handle->no_response && !is_acknowledged) {
        hg_handle_unref(handle);
        return;
    }
    hg_handle_advance_any(handle, hg_target_next, HG_EVENT_REFUSE);
    handle->callback = NULL;
    atomic_store_explicit(&handle->ret, HG_SUCCESS, memory_order_relaxed);
    atomic_store_explicit(&handle->is_canceled, false, memory_order_relaxed);
    HG_PROBE3(respond, handle, handle->info.id, (size_t) 0);
    if (atomic_load_explicit(&handle->self, memory_order_relaxed) != HG_SELF_NONE) {
        hg_loopback_respond(handle, ret_code, 0, 0);
        return;
    }
    if (util_unlikely(is_hello_ack)) {
        hg_count_own_add(&handle->resp_count, UINT64_MAX); /* a HELLO does not count as an RPC */
        ret = hg_respond_start(handle, HG_CORE_RESPONSE_MAGIC, ret_code, handle->deferred_payload,
                               HG_CORE_HEADER_HELLO);
        if (ret != HG_SUCCESS)
            hg_count_own(&handle->resp_count);
    } else {
        ret = hg_respond_start(handle,
                               handle->no_response ? HG_CORE_ACK_MAGIC : HG_CORE_RESPONSE_MAGIC,
                               ret_code, 0, hg_respond_flags(handle));
    }
    /* Without this response the origin would wait until its deadline. */
    if (ret == HG_SUCCESS || (ret == HG_AGAIN && hg_respond_defer(handle, ret_code)))
        return;
    if (ret == HG_AGAIN)
        HG_LOG_WARNING("RPC %#" PRIx64 " ends without its error %s being sent: %u others wait for "
                       "the transport",
                       handle->info.id, HG_Error_to_string(ret_code), HG_RESPOND_REFUSED_MAX);
    HG_PROBE2(respond__done, handle, ret);
    hg_handle_unref(handle);
}

void hg_respond_retry(hg_context_t *context)
{
    struct hg_refusals *refusals = &hg_rpc_context(context)->refusals;
    struct hg_handle *handle;

    if (!hg_context_refused_clear(context, &refusals->has_retry))
        return;
    handle = hg_respond_take_refused(refusals);
    while (handle != NULL) {
        struct hg_handle *next = handle->next_waiting;

        hg_count(&context->counters.retry);
        hg_respond_error(handle, (hg_return_t) atomic_load(&handle->ack_ret));
        handle = next;
    }
}

uint32_t hg_respond_drop_refused(hg_context_t *context)
{
    struct hg_handle *handle = hg_respond_take_refused(&hg_rpc_context(context)->refusals);
    uint32_t count = 0;

    while (handle != NULL) {
        struct hg_handle *next = handle->next_waiting;

        count++;
        hg_handle_unref(handle);
        handle = next;
    }
    return count;
}

hg_return_t hg_respond_cancel(struct hg_handle *handle)
{
    hg_return_t ret;

    /* A thread that starts a part of the operation later than the checks below sees the flag. */
    atomic_store(&handle->is_canceled, true);
    ret = hg_handle_cancel_msg(handle, &handle->out);
    if (atomic_load(&handle->is_awaited))
        (void) hg_handle_cancel_msg(handle, &handle->ack);
    /* A sleeping thread has to poll for what was cancelled. */
    hg_context_wake(handle->info.context);
    return ret;
}

/* Flags of a response without a payload; it is not sealed if the request had no session. */
static uint8_t hg_respond_flags(const struct hg_handle *handle)
{
    const uint8_t flags = hg_rpc_class(handle->info.hg_class)->msg_flags[handle->path];

    return util_likely(handle->session != NULL) ? flags
                                                : (uint8_t) (flags & ~HG_CORE_HEADER_HAS_SEAL);
}

/* Dequeue all responses that wait, linked by next_waiting. */
static struct hg_handle *hg_respond_take_refused(struct hg_refusals *refusals)
{
    struct hg_handle *first;

    (void) pthread_mutex_lock(&refusals->lock);
    first = refusals->first;
    refusals->first = NULL;
    refusals->count = 0;
    (void) pthread_mutex_unlock(&refusals->lock);
    return first;
}

/* Queue an error response to be sent again by progress; false: the queue is full. */
static bool hg_respond_defer(struct hg_handle *handle, hg_return_t ret_code)
{
    hg_context_t *context = handle->info.context;
    struct hg_refusals *refusals = &hg_rpc_context(context)->refusals;
    bool has_room;

    atomic_store(&handle->ack_ret, (uint32_t) ret_code);
    (void) pthread_mutex_lock(&refusals->lock);
    has_room = refusals->count < HG_RESPOND_REFUSED_MAX;
    if (has_room) {
        handle->next_waiting = refusals->first;
        refusals->first = handle;
        refusals->count++;
    }
    (void) pthread_mutex_unlock(&refusals->lock);
    if (has_room)
        hg_context_refused_set(context, &refusals->has_retry);
    return has_room;
}

static hg_return_t hg_respond_check(const struct hg_handle *handle)
{
    if (handle == HG_HANDLE_NULL || handle->is_origin) {
        HG_LOG_ERROR("cannot respond to handle %p: it has to be one that a handler received",
                     (const void *) handle);
        return HG_INVALID_ARG;
    }
    if (handle->no_response) {
        HG_LOG_ERROR("cannot respond to RPC %#" PRIx64 ": its response is disabled",
                     handle->info.id);
        return HG_OPNOTSUPPORTED;
    }
    if (util_likely(atomic_load_explicit(&handle->state, memory_order_acquire) == HG_HANDLE_IDLE))
        return HG_SUCCESS;
    if (!hg_handle_is_usable(handle, "respond to"))
        return HG_INVALID_ARG;
    HG_LOG_ERROR("cannot respond to RPC %#" PRIx64 ": its response is on its way already",
                 handle->info.id);
    return HG_BUSY;
}

static UTIL_ALWAYS_INLINE hg_return_t hg_respond_start(struct hg_handle *handle, uint16_t magic,
                                                       hg_return_t ret_code, size_t payload,
                                                       uint8_t flags)
{
    const struct hg_class_path *path = hg_handle_path(handle);
    bool is_fetched = handle->out_extra.block != NULL, is_abandoned = false;
    hg_context_t *context = handle->info.context;
    uint32_t deadline_ms = handle->deadline_ms;
    na_return_t na_return;
    hg_return_t ret;
    size_t size;

    atomic_store_explicit(&handle->pending, is_fetched ? 2 : 1, memory_order_relaxed);
    if (util_unlikely(is_fetched) && deadline_ms == 0)
        deadline_ms = atomic_load_explicit(&hg_rpc_class(handle->info.hg_class)->overflow_ms,
                                           memory_order_relaxed);
    if (util_unlikely(deadline_ms != 0))
        hg_deadline_begin(handle, deadline_ms);
    if (util_unlikely(is_fetched)) {
        flags |= HG_CORE_HEADER_MORE_DATA;
        ret = hg_respond_expose(handle, flags, &payload, &is_abandoned);
        if (ret != HG_SUCCESS)
            return ret;
    }
    if (util_unlikely(is_abandoned)) {
        /* Send a response without output, in case the origin still waits. */
        hg_respond_drop_output(handle);
        is_fetched = false;
        ret_code = HG_CANCELED;
        flags = hg_respond_flags(handle);
        payload = 0;
    }
    size = hg_header_write_response(handle, magic, flags, ret_code, payload);
    hg_count_own(&handle->resp_count);
    hg_count_own_add(&handle->resp_bytes, size - handle->out.header);
    na_return = NA_Msg_send_expected(path->na_class, hg_handle_na_context(handle), hg_respond_sent,
                                     handle, handle->out.buf, size, handle->out.plugin_data,
                                     handle->source.na_addr[handle->path], handle->info.context_id,
                                     handle->tag, handle->out.op);
    if (util_likely(na_return == NA_SUCCESS)) {
        if (util_unlikely(deadline_ms != 0))
            hg_deadline_started(handle);
        hg_context_wake(context);
        return HG_SUCCESS;
    }

    ret = hg_return_from_na(na_return);
    /* It was counted before it was sent, because another thread may use the handle afterwards. */
    hg_count_own_add(&handle->resp_count, UINT64_MAX);
    hg_count_own_add(&handle->resp_bytes, UINT64_C(0) - (size - handle->out.header));
    if (is_fetched)
        hg_count_add(&context->counters.resp_extra, UINT64_MAX);
    hg_count(&context->counters.send_error);
    if (ret != HG_AGAIN)
        HG_LOG_ERROR("cannot respond to RPC %#" PRIx64 ": %s", handle->info.id,
                     NA_Error_to_string(na_return));
    if (!is_fetched)
        return ret;
    /* The receive of the acknowledgement is posted, so the callback reports the error. */
    hg_handle_set_error(handle, ret);
    hg_respond_cancel_ack(handle);
    hg_handle_part_done(handle);
    if (deadline_ms != 0)
        hg_deadline_started(handle);
    return HG_SUCCESS;
}

/*
 * Write the descriptor of the output into the message, and post the receive of the acknowledgement.
 * Sets *is_abandoned_p instead of that if an ABANDON for the request has come already.
 */
static hg_return_t hg_respond_expose(struct hg_handle *handle, uint8_t flags, size_t *payload_p,
                                     bool *is_abandoned_p)
{
    hg_return_t ret;

    ret = hg_overflow_expose(handle, &handle->out, &handle->out_extra,
                             hg_msg_payload_offset(&handle->out, flags), payload_p);
    if (ret == HG_SUCCESS)
        ret = hg_handle_open_ack(handle);
    if (ret != HG_SUCCESS)
        return ret;
    *is_abandoned_p = !hg_control_await(handle);
    if (*is_abandoned_p)
        return HG_SUCCESS;
    ret = hg_respond_post_ack(handle);
    if (ret != HG_SUCCESS) {
        hg_control_await_end(handle);
        return ret;
    }
    /* A cancel or acknowledgement before this found no receive to cancel. */
    if (atomic_load(&handle->is_canceled) || atomic_load(&handle->is_acknowledged))
        hg_respond_cancel_ack(handle);
    hg_count(&handle->info.context->counters.resp_extra);
    return HG_SUCCESS;
}

/* The origin will not fetch the output, so the operation has no part for the acknowledgement. */
static void hg_respond_drop_output(struct hg_handle *handle)
{
    HG_LOG_DEBUG("the origin of RPC %#" PRIx64 " gave it up before the response", handle->info.id);
    hg_extra_free(&handle->out_extra);
    hg_handle_set_error(handle, HG_CANCELED);
    atomic_fetch_sub_explicit(&handle->pending, 1, memory_order_relaxed);
}

static hg_return_t hg_respond_post_ack(struct hg_handle *handle)
{
    const struct hg_class_path *path = hg_handle_path(handle);
    na_return_t na_return;

    na_return =
        NA_Msg_recv_expected(path->na_class, hg_handle_na_context(handle), hg_respond_acknowledged,
                             handle, handle->ack.buf, handle->ack.size, handle->ack.plugin_data,
                             handle->source.na_addr[handle->path], handle->info.context_id,
                             handle->tag | hg_handle_tags(handle)->ack_bit, handle->ack.op);
    if (na_return != NA_SUCCESS) {
        HG_LOG_ERROR("cannot await that the output of RPC %#" PRIx64 " is fetched: %s",
                     handle->info.id, NA_Error_to_string(na_return));
        return hg_return_from_na(na_return);
    }
    return HG_SUCCESS;
}

/* Under the lock, so that a cancel either finds the receive or keeps it from being posted. */
static hg_return_t hg_respond_post_ack_again(struct hg_handle *handle)
{
    hg_return_t ret = HG_CANCELED;

    (void) pthread_mutex_lock(&handle->lock);
    if (!atomic_load(&handle->is_canceled) && !atomic_load(&handle->is_acknowledged))
        ret = hg_respond_post_ack(handle);
    (void) pthread_mutex_unlock(&handle->lock);
    return ret;
}

static void hg_respond_cancel_ack(struct hg_handle *handle)
{
    (void) hg_handle_cancel_msg(handle, &handle->ack);
}

static void hg_respond_sent(const struct na_cb_info *info)
{
    struct hg_handle *handle = info->arg;

    if (util_unlikely(info->ret != NA_SUCCESS)) {
        if (info->ret != NA_CANCELED)
            hg_count(&handle->info.context->counters.send_error);
        hg_handle_set_error(handle, hg_return_from_na(info->ret));
        if (handle->out_extra.block != NULL)
            hg_respond_cancel_ack(handle);
    }
    hg_handle_part_done(handle);
}

static void hg_respond_acknowledged(const struct na_cb_info *info)
{
    struct hg_handle *handle = info->arg;
    struct hg_core_header_response header;
    hg_return_t ret = hg_return_from_na(info->ret);

    if (ret == HG_SUCCESS)
        ret = hg_header_check_response(handle, &handle->ack,
                                       info->info.recv_expected.actual_buf_size, &header);
    if ((ret == HG_SUCCESS || ret == HG_AGAIN) && hg_respond_skip_ack(handle, &header, &ret))
        return;
    hg_control_await_end(handle);
    if (ret == HG_CANCELED && atomic_load(&handle->is_acknowledged))
        ret = (hg_return_t) atomic_load(&handle->ack_ret);
    if (ret != HG_SUCCESS)
        hg_handle_set_error(handle, ret);
    hg_handle_part_done(handle);
}

/*
 * Process an acknowledgement. Returns true if it was for another response with the same tag, and
 * the receive is posted again.
 */
static bool hg_respond_skip_ack(struct hg_handle *handle,
                                const struct hg_core_header_response *header, hg_return_t *ret_p)
{
    uint32_t cookie = hg_header_cookie(header->cookie, header->cookie_high);

    if (header->hg != HG_CORE_ACK_MAGIC) {
        *ret_p = HG_PROTOCOL_ERROR;
        return false;
    }
    if (cookie == handle->cookie && *ret_p == HG_SUCCESS) {
        *ret_p = (hg_return_t) header->ret_code;
        return false;
    }
    HG_LOG_DEBUG("an acknowledgement came that is not of RPC %#" PRIx64, handle->info.id);
    if (cookie != handle->cookie)
        hg_control_pass_ack(handle, header->id, cookie, (hg_return_t) header->ret_code);
    else
        hg_count(&handle->info.context->counters.refused_key); /* sealed for another request */
    /* The receive that is posted may end at once: one more part keeps the operation from ending. */
    atomic_fetch_add(&handle->pending, 1);
    *ret_p = hg_respond_post_ack_again(handle);
    if (*ret_p != HG_SUCCESS) {
        atomic_fetch_sub(&handle->pending, 1);
        return false;
    }
    hg_handle_part_done(handle);
    return true;
}

static void hg_respond_run(struct hg_completion *completion)
{
    struct hg_handle *handle = util_container_of(completion, struct hg_handle, completion);
    const struct hg_cb_info info = {
        .info.respond.handle = handle,
        .arg = handle->arg,
        .type = HG_CB_RESPOND,
        .ret = (hg_return_t) atomic_load_explicit(&handle->ret, memory_order_relaxed),
    };
    hg_return_t ret;

    HG_PROBE2(respond__done, handle, info.ret);
    hg_extra_free(&handle->out_extra);
    hg_handle_advance(handle, hg_target_next, HG_HANDLE_ACTIVE, HG_EVENT_END);
    ret = handle->callback(&info);
    if (util_unlikely(ret != HG_SUCCESS))
        HG_LOG_WARNING("the callback of a response returned %s", HG_Error_to_string(ret));
    hg_handle_unref(handle);
}
