/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between connected endpoints: order, aggregation in frames, matching, limits. */

#include "msg_sim.h"

#include <stdlib.h>
#include <string.h>

#define BURST 100u

/* Sends whose order and size the receiver can check: each has its number, then padding. */
struct burst {
    struct sim_op sends[BURST];
    struct sim_op receives[BURST];
    uint32_t out[BURST][16];
    uint32_t in[BURST][16];
};

static void burst_send(struct sim_pair *pair, struct burst *burst, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        burst->out[i][0] = i;
        assert_int_equal(kit_msg_send_unexpected(pair->ca, &burst->sends[i], burst->out[i], 64,
                                                 NULL, pair->b_at_a, 0, i),
                         0);
    }
}

static void burst_receive(struct sim_pair *pair, struct burst *burst, uint32_t first,
                          uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        assert_int_equal(
            kit_msg_recv_unexpected(pair->cb, &burst->receives[i], burst->in[i], 64, NULL), 0);
}

static void burst_check(struct sim_pair *pair, struct burst *burst)
{
    sim_poll_until(pair->ca, pair->cb, &burst->receives[BURST - 1]);
    sim_poll(pair->ca, pair->cb, 20);
    for (uint32_t i = 0; i < BURST; i++) {
        assert_int_equal(burst->sends[i].completions, 1);
        assert_int_equal(burst->sends[i].status, 0);
        assert_int_equal(burst->receives[i].completions, 1);
        assert_int_equal(burst->receives[i].status, 0);
        assert_int_equal(burst->receives[i].tag, i);
        assert_int_equal(burst->in[i][0], i);
        kit_msg_addr_free(pair->b, burst->receives[i].source);
    }
}

static void test_first_message(void **state)
{
    struct sim_pair *pair = *state;

    assert_int_equal(pair->a->hellos, 1);
    /* The message shares the frame of the HELLO; with a key it waits until both sides have proved
     * the key. */
    assert_int_equal(pair->a->frames, sim_key() == NULL ? 1 : 3);
    assert_string_equal(msg_peer_of(pair->a_at_b)->base.name, "a");
    assert_string_equal(msg_peer_of(pair->a_at_b)->base.raw, "a");
    assert_int_equal(msg_peer_of(pair->a_at_b)->base.local, 1);
}

static void test_request_and_response(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op request = {0}, response = {0}, receive = {0}, answer = {0};
    char buf[64], out[64];

    assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receive, buf, sizeof(buf), NULL), 0);
    assert_int_equal(
        kit_msg_recv_expected(pair->ca, &answer, out, sizeof(out), NULL, pair->b_at_a, 0, 9), 0);
    assert_int_equal(
        kit_msg_send_unexpected(pair->ca, &request, "ping", 5, NULL, pair->b_at_a, 0, 9), 0);
    sim_poll_until(pair->ca, pair->cb, &receive);
    assert_string_equal(buf, "ping");
    assert_int_equal(receive.tag, 9);
    assert_ptr_equal(receive.source, pair->a_at_b);
    assert_int_equal(
        kit_msg_send_expected(pair->cb, &response, "pong", 5, NULL, receive.source, 0, 9), 0);
    sim_poll_until(pair->ca, pair->cb, &answer);
    assert_string_equal(out, "pong");
    assert_int_equal(answer.size, 5);
    assert_int_equal(response.completions, 1);
    kit_msg_addr_free(pair->b, receive.source);
}

static void test_empty_message(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op send = {0}, receive = {0};

    assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receive, NULL, 0, NULL), 0);
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &send, NULL, 0, NULL, pair->b_at_a, 0, 3),
                     0);
    sim_poll_until(pair->ca, pair->cb, &receive);
    assert_int_equal(receive.status, 0);
    assert_int_equal(receive.size, 0);
    kit_msg_addr_free(pair->b, receive.source);
}

