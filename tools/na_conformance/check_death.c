/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the other processes after a process was killed or stopped. */

#include <string.h>

#include "na_conformance/check.h"
#include "na_conformance/exchange.h"
#include "na_conformance/traffic.h"

#define COUNT     100
#define UNNOTICED "the class does not say that it notices the death of a peer"

static void receives(void);
static void sends(void);
static void transfers(void);
static bool transfer_failed(const struct conf_exchange *exchange, struct conf_op *op, bool put,
                            uint64_t offset, uint64_t length);
static void sleeper(void);
static void others(void);
static void flooder(void);
static void stopped(void);
static void notice(void);
static void notice_open(struct conf_traffic *traffic, struct conf_peer *victim);
static void take_lost(void *arg, struct na_plugin_addr *addr, int32_t status);
static void require_notice(struct conf_traffic *traffic);
static bool is_noticed(const struct conf_end *end);
static unsigned int count_failures(struct conf_op **ops, unsigned int count);

const struct conf_check conf_checks_death[] = {
    {1001, "death.recv", "Receives that wait for a process that is killed fail", receives, 0},
    {1002, "death.send", "Sends to a process that is killed end", sends, 0},
    {1003, "death.rma",
     "Transfers with a process that is killed end, with success only if they were done", transfers,
     0},
    {1004, "death.sleeper", "Who sleeps is woken by the death of a process it waits for", sleeper,
     0},
    {1005, "death.others", "The death of one process leaves the others at work", others, 0},
    {1006, "death.sender", "What a process sent before it was killed is whole, or is not there",
     flooder, 0},
    {1007, "death.stopped", "A process that stands still blocks nobody, and goes on afterwards",
     stopped, 0},
    {1008, "death.notice", "The death of a peer is noticed when no operation waits for it", notice,
     0},
    {0, NULL, NULL, NULL, 0},
};

static void receives(void)
{
    struct conf_op *ops[COUNT];
    struct conf_traffic traffic;
    struct conf_buffer in;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    require_notice(&traffic);
    conf_traffic_echo(&traffic, 10, 1);
    conf_buffer_get(&in, &traffic.end, conf_max_message(&traffic.end, true), NA_PLUGIN_BUF_RECV,
                    true);
    for (uint32_t i = 0; i < COUNT; i++) {
        ops[i] = conf_op_new(&traffic.end);
        conf_must_recv_expected(&traffic.end, 0, ops[i], &in, traffic.peer.addr, 0, i);
    }
    conf_progress_ms(20);
    conf_peer_kill(&traffic.peer);
    conf_require(count_failures(ops, COUNT) == COUNT, "a receive from the dead succeeded");
    conf_addr_free(&traffic.end, traffic.peer.addr);
    conf_stop(&traffic.end);
    conf_buffer_put(&in);
    conf_destroy(&traffic.end);
}

/* Sends are queued to a stopped process before it is killed, and posted afterwards. */
static void sends(void)
{
    static struct conf_op *ops[3 * COUNT];
    struct conf_traffic traffic;
    struct conf_buffer out;
    unsigned int count = 0, failed;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 8);
    require_notice(&traffic);
    conf_traffic_number(&traffic, 0, 100, 1);
    conf_peer_expect_count(&traffic.peer, 1);
    conf_buffer_get(&out, &traffic.end, conf_header(&traffic.end, false) + 200, NA_PLUGIN_BUF_SEND,
                    false);
    conf_peer_pause(&traffic.peer, true);
    for (uint32_t i = 0; i < 3 * COUNT; i++) {
        int32_t status;

        if (i == 2 * COUNT) {
            conf_progress_ms(20);
            conf_peer_kill(&traffic.peer);
        }
        ops[count] = conf_op_new(&traffic.end);
        status = conf_send(&traffic.end, 0, ops[count], &out, out.size, traffic.peer.addr, 0,
                           i % 200, false);
        count += status == NA_PLUGIN_SUCCESS;
    }
    failed = count_failures(ops, count);
    conf_note("%u of %u sends failed, %u were refused", failed, count, 3 * COUNT - count);
    conf_addr_free(&traffic.end, traffic.peer.addr);
    conf_stop(&traffic.end);
    conf_buffer_put(&out);
    conf_destroy(&traffic.end);
}

