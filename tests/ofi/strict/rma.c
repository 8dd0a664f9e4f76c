/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes. The target's side executes them while its user reads the completion queue. It
 * refuses an invalid one without an effect on others. */

#include "strict.h"

#include <rdma/fi_tagged.h>
#include <stdlib.h>
#include <string.h>

/* Receives posted for control messages. */
#define STRICT_CONTROLS 32

enum strict_control_kind {
    STRICT_READ_REQUEST,
    STRICT_WRITE_REQUEST,
    STRICT_ANSWER
};

/* In front of the data of a chunk. Both sides run the same program on one machine. */
struct strict_control {
    uint64_t id;
    uint64_t key;
    uint64_t address;
    uint64_t offset; /* offset of the chunk in the whole read or write */
    uint32_t kind;
    uint32_t size;
    int32_t error;
    uint8_t name[STRICT_NAME_SIZE];
};

static ssize_t strict_readmsg(struct fid_ep *fid, const struct fi_msg_rma *message, uint64_t flags);
static ssize_t strict_writemsg(struct fid_ep *fid, const struct fi_msg_rma *message,
                               uint64_t flags);
static ssize_t strict_rma_begin(struct strict_ep *ep, const struct fi_msg_rma *message,
                                bool is_write);
static void strict_rma_chunks(struct strict_ep *ep, struct strict_rma *rma,
                              const struct fi_rma_iov *remote);
static void strict_request(struct strict_ep *ep, const struct strict_control *request,
                           const uint8_t *data);
static void strict_answer(struct strict_ep *ep, const struct strict_control *answer,
                          const uint8_t *data);
static void strict_rma_end(struct strict_ep *ep, struct strict_rma **link);
static void strict_control_send(struct strict_ep *ep, struct strict_peer *peer,
                                struct strict_control *control, const uint8_t *data, size_t size);

struct fi_ops_rma strict_rma_ops = {
    .size = sizeof(struct fi_ops_rma),
    .readmsg = strict_readmsg,
    .writemsg = strict_writemsg,
};

int strict_control_open(struct strict_ep *ep)
{
    int ret = 0;

    for (int i = 0; i < STRICT_CONTROLS && ret == 0; i++)
        ret = strict_control_post(
            strict_op_new(ep, STRICT_CONTROL_IN, sizeof(struct strict_control) + STRICT_CHUNK));
    return ret;
}

int strict_control_post(struct strict_op *op)
{
    return (int) fi_trecv(op->ep->below, op->data, op->size, NULL, FI_ADDR_UNSPEC, 0, 0, op);
}

void strict_control_receive(struct strict_ep *ep, const uint8_t *data, size_t size)
{
    struct strict_control control;

    if (size < sizeof(control))
        return;
    memcpy(&control, data, sizeof(control));
    if (control.kind == STRICT_ANSWER)
        strict_answer(ep, &control, data + sizeof(control));
    else
        strict_request(ep, &control, data + sizeof(control));
}

/* Fails the reads and writes with a peer that does not exist any more. */
void strict_rma_fail(struct strict_ep *ep, const struct strict_peer *peer, int error)
{
    struct strict_rma **link = &ep->rmas;

    while (*link != NULL) {
        if ((*link)->peer == peer) {
            (*link)->error = error;
            strict_rma_end(ep, link);
        } else {
            link = &(*link)->next;
        }
    }
}

static ssize_t strict_readmsg(struct fid_ep *fid, const struct fi_msg_rma *message, uint64_t flags)
{
    struct strict_ep *ep = (struct strict_ep *) (void *) fid;

    if ((flags & ~FI_COMPLETION) != 0)
        return -FI_EBADFLAGS;
    return strict_rma_begin(ep, message, false);
}

static ssize_t strict_writemsg(struct fid_ep *fid, const struct fi_msg_rma *message, uint64_t flags)
{
    struct strict_ep *ep = (struct strict_ep *) (void *) fid;

    if ((flags & ~(FI_COMPLETION | FI_DELIVERY_COMPLETE)) != 0 ||
        ((flags & FI_DELIVERY_COMPLETE) != 0 && !ep->domain->profile->is_deferred))
        return -FI_EOPNOTSUPP;
    return strict_rma_begin(ep, message, true);
}

