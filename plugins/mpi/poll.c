/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress: testing MPI's requests. */

#include "mpi_class.h"

#define ABANDON_NS UINT64_C(100000000)

static void poll_clock(struct na_plugin_class *na_class);

int32_t mpi_poll(struct kit_endpoint *endpoint)
{
    struct na_plugin_class *na_class = mpi_class(endpoint);
    uint32_t count;

    if (kit_unlikely(atomic_load_explicit(&na_class->has_arrivals, memory_order_acquire)))
        mpi_link_met(na_class);
    mpi_enter();
    count = mpi_jobs_collect(na_class);
    if (count != 0)
        mpi_stay_awake();
    else if (kit_unlikely(mpi_has_deferred(na_class)))
        mpi_frames_do_deferred(na_class);
    for (uint32_t i = 0; i < count; i++) {
        struct mpi_job *job = na_class->requests.done[i];

        switch (job->kind) {
        case MPI_JOB_SEND_FRAME:
            mpi_frame_sent(na_class, job);
            break;
        case MPI_JOB_RECV_FRAME:
            mpi_frame_received(na_class, job);
            break;
        case MPI_JOB_SEND_PIECE:
        case MPI_JOB_RECV_PIECE:
            mpi_piece_done(na_class, job);
            break;
        case MPI_JOB_RECV_META:
            if (job->status == NA_PLUGIN_SUCCESS)
                mpi_link_bye(job);
            mpi_job_put(job);
            break;
        default:
            mpi_job_put(job);
            break;
        }
    }
    poll_clock(na_class);
    if (kit_unlikely(na_class->has_unused))
        mpi_links_free_unused(na_class);
    mpi_leave();
    return NA_PLUGIN_SUCCESS;
}

/* Ends all jobs when the class closes: receives are cancelled, sends get a moment to complete. */
void mpi_jobs_abandon_all(struct na_plugin_class *na_class)
{
    struct mpi_requests *requests = &na_class->requests;
    uint64_t end = kit_host->clock_ns() + ABANDON_NS;

    for (struct kit_link *node = na_class->again.next; node != &na_class->again; node = node->next)
        mpi_job_free_request(kit_container(node, struct mpi_job, node));
    for (uint32_t i = 0; i < requests->count; i++)
        if (mpi_job_is_receive(requests->jobs[i]))
            mpi_job_withdraw(requests->jobs[i]);
    while (requests->count != 0 && kit_host->clock_ns() < end) {
        uint32_t count = mpi_jobs_collect(na_class);

        for (uint32_t i = 0; i < count; i++) {
            struct mpi_job *job = requests->done[i];

            if (job->kind == MPI_JOB_RECV_META && job->status == NA_PLUGIN_SUCCESS)
                mpi_link_bye(job);
            mpi_job_put(job);
        }
    }
    while (requests->count != 0)
        mpi_job_abandon(requests->jobs[requests->count - 1]);
}

/* Checks timeouts once in MPI_CLOCK_POLLS polls. */
static void poll_clock(struct na_plugin_class *na_class)
{
    uint64_t now = 0;

    if (kit_unlikely(++na_class->polls % MPI_CLOCK_POLLS == 0)) {
        if (kit_rma_is_active(na_class->fabric.rma))
            now = kit_host->clock_ns();
        if (na_class->dialing != 0)
            mpi_links_look(na_class);
    }
    kit_rma_poll(na_class->fabric.rma, now);
}
