/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of cancelling: each operation has exactly one completion, whenever it is cancelled. */

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "na_conformance/check.h"
#include "na_conformance/exchange.h"
#include "na_conformance/traffic.h"

#define FILLING_MOST 65536u /* payload size of a message that is cancelled while it arrives */

static void receives(void);
static void receives_of(struct conf_end *end, bool expected);
static void sends(void);
static void transfers(void);
static void following(void);
static void finished(void);
static void foreign(void);
static void multi(void);
static void reused(void);
static void answers(void);
static void filling(void);
static unsigned int answers_of(uint64_t most, unsigned int times, bool untouched);
static void wait_for_first_byte(const struct conf_op *op, const volatile uint8_t *first);
static void buffer_require(const struct conf_buffer *buffer, uint8_t byte, const char *when);
static void trusted_receives(void);
static void trusted_sends(void);
static void trusted_transfers(void);
static void trusted_finished(void);
static void trusted_races(void);
static void races(void);
static void races_of(bool expected, unsigned int times);
static void *race_canceller(void *arg);
static void race_once(struct conf_end *end, struct conf_op *op, struct conf_op *send,
                      const struct conf_buffer *out, struct conf_buffer *in, bool expected,
                      uint32_t tag);
static void cancel_wait(struct conf_end *end, struct conf_op *op, const char *what);

const struct conf_check conf_checks_cancel[] = {
    {701, "cancel.recv",
     "A cancelled receive is completed as cancelled, and the next one is filled", receives, 0},
    {702, "cancel.send", "Queued sends are cancelled: what was cancelled is not sent, the rest is",
     sends, 0},
    {703, "cancel.rma", "A cancelled transfer is completed, and touches no memory afterwards",
     transfers, 180},
    {704, "cancel.finished", "Cancelling what is completed succeeds and completes nothing again",
     finished, 0},
    {705, "cancel.foreign", "Cancelling what was never posted does no harm", foreign, 0},
    {706, "cancel.multi", "A cancelled multi-receive ends once", multi, 0},
    {707, "cancel.reused", "An operation is used again as soon as its cancellation is completed",
     reused, 0},
    {708, "cancel.answer", "A message that comes after its receive was cancelled is not written",
     answers, 0},
    {709, "cancel.race", "Cancelled while its message arrives, a receive is completed exactly once",
     races, 900},
    {710, "cancel.rma.next",
     "What is still under way of a cancelled get does not reach the next one", following, 180},
    {711, "cancel.filling",
     "A receive that is cancelled while it is filled is not written to after its completion",
     filling, 0},
    {712, "cancel.trusted.recv", "As cancel.recv, by cancel_trusted", trusted_receives, 0},
    {713, "cancel.trusted.send", "As cancel.send, by cancel_trusted", trusted_sends, 0},
    {714, "cancel.trusted.rma", "As cancel.rma, by cancel_trusted", trusted_transfers, 180},
    {715, "cancel.trusted.finished", "As cancel.finished, by cancel_trusted", trusted_finished, 0},
    {716, "cancel.trusted.race", "As cancel.race, by cancel_trusted", trusted_races, 900},
    {0, NULL, NULL, NULL, 0},
};

static void receives(void)
{
    struct conf_end end;

    conf_load();
    conf_open(&end, NULL);
    receives_of(&end, false);
    receives_of(&end, true);
    conf_close(&end);
}

static void receives_of(struct conf_end *end, bool expected)
{
    const uint64_t header = conf_header(end, expected);
    struct conf_buffer in[3], out;
    struct conf_op *ops[3];

    conf_buffer_get(&out, end, header + 64, NA_PLUGIN_BUF_SEND, expected);
    conf_fill(out.data + header, 64, 9);
    for (int i = 0; i < 3; i++) {
        ops[i] = conf_op_new(end);
        conf_buffer_get(&in[i], end, header + 64, NA_PLUGIN_BUF_RECV, expected);
        memset(in[i].data, 0xee, header + 64);
        if (expected)
            conf_must_recv_expected(end, 0, ops[i], &in[i], end->self, 0, 9);
        else
            conf_must_recv(end, 0, ops[i], &in[i]);
    }
    for (int i = 1; i >= 0; i--) {
        cancel_wait(end, ops[i], "a cancelled receive");
        conf_require(ops[i]->status == NA_PLUGIN_CANCELED, "a cancelled receive ended with %s",
                     conf_status_name(ops[i]->status));
    }
    conf_send_wait(end, 0, &out, header + 64, end->self, 0, 9, expected);
    conf_wait_ok(ops[2], "the receive behind two cancelled ones");
    conf_require(conf_is_filled(in[2].data + header, 64, 9) < 0, "it has other content");
    for (int i = 0; i < 2; i++)
        conf_require(in[i].data[header] == 0xee && in[i].data[header + 63] == 0xee,
                     "the buffer of a cancelled receive was written to");
    if (!expected)
        conf_addr_free(end, ops[2]->source);
    for (int i = 0; i < 3; i++)
        conf_buffer_put(&in[i]);
    conf_buffer_put(&out);
}

