/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random operations between three endpoints, over a fabric that finds no room, delays, fails and
 * disconnects, and whose endpoints die and come back. Each operation has to complete exactly once,
 * nothing may leak, and in the end everything works.
 */

#include "msg_sim.h"

#include <stdlib.h>
#include <string.h>

#define NODES 3u
#define OPS   400u
#define STEPS 4000u
#define SEEDS 12u

enum chaos_kind {
    CHAOS_FREE,
    CHAOS_SEND,
    CHAOS_RECEIVE,
    CHAOS_RMA
};

struct chaos_op {
    struct sim_op op;
    enum chaos_kind kind;
    uint32_t node;
    uint8_t buf[1024];
};

struct chaos {
    struct sim_net net;
    struct na_plugin_class *nodes[NODES];
    struct na_plugin_context *contexts[NODES];
    struct na_plugin_addr *addrs[NODES][NODES]; /* [i][k]: the address of node k at node i */
    struct chaos_op ops[OPS];
    uint8_t memory[256];
    struct na_plugin_mem local, remote;
    uint64_t posted, completed, succeeded;
};

static const char *const names[NODES] = {"a", "b", "c"};

static void chaos_open(struct chaos *chaos, uint32_t i)
{
    chaos->nodes[i] = sim_open(&chaos->net, names[i], NULL);
    chaos->contexts[i] = sim_context(chaos->nodes[i], 0);
    for (uint32_t k = 0; k < NODES; k++)
        chaos->addrs[i][k] = sim_lookup(chaos->nodes[i], names[k]);
}

static void chaos_collect(struct chaos *chaos)
{
    for (uint32_t i = 0; i < OPS; i++) {
        struct chaos_op *op = &chaos->ops[i];

        if (op->kind == CHAOS_FREE || op->op.completions == 0)
            continue;
        assert_int_equal(op->op.completions, 1);
        chaos->completed++;
        chaos->succeeded += op->op.status == 0;
        if (op->kind == CHAOS_RECEIVE && op->op.status == 0 && op->op.source != NULL)
            kit_msg_addr_free(chaos->nodes[op->node], op->op.source);
        op->kind = CHAOS_FREE;
    }
}

static void chaos_close(struct chaos *chaos, uint32_t i)
{
    assert_int_equal(kit_msg_context_stop(chaos->contexts[i]), 0);
    for (uint32_t k = 0; k < OPS; k++)
        if (chaos->ops[k].kind != CHAOS_FREE && chaos->ops[k].node == i)
            assert_int_equal(chaos->ops[k].op.completions, 1);
    chaos_collect(chaos);
    for (uint32_t k = 0; k < NODES; k++)
        kit_msg_addr_free(chaos->nodes[i], chaos->addrs[i][k]);
    sim_close(chaos->nodes[i], chaos->contexts[i]);
}

static struct chaos_op *chaos_get(struct chaos *chaos, enum chaos_kind kind, uint32_t node)
{
    for (uint32_t i = 0; i < OPS; i++) {
        struct chaos_op *op = &chaos->ops[i];

        if (op->kind != CHAOS_FREE)
            continue;
        op->kind = kind;
        op->node = node;
        op->op.completions = 0;
        op->op.source = NULL;
        return op;
    }
    return NULL;
}

