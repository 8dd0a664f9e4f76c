/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages: sizes, order, back-pressure, messages without a receive, limits, several contexts. */

#include "sm_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WINDOW 64

/* Sends in flight of a test that keeps many. */
struct window {
    na_op_id_t *ops[WINDOW];
    struct sm_event events[WINDOW];
    struct sm_request requests[WINDOW];
};

static void fill(uint8_t *buf, size_t size)
{
    for (size_t i = 0; i < size; i++)
        buf[i] = (uint8_t) (i * 31 + size);
}

static void messages_of_every_size_arrive_whole(void **state)
{
    uint8_t *request = malloc(SM_TEST_MESSAGE), *reply = malloc(SM_TEST_MESSAGE);
    struct sm_child child;
    struct sm_end end;
    na_addr_t *peer;

    (void) state;
    sm_child_start(&child, "na+sm", "plain");
    sm_end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    for (size_t size = 0; size <= SM_TEST_MESSAGE; size += size < 300 || size > 4000 ? 1 : 13) {
        size_t got = SM_TEST_MESSAGE;

        fill(request, size);
        if (size >= sizeof(uint32_t))
            memset(request, 0, sizeof(uint32_t)); /* SM_ECHO */
        memset(reply, 0xee, SM_TEST_MESSAGE);
        assert_int_equal(sm_call(&end, peer, request, size, reply, &got), NA_SUCCESS);
        assert_int_equal(got, size);
        assert_memory_equal(request, reply, size);
    }
    NA_Addr_free(end.na_class, peer);
    sm_end_close(&end);
    sm_child_stop(&child);
    free(request);
    free(reply);
    sm_check_clean();
}

static void hinted_sizes_are_honoured_up_to_16_KiB(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct sm_end end;
    struct sm_event event = {0};
    uint8_t *out, *in;
    na_op_id_t *op;
    na_addr_t *self;

    (void) state;
    info.max_unexpected_size = 1 << 20;
    sm_end_open(&end, "na+sm", &info);
    assert_int_equal(NA_Msg_get_max_unexpected_size(end.na_class), 16384);
    out = malloc(16384);
    in = malloc(16384);
    fill(out, 16384);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    for (int i = 0; i < 100; i++) {
        event.done = 0;
        assert_int_equal(NA_Msg_recv_unexpected(end.na_class, end.context, sm_event_callback,
                                                &event, in, 16384, NULL, op),
                         NA_SUCCESS);
        assert_int_equal(sm_send(&end, self, out, 16384 - (size_t) i, 9, false), NA_SUCCESS);
        assert_true(sm_event_wait(&end, &event, SM_TEST_WAIT_MS));
        assert_int_equal(event.size, 16384 - i);
        assert_memory_equal(out, in, event.size);
        NA_Addr_free(end.na_class, event.source);
    }
    NA_Op_destroy(end.na_class, op);
    NA_Addr_free(end.na_class, self);
    sm_end_close(&end);
    free(out);
    free(in);
    sm_check_clean();
}

static void half_a_million_messages_keep_their_order(void **state)
{
    struct window *window = calloc(1, sizeof(*window));
    struct sm_child child;
    struct sm_end end;
    uint64_t counts[2];
    size_t size = sizeof(counts);
    na_addr_t *peer;

    (void) state;
    sm_child_start(&child, "na+sm", "plain");
    sm_end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    for (uint32_t i = 0; i < WINDOW; i++) {
        window->ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        window->events[i].done = 1;
    }
    for (uint32_t i = 0; i < 500000; i++) {
        struct sm_event *event = &window->events[i % WINDOW];

        assert_true(sm_event_wait(&end, event, SM_TEST_WAIT_MS));
        event->done = 0;
        window->requests[i % WINDOW] = (struct sm_request){.command = SM_COUNT, .a = i};
        assert_int_equal(NA_Msg_send_unexpected(end.na_class, end.context, sm_event_callback, event,
                                                &window->requests[i % WINDOW],
                                                sizeof(struct sm_request), NULL, peer, 0, 0,
                                                window->ops[i % WINDOW]),
                         NA_SUCCESS);
    }
    for (uint32_t i = 0; i < WINDOW; i++) {
        assert_true(sm_event_wait(&end, &window->events[i], SM_TEST_WAIT_MS));
        NA_Op_destroy(end.na_class, window->ops[i]);
    }
    assert_int_equal(sm_command(&end, peer, SM_REPORT, 0, 0, 0, counts, &size), NA_SUCCESS);
    assert_int_equal(counts[0], 500000);
    assert_int_equal(counts[1], 0);
    NA_Addr_free(end.na_class, peer);
    sm_end_close(&end);
    sm_child_stop(&child);
    free(window);
    sm_check_clean();
}

