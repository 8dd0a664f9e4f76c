/* SPDX-License-Identifier: BSD-3-Clause */
/* Loss, delay and reordering of messages. */

#include "fault_test.h"

#include <poll.h>
#include <time.h>

static void run(struct burst *burst, const char *options, unsigned int count)
{
    struct end from, to;

    wrapped_open(&from, options);
    end_open(&to, NULL, NULL);
    burst_run(burst, &from, &to, count, 60);
    wrapped_close(&from);
    end_close(&to);
}

static uint64_t cpu_ms(void)
{
    struct timespec used;

    (void) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t) used.tv_sec * 1000 + (uint64_t) used.tv_nsec / 1000000;
}

static void without_faults_nothing_happens(void **state)
{
    static const char *const options[] = {NULL, "seed=3", "drop=0&reorder=0&delay_us=0"};

    (void) state;
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        struct burst burst;

        run(&burst, options[i], 200);
        assert_int_equal(burst.arrived, 200);
        assert_int_equal(burst.failed, 0);
        assert_true(is_ascending(burst.tags, burst.arrived));
    }
}

static void a_dropped_message_is_sent_and_never_arrives(void **state)
{
    struct burst burst;

    (void) state;
    run(&burst, "drop=1", 50);
    assert_int_equal(burst.completed, 50);
    assert_int_equal(burst.failed, 0);
    assert_int_equal(burst.arrived, 0);
}

static void the_seed_says_what_is_dropped(void **state)
{
    struct burst bursts[3];

    (void) state;
    run(&bursts[0], "drop=0.5&seed=7", 400);
    run(&bursts[1], "drop=0.5&seed=7", 400);
    run(&bursts[2], "drop=0.5&seed=8", 400);
    assert_in_range(bursts[0].arrived, 140, 260);
    assert_true(is_ascending(bursts[0].tags, bursts[0].arrived));
    assert_int_equal(bursts[0].arrived, bursts[1].arrived);
    assert_memory_equal(bursts[0].tags, bursts[1].tags, sizeof(bursts[0].tags));
    assert_memory_not_equal(bursts[0].tags, bursts[2].tags, sizeof(bursts[0].tags));
}

/* A second fault does not change which messages are dropped. */
static void faults_are_drawn_independently(void **state)
{
    struct burst bursts[2], both;

    (void) state;
    run(&bursts[0], "drop=0.3&seed=11", 200);
    run(&bursts[1], "drop=0.3&seed=11&delay_us=0:200&reorder=0.3", 200);
    assert_int_equal(bursts[0].arrived, bursts[1].arrived);
    assert_memory_equal(bursts[0].tags, bursts[1].tags, sizeof(bursts[0].tags));
    /* Messages also overtake others that are not dropped. */
    run(&both, "drop=0.5&reorder=0.5&order=any&seed=11", 200);
    assert_in_range(both.arrived, 60, 140);
    assert_false(is_ascending(both.tags, both.arrived));
}

static void a_dropped_expected_message_leaves_the_receive_waiting(void **state)
{
    struct end from, to;
    struct event received = {0};
    na_addr_t *source, *dest;
    na_op_id_t *op;
    char buf[64];

    (void) state;
    wrapped_open(&from, "drop=1");
    end_open(&to, NULL, NULL);
    source = end_lookup(&to, &from);
    dest = end_lookup(&from, &to);
    op = NA_Op_create(to.na_class, NA_OP_SINGLE);
    assert_int_equal(end_receive_expected(&to, &received, buf, sizeof(buf), source, 5, op),
                     NA_SUCCESS);
    assert_int_equal(end_send(&from, dest, "lost", 5, 5, true), NA_SUCCESS);
    assert_false(ends_wait(&from, &to, &received, 50));
    assert_int_equal(NA_Cancel(to.na_class, to.context, op), NA_SUCCESS);
    assert_true(ends_wait(&from, &to, &received, TEST_WAIT_MS));
    assert_int_equal(received.ret, NA_CANCELED);
    NA_Op_destroy(to.na_class, op);
    NA_Addr_free(to.na_class, source);
    NA_Addr_free(from.na_class, dest);
    wrapped_close(&from);
    end_close(&to);
}

