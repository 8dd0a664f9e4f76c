/* SPDX-License-Identifier: BSD-3-Clause */
/* Transfers with a peer, and checks of its memory. */

#include "na_conformance/exchange.h"

#include <string.h>

void conf_exchange_require_rma(void)
{
    if (conf_plugin.table.put == NULL || conf_plugin.table.get == NULL ||
        conf_plugin.table.mem_create == NULL)
        conf_skip("there is no put or no get");
}

void conf_exchange_open(struct conf_exchange *exchange, uint64_t size, uint32_t pieces,
                        uint32_t pieces_there, uint32_t flags)
{
    conf_load();
    conf_exchange_open_loaded(exchange, size, pieces, pieces_there, flags);
}

void conf_exchange_open_loaded(struct conf_exchange *exchange, uint64_t size, uint32_t pieces,
                               uint32_t pieces_there, uint32_t flags)
{
    conf_exchange_open_with(exchange, size, pieces, pieces_there, flags, NULL);
}

void conf_exchange_open_with(struct conf_exchange *exchange, uint64_t size, uint32_t pieces,
                             uint32_t pieces_there, uint32_t flags, const struct conf_open *how)
{
    const struct conf_peer_command expose = {
        .kind = CONF_PEER_EXPOSE, .size = size, .count = pieces_there, .mode = flags};
    struct conf_peer_reply reply;

    conf_exchange_require_rma();
    memset(exchange, 0, sizeof(*exchange));
    exchange->size = size;
    conf_open(&exchange->end, how);
    conf_peer_start(&exchange->peer, NULL);
    conf_peer_meet(&exchange->peer, &exchange->end);
    conf_peer_call(&exchange->peer, &expose, &reply);
    exchange->handle_size = reply.handle_size;
    memcpy(exchange->handle, reply.handle, sizeof(exchange->handle));
    exchange->remote =
        conf_memory_deserialize(&exchange->end, exchange->handle, exchange->handle_size);
    conf_memory_open(&exchange->local, &exchange->end, size, pieces,
                     NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
}

void conf_exchange_close(struct conf_exchange *exchange)
{
    conf_memory_forget(&exchange->end, exchange->remote);
    conf_memory_close(&exchange->local);
    conf_pair_close(&exchange->peer, &exchange->end);
}

_Noreturn void conf_exchange_skip(struct conf_exchange *exchange, const char *reason)
{
    conf_exchange_close(exchange);
    conf_skip("%s", reason);
}

void conf_exchange_put(struct conf_exchange *exchange, uint64_t local_offset,
                       uint64_t remote_offset, uint64_t length)
{
    int32_t status =
        conf_transfer_wait(&exchange->end, true, &exchange->local, local_offset, exchange->remote,
                           remote_offset, length, exchange->peer.addr);

    conf_require(status == NA_PLUGIN_SUCCESS, "a put of %llu bytes at offset %llu: %s",
                 (unsigned long long) length, (unsigned long long) remote_offset,
                 conf_status_name(status));
}

void conf_exchange_get(struct conf_exchange *exchange, uint64_t local_offset,
                       uint64_t remote_offset, uint64_t length, uint64_t seed)
{
    int32_t status =
        conf_transfer_wait(&exchange->end, false, &exchange->local, local_offset, exchange->remote,
                           remote_offset, length, exchange->peer.addr);
    uint64_t differs = conf_memory_differs(&exchange->local, local_offset, length, seed);

    conf_require(status == NA_PLUGIN_SUCCESS, "a get of %llu bytes at offset %llu: %s",
                 (unsigned long long) length, (unsigned long long) remote_offset,
                 conf_status_name(status));
    conf_require(differs == UINT64_MAX,
                 "a get of %llu bytes at offset %llu has another byte at %llu",
                 (unsigned long long) length, (unsigned long long) remote_offset,
                 (unsigned long long) differs);
}

void conf_exchange_fill_there(struct conf_exchange *exchange, uint32_t seed)
{
    const struct conf_peer_command fill = {.kind = CONF_PEER_FILL, .tag = seed};
    struct conf_peer_reply reply;

    conf_peer_call(&exchange->peer, &fill, &reply);
}

void conf_exchange_verify(struct conf_exchange *exchange, uint64_t offset, uint64_t length,
                          uint64_t seed)
{
    const struct conf_peer_command look = {
        .kind = CONF_PEER_VERIFY, .offset = offset, .size = length, .tag = (uint32_t) seed};
    struct conf_peer_reply reply;

    conf_peer_call(&exchange->peer, &look, &reply);
    conf_require(reply.values[0] == CONF_NOWHERE,
                 "%llu bytes at offset %llu of the target's memory: byte %llu is another one",
                 (unsigned long long) length, (unsigned long long) offset,
                 (unsigned long long) reply.values[0]);
}