/* The peer is stopped, so that sends queue. The numbers received must increase, with gaps for
 * cancelled sends. */
static void sends(void)
{
    enum {
        SENDS = 4000, /* 16 MB: more than the kernel buffers for a stopped peer, */
        MUCH = 4000   /* unless it buffers that many bytes for each */
    };
    static struct conf_buffer out[SENDS];
    static struct conf_op *ops[SENDS];
    uint32_t canceled = 0, sent = 0;
    struct conf_traffic traffic;
    uint64_t header, size;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 32);
    header = conf_header(&traffic.end, false);
    size = conf_max_payload(&traffic.end) < MUCH ? conf_max_payload(&traffic.end) : MUCH;
    conf_traffic_number(&traffic, 0, 100, 0);
    conf_peer_expect_count(&traffic.peer, 1);
    conf_peer_tell(&traffic.peer, CONF_PEER_LISTEN, CONF_PEER_COUNT, 32);
    conf_peer_pause(&traffic.peer, true);
    for (uint64_t i = 0; i < SENDS; i++) {
        conf_buffer_get(&out[i], &traffic.end, header + size, NA_PLUGIN_BUF_SEND, false);
        memcpy(out[i].data + header, &i, sizeof(i));
        conf_fill(out[i].data + header + sizeof(i), size - sizeof(i), i);
        ops[i] = conf_op_new(&traffic.end);
        conf_must_send(&traffic.end, 0, ops[i], &out[i], header + size, traffic.peer.addr, 0,
                       (uint32_t) i % 200, false);
    }
    for (uint32_t i = 1; i < SENDS; i += 1 + i % 3)
        conf_require(conf_cancel(&traffic.end, 0, ops[i]) == NA_PLUGIN_SUCCESS, "cancel failed");
    conf_peer_pause(&traffic.peer, false);
    for (uint32_t i = 0; i < SENDS; i++) {
        conf_wait(ops[i], "a send, cancelled or not");
        conf_require(ops[i]->status == NA_PLUGIN_SUCCESS || ops[i]->status == NA_PLUGIN_CANCELED,
                     "a send ended with %s", conf_status_name(ops[i]->status));
        canceled += ops[i]->status == NA_PLUGIN_CANCELED;
        sent += ops[i]->status == NA_PLUGIN_SUCCESS;
    }
    conf_peer_expect_count(&traffic.peer, sent);
    conf_require(canceled > 0 || size < MUCH ||
                     (traffic.end.info.capabilities & NA_PLUGIN_CAP_CANCEL_SEND) == 0,
                 "the class says that it cancels sends, and cancelled none of many");
    conf_note("%u of %u were cancelled", canceled, SENDS);
    conf_traffic_close(&traffic);
    for (uint32_t i = 0; i < SENDS; i++)
        conf_block_unmap(&out[i].block);
}

/* Transfers are cancelled in every phase, that is after different numbers of polls. A late piece
 * would overwrite the new content of the buffer. */
