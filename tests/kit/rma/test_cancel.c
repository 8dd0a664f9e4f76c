/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers that end early, after each number of steps: cancelled, their peer dead, their memory
 * deregistered, the network failing. The side that got its memory back writes to it, and nobody
 * else does.
 */

#include "rma_net.h"

#include <stdlib.h>
#include <string.h>

#define BOTH      (NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE)
#define LENGTH    (6u * NET_PIECE + 50u)
#define STEPS_MAX 200u

struct fixture {
    struct net net;
    struct net_op op;
    uint8_t *target_bytes;
    uint8_t source[NET_MEMORY], before[NET_MEMORY]; /* of the memory that the transfer writes */
    struct kit_region *local, *region, *remote;
    bool is_put;
};

static void fixture_open(struct fixture *fixture, enum net_cancel cancel, bool is_put,
                         bool is_sent_at_once)
{
    struct net *net = &fixture->net;

    net_open(net, NULL);
    net->cancel = cancel;
    net->is_sent_at_once = is_sent_at_once;
    fixture->is_put = is_put;
    net_op_init(&fixture->op);
    fixture->target_bytes = malloc(NET_MEMORY);
    assert_non_null(fixture->target_bytes);
    /* No byte of the initial contents equals NET_SCRIBBLE. */
    for (unsigned int i = 0; i < NET_MEMORY; i++) {
        fixture->op.memory[i] = (uint8_t) (1 + i % 50);
        fixture->target_bytes[i] = (uint8_t) (100 + i % 50);
    }
    memcpy(fixture->source, is_put ? fixture->op.memory : fixture->target_bytes, NET_MEMORY);
    memcpy(fixture->before, is_put ? fixture->target_bytes : fixture->op.memory, NET_MEMORY);
    fixture->local = net_region(&net->ends[0], fixture->op.memory, NET_MEMORY, BOTH);
    fixture->region = net_region(&net->ends[1], fixture->target_bytes, NET_MEMORY, BOTH);
    fixture->remote = net_remote(&net->ends[0], &net->ends[1], fixture->region);
}

static void fixture_start(struct fixture *fixture)
{
    assert_int_equal(net_start(&fixture->net.ends[0], &fixture->net.ends[1], &fixture->op,
                               fixture->local, fixture->remote, 7, LENGTH, fixture->is_put),
                     NA_PLUGIN_SUCCESS);
}

static void fixture_close(struct fixture *fixture)
{
    struct net *net = &fixture->net;

    assert_int_equal(net->lost_receives, 0);
    kit_rma_mem_destroy(net->ends[0].ts, fixture->local);
    kit_rma_mem_destroy(net->ends[0].ts, fixture->remote);
    kit_rma_mem_destroy(net->ends[1].ts, fixture->region);
    net_close(net);
    free(fixture->target_bytes);
    net_op_free(&fixture->op);
}

/* Each byte has its old or its new value. */
static void check_written(const struct fixture *fixture, const uint8_t *bytes)
{
    for (unsigned int i = 0; i < NET_MEMORY; i++)
        if (bytes[i] != fixture->before[i])
            assert_true(i >= 7 && i < 7 + LENGTH && bytes[i] == fixture->source[i]);
}

/* The user of the origin reuses the memory. */
static void scribble(struct fixture *fixture)
{
    memset(fixture->op.memory, NET_SCRIBBLE, NET_MEMORY);
    memset(fixture->op.frozen, NET_SCRIBBLE, NET_MEMORY);
}

static void steps(struct net *net, unsigned int count)
{
    for (unsigned int i = 0; i < count; i++)
        (void) net_step(net);
}

/* An ended transfer leaves nothing that disturbs the next one. */
static void check_next_works(struct fixture *fixture)
{
    uint8_t *written = fixture->is_put ? fixture->target_bytes : fixture->op.memory;
    const uint8_t *read = fixture->is_put ? fixture->op.memory : fixture->target_bytes;

    memset(fixture->op.memory, 3, NET_MEMORY);
    memset(fixture->target_bytes, 4, NET_MEMORY);
    fixture_start(fixture);
    net_run(&fixture->net);
    net_op_check(&fixture->op, NA_PLUGIN_SUCCESS);
    assert_memory_equal(written + 7, read + 7, LENGTH);
}

