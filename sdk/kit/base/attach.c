/* SPDX-License-Identifier: BSD-3-Clause */
/* Cross-memory attach: the system copies between the memory of two processes. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* process_vm_readv */
#endif

#include "kit_base.h"

#include <errno.h>

static int32_t attach_status(ssize_t moved, uint64_t *moved_p);

int32_t kit_attach_read(uint32_t pid, const struct iovec *local, uint32_t local_count,
                        const struct iovec *remote, uint32_t remote_count, uint64_t *moved_p)
{
    return attach_status(process_vm_readv((pid_t) pid, local, local_count, remote, remote_count, 0),
                         moved_p);
}

int32_t kit_attach_write(uint32_t pid, const struct iovec *local, uint32_t local_count,
                         const struct iovec *remote, uint32_t remote_count, uint64_t *moved_p)
{
    return attach_status(
        process_vm_writev((pid_t) pid, local, local_count, remote, remote_count, 0), moved_p);
}

/* The system reports an unmapped address (EFAULT) only if it permits access to the process. */
bool kit_attach_is_allowed(uint32_t pid, uint64_t address)
{
    uint8_t byte;
    const struct iovec local = {&byte, sizeof(byte)}, remote = kit_iovec(address, sizeof(byte));
    uint64_t moved;
    int32_t ret = kit_attach_read(pid, &local, 1, &remote, 1, &moved);

    return ret == NA_PLUGIN_SUCCESS || ret == NA_PLUGIN_FAULT;
}

static int32_t attach_status(ssize_t moved, uint64_t *moved_p)
{
    *moved_p = moved > 0 ? (uint64_t) moved : 0;
    if (moved >= 0)
        return moved > 0 ? NA_PLUGIN_SUCCESS : NA_PLUGIN_FAULT;
    switch (errno) {
    case EPERM:
    case ENOSYS:
        return NA_PLUGIN_OPNOTSUPPORTED;
    case ESRCH:
        return NA_PLUGIN_HOSTUNREACH;
    case ENOMEM:
        return NA_PLUGIN_NOMEM;
    default:
        return NA_PLUGIN_FAULT;
    }
}
