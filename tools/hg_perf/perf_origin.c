/* SPDX-License-Identifier: BSD-3-Clause */
/* The origin of the rpc, bulk and idle measurements: keeps a number of RPCs in flight. The
 * callback of an RPC forwards the next one; all memory is allocated beforehand. */

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mercury_ext.h>

#include "common/tool_clock.h"
#include "common/tool_endpoint.h"
#include "common/tool_signal.h"
#include "hg_perf/perf_events.h"
#include "hg_perf/perf_loop.h"
#include "hg_perf/perf_memory.h"
#include "hg_perf/perf_rpc.h"
#include "hg_perf/perf_run.h"
#include "hg_perf/perf_window.h"

/* Longest sleep of a thread, and the number of rounds without an event after which a busy thread
 * reads the clock. */
#define SLEEP_MS    100U
#define BUSY_ROUNDS 1024U

/* Seconds that RPCs in flight at the end may take, before and after they are cancelled. */
#define DRAIN_SECONDS  15
#define CANCEL_SECONDS 2

struct origin_worker;

/* One RPC in flight. */
struct origin_slot {
    struct origin_worker *worker;
    hg_handle_t handle;
    uint64_t start_ns;
    bool active;
    hg_bulk_t bulk; /* bulk: descriptor of memory */
    void *memory;   /* bulk: memory of the transfer; rpc: the payload after the first 8 bytes */
    perf_bulk_in_t bulk_in;
    struct perf_payload payload;
};

/* A context with its RPCs. */
struct origin_lane {
    hg_context_t *context;
    struct origin_slot *slots;
};

/* An endpoint. */
struct origin_client {
    hg_class_t *hg_class;
    hg_addr_t address;
    struct perf_rpc_ids ids;
};

struct origin_worker {
    const struct perf_options *options;
    struct origin_lane *lanes;
    unsigned int lane_count;
    unsigned int outstanding; /* RPCs in flight */
    uint64_t completions;     /* total */
    void *scratch;            /* destination of decoded outputs */
    struct perf_window *window;
    struct perf_loop loop; /* of the only lane */
    uint64_t errors;
    char message[256];
    pthread_t thread;
};

struct origin {
    const struct perf_options *options;
    struct origin_client *clients;
    unsigned int client_count;
    struct origin_lane *lanes; /* one for each thread of each client */
    unsigned int lane_count;
    struct origin_worker *workers;
    unsigned int worker_count;
};

static void *origin_open(const struct perf_options *options, const char *address,
                         unsigned int client_count, struct perf_process *process);
static void origin_measure(void *data, struct perf_process *process);
static void origin_close(void *data);
static bool origin_allocate(struct origin *origin, unsigned int client_count);
static hg_return_t client_open(struct origin *origin, unsigned int index, const char *address);
static hg_return_t lane_open(struct origin *origin, struct origin_client *client,
                             struct origin_lane *lane, unsigned int index);
static hg_return_t slot_open(const struct origin *origin, const struct origin_client *client,
                             const struct origin_lane *lane, struct origin_slot *slot,
                             unsigned int context_id);
static void slot_close(const struct origin *origin, struct origin_slot *slot);
static void *worker_measure(void *arg);
static void worker_run(struct origin_worker *worker, double warm_up, double seconds);
static void worker_loop(struct origin_worker *worker, uint64_t end_ns);
static void worker_cancel(struct origin_worker *worker);
static void worker_error(struct origin_worker *worker, const char *what, hg_return_t ret);
static void slot_start(struct origin_slot *slot, uint64_t now);
static hg_return_t slot_rpc_done(const struct hg_cb_info *info);
static hg_return_t slot_bulk_done(const struct hg_cb_info *info);
static void slot_done(struct origin_slot *slot, uint64_t now, hg_return_t ret);
static uint64_t slot_wait(const struct origin_slot *slot);

const struct perf_origin_ops perf_origin_hg_ops = {origin_open, origin_measure, origin_close};

