/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of an operation on a handle whose deadline has passed.
 *
 * First its messages are cancelled, which most transports do at once. Messages that the transport
 * still uses are detached: they are exchanged with those of a spare handle from the pool, which
 * goes back there when NA calls back. So the program has its handle again, with buffers that
 * nobody writes to. The spare handle gets the slot too, so that no response to a later use of the
 * handle matches the receive that is still posted.
 */
#include "hg/deadline.h"

#include "engine/probes.h"
#include "hg/control.h"
#include "hg/generation.h"

#include <inttypes.h>

static void hg_deadline_fire(struct hg_timer *timer);
static void hg_deadline_finish(struct hg_timer *timer);
static int32_t hg_detach(struct hg_handle *handle);
static int32_t hg_detach_messages(struct hg_handle *handle, struct hg_handle *spare);
static bool hg_detach_message(struct hg_msg *msg, struct hg_handle *spare,
                              struct hg_msg *spare_msg);
static void hg_detach_done(const struct na_cb_info *info);
static void hg_detach_part_done(struct hg_handle *spare);

hg_return_t HG_Class_set_default_deadline(hg_class_t *hg_class, unsigned int deadline_ms)
{
    if (!hg_class_is_usable(hg_class))
        return hg_class_refuse(hg_class, __func__);
    atomic_store_explicit(&hg_class->deadline_ms, deadline_ms, memory_order_relaxed);
    return HG_SUCCESS;
}

unsigned int HG_Class_get_default_deadline(const hg_class_t *hg_class)
{
    return hg_class != NULL ? hg_class_get_deadline(hg_class) : 0;
}

hg_return_t HG_Set_deadline(hg_handle_t handle, unsigned int deadline_ms)
{
    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    if (handle == HG_HANDLE_NULL) {
        HG_LOG_ERROR("cannot set a deadline of %u ms: the handle is NULL", deadline_ms);
        return HG_INVALID_ARG;
    }
    handle->deadline_ms = deadline_ms;
    return HG_SUCCESS;
}

unsigned int HG_Get_deadline(hg_handle_t handle)
{
    return handle != HG_HANDLE_NULL ? handle->deadline_ms : 0;
}

void hg_deadline_begin(struct hg_handle *handle, uint32_t deadline_ms)
{
    /* The deadline of a deferred forward counts from HG_Forward(). */
    if (!handle->is_deferred)
        handle->end_ns = hg_clock_ns() + deadline_ms * HG_NS_PER_MS;
    handle->timer.fire = hg_deadline_fire;
    handle->timer.finish = hg_deadline_finish;
    atomic_fetch_add_explicit(&handle->pending, HG_PENDING_TIMER + 1, memory_order_relaxed);
}

void hg_deadline_started(struct hg_handle *handle)
{
    hg_context_arm(handle->info.context, &handle->timer, handle->end_ns);
    /* A cancel by another thread found no timer if it came before. */
    if (util_unlikely(atomic_load(&handle->is_canceled)))
        hg_context_expedite(handle->info.context, &handle->timer, hg_clock_ns() + HG_CANCEL_NS);
    hg_handle_part_done(handle);
}

void hg_deadline_wait(struct hg_handle *handle)
{
    handle->timer.fire = hg_deadline_fire;
    handle->timer.finish = hg_deadline_finish;
    atomic_fetch_add_explicit(&handle->pending, HG_PENDING_TIMER, memory_order_relaxed);
    hg_context_arm(handle->info.context, &handle->timer, handle->end_ns);
}

uint32_t hg_deadline_left(const struct hg_handle *handle)
{
    const uint64_t now = hg_clock_ns();

    return now + HG_NS_PER_MS < handle->end_ns ? (uint32_t) ((handle->end_ns - now) / HG_NS_PER_MS)
                                               : 1;
}

/*
 * The thread that ends the last part besides the timer disarms that, and then ends the operation.
 * If the timer is already firing, hg_deadline_finish() ends it instead.
 */
bool hg_deadline_part_drop(struct hg_handle *handle)
{
    int32_t pending = atomic_load_explicit(&handle->pending, memory_order_acquire);
    bool is_firing = false;

    for (;;) {
        if (pending == HG_PENDING_TIMER + 1 && !is_firing) {
            if (hg_context_disarm(handle->info.context, &handle->timer)) {
                atomic_store_explicit(&handle->pending, 1, memory_order_relaxed);
                return true;
            }
            is_firing = true;
        }
        if (atomic_compare_exchange_weak_explicit(&handle->pending, &pending, pending - 1,
                                                  memory_order_acq_rel, memory_order_acquire))
            return pending == 1;
    }
}

