/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of the message layer as UCP active messages. */

#include "ucx.h"

#include <string.h>

/* A received frame in UCX's memory, deferred by the message layer. */
struct ucx_deferred_frame {
    struct ucx_worker *worker;
    void *data;
};

_Static_assert(sizeof(struct ucx_deferred_frame) <= UCX_BLOCK_SIZE, "it fits");

static const struct ucx_link *frame_link(struct na_plugin_class *na_class, const void *header,
                                         size_t size);
static void frame_sent(void *request, ucs_status_t status, void *arg);

int32_t ucx_send(struct kit_endpoint *endpoint, struct kit_frame *frame)
{
    struct ucx_link *link = ucx_peer(frame->peer)->link;
    struct ucx_frame *priv = frame->priv;
    ucp_request_param_t param; /* UCX reads only the fields that op_attr_mask names */
    ucs_status_ptr_t request;
    size_t header_size = 0;

    (void) endpoint;
    if (kit_unlikely(link == NULL))
        return NA_PLUGIN_HOSTUNREACH;
    if (kit_unlikely(link->phase != UCX_LINK_READY))
        return link->phase == UCX_LINK_FAILED ? NA_PLUGIN_HOSTUNREACH : NA_PLUGIN_AGAIN;
    if (kit_unlikely(link->is_failing))
        return NA_PLUGIN_AGAIN; /* the next poll fails the link */
    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    param.cb.send = frame_sent;
    param.user_data = priv;
    priv->frame = frame;
    priv->link = link;
    if (kit_unlikely(frame->is_hello)) {
        priv->name = ucx_link_name(link);
        header_size = sizeof(priv->name);
    }
    ucx_enter();
    request = ucp_am_send_nbx(link->end.ep, UCX_AM_FRAME, &priv->name, header_size, frame->data,
                              frame->size, &param);
    ucx_leave();
    if (kit_likely(request == NULL)) {
        frame->is_copied = true;
        return NA_PLUGIN_SUCCESS;
    }
    if (UCS_PTR_IS_ERR(request)) {
        link->failure = UCS_PTR_STATUS(request);
        if (link->failure == UCS_ERR_NO_RESOURCE || link->failure == UCS_ERR_NO_MEMORY)
            return NA_PLUGIN_AGAIN;
        link->is_failing = true;
        ucx_link_schedule(link);
        return NA_PLUGIN_AGAIN;
    }
    link->outstanding++;
    return NA_PLUGIN_SUCCESS;
}

ucs_status_t ucx_frame_received(void *arg, const void *header, size_t header_size, void *data,
                                size_t size, const ucp_am_recv_param_t *param)
{
    struct ucx_worker *worker = arg;
    struct na_plugin_class *na_class = worker->na_class;
    const struct ucx_link *link = NULL;
    struct ucx_deferred_frame *deferred;

    if (kit_unlikely(size > UCX_MAX_FRAME ||
                     (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)) {
        UCX_LOG_DEBUG("%zu bytes that are no frame are dropped", size);
        return UCS_OK;
    }
    if (kit_unlikely(header_size != 0)) {
        link = frame_link(na_class, header, header_size);
        if (link == NULL)
            return UCS_OK;
    }
    /* A short message lies in a queue of UCX and cannot be kept beyond this call. */
    if (kit_likely((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) == 0)) {
        /* The frame may end in another cache line, which the sender's processor has modified. */
        __builtin_prefetch((const uint8_t *) data + size - (size != 0));
        (void) kit_msg_frame_received(&na_class->fabric, data, size, link, NULL);
        return UCS_OK;
    }
    deferred = ucx_block_get(na_class);
    if (kit_unlikely(deferred == NULL)) {
        UCX_LOG_ERROR("no memory for a frame of %zu bytes: it is lost", size);
        return UCS_OK;
    }
    deferred->worker = worker;
    deferred->data = data;
    if (kit_likely(kit_msg_frame_received(&na_class->fabric, data, size, link, deferred))) {
        ucx_block_put(na_class, deferred);
        return UCS_OK;
    }
    return UCS_INPROGRESS;
}

void ucx_frame_release(struct kit_endpoint *endpoint, void *cookie)
{
    struct na_plugin_class *na_class = ucx_class(endpoint);
    struct ucx_deferred_frame *deferred = cookie;

    /* Once the worker is destroyed the memory is freed. */
    if (na_class->worker != NULL)
        ucp_am_data_release(deferred->worker->worker, deferred->data);
    ucx_block_put(na_class, deferred);
}

/* The link over which a frame with a HELLO was received; NULL if its header is wrong. */
static const struct ucx_link *frame_link(struct na_plugin_class *na_class, const void *header,
                                         size_t size)
{
    const struct ucx_link *link;
    struct ucx_link_name name;

    if (size != sizeof(name)) {
        UCX_LOG_DEBUG("a frame behind a header of %zu bytes is dropped", size);
        return NULL;
    }
    memcpy(&name, header, sizeof(name));
    link = ucx_link_named(na_class, &name);
    if (link == NULL)
        kit_msg_dropped(&na_class->fabric);
    return link;
}

static void frame_sent(void *request, ucs_status_t status, void *arg)
{
    struct ucx_frame *priv = arg;

    ucp_request_free(request);
    priv->link->outstanding--;
    kit_msg_frame_sent(&priv->link->na_class->fabric, priv->frame,
                       status == UCS_OK ? NA_PLUGIN_SUCCESS : NA_PLUGIN_HOSTUNREACH);
}