/* The peer naps while its ring fills up; nothing is lost and the sends complete afterwards. */
static void a_full_ring_holds_back_the_sender(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct sm_request request = {.command = SM_COUNT};
    struct sm_child child;
    struct sm_end end;
    uint64_t counts[2];
    size_t size = sizeof(counts);
    na_op_id_t *ops[400];
    struct sm_event *events = calloc(400, sizeof(*events));
    uint32_t waiting = 0;
    na_addr_t *peer;

    (void) state;
    sm_child_start(&child, "na+sm", "plain");
    sm_end_open(&end, "na+sm", &info);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    assert_int_equal(sm_command(&end, peer, SM_NAP, 400, 0, 0, NULL, NULL), NA_SUCCESS);
    sm_end_progress(&end, 50);
    for (uint32_t i = 0; i < 400; i++) {
        ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        request.a = i;
        assert_int_equal(NA_Msg_send_expected(end.na_class, end.context, sm_event_callback,
                                              &events[i], &request, sizeof(request), NULL, peer, 0,
                                              i, ops[i]),
                         NA_SUCCESS); /* dropped there: no receive is posted */
    }
    (void) NA_Trigger(end.context, 400, NULL);
    for (uint32_t i = 0; i < 400; i++)
        waiting += events[i].done == 0;
    assert_in_range(waiting, 200, 399);
    for (uint32_t i = 0; i < 400; i++) {
        assert_true(sm_event_wait(&end, &events[i], SM_TEST_WAIT_MS));
        assert_int_equal(events[i].ret, NA_SUCCESS);
        NA_Op_destroy(end.na_class, ops[i]);
    }
    assert_int_equal(sm_command(&end, peer, SM_REPORT, 0, 0, 0, counts, &size), NA_SUCCESS);
    NA_Addr_free(end.na_class, peer);
    sm_end_close(&end);
    sm_child_stop(&child);
    free(events);
    sm_check_clean();
}

static void without_retry_a_full_ring_is_reported(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    uint8_t buf[64] = {0};
    struct sm_child child;
    struct sm_end end;
    na_return_t ret = NA_SUCCESS;
    na_addr_t *peer;
    int sent = 0;

    (void) state;
    info.progress_mode = NA_NO_RETRY;
    sm_child_start(&child, "na+sm", "plain");
    sm_end_open(&end, "na+sm", &info);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    assert_int_equal(sm_command(&end, peer, SM_NAP, 300, 0, 0, NULL, NULL), NA_SUCCESS);
    sm_end_progress(&end, 50);
    for (; sent < 1000 && ret == NA_SUCCESS; sent++)
        ret = sm_send(&end, peer, buf, sizeof(buf), 5, true);
    assert_int_equal(ret, NA_AGAIN);
    sm_end_progress(&end, 400);
    assert_int_equal(sm_send(&end, peer, buf, sizeof(buf), 5, true), NA_SUCCESS);
    NA_Addr_free(end.na_class, peer);
    sm_end_close(&end);
    sm_child_stop(&child);
    sm_check_clean();
}

