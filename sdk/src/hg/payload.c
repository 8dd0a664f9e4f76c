/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inputs and outputs: encode them into messages, decode them from the message without copying it
 * first, access the bytes. Decoded values are the program's and do not point into the message.
 */
#include "hg/payload.h"

#include <inttypes.h>

static UTIL_ALWAYS_INLINE hg_return_t hg_payload_decode(struct hg_handle *handle, hg_op_t op,
                                                        void *data);
static UTIL_ALWAYS_INLINE hg_return_t hg_payload_check(const struct hg_handle *handle,
                                                       const void *data, hg_proc_cb_t proc_cb);
static UTIL_ALWAYS_INLINE hg_return_t hg_payload_free(struct hg_handle *handle, hg_op_t op,
                                                      void *data);
static UTIL_ALWAYS_INLINE hg_return_t hg_payload_locate(struct hg_handle *handle, hg_op_t op,
                                                        char **buf_p, hg_size_t *size_p);
static hg_return_t hg_payload_buf(struct hg_handle *handle, hg_op_t op, void **buf_p,
                                  hg_size_t *size_p);
static hg_size_t hg_payload_size(struct hg_handle *handle, hg_op_t op);
static hg_return_t hg_payload_extra_buf(struct hg_handle *handle, const struct hg_extra *extra,
                                        void **buf_p, hg_size_t *size_p);
static uint8_t hg_payload_proc_flags(const struct hg_handle *handle);

hg_return_t HG_Get_input(hg_handle_t handle, void *in_struct)
{
    hg_return_t ret;

    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    ret = hg_payload_decode(handle, HG_INPUT, in_struct);
    if (ret == HG_SUCCESS && hg_rpc_class(handle->info.hg_class)->release_input_early &&
        !handle->is_origin)
        ret = HG_Release_input_buf(handle);
    return ret;
}

hg_return_t HG_Free_input(hg_handle_t handle, void *in_struct)
{
    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    return hg_payload_free(handle, HG_INPUT, in_struct);
}

hg_return_t HG_Get_output(hg_handle_t handle, void *out_struct)
{
    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    if (handle != HG_HANDLE_NULL && handle->no_response) {
        HG_LOG_ERROR("RPC %#" PRIx64 " has no output: its response is disabled", handle->info.id);
        return HG_OPNOTSUPPORTED;
    }
    return hg_payload_decode(handle, HG_OUTPUT, out_struct);
}

hg_return_t HG_Free_output(hg_handle_t handle, void *out_struct)
{
    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    return hg_payload_free(handle, HG_OUTPUT, out_struct);
}

hg_size_t HG_Get_input_payload_size(hg_handle_t handle)
{
    return handle != HG_HANDLE_NULL ? hg_payload_size(handle, HG_INPUT) : 0;
}

hg_size_t HG_Get_output_payload_size(hg_handle_t handle)
{
    return handle != HG_HANDLE_NULL ? hg_payload_size(handle, HG_OUTPUT) : 0;
}

hg_return_t HG_Get_input_buf(hg_handle_t handle, void **in_buf_p, hg_size_t *in_buf_size_p)
{
    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    return hg_payload_buf(handle, HG_INPUT, in_buf_p, in_buf_size_p);
}

hg_return_t HG_Release_input_buf(hg_handle_t handle)
{
    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    if (!hg_handle_is_usable(handle, "release the input of"))
        return HG_INVALID_ARG;
    if (handle->is_origin)
        return HG_SUCCESS;
    handle->in.has_payload = false;
    hg_extra_free(&handle->in_extra);
    return HG_SUCCESS;
}

hg_return_t HG_Get_output_buf(hg_handle_t handle, void **out_buf_p, hg_size_t *out_buf_size_p)
{
    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    return hg_payload_buf(handle, HG_OUTPUT, out_buf_p, out_buf_size_p);
}

hg_return_t HG_Get_input_extra_buf(hg_handle_t handle, void **in_buf_p, hg_size_t *in_buf_size_p)
{
    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    return hg_payload_extra_buf(handle, handle != NULL ? &handle->in_extra : NULL, in_buf_p,
                                in_buf_size_p);
}

hg_return_t HG_Get_output_extra_buf(hg_handle_t handle, void **out_buf_p, hg_size_t *out_buf_size_p)
{
    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    return hg_payload_extra_buf(handle, handle != NULL ? &handle->out_extra : NULL, out_buf_p,
                                out_buf_size_p);
}

