/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends and receives. The layer below gets copies: the user's buffer is accessed only after a
 * check. */

#include "strict.h"

#include <rdma/fi_tagged.h>
#include <stdlib.h>
#include <string.h>

static ssize_t strict_send(struct fid_ep *fid, const void *buffer, size_t size, void *descriptor,
                           fi_addr_t address, void *context);
static ssize_t strict_inject(struct fid_ep *fid, const void *buffer, size_t size,
                             fi_addr_t address);
static ssize_t strict_copy(struct strict_ep *ep, enum strict_kind kind, const void *buffer,
                           size_t size, fi_addr_t address, struct strict_op **op_p);
static ssize_t strict_recv(struct fid_ep *fid, void *buffer, size_t size, void *descriptor,
                           fi_addr_t address, void *context);
static void strict_op_link(struct strict_op *op, struct strict_op **list);
static void strict_op_unlink(struct strict_op *op);
static void strict_op_complete(struct strict_op *op, size_t size, int error);
static void strict_op_sent(const struct strict_op *op);
static int strict_op_receive(struct strict_op *op, size_t size);
static void strict_peer_flush(struct strict_peer *peer);
static struct strict_op *strict_peer_next(struct strict_peer *peer);
static ssize_t strict_op_pass(struct strict_op *op);
static void strict_peer_fail(struct strict_ep *ep, struct strict_peer *peer);
static bool strict_peer_is_awaited(const struct strict_ep *ep, const struct strict_peer *peer);

struct fi_ops_msg strict_msg_ops = {
    .size = sizeof(struct fi_ops_msg),
    .recv = strict_recv,
    .send = strict_send,
    .inject = strict_inject,
};

/* Allocates an operation with room for a copy of the data. */
struct strict_op *strict_op_new(struct strict_ep *ep, enum strict_kind kind, size_t size)
{
    struct strict_op *op = strict_alloc(sizeof(*op) + size);

    op->ep = ep;
    op->kind = kind;
    op->size = size;
    strict_op_link(op, &ep->ops);
    return op;
}

void strict_op_free(struct strict_op *op)
{
    strict_op_unlink(op);
    free(op);
}

/* Called when the endpoint was closed: the layer below may still report the operation until the
 * domain is closed. */
void strict_op_leave(struct strict_op *op)
{
    struct strict_domain *domain = op->ep->domain;

    if (op->peer != NULL)
        strict_peer_release(op->ep->av, op->peer);
    strict_op_unlink(op);
    op->ep = NULL;
    strict_op_link(op, &domain->left);
}

/* Queues a send behind earlier ones to the same peer. */
void strict_op_send(struct strict_op *op)
{
    struct strict_peer *peer = op->peer;

    op->next = NULL;
    if (peer->first == NULL)
        peer->heard = strict_now();
    *peer->end = op;
    peer->end = &op->next;
    peer->uses++;
    if (op->kind != STRICT_CONTROL)
        op->ep->sends++;
    strict_peer_flush(peer);
}

/* Called when the layer below has completed the operation. */
void strict_op_done(struct strict_op *op, size_t size, int error)
{
    struct strict_ep *ep = op->ep;
    struct strict_peer *peer = op->peer;

    if (ep == NULL) {
        strict_op_free(op);
        return;
    }
    if (op->kind == STRICT_CONTROL_IN) {
        if (error == 0)
            strict_control_receive(ep, op->data, size);
        if (strict_control_post(op) != 0)
            strict_op_free(op);
        return;
    }
    if (op->kind == STRICT_CONTROL && error != 0)
        strict_rma_fail(ep, peer, error);
    if (op->kind != STRICT_CONTROL)
        strict_op_complete(op, size, error);
    strict_op_free(op);
    if (peer != NULL)
        strict_peer_release(ep->av, peer);
}

/* Passes queued operations to the layer below, and fails those with peers that do not exist any
 * more. */
void strict_ep_flush(struct strict_ep *ep)
{
    const uint64_t now = strict_now();

    for (size_t i = 0; ep->av != NULL && i < ep->av->count; i++) {
        struct strict_peer *peer = ep->av->peers[i];

        if (peer == NULL)
            continue;
        peer->uses++;
        strict_peer_flush(peer);
        if ((peer->first != NULL || strict_peer_is_awaited(ep, peer)) &&
            !strict_peer_is_there(peer, now))
            strict_peer_fail(ep, peer);
        strict_peer_release(ep->av, peer);
    }
}

static ssize_t strict_send(struct fid_ep *fid, const void *buffer, size_t size, void *descriptor,
                           fi_addr_t address, void *context)
{
    struct strict_ep *ep = (struct strict_ep *) (void *) fid;
    struct strict_op *op = NULL;
    ssize_t ret;

    strict_enter(ep->domain, "fi_send");
    strict_local_check(ep, buffer, size, descriptor, FI_SEND, "fi_send");
    ret = strict_copy(ep, STRICT_SEND, buffer, size, address, &op);
    if (ret == 0) {
        strict_claim(ep->domain, context, "fi_send");
        op->context = context;
        op->source = buffer;
        op->descriptor = descriptor;
        strict_op_send(op);
    }
    strict_leave(ep->domain);
    return ret;
}

