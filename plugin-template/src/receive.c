/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step 5: receiving. Unexpected messages go to posted receives in order and wait when there is
 * none; expected ones go to the receive that names their sender and tag, and are dropped when there
 * is none. Nothing that comes from another process is trusted.
 */

#include "template.h"

#include <string.h>
#include <unistd.h>

#define BURST 64 /* datagrams in one poll, so that it comes to an end */

static bool frame_read(struct na_plugin_context *context, uint64_t *size, char *name, uint32_t *id,
                       bool *good);
static bool frame_is_from_us(struct msghdr *message);
static void frame_handle(struct na_plugin_context *context, uint64_t size, const char *name,
                         uint32_t id);
static void unexpected_arrived(struct na_plugin_context *context, struct na_plugin_addr *source,
                               uint32_t tag, const uint8_t *content, uint64_t size);
static void expected_arrived(struct na_plugin_context *context, struct na_plugin_addr *source,
                             uint32_t source_id, uint32_t tag, const uint8_t *content,
                             uint64_t size);
static void deliver(struct template_op *op, struct na_plugin_addr *source, uint32_t tag,
                    const uint8_t *content, uint64_t size);

int32_t template_recv_unexpected(struct na_plugin_context *context, void *op_p, void *buf,
                                 uint64_t size, void *data)
{
    struct template_op *op = op_p;
    struct na_plugin_class *na_class = context->na_class;
    int32_t status = NA_PLUGIN_SUCCESS;

    (void) data;
    (void) pthread_mutex_lock(&na_class->lock);
    op->context = context;
    op->peer = NULL;
    op->kind = TEMPLATE_UNEXPECTED;
    op->buf = buf;
    op->size = size;
    if (context->stopped) {
        status = NA_PLUGIN_FAULT;
    } else if (template_list_is_empty(&context->held)) {
        template_list_append(&context->unexpected, &op->link);
    } else {
        struct template_held *held = (struct template_held *) (void *) context->held.next;
        struct na_plugin_addr *source = held->source;

        /* The reference that the message held goes to the core, if all goes well. Once it is
         * completed the operation is not ours any more: what we need of it is asked before. */
        if (held->size <= size)
            held->source = NULL;
        deliver(op, source, held->tag, held->content, held->size);
        template_held_free(context, held);
    }
    if (context->deaf)
        template_notify(context); /* there is room again */
    (void) pthread_mutex_unlock(&na_class->lock);
    return status;
}

int32_t template_recv_expected(struct na_plugin_context *context, void *op_p, void *buf,
                               uint64_t size, void *data, struct na_plugin_addr *source,
                               uint32_t source_id, uint32_t tag)
{
    struct template_op *op = op_p;
    int32_t status = NA_PLUGIN_FAULT;

    (void) data;
    (void) pthread_mutex_lock(&context->na_class->lock);
    if (!context->stopped) {
        op->context = context;
        op->peer = source;
        op->peer_id = source_id;
        op->kind = TEMPLATE_EXPECTED;
        op->tag = tag;
        op->buf = buf;
        op->size = size;
        template_list_append(&context->expected, &op->link);
        status = NA_PLUGIN_SUCCESS;
    }
    (void) pthread_mutex_unlock(&context->na_class->lock);
    return status;
}

bool template_progress_receives(struct na_plugin_context *context)
{
    char name[TEMPLATE_NAME_MAX + 1];
    uint64_t size;
    uint32_t id;
    bool good;

    for (int i = 0; i < BURST; i++) {
        const bool full = (context->held_count >= TEMPLATE_HELD_MAX &&
                           template_list_is_empty(&context->unexpected)) ||
                          context->serve_count >= TEMPLATE_SERVE_MAX;

        /* What we do not read stays in the socket, and then at its senders: that is the bound. */
        template_hear(context, !full);
        if (full)
            return false;
        if (!frame_read(context, &size, name, &id, &good))
            return true;
        if (good)
            frame_handle(context, size, name, id);
    }
    return false;
}

void template_held_free(struct na_plugin_context *context, struct template_held *held)
{
    template_list_remove(&held->link);
    context->held_count--;
    if (held->source != NULL)
        template_peer_put_locked(context->na_class, held->source);
    template_host->mem_free(held);
}

