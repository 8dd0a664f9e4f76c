/* SPDX-License-Identifier: BSD-3-Clause */
/* Many threads on one context, cancelling at every phase, waking a waiter. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "sm_test.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 8
#define CALLS   2000
#define SENDERS 3

struct worker {
    pthread_t thread;
    struct sm_end *end;
    na_addr_t *peer;
    unsigned int index;
    unsigned int errors;
};

static void *call_many(void *arg)
{
    struct worker *worker = arg;
    uint8_t request[600] = {0}, reply[600];

    for (uint32_t i = 0; i < CALLS; i++) {
        size_t size = 24 + (i * 7 + worker->index * 13) % 500, got = sizeof(reply);

        memset(request + 4, (int) (worker->index * 16 + i % 16), size - 4);
        if (sm_call(worker->end, worker->peer, request, size, reply, &got) != NA_SUCCESS ||
            got != size || memcmp(request, reply, size) != 0)
            worker->errors++;
    }
    return NULL;
}

static void run(struct worker *workers, void *(*function)(void *), struct sm_end *end,
                na_addr_t *peer)
{
    for (unsigned int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.end = end, .peer = peer, .index = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, function, &workers[i]), 0);
    }
    for (unsigned int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].errors, 0);
    }
}

static void eight_threads_share_a_context(void **state)
{
    struct worker workers[THREADS];
    struct sm_child child;
    struct sm_end end;
    na_addr_t *peer;

    (void) state;
    sm_child_start(&child, "na+sm", "plain");
    sm_end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    run(workers, call_many, &end, peer);
    NA_Addr_free(end.na_class, peer);
    sm_end_close(&end);
    sm_child_stop(&child);
    sm_check_clean();
}

/* Sends to the endpoint itself and receives whatever comes: the ring is full most of the time. */
static void *flood_self(void *arg)
{
    static _Atomic uint32_t received;
    struct worker *worker = arg;
    na_op_id_t *send_op = NA_Op_create(worker->end->na_class, NA_OP_SINGLE);
    na_op_id_t *recv_op = NA_Op_create(worker->end->na_class, NA_OP_SINGLE);
    uint8_t out[300], in[300];

    for (uint32_t i = 0; i < CALLS; i++) {
        struct sm_event sent = {0}, got = {0};

        memset(out, (int) i, sizeof(out));
        if (NA_Msg_recv_unexpected(worker->end->na_class, worker->end->context, sm_event_callback,
                                   &got, in, sizeof(in), NULL, recv_op) != NA_SUCCESS ||
            NA_Msg_send_unexpected(worker->end->na_class, worker->end->context, sm_event_callback,
                                   &sent, out, sizeof(out), NULL, worker->peer, 0, i,
                                   send_op) != NA_SUCCESS ||
            !sm_event_wait(worker->end, &sent, SM_TEST_WAIT_MS) ||
            !sm_event_wait(worker->end, &got, SM_TEST_WAIT_MS) || sent.ret != NA_SUCCESS ||
            got.ret != NA_SUCCESS || in[0] != (got.tag & 0xff) || in[299] != in[0]) {
            worker->errors++;
            break;
        }
        NA_Addr_free(worker->end->na_class, got.source);
        atomic_fetch_add(&received, 1);
    }
    NA_Op_destroy(worker->end->na_class, send_op);
    NA_Op_destroy(worker->end->na_class, recv_op);
    return NULL;
}

static void eight_threads_flood_one_ring(void **state)
{
    struct worker workers[THREADS];
    struct sm_end end;
    na_addr_t *self;

    (void) state;
    sm_end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    run(workers, flood_self, &end, self);
    NA_Addr_free(end.na_class, self);
    sm_end_close(&end);
    sm_check_clean();
}

/* Posts and cancels while others progress: each operation ends exactly once. */
static void *cancel_many(void *arg)
{
    struct worker *worker = arg;
    na_op_id_t *op = NA_Op_create(worker->end->na_class, NA_OP_SINGLE);
    uint8_t in[64];

    for (uint32_t i = 0; i < CALLS; i++) {
        struct sm_event event = {0};
        na_return_t ret;

        if (i % 2)
            ret = NA_Msg_recv_expected(worker->end->na_class, worker->end->context,
                                       sm_event_callback, &event, in, sizeof(in), NULL,
                                       worker->peer, 0, worker->index, op);
        else
            ret = NA_Msg_recv_unexpected(worker->end->na_class, worker->end->context,
                                         sm_event_callback, &event, in, sizeof(in), NULL, op);
        if (ret != NA_SUCCESS ||
            NA_Cancel(worker->end->na_class, worker->end->context, op) != NA_SUCCESS ||
            !sm_event_wait(worker->end, &event, SM_TEST_WAIT_MS) || event.ret != NA_CANCELED ||
            event.done != 1)
            worker->errors++;
    }
    NA_Op_destroy(worker->end->na_class, op);
    return NULL;
}

