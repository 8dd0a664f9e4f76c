/* SPDX-License-Identifier: BSD-3-Clause */
/* UCP's context and worker, progress and sleeping. */

#include "ucx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static int32_t worker_context_create(struct na_plugin_class *na_class, const char *tls,
                                     const char *device);
static void worker_configure(ucp_config_t *config, const char *name, const char *value);
static void worker_default(ucp_config_t *config, const char *variable, const char *value);
static void worker_configure_tcp(struct na_plugin_class *na_class, ucp_config_t *config);
static int32_t worker_create(struct ucx_worker *worker);
static int32_t worker_handlers_set(struct ucx_worker *worker);
static void worker_destroy(struct ucx_worker *worker);
static int32_t worker_add(struct na_plugin_class *na_class);
static void workers_replace(struct na_plugin_class *na_class);
static void worker_look(struct ucx_worker *worker, uint32_t looks);
static bool worker_is_look_due(struct na_plugin_class *na_class);
static uint64_t worker_rma_clock(const struct na_plugin_class *na_class);
static int32_t worker_watch(struct na_plugin_class *na_class);
static int32_t worker_failed(const char *what, ucs_status_t status);

int32_t ucx_worker_open(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                        const char *tls, const char *device)
{
    int32_t ret;

    na_class->thread_mode = (init->thread_mode & NA_PLUGIN_THREAD_SINGLE_CLASS) != 0
                                ? UCS_THREAD_MODE_SINGLE
                                : UCS_THREAD_MODE_SERIALIZED;
    ucx_log_capture();
    ucx_enter();
    ret = worker_context_create(na_class, tls, device);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = worker_watch(na_class);
    if (ret == NA_PLUGIN_SUCCESS && na_class->may_attach)
        ucx_process_listen(na_class);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = worker_add(na_class);
    ucx_leave();
    return ret;
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
    if (na_class->context != NULL)
        ucp_cleanup(na_class->context);
    na_class->worker = NULL;
    na_class->context = NULL;
    ucx_leave();
}

/* One more, which is the one for new links from now on. */
static int32_t worker_add(struct na_plugin_class *na_class)
{
    struct ucx_worker *worker = kit_host->mem_alloc(sizeof(*worker), 0);
    ucs_status_t status;
    int32_t ret;

    if (worker == NULL)
        return NA_PLUGIN_NOMEM;
    worker->na_class = na_class;
    kit_list_append(&na_class->workers, &worker->node);
    ret = worker_create(worker);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = worker_handlers_set(worker);
    if (ret == NA_PLUGIN_SUCCESS) {
        status = ucp_worker_get_address(worker->worker, &worker->address, &worker->address_size);
        if (status != UCS_OK)
            ret = worker_failed("give its worker's address", status);
        else if (worker->address_size > UCX_HELLO_MAX / 2)
            ret = worker_failed("give a worker's address of usable size", UCS_ERR_EXCEEDS_LIMIT);
    }
    if (ret == NA_PLUGIN_SUCCESS) {
        worker->is_readable = ucx_address_learn(worker);
        na_class->worker = worker;
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
    uint32_t looks = na_class->other_links == 0 && na_class->shared_links != 0 ? UCX_LOOKS : 1;

    ucx_enter();
    for (struct kit_link *node = na_class->workers.next; node != &na_class->workers;
         node = node->next)
        worker_look(kit_container(node, struct ucx_worker, node), looks);
    if (!kit_list_empty(&na_class->reads))
        ucx_reads_progress(na_class);
    if (kit_unlikely(++na_class->polls % UCX_LINK_POLLS == 0 || na_class->is_attentive ||
                     na_class->dialing != 0) &&
        worker_is_look_due(na_class)) {
        na_class->is_attentive = false;
        ucx_channels_progress(na_class);
    }
    if (kit_unlikely(!kit_list_empty(&na_class->trouble)))
        ucx_links_progress(na_class);
    if (kit_unlikely(na_class->probing != 0) && ucx_probe_progress(na_class))
        workers_replace(na_class);
    kit_rma_poll(na_class->fabric.rma, worker_rma_clock(na_class));
    ucx_leave();
    return NA_PLUGIN_SUCCESS;
}

/* Those who write to a broken one are told by a closed connection, and come again. */
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
        if (worker == na_class->worker && worker_add(na_class) != NA_PLUGIN_SUCCESS)
            continue;
        worker->is_retired = true;
        ucx_links_leave(worker);
    }
}

