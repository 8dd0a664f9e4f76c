/* SPDX-License-Identifier: BSD-3-Clause */
/* UCP workers, progress, and the descriptor to sleep on. */

#include "ucx.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#define WORKER_DESCRIPTORS 16u /* opened by a worker, and a few for its first peer */

static int32_t worker_create(struct ucx_worker *worker);
static int32_t worker_handlers_set(struct ucx_worker *worker);
static void worker_destroy(struct ucx_worker *worker);
static void worker_open_loopback(struct na_plugin_class *na_class);
static int32_t worker_add(struct na_plugin_class *na_class, ucp_context_h context,
                          struct ucx_worker **current);
static void workers_replace(struct na_plugin_class *na_class);
static void worker_progress(struct ucx_worker *worker, uint32_t polls);
static bool sockets_are_due(struct na_plugin_class *na_class);
static uint64_t worker_rma_clock(const struct na_plugin_class *na_class);
static int32_t worker_watch(struct na_plugin_class *na_class);

int32_t ucx_worker_open(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                        const char *tls, const char *devices)
{
    int32_t ret;

    na_class->thread_mode = (init->thread_mode & NA_PLUGIN_THREAD_SINGLE_CLASS) != 0
                                ? UCS_THREAD_MODE_SINGLE
                                : UCS_THREAD_MODE_SERIALIZED;
    ucx_log_capture();
    ucx_enter();
    ret = ucx_context_create(na_class, tls, devices, &na_class->context);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = ucx_pieces_setup(na_class);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = worker_watch(na_class);
    if (ret == NA_PLUGIN_SUCCESS && na_class->may_attach)
        ucx_process_listen(na_class);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = worker_add(na_class, na_class->context, &na_class->worker);
    ucx_leave();
    return ret;
}

/* The worker for a link to that name; NULL if it cannot be opened. */
struct ucx_worker *ucx_worker_for(struct na_plugin_class *na_class, const char *name)
{
    if (na_class->loopback[0] == '\0' ||
        (strncmp(name, "127.", 4) != 0 && strncmp(name, "[::1]", 5) != 0))
        return na_class->worker;
    if (na_class->loopback_worker == NULL)
        worker_open_loopback(na_class);
    return na_class->loopback_worker;
}

void ucx_worker_close(struct na_plugin_class *na_class)
{
    struct kit_link *node;

    ucx_enter();
    if (na_class->worker != NULL) {
        ucx_links_close(na_class);
        ucx_channels_reclaim(na_class);
        ucx_mem_forget_keys(na_class);
    }
    for (node = na_class->workers.next; node != &na_class->workers; node = node->next)
        worker_destroy(kit_container(node, struct ucx_worker, node));
    ucx_links_free(na_class);
    kit_remote_close(&na_class->fabric);
    ucx_mem_free_all(na_class);
    while (!kit_list_empty(&na_class->workers)) {
        struct ucx_worker *worker = kit_container(na_class->workers.next, struct ucx_worker, node);

        kit_list_remove(&worker->node);
        kit_host->mem_free(worker);
    }
    ucx_pieces_cleanup(na_class);
    if (na_class->loopback_context != NULL)
        ucp_cleanup(na_class->loopback_context);
    if (na_class->context != NULL)
        ucp_cleanup(na_class->context);
    na_class->worker = na_class->loopback_worker = NULL;
    na_class->context = na_class->loopback_context = NULL;
    ucx_leave();
}

/* UCX aborts the process if it gets no descriptor for a socket, so they are reserved first. */
static void worker_open_loopback(struct na_plugin_class *na_class)
{
    if (!ucx_descriptors_take(na_class, WORKER_DESCRIPTORS)) {
        UCX_LOG_WARNING("no descriptors are left for interface %s: the limit of descriptors "
                        "(ulimit -n) may be too low",
                        na_class->loopback);
        return;
    }
    ucx_enter();
    if (na_class->loopback_context == NULL)
        (void) ucx_context_create(na_class, "tcp", na_class->loopback, &na_class->loopback_context);
    if (na_class->loopback_context != NULL)
        (void) worker_add(na_class, na_class->loopback_context, &na_class->loopback_worker);
    ucx_leave();
}

/* Makes a worker, which becomes `*current`, the one for new links. */
static int32_t worker_add(struct na_plugin_class *na_class, ucp_context_h context,
                          struct ucx_worker **current)
{
    struct ucx_worker *worker = kit_host->mem_alloc(sizeof(*worker), 0);
    ucs_status_t status;
    int32_t ret;

