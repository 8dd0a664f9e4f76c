/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a peer listens at an RDMA CM address. ofi_rxm connects again and again when every attempt
 * is refused, and reports nothing; so this file connects, too, by verbs without ofi_rxm. A
 * listening ofi_rxm refuses such a connection as well, because ofi_rxm's private data are missing,
 * but with a reject reason of its own.
 */

#include "ofi.h"

#include <stdlib.h>
#include <string.h>

/* IB_CM_REJ_INVALID_SERVICE_ID, the reject reason without a listener. */
#define OFI_CM_NO_SERVICE 8

static int ofi_cm_domain_open(struct na_plugin_class *na_class);
static int ofi_cm_connect(struct na_plugin_class *na_class, struct ofi_cm_probe *probe,
                          const struct sockaddr_storage *address);
static int ofi_cm_refusal(struct fid_eq *eq);

/* Returns 0 if the attempt has begun, FI_EAGAIN if it cannot, or the error if nothing listens. */
int ofi_cm_begin(struct na_plugin_class *na_class, struct ofi_cm_probe *probe,
                 const struct sockaddr_storage *address)
{
    int error = ofi_cm_domain_open(na_class);

    if (error != 0) {
        OFI_LOG_DEBUG("peers cannot be asked whether they listen (%s)", fi_strerror(error));
        return FI_EAGAIN;
    }
    error = ofi_cm_connect(na_class, probe, address);
    if (error != 0)
        ofi_cm_end(probe);
    return error;
}

/* Returns 0 if the peer listens, FI_EAGAIN if that is not known yet, or the error. */
int ofi_cm_check(struct ofi_cm_probe *probe)
{
    struct fi_eq_cm_entry entry;
    uint32_t event = 0;
    ssize_t size = fi_eq_read(probe->eq, &event, &entry, sizeof(entry), 0);

    if (size == -FI_EAGAIN)
        return FI_EAGAIN;
    return size == -FI_EAVAIL ? ofi_cm_refusal(probe->eq) : 0;
}

void ofi_cm_end(struct ofi_cm_probe *probe)
{
    if (probe->endpoint != NULL)
        ofi_close(&probe->endpoint->fid);
    if (probe->eq != NULL)
        ofi_close(&probe->eq->fid);
    if (probe->cq != NULL)
        ofi_close(&probe->cq->fid);
    *probe = (struct ofi_cm_probe){0};
}

/* Called when all probes are ended. */
void ofi_cm_close(struct na_plugin_class *na_class)
{
    if (na_class->cm.domain != NULL)
        ofi_close(&na_class->cm.domain->fid);
    if (na_class->cm.fabric != NULL)
        ofi_close(&na_class->cm.fabric->fid);
    fi_freeinfo(na_class->cm.info);
    na_class->cm = (struct ofi_cm){0};
}

/* Opens the device of the class for FI_EP_MSG endpoints, once. */
static int ofi_cm_domain_open(struct na_plugin_class *na_class)
{
    struct ofi_cm *cm = &na_class->cm;
    struct fi_info *hints;
    int error;

    if (cm->domain != NULL)
        return 0;
    hints = fi_allocinfo();
    if (hints == NULL)
        return FI_ENOMEM;
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_MSG;
    hints->domain_attr->mr_mode = (int) na_class->mr_mode | FI_MR_LOCAL;
    hints->addr_format = na_class->info->addr_format;
    hints->fabric_attr->prov_name = strdup("verbs");
    hints->domain_attr->name = strdup(na_class->info->domain_attr->name);
    error = -FI_ENOMEM;
    if (hints->fabric_attr->prov_name != NULL && hints->domain_attr->name != NULL)
        error = fi_getinfo(OFI_API_VERSION, NULL, NULL, 0, hints, &cm->info);
    if (error == 0)
        error = fi_fabric(cm->info->fabric_attr, &cm->fabric, NULL);
    if (error == 0)
        error = fi_domain(cm->fabric, cm->info, &cm->domain, NULL);
    fi_freeinfo(hints);
    if (error != 0)
        ofi_cm_close(na_class);
    return -error;
}

static int ofi_cm_connect(struct na_plugin_class *na_class, struct ofi_cm_probe *probe,
                          const struct sockaddr_storage *address)
{
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
    struct fi_cq_attr cq_attr = {.size = 2, .wait_obj = FI_WAIT_NONE};
    const struct ofi_cm *cm = &na_class->cm;
    struct fi_info *info = fi_dupinfo(cm->info);
    int error;

    if (info == NULL)
        return FI_EAGAIN;
    free(info->src_addr);
    info->src_addr = NULL;
    info->src_addrlen = 0;
    free(info->dest_addr);
    info->dest_addrlen = kit_location_length(address);
    info->dest_addr = calloc(1, info->dest_addrlen);
    if (info->dest_addr == NULL) {
        info->dest_addrlen = 0;
        fi_freeinfo(info);
        return FI_EAGAIN;
    }
    memcpy(info->dest_addr, address, info->dest_addrlen);
    info->tx_attr->size = info->rx_attr->size = 1;
    error = fi_eq_open(cm->fabric, &eq_attr, &probe->eq, NULL);
    if (error == 0)
        error = fi_cq_open(cm->domain, &cq_attr, &probe->cq, NULL);
    if (error == 0)
        error = fi_endpoint(cm->domain, info, &probe->endpoint, NULL);
    if (error == 0)
        error = fi_ep_bind(probe->endpoint, &probe->eq->fid, 0);
    if (error == 0)
        error = fi_ep_bind(probe->endpoint, &probe->cq->fid, FI_TRANSMIT | FI_RECV);
    if (error == 0)
        error = fi_enable(probe->endpoint);
    if (error == 0)
        error = fi_connect(probe->endpoint, address, NULL, 0);
    fi_freeinfo(info);
    return -error;
}

/* Returns 0 if a listener rejected the connection, or the error. */
static int ofi_cm_refusal(struct fid_eq *eq)
{
    struct fi_eq_err_entry entry = {0};

    if (fi_eq_readerr(eq, &entry, 0) < 0)
        return FI_EAGAIN;
    OFI_LOG_DEBUG("a connection to a peer that may have ended: %s, reason %d",
                  fi_strerror(entry.err), entry.prov_errno);
    return entry.err == FI_ECONNREFUSED && abs(entry.prov_errno) != OFI_CM_NO_SERVICE ? 0
                                                                                      : entry.err;
}