/* Each transfer has its own range, in which the target's bytes differ from ours. */
static void transfers(void)
{
    enum {
        TRANSFERS = 4
    };
    struct conf_exchange exchange;
    struct conf_op *ops[TRANSFERS], *late;
    unsigned int count = 0, failed = 0;
    bool posted[TRANSFERS];
    uint64_t room, length;

    conf_exchange_open(&exchange, 16u << 20, 1, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    if (!is_noticed(&exchange.end))
        conf_exchange_skip(&exchange, UNNOTICED);
    conf_exchange_get(&exchange, 0, 0, 1000, 1);
    room = exchange.size / TRANSFERS;
    length = conf_transfer_most(&exchange.end, room);
    conf_memory_fill(&exchange.local, 0, exchange.size, 3);
    conf_peer_pause(&exchange.peer, true);
    for (unsigned int i = 0; i < TRANSFERS; i++) {
        ops[i] = conf_op_new(&exchange.end);
        posted[i] = conf_transfer(&exchange.end, 0, ops[i], i % 2 != 0, &exchange.local, i * room,
                                  exchange.remote, i * room, length, exchange.peer.addr,
                                  0) == NA_PLUGIN_SUCCESS;
        count += posted[i];
    }
    conf_peer_kill(&exchange.peer);
    late = conf_op_new(&exchange.end);
    for (unsigned int i = 0; i < TRANSFERS; i++)
        failed += posted[i] && transfer_failed(&exchange, ops[i], i % 2 != 0, i * room, length);
    conf_note("%u of %u transfers failed", failed, count);
    if (conf_transfer(&exchange.end, 0, late, false, &exchange.local, 0, exchange.remote, 0, 1000,
                      exchange.peer.addr, 0) == NA_PLUGIN_SUCCESS)
        conf_require(count_failures(&late, 1) == 1, "a get from the dead succeeded");
    conf_memory_forget(&exchange.end, exchange.remote);
    conf_memory_close(&exchange.local);
    conf_addr_free(&exchange.end, exchange.peer.addr);
    conf_close(&exchange.end);
}

/* Whether a transfer with a process that was stopped and then killed failed. If transfers need
 * the target's help, it must fail. */
static bool transfer_failed(const struct conf_exchange *exchange, struct conf_op *op, bool put,
                            uint64_t offset, uint64_t length)
{
    const bool native = (exchange->end.info.capabilities & NA_PLUGIN_CAP_RMA_NATIVE) != 0;

    if (count_failures(&op, 1) == 1)
        return true;
    conf_require(put || conf_memory_differs(&exchange->local, offset, length, 1) == UINT64_MAX,
                 "a get from a process that was killed succeeded, and has other bytes than its");
    conf_require(native,
                 "a %s succeeded whose target was stopped and killed, and transfers are "
                 "emulated",
                 put ? "put" : "get");
    return false;
}

/* Polls only after a wake-up. */
static void sleeper(void)
{
    struct conf_traffic traffic;
    struct conf_buffer in;
    struct conf_op *op;
    uint64_t from;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    require_notice(&traffic);
    if (!conf_can_sleep(&traffic.end))
        conf_traffic_skip(&traffic, "there is nothing to sleep in or on");
    conf_traffic_echo(&traffic, 10, 1);
    op = conf_op_new(&traffic.end);
    conf_buffer_get(&in, &traffic.end, conf_max_message(&traffic.end, true), NA_PLUGIN_BUF_RECV,
                    true);
    conf_must_recv_expected(&traffic.end, 0, op, &in, traffic.peer.addr, 0, 1);
    conf_progress_ms(20);
    conf_peer_kill(&traffic.peer);
    from = conf_now_ms();
    while (!conf_op_is_done(op) && conf_now_ms() - from < 3 * CONF_WAIT_MS) {
        uint32_t count = 0;

        (void) conf_poll(&traffic.end, 0, &count);
        if (conf_op_is_done(op))
            break;
        conf_sleep(&traffic.end, 2 * CONF_WAIT_MS);
    }
    conf_require(conf_op_is_done(op) && conf_now_ms() - from < CONF_WAIT_MS, "it slept for %llu ms",
                 (unsigned long long) (conf_now_ms() - from));
    conf_note("after %llu ms", (unsigned long long) (conf_now_ms() - from));
    conf_addr_free(&traffic.end, traffic.peer.addr);
    conf_stop(&traffic.end);
    conf_buffer_put(&in);
    conf_destroy(&traffic.end);
}

/* Meanwhile receives and a send wait for another process, which is stopped but alive. */
static void others(void)
{
    struct conf_buffer in, out;
    struct conf_traffic traffic;
    struct conf_op *recv, *send;
    struct conf_peer victim;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    conf_traffic_receive(&traffic, 4);
    conf_buffer_get(&in, &traffic.end, conf_max_message(&traffic.end, true), NA_PLUGIN_BUF_RECV,
                    true);
    conf_buffer_get(&out, &traffic.end, conf_header(&traffic.end, false) + 100, NA_PLUGIN_BUF_SEND,
                    false);
    recv = conf_op_new(&traffic.end);
    send = conf_op_new(&traffic.end);
    for (uint32_t i = 0; i < 3; i++) {
        conf_peer_start(&victim, NULL);
        conf_peer_meet(&victim, &traffic.end);
        conf_must_recv_expected(&traffic.end, 0, conf_op_new(&traffic.end), &in, victim.addr, 0, 1);
        conf_must_recv_expected(&traffic.end, 0, recv, &in, traffic.peer.addr, 0, 200);
        conf_traffic_echo(&traffic, 100, i);
        conf_peer_pause(&traffic.peer, true);
        conf_must_send(&traffic.end, 0, send, &out, out.size, traffic.peer.addr, 0, 100, false);
        conf_peer_kill(&victim);
        conf_progress_ms(100);
        conf_peer_pause(&traffic.peer, false);
        for (uint32_t j = 0; j < 50; j++) {
            conf_traffic_echo(&traffic, 100, j);
            conf_progress_ms(2);
        }
        conf_wait_ok(send, "a send to another process than the one that died");
        conf_require(!conf_op_is_done(recv) && !conf_traffic_first_is_done(&traffic),
                     "a receive of something else than what died was completed");
        conf_peer_send(&traffic.peer, CONF_PEER_SEND, &traffic.end, CONF_PEER_EXPECTED, 1, 100,
                       200);
        conf_wait_ok(recv, "an expected receive from another process than the one that died");
        conf_peer_send(&traffic.peer, CONF_PEER_SEND, &traffic.end, CONF_PEER_UNEXPECTED, 1, 100,
                       0);
        conf_traffic_take(&traffic, 0, 100, false);
        conf_addr_free(&traffic.end, victim.addr);
    }
    conf_stop(&traffic.end);
    conf_buffer_put(&in);
    conf_buffer_put(&out);
    conf_traffic_close(&traffic);
}

/* Each message that arrived is checked, and another process must get through afterwards. */
static void flooder(void)
{
    struct conf_traffic traffic;
    struct conf_peer victim;
    uint32_t arrived = 0;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 8);
    conf_peer_start(&victim, NULL);
    conf_peer_meet(&victim, &traffic.end);
    conf_traffic_receive(&traffic, 32);
    conf_peer_send(&victim, CONF_PEER_START, &traffic.end, CONF_PEER_UNEXPECTED, 1000000, 200, 0);
    for (; arrived < 500; arrived++)
        conf_traffic_take(&traffic, arrived, 200, false);
    conf_peer_kill(&victim);
    for (uint64_t until = conf_now_ms() + 500; conf_now_ms() < until;) {
        conf_progress();
        if (!conf_traffic_first_is_done(&traffic))
            continue;
        conf_traffic_take(&traffic, arrived++, 200, false);
        until = conf_now_ms() + 500;
    }
    conf_addr_free(&traffic.end, victim.addr);
    conf_peer_send(&traffic.peer, CONF_PEER_SEND, &traffic.end, CONF_PEER_UNEXPECTED, 1, 100, 0);
    conf_traffic_take(&traffic, 0, 100, false);
    conf_note("%u messages arrived", arrived);
    conf_traffic_close(&traffic);
}

