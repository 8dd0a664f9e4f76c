/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links to other endpoints. A link outlives its peer until MPI has completed its jobs. A link with
 * its own communicator lives until both sides have sent a BYE: MPI reuses the number of a freed
 * communicator, so a late message of the other side would arrive in another communicator.
 */

#include "mpi_class.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static struct mpi_link *link_find(struct na_plugin_class *na_class, const char *name);
static int32_t link_open_static(struct mpi_link *link);
static int32_t link_open_dynamic(struct mpi_link *link, const struct kit_peer *peer);
static bool link_is_dead(const struct kit_peer *peer);
static void link_skip_bye_if_dead(struct mpi_link *link, const struct kit_peer *peer);
static void link_connect(struct mpi_link *link, MPI_Comm comm, uint32_t serial);
static void link_dialed(struct mpi_link *link);
static void link_fail(struct mpi_link *link, const char *reason);
static struct mpi_link *link_by_number(struct na_plugin_class *na_class, uint32_t number);
static void link_free(struct mpi_link *link);

/* `name` NULL: the shared link. */
struct mpi_link *mpi_link_make(struct na_plugin_class *na_class, const char *name)
{
    size_t size = name != NULL ? strlen(name) + 1 : 0;
    struct mpi_link *link = kit_host->mem_alloc(sizeof(*link) + size, 0);

    if (link == NULL)
        return NULL;
    if (name != NULL) {
        link->name = (char *) link + sizeof(*link);
        memcpy(link->name, name, size);
    }
    link->na_class = na_class;
    link->comm = MPI_COMM_NULL;
    link->number = mpi_process_number();
    link->phase = MPI_LINK_DIALING;
    kit_list_append(&na_class->links, &link->node);
    return link;
}

/* Closes a link that is not used any more, and sends a BYE if it has its own communicator. */
void mpi_link_drop(struct mpi_link *link)
{
    struct mpi_job *job;

    if (link->is_closing)
        return;
    link->is_closing = true;
    if (link->is_own_comm && !link->has_said_bye) {
        link->has_said_bye = true;
        mpi_enter();
        job = mpi_job_get(link->na_class, link, MPI_JOB_SEND_META);
        if (job != NULL) {
            memcpy(job->data, &link->sent, sizeof(link->sent));
            if (mpi_job_send(job, MPI_TAG_META, sizeof(link->sent), false) != NA_PLUGIN_SUCCESS)
                mpi_job_put(job);
        }
        mpi_leave();
    }
    link->has_heard_bye |= link->is_peer_closing;
    if (link->has_heard_bye)
        mpi_link_drain(link);
    mpi_link_unused(link);
}

/* Frees closing links that have no jobs, and on which no message can arrive any more. */
void mpi_links_free_unused(struct na_plugin_class *na_class)
{
    struct kit_link *node = na_class->links.next;

    na_class->has_unused = false;
    while (node != &na_class->links) {
        struct mpi_link *link = kit_container(node, struct mpi_link, node);

        node = node->next;
        if (link->is_closing && link->jobs == 0 &&
            (!link->is_own_comm || (link->has_said_bye && link->has_heard_bye)))
            link_free(link);
    }
}

/* Takes the connections that other threads made or accepted for this class. */
void mpi_link_met(struct na_plugin_class *na_class)
{
    struct mpi_arrival *arrival;

    while ((arrival = mpi_process_arrival(na_class)) != NULL) {
        struct mpi_link *link = arrival->is_dialed ? link_by_number(na_class, arrival->link)
                                                   : mpi_link_make(na_class, arrival->name);

        if (link == NULL && arrival->comm != MPI_COMM_NULL)
            link = mpi_link_make(na_class, arrival->name); /* closed meanwhile: only to say BYE */
        if (link != NULL && arrival->comm != MPI_COMM_NULL) {
            bool is_closing = link->is_closing || (arrival->is_dialed && link->peer == NULL);

            link->is_closing = false;
            link_connect(link, arrival->comm, arrival->serial);
            if (is_closing)
                mpi_link_drop(link);
        } else if (link != NULL) {
            link_fail(link, "there is no connection to it");
        }
        kit_host->mem_free(arrival);
    }
}

/* Fails links whose connection was not accepted in time. */
void mpi_links_look(struct na_plugin_class *na_class)
{
    uint64_t now = kit_host->clock_ns();
    struct kit_link *node = na_class->links.next;

    while (node != &na_class->links) {
        struct mpi_link *link = kit_container(node, struct mpi_link, node);

        node = node->next;
        if (link->phase != MPI_LINK_DIALING || link->deadline == 0 || now < link->deadline)
            continue;
        if (mpi_dial_is_waiting()) { /* most likely this one waits for its turn */
            link->deadline = now + MPI_DIAL_NS;
            continue;
        }
        link_fail(link, "nobody has accepted the connection to it");
        node = na_class->links.next;
    }
}

