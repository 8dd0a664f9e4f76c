/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages longer than a frame: order, cancel, death during a message, forged parts. */

#include "msg_sim.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST 65536u

/* Like sim_pair_setup(), with messages longer than a frame. */
static int setup(void **state)
{
    struct na_plugin_init init = sim_init();

    init.max_unexpected_size = LONGEST;
    init.max_expected_size = LONGEST;
    return sim_pair_setup_with(state, &init, 0);
}

static uint8_t *pattern(uint32_t seed)
{
    uint8_t *data = malloc(LONGEST);

    assert_non_null(data);
    for (uint32_t i = 0; i < LONGEST; i++)
        data[i] = (uint8_t) (i * 7 + i / 251 + seed);
    return data;
}

/* Checks that a long message arrives. */
static void check_arrives(struct sim_pair *pair, uint32_t size)
{
    struct sim_op send = {0}, receive = {0};
    uint8_t *out = pattern(size), *in = calloc(1, LONGEST);

    assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receive, in, LONGEST, NULL), 0);
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &send, out, size, NULL, pair->b_at_a, 0, 5),
                     0);
    sim_poll_until(pair->ca, pair->cb, &receive);
    sim_poll_until(pair->ca, pair->cb, &send);
    assert_int_equal(send.status, 0);
    assert_int_equal(receive.status, 0);
    assert_int_equal(receive.size, size);
    assert_int_equal(receive.tag, 5);
    assert_memory_equal(in, out, size);
    kit_msg_addr_free(pair->b, receive.source);
    free(out);
    free(in);
}

/* Checks that no partly received message is kept. */
static void check_none_begun(const struct sim_pair *pair)
{
    const struct kit_parts *parts = &pair->b->endpoint.state->parts;

    assert_int_equal(parts->count, parts->kept);
}

static void test_all_sizes_around_frames(void **state)
{
    struct sim_pair *pair = *state;

    for (uint32_t frames = 1; frames < 17; frames += 3)
        for (uint32_t size = frames * SIM_FRAME_MAX - 90 * frames; size <= frames * SIM_FRAME_MAX;
             size += 7)
            check_arrives(pair, size < LONGEST ? size : LONGEST);
    check_arrives(pair, LONGEST);
    check_none_begun(pair);
}

/* Short and long messages of both kinds; the fabric is slow, or sometimes finds no room. */
static void test_order(void **state)
{
    enum {
        COUNT = 24
    };
    struct sim_pair *pair = *state;
    uint8_t *out = pattern(1), *in = calloc(COUNT, LONGEST);
    struct sim_op sends[COUNT] = {0}, receives[COUNT] = {0};

    pair->b->has_no_cookies = true;
    pair->a->delay = 2;
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint64_t size = i % 3 == 0 ? 40 : LONGEST - 1000 * i;

        pair->a->again = i % 5 == 0 ? 3 : 0;
        if (i % 2 == 0) {
            assert_int_equal(
                kit_msg_recv_unexpected(pair->cb, &receives[i], in + i * LONGEST, LONGEST, NULL),
                0);
            assert_int_equal(kit_msg_send_unexpected(pair->ca, &sends[i], out + i, size - i, NULL,
                                                     pair->b_at_a, 0, i),
                             0);
        } else {
            assert_int_equal(kit_msg_recv_expected(pair->cb, &receives[i], in + i * LONGEST,
                                                   LONGEST, NULL, pair->a_at_b, 0, i),
                             0);
            assert_int_equal(kit_msg_send_expected(pair->ca, &sends[i], out + i, size - i, NULL,
                                                   pair->b_at_a, 0, i),
                             0);
        }
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint64_t size = i % 3 == 0 ? 40 : LONGEST - 1000 * i;

        sim_poll_until(pair->ca, pair->cb, &receives[i]);
        for (uint32_t later = i + 1; later < COUNT && i % 3 == 2; later++)
            if (receives[later].completions != 0)
                assert_int_equal(later, i + 1); /* the short one shared the last frame */
        sim_poll_until(pair->ca, pair->cb, &sends[i]);
        assert_int_equal(receives[i].status, 0);
        assert_int_equal(receives[i].size, size - i);
        assert_int_equal(receives[i].tag, i);
        assert_memory_equal(in + i * LONGEST, out + i, size - i);
        if (i % 2 == 0)
            kit_msg_addr_free(pair->b, receives[i].source);
    }
    free(out);
    free(in);
    check_none_begun(pair);
}

