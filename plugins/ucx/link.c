/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links: one for each known process, with the channels of socket.c and UCP endpoints to the worker
 * whose address was received on them. docs/decisions/0009-ucx-connections.md says why.
 */

#include "ucx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINK_CLOSE_NS UINT64_C(50000000)

static uint32_t link_hash(const char *name);
static void link_unhash(struct ucx_link *link);
static ucs_status_t link_endpoint_create(struct ucx_link *link, const struct ucx_hello *hello,
                                         ucp_err_handling_mode_t mode);
static void link_error(void *arg, ucp_ep_h ep, ucs_status_t status);
static void link_lanes_find(struct ucx_link *link, const struct ucx_hello *hello);
static bool endpoint_has_lane(const struct ucx_endpoint *end, const char *const *names);
static void link_data_error(void *arg, ucp_ep_h ep, ucs_status_t status);
static void link_wire_up(struct ucx_link *link);
static void link_wired_up(void *request, ucs_status_t status, void *arg);
static void link_count(struct ucx_link *link, uint32_t change);
static void link_close(struct ucx_link *link, bool is_forced);
static bool link_is_closed(struct ucx_link *link);
static void endpoint_request_free(struct ucx_endpoint *end);
static void link_free(struct ucx_link *link);

struct ucx_link *ucx_link_find(struct na_plugin_class *na_class, const char *name)
{
    uint32_t hash = link_hash(name);
    struct ucx_link *link = na_class->buckets[hash % UCX_BUCKETS];

    while (link != NULL && (link->hash != hash || strcmp(link->name, name) != 0))
        link = link->hash_next;
    return link;
}

/* Names the link in messages to the peer. */
struct ucx_link_name ucx_link_name(const struct ucx_link *link)
{
    return (struct ucx_link_name){.link = link->their_id, .secret = link->their_secret};
}

/* Finds the link that a message names; NULL if there is none, or the secret is wrong. */
struct ucx_link *ucx_link_named(struct na_plugin_class *na_class, const struct ucx_link_name *name)
{
    struct ucx_link *link = kit_table_find(&na_class->links_by_id, name->link);

    if (link == NULL || kit_key_is_equal(&name->secret, &link->secret))
        return link;
    if (!link->is_warned)
        UCX_LOG_WARNING("dropped a message in the name of %s that is not from there; further ones "
                        "are not logged",
                        link->name);
    link->is_warned = true;
    return NULL;
}

struct ucx_link *ucx_link_create(struct ucx_worker *worker, const char *name)
{
    struct na_plugin_class *na_class = worker->na_class;
    size_t size = strlen(name) + 1;
    struct ucx_link *link = kit_host->mem_alloc(sizeof(*link) + size, 0);

    if (link == NULL)
        return NULL;
    link->name = (char *) (link + 1);
    memcpy(link->name, name, size);
    link->na_class = na_class;
    link->hash = link_hash(name);
    link->hash_next = na_class->buckets[link->hash % UCX_BUCKETS];
    na_class->buckets[link->hash % UCX_BUCKETS] = link;
    link->phase = UCX_LINK_DIALING;
    link->made_at = kit_host->clock_ns();
    link->worker = worker;
    na_class->dialing++;
    kit_list_init(&link->scheduled);
    kit_list_init(&link->channels);
    kit_list_init(&link->requests);
    kit_list_append(&na_class->links, &link->node);
    if (kit_key_draw(&link->secret) != NA_PLUGIN_SUCCESS ||
        kit_table_add(&na_class->links_by_id, link, &link->id) != NA_PLUGIN_SUCCESS) {
        na_class->dialing--;
        link_unhash(link);
        link_free(link);
        return NULL;
    }
    return link;
}

