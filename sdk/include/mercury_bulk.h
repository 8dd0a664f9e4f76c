/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk data: descriptors of memory that travel in RPC arguments, and transfers between the memory
 * that they describe.
 *
 * The side that describes its memory and sends the descriptor is the origin. The side that receives
 * it pulls from or pushes to that memory. A descriptor covers one or several segments; offsets run
 * through them as if they were joined.
 *
 * Descriptors are reference-counted and may be used by several threads. The rules of mercury.h for
 * errors (HG_INVALID_ARG) and forks (HG_PERMISSION) apply here, too.
 */
#ifndef MERCURY_BULK_H
#define MERCURY_BULK_H

#include "mercury_types.h"

/* Access rights to the memory, for peers and for transfers of this process that have it as their
 * local side. */
#define HG_BULK_READ_ONLY  (1 << 0) /* peers pull from it, or it is pushed from here */
#define HG_BULK_WRITE_ONLY (1 << 1) /* peers push to it, or it is pulled into from here */
#define HG_BULK_READWRITE  (HG_BULK_READ_ONLY | HG_BULK_WRITE_ONLY)

/* Options of HG_Bulk_serialize(). */
#define HG_BULK_SM    (1 << 2) /* the receiver is reached through shared memory */
#define HG_BULK_EAGER (1 << 3) /* include the data, if the descriptor is read-only */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Describe memory for transfers.
 *
 * \param hg_class [IN]  class
 * \param count [IN]  number of segments, at least 1
 * \param buf_ptrs [IN]  their addresses; the caller owns the memory and keeps it valid until the
 *     last reference is dropped. NULL: zero-filled memory is allocated, and freed with the
 *     descriptor; HG_Bulk_access() returns its address
 * \param buf_sizes [IN]  their sizes in bytes, 0 is allowed
 * \param flags [IN]  HG_BULK_READ_ONLY, HG_BULK_WRITE_ONLY or HG_BULK_READWRITE
 * \param handle [OUT]  descriptor, to be freed by HG_Bulk_free()
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if an argument is NULL or out of range; HG_OVERFLOW if the
 *     sizes add up to more than a size can hold; HG_NOMEM; or what the transport returned for the
 *     registration
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Bulk_create(hg_class_t *hg_class, uint32_t count, void **buf_ptrs,
                                     const hg_size_t *buf_sizes, uint8_t flags, hg_bulk_t *handle);

/**
 * Like HG_Bulk_create(), for memory that may be on a device.
 *
 * \param hg_class [IN]     class
 * \param count [IN]        as in HG_Bulk_create()
 * \param buf_ptrs [IN]     as in HG_Bulk_create(); not NULL for device memory
 * \param buf_sizes [IN]    as in HG_Bulk_create()
 * \param flags [IN]        as in HG_Bulk_create()
 * \param attrs [IN]        where the memory is; NULL for ordinary memory
 * \param handle [OUT]      descriptor, to be freed by HG_Bulk_free()
 *
 * \return as HG_Bulk_create(); HG_OPNOTSUPPORTED if the transport cannot use that memory
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Bulk_create_attr(hg_class_t *hg_class, uint32_t count, void **buf_ptrs,
                                          const hg_size_t *buf_sizes, uint8_t flags,
                                          const struct hg_bulk_attr *attrs, hg_bulk_t *handle);

/**
 * Drop a reference; the last one frees the descriptor. Running transfers hold references of their
 * own. Once the descriptor is freed, peers can no longer reach the memory. So this waits for their
 * transfers in progress, up to some seconds if a peer has stopped in the middle; through shared
 * memory such a peer may still write if it continues, which a warning reports (see
 * NA_Mem_deregister()).
 *
 * \param handle [IN]       descriptor, HG_BULK_NULL is allowed
 *
 * \return HG_SUCCESS
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Bulk_free(hg_bulk_t handle);

/**
 * Take one more reference.
 *
 * \param handle [IN]       descriptor
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if it is HG_BULK_NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Bulk_ref_incr(hg_bulk_t handle);

/**
 * Bind a local descriptor to a context: from now on its serialized form contains the address and
 * the context's id, so that a process that receives it, also from a third party, can reach the
 * memory by HG_Bulk_bind_transfer(). The serialized form becomes longer.
 *
 * \param handle [IN]       descriptor that was made by HG_Bulk_create()
 * \param context [IN]      context of the same class
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if an argument is NULL, from another class or not local, or if
 *         it is bound already; otherwise as HG_Addr_self()
 *
 * One thread, before others have the descriptor. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Bulk_bind(hg_bulk_t handle, hg_context_t *context);

/**
 * \return address in a bound descriptor, which owns it; to keep it use HG_Addr_dup(). HG_ADDR_NULL
 *         if it is not bound.
 * \param handle [IN]       descriptor
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_addr_t HG_Bulk_get_addr(hg_bulk_t handle);

/**
 * \return context id in a bound descriptor, 0 if it is not bound
 * \param handle [IN]       descriptor
 * Any thread. \since 1.0
 */
