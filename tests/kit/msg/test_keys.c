/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints with an established session under a key, and an attacker on the network who edits,
 * replays, reflects, swaps, reorders and truncates their frames, in both directions. How sessions
 * are established is in test_meeting.c.
 */

#include "keyed.h"

#include <string.h>

/* Sends a message, and takes its frame out of the network. */
static void send_and_take(const struct way *way, const char *text, struct frame *frame)
{
    struct sim_op send = {0};

    assert_int_equal(kit_msg_send_unexpected(way->from_context, &send, text, strlen(text) + 1, NULL,
                                             way->to_at_from, 0, 7),
                     0);
    assert_int_equal(send.completions, 1);
    take(way->to, frame);
    assert_null(way->to->inbox_first);
}

/* Makes a frame of each kind within a session: a compact one, several messages with a control
 * record, a HELLO, a HELLO_ACK. */
static void make(const struct way *way, uint32_t kind, struct frame *frame)
{
    static struct sim_op sends[3]; /* static, for some wait until the frame is answered */

    memset(sends, 0, sizeof(sends));
    switch (kind) {
    case 0:
        send_and_take(way, "one", frame);
        return;
    case 1:
        way->from->again = 1;
        for (uint32_t i = 0; i < 2; i++)
            assert_int_equal(kit_msg_send_unexpected(way->from_context, &sends[i], "many", 5, NULL,
                                                     way->to_at_from, 0, 7),
                             0);
        kit_msg_lock(&way->from->endpoint);
        assert_int_equal(kit_msg_control_send(&way->from->endpoint,
                                              &msg_peer_of(way->to_at_from)->base, 3, "control", 8),
                         0);
        kit_msg_unlock(&way->from->endpoint);
        sim_poll(way->from_context, NULL, 2);
        break;
    case 2:
        kit_msg_addr_free(way->from,
                          sim_lookup(way->from, msg_peer_of(way->to_at_from)->base.name));
        assert_int_equal(kit_msg_send_unexpected(way->from_context, &sends[0], "met", 4, NULL,
                                                 way->to_at_from, 0, 7),
                         0);
        break;
    default: /* a HELLO_ACK: the receiver of the frame sends a HELLO first */
        kit_msg_addr_free(way->to, sim_lookup(way->to, msg_peer_of(way->from_at_to)->base.name));
        assert_int_equal(kit_msg_send_unexpected(way->to_context, &sends[0], "met", 4, NULL,
                                                 way->from_at_to, 0, 7),
                         0);
        sim_poll(way->from_context, NULL, 1);
        break;
    }
    take(way->to, frame);
    assert_null(way->to->inbox_first);
}

#define KINDS 4u

/* Completes what make() left: receives the messages that waited for an answer. */
static void finish(const struct way *way)
{
    struct msg_endpoint *states[] = {way->from->endpoint.state, way->to->endpoint.state};
    struct na_plugin_context *contexts[] = {way->from_context, way->to_context};

    sim_poll(way->from_context, way->to_context, 5);
    for (uint32_t i = 0; i < 2; i++)
        while (states[i]->deferrals.count != 0 || states[i]->deferred_count != 0) {
            struct sim_op receive;
            char buf[8];

            post(contexts[i], &receive, buf);
            assert_int_equal(receive.completions, 1);
            kit_msg_addr_free(NULL, receive.source);
            sim_poll(contexts[i], NULL, 1);
        }
}

static void test_right_key(void **state)
{
    struct sim_pair *pair = *state;

    for (uint32_t i = 0; i < 2; i++) {
        const struct way way = way_of(pair, i);

        assert_true(kit_peer_is_sealed(&msg_peer_of(way.to_at_from)->base));
        check_alive(&way);
        assert_int_equal(refused(way.to), 0);
        assert_int_equal(way.from->endpoint.state->session.offers, 0);
        assert_false(msg_peer_of(way.to_at_from)->base.auth->has_exchange);
    }
}

/* Each bit of each kind of frame is flipped, in both directions; the session continues
 * afterwards. */
static void test_edited(void **state)
{
    struct sim_pair *pair = *state;

    for (uint32_t i = 0; i < 2 * KINDS; i++) {
        const struct way way = way_of(pair, i % 2);
        struct frame frame, edited;
        const uint32_t controls = way.to->controls;
        struct sim_op receive;
        char buf[8];

        make(&way, i / 2, &frame);
        post(way.to_context, &receive, buf);
        for (uint32_t bit = 0; bit < 8 * frame.size; bit++) {
            const uint64_t before = refused(way.to);

            edited = frame;
            edited.data[bit / 8] ^= (uint8_t) (1u << bit % 8);
            hand_over(way.to, way.to_context, &edited);
            assert_int_equal(receive.completions, 0);
            assert_true(refused(way.to) > before || way.to->endpoint.state->session.offers != 0);
            assert_int_equal(msg_peer_of(way.from_at_to)->base.phase, KIT_PEER_READY);
        }
        assert_int_equal(way.to->controls, controls);
        assert_int_equal(kit_msg_cancel(way.to_context, &receive), 0);
        while (way.from->inbox_first != NULL) /* answers to frames that may have been a HELLO */
            take(way.from, &edited);
        hand_over(way.to, way.to_context, &frame);
        finish(&way);
        check_alive(&way);
    }
}