static ssize_t strict_inject(struct fid_ep *fid, const void *buffer, size_t size, fi_addr_t address)
{
    struct strict_ep *ep = (struct strict_ep *) (void *) fid;
    struct strict_op *op = NULL;
    ssize_t ret;

    if (size > ep->domain->profile->inject)
        strict_die("fi_inject: %zu bytes, %zu can be injected", size, ep->domain->profile->inject);
    strict_enter(ep->domain, "fi_inject");
    ret = strict_copy(ep, STRICT_INJECT, buffer, size, address, &op);
    if (ret == 0)
        strict_op_send(op);
    strict_leave(ep->domain);
    return ret;
}

/* Begins a send or inject with a copy of its data, if another operation may begin. */
static ssize_t strict_copy(struct strict_ep *ep, enum strict_kind kind, const void *buffer,
                           size_t size, fi_addr_t address, struct strict_op **op_p)
{
    struct strict_peer *peer;
    ssize_t ret =
        strict_ep_begin(ep, address, &peer, kind == STRICT_SEND ? "fi_send" : "fi_inject");

    if (ret == 0 && size > ep->domain->profile->message)
        ret = -FI_EMSGSIZE;
    if (ret != 0)
        return ret;
    *op_p = strict_op_new(ep, kind, size);
    (*op_p)->peer = peer;
    memcpy((*op_p)->data, buffer, size);
    return 0;
}

static ssize_t strict_recv(struct fid_ep *fid, void *buffer, size_t size, void *descriptor,
                           fi_addr_t address, void *context)
{
    struct strict_ep *ep = (struct strict_ep *) (void *) fid;
    struct strict_op *op;
    ssize_t ret = -FI_EAGAIN;

    (void) address;
    strict_enter(ep->domain, "fi_recv");
    strict_local_check(ep, buffer, size, descriptor, FI_RECV, "fi_recv");
    if (ep->receives < ep->domain->profile->queue && !strict_chance(ep->domain, 8)) {
        op = strict_op_new(ep, STRICT_RECEIVE, size);
        op->context = context;
        op->user = buffer;
        op->descriptor = descriptor;
        ret = fi_recv(ep->below, op->data, size, NULL, FI_ADDR_UNSPEC, op);
        if (ret != 0)
            strict_op_free(op);
        else
            strict_claim(ep->domain, context, "fi_recv");
        ep->receives += ret == 0;
    }
    strict_leave(ep->domain);
    return ret;
}

static void strict_op_link(struct strict_op *op, struct strict_op **list)
{
    op->next_of_ep = *list;
    op->link = list;
    if (op->next_of_ep != NULL)
        op->next_of_ep->link = &op->next_of_ep;
    *list = op;
}

static void strict_op_unlink(struct strict_op *op)
{
    *op->link = op->next_of_ep;
    if (op->next_of_ep != NULL)
        op->next_of_ep->link = op->link;
}

static void strict_op_complete(struct strict_op *op, size_t size, int error)
{
    struct strict_event event = {.context = op->context, .size = size, .error = error};

    if (op->kind == STRICT_RECEIVE) {
        op->ep->receives--;
        event.flags = FI_MSG | FI_RECV;
        if (error == 0)
            event.error = strict_op_receive(op, size);
    } else {
        op->ep->sends--;
        event.flags = FI_MSG | FI_SEND;
        if (op->kind == STRICT_SEND)
            strict_op_sent(op);
    }
    if (op->kind != STRICT_INJECT || error != 0)
        strict_cq_add(op->ep->cq, &event);
}

/* A device may read the buffer until the completion, so its registration must still be open. */
static void strict_op_sent(const struct strict_op *op)
{
    if (!strict_local_is_open(op->ep, op->descriptor))
        strict_die("fi_send: the registration of its buffer was closed before its completion");
    if (memcmp(op->source, op->data, op->size) != 0)
        strict_die("fi_send: the buffer of %zu bytes was changed before its completion", op->size);
}

/* Stores received data, unless the registration of the buffer was closed meanwhile. */
static int strict_op_receive(struct strict_op *op, size_t size)
{
    if (!strict_local_is_open(op->ep, op->descriptor))
        return FI_ECANCELED;
    memcpy(op->user, op->data, size);
    return 0;
}

static void strict_peer_flush(struct strict_peer *peer)
{
    while (peer->first != NULL) {
        struct strict_op *op = peer->first;
        ssize_t ret = strict_op_pass(op);

        if (ret == -FI_EAGAIN)
            return;
        peer->heard = strict_now();
        (void) strict_peer_next(peer);
        if (ret != 0)
            strict_op_done(op, 0, (int) -ret);
    }
}

/* Takes the first operation out of the queue of the peer. */
static struct strict_op *strict_peer_next(struct strict_peer *peer)
{
    struct strict_op *op = peer->first;

    peer->first = op->next;
    if (peer->first == NULL)
        peer->end = &peer->first;
    return op;
}

static ssize_t strict_op_pass(struct strict_op *op)
{
    if (op->kind == STRICT_CONTROL)
        return fi_tsend(op->ep->below, op->data, op->size, NULL, op->peer->below, 0, op);
    return fi_send(op->ep->below, op->data, op->size, NULL, op->peer->below, op);
}

/* Fails all queued operations with the peer. */
static void strict_peer_fail(struct strict_ep *ep, struct strict_peer *peer)
{
    while (peer->first != NULL)
        strict_op_done(strict_peer_next(peer), 0, FI_EHOSTUNREACH);
    strict_rma_fail(ep, peer, FI_EHOSTUNREACH);
}

static bool strict_peer_is_awaited(const struct strict_ep *ep, const struct strict_peer *peer)
{
    const struct strict_rma *rma = ep->rmas;

    while (rma != NULL && rma->peer != peer)
        rma = rma->next;
    return rma != NULL;
}
