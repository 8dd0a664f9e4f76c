/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory registration in each mode that a profile requires. */

#include "strict.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define STRICT_LOCAL  (FI_SEND | FI_RECV | FI_READ | FI_WRITE)
#define STRICT_REMOTE (FI_REMOTE_READ | FI_REMOTE_WRITE)

static int strict_mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                             struct fid_mr **mr_p);
static int strict_mr_check(struct strict_domain *domain, const struct fi_mr_attr *attr);
static bool strict_is_written(const struct strict_profile *profile, uint64_t access);
static bool strict_is_mapped(const uint8_t *base, size_t size, bool is_written);
static bool strict_system_tells(void);
static struct strict_mr *strict_mr_of_key(struct strict_domain *domain, uint64_t key);
static int strict_mr_bind(struct fid *fid, struct fid *ep, uint64_t flags);
static int strict_mr_control(struct fid *fid, int command, void *argument);
static void strict_mr_enable(struct strict_mr *mr, uint64_t key);
static int strict_mr_close(struct fid *fid);
static struct strict_mr *strict_mr_described(struct strict_domain *domain, void *descriptor);

static struct fi_ops strict_mr_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = strict_mr_close,
    .bind = strict_mr_bind,
    .control = strict_mr_control,
};

struct fi_ops_mr strict_mr_ops = {
    .size = sizeof(struct fi_ops_mr),
    .regattr = strict_mr_regattr,
};

/* FI_MR_LOCAL: the buffer has to be in a registration that is open, bound, and allows this
 * access. */
void strict_local_check(struct strict_ep *ep, const void *buffer, size_t size, void *descriptor,
                        uint64_t access, const char *function)
{
    struct strict_domain *domain = ep->domain;
    const struct strict_mr *mr = strict_mr_described(domain, descriptor);
    size_t offset;

    if ((domain->profile->mr_mode & FI_MR_LOCAL) == 0 || size == 0)
        return;
    if (mr == NULL)
        strict_die("%s: %zu bytes at %p have the descriptor %p, which is of no registration",
                   function, size, buffer, descriptor);
    offset = (uintptr_t) buffer - (uintptr_t) mr->base;
    if (offset > mr->size || size > mr->size - offset)
        strict_die("%s: %zu bytes at %p lie outside of their registration of %zu bytes at %p",
                   function, size, buffer, mr->size, (void *) mr->base);
    if ((mr->access & access) == 0 && (access != FI_WRITE || !domain->profile->is_source_pinned))
        strict_die("%s: the registration of %p is for other purposes (%#llx, not %#llx)", function,
                   buffer, (unsigned long long) mr->access, (unsigned long long) access);
    if (!mr->is_enabled || (mr->ep != NULL && mr->ep != ep))
        strict_die("%s: the registration of %p was not enabled for this endpoint", function,
                   buffer);
}

/* Whether the registration of a receive's buffer is still open, so that the data may be stored. */
bool strict_local_is_open(struct strict_ep *ep, void *descriptor)
{
    return (ep->domain->profile->mr_mode & FI_MR_LOCAL) == 0 ||
           strict_mr_described(ep->domain, descriptor) != NULL;
}

/* Finds memory that a peer may read or write. Returns 0, or the error for the peer. */
int strict_remote_find(struct strict_ep *ep, uint64_t key, uint64_t address, size_t size,
                       uint64_t access, uint8_t **memory_p)
{
    const struct strict_mr *mr = strict_mr_of_key(ep->domain, key);
    const int mode = ep->domain->profile->mr_mode;
    uint64_t offset;

    if (mr == NULL || !mr->is_enabled || (mr->ep != NULL && mr->ep != ep) ||
        (mr->access & access) == 0)
        return ep->domain->profile->refused;
    offset = (mode & FI_MR_VIRT_ADDR) != 0 ? address - (uint64_t) (uintptr_t) mr->base : address;
    if (offset > mr->size || size > mr->size - offset)
        return ep->domain->profile->refused;
    *memory_p = mr->base + offset;
    return 0;
}

static int strict_mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                             struct fid_mr **mr_p)
{
    struct strict_domain *domain = (struct strict_domain *) (void *) fid;
    const struct strict_profile *profile = domain->profile;
    struct strict_mr *mr = NULL;
    size_t place = 0;
    int ret;

    (void) flags;
    strict_enter(domain, "fi_mr_regattr");
    ret = strict_mr_check(domain, attr);
    while (ret == 0 && place < profile->regions && domain->regions[place].is_open)
        place++;
    if (ret == 0 && place == profile->regions)
        ret = -profile->full;
    if (ret == 0) {
        mr = &domain->regions[place];
        *mr = (struct strict_mr){
            .fid.fid = {FI_CLASS_MR, attr->context, &strict_mr_fid_ops},
            .domain = domain,
            .base = attr->mr_iov->iov_base,
            .size = attr->mr_iov->iov_len,
            .access = attr->access,
            .generation = mr->generation + 1,
            .is_open = true,
        };
        mr->fid.mem_desc = (void *) (uintptr_t) ((uint64_t) mr->generation << 20 | (place + 1));
        mr->fid.key = FI_KEY_NOTAVAIL;
        if ((profile->mr_mode & FI_MR_ENDPOINT) == 0 || (attr->access & STRICT_REMOTE) == 0)
            strict_mr_enable(mr, attr->requested_key);
        else
            mr->fid.fid.context = (void *) (uintptr_t) attr->requested_key;
        if ((profile->mr_mode & FI_MR_ENDPOINT) != 0)
            mr->is_enabled = false;
        *mr_p = &mr->fid;
    }
    strict_leave(domain);
    return ret;
}

