/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages: sizes, order, limits, several peers. */

#include "transport_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WINDOW 64
#define PAIRS  200

static void fill(uint8_t *buf, size_t size)
{
    for (size_t i = 0; i < size; i++)
        buf[i] = (uint8_t) (i * 31 + size);
}

/* Steps through all small sizes, all sizes close to the limit, and some between. */
static size_t next_size(size_t size, size_t max)
{
    size_t step = max > 8192 ? max / 300 : 13;

    if (size < 300 || size + step + 100 > max)
        return size + 1;
    return size + step;
}

static void messages_of_every_size_arrive_whole(void **state)
{
    uint8_t *request, *reply;
    struct child child;
    struct end end;
    size_t max;
    na_addr_t *peer;

    (void) state;
    pair_open(&child, &end, &peer, "plain");
    max = NA_Msg_get_max_unexpected_size(end.na_class);
    if (max > NA_Msg_get_max_expected_size(end.na_class))
        max = NA_Msg_get_max_expected_size(end.na_class);
    request = malloc(max);
    reply = malloc(max);
    for (size_t size = 0; size <= max; size = next_size(size, max)) {
        size_t got = max;

        fill(request, size);
        if (size >= sizeof(uint32_t))
            memset(request, 0, sizeof(uint32_t)); /* the field of the command: PEER_ECHO */
        memset(reply, 0xee, max);
        assert_int_equal(end_call(&end, peer, request, size, reply, &got), NA_SUCCESS);
        assert_int_equal(got, size);
        assert_memory_equal(request, reply, size);
        assert_true(size == max || reply[size] == 0xee);
    }
    assert_int_equal(end_send(&end, peer, request, max + 1, 1, false), NA_MSGSIZE);
    pair_close(&child, &end, peer);
    free(request);
    free(reply);
}

static void an_endpoint_sends_to_itself(void **state)
{
    uint8_t *out, *in;
    struct end end;
    na_addr_t *self, *source;
    na_op_id_t *op;
    size_t max;
    na_tag_t tag;

    (void) state;
    end_open(&end, NULL, NULL);
    max = NA_Msg_get_max_expected_size(end.na_class);
    if (max > NA_Msg_get_max_unexpected_size(end.na_class))
        max = NA_Msg_get_max_unexpected_size(end.na_class);
    tag = NA_Msg_get_max_tag(end.na_class);
    out = malloc(max);
    in = malloc(max);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    fill(out, max);
    for (size_t size = 0; size <= max; size += size < 100 ? 7 : max / 50 + 1) {
        struct event event = {0};

        assert_int_equal(end_receive_unexpected(&end, &event, in, max, op), NA_SUCCESS);
        assert_int_equal(end_send(&end, self, out, size, tag, false), NA_SUCCESS);
        assert_true(event_wait(&end, &event, TEST_WAIT_MS));
        assert_int_equal(event.size, size);
        assert_int_equal(event.tag, tag);
        source = event.source;
        assert_true(NA_Addr_is_self(end.na_class, source));
        assert_true(NA_Addr_cmp(end.na_class, source, self));
        assert_memory_equal(in, out, size);

        event.done = 0;
        assert_int_equal(end_receive_expected(&end, &event, in, max, source, tag, op), NA_SUCCESS);
        assert_int_equal(end_send(&end, source, out, size, tag, true), NA_SUCCESS);
        assert_true(event_wait(&end, &event, TEST_WAIT_MS));
        assert_int_equal(event.size, size);
        NA_Addr_free(end.na_class, source);
    }
    NA_Op_destroy(end.na_class, op);
    NA_Addr_free(end.na_class, self);
    end_close(&end);
    free(out);
    free(in);
}

/* The sends in flight of a test that keeps many. */
struct window {
    na_op_id_t *ops[WINDOW];
    struct event events[WINDOW];
    struct peer_request requests[WINDOW];
};

