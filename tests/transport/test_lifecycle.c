/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing: repeatedly, many in one process, and with operations outstanding. */

#include "transport_rma.h"

#include "../test_count.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CLASSES 20

static unsigned int open_descriptors(void)
{
    return (unsigned int) test_count("/proc/self/fd");
}

/* Opens and closes a class repeatedly. Descriptors that a library opens once for the process may
 * remain, those of each class may not. */
static void endpoints_open_and_close_many_times(void **state)
{
    const int rounds = test_is_sm() ? 200 : 20;
    unsigned int before = 0;
    struct child child;

    (void) state;
    child_start(&child, NULL, "plain");
    for (int i = 0; i < rounds; i++) {
        struct end end;
        na_addr_t *peer;

        if (i == rounds / 2)
            before = open_descriptors();
        end_open(&end, NULL, NULL);
        if (i % 5 == 0) {
            assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
            end_check_peer(&end, peer);
            NA_Addr_free(end.na_class, peer);
        }
        end_close(&end);
    }
    assert_in_range(open_descriptors(), 0, before);
    child_stop(&child);
}

/* Progresses both ends until the event has happened. */
static void wait_for_both(struct end *one, struct end *two, struct event *event)
{
    uint64_t until = now_ms() + TEST_WAIT_MS;

    while (event->done == 0 && now_ms() < until) {
        end_progress(one, 0);
        end_progress(two, 0);
    }
    assert_int_equal(event->done, 1);
    assert_int_equal(event->ret, NA_SUCCESS);
}

static void twenty_classes_live_in_one_process(void **state)
{
    struct end ends[CLASSES];

    (void) state;
    for (int i = 0; i < CLASSES; i++)
        end_open(&ends[i], NULL, NULL);
    for (int i = 0; i < CLASSES; i++) {
        struct end *from = &ends[i], *to = &ends[(i + 7) % CLASSES];
        na_addr_t *addr = end_lookup(from, to), *back = end_lookup(to, from);
        na_op_id_t *recv_op = NA_Op_create(to->na_class, NA_OP_SINGLE);
        na_op_id_t *send_op = NA_Op_create(from->na_class, NA_OP_SINGLE);
        struct event got = {0}, sent = {0};
        int in = -1;

        assert_false(NA_Addr_is_self(from->na_class, addr));
        assert_int_equal(end_receive_unexpected(to, &got, &in, sizeof(in), recv_op), NA_SUCCESS);
        assert_int_equal(NA_Msg_send_unexpected(from->na_class, from->context, event_callback,
                                                &sent, &i, sizeof(i), NULL, addr, 0, 1, send_op),
                         NA_SUCCESS);
        wait_for_both(from, to, &sent);
        wait_for_both(from, to, &got);
        assert_int_equal(in, i);
        assert_true(NA_Addr_cmp(to->na_class, got.source, back));
        NA_Addr_free(to->na_class, got.source);
        NA_Addr_free(to->na_class, back);
        NA_Addr_free(from->na_class, addr);
        NA_Op_destroy(to->na_class, recv_op);
        NA_Op_destroy(from->na_class, send_op);
    }
    for (int i = 0; i < CLASSES; i++)
        end_close(&ends[(i * 3) % CLASSES]);
}

/* For each traffic class, thread mode and progress mode, a message is passed between two
 * classes. */
static void every_mode_serves(void **state)
{
    (void) state;
    for (uint8_t i = 0; i <= NA_TC_NETWORK_CTRL; i++) {
        struct na_init_info info = NA_INIT_INFO_INITIALIZER;
        struct event got = {0}, sent = {0};
        struct end ends[2];
        na_addr_t *addr;
        na_op_id_t *ops[2];
        int in = -1, out = i;

        info.traffic_class = (enum na_traffic_class) i;
        info.thread_mode = i % 4;
        info.progress_mode = i % 3 == 0 ? 0 : NA_NO_BLOCK;
        for (int at = 0; at < 2; at++) {
            end_open(&ends[at], NULL, &info);
            ops[at] = NA_Op_create(ends[at].na_class, NA_OP_SINGLE);
        }
        addr = end_lookup(&ends[0], &ends[1]);
        assert_int_equal(end_receive_unexpected(&ends[1], &got, &in, sizeof(in), ops[1]),
                         NA_SUCCESS);
        assert_int_equal(NA_Msg_send_unexpected(ends[0].na_class, ends[0].context, event_callback,
                                                &sent, &out, sizeof(out), NULL, addr, 0, 1, ops[0]),
                         NA_SUCCESS);
        wait_for_both(&ends[0], &ends[1], &sent);
        wait_for_both(&ends[0], &ends[1], &got);
        assert_int_equal(in, out);
        NA_Addr_free(ends[1].na_class, got.source);
        NA_Addr_free(ends[0].na_class, addr);
        for (int at = 0; at < 2; at++) {
            NA_Op_destroy(ends[at].na_class, ops[at]);
            end_close(&ends[at]);
        }
    }
}

