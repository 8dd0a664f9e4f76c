/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inputs and outputs that do not fit a message. The message has a bulk descriptor of them, and the
 * receiver pulls them. The sender keeps them until the response, or, for outputs and for inputs of
 * one-way RPCs, the acknowledgement.
 *
 * In the message, after the program's reserved bytes:
 *
 *     0        8        16          20         24
 *     | size   | hash   | desc size | reserved | bulk descriptor ...
 *
 * The bytes that a class fetches and holds are limited by a budget, see budget.c.
 *
 * The hash is XXH3 of the data. It detects that the sender abandoned the RPC, and reused the memory
 * before it was pulled.
 */
#include "hg/overflow.h"

#include "bulk/bulk_grant.h"
#include "engine/checksum.h"
#include "engine/context_timer.h"
#include "hg/deadline.h"
#include "hg/header.h"
#include "hg/payload.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

/* Larger sizes are refused, so that a forged one does not exhaust memory. */
#define HG_OVERFLOW_SIZE_MAX (UINT64_C(4) << 30)

struct hg_overflow_wire {
    uint64_t size;
    uint64_t hash;
    uint32_t desc_size;
    uint32_t reserved;
};

_Static_assert(sizeof(struct hg_overflow_wire) == 24, "wire format");

static hg_return_t hg_overflow_parse(struct hg_handle *handle, struct hg_extra *extra);
static uint32_t hg_overflow_deadline(const struct hg_handle *handle);
static struct hg_extra *hg_overflow_extra(struct hg_handle *handle);
static struct hg_budget *hg_overflow_budget(const struct hg_handle *handle);
static hg_return_t hg_overflow_enter(struct hg_handle *handle, struct hg_extra *extra,
                                     bool *is_waiting_p);
static void hg_overflow_run_waited(struct hg_completion *completion);
static void hg_overflow_wait_fire(struct hg_timer *timer);
static void hg_overflow_wait_finish(struct hg_timer *timer);
static hg_return_t hg_overflow_pull(struct hg_handle *handle, struct hg_extra *extra);
static uint32_t hg_overflow_left(const struct hg_extra *extra);
static hg_return_t hg_overflow_pulled(const struct hg_cb_info *info);

hg_return_t HG_Class_set_overflow_timeout(hg_class_t *hg_class, unsigned int timeout_ms)
{
    if (!hg_class_is_usable(hg_class))
        return hg_class_refuse(hg_class, __func__);
    atomic_store_explicit(&hg_rpc_class(hg_class)->overflow_ms, timeout_ms, memory_order_relaxed);
    return HG_SUCCESS;
}

hg_return_t HG_Class_set_overflow_budget(hg_class_t *hg_class, hg_size_t class_bytes,
                                         hg_size_t peer_bytes)
{
    const hg_size_t single = class_bytes != 0 && (class_bytes < peer_bytes || peer_bytes == 0)
                                 ? class_bytes
                                 : peer_bytes;

    if (!hg_class_is_usable(hg_class))
        return hg_class_refuse(hg_class, __func__);
    hg_budget_set(&hg_rpc_class(hg_class)->in_budget, class_bytes, peer_bytes, single);
    hg_budget_set(&hg_rpc_class(hg_class)->out_budget, class_bytes, peer_bytes, single);
    return HG_SUCCESS;
}

hg_return_t hg_overflow_expose(struct hg_handle *handle, struct hg_msg *msg, struct hg_extra *extra,
                               size_t start, size_t *payload_p)
{
    unsigned long flags = handle->path == HG_PATH_SM ? HG_BULK_SM : 0;
    size_t at = start + *payload_p;
    struct hg_overflow_wire wire;
    hg_size_t desc_size;
    hg_return_t ret;
    hg_bulk_t bulk;

    ret = hg_block_expose(extra->block, extra->size, &bulk);
    if (ret == HG_SUCCESS)
        ret = hg_bulk_grant(bulk, handle->info.addr);
    if (ret != HG_SUCCESS)
        return ret;
    desc_size = HG_Bulk_get_serialize_size(bulk, flags);
    if (desc_size > UINT32_MAX || at + sizeof(wire) > msg->size ||
        desc_size > msg->size - at - sizeof(wire)) {
        HG_LOG_ERROR("a message of %zu bytes cannot even hold the descriptor of RPC %#" PRIx64,
                     msg->size, handle->info.id);
        return HG_MSGSIZE;
    }
    wire.size = htole64(extra->size);
    wire.hash = htole64(hg_checksum(extra->block->memory, (size_t) extra->size, 0));
    wire.desc_size = htole32((uint32_t) desc_size);
    wire.reserved = 0;
    memcpy(msg->buf + at, &wire, sizeof(wire));
    ret = HG_Bulk_serialize(msg->buf + at + sizeof(wire), desc_size, flags, bulk);
    *payload_p += sizeof(wire) + (size_t) desc_size;
    return ret;
}

