/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of how long context_stop takes, and of the memory of the operations that it ended. */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "na_conformance/check.h"
#include "na_conformance/exchange.h"

#define CONTEXTS 2u
#define BYTES    (4u << 20)
#define ROUNDS   4 /* the fastest one counts: a real wait occurs in each */
#define NAP_MS   400u

/* Time that stopping may take in addition to an idle context's. A wait takes longer. */
#define LIMIT_NS UINT64_C(10000000)

/* State of the peer while contexts are stopped. */
enum peer_state {
    IDLE, /* it polls, and only receives are outstanding */
    STILL,
    SLOW,
    STATES
};

struct stop_end {
    struct conf_end end;
    struct conf_peer peer;
    struct conf_memory local;
    struct na_plugin_mem *remote; /* NULL without RMA */
    struct conf_buffer buffer;
};

static void waits(void);
static void time_round(enum peer_state state, uint64_t took[CONTEXTS]);
static void open_end(struct stop_end *own);
static void post_everything(struct stop_end *own, uint32_t id, bool is_idle);
static uint64_t time_stop(struct conf_end *end, uint32_t id);
static void memory(void);
static void memory_round(struct conf_exchange *exchange, int round, bool is_still);
static void memory_protect(const struct conf_memory *local, int protection);

const struct conf_check conf_checks_stop[] = {
    {311, "context.stop.waits",
     "context_stop waits for no peer, be it slow or at a stand, and not for the fabric", waits, 0},
    {312, "context.stop.rma",
     "Memory of a stopped context's transfers is not touched once it is deregistered", memory, 0},
    {0, NULL, NULL, NULL, 0},
};

/* Contexts are stopped one after the other: the last one may be a special case. */
static void waits(void)
{
    static const char *const states[] = {"", "stands still", "is slow"};
    uint64_t least[STATES][CONTEXTS], took[CONTEXTS], limit = 0;
    bool is_slow = true;

    memset(least, 0xff, sizeof(least));
    conf_load();
    for (int round = 0; round < ROUNDS && is_slow; round++) {
        is_slow = false;
        for (uint32_t state = IDLE; state < STATES; state++) {
            time_round(state, took);
            for (uint32_t id = 0; id < CONTEXTS; id++) {
                const uint64_t idle = 8 * least[IDLE][id];

                least[state][id] = took[id] < least[state][id] ? took[id] : least[state][id];
                limit = LIMIT_NS + (idle < LIMIT_NS ? idle : LIMIT_NS);
                is_slow |= least[state][id] > limit;
            }
        }
    }
    for (uint32_t state = STILL; state < STATES; state++)
        for (uint32_t id = 0; id < CONTEXTS; id++)
            conf_require(least[state][id] <= limit,
                         "context_stop of context %u took %llu us, and %llu us with nothing to do, "
                         "when a peer %s",
                         id, (unsigned long long) (least[state][id] / 1000),
                         (unsigned long long) (least[IDLE][id] / 1000), states[state]);
    conf_require(least[IDLE][0] <= limit && least[IDLE][1] <= limit,
                 "context_stop took %llu us with nothing to do",
                 (unsigned long long) (least[IDLE][0] / 1000));
    conf_note("%llu us at most, %llu us with nothing to do",
              (unsigned long long) (least[STILL][0] / 1000),
              (unsigned long long) (least[IDLE][0] / 1000));
}

/* Measures the time to stop each context; the higher number first, while the other has work. */
static void time_round(enum peer_state state, uint64_t took[CONTEXTS])
{
    struct conf_peer_command nap = {.kind = CONF_PEER_NAP, .count = NAP_MS};
    struct conf_peer_reply reply;
    struct stop_end own;

    open_end(&own);
    if (state == STILL)
        conf_peer_pause(&own.peer, true);
    if (state == SLOW)
        conf_peer_call(&own.peer, &nap, &reply);
    for (uint32_t id = 0; id < CONTEXTS; id++)
        post_everything(&own, id, state == IDLE);
    conf_progress_ms(20);
    for (uint32_t id = CONTEXTS; id-- > 0;)
        took[id] = time_stop(&own.end, id);
    conf_ops_check_completed(&own.end, "when context_stop had returned");
    if (state == STILL)
        conf_peer_pause(&own.peer, false);
    if (own.remote != NULL) {
        conf_memory_forget(&own.end, own.remote);
        conf_memory_close(&own.local);
    }
    conf_buffer_put(&own.buffer);
    conf_pair_close(&own.peer, &own.end);
}

