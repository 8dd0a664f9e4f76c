/* SPDX-License-Identifier: BSD-3-Clause */
/* What peers ask of our memory: each request is held against the registered regions first. */

#include "rma_state.h"

#include <endian.h>

static int32_t job_check(struct kit_rma *rma, const struct rma_record *record,
                         struct kit_region **memory_p);
static uint32_t job_hash(const void *peer, uint64_t id);

/* The record is in our byte order. */
void kit_rma_target_start(struct kit_rma *rma, void *peer, const struct rma_record *record,
                          const uint32_t *tags)
{
    bool is_put = (record->flags & RMA_IS_PUT) != 0;
    struct kit_region *memory = NULL;
    int32_t ret = job_check(rma, record, &memory);
    struct kit_rma_transfer *job = NULL;
    uint32_t hash = job_hash(peer, record->transfer);

    if (rma->target_count + rma->closing_count < RMA_TARGET_MAX)
        job = kit_rma_transfer_get(rma, peer, ret == NA_PLUGIN_SUCCESS ? record->length : 1,
                                   ret == NA_PLUGIN_SUCCESS ? record->piece_size : 1);
    if (job == NULL) { /* all that can be done is to say so once */
        kit_rma_answer(rma, peer, record, is_put ? RMA_CANCEL : RMA_STOP, 0,
                       ret != NA_PLUGIN_SUCCESS ? ret : NA_PLUGIN_NOMEM);
        return;
    }
    job->id = record->transfer;
    job->is_put = is_put;
    job->is_sender = !is_put;
    job->memory = memory;
    job->hash_next = rma->buckets[hash];
    rma->buckets[hash] = job;
    rma->target_count++;
    kit_list_append(&rma->targets, &job->node);
    if (ret == NA_PLUGIN_SUCCESS) {
        job->base = kit_rma_mem_base(memory) + record->offset;
        if (record->tag_count != 0 && !kit_rma_tags_take(job, record, tags))
            ret = NA_PLUGIN_PROTOCOL_ERROR;
    }
    if (ret == NA_PLUGIN_SUCCESS) {
        kit_rma_transfer_run(job);
        return;
    }
    rma->counters.refused++;
    RMA_LOG_WARNING(rma, "refused to let a peer %s %llu bytes at %llu of region %llx: status %d",
                    is_put ? "write" : "read", (unsigned long long) record->length,
                    (unsigned long long) record->offset, (unsigned long long) record->memory, ret);
    kit_rma_transfer_end(job, ret, true);
}

struct kit_rma_transfer *kit_rma_target_find(struct kit_rma *rma, const void *peer, uint64_t id)
{
    struct kit_rma_transfer *job = rma->buckets[job_hash(peer, id)];

    while (job != NULL && (job->peer != peer || job->id != id))
        job = job->hash_next;
    return job;
}

void kit_rma_target_forget(struct kit_rma_transfer *job)
{
    struct kit_rma_transfer **link = &job->rma->buckets[job_hash(job->peer, job->id)];

    while (*link != NULL && *link != job)
        link = &(*link)->hash_next;
    if (*link == job)
        *link = job->hash_next;
}

static int32_t job_check(struct kit_rma *rma, const struct rma_record *record,
                         struct kit_region **memory_p)
{
    bool is_put = (record->flags & RMA_IS_PUT) != 0;

    if (record->length == 0 || record->piece_size < RMA_PIECE_MIN ||
        record->piece_size > rma->config.piece_size || (is_put && record->tag_count != 0))
        return NA_PLUGIN_PROTOCOL_ERROR;
    return kit_region_find(&rma->regions, record->memory, &record->key,
                           is_put ? NA_PLUGIN_MEM_WRITE : NA_PLUGIN_MEM_READ, record->offset,
                           record->length, memory_p);
}

static uint32_t job_hash(const void *peer, uint64_t id)
{
    uint64_t value = ((uint64_t) (uintptr_t) peer >> 4) * UINT64_C(0x9e3779b97f4a7c15) + id;

    value *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t) (value >> 32) % RMA_BUCKETS;
}
