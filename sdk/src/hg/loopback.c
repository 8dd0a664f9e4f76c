/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RPCs to the class's own address, without the transport: the request is copied into a target's
 * handle, which is queued like a received one. Extra blocks are moved.
 *
 * Until the RPC ends, `peer` of each handle points to the other one, guarded by self_lock. The
 * response, a cancel, or the release of the target's handle unlinks them; the first of these
 * decides how the RPC ends. `other_end` stays longer, for HG_Ref_get().
 */
#include "hg/loopback.h"

#include "engine/probes.h"
#include "hg/deadline.h"
#include "hg/header.h"
#include "hg/recv.h"

#include <inttypes.h>
#include <string.h>

/* Handles that a pool of a target grows by. */
#define HG_LOOPBACK_STEP 16u

static struct hg_handle *hg_loopback_target(struct hg_handle *origin, hg_return_t *ret_p);
static struct hg_handle *hg_loopback_unlink(struct hg_handle *target, enum hg_self_state self);
static void hg_loopback_copy(struct hg_msg *to, struct hg_extra *to_extra,
                             const struct hg_msg *from, struct hg_extra *from_extra,
                             uint8_t from_flags, size_t payload);

hg_return_t hg_loopback_forward(struct hg_handle *origin, size_t payload, uint8_t flags)
{
    hg_context_t *context = origin->info.context;
    const uint32_t deadline_ms = origin->no_response ? 0 : origin->deadline_ms;
    struct hg_handle *target;
    bool is_canceled;
    hg_return_t ret;

    target = hg_loopback_target(origin, &ret);
    if (target == NULL)
        return ret;
    hg_count_own(&origin->req_count[origin->path]);
    hg_count_own(&target->req_count[target->path]);
    hg_count_own_add(&origin->req_bytes, sizeof(struct hg_core_header_request) + payload);
    hg_count_own_add(&target->req_bytes, sizeof(struct hg_core_header_request) + payload);
    origin->in.flags = flags;
    origin->in.used = payload;
    origin->in.has_payload = true;
    if (origin->in_extra.block != NULL)
        hg_count(&context->counters.req_extra);
    hg_loopback_copy(&target->in, &target->in_extra, &origin->in, &origin->in_extra, flags,
                     payload);
    HG_PROBE3(request, target, target->info.id, payload);
    target->no_response = origin->no_response;
    atomic_store_explicit(&origin->pending, 1, memory_order_relaxed);
    if (origin->no_response) {
        hg_recv_dispatch(target);
        hg_handle_part_done(origin);
        return HG_SUCCESS;
    }
    if (util_unlikely(deadline_ms != 0))
        hg_deadline_begin(origin, deadline_ms);
    (void) pthread_mutex_lock(&hg_rpc_class(context->hg_class)->self_lock);
    origin->peer = target;
    target->peer = origin;
    hg_handle_drop_other_end(origin);
    atomic_store_explicit(&origin->other_end, target, memory_order_relaxed);
    atomic_store_explicit(&target->other_end, origin, memory_order_relaxed);
    atomic_store(&origin->self, HG_SELF_RUNNING);
    atomic_store(&target->self, HG_SELF_QUEUED);
    is_canceled = atomic_load(&origin->is_canceled);
    (void) pthread_mutex_unlock(&hg_rpc_class(context->hg_class)->self_lock);
    /* A cancel by another thread found no target if it came before. */
    if (util_unlikely(is_canceled))
        hg_loopback_cancel(origin);
    hg_recv_dispatch(target);
    if (util_unlikely(deadline_ms != 0)) {
        hg_deadline_started(origin);
        hg_context_wake(context);
    }
    return HG_SUCCESS;
}

