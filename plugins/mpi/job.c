/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that MPI works on, with memory of their own, and the arrays of their requests. What MPI
 * does not let go of when a class closes remains, with its memory, until it does: of what was sent
 * to a process that died Open MPI never does. So that memory is the process's own, not the host's,
 * to whom everything is given back.
 */

#include "mpi_class.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS_FIRST 64u
#define JOB_SMALL      1024u /* bytes that MPI sends at once */

static void job_look_later(struct mpi_job *job);
static bool job_is_done(struct mpi_job *job);
static bool job_is_shared(const struct mpi_job *job);
static bool job_is_piece(enum mpi_job_kind kind);
static struct mpi_job *job_make(struct na_plugin_class *na_class, uint64_t capacity);
static void job_free(struct mpi_job *job);
static void *memory_get(uint64_t size, uint64_t align);
static void job_add(struct mpi_job *job);
static uint32_t jobs_collect_next(struct na_plugin_class *na_class, uint32_t looks);
static bool job_collect(struct na_plugin_class *na_class, uint32_t looks, uint32_t place);
static uint32_t jobs_collect_all(struct na_plugin_class *na_class);
static void job_judge(struct mpi_job *job, const MPI_Status *status, bool has_error);
static bool requests_grow(struct na_plugin_class *na_class);
static void requests_take_out(struct na_plugin_class *na_class, uint32_t index);
static void pool_free(struct kit_link *pool);

/* What no class has any more. */
static struct kit_link remains = {&remains, &remains};
static pthread_mutex_t remains_lock = PTHREAD_MUTEX_INITIALIZER;

/* NULL without memory. */
struct mpi_job *mpi_job_get(struct na_plugin_class *na_class, struct mpi_link *link,
                            enum mpi_job_kind kind)
{
    struct kit_link *pool = job_is_piece(kind) ? &na_class->free_pieces : &na_class->free_frames;
    uint64_t capacity = job_is_piece(kind) ? MPI_PIECE : MPI_FRAME_BUFFER;
    struct mpi_job *job;

    if (kit_likely(!kit_list_empty(pool))) {
        job = kit_container(pool->next, struct mpi_job, node);
        kit_list_remove(&job->node);
    } else {
        job = job_make(na_class, capacity);
        if (job == NULL)
            return NULL;
    }
    job->link = link;
    job->kind = kind;
    job->index = UINT32_MAX;
    job->frame = NULL;
    job->piece = NULL;
    job->is_cancelled = false;
    job->is_withdrawn = false;
    link->jobs++;
    return job;
}

void mpi_job_put(struct mpi_job *job)
{
    struct mpi_link *link = job->link;
    struct na_plugin_class *na_class = link->na_class;

    mpi_job_settle(job);
    kit_list_remove(&job->node);
    job->link = NULL;
    kit_list_prepend(job_is_piece(job->kind) ? &na_class->free_pieces : &na_class->free_frames,
                     &job->node);
    link->jobs--;
    mpi_link_unused(link);
}

/* Ends a receive that was only looked at: what MPI keeps for it goes. */
void mpi_job_settle(struct mpi_job *job)
{
    int is_done = 0;

    if (kit_likely(job->request == MPI_REQUEST_NULL))
        return;
    mpi_enter();
    (void) MPI_Test(&job->request, &is_done, MPI_STATUS_IGNORE);
    mpi_leave();
    job->request = MPI_REQUEST_NULL;
}

/*
 * What is in its memory, to the link's endpoint. Sync: it ends when it is received. MPI is done
 * with most small frames at once, but asking costs half as much as sending: they go into a list
 * for later, as long as there is room. If it is in no array and in no list afterwards, MPI is done
 * with it, and its status is set.
 */
int32_t mpi_job_send(struct mpi_job *job, int tag, uint64_t size, bool is_sync)
{
    const struct mpi_link *link = job->link;
    bool is_small = job->kind == MPI_JOB_SEND_FRAME && size <= JOB_SMALL && !is_sync;
    char text[MPI_TEXT_MAX];
    int error;

    if (kit_unlikely(is_sync))
        error =
            MPI_Issend(job->data, (int) size, MPI_BYTE, link->rank, tag, link->comm, &job->request);
    else
        error =
            MPI_Isend(job->data, (int) size, MPI_BYTE, link->rank, tag, link->comm, &job->request);
    if (kit_unlikely(error != MPI_SUCCESS)) {
        job->request = MPI_REQUEST_NULL;
        MPI_LOG_WARNING("%llu bytes could not be sent to %s (%s)", (unsigned long long) size,
                        link->name != NULL ? link->name : "a peer", mpi_text(error, text));
        return mpi_status(error);
    }
    if (kit_likely(is_small && link->na_class->sent_count < MPI_SENT_MAX))
        job_look_later(job);
    else if (!is_small || !job_is_done(job))
        job_add(job);
    return NA_PLUGIN_SUCCESS;
}

