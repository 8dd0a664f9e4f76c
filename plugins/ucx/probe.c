/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a worker still receives through shared memory. All processes of the node write to one
 * queue of the worker. A process that is killed after it reserved an element, and before it filled
 * it, blocks the queue for ever, and UCX does not notice. So after a death this process sends a
 * probe to its own worker, and replaces the worker if the probe does not arrive.
 */

#include "ucx.h"

#include <string.h>

#define PROBE_NS    UINT64_C(50000000)
#define PROBE_POLLS 256u

static void probe_start(struct ucx_worker *worker);
static bool probe_open(struct ucx_worker *worker);
static void probe_sent(void *request, ucs_status_t status, void *arg);

/* Starts probes of suspect workers, and checks those in progress. True if a worker is broken. */
bool ucx_probe_progress(struct na_plugin_class *na_class)
{
    bool is_broken = false;

    for (struct kit_link *node = na_class->workers.next; node != &na_class->workers;
         node = node->next) {
        struct ucx_worker *worker = kit_container(node, struct ucx_worker, node);

        if (worker->is_suspect) {
            worker->is_suspect = false;
            na_class->probing--;
            probe_start(worker);
        }
        if (!worker->is_probing)
            continue;
        (void) ucp_worker_progress(worker->prober);
        if (worker->probe_seen != worker->probe_sent &&
            (++worker->probe_polls < PROBE_POLLS || kit_host->clock_ns() < worker->probe_end))
            continue;
        worker->is_probing = false;
        na_class->probing--;
        worker->is_broken = worker->probe_seen != worker->probe_sent;
        is_broken |= worker->is_broken;
    }
    return is_broken;
}

void ucx_probe_end(struct ucx_worker *worker)
{
    if (worker->prober != NULL)
        ucp_worker_destroy(worker->prober);
    worker->prober = NULL;
    worker->probe_ep = NULL;
}

ucs_status_t ucx_probe_received(void *arg, const void *header, size_t header_size, void *data,
                                size_t size, const ucp_am_recv_param_t *param)
{
    struct ucx_worker *worker = arg;
    uint64_t number;

    (void) header;
    (void) header_size;
    if (size != sizeof(number) || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
        return UCS_OK;
    memcpy(&number, data, sizeof(number));
    if (number == worker->probe_sent) /* other numbers may be from any peer */
        worker->probe_seen = number;
    return UCS_OK;
}

static void probe_start(struct ucx_worker *worker)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_AM_SEND_FLAG_EAGER,
        .cb.send = probe_sent,
    };
    struct kit_key number;
    ucs_status_ptr_t request;

    if (worker->is_retired || !probe_open(worker) || kit_key_draw(&number) != NA_PLUGIN_SUCCESS)
        return;
    worker->probe_sent = number.word[0] | 1; /* never 0, the initial probe_seen */
    request = ucp_am_send_nbx(worker->probe_ep, UCX_AM_PROBE, NULL, 0, &worker->probe_sent,
                              sizeof(worker->probe_sent), &param);
    if (UCS_PTR_IS_ERR(request)) {
        UCX_LOG_INFO("no probe could be sent: %s", ucs_status_string(UCS_PTR_STATUS(request)));
        return;
    }
    worker->probe_polls = 0;
    worker->probe_end = kit_host->clock_ns() + PROBE_NS;
    if (!worker->is_probing)
        worker->na_class->probing++;
    worker->is_probing = true;
}

/* Another worker sends the probes: a worker does not reach itself through shared memory. */
static bool probe_open(struct ucx_worker *worker)
{
    ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = worker->na_class->thread_mode,
    };
    ucp_ep_params_t ep_params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = worker->address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
    };

    if (worker->probe_ep != NULL)
        return true;
    if (worker->prober == NULL &&
        ucp_worker_create(worker->context, &params, &worker->prober) != UCS_OK) {
        worker->prober = NULL;
        return false;
    }
    if (ucp_ep_create(worker->prober, &ep_params, &worker->probe_ep) != UCS_OK)
        worker->probe_ep = NULL;
    return worker->probe_ep != NULL;
}

static void probe_sent(void *request, ucs_status_t status, void *arg)
{
    (void) status;
    (void) arg;
    ucp_request_free(request);
}
