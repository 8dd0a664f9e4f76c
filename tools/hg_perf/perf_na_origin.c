/* SPDX-License-Identifier: BSD-3-Clause */
/* The origin of `hg_perf na`: keeps messages, puts or gets in flight. One thread drives all
 * endpoints in turns. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tool_clock.h"
#include "common/tool_endpoint.h"
#include "common/tool_signal.h"
#include "hg_perf/perf_memory.h"
#include "hg_perf/perf_na.h"
#include "hg_perf/perf_run.h"
#include "hg_perf/perf_window.h"

#define SLEEP_MS      100U
#define BUSY_ROUNDS   1024U
#define DRAIN_SECONDS 15

/* Seconds that cancelled operations may take to complete. */
#define CANCEL_SECONDS 2

struct na_origin;
struct origin_client;

/* One operation in flight. */
struct origin_slot {
    struct origin_client *client;
    uint64_t start_ns;
    unsigned int pending; /* callbacks still to come */
    na_return_t ret;      /* first error of the callbacks */
    na_tag_t tag;
    struct perf_na_buffer send, recv;
    na_op_id_t *send_op, *recv_op; /* put and get use send_op */
    size_t answer_size;
    void *memory; /* put, get: the local side */
    na_mem_handle_t *local, *remote;
};

struct origin_client {
    struct na_origin *origin;
    na_class_t *na_class;
    na_context_t *context;
    na_addr_t *address;
    struct origin_slot *slots;
};

struct na_origin {
    const struct perf_options *options;
    struct origin_client *clients;
    unsigned int client_count;
    unsigned int outstanding;
    uint64_t completions;
    struct perf_window *window;
    uint64_t errors;
    char message[256];
};

static void *origin_open(const struct perf_options *options, const char *address,
                         unsigned int client_count, struct perf_process *process);
static void origin_measure(void *data, struct perf_process *process);
static void origin_close(void *data);
static na_return_t client_open(struct origin_client *client, const char *address);
static void client_close(struct origin_client *client);
static na_return_t slot_open(struct origin_slot *slot);
static void slot_close(struct origin_slot *slot);
static na_return_t slot_open_region(struct origin_slot *slot);
static void origin_run(struct na_origin *origin, double warm_up, double seconds);
static void origin_loop(struct na_origin *origin);
static void origin_cancel(struct na_origin *origin);
static na_return_t origin_progress(struct na_origin *origin);
static void origin_error(struct na_origin *origin, const char *what, na_return_t ret);
static void slot_start(struct origin_slot *slot, uint64_t now);
static na_return_t slot_start_message(struct origin_slot *slot, uint64_t request,
                                      size_t payload_size);
static na_return_t slot_start_rma(struct origin_slot *slot);
static void slot_done(const struct na_cb_info *info);

static const char no_answer[] = "no answer; is it a target of hg_perf na?";

const struct perf_origin_ops perf_origin_na_ops = {origin_open, origin_measure, origin_close};

static void *origin_open(const struct perf_options *options, const char *address,
                         unsigned int client_count, struct perf_process *process)
{
    struct na_origin *origin = calloc(1, sizeof(*origin));
    na_return_t ret = NA_NOMEM;

    if (origin == NULL)
        goto error;
    origin->options = options;
    origin->window = calloc(1, sizeof(*origin->window));
    origin->clients = calloc(client_count, sizeof(*origin->clients));
    if (origin->window == NULL || origin->clients == NULL)
        goto error;
    origin->client_count = client_count;
    ret = NA_SUCCESS;
    for (unsigned int i = 0; i < client_count && ret == NA_SUCCESS; i++) {
        origin->clients[i].origin = origin;
        ret = client_open(&origin->clients[i], address);
    }
    if (ret != NA_SUCCESS)
        goto error;
    origin_run(origin, 0, 0);
    process->node_local = tool_endpoint_is_node_local(origin->clients[0].na_class);
    if (origin->errors == 0)
        return origin;
error:
    (void) snprintf(
        process->message, sizeof(process->message), "cannot open an origin for %s: %.200s", address,
        origin != NULL && origin->errors > 0 ? origin->message : NA_Error_to_string(ret));
    origin_close(origin);
    return NULL;
}

