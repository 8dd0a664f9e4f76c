/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step 8: put and get, emulated by messages. A put sends its pieces, and the target says when the
 * last one is in place. A get asks, and the target sends the pieces. A fabric that does this by
 * itself needs none of it: declare NA_PLUGIN_CAP_RMA_NATIVE then.
 */

#include "template.h"

#include <string.h>

#define BURST 16 /* pieces of one transfer in one poll */

static int32_t transfer_post(struct na_plugin_context *context, struct template_op *op,
                             const struct template_op *what);
static bool transfer_progress(struct template_op *op);
static struct template_op *transfer_find(struct na_plugin_context *context, uint64_t id,
                                         uint32_t kind, const struct na_plugin_addr *peer);
static void put_arrived(struct na_plugin_context *context, const struct template_frame *frame,
                        const uint8_t *content, uint64_t size, struct na_plugin_addr *peer,
                        uint32_t peer_id);
static void get_data_arrived(struct na_plugin_context *context, const struct template_frame *frame,
                             const uint8_t *content, uint64_t size, struct na_plugin_addr *peer);
static void serve_add(struct na_plugin_context *context, const struct template_frame *frame,
                      uint32_t kind, int32_t status, struct na_plugin_addr *peer, uint32_t peer_id);
static bool serve_progress(struct na_plugin_context *context, struct template_serve *serve);
static void serve_free(struct na_plugin_context *context, struct template_serve *serve);
static int32_t status_check(int32_t status);

int32_t template_put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                     uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                     uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    const struct template_op what = {
        .kind = TEMPLATE_PUT,
        .context = context,
        .peer = addr,
        .peer_id = remote_id,
        .key = remote->key,
        .offset = remote_offset,
        .size = length,
        .memory = local->base + local_offset,
    };

    return transfer_post(context, op, &what);
}

int32_t template_get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                     uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                     uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    const struct template_op what = {
        .kind = TEMPLATE_GET,
        .context = context,
        .peer = addr,
        .peer_id = remote_id,
        .key = remote->key,
        .offset = remote_offset,
        .size = length,
        .memory = local->base + local_offset,
    };

    return transfer_post(context, op, &what);
}

/* Late pieces of what was cancelled have an id that nobody knows any more: they are dropped. */
void template_transfer_frame(struct na_plugin_context *context, const struct template_frame *frame,
                             const uint8_t *content, uint64_t size, struct na_plugin_addr *peer,
                             uint32_t peer_id)
{
    struct template_op *op;

    switch (frame->kind) {
    case TEMPLATE_PUT:
        put_arrived(context, frame, content, size, peer, peer_id);
        break;
    case TEMPLATE_GET:
        serve_add(context, frame, TEMPLATE_GET_DATA, NA_PLUGIN_SUCCESS, peer, peer_id);
        break;
    case TEMPLATE_GET_DATA:
        get_data_arrived(context, frame, content, size, peer);
        break;
    default: /* TEMPLATE_PUT_DONE */
        op = transfer_find(context, frame->id, TEMPLATE_PUT, peer);
        if (op != NULL)
            template_complete(op, status_check(frame->status));
    }
}

void template_progress_transfers(struct na_plugin_context *context)
{
    struct template_link *link = context->transfers.next;

    while (link != &context->transfers) {
        struct template_op *op = (struct template_op *) (void *) link;

        link = link->next;
        (void) transfer_progress(op);
    }
    link = context->serves.next;
    while (link != &context->serves) {
        struct template_serve *serve = (struct template_serve *) (void *) link;

        link = link->next;
        if (serve_progress(context, serve))
            serve_free(context, serve);
    }
}

void template_serves_free(struct na_plugin_context *context)
{
    while (!template_list_is_empty(&context->serves))
        serve_free(context, (struct template_serve *) (void *) context->serves.next);
}

static int32_t transfer_post(struct na_plugin_context *context, struct template_op *op,
                             const struct template_op *what)
{
    (void) pthread_mutex_lock(&context->na_class->lock);
    if (context->stopped) {
        (void) pthread_mutex_unlock(&context->na_class->lock);
        return NA_PLUGIN_FAULT;
    }
    *op = *what;
    op->id = ++context->na_class->next_id;
    template_list_append(&context->transfers, &op->link);
    if (transfer_progress(op))
        template_notify(context);
    (void) pthread_mutex_unlock(&context->na_class->lock);
    return NA_PLUGIN_SUCCESS;
}