/* Without a receive a long message is deferred whole, like others. */
static void test_nobody_waits(void **state)
{
    struct sim_pair *pair = *state;
    uint8_t *out = pattern(2), *in = calloc(1, LONGEST);
    struct sim_op sends[400] = {0}, receives[400] = {0};

    for (uint32_t i = 0; i < 400; i++) /* more than the budget for deferred messages */
        assert_int_equal(
            kit_msg_send_unexpected(pair->ca, &sends[i], out, LONGEST, NULL, pair->b_at_a, 0, i),
            0);
    sim_poll(pair->ca, pair->cb, 20000);
    assert_in_range(pair->b->endpoint.state->deferrals.bytes, 1, MSG_DEFERRED_BYTES);
    for (uint32_t i = 0; i < 400; i++) {
        assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receives[i], in, LONGEST, NULL), 0);
        sim_poll_until(pair->ca, pair->cb, &receives[i]);
        assert_int_equal(receives[i].tag, i);
        assert_int_equal(receives[i].size, LONGEST);
        assert_memory_equal(in, out, LONGEST);
        kit_msg_addr_free(pair->b, receives[i].source);
    }
    sim_poll_until(pair->ca, pair->cb, &sends[399]);
    free(out);
    free(in);
    check_none_begun(pair);
}

/* A receive that is too short ends with an error, and the next message is complete. */
static void test_short_receive(void **state)
{
    struct sim_pair *pair = *state;
    uint8_t *out = pattern(3), in[64];
    struct sim_op send = {0}, receive = {0};

    assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receive, in, sizeof(in), NULL), 0);
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &send, out, 20000, NULL, pair->b_at_a, 0, 0),
                     0);
    sim_poll_until(pair->ca, pair->cb, &receive);
    assert_int_equal(receive.status, NA_PLUGIN_MSGSIZE);
    sim_poll_until(pair->ca, pair->cb, &send);
    free(out);
    check_arrives(pair, 30000);
}

/* A send is cancelled when some of its parts have left: no further part is sent, the memory belongs
 * to the caller at once, and later messages arrive. */
static void test_cancel_in_the_middle(void **state)
{
    struct sim_pair *pair = *state;
    uint8_t *out = pattern(4), in[64];
    struct sim_op send = {0}, receive = {0};

    for (uint32_t polls = 0; polls < 12; polls++) {
        memset(&send, 0, sizeof(send));
        pair->a->delay = 1;
        pair->a->again = polls % 3;
        assert_int_equal(
            kit_msg_send_unexpected(pair->ca, &send, out, LONGEST, NULL, pair->b_at_a, 0, 0), 0);
        sim_poll(pair->ca, pair->cb, polls);
        assert_int_equal(send.completions, 0);
        assert_int_equal(polls % 2 == 0 ? kit_msg_cancel(pair->ca, &send)
                                        : kit_msg_cancel_trusted(pair->ca, &send),
                         0);
        assert_int_equal(send.completions, 1);
        assert_int_equal(send.status, NA_PLUGIN_CANCELED);
        memset(out, 0, LONGEST);
        sim_poll(pair->ca, pair->cb, 10);
        assert_int_equal(pair->a->endpoint.state->session.waiting, 0);
        pair->a->delay = 0;
        if (polls % 4 == 0)
            check_arrives(pair, 100);
        check_arrives(pair, 50000);
    }
    assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receive, in, sizeof(in), NULL), 0);
    sim_poll(pair->ca, pair->cb, 10);
    assert_int_equal(receive.completions, 0); /* nothing of the cancelled message was received */
    kit_msg_cancel(pair->cb, &receive);
    free(out);
    check_none_begun(pair);
}

