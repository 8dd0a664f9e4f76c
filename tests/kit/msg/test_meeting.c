/* SPDX-License-Identifier: BSD-3-Clause */
/* How endpoints with keys establish sessions, or refuse to: other keys, none, a second one, edited
 * and forged HELLOs, and what an attacker without the key learns. */

#include "keyed.h"

#include <stdlib.h>
#include <string.h>

/* Requires that the operation fails, that both sides count it, and that no receive and no plugin
 * gets anything. */
static void check_refused(const char *key_a, const char *key_b)
{
    struct sim_pair pair;
    struct sim_op send, receive;
    uint32_t controls;
    char buf[8];

    keyed_open(&pair, key_a, key_b);
    post(pair.cb, &receive, buf);
    for (uint32_t i = 1; i <= 3; i++) {
        memset(&send, 0, sizeof(send));
        kit_msg_lock(&pair.a->endpoint);
        assert_int_equal(kit_msg_control_send(&pair.a->endpoint, &msg_peer_of(pair.b_at_a)->base, 3,
                                              "control", 8),
                         0);
        kit_msg_unlock(&pair.a->endpoint);
        assert_int_equal(kit_msg_send_unexpected(pair.ca, &send, "x", 2, NULL, pair.b_at_a, 0, 1),
                         0);
        sim_poll_until(pair.ca, pair.cb, &send);
        sim_poll(pair.ca, pair.cb, 5);
        if (key_a != NULL)
            assert_int_equal(send.status, NA_PLUGIN_PERMISSION);
        assert_int_equal(msg_peer_of(pair.b_at_a)->base.phase, KIT_PEER_NEW);
        assert_true(pair.b->endpoint.state->session.refused >= i);
    }
    controls = pair.b->controls;
    assert_int_equal(controls, 0);
    assert_int_equal(receive.completions, 0);
    assert_int_equal(kit_msg_cancel(pair.cb, &receive), 0);
    keyed_close(&pair);
}

static void test_other_keys(void **state)
{
    (void) state;
    check_refused("abracadabra", KEY);
    check_refused(NULL, KEY);
    check_refused(KEY, NULL);
}

/* Each byte of a HELLO or a HELLO_ACK is edited. Either no session is established, or both sides
 * agree on all parameters. */
static void test_hello_edited(void **state)
{
    const uint64_t begin = sizeof(struct wire_header) + sizeof(struct wire_record);
    const uint64_t key = begin + sizeof(struct kit_hello_wire);
    const uint64_t spare = key + KIT_AUTH_SHARE, code = key + KIT_SECRETS * KIT_AUTH_SHARE;
    uint64_t size = 1;

    (void) state;
    for (uint32_t of_ack = 0; of_ack < 2; of_ack++)
        for (uint64_t at = 0; at < size; at++) {
            struct sim_pair pair;
            struct sim_op send = {0}, receive;
            struct kit_peer *b_at_a, *a_at_b;
            struct frame frame;
            char buf[8];

            keyed_open(&pair, KEY, KEY);
            post(pair.cb, &receive, buf);
            assert_int_equal(
                kit_msg_send_unexpected(pair.ca, &send, "text", 5, NULL, pair.b_at_a, 0, 1), 0);
            if (of_ack)
                sim_poll(pair.cb, NULL, 1);
            take(of_ack ? pair.a : pair.b, &frame);
            size = frame.size;
            frame.data[at] ^= 1;
            sim_inject(of_ack ? pair.a : pair.b, frame.data, frame.size);
            sim_poll(pair.ca, pair.cb, 4);
            b_at_a = &msg_peer_of(pair.b_at_a)->base;
            a_at_b = kit_peer_by_name(&pair.b->endpoint.state->session, "a");
            if (receive.completions != 0) {
                assert_string_equal(buf, "text");
                assert_memory_equal(a_at_b->auth->seal.send, b_at_a->auth->seal.receive,
                                    KIT_AUTH_KEY);
                assert_int_equal(a_at_b->their_incarnation,
                                 pair.a->endpoint.state->session.incarnation);
                assert_int_equal(a_at_b->their_token, kit_peer_token(b_at_a));
                assert_int_equal(b_at_a->their_token, kit_peer_token(a_at_b));
                assert_int_equal(b_at_a->their_mask, a_at_b->mask);
                assert_int_equal(a_at_b->host, pair.a->endpoint.state->session.host_id);
                assert_int_equal(a_at_b->pid, pair.a->endpoint.state->session.pid);
                kit_msg_addr_free(pair.b, receive.source);
                /* These bytes are not used: a HELLO has no codes and no second share, a HELLO_ACK
                 * no second code. */
                assert_true(at < begin || at >= begin + kit_hello_size(b_at_a->session) ||
                            (at >= (of_ack ? code + KIT_AUTH_CODE : spare) &&
                             at < key + sizeof(struct kit_hello_key)));
            } else {
                assert_int_equal(kit_msg_cancel(pair.cb, &receive), 0);
                if (send.completions == 0)
                    assert_int_equal(kit_msg_cancel(pair.ca, &send), 0);
            }
            keyed_close(&pair);
        }
}

