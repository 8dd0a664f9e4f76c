/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping on the descriptor or in a poll, and the events that end the sleep. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "transport_rma.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Skips the test where there is no descriptor to sleep on. */
static void require_descriptor(struct end *end)
{
    if (NA_Poll_get_fd(end->na_class, end->context) >= 0)
        return;
    end_close(end);
    test_skip("no descriptor to wait on");
}

/* Polls only when the descriptor is readable, until the event has happened; returns how often it
 * slept. A sleep may last a minute, so that a missing wake-up exceeds the time limit. */
static unsigned int sleep_until(struct end *end, struct event *event)
{
    struct pollfd descriptor = {.fd = NA_Poll_get_fd(end->na_class, end->context),
                                .events = POLLIN};
    uint64_t until = now_ms() + TEST_WAIT_MS;
    unsigned int sleeps = 0;

    while (atomic_load(&event->done) == 0 && now_ms() < until) {
        end_progress(end, 0);
        if (atomic_load(&event->done) != 0 || !NA_Poll_try_wait(end->na_class, end->context))
            continue;
        (void) poll(&descriptor, 1, TEST_WAIT_MS);
        sleeps++;
    }
    assert_int_equal(event->done, 1);
    return sleeps;
}

static void nothing_is_a_timeout_after_the_time(void **state)
{
    static const unsigned int times[] = {0, 1, 100};
    struct end end;

    (void) state;
    end_open(&end, NULL, NULL);
    end_progress(&end, 50);
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        uint64_t from = now_ms();
        unsigned int count = 99;

        assert_int_equal(NA_Poll_wait(end.na_class, end.context, times[i], &count), NA_TIMEOUT);
        assert_int_equal(count, 0);
        assert_in_range(now_ms() - from + 1, times[i], TEST_WAIT_MS);
    }
    end_close(&end);
}

/* Both sides sleep between the messages, and each message wakes its receiver at once. */
static void sleepers_are_woken_by_messages(void **state)
{
    struct child child;
    struct end end;
    na_addr_t *peer;

    (void) state;
    pair_open(&child, &end, &peer, "idle");
    end_check_peer(&end, peer);
    for (int i = 0; i < 100; i++) {
        uint64_t from;

        (void) usleep(1000); /* by now the peer sleeps, for up to ten seconds */
        from = now_ms();
        end_check_peer(&end, peer);
        assert_in_range(now_ms() - from, 0, 5000);
    }
    pair_close(&child, &end, peer);
}

static void the_descriptor_wakes_for_a_message(void **state)
{
    struct peer_request request = {.command = PEER_LATER, .a = 30}, reply;
    unsigned int sleeps = 0;
    struct child child;
    struct end end;
    na_addr_t *peer;
    na_op_id_t *op;

    (void) state;
    end_open(&end, NULL, NULL);
    require_descriptor(&end);
    child_start(&child, NULL, "plain");
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    for (uint32_t i = 0; i < 8; i++) {
        struct event event = {0};
        uint64_t from = now_ms();

        assert_int_equal(end_receive_expected(&end, &event, &reply, sizeof(reply), peer, i, op),
                         NA_SUCCESS);
        assert_int_equal(end_send(&end, peer, &request, sizeof(request), i, false), NA_SUCCESS);
        sleeps += sleep_until(&end, &event);
        assert_int_equal(event.ret, NA_SUCCESS);
        assert_in_range(now_ms() - from, 0,
                        TEST_WAIT_MS / 2); /* less than a sleep that nothing ends */
    }
    assert_in_range(sleeps, 1, 1000); /* it did sleep, and not in short slices */
    NA_Op_destroy(end.na_class, op);
    pair_close(&child, &end, peer);
}

/* A transfer in many pieces: each side that sleeps is woken for each of its steps. */
static void the_descriptor_wakes_for_a_transfer(void **state)
{
    struct rma rma;

    (void) state;
    assert_int_equal(rma_open(&rma, "idle", NA_MEM_READWRITE, RMA_BYTES, 1), 0);
    if (NA_Poll_get_fd(rma.end.na_class, rma.end.context) < 0) {
        rma_close(&rma, true);
        test_skip("no descriptor to wait on");
    }
    for (int i = 0; i < 20; i++) {
        na_op_id_t *op = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
        struct event event = {0};
        uint64_t from = now_ms();

        assert_int_equal((i % 2 ? NA_Put : NA_Get)(rma.end.na_class, rma.end.context,
                                                   event_callback, &event, rma.local_mem, 0,
                                                   rma.remote_mem, 0, rma.bytes, rma.peer, 0, op),
                         NA_SUCCESS);
        (void) sleep_until(&rma.end, &event);
        assert_int_equal(event.ret, NA_SUCCESS);
        assert_in_range(now_ms() - from, 0, TEST_WAIT_MS / 2);
        NA_Op_destroy(rma.end.na_class, op);
    }
    rma_close(&rma, true);
}

struct starter {
    struct end *end;
    na_addr_t *self;
    na_op_id_t *op;
    struct event sent;
};

static void *send_later(void *arg)
{
    struct starter *starter = arg;

    (void) usleep(100000);
    (void) NA_Msg_send_unexpected(starter->end->na_class, starter->end->context, event_callback,
                                  &starter->sent, "wake", 5, NULL, starter->self, 0, 1,
                                  starter->op);
    return NULL;
}

