/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processors: encode structures into a message, decode them from it, free what decoding allocated.
 * A routine `hg_return_t hg_proc_<type>(hg_proc_t proc, void *data)` handles one type in all three
 * operations; see mercury_macros.h for a generator of such routines, mercury_proc_ext.h for the
 * choice of the encoding.
 *
 * A processor is used by one thread at a time. Different processors are independent.
 */
#ifndef MERCURY_PROC_H
#define MERCURY_PROC_H

#include "mercury_types.h"

#include <string.h>

/*
 * Checksums that a processor can compute over the bytes it processes. The names give the width; the
 * function is XXH3, truncated to that width.
 */
typedef enum {
    HG_CRC16, /* 16 bits */
    HG_CRC32, /* 32 bits */
    HG_CRC64, /* 64 bits */
    HG_NOHASH /* no checksum */
} hg_proc_hash_t;

/* Flags for hg_proc_set_flags(). */
#define HG_PROC_SM         (1 << 0) /* the peer is reached through shared memory */
#define HG_PROC_BULK_EAGER (1 << 1) /* small read-only bulk data may travel inside the message */

/* Hints on which way a condition usually goes. */
#ifndef likely
#    define likely(x) __builtin_expect(!!(x), 1)
#endif
#ifndef unlikely
#    define unlikely(x) __builtin_expect(!!(x), 0)
#endif

/*
 * The beginning of every processor, and its only part that programs see: hg_proc_<int>() below
 * works on it without a call. This layout is frozen; a processor itself stays opaque.
 *
 * `left` counts the bytes at `next` that inline code may use in the raw encoding. It is 0 whenever
 * an item needs the library: at the end of the buffer, in the portable encoding and in HG_FREE. So
 * one comparison covers all of these cases. Use hg_proc_get_size_left() for the bytes left in the
 * buffer.
 */
struct hg_proc_cursor {
    char *next;        /* position of the next item */
    hg_size_t left;    /* bytes there that inline code may use */
    uint32_t op;       /* an hg_proc_op_t */
    uint32_t reserved; /* 0 */
};

#ifdef __cplusplus
#    define HG_PROC_LAYOUT_ASSERT(condition) static_assert(condition, "frozen layout")
#else
#    define HG_PROC_LAYOUT_ASSERT(condition) _Static_assert(condition, "frozen layout")
#endif
#if UINTPTR_MAX == UINT64_MAX
HG_PROC_LAYOUT_ASSERT(sizeof(struct hg_proc_cursor) == 24);
HG_PROC_LAYOUT_ASSERT(offsetof(struct hg_proc_cursor, next) == 0);
HG_PROC_LAYOUT_ASSERT(offsetof(struct hg_proc_cursor, left) == 8);
HG_PROC_LAYOUT_ASSERT(offsetof(struct hg_proc_cursor, op) == 16);
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Create a processor without a buffer; hg_proc_reset() gives it one. It uses the encoding that is
 * currently set for the class.
 *
 * \param hg_class [IN]     class it belongs to; any other pointer but NULL is allowed, then the
 *                          encoding is raw and bulk descriptors cannot be decoded
 * \param hash [IN]         checksum to keep, HG_NOHASH for none
 * \param proc_p [OUT]      the processor, to be freed by hg_proc_free()
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if an argument is NULL or \a hash is none of the values;
 *         HG_NOMEM
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_create(hg_class_t *hg_class, hg_proc_hash_t hash, hg_proc_t *proc_p);