/* Both sides connect at the same time: they establish one session with one pair of keys. In half of
 * the cases the first answers find no room, and the session is established before they leave. */
static void test_both_call(void **state)
{
    (void) state;
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t order = i % 4;
        struct sim_pair pair;
        struct sim_op sends[2] = {0}, receives[2];
        const struct kit_peer *peers[2];
        char buf[2][8];

        keyed_open(&pair, KEY, KEY);
        pair.a_at_b = sim_lookup(pair.b, "a");
        post(pair.ca, &receives[0], buf[0]);
        post(pair.cb, &receives[1], buf[1]);
        assert_int_equal(
            kit_msg_send_unexpected(pair.ca, &sends[0], "a", 2, NULL, pair.b_at_a, 0, 1), 0);
        assert_int_equal(
            kit_msg_send_unexpected(pair.cb, &sends[1], "b", 2, NULL, pair.a_at_b, 0, 1), 0);
        pair.a->again = i / 4 % 2;
        pair.b->again = i / 8;
        if (order != 0)
            sim_poll(order == 1 ? pair.ca : pair.cb, NULL, order);
        sim_poll_until(pair.ca, pair.cb, &receives[0]);
        sim_poll_until(pair.cb, pair.ca, &receives[1]);
        assert_string_equal(buf[0], "b");
        assert_string_equal(buf[1], "a");
        peers[0] = &msg_peer_of(pair.b_at_a)->base;
        peers[1] = &msg_peer_of(pair.a_at_b)->base;
        for (uint32_t k = 0; k < 2; k++)
            assert_memory_equal(peers[k]->auth->seal.send, peers[1 - k]->auth->seal.receive,
                                KIT_AUTH_KEY);
        assert_int_equal(refused(pair.a) + refused(pair.b), 0);
        kit_msg_addr_free(pair.a, receives[0].source);
        kit_msg_addr_free(pair.b, receives[1].source);
        keyed_close(&pair);
    }
}

/*
 * An attacker who answers a HELLO can test one guess of the key, and learns only whether it
 * was right. The next attempt has another share, and no part of a HELLO that could depend on the
 * key is repeated.
 */
static void test_one_guess_each(void **state)
{
    struct sim_pair pair;
    uint8_t shares[4][KIT_AUTH_SHARE];
    const uint64_t at =
        sizeof(struct wire_header) + sizeof(struct wire_record) + sizeof(struct kit_hello_wire);

    (void) state;
    keyed_open(&pair, KEY, "abracadabra");
    for (uint32_t i = 0; i < 4; i++) {
        static const uint8_t none[KIT_AUTH_CODE];
        struct sim_op send = {0};
        struct frame frame;

        assert_int_equal(kit_msg_send_unexpected(pair.ca, &send, "x", 2, NULL, pair.b_at_a, 0, 1),
                         0);
        take(pair.b, &frame);
        memcpy(shares[i], frame.data + at, KIT_AUTH_SHARE);
        assert_memory_equal(frame.data + at + KIT_SECRETS * KIT_AUTH_SHARE, none, sizeof(none));
        sim_inject(pair.b, frame.data, frame.size);
        sim_poll_until(pair.cb, pair.ca, &send);
        assert_int_equal(send.status, NA_PLUGIN_PERMISSION);
        for (uint32_t k = 0; k < i; k++)
            assert_memory_not_equal(shares[k], shares[i], KIT_AUTH_SHARE);
        sim_poll(pair.ca, pair.cb, 5);
        while (pair.b->inbox_first != NULL)
            take(pair.b, &frame);
    }
    assert_true(pair.a->endpoint.state->session.refused >= 4);
    assert_true(pair.b->endpoint.state->session.refused >= 1);
    keyed_close(&pair);
}

#define OLD   KEY
#define NEW   "abracadabra"
#define THIRD "shibboleth"

/* Calls from one side, from the other one, or from both at once. With a common key they meet,
 * otherwise each call fails. */