/* Cancels after `count` steps. Returns true when the transfer had completed by then. */
static bool cancel_after(unsigned int count, enum net_cancel cancel, bool is_put, bool at_once,
                         uint64_t *late)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    struct kit_rma_counters counters;
    bool was_done;

    assert_non_null(fixture);
    fixture_open(fixture, cancel, is_put, at_once);
    fixture_start(fixture);
    steps(&fixture->net, count);
    was_done = fixture->op.done != 0;
    if (!was_done) {
        bool is_over = net_abandon(&fixture->net.ends[0], &fixture->op, NA_PLUGIN_CANCELED, false);

        assert_true(is_over || cancel != NET_CANCEL_AT_ONCE);
        while (fixture->op.done == 0)
            assert_true(net_step(&fixture->net));
        check_written(fixture, is_put ? fixture->target_bytes : fixture->op.memory);
        scribble(fixture);
    }
    net_run(&fixture->net);
    net_op_check(&fixture->op, was_done ? NA_PLUGIN_SUCCESS : NA_PLUGIN_CANCELED);
    if (is_put)
        check_written(fixture, fixture->target_bytes);
    kit_rma_counters_get(fixture->net.ends[is_put ? 1 : 0].ts, &counters);
    *late += counters.pieces_late;
    check_next_works(fixture);
    fixture_close(fixture);
    free(fixture);
    return was_done;
}

static void cancel_at_every_step(void **state)
{
    uint64_t late = 0;

    (void) state;
    for (int cancel = NET_CANCEL_AT_ONCE; cancel <= NET_CANCEL_NEVER; cancel++) {
        for (int variant = 0; variant < 4; variant++) {
            unsigned int count = 0;

            while (!cancel_after(count, (enum net_cancel) cancel, variant % 2 != 0,
                                 variant / 2 != 0, &late))
                assert_true(++count < STEPS_MAX);
            assert_true(count > 10);
        }
    }
    assert_true(late > 0);
}

/* The target never hears of the transfer. */
static void cancel_before_the_request_leaves(void **state)
{
    (void) state;
    for (int is_put = 0; is_put < 2; is_put++) {
        struct fixture fixture;

        fixture_open(&fixture, NET_CANCEL_AT_ONCE, is_put != 0, false);
        fixture.net.control_again = UINT32_MAX;
        fixture_start(&fixture);
        net_poll(&fixture.net, 1);
        assert_null(fixture.net.first);
        assert_true(net_abandon(&fixture.net.ends[0], &fixture.op, NA_PLUGIN_CANCELED, false));
        fixture.net.control_again = 0;
        scribble(&fixture);
        net_run(&fixture.net);
        net_op_check(&fixture.op, NA_PLUGIN_CANCELED);
        check_next_works(&fixture);
        fixture_close(&fixture);
    }
}

/* Cancels while the control records of the end cannot be sent. */
static void cancel_without_room(void **state)
{
    (void) state;
    for (unsigned int count = 0; count < 30; count++) {
        struct fixture fixture;

        fixture_open(&fixture, NET_CANCEL_AT_ONCE, count % 2 != 0, false);
        fixture_start(&fixture);
        steps(&fixture.net, count / 2);
        fixture.net.control_again = 5;
        if (fixture.op.done == 0)
            assert_true(net_abandon(&fixture.net.ends[0], &fixture.op, NA_PLUGIN_CANCELED, false));
        net_run(&fixture.net);
        check_next_works(&fixture);
        fixture_close(&fixture);
    }
}

/* `how` selects which side detects the death first, and in which order operations and peer fail. */
static bool die_after(unsigned int count, enum net_cancel cancel, bool is_put, unsigned int how)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    struct net_end *ends = fixture->net.ends;
    bool was_done;

    assert_non_null(fixture);
    fixture_open(fixture, cancel, is_put, false);
    fixture_start(fixture);
    steps(&fixture->net, count);
    was_done = fixture->op.done != 0;
    net_lose(&fixture->net);
    if (how == 0)
        kit_rma_peer_failed(ends[1].ts, &ends[0], NA_PLUGIN_HOSTUNREACH);
    if (how >= 2) /* a message layer abandons the operations one by one first */
        (void) net_abandon(&ends[0], &fixture->op, NA_PLUGIN_HOSTUNREACH, true);
    if (how != 3) /* with 3, abandoning the operation has to suffice */
        kit_rma_peer_failed(ends[0].ts, &ends[1], NA_PLUGIN_HOSTUNREACH);
    if (how != 0)
        kit_rma_peer_failed(ends[1].ts, &ends[0], NA_PLUGIN_HOSTUNREACH);
    while (fixture->op.done == 0)
        assert_true(net_step(&fixture->net) || fixture->op.done != 0);
    scribble(fixture);
    net_run(&fixture->net);
    net_op_check(&fixture->op, was_done ? NA_PLUGIN_SUCCESS : NA_PLUGIN_HOSTUNREACH);
    check_next_works(fixture);
    fixture_close(fixture);
    free(fixture);
    return was_done;
}

