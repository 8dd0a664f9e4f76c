/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop plugin's messages: inboxes, posted receives, progress, waiting and cancellation. */

#include "loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int32_t loop_msg_init_unexpected(struct na_plugin_class *na_class, void *buf, uint64_t size)
{
    (void) na_class;
    (void) size;
    memcpy(buf, "loop", 4);
    return loop_fails("msg_init_unexpected");
}

static int32_t send_message(struct na_plugin_context *context, struct loop_op *op, const void *buf,
                            uint64_t size, uint32_t dest_class, uint32_t dest_id,
                            struct loop_message *message)
{
    struct na_plugin_context *dest = NULL;
    struct loop_message **link;

    message->source_class = context->na_class->number;
    message->source_context = context->id;
    message->size = size;
    memcpy(message->content, buf, size);
    op->kind = SEND;
    pthread_mutex_lock(&loop_mutex);
    if (loop_classes[dest_class] != NULL && dest_id < CONTEXTS_MAX)
        dest = loop_classes[dest_class]->contexts[dest_id];
    if (dest != NULL && !loop_control.hold) {
        pthread_mutex_lock(&dest->mutex);
        for (link = &dest->inbox; *link != NULL; link = &(*link)->next)
            ;
        *link = message;
        loop_notify(dest);
        pthread_mutex_unlock(&dest->mutex);
    } else {
        free(message);
    }
    pthread_mutex_unlock(&loop_mutex);
    if (dest == NULL)
        return NA_PLUGIN_HOSTUNREACH;
    if (loop_control.complete_now) {
        loop_complete(op, NA_PLUGIN_SUCCESS);
        return loop_control.refuse_after ? NA_PLUGIN_AGAIN : NA_PLUGIN_SUCCESS;
    }
    pthread_mutex_lock(&context->mutex);
    loop_append(loop_control.hold ? &context->held : &context->done, op);
    loop_notify(context);
    pthread_mutex_unlock(&context->mutex);
    return NA_PLUGIN_SUCCESS;
}

static int32_t post_send(struct na_plugin_context *context, struct loop_op *op, const void *buf,
                         uint64_t size, struct na_plugin_addr *dest, uint32_t dest_id, uint32_t tag,
                         uint32_t expected, const char *function)
{
    struct loop_message *message;

    if (loop_fails(function) != 0)
        return loop_fails(function);
    if (context->stopped)
        return NA_PLUGIN_FAULT;
    message = calloc(1, sizeof(*message));
    if (message == NULL)
        return NA_PLUGIN_NOMEM;
    message->tag = tag;
    message->expected = expected;
    return send_message(context, op, buf, size, dest->number, dest_id, message);
}

int32_t loop_msg_send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                                 uint64_t size, void *data, struct na_plugin_addr *dest,
                                 uint32_t dest_id, uint32_t tag)
{
    (void) data;
    return post_send(context, op, buf, size, dest, dest_id, tag, 0, "msg_send_unexpected");
}

int32_t loop_msg_send_expected(struct na_plugin_context *context, void *op, const void *buf,
                               uint64_t size, void *data, struct na_plugin_addr *dest,
                               uint32_t dest_id, uint32_t tag)
{
    (void) data;
    return post_send(context, op, buf, size, dest, dest_id, tag, 1, "msg_send_expected");
}

static int32_t post_receive(struct na_plugin_context *context, struct loop_op *op,
                            enum loop_kind kind, void *buf, uint64_t size, const char *function)
{
    int32_t status = loop_fails(function);

    op->kind = kind;
    op->buf = buf;
    op->size = size;
    op->used = 0;
    pthread_mutex_lock(&context->mutex);
    if (status == 0 && context->stopped)
        status = NA_PLUGIN_FAULT;
    if (status == 0) {
        loop_append(&context->posted, op);
        loop_notify(context);
    }
    pthread_mutex_unlock(&context->mutex);
    return status;
}

int32_t loop_msg_recv_unexpected(struct na_plugin_context *context, void *op, void *buf,
                                 uint64_t size, void *data)
{
    (void) data;
    return post_receive(context, op, RECV_UNEXPECTED, buf, size, "msg_recv_unexpected");
}

int32_t loop_msg_multi_recv(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                            void *data)
{
    (void) data;
    return post_receive(context, op, RECV_MULTI, buf, size, "msg_multi_recv_unexpected");
}

int32_t loop_msg_recv_expected(struct na_plugin_context *context, void *op, void *buf,
                               uint64_t size, void *data, struct na_plugin_addr *source,
                               uint32_t source_id, uint32_t tag)
{
    struct loop_op *receive = op;

    (void) data;
    receive->tag = tag;
    receive->source_class = source->number;
    receive->source_context = source_id;
    return post_receive(context, receive, RECV_EXPECTED, buf, size, "msg_recv_expected");
}

