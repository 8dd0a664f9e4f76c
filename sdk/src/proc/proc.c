/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processors: creation, buffers, and the two item types that all others consist of, integers and
 * bytes, in the raw and in the portable encoding.
 */
#include "proc/proc_internal.h"

#include "bulk/block.h"
#include "engine/log.h"

#include <inttypes.h>
#include <stdlib.h>

/* Larger than any message; keeps sums of sizes from overflowing. */
#define HG_PROC_SIZE_LIMIT ((hg_size_t) 1 << 46)

static bool hg_proc_op_is_valid(hg_proc_op_t op);
static void hg_proc_cursor_set(struct hg_proc *proc, char *next);
static hg_return_t hg_proc_grow(struct hg_proc *proc, hg_size_t wanted);
static hg_return_t hg_proc_integer_raw(struct hg_proc *proc, void *data, uint32_t size);
static hg_return_t hg_proc_integer_portable(struct hg_proc *proc, void *data, uint32_t size,
                                            bool is_signed);
static uint64_t hg_proc_integer_load(const void *data, uint32_t size, bool is_signed);
static hg_return_t hg_proc_integer_store(void *data, uint32_t size, bool is_signed, uint32_t unit);

hg_return_t hg_proc_create(hg_class_t *hg_class, hg_proc_hash_t hash, hg_proc_t *proc_p)
{
    struct hg_proc *proc;

    if (hg_class == NULL || proc_p == NULL || (unsigned int) hash > HG_NOHASH) {
        HG_LOG_ERROR("cannot make a processor: class %p, hash %d, result %p; pass a class and one "
                     "of the hash values",
                     (void *) hg_class, (int) hash, (void *) proc_p);
        return HG_INVALID_ARG;
    }
    proc = malloc(sizeof(*proc));
    if (proc == NULL) {
        HG_LOG_ERROR("cannot make a processor: out of memory");
        return HG_NOMEM;
    }
    /* A program that encodes without a class may pass any pointer instead. */
    hg_proc_init(proc, hg_class, hash,
                 hg_class_is_open(hg_class) ? hg_proc_class_get_encoding(hg_class)
                                            : HG_PROC_ENCODING_RAW);
    *proc_p = proc;
    return HG_SUCCESS;
}

hg_return_t hg_proc_create_set(hg_class_t *hg_class, void *buf, hg_size_t buf_size, hg_proc_op_t op,
                               hg_proc_hash_t hash, hg_proc_t *proc_p)
{
    hg_proc_t proc;
    hg_return_t ret;

    if (proc_p == NULL)
        return hg_proc_create(hg_class, hash, proc_p);
    ret = hg_proc_create(hg_class, hash, &proc);
    if (ret != HG_SUCCESS)
        return ret;
    ret = hg_proc_reset(proc, buf, buf_size, op);
    if (ret != HG_SUCCESS) {
        (void) hg_proc_free(proc);
        return ret;
    }
    *proc_p = proc;
    return HG_SUCCESS;
}

hg_return_t hg_proc_free(hg_proc_t proc)
{
    if (proc == NULL)
        return HG_SUCCESS;
    hg_proc_fini(proc);
    free(proc);
    return HG_SUCCESS;
}

void hg_proc_init(struct hg_proc *proc, hg_class_t *hg_class, hg_proc_hash_t hash,
                  enum hg_proc_encoding encoding)
{
    memset(proc, 0, sizeof(*proc));
    proc->hg_class = hg_class;
    proc->hash = hash;
    proc->is_portable = encoding == HG_PROC_ENCODING_PORTABLE;
    proc->cursor.op = HG_FREE;
}

void hg_proc_fini(struct hg_proc *proc)
{
    if (proc->extra_block != NULL)
        hg_block_put(proc->extra_block);
    else if (proc->is_extra_mine)
        free(proc->extra_buf);
    proc->extra_block = NULL;
    proc->extra_buf = NULL;
    proc->extra_size = 0;
    proc->is_extra_mine = false;
}

hg_return_t hg_proc_reset(hg_proc_t proc, void *buf, hg_size_t buf_size, hg_proc_op_t op)
{
    if (proc == NULL || (buf == NULL && buf_size > 0) || !hg_proc_op_is_valid(op) ||
        buf_size > HG_PROC_SIZE_LIMIT) {
        HG_LOG_ERROR("cannot reset a processor: processor %p, buffer %p of %" PRIu64
                     " bytes, operation %d; pass a buffer and one of the operations",
                     (void *) proc, buf, buf_size, (int) op);
        return HG_INVALID_ARG;
    }
    hg_proc_fini(proc);
    proc->base = buf;
    proc->end = buf_size > 0 ? proc->base + buf_size : proc->base;
    proc->buf_size = buf_size;
    proc->checksum = 0;
    proc->is_flushed = false;
    proc->flags = 0;
    proc->cursor.op = (uint32_t) op;
    hg_proc_cursor_set(proc, proc->base);
    return HG_SUCCESS;
}

