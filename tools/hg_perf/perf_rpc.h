/* SPDX-License-Identifier: BSD-3-Clause */
/* The RPCs between origin and target of hg_perf, and the encoding of their arguments. */

#ifndef AMALGAM_PERF_RPC_H
#define AMALGAM_PERF_RPC_H

#include <mercury.h>

#include "hg_perf/perf_options.h"
#include <mercury_bulk.h>
#include <mercury_macros.h>

/* Input and output of the echo RPC: `size` bytes in total, the first eight of which are the size
 * itself. Size 8 is the null RPC. The caller sets data and capacity before decoding. */
struct perf_payload {
    uint64_t size;
    void *data;        /* size - 8 bytes */
    uint64_t capacity; /* decoding: size of the memory at data */
};

/* Input of the bulk RPC: the target moves size bytes between the descriptor and its own buffer,
 * transfers times in sequence, then responds. With verify it compares the bytes pulled last with
 * the pattern of seed. */
MERCURY_GEN_PROC(perf_bulk_in_t, ((hg_bulk_t) (handle))((uint64_t) (size))((uint64_t) (seed))(
                                     (uint32_t) (transfers))((uint8_t) (push))((uint8_t) (verify)))

/* Output of the bulk RPC: an hg_return_t. */
MERCURY_GEN_PROC(perf_bulk_out_t, ((uint32_t) (result)))

struct perf_rpc_ids {
    hg_id_t echo;
    hg_id_t bulk;
};

/* Registers both RPCs; the callbacks are NULL in an origin. False after an error on stderr. */
bool perf_rpc_register(hg_class_t *hg_class, hg_rpc_cb_t echo, hg_rpc_cb_t bulk,
                       struct perf_rpc_ids *ids);

/* Encodes or decodes a struct perf_payload. */
hg_return_t perf_proc_payload(hg_proc_t proc, void *data);

/* Opens an endpoint for the options, busy or not; NULL after an error on stderr. */
hg_class_t *perf_class_create(const struct perf_options *options, bool listen);

#endif /* AMALGAM_PERF_RPC_H */
