/* SPDX-License-Identifier: BSD-3-Clause */
/* Cancelling operations in every phase: each one completes exactly once, and its buffer is not
 * touched afterwards. */

#include "transport_rma.h"

#include "na_ext.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define THREADS 8
#define SENDS   2000

static void cancel(struct end *end, na_op_id_t *op, struct event *event)
{
    assert_int_equal(NA_Cancel(end->na_class, end->context, op), NA_SUCCESS);
    assert_true(event_wait(end, event, TEST_WAIT_MS));
    assert_int_equal(event->ret, NA_CANCELED);
    assert_int_equal(event->done, 1);
    /* no effect: the operation has completed */
    assert_int_equal(NA_Cancel(end->na_class, end->context, op), NA_SUCCESS);
}

/* The message for which a cancelled receive waited arrives later and matches the next receive. */
static void a_cancelled_receive_gets_nothing(void **state)
{
    struct event events[3] = {0};
    uint8_t bufs[3][64], out[64];
    na_op_id_t *ops[3];
    struct end end;
    na_addr_t *self;

    (void) state;
    end_open(&end, NULL, NULL);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    memset(out, 1, sizeof(out));
    for (int expected = 0; expected < 2; expected++) {
        memset(events, 0, sizeof(events));
        memset(bufs, 0xee, sizeof(bufs));
        for (int i = 0; i < 3; i++) {
            ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
            if (expected)
                assert_int_equal(
                    end_receive_expected(&end, &events[i], bufs[i], 64, self, 9, ops[i]),
                    NA_SUCCESS);
            else
                assert_int_equal(end_receive_unexpected(&end, &events[i], bufs[i], 64, ops[i]),
                                 NA_SUCCESS);
        }
        cancel(&end, ops[1], &events[1]);
        cancel(&end, ops[0], &events[0]);
        assert_int_equal(end_send(&end, self, out, sizeof(out), 9, expected), NA_SUCCESS);
        assert_true(event_wait(&end, &events[2], TEST_WAIT_MS));
        end_progress(&end, 20);
        assert_int_equal(events[2].ret, NA_SUCCESS);
        assert_int_equal(bufs[2][63], 1);
        if (!expected)
            NA_Addr_free(end.na_class, events[2].source);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(events[i].done, 1);
            assert_true(i == 2 || (bufs[i][0] == 0xee && bufs[i][63] == 0xee));
            NA_Op_destroy(end.na_class, ops[i]);
        }
    }
    NA_Addr_free(end.na_class, self);
    end_close(&end);
}

/* The receive of a reply is cancelled while the reply is in flight, or before it was sent. After
 * the callback the buffer is not written any more. */
static void a_reply_that_comes_too_late_is_dropped(void **state)
{
    struct peer_request request = {.command = PEER_LATER, .a = 20}, reply;
    struct child child;
    struct end end;
    na_addr_t *peer;
    na_op_id_t *op;

    (void) state;
    pair_open(&child, &end, &peer, "plain");
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    for (uint32_t i = 0; i < 20; i++) {
        struct event event = {0};

        memset(&reply, 0xee, sizeof(reply));
        assert_int_equal(end_receive_expected(&end, &event, &reply, sizeof(reply), peer, 4, op),
                         NA_SUCCESS);
        request.a = i % 2 ? 20 : 0;
        assert_int_equal(end_send(&end, peer, &request, sizeof(request), 4, false), NA_SUCCESS);
        end_progress(&end, i % 4 == 3 ? 10 : 0);
        assert_int_equal(NA_Cancel(end.na_class, end.context, op), NA_SUCCESS);
        assert_true(event_wait(&end, &event, TEST_WAIT_MS));
        assert_true(event.ret == NA_CANCELED || event.ret == NA_SUCCESS);
        if (event.ret == NA_SUCCESS)
            continue;
        end_check_peer(&end, peer); /* this exchange completes after the late reply has arrived */
        assert_int_equal(reply.command, 0xeeeeeeeeu);
        assert_int_equal(event.done, 1);
    }
    NA_Op_destroy(end.na_class, op);
    pair_close(&child, &end, peer);
}

/* Stops the peer until it is resumed. An agent cannot be stopped by a signal and sleeps instead. */
static void peer_stop(struct end *end, na_addr_t *peer, const struct child *child)
{
    if (child->agent < 0) {
        assert_int_equal(kill(child->pid, SIGSTOP), 0);
        return;
    }
    assert_int_equal(end_command(end, peer, PEER_NAP, 300, 0, 0, NULL, NULL), NA_SUCCESS);
    end_progress(end, 20);
}

static void peer_resume(const struct child *child)
{
    if (child->agent < 0)
        assert_int_equal(kill(child->pid, SIGCONT), 0);
}

