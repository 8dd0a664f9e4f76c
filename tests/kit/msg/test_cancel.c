/* SPDX-License-Identifier: BSD-3-Clause */
/* Cancelling in each phase of an operation, and closing with operations outstanding. */

#include "msg_sim.h"

#include <string.h>

#define SECOND UINT64_C(1000000000)

static void ticks(struct sim_pair *pair, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        sim_clock_skip += SECOND / 10;
        sim_poll(pair->ca, pair->cb, 32);
    }
}

static void test_posted_receives(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op unexpected[3] = {0}, expected[3] = {0}, send[2] = {0};
    char buf[8];

    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(kit_msg_recv_unexpected(pair->cb, &unexpected[i], buf, 8, NULL), 0);
        assert_int_equal(
            kit_msg_recv_expected(pair->cb, &expected[i], buf, 8, NULL, pair->a_at_b, 0, 4), 0);
    }
    assert_int_equal(kit_msg_cancel(pair->cb, &unexpected[0]), 0);
    assert_int_equal(kit_msg_cancel(pair->cb, &expected[0]), 0);
    assert_int_equal(unexpected[0].status, NA_PLUGIN_CANCELED);
    assert_int_equal(unexpected[0].completions, 1);
    assert_int_equal(expected[0].status, NA_PLUGIN_CANCELED);
    assert_int_equal(expected[0].completions, 1);
    /* Cancelling a completed operation again, or one that was never posted, has no effect. */
    assert_int_equal(kit_msg_cancel(pair->cb, &expected[0]), 0);
    assert_int_equal(kit_msg_cancel(pair->cb, &send[0]), 0);
    assert_int_equal(expected[0].completions, 1);
    /* Receives posted later still match. */
    assert_int_equal(kit_msg_send_expected(pair->ca, &send[0], "x", 2, NULL, pair->b_at_a, 0, 4),
                     0);
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &send[1], "x", 2, NULL, pair->b_at_a, 0, 4),
                     0);
    sim_poll_until(pair->ca, pair->cb, &expected[1]);
    sim_poll_until(pair->ca, pair->cb, &unexpected[1]);
    assert_int_equal(expected[1].status, 0);
    assert_int_equal(unexpected[1].status, 0);
    kit_msg_addr_free(pair->b, unexpected[1].source);
    /* no effect: the operation has completed */
    assert_int_equal(kit_msg_cancel_trusted(pair->cb, &unexpected[1]), 0);
    assert_int_equal(kit_msg_cancel_trusted(pair->cb, &unexpected[2]), 0);
    assert_int_equal(kit_msg_cancel_trusted(pair->cb, &expected[2]), 0);
    assert_int_equal(unexpected[1].completions, 1);
    assert_int_equal(unexpected[2].status, NA_PLUGIN_CANCELED);
    assert_int_equal(expected[2].status, NA_PLUGIN_CANCELED);
    assert_int_equal(pair->b->endpoint.state->session.waiting, 0);
}

/* A cancelled send that is queued behind a frame never leaves. */
static void test_queued_sends(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op sends[4] = {0}, receives[4] = {0};
    uint32_t in[4], out[4] = {0, 1, 2, 3};

    pair->a->delay = 3;
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receives[i], &in[i], 4, NULL), 0);
        assert_int_equal(
            kit_msg_send_unexpected(pair->ca, &sends[i], &out[i], 4, NULL, pair->b_at_a, 0, i), 0);
    }
    assert_int_equal(kit_msg_cancel(pair->ca, &sends[2]), 0);
    assert_int_equal(sends[2].completions, 1);
    assert_int_equal(sends[2].status, NA_PLUGIN_CANCELED);
    /* The send is in a frame in flight, and completes with the frame. */
    assert_int_equal(kit_msg_cancel(pair->ca, &sends[0]), 0);
    assert_int_equal(sends[0].completions, 0);
    sim_poll_until(pair->ca, pair->cb, &receives[2]);
    sim_poll(pair->ca, pair->cb, 10);
    assert_int_equal(receives[0].tag, 0);
    assert_int_equal(receives[1].tag, 1);
    assert_int_equal(receives[2].tag, 3);
    assert_int_equal(sends[0].status, 0);
    assert_int_equal(sends[3].completions, 1);
    assert_int_equal(receives[3].completions, 0);
    assert_int_equal(pair->a->endpoint.state->cancelling, 0);
    assert_int_equal(pair->a->endpoint.state->session.waiting, 0);
    for (uint32_t i = 0; i < 3; i++)
        kit_msg_addr_free(pair->b, receives[i].source);
    kit_msg_cancel(pair->cb, &receives[3]);
}

/* The fabric had no room for a frame: its messages are queued again, and can be cancelled. */
static void test_stalled_sends(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op sends[3] = {0}, receives[3] = {0};
    uint32_t in[3], out[3] = {0, 1, 2};

    pair->a->again = 4;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receives[i], &in[i], 4, NULL), 0);
        assert_int_equal(
            kit_msg_send_unexpected(pair->ca, &sends[i], &out[i], 4, NULL, pair->b_at_a, 0, i), 0);
    }
    assert_int_equal(kit_msg_cancel(pair->ca, &sends[0]), 0);
    assert_int_equal(sends[0].status, NA_PLUGIN_CANCELED);
    assert_int_equal(sends[0].completions, 1);
    sim_poll_until(pair->ca, pair->cb, &receives[1]);
    assert_int_equal(in[0], 1);
    assert_int_equal(in[1], 2);
    assert_int_equal(sends[1].completions, 1);
    assert_int_equal(sends[2].completions, 1);
    kit_msg_addr_free(pair->b, receives[0].source);
    kit_msg_addr_free(pair->b, receives[1].source);
    kit_msg_cancel(pair->cb, &receives[2]);
    assert_int_equal(pair->a->endpoint.state->session.waiting, 0);
}

