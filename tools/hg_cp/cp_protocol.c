/* SPDX-License-Identifier: BSD-3-Clause */
/* What both sides of hg_cp share. */

#include "hg_cp/cp_protocol.h"

#include "common/tool_message.h"

#define TRIGGER_MAX 16

bool cp_protocol_register(hg_class_t *hg_class, hg_rpc_cb_t open, hg_rpc_cb_t pull,
                          hg_rpc_cb_t close, struct cp_rpc_ids *ids)
{
    ids->open = MERCURY_REGISTER(hg_class, "hg_cp_open", cp_open_in_t, cp_open_out_t, open);
    ids->pull = MERCURY_REGISTER(hg_class, "hg_cp_pull", cp_pull_in_t, cp_pull_out_t, pull);
    ids->close = MERCURY_REGISTER(hg_class, "hg_cp_close", cp_close_in_t, cp_close_out_t, close);
    if (ids->open != 0 && ids->pull != 0 && ids->close != 0)
        return true;
    tool_error("cannot register the RPCs");
    return false;
}

hg_class_t *cp_protocol_class_create(const char *init, bool listen)
{
    hg_class_t *hg_class = HG_Init(init, listen);

    if (hg_class == NULL)
        tool_error("cannot open an endpoint with --init '%s'; 'hg_info --init %s' shows why", init,
                   init);
    return hg_class;
}

hg_return_t cp_protocol_progress(hg_context_t *context, unsigned int timeout_ms)
{
    unsigned int count = 0;
    hg_return_t ret;

    /* What was called back may be what the caller waits for: only who found nothing sleeps. */
    ret = HG_Trigger(context, 0, TRIGGER_MAX, &count);
    if (ret == HG_SUCCESS && count > 0)
        return HG_SUCCESS;
    ret = HG_Progress(context, timeout_ms);
    return ret == HG_TIMEOUT || ret == HG_INTERRUPT || ret == HG_AGAIN ? HG_SUCCESS : ret;
}