hg_return_t hg_proc_set_size(hg_proc_t proc, hg_size_t buf_size)
{
    if (proc == NULL)
        return HG_INVALID_ARG;
    if (buf_size <= (hg_size_t) (proc->end - proc->base))
        return HG_SUCCESS;
    if (proc->cursor.op != (uint32_t) HG_ENCODE) {
        HG_LOG_ERROR("cannot decode beyond the %" PRIu64 " bytes of the message, %" PRIu64
                     " wanted; check that both sides use the same structure",
                     (uint64_t) (proc->end - proc->base), buf_size);
        return HG_OVERFLOW;
    }
    return hg_proc_grow(proc, buf_size);
}

void *hg_proc_save_ptr(hg_proc_t proc, hg_size_t data_size)
{
    char *data;
    hg_size_t size = hg_proc_padded(proc, data_size);

    if (proc->cursor.op == (uint32_t) HG_FREE || hg_proc_take(proc, size, &data) != HG_SUCCESS)
        return NULL;
    if (proc->cursor.op == (uint32_t) HG_ENCODE && size > data_size)
        memset(data + data_size, 0, (size_t) (size - data_size));
    return data;
}

hg_return_t hg_proc_restore_ptr(hg_proc_t proc, void *data, hg_size_t data_size)
{
    uintptr_t base = (uintptr_t) proc->base;
    uintptr_t at = (uintptr_t) data;
    hg_size_t used = (hg_size_t) (proc->cursor.next - proc->base);

    if (data == NULL || at < base || at - base > used || data_size > used - (at - base)) {
        HG_LOG_ERROR("%p with %" PRIu64 " bytes was not taken from the buffer in use; pass what "
                     "hg_proc_save_ptr() returned",
                     data, data_size);
        return HG_INVALID_ARG;
    }
    return HG_SUCCESS;
}

hg_return_t hg_proc_integer(hg_proc_t proc, void *data, uint32_t size, uint32_t is_signed)
{
    if (proc->cursor.op == (uint32_t) HG_FREE)
        return HG_SUCCESS;
    if (size == 0 || size > 8 || (size & (size - 1)) != 0) {
        HG_LOG_ERROR("%" PRIu32 " is not the size of an integer; use 1, 2, 4 or 8", size);
        return HG_INVALID_ARG;
    }
    if (proc->is_portable)
        return hg_proc_integer_portable(proc, data, size, is_signed != 0);
    return hg_proc_integer_raw(proc, data, size);
}

hg_return_t hg_proc_bytes(hg_proc_t proc, void *data, hg_size_t data_size)
{
    hg_size_t size = hg_proc_padded(proc, data_size);
    hg_return_t ret;
    char *bytes;

    if (proc->cursor.op == (uint32_t) HG_FREE || data_size == 0)
        return HG_SUCCESS;
    if (data == NULL) {
        HG_LOG_ERROR("NULL given for %" PRIu64 " bytes; pass a buffer", data_size);
        return HG_INVALID_ARG;
    }
    ret = hg_proc_take(proc, size, &bytes);
    if (ret != HG_SUCCESS)
        return ret;
    if (proc->cursor.op == (uint32_t) HG_DECODE) {
        memcpy(data, bytes, (size_t) data_size);
        return hg_proc_padding_check(bytes + data_size, size - data_size);
    }
    memcpy(bytes, data, (size_t) data_size);
    memset(bytes + data_size, 0, (size_t) (size - data_size));
    return HG_SUCCESS;
}

hg_return_t hg_proc_take(struct hg_proc *proc, hg_size_t size, char **data_p)
{
    hg_size_t used = (hg_size_t) (proc->cursor.next - proc->base);
    hg_return_t ret;

    if (size > (hg_size_t) (proc->end - proc->cursor.next)) {
        /* A huge size must not wrap around to a small one. */
        ret = hg_proc_set_size(proc, size > HG_PROC_SIZE_LIMIT ? HG_SIZE_MAX : used + size);
        if (ret != HG_SUCCESS)
            return ret;
    }
    *data_p = proc->cursor.next;
    if (size > 0)
        hg_proc_cursor_set(proc, proc->cursor.next + size);
    return HG_SUCCESS;
}

hg_return_t hg_proc_padding_check(const char *padding, hg_size_t size)
{
    for (hg_size_t i = 0; i < size; i++) {
        if (padding[i] != 0) {
            HG_LOG_ERROR(
                "padding byte %d is not zero; check that both sides use the same structure",
                (int) padding[i]);
            return HG_PROTOCOL_ERROR;
        }
    }
    return HG_SUCCESS;
}

uint32_t hg_proc_undo_begin(hg_proc_t proc)
{
    if (proc->cursor.op != (uint32_t) HG_DECODE)
        return 0;
    proc->cursor.op = (uint32_t) HG_FREE;
    proc->cursor.left = 0;
    return 1;
}

void hg_proc_undo_end(hg_proc_t proc)
{
    proc->cursor.op = (uint32_t) HG_DECODE;
    hg_proc_cursor_set(proc, proc->cursor.next);
}

static bool hg_proc_op_is_valid(hg_proc_op_t op)
{
    return op == HG_ENCODE || op == HG_DECODE || op == HG_FREE;
}

