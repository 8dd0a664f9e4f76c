/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step 4: sending. A call that accepts an operation returns at once; its completion is reported
 * exactly once, here or later. What finds no room at its receiver waits in a list of its context
 * and is tried again by poll.
 */

#include "template.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

static int32_t send_post(struct na_plugin_context *context, struct template_op *op,
                         enum template_frame_kind kind, const void *buf, uint64_t size,
                         struct na_plugin_addr *dest, uint32_t dest_id, uint32_t tag);
static int32_t send_try(struct template_op *op);
static void complete_list(struct template_link *list, int32_t status,
                          const struct na_plugin_addr *peer, uint32_t peer_id);

int32_t template_send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                                 uint64_t size, void *data, struct na_plugin_addr *dest,
                                 uint32_t dest_id, uint32_t tag)
{
    (void) data; /* what msg_buf_alloc gave with the buffer, if there were one */
    return send_post(context, op, TEMPLATE_UNEXPECTED, buf, size, dest, dest_id, tag);
}

int32_t template_send_expected(struct na_plugin_context *context, void *op, const void *buf,
                               uint64_t size, void *data, struct na_plugin_addr *dest,
                               uint32_t dest_id, uint32_t tag)
{
    (void) data;
    return send_post(context, op, TEMPLATE_EXPECTED, buf, size, dest, dest_id, tag);
}

/*
 * The operation may have been completed a moment ago: only what is in a list of ours is
 * outstanding. A core before 1.2 calls this as `cancel`, and then it may even be in use again for
 * something else by now, which is cancelled instead; as `cancel_trusted` it is still the same.
 */
int32_t template_cancel(struct na_plugin_context *context, void *op_p)
{
    struct template_op *op = op_p;

    (void) pthread_mutex_lock(&context->na_class->lock);
    if (op->link.next != NULL && op->context == context)
        template_complete(op, NA_PLUGIN_CANCELED);
    (void) pthread_mutex_unlock(&context->na_class->lock);
    return NA_PLUGIN_SUCCESS;
}

/* One datagram. NA_PLUGIN_AGAIN when its receiver has no room. */
int32_t template_write(struct na_plugin_context *context, struct na_plugin_addr *peer,
                       uint32_t peer_id, struct template_frame *frame, const void *content,
                       uint64_t size)
{
    struct iovec parts[2] = {{frame, sizeof(*frame)},
                             {(void *) (uintptr_t) content, (size_t) size}};
    struct sockaddr_un where;
    struct msghdr message = {.msg_name = &where, .msg_iov = parts, .msg_iovlen = 2};

    frame->magic = TEMPLATE_MAGIC;
    message.msg_namelen = template_sockaddr(&where, peer->name, peer_id);
    if (sendmsg(context->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
        return NA_PLUGIN_SUCCESS;
    switch (errno) {
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
    case EINTR:
        return NA_PLUGIN_AGAIN;
    case ECONNREFUSED:
    case ENOENT:
        return NA_PLUGIN_HOSTUNREACH;
    default:
        TEMPLATE_ERROR("%s: %s", peer->name, strerror(errno));
        return NA_PLUGIN_IO_ERROR;
    }
}

/* Ends an operation that carries no message. The host's functions may be called with the lock
 * held: they never call back. */
void template_complete(struct template_op *op, int32_t status)
{
    if (op->link.next != NULL)
        template_list_remove(&op->link);
    op->context->completed++;
    template_host->op_complete(op, status);
}

/* All that is outstanding, or what has to do with one context of a peer. */
void template_complete_all(struct na_plugin_context *context, int32_t status,
                           const struct na_plugin_addr *peer, uint32_t peer_id)
{
    complete_list(&context->sends, status, peer, peer_id);
    complete_list(&context->transfers, status, peer, peer_id);
    complete_list(&context->expected, status, peer, peer_id);
    if (peer == NULL)
        complete_list(&context->unexpected, status, NULL, 0);
}

/* In order for each peer: once a message finds no room, this context's later ones wait behind. */
void template_progress_sends(struct na_plugin_context *context)
{
    struct template_link *link = context->sends.next;

    context->round++;
    while (link != &context->sends) {
        struct template_op *op = (struct template_op *) (void *) link;
        int32_t status;

        link = link->next;
        if (op->peer->blocked == context->round)
            continue;
        status = send_try(op);
        if (status == NA_PLUGIN_AGAIN)
            op->peer->blocked = context->round;
        else
            template_complete(op, status);
    }
}

static int32_t send_post(struct na_plugin_context *context, struct template_op *op,
                         enum template_frame_kind kind, const void *buf, uint64_t size,
                         struct na_plugin_addr *dest, uint32_t dest_id, uint32_t tag)
{
    struct na_plugin_class *na_class = context->na_class;
    int32_t status = NA_PLUGIN_AGAIN;

    (void) pthread_mutex_lock(&na_class->lock);
    if (context->stopped) {
        (void) pthread_mutex_unlock(&na_class->lock);
        return NA_PLUGIN_FAULT;
    }
    op->context = context;
    op->peer = dest;
    op->peer_id = dest_id;
    op->kind = kind;
    op->tag = tag;
    op->buf = (void *) (uintptr_t) buf;
    op->size = size;
    /* Whatever waits keeps its place in front of us. */
    if (template_list_is_empty(&context->sends))
        status = send_try(op);
    if (status != NA_PLUGIN_AGAIN) {
        template_complete(op, status);
        status = NA_PLUGIN_SUCCESS; /* it was accepted; how it ended is said by the completion */
    } else if (!na_class->no_retry) {
        template_list_append(&context->sends, &op->link);
        template_notify(context); /* who sleeps does not know of it */
        status = NA_PLUGIN_SUCCESS;
    }
    (void) pthread_mutex_unlock(&na_class->lock);
    return status;
}

static int32_t send_try(struct template_op *op)
{
    struct template_frame frame = {.kind = op->kind, .tag = op->tag, .length = op->size};

    return template_write(op->context, op->peer, op->peer_id, &frame, op->buf, op->size);
}

static void complete_list(struct template_link *list, int32_t status,
                          const struct na_plugin_addr *peer, uint32_t peer_id)
{
    struct template_link *link = list->next;

    while (link != list) {
        struct template_op *op = (struct template_op *) (void *) link;

        link = link->next;
        if (peer == NULL || (op->peer == peer && op->peer_id == peer_id))
            template_complete(op, status);
    }
}