static void chaos_post(struct chaos *chaos)
{
    uint32_t i = (uint32_t) rand() % NODES, k = (uint32_t) rand() % NODES;
    uint32_t what = (uint32_t) rand() % 5, tag = (uint32_t) rand() % 4;
    uint64_t size = rand() % 4 == 0 ? (uint64_t) rand() % 1024 : (uint64_t) rand() % 64;
    struct chaos_op *op = chaos_get(chaos,
                                    what < 2   ? CHAOS_SEND
                                    : what < 4 ? CHAOS_RECEIVE
                                               : CHAOS_RMA,
                                    i);
    int32_t ret = 0;

    if (op == NULL)
        return;
    if (what == 0)
        ret = kit_msg_send_unexpected(chaos->contexts[i], &op->op, op->buf, size, NULL,
                                      chaos->addrs[i][k], 0, tag);
    else if (what == 1)
        ret = kit_msg_send_expected(chaos->contexts[i], &op->op, op->buf, size, NULL,
                                    chaos->addrs[i][k], 0, tag);
    else if (what == 2)
        ret = kit_msg_recv_unexpected(chaos->contexts[i], &op->op, op->buf, 1024, NULL);
    else if (what == 3)
        ret = kit_msg_recv_expected(chaos->contexts[i], &op->op, op->buf, 1024, NULL,
                                    chaos->addrs[i][k], 0, tag);
    else
        ret = ((tag & 1) != 0 ? kit_msg_put : kit_msg_get)(chaos->contexts[i], &op->op,
                                                           &chaos->local, 0, &chaos->remote, 128,
                                                           64, chaos->addrs[i][k], 0);
    assert_int_equal(ret, 0);
    chaos->posted++;
}

static void chaos_disturb(struct chaos *chaos)
{
    uint32_t i = (uint32_t) rand() % NODES, k = (uint32_t) rand() % NODES;
    struct na_plugin_class *node = chaos->nodes[i];

    switch (rand() % 24) {
    case 0:
        node->again = (uint32_t) rand() % 10;
        break;
    case 1:
        node->delay = (uint32_t) rand() % 5;
        node->is_copying = rand() % 2 == 0;
        break;
    case 2:
        node->sent_status = rand() % 4 == 0 ? NA_PLUGIN_HOSTUNREACH : 0;
        break;
    case 3:
        node->send_status = rand() % 8 == 0 ? NA_PLUGIN_IO_ERROR : 0;
        break;
    case 4:
        node->is_cut = rand() % 4 == 0;
        break;
    case 5:
        node->rma_mode = (enum sim_rma_mode)(rand() % 4);
        break;
    case 6:
        node->rma_again = (uint32_t) rand() % 4;
        break;
    case 7:
        node->open_again = (uint32_t) rand() % 3;
        break;
    case 8:
        kit_msg_addr_free(node, sim_lookup(node, names[k]));
        break;
    case 9:
        if (rand() % 4 != 0 || i == k)
            break;
        kit_msg_lock(&node->endpoint);
        kit_peer_failed(&msg_peer_of(chaos->addrs[i][k])->base, NA_PLUGIN_HOSTUNREACH, "chaos");
        kit_msg_unlock(&node->endpoint);
        break;
    case 10:
        if (rand() % 16 != 0)
            break;
        if (rand() % 2 == 0)
            sim_kill(node);
        chaos_close(chaos, i);
        chaos_open(chaos, i);
        break;
    case 11:
        kit_msg_lock(&node->endpoint);
        (void) kit_msg_control_send(&node->endpoint, &msg_peer_of(chaos->addrs[i][k])->base, 1,
                                    names, 8);
        kit_msg_unlock(&node->endpoint);
        break;
    case 12:
        (void) kit_msg_poll_try_wait(chaos->contexts[i]);
        break;
    case 13:
        sim_clock_skip += UINT64_C(150000000);
        break;
    default: {
        struct chaos_op *op = &chaos->ops[(uint32_t) rand() % OPS];

        if (op->kind != CHAOS_FREE && op->op.completions == 0)
            assert_int_equal(kit_msg_cancel(chaos->contexts[op->node], &op->op), 0);
        break;
    }
    }
}

static void chaos_calm(struct chaos *chaos)
{
    for (uint32_t i = 0; i < NODES; i++) {
        struct na_plugin_class *node = chaos->nodes[i];

        node->again = node->delay = node->open_again = node->rma_again = 0;
        node->sent_status = node->send_status = 0;
        node->is_cut = false;
        node->rma_mode = SIM_RMA_AT_ONCE;
    }
    for (uint32_t n = 0; n < 60; n++) {
        sim_clock_skip += UINT64_C(100000000);
        for (uint32_t i = 0; i < NODES; i++)
            sim_poll(chaos->contexts[i], NULL, 32);
    }
}

