/* SPDX-License-Identifier: BSD-3-Clause */
/* Invalid frames: truncated, with forged lengths, mutated, random. */

#include "kit_base.h"
#include "msg_sim.h"

#include <stdlib.h>
#include <string.h>

#define MUTATIONS 100000u

/* Takes a frame from a out of the inbox of b. */
static uint64_t take_frame(struct na_plugin_class *node, uint8_t *frame)
{
    struct sim_packet *packet = node->inbox_first;
    uint64_t size;

    assert_non_null(packet);
    node->inbox_first = packet->next;
    if (node->inbox_first == NULL)
        node->inbox_last = NULL;
    size = packet->size;
    memcpy(frame, packet->data, size);
    free(packet);
    return size;
}

/* Injects a copy in an allocation of exactly that size, so that AddressSanitizer detects an
 * overrun. */
static void hand_over(struct sim_pair *pair, const uint8_t *frame, uint64_t size)
{
    sim_inject(pair->b, frame, size);
    sim_poll(pair->cb, NULL, 1);
}

/* Receives and discards what has arrived, and checks that everything works as before. */
static void check_alive(struct sim_pair *pair)
{
    struct msg_endpoint *inside = pair->b->endpoint.state;
    char buf[2048];

    while (pair->b->inbox_first != NULL)
        sim_poll(pair->cb, pair->ca, 1);
    for (uint32_t i = 0;
         i < 100000 && (inside->deferrals.count != 0 || inside->deferred_count != 0); i++) {
        struct sim_op receive = {0};

        assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receive, buf, sizeof(buf), NULL), 0);
        assert_int_equal(receive.completions, 1);
        if (receive.status == 0)
            kit_msg_addr_free(pair->b, receive.source);
    }
    assert_int_equal(inside->deferrals.count, 0);
    assert_int_equal(inside->deferred_count, 0);
    sim_poll(pair->ca, pair->cb, 50);
    kit_msg_addr_free(pair->a, pair->b_at_a);
    pair->b_at_a = sim_lookup(pair->a, "b");
    sim_meet(pair->ca, pair->cb, pair->b_at_a, NULL);
}

/* Makes a frame with messages of both kinds and a control record; also a HELLO if `with_hello`. */
static uint64_t make_frame(struct sim_pair *pair, uint8_t *frame, bool with_hello)
{
    struct kit_endpoint *endpoint = &pair->a->endpoint;
    struct sim_op sends[4] = {0};
    uint64_t size;

    if (with_hello)
        kit_msg_addr_free(pair->a, sim_lookup(pair->a, "b"));
    pair->a->again = 1;
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(kit_msg_send_unexpected(pair->ca, &sends[i], "twelve bytes", 12, NULL,
                                                 pair->b_at_a, 0, i),
                         0);
    assert_int_equal(
        kit_msg_send_expected(pair->ca, &sends[3], "five", 5, NULL, pair->b_at_a, 0, 4), 0);
    kit_msg_lock(endpoint);
    assert_int_equal(
        kit_msg_control_send(endpoint, &msg_peer_of(pair->b_at_a)->base, 3, "control", 8), 0);
    kit_msg_unlock(endpoint);
    sim_poll(pair->ca, NULL, 2);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(sends[i].completions, 1);
    size = take_frame(pair->b, frame);
    assert_null(pair->b->inbox_first);
    return size;
}

static void test_truncated(void **state)
{
    struct sim_pair *pair = *state;
    uint8_t frame[SIM_FRAME_MAX], cut[SIM_FRAME_MAX];
    struct sim_op receive = {0};
    char buf[8];

    assert_int_equal(kit_msg_recv_expected(pair->cb, &receive, buf, 8, NULL, pair->a_at_b, 0, 4),
                     0);
    for (uint32_t hello = 0; hello < 2; hello++) {
        uint64_t size = make_frame(pair, frame, hello != 0);

        for (uint32_t i = 0; i < size; i++) {
            uint32_t shorter = i;

            hand_over(pair, frame, i);
            memcpy(cut, frame, size); /* the same with the truncated size in the header */
            memcpy(cut + 4, &shorter, 4);
            hand_over(pair, cut, i);
            sim_poll(pair->ca, NULL, 1);
        }
    }
    kit_msg_cancel(pair->cb, &receive);
    check_alive(pair);
}

static void test_forged_lengths(void **state)
{
    static const uint32_t values[] = {0,          1,          7,          8,          15,
                                      16,         100,        0x7fffffff, 0x80000000, 0xfffffff0,
                                      0xfffffff7, 0xfffffff8, 0xffffffff};
    struct sim_pair *pair = *state;
    uint8_t frame[SIM_FRAME_MAX], forged[SIM_FRAME_MAX];

    for (uint32_t hello = 0; hello < 2; hello++) {
        uint64_t size = make_frame(pair, frame, hello != 0);

        for (uint32_t offset = 0; offset + 4 <= size; offset += 2) {
            for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
                memcpy(forged, frame, size);
                memcpy(forged + offset, &values[i], 4);
                hand_over(pair, forged, size);
                sim_poll(pair->ca, NULL, 1);
            }
        }
    }
    check_alive(pair);
}

