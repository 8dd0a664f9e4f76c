/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ways to other endpoints. They outlive the peers that use them until MPI is done with what is on
 * them, and one with a communicator of its own until both sides have said BYE: MPI gives the
 * number of a communicator that was freed to the next one, and what the other side still sends
 * would be taken for that one's.
 */

#include "mpi_class.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static struct mpi_link *link_find(struct na_plugin_class *na_class, const char *name);
static int32_t link_aim(struct mpi_link *link, const struct kit_peer *peer);
static int32_t link_aim_static(struct mpi_link *link);
static int32_t link_aim_dynamic(struct mpi_link *link, const struct kit_peer *peer);
static bool link_is_dead(const struct kit_peer *peer);
static void link_leave_dead(struct mpi_link *link, const struct kit_peer *peer);
static void link_connect(struct mpi_link *link, MPI_Comm comm, uint32_t serial);
static void link_dialed(struct mpi_link *link);
static void link_fail(struct mpi_link *link, const char *reason);
static struct mpi_link *link_by_number(struct na_plugin_class *na_class, uint32_t number);
static void link_free(struct mpi_link *link);

/* `name` NULL: for all. */
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

/* Nobody uses it from now on. */
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
    link->has_heard_bye |= link->is_leaving;
    if (link->has_heard_bye)
        mpi_link_quiet(link);
    mpi_link_unused(link);
}

/* Those that are closing go when MPI is done with them and nothing more can come. */
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

/* What other threads did for this class. */
void mpi_link_met(struct na_plugin_class *na_class)
{
    struct mpi_arrival *arrival;

    while ((arrival = mpi_process_arrival(na_class)) != NULL) {
        struct mpi_link *link = arrival->is_dialed ? link_by_number(na_class, arrival->link)
                                                   : mpi_link_make(na_class, arrival->name);

        if (link == NULL && arrival->comm != MPI_COMM_NULL)
            link = mpi_link_make(na_class, arrival->name); /* nobody wants it any more */
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

/* Those that nobody accepts. */
void mpi_links_look(struct na_plugin_class *na_class)
{
    uint64_t now = kit_host->clock_ns();
    struct kit_link *node = na_class->links.next;

    while (node != &na_class->links) {
        struct mpi_link *link = kit_container(node, struct mpi_link, node);

        node = node->next;
        if (link->phase != MPI_LINK_DIALING || link->deadline == 0 || now < link->deadline)
            continue;
        if (mpi_dial_is_waiting()) { /* for its turn, most likely */
            link->deadline = now + MPI_DIAL_NS;
            continue;
        }
        link_fail(link, "nobody has accepted the connection to it");
        node = na_class->links.next;
    }
}

/* The other side closes, or takes us for gone. Its BYE may overtake its last frames. */
void mpi_link_bye(const struct mpi_job *job)
{
    struct mpi_link *link = job->link;

    link->is_leaving = true;
    link->bye = 0;
    if (job->size == sizeof(link->bye))
        memcpy(&link->bye, job->data, sizeof(link->bye));
    mpi_link_left(link);
}

/* It is leaving: has all come that it sent before? */
void mpi_link_left(struct mpi_link *link)
{
    if (link->has_heard_bye ||
        (!link->is_closing && (int32_t) (mpi_source_heard(link) - link->bye) < 0))
        return;
    link->has_heard_bye = true;
    if (link->is_closing)
        mpi_link_quiet(link);
    else
        link_fail(link, "it has closed the connection");
}

/*
 * Ends the receives, and takes what came before the BYE: the other side cannot end otherwise.
 */
void mpi_link_quiet(struct mpi_link *link)
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
        ret = link_aim(link, peer);
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
    link_leave_dead(link, peer);
    link->peer = NULL;
    mpi_link_drop(link);
}

/* The class closes: all are told, and those who hear of it in time answer. */
void mpi_links_leave(struct na_plugin_class *na_class)
{
    uint64_t end = kit_host->clock_ns() + MPI_BYE_NS;
    struct kit_link *node, *next;
    bool is_waiting = true;

    for (node = na_class->links.next; node != &na_class->links; node = next) {
        struct mpi_link *link = kit_container(node, struct mpi_link, node);

        next = node->next;
        if (link->peer != NULL) {
            mpi_peer(link->peer)->link = NULL;
            link_leave_dead(link, link->peer);
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

/* Of those that are left MPI may still have something: they are forgotten, not freed. */
void mpi_links_free(struct na_plugin_class *na_class)
{
    while (!kit_list_empty(&na_class->links)) {
        struct mpi_link *link = kit_container(na_class->links.next, struct mpi_link, node);

        kit_list_remove(&link->node);
        if (link->is_own_comm)
            mpi_comm_leave(link->comm);
        kit_host->mem_free(link);
    }
}

/* One that is there and in no use. */
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

static int32_t link_aim(struct mpi_link *link, const struct kit_peer *peer)
{
    return link->na_class->is_dynamic ? link_aim_dynamic(link, peer) : link_aim_static(link);
}

/* Among ranks there is a way to everybody. */
static int32_t link_aim_static(struct mpi_link *link)
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
 * MPI does not connect a process with itself. It takes minutes to find that nobody accepts, so a
 * process of this node that has ended, whose port nobody else will have, is not called.
 */
static int32_t link_aim_dynamic(struct mpi_link *link, const struct kit_peer *peer)
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

/* Also while its parent has not heard of it. */
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

/* To the dead nothing is said: Open MPI may lock itself up in writing to the socket of one. */
static void link_leave_dead(struct mpi_link *link, const struct kit_peer *peer)
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

/* It is not waited for any more. */
static void link_dialed(struct mpi_link *link)
{
    if (link->deadline != 0)
        link->na_class->dialing--;
    link->deadline = 0;
}

/* Its users are told, and let go of it. */
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
