/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory handles: registration in each of the fabric's modes, and the form in which they travel. */

#include "ofi.h"

#include <string.h>
#include <sys/uio.h>

#define OFI_MEM_MAGIC   0x4d49464fu
#define OFI_MEM_VERSION 2u

/* Keys that were taken by chance: try others. */
#define OFI_KEY_ATTEMPTS 16

/* The form in which a handle travels: this, then `raw_size` bytes of a raw key. */
struct ofi_mem_packed {
    uint32_t magic;
    uint16_t version;
    uint16_t raw_size; /* 0: the key is `key` */
    uint32_t access;
    uint32_t checksum; /* node-local providers; 0 for others */
    uint64_t base;
    uint64_t length;
    uint64_t key;
    struct kit_key secret;
};

static struct na_plugin_mem *ofi_mem_alloc(struct na_plugin_class *na_class);
static void ofi_mem_free(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
static void ofi_mem_expose(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
static void ofi_mem_hide(struct na_plugin_mem *mem);
static uint32_t ofi_mem_bucket(uint64_t key);
static uint32_t ofi_mem_checksum(const struct na_plugin_class *na_class,
                                 const struct ofi_mem_packed *packed);
static int32_t ofi_mem_own_key(struct na_plugin_class *na_class, uint64_t *key_p);
static void ofi_memory_describe_type(struct fi_mr_attr *attr, uint32_t mem_type, uint64_t device);
static int32_t ofi_memory_activate(struct na_plugin_class *na_class, struct fid_mr *mr);
static uint64_t ofi_mem_raw_size(const struct na_plugin_class *na_class,
                                 const struct na_plugin_mem *mem);
static int32_t ofi_mem_map_key(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                               const struct ofi_mem_packed *packed, const uint8_t *raw_key);

/* Registers memory of our own or of the caller's; the lock is held, or nobody else is there yet. */
int32_t ofi_memory_register(struct na_plugin_class *na_class, const void *base, uint64_t length,
                            uint64_t access, uint32_t mem_type, uint64_t device,
                            struct fid_mr **mr_p)
{
    struct iovec vector = {(void *) (uintptr_t) base, length};
    struct fi_mr_attr attr = {.mr_iov = &vector, .iov_count = 1, .access = access};
    int error = -FI_ENOKEY;
    int32_t ret;

    ofi_memory_describe_type(&attr, mem_type, device);
    for (int i = 0; i < OFI_KEY_ATTEMPTS && error == -FI_ENOKEY; i++) {
        if ((na_class->mr_mode & FI_MR_PROV_KEY) == 0) {
            ret = ofi_random_key(na_class, &attr.requested_key);
            if (ret != NA_PLUGIN_SUCCESS)
                return ret;
        }
        error = fi_mr_regattr(na_class->domain, &attr, 0, mr_p);
    }
    if (error != 0) {
        OFI_LOG_ERROR("provider '%s' does not register %llu bytes at %p (%s)",
                      na_class->info->fabric_attr->prov_name, (unsigned long long) length, base,
                      fi_strerror(-error));
        *mr_p = NULL;
        return ofi_status(-error);
    }
    return ofi_memory_activate(na_class, *mr_p);
}

int32_t ofi_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                       uint32_t flags, struct na_plugin_mem **mem_p)
{
    struct na_plugin_mem *mem;

    if (length > INT64_MAX || (uint64_t) (uintptr_t) base > UINT64_MAX - length) {
        OFI_LOG_ERROR("%llu bytes at %p do not lie in the address space",
                      (unsigned long long) length, base);
        return NA_PLUGIN_INVALID_ARG;
    }
    mem = ofi_mem_alloc(na_class);
    if (mem == NULL)
        return NA_PLUGIN_NOMEM;
    mem->base = base;
    mem->length = length;
    mem->access = flags;
    *mem_p = mem;
    return NA_PLUGIN_SUCCESS;
}

void ofi_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) ofi_mem_deregister(na_class, mem);
    if (mem->key_mapped) {
        fabric_lock(&na_class->base);
        (void) fi_mr_unmap_key(na_class->domain, mem->key);
        fabric_unlock(&na_class->base);
    }
    ofi_mem_free(na_class, mem);
}

/* What the caller forgot. */
void ofi_mem_destroy_all(struct na_plugin_class *na_class)
{
    while (!kit_list_empty(&na_class->mems))
        ofi_mem_destroy(na_class,
                        kit_container(na_class->mems.next, struct na_plugin_mem, of_class));
}

