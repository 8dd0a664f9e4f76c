/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow control of unexpected messages: when a sender pauses, until when, and what continues
 * meanwhile. */

#include "msg_sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT   200u
#define LONGEST (8 * SIM_FRAME_MAX)
#define FILLED  (KIT_DEFERRED_MIN / 2)

/* Numbered messages from one node to another. */
struct stream {
    struct sim_op sends[COUNT];
    struct sim_op receives[COUNT];
    uint32_t out[COUNT];
    uint32_t in[COUNT];
    uint32_t sent, received;
};

/* Like sim_pair_setup(), with messages longer than a frame, and one frame of a in flight. */
static int setup_parts(void **state)
{
    struct na_plugin_init init = sim_init();

    init.max_unexpected_size = LONGEST;
    return sim_pair_setup_with(state, &init, 1);
}

static struct stream *stream_new(void)
{
    struct stream *stream = calloc(1, sizeof(*stream));

    assert_non_null(stream);
    return stream;
}

static void stream_send(struct stream *stream, struct na_plugin_context *context,
                        struct na_plugin_addr *dest, uint32_t count)
{
    for (; count != 0; count--, stream->sent++) {
        stream->out[stream->sent] = stream->sent;
        assert_int_equal(kit_msg_send_unexpected(context, &stream->sends[stream->sent],
                                                 &stream->out[stream->sent], 4, NULL, dest, 0, 0),
                         0);
    }
}

static void stream_receive(struct stream *stream, struct na_plugin_context *context, uint32_t count)
{
    for (; count != 0; count--, stream->received++)
        assert_int_equal(kit_msg_recv_unexpected(context, &stream->receives[stream->received],
                                                 &stream->in[stream->received], 4, NULL),
                         0);
}

/* Requires that all messages have arrived once and in order. */
static void stream_check(struct stream *stream, const struct sim_pair *pair,
                         struct na_plugin_class *destination)
{
    assert_int_equal(stream->received, stream->sent);
    sim_poll_until(pair->ca, pair->cb, &stream->receives[stream->sent - 1]);
    sim_poll(pair->ca, pair->cb, 20);
    for (uint32_t i = 0; i < stream->sent; i++) {
        assert_int_equal(stream->sends[i].completions, 1);
        assert_int_equal(stream->sends[i].status, 0);
        assert_int_equal(stream->receives[i].completions, 1);
        assert_int_equal(stream->in[i], i);
        kit_msg_addr_free(destination, stream->receives[i].source);
    }
}

static uint32_t stream_paused(const struct stream *stream)
{
    uint32_t paused = 0;

    for (uint32_t i = 0; i < stream->sent; i++)
        paused += stream->sends[i].completions == 0;
    return paused;
}

/* Pretends that so many more (or, if negative, fewer) bytes of messages are deferred. */
static void fill(struct na_plugin_class *node, int64_t bytes)
{
    struct kit_deferrals *deferrals = &node->endpoint.state->deferrals;

    deferrals->bytes += (uint64_t) bytes;
    deferrals->count = bytes > 0 ? deferrals->count + FILLED : deferrals->count - FILLED;
}

/* Sends a message to b while so many bytes are deferred there that a is paused. */
static void stream_pause(struct stream *stream, struct sim_pair *pair)
{
    fill(pair->b, MSG_DEFERRED_BYTES / 2);
    stream_send(stream, pair->ca, pair->b_at_a, 1);
    sim_poll(pair->ca, pair->cb, 20);
    assert_true(msg_peer_of(pair->b_at_a)->is_paused);
}