/* Triggers the completions of the context's end, then closes. */
static void close_with_things_outstanding(struct end *end)
{
    na_return_t ret;

    for (int i = 0; i < 10; i++) {
        unsigned int count = 0;

        ret = NA_Context_destroy(end->na_class, end->context);
        if (ret != NA_BUSY)
            break;
        do
            assert_int_equal(NA_Trigger(end->context, 100, &count), NA_SUCCESS);
        while (count != 0);
    }
    assert_int_equal(ret, NA_SUCCESS);
}

/* A class closes with receives, sends to a sleeping peer and transfers outstanding. Each completes
 * once, and none continues afterwards. */
static void a_class_closes_with_things_outstanding(void **state)
{
    enum {
        OPS = 120
    };
    struct event *events = calloc(OPS, sizeof(*events));
    static uint8_t in[OPS][64], out[1000];
    na_op_id_t *ops[OPS];
    struct rma rma;

    (void) state;
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, RMA_BYTES, 1), 0);
    assert_int_equal(end_command(&rma.end, rma.peer, PEER_NAP, 200, 0, 0, NULL, NULL), NA_SUCCESS);
    for (int i = 0; i < OPS; i++) {
        struct end *end = &rma.end;
        na_return_t ret;

        ops[i] = NA_Op_create(end->na_class, NA_OP_SINGLE);
        if (i % 4 == 0)
            ret = end_receive_unexpected(end, &events[i], in[i], 64, ops[i]);
        else if (i % 4 == 1)
            ret = end_receive_expected(end, &events[i], in[i], 64, rma.peer, 3, ops[i]);
        else if (i % 4 == 2)
            ret = NA_Msg_send_expected(end->na_class, end->context, event_callback, &events[i], out,
                                       sizeof(out), NULL, rma.peer, 0, 3, ops[i]);
        else
            ret = (i % 8 == 3 ? NA_Put : NA_Get)(end->na_class, end->context, event_callback,
                                                 &events[i], rma.local_mem, 0, rma.remote_mem, 0,
                                                 rma.bytes, rma.peer, 0, ops[i]);
        assert_int_equal(ret, NA_SUCCESS);
    }
    end_progress(&rma.end, 0);
    close_with_things_outstanding(&rma.end);
    memset(rma.local, 0x55, rma.bytes);
    for (int i = 0; i < OPS; i++) {
        assert_int_equal(events[i].done, 1);
        assert_true(events[i].ret == NA_SUCCESS || events[i].ret == NA_CANCELED);
        assert_true(i % 4 > 1 || events[i].ret == NA_CANCELED);
        NA_Op_destroy(rma.end.na_class, ops[i]);
    }
    assert_int_equal(rma_local_sum(&rma), 0x55ull * rma.bytes);
    NA_Mem_handle_free(rma.end.na_class, rma.remote_mem);
    mem_close(&rma.end, rma.local_mem);
    NA_Addr_free(rma.end.na_class, rma.peer);
    assert_int_equal(NA_Finalize(rma.end.na_class), NA_SUCCESS);
    for (size_t i = 0; i < rma.bytes; i++)
        if (rma.local[i] != 0x55)
            fail_msg("byte %zu was written after the end of the get", i);
    free(rma.local);
    free(events);
    /* The peer still works. */
    end_open(&rma.end, NULL, NULL);
    assert_int_equal(NA_Addr_lookup(rma.end.na_class, rma.child.address, &rma.peer), NA_SUCCESS);
    pair_close(&rma.child, &rma.end, rma.peer);
}