hg_return_t hg_overflow_fetch(struct hg_handle *handle,
                              void (*done)(struct hg_handle *handle, hg_return_t ret))
{
    struct hg_extra *extra = hg_overflow_extra(handle);
    hg_context_t *context = handle->info.context;
    bool is_waiting = false;
    hg_return_t ret;

    hg_extra_free(extra);
    extra->done = done;
    ret = hg_overflow_parse(handle, extra);
    if (ret == HG_SUCCESS)
        ret = hg_overflow_enter(handle, extra, &is_waiting);
    if (util_unlikely(is_waiting)) {
        /* Another thread may use the handle already. A sleeping thread has to see the timer. */
        hg_context_wake(context);
        return HG_SUCCESS;
    }
    if (ret == HG_SUCCESS)
        ret = hg_overflow_pull(handle, extra);
    if (ret != HG_SUCCESS) {
        HG_LOG_ERROR("cannot fetch the data of RPC %#" PRIx64 ": %s", handle->info.id,
                     HG_Error_to_string(ret));
        hg_extra_free(extra);
    }
    return ret;
}

void hg_overflow_cancel(struct hg_handle *handle)
{
    hg_budget_cancel(&hg_rpc_class(handle->info.hg_class)->out_budget, &handle->out_extra.wait,
                     HG_CANCELED, false);
    (void) pthread_mutex_lock(&handle->lock);
    if (handle->in_extra.op_id != HG_OP_ID_NULL)
        (void) HG_Bulk_cancel(handle->in_extra.op_id);
    if (handle->out_extra.op_id != HG_OP_ID_NULL)
        (void) HG_Bulk_cancel(handle->out_extra.op_id);
    (void) pthread_mutex_unlock(&handle->lock);
}

/* Read and check the descriptor; every number in it comes from the wire. */
static hg_return_t hg_overflow_parse(struct hg_handle *handle, struct hg_extra *extra)
{
    const hg_op_t op = handle->is_origin ? HG_OUTPUT : HG_INPUT;
    const struct hg_msg *msg = hg_payload_msg(handle, op);
    size_t reserved = hg_payload_reserved(handle, op);
    const char *at = msg->buf + hg_msg_payload_offset(msg, msg->flags) + reserved;
    struct hg_overflow_wire wire;
    hg_return_t ret;

    ret = hg_header_check_payload(handle, msg);
    if (ret != HG_SUCCESS)
        return ret;
    if (msg->used < reserved || msg->used - reserved < sizeof(wire))
        goto refuse;
    memcpy(&wire, at, sizeof(wire));
    extra->size = le64toh(wire.size);
    extra->hash = le64toh(wire.hash);
    if (extra->size == 0 || extra->size > HG_OVERFLOW_SIZE_MAX ||
        le32toh(wire.desc_size) != msg->used - reserved - sizeof(wire))
        goto refuse;
    ret = HG_Bulk_deserialize(handle->info.hg_class, &extra->remote, at + sizeof(wire),
                              le32toh(wire.desc_size));
    if (ret != HG_SUCCESS)
        extra->remote = HG_BULK_NULL;
    else if (HG_Bulk_get_size(extra->remote) < extra->size)
        goto refuse; /* a larger one is valid: it may describe the whole block */
    return ret;

refuse:
    hg_count(&handle->info.context->counters.refused_header);
    HG_LOG_DEBUG("refused a malformed description of %zu bytes", msg->used);
    return HG_PROTOCOL_ERROR;
}

/* Milliseconds for a fetch: the rest of the forward's deadline, or the default of the class. */
static uint32_t hg_overflow_deadline(const struct hg_handle *handle)
{
    if (handle->is_origin && atomic_load(&handle->pending) > HG_PENDING_TIMER)
        return hg_deadline_left(handle);
    return atomic_load_explicit(&hg_rpc_class(handle->info.hg_class)->overflow_ms,
                                memory_order_relaxed);
}

/* An origin fetches outputs, a target inputs. */
static struct hg_extra *hg_overflow_extra(struct hg_handle *handle)
{
    return handle->is_origin ? &handle->out_extra : &handle->in_extra;
}

static struct hg_budget *hg_overflow_budget(const struct hg_handle *handle)
{
    return handle->is_origin ? &hg_rpc_class(handle->info.hg_class)->out_budget
                             : &hg_rpc_class(handle->info.hg_class)->in_budget;
}

/*
 * Charge the data to the budget before memory is allocated for them. If they have to wait, the
 * handle's completion, which is not used otherwise meanwhile, is queued when the wait has ended.
 */
