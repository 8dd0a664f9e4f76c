/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs: MPI messages with their buffers, and the arrays of their requests. A job that MPI has not
 * completed when its class closes remains in a list of the process until MPI completes it, which
 * Open MPI never does for a send to a dead process. So jobs are allocated with malloc, and not by
 * the host, to which a class must return all memory.
 */

#include "mpi_class.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS_FIRST 64u
#define JOB_SMALL      1024u /* bytes: MPI mostly completes such sends at once */

static void job_defer_poll(struct mpi_job *job);
static bool job_is_done(struct mpi_job *job);
static bool job_is_shared(const struct mpi_job *job);
static bool job_is_piece(enum mpi_job_kind kind);
static struct mpi_job *job_make(struct na_plugin_class *na_class, uint64_t capacity);
static void job_free(struct mpi_job *job);
static void *memory_get(uint64_t size, uint64_t align);
static void job_add(struct mpi_job *job);
static uint32_t jobs_collect_next(struct na_plugin_class *na_class, uint32_t tests);
static bool job_collect(struct na_plugin_class *na_class, uint32_t tests, uint32_t place);
static uint32_t jobs_collect_all(struct na_plugin_class *na_class);
static void job_read_status(struct mpi_job *job, const MPI_Status *status, bool has_error);
static bool requests_grow(struct na_plugin_class *na_class);
static void requests_take_out(struct na_plugin_class *na_class, uint32_t index);
static void pool_free(struct kit_link *pool);

/* Jobs of closed classes that MPI has not completed. */
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

    mpi_job_free_request(job);
    kit_list_remove(&job->node);
    job->link = NULL;
    kit_list_prepend(job_is_piece(job->kind) ? &na_class->free_pieces : &na_class->free_frames,
                     &job->node);
    link->jobs--;
    mpi_link_unused(link);
}

/* Frees the request of a completed receive, which MPI_Request_get_status() does not. */
void mpi_job_free_request(struct mpi_job *job)
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
 * Sends the job's buffer to the link's endpoint; with `is_sync` the send completes when it is
 * received. MPI completes most small frames at once, but a test costs half as much as the send: up
 * to MPI_SENT_MAX of them wait in the list `sent`. A job that is neither in that list nor in the
 * requests afterwards is completed, and its status is set.
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
        job_defer_poll(job);
    else if (!is_small || !job_is_done(job))
        job_add(job);
    return NA_PLUGIN_SUCCESS;
}

/* Takes a job out of `sent`. True if it is completed, else it is in the requests. */
bool mpi_job_poll(struct mpi_job *job)
{
    job->link->na_class->sent_count--;
    kit_list_remove(&job->node);
    if (kit_likely(job_is_done(job)))
        return true;
    job_add(job);
    return false;
}

/* Posts a receive from the link's endpoint, or from all. */
int32_t mpi_job_receive(struct mpi_job *job, int tag, uint64_t size)
{
    const struct mpi_link *link = job->link;
    char text[MPI_TEXT_MAX];
    int error;

    mpi_job_free_request(job);
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

/* Receives a message of a closing link, to drop it; false: there is none. */
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
 * Cancels a receive; one that MPI has matched completes when its message has arrived. Cancels only
 * once: a second MPI_Cancel() completes the receive again in Open MPI, which crashes.
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

/* Moves a job to `remains`, where it stays with its buffer until MPI completes it. */
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
 * Puts completed jobs, in any order, into requests->done, with status, source and size set, and
 * takes them out of the requests. If only receives on the shared link are posted, only the one that
 * MPI fills next is tested: that is cheaper, and it sees a message that arrived in the same call,
 * whereas Open MPI's MPI_Testsome() sees those of the call before.
 */
uint32_t mpi_jobs_collect(struct na_plugin_class *na_class)
{
    const bool has_others = na_class->requests.count != na_class->posted_count;
    uint32_t count = 0;

    if (kit_likely(!na_class->has_more || !has_others))
        count = jobs_collect_next(na_class, has_others ? MPI_TESTS : MPI_TESTS_ALONE);
    if (kit_likely(count == 0) &&
        (has_others || (!na_class->has_more && ++na_class->collects % MPI_ALL_POLLS == 0)))
        count = jobs_collect_all(na_class);
    na_class->has_more = count != 0;
    return count;
}

/* Collects one frame; after a poll that found some, all that are there. */
static uint32_t jobs_collect_next(struct na_plugin_class *na_class, uint32_t tests)
{
    uint32_t count = 0;

    if (na_class->has_more || mpi_has_deferred(na_class))
        tests = 1; /* there is other work to do */
    while (job_collect(na_class, tests, count)) {
        count++;
        if (kit_likely(!na_class->has_more))
            break;
    }
    return count;
}

/* Collects the receive that MPI fills next, if it is filled. Its request is freed later. */
static bool job_collect(struct na_plugin_class *na_class, uint32_t tests, uint32_t place)
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
    status.MPI_ERROR = MPI_SUCCESS; /* not every MPI sets it */
    do                              /* another test is cheaper than another poll */
        error = MPI_Request_get_status(*request, &is_done, &status);
    while (is_done == 0 && error == MPI_SUCCESS && --tests != 0);
    if (kit_likely(is_done == 0) || error != MPI_SUCCESS || status.MPI_ERROR != MPI_SUCCESS)
        return false;
    job_read_status(job, &status, false);
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
    if (kit_likely(count <= 0)) /* MPI_UNDEFINED: there are no active requests */
        return 0;
    for (int i = 0; i < count; i++) {
        requests->done[i] = requests->jobs[requests->indices[i]];
        job_read_status(requests->done[i], &requests->statuses[i], class != MPI_SUCCESS);
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

/* Frees jobs in `remains` that MPI has completed. */
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

/* Makes a job and a place in the arrays for its request, so that posting it cannot fail. */
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

/* Adds a job to the class's requests. */
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

static void job_defer_poll(struct mpi_job *job)
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

/* True for a receive on the shared link. */
static bool job_is_shared(const struct mpi_job *job)
{
    return job->kind == MPI_JOB_RECV_FRAME && job->link == job->link->na_class->shared;
}

static void job_read_status(struct mpi_job *job, const MPI_Status *status, bool has_error)
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
            /* A caller up the stack may be iterating over these. */
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

/* Removes a request; the last one takes its place. */
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
