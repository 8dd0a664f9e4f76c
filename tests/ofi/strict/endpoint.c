/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing an endpoint. */

#include "strict.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static int strict_ep_bind(struct fid *fid, struct fid *other, uint64_t flags);
static int strict_ep_control(struct fid *fid, int command, void *argument);
static int strict_ep_enable(struct strict_ep *ep);
static int strict_ep_getname(struct fid *fid, void *name, size_t *size);
static int strict_ep_close(struct fid *fid);
static void strict_ep_discard(struct strict_ep *ep);

static struct fi_ops strict_ep_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = strict_ep_close,
    .bind = strict_ep_bind,
    .control = strict_ep_control,
};

static struct fi_ops_ep strict_ep_ops = {.size = sizeof(struct fi_ops_ep)};

static struct fi_ops_cm strict_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .getname = strict_ep_getname,
};

int strict_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep_p,
                   void *context)
{
    struct strict_domain *domain = (struct strict_domain *) (void *) fid;
    struct strict_ep *ep;
    struct fi_info *below;
    int ret = strict_below_info(strict_port(info), &below);

    if (ret != 0)
        return ret;
    ep = strict_alloc(sizeof(*ep));
    ret = fi_endpoint(domain->below, below, &ep->below, NULL);
    fi_freeinfo(below);
    if (ret != 0) {
        free(ep);
        return ret;
    }
    ep->domain = domain;
    ep->fid = (struct fid_ep){
        .fid = {FI_CLASS_EP, context, &strict_ep_fid_ops},
        .ops = &strict_ep_ops,
        .cm = &strict_cm_ops,
        .msg = &strict_msg_ops,
        .rma = &strict_rma_ops,
    };
    domain->objects++;
    *ep_p = &ep->fid;
    return 0;
}

/* Whether another operation may begin: 0, or -FI_EAGAIN when the queue is full, and sometimes at
 * random. */
ssize_t strict_ep_begin(struct strict_ep *ep, fi_addr_t address, struct strict_peer **peer_p,
                        const char *function)
{
    if (!ep->is_enabled)
        strict_die("%s: the endpoint was not enabled", function);
    *peer_p = strict_peer(ep->av, address, function);
    return ep->sends >= ep->domain->profile->queue || strict_chance(ep->domain, 8) ? -FI_EAGAIN : 0;
}

static int strict_ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct strict_ep *ep = (struct strict_ep *) (void *) fid;

    if (other->fclass == FI_CLASS_AV && ep->av == NULL) {
        ep->av = (struct strict_av *) (void *) other;
        return fi_ep_bind(ep->below, &ep->av->below->fid, 0);
    }
    if (other->fclass != FI_CLASS_CQ || flags != (FI_SEND | FI_RECV) || ep->cq != NULL)
        return -FI_EINVAL;
    ep->cq = (struct strict_cq *) (void *) other;
    ep->next = ep->cq->eps;
    ep->cq->eps = ep;
    return fi_ep_bind(ep->below, &ep->cq->below->fid, FI_SEND | FI_RECV);
}

static int strict_ep_control(struct fid *fid, int command, void *argument)
{
    struct strict_ep *ep = (struct strict_ep *) (void *) fid;
    int ret;

    (void) argument;
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    if (ep->av == NULL || ep->cq == NULL)
        return -FI_EOPBADSTATE;
    strict_enter(ep->domain, "fi_enable");
    ret = strict_ep_enable(ep);
    strict_leave(ep->domain);
    return ret;
}

static int strict_ep_enable(struct strict_ep *ep)
{
    struct sockaddr_in address;
    size_t size = sizeof(address);
    int ret = fi_enable(ep->below);

    if (ret == 0)
        ret = fi_getname(&ep->below->fid, &address, &size);
    if (ret != 0)
        return ret;
    strict_name_fill(ep->name, &address);
    ep->is_enabled = true;
    return strict_control_open(ep);
}

static int strict_ep_getname(struct fid *fid, void *name, size_t *size)
{
    const struct strict_ep *ep = (const struct strict_ep *) (void *) fid;
    const size_t given = *size;

    *size = STRICT_NAME_SIZE;
    if (given < STRICT_NAME_SIZE)
        return -FI_ETOOSMALL;
    memcpy(name, ep->name, STRICT_NAME_SIZE);
    return ep->is_enabled ? 0 : -FI_EOPBADSTATE;
}

/* Operations in progress get no completion. FI_MR_ENDPOINT: registrations have to be closed before
 * the endpoint (fi_mr(3)). */
static int strict_ep_close(struct fid *fid)
{
    struct strict_ep *ep = (struct strict_ep *) (void *) fid;
    struct strict_domain *domain = ep->domain;

    strict_enter(domain, "fi_close(ep)");
    if (ep->regions != 0)
        strict_die("the endpoint is closed before %u registrations that are bound to it",
                   ep->regions);
    if (ep->cq != NULL) {
        struct strict_ep **link = &ep->cq->eps;

        strict_ep_flush(ep);
        while (*link != ep)
            link = &(*link)->next;
        *link = ep->next;
    }
    strict_ep_discard(ep);
    (void) fi_close(&ep->below->fid);
    if (ep->cq != NULL)
        strict_cq_progress(ep->cq);
    domain->objects--;
    strict_leave(domain);
    free(ep);
    return 0;
}

/* The layer below may still complete some of the operations later. */
static void strict_ep_discard(struct strict_ep *ep)
{
    struct strict_op *op;

    for (size_t i = 0; ep->av != NULL && i < ep->av->count; i++) {
        struct strict_peer *peer = ep->av->peers[i];

        if (peer != NULL) {
            peer->first = NULL;
            peer->end = &peer->first;
        }
    }
    while (ep->rmas != NULL) {
        struct strict_rma *rma = ep->rmas;

        strict_release(ep->domain, rma->context, false);
        ep->rmas = rma->next;
        strict_peer_release(ep->av, rma->peer);
        free(rma);
    }
    while ((op = ep->ops) != NULL) {
        strict_release(ep->domain, op->context, false);
        strict_op_leave(op);
    }
}