/**
 * Make a processor and give it a buffer: hg_proc_create() followed by hg_proc_reset().
 *
 * \param hg_class [IN]     class it belongs to
 * \param buf [IN]          buffer; stays the caller's
 * \param buf_size [IN]     its size in bytes
 * \param op [IN]           HG_ENCODE, HG_DECODE or HG_FREE
 * \param hash [IN]         checksum to keep, HG_NOHASH for none
 * \param proc_p [OUT]      the processor, to be freed by hg_proc_free()
 *
 * \return as hg_proc_create() and hg_proc_reset()
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_create_set(hg_class_t *hg_class, void *buf, hg_size_t buf_size,
                                         hg_proc_op_t op, hg_proc_hash_t hash, hg_proc_t *proc_p);

/**
 * Free a processor, and its extra buffer unless that was given away by
 * hg_proc_set_extra_buf_is_mine().
 *
 * \param proc [IN]     processor, HG_PROC_NULL is allowed
 *
 * \return HG_SUCCESS
 *
 * One thread, when no other uses the processor. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_free(hg_proc_t proc);

/**
 * Start over at the front of a buffer. Flags are cleared, the checksum starts anew, an extra buffer
 * that still belongs to the processor is freed.
 *
 * \param proc [IN]         processor
 * \param buf [IN]          buffer; stays the caller's; may be NULL in HG_FREE or with size 0
 * \param buf_size [IN]     its size in bytes
 * \param op [IN]           HG_ENCODE, HG_DECODE or HG_FREE
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if \a proc is NULL, \a buf is NULL with a size, or \a op is
 *         none of the values
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_reset(hg_proc_t proc, void *buf, hg_size_t buf_size, hg_proc_op_t op);

/**
 * \return class that the processor belongs to
 * \param proc [IN]     processor
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_class_t *hg_proc_get_class(hg_proc_t proc);

/**
 * Set the RPC handle that is being processed.
 *
 * \param proc [IN]     processor
 * \param handle [IN]   handle, not referenced; HG_HANDLE_NULL for none
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC void hg_proc_set_handle(hg_proc_t proc, hg_handle_t handle);

/**
 * \return handle that is being processed, or HG_HANDLE_NULL
 * \param proc [IN]     processor
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_handle_t hg_proc_get_handle(hg_proc_t proc);

/**
 * Set the flags, replacing earlier ones. hg_proc_reset() clears them.
 *
 * \param proc [IN]     processor
 * \param flags [IN]    HG_PROC_SM, HG_PROC_BULK_EAGER or 0
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC void hg_proc_set_flags(hg_proc_t proc, uint8_t flags);

/**
 * \return flags that hg_proc_set_flags() set
 * \param proc [IN]     processor
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC uint8_t hg_proc_get_flags(hg_proc_t proc);

/**
 * \return bytes of the buffer and of the extra buffer together
 * \param proc [IN]     processor
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_size_t hg_proc_get_size(hg_proc_t proc);

/**
 * \return bytes handled since hg_proc_reset()
 * \param proc [IN]     processor
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_size_t hg_proc_get_size_used(hg_proc_t proc);

/**
 * \return bytes that can still be handled without a larger buffer
 * \param proc [IN]     processor
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_size_t hg_proc_get_size_left(hg_proc_t proc);

/**
 * Make room for encoding. When \a buf_size exceeds the current buffer, the processor continues in
 * an extra buffer of at least that size, after copying the encoded bytes there. Encoding routines
 * do this by themselves.
 *
 * \param proc [IN]         processor
 * \param buf_size [IN]     bytes that are wanted altogether
 *
 * \return HG_SUCCESS; HG_OVERFLOW if not encoding (a message being decoded cannot grow) or if the
 *         size is absurd; HG_INVALID_ARG if \a proc is NULL; HG_NOMEM
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_set_size(hg_proc_t proc, hg_size_t buf_size);

/**
 * Reserve \a data_size bytes at the current position for hand-written encoding or decoding and
 * advance past them, including padding in the portable encoding. hg_proc_restore_ptr() ends their
 * use.
 *
 * \param proc [IN]         processor
 * \param data_size [IN]    bytes
 *
 * \return pointer to the bytes, valid until more is encoded; NULL in HG_FREE or if there are not
 *         that many
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC void *hg_proc_save_ptr(hg_proc_t proc, hg_size_t data_size);

/**
 * End the use of a pointer from hg_proc_save_ptr().
 *
 * \param proc [IN]         processor
 * \param data [IN]         the pointer
 * \param data_size [IN]    bytes, as they were taken
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if these bytes were not taken from the current buffer
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_restore_ptr(hg_proc_t proc, void *data, hg_size_t data_size);

/**
 * \return extra buffer, which contains everything encoded so far; valid until the processor is
 *         reset or freed, unless the caller took it by hg_proc_set_extra_buf_is_mine(); NULL if the
 *         first buffer sufficed
 * \param proc [IN]     processor
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC void *hg_proc_get_extra_buf(hg_proc_t proc);

/**
 * \return size of the extra buffer, 0 without one
 * \param proc [IN]     processor
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_size_t hg_proc_get_extra_size(hg_proc_t proc);

/**
 * Set the owner of the extra buffer: the processor (the default), or the caller, who frees it by
 * free().
 *
 * \param proc [IN]     processor
 * \param mine [IN]     not 0: the processor; 0: the caller
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if there is no extra buffer; HG_OPNOTSUPPORTED (since 1.1) if
 *         it is of an RPC that is being encoded, whose buffers free() cannot free
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_set_extra_buf_is_mine(hg_proc_t proc, uint8_t mine);

/**
 * End encoding or decoding; afterwards the checksum, if there is one, can be read.
 *
 * \param proc [IN]     processor
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if \a proc is NULL
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_flush(hg_proc_t proc);

#ifdef HG_HAS_CHECKSUMS
/**
 * Get the checksum of all bytes that were processed, after hg_proc_flush().
 *
 * \param proc [IN]         processor
 * \param hash [OUT]        checksum, least significant byte first
 * \param hash_size [IN]    bytes at \a hash: at least the checksum's width
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if no checksum is kept, hg_proc_flush() was not called or
 *         \a hash is NULL; HG_OVERFLOW if \a hash_size is too small
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_checksum_get(hg_proc_t proc, void *hash, hg_size_t hash_size);

/**
 * Compare the checksum with one from the peer, after hg_proc_flush().
 *
 * \param proc [IN]         processor
 * \param hash [IN]         checksum, least significant byte first
 * \param hash_size [IN]    bytes at \a hash: at least the checksum's width
 *
 * \return HG_SUCCESS if they are equal; HG_CHECKSUM_ERROR if they are not; otherwise as
 *         hg_proc_checksum_get()
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_checksum_verify(hg_proc_t proc, const void *hash,
                                              hg_size_t hash_size);

/**
 * Include bytes in the checksum that do not pass through the processor. Both sides must do so with
 * the same bytes, in the same order. Nothing happens when no checksum is kept.
 *
 * \param proc [IN]         processor
 * \param data [IN]         bytes
 * \param data_size [IN]    how many
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC void hg_proc_checksum_update(hg_proc_t proc, void *data, hg_size_t data_size);
#endif

/**
 * Process one integer. Programs call hg_proc_<type>() instead, which calls this function when the
 * cursor alone does not suffice.
 *
 * \param proc [IN]     processor
 * \param data [IN,OUT] the integer
 * \param size [IN]     1, 2, 4 or 8 bytes
 * \param is_signed [IN] not 0: sign-extended where the encoding widens it
 *
 * \return HG_SUCCESS; HG_OVERFLOW if decoding runs past the end; HG_PROTOCOL_ERROR if a widened
 *         integer does not fit; HG_INVALID_ARG if the size is another one; HG_NOMEM
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_integer(hg_proc_t proc, void *data, uint32_t size,
                                      uint32_t is_signed);

/**
 * Process bytes without conversion; the portable encoding pads them to a multiple of four. Does
 * nothing in HG_FREE.
 *
 * \param proc [IN]         processor
 * \param data [IN,OUT]     bytes
 * \param data_size [IN]    how many
 *
 * \return HG_SUCCESS; HG_OVERFLOW if decoding runs past the end; HG_PROTOCOL_ERROR if the padding
 *         is not zero; HG_INVALID_ARG if \a data is NULL with a size; HG_NOMEM
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_bytes(hg_proc_t proc, void *data, hg_size_t data_size);

/**
 * Switch from decoding to HG_FREE, to free the items decoded before one that failed. Generated
 * routines use this, so that a damaged message leaves nothing allocated.
 *
 * \param proc [IN]     processor
 *
 * \return 1 if the processor is decoding; hg_proc_undo_end() then turns it back. 0 otherwise
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC uint32_t hg_proc_undo_begin(hg_proc_t proc);

/**
 * Switch back from HG_FREE to decoding.
 *
 * \param proc [IN]     processor
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC void hg_proc_undo_end(hg_proc_t proc);

/**
 * \return operation: HG_ENCODE, HG_DECODE or HG_FREE
 * \param proc [IN]     processor
 * One thread at a time for a processor. \since 1.0
 */
