/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets. The kit sends small ones inline, in its control records, which works over any
 * fabric. For larger ones the target copies from or to the memory of the origin's process
 * (cross-memory attach), if the system allows that; if not, they are sent inline, too. For a fabric
 * that reads and writes remote memory choose the mover KIT_RMA_ONE_SIDED, for one with messages of
 * any size KIT_RMA_PIECES (kit_rma.h).
 */

#include "template.h"

static enum kit_rma_mover memory_mover(void *owner, const struct kit_rma_request *request);
static int32_t memory_process(void *owner, void *peer, uint32_t *pid_p);
static void memory_attach_refused(void *owner, void *peer);

const struct kit_rma_ops template_rma_ops = {
    .control_send = kit_remote_control_send,
    .transfer_done = kit_remote_transfer_done,
    .mover = memory_mover,
    .process = memory_process,
    .attach_refused = memory_attach_refused,
    .peer_hold = kit_msg_peer_hold,
    .peer_release = kit_msg_peer_release,
};

/* Chooses how the bytes of a larger put or get move. */
static enum kit_rma_mover memory_mover(void *owner, const struct kit_rma_request *request)
{
    const struct kit_peer *peer = request->peer;
    const struct template_peer *priv = peer->priv;
    uint32_t pid;

    if (priv->is_attach_refused || memory_process(owner, request->peer, &pid) != NA_PLUGIN_SUCCESS)
        return KIT_RMA_INLINE;
    return KIT_RMA_ATTACH;
}

/* Finds the pid of a peer whose memory may be attached. */
static int32_t memory_process(void *owner, void *peer, uint32_t *pid_p)
{
    uint64_t incarnation;

    if (template_class(owner)->may_attach && kit_peer_process(peer, pid_p, &incarnation))
        return NA_PLUGIN_SUCCESS;
    return NA_PLUGIN_OPNOTSUPPORTED;
}

/* Called when the system refuses attach. The kit calls memory_mover() again afterwards. */
static void memory_attach_refused(void *owner, void *peer)
{
    struct template_peer *priv = ((struct kit_peer *) peer)->priv;

    (void) owner;
    priv->is_attach_refused = true;
}
