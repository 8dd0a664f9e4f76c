/* SPDX-License-Identifier: BSD-3-Clause */
/* The target of the rpc, bulk and idle measurements: an ordinary service with one loop of
 * progress and trigger per thread, whose handlers respond at once. */

#include "hg_perf/perf_target.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/tool_endpoint.h"
#include "common/tool_message.h"
#include "common/tool_process.h"
#include "common/tool_signal.h"
#include "hg_perf/perf_bind.h"
#include "hg_perf/perf_loop.h"
#include "hg_perf/perf_memory.h"
#include "hg_perf/perf_rpc.h"

/* Longest sleep of a thread before it checks whether another thread received a signal. */
#define SLEEP_MS 200U

/* Maximum number of bulk buffers; further concurrent transfers are answered with HG_NOMEM. */
#define BUFFERS_MAX 4096U

/* A buffer for bulk transfers. The free list is LIFO, because the last one is still in the
 * cache. */
struct target_buffer {
    struct target_buffer *next;
    void *memory;
    uint64_t size;
    hg_bulk_t bulk;
};

/* A transfer in progress. */
struct target_transfer {
    struct target_buffer *buffer;
    hg_handle_t handle;
    perf_bulk_in_t in;
    uint32_t done;
};

struct target {
    const struct perf_options *options;
    hg_class_t *hg_class;
    hg_context_t *contexts[PERF_THREADS_MAX];
    pthread_t threads[PERF_THREADS_MAX];
    unsigned int context_count;
    pthread_mutex_t buffer_lock;
    struct target_buffer *idle_buffers;
    unsigned int buffer_count;
};

static bool target_open(struct target *target);
static void target_close(struct target *target);
static bool target_report_self(struct target *target);
static bool target_serve(struct target *target);
static void *target_loop(void *arg);
static hg_return_t target_echo(hg_handle_t handle);
static hg_return_t target_bulk(hg_handle_t handle);
static hg_return_t target_bulk_start(struct target *target, struct target_transfer *transfer);
static hg_return_t target_bulk_move(struct target_transfer *transfer);
static hg_return_t target_bulk_done(const struct hg_cb_info *info);
static void target_bulk_end(struct target *target, struct target_transfer *transfer,
                            hg_return_t result);
static struct target_buffer *buffer_get(struct target *target, uint64_t size);
static struct target_buffer *buffer_create(struct target *target, uint64_t size);
static void buffer_put(struct target *target, struct target_buffer *buffer);
static void buffer_free(struct target_buffer *buffer);

/* Destination of decoded payloads of more than eight bytes. */
static _Thread_local void *scratch;

int perf_target_run(const struct perf_options *options)
{
    struct target target = {.options = options, .buffer_lock = PTHREAD_MUTEX_INITIALIZER};
    bool served;

    tool_process_raise_file_limit();
    if (!perf_bind(options, PERF_BIND_TARGET))
        return TOOL_EXIT_FAILED;
    served = target_open(&target) && target_report_self(&target) && target_serve(&target);
    target_close(&target);
    return served ? TOOL_EXIT_OK : TOOL_EXIT_FAILED;
}

bool perf_target_report(const struct perf_options *options, const char *address)
{
    if (options->address_fd >= 0)
        return tool_target_report(options->address_fd, address);
    return printf("%s\n", address) > 0 && fflush(stdout) == 0;
}

static bool target_open(struct target *target)
{
    const struct perf_options *options = target->options;
    struct perf_rpc_ids ids;

    target->hg_class = perf_class_create(options, true);
    if (target->hg_class == NULL ||
        !perf_rpc_register(target->hg_class, target_echo, target_bulk, &ids) ||
        HG_Class_set_data(target->hg_class, target, NULL) != HG_SUCCESS)
        return false;
    for (unsigned int i = 0; i < options->threads; i++) {
        target->contexts[i] = HG_Context_create_id(target->hg_class, (uint8_t) i);
        if (target->contexts[i] == NULL) {
            tool_error("cannot create context %u of %u; see the line before", i + 1,
                       options->threads);
            return false;
        }
        target->context_count++;
    }
    return true;
}

