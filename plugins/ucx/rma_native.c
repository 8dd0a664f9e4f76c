/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets by UCP over RDMA lanes, on an endpoint of their own: an access that the device
 * refuses breaks only that one. From then on the engine moves the data of that link.
 */

#include "ucx.h"

static void native_done(void *request, ucs_status_t status, void *arg);
static void native_flush(struct ucx_request *request);
static void native_flushed(void *request, ucs_status_t status, void *arg);
static void native_end(struct ucx_request *request, ucs_status_t status);

/* NA_PLUGIN_OPNOTSUPPORTED: the engine has to carry it out. */
int32_t ucx_native_start(struct ucx_transfer *transfer)
{
    const struct kit_msg_rma *rma = transfer->rma;
    struct ucx_link *link = transfer->link;
    void *local = (void *) (uintptr_t) (rma->local->region.base + rma->local_offset);
    uint64_t remote = rma->remote->region.base + rma->remote_offset;
    struct ucx_request *request;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = native_done,
    };
    ucs_status_ptr_t started;
    ucs_status_t status;
    ucp_rkey_h rkey;

    status = ucx_mem_rkey(link, rma->remote, &rkey);
    if (status != UCS_OK) {
        UCX_LOG_ERROR("%s gave a memory handle that UCX does not understand: %s (%s)", link->name,
                      ucs_status_string(status), ucx_log_last());
        return NA_PLUGIN_PROTOCOL_ERROR;
    }
    request = ucx_request_get(link);
    if (request == NULL)
        return NA_PLUGIN_NOMEM;
    request->transfer = transfer;
    param.user_data = request;
    if (rma->is_put != 0)
        started = ucp_put_nbx(link->data.ep, local, rma->length, remote, rkey, &param);
    else
        started = ucp_get_nbx(link->data.ep, local, rma->length, remote, rkey, &param);
    if (UCS_PTR_IS_ERR(started)) {
        ucx_request_put(request);
        ucx_link_data_broke(link, UCS_PTR_STATUS(started));
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    if (started == NULL)
        native_done(NULL, UCS_OK, request);
    return NA_PLUGIN_SUCCESS;
}

/* A put has completed at the target only after a flush of the endpoint. */
static void native_done(void *request, ucs_status_t status, void *arg)
{
    struct ucx_request *own = arg;

    if (request != NULL)
        ucp_request_free(request);
    if (status == UCS_OK && own->transfer != NULL && own->transfer->rma->is_put != 0)
        native_flush(own);
    else
        native_end(own, status);
}

static void native_flush(struct ucx_request *request)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = native_flushed,
        .user_data = request,
    };
    ucs_status_ptr_t started = UCS_STATUS_PTR(UCS_ERR_UNREACHABLE);

    if (request->link->data.ep != NULL && !request->link->is_data_broken)
        started = ucp_ep_flush_nbx(request->link->data.ep, &param);
    if (!UCS_PTR_IS_PTR(started))
        native_end(request, UCS_PTR_STATUS(started));
}

static void native_flushed(void *request, ucs_status_t status, void *arg)
{
    ucp_request_free(request);
    native_end(arg, status);
}

/*
 * UCX does not tell which access the device refused. So the engine starts every transfer again that
 * failed with the endpoint, and the target checks each.
 */
static void native_end(struct ucx_request *request, ucs_status_t status)
{
    struct ucx_link *link = request->link;
    struct kit_endpoint *endpoint = &link->na_class->fabric;
    struct ucx_transfer *transfer = request->transfer;
    int32_t ret = ucx_status(status);

    ucx_request_put(request);
    if (transfer == NULL)
        return;
    if (transfer->is_abandoned) {
        kit_msg_rma_done(endpoint, transfer->rma, transfer->status);
        return;
    }
    if (status != UCS_OK && link->phase == UCX_LINK_READY && !link->is_failing) {
        ucx_link_data_broke(link, status);
        transfer->is_native = false;
        ret = kit_remote_start(endpoint, transfer->rma);
        if (ret == NA_PLUGIN_SUCCESS)
            return;
    }
    kit_msg_rma_done(endpoint, transfer->rma, ret);
}