/* One of those in the list: true when MPI is done with it, else it is in the array. */
bool mpi_job_look(struct mpi_job *job)
{
    job->link->na_class->sent_count--;
    kit_list_remove(&job->node);
    if (kit_likely(job_is_done(job)))
        return true;
    job_add(job);
    return false;
}

/* From the link's endpoint, or from all. */
int32_t mpi_job_receive(struct mpi_job *job, int tag, uint64_t size)
{
    const struct mpi_link *link = job->link;
    char text[MPI_TEXT_MAX];
    int error;

    mpi_job_settle(job);
    error = MPI_Irecv(job->data, (int) size, MPI_BYTE, link->rank, tag, link->comm, &job->request);
    if (kit_likely(error == MPI_SUCCESS)) {
        job_add(job);
        return NA_PLUGIN_SUCCESS;
    }
    job->request = MPI_REQUEST_NULL;
    MPI_LOG_WARNING("no receive of %llu bytes could be posted (%s)", (unsigned long long) size,
                    mpi_text(error, text));
    return mpi_status(error);
}

/* One message of those that nobody receives; false: there is none. */
bool mpi_job_receive_rest(struct mpi_link *link)
{
    struct mpi_job *job = NULL;
    MPI_Message message;
    MPI_Status status;
    int is_there = 0, size = 0;

    mpi_enter();
    if (MPI_Improbe(link->rank, MPI_ANY_TAG, link->comm, &is_there, &message, &status) !=
        MPI_SUCCESS)
        is_there = 0;
    if (is_there != 0) {
        (void) MPI_Get_count(&status, MPI_BYTE, &size);
        job = mpi_job_get(link->na_class, link, MPI_JOB_RECV_REST);
    }
    if (job != NULL) {
        if (MPI_Imrecv(job->data, size < (int) MPI_PIECE ? size : (int) MPI_PIECE, MPI_BYTE,
                       &message, &job->request) == MPI_SUCCESS)
            job_add(job);
        else
            mpi_job_put(job);
    }
    mpi_leave();
    return job != NULL;
}

/*
 * A receive is to end; what was matched already ends when it came. MPI is asked once: Open MPI
 * completes a cancelled receive again when it is cancelled again, and crashes.
 */
void mpi_job_withdraw(struct mpi_job *job)
{
    struct mpi_requests *requests = &job->link->na_class->requests;

    job->is_cancelled = true;
    if (job->index == UINT32_MAX || job->is_withdrawn)
        return;
    job->is_withdrawn = true;
    (void) MPI_Cancel(&requests->requests[job->index]);
}

/* Nobody waits for it any more: with its memory it stays behind until MPI is done with it. */
void mpi_job_abandon(struct mpi_job *job)
{
    struct mpi_link *link = job->link;
    struct na_plugin_class *na_class = link->na_class;

    if (job->index == UINT32_MAX)
        return;
    job->request = na_class->requests.requests[job->index];
    requests_take_out(na_class, job->index);
    kit_list_remove(&job->node);
    job->link = NULL;
    na_class->job_count--;
    (void) pthread_mutex_lock(&remains_lock);
    kit_list_append(&remains, &job->node);
    (void) pthread_mutex_unlock(&remains_lock);
    link->jobs--;
    mpi_link_unused(link);
}

/*
 * Those that MPI is done with, in requests->done: status, source and size are set, they are in no
 * array any more. Their order says nothing. Where only frames of all are waited for, the one that
 * MPI fills next is asked for alone: that costs less, and unlike Open MPI's MPI_Testsome it sees
 * what the asking itself brought in, not what the asking before did.
 */
uint32_t mpi_jobs_collect(struct na_plugin_class *na_class)
{
    const bool has_others = na_class->requests.count != na_class->posted_count;
    uint32_t count = 0;

    if (kit_likely(!na_class->has_more || !has_others))
        count = jobs_collect_next(na_class, has_others ? MPI_LOOKS : MPI_LOOKS_ALONE);
    if (kit_likely(count == 0) &&
        (has_others || (!na_class->has_more && ++na_class->collects % MPI_ALL_POLLS == 0)))
        count = jobs_collect_all(na_class);
    na_class->has_more = count != 0;
    return count;
}

/* One frame at a time goes up at once; after one come all that are there. */
static uint32_t jobs_collect_next(struct na_plugin_class *na_class, uint32_t looks)
{
    uint32_t count = 0;

    if (na_class->has_more || mpi_has_later(na_class))
        looks = 1; /* there is something else to do */
    while (job_collect(na_class, looks, count)) {
        count++;
        if (kit_likely(!na_class->has_more))
            break;
    }
    return count;
}