static void target_close(struct target *target)
{
    while (target->idle_buffers != NULL) {
        struct target_buffer *buffer = target->idle_buffers;

        target->idle_buffers = buffer->next;
        buffer_free(buffer);
    }
    for (unsigned int i = 0; i < target->context_count; i++)
        (void) HG_Context_destroy(target->contexts[i]);
    if (target->hg_class != NULL)
        (void) HG_Finalize(target->hg_class);
    (void) pthread_mutex_destroy(&target->buffer_lock);
}

static bool target_report_self(struct target *target)
{
    char address[TOOL_ADDRESS_SIZE];

    return tool_endpoint_address(target->hg_class, address, sizeof(address)) &&
           perf_target_report(target->options, address);
}

/* The calling thread serves the first context. */
static bool target_serve(struct target *target)
{
    unsigned int started = 1;
    bool served = true;

    for (; started < target->context_count; started++) {
        if (pthread_create(&target->threads[started], NULL, target_loop,
                           target->contexts[started]) != 0) {
            tool_error("cannot start thread %u of %u", started + 1, target->context_count);
            served = false;
            break;
        }
    }
    if (served)
        served = target_loop(target->contexts[0]) == NULL;
    for (unsigned int i = 1; i < started; i++)
        (void) pthread_join(target->threads[i], NULL);
    return served;
}

/* Returns NULL after a signal, the context after an error. */
static void *target_loop(void *arg)
{
    hg_context_t *context = arg;
    struct target *target;
    struct perf_loop loop;
    hg_return_t ret = HG_SUCCESS;
    unsigned int timeout_ms;

    target = HG_Class_get_data(HG_Context_get_class(context));
    timeout_ms = target->options->busy ? 0 : SLEEP_MS;
    scratch = malloc(PERF_RPC_SIZE_MAX); /* only the touched part becomes resident */
    if (!perf_loop_open(&loop, target->options->loop, context) || scratch == NULL)
        ret = HG_NOMEM;
    while (tool_signal_received() == 0 && ret == HG_SUCCESS) {
        tool_signal_wait_while_paused();
        ret = perf_loop_round(&loop, timeout_ms);
    }
    perf_loop_close(&loop);
    free(scratch);
    scratch = NULL;
    if (ret == HG_SUCCESS)
        return NULL;
    tool_error("the target stops: no progress: %s", HG_Error_to_string(ret));
    return context;
}

static hg_return_t target_echo(hg_handle_t handle)
{
    struct perf_payload payload = {.data = scratch, .capacity = PERF_RPC_SIZE_MAX};
    hg_return_t ret = HG_Get_input(handle, &payload);

    if (ret == HG_SUCCESS) {
        ret = HG_Respond(handle, NULL, NULL, &payload);
        (void) HG_Free_input(handle, &payload);
    }
    if (ret != HG_SUCCESS)
        tool_error("cannot answer an RPC: %s", HG_Error_to_string(ret));
    (void) HG_Destroy(handle);
    return ret;
}

static hg_return_t target_bulk(hg_handle_t handle)
{
    struct target *target = HG_Class_get_data(HG_Get_info(handle)->hg_class);
    struct target_transfer *transfer = calloc(1, sizeof(*transfer));
    hg_return_t ret;

    if (transfer == NULL) {
        (void) HG_Destroy(handle);
        return HG_NOMEM;
    }
    transfer->handle = handle;
    ret = HG_Get_input(handle, &transfer->in);
    if (ret != HG_SUCCESS) {
        tool_error("cannot read the input of a bulk RPC: %s", HG_Error_to_string(ret));
        free(transfer);
        (void) HG_Destroy(handle);
        return ret;
    }
    ret = target_bulk_start(target, transfer);
    if (ret != HG_SUCCESS)
        target_bulk_end(target, transfer, ret);
    return HG_SUCCESS;
}

static hg_return_t target_bulk_start(struct target *target, struct target_transfer *transfer)
{
    const perf_bulk_in_t *in = &transfer->in;

    if (in->size == 0 || in->size > PERF_SIZE_MAX || in->size > HG_Bulk_get_size(in->handle))
        return HG_INVALID_ARG;
    transfer->buffer = buffer_get(target, in->size);
    if (transfer->buffer == NULL)
        return HG_NOMEM;
    return target_bulk_move(transfer);
}