static void test_replayed(void **state)
{
    struct sim_pair *pair = *state;

    for (uint32_t i = 0; i < 2 * KINDS; i++) {
        const struct way way = way_of(pair, i % 2);
        struct frame frame;
        uint64_t before;
        uint32_t controls;

        make(&way, i / 2, &frame);
        hand_over(way.to, way.to_context, &frame);
        finish(&way);
        before = refused(way.to);
        controls = way.to->controls;
        for (uint32_t k = 0; k < 3; k++)
            hand_over(way.to, way.to_context, &frame);
        assert_int_equal(refused(way.to), before + 3);
        assert_int_equal(way.to->controls, controls);
        assert_int_equal(way.to->endpoint.state->deferrals.count, 0);
        check_alive(&way);
    }
}

static void test_reflected(void **state)
{
    struct sim_pair *pair = *state;

    for (uint32_t i = 0; i < 2 * KINDS; i++) {
        const struct way way = way_of(pair, i % 2);
        struct frame frame, as_theirs;
        struct wire_header header;
        uint64_t before = refused(way.from);

        make(&way, i / 2, &frame);
        hand_over(way.from, way.from_context, &frame);
        assert_int_equal(refused(way.from), before + 1);
        /* Also with the token that the reverse direction uses. */
        as_theirs = frame;
        if (frame.data[0] != WIRE_COMPACT) {
            memcpy(&header, frame.data, sizeof(header));
            header.token = kit_peer_token(&msg_peer_of(way.to_at_from)->base);
            header.incarnation = (uint32_t) way.from->endpoint.state->session.incarnation;
            memcpy(as_theirs.data, &header, sizeof(header));
            hand_over(way.from, way.from_context, &as_theirs);
            assert_int_equal(refused(way.from), before + 2);
        }
        assert_int_equal(way.from->endpoint.state->deferrals.count, 0);
        hand_over(way.to, way.to_context, &frame);
        finish(&way);
        check_alive(&way);
    }
}

/* A frame that is meant for another process, or from an earlier session between the same two. */
static void test_swapped(void **state)
{
    struct sim_pair *pair = *state;
    struct na_plugin_init init = sim_init();
    const struct way way = way_of(pair, 0);
    struct na_plugin_class *c;
    struct na_plugin_context *cc;
    struct na_plugin_addr *c_at_a, *a_at_c;
    struct frame frame;
    uint64_t before;

    init.auth_key = KEY;
    c = sim_open(&pair->net, "c", &init);
    cc = sim_context(c, 0);
    c_at_a = sim_lookup(pair->a, "c");
    sim_meet(pair->ca, cc, c_at_a, &a_at_c);
    send_and_take(&way, "for b", &frame);
    hand_over(c, cc, &frame);
    assert_int_equal(c->endpoint.state->deferrals.count, 0);
    assert_int_equal(refused(c), 1);
    hand_over(way.to, way.to_context, &frame);
    finish(&way);
    /* The session is ended at both sides, and a new one established. */
    kit_msg_lock(&pair->a->endpoint);
    kit_peer_failed(&msg_peer_of(pair->b_at_a)->base, NA_PLUGIN_HOSTUNREACH, "the test says so");
    kit_msg_unlock(&pair->a->endpoint);
    check_alive(&way);
    before = refused(pair->b);
    hand_over(way.to, way.to_context, &frame);
    assert_int_equal(refused(pair->b), before + 1);
    assert_int_equal(pair->b->endpoint.state->deferrals.count, 0);
    check_alive(&way);
    kit_msg_addr_free(pair->a, c_at_a);
    kit_msg_addr_free(c, a_at_c);
    sim_close(c, cc);
}

/* A frame that arrives out of order, or after a gap, is refused. */
static void test_reordered(void **state)
{
    struct sim_pair *pair = *state;

    for (uint32_t i = 0; i < 2; i++) {
        const struct way way = way_of(pair, i);
        struct sim_op lost = {0}, receive;
        struct frame first, second;
        char buf[8], in[8];

        send_and_take(&way, "first", &first);
        send_and_take(&way, "second", &second);
        post(way.to_context, &receive, buf);
        assert_int_equal(
            kit_msg_recv_expected(way.to_context, &lost, in, 8, NULL, way.from_at_to, 0, 1), 0);
        hand_over(way.to, way.to_context, &second);
        assert_int_equal(lost.completions, 1);
        assert_int_equal(lost.status, NA_PLUGIN_HOSTUNREACH);
        hand_over(way.to, way.to_context, &first);
        hand_over(way.to, way.to_context, &second);
        assert_int_equal(receive.completions, 0);
        assert_int_equal(kit_msg_cancel(way.to_context, &receive), 0);
        sim_poll(way.from_context, way.to_context, 10); /* a new session is established */
        check_alive(&way);
    }
}

