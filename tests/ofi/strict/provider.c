/* SPDX-License-Identifier: BSD-3-Clause */
/* The entry point that libfabric loads: getinfo, and the fabric. */

#include "strict.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/providers/fi_prov.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRICT_CAPS \
    (FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

struct fi_provider *fi_prov_ini(void);

static int strict_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                          const struct fi_info *hints, struct fi_info **info_p);
static bool strict_fits(const struct strict_profile *profile, const struct fi_info *hints);
static struct fi_info *strict_info(const struct strict_profile *profile, uint16_t port);
static int strict_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
                              void *context);
static int strict_fabric_close(struct fid *fid);
static int strict_trywait(struct fid_fabric *fid, struct fid **fids, int count);
static void strict_cleanup(void);

static struct fi_ops strict_fabric_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = strict_fabric_close,
};

static struct fi_ops_fabric strict_fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = strict_domain_open,
    .trywait = strict_trywait,
};

/* The version is higher than that of libfabric's own provider of this name, which is not used
 * then. */
__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
{
    static struct fi_provider provider = {
        .version = FI_VERSION(9999, 0),
        .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
        .getinfo = strict_getinfo,
        .fabric = strict_fabric_open,
        .cleanup = strict_cleanup,
    };

    provider.name = strict_profile()->provider;
    return &provider;
}

/* Gets the info of the layer below on this machine; port 0: any port. */
int strict_below_info(uint16_t port, struct fi_info **info_p)
{
    struct fi_info *hints = fi_allocinfo();
    char service[8];
    int ret = -FI_ENOMEM;

    if (hints == NULL)
        return ret;
    hints->caps = FI_MSG | FI_TAGGED;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->fabric_attr->prov_name = strdup("tcp;ofi_rxm");
    (void) snprintf(service, sizeof(service), "%u", port);
    if (hints->fabric_attr->prov_name != NULL)
        ret = fi_getinfo(FI_VERSION(1, 15), "127.0.0.1", service, FI_SOURCE, hints, info_p);
    fi_freeinfo(hints);
    return ret;
}

/* Returns the port of the address in an info. */
uint16_t strict_port(const struct fi_info *info)
{
    uint16_t port = 0;

    if (info->src_addr != NULL && info->src_addrlen == STRICT_NAME_SIZE)
        memcpy(&port, (const uint8_t *) info->src_addr + 4, sizeof(port));
    return ntohs(port);
}

static int strict_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                          const struct fi_info *hints, struct fi_info **info_p)
{
    const struct strict_profile *profile = strict_profile();
    struct fi_info *below;
    int ret;

    (void) version;
    if (node != NULL && ((flags & FI_SOURCE) == 0 || strcmp(node, profile->device) != 0))
        return -FI_ENODATA;
    if (hints != NULL && !strict_fits(profile, hints))
        return -FI_ENODATA;
    ret = strict_below_info(0, &below);
    if (ret != 0)
        return ret;
    fi_freeinfo(below);
    *info_p = strict_info(profile, service != NULL ? (uint16_t) atoi(service) : 0);
    return *info_p != NULL ? 0 : -FI_ENOMEM;
}

/* Hints without a mode that the profile requires match nothing. */
static bool strict_fits(const struct strict_profile *profile, const struct fi_info *hints)
{
    const struct fi_domain_attr *domain = hints->domain_attr;
    const struct fi_ep_attr *ep = hints->ep_attr;

    if ((hints->caps & ~STRICT_CAPS) != 0 || (profile->mode & ~hints->mode) != 0)
        return false;
    if (hints->addr_format != FI_FORMAT_UNSPEC && hints->addr_format != profile->format)
        return false;
    if (ep != NULL && ep->type != FI_EP_UNSPEC && ep->type != FI_EP_RDM)
        return false;
    if (domain == NULL)
        return true;
    return (profile->mr_mode & ~domain->mr_mode) == 0 &&
           (domain->name == NULL || strcmp(domain->name, profile->device) == 0) &&
           domain->data_progress != FI_PROGRESS_AUTO &&
           domain->control_progress != FI_PROGRESS_AUTO &&
           (domain->threading == FI_THREAD_UNSPEC || domain->threading == FI_THREAD_DOMAIN);
}