/* Sends what there is room for; a get is sent with its request. True when there is more to send. */
static bool transfer_progress(struct template_op *op)
{
    for (int i = 0; i < BURST && op->sent < op->size; i++) {
        const uint64_t left = op->size - op->sent;
        const uint64_t size = left < TEMPLATE_PIECE ? left : TEMPLATE_PIECE;
        const bool put = op->kind == TEMPLATE_PUT;
        struct template_frame frame = {
            .kind = op->kind,
            .id = op->id,
            .key = op->key,
            .offset = op->offset + op->sent,
            .length = put ? size : left,
            .last = put && size == left,
        };
        int32_t status = template_write(op->context, op->peer, op->peer_id, &frame,
                                        op->memory + op->sent, put ? size : 0);

        if (status == NA_PLUGIN_AGAIN)
            return true;
        if (status != NA_PLUGIN_SUCCESS) {
            template_complete(op, status); /* from here on it is not ours */
            return false;
        }
        op->sent += frame.length;
    }
    return op->sent < op->size;
}

static struct template_op *transfer_find(struct na_plugin_context *context, uint64_t id,
                                         uint32_t kind, const struct na_plugin_addr *peer)
{
    for (struct template_link *link = context->transfers.next; link != &context->transfers;
         link = link->next) {
        struct template_op *op = (struct template_op *) (void *) link;

        if (op->id == id && op->kind == kind && op->peer == peer)
            return op;
    }
    return NULL;
}

static void put_arrived(struct na_plugin_context *context, const struct template_frame *frame,
                        const uint8_t *content, uint64_t size, struct na_plugin_addr *peer,
                        uint32_t peer_id)
{
    uint8_t *where = NULL;
    int32_t status = template_mem_find_locked(context->na_class, frame->key, frame->offset, size,
                                              NA_PLUGIN_MEM_WRITE, &where);

    if (status == NA_PLUGIN_SUCCESS)
        memcpy(where, content, size);
    if (status != NA_PLUGIN_SUCCESS || frame->last)
        serve_add(context, frame, TEMPLATE_PUT_DONE, status, peer, peer_id);
}

static void get_data_arrived(struct na_plugin_context *context, const struct template_frame *frame,
                             const uint8_t *content, uint64_t size, struct na_plugin_addr *peer)
{
    struct template_op *op = transfer_find(context, frame->id, TEMPLATE_GET, peer);

    if (op == NULL)
        return;
    if (frame->status != NA_PLUGIN_SUCCESS) {
        template_complete(op, status_check(frame->status));
    } else if (frame->offset != op->done || size == 0 || size > op->size - op->done) {
        template_complete(op, NA_PLUGIN_PROTOCOL_ERROR);
    } else {
        memcpy(op->memory + op->done, content, size);
        op->done += size;
        if (op->done == op->size)
            template_complete(op, NA_PLUGIN_SUCCESS);
    }
}

/* Their number is bounded: when it is reached, the socket is not read. */
static void serve_add(struct na_plugin_context *context, const struct template_frame *frame,
                      uint32_t kind, int32_t status, struct na_plugin_addr *peer, uint32_t peer_id)
{
    struct template_serve *serve = template_host->mem_alloc(sizeof(*serve), 0);

    if (serve == NULL) {
        TEMPLATE_ERROR("no memory to answer a transfer of %s: it will wait in vain", peer->name);
        return;
    }
    peer->references++;
    serve->peer = peer;
    serve->peer_id = peer_id;
    serve->frame =
        (struct template_frame){.kind = kind, .status = status, .id = frame->id, .key = frame->key};
    serve->start = frame->offset;
    serve->length = frame->length;
    template_list_append(&context->serves, &serve->link);
    context->serve_count++;
}

/* True when nothing is left to do. The memory is looked up for each piece: it may be deregistered
 * in between. */
static bool serve_progress(struct na_plugin_context *context, struct template_serve *serve)
{
    struct template_frame *frame = &serve->frame;

    for (int i = 0; i < BURST; i++) {
        const uint64_t left = serve->length - frame->offset;
        uint64_t size = left < TEMPLATE_PIECE ? left : TEMPLATE_PIECE;
        uint8_t *where = NULL;
        int32_t status;

        if (frame->kind == TEMPLATE_GET_DATA)
            frame->status = serve->start > UINT64_MAX - serve->length
                                ? NA_PLUGIN_OVERFLOW
                                : template_mem_find_locked(context->na_class, frame->key,
                                                           serve->start + frame->offset, size,
                                                           NA_PLUGIN_MEM_READ, &where);
        if (where == NULL)
            size = 0;
        status = template_write(context, serve->peer, serve->peer_id, frame, where, size);
        if (status == NA_PLUGIN_AGAIN)
            return false;
        frame->offset += size;
        if (status != NA_PLUGIN_SUCCESS || where == NULL || frame->offset == serve->length)
            return true;
    }
    return false;
}

static void serve_free(struct na_plugin_context *context, struct template_serve *serve)
{
    template_list_remove(&serve->link);
    context->serve_count--;
    template_peer_put_locked(context->na_class, serve->peer);
    template_host->mem_free(serve);
}

/* What came over the wire may be anything. */
static int32_t status_check(int32_t status)
{
    return status >= NA_PLUGIN_SUCCESS && status <= NA_PLUGIN_HOSTFIREWALL
               ? status
               : NA_PLUGIN_PROTOCOL_ERROR;
}
