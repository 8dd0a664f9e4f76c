/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers of the message layer, and their links. */

#include "ucx.h"

#include <string.h>

int32_t ucx_peer_open(struct kit_endpoint *endpoint, struct kit_peer *peer)
{
    struct na_plugin_class *na_class = ucx_class(endpoint);
    struct ucx_link *link = ucx_link_find(na_class, peer->name);
    struct ucx_worker *worker;
    int32_t ret;

    ucx_peer(peer)->link = NULL;
    if (link == NULL) {
        if (strncmp(peer->name, UCX_ORIGIN_PREFIX, strlen(UCX_ORIGIN_PREFIX)) == 0) {
            UCX_LOG_INFO("%s does not listen and is not connected", peer->name);
            return NA_PLUGIN_HOSTUNREACH;
        }
        worker = ucx_worker_for(na_class, peer->name);
        link = worker != NULL ? ucx_link_create(worker, peer->name) : NULL;
        if (link == NULL)
            return NA_PLUGIN_NOMEM;
        ret = ucx_channel_dial(link);
        if (ret != NA_PLUGIN_SUCCESS) {
            ucx_link_fail(link, ret, "it cannot be connected to");
            return ret;
        }
    }
    link->peer = peer;
    ucx_peer(peer)->link = link;
    return NA_PLUGIN_SUCCESS;
}

/* A link that is met stays until its process closes it; one that is being dialed is failed. */
void ucx_peer_close(struct kit_endpoint *endpoint, struct kit_peer *peer)
{
    struct ucx_link *link = ucx_peer(peer)->link;

    if (endpoint->rma != NULL)
        kit_rma_peer_failed(endpoint->rma, peer, NA_PLUGIN_HOSTUNREACH);
    ucx_peer(peer)->link = NULL;
    if (link == NULL || link->peer != peer)
        return;
    link->peer = NULL;
    if (link->phase == UCX_LINK_DIALING)
        ucx_link_fail(link, NA_PLUGIN_HOSTUNREACH, "nothing is left to send to it");
}

/* The path of a peer (struct kit_msg_ops) is its link. */
const void *ucx_peer_path(struct kit_endpoint *endpoint, const struct kit_peer *peer)
{
    (void) endpoint;
    return ((const struct ucx_peer *) peer->priv)->link;
}

/*
 * A frame may arrive before the HELLO on the channel of a dialed link. It has the link's secret, so
 * it is from that process; its name is accepted unless another link has it.
 */
bool ucx_path_is_named(struct kit_endpoint *endpoint, const void *path, const char *name)
{
    const struct ucx_link *link = path, *other;

    if (link->is_met)
        return strcmp(link->their_name, name) == 0;
    other = ucx_link_find(ucx_class(endpoint), name);
    return other == NULL || other == link;
}
