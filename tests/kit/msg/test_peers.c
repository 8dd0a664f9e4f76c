/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers: HELLOs that cross, restarts, deaths, BYEs, stale frames, aliases, keys. */

#include "msg_sim.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static void ticks(struct na_plugin_context *ca, struct na_plugin_context *cb, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        sim_clock_skip += SECOND / 10;
        sim_poll(ca, cb, 32);
    }
}

/* Replaces b by another process with the same name. */
static void restart_b(struct sim_pair *pair)
{
    sim_kill(pair->b);
    kit_msg_addr_free(pair->b, pair->a_at_b);
    sim_close(pair->b, pair->cb);
    pair->b = sim_open(&pair->net, "b", NULL);
    pair->cb = sim_context(pair->b, 0);
}

static void test_hellos_cross(void **state)
{
    struct sim_pair *pair = *state;
    struct na_plugin_class *c = sim_open(&pair->net, "c", NULL);
    struct na_plugin_context *cc = sim_context(c, 0);
    struct na_plugin_addr *a_at_c = sim_lookup(c, "a"), *c_at_a = sim_lookup(pair->a, "c");
    struct sim_op sends[6] = {0}, receives[6] = {0}, expected[2] = {0};
    uint32_t in[6], out[6] = {0, 1, 2, 3, 4, 5};

    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(kit_msg_recv_unexpected(pair->ca, &receives[i], &in[i], 4, NULL), 0);
        assert_int_equal(kit_msg_recv_unexpected(cc, &receives[3 + i], &in[3 + i], 4, NULL), 0);
    }
    assert_int_equal(kit_msg_recv_expected(pair->ca, &expected[0], in, 4, NULL, c_at_a, 0, 7), 0);
    assert_int_equal(kit_msg_recv_expected(cc, &expected[1], in, 4, NULL, a_at_c, 0, 7), 0);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(kit_msg_send_unexpected(cc, &sends[i], &out[i], 4, NULL, a_at_c, 0, i), 0);
        assert_int_equal(
            kit_msg_send_unexpected(pair->ca, &sends[3 + i], &out[3 + i], 4, NULL, c_at_a, 0, i),
            0);
    }
    sim_poll_until(pair->ca, cc, &receives[2]);
    sim_poll_until(pair->ca, cc, &receives[5]);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(receives[i].status, 0);
        assert_int_equal(in[i], i);
        assert_ptr_equal(receives[i].source, i < 3 ? c_at_a : a_at_c);
        kit_msg_addr_free(NULL, receives[i].source);
    }
    assert_int_equal(c->hellos, 1);
    memset(sends, 0, sizeof(sends));
    assert_int_equal(kit_msg_send_expected(cc, &sends[0], out, 4, NULL, a_at_c, 0, 7), 0);
    assert_int_equal(kit_msg_send_expected(pair->ca, &sends[1], out, 4, NULL, c_at_a, 0, 7), 0);
    sim_poll_until(pair->ca, cc, &expected[0]);
    sim_poll_until(pair->ca, cc, &expected[1]);
    assert_int_equal(expected[0].status, 0);
    assert_int_equal(expected[1].status, 0);
    kit_msg_addr_free(c, a_at_c);
    kit_msg_addr_free(pair->a, c_at_a);
    sim_close(c, cc);
}

/* The connection to the peer is established in the background. */
static void test_slow_open(void **state)
{
    struct sim_pair *pair = *state;
    struct na_plugin_class *c = sim_open(&pair->net, "c", NULL);
    struct na_plugin_context *cc = sim_context(c, 0);
    struct na_plugin_addr *a_at_c = sim_lookup(c, "a");

    c->open_again = 3;
    c->again = 3;
    sim_meet(cc, pair->ca, a_at_c, NULL);
    assert_int_equal(c->opened, 1);
    kit_msg_addr_free(c, a_at_c);
    sim_close(c, cc);
}