static void a_delay_is_kept_and_so_is_the_order(void **state)
{
    const uint64_t begin = now_ms();
    struct burst burst;

    (void) state;
    run(&burst, "delay_us=30000:30000", 50);
    assert_true(now_ms() - begin >= 30);
    assert_int_equal(burst.arrived, 50);
    assert_true(is_ascending(burst.tags, burst.arrived));
    run(&burst, "delay_us=0:3000&seed=5", 300);
    assert_int_equal(burst.arrived, 300);
    assert_int_equal(burst.failed, 0);
    assert_true(is_ascending(burst.tags, burst.arrived));
}

/* The descriptor wakes the sleeping thread when the delay ends, and not earlier. */
static void a_delay_is_slept_through(void **state)
{
    struct end from, to;
    struct event sent = {0};
    struct pollfd fd = {.events = POLLIN};
    na_addr_t *dest;
    na_op_id_t *op;
    uint64_t begin, cpu;
    unsigned int rounds = 0;

    (void) state;
    wrapped_open(&from, "delay_us=250000");
    end_open(&to, NULL, NULL);
    fd.fd = NA_Poll_get_fd(from.na_class, from.context);
    if (fd.fd < 0)
        test_skip("it has no descriptor");
    dest = end_lookup(&from, &to);
    op = NA_Op_create(from.na_class, NA_OP_SINGLE);
    begin = now_ms();
    cpu = cpu_ms();
    assert_int_equal(NA_Msg_send_unexpected(from.na_class, from.context, event_callback, &sent,
                                            "late", 5, NULL, dest, 0, 1, op),
                     NA_SUCCESS);
    /* The transport itself may wake the thread, but not often. */
    for (; now_ms() - begin < 249 && rounds < 100; rounds++) {
        for (int i = 0; i < 1000 && !NA_Poll_try_wait(from.na_class, from.context); i++)
            end_progress(&from, 0);
        if (now_ms() - begin < 249)
            (void) poll(&fd, 1, TEST_WAIT_MS);
    }
    assert_in_range(now_ms() - begin, 249, TEST_WAIT_MS / 2);
    assert_in_range(rounds, 1, 99);
    assert_in_range(cpu_ms() - cpu, 0, 100);
    assert_true(ends_wait(&from, &to, &sent, TEST_WAIT_MS));
    assert_int_equal(sent.ret, NA_SUCCESS);
    NA_Op_destroy(from.na_class, op);
    NA_Addr_free(from.na_class, dest);
    wrapped_close(&from);
    end_close(&to);
}

static void a_message_that_waits_can_be_cancelled(void **state)
{
    struct end from, to;
    struct event events[3] = {{0}};
    na_op_id_t *ops[3];
    na_addr_t *dest;

    (void) state;
    wrapped_open(&from, "delay_us=60000000");
    end_open(&to, NULL, NULL);
    dest = end_lookup(&from, &to);
    for (unsigned int i = 0; i < 3; i++) {
        ops[i] = NA_Op_create(from.na_class, NA_OP_SINGLE);
        assert_int_equal(NA_Msg_send_unexpected(from.na_class, from.context, event_callback,
                                                &events[i], "late", 5, NULL, dest, 0, 1, ops[i]),
                         NA_SUCCESS);
    }
    /* A message in the middle of the queue, then the first one; the last one is cancelled with the
     * context. */
    for (int i = 1; i >= 0; i--) {
        assert_int_equal(NA_Cancel(from.na_class, from.context, ops[i]), NA_SUCCESS);
        assert_true(ends_wait(&from, NULL, &events[i], TEST_WAIT_MS));
        assert_int_equal(events[i].ret, NA_CANCELED);
    }
    wrapped_stop(&from);
    assert_int_equal(events[2].done, 1);
    assert_int_equal(events[2].ret, NA_CANCELED);
    for (unsigned int i = 0; i < 3; i++)
        NA_Op_destroy(from.na_class, ops[i]);
    NA_Addr_free(from.na_class, dest);
    wrapped_close(&from);
    end_close(&to);
}