static void transfers(void)
{
    const unsigned int times = conf_settings.fast ? 60 : 600;
    unsigned int canceled = 0;
    struct conf_exchange exchange;

    conf_exchange_open(&exchange, conf_settings.fast ? 1u << 20 : 4u << 20, 1, 1,
                       NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    for (unsigned int i = 0; i < times; i++) {
        const uint64_t length = conf_transfer_most(&exchange.end, exchange.size);
        struct conf_op *op = conf_op_new(&exchange.end);

        conf_memory_fill(&exchange.local, 0, length, 1);
        conf_require(conf_transfer(&exchange.end, 0, op, i % 2 != 0, &exchange.local, 0,
                                   exchange.remote, 0, length, exchange.peer.addr,
                                   0) == NA_PLUGIN_SUCCESS,
                     "a transfer was refused");
        for (unsigned int j = 0; j < i % 60 / 2; j++)
            conf_progress();
        cancel_wait(&exchange.end, op, "a cancelled transfer");
        conf_require(op->status == NA_PLUGIN_CANCELED || op->status == NA_PLUGIN_SUCCESS,
                     "a cancelled transfer ended with %s", conf_status_name(op->status));
        canceled += op->status == NA_PLUGIN_CANCELED;
        conf_memory_fill(&exchange.local, 0, length, 2); /* it belongs to us again */
        conf_progress_ms(i % 10 < 2 ? 20 : 0);
        conf_require(conf_memory_differs(&exchange.local, 0, length, 2) == UINT64_MAX,
                     "memory was written to after the %s of it had been completed",
                     i % 2 ? "put" : "get");
    }
    conf_note("%u of %u were cancelled", canceled, times);
    conf_exchange_close(&exchange);

    /* Other memory, because late pieces of a cancelled put may still reach the old one. */
    conf_exchange_open_loaded(&exchange, 1u << 20, 1, 1, NA_PLUGIN_MEM_READ);
    conf_exchange_fill_there(&exchange, 5);
    conf_exchange_get(&exchange, 0, 0, exchange.size, 5);
    conf_exchange_close(&exchange);
}

/* The next get has other bytes at another place, so late pieces of a cancelled one are detected. */
static void following(void)
{
    const unsigned int times = conf_settings.fast ? 40 : 400;
    unsigned int canceled = 0;
    struct conf_exchange exchange;
    uint64_t length;

    conf_exchange_open(&exchange, 1u << 20, 1, 1, NA_PLUGIN_MEM_READ);
    length = conf_transfer_most(&exchange.end, exchange.size / 4);
    for (unsigned int i = 0; i < times; i++) {
        struct conf_op *op = conf_op_new(&exchange.end);

        conf_memory_fill(&exchange.local, 0, exchange.size, 2);
        conf_require(conf_transfer(&exchange.end, 0, op, false, &exchange.local, 0, exchange.remote,
                                   0, length, exchange.peer.addr, 0) == NA_PLUGIN_SUCCESS,
                     "a get was refused");
        for (unsigned int j = 0; j < i % 40 / 2; j++)
            conf_progress();
        cancel_wait(&exchange.end, op, "a cancelled get");
        canceled += op->status == NA_PLUGIN_CANCELED;
        conf_exchange_get(&exchange, exchange.size / 2 + 4099, exchange.size / 2 + 4099, length, 1);
    }
    conf_note("%u of %u were cancelled", canceled, times);
    conf_exchange_close(&exchange);
}

static void finished(void)
{
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    for (uint32_t i = 0; i < 200; i++) {
        conf_traffic_echo(&traffic, 64, i);
        conf_require(conf_cancel(&traffic.end, 0, traffic.echo_op) == NA_PLUGIN_SUCCESS &&
                         conf_cancel(&traffic.end, 0, traffic.end.sender) == NA_PLUGIN_SUCCESS,
                     "cancelling what is completed failed");
        conf_progress();
    }
    conf_progress_ms(20);
    conf_traffic_close(&traffic);
}

static void foreign(void)
{
    struct conf_buffer in;
    struct conf_end end;
    struct conf_op *op;

    conf_load();
    conf_open(&end, NULL);
    conf_buffer_get(&in, &end, conf_max_message(&end, false), NA_PLUGIN_BUF_RECV, false);
    op = conf_op_new(&end);
    conf_must_recv(&end, 0, op, &in);
    for (int i = 0; i < 100; i++)
        (void) conf_cancel(&end, 0, conf_op_new(&end));
    conf_progress_ms(20);
    conf_require(!conf_op_is_done(op), "another operation was completed");
    conf_stop(&end);
    conf_buffer_put(&in);
    conf_destroy(&end);
}

static void multi(void)
{
    struct conf_buffer in;
    struct conf_end end;
    struct conf_op *op;

    conf_load();
    if (conf_plugin.multi_recv == NULL)
        conf_skip("there is no multi-receive");
    conf_open(&end, NULL);
    conf_buffer_get(&in, &end, 2 * conf_max_message(&end, false),
                    NA_PLUGIN_BUF_RECV | NA_PLUGIN_BUF_MULTI_RECV, false);
    op = conf_op_new(&end);
    for (int i = 0; i < 50; i++) {
        conf_require(conf_recv_multi(&end, 0, op, &in, in.size, NULL, NULL) == NA_PLUGIN_SUCCESS,
                     "a multi-receive was refused");
        cancel_wait(&end, op, "a cancelled multi-receive");
        conf_require(op->status == NA_PLUGIN_CANCELED, "it ended with %s",
                     conf_status_name(op->status));
    }
    conf_stop(&end);
    conf_buffer_put(&in);
    conf_destroy(&end);
}

static void reused(void)
{
    const unsigned int times = conf_settings.fast ? 2000 : 100000;
    struct conf_buffer in;
    struct conf_end end;
    struct conf_op *op;

    conf_load();
    conf_open(&end, NULL);
    conf_buffer_get(&in, &end, conf_max_message(&end, true), NA_PLUGIN_BUF_RECV, true);
    op = conf_op_new(&end);
    for (unsigned int i = 0; i < times; i++) {
        if (i % 2)
            conf_must_recv(&end, 0, op, &in);
        else
            conf_must_recv_expected(&end, 0, op, &in, end.self, 0, i % 100);
        cancel_wait(&end, op, "a cancelled receive");
        conf_require(op->status == NA_PLUGIN_CANCELED, "it ended with %s",
                     conf_status_name(op->status));
    }
    conf_stop(&end);
    conf_buffer_put(&in);
    conf_destroy(&end);
}

static void answers(void)
{
    const unsigned int times = conf_settings.fast ? 500 : 20000;

    conf_note("%u of %u were cancelled", answers_of(64, times, true), times);
}

/* The largest messages may arrive in pieces. */
static void filling(void)
{
    const unsigned int times = conf_settings.fast ? 400 : 10000;

    conf_note("%u of %u were cancelled", answers_of(FILLING_MOST, times, false), times);
}

/* Cancels receives of answers that are requested, under way or complete. `untouched`: the buffer
 * of a cancelled receive must be unchanged; otherwise it must not change after the completion. */
static unsigned int answers_of(uint64_t most, unsigned int times, bool untouched)
{
    struct conf_buffer in, out;
    struct conf_traffic traffic;
    unsigned int canceled = 0;
    struct conf_op *op;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 32);
    if (most > conf_max_payload(&traffic.end))
        most = conf_max_payload(&traffic.end);
    conf_buffer_get(&in, &traffic.end, conf_header(&traffic.end, true) + most, NA_PLUGIN_BUF_RECV,
                    true);
    conf_buffer_get(&out, &traffic.end, conf_header(&traffic.end, false) + most, NA_PLUGIN_BUF_SEND,
                    false);
    memset(out.data + conf_header(&traffic.end, false), 1, most);
    op = conf_op_new(&traffic.end);
    for (unsigned int i = 0; i < times; i++) {
        memset(in.data, 0xee, in.size);
        conf_must_recv_expected(&traffic.end, 0, op, &in, traffic.peer.addr, 0, i % 200);
        conf_send_wait(&traffic.end, 0, &out, out.size, traffic.peer.addr, 0, i % 200, false);
        for (unsigned int j = 0; j < i % 40; j++)
            conf_progress();
        if (!untouched && i % 2 == 0)
            wait_for_first_byte(op, in.data + conf_header(&traffic.end, true));
        cancel_wait(&traffic.end, op, "a cancelled receive");
        conf_require(op->status == NA_PLUGIN_CANCELED || op->status == NA_PLUGIN_SUCCESS,
                     "it ended with %s", conf_status_name(op->status));
        canceled += op->status == NA_PLUGIN_CANCELED;
        if (!untouched) /* after the completion the buffer is ours, even if it is half filled */
            memset(in.data, 0xdd, in.size);
        else if (op->status != NA_PLUGIN_CANCELED)
            continue;
        for (unsigned int j = 0; j < 30; j++)
            conf_progress();
        buffer_require(&in, untouched ? 0xee : 0xdd,
                       op->status == NA_PLUGIN_CANCELED ? "cancellation" : "completion");
    }
    conf_stop(&traffic.end);
    conf_buffer_put(&in);
    conf_buffer_put(&out);
    conf_traffic_close(&traffic);
    return canceled;
}

