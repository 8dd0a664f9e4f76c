/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copying between the memories of two processes of one node by UCX's cma transport, used through
 * UCT: UCP leaves it out of endpoints that are told of dead peers, and then does gets and puts with
 * software of its own, at a tenth of the speed. A copy that fails because the peer is gone ends in
 * an error and nothing else is lost.
 */

#include "ucx.h"

#include <stdio.h>
#include <string.h>
#include <ucs/async/async_fwd.h>
#include <uct/api/uct.h>

#define COPIER_TRANSPORT "cma"

/* Uct's interface, and the two addresses by which others find it, joined. */
struct ucx_copier {
    ucs_async_context_t *async;
    uct_worker_h worker;
    uct_md_h md;
    uct_iface_h iface;
    uint8_t address[256];
    uint32_t device_size;
    uint32_t iface_size;
    uint32_t busy; /* requests */
    struct fabric_link closing;
};

struct ucx_copier_peer {
    struct fabric_link node; /* of the copier: those that are closing */
    struct ucx_copier *copier;
    uct_ep_h ep;
    uint32_t busy;
};

/* One transfer under way. */
struct copier_request {
    uct_completion_t completion;
    struct ucx_copier_peer *peer;
    struct na_plugin_class *na_class;
    uint64_t transfer;
    uint64_t length;
};

_Static_assert(sizeof(struct copier_request) <= UCX_SCRAP_SIZE, "a request fits");

static bool copier_open_md(struct ucx_copier *copier);
static bool copier_open_component(struct ucx_copier *copier, uct_component_h component);
static bool copier_open_iface(struct ucx_copier *copier);
static bool copier_take_address(struct ucx_copier *copier);
static bool copier_try(struct ucx_copier_peer *peer, uint64_t cookie, uint64_t cookie_address);
static ucs_status_t copier_copy(struct ucx_copier_peer *peer, bool is_put, void *local,
                                uint64_t length, uint64_t remote, uct_completion_t *completion);
static void copier_done(uct_completion_t *completion);
static void copier_tried(uct_completion_t *completion);
static ucs_status_t copier_error(void *arg, uct_ep_h ep, ucs_status_t status);
static void copier_reap(struct ucx_copier *copier, bool all);

/* NULL when this machine does not do it: then there are other ways. */
struct ucx_copier *ucx_copier_open(void)
{
    struct ucx_copier *copier = ucx_host->mem_alloc(sizeof(*copier), 0);
    bool is_open;

    if (copier == NULL)
        return NULL;
    fabric_list_init(&copier->closing);
    ucx_log_capture();
    ucx_enter();
    is_open =
        ucs_async_context_create(UCS_ASYNC_MODE_POLL, &copier->async) == UCS_OK &&
        uct_worker_create(copier->async, UCS_THREAD_MODE_SERIALIZED, &copier->worker) == UCS_OK &&
        copier_open_md(copier) && copier_open_iface(copier) && copier_take_address(copier);
    ucx_leave();
    if (is_open)
        return copier;
    UCX_LOG_INFO("memory of processes of this node cannot be copied by UCX: %s", ucx_log_last());
    ucx_copier_close(copier);
    return NULL;
}

void ucx_copier_close(struct ucx_copier *copier)
{
    if (copier == NULL)
        return;
    ucx_enter();
    copier_reap(copier, true);
    if (copier->iface != NULL)
        uct_iface_close(copier->iface);
    if (copier->md != NULL)
        uct_md_close(copier->md);
    if (copier->worker != NULL)
        uct_worker_destroy(copier->worker);
    if (copier->async != NULL)
        ucs_async_context_destroy(copier->async);
    ucx_leave();
    ucx_host->mem_free(copier);
}

/* What goes to other processes; NULL without a copier. */
const void *ucx_copier_address(const struct ucx_copier *copier, uint32_t *size_p)
{
    if (copier == NULL)
        return NULL;
    *size_p = copier->device_size + copier->iface_size;
    return copier->address;
}

/*
 * NULL when the process is not on this node or its memory is not for us. The proof is its cookie:
 * who can read that at the given place can read all.
 */
