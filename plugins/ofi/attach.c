/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets between processes of one node, by cross-memory attach. The origin asks, the target
 * looks at the handle and moves the bytes, a piece at each poll, and answers. The shm provider does
 * the same, but answers neither for a handle that it refuses nor when its peer dies, and whatever
 * comes behind such a transfer then waits for ever.
 *
 * Where the system does not let one process touch the other the target says so, once it has looked
 * at the handle, and the data travel in control records (carry.c). Those here stay within a node:
 * its byte order is theirs.
 */

#include "ofi.h"

#include <string.h>

#define OFI_ATTACH_PIECE  (UINT64_C(1) << 20)
#define OFI_ATTACH_BUDGET (UINT64_C(4) << 20) /* bytes in one poll */
#define OFI_ATTACH_JOBS   65536u              /* asked for at a time, by all peers */

/* Types of control records. */
enum ofi_attach_record {
    OFI_ATTACH_REQUEST = 1,
    OFI_ATTACH_ANSWER,
    OFI_ATTACH_CANCEL
};

struct ofi_attach_request {
    uint64_t id;     /* the origin's */
    uint64_t region; /* the target's, and its key */
    struct kit_key key;
    uint64_t offset;
    uint64_t length;
    uint64_t address; /* the origin's memory */
    uint32_t is_put;
    uint32_t reserved;
};

struct ofi_attach_answer {
    uint64_t id;
    int32_t status;
    uint32_t reserved;
};

struct ofi_attach_cancel {
    uint64_t id;
};

/* What a peer asked for. */
struct ofi_job {
    struct ofi_job *next;
    struct fabric_peer *peer;
    struct ofi_attach_request request;
    uint64_t incarnation; /* of the peer when it asked; 0: its process is not known */
    uint64_t done;
    int32_t status;
    bool is_over; /* to be answered */
};

static void ofi_attach_requested(struct na_plugin_class *na_class, struct fabric_peer *peer,
                                 const struct ofi_attach_request *request);
static void ofi_attach_answered(struct na_plugin_class *na_class, struct fabric_peer *peer,
                                const struct ofi_attach_answer *answer);
static void ofi_attach_cancelled(struct na_plugin_class *na_class, const struct fabric_peer *peer,
                                 uint64_t id);
static uint64_t ofi_job_step(struct na_plugin_class *na_class, struct ofi_job *job);
static int32_t ofi_job_target(const struct na_plugin_class *na_class, const struct ofi_job *job,
                              uint8_t **memory_p);
static bool ofi_job_finish(struct na_plugin_class *na_class, const struct ofi_job *job);
static struct ofi_job *ofi_job_get(struct na_plugin_class *na_class);
static void ofi_job_free(struct na_plugin_class *na_class, struct ofi_job **link);

/* Whether that is the way: between processes of a node, in plain memory. */
bool ofi_attach_is_way(const struct na_plugin_class *na_class)
{
    return na_class->protocol.node_local && (na_class->info->caps & FI_HMEM) == 0;
}

/* Asks the target. */
int32_t ofi_attach_start(struct na_plugin_class *na_class, struct ofi_rma *rma)
{
    const struct fabric_rma *wanted = rma->rma;
    struct ofi_peer *peer = wanted->peer->priv;
    struct ofi_attach_request request = {
        .id = ++na_class->attach_id,
        .region = wanted->remote->region.id,
        .key = wanted->remote->region.key,
        .offset = wanted->remote_offset,
        .length = wanted->length,
        .address = wanted->local->region.base + wanted->local_offset,
        .is_put = wanted->is_put,
    };
    int32_t ret;

    rma->id = request.id;
    ofi_attached_add(peer, rma);
    ret = fabric_control_send(&na_class->base, wanted->peer, OFI_ATTACH_REQUEST, &request,
                              sizeof(request));
    if (ret == NA_PLUGIN_SUCCESS && peer->address == NULL)
        ret = NA_PLUGIN_HOSTUNREACH; /* that was how its end was found out */
    if (ret != NA_PLUGIN_SUCCESS)
        (void) ofi_attached_take(peer, request.id);
    return ret;
}

/*
 * The origin ends it early. True: nobody will touch its memory any more, and it is let go of. The
 * target is asked to stop, and its answer awaited; from one that is gone, or has given us up, none
 * comes.
 */
bool ofi_attach_abandon(struct na_plugin_class *na_class, struct ofi_rma *rma, int32_t status)
{
    struct fabric_peer *fabric_peer = rma->rma->peer;
    struct ofi_peer *peer = fabric_peer->priv;
    struct ofi_attach_cancel cancel = {.id = rma->id};

    if (status == NA_PLUGIN_CANCELED && peer->address != NULL) {
        if (rma->is_abandoned)
            return false;
        rma->is_abandoned = true;
        (void) fabric_control_send(&na_class->base, fabric_peer, OFI_ATTACH_CANCEL, &cancel,
                                   sizeof(cancel));
        if (peer->address != NULL)
            return false;
    }
    if (ofi_attached_take(peer, rma->id) != NULL)
        fabric_rma_done(&na_class->base, rma->rma, status);
    return true;
}