static void check_rotation(const struct key_pair *keys_a, const struct key_pair *keys_b,
                           bool is_good)
{
    for (uint32_t callers = 1; callers <= 3; callers++)
        for (uint32_t order = 0; order < 4; order++) {
            struct sim_op sends[2] = {0}, receives[2];
            struct sim_pair pair;
            char buf[2][8];

            rotating_open(&pair, keys_a, keys_b);
            pair.a_at_b = sim_lookup(pair.b, "a");
            for (uint32_t i = 0; i < 2; i++) {
                const struct way way = way_of(&pair, i);

                post(way.to_context, &receives[i], buf[i]);
                if ((callers >> i & 1) != 0)
                    assert_int_equal(kit_msg_send_unexpected(way.from_context, &sends[i], "x", 2,
                                                             NULL, way.to_at_from, 0, 1),
                                     0);
            }
            if (order != 0)
                sim_poll(order == 1 ? pair.ca : pair.cb, NULL, order);
            for (uint32_t i = 0; i < 2; i++) {
                const struct way way = way_of(&pair, i);

                if ((callers >> i & 1) != 0) {
                    sim_poll_until(pair.ca, pair.cb, is_good ? &receives[i] : &sends[i]);
                    assert_int_equal(sends[i].status, is_good ? 0 : NA_PLUGIN_PERMISSION);
                    assert_int_equal(receives[i].completions, is_good);
                }
                if (receives[i].completions != 0)
                    kit_msg_addr_free(way.to, receives[i].source);
                else
                    assert_int_equal(kit_msg_cancel(way.to_context, &receives[i]), 0);
            }
            if (is_good) {
                const struct way ways[] = {way_of(&pair, 0), way_of(&pair, 1)};

                check_alive(&ways[0]);
                check_alive(&ways[1]);
                assert_int_equal(pair.a->endpoint.state->session.refused +
                                     pair.b->endpoint.state->session.refused,
                                 0);
            }
            keyed_close(&pair);
        }
}

static void test_second_key(void **state)
{
    const struct key_pair before = {OLD, NULL}, mixed = {NEW, OLD}, other = {OLD, NEW},
                          after = {NEW, NULL}, none = {NULL, NULL}, third = {THIRD, NULL},
                          thirds = {THIRD, "mellon"};
    static const char *const words[] = {NEW, THIRD, "mellon"};
    struct kit_auth_secret *secrets[3]; /* kept, so that each is stretched only once */

    (void) state;
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(kit_auth_secret_open("test", words[i], &secrets[i]), 0);
    check_rotation(&before, &mixed, true);
    check_rotation(&mixed, &mixed, true);
    check_rotation(&other, &mixed, true);
    check_rotation(&before, &other, true);
    check_rotation(&after, &mixed, true);
    check_rotation(&before, &after, false);
    check_rotation(&third, &mixed, false);
    check_rotation(&thirds, &mixed, false);
    check_rotation(&none, &none, true);
    for (uint32_t i = 0; i < 3; i++)
        kit_auth_secret_close(secrets[i]);
}

/* A service rotates its key: the processes are restarted with the new key one by one, while the
 * others continue. */
static void test_rotation(void **state)
{
    static const struct key_pair steps[][2] = {{{OLD, NULL}, {OLD, NULL}},
                                               {{OLD, NULL}, {NEW, OLD}},
                                               {{NEW, OLD}, {NEW, OLD}},
                                               {{NEW, NULL}, {NEW, OLD}},
                                               {{NEW, NULL}, {NEW, NULL}}};
    struct sim_pair pair;

    (void) state;
    rotating_open(&pair, &steps[0][0], &steps[0][1]);
    sim_meet(pair.ca, pair.cb, pair.b_at_a, &pair.a_at_b);
    for (uint32_t i = 1; i < 5; i++) {
        struct way way;

        if (i % 2 != 0) { /* b is restarted first, then a */
            kit_msg_addr_free(pair.b, pair.a_at_b);
            sim_close(pair.b, pair.cb);
            sim_poll(pair.ca, NULL, 5);
            pair.b = keyed_node(&pair, "b", &steps[i][1]);
            pair.cb = sim_context(pair.b, 0);
            pair.a_at_b = sim_lookup(pair.b, "a");
        } else {
            kit_msg_addr_free(pair.a, pair.b_at_a);
            sim_close(pair.a, pair.ca);
            sim_poll(pair.cb, NULL, 5);
            pair.a = keyed_node(&pair, "a", &steps[i][0]);
            pair.ca = sim_context(pair.a, 0);
            pair.b_at_a = sim_lookup(pair.a, "b");
        }
        way = way_of(&pair, i % 2);
        check_alive(&way);
        way = way_of(&pair, 1 - i % 2);
        check_alive(&way);
    }
    keyed_close(&pair);
}

/* An endpoint with two keys answers with two shares, and a caller sends one share, under one key:
 * an attacker tests one guess for each key. */