static void origin_measure(void *data, struct perf_process *process)
{
    struct na_origin *origin = data;

    double seconds = origin->options->seconds / origin->options->rounds;

    origin_run(origin, perf_run_warm_up(seconds), seconds);
    perf_process_add(process, origin->window);
    process->errors = origin->errors;
    memcpy(process->message, origin->message, sizeof(process->message));
}

static void origin_close(void *data)
{
    struct na_origin *origin = data;

    if (origin == NULL)
        return;
    for (unsigned int i = 0; i < origin->client_count; i++)
        client_close(&origin->clients[i]);
    free(origin->clients);
    free(origin->window);
    free(origin);
}

static na_return_t client_open(struct origin_client *client, const char *address)
{
    const struct perf_options *options = client->origin->options;
    na_return_t ret;

    client->na_class = perf_na_class_create(options, false);
    if (client->na_class == NULL)
        return NA_PROTOCOL_ERROR;
    client->context = NA_Context_create(client->na_class);
    client->slots = calloc(options->in_flight, sizeof(*client->slots));
    if (client->context == NULL || client->slots == NULL)
        return NA_NOMEM;
    ret = NA_Addr_lookup(client->na_class, address, &client->address);
    for (unsigned int i = 0; i < options->in_flight && ret == NA_SUCCESS; i++) {
        client->slots[i].client = client;
        client->slots[i].tag = i;
        ret = slot_open(&client->slots[i]);
    }
    return ret;
}

static void client_close(struct origin_client *client)
{
    for (unsigned int i = 0; client->slots != NULL && i < client->origin->options->in_flight; i++) {
        if (client->slots[i].client != NULL)
            slot_close(&client->slots[i]);
    }
    free(client->slots);
    if (client->address != NULL)
        NA_Addr_free(client->na_class, client->address);
    if (client->context != NULL)
        (void) NA_Context_destroy(client->na_class, client->context);
    if (client->na_class != NULL)
        (void) NA_Finalize(client->na_class);
}

static na_return_t slot_open(struct origin_slot *slot)
{
    struct origin_client *client = slot->client;
    const struct perf_options *options = client->origin->options;

    slot->send_op = NA_Op_create(client->na_class, NA_OP_SINGLE);
    slot->recv_op = NA_Op_create(client->na_class, NA_OP_SINGLE);
    if (slot->send_op == NULL || slot->recv_op == NULL ||
        !perf_na_buffer_create(client->na_class, &slot->send, false, NA_SEND) ||
        !perf_na_buffer_create(client->na_class, &slot->recv, true, NA_RECV))
        return NA_NOMEM;
    if (options->na_op != PERF_NA_MESSAGE)
        return slot_open_region(slot);
    if (options->size < sizeof(uint64_t) ||
        options->size > slot->send.size - slot->send.header_size ||
        options->size > slot->recv.size - slot->recv.header_size) {
        origin_error(client->origin, "--size is more than a message of this transport, or below 8",
                     NA_MSGSIZE);
        return NA_MSGSIZE;
    }
    return NA_SUCCESS;
}

static void slot_close(struct origin_slot *slot)
{
    na_class_t *na_class = slot->client->na_class;

    if (slot->local != NULL) {
        (void) NA_Mem_deregister(na_class, slot->local);
        NA_Mem_handle_free(na_class, slot->local);
    }
    if (slot->remote != NULL)
        NA_Mem_handle_free(na_class, slot->remote);
    perf_buffer_destroy(slot->memory, slot->client->origin->options->size);
    if (slot->send_op != NULL)
        NA_Op_destroy(na_class, slot->send_op);
    if (slot->recv_op != NULL)
        NA_Op_destroy(na_class, slot->recv_op);
    perf_na_buffer_destroy(na_class, &slot->send);
    perf_na_buffer_destroy(na_class, &slot->recv);
}