/* `descriptor`: the thread sleeps on the descriptor, otherwise in NA_Poll_wait(). */
static void what_another_thread_starts_ends_a_sleep(bool descriptor)
{
    struct starter starter = {0};
    struct event event = {0};
    char in[16];
    pthread_t thread;
    struct end end;
    na_op_id_t *op;
    uint64_t from;

    end_open(&end, NULL, NULL);
    if (descriptor)
        require_descriptor(&end);
    starter.end = &end;
    starter.op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    assert_int_equal(NA_Addr_self(end.na_class, &starter.self), NA_SUCCESS);
    for (int i = 0; i < 3; i++) {
        event.done = 0;
        starter.sent.done = 0;
        assert_int_equal(end_receive_unexpected(&end, &event, in, sizeof(in), op), NA_SUCCESS);
        from = now_ms();
        assert_int_equal(pthread_create(&thread, NULL, send_later, &starter), 0);
        if (descriptor)
            (void) sleep_until(&end, &event);
        while (event.done == 0 && now_ms() - from < TEST_WAIT_MS) {
            unsigned int count;

            (void) NA_Poll_wait(end.na_class, end.context, TEST_WAIT_MS, &count);
            (void) NA_Trigger(end.context, 2, NULL);
        }
        assert_int_equal(event.done, 1);
        assert_in_range(now_ms() - from, 90, TEST_WAIT_MS / 2);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(event_wait(&end, &starter.sent, TEST_WAIT_MS));
        NA_Addr_free(end.na_class, event.source);
    }
    NA_Op_destroy(end.na_class, op);
    NA_Op_destroy(end.na_class, starter.op);
    NA_Addr_free(end.na_class, starter.self);
    end_close(&end);
}

static void what_another_thread_starts_ends_a_wait(void **state)
{
    (void) state;
    what_another_thread_starts_ends_a_sleep(false);
}

static void what_another_thread_starts_wakes_the_descriptor(void **state)
{
    (void) state;
    what_another_thread_starts_ends_a_sleep(true);
}

static void *cancel_later(void *arg)
{
    struct starter *starter = arg;

    (void) usleep(100000);
    (void) NA_Cancel(starter->end->na_class, starter->end->context, starter->op);
    return NULL;
}

static void a_cancellation_ends_a_wait(void **state)
{
    struct starter starter = {0};
    unsigned int count = 0;
    char in[16];
    pthread_t thread;
    struct end end;
    uint64_t from;

    (void) state;
    end_open(&end, NULL, NULL);
    starter.end = &end;
    starter.op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    assert_int_equal(end_receive_unexpected(&end, &starter.sent, in, sizeof(in), starter.op),
                     NA_SUCCESS);
    from = now_ms();
    assert_int_equal(pthread_create(&thread, NULL, cancel_later, &starter), 0);
    assert_int_equal(NA_Poll_wait(end.na_class, end.context, TEST_WAIT_MS, &count), NA_SUCCESS);
    assert_in_range(now_ms() - from, 90, TEST_WAIT_MS / 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(NA_Trigger(end.context, 1, NULL), NA_SUCCESS);
    assert_int_equal(starter.sent.ret, NA_CANCELED);
    NA_Op_destroy(end.na_class, starter.op);
    end_close(&end);
}

/* Connected, with receives posted and no traffic: the descriptor is not readable. */
static void a_quiet_descriptor_stays_quiet(void **state)
{
    unsigned int wakeups = 0;
    struct event event = {0};
    struct pollfd descriptor;
    struct child child;
    struct end end;
    na_addr_t *peer;
    na_op_id_t *op;
    uint64_t until;
    char in[16];

    (void) state;
    end_open(&end, NULL, NULL);
    require_descriptor(&end);
    child_start(&child, NULL, "plain");
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    end_check_peer(&end, peer);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    assert_int_equal(end_receive_unexpected(&end, &event, in, sizeof(in), op), NA_SUCCESS);
    descriptor = (struct pollfd){.fd = NA_Poll_get_fd(end.na_class, end.context), .events = POLLIN};
    for (until = now_ms() + 500; now_ms() < until; wakeups++) {
        end_progress(&end, 0);
        if (NA_Poll_try_wait(end.na_class, end.context))
            (void) poll(&descriptor, 1, 500);
    }
    print_message("%u wake-ups in half a second of silence\n", wakeups);
    assert_in_range(wakeups, 1, 50);
    assert_int_equal(NA_Cancel(end.na_class, end.context, op), NA_SUCCESS);
    assert_true(event_wait(&end, &event, TEST_WAIT_MS));
    NA_Op_destroy(end.na_class, op);
    pair_close(&child, &end, peer);
}

static void busy_mode_has_no_descriptor_and_works(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct child child;
    struct end end;
    na_addr_t *peer;

    (void) state;
    info.progress_mode = NA_NO_BLOCK;
    child_start(&child, NULL, "busy");
    end_open(&end, NULL, &info);
    assert_int_equal(NA_Poll_get_fd(end.na_class, end.context), -1);
    assert_false(NA_Poll_try_wait(end.na_class, end.context));
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    for (int i = 0; i < 200; i++) {
        for (int j = 0; j < 100; j++)
            end_progress(&end, 0);
        end_check_peer(&end, peer);
    }
    pair_close(&child, &end, peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_a_timeout_after_the_time),
        cmocka_unit_test(sleepers_are_woken_by_messages),
        cmocka_unit_test(the_descriptor_wakes_for_a_message),
        cmocka_unit_test(the_descriptor_wakes_for_a_transfer),
        cmocka_unit_test(what_another_thread_starts_ends_a_wait),
        cmocka_unit_test(what_another_thread_starts_wakes_the_descriptor),
        cmocka_unit_test(a_cancellation_ends_a_wait),
        cmocka_unit_test(a_quiet_descriptor_stays_quiet),
        cmocka_unit_test(busy_mode_has_no_descriptor_and_works),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
