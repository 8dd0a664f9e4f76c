/* SPDX-License-Identifier: BSD-3-Clause */
/* Control records that no correct origin or target sends: memory is neither read nor written. */

#include "rma_net.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define BOTH   (NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE)
#define ROUNDS 200000u

struct message {
    struct rma_record record;
    uint32_t tags[RMA_WINDOW_MAX + 1];
};

struct fixture {
    struct net net;
    struct net_op op;
    uint8_t bytes[NET_MEMORY], kept[NET_MEMORY];
    struct kit_region *local, *region, *remote;
};

static void fixture_open(struct fixture *fixture, uint32_t flags)
{
    struct net *net = &fixture->net;

    net_open(net, NULL);
    net_op_init(&fixture->op);
    memset(fixture->op.memory, 1, NET_MEMORY);
    memset(fixture->bytes, 2, NET_MEMORY);
    memset(fixture->kept, 2, NET_MEMORY);
    fixture->local = net_region(&net->ends[0], fixture->op.memory, NET_MEMORY, BOTH);
    fixture->region = net_region(&net->ends[1], fixture->bytes, NET_MEMORY, flags);
    fixture->remote = net_remote(&net->ends[0], &net->ends[1], fixture->region);
}

/* Closes the network, and frees the handles with it. */
static void fixture_close(struct fixture *fixture)
{
    net_run(&fixture->net);
    net_close(&fixture->net);
    net_op_free(&fixture->op);
}

static struct message message_make(const struct fixture *fixture, uint8_t kind, uint8_t flags)
{
    struct message message = {.record = {
                                  .magic = htole32(RMA_MAGIC),
                                  .version = RMA_VERSION,
                                  .kind = kind,
                                  .flags = flags,
                                  .transfer = htole64(77),
                                  .memory = htole64(fixture->region->id),
                                  .key = fixture->region->key,
                                  .length = htole64(100),
                                  .piece_size = htole32(NET_PIECE),
                              }};

    return message;
}

/* Delivers a record from `from` to `to`. */
static void message_give(struct net_end *from, struct net_end *to, const struct message *message)
{
    kit_rma_control(to->ts, from, message,
                    sizeof(message->record) + 4u * message->record.tag_count);
}

static struct kit_rma_counters counters_of(const struct net_end *end)
{
    struct kit_rma_counters counters;

    kit_rma_counters_get(end->ts, &counters);
    return counters;
}

/* The REQUEST is refused, and leaves no state. */
static void check_refused(struct fixture *fixture, const struct message *message)
{
    struct net_end *ends = fixture->net.ends;
    uint64_t refused = counters_of(&ends[1]).refused;

    message_give(&ends[0], &ends[1], message);
    assert_int_equal(counters_of(&ends[1]).refused, refused + 1);
    assert_int_equal(counters_of(&ends[1]).targets, 0);
    assert_int_equal(counters_of(&ends[1]).sends + counters_of(&ends[1]).receives, 0);
    assert_memory_equal(fixture->bytes, fixture->kept, NET_MEMORY);
    net_run(&fixture->net);
    assert_true(net_end_is_idle(&ends[1]));
}

