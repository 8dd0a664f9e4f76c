/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames: untagged sends, and receives into buffers that are posted again and again. */

#include "ofi.h"

#define OFI_RECEIVES_MAX 16384u

static uint64_t ofi_receive_stride(const struct na_plugin_class *na_class);
static void ofi_receives_begin(struct na_plugin_class *na_class, struct ofi_receive *receives,
                               uint8_t *memory, uint32_t count);
static void ofi_receives_take_back(struct na_plugin_class *na_class, struct ofi_receive *receives,
                                   uint32_t count);
static void ofi_tagged_post(struct na_plugin_class *na_class);

/*
 * Injects small frames. A HELLO is not injected: its completion tells whether the peer is there,
 * and an injected frame has none.
 */
int32_t ofi_frame_send(struct kit_endpoint *endpoint, struct kit_frame *frame)
{
    struct na_plugin_class *na_class = (struct na_plugin_class *) endpoint;
    struct ofi_peer *peer = frame->peer->priv;
    struct ofi_send *send = frame->priv;
    struct fid_mr *mr = frame->registration;
    const bool is_injected = frame->size <= na_class->inject_size && !frame->is_hello;
    ssize_t ret;

    if (peer->address == NULL || na_class->endpoint == NULL)
        return NA_PLUGIN_HOSTUNREACH;
    if (kit_unlikely(peer->blocked_since != 0) && ofi_probe_is_paced(peer))
        return ofi_probe_stalled(na_class, frame->peer);
    if (na_class->protocol.is_fenced && !ofi_address_fence(na_class, peer->address))
        return ofi_probe_stalled(na_class, frame->peer);
    if (is_injected) {
        ret = fi_inject(na_class->endpoint, frame->data, frame->size, peer->address->fi_addr);
    } else {
        send->request.kind = OFI_REQUEST_SEND;
        send->address = peer->address;
        ret = fi_send(na_class->endpoint, frame->data, frame->size,
                      mr != NULL ? fi_mr_desc(mr) : NULL, peer->address->fi_addr,
                      &send->request.context);
    }
    if (ret == -FI_EAGAIN) {
        if (peer->blocked_since == 0)
            peer->blocked_since = kit_host->clock_ns();
        return ofi_probe_stalled(na_class, frame->peer);
    }
    peer->address->is_refused = ret != 0;
    if (ret != 0)
        return ofi_send_status((int) -ret);
    peer->stalled_since = 0;
    peer->blocked_since = 0;
    peer->is_connected = true;
    send->frame = frame;
    frame->is_copied = is_injected;
    if (is_injected) {
        peer->address->injected++;
    } else {
        peer->address->requests++;
    }
    return NA_PLUGIN_SUCCESS;
}

void ofi_frame_sent(struct na_plugin_class *na_class, struct ofi_send *send, int32_t status)
{
    struct ofi_address *address = send->address;

    kit_msg_frame_sent(&na_class->base, send->frame, status);
    ofi_address_drop_request(na_class, address);
}

void ofi_frame_received(struct na_plugin_class *na_class, struct ofi_receive *receive,
                        uint64_t size)
{
    receive->is_posted = false;
    na_class->idle_polls = 0;
    if (size == 1 || /* a fence */
        kit_msg_frame_received(&na_class->base, receive->data, size, NULL, receive))
        ofi_receives_add(na_class, receive);
}

void ofi_frame_release(struct kit_endpoint *endpoint, void *cookie)
{
    ofi_receives_add((struct na_plugin_class *) endpoint, cookie);
}

/* `error` is 0, or libfabric's: the message did not fit, or the endpoint was closed. */
void ofi_tagged_received(struct na_plugin_class *na_class, int error)
{
    na_class->tagged.is_posted = false;
    if (error == FI_ECANCELED || na_class->endpoint == NULL)
        return;
    kit_msg_dropped(&na_class->base);
    ofi_tagged_post(na_class);
}

int32_t ofi_receives_create(struct na_plugin_class *na_class)
{
    const uint64_t stride = ofi_receive_stride(na_class);
    uint32_t count = OFI_RECEIVES;
    int32_t ret;

    if (na_class->info->rx_attr->size != 0 && count > na_class->info->rx_attr->size)
        count = (uint32_t) na_class->info->rx_attr->size;
    na_class->receives = kit_host->mem_alloc(count * sizeof(*na_class->receives), OFI_CACHE_LINE);
    na_class->receive_memory = kit_host->mem_alloc(count * stride, 4096);
    if (na_class->receives == NULL || na_class->receive_memory == NULL)
        return NA_PLUGIN_NOMEM;
    if ((na_class->mr_mode & FI_MR_LOCAL) != 0) {
        ret = ofi_memory_register(na_class, na_class->receive_memory, count * stride, FI_RECV,
                                  NA_PLUGIN_MEM_TYPE_HOST, 0, &na_class->receive_mr);
        if (ret != NA_PLUGIN_SUCCESS)
            return ret;
    }
    na_class->receive_count = count;
    na_class->receive_total = count;
    ofi_receives_begin(na_class, na_class->receives, na_class->receive_memory, count);
    ofi_receives_post(na_class);
    return NA_PLUGIN_SUCCESS;
}

/*
 * Posts more receives than there are connections, each of which may be in the middle of a message.
 * Their memory is the system's until something arrives. The tcp provider takes any number.
 */