static void a_hundred_thousand_messages_keep_their_order(void **state)
{
    const uint32_t messages = TEST_SANITIZED ? 20000 : 100000;
    struct window *window = calloc(1, sizeof(*window));
    struct child child;
    struct end end;
    na_addr_t *peer;

    (void) state;
    pair_open(&child, &end, &peer, "plain");
    for (uint32_t i = 0; i < WINDOW; i++) {
        window->ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        window->events[i].done = 1;
    }
    for (uint32_t i = 0; i < messages; i++) {
        struct event *event = &window->events[i % WINDOW];

        assert_true(event_wait(&end, event, TEST_WAIT_MS));
        assert_int_equal(event->ret, NA_SUCCESS);
        event->done = 0;
        window->requests[i % WINDOW] = (struct peer_request){.command = PEER_COUNT, .a = i};
        assert_int_equal(NA_Msg_send_unexpected(end.na_class, end.context, event_callback, event,
                                                &window->requests[i % WINDOW],
                                                sizeof(struct peer_request), NULL, peer, 0, 0,
                                                window->ops[i % WINDOW]),
                         NA_SUCCESS);
    }
    for (uint32_t i = 0; i < WINDOW; i++) {
        assert_true(event_wait(&end, &window->events[i], TEST_WAIT_MS));
        assert_int_equal(window->events[i].ret, NA_SUCCESS);
        NA_Op_destroy(end.na_class, window->ops[i]);
    }
    assert_int_equal(end_peer_count(&end, peer), messages);
    pair_close(&child, &end, peer);
    free(window);
}

/* An event and its number in the order of the callbacks. */
struct numbered {
    struct event event;
    unsigned int number;
};

static unsigned int numbered_next;

static void numbered_callback(const struct na_cb_info *info)
{
    struct numbered *numbered = info->arg;
    struct na_cb_info inner = *info;

    numbered->number = numbered_next++;
    inner.arg = &numbered->event;
    event_callback(&inner);
}

/* The peer sends unexpected and expected messages in turn, and they arrive in that order. */
static void unexpected_and_expected_messages_keep_one_order(void **state)
{
    static uint8_t bufs[2 * PAIRS][64];
    struct numbered *received = calloc(2 * PAIRS, sizeof(*received));
    na_op_id_t *ops[2 * PAIRS];
    struct child child;
    struct end end;
    na_addr_t *peer;

    (void) state;
    numbered_next = 0;
    pair_open(&child, &end, &peer, "plain");
    for (uint32_t i = 0; i < 2 * PAIRS; i++) {
        ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        if (i % 2 == 0)
            assert_int_equal(NA_Msg_recv_unexpected(end.na_class, end.context, numbered_callback,
                                                    &received[i], bufs[i], sizeof(bufs[i]), NULL,
                                                    ops[i]),
                             NA_SUCCESS);
        else
            assert_int_equal(NA_Msg_recv_expected(end.na_class, end.context, numbered_callback,
                                                  &received[i], bufs[i], sizeof(bufs[i]), NULL,
                                                  peer, 0, i / 2, ops[i]),
                             NA_SUCCESS);
    }
    assert_int_equal(end_command(&end, peer, PEER_MIX, PAIRS, 50, 0, NULL, NULL), NA_SUCCESS);
    for (uint32_t i = 0; i < 2 * PAIRS; i++) {
        assert_true(event_wait(&end, &received[i].event, TEST_WAIT_MS));
        assert_int_equal(received[i].event.ret, NA_SUCCESS);
        assert_int_equal(received[i].event.size, 50);
        assert_int_equal(received[i].number, i);
        assert_int_equal(bufs[i][0], (i / 2) & 0xff);
        if (i % 2 == 0) {
            assert_int_equal(received[i].event.tag, i / 2);
            NA_Addr_free(end.na_class, received[i].event.source);
        }
        NA_Op_destroy(end.na_class, ops[i]);
    }
    pair_close(&child, &end, peer);
    free(received);
}