/* With one message at a time, each has its own frame and leaves at once. */
static void test_no_delay_at_depth_one(void **state)
{
    struct sim_pair *pair = *state;
    uint32_t frames = pair->a->frames;
    struct burst *burst = calloc(1, sizeof(*burst));

    assert_non_null(burst);
    burst_receive(pair, burst, 0, BURST);
    for (uint32_t i = 0; i < BURST; i++) {
        burst_send(pair, burst, i, 1);
        assert_int_equal(burst->sends[i].completions, 1);
        assert_int_equal(pair->a->frames, frames + i + 1);
    }
    burst_check(pair, burst);
    free(burst);
}

static void test_messages_share_frames(void **state)
{
    struct sim_pair *pair = *state;
    uint32_t frames = pair->a->frames;
    struct burst *burst = calloc(1, sizeof(*burst));

    assert_non_null(burst);
    pair->a->delay = 3;
    burst_receive(pair, burst, 0, BURST);
    burst_send(pair, burst, 0, BURST);
    assert_int_equal(pair->a->frames, frames + 1);
    assert_int_equal(burst->sends[0].completions, 0);
    burst_check(pair, burst);
    /* 80 bytes each after a header of 24 bytes: 50 in a frame */
    assert_int_equal(pair->a->frames, frames + 3);
    free(burst);
}

