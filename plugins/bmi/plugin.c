/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's descriptor and table: BMI's TCP method. */

#include "bmi_na.h"

#include <stdio.h>
#include <string.h>

static const void *plugin_get_extension(const char *id);
static int32_t plugin_offer_describe(const char *protocol, const char *device, char *text,
                                     uint64_t size);

static struct na_plugin bmi_na_plugin = {
    .abi_version = NA_PLUGIN_ABI_VERSION,
    .size = sizeof(struct na_plugin),
    .name = BMI_NA_NAME,
    .version = "1.1.0",
    .description = "TCP through the Buffered Message Interface",
    .capabilities = NA_PLUGIN_CAP_RMA | NA_PLUGIN_CAP_WAIT_FD | NA_PLUGIN_CAP_CANCEL_SEND |
                    NA_PLUGIN_CAP_PEER_DEATH | NA_PLUGIN_CAP_NO_THREADS |
                    NA_PLUGIN_CAP_AUTHENTICATED | NA_PLUGIN_CAP_SECOND_KEY |
                    NA_PLUGIN_CAP_ENCRYPTED | NA_PLUGIN_CAP_MEM_PER_SESSION,
    .enumerate = bmi_na_enumerate,
    .initialize = bmi_na_initialize,
    .finalize = bmi_na_finalize,
    KIT_MSG_FUNCTIONS,
    .get_extension = plugin_get_extension,
    .addr_lookup = bmi_na_addr_lookup,
    KIT_REMOTE_FUNCTIONS,
    .put = kit_msg_put,
    .get = kit_msg_get,
    .poll_get_fd = kit_msg_poll_get_fd,
    .poll_try_wait = kit_msg_poll_try_wait,
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

static const void *plugin_get_extension(const char *id)
{
    static const struct na_plugin_offer_details details = {
        .extension = {.size = sizeof(details)},
        .offer_describe = plugin_offer_describe,
    };

    return strcmp(id, NA_PLUGIN_EXT_OFFER_DETAILS) == 0 ? &details : kit_remote_get_extension(id);
}

static int32_t plugin_offer_describe(const char *protocol, const char *device, char *text,
                                     uint64_t size)
{
    (void) protocol;
    (void) device;
    (void) snprintf(text, size, "BMI's method tcp; emulated RMA; registration: none");
    return NA_PLUGIN_SUCCESS;
}
