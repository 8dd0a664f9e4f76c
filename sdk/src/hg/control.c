/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages: acknowledgements of fetched data, and ABANDON. They have operations and buffers
 * of their own, because the handle of the RPC may be used again before they are sent.
 */
#include "hg/control.h"

#include "engine/context_timer.h"
#include "hg/abandoned.h"
#include "hg/header.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* If so many control messages are being sent, an ABANDON is dropped. */
#define HG_CONTROL_SENDING_MAX 64u

struct hg_control {
    hg_context_t *context;
    na_op_id_t *op;
    char *buf;
    void *plugin_data;
    size_t size;
    na_addr_t *na_addr; /* NULL: not being sent; guarded by hg_controls.lock */
    na_tag_t tag;
    uint8_t path;
    uint8_t dest_id;
    bool is_expected;
    size_t used;
    struct hg_control *next_free;
    struct hg_control *next_all;
};

static hg_return_t hg_control_send(struct hg_handle *handle, const void *header, na_tag_t tag,
                                   bool is_expected);
static na_return_t hg_control_post(struct hg_control *control);
static struct hg_control *hg_control_get(struct hg_handle *handle);
static struct hg_control *hg_control_new(hg_context_t *context, uint8_t path);
static void hg_control_delete(struct hg_control *control);
static void hg_control_put(struct hg_control *control);
static void hg_control_sent(const struct na_cb_info *info);
static struct hg_abandoned hg_control_abandoned(const struct hg_handle *handle);
static bool hg_control_matches(const struct hg_abandoned *abandoned,
                               const struct hg_handle *handle);

void hg_controls_init(struct hg_controls *controls)
{
    (void) pthread_mutex_init(&controls->lock, NULL);
}

void hg_controls_fini(hg_context_t *context)
{
    struct hg_controls *controls = &hg_rpc_context(context)->controls;
    struct hg_control *control = controls->all;

    hg_abandoned_free(controls->abandoned, context->hg_class);
    while (control != NULL) {
        struct hg_control *next = control->next_all;

        hg_control_delete(control);
        control = next;
    }
    (void) pthread_mutex_destroy(&controls->lock);
}

uint32_t hg_controls_cancel(hg_context_t *context)
{
    struct hg_controls *controls = &hg_rpc_context(context)->controls;
    struct hg_control *control;
    struct hg_handle *handle;
    uint32_t count = 0;

    (void) pthread_mutex_lock(&controls->lock);
    for (control = controls->all; control != NULL; control = control->next_all) {
        if (control->na_addr == NULL)
            continue;
        count++;
        (void) NA_Cancel(context->hg_class->paths[control->path].na_class,
                         context->na_context[control->path], control->op);
    }
    for (handle = controls->awaiting; handle != NULL; handle = handle->next_awaiting) {
        count++;
        atomic_store(&handle->is_canceled, true);
        hg_context_expedite(context, &handle->timer, hg_clock_ns() + HG_CANCEL_NS);
        (void) NA_Cancel(hg_handle_path(handle)->na_class, hg_handle_na_context(handle),
                         handle->ack.op);
    }
    (void) pthread_mutex_unlock(&controls->lock);
    return count;
}

void hg_control_send_ack(struct hg_handle *handle, hg_return_t ret_code)
{
    const struct hg_core_header_response header = {
        .hg = htole16(HG_CORE_ACK_MAGIC),
        .protocol = HG_CORE_PROTOCOL_VERSION,
        .cookie = htole16((uint16_t) handle->cookie),
        .ret_code = (uint8_t) ret_code,
        .cookie_high = (uint8_t) (handle->cookie >> 16),
        .id = htole64(handle->info.id),
    };
    na_tag_t tag = handle->is_origin ? handle->tag | hg_handle_tags(handle)->ack_bit : handle->tag;
    hg_return_t ret;

    ret = hg_control_send(handle, &header, tag, true);
    if (ret != HG_SUCCESS)
        HG_LOG_ERROR("cannot acknowledge RPC %#" PRIx64 ": %s; its peer will wait", handle->info.id,
                     HG_Error_to_string(ret));
}

