/* SPDX-License-Identifier: BSD-3-Clause */
/* HELLOs without a seal, and answers to them, from an attacker without the key: their effect on an
 * established session, on a call in progress, and on callers with the key. */

#include "keyed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELLO_AT (sizeof(struct wire_header) + sizeof(struct wire_record))

/* Opens two endpoints that have not met. */
static int pair_setup(void **state)
{
    static struct sim_pair pair;

    keyed_open(&pair, KEY, KEY);
    *state = &pair;
    return 0;
}

static struct kit_session *session_of(struct na_plugin_class *node)
{
    return &node->endpoint.state->session;
}

static void send_text(struct na_plugin_context *context, struct sim_op *send,
                      struct na_plugin_addr *to, const char *text)
{
    memset(send, 0, sizeof(*send));
    assert_int_equal(kit_msg_send_unexpected(context, send, text, strlen(text) + 1, NULL, to, 0, 7),
                     0);
}

/* Checks that a message from a to b arrives. */
static void pair_check(const struct sim_pair *pair)
{
    const struct way way = way_of(pair, 0);

    check_alive(&way);
}

static void ticks_pass(struct na_plugin_context *context, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        sim_clock_skip += KIT_SESSION_TICK_NS;
        sim_poll(context, NULL, MSG_POLLS_A_CLOCK);
    }
}

static void count_lost(void *arg, struct na_plugin_addr *addr, int32_t status)
{
    (void) status;
    ++*(uint32_t *) arg;
    kit_msg_addr_free(NULL, addr);
}

/*
 * A HELLO within a session is replayed with a broken tag, so that it looks like one from a peer
 * that lost the session. The answer to it is delivered, and a message sent at that moment arrives.
 */
static void test_copy_of_sealed_hello(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op receive, send;
    static uint32_t lost; /* static, for the pair is closed after this function */
    uint64_t before;
    struct frame hello;
    char buf[8];

    lost = 0;
    memset(&receive, 0, sizeof(receive));
    pair->b->endpoint.state->peer_lost = count_lost;
    pair->b->endpoint.state->peer_lost_arg = &lost;
    assert_int_equal(kit_msg_recv_expected(pair->ca, &receive, buf, 8, NULL, pair->b_at_a, 0, 5),
                     0);
    for (uint32_t i = 0; i < 50 && pair->b->inbox_first == NULL; i++)
        ticks_pass(pair->ca, 1); /* a waits, and sends a ping */
    take(pair->b, &hello);
    hand_over(pair->b, pair->cb, &hello);
    sim_poll(pair->ca, NULL, 1);
    before = session_of(pair->b)->refused;
    hello.data[hello.size - 1] ^= 1;
    hand_over(pair->b, pair->cb, &hello);
    assert_int_equal(session_of(pair->b)->refused, before + 1);
    memset(&send, 0, sizeof(send));
    assert_int_equal(kit_msg_send_expected(pair->cb, &send, "answer", 7, NULL, pair->a_at_b, 0, 5),
                     0);
    sim_poll_until(pair->ca, pair->cb, &receive);
    assert_int_equal(receive.status, 0);
    assert_string_equal(buf, "answer");
    sim_poll(pair->ca, pair->cb, 5);
    assert_int_equal(lost, 0);
    assert_int_equal(session_of(pair->b)->offers, 0);
    assert_false(msg_peer_of(pair->b_at_a)->base.auth->has_exchange);
    pair_check(pair);
}

/* Makes a HELLO of an attacker: without the key, under a chosen name, with a valid share. */
static void hello_make(struct frame *frame, const char *name, uint32_t flags,
                       const uint8_t share[KIT_AUTH_SHARE])
{
    static const char raw[] = "of-the-unknown";
    const uint16_t name_size = (uint16_t) strlen(name);
    const uint32_t key_size =
        (flags & KIT_HELLO_HAS_KEY) != 0 ? (uint32_t) sizeof(struct kit_hello_key) : 0;
    const struct kit_hello_wire wire = {.token = htole64(UINT64_C(0x100000001)),
                                        .incarnation = htole64(1000),
                                        .flags = htole32(flags),
                                        .epoch = htole32(1),
                                        .name_size = htole16(name_size),
                                        .raw_size = htole16(sizeof(raw))};
    const uint32_t size = (uint32_t) sizeof(wire) + key_size + name_size + (uint32_t) sizeof(raw);
    const uint64_t total = sizeof(struct wire_header) + wire_record_size(size);
    const struct wire_header header = {.magic = htole16(WIRE_MAGIC),
                                       .version = WIRE_VERSION,
                                       .flags = WIRE_HAS_HELLO,
                                       .size = htole32((uint32_t) total)};
    const struct wire_record record = {.kind = htole16(WIRE_HELLO), .size = htole32(size)};
    uint8_t *place = frame->data;

    memset(frame, 0, sizeof(*frame));
    frame->size = total;
    memcpy(place, &header, sizeof(header));
    memcpy(place += sizeof(header), &record, sizeof(record));
    memcpy(place += sizeof(record), &wire, sizeof(wire));
    place += sizeof(wire);
    if (key_size != 0)
        memcpy(place, share, KIT_AUTH_SHARE);
    memcpy(place += key_size, name, name_size);
    memcpy(place + name_size, raw, sizeof(raw));
}

