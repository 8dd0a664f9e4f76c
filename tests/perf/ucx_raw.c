/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX without Amalgam: endpoints from worker addresses, tagged messages, gets and puts with remote
 * keys.
 */

#include "raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#define TAG 1

struct side {
    struct raw_side raw;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h endpoint;
    ucp_mem_h memory;
    ucp_rkey_h key;
    uint64_t peer_base;
};

static void side_open(struct raw_side *raw);
static void side_configure(const struct raw_side *raw, ucp_config_t *config);
static void side_connect(struct raw_side *raw);
static void side_close(struct raw_side *raw);
static void side_poll(struct raw_side *raw);
static void side_send(struct raw_side *raw, uint64_t offset, uint64_t size, uint32_t slot);
static void side_receive(struct raw_side *raw, uint64_t offset, uint64_t size, uint32_t slot);
static void side_rma(struct raw_side *raw, enum raw_direction direction, uint64_t offset,
                     uint64_t size, uint32_t slot);
static void take(struct raw_side *raw, ucs_status_ptr_t request, const char *what);
static void request_done(void *request, ucs_status_t status, void *arg);
static void request_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                             void *arg);
static void request_ignored(void *request, ucs_status_t status, void *arg);
static void check(ucs_status_t status, const char *what);

int main(int argc, char **argv)
{
    static const struct raw_library library = {
        .provider = "tcp",
        .variant = "endpoints that are told when their peer dies",
        .side_size = sizeof(struct side),
        .open = side_open,
        .connect = side_connect,
        .close = side_close,
        .poll = side_poll,
        .send = side_send,
        .receive = side_receive,
        .rma = side_rma,
    };

    return raw_main(argc, argv, &library);
}

static void side_open(struct raw_side *raw)
{
    struct side *side = (struct side *) raw;
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA,
    };
    ucp_worker_params_t worker_params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    ucp_mem_map_params_t map_params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = raw->buffer,
        .length = RAW_WINDOW_MAX * RAW_BUFFER_SIZE,
    };
    ucp_config_t *config;

    check(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
    side_configure(raw, config);
    check(ucp_init(&params, config, &side->context), "ucp_init");
    ucp_config_release(config);
    check(ucp_worker_create(side->context, &worker_params, &side->worker), "ucp_worker_create");
    check(ucp_mem_map(side->context, &map_params, &side->memory), "ucp_mem_map");
}

static void side_configure(const struct raw_side *raw, ucp_config_t *config)
{
    check(ucp_config_modify(config, "TLS", raw->options->provider), "UCX_TLS");
    if (raw->options->device != NULL)
        check(ucp_config_modify(config, "NET_DEVICES", raw->options->device), "UCX_NET_DEVICES");
    if (raw->options->variant && strstr(raw->options->provider, "tcp") == NULL)
        check(ucp_config_modify(config, "MM_ERROR_HANDLING", "y"), "UCX_MM_ERROR_HANDLING");
}

/* Data that each side sends to the other. */
struct introduction {
    uint64_t base;
    uint64_t address_size;
    uint64_t key_size;
    uint8_t address[8192];
    uint8_t key[4096];
};

static void side_connect(struct raw_side *raw)
{
    static struct introduction own, other;
    struct side *side = (struct side *) raw;
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = (const ucp_address_t *) (const void *) other.address,
        .err_mode = raw->options->variant ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE,
    };
    ucp_address_t *address;
    size_t size;
    void *key;

    own.base = (uint64_t) (uintptr_t) raw->buffer;
    check(ucp_worker_get_address(side->worker, &address, &size), "ucp_worker_get_address");
    raw_check(size <= sizeof(own.address), "size of the worker's address");
    memcpy(own.address, address, size);
    own.address_size = size;
    ucp_worker_release_address(side->worker, address);
    check(ucp_rkey_pack(side->context, side->memory, &key, &size), "ucp_rkey_pack");
    raw_check(size <= sizeof(own.key), "size of the remote key");
    memcpy(own.key, key, size);
    own.key_size = size;
    ucp_rkey_buffer_release(key);
    raw_exchange(raw, &own, sizeof(own), &other, sizeof(other));
    side->peer_base = other.base;
    check(ucp_ep_create(side->worker, &params, &side->endpoint), "ucp_ep_create");
    check(ucp_ep_rkey_unpack(side->endpoint, other.key, &side->key), "ucp_ep_rkey_unpack");
}

static void side_close(struct raw_side *raw)
{
    struct side *side = (struct side *) raw;

    ucp_rkey_destroy(side->key);
    (void) ucp_mem_unmap(side->context, side->memory);
    ucp_worker_destroy(side->worker);
    ucp_cleanup(side->context);
}

static void side_poll(struct raw_side *raw)
{
    (void) ucp_worker_progress(((struct side *) raw)->worker);
}

static void side_send(struct raw_side *raw, uint64_t offset, uint64_t size, uint32_t slot)
{
    struct side *side = (struct side *) raw;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = request_done,
        .user_data = raw,
    };

    (void) slot;
    take(raw, ucp_tag_send_nbx(side->endpoint, raw->buffer + offset, size, TAG, &param),
         "ucp_tag_send_nbx");
}

static void side_receive(struct raw_side *raw, uint64_t offset, uint64_t size, uint32_t slot)
{
    struct side *side = (struct side *) raw;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.recv = request_received,
        .user_data = raw,
    };

    (void) slot;
    take(raw, ucp_tag_recv_nbx(side->worker, raw->buffer + offset, size, TAG, UINT64_MAX, &param),
         "ucp_tag_recv_nbx");
}

/* A put is complete at the target when a flush of the endpoint after it has completed. */
static void side_rma(struct raw_side *raw, enum raw_direction direction, uint64_t offset,
                     uint64_t size, uint32_t slot)
{
    struct side *side = (struct side *) raw;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = request_done,
        .user_data = raw,
    };
    ucs_status_ptr_t put;

    (void) slot;
    if (direction == RAW_READ) {
        take(raw,
             ucp_get_nbx(side->endpoint, raw->buffer + offset, size, side->peer_base + offset,
                         side->key, &param),
             "ucp_get_nbx");
        return;
    }
    param.cb.send = request_ignored;
    put = ucp_put_nbx(side->endpoint, raw->buffer + offset, size, side->peer_base + offset,
                      side->key, &param);
    if (UCS_PTR_IS_ERR(put))
        check(UCS_PTR_STATUS(put), "ucp_put_nbx");
    param.cb.send = request_done;
    take(raw, ucp_ep_flush_nbx(side->endpoint, &param), "ucp_ep_flush_nbx");
}

static void take(struct raw_side *raw, ucs_status_ptr_t request, const char *what)
{
    if (request == NULL)
        raw->done++;
    else if (UCS_PTR_IS_ERR(request))
        check(UCS_PTR_STATUS(request), what);
}

static void request_done(void *request, ucs_status_t status, void *arg)
{
    check(status, "a request");
    ((struct raw_side *) arg)->done++;
    ucp_request_free(request);
}

static void request_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                             void *arg)
{
    (void) info;
    request_done(request, status, arg);
}

static void request_ignored(void *request, ucs_status_t status, void *arg)
{
    (void) arg;
    check(status, "a put");
    ucp_request_free(request);
}

static void check(ucs_status_t status, const char *what)
{
    if (status == UCS_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
    exit(1);
}