static void forged_requests_are_refused(void **state)
{
    struct fixture *fixture = malloc(sizeof(*fixture));

    (void) state;
    assert_non_null(fixture);
    fixture_open(fixture, BOTH);
    for (unsigned int is_put = 0; is_put < 2; is_put++) {
        const struct message good =
            message_make(fixture, RMA_REQUEST, RMA_FROM_ORIGIN | (is_put != 0 ? RMA_IS_PUT : 0));
        struct message bad;

        for (unsigned int bit = 0; bit < 64; bit++) {
            bad = good;
            bad.record.memory ^= UINT64_C(1) << bit;
            check_refused(fixture, &bad);
        }
        for (unsigned int bit = 0; bit < 128; bit++) {
            bad = good;
            bad.record.key.word[bit / 64] ^= UINT64_C(1) << bit % 64;
            check_refused(fixture, &bad);
        }
        bad = good;
        bad.record.length = htole64(NET_MEMORY + 1);
        check_refused(fixture, &bad);
        bad.record.length = htole64(UINT64_MAX);
        check_refused(fixture, &bad);
        bad.record.length = 0;
        check_refused(fixture, &bad);
        bad = good;
        bad.record.offset = htole64(NET_MEMORY - 99);
        check_refused(fixture, &bad);
        bad.record.offset = htole64(UINT64_MAX - 50);
        check_refused(fixture, &bad);
        bad = good;
        bad.record.piece_size = 0;
        check_refused(fixture, &bad);
        bad.record.piece_size = htole32(1);
        check_refused(fixture, &bad);
        bad.record.piece_size = htole32(2 * NET_PIECE);
        check_refused(fixture, &bad);
        /* A put must bring no tags; a get brings some in the valid range, at most one for each
         * piece. */
        bad = good;
        bad.record.tag_count = is_put != 0 ? 1 : 2;
        bad.tags[0] = bad.tags[1] = htole32(NET_FIRST_TAG);
        check_refused(fixture, &bad);
        bad.record.tag_count = 1;
        bad.tags[0] = htole32(NET_FIRST_TAG - 1);
        check_refused(fixture, &bad);
        bad.tags[0] = htole32(NET_FIRST_TAG + RMA_TAGS_MIN);
        check_refused(fixture, &bad);
    }
    fixture_close(fixture);
    free(fixture);
}

/* The record is dropped before anything is looked up for it. */
static void check_dropped(struct fixture *fixture, const struct message *message, size_t size)
{
    struct net_end *ends = fixture->net.ends;
    const uint64_t bad = counters_of(&ends[1]).records_bad;

    kit_rma_control(ends[1].ts, &ends[0], message, size);
    assert_int_equal(counters_of(&ends[1]).records_bad, bad + 1);
    assert_int_equal(counters_of(&ends[1]).records_stale, 0);
    assert_int_equal(counters_of(&ends[1]).targets, 0);
    assert_false(net_step(&fixture->net));
}

static void what_is_no_record_is_dropped(void **state)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    const size_t size = sizeof(struct rma_record);
    struct message good, bad;

    (void) state;
    assert_non_null(fixture);
    fixture_open(fixture, BOTH);
    good = message_make(fixture, RMA_REQUEST, RMA_FROM_ORIGIN);
    for (size_t less = 0; less < size; less++)
        check_dropped(fixture, &good, less);
    check_dropped(fixture, &good, size + 4);
    for (unsigned int bit = 0; bit < 32; bit++) {
        bad = good;
        bad.record.magic ^= UINT32_C(1) << bit;
        check_dropped(fixture, &bad, size);
    }
    bad = good;
    bad.record.version++;
    check_dropped(fixture, &bad, size);
    bad = good;
    bad.record.kind = RMA_KINDS;
    check_dropped(fixture, &bad, size);
    bad = good;
    bad.record.flags = 0; /* valid from an origin only */
    check_dropped(fixture, &bad, size);
    bad.record.flags = RMA_FROM_ORIGIN | KIT_RMA_MOVERS << RMA_MOVER_SHIFT;
    check_dropped(fixture, &bad, size);
    bad = good;
    bad.record.tag_count = 1;
    check_dropped(fixture, &bad, size);
    bad.record.tag_count = RMA_WINDOW_MAX + 1;
    check_dropped(fixture, &bad, size + 4 * (RMA_WINDOW_MAX + 1));
    fixture_close(fixture);
    free(fixture);
}

/* A second transfer with the same id is refused, and the first one continues. */
static void an_id_is_used_once_at_a_time(void **state)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    struct net_end *ends = fixture->net.ends;
    struct message message;

    (void) state;
    assert_non_null(fixture);
    fixture_open(fixture, BOTH);
    message = message_make(fixture, RMA_REQUEST, RMA_FROM_ORIGIN);
    message_give(&ends[0], &ends[1], &message);
    message_give(&ends[0], &ends[1], &message);
    assert_int_equal(counters_of(&ends[1]).records_bad, 1);
    assert_int_equal(counters_of(&ends[1]).targets, 1);
    kit_rma_peer_failed(ends[1].ts, &ends[0], NA_PLUGIN_HOSTUNREACH);
    fixture_close(fixture);
    free(fixture);
}

