/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: joins the message layer and the engine; handles that are plain regions. */

#include "kit_remote.h"

#include "na_plugin_mem_grant.h"

#include <string.h>

#define REMOTE_LEAVE_NS UINT64_C(5000000000)

static struct kit_endpoint *endpoint_of(struct na_plugin_class *na_class);
static struct kit_region *region_of(struct na_plugin_mem *mem);
static void configure(struct kit_endpoint *endpoint);
static bool may_reach(void *owner, void *peer, struct kit_region *region);
static int32_t mem_grant(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                         struct na_plugin_addr *addr);
static int32_t sealed_send(void *owner, void *peer, const void *record, uint32_t record_size,
                           const struct kit_region *region, uint64_t offset, uint32_t size);
static void sealed_take(void *owner, const struct kit_region *region, uint64_t offset,
                        const void *data, uint32_t size);

int32_t kit_remote_open(struct kit_endpoint *endpoint, const struct kit_rma_config *config)
{
    struct kit_rma_config own = *config;

    own.owner = endpoint;
    own.control_size = KIT_CONTROL_MAX;
    own.inline_size = KIT_CONTROL_MAX - KIT_RMA_RECORD_SIZE;
    endpoint->is_rma_configured = false;
    return kit_rma_open(&own, &endpoint->rma);
}

void kit_remote_close(struct kit_endpoint *endpoint)
{
    kit_rma_close(endpoint->rma);
    endpoint->rma = NULL;
}

int32_t kit_remote_start(struct kit_endpoint *endpoint, struct kit_msg_rma *rma)
{
    int32_t ret = kit_remote_start_part(endpoint, rma, 0, rma->length);

    if (ret == NA_PLUGIN_SUCCESS && rma->transfer == NULL)
        kit_msg_rma_done(endpoint, rma, ret);
    return ret;
}

int32_t kit_remote_start_part(struct kit_endpoint *endpoint, struct kit_msg_rma *rma,
                              uint64_t offset, uint64_t length)
{
    const struct kit_rma_request request = {
        .peer = rma->peer,
        .local = region_of(rma->local),
        .local_offset = rma->local_offset + offset,
        .remote = region_of(rma->remote),
        .remote_offset = rma->remote_offset + offset,
        .length = length,
        .is_put = rma->is_put,
        .cookie = rma,
    };

    configure(endpoint);
    return kit_rma_start(endpoint->rma, &request, &rma->transfer);
}

bool kit_remote_abandon(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status)
{
    if (rma->transfer == NULL ||
        !kit_rma_abandon(endpoint->rma, rma->transfer, status, status != NA_PLUGIN_CANCELED))
        return false;
    kit_msg_rma_done(endpoint, rma, status);
    return true;
}

void kit_remote_control(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t type,
                        const void *data, uint64_t size)
{
    if (type != KIT_REMOTE_CONTROL || endpoint->rma == NULL)
        return;
    configure(endpoint);
    kit_rma_control(endpoint->rma, peer, data, size);
}

/* Called before the first transfer of either side: endpoint and engine open in any order. */
static void configure(struct kit_endpoint *endpoint)
{
    struct kit_rma_sealed sealed = {.data_send = sealed_send, .data_take = sealed_take};

    if (kit_likely(endpoint->is_rma_configured))
        return;
    endpoint->is_rma_configured = true;
    if (kit_endpoint_has_grants(endpoint))
        kit_rma_set_may_reach(endpoint->rma, may_reach);
    if (!kit_endpoint_encrypts(endpoint))
        return;
    sealed.inline_size = kit_msg_control_most(endpoint) - KIT_RMA_RECORD_SIZE;
    kit_rma_inline_only(endpoint->rma, &sealed);
}

/* Transfers to ourselves need no grant. */
static bool may_reach(void *owner, void *peer_p, struct kit_region *region)
{
    const struct kit_peer *peer = peer_p;
    struct kit_grant asked;

    if (peer->is_self || (kit_peer_may_ask(peer, &asked) && kit_region_is_granted(region, &asked)))
        return true;
    kit_msg_memory_refused(owner, peer);
    return false;
}

static int32_t sealed_send(void *owner, void *peer, const void *record, uint32_t record_size,
                           const struct kit_region *region, uint64_t offset, uint32_t size)
{
    const uint8_t *data = (const uint8_t *) (uintptr_t) region->base + offset;

    return kit_msg_control_data(owner, peer, KIT_REMOTE_CONTROL, record, record_size, data, size);
}

static void sealed_take(void *owner, const struct kit_region *region, uint64_t offset,
                        const void *data, uint32_t size)
{
    (void) owner;
    memcpy((uint8_t *) (uintptr_t) region->base + offset, data, size);
}

int32_t kit_remote_control_send(void *owner, void *peer, const void *data, uint32_t size)
{
    return kit_msg_control_send(owner, peer, KIT_REMOTE_CONTROL, data, size);
}

void kit_remote_transfer_done(void *owner, void *cookie, int32_t status)
{
    struct kit_msg_rma *rma = cookie;

    rma->transfer = NULL;
    kit_msg_rma_done(owner, rma, status);
}

bool kit_remote_leave(struct kit_endpoint *endpoint, const struct kit_region *region,
                      uint64_t timeout_ns)
{
    bool is_left = kit_rma_region_leave(endpoint->rma, region);
    uint64_t end = is_left ? 0 : kit_host->clock_ns() + timeout_ns;

    while (!is_left && kit_host->clock_ns() < end) {
        (void) kit_msg_progress(endpoint);
        is_left = kit_rma_region_leave(endpoint->rma, region);
    }
    return is_left;
}