/* The sender dies during a message; a process that takes its name starts with a new message. */
static void test_death_in_the_middle(void **state)
{
    struct sim_pair *pair = *state;
    struct na_plugin_init init = sim_init();
    uint8_t *out = pattern(5);
    struct sim_op send = {0};

    pair->a->delay = 1;
    assert_int_equal(
        kit_msg_send_unexpected(pair->ca, &send, out, LONGEST, NULL, pair->b_at_a, 0, 0), 0);
    sim_poll(pair->ca, pair->cb, 6);
    assert_int_equal(send.completions, 0);
    assert_int_equal(pair->b->endpoint.state->parts.count, 1);
    assert_non_null(msg_peer_of(pair->a_at_b)->parted);
    sim_kill(pair->a);
    kit_msg_addr_free(pair->a, pair->b_at_a);
    sim_close(pair->a, pair->ca);
    assert_int_equal(send.completions, 1);
    init.max_unexpected_size = init.max_expected_size = LONGEST;
    pair->a = sim_open(&pair->net, "a", &init);
    pair->ca = sim_context(pair->a, 0);
    pair->b_at_a = sim_lookup(pair->a, "b");
    check_arrives(pair, 60000);
    free(out);
    check_none_begun(pair);
}

/* The receiver fails during a message: the send completes once, and later ones work. */
static void test_receiver_is_lost(void **state)
{
    struct sim_pair *pair = *state;
    uint8_t *out = pattern(6);
    struct sim_op send = {0};

    pair->a->delay = 1;
    assert_int_equal(
        kit_msg_send_unexpected(pair->ca, &send, out, LONGEST, NULL, pair->b_at_a, 0, 0), 0);
    sim_poll(pair->ca, pair->cb, 6);
    pair->a->sent_status = NA_PLUGIN_HOSTUNREACH;
    sim_poll_until(pair->ca, pair->cb, &send);
    assert_int_equal(send.status, NA_PLUGIN_HOSTUNREACH);
    pair->a->sent_status = 0;
    pair->a->delay = 0;
    sim_poll(pair->ca, pair->cb, 50);
    check_arrives(pair, 60000);
    free(out);
    check_none_begun(pair);
}

/* A message is dropped when one of its frames was lost. */
static void test_lost_frame(void **state)
{
    struct sim_pair *pair = *state;
    uint8_t *out = pattern(7), in[64];
    struct sim_op send = {0}, receive = {0};

    assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receive, in, sizeof(in), NULL), 0);
    pair->a->delay = 1;
    assert_int_equal(
        kit_msg_send_unexpected(pair->ca, &send, out, LONGEST, NULL, pair->b_at_a, 0, 0), 0);
    sim_poll(pair->ca, pair->cb, 4);
    pair->a->lose = 1;
    sim_poll(pair->ca, pair->cb, 200);
    assert_int_equal(send.completions, 1);
    assert_int_equal(receive.completions, 0);
    kit_msg_cancel(pair->cb, &receive);
    pair->a->delay = 0;
    check_arrives(pair, 60000);
    free(out);
    check_none_begun(pair);
}

static void test_to_ourselves(void **state)
{
    struct sim_pair *pair = *state;
    struct na_plugin_addr *self = NULL;
    uint8_t *out = pattern(8), *in = calloc(1, LONGEST);
    struct sim_op send = {0}, receive = {0};

    assert_int_equal(kit_msg_addr_self(&pair->a[0], &self), 0);
    assert_int_equal(kit_msg_recv_unexpected(pair->ca, &receive, in, LONGEST, NULL), 0);
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &send, out, LONGEST, NULL, self, 0, 1), 0);
    sim_poll_until(pair->ca, NULL, &receive);
    sim_poll_until(pair->ca, NULL, &send);
    assert_int_equal(receive.size, LONGEST);
    assert_memory_equal(in, out, LONGEST);
    kit_msg_addr_free(pair->a, receive.source);
    kit_msg_addr_free(pair->a, self);
    free(out);
    free(in);
}

