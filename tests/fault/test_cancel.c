/* SPDX-License-Identifier: BSD-3-Clause */
/* Cancels that are refused for a while. */

#include "fault_test.h"

static void a_refused_cancel_succeeds_later(void **state)
{
    struct end end;
    struct event event = {0};
    na_op_id_t *op;
    uint64_t begin;
    char buf[64];

    (void) state;
    wrapped_open(&end, "cancel_fails=1&cancel_us=100000");
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    assert_int_equal(end_receive_unexpected(&end, &event, buf, sizeof(buf), op), NA_SUCCESS);
    begin = now_ms();
    assert_int_equal(NA_Cancel(end.na_class, end.context, op), NA_SUCCESS);
    assert_int_equal(NA_Cancel(end.na_class, end.context, op), NA_SUCCESS);
    while (atomic_load(&event.done) == 0 && now_ms() - begin < TEST_WAIT_MS) {
        (void) NA_Poll_wait(end.na_class, end.context, TEST_WAIT_MS, NULL);
        (void) NA_Trigger(end.context, 10, NULL);
    }
    assert_in_range(now_ms() - begin, 99, TEST_WAIT_MS / 2);
    assert_int_equal(event.ret, NA_CANCELED);
    end_progress(&end, 20);
    assert_int_equal(event.done, 1);
    NA_Op_destroy(end.na_class, op);
    wrapped_close(&end);
}

static void what_arrives_meanwhile_counts(void **state)
{
    struct end end, peer;
    struct event event = {0};
    na_addr_t *addr;
    struct burst burst;
    na_op_id_t *op;
    char buf[64];

    (void) state;
    wrapped_open(&end, "cancel_fails=1&cancel_us=200000");
    end_open(&peer, NULL, NULL);
    burst_run(&burst, &peer, &end, 1, 1); /* connects the two */
    addr = end_lookup(&peer, &end);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    for (unsigned int i = 0; i < 2; i++) {
        struct event sent = {0};
        na_op_id_t *send = NA_Op_create(peer.na_class, NA_OP_SINGLE);

        event = (struct event){0};
        assert_int_equal(end_receive_unexpected(&end, &event, buf, sizeof(buf), op), NA_SUCCESS);
        assert_int_equal(NA_Cancel(end.na_class, end.context, op), NA_SUCCESS);
        assert_int_equal(NA_Msg_send_unexpected(peer.na_class, peer.context, event_callback, &sent,
                                                "word", 5, NULL, addr, 0, i, send),
                         NA_SUCCESS);
        assert_true(ends_wait(&end, &peer, &event, TEST_WAIT_MS));
        assert_true(ends_wait(&end, &peer, &sent, TEST_WAIT_MS));
        NA_Op_destroy(peer.na_class, send);
        assert_int_equal(event.ret, NA_SUCCESS);
        assert_int_equal(event.tag, i);
        NA_Addr_free(end.na_class, event.source);
        /* The delayed cancel of the first use of the operation does not affect the second use. */
        event = (struct event){0};
        assert_int_equal(end_receive_unexpected(&end, &event, buf, sizeof(buf), op), NA_SUCCESS);
        end_progress(&end, 220);
        assert_int_equal(event.done, 0);
        assert_int_equal(NA_Cancel(end.na_class, end.context, op), NA_SUCCESS);
        assert_true(ends_wait(&end, &peer, &event, TEST_WAIT_MS));
        assert_int_equal(event.ret, NA_CANCELED);
    }
    NA_Op_destroy(end.na_class, op);
    NA_Addr_free(peer.na_class, addr);
    end_close(&peer);
    wrapped_close(&end);
}

static void the_seed_says_which_are_refused(void **state)
{
    static const char *const seeds[] = {"1", "1", "2"};
    char refused[3][65] = {"", "", ""};

    (void) state;
    for (unsigned int run = 0; run < 3; run++) {
        struct event events[64] = {{0}};
        struct end end;
        char options[128], buf[64];
        unsigned int count;

        (void) snprintf(options, sizeof(options), "cancel_fails=0.5&cancel_us=60000000&seed=%s",
                        seeds[run]);
        wrapped_open(&end, options);
        for (unsigned int i = 0; i < 64; i++) {
            na_op_id_t *op = NA_Op_create(end.na_class, NA_OP_SINGLE);

            assert_int_equal(end_receive_unexpected(&end, &events[i], buf, sizeof(buf), op),
                             NA_SUCCESS);
            assert_int_equal(NA_Cancel(end.na_class, end.context, op), NA_SUCCESS);
            end_progress(&end, 2);
            refused[run][i] = events[i].done ? 'c' : 'r';
            NA_Op_destroy(end.na_class, op);
        }
        while (NA_Trigger(end.context, 100, &count) == NA_SUCCESS && count > 0)
            ;
        wrapped_stop(&end);
        for (unsigned int i = 0; i < 64; i++)
            assert_int_equal(events[i].done, 1);
        wrapped_close(&end);
    }
    assert_string_equal(refused[0], refused[1]);
    assert_string_not_equal(refused[0], refused[2]);
}

static void a_context_closes_with_refused_cancels(void **state)
{
    struct end end;
    struct event events[10] = {{0}};
    na_op_id_t *ops[10];
    char buf[10][64];

    (void) state;
    wrapped_open(&end, "cancel_fails=1&cancel_us=60000000&delay_us=60000000");
    for (int i = 0; i < 10; i++) {
        ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        assert_int_equal(end_receive_unexpected(&end, &events[i], buf[i], sizeof(buf[i]), ops[i]),
                         NA_SUCCESS);
        if (i % 2 == 0)
            assert_int_equal(NA_Cancel(end.na_class, end.context, ops[i]), NA_SUCCESS);
    }
    end_progress(&end, 10);
    wrapped_stop(&end);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(events[i].done, 1);
        assert_int_equal(events[i].ret, NA_CANCELED);
        NA_Op_destroy(end.na_class, ops[i]);
    }
    wrapped_close(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_cancel_succeeds_later),
        cmocka_unit_test(what_arrives_meanwhile_counts),
        cmocka_unit_test(the_seed_says_which_are_refused),
        cmocka_unit_test(a_context_closes_with_refused_cancels),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
