/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's table of functions, and the protocols that it offers. */

#include "template.h"

#include <string.h>

static int32_t enumerate(const char *protocol, na_plugin_offer_fn report, void *arg);

/* The options that an init string may set; option_read() in endpoint.c reads them. */
static const char *const options[] = {"attach", NULL};

/* Functions that begin with kit_ are the kit's, as are those of the KIT_*_FUNCTIONS macros. */
static struct na_plugin table = {
    .abi_version = NA_PLUGIN_ABI_VERSION,
    .size = sizeof(struct na_plugin),
    .name = TEMPLATE_NAME,
    .version = "0.1.0",
    .description = "Unix datagrams between the processes of one user",
    .capabilities = NA_PLUGIN_CAP_RMA | NA_PLUGIN_CAP_WAIT_FD | NA_PLUGIN_CAP_CANCEL_SEND |
                    NA_PLUGIN_CAP_PEER_DEATH | NA_PLUGIN_CAP_NO_THREADS |
                    NA_PLUGIN_CAP_AUTHENTICATED | NA_PLUGIN_CAP_SECOND_KEY |
                    NA_PLUGIN_CAP_ENCRYPTED | NA_PLUGIN_CAP_MEM_PER_SESSION,
    .enumerate = enumerate,
    .initialize = template_initialize,
    .finalize = template_finalize,
    KIT_MSG_FUNCTIONS,
    .get_extension = kit_remote_get_extension,
    .addr_lookup = template_addr_lookup,
    KIT_REMOTE_FUNCTIONS,
    .put = kit_msg_put,
    .get = kit_msg_get,
    .poll_get_fd = kit_msg_poll_get_fd,
    .poll_try_wait = kit_msg_poll_try_wait,
    .option_names = options,
};

/* The only exported function. The core calls it once, when it has loaded the plugin. */
int32_t na_plugin_entry_v1(const struct na_host *host, const struct na_plugin **plugin_p,
                           const char **reason_p)
{
    const int32_t status = kit_host_set(host, reason_p);

    if (status != NA_PLUGIN_SUCCESS)
        return status;
    table.op_size = kit_msg_op_size();
    table.op_align = kit_msg_op_align();
    *plugin_p = &table;
    return NA_PLUGIN_SUCCESS;
}

/*
 * Reports the plugin's only protocol, which works on every machine. Its priority is low, so that an
 * init string without a plugin's name picks another plugin. A plugin with several protocols or
 * devices reports each, and those that this machine lacks without NA_PLUGIN_OFFER_USABLE and with
 * a reason.
 */
static int32_t enumerate(const char *protocol, na_plugin_offer_fn report, void *arg)
{
    static const struct na_plugin_offer offer = {
        .protocol = TEMPLATE_PROTOCOL,
        .priority = 1,
        .flags = NA_PLUGIN_OFFER_USABLE | NA_PLUGIN_OFFER_NODE_LOCAL,
    };

    if (protocol != NULL && strcmp(protocol, offer.protocol) != 0)
        return NA_PLUGIN_SUCCESS;
    return report(arg, &offer);
}