/* The watch call.blocks detects calls that wait for the stopped process. */
static void stopped(void)
{
    struct conf_traffic traffic;
    struct conf_peer other;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 8);
    conf_peer_start(&other, NULL);
    conf_traffic_number(&traffic, 0, 100, 1);
    conf_peer_expect_count(&traffic.peer, 1);
    conf_peer_tell(&traffic.peer, CONF_PEER_LISTEN, CONF_PEER_COUNT, 8);
    conf_peer_pause(&traffic.peer, true);
    for (uint32_t i = 0; i < CONF_TRAFFIC_WINDOW; i++) {
        const uint64_t header = conf_header(&traffic.end, false), number = i;

        traffic.sends[i] = conf_op_new(&traffic.end);
        conf_buffer_get(&traffic.out[i], &traffic.end, header + 200, NA_PLUGIN_BUF_SEND, false);
        memcpy(traffic.out[i].data + header, &number, sizeof(number));
        conf_fill(traffic.out[i].data + header + sizeof(number), 200 - sizeof(number), number);
        conf_must_send(&traffic.end, 0, traffic.sends[i], &traffic.out[i], header + 200,
                       traffic.peer.addr, 0, 1, false);
    }
    conf_traffic_receive(&traffic, 4);
    conf_peer_send(&other, CONF_PEER_SEND, &traffic.end, CONF_PEER_UNEXPECTED, 20, 100, 0);
    for (uint32_t i = 0; i < 20; i++)
        conf_traffic_take(&traffic, i, 100, false);
    conf_progress_ms(conf_settings.fast ? 500 : 3000);
    conf_peer_pause(&traffic.peer, false);
    for (uint32_t i = 0; i < CONF_TRAFFIC_WINDOW; i++)
        conf_wait_ok(traffic.sends[i], "a send to a process that stood still");
    conf_peer_expect_count(&traffic.peer, CONF_TRAFFIC_WINDOW);
    conf_peer_stop(&other);
    conf_traffic_close(&traffic);
}

