/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pieces of puts and gets, and small puts, as active messages. Small pieces and those over sockets
 * are eager; others are sent by rendezvous, without a copy. The receive of a piece is found by its
 * tag, and has to be posted for the link that the message was received on.
 */

#include "ucx.h"

#include <string.h>

static int32_t piece_link_status(const struct ucx_link *link);
static ucs_status_t piece_start_send(struct ucx_request *request,
                                     const struct kit_rma_piece *piece);
static void piece_sent(void *request, ucs_status_t status, void *arg);
static struct ucx_link *message_link(const struct ucx_worker *worker,
                                     const struct ucx_link_name *name,
                                     const ucp_am_recv_param_t *param);
static void message_fail_link(struct ucx_link *link, const char *reason);
static struct kit_rma_piece *piece_find(const struct ucx_link *link, uint32_t tag, size_t size);
static ucs_status_t piece_start_receive(struct kit_rma_piece *piece, void *descriptor);
static void piece_received(void *request, ucs_status_t status, size_t size, void *arg);
static void *bytes_start(void *context, const void *buffer, size_t count);
static size_t bytes_size(void *state);
static size_t bytes_pack(void *state, size_t offset, void *dest, size_t max_length);
static void bytes_finish(void *state);

/* An eager piece is sent as a generic datatype: UCX asks for its bytes when it can copy them. */
int32_t ucx_pieces_setup(struct na_plugin_class *na_class)
{
    const ucp_generic_dt_ops_t ops = {
        .start_pack = bytes_start,
        .packed_size = bytes_size,
        .pack = bytes_pack,
        .finish = bytes_finish,
    };
    ucs_status_t status = ucp_dt_create_generic(&ops, NULL, &na_class->piece);

    return status == UCS_OK ? NA_PLUGIN_SUCCESS : ucx_failed("make a datatype", status);
}

void ucx_pieces_cleanup(struct na_plugin_class *na_class)
{
    if (na_class->piece != 0)
        ucp_dt_destroy(na_class->piece);
    na_class->piece = 0;
}

int32_t ucx_piece_send(void *owner, struct kit_rma_piece *piece)
{
    struct ucx_link *link = ucx_peer(piece->peer)->link;
    struct ucx_piece *priv = piece->priv;
    int32_t ret = piece_link_status(link);
    struct ucx_request *request;
    ucs_status_t status;

    (void) owner;
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    request = ucx_request_get(link);
    if (request == NULL)
        return NA_PLUGIN_NOMEM;
    request->piece = piece;
    request->header.name = ucx_link_name(link);
    request->header.tag = piece->tag;
    *priv = (struct ucx_piece){.link = link, .request = request};
    status = piece_start_send(request, piece);
    if (status == UCS_OK)
        return NA_PLUGIN_SUCCESS;
    ucx_request_put(request);
    return ucx_status(status);
}

int32_t ucx_piece_recv(void *owner, struct kit_rma_piece *piece)
{
    struct na_plugin_class *na_class = owner;
    struct ucx_link *link = ucx_peer(piece->peer)->link;
    int32_t ret = piece_link_status(link);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    *(struct ucx_piece *) piece->priv = (struct ucx_piece){.link = link};
    na_class->posted[piece->tag] = piece;
    return NA_PLUGIN_SUCCESS;
}

/*
 * Cancels a piece; true if its memory is not accessed any more. An eager piece of which UCX has
 * copied nothing, or all, is sent as zeroes, with is_taken_back in its header. Of other pieces that
 * are being sent or received, UCX has a part or the memory itself.
 */
bool ucx_piece_cancel(void *owner, struct kit_rma_piece *piece)
{
    struct na_plugin_class *na_class = owner;
    struct ucx_piece *priv = piece->priv;
    struct ucx_request *request = priv->request;

    priv->is_canceled = true;
    if (priv->is_lost)
        kit_rma_piece_done(na_class->fabric.rma, piece, NA_PLUGIN_CANCELED, 0);
    else if (piece->is_send == 0)
        return request == NULL;
    else if (request->data != NULL && (request->packed == 0 || request->packed == piece->size)) {
        request->data = NULL;
        request->header.is_taken_back = 1;
        return true;
    }
    return false;
}

/* Ends a posted receive. A piece that was given to UCX ends with its request or its link. */
void ucx_piece_withdraw(void *owner, struct kit_rma_piece *piece)
{
    struct na_plugin_class *na_class = owner;
    const struct ucx_piece *priv = piece->priv;

    if (piece->is_send != 0 || priv->request != NULL)
        return;
    na_class->posted[piece->tag] = NULL;
    kit_rma_piece_done(na_class->fabric.rma, piece, NA_PLUGIN_CANCELED, 0);
}

