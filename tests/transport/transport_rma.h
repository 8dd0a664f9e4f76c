/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of RMA work with: a peer that exposes memory, and local memory of that size. */

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

/* Byte `index` of what a peer exposes. */
uint8_t rma_exposed(size_t index);

/* Opens with a peer of `option` that exposes `bytes` in `pieces`; 0, or 1 when it did not work. */
int rma_open(struct rma *rma, const char *option, unsigned long flags, size_t bytes, size_t pieces);

/* The peer ends, too, unless it is dead. */
void rma_close(struct rma *rma, bool is_alive);

/* Lets the peer expose new memory instead, of the same size. */
int rma_expose(struct rma *rma, unsigned long flags, size_t pieces);

/* One transfer, to its end; what it ended with. */
na_return_t rma_transfer(struct rma *rma, bool put, size_t local_offset, size_t remote_offset,
                         size_t size);

/* The sum of what the peer exposes at this moment, and of the local memory. */
uint64_t rma_remote_sum(struct rma *rma);
uint64_t rma_local_sum(const struct rma *rma);

#endif /* TRANSPORT_RMA_H */