hg_return_t hg_payload_encode_with(struct hg_handle *handle, hg_op_t op, hg_proc_cb_t proc_cb,
                                   void *data, uint8_t flags, size_t *payload_p)
{
    struct hg_msg *msg = hg_payload_msg(handle, op);
    struct hg_extra *extra = hg_payload_extra(handle, op);
    struct hg_proc *proc = &handle->proc;
    size_t start = hg_msg_payload_offset(msg, flags) + *payload_p;
    hg_return_t ret;

    hg_proc_start(proc, msg->buf + start, msg->size - start, HG_ENCODE);
    proc->flags = hg_payload_proc_flags(handle);
    ret = proc_cb(proc, data);
    if (ret != HG_SUCCESS) {
        HG_LOG_ERROR("cannot encode for RPC %#" PRIx64 ": %s", handle->info.id,
                     HG_Error_to_string(ret));
        return ret;
    }
    if (util_likely(proc->extra_buf == NULL)) {
        *payload_p += (size_t) hg_proc_get_size_used(proc);
        return HG_SUCCESS;
    }

    extra->size = hg_proc_get_size_used(proc);
    if (hg_rpc_class(handle->info.hg_class)->no_overflow) {
        HG_LOG_ERROR("%" PRIu64 " encoded bytes of RPC %#" PRIx64
                     " do not fit one message, and no_overflow is set",
                     extra->size, handle->info.id);
        return HG_MSGSIZE;
    }
    extra->block = hg_proc_take_extra_block(proc);
    if (extra->block == NULL) {
        HG_LOG_ERROR("the proc function of RPC %#" PRIx64 " took the extra buffer away; leave it "
                     "to the processor",
                     handle->info.id);
        return HG_INVALID_ARG;
    }
    return HG_SUCCESS;
}

static UTIL_ALWAYS_INLINE hg_return_t hg_payload_decode(struct hg_handle *handle, hg_op_t op,
                                                        void *data)
{
    hg_proc_cb_t proc_cb = handle != HG_HANDLE_NULL ? hg_payload_proc(handle, op) : NULL;
    hg_size_t size;
    hg_return_t ret;
    char *buf;

    ret = hg_payload_check(handle, data, proc_cb);
    if (ret != HG_SUCCESS)
        return ret;
    ret = hg_payload_locate(handle, op, &buf, &size);
    if (ret != HG_SUCCESS)
        return ret;
    hg_proc_start(&handle->proc, buf, size, HG_DECODE);
    handle->proc.flags = hg_payload_proc_flags(handle);
    ret = proc_cb(&handle->proc, data);
    if (util_likely(ret == HG_SUCCESS))
        hg_handle_ref(handle); /* dropped by hg_payload_free() */
    else
        HG_LOG_ERROR("cannot decode the data of RPC %#" PRIx64 ", %" PRIu64 " bytes: %s",
                     handle->info.id, size, HG_Error_to_string(ret));
    return ret;
}

static UTIL_ALWAYS_INLINE hg_return_t hg_payload_check(const struct hg_handle *handle,
                                                       const void *data, hg_proc_cb_t proc_cb)
{
    if (!hg_handle_is_usable(handle, "decode, or free what was decoded, of"))
        return HG_INVALID_ARG;
    if (util_unlikely(data == NULL)) {
        HG_LOG_ERROR("cannot decode, or free what was decoded: the structure is NULL");
        return HG_INVALID_ARG;
    }
    if (util_likely(proc_cb != NULL))
        return HG_SUCCESS;
    HG_LOG_ERROR("RPC %#" PRIx64 " was registered without a proc function for this; pass one",
                 handle->info.id);
    return HG_FAULT;
}