/* A sender pauses when its peer has no room, and sends the queued messages when there is room. */
static void test_held(void **state)
{
    struct sim_pair *pair = *state;
    const struct msg_peer *peer = msg_peer_of(pair->b_at_a);
    struct stream *stream = stream_new();

    stream_pause(stream, pair);
    assert_int_equal(pair->b->endpoint.state->xoff_count, 1);
    stream_send(stream, pair->ca, pair->b_at_a, COUNT - 1);
    sim_poll(pair->ca, pair->cb, 20);
    assert_int_equal(stream_paused(stream), COUNT - 1);
    assert_int_equal(pair->b->endpoint.state->deferrals.count, FILLED + 1);

    /* XON is sent only when less than a quarter of the budget is in use. */
    pair->b->endpoint.state->deferrals.bytes -= MSG_DEFERRED_BYTES / 8;
    stream_receive(stream, pair->cb, 1);
    sim_poll(pair->ca, pair->cb, 20);
    assert_true(peer->is_paused);
    fill(pair->b, -(int64_t) (MSG_DEFERRED_BYTES * 3 / 8));
    stream_receive(stream, pair->cb, COUNT - 1);
    sim_clock_skip += KIT_SESSION_TICK_NS;
    sim_poll(pair->ca, pair->cb, 2 * MSG_POLLS_A_CLOCK);
    assert_false(peer->is_paused);
    assert_int_equal(pair->b->endpoint.state->xoff_count, 0);
    stream_check(stream, pair, pair->b);
    free(stream);
}

/* Messages that were queued before XOFF arrived stay queued, except those that are in a frame. */
static void test_queued(void **state)
{
    struct sim_pair *pair = *state;
    struct stream *stream = stream_new();

    fill(pair->b, MSG_DEFERRED_BYTES / 2);
    pair->a->delay = 10;
    stream_send(stream, pair->ca, pair->b_at_a, COUNT / 2);
    pair->a->again = 1000000;
    sim_poll(pair->ca, pair->cb, 50);
    assert_true(msg_peer_of(pair->b_at_a)->is_paused);
    stream_send(stream, pair->ca, pair->b_at_a, COUNT / 2);
    pair->a->again = 0;
    sim_poll(pair->ca, pair->cb, 200);
    assert_true(stream_paused(stream) >= COUNT / 2);
    fill(pair->b, -(int64_t) (MSG_DEFERRED_BYTES / 2));
    stream_receive(stream, pair->cb, COUNT);
    stream_check(stream, pair, pair->b);
    free(stream);
}

/* A message that is partly sent, or has a part in a frame, is completed during the pause. Messages
 * sent after it wait. */
static void check_parts(struct sim_pair *pair, bool is_refused)
{
    struct stream *stream = stream_new();
    struct sim_op send = {0}, receive = {0};
    const struct msg_peer *peer = msg_peer_of(pair->b_at_a);
    uint8_t *out = calloc(1, LONGEST), *in = calloc(1, LONGEST);

    assert_non_null(out);
    assert_non_null(in);
    for (uint32_t i = 0; i < LONGEST; i++)
        out[i] = (uint8_t) (i * 7 + i / 251);
    fill(pair->b, MSG_DEFERRED_BYTES / 2);
    pair->a->delay = 2;
    pair->b->again = 1000000;
    stream_send(stream, pair->ca, pair->b_at_a, 1);
    assert_int_equal(
        kit_msg_send_unexpected(pair->ca, &send, out, LONGEST, NULL, pair->b_at_a, 0, 0), 0);
    stream_send(stream, pair->ca, pair->b_at_a, 1);
    pair->a->again = is_refused ? 1000000 : 0;
    for (uint32_t i = 0; i < 100 && (is_refused ? peer->part : send.priv.sent) == 0; i++)
        sim_poll(pair->ca, pair->cb, 1);
    pair->b->again = 0;
    for (uint32_t i = 0; i < 100 && !peer->is_paused; i++)
        sim_poll(pair->ca, pair->cb, 1);
    assert_true(peer->is_paused);
    assert_int_equal(send.completions, 0);
    assert_true(!is_refused || (peer->part != 0 && send.priv.sent == 0));
    pair->a->again = 0;
    sim_poll_until(pair->ca, pair->cb, &send);
    sim_poll(pair->ca, pair->cb, 20);
    assert_int_equal(send.status, 0);
    assert_int_equal(stream_paused(stream), 1);
    fill(pair->b, -(int64_t) (MSG_DEFERRED_BYTES / 2));
    stream_receive(stream, pair->cb, 1);
    assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receive, in, LONGEST, NULL), 0);
    stream_receive(stream, pair->cb, 1);
    stream_check(stream, pair, pair->b);
    assert_int_equal(receive.completions, 1);
    assert_int_equal(receive.size, LONGEST);
    assert_memory_equal(in, out, LONGEST);
    kit_msg_addr_free(pair->b, receive.source);
    free(in);
    free(out);
    free(stream);
}