static void test_no_way(void **state)
{
    struct sim_pair *pair = *state;
    struct na_plugin_addr *addr = sim_lookup(pair->a, "nobody");
    struct sim_op send = {0}, receive = {0};
    char buf[4];

    pair->a->open_status = NA_PLUGIN_NOENTRY;
    assert_int_equal(kit_msg_recv_expected(pair->ca, &receive, buf, 4, NULL, addr, 0, 1), 0);
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &send, "x", 2, NULL, addr, 0, 1), 0);
    assert_int_equal(send.status, NA_PLUGIN_NOENTRY);
    assert_int_equal(receive.status, NA_PLUGIN_NOENTRY);
    pair->a->open_status = 0;
    memset(&send, 0, sizeof(send));
    memset(&receive, 0, sizeof(receive));
    assert_int_equal(kit_msg_recv_expected(pair->ca, &receive, buf, 4, NULL, addr, 0, 1), 0);
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &send, "x", 2, NULL, addr, 0, 1), 0);
    sim_poll_until(pair->ca, pair->cb, &receive);
    assert_int_equal(send.status, NA_PLUGIN_HOSTUNREACH);
    assert_int_equal(receive.status, NA_PLUGIN_HOSTUNREACH);
    kit_msg_addr_free(pair->a, addr);
}

/* The target is replaced, and the fabric does not report it. A silent peer is sent a HELLO, and the
 * HELLO_ACK of its successor ends the operations that wait for the first process. */
static void test_restart_is_noticed(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op receive = {0}, send = {0};
    char buf[8];

    assert_int_equal(kit_msg_recv_expected(pair->ca, &receive, buf, 8, NULL, pair->b_at_a, 0, 1),
                     0);
    restart_b(pair);
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &send, "x", 2, NULL, pair->b_at_a, 0, 1), 0);
    sim_poll(pair->ca, pair->cb, 5);
    assert_int_equal(pair->b->endpoint.state->counters.frames_stale, 1);
    assert_int_equal(receive.completions, 0);
    ticks(pair->ca, pair->cb, 5);
    assert_int_equal(receive.completions, 1);
    assert_int_equal(receive.status, NA_PLUGIN_HOSTUNREACH);
    assert_int_equal(pair->a->endpoint.state->session.waiting, 0);
    sim_meet(pair->ca, pair->cb, pair->b_at_a, &pair->a_at_b);
}

struct lost {
    struct na_plugin_class *node;
    struct na_plugin_addr *addr;
    uint32_t count;
    int32_t status;
};

static void take_lost(void *arg, struct na_plugin_addr *addr, int32_t status)
{
    struct lost *lost = arg;

    lost->addr = addr;
    lost->status = status;
    lost->count++;
    kit_msg_addr_free(lost->node, addr);
}

/* A program that asked for it is notified when an idle peer is lost, once for each loss. */
static void test_idle_peer_is_reported(void **state)
{
    struct sim_pair *pair = *state;
    struct lost lost = {.node = pair->a};
    const struct na_plugin_peer_events *events = kit_msg_get_extension(NA_PLUGIN_EXT_PEER_EVENTS);

    assert_int_equal(events->peer_events_set(pair->a, take_lost, &lost), 0);
    ticks(pair->ca, pair->cb, 50);
    assert_int_equal(lost.count, 0);
    for (uint32_t i = 1; i < 4; i++) {
        restart_b(pair);
        ticks(pair->ca, pair->cb, 50);
        assert_int_equal(lost.count, i);
        assert_ptr_equal(lost.addr, pair->b_at_a);
        assert_int_equal(lost.status, NA_PLUGIN_HOSTUNREACH);
        sim_meet(pair->ca, pair->cb, pair->b_at_a, &pair->a_at_b);
    }
    kit_msg_lock(&pair->a->endpoint);
    kit_peer_failed(&msg_peer_of(pair->b_at_a)->base, NA_PLUGIN_IO_ERROR, "the test says so");
    kit_peer_failed(&msg_peer_of(pair->b_at_a)->base, NA_PLUGIN_IO_ERROR, "it says so again");
    kit_msg_unlock(&pair->a->endpoint);
    assert_int_equal(lost.count, 4);
    assert_int_equal(lost.status, NA_PLUGIN_IO_ERROR);
    assert_int_equal(events->peer_events_set(pair->a, NULL, NULL), 0);
    kit_msg_addr_free(pair->b, pair->a_at_b);
    sim_meet(pair->ca, pair->cb, pair->b_at_a, &pair->a_at_b);
    restart_b(pair);
    ticks(pair->ca, pair->cb, 50);
    kit_msg_addr_free(pair->a, sim_lookup(pair->a, "b"));
    sim_meet(pair->ca, pair->cb, pair->b_at_a, &pair->a_at_b);
    assert_int_equal(lost.count, 4);
}

