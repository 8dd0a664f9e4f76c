/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory handles: registration, serialized form, remote keys. */

#include "ucx.h"

#include <string.h>

/* Deregistration waits so long for transfers with the memory. */
#define MEM_FREE_NS      UINT64_C(2000000000)
#define MEM_FREE_LAST_NS UINT64_C(20000000) /* without an active context */
/* ucp_ep_rkey_unpack() trusts the lengths in its buffer. A key from a peer is followed by zeroes as
 * far as a key of 64 parts with at most 255 bytes can reach. */
#define MEM_KEY_SLACK 20480u

static struct na_plugin_mem *mem_alloc(void);
static ucs_status_t mem_map(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
static bool mem_is_read_write(const struct na_plugin_mem *mem);
static void mem_unmap(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
static void mem_quiesce(struct na_plugin_class *na_class, const struct na_plugin_mem *mem);
static bool mem_wait_unused(struct na_plugin_class *na_class, const struct na_plugin_mem *mem);
static uint64_t mem_wait_ns(const struct na_plugin_class *na_class);
static void mem_forget_key(struct na_plugin_mem *mem);

int32_t ucx_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                       uint32_t flags, struct na_plugin_mem **mem_p)
{
    struct na_plugin_mem *mem = mem_alloc();
    int32_t ret;

    if (mem == NULL)
        return NA_PLUGIN_NOMEM;
    kit_msg_lock(&na_class->fabric);
    ret = kit_region_add(&na_class->regions, &mem->region, base, length, flags);
    kit_msg_unlock(&na_class->fabric);
    if (ret != NA_PLUGIN_SUCCESS) {
        UCX_LOG_ERROR("%llu bytes at %p do not lie in the address space",
                      (unsigned long long) length, base);
        kit_host->mem_free(mem);
        return ret;
    }
    *mem_p = mem;
    return NA_PLUGIN_SUCCESS;
}

void ucx_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) ucx_mem_deregister(na_class, mem);
    kit_msg_lock(&na_class->fabric);
    if (mem->rkey != NULL && !kit_msg_rma_leave(&na_class->fabric, mem, mem_wait_ns(na_class))) {
        UCX_LOG_ERROR("UCX does not let go of the key of memory that is a peer's: it is leaked");
        mem->rkey = NULL;
    }
    mem_forget_key(mem);
    kit_region_remove(&mem->region);
    kit_msg_unlock(&na_class->fabric);
    kit_host->mem_free(mem->packed);
    kit_host->mem_free(mem);
}

int32_t ucx_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                         uint32_t mem_type, uint64_t device)
{
    int32_t ret = NA_PLUGIN_SUCCESS;
    ucs_status_t status = UCS_OK;

    (void) device;
    if (mem_type != NA_PLUGIN_MEM_TYPE_HOST && mem_type != NA_PLUGIN_MEM_TYPE_CUDA &&
        mem_type != NA_PLUGIN_MEM_TYPE_ROCM) {
        UCX_LOG_ERROR("memory of type %u cannot be registered with UCX: host, CUDA and ROCm can",
                      mem_type);
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    kit_msg_lock(&na_class->fabric);
    if (mem->region.is_remote || mem->region.is_registered)
        goto out;
    mem->region.mem_type = mem_type;
    if (na_class->wants_keys && mem->region.length != 0 &&
        (mem_is_read_write(mem) || na_class->rma_choice == UCX_RMA_UCP))
        status = mem_map(na_class, mem);
    if (status != UCS_OK && (mem->region.flags & NA_PLUGIN_MEM_WRITE) == 0) {
        UCX_LOG_INFO("%llu bytes at %p go to peers in messages: UCX does not register them (%s)",
                     (unsigned long long) mem->region.length, (void *) (uintptr_t) mem->region.base,
                     ucx_log_last());
        status = UCS_OK;
    }
    if (status != UCS_OK) {
        UCX_LOG_ERROR("UCX does not register %llu bytes at %p: %s (%s); is the limit of locked "
                      "memory (ulimit -l) too low?",
                      (unsigned long long) mem->region.length,
                      (void *) (uintptr_t) mem->region.base, ucs_status_string(status),
                      ucx_log_last());
        ret = ucx_status(status);
        goto out;
    }
    ret = kit_region_register(&na_class->regions, &mem->region);
    if (ret != NA_PLUGIN_SUCCESS) {
        UCX_LOG_ERROR("memory cannot be registered: %s", kit_status_name(ret));
        mem_unmap(na_class, mem);
        goto out;
    }
    ucx_registry_add(na_class, mem);

out:
    kit_msg_unlock(&na_class->fabric);
    return ret;
}

/* Pieces in progress are cancelled or waited for, because the caller may free the memory next. */
int32_t ucx_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    if (mem->region.is_remote)
        return NA_PLUGIN_SUCCESS;
    kit_msg_lock(&na_class->fabric);
    if (mem->region.is_registered) {
        ucx_registry_remove(na_class, mem);
        kit_region_deregister(&na_class->regions, &mem->region);
        ucx_enter();
        mem_quiesce(na_class, mem);
        ucx_leave();
        mem_unmap(na_class, mem);
    }
    kit_msg_unlock(&na_class->fabric);
    return NA_PLUGIN_SUCCESS;
}

