/* SPDX-License-Identifier: BSD-3-Clause */
/* Several contexts of one class: each has messages, completions and a lifetime of its own. */

#include "transport_test.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CONTEXTS 3

static na_context_t *contexts[CONTEXTS];

/* Skips the test where a class can have one context only. */
static na_class_t *open_contexts(void)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;

    info.max_contexts = CONTEXTS;
    na_class = NA_Initialize_opt2(test_init_string(), true, NA_VERSION(6, 0), &info);
    if (na_class == NULL)
        test_skip("no class of several contexts can be opened");
    for (uint8_t i = 0; i < CONTEXTS; i++) {
        contexts[i] = NA_Context_create_id(na_class, i);
        assert_non_null(contexts[i]);
    }
    return na_class;
}

static void close_contexts(na_class_t *na_class)
{
    for (int i = 0; i < CONTEXTS; i++)
        assert_int_equal(NA_Context_destroy(na_class, contexts[i]), NA_SUCCESS);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

static void contexts_are_separate(void **state)
{
    struct event events[CONTEXTS] = {0};
    na_op_id_t *ops[CONTEXTS], *send_op;
    na_class_t *na_class = open_contexts();
    uint32_t in[CONTEXTS];
    na_addr_t *self;

    (void) state;
    assert_int_equal(NA_Addr_self(na_class, &self), NA_SUCCESS);
    send_op = NA_Op_create(na_class, NA_OP_SINGLE);
    for (uint8_t i = 0; i < CONTEXTS; i++) {
        ops[i] = NA_Op_create(na_class, NA_OP_SINGLE);
        assert_int_equal(NA_Msg_recv_unexpected(na_class, contexts[i], event_callback, &events[i],
                                                &in[i], sizeof(in[i]), NULL, ops[i]),
                         NA_SUCCESS);
    }
    for (uint8_t i = 0; i < CONTEXTS; i++) {
        struct end from = {na_class, contexts[(i + 1) % CONTEXTS]}, to = {na_class, contexts[i]};
        struct event sent = {0};
        uint32_t value = 100u + i;

        assert_int_equal(NA_Msg_send_unexpected(na_class, from.context, event_callback, &sent,
                                                &value, sizeof(value), NULL, self, i, i, send_op),
                         NA_SUCCESS);
        assert_true(event_wait(&from, &sent, TEST_WAIT_MS));
        assert_true(event_wait(&to, &events[i], TEST_WAIT_MS));
        assert_int_equal(in[i], value);
        NA_Addr_free(na_class, events[i].source);
    }
    NA_Op_destroy(na_class, send_op);
    for (int i = 0; i < CONTEXTS; i++)
        NA_Op_destroy(na_class, ops[i]);
    NA_Addr_free(na_class, self);
    close_contexts(na_class);
}

/* Sends a request to context `theirs` of a peer, which replies to context `ours`. */
static void call_across(na_class_t *na_class, na_addr_t *peer, uint8_t ours, uint8_t theirs)
{
    struct end end = {na_class, contexts[ours]};
    struct peer_request request = {.command = PEER_ECHO_TO, .a = ours, .b = theirs}, reply = {0};
    na_op_id_t *ops[2] = {NA_Op_create(na_class, NA_OP_SINGLE),
                          NA_Op_create(na_class, NA_OP_SINGLE)};
    struct event events[2] = {0};

    assert_int_equal(NA_Msg_recv_expected(na_class, end.context, event_callback, &events[0], &reply,
                                          sizeof(reply), NULL, peer, theirs, 5, ops[0]),
                     NA_SUCCESS);
    assert_int_equal(NA_Msg_send_unexpected(na_class, end.context, event_callback, &events[1],
                                            &request, sizeof(request), NULL, peer, theirs, 5,
                                            ops[1]),
                     NA_SUCCESS);
    assert_true(event_wait(&end, &events[1], TEST_WAIT_MS));
    assert_true(event_wait(&end, &events[0], TEST_WAIT_MS));
    assert_int_equal(events[0].ret, NA_SUCCESS);
    assert_int_equal(reply.a, ours);
    assert_int_equal(reply.b, theirs);
    NA_Op_destroy(na_class, ops[0]);
    NA_Op_destroy(na_class, ops[1]);
}

static void every_context_reaches_every_context_of_a_peer(void **state)
{
    na_class_t *na_class = open_contexts();
    struct child child;
    na_addr_t *peer;

    (void) state;
    child_start(&child, NULL, "contexts");
    assert_int_equal(NA_Addr_lookup(na_class, child.address, &peer), NA_SUCCESS);
    for (int round = 0; round < 5; round++)
        for (uint8_t ours = 0; ours < CONTEXTS; ours++)
            for (uint8_t theirs = 0; theirs < CONTEXTS; theirs++)
                call_across(na_class, peer, ours, theirs);
    NA_Addr_free(na_class, peer);
    close_contexts(na_class);
    child_stop(&child);
}

struct worker {
    pthread_t thread;
    struct end end;
    na_addr_t *peer;
    uint8_t id;
    unsigned int errors;
};

/* Calls context 0 of the peer, which replies to the context of this thread. */
static void *call_from_context(void *arg)
{
    struct worker *worker = arg;
    struct peer_request request = {.command = PEER_ECHO_TO, .a = worker->id}, reply;
    na_op_id_t *op = NA_Op_create(worker->end.na_class, NA_OP_SINGLE);

    for (uint32_t i = 0; i < 500 && worker->errors == 0; i++) {
        struct event event = {0};

        request.b = i;
        worker->errors += end_receive_expected(&worker->end, &event, &reply, sizeof(reply),
                                               worker->peer, i, op) != NA_SUCCESS ||
                          end_send(&worker->end, worker->peer, &request, sizeof(request), i,
                                   false) != NA_SUCCESS ||
                          !event_wait(&worker->end, &event, TEST_WAIT_MS) ||
                          event.ret != NA_SUCCESS || reply.b != i || reply.a != worker->id;
    }
    NA_Op_destroy(worker->end.na_class, op);
    return NULL;
}

static void a_thread_for_each_context(void **state)
{
    na_class_t *na_class = open_contexts();
    struct worker workers[CONTEXTS];
    struct child child;
    na_addr_t *peer;

    (void) state;
    child_start(&child, NULL, "plain");
    assert_int_equal(NA_Addr_lookup(na_class, child.address, &peer), NA_SUCCESS);
    for (uint8_t i = 0; i < CONTEXTS; i++) {
        workers[i] = (struct worker){.end = {na_class, contexts[i]}, .peer = peer, .id = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, call_from_context, &workers[i]),
                         0);
    }
    for (int i = 0; i < CONTEXTS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].errors, 0);
    }
    NA_Addr_free(na_class, peer);
    close_contexts(na_class);
    child_stop(&child);
}