/* Move the cursor. Inline code may use the bytes left in the raw encoding only. */
static void hg_proc_cursor_set(struct hg_proc *proc, char *next)
{
    bool is_inline = !proc->is_portable && proc->cursor.op != (uint32_t) HG_FREE;

    proc->cursor.next = next;
    proc->cursor.left = is_inline ? (hg_size_t) (proc->end - next) : 0;
}

/* Continue in an extra buffer of at least `wanted` bytes, after copying the encoded bytes there. */
static hg_return_t hg_proc_grow(struct hg_proc *proc, hg_size_t wanted)
{
    hg_size_t used = (hg_size_t) (proc->cursor.next - proc->base);
    hg_size_t size = 2 * (hg_size_t) (proc->end - proc->base);
    struct hg_block *block;
    char *extra;

    if (wanted > HG_PROC_SIZE_LIMIT) {
        HG_LOG_ERROR("cannot encode %" PRIu64 " bytes; pass large data as bulk data", wanted);
        return HG_OVERFLOW;
    }
    if (size < wanted)
        size = wanted;
    /* A processor that the program created may outlive its class, so it takes an uncached block. */
    block =
        hg_block_get(proc->handle != HG_HANDLE_NULL ? proc->hg_class : NULL, HG_BLOCK_SOURCE, size);
    if (block == NULL) {
        HG_LOG_ERROR("cannot encode %" PRIu64 " bytes: out of memory", wanted);
        return HG_NOMEM;
    }
    extra = block->memory;
    size = block->capacity;
    if (used > 0)
        memcpy(extra, proc->base, (size_t) used);
    hg_proc_fini(proc);
    proc->extra_block = block;
    proc->extra_buf = extra;
    proc->extra_size = size;
    proc->is_extra_mine = true;
    proc->base = extra;
    proc->end = extra + size;
    hg_proc_cursor_set(proc, extra + used);
    return HG_SUCCESS;
}

static hg_return_t hg_proc_integer_raw(struct hg_proc *proc, void *data, uint32_t size)
{
    char *bytes;
    hg_return_t ret = hg_proc_take(proc, size, &bytes);

    if (ret != HG_SUCCESS)
        return ret;
    if (proc->cursor.op == (uint32_t) HG_ENCODE)
        memcpy(bytes, data, size);
    else
        memcpy(data, bytes, size);
    return HG_SUCCESS;
}

/* An integer of 8 bytes takes 8 bytes, any other one 4, most significant byte first. */
static hg_return_t hg_proc_integer_portable(struct hg_proc *proc, void *data, uint32_t size,
                                            bool is_signed)
{
    uint32_t width = size == 8 ? 8 : 4;
    uint64_t value = 0;
    char *bytes;
    hg_return_t ret = hg_proc_take(proc, width, &bytes);

    if (ret != HG_SUCCESS)
        return ret;
    if (proc->cursor.op == (uint32_t) HG_ENCODE) {
        value = hg_proc_integer_load(data, size, is_signed);
        for (uint32_t i = 0; i < width; i++)
            bytes[i] = (char) (uint8_t) (value >> (8 * (width - 1 - i)));
        return HG_SUCCESS;
    }
    for (uint32_t i = 0; i < width; i++)
        value = value << 8 | (uint8_t) bytes[i];
    if (size < 8)
        return hg_proc_integer_store(data, size, is_signed, (uint32_t) value);
    memcpy(data, &value, sizeof(value));
    return HG_SUCCESS;
}

static uint64_t hg_proc_integer_load(const void *data, uint32_t size, bool is_signed)
{
    uint64_t value = 0;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;

    switch (size) {
    case 1:
        memcpy(&u8, data, size);
        value = is_signed ? (uint64_t) (int8_t) u8 : u8;
        break;
    case 2:
        memcpy(&u16, data, size);
        value = is_signed ? (uint64_t) (int16_t) u16 : u16;
        break;
    case 4:
        memcpy(&u32, data, size);
        value = u32;
        break;
    default:
        memcpy(&value, data, sizeof(value));
        break;
    }
    return value;
}

/* Store a unit of 4 bytes as an integer of `size` bytes; HG_PROTOCOL_ERROR if it does not fit. */
static hg_return_t hg_proc_integer_store(void *data, uint32_t size, bool is_signed, uint32_t unit)
{
    uint8_t u8 = (uint8_t) unit;
    uint16_t u16 = (uint16_t) unit;
    uint32_t back = unit;

    if (size == 1)
        back = is_signed ? (uint32_t) (int8_t) u8 : u8;
    else if (size == 2)
        back = is_signed ? (uint32_t) (int16_t) u16 : u16;
    if (back != unit) {
        HG_LOG_ERROR("0x%" PRIx32 " does not fit an integer of %" PRIu32
                     " bytes; check that both sides use the same structure",
                     unit, size);
        return HG_PROTOCOL_ERROR;
    }
    if (size == 1)
        memcpy(data, &u8, sizeof(u8));
    else if (size == 2)
        memcpy(data, &u16, sizeof(u16));
    else
        memcpy(data, &unit, sizeof(unit));
    return HG_SUCCESS;
}