static int strict_mr_check(struct strict_domain *domain, const struct fi_mr_attr *attr)
{
    const struct strict_profile *profile = domain->profile;
    const struct iovec *vector = attr->mr_iov;

    if (attr->iov_count != 1 || attr->iface != FI_HMEM_SYSTEM ||
        (attr->access & ~(STRICT_LOCAL | STRICT_REMOTE)) != 0)
        return -FI_EINVAL;
    if ((profile->mr_mode & FI_MR_PROV_KEY) == 0 &&
        strict_mr_of_key(domain, attr->requested_key) != NULL)
        return -FI_ENOKEY;
    if ((profile->mr_mode & FI_MR_ALLOCATED) != 0 &&
        !strict_is_mapped(vector->iov_base, vector->iov_len,
                          strict_is_written(profile, attr->access)))
        return -FI_EFAULT;
    return 0;
}

/* Like verbs, profiles with `is_source_pinned` also pin the sources of writes for writing. */
static bool strict_is_written(const struct strict_profile *profile, uint64_t access)
{
    const uint64_t written = FI_RECV | FI_READ | FI_REMOTE_WRITE;

    return (access & (profile->is_source_pinned ? written | FI_WRITE : written)) != 0;
}

/* Pins the memory like a device, for writing where needed. Linux reports failures from 5.14 on. */
static bool strict_is_mapped(const uint8_t *base, size_t size, bool is_written)
{
    const uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);
    const uintptr_t start = (uintptr_t) base & ~(page - 1);
    const uintptr_t end = ((uintptr_t) base + size + page - 1) & ~(page - 1);

    return size == 0 ||
           madvise((void *) start, end - start,
                   is_written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0 ||
           (errno == EINVAL && !strict_system_tells());
}

/* Before Linux 5.14, madvise() has the same error for all memory as later for read-only memory. */
static bool strict_system_tells(void)
{
    static _Alignas(65536) uint8_t memory[65536];

    return madvise(memory, sizeof(memory), MADV_POPULATE_WRITE) == 0;
}

static struct strict_mr *strict_mr_of_key(struct strict_domain *domain, uint64_t key)
{
    for (size_t i = 0; i < domain->profile->regions; i++)
        if (domain->regions[i].is_open && domain->regions[i].fid.key == key)
            return &domain->regions[i];
    return NULL;
}

static int strict_mr_bind(struct fid *fid, struct fid *ep, uint64_t flags)
{
    struct strict_mr *mr = (struct strict_mr *) (void *) fid;

    (void) flags;
    if ((mr->domain->profile->mr_mode & FI_MR_ENDPOINT) == 0 || ep->fclass != FI_CLASS_EP ||
        mr->ep != NULL)
        return -FI_EINVAL;
    strict_enter(mr->domain, "fi_mr_bind");
    mr->ep = (struct strict_ep *) (void *) ep;
    mr->ep->regions++;
    strict_leave(mr->domain);
    return 0;
}

static int strict_mr_control(struct fid *fid, int command, void *argument)
{
    struct strict_mr *mr = (struct strict_mr *) (void *) fid;
    int ret = 0;

    (void) argument;
    strict_enter(mr->domain, "fi_mr_enable");
    if (command != FI_ENABLE || mr->ep == NULL || !mr->ep->is_enabled || mr->is_enabled)
        ret = -FI_EINVAL;
    else
        strict_mr_enable(mr, (uint64_t) (uintptr_t) mr->fid.fid.context);
    strict_leave(mr->domain);
    return ret;
}

/* Assigns the key of the user, or with FI_MR_PROV_KEY one of the provider, whatever the user asked
 * for. */
static void strict_mr_enable(struct strict_mr *mr, uint64_t key)
{
    const uint64_t descriptor = (uint64_t) (uintptr_t) mr->fid.mem_desc;

    mr->fid.key = (mr->domain->profile->mr_mode & FI_MR_PROV_KEY) != 0
                      ? descriptor * UINT64_C(0x9e3779b97f4a7c15)
                      : key;
    mr->is_enabled = true;
}

static int strict_mr_close(struct fid *fid)
{
    struct strict_mr *mr = (struct strict_mr *) (void *) fid;
    struct strict_domain *domain = mr->domain;

    strict_enter(domain, "fi_close(mr)");
    if (!mr->is_open)
        strict_die("fi_close: the registration is closed already");
    if (mr->ep != NULL)
        mr->ep->regions--;
    mr->is_open = false;
    mr->is_enabled = false;
    strict_leave(domain);
    return 0;
}

/* Returns NULL when the descriptor is invalid, or its registration was closed. */
static struct strict_mr *strict_mr_described(struct strict_domain *domain, void *descriptor)
{
    const uint64_t value = (uint64_t) (uintptr_t) descriptor;
    const uint64_t place = (value & 0xfffff) - 1;

    if (value == 0 || place >= domain->profile->regions || !domain->regions[place].is_open ||
        domain->regions[place].generation != value >> 20)
        return NULL;
    return &domain->regions[place];
}