static void peer_death_at_every_step(void **state)
{
    (void) state;
    for (int cancel = NET_CANCEL_AT_ONCE; cancel <= NET_CANCEL_ENDS; cancel++) {
        for (unsigned int variant = 0; variant < 8; variant++) {
            unsigned int count = 0;

            while (!die_after(count, (enum net_cancel) cancel, variant % 2 != 0, variant / 2))
                assert_true(++count < STEPS_MAX);
        }
    }
}

/* The origin takes the target for dead, while the target continues: its messages find no
 * operation. */
static void one_side_fails_at_every_step(void **state)
{
    (void) state;
    for (unsigned int count = 0; count < 60; count++) {
        struct fixture fixture;
        struct net_end *ends = fixture.net.ends;

        fixture_open(&fixture, NET_CANCEL_AT_ONCE, count % 2 != 0, false);
        fixture_start(&fixture);
        steps(&fixture.net, count / 2);
        kit_rma_peer_failed(ends[0].ts, &ends[1], NA_PLUGIN_HOSTUNREACH);
        if (fixture.op.status == NA_PLUGIN_HOSTUNREACH)
            scribble(&fixture);
        while (net_step(&fixture.net))
            continue;
        assert_memory_equal(fixture.op.memory, fixture.op.frozen, NET_MEMORY);
        /* The origin is alive, so the target asks about the transfer, and learns that it is
         * gone. */
        for (unsigned int i = 0; i < 2 * NET_TIMEOUT_MS / 250; i++) {
            net_poll(&fixture.net, 250);
            net_run(&fixture.net);
        }
        assert_memory_equal(fixture.op.memory, fixture.op.frozen, NET_MEMORY);
        fixture.net.lost_receives = 0; /* pieces for which the origin had withdrawn its receives */
        kit_rma_peer_failed(ends[1].ts, &ends[0], NA_PLUGIN_HOSTUNREACH);
        net_run(&fixture.net);
        fixture_close(&fixture);
    }
}

/* The target's memory is deregistered after `count` steps. */
static bool deregister_after(unsigned int count, enum net_cancel cancel, bool is_put)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    struct net_end *ends = fixture->net.ends;
    uint8_t *kept = malloc(NET_MEMORY);
    bool is_free;
    bool was_done;

    assert_true(fixture != NULL && kept != NULL);
    fixture_open(fixture, cancel, is_put, false);
    fixture_start(fixture);
    steps(&fixture->net, count);
    was_done = fixture->op.done != 0;
    is_free = kit_rma_mem_deregister(ends[1].ts, fixture->region);
    assert_true(is_free || cancel != NET_CANCEL_AT_ONCE);
    while (!is_free) {
        assert_true(net_step(&fixture->net));
        is_free = kit_rma_mem_deregister(ends[1].ts, fixture->region);
    }
    if (is_put)
        check_written(fixture, fixture->target_bytes);
    memset(fixture->target_bytes, NET_SCRIBBLE, NET_MEMORY);
    memset(kept, NET_SCRIBBLE, NET_MEMORY);
    net_run(&fixture->net);
    assert_memory_equal(fixture->target_bytes, kept, NET_MEMORY);
    assert_int_equal(fixture->op.done, 1);
    assert_true(fixture->op.status == NA_PLUGIN_PERMISSION ||
                fixture->op.status == NA_PLUGIN_SUCCESS);
    if (!is_put)
        check_written(fixture, fixture->op.memory);
    assert_int_equal(kit_rma_mem_register(ends[1].ts, fixture->region, 0), 0);
    kit_rma_mem_destroy(ends[0].ts, fixture->remote);
    fixture->remote = net_remote(&ends[0], &ends[1], fixture->region);
    check_next_works(fixture);
    fixture_close(fixture);
    free(kept);
    free(fixture);
    return was_done;
}

