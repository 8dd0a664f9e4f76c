/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inputs and outputs that do not fit a message. The sender describes them in the message by a bulk
 * descriptor, the receiver pulls them and then tells the sender, who keeps them until then: by the
 * response, or by an acknowledgement for outputs and for inputs of one-way RPCs.
 *
 * In the message, behind the program's reserved bytes:
 *
 *     0        8        16          20         24
 *     | size   | hash   | desc size | reserved | bulk descriptor ...
 *
 * The hash is XXH3 of the data: memory that was pulled too late, when its owner has given up and
 * reused it, does not reach a handler.
 */
#include "hg/hg_private.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* More is refused, so that a forged size does not exhaust memory. */
#define HG_OVERFLOW_SIZE_MAX (UINT64_C(4) << 30)

struct hg_overflow_wire {
    uint64_t size;
    uint64_t hash;
    uint32_t desc_size;
    uint32_t reserved;
};

_Static_assert(sizeof(struct hg_overflow_wire) == 24, "wire format");

static hg_return_t hg_overflow_parse(struct hg_handle *handle, hg_op_t op, struct hg_extra *extra);
static uint32_t hg_overflow_deadline(const struct hg_handle *handle);
static hg_return_t hg_overflow_pull(struct hg_handle *handle, struct hg_extra *extra, hg_cb_t done);
static hg_return_t hg_overflow_input_done(const struct hg_cb_info *info);
static hg_return_t hg_overflow_output_done(const struct hg_cb_info *info);
static void hg_overflow_done(struct hg_handle *handle, struct hg_extra *extra, hg_return_t ret);

hg_return_t hg_overflow_expose(struct hg_handle *handle, struct hg_msg *msg, struct hg_extra *extra,
                               size_t start, size_t *payload_p)
{
    unsigned long flags = handle->lane == HG_LANE_SM ? HG_BULK_SM : 0;
    size_t at = start + *payload_p;
    struct hg_overflow_wire wire;
    hg_size_t desc_size;
    hg_return_t ret;
    hg_bulk_t bulk;

    ret = hg_block_expose(extra->block, extra->size, &bulk);
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
    wire.hash = htole64(hg_proc_checksum_bytes(extra->block->memory, (size_t) extra->size, 0));
    wire.desc_size = htole32((uint32_t) desc_size);
    wire.reserved = 0;
    memcpy(msg->buf + at, &wire, sizeof(wire));
    ret = HG_Bulk_serialize(msg->buf + at + sizeof(wire), desc_size, flags, bulk);
    *payload_p += sizeof(wire) + (size_t) desc_size;
    return ret;
}

hg_return_t hg_overflow_fetch(struct hg_handle *handle, hg_op_t op,
                              void (*done)(struct hg_handle *handle, hg_return_t ret))
{
    struct hg_extra *extra = op == HG_INPUT ? &handle->in_extra : &handle->out_extra;
    hg_return_t ret;

    hg_extra_free(extra);
    extra->done = done;
    ret = hg_overflow_parse(handle, op, extra);
    if (ret == HG_SUCCESS)
        ret = hg_overflow_pull(handle, extra,
                               op == HG_INPUT ? hg_overflow_input_done : hg_overflow_output_done);
    if (ret != HG_SUCCESS) {
        HG_LOG_ERROR("cannot fetch the data of RPC %#" PRIx64 ": %s", handle->info.id,
                     HG_Error_to_string(ret));
        hg_extra_free(extra);
    }
    return ret;
}

void hg_overflow_cancel(struct hg_handle *handle)
{
    (void) pthread_mutex_lock(&handle->lock);
    if (handle->in_extra.op_id != HG_OP_ID_NULL)
        (void) HG_Bulk_cancel(handle->in_extra.op_id);
    if (handle->out_extra.op_id != HG_OP_ID_NULL)
        (void) HG_Bulk_cancel(handle->out_extra.op_id);
    (void) pthread_mutex_unlock(&handle->lock);
}