/* The receive that MPI fills next, if it has. It is not freed but looked at: that is for later. */
static bool job_collect(struct na_plugin_class *na_class, uint32_t looks, uint32_t place)
{
    struct mpi_requests *requests = &na_class->requests;
    struct mpi_job *job;
    MPI_Request *request;
    MPI_Status status;
    int is_done = 0, error;

    if (kit_unlikely(kit_list_empty(&na_class->posted)))
        return false;
    job = kit_container(na_class->posted.next, struct mpi_job, node);
    request = &requests->requests[job->index];
    status.MPI_ERROR = MPI_SUCCESS; /* not each MPI sets it */
    do                              /* it is a longer way to the next poll than to the next look */
        error = MPI_Request_get_status(*request, &is_done, &status);
    while (is_done == 0 && error == MPI_SUCCESS && --looks != 0);
    if (kit_likely(is_done == 0) || error != MPI_SUCCESS || status.MPI_ERROR != MPI_SUCCESS)
        return false;
    job_judge(job, &status, false);
    job->request = *request;
    requests_take_out(na_class, job->index);
    requests->done[place] = job;
    return true;
}

static uint32_t jobs_collect_all(struct na_plugin_class *na_class)
{
    struct mpi_requests *requests = &na_class->requests;
    char text[MPI_TEXT_MAX];
    int count = 0, class = MPI_SUCCESS;
    int error = MPI_Testsome((int) requests->count, requests->requests, &count, requests->indices,
                             requests->statuses);

    if (kit_unlikely(error != MPI_SUCCESS)) {
        (void) MPI_Error_class(error, &class);
        if (class != MPI_ERR_IN_STATUS) {
            if (!na_class->is_failed)
                MPI_LOG_ERROR("MPI does not say what became of messages (%s)",
                              mpi_text(error, text));
            na_class->is_failed = true;
            return 0;
        }
    }
    if (kit_likely(count <= 0)) /* MPI_UNDEFINED: there was nothing to ask for */
        return 0;
    for (int i = 0; i < count; i++) {
        requests->done[i] = requests->jobs[requests->indices[i]];
        job_judge(requests->done[i], &requests->statuses[i], class != MPI_SUCCESS);
    }
    for (int i = 0; i < count; i++)
        requests_take_out(na_class, requests->done[i]->index);
    return (uint32_t) count;
}

void mpi_jobs_free(struct na_plugin_class *na_class)
{
    struct mpi_requests *requests = &na_class->requests;

    pool_free(&na_class->free_frames);
    pool_free(&na_class->free_pieces);
    pool_free(&na_class->held);
    pool_free(&na_class->again);
    pool_free(&na_class->sent);
    kit_host->mem_free((void *) requests->requests);
    kit_host->mem_free((void *) requests->jobs);
    kit_host->mem_free(requests->indices);
    kit_host->mem_free(requests->statuses);
    kit_host->mem_free((void *) requests->done);
}

