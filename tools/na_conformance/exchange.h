/* SPDX-License-Identifier: BSD-3-Clause */
/* An endpoint and a peer with memory on both sides. */

#ifndef AMALGAM_CONF_EXCHANGE_H
#define AMALGAM_CONF_EXCHANGE_H

#include "na_conformance/peer.h"
#include "na_conformance/rma.h"

struct conf_exchange {
    struct conf_end end;
    struct conf_peer peer;
    struct conf_memory local;
    struct na_plugin_mem *remote; /* initially filled with seed 1 */
    uint64_t size;
    uint8_t handle[CONF_HANDLE_SIZE];
    uint64_t handle_size;
};

/* Skips the check if the plugin has no put and get. */
void conf_exchange_require_rma(void);

/* Loads the plugin and opens both sides; `flags` are those of the peer's memory. */
void conf_exchange_open(struct conf_exchange *exchange, uint64_t size, uint32_t pieces,
                        uint32_t pieces_there, uint32_t flags);
void conf_exchange_open_loaded(struct conf_exchange *exchange, uint64_t size, uint32_t pieces,
                               uint32_t pieces_there, uint32_t flags);
void conf_exchange_open_with(struct conf_exchange *exchange, uint64_t size, uint32_t pieces,
                             uint32_t pieces_there, uint32_t flags, const struct conf_open *how);
void conf_exchange_close(struct conf_exchange *exchange);

/* Closes the exchange, then conf_skip(): an open peer would be killed, and could not clean up. */
_Noreturn void conf_exchange_skip(struct conf_exchange *exchange, const char *reason);

/* Transfer and wait for completion; a get compares the bytes with the seed. */
void conf_exchange_put(struct conf_exchange *exchange, uint64_t local_offset,
                       uint64_t remote_offset, uint64_t length);
void conf_exchange_get(struct conf_exchange *exchange, uint64_t local_offset,
                       uint64_t remote_offset, uint64_t length, uint64_t seed);

/* Has the peer fill its memory, or verify that it contains the pattern of a seed. */
void conf_exchange_fill_there(struct conf_exchange *exchange, uint32_t seed);
void conf_exchange_verify(struct conf_exchange *exchange, uint64_t offset, uint64_t length,
                          uint64_t seed);

#endif /* AMALGAM_CONF_EXCHANGE_H */
