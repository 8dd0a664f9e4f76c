/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing an endpoint: fabric, domain, queue, address vector, receive buffers. */

#include "ofi.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Peers that address vectors and queues are laid out for; no limit. */
#define OFI_PEERS_EXPECTED 1024

/* As long as a connection over TCP may take that is not lost. */
#define OFI_CONNECT_NS UINT64_C(120000000000) /* hundreds that come at once are served, too */
#define OFI_FENCE_NS   UINT64_C(200000000)

/* For somebody who connected to ask for something, as long as with other transports. */
#define OFI_UNIDENTIFIED_MS 60000u

/* Until an endpoint that could not be opened anew is tried again; a descriptor may be short. */
#define OFI_RENEW_NS UINT64_C(1000000000)

static void ofi_queue_replace(struct na_plugin_class *na_class);
static int32_t ofi_again_open(struct na_plugin_class *na_class);
static void ofi_fences_await(struct na_plugin_class *na_class);
static int32_t ofi_class_open(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                              struct na_plugin_class_info *info);
static int32_t ofi_fabric_open(struct na_plugin_class *na_class);
static int32_t ofi_queue_open(struct na_plugin_class *na_class);
static int32_t ofi_vector_open(struct na_plugin_class *na_class);
static int32_t ofi_endpoint_open(struct na_plugin_class *na_class);
static int32_t ofi_failed(const struct na_plugin_class *na_class, const char *what, int error);
static void ofi_settle(struct na_plugin_class *na_class, const struct na_plugin_init *init);
static uint64_t ofi_frame_size(const struct na_plugin_class *na_class);
static void ofi_fill_info(const struct na_plugin_class *na_class,
                          struct na_plugin_class_info *info);
static void ofi_close(struct fid *fid);

static const struct kit_msg_ops ofi_ops = {
    .max_sends = 1,
    .peer_size = sizeof(struct ofi_peer),
    .frame_size = sizeof(struct ofi_send),
    .rma_size = sizeof(struct ofi_rma),
    .send = ofi_frame_send,
    .poll = ofi_poll,
    .get_fd = ofi_get_fd,
    .try_wait = ofi_try_wait,
    .frame_release = ofi_frame_release,
    .peer_open = ofi_peer_open,
    .peer_close = ofi_peer_close,
    .peer_abort = ofi_peer_abort,
    .slab_register = ofi_slab_register,
    .slab_deregister = ofi_slab_deregister,
    .rma_start = ofi_rma_start,
    .rma_abandon = ofi_rma_abandon,
    .reset = ofi_reset,
    .control = kit_remote_control,
};

int32_t ofi_class_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                             struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    struct na_plugin_class *na_class;
    int32_t ret;

    (void) host_class;
    na_class = kit_host->mem_alloc(sizeof(*na_class), OFI_CACHE_LINE);
    if (na_class == NULL)
        return NA_PLUGIN_NOMEM;
    na_class->wait_fd = -1;
    na_class->connect_ns = OFI_CONNECT_NS;
    na_class->unidentified_ms = OFI_UNIDENTIFIED_MS;
    na_class->rmas_waiting_end = &na_class->rmas_waiting;
    kit_list_init(&na_class->moves);
    ret = kit_regions_open(&na_class->regions);
    if (ret != NA_PLUGIN_SUCCESS)
        OFI_LOG_ERROR("the system has no random numbers");
    else
        ret = ofi_class_open(na_class, init, info);
    if (ret != NA_PLUGIN_SUCCESS) {
        (void) ofi_class_finalize(na_class);
        return ret;
    }
    *class_p = na_class;
    return NA_PLUGIN_SUCCESS;
}

int32_t ofi_class_finalize(struct na_plugin_class *na_class)
{
    struct ofi_resources resources;

    if (na_class == NULL)
        return NA_PLUGIN_SUCCESS;
    if (na_class->protocol.is_fenced)
        ofi_fences_await(na_class);
    /* Closed before the message layer, whose frames it may hold; kept by those alone that copy. */
    if (na_class->endpoint != NULL && na_class->local == NULL) {
        if (ofi_target_is_busy(na_class, NULL, NULL))
            ofi_cut(na_class, NULL);
        ofi_unidentified_end(na_class, 0);
        ofi_close(&na_class->endpoint->fid);
        na_class->endpoint = NULL;
    }
    ofi_unidentified_close(na_class);
    kit_remote_close(&na_class->base);
    ofi_mem_destroy_all(na_class);
    kit_endpoint_close(&na_class->base);
    ofi_address_destroy_all(na_class);
    resources = (struct ofi_resources){
        .info = na_class->info,
        .fabric = na_class->fabric,
        .domain = na_class->domain,
        .endpoint = na_class->endpoint,
        .cq = na_class->cq,
        .av = na_class->av,
        .receive_mr = na_class->receive_mr,
        .receive_memory = na_class->receive_memory,
        .receives = na_class->receives,
    };
    ofi_local_close(na_class->local, &resources);
    kit_regions_close(&na_class->regions);
    kit_host->mem_free(na_class);
    return NA_PLUGIN_SUCCESS;
}