/* The last report of na.peer_events/1. */
static struct {
    atomic_uint count;
    struct na_plugin_addr *addr;
    int32_t status;
} lost;

static const struct na_plugin_peer_events *peer_events;

/* Peers die while we poll, and while we sleep. A living peer is not reported, nor one that dies
 * after reports are switched off. */
static void notice(void)
{
    struct conf_traffic traffic;
    struct conf_end *end = &traffic.end;
    struct conf_peer victims[3];
    uint32_t count = 0;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 4);
    if (conf_plugin.table.get_extension != NULL)
        peer_events = conf_plugin.table.get_extension(NA_PLUGIN_EXT_PEER_EVENTS);
    if (peer_events == NULL || peer_events->peer_events_set == NULL)
        conf_traffic_skip(&traffic, "there is no " NA_PLUGIN_EXT_PEER_EVENTS);
    conf_traffic_echo(&traffic, 10, 1);
    conf_traffic_receive(&traffic, 4);
    notice_open(&traffic, &victims[0]);
    conf_require(peer_events->peer_events_set(end->na_class, take_lost, &lost) == NA_PLUGIN_SUCCESS,
                 "peer_events_set failed");
    for (uint32_t i = 1; i < 3; i++)
        notice_open(&traffic, &victims[i]);
    conf_progress_ms(50);
    for (uint32_t i = 0; i < 2; i++) {
        conf_require(atomic_load(&lost.count) == i, "a peer that lives was reported as lost");
        conf_peer_kill(&victims[i]);
        for (uint64_t until = conf_now_ms() + CONF_WAIT_MS;
             atomic_load(&lost.count) == i && conf_now_ms() < until;) {
            if (i == 0) {
                conf_progress_ms(1);
                continue;
            }
            conf_sleep(end, CONF_WAIT_MS);
            (void) conf_poll(end, 0, &count);
        }
        conf_require(atomic_load(&lost.count) == i + 1,
                     "the death of a peer was not noticed in %u ms, when the process %s",
                     CONF_WAIT_MS, i == 0 ? "polled" : "slept");
        conf_require(conf_addr_same(end, lost.addr, victims[i].addr),
                     "another peer was reported as lost than the one that was killed");
        conf_require(lost.status == NA_PLUGIN_HOSTUNREACH, "a peer was reported as lost with %s",
                     conf_status_name(lost.status));
        conf_addr_free(end, lost.addr);
        conf_addr_free(end, victims[i].addr);
    }
    conf_traffic_echo(&traffic, 10, 2);
    conf_require(peer_events->peer_events_set(end->na_class, NULL, NULL) == NA_PLUGIN_SUCCESS,
                 "peer_events_set failed");
    conf_peer_kill(&victims[2]);
    conf_progress_ms(500);
    conf_require(atomic_load(&lost.count) == 2, "a peer was reported when none was to be any more");
    conf_addr_free(end, victims[2].addr);
    conf_traffic_close(&traffic);
}

/* Starts a peer, and receives a message from it. */
static void notice_open(struct conf_traffic *traffic, struct conf_peer *victim)
{
    conf_peer_start(victim, NULL);
    conf_peer_meet(victim, &traffic->end);
    conf_peer_send(victim, CONF_PEER_SEND, &traffic->end, CONF_PEER_UNEXPECTED, 1, 100, 0);
    conf_traffic_take(traffic, 0, 100, false);
}

static void take_lost(void *arg, struct na_plugin_addr *addr, int32_t status)
{
    conf_require(arg == &lost, "a peer was reported as lost with another argument");
    lost.addr = addr;
    lost.status = status;
    (void) atomic_fetch_add(&lost.count, 1);
}

static void require_notice(struct conf_traffic *traffic)
{
    if (!is_noticed(&traffic->end))
        conf_traffic_skip(traffic, UNNOTICED);
}

static bool is_noticed(const struct conf_end *end)
{
    return (end->info.capabilities & NA_PLUGIN_CAP_PEER_DEATH) != 0;
}

/* All operations must end, with success or because of the death. Returns the number of failures. */
static unsigned int count_failures(struct conf_op **ops, unsigned int count)
{
    unsigned int failed = 0;

    for (unsigned int i = 0; i < count; i++) {
        conf_require(conf_wait_for(ops[i], CONF_WAIT_MS),
                     "operation %u of %u with the dead has not ended in %u ms", i, count,
                     CONF_WAIT_MS);
        failed += ops[i]->status != NA_PLUGIN_SUCCESS;
    }
    return failed;
}