static void *origin_open(const struct perf_options *options, const char *address,
                         unsigned int client_count, struct perf_process *process)
{
    struct origin *origin = calloc(1, sizeof(*origin));
    hg_return_t ret = HG_NOMEM;

    if (origin == NULL)
        goto error;
    origin->options = options;
    if (!origin_allocate(origin, client_count))
        goto error;
    for (unsigned int i = 0; i < client_count; i++) {
        ret = client_open(origin, i, address);
        if (ret != HG_SUCCESS)
            goto error;
    }
    /* Run every RPC once: connections, pools and pages exist when the measurement begins. */
    for (unsigned int i = 0; i < origin->worker_count; i++) {
        worker_run(&origin->workers[i], 0, 0);
        if (origin->workers[i].errors > 0) {
            memcpy(process->message, origin->workers[i].message, sizeof(process->message));
            goto close;
        }
    }
    for (unsigned int i = 0; i < origin->lane_count; i++) {
        for (unsigned int j = 0; j < options->in_flight; j++)
            origin->lanes[i].slots[j].bulk_in.verify = false;
    }
    process->node_local = tool_endpoint_is_node_local(HG_Class_get_na(origin->clients[0].hg_class));
    return origin;
error:
    (void) snprintf(process->message, sizeof(process->message), "cannot open an origin for %s: %s",
                    address, HG_Error_to_string(ret));
close:
    origin_close(origin);
    return NULL;
}

static void origin_measure(void *data, struct perf_process *process)
{
    struct origin *origin = data;
    unsigned int started = 1;

    while (started < origin->worker_count &&
           pthread_create(&origin->workers[started].thread, NULL, worker_measure,
                          &origin->workers[started]) == 0)
        started++;
    (void) worker_measure(&origin->workers[0]);
    for (unsigned int i = 1; i < started; i++)
        (void) pthread_join(origin->workers[i].thread, NULL);
    if (started < origin->worker_count)
        worker_error(&origin->workers[0], "cannot start a thread", HG_NOMEM);

    for (unsigned int i = 0; i < origin->worker_count; i++) {
        const struct origin_worker *worker = &origin->workers[i];

        perf_process_add(process, worker->window);
        if (worker->errors > 0 && process->errors == 0)
            memcpy(process->message, worker->message, sizeof(process->message));
        process->errors += worker->errors;
    }
}

static void origin_close(void *data)
{
    struct origin *origin = data;

    if (origin == NULL)
        return;
    for (unsigned int i = 0; i < origin->lane_count; i++) {
        struct origin_lane *lane = &origin->lanes[i];

        for (unsigned int j = 0; lane->slots != NULL && j < origin->options->in_flight; j++)
            slot_close(origin, &lane->slots[j]);
        free(lane->slots);
        if (lane->context != NULL)
            (void) HG_Context_destroy(lane->context);
    }
    for (unsigned int i = 0; i < origin->client_count; i++) {
        struct origin_client *client = &origin->clients[i];

        if (client->address != HG_ADDR_NULL)
            (void) HG_Addr_free(client->hg_class, client->address);
        if (client->hg_class != NULL)
            (void) HG_Finalize(client->hg_class);
    }
    for (unsigned int i = 0; i < origin->worker_count; i++) {
        free(origin->workers[i].scratch);
        free(origin->workers[i].window);
    }
    free(origin->workers);
    free(origin->lanes);
    free(origin->clients);
    free(origin);
}

/* Several clients share one thread; a single client has a context for each of its threads. */
static bool origin_allocate(struct origin *origin, unsigned int client_count)
{
    const struct perf_options *options = origin->options;
    unsigned int per_worker;

    origin->clients = calloc(client_count, sizeof(*origin->clients));
    origin->lanes = calloc((size_t) client_count * options->threads, sizeof(*origin->lanes));
    origin->workers = calloc(options->threads, sizeof(*origin->workers));
    if (origin->clients == NULL || origin->lanes == NULL || origin->workers == NULL)
        return false;
    origin->client_count = client_count;
    origin->lane_count = client_count * options->threads;
    origin->worker_count = options->threads;
    per_worker = origin->lane_count / origin->worker_count;
    for (unsigned int i = 0; i < origin->worker_count; i++) {
        struct origin_worker *worker = &origin->workers[i];

        worker->options = options;
        worker->lanes = &origin->lanes[i * per_worker];
        worker->lane_count = per_worker;
        worker->scratch = malloc(options->size);
        worker->window = calloc(1, sizeof(*worker->window));
        if (worker->scratch == NULL || worker->window == NULL)
            return false;
    }
    return true;
}

static hg_return_t client_open(struct origin *origin, unsigned int index, const char *address)
{
    const struct perf_options *options = origin->options;
    struct origin_client *client = &origin->clients[index];
    hg_return_t ret;

    client->hg_class = perf_class_create(options, false);
    if (client->hg_class == NULL || !perf_rpc_register(client->hg_class, NULL, NULL, &client->ids))
        return HG_OTHER_ERROR;
    ret = HG_Addr_lookup2(client->hg_class, address, &client->address);
    for (unsigned int i = 0; i < options->threads && ret == HG_SUCCESS; i++)
        ret = lane_open(origin, client, &origin->lanes[index * options->threads + i], i);
    return ret;
}

