/* SPDX-License-Identifier: BSD-3-Clause */
/* Accessors of a processor, and its checksum. */
#include "proc/proc_internal.h"

#include "bulk/block.h"
#include "engine/checksum.h"
#include "engine/log.h"

#include <inttypes.h>

static hg_return_t hg_proc_checksum_check(const struct hg_proc *proc, const void *hash,
                                          hg_size_t hash_size, size_t *width_p);

hg_class_t *hg_proc_get_class(hg_proc_t proc)
{
    return proc->hg_class;
}

void hg_proc_set_handle(hg_proc_t proc, hg_handle_t handle)
{
    proc->handle = handle;
}

hg_handle_t hg_proc_get_handle(hg_proc_t proc)
{
    return proc->handle;
}

void hg_proc_set_flags(hg_proc_t proc, uint8_t flags)
{
    proc->flags = flags;
}

uint8_t hg_proc_get_flags(hg_proc_t proc)
{
    return proc->flags;
}

hg_size_t hg_proc_get_size(hg_proc_t proc)
{
    return proc->buf_size + proc->extra_size;
}

hg_size_t hg_proc_get_size_used(hg_proc_t proc)
{
    return (hg_size_t) (proc->cursor.next - proc->base);
}

hg_size_t hg_proc_get_size_left(hg_proc_t proc)
{
    return (hg_size_t) (proc->end - proc->cursor.next);
}

void *hg_proc_get_extra_buf(hg_proc_t proc)
{
    return proc->extra_buf;
}

hg_size_t hg_proc_get_extra_size(hg_proc_t proc)
{
    return proc->extra_size;
}

hg_return_t hg_proc_set_extra_buf_is_mine(hg_proc_t proc, uint8_t mine)
{
    if (proc->extra_buf == NULL)
        return HG_INVALID_ARG;
    if (mine == 0 && proc->extra_block != NULL && proc->extra_block->hg_class != NULL) {
        HG_LOG_ERROR("the extra buffer %p of an RPC cannot be taken: make a processor by "
                     "hg_proc_create(), or copy the buffer",
                     proc->extra_buf);
        return HG_OPNOTSUPPORTED;
    }
    proc->is_extra_mine = mine != 0;
    if (mine == 0 && proc->extra_block != NULL) {
        (void) hg_block_take(proc->extra_block);
        proc->extra_block = NULL;
    }
    return HG_SUCCESS;
}

struct hg_block *hg_proc_take_extra_block(struct hg_proc *proc)
{
    struct hg_block *block = proc->extra_block;

    proc->extra_block = NULL;
    proc->is_extra_mine = false;
    return block;
}

enum hg_proc_encoding hg_proc_get_encoding(hg_proc_t proc)
{
    return proc->is_portable ? HG_PROC_ENCODING_PORTABLE : HG_PROC_ENCODING_RAW;
}

hg_return_t hg_proc_class_set_encoding(hg_class_t *hg_class, enum hg_proc_encoding encoding)
{
    if (hg_class == NULL ||
        (encoding != HG_PROC_ENCODING_RAW && encoding != HG_PROC_ENCODING_PORTABLE)) {
        HG_LOG_ERROR("cannot set the encoding of class %p to %d; pass a class and one of the "
                     "encodings",
                     (void *) hg_class, (int) encoding);
        return HG_INVALID_ARG;
    }
    atomic_store_explicit(&hg_class->proc->encoding, (uint32_t) encoding, memory_order_relaxed);
    return HG_SUCCESS;
}

enum hg_proc_encoding hg_proc_class_get_encoding(const hg_class_t *hg_class)
{
    return (enum hg_proc_encoding) atomic_load_explicit(&hg_class->proc->encoding,
                                                        memory_order_relaxed);
}

hg_return_t hg_proc_flush(hg_proc_t proc)
{
    if (proc == NULL)
        return HG_INVALID_ARG;
    if (proc->hash != HG_NOHASH && !proc->is_flushed && proc->cursor.op != (uint32_t) HG_FREE)
        proc->checksum =
            hg_checksum(proc->base, (size_t) (proc->cursor.next - proc->base), proc->checksum);
    proc->is_flushed = true;
    return HG_SUCCESS;
}

void hg_proc_checksum_update(hg_proc_t proc, void *data, hg_size_t data_size)
{
    if (proc->hash != HG_NOHASH && !proc->is_flushed && proc->cursor.op != (uint32_t) HG_FREE)
        proc->checksum = hg_checksum(data, (size_t) data_size, proc->checksum);
}

hg_return_t hg_proc_checksum_get(hg_proc_t proc, void *hash, hg_size_t hash_size)
{
    uint8_t *bytes = hash;
    size_t width;
    hg_return_t ret = hg_proc_checksum_check(proc, hash, hash_size, &width);

    if (ret != HG_SUCCESS)
        return ret;
    for (size_t i = 0; i < width; i++)
        bytes[i] = (uint8_t) (proc->checksum >> (8 * i));
    return HG_SUCCESS;
}

hg_return_t hg_proc_checksum_verify(hg_proc_t proc, const void *hash, hg_size_t hash_size)
{
    const uint8_t *bytes = hash;
    size_t width;
    hg_return_t ret = hg_proc_checksum_check(proc, hash, hash_size, &width);

    if (ret != HG_SUCCESS)
        return ret;
    for (size_t i = 0; i < width; i++) {
        if (bytes[i] != (uint8_t) (proc->checksum >> (8 * i))) {
            HG_LOG_ERROR("checksum of %" PRIu64 " bytes does not match: the message was damaged",
                         hg_proc_get_size_used(proc));
            return HG_CHECKSUM_ERROR;
        }
    }
    return HG_SUCCESS;
}

static hg_return_t hg_proc_checksum_check(const struct hg_proc *proc, const void *hash,
                                          hg_size_t hash_size, size_t *width_p)
{
    static const size_t widths[] = {[HG_CRC16] = 2, [HG_CRC32] = 4, [HG_CRC64] = 8};

    if (proc == NULL || hash == NULL || proc->hash >= HG_NOHASH || !proc->is_flushed) {
        HG_LOG_ERROR("no checksum to be had; make the processor with one and call hg_proc_flush()");
        return HG_INVALID_ARG;
    }
    *width_p = widths[proc->hash];
    if (hash_size < *width_p) {
        HG_LOG_ERROR("%" PRIu64 " bytes for a checksum of %zu; pass more", hash_size, *width_p);
        return HG_OVERFLOW;
    }
    return HG_SUCCESS;
}