struct ucx_copier_peer *ucx_copier_connect(struct ucx_copier *copier, const void *address,
                                           uint32_t size, uint64_t cookie, uint64_t cookie_address)
{
    const uct_device_addr_t *device = address;
    const uct_iface_addr_t *iface =
        (const void *) ((const uint8_t *) address + copier->device_size);
    struct ucx_copier_peer *peer;
    uct_ep_params_t params = {
        .field_mask =
            UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR,
        .iface = copier->iface,
        .dev_addr = device,
        .iface_addr = iface,
    };

    if (size != copier->device_size + copier->iface_size ||
        !uct_iface_is_reachable(copier->iface, device, iface))
        return NULL;
    peer = ucx_host->mem_alloc(sizeof(*peer), 0);
    if (peer == NULL)
        return NULL;
    peer->copier = copier;
    fabric_list_init(&peer->node);
    if (uct_ep_create(&params, &peer->ep) != UCS_OK) {
        ucx_host->mem_free(peer);
        return NULL;
    }
    if (copier_try(peer, cookie, cookie_address))
        return peer;
    ucx_copier_disconnect(copier, peer);
    return NULL;
}

/* Copies under way come to their end. */
void ucx_copier_disconnect(struct ucx_copier *copier, struct ucx_copier_peer *peer)
{
    fabric_list_append(&copier->closing, &peer->node);
    copier_reap(copier, false);
}

int32_t ucx_copier_start(struct ucx_transfer *transfer)
{
    const struct fabric_rma *rma = transfer->rma;
    struct ucx_copier_peer *peer = transfer->link->copier;
    struct copier_request *request = ucx_scrap_get(transfer->link->na_class);
    ucs_status_t status;

    if (request == NULL)
        return NA_PLUGIN_NOMEM;
    request->completion.func = copier_done;
    request->completion.count = 1;
    request->completion.status = UCS_OK;
    request->peer = peer;
    request->na_class = transfer->link->na_class;
    request->transfer = transfer->id;
    request->length = rma->length;
    ucx_transfer_touch(transfer);
    peer->busy++;
    peer->copier->busy++;
    status = copier_copy(peer, rma->is_put != 0,
                         (void *) (uintptr_t) (rma->local->base + rma->local_offset), rma->length,
                         rma->remote->base + rma->remote_offset, &request->completion);
    if (status == UCS_INPROGRESS)
        return NA_PLUGIN_SUCCESS;
    if (status == UCS_OK) {
        copier_done(&request->completion);
        return NA_PLUGIN_SUCCESS;
    }
    peer->busy--;
    peer->copier->busy--;
    transfer->in_touch--;
    ucx_scrap_put(transfer->link->na_class, request);
    return ucx_status(status);
}

/* A piece of each copy under way. */
void ucx_copier_progress(struct ucx_copier *copier)
{
    (void) uct_worker_progress(copier->worker);
    copier_reap(copier, false);
}

bool ucx_copier_is_idle(const struct ucx_copier *copier)
{
    return copier->busy == 0;
}

static bool copier_open_md(struct ucx_copier *copier)
{
    uct_component_h *components;
    unsigned count;
    bool is_open = false;

    if (uct_query_components(&components, &count) != UCS_OK)
        return false;
    for (unsigned i = 0; i < count && !is_open; i++)
        is_open = copier_open_component(copier, components[i]);
    uct_release_component_list(components);
    return is_open;
}

static bool copier_open_component(struct ucx_copier *copier, uct_component_h component)
{
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME};
    uct_md_config_t *config;
    ucs_status_t status;

    if (uct_component_query(component, &attr) != UCS_OK ||
        strcmp(attr.name, COPIER_TRANSPORT) != 0 ||
        uct_md_config_read(component, NULL, NULL, &config) != UCS_OK)
        return false;
    status = uct_md_open(component, COPIER_TRANSPORT, config, &copier->md);
    uct_config_release(config);
    if (status != UCS_OK)
        copier->md = NULL;
    return status == UCS_OK;
}

