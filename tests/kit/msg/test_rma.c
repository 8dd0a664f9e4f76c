/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets: order, back-pressure, cancelling, a peer that fails. */

#include "msg_sim.h"

#include <string.h>

static uint8_t local_memory[256], remote_memory[256];
static struct na_plugin_mem local = {local_memory}, remote = {remote_memory}, unused;

static int32_t submit(struct sim_pair *pair, struct sim_op *op, uint32_t is_put, uint64_t offset)
{
    return (is_put ? kit_msg_put : kit_msg_get)(pair->ca, op, &local, offset, &remote, offset, 16,
                                                pair->b_at_a, 0);
}

static void test_put_and_get(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op ops[4] = {0};

    memset(local_memory, 1, sizeof(local_memory));
    memset(remote_memory, 2, sizeof(remote_memory));
    for (uint32_t mode = SIM_RMA_AT_ONCE; mode <= SIM_RMA_LATER; mode++) {
        pair->a->rma_mode = mode;
        memset(ops, 0, sizeof(ops));
        assert_int_equal(submit(pair, &ops[0], 1, 0), 0);
        assert_int_equal(submit(pair, &ops[1], 0, 32), 0);
        sim_poll_until(pair->ca, NULL, &ops[0]);
        sim_poll_until(pair->ca, NULL, &ops[1]);
        assert_int_equal(ops[0].status, 0);
        assert_int_equal(ops[1].status, 0);
        assert_int_equal(remote_memory[15], 1);
        assert_int_equal(remote_memory[16], 2);
        assert_int_equal(local_memory[32], 2);
    }
    assert_int_equal(pair->a->endpoint.state->session.waiting, 0);
}

static void test_back_pressure(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op ops[8] = {0};

    pair->a->rma_again = 5;
    for (uint32_t i = 0; i < 8; i++) {
        local_memory[0] = (uint8_t) i;
        assert_int_equal(submit(pair, &ops[i], 1, 0), 0);
        assert_int_equal(ops[i].completions, 0);
    }
    sim_poll_until(pair->ca, NULL, &ops[7]);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(ops[i].completions, 1);
}

static void test_refused(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op ops[2] = {0};

    pair->a->rma_status = NA_PLUGIN_PERMISSION;
    assert_int_equal(submit(pair, &ops[0], 1, 0), 0);
    assert_int_equal(ops[0].status, NA_PLUGIN_PERMISSION);
    assert_int_equal(ops[0].completions, 1);
    pair->a->rma_status = 0;
    assert_int_equal(submit(pair, &ops[1], 1, 0), 0);
    assert_int_equal(ops[1].status, 0);
}

static void test_cancel(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op queued = {0}, first = {0}, never = {0}, stubborn = {0};

    pair->a->rma_again = 2;
    assert_int_equal(submit(pair, &first, 1, 0), 0);
    assert_int_equal(submit(pair, &queued, 1, 0), 0);
    assert_int_equal(kit_msg_cancel(pair->ca, &queued), 0);
    assert_int_equal(queued.status, NA_PLUGIN_CANCELED);
    sim_poll_until(pair->ca, NULL, &first);

    pair->a->rma_mode = SIM_RMA_NEVER;
    assert_int_equal(submit(pair, &never, 1, 0), 0);
    sim_poll(pair->ca, NULL, 10);
    assert_int_equal(never.completions, 0);
    assert_int_equal(kit_msg_cancel(pair->ca, &never), 0);
    assert_int_equal(never.completions, 1);
    assert_int_equal(never.status, NA_PLUGIN_CANCELED);
    assert_int_equal(kit_msg_cancel(pair->ca, &never), 0);
    sim_poll(pair->ca, NULL, 10); /* the fabric releases the transfer */
    assert_int_equal(never.completions, 1);

    pair->a->rma_mode = SIM_RMA_STUBBORN;
    assert_int_equal(submit(pair, &stubborn, 1, 0), 0);
    assert_int_equal(kit_msg_cancel(pair->ca, &stubborn), 0);
    assert_int_equal(stubborn.completions, 0);
    sim_poll(pair->ca, NULL, 10);
    assert_int_equal(stubborn.completions, 1);
    assert_int_equal(stubborn.status, NA_PLUGIN_CANCELED);
    assert_int_equal(pair->a->endpoint.state->session.waiting, 0);
}