void hg_loopback_respond(struct hg_handle *target, hg_return_t ret, size_t payload, uint8_t flags)
{
    struct hg_handle *origin = hg_loopback_unlink(target, HG_SELF_NONE);

    hg_count_own(&target->resp_count);
    hg_count_own_add(&target->resp_bytes, sizeof(struct hg_core_header_response) + payload);
    if (target->out_extra.block != NULL)
        hg_count(&target->info.context->counters.resp_extra);
    if (origin != NULL) {
        hg_count_own(&origin->resp_count);
        hg_count_own_add(&origin->resp_bytes, sizeof(struct hg_core_header_response) + payload);
        if (ret == HG_SUCCESS)
            hg_loopback_copy(&origin->out, &origin->out_extra, &target->out, &target->out_extra,
                             flags, payload);
        else
            hg_handle_set_error(origin, ret);
    }
    target->out.flags = flags;
    target->out.used = payload;
    target->out.has_payload = true;
    /* As with a remote peer, the target is called back first, then the origin. */
    atomic_store_explicit(&target->pending, 1, memory_order_relaxed);
    hg_handle_part_done(target);
    if (origin != NULL)
        hg_handle_part_done(origin);
}

void hg_loopback_cancel(struct hg_handle *origin)
{
    pthread_mutex_t *lock = &hg_rpc_class(origin->info.hg_class)->self_lock;
    uint32_t queued = HG_SELF_QUEUED;
    struct hg_handle *target;
    bool is_canceled;

    (void) pthread_mutex_lock(lock);
    target = origin->peer;
    is_canceled = target != NULL || atomic_load(&origin->self) == HG_SELF_ORPHAN;
    if (target != NULL) {
        /* The response of a handler that already runs is dropped. */
        (void) atomic_compare_exchange_strong(&target->self, &queued, HG_SELF_CANCELED);
        target->peer = NULL;
    }
    if (is_canceled) {
        origin->peer = NULL;
        atomic_store(&origin->self, HG_SELF_NONE);
    }
    (void) pthread_mutex_unlock(lock);
    if (is_canceled) {
        hg_handle_set_error(origin, HG_CANCELED);
        hg_handle_part_done(origin);
    }
}

void hg_loopback_release(struct hg_handle *target)
{
    (void) hg_loopback_unlink(target, HG_SELF_ORPHAN);
    atomic_store(&target->self, HG_SELF_NONE);
}

/* Unlink origin and target; returns the origin, or NULL if they were unlinked before. */
static struct hg_handle *hg_loopback_unlink(struct hg_handle *target, enum hg_self_state self)
{
    pthread_mutex_t *lock = &hg_rpc_class(target->info.hg_class)->self_lock;
    struct hg_handle *origin;

    (void) pthread_mutex_lock(lock);
    origin = target->peer;
    target->peer = NULL;
    if (origin != NULL) {
        origin->peer = NULL;
        atomic_store(&origin->self, (uint32_t) self);
    }
    (void) pthread_mutex_unlock(lock);
    return origin;
}

/* Take a target's handle of the requested context, and set it up as if it received a request. */
static struct hg_handle *hg_loopback_target(struct hg_handle *origin, hg_return_t *ret_p)
{
    hg_class_t *hg_class = origin->info.hg_class;
    hg_context_t *context = origin->info.context;
    const uint8_t path = origin->path;
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
    target = hg_pool_get(&hg_rpc_context(context)->targets[path], HG_LOOPBACK_STEP, ret_p);
    if (target == NULL) {
        HG_LOG_ERROR("cannot forward RPC %#" PRIx64 " to the own address: %s", origin->info.id,
                     HG_Error_to_string(*ret_p));
        return NULL;
    }
    na_return = NA_Addr_dup(hg_class->paths[path].na_class, origin->info.addr->na_addr[path],
                            &target->source.na_addr[path]);
    if (na_return != NA_SUCCESS) {
        target->source.na_addr[path] = NULL;
        hg_pool_put(&hg_rpc_context(context)->targets[path], target);
        *ret_p = hg_return_from_na(na_return);
        return NULL;
    }
    target->source.is_self = true;
    target->deadline_ms = hg_class_get_deadline(hg_class);
    target->info.id = origin->info.id;
    target->info.context_id = origin->info.context->id;
    target->rpc = origin->rpc;
    target->out.has_payload = false;
    atomic_store_explicit(&target->ref, 1, memory_order_relaxed);
    return target;
}

/* Copy a message. There are no checksums, because nothing can damage it here. */
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
