/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's descriptor and table: BMI's TCP method. */

#include "bmi_na.h"

static struct na_plugin bmi_na_plugin = {
    .abi_version = NA_PLUGIN_ABI_VERSION,
    .size = sizeof(struct na_plugin),
    .name = BMI_NA_NAME,
    .version = "1.0.0",
    .description = "TCP through the Buffered Message Interface",
    .capabilities = NA_PLUGIN_CAP_RMA | NA_PLUGIN_CAP_WAIT_FD | NA_PLUGIN_CAP_CANCEL_SEND |
                    NA_PLUGIN_CAP_PEER_DEATH | NA_PLUGIN_CAP_NO_THREADS |
                    NA_PLUGIN_CAP_AUTHENTICATED,
    .enumerate = bmi_na_enumerate,
    .initialize = bmi_na_initialize,
    .finalize = bmi_na_finalize,
    .context_create = kit_msg_context_create,
    .context_stop = kit_msg_context_stop,
    .context_destroy = kit_msg_context_destroy,
    .addr_lookup = bmi_na_addr_lookup,
    .addr_free = kit_msg_addr_free,
    .addr_dup = kit_msg_addr_dup,
    .addr_self = kit_msg_addr_self,
    .addr_is_self = kit_msg_addr_is_self,
    .addr_compare = kit_msg_addr_compare,
    .addr_to_string = kit_msg_addr_to_string,
    .addr_set_remove = kit_msg_addr_set_remove,
    .msg_send_unexpected = kit_msg_send_unexpected,
    .msg_recv_unexpected = kit_msg_recv_unexpected,
    .msg_send_expected = kit_msg_send_expected,
    .msg_recv_expected = kit_msg_recv_expected,
    .mem_create = kit_remote_mem_create,
    .mem_destroy = kit_remote_mem_destroy,
    .mem_register = kit_remote_mem_register,
    .mem_deregister = kit_remote_mem_deregister,
    .mem_serialize_size = kit_remote_mem_serialize_size,
    .mem_serialize = kit_remote_mem_serialize,
    .mem_deserialize = kit_remote_mem_deserialize,
    .put = kit_msg_put,
    .get = kit_msg_get,
    .poll = kit_msg_poll,
    .poll_get_fd = kit_msg_poll_get_fd,
    .poll_try_wait = kit_msg_poll_try_wait,
    .cancel = kit_msg_cancel,
    .cancel_trusted = kit_msg_cancel_trusted,
    .get_extension = kit_msg_get_extension,
};

int32_t na_plugin_entry_v1(const struct na_host *host, const struct na_plugin **plugin_p,
                           const char **reason_p)
{
    int32_t ret = kit_host_set(host, reason_p);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    bmi_na_plugin.op_size = kit_msg_op_size();
    bmi_na_plugin.op_align = kit_msg_op_align();
    *plugin_p = &bmi_na_plugin;
    return NA_PLUGIN_SUCCESS;
}
