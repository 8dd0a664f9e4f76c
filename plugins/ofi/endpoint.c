/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing a class. */

#include "ofi.h"

#include <errno.h>
#include <string.h>

/* Time for a listening peer to accept; enough for hundreds of connections that come at once. */
#define OFI_CONNECT_NS UINT64_C(120000000000)
#define OFI_FENCE_NS   UINT64_C(200000000)

/* Time for an accepted connection to receive its first bytes, as with other transports. */
#define OFI_UNIDENTIFIED_MS 60000u

static void ofi_fences_await(struct na_plugin_class *na_class);
static int32_t ofi_class_open(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                              struct na_plugin_class_info *info);
static void ofi_class_configure(struct na_plugin_class *na_class,
                                const struct na_plugin_init *init);
static uint64_t ofi_frame_size(const struct na_plugin_class *na_class);
static void ofi_fill_info(const struct na_plugin_class *na_class,
                          struct na_plugin_class_info *info);

static const struct kit_msg_ops ofi_ops = {
    .max_sends = 1,
    .peer_size = sizeof(struct ofi_peer),
    .frame_size = sizeof(struct ofi_send),
    .rma_size = sizeof(struct ofi_rma),
    .send = ofi_frame_send,
    .poll = ofi_poll,
    .get_fd = ofi_get_fd,
    .try_wait = ofi_try_wait,
    .frame_release = ofi_frame_release,
    .peer_open = ofi_peer_open,
    .peer_close = ofi_peer_close,
    .peer_abort = ofi_peer_abort,
    .slab_register = ofi_slab_register,
    .slab_deregister = ofi_slab_deregister,
    .rma_start = ofi_rma_start,
    .rma_abandon = ofi_rma_abandon,
    .reset = ofi_reset,
    .control = kit_remote_control,
};

int32_t ofi_class_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                             struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    struct na_plugin_class *na_class;
    int32_t ret;

    (void) host_class;
    na_class = kit_host->mem_alloc(sizeof(*na_class), OFI_CACHE_LINE);
    if (na_class == NULL)
        return NA_PLUGIN_NOMEM;
    na_class->wait_fd = -1;
    na_class->connect_ns = OFI_CONNECT_NS;
    na_class->unidentified_ms = OFI_UNIDENTIFIED_MS;
    na_class->rmas_waiting_end = &na_class->rmas_waiting;
    kit_list_init(&na_class->addresses);
    kit_list_init(&na_class->moves);
    ret = kit_regions_open(&na_class->regions);
    if (ret != NA_PLUGIN_SUCCESS)
        OFI_LOG_ERROR("no random numbers (%s)", strerror(errno));
    else
        ret = ofi_class_open(na_class, init, info);
    if (ret != NA_PLUGIN_SUCCESS) {
        (void) ofi_class_finalize(na_class);
        return ret;
    }
    *class_p = na_class;
    return NA_PLUGIN_SUCCESS;
}

int32_t ofi_class_finalize(struct na_plugin_class *na_class)
{
    struct ofi_resources resources;

    if (na_class == NULL)
        return NA_PLUGIN_SUCCESS;
    if (na_class->protocol.is_fenced)
        ofi_fences_await(na_class);
    /*
     * Closed before the message layer, whose frames may be posted to it. A node-local endpoint may
     * be kept (local.c): it copies frames, so it has none posted.
     */
    if (na_class->endpoint != NULL && na_class->local == NULL) {
        if (ofi_target_is_busy(na_class, NULL, NULL))
            ofi_abort_moves(na_class, NULL);
        ofi_unidentified_end(na_class);
        ofi_data_stop(na_class);
        if ((na_class->mr_mode & FI_MR_ENDPOINT) != 0) /* cxi: fails while memory is bound to it */
            ofi_mem_destroy_all(na_class);
        ofi_close(&na_class->endpoint->fid);
        na_class->endpoint = NULL;
    }
    ofi_unidentified_close(na_class);
    kit_remote_close(&na_class->base);
    ofi_mem_destroy_all(na_class);
    kit_endpoint_close(&na_class->base);
    ofi_address_destroy_all(na_class);
    ofi_data_close(na_class);
    ofi_cm_close(na_class);
    resources = (struct ofi_resources){
        .info = na_class->info,
        .fabric = na_class->fabric,
        .domain = na_class->domain,
        .endpoint = na_class->endpoint,
        .cq = na_class->cq,
        .sleep_cq = na_class->sleep_cq,
        .av = na_class->av,
        .receive_mr = na_class->receive_mr,
        .receive_memory = na_class->receive_memory,
        .receives = na_class->receives,
    };
    ofi_local_close(na_class->local, &resources);
    ofi_receives_free(na_class);
    kit_regions_close(&na_class->regions);
    kit_host->mem_free(na_class);
    return NA_PLUGIN_SUCCESS;
}

