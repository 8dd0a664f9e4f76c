/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters: each context and each handle has its own; they are added up when they are read. */
#include "hg/counters.h"

#include "hg/class.h"
#include "hg/context.h"
#include "hg/handle.h"
#include "hg/sessions.h"

#include <inttypes.h>
#include <string.h>

#define HG_COUNTER_COUNT (sizeof(struct hg_counters) / sizeof(_Atomic uint64_t))

struct hg_counters_sum {
    struct hg_diag_counters diag;
    struct hg_ext_counters ext;
};

/* Sums over the handles of one kind. */
struct hg_handle_counts {
    uint64_t req[HG_PATH_MAX];
    uint64_t resp;
    uint64_t req_bytes;
    uint64_t resp_bytes;
    uint64_t done;
};

static uint64_t hg_counters_at(const struct hg_counters *counters, size_t index);
static uint32_t hg_context_count_active(hg_context_t *context);
static void hg_context_collect(hg_context_t *context);
static void hg_pool_collect(struct hg_pool *pool, struct hg_handle_counts *counts);
static void hg_counters_set(_Atomic uint64_t *counter, uint64_t value);
static void hg_diag_add(const struct hg_counters *counters, struct hg_diag_counters *diag,
                        struct hg_ext_counters *ext);
static void hg_counters_add(hg_class_t *hg_class, void *arg);
static void hg_diag_log(const char *what, const struct hg_counters_sum *sum);

hg_return_t HG_Class_get_counters(const hg_class_t *hg_class,
                                  struct hg_diag_counters *diag_counters)
{
    struct hg_counters_sum sum = {0};

    if (hg_class_fork_refused(hg_class, __func__))
        return HG_PERMISSION;
    if (hg_class == NULL || diag_counters == NULL) {
        HG_LOG_ERROR("cannot get counters: class %p, counters %p; pass both",
                     (const void *) hg_class, (void *) diag_counters);
        return HG_INVALID_ARG;
    }
    hg_counters_add((hg_class_t *) (uintptr_t) hg_class, &sum);
    *diag_counters = sum.diag;
    return HG_SUCCESS;
}

hg_return_t HG_Class_get_ext_counters(const hg_class_t *hg_class, struct hg_ext_counters *counters,
                                      size_t size)
{
    struct hg_counters_sum sum = {0};

    if (hg_class_fork_refused(hg_class, __func__))
        return HG_PERMISSION;
    if (hg_class == NULL || counters == NULL) {
        HG_LOG_ERROR("cannot get counters: class %p, counters %p; pass both",
                     (const void *) hg_class, (void *) counters);
        return HG_INVALID_ARG;
    }
    hg_counters_add((hg_class_t *) (uintptr_t) hg_class, &sum);
    memset(counters, 0, size);
    memcpy(counters, &sum.ext, size < sizeof(sum.ext) ? size : sizeof(sum.ext));
    return HG_SUCCESS;
}

void HG_Diag_dump_counters(void)
{
    struct hg_counters_sum sum = {0};

    hg_class_for_each(hg_counters_add, &sum);
    hg_diag_log("all open classes", &sum);
}

void hg_counters_log(hg_class_t *hg_class)
{
    struct hg_counters_sum sum = {0};

    hg_counters_add(hg_class, &sum);
    hg_diag_log("class", &sum);
}

void UTIL_COLD hg_counters_forward_failed(hg_context_t *context, hg_return_t ret)
{
    struct hg_counters *counters = &context->counters;

    hg_count(ret == HG_CANCELED  ? &counters->forward_canceled
             : ret == HG_TIMEOUT ? &counters->forward_timeout
                                 : &counters->forward_error);
}

void hg_counters_retire(hg_class_t *hg_class, hg_context_t *context)
{
    _Atomic uint64_t *sum = (_Atomic uint64_t *) &hg_class->retired;
    size_t i;

    hg_sessions_drop_offers(context);
    hg_context_collect(context);
    for (i = 0; i < HG_COUNTER_COUNT; i++)
        atomic_fetch_add_explicit(&sum[i], hg_counters_at(&context->counters, i),
                                  memory_order_relaxed);
}

static uint64_t hg_counters_at(const struct hg_counters *counters, size_t index)
{
    return atomic_load_explicit((const _Atomic uint64_t *) counters + index, memory_order_relaxed);
}