/* The peer's HELLO was accepted: makes the endpoints, after which frames can be sent. */
void ucx_link_met(struct ucx_link *link, const struct ucx_hello *hello)
{
    struct na_plugin_class *na_class = link->na_class;
    ucs_status_t status;
    char reason[320];

    link->is_met = true;
    link->made_at = kit_host->clock_ns();
    kit_list_remove(&link->node);
    kit_list_append(&na_class->links, &link->node);
    link->their_incarnation = hello->incarnation;
    link->their_id = hello->link_id;
    (void) snprintf(link->their_name, sizeof(link->their_name), "%s", hello->name);
    link->their_secret = hello->secret;
    link->their_uuid = hello->uuid;
    ucx_log_reset();
    ucx_spares_close(na_class);
    status = link_endpoint_create(link, hello, UCP_ERR_HANDLING_MODE_PEER);
    if (status != UCS_OK)
        status = link_endpoint_create(link, hello, UCP_ERR_HANDLING_MODE_NONE);
    (void) ucx_spares_open(na_class); /* if this fails, they are opened before the next peer */
    if (status != UCS_OK) {
        (void) snprintf(reason, sizeof(reason), "%s (%s)", ucs_status_string(status),
                        ucx_log_last());
        if (link->peer == NULL)
            UCX_LOG_WARNING("%s called and is turned away, because UCX has no way to it: %s",
                            link->name, reason);
        ucx_link_fail(link, NA_PLUGIN_HOSTUNREACH, reason);
        return;
    }
    link->phase = UCX_LINK_READY;
    na_class->dialing--;
    UCX_LOG_DEBUG("%s is connected%s", link->name,
                  link->has_error_mode ? "" : ", without error handling");
    link_wire_up(link);
}

void ucx_link_schedule(struct ucx_link *link)
{
    if (kit_list_empty(&link->scheduled))
        kit_list_append(&link->na_class->scheduled, &link->scheduled);
}

/* The peer's channel is closed: its process or the network failed. Its last frames may arrive. */
void ucx_link_disconnected(struct ucx_link *link, const char *reason)
{
    (void) snprintf(link->disconnect_reason, sizeof(link->disconnect_reason), "%s", reason);
    link->phase = UCX_LINK_DYING;
    link->deadline = kit_host->clock_ns() + UCX_GRACE_NS;
    ucx_link_schedule(link);
}

/* Fails the link and its peer. The link is freed when UCX has completed all its requests. */
void ucx_link_fail(struct ucx_link *link, int32_t status, const char *reason)
{
    struct kit_peer *peer = link->peer;

    if (link->phase == UCX_LINK_FAILED)
        return;
    if (link->phase == UCX_LINK_DIALING)
        link->na_class->dialing--;
    link->phase = UCX_LINK_FAILED;
    link_unhash(link);
    kit_table_remove(&link->na_class->links_by_id, link->id);
    while (!kit_list_empty(&link->channels))
        ucx_channel_close(kit_container(link->channels.next, struct ucx_channel, node));
    link_close(link, true);
    ucx_link_schedule(link);
    if (link->is_shared && !link->has_bye)
        ucx_worker_suspect(link->worker);
    link->peer = NULL;
    if (peer == NULL) {
        UCX_LOG_INFO("the link to %s ended: %s", link->name, reason);
        return;
    }
    ucx_peer(peer)->link = NULL;
    kit_peer_failed(peer, status, reason);
}

/* Fails a link that is failing or was dying for long enough, and frees one that is closed. */
void ucx_link_end(struct ucx_link *link)
{
    if (link->phase != UCX_LINK_FAILED && link->is_failing)
        ucx_link_fail(link, NA_PLUGIN_HOSTUNREACH, ucs_status_string(link->failure));
    if (link->phase == UCX_LINK_DYING && kit_host->clock_ns() >= link->deadline)
        ucx_link_fail(link, NA_PLUGIN_HOSTUNREACH, link->disconnect_reason);
    if (link->phase != UCX_LINK_FAILED || !link_is_closed(link))
        return;
    ucx_requests_forget(link);
    if (link->outstanding == 0)
        link_free(link);
}

/* The worker is replaced: fails the links over its shared memory, and those not connected yet. */
void ucx_links_fail_shared(struct ucx_worker *worker)
{
    struct na_plugin_class *na_class = worker->na_class;
    struct kit_link *node, *next;

    for (node = na_class->links.next; node != &na_class->links; node = next) {
        struct ucx_link *link = kit_container(node, struct ucx_link, node);

        next = node->next;
        if (link->worker == worker && (link->is_shared || !link->is_met))
            ucx_link_fail(link, NA_PLUGIN_HOSTUNREACH,
                          "shared memory was left in disorder by a process that was killed");
    }
}