/* Requests a buffer of the target, and allocates the local one. */
static na_return_t slot_open_region(struct origin_slot *slot)
{
    struct origin_client *client = slot->client;
    struct na_origin *origin = client->origin;
    struct perf_na_region region = {PERF_NA_REGION, origin->options->size};
    uint64_t end = tool_clock_ns() + DRAIN_SECONDS * TOOL_NS_PER_S;
    na_return_t ret;

    slot->memory = perf_buffer_create(region.size, slot->tag);
    if (slot->memory == NULL)
        return NA_NOMEM;
    ret = NA_Mem_handle_create(client->na_class, slot->memory, region.size, NA_MEM_READWRITE,
                               &slot->local);
    if (ret == NA_SUCCESS)
        ret = NA_Mem_register(client->na_class, slot->local, NA_MEM_TYPE_HOST, 0);
    if (ret != NA_SUCCESS)
        return ret;
    memcpy(perf_na_payload(&slot->send), &region, sizeof(region));
    perf_window_open(origin->window, 0, 0);
    ret = slot_start_message(slot, PERF_NA_REGION, sizeof(region));
    while (ret == NA_SUCCESS && slot->pending > 0) {
        ret = perf_na_progress(client->na_class, client->context, SLEEP_MS);
        if (tool_clock_ns() > end || tool_signal_received() != 0)
            ret = NA_TIMEOUT;
    }
    if (slot->pending > 0) {
        origin_error(origin, no_answer, NA_TIMEOUT);
        origin_cancel(origin);
    }
    if (ret == NA_SUCCESS)
        ret = slot->ret;
    if (ret != NA_SUCCESS || slot->answer_size <= slot->recv.header_size)
        return ret != NA_SUCCESS ? ret : NA_PROTOCOL_ERROR;
    return NA_Mem_handle_deserialize(client->na_class, &slot->remote, perf_na_payload(&slot->recv),
                                     slot->answer_size - slot->recv.header_size);
}

/* Starts every slot again and again until the time is over; with zero seconds, once. */
static void origin_run(struct na_origin *origin, double warm_up, double seconds)
{
    perf_window_open(origin->window, warm_up, seconds);
    for (unsigned int i = 0; i < origin->client_count; i++) {
        for (unsigned int j = 0; j < origin->options->in_flight; j++)
            slot_start(&origin->clients[i].slots[j], tool_clock_ns());
    }
    origin_loop(origin);
    if (origin->outstanding > 0) {
        origin_error(origin, no_answer, NA_TIMEOUT);
        origin_cancel(origin);
    }
}

/* Operations must be complete before they are destroyed. */
static void origin_cancel(struct na_origin *origin)
{
    uint64_t end = tool_clock_ns() + CANCEL_SECONDS * TOOL_NS_PER_S;

    origin->window->closed = true;
    for (unsigned int i = 0; i < origin->client_count; i++) {
        const struct origin_client *client = &origin->clients[i];

        for (unsigned int j = 0; client->slots != NULL && j < origin->options->in_flight; j++) {
            if (client->slots[j].pending == 0)
                continue;
            (void) NA_Cancel(client->na_class, client->context, client->slots[j].send_op);
            (void) NA_Cancel(client->na_class, client->context, client->slots[j].recv_op);
        }
    }
    while (origin->outstanding > 0 && tool_clock_ns() < end) {
        for (unsigned int i = 0; i < origin->client_count; i++) {
            const struct origin_client *client = &origin->clients[i];

            if (client->context != NULL)
                (void) perf_na_progress(client->na_class, client->context, 1);
        }
    }
}

static void origin_loop(struct na_origin *origin)
{
    uint64_t end = origin->window->until_ns + DRAIN_SECONDS * TOOL_NS_PER_S;
    uint64_t seen = origin->completions;
    unsigned int rounds = 0;
    bool stopped = false;
    na_return_t ret = NA_SUCCESS;

    while (origin->outstanding > 0 && ret == NA_SUCCESS) {
        ret = origin_progress(origin);
        if (origin->completions != seen) {
            seen = origin->completions; /* its callback has read the clock */
            rounds = 0;
        } else if ((!origin->options->busy || ++rounds % BUSY_ROUNDS == 0) &&
                   tool_clock_ns() >= end) {
            return;
        }
        if (tool_signal_received() != 0 && !stopped) {
            origin->window->closed = stopped = true;
            end = tool_clock_ns() + TOOL_NS_PER_S;
        }
    }
    if (ret != NA_SUCCESS)
        origin_error(origin, "no progress", ret);
}