/* After a lookup the successor is recognized; operations posted after the lookup belong to it. */
static void test_lookup_after_restart(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op old = {0}, new = {0}, request = {0}, served = {0}, answer = {0};
    struct na_plugin_addr *addr;
    char buf[8], in[8];

    assert_int_equal(kit_msg_recv_expected(pair->ca, &old, buf, 8, NULL, pair->b_at_a, 0, 1), 0);
    restart_b(pair);
    addr = sim_lookup(pair->a, "b");
    assert_ptr_equal(addr, pair->b_at_a);
    assert_int_equal(kit_msg_recv_unexpected(pair->cb, &served, in, 8, NULL), 0);
    assert_int_equal(kit_msg_recv_expected(pair->ca, &new, buf, 8, NULL, addr, 0, 1), 0);
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &request, "q", 2, NULL, addr, 0, 1), 0);
    sim_poll_until(pair->ca, pair->cb, &served);
    assert_int_equal(served.status, 0);
    assert_int_equal(kit_msg_send_expected(pair->cb, &answer, "r", 2, NULL, served.source, 0, 1),
                     0);
    sim_poll_until(pair->ca, pair->cb, &new);
    assert_int_equal(old.completions, 1);
    assert_int_equal(old.status, NA_PLUGIN_HOSTUNREACH);
    assert_int_equal(new.status, 0);
    assert_string_equal(buf, "r");
    kit_msg_addr_free(pair->a, addr);
    pair->a_at_b = served.source;
}

/* No message between a lookup and its answer is lost, whatever their number. */
static void test_stream_after_restart(void **state)
{
    struct sim_pair *pair = *state;
    enum {
        COUNT = 200
    };
    static struct sim_op sends[COUNT], receives[COUNT];
    static uint32_t in[COUNT], out[COUNT];

    memset(sends, 0, sizeof(sends));
    memset(receives, 0, sizeof(receives));
    restart_b(pair);
    kit_msg_addr_free(pair->a, sim_lookup(pair->a, "b"));
    for (uint32_t i = 0; i < COUNT; i++) {
        out[i] = i;
        assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receives[i], &in[i], 4, NULL), 0);
        assert_int_equal(
            kit_msg_send_unexpected(pair->ca, &sends[i], &out[i], 4, NULL, pair->b_at_a, 0, i), 0);
        if (i % 50 == 20)
            sim_poll(pair->ca, NULL, 1);
    }
    sim_poll_until(pair->ca, pair->cb, &receives[COUNT - 1]);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(in[i], i);
        kit_msg_addr_free(pair->b, receives[i].source);
    }
    assert_int_equal(kit_msg_peer_lookup(&pair->b->endpoint, "a", NULL, 0, &pair->a_at_b), 0);
}

/* The restarted process sends the HELLO. */
static void test_origin_restarts(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op receive = {0};
    char buf[8];

    assert_int_equal(kit_msg_recv_expected(pair->ca, &receive, buf, 8, NULL, pair->b_at_a, 0, 1),
                     0);
    restart_b(pair);
    pair->a_at_b = sim_lookup(pair->b, "a");
    sim_meet(pair->cb, pair->ca, pair->a_at_b, NULL);
    assert_int_equal(receive.completions, 1);
    assert_int_equal(receive.status, NA_PLUGIN_HOSTUNREACH);
    sim_meet(pair->ca, pair->cb, pair->b_at_a, NULL);
}

static void test_bye(void **state)
{
    struct sim_pair *pair = *state;
    struct msg_endpoint *inside = pair->a->endpoint.state;
    struct sim_op receive = {0};
    char buf[8];

    assert_int_equal(kit_msg_recv_expected(pair->ca, &receive, buf, 8, NULL, pair->b_at_a, 0, 1),
                     0);
    kit_msg_addr_free(pair->b, pair->a_at_b);
    sim_close(pair->b, pair->cb);
    pair->b = NULL;
    sim_poll(pair->ca, NULL, 2);
    assert_int_equal(receive.completions, 1);
    assert_int_equal(receive.status, NA_PLUGIN_HOSTUNREACH);
    /* A peer without references is freed. */
    assert_int_equal(inside->session.peer_count, 2);
    kit_msg_addr_free(pair->a, pair->b_at_a);
    ticks(pair->ca, NULL, 20);
    assert_int_equal(inside->session.peer_count, 1);
    assert_int_equal(pair->a->opened, pair->a->closed);
    pair->b_at_a = sim_lookup(pair->a, "b");
}