/*
 * What is layered above connections closes them with its endpoint, and says so of all that was in
 * progress. The next one, with the same address, is opened when somebody polls who needs it.
 */
bool ofi_reset(struct kit_endpoint *endpoint)
{
    struct na_plugin_class *na_class = (struct na_plugin_class *) endpoint;
    uint8_t raw[KIT_RAW_MAX];
    size_t size = sizeof(raw);
    void *address;

    if (strstr(na_class->info->fabric_attr->prov_name, "ofi_rxm") == NULL ||
        (na_class->mr_mode & FI_MR_ENDPOINT) != 0 || na_class->endpoint == NULL ||
        fi_getname(&na_class->endpoint->fid, raw, &size) != 0)
        return false;
    address = malloc(size); /* libfabric frees it */
    if (address == NULL)
        return false;
    memcpy(address, raw, size);
    free(na_class->info->src_addr);
    na_class->info->src_addr = address;
    na_class->info->src_addrlen = size;
    if (ofi_target_is_busy(na_class, NULL, NULL))
        ofi_cut(na_class, NULL);
    ofi_unidentified_close(na_class);
    ofi_close(&na_class->endpoint->fid);
    na_class->endpoint = NULL;
    ofi_queue_drain(na_class);
    if (na_class->base.rma != NULL) {
        kit_rma_peer_failed(na_class->base.rma, NULL, NA_PLUGIN_HOSTUNREACH);
        kit_rma_poll(na_class->base.rma, 0);
    }
    ofi_receives_reset(na_class);
    ofi_queue_replace(na_class);
    return true;
}

/* The rxm layer asks the queues of a closed endpoint, which are freed, before it lets wait. */
static void ofi_queue_replace(struct na_plugin_class *na_class)
{
    ofi_close(&na_class->cq->fid);
    na_class->cq = NULL;
    na_class->wait_fd = -1;
    if (ofi_queue_open(na_class) == NA_PLUGIN_SUCCESS)
        kit_msg_wait_fd_changed(&na_class->base);
}

/* False when there is none. */
bool ofi_endpoint_reopen(struct na_plugin_class *na_class)
{
    struct ofi_stuck *stuck = &na_class->stuck;
    uint64_t now;

    if (na_class->failed || !kit_endpoint_is_active(&na_class->base))
        return false;
    if (!stuck->is_renewing) {
        na_class->failed = ofi_again_open(na_class) != NA_PLUGIN_SUCCESS;
        return !na_class->failed;
    }
    now = kit_host->clock_ns();
    if (now < stuck->renew_at)
        return false;
    stuck->renew_at = now + OFI_RENEW_NS;
    stuck->is_renewing = ofi_again_open(na_class) != NA_PLUGIN_SUCCESS;
    return !stuck->is_renewing;
}

static int32_t ofi_again_open(struct na_plugin_class *na_class)
{
    int32_t ret = NA_PLUGIN_SUCCESS;

    if (na_class->cq == NULL) { /* there was no descriptor for one */
        ret = ofi_queue_open(na_class);
        if (ret == NA_PLUGIN_SUCCESS)
            kit_msg_wait_fd_changed(&na_class->base);
    }
    return ret == NA_PLUGIN_SUCCESS ? ofi_endpoint_open(na_class) : ret;
}

/* What was sent before the endpoint is closed arrives, if somebody is there. */
static void ofi_fences_await(struct na_plugin_class *na_class)
{
    uint64_t end = kit_host->clock_ns() + OFI_FENCE_NS;

    while (na_class->base.state != NULL && ofi_address_is_fencing(na_class) &&
           kit_host->clock_ns() < end)
        if (ofi_poll(&na_class->base) != NA_PLUGIN_SUCCESS)
            break;
}

/* In the order in which they depend on each other; what there is not is left out. */
void ofi_resources_close(struct ofi_resources *resources)
{
    if (resources->endpoint != NULL)
        ofi_close(&resources->endpoint->fid);
    if (resources->receive_mr != NULL)
        ofi_close(&resources->receive_mr->fid);
    if (resources->av != NULL)
        ofi_close(&resources->av->fid);
    if (resources->cq != NULL)
        ofi_close(&resources->cq->fid);
    if (resources->domain != NULL)
        ofi_close(&resources->domain->fid);
    if (resources->fabric != NULL)
        ofi_close(&resources->fabric->fid);
    fi_freeinfo(resources->info);
    kit_host->mem_free(resources->receive_memory);
    kit_host->mem_free(resources->receives);
}

