/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames as MPI messages, whose tag is the number of the receiving endpoint. MPI completes small
 * sends whether or not they are received, so some frames are sent synchronously: a target that does
 * not keep up holds back its senders.
 */

#include "mpi_class.h"

#include <string.h>

static bool frame_is_sync(struct mpi_link *link);
static void frame_taken(struct na_plugin_class *na_class, struct mpi_job *job);
static bool frame_deliver(struct na_plugin_class *na_class, struct mpi_job *job);
static int32_t receive_post(struct mpi_link *link);
static void receive_later(struct mpi_job *job);
static void receive_again(struct mpi_job *job);
static int receive_tag(const struct mpi_link *link);

int32_t mpi_frame_send(struct kit_endpoint *endpoint, struct kit_frame *frame)
{
    struct na_plugin_class *na_class = mpi_class(endpoint);
    struct mpi_link *link = mpi_peer(frame->peer)->link;
    struct mpi_frame_header header = {.serial = na_class->serial, .magic = MPI_FRAME_MAGIC};
    struct mpi_job *job;
    int32_t ret;

    if (kit_unlikely(link == NULL || link->phase != MPI_LINK_READY))
        return link != NULL && link->phase == MPI_LINK_DIALING ? NA_PLUGIN_AGAIN
                                                               : NA_PLUGIN_HOSTUNREACH;
    if (kit_unlikely(link->is_local) && !mpi_process_has(link->serial))
        return NA_PLUGIN_HOSTUNREACH;
    job = mpi_job_get(na_class, link, MPI_JOB_SEND_FRAME);
    if (kit_unlikely(job == NULL))
        return NA_PLUGIN_AGAIN;
    header.link = link->number;
    header.sequence = link->sent++;
    memcpy(job->data, &header, sizeof(header));
    memcpy(job->data + sizeof(header), frame->data, frame->size);
    job->frame = frame;
    mpi_enter();
    ret = mpi_job_send(job, (int) link->serial, sizeof(header) + frame->size, frame_is_sync(link));
    mpi_leave();
    if (kit_unlikely(ret != NA_PLUGIN_SUCCESS)) {
        mpi_job_put(job);
        return NA_PLUGIN_HOSTUNREACH;
    }
    if (kit_likely(job->index == UINT32_MAX))
        frame_taken(na_class, job);
    return NA_PLUGIN_SUCCESS;
}

/* If the kit was told before that the frame is sent (frame is NULL), an error fails the peer. */
void mpi_frame_sent(struct na_plugin_class *na_class, struct mpi_job *job)
{
    struct kit_peer *peer = job->link->peer;
    struct kit_frame *frame = job->frame;
    int32_t status = job->status == NA_PLUGIN_SUCCESS ? NA_PLUGIN_SUCCESS : NA_PLUGIN_HOSTUNREACH;

    mpi_job_put(job);
    if (frame != NULL)
        kit_msg_frame_sent(&na_class->fabric, frame, status);
    else if (kit_unlikely(status != NA_PLUGIN_SUCCESS && peer != NULL))
        kit_peer_failed(peer, status, "MPI could not send to it");
}

/* Delivers a received frame, and deferred frames that follow it. */
void mpi_frame_received(struct na_plugin_class *na_class, struct mpi_job *job)
{
    struct mpi_link *link = job->link;
    struct mpi_source *source = NULL;

    if (kit_unlikely(job->is_cancelled || link->is_closing)) {
        mpi_frame_drop(job);
        goto out;
    }
    if (kit_unlikely(job->status != NA_PLUGIN_SUCCESS)) {
        MPI_LOG_DEBUG("a receive failed: status %d", job->status);
        receive_again(job);
        goto out;
    }
    if (kit_unlikely(!mpi_source_take(na_class, job, &source))) {
        receive_again(job);
        goto out;
    }
    if (kit_unlikely(source == NULL)) { /* it is deferred */
        mpi_job_free_request(job);
        (void) receive_post(link);
        goto out;
    }
    if (kit_likely(frame_deliver(na_class, job)))
        receive_later(job);
    else if (!link->is_closing) /* the kit still reads it: another job is posted */
        (void) receive_post(link);
    while (!link->is_closing && (job = mpi_source_next(source)) != NULL)
        if (frame_deliver(na_class, job))
            mpi_job_put(job);

out:
    if (kit_unlikely(link->is_peer_closing))
        mpi_link_left(link);
    mpi_link_unused(link);
}