static struct fi_info *strict_info(const struct strict_profile *profile, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct fi_info *info = fi_allocinfo();

    if (info == NULL)
        return NULL;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    info->caps = STRICT_CAPS | FI_LOCAL_COMM | FI_REMOTE_COMM;
    info->mode = profile->mode;
    info->addr_format = profile->format;
    info->src_addr = calloc(1, STRICT_NAME_SIZE);
    info->src_addrlen = STRICT_NAME_SIZE;
    info->domain_attr->name = strdup(profile->device);
    info->fabric_attr->name = strdup("strict");
    if (info->src_addr == NULL || info->domain_attr->name == NULL ||
        info->fabric_attr->name == NULL) {
        fi_freeinfo(info);
        return NULL;
    }
    strict_name_fill(info->src_addr, &address);
    *info->tx_attr = (struct fi_tx_attr){
        .caps = FI_MSG | FI_RMA | FI_SEND | FI_READ | FI_WRITE,
        .mode = profile->mode,
        .msg_order = FI_ORDER_SAS,
        .inject_size = profile->inject,
        .size = profile->queue,
        .iov_limit = 1,
        .rma_iov_limit = 1,
    };
    *info->rx_attr = (struct fi_rx_attr){
        .caps = FI_MSG | FI_RMA | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE,
        .mode = profile->mode,
        .msg_order = FI_ORDER_SAS,
        .size = profile->queue,
        .iov_limit = 1,
    };
    info->ep_attr->type = FI_EP_RDM;
    info->ep_attr->protocol_version = 1;
    info->ep_attr->max_msg_size = profile->message;
    info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 1;
    info->domain_attr->threading = FI_THREAD_DOMAIN;
    info->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    info->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    info->domain_attr->resource_mgmt = FI_RM_ENABLED;
    info->domain_attr->av_type = FI_AV_TABLE;
    info->domain_attr->mr_mode = profile->mr_mode;
    info->domain_attr->mr_key_size = sizeof(uint64_t);
    info->domain_attr->mr_iov_limit = 1;
    info->domain_attr->mr_cnt = profile->regions;
    info->domain_attr->cq_cnt = info->domain_attr->ep_cnt = 16;
    return info;
}

static int strict_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fid, void *context)
{
    struct strict_fabric *fabric;
    struct fi_info *below;
    int ret = strict_below_info(0, &below);

    (void) attr;
    if (ret != 0)
        return ret;
    fabric = strict_alloc(sizeof(*fabric));
    ret = fi_fabric(below->fabric_attr, &fabric->below, NULL);
    fi_freeinfo(below);
    if (ret != 0) {
        free(fabric);
        return ret;
    }
    fabric->fid = (struct fid_fabric){.fid = {FI_CLASS_FABRIC, context, &strict_fabric_fid_ops},
                                      .ops = &strict_fabric_ops};
    *fid = &fabric->fid;
    return 0;
}

static int strict_fabric_close(struct fid *fid)
{
    struct strict_fabric *fabric = (struct strict_fabric *) (void *) fid;

    if (fabric->objects != 0)
        strict_die("the fabric is closed before %u domains of it", fabric->objects);
    (void) fi_close(&fabric->below->fid);
    free(fabric);
    return 0;
}

/* While events are held back, waiting is refused: nothing would wake the thread. */
static int strict_trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
    struct strict_fabric *fabric = (struct strict_fabric *) (void *) fid;
    int ret = 0;

    for (int i = 0; i < count && ret == 0; i++) {
        struct strict_cq *cq = (struct strict_cq *) (void *) fids[i];
        struct fid *below = &cq->below->fid;

        strict_enter(cq->domain, "fi_trywait");
        ret = strict_cq_has_work(cq) || strict_chance(cq->domain, 8)
                  ? -FI_EAGAIN
                  : fi_trywait(fabric->below, &below, 1);
        strict_leave(cq->domain);
    }
    return ret;
}

static void strict_cleanup(void)
{
}