/* Sends to a stopped peer are queued. The cancelled ones are not sent, the others arrive in
 * order. */
static void queued_sends_are_cancelled(void **state)
{
    struct event *events = calloc(SENDS, sizeof(*events));
    na_op_id_t **ops = calloc(SENDS, sizeof(*ops));
    unsigned int canceled = 0;
    uint8_t *bufs;
    struct child child;
    struct end end;
    na_addr_t *peer;
    size_t size;

    (void) state;
    pair_open(&child, &end, &peer, "plain");
    end_check_peer(&end, peer);
    size = NA_Msg_get_max_unexpected_size(end.na_class);
    bufs = calloc(SENDS, size);
    peer_stop(&end, peer, &child);
    for (uint32_t i = 0; i < SENDS; i++) {
        const struct peer_request request = {.command = PEER_COUNT, .a = i};

        memcpy(bufs + i * size, &request, sizeof(request));
        ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        assert_int_equal(NA_Msg_send_unexpected(end.na_class, end.context, event_callback,
                                                &events[i], bufs + i * size, size, NULL, peer, 0, 0,
                                                ops[i]),
                         NA_SUCCESS);
    }
    for (uint32_t i = 1; i < SENDS; i += 1 + i % 3)
        assert_int_equal(NA_Cancel(end.na_class, end.context, ops[i]), NA_SUCCESS);
    peer_resume(&child);
    for (uint32_t i = 0; i < SENDS; i++) {
        assert_true(event_wait(&end, &events[i], TEST_WAIT_MS));
        assert_true(events[i].ret == NA_SUCCESS || events[i].ret == NA_CANCELED);
        canceled += events[i].ret == NA_CANCELED;
        /* no effect: the operation has completed */
        assert_int_equal(NA_Cancel(end.na_class, end.context, ops[i]), NA_SUCCESS);
    }
    for (uint32_t i = 0; i < SENDS; i++) {
        assert_int_equal(events[i].done, 1);
        NA_Op_destroy(end.na_class, ops[i]);
    }
    if (NA_Class_has_capability(end.na_class, "cancel_send"))
        assert_int_not_equal(canceled, 0);
    else
        print_message("left out: %s does not cancel sends\n", test_init_string());
    assert_int_equal(end_peer_count(&end, peer), SENDS - canceled);
    pair_close(&child, &end, peer);
    free(events);
    free(ops);
    free(bufs);
}

/* Transfers are cancelled at once, or after some progress. Late pieces do not disturb the next
 * transfer. */
static void transfers_are_cancelled(void **state)
{
    unsigned int canceled = 0;
    struct rma rma;

    (void) state;
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, RMA_BYTES, 1), 0);
    for (unsigned int i = 0; i < 60; i++) {
        na_op_id_t *op = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
        struct event event = {0};
        uint64_t sum;

        memset(rma.local, 1, rma.bytes);
        assert_int_equal((i % 2 ? NA_Put : NA_Get)(rma.end.na_class, rma.end.context,
                                                   event_callback, &event, rma.local_mem, 0,
                                                   rma.remote_mem, 0, rma.bytes, rma.peer, 0, op),
                         NA_SUCCESS);
        for (unsigned int j = 0; j < i / 2; j++)
            end_progress(&rma.end, 0);
        assert_int_equal(NA_Cancel(rma.end.na_class, rma.end.context, op), NA_SUCCESS);
        assert_true(event_wait(&rma.end, &event, TEST_WAIT_MS));
        assert_true(event.ret == NA_CANCELED || event.ret == NA_SUCCESS);
        canceled += event.ret == NA_CANCELED;
        memset(rma.local, 2, rma.bytes); /* the transport must not access the buffer any more */
        if (i % 10 < 2)
            end_progress(&rma.end, 50);
        sum = rma_local_sum(&rma);
        assert_int_equal(sum, 2ull * rma.bytes);
        assert_int_equal(event.done, 1);
        NA_Op_destroy(rma.end.na_class, op);
    }
    print_message("%u of 60 were cancelled\n", canceled);
    memset(rma.local, 4, rma.bytes);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, rma.bytes), NA_SUCCESS);
    for (size_t i = 0; i < rma.bytes; i++)
        if (rma.local[i] != 1 && rma.local[i] != rma_exposed(i))
            fail_msg("byte %zu is %u: neither what was exposed nor what was put", i, rma.local[i]);
    memset(rma.local, 3, rma.bytes);
    assert_int_equal(rma_transfer(&rma, true, 0, 0, rma.bytes), NA_SUCCESS);
    assert_int_equal(rma_remote_sum(&rma), 3ull * rma.bytes);
    rma_close(&rma, true);
}

/* Many transfers are posted at once: when they are cancelled, the first are in progress, and the
 * last have not begun. */