/* Returns also if the operation completes, for instance with the whole message at once. */
static void wait_for_first_byte(const struct conf_op *op, const volatile uint8_t *first)
{
    const uint8_t before = *first;
    const uint64_t until = conf_now_ms() + CONF_WAIT_MS;

    while (*first == before && !conf_op_is_done(op) && conf_now_ms() < until)
        conf_progress();
}

static void buffer_require(const struct conf_buffer *buffer, uint8_t byte, const char *when)
{
    for (uint64_t i = 0; i < buffer->size; i++)
        if (buffer->data[i] != byte)
            conf_fail("the buffer was written to at byte %llu after the %s", (unsigned long long) i,
                      when);
}

/* Our operations are posted again only after cancel has returned, as cancel_trusted requires. */
static void trusted_receives(void)
{
    conf_cancel_trusted();
    receives();
}

static void trusted_sends(void)
{
    conf_cancel_trusted();
    sends();
}

static void trusted_transfers(void)
{
    conf_cancel_trusted();
    transfers();
}

static void trusted_finished(void)
{
    conf_cancel_trusted();
    finished();
}

static void trusted_races(void)
{
    conf_cancel_trusted();
    races();
}

static void races(void)
{
    const unsigned int times = conf_settings.fast ? 20000 : 1000000;

    conf_load();
    races_of(true, times / 2);
    races_of(false, times / 2);
}

