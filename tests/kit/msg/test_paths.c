/* SPDX-License-Identifier: BSD-3-Clause */
/* A fabric that reports the sender of each frame, and one that keeps frames until they are
 * received. */

#include "msg_sim.h"

#include <string.h>

#define MESSAGES 400u

static int named_setup(void **state)
{
    struct sim_pair *pair;

    (void) sim_pair_setup(state);
    pair = *state;
    sim_tell_paths(pair->a);
    sim_tell_paths(pair->b);
    return 0;
}

/* After another lookup the endpoints meet again, and messages reach the right receive. */
static void test_named(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op receive = {0}, send = {0};
    char buf[8];

    kit_msg_addr_free(pair->a, pair->b_at_a);
    pair->b_at_a = sim_lookup(pair->a, "b");
    sim_meet(pair->ca, pair->cb, pair->b_at_a, NULL);
    assert_int_equal(
        kit_msg_recv_expected(pair->ca, &receive, buf, sizeof(buf), NULL, pair->b_at_a, 0, 3), 0);
    assert_int_equal(kit_msg_send_expected(pair->cb, &send, "from b", 7, NULL, pair->a_at_b, 0, 3),
                     0);
    sim_poll_until(pair->ca, pair->cb, &receive);
    assert_int_equal(receive.status, 0);
    assert_string_equal(buf, "from b");
    assert_int_equal(pair->a->endpoint.state->session.bad, 0);
    assert_int_equal(pair->b->endpoint.state->session.bad, 0);
}

/* Node c claims to be a: neither its HELLO nor its HELLO_ACK is accepted as a's. */
static void test_false_name(void **state)
{
    struct sim_pair *pair = *state;
    struct na_plugin_class *c = sim_open(&pair->net, "c", NULL);
    struct na_plugin_context *cc = sim_context(c, 0);
    struct kit_session *session = &pair->b->endpoint.state->session;
    struct na_plugin_addr *b_at_c = sim_lookup(c, "b"), *c_at_b = sim_lookup(pair->b, "c");
    struct sim_op receive = {0}, other = {0}, forged = {0}, send = {0};
    char buf[8];

    assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receive, buf, sizeof(buf), NULL), 0);
    c->endpoint.state->session.self->name[0] = 'z'; /* an unknown name */
    assert_int_equal(kit_msg_send_unexpected(cc, &other, "from c", 7, NULL, b_at_c, 0, 1), 0);
    sim_poll(pair->cb, cc, 20);
    assert_int_equal(receive.completions, 0);
    assert_int_equal(session->bad, 1);
    c->endpoint.state->session.self->name[0] = 'a';
    kit_msg_addr_free(c, sim_lookup(c, "b")); /* makes c send another HELLO */
    assert_int_equal(kit_msg_send_unexpected(cc, &forged, "from c", 7, NULL, b_at_c, 0, 1), 0);
    sim_poll(pair->cb, cc, 20);
    assert_int_equal(receive.completions, 0);
    assert_true(session->bad > 1);
    assert_int_equal(
        kit_msg_send_unexpected(pair->ca, &send, "from a", 7, NULL, pair->b_at_a, 0, 1), 0);
    sim_poll_until(pair->ca, pair->cb, &receive);
    assert_ptr_equal(receive.source, pair->a_at_b);
    assert_string_equal(buf, "from a");
    kit_msg_addr_free(pair->b, receive.source);

    session->bad = 0;
    send.completions = 0;
    assert_int_equal(kit_msg_send_unexpected(pair->cb, &send, "to c", 5, NULL, c_at_b, 0, 1), 0);
    sim_poll(pair->cb, cc, 20);
    assert_true(session->bad > 0);
    assert_true(msg_peer_of(c_at_b)->base.phase != KIT_PEER_READY);
    assert_ptr_equal(msg_peer_of(c_at_b)->base.canonical, &msg_peer_of(c_at_b)->base);

    kit_msg_addr_free(pair->b, c_at_b);
    kit_msg_addr_free(c, b_at_c);
    kit_msg_cancel(pair->cb, &send);
    c->endpoint.state->session.self->name[0] = 'c';
    sim_close(c, cc);
}

/* Frames are copied up to a limit; the rest stays in the fabric, in order. */
static void test_no_cookies(void **state)
{
    struct sim_pair *pair = *state;
    struct msg_endpoint *inside = pair->b->endpoint.state;
    static struct sim_op sends[MESSAGES], receives[MESSAGES];
    uint32_t left = 0, number;

    memset(sends, 0, sizeof(sends));
    memset(receives, 0, sizeof(receives));
    pair->b->has_no_cookies = true;
    inside->deferrals.bytes_max = 0;
    assert_true(kit_msg_may_receive(&pair->b->endpoint));
    for (uint32_t i = 0; i < MESSAGES; i++) {
        assert_int_equal(
            kit_msg_send_unexpected(pair->ca, &sends[i], &i, 4, NULL, pair->b_at_a, 0, i), 0);
        assert_int_equal(sends[i].completions, 1);
        sim_poll(pair->cb, NULL, 1);
    }
    assert_false(kit_msg_may_receive(&pair->b->endpoint));
    assert_int_equal(inside->deferrals.count, KIT_DEFERRED_MIN);
    assert_int_equal(inside->deferred_count, MSG_DEFERRED_FRAMES);
    for (const struct sim_packet *packet = pair->b->inbox_first; packet != NULL;
         packet = packet->next)
        left++;
    assert_int_equal(left, MESSAGES - KIT_DEFERRED_MIN - MSG_DEFERRED_FRAMES);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receives[i], &number, 4, NULL), 0);
        sim_poll_until(pair->cb, NULL, &receives[i]);
        assert_int_equal(receives[i].status, 0);
        assert_int_equal(receives[i].tag, i);
        assert_int_equal(number, i);
        kit_msg_addr_free(pair->b, receives[i].source);
    }
    assert_null(pair->b->inbox_first);
}

/* An endpoint whose frames are too small for a control record cannot be opened: the record would
 * wait for ever. */
static void test_small_frames(void **state)
{
    struct sim_pair *pair = *state;
    struct kit_msg_ops ops = pair->a->ops;
    struct na_plugin_init init = sim_init();
    struct na_plugin_class_info info = {.size = sizeof(info)};
    struct kit_endpoint endpoint = {.ops = &ops};
    struct kit_endpoint_config config = {
        .ops = &ops, .plugin = "sim", .protocol = "net", .name = "d", .init = &init};

    ops.get_fd = NULL;
    ops.max_frame = KIT_CONTROL_MAX;
    assert_int_equal(kit_endpoint_open(&endpoint, &config, &info), NA_PLUGIN_INVALID_ARG);
    ops.control = NULL;
    assert_int_equal(kit_endpoint_open(&endpoint, &config, &info), NA_PLUGIN_SUCCESS);
    kit_endpoint_close(&endpoint);
    ops.control = pair->a->ops.control;
    ops.max_frame = 1024;
    assert_int_equal(kit_endpoint_open(&endpoint, &config, &info), NA_PLUGIN_SUCCESS);
    kit_endpoint_close(&endpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_named, named_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_false_name, named_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_no_cookies, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_small_frames, sim_pair_setup, sim_pair_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