static void test_parts(void **state)
{
    check_parts(*state, false);
    check_parts(*state, true);
}

/* Makes room at b, so that a, which is paused, goes on and its messages arrive. */
static void stream_resume(struct stream *stream, const struct sim_pair *pair)
{
    assert_true(msg_peer_of(pair->b_at_a)->is_paused);
    fill(pair->b, -(int64_t) (MSG_DEFERRED_BYTES / 2));
    stream_receive(stream, pair->cb, 1);
    stream_check(stream, pair, pair->b);
    assert_false(msg_peer_of(pair->b_at_a)->is_paused);
    free(stream);
}

/* The fabric refuses the frame with XOFF, and the frame is assembled again. */
static void test_refused_frame(void **state)
{
    struct sim_pair *pair = *state;
    struct stream *stream = stream_new();
    struct sim_op answer = {0};

    fill(pair->b, MSG_DEFERRED_BYTES / 2);
    pair->b->again = 1000000;
    stream_send(stream, pair->ca, pair->b_at_a, 1);
    assert_int_equal(kit_msg_send_expected(pair->cb, &answer, "ab", 3, NULL, pair->a_at_b, 0, 1),
                     0);
    sim_poll(pair->ca, pair->cb, 20);
    assert_true(msg_peer_of(pair->a_at_b)->is_xoff);
    assert_int_equal(kit_msg_cancel(pair->cb, &answer), 0);
    assert_int_equal(answer.completions, 1);
    pair->b->again = 0;
    sim_poll(pair->ca, pair->cb, 20);
    stream_resume(stream, pair);
}

/* XOFF and a ping, which is a HELLO, are pending at the same time. */
static void test_beside_hello(void **state)
{
    struct sim_pair *pair = *state;
    struct stream *stream = stream_new();
    struct msg_peer *peer = msg_peer_of(pair->a_at_b);
    const uint32_t hellos = pair->b->hellos;

    fill(pair->b, MSG_DEFERRED_BYTES / 2);
    stream_send(stream, pair->ca, pair->b_at_a, 1);
    kit_msg_lock(&pair->b->endpoint);
    peer->base.pending |= KIT_PENDING_PING;
    kit_msg_unlock(&pair->b->endpoint);
    sim_poll(pair->ca, pair->cb, 50);
    assert_int_equal(pair->b->hellos, hellos + 1);
    stream_resume(stream, pair);
}

/* Two endpoints without room for each other still send responses, and each sends XON when there is
 * room. */