static hg_return_t lane_open(struct origin *origin, struct origin_client *client,
                             struct origin_lane *lane, unsigned int index)
{
    const struct perf_options *options = origin->options;
    hg_return_t ret = HG_SUCCESS;

    lane->context = HG_Context_create_id(client->hg_class, (uint8_t) index);
    lane->slots = calloc(options->in_flight, sizeof(*lane->slots));
    if (lane->context == NULL || lane->slots == NULL)
        return HG_NOMEM;
    for (unsigned int i = 0; i < options->in_flight && ret == HG_SUCCESS; i++) {
        /* With several clients there is one worker, with several threads one for each lane. */
        lane->slots[i].worker = &origin->workers[index];
        lane->slots[i].bulk_in.seed = i;
        ret = slot_open(origin, client, lane, &lane->slots[i], index);
    }
    return ret;
}

static hg_return_t slot_open(const struct origin *origin, const struct origin_client *client,
                             const struct origin_lane *lane, struct origin_slot *slot,
                             unsigned int context_id)
{
    const struct perf_options *options = origin->options;
    bool bulk = options->mode == PERF_BULK;
    hg_size_t size = options->size;
    hg_return_t ret;

    if (!options->allocated && (bulk || size > PERF_RPC_SIZE_MIN)) {
        slot->memory = perf_buffer_create(size, slot->bulk_in.seed);
        if (slot->memory == NULL)
            return HG_NOMEM;
    }
    ret = HG_Create(lane->context, client->address, bulk ? client->ids.bulk : client->ids.echo,
                    &slot->handle);
    if (ret == HG_SUCCESS && context_id != 0)
        ret = HG_Set_target_id(slot->handle, (uint8_t) context_id);
    if (ret == HG_SUCCESS && bulk)
        ret = HG_Bulk_create(client->hg_class, 1, options->allocated ? NULL : &slot->memory, &size,
                             options->push ? HG_BULK_WRITE_ONLY : HG_BULK_READ_ONLY, &slot->bulk);
    if (ret == HG_SUCCESS && options->allocated) {
        ret = HG_Bulk_access(slot->bulk, 0, size, HG_BULK_READWRITE, 1, &slot->memory, NULL, NULL);
        perf_buffer_fill(slot->memory, size, slot->bulk_in.seed);
    }
    slot->payload.size = size;
    slot->payload.data = slot->memory;
    slot->payload.capacity = size;
    slot->bulk_in.handle = slot->bulk;
    slot->bulk_in.size = size;
    slot->bulk_in.transfers = options->transfers;
    slot->bulk_in.push = options->push;
    slot->bulk_in.verify = true;
    return ret;
}

static void slot_close(const struct origin *origin, struct origin_slot *slot)
{
    if (slot->bulk != HG_BULK_NULL)
        (void) HG_Bulk_free(slot->bulk);
    if (slot->handle != HG_HANDLE_NULL)
        (void) HG_Destroy(slot->handle);
    if (!origin->options->allocated)
        perf_buffer_destroy(slot->memory, origin->options->size);
}

static void *worker_measure(void *arg)
{
    struct origin_worker *worker = arg;
    double seconds = worker->options->seconds / worker->options->rounds;

    worker_run(worker, perf_run_warm_up(seconds), seconds);
    return NULL;
}

/* Starts every slot again and again until the time is over; with zero seconds, once. */
static void worker_run(struct origin_worker *worker, double warm_up, double seconds)
{
    perf_window_open(worker->window, warm_up, seconds);
    for (unsigned int i = 0; i < worker->lane_count; i++) {
        for (unsigned int j = 0; j < worker->options->in_flight; j++)
            slot_start(&worker->lanes[i].slots[j], tool_clock_ns());
    }
    worker_loop(worker, worker->window->until_ns + DRAIN_SECONDS * TOOL_NS_PER_S);
    if (worker->outstanding > 0) {
        worker_error(worker, "RPCs that get no answer", HG_TIMEOUT);
        worker_cancel(worker);
        worker_loop(worker, tool_clock_ns() + CANCEL_SECONDS * TOOL_NS_PER_S);
    }
}

