/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pieces of puts and gets. MPI cannot cancel a send, nor a receive that it has matched, so pieces
 * are copied through buffers, and an abandoned transfer never waits for MPI.
 */

#include "mpi_class.h"

#include <string.h>

static int32_t piece_send(void *owner, struct kit_rma_piece *piece);
static int32_t piece_recv(void *owner, struct kit_rma_piece *piece);
static bool piece_cancel(void *owner, struct kit_rma_piece *piece);
static void piece_withdraw(void *owner, struct kit_rma_piece *piece);
static int32_t piece_begin(struct na_plugin_class *na_class, struct kit_rma_piece *piece,
                           enum mpi_job_kind kind, struct mpi_job **job_p);

const struct kit_rma_ops mpi_rma_ops = {
    .control_send = kit_remote_control_send,
    .piece_send = piece_send,
    .piece_recv = piece_recv,
    .piece_cancel = piece_cancel,
    .piece_withdraw = piece_withdraw,
    .transfer_done = kit_remote_transfer_done,
    .peer_hold = kit_msg_peer_hold,
    .peer_release = kit_msg_peer_release,
};

void mpi_piece_done(struct na_plugin_class *na_class, struct mpi_job *job)
{
    struct kit_rma_piece *piece = job->piece;
    int32_t status = job->status;
    uint64_t size = job->size;

    if (piece != NULL && job->kind == MPI_JOB_RECV_PIECE && !job->is_cancelled &&
        status == NA_PLUGIN_SUCCESS && size <= piece->size)
        memcpy(piece->memory, job->data, size);
    mpi_job_put(job);
    if (piece != NULL)
        kit_rma_piece_done(na_class->fabric.rma, piece, status, size);
}

static int32_t piece_send(void *owner, struct kit_rma_piece *piece)
{
    struct mpi_job *job;
    int32_t ret = piece_begin(owner, piece, MPI_JOB_SEND_PIECE, &job);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    memcpy(job->data, piece->memory, piece->size);
    mpi_enter();
    ret = mpi_job_send(job, (int) piece->tag, piece->size, false);
    mpi_leave();
    if (ret != NA_PLUGIN_SUCCESS)
        mpi_job_put(job);
    return ret;
}

static int32_t piece_recv(void *owner, struct kit_rma_piece *piece)
{
    struct mpi_job *job;
    int32_t ret = piece_begin(owner, piece, MPI_JOB_RECV_PIECE, &job);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    mpi_enter();
    ret = mpi_job_receive(job, (int) piece->tag, piece->size);
    mpi_leave();
    if (ret != NA_PLUGIN_SUCCESS)
        mpi_job_put(job);
    return ret;
}

/* MPI uses the job's buffer, so the piece's memory is free at once. */
static bool piece_cancel(void *owner, struct kit_rma_piece *piece)
{
    struct mpi_piece *priv = piece->priv;

    (void) owner;
    priv->job->is_cancelled = true;
    return true;
}

/* A send cannot be cancelled, so its job is abandoned. */
static void piece_withdraw(void *owner, struct kit_rma_piece *piece)
{
    struct na_plugin_class *na_class = owner;
    struct mpi_job *job = ((struct mpi_piece *) piece->priv)->job;

    mpi_enter();
    if (piece->is_send == 0) {
        mpi_job_withdraw(job);
    } else if (job->index != UINT32_MAX) {
        mpi_job_abandon(job);
        kit_rma_piece_done(na_class->fabric.rma, piece, NA_PLUGIN_HOSTUNREACH, 0);
    }
    mpi_leave();
}

static int32_t piece_begin(struct na_plugin_class *na_class, struct kit_rma_piece *piece,
                           enum mpi_job_kind kind, struct mpi_job **job_p)
{
    struct mpi_piece *priv = piece->priv;
    struct mpi_link *link = mpi_peer(piece->peer)->link;
    struct mpi_job *job;

    if (kit_unlikely(link == NULL)) /* the kit opens the peer when it answers */
        return NA_PLUGIN_AGAIN;
    if (kit_unlikely(link->phase != MPI_LINK_READY))
        return link->phase == MPI_LINK_DIALING ? NA_PLUGIN_AGAIN : NA_PLUGIN_HOSTUNREACH;
    job = mpi_job_get(na_class, link, kind);
    if (kit_unlikely(job == NULL))
        return NA_PLUGIN_AGAIN;
    job->piece = piece;
    priv->job = job;
    *job_p = job;
    return NA_PLUGIN_SUCCESS;
}
