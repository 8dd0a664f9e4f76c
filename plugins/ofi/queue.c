/* SPDX-License-Identifier: BSD-3-Clause */
/* The completion queue: each completion is passed to its request. */

#include "ofi.h"

#include <errno.h>

#define OFI_ENTRIES 16

static bool ofi_complete(struct na_plugin_class *na_class, struct ofi_request *request,
                         uint64_t size);
static int32_t ofi_complete_error(struct na_plugin_class *na_class);
static int32_t ofi_queue_failed(struct na_plugin_class *na_class, int error);

/*
 * Reads the queue once. NA_PLUGIN_AGAIN if it is empty, NA_PLUGIN_IO_ERROR if it is broken. Sets
 * `*is_awaited_p` if anything but a send or a fence completed.
 */
int32_t ofi_queue_read(struct na_plugin_class *na_class, bool *is_awaited_p)
{
    struct fi_cq_msg_entry entries[OFI_ENTRIES];
    ssize_t count;

    /* The tcp provider reads errno after an early end of a connection, where nothing has set it.
     * A stale EAGAIN would make it keep the dead connection, and its descriptor, for ever. */
    errno = 0;
    count = fi_cq_read(na_class->cq, entries, OFI_ENTRIES);
    if (count == -FI_EAGAIN)
        return NA_PLUGIN_AGAIN;
    if (count == -FI_EAVAIL)
        return ofi_complete_error(na_class);
    if (count < 0)
        return ofi_queue_failed(na_class, (int) -count);
    na_class->idle_waits = 0;
    for (ssize_t at = 0; at < count; at++)
        *is_awaited_p |= ofi_complete(na_class, entries[at].op_context, entries[at].len);
    return NA_PLUGIN_SUCCESS;
}

void ofi_queue_drain(struct na_plugin_class *na_class)
{
    bool ignored = false;

    while (ofi_queue_read(na_class, &ignored) == NA_PLUGIN_SUCCESS)
        continue;
}

/* True for anything but a send or a fence. */
static bool ofi_complete(struct na_plugin_class *na_class, struct ofi_request *request,
                         uint64_t size)
{
    if (request == NULL)
        return false;
    switch (request->kind) {
    case OFI_REQUEST_SEND:
        ofi_frame_sent(na_class, (struct ofi_send *) request, NA_PLUGIN_SUCCESS);
        return false;
    case OFI_REQUEST_RECEIVE:
        ofi_frame_received(na_class, (struct ofi_receive *) request, size);
        break;
    case OFI_REQUEST_RMA:
        ofi_rma_piece_done(na_class, (struct ofi_rma *) request, NA_PLUGIN_SUCCESS);
        break;
    case OFI_REQUEST_MOVE:
        ofi_move_done(na_class, request, NA_PLUGIN_SUCCESS);
        break;
    case OFI_REQUEST_FENCE:
        ofi_address_fenced(na_class, request);
        return false;
    case OFI_REQUEST_TAGGED:
        ofi_tagged_received(na_class, 0);
        return false;
    }
    return true;
}

/* A failed request does not fail the endpoint. */
static int32_t ofi_complete_error(struct na_plugin_class *na_class)
{
    struct fi_cq_err_entry entry = {0};
    ssize_t count = fi_cq_readerr(na_class->cq, &entry, 0);
    struct ofi_request *request = entry.op_context;
    int32_t status = ofi_status(entry.err);

    if (count == -FI_EAGAIN)
        return NA_PLUGIN_SUCCESS;
    if (count < 0)
        return ofi_queue_failed(na_class, (int) -count);
    OFI_LOG_DEBUG("a request of kind %d failed: %s (provider's error %d)",
                  request != NULL ? (int) request->kind : -1, fi_strerror(entry.err),
                  entry.prov_errno);
    if (request == NULL)
        return NA_PLUGIN_SUCCESS;
    switch (request->kind) {
    case OFI_REQUEST_SEND:
        ofi_frame_sent(na_class, (struct ofi_send *) request, ofi_send_status(entry.err));
        break;
    case OFI_REQUEST_RECEIVE: /* a message that is too large for a frame, or the endpoint closed */
        ofi_receives_add(na_class, (struct ofi_receive *) request);
        break;
    case OFI_REQUEST_RMA:
        ofi_rma_piece_failed(na_class, (struct ofi_rma *) request, &entry);
        break;
    case OFI_REQUEST_MOVE:
        ofi_move_done(na_class, request, status);
        break;
    case OFI_REQUEST_FENCE: /* the next frame fails with the same error, if it lasts */
        ofi_address_fenced(na_class, request);
        break;
    case OFI_REQUEST_TAGGED:
        ofi_tagged_received(na_class, entry.err);
        break;
    }
    return NA_PLUGIN_SUCCESS;
}

static int32_t ofi_queue_failed(struct na_plugin_class *na_class, int error)
{
    if (!na_class->failed)
        OFI_LOG_ERROR("the completion queue of provider '%s' is broken (%s)",
                      na_class->info->fabric_attr->prov_name, fi_strerror(error));
    na_class->failed = true;
    return NA_PLUGIN_IO_ERROR;
}
