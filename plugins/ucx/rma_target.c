/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets by active messages, at the target: every request names a region by id and key and
 * is held against its access flags and bounds before anything is read or written.
 */

#include "ucx.h"

#include <string.h>

static void jobs_progress(struct ucx_link *link);
static ucs_status_t job_send_piece(struct ucx_link *link, struct ucx_job *job);
static void job_piece_sent(void *request, ucs_status_t status, void *arg);
static void put_received(void *request, ucs_status_t status, size_t size, void *arg);

ucs_status_t ucx_get_received(void *arg, const void *header, size_t header_size, void *data,
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
    ret = ucx_mem_find(na_class, copy.memory, &copy.key, NA_PLUGIN_MEM_READ, copy.offset,
                       copy.length, &mem);
    if (ret == NA_PLUGIN_SUCCESS && link->job_count < UCX_JOBS_MAX)
        job = ucx_scrap_get(na_class);
    if (job == NULL) {
        ret = ret == NA_PLUGIN_SUCCESS ? NA_PLUGIN_NOMEM : ret;
        UCX_LOG_WARNING("%s asks for %llu bytes of a region and gets none: %s", link->name,
                        (unsigned long long) copy.length, kit_status_name(ret));
        ucx_message_done(link, copy.transfer, ret, 0);
        return UCS_OK;
    }
    job->link = link;
    job->mem = mem;
    job->transfer = copy.transfer;
    job->offset = copy.offset;
    job->length = copy.length;
    job->flags = copy.flags & UCX_RMA_DEVICE;
    if (mem->region.mem_type != NA_PLUGIN_MEM_TYPE_HOST)
        job->flags |= UCX_RMA_DEVICE;
    mem->jobs++;
    link->job_count++;
    kit_list_append(&link->jobs, &job->node);
    jobs_progress(link);
    return UCS_OK;
}

/* A piece for our memory. */
ucs_status_t ucx_put_received(void *arg, const void *header, size_t header_size, void *data,
                              size_t size, const ucp_am_recv_param_t *param)
{
    struct na_plugin_class *na_class = ((struct ucx_worker *) arg)->na_class;
    struct ucx_rma_header copy;
    struct ucx_link *link = ucx_message_accept(na_class, header, header_size, param, &copy);
    struct na_plugin_mem *mem = NULL;
    struct ucx_ticket *ticket = NULL;
    bool is_announced = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    uint8_t *place;
    int32_t ret;

    if (link == NULL || copy.status != NA_PLUGIN_SUCCESS) /* it took the piece back */
        return UCS_OK;
    ret = ucx_mem_find(na_class, copy.memory, &copy.key, NA_PLUGIN_MEM_WRITE, copy.offset, size,
                       &mem);
    if (ret == NA_PLUGIN_SUCCESS && mem->region.mem_type != NA_PLUGIN_MEM_TYPE_HOST &&
        !is_announced)
        ret = NA_PLUGIN_PROTOCOL_ERROR;
    if (ret == NA_PLUGIN_SUCCESS && is_announced) {
        ticket = ucx_ticket_get(link);
        if (ticket == NULL)
            ret = NA_PLUGIN_NOMEM;
    }
    if (ret != NA_PLUGIN_SUCCESS) {
        UCX_LOG_WARNING("%s may not write %zu bytes to a region: %s", link->name, size,
                        kit_status_name(ret));
        ucx_message_done(link, copy.transfer, ret, 0);
        return UCS_OK;
    }
    place = (uint8_t *) (uintptr_t) mem->region.base + copy.offset;
    if (!is_announced) {
        memcpy(place, data, size);
        ucx_message_done(link, copy.transfer, NA_PLUGIN_SUCCESS, size);
        return UCS_OK;
    }
    kit_list_append(&mem->tickets, &ticket->node);
    ticket->transfer = copy.transfer;
    ticket->length = size;
    return ucx_ticket_receive(ticket, data, place, size, put_received);
}