void ofi_attach_control(struct na_plugin_class *na_class, struct fabric_peer *peer, uint32_t type,
                        const void *data, uint64_t size)
{
    struct ofi_attach_request request;
    struct ofi_attach_answer answer;
    struct ofi_attach_cancel cancel;

    if (type == OFI_ATTACH_REQUEST && size == sizeof(request)) {
        memcpy(&request, data, sizeof(request));
        ofi_attach_requested(na_class, peer, &request);
    } else if (type == OFI_ATTACH_ANSWER && size == sizeof(answer)) {
        memcpy(&answer, data, sizeof(answer));
        ofi_attach_answered(na_class, peer, &answer);
    } else if (type == OFI_ATTACH_CANCEL && size == sizeof(cancel)) {
        memcpy(&cancel, data, sizeof(cancel));
        ofi_attach_cancelled(na_class, peer, cancel.id);
    } else {
        OFI_LOG_DEBUG("dropped a record of type %u and %llu bytes from %s", type,
                      (unsigned long long) size, peer->name);
    }
}

/* Moves some of what was asked for, in order. */
void ofi_attach_progress(struct na_plugin_class *na_class)
{
    uint64_t budget = OFI_ATTACH_BUDGET;

    if (!fabric_endpoint_is_active(&na_class->base))
        return; /* we have said goodbye: nobody expects it any more */
    while (na_class->jobs != NULL && budget != 0) {
        struct ofi_job *job = na_class->jobs;
        uint64_t moved = job->is_over ? 0 : ofi_job_step(na_class, job);

        budget -= moved < budget ? moved : budget;
        if (!job->is_over)
            continue;
        if (!ofi_job_finish(na_class, job))
            return;                /* no memory for the answer: at the next poll */
        if (na_class->jobs == job) /* its peer may have failed in there, and its jobs with it */
            ofi_job_free(na_class, &na_class->jobs);
    }
}

/* The peer is closed, or with NULL all are. */
void ofi_attach_drop(struct na_plugin_class *na_class, const struct fabric_peer *peer)
{
    struct ofi_job **link = &na_class->jobs;

    while (*link != NULL) {
        if (peer == NULL || (*link)->peer == peer)
            ofi_job_free(na_class, link);
        else
            link = &(*link)->next;
    }
    while (peer == NULL && na_class->jobs_free != NULL) {
        struct ofi_job *job = na_class->jobs_free;

        na_class->jobs_free = job->next;
        kit_host->mem_free(job);
    }
}

static void ofi_attach_requested(struct na_plugin_class *na_class, struct fabric_peer *peer,
                                 const struct ofi_attach_request *request)
{
    struct ofi_attach_answer answer = {.id = request->id, .status = NA_PLUGIN_NOMEM};
    struct ofi_job *job = NULL;
    uint32_t pid;

    if (na_class->job_count < OFI_ATTACH_JOBS)
        job = ofi_job_get(na_class);
    if (job == NULL) {
        (void) fabric_control_send(&na_class->base, peer, OFI_ATTACH_ANSWER, &answer,
                                   sizeof(answer));
        return;
    }
    *job = (struct ofi_job){.peer = peer, .request = *request};
    if (!fabric_peer_process(peer, &pid, &job->incarnation))
        job->incarnation = 0;
    if (na_class->jobs == NULL)
        na_class->jobs_end = &na_class->jobs;
    *na_class->jobs_end = job;
    na_class->jobs_end = &job->next;
    na_class->job_count++;
}

static void ofi_attach_answered(struct na_plugin_class *na_class, struct fabric_peer *peer,
                                const struct ofi_attach_answer *answer)
{
    struct ofi_peer *private = peer->priv;
    struct ofi_rma *rma = ofi_attached_take(private, answer->id);
    int32_t status = answer->status;

    if (rma == NULL)
        return;
    if (status == NA_PLUGIN_OPNOTSUPPORTED && !rma->is_abandoned) {
        if (!private->is_unattachable)
            OFI_LOG_WARNING(
                "peer %s and this process may not touch each other's memory: data go in "
                "messages, which takes long; see kernel.yama.ptrace_scope, or use na+sm",
                peer->name);
        private->is_unattachable = true;
        ofi_carry_copy(na_class, rma);
        return;
    }
    if (rma->is_abandoned && status != NA_PLUGIN_SUCCESS)
        status = NA_PLUGIN_CANCELED;
    if (status < NA_PLUGIN_SUCCESS || status > NA_PLUGIN_HOSTFIREWALL)
        status = NA_PLUGIN_PROTOCOL_ERROR;
    fabric_rma_done(&na_class->base, rma->rma, status);
}