/*
 * A look at shared memory takes a few nanoseconds, getting here several times as many: until
 * something comes there are some looks to a poll. With sockets each would be a system call.
 */
static void worker_look(struct ucx_worker *worker, uint32_t looks)
{
    while (ucp_worker_progress(worker->worker) == 0 && --looks != 0)
        continue;
}

/* A look is a system call: who polls without a pause does not need it every few microseconds. */
static bool worker_is_look_due(struct na_plugin_class *na_class)
{
    uint64_t now = kit_host->clock_ns();

    if (now < na_class->look_next && !na_class->is_attentive && na_class->dialing == 0)
        return false;
    na_class->look_next = now + UCX_LINK_NS;
    return true;
}

/* What goes by time is looked at once in a while: 0 is not now. */
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
 * UCS_ERR_BUSY from the arming means that something came meanwhile. Sockets make the descriptor
 * readable as long as there is something to read, and are looked at by the next poll.
 */
bool ucx_try_wait(struct kit_endpoint *endpoint)
{
    struct na_plugin_class *na_class = ucx_class(endpoint);
    ucs_status_t status = UCS_OK;

    if (!kit_list_empty(&na_class->trouble) || na_class->probing != 0 ||
        !kit_list_empty(&na_class->reads) || kit_rma_has_work(na_class->fabric.rma))
        return false;
    ucx_enter();
    for (struct kit_link *node = na_class->workers.next;
         node != &na_class->workers && status == UCS_OK; node = node->next)
        status = ucp_worker_arm(kit_container(node, struct ucx_worker, node)->worker);
    ucx_leave();
    na_class->is_attentive = true;
    return status == UCS_OK;
}

static int32_t worker_context_create(struct na_plugin_class *na_class, const char *tls,
                                     const char *device)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features = UCP_FEATURE_AM,
    };
    ucp_config_t *config;
    ucs_status_t status;

    if (!na_class->is_busy)
        params.features |= UCP_FEATURE_WAKEUP;
    /* Only where hardware does it: what UCP's software does for a peer has no bounds. */
    if (na_class->wants_keys)
        params.features |= UCP_FEATURE_RMA;
    ucx_log_reset();
    status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return worker_failed("read its configuration", status);
    /* "all" is what UCX does by itself, or what the user's UCX_TLS makes of it. */
    if (strcmp(tls, "all") != 0 || getenv("UCX_TLS") == NULL)
        worker_configure(config, "TLS", tls);
    if (device[0] != '\0')
        worker_default(config, "UCX_NET_DEVICES", device);
#if UCP_API_VERSION >= UCP_VERSION(1, 12) /* that is when it takes options of transports */
    /* Shared memory for endpoints that are told of dead peers; its name is that of both kinds. */
    if (getenv("UCX_POSIX_ERROR_HANDLING") == NULL && getenv("UCX_SYSV_ERROR_HANDLING") == NULL &&
        (ucx_protocol_has(tls, "sysv") || ucx_protocol_has(tls, "posix")))
        worker_configure(config, "MM_ERROR_HANDLING", "y");
#endif
    if (ucx_protocol_has(tls, "tcp") && !na_class->has_hardware)
        worker_configure_tcp(na_class, config);
    /* Its lane for that makes UCX 1.13 end the process when a peer goes before it is connected; our
     * own sockets show the death of peers. */
    if (na_class->has_hardware)
        worker_default(config, "UCX_KEEPALIVE_INTERVAL", "inf");
    /* Nobody's address makes us wait in connect(), be it that of a host that does not answer. */
    if (ucx_protocol_has(tls, "tcp"))
        worker_default(config, "UCX_TCP_CONN_NB", "y");
    /* UCX opens a socket as it makes an interface active for the first peer, and passive after the
     * last one, and ends the process when it gets none. So the only one that there is stays active;
     * beside shared memory that would cost a system call in each poll. */
    if (strcmp(tls, "tcp") == 0)
        worker_default(config, "UCX_ADAPTIVE_PROGRESS", "n");
    status = ucp_init(&params, config, &na_class->context);
    ucp_config_release(config);
    if (status != UCS_OK)
        na_class->context = NULL;
    else
        status = ucx_pieces_setup(na_class);
    if (status == UCS_OK)
        return NA_PLUGIN_SUCCESS;
    return worker_failed("open a context", status);
}