/* Delivers `count` HELLOs, each under another name. */
static void hellos_of_many(struct na_plugin_class *node, struct na_plugin_context *context,
                           uint32_t flags, uint32_t count)
{
    static struct frame frame; /* it is large */
    struct kit_auth_exchange exchange;
    char name[16];

    kit_auth_exchange_begin(kept, &exchange);
    for (uint32_t i = 0; i < count; i++) {
        (void) snprintf(name, sizeof(name), "x%u", i);
        hello_make(&frame, name, flags, exchange.share);
        hand_over(node, context, &frame);
    }
}

#define OFFERS 4096u /* the most that are kept */

/* Attackers fill the table of offers under made-up names; a caller with the key still gets
 * through. */
static void test_offers_shut_nobody_out(void **state)
{
    struct sim_pair *pair = *state;
    const uint32_t flags = kit_session_flags(session_of(pair->b));

    pair->b->lose = UINT32_MAX;
    sim_clock_stopped = sim_host.clock_ns(); /* no offer expires, however slow the machine is */
    hellos_of_many(pair->b, pair->cb, flags, OFFERS + 100);
    sim_clock_stopped = 0;
    assert_int_equal(session_of(pair->b)->offers, OFFERS);
    assert_int_equal(session_of(pair->b)->refused, 100);
    pair->b->lose = 0;
    pair_check(pair);
}

/* A caller that goes silent counts as one guess, also when it repeats its HELLO. */
static void test_guesses_are_counted(void **state)
{
    struct sim_pair *pair = *state;
    const uint32_t flags = kit_session_flags(session_of(pair->b));
    struct kit_auth_exchange exchange;
    struct frame hello;

    kit_auth_exchange_begin(kept, &exchange);
    hello_make(&hello, "x", flags, exchange.share);
    pair->b->lose = UINT32_MAX;
    for (uint32_t i = 0; i < 15; i++) {
        hand_over(pair->b, pair->cb, &hello);
        assert_int_equal(session_of(pair->b)->offers, 1);
        ticks_pass(pair->cb, 10);
    }
    assert_int_equal(session_of(pair->b)->refused, 1);
    ticks_pass(pair->cb, 110);
    assert_int_equal(session_of(pair->b)->offers, 0);
    assert_int_equal(session_of(pair->b)->refused, 2);
}

/* HELLOs are forged in b's name while a's call to b is pending; b's own HELLO is answered. */
static void test_forged_while_a_call_hangs(void **state)
{
    struct sim_pair *pair = *state;
    const uint32_t flags = kit_session_flags(session_of(pair->b));
    struct sim_op sends[2], receive;
    struct frame frame;
    char buf[8];

    send_text(pair->ca, &sends[0], pair->b_at_a, "hangs");
    take(pair->b, &frame); /* not delivered */
    for (uint32_t i = 0; i < 100; i++) {
        struct kit_auth_exchange exchange;

        kit_auth_exchange_begin(kept, &exchange);
        hello_make(&frame, "b", flags, exchange.share);
        if (i % 2 != 0) /* an invalid share, which displaces no offer */
            memset(frame.data + HELLO_AT + sizeof(struct kit_hello_wire), 0xff, KIT_AUTH_SHARE);
        hand_over(pair->a, pair->ca, &frame);
        while (pair->b->inbox_first != NULL)
            take(pair->b, &frame);
    }
    assert_int_equal(session_of(pair->a)->offers, 50);
    pair->a_at_b = sim_lookup(pair->b, "a");
    post(pair->ca, &receive, buf);
    send_text(pair->cb, &sends[1], pair->a_at_b, "heard");
    sim_poll_until(pair->cb, pair->ca, &receive);
    assert_string_equal(buf, "heard");
    kit_msg_addr_free(pair->a, receive.source);
    post(pair->cb, &receive, buf);
    sim_poll_until(pair->ca, pair->cb, &receive);
    assert_string_equal(buf, "hangs");
    kit_msg_addr_free(pair->b, receive.source);
    pair_check(pair);
}