/* The target checks the rights of the region, whatever the origin's handle says. */
static void access_is_checked_at_the_target(void **state)
{
    struct fixture *fixture = malloc(sizeof(*fixture));

    (void) state;
    assert_non_null(fixture);
    for (unsigned int is_put = 0; is_put < 2; is_put++) {
        struct net_end *ends = fixture->net.ends;

        fixture_open(fixture, is_put != 0 ? NA_PLUGIN_MEM_READ : NA_PLUGIN_MEM_WRITE);
        assert_int_equal(net_start(&ends[0], &ends[1], &fixture->op, fixture->local,
                                   fixture->remote, 0, 5000, is_put != 0),
                         0);
        net_run(&fixture->net);
        net_op_check(&fixture->op, NA_PLUGIN_PERMISSION);
        assert_memory_equal(fixture->bytes, fixture->kept, NET_MEMORY);
        assert_int_equal(fixture->op.memory[0], 1);
        fixture_close(fixture);
    }
    free(fixture);
}

/* A correct origin with a wrong range, or with a deregistered region, gets the reason. */
static void origins_are_told_why(void **state)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    struct net_end *ends = fixture->net.ends;

    (void) state;
    assert_non_null(fixture);
    fixture_open(fixture, BOTH);
    for (unsigned int is_put = 0; is_put < 2; is_put++) {
        const struct kit_rma_request request = {
            .peer = &ends[1],
            .local = fixture->local,
            .remote = fixture->remote,
            .remote_offset = NET_MEMORY - 10,
            .length = 5000,
            .is_put = is_put,
            .cookie = &fixture->op,
        };

        fixture->op.done = 0;
        assert_int_equal(kit_rma_start(ends[0].ts, &request, &fixture->op.transfer), 0);
        net_run(&fixture->net);
        net_op_check(&fixture->op, NA_PLUGIN_OVERFLOW);
    }
    assert_true(kit_rma_mem_deregister(ends[1].ts, fixture->region));
    for (unsigned int is_put = 0; is_put < 2; is_put++) {
        assert_int_equal(net_start(&ends[0], &ends[1], &fixture->op, fixture->local,
                                   fixture->remote, 0, 5000, is_put != 0),
                         0);
        net_run(&fixture->net);
        net_op_check(&fixture->op, NA_PLUGIN_PERMISSION);
    }
    assert_memory_equal(fixture->bytes, fixture->kept, NET_MEMORY);
    fixture_close(fixture);
    free(fixture);
}

/* A third process that knows the id of a transfer can neither end it nor take part in it. */
static void others_cannot_interfere(void **state)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    struct net_end *ends = fixture->net.ends;

    (void) state;
    assert_non_null(fixture);
    for (unsigned int is_put = 0; is_put < 2; is_put++) {
        for (unsigned int count = 0; count < 10; count++) {
            uint64_t id;

            fixture_open(fixture, BOTH);
            assert_int_equal(net_start(&ends[0], &ends[1], &fixture->op, fixture->local,
                                       fixture->remote, 0, 5 * NET_PIECE, is_put != 0),
                             0);
            id = fixture->op.transfer->id;
            for (unsigned int i = 0; i < count; i++)
                (void) net_step(&fixture->net);
            for (uint8_t kind = 1; kind < RMA_KINDS; kind++) {
                for (uint8_t flags = 0; flags < 4; flags++) {
                    struct message message = message_make(fixture, kind, flags);

                    message.record.transfer = htole64(id);
                    message.record.tag_count = kind == RMA_GRANT;
                    message.tags[0] = htole32(NET_FIRST_TAG);
                    message_give(&ends[2], &ends[0], &message);
                    message_give(&ends[2], &ends[1], &message);
                }
            }
            net_run(&fixture->net);
            net_op_check(&fixture->op, NA_PLUGIN_SUCCESS);
            assert_memory_equal(fixture->bytes, fixture->op.memory, 5 * NET_PIECE);
            fixture_close(fixture);
        }
    }
    free(fixture);
}

