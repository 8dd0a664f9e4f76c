/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step 1: what the plugin says of itself. The core finds na_template.so, calls the one exported
 * function, checks the table and copies it. Tools show these texts without opening anything.
 */

#include "template.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

const struct na_host *template_host;

static int32_t template_enumerate(const char *protocol, na_plugin_offer_fn report, void *arg);

/*
 * What is not here is NULL, and the core does without: no wait of our own (it sleeps on the
 * descriptor), no message buffers of our own, no headers in them, no extensions.
 */
static const struct na_plugin template_plugin = {
    .abi_version = NA_PLUGIN_ABI_VERSION, /* these two first, for ever */
    .size = sizeof(struct na_plugin),
    .name = TEMPLATE_NAME,
    .version = "0.1.0",
    .description = "Unix datagrams between processes of one machine",
    .op_size = sizeof(struct template_op),
    .op_align = _Alignof(struct template_op),
    /* Promise what is kept: na_conformance holds you to every bit. Transfers are emulated, so
     * CAP_RMA_NATIVE is not here. */
    .capabilities = NA_PLUGIN_CAP_RMA | NA_PLUGIN_CAP_WAIT_FD | NA_PLUGIN_CAP_CANCEL_SEND |
                    NA_PLUGIN_CAP_PEER_DEATH,
    .enumerate = template_enumerate,
    .initialize = template_initialize,
    .finalize = template_finalize,
    .context_create = template_context_create,
    .context_stop = template_context_stop,
    .context_destroy = template_context_destroy,
    .addr_lookup = template_addr_lookup,
    .addr_free = template_addr_free,
    .addr_dup = template_addr_dup,
    .addr_self = template_addr_self,
    .addr_is_self = template_addr_is_self,
    .addr_compare = template_addr_compare,
    .addr_to_string = template_addr_to_string,
    .msg_send_unexpected = template_send_unexpected,
    .msg_recv_unexpected = template_recv_unexpected,
    .msg_send_expected = template_send_expected,
    .msg_recv_expected = template_recv_expected,
    .mem_create = template_mem_create,
    .mem_destroy = template_mem_destroy,
    .mem_register = template_mem_register,
    .mem_deregister = template_mem_deregister,
    .mem_serialize_size = template_mem_serialize_size,
    .mem_serialize = template_mem_serialize,
    .mem_deserialize = template_mem_deserialize,
    .put = template_put,
    .get = template_get,
    .poll = template_poll,
    .poll_get_fd = template_poll_get_fd,
    .poll_try_wait = template_poll_try_wait,
    .cancel = template_cancel,
    .cancel_trusted = template_cancel,
};

/* Called once. A fabric that is not on this machine is no error here: say so in enumerate, where
 * hg_info shows it. */
int32_t na_plugin_entry_v1(const struct na_host *host, const struct na_plugin **plugin_p,
                           const char **reason_p)
{
    if (host->abi_version >> 16 != NA_PLUGIN_ABI_MAJOR ||
        host->size < offsetof(struct na_host, clock_ns) + sizeof(host->clock_ns)) {
        *reason_p = "the core's host table is not of ABI 1";
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    template_host = host;
    *plugin_p = &template_plugin;
    return NA_PLUGIN_SUCCESS;
}

/*
 * Everything that can be opened, best first; one line for each device of a real fabric. The
 * priority decides what the init string `auto` takes: 1 is below all that come with Amalgam.
 */
static int32_t template_enumerate(const char *protocol, na_plugin_offer_fn report, void *arg)
{
    struct na_plugin_offer offer = {
        .protocol = TEMPLATE_PROTOCOL,
        .priority = 1,
        .flags = NA_PLUGIN_OFFER_NODE_LOCAL,
    };
    int probe;

    if (protocol != NULL && strcmp(protocol, TEMPLATE_PROTOCOL) != 0)
        return NA_PLUGIN_SUCCESS; /* not ours: nothing to report */
    probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0)
        offer.reason = "there are no Unix sockets, or no more descriptors";
    else
        offer.flags |= NA_PLUGIN_OFFER_USABLE;
    if (probe >= 0)
        (void) close(probe);
    return report(arg, &offer);
}
