/* SPDX-License-Identifier: BSD-3-Clause */
/* Lack of memory, for each allocation in turn; the steady state allocates nothing. */

#include "msg_sim.h"

#include <string.h>

static void test_open_without_memory(void **state)
{
    struct sim_net net;
    struct na_plugin_init init = sim_init();
    struct na_plugin_class *node = NULL;
    uint32_t failures = 0;

    (void) state;
    sim_net_setup(&net);
    for (int64_t i = 0; node == NULL; i++) {
        assert_int_equal(sim_allocations, 0);
        sim_allocation_to_fail = i;
        node = sim_try_open(&net, "a", &init, 1);
        sim_allocation_to_fail = -1;
        failures += node == NULL;
    }
    assert_true(failures >= 6);
    sim_close(node, NULL);
    assert_int_equal(sim_allocations, 0);
}

/* A context allocates memory with its first expected receive. */
static void test_context_without_memory(void **state)
{
    struct sim_net net;
    struct na_plugin_class *node;
    struct na_plugin_context *context;
    struct na_plugin_addr *self = NULL;
    struct sim_op receive = {0};
    char buf[8];

    (void) state;
    sim_net_setup(&net);
    node = sim_open(&net, "a", NULL);
    context = sim_context(node, 0);
    assert_int_equal(kit_msg_addr_self(node, &self), NA_PLUGIN_SUCCESS);
    sim_allocation_to_fail = 0;
    assert_int_equal(kit_msg_recv_expected(context, &receive, buf, sizeof(buf), NULL, self, 0, 1),
                     NA_PLUGIN_NOMEM);
    sim_allocation_to_fail = -1;
    assert_int_equal(kit_msg_recv_expected(context, &receive, buf, sizeof(buf), NULL, self, 0, 1),
                     NA_PLUGIN_SUCCESS);
    kit_msg_addr_free(node, self);
    sim_close(node, context);
    assert_int_equal(receive.completions, 1);
    assert_int_equal(receive.status, NA_PLUGIN_CANCELED);
    assert_int_equal(sim_allocations, 0);
}

/* A short run of all operations: each one completes once, or is refused. */
static void short_life(int64_t allocation_to_fail)
{
    struct sim_net net;
    struct na_plugin_class *a, *b;
    struct na_plugin_context *ca, *cb;
    struct na_plugin_addr *addr = NULL;
    struct sim_op sends[8] = {0}, receives[8] = {0}, rma = {0};
    bool is_sent[8] = {0}, is_posted[8] = {0}, is_rma = false;
    uint8_t memory[64];
    struct na_plugin_mem local = {memory}, remote = {memory + 32};
    char text[900] = "", buf[900];

    sim_net_setup(&net);
    a = sim_open(&net, "a", NULL);
    b = sim_open(&net, "b", NULL);
    ca = sim_context(a, 0);
    cb = sim_context(b, 0);
    sim_allocation_to_fail = allocation_to_fail;
    if (kit_msg_peer_lookup(&a->endpoint, "b", "b", 2, &addr) != NA_PLUGIN_SUCCESS)
        goto out;
    for (uint32_t i = 0; i < 8; i++)
        is_sent[i] = kit_msg_send_unexpected(ca, &sends[i], text, 1 + (i % 4) * 290, NULL, addr, 0,
                                             i) == NA_PLUGIN_SUCCESS;
    kit_msg_lock(&a->endpoint);
    (void) kit_msg_control_send(&a->endpoint, &msg_peer_of(addr)->base, 1, text, 100);
    kit_msg_unlock(&a->endpoint);
    sim_poll(ca, cb, 10);
    is_rma = kit_msg_put(ca, &rma, &local, 0, &remote, 0, 8, addr, 0) == 0;
    for (uint32_t i = 0; i < 8; i++)
        is_posted[i] = kit_msg_recv_unexpected(cb, &receives[i], buf, sizeof(buf), NULL) == 0;
    for (uint32_t i = 0; i < 4; i++) {
        sim_clock_skip += UINT64_C(100000000);
        sim_poll(ca, cb, 40);
    }

out:
    sim_allocation_to_fail = -1;
    if (addr != NULL)
        kit_msg_addr_free(a, addr);
    for (uint32_t i = 0; i < 8; i++)
        if (receives[i].completions != 0 && receives[i].status == 0)
            kit_msg_addr_free(b, receives[i].source);
    sim_close(a, ca);
    sim_close(b, cb);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(sends[i].completions, is_sent[i] ? 1 : 0);
        assert_int_equal(receives[i].completions, is_posted[i] ? 1 : 0);
    }
    assert_int_equal(rma.completions, is_rma ? 1 : 0);
    assert_int_equal(sim_allocations, 0);
}