/* Frames that were injected arrive before the endpoint is closed, if their peers still poll. */
static void ofi_fences_await(struct na_plugin_class *na_class)
{
    uint64_t end = kit_host->clock_ns() + OFI_FENCE_NS;

    while (na_class->base.state != NULL && ofi_address_is_fencing(na_class) &&
           kit_host->clock_ns() < end)
        if (ofi_poll(&na_class->base) != NA_PLUGIN_SUCCESS)
            break;
}

static int32_t ofi_class_open(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                              struct na_plugin_class_info *info)
{
    struct kit_endpoint_config config = {
        .ops = &na_class->ops,
        .plugin = OFI_PLUGIN_NAME,
        .protocol = na_class->protocol_name,
        .name = na_class->name,
        .init = init,
    };
    uint8_t raw[KIT_RAW_MAX];
    size_t size = sizeof(raw);
    int32_t ret;
    int error;

    ret = ofi_select(na_class, init);
    if (ret == NA_PLUGIN_SUCCESS) {
        ofi_class_configure(na_class, init);
        ret = ofi_fabric_open(na_class);
    }
    if (ret == NA_PLUGIN_SUCCESS)
        ret = ofi_receives_create(na_class);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = ofi_target_open(na_class);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    error = fi_getname(&na_class->endpoint->fid, raw, &size);
    if (error != 0)
        return ofi_failed(na_class, "its own address", error);
    ret = ofi_address_name(na_class, raw, size, na_class->name);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = ofi_local_add(na_class);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    ret = kit_endpoint_open(&na_class->base, &config, info);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    if (kit_endpoint_encrypts(&na_class->base) && na_class->base.rma == NULL) {
        OFI_LOG_ERROR(
            "%s does not encrypt: bulk data move by reads and writes of the fabric itself; "
            "take ofi+tcp, or leave `encrypt` out",
            na_class->info->fabric_attr->prov_name);
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    ofi_fill_info(na_class, info);
    OFI_LOG_INFO("provider %s, domain %s, at %s", na_class->info->fabric_attr->prov_name,
                 na_class->info->domain_attr->name, na_class->name);
    return NA_PLUGIN_SUCCESS;
}

/* Takes the limits and modes of the provider from its fi_info. */
static void ofi_class_configure(struct na_plugin_class *na_class, const struct na_plugin_init *init)
{
    const struct fi_info *info = na_class->info;
    size_t key_size = info->domain_attr->mr_key_size;

    na_class->ops = ofi_ops;
    na_class->ops.has_tcp_names = na_class->protocol.tcp_port;
    na_class->ops.max_frame = ofi_frame_size(na_class);
    na_class->is_listening = init->listen != 0;
    na_class->busy = (init->progress_mode & NA_PLUGIN_PROGRESS_BUSY) != 0;
    na_class->mr_mode = (uint64_t) info->domain_attr->mr_mode;
    na_class->key_mask = key_size == 0 || key_size >= sizeof(uint64_t)
                             ? UINT64_MAX
                             : (UINT64_C(1) << (8 * key_size)) - 1;
    na_class->max_rma = info->ep_attr->max_msg_size;
    na_class->inject_size = info->tx_attr->inject_size;
    na_class->put_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
    na_class->is_target_driven = ofi_is_target_driven(&na_class->protocol, info);
    na_class->uses_attach = na_class->protocol.node_local && (info->caps & FI_HMEM) == 0;
    na_class->protocol.naming = ofi_format_naming(info->addr_format);
}

/* Only what the provider sends eagerly completes in the order of sending. */
static uint64_t ofi_frame_size(const struct na_plugin_class *na_class)
{
    uint64_t limit = na_class->info->ep_attr->max_msg_size;

    return na_class->protocol.frame < limit ? na_class->protocol.frame : limit;
}

static void ofi_fill_info(const struct na_plugin_class *na_class, struct na_plugin_class_info *info)
{
    info->max_rma_size = 0; /* unlimited: transfers are made in pieces */
    info->capabilities |= NA_PLUGIN_CAP_RMA;
    if (na_class->base.rma == NULL && ofi_is_native(&na_class->protocol, na_class->info))
        info->capabilities |= NA_PLUGIN_CAP_RMA_NATIVE;
    if ((na_class->info->caps & FI_HMEM) != 0)
        info->capabilities |= NA_PLUGIN_CAP_DEVICE_MEM;
    /* A process killed with a lock in shared memory blocks libfabric in its peers for ever. */
    if (na_class->protocol.node_local)
        info->capabilities &= ~NA_PLUGIN_CAP_PEER_DEATH;
}