void hg_control_send_abandon(struct hg_handle *handle)
{
    const struct hg_core_header_request header = {
        .hg = htole16(HG_CORE_ABANDON_MAGIC),
        .protocol = HG_CORE_PROTOCOL_VERSION,
        .cookie = htole16((uint16_t) handle->cookie),
        .origin = handle->info.context->id,
        .cookie_high = (uint8_t) (handle->cookie >> 16),
        .id = htole64(handle->info.id),
    };
    struct hg_controls *controls = &hg_rpc_context(handle->info.context)->controls;
    uint32_t sending;

    (void) pthread_mutex_lock(&controls->lock);
    sending = controls->sending;
    (void) pthread_mutex_unlock(&controls->lock);
    /* Without the ABANDON the target keeps a large response until that is cancelled there. */
    if (sending < HG_CONTROL_SENDING_MAX)
        (void) hg_control_send(handle, &header, handle->tag, false);
}

void hg_controls_retry(hg_context_t *context)
{
    struct hg_controls *controls = &hg_rpc_context(context)->controls;
    struct hg_control *control;

    if (!hg_context_refused_clear(context, &controls->has_retry))
        return;
    (void) pthread_mutex_lock(&controls->lock);
    control = controls->retry;
    controls->retry = NULL;
    (void) pthread_mutex_unlock(&controls->lock);
    while (control != NULL) {
        struct hg_control *next = control->next_free;

        hg_count(&context->counters.retry);
        if (hg_control_post(control) != NA_SUCCESS)
            hg_control_put(control);
        control = next;
    }
}

void hg_control_recv_abandon(struct hg_handle *handle)
{
    struct hg_controls *controls = &hg_rpc_context(handle->info.context)->controls;
    na_class_t *na_class = hg_handle_path(handle)->na_class;
    struct hg_abandoned abandoned = hg_control_abandoned(handle);
    struct hg_handle *awaiting;
    na_addr_t *old_addr;
    uint8_t old_path;

    if (NA_Addr_dup(na_class, handle->source.na_addr[handle->path], &abandoned.na_addr) !=
        NA_SUCCESS)
        return;
    old_addr = abandoned.na_addr;
    old_path = abandoned.path;
    (void) pthread_mutex_lock(&controls->lock);
    for (awaiting = controls->awaiting; awaiting != NULL; awaiting = awaiting->next_awaiting)
        if (hg_control_matches(&abandoned, awaiting))
            break;
    if (awaiting != NULL) {
        atomic_store(&awaiting->is_canceled, true);
        hg_context_expedite(awaiting->info.context, &awaiting->timer, hg_clock_ns() + HG_CANCEL_NS);
        (void) NA_Cancel(na_class, hg_handle_na_context(awaiting), awaiting->ack.op);
    } else {
        if (controls->abandoned == NULL)
            controls->abandoned = hg_abandoned_new();
        if (controls->abandoned != NULL)
            old_addr =
                hg_abandoned_add(controls->abandoned, handle->info.hg_class, &abandoned, &old_path);
    }
    (void) pthread_mutex_unlock(&controls->lock);
    if (old_addr != NULL)
        NA_Addr_free(handle->info.hg_class->paths[old_path].na_class, old_addr);
}

bool hg_control_await(struct hg_handle *handle)
{
    struct hg_controls *controls = &hg_rpc_context(handle->info.context)->controls;
    na_addr_t *na_addr = NULL;

    (void) pthread_mutex_lock(&controls->lock);
    if (controls->abandoned != NULL) {
        const struct hg_abandoned wanted = hg_control_abandoned(handle);

        na_addr = hg_abandoned_take(controls->abandoned, handle->info.hg_class, &wanted);
    }
    if (na_addr == NULL) {
        handle->next_awaiting = controls->awaiting;
        handle->awaiting_link = &controls->awaiting;
        if (handle->next_awaiting != NULL)
            handle->next_awaiting->awaiting_link = &handle->next_awaiting;
        controls->awaiting = handle;
        atomic_store(&handle->is_acknowledged, false);
        atomic_store(&handle->is_awaited, true);
    }
    (void) pthread_mutex_unlock(&controls->lock);
    if (na_addr != NULL)
        NA_Addr_free(hg_handle_path(handle)->na_class, na_addr);
    return na_addr == NULL;
}