/* A transfer to a peer without a session: a HELLO goes first. */
static void test_first_contact(void **state)
{
    struct sim_pair *pair = *state;
    struct na_plugin_class *c = sim_open(&pair->net, "c", NULL);
    struct na_plugin_context *cc = sim_context(c, 0);
    struct na_plugin_addr *addr = sim_lookup(pair->a, "c");
    struct sim_op op = {0};

    assert_int_equal(kit_msg_put(pair->ca, &op, &local, 0, &remote, 0, 16, addr, 0), 0);
    assert_int_equal(op.completions, 0);
    sim_poll_until(pair->ca, cc, &op);
    assert_int_equal(op.status, 0);
    kit_msg_addr_free(pair->a, addr);
    sim_close(c, cc);
}

static void test_peer_fails(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op ops[4] = {0};

    pair->a->rma_mode = SIM_RMA_NEVER;
    assert_int_equal(submit(pair, &ops[0], 1, 0), 0);
    pair->a->rma_mode = SIM_RMA_STUBBORN;
    assert_int_equal(submit(pair, &ops[1], 1, 0), 0);
    pair->a->rma_again = 1;
    assert_int_equal(submit(pair, &ops[2], 1, 0), 0);
    pair->a->rma_mode = SIM_RMA_STUBBORN;
    kit_msg_lock(&pair->a->endpoint);
    kit_peer_failed(&msg_peer_of(pair->b_at_a)->base, NA_PLUGIN_HOSTUNREACH, "the test says so");
    kit_msg_unlock(&pair->a->endpoint);
    assert_int_equal(ops[2].status, NA_PLUGIN_HOSTUNREACH);
    assert_int_equal(ops[1].completions, 0); /* the fabric still uses its memory */
    sim_poll(pair->ca, pair->cb, 10);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ops[i].completions, 1);
        assert_int_equal(ops[i].status, NA_PLUGIN_HOSTUNREACH);
    }
    pair->a->rma_mode = SIM_RMA_AT_ONCE;
    assert_int_equal(submit(pair, &ops[3], 1, 0), 0);
    sim_poll_until(pair->ca, pair->cb, &ops[3]);
    assert_int_equal(ops[3].status, 0);
}

/* The fabric does not release a transfer: stopping the context does not wait for it. */
static void test_stop(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op ops[2] = {0};
    uint64_t looks;

    pair->a->rma_mode = SIM_RMA_DEAF;
    assert_int_equal(submit(pair, &ops[0], 1, 0), 0);
    looks = sim_clock_looks;
    assert_int_equal(kit_msg_context_stop(pair->ca), 0);
    assert_int_equal(sim_clock_looks, looks);
    assert_int_equal(ops[0].completions, 1);
    assert_int_equal(ops[0].status, NA_PLUGIN_CANCELED);
    assert_int_equal(pair->a->resets, 0);
    assert_int_equal(pair->a->endpoint.state->detached_count, 1);
    assert_int_equal(kit_msg_context_destroy(pair->ca), 0);
    assert_int_equal(pair->a->resets, 1);
    assert_int_equal(pair->a->endpoint.state->detached_count, 0);
    assert_int_equal(ops[0].completions, 1);

    pair->ca = sim_context(pair->a, 0);
    pair->a->rma_mode = SIM_RMA_AT_ONCE;
    assert_int_equal(submit(pair, &ops[1], 1, 0), 0);
    sim_poll_until(pair->ca, pair->cb, &ops[1]);
    assert_int_equal(ops[1].status, 0);
}

