/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs and outputs of handles. */
#ifndef HG_PAYLOAD_H
#define HG_PAYLOAD_H

#include "hg/header.h"

static inline struct hg_msg *hg_payload_msg(struct hg_handle *handle, hg_op_t op)
{
    return op == HG_INPUT ? &handle->in : &handle->out;
}

static inline struct hg_extra *hg_payload_extra(struct hg_handle *handle, hg_op_t op)
{
    return op == HG_INPUT ? &handle->in_extra : &handle->out_extra;
}

/* Bytes at the start of the payload that are reserved for the program's own header. */
static inline size_t hg_payload_reserved(const struct hg_handle *handle, hg_op_t op)
{
    const hg_class_t *hg_class = handle->info.hg_class;

    return (size_t) (op == HG_INPUT ? hg_rpc_class(hg_class)->in_offset
                                    : hg_rpc_class(hg_class)->out_offset);
}

/* Returns NULL if the RPC has no proc function for this. */
static inline hg_proc_cb_t hg_payload_proc(const struct hg_handle *handle, hg_op_t op)
{
    if (handle->rpc == NULL)
        return NULL;
    return atomic_load_explicit(op == HG_INPUT ? &handle->rpc->in_proc : &handle->rpc->out_proc,
                                memory_order_relaxed);
}

/* The rest of hg_payload_encode(): encode a structure and add its size to *payload_p. */
hg_return_t hg_payload_encode_with(struct hg_handle *handle, hg_op_t op, hg_proc_cb_t proc_cb,
                                   void *data, uint8_t flags, size_t *payload_p);

/*
 * Encode a structure after the program's own header. Sets *payload_p and *flags_p for the message
 * header. If it does not fit the message the handle's extra block has it, and *payload_p is what
 * the message has.
 */
static UTIL_ALWAYS_INLINE hg_return_t hg_payload_encode(struct hg_handle *handle, hg_op_t op,
                                                        void *data, size_t *payload_p,
                                                        uint8_t *flags_p)
{
    struct hg_extra *extra = hg_payload_extra(handle, op);
    hg_proc_cb_t proc_cb = data != NULL ? hg_payload_proc(handle, op) : NULL;

    *flags_p = hg_rpc_class(handle->info.hg_class)->msg_flags[handle->path];
    if (util_unlikely(handle->proc.is_portable))
        *flags_p |= HG_CORE_HEADER_PORTABLE;
    *payload_p = hg_payload_reserved(handle, op);
    handle->proc.has_bulk = false;
    if (util_unlikely(extra->block != NULL))
        hg_extra_free(extra);
    /* Without a structure the payload is empty, as in a response that has no output. */
    if (proc_cb == NULL)
        return HG_SUCCESS;
    return hg_payload_encode_with(handle, op, proc_cb, data, *flags_p, payload_p);
}

#endif /* HG_PAYLOAD_H */