/* A copied frame counts as in flight until the next poll; the next frame leaves before that. */
static void test_copied_frames(void **state)
{
    struct sim_pair *pair = *state;
    const uint32_t frames = pair->a->frames;
    struct burst *burst = calloc(1, sizeof(*burst));
    uint32_t count = 0;

    assert_non_null(burst);
    pair->a->is_copying = true;
    burst_receive(pair, burst, 0, BURST);
    burst_send(pair, burst, 0, 20);
    assert_int_equal(pair->a->frames, frames + 1);
    assert_int_equal(burst->sends[0].completions, 0);
    assert_int_equal(kit_msg_poll_try_wait(pair->ca), 0);
    assert_int_equal(kit_msg_poll(pair->ca, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(pair->a->polled_frames, frames + 2);
    assert_int_equal(burst->sends[0].completions, 1);
    assert_int_equal(burst->sends[1].completions, 0);
    burst_send(pair, burst, 20, BURST - 20);
    burst_check(pair, burst);
    /* One message in the first frame, 19 in the second, 50 in the third. */
    assert_int_equal(pair->a->frames, frames + 4);
    free(burst);
}

static void test_back_pressure(void **state)
{
    struct sim_pair *pair = *state;
    struct burst *burst = calloc(1, sizeof(*burst));

    assert_non_null(burst);
    burst_receive(pair, burst, 0, BURST);
    for (uint32_t i = 0; i < BURST; i++) {
        pair->a->again = (uint32_t) rand() % 4;
        pair->a->delay = (uint32_t) rand() % 3;
        burst_send(pair, burst, i, 1);
        sim_poll(pair->ca, pair->cb, (uint32_t) rand() % 3);
    }
    burst_check(pair, burst);
    free(burst);
}

/* Messages without a receive are copied. */
static void test_early_messages(void **state)
{
    struct sim_pair *pair = *state;
    struct burst *burst = calloc(1, sizeof(*burst));

    assert_non_null(burst);
    burst_receive(pair, burst, 0, 10);
    burst_send(pair, burst, 0, 50);
    sim_poll(pair->ca, pair->cb, 20);
    assert_int_equal(burst->receives[9].completions, 1);
    assert_int_equal(pair->b->endpoint.state->deferrals.count, 40);
    burst_receive(pair, burst, 10, 20);
    burst_send(pair, burst, 50, 50);
    burst_receive(pair, burst, 30, 70);
    burst_check(pair, burst);
    assert_int_equal(pair->b->endpoint.state->deferrals.count, 0);
    assert_int_equal(pair->b->endpoint.state->deferrals.bytes, 0);
    free(burst);
}

/* Above the budget, whole frames are deferred in order, including the expected messages after
 * them. */
static void test_hold_bound(void **state)
{
    struct sim_pair *pair = *state;
    struct msg_endpoint *inside = pair->b->endpoint.state;
    struct burst *burst = calloc(1, sizeof(*burst));
    struct sim_op expected = {0}, send = {0};
    char buf[8];

    assert_non_null(burst);
    inside->deferrals.bytes += MSG_DEFERRED_BYTES; /* as if the budget were used up */
    burst_send(pair, burst, 0, BURST);
    sim_poll(pair->ca, pair->cb, 20);
    assert_int_equal(inside->deferrals.count, KIT_DEFERRED_MIN);
    assert_int_equal(pair->b->held, BURST - KIT_DEFERRED_MIN);
    assert_int_equal(inside->deferred_count, BURST - KIT_DEFERRED_MIN);
    assert_int_equal(kit_msg_recv_expected(pair->cb, &expected, buf, 8, NULL, pair->a_at_b, 0, 5),
                     0);
    assert_int_equal(kit_msg_send_expected(pair->ca, &send, "x", 2, NULL, pair->b_at_a, 0, 5), 0);
    sim_poll(pair->ca, pair->cb, 5);
    assert_int_equal(expected.completions, 0);
    inside->deferrals.bytes -= MSG_DEFERRED_BYTES;
    burst_receive(pair, burst, 0, BURST);
    burst_check(pair, burst);
    assert_int_equal(expected.completions, 1);
    assert_int_equal(pair->b->released, pair->b->held);
    assert_int_equal(inside->deferred_count, 0);
    free(burst);
}

static void test_message_too_long(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op send[2] = {0}, unexpected = {0}, expected = {0};
    char text[100] = {0}, buf[10];

    assert_int_equal(kit_msg_recv_unexpected(pair->cb, &unexpected, buf, 10, NULL), 0);
    assert_int_equal(kit_msg_recv_expected(pair->cb, &expected, buf, 10, NULL, pair->a_at_b, 0, 1),
                     0);
    assert_int_equal(
        kit_msg_send_unexpected(pair->ca, &send[0], text, 100, NULL, pair->b_at_a, 0, 1), 0);
    assert_int_equal(kit_msg_send_expected(pair->ca, &send[1], text, 100, NULL, pair->b_at_a, 0, 1),
                     0);
    sim_poll_until(pair->ca, pair->cb, &unexpected);
    sim_poll_until(pair->ca, pair->cb, &expected);
    assert_int_equal(unexpected.status, NA_PLUGIN_MSGSIZE);
    assert_null(unexpected.source);
    assert_int_equal(expected.status, NA_PLUGIN_MSGSIZE);
    assert_int_equal(
        kit_msg_send_expected(pair->ca, &send[1], text, 1025, NULL, pair->b_at_a, 0, 1),
        NA_PLUGIN_MSGSIZE);
}

/* Receives with the same tag complete in the order in which they were posted, whatever other
 * receives there are. */
static void test_expected_matching(void **state)
{
    struct sim_pair *pair = *state;
    enum {
        COUNT = 600
    };
    struct sim_op *receives = calloc(COUNT, sizeof(*receives));
    struct sim_op *sends = calloc(COUNT, sizeof(*sends));
    static uint32_t in[COUNT], out[COUNT];

    assert_non_null(receives);
    assert_non_null(sends);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(
            kit_msg_recv_expected(pair->cb, &receives[i], &in[i], 4, NULL, pair->a_at_b, 0, i / 2),
            0);
    for (uint32_t n = 0; n < 2; n++) {
        for (uint32_t i = 0; i < COUNT / 2; i++) {
            uint32_t tag = COUNT / 2 - 1 - i;

            out[2 * i + n] = 2 * tag + n;
            assert_int_equal(kit_msg_send_expected(pair->ca, &sends[2 * i + n], &out[2 * i + n], 4,
                                                   NULL, pair->b_at_a, 0, tag),
                             0);
        }
    }
    sim_poll(pair->ca, pair->cb, 100);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(receives[i].completions, 1);
        assert_int_equal(receives[i].tag, i / 2);
        assert_int_equal(in[i], i);
    }
    assert_int_equal(pair->b->endpoint.state->session.waiting, 0);
    /* An expected message without a receive is dropped and counted. */
    assert_int_equal(kit_msg_send_expected(pair->ca, sends, out, 4, NULL, pair->b_at_a, 0, 1), 0);
    sim_poll(pair->ca, pair->cb, 2);
    assert_int_equal(pair->b->endpoint.state->contexts[0].match.dropped, 1);
    free(receives);
    free(sends);
}

/* The core lacks memory for two of three events; each poll offers the event again. */
static void test_refused_events(void **state)
{
    struct sim_pair *pair = *state;
    const struct na_plugin_multi_recv *multi = kit_msg_get_extension(NA_PLUGIN_EXT_MULTI_RECV);
    struct sim_op receive = {0}, send = {0};
    uint8_t *buf = malloc(4096);

    assert_int_equal(multi->msg_multi_recv_unexpected(pair->cb, &receive, buf, 4096, NULL), 0);
    for (uint32_t i = 0; i < 8; i++) {
        sim_events_to_refuse = 2;
        assert_int_equal(kit_msg_send_unexpected(pair->ca, &send, "x", 2, NULL, pair->b_at_a, 0, i),
                         0);
        sim_poll(pair->ca, pair->cb, 5);
        assert_int_equal(receive.messages, i + 1);
    }
    assert_int_equal(kit_msg_cancel(pair->cb, &receive), 0);
    free(buf);
}

static void test_multi_receive(void **state)
{
    struct sim_pair *pair = *state;
    const struct na_plugin_multi_recv *multi = kit_msg_get_extension(NA_PLUGIN_EXT_MULTI_RECV);
    struct sim_op first = {0}, second = {0};
    struct sim_op *sends = calloc(70, sizeof(*sends));
    uint8_t *buf = malloc(4096), *small = malloc(1024);
    char text[104] = "";

    assert_non_null(multi);
    assert_non_null(sends);
    assert_int_equal(multi->msg_multi_recv_unexpected(pair->cb, &first, buf, 1023, NULL),
                     NA_PLUGIN_INVALID_ARG);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(
            kit_msg_send_unexpected(pair->ca, &sends[i], text, 99, NULL, pair->b_at_a, 0, i), 0);
    sim_poll(pair->ca, pair->cb, 5);
    sim_events_to_refuse = 1;
    assert_int_equal(multi->msg_multi_recv_unexpected(pair->cb, &first, buf, 4096, NULL), 0);
    assert_int_equal(first.messages, 0); /* the core had no memory */
    assert_int_equal(multi->msg_multi_recv_unexpected(pair->cb, &second, small, 1024, NULL), 0);
    for (uint32_t i = 20; i < 32; i++)
        assert_int_equal(
            kit_msg_send_unexpected(pair->ca, &sends[i], text, 99, NULL, pair->b_at_a, 0, i), 0);
    sim_poll(pair->ca, pair->cb, 5);
    /* 104 bytes each until less than 1024 are left: 30; one fills the other buffer */
    assert_int_equal(first.messages, 30);
    assert_int_equal(first.completions, 1);
    assert_int_equal(first.last, 1);
    assert_ptr_equal(first.places[1], buf + 104);
    assert_int_equal(second.messages, 1);
    assert_int_equal(second.completions, 1);
    assert_int_equal(pair->b->endpoint.state->deferrals.count, 1);
    free(buf);
    free(small);
    free(sends);
}

static void test_send_to_self(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op sends[40] = {0}, receives[40] = {0};
    struct na_plugin_addr *self;
    uint32_t frames = pair->a->frames;
    uint32_t in[40], out[40];
    struct sim_op expected = {0}, answer = {0};

    assert_int_equal(kit_msg_addr_self(pair->a, &self), 0);
    assert_int_equal(kit_msg_addr_is_self(pair->a, self), 1);
    assert_int_equal(kit_msg_addr_is_self(pair->a, pair->b_at_a), 0);
    for (uint32_t i = 0; i < 40; i++) {
        out[i] = i;
        assert_int_equal(kit_msg_send_unexpected(pair->ca, &sends[i], &out[i], 4, NULL, self, 0, i),
                         0);
    }
    assert_int_equal(kit_msg_poll_try_wait(pair->ca), 0);
    for (uint32_t i = 0; i < 40; i++)
        assert_int_equal(kit_msg_recv_unexpected(pair->ca, &receives[i], &in[i], 4, NULL), 0);
    sim_poll_until(pair->ca, NULL, &receives[39]);
    for (uint32_t i = 0; i < 40; i++) {
        assert_int_equal(in[i], i);
        assert_int_equal(sends[i].completions, 1);
        assert_ptr_equal(receives[i].source, self);
        kit_msg_addr_free(pair->a, receives[i].source);
    }
    assert_int_equal(kit_msg_recv_expected(pair->ca, &expected, in, 4, NULL, self, 0, 5), 0);
    assert_int_equal(kit_msg_send_expected(pair->ca, &answer, &out[7], 4, NULL, self, 0, 5), 0);
    sim_poll_until(pair->ca, NULL, &expected);
    assert_int_equal(in[0], 7);
    assert_int_equal(pair->a->frames, frames); /* the fabric was not involved */
    kit_msg_addr_free(pair->a, self);
}

/* Control records stay in order with messages, also with those that the fabric reports as
 * received. */
static void test_control_records(void **state)
{
    struct sim_pair *pair = *state;
    struct kit_peer *peer = &msg_peer_of(pair->b_at_a)->base;
    uint8_t data[512];

    memset(data, 7, sizeof(data));
    pair->a->delay = 2;
    kit_msg_lock(&pair->a->endpoint);
    assert_int_equal(kit_msg_control_send(&pair->a->endpoint, peer, 1, data, 513),
                     NA_PLUGIN_MSGSIZE);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(kit_msg_control_send(&pair->a->endpoint, peer, 1, data, i), 0);
    assert_int_equal(kit_msg_control_send(&pair->a->endpoint, peer, 77, data, 512), 0);
    kit_msg_unlock(&pair->a->endpoint);
    sim_poll(pair->ca, pair->cb, 20);
    assert_int_equal(pair->b->controls, 11);
    assert_int_equal(pair->a->controls, 1);
    assert_int_equal(pair->a->control_size, 512);
    assert_memory_equal(pair->a->control_data, data, 512);
}

/* Without a send queue the caller gets NA_PLUGIN_AGAIN. */
static void test_no_retry(void **state)
{
    struct sim_net net;
    struct na_plugin_init init = sim_init();
    struct na_plugin_class *a, *b;
    struct na_plugin_context *ca, *cb;
    struct na_plugin_addr *addr;
    struct sim_op sends[4] = {0}, receives[4] = {0};
    char buf[4];

    (void) state;
    sim_net_setup(&net);
    init.progress_mode = NA_PLUGIN_PROGRESS_NO_RETRY;
    a = sim_open(&net, "a", &init);
    b = sim_open(&net, "b", NULL);
    ca = sim_context(a, 0);
    cb = sim_context(b, 0);
    addr = sim_lookup(a, "b");
    a->again = 2;
    assert_int_equal(kit_msg_send_unexpected(ca, &sends[0], "1", 2, NULL, addr, 0, 0),
                     NA_PLUGIN_AGAIN);
    assert_int_equal(sends[0].completions, 0);
    sim_poll(ca, cb, 5); /* the HELLO is retried without the caller */
    assert_int_equal(msg_peer_of(addr)->base.phase, KIT_PEER_READY);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(kit_msg_recv_unexpected(cb, &receives[i], buf, 4, NULL), 0);
    a->again = 1;
    assert_int_equal(kit_msg_send_unexpected(ca, &sends[0], "1", 2, NULL, addr, 0, 0),
                     NA_PLUGIN_AGAIN);
    a->delay = 2;
    assert_int_equal(kit_msg_send_unexpected(ca, &sends[0], "1", 2, NULL, addr, 0, 0), 0);
    assert_int_equal(kit_msg_send_unexpected(ca, &sends[1], "2", 2, NULL, addr, 0, 0),
                     NA_PLUGIN_AGAIN);
    sim_poll(ca, cb, 5);
    assert_int_equal(sends[0].completions, 1);
    assert_int_equal(sends[1].completions, 0);
    assert_int_equal(receives[0].completions, 1);
    assert_int_equal(receives[1].completions, 0);
    kit_msg_addr_free(b, receives[0].source);
    kit_msg_addr_free(a, addr);
    sim_close(a, ca);
    sim_close(b, cb);
    assert_int_equal(sim_allocations, 0);
}

/* A fabric that takes several frames at a time. */
static void test_several_frames(void **state)
{
    struct sim_pair pair = {0};
    struct na_plugin_init init = sim_init();
    struct burst *burst = calloc(1, sizeof(*burst));
    uint32_t frames;

    (void) state;
    assert_non_null(burst);
    sim_net_setup(&pair.net);
    pair.a = sim_try_open(&pair.net, "a", &init, 4);
    pair.b = sim_try_open(&pair.net, "b", &init, 4);
    pair.ca = sim_context(pair.a, 0);
    pair.cb = sim_context(pair.b, 0);
    pair.b_at_a = sim_lookup(pair.a, "b");
    sim_meet(pair.ca, pair.cb, pair.b_at_a, &pair.a_at_b);
    frames = pair.a->frames;
    pair.a->delay = 5;
    burst_receive(&pair, burst, 0, BURST);
    burst_send(&pair, burst, 0, BURST);
    assert_int_equal(pair.a->frames, frames + 4);
    burst_check(&pair, burst);
    assert_int_equal(pair.a->frames, frames + 6);
    free(burst);
    kit_msg_addr_free(pair.a, pair.b_at_a);
    kit_msg_addr_free(pair.b, pair.a_at_b);
    sim_close(pair.a, pair.ca);
    sim_close(pair.b, pair.cb);
    assert_int_equal(sim_allocations, 0);
}

/* Requests for limits that are too small or too large. */
static void test_limits(void **state)
{
    struct na_plugin_init init = sim_init();
    struct na_plugin_class *node;
    struct sim_net net;

    (void) state;
    sim_net_setup(&net);
    init.max_unexpected_size = 1;
    init.max_expected_size = UINT64_MAX;
    node = sim_open(&net, "a", &init);
    assert_int_equal(node->endpoint.state->max_unexpected, 256);
    assert_int_equal(node->endpoint.state->max_expected, MSG_MESSAGE_MAX);
    sim_close(node, sim_context(node, 0));
}

/* The largest messages that fit one frame, also as the first ones, which cannot share a frame with
 * the HELLO. */
static void test_largest_messages(void **state)
{
    enum {
        COUNT = 5
    };
    struct sim_net net;
    struct na_plugin_init init = sim_init();
    struct na_plugin_class *a, *b;
    struct na_plugin_context *ca, *cb;
    struct na_plugin_addr *addr;
    struct sim_op sends[COUNT] = {0}, receives[COUNT] = {0};
    uint8_t *out = malloc(SIM_FRAME_MAX), *in = malloc(SIM_FRAME_MAX);
    uint64_t size;

    (void) state;
    sim_net_setup(&net);
    size = SIM_FRAME_MAX - 40 - (sim_key() == NULL ? 0 : KIT_AUTH_TAG);
    init.max_unexpected_size = size;
    a = sim_open(&net, "a", &init);
    b = sim_open(&net, "b", &init);
    ca = sim_context(a, 0);
    cb = sim_context(b, 0);
    addr = sim_lookup(a, "b");
    assert_int_equal(a->endpoint.state->max_unexpected, size);
    assert_int_equal(a->endpoint.state->whole, size);
    for (uint32_t i = 0; i < size; i++)
        out[i] = (uint8_t) i;
    for (uint32_t i = 0; i < COUNT; i++) {
        if (i == 2)
            kit_msg_addr_free(a, sim_lookup(a, "b")); /* another HELLO in between */
        assert_int_equal(kit_msg_recv_unexpected(cb, &receives[i], in, size, NULL), 0);
        assert_int_equal(kit_msg_send_unexpected(ca, &sends[i], out, size, NULL, addr, 0, i), 0);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        sim_poll_until(ca, cb, &receives[i]);
        assert_int_equal(receives[i].size, size);
        assert_int_equal(receives[i].tag, i);
        assert_memory_equal(in, out, size);
        kit_msg_addr_free(b, receives[i].source);
    }
    assert_in_range(a->hellos, 2, 3);
    kit_msg_addr_free(a, addr);
    sim_close(a, ca);
    sim_close(b, cb);
    free(in);
    free(out);
    assert_int_equal(sim_allocations, 0);
}

/* Several contexts on both sides: each gets its own messages, and a poll of any one progresses
 * all. */
static void test_contexts(void **state)
{
    struct sim_net net;
    struct na_plugin_init init = sim_init();
    struct na_plugin_class *a, *b;
    struct na_plugin_context *ca[3], *cb[3];
    struct na_plugin_addr *addr, *back = NULL;
    struct sim_op sends[9] = {0}, receives[9] = {0}, answers[9] = {0}, responses[9] = {0};
    uint32_t in[9], out[9], results[9];

    (void) state;
    sim_net_setup(&net);
    init.max_contexts = 3;
    a = sim_open(&net, "a", &init);
    b = sim_open(&net, "b", &init);
    ca[0] = sim_context(a, 0);
    addr = sim_lookup(a, "b");
    for (uint32_t i = 0; i < 3; i++) {
        if (i != 0)
            ca[i] = sim_context(a, i);
        cb[i] = sim_context(b, i);
    }
    assert_int_equal(kit_msg_context_create(a, NULL, 3, &(struct na_plugin_context *){NULL}),
                     NA_PLUGIN_INVALID_ARG);
    assert_int_equal(kit_msg_context_create(a, NULL, 2, &(struct na_plugin_context *){NULL}),
                     NA_PLUGIN_EXIST);
    for (uint32_t i = 0; i < 9; i++) {
        out[i] = i;
        assert_int_equal(kit_msg_recv_unexpected(cb[i % 3], &receives[i], &in[i], 4, NULL), 0);
        assert_int_equal(
            kit_msg_recv_expected(ca[i / 3], &answers[i], &results[i], 4, NULL, addr, i % 3, 5), 0);
    }
    for (uint32_t i = 0; i < 9; i++)
        assert_int_equal(
            kit_msg_send_unexpected(ca[i / 3], &sends[i], &out[i], 4, NULL, addr, i % 3, 5), 0);
    sim_poll(ca[1], cb[2], 20);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(receives[i].completions, 1);
        assert_int_equal(in[i], i);
        assert_int_equal(kit_msg_send_expected(cb[i % 3], &responses[i], &out[i], 4, NULL,
                                               receives[i].source, i / 3, 5),
                         0);
    }
    sim_poll(ca[2], cb[0], 20);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(answers[i].completions, 1);
        assert_int_equal(results[i], i);
        if (back == NULL)
            back = receives[i].source;
        else
            kit_msg_addr_free(b, receives[i].source);
    }
    assert_int_equal(kit_msg_context_stop(ca[2]), 0);
    assert_int_equal(kit_msg_recv_unexpected(ca[2], &receives[0], in, 4, NULL), NA_PLUGIN_FAULT);
    assert_int_equal(kit_msg_send_unexpected(ca[2], &sends[0], out, 4, NULL, addr, 0, 0),
                     NA_PLUGIN_FAULT);
    assert_int_equal(kit_msg_recv_expected(ca[2], &receives[0], in, 4, NULL, addr, 0, 0),
                     NA_PLUGIN_FAULT);
    assert_int_equal(kit_msg_context_destroy(ca[2]), 0);
    /* Messages for a destroyed context are dropped; the other contexts go on. */
    memset(sends, 0, sizeof(sends));
    memset(receives, 0, sizeof(receives));
    assert_int_equal(kit_msg_send_unexpected(cb[0], &sends[0], out, 4, NULL, back, 2, 0), 0);
    assert_int_equal(kit_msg_recv_unexpected(ca[1], &receives[1], in, 4, NULL), 0);
    assert_int_equal(kit_msg_send_unexpected(cb[0], &sends[1], out, 4, NULL, back, 1, 0), 0);
    sim_poll_until(ca[0], cb[0], &receives[1]);
    kit_msg_addr_free(a, receives[1].source);
    assert_int_equal(kit_msg_context_stop(ca[1]), 0);
    assert_int_equal(kit_msg_context_destroy(ca[1]), 0);
    for (uint32_t i = 1; i < 3; i++) {
        assert_int_equal(kit_msg_context_stop(cb[i]), 0);
        assert_int_equal(kit_msg_context_destroy(cb[i]), 0);
    }
    kit_msg_addr_free(a, addr);
    kit_msg_addr_free(b, back);
    sim_close(a, ca[0]);
    sim_close(b, cb[0]);
    assert_int_equal(sim_allocations, 0);
}

