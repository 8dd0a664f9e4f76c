/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of the wrapped plugin with one operation. */

#include "fault.h"

static int32_t call_multi(const struct fault_op *op);

int32_t fault_call(const struct fault_op *op)
{
    const struct na_plugin *inner = op->fault_class->inner;
    struct na_plugin_context *context = op->context->inner;
    const struct fault_post *post = &op->post;

    switch (post->kind) {
    case FAULT_SEND_UNEXPECTED:
        return inner->msg_send_unexpected(context, op->inner, post->buf, post->size, post->data,
                                          post->peer, post->peer_id, post->tag);
    case FAULT_SEND_EXPECTED:
        return inner->msg_send_expected(context, op->inner, post->buf, post->size, post->data,
                                        post->peer, post->peer_id, post->tag);
    case FAULT_PUT:
    case FAULT_GET:
        if (inner->put == NULL || inner->get == NULL)
            return NA_PLUGIN_OPNOTSUPPORTED;
        return (post->kind == FAULT_PUT ? inner->put : inner->get)(
            context, op->inner, post->local, post->local_offset, post->remote, post->remote_offset,
            post->size, post->peer, post->peer_id);
    case FAULT_RECV_UNEXPECTED:
        return inner->msg_recv_unexpected(context, op->inner, post->buf, post->size, post->data);
    case FAULT_RECV_MULTI:
        return call_multi(op);
    case FAULT_RECV_EXPECTED:
        return inner->msg_recv_expected(context, op->inner, post->buf, post->size, post->data,
                                        post->peer, post->peer_id, post->tag);
    }
    return NA_PLUGIN_OPNOTSUPPORTED;
}

int32_t fault_call_cancel(const struct fault_context *context, const struct fault_op *op,
                          bool is_trusted)
{
    const struct na_plugin *inner = context->fault_class->inner;

    return (is_trusted && inner->cancel_trusted != NULL ? inner->cancel_trusted
                                                        : inner->cancel)(context->inner, op->inner);
}

/* Without multi-receives in the wrapped plugin, one ends with its first message. */
static int32_t call_multi(const struct fault_op *op)
{
    const struct fault_class *fault_class = op->fault_class;
    const struct fault_post *post = &op->post;

    if (fault_class->multi_recv.msg_multi_recv_unexpected != NULL)
        return fault_class->multi_recv.msg_multi_recv_unexpected(op->context->inner, op->inner,
                                                                 post->buf, post->size, post->data);
    return fault_class->inner->msg_recv_unexpected(op->context->inner, op->inner, post->buf,
                                                   post->size, post->data);
}
