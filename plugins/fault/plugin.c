/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's descriptor and table. */

#include "fault.h"

#include <string.h>

static int32_t fault_enumerate(const char *protocol, na_plugin_offer_fn report, void *arg);
static const void *fault_get_extension(const char *id);

static const struct na_plugin fault_plugin = {
    .abi_version = NA_PLUGIN_ABI_VERSION,
    .size = sizeof(struct na_plugin),
    .name = FAULT_PLUGIN_NAME,
    .version = "1.1.0",
    .description = "Injects loss, delay, reordering, refused cancels and death before a transport",
    .op_size = sizeof(struct fault_op),
    .op_align = _Alignof(struct fault_op),
    .capabilities = FAULT_CAPABILITIES,
    .enumerate = fault_enumerate,
    .initialize = fault_class_initialize,
    .finalize = fault_class_finalize,
    .context_create = fault_context_create,
    .context_stop = fault_context_stop,
    .context_destroy = fault_context_destroy,
    .op_initialize = fault_op_initialize,
    .op_finalize = fault_op_finalize,
    .addr_lookup = fault_addr_lookup,
    .addr_free = fault_addr_free,
    .addr_dup = fault_addr_dup,
    .addr_self = fault_addr_self,
    .addr_is_self = fault_addr_is_self,
    .addr_compare = fault_addr_compare,
    .addr_to_string = fault_addr_to_string,
    .addr_set_remove = fault_addr_set_remove,
    .msg_buf_alloc = fault_msg_buf_alloc,
    .msg_buf_free = fault_msg_buf_free,
    .msg_init_unexpected = fault_msg_init_unexpected,
    .msg_init_expected = fault_msg_init_expected,
    .msg_send_unexpected = fault_send_unexpected,
    .msg_recv_unexpected = fault_recv_unexpected,
    .msg_send_expected = fault_send_expected,
    .msg_recv_expected = fault_recv_expected,
    .mem_create = fault_mem_create,
    .mem_destroy = fault_mem_destroy,
    .mem_register = fault_mem_register,
    .mem_deregister = fault_mem_deregister,
    .mem_serialize_size = fault_mem_serialize_size,
    .mem_serialize = fault_mem_serialize,
    .mem_deserialize = fault_mem_deserialize,
    .put = fault_put,
    .get = fault_get,
    .poll = fault_poll,
    .poll_get_fd = fault_poll_get_fd,
    .poll_try_wait = fault_poll_try_wait,
    .cancel = fault_cancel,
    .get_extension = fault_get_extension,
    .cancel_trusted = fault_cancel_trusted,
    .addr_capabilities = fault_addr_capabilities,
};

int32_t na_plugin_entry_v1(const struct na_host *host, const struct na_plugin **plugin_p,
                           const char **reason_p)
{
    const struct na_plugin_wrap *wrap = NULL;
    int32_t ret = kit_host_set(host, reason_p);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    if (host->size >= offsetof(struct na_host, get_extension) + sizeof(host->get_extension) &&
        host->get_extension != NULL)
        wrap = host->get_extension(NA_PLUGIN_EXT_WRAP);
    if (wrap == NULL || wrap->extension.size < offsetof(struct na_plugin_wrap, op_destroy) +
                                                   sizeof(wrap->op_destroy)) {
        *reason_p = "the core cannot let one plugin wrap another (" NA_PLUGIN_EXT_WRAP ")";
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    fault_wrap = wrap;
    *plugin_p = &fault_plugin;
    return NA_PLUGIN_SUCCESS;
}

/* Offers any protocol, but only to init strings that name this plugin. Whether the wrapped plugin
 * exists is checked when it is opened: a check here would ask all plugins once more. */
static int32_t fault_enumerate(const char *protocol, na_plugin_offer_fn report, void *arg)
{
    const struct na_plugin_offer offer = {
        .protocol = protocol,
        .flags = NA_PLUGIN_OFFER_USABLE | NA_PLUGIN_OFFER_NAMED_ONLY,
    };

    return protocol != NULL ? report(arg, &offer) : NA_PLUGIN_SUCCESS;
}

static const void *fault_get_extension(const char *id)
{
    if (strcmp(id, NA_PLUGIN_EXT_MULTI_RECV) == 0)
        return &fault_multi_recv_extension;
    if (strcmp(id, NA_PLUGIN_EXT_ADDR_SERIALIZE) == 0)
        return &fault_addr_serialize_extension;
    if (strcmp(id, NA_PLUGIN_EXT_MEM_SEGMENTS) == 0)
        return &fault_mem_segments_extension;
    if (strcmp(id, NA_PLUGIN_EXT_COUNTERS) == 0)
        return &fault_counters_extension;
    if (strcmp(id, NA_PLUGIN_EXT_PEER_EVENTS) == 0)
        return &fault_peer_events_extension;
    return NULL;
}
