/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's descriptor and table: shared memory between processes of one user on one node. */

#include "sm.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static int32_t sm_enumerate(const char *protocol, na_plugin_offer_fn report, void *arg);
static int32_t sm_offer_describe(const char *protocol, const char *device, char *text,
                                 uint64_t size);
static const void *sm_get_extension(const char *id);

static const char *const sm_class_names[] = {"na", NULL};
static const char *const sm_option_names[] = {"rma", "pool", NULL};

static const struct na_plugin sm_plugin = {
    .abi_version = NA_PLUGIN_ABI_VERSION,
    .size = sizeof(struct na_plugin),
    .name = SM_PLUGIN_NAME,
    .version = "1.1.0",
    .description = "Shared memory between processes of one user on one node",
    .class_names = sm_class_names,
    .op_size = sizeof(struct sm_op),
    .op_align = _Alignof(struct sm_op),
    .capabilities = NA_PLUGIN_CAP_RMA | NA_PLUGIN_CAP_RMA_NATIVE | NA_PLUGIN_CAP_WAIT_FD |
                    NA_PLUGIN_CAP_CANCEL_SEND | NA_PLUGIN_CAP_PEER_DEATH | NA_PLUGIN_CAP_NO_THREADS,
    .enumerate = sm_enumerate,
    .initialize = sm_class_initialize,
    .finalize = sm_class_finalize,
    .context_create = sm_context_create,
    .context_stop = sm_context_stop,
    .context_destroy = sm_context_destroy,
    .addr_lookup = sm_addr_lookup,
    .addr_free = sm_addr_free,
    .addr_dup = sm_addr_dup,
    .addr_self = sm_addr_self,
    .addr_is_self = sm_addr_is_self,
    .addr_compare = sm_addr_compare,
    .addr_to_string = sm_addr_to_string,
    .addr_set_remove = sm_addr_set_remove,
    .msg_send_unexpected = sm_send_unexpected,
    .msg_recv_unexpected = sm_recv_unexpected,
    .msg_send_expected = sm_send_expected,
    .msg_recv_expected = sm_recv_expected,
    .mem_create = sm_mem_create,
    .mem_destroy = sm_mem_destroy,
    .mem_register = sm_mem_register,
    .mem_deregister = sm_mem_deregister,
    .mem_serialize_size = sm_mem_serialize_size,
    .mem_serialize = sm_mem_serialize,
    .mem_deserialize = sm_mem_deserialize,
    .put = sm_put,
    .get = sm_get,
    .poll = sm_poll,
    .poll_wait = sm_poll_wait,
    .poll_get_fd = sm_poll_get_fd,
    .poll_try_wait = sm_poll_try_wait,
    .wake = sm_wake,
    .cancel = sm_cancel,
    .get_extension = sm_get_extension,
    .cleanup = sm_reap_all,
    .cancel_trusted = sm_cancel_trusted,
    .option_names = sm_option_names,
    .addr_capabilities = sm_addr_capabilities,
};

int32_t na_plugin_entry_v1(const struct na_host *host, const struct na_plugin **plugin_p,
                           const char **reason_p)
{
    int32_t ret = kit_host_set(host, reason_p);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    sm_class_prepare_fork();
    *plugin_p = &sm_plugin;
    return NA_PLUGIN_SUCCESS;
}

static int32_t sm_enumerate(const char *protocol, na_plugin_offer_fn report, void *arg)
{
    struct na_plugin_offer offer = {
        .protocol = "sm",
        .priority = 100,
        .flags = NA_PLUGIN_OFFER_NODE_LOCAL,
    };

    if (protocol != NULL && strcmp(protocol, "sm") != 0)
        return NA_PLUGIN_SUCCESS;
    if (access(SM_DIRECTORY, R_OK | W_OK | X_OK) == 0)
        offer.flags |= NA_PLUGIN_OFFER_USABLE;
    else
        offer.reason = SM_DIRECTORY " cannot be written to";
    return report(arg, &offer);
}

static int32_t sm_offer_describe(const char *protocol, const char *device, char *text,
                                 uint64_t size)
{
    struct utsname system;

    (void) protocol;
    (void) device;
    (void) snprintf(text, size, "Linux %s; native RMA by cross-memory attach; registration: none",
                    uname(&system) == 0 ? system.release : "of an unknown version");
    return NA_PLUGIN_SUCCESS;
}

static const void *sm_get_extension(const char *id)
{
    static const struct na_plugin_offer_details details = {
        .extension = {.size = sizeof(details)},
        .offer_describe = sm_offer_describe,
    };

    if (strcmp(id, NA_PLUGIN_EXT_OFFER_DETAILS) == 0)
        return &details;
    if (strcmp(id, NA_PLUGIN_EXT_MULTI_RECV) == 0)
        return &sm_multi_recv_extension;
    if (strcmp(id, NA_PLUGIN_EXT_MEM_SEGMENTS) == 0)
        return &sm_mem_segments_extension;
    if (strcmp(id, NA_PLUGIN_EXT_ADDR_SERIALIZE) == 0)
        return &sm_addr_serialize_extension;
    if (strcmp(id, NA_PLUGIN_EXT_COUNTERS) == 0)
        return &sm_counters_extension;
    if (strcmp(id, NA_PLUGIN_EXT_PEER_EVENTS) == 0)
        return &sm_peer_events_extension;
    if (strcmp(id, NA_PLUGIN_EXT_MEM_ALLOC) == 0)
        return &sm_mem_alloc_extension;
    return NULL;
}
