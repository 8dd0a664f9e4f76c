/* SPDX-License-Identifier: BSD-3-Clause */
/* The target of `hg_perf na`: posts receives, answers messages, provides buffers for put and
 * get. */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/tool_message.h"
#include "common/tool_process.h"
#include "common/tool_signal.h"
#include "hg_perf/perf_bind.h"
#include "hg_perf/perf_memory.h"
#include "hg_perf/perf_na.h"
#include "hg_perf/perf_target.h"
#include "na_ext.h"

/* Maximum number of messages received or answered at a time, and of provided buffers. */
#define SLOT_COUNT 64U
#define REGION_MAX 4096U
#define SLEEP_MS   200U

struct na_target;

/* Receives a message, answers it, and receives the next one. */
struct target_slot {
    struct na_target *target;
    struct perf_na_buffer recv, send;
    na_op_id_t *recv_op, *send_op;
    na_addr_t *source;
    bool receiving;
};

/* A buffer for put and get, allocated until the target ends. */
struct target_region {
    struct target_region *next;
    void *memory;
    uint64_t size;
    na_mem_handle_t *handle;
};

struct na_target {
    const struct perf_options *options;
    na_class_t *na_class;
    na_context_t *context;
    struct target_slot slots[SLOT_COUNT];
    unsigned int slot_count;
    struct target_region *regions;
    unsigned int region_count;
    na_return_t ret; /* an error ends the loop */
};

static bool target_open(struct na_target *target);
static unsigned int slots_needed(const struct perf_options *options);
static void target_close(struct na_target *target);
static void target_cancel_receives(struct na_target *target);
static bool target_report_self(struct na_target *target);
static void slot_receive(struct target_slot *slot);
static void slot_received(const struct na_cb_info *info);
static size_t slot_prepare_answer(struct target_slot *slot, size_t payload_size);
static size_t slot_prepare_region(struct target_slot *slot, uint64_t size);
static void region_memory_destroy(const struct na_target *target, struct target_region *region);
static void slot_answered(const struct na_cb_info *info);

int perf_na_target_run(const struct perf_options *options)
{
    struct na_target *target = calloc(1, sizeof(*target));
    bool served;

    if (target == NULL)
        return TOOL_EXIT_FAILED;
    target->options = options;
    tool_process_raise_file_limit();
    served =
        perf_bind(options, PERF_BIND_TARGET) && target_open(target) && target_report_self(target);
    while (served && tool_signal_received() == 0) {
        na_return_t ret;

        tool_signal_wait_while_paused();
        ret = perf_na_progress(target->na_class, target->context, options->busy ? 0 : SLEEP_MS);
        if (ret == NA_SUCCESS)
            ret = target->ret;
        if (ret != NA_SUCCESS) {
            tool_error("the target stops: %s", NA_Error_to_string(ret));
            served = false;
        }
    }
    target_close(target);
    return served ? TOOL_EXIT_OK : TOOL_EXIT_FAILED;
}

static bool target_open(struct na_target *target)
{
    target->na_class = perf_na_class_create(target->options, true);
    if (target->na_class == NULL)
        return false;
    target->context = NA_Context_create(target->na_class);
    if (target->context == NULL)
        return false;
    target->slot_count = slots_needed(target->options);
    for (unsigned int i = 0; i < target->slot_count; i++) {
        struct target_slot *slot = &target->slots[i];

        slot->target = target;
        slot->recv_op = NA_Op_create(target->na_class, NA_OP_SINGLE);
        slot->send_op = NA_Op_create(target->na_class, NA_OP_SINGLE);
        if (slot->recv_op == NULL || slot->send_op == NULL ||
            !perf_na_buffer_create(target->na_class, &slot->recv, false, NA_RECV) ||
            !perf_na_buffer_create(target->na_class, &slot->send, true, NA_SEND))
            return false;
        slot_receive(slot);
    }
    return target->ret == NA_SUCCESS;
}

/* Number of slots: twice the messages in flight, where that is known, because a message may
 * arrive while the last answer is still being sent. More slots would only spread a round trip
 * over more of the cache. */
static unsigned int slots_needed(const struct perf_options *options)
{
    const uint64_t needed = UINT64_C(2) * options->in_flight * options->clients;

    return options->address_fd < 0 || needed > SLOT_COUNT ? SLOT_COUNT : (unsigned int) needed;
}

static void target_close(struct na_target *target)
{
    if (target->context != NULL)
        target_cancel_receives(target);
    while (target->regions != NULL) {
        struct target_region *region = target->regions;

        target->regions = region->next;
        (void) NA_Mem_deregister(target->na_class, region->handle);
        NA_Mem_handle_free(target->na_class, region->handle);
        region_memory_destroy(target, region);
        free(region);
    }
    for (unsigned int i = 0; i < target->slot_count; i++) {
        struct target_slot *slot = &target->slots[i];

        if (slot->recv_op != NULL)
            NA_Op_destroy(target->na_class, slot->recv_op);
        if (slot->send_op != NULL)
            NA_Op_destroy(target->na_class, slot->send_op);
        perf_na_buffer_destroy(target->na_class, &slot->recv);
        perf_na_buffer_destroy(target->na_class, &slot->send);
    }
    if (target->context != NULL)
        (void) NA_Context_destroy(target->na_class, target->context);
    if (target->na_class != NULL)
        (void) NA_Finalize(target->na_class);
    free(target);
}

