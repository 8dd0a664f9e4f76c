/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress, and sleeping until there is some to make. */

#include "ofi.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Reads of the queue in one poll. */
#define OFI_READS 16

/* Polls in a row that receive nothing, after which silent connections are looked for. */
#define OFI_POLLS_A_LOOK 32u

/* Polls of which one looks at the clock for transfers that time out. */
#define OFI_POLLS_A_CLOCK 64u

/* Sleeps between two looks for a free descriptor. */
#define OFI_WAITS_A_LOOK 32u

/* Sleeps without a completion after which the descriptor is no help. */
#define OFI_IDLE_WAITS 16u

static uint64_t ofi_poll_clock(struct na_plugin_class *na_class);
static void ofi_descriptors_look(struct na_plugin_class *na_class);

/*
 * Ends with the first read that brought what somebody waits for: the caller goes on with that
 * before we ask the fabric again, which takes system calls with some providers.
 */
int32_t ofi_poll(struct kit_endpoint *endpoint)
{
    struct na_plugin_class *na_class = (struct na_plugin_class *) endpoint;
    int32_t ret = NA_PLUGIN_SUCCESS;
    bool is_over = false;

    if (na_class->endpoint == NULL && !ofi_endpoint_reopen(na_class))
        return na_class->failed ? NA_PLUGIN_IO_ERROR : NA_PLUGIN_SUCCESS;
    if (na_class->receives_waiting != NULL) /* from the last time, when there was a hurry */
        ofi_receives_post(na_class);
    if (na_class->rmas_waiting != NULL)
        ofi_rma_retry(na_class);
    for (int i = 0; i < OFI_READS && !is_over && ret == NA_PLUGIN_SUCCESS; i++)
        ret = ofi_queue_read(na_class, &is_over);
    if (ret == NA_PLUGIN_AGAIN)
        ret = NA_PLUGIN_SUCCESS;
    if (na_class->base.rma != NULL)
        kit_rma_poll(na_class->base.rma, ofi_poll_clock(na_class));
    if (++na_class->idle_polls % OFI_POLLS_A_LOOK == 0)
        ofi_unidentified_look(na_class);
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
    bool has_work, is_no_help;

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
        (na_class->is_short || ++na_class->waits % OFI_WAITS_A_LOOK == 0))
        ofi_descriptors_look(na_class);
    if (na_class->is_short || na_class->waits % OFI_WAITS_A_LOOK == 0)
        ofi_unidentified_look(na_class);
    has_work = (na_class->base.rma != NULL && kit_rma_has_work(na_class->base.rma)) ||
               na_class->rmas_waiting != NULL || na_class->receives_waiting != NULL;
    is_no_help = (na_class->is_short || has_work) && na_class->idle_waits > OFI_IDLE_WAITS;
    kit_msg_wait_pause(endpoint, is_no_help);
    return (!has_work || is_no_help) &&
           fi_trywait(na_class->fabric, fids, fids[1] != NULL ? 2 : 1) == 0;
}

/* What goes by time is looked at once in a while: 0 is not now. */
static uint64_t ofi_poll_clock(struct na_plugin_class *na_class)
{
    return ++na_class->polls % OFI_POLLS_A_CLOCK == 0 && kit_rma_is_active(na_class->base.rma)
               ? kit_host->clock_ns()
               : 0;
}

/*
 * Without one, libfabric can accept nobody and says nothing: its listening socket stays readable,
 * and every sleep would end at once.
 */
static void ofi_descriptors_look(struct na_plugin_class *na_class)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    bool was_short = na_class->is_short;

    na_class->is_short = fd < 0 && (errno == EMFILE || errno == ENFILE);
    if (fd >= 0)
        (void) close(fd);
    if (na_class->is_short && !na_class->is_short_told)
        OFI_LOG_ERROR("no descriptors are left, peers that connect have to wait for one; raise the "
                      "limit (ulimit -n)");
    /* Whoever comes takes the one that became free: that is still the same shortage. */
    na_class->is_short_told = na_class->is_short || (na_class->is_short_told && was_short);
}