    if (worker == NULL)
        return NA_PLUGIN_NOMEM;
    worker->na_class = na_class;
    worker->context = context;
    kit_list_append(&na_class->workers, &worker->node);
    ret = worker_create(worker);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = worker_handlers_set(worker);
    if (ret == NA_PLUGIN_SUCCESS) {
        status = ucp_worker_get_address(worker->worker, &worker->address, &worker->address_size);
        if (status != UCS_OK)
            ret = ucx_failed("give its worker's address", status);
        else if (worker->address_size > UCX_HELLO_MAX / 2)
            ret = ucx_failed("give a worker's address of usable size", UCS_ERR_EXCEEDS_LIMIT);
    }
    if (ret == NA_PLUGIN_SUCCESS) {
        worker->is_readable = ucx_address_learn(worker);
        *current = worker;
        return NA_PLUGIN_SUCCESS;
    }
    worker_destroy(worker);
    kit_list_remove(&worker->node);
    kit_host->mem_free(worker);
    return ret;
}

int32_t ucx_poll(struct kit_endpoint *endpoint)
{
    struct na_plugin_class *na_class = ucx_class(endpoint);
    uint32_t polls =
        na_class->other_links == 0 && na_class->shared_links != 0 ? UCX_SHARED_POLLS : 1;

    ucx_enter();
    for (struct kit_link *node = na_class->workers.next; node != &na_class->workers;
         node = node->next)
        worker_progress(kit_container(node, struct ucx_worker, node), polls);
    if (!kit_list_empty(&na_class->reads))
        ucx_reads_progress(na_class);
    if (kit_unlikely(++na_class->polls % UCX_LINK_POLLS == 0 || na_class->poll_sockets ||
                     na_class->dialing != 0) &&
        sockets_are_due(na_class)) {
        na_class->poll_sockets = false;
        ucx_channels_progress(na_class);
    }
    if (kit_unlikely(!kit_list_empty(&na_class->scheduled)))
        ucx_links_progress(na_class);
    if (kit_unlikely(na_class->probing != 0) && ucx_probe_progress(na_class))
        workers_replace(na_class);
    kit_rma_poll(na_class->fabric.rma, worker_rma_clock(na_class));
    ucx_leave();
    return NA_PLUGIN_SUCCESS;
}

/* The links of a broken worker are failed, and their peers connect to its replacement. */
static void workers_replace(struct na_plugin_class *na_class)
{
    for (struct kit_link *node = na_class->workers.next; node != &na_class->workers;
         node = node->next) {
        struct ucx_worker *worker = kit_container(node, struct ucx_worker, node);

        if (!worker->is_broken)
            continue;
        worker->is_broken = false;
        UCX_LOG_WARNING("a process that was killed left the shared memory in which we receive in "
                        "disorder: it is replaced, and peers of this node are connected anew");
        if (worker == na_class->worker &&
            worker_add(na_class, worker->context, &na_class->worker) != NA_PLUGIN_SUCCESS)
            continue;
        worker->is_retired = true;
        ucx_links_fail_shared(worker);
    }
}

/*
 * Polling shared memory takes a few nanoseconds, and calling this function several times as many,
 * so an idle worker is polled more than once. With sockets each poll would be a system call.
 */
static void worker_progress(struct ucx_worker *worker, uint32_t polls)
{
    while (ucp_worker_progress(worker->worker) == 0 && --polls != 0)
        continue;
}

/* Polling the sockets is a system call, so a busy loop does it only every UCX_LINK_NS. */
static bool sockets_are_due(struct na_plugin_class *na_class)
{
    uint64_t now = kit_host->clock_ns();

    if (now < na_class->sockets_poll_at && !na_class->poll_sockets && na_class->dialing == 0)
        return false;
    na_class->sockets_poll_at = now + UCX_LINK_NS;
    return true;
}

/* The time for kit_rma_poll(), in ns; 0 if timeouts are not to be checked by this poll. */
static uint64_t worker_rma_clock(const struct na_plugin_class *na_class)
{
    return kit_unlikely(na_class->polls % UCX_LINK_POLLS == 0) &&
                   kit_rma_is_active(na_class->fabric.rma)
               ? kit_host->clock_ns()
               : 0;
}

int ucx_get_fd(struct kit_endpoint *endpoint)
{
    struct na_plugin_class *na_class = ucx_class(endpoint);

    return na_class->is_busy ? -1 : na_class->epoll_fd;
}