static void test_one_guess_for_each_key(void **state)
{
    const uint64_t at =
        sizeof(struct wire_header) + sizeof(struct wire_record) + sizeof(struct kit_hello_wire);
    static const struct kit_hello_key none;
    const struct key_pair two = {NEW, OLD}, guess = {THIRD, NULL};
    struct kit_hello_key said;
    struct sim_pair pair;
    struct sim_op send = {0};
    struct frame frame;

    (void) state;
    rotating_open(&pair, &two, &guess);
    assert_int_equal(kit_msg_send_unexpected(pair.ca, &send, "x", 2, NULL, pair.b_at_a, 0, 1), 0);
    for (uint32_t i = 0; i < 2; i++) { /* a guess at the first key, then at the second */
        assert_int_equal(send.completions, 0);
        take(pair.b, &frame);
        memcpy(&said, frame.data + at, sizeof(said));
        assert_memory_equal(said.share[1], none.share[1], KIT_AUTH_SHARE);
        assert_memory_equal(said.confirm, none.confirm, sizeof(none.confirm));
        hand_over(pair.b, pair.cb, &frame);
        take(pair.a, &frame);
        hand_over(pair.a, pair.ca, &frame);
    }
    assert_int_equal(send.status, NA_PLUGIN_PERMISSION);
    keyed_close(&pair);
}

/* Forged HELLOs in the name of an endpoint neither displace its own HELLO nor end a call to it. */
static void test_forged_hellos(void **state)
{
    struct sim_pair pair;
    struct sim_op sends[2] = {0}, receives[2];
    struct frame hello, forged;
    char buf[2][8];

    (void) state;
    keyed_open(&pair, KEY, KEY);
    pair.a_at_b = sim_lookup(pair.b, "a");
    post(pair.ca, &receives[0], buf[0]);
    post(pair.cb, &receives[1], buf[1]);
    assert_int_equal(kit_msg_send_unexpected(pair.ca, &sends[0], "x", 2, NULL, pair.b_at_a, 0, 1),
                     0);
    take(pair.b, &hello);
    for (uint32_t i = 0; i < 3; i++) {
        forge(&hello, &forged);
        hand_over(pair.b, pair.cb, &forged);
        take(pair.a, &forged);
    }
    hand_over(pair.b, pair.cb, &hello); /* the answer waits in a's inbox */
    for (uint32_t i = 0; i < 3; i++) {
        forge(&hello, &forged);
        hand_over(pair.b, pair.cb, &forged);
    }
    sim_poll_until(pair.ca, pair.cb, &receives[1]);
    assert_int_equal(sends[0].status, 0);
    kit_msg_addr_free(pair.b, receives[1].source);
    assert_int_equal(kit_msg_cancel(pair.ca, &receives[0]), 0);
    keyed_close(&pair);

    keyed_open(&pair, KEY, KEY);
    pair.a_at_b = sim_lookup(pair.b, "a");
    post(pair.ca, &receives[0], buf[0]);
    assert_int_equal(kit_msg_send_unexpected(pair.cb, &sends[1], "x", 2, NULL, pair.a_at_b, 0, 1),
                     0);
    for (uint32_t i = 0; i < 40; i++) {
        forge(&hello, &forged);
        hand_over(pair.b, pair.cb, &forged);
    }
    sim_poll_until(pair.ca, pair.cb, &receives[0]);
    assert_int_equal(sends[1].status, 0);
    kit_msg_addr_free(pair.a, receives[0].source);
    keyed_close(&pair);
}

#define ANSWERS 40
#define USES    16 /* answers for which one share is used at most */

/* A share is not used for more than a limited number of answers. */
static void test_shares_change(void **state)
{
    struct sim_pair pair;
    struct sim_op send = {0};
    struct frame hello, frame;
    uint8_t shares[ANSWERS][KIT_AUTH_SHARE];
    const uint64_t at =
        sizeof(struct wire_header) + sizeof(struct wire_record) + sizeof(struct kit_hello_wire);

    (void) state;
    keyed_open(&pair, KEY, KEY);
    assert_int_equal(kit_msg_send_unexpected(pair.ca, &send, "x", 2, NULL, pair.b_at_a, 0, 1), 0);
    take(pair.b, &hello);
    for (uint32_t i = 0; i < ANSWERS; i++) {
        forge(&hello, &frame);
        hand_over(pair.b, pair.cb, &frame);
        take(pair.a, &frame);
        memcpy(shares[i], frame.data + at, KIT_AUTH_SHARE);
    }
    for (uint32_t i = 0; i < ANSWERS; i++) {
        uint32_t uses = 0;

        for (uint32_t k = 0; k < ANSWERS; k++)
            uses += memcmp(shares[i], shares[k], KIT_AUTH_SHARE) == 0;
        assert_in_range(uses, 1, USES);
    }
    hand_over(pair.b, pair.cb, &hello);
    sim_poll_until(pair.ca, pair.cb, &send);
    assert_int_equal(send.status, 0);
    keyed_close(&pair);
}

