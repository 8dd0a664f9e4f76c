/* SPDX-License-Identifier: BSD-3-Clause */
/* What the plugin says of itself: its table, and what can be opened. */

#include "template.h"

#include <string.h>

static int32_t enumerate(const char *protocol, na_plugin_offer_fn report, void *arg);

/* What an init string may set: see option_read() in endpoint.c. */
static const char *const options[] = {"attach", NULL};

/* What begins with kit_ is the kit's, as it is. */
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

/* The one function that is exported. */
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
 * One protocol, which opens everywhere. The priority is low: whoever does not name the plugin gets
 * another one. A fabric that this machine lacks is reported without NA_PLUGIN_OFFER_USABLE, with
 * the reason; one with several protocols or devices reports each.
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