/* Closes all links. Waits up to LINK_CLOSE_NS for UCX to flush and close the endpoints. */
void ucx_links_close(struct na_plugin_class *na_class)
{
    uint64_t end = kit_host->clock_ns() + LINK_CLOSE_NS;
    struct kit_link *node;
    bool is_open = true;

    for (node = na_class->links.next; node != &na_class->links; node = node->next)
        link_close(kit_container(node, struct ucx_link, node), false);
    while (is_open && kit_host->clock_ns() < end) {
        for (node = na_class->workers.next; node != &na_class->workers; node = node->next)
            (void) ucp_worker_progress(kit_container(node, struct ucx_worker, node)->worker);
        is_open = false;
        for (node = na_class->links.next; node != &na_class->links; node = node->next)
            if (!link_is_closed(kit_container(node, struct ucx_link, node)))
                is_open = true;
    }
    for (node = na_class->links.next; node != &na_class->links; node = node->next) {
        struct ucx_link *link = kit_container(node, struct ucx_link, node);

        while (!kit_list_empty(&link->channels)) {
            struct ucx_channel *channel =
                kit_container(link->channels.next, struct ucx_channel, node);

            ucx_channel_send_bye(channel);
            ucx_channel_close(channel);
        }
        /* A worker's requests have to be freed before it is destroyed. */
        endpoint_request_free(&link->end);
        endpoint_request_free(&link->data);
        link->phase = UCX_LINK_FAILED;
    }
}

/* The workers are destroyed, and with them all requests in progress. */
void ucx_links_free(struct na_plugin_class *na_class)
{
    while (!kit_list_empty(&na_class->links)) {
        struct ucx_link *link = kit_container(na_class->links.next, struct ucx_link, node);

        if (link->peer != NULL)
            ucx_peer(link->peer)->link = NULL;
        ucx_requests_forget(link);
        while (!kit_list_empty(&link->requests))
            ucx_request_put(kit_container(link->requests.next, struct ucx_request, node));
        link_unhash(link);
        link_free(link);
    }
}

/* With `is_forced` requests in progress complete with an error, else they are flushed first. */
void ucx_endpoint_close(struct ucx_endpoint *end, const struct ucx_link *link, bool is_forced)
{
    ucp_request_param_t param = {0};

    if (end->ep == NULL)
        return;
    if (is_forced && link->has_error_mode) {
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    }
    end->close_request = ucp_ep_close_nbx(end->ep, &param);
    end->ep = NULL;
    if (UCS_PTR_IS_ERR(end->close_request)) {
        UCX_LOG_INFO("the endpoint to %s does not close: %s", link->name,
                     ucs_status_string(UCS_PTR_STATUS(end->close_request)));
        end->close_request = NULL;
    }
}

bool ucx_endpoint_is_closed(struct ucx_endpoint *end)
{
    if (end->close_request == NULL)
        return true;
    if (ucp_request_check_status(end->close_request) == UCS_INPROGRESS)
        return false;
    endpoint_request_free(end);
    return true;
}

static uint32_t link_hash(const char *name)
{
    return (uint32_t) kit_digest(name, strlen(name));
}

static void link_unhash(struct ucx_link *link)
{
    struct ucx_link **link_p = &link->na_class->buckets[link->hash % UCX_BUCKETS];

    while (*link_p != NULL && *link_p != link)
        link_p = &(*link_p)->hash_next;
    if (*link_p == link)
        *link_p = link->hash_next;
}

/* Only an endpoint with error handling can be closed by force, and not all transports have it. */
static ucs_status_t link_endpoint_create(struct ucx_link *link, const struct ucx_hello *hello,
                                         ucp_err_handling_mode_t mode)
{
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = hello->address,
        .err_mode = mode,
        .err_handler = {link_error, link},
    };
    ucs_status_t status = ucp_ep_create(link->worker->worker, &params, &link->end.ep);

    if (status != UCS_OK) {
        link->end.ep = NULL;
        return status;
    }
    link->has_error_mode = mode == UCP_ERR_HANDLING_MODE_PEER;
    link_lanes_find(link, hello);
    link_count(link, 1);
    params.err_handler.cb = link_data_error;
    if (link->is_native && (!link->has_error_mode ||
                            ucp_ep_create(link->worker->worker, &params, &link->data.ep) != UCS_OK))
        link->data.ep = NULL; /* the engine moves the data */
    return UCS_OK;
}

/*
 * Reads from the endpoint's lanes how the link moves data. UCP puts and gets are for RDMA lanes,
 * because on other lanes UCP emulates them in software. A rendezvous gives a device access to the
 * memory of a piece, also beyond the peer's rights, so it is for shared memory and for sockets with
 * small segments; an eager piece can be cancelled as well. UCX pairs the endpoints of two workers
 * in the order of their creation, so both sides have to create the same number of them.
 */
