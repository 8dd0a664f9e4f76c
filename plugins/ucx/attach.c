/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets between processes of one node, by cross-memory attach. The origin asks, the target
 * looks at the handle and moves the bytes, a piece at a time, and answers: so what is deregistered
 * is out of reach at once, which it would not be for an origin that knows address and process. UCP
 * leaves its cma out of endpoints that are told of dead peers, and UCT's asks nobody.
 */

#include "ucx.h"

#define ATTACH_PIECE  (UINT64_C(1) << 20)
#define ATTACH_BUDGET (UINT64_C(4) << 20) /* bytes in one poll */

static void copy_refused(struct ucx_transfer *transfer);
static int32_t copy_step(struct ucx_job *job, uint64_t *moved_p);
static void header_sent(void *request, ucs_status_t status, void *arg);

/* Asks the target, which knows our memory from now on until it answers. */
int32_t ucx_attach_start(struct ucx_transfer *transfer)
{
    return ucx_attach_ask(transfer, 0, transfer->rma->length);
}

/* The same for a part of it. */
int32_t ucx_attach_ask(struct ucx_transfer *transfer, uint64_t offset, uint64_t length)
{
    const struct fabric_rma *rma = transfer->rma;
    struct ucx_ticket *ticket = ucx_ticket_get(transfer->link);
    ucs_status_t status;

    if (ticket == NULL)
        return NA_PLUGIN_NOMEM;
    ticket->header.transfer = transfer->id;
    ticket->header.memory = rma->remote->region.id;
    ticket->header.key = rma->remote->region.key;
    ticket->header.offset = rma->remote_offset + offset;
    ticket->header.length = length;
    ticket->header.address = rma->local->region.base + rma->local_offset + offset;
    ticket->header.flags = rma->is_put != 0 ? UCX_RMA_PUT : 0;
    ucx_transfer_touch(transfer);
    status = ucx_ticket_send(ticket, UCX_AM_COPY, NULL, 0, header_sent);
    if (status != UCS_OK)
        transfer->in_touch--;
    return ucx_status(status);
}

/* The target's answer. It may not touch our memory: then it gets or takes messages. */
void ucx_attach_answered(struct ucx_transfer *transfer, int32_t status)
{
    if (status == NA_PLUGIN_OPNOTSUPPORTED && !transfer->is_over)
        copy_refused(transfer);
    else
        ucx_transfer_untouch(transfer, status,
                             status == NA_PLUGIN_SUCCESS ? transfer->rma->length : 0);
}

/* Somebody asks. */
ucs_status_t ucx_copy_received(void *arg, const void *header, size_t header_size, void *data,
                               size_t size, const ucp_am_recv_param_t *param)
{
    struct na_plugin_class *na_class = ((struct ucx_worker *) arg)->na_class;
    struct ucx_rma_header copy;
    struct ucx_link *link = ucx_message_accept(na_class, header, header_size, param, &copy);
    struct na_plugin_mem *mem = NULL;
    struct ucx_job *job = NULL;
    int32_t ret;

    (void) data;
    (void) size;
    if (link == NULL)
        return UCS_OK;
    ret = ucx_mem_find(na_class, copy.memory, &copy.key,
                       (copy.flags & UCX_RMA_PUT) != 0 ? NA_PLUGIN_MEM_WRITE : NA_PLUGIN_MEM_READ,
                       copy.offset, copy.length, &mem);
    if (ret == NA_PLUGIN_SUCCESS &&
        (link->pid == 0 || mem->region.mem_type != NA_PLUGIN_MEM_TYPE_HOST))
        ret = NA_PLUGIN_OPNOTSUPPORTED;
    if (ret == NA_PLUGIN_SUCCESS && link->job_count < UCX_JOBS_MAX)
        job = ucx_scrap_get(na_class);
    if (job == NULL) {
        ret = ret == NA_PLUGIN_SUCCESS ? NA_PLUGIN_NOMEM : ret;
        UCX_LOG_INFO("%s asks for %llu bytes of a region and gets none: %s", link->name,
                     (unsigned long long) copy.length, kit_status_name(ret));
        ucx_message_done(link, copy.transfer, ret, 0);
        return UCS_OK;
    }
    job->link = link;
    job->mem = mem;
    job->transfer = copy.transfer;
    job->offset = copy.offset;
    job->length = copy.length;
    job->address = copy.address;
    job->flags = copy.flags & UCX_RMA_PUT;
    mem->jobs++;
    link->job_count++;
    kit_list_append(&na_class->copies, &job->node);
    if (na_class->copies.next == &job->node)
        ucx_attach_progress(na_class);
    return UCS_OK;
}

/* Moves some of what was asked for, in order. */
void ucx_attach_progress(struct na_plugin_class *na_class)
{
    uint64_t budget = ATTACH_BUDGET;

    while (!kit_list_empty(&na_class->copies) && budget != 0) {
        struct ucx_job *job = kit_container(na_class->copies.next, struct ucx_job, node);
        uint64_t moved;
        int32_t status = copy_step(job, &moved);

        budget -= moved < budget ? moved : budget;
        if (status == NA_PLUGIN_SUCCESS && job->sent < job->length)
            continue;
        ucx_message_done(job->link, job->transfer, status, job->sent);
        ucx_job_release(job);
    }
}

/* Ends those that come over a link, concern a region or are one transfer of a link. */
void ucx_copies_drop(struct na_plugin_class *na_class, const struct ucx_link *link,
                     const struct na_plugin_mem *mem, uint64_t transfer, int32_t status)
{
    struct kit_link *node, *next;

    for (node = na_class->copies.next; node != &na_class->copies; node = next) {
        struct ucx_job *job = kit_container(node, struct ucx_job, node);

        next = node->next;
        if ((link != NULL && job->link != link) || (mem != NULL && job->mem != mem) ||
            (transfer != 0 && job->transfer != transfer))
            continue;
        ucx_message_done(job->link, job->transfer, status, 0);
        ucx_job_release(job);
    }
}

static void copy_refused(struct ucx_transfer *transfer)
{
    int32_t ret;

    if (!transfer->link->is_attach_refused)
        UCX_LOG_INFO("%s may not touch the memory of this process", transfer->link->name);
    transfer->link->is_attach_refused = true;
    transfer->in_touch--;
    transfer->way = UCX_WAY_MESSAGES;
    ret = ucx_message_start(transfer);
    if (ret != NA_PLUGIN_SUCCESS)
        ucx_transfer_advance(transfer, ret, 0);
}

/* A piece. Its region is registered: jobs of one that is not any more are gone. */
static int32_t copy_step(struct ucx_job *job, uint64_t *moved_p)
{
    uint64_t size = job->length - job->sent;
    struct iovec local, remote;
    int32_t ret;

    *moved_p = 0;
    if (size == 0)
        return NA_PLUGIN_SUCCESS;
    size = size < ATTACH_PIECE ? size : ATTACH_PIECE;
    local = kit_iovec(job->mem->region.base + job->offset + job->sent, size);
    remote = kit_iovec(job->address + job->sent, size);
    if ((job->flags & UCX_RMA_PUT) != 0)
        ret = kit_attach_read(job->link->pid, &local, 1, &remote, 1, moved_p);
    else
        ret = kit_attach_write(job->link->pid, &local, 1, &remote, 1, moved_p);
    job->sent += *moved_p;
    return ret;
}

static void header_sent(void *request, ucs_status_t status, void *arg)
{
    (void) status;
    if (request != NULL)
        ucp_request_free(request);
    ucx_ticket_put(arg);
}