/* Offers under the name of a peer whose address the program holds expire as well. */
static void test_offers_of_known_peers_expire(void **state)
{
    struct sim_pair pair;
    struct sim_op send = {0};
    struct frame hello;

    (void) state;
    keyed_open(&pair, KEY, KEY);
    pair.a_at_b = sim_lookup(pair.b, "a");
    assert_int_equal(kit_msg_send_unexpected(pair.ca, &send, "x", 2, NULL, pair.b_at_a, 0, 1), 0);
    take(pair.b, &hello);
    assert_int_equal(kit_msg_cancel(pair.ca, &send), 0);
    hand_over(pair.b, pair.cb, &hello);
    assert_int_equal(pair.b->endpoint.state->session.offers, 1);
    for (uint32_t i = 0; i < 200 && pair.b->endpoint.state->session.offers != 0; i++) {
        sim_clock_skip += KIT_SESSION_TICK_NS;
        sim_poll(pair.cb, NULL, MSG_POLLS_A_CLOCK);
    }
    assert_int_equal(pair.b->endpoint.state->session.offers, 0);
    keyed_close(&pair);
}

/* For each allocation that fails while a session is established: the message fails or arrives, and
 * no session is half established. */
static void test_offers_without_memory(void **state)
{
    (void) state;
    for (int64_t which = 0; which < 8; which++) {
        struct sim_pair pair;
        struct sim_op send = {0}, receive;
        struct frame frame;
        char buf[8];

        keyed_open(&pair, KEY, KEY);
        post(pair.cb, &receive, buf);
        assert_int_equal(kit_msg_send_unexpected(pair.ca, &send, "x", 2, NULL, pair.b_at_a, 0, 1),
                         0);
        take(pair.b, &frame);
        hand_over(pair.b, pair.cb, &frame);
        /* The address has changed meanwhile, so that accepting it allocates memory. */
        kit_msg_lock(&pair.b->endpoint);
        assert_int_equal(
            kit_peer_set_raw(kit_peer_by_name(&pair.b->endpoint.state->session, "a"), "other", 5),
            0);
        kit_msg_unlock(&pair.b->endpoint);
        take(pair.a, &frame);
        hand_over(pair.a, pair.ca, &frame);
        take(pair.b, &frame);
        sim_allocation_to_fail = which;
        hand_over(pair.b, pair.cb, &frame);
        sim_allocation_to_fail = -1;
        assert_int_equal(pair.b->endpoint.state->session.offers, 0); /* accepted, or failed */
        assert_int_equal(kit_peer_by_name(&pair.b->endpoint.state->session, "a")->phase ==
                             KIT_PEER_READY,
                         which != 0);
        sim_poll(pair.ca, pair.cb, 20);
        if (receive.completions == 0)
            assert_int_equal(kit_msg_cancel(pair.cb, &receive), 0);
        else
            kit_msg_addr_free(pair.b, receive.source);
        keyed_close(&pair);
    }
}

/* With the same key, an endpoint with encryption and one without refuse each other, and the sender
 * gets an error. */
static void test_one_encrypts(void **state)
{
    (void) state;
    for (uint32_t i = 0; i < 2; i++) {
        struct na_plugin_init init = sim_init();
        struct sim_op send = {0}, receive;
        struct sim_pair pair;
        char buf[8];

        memset(&pair, 0, sizeof(pair));
        sim_net_setup(&pair.net);
        init.auth_key = KEY;
        init.encrypt = i;
        pair.a = sim_open(&pair.net, "a", &init);
        init.encrypt = 1 - i;
        pair.b = sim_open(&pair.net, "b", &init);
        pair.ca = sim_context(pair.a, 0);
        pair.cb = sim_context(pair.b, 0);
        pair.b_at_a = sim_lookup(pair.a, "b");
        post(pair.cb, &receive, buf);
        assert_int_equal(
            kit_msg_send_unexpected(pair.ca, &send, "plain", 6, NULL, pair.b_at_a, 0, 1), 0);
        sim_poll_until(pair.ca, pair.cb, &send);
        assert_int_equal(send.status, NA_PLUGIN_PERMISSION);
        assert_int_equal(pair.b->endpoint.state->session.refused, 1);
        assert_int_equal(kit_msg_cancel(pair.cb, &receive), 0);
        keyed_close(&pair);
    }
}