static void test_both(void **state)
{
    struct sim_pair *pair = *state;
    struct stream *there = stream_new(), *back = stream_new();
    struct sim_op sends[2] = {0}, receives[2] = {0};
    char in[2][4];

    fill(pair->a, MSG_DEFERRED_BYTES / 2);
    fill(pair->b, MSG_DEFERRED_BYTES / 2);
    stream_send(there, pair->ca, pair->b_at_a, 1);
    stream_send(back, pair->cb, pair->a_at_b, 1);
    sim_poll(pair->ca, pair->cb, 20);
    stream_send(there, pair->ca, pair->b_at_a, COUNT - 1);
    stream_send(back, pair->cb, pair->a_at_b, COUNT - 1);
    assert_int_equal(
        kit_msg_recv_expected(pair->ca, &receives[0], in[0], 4, NULL, pair->b_at_a, 0, 1), 0);
    assert_int_equal(
        kit_msg_recv_expected(pair->cb, &receives[1], in[1], 4, NULL, pair->a_at_b, 0, 1), 0);
    assert_int_equal(kit_msg_send_expected(pair->cb, &sends[0], "ab", 3, NULL, pair->a_at_b, 0, 1),
                     0);
    assert_int_equal(kit_msg_send_expected(pair->ca, &sends[1], "cd", 3, NULL, pair->b_at_a, 0, 1),
                     0);
    sim_poll(pair->ca, pair->cb, 20);
    assert_int_equal(receives[0].completions + receives[1].completions, 2);
    assert_string_equal(in[0], "ab");
    assert_int_equal(stream_paused(there), COUNT - 1);
    assert_int_equal(stream_paused(back), COUNT - 1);

    fill(pair->a, -(int64_t) (MSG_DEFERRED_BYTES / 2));
    fill(pair->b, -(int64_t) (MSG_DEFERRED_BYTES / 2));
    stream_receive(there, pair->cb, COUNT);
    stream_receive(back, pair->ca, COUNT);
    stream_check(there, pair, pair->b);
    stream_check(back, pair, pair->a);
    free(there);
    free(back);
}

/* Paused messages are cancelled one by one, and with their context. */
static void test_cancel(void **state)
{
    struct sim_pair *pair = *state;
    struct stream *stream = stream_new();

    stream_pause(stream, pair);
    stream_send(stream, pair->ca, pair->b_at_a, 3);
    assert_int_equal(kit_msg_cancel(pair->ca, &stream->sends[2]), 0);
    assert_int_equal(stream->sends[2].completions, 1);
    assert_int_equal(stream->sends[2].status, NA_PLUGIN_CANCELED);
    assert_int_equal(stream->sends[1].completions + stream->sends[3].completions, 0);
    kit_msg_context_stop(pair->ca);
    assert_int_equal(stream->sends[1].status, NA_PLUGIN_CANCELED);
    assert_int_equal(stream->sends[3].status, NA_PLUGIN_CANCELED);
    fill(pair->b, -(int64_t) (MSG_DEFERRED_BYTES / 2));
    free(stream);
}

/* A peer without room is restarted: paused messages to the first process fail, and its successor
 * has room. */
static void test_restart(void **state)
{
    struct sim_pair *pair = *state;
    struct stream *stream = stream_new(), *anew = stream_new();

    stream_pause(stream, pair);
    stream_send(stream, pair->ca, pair->b_at_a, 1);
    kit_msg_addr_free(pair->b, pair->a_at_b);
    fill(pair->b, -(int64_t) (MSG_DEFERRED_BYTES / 2));
    sim_close(pair->b, pair->cb);
    pair->a_at_b = NULL;
    sim_poll(pair->ca, pair->ca, 20);
    assert_int_equal(stream->sends[1].completions, 1);
    assert_int_equal(stream->sends[1].status, NA_PLUGIN_HOSTUNREACH);
    assert_false(msg_peer_of(pair->b_at_a)->is_paused);

    pair->b = sim_open(&pair->net, "b", NULL);
    pair->cb = sim_context(pair->b, 0);
    pair->a_at_b = sim_lookup(pair->b, "a");
    stream_send(anew, pair->ca, pair->b_at_a, COUNT);
    stream_receive(anew, pair->cb, COUNT);
    stream_check(anew, pair, pair->b);
    free(stream);
    free(anew);
}