/* Handles a BYE, which may overtake the last frames sent before it. */
void mpi_link_bye(const struct mpi_job *job)
{
    struct mpi_link *link = job->link;

    link->is_peer_closing = true;
    link->peer_sent = 0;
    if (job->size == sizeof(link->peer_sent))
        memcpy(&link->peer_sent, job->data, sizeof(link->peer_sent));
    mpi_link_left(link);
}

/* Ends the link if all frames that the peer sent before its BYE have arrived. */
void mpi_link_left(struct mpi_link *link)
{
    if (link->has_heard_bye ||
        (!link->is_closing && (int32_t) (mpi_source_received(link) - link->peer_sent) < 0))
        return;
    link->has_heard_bye = true;
    if (link->is_closing)
        mpi_link_drain(link);
    else
        link_fail(link, "it has closed the connection");
}

/* Cancels the receives, and receives messages sent before the BYE: the peer waits for that. */
void mpi_link_drain(struct mpi_link *link)
{
    struct mpi_requests *requests = &link->na_class->requests;

    for (uint32_t i = 0; i < requests->count; i++)
        if (requests->jobs[i]->link == link && requests->jobs[i]->kind == MPI_JOB_RECV_FRAME)
            mpi_job_withdraw(requests->jobs[i]);
    while (link->is_own_comm && mpi_job_receive_rest(link))
        ;
}

int32_t mpi_peer_open(struct kit_endpoint *endpoint, struct kit_peer *peer)
{
    struct na_plugin_class *na_class = mpi_class(endpoint);
    struct mpi_link *link = link_find(na_class, peer->name);
    int32_t ret;

    if (link == NULL) {
        link = mpi_link_make(na_class, peer->name);
        if (link == NULL)
            return NA_PLUGIN_NOMEM;
        ret = na_class->is_dynamic ? link_open_dynamic(link, peer) : link_open_static(link);
        if (ret != NA_PLUGIN_SUCCESS) {
            mpi_link_drop(link);
            return ret;
        }
    }
    link->peer = peer;
    mpi_peer(peer)->link = link;
    return NA_PLUGIN_SUCCESS;
}

void mpi_peer_close(struct kit_endpoint *endpoint, struct kit_peer *peer)
{
    struct na_plugin_class *na_class = mpi_class(endpoint);
    struct mpi_link *link = mpi_peer(peer)->link;

    if (na_class->fabric.rma != NULL)
        kit_rma_peer_failed(na_class->fabric.rma, peer, NA_PLUGIN_HOSTUNREACH);
    mpi_peer(peer)->link = NULL;
    if (link == NULL)
        return;
    link_skip_bye_if_dead(link, peer);
    link->peer = NULL;
    mpi_link_drop(link);
}

/* Sends BYE on all links when the class closes, and waits a moment for the peers' BYEs. */
void mpi_links_close(struct na_plugin_class *na_class)
{
    uint64_t end = kit_host->clock_ns() + MPI_BYE_NS;
    struct kit_link *node, *next;
    bool is_waiting = true;

    for (node = na_class->links.next; node != &na_class->links; node = next) {
        struct mpi_link *link = kit_container(node, struct mpi_link, node);

        next = node->next;
        if (link->peer != NULL) {
            mpi_peer(link->peer)->link = NULL;
            link_skip_bye_if_dead(link, link->peer);
        }
        link->peer = NULL;
        mpi_link_drop(link);
    }
    mpi_frames_look(na_class);
    while (is_waiting && kit_host->clock_ns() < end) {
        uint32_t count = mpi_jobs_collect(na_class);

        for (uint32_t i = 0; i < count; i++) {
            struct mpi_job *job = na_class->requests.done[i];

            if (job->kind == MPI_JOB_RECV_META && job->status == NA_PLUGIN_SUCCESS)
                mpi_link_bye(job);
            if (job->kind == MPI_JOB_RECV_FRAME && job->status == NA_PLUGIN_SUCCESS)
                mpi_frame_drop(job);
            else
                mpi_job_put(job);
        }
        mpi_links_free_unused(na_class);
        is_waiting = false;
        for (node = na_class->links.next; node != &na_class->links; node = node->next)
            is_waiting |= kit_container(node, struct mpi_link, node)->is_own_comm;
    }
}

/* Frees links at the end of a class. MPI may still use their communicators, which are retired. */
void mpi_links_free(struct na_plugin_class *na_class)
{
    while (!kit_list_empty(&na_class->links)) {
        struct mpi_link *link = kit_container(na_class->links.next, struct mpi_link, node);

        kit_list_remove(&link->node);
        if (link->is_own_comm)
            mpi_comm_retire(link->comm);
        kit_host->mem_free(link);
    }
}

