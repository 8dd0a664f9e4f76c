/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing an endpoint: BMI, the message layer, put and get. */

#include "bmi_na.h"

/* Bytes of a piece of a put or get. Must be the same on both sides. */
#define PIECE_SIZE (UINT32_C(512) << 10)
#define WINDOW     4u

/* Tags of pieces. */
#define FIRST_TAG 1u

static int32_t class_open(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                          struct na_plugin_class_info *info);
static int32_t class_listen(struct na_plugin_class *na_class, const struct na_plugin_init *init);
static int class_frame_max(const struct na_plugin_class *na_class);
static int32_t class_transfers(struct na_plugin_class *na_class);

static const struct kit_msg_ops bmi_na_ops = {
    .max_sends = 1,
    .has_tcp_names = true,
    .peer_size = sizeof(struct bmi_na_peer),
    .frame_size = sizeof(struct bmi_na_frame),
    .send = bmi_na_frame_send,
    .poll = bmi_na_poll,
    .get_fd = bmi_na_get_fd,
    .try_wait = bmi_na_try_wait,
    .frame_release = bmi_na_frame_release,
    .peer_open = bmi_na_peer_open,
    .peer_close = bmi_na_peer_close,
    .rma_start = kit_remote_start,
    .rma_abandon = kit_remote_abandon,
    .control = kit_remote_control,
};

int32_t bmi_na_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                          struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    struct na_plugin_class *na_class;
    int32_t ret;

    (void) host_class;
    na_class = kit_host->mem_alloc(sizeof(*na_class), 64);
    if (na_class == NULL)
        return NA_PLUGIN_NOMEM;
    na_class->wait_fd = -1;
    kit_list_init(&na_class->peers);
    kit_list_init(&na_class->received);
    kit_list_init(&na_class->sinks);
    ret = class_open(na_class, init, info);
    if (ret != NA_PLUGIN_SUCCESS) {
        (void) bmi_na_finalize(na_class);
        return ret;
    }
    *class_p = na_class;
    return NA_PLUGIN_SUCCESS;
}

/* BMI is closed first, because it uses the memory of pieces and frames while it is open. */
int32_t bmi_na_finalize(struct na_plugin_class *na_class)
{
    if (na_class == NULL)
        return NA_PLUGIN_SUCCESS;
    na_class->is_closing = true;
    if (na_class->library.is_open && na_class->has_context) {
        library_use(&na_class->library);
        BMI_close_context(na_class->context);
    }
    library_close(&na_class->library);
    kit_remote_close(&na_class->base);
    kit_endpoint_close(&na_class->base);
    bmi_na_received_free(na_class);
    bmi_na_sinks_free(na_class);
    kit_host->mem_free(na_class);
    return NA_PLUGIN_SUCCESS;
}

static int32_t class_open(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                          struct na_plugin_class_info *info)
{
    struct kit_endpoint_config config = {
        .ops = &na_class->ops,
        .plugin = BMI_NA_NAME,
        .protocol = BMI_NA_PROTOCOL,
        .name = na_class->name,
        .init = init,
    };
    int frame;
    int32_t ret;

    ret = class_listen(na_class, init);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    na_class->has_context = BMI_open_context(&na_class->context) == 0;
    frame = class_frame_max(na_class);
    if (!na_class->has_context || frame <= 0) {
        BMI_NA_LOG_ERROR("BMI gives no context, or does not say how long a message may be");
        return NA_PLUGIN_IO_ERROR;
    }
    na_class->wait_fd = library_wait_fd();
    na_class->ops = bmi_na_ops;
    na_class->ops.max_frame = (uint64_t) frame;
    ret = class_transfers(na_class);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = kit_endpoint_open(&na_class->base, &config, info);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    info->capabilities |= NA_PLUGIN_CAP_RMA;
    info->max_rma_size = 0; /* no limit: large transfers are sent in pieces */
    BMI_NA_LOG_INFO("%s BMI at %s, frames of %d bytes", library_name, na_class->name, frame);
    return NA_PLUGIN_SUCCESS;
}

/* Every endpoint listens: BMI finds the connection for answers by the name of the listener. */
static int32_t class_listen(struct na_plugin_class *na_class, const struct na_plugin_init *init)
{
    char reason[KIT_LOCATION_REASON_MAX] = "";
    struct sockaddr_storage place;
    struct kit_location location;
    int32_t ret;

    ret = kit_location_parse(init->address != NULL ? init->address : "", &location, reason);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = kit_location_resolve_local(&location, init->ip_subnet, init->addr_format, &place,
                                         reason);
    if (ret != NA_PLUGIN_SUCCESS) {
        BMI_NA_LOG_ERROR("cannot listen at '%.100s': %s",
                         init->address != NULL ? init->address : "", reason);
        return ret;
    }
    ret = library_open(&na_class->library, &place);
    if (ret == NA_PLUGIN_SUCCESS)
        kit_location_format(&place, na_class->name, sizeof(na_class->name));
    return ret;
}

/* Returns BMI's largest unexpected message, or 0. BMI_get_info() needs an address: our own. */
static int class_frame_max(const struct na_plugin_class *na_class)
{
    char name[KIT_NAME_MAX + sizeof(BMI_NA_PREFIX)];
    BMI_addr_t own;
    int size = 0;

    (void) snprintf(name, sizeof(name), BMI_NA_PREFIX "%s", na_class->name);
    if (BMI_addr_lookup(&own, name) < 0 || BMI_set_info(own, BMI_INC_ADDR_REF, NULL) < 0)
        return 0;
    if (BMI_get_info(own, BMI_GET_UNEXP_SIZE, &size) < 0)
        size = 0;
    (void) BMI_set_info(own, BMI_DEC_ADDR_REF, NULL);
    return size;
}

static int32_t class_transfers(struct na_plugin_class *na_class)
{
    const struct kit_rma_config config = {
        .ops = &bmi_na_rma_ops,
        .plugin = BMI_NA_NAME,
        .piece_size = PIECE_SIZE,
        .window = WINDOW,
        .first_tag = FIRST_TAG,
        .piece_private = sizeof(struct bmi_na_piece),
    };

    return kit_remote_open(&na_class->base, &config);
}
