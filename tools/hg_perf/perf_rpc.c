/* SPDX-License-Identifier: BSD-3-Clause */
/* What origin and target of hg_perf share. */

#include "hg_perf/perf_rpc.h"

#include "common/tool_message.h"

/* Callbacks that one call may run before it looks for new events. */
#define TRIGGER_MAX 64

bool perf_rpc_register(hg_class_t *hg_class, hg_rpc_cb_t echo, hg_rpc_cb_t bulk,
                       struct perf_rpc_ids *ids)
{
    ids->echo =
        HG_Register_name(hg_class, "hg_perf_echo", perf_proc_payload, perf_proc_payload, echo);
    ids->bulk = MERCURY_REGISTER(hg_class, "hg_perf_bulk", perf_bulk_in_t, perf_bulk_out_t, bulk);
    if (ids->echo != 0 && ids->bulk != 0)
        return true;
    tool_error("cannot register the RPCs");
    return false;
}

hg_return_t perf_proc_payload(hg_proc_t proc, void *data)
{
    struct perf_payload *payload = data;
    hg_return_t ret = hg_proc_uint64_t(proc, &payload->size);

    if (ret != HG_SUCCESS || payload->size <= sizeof(payload->size) ||
        hg_proc_get_op(proc) == HG_FREE)
        return ret;
    if (payload->size - sizeof(payload->size) > payload->capacity)
        return HG_OVERFLOW; /* as decoded: it came from the wire */
    return hg_proc_bytes(proc, payload->data, payload->size - sizeof(payload->size));
}

hg_class_t *perf_class_create(const char *init, bool listen, bool busy, unsigned int contexts)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    hg_class_t *hg_class;

    info.na_init_info.progress_mode = busy ? NA_NO_BLOCK : 0;
    info.na_init_info.max_contexts = (uint8_t) contexts;
    hg_class = HG_Init_opt2(init, listen, HG_VERSION(2, 4), &info);
    if (hg_class == NULL)
        tool_error("cannot open an endpoint with --init '%s'; 'hg_info --init %s' shows why", init,
                   init);
    return hg_class;
}

hg_return_t perf_progress(hg_context_t *context, unsigned int timeout_ms)
{
    unsigned int count;
    hg_return_t ret;

    do {
        count = 0;
        ret = HG_Trigger(context, 0, TRIGGER_MAX, &count);
    } while (ret == HG_SUCCESS && count > 0);
    ret = HG_Progress(context, timeout_ms);
    return ret == HG_TIMEOUT || ret == HG_INTERRUPT ? HG_SUCCESS : ret;
}