static void queued_transfers_are_cancelled(void **state)
{
    struct event *events = calloc(300, sizeof(*events));
    na_op_id_t *ops[300];
    struct rma rma;

    (void) state;
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, RMA_BYTES, 1), 0);
    for (unsigned int i = 0; i < 300; i++) {
        ops[i] = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
        assert_int_equal((i % 2 ? NA_Put : NA_Get)(rma.end.na_class, rma.end.context,
                                                   event_callback, &events[i], rma.local_mem,
                                                   i * 10000, rma.remote_mem, i * 10000, 10000,
                                                   rma.peer, 0, ops[i]),
                         NA_SUCCESS);
    }
    for (unsigned int i = 300; i-- > 0;)
        if (i % 3 != 0)
            assert_int_equal(NA_Cancel(rma.end.na_class, rma.end.context, ops[i]), NA_SUCCESS);
    for (unsigned int i = 0; i < 300; i++) {
        assert_true(event_wait(&rma.end, &events[i], TEST_WAIT_MS));
        assert_true(events[i].ret == NA_SUCCESS || (i % 3 != 0 && events[i].ret == NA_CANCELED));
        if (i % 6 == 0)
            assert_int_equal(rma.local[i * 10000 + 9999], rma_exposed(i * 10000 + 9999));
    }
    end_check_peer(&rma.end, rma.peer);
    for (unsigned int i = 0; i < 300; i++) {
        assert_int_equal(events[i].done, 1);
        NA_Op_destroy(rma.end.na_class, ops[i]);
    }
    rma_close(&rma, true);
    free(events);
}

struct worker {
    pthread_t thread;
    struct end *end;
    na_addr_t *peer;
    unsigned int index;
    unsigned int errors;
};

/* Posts and cancels operations while other threads progress: each operation completes exactly
 * once. */
static void *cancel_many(void *arg)
{
    struct worker *worker = arg;
    na_op_id_t *op = NA_Op_create(worker->end->na_class, NA_OP_SINGLE);
    uint8_t in[64];

    for (uint32_t i = 0; i < 2000; i++) {
        struct event event = {0};
        na_return_t ret;

        if (i % 2)
            ret = end_receive_expected(worker->end, &event, in, sizeof(in), worker->peer,
                                       worker->index, op);
        else
            ret = end_receive_unexpected(worker->end, &event, in, sizeof(in), op);
        if (ret != NA_SUCCESS ||
            NA_Cancel(worker->end->na_class, worker->end->context, op) != NA_SUCCESS ||
            !event_wait(worker->end, &event, TEST_WAIT_MS) || event.ret != NA_CANCELED ||
            event.done != 1)
            worker->errors++;
    }
    NA_Op_destroy(worker->end->na_class, op);
    return NULL;
}

static void receives_are_cancelled_from_many_threads(void **state)
{
    struct worker workers[THREADS];
    struct end end;
    na_addr_t *self;

    (void) state;
    end_open(&end, NULL, NULL);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    for (unsigned int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.end = &end, .peer = self, .index = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, cancel_many, &workers[i]), 0);
    }
    for (unsigned int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].errors, 0);
    }
    NA_Addr_free(end.na_class, self);
    end_close(&end);
}

/* Operations that are outstanding when the context is destroyed complete as cancelled, without a
 * poll. */
static void destroying_a_context_cancels_everything(void **state)
{
    struct event events[4] = {0};
    uint8_t buf[64];
    na_op_id_t *ops[4];
    struct end end;
    na_addr_t *self;

    (void) state;
    end_open(&end, NULL, NULL);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    for (int i = 0; i < 4; i++) {
        ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        if (i % 2)
            assert_int_equal(end_receive_unexpected(&end, &events[i], buf, sizeof(buf), ops[i]),
                             NA_SUCCESS);
        else
            assert_int_equal(
                end_receive_expected(&end, &events[i], buf, sizeof(buf), self, 7, ops[i]),
                NA_SUCCESS);
    }
    assert_int_equal(NA_Context_destroy(end.na_class, end.context), NA_SUCCESS);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(events[i].done, 1);
        assert_int_equal(events[i].ret, NA_CANCELED);
        NA_Op_destroy(end.na_class, ops[i]);
    }
    /* the number of the destroyed context is free again */
    end.context = NA_Context_create(end.na_class);
    assert_non_null(end.context);
    NA_Addr_free(end.na_class, self);
    end_close(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cancelled_receive_gets_nothing),
        cmocka_unit_test(a_reply_that_comes_too_late_is_dropped),
        cmocka_unit_test(queued_sends_are_cancelled),
        cmocka_unit_test(transfers_are_cancelled),
        cmocka_unit_test(queued_transfers_are_cancelled),
        cmocka_unit_test(receives_are_cancelled_from_many_threads),
        cmocka_unit_test(destroying_a_context_cancels_everything),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
