/* SPDX-License-Identifier: BSD-3-Clause */
/* A pool of blocks for the small objects of messages. Blocks are freed when the class is closed. */

#include "ucx.h"

#include <string.h>

_Static_assert(sizeof(struct ucx_request) <= UCX_BLOCK_SIZE, "a request fits");

/* Returns a zero-filled block, or NULL. */
void *ucx_block_get(struct na_plugin_class *na_class)
{
    struct kit_link *block = na_class->free_blocks.next;

    if (kit_unlikely(block == &na_class->free_blocks))
        return kit_host->mem_alloc(UCX_BLOCK_SIZE, 0);
    kit_list_take(block);
    memset(block, 0, UCX_BLOCK_SIZE);
    return block;
}

void ucx_block_put(struct na_plugin_class *na_class, void *block)
{
    kit_list_prepend(&na_class->free_blocks, block); /* LIFO: the last block is in the cache */
}

void ucx_blocks_free(struct na_plugin_class *na_class)
{
    while (!kit_list_empty(&na_class->free_blocks)) {
        struct kit_link *block = na_class->free_blocks.next;

        kit_list_remove(block);
        kit_host->mem_free(block);
    }
}

/* The link is not freed before the request. */
struct ucx_request *ucx_request_get(struct ucx_link *link)
{
    struct ucx_request *request = ucx_block_get(link->na_class);

    if (request == NULL)
        return NULL;
    kit_list_append(&link->requests, &request->node);
    request->link = link;
    link->outstanding++;
    return request;
}

void ucx_request_put(struct ucx_request *request)
{
    request->link->outstanding--;
    kit_list_remove(&request->node);
    ucx_block_put(request->link->na_class, request);
}

/* The link's endpoint is closed: its requests access no memory any more, and their owners end. */
void ucx_requests_forget(struct ucx_link *link)
{
    struct kit_endpoint *endpoint = &link->na_class->fabric;

    for (struct kit_link *node = link->requests.next; node != &link->requests; node = node->next) {
        struct ucx_request *request = kit_container(node, struct ucx_request, node);
        struct ucx_transfer *transfer = request->transfer;
        struct kit_rma_piece *piece = request->piece;

        request->transfer = NULL;
        request->piece = NULL;
        request->data = NULL;
        if (piece != NULL)
            kit_rma_piece_done(endpoint->rma, piece, NA_PLUGIN_HOSTUNREACH, 0);
        if (transfer != NULL)
            kit_msg_rma_done(endpoint, transfer->rma,
                             transfer->is_abandoned ? transfer->status : NA_PLUGIN_HOSTUNREACH);
    }
}

/*
 * Whether the link has requests in progress for pieces of that region, or for a put or get by UCP
 * with that local handle.
 */
bool ucx_requests_touch(const struct ucx_link *link, const struct na_plugin_mem *mem)
{
    const struct kit_region *region = &mem->region;

    for (const struct kit_link *node = link->requests.next; node != &link->requests;
         node = node->next) {
        const struct ucx_request *request = kit_container(node, const struct ucx_request, node);
        const struct kit_rma_piece *piece = request->piece;

        if (piece != NULL && (uint64_t) (uintptr_t) piece->memory - region->base < region->length)
            return true;
        if (request->transfer != NULL && request->transfer->rma->local == mem)
            return true;
    }
    return false;
}
