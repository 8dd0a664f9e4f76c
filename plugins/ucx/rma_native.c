/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets by UCP itself, over lanes that need no help of the target. */

#include "ucx.h"

static void native_done(void *request, ucs_status_t status, void *arg);
static void native_flush(struct ucx_transfer *transfer);
static void native_flushed(void *request, ucs_status_t status, void *arg);
static struct ucx_transfer *native_find(struct ucx_link *link, uint64_t id);

/* The user data of UCX's requests: it outlives the transfer when a link is given up. */
struct native_ticket {
    struct ucx_link *link;
    uint64_t transfer;
};

int32_t ucx_native_start(struct ucx_transfer *transfer)
{
    const struct fabric_rma *rma = transfer->rma;
    struct ucx_link *link = transfer->link;
    void *local = (void *) (uintptr_t) (rma->local->region.base + rma->local_offset);
    uint64_t remote = rma->remote->region.base + rma->remote_offset;
    struct native_ticket *ticket;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = native_done,
    };
    ucs_status_ptr_t request;
    ucs_status_t status;
    ucp_rkey_h rkey;

    status = ucx_mem_rkey(link, rma->remote, &rkey);
    if (status != UCS_OK) {
        UCX_LOG_ERROR("%s gave a memory handle that UCX does not understand: %s (%s)", link->name,
                      ucs_status_string(status), ucx_log_last());
        return NA_PLUGIN_PROTOCOL_ERROR;
    }
    ticket = ucx_scrap_get(link->na_class);
    if (ticket == NULL)
        return NA_PLUGIN_NOMEM;
    ticket->link = link;
    ticket->transfer = transfer->id;
    param.user_data = ticket;
    ucx_transfer_touch(transfer);
    if (rma->is_put != 0)
        request = ucp_put_nbx(link->ep, local, rma->length, remote, rkey, &param);
    else
        request = ucp_get_nbx(link->ep, local, rma->length, remote, rkey, &param);
    if (UCS_PTR_IS_ERR(request)) {
        ucx_scrap_put(link->na_class, ticket);
        transfer->in_touch--;
        return ucx_status(UCS_PTR_STATUS(request));
    }
    link->busy++;
    if (request == NULL)
        native_done(NULL, UCS_OK, ticket);
    return NA_PLUGIN_SUCCESS;
}

/* A put is there when the endpoint was flushed behind it. */
static void native_done(void *request, ucs_status_t status, void *arg)
{
    struct native_ticket *ticket = arg;
    struct ucx_transfer *transfer = native_find(ticket->link, ticket->transfer);

    if (request != NULL)
        ucp_request_free(request);
    ticket->link->busy--;
    ucx_scrap_put(ticket->link->na_class, ticket);
    if (transfer == NULL)
        return;
    if (status == UCS_OK && transfer->rma->is_put != 0)
        native_flush(transfer);
    else
        ucx_transfer_untouch(transfer, status == UCS_OK ? NA_PLUGIN_SUCCESS : ucx_status(status),
                             transfer->rma->length);
}

static void native_flush(struct ucx_transfer *transfer)
{
    struct ucx_link *link = transfer->link;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = native_flushed,
    };
    struct native_ticket *ticket = ucx_scrap_get(link->na_class);
    ucs_status_ptr_t request;

    if (ticket == NULL || link->ep == NULL) {
        if (ticket != NULL)
            ucx_scrap_put(link->na_class, ticket);
        ucx_transfer_untouch(transfer, NA_PLUGIN_NOMEM, 0);
        return;
    }
    ticket->link = link;
    ticket->transfer = transfer->id;
    param.user_data = ticket;
    request = ucp_ep_flush_nbx(link->ep, &param);
    if (UCS_PTR_IS_ERR(request)) {
        ucx_scrap_put(link->na_class, ticket);
        ucx_transfer_untouch(transfer, ucx_status(UCS_PTR_STATUS(request)), 0);
        return;
    }
    link->busy++;
    if (request == NULL)
        native_flushed(NULL, UCS_OK, ticket);
}

static void native_flushed(void *request, ucs_status_t status, void *arg)
{
    struct native_ticket *ticket = arg;
    struct ucx_transfer *transfer = native_find(ticket->link, ticket->transfer);

    if (request != NULL)
        ucp_request_free(request);
    ticket->link->busy--;
    ucx_scrap_put(ticket->link->na_class, ticket);
    if (transfer != NULL)
        ucx_transfer_untouch(transfer, status == UCS_OK ? NA_PLUGIN_SUCCESS : ucx_status(status),
                             transfer->rma->length);
}

static struct ucx_transfer *native_find(struct ucx_link *link, uint64_t id)
{
    return kit_table_find(&link->na_class->transfers, id);
}
