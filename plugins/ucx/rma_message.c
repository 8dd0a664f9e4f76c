/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets by active messages, at the origin: a get asks for pieces and takes them, a put
 * sends pieces and waits for the verdict on each. Large pieces go by UCX's rendezvous, straight
 * from one memory to the other; the receiver decides about each when it is announced, so a transfer
 * that was given up leaves nothing behind.
 */

#include "ucx.h"

#include <string.h>

static int32_t message_status(int32_t status);
static int32_t message_ask(struct ucx_transfer *transfer);
static int32_t message_send_pieces(struct ucx_transfer *transfer);
static void message_take_back(struct ucx_transfer *transfer);
static void message_piece_sent(void *request, ucs_status_t status, void *arg);
static void message_header_sent(void *request, ucs_status_t status, void *arg);
static void message_piece_received(void *request, ucs_status_t status, size_t size, void *arg);
static ucs_status_ptr_t ticket_send_now(const struct ucx_ticket *ticket, uint32_t am,
                                        const void *data, size_t size,
                                        const ucp_request_param_t *param);
static void *piece_start(void *context, const void *buffer, size_t count);
static size_t piece_size(void *state);
static size_t piece_pack(void *state, size_t offset, void *dest, size_t max_length);
static void piece_finish(void *state);

int32_t ucx_message_start(struct ucx_transfer *transfer)
{
    return transfer->rma->is_put != 0 ? message_send_pieces(transfer) : message_ask(transfer);
}

/* What an eager piece is to UCX: something that gives its bytes when it is asked for them. */
ucs_status_t ucx_pieces_setup(struct na_plugin_class *na_class)
{
    const ucp_generic_dt_ops_t ops = {
        .start_pack = piece_start,
        .packed_size = piece_size,
        .pack = piece_pack,
        .finish = piece_finish,
    };

    return ucp_dt_create_generic(&ops, NULL, &na_class->piece);
}

void ucx_pieces_cleanup(struct na_plugin_class *na_class)
{
    if (na_class->piece != 0)
        ucp_dt_destroy(na_class->piece);
    na_class->piece = 0;
}

/* It was abandoned: the target need not go on. */
void ucx_message_stop(struct ucx_transfer *transfer)
{
    struct ucx_link *link = transfer->link;
    struct ucx_ticket *ticket;

    if (transfer->way == UCX_WAY_MESSAGES && transfer->rma->is_put != 0) {
        message_take_back(transfer);
        return;
    }
    if (link->phase != UCX_LINK_READY || link->is_failing ||
        (transfer->way == UCX_WAY_READ && transfer->asked == 0))
        return;
    ticket = ucx_ticket_get(link);
    if (ticket == NULL)
        return;
    ticket->header.transfer = transfer->id;
    (void) ucx_ticket_send(ticket, UCX_AM_STOP, NULL, 0, message_header_sent);
}

struct ucx_ticket *ucx_ticket_get(struct ucx_link *link)
{
    struct ucx_ticket *ticket = ucx_scrap_get(link->na_class);

    if (ticket == NULL)
        return NULL;
    kit_list_init(&ticket->node);
    ticket->link = link;
    ticket->header.name = ucx_link_name(link);
    link->busy++;
    return ticket;
}

void ucx_ticket_put(struct ucx_ticket *ticket)
{
    ticket->link->busy--;
    kit_list_remove(&ticket->node);
    ucx_scrap_put(ticket->link->na_class, ticket);
}

/*
 * Takes an eager piece back: nobody reads its memory from now on, and the other side is told the
 * status instead. False when UCX has copied a part of it, or knows the memory itself.
 */
bool ucx_ticket_take_back(struct ucx_ticket *ticket, int32_t status)
{
    if (ticket->data == NULL || (ticket->packed != 0 && ticket->packed != ticket->length))
        return false;
    ticket->data = NULL;
    ticket->header.status = status;
    kit_list_remove(&ticket->node);
    return true;
}