/* False: there is none. `good` is false for one that is to be ignored. */
static bool frame_read(struct na_plugin_context *context, uint64_t *size, char *name, uint32_t *id,
                       bool *good)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct sockaddr_un where;
    struct iovec part = {context->frame, sizeof(struct template_frame) + TEMPLATE_PIECE};
    struct msghdr message = {
        .msg_name = &where,
        .msg_namelen = sizeof(where),
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    const ssize_t got = recvmsg(context->socket, &message, MSG_DONTWAIT);

    if (got < 0)
        return false;
    *size = (uint64_t) got;
    *good = (message.msg_flags & MSG_TRUNC) == 0 && *size >= sizeof(struct template_frame) &&
            frame_is_from_us(&message) &&
            template_sockaddr_parse(&where, message.msg_namelen, name, id);
    if (!*good)
        TEMPLATE_DEBUG("a datagram of %llu bytes is not one of ours: ignored",
                       (unsigned long long) *size);
    return true;
}

/* From a process of the same user; the kernel says so, not the sender. */
static bool frame_is_from_us(struct msghdr *message)
{
    const struct cmsghdr *control = CMSG_FIRSTHDR(message);
    struct ucred sender;

    if (control == NULL || control->cmsg_level != SOL_SOCKET ||
        control->cmsg_type != SCM_CREDENTIALS)
        return false;
    memcpy(&sender, CMSG_DATA(control), sizeof(sender));
    return sender.uid == geteuid();
}

static void frame_handle(struct na_plugin_context *context, uint64_t size, const char *name,
                         uint32_t id)
{
    const uint8_t *content = context->frame + sizeof(struct template_frame);
    struct template_frame frame;
    struct na_plugin_addr *peer;

    memcpy(&frame, context->frame, sizeof(frame));
    size -= sizeof(frame);
    if (frame.magic != TEMPLATE_MAGIC || frame.kind > TEMPLATE_GET_DATA)
        return;
    peer = template_peer_get_locked(context->na_class, name);
    if (peer == NULL) {
        TEMPLATE_ERROR("no memory for the sender of a message: the message is lost");
        return;
    }
    if (frame.kind == TEMPLATE_UNEXPECTED)
        unexpected_arrived(context, peer, frame.tag, content, size);
    else if (frame.kind == TEMPLATE_EXPECTED)
        expected_arrived(context, peer, id, frame.tag, content, size);
    else
        template_transfer_frame(context, &frame, content, size, peer, id);
    template_peer_put_locked(context->na_class, peer);
}

static void unexpected_arrived(struct na_plugin_context *context, struct na_plugin_addr *source,
                               uint32_t tag, const uint8_t *content, uint64_t size)
{
    struct template_held *held;

    if (!template_list_is_empty(&context->unexpected)) {
        struct template_op *op = (struct template_op *) (void *) context->unexpected.next;

        if (size <= op->size)
            source->references++; /* the core's */
        deliver(op, source, tag, content, size);
        return;
    }
    held = template_host->mem_alloc(sizeof(*held) + size, 0);
    if (held == NULL) {
        TEMPLATE_ERROR("no memory for a message of %llu bytes that has no receive: it is lost",
                       (unsigned long long) size);
        return;
    }
    source->references++;
    held->source = source;
    held->tag = tag;
    held->size = size;
    memcpy(held->content, content, size);
    template_list_append(&context->held, &held->link);
    context->held_count++;
}

static void expected_arrived(struct na_plugin_context *context, struct na_plugin_addr *source,
                             uint32_t source_id, uint32_t tag, const uint8_t *content,
                             uint64_t size)
{
    for (struct template_link *link = context->expected.next; link != &context->expected;
         link = link->next) {
        struct template_op *op = (struct template_op *) (void *) link;

        if (op->peer == source && op->peer_id == source_id && op->tag == tag) {
            deliver(op, NULL, tag, content, size);
            return;
        }
    }
    TEMPLATE_DEBUG("an expected message from %s with tag %u has no receive: dropped", source->name,
                   tag);
}

/* `source` is NULL for an expected message; otherwise its reference goes along, unless it fails. */
static void deliver(struct template_op *op, struct na_plugin_addr *source, uint32_t tag,
                    const uint8_t *content, uint64_t size)
{
    if (op->link.next != NULL)
        template_list_remove(&op->link);
    op->context->completed++;
    if (size > op->size) {
        template_host->op_complete_recv(op, NA_PLUGIN_MSGSIZE, 0, NULL, tag);
        return;
    }
    if (size > 0)
        memcpy(op->buf, content, size);
    template_host->op_complete_recv(op, NA_PLUGIN_SUCCESS, size, source, tag);
}