static hg_return_t hg_overflow_enter(struct hg_handle *handle, struct hg_extra *extra,
                                     bool *is_waiting_p)
{
    const bool is_timed = handle->is_origin && atomic_load(&handle->pending) > HG_PENDING_TIMER;
    const uint32_t deadline_ms = hg_overflow_deadline(handle);
    hg_return_t ret;

    extra->end_ns = deadline_ms != 0 ? hg_clock_ns() + deadline_ms * HG_NS_PER_MS : 0;
    extra->run = handle->completion.run;
    handle->completion.run = hg_overflow_run_waited;
    extra->wait.context = handle->info.context;
    extra->wait.completion = &handle->completion;
    extra->wait.is_canceled_p = handle->is_origin ? &handle->is_canceled : NULL;
    extra->wait.timer = NULL;
    /* A forward with a deadline needs no timer here: that of the deadline cancels the wait. */
    if (deadline_ms != 0 && !is_timed) {
        handle->timer.fire = hg_overflow_wait_fire;
        handle->timer.finish = hg_overflow_wait_finish;
        extra->wait.timer = &handle->timer;
    }
    ret = hg_budget_enter(hg_overflow_budget(handle), hg_handle_path(handle)->na_class,
                          hg_handle_na_addr(handle), extra->size, &extra->wait, extra->end_ns,
                          is_waiting_p);
    if (!*is_waiting_p)
        handle->completion.run = extra->run;
    return ret;
}

static void UTIL_COLD hg_overflow_run_waited(struct hg_completion *completion)
{
    struct hg_handle *handle = util_container_of(completion, struct hg_handle, completion);
    struct hg_extra *extra = hg_overflow_extra(handle);
    hg_return_t ret = extra->wait.ret;

    completion->run = extra->run;
    if (ret == HG_SUCCESS)
        ret = hg_overflow_pull(handle, extra);
    if (ret == HG_SUCCESS)
        return;
    hg_extra_free(extra);
    extra->done(handle, ret);
}

/* Does nothing: the timer may be used again only after its `finish`, which ends the wait. */
static void hg_overflow_wait_fire(struct hg_timer *timer)
{
    (void) timer;
}

static void hg_overflow_wait_finish(struct hg_timer *timer)
{
    struct hg_handle *handle = util_container_of(timer, struct hg_handle, timer);
    hg_context_t *context = handle->info.context;

    hg_count(&context->counters.timed_out);
    hg_budget_cancel(hg_overflow_budget(handle), &hg_overflow_extra(handle)->wait, HG_TIMEOUT,
                     true);
}

/* Pull data that the budget has admitted. */
static hg_return_t hg_overflow_pull(struct hg_handle *handle, struct hg_extra *extra)
{
    hg_return_t ret;
    hg_bulk_t sink;

    extra->block = hg_block_get(handle->info.hg_class, HG_BLOCK_SINK, extra->size);
    if (extra->block == NULL) {
        hg_budget_leave(&extra->wait.charge);
        return HG_NOMEM;
    }
    extra->block->charge = extra->wait.charge;
    ret = hg_block_describe(extra->block, &sink);
    if (ret != HG_SUCCESS)
        return ret;
    (void) pthread_mutex_lock(&handle->lock);
    ret = HG_Bulk_transfer_deadline(handle->info.context, hg_overflow_pulled, handle, HG_BULK_PULL,
                                    handle->info.addr, handle->info.context_id, extra->remote, 0,
                                    sink, 0, extra->size, hg_overflow_left(extra), &extra->op_id);
    if (ret != HG_SUCCESS)
        extra->op_id = HG_OP_ID_NULL;
    else if (atomic_load(&handle->is_canceled) && handle->is_origin)
        (void) HG_Bulk_cancel(extra->op_id);
    (void) pthread_mutex_unlock(&handle->lock);
    return ret;
}

/* Milliseconds until end_ns; 0: no limit. */
static uint32_t hg_overflow_left(const struct hg_extra *extra)
{
    const uint64_t now = hg_clock_ns();

    if (extra->end_ns == 0)
        return 0;
    return now < extra->end_ns
               ? (uint32_t) ((extra->end_ns - now + HG_NS_PER_MS - 1) / HG_NS_PER_MS)
               : 1;
}

static hg_return_t hg_overflow_pulled(const struct hg_cb_info *info)
{
    struct hg_handle *handle = info->arg;
    struct hg_extra *extra = hg_overflow_extra(handle);
    hg_return_t ret = info->ret;

    (void) pthread_mutex_lock(&handle->lock);
    extra->op_id = HG_OP_ID_NULL;
    (void) pthread_mutex_unlock(&handle->lock);
    if (ret == HG_SUCCESS &&
        hg_checksum(extra->block->memory, (size_t) extra->size, 0) != extra->hash) {
        hg_count(&handle->info.context->counters.refused_checksum);
        HG_LOG_ERROR("the data of RPC %#" PRIx64 " changed before they were fetched",
                     handle->info.id);
        ret = HG_CHECKSUM_ERROR;
    }
    (void) HG_Bulk_free(extra->remote);
    extra->remote = HG_BULK_NULL;
    if (ret != HG_SUCCESS)
        hg_extra_free(extra);
    else if (handle->is_origin)
        hg_budget_leave(&extra->block->charge); /* held outputs are the program's own choice */
    extra->done(handle, ret);
    return HG_SUCCESS;
}
