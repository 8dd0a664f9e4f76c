/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of processors, for the RPC and bulk layers: they embed a processor or keep one with
 * each handle, and reset it for every message.
 */
#ifndef HG_PROC_INTERNAL_H
#define HG_PROC_INTERNAL_H

#include "mercury_proc.h"
#include "mercury_proc_ext.h"

#include <stdatomic.h>

struct hg_block;

/* Settings of a class for its processors. Part of the HG class; zero is the initial state. */
struct hg_proc_class {
    _Atomic uint32_t encoding; /* an enum hg_proc_encoding */
};

/* A processor. Inline code in programs works on the cursor. */
struct hg_proc {
    struct hg_proc_cursor cursor;
    char *base; /* current buffer: the caller's, or the extra one */
    char *end;  /* end of the current buffer */

    hg_class_t *hg_class;
    hg_handle_t handle;
    const hg_addr_t *peer_p;      /* address of the message's peer; NULL: unknown */
    hg_size_t buf_size;           /* of the caller's buffer */
    char *extra_buf;              /* NULL while the caller's buffer suffices */
    hg_size_t extra_size;         /* 0 without an extra buffer */
    struct hg_block *extra_block; /* owns the extra buffer; NULL if handed over */

    uint64_t checksum;   /* seed while bytes are processed, then the result */
    hg_proc_hash_t hash; /* width of the checksum */
    bool is_flushed;     /* the checksum is final */
    bool is_portable;    /* XDR instead of the memory image */
    bool is_extra_mine;  /* the extra buffer is freed by the processor */
    bool has_bulk;       /* a descriptor without embedded data was encoded */
    uint8_t flags;       /* HG_PROC_SM, HG_PROC_BULK_EAGER */
};

/*
 * Initialize an embedded processor; hg_proc_reset() gives it a buffer. `hg_class` may be NULL, for
 * messages without bulk descriptors. Allocates nothing.
 */
void hg_proc_init(struct hg_proc *proc, hg_class_t *hg_class, hg_proc_hash_t hash,
                  enum hg_proc_encoding encoding);

/*
 * hg_proc_reset() without its checks, for each message of an RPC. The flags are left to the caller.
 * In the raw encoding, and without an extra buffer from an earlier message, it is these stores
 * only.
 */
static inline void hg_proc_start(struct hg_proc *proc, char *buf, hg_size_t size, hg_proc_op_t op)
{
    if (unlikely(proc->is_portable || proc->extra_buf != NULL)) {
        (void) hg_proc_reset(proc, buf, size, op);
        return;
    }
    proc->base = buf;
    proc->end = buf + size;
    proc->buf_size = size;
    proc->checksum = 0;
    proc->is_flushed = false;
    proc->cursor.next = buf;
    proc->cursor.left = op == HG_FREE ? 0 : size;
    proc->cursor.op = (uint32_t) op;
}

/* Free the extra buffer of an embedded processor. */
void hg_proc_fini(struct hg_proc *proc);

/*
 * Hand the block of the extra buffer over to the caller; NULL without one. The processor must be
 * reset before its next use.
 */
struct hg_block *hg_proc_take_extra_block(struct hg_proc *proc);

/*
 * Advance by `size` bytes and return their address. Encoding grows the buffer; decoding past the
 * end is HG_OVERFLOW. Not for HG_FREE.
 */
hg_return_t hg_proc_take(struct hg_proc *proc, hg_size_t size, char **data_p);

/* Size with padding. Huge sizes are returned unchanged, so that they do not wrap around. */
static inline hg_size_t hg_proc_padded(const struct hg_proc *proc, hg_size_t size)
{
    return proc->is_portable && size < HG_SIZE_MAX - 3 ? (size + 3) & ~(hg_size_t) 3 : size;
}

/* HG_PROTOCOL_ERROR unless all bytes of a padding are zero. */
hg_return_t hg_proc_padding_check(const char *padding, hg_size_t size);

#endif /* HG_PROC_INTERNAL_H */