/* A HELLO in the name of a connected peer, with the key or without, does not end its session. */
static void test_stranger_with_a_name(void **state)
{
    static const char *const keys[] = {KEY, "abracadabra", NULL};
    struct sim_pair *pair = *state;
    const struct way way = way_of(pair, 0);

    for (uint32_t i = 0; i < 3; i++) {
        struct sim_pair other;
        struct sim_op send = {0}, wait = {0};
        struct frame frame;
        char buf[8];

        assert_int_equal(kit_msg_recv_expected(pair->cb, &wait, buf, 8, NULL, pair->a_at_b, 0, 5),
                         0);
        keyed_open(&other, keys[i], KEY);
        assert_int_equal(kit_msg_send_unexpected(other.ca, &send, "x", 2, NULL, other.b_at_a, 0, 1),
                         0);
        take(other.b, &frame);
        for (uint32_t k = 0; k < 40; k++)
            hand_over(pair->b, pair->cb, &frame);
        while (pair->a->inbox_first != NULL)
            hand_over(pair->a, pair->ca, &(struct frame){.size = 0});
        assert_int_equal(wait.completions, 0);
        assert_int_equal(pair->b->endpoint.state->deferrals.count, 0);
        check_alive(&way);
        assert_int_equal(kit_msg_cancel(pair->cb, &wait), 0);
        if (send.completions == 0)
            assert_int_equal(kit_msg_cancel(other.ca, &send), 0);
        kit_msg_addr_free(other.a, other.b_at_a);
        sim_close(other.a, other.ca);
        sim_close(other.b, other.cb);
    }
}

/* Offers of peers that never prove the key are kept for a limited time. */
static void test_offers_are_forgotten(void **state)
{
    struct sim_pair *pair = *state;
    struct msg_endpoint *inside = pair->b->endpoint.state;
    const uint32_t peers = inside->session.peer_count;

    pair->b->lose = 20;
    for (uint32_t i = 0; i < 20; i++) {
        struct kit_hello_wire wire = {.token = htole64(UINT64_C(0x100000001) + i),
                                      .incarnation = htole64(1000 + i),
                                      .flags = htole32(kit_session_flags(&inside->session)),
                                      .epoch = htole32(1),
                                      .name_size = htole16(3)};
        struct wire_header header = {
            .magic = htole16(WIRE_MAGIC), .version = WIRE_VERSION, .flags = WIRE_HAS_HELLO};
        struct wire_record record = {.kind = htole16(WIRE_HELLO)};
        const uint32_t size = sizeof(wire) + sizeof(struct kit_hello_key) + 3;
        struct kit_auth_exchange exchange;
        struct frame frame = {.size = sizeof(header) + wire_record_size(size)};
        uint8_t *place = frame.data;

        kit_auth_exchange_begin(kept, &exchange);
        header.size = htole32((uint32_t) frame.size);
        record.size = htole32(size);
        memcpy(place, &header, sizeof(header));
        memcpy(place += sizeof(header), &record, sizeof(record));
        memcpy(place += sizeof(record), &wire, sizeof(wire));
        memcpy(place += sizeof(wire), exchange.share, sizeof(exchange.share));
        place += sizeof(struct kit_hello_key);
        place[0] = 'x';
        place[1] = (uint8_t) ('a' + i / 10);
        place[2] = (uint8_t) ('0' + i % 10);
        hand_over(pair->b, pair->cb, &frame);
    }
    assert_int_equal(inside->session.offers, 20);
    assert_int_equal(inside->session.refused, 0);
    for (uint32_t i = 0; i < 200 && inside->session.peer_count > peers; i++) {
        sim_clock_skip += KIT_SESSION_TICK_NS;
        sim_poll(pair->cb, NULL, MSG_POLLS_A_CLOCK);
    }
    assert_int_equal(inside->session.offers, 0);
    assert_int_equal(inside->session.refused, 20);
    assert_int_equal(inside->session.peer_count, peers);
}

/* An offer that is displaced, or fails with its peer, counts as refused, too. */
static void test_offers_are_counted(void **state)
{
    struct sim_pair pair;
    struct sim_op send = {0};
    struct frame hello, forged;

    (void) state;
    keyed_open(&pair, KEY, KEY);
    assert_int_equal(kit_msg_send_unexpected(pair.ca, &send, "x", 2, NULL, pair.b_at_a, 0, 1), 0);
    take(pair.b, &hello);
    for (uint32_t i = 0; i < 68; i++) {
        forge(&hello, &forged);
        hand_over(pair.b, pair.cb, &forged);
    }
    assert_int_equal(pair.b->endpoint.state->session.offers, 64);
    assert_int_equal(refused(pair.b), 4);
    kit_msg_lock(&pair.b->endpoint);
    kit_peer_failed(kit_peer_by_name(&pair.b->endpoint.state->session, "a"), NA_PLUGIN_HOSTUNREACH,
                    "the test says so");
    kit_msg_unlock(&pair.b->endpoint);
    sim_poll(pair.cb, NULL, 2);
    assert_int_equal(refused(pair.b), 68);
    assert_int_equal(kit_msg_cancel(pair.ca, &send), 0);
    keyed_close(&pair);
}