static void an_endpoint_sends_to_itself(void **state)
{
    uint8_t out[500], in[500];
    struct sm_end end;
    na_addr_t *self, *source;
    na_op_id_t *op;

    (void) state;
    sm_end_open(&end, "sm", NULL);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    fill(out, sizeof(out));
    for (size_t size = 0; size <= sizeof(out); size += 7) {
        struct sm_event event = {0};

        assert_int_equal(NA_Msg_recv_unexpected(end.na_class, end.context, sm_event_callback,
                                                &event, in, sizeof(in), NULL, op),
                         NA_SUCCESS);
        assert_int_equal(sm_send(&end, self, out, size, 0xffffffffu, false), NA_SUCCESS);
        assert_true(sm_event_wait(&end, &event, SM_TEST_WAIT_MS));
        assert_int_equal(event.size, size);
        assert_int_equal(event.tag, 0xffffffffu);
        source = event.source;
        assert_true(NA_Addr_is_self(end.na_class, source));
        assert_true(NA_Addr_cmp(end.na_class, source, self));
        assert_memory_equal(in, out, size);

        event.done = 0;
        assert_int_equal(NA_Msg_recv_expected(end.na_class, end.context, sm_event_callback, &event,
                                              in, sizeof(in), NULL, source, 0, 77, op),
                         NA_SUCCESS);
        assert_int_equal(sm_send(&end, source, out, size, 77, true), NA_SUCCESS);
        assert_true(sm_event_wait(&end, &event, SM_TEST_WAIT_MS));
        assert_int_equal(event.size, size);
        NA_Addr_free(end.na_class, source);
    }
    NA_Op_destroy(end.na_class, op);
    NA_Addr_free(end.na_class, self);
    sm_end_close(&end);
    sm_check_clean();
}

/* Unexpected ones wait for a receive, and expected ones behind them get through. */
static void messages_before_their_receive_wait(void **state)
{
    uint8_t in[64];
    struct sm_end end;
    struct sm_event event = {0};
    na_addr_t *self;
    na_op_id_t *op;

    (void) state;
    sm_end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(sm_send(&end, self, &i, sizeof(i), i, false), NA_SUCCESS);
    assert_int_equal(NA_Msg_recv_expected(end.na_class, end.context, sm_event_callback, &event, in,
                                          sizeof(in), NULL, self, 0, 5, op),
                     NA_SUCCESS);
    assert_int_equal(sm_send(&end, self, "reply", 6, 5, true), NA_SUCCESS);
    assert_true(sm_event_wait(&end, &event, SM_TEST_WAIT_MS));
    assert_string_equal((char *) in, "reply");
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t value;

        event.done = 0;
        assert_int_equal(NA_Msg_recv_unexpected(end.na_class, end.context, sm_event_callback,
                                                &event, in, sizeof(in), NULL, op),
                         NA_SUCCESS);
        assert_true(sm_event_wait(&end, &event, SM_TEST_WAIT_MS));
        memcpy(&value, in, sizeof(value));
        assert_int_equal(value, i);
        assert_int_equal(event.tag, i);
        NA_Addr_free(end.na_class, event.source);
    }
    NA_Op_destroy(end.na_class, op);
    NA_Addr_free(end.na_class, self);
    sm_end_close(&end);
    sm_check_clean();
}

/*
 * Beyond the bound of kept messages the ring fills up; everything arrives once receives are
 * posted.
 */
static void a_flood_without_receives_is_bounded_and_complete(void **state)
{
    struct sm_child child;
    struct sm_end end;
    na_addr_t *peer;
    na_op_id_t *op;
    uint8_t in[256];

    (void) state;
    sm_child_start(&child, "na+sm", "plain");
    sm_end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    assert_int_equal(sm_command(&end, peer, SM_FLOOD, 10000, 200, 0, NULL, NULL), NA_SUCCESS);
    sm_end_progress(&end, 200);
    for (uint32_t i = 0; i < 10000; i++) {
        struct sm_event event = {0};

        assert_int_equal(NA_Msg_recv_unexpected(end.na_class, end.context, sm_event_callback,
                                                &event, in, sizeof(in), NULL, op),
                         NA_SUCCESS);
        assert_true(sm_event_wait(&end, &event, SM_TEST_WAIT_MS));
        assert_int_equal(event.ret, NA_SUCCESS);
        assert_int_equal(event.tag, i);
        assert_int_equal(event.size, 200);
        assert_int_equal(in[0], i & 0xff);
        NA_Addr_free(end.na_class, event.source);
    }
    NA_Op_destroy(end.na_class, op);
    NA_Addr_free(end.na_class, peer);
    sm_end_close(&end);
    sm_child_stop(&child);
    sm_check_clean();
}

