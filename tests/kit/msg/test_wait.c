/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping on the descriptor of a context, and the events that wake it. */

#include "msg_sim.h"

#include <poll.h>
#include <string.h>

static int readable(struct na_plugin_context *context, int timeout_ms)
{
    struct pollfd fd = {.fd = kit_msg_poll_get_fd(context), .events = POLLIN};

    assert_true(fd.fd >= 0);
    return poll(&fd, 1, timeout_ms);
}

static void sleep_on(struct na_plugin_context *context)
{
    uint32_t i;

    for (i = 0; i < 1000 && !kit_msg_poll_try_wait(context); i++)
        sim_poll(context, NULL, 1);
    assert_true(i < 1000);
}

static void test_a_message_wakes(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op send = {0}, receive = {0};
    char buf[8];

    assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receive, buf, 8, NULL), 0);
    sleep_on(pair->cb);
    assert_int_equal(readable(pair->cb, 0), 0);
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &send, "x", 2, NULL, pair->b_at_a, 0, 1), 0);
    assert_int_equal(readable(pair->cb, 1000), 1);
    assert_int_equal(kit_msg_poll_try_wait(pair->cb), 0);
    sim_poll(pair->cb, NULL, 1);
    assert_int_equal(receive.completions, 1);
    kit_msg_addr_free(pair->b, receive.source);
    sleep_on(pair->cb);
    assert_int_equal(readable(pair->cb, 0), 0);
}

/* The timer expires while an operation is pending, and only then. */
static void test_the_timer(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op receive = {0};
    char buf[8];

    sleep_on(pair->ca);
    assert_int_equal(readable(pair->ca, 250), 0);
    assert_int_equal(kit_msg_recv_expected(pair->ca, &receive, buf, 8, NULL, pair->b_at_a, 0, 1),
                     0);
    for (uint32_t i = 0; i < 3; i++) {
        sleep_on(pair->ca);
        assert_int_equal(readable(pair->ca, 1000), 1);
        sim_poll(pair->ca, NULL, 1);
    }
    assert_int_equal(readable(pair->ca, 0), 0);
    kit_msg_cancel(pair->ca, &receive);
}

/* A sleeping thread retries a frame that the fabric had no room for: soon, but not in a busy
 * loop. */
static void test_retries_while_sleeping(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op send = {0};

    pair->a->again = 20;
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &send, "x", 2, NULL, pair->b_at_a, 0, 1), 0);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(send.completions, 0);
        assert_int_equal(kit_msg_poll_try_wait(pair->ca), 1);
        assert_int_equal(readable(pair->ca, 1000), 1);
        sim_poll(pair->ca, NULL, 1);
    }
    assert_int_equal(send.completions, 1);
}

/* A poll of one context completes operations of another one, and wakes the thread that sleeps on
 * that. */
static void test_contexts_wake_each_other(void **state)
{
    struct sim_net net;
    struct na_plugin_init init = sim_init();
    struct na_plugin_class *a, *b;
    struct na_plugin_context *ca, *cb[2];
    struct na_plugin_addr *addr, *self;
    struct sim_op sends[3] = {0}, receives[3] = {0};
    char buf[8];

    (void) state;
    sim_net_setup(&net);
    init.max_contexts = 2;
    a = sim_open(&net, "a", &init);
    b = sim_open(&net, "b", &init);
    ca = sim_context(a, 0);
    cb[0] = sim_context(b, 0);
    cb[1] = sim_context(b, 1);
    addr = sim_lookup(a, "b");
    sim_meet(ca, cb[0], addr, NULL);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(kit_msg_recv_unexpected(cb[1], &receives[i], buf, 8, NULL), 0);
    sleep_on(cb[1]);
    assert_int_equal(kit_msg_send_unexpected(ca, &sends[0], "x", 2, NULL, addr, 1, 1), 0);
    sim_poll(cb[0], NULL, 1);
    assert_int_equal(receives[0].completions, 1);
    assert_int_equal(readable(cb[1], 0), 1);
    sim_poll(cb[1], NULL, 1);
    assert_int_equal(readable(cb[1], 0), 0);

    /* A cancel by another thread, and a message to the endpoint itself. */
    sleep_on(cb[1]);
    kit_msg_cancel(cb[1], &receives[1]);
    assert_int_equal(readable(cb[1], 0), 1);
    sim_poll(cb[1], NULL, 1);
    sleep_on(cb[1]);
    assert_int_equal(kit_msg_addr_self(b, &self), 0);
    assert_int_equal(kit_msg_send_unexpected(cb[0], &sends[1], "x", 2, NULL, self, 1, 1), 0);
    assert_int_equal(readable(cb[1], 0), 1);
    sim_poll(cb[1], NULL, 1);
    assert_int_equal(receives[2].completions, 1);

    /* A send that the fabric has no room for wakes a sleeping thread, which retries it. */
    sleep_on(cb[1]);
    b->again = 1;
    assert_int_equal(
        kit_msg_send_unexpected(cb[0], &sends[2], "x", 2, NULL, receives[0].source, 0, 1), 0);
    assert_int_equal(readable(cb[1], 0), 1);
    sim_poll(cb[1], NULL, 1);
    assert_int_equal(sends[2].completions, 1);

    kit_msg_addr_free(b, self);
    kit_msg_addr_free(b, receives[0].source);
    kit_msg_addr_free(b, receives[2].source);
    kit_msg_addr_free(a, addr);
    assert_int_equal(kit_msg_context_stop(cb[1]), 0);
    assert_int_equal(kit_msg_context_destroy(cb[1]), 0);
    sim_close(a, ca);
    sim_close(b, cb[0]);
    assert_int_equal(sim_allocations, 0);
}

static void test_busy_mode(void **state)
{
    struct sim_net net;
    struct na_plugin_init init = sim_init();
    struct na_plugin_class *a;
    struct na_plugin_context *ca;

    (void) state;
    sim_net_setup(&net);
    init.progress_mode = NA_PLUGIN_PROGRESS_BUSY;
    init.thread_mode = NA_PLUGIN_THREAD_SINGLE_CLASS;
    a = sim_open(&net, "a", &init);
    ca = sim_context(a, 0);
    assert_int_equal(kit_msg_poll_get_fd(ca), -1);
    assert_int_equal(kit_msg_poll_try_wait(ca), 0);
    sim_poll(ca, NULL, 100);
    sim_close(a, ca);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_message_wakes, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_the_timer, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_retries_while_sleeping, sim_pair_setup,
                                        sim_pair_teardown),
        cmocka_unit_test(test_contexts_wake_each_other),
        cmocka_unit_test(test_busy_mode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