static void test_truncated(void **state)
{
    struct sim_pair *pair = *state;

    for (uint32_t i = 0; i < 2 * KINDS; i++) {
        const struct way way = way_of(pair, i % 2);
        struct frame frame, part;

        make(&way, i / 2, &frame);
        for (uint64_t size = 0; size < frame.size; size++) {
            const uint64_t before = refused(way.to);

            part = frame;
            part.size = size;
            hand_over(way.to, way.to_context, &part);
            assert_int_equal(refused(way.to), before + 1);
            /* Also with the truncated size in the header, if the header is complete. */
            if (size >= sizeof(struct wire_header) && frame.data[0] != WIRE_COMPACT) {
                const uint32_t length = htole32((uint32_t) size);

                memcpy(part.data + offsetof(struct wire_header, size), &length, sizeof(length));
                hand_over(way.to, way.to_context, &part);
                assert_int_equal(way.to->endpoint.state->deferrals.count, 0);
            }
        }
        while (way.from->inbox_first != NULL)
            take(way.from, &part);
        hand_over(way.to, way.to_context, &frame);
        finish(&way);
        check_alive(&way);
    }
}

static bool has_text(const struct frame *frame, const char *text)
{
    const size_t length = strlen(text);

    for (uint64_t i = 0; i + length <= frame->size; i++)
        if (memcmp(frame->data + i, text, length) == 0)
            return true;
    return false;
}

/* With encryption no frame contains the plaintext, in a compact frame or with other messages, and
 * the receiver gets the original data. */
static void test_nothing_is_read(void **state)
{
    struct sim_pair *pair = *state;
    const bool encrypts = kit_endpoint_encrypts(&pair->a->endpoint);

    for (uint32_t i = 0; i < 2; i++) {
        const struct way way = way_of(pair, i);
        struct sim_op sends[3] = {0}, receives[3];
        struct frame frame;
        char buf[3][8];

        for (uint32_t k = 0; k < 3; k++)
            post(way.to_context, &receives[k], buf[k]);
        send_and_take(&way, "plain", &frame);
        assert_int_equal(has_text(&frame, "plain"), !encrypts);
        hand_over(way.to, way.to_context, &frame);
        assert_string_equal(buf[0], "plain");

        way.from->again = 2; /* the frame is sealed several times, and others join it */
        for (uint32_t k = 1; k < 3; k++)
            assert_int_equal(kit_msg_send_unexpected(way.from_context, &sends[k],
                                                     k == 1 ? "first\0" : "second", 7, NULL,
                                                     way.to_at_from, 0, k),
                             0);
        kit_msg_lock(&way.from->endpoint);
        assert_int_equal(kit_msg_control_send(&way.from->endpoint,
                                              &msg_peer_of(way.to_at_from)->base, 3, "control", 8),
                         0);
        kit_msg_unlock(&way.from->endpoint);
        sim_poll(way.from_context, NULL, 3);
        while (way.to->inbox_first != NULL) {
            take(way.to, &frame);
            assert_true(!encrypts || !(has_text(&frame, "first") || has_text(&frame, "second") ||
                                       has_text(&frame, "control")));
            hand_over(way.to, way.to_context, &frame);
        }
        assert_string_equal(buf[1], "first");
        assert_string_equal(buf[2], "second");
        assert_string_equal((const char *) way.to->control_data, "control");
        for (uint32_t k = 0; k < 3; k++)
            kit_msg_addr_free(way.to, receives[k].source);
    }
}

/* A frame of another protocol version is refused before its contents are read. */
static void test_other_version(void **state)
{
    struct sim_pair *pair = *state;
    const struct way way = way_of(pair, 0);
    struct frame frame;
    uint64_t before = refused(pair->b);

    make(&way, 2, &frame);
    frame.data[offsetof(struct wire_header, version)] = WIRE_VERSION - 1;
    hand_over(pair->b, pair->cb, &frame);
    assert_int_equal(refused(pair->b), before + 1);
    frame.data[offsetof(struct wire_header, version)] = WIRE_VERSION;
    hand_over(pair->b, pair->cb, &frame);
    finish(&way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_right_key, met_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_edited, met_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_replayed, met_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_reflected, met_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_swapped, met_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_reordered, met_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_truncated, met_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_read, met_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_other_version, met_setup, met_teardown),
    };

    return cmocka_run_group_tests(tests, key_keep, key_drop);
}