/* The receiver forgets a sender that is paused; the sender still learns that there is room. */
static void test_sender_forgotten(void **state)
{
    struct sim_pair *pair = *state;
    struct stream *stream = stream_new(), *anew = stream_new();

    stream_pause(stream, pair);
    stream_send(stream, pair->ca, pair->b_at_a, 1);
    kit_msg_lock(&pair->b->endpoint);
    kit_peer_failed(&msg_peer_of(pair->a_at_b)->base, NA_PLUGIN_HOSTUNREACH, "the test says so");
    kit_msg_unlock(&pair->b->endpoint);
    assert_int_equal(pair->b->endpoint.state->xoff_count, 0);
    fill(pair->b, -(int64_t) (MSG_DEFERRED_BYTES / 2));
    for (uint32_t i = 0; i < 600 && stream->sends[1].completions == 0; i++) {
        sim_clock_skip += KIT_SESSION_TICK_NS;
        sim_poll(pair->ca, pair->cb, MSG_POLLS_A_CLOCK);
    }
    assert_int_equal(stream->sends[1].status, NA_PLUGIN_HOSTUNREACH);
    stream_receive(stream, pair->cb, 1);
    assert_int_equal(stream->receives[0].completions, 1);
    kit_msg_addr_free(pair->b, stream->receives[0].source);
    stream_send(anew, pair->ca, pair->b_at_a, 5);
    stream_receive(anew, pair->cb, 5);
    stream_check(anew, pair, pair->b);
    free(stream);
    free(anew);
}

/* A process that knows the peer by two names resumes both, whichever name XOFF and XON were sent
 * under. */
static void test_second_name(void **state)
{
    struct sim_pair *pair = *state;
    struct na_plugin_addr *alias = sim_lookup(pair->a, "alias-of-b");
    struct stream *stream = stream_new();
    struct sim_op other = {0};

    stream_pause(stream, pair);
    stream_send(stream, pair->ca, pair->b_at_a, 1);
    assert_int_equal(kit_msg_send_expected(pair->ca, &other, "x", 2, NULL, alias, 0, 9), 0);
    sim_poll(pair->ca, pair->cb, 50);
    assert_ptr_equal(msg_peer_of(alias)->source, msg_peer_of(pair->b_at_a)->source);
    fill(pair->b, -(int64_t) (MSG_DEFERRED_BYTES / 2));
    stream_send(stream, pair->ca, alias, 2);
    stream_receive(stream, pair->cb, 4);
    sim_clock_skip += KIT_SESSION_TICK_NS;
    sim_poll(pair->ca, pair->cb, 4 * MSG_POLLS_A_CLOCK);
    assert_int_equal(stream_paused(stream), 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(stream->receives[i].completions, 1);
        kit_msg_addr_free(pair->b, stream->receives[i].source);
    }
    kit_msg_addr_free(pair->a, alias);
    free(stream);
}

/* All names of a paused process are paused, and the failure of one does not resume the others. */
static void test_name_fails(void **state)
{
    struct sim_pair *pair = *state;
    struct na_plugin_addr *alias = sim_lookup(pair->a, "alias-of-b");
    struct stream *stream = stream_new();
    struct sim_op other = {0};

    assert_int_equal(kit_msg_send_expected(pair->ca, &other, "x", 2, NULL, alias, 0, 9), 0);
    sim_poll(pair->ca, pair->cb, 50);
    stream_pause(stream, pair);
    assert_true(msg_peer_of(alias)->is_paused);
    stream_send(stream, pair->ca, pair->b_at_a, 1);
    kit_msg_lock(&pair->a->endpoint);
    kit_peer_failed(&msg_peer_of(alias)->base, NA_PLUGIN_HOSTUNREACH, "the test says so");
    kit_msg_unlock(&pair->a->endpoint);
    sim_poll(pair->ca, pair->cb, 20);
    assert_true(msg_peer_of(pair->b_at_a)->is_paused);
    assert_int_equal(stream_paused(stream), 1);
    fill(pair->b, -(int64_t) (MSG_DEFERRED_BYTES / 2));
    stream_receive(stream, pair->cb, 2);
    /* XON came under the name that failed: a ping under the other name asks for it again. */
    for (uint32_t i = 0; i < 100 && stream_paused(stream) != 0; i++) {
        sim_clock_skip += KIT_SESSION_TICK_NS;
        sim_poll(pair->ca, pair->cb, MSG_POLLS_A_CLOCK);
    }
    assert_int_equal(stream_paused(stream), 0);
    if (sim_key() == NULL) {
        stream_check(stream, pair, pair->b);
    } else { /* with a key the session of the other name ends, too */
        assert_int_equal(stream->sends[1].status, NA_PLUGIN_HOSTUNREACH);
        assert_int_equal(kit_msg_cancel(pair->cb, &stream->receives[1]), 0);
        kit_msg_addr_free(pair->b, stream->receives[0].source);
    }
    kit_msg_addr_free(pair->a, alias);
    free(stream);
}

