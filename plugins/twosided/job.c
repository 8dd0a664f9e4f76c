/* SPDX-License-Identifier: BSD-3-Clause */
/* What peers ask of our memory: each request is held against the registered regions first. */

#include "state.h"

#include <endian.h>

static int32_t job_check(struct twosided *ts, const struct twosided_record *record,
                         struct twosided_memory **memory_p);
static uint32_t job_hash(const void *peer, uint64_t id);

/* The record is in our byte order. */
void twosided_job_start(struct twosided *ts, void *peer, const struct twosided_record *record,
                        const uint32_t *tags)
{
    bool is_put = (record->flags & TWOSIDED_IS_PUT) != 0;
    struct twosided_memory *memory = NULL;
    int32_t ret = job_check(ts, record, &memory);
    struct twosided_transfer *job = NULL;
    uint32_t hash = job_hash(peer, record->transfer);

    if (ts->job_count + ts->orphan_count < TWOSIDED_JOBS_MAX)
        job = twosided_transfer_get(ts, peer, ret == NA_PLUGIN_SUCCESS ? record->length : 1,
                                    ret == NA_PLUGIN_SUCCESS ? record->piece_size : 1);
    if (job == NULL) { /* all that can be done is to say so once */
        twosided_answer(ts, peer, record, is_put ? TWOSIDED_CANCEL : TWOSIDED_STOP, 0,
                        ret != NA_PLUGIN_SUCCESS ? ret : NA_PLUGIN_NOMEM);
        return;
    }
    job->id = record->transfer;
    job->is_put = is_put;
    job->is_sender = !is_put;
    job->memory = memory;
    job->hash_next = ts->buckets[hash];
    ts->buckets[hash] = job;
    ts->job_count++;
    kit_list_append(&ts->jobs, &job->node);
    if (ret == NA_PLUGIN_SUCCESS) {
        job->base = twosided_mem_base(memory) + record->offset;
        if (record->tag_count != 0 && !twosided_tags_take(job, record, tags))
            ret = NA_PLUGIN_PROTOCOL_ERROR;
    }
    if (ret == NA_PLUGIN_SUCCESS) {
        twosided_transfer_run(job);
        return;
    }
    ts->counters.refused++;
    TWOSIDED_LOG_WARNING(
        ts, "refused to let a peer %s %llu bytes at %llu of region %llx: status %d",
        is_put ? "write" : "read", (unsigned long long) record->length,
        (unsigned long long) record->offset, (unsigned long long) record->memory, ret);
    twosided_transfer_end(job, ret, true);
}

struct twosided_transfer *twosided_job_find(struct twosided *ts, const void *peer, uint64_t id)
{
    struct twosided_transfer *job = ts->buckets[job_hash(peer, id)];

    while (job != NULL && (job->peer != peer || job->id != id))
        job = job->hash_next;
    return job;
}

void twosided_job_forget(struct twosided_transfer *job)
{
    struct twosided_transfer **link = &job->ts->buckets[job_hash(job->peer, job->id)];

    while (*link != NULL && *link != job)
        link = &(*link)->hash_next;
    if (*link == job)
        *link = job->hash_next;
}

static int32_t job_check(struct twosided *ts, const struct twosided_record *record,
                         struct twosided_memory **memory_p)
{
    bool is_put = (record->flags & TWOSIDED_IS_PUT) != 0;

    if (record->length == 0 || record->piece_size < TWOSIDED_PIECE_MIN ||
        record->piece_size > ts->config.piece_size || (is_put && record->tag_count != 0))
        return NA_PLUGIN_PROTOCOL_ERROR;
    return twosided_mem_find(ts, record->memory, &record->key,
                             is_put ? NA_PLUGIN_MEM_WRITE : NA_PLUGIN_MEM_READ, record->offset,
                             record->length, memory_p);
}

static uint32_t job_hash(const void *peer, uint64_t id)
{
    uint64_t value = ((uint64_t) (uintptr_t) peer >> 4) * UINT64_C(0x9e3779b97f4a7c15) + id;

    value *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t) (value >> 32) % TWOSIDED_BUCKETS;
}