static void open_end(struct stop_end *own)
{
    const struct conf_open how = {.contexts = CONTEXTS};
    struct conf_peer_command expose = {
        .kind = CONF_PEER_EXPOSE, .size = BYTES, .mode = NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE};
    struct conf_end *end = &own->end;
    struct conf_peer_reply reply;

    memset(own, 0, sizeof(*own));
    conf_open(end, &how);
    conf_peer_start(&own->peer, NULL);
    conf_peer_meet(&own->peer, end);
    conf_peer_tell(&own->peer, CONF_PEER_LISTEN, CONF_PEER_COUNT, 4);
    conf_buffer_get(&own->buffer, end, conf_max_message(end, true) + conf_header(end, false),
                    NA_PLUGIN_BUF_RECV | NA_PLUGIN_BUF_SEND, false);
    conf_send_wait(end, 0, &own->buffer, conf_header(end, false) + 8, own->peer.addr, 0, 1, false);
    if ((end->info.capabilities & NA_PLUGIN_CAP_RMA) == 0)
        return;
    conf_peer_call(&own->peer, &expose, &reply);
    own->remote = conf_memory_deserialize(end, reply.handle, reply.handle_size);
    conf_memory_open(&own->local, end, BYTES, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
}

/* Posts receives, and unless idle sends and transfers, of which some may be refused. */
static void post_everything(struct stop_end *own, uint32_t id, bool is_idle)
{
    struct conf_end *end = &own->end;
    struct na_plugin_addr *addr = own->peer.addr;

    for (uint32_t i = 0; i < 32; i++)
        conf_must_recv_expected(end, id, conf_op_new(end), &own->buffer, addr, 0, i);
    for (uint32_t i = 0; i < 200 && !is_idle; i++)
        (void) conf_send(end, id, conf_op_new(end), &own->buffer, conf_header(end, false) + 200,
                         addr, 0, i, false);
    for (uint32_t i = 0; i < 4 && !is_idle && own->remote != NULL; i++)
        (void) conf_transfer(end, id, conf_op_new(end), i % 2 != 0, &own->local, 0, own->remote, 0,
                             conf_transfer_most(end, BYTES), addr, 0);
}

/* Measures context_stop without the time in which the thread waited for a processor. The host's
 * clock excludes that time, too, so that waits by that clock are not shortened. */
static uint64_t time_stop(struct conf_end *end, uint32_t id)
{
    const uint64_t entered = conf_enter(CONF_CALL_CONTEXT_STOP);
    const uint64_t from = conf_host_clock_own(true);
    const int32_t status = conf_plugin.table.context_stop(end->contexts[id]);
    const uint64_t took = conf_host()->clock_ns() - from;

    (void) conf_host_clock_own(false);
    conf_leave(CONF_CALL_CONTEXT_STOP, entered);
    conf_require(status == NA_PLUGIN_SUCCESS, "context_stop failed: %s", conf_status_name(status));
    return took;
}

/* The context is stopped ever later in a transfer, and in the last rounds with a stopped peer. */
static void memory(void)
{
    const int rounds = conf_settings.fast ? 5 : 20;
    struct conf_exchange exchange;

    conf_load();
    conf_exchange_open_with(&exchange, 2 * BYTES, 1, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE,
                            &(const struct conf_open){.contexts = CONTEXTS});
    conf_exchange_get(&exchange, 0, 0, 1000, 1);
    for (int round = 0; round < rounds; round++) {
        memory_round(&exchange, round, round + (conf_settings.fast ? 1 : 2) >= rounds);
        conf_memory_register(&exchange.local);
        conf_require(conf_context_create(&exchange.end, 1) == NA_PLUGIN_SUCCESS,
                     "context 1 cannot be made again");
    }
    conf_exchange_close(&exchange);
}

/* The results of the transfers do not matter: the last round may have aborted their connection. */
static void memory_round(struct conf_exchange *exchange, int round, bool is_still)
{
    const uint64_t length = conf_transfer_most(&exchange->end, BYTES);
    struct conf_memory *local = &exchange->local;
    struct conf_end *end = &exchange->end;
    uint32_t count = 0;

    for (uint32_t i = 0; i < 2; i++)
        (void) conf_transfer(end, 1, conf_op_new(end), i == 0, local, i * BYTES, exchange->remote,
                             i * BYTES, length, exchange->peer.addr, 0);
    for (int i = 0; i < 8 * round; i++)
        (void) conf_poll(end, 1, &count);
    if (is_still)
        conf_peer_pause(&exchange->peer, true);
    (void) time_stop(end, 1);
    conf_memory_deregister(local);
    if (round % 2 != 0)
        memory_protect(local, PROT_NONE);
    else
        conf_memory_fill(local, 0, local->size, (uint64_t) round);
    if (is_still)
        conf_peer_pause(&exchange->peer, false);
    conf_progress_ms(is_still ? 200 : 10);
    if (round % 2 != 0)
        memory_protect(local, PROT_READ | PROT_WRITE);
    else
        conf_require(conf_memory_differs(local, 0, local->size, (uint64_t) round) == UINT64_MAX,
                     "the memory of a get whose context was stopped was written to after it was "
                     "deregistered");
    conf_require(conf_plugin.table.context_destroy(end->contexts[1]) == NA_PLUGIN_SUCCESS,
                 "context_destroy failed");
    end->contexts[1] = NULL;
}

/* An access then crashes, as one to freed memory may. */
static void memory_protect(const struct conf_memory *local, int protection)
{
    const uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE);
    const struct conf_block *block = &local->pieces[0];

    conf_require(mprotect(block->map + page, block->map_size - 2 * page, protection) == 0,
                 "memory cannot be protected");
}