static void test_other_protocols(void **state)
{
    struct sim_pair *pair = *state;
    const struct msg_endpoint *inside = pair->b->endpoint.state;
    uint8_t frame[SIM_FRAME_MAX], other[SIM_FRAME_MAX];
    uint64_t size = make_frame(pair, frame, false);
    uint64_t bad = inside->session.bad, stale = inside->counters.frames_stale;

    for (uint32_t i = 0; i < 4; i++) { /* magic, version, flags */
        memcpy(other, frame, size);
        other[i] ^= 0x40;
        hand_over(pair, other, size);
        assert_int_equal(inside->session.bad, ++bad);
    }
    for (uint32_t i = 8; i < 20; i++) { /* token, incarnation */
        memcpy(other, frame, size);
        other[i] ^= 0x40;
        hand_over(pair, other, size);
        assert_int_equal(inside->counters.frames_stale, ++stale);
    }
    assert_int_equal(pair->b->endpoint.state->deferrals.count, 0);
    check_alive(pair);
}

/* A compact frame, which has a single message. */
static void test_compact(void **state)
{
    struct sim_pair *pair = *state;
    struct msg_endpoint *inside = pair->b->endpoint.state;
    struct sim_op send = {0};
    uint8_t frame[SIM_FRAME_MAX], other[SIM_FRAME_MAX];
    uint64_t size, bad = inside->session.bad, stale = inside->counters.frames_stale;

    assert_int_equal(
        kit_msg_send_unexpected(pair->ca, &send, "twelve bytes", 12, NULL, pair->b_at_a, 0, 9), 0);
    size = take_frame(pair->b, frame);
    assert_int_equal(size, sizeof(struct wire_compact) + 12);
    assert_int_equal(frame[0], WIRE_COMPACT);
    /* A sequence number that equals the mask: not counted. */
    memcpy(frame + offsetof(struct wire_compact, sequence), &msg_peer_of(pair->a_at_b)->base.mask,
           4);
    for (uint32_t i = 8; i < 16; i++) { /* index, check */
        memcpy(other, frame, size);
        other[i] ^= 0x40;
        hand_over(pair, other, size);
        assert_int_equal(inside->counters.frames_stale, ++stale);
    }
    for (uint32_t i = 0; i < size; i++) {
        hand_over(pair, frame, i);
        if (i < sizeof(struct wire_compact))
            bad++;
        else
            stale++;
        assert_int_equal(inside->session.bad, bad);
        assert_int_equal(inside->counters.frames_stale, stale);
    }
    for (uint32_t kind = 0; kind < 256; kind++) {
        memcpy(other, frame, size);
        other[1] = (uint8_t) kind;
        if (kind == WIRE_UNEXPECTED || kind == WIRE_EXPECTED)
            continue;
        hand_over(pair, other, size);
        assert_int_equal(inside->session.bad, ++bad);
    }
    memcpy(other, frame, size);
    other[3] = 200; /* context */
    hand_over(pair, other, size);
    assert_int_equal(inside->session.bad, ++bad);
    assert_int_equal(inside->deferrals.count, 0);
    hand_over(pair, frame, size);
    assert_int_equal(inside->deferrals.count, 1);
    sim_poll(pair->ca, NULL, 1);
    assert_int_equal(send.completions, 1);
    check_alive(pair);
}

/* A HELLO with a context that does not exist, with our own incarnation, or with our own name. */
static void test_hellos_that_lie(void **state)
{
    struct sim_pair *pair = *state;
    struct msg_endpoint *inside = pair->b->endpoint.state;
    uint8_t frame[SIM_FRAME_MAX], other[SIM_FRAME_MAX];
    uint64_t size = make_frame(pair, frame, true);
    const size_t card = sizeof(struct wire_header) + sizeof(struct wire_record);
    const uint64_t zero = 0, stranger = 12345;

    memcpy(other, frame, size);
    memcpy(other + card + offsetof(struct kit_hello_wire, incarnation),
           &inside->session.incarnation, 8);
    hand_over(pair, other, size);
    memcpy(other + card + offsetof(struct kit_hello_wire, incarnation), &zero, 8);
    hand_over(pair, other, size);
    memcpy(other + card + offsetof(struct kit_hello_wire, incarnation), &stranger, 8);
    other[card + sizeof(struct kit_hello_wire)] = 'b';
    hand_over(pair, other, size);
    other[card + sizeof(struct kit_hello_wire)] = '\n';
    hand_over(pair, other, size);
    assert_int_equal(inside->deferrals.count, 0);
    assert_int_equal(inside->session.peer_count, 2);
    other[card + sizeof(struct kit_hello_wire)] = 'z';
    hand_over(pair, other, size);
    assert_int_equal(inside->deferrals.count, 3);
    assert_int_equal(inside->session.peer_count, 3);
    check_alive(pair);
}