/* The address of a peer is taken only from a peer that proved the key. */
static void test_forged_raw_address(void **state)
{
    struct sim_pair *pair = *state;
    const uint32_t flags = kit_session_flags(session_of(pair->b));
    struct kit_auth_exchange exchange;
    struct kit_peer *peer;
    struct frame frame;

    kit_auth_exchange_begin(kept, &exchange);
    pair->a_at_b = sim_lookup(pair->b, "a");
    peer = &msg_peer_of(pair->a_at_b)->base;
    hello_make(&frame, "a", flags, exchange.share);
    hand_over(pair->b, pair->cb, &frame);
    assert_null(peer->raw);
    hello_make(&frame, "a", 0, exchange.share);
    hand_over(pair->b, pair->cb, &frame);
    assert_null(peer->raw);
    while (pair->a->inbox_first != NULL)
        take(pair->a, &frame);
    pair_check(pair);
    assert_int_equal(peer->raw_size, 2);
    assert_memory_equal(peer->raw, "a", 2);
}

/* b has dropped the offer by the time a takes the answer, so b cannot open what a seals. A new
 * session is established, and operations that wait for a response of the old one fail. */
static void test_answer_that_is_out_of_date(void **state)
{
    struct sim_pair *pair = *state;
    const uint32_t flags = kit_session_flags(session_of(pair->b));
    struct sim_op send, wait;
    struct frame frame;
    char buf[8];

    memset(&wait, 0, sizeof(wait));
    assert_int_equal(kit_msg_recv_expected(pair->ca, &wait, buf, 8, NULL, pair->b_at_a, 0, 5), 0);
    send_text(pair->ca, &send, pair->b_at_a, "lost");
    sim_poll(pair->cb, NULL, 1); /* b answers */
    for (uint32_t i = 0; i < 64; i++) {
        struct kit_auth_exchange exchange;

        kit_auth_exchange_begin(kept, &exchange);
        hello_make(&frame, "a", flags, exchange.share);
        pair->b->lose = 1;
        hand_over(pair->b, pair->cb, &frame);
    }
    pair->b->lose = 0;
    sim_poll(pair->ca, NULL, 3);
    assert_true(kit_peer_is_sealed(&msg_peer_of(pair->b_at_a)->base));
    while (pair->b->inbox_first != NULL) /* b cannot open these frames */
        take(pair->b, &frame);
    assert_int_equal(wait.completions, 0);
    for (uint32_t i = 0; i < 100 && wait.completions == 0; i++) {
        ticks_pass(pair->ca, 1);
        sim_poll(pair->cb, pair->ca, 3);
    }
    assert_int_equal(wait.completions, 1);
    assert_int_equal(wait.status, NA_PLUGIN_HOSTUNREACH);
    pair_check(pair);
}

/* A caller proves the key with its first sealed frame, and only with that one. A later frame that
 * overtakes it has no effect, also on operations that wait. */
static void test_first_frame_proves(void **state)
{
    struct sim_pair *pair = *state;
    struct sim_op send, wait = {0}, receive;
    struct frame first, second;
    char buf[8], in[8];

    pair->a_at_b = sim_lookup(pair->b, "a");
    assert_int_equal(kit_msg_recv_expected(pair->cb, &wait, in, 8, NULL, pair->a_at_b, 0, 5), 0);
    post(pair->cb, &receive, buf);
    send_text(pair->ca, &send, pair->b_at_a, "text");
    sim_poll(pair->cb, NULL, 1);
    sim_poll(pair->ca, NULL, 2);
    take(pair->b, &first);
    take(pair->b, &second);
    hand_over(pair->b, pair->cb, &second);
    assert_int_equal(wait.completions, 0);
    assert_int_equal(session_of(pair->b)->offers, 1);
    hand_over(pair->b, pair->cb, &first);
    assert_int_equal(session_of(pair->b)->offers, 0);
    assert_int_equal(receive.completions, 0);
    hand_over(pair->b, pair->cb, &second);
    assert_int_equal(receive.completions, 1);
    assert_string_equal(buf, "text");
    assert_int_equal(kit_msg_cancel(pair->cb, &wait), 0);
    kit_msg_addr_free(pair->b, receive.source);
}

static void counter_find(void *arg, const char *name, uint64_t value)
{
    if (strcmp(name, "other_name") == 0)
        *(uint64_t *) arg = value;
}

static uint64_t other_names(struct na_plugin_class *node)
{
    const struct na_plugin_counters *counters = kit_msg_get_extension(NA_PLUGIN_EXT_COUNTERS);
    uint64_t value = UINT64_MAX;

    counters->counters_get(node, counter_find, &value);
    return value;
}