uint64_t ucx_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) na_class;
    return KIT_REGION_PACKED + mem->packed_size;
}

int32_t ucx_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem, void *buf,
                          uint64_t size)
{
    int32_t ret =
        kit_region_pack(&mem->region, mem->packed, (uint32_t) mem->packed_size, buf, size);

    (void) na_class;
    if (ret == NA_PLUGIN_INVALID_ARG)
        UCX_LOG_ERROR("memory at %p is not registered: a peer could do nothing with its handle",
                      (void *) (uintptr_t) mem->region.base);
    return ret;
}

int32_t ucx_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                            struct na_plugin_mem **mem_p)
{
    struct na_plugin_mem *mem = mem_alloc();
    uint32_t key_size = 0;
    const void *key;
    int32_t ret;

    if (mem == NULL)
        return NA_PLUGIN_NOMEM;
    kit_msg_lock(&na_class->fabric);
    ret = kit_region_unpack(&na_class->regions, buf, size, &mem->region, &key, &key_size);
    kit_msg_unlock(&na_class->fabric);
    if (ret != NA_PLUGIN_SUCCESS)
        UCX_LOG_ERROR("%llu bytes are not a memory handle of this plugin",
                      (unsigned long long) size);
    if (ret == NA_PLUGIN_SUCCESS && key_size != 0) {
        mem->packed = kit_host->mem_alloc(key_size + MEM_KEY_SLACK, 0);
        if (mem->packed == NULL)
            ret = NA_PLUGIN_NOMEM;
    }
    if (ret != NA_PLUGIN_SUCCESS) {
        ucx_mem_destroy(na_class, mem);
        return ret;
    }
    if (key_size != 0)
        memcpy(mem->packed, key, key_size);
    mem->packed_size = key_size;
    *mem_p = mem;
    return NA_PLUGIN_SUCCESS;
}

/* Unpacks the remote key for the link's endpoint, once for each link. */
ucs_status_t ucx_mem_rkey(struct ucx_link *link, struct na_plugin_mem *mem, ucp_rkey_h *rkey_p)
{
    ucs_status_t status = UCS_OK;

    if (mem->packed_size == 0)
        return UCS_ERR_UNSUPPORTED;
    if (mem->rkey == NULL || mem->rkey_link != link->id) {
        mem_forget_key(mem);
        status = ucp_ep_rkey_unpack(link->data.ep, mem->packed, &mem->rkey);
        if (status != UCS_OK)
            mem->rkey = NULL;
        mem->rkey_link = link->id;
    }
    *rkey_p = mem->rkey;
    return status;
}

/* Called before the worker is destroyed. */
void ucx_mem_forget_keys(struct na_plugin_class *na_class)
{
    const struct kit_link *all = &na_class->regions.all;

    for (struct kit_link *node = all->next; node != all; node = node->next)
        mem_forget_key(kit_container(node, struct na_plugin_mem, region.node));
}

