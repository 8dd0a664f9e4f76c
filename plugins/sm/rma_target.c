/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers copied through the rings: the target. Every piece is checked against the registered
 * handle while it is copied, so that a forged request, or one for a handle that is deregistered
 * meanwhile, reads and writes nothing. poll_lock is held everywhere here.
 */

#include "ring.h"

#define SM_JOB_PIECES 4 /* sent for one request in one turn */
#define SM_JOB_MAX    (4 * SM_COPY_WINDOW)

static enum sm_verdict sm_target_get(struct na_plugin_context *context, struct sm_in_ring *ring,
                                     const struct sm_message *message,
                                     const struct sm_rma_header *header);
static enum sm_verdict sm_target_put(struct na_plugin_context *context, struct sm_in_ring *ring,
                                     const struct sm_message *message,
                                     const struct sm_rma_header *header);
static int32_t sm_target_write(struct na_plugin_context *context, const struct sm_message *message,
                               const struct sm_rma_header *header, uint32_t size);
static struct sm_job *sm_job_add(struct na_plugin_context *context, struct sm_in_ring *ring,
                                 uint8_t reply_id, uint64_t token, int32_t status);
static bool sm_job_step(struct na_plugin_context *context, struct sm_job *job);
static bool sm_job_send_piece(struct na_plugin_context *context, struct sm_job *job);

enum sm_verdict sm_target_receive(struct na_plugin_context *context, struct sm_in_ring *ring,
                                  const struct sm_message *message)
{
    struct sm_rma_header header;

    if (message->size < sizeof(header) || message->source_id >= ring->peer->header.max_contexts)
        return SM_BAD;
    sm_message_copy(&header, message, 0, sizeof(header));
    switch (message->kind) {
    case SM_KIND_GET:
        return sm_target_get(context, ring, message, &header);
    case SM_KIND_PUT:
        return sm_target_put(context, ring, message, &header);
    case SM_KIND_CANCEL:
        for (struct kit_link *link = context->jobs.next; link != &context->jobs;
             link = link->next) {
            struct sm_job *job = (struct sm_job *) link;

            if (job->ring == ring && job->token == header.token && job->status == 0)
                job->status = NA_PLUGIN_CANCELED;
        }
        return SM_TAKEN;
    default:
        return SM_BAD;
    }
}

void sm_target_progress(struct na_plugin_context *context)
{
    struct kit_link *next;

    for (struct kit_link *link = context->jobs.next; link != &context->jobs; link = next) {
        struct sm_job *job = (struct sm_job *) link;

        next = link->next;
        if (sm_job_step(context, job))
            sm_job_remove(context, job);
    }
}

void sm_target_drop_all(struct na_plugin_context *context)
{
    while (!kit_list_empty(&context->jobs))
        sm_job_remove(context, (struct sm_job *) context->jobs.next);
    while (context->free_jobs != NULL) {
        struct sm_job *job = context->free_jobs;

        context->free_jobs = (struct sm_job *) job->link.next;
        kit_host->mem_free(job);
    }
}

static enum sm_verdict sm_target_get(struct na_plugin_context *context, struct sm_in_ring *ring,
                                     const struct sm_message *message,
                                     const struct sm_rma_header *header)
{
    struct sm_registry *registry = &context->na_class->registry;
    struct na_plugin_mem *mem;
    struct sm_job *job;
    int32_t status;

    if (message->size != sizeof(*header) || ring->job_count >= SM_JOB_MAX)
        return SM_BAD;
    kit_lock_take(&registry->lock);
    status = sm_registry_find(registry, header->index, &header->key, NA_PLUGIN_MEM_READ,
                              header->offset, header->length, &mem);
    kit_lock_drop(&registry->lock);
    if (status == NA_PLUGIN_SUCCESS && header->length == 0)
        status = NA_PLUGIN_INVALID_ARG;
    job = sm_job_add(context, ring, message->source_id, header->token, status);
    if (job == NULL)
        return SM_NO_ROOM;
    job->key = header->key;
    job->index = header->index;
    job->offset = header->offset;
    job->length = header->length;
    if (sm_job_step(context, job))
        sm_job_remove(context, job);
    return SM_TAKEN;
}