/* Frames for b are redirected to c, which has the key. They are accepted, since b and c may be
 * names of one process, but counted. */
static void test_led_to_another(void **state)
{
    struct sim_pair *pair = *state;
    struct na_plugin_class *c = keyed_node(pair, "c", &(struct key_pair){KEY, NULL});
    struct na_plugin_context *cc = sim_context(c, 0);
    struct sim_op send, receive;
    struct frame frame;
    char buf[8];

    post(cc, &receive, buf);
    send_text(pair->ca, &send, pair->b_at_a, "for b");
    for (uint32_t i = 0; i < 20 && receive.completions == 0; i++) {
        while (pair->b->inbox_first != NULL) {
            take(pair->b, &frame);
            hand_over(c, cc, &frame);
        }
        sim_poll(pair->ca, cc, 1);
    }
    assert_int_equal(receive.completions, 1);
    assert_int_equal(other_names(pair->a), 1);
    assert_int_equal(other_names(c), 0);
    kit_msg_addr_free(c, receive.source);
    sim_close(c, cc);
}

/* A peer that answers under the name that was called is not counted. */
static void test_led_to_nobody_else(void **state)
{
    struct sim_pair *pair = *state;

    pair_check(pair);
    assert_int_equal(other_names(pair->a), 0);
    assert_int_equal(other_names(pair->b), 0);
}

static int32_t (*sim_send)(struct kit_endpoint *endpoint, struct kit_frame *frame);

/* A fabric that waits for connections to hosts that do not respond. */
static int32_t send_into_hole(struct kit_endpoint *endpoint, struct kit_frame *frame)
{
    return frame->peer->name[0] == 'x' ? NA_PLUGIN_AGAIN : sim_send(endpoint, frame);
}

#define WAYS 256u /* connections that are opened at once for unproved offers */

/* The shares are valid, or there are none, depending on `flags`. */
static void check_made_up_names(struct sim_pair *pair, uint32_t flags)
{
    const struct msg_endpoint *state = pair->b->endpoint.state;
    const uint32_t peers = session_of(pair->b)->peer_count, frames = state->frame_count;
    struct sim_op send, receive;
    struct na_plugin_context *cc;
    struct na_plugin_class *c;
    struct na_plugin_addr *b_at_c;
    char buf[8];

    hellos_of_many(pair->b, pair->cb, flags, 2100);
    assert_int_equal(state->frame_count, frames);
    assert_true(pair->b->opened - pair->b->closed <= WAYS + peers);
    pair_check(pair);
    ticks_pass(pair->cb, 3); /* the time of the other offers is over */
    c = keyed_node(pair, "c", &(struct key_pair){KEY, NULL});
    cc = sim_context(c, 0);
    b_at_c = sim_lookup(c, "b");
    post(pair->cb, &receive, buf);
    send_text(cc, &send, b_at_c, "met");
    for (uint32_t i = 0; i < 50 && receive.completions == 0; i++) {
        ticks_pass(pair->cb, 1);
        sim_poll(cc, NULL, 5);
    }
    assert_int_equal(receive.completions, 1);
    assert_string_equal(buf, "met");
    assert_int_equal(state->frame_count, frames);
    assert_true(pair->b->opened - pair->b->closed <= WAYS + peers + 1);
    kit_msg_addr_free(c, b_at_c);
    kit_msg_addr_free(pair->b, receive.source);
    sim_close(c, cc);
    ticks_pass(pair->cb, 150);
    assert_int_equal(session_of(pair->b)->offers, 0);
    assert_int_equal(session_of(pair->b)->peer_count, peers);
    assert_true(session_of(pair->b)->refused >= 2100);
}

/* HELLOs in the names of hosts that accept no connection: established sessions continue, and others
 * can be established. */
static void test_made_up_names(void **state)
{
    struct sim_pair *pair = *state;

    sim_send = pair->b->ops.send;
    pair->b->ops.send = send_into_hole;
    check_made_up_names(pair, kit_session_flags(session_of(pair->b)));
    session_of(pair->b)->refused = 0;
    check_made_up_names(pair, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_copy_of_sealed_hello, met_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_offers_shut_nobody_out, pair_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_guesses_are_counted, pair_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_forged_while_a_call_hangs, pair_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_answer_that_is_out_of_date, pair_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_first_frame_proves, pair_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_led_to_another, pair_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_led_to_nobody_else, met_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_made_up_names, met_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_forged_raw_address, pair_setup, met_teardown),
    };

    return cmocka_run_group_tests(tests, key_keep, key_drop);
}
