/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages at the limits of the rings. */

#include "layout.h"
#include "sm_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void fill(uint8_t *buf, size_t size)
{
    for (size_t i = 0; i < size; i++)
        buf[i] = (uint8_t) (i * 31 + size);
}

static void hinted_sizes_are_honoured_up_to_256_KiB(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct end end;
    struct event event = {0};
    uint8_t *out, *in;
    na_op_id_t *op;
    na_addr_t *self;

    (void) state;
    info.max_unexpected_size = 1 << 20;
    end_open(&end, "na+sm", &info);
    assert_int_equal(NA_Msg_get_max_unexpected_size(end.na_class), SM_MESSAGE_MAX);
    out = malloc(SM_MESSAGE_MAX);
    in = malloc(SM_MESSAGE_MAX);
    fill(out, SM_MESSAGE_MAX);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    for (uint32_t i = 0; i < 100; i++) {
        event.done = 0;
        assert_int_equal(NA_Msg_recv_unexpected(end.na_class, end.context, event_callback, &event,
                                                in, SM_MESSAGE_MAX, NULL, op),
                         NA_SUCCESS);
        assert_int_equal(end_send(&end, self, out, SM_MESSAGE_MAX - i, 9, false), NA_SUCCESS);
        assert_true(event_wait(&end, &event, TEST_WAIT_MS));
        assert_int_equal(event.size, SM_MESSAGE_MAX - i);
        assert_memory_equal(out, in, event.size);
        NA_Addr_free(end.na_class, event.source);
    }
    NA_Op_destroy(end.na_class, op);
    NA_Addr_free(end.na_class, self);
    end_close(&end);
    free(out);
    free(in);
    check_clean();
}

/* The peer sleeps while its ring fills up; nothing is lost, and the sends complete afterwards. */
static void a_full_ring_holds_back_the_sender(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct peer_request request = {.command = PEER_COUNT};
    struct child child;
    struct end end;
    uint64_t counts[2];
    size_t size = sizeof(counts);
    na_op_id_t *ops[400];
    struct event *events = calloc(400, sizeof(*events));
    uint32_t waiting = 0;
    na_addr_t *peer;

    (void) state;
    child_start(&child, "na+sm", "plain");
    end_open(&end, "na+sm", &info);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    assert_int_equal(end_command(&end, peer, PEER_NAP, 400, 0, 0, NULL, NULL), NA_SUCCESS);
    end_progress(&end, 50);
    for (uint32_t i = 0; i < 400; i++) {
        ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        request.a = i;
        assert_int_equal(NA_Msg_send_expected(end.na_class, end.context, event_callback, &events[i],
                                              &request, sizeof(request), NULL, peer, 0, i, ops[i]),
                         NA_SUCCESS); /* dropped by the peer, which has no receive posted */
    }
    (void) NA_Trigger(end.context, 400, NULL);
    for (uint32_t i = 0; i < 400; i++)
        waiting += events[i].done == 0;
    assert_in_range(waiting, 200, 399);
    for (uint32_t i = 0; i < 400; i++) {
        assert_true(event_wait(&end, &events[i], TEST_WAIT_MS));
        assert_int_equal(events[i].ret, NA_SUCCESS);
        NA_Op_destroy(end.na_class, ops[i]);
    }
    assert_int_equal(end_command(&end, peer, PEER_REPORT, 0, 0, 0, counts, &size), NA_SUCCESS);
    NA_Addr_free(end.na_class, peer);
    end_close(&end);
    child_stop(&child);
    free(events);
    check_clean();
}

