/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RPCs to the class's own address, without the transport: the request is copied into a target's
 * handle, which is queued where a received one would be. Extra buffers change hands.
 *
 * While both handles belong to one RPC each points to the other; the origin's lock protects that.
 */
#include "hg/hg_private.h"

#include <inttypes.h>
#include <string.h>

/* How many target's handles are made at once if there are none. */
#define HG_LOOPBACK_STEP 16u

static struct hg_handle *hg_loopback_target(struct hg_handle *origin, hg_return_t *ret_p);
static void hg_loopback_copy(struct hg_msg *to, struct hg_extra *to_extra,
                             const struct hg_msg *from, struct hg_extra *from_extra,
                             uint8_t from_flags, size_t payload);

bool hg_loopback_applies(const struct hg_handle *handle)
{
    return handle->info.addr->is_self && !handle->info.hg_class->no_loopback;
}

hg_return_t hg_loopback_forward(struct hg_handle *origin, size_t payload, uint8_t flags)
{
    hg_context_t *context = origin->info.context;
    struct hg_handle *target;
    hg_return_t ret;

    target = hg_loopback_target(origin, &ret);
    if (target == NULL)
        return ret;
    hg_count_own(&origin->req_count[origin->lane]);
    hg_count_own(&target->req_count[target->lane]);
    origin->in.flags = flags;
    origin->in.used = payload;
    origin->in.has_payload = true;
    if (origin->in_extra.block != NULL)
        hg_count(&context->counters.req_extra);
    hg_loopback_copy(&target->in, &target->in_extra, &origin->in, &origin->in_extra, flags,
                     payload);
    target->no_response = origin->no_response;
    atomic_store_explicit(&origin->pending, 1, memory_order_relaxed);
    if (origin->no_response) {
        hg_recv_dispatch(target);
        hg_forward_part_done(origin);
        return HG_SUCCESS;
    }
    (void) pthread_mutex_lock(&origin->lock);
    origin->peer = target;
    target->peer = origin;
    atomic_store(&origin->self, HG_SELF_RUNNING);
    atomic_store(&target->self, HG_SELF_QUEUED);
    (void) pthread_mutex_unlock(&origin->lock);
    hg_recv_dispatch(target);
    return HG_SUCCESS;
}

void hg_loopback_respond(struct hg_handle *target, hg_return_t ret, size_t payload, uint8_t flags)
{
    struct hg_handle *origin = target->peer;

    hg_count_own(&target->resp_count);
    hg_count_own(&origin->resp_count);
    if (target->out_extra.block != NULL)
        hg_count(&target->info.context->counters.resp_extra);
    if (ret == HG_SUCCESS)
        hg_loopback_copy(&origin->out, &origin->out_extra, &target->out, &target->out_extra, flags,
                         payload);
    else
        hg_handle_set_error(origin, ret);
    target->out.flags = flags;
    target->out.used = payload;
    target->out.has_payload = true;

    (void) pthread_mutex_lock(&origin->lock);
    origin->peer = NULL;
    target->peer = NULL;
    atomic_store(&origin->self, HG_SELF_NONE);
    (void) pthread_mutex_unlock(&origin->lock);
    /* In the order in which a remote pair is called back: first the target, then the origin. */
    atomic_store_explicit(&target->pending, 1, memory_order_relaxed);
    hg_respond_part_done(target);
    hg_forward_part_done(origin);
}

hg_return_t hg_loopback_cancel(struct hg_handle *origin)
{
    uint32_t queued = HG_SELF_QUEUED;
    bool is_canceled = false, is_running = false;

    (void) pthread_mutex_lock(&origin->lock);
    if (atomic_load(&origin->self) == HG_SELF_ORPHAN) {
        is_canceled = true;
    } else if (origin->peer != NULL) {
        is_canceled =
            atomic_compare_exchange_strong(&origin->peer->self, &queued, HG_SELF_CANCELED);
        is_running = !is_canceled;
    }
    if (is_canceled) {
        atomic_store(&origin->self, HG_SELF_NONE);
        origin->peer = NULL;
    }
    (void) pthread_mutex_unlock(&origin->lock);
    if (is_running) {
        HG_LOG_WARNING("cannot cancel RPC %#" PRIx64 " to the own address: its handler runs",
                       origin->info.id);
        return HG_OPNOTSUPPORTED;
    }
    if (is_canceled) {
        hg_handle_set_error(origin, HG_CANCELED);
        hg_forward_part_done(origin);
    }
    return HG_SUCCESS;
}

void hg_loopback_release(struct hg_handle *target)
{
    struct hg_handle *origin = target->peer;

    target->peer = NULL;
    if (atomic_load(&target->self) == HG_SELF_CANCELED)
        return; /* the origin is on its own already */
    (void) pthread_mutex_lock(&origin->lock);
    origin->peer = NULL;
    atomic_store(&origin->self, HG_SELF_ORPHAN);
    (void) pthread_mutex_unlock(&origin->lock);
}

/* A target's handle of the context that the origin asks for, as if it had received the request. */
static struct hg_handle *hg_loopback_target(struct hg_handle *origin, hg_return_t *ret_p)
{
    hg_class_t *hg_class = origin->info.hg_class;
    hg_context_t *context = origin->info.context;
    const uint8_t lane = origin->lane;
    struct hg_handle *target;
    na_return_t na_return;

    if (origin->info.context_id != context->id)
        context = hg_class_find_context(hg_class, origin->info.context_id);
    if (context == NULL) {
        HG_LOG_ERROR("cannot forward RPC %#" PRIx64 " to context %u of the own address: there is "
                     "no such context",
                     origin->info.id, origin->info.context_id);
        *ret_p = HG_INVALID_ARG;
        return NULL;
    }
    target = hg_pool_get(context, false, (enum hg_lane) lane, HG_LOOPBACK_STEP, ret_p);
    if (target == NULL) {
        HG_LOG_ERROR("cannot forward RPC %#" PRIx64 " to the own address: %s", origin->info.id,
                     HG_Error_to_string(*ret_p));
        return NULL;
    }
    na_return = NA_Addr_dup(hg_class->lanes[lane].na_class, origin->info.addr->na_addr[lane],
                            &target->source.na_addr[lane]);
    if (na_return != NA_SUCCESS) {
        target->source.na_addr[lane] = NULL;
        hg_pool_put(&context->targets[lane], target);
        *ret_p = hg_return_from_na(na_return);
        return NULL;
    }
    target->source.is_self = true;
    target->info.id = origin->info.id;
    target->info.context_id = origin->info.context->id;
    target->rpc = origin->rpc;
    target->out.has_payload = false;
    atomic_store_explicit(&target->state, HG_HANDLE_IDLE, memory_order_relaxed);
    atomic_store_explicit(&target->ref, 1, memory_order_relaxed);
    return target;
}

/* What the wire would do. Checksums are left out: nothing can be damaged on this way. */
static void hg_loopback_copy(struct hg_msg *to, struct hg_extra *to_extra,
                             const struct hg_msg *from, struct hg_extra *from_extra,
                             uint8_t from_flags, size_t payload)
{
    to->flags = from_flags & HG_CORE_HEADER_PORTABLE;
    to->used = payload;
    to->has_payload = true;
    memcpy(to->buf + hg_msg_payload_offset(to, to->flags),
           from->buf + hg_msg_payload_offset(from, from_flags), payload);
    if (from_extra->block != NULL) {
        to->flags |= HG_CORE_HEADER_MORE_DATA;
        to_extra->block = from_extra->block;
        to_extra->size = from_extra->size;
        from_extra->block = NULL;
        from_extra->size = 0;
    }
}
