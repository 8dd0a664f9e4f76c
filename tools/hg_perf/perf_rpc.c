/* SPDX-License-Identifier: BSD-3-Clause */
/* Code shared by origin and target of hg_perf. */

#include "hg_perf/perf_rpc.h"
#include "mercury_ext.h"

#include "common/tool_endpoint.h"
#include "common/tool_message.h"

bool perf_rpc_register(hg_class_t *hg_class, hg_rpc_cb_t echo, hg_rpc_cb_t bulk,
                       struct perf_rpc_ids *ids)
{
    ids->echo =
        HG_Register_name(hg_class, "hg_perf_echo", perf_proc_payload, perf_proc_payload, echo);
    ids->bulk = MERCURY_REGISTER(hg_class, "hg_perf_bulk", perf_bulk_in_t, perf_bulk_out_t, bulk);
    if (ids->echo != 0 && ids->bulk != 0)
        return true;
    tool_error("cannot register the RPCs; see the line before");
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
        return HG_OVERFLOW; /* decoded from the wire, so it is checked */
    return hg_proc_bytes(proc, payload->data, payload->size - sizeof(payload->size));
}

/* With one context one thread uses the class: declaring that avoids locks. */
hg_class_t *perf_class_create(const struct perf_options *options, bool listen)
{
    const char *init = listen ? options->init : options->origin_init;
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    hg_class_t *hg_class;

    info.na_init_info.progress_mode = options->busy ? NA_NO_BLOCK : 0;
    info.na_init_info.thread_mode = options->threads == 1 ? NA_THREAD_MODE_SINGLE : 0;
    info.na_init_info.max_contexts = (uint8_t) options->threads;
    info.na_init_info.auth_key = options->key;
    info.encrypt = options->encrypt;
    hg_class = tool_endpoint_open(init, listen, &info);
    if (hg_class != NULL)
        (void) HG_Class_set_poll_time(hg_class, options->poll_us);
    return hg_class;
}