static void test_each_allocation_fails(void **state)
{
    (void) state;
    for (int64_t i = -1; i < 40; i++)
        short_life(i);
}

/* Round trips and bursts allocate nothing when they are repeated. */
static void test_steady_state(void **state)
{
    struct sim_pair *pair = *state;
    static struct sim_op sends[64], receives[64], expected[64], answers[64];
    uint32_t in[64], out[64] = {0};
    struct na_plugin_mem memory = {(uint8_t *) in};
    uint64_t made = 0;

    for (uint32_t round = 0; round < 200; round++) {
        struct sim_op rma = {0};

        if (round == 100)
            made = sim_allocations_made;
        memset(sends, 0, sizeof(sends));
        memset(receives, 0, sizeof(receives));
        memset(expected, 0, sizeof(expected));
        memset(answers, 0, sizeof(answers));
        pair->a->delay = round % 3;
        for (uint32_t i = 0; i < 64; i++)
            assert_int_equal(
                kit_msg_recv_expected(pair->ca, &expected[i], &in[i], 4, NULL, pair->b_at_a, 0, i),
                0);
        for (uint32_t i = 0; i < 64; i++)
            assert_int_equal(
                kit_msg_send_unexpected(pair->ca, &sends[i], &out[i], 4, NULL, pair->b_at_a, 0, i),
                0);
        sim_poll(pair->ca, pair->cb, 1);
        for (uint32_t i = 0; i < 64; i++)
            assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receives[i], &in[i], 4, NULL), 0);
        sim_poll_until(pair->ca, pair->cb, &receives[63]);
        for (uint32_t i = 0; i < 64; i++) {
            assert_int_equal(kit_msg_send_expected(pair->cb, &answers[i], &out[i], 4, NULL,
                                                   receives[i].source, 0, i),
                             0);
            kit_msg_addr_free(pair->b, receives[i].source);
        }
        sim_poll_until(pair->ca, pair->cb, &expected[63]);
        assert_int_equal(kit_msg_put(pair->ca, &rma, &memory, 0, &memory, 16, 8, pair->b_at_a, 0),
                         0);
        sim_poll_until(pair->ca, pair->cb, &rma);
        sim_poll(pair->ca, pair->cb, 5);
    }
    assert_int_equal(sim_allocations_made, made);
}

/* Control records are queued or in flight when the endpoint closes. */
static void test_close_with_control_records(void **state)
{
    struct sim_pair *pair = *state;
    struct kit_endpoint *endpoint = &pair->a->endpoint;
    struct kit_peer *peer = &msg_peer_of(pair->b_at_a)->base;

    pair->a->is_cut = true;
    kit_msg_lock(endpoint);
    assert_int_equal(kit_msg_control_send(endpoint, peer, 1, "1", 2), 0);
    kit_msg_unlock(endpoint);
    assert_int_equal(kit_msg_context_stop(pair->ca), 0);
    assert_int_equal(kit_msg_context_destroy(pair->ca), 0);
    kit_msg_lock(endpoint);
    assert_int_equal(kit_msg_control_send(endpoint, peer, 1, "2", 2), 0);
    assert_int_equal(kit_msg_control_send(endpoint, peer, 1, "3", 2), 0);
    kit_msg_unlock(endpoint);
    kit_msg_addr_free(pair->a, pair->b_at_a);
    sim_close(pair->a, NULL);
    pair->a = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_without_memory),
        cmocka_unit_test(test_context_without_memory),
        cmocka_unit_test(test_each_allocation_fails),
        cmocka_unit_test_setup_teardown(test_close_with_control_records, sim_pair_setup,
                                        sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_steady_state, sim_pair_setup, sim_pair_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