void hg_extra_free(struct hg_extra *extra)
{
    (void) HG_Bulk_free(extra->remote);
    extra->remote = HG_BULK_NULL;
    if (extra->block != NULL)
        hg_block_put(extra->block);
    extra->block = NULL;
    extra->size = 0;
}

/* Read the description; every number in it comes from the wire. */
static hg_return_t hg_overflow_parse(struct hg_handle *handle, hg_op_t op, struct hg_extra *extra)
{
    const hg_class_t *hg_class = handle->info.hg_class;
    const struct hg_msg *msg = op == HG_INPUT ? &handle->in : &handle->out;
    size_t reserved = (size_t) (op == HG_INPUT ? hg_class->in_offset : hg_class->out_offset);
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
        goto refuse; /* it may describe more, as the whole block that the data are in */
    return ret;

refuse:
    hg_count(&handle->info.context->counters.refused_header);
    HG_LOG_DEBUG("refused a malformed description of %zu bytes", msg->used);
    return HG_PROTOCOL_ERROR;
}

/* What is left of the time of a forward that has a deadline; otherwise as the class has it. */
static uint32_t hg_overflow_deadline(const struct hg_handle *handle)
{
    if (handle->is_origin && atomic_load(&handle->pending) > HG_PENDING_TIMER)
        return hg_deadline_left(handle);
    return atomic_load_explicit(&handle->info.hg_class->overflow_ms, memory_order_relaxed);
}

static hg_return_t hg_overflow_pull(struct hg_handle *handle, struct hg_extra *extra, hg_cb_t done)
{
    hg_return_t ret;
    hg_bulk_t sink;

    extra->block = hg_block_get(handle->info.hg_class, extra->size);
    if (extra->block == NULL)
        return HG_NOMEM;
    ret = hg_block_describe(extra->block, &sink);
    if (ret != HG_SUCCESS)
        return ret;
    (void) pthread_mutex_lock(&handle->lock);
    ret = HG_Bulk_transfer_deadline(handle->info.context, done, handle, HG_BULK_PULL,
                                    handle->info.addr, handle->info.context_id, extra->remote, 0,
                                    sink, 0, extra->size, hg_overflow_deadline(handle),
                                    &extra->op_id);
    if (ret != HG_SUCCESS)
        extra->op_id = HG_OP_ID_NULL;
    else if (atomic_load(&handle->is_canceled) && handle->is_origin)
        (void) HG_Bulk_cancel(extra->op_id);
    (void) pthread_mutex_unlock(&handle->lock);
    return ret;
}

static hg_return_t hg_overflow_input_done(const struct hg_cb_info *info)
{
    struct hg_handle *handle = info->arg;

    hg_overflow_done(handle, &handle->in_extra, info->ret);
    return HG_SUCCESS;
}

static hg_return_t hg_overflow_output_done(const struct hg_cb_info *info)
{
    struct hg_handle *handle = info->arg;

    hg_overflow_done(handle, &handle->out_extra, info->ret);
    return HG_SUCCESS;
}

static void hg_overflow_done(struct hg_handle *handle, struct hg_extra *extra, hg_return_t ret)
{
    (void) pthread_mutex_lock(&handle->lock);
    extra->op_id = HG_OP_ID_NULL;
    (void) pthread_mutex_unlock(&handle->lock);
    if (ret == HG_SUCCESS &&
        hg_proc_checksum_bytes(extra->block->memory, (size_t) extra->size, 0) != extra->hash) {
        hg_count(&handle->info.context->counters.refused_checksum);
        HG_LOG_ERROR("the data of RPC %#" PRIx64 " changed before they were fetched",
                     handle->info.id);
        ret = HG_CHECKSUM_ERROR;
    }
    (void) HG_Bulk_free(extra->remote);
    extra->remote = HG_BULK_NULL;
    if (ret != HG_SUCCESS)
        hg_extra_free(extra);
    extra->done(handle, ret);
}
