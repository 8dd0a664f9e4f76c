/* SPDX-License-Identifier: BSD-3-Clause */
/* Code shared by both sides of hg_cp. */

#include "hg_cp/cp_protocol.h"

#include "common/tool_message.h"

bool cp_protocol_register(hg_class_t *hg_class, hg_rpc_cb_t open, hg_rpc_cb_t pull,
                          hg_rpc_cb_t close, struct cp_rpc_ids *ids)
{
    ids->open = MERCURY_REGISTER(hg_class, "hg_cp_open", cp_open_in_t, cp_open_out_t, open);
    ids->pull = MERCURY_REGISTER(hg_class, "hg_cp_pull", cp_pull_in_t, cp_pull_out_t, pull);
    ids->close = MERCURY_REGISTER(hg_class, "hg_cp_close", cp_close_in_t, cp_close_out_t, close);
    if (ids->open != 0 && ids->pull != 0 && ids->close != 0)
        return true;
    tool_error("cannot register the RPCs; see the line before");
    return false;
}
