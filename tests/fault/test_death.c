/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints that die after a number of operations. */

#include "fault_test.h"

#define RECEIVES 4

/* Sends until a send fails; returns how many succeeded. */
static unsigned int send_until_death(struct end *from, struct end *to, na_addr_t *addr)
{
    na_op_id_t *receive = NA_Op_create(to->na_class, NA_OP_SINGLE);
    na_op_id_t *op = NA_Op_create(from->na_class, NA_OP_SINGLE);
    struct event received = {0}, sent = {0};
    unsigned int count = 0;
    char buf[64];

    while (sent.ret == NA_SUCCESS) {
        assert_true(count < 100);
        received = (struct event){0};
        sent = (struct event){0};
        assert_int_equal(end_receive_unexpected(to, &received, buf, sizeof(buf), receive),
                         NA_SUCCESS);
        assert_int_equal(NA_Msg_send_unexpected(from->na_class, from->context, event_callback,
                                                &sent, "word", 5, NULL, addr, 0, count, op),
                         NA_SUCCESS);
        assert_true(ends_wait(from, to, &sent, TEST_WAIT_MS));
        if (sent.ret != NA_SUCCESS)
            (void) NA_Cancel(to->na_class, to->context, receive);
        else
            count++;
        assert_true(ends_wait(from, to, &received, TEST_WAIT_MS));
        if (received.source != NULL)
            NA_Addr_free(to->na_class, received.source);
    }
    assert_int_equal(sent.ret, NA_HOSTUNREACH);
    NA_Op_destroy(to->na_class, receive);
    NA_Op_destroy(from->na_class, op);
    return count;
}

static void operations_fail_after_the_death(void **state)
{
    struct end end, peer;
    struct event events[RECEIVES] = {{0}}, expected[2] = {{0}};
    na_op_id_t *ops[RECEIVES], *expected_ops[2];
    char buf[RECEIVES][64], expected_buf[2][64];
    na_addr_t *addr;

    (void) state;
    wrapped_open(&end, "die_after=7");
    end_open(&peer, NULL, NULL);
    addr = end_lookup(&end, &peer);
    for (unsigned int i = 0; i < RECEIVES; i++) {
        ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        if (i < RECEIVES - 1)
            assert_int_equal(
                end_receive_unexpected(&end, &events[i], buf[i], sizeof(buf[i]), ops[i]),
                NA_SUCCESS);
    }
    for (unsigned int i = 0; i < 2; i++)
        expected_ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
    assert_int_equal(
        end_receive_expected(&end, &expected[0], expected_buf[0], 64, addr, 1, expected_ops[0]),
        NA_SUCCESS);
    assert_int_equal(send_until_death(&end, &peer, addr), 7);

    /* Receives from one peer fail, those posted now and later; a receive from any source stays
     * posted. */
    assert_true(ends_wait(&end, &peer, &expected[0], TEST_WAIT_MS));
    assert_int_equal(expected[0].ret, NA_HOSTUNREACH);
    assert_int_equal(
        end_receive_expected(&end, &expected[1], expected_buf[1], 64, addr, 1, expected_ops[1]),
        NA_SUCCESS);
    assert_true(ends_wait(&end, &peer, &expected[1], TEST_WAIT_MS));
    assert_int_equal(expected[1].ret, NA_HOSTUNREACH);
    assert_int_equal(end_receive_unexpected(&end, &events[RECEIVES - 1], buf[RECEIVES - 1], 64,
                                            ops[RECEIVES - 1]),
                     NA_SUCCESS);
    end_progress(&end, 30);
    for (unsigned int i = 0; i < RECEIVES; i++)
        assert_int_equal(events[i].done, 0);
    assert_int_equal(NA_Cancel(end.na_class, end.context, ops[0]), NA_SUCCESS);
    assert_true(ends_wait(&end, &peer, &events[0], TEST_WAIT_MS));
    assert_int_equal(events[0].ret, NA_CANCELED);
    assert_int_equal(send_until_death(&end, &peer, addr), 0);

    NA_Addr_free(end.na_class, addr);
    wrapped_stop(&end);
    for (unsigned int i = 1; i < RECEIVES; i++)
        assert_int_equal(events[i].ret, NA_CANCELED);
    for (unsigned int i = 0; i < RECEIVES; i++)
        NA_Op_destroy(end.na_class, ops[i]);
    for (unsigned int i = 0; i < 2; i++)
        NA_Op_destroy(end.na_class, expected_ops[i]);
    wrapped_close(&end);
    end_close(&peer);
}

