/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames: unexpected messages, which BMI delivers whole and in order for each connection. */

#include "bmi_na.h"

/* Frames taken in one poll. */
#define FRAMES 16

/* Received frames that the message layer may hold. More stay in BMI, within its own limits. */
#define RECEIVED_MAX 1024u

static void frame_take(struct na_plugin_class *na_class, const struct BMI_unexpected_info *info);

/*
 * A frame that does not leave at once is sent by BMI from a copy, where BMI can do that, and counts
 * as sent. The frames behind it wait in the kit, where they can be cancelled.
 */
int32_t bmi_na_frame_send(struct kit_endpoint *endpoint, struct kit_frame *frame)
{
    struct na_plugin_class *na_class = bmi_na_class(endpoint);
    struct bmi_na_peer *peer = frame->peer->priv;
    struct bmi_na_frame *priv = frame->priv;
    int ret;

    if (!peer->is_open)
        return NA_PLUGIN_HOSTUNREACH;
    library_use(&na_class->library);
    priv->request.kind = REQUEST_FRAME;
    priv->frame = frame;
    if (frame->is_hello && frame->peer->phase == KIT_PEER_HELLO_SENT)
        library_dial(peer->address); /* a HELLO of our own, not an answer */
    ret = library_may_send(peer->address);
    if (ret == 0)
        return NA_PLUGIN_AGAIN;
    if (ret > 0)
        ret = BMI_post_sendunexpected(&priv->request.id, peer->address, frame->data,
                                      (bmi_size_t) frame->size, BMI_EXT_ALLOC, 0, priv,
                                      na_class->context, NULL);
    if (ret < 0) {
        BMI_NA_LOG_DEBUG("a frame to %s does not leave: %s", frame->peer->name, bmi_na_reason(ret));
        return NA_PLUGIN_HOSTUNREACH;
    }
    if (ret > 0 || library_leave(priv->request.id)) {
        kit_msg_frame_sent(endpoint, frame, NA_PLUGIN_SUCCESS);
    } else {
        priv->request.is_posted = true;
        kit_list_append(&peer->frames, &priv->request.link);
    }
    return NA_PLUGIN_SUCCESS;
}

void bmi_na_frame_done(struct na_plugin_class *na_class, struct bmi_na_frame *frame, int error)
{
    kit_list_remove(&frame->request.link);
    if (error != 0)
        BMI_NA_LOG_DEBUG("a frame did not leave: %s", bmi_na_reason(error));
    kit_msg_frame_sent(&na_class->base, frame->frame,
                       error == 0 ? NA_PLUGIN_SUCCESS : NA_PLUGIN_HOSTUNREACH);
}

void bmi_na_frame_release(struct kit_endpoint *endpoint, void *cookie)
{
    struct na_plugin_class *na_class = bmi_na_class(endpoint);
    struct bmi_na_received *received = cookie;

    library_use(&na_class->library);
    (void) BMI_unexpected_free(received->address, received->buffer);
    kit_list_remove(&received->link);
    na_class->received_count--;
    kit_host->mem_free(received);
}

/* Called when BMI and the message layer are closed. */
void bmi_na_received_free(struct na_plugin_class *na_class)
{
    while (!kit_list_empty(&na_class->received)) {
        struct kit_link *link = na_class->received.next;

        kit_list_remove(link);
        kit_host->mem_free(kit_container(link, struct bmi_na_received, link));
    }
    kit_host->mem_free(na_class->received_spare);
}

void bmi_na_frames_take(struct na_plugin_class *na_class)
{
    struct BMI_unexpected_info infos[FRAMES];
    int count = 0;
    int ret;

    if (na_class->received_count >= RECEIVED_MAX)
        return;
    ret = BMI_testunexpected(FRAMES, &count, infos, library_test_ms);
    if (ret < 0)
        na_class->error = ret;
    for (int i = 0; i < count; i++) {
        if (infos[i].error_code == 0) {
            frame_take(na_class, &infos[i]);
            continue;
        }
        if (infos[i].buffer != NULL)
            (void) BMI_unexpected_free(infos[i].addr, infos[i].buffer);
        bmi_na_peer_lost(na_class, infos[i].addr, infos[i].error_code);
    }
}

static void frame_take(struct na_plugin_class *na_class, const struct BMI_unexpected_info *info)
{
    struct bmi_na_received *received;
    bool is_taken;

    /* The spare saves an allocation for each frame that the kit does not keep, which most are. */
    received = na_class->received_spare;
    if (received == NULL)
        received = kit_host->mem_alloc(sizeof(*received), 0);
    na_class->received_spare = NULL;
    if (received == NULL) {
        BMI_NA_LOG_ERROR("no memory to take a frame: its messages are lost");
        (void) BMI_unexpected_free(info->addr, info->buffer);
        return;
    }
    received->address = info->addr;
    received->buffer = info->buffer;
    na_class->source = info;
    is_taken = kit_msg_frame_received(&na_class->base, info->buffer, (uint64_t) info->size, NULL,
                                      received);
    na_class->source = NULL;
    if (!is_taken) {
        kit_list_append(&na_class->received, &received->link);
        na_class->received_count++;
        return;
    }
    na_class->received_spare = received;
    library_use(&na_class->library);
    (void) BMI_unexpected_free(info->addr, info->buffer);
}