/*
 * ucp_worker_arm() returns UCS_ERR_BUSY if there are events to process. The channels need no
 * arming: they make the descriptor readable as long as they have data, and the next poll reads it.
 */
bool ucx_try_wait(struct kit_endpoint *endpoint)
{
    struct na_plugin_class *na_class = ucx_class(endpoint);
    ucs_status_t status = UCS_OK;

    if (!kit_list_empty(&na_class->scheduled) || na_class->probing != 0 ||
        !kit_list_empty(&na_class->reads) || kit_rma_has_work(na_class->fabric.rma))
        return false;
    ucx_enter();
    for (struct kit_link *node = na_class->workers.next;
         node != &na_class->workers && status == UCS_OK; node = node->next)
        status = ucp_worker_arm(kit_container(node, struct ucx_worker, node)->worker);
    ucx_leave();
    na_class->poll_sockets = true;
    return status == UCS_OK;
}

/*
 * UCX adds its descriptors to this class's epoll set. An epoll set of UCX inside of it would be
 * nested deeper than the kernel permits, once a program adds the descriptor to a set of its own.
 */
static int32_t worker_create(struct ucx_worker *worker)
{
    struct na_plugin_class *na_class = worker->na_class;
    ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = na_class->thread_mode,
    };
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE};
    ucs_status_t status;

    if (!na_class->is_busy) {
        params.field_mask |= UCP_WORKER_PARAM_FIELD_EVENT_FD | UCP_WORKER_PARAM_FIELD_USER_DATA;
        params.event_fd = na_class->epoll_fd;
        params.user_data = na_class;
    }
    status = ucp_worker_create(worker->context, &params, &worker->worker);
    if (status != UCS_OK) {
        worker->worker = NULL;
        return ucx_failed("create a worker", status);
    }
    status = ucp_worker_query(worker->worker, &attr);
    if (status != UCS_OK)
        return ucx_failed("tell of its worker", status);
    if (attr.thread_mode >= params.thread_mode)
        return NA_PLUGIN_SUCCESS;
    UCX_LOG_ERROR("this UCX was built without thread support (--enable-mt): it allows one thread, "
                  "so init must promise that (NA_THREAD_MODE_SINGLE), or UCX be built with it");
    return NA_PLUGIN_OPNOTSUPPORTED;
}

static int32_t worker_handlers_set(struct ucx_worker *worker)
{
    static const ucp_am_recv_callback_t callbacks[UCX_AM_COUNT] = {
        [UCX_AM_FRAME] = ucx_frame_received,
        [UCX_AM_PIECE] = ucx_piece_received,
        [UCX_AM_PUT] = ucx_put_received,
        [UCX_AM_PROBE] = ucx_probe_received,
    };

    for (uint32_t id = UCX_AM_FRAME; id < UCX_AM_COUNT; id++) {
        ucp_am_handler_param_t param = {
            .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                          UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
            .id = id,
            .flags = UCP_AM_FLAG_WHOLE_MSG,
            .cb = callbacks[id],
            .arg = worker,
        };
        ucs_status_t status = ucp_worker_set_am_recv_handler(worker->worker, &param);

        if (status != UCS_OK)
            return ucx_failed("take a handler of active messages", status);
    }
    return NA_PLUGIN_SUCCESS;
}

static void worker_destroy(struct ucx_worker *worker)
{
    ucx_probe_end(worker);
    if (worker->address != NULL)
        ucp_worker_release_address(worker->worker, worker->address);
    if (worker->worker != NULL)
        ucp_worker_destroy(worker->worker);
    worker->address = NULL;
    worker->worker = NULL;
}

/* Makes the epoll set for the channels and for the workers' descriptors. */
static int32_t worker_watch(struct na_plugin_class *na_class)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &na_class->listen_fd};

    na_class->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (na_class->epoll_fd < 0) {
        UCX_LOG_ERROR("no descriptor to wait on (%s); the limit of descriptors (ulimit -n) may be "
                      "too low, or a seccomp filter refuses the call",
                      strerror(errno));
        return NA_PLUGIN_NOMEM;
    }
    if (na_class->listen_fd < 0 ||
        epoll_ctl(na_class->epoll_fd, EPOLL_CTL_ADD, na_class->listen_fd, &event) == 0)
        return NA_PLUGIN_SUCCESS;
    UCX_LOG_ERROR("a socket cannot be watched: %s", strerror(errno));
    return NA_PLUGIN_NOMEM;
}