int32_t ofi_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                         uint32_t mem_type, uint64_t device)
{
    uint64_t access = FI_READ | FI_WRITE;
    int32_t ret = NA_PLUGIN_SUCCESS;

    if (mem_type != NA_PLUGIN_MEM_TYPE_HOST && (na_class->info->caps & FI_HMEM) == 0) {
        OFI_LOG_ERROR("memory of type %u cannot be registered: the class was not opened for device "
                      "memory, or provider '%s' has none",
                      mem_type, na_class->info->fabric_attr->prov_name);
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    if ((mem->access & NA_PLUGIN_MEM_READ) != 0)
        access |= FI_REMOTE_READ;
    if ((mem->access & NA_PLUGIN_MEM_WRITE) != 0)
        access |= FI_REMOTE_WRITE;
    fabric_lock(&na_class->base);
    if (!mem->is_remote && !mem->is_registered) {
        if (kit_key_take(&na_class->keys, &mem->secret) != NA_PLUGIN_SUCCESS) {
            OFI_LOG_ERROR("no random numbers for the keys of memory");
            ret = NA_PLUGIN_IO_ERROR;
        } else if (na_class->is_carrying)
            ret = ofi_mem_own_key(na_class, &mem->key);
        else
            ret = ofi_memory_register(na_class, mem->base, mem->length, access, mem_type, device,
                                      &mem->mr);
        mem->is_registered = ret == NA_PLUGIN_SUCCESS;
        if (mem->mr != NULL) {
            mem->descriptor = fi_mr_desc(mem->mr);
            mem->key = fi_mr_key(mem->mr);
        }
        if (mem->is_registered)
            ofi_mem_expose(na_class, mem);
    }
    fabric_unlock(&na_class->base);
    return ret;
}

int32_t ofi_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    int error = 0;

    fabric_lock(&na_class->base);
    if (mem->is_registered)
        ofi_mem_hide(mem);
    if (!kit_list_empty(&mem->carries))
        ofi_serve_withdraw(na_class, mem);
    if (mem->mr != NULL)
        error = fi_close(&mem->mr->fid);
    mem->is_registered = false;
    mem->mr = NULL;
    mem->descriptor = NULL;
    fabric_unlock(&na_class->base);
    if (error == 0)
        return NA_PLUGIN_SUCCESS;
    OFI_LOG_ERROR("memory at %p could not be deregistered (%s)", mem->base, fi_strerror(-error));
    return ofi_status(-error);
}

uint64_t ofi_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    return sizeof(struct ofi_mem_packed) + ofi_mem_raw_size(na_class, mem);
}

int32_t ofi_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem, void *buf,
                          uint64_t size)
{
    struct ofi_mem_packed packed = {
        .magic = OFI_MEM_MAGIC,
        .version = OFI_MEM_VERSION,
        .access = mem->access,
        .length = mem->length,
        .secret = mem->secret,
    };
    uint8_t raw_key[OFI_RAW_KEY_MAX];
    size_t raw_size = sizeof(raw_key);
    int error = 0;

    if (!mem->is_registered || size < ofi_mem_serialize_size(na_class, mem)) {
        OFI_LOG_ERROR("a handle that is %s cannot be serialized into %llu bytes",
                      mem->is_registered ? "registered" : "not registered",
                      (unsigned long long) size);
        return mem->is_registered ? NA_PLUGIN_OVERFLOW : NA_PLUGIN_INVALID_ARG;
    }
    if ((na_class->mr_mode & FI_MR_VIRT_ADDR) != 0)
        packed.base = (uint64_t) (uintptr_t) mem->base;
    if ((na_class->mr_mode & FI_MR_RAW) != 0) {
        fabric_lock(&na_class->base);
        error = fi_mr_raw_attr(mem->mr, &packed.base, raw_key, &raw_size, 0);
        fabric_unlock(&na_class->base);
        packed.raw_size = (uint16_t) raw_size;
    } else {
        packed.key = mem->key;
    }
    packed.checksum = ofi_mem_checksum(na_class, &packed);
    if (error != 0 || sizeof(packed) + packed.raw_size > size) {
        OFI_LOG_ERROR("provider '%s' gives no key for memory at %p (%s)",
                      na_class->info->fabric_attr->prov_name, mem->base, fi_strerror(-error));
        return NA_PLUGIN_IO_ERROR;
    }
    memcpy(buf, &packed, sizeof(packed));
    memcpy((uint8_t *) buf + sizeof(packed), raw_key, packed.raw_size);
    return NA_PLUGIN_SUCCESS;
}