static void worker_configure(ucp_config_t *config, const char *name, const char *value)
{
    ucs_status_t status = ucp_config_modify(config, name, value);

    if (status != UCS_OK)
        UCX_LOG_WARNING("UCX does not take %s=%s: %s", name, value, ucs_status_string(status));
}

/*
 * What the user has set stays. Before 1.17 UCX has an option of the transport without the
 * transport's name.
 */
static void worker_default(ucp_config_t *config, const char *variable, const char *value)
{
    const char *name = variable + strlen("UCX_");
    unsigned major, minor, release;

    if (getenv(variable) != NULL)
        return;
    ucp_get_version(&major, &minor, &release);
    if (major == 1 && minor < 17 && strncmp(name, "TCP_", strlen("TCP_")) == 0)
        name += strlen("TCP_");
    worker_configure(config, name, value);
}

static void worker_configure_tcp(struct na_plugin_class *na_class, ucp_config_t *config)
{
    /* When a peer dies during a send without a copy, UCX 1.13 ends the process: it counts the
     * completion twice. */
    worker_default(config, "UCX_ZCOPY_THRESH", "inf");
#if UCP_API_VERSION >= UCP_VERSION(1, 12)
    worker_default(config, "UCX_TCP_PUT_ENABLE", "n");
    /* So a piece of a transfer is one system call, and is taken from where that call left it. What
     * UCX calls its new protocols, and takes by itself since 1.16, never takes one at once. */
    if (getenv("UCX_TCP_TX_SEG_SIZE") == NULL && getenv("UCX_TCP_RX_SEG_SIZE") == NULL &&
        getenv("UCX_PROTO_ENABLE") == NULL) {
        worker_default(config, "UCX_PROTO_ENABLE", "n");
        worker_default(config, "UCX_TCP_TX_SEG_SIZE", UCX_STREAM_SEG);
        worker_default(config, "UCX_TCP_RX_SEG_SIZE", UCX_STREAM_SEG);
        na_class->has_segments = true;
    }
    /* UCX takes several events at a time. A send from a callback of the first one that finds its
     * peer gone closes the peer's endpoint, and UCX ends the process at that one's event. */
    worker_default(config, "UCX_TCP_MAX_POLL", "1");
    /* A peer that is gone before the connection is made is not called again: another process may
     * have got the port, and UCX ends the process at what that says. */
    worker_default(config, "UCX_TCP_MAX_CONN_RETRIES", "1");
#endif
}

/*
 * All calls are made under one lock, so the second of three levels is enough. UCX adds its own
 * descriptors to ours: with a set of UCX's inside of it the sets would be nested deeper than the
 * kernel allows once a caller's is around them.
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
    status = ucp_worker_create(na_class->context, &params, &worker->worker);
    if (status != UCS_OK) {
        worker->worker = NULL;
        return worker_failed("create a worker", status);
    }
    status = ucp_worker_query(worker->worker, &attr);
    if (status != UCS_OK)
        return worker_failed("tell of its worker", status);
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
            return worker_failed("take a handler of active messages", status);
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

/* One descriptor over our sockets and, when they come, UCX's. */
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

static int32_t worker_failed(const char *what, ucs_status_t status)
{
    int32_t ret = ucx_status(status);

    UCX_LOG_ERROR("UCX cannot %s: %s (%s)", what, ucs_status_string(status), ucx_log_last());
    return ret == NA_PLUGIN_AGAIN ? NA_PLUGIN_NOMEM : ret;
}
