/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory handles, and their serialized form. */

#include "ofi.h"

#include <endian.h>
#include <stddef.h>
#include <string.h>

/* Deregistration waits so long for transfers with the memory. */
#define OFI_DEREGISTER_NS      UINT64_C(2000000000)
#define OFI_DEREGISTER_LAST_NS UINT64_C(20000000) /* without an active context */

/* The provider's part of a serialized handle, in front of a raw key. Little-endian. */
struct ofi_mem_extra {
    uint64_t base; /* of offset 0 for fi_rma_iov */
    uint64_t key;  /* 0 with a raw key */
    uint64_t port; /* of the endpoint for data; left out of the handle if there is none */
};

static struct na_plugin_mem *ofi_mem_alloc(void);
static void ofi_mem_free(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
static int32_t ofi_mem_register_locked(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                                       uint32_t mem_type, uint64_t device);
static void ofi_mem_wait_unused(struct na_plugin_class *na_class, const struct na_plugin_mem *mem);
static int32_t ofi_mem_extra_fill(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                                  uint8_t *extra, uint32_t *size_p);
static int32_t ofi_mem_extra_take(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                                  const uint8_t *extra, uint32_t size);
static uint32_t ofi_mem_numbers_size(const struct na_plugin_class *na_class);
static uint64_t ofi_mem_raw_size(const struct na_plugin_class *na_class,
                                 const struct na_plugin_mem *mem);
static int32_t ofi_mem_map_key(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                               uint64_t base, const uint8_t *raw_key, size_t raw_size);

int32_t ofi_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                       uint32_t flags, struct na_plugin_mem **mem_p)
{
    struct na_plugin_mem *mem = ofi_mem_alloc();
    int32_t ret;

    if (mem == NULL)
        return NA_PLUGIN_NOMEM;
    kit_msg_lock(&na_class->base);
    ret = kit_region_add(&na_class->regions, &mem->region, base, length, flags);
    kit_msg_unlock(&na_class->base);
    if (ret != NA_PLUGIN_SUCCESS) {
        OFI_LOG_ERROR("%llu bytes at %p do not lie in the address space",
                      (unsigned long long) length, base);
        kit_host->mem_free(mem);
        return ret;
    }
    *mem_p = mem;
    return NA_PLUGIN_SUCCESS;
}

void ofi_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) ofi_mem_deregister(na_class, mem);
    ofi_mem_free(na_class, mem);
}

/* Destroys the handles that the caller did not destroy. */
void ofi_mem_destroy_all(struct na_plugin_class *na_class)
{
    struct kit_link *node;

    while ((node = kit_list_first(&na_class->regions.all)) != NULL)
        ofi_mem_destroy(na_class, kit_container(node, struct na_plugin_mem, region.node));
}

int32_t ofi_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                         uint32_t mem_type, uint64_t device)
{
    int32_t ret = NA_PLUGIN_SUCCESS;

    if (mem_type != NA_PLUGIN_MEM_TYPE_HOST && (na_class->info->caps & FI_HMEM) == 0) {
        OFI_LOG_ERROR("memory of type %u cannot be registered: the class was not opened for device "
                      "memory, or provider '%s' has none",
                      mem_type, na_class->info->fabric_attr->prov_name);
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    kit_msg_lock(&na_class->base);
    if (!mem->region.is_remote && !mem->region.is_registered)
        ret = ofi_mem_register_locked(na_class, mem, mem_type, device);
    kit_msg_unlock(&na_class->base);
    return ret;
}

int32_t ofi_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    int error = 0;

    kit_msg_lock(&na_class->base);
    kit_region_deregister(&na_class->regions, &mem->region);
    ofi_mem_wait_unused(na_class, mem);
    if (mem->mr != NULL)
        error = fi_close(&mem->mr->fid);
    mem->mr = NULL;
    mem->descriptor = NULL;
    kit_msg_unlock(&na_class->base);
    if (error == 0)
        return NA_PLUGIN_SUCCESS;
    OFI_LOG_ERROR("memory at %p could not be deregistered (%s)", ofi_mem_base(mem),
                  fi_strerror(-error));
    return ofi_status(-error);
}

uint64_t ofi_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    return KIT_REGION_PACKED + ofi_mem_numbers_size(na_class) + ofi_mem_raw_size(na_class, mem);
}