static void test_addresses(void **state)
{
    struct sim_pair *pair = *state;
    const struct na_plugin_addr_serialize *form =
        kit_msg_get_extension(NA_PLUGIN_EXT_ADDR_SERIALIZE);
    struct na_plugin_addr *addr;
    uint8_t packed[256];
    char text[64];
    uint64_t size = 0;

    assert_int_equal(kit_msg_addr_to_string(pair->a, pair->b_at_a, NULL, &size), 0);
    assert_int_equal(size, sizeof("sim+net://b"));
    size = 5;
    assert_int_equal(kit_msg_addr_to_string(pair->a, pair->b_at_a, text, &size),
                     NA_PLUGIN_OVERFLOW);
    assert_int_equal(size, sizeof("sim+net://b"));
    assert_int_equal(kit_msg_addr_to_string(pair->a, pair->b_at_a, text, &size), 0);
    assert_string_equal(text, "sim+net://b");
    size = form->addr_serialize_size(pair->a, pair->b_at_a);
    assert_in_range(size, 4, sizeof(packed));
    assert_int_equal(form->addr_serialize(pair->a, pair->b_at_a, packed, size - 1),
                     NA_PLUGIN_OVERFLOW);
    assert_int_equal(form->addr_serialize(pair->a, pair->b_at_a, packed, size), 0);
    assert_int_equal(form->addr_deserialize(pair->a, packed, size, 0, &addr), 0);
    assert_ptr_equal(addr, pair->b_at_a);
    kit_msg_addr_free(pair->a, addr);
    assert_int_equal(form->addr_deserialize(pair->b, packed, size, 0, &addr), 0);
    assert_int_equal(kit_msg_addr_is_self(pair->b, addr), 1);
    kit_msg_addr_free(pair->b, addr);
    for (uint64_t i = 0; i < size; i++)
        assert_int_equal(form->addr_deserialize(pair->a, packed, i, 0, &addr),
                         NA_PLUGIN_PROTOCOL_ERROR);
    for (uint32_t i = 0; i < 20000; i++) {
        uint8_t bad[256];

        memcpy(bad, packed, size);
        bad[(uint64_t) rand() % size] = (uint8_t) rand();
        if (form->addr_deserialize(pair->a, bad, (uint64_t) rand() % (size + 1), 0, &addr) == 0)
            kit_msg_addr_free(pair->a, addr);
    }
    assert_int_equal(kit_msg_peer_lookup(&pair->a->endpoint, "", NULL, 0, &addr),
                     NA_PLUGIN_INVALID_ARG);
    assert_null(kit_msg_get_extension("na.mem_segments/1"));
    assert_int_equal(kit_msg_addr_compare(pair->a, pair->b_at_a, pair->b_at_a), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_first_message, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_request_and_response, sim_pair_setup,
                                        sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_empty_message, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_no_delay_at_depth_one, sim_pair_setup,
                                        sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_messages_share_frames, sim_pair_setup,
                                        sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_copied_frames, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_back_pressure, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_early_messages, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_hold_bound, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_message_too_long, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_expected_matching, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_refused_events, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_multi_receive, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test(test_limits),
        cmocka_unit_test_setup_teardown(test_send_to_self, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_control_records, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test(test_no_retry),
        cmocka_unit_test(test_several_frames),
        cmocka_unit_test(test_largest_messages),
        cmocka_unit_test(test_contexts),
        cmocka_unit_test_setup_teardown(test_addresses, sim_pair_setup, sim_pair_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