static HG_INLINE hg_proc_op_t hg_proc_get_op(hg_proc_t proc)
{
    return HG_CAST(hg_proc_op_t, HG_CAST_PTR(struct hg_proc_cursor *, proc)->op);
}

/* One comparison and one store, or a call of the library. `size` is a constant at every use. */
static HG_INLINE hg_return_t hg_proc_integer_inline(hg_proc_t proc, void *data, uint32_t size,
                                                    uint32_t is_signed)
{
    struct hg_proc_cursor *cursor = HG_CAST_PTR(struct hg_proc_cursor *, proc);

    if (unlikely(cursor->left < size))
        return hg_proc_integer(proc, data, size, is_signed);
    if (cursor->op == HG_CAST(uint32_t, HG_ENCODE))
        memcpy(cursor->next, data, size);
    else
        memcpy(data, cursor->next, size);
    cursor->next += size;
    cursor->left -= size;
    return HG_SUCCESS;
}

/**
 * Process an integer of the type in the name.
 *
 * \param proc [IN]         processor
 * \param data [IN,OUT]     pointer to the integer
 *
 * \return as hg_proc_integer()
 *
 * One thread at a time for a processor. \since 1.0
 */
static HG_INLINE hg_return_t hg_proc_int8_t(hg_proc_t proc, void *data)
{
    return hg_proc_integer_inline(proc, data, 1, 1);
}