/* A HELLO_ACK is delivered to another process, or reflected to its sender. */
static void test_hello_ack_for_nobody(void **state)
{
    struct sim_pair pair;
    struct sim_op send = {0}, receive;
    struct frame frame;
    char buf[8];

    (void) state;
    keyed_open(&pair, KEY, KEY);
    post(pair.cb, &receive, buf);
    assert_int_equal(kit_msg_send_unexpected(pair.ca, &send, "x", 2, NULL, pair.b_at_a, 0, 1), 0);
    take(pair.b, &frame);
    hand_over(pair.b, pair.cb, &frame);
    take(pair.a, &frame);
    assert_int_equal(refused(pair.b), 0);
    hand_over(pair.b, pair.cb, &frame);
    assert_int_equal(refused(pair.b), 1);
    hand_over(pair.a, pair.ca, &frame);
    sim_poll_until(pair.ca, pair.cb, &receive);
    assert_int_equal(receive.status, 0);
    kit_msg_addr_free(pair.b, receive.source);
    assert_int_equal(refused(pair.a), 0);
    keyed_close(&pair);
}

/* The frames from b to a, with the random parts masked: tokens, sequence numbers, shares and
 * codes. */
struct transcript {
    struct frame frames[8];
    uint32_t count;
};

static void transcript_mask(struct frame *frame)
{
    const uint64_t at = sizeof(struct wire_header) + sizeof(struct wire_record);
    struct kit_hello_wire wire;

    assert_true(frame->size >= at);
    memset(frame->data + offsetof(struct wire_header, token), 0,
           sizeof(struct wire_header) - offsetof(struct wire_header, token));
    if (frame->size < at + sizeof(wire) + sizeof(struct kit_hello_key))
        return;
    memcpy(&wire, frame->data + at, sizeof(wire));
    wire.token = wire.incarnation = 0;
    wire.mask = 0;
    memcpy(frame->data + at, &wire, sizeof(wire));
    memset(frame->data + at + sizeof(wire), 0, sizeof(struct kit_hello_key));
}

static void transcript_take(struct transcript *transcript, struct sim_pair *pair)
{
    sim_poll(pair->cb, NULL, 3);
    while (pair->a->inbox_first != NULL) {
        struct frame *frame = &transcript->frames[transcript->count++];

        assert_true(transcript->count <= 8);
        take(pair->a, frame);
        transcript_mask(frame);
    }
}

/* Makes a frame with the token that b announced, and a guessed seal. */
static void seal_guess(const struct frame *answer, struct frame *guess, uint8_t fill)
{
    struct wire_header header;
    struct kit_hello_wire wire;

    memcpy(&header, answer->data, sizeof(header));
    memcpy(&wire, answer->data + sizeof(header) + sizeof(struct wire_record), sizeof(wire));
    guess->size = 200;
    memset(guess->data, fill, guess->size);
    header.flags = WIRE_IS_SEALED;
    header.size = htole32(200);
    header.token = wire.token;
    header.incarnation = htole32((uint32_t) le64toh(wire.incarnation));
    header.sequence = htole32(le32toh(wire.mask) + 1);
    memcpy(guess->data, &header, sizeof(header));
}

/* Calls b under a guessed key, takes the answer, sends a frame with a guessed seal, and waits until
 * the offer expires. */
static void guess_as_caller(const char *key, struct transcript *transcript)
{
    struct sim_pair pair;
    struct sim_op send = {0};
    struct frame frame, guess;

    keyed_open(&pair, key, KEY);
    assert_int_equal(kit_msg_send_unexpected(pair.ca, &send, "x", 2, NULL, pair.b_at_a, 0, 1), 0);
    take(pair.b, &frame);
    hand_over(pair.b, pair.cb, &frame);
    take(pair.a, &frame);
    seal_guess(&frame, &guess, (uint8_t) key[0]);
    transcript_mask(&frame);
    transcript->frames[0] = frame;
    transcript->count = 1;
    hand_over(pair.b, pair.cb, &guess);
    transcript_take(transcript, &pair);
    for (uint32_t i = 0; i < 200; i++) {
        sim_clock_skip += KIT_SESSION_TICK_NS;
        sim_poll(pair.cb, NULL, MSG_POLLS_A_CLOCK);
    }
    transcript_take(transcript, &pair);
    assert_true(refused(pair.b) >= 2); /* the seal, and the HELLO that nothing followed */
    if (send.completions == 0)
        assert_int_equal(kit_msg_cancel(pair.ca, &send), 0);
    keyed_close(&pair);
}

