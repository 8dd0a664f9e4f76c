/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that exposes memory, and transfers with it. */

#include "transport_rma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint8_t rma_exposed(size_t index)
{
    return (uint8_t) (index * 7 + 3);
}

int rma_open(struct rma *rma, const char *option, unsigned long flags, size_t bytes, size_t pieces)
{
    memset(rma, 0, sizeof(*rma));
    rma->bytes = bytes;
    child_start(&rma->child, NULL, option);
    rma->end.na_class = NA_Initialize(test_init_string(), true);
    TEST_REQUIRE(rma->end.na_class != NULL);
    rma->end.context = NA_Context_create(rma->end.na_class);
    TEST_REQUIRE(NA_Addr_lookup(rma->end.na_class, rma->child.address, &rma->peer) == NA_SUCCESS);
    TEST_REQUIRE(rma_expose(rma, flags, pieces) == 0);
    rma->local = calloc(1, bytes);
    TEST_REQUIRE(NA_Mem_handle_create(rma->end.na_class, rma->local, bytes, NA_MEM_READWRITE,
                                      &rma->local_mem) == NA_SUCCESS);
    TEST_REQUIRE(NA_Mem_register(rma->end.na_class, rma->local_mem, NA_MEM_TYPE_HOST, 0) ==
                 NA_SUCCESS);
    return 0;
}

void rma_close(struct rma *rma, bool is_alive)
{
    NA_Mem_handle_free(rma->end.na_class, rma->remote_mem);
    (void) NA_Mem_deregister(rma->end.na_class, rma->local_mem);
    NA_Mem_handle_free(rma->end.na_class, rma->local_mem);
    NA_Addr_free(rma->end.na_class, rma->peer);
    (void) NA_Context_destroy(rma->end.na_class, rma->end.context);
    (void) NA_Finalize(rma->end.na_class);
    if (is_alive)
        child_stop(&rma->child);
    free(rma->local);
}

int rma_expose(struct rma *rma, unsigned long flags, size_t pieces)
{
    NA_Mem_handle_free(rma->end.na_class, rma->remote_mem);
    rma->remote_mem = NULL;
    rma->packed_size = sizeof(rma->packed);
    TEST_REQUIRE(end_command(&rma->end, rma->peer, PEER_EXPOSE, (uint32_t) flags, rma->bytes,
                             pieces, rma->packed, &rma->packed_size) == NA_SUCCESS);
    TEST_REQUIRE(NA_Mem_handle_deserialize(rma->end.na_class, &rma->remote_mem, rma->packed,
                                           rma->packed_size) == NA_SUCCESS);
    return 0;
}

na_return_t rma_transfer(struct rma *rma, bool put, size_t local_offset, size_t remote_offset,
                         size_t size)
{
    na_op_id_t *op = NA_Op_create(rma->end.na_class, NA_OP_SINGLE);
    struct event event = {0};
    na_return_t ret;

    ret = (put ? NA_Put : NA_Get)(rma->end.na_class, rma->end.context, event_callback, &event,
                                  rma->local_mem, local_offset, rma->remote_mem, remote_offset,
                                  size, rma->peer, 0, op);
    if (ret == NA_SUCCESS && !event_wait(&rma->end, &event, TEST_WAIT_MS)) {
        (void) NA_Cancel(rma->end.na_class, rma->end.context, op);
        (void) event_wait(&rma->end, &event, TEST_WAIT_MS);
        event.ret = NA_TIMEOUT;
    }
    NA_Op_destroy(rma->end.na_class, op);
    return ret == NA_SUCCESS ? event.ret : ret;
}

uint64_t rma_remote_sum(struct rma *rma)
{
    uint64_t sum = 0;
    size_t size = sizeof(sum);

    if (end_command(&rma->end, rma->peer, PEER_CHECK, 0, 0, 0, &sum, &size) != NA_SUCCESS)
        return UINT64_MAX;
    return sum;
}

uint64_t rma_local_sum(const struct rma *rma)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < rma->bytes; i++)
        sum += rma->local[i];
    return sum;
}