static void link_lanes_find(struct ucx_link *link, const struct ucx_hello *hello)
{
    static const char *const shared[] = {":sysv/", ":posix/", ":xpmem/", NULL};
    static const char *const native[] = {":rc_verbs/", ":rc_mlx5/", ":dc_mlx5/", ":ugni_rdma/",
                                         NULL};
    static const char *const sockets[] = {":tcp/", NULL};
    const struct na_plugin_class *na_class = link->na_class;

    link->is_shared = endpoint_has_lane(&link->end, shared);
    link->is_stream = !link->is_shared && na_class->has_segments;
    link->is_native = na_class->wants_keys && hello->is_native &&
                      ((na_class->rma_choice == UCX_RMA_UCP && hello->is_native_any) ||
                       endpoint_has_lane(&link->end, native));
    link->is_eager =
        link->is_stream || (!link->is_shared && !endpoint_has_lane(&link->end, sockets));
}

/* UCX shows the lanes of an endpoint only in the text of ucp_ep_print_info(). */
static bool endpoint_has_lane(const struct ucx_endpoint *end, const char *const *names)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    bool is_found = false;

    if (stream == NULL)
        return false;
    ucp_ep_print_info(end->ep, stream);
    (void) fclose(stream);
    for (; text != NULL && *names != NULL && !is_found; names++)
        is_found = strstr(text, *names) != NULL;
    free(text);
    return is_found;
}

/* UCX does not permit closing the endpoint in its error handler. */
static void link_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct ucx_link *link = arg;

    (void) ep;
    link->is_failing = true;
    link->failure = status;
    ucx_link_schedule(link);
    link->na_class->poll_sockets = true;
}

/* Requests in progress complete with an error, and the engine starts them again (rma_native.c). */
static void link_data_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void) ep;
    ucx_link_data_broke(arg, status);
}

void ucx_link_data_broke(struct ucx_link *link, ucs_status_t status)
{
    if (!link->is_data_broken && link->phase == UCX_LINK_READY)
        UCX_LOG_INFO("the endpoint for data to %s broke (%s), as after an access that the device "
                     "refuses: its data go in messages from now on",
                     link->name, ucs_status_string(status));
    link->is_data_broken = true;
    ucx_link_schedule(link);
    link->na_class->poll_sockets = true;
}

/*
 * Waits for UCX to connect the endpoint, by a flush. A caller is sent this side's HELLO only then:
 * if the caller asked UCX for a connection before, and died, UCX 1.13 would abort this process.
 */
static void link_wire_up(struct ucx_link *link)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = link_wired_up,
        .user_data = link,
    };
    ucs_status_ptr_t request = ucp_ep_flush_nbx(link->end.ep, &param);

    link->outstanding++;
    if (!UCS_PTR_IS_PTR(request))
        link_wired_up(NULL, UCS_PTR_STATUS(request), link);
}

static void link_wired_up(void *request, ucs_status_t status, void *arg)
{
    struct ucx_link *link = arg;

    if (request != NULL)
        ucp_request_free(request);
    link->outstanding--;
    if (status == UCS_OK)
        link->is_wired_up = true;
    else if (link->phase == UCX_LINK_READY) {
        link->is_failing = true;
        link->failure = status;
    }
    ucx_link_schedule(link);
    link->na_class->poll_sockets = true;
}

/* Counts an endpoint; `change` is 1, or UINT32_MAX for -1. */
static void link_count(struct ucx_link *link, uint32_t change)
{
    if (link->is_shared)
        link->na_class->shared_links += change;
    else
        link->na_class->other_links += change;
}

static void link_close(struct ucx_link *link, bool is_forced)
{
    if (link->end.ep == NULL)
        return;
    ucx_endpoint_close(&link->end, link, is_forced);
    ucx_endpoint_close(&link->data, link, is_forced);
    link_count(link, UINT32_MAX);
}

static bool link_is_closed(struct ucx_link *link)
{
    const bool is_closed = ucx_endpoint_is_closed(&link->end);

    return ucx_endpoint_is_closed(&link->data) && is_closed;
}

static void endpoint_request_free(struct ucx_endpoint *end)
{
    if (end->close_request != NULL)
        ucp_request_free(end->close_request);
    end->close_request = NULL;
}

static void link_free(struct ucx_link *link)
{
    kit_list_remove(&link->node);
    kit_list_remove(&link->scheduled);
    kit_table_remove(&link->na_class->links_by_id, link->id);
    kit_host->mem_free(link);
}