/** \copydoc hg_proc_int8_t */
static HG_INLINE hg_return_t hg_proc_uint8_t(hg_proc_t proc, void *data)
{
    return hg_proc_integer_inline(proc, data, 1, 0);
}

/** \copydoc hg_proc_int8_t */
static HG_INLINE hg_return_t hg_proc_int16_t(hg_proc_t proc, void *data)
{
    return hg_proc_integer_inline(proc, data, 2, 1);
}

/** \copydoc hg_proc_int8_t */
static HG_INLINE hg_return_t hg_proc_uint16_t(hg_proc_t proc, void *data)
{
    return hg_proc_integer_inline(proc, data, 2, 0);
}

/** \copydoc hg_proc_int8_t */
static HG_INLINE hg_return_t hg_proc_int32_t(hg_proc_t proc, void *data)
{
    return hg_proc_integer_inline(proc, data, 4, 1);
}

/** \copydoc hg_proc_int8_t */
static HG_INLINE hg_return_t hg_proc_uint32_t(hg_proc_t proc, void *data)
{
    return hg_proc_integer_inline(proc, data, 4, 0);
}

/** \copydoc hg_proc_int8_t */
static HG_INLINE hg_return_t hg_proc_int64_t(hg_proc_t proc, void *data)
{
    return hg_proc_integer_inline(proc, data, 8, 1);
}

/** \copydoc hg_proc_int8_t */
static HG_INLINE hg_return_t hg_proc_uint64_t(hg_proc_t proc, void *data)
{
    return hg_proc_integer_inline(proc, data, 8, 0);
}

/* Routines for the type names of this API. */
#define hg_proc_hg_size_t hg_proc_uint64_t
#define hg_proc_hg_id_t   hg_proc_uint64_t

/* And for type names of older clients. */
#define hg_proc_hg_int8_t   hg_proc_int8_t
#define hg_proc_hg_uint8_t  hg_proc_uint8_t
#define hg_proc_hg_int16_t  hg_proc_int16_t
#define hg_proc_hg_uint16_t hg_proc_uint16_t
#define hg_proc_hg_int32_t  hg_proc_int32_t
#define hg_proc_hg_uint32_t hg_proc_uint32_t
#define hg_proc_hg_int64_t  hg_proc_int64_t
#define hg_proc_hg_uint64_t hg_proc_uint64_t
#define hg_proc_hg_bool_t   hg_proc_uint8_t
#define hg_proc_hg_ptr_t    hg_proc_uint64_t

/* Further names of hg_proc_bytes(). */
#define hg_proc_memcpy hg_proc_raw
#define hg_proc_raw    hg_proc_bytes

/* Make room for `size` more bytes, or jump to `label` with the error in `ret`. */
#define HG_PROC_CHECK_SIZE(proc, size, label, ret)                           \
    do {                                                                     \
        if (unlikely(hg_proc_get_size_left(proc) < (size))) {                \
            (ret) = hg_proc_set_size(proc, hg_proc_get_size(proc) + (size)); \
            if ((ret) != HG_SUCCESS)                                         \
                goto label;                                                  \
        }                                                                    \
    } while (0)

/* The steps of a hand-written raw encoding: copy in, copy out, advance. */
#define HG_PROC_TYPE_ENCODE(proc, data, size) \
    memcpy(HG_CAST_PTR(struct hg_proc_cursor *, proc)->next, data, size)
#define HG_PROC_TYPE_DECODE(proc, data, size) \
    memcpy(data, HG_CAST_PTR(struct hg_proc_cursor *, proc)->next, size)
#define HG_PROC_UPDATE(proc, size) ((void) hg_proc_save_ptr(proc, size))

/* Does nothing: the checksum is computed over the buffer. */
#define HG_PROC_CHECKSUM_UPDATE(proc, data, size) ((void) 0)

/*
 * Process the memory of an object of any type, or a number of bytes, without conversion. In HG_FREE
 * jumps to `label`; on an error jumps there with the error in `ret`.
 */
#define HG_PROC_TYPE(proc, type, data, label, ret) \
    HG_PROC_BYTES(proc, data, sizeof(type), label, ret)
#define HG_PROC_BYTES(proc, data, size, label, ret) \
    do {                                            \
        if (hg_proc_get_op(proc) == HG_FREE)        \
            goto label;                             \
        (ret) = hg_proc_bytes(proc, data, size);    \
        if ((ret) != HG_SUCCESS)                    \
            goto label;                             \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_PROC_H */