/* Answered at the end, or once when a piece is refused. */
static enum sm_verdict sm_target_put(struct na_plugin_context *context, struct sm_in_ring *ring,
                                     const struct sm_message *message,
                                     const struct sm_rma_header *header)
{
    uint32_t size = message->size - (uint32_t) sizeof(*header);
    bool refused = ring->failed_token == header->token;
    struct sm_job *job;
    int32_t status;

    if (refused)
        return SM_TAKEN;
    if (ring->job_count >= SM_JOB_MAX)
        return SM_BAD;
    status = sm_target_write(context, message, header, size);
    sm_rma_moved(context);
    if (status == NA_PLUGIN_SUCCESS && (message->flags & SM_PUT_LAST) == 0)
        return SM_TAKEN;
    job = sm_job_add(context, ring, message->source_id, header->token, status);
    if (job == NULL)
        return SM_NO_ROOM;
    if (status != NA_PLUGIN_SUCCESS)
        ring->failed_token = header->token;
    job->is_answer = true;
    if (sm_job_step(context, job))
        sm_job_remove(context, job);
    return SM_TAKEN;
}

/* Under the registry's lock: a handle is not deregistered while it is written to. */
static int32_t sm_target_write(struct na_plugin_context *context, const struct sm_message *message,
                               const struct sm_rma_header *header, uint32_t size)
{
    struct sm_registry *registry = &context->na_class->registry;
    struct na_plugin_mem *mem;
    int32_t status;

    kit_lock_take(&registry->lock);
    status = sm_registry_find(registry, header->index, &header->key, NA_PLUGIN_MEM_WRITE,
                              header->offset, size, &mem);
    if (status == NA_PLUGIN_SUCCESS && size != 0)
        sm_mem_store(mem, header->offset, message, sizeof(*header));
    kit_lock_drop(&registry->lock);
    return status;
}

static struct sm_job *sm_job_add(struct na_plugin_context *context, struct sm_in_ring *ring,
                                 uint8_t reply_id, uint64_t token, int32_t status)
{
    struct sm_job *job = context->free_jobs;

    if (job != NULL)
        context->free_jobs = (struct sm_job *) job->link.next;
    else
        job = kit_host->mem_alloc(sizeof(*job), 0);
    if (job == NULL)
        return NULL;
    job->ring = ring;
    job->conn = NULL;
    job->reply_id = reply_id;
    job->token = token;
    job->status = status;
    job->is_answer = false;
    job->used = 0;
    ring->job_count++;
    kit_list_append(&context->jobs, &job->link);
    sm_add(&context->job_count, 1);
    return job;
}

/* True when nothing is left to do for it. */
static bool sm_job_step(struct na_plugin_context *context, struct sm_job *job)
{
    struct sm_rma_header header = {.token = job->token};
    int32_t ret;

    ret = sm_conn_get(job->ring->peer, job->reply_id, &job->conn);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = sm_conn_prepare(job->conn);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret != NA_PLUGIN_AGAIN;
    if (!job->is_answer && job->status == NA_PLUGIN_SUCCESS) {
        for (int i = 0; i < SM_JOB_PIECES && job->used < job->length; i++)
            if (!sm_job_send_piece(context, job))
                break;
        if (job->used == job->length)
            return true;
        if (job->status == NA_PLUGIN_SUCCESS)
            return false;
    }
    header.status = job->status;
    if (!sm_ring_send(job->conn, SM_KIND_DONE, context->id, 0, &header, sizeof(header)))
        return false;
    sm_rma_moved(context);
    return true;
}

static bool sm_job_send_piece(struct na_plugin_context *context, struct sm_job *job)
{
    struct sm_registry *registry = &context->na_class->registry;
    uint32_t size = sm_ring_piece_max(job->conn);
    struct sm_rma_header header = {.token = job->token, .offset = job->used};
    struct na_plugin_mem *mem;
    bool sent = false;

    if (size > job->length - job->used)
        size = (uint32_t) (job->length - job->used);
    kit_lock_take(&registry->lock);
    job->status = sm_registry_find(registry, job->index, &job->key, NA_PLUGIN_MEM_READ,
                                   job->offset + job->used, size, &mem);
    if (job->status == NA_PLUGIN_SUCCESS)
        sent = sm_ring_send_piece(job->conn, SM_KIND_PIECE, context->id, 0, &header, mem,
                                  job->offset + job->used, size);
    kit_lock_drop(&registry->lock);
    if (!sent)
        return false;
    job->used += size;
    sm_rma_moved(context);
    return true;
}
