/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An established session under a key, and frames that cannot change it: refusals and records
 * without a seal, which anybody who saw a token can forge, and a sealed HELLO that contradicts its
 * session. Also: no secrets remain of a session that has ended.
 */

#include "keyed.h"
#include "session_state.h"

#include <string.h>

/* Makes a frame without a seal in the name of the sender of `way`. */
static void make_open(const struct way *way, uint16_t kind, uint32_t tag, struct frame *frame)
{
    const struct wire_record record = {
        .kind = htole16(kind), .size = htole32(8), .tag = htole32(tag)};
    const struct wire_header header = {
        .magic = htole16(WIRE_MAGIC),
        .version = WIRE_VERSION,
        .size = htole32(sizeof(header) + sizeof(record) + 8),
        .token = htole64(kit_peer_token(&msg_peer_of(way->from_at_to)->base)),
        .incarnation = htole32((uint32_t) way->to->endpoint.state->session.incarnation),
        .sequence = htole32(msg_peer_of(way->to_at_from)->base.sent_sequence + 1),
    };

    frame->size = sizeof(header) + sizeof(record) + 8;
    memset(frame->data, 0, frame->size);
    memcpy(frame->data, &header, sizeof(header));
    memcpy(frame->data + sizeof(header), &record, sizeof(record));
}

/* Forged refusals with each reason have no effect, also while a receive is posted. */
static void test_forged_refusals(void **state)
{
    struct sim_pair *pair = *state;

    for (uint32_t i = 0; i < 2; i++) {
        const struct way way = way_of(pair, i);
        const struct kit_peer *peer = &msg_peer_of(way.from_at_to)->base;
        struct sim_op wait = {0};
        struct frame frame;
        char buf[8];

        assert_int_equal(
            kit_msg_recv_expected(way.to_context, &wait, buf, 8, NULL, way.from_at_to, 0, 5), 0);
        for (uint32_t reason = KIT_REFUSAL_NO_KEY; reason <= KIT_REFUSAL_CLEAR; reason++) {
            make_open(&way, WIRE_REFUSAL, reason, &frame);
            hand_over(way.to, way.to_context, &frame);
            assert_int_equal(wait.completions, 0);
            assert_int_equal(peer->phase, KIT_PEER_READY);
            assert_true(kit_peer_is_sealed(peer));
            check_alive(&way);
        }
        assert_int_equal(refused(way.to), 0);
        assert_int_equal(kit_msg_cancel(way.to_context, &wait), 0);
    }
}

static void test_records_without_a_seal(void **state)
{
    static const uint16_t kinds[] = {WIRE_UNEXPECTED, WIRE_EXPECTED, WIRE_CONTROL,
                                     WIRE_HELLO,      WIRE_BYE,      WIRE_REFUSAL + 1};
    struct sim_pair *pair = *state;

    for (uint32_t i = 0; i < 2; i++) {
        const struct way way = way_of(pair, i);
        const uint32_t controls = way.to->controls;
        struct sim_op receive, wait = {0};
        char buf[2][8];

        post(way.to_context, &receive, buf[0]);
        assert_int_equal(
            kit_msg_recv_expected(way.to_context, &wait, buf[1], 8, NULL, way.from_at_to, 0, 5), 0);
        for (uint32_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            struct frame frame;

            make_open(&way, kinds[k], 5, &frame);
            hand_over(way.to, way.to_context, &frame);
            assert_int_equal(receive.completions + wait.completions, 0);
            assert_int_equal(way.to->controls, controls);
            assert_int_equal(way.to->endpoint.state->session.refused, k + 1);
            assert_int_equal(msg_peer_of(way.from_at_to)->base.phase, KIT_PEER_READY);
        }
        assert_int_equal(kit_msg_cancel(way.to_context, &receive), 0);
        assert_int_equal(kit_msg_cancel(way.to_context, &wait), 0);
        check_alive(&way);
    }
}

/* Makes the next frame of a contain a HELLO with a's parameters at this moment. */
static void send_hello(const struct sim_pair *pair, struct sim_op *send)
{
    kit_msg_addr_free(pair->a, sim_lookup(pair->a, "b"));
    assert_int_equal(kit_msg_send_unexpected(pair->ca, send, "x", 2, NULL, pair->b_at_a, 0, 1), 0);
}

/* a sends a HELLO within its session with b that contradicts the session: it claims to be c, whose
 * HELLOs a has seen, or to be itself without the session, or has an invalid name. */