static void receives_with_one_tag_are_filled_in_order(void **state)
{
    struct event events[8] = {0};
    uint32_t in[8];
    na_op_id_t *ops[8];
    struct end end;
    na_addr_t *self;

    (void) state;
    end_open(&end, NULL, NULL);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    for (uint32_t i = 0; i < 8; i++) {
        ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        assert_int_equal(
            end_receive_expected(&end, &events[i], &in[i], sizeof(in[i]), self, 3, ops[i]),
            NA_SUCCESS);
    }
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(end_send(&end, self, &i, sizeof(i), 3, true), NA_SUCCESS);
    for (uint32_t i = 0; i < 8; i++) {
        assert_true(event_wait(&end, &events[i], TEST_WAIT_MS));
        assert_int_equal(in[i], i);
        NA_Op_destroy(end.na_class, ops[i]);
    }
    NA_Addr_free(end.na_class, self);
    end_close(&end);
}

/* Two peers use the same tag. The reply of the second one arrives first and does not match the
 * receive of the first one. */
static void one_tag_of_two_peers_is_told_apart(void **state)
{
    struct peer_request replies[2] = {0};
    struct event events[2] = {0};
    struct child children[2];
    na_addr_t *peers[2];
    na_op_id_t *ops[2];
    struct end end;

    (void) state;
    pair_open(&children[0], &end, &peers[0], "plain");
    child_start(&children[1], NULL, "plain");
    assert_int_equal(NA_Addr_lookup(end.na_class, children[1].address, &peers[1]), NA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        assert_int_equal(end_receive_expected(&end, &events[i], &replies[i], sizeof(replies[i]),
                                              peers[i], 7, ops[i]),
                         NA_SUCCESS);
    }
    for (int i = 1; i >= 0; i--) {
        struct peer_request request = {.command = PEER_ECHO, .a = 100u + (uint32_t) i};

        assert_int_equal(end_send(&end, peers[i], &request, sizeof(request), 7, false), NA_SUCCESS);
        assert_true(event_wait(&end, &events[i], TEST_WAIT_MS));
        assert_int_equal(replies[i].a, 100 + i);
        assert_int_equal(events[0].done, i == 0);
    }
    for (int i = 0; i < 2; i++)
        NA_Op_destroy(end.na_class, ops[i]);
    NA_Addr_free(end.na_class, peers[1]);
    pair_close(&children[0], &end, peers[0]);
    child_stop(&children[1]);
}