/* The callback has the ticket, also when UCX is done at once; not when this returns an error. */
ucs_status_t ucx_ticket_send(struct ucx_ticket *ticket, uint32_t am, const void *data, size_t size,
                             ucp_send_nbx_callback_t callback)
{
    uint64_t eager_max = ticket->link->is_stream ? UCX_STREAM_PIECE : UCX_EAGER_MAX;
    bool is_eager = size <= eager_max && (ticket->header.flags & UCX_RMA_DEVICE) == 0;
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_AM_SEND_FLAG_REPLY |
                 (is_eager || size == 0 ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV),
        .cb.send = callback,
        .user_data = ticket,
    };
    ucs_status_ptr_t request = UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE);

    ticket->length = size;
    if (is_eager && size != 0 && ticket->link->is_stream)
        request = ticket_send_now(ticket, am, data, size, &param);
    if (UCS_PTR_STATUS(request) != UCS_ERR_NO_RESOURCE)
        goto out;
    if (is_eager && size != 0) {
        ticket->data = data;
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = ticket->link->na_class->piece;
        data = ticket;
        size = 1;
    }
    request = ucp_am_send_nbx(ticket->link->ep, am, &ticket->header, sizeof(ticket->header), data,
                              size, &param);

out:
    if (UCS_PTR_IS_ERR(request)) {
        ucx_ticket_put(ticket);
        return UCS_PTR_STATUS(request);
    }
    if (request == NULL)
        callback(NULL, UCS_OK, ticket);
    return UCS_OK;
}

/* Likewise, for the data of an announced piece. */
ucs_status_t ucx_ticket_receive(struct ucx_ticket *ticket, void *descriptor, void *buf, size_t size,
                                ucp_am_recv_data_nbx_callback_t callback)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.recv_am = callback,
        .user_data = ticket,
    };
    ucs_status_ptr_t request =
        ucp_am_recv_data_nbx(ticket->link->worker->worker, descriptor, buf, size, &param);

    if (UCS_PTR_IS_ERR(request))
        callback(NULL, UCS_PTR_STATUS(request), 0, ticket);
    else if (request == NULL)
        callback(NULL, UCS_OK, size, ticket);
    return UCS_INPROGRESS;
}

/* Tells the origin what became of a piece, or of all it asked for. */
void ucx_message_done(struct ucx_link *link, uint64_t transfer, int32_t status, uint64_t length)
{
    struct ucx_ticket *ticket;
    ucs_status_t sent = UCS_ERR_NO_MEMORY;

    if (link->phase != UCX_LINK_READY || link->is_failing)
        return;
    ticket = ucx_ticket_get(link);
    if (ticket != NULL) {
        ticket->header.transfer = transfer;
        ticket->header.status = status;
        ticket->header.length = length;
        sent = ucx_ticket_send(ticket, UCX_AM_DONE, NULL, 0, message_header_sent);
    }
    if (sent == UCS_OK)
        return;
    /* It would wait for ever. */
    link->is_failing = true;
    link->failure = sent;
    ucx_link_trouble(link);
}

/*
 * Copies a header from the wire and says on which link it came; NULL when it is not to be used. The
 * endpoint that it came over is looked up by UCX under a number of the message, too, which can be
 * forged: so the header also has to say what only the other side of that link was told. A link
 * whose messages come over another endpoint does not work, and is made again.
 */
struct ucx_link *ucx_message_accept(struct na_plugin_class *na_class, const void *header,
                                    size_t size, const ucp_am_recv_param_t *param,
                                    struct ucx_rma_header *copy)
{
    struct ucx_link *link;

    if (size != sizeof(*copy)) {
        UCX_LOG_DEBUG("a message with a header of %zu bytes is dropped", size);
        return NULL;
    }
    memcpy(copy, header, sizeof(*copy));
    link = ucx_link_named(na_class, &copy->name);
    if (link == NULL || link->ep == NULL)
        return NULL;
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0 || param->reply_ep != link->ep) {
        UCX_LOG_WARNING("a message of %s came over another endpoint than its own", link->name);
        link->is_failing = true;
        link->failure = UCS_ERR_CONNECTION_RESET;
        ucx_link_trouble(link);
        return NULL;
    }
    return link;
}