/* New contexts are created after the last one was destroyed. */
static void test_endpoint_goes_on_after_bye(void **state)
{
    struct sim_pair *pair = *state;

    assert_int_equal(kit_msg_context_stop(pair->cb), 0);
    assert_int_equal(kit_msg_context_destroy(pair->cb), 0);
    sim_poll(pair->ca, NULL, 2);
    pair->cb = sim_context(pair->b, 0);
    sim_meet(pair->ca, pair->cb, pair->b_at_a, NULL);
    sim_meet(pair->cb, pair->ca, pair->a_at_b, NULL);
}

/* The connection fails at one side only: the other side is told when it uses its stale token. */
static void test_one_sided_failure(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op receive = {0}, send = {0};
    char buf[8];

    kit_msg_lock(&pair->b->endpoint);
    kit_peer_failed(&msg_peer_of(pair->a_at_b)->base, NA_PLUGIN_IO_ERROR, "the test says so");
    kit_msg_unlock(&pair->b->endpoint);
    assert_int_equal(kit_msg_recv_expected(pair->ca, &receive, buf, 8, NULL, pair->b_at_a, 0, 1),
                     0);
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &send, "x", 2, NULL, pair->b_at_a, 0, 1), 0);
    sim_poll_until(pair->ca, pair->cb, &receive); /* without waiting for a tick */
    assert_int_equal(receive.status, NA_PLUGIN_HOSTUNREACH);
    assert_int_equal(pair->b->endpoint.state->counters.frames_stale, 1);
    sim_meet(pair->ca, pair->cb, pair->b_at_a, NULL);
    sim_meet(pair->cb, pair->ca, pair->a_at_b, NULL);
}

/* A failed frame ends all operations that wait for its peer, once; afterwards the peer is usable
 * again. */
static void test_failed_frame(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op receives[2] = {0}, sends[20] = {0};
    char buf[8];

    pair->a->delay = 2;
    pair->a->sent_status = NA_PLUGIN_HOSTUNREACH;
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(
            kit_msg_recv_expected(pair->ca, &receives[i], buf, 8, NULL, pair->b_at_a, 0, i), 0);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(
            kit_msg_send_unexpected(pair->ca, &sends[i], "x", 2, NULL, pair->b_at_a, 0, i), 0);
    pair->a->sent_status = 0;
    sim_poll(pair->ca, NULL, 5);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(sends[i].completions, 1);
        assert_int_equal(sends[i].status, NA_PLUGIN_HOSTUNREACH);
    }
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(receives[i].status, NA_PLUGIN_HOSTUNREACH);
    pair->a->send_status = NA_PLUGIN_IO_ERROR;
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &sends[0], "x", 2, NULL, pair->b_at_a, 0, 0),
                     0);
    assert_int_equal(sends[0].completions, 2);
    assert_int_equal(sends[0].status, NA_PLUGIN_IO_ERROR);
    pair->a->send_status = 0;
    pair->a->delay = 0;
    sim_meet(pair->ca, pair->cb, pair->b_at_a, NULL);
    assert_int_equal(pair->a->endpoint.state->in_flight, 0);
    assert_int_equal(pair->a->endpoint.state->session.waiting, 0);
}

/*
 * A fabric that re-establishes a failed connection may lose frames that it reported as sent.
 * Neither a lost request nor a lost response leaves an operation waiting, and afterwards everything
 * works.
 */
static void test_lost_frame(void **state)
{
    struct sim_pair *pair = *state;

    for (uint32_t is_answer = 0; is_answer < 2; is_answer++) {
        struct sim_op receive = {0}, request = {0}, send = {0}, answer = {0};
        char in[8], buf[8];

        assert_int_equal(kit_msg_recv_unexpected(pair->cb, &request, in, 8, NULL), 0);
        assert_int_equal(
            kit_msg_recv_expected(pair->ca, &receive, buf, 8, NULL, pair->b_at_a, 0, 1), 0);
        pair->a->lose = is_answer ? 0 : 1;
        assert_int_equal(kit_msg_send_unexpected(pair->ca, &send, "x", 2, NULL, pair->b_at_a, 0, 1),
                         0);
        assert_int_equal(send.status, 0);
        if (is_answer) {
            sim_poll_until(pair->ca, pair->cb, &request);
            kit_msg_addr_free(NULL, request.source);
            pair->b->lose = 1;
            assert_int_equal(
                kit_msg_send_expected(pair->cb, &answer, "y", 2, NULL, pair->a_at_b, 0, 1), 0);
        }
        ticks(pair->ca, pair->cb, 5);
        assert_int_equal(receive.completions, 1);
        assert_int_equal(receive.status, NA_PLUGIN_HOSTUNREACH);
        if (!is_answer)
            assert_int_equal(kit_msg_cancel((void *) pair->cb, &request), 0);
        sim_meet(pair->ca, pair->cb, pair->b_at_a, NULL);
        sim_meet(pair->cb, pair->ca, pair->a_at_b, NULL);
    }
}

