/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of RMA share: a peer that exposes memory, and local memory of the same size. */

#ifndef TRANSPORT_RMA_H
#define TRANSPORT_RMA_H

#include "transport_test.h"

#define RMA_BYTES 3000000u

struct rma {
    struct end end;
    struct child child;
    na_addr_t *peer;
    uint8_t *local;
    size_t bytes;
    uint8_t packed[4096];
    size_t packed_size;
    na_mem_handle_t *local_mem;
    na_mem_handle_t *remote_mem;
};

/* Returns byte `index` of the memory that a peer exposes. */
uint8_t rma_exposed(size_t index);

/* Opens an endpoint and a peer of `option` that exposes `bytes` in `pieces`. Returns 0, or 1 on
 * failure. */
int rma_open(struct rma *rma, const char *option, unsigned long flags, size_t bytes, size_t pieces);

/* Closes the endpoint, and ends the peer unless it is dead already. */
void rma_close(struct rma *rma, bool is_alive);

/* Has the peer expose new memory of the same size instead. */
int rma_expose(struct rma *rma, unsigned long flags, size_t pieces);

/* Runs one transfer to its end and returns its status. */
na_return_t rma_transfer(struct rma *rma, bool put, size_t local_offset, size_t remote_offset,
                         size_t size);

/* Returns the checksum of what the peer exposes at this moment, or of the local memory. */
uint64_t rma_remote_sum(struct rma *rma);
uint64_t rma_local_sum(const struct rma *rma);

#endif /* TRANSPORT_RMA_H */