static bool copier_open_iface(struct ucx_copier *copier)
{
    uct_tl_resource_desc_t *transports;
    uct_iface_config_t *config;
    uct_iface_params_t params = {
        .field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE |
                      UCT_IFACE_PARAM_FIELD_ERR_HANDLER | UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS,
        .open_mode = UCT_IFACE_OPEN_MODE_DEVICE,
        .err_handler = copier_error,
    };
    ucs_status_t status;
    unsigned count;

    if (uct_md_query_tl_resources(copier->md, &transports, &count) != UCS_OK)
        return false;
    status = UCS_ERR_NO_DEVICE;
    if (count != 0)
        status = uct_md_iface_config_read(copier->md, transports[0].tl_name, NULL, NULL, &config);
    if (status == UCS_OK) {
        params.mode.device.tl_name = transports[0].tl_name;
        params.mode.device.dev_name = transports[0].dev_name;
        status = uct_iface_open(copier->md, copier->worker, &params, config, &copier->iface);
        uct_config_release(config);
    }
    uct_release_tl_resource_list(transports);
    if (status != UCS_OK) {
        copier->iface = NULL;
        return false;
    }
    uct_iface_progress_enable(copier->iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    return true;
}

static bool copier_take_address(struct ucx_copier *copier)
{
    uct_iface_attr_t attr;

    if (uct_iface_query(copier->iface, &attr) != UCS_OK ||
        attr.device_addr_len + attr.iface_addr_len > sizeof(copier->address) ||
        (attr.cap.flags & UCT_IFACE_FLAG_GET_ZCOPY) == 0 ||
        (attr.cap.flags & UCT_IFACE_FLAG_PUT_ZCOPY) == 0)
        return false;
    copier->device_size = (uint32_t) attr.device_addr_len;
    copier->iface_size = (uint32_t) attr.iface_addr_len;
    return uct_iface_get_device_address(copier->iface, (void *) copier->address) == UCS_OK &&
           uct_iface_get_address(copier->iface, (void *) (copier->address + copier->device_size)) ==
               UCS_OK;
}

static bool copier_try(struct ucx_copier_peer *peer, uint64_t cookie, uint64_t cookie_address)
{
    uint64_t copy = ~cookie;
    uct_completion_t completion = {.func = copier_tried, .count = 1, .status = UCS_OK};
    ucs_status_t status =
        copier_copy(peer, false, &copy, sizeof(copy), cookie_address, &completion);

    while (status == UCS_INPROGRESS && completion.count != 0)
        ucx_copier_progress(peer->copier);
    return (status == UCS_OK || (status == UCS_INPROGRESS && completion.status == UCS_OK)) &&
           copy == cookie;
}

static ucs_status_t copier_copy(struct ucx_copier_peer *peer, bool is_put, void *local,
                                uint64_t length, uint64_t remote, uct_completion_t *completion)
{
    uct_iov_t vector = {.buffer = local, .length = length, .memh = UCT_MEM_HANDLE_NULL, .count = 1};

    if (is_put)
        return uct_ep_put_zcopy(peer->ep, &vector, 1, remote, UCT_INVALID_RKEY, completion);
    return uct_ep_get_zcopy(peer->ep, &vector, 1, remote, UCT_INVALID_RKEY, completion);
}

static void copier_done(uct_completion_t *completion)
{
    struct copier_request *request =
        fabric_container(completion, struct copier_request, completion);
    struct ucx_transfer *transfer =
        ucx_table_find(&request->na_class->transfers, request->transfer);
    /* UCX does not tell a process that is gone from one whose memory is. The first is usual. */
    int32_t status = completion->status == UCS_ERR_IO_ERROR ? NA_PLUGIN_HOSTUNREACH
                                                            : ucx_status(completion->status);
    struct ucx_copier_peer *peer = request->peer;
    uint64_t length = request->length;

    ucx_scrap_put(request->na_class, request);
    peer->busy--;
    peer->copier->busy--;
    if (transfer != NULL)
        ucx_transfer_untouch(transfer, status, status == NA_PLUGIN_SUCCESS ? length : 0);
}

static void copier_tried(uct_completion_t *completion)
{
    (void) completion;
}

/* UCX ends the process for an error that nobody handles. Ours is in the completion. */
static ucs_status_t copier_error(void *arg, uct_ep_h ep, ucs_status_t status)
{
    (void) arg;
    (void) ep;
    (void) status;
    return UCS_OK;
}

/* Not from inside a completion, which still uses the endpoint. */
static void copier_reap(struct ucx_copier *copier, bool all)
{
    struct fabric_link *node, *next;

    for (node = copier->closing.next; node != &copier->closing; node = next) {
        struct ucx_copier_peer *peer = fabric_container(node, struct ucx_copier_peer, node);

        next = node->next;
        if (peer->busy != 0 && !all)
            continue;
        fabric_list_remove(&peer->node);
        uct_ep_destroy(peer->ep);
        ucx_host->mem_free(peer);
    }
}