/* Deregistering memory waits until the fabric has released it, at most for the given time. */
static void test_stop_of_one(void **state)
{
    struct sim_pair *pair = *state;
    struct na_plugin_init init = sim_init();
    struct na_plugin_context *contexts[2];
    struct na_plugin_class *c;
    struct kit_endpoint *endpoint;
    struct na_plugin_addr *addr;
    struct sim_op ops[2] = {0};

    init.max_contexts = 2;
    c = sim_open(&pair->net, "c", &init);
    endpoint = &c->endpoint;
    addr = sim_lookup(c, "b");
    for (uint32_t i = 0; i < 2; i++)
        contexts[i] = sim_context(c, i);
    c->rma_mode = SIM_RMA_STUBBORN;
    assert_int_equal(kit_msg_get(contexts[1], &ops[0], &local, 0, &remote, 0, 16, addr, 0), 0);
    sim_poll(contexts[0], pair->cb, 10);
    assert_int_equal(kit_msg_context_stop(contexts[1]), 0);
    assert_int_equal(ops[0].status, NA_PLUGIN_CANCELED);
    assert_int_equal(endpoint->state->detached_count, 1);
    kit_msg_lock(endpoint);
    assert_true(kit_msg_rma_leave(endpoint, &unused, 0));
    assert_false(kit_msg_rma_leave(endpoint, &local, 0));
    assert_true(kit_msg_rma_leave(endpoint, &local, UINT64_C(60000000000)));
    kit_msg_unlock(endpoint);
    assert_int_equal(endpoint->state->detached_count, 0);
    assert_int_equal(kit_msg_context_destroy(contexts[1]), 0);

    contexts[1] = sim_context(c, 1);
    c->rma_mode = SIM_RMA_DEAF;
    assert_int_equal(kit_msg_get(contexts[1], &ops[1], &local, 0, &remote, 0, 16, addr, 0), 0);
    assert_int_equal(kit_msg_context_stop(contexts[1]), 0);
    assert_int_equal(ops[1].status, NA_PLUGIN_CANCELED);
    kit_msg_lock(endpoint);
    assert_false(kit_msg_rma_leave(endpoint, &remote, 1000));
    kit_msg_unlock(endpoint);
    assert_int_equal(kit_msg_context_destroy(contexts[1]), 0);
    /* the other context is still in use, so the fabric is not reset */
    assert_int_equal(c->resets, 0);
    assert_int_equal(kit_msg_context_stop(contexts[0]), 0);
    assert_int_equal(kit_msg_context_destroy(contexts[0]), 0);
    assert_int_equal(c->resets, 1);
    kit_msg_addr_free(c, addr);
    sim_close(c, NULL);
}

static void test_no_retry(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op op = {0};

    pair->a->endpoint.state->is_no_retry = true;
    pair->a->rma_again = 1;
    assert_int_equal(submit(pair, &op, 1, 0), NA_PLUGIN_AGAIN);
    assert_int_equal(op.completions, 0);
    sim_poll(pair->ca, NULL, 1);
    assert_int_equal(submit(pair, &op, 1, 0), 0);
    assert_int_equal(op.completions, 1);
    assert_int_equal(pair->a->endpoint.state->session.waiting, 0);
}

static void test_self(void **state)
{
    struct sim_pair *pair = *state;
    struct na_plugin_addr *self;
    struct sim_op op = {0};

    assert_int_equal(kit_msg_addr_self(pair->a, &self), 0);
    assert_int_equal(kit_msg_put(pair->ca, &op, &local, 0, &remote, 0, 16, self, 0), 0);
    sim_poll_until(pair->ca, NULL, &op);
    assert_int_equal(op.status, 0);
    kit_msg_addr_free(pair->a, self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_put_and_get, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_back_pressure, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_refused, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_cancel, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_first_contact, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_peer_fails, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_stop, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_stop_of_one, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_no_retry, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_self, sim_pair_setup, sim_pair_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