/* Operations must be complete before they are destroyed. */
static void target_cancel_receives(struct na_target *target)
{
    bool waiting = true;

    target->ret = NA_CANCELED; /* no receive is posted again */
    for (unsigned int i = 0; i < target->slot_count; i++) {
        if (target->slots[i].receiving)
            (void) NA_Cancel(target->na_class, target->context, target->slots[i].recv_op);
    }
    for (unsigned int rounds = 0; waiting && rounds < 100; rounds++) {
        (void) perf_na_progress(target->na_class, target->context, 10);
        waiting = false;
        for (unsigned int i = 0; i < target->slot_count; i++)
            waiting = waiting || target->slots[i].receiving || target->slots[i].source != NULL;
    }
}

static bool target_report_self(struct na_target *target)
{
    char address[TOOL_ADDRESS_SIZE];
    size_t size = sizeof(address);
    na_addr_t *self = NULL;
    na_return_t ret = NA_Addr_self(target->na_class, &self);

    if (ret == NA_SUCCESS) {
        ret = NA_Addr_to_string(target->na_class, address, &size, self);
        NA_Addr_free(target->na_class, self);
    }
    if (ret == NA_SUCCESS)
        return perf_target_report(target->options, address);
    tool_error("cannot get the target's own address: %s", NA_Error_to_string(ret));
    return false;
}

static void slot_receive(struct target_slot *slot)
{
    struct na_target *target = slot->target;
    na_return_t ret;

    if (target->ret != NA_SUCCESS)
        return;
    ret = NA_Msg_recv_unexpected(target->na_class, target->context, slot_received, slot,
                                 slot->recv.memory, slot->recv.size, slot->recv.plugin_data,
                                 slot->recv_op);
    slot->receiving = ret == NA_SUCCESS;
    if (ret != NA_SUCCESS)
        target->ret = ret;
}

static void slot_received(const struct na_cb_info *info)
{
    struct target_slot *slot = info->arg;
    struct na_target *target = slot->target;
    size_t received, answer = 0;
    na_return_t ret = info->ret;

    slot->receiving = false;
    if (ret != NA_SUCCESS) {
        slot_receive(slot); /* does nothing if the target is closing */
        return;
    }
    slot->source = info->info.recv_unexpected.source;
    received = info->info.recv_unexpected.actual_buf_size;
    if (received >= slot->recv.header_size)
        answer = slot_prepare_answer(slot, received - slot->recv.header_size);
    if (answer > 0) {
        ret = NA_Msg_send_expected(target->na_class, target->context, slot_answered, slot,
                                   slot->send.memory, slot->send.header_size + answer,
                                   slot->send.plugin_data, slot->source, 0,
                                   info->info.recv_unexpected.tag, slot->send_op);
        if (ret == NA_SUCCESS)
            return;
        tool_error("cannot answer a message: %s", NA_Error_to_string(ret));
    }
    NA_Addr_free(target->na_class, slot->source);
    slot->source = NULL;
    slot_receive(slot);
}

/* Writes the answer and returns its payload size; 0: no answer. */
static size_t slot_prepare_answer(struct target_slot *slot, size_t payload_size)
{
    const unsigned char *payload = perf_na_payload(&slot->recv);
    struct perf_na_region region = {0, 0};

    memcpy(&region, payload, payload_size < sizeof(region) ? payload_size : sizeof(region));
    if (region.request == PERF_NA_ECHO &&
        payload_size <= slot->send.size - slot->send.header_size) {
        memcpy(perf_na_payload(&slot->send), payload, payload_size);
        return payload_size;
    }
    if (region.request == PERF_NA_REGION && payload_size >= sizeof(region))
        return slot_prepare_region(slot, region.size);
    tool_error("a message of %zu bytes is none of hg_perf's; it stays unanswered", payload_size);
    return 0;
}

static size_t slot_prepare_region(struct target_slot *slot, uint64_t size)
{
    struct na_target *target = slot->target;
    struct target_region *region = NULL;
    size_t descriptor_size;

    if (size == 0 || size > PERF_SIZE_MAX || target->region_count == REGION_MAX)
        goto error;
    region = calloc(1, sizeof(*region));
    if (region == NULL)
        goto error;
    region->size = size;
    region->memory = target->options->allocated ? NA_Mem_alloc(target->na_class, size)
                                                : perf_buffer_create(size, 0);
    if (region->memory == NULL ||
        NA_Mem_handle_create(target->na_class, region->memory, size, NA_MEM_READWRITE,
                             &region->handle) != NA_SUCCESS)
        goto error;
    if (NA_Mem_register(target->na_class, region->handle, NA_MEM_TYPE_HOST, 0) != NA_SUCCESS)
        goto error;
    region->next = target->regions;
    target->regions = region;
    target->region_count++;
    descriptor_size = NA_Mem_handle_get_serialize_size(target->na_class, region->handle);
    if (descriptor_size <= slot->send.size - slot->send.header_size &&
        NA_Mem_handle_serialize(target->na_class, perf_na_payload(&slot->send), descriptor_size,
                                region->handle) == NA_SUCCESS)
        return descriptor_size;
    return 0;
error:
    tool_error("cannot offer a buffer of %" PRIu64 " bytes", size);
    if (region != NULL) {
        if (region->handle != NULL)
            NA_Mem_handle_free(target->na_class, region->handle);
        region_memory_destroy(target, region);
        free(region);
    }
    return 0;
}

static void region_memory_destroy(const struct na_target *target, struct target_region *region)
{
    if (target->options->allocated)
        NA_Mem_free(target->na_class, region->memory);
    else
        perf_buffer_destroy(region->memory, region->size);
}

static void slot_answered(const struct na_cb_info *info)
{
    struct target_slot *slot = info->arg;

    /* An error of the send is ignored: the peer has gone. */
    NA_Addr_free(slot->target->na_class, slot->source);
    slot->source = NULL;
    slot_receive(slot);
}