ucs_status_t ucx_piece_received(void *arg, const void *header, size_t header_size, void *data,
                                size_t size, const ucp_am_recv_param_t *param)
{
    struct na_plugin_class *na_class = ((struct ucx_worker *) arg)->na_class;
    const bool is_announced = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    struct kit_rma_piece *piece = NULL;
    struct ucx_link *link = NULL;
    struct ucx_piece_header copy;
    struct ucx_piece *priv;

    if (header_size == sizeof(copy)) {
        memcpy(&copy, header, sizeof(copy));
        link = message_link(arg, &copy.name, param);
    }
    if (link != NULL)
        piece = piece_find(link, copy.tag, size);
    if (piece == NULL || (piece->is_device != 0 && !is_announced)) {
        UCX_LOG_DEBUG("a piece of %zu bytes that nothing waits for is dropped", size);
        return UCS_OK;
    }
    priv = piece->priv;
    na_class->posted[copy.tag] = NULL;
    if (copy.is_taken_back != 0 && !priv->is_canceled) {
        priv->is_lost = true; /* the sender also ends the transfer, and says why */
        return UCS_OK;
    }
    if (is_announced && !priv->is_canceled)
        return piece_start_receive(piece, data);
    if (!priv->is_canceled)
        memcpy(piece->memory, data, size);
    kit_rma_piece_done(na_class->fabric.rma, piece, NA_PLUGIN_SUCCESS, size);
    return UCS_OK;
}

/*
 * UCX writes the memory to the socket and copies the rest to its buffer, so it does not access the
 * memory after the call. NA_PLUGIN_AGAIN if there is no room.
 */
int32_t ucx_put_send(void *owner, void *peer, const void *record, uint32_t record_size,
                     const struct kit_region *region, uint64_t offset, uint32_t size)
{
    const void *data = (const void *) (uintptr_t) (region->base + offset);
    const struct ucx_link *link = ucx_peer(peer)->link;
    int32_t ret = piece_link_status(link);
    struct ucx_put_header header;
    ucs_status_ptr_t sent;
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL,
        .flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER,
    };

    (void) owner;
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    header.name = ucx_link_name(link);
    memcpy(header.record, record, record_size);
    sent = ucp_am_send_nbx(link->end.ep, UCX_AM_PUT, &header, sizeof(header), data, size, &param);
    return ucx_status(UCS_PTR_STATUS(sent));
}

/* A sender puts after this side's HELLO_ACK, which opened the peer: NULL means it has failed. */
ucs_status_t ucx_put_received(void *arg, const void *header, size_t header_size, void *data,
                              size_t size, const ucp_am_recv_param_t *param)
{
    struct ucx_link *link = NULL;
    struct ucx_put_header copy;

    if (header_size == sizeof(copy)) {
        memcpy(&copy, header, sizeof(copy));
        link = message_link(arg, &copy.name, param);
    }
    if (link == NULL || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
        return UCS_OK;
    if (link->peer != NULL)
        kit_rma_control_data(link->na_class->fabric.rma, link->peer, copy.record,
                             sizeof(copy.record), data, size);
    else
        message_fail_link(link, "is of a peer that has failed here");
    return UCS_OK;
}

/* A target has no link until the message layer opens the peer to answer it: the kit tries again. */
static int32_t piece_link_status(const struct ucx_link *link)
{
    if (kit_unlikely(link == NULL || link->phase == UCX_LINK_DIALING || link->is_failing))
        return NA_PLUGIN_AGAIN;
    return kit_likely(link->phase == UCX_LINK_READY) ? NA_PLUGIN_SUCCESS : NA_PLUGIN_HOSTUNREACH;
}

/* On success piece_sent() is called with the request, perhaps inside this call. */
static ucs_status_t piece_start_send(struct ucx_request *request, const struct kit_rma_piece *piece)
{
    const struct ucx_link *link = request->link;
    const bool is_eager = (link->is_eager || piece->size <= UCX_EAGER_MAX) && piece->is_device == 0;
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .flags =
            UCP_AM_SEND_FLAG_REPLY | (is_eager ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV),
        .cb.send = piece_sent,
        .user_data = request,
    };
    ucs_status_ptr_t sent = UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE);
    const void *data = piece->memory;
    size_t size = piece->size;

    if (is_eager && link->is_stream) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
        sent = ucp_am_send_nbx(link->end.ep, UCX_AM_PIECE, &request->header,
                               sizeof(request->header), data, size, &param);
        param.op_attr_mask &= ~(uint32_t) UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
    }
    if (is_eager) {
        request->data = data;
        request->size = size;
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = link->na_class->piece;
        data = request;
        size = 1;
    }
    if (UCS_PTR_STATUS(sent) == UCS_ERR_NO_RESOURCE)
        sent = ucp_am_send_nbx(link->end.ep, UCX_AM_PIECE, &request->header,
                               sizeof(request->header), data, size, &param);
    if (UCS_PTR_IS_ERR(sent))
        return UCS_PTR_STATUS(sent);
    if (sent == NULL)
        piece_sent(NULL, UCS_OK, request);
    return UCS_OK;
}