/* The peer of a transfer violates the protocol: the transfer may fail, but nothing else happens. */
static void partners_cannot_do_harm(void **state)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    struct net_end *ends = fixture->net.ends;

    (void) state;
    assert_non_null(fixture);
    for (unsigned int is_put = 0; is_put < 2; is_put++) {
        for (unsigned int variant = 0; variant < RMA_KINDS * 8u; variant++) {
            const uint8_t kind = (uint8_t) (variant / 8);
            const uint64_t numbers[] = {0, 2, 1000000, UINT64_MAX};
            struct message message;
            unsigned int side = variant % 2;

            fixture_open(fixture, BOTH);
            assert_int_equal(net_start(&ends[0], &ends[1], &fixture->op, fixture->local,
                                       fixture->remote, 0, 5 * NET_PIECE, is_put != 0),
                             0);
            for (unsigned int i = 0; i < 3; i++)
                (void) net_step(&fixture->net);
            message = message_make(
                fixture, kind,
                (uint8_t) ((side == 1 ? RMA_FROM_ORIGIN : 0) | (is_put != 0 ? RMA_IS_PUT : 0)));
            message.record.transfer = htole64(fixture->op.transfer->id);
            message.record.number = htole64(numbers[variant / 2 % 4]);
            message.record.tag_count = kind == RMA_GRANT ? 16 : 0;
            for (unsigned int i = 0; i < 16; i++)
                message.tags[i] = htole32(NET_FIRST_TAG + i);
            message.record.status = (int32_t) htole32(UINT32_C(0x80000000));
            message_give(&ends[1 - side], &ends[side], &message);
            while (net_step(&fixture->net))
                continue;
            fixture->net.lost_receives = 0;
            assert_true(fixture->op.done <= 1);
            if (fixture->op.done != 0 && fixture->op.status != 0)
                assert_true(fixture->op.status > 0 && fixture->op.status <= NA_PLUGIN_HOSTFIREWALL);
            kit_rma_peer_failed(ends[0].ts, &ends[1], NA_PLUGIN_HOSTUNREACH);
            kit_rma_peer_failed(ends[1].ts, &ends[0], NA_PLUGIN_HOSTUNREACH);
            net_run(&fixture->net);
            assert_int_equal(fixture->op.done, 1);
            fixture_close(fixture);
        }
    }
    free(fixture);
}

/* Records that only the other role may send, or that belong to another kind of transfer, have no
 * effect. */
static void records_out_of_role(void **state)
{
    static const struct {
        uint8_t side, is_put, says_put, kind;
    } variants[] = {
        {0, 1, 1, RMA_STOP},   {0, 1, 1, RMA_ALIVE}, {0, 0, 0, RMA_GRANT},  {0, 0, 0, RMA_CANCEL},
        {0, 0, 0, RMA_DONE},   {0, 0, 0, RMA_ALIVE}, {1, 1, 1, RMA_GRANT},  {1, 1, 1, RMA_DONE},
        {1, 1, 1, RMA_CANCEL}, {1, 1, 1, RMA_PROBE}, {1, 0, 0, RMA_STOP},   {1, 0, 0, RMA_DONE},
        {1, 0, 0, RMA_PROBE},  {0, 1, 0, RMA_GRANT}, {0, 1, 0, RMA_CANCEL}, {0, 0, 1, RMA_STOP},
        {1, 0, 1, RMA_CANCEL}, {1, 1, 0, RMA_STOP},
    };
    struct fixture *fixture = malloc(sizeof(*fixture));
    struct net_end *ends = fixture->net.ends;

    (void) state;
    assert_non_null(fixture);
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        const uint8_t side = variants[i].side;
        struct message message;
        uint64_t bad;

        fixture_open(fixture, BOTH);
        assert_int_equal(net_start(&ends[0], &ends[1], &fixture->op, fixture->local,
                                   fixture->remote, 0, 5 * NET_PIECE, variants[i].is_put != 0),
                         0);
        (void) net_step(&fixture->net); /* the REQUEST */
        message = message_make(fixture, variants[i].kind,
                               (uint8_t) ((side == 1 ? RMA_FROM_ORIGIN : 0) |
                                          (variants[i].says_put != 0 ? RMA_IS_PUT : 0)));
        message.record.transfer = htole64(fixture->op.transfer->id);
        bad = counters_of(&ends[side]).records_bad;
        message_give(&ends[1 - side], &ends[side], &message);
        assert_int_equal(counters_of(&ends[side]).records_bad, bad + 1);
        net_run(&fixture->net);
        net_op_check(&fixture->op, NA_PLUGIN_SUCCESS);
        assert_memory_equal(fixture->bytes, fixture->op.memory, 5 * NET_PIECE);
        fixture_close(fixture);
    }
    free(fixture);
}