/* Cancels all outstanding operations, and requires that they complete without a stop. */
static void chaos_settle(struct chaos *chaos)
{
    for (uint32_t k = 0; k < OPS; k++)
        if (chaos->ops[k].kind != CHAOS_FREE && chaos->ops[k].op.completions == 0)
            assert_int_equal(kit_msg_cancel(chaos->contexts[chaos->ops[k].node], &chaos->ops[k].op),
                             0);
    for (uint32_t i = 0; i < NODES; i++)
        chaos->nodes[i]->is_cut = true; /* jobs that never end remain in the fabric */
    for (uint32_t n = 0; n < 5; n++) {
        sim_clock_skip += UINT64_C(100000000);
        for (uint32_t i = 0; i < NODES; i++)
            sim_poll(chaos->contexts[i], NULL, 32);
    }
    chaos_collect(chaos);
    for (uint32_t k = 0; k < OPS; k++)
        assert_int_equal(chaos->ops[k].kind, CHAOS_FREE);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(chaos->nodes[i]->endpoint.state->session.waiting, 0);
        assert_int_equal(chaos->nodes[i]->endpoint.state->cancelling, 0);
    }
    assert_int_equal(chaos->posted, chaos->completed);
}

/* Each pair exchanges a message after another lookup. Unexpected messages from before are received
 * first. */
static void chaos_check_all(struct chaos *chaos)
{
    for (uint32_t i = 0; i < NODES; i++) {
        struct msg_endpoint *inside = chaos->nodes[i]->endpoint.state;

        while (inside->deferrals.count != 0) {
            struct sim_op receive = {0};
            uint8_t buf[1024];

            assert_int_equal(
                kit_msg_recv_unexpected(chaos->contexts[i], &receive, buf, sizeof(buf), NULL), 0);
            assert_int_equal(receive.completions, 1);
            kit_msg_addr_free(chaos->nodes[i], receive.source);
        }
        assert_int_equal(inside->deferred_count, 0);
    }
    for (uint32_t i = 0; i < NODES; i++) {
        for (uint32_t k = 0; k < NODES; k++) {
            if (i == k)
                continue;
            kit_msg_addr_free(chaos->nodes[i], sim_lookup(chaos->nodes[i], names[k]));
            sim_meet(chaos->contexts[i], chaos->contexts[k], chaos->addrs[i][k], NULL);
        }
    }
}

static void test_chaos(void **state)
{
    struct chaos *chaos = calloc(1, sizeof(*chaos));
    const char *seeds = getenv("FABRIC_CHAOS_SEEDS");
    unsigned int count = seeds != NULL ? (unsigned int) atoi(seeds) : SEEDS;

    (void) state;
    assert_non_null(chaos);
    for (unsigned int seed = 1; seed <= count; seed++) {
        memset(chaos, 0, sizeof(*chaos));
        srand(seed);
        chaos->local.base = chaos->remote.base = chaos->memory;
        sim_net_setup(&chaos->net);
        for (uint32_t i = 0; i < NODES; i++)
            chaos_open(chaos, i);
        for (uint32_t step = 0; step < STEPS; step++) {
            chaos_post(chaos);
            if (rand() % 2 == 0)
                chaos_disturb(chaos);
            sim_poll(chaos->contexts[(uint32_t) rand() % NODES], NULL, (uint32_t) rand() % 4);
            chaos_collect(chaos);
        }
        chaos_calm(chaos);
        chaos_settle(chaos);
        chaos_calm(chaos);
        chaos_check_all(chaos);
        assert_true(chaos->succeeded > chaos->posted / 8);
        for (uint32_t i = 0; i < NODES; i++)
            chaos_close(chaos, i);
        assert_int_equal(sim_allocations, 0);
    }
    free(chaos);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chaos),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