/* Messages that no receive took are freed with the class. */
static void a_class_closes_with_messages_unreceived(void **state)
{
    struct child child;
    struct end end;
    na_addr_t *peer;

    (void) state;
    pair_open(&child, &end, &peer, "plain");
    assert_int_equal(end_command(&end, peer, PEER_FLOOD, 500, 1000, 0, NULL, NULL), NA_SUCCESS);
    end_progress(&end, 100);
    NA_Addr_free(end.na_class, peer);
    end_close(&end);
    end_open(&end, NULL, NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    end_check_peer(&end, peer); /* the peer is not blocked by the other messages */
    pair_close(&child, &end, peer);
}

/* Messages that were sent before the class closes arrive, also when no others were ever sent to
 * that peer. */
static void what_is_sent_before_a_class_closes_arrives(void **state)
{
    struct child child;
    struct end end;
    uint32_t sent = 0;
    na_addr_t *peer;

    (void) state;
    pair_open(&child, &end, &peer, "plain");
    for (uint32_t round = 0; round < 6; round++) {
        NA_Addr_free(end.na_class, peer);
        end_close(&end);
        end_open(&end, NULL, NULL);
        assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
        for (uint32_t i = 0; i < 1 + 3 * round; i++)
            assert_int_equal(end_command(&end, peer, PEER_COUNT, ++sent, 0, 0, NULL, NULL),
                             NA_SUCCESS);
        NA_Addr_free(end.na_class, peer);
        end_close(&end);
        end_open(&end, NULL, NULL);
        assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
        end_await_peer_count(&end, peer, sent);
    }
    pair_close(&child, &end, peer);
}

/* The class of the peer has closed while its process lives on: operations with it fail, they do not
 * wait. */
static void a_class_that_has_closed_is_not_waited_for(void **state)
{
    struct event got = {0}, sent = {0}, reply = {0};
    na_op_id_t *op, *send_op;
    uint8_t in[16], answer[16];
    struct end from, to;
    na_addr_t *addr;

    (void) state;
    end_open(&from, NULL, NULL);
    end_open(&to, NULL, NULL);
    addr = end_lookup(&from, &to);
    op = NA_Op_create(to.na_class, NA_OP_SINGLE);
    assert_int_equal(end_receive_unexpected(&to, &got, in, sizeof(in), op), NA_SUCCESS);
    send_op = NA_Op_create(from.na_class, NA_OP_SINGLE);
    assert_int_equal(NA_Msg_send_unexpected(from.na_class, from.context, event_callback, &sent,
                                            "hello", 6, NULL, addr, 0, 1, send_op),
                     NA_SUCCESS);
    for (uint64_t until = now_ms() + TEST_WAIT_MS;
         (got.done == 0 || sent.done == 0) && now_ms() < until;) {
        end_progress(&from, 0); /* connecting needs progress at both sides */
        end_progress(&to, 0);
    }
    assert_int_equal(got.done + sent.done, 2);
    NA_Op_destroy(from.na_class, send_op);
    NA_Addr_free(to.na_class, got.source);
    NA_Op_destroy(to.na_class, op);
    end_close(&to);
    end_progress(&from, 10);
    op = NA_Op_create(from.na_class, NA_OP_SINGLE);
    if (end_receive_expected(&from, &reply, answer, sizeof(answer), addr, 2, op) == NA_SUCCESS) {
        (void) end_send(&from, addr, "hello?", 6, 2, false);
        assert_true(event_wait(&from, &reply, TEST_WAIT_MS));
        assert_int_equal(reply.ret, NA_HOSTUNREACH);
    }
    NA_Op_destroy(from.na_class, op);
    NA_Addr_free(from.na_class, addr);
    end_close(&from);
}

static void a_class_that_does_not_listen_calls(void **state)
{
    struct child child;
    struct end end;
    na_addr_t *peer;

    (void) state;
    child_start(&child, NULL, "plain");
    end.na_class = NA_Initialize(test_init_string(), false);
    assert_non_null(end.na_class);
    assert_false(NA_Is_listening(end.na_class));
    end.context = NA_Context_create(end.na_class);
    assert_non_null(end.context);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    for (int i = 0; i < 100; i++)
        end_check_peer(&end, peer);
    pair_close(&child, &end, peer);
}

static void a_class_says_what_it_is(void **state)
{
    char address[512], expected[256];
    struct end end;

    (void) state;
    end_open(&end, NULL, NULL);
    (void) snprintf(expected, sizeof(expected), "%s+%s", NA_Get_class_name(end.na_class),
                    NA_Get_class_protocol(end.na_class));
    assert_true(strncmp(test_init_string(), expected, strlen(expected)) == 0);
    /* A wrapped transport keeps its own addresses. */
    if (strcmp(NA_Get_class_name(end.na_class), "fault") == 0)
        (void) snprintf(expected, sizeof(expected), "%s", NA_Get_class_protocol(end.na_class));
    end_address(&end, address, sizeof(address));
    assert_true(strncmp(address, expected, strlen(expected)) == 0);
    assert_true(strncmp(address + strlen(expected), "://", 3) == 0);
    assert_true(NA_Is_listening(end.na_class));
    assert_in_range(NA_Msg_get_max_unexpected_size(end.na_class), 256, 1 << 30);
    assert_in_range(NA_Msg_get_max_expected_size(end.na_class), 256, 1 << 30);
    assert_int_not_equal(NA_Msg_get_max_tag(end.na_class), 0);
    end_close(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endpoints_open_and_close_many_times),
        cmocka_unit_test(twenty_classes_live_in_one_process),
        cmocka_unit_test(every_mode_serves),
        cmocka_unit_test(a_class_closes_with_things_outstanding),
        cmocka_unit_test(a_class_closes_with_messages_unreceived),
        cmocka_unit_test(what_is_sent_before_a_class_closes_arrives),
        cmocka_unit_test(a_class_that_has_closed_is_not_waited_for),
        cmocka_unit_test(a_class_that_does_not_listen_calls),
        cmocka_unit_test(a_class_says_what_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