/* Frees the handles that callers did not. The worker and its requests are destroyed already. */
void ucx_mem_free_all(struct na_plugin_class *na_class)
{
    struct kit_link *node;

    while ((node = kit_list_first(&na_class->regions.all)) != NULL) {
        struct na_plugin_mem *mem = kit_container(node, struct na_plugin_mem, region.node);

        mem_unmap(na_class, mem);
        kit_region_remove(&mem->region);
        kit_host->mem_free(mem->packed);
        kit_host->mem_free(mem);
    }
}

static struct na_plugin_mem *mem_alloc(void)
{
    struct na_plugin_mem *mem = kit_host->mem_alloc(sizeof(*mem), 0);

    if (mem == NULL)
        return NULL;
    kit_list_init(&mem->region.node);
    return mem;
}

static ucs_status_t mem_map(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = (void *) (uintptr_t) mem->region.base,
        .length = mem->region.length,
    };
    ucs_status_t status;
    void *packed;
    size_t size;

    ucx_log_reset();
    ucx_enter();
    status = ucp_mem_map(na_class->context, &params, &mem->mem);
    if (status != UCS_OK) {
        mem->mem = NULL;
        goto out;
    }
    status = ucp_rkey_pack(na_class->context, mem->mem, &packed, &size);
    if (status != UCS_OK)
        goto out;
    if (size <= KIT_REGION_EXTRA_MAX)
        mem->packed = kit_host->mem_alloc(size, 0);
    if (mem->packed != NULL) {
        memcpy(mem->packed, packed, size);
        mem->packed_size = size;
    }
    ucp_rkey_buffer_release(packed);

out:
    if (status != UCS_OK)
        mem_unmap(na_class, mem);
    ucx_leave();
    return status;
}

/*
 * UCX registers memory with all access rights: a peer that has the key, or guesses it, can read and
 * write, whatever rights it was given, and registering read-only memory fails.
 */
static bool mem_is_read_write(const struct na_plugin_mem *mem)
{
    const uint32_t all = NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE;

    return (mem->region.flags & all) == all;
}

static void mem_unmap(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    if (mem->mem == NULL)
        return;
    ucx_enter();
    (void) ucp_mem_unmap(na_class->context, mem->mem);
    ucx_leave();
    mem->mem = NULL;
    kit_host->mem_free(mem->packed);
    mem->packed = NULL;
    mem->packed_size = 0;
}

/* A rendezvous cannot be cancelled, so links that still use the memory in the end are failed. */
static void mem_quiesce(struct na_plugin_class *na_class, const struct na_plugin_mem *mem)
{
    struct kit_link *node;

    if (mem_wait_unused(na_class, mem))
        return;
    /* ucx_link_fail() does not change the list. */
    for (node = na_class->links.next; node != &na_class->links; node = node->next) {
        struct ucx_link *link = kit_container(node, struct ucx_link, node);

        if (link->phase != UCX_LINK_FAILED && ucx_requests_touch(link, mem))
            ucx_link_fail(link, NA_PLUGIN_HOSTUNREACH,
                          "it does not take what it asked for, and the memory is needed");
    }
    /* Targets that copy by cross-memory attach find that the region was deregistered. */
    kit_remote_fail_peers(&na_class->fabric, &mem->region, NULL);
    if (!mem_wait_unused(na_class, mem))
        UCX_LOG_ERROR("UCX does not let go of memory at %p", (void *) (uintptr_t) mem->region.base);
}

/* Waits for transfers of the engine and those by UCP. True if none uses the memory any more. */
static bool mem_wait_unused(struct na_plugin_class *na_class, const struct na_plugin_mem *mem)
{
    const uint64_t timeout_ns = mem_wait_ns(na_class);

    return kit_remote_leave(&na_class->fabric, &mem->region, timeout_ns) &&
           kit_msg_rma_leave(&na_class->fabric, mem, timeout_ns);
}

static uint64_t mem_wait_ns(const struct na_plugin_class *na_class)
{
    return kit_endpoint_is_active(&na_class->fabric) ? MEM_FREE_NS : MEM_FREE_LAST_NS;
}

static void mem_forget_key(struct na_plugin_mem *mem)
{
    if (mem->rkey != NULL)
        ucp_rkey_destroy(mem->rkey);
    mem->rkey = NULL;
}