static void receives_with_one_tag_are_filled_in_order(void **state)
{
    struct sm_event events[8] = {0};
    uint32_t in[8];
    na_op_id_t *ops[8];
    struct sm_end end;
    na_addr_t *self;

    (void) state;
    sm_end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    for (uint32_t i = 0; i < 8; i++) {
        ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        assert_int_equal(NA_Msg_recv_expected(end.na_class, end.context, sm_event_callback,
                                              &events[i], &in[i], sizeof(in[i]), NULL, self, 0, 3,
                                              ops[i]),
                         NA_SUCCESS);
    }
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(sm_send(&end, self, &i, sizeof(i), 3, true), NA_SUCCESS);
    for (uint32_t i = 0; i < 8; i++) {
        assert_true(sm_event_wait(&end, &events[i], SM_TEST_WAIT_MS));
        assert_int_equal(in[i], i);
        NA_Op_destroy(end.na_class, ops[i]);
    }
    NA_Addr_free(end.na_class, self);
    sm_end_close(&end);
    sm_check_clean();
}

static void a_message_too_large_for_its_receive_is_an_error(void **state)
{
    uint8_t out[300] = {0}, in[200];
    struct sm_end end;
    na_addr_t *self;
    na_op_id_t *op;

    (void) state;
    sm_end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    for (int early = 0; early < 2; early++) {
        struct sm_event event = {0};

        if (early) {
            assert_int_equal(sm_send(&end, self, out, sizeof(out), 1, false), NA_SUCCESS);
            sm_end_progress(&end, 20);
        }
        assert_int_equal(NA_Msg_recv_unexpected(end.na_class, end.context, sm_event_callback,
                                                &event, in, sizeof(in), NULL, op),
                         NA_SUCCESS);
        if (!early)
            assert_int_equal(sm_send(&end, self, out, sizeof(out), 1, false), NA_SUCCESS);
        assert_true(sm_event_wait(&end, &event, SM_TEST_WAIT_MS));
        assert_int_equal(event.ret, NA_MSGSIZE);
    }
    assert_int_equal(sm_send(&end, self, out, SM_TEST_MESSAGE + 1, 1, false), NA_MSGSIZE);
    NA_Op_destroy(end.na_class, op);
    NA_Addr_free(end.na_class, self);
    sm_end_close(&end);
    sm_check_clean();
}

struct multi {
    unsigned int messages;
    unsigned int lasts;
    bool in_order;
    na_return_t ret;
    na_class_t *na_class;
};

static void multi_callback(const struct na_cb_info *info)
{
    struct multi *multi = info->arg;

    multi->ret = info->ret;
    if (info->ret != NA_SUCCESS) {
        multi->lasts++;
        return;
    }
    multi->in_order =
        multi->in_order && info->info.multi_recv_unexpected.tag == multi->messages &&
        info->info.multi_recv_unexpected.actual_buf_size == 100 &&
        *(const uint8_t *) info->info.multi_recv_unexpected.actual_buf == (multi->messages & 0xff);
    multi->messages++;
    multi->lasts += info->info.multi_recv_unexpected.last;
    NA_Addr_free(multi->na_class, info->info.multi_recv_unexpected.source);
}

