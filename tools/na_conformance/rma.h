/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory of an endpoint, in pieces between guards, and transfers. */

#ifndef AMALGAM_CONF_RMA_H
#define AMALGAM_CONF_RMA_H

#include "na_conformance/end.h"

#define CONF_PIECES_MAX 16
#define CONF_ALLOCATED  0x100u /* added to a number of pieces: the plugin allocates them */

struct conf_memory {
    struct conf_end *end;
    struct na_plugin_mem *mem;
    struct conf_block pieces[CONF_PIECES_MAX];
    uint32_t count;
    uint64_t size;
    bool registered;
};

/* `count` 0 means one piece. Pieces that the plugin allocates have no guards. */
void conf_memory_open(struct conf_memory *memory, struct conf_end *end, uint64_t size,
                      uint32_t count, uint32_t flags);
void conf_memory_close(struct conf_memory *memory); /* no effect unless open */
void conf_memory_deregister(struct conf_memory *memory);
void conf_memory_register(struct conf_memory *memory); /* again, after conf_memory_deregister() */

/* Fills with the pattern of a seed, which depends on the offset. conf_memory_differs() returns
 * the first byte that differs, or UINT64_MAX. */
void conf_memory_fill(struct conf_memory *memory, uint64_t offset, uint64_t length, uint64_t seed);
uint64_t conf_memory_differs(const struct conf_memory *memory, uint64_t offset, uint64_t length,
                             uint64_t seed);

/* Checks the guards of all pieces. */
void conf_memory_check(const struct conf_memory *memory);

uint64_t conf_memory_serialize(struct conf_memory *memory, void *buf, uint64_t size);
struct na_plugin_mem *conf_memory_deserialize(struct conf_end *end, const void *buf, uint64_t size);
void conf_memory_forget(struct conf_end *end, struct na_plugin_mem *mem);

/* Posts a transfer on context `id`; returns the result of put() or get(). */
int32_t conf_transfer(struct conf_end *end, uint32_t id, struct conf_op *op, bool put,
                      const struct conf_memory *local, uint64_t local_offset,
                      struct na_plugin_mem *remote, uint64_t remote_offset, uint64_t length,
                      struct na_plugin_addr *addr, uint32_t remote_id);

/* Maximum size of one transfer, at most `length`. */
uint64_t conf_transfer_most(const struct conf_end *end, uint64_t length);

/* Transfers and waits, in steps of the class's limit; retries while resources are short. */
int32_t conf_transfer_wait(struct conf_end *end, bool put, const struct conf_memory *local,
                           uint64_t local_offset, struct na_plugin_mem *remote,
                           uint64_t remote_offset, uint64_t length, struct na_plugin_addr *addr);

/* A whole transfer with a serialized handle: puts bytes of the seed, or gets and compares. */
int32_t conf_memory_exchange(struct conf_end *end, struct na_plugin_addr *addr, const void *handle,
                             uint64_t handle_size, uint64_t length, bool put, uint64_t seed,
                             uint64_t *differs);

#endif /* AMALGAM_CONF_RMA_H */