/* A peer whose process has ended is forgotten while it is in XOFF. */
static void test_forgotten(void **state)
{
    struct sim_pair *pair = *state;
    struct stream *stream = stream_new();
    const pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    msg_peer_of(pair->b_at_a)->base.pid = (uint32_t) pid;
    stream_pause(stream, pair);
    kit_msg_addr_free(pair->a, pair->b_at_a);
    for (uint32_t i = 0; i < 40; i++) {
        sim_clock_skip += KIT_SESSION_TICK_NS;
        sim_poll(pair->ca, NULL, MSG_POLLS_A_CLOCK);
    }
    assert_null(kit_peer_by_name(&pair->a->endpoint.state->session, "b"));
    pair->b_at_a = sim_lookup(pair->a, "b");
    fill(pair->b, -(int64_t) (MSG_DEFERRED_BYTES / 2));
    stream_receive(stream, pair->cb, 1);
    kit_msg_addr_free(pair->b, stream->receives[0].source);
    free(stream);
}

/* Without retries the caller is told that there is no room. */
static void test_no_retry(void **state)
{
    struct sim_pair *pair = *state;
    struct stream *stream = stream_new();

    stream_pause(stream, pair);
    pair->a->endpoint.state->is_no_retry = true;
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &stream->sends[1], &stream->out[1], 4, NULL,
                                             pair->b_at_a, 0, 0),
                     NA_PLUGIN_AGAIN);
    fill(pair->b, -(int64_t) (MSG_DEFERRED_BYTES / 2));
    stream_receive(stream, pair->cb, 1);
    sim_poll(pair->ca, pair->cb, 20);
    assert_int_equal(stream->sends[1].completions, 0);
    stream_send(stream, pair->ca, pair->b_at_a, 1);
    stream_receive(stream, pair->cb, 1);
    stream_check(stream, pair, pair->b);
    free(stream);
}

/* A hostile peer alternates XOFF and XON: that causes a single scan of the peers, and no message is
 * lost. */
static void test_hostile(void **state)
{
    struct sim_pair *pair = *state;
    struct msg_peer *peer = msg_peer_of(pair->b_at_a);
    struct stream *stream = stream_new();

    kit_msg_lock(&pair->a->endpoint);
    for (uint32_t i = 0; i < 1000; i++)
        kit_msg_flow_received(peer, i % 2 == 0 ? MSG_FLOW_XOFF : MSG_FLOW_XON);
    assert_false(peer->is_paused);
    kit_msg_unlock(&pair->a->endpoint);
    assert_false(peer->is_paused);
    stream_send(stream, pair->ca, pair->b_at_a, 3);
    stream_receive(stream, pair->cb, 3);
    stream_check(stream, pair, pair->b);
    free(stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_held, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_queued, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_parts, setup_parts, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_refused_frame, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_beside_hello, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_both, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_cancel, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_restart, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_sender_forgotten, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_second_name, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_name_fails, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_forgotten, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_no_retry, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_hostile, sim_pair_setup, sim_pair_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
