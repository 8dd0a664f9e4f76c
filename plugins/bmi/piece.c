/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pieces of puts and gets: expected messages from and to the user's memory. When a transfer ends
 * early, its pieces go on without the memory, if BMI can do that; if not, a receive is cancelled
 * and posted again with other memory, because its message may be on the way.
 */

#include "bmi_na.h"

static int32_t piece_send(void *owner, struct kit_rma_piece *piece);
static int32_t piece_recv(void *owner, struct kit_rma_piece *piece);
static bool piece_cancel(void *owner, struct kit_rma_piece *piece);
static void piece_withdraw(void *owner, struct kit_rma_piece *piece);
static int32_t piece_posted(struct na_plugin_class *na_class, struct bmi_na_piece *priv, int ret,
                            uint64_t size);
static void piece_discard(struct na_plugin_class *na_class, struct bmi_na_piece *priv);

const struct kit_rma_ops bmi_na_rma_ops = {
    .control_send = kit_remote_control_send,
    .piece_send = piece_send,
    .piece_recv = piece_recv,
    .piece_cancel = piece_cancel,
    .piece_withdraw = piece_withdraw,
    .transfer_done = kit_remote_transfer_done,
    .peer_hold = kit_msg_peer_hold,
    .peer_release = kit_msg_peer_release,
};

/* Called when BMI has completed the piece. */
void bmi_na_piece_done(struct na_plugin_class *na_class, struct bmi_na_piece *priv, int error,
                       uint64_t size)
{
    if (priv->is_cancelling && error != 0) {
        priv->is_cancelling = false;
        kit_rma_piece_released(na_class->base.rma, priv->piece);
        if (!priv->is_withdrawn) {
            piece_discard(na_class, priv);
            return;
        }
    }
    priv->is_cancelling = false;
    if (priv->sink != NULL) {
        kit_list_remove(&priv->sink->link);
        kit_host->mem_free(priv->sink);
    }
    priv->sink = NULL;
    kit_rma_piece_done(na_class->base.rma, priv->piece,
                       error == 0 ? NA_PLUGIN_SUCCESS : bmi_na_status(error), size);
}

/* Called when BMI is closed. */
void bmi_na_sinks_free(struct na_plugin_class *na_class)
{
    while (!kit_list_empty(&na_class->sinks)) {
        struct kit_link *link = na_class->sinks.next;

        kit_list_remove(link);
        kit_host->mem_free(kit_container(link, struct bmi_na_sink, link));
    }
}

static int32_t piece_send(void *owner, struct kit_rma_piece *piece)
{
    struct na_plugin_class *na_class = owner;
    struct bmi_na_peer *peer = ((struct kit_peer *) piece->peer)->priv;
    struct bmi_na_piece *priv = piece->priv;
    int ret;

    if (!peer->is_open)
        return NA_PLUGIN_HOSTUNREACH;
    library_use(&na_class->library);
    priv->request.kind = REQUEST_PIECE;
    priv->piece = piece;
    priv->is_cancelling = priv->is_withdrawn = false;
    priv->sink = NULL;
    ret = BMI_post_send(&priv->request.id, peer->address, piece->memory, (bmi_size_t) piece->size,
                        BMI_EXT_ALLOC, (bmi_msg_tag_t) piece->tag, priv, na_class->context, NULL);
    return piece_posted(na_class, priv, ret, piece->size);
}

static int32_t piece_recv(void *owner, struct kit_rma_piece *piece)
{
    struct na_plugin_class *na_class = owner;
    struct bmi_na_peer *peer = ((struct kit_peer *) piece->peer)->priv;
    struct bmi_na_piece *priv = piece->priv;
    bmi_size_t size = 0;
    int ret;

    if (!peer->is_open)
        return NA_PLUGIN_HOSTUNREACH;
    library_use(&na_class->library);
    priv->request.kind = REQUEST_PIECE;
    priv->piece = piece;
    priv->address = peer->address;
    priv->is_cancelling = priv->is_withdrawn = false;
    priv->sink = NULL;
    ret = BMI_post_recv(&priv->request.id, peer->address, piece->memory, (bmi_size_t) piece->size,
                        &size, BMI_EXT_ALLOC, (bmi_msg_tag_t) piece->tag, priv, na_class->context,
                        NULL);
    return piece_posted(na_class, priv, ret, (uint64_t) size);
}

static bool piece_cancel(void *owner, struct kit_rma_piece *piece)
{
    struct na_plugin_class *na_class = owner;
    struct bmi_na_piece *priv = piece->priv;

    if (!priv->request.is_posted)
        return false;
    library_use(&na_class->library);
    if (library_detach(priv->request.id))
        return true;
    if (piece->is_send != 0)
        return false;
    priv->is_cancelling = true;
    (void) BMI_cancel(priv->request.id, na_class->context);
    return false;
}

static void piece_withdraw(void *owner, struct kit_rma_piece *piece)
{
    struct na_plugin_class *na_class = owner;
    struct bmi_na_piece *priv = piece->priv;

    priv->is_withdrawn = true;
    if (!priv->request.is_posted || priv->is_cancelling)
        return;
    library_use(&na_class->library);
    (void) BMI_cancel(priv->request.id, na_class->context);
}

static int32_t piece_posted(struct na_plugin_class *na_class, struct bmi_na_piece *priv, int ret,
                            uint64_t size)
{
    if (ret < 0) {
        BMI_NA_LOG_DEBUG("a piece is not taken: %s", bmi_na_reason(ret));
        return bmi_na_status(ret);
    }
    priv->request.is_posted = ret == 0;
    if (ret > 0)
        kit_rma_piece_done(na_class->base.rma, priv->piece, NA_PLUGIN_SUCCESS, size);
    return NA_PLUGIN_SUCCESS;
}

/* Posts the receive again, to memory of its own: the message may still arrive. */
static void piece_discard(struct na_plugin_class *na_class, struct bmi_na_piece *priv)
{
    struct kit_rma_piece *piece = priv->piece;
    bmi_size_t size = 0;
    int ret = -BMI_ENOMEM;

    priv->sink = kit_host->mem_alloc(sizeof(*priv->sink) + piece->size, 0);
    if (priv->sink != NULL) {
        kit_list_append(&na_class->sinks, &priv->sink->link);
        ret = BMI_post_recv(&priv->request.id, priv->address, priv->sink + 1,
                            (bmi_size_t) piece->size, &size, BMI_EXT_ALLOC,
                            (bmi_msg_tag_t) piece->tag, priv, na_class->context, NULL);
    }
    if (ret == 0) {
        priv->request.is_posted = true;
    } else {
        bmi_na_piece_done(na_class, priv, ret < 0 ? ret : 0, (uint64_t) size);
    }
}