/* Drops a message, and receives on until the peer's BYE: its synchronous sends wait for that. */
void mpi_frame_drop(struct mpi_job *job)
{
    const struct mpi_link *link = job->link;

    if (job->is_cancelled || !link->is_own_comm || link->has_heard_bye ||
        mpi_job_receive(job, receive_tag(link), MPI_FRAME_BUFFER) != NA_PLUGIN_SUCCESS)
        mpi_job_put(job);
}

/* Called by an idle poll: tests sent frames, and posts receives again. */
void mpi_frames_do_deferred(struct na_plugin_class *na_class)
{
    mpi_frames_look(na_class);
    while (!kit_list_empty(&na_class->again)) {
        struct mpi_job *job = kit_container(na_class->again.next, struct mpi_job, node);

        kit_list_remove(&job->node);
        receive_again(job);
    }
}

/* Tests the frames in `sent`. */
void mpi_frames_look(struct na_plugin_class *na_class)
{
    while (!kit_list_empty(&na_class->sent)) {
        struct mpi_job *job = kit_container(na_class->sent.next, struct mpi_job, node);

        if (kit_likely(mpi_job_poll(job)))
            mpi_frame_sent(na_class, job);
    }
}

void mpi_frame_release(struct kit_endpoint *endpoint, void *cookie)
{
    (void) endpoint;
    mpi_job_put(cookie);
}

int32_t mpi_receives_post(struct mpi_link *link, uint32_t count)
{
    int32_t ret = NA_PLUGIN_SUCCESS;

    for (uint32_t i = 0; i < count && ret == NA_PLUGIN_SUCCESS; i++)
        ret = receive_post(link);
    return ret;
}

/* A peer that sends frames itself mostly keeps up, so it gets fewer synchronous sends. */
static bool frame_is_sync(struct mpi_link *link)
{
    uint32_t heard;

    if (kit_likely(link->sent % MPI_SYNC_EVERY != 0))
        return false;
    heard = mpi_source_received(link);
    if (heard == link->heard || link->sent % MPI_SYNC_ANYWAY == 0)
        return true;
    link->heard = heard;
    return false;
}

/* MPI sends a copy of the frame, so for the kit the frame is sent. */
static void frame_taken(struct na_plugin_class *na_class, struct mpi_job *job)
{
    struct kit_frame *frame = job->frame;

    if (kit_unlikely(job->request == MPI_REQUEST_NULL)) {
        mpi_frame_sent(na_class, job);
        return;
    }
    job->frame = NULL;
    kit_msg_frame_sent(&na_class->fabric, frame, NA_PLUGIN_SUCCESS);
}

/* False when the kit still reads the frame. */
static bool frame_deliver(struct na_plugin_class *na_class, struct mpi_job *job)
{
    const uint64_t head = sizeof(struct mpi_frame_header);

    if (kit_likely(kit_msg_frame_received(&na_class->fabric, job->data + head, job->size - head,
                                          NULL, job)))
        return true;
    mpi_job_free_request(job);
    kit_list_append(&na_class->held, &job->node);
    return false;
}

static int32_t receive_post(struct mpi_link *link)
{
    struct mpi_job *job = mpi_job_get(link->na_class, link, MPI_JOB_RECV_FRAME);
    int32_t ret;

    if (job == NULL) {
        MPI_LOG_ERROR("no memory to receive into");
        return NA_PLUGIN_NOMEM;
    }
    ret = mpi_job_receive(job, receive_tag(link), MPI_FRAME_BUFFER);
    if (ret != NA_PLUGIN_SUCCESS)
        mpi_job_put(job);
    return ret;
}

/* While enough receives are posted, this one is posted again by an idle poll: frames go first. */
static void receive_later(struct mpi_job *job)
{
    struct na_plugin_class *na_class = job->link->na_class;

    if (job->link == na_class->shared && na_class->posted_count >= MPI_SHARED_RECEIVES / 2)
        kit_list_append(&na_class->again, &job->node);
    else
        receive_again(job);
}

static void receive_again(struct mpi_job *job)
{
    if (job->link->is_closing ||
        mpi_job_receive(job, receive_tag(job->link), MPI_FRAME_BUFFER) != NA_PLUGIN_SUCCESS)
        mpi_job_put(job);
}

static int receive_tag(const struct mpi_link *link)
{
    return (int) link->na_class->serial;
}