/* One that is over already has its answer under way. */
static void ofi_attach_cancelled(struct na_plugin_class *na_class, const struct fabric_peer *peer,
                                 uint64_t id)
{
    for (struct ofi_job *job = na_class->jobs; job != NULL; job = job->next) {
        if (job->peer != peer || job->request.id != id || job->is_over)
            continue;
        job->status = NA_PLUGIN_CANCELED;
        job->is_over = true;
    }
}

void ofi_attached_add(struct ofi_peer *peer, struct ofi_rma *rma)
{
    rma->is_attached = true;
    rma->next = NULL;
    if (peer->attached == NULL)
        peer->attached_end = &peer->attached;
    *peer->attached_end = rma;
    peer->attached_end = &rma->next;
}

struct ofi_rma *ofi_attached_find(const struct ofi_peer *peer, uint64_t id)
{
    struct ofi_rma *rma = peer->attached;

    while (rma != NULL && rma->id != id)
        rma = rma->next;
    return rma;
}

/* Out of the list of those that wait for an answer; the first, most often. */
struct ofi_rma *ofi_attached_take(struct ofi_peer *peer, uint64_t id)
{
    struct ofi_rma **link = &peer->attached, *rma;

    while (*link != NULL && (*link)->id != id)
        link = &(*link)->next;
    rma = *link;
    if (rma == NULL)
        return NULL;
    *link = rma->next;
    if (rma->next == NULL)
        peer->attached_end = link;
    rma->next = NULL;
    rma->is_attached = false;
    return rma;
}

/* Moves a piece; returns its size. */
static uint64_t ofi_job_step(struct na_plugin_class *na_class, struct ofi_job *job)
{
    const struct ofi_attach_request *request = &job->request;
    struct iovec local, remote;
    uint64_t size = request->length - job->done, incarnation, moved = 0;
    uint8_t *memory;
    uint32_t pid;

    job->status = ofi_job_target(na_class, job, &memory);
    if (job->status == NA_PLUGIN_SUCCESS && job->incarnation == 0 && size != 0)
        job->status = NA_PLUGIN_OPNOTSUPPORTED;
    if (job->status == NA_PLUGIN_SUCCESS && size != 0 &&
        (!fabric_peer_process(job->peer, &pid, &incarnation) || incarnation != job->incarnation))
        job->status = NA_PLUGIN_HOSTUNREACH; /* another process than the one that asked */
    if (size > OFI_ATTACH_PIECE)
        size = OFI_ATTACH_PIECE;
    if (job->status == NA_PLUGIN_SUCCESS && size != 0) {
        local = (struct iovec){memory + job->done, size};
        remote = kit_iovec(request->address + job->done, size);
        job->status = request->is_put != 0 ? kit_attach_read(pid, &local, 1, &remote, 1, &moved)
                                           : kit_attach_write(pid, &local, 1, &remote, 1, &moved);
    }
    job->done += moved;
    job->is_over = job->status != NA_PLUGIN_SUCCESS || job->done == request->length;
    return moved;
}

/* Looked up again for each piece: what was deregistered meanwhile is out of reach. */
static int32_t ofi_job_target(const struct na_plugin_class *na_class, const struct ofi_job *job,
                              uint8_t **memory_p)
{
    const struct ofi_attach_request *request = &job->request;
    struct na_plugin_mem *mem;
    int32_t ret = ofi_mem_reach(na_class, job->peer->name, request->region, &request->key,
                                request->offset, request->length, request->is_put != 0, &mem);

    if (ret == NA_PLUGIN_SUCCESS)
        *memory_p = ofi_mem_base(mem) + request->offset;
    return ret;
}

/* False when it has to be tried again. */
static bool ofi_job_finish(struct na_plugin_class *na_class, const struct ofi_job *job)
{
    struct ofi_attach_answer answer = {.id = job->request.id, .status = job->status};

    return fabric_control_send(&na_class->base, job->peer, OFI_ATTACH_ANSWER, &answer,
                               sizeof(answer)) != NA_PLUGIN_NOMEM;
}

static struct ofi_job *ofi_job_get(struct na_plugin_class *na_class)
{
    struct ofi_job *job = na_class->jobs_free;

    if (job == NULL)
        return kit_host->mem_alloc(sizeof(*job), 0);
    na_class->jobs_free = job->next;
    return job;
}

/* Out of the list, to be used again. */
static void ofi_job_free(struct na_plugin_class *na_class, struct ofi_job **link)
{
    struct ofi_job *job = *link;

    *link = job->next;
    if (job->next == NULL)
        na_class->jobs_end = link;
    na_class->job_count--;
    job->next = na_class->jobs_free;
    na_class->jobs_free = job;
}
