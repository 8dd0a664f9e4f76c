/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters: each context has a set of its own; they are added up when somebody asks.
 */
#include "hg/hg_private.h"

#include <inttypes.h>
#include <string.h>

#define HG_COUNTER_COUNT (sizeof(struct hg_counters) / sizeof(_Atomic uint64_t))

/* The counters as an array, in the order of the struct. */
static uint64_t hg_counters_at(const struct hg_counters *counters, size_t index);
static uint32_t hg_context_count_active(hg_context_t *context);
static void hg_context_collect(hg_context_t *context);
static void hg_pool_collect(struct hg_pool *pool, uint64_t *req, uint64_t *resp_p);
static void hg_class_sum(hg_class_t *hg_class, struct hg_diag_counters *diag,
                         struct hg_ext_counters *ext);
static void hg_diag_add(const struct hg_counters *counters, struct hg_diag_counters *diag,
                        struct hg_ext_counters *ext);
static void hg_class_dump(hg_class_t *hg_class, void *arg);
static void hg_diag_log(enum na_log_level level, const char *what,
                        const struct hg_diag_counters *diag, const struct hg_ext_counters *ext);

struct hg_dump {
    struct hg_diag_counters diag;
    struct hg_ext_counters ext;
};

hg_return_t HG_Class_get_counters(const hg_class_t *hg_class,
                                  struct hg_diag_counters *diag_counters)
{
    struct hg_ext_counters ext = {0};

    if (hg_class == NULL || diag_counters == NULL) {
        HG_LOG_ERROR("cannot get counters: class %p, counters %p; pass both",
                     (const void *) hg_class, (void *) diag_counters);
        return HG_INVALID_ARG;
    }
    memset(diag_counters, 0, sizeof(*diag_counters));
    hg_class_sum((hg_class_t *) (uintptr_t) hg_class, diag_counters, &ext);
    return HG_SUCCESS;
}

hg_return_t HG_Class_get_ext_counters(const hg_class_t *hg_class, struct hg_ext_counters *counters,
                                      size_t size)
{
    struct hg_diag_counters diag = {0};
    struct hg_ext_counters ext = {0};

    if (hg_class == NULL || counters == NULL) {
        HG_LOG_ERROR("cannot get counters: class %p, counters %p; pass both",
                     (const void *) hg_class, (void *) counters);
        return HG_INVALID_ARG;
    }
    hg_class_sum((hg_class_t *) (uintptr_t) hg_class, &diag, &ext);
    memset(counters, 0, size);
    memcpy(counters, &ext, size < sizeof(ext) ? size : sizeof(ext));
    return HG_SUCCESS;
}

void HG_Diag_dump_counters(void)
{
    struct hg_dump dump;

    memset(&dump, 0, sizeof(dump));
    hg_class_for_each(hg_class_dump, &dump);
    hg_diag_log(NA_LOG_LEVEL_ERROR, "all open classes", &dump.diag, &dump.ext);
}

void hg_counters_log(hg_class_t *hg_class, bool force)
{
    struct hg_dump dump;

    memset(&dump, 0, sizeof(dump));
    hg_class_sum(hg_class, &dump.diag, &dump.ext);
    hg_diag_log(force ? NA_LOG_LEVEL_ERROR : NA_LOG_LEVEL_INFO, "class", &dump.diag, &dump.ext);
}

void hg_counters_retire(hg_class_t *hg_class, hg_context_t *context)
{
    _Atomic uint64_t *sum = (_Atomic uint64_t *) &hg_class->retired;
    size_t i;

    hg_context_collect(context);
    for (i = 0; i < HG_COUNTER_COUNT; i++)
        atomic_fetch_add_explicit(&sum[i], hg_counters_at(&context->counters, i),
                                  memory_order_relaxed);
}

static uint64_t hg_counters_at(const struct hg_counters *counters, size_t index)
{
    return atomic_load_explicit((const _Atomic uint64_t *) counters + index, memory_order_relaxed);
}

static void hg_class_dump(hg_class_t *hg_class, void *arg)
{
    struct hg_dump *dump = arg;

    hg_class_sum(hg_class, &dump->diag, &dump->ext);
}

static void hg_class_sum(hg_class_t *hg_class, struct hg_diag_counters *diag,
                         struct hg_ext_counters *ext)
{
    hg_context_t *context;