void kit_remote_fail_peers(struct kit_endpoint *endpoint, const struct kit_region *region,
                           void (*abort)(struct kit_endpoint *endpoint, struct kit_peer *peer))
{
    struct kit_peer *peer = kit_rma_region_peer(endpoint->rma, region), *last = NULL;

    for (; peer != NULL && peer != last;
         last = peer, peer = kit_rma_region_peer(endpoint->rma, region)) {
        if (abort != NULL)
            abort(endpoint, peer);
        kit_peer_failed(peer, NA_PLUGIN_HOSTUNREACH,
                        "it does not end a transfer, and the memory is needed");
        kit_rma_peer_failed(endpoint->rma, peer, NA_PLUGIN_HOSTUNREACH);
        kit_msg_dispatch(endpoint);
    }
}

int32_t kit_remote_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                              uint32_t flags, struct na_plugin_mem **mem_p)
{
    struct kit_endpoint *endpoint = endpoint_of(na_class);
    struct kit_region *region;
    int32_t ret;

    kit_msg_lock(endpoint);
    ret = kit_rma_mem_create(endpoint->rma, base, length, flags, &region);
    kit_msg_unlock(endpoint);
    if (ret == NA_PLUGIN_SUCCESS)
        *mem_p = (struct na_plugin_mem *) (void *) region;
    return ret;
}

void kit_remote_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    struct kit_endpoint *endpoint = endpoint_of(na_class);

    (void) kit_remote_mem_deregister(na_class, mem);
    kit_msg_lock(endpoint);
    kit_rma_mem_destroy(endpoint->rma, region_of(mem));
    kit_msg_unlock(endpoint);
}

int32_t kit_remote_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                                uint32_t mem_type, uint64_t device)
{
    struct kit_endpoint *endpoint = endpoint_of(na_class);
    int32_t ret;

    (void) device;
    kit_msg_lock(endpoint);
    ret = kit_rma_mem_register(endpoint->rma, region_of(mem), mem_type);
    kit_msg_unlock(endpoint);
    return ret;
}

int32_t kit_remote_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    struct kit_endpoint *endpoint = endpoint_of(na_class);
    struct kit_region *region = region_of(mem);
    bool is_left;

    kit_msg_lock(endpoint);
    is_left = kit_rma_mem_deregister(endpoint->rma, region) ||
              kit_remote_leave(endpoint, region, REMOTE_LEAVE_NS);
    if (!is_left) {
        kit_remote_fail_peers(endpoint, region, NULL);
        is_left = kit_rma_region_leave(endpoint->rma, region);
    }
    kit_msg_unlock(endpoint);
    if (!is_left)
        KIT_LOG(NA_PLUGIN_LOG_ERROR, endpoint->plugin,
                "the fabric does not let go of %llu bytes at %p, which are deregistered",
                (unsigned long long) region->length, (void *) (uintptr_t) region->base);
    return NA_PLUGIN_SUCCESS;
}

const void *kit_remote_get_extension(const char *id)
{
    static const struct na_plugin_mem_grant grant = {
        .extension = {.size = sizeof(struct na_plugin_mem_grant)},
        .mem_grant = mem_grant,
    };

    return strcmp(id, NA_PLUGIN_EXT_MEM_GRANT) == 0 ? &grant : kit_msg_get_extension(id);
}

static int32_t mem_grant(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                         struct na_plugin_addr *addr)
{
    struct kit_endpoint *endpoint = endpoint_of(na_class);
    const struct kit_peer *peer = (const struct kit_peer *) (void *) addr;
    int32_t ret = NA_PLUGIN_SUCCESS;
    struct kit_grant grant;

    kit_msg_lock(endpoint);
    grant = kit_peer_grant(peer);
    if (kit_endpoint_has_grants(endpoint) && !peer->is_self)
        ret = kit_region_grant(region_of(mem), &grant);
    kit_msg_unlock(endpoint);
    if (ret != NA_PLUGIN_SUCCESS)
        KIT_LOG(NA_PLUGIN_LOG_ERROR, endpoint->plugin,
                "memory at %p is not granted to %s: %s; register it, and deregister what is not "
                "needed (%u grants are the most)",
                (void *) (uintptr_t) region_of(mem)->base, peer->name, kit_status_name(ret),
                KIT_GRANTS_MAX);
    return ret;
}

uint64_t kit_remote_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) na_class;
    (void) mem;
    return KIT_REGION_PACKED;
}

int32_t kit_remote_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                                 void *buf, uint64_t size)
{
    struct kit_endpoint *endpoint = endpoint_of(na_class);
    int32_t ret;

    kit_msg_lock(endpoint);
    ret = kit_rma_mem_serialize(endpoint->rma, region_of(mem), buf, size);
    kit_msg_unlock(endpoint);
    return ret;
}

int32_t kit_remote_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                                   struct na_plugin_mem **mem_p)
{
    struct kit_endpoint *endpoint = endpoint_of(na_class);
    struct kit_region *region;
    int32_t ret;

    kit_msg_lock(endpoint);
    ret = kit_rma_mem_deserialize(endpoint->rma, buf, size, &region);
    kit_msg_unlock(endpoint);
    if (ret == NA_PLUGIN_SUCCESS)
        *mem_p = (struct na_plugin_mem *) (void *) region;
    return ret;
}

static struct kit_endpoint *endpoint_of(struct na_plugin_class *na_class)
{
    return (struct kit_endpoint *) (void *) na_class;
}

static struct kit_region *region_of(struct na_plugin_mem *mem)
{
    return (struct kit_region *) (void *) mem;
}