/* The frame of a send is stuck in the fabric, which neither sends nor returns it. When cancelled,
 * the send completes nevertheless. */
static void test_send_in_a_frame_that_is_stuck(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op sends[3] = {0}, receive = {0};
    char buf[8];

    pair->a->is_cut = true;
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(
            kit_msg_send_unexpected(pair->ca, &sends[i], "x", 2, NULL, pair->b_at_a, 0, 4), 0);
    assert_int_equal(kit_msg_cancel(pair->ca, &sends[0]), 0);
    assert_int_equal(kit_msg_cancel(pair->ca, &sends[0]), 0);
    assert_int_equal(kit_msg_cancel(pair->ca, &sends[1]), 0);
    assert_int_equal(sends[0].completions, 0);
    assert_int_equal(sends[1].completions, 1);
    ticks(pair, 3);
    assert_int_equal(sends[0].completions, 1);
    assert_int_equal(sends[0].status, NA_PLUGIN_CANCELED);
    assert_int_equal(pair->a->endpoint.state->cancelling, 0);
    pair->a->is_cut = false; /* the fabric abandons the frame: the peer has failed */
    sim_poll(pair->ca, pair->cb, 5);
    assert_int_equal(sends[0].completions, 1);
    assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receive, buf, 8, NULL), 0);
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &sends[2], "x", 2, NULL, pair->b_at_a, 0, 4),
                     0);
    sim_poll_until(pair->ca, pair->cb, &receive);
    assert_int_equal(receive.status, 0);
    kit_msg_addr_free(pair->b, receive.source);
}

/* A send to a peer without a session is cancelled while the HELLO is in flight. */
static void test_send_behind_a_hello(void **state)
{
    struct sim_pair *pair = *state;
    struct na_plugin_class *c = sim_open(&pair->net, "c", NULL);
    struct na_plugin_addr *addr = sim_lookup(pair->a, "c");
    struct sim_op sends[3] = {0};

    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(kit_msg_send_unexpected(pair->ca, &sends[i], "x", 2, NULL, addr, 0, 4), 0);
    assert_int_equal(sends[0].completions, sim_key() == NULL ? 1 : 0);
    assert_int_equal(sends[1].completions, 0);
    assert_int_equal(kit_msg_cancel(pair->ca, &sends[0]), 0);
    assert_int_equal(kit_msg_cancel(pair->ca, &sends[1]), 0);
    assert_int_equal(sends[1].status, NA_PLUGIN_CANCELED);
    assert_int_equal(sends[2].completions, 0);
    kit_msg_addr_free(pair->a, addr);
    assert_int_equal(kit_msg_cancel(pair->ca, &sends[2]), 0);
    sim_close(c, sim_context(c, 0));
}

/* Every outstanding operation completes before its context has stopped, and none afterwards. */
static void test_stop_with_all_outstanding(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op sends[4] = {0}, receives[2] = {0}, rma[3] = {0};
    struct na_plugin_mem local, remote;
    uint8_t memory[64];
    char buf[8];

    local.base = memory;
    remote.base = memory + 32;
    pair->a->is_cut = true;
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(
            kit_msg_send_unexpected(pair->ca, &sends[i], "x", 2, NULL, pair->b_at_a, 0, 4), 0);
    assert_int_equal(kit_msg_recv_unexpected(pair->ca, &receives[0], buf, 8, NULL), 0);
    assert_int_equal(
        kit_msg_recv_expected(pair->ca, &receives[1], buf, 8, NULL, pair->b_at_a, 0, 4), 0);
    pair->a->rma_mode = SIM_RMA_NEVER;
    assert_int_equal(kit_msg_put(pair->ca, &rma[0], &local, 0, &remote, 0, 8, pair->b_at_a, 0), 0);
    pair->a->rma_mode = SIM_RMA_STUBBORN;
    assert_int_equal(kit_msg_put(pair->ca, &rma[1], &local, 0, &remote, 0, 8, pair->b_at_a, 0), 0);
    pair->a->rma_again = 1;
    assert_int_equal(kit_msg_put(pair->ca, &rma[2], &local, 0, &remote, 0, 8, pair->b_at_a, 0), 0);
    assert_int_equal(kit_msg_context_stop(pair->ca), 0);
    assert_int_equal(kit_msg_context_stop(pair->ca), 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(sends[i].completions, 1);
    assert_int_equal(sends[3].status, NA_PLUGIN_CANCELED);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(receives[i].status, NA_PLUGIN_CANCELED);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(rma[i].completions, 1);
        assert_int_equal(rma[i].status, NA_PLUGIN_CANCELED);
    }
    assert_int_equal(pair->a->endpoint.state->session.waiting, 0);
    pair->a->is_cut = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_posted_receives, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_queued_sends, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_stalled_sends, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_send_in_a_frame_that_is_stuck, sim_pair_setup,
                                        sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_send_behind_a_hello, sim_pair_setup,
                                        sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_stop_with_all_outstanding, sim_pair_setup,
                                        sim_pair_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