static void test_hello_in_another_session(void **state)
{
    struct sim_pair *pair = *state;
    const struct way back = way_of(pair, 1);
    const struct key_pair keys = {KEY, NULL};
    struct na_plugin_class *c = keyed_node(pair, "c", &keys);
    struct na_plugin_context *cc = sim_context(c, 0);
    struct kit_session *session = &pair->a->endpoint.state->session;
    struct kit_peer *b_at_a = &msg_peer_of(pair->b_at_a)->base;
    const struct kit_peer *a_at_b = &msg_peer_of(pair->a_at_b)->base, *c_at_b;
    struct na_plugin_addr *b_at_c = sim_lookup(c, "b"), *c_addr;
    const uint64_t own = session->incarnation, other = c->endpoint.state->session.incarnation;

    sim_meet(cc, pair->cb, b_at_c, &c_addr);
    c_at_b = &msg_peer_of(c_addr)->base;
    for (uint32_t i = 0; i < 3; i++) {
        const uint64_t bad = pair->b->endpoint.state->session.bad;
        const struct way way_of_c = {c, pair->b, cc, pair->cb, b_at_c, c_addr};
        struct sim_op send = {0}, receive;
        struct frame frame;
        char buf[8];

        session->self->name[0] = i == 0 ? 'c' : i == 1 ? 'a' : '\n';
        session->incarnation = i == 0 ? other : own;
        b_at_a->mask ^= i == 1;
        send_hello(pair, &send);
        session->self->name[0] = 'a';
        session->incarnation = own;
        b_at_a->mask ^= i == 1;
        take(pair->b, &frame);
        hand_over(pair->b, pair->cb, &frame);
        assert_true(pair->b->endpoint.state->session.bad > bad);
        assert_int_equal(pair->b->endpoint.state->deferrals.count, 0);
        assert_int_equal(a_at_b->their_incarnation, own);
        assert_int_equal(c_at_b->their_incarnation, other);
        assert_int_equal(a_at_b->phase, KIT_PEER_READY);
        while (pair->a->inbox_first != NULL)
            take(pair->a, &frame);
        check_alive(&way_of_c);
        check_alive(&back);
        /* until a sends a valid HELLO */
        for (uint32_t k = 0; k < 100 && send.completions == 0; k++) {
            sim_clock_skip += KIT_SESSION_TICK_NS;
            sim_poll(pair->ca, pair->cb, MSG_POLLS_A_CLOCK);
        }
        assert_int_equal(send.completions, 1);
        assert_int_equal(send.status, 0);
        post(pair->cb, &receive, buf);
        sim_poll_until(pair->ca, pair->cb, &receive);
        kit_msg_addr_free(pair->b, receive.source);
    }
    kit_msg_addr_free(pair->b, c_addr);
    kit_msg_addr_free(c, b_at_c);
    sim_close(c, cc);
}

/* A reset peer contains no keys, shares or seals; a peer that fails is reset at once. */
static void test_reset_wipes(void **state)
{
    static const struct kit_peer_auth none;
    struct sim_pair *pair = *state;
    struct kit_peer *peer = &msg_peer_of(pair->b_at_a)->base;
    struct kit_peer_auth left;

    assert_memory_not_equal(peer->auth->seal.send, none.seal.send, KIT_AUTH_KEY);
    kit_msg_lock(&pair->a->endpoint);
    kit_exchange_open(peer);
    assert_memory_not_equal(peer->auth->exchange, none.exchange, sizeof(none.exchange[0]));
    kit_peer_failed(peer, NA_PLUGIN_HOSTUNREACH, "the test says so");
    memcpy(&left, peer->auth, sizeof(left));
    kit_msg_unlock(&pair->a->endpoint);
    assert_true(kit_list_empty(&peer->auth->offers));
    memset(&left.offers, 0, sizeof(left.offers));
    assert_memory_equal(&left, &none, sizeof(left));
    sim_poll(pair->ca, pair->cb, 10);
    check_alive(
        &(const struct way){pair->a, pair->b, pair->ca, pair->cb, pair->b_at_a, pair->a_at_b});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_forged_refusals, met_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_records_without_a_seal, met_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_hello_in_another_session, met_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_reset_wipes, met_setup, met_teardown),
    };

    return cmocka_run_group_tests(tests, key_keep, key_drop);
}