/* Add the counters of a class to a struct hg_counters_sum. */
static void hg_counters_add(hg_class_t *hg_class, void *arg)
{
    struct hg_counters_sum *sum = arg;
    hg_context_t *context;

    (void) pthread_mutex_lock(&hg_class->lock);
    hg_diag_add(&hg_class->retired, &sum->diag, &sum->ext);
    for (context = hg_class->contexts; context != NULL; context = context->next) {
        hg_sessions_expire(context);
        hg_context_collect(context);
        hg_diag_add(&context->counters, &sum->diag, &sum->ext);
        sum->diag.rpc_req_recv_active_count += hg_context_count_active(context);
    }
    (void) pthread_mutex_unlock(&hg_class->lock);
    sum->ext.waiting_count += atomic_load(&hg_rpc_class(hg_class)->flows.waiting);
    hg_budget_count(&hg_rpc_class(hg_class)->in_budget, &sum->ext);
    hg_budget_count(&hg_rpc_class(hg_class)->out_budget, &sum->ext);
}

/* Set the counters of a context that are sums over its handles. */
static void hg_context_collect(hg_context_t *context)
{
    struct hg_counters *counters = &context->counters;
    struct hg_handle_counts origins = {{0}, 0, 0, 0, 0}, targets = {{0}, 0, 0, 0, 0};
    int path;

    for (path = 0; path < HG_PATH_MAX; path++) {
        hg_pool_collect(&hg_rpc_context(context)->origins[path], &origins);
        hg_pool_collect(&hg_rpc_context(context)->targets[path], &targets);
    }
    hg_counters_set(&counters->req_sent, origins.req[HG_PATH_MAIN] + origins.req[HG_PATH_SM]);
    hg_counters_set(&counters->req_sent_sm, origins.req[HG_PATH_SM]);
    hg_counters_set(&counters->resp_recv, origins.resp);
    hg_counters_set(&counters->req_recv, targets.req[HG_PATH_MAIN] + targets.req[HG_PATH_SM]);
    hg_counters_set(&counters->req_recv_sm, targets.req[HG_PATH_SM]);
    hg_counters_set(&counters->resp_sent, targets.resp);
    hg_counters_set(&counters->forward_done, origins.done);
    hg_counters_set(&counters->req_sent_bytes, origins.req_bytes);
    hg_counters_set(&counters->resp_recv_bytes, origins.resp_bytes);
    hg_counters_set(&counters->req_recv_bytes, targets.req_bytes);
    hg_counters_set(&counters->resp_sent_bytes, targets.resp_bytes);
}

