/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets: from the message layer to the engine for remote memory and back. */

#include "bmi_na.h"

/* The one type of control record of this plugin. */
#define CONTROL_RMA 1u

int32_t bmi_na_rma_start(struct kit_endpoint *endpoint, struct kit_msg_rma *rma)
{
    struct na_plugin_class *na_class = bmi_na_class(endpoint);
    struct bmi_na_rma *private = rma->priv;
    const struct kit_rma_request request = {
        .peer = rma->peer,
        .local = bmi_na_memory(rma->local),
        .local_offset = rma->local_offset,
        .remote = bmi_na_memory(rma->remote),
        .remote_offset = rma->remote_offset,
        .length = rma->length,
        .is_put = rma->is_put,
        .cookie = rma,
    };
    int32_t ret;

    ret = kit_rma_start(na_class->rma, &request, &private->transfer);
    if (ret == NA_PLUGIN_SUCCESS && private->transfer == NULL)
        kit_msg_rma_done(endpoint, rma, ret);
    return ret;
}

bool bmi_na_rma_abandon(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status)
{
    struct na_plugin_class *na_class = bmi_na_class(endpoint);
    struct bmi_na_rma *private = rma->priv;

    if (!kit_rma_abandon(na_class->rma, private->transfer, status, status != NA_PLUGIN_CANCELED))
        return false;
    kit_msg_rma_done(endpoint, rma, status);
    return true;
}

void bmi_na_transfer_done(void *owner, void *cookie, int32_t status)
{
    struct na_plugin_class *na_class = owner;

    kit_msg_rma_done(&na_class->base, cookie, status);
}

void bmi_na_control(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t type,
                    const void *data, uint64_t size)
{
    struct na_plugin_class *na_class = bmi_na_class(endpoint);

    if (type == CONTROL_RMA)
        kit_rma_control(na_class->rma, peer, data, size);
}

int32_t bmi_na_control_send(void *owner, void *peer, const void *data, uint32_t size)
{
    struct na_plugin_class *na_class = owner;

    return kit_msg_control_send(&na_class->base, peer, CONTROL_RMA, data, size);
}