static void test_mutations(void **state)
{
    struct sim_pair *pair = *state;
    uint8_t frames[2][SIM_FRAME_MAX], mutated[SIM_FRAME_MAX];
    uint64_t sizes[2];

    srand(42);
    for (uint32_t i = 0; i < 2; i++)
        sizes[i] = make_frame(pair, frames[i], i != 0);
    for (uint32_t i = 0; i < MUTATIONS; i++) {
        uint32_t which = (uint32_t) rand() % 2;
        uint64_t size = sizes[which];
        uint32_t changes = 1 + (uint32_t) rand() % 4;

        memcpy(mutated, frames[which], size);
        for (uint32_t k = 0; k < changes; k++)
            mutated[(uint64_t) rand() % size] ^= (uint8_t) (1u << (rand() % 8));
        if (rand() % 8 == 0) {
            uint32_t shorter;

            size = (uint64_t) rand() % (size + 1);
            shorter = (uint32_t) size;
            memcpy(mutated + 4, &shorter, 4);
        }
        sim_inject(pair->b, mutated, size);
        if (i % 8 == 0)
            sim_poll(pair->cb, pair->ca, 1);
        if (i % 5000 == 0) {
            sim_clock_skip += UINT64_C(2000000000);
            check_alive(pair);
        }
    }
    check_alive(pair);
}

/* A peer that knows its own token, and even one half of another peer's, cannot send in the name of
 * the other one. */
static void test_forged_tokens(void **state)
{
    struct sim_pair *pair = *state;
    struct msg_endpoint *inside = pair->b->endpoint.state;
    const struct msg_peer *peer = msg_peer_of(pair->a_at_b);
    struct na_plugin_addr *others[8];
    const uint32_t index = peer->base.index, early = inside->deferrals.count;
    uint32_t base = (uint32_t) kit_digest(&index, sizeof(index)) ^ peer->base.nonce;
    uint32_t masks = 0, related = 0, sequence;
    uint8_t frame[SIM_FRAME_MAX];
    struct sim_op send = {0};
    uint64_t size;

    for (uint32_t i = 0; i < 8; i++) {
        char name[] = {'p', (char) ('0' + i), '\0'};
        const struct msg_peer *other;

        assert_int_equal(kit_msg_peer_lookup(&pair->b->endpoint, name, NULL, 0, &others[i]), 0);
        other = msg_peer_of(others[i]);
        related += (uint32_t) kit_digest(&other->base.index, sizeof(other->base.index)) ==
                       (other->base.nonce ^ base) ||
                   other->base.nonce - peer->base.nonce < 16;
        masks += other->base.mask == peer->base.mask;
    }
    assert_int_equal(related, 0);
    assert_int_equal(masks, 0);
    for (uint32_t i = 0; i < 8; i++)
        kit_msg_addr_free(pair->b, others[i]);
    assert_int_equal(
        kit_msg_send_unexpected(pair->ca, &send, "twelve bytes", 12, NULL, pair->b_at_a, 0, 9), 0);
    size = take_frame(pair->b, frame);
    assert_int_equal(frame[0], WIRE_COMPACT);
    memcpy(&sequence, frame + offsetof(struct wire_compact, sequence), 4);
    sequence -= peer->base.mask; /* as without a mask */
    memcpy(frame + offsetof(struct wire_compact, sequence), &sequence, 4);
    hand_over(pair, frame, size);
    assert_int_equal(inside->deferrals.count, early);
    sim_poll(pair->ca, NULL, 1);
    check_alive(pair);
}

static void test_noise(void **state)
{
    struct sim_pair *pair = *state;
    uint8_t noise[256];
    uint32_t size = sizeof(noise);

    srand(7);
    for (uint32_t i = 0; i < 20000; i++) {
        struct wire_header header = {.magic = WIRE_MAGIC, .version = WIRE_VERSION};

        for (uint32_t k = 0; k < sizeof(noise); k++)
            noise[k] = (uint8_t) rand();
        size = (uint32_t) rand() % (uint32_t) sizeof(noise);
        if (i % 2 == 0 && size >= sizeof(header)) { /* passes the check of the header */
            header.size = size;
            header.flags = i % 4 == 0 ? WIRE_HAS_HELLO : 0;
            header.token = msg_peer_of(pair->a_at_b)->base.index |
                           (uint64_t) msg_peer_of(pair->a_at_b)->base.nonce << 32;
            header.incarnation = (uint32_t) pair->b->endpoint.state->session.incarnation;
            memcpy(noise, &header, sizeof(header));
        }
        hand_over(pair, noise, size);
    }
    check_alive(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_truncated, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_forged_lengths, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_other_protocols, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_compact, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_hellos_that_lie, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_mutations, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_forged_tokens, sim_pair_setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_noise, sim_pair_setup, sim_pair_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