static void reordering_keeps_the_order_of_one_peer(void **state)
{
    struct burst burst;

    (void) state;
    run(&burst, "reorder=0.3&seed=2", 300);
    assert_int_equal(burst.arrived, 300);
    assert_int_equal(burst.failed, 0);
    assert_true(is_ascending(burst.tags, burst.arrived));
}

static void messages_of_one_peer_pass_each_other_only_when_asked(void **state)
{
    struct burst bursts[2];
    char seen[300] = "";

    (void) state;
    /* reorder_us is so large that an overtaken message always waits for later ones, even on a slow
     * machine. */
    run(&bursts[0], "reorder=0.3&order=any&reorder_us=60000000&seed=2", 300);
    run(&bursts[1], "reorder=0.3&order=any&reorder_us=60000000&seed=2", 300);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(bursts[i].arrived, 300);
        assert_false(is_ascending(bursts[i].tags, bursts[i].arrived));
    }
    assert_memory_equal(bursts[0].tags, bursts[1].tags, sizeof(bursts[0].tags));
    for (unsigned int i = 0; i < 300; i++)
        seen[bursts[0].tags[i]]++;
    for (unsigned int i = 0; i < 300; i++)
        assert_int_equal(seen[i], 1);
}

struct order {
    struct event event;
    unsigned int place; /* in the order of completions */
};

static void note_place(const struct na_cb_info *info)
{
    static unsigned int places;
    struct order *order = info->arg;

    order->place = ++places;
    order->event.ret = info->ret;
    atomic_fetch_add(&order->event.done, 1);
}

/* Messages to one peer overtake those to another one. */
static void reordering_changes_the_order_among_peers(void **state)
{
    struct end from, to[2];
    struct order sent[64] = {{{0}, 0}};
    na_op_id_t *ops[64];
    na_addr_t *dest[2];
    unsigned int overtaken = 0;

    (void) state;
    wrapped_open(&from, "reorder=0.5&reorder_us=200000&seed=4");
    for (int i = 0; i < 2; i++) {
        end_open(&to[i], NULL, NULL);
        dest[i] = end_lookup(&from, &to[i]);
    }
    for (unsigned int i = 0; i < 64; i++) {
        ops[i] = NA_Op_create(from.na_class, NA_OP_SINGLE);
        assert_int_equal(NA_Msg_send_unexpected(from.na_class, from.context, note_place, &sent[i],
                                                "word", 5, NULL, dest[i % 2], 0, i, ops[i]),
                         NA_SUCCESS);
        end_progress(&from, 0);
        ends_progress(&to[0], &to[1]);
    }
    for (unsigned int i = 0; i < 64; i++) {
        assert_true(ends_wait(&from, &to[i % 2], &sent[i].event, TEST_WAIT_MS));
        assert_int_equal(sent[i].event.ret, NA_SUCCESS);
        NA_Op_destroy(from.na_class, ops[i]);
    }
    for (unsigned int i = 0; i < 64; i++)
        for (unsigned int j = 0; j < i; j++) {
            if (sent[i].place > sent[j].place)
                continue;
            assert_int_not_equal(i % 2, j % 2);
            overtaken++;
        }
    assert_int_not_equal(overtaken, 0);
    for (int i = 0; i < 2; i++)
        NA_Addr_free(from.na_class, dest[i]);
    wrapped_close(&from);
    end_close(&to[0]);
    end_close(&to[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_faults_nothing_happens),
        cmocka_unit_test(a_dropped_message_is_sent_and_never_arrives),
        cmocka_unit_test(the_seed_says_what_is_dropped),
        cmocka_unit_test(faults_are_drawn_independently),
        cmocka_unit_test(a_dropped_expected_message_leaves_the_receive_waiting),
        cmocka_unit_test(a_delay_is_kept_and_so_is_the_order),
        cmocka_unit_test(a_delay_is_slept_through),
        cmocka_unit_test(a_message_that_waits_can_be_cancelled),
        cmocka_unit_test(reordering_keeps_the_order_of_one_peer),
        cmocka_unit_test(messages_of_one_peer_pass_each_other_only_when_asked),
        cmocka_unit_test(reordering_changes_the_order_among_peers),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