static hg_return_t target_bulk_move(struct target_transfer *transfer)
{
    const struct hg_info *info = HG_Get_info(transfer->handle);
    const perf_bulk_in_t *in = &transfer->in;

    return HG_Bulk_transfer(info->context, target_bulk_done, transfer,
                            in->push ? HG_BULK_PUSH : HG_BULK_PULL, info->addr, in->handle, 0,
                            transfer->buffer->bulk, 0, in->size, HG_OP_ID_IGNORE);
}

static hg_return_t target_bulk_done(const struct hg_cb_info *info)
{
    struct target_transfer *transfer = info->arg;
    const perf_bulk_in_t *in = &transfer->in;
    hg_return_t result = info->ret;

    if (result == HG_SUCCESS && ++transfer->done < in->transfers) {
        result = target_bulk_move(transfer);
        if (result == HG_SUCCESS)
            return HG_SUCCESS;
    }
    if (result == HG_SUCCESS && in->verify && !in->push &&
        !perf_buffer_check(transfer->buffer->memory, in->size, in->seed)) {
        tool_error("a transfer of %" PRIu64 " bytes brought other data than was sent", in->size);
        result = HG_CHECKSUM_ERROR;
    }
    target_bulk_end(HG_Class_get_data(HG_Get_info(transfer->handle)->hg_class), transfer, result);
    return HG_SUCCESS;
}

static void target_bulk_end(struct target *target, struct target_transfer *transfer,
                            hg_return_t result)
{
    perf_bulk_out_t out = {.result = (uint32_t) result};
    hg_return_t ret = HG_Respond(transfer->handle, NULL, NULL, &out);

    if (ret != HG_SUCCESS)
        tool_error("cannot answer a bulk RPC: %s", HG_Error_to_string(ret));
    if (transfer->buffer != NULL)
        buffer_put(target, transfer->buffer);
    (void) HG_Free_input(transfer->handle, &transfer->in);
    (void) HG_Destroy(transfer->handle);
    free(transfer);
}

/* Returns an idle buffer of exactly this size, or a new one. A run uses one size, so idle buffers
 * of other sizes are left over from earlier runs, and are freed. */
static struct target_buffer *buffer_get(struct target *target, uint64_t size)
{
    struct target_buffer *buffer;

    (void) pthread_mutex_lock(&target->buffer_lock);
    while ((buffer = target->idle_buffers) != NULL) {
        target->idle_buffers = buffer->next;
        if (buffer->size == size)
            break;
        target->buffer_count--;
        buffer_free(buffer);
    }
    if (buffer == NULL && target->buffer_count < BUFFERS_MAX) {
        buffer = buffer_create(target, size);
        if (buffer != NULL)
            target->buffer_count++;
    }
    (void) pthread_mutex_unlock(&target->buffer_lock);
    return buffer;
}

static struct target_buffer *buffer_create(struct target *target, uint64_t size)
{
    struct target_buffer *buffer = calloc(1, sizeof(*buffer));

    if (buffer == NULL)
        return NULL;
    buffer->size = size;
    buffer->memory = perf_buffer_create(size, 0);
    if (buffer->memory != NULL &&
        HG_Bulk_create(target->hg_class, 1, &buffer->memory, &buffer->size, HG_BULK_READWRITE,
                       &buffer->bulk) == HG_SUCCESS)
        return buffer;
    buffer_free(buffer);
    return NULL;
}

static void buffer_put(struct target *target, struct target_buffer *buffer)
{
    (void) pthread_mutex_lock(&target->buffer_lock);
    buffer->next = target->idle_buffers;
    target->idle_buffers = buffer;
    (void) pthread_mutex_unlock(&target->buffer_lock);
}

static void buffer_free(struct target_buffer *buffer)
{
    if (buffer->bulk != HG_BULK_NULL)
        (void) HG_Bulk_free(buffer->bulk);
    perf_buffer_destroy(buffer->memory, buffer->size);
    free(buffer);
}
