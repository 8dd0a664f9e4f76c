/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening fabric, domain, completion queue, address vector and endpoint, in this order. An endpoint
 * that was closed by a reset is opened anew at the same address.
 */

#include "ofi.h"

#include <string.h>

/* A hint for the address vector, no limit. */
#define OFI_PEERS_EXPECTED 1024

static bool ofi_endpoint_ends_all(const struct na_plugin_class *na_class);
static int32_t ofi_fabric_reopen(struct na_plugin_class *na_class);
static void ofi_queue_replace(struct na_plugin_class *na_class);
static int32_t ofi_queue_open(struct na_plugin_class *na_class);
static int ofi_queue_get_fd(struct na_plugin_class *na_class);
static int32_t ofi_vector_open(struct na_plugin_class *na_class);
static int32_t ofi_endpoint_open(struct na_plugin_class *na_class);

int32_t ofi_fabric_open(struct na_plugin_class *na_class)
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
    if (ret == NA_PLUGIN_SUCCESS)
        ret = ofi_endpoint_open(na_class);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = ofi_data_open(na_class);
    if (ret == NA_PLUGIN_SUCCESS && na_class->protocol.cm_port)
        ofi_memory_check_cache(na_class);
    return ret;
}

/*
 * Closes the endpoint, which closes its connections and completes everything in progress with an
 * error. The next poll with an active context opens another one at the same address.
 */
bool ofi_reset(struct kit_endpoint *endpoint)
{
    struct na_plugin_class *na_class = (struct na_plugin_class *) endpoint;
    uint8_t raw[KIT_RAW_MAX];
    size_t size = sizeof(raw);

    if (!ofi_endpoint_ends_all(na_class) || (na_class->mr_mode & FI_MR_ENDPOINT) != 0 ||
        na_class->endpoint == NULL || fi_getname(&na_class->endpoint->fid, raw, &size) != 0 ||
        ofi_info_set_source(na_class->info, raw, size) != 0)
        return false;
    if (ofi_target_is_busy(na_class, NULL, NULL))
        ofi_abort_moves(na_class, NULL);
    ofi_unidentified_close(na_class);
    ofi_data_stop(na_class);
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

/* Whether closing the endpoint completes all its requests: ofi_rxm, and tcp for FI_EP_RDM do. */
static bool ofi_endpoint_ends_all(const struct na_plugin_class *na_class)
{
    return strstr(na_class->info->fabric_attr->prov_name, "ofi_rxm") != NULL ||
           (na_class->is_target_driven && !na_class->protocol.is_fenced);
}

/* True if the endpoint is open again; false without an active context, or after a failure. */
bool ofi_endpoint_reopen(struct na_plugin_class *na_class)
{
    if (na_class->failed || !kit_endpoint_is_active(&na_class->base))
        return false;
    na_class->failed = ofi_fabric_reopen(na_class) != NA_PLUGIN_SUCCESS;
    return !na_class->failed;
}

static int32_t ofi_fabric_reopen(struct na_plugin_class *na_class)
{
    int32_t ret = NA_PLUGIN_SUCCESS;

    if (na_class->cq == NULL) { /* ofi_queue_replace() failed, for example out of descriptors */
        ret = ofi_queue_open(na_class);
        if (ret == NA_PLUGIN_SUCCESS)
            kit_msg_wait_fd_changed(&na_class->base);
    }
    if (ret == NA_PLUGIN_SUCCESS)
        ret = ofi_endpoint_open(na_class);
    return ret == NA_PLUGIN_SUCCESS ? ofi_data_open(na_class) : ret;
}

/* fi_trywait() of ofi_rxm uses the queues of a closed endpoint after they were freed. */
static void ofi_queue_replace(struct na_plugin_class *na_class)
{
    ofi_close(&na_class->cq->fid);
    na_class->cq = NULL;
    na_class->wait_fd = -1;
    if (ofi_queue_open(na_class) == NA_PLUGIN_SUCCESS)
        kit_msg_wait_fd_changed(&na_class->base);
}

/* The queue has a descriptor to wait on, except in busy mode or if the provider has none. */
static int32_t ofi_queue_open(struct na_plugin_class *na_class)
{
    struct fi_cq_attr attr = {
        .size = na_class->info->tx_attr->size + na_class->info->rx_attr->size,
        .format = FI_CQ_FORMAT_MSG,
        .wait_obj = na_class->busy ? FI_WAIT_NONE : FI_WAIT_FD,
    };
    int error = fi_cq_open(na_class->domain, &attr, &na_class->cq, NULL);

    if (error == 0 && !na_class->busy) {
        error = ofi_queue_get_fd(na_class);
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

/*
 * The descriptor of a queue is also readable for connections of its domain. With the provider net
 * it stays readable after the first completion, so another queue, on which nothing completes, gives
 * the descriptor, and fi_trywait() is called for both.
 */
static int ofi_queue_get_fd(struct na_plugin_class *na_class)
{
    struct fi_cq_attr attr = {.size = 1, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};
    struct fid_cq *cq = na_class->cq;
    int error = 0;

    if (strcmp(na_class->info->fabric_attr->prov_name, OFI_TCP_IN_1_17) == 0) {
        if (na_class->sleep_cq == NULL)
            error = fi_cq_open(na_class->domain, &attr, &na_class->sleep_cq, NULL);
        cq = na_class->sleep_cq;
    }
    return error == 0 ? fi_control(&cq->fid, FI_GETWAIT, &na_class->wait_fd) : error;
}

static int32_t ofi_vector_open(struct na_plugin_class *na_class)
{
    struct fi_av_attr attr = {
        .type = na_class->info->domain_attr->av_type,
        .count = OFI_PEERS_EXPECTED,
    };
    int error = fi_av_open(na_class->domain, &attr, &na_class->av, NULL);

    if (error != 0) { /* the limit of shm is lower */
        attr.count = 0;
        error = fi_av_open(na_class->domain, &attr, &na_class->av, NULL);
    }
    return error == 0 ? NA_PLUGIN_SUCCESS : ofi_failed(na_class, "the address vector", error);
}

static int32_t ofi_endpoint_open(struct na_plugin_class *na_class)
{
    int error = ofi_endpoint_create(na_class, na_class->info, na_class->av, &na_class->endpoint);

    if (error != 0)
        return ofi_failed(na_class, "the endpoint", error);
    ofi_unidentified_open(na_class);
    return NA_PLUGIN_SUCCESS;
}