static ssize_t strict_rma_begin(struct strict_ep *ep, const struct fi_msg_rma *message,
                                bool is_write)
{
    const char *function = is_write ? "fi_writemsg" : "fi_readmsg";
    const struct iovec *vector = message->msg_iov;
    void *descriptor = message->desc != NULL ? message->desc[0] : NULL;
    struct strict_peer *peer;
    struct strict_rma *rma;
    ssize_t ret;

    if (message->iov_count != 1 || message->rma_iov_count != 1 ||
        vector->iov_len != message->rma_iov->len || vector->iov_len > ep->domain->profile->message)
        return -FI_EINVAL;
    strict_enter(ep->domain, function);
    strict_local_check(ep, vector->iov_base, vector->iov_len, descriptor,
                       is_write ? FI_WRITE : FI_READ, function);
    ret = strict_ep_begin(ep, message->addr, &peer, function);
    if (ret == 0) {
        strict_claim(ep->domain, message->context, function);
        rma = strict_alloc(sizeof(*rma));
        *rma = (struct strict_rma){
            .next = ep->rmas,
            .peer = peer,
            .id = ++ep->rma_id,
            .context = message->context,
            .user = vector->iov_base,
            .descriptor = descriptor,
            .size = vector->iov_len,
            .is_write = is_write,
        };
        ep->rmas = rma;
        ep->sends++;
        peer->uses++;
        strict_rma_chunks(ep, rma, message->rma_iov);
    }
    strict_leave(ep->domain);
    return ret;
}

/* Requests the chunks: at least one, also for a transfer of 0 bytes. */
static void strict_rma_chunks(struct strict_ep *ep, struct strict_rma *rma,
                              const struct fi_rma_iov *remote)
{
    struct strict_peer *peer = rma->peer;
    const uint8_t *user = rma->user;
    const size_t size = rma->size;
    struct strict_control control = {
        .id = rma->id,
        .key = remote->key,
        .kind = rma->is_write ? STRICT_WRITE_REQUEST : STRICT_READ_REQUEST,
    };

    rma->chunks = size == 0 ? 1 : (uint32_t) ((size + STRICT_CHUNK - 1) / STRICT_CHUNK);
    do {
        const size_t left = size - control.offset;

        control.size = (uint32_t) (left < STRICT_CHUNK ? left : STRICT_CHUNK);
        control.address = remote->addr + control.offset;
        strict_control_send(ep, peer, &control, user + control.offset,
                            control.kind == STRICT_WRITE_REQUEST ? control.size : 0);
        control.offset += control.size;
    } while (control.offset < size);
}

static void strict_request(struct strict_ep *ep, const struct strict_control *request,
                           const uint8_t *data)
{
    const bool is_write = request->kind == STRICT_WRITE_REQUEST;
    struct strict_peer *peer = strict_peer_named(ep->av, request->name);
    struct strict_control answer = *request;
    uint8_t *memory = NULL;

    if (peer == NULL)
        return;
    answer.kind = STRICT_ANSWER;
    answer.error = request->size > STRICT_CHUNK
                       ? FI_EINVAL
                       : strict_remote_find(ep, request->key, request->address, request->size,
                                            is_write ? FI_REMOTE_WRITE : FI_REMOTE_READ, &memory);
    if (answer.error == 0 && is_write && request->size > 0)
        memcpy(memory, data, request->size);
    strict_control_send(ep, peer, &answer, memory,
                        answer.error == 0 && !is_write ? request->size : 0);
}

static void strict_answer(struct strict_ep *ep, const struct strict_control *answer,
                          const uint8_t *data)
{
    struct strict_rma **link = &ep->rmas;
    struct strict_rma *rma;

    while (*link != NULL && (*link)->id != answer->id)
        link = &(*link)->next;
    rma = *link;
    if (rma == NULL)
        return;
    rma->peer->heard = strict_now();
    if (answer->error != 0)
        rma->error = answer->error;
    else if (!strict_local_is_open(ep, rma->descriptor))
        rma->error = FI_ECANCELED;
    else if (!rma->is_write && answer->size > 0)
        memcpy(rma->user + answer->offset, data, answer->size);
    if (--rma->chunks == 0)
        strict_rma_end(ep, link);
}

static void strict_rma_end(struct strict_ep *ep, struct strict_rma **link)
{
    struct strict_rma *rma = *link;
    struct strict_peer *peer = rma->peer;
    const struct strict_event event = {
        .context = rma->context,
        .flags = FI_RMA | (rma->is_write ? FI_WRITE : FI_READ),
        .size = rma->error == 0 ? rma->size : 0,
        .error = rma->error,
    };

    *link = rma->next;
    ep->sends--;
    strict_cq_add(ep->cq, &event);
    free(rma);
    strict_peer_release(ep->av, peer);
}

static void strict_control_send(struct strict_ep *ep, struct strict_peer *peer,
                                struct strict_control *control, const uint8_t *data, size_t size)
{
    struct strict_op *op = strict_op_new(ep, STRICT_CONTROL, sizeof(*control) + size);

    memcpy(control->name, ep->name, STRICT_NAME_SIZE);
    memcpy(op->data, control, sizeof(*control));
    if (size > 0)
        memcpy(op->data + sizeof(*control), data, size);
    op->peer = peer;
    strict_op_send(op);
}