/* A question about an unknown transfer is answered, since the peer waits for the answer. */
static void unknown_transfers_are_answered(void **state)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    struct net_end *ends = fixture->net.ends;
    struct message message;

    (void) state;
    assert_non_null(fixture);
    fixture_open(fixture, BOTH);
    message = message_make(fixture, RMA_CANCEL, RMA_FROM_ORIGIN);
    message_give(&ends[0], &ends[1], &message);
    net_run(&fixture->net);
    assert_int_equal(counters_of(&ends[1]).records_stale, 1);
    /* the answer, which matches no transfer */
    assert_int_equal(counters_of(&ends[0]).records_stale, 1);
    message = message_make(fixture, RMA_PROBE, RMA_IS_PUT);
    message_give(&ends[1], &ends[0], &message);
    net_run(&fixture->net);
    assert_int_equal(counters_of(&ends[0]).records_stale, 2);
    assert_int_equal(counters_of(&ends[1]).records_stale, 2);
    fixture_close(fixture);
    free(fixture);
}

/* The origin accepts tags only in order, only in the valid range, and no more than the window. DONE
 * is an error before the last piece was sent. */
static void grants_out_of_order(void **state)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    struct net_end *ends = fixture->net.ends;

    (void) state;
    assert_non_null(fixture);
    for (unsigned int variant = 0; variant < 5; variant++) {
        struct message message;

        fixture_open(fixture, BOTH);
        assert_int_equal(net_start(&ends[0], &ends[1], &fixture->op, fixture->local,
                                   fixture->remote, 0, NET_MEMORY, true),
                         0);
        (void) net_step(&fixture->net); /* the REQUEST */
        fixture->net.piece_again = variant == 3 ? 10 : 0;
        (void) net_step(&fixture->net); /* the first tags */
        assert_true(fixture->op.transfer->granted > 1 && fixture->op.transfer->granted < 17);
        message = message_make(fixture, variant == 4 ? RMA_DONE : RMA_GRANT, RMA_IS_PUT);
        message.record.transfer = htole64(fixture->op.transfer->id);
        message.record.number = htole64(fixture->op.transfer->granted + (variant == 0));
        message.record.tag_count = variant != 1 && variant != 4;
        if (variant == 3) /* no piece was sent, and one tag more than the window is granted */
            message.record.tag_count = (uint8_t) (17 - fixture->op.transfer->granted);
        for (unsigned int i = 0; i < message.record.tag_count; i++)
            message.tags[i] = htole32(variant == 2 ? NET_FIRST_TAG - 1 : NET_FIRST_TAG + 100 + i);
        message_give(&ends[1], &ends[0], &message);
        net_run(&fixture->net);
        net_op_check(&fixture->op, NA_PLUGIN_PROTOCOL_ERROR);
        fixture_close(fixture);
    }
    free(fixture);
}