/* Runs until nothing is in flight, or until end_ns. */
static void worker_loop(struct origin_worker *worker, uint64_t end_ns)
{
    const unsigned int timeout_ms = worker->options->busy ? 0 : SLEEP_MS;
    const bool one = worker->lane_count == 1;
    struct perf_events events;
    uint64_t seen = worker->completions;
    unsigned int rounds = 0;
    bool stopped = false;
    hg_return_t ret = HG_SUCCESS;

    if (!perf_events_open(&events, worker->lane_count) ||
        !perf_loop_open(&worker->loop, worker->options->loop, worker->lanes[0].context))
        ret = HG_NOMEM;
    for (unsigned int i = 0; !one && i < worker->lane_count && ret == HG_SUCCESS; i++)
        ret = perf_events_add(&events, worker->lanes[i].context);
    while (worker->outstanding > 0 && ret == HG_SUCCESS) {
        ret = one ? perf_loop_round(&worker->loop, timeout_ms)
                  : perf_events_progress(&events, timeout_ms);
        if (worker->completions != seen) {
            seen = worker->completions; /* its callback has read the clock */
            rounds = 0;
        } else if ((!worker->options->busy || ++rounds % BUSY_ROUNDS == 0) &&
                   tool_clock_ns() >= end_ns) {
            break;
        }
        if (tool_signal_received() != 0 && !stopped) {
            worker->window->closed = stopped = true;
            end_ns = tool_clock_ns() + TOOL_NS_PER_S;
        }
    }
    if (ret != HG_SUCCESS)
        worker_error(worker, "no progress", ret);
    perf_loop_close(&worker->loop);
    perf_events_close(&events);
}

static void worker_cancel(struct origin_worker *worker)
{
    for (unsigned int i = 0; i < worker->lane_count; i++) {
        for (unsigned int j = 0; j < worker->options->in_flight; j++) {
            if (worker->lanes[i].slots[j].active)
                (void) HG_Cancel(worker->lanes[i].slots[j].handle);
        }
    }
}

static void worker_error(struct origin_worker *worker, const char *what, hg_return_t ret)
{
    if (worker->errors++ == 0)
        (void) snprintf(worker->message, sizeof(worker->message), "%s: %s", what,
                        HG_Error_to_string(ret));
}

static void slot_start(struct origin_slot *slot, uint64_t now)
{
    bool bulk = slot->worker->options->mode == PERF_BULK;
    hg_return_t ret;

    slot->start_ns = now;
    ret = HG_Forward(slot->handle, bulk ? slot_bulk_done : slot_rpc_done, slot,
                     bulk ? (void *) &slot->bulk_in : (void *) &slot->payload);
    if (ret == HG_SUCCESS) {
        slot->active = true;
        slot->worker->outstanding++;
    } else {
        worker_error(slot->worker, "cannot forward an RPC", ret);
    }
}

static hg_return_t slot_rpc_done(const struct hg_cb_info *info)
{
    struct origin_slot *slot = info->arg;
    uint64_t now = tool_clock_ns();
    hg_return_t ret = info->ret;

    if (ret == HG_SUCCESS) {
        struct perf_payload out = {.data = slot->worker->scratch,
                                   .capacity = slot->payload.capacity};

        ret = HG_Get_output(slot->handle, &out);
        if (ret == HG_SUCCESS) {
            if (out.size != slot->payload.size)
                ret = HG_PROTOCOL_ERROR;
            (void) HG_Free_output(slot->handle, &out);
        }
    }
    slot_done(slot, now, ret);
    return HG_SUCCESS;
}

static hg_return_t slot_bulk_done(const struct hg_cb_info *info)
{
    struct origin_slot *slot = info->arg;
    uint64_t now = tool_clock_ns();
    hg_return_t ret = info->ret;

    if (ret == HG_SUCCESS) {
        perf_bulk_out_t out;

        ret = HG_Get_output(slot->handle, &out);
        if (ret == HG_SUCCESS) {
            ret = (hg_return_t) out.result;
            (void) HG_Free_output(slot->handle, &out);
        }
    }
    slot_done(slot, now, ret);
    return HG_SUCCESS;
}

/* Records an RPC and starts the slot's next one, to which the time of the callback counts. */
static void slot_done(struct origin_slot *slot, uint64_t now, hg_return_t ret)
{
    struct origin_worker *worker = slot->worker;

    slot->active = false;
    worker->outstanding--;
    worker->completions++;
    perf_loop_completed(&worker->loop);
    if (ret != HG_SUCCESS) {
        worker_error(worker,
                     ret == HG_NOENTRY ? "the RPC is unknown there; is it a target of hg_perf?"
                                       : "an RPC failed",
                     ret);
        return;
    }
    perf_window_complete(worker->window, slot->start_ns, now);
    if (!worker->window->closed)
        slot_start(slot, worker->options->every_us == 0 ? now : slot_wait(slot));
}

/* Busy-waits until the next operation is due. A sleeping origin would wake up late. */
static uint64_t slot_wait(const struct origin_slot *slot)
{
    const uint64_t next = slot->start_ns + slot->worker->options->every_us * UINT64_C(1000);
    uint64_t now;

    do
        now = tool_clock_ns();
    while (now < next);
    return now;
}