static void a_multi_receive_takes_messages_until_it_is_full(void **state)
{
    struct multi multi = {.in_order = true};
    size_t size = 3 * SM_TEST_MESSAGE;
    uint8_t *buf = malloc(size), out[100];
    struct sm_end end;
    na_addr_t *self;
    na_op_id_t *op;

    (void) state;
    sm_end_open(&end, "na+sm", NULL);
    assert_true(NA_Has_opt_feature(end.na_class, NA_OPT_MULTI_RECV));
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    op = NA_Op_create(end.na_class, NA_OP_MULTI);
    multi.na_class = end.na_class;
    for (uint32_t i = 0; i < 300; i++) {
        if (i % 79 == 0 && multi.lasts == i / 79)
            assert_int_equal(NA_Msg_multi_recv_unexpected(end.na_class, end.context, multi_callback,
                                                          &multi, buf, size, NULL, op),
                             NA_SUCCESS);
        memset(out, (int) (i & 0xff), sizeof(out));
        assert_int_equal(sm_send(&end, self, out, sizeof(out), i, false), NA_SUCCESS);
        sm_end_progress(&end, 0);
        for (int j = 0; j < 100 && multi.messages <= i; j++)
            sm_end_progress(&end, 1);
        if (multi.lasts > 0 && i % 79 == 78)
            assert_int_equal(multi.lasts, (i + 1) / 79);
    }
    assert_true(multi.in_order);
    assert_int_equal(multi.messages, 300);
    assert_int_equal(NA_Cancel(end.na_class, end.context, op), NA_SUCCESS);
    sm_end_progress(&end, 20);
    assert_int_equal(multi.ret, NA_CANCELED);
    NA_Op_destroy(end.na_class, op);
    NA_Addr_free(end.na_class, self);
    sm_end_close(&end);
    free(buf);
    sm_check_clean();
}

static void many_senders_are_told_apart(void **state)
{
    struct sm_child children[8];
    na_addr_t *peers[8];
    uint32_t next[8] = {0};
    struct sm_end end;
    na_op_id_t *op;
    uint8_t in[64];

    (void) state;
    sm_end_open(&end, "na+sm", NULL);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    for (int i = 0; i < 8; i++) {
        sm_child_start(&children[i], "na+sm", "plain");
        assert_int_equal(NA_Addr_lookup(end.na_class, children[i].address, &peers[i]), NA_SUCCESS);
    }
    for (int i = 0; i < 8; i++)
        assert_int_equal(sm_command(&end, peers[i], SM_FLOOD, 1000, 60, 0, NULL, NULL), NA_SUCCESS);
    for (uint32_t i = 0; i < 8000; i++) {
        struct sm_event event = {0};
        int from = 0;

        assert_int_equal(NA_Msg_recv_unexpected(end.na_class, end.context, sm_event_callback,
                                                &event, in, sizeof(in), NULL, op),
                         NA_SUCCESS);
        assert_true(sm_event_wait(&end, &event, SM_TEST_WAIT_MS));
        while (from < 8 && !NA_Addr_cmp(end.na_class, peers[from], event.source))
            from++;
        assert_in_range(from, 0, 7);
        assert_int_equal(event.tag, next[from]++);
        NA_Addr_free(end.na_class, event.source);
    }
    NA_Op_destroy(end.na_class, op);
    for (int i = 0; i < 8; i++)
        NA_Addr_free(end.na_class, peers[i]);
    sm_end_close(&end);
    for (int i = 0; i < 8; i++)
        sm_child_stop(&children[i]);
    sm_check_clean();
}