/* Returns a ready link to the endpoint that no peer uses, or NULL. */
static struct mpi_link *link_find(struct na_plugin_class *na_class, const char *name)
{
    for (struct kit_link *node = na_class->links.next; node != &na_class->links;
         node = node->next) {
        struct mpi_link *link = kit_container(node, struct mpi_link, node);

        if (link->name != NULL && link->peer == NULL && !link->is_closing &&
            link->phase == MPI_LINK_READY && strcmp(link->name, name) == 0)
            return link;
    }
    return NULL;
}

/* Ranks of one job need no connection. */
static int32_t link_open_static(struct mpi_link *link)
{
    if (!mpi_name_read(link->name, &link->rank, &link->serial))
        return NA_PLUGIN_HOSTUNREACH;
    if (link->rank == mpi_process.rank && !mpi_process_has(link->serial)) {
        MPI_LOG_INFO("there is no endpoint %s in this process", link->name);
        return NA_PLUGIN_HOSTUNREACH;
    }
    link->is_local = link->rank == mpi_process.rank;
    link->comm = mpi_process.world;
    link->phase = MPI_LINK_READY;
    return NA_PLUGIN_SUCCESS;
}

/*
 * MPI cannot connect a process with itself. It needs minutes to notice that a port is gone, so a
 * peer on this node whose process has ended is not connected to.
 */
static int32_t link_open_dynamic(struct mpi_link *link, const struct kit_peer *peer)
{
    int32_t ret;

    if (!mpi_process_local(link->name, &link->serial)) {
        if (mpi_port_is_own(link->name) || link_is_dead(peer))
            return NA_PLUGIN_HOSTUNREACH;
        ret = mpi_dial(link);
        if (ret == NA_PLUGIN_SUCCESS) {
            link->deadline = kit_host->clock_ns() + MPI_DIAL_NS;
            link->na_class->dialing++;
        }
        return ret;
    }
    link->is_local = true;
    link->comm = mpi_process.self;
    link->rank = 0;
    link->phase = MPI_LINK_READY;
    return NA_PLUGIN_SUCCESS;
}

/* True if the peer's process on this node has ended, even if it is a zombie. */
static bool link_is_dead(const struct kit_peer *peer)
{
    uint64_t incarnation, start;
    bool is_over;
    uint32_t pid;

    if (!kit_peer_process(peer, &pid, &incarnation))
        return false;
    if (kill((pid_t) pid, 0) != 0 && errno == ESRCH)
        return true;
    return kit_process_read(pid, &start, &is_over) && is_over;
}

/* No BYE is sent to a dead process: Open MPI may deadlock in writing to its socket. */
static void link_skip_bye_if_dead(struct mpi_link *link, const struct kit_peer *peer)
{
    if (link->is_own_comm && link_is_dead(peer))
        link->has_said_bye = true;
}

static void link_connect(struct mpi_link *link, MPI_Comm comm, uint32_t serial)
{
    struct mpi_job *job;
    int32_t ret = NA_PLUGIN_NOMEM;

    link_dialed(link);
    link->comm = comm;
    link->is_own_comm = true;
    link->rank = 0;
    link->serial = serial;
    link->phase = MPI_LINK_READY;
    mpi_enter();
    job = mpi_job_get(link->na_class, link, MPI_JOB_RECV_META);
    if (job != NULL)
        ret = mpi_job_receive(job, MPI_TAG_META, job->capacity);
    if (job != NULL && ret != NA_PLUGIN_SUCCESS)
        mpi_job_put(job);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = mpi_receives_post(link, MPI_LINK_RECEIVES);
    mpi_leave();
    if (ret != NA_PLUGIN_SUCCESS)
        link_fail(link, "nothing can be received from it");
}

/* The link is not connecting any more. */
static void link_dialed(struct mpi_link *link)
{
    if (link->deadline != 0)
        link->na_class->dialing--;
    link->deadline = 0;
}

/* Fails the link and its peer. */
static void link_fail(struct mpi_link *link, const char *reason)
{
    link_dialed(link);
    link->phase = MPI_LINK_FAILED;
    if (link->peer != NULL)
        kit_peer_failed(link->peer, NA_PLUGIN_HOSTUNREACH, reason);
    else
        mpi_link_drop(link);
}

static struct mpi_link *link_by_number(struct na_plugin_class *na_class, uint32_t number)
{
    for (struct kit_link *node = na_class->links.next; node != &na_class->links;
         node = node->next) {
        struct mpi_link *link = kit_container(node, struct mpi_link, node);

        if (link->number == number)
            return link;
    }
    return NULL;
}

static void link_free(struct mpi_link *link)
{
    link_dialed(link);
    kit_list_remove(&link->node);
    mpi_sources_free(link->na_class, link);
    if (link->is_own_comm)
        (void) MPI_Comm_free(&link->comm);
    kit_host->mem_free(link);
}