HG_PUBLIC uint8_t HG_Bulk_get_context_id(hg_bulk_t handle);

/**
 * Get the addresses of a range in this process, without a transfer. Works for descriptors that were
 * created here, that were received from this class itself, or that include their data.
 *
 * \param handle [IN]           descriptor
 * \param offset [IN]           where the range begins
 * \param size [IN]             bytes; limited to the end of the descriptor; with 0, and after an
 *                              error, the results are left unchanged
 * \param flags [IN]            intended access; not checked, as the flags of a descriptor restrict
 *                              remote peers
 * \param max_count [IN]        size of the arrays; the range is truncated when they are too small
 * \param buf_ptrs [OUT]        addresses within the memory of the descriptor, valid as long as that
 *                              memory; may be NULL
 * \param buf_sizes [OUT]       sizes in bytes, may be NULL
 * \param actual_count [OUT]    number of entries written, may be NULL
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if the memory is not in this process; HG_OVERFLOW if \a offset
 *         is behind its end
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Bulk_access(hg_bulk_t handle, hg_size_t offset, hg_size_t size,
                                     uint8_t flags, uint32_t max_count, void **buf_ptrs,
                                     hg_size_t *buf_sizes, uint32_t *actual_count);

/**
 * \return bytes that a descriptor covers, 0 for HG_BULK_NULL
 * \param handle [IN]       descriptor
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_size_t HG_Bulk_get_size(hg_bulk_t handle);

/**
 * \return number of segments that the origin described, 0 for HG_BULK_NULL
 * \param handle [IN]       descriptor
 * Any thread. \since 1.0
 */
HG_PUBLIC uint32_t HG_Bulk_get_segment_count(hg_bulk_t handle);

/**
 * \return HG_BULK_READ_ONLY, HG_BULK_WRITE_ONLY or HG_BULK_READWRITE; 0 for HG_BULK_NULL
 * \param handle [IN]       descriptor
 * Any thread. \since 1.0
 */
HG_PUBLIC uint8_t HG_Bulk_get_flags(hg_bulk_t handle);