/* A message in parts is abandoned, or its sender closes: nothing of it is delivered. */
static void half_a_message_is_nobodys(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    uint8_t *out = malloc(SM_MESSAGE_MAX), *in = calloc(1, SM_MESSAGE_MAX);
    struct event sent = {0}, received = {0};
    na_op_id_t *send, *receive;
    struct end from, to;
    na_addr_t *addr;

    (void) state;
    info.max_unexpected_size = SM_MESSAGE_MAX;
    end_open(&to, "na+sm", &info);
    receive = NA_Op_create(to.na_class, NA_OP_SINGLE);
    assert_int_equal(NA_Msg_recv_unexpected(to.na_class, to.context, event_callback, &received, in,
                                            SM_MESSAGE_MAX, NULL, receive),
                     NA_SUCCESS);
    for (int i = 0; i < 6; i++) {
        end_open(&from, "na+sm", &info);
        addr = end_lookup(&from, &to);
        fill(out, SM_MESSAGE_MAX);
        sent.done = 0;
        send = NA_Op_create(from.na_class, NA_OP_SINGLE);
        assert_int_equal(NA_Msg_send_unexpected(from.na_class, from.context, event_callback, &sent,
                                                out, SM_MESSAGE_MAX, NULL, addr, 0, 1, send),
                         NA_SUCCESS);
        end_progress(&from, 5);
        end_progress(&to, 5); /* takes the parts that have arrived */
        assert_int_equal(sent.done, 0);
        assert_int_equal(NA_Cancel(from.na_class, from.context, send), NA_SUCCESS);
        assert_true(event_wait(&from, &sent, TEST_WAIT_MS));
        assert_int_equal(sent.ret, NA_CANCELED);
        memset(out, 0, SM_MESSAGE_MAX);
        end_progress(&to, 5);
        assert_int_equal(received.done, 0);
        if (i == 5) { /* the next message is complete */
            fill(out, 20000);
            assert_int_equal(end_send(&from, addr, out, 20000, 2, false), NA_SUCCESS);
            assert_true(event_wait(&to, &received, TEST_WAIT_MS));
            assert_int_equal(received.size, 20000);
            assert_memory_equal(in, out, 20000);
            NA_Addr_free(to.na_class, received.source);
        }
        NA_Op_destroy(from.na_class, send);
        NA_Addr_free(from.na_class, addr);
        end_close(&from);
    }
    NA_Op_destroy(to.na_class, receive);
    end_close(&to);
    free(out);
    free(in);
    check_clean();
}

static void without_retry_a_full_ring_is_reported(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    uint8_t buf[64] = {0};
    struct child child;
    struct end end;
    na_return_t ret = NA_SUCCESS;
    na_addr_t *peer;
    int sent = 0;

    (void) state;
    info.progress_mode = NA_NO_RETRY;
    child_start(&child, "na+sm", "plain");
    end_open(&end, "na+sm", &info);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    assert_int_equal(end_command(&end, peer, PEER_NAP, 300, 0, 0, NULL, NULL), NA_SUCCESS);
    end_progress(&end, 50);
    for (; sent < 1000 && ret == NA_SUCCESS; sent++)
        ret = end_send(&end, peer, buf, sizeof(buf), 5, true);
    assert_int_equal(ret, NA_AGAIN);
    end_progress(&end, 400);
    assert_int_equal(end_send(&end, peer, buf, sizeof(buf), 5, true), NA_SUCCESS);
    NA_Addr_free(end.na_class, peer);
    end_close(&end);
    child_stop(&child);
    check_clean();
}

/* Without receives only a bounded number of messages is kept, and the sender is told to try
 * again. */
static void messages_without_receives_are_bounded(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct end from, to;
    uint32_t accepted = 0, refused = 0, value;
    na_addr_t *addr;
    na_op_id_t *op;

    (void) state;
    info.progress_mode = NA_NO_RETRY;
    end_open(&from, "na+sm", &info);
    end_open(&to, "na+sm", NULL);
    addr = end_lookup(&from, &to);
    while (accepted < 50000 && refused < 100) {
        const na_return_t ret = end_send(&from, addr, &accepted, sizeof(accepted), 1, false);

        assert_true(ret == NA_SUCCESS || ret == NA_AGAIN);
        refused = ret == NA_AGAIN ? refused + 1 : 0;
        accepted += ret == NA_SUCCESS;
        end_progress(&to, 0);
    }
    assert_int_equal(refused, 100);
    assert_in_range(accepted, 1000, 10000);
    op = NA_Op_create(to.na_class, NA_OP_SINGLE);
    for (uint32_t i = 0; i < accepted; i++) {
        struct event event = {0};

        assert_int_equal(end_receive_unexpected(&to, &event, &value, sizeof(value), op),
                         NA_SUCCESS);
        assert_true(event_wait(&to, &event, TEST_WAIT_MS));
        assert_int_equal(event.ret, NA_SUCCESS);
        assert_int_equal(value, i);
        NA_Addr_free(to.na_class, event.source);
    }
    assert_int_equal(end_send(&from, addr, &value, sizeof(value), 1, false), NA_SUCCESS);
    NA_Op_destroy(to.na_class, op);
    NA_Addr_free(from.na_class, addr);
    end_close(&from);
    end_close(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hinted_sizes_are_honoured_up_to_256_KiB),
        cmocka_unit_test(a_full_ring_holds_back_the_sender),
        cmocka_unit_test(half_a_message_is_nobodys),
        cmocka_unit_test(without_retry_a_full_ring_is_reported),
        cmocka_unit_test(messages_without_receives_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