/* Frees what MPI has let go of. */
void mpi_remains_look(void)
{
    struct kit_link *node, *next;

    if (mpi_process_is_over())
        return;
    (void) pthread_mutex_lock(&remains_lock);
    for (node = remains.next; node != &remains; node = next) {
        struct mpi_job *job = kit_container(node, struct mpi_job, node);
        int is_done = 0;

        next = node->next;
        if (MPI_Test(&job->request, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_done == 0)
            continue;
        kit_list_remove(node);
        job_free(job);
    }
    (void) pthread_mutex_unlock(&remains_lock);
}

static bool job_is_piece(enum mpi_job_kind kind)
{
    return kind == MPI_JOB_SEND_PIECE || kind == MPI_JOB_RECV_PIECE || kind == MPI_JOB_RECV_REST;
}

/* With a place in the arrays: posting it cannot fail for want of one. */
static struct mpi_job *job_make(struct na_plugin_class *na_class, uint64_t capacity)
{
    struct mpi_job *job;

    if (na_class->job_count == na_class->requests.capacity && !requests_grow(na_class))
        return NULL;
    job = memory_get(sizeof(*job), 64);
    if (job == NULL)
        return NULL;
    memset(job, 0, sizeof(*job));
    job->request = MPI_REQUEST_NULL;
    job->data = memory_get(capacity, 4096);
    if (job->data == NULL) {
        free(job);
        return NULL;
    }
    job->capacity = capacity;
    kit_list_init(&job->node);
    na_class->job_count++;
    return job;
}

static void job_free(struct mpi_job *job)
{
    free(job->data);
    free(job);
}

static void *memory_get(uint64_t size, uint64_t align)
{
    void *memory = NULL;

    return posix_memalign(&memory, align, size) == 0 ? memory : NULL;
}

/* To those that MPI works on. */
static void job_add(struct mpi_job *job)
{
    struct na_plugin_class *na_class = job->link->na_class;
    struct mpi_requests *requests = &na_class->requests;

    job->index = requests->count++;
    requests->requests[job->index] = job->request;
    requests->jobs[job->index] = job;
    job->request = MPI_REQUEST_NULL;
    if (job_is_shared(job)) {
        kit_list_append(&na_class->posted, &job->node);
        na_class->posted_count++;
    }
}

static void job_look_later(struct mpi_job *job)
{
    struct na_plugin_class *na_class = job->link->na_class;

    kit_list_append(&na_class->sent, &job->node);
    na_class->sent_count++;
}

static bool job_is_done(struct mpi_job *job)
{
    int is_done = 0;
    int error = MPI_Test(&job->request, &is_done, MPI_STATUS_IGNORE);

    if (kit_unlikely(error == MPI_SUCCESS && is_done == 0))
        return false;
    job->request = MPI_REQUEST_NULL;
    job->status = error == MPI_SUCCESS ? NA_PLUGIN_SUCCESS : mpi_status(error);
    return true;
}

/* A receive of what anybody sends. */
static bool job_is_shared(const struct mpi_job *job)
{
    return job->kind == MPI_JOB_RECV_FRAME && job->link == job->link->na_class->shared;
}

static void job_judge(struct mpi_job *job, const MPI_Status *status, bool has_error)
{
    int size = 0, is_cancelled = 0;

    job->status = has_error ? mpi_status(status->MPI_ERROR) : NA_PLUGIN_SUCCESS;
    job->size = 0;
    if (!mpi_job_is_receive(job))
        return;
    job->source = status->MPI_SOURCE;
    if (kit_unlikely(job->is_cancelled))
        (void) MPI_Test_cancelled(status, &is_cancelled);
    if (is_cancelled != 0)
        job->status = NA_PLUGIN_CANCELED;
    else if (MPI_Get_count(status, MPI_BYTE, &size) == MPI_SUCCESS && size > 0)
        job->size = (uint64_t) size;
}

static bool requests_grow(struct na_plugin_class *na_class)
{
    struct mpi_requests *old = &na_class->requests;
    uint32_t capacity = old->capacity == 0 ? REQUESTS_FIRST : 2 * old->capacity;
    struct mpi_requests grown = {
        .requests = kit_host->mem_alloc(capacity * sizeof(MPI_Request), 0),
        .jobs = kit_host->mem_alloc(capacity * sizeof(struct mpi_job *), 0),
        .indices = kit_host->mem_alloc(capacity * sizeof(int), 0),
        .statuses = kit_host->mem_alloc(capacity * sizeof(MPI_Status), 0),
        .done = kit_host->mem_alloc(capacity * sizeof(struct mpi_job *), 0),
        .count = old->count,
        .capacity = capacity,
    };
    struct mpi_requests gone = grown;
    bool is_grown = grown.requests != NULL && grown.jobs != NULL && grown.indices != NULL &&
                    grown.statuses != NULL && grown.done != NULL;

    if (is_grown) {
        if (old->capacity != 0) {
            memcpy((void *) grown.requests, (void *) old->requests,
                   old->count * sizeof(MPI_Request));
            memcpy((void *) grown.jobs, (void *) old->jobs, old->count * sizeof(*grown.jobs));
            /* Somebody may be going through these. */
            memcpy((void *) grown.done, (void *) old->done, old->capacity * sizeof(*grown.done));
        }
        gone = *old;
        *old = grown;
    }
    kit_host->mem_free((void *) gone.requests);
    kit_host->mem_free((void *) gone.jobs);
    kit_host->mem_free(gone.indices);
    kit_host->mem_free(gone.statuses);
    kit_host->mem_free((void *) gone.done);
    return is_grown;
}

/* The last one takes its place. */
static void requests_take_out(struct na_plugin_class *na_class, uint32_t index)
{
    struct mpi_requests *requests = &na_class->requests;
    struct mpi_job *job = requests->jobs[index];
    uint32_t last = --requests->count;

    job->index = UINT32_MAX;
    if (job_is_shared(job)) {
        kit_list_remove(&job->node);
        na_class->posted_count--;
    }
    if (index == last)
        return;
    requests->requests[index] = requests->requests[last];
    requests->jobs[index] = requests->jobs[last];
    requests->jobs[index]->index = index;
}

static void pool_free(struct kit_link *pool)
{
    while (!kit_list_empty(pool)) {
        struct mpi_job *job = kit_container(pool->next, struct mpi_job, node);

        kit_list_remove(&job->node);
        job_free(job);
    }
}