static int matches(const struct loop_op *op, const struct loop_message *message)
{
    if (!message->expected)
        return op->kind == RECV_UNEXPECTED || op->kind == RECV_MULTI;
    return op->kind == RECV_EXPECTED && op->tag == message->tag &&
           op->source_class == message->source_class &&
           op->source_context == message->source_context;
}

/* Deliver a message to a receive; returns 0 if the core did not take the message. */
static int deliver(struct loop_op *op, struct loop_op **link, const struct loop_message *message)
{
    const int32_t status = message->size > op->size - op->used ? NA_PLUGIN_MSGSIZE : 0;
    const uint64_t size =
        status != 0 ? 0 : message->size + (loop_control.lie_about_size ? 100000 : 0);
    struct na_plugin_addr *source = NULL;
    char *where = op->buf + op->used;
    uint32_t last;

    if (!message->expected && status == 0 && !loop_control.lie_no_source)
        source = loop_addr_make(message->source_class);
    if (status == 0)
        memcpy(where, message->content, message->size);
    if (op->kind == RECV_MULTI) {
        last = status != 0 || op->size - op->used - message->size < MESSAGE_MAX;
        if (last)
            (void) loop_take(link, op);
        op->used += message->size;
        return loop_host->op_complete_multi_recv(op, status, where, size, source, message->tag,
                                                 last) == 0;
    }
    (void) loop_take(link, op);
    loop_host->op_complete_recv(op, status, size, source, message->expected ? 0 : message->tag);
    if (loop_control.complete_twice)
        loop_host->op_complete_recv(op, status, size, NULL, message->tag);
    return 1;
}

int32_t loop_poll(struct na_plugin_context *context, uint32_t *completed)
{
    struct loop_message **message_link = &context->inbox;
    uint64_t value;

    pthread_mutex_lock(&context->mutex);
    context->woken = 0;
    if (context->fd >= 0 && read(context->fd, &value, sizeof(value)) < 0)
        value = 0;
    while (*message_link != NULL) {
        struct loop_message *message = *message_link;
        struct loop_op **link = &context->posted;

        while (*link != NULL && !matches(*link, message))
            link = &(*link)->next;
        if (*link == NULL ? !message->expected : !deliver(*link, link, message)) {
            message_link = &message->next;
            continue;
        }
        *message_link = message->next;
        free(message);
        (*completed)++;
    }
    while (context->done != NULL) {
        struct loop_op *op = context->done;

        context->done = op->next;
        loop_complete(op, NA_PLUGIN_SUCCESS);
        (*completed)++;
    }
    pthread_mutex_unlock(&context->mutex);
    return loop_fails("poll");
}

int32_t loop_poll_get_fd(struct na_plugin_context *context)
{
    return context->fd;
}

uint32_t loop_poll_try_wait(struct na_plugin_context *context)
{
    uint32_t safe;

    pthread_mutex_lock(&context->mutex);
    safe = !context->woken;
    pthread_mutex_unlock(&context->mutex);
    return safe;
}

int32_t loop_poll_wait(struct na_plugin_context *context, uint32_t timeout_ms, uint32_t *completed)
{
    struct timespec end;
    int error = 0;

    if (loop_fails("poll_wait") != 0)
        return loop_fails("poll_wait");
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += timeout_ms / 1000;
    end.tv_nsec += (long) (timeout_ms % 1000) * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&context->mutex);
    while (!context->woken && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&context->cond, &context->mutex, &end);
    context->woken = 0;
    pthread_mutex_unlock(&context->mutex);
    loop_poll(context, completed);
    return error == ETIMEDOUT && *completed == 0 ? NA_PLUGIN_TIMEOUT : NA_PLUGIN_SUCCESS;
}

void loop_wake(struct na_plugin_context *context)
{
    atomic_fetch_add(&loop_control.wakes, 1);
    pthread_mutex_lock(&context->mutex);
    loop_notify(context);
    pthread_mutex_unlock(&context->mutex);
}

int32_t loop_cancel(struct na_plugin_context *context, void *op)
{
    int32_t status = loop_fails("cancel");

    pthread_mutex_lock(&context->mutex);
    if (status == 0 && (loop_take(&context->posted, op) || loop_take(&context->held, op)))
        loop_complete(op, NA_PLUGIN_CANCELED);
    pthread_mutex_unlock(&context->mutex);
    return status;
}

/* Only the list that the operation names is searched. */
int32_t loop_cancel_trusted(struct na_plugin_context *context, void *op_p)
{
    struct loop_op *op = op_p;
    int32_t status = loop_fails("cancel");

    atomic_fetch_add(&loop_control.trusted, 1);
    pthread_mutex_lock(&context->mutex);
    if (status == 0 && (op->list == &context->posted || op->list == &context->held)) {
        (void) loop_take(op->list, op);
        loop_complete(op, NA_PLUGIN_CANCELED);
    }
    pthread_mutex_unlock(&context->mutex);
    return status;
}