void hg_control_await_end(struct hg_handle *handle)
{
    struct hg_controls *controls = &hg_rpc_context(handle->info.context)->controls;

    (void) pthread_mutex_lock(&controls->lock);
    if (atomic_load(&handle->is_awaited)) {
        *handle->awaiting_link = handle->next_awaiting;
        if (handle->next_awaiting != NULL)
            handle->next_awaiting->awaiting_link = handle->awaiting_link;
        atomic_store(&handle->is_awaited, false);
    }
    (void) pthread_mutex_unlock(&controls->lock);
}

void hg_control_pass_ack(const struct hg_handle *handle, hg_id_t id, uint32_t cookie,
                         hg_return_t ret_code)
{
    struct hg_abandoned wanted = hg_control_abandoned(handle);
    struct hg_controls *controls = &hg_rpc_context(handle->info.context)->controls;
    struct hg_handle *other;

    wanted.id = id;
    wanted.cookie = cookie;
    (void) pthread_mutex_lock(&controls->lock);
    for (other = controls->awaiting; other != NULL; other = other->next_awaiting) {
        if (other == handle || !hg_control_matches(&wanted, other))
            continue;
        atomic_store(&other->ack_ret, (uint32_t) ret_code);
        atomic_store(&other->is_acknowledged, true);
        (void) NA_Cancel(hg_handle_path(other)->na_class, hg_handle_na_context(other),
                         other->ack.op);
        break;
    }
    (void) pthread_mutex_unlock(&controls->lock);
}

static hg_return_t hg_control_send(struct hg_handle *handle, const void *header, na_tag_t tag,
                                   bool is_expected)
{
    const struct hg_class_path *path = hg_handle_path(handle);
    size_t offset = is_expected ? path->expected_header : path->unexpected_header;
    struct hg_control *control = hg_control_get(handle);
    na_return_t na_return;

    if (control == NULL)
        return HG_NOMEM;
    na_return = is_expected ? NA_Msg_init_expected(path->na_class, control->buf, control->size)
                            : NA_Msg_init_unexpected(path->na_class, control->buf, control->size);
    memcpy(control->buf + offset, header, sizeof(struct hg_core_header_request));
    control->used = offset + hg_header_seal(handle, control->buf + offset, tag, is_expected);
    control->tag = tag;
    control->dest_id = handle->info.context_id;
    control->is_expected = is_expected;
    if (na_return == NA_SUCCESS)
        na_return = hg_control_post(control);
    if (na_return != NA_SUCCESS)
        hg_control_put(control);
    return hg_return_from_na(na_return);
}

/* Send a control message, or queue it for progress if the transport refuses it. */
static na_return_t hg_control_post(struct hg_control *control)
{
    hg_context_t *context = control->context;
    struct hg_controls *controls = &hg_rpc_context(context)->controls;
    na_class_t *na_class = context->hg_class->paths[control->path].na_class;
    na_context_t *na_context = context->na_context[control->path];
    na_return_t na_return;

    na_return =
        control->is_expected
            ? NA_Msg_send_expected(na_class, na_context, hg_control_sent, control, control->buf,
                                   control->used, control->plugin_data, control->na_addr,
                                   control->dest_id, control->tag, control->op)
            : NA_Msg_send_unexpected(na_class, na_context, hg_control_sent, control, control->buf,
                                     control->used, control->plugin_data, control->na_addr,
                                     control->dest_id, control->tag, control->op);
    if (na_return != NA_AGAIN)
        return na_return;
    (void) pthread_mutex_lock(&controls->lock);
    control->next_free = controls->retry;
    controls->retry = control;
    (void) pthread_mutex_unlock(&controls->lock);
    hg_context_refused_set(context, &controls->has_retry);
    return NA_SUCCESS;
}

