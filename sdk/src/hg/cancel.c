/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cancelling what runs on a handle.
 */
#include "hg/hg_private.h"

hg_return_t HG_Cancel(hg_handle_t handle)
{
    na_return_t na_return;
    na_class_t *na_class;

    if (handle == HG_HANDLE_NULL) {
        HG_LOG_ERROR("cannot cancel: the handle is NULL");
        return HG_INVALID_ARG;
    }
    if (atomic_load(&handle->state) != HG_HANDLE_ACTIVE)
        return HG_SUCCESS;
    if (handle->is_origin && hg_loopback_applies(handle))
        return hg_loopback_cancel(handle);

    /* The flag is for who starts a part of the operation after it was looked for here. */
    atomic_store(&handle->is_canceled, true);
    na_class = hg_handle_lane(handle)->na_class;
    na_return = NA_Cancel(na_class, hg_handle_na_context(handle), handle->out.op);
    if (handle->is_origin) {
        (void) NA_Cancel(na_class, hg_handle_na_context(handle), handle->in.op);
        hg_overflow_cancel(handle);
    } else if (atomic_load(&handle->is_awaited)) {
        (void) NA_Cancel(na_class, hg_handle_na_context(handle), handle->ack.op);
    }
    /* Whoever sleeps has to see to what ended. */
    hg_context_wake(handle->info.context);
    return hg_return_from_na(na_return);
}