    (void) pthread_mutex_lock(&hg_class->lock);
    hg_diag_add(&hg_class->retired, diag, ext);
    for (context = hg_class->contexts; context != NULL; context = context->next) {
        hg_context_collect(context);
        hg_diag_add(&context->counters, diag, ext);
        diag->rpc_req_recv_active_count += hg_context_count_active(context);
    }
    (void) pthread_mutex_unlock(&hg_class->lock);
}

/* Add up what the handles counted. */
static void hg_context_collect(hg_context_t *context)
{
    struct hg_counters *counters = &context->counters;
    uint64_t sent[HG_LANE_MAX] = {0}, received[HG_LANE_MAX] = {0}, resp_recv = 0, resp_sent = 0;
    int lane;

    for (lane = 0; lane < HG_LANE_MAX; lane++) {
        hg_pool_collect(&context->origins[lane], sent, &resp_recv);
        hg_pool_collect(&context->targets[lane], received, &resp_sent);
    }
    atomic_store_explicit(&counters->req_sent, sent[HG_LANE_MAIN] + sent[HG_LANE_SM],
                          memory_order_relaxed);
    atomic_store_explicit(&counters->req_sent_sm, sent[HG_LANE_SM], memory_order_relaxed);
    atomic_store_explicit(&counters->resp_recv, resp_recv, memory_order_relaxed);
    atomic_store_explicit(&counters->req_recv, received[HG_LANE_MAIN] + received[HG_LANE_SM],
                          memory_order_relaxed);
    atomic_store_explicit(&counters->req_recv_sm, received[HG_LANE_SM], memory_order_relaxed);
    atomic_store_explicit(&counters->resp_sent, resp_sent, memory_order_relaxed);
}

/* An origin's handle may have been on both lanes, whichever pool it is in. */
static void hg_pool_collect(struct hg_pool *pool, uint64_t *req, uint64_t *resp_p)
{
    struct hg_handle *handle;
    int lane;

    (void) pthread_mutex_lock(&pool->lock);
    for (handle = pool->all; handle != NULL; handle = handle->next_all) {
        for (lane = 0; lane < HG_LANE_MAX; lane++)
            req[lane] += atomic_load_explicit(&handle->req_count[lane], memory_order_relaxed);
        *resp_p += atomic_load_explicit(&handle->resp_count, memory_order_relaxed);
    }
    (void) pthread_mutex_unlock(&pool->lock);
}

/* Requests that were received and whose handles are in use. */
static uint32_t hg_context_count_active(hg_context_t *context)
{
    uint32_t in_use = hg_context_count_handles(context, false);
    uint32_t posted = 0;
    int lane;

    for (lane = 0; lane < HG_LANE_MAX; lane++) {
        int32_t count = atomic_load(&context->posted[lane]);

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
    ext->parked_count += atomic_load(&counters->parked);
}

/* Not an error, but it was asked for: the level makes sure that it is seen. */
static void hg_diag_log(enum na_log_level level, const char *what,
                        const struct hg_diag_counters *diag, const struct hg_ext_counters *ext)
{
    NA_Log_write(level, HG_LOG_SUBSYS, __func__, __LINE__,
                 "counters of %s: requests %" PRIu64 " sent, %" PRIu64 " received, %" PRIu64
                 " active; responses %" PRIu64 " sent, %" PRIu64 " received; extra data %" PRIu64
                 " in, %" PRIu64 " out; bulk transfers %" PRIu64 "; refused: magic %" PRIu64
                 ", version %" PRIu64 ", header %" PRIu64 ", checksum %" PRIu64
                 "; unknown RPCs %" PRIu64 "; late responses %" PRIu64 "; send errors %" PRIu64
                 "; through auto_sm: %" PRIu64 " requests sent, %" PRIu64 " received, %" PRIu64
                 " bulk transfers; timed out: %" PRIu64 ", of which %" PRIu64
                 " were taken from the transport",
                 what, diag->rpc_req_sent_count, diag->rpc_req_recv_count,
                 diag->rpc_req_recv_active_count, diag->rpc_resp_sent_count,
                 diag->rpc_resp_recv_count, diag->rpc_req_extra_count, diag->rpc_resp_extra_count,
                 diag->bulk_count, ext->refused_magic_count, ext->refused_version_count,
                 ext->refused_header_count, ext->refused_checksum_count, ext->unknown_rpc_count,
                 ext->late_response_count, ext->send_error_count, ext->sm_req_sent_count,
                 ext->sm_req_recv_count, ext->sm_bulk_count, ext->timeout_count, ext->parked_count);
}
