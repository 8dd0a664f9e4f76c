/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's descriptor and table: the providers of libfabric. */

#include "ofi.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const void *ofi_get_extension(const char *id);
static void ofi_settings_default(void);
static void ofi_settings_verbs(void);
static bool ofi_matches(const char *pattern);

static struct na_plugin ofi_plugin = {
    .abi_version = NA_PLUGIN_ABI_VERSION,
    .size = sizeof(struct na_plugin),
    .name = OFI_PLUGIN_NAME,
    .version = "1.1.0",
    .description = "Fabrics and networks through libfabric",
    .capabilities = NA_PLUGIN_CAP_RMA | NA_PLUGIN_CAP_RMA_NATIVE | NA_PLUGIN_CAP_WAIT_FD |
                    NA_PLUGIN_CAP_CANCEL_SEND | NA_PLUGIN_CAP_PEER_DEATH |
                    NA_PLUGIN_CAP_DEVICE_MEM | NA_PLUGIN_CAP_NO_THREADS |
                    NA_PLUGIN_CAP_AUTHENTICATED | NA_PLUGIN_CAP_SECOND_KEY |
                    NA_PLUGIN_CAP_ENCRYPTED | NA_PLUGIN_CAP_MEM_PER_SESSION,
    .enumerate = ofi_enumerate,
    .initialize = ofi_class_initialize,
    .finalize = ofi_class_finalize,
    KIT_MSG_FUNCTIONS,
    .get_extension = ofi_get_extension,
    .addr_lookup = ofi_addr_lookup,
    .mem_create = ofi_mem_create,
    .mem_destroy = ofi_mem_destroy,
    .mem_register = ofi_mem_register,
    .mem_deregister = ofi_mem_deregister,
    .mem_serialize_size = ofi_mem_serialize_size,
    .mem_serialize = ofi_mem_serialize,
    .mem_deserialize = ofi_mem_deserialize,
    .put = ofi_put,
    .get = ofi_get,
    .poll_get_fd = kit_msg_poll_get_fd,
    .poll_try_wait = kit_msg_poll_try_wait,
    .cleanup = ofi_enumerate_cleanup,
};

int32_t na_plugin_entry_v1(const struct na_host *host, const struct na_plugin **plugin_p,
                           const char **reason_p)
{
    int32_t ret = kit_host_set(host, reason_p);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    if (FI_VERSION_LT(fi_version(), OFI_API_VERSION)) {
        *reason_p = "the installed libfabric is older than 1.17";
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    ofi_settings_default();
    ofi_fork_watch();
    ofi_plugin.op_size = kit_msg_op_size();
    ofi_plugin.op_align = kit_msg_op_align();
    *plugin_p = &ofi_plugin;
    return NA_PLUGIN_SUCCESS;
}

static const void *ofi_get_extension(const char *id)
{
    static const struct na_plugin_offer_details details = {
        .extension = {.size = sizeof(details)},
        .offer_describe = ofi_offer_describe,
    };

    return strcmp(id, NA_PLUGIN_EXT_OFFER_DETAILS) == 0 ? &details : kit_remote_get_extension(id);
}

/*
 * Sets variables for which libfabric has no calls, unless the user has set them.
 *
 * ofi_rxm: the default is 4096 receive buffers of 16 KiB for each endpoint over TCP, 70 MB, and 128
 * for each connection over verbs. Buffers are allocated 1024 at a time, so fewer save nothing.
 *
 * sockets: its thread spins for 10 ms after each event, and takes the processor from the threads
 * that would cause the next one. fi_send() connects, and would block for 150 s if a host does not
 * answer. When there are more connections than the initial table has room for, the table is moved
 * while other threads use it.
 */
static void ofi_settings_default(void)
{
    (void) setenv("FI_OFI_RXM_MSG_RX_SIZE", "256", 0);
    (void) setenv("FI_OFI_RXM_USE_SRX", "1", 0);
    (void) setenv("FI_SOCKETS_PE_WAITTIME", "0", 0);
    (void) setenv("FI_SOCKETS_CONN_TIMEOUT", "2000", 0);
    (void) setenv("FI_SOCKETS_MAX_CONN_RETRY", "2", 0);
    (void) setenv("FI_SOCKETS_DEF_CONN_MAP_SZ", "8192", 0);
    if (ofi_matches("/sys/class/infiniband/*"))
        ofi_settings_verbs();
}

/*
 * FI_MR_CACHE_MAX_COUNT: the registration cache registers with all access rights, which fails for
 * read-only memory, and peers still reach memory that was deregistered. cxi needs the cache for the
 * local side of each transfer.
 *
 * FI_AV_REMOVE_CLEANUP: without it a broken connection stays when its address is removed.
 *
 * FI_UNIVERSE_SIZE: the queues of Soft RoCE are too small for what ofi_rxm asks for by default, for
 * 256 peers. Only Soft RoCE devices have an entry "parent".
 */
static void ofi_settings_verbs(void)
{
    const char *srx = getenv("FI_OFI_RXM_USE_SRX");

    if (!ofi_matches("/sys/class/cxi/*"))
        (void) setenv("FI_MR_CACHE_MAX_COUNT", "0", 0);
    (void) setenv("FI_AV_REMOVE_CLEANUP", "1", 0);
    if (srx != NULL && (strchr("0nNfF", srx[0]) != NULL || strcasecmp(srx, "off") == 0)) {
        OFI_LOG_WARNING("FI_OFI_RXM_USE_SRX is %s, and 1 is set: closing an endpoint over verbs "
                        "can end the process with it",
                        srx);
        (void) setenv("FI_OFI_RXM_USE_SRX", "1", 1);
    }
    if (ofi_matches("/sys/class/infiniband/*/parent"))
        (void) setenv("FI_UNIVERSE_SIZE", "64", 0);
}

static bool ofi_matches(const char *pattern)
{
    glob_t found;
    const bool matches = glob(pattern, GLOB_NOSORT, NULL, &found) == 0;

    globfree(&found);
    return matches;
}