/* When the receiver has no memory for the rest of a message, the sender gets an error. */
static void test_no_memory(void **state)
{
    struct sim_pair *pair = *state;
    struct kit_parts *parts = &pair->b->endpoint.state->parts;
    const uint64_t bytes_max = parts->bytes_max;
    uint8_t *out = pattern(9), *in = calloc(1, LONGEST);
    struct sim_op send = {0}, receive = {0};

    assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receive, in, LONGEST, NULL), 0);
    parts->bytes_max = LONGEST - 1; /* the budget for all partly received messages */
    assert_int_equal(
        kit_msg_send_unexpected(pair->ca, &send, out, LONGEST, NULL, pair->b_at_a, 0, 0), 0);
    sim_poll(pair->ca, pair->cb, 200);
    assert_int_equal(receive.completions, 0);
    assert_int_equal(parts->count, 0);
    kit_msg_cancel(pair->cb, &receive);
    if (send.completions == 0)
        kit_msg_cancel(pair->ca, &send);
    parts->bytes_max = bytes_max;
    sim_poll(pair->ca, pair->cb, 200);
    check_arrives(pair, 60000);
    free(out);
    free(in);
}

/* A process that is known by two names has a queue for each name, and their messages take turns. */
static void test_two_names(void **state)
{
    enum {
        COUNT = 6
    };
    struct sim_pair *pair = *state;
    struct na_plugin_addr *alias = sim_lookup(pair->a, "alias-of-b");
    struct sim_op sends[COUNT] = {0}, receives[COUNT] = {0}, first = {0}, came = {0};
    uint8_t *out, *in, small[8];

    out = pattern(11);
    in = calloc(COUNT, LONGEST);
    assert_int_equal(kit_msg_recv_unexpected(pair->cb, &came, small, sizeof(small), NULL), 0);
    assert_int_equal(kit_msg_send_unexpected(pair->ca, &first, "q", 2, NULL, alias, 0, 1), 0);
    sim_poll_until(pair->ca, pair->cb, &came);
    kit_msg_addr_free(pair->b, came.source);
    sim_poll(pair->ca, pair->cb, 10);
    pair->a->delay = 1;
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(
            kit_msg_recv_unexpected(pair->cb, &receives[i], in + i * LONGEST, LONGEST, NULL), 0);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(kit_msg_send_unexpected(pair->ca, &sends[i], out, 60000, NULL,
                                                 i % 2 != 0 ? alias : pair->b_at_a, 0, i),
                         0);
    for (uint32_t i = 0; i < COUNT; i++) {
        sim_poll_until(pair->ca, pair->cb, &sends[i]);
        sim_poll_until(pair->ca, pair->cb, &receives[i]);
        assert_int_equal(receives[i].size, 60000);
        assert_memory_equal(in + i * LONGEST, out, 60000);
        kit_msg_addr_free(pair->b, receives[i].source);
    }
    kit_msg_addr_free(pair->a, alias);
    free(out);
    free(in);
}

/* When there is no room, the oldest partly received message is dropped, so that a peer that never
 * completes one does not block the others. */
static void test_oldest_makes_room(void **state)
{
    struct sim_pair *pair = *state;
    struct na_plugin_init init = sim_init();
    struct na_plugin_class *slow;
    struct na_plugin_context *context;
    struct na_plugin_addr *b, *slow_at_b;
    struct kit_parts *parts = &pair->b->endpoint.state->parts;
    uint8_t *out = pattern(10);
    struct sim_op send = {0};

    init.max_unexpected_size = init.max_expected_size = LONGEST;
    slow = sim_open(&pair->net, "slow", &init);
    context = sim_context(slow, 0);
    b = sim_lookup(slow, "b");
    sim_meet(context, pair->cb, b, &slow_at_b);
    kit_msg_addr_free(pair->b, slow_at_b);
    slow->delay = 1;
    assert_int_equal(kit_msg_send_unexpected(context, &send, out, LONGEST, NULL, b, 0, 0), 0);
    sim_poll(context, pair->cb, 5); /* too few for the message to complete */
    assert_int_equal(parts->count, 1);
    parts->bytes_max = parts->longest; /* room for one message */
    check_arrives(pair, 60000);
    sim_poll_until(context, pair->cb, &send);
    kit_msg_addr_free(slow, b);
    sim_close(slow, context);
    free(out);
}