static void receives_are_cancelled_from_many_threads(void **state)
{
    struct worker workers[THREADS];
    struct sm_end end;
    na_addr_t *self;

    (void) state;
    sm_end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    run(workers, cancel_many, &end, self);
    NA_Addr_free(end.na_class, self);
    sm_end_close(&end);
    sm_check_clean();
}

/* Queued behind a full ring: cancelled ones are not sent, the others keep their order. */
static void queued_sends_are_cancelled(void **state)
{
    struct sm_event *events = calloc(300, sizeof(*events));
    na_op_id_t *ops[300];
    struct sm_request requests[300];
    unsigned int canceled = 0;
    struct sm_child child;
    struct sm_end end;
    uint64_t counts[2];
    size_t size = sizeof(counts);
    na_addr_t *peer;

    (void) state;
    sm_child_start(&child, "na+sm", "plain");
    sm_end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    assert_int_equal(sm_command(&end, peer, SM_NAP, 300, 0, 0, NULL, NULL), NA_SUCCESS);
    sm_end_progress(&end, 50);
    for (uint32_t i = 0; i < 300; i++) {
        ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        requests[i] = (struct sm_request){.command = SM_COUNT, .a = i};
        assert_int_equal(NA_Msg_send_unexpected(end.na_class, end.context, sm_event_callback,
                                                &events[i], &requests[i], sizeof(requests[i]), NULL,
                                                peer, 0, 0, ops[i]),
                         NA_SUCCESS);
    }
    for (uint32_t i = 250; i < 300; i++)
        assert_int_equal(NA_Cancel(end.na_class, end.context, ops[i]), NA_SUCCESS);
    for (uint32_t i = 0; i < 300; i++) {
        assert_true(sm_event_wait(&end, &events[i], SM_TEST_WAIT_MS));
        assert_int_equal(events[i].ret, i < 250 ? NA_SUCCESS : NA_CANCELED);
        canceled += events[i].ret == NA_CANCELED;
        assert_int_equal(NA_Cancel(end.na_class, end.context, ops[i]), NA_SUCCESS); /* too late */
        NA_Op_destroy(end.na_class, ops[i]);
    }
    assert_int_equal(canceled, 50);
    assert_int_equal(sm_command(&end, peer, SM_REPORT, 0, 0, 0, counts, &size), NA_SUCCESS);
    assert_int_equal(counts[0], 250);
    assert_int_equal(counts[1], 0);
    NA_Addr_free(end.na_class, peer);
    sm_end_close(&end);
    sm_child_stop(&child);
    free(events);
    sm_check_clean();
}

/* What is outstanding when a context is destroyed ends as cancelled, without a poll. */
static void destroying_a_context_cancels_everything(void **state)
{
    struct sm_event events[4] = {0};
    uint8_t buf[64];
    na_op_id_t *ops[4];
    struct sm_end end;
    na_addr_t *self;

    (void) state;
    sm_end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    for (int i = 0; i < 4; i++) {
        ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        if (i % 2)
            assert_int_equal(NA_Msg_recv_unexpected(end.na_class, end.context, sm_event_callback,
                                                    &events[i], buf, sizeof(buf), NULL, ops[i]),
                             NA_SUCCESS);
        else
            assert_int_equal(NA_Msg_recv_expected(end.na_class, end.context, sm_event_callback,
                                                  &events[i], buf, sizeof(buf), NULL, self, 0, 7,
                                                  ops[i]),
                             NA_SUCCESS);
    }
    assert_int_equal(NA_Context_destroy(end.na_class, end.context), NA_BUSY); /* callbacks wait */
    assert_int_equal(NA_Trigger(end.context, 4, NULL), NA_SUCCESS);
    assert_int_equal(NA_Context_destroy(end.na_class, end.context), NA_SUCCESS);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(events[i].done, 1);
        assert_int_equal(events[i].ret, NA_CANCELED);
        NA_Op_destroy(end.na_class, ops[i]);
    }
    end.context = NA_Context_create(end.na_class); /* the number is free again */
    assert_non_null(end.context);
    NA_Addr_free(end.na_class, self);
    sm_end_close(&end);
    sm_check_clean();
}