static int32_t ofi_class_open(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                              struct na_plugin_class_info *info)
{
    struct kit_endpoint_config config = {
        .ops = &na_class->ops,
        .plugin = OFI_PLUGIN_NAME,
        .protocol = na_class->protocol_name,
        .name = na_class->name,
        .init = init,
    };
    uint8_t raw[KIT_RAW_MAX];
    size_t size = sizeof(raw);
    int32_t ret;
    int error;

    ret = ofi_select(na_class, init);
    if (ret == NA_PLUGIN_SUCCESS) {
        ofi_settle(na_class, init);
        ret = ofi_fabric_open(na_class);
    }
    if (ret == NA_PLUGIN_SUCCESS)
        ret = ofi_receives_create(na_class);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = ofi_target_open(na_class);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    error = fi_getname(&na_class->endpoint->fid, raw, &size);
    if (error != 0)
        return ofi_failed(na_class, "its own address", error);
    ret = ofi_address_name(na_class, raw, size, na_class->name);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = ofi_local_add(na_class);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    ret = kit_endpoint_open(&na_class->base, &config, info);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    ofi_fill_info(na_class, info);
    OFI_LOG_INFO("provider %s, domain %s, at %s", na_class->info->fabric_attr->prov_name,
                 na_class->info->domain_attr->name, na_class->name);
    return NA_PLUGIN_SUCCESS;
}

/* What the chosen provider needs, taken from its entry. */
static void ofi_settle(struct na_plugin_class *na_class, const struct na_plugin_init *init)
{
    const struct fi_info *info = na_class->info;
    size_t key_size = info->domain_attr->mr_key_size;

    na_class->ops = ofi_ops;
    na_class->ops.has_tcp_names = na_class->protocol.tcp_port;
    na_class->ops.max_frame = ofi_frame_size(na_class);
    na_class->is_listening = init->listen != 0;
    na_class->stuck.is_possible = na_class->protocol.tcp_port &&
                                  strstr(info->fabric_attr->prov_name, "ofi_rxm") != NULL &&
                                  (info->domain_attr->mr_mode & FI_MR_ENDPOINT) == 0;
    na_class->busy = (init->progress_mode & NA_PLUGIN_PROGRESS_BUSY) != 0;
    na_class->mr_mode = (uint64_t) info->domain_attr->mr_mode;
    na_class->key_mask = key_size == 0 || key_size >= sizeof(uint64_t)
                             ? UINT64_MAX
                             : (UINT64_C(1) << (8 * key_size)) - 1;
    na_class->max_rma = info->ep_attr->max_msg_size;
    na_class->inject_size = info->tx_attr->inject_size;
    na_class->put_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
    na_class->is_connected = na_class->protocol.tcp_port && info->tx_attr->rma_iov_limit > 1 &&
                             (info->caps & FI_HMEM) == 0 &&
                             (na_class->mr_mode & (FI_MR_RAW | FI_MR_LOCAL | FI_MR_ENDPOINT)) == 0;
    na_class->is_within_node = na_class->protocol.node_local && (info->caps & FI_HMEM) == 0;
    switch (info->addr_format) {
    case FI_SOCKADDR_IN:
    case FI_SOCKADDR_IN6:
        na_class->protocol.naming = OFI_NAMING_SOCKET;
        break;
    case FI_ADDR_STR:
        na_class->protocol.naming = OFI_NAMING_STRING;
        break;
    default:
        na_class->protocol.naming = OFI_NAMING_RAW;
        break;
    }
}

/*
 * What fits the eager path of the provider, because only there the order of messages is also that
 * of their completions.
 */
static uint64_t ofi_frame_size(const struct na_plugin_class *na_class)
{
    uint64_t limit = na_class->info->ep_attr->max_msg_size;

    return na_class->protocol.frame < limit ? na_class->protocol.frame : limit;
}

static int32_t ofi_fabric_open(struct na_plugin_class *na_class)
{
    int error = fi_fabric(na_class->info->fabric_attr, &na_class->fabric, NULL);
    int32_t ret;

    if (error != 0)
        return ofi_failed(na_class, "the fabric", error);
    error = fi_domain(na_class->fabric, na_class->info, &na_class->domain, NULL);
    if (error != 0)
        return ofi_failed(na_class, "the domain", error);
    ret = ofi_queue_open(na_class);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = ofi_vector_open(na_class);
    return ret != NA_PLUGIN_SUCCESS ? ret : ofi_endpoint_open(na_class);
}