/* A slow peer is never abandoned. */
static void test_slow_peer(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op receive = {0}, send = {0};
    char buf[8];
    uint32_t frames = pair->a->frames;

    assert_int_equal(kit_msg_recv_expected(pair->ca, &receive, buf, 8, NULL, pair->b_at_a, 0, 1),
                     0);
    ticks(pair->ca, NULL, 200);
    assert_int_equal(receive.completions, 0);
    assert_in_range(pair->a->frames - frames, 5, 16); /* pings at increasing intervals */
    assert_int_equal(kit_msg_send_expected(pair->cb, &send, "x", 2, NULL, pair->a_at_b, 0, 1), 0);
    sim_poll_until(pair->ca, pair->cb, &receive);
    assert_int_equal(receive.status, 0);
    frames = pair->a->frames;
    ticks(pair->ca, pair->cb, 50);
    assert_in_range(pair->a->frames - frames, 0, 1); /* nothing is pending, so nothing is sent */
}

/* A process on the same node was killed: first it is a zombie, then it is gone. */
static void test_death_of_a_process(void **state)
{
    struct sim_pair *pair = *state;
    struct msg_peer *peer = msg_peer_of(pair->b_at_a);
    struct sim_op receive = {0};
    char buf[8];
    pid_t pid;

    for (uint32_t reaped = 0; reaped < 2; reaped++) {
        memset(&receive, 0, sizeof(receive));
        pid = fork();
        assert_int_not_equal(pid, -1);
        if (pid == 0) {
            (void) pause();
            _exit(0);
        }
        peer->base.pid = (uint32_t) pid; /* as if its HELLO had named this process */
        peer->base.start_time = 0;
        assert_int_equal(
            kit_msg_recv_expected(pair->ca, &receive, buf, 8, NULL, pair->b_at_a, 0, 1), 0);
        ticks(pair->ca, NULL, 3);
        assert_int_equal(receive.completions, 0);
        assert_int_equal(kill(pid, SIGKILL), 0);
        if (reaped != 0)
            assert_int_equal(waitpid(pid, NULL, 0), pid);
        for (uint32_t i = 0; i < 100 && receive.completions == 0; i++) {
            (void) usleep(10000);
            ticks(pair->ca, NULL, 1);
        }
        assert_int_equal(receive.status, NA_PLUGIN_HOSTUNREACH);
        if (reaped == 0)
            assert_int_equal(waitpid(pid, NULL, 0), pid);
        ticks(pair->ca, pair->cb, 2);
        sim_meet(pair->ca, pair->cb, pair->b_at_a, NULL);
    }
    /* The process id is reused by another process. */
    peer->base.start_time++;
    memset(&receive, 0, sizeof(receive));
    assert_int_equal(kit_msg_recv_expected(pair->ca, &receive, buf, 8, NULL, pair->b_at_a, 0, 1),
                     0);
    ticks(pair->ca, NULL, 3);
    assert_int_equal(receive.status, NA_PLUGIN_HOSTUNREACH);
}

/* Peers without references are freed: a thousand of them leave nothing. */
static void test_many_peers(void **state)
{
    struct sim_pair *pair = *state;
    struct msg_endpoint *inside = pair->a->endpoint.state;
    struct na_plugin_addr *addrs[1000];
    char name[32];

    for (uint32_t i = 0; i < 1000; i++) {
        (void) snprintf(name, sizeof(name), "peer-%u", i);
        addrs[i] = sim_lookup(pair->a, name);
    }
    assert_int_equal(inside->session.peer_count, 1002);
    for (uint32_t i = 0; i < 1000; i++) {
        (void) snprintf(name, sizeof(name), "peer-%u", i);
        assert_ptr_equal(sim_lookup(pair->a, name), addrs[i]);
        kit_msg_addr_free(pair->a, addrs[i]);
        kit_msg_addr_free(pair->a, addrs[i]);
    }
    for (uint32_t i = 0; i < 1000; i++) {
        (void) snprintf(name, sizeof(name), "other-%u", i);
        kit_msg_addr_free(pair->a, sim_lookup(pair->a, name));
    }
    assert_in_range(inside->session.peer_count, 2, 600);
    ticks(pair->ca, pair->cb, 20);
    assert_int_equal(inside->session.peer_count, 2);
    assert_int_equal(kit_msg_addr_set_remove(pair->a, pair->b_at_a), 0);
    kit_msg_addr_free(pair->a, pair->b_at_a);
    ticks(pair->ca, pair->cb, 2);
    assert_int_equal(inside->session.peer_count, 1);
    pair->b_at_a = sim_lookup(pair->a, "b");
    sim_meet(pair->ca, pair->cb, pair->b_at_a, NULL);
}