int32_t ofi_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                            struct na_plugin_mem **mem_p)
{
    bool raw = (na_class->mr_mode & FI_MR_RAW) != 0;
    struct ofi_mem_packed packed;
    struct na_plugin_mem *mem;
    int32_t ret;

    if (size < sizeof(packed))
        goto refuse;
    memcpy(&packed, buf, sizeof(packed));
    if (packed.magic != OFI_MEM_MAGIC || packed.version != OFI_MEM_VERSION ||
        packed.checksum != ofi_mem_checksum(na_class, &packed) || (packed.raw_size != 0) != raw ||
        packed.raw_size > OFI_RAW_KEY_MAX || size != sizeof(packed) + packed.raw_size ||
        packed.length > INT64_MAX || packed.base > UINT64_MAX - packed.length ||
        (packed.access & ~(uint32_t) (NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE)) != 0)
        goto refuse;
    mem = ofi_mem_alloc(na_class);
    if (mem == NULL)
        return NA_PLUGIN_NOMEM;
    mem->is_remote = true;
    mem->length = packed.length;
    mem->access = packed.access;
    mem->remote_base = packed.base;
    mem->key = packed.key;
    mem->secret = packed.secret;
    if (raw) {
        ret = ofi_mem_map_key(na_class, mem, &packed, (const uint8_t *) buf + sizeof(packed));
        if (ret != NA_PLUGIN_SUCCESS) {
            ofi_mem_free(na_class, mem);
            return ret;
        }
    }
    *mem_p = mem;
    return NA_PLUGIN_SUCCESS;

refuse:
    OFI_LOG_ERROR("%llu bytes are not a serialized memory handle of provider '%s'",
                  (unsigned long long) size, na_class->info->fabric_attr->prov_name);
    return NA_PLUGIN_PROTOCOL_ERROR;
}

/* What is registered under that key; NULL when nothing is. The lock is held. */
static struct na_plugin_mem *ofi_mem_find(const struct na_plugin_class *na_class, uint64_t key)
{
    struct na_plugin_mem *mem =
        na_class->exposed != NULL ? na_class->exposed[ofi_mem_bucket(key)] : NULL;

    while (mem != NULL && mem->key != key)
        mem = mem->next;
    return mem;
}

/*
 * What `who` may put to or get from, for a transfer that the target carries out: each bit of the
 * question may be forged. The key may be as short as the provider's are; the secret is not. The
 * lock is held.
 */
int32_t ofi_mem_reach(const struct na_plugin_class *na_class, const char *who, uint64_t key,
                      const struct kit_key *secret, uint64_t offset, uint64_t length, bool is_put,
                      struct na_plugin_mem **mem_p)
{
    uint32_t access = is_put ? NA_PLUGIN_MEM_WRITE : NA_PLUGIN_MEM_READ;
    struct na_plugin_mem *mem = ofi_mem_find(na_class, key);

    if (mem != NULL && !kit_key_is_equal(&mem->secret, secret))
        mem = NULL;
    if (mem == NULL || (mem->access & access) == 0) {
        OFI_LOG_DEBUG("refused a %s by %s: %s", is_put ? "put" : "get", who,
                      mem == NULL ? "no such memory" : "not allowed");
        return NA_PLUGIN_PERMISSION;
    }
    if (offset > mem->length || length > mem->length - offset)
        return NA_PLUGIN_OVERFLOW;
    *mem_p = mem;
    return NA_PLUGIN_SUCCESS;
}

static struct na_plugin_mem *ofi_mem_alloc(struct na_plugin_class *na_class)
{
    struct na_plugin_mem *mem = kit_host->mem_alloc(sizeof(*mem), 0);

    if (mem == NULL)
        return NULL;
    kit_list_init(&mem->carries);
    fabric_lock(&na_class->base);
    kit_list_append(&na_class->mems, &mem->of_class);
    fabric_unlock(&na_class->base);
    return mem;
}

static void ofi_mem_free(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    fabric_lock(&na_class->base);
    kit_list_remove(&mem->of_class);
    fabric_unlock(&na_class->base);
    kit_host->mem_free(mem);
}

/* Peers ask us for it by its key. */
static void ofi_mem_expose(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    struct na_plugin_mem **bucket;

    if (na_class->exposed == NULL)
        return;
    bucket = &na_class->exposed[ofi_mem_bucket(mem->key)];
    mem->next = *bucket;
    mem->link = bucket;
    if (mem->next != NULL)
        mem->next->link = &mem->next;
    *bucket = mem;
}