int32_t ofi_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem, void *buf,
                          uint64_t size)
{
    uint8_t extra[sizeof(struct ofi_mem_extra) + OFI_RAW_KEY_MAX];
    uint32_t extra_size = 0;
    int32_t ret = NA_PLUGIN_SUCCESS;

    if (mem->region.is_registered)
        ret = ofi_mem_extra_fill(na_class, mem, extra, &extra_size);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    ret = mem->region.is_remote ? NA_PLUGIN_INVALID_ARG
                                : kit_region_pack(&mem->region, extra, extra_size, buf, size);
    if (ret != NA_PLUGIN_SUCCESS)
        OFI_LOG_ERROR("a handle that is %s cannot be serialized into %llu bytes",
                      mem->region.is_registered ? "registered" : "not registered",
                      (unsigned long long) size);
    return ret;
}

int32_t ofi_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                            struct na_plugin_mem **mem_p)
{
    struct na_plugin_mem *mem = ofi_mem_alloc();
    uint32_t extra_size = 0;
    const void *extra;
    int32_t ret;

    if (mem == NULL)
        return NA_PLUGIN_NOMEM;
    kit_msg_lock(&na_class->base);
    ret = kit_region_unpack(&na_class->regions, buf, size, &mem->region, &extra, &extra_size);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = ofi_mem_extra_take(na_class, mem, extra, extra_size);
    kit_msg_unlock(&na_class->base);
    if (ret != NA_PLUGIN_SUCCESS) {
        OFI_LOG_ERROR("%llu bytes are not a serialized memory handle of provider '%s'",
                      (unsigned long long) size, na_class->info->fabric_attr->prov_name);
        ofi_mem_free(na_class, mem);
        return ret;
    }
    *mem_p = mem;
    return NA_PLUGIN_SUCCESS;
}

static struct na_plugin_mem *ofi_mem_alloc(void)
{
    struct na_plugin_mem *mem = kit_host->mem_alloc(sizeof(*mem), 0);

    if (mem == NULL)
        return NULL;
    kit_list_init(&mem->region.node);
    return mem;
}

static void ofi_mem_free(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    kit_msg_lock(&na_class->base);
    if (mem->is_key_mapped)
        (void) fi_mr_unmap_key(na_class->domain, mem->fabric_key);
    kit_region_remove(&mem->region);
    kit_msg_unlock(&na_class->base);
    kit_host->mem_free(mem);
}

/*
 * Registers with libfabric, unless that is done for each transfer (target.c), and with the kit, for
 * requests of peers. The lock is held.
 */
static int32_t ofi_mem_register_locked(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                                       uint32_t mem_type, uint64_t device)
{
    uint64_t access = FI_READ | FI_WRITE;
    int32_t ret;

    if ((mem->region.flags & NA_PLUGIN_MEM_READ) != 0)
        access |= FI_REMOTE_READ;
    if ((mem->region.flags & NA_PLUGIN_MEM_WRITE) != 0)
        access |= FI_REMOTE_WRITE;
    if (!na_class->is_target_driven) {
        ret = ofi_memory_register(na_class, ofi_mem_base(mem), mem->region.length, access, mem_type,
                                  device, &mem->mr);
        if (ret != NA_PLUGIN_SUCCESS)
            return ret;
        mem->descriptor = fi_mr_desc(mem->mr);
    }
    mem->region.mem_type = mem_type;
    ret = kit_region_register(&na_class->regions, &mem->region);
    if (ret == NA_PLUGIN_SUCCESS)
        return ret;
    OFI_LOG_ERROR("memory cannot be registered: %s", kit_status_name(ret));
    if (mem->mr != NULL)
        (void) fi_close(&mem->mr->fid);
    mem->mr = NULL;
    mem->descriptor = NULL;
    return ret;
}

/* Waits for transfers with memory that is deregistered, because the caller may free it next. */
static void ofi_mem_wait_unused(struct na_plugin_class *na_class, const struct na_plugin_mem *mem)
{
    const struct kit_region *region = &mem->region;
    const bool is_last = !kit_endpoint_is_active(&na_class->base);

    if (na_class->base.rma == NULL) {
        if (na_class->endpoint != NULL)
            (void) kit_msg_rma_leave(&na_class->base, mem, OFI_DEREGISTER_NS);
        return;
    }
    if (kit_remote_leave(&na_class->base, region,
                         is_last ? OFI_DEREGISTER_LAST_NS : OFI_DEREGISTER_NS))
        return;
    OFI_LOG_WARNING("a peer does not end its transfer with memory at %p, which is deregistered: its"
                    " connection is broken",
                    (void *) (uintptr_t) region->base);
    ofi_abort_moves(na_class, region);
    kit_remote_fail_peers(&na_class->base, region, ofi_peer_abort_now);
    if (!kit_rma_region_leave(na_class->base.rma, region))
        OFI_LOG_ERROR("provider '%s' does not let go of memory at %p",
                      na_class->info->fabric_attr->prov_name, (void *) (uintptr_t) region->base);
}