/* The number of transfers at a target is bounded; further requests are refused. */
static void floods_are_bounded(void **state)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    struct net_end *ends = fixture->net.ends;

    (void) state;
    assert_non_null(fixture);
    fixture_open(fixture, BOTH);
    for (unsigned int i = 0; i < RMA_TARGET_MAX + 100; i++) {
        struct message message = message_make(fixture, RMA_REQUEST, RMA_FROM_ORIGIN);

        message.record.transfer = htole64(i);
        message_give(&ends[0], &ends[1], &message);
    }
    assert_int_equal(counters_of(&ends[1]).targets, RMA_TARGET_MAX);
    kit_rma_peer_failed(ends[1].ts, &ends[0], NA_PLUGIN_HOSTUNREACH);
    assert_int_equal(counters_of(&ends[1]).targets, 0);
    fixture_close(fixture);
    free(fixture);
}

static uint32_t random_next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t) (*seed >> 33);
}

/* Random bytes, and records with some bytes changed, in the middle of correct traffic. */
static void random_bytes(void **state)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    struct net_end *ends = fixture->net.ends;
    uint64_t seed = 42;

    (void) state;
    assert_non_null(fixture);
    fixture_open(fixture, BOTH);
    for (unsigned int i = 0; i < ROUNDS; i++) {
        union {
            struct message message;
            uint8_t bytes[KIT_RMA_CONTROL_MAX];
        } noise = {.message = message_make(fixture, (uint8_t) (random_next(&seed) % 8),
                                           (uint8_t) (random_next(&seed) % 4))};
        uint32_t size = random_next(&seed) % (KIT_RMA_CONTROL_MAX + 1);

        if (i % 2 == 0) {
            for (uint32_t k = 0; k < sizeof(noise.bytes); k++)
                noise.bytes[k] = (uint8_t) random_next(&seed);
        } else {
            noise.message.record.key.word[0] ^= htole64(1); /* with a key that never matches */
            noise.message.record.transfer = htole64(random_next(&seed) % 8);
            noise.message.record.tag_count = (uint8_t) (random_next(&seed) % 20);
            noise.bytes[random_next(&seed) % 64] = (uint8_t) random_next(&seed);
            noise.message.record.key.word[1] ^= htole64(UINT64_C(1) << 40);
            size = 64u + 4u * noise.message.record.tag_count;
        }
        if (size > KIT_RMA_CONTROL_MAX)
            size = KIT_RMA_CONTROL_MAX;
        kit_rma_control(ends[1].ts, &ends[i / 2 % 2 == 0 ? 0 : 2], noise.bytes, size);
        (void) net_step(&fixture->net);
    }
    net_run(&fixture->net);
    assert_memory_equal(fixture->bytes, fixture->kept, NET_MEMORY);
    assert_int_equal(counters_of(&ends[1]).targets, 0);
    assert_true(counters_of(&ends[1]).records_bad > ROUNDS / 4);
    for (unsigned int is_put = 0; is_put < 2; is_put++) {
        assert_int_equal(net_start(&ends[0], &ends[1], &fixture->op, fixture->local,
                                   fixture->remote, 0, NET_MEMORY, is_put == 0),
                         0);
        net_run(&fixture->net);
        net_op_check(&fixture->op, NA_PLUGIN_SUCCESS);
        assert_memory_equal(fixture->bytes, fixture->op.memory, NET_MEMORY);
    }
    fixture_close(fixture);
    free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_record_is_dropped),
        cmocka_unit_test(an_id_is_used_once_at_a_time),
        cmocka_unit_test(forged_requests_are_refused),
        cmocka_unit_test(access_is_checked_at_the_target),
        cmocka_unit_test(origins_are_told_why),
        cmocka_unit_test(others_cannot_interfere),
        cmocka_unit_test(partners_cannot_do_harm),
        cmocka_unit_test(records_out_of_role),
        cmocka_unit_test(unknown_transfers_are_answered),
        cmocka_unit_test(grants_out_of_order),
        cmocka_unit_test(floods_are_bounded),
        cmocka_unit_test(random_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