/* A peer on another node vanishes without a BYE while no operation is pending with it. */
static void test_idle_peer_vanishes(void **state)
{
    struct sim_pair *pair = *state;
    struct msg_endpoint *inside = pair->b->endpoint.state;
    uint32_t frames;

    msg_peer_of(pair->a_at_b)->base.host++; /* on another node, its process cannot be checked */
    msg_peer_of(pair->a_at_b)->base.local = 0;
    frames = pair->b->frames;
    for (uint32_t i = 0; i < 64 * 16 * 2 + 32; i++) {
        sim_clock_skip += SECOND / 10;
        sim_poll(pair->cb, pair->ca, 32);
    }
    assert_in_range(pair->b->frames - frames, 1, 6);
    assert_int_equal(inside->session.peer_count, 2);
    kit_msg_addr_free(pair->b, pair->a_at_b);
    sim_kill(pair->a);
    for (uint32_t i = 0; i < 64 * 16 + 64; i++) {
        sim_clock_skip += SECOND / 10;
        sim_poll(pair->cb, NULL, 32);
    }
    assert_int_equal(inside->session.peer_count, 1);
    assert_int_equal(pair->b->opened, pair->b->closed);
    pair->a_at_b = sim_lookup(pair->b, "a");
}

/* One process under two names: its messages match receives from either one. */
static void test_alias(void **state)
{
    struct sim_pair *pair = *state;
    struct na_plugin_addr *alias = sim_lookup(pair->a, "alias-of-b");
    struct sim_op receives[2] = {0}, sends[2] = {0}, request = {0}, served = {0};
    char buf[8], in[8];

    assert_int_equal(kit_msg_addr_compare(pair->a, alias, pair->b_at_a), 0);
    assert_int_equal(kit_msg_recv_expected(pair->ca, &receives[0], buf, 8, NULL, alias, 0, 1), 0);
    assert_int_equal(
        kit_msg_recv_expected(pair->ca, &receives[1], buf, 8, NULL, pair->b_at_a, 0, 1), 0);
    assert_int_equal(kit_msg_recv_unexpected(pair->cb, &served, in, 8, NULL), 0);
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &request, "q", 2, NULL, alias, 0, 1), 0);
    sim_poll_until(pair->ca, pair->cb, &served);
    sim_poll(pair->ca, pair->cb, 3);
    assert_int_equal(kit_msg_addr_compare(pair->a, alias, pair->b_at_a), 1);
    assert_ptr_equal(served.source, pair->a_at_b);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(
            kit_msg_send_expected(pair->cb, &sends[i], "r", 2, NULL, served.source, 0, 1), 0);
    sim_poll_until(pair->ca, pair->cb, &receives[0]);
    sim_poll_until(pair->ca, pair->cb, &receives[1]);
    assert_int_equal(receives[0].status, 0);
    assert_int_equal(receives[1].status, 0);
    kit_msg_addr_free(pair->b, served.source);
    kit_msg_addr_free(pair->a, alias);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hellos_cross, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_slow_open, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_no_way, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_restart_is_noticed, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_idle_peer_is_reported, sim_pair_setup,
                                        sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_lookup_after_restart, sim_pair_setup,
                                        sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_stream_after_restart, sim_pair_setup,
                                        sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_origin_restarts, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_bye, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_endpoint_goes_on_after_bye, sim_pair_setup,
                                        sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_one_sided_failure, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_failed_frame, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_lost_frame, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_slow_peer, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_death_of_a_process, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_many_peers, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_idle_peer_vanishes, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_alias, sim_pair_setup, sim_pair_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