/* A piece that we asked for. */
ucs_status_t ucx_data_received(void *arg, const void *header, size_t header_size, void *data,
                               size_t size, const ucp_am_recv_param_t *param)
{
    struct na_plugin_class *na_class = ((struct ucx_worker *) arg)->na_class;
    struct ucx_rma_header copy;
    struct ucx_link *link = ucx_message_accept(na_class, header, header_size, param, &copy);
    struct ucx_transfer *transfer;
    struct ucx_ticket *ticket;
    uint8_t *place;

    if (link == NULL)
        return UCS_OK;
    transfer = kit_table_find(&na_class->transfers, copy.transfer);
    if (transfer == NULL || transfer->link != link || transfer->way != UCX_WAY_MESSAGES ||
        transfer->rma->is_put != 0 || transfer->is_over)
        return UCS_OK;
    if (copy.status != NA_PLUGIN_SUCCESS) {
        ucx_transfer_advance(transfer, message_status(copy.status), 0);
        return UCS_OK;
    }
    if (copy.offset > transfer->rma->length || size > transfer->rma->length - copy.offset) {
        UCX_LOG_WARNING("%s sends more than it was asked for", link->name);
        return UCS_OK;
    }
    place = (uint8_t *) (uintptr_t) transfer->rma->local->region.base +
            transfer->rma->local_offset + copy.offset;
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
        memcpy(place, data, size);
        ucx_transfer_advance(transfer, NA_PLUGIN_SUCCESS, size);
        return UCS_OK;
    }
    ticket = ucx_ticket_get(link);
    if (ticket == NULL) {
        ucx_transfer_advance(transfer, NA_PLUGIN_NOMEM, 0);
        return UCS_OK;
    }
    ticket->transfer = transfer->id;
    ticket->length = size;
    ucx_transfer_touch(transfer);
    return ucx_ticket_receive(ticket, data, place, size, message_piece_received);
}

/* The target's verdict. */
ucs_status_t ucx_done_received(void *arg, const void *header, size_t header_size, void *data,
                               size_t size, const ucp_am_recv_param_t *param)
{
    struct na_plugin_class *na_class = ((struct ucx_worker *) arg)->na_class;
    struct ucx_rma_header copy;
    struct ucx_link *link = ucx_message_accept(na_class, header, header_size, param, &copy);
    struct ucx_transfer *transfer;

    (void) data;
    (void) size;
    if (link == NULL)
        return UCS_OK;
    transfer = kit_table_find(&na_class->transfers, copy.transfer);
    if (transfer == NULL || transfer->link != link || transfer->way == UCX_WAY_UCP)
        return UCS_OK;
    if (transfer->way == UCX_WAY_COPY || transfer->way == UCX_WAY_READ)
        (transfer->way == UCX_WAY_COPY ? ucx_attach_answered : ucx_read_answered)(
            transfer, copy.status == NA_PLUGIN_SUCCESS ? copy.status : message_status(copy.status));
    else if (copy.status != NA_PLUGIN_SUCCESS)
        ucx_transfer_advance(transfer, message_status(copy.status), 0);
    else if (transfer->rma->is_put != 0 && copy.length <= transfer->sent - transfer->done)
        ucx_transfer_advance(transfer, NA_PLUGIN_SUCCESS, copy.length);
    return UCS_OK;
}

/* An error that the other side reports. */
static int32_t message_status(int32_t status)
{
    return status > 0 && status <= NA_PLUGIN_HOSTFIREWALL ? status : NA_PLUGIN_PROTOCOL_ERROR;
}

static int32_t message_ask(struct ucx_transfer *transfer)
{
    const struct fabric_rma *rma = transfer->rma;
    struct ucx_ticket *ticket = ucx_ticket_get(transfer->link);
    ucs_status_t status;

    if (ticket == NULL)
        return NA_PLUGIN_NOMEM;
    ticket->header.transfer = transfer->id;
    ticket->header.memory = rma->remote->region.id;
    ticket->header.key = rma->remote->region.key;
    ticket->header.offset = rma->remote_offset;
    ticket->header.length = rma->length;
    if (rma->local->region.mem_type != NA_PLUGIN_MEM_TYPE_HOST)
        ticket->header.flags = UCX_RMA_DEVICE;
    status = ucx_ticket_send(ticket, UCX_AM_GET, NULL, 0, message_header_sent);
    return ucx_status(status);
}

/* As many as may be under way. The first one's failure is the whole put's. */
static int32_t message_send_pieces(struct ucx_transfer *transfer)
{
    const struct fabric_rma *rma = transfer->rma;
    uint64_t id = transfer->id;
    struct kit_table *table = &transfer->link->na_class->transfers;

    while (transfer->sent < rma->length && transfer->in_touch < UCX_PIECES) {
        uint64_t size = ucx_link_piece(transfer->link, rma->length - transfer->sent);
        const uint8_t *data = (const uint8_t *) (uintptr_t) rma->local->region.base +
                              rma->local_offset + transfer->sent;
        struct ucx_ticket *ticket = ucx_ticket_get(transfer->link);
        ucs_status_t status;

        if (ticket == NULL)
            return NA_PLUGIN_NOMEM;
        ticket->transfer = id;
        ticket->header.transfer = id;
        ticket->header.memory = rma->remote->region.id;
        ticket->header.key = rma->remote->region.key;
        ticket->header.offset = rma->remote_offset + transfer->sent;
        ticket->header.length = size;
        if (rma->local->region.mem_type != NA_PLUGIN_MEM_TYPE_HOST ||
            rma->remote->region.mem_type != NA_PLUGIN_MEM_TYPE_HOST)
            ticket->header.flags = UCX_RMA_DEVICE;
        transfer->sent += size;
        kit_list_append(&transfer->tickets, &ticket->node);
        ucx_transfer_touch(transfer);
        status = ucx_ticket_send(ticket, UCX_AM_PUT, data, size, message_piece_sent);
        if (status != UCS_OK) {
            transfer->in_touch--;
            transfer->sent -= size;
            if (status == UCS_ERR_NO_RESOURCE && transfer->in_touch != 0)
                return NA_PLUGIN_SUCCESS; /* goes on when one of those ends */
            return ucx_status(status);
        }
        if (kit_table_find(table, id) == NULL)
            break;
    }
    return NA_PLUGIN_SUCCESS;
}

