/* SPDX-License-Identifier: BSD-3-Clause */
/* The RPCs that origin and target of hg_perf share, and how their arguments travel. */

#ifndef AMALGAM_PERF_RPC_H
#define AMALGAM_PERF_RPC_H

#include <mercury.h>

#include "hg_perf/perf_options.h"
#include <mercury_bulk.h>
#include <mercury_macros.h>

/* Input and output of the echo RPC: size bytes in all, of which the first eight are this number
 * itself. With 8 there is nothing else: the null RPC. The decoder sets data and capacity before. */
struct perf_payload {
    uint64_t size;
    void *data;        /* size - 8 bytes */
    uint64_t capacity; /* decoding: room at data */
};

/* Input of the bulk RPC: the target moves size bytes between the descriptor and a buffer of its
 * own, transfers times, one after the other, then answers. verify asks it to compare what it pulled
 * last with the pattern of seed. */
MERCURY_GEN_PROC(perf_bulk_in_t, ((hg_bulk_t) (handle))((uint64_t) (size))((uint64_t) (seed))(
                                     (uint32_t) (transfers))((uint8_t) (push))((uint8_t) (verify)))

/* Output of the bulk RPC: an hg_return_t. */
MERCURY_GEN_PROC(perf_bulk_out_t, ((uint32_t) (result)))

struct perf_rpc_ids {
    hg_id_t echo;
    hg_id_t bulk;
};

/* Registers both RPCs; the callbacks are NULL in an origin. False: said on stderr. */
bool perf_rpc_register(hg_class_t *hg_class, hg_rpc_cb_t echo, hg_rpc_cb_t bulk,
                       struct perf_rpc_ids *ids);

/* Encodes or decodes a struct perf_payload. */
hg_return_t perf_proc_payload(hg_proc_t proc, void *data);

/* An endpoint for the given options, busy or not; NULL: said on stderr. */
hg_class_t *perf_class_create(const struct perf_options *options, bool listen);

#endif /* AMALGAM_PERF_RPC_H */