/* The origin gave a get up: what was not sent stays here. */
ucs_status_t ucx_stop_received(void *arg, const void *header, size_t header_size, void *data,
                               size_t size, const ucp_am_recv_param_t *param)
{
    struct ucx_rma_header copy;
    struct ucx_link *link = ucx_message_accept(((struct ucx_worker *) arg)->na_class, header,
                                               header_size, param, &copy);

    (void) data;
    (void) size;
    if (link == NULL)
        return UCS_OK;
    for (struct kit_link *node = link->jobs.next; node != &link->jobs; node = node->next) {
        struct ucx_job *job = kit_container(node, struct ucx_job, node);

        if (job->transfer == copy.transfer) {
            ucx_job_release(job);
            return UCS_OK;
        }
    }
    ucx_copies_drop(link->na_class, link, NULL, copy.transfer, NA_PLUGIN_CANCELED);
    return UCS_OK;
}

/* Pieces under way keep what they need. */
void ucx_jobs_drop(struct ucx_link *link)
{
    while (!kit_list_empty(&link->jobs))
        ucx_job_release(kit_container(link->jobs.next, struct ucx_job, node));
    ucx_copies_drop(link->na_class, link, NULL, 0, NA_PLUGIN_CANCELED);
}

/* The region is deregistered. */
void ucx_jobs_refuse(struct ucx_link *link, const struct na_plugin_mem *mem)
{
    struct kit_link *node, *next;

    for (node = link->jobs.next; node != &link->jobs; node = next) {
        struct ucx_job *job = kit_container(node, struct ucx_job, node);

        next = node->next;
        if (job->mem != mem)
            continue;
        ucx_message_done(link, job->transfer, NA_PLUGIN_PERMISSION, 0);
        ucx_job_release(job);
    }
}

static void jobs_progress(struct ucx_link *link)
{
    while (link->pieces < UCX_PIECES && !kit_list_empty(&link->jobs) &&
           link->phase == UCX_LINK_READY && !link->is_failing) {
        struct ucx_job *job = kit_container(link->jobs.next, struct ucx_job, node);
        ucs_status_t status = job_send_piece(link, job);

        if (status != UCS_OK)
            ucx_message_done(link, job->transfer, ucx_status(status), 0);
        if (status != UCS_OK || job->sent == job->length)
            ucx_job_release(job);
    }
}

/* What UCX takes at once does not come back here: it would go round in depth. */
static ucs_status_t job_send_piece(struct ucx_link *link, struct ucx_job *job)
{
    uint64_t size = ucx_link_piece(link, job->length - job->sent);
    const uint8_t *data =
        (const uint8_t *) (uintptr_t) job->mem->region.base + job->offset + job->sent;
    struct ucx_ticket *ticket = ucx_ticket_get(link);
    ucs_status_t status;

    if (ticket == NULL)
        return UCS_ERR_NO_MEMORY;
    kit_list_append(&job->mem->tickets, &ticket->node);
    ticket->header.transfer = job->transfer;
    ticket->header.offset = job->sent;
    ticket->header.length = size;
    ticket->header.flags = job->flags;
    link->pieces++;
    status = ucx_ticket_send(ticket, UCX_AM_DATA, data, size, job_piece_sent);
    if (status != UCS_OK)
        link->pieces--;
    job->sent += size;
    return status;
}

static void job_piece_sent(void *request, ucs_status_t status, void *arg)
{
    struct ucx_ticket *ticket = arg;
    struct ucx_link *link = ticket->link;
    bool is_late = request != NULL;

    (void) status;
    if (request != NULL)
        ucp_request_free(request);
    link->pieces--;
    link->busy++; /* it stays for the next lines */
    ucx_ticket_put(ticket);
    if (is_late)
        jobs_progress(link);
    link->busy--;
}

void ucx_job_release(struct ucx_job *job)
{
    job->mem->jobs--;
    job->link->job_count--;
    kit_list_remove(&job->node);
    ucx_scrap_put(job->link->na_class, job);
}

static void put_received(void *request, ucs_status_t status, size_t size, void *arg)
{
    struct ucx_ticket *ticket = arg;
    struct ucx_link *link = ticket->link;
    uint64_t transfer = ticket->transfer, length = ticket->length;

    (void) size;
    if (request != NULL)
        ucp_request_free(request);
    link->busy++;
    ucx_ticket_put(ticket);
    ucx_message_done(link, transfer, ucx_status(status), length);
    link->busy--;
}