/* Both sides sleep between the messages: each one wakes its receiver at once. */
static void sleepers_are_woken_by_messages(void **state)
{
    uint8_t reply[64];
    struct sm_child child;
    struct sm_end end;
    uint64_t longest = 0;
    na_addr_t *peer;

    (void) state;
    sm_child_start(&child, "na+sm", "idle");
    sm_end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    for (int i = 0; i < 300; i++) {
        size_t size = sizeof(reply);
        uint64_t from;

        (void) usleep(1000); /* the peer has gone to sleep, for up to a second */
        from = sm_now_ms();
        assert_int_equal(sm_command(&end, peer, SM_ECHO, 0, 0, 0, reply, &size), NA_SUCCESS);
        if (sm_now_ms() - from > longest)
            longest = sm_now_ms() - from;
    }
    assert_in_range(longest, 0, 500);
    NA_Addr_free(end.na_class, peer);
    sm_end_close(&end);
    sm_child_stop(&child);
    sm_check_clean();
}

/* Two busy processes that never sleep, with hundreds of silences long enough to park the rings. */
static void busy_processes_find_each_other_after_silence(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    uint8_t reply[64];
    struct sm_child child;
    struct sm_end end;
    na_addr_t *peer;

    (void) state;
    info.progress_mode = NA_NO_BLOCK;
    sm_child_start(&child, "na+sm", "busy");
    sm_end_open(&end, "na+sm", &info);
    assert_int_equal(NA_Poll_get_fd(end.na_class, end.context), -1);
    assert_false(NA_Poll_try_wait(end.na_class, end.context));
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    for (int i = 0; i < 200; i++) {
        size_t size = sizeof(reply);
        unsigned int count;

        for (int j = 0; j < (i % 10 == 0 ? 100000 : 100); j++)
            (void) NA_Poll(end.na_class, end.context, &count);
        assert_int_equal(sm_command(&end, peer, SM_ECHO, 0, 0, 0, reply, &size), NA_SUCCESS);
    }
    NA_Addr_free(end.na_class, peer);
    sm_end_close(&end);
    sm_child_stop(&child);
    sm_check_clean();
}

/* Stops the thread wherever it is, while the others and the receiver go on. */
static void nap(int number)
{
    const struct timespec time = {.tv_nsec = 200000};
    int before = errno;

    (void) number;
    (void) nanosleep(&time, NULL);
    errno = before;
}

static _Atomic bool senders_stop;

static void *send_until_stopped(void *arg)
{
    struct worker *worker = arg;
    na_op_id_t *op = NA_Op_create(worker->end->na_class, NA_OP_SINGLE);
    const struct sm_request request = {.command = SM_COUNT};

    while (!atomic_load(&senders_stop) && worker->errors == 0) {
        struct sm_event sent = {0};

        if (NA_Msg_send_unexpected(worker->end->na_class, worker->end->context, sm_event_callback,
                                   &sent, &request, sizeof(request), NULL, worker->peer, 0, 0,
                                   op) != NA_SUCCESS) {
            worker->errors++;
            break;
        }
        while (atomic_load(&sent.done) == 0)
            sm_end_progress(worker->end, 0);
        worker->errors += sent.ret != NA_SUCCESS;
    }
    NA_Op_destroy(worker->end->na_class, op);
    return NULL;
}

/* What one thread knows of the ring is old when it goes on; the peer is not to blame for that. */
static void threads_that_are_interrupted_keep_the_connection(void **state)
{
    struct sigaction action = {.sa_handler = nap, .sa_flags = SA_RESTART};
    struct worker workers[SENDERS];
    struct sm_child child;
    struct sm_end end;
    na_addr_t *peer;
    uint64_t until;

    (void) state;
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    sm_child_start(&child, "na+sm", "busy");
    sm_end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    atomic_store(&senders_stop, false);
    for (unsigned int i = 0; i < SENDERS; i++) {
        workers[i] = (struct worker){.end = &end, .peer = peer, .index = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, send_until_stopped, &workers[i]),
                         0);
    }
    until = sm_now_ms() + (SM_TEST_SANITIZED ? 1000 : 4000);
    while (sm_now_ms() < until) {
        (void) usleep(200);
        (void) pthread_kill(workers[0].thread, SIGUSR1);
    }
    atomic_store(&senders_stop, true);
    for (unsigned int i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    for (unsigned int i = 0; i < SENDERS; i++)
        assert_int_equal(workers[i].errors, 0);
    NA_Addr_free(end.na_class, peer);
    sm_end_close(&end);
    sm_child_stop(&child);
    sm_check_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_threads_share_a_context),
        cmocka_unit_test(eight_threads_flood_one_ring),
        cmocka_unit_test(threads_that_are_interrupted_keep_the_connection),
        cmocka_unit_test(receives_are_cancelled_from_many_threads),
        cmocka_unit_test(queued_sends_are_cancelled),
        cmocka_unit_test(destroying_a_context_cancels_everything),
        cmocka_unit_test(sleepers_are_woken_by_messages),
        cmocka_unit_test(busy_processes_find_each_other_after_silence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