static void piece_sent(void *request, ucs_status_t status, void *arg)
{
    piece_received(request, status, 0, arg);
}

/*
 * Returns the link that a message was received on; NULL if the message is to be dropped. UCX finds
 * the reply endpoint by a number in the message, which can be forged, so the header also has the
 * link's secret. A link whose messages arrive on another endpoint cannot work, and is failed.
 */
static struct ucx_link *message_link(const struct ucx_worker *worker,
                                     const struct ucx_link_name *name,
                                     const ucp_am_recv_param_t *param)
{
    struct ucx_link *link = ucx_link_named(worker->na_class, name);

    if (link == NULL || link->end.ep == NULL)
        return NULL;
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0 &&
        param->reply_ep == link->end.ep)
        return link;
    message_fail_link(link, "came over another endpoint than its own");
    return NULL;
}

static void message_fail_link(struct ucx_link *link, const char *reason)
{
    UCX_LOG_WARNING("dropped a message of %s: it %s", link->name, reason);
    link->is_failing = true;
    link->failure = UCS_ERR_CONNECTION_RESET;
    ucx_link_schedule(link);
}

/* Finds the posted receive of a piece on that link, or NULL. */
static struct kit_rma_piece *piece_find(const struct ucx_link *link, uint32_t tag, size_t size)
{
    struct kit_rma_piece *piece = tag < UCX_TAGS ? link->na_class->posted[tag] : NULL;

    return piece != NULL && ((const struct ucx_piece *) piece->priv)->link == link &&
                   piece->size == size
               ? piece
               : NULL;
}

static ucs_status_t piece_start_receive(struct kit_rma_piece *piece, void *descriptor)
{
    struct ucx_piece *priv = piece->priv;
    struct ucx_link *link = priv->link;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.recv_am = piece_received,
    };
    struct ucx_request *request = ucx_request_get(link);
    ucs_status_ptr_t started;

    if (request == NULL) {
        kit_rma_piece_done(link->na_class->fabric.rma, piece, NA_PLUGIN_NOMEM, 0);
        return UCS_OK;
    }
    request->piece = piece;
    priv->request = request;
    param.user_data = request;
    started =
        ucp_am_recv_data_nbx(link->worker->worker, descriptor, piece->memory, piece->size, &param);
    if (!UCS_PTR_IS_PTR(started))
        piece_received(NULL, UCS_PTR_STATUS(started), piece->size, request);
    return UCS_INPROGRESS;
}

/* UCX completed the send or receive of a piece. */
static void piece_received(void *request, ucs_status_t status, size_t size, void *arg)
{
    struct ucx_request *own = arg;
    struct kit_rma *rma = own->link->na_class->fabric.rma;
    struct kit_rma_piece *piece = own->piece;

    (void) size;
    if (request != NULL)
        ucp_request_free(request);
    ucx_request_put(own);
    if (piece != NULL)
        kit_rma_piece_done(rma, piece, ucx_status(status), piece->size);
}

static void *bytes_start(void *context, const void *buffer, size_t count)
{
    (void) context;
    (void) count;
    return (void *) (uintptr_t) buffer;
}

static size_t bytes_size(void *state)
{
    return ((const struct ucx_request *) state)->size;
}

/* The header is sent with the first bytes, so ucx_piece_cancel() may change both until then. */
static size_t bytes_pack(void *state, size_t offset, void *dest, size_t max_length)
{
    struct ucx_request *request = state;
    size_t size = request->size - offset;

    size = size < max_length ? size : max_length;
    if (request->data != NULL)
        memcpy(dest, request->data + offset, size);
    else
        memset(dest, 0, size);
    request->packed = offset + size;
    return size;
}

static void bytes_finish(void *state)
{
    (void) state;
}