void ofi_receives_grow(struct na_plugin_class *na_class, uint32_t connections)
{
    const uint64_t stride = ofi_receive_stride(na_class);

    if (!na_class->protocol.keeps_tagged || na_class->receive_mr != NULL)
        return;
    while (na_class->receive_total < connections + OFI_RECEIVES &&
           na_class->receive_total < OFI_RECEIVES_MAX) {
        struct ofi_more_receives *more =
            kit_host->mem_alloc(sizeof(*more), _Alignof(struct ofi_more_receives));

        if (more == NULL)
            return;
        more->memory = kit_host->mem_alloc(OFI_RECEIVES * stride, 4096);
        if (more->memory == NULL) {
            kit_host->mem_free(more);
            return;
        }
        more->next = na_class->more;
        na_class->more = more;
        na_class->receive_total += OFI_RECEIVES;
        ofi_receives_begin(na_class, more->receives, more->memory, OFI_RECEIVES);
    }
}

/* The endpoint is closed. */
void ofi_receives_free(struct na_plugin_class *na_class)
{
    while (na_class->more != NULL) {
        struct ofi_more_receives *more = na_class->more;

        na_class->more = more->next;
        kit_host->mem_free(more->memory);
        kit_host->mem_free(more);
    }
}

/* The next poll posts the buffer. */
void ofi_receives_add(struct na_plugin_class *na_class, struct ofi_receive *receive)
{
    receive->is_posted = false;
    receive->next = na_class->receives_waiting;
    na_class->receives_waiting = receive;
}

/* The endpoint that the buffers were posted to is closed. */
void ofi_receives_reset(struct na_plugin_class *na_class)
{
    na_class->tagged.is_posted = false;
    ofi_receives_take_back(na_class, na_class->receives, na_class->receive_count);
    for (struct ofi_more_receives *more = na_class->more; more != NULL; more = more->next)
        ofi_receives_take_back(na_class, more->receives, OFI_RECEIVES);
}

void ofi_receives_post(struct na_plugin_class *na_class)
{
    void *descriptor = na_class->receive_mr != NULL ? fi_mr_desc(na_class->receive_mr) : NULL;

    if (na_class->endpoint == NULL)
        return;
    ofi_tagged_post(na_class);
    while (na_class->receives_waiting != NULL) {
        struct ofi_receive *receive = na_class->receives_waiting;
        ssize_t ret = fi_recv(na_class->endpoint, receive->data, na_class->ops.max_frame,
                              descriptor, FI_ADDR_UNSPEC, &receive->request.context);

        if (ret != 0) {
            if (ret != -FI_EAGAIN)
                OFI_LOG_ERROR("a receive buffer could not be posted (%s)", fi_strerror((int) -ret));
            break;
        }
        receive->is_posted = true;
        na_class->receives_waiting = receive->next;
    }
}

static uint64_t ofi_receive_stride(const struct na_plugin_class *na_class)
{
    return (na_class->ops.max_frame + OFI_CACHE_LINE - 1) & ~(OFI_CACHE_LINE - 1ull);
}

/* Makes buffers of that memory, the first of which is posted first. */
static void ofi_receives_begin(struct na_plugin_class *na_class, struct ofi_receive *receives,
                               uint8_t *memory, uint32_t count)
{
    const uint64_t stride = ofi_receive_stride(na_class);

    for (uint32_t i = count; i > 0; i--) {
        struct ofi_receive *receive = &receives[i - 1];

        receive->request.kind = OFI_REQUEST_RECEIVE;
        receive->data = memory + (i - 1) * stride;
        ofi_receives_add(na_class, receive);
    }
}

static void ofi_receives_take_back(struct na_plugin_class *na_class, struct ofi_receive *receives,
                                   uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (receives[i].is_posted)
            ofi_receives_add(na_class, &receives[i]);
}

/*
 * The tcp provider does not read a connection any further, nor notice its end, while it has a
 * tagged message that no posted receive matches. So a receive of no bytes matches each of them:
 * libfabric drops an empty message, and ends the connection of a longer one.
 */
static void ofi_tagged_post(struct na_plugin_class *na_class)
{
    struct ofi_receive *tagged = &na_class->tagged;

    if (!na_class->protocol.keeps_tagged || tagged->is_posted)
        return;
    tagged->request.kind = OFI_REQUEST_TAGGED;
    tagged->is_posted = fi_trecv(na_class->endpoint, &tagged->data, 0, NULL, FI_ADDR_UNSPEC, 0,
                                 UINT64_MAX, &tagged->request.context) == 0;
}

int32_t ofi_slab_register(struct kit_endpoint *endpoint, void *base, uint64_t size,
                          void **registration_p)
{
    struct na_plugin_class *na_class = (struct na_plugin_class *) endpoint;
    struct fid_mr *mr = NULL;
    int32_t ret = NA_PLUGIN_SUCCESS;

    if ((na_class->mr_mode & FI_MR_LOCAL) != 0)
        ret = ofi_memory_register(na_class, base, size, FI_SEND, NA_PLUGIN_MEM_TYPE_HOST, 0, &mr);
    *registration_p = mr;
    return ret;
}

void ofi_slab_deregister(struct kit_endpoint *endpoint, void *registration)
{
    struct fid_mr *mr = registration;

    (void) endpoint;
    if (mr != NULL)
        (void) fi_close(&mr->fid);
}
