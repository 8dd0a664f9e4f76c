/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of memory handles, put and get. */

#include <stdlib.h>
#include <string.h>

#include "na_conformance/check.h"
#include "na_conformance/exchange.h"

static void both(void);
static void offsets(void);
static void sizes(void);
static uint64_t max_segments(void);
static void segments(void);
static void visible(void);
static void flags(void);
static void flags_enforced(void);
static bool is_enforceable(const struct conf_end *end);
static void deregistered(void);
static void serialize(void);
static void deserialize_anything(void);
static void outstanding(void);
static void self(void);
static void handles(void);
static void idle_target(void);
static void inbound(void);
static void range(void);
static void allocation(void);
static void allocation_contract(void);
static void range_require_refused(struct conf_exchange *exchange, const struct conf_memory *wide,
                                  uint64_t offset, uint64_t length);

const struct conf_check conf_checks_rma[] = {
    {601, "rma.both", "A put writes and a get reads the target's memory, whole", both, 0},
    {602, "rma.offsets", "Offsets on both sides are honoured, and nothing around them is touched",
     offsets, 0},
    {603, "rma.sizes", "Transfers of every size arrive, from one byte to many pages", sizes, 0},
    {604, "rma.segments", "Offsets run through the segments of a handle as if they were joined",
     segments, 0},
    {605, "rma.visible", "When a put completes, the target sees what was put", visible, 0},
    {606, "rma.flags", "What the access flags allow works: each alone, and both", flags, 0},
    {607, "rma.flags.enforced",
     "What the access flags forbid fails, where the fabric can enforce it", flags_enforced, 0},
    {608, "rma.deregistered",
     "After deregistration no access succeeds, where the fabric can enforce it", deregistered, 0},
    {609, "rma.serialize", "A handle travels in the size that it says", serialize, 0},
    {610, "rma.deserialize", "Serialized handles that were altered do no harm",
     deserialize_anything, 0},
    {611, "rma.outstanding", "Many transfers are outstanding at once, each with its own range",
     outstanding, 0},
    {612, "rma.self", "An endpoint accesses its own memory", self, 0},
    {613, "rma.handles", "Making and freeing handles keeps no memory; freeing deregisters", handles,
     0},
    {614, "rma.native", "Native transfers need no polling of the target", idle_target, 0},
    {615, "rma.inbound", "A peer puts to and gets from memory of ours", inbound, 0},
    {616, "rma.range", "A target gives and takes nothing beyond the memory of a handle", range, 0},
    {617, "rma.allocated",
     "Memory that the plugin allocates is zero-filled, and is accessed like other memory",
     allocation, 0},
    {0, NULL, NULL, NULL, 0},
};