/* Shared with the thread that cancels. */
static _Atomic uint32_t race_round, race_answered;
static struct conf_end *race_end;
static struct conf_op *race_op;

static void races_of(bool expected, unsigned int times)
{
    struct conf_buffer in, out;
    unsigned int canceled = 0;
    struct conf_op *op, *send;
    pthread_t thread;
    struct conf_end end;

    conf_open(&end, NULL);
    race_end = &end;
    race_op = op = conf_op_new(&end);
    send = conf_op_new(&end);
    atomic_store(&race_round, 0);
    atomic_store(&race_answered, 0);
    conf_buffer_get(&in, &end, conf_header(&end, expected) + 16, NA_PLUGIN_BUF_RECV, expected);
    conf_buffer_get(&out, &end, conf_header(&end, expected) + 16, NA_PLUGIN_BUF_SEND, expected);
    conf_require(pthread_create(&thread, NULL, race_canceller, NULL) == 0, "no thread");
    for (unsigned int i = 1; i <= times; i++) {
        race_once(&end, op, send, &out, &in, expected, i % 250);
        canceled += op->status == NA_PLUGIN_CANCELED;
    }
    atomic_store(&race_round, UINT32_MAX);
    (void) pthread_join(thread, NULL);
    conf_stop(&end);
    conf_buffer_put(&in);
    conf_buffer_put(&out);
    conf_destroy(&end);
    conf_note("%u races, of the last half the cancellation won %u%s", times * 2, canceled,
              conf_settings.fast ? "; without --fast there are 1000000" : "");
}

/* Cancels after varying delays: before the send, during delivery, or after it. */
static void *race_canceller(void *arg)
{
    uint32_t last = 0;

    for (;;) {
        uint32_t round = atomic_load_explicit(&race_round, memory_order_acquire);

        if (round == UINT32_MAX)
            return arg;
        if (round == last) {
            (void) sched_yield();
            continue;
        }
        last = round;
        for (volatile uint32_t i = 0; i < round * 2654435761u >> 22; i++)
            ;
        (void) conf_cancel_aside(race_end, 0, race_op);
        atomic_store_explicit(&race_answered, round, memory_order_release);
    }
}

static void race_once(struct conf_end *end, struct conf_op *op, struct conf_op *send,
                      const struct conf_buffer *out, struct conf_buffer *in, bool expected,
                      uint32_t tag)
{
    const uint32_t round = atomic_load(&race_round) + 1;

    if (expected)
        conf_must_recv_expected(end, 0, op, in, end->self, 0, tag);
    else
        conf_must_recv(end, 0, op, in);
    atomic_store_explicit(&race_round, round, memory_order_release);
    if (round % 4 == 0)
        (void) sched_yield(); /* the cancelling thread may need this processor */
    for (volatile uint32_t i = 0; i < round * 40503u % 4096; i++)
        ;
    conf_must_send(end, 0, send, out, out->size, end->self, 0, tag, expected);
    conf_wait_ok(send, "a send to oneself");
    conf_wait(op, "a receive that was cancelled while its message arrived");
    while (atomic_load_explicit(&race_answered, memory_order_acquire) != round)
        (void) sched_yield();
    conf_require(op->status == NA_PLUGIN_SUCCESS || op->status == NA_PLUGIN_CANCELED,
                 "it ended with %s", conf_status_name(op->status));
    if (expected)
        return;
    if (op->status == NA_PLUGIN_CANCELED) { /* the message is deferred for the next receive */
        conf_must_recv(end, 0, op, in);
        conf_wait_ok(op, "the receive after a cancelled one");
        conf_addr_free(end, op->source);
        op->status = NA_PLUGIN_CANCELED;
    } else {
        conf_addr_free(end, op->source);
    }
}

static void cancel_wait(struct conf_end *end, struct conf_op *op, const char *what)
{
    int32_t status = conf_cancel(end, 0, op);

    conf_require(status == NA_PLUGIN_SUCCESS, "cancel returned %s", conf_status_name(status));
    conf_wait(op, what);
}
