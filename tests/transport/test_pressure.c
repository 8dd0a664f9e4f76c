/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages without a receive: which are kept, which are dropped, and how the sender is held
 * back. */

#include "transport_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Unexpected messages wait for a receive, and expected messages sent after them are not blocked. */
static void messages_before_their_receive_wait(void **state)
{
    uint8_t in[64];
    struct end end;
    struct event event = {0};
    na_addr_t *self;
    na_op_id_t *op;

    (void) state;
    end_open(&end, NULL, NULL);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(end_send(&end, self, &i, sizeof(i), i, false), NA_SUCCESS);
    assert_int_equal(end_receive_expected(&end, &event, in, sizeof(in), self, 5, op), NA_SUCCESS);
    assert_int_equal(end_send(&end, self, "reply", 6, 5, true), NA_SUCCESS);
    assert_true(event_wait(&end, &event, TEST_WAIT_MS));
    assert_string_equal((char *) in, "reply");
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t value;

        event.done = 0;
        assert_int_equal(end_receive_unexpected(&end, &event, in, sizeof(in), op), NA_SUCCESS);
        assert_true(event_wait(&end, &event, TEST_WAIT_MS));
        memcpy(&value, in, sizeof(value));
        assert_int_equal(value, i);
        assert_int_equal(event.tag, i);
        NA_Addr_free(end.na_class, event.source);
    }
    NA_Op_destroy(end.na_class, op);
    NA_Addr_free(end.na_class, self);
    end_close(&end);
}

/* Floods the endpoint with unexpected messages while it has no receive posted. A call is answered
 * nevertheless. */
static void flood(uint32_t messages, size_t size)
{
    uint8_t *in = malloc(size);
    struct child child, other;
    struct end end;
    na_addr_t *peer, *second;
    na_op_id_t *op;

    pair_open(&child, &end, &peer, "plain");
    child_start(&other, NULL, "plain");
    assert_int_equal(NA_Addr_lookup(end.na_class, other.address, &second), NA_SUCCESS);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    assert_int_equal(end_command(&end, peer, PEER_FLOOD, messages, size, 0, NULL, NULL),
                     NA_SUCCESS);
    end_progress(&end, 200);
    if (messages <= 1000)
        end_check_peer(&end, second);
    for (uint32_t i = 0; i < messages; i++) {
        struct event event = {0};

        assert_int_equal(end_receive_unexpected(&end, &event, in, size, op), NA_SUCCESS);
        assert_true(event_wait(&end, &event, TEST_WAIT_MS));
        assert_int_equal(event.ret, NA_SUCCESS);
        assert_int_equal(event.tag, i);
        assert_int_equal(event.size, size);
        assert_int_equal(in[0], i & 0xff);
        assert_int_equal(in[size - 1], i & 0xff);
        NA_Addr_free(end.na_class, event.source);
    }
    end_check_peer(&end, peer);
    end_check_peer(&end, second);
    NA_Op_destroy(end.na_class, op);
    NA_Addr_free(end.na_class, second);
    pair_close(&child, &end, peer);
    child_stop(&other);
    free(in);
}

/* More messages than any queue holds: the sender is held back, and every message arrives in the
 * end. */
static void a_flood_without_receives_is_bounded_and_complete(void **state)
{
    struct end end;
    size_t max;

    (void) state;
    end_open(&end, NULL, NULL);
    max = NA_Msg_get_max_expected_size(end.na_class);
    end_close(&end);
    flood(1000, 100);
    flood(10000, 200);
    flood(TEST_SANITIZED ? 1000 : 6000, max < 4000 ? max : 4000);
}

static void an_expected_message_without_a_receive_is_dropped(void **state)
{
    struct peer_request request = {.command = PEER_ECHO, .a = 1}, reply;
    struct event event = {0};
    struct child child;
    struct end end;
    na_addr_t *peer;
    na_op_id_t *op;

    (void) state;
    pair_open(&child, &end, &peer, "plain");
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    for (uint32_t i = 0; i < 500; i++)
        assert_int_equal(end_send(&end, peer, &request, sizeof(request), i % 5, false), NA_SUCCESS);
    end_check_peer(&end, peer); /* the reply arrives after all of them */
    request.a = 2;
    for (uint32_t i = 0; i < 5; i++) {
        event.done = 0;
        assert_int_equal(end_receive_expected(&end, &event, &reply, sizeof(reply), peer, i, op),
                         NA_SUCCESS);
        assert_int_equal(end_send(&end, peer, &request, sizeof(request), i, false), NA_SUCCESS);
        assert_true(event_wait(&end, &event, TEST_WAIT_MS));
        assert_int_equal(event.ret, NA_SUCCESS);
        assert_int_equal(reply.a, 2);
    }
    NA_Op_destroy(end.na_class, op);
    pair_close(&child, &end, peer);
}

/* When the caller is told of back-pressure, it sends again; nothing is lost or received twice. */
static void without_retry_back_pressure_is_reported(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct peer_request *request;
    unsigned int refused = 0;
    struct child child;
    struct end end;
    na_addr_t *peer;
    na_return_t ret;
    size_t size;

    (void) state;
    info.progress_mode = NA_NO_RETRY;
    child_start(&child, NULL, "plain");
    end_open(&end, NULL, &info);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    end_check_peer(&end, peer);
    size = NA_Msg_get_max_unexpected_size(end.na_class);
    request = calloc(1, size);
    while ((ret = end_command(&end, peer, PEER_NAP, 200, 0, 0, NULL, NULL)) == NA_AGAIN)
        end_progress(&end, 1);
    assert_int_equal(ret, NA_SUCCESS);
    for (uint32_t i = 0; i < 1000; i++) {
        uint64_t until = now_ms() + TEST_WAIT_MS;

        *request = (struct peer_request){.command = PEER_COUNT, .a = i};
        while ((ret = end_send(&end, peer, request, size, 5, false)) == NA_AGAIN &&
               now_ms() < until) {
            refused++;
            end_progress(&end, 1);
        }
        assert_int_equal(ret, NA_SUCCESS);
    }
    print_message("refused %u times\n", refused);
    assert_int_equal(end_peer_count(&end, peer), 1000);
    pair_close(&child, &end, peer);
    free(request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_before_their_receive_wait),
        cmocka_unit_test(a_flood_without_receives_is_bounded_and_complete),
        cmocka_unit_test(an_expected_message_without_a_receive_is_dropped),
        cmocka_unit_test(without_retry_back_pressure_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
