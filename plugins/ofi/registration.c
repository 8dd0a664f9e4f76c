/* SPDX-License-Identifier: BSD-3-Clause */
/* Registering memory with libfabric, in each of its modes. */

#include "ofi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* Random keys that are tried, because one may be in use. */
#define OFI_KEY_ATTEMPTS 16

static const char *ofi_memory_error_text(int error);
static int ofi_memory_try_read_only(struct na_plugin_class *na_class, struct fi_mr_attr *attr,
                                    struct fid_mr **mr_p);
static int ofi_memory_try(struct na_plugin_class *na_class, struct fi_mr_attr *attr,
                          struct fid_mr **mr_p);
static void ofi_memory_describe_type(struct fi_mr_attr *attr, uint32_t mem_type, uint64_t device);
static int32_t ofi_memory_activate(struct na_plugin_class *na_class, struct fid_mr *mr);

/* The lock is held, or the class is not open yet. */
int32_t ofi_memory_register(struct na_plugin_class *na_class, const void *base, uint64_t length,
                            uint64_t access, uint32_t mem_type, uint64_t device,
                            struct fid_mr **mr_p)
{
    struct iovec vector = {(void *) (uintptr_t) base, length};
    struct fi_mr_attr attr = {.mr_iov = &vector, .iov_count = 1, .access = access};
    int error;

    ofi_memory_describe_type(&attr, mem_type, device);
    error = ofi_memory_try(na_class, &attr, mr_p);
    if (error != 0 && (access & (FI_REMOTE_READ | FI_REMOTE_WRITE)) == FI_REMOTE_READ)
        error = ofi_memory_try_read_only(na_class, &attr, mr_p);
    if (error != 0) {
        OFI_LOG_ERROR("provider '%s' does not register %llu bytes at %p (%s)",
                      na_class->info->fabric_attr->prov_name, (unsigned long long) length, base,
                      ofi_memory_error_text(-error));
        *mr_p = NULL;
        return ofi_status(-error);
    }
    return ofi_memory_activate(na_class, *mr_p);
}

/* Registered memory is locked, which has a limit. */
static const char *ofi_memory_error_text(int error)
{
    switch (error) {
    case FI_EFAULT:
        return "not mapped, or mapped read-only and shared";
    case FI_ENOMEM:
        return "no memory can be locked; is the limit of it (ulimit -l) too low?";
    default:
        return fi_strerror(error);
    }
}

/*
 * FI_READ requires memory that the device can write to. Read-only memory can still be the source of
 * puts, for which FI_WRITE is asked; verbs cannot register it with that either, and needs no right
 * for puts.
 */
static int ofi_memory_try_read_only(struct na_plugin_class *na_class, struct fi_mr_attr *attr,
                                    struct fid_mr **mr_p)
{
    int error;

    attr->access = FI_REMOTE_READ | FI_WRITE;
    error = ofi_memory_try(na_class, attr, mr_p);
    if (error == 0)
        return 0;
    attr->access = FI_REMOTE_READ;
    return ofi_memory_try(na_class, attr, mr_p);
}

/*
 * Warns if the registration cache is on although plugin.c has turned it off: libfabric reads its
 * environment once, perhaps before this plugin was loaded. The cache registers with all access
 * rights, which fails for a read-only page.
 */
void ofi_memory_check_cache(struct na_plugin_class *na_class)
{
    const char *setting = getenv("FI_MR_CACHE_MAX_COUNT");
    const size_t size = (size_t) sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct iovec vector = {page, size};
    struct fi_mr_attr attr = {.mr_iov = &vector, .iov_count = 1, .access = FI_REMOTE_READ};
    struct fid_mr *mr;
    int error;

    if (page == MAP_FAILED)
        return;
    error = ofi_memory_try(na_class, &attr, &mr);
    if (error == 0)
        (void) fi_close(&mr->fid);
    else if (error != -FI_ENOMEM && setting != NULL && strcmp(setting, "0") == 0)
        OFI_LOG_WARNING("libfabric caches registrations (a read-only page: %s), so peers reach "
                        "memory that was deregistered: it was used in this process before this "
                        "plugin; set FI_MR_CACHE_MAX_COUNT=0 and FI_AV_REMOVE_CLEANUP=1 in the "
                        "environment of the process",
                        fi_strerror(-error));
    (void) munmap(page, size);
}

/* Returns 0 or a negative error of libfabric. */
static int ofi_memory_try(struct na_plugin_class *na_class, struct fi_mr_attr *attr,
                          struct fid_mr **mr_p)
{
    int error = -FI_ENOKEY;

    for (int i = 0; i < OFI_KEY_ATTEMPTS && error == -FI_ENOKEY; i++) {
        if ((na_class->mr_mode & FI_MR_PROV_KEY) == 0 &&
            ofi_random_key(na_class, &attr->requested_key) != NA_PLUGIN_SUCCESS)
            return -FI_EIO;
        error = fi_mr_regattr(na_class->domain, attr, 0, mr_p);
    }
    return error;
}

/* Peers cannot guess a random key. */
int32_t ofi_random_key(struct na_plugin_class *na_class, uint64_t *key_p)
{
    struct kit_key random;
    int32_t ret = kit_key_take(&na_class->regions.keys, &random);

    if (ret != NA_PLUGIN_SUCCESS)
        OFI_LOG_ERROR("no random numbers for the keys of memory (%s)", strerror(errno));
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

/* With FI_MR_ENDPOINT memory can be used only after it was bound to the endpoint. */
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
