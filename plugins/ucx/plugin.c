/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's descriptor and table. */

#include "ucx.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const void *ucx_get_extension(const char *id);
static void ucx_settings_default(void);

const struct kit_msg_ops ucx_ops = {
    .max_frame = UCX_MAX_FRAME,
    .max_sends = UCX_MAX_SENDS,
    .has_tcp_names = true,
    .peer_size = sizeof(struct ucx_peer),
    .frame_size = sizeof(struct ucx_frame),
    .rma_size = sizeof(struct ucx_transfer),
    .send = ucx_send,
    .poll = ucx_poll,
    .get_fd = ucx_get_fd,
    .try_wait = ucx_try_wait,
    .frame_release = ucx_frame_release,
    .peer_open = ucx_peer_open,
    .peer_close = ucx_peer_close,
    .peer_path = ucx_peer_path,
    .path_is_named = ucx_path_is_named,
    .rma_start = ucx_rma_start,
    .rma_abandon = ucx_rma_abandon,
    .control = kit_remote_control,
};

static struct na_plugin ucx_plugin = {
    .abi_version = NA_PLUGIN_ABI_VERSION,
    .size = sizeof(struct na_plugin),
    .name = UCX_PLUGIN_NAME,
    .version = "1.1.0",
    .description = "UCX: InfiniBand and RoCE (rc, ud, dc), sockets, shared memory",
    .capabilities = NA_PLUGIN_CAP_RMA | NA_PLUGIN_CAP_RMA_NATIVE | NA_PLUGIN_CAP_WAIT_FD |
                    NA_PLUGIN_CAP_CANCEL_SEND | NA_PLUGIN_CAP_PEER_DEATH |
                    NA_PLUGIN_CAP_NO_THREADS | NA_PLUGIN_CAP_AUTHENTICATED |
                    NA_PLUGIN_CAP_SECOND_KEY | NA_PLUGIN_CAP_ENCRYPTED |
                    NA_PLUGIN_CAP_MEM_PER_SESSION,
    .enumerate = ucx_enumerate,
    .initialize = ucx_class_initialize,
    .finalize = ucx_class_finalize,
    KIT_MSG_FUNCTIONS,
    .get_extension = ucx_get_extension,
    .addr_lookup = ucx_addr_lookup,
    .mem_create = ucx_mem_create,
    .mem_destroy = ucx_mem_destroy,
    .mem_register = ucx_mem_register,
    .mem_deregister = ucx_mem_deregister,
    .mem_serialize_size = ucx_mem_serialize_size,
    .mem_serialize = ucx_mem_serialize,
    .mem_deserialize = ucx_mem_deserialize,
    .put = kit_msg_put,
    .get = kit_msg_get,
    .poll_get_fd = kit_msg_poll_get_fd,
    .poll_try_wait = kit_msg_poll_try_wait,
    .cleanup = ucx_resources_cleanup,
};

/* The plugin may use all of the API that its UCX headers have, so an older library is refused. */
int32_t na_plugin_entry_v1(const struct na_host *host, const struct na_plugin **plugin_p,
                           const char **reason_p)
{
    int32_t ret = kit_host_set(host, reason_p);
    static char reason[128];
    unsigned major, minor, release;

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    ucp_get_version(&major, &minor, &release);
    if (UCP_VERSION(major, minor) < UCP_API_VERSION) {
        (void) snprintf(reason, sizeof(reason),
                        "it was built with UCX %u.%u and finds the older UCX %u.%u.%u here",
                        (unsigned) UCP_API_MAJOR, (unsigned) UCP_API_MINOR, major, minor, release);
        *reason_p = reason;
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    ucx_settings_default();
    ucx_fork_watch();
    ucx_plugin.op_size = kit_msg_op_size();
    ucx_plugin.op_align = kit_msg_op_align();
    *plugin_p = &ucx_plugin;
    return NA_PLUGIN_SUCCESS;
}

static const void *ucx_get_extension(const char *id)
{
    static const struct na_plugin_offer_details details = {
        .extension = {.size = sizeof(details)},
        .offer_describe = ucx_offer_describe,
    };

    return strcmp(id, NA_PLUGIN_EXT_OFFER_DETAILS) == 0 ? &details : kit_remote_get_extension(id);
}

/*
 * Sets options that UCX reads from the environment alone, unless the user has set them. With the
 * registration cache, peers still reach memory that was deregistered. UD compares the destination
 * GID in each packet with the port's, and packets of soft RoCE have none; only devices of soft RoCE
 * have an entry "parent".
 */
static void ucx_settings_default(void)
{
    glob_t found;

    (void) setenv("UCX_IB_REG_METHODS", "direct", 0);
    if (glob("/sys/class/infiniband/*/parent", GLOB_NOSORT, NULL, &found) != 0)
        return;
    (void) setenv("UCX_UD_VERBS_ETH_DGID_CHECK", "n", 0);
    globfree(&found);
}