/* Take or make a control message to the handle's peer; it counts as being sent. */
static struct hg_control *hg_control_get(struct hg_handle *handle)
{
    struct hg_controls *controls = &hg_rpc_context(handle->info.context)->controls;
    na_addr_t *peer = hg_handle_na_addr(handle), *na_addr = NULL;
    struct hg_control *control;

    if (NA_Addr_dup(hg_handle_path(handle)->na_class, peer, &na_addr) != NA_SUCCESS)
        return NULL;
    (void) pthread_mutex_lock(&controls->lock);
    control = controls->free[handle->path];
    if (control != NULL) {
        controls->free[handle->path] = control->next_free;
    } else {
        control = hg_control_new(handle->info.context, handle->path);
        if (control != NULL) {
            control->next_all = controls->all;
            controls->all = control;
        }
    }
    if (control != NULL) {
        control->na_addr = na_addr;
        controls->sending++;
    }
    (void) pthread_mutex_unlock(&controls->lock);
    if (control == NULL)
        NA_Addr_free(hg_handle_path(handle)->na_class, na_addr);
    return control;
}

static struct hg_control *hg_control_new(hg_context_t *context, uint8_t path_index)
{
    const struct hg_class_path *path = &context->hg_class->paths[path_index];
    struct hg_control *control = calloc(1, sizeof(*control));

    if (control == NULL)
        return NULL;
    control->context = context;
    control->path = path_index;
    control->size = hg_header_size(HG_CORE_HEADER_HAS_SEAL) +
                    (path->unexpected_header > path->expected_header ? path->unexpected_header
                                                                     : path->expected_header);
    control->op = NA_Op_create(path->na_class, NA_OP_SINGLE);
    control->buf = NA_Msg_buf_alloc(path->na_class, control->size, NA_SEND, &control->plugin_data);
    if (control->op == NULL || control->buf == NULL) {
        hg_control_delete(control);
        return NULL;
    }
    return control;
}

static void hg_control_delete(struct hg_control *control)
{
    na_class_t *na_class = control->context->hg_class->paths[control->path].na_class;

    if (control->buf != NULL)
        NA_Msg_buf_free(na_class, control->buf, control->plugin_data);
    if (control->op != NULL)
        NA_Op_destroy(na_class, control->op);
    free(control);
}

static void hg_control_put(struct hg_control *control)
{
    struct hg_controls *controls = &hg_rpc_context(control->context)->controls;
    na_addr_t *na_addr = control->na_addr;

    (void) pthread_mutex_lock(&controls->lock);
    control->na_addr = NULL;
    control->next_free = controls->free[control->path];
    controls->free[control->path] = control;
    controls->sending--;
    (void) pthread_mutex_unlock(&controls->lock);
    NA_Addr_free(control->context->hg_class->paths[control->path].na_class, na_addr);
}

static void hg_control_sent(const struct na_cb_info *info)
{
    if (info->ret != NA_SUCCESS)
        HG_LOG_DEBUG("a control message was not sent: %s", NA_Error_to_string(info->ret));
    hg_control_put(info->arg);
}

/* What an ABANDON for the request of this handle would contain. */
static struct hg_abandoned hg_control_abandoned(const struct hg_handle *handle)
{
    const struct hg_abandoned abandoned = {
        .na_addr = handle->source.na_addr[handle->path],
        .id = handle->info.id,
        .tag = handle->tag,
        .cookie = handle->cookie,
        .origin = handle->info.context_id,
        .path = handle->path,
    };

    return abandoned;
}

static bool hg_control_matches(const struct hg_abandoned *abandoned, const struct hg_handle *handle)
{
    const struct hg_abandoned own = hg_control_abandoned(handle);

    return hg_abandoned_equals(handle->info.hg_class, abandoned, &own);
}