/* A context is destroyed while the others are in use, and its number is used again. */
static void a_context_goes_and_comes_back(void **state)
{
    na_class_t *na_class = open_contexts();
    struct event event = {0};
    na_op_id_t *op = NA_Op_create(na_class, NA_OP_SINGLE);
    struct child child;
    na_addr_t *peer;
    uint32_t in;

    (void) state;
    child_start(&child, NULL, "contexts");
    assert_int_equal(NA_Addr_lookup(na_class, child.address, &peer), NA_SUCCESS);
    call_across(na_class, peer, 1, 1);
    assert_int_equal(NA_Msg_recv_unexpected(na_class, contexts[1], event_callback, &event, &in,
                                            sizeof(in), NULL, op),
                     NA_SUCCESS);
    assert_int_equal(NA_Context_destroy(na_class, contexts[1]), NA_SUCCESS);
    assert_int_equal(event.ret, NA_CANCELED);
    call_across(na_class, peer, 0, 1);
    call_across(na_class, peer, 2, 1);
    contexts[1] = NA_Context_create_id(na_class, 1);
    assert_non_null(contexts[1]);
    call_across(na_class, peer, 1, 2);
    NA_Op_destroy(na_class, op);
    NA_Addr_free(na_class, peer);
    close_contexts(na_class);
    child_stop(&child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_are_separate),
        cmocka_unit_test(every_context_reaches_every_context_of_a_peer),
        cmocka_unit_test(a_thread_for_each_context),
        cmocka_unit_test(a_context_goes_and_comes_back),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