static na_return_t origin_progress(struct na_origin *origin)
{
    unsigned int timeout_ms =
        origin->options->busy ? 0 : (origin->client_count == 1 ? SLEEP_MS : 0);
    na_return_t ret = NA_SUCCESS;

    for (unsigned int i = 0; i < origin->client_count && ret == NA_SUCCESS; i++)
        ret = perf_na_progress(origin->clients[i].na_class, origin->clients[i].context, timeout_ms);
    return ret;
}

static void origin_error(struct na_origin *origin, const char *what, na_return_t ret)
{
    if (origin->errors++ == 0)
        (void) snprintf(origin->message, sizeof(origin->message), "%s: %s", what,
                        NA_Error_to_string(ret));
}

static void slot_start(struct origin_slot *slot, uint64_t now)
{
    struct na_origin *origin = slot->client->origin;
    na_return_t ret;

    slot->start_ns = now;
    if (origin->options->na_op == PERF_NA_MESSAGE)
        ret = slot_start_message(slot, PERF_NA_ECHO, origin->options->size);
    else
        ret = slot_start_rma(slot);
    if (ret != NA_SUCCESS)
        origin_error(origin, "cannot start an operation", ret);
}

/* The receive is posted first, because an expected message without a posted receive is dropped. */
static na_return_t slot_start_message(struct origin_slot *slot, uint64_t request,
                                      size_t payload_size)
{
    struct origin_client *client = slot->client;
    na_return_t ret;

    memcpy(perf_na_payload(&slot->send), &request, sizeof(request));
    slot->ret = NA_SUCCESS;
    ret = NA_Msg_recv_expected(client->na_class, client->context, slot_done, slot,
                               slot->recv.memory, slot->recv.size, slot->recv.plugin_data,
                               client->address, 0, slot->tag, slot->recv_op);
    if (ret != NA_SUCCESS)
        return ret;
    slot->pending = 2;
    client->origin->outstanding++;
    ret = NA_Msg_send_unexpected(client->na_class, client->context, slot_done, slot,
                                 slot->send.memory, slot->send.header_size + payload_size,
                                 slot->send.plugin_data, client->address, 0, slot->tag,
                                 slot->send_op);
    if (ret == NA_SUCCESS)
        return NA_SUCCESS;
    slot->pending = 1; /* the receive, which completes as cancelled */
    slot->ret = ret;
    (void) NA_Cancel(client->na_class, client->context, slot->recv_op);
    return NA_SUCCESS;
}

static na_return_t slot_start_rma(struct origin_slot *slot)
{
    struct origin_client *client = slot->client;
    const struct perf_options *options = client->origin->options;
    na_return_t ret;

    slot->ret = NA_SUCCESS;
    if (options->na_op == PERF_NA_PUT)
        ret = NA_Put(client->na_class, client->context, slot_done, slot, slot->local, 0,
                     slot->remote, 0, options->size, client->address, 0, slot->send_op);
    else
        ret = NA_Get(client->na_class, client->context, slot_done, slot, slot->local, 0,
                     slot->remote, 0, options->size, client->address, 0, slot->send_op);
    if (ret != NA_SUCCESS)
        return ret;
    slot->pending = 1;
    client->origin->outstanding++;
    return NA_SUCCESS;
}

static void slot_done(const struct na_cb_info *info)
{
    struct origin_slot *slot = info->arg;
    struct na_origin *origin = slot->client->origin;
    uint64_t now;

    if (info->ret != NA_SUCCESS && slot->ret == NA_SUCCESS)
        slot->ret = info->ret;
    if (info->type == NA_CB_RECV_EXPECTED)
        slot->answer_size = info->info.recv_expected.actual_buf_size;
    if (--slot->pending > 0)
        return;
    now = tool_clock_ns();
    origin->outstanding--;
    origin->completions++;
    if (slot->ret != NA_SUCCESS) {
        origin_error(origin, "an operation failed", slot->ret);
        return;
    }
    perf_window_complete(origin->window, slot->start_ns, now);
    if (!origin->window->closed)
        slot_start(slot, now);
}