/* The deadline has passed: cancel all parts. */
static void hg_deadline_fire(struct hg_timer *timer)
{
    struct hg_handle *handle = util_container_of(timer, struct hg_handle, timer);

    if (atomic_load(&handle->pending) == HG_PENDING_TIMER)
        return; /* all other parts have ended */
    /* In DRAINING the program has the error already, so it is no timeout. */
    if (!atomic_load(&handle->is_canceled) && atomic_load(&handle->state) != HG_HANDLE_DRAINING) {
        HG_PROBE1(timeout, handle);
        hg_count(&handle->info.context->counters.timed_out);
    }
    hg_handle_set_error(handle, atomic_load(&handle->is_canceled) ? HG_CANCELED : HG_TIMEOUT);
    (void) handle->kind->cancel(handle);
}

static void hg_deadline_finish(struct hg_timer *timer)
{
    struct hg_handle *handle = util_container_of(timer, struct hg_handle, timer);
    int32_t detached = 0;

    if (atomic_load(&handle->pending) > HG_PENDING_TIMER)
        detached = hg_detach(handle);
    if (atomic_fetch_sub(&handle->pending, detached) - detached > HG_PENDING_TIMER) {
        /* Another thread is at work on a part, a fetch needs HG_Trigger(), or memory is short. */
        hg_context_arm(handle->info.context, timer, hg_clock_ns() + HG_FINISH_AGAIN_NS);
        return;
    }
    handle->kind->ended(handle);
}

/* Exchange the messages that are still posted; returns how many parts that ends. */
static int32_t hg_detach(struct hg_handle *handle)
{
    hg_context_t *context = handle->info.context;
    struct hg_pool *pool = hg_handle_pool(handle);
    struct hg_handle *spare;
    hg_return_t ret;
    int32_t count;

    if (atomic_load(&handle->self) != HG_SELF_NONE)
        return 0;
    spare = hg_pool_get(pool, 1, &ret);
    if (spare == NULL) {
        HG_LOG_WARNING("cannot end RPC %#" PRIx64 " in time: %s; it is tried again",
                       handle->info.id, HG_Error_to_string(ret));
        return 0;
    }
    hg_pool_detach(pool, 1);
    atomic_store(&spare->pending, 1);
    count = hg_detach_messages(handle, spare);
    if (count > 0)
        hg_count(&context->counters.detached);
    hg_detach_part_done(spare);
    return count;
}

static int32_t hg_detach_messages(struct hg_handle *handle, struct hg_handle *spare)
{
    bool is_received = false;
    int32_t count = 0;

    /* Other threads cancel the receive of the acknowledgement only while it is listed. */
    if (!handle->is_origin)
        hg_control_await_end(handle);
    (void) pthread_mutex_lock(&handle->lock);
    if (handle->is_origin) {
        count += hg_detach_message(&handle->in, spare, &spare->in);
        is_received = hg_detach_message(&handle->out, spare, &spare->out);
    } else {
        count += hg_detach_message(&handle->out, spare, &spare->out);
        is_received = handle->ack.op != NULL && hg_detach_message(&handle->ack, spare, &spare->ack);
    }
    (void) pthread_mutex_unlock(&handle->lock);
    if (!is_received)
        return count;
    if (handle->is_origin) {
        const uint32_t slot = handle->slot;
        const uint64_t generation = handle->generation;
        struct hg_stale_tags *stale;

        hg_generation_mark_stale(handle);
        stale = handle->stale;
        if (atomic_load(&handle->state) == HG_HANDLE_ACTIVE)
            hg_control_send_abandon(handle);
        handle->slot = spare->slot;
        handle->generation = spare->generation;
        handle->stale = spare->stale;
        spare->slot = slot;
        spare->generation = generation;
        spare->stale = stale;
    }
    return count + 1;
}

static bool hg_detach_message(struct hg_msg *msg, struct hg_handle *spare, struct hg_msg *spare_msg)
{
    struct hg_msg detached;

    atomic_fetch_add(&spare->pending, 1);
    if (!NA_Op_set_callback(hg_handle_path(spare)->na_class, hg_handle_na_context(spare), msg->op,
                            hg_detach_done, spare)) {
        atomic_fetch_sub(&spare->pending, 1);
        return false;
    }
    /* Only after the callback is replaced: the old one may have been running. */
    detached = *msg;
    *msg = *spare_msg;
    msg->has_payload = false;
    *spare_msg = detached;
    return true;
}

/* The transport has ended a detached message. */
static void hg_detach_done(const struct na_cb_info *info)
{
    struct hg_handle *spare = info->arg;

    if (info->ret == NA_SUCCESS && info->type == NA_CB_RECV_EXPECTED && spare->is_origin)
        hg_count(&spare->info.context->counters.late_response);
    hg_detach_part_done(spare);
}

static void hg_detach_part_done(struct hg_handle *spare)
{
    struct hg_pool *pool = hg_handle_pool(spare);

    if (atomic_fetch_sub(&spare->pending, 1) != 1)
        return;
    hg_pool_detach(pool, -1);
    hg_pool_put(pool, spare);
}