static void both(void)
{
    struct conf_exchange exchange;

    conf_exchange_open(&exchange, 1 << 20, 1, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    conf_exchange_get(&exchange, 0, 0, exchange.size, 1);
    conf_memory_fill(&exchange.local, 0, exchange.size, 5);
    conf_exchange_put(&exchange, 0, 0, exchange.size);
    conf_exchange_verify(&exchange, 0, exchange.size, 5);
    conf_exchange_close(&exchange);
}

/* Bytes outside the range must not change: the target has seed 1, the local memory seed 9. The
 * offsets differ by a period of the pattern, so that a misplaced copy is detected. */
static void offsets(void)
{
    const unsigned int times = conf_settings.fast ? 50 : 500;
    struct conf_exchange exchange;

    conf_exchange_open(&exchange, 200000, 1, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    srandom(2);
    for (unsigned int i = 0; i < times; i++) {
        const uint64_t at = 1 + (uint64_t) random() % 50000, there = at + 65536;
        const uint64_t length = 1 + (uint64_t) random() % (i % 2 ? 100 : 40000);

        conf_exchange_fill_there(&exchange, 1);
        conf_memory_fill(&exchange.local, 0, exchange.size, 9);
        conf_exchange_put(&exchange, at, there, length);
        conf_exchange_verify(&exchange, 0, there, 1);
        conf_exchange_verify(&exchange, there, length, 9);
        conf_exchange_verify(&exchange, there + length, exchange.size - there - length, 1);
        conf_memory_fill(&exchange.local, 0, exchange.size, 3);
        conf_exchange_get(&exchange, at, there, length, 9);
        conf_require(conf_memory_differs(&exchange.local, 0, at, 3) == UINT64_MAX &&
                         conf_memory_differs(&exchange.local, at + length,
                                             exchange.size - at - length, 3) == UINT64_MAX,
                     "a get of %llu bytes to offset %llu wrote around them",
                     (unsigned long long) length, (unsigned long long) at);
    }
    conf_exchange_close(&exchange);
}

static void sizes(void)
{
    const uint64_t most = conf_settings.fast ? 4u << 20 : 32u << 20;
    struct conf_exchange exchange;

    conf_exchange_open(&exchange, most, 1, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    for (uint64_t size = 1; size <= most; size = size < 8 ? size + 1 : size * 2 - size / 5) {
        conf_memory_fill(&exchange.local, 0, size, size);
        conf_exchange_put(&exchange, 0, 0, size);
        conf_exchange_verify(&exchange, 0, size, size);
        conf_memory_fill(&exchange.local, 0, size, size + 1);
        conf_exchange_get(&exchange, 0, 0, size, size);
    }
    conf_note("up to %llu bytes; max_rma_size is %llu", (unsigned long long) most,
              (unsigned long long) exchange.end.info.max_rma_size);
    conf_exchange_close(&exchange);
}

/* Limit of a class, which may be less than its plugin's. */
static uint64_t max_segments(void)
{
    struct conf_end end = {0};
    uint64_t max = 1;

    if (conf_plugin.segments == NULL)
        return max;
    conf_open(&end, NULL);
    max = conf_plugin.segments->max_segments;
    if (end.info.max_segments != 0 && end.info.max_segments < max)
        max = end.info.max_segments;
    conf_close(&end);
    return max;
}

static void segments(void)
{
    static const uint32_t pieces[][2] = {{1, 5}, {5, 1}, {7, 3}, {16, 16}};
    uint64_t max;

    conf_load();
    max = max_segments();
    if (max < 2)
        conf_skip("handles have one segment");
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct conf_exchange exchange;

        if (pieces[i][0] > max || pieces[i][1] > max)
            continue;
        conf_exchange_open_loaded(&exchange, 100003, pieces[i][0], pieces[i][1],
                                  NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
        conf_exchange_get(&exchange, 0, 0, exchange.size, 1);
        for (uint64_t at = 0; at < 90000; at += 9001) {
            conf_memory_fill(&exchange.local, 0, exchange.size, 9);
            conf_exchange_put(&exchange, at, at, 10000);
            conf_exchange_verify(&exchange, at, 10000, 9);
            conf_memory_fill(&exchange.local, 0, exchange.size, 2);
            conf_exchange_get(&exchange, at, at, 10000, 9);
        }
        conf_exchange_verify(&exchange, 91009, exchange.size - 91009, 1);
        conf_exchange_close(&exchange);
    }
}

/* The peer checks its memory as soon as it is told to, over the control socket. */
static void visible(void)
{
    const unsigned int times = conf_settings.fast ? 100 : 2000;
    struct conf_exchange exchange;

    conf_exchange_open(&exchange, 8192, 1, 1, NA_PLUGIN_MEM_WRITE);
    for (unsigned int i = 0; i < times; i++) {
        conf_memory_fill(&exchange.local, 0, exchange.size, i + 2);
        conf_exchange_put(&exchange, 0, 0, exchange.size);
        conf_exchange_verify(&exchange, 0, exchange.size, i + 2);
    }
    conf_exchange_close(&exchange);
}

static void flags(void)
{
    for (uint32_t access = 1; access <= 3; access++) {
        struct conf_exchange exchange;

        if (access == 1)
            conf_exchange_open(&exchange, 10000, 1, 1, access);
        else
            conf_exchange_open_loaded(&exchange, 10000, 1, 1, access);
        if ((access & NA_PLUGIN_MEM_READ) != 0)
            conf_exchange_get(&exchange, 0, 0, exchange.size, 1);
        conf_memory_fill(&exchange.local, 0, exchange.size, 4);
        if ((access & NA_PLUGIN_MEM_WRITE) != 0) {
            conf_exchange_put(&exchange, 0, 0, exchange.size);
            conf_exchange_verify(&exchange, 0, exchange.size, 4);
        }
        conf_exchange_close(&exchange);
    }
}

/* The core checks flags before it calls the plugin, but a hostile peer would not. */
static void flags_enforced(void)
{
    struct conf_exchange exchange;
    bool is_needed;
    int32_t put, get;

    conf_exchange_open(&exchange, 10000, 1, 1, NA_PLUGIN_MEM_READ);
    is_needed = is_enforceable(&exchange.end);
    conf_memory_fill(&exchange.local, 0, exchange.size, 4);
    put = conf_transfer_wait(&exchange.end, true, &exchange.local, 0, exchange.remote, 0,
                             exchange.size, exchange.peer.addr);
    conf_exchange_close(&exchange);
    conf_exchange_open_loaded(&exchange, 10000, 1, 1, NA_PLUGIN_MEM_WRITE);
    get = conf_transfer_wait(&exchange.end, false, &exchange.local, 0, exchange.remote, 0,
                             exchange.size, exchange.peer.addr);
    conf_exchange_close(&exchange);
    conf_require(!is_needed || (put != NA_PLUGIN_SUCCESS && get != NA_PLUGIN_SUCCESS),
                 "the target carries transfers out itself, and a %s that is forbidden succeeds",
                 put != NA_PLUGIN_SUCCESS ? "get" : "put");
    if (put == NA_PLUGIN_SUCCESS || get == NA_PLUGIN_SUCCESS)
        conf_skip("not enforced for %s", put != NA_PLUGIN_SUCCESS   ? "get"
                                         : get != NA_PLUGIN_SUCCESS ? "put"
                                                                    : "put and get");
    conf_note("put %s, get %s", conf_status_name(put), conf_status_name(get));
}

/* If the plugin at the target takes part in every transfer, it can check access. */
static bool is_enforceable(const struct conf_end *end)
{
    return (end->info.capabilities & NA_PLUGIN_CAP_RMA_NATIVE) == 0;
}

static void deregistered(void)
{
    struct conf_exchange exchange;
    bool is_needed;
    int32_t status;

    conf_exchange_open(&exchange, 10000, 1, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    is_needed = is_enforceable(&exchange.end);
    conf_exchange_get(&exchange, 0, 0, exchange.size, 1);
    conf_peer_tell(&exchange.peer, CONF_PEER_HIDE, CONF_PEER_ECHO, 0);
    status = conf_transfer_wait(&exchange.end, false, &exchange.local, 0, exchange.remote, 0,
                                exchange.size, exchange.peer.addr);
    conf_exchange_close(&exchange);
    conf_require(!is_needed || status != NA_PLUGIN_SUCCESS,
                 "the target carries transfers out itself, and gives what was deregistered");
    if (status == NA_PLUGIN_SUCCESS)
        conf_skip("not enforced");
    conf_note("%s", conf_status_name(status));
}

static void serialize(void)
{
    uint8_t packed[CONF_HANDLE_SIZE];
    struct conf_memory memory;
    struct conf_end end;
    uint64_t size;

    conf_load();
    conf_exchange_require_rma();
    conf_open(&end, NULL);
    conf_memory_open(&memory, &end, 10000, 1, NA_PLUGIN_MEM_READ);
    conf_guard_set(packed, sizeof(packed));
    size = conf_memory_serialize(&memory, packed, sizeof(packed));
    conf_require(conf_guard_broken(packed + size, sizeof(packed) - size) < 0,
                 "it says %llu bytes and writes more", (unsigned long long) size);
    for (uint64_t i = 0; i < size; i++) {
        uint8_t *small = malloc(i > 0 ? i : 1);

        conf_require(small != NULL && conf_plugin.table.mem_serialize(
                                          end.na_class, memory.mem, small, i) != NA_PLUGIN_SUCCESS,
                     "%llu bytes are enough for what needs %llu", (unsigned long long) i,
                     (unsigned long long) size);
        free(small);
    }
    conf_memory_forget(&end, conf_memory_deserialize(&end, packed, size));
    conf_memory_close(&memory);
    conf_note("%llu bytes", (unsigned long long) size);
    conf_close(&end);
}

/* Altered handles are deserialized and freed again, and some of them are used. */
static void deserialize_anything(void)
{
    const unsigned int times = conf_settings.fast ? 2000 : 50000;
    struct conf_exchange exchange;
    unsigned int refused = 0;

    conf_exchange_open(&exchange, 10000, 1, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    srandom(3);
    for (unsigned int i = 0; i < times; i++) {
        const uint64_t size =
            i % 3 == 0 ? (uint64_t) random() % (exchange.handle_size + 1) : exchange.handle_size;
        uint8_t *packed = malloc(size > 0 ? size : 1);
        struct na_plugin_mem *mem = NULL;

        conf_require(packed != NULL, "no memory");
        memcpy(packed, exchange.handle, size);
        for (unsigned int j = 0; j < i % 4 && size > 0; j++)
            packed[(uint64_t) random() % size] = (uint8_t) random();
        if (conf_plugin.table.mem_deserialize(exchange.end.na_class, packed, size, &mem) !=
            NA_PLUGIN_SUCCESS)
            refused++;
        else
            conf_memory_forget(&exchange.end, mem);
        free(packed);
    }
    conf_exchange_get(&exchange, 0, 0, exchange.size, 1);
    conf_note("%u of %u were refused", refused, times);
    conf_exchange_close(&exchange);
}

static void outstanding(void)
{
    enum {
        COUNT = 64,
        ROOM = 8192
    };
    struct conf_exchange exchange;
    struct conf_op *ops[COUNT];
    uint64_t most;

    conf_exchange_open(&exchange, COUNT * ROOM, 1, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    most = conf_transfer_most(&exchange.end, ROOM);
    for (int put = 1; put >= 0; put--) {
        conf_memory_fill(&exchange.local, 0, exchange.size, put ? 6 : 7);
        for (uint32_t i = 0; i < COUNT; i++) {
            const uint64_t at = (uint64_t) (i * 37 % COUNT) * ROOM;
            int32_t status;

            ops[i] = conf_op_new(&exchange.end);
            for (uint64_t until = conf_now_ms() + CONF_WAIT_MS;;) {
                status = conf_transfer(&exchange.end, 0, ops[i], put != 0, &exchange.local, at,
                                       exchange.remote, at, i % 2 ? most : most / 2,
                                       exchange.peer.addr, 0);
                if (status != NA_PLUGIN_AGAIN || conf_now_ms() > until)
                    break;
                conf_progress();
            }
            conf_require(status == NA_PLUGIN_SUCCESS, "transfer %u failed: %s", i,
                         conf_status_name(status));
        }
        for (uint32_t i = 0; i < COUNT; i++)
            conf_wait_ok(ops[i], put ? "one of many puts" : "one of many gets");
        for (uint32_t i = 0; i < COUNT; i++) {
            const uint64_t at = (uint64_t) (i * 37 % COUNT) * ROOM;
            const uint64_t length = i % 2 ? most : most / 2;

            if (put)
                conf_exchange_verify(&exchange, at, length, 6);
            else
                conf_require(conf_memory_differs(&exchange.local, at, length, 6) == UINT64_MAX,
                             "a get of many has other content");
        }
    }
    conf_exchange_close(&exchange);
}

static void self(void)
{
    struct conf_memory here, there;
    uint8_t handle[CONF_HANDLE_SIZE];
    struct na_plugin_mem *remote;
    struct conf_end end;
    int32_t status;

    conf_load();
    conf_exchange_require_rma();
    conf_open(&end, NULL);
    conf_memory_open(&here, &end, 300000, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    conf_memory_open(&there, &end, 300000, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    remote = conf_memory_deserialize(&end, handle,
                                     conf_memory_serialize(&there, handle, sizeof(handle)));
    conf_memory_fill(&here, 0, here.size, 3);
    status = conf_transfer_wait(&end, true, &here, 0, remote, 0, here.size, end.self);
    conf_require(status == NA_PLUGIN_SUCCESS &&
                     conf_memory_differs(&there, 0, there.size, 3) == UINT64_MAX,
                 "a put to oneself: %s", conf_status_name(status));
    conf_memory_fill(&there, 0, there.size, 4);
    status = conf_transfer_wait(&end, false, &here, 0, remote, 0, here.size, end.self);
    conf_require(status == NA_PLUGIN_SUCCESS &&
                     conf_memory_differs(&here, 0, here.size, 4) == UINT64_MAX,
                 "a get from oneself: %s", conf_status_name(status));
    conf_memory_forget(&end, remote);
    conf_memory_close(&here);
    conf_memory_close(&there);
    conf_close(&end);
}

/* Every second handle is freed while it is registered. */
static void handles(void)
{
    const unsigned int times = conf_settings.fast ? 300 : 5000;
    uint64_t before = 0;
    struct conf_end end;

    conf_load();
    conf_exchange_require_rma();
    conf_open(&end, NULL);
    for (unsigned int i = 0; i < times; i++) {
        struct conf_memory memory;

        conf_memory_open(&memory, &end, 1000 + i, 1, NA_PLUGIN_MEM_READ);
        if (i % 2 == 0)
            memory.registered = false; /* so conf_memory_close() does not deregister it */
        conf_memory_close(&memory);
        if (i == 20)
            before = conf_host_allocations();
    }
    conf_require(conf_host_allocations() <= before + 2, "%llu allocations became %llu",
                 (unsigned long long) before, (unsigned long long) conf_host_allocations());
    conf_close(&end);
}

/* The first transfer may need the target to poll, to connect. */
static void idle_target(void)
{
    const uint32_t nap_ms = 3000;
    struct conf_exchange exchange;
    uint64_t from;

    conf_exchange_open(&exchange, 1 << 20, 1, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    if ((exchange.end.info.capabilities & NA_PLUGIN_CAP_RMA_NATIVE) == 0)
        conf_exchange_skip(&exchange, "transfers are emulated");
    conf_exchange_get(&exchange, 0, 0, exchange.size, 1);
    if (conf_plugin.table.addr_capabilities != NULL &&
        (conf_plugin.table.addr_capabilities(exchange.end.na_class, exchange.peer.addr) &
         NA_PLUGIN_CAP_RMA_NATIVE) == 0)
        conf_exchange_skip(&exchange, "transfers with this peer are emulated");
    conf_exchange_put(&exchange, 0, 0, exchange.size);
    conf_peer_tell(&exchange.peer, CONF_PEER_NAP, CONF_PEER_ECHO, nap_ms);
    from = conf_now_ms();
    conf_exchange_get(&exchange, 0, 0, exchange.size, 1);
    conf_exchange_put(&exchange, 0, 0, exchange.size);
    conf_require(conf_now_ms() - from < nap_ms * 2 / 3,
                 "it took %llu ms while the target was away for %u",
                 (unsigned long long) (conf_now_ms() - from), nap_ms);
    conf_exchange_close(&exchange);
}

static void inbound(void)
{
    struct conf_peer_command command;
    struct conf_exchange exchange;
    struct conf_peer_reply reply;

    conf_exchange_open(&exchange, 200000, 1, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    for (uint32_t put = 0; put < 2; put++) {
        conf_memory_fill(&exchange.local, 0, exchange.size, 8);
        conf_peer_sending(&command, CONF_PEER_TRANSFER, &exchange.end, (enum conf_peer_mode) put, 0,
                          exchange.size, put ? 9 : 8);
        command.handle_size =
            conf_memory_serialize(&exchange.local, command.handle, sizeof(command.handle));
        conf_peer_call(&exchange.peer, &command, &reply);
        conf_require(reply.status == NA_PLUGIN_SUCCESS, "a peer's %s of our memory: %s",
                     put ? "put" : "get", conf_status_name(reply.status));
        conf_require(reply.values[0] == CONF_NOWHERE, "a peer got other bytes than ours");
        conf_require(!put ||
                         conf_memory_differs(&exchange.local, 0, exchange.size, 9) == UINT64_MAX,
                     "a peer's put is not here");
    }
    conf_exchange_close(&exchange);
}

/* The core checks ranges before it calls the plugin, but a hostile peer would not. The plugin has
 * no influence on what a native fabric allows. */
static void range(void)
{
    const uint64_t size = 8192, beyond = 32;
    struct conf_exchange exchange;
    struct conf_memory wide;

    conf_exchange_open(&exchange, size, 1, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    if (!is_enforceable(&exchange.end))
        conf_exchange_skip(&exchange,
                           "transfers are native: the target does not take part in them");
    conf_memory_open(&wide, &exchange.end, 2 * size, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    conf_memory_fill(&wide, 0, wide.size, 7);
    conf_exchange_get(&exchange, 0, 0, size, 1);
    range_require_refused(&exchange, &wide, 0, conf_transfer_most(&exchange.end, size) + beyond);
    range_require_refused(&exchange, &wide, size - beyond, 2 * beyond);
    range_require_refused(&exchange, &wide, size, beyond);
    range_require_refused(&exchange, &wide, UINT64_MAX - beyond + 1, beyond);
    range_require_refused(&exchange, &wide, UINT64_MAX - beyond + 1, 2 * beyond);
    conf_exchange_fill_there(&exchange, 5);
    conf_exchange_get(&exchange, 0, 0, size, 5);
    conf_memory_close(&wide);
    conf_exchange_close(&exchange);
}

static void range_require_refused(struct conf_exchange *exchange, const struct conf_memory *wide,
                                  uint64_t offset, uint64_t length)
{
    for (int put = 0; put < 2; put++) {
        struct conf_op *op = conf_op_new(&exchange->end);
        int32_t status = conf_transfer(&exchange->end, 0, op, put != 0, wide, 0, exchange->remote,
                                       offset, length, exchange->peer.addr, 0);

        if (status != NA_PLUGIN_SUCCESS)
            continue;
        conf_wait(op, put ? "a put beyond a handle" : "a get beyond a handle");
        conf_require(op->status != NA_PLUGIN_SUCCESS,
                     "a %s of %llu bytes at offset %llu of a handle of %llu succeeds",
                     put ? "put" : "get", (unsigned long long) length, (unsigned long long) offset,
                     (unsigned long long) exchange->size);
    }
}

static void allocation(void)
{
    const uint64_t size = 3u << 20, part = 70000;
    struct conf_exchange exchange;
    int32_t status;

    conf_load();
    conf_exchange_require_rma();
    if (conf_plugin.alloc == NULL)
        conf_skip("it allocates no memory");
    allocation_contract();
    conf_exchange_open_loaded(&exchange, size, 1 | CONF_ALLOCATED, 1 | CONF_ALLOCATED,
                              NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    conf_exchange_get(&exchange, 0, 0, size, 1);
    conf_memory_fill(&exchange.local, 0, size, 5);
    conf_exchange_put(&exchange, part, part, part);
    conf_exchange_verify(&exchange, 0, part, 1);
    conf_exchange_verify(&exchange, part, part, 5);
    conf_exchange_verify(&exchange, 2 * part, size - 2 * part, 1);
    conf_exchange_put(&exchange, 0, 0, size);
    conf_exchange_verify(&exchange, 0, size, 5);
    conf_peer_tell(&exchange.peer, CONF_PEER_HIDE, CONF_PEER_ECHO, 0);
    status = conf_transfer_wait(&exchange.end, false, &exchange.local, 0, exchange.remote, 0, part,
                                exchange.peer.addr);
    conf_require(status != NA_PLUGIN_SUCCESS || !is_enforceable(&exchange.end),
                 "the target carries transfers out itself, and gives what was deregistered");
    conf_note("a get of deregistered memory: %s", conf_status_name(status));
    conf_exchange_close(&exchange);
}

/* Sizes around pages and powers of two; each block is used, freed, and allocated once more. */
static void allocation_contract(void)
{
    static const uint64_t sizes[] = {1, 4095, 4096, 4097, 20481, 65536, 1u << 20, (5u << 20) + 1};
    const struct na_plugin_mem_alloc *alloc = conf_plugin.alloc;
    unsigned int none = 0;
    struct conf_end end;
    uint8_t *other;

    conf_open(&end, NULL);
    for (unsigned int i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        const uint64_t size = sizes[i / 2];
        uint8_t *first = alloc->mem_alloc(end.na_class, size);
        uint8_t *second = alloc->mem_alloc(end.na_class, size);

        none += first == NULL || second == NULL;
        for (uint64_t j = 0; j < size && first != NULL && second != NULL; j++) {
            conf_require(first[j] == 0 && second[j] == 0, "byte %llu of %llu is not zero",
                         (unsigned long long) j, (unsigned long long) size);
            first[j] = 0xff;
        }
        conf_require(
            (first == NULL || alloc->mem_free(end.na_class, first) == NA_PLUGIN_SUCCESS) &&
                (second == NULL || alloc->mem_free(end.na_class, second) == NA_PLUGIN_SUCCESS),
            "mem_free refuses memory of mem_alloc");
    }
    other = malloc(4096);
    conf_require(other != NULL, "no memory");
    conf_require(alloc->mem_free(end.na_class, other) == NA_PLUGIN_NOENTRY,
                 "mem_free takes memory of another allocator");
    free(other);
    conf_note("%u of %u pairs are left to the core", none,
              (unsigned int) (2 * sizeof(sizes) / sizeof(sizes[0])));
    conf_close(&end);
}