/**
 * \return bytes that HG_Bulk_serialize() needs, 0 for HG_BULK_NULL
 * \param handle [IN]       descriptor
 * \param flags [IN]        as for HG_Bulk_serialize()
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_size_t HG_Bulk_get_serialize_size(hg_bulk_t handle, unsigned long flags);

/**
 * Serialize a descriptor.
 *
 * \param buf [OUT]         buffer
 * \param buf_size [IN]     its size in bytes
 * \param flags [IN]        HG_BULK_SM, HG_BULK_EAGER, or 0
 * \param handle [IN]       descriptor; one that was received may be passed on
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if an argument is NULL; HG_OVERFLOW if \a buf_size is less
 *         than HG_Bulk_get_serialize_size(); or what the transport returned
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Bulk_serialize(void *buf, hg_size_t buf_size, unsigned long flags,
                                        hg_bulk_t handle);

/**
 * Create a descriptor from its serialized form. All of the input is checked.
 *
 * \param hg_class [IN]     class
 * \param handle [OUT]      descriptor, to be freed by HG_Bulk_free()
 * \param buf [IN]          output of HG_Bulk_serialize(), not used afterwards
 * \param buf_size [IN]     bytes at \a buf, which may be more than the descriptor takes
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if an argument is NULL; HG_OVERFLOW if it is truncated;
 *         HG_PROTOCOL_ERROR if it is not a descriptor, of another version or damaged; HG_NOMEM; or
 *         an error of the transport
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Bulk_deserialize(hg_class_t *hg_class, hg_bulk_t *handle, const void *buf,
                                          hg_size_t buf_size);

/**
 * Start a transfer between the origin's memory and local memory. The callback runs once, in
 * HG_Trigger(), with the first error if there was one. After an error the destination's content is
 * undefined.
 *
 * \param context [IN]          context that runs the transfer
 * \param callback [IN]         called at the end; NULL for none
 * \param arg [IN]              passed to it
 * \param op [IN]               HG_BULK_PULL or HG_BULK_PUSH
 * \param origin_addr [IN]      address of the origin
 * \param origin_handle [IN]    the origin's descriptor
 * \param origin_offset [IN]    where to begin in it, in bytes
 * \param local_handle [IN]     descriptor made here
 * \param local_offset [IN]     where to begin in it, in bytes
 * \param size [IN]             bytes; 0 is allowed
 * \param op_id [OUT]           operation, to be cancelled; NULL or HG_OP_ID_IGNORE if it
 *                              is not wanted
 *
 * \return HG_SUCCESS if the callback will be called; otherwise it will not: HG_INVALID_ARG if an
 *         argument is NULL or does not fit the others; HG_PERMISSION if one of the descriptors
 *         forbids the direction; HG_OVERFLOW if a range exceeds its descriptor; HG_NOMEM; or an
 *         error of the transport. If the origin has freed its descriptor meanwhile, the callback or
 *         the call reports HG_PERMISSION
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Bulk_transfer(hg_context_t *context, hg_cb_t callback, void *arg,
                                       hg_bulk_op_t op, hg_addr_t origin_addr,
                                       hg_bulk_t origin_handle, hg_size_t origin_offset,
                                       hg_bulk_t local_handle, hg_size_t local_offset,
                                       hg_size_t size, hg_op_id_t *op_id);

/**
 * Like HG_Bulk_transfer(), with the address and context id in a bound descriptor. The creator of
 * the descriptor chose that address: a host there that accepts connections and never answers keeps
 * the transfer open for as long as the transport waits, unless it has a deadline:
 * HG_Class_set_default_deadline() or HG_Bulk_transfer_deadline().
 *
 * \param context [IN]          as in HG_Bulk_transfer()
 * \param callback [IN]         as in HG_Bulk_transfer()
 * \param arg [IN]              as in HG_Bulk_transfer()
 * \param op [IN]               as in HG_Bulk_transfer()
 * \param origin_handle [IN]    descriptor that its origin bound by HG_Bulk_bind()
 * \param origin_offset [IN]    as in HG_Bulk_transfer()
 * \param local_handle [IN]     as in HG_Bulk_transfer()
 * \param local_offset [IN]     as in HG_Bulk_transfer()
 * \param size [IN]             as in HG_Bulk_transfer()
 * \param op_id [OUT]           as in HG_Bulk_transfer()
 *
 * \return as HG_Bulk_transfer(); HG_INVALID_ARG if the descriptor is not bound
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Bulk_bind_transfer(hg_context_t *context, hg_cb_t callback, void *arg,
                                            hg_bulk_op_t op, hg_bulk_t origin_handle,
                                            hg_size_t origin_offset, hg_bulk_t local_handle,
                                            hg_size_t local_offset, hg_size_t size,
                                            hg_op_id_t *op_id);

/**
 * Like HG_Bulk_transfer(), naming the origin's context.
 *
 * \param context [IN]          as in HG_Bulk_transfer()
 * \param callback [IN]         as in HG_Bulk_transfer()
 * \param arg [IN]              as in HG_Bulk_transfer()
 * \param op [IN]               as in HG_Bulk_transfer()
 * \param origin_addr [IN]      as in HG_Bulk_transfer()
 * \param origin_id [IN]        id of the origin's context
 * \param origin_handle [IN]    as in HG_Bulk_transfer()
 * \param origin_offset [IN]    as in HG_Bulk_transfer()
 * \param local_handle [IN]     as in HG_Bulk_transfer()
 * \param local_offset [IN]     as in HG_Bulk_transfer()
 * \param size [IN]             as in HG_Bulk_transfer()
 * \param op_id [OUT]           as in HG_Bulk_transfer()
 *
 * \return as HG_Bulk_transfer()
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Bulk_transfer_id(hg_context_t *context, hg_cb_t callback, void *arg,
                                          hg_bulk_op_t op, hg_addr_t origin_addr, uint8_t origin_id,
                                          hg_bulk_t origin_handle, hg_size_t origin_offset,
                                          hg_bulk_t local_handle, hg_size_t local_offset,
                                          hg_size_t size, hg_op_id_t *op_id);

/**
 * Cancel a transfer. Unless it has already ended, its callback is called with HG_CANCELED, once
 * nothing accesses the memory any more.
 *
 * \param op_id [IN]        operation; after its callback was called this has no effect, as long as
 *                          its context exists
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if it is HG_OP_ID_NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Bulk_cancel(hg_op_id_t op_id);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_BULK_H */