/* The target throws away what it gets in their place. */
static void message_take_back(struct ucx_transfer *transfer)
{
    struct kit_link *node, *next;

    for (node = transfer->tickets.next; node != &transfer->tickets; node = next) {
        struct ucx_ticket *ticket = kit_container(node, struct ucx_ticket, node);

        next = node->next;
        if (!ucx_ticket_take_back(ticket, NA_PLUGIN_CANCELED))
            continue;
        ticket->transfer = 0;
        transfer->in_touch--;
    }
}

static void message_piece_sent(void *request, ucs_status_t status, void *arg)
{
    struct ucx_ticket *ticket = arg;
    struct ucx_link *link = ticket->link;
    uint64_t id = ticket->transfer;
    struct ucx_transfer *transfer = kit_table_find(&link->na_class->transfers, id);
    int32_t ret = ucx_status(status);

    if (request != NULL)
        ucp_request_free(request);
    ucx_ticket_put(ticket);
    if (transfer == NULL)
        return;
    ucx_transfer_untouch(transfer, ret, 0);
    if (request == NULL || link->phase != UCX_LINK_READY ||
        kit_table_find(&link->na_class->transfers, id) == NULL || transfer->is_over)
        return;
    ret = message_send_pieces(transfer);
    if (ret != NA_PLUGIN_SUCCESS)
        ucx_transfer_advance(transfer, ret, 0);
}

static void message_header_sent(void *request, ucs_status_t status, void *arg)
{
    (void) status;
    if (request != NULL)
        ucp_request_free(request);
    ucx_ticket_put(arg);
}

static void message_piece_received(void *request, ucs_status_t status, size_t size, void *arg)
{
    struct ucx_ticket *ticket = arg;
    struct ucx_transfer *transfer =
        kit_table_find(&ticket->link->na_class->transfers, ticket->transfer);
    uint64_t length = ticket->length;

    (void) size;
    if (request != NULL)
        ucp_request_free(request);
    ucx_ticket_put(ticket);
    if (transfer != NULL)
        ucx_transfer_untouch(transfer, ucx_status(status), status == UCS_OK ? length : 0);
}

/*
 * Straight from the piece's memory to the socket, and what that does not take to UCX's buffer: when
 * this returns UCX does not know the memory any more. UCS_ERR_NO_RESOURCE: there is no room now.
 */
static ucs_status_ptr_t ticket_send_now(const struct ucx_ticket *ticket, uint32_t am,
                                        const void *data, size_t size,
                                        const ucp_request_param_t *param)
{
    ucp_request_param_t now = *param;

    now.op_attr_mask |= UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
    return ucp_am_send_nbx(ticket->link->ep, am, &ticket->header, sizeof(ticket->header), data,
                           size, &now);
}

static void *piece_start(void *context, const void *buffer, size_t count)
{
    (void) context;
    (void) count;
    return (void *) (uintptr_t) buffer;
}

static size_t piece_size(void *state)
{
    return ((const struct ucx_ticket *) state)->length;
}

/* The header leaves with the first bytes, and says when these are none of the region. */
static size_t piece_pack(void *state, size_t offset, void *dest, size_t max_length)
{
    struct ucx_ticket *ticket = state;
    size_t size = ticket->length - offset;

    size = size < max_length ? size : max_length;
    if (ticket->data != NULL)
        memcpy(dest, ticket->data + offset, size);
    else
        memset(dest, 0, size);
    ticket->packed = offset + size;
    return size;
}

static void piece_finish(void *state)
{
    (void) state;
}