static void contexts_are_separate(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct sm_event events[3] = {0};
    na_context_t *contexts[3];
    na_op_id_t *ops[3], *send_op;
    na_class_t *na_class;
    uint32_t in[3];
    na_addr_t *self;

    (void) state;
    info.max_contexts = 3;
    na_class = NA_Initialize_opt2("na+sm", true, NA_VERSION(6, 0), &info);
    assert_non_null(na_class);
    assert_int_equal(NA_Addr_self(na_class, &self), NA_SUCCESS);
    send_op = NA_Op_create(na_class, NA_OP_SINGLE);
    for (uint8_t i = 0; i < 3; i++) {
        contexts[i] = NA_Context_create_id(na_class, i);
        assert_non_null(contexts[i]);
        ops[i] = NA_Op_create(na_class, NA_OP_SINGLE);
        assert_int_equal(NA_Msg_recv_unexpected(na_class, contexts[i], sm_event_callback,
                                                &events[i], &in[i], sizeof(in[i]), NULL, ops[i]),
                         NA_SUCCESS);
    }
    for (uint8_t i = 0; i < 3; i++) {
        struct sm_end from = {na_class, contexts[(i + 1) % 3]}, to = {na_class, contexts[i]};
        struct sm_event sent = {0};
        uint32_t value = 100u + i;

        assert_int_equal(NA_Msg_send_unexpected(na_class, from.context, sm_event_callback, &sent,
                                                &value, sizeof(value), NULL, self, i, i, send_op),
                         NA_SUCCESS);
        assert_true(sm_event_wait(&from, &sent, SM_TEST_WAIT_MS));
        assert_true(sm_event_wait(&to, &events[i], SM_TEST_WAIT_MS));
        assert_int_equal(in[i], value);
        NA_Addr_free(na_class, events[i].source);
    }
    NA_Op_destroy(na_class, send_op);
    for (int i = 0; i < 3; i++) {
        NA_Op_destroy(na_class, ops[i]);
        assert_int_equal(NA_Context_destroy(na_class, contexts[i]), NA_SUCCESS);
    }
    NA_Addr_free(na_class, self);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    sm_check_clean();
}

static void a_message_sent_right_before_closing_arrives(void **state)
{
    struct sm_end server, client;
    struct sm_event event = {0};
    na_addr_t *self, *to;
    na_op_id_t *op;
    char name[128], in[16];
    size_t size = sizeof(name);

    (void) state;
    sm_end_open(&server, "na+sm", NULL);
    sm_end_open(&client, "na+sm", NULL);
    assert_int_equal(NA_Addr_self(server.na_class, &self), NA_SUCCESS);
    assert_int_equal(NA_Addr_to_string(server.na_class, name, &size, self), NA_SUCCESS);
    op = NA_Op_create(server.na_class, NA_OP_SINGLE);
    assert_int_equal(NA_Msg_recv_unexpected(server.na_class, server.context, sm_event_callback,
                                            &event, in, sizeof(in), NULL, op),
                     NA_SUCCESS);
    assert_int_equal(NA_Addr_lookup(client.na_class, name, &to), NA_SUCCESS);
    assert_int_equal(sm_send(&client, to, "first", 6, 1, false), NA_SUCCESS);
    assert_true(sm_event_wait(&server, &event, SM_TEST_WAIT_MS)); /* has mapped the ring */
    NA_Addr_free(server.na_class, event.source);
    event.done = 0;
    assert_int_equal(sm_send(&client, to, "last", 5, 2, false), NA_SUCCESS);
    NA_Addr_free(client.na_class, to);
    sm_end_close(&client);
    assert_int_equal(NA_Msg_recv_unexpected(server.na_class, server.context, sm_event_callback,
                                            &event, in, sizeof(in), NULL, op),
                     NA_SUCCESS);
    assert_true(sm_event_wait(&server, &event, SM_TEST_WAIT_MS));
    assert_string_equal(in, "last");
    NA_Addr_free(server.na_class, event.source);
    NA_Op_destroy(server.na_class, op);
    NA_Addr_free(server.na_class, self);
    sm_end_close(&server);
    sm_check_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_every_size_arrive_whole),
        cmocka_unit_test(hinted_sizes_are_honoured_up_to_16_KiB),
        cmocka_unit_test(half_a_million_messages_keep_their_order),
        cmocka_unit_test(a_full_ring_holds_back_the_sender),
        cmocka_unit_test(without_retry_a_full_ring_is_reported),
        cmocka_unit_test(an_endpoint_sends_to_itself),
        cmocka_unit_test(messages_before_their_receive_wait),
        cmocka_unit_test(a_flood_without_receives_is_bounded_and_complete),
        cmocka_unit_test(receives_with_one_tag_are_filled_in_order),
        cmocka_unit_test(a_message_too_large_for_its_receive_is_an_error),
        cmocka_unit_test(a_multi_receive_takes_messages_until_it_is_full),
        cmocka_unit_test(many_senders_are_told_apart),
        cmocka_unit_test(contexts_are_separate),
        cmocka_unit_test(a_message_sent_right_before_closing_arrives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