static void hg_counters_set(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

/* An origin's handle may have counted on both paths, whichever pool it is in. */
static void hg_pool_collect(struct hg_pool *pool, struct hg_handle_counts *counts)
{
    struct hg_handle *handle;
    int path;

    (void) pthread_mutex_lock(&pool->lock);
    for (handle = pool->all; handle != NULL; handle = handle->next_all) {
        for (path = 0; path < HG_PATH_MAX; path++)
            counts->req[path] +=
                atomic_load_explicit(&handle->req_count[path], memory_order_relaxed);
        counts->resp += atomic_load_explicit(&handle->resp_count, memory_order_relaxed);
        counts->req_bytes += atomic_load_explicit(&handle->req_bytes, memory_order_relaxed);
        counts->resp_bytes += atomic_load_explicit(&handle->resp_bytes, memory_order_relaxed);
        counts->done += atomic_load_explicit(&handle->done_count, memory_order_relaxed);
    }
    (void) pthread_mutex_unlock(&pool->lock);
}

/* Count the requests that were received and whose handles are in use. */
static uint32_t hg_context_count_active(hg_context_t *context)
{
    uint32_t in_use = hg_pools_count(hg_rpc_context(context)->targets);
    uint32_t posted = 0;
    int path;

    for (path = 0; path < HG_PATH_MAX; path++) {
        int32_t count = atomic_load(&hg_rpc_context(context)->posted[path]);

        posted += count > 0 ? (uint32_t) count : 0;
    }
    return in_use > posted ? in_use - posted : 0;
}

static void hg_diag_add(const struct hg_counters *counters, struct hg_diag_counters *diag,
                        struct hg_ext_counters *ext)
{
    diag->rpc_req_sent_count += atomic_load(&counters->req_sent);
    diag->rpc_req_recv_count += atomic_load(&counters->req_recv);
    diag->rpc_resp_sent_count += atomic_load(&counters->resp_sent);
    diag->rpc_resp_recv_count += atomic_load(&counters->resp_recv);
    diag->rpc_req_extra_count += atomic_load(&counters->req_extra);
    diag->rpc_resp_extra_count += atomic_load(&counters->resp_extra);
    diag->bulk_count += atomic_load(&counters->bulk);
    ext->refused_magic_count += atomic_load(&counters->refused_magic);
    ext->refused_version_count += atomic_load(&counters->refused_version);
    ext->refused_header_count += atomic_load(&counters->refused_header);
    ext->refused_checksum_count += atomic_load(&counters->refused_checksum);
    ext->unknown_rpc_count += atomic_load(&counters->unknown_rpc);
    ext->late_response_count += atomic_load(&counters->late_response);
    ext->send_error_count += atomic_load(&counters->send_error);
    ext->sm_req_sent_count += atomic_load(&counters->req_sent_sm);
    ext->sm_req_recv_count += atomic_load(&counters->req_recv_sm);
    ext->sm_bulk_count += atomic_load(&counters->bulk_sm);
    ext->timeout_count += atomic_load(&counters->timed_out);
    ext->parked_count += atomic_load(&counters->detached);
    ext->forward_done_count += atomic_load(&counters->forward_done);
    ext->forward_canceled_count += atomic_load(&counters->forward_canceled);
    ext->forward_timeout_count += atomic_load(&counters->forward_timeout);
    ext->forward_error_count += atomic_load(&counters->forward_error);
    ext->bulk_bytes += atomic_load(&counters->bulk_bytes);
    ext->bulk_canceled_count += atomic_load(&counters->bulk_canceled);
    ext->bulk_timeout_count += atomic_load(&counters->bulk_timeout);
    ext->bulk_error_count += atomic_load(&counters->bulk_error);
    ext->retry_count += atomic_load(&counters->retry);
    ext->refused_key_count += atomic_load(&counters->refused_key);
    ext->queued_count += atomic_load(&counters->queued);
    ext->req_sent_bytes += atomic_load(&counters->req_sent_bytes);
    ext->req_recv_bytes += atomic_load(&counters->req_recv_bytes);
    ext->resp_sent_bytes += atomic_load(&counters->resp_sent_bytes);
    ext->resp_recv_bytes += atomic_load(&counters->resp_recv_bytes);
}

/* The program has asked for this line, so it has the level that is always shown. */
static void hg_diag_log(const char *what, const struct hg_counters_sum *sum)
{
    const struct hg_diag_counters *diag = &sum->diag;
    const struct hg_ext_counters *ext = &sum->ext;

    NA_Log_write(
        NA_LOG_LEVEL_ERROR, HG_LOG_SUBSYS, __func__, __LINE__,
        "counters of %s: requests %" PRIu64 " sent, %" PRIu64 " received, %" PRIu64
        " active; responses %" PRIu64 " sent, %" PRIu64 " received; extra data %" PRIu64
        " in, %" PRIu64 " out; bulk transfers %" PRIu64 "; refused: magic %" PRIu64
        ", version %" PRIu64 ", header %" PRIu64 ", checksum %" PRIu64 ", key %" PRIu64
        "; unknown RPCs %" PRIu64 "; late responses %" PRIu64 "; send errors %" PRIu64
        "; through auto_sm: %" PRIu64 " requests sent, %" PRIu64 " received, %" PRIu64
        " bulk transfers; timed out: %" PRIu64 ", of which %" PRIu64
        " were taken from the transport; forwards: %" PRIu64 " succeeded, %" PRIu64
        " cancelled, %" PRIu64 " timed out, %" PRIu64 " failed; retried: %" PRIu64
        "; bytes of requests: %" PRIu64 " sent, %" PRIu64 " received; of responses: %" PRIu64
        " sent, %" PRIu64 " received; of bulk transfers: %" PRIu64
        "; extra data for the budget: %" PRIu64 " waited, %" PRIu64 " refused",
        what, diag->rpc_req_sent_count, diag->rpc_req_recv_count, diag->rpc_req_recv_active_count,
        diag->rpc_resp_sent_count, diag->rpc_resp_recv_count, diag->rpc_req_extra_count,
        diag->rpc_resp_extra_count, diag->bulk_count, ext->refused_magic_count,
        ext->refused_version_count, ext->refused_header_count, ext->refused_checksum_count,
        ext->refused_key_count, ext->unknown_rpc_count, ext->late_response_count,
        ext->send_error_count, ext->sm_req_sent_count, ext->sm_req_recv_count, ext->sm_bulk_count,
        ext->timeout_count, ext->parked_count, ext->forward_done_count, ext->forward_canceled_count,
        ext->forward_timeout_count, ext->forward_error_count, ext->retry_count, ext->req_sent_bytes,
        ext->req_recv_bytes, ext->resp_sent_bytes, ext->resp_recv_bytes, ext->bulk_bytes,
        ext->overflow_queued_count, ext->overflow_refused_count);
}
