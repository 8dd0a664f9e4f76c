/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress, and the descriptor to sleep on. */

#include "ofi.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Reads of the queue in one poll. */
#define OFI_READS 16

/* Polls in a row without a received frame, after which unidentified connections are checked. */
#define OFI_POLLS_PER_CHECK 32u

/* One of so many polls reads the clock, for transfers that time out. */
#define OFI_POLLS_PER_CLOCK 64u

/* Sleeps between two checks that the process has a descriptor left. */
#define OFI_WAITS_PER_CHECK 32u

/* Sleeps without a completion, after which waking up by the descriptor is paused. */
#define OFI_IDLE_WAITS 16u

static uint64_t ofi_poll_clock(struct na_plugin_class *na_class);
static void ofi_descriptors_check(struct na_plugin_class *na_class);

/*
 * Ends with the first read that returned more than completed sends: the caller handles those before
 * libfabric is polled again, which takes system calls with some providers.
 */
int32_t ofi_poll(struct kit_endpoint *endpoint)
{
    struct na_plugin_class *na_class = (struct na_plugin_class *) endpoint;
    int32_t ret = NA_PLUGIN_SUCCESS;
    bool is_awaited = false;

    if (na_class->endpoint == NULL && !ofi_endpoint_reopen(na_class))
        return na_class->failed ? NA_PLUGIN_IO_ERROR : NA_PLUGIN_SUCCESS;
    if (na_class->receives_waiting != NULL) /* consumed since the previous poll */
        ofi_receives_post(na_class);
    if (na_class->rmas_waiting != NULL)
        ofi_rma_retry(na_class);
    for (int i = 0; i < OFI_READS && !is_awaited && ret == NA_PLUGIN_SUCCESS; i++)
        ret = ofi_queue_read(na_class, &is_awaited);
    if (ret == NA_PLUGIN_AGAIN)
        ret = NA_PLUGIN_SUCCESS;
    if (na_class->base.rma != NULL)
        kit_rma_poll(na_class->base.rma, ofi_poll_clock(na_class));
    if (++na_class->idle_polls % OFI_POLLS_PER_CHECK == 0)
        ofi_unidentified_check(na_class);
    return ret;
}

int ofi_get_fd(struct kit_endpoint *endpoint)
{
    return ((struct na_plugin_class *) endpoint)->wait_fd;
}

bool ofi_try_wait(struct kit_endpoint *endpoint)
{
    struct na_plugin_class *na_class = (struct na_plugin_class *) endpoint;
    struct fid *fids[2];
    bool has_work, is_paused;

    if (na_class->cq == NULL || na_class->endpoint == NULL) { /* until it is opened again */
        kit_msg_wait_pause(endpoint, true);
        return true;
    }
    fids[0] = &na_class->cq->fid;
    fids[1] = na_class->sleep_cq != NULL ? &na_class->sleep_cq->fid : NULL;
    if (na_class->receives_waiting != NULL)
        ofi_receives_post(na_class);
    na_class->idle_waits++;
    if (na_class->protocol.tcp_port &&
        (na_class->is_out_of_fds || ++na_class->waits % OFI_WAITS_PER_CHECK == 0))
        ofi_descriptors_check(na_class);
    if (na_class->is_out_of_fds || na_class->waits % OFI_WAITS_PER_CHECK == 0)
        ofi_unidentified_check(na_class);
    has_work = (na_class->base.rma != NULL && kit_rma_has_work(na_class->base.rma)) ||
               na_class->rmas_waiting != NULL || na_class->receives_waiting != NULL;
    is_paused = (na_class->is_out_of_fds || has_work) && na_class->idle_waits > OFI_IDLE_WAITS;
    kit_msg_wait_pause(endpoint, is_paused);
    return (!has_work || is_paused) &&
           fi_trywait(na_class->fabric, fids, fids[1] != NULL ? 2 : 1) == 0;
}

/* The time for kit_rma_poll(), in ns; 0 if timeouts are not to be checked by this poll. */
static uint64_t ofi_poll_clock(struct na_plugin_class *na_class)
{
    return ++na_class->polls % OFI_POLLS_PER_CLOCK == 0 && kit_rma_is_active(na_class->base.rma)
               ? kit_host->clock_ns()
               : 0;
}

/*
 * Without a free descriptor libfabric cannot accept connections, and reports nothing: its listening
 * socket stays readable, and every sleep would end at once.
 */
static void ofi_descriptors_check(struct na_plugin_class *na_class)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    bool was_out_of_fds = na_class->is_out_of_fds;

    na_class->is_out_of_fds = fd < 0 && (errno == EMFILE || errno == ENFILE);
    if (fd >= 0)
        (void) close(fd);
    if (na_class->is_out_of_fds && !na_class->is_out_of_fds_logged)
        OFI_LOG_ERROR("no descriptors are left, peers that connect have to wait for one; raise the "
                      "limit (ulimit -n)");
    /* A peer that waited may take the first free descriptor: the shortage is not logged again. */
    na_class->is_out_of_fds_logged =
        na_class->is_out_of_fds || (na_class->is_out_of_fds_logged && was_out_of_fds);
}
