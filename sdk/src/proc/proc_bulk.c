/* SPDX-License-Identifier: BSD-3-Clause */
/* Processing of bulk descriptors: a 32-bit length, 0 for HG_BULK_NULL, and the serialized bytes. */
#include "mercury_proc_bulk.h"

#include "bulk/bulk_grant.h"
#include "engine/log.h"
#include "mercury_bulk.h"
#include "proc/proc_internal.h"

#include <inttypes.h>

/* Larger data are pulled faster than they are copied into and out of the message. */
#define HG_PROC_BULK_EAGER_MAX 4096u

static hg_return_t hg_proc_bulk_encode(struct hg_proc *proc, hg_bulk_t bulk);
static unsigned long hg_proc_bulk_flags(struct hg_proc *proc, hg_bulk_t bulk);
static hg_return_t hg_proc_bulk_decode(struct hg_proc *proc, hg_bulk_t *bulk_p);

hg_return_t hg_proc_hg_bulk_t(hg_proc_t proc, void *data)
{
    hg_bulk_t *bulk_p = data;
    hg_return_t ret;

    switch (hg_proc_get_op(proc)) {
    case HG_ENCODE:
        return hg_proc_bulk_encode(proc, *bulk_p);
    case HG_DECODE:
        *bulk_p = HG_BULK_NULL;
        return hg_proc_bulk_decode(proc, bulk_p);
    default:
        ret = HG_Bulk_free(*bulk_p);
        *bulk_p = HG_BULK_NULL;
        return ret;
    }
}

static hg_return_t hg_proc_bulk_encode(struct hg_proc *proc, hg_bulk_t bulk)
{
    unsigned long flags = hg_proc_bulk_flags(proc, bulk);
    hg_size_t size = HG_Bulk_get_serialize_size(bulk, flags);
    uint32_t wire = (uint32_t) size;
    hg_return_t ret;
    void *bytes;

    if (size > UINT32_MAX) {
        HG_LOG_ERROR("bulk descriptor of %" PRIu64 " bytes does not fit an argument; use fewer "
                     "segments",
                     size);
        return HG_OVERFLOW;
    }
    ret = hg_proc_uint32_t(proc, &wire);
    if (ret != HG_SUCCESS || size == 0)
        return ret;
    bytes = hg_proc_save_ptr(proc, size);
    if (bytes == NULL)
        return HG_NOMEM;
    if ((flags & HG_BULK_EAGER) == 0) {
        proc->has_bulk = true;
        if (proc->peer_p != NULL)
            ret = hg_bulk_grant(bulk, *proc->peer_p);
    }
    if (ret == HG_SUCCESS)
        ret = HG_Bulk_serialize(bytes, size, flags, bulk);
    if (ret != HG_SUCCESS)
        return ret;
    return hg_proc_restore_ptr(proc, bytes, size);
}

/* Embed the data in the message if they leave half of its free space to other arguments. */
static unsigned long hg_proc_bulk_flags(struct hg_proc *proc, hg_bulk_t bulk)
{
    unsigned long flags = (proc->flags & HG_PROC_SM) != 0 ? HG_BULK_SM : 0;

    if ((proc->flags & HG_PROC_BULK_EAGER) != 0 && HG_Bulk_get_flags(bulk) == HG_BULK_READ_ONLY &&
        HG_Bulk_get_size(bulk) <= HG_PROC_BULK_EAGER_MAX &&
        HG_Bulk_get_serialize_size(bulk, flags | HG_BULK_EAGER) <= hg_proc_get_size_left(proc) / 2)
        flags |= HG_BULK_EAGER;
    return flags;
}

static hg_return_t hg_proc_bulk_decode(struct hg_proc *proc, hg_bulk_t *bulk_p)
{
    uint32_t wire = 0;
    hg_return_t ret = hg_proc_uint32_t(proc, &wire);
    void *bytes;

    if (ret != HG_SUCCESS || wire == 0)
        return ret;
    bytes = hg_proc_save_ptr(proc, wire);
    if (bytes == NULL)
        return HG_OVERFLOW;
    return HG_Bulk_deserialize(proc->hg_class, bulk_p, bytes, wire);
}