static void ofi_mem_hide(struct na_plugin_mem *mem)
{
    if (mem->link == NULL)
        return;
    *mem->link = mem->next;
    if (mem->next != NULL)
        mem->next->link = mem->link;
    mem->link = NULL;
}

/* Keys are random. */
static uint32_t ofi_mem_bucket(uint64_t key)
{
    return (uint32_t) (key ^ key >> 32) % OFI_MEM_BUCKETS;
}

/*
 * shm drops a request whose key its target does not know without an answer, so a damaged handle is
 * noticed before it is used, or the transfer would never end. Others answer with an error.
 */
static uint32_t ofi_mem_checksum(const struct na_plugin_class *na_class,
                                 const struct ofi_mem_packed *packed)
{
    struct ofi_mem_packed copy = *packed;

    if (!na_class->protocol.node_local)
        return 0;
    copy.checksum = 0;
    return (uint32_t) kit_digest(&copy, sizeof(copy));
}

/* A key that only we know what to do with. */
static int32_t ofi_mem_own_key(struct na_plugin_class *na_class, uint64_t *key_p)
{
    int32_t ret;

    do
        ret = ofi_random_key(na_class, key_p);
    while (ret == NA_PLUGIN_SUCCESS && ofi_mem_find(na_class, *key_p) != NULL);
    return ret;
}

/* Nobody who was not told a key shall find one. */
int32_t ofi_random_key(struct na_plugin_class *na_class, uint64_t *key_p)
{
    struct kit_key random;
    int32_t ret = kit_key_take(&na_class->keys, &random);

    if (ret != NA_PLUGIN_SUCCESS)
        OFI_LOG_ERROR("no random numbers for the keys of memory");
    else
        *key_p = random.word[1] & na_class->key_mask;
    return ret;
}

static void ofi_memory_describe_type(struct fi_mr_attr *attr, uint32_t mem_type, uint64_t device)
{
    switch (mem_type) {
    case NA_PLUGIN_MEM_TYPE_CUDA:
        attr->iface = FI_HMEM_CUDA;
        attr->device.cuda = (int) device;
        break;
    case NA_PLUGIN_MEM_TYPE_ROCM:
        attr->iface = FI_HMEM_ROCR;
        break;
    case NA_PLUGIN_MEM_TYPE_ZE:
        attr->iface = FI_HMEM_ZE;
        attr->device.ze = (int) device;
        break;
    default:
        attr->iface = FI_HMEM_SYSTEM;
        break;
    }
}

/* Regions of some providers belong to an endpoint, and are of no use until they are bound to it. */
static int32_t ofi_memory_activate(struct na_plugin_class *na_class, struct fid_mr *mr)
{
    int error;

    if ((na_class->mr_mode & FI_MR_ENDPOINT) == 0)
        return NA_PLUGIN_SUCCESS;
    error = fi_mr_bind(mr, &na_class->endpoint->fid, 0);
    if (error == 0)
        error = fi_mr_enable(mr);
    if (error == 0)
        return NA_PLUGIN_SUCCESS;
    OFI_LOG_ERROR("provider '%s' does not bind memory to its endpoint (%s)",
                  na_class->info->fabric_attr->prov_name, fi_strerror(-error));
    (void) fi_close(&mr->fid);
    return ofi_status(-error);
}

static uint64_t ofi_mem_raw_size(const struct na_plugin_class *na_class,
                                 const struct na_plugin_mem *mem)
{
    uint64_t base;
    size_t size = 0;

    if ((na_class->mr_mode & FI_MR_RAW) == 0 || mem->mr == NULL)
        return 0;
    /* Fails, because nothing fits into nothing, and says what would. */
    (void) fi_mr_raw_attr(mem->mr, &base, NULL, &size, 0);
    return size <= OFI_RAW_KEY_MAX ? size : OFI_RAW_KEY_MAX;
}

static int32_t ofi_mem_map_key(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                               const struct ofi_mem_packed *packed, const uint8_t *raw_key)
{
    uint8_t copy[OFI_RAW_KEY_MAX];
    int error;

    memcpy(copy, raw_key, packed->raw_size);
    fabric_lock(&na_class->base);
    error = fi_mr_map_raw(na_class->domain, packed->base, copy, packed->raw_size, &mem->key, 0);
    fabric_unlock(&na_class->base);
    if (error != 0) {
        OFI_LOG_ERROR("provider '%s' does not take a key of %u bytes that came from a peer (%s)",
                      na_class->info->fabric_attr->prov_name, packed->raw_size,
                      fi_strerror(-error));
        return ofi_status(-error);
    }
    mem->key_mapped = true;
    return NA_PLUGIN_SUCCESS;
}
