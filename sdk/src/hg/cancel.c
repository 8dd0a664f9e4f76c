/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cancelling what runs on a handle. It is always local: a peer is told, but not waited for.
 */
#include "hg/hg_private.h"
#include "hg/probes.h"

hg_return_t HG_Cancel(hg_handle_t handle)
{
    if (hg_handle_is_refused(handle, __func__))
        return HG_PERMISSION;
    if (!hg_handle_is_usable(handle, "cancel"))
        return HG_INVALID_ARG;
    if (atomic_load(&handle->state) != HG_HANDLE_ACTIVE)
        return HG_SUCCESS;
    HG_PROBE1(cancel, handle);
    /* With a deadline it also ends if the transport does not let go of it. */
    atomic_store(&handle->is_canceled, true);
    if (atomic_load(&handle->pending) > HG_PENDING_TIMER)
        hg_context_expedite(handle->info.context, &handle->timer, hg_clock_ns() + HG_CANCEL_NS);
    return hg_handle_cancel(handle);
}

hg_return_t hg_handle_cancel(struct hg_handle *handle)
{
    hg_context_t *context = handle->info.context;
    hg_return_t ret;

    /* The flag is for who starts a part of the operation after it was looked for here. */
    atomic_store(&handle->is_canceled, true);
    if (handle->is_origin && hg_loopback_applies(handle)) {
        hg_loopback_cancel(handle);
        return HG_SUCCESS;
    }
    if (handle->is_origin && hg_flow_cancel(handle))
        return HG_SUCCESS;
    ret = hg_handle_cancel_msg(handle, &handle->out);
    if (handle->is_origin) {
        (void) hg_handle_cancel_msg(handle, &handle->in);
        hg_overflow_cancel(handle);
    } else if (atomic_load(&handle->is_awaited)) {
        (void) hg_handle_cancel_msg(handle, &handle->ack);
    }
    /* Whoever sleeps has to see to what ended. */
    hg_context_wake(context);
    return ret;
}

hg_return_t hg_handle_cancel_msg(struct hg_handle *handle, const struct hg_msg *msg)
{
    na_return_t na_return;

    /* It may be about to change its place, see expire.c. */
    (void) pthread_mutex_lock(&handle->lock);
    na_return = NA_Cancel(hg_handle_path(handle)->na_class, hg_handle_na_context(handle), msg->op);
    (void) pthread_mutex_unlock(&handle->lock);
    return hg_return_from_na(na_return);
}