static void deregistration_at_every_step(void **state)
{
    (void) state;
    for (int cancel = NET_CANCEL_AT_ONCE; cancel <= NET_CANCEL_NEVER; cancel++) {
        for (int is_put = 0; is_put < 2; is_put++) {
            unsigned int count = 0;

            while (!deregister_after(count, (enum net_cancel) cancel, is_put != 0))
                assert_true(++count < STEPS_MAX);
        }
    }
}

/* The network fails to accept a piece, or fails it later, or delivers a piece of another size. */
static void failing_pieces(void **state)
{
    (void) state;
    for (unsigned int variant = 0; variant < 6; variant++) {
        for (unsigned int count = 0; count < 30; count++) {
            struct fixture fixture;
            int32_t expected = NA_PLUGIN_IO_ERROR;

            fixture_open(&fixture, NET_CANCEL_AT_ONCE, variant % 2 != 0, false);
            fixture_start(&fixture);
            steps(&fixture.net, count);
            if (variant / 2 == 0)
                fixture.net.piece_error = NA_PLUGIN_IO_ERROR;
            else if (variant / 2 == 1)
                fixture.net.deliver_error = NA_PLUGIN_IO_ERROR;
            else
                fixture.net.deliver_size = 99;
            if (variant / 2 == 2)
                expected = NA_PLUGIN_PROTOCOL_ERROR;
            net_run(&fixture.net);
            assert_int_equal(fixture.op.done, 1);
            /* Late in the transfer there may have been no further piece. */
            if (fixture.net.piece_error == 0 && fixture.net.deliver_error == 0 &&
                fixture.net.deliver_size == 0)
                assert_int_equal(fixture.op.status, expected);
            else
                assert_int_equal(fixture.op.status, NA_PLUGIN_SUCCESS);
            if (count < 4)
                assert_int_equal(fixture.op.status, expected);
            fixture.net.piece_error = fixture.net.deliver_error = 0;
            fixture.net.deliver_size = 0;
            check_next_works(&fixture);
            fixture_close(&fixture);
        }
    }
}

/* When a control record cannot be sent, the peer counts as dead. */
static void failing_records(void **state)
{
    (void) state;
    for (unsigned int count = 0; count < 30; count++) {
        struct fixture fixture;
        struct net_end *ends = fixture.net.ends;

        fixture_open(&fixture, NET_CANCEL_AT_ONCE, count % 2 != 0, false);
        if (count < 2) { /* the record was the REQUEST: nothing was started */
            fixture.net.control_error = NA_PLUGIN_HOSTUNREACH;
            assert_int_equal(net_start(&ends[0], &ends[1], &fixture.op, fixture.local,
                                       fixture.remote, 7, LENGTH, fixture.is_put),
                             NA_PLUGIN_HOSTUNREACH);
            assert_null(fixture.op.transfer);
            scribble(&fixture);
            fixture.op.done = 1;
        } else {
            fixture_start(&fixture);
            steps(&fixture.net, count / 2);
            fixture.net.control_error = NA_PLUGIN_HOSTUNREACH;
        }
        net_run(&fixture.net);
        fixture.net.control_error = 0;
        kit_rma_peer_failed(ends[0].ts, &ends[1], NA_PLUGIN_HOSTUNREACH);
        kit_rma_peer_failed(ends[1].ts, &ends[0], NA_PLUGIN_HOSTUNREACH);
        net_run(&fixture.net);
        assert_int_equal(fixture.op.done, 1);
        fixture.net.lost_receives = 0;
        check_next_works(&fixture);
        fixture_close(&fixture);
    }
}

/* An origin that vanishes without an error: its transfers time out at the target. */
static void silent_origins_time_out(void **state)
{
    (void) state;
    for (unsigned int count = 1; count < 40; count++) {
        struct fixture fixture;
        struct kit_rma_counters counters;
        struct net_end *ends = fixture.net.ends;
        unsigned int ms = 0;

        fixture_open(&fixture, NET_CANCEL_AT_ONCE, count % 2 != 0, false);
        fixture_start(&fixture);
        steps(&fixture.net, 1 + count / 2);
        net_lose(&fixture.net);
        ends[0].is_mute = true;
        kit_rma_counters_get(ends[1].ts, &counters);
        while (counters.targets != 0) {
            net_poll(&fixture.net, 250);
            net_lose(&fixture.net);
            net_run(&fixture.net);
            ms += 250;
            assert_true(ms < 2 * NET_TIMEOUT_MS);
            kit_rma_counters_get(ends[1].ts, &counters);
        }
        if (ms != 0) {
            assert_true(ms >= NET_TIMEOUT_MS);
            assert_int_equal(counters.timeouts, 1);
        }
        /* The memory can be deregistered. */
        assert_true(kit_rma_mem_deregister(ends[1].ts, fixture.region));
        ends[0].is_mute = false;
        kit_rma_peer_failed(ends[0].ts, &ends[1], NA_PLUGIN_HOSTUNREACH);
        kit_rma_peer_failed(ends[1].ts, &ends[0], NA_PLUGIN_HOSTUNREACH);
        net_run(&fixture.net);
        fixture_close(&fixture);
    }
}