static void progress_goes_on_and_sleeps(void **state)
{
    struct end end, peer;
    na_addr_t *addr;
    unsigned int rounds = 0;
    uint64_t begin;

    (void) state;
    wrapped_open(&end, "die_after=1");
    end_open(&peer, NULL, NULL);
    addr = end_lookup(&end, &peer);
    assert_int_equal(send_until_death(&end, &peer, addr), 1);
    end_progress(&end, 5);
    for (begin = now_ms(); now_ms() - begin < 100; rounds++)
        assert_int_equal(NA_Poll_wait(end.na_class, end.context, 50, NULL), NA_TIMEOUT);
    assert_in_range(rounds, 1, 10);
    NA_Addr_free(end.na_class, addr);
    wrapped_close(&end);
    end_close(&peer);
}

/* A send to the dead endpoint fails, as if its process were gone; the peer continues with
 * others. */
static void peers_find_nobody(void **state)
{
    struct end end, peer, other;
    struct event sent = {0};
    na_addr_t *addr, *back;
    na_op_id_t *op;

    (void) state;
    wrapped_open(&end, "die_after=2");
    end_open(&peer, NULL, NULL);
    end_open(&other, NULL, NULL);
    addr = end_lookup(&end, &peer);
    back = end_lookup(&peer, &end);
    assert_int_equal(send_until_death(&end, &peer, addr), 2);
    end_progress(&end, 5);
    op = NA_Op_create(peer.na_class, NA_OP_SINGLE);
    sent.ret = NA_Msg_send_unexpected(peer.na_class, peer.context, event_callback, &sent, "word", 5,
                                      NULL, back, 0, 1, op);
    if (sent.ret == NA_SUCCESS && !ends_wait(&peer, &end, &sent, TEST_DEATH_MS)) {
        /* Some transports detect the death only when the process is gone, and queue the message. */
        assert_int_equal(NA_Cancel(peer.na_class, peer.context, op), NA_SUCCESS);
        assert_true(ends_wait(&peer, &end, &sent, TEST_WAIT_MS));
    }
    if (test_is_sm())
        assert_int_equal(sent.ret, NA_HOSTUNREACH);
    NA_Op_destroy(peer.na_class, op);
    NA_Addr_free(end.na_class, addr);
    NA_Addr_free(peer.na_class, back);
    wrapped_close(&end);
    addr = end_lookup(&peer, &other);
    {
        struct burst burst;

        burst_run(&burst, &peer, &other, 10, 20);
        assert_int_equal(burst.arrived, 10);
    }
    NA_Addr_free(peer.na_class, addr);
    end_close(&peer);
    end_close(&other);
}

static void what_waits_when_it_dies_fails(void **state)
{
    struct end end, peer;
    struct event events[5] = {{0}};
    na_op_id_t *ops[5];
    na_addr_t *addr;

    (void) state;
    wrapped_open(&end, "die_after=4&delay_us=60000000");
    end_open(&peer, NULL, NULL);
    addr = end_lookup(&end, &peer);
    for (unsigned int i = 0; i < 5; i++) {
        ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        assert_int_equal(NA_Msg_send_unexpected(end.na_class, end.context, event_callback,
                                                &events[i], "word", 5, NULL, addr, 0, i, ops[i]),
                         NA_SUCCESS);
    }
    for (unsigned int i = 0; i < 5; i++) {
        assert_true(ends_wait(&end, &peer, &events[i], TEST_WAIT_MS));
        assert_int_equal(events[i].ret, NA_HOSTUNREACH);
        NA_Op_destroy(end.na_class, ops[i]);
    }
    NA_Addr_free(end.na_class, addr);
    wrapped_close(&end);
    end_close(&peer);
}

/* Buffers and memory handles of a dead endpoint can be freed. */
static void things_of_a_dead_endpoint_are_freed(void **state)
{
    struct end end, peer;
    static char memory[4096];
    na_mem_handle_t *mem;
    na_addr_t *addr;
    void *buf, *data = NULL;

    (void) state;
    wrapped_open(&end, "die_after=1");
    end_open(&peer, NULL, NULL);
    addr = end_lookup(&end, &peer);
    mem = mem_open(&end, memory, sizeof(memory), NA_MEM_READWRITE);
    buf = NA_Msg_buf_alloc(end.na_class, 4096, NA_SEND, &data);
    assert_non_null(buf);
    assert_int_equal(send_until_death(&end, &peer, addr), 1);
    end_progress(&end, 5);
    mem_close(&end, mem);
    memset(buf, 1, 4096);
    NA_Msg_buf_free(end.na_class, buf, data);
    NA_Addr_free(end.na_class, addr);
    wrapped_close(&end);
    end_close(&peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_fail_after_the_death),
        cmocka_unit_test(progress_goes_on_and_sleeps),
        cmocka_unit_test(peers_find_nobody),
        cmocka_unit_test(what_waits_when_it_dies_fails),
        cmocka_unit_test(things_of_a_dead_endpoint_are_freed),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