static void a_message_too_large_for_its_receive_is_an_error(void **state)
{
    uint8_t out[300] = {0}, in[201];
    struct end end;
    na_addr_t *self;
    na_op_id_t *op;

    (void) state;
    end_open(&end, NULL, NULL);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    in[200] = 0xee;
    /* received after its arrival, received before it, and expected */
    for (int kind = 0; kind < 3; kind++) {
        struct event event = {0};

        if (kind == 1) {
            assert_int_equal(end_send(&end, self, out, sizeof(out), 1, false), NA_SUCCESS);
            end_progress(&end, 20);
        }
        if (kind == 2)
            assert_int_equal(end_receive_expected(&end, &event, in, 200, self, 1, op), NA_SUCCESS);
        else
            assert_int_equal(end_receive_unexpected(&end, &event, in, 200, op), NA_SUCCESS);
        if (kind != 1)
            assert_int_equal(end_send(&end, self, out, sizeof(out), 1, kind == 2), NA_SUCCESS);
        assert_true(event_wait(&end, &event, TEST_WAIT_MS));
        assert_int_equal(event.ret, NA_MSGSIZE);
        assert_int_equal(in[200], 0xee);
    }
    NA_Op_destroy(end.na_class, op);
    NA_Addr_free(end.na_class, self);
    end_close(&end);
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

/* The receive is posted again as soon as it is used up. Messages that arrive in between are
 * kept. */
static void a_multi_receive_takes_messages_until_it_is_full(void **state)
{
    struct multi multi = {.in_order = true};
    unsigned int posted = 0;
    struct child child;
    struct end end;
    na_addr_t *peer;
    uint8_t *buf;
    na_op_id_t *op;
    size_t size;

    (void) state;
    pair_open(&child, &end, &peer, "plain");
    if (!NA_Has_opt_feature(end.na_class, NA_OPT_MULTI_RECV)) {
        pair_close(&child, &end, peer);
        test_skip("no multi-receive");
    }
    size = NA_Msg_get_max_unexpected_size(end.na_class) + 5000;
    buf = malloc(size);
    op = NA_Op_create(end.na_class, NA_OP_MULTI);
    multi.na_class = end.na_class;
    assert_int_equal(end_command(&end, peer, PEER_FLOOD, 1000, 100, 0, NULL, NULL), NA_SUCCESS);
    for (uint64_t until = now_ms() + TEST_WAIT_MS; multi.messages < 1000 && now_ms() < until;) {
        if (multi.lasts == posted) {
            posted++;
            assert_int_equal(NA_Msg_multi_recv_unexpected(end.na_class, end.context, multi_callback,
                                                          &multi, buf, size, NULL, op),
                             NA_SUCCESS);
        }
        end_progress(&end, 0);
    }
    assert_int_equal(multi.messages, 1000);
    assert_true(multi.in_order);
    /* a buffer is used up only when at most one more message would fit */
    assert_in_range(posted, 2, 1000 / (5000 / 128) + 2);
    if (multi.lasts < posted) {
        assert_int_equal(NA_Cancel(end.na_class, end.context, op), NA_SUCCESS);
        end_progress(&end, 100);
        assert_int_equal(multi.ret, NA_CANCELED);
    }
    assert_int_equal(multi.lasts, posted);
    NA_Op_destroy(end.na_class, op);
    pair_close(&child, &end, peer);
    free(buf);
}

static void many_senders_are_told_apart(void **state)
{
    struct child children[8];
    na_addr_t *peers[8];
    uint32_t next[8] = {0};
    struct end end;
    na_op_id_t *op;
    uint8_t in[64];

    (void) state;
    end_open(&end, NULL, NULL);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    for (int i = 0; i < 8; i++) {
        child_start(&children[i], NULL, "plain");
        assert_int_equal(NA_Addr_lookup(end.na_class, children[i].address, &peers[i]), NA_SUCCESS);
    }
    for (int i = 0; i < 8; i++)
        assert_int_equal(end_command(&end, peers[i], PEER_FLOOD, 1000, 60, 0, NULL, NULL),
                         NA_SUCCESS);
    for (uint32_t i = 0; i < 8000; i++) {
        struct event event = {0};
        int from = 0;

        assert_int_equal(end_receive_unexpected(&end, &event, in, sizeof(in), op), NA_SUCCESS);
        assert_true(event_wait(&end, &event, TEST_WAIT_MS));
        while (from < 8 && !NA_Addr_cmp(end.na_class, peers[from], event.source))
            from++;
        assert_in_range(from, 0, 7);
        assert_int_equal(event.tag, next[from]++);
        NA_Addr_free(end.na_class, event.source);
    }
    NA_Op_destroy(end.na_class, op);
    for (int i = 0; i < 8; i++)
        NA_Addr_free(end.na_class, peers[i]);
    end_close(&end);
    for (int i = 0; i < 8; i++)
        child_stop(&children[i]);
}

/* Several new endpoints connect to one endpoint at the same moment. */
static void many_who_connect_at_once_get_through(void **state)
{
    struct peer_request request = {.command = PEER_MEET};
    struct event events[7] = {{0}};
    na_addr_t *peers[8];
    na_op_id_t *ops[7];
    struct child children[8];
    uint64_t replies[7];
    uint8_t message[2048];
    struct end end;
    size_t size;

    (void) state;
    end_open(&end, NULL, NULL);
    for (int i = 0; i < 8; i++) {
        child_start(&children[i], NULL, "plain");
        assert_int_equal(NA_Addr_lookup(end.na_class, children[i].address, &peers[i]), NA_SUCCESS);
        end_check_peer(&end, peers[i]);
    }
    size = NA_Addr_get_serialize_size(end.na_class, peers[7]);
    if (size != 0) {
        assert_in_range(size, 1, sizeof(message) - sizeof(request));
        assert_int_equal(NA_Addr_serialize(end.na_class, message + sizeof(request), size, peers[7]),
                         NA_SUCCESS);
    }
    for (uint32_t i = 0; i < 7 && size != 0; i++) {
        request.a = i + 1;
        memcpy(message, &request, sizeof(request));
        ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        assert_int_equal(end_receive_expected(&end, &events[i], &replies[i], sizeof(replies[i]),
                                              peers[i], 100 + i, ops[i]),
                         NA_SUCCESS);
        assert_int_equal(end_send(&end, peers[i], message, sizeof(request) + size, 100 + i, false),
                         NA_SUCCESS);
    }
    for (int i = 0; i < 7 && size != 0; i++) {
        assert_true(event_wait(&end, &events[i], TEST_WAIT_MS));
        assert_int_equal(events[i].ret, NA_SUCCESS);
        assert_int_equal(replies[i], NA_SUCCESS);
        NA_Op_destroy(end.na_class, ops[i]);
    }
    for (int i = 0; i < 8; i++)
        NA_Addr_free(end.na_class, peers[i]);
    end_close(&end);
    for (int i = 0; i < 8; i++)
        child_stop(&children[i]);
    if (size == 0)
        test_skip("addresses cannot be serialized");
}

static void a_message_sent_right_before_closing_arrives(void **state)
{
    struct end server, client;
    struct event event = {0};
    na_addr_t *to;
    na_op_id_t *op;
    char in[16];

    (void) state;
    end_open(&server, NULL, NULL);
    end_open(&client, NULL, NULL);
    op = NA_Op_create(server.na_class, NA_OP_SINGLE);
    assert_int_equal(end_receive_unexpected(&server, &event, in, sizeof(in), op), NA_SUCCESS);
    to = end_lookup(&client, &server);
    {
        na_op_id_t *send_op = NA_Op_create(client.na_class, NA_OP_SINGLE);
        struct event sent = {0};
        uint64_t until = now_ms() + TEST_WAIT_MS;

        assert_int_equal(NA_Msg_send_unexpected(client.na_class, client.context, event_callback,
                                                &sent, "first", 6, NULL, to, 0, 1, send_op),
                         NA_SUCCESS);
        while ((sent.done == 0 || event.done == 0) && now_ms() < until) {
            end_progress(&client, 0); /* connecting needs progress at both sides */
            end_progress(&server, 0);
        }
        assert_int_equal(sent.done, 1);
        assert_int_equal(event.done, 1);
        NA_Op_destroy(client.na_class, send_op);
    }
    NA_Addr_free(server.na_class, event.source);
    event.done = 0;
    assert_int_equal(end_send(&client, to, "last", 5, 2, false), NA_SUCCESS);
    NA_Addr_free(client.na_class, to);
    end_close(&client);
    assert_int_equal(end_receive_unexpected(&server, &event, in, sizeof(in), op), NA_SUCCESS);
    assert_true(event_wait(&server, &event, TEST_WAIT_MS));
    assert_string_equal(in, "last");
    NA_Addr_free(server.na_class, event.source);
    NA_Op_destroy(server.na_class, op);
    end_close(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_every_size_arrive_whole),
        cmocka_unit_test(an_endpoint_sends_to_itself),
        cmocka_unit_test(a_hundred_thousand_messages_keep_their_order),
        cmocka_unit_test(unexpected_and_expected_messages_keep_one_order),
        cmocka_unit_test(receives_with_one_tag_are_filled_in_order),
        cmocka_unit_test(one_tag_of_two_peers_is_told_apart),
        cmocka_unit_test(a_message_too_large_for_its_receive_is_an_error),
        cmocka_unit_test(a_multi_receive_takes_messages_until_it_is_full),
        cmocka_unit_test(many_senders_are_told_apart),
        cmocka_unit_test(many_who_connect_at_once_get_through),
        cmocka_unit_test(a_message_sent_right_before_closing_arrives),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