/* An origin that is alive but slow does not time out. */
static void slow_origins_do_not(void **state)
{
    (void) state;
    for (int is_put = 0; is_put < 2; is_put++) {
        struct fixture fixture;
        struct kit_rma_counters counters;

        fixture_open(&fixture, NET_CANCEL_AT_ONCE, is_put != 0, false);
        fixture_start(&fixture);
        steps(&fixture.net, 1);
        for (unsigned int ms = 0; ms < 5 * NET_TIMEOUT_MS; ms += 250) {
            fixture.net.piece_again = 1000;
            net_poll(&fixture.net, 250);
            while (net_step(&fixture.net))
                continue;
        }
        kit_rma_counters_get(fixture.net.ends[1].ts, &counters);
        assert_int_equal(counters.timeouts, 0);
        fixture.net.piece_again = 0;
        net_run(&fixture.net);
        net_op_check(&fixture.op, NA_PLUGIN_SUCCESS);
        fixture_close(&fixture);
    }
}

/* Receives posted for an origin that does not send are soon given to others. */
static void stalled_receives_make_way(void **state)
{
    static const struct kit_rma_config limits = {.window = 4, .max_receives = 4};
    uint8_t *bytes = calloc(2, NET_MEMORY);
    struct kit_region *region, *local[2], *remote[2];
    struct net_op ops[2];
    struct net net;

    (void) state;
    assert_non_null(bytes);
    net_open(&net, &limits);
    region = net_region(&net.ends[1], bytes, NET_MEMORY, BOTH);
    for (unsigned int i = 0; i < 2; i++) {
        struct net_end *end = &net.ends[i == 0 ? 2 : 0];

        net_op_init(&ops[i]);
        memset(ops[i].memory, 9, NET_MEMORY);
        local[i] = net_region(end, ops[i].memory, NET_MEMORY, BOTH);
        remote[i] = net_remote(end, &net.ends[1], region);
        assert_int_equal(
            net_start(end, &net.ends[1], &ops[i], local[i], remote[i], 0, LENGTH, true), 0);
        while (net_step(&net) && i == 0)
            if (net.ends[1].receives == 4) { /* it occupies all receives, and its GRANT is lost */
                net_lose(&net);
                net.ends[2].is_mute = true;
            }
    }
    net_run(&net);
    assert_int_equal(ops[1].done, 0);
    for (unsigned int i = 0; i < 4; i++) {
        net_poll(&net, 250);
        net_run(&net);
    }
    net_op_check(&ops[1], NA_PLUGIN_SUCCESS);
    assert_int_equal(ops[0].done, 0);
    kit_rma_peer_failed(net.ends[2].ts, &net.ends[1], NA_PLUGIN_HOSTUNREACH);
    kit_rma_peer_failed(net.ends[1].ts, &net.ends[2], NA_PLUGIN_HOSTUNREACH);
    net_run(&net);
    net_close(&net); /* also frees the handles */
    for (unsigned int i = 0; i < 2; i++)
        net_op_free(&ops[i]);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_at_every_step),
        cmocka_unit_test(cancel_before_the_request_leaves),
        cmocka_unit_test(cancel_without_room),
        cmocka_unit_test(peer_death_at_every_step),
        cmocka_unit_test(one_side_fails_at_every_step),
        cmocka_unit_test(deregistration_at_every_step),
        cmocka_unit_test(failing_pieces),
        cmocka_unit_test(failing_records),
        cmocka_unit_test(silent_origins_time_out),
        cmocka_unit_test(slow_origins_do_not),
        cmocka_unit_test(stalled_receives_make_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