static int32_t ofi_mem_extra_fill(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                                  uint8_t *extra, uint32_t *size_p)
{
    const uint32_t numbers_size = ofi_mem_numbers_size(na_class);
    struct ofi_mem_extra numbers = {.port = htole64(ntohs(na_class->data.port))};
    uint64_t base = 0, key = 0;
    size_t raw_size = 0;
    int error = 0;

    if (mem->mr != NULL && (na_class->mr_mode & FI_MR_RAW) != 0) {
        raw_size = OFI_RAW_KEY_MAX;
        kit_msg_lock(&na_class->base);
        error = fi_mr_raw_attr(mem->mr, &base, extra + numbers_size, &raw_size, 0);
        kit_msg_unlock(&na_class->base);
    } else if (mem->mr != NULL) {
        key = fi_mr_key(mem->mr);
        base = (na_class->mr_mode & FI_MR_VIRT_ADDR) != 0 ? mem->region.base : 0;
    }
    if (error != 0) {
        OFI_LOG_ERROR("provider '%s' gives no key for memory at %p (%s)",
                      na_class->info->fabric_attr->prov_name, ofi_mem_base(mem),
                      fi_strerror(-error));
        return NA_PLUGIN_IO_ERROR;
    }
    numbers.base = htole64(base);
    numbers.key = htole64(key);
    memcpy(extra, &numbers, numbers_size);
    *size_p = (uint32_t) (numbers_size + raw_size);
    return NA_PLUGIN_SUCCESS;
}

/* The lock is held. */
static int32_t ofi_mem_extra_take(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                                  const uint8_t *extra, uint32_t size)
{
    const bool is_raw = (na_class->mr_mode & FI_MR_RAW) != 0 && !na_class->is_target_driven;
    const uint32_t numbers_size = ofi_mem_numbers_size(na_class);
    struct ofi_mem_extra numbers = {0};

    if (size < numbers_size || (size != numbers_size) != is_raw ||
        size - numbers_size > OFI_RAW_KEY_MAX)
        return NA_PLUGIN_PROTOCOL_ERROR;
    memcpy(&numbers, extra, numbers_size);
    mem->fabric_base = le64toh(numbers.base);
    mem->fabric_key = le64toh(numbers.key);
    mem->data_port = htons((uint16_t) le64toh(numbers.port));
    if (mem->fabric_base > UINT64_MAX - mem->region.length || le64toh(numbers.port) > UINT16_MAX ||
        (mem->data_port == 0) != (na_class->data.port == 0))
        return NA_PLUGIN_PROTOCOL_ERROR;
    return is_raw ? ofi_mem_map_key(na_class, mem, mem->fabric_base, extra + numbers_size,
                                    size - numbers_size)
                  : NA_PLUGIN_SUCCESS;
}

static uint32_t ofi_mem_numbers_size(const struct na_plugin_class *na_class)
{
    return na_class->data.port != 0 ? sizeof(struct ofi_mem_extra)
                                    : offsetof(struct ofi_mem_extra, port);
}

static uint64_t ofi_mem_raw_size(const struct na_plugin_class *na_class,
                                 const struct na_plugin_mem *mem)
{
    uint64_t base;
    size_t size = 0;

    if ((na_class->mr_mode & FI_MR_RAW) == 0 || mem->mr == NULL)
        return 0;
    /* With a size of 0 the call fails and returns the size of the key. */
    (void) fi_mr_raw_attr(mem->mr, &base, NULL, &size, 0);
    return size <= OFI_RAW_KEY_MAX ? size : OFI_RAW_KEY_MAX;
}

static int32_t ofi_mem_map_key(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                               uint64_t base, const uint8_t *raw_key, size_t raw_size)
{
    uint8_t copy[OFI_RAW_KEY_MAX];
    int error;

    memcpy(copy, raw_key, raw_size);
    error = fi_mr_map_raw(na_class->domain, base, copy, raw_size, &mem->fabric_key, 0);
    if (error != 0) {
        OFI_LOG_ERROR("provider '%s' does not take a key of %zu bytes that came from a peer (%s)",
                      na_class->info->fabric_attr->prov_name, raw_size, fi_strerror(-error));
        return ofi_status(-error);
    }
    mem->is_key_mapped = true;
    return NA_PLUGIN_SUCCESS;
}