/* With a descriptor to wait on, unless nobody will wait or the provider has none. */
static int32_t ofi_queue_open(struct na_plugin_class *na_class)
{
    struct fi_cq_attr attr = {
        .size = na_class->info->tx_attr->size + na_class->info->rx_attr->size,
        .format = FI_CQ_FORMAT_MSG,
        .wait_obj = na_class->busy ? FI_WAIT_NONE : FI_WAIT_FD,
    };
    int error = fi_cq_open(na_class->domain, &attr, &na_class->cq, NULL);

    if (error == 0 && !na_class->busy) {
        error = fi_control(&na_class->cq->fid, FI_GETWAIT, &na_class->wait_fd);
        if (error != 0) {
            ofi_close(&na_class->cq->fid);
            na_class->cq = NULL;
            na_class->wait_fd = -1;
        }
    }
    if (error != 0 && !na_class->busy) {
        OFI_LOG_INFO("provider %s gives no descriptor to wait on (%s)",
                     na_class->info->fabric_attr->prov_name, fi_strerror(-error));
        attr.wait_obj = FI_WAIT_NONE;
        error = fi_cq_open(na_class->domain, &attr, &na_class->cq, NULL);
    }
    return error == 0 ? NA_PLUGIN_SUCCESS : ofi_failed(na_class, "the completion queue", error);
}

static int32_t ofi_vector_open(struct na_plugin_class *na_class)
{
    struct fi_av_attr attr = {
        .type = na_class->info->domain_attr->av_type,
        .count = OFI_PEERS_EXPECTED,
    };
    int error = fi_av_open(na_class->domain, &attr, &na_class->av, NULL);

    if (error != 0) { /* shm has a limit of its own below what is expected */
        attr.count = 0;
        error = fi_av_open(na_class->domain, &attr, &na_class->av, NULL);
    }
    return error == 0 ? NA_PLUGIN_SUCCESS : ofi_failed(na_class, "the address vector", error);
}

static int32_t ofi_endpoint_open(struct na_plugin_class *na_class)
{
    struct fid_ep *endpoint;
    int error = fi_endpoint(na_class->domain, na_class->info, &endpoint, NULL);

    if (error != 0)
        return ofi_failed(na_class, "the endpoint", error);
    error = fi_ep_bind(endpoint, &na_class->av->fid, 0);
    if (error == 0)
        error = fi_ep_bind(endpoint, &na_class->cq->fid, FI_SEND | FI_RECV);
    if (error == 0)
        error = fi_enable(endpoint);
    if (error != 0) {
        ofi_close(&endpoint->fid);
        return ofi_failed(na_class, "the endpoint", error);
    }
    na_class->endpoint = endpoint;
    ofi_unidentified_open(na_class);
    return NA_PLUGIN_SUCCESS;
}

/* `error` is negative, as libfabric returns it. */
static int32_t ofi_failed(const struct na_plugin_class *na_class, const char *what, int error)
{
    char where[128] = "";

    if (na_class->protocol.naming == OFI_NAMING_SOCKET && na_class->info->src_addr != NULL) {
        struct sockaddr_storage address = {0};

        if (na_class->info->src_addrlen <= sizeof(address)) {
            memcpy(&address, na_class->info->src_addr, na_class->info->src_addrlen);
            kit_location_format(&address, where, sizeof(where));
        }
    }
    OFI_LOG_ERROR("provider '%s', domain '%s'%s%s: %s could not be opened (%s)",
                  na_class->info->fabric_attr->prov_name, na_class->info->domain_attr->name,
                  where[0] != '\0' ? " at " : "", where, what, fi_strerror(-error));
    return ofi_status(-error);
}

static void ofi_fill_info(const struct na_plugin_class *na_class, struct na_plugin_class_info *info)
{
    info->max_rma_size = 0; /* larger ones go in pieces */
    info->capabilities |= NA_PLUGIN_CAP_RMA;
    if (na_class->info->domain_attr->data_progress == FI_PROGRESS_AUTO &&
        na_class->base.rma == NULL)
        info->capabilities |= NA_PLUGIN_CAP_RMA_NATIVE;
    if ((na_class->info->caps & FI_HMEM) != 0)
        info->capabilities |= NA_PLUGIN_CAP_DEVICE_MEM;
    /* libfabric waits for ever for a lock in shared memory that a killed process holds. */
    if (na_class->protocol.node_local)
        info->capabilities &= ~NA_PLUGIN_CAP_PEER_DEATH;
}

static void ofi_close(struct fid *fid)
{
    int error = fi_close(fid);

    if (error != 0)
        OFI_LOG_WARNING("libfabric could not close an object (%s)", fi_strerror(-error));
}