/* Delivers a frame of one record as if a had sent it. */
static void inject_part(struct sim_pair *pair, const struct wire_part *part, uint32_t size,
                        uint32_t record_size)
{
    const struct msg_peer *peer = msg_peer_of(pair->a_at_b);
    struct wire_record record = {.kind = WIRE_PART, .size = record_size, .tag = 1};
    uint8_t frame[SIM_FRAME_MAX] = {0};
    struct wire_part of_queue = *part;
    struct wire_header header = {
        .magic = WIRE_MAGIC,
        .version = WIRE_VERSION,
        .token = peer->base.index | (uint64_t) peer->base.nonce << 32,
        .incarnation = (uint32_t) pair->b->endpoint.state->session.incarnation,
        .sequence = peer->base.mask, /* not counted */
    };

    header.size = (uint32_t) (sizeof(header) + sizeof(record) + size);
    memcpy(frame, &header, sizeof(header));
    memcpy(frame + sizeof(header), &record, sizeof(record));
    of_queue.queue = msg_peer_of(pair->b_at_a)->base.index;
    memcpy(frame + sizeof(header) + sizeof(record), &of_queue, sizeof(of_queue));
    sim_inject(pair->b, frame, header.size);
    sim_poll(pair->cb, NULL, 1);
}

static void test_forged_parts(void **state)
{
    static const struct wire_part parts[] = {
        {WIRE_UNEXPECTED, LONGEST + 1, 0, 0},
        {WIRE_UNEXPECTED, UINT32_MAX, 0, 0},
        {WIRE_UNEXPECTED, 10, 0, 0},
        {WIRE_UNEXPECTED, 1000, 1000, 0},
        {WIRE_UNEXPECTED, 1000, UINT32_MAX, 0},
        {WIRE_UNEXPECTED, 1000, 500, 0},
        {WIRE_EXPECTED, LONGEST, LONGEST - 1, 0},
        {WIRE_CONTROL, 1000, 0, 0},
        {0, 1000, 0, 0},
        {WIRE_PART, 1000, 0, 0},
        {UINT32_MAX, UINT32_MAX, UINT32_MAX, 0},
    };
    const struct wire_part first = {WIRE_UNEXPECTED, 1000, 0, 0},
                           other = {WIRE_EXPECTED, 1000, 64, 0},
                           again = {WIRE_UNEXPECTED, 1000, 32, 0};
    struct sim_pair *pair = *state;
    struct sim_op receive = {0};
    char in[2000];

    if (sim_key() != NULL) {
        print_message("not run: with a key, parts cannot be forged\n");
        skip();
    }
    assert_int_equal(kit_msg_recv_unexpected(pair->cb, &receive, in, sizeof(in), NULL), 0);
    for (uint32_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        inject_part(pair, &parts[i], sizeof(first) + 64, sizeof(first) + 64);
        inject_part(pair, &parts[i], sizeof(first), sizeof(first)); /* no bytes */
        inject_part(pair, &parts[i], 8, 8);                         /* not even a complete header */
        inject_part(pair, &parts[i], 8, 80);                        /* longer than its frame */
    }
    check_none_begun(pair);
    inject_part(pair, &first, sizeof(first) + 64, sizeof(first) + 64);
    inject_part(pair, &other, sizeof(first) + 64, sizeof(first) + 64);
    inject_part(pair, &again, sizeof(first) + 64, sizeof(first) + 64);
    assert_int_equal(msg_peer_of(pair->a_at_b)->parted[0]->filled, 64);
    assert_int_equal(receive.completions, 0);
    kit_msg_cancel(pair->cb, &receive);
    check_arrives(pair, 60000);
    check_none_begun(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_sizes_around_frames, setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_order, setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_nobody_waits, setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_short_receive, setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_cancel_in_the_middle, setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_death_in_the_middle, setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_receiver_is_lost, setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_lost_frame, setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_to_ourselves, setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_two_names, setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_oldest_makes_room, setup, sim_pair_teardown),
        cmocka_unit_test_setup_teardown(test_forged_parts, setup, sim_pair_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