/* Find and check the encoded bytes of an input or output. */
static UTIL_ALWAYS_INLINE hg_return_t hg_payload_locate(struct hg_handle *handle, hg_op_t op,
                                                        char **buf_p, hg_size_t *size_p)
{
    const struct hg_msg *msg = hg_payload_msg(handle, op);
    const struct hg_extra *extra = hg_payload_extra(handle, op);
    size_t reserved = hg_payload_reserved(handle, op);
    hg_return_t ret;

    if (!msg->has_payload) {
        HG_LOG_ERROR("the handle of RPC %#" PRIx64 " holds no %s", handle->info.id,
                     op == HG_INPUT ? "input; was it released?" : "output; was it answered?");
        return HG_FAULT;
    }
    if (((msg->flags & HG_CORE_HEADER_PORTABLE) != 0) != handle->proc.is_portable) {
        HG_LOG_ERROR("RPC %#" PRIx64 " came in the %s encoding; both sides must use the same",
                     handle->info.id, handle->proc.is_portable ? "raw" : "portable");
        return HG_PROTOCOL_ERROR;
    }
    if (msg->flags & HG_CORE_HEADER_MORE_DATA) {
        *buf_p = extra->block != NULL ? extra->block->memory : NULL;
        *size_p = extra->size;
        return extra->block != NULL ? HG_SUCCESS : HG_FAULT;
    }
    ret = hg_header_check_payload(handle, msg);
    if (ret != HG_SUCCESS)
        return ret;
    if (msg->used < reserved) {
        HG_LOG_ERROR("RPC %#" PRIx64 " has %zu bytes, the offset alone is %zu; both sides must set "
                     "the same offset",
                     handle->info.id, msg->used, reserved);
        return HG_PROTOCOL_ERROR;
    }
    *buf_p = msg->buf + hg_msg_payload_offset(msg, msg->flags) + reserved;
    *size_p = msg->used - reserved;
    return HG_SUCCESS;
}

static UTIL_ALWAYS_INLINE hg_return_t hg_payload_free(struct hg_handle *handle, hg_op_t op,
                                                      void *data)
{
    hg_proc_cb_t proc_cb = handle != HG_HANDLE_NULL ? hg_payload_proc(handle, op) : NULL;

    hg_return_t ret = hg_payload_check(handle, data, proc_cb);

    if (ret != HG_SUCCESS)
        return ret;
    hg_proc_start(&handle->free_proc, handle->in.buf, 0, HG_FREE);
    ret = proc_cb(&handle->free_proc, data);
    /* A program that decodes by itself must have taken a reference of its own for this. */
    if (util_likely(ret == HG_SUCCESS))
        hg_handle_unref(handle);
    return ret;
}

/* Return the payload's buffer, for the program to write its own header or read the peer's. */
static hg_return_t hg_payload_buf(struct hg_handle *handle, hg_op_t op, void **buf_p,
                                  hg_size_t *size_p)
{
    struct hg_msg *msg;
    bool is_received;
    size_t offset;

    if (!hg_handle_is_usable(handle, "get a buffer of"))
        return HG_INVALID_ARG;
    if (buf_p == NULL) {
        HG_LOG_ERROR("cannot get a buffer: there is no place for the result");
        return HG_INVALID_ARG;
    }
    msg = hg_payload_msg(handle, op);
    is_received = handle->is_origin == (op == HG_OUTPUT);
    if (op == HG_INPUT && is_received && !msg->has_payload) {
        HG_LOG_ERROR("the input's buffer was released");
        return HG_FAULT;
    }
    offset = hg_msg_payload_offset(
        msg, is_received && msg->has_payload
                 ? msg->flags
                 : hg_rpc_class(handle->info.hg_class)->msg_flags[handle->path]);
    *buf_p = msg->buf + offset;
    handle->is_buf_given |= handle->is_origin && op == HG_INPUT;
    if (size_p != NULL)
        *size_p = msg->size - offset;
    return HG_SUCCESS;
}

static hg_size_t hg_payload_size(struct hg_handle *handle, hg_op_t op)
{
    const struct hg_msg *msg = hg_payload_msg(handle, op);

    if (!msg->has_payload)
        return 0;
    if (msg->flags & HG_CORE_HEADER_MORE_DATA)
        return hg_payload_reserved(handle, op) + hg_payload_extra(handle, op)->size;
    return msg->used;
}

static hg_return_t hg_payload_extra_buf(struct hg_handle *handle, const struct hg_extra *extra,
                                        void **buf_p, hg_size_t *size_p)
{
    if (!hg_handle_is_usable(handle, "get the extra buffer of"))
        return HG_INVALID_ARG;
    if (buf_p == NULL) {
        HG_LOG_ERROR("cannot get the extra buffer: there is no place for the result");
        return HG_INVALID_ARG;
    }
    *buf_p = extra->block != NULL ? extra->block->memory : NULL;
    if (size_p != NULL)
        *size_p = extra->block != NULL ? extra->size : 0;
    return HG_SUCCESS;
}

static uint8_t hg_payload_proc_flags(const struct hg_handle *handle)
{
    uint8_t flags = handle->path == HG_PATH_SM ? HG_PROC_SM : 0;

    if (!handle->info.hg_class->bulk->no_eager)
        flags |= HG_PROC_BULK_EAGER;
    return flags;
}