/* Is called by b, and answers under a guessed key, which is refused. */
static void guess_as_called(const char *key, struct transcript *transcript)
{
    struct sim_pair pair;
    struct sim_op send = {0};
    struct frame frame;

    keyed_open(&pair, key, KEY);
    pair.a_at_b = sim_lookup(pair.b, "a");
    assert_int_equal(kit_msg_send_unexpected(pair.cb, &send, "x", 2, NULL, pair.a_at_b, 0, 1), 0);
    take(pair.a, &frame);
    transcript->frames[0] = frame;
    transcript_mask(&transcript->frames[0]);
    transcript->count = 1;
    hand_over(pair.a, pair.ca, &frame);
    take(pair.b, &frame);
    hand_over(pair.b, pair.cb, &frame);
    transcript_take(transcript, &pair);
    assert_int_equal(send.status, NA_PLUGIN_PERMISSION);
    assert_int_equal(transcript->count, 2); /* the HELLO, and the refusal */
    keyed_close(&pair);
}

static void transcripts_compare(const struct transcript *one, const struct transcript *two)
{
    assert_int_equal(one->count, two->count);
    for (uint32_t i = 0; i < one->count; i++) {
        assert_int_equal(one->frames[i].size, two->frames[i].size);
        assert_memory_equal(one->frames[i].data, two->frames[i].data, one->frames[i].size);
    }
}

/* An attacker who does not prove the key receives the same frames for each guess, including the
 * right one. Shares and codes look random (test_auth.c), and all other bytes are equal. */
static void test_guesses_look_alike(void **state)
{
    static const char *const guesses[] = {KEY, "open sesame!", "abracadabra"};
    static struct transcript transcripts[3];

    (void) state;
    for (uint32_t i = 0; i < 3; i++)
        guess_as_caller(guesses[i], &transcripts[i]);
    transcripts_compare(&transcripts[0], &transcripts[1]);
    transcripts_compare(&transcripts[0], &transcripts[2]);
    for (uint32_t i = 1; i < 3; i++)
        guess_as_called(guesses[i], &transcripts[i]);
    transcripts_compare(&transcripts[1], &transcripts[2]);
}

/* Two endpoints with AES use it. An endpoint without AES communicates with both kinds. */
static void test_ciphers(void **state)
{
    (void) state;
    for (uint32_t have = 0; have < 4; have++) {
        struct sim_pair pair;
        struct way ways[2];

        keyed_open(&pair, KEY, KEY);
        for (uint32_t i = 0; i < 2; i++)
            if ((have >> i & 1) == 0)
                (i == 0 ? pair.a : pair.b)->endpoint.state->session.has_aes = false;
        sim_meet(pair.ca, pair.cb, pair.b_at_a, &pair.a_at_b);
        for (uint32_t i = 0; i < 2; i++) {
            ways[i] = way_of(&pair, i);
            check_alive(&ways[i]);
            assert_int_equal(((const struct kit_peer *) ways[i].to_at_from)->auth->seal.is_aes,
                             have == 3 && kit_auth_has_aes());
        }
        assert_int_equal(refused(pair.a) + refused(pair.b), 0);
        keyed_close(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_keys),
        cmocka_unit_test(test_hello_edited),
        cmocka_unit_test(test_both_call),
        cmocka_unit_test(test_one_guess_each),
        cmocka_unit_test(test_second_key),
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_ciphers),
        cmocka_unit_test(test_one_guess_for_each_key),
        cmocka_unit_test(test_forged_hellos),
        cmocka_unit_test(test_shares_change),
        cmocka_unit_test(test_offers_of_known_peers_expire),
        cmocka_unit_test(test_offers_without_memory),
        cmocka_unit_test(test_one_encrypts),
        cmocka_unit_test_setup_teardown(test_stranger_with_a_name, met_setup, met_teardown),
        cmocka_unit_test_setup_teardown(test_offers_are_forgotten, met_setup, met_teardown),
        cmocka_unit_test(test_offers_are_counted),
        cmocka_unit_test(test_hello_ack_for_nobody),
        cmocka_unit_test(test_guesses_look_alike),
    };

    return cmocka_run_group_tests(tests, key_keep, key_drop);
}
