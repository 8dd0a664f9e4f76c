/* SPDX-License-Identifier: BSD-3-Clause */
/* The other movers than pieces: complete transfers, and each way to end early, at each step. */

#include "rma_net.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define BOTH      (NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE)
#define STEPS_MAX 200u

/* A network with memory at both ends; end 0 is the origin. */
struct fixture {
    struct net net;
    struct net_op op;
    uint8_t *target_bytes, *expected;
    struct kit_region *local, *region, *remote;
};

static const struct variant {
    enum kit_rma_mover mover;
    bool is_put;
    bool is_ordered;
    bool is_apart;
} variants[] = {
    {KIT_RMA_INLINE, false, false, false},    {KIT_RMA_INLINE, true, false, false},
    {KIT_RMA_INLINE, false, false, true},     {KIT_RMA_INLINE, true, false, true},
    {KIT_RMA_ATTACH, false, false, false},    {KIT_RMA_ATTACH, true, false, false},
    {KIT_RMA_ONE_SIDED, false, false, false}, {KIT_RMA_ONE_SIDED, true, false, false},
    {KIT_RMA_ONE_SIDED, false, true, false},
};

#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

static void fixture_open(struct fixture *fixture, const struct variant *variant, uint32_t flags)
{
    if (variant->is_apart)
        net_open_apart(&fixture->net);
    else
        net_open_mover(&fixture->net, variant->mover);
    fixture->net.is_ordered = variant->is_ordered;
    net_op_init(&fixture->op);
    fixture->target_bytes = malloc(NET_MEMORY);
    fixture->expected = malloc(NET_MEMORY);
    assert_true(fixture->target_bytes != NULL && fixture->expected != NULL);
    for (unsigned int i = 0; i < NET_MEMORY; i++) {
        fixture->op.memory[i] = (uint8_t) (i * 7 + 1);
        fixture->target_bytes[i] = (uint8_t) (i * 13 + 5);
    }
    fixture->local = net_region(&fixture->net.ends[0], fixture->op.memory, NET_MEMORY, BOTH);
    fixture->region = net_region(&fixture->net.ends[1], fixture->target_bytes, NET_MEMORY, flags);
    fixture->remote = net_remote(&fixture->net.ends[0], &fixture->net.ends[1], fixture->region);
}

static void fixture_close(struct fixture *fixture)
{
    struct net *net = &fixture->net;

    assert_true(kit_rma_mem_deregister(net->ends[0].ts, fixture->local));
    kit_rma_mem_destroy(net->ends[0].ts, fixture->local);
    kit_rma_mem_destroy(net->ends[0].ts, fixture->remote);
    assert_true(kit_rma_mem_deregister(net->ends[1].ts, fixture->region));
    kit_rma_mem_destroy(net->ends[1].ts, fixture->region);
    free(fixture->target_bytes);
    free(fixture->expected);
    net_op_free(&fixture->op);
    net_close(net);
}

static int32_t fixture_start(struct fixture *fixture, uint64_t offset, uint64_t length, bool is_put)
{
    return net_start(&fixture->net.ends[0], &fixture->net.ends[1], &fixture->op, fixture->local,
                     fixture->remote, offset, length, is_put);
}

/* Moves a range, and checks that this range changed and nothing else. */
static void move(struct fixture *fixture, uint64_t offset, uint64_t length, bool is_put)
{
    uint8_t *from = is_put ? fixture->op.memory : fixture->target_bytes;
    uint8_t *to = is_put ? fixture->target_bytes : fixture->op.memory;

    for (unsigned int i = 0; i < NET_MEMORY; i++)
        from[i] = (uint8_t) (from[i] * 5 + i + 1);
    memcpy(fixture->expected, to, NET_MEMORY);
    memcpy(fixture->expected + offset, from + offset, length);
    assert_int_equal(fixture_start(fixture, offset, length, is_put), NA_PLUGIN_SUCCESS);
    net_run(&fixture->net);
    net_op_check(&fixture->op, NA_PLUGIN_SUCCESS);
    assert_memory_equal(to, fixture->expected, NET_MEMORY);
    assert_int_equal(fixture->net.exposed, 0);
}

static void sizes_and_offsets(void **state)
{
    static const uint64_t lengths[] = {
        1,
        NET_INLINE - 1,
        NET_INLINE,
        NET_INLINE + 1,
        2 * NET_INLINE,
        NET_PIECE,
        NET_PART - 1,
        NET_PART,
        NET_PART + 1,
        3 * NET_PART,
        NET_MEMORY - 10,
    };

    (void) state;
    for (size_t i = 0; i < VARIANTS; i++) {
        struct fixture fixture;

        fixture_open(&fixture, &variants[i], BOTH);
        for (size_t j = 0; j < sizeof(lengths) / sizeof(lengths[0]); j++)
            move(&fixture, 10, lengths[j], variants[i].is_put);
        move(&fixture, 0, NET_MEMORY, variants[i].is_put);
        fixture_close(&fixture);
    }
}

/* The bytes of a small transfer are inline: one REQUEST and one answer. */
static void small_ones_are_inline(void **state)
{
    (void) state;
    for (size_t i = 0; i < VARIANTS; i++) {
        struct kit_rma_counters counters;
        struct fixture fixture;
        unsigned int steps = 0;

        fixture_open(&fixture, &variants[i], BOTH);
        assert_int_equal(fixture_start(&fixture, 3, NET_INLINE, variants[i].is_put),
                         NA_PLUGIN_SUCCESS);
        while (net_step(&fixture.net))
            steps++;
        net_op_check(&fixture.op, NA_PLUGIN_SUCCESS);
        assert_int_equal(steps, 2);
        kit_rma_counters_get(fixture.net.ends[0].ts, &counters);
        assert_int_equal(counters.moved[KIT_RMA_INLINE], 1);
        fixture_close(&fixture);
    }
}

static void a_network_without_room_is_asked_again(void **state)
{
    (void) state;
    for (size_t i = 0; i < VARIANTS; i++) {
        struct fixture fixture;

        fixture_open(&fixture, &variants[i], BOTH);
        for (unsigned int again = 1; again < 12; again++) {
            fixture.net.control_again = again;
            move(&fixture, 3, NET_INLINE, variants[i].is_put);
            fixture.net.control_again = again;
            move(&fixture, 3, 2 * NET_PART + 1, variants[i].is_put);
            fixture.net.piece_again = again;
            move(&fixture, 3, 2 * NET_PART + 1, variants[i].is_put);
            fixture.net.control_again = fixture.net.piece_again = again;
            move(&fixture, 3, 2 * NET_PART + 1, variants[i].is_put);
            fixture.net.piece_again = 0;
        }
        fixture_close(&fixture);
    }
}

/* A wrong key, missing rights and wrong bounds are refused; memory is neither read nor written. */
static void what_is_not_granted_is_refused(void **state)
{
    (void) state;
    for (size_t i = 0; i < VARIANTS; i++) {
        for (int wrong = 0; wrong < 4; wrong++) {
            const bool is_put = variants[i].is_put;
            const uint32_t flags = wrong == 3 ? BOTH
                                   : is_put   ? NA_PLUGIN_MEM_READ
                                              : NA_PLUGIN_MEM_WRITE;
            struct fixture fixture;
            int32_t status = NA_PLUGIN_PERMISSION;
            uint64_t length = NET_PART;

            fixture_open(&fixture, &variants[i], wrong < 2 ? BOTH : flags);
            memcpy(fixture.expected, is_put ? fixture.target_bytes : fixture.op.memory, NET_MEMORY);
            if (wrong == 0)
                fixture.remote->key.word[1] ^= 1;
            else if (wrong == 1)
                fixture.remote->id ^= 1;
            else if (wrong == 3) {
                fixture.region->length = NET_PART - 1;
                status = NA_PLUGIN_OVERFLOW;
            }
            for (int small = 0; small < 2; small++) {
                if (small != 0 && wrong == 3)
                    continue;
                length = small != 0 ? 10 : NET_PART;
                assert_int_equal(fixture_start(&fixture, 0, length, is_put), NA_PLUGIN_SUCCESS);
                net_run(&fixture.net);
                net_op_check(&fixture.op, status);
                assert_memory_equal(is_put ? fixture.target_bytes : fixture.op.memory,
                                    fixture.expected, NET_MEMORY);
            }
            fixture.region->length = NET_MEMORY;
            fixture_close(&fixture);
        }
    }
}

/* Runs `steps` events of a transfer of all the memory; false when it completed before. */
static bool run_partly(struct fixture *fixture, const struct variant *variant, unsigned int steps)
{
    fixture_open(fixture, variant, BOTH);
    assert_int_equal(fixture_start(fixture, 0, NET_MEMORY, variant->is_put), NA_PLUGIN_SUCCESS);
    for (unsigned int i = 0; i < steps; i++)
        (void) net_step(&fixture->net);
    return fixture->op.done == 0;
}

static unsigned int step_of(const struct variant *variant, unsigned int i)
{
    return variant->mover == KIT_RMA_INLINE ? 1 + i * 13 : i;
}

/* From the completion on, the memory of a cancelled transfer is not touched: the check at the end
 * compares it. */
static void a_cancelled_one_ends_at_each_step(void **state)
{
    (void) state;
    for (size_t i = 0; i < VARIANTS; i++) {
        for (unsigned int j = 0; j < STEPS_MAX; j++) {
            struct fixture fixture;
            bool is_partial = run_partly(&fixture, &variants[i], step_of(&variants[i], j));

            if (is_partial) {
                if (net_abandon(&fixture.net.ends[0], &fixture.op, NA_PLUGIN_CANCELED, false))
                    assert_int_equal(fixture.op.done, 1);
                net_run(&fixture.net);
                net_op_check(&fixture.op, NA_PLUGIN_CANCELED);
            }
            fixture_close(&fixture);
            if (!is_partial)
                break;
            assert_true(j + 1 < STEPS_MAX);
        }
    }
}

/* Memory is not touched any more as soon as the engine reports that it is deregistered. */
static void deregistered_memory_is_left_at_each_step(void **state)
{
    (void) state;
    for (size_t i = 0; i < VARIANTS; i++) {
        for (unsigned int j = 0; j < STEPS_MAX; j++) {
            struct fixture fixture;
            struct net *net = &fixture.net;
            bool is_partial = run_partly(&fixture, &variants[i], step_of(&variants[i], j));

            if (is_partial) {
                while (!kit_rma_mem_deregister(net->ends[1].ts, fixture.region))
                    assert_true(net_step(net));
                memcpy(fixture.expected, fixture.target_bytes, NET_MEMORY);
                net_run(net);
                assert_memory_equal(fixture.target_bytes, fixture.expected, NET_MEMORY);
                assert_int_equal(fixture.op.done, 1);
                assert_true(fixture.op.status == NA_PLUGIN_PERMISSION ||
                            fixture.op.status == NA_PLUGIN_SUCCESS);
                net_op_check(&fixture.op, fixture.op.status);
            }
            fixture_close(&fixture);
            if (!is_partial)
                break;
        }
    }
}

/* Either side detects the death of the other one, and all messages in flight are lost. */
static void a_peer_that_fails_ends_it_at_each_step(void **state)
{
    (void) state;
    for (size_t i = 0; i < 2 * VARIANTS; i++) {
        const struct variant *variant = &variants[i / 2];
        const bool is_target_first = i % 2 != 0;

        for (unsigned int j = 0; j < STEPS_MAX; j++) {
            struct fixture fixture;
            struct net *net = &fixture.net;
            bool is_partial = run_partly(&fixture, variant, step_of(variant, j));

            net_lose(net);
            if (is_target_first)
                kit_rma_peer_failed(net->ends[1].ts, &net->ends[0], NA_PLUGIN_HOSTUNREACH);
            kit_rma_peer_failed(net->ends[0].ts, &net->ends[1], NA_PLUGIN_HOSTUNREACH);
            if (!is_target_first)
                kit_rma_peer_failed(net->ends[1].ts, &net->ends[0], NA_PLUGIN_HOSTUNREACH);
            net_run(net);
            net_op_check(&fixture.op, is_partial ? NA_PLUGIN_HOSTUNREACH : NA_PLUGIN_SUCCESS);
            fixture_close(&fixture);
            if (!is_partial)
                break;
        }
    }
}

/* When an owner closes, its memory is not exposed any longer. */
static void an_owner_may_close_at_any_time(void **state)
{
    (void) state;
    for (size_t i = 0; i < VARIANTS; i++) {
        for (unsigned int j = 0; j < 20; j++) {
            struct fixture fixture;

            (void) run_partly(&fixture, &variants[i], step_of(&variants[i], j));
            net_close_busy(&fixture.net);
            assert_int_equal(fixture.net.exposed, 0);
            free(fixture.target_bytes);
            free(fixture.expected);
            net_op_free(&fixture.op);
        }
    }
}

static void a_move_that_fails_ends_the_transfer(void **state)
{
    (void) state;
    for (int is_put = 0; is_put < 2; is_put++) {
        for (int when = 0; when < 3; when++) {
            const struct variant variant = {KIT_RMA_ONE_SIDED, is_put != 0, false, false};
            struct fixture fixture;

            fixture_open(&fixture, &variant, BOTH);
            if (when == 0)
                fixture.net.piece_error = NA_PLUGIN_IO_ERROR; /* no memory can be exposed */
            assert_int_equal(fixture_start(&fixture, 0, NET_MEMORY, is_put != 0),
                             when == 0 ? NA_PLUGIN_IO_ERROR : NA_PLUGIN_SUCCESS);
            if (when == 1)
                fixture.net.piece_error = NA_PLUGIN_IO_ERROR;
            else if (when == 2)
                fixture.net.deliver_error = NA_PLUGIN_IO_ERROR;
            net_run(&fixture.net);
            if (when != 0)
                net_op_check(&fixture.op, NA_PLUGIN_IO_ERROR);
            fixture_close(&fixture);
        }
    }
}

/* The target answers although the bytes were not moved. */
static void an_answer_without_the_bytes_is_noticed(void **state)
{
    const struct variant variant = {KIT_RMA_ONE_SIDED, false, true, false};
    struct fixture fixture;

    (void) state;
    fixture_open(&fixture, &variant, BOTH);
    assert_int_equal(fixture_start(&fixture, 0, NET_PART, false), NA_PLUGIN_SUCCESS);
    /* the REQUEST is processed: the bytes were moved, the answer has not arrived */
    assert_true(net_step(&fixture.net));
    fixture.net.exposures[0].is_moved = false;
    net_run(&fixture.net);
    net_op_check(&fixture.op, NA_PLUGIN_HOSTUNREACH);
    fixture_close(&fixture);
}

/* Where a target cannot attach, transfers use pieces instead, also those in progress. */
static void who_may_not_attach_does_otherwise(void **state)
{
    (void) state;
    for (int is_put = 0; is_put < 2; is_put++) {
        const struct variant variant = {KIT_RMA_ATTACH, is_put != 0, false, false};
        struct kit_rma_counters counters;
        struct fixture fixture;

        fixture_open(&fixture, &variant, BOTH);
        fixture.net.is_refused = true;
        move(&fixture, 0, NET_MEMORY, is_put != 0);
        assert_int_equal(fixture.net.mover, KIT_RMA_PIECES);
        move(&fixture, 0, NET_MEMORY, is_put != 0);
        kit_rma_counters_get(fixture.net.ends[0].ts, &counters);
        assert_int_equal(counters.moved[KIT_RMA_ATTACH], 1);
        assert_int_equal(counters.moved[KIT_RMA_PIECES], 2);
        fixture_close(&fixture);
    }
}

/* The origin names an address where no memory is mapped, and gets an error. */
static void an_address_without_memory_fails(void **state)
{
    const struct variant variant = {KIT_RMA_ATTACH, false, false, false};
    struct fixture fixture;

    (void) state;
    fixture_open(&fixture, &variant, BOTH);
    fixture.local->base = 4096;
    assert_int_equal(fixture_start(&fixture, 0, NET_PART, false), NA_PLUGIN_SUCCESS);
    net_run(&fixture.net);
    net_op_check(&fixture.op, NA_PLUGIN_FAULT);
    fixture.local->base = (uint64_t) (uintptr_t) fixture.op.memory;
    fixture_close(&fixture);
}

/* Delivers a record to an end as if the other end had sent it, with `size` bytes of payload. */
static void forge(struct net *net, unsigned int to, enum rma_kind kind,
                  const struct variant *variant, uint64_t id, uint64_t number, const void *payload,
                  uint32_t size)
{
    struct {
        struct rma_record record;
        uint8_t payload[RMA_PAYLOAD_MAX];
    } bytes = {.record = {
                   .magic = htole32(RMA_MAGIC),
                   .version = RMA_VERSION,
                   .kind = (uint8_t) kind,
                   .flags = (uint8_t) (variant->mover << RMA_MOVER_SHIFT |
                                       (to == 1 ? RMA_FROM_ORIGIN : 0u) |
                                       (variant->is_put ? RMA_IS_PUT : 0u)),
                   .transfer = htole64(id),
                   .number = htole64(number),
               }};

    memcpy(bytes.payload, payload, size);
    kit_rma_control(net->ends[to].ts, &net->ends[1 - to], &bytes, sizeof(bytes.record) + size);
}

/* Inline bytes that were not granted, out of order or of a wrong size end a get, and none of them
 * is stored. */
static void inline_bytes_are_checked(void **state)
{
    static const struct {
        uint64_t number;
        uint32_t size;
    } wrong[] = {{1, NET_INLINE},
                 {700, NET_INLINE},
                 {UINT64_MAX, NET_INLINE},
                 {0, NET_INLINE - 1},
                 {0, NET_INLINE + 1},
                 {0, 0},
                 {0, KIT_RMA_CONTROL_MAX - sizeof(struct rma_record)}};
    const struct variant variant = {KIT_RMA_INLINE, false, false, false};
    uint8_t bytes[KIT_RMA_CONTROL_MAX];

    (void) state;
    memset(bytes, 0xA5, sizeof(bytes));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct fixture fixture;

        fixture_open(&fixture, &variant, BOTH);
        memcpy(fixture.expected, fixture.op.memory, NET_MEMORY);
        assert_int_equal(fixture_start(&fixture, 0, NET_MEMORY, false), NA_PLUGIN_SUCCESS);
        forge(&fixture.net, 0, RMA_DATA, &variant, fixture.op.transfer->id, wrong[i].number, bytes,
              wrong[i].size);
        net_run(&fixture.net);
        net_op_check(&fixture.op, NA_PLUGIN_PROTOCOL_ERROR);
        assert_memory_equal(fixture.op.memory, fixture.expected, NET_MEMORY);
        fixture_close(&fixture);
    }
}

/* The bytes of a put in its REQUEST: they have to be the whole put, and at most as many as
 * allowed. */
static void bytes_with_a_request_are_checked(void **state)
{
    static const struct {
        uint32_t length, piece_size, size;
        uint8_t flags, kind;
    } wrong[] = {{5000, 5000, 4999, RMA_IS_PUT, RMA_REQUEST},
                 {5000, 5000, 5001, RMA_IS_PUT, RMA_REQUEST},
                 {5000, NET_INLINE, 5000, RMA_IS_PUT, RMA_REQUEST},
                 {5000, NET_INLINE, NET_INLINE, RMA_IS_PUT, RMA_REQUEST},
                 {0, 0, 0, RMA_IS_PUT, RMA_REQUEST},
                 {NET_MEMORY + 1, NET_MEMORY + 1, 5000, RMA_IS_PUT, RMA_REQUEST},
                 {NET_EAGER + 1, NET_EAGER + 1, NET_EAGER + 1, RMA_IS_PUT, RMA_REQUEST},
                 {5000, 5000, 5000, 0, RMA_REQUEST},
                 {5000, 5000, 5000, RMA_IS_PUT, RMA_DATA},
                 {5000, 5000, 5000, RMA_IS_PUT | KIT_RMA_ATTACH << RMA_MOVER_SHIFT, RMA_REQUEST}};
    const struct variant variant = {KIT_RMA_INLINE, true, false, false};
    struct kit_rma_counters counters;
    struct fixture fixture;
    uint8_t *bytes = calloc(1, NET_MEMORY);

    (void) state;
    assert_non_null(bytes);
    fixture_open(&fixture, &variant, BOTH);
    memcpy(fixture.expected, fixture.target_bytes, NET_MEMORY);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const uint8_t flags = wrong[i].flags | RMA_FROM_ORIGIN;
        struct rma_record record = {
            .magic = htole32(RMA_MAGIC),
            .version = RMA_VERSION,
            .kind = wrong[i].kind,
            .flags = flags >> RMA_MOVER_SHIFT != 0
                         ? flags
                         : (uint8_t) (flags | KIT_RMA_INLINE << RMA_MOVER_SHIFT),
            .transfer = htole64(1000 + i),
            .memory = htole64(fixture.region->id),
            .key = fixture.region->key,
            .length = htole64(wrong[i].length),
            .piece_size = htole32(wrong[i].piece_size),
        };

        kit_rma_control_data(fixture.net.ends[1].ts, &fixture.net.ends[0], &record, sizeof(record),
                             bytes, wrong[i].size);
        net_run(&fixture.net);
        assert_memory_equal(fixture.target_bytes, fixture.expected, NET_MEMORY);
        kit_rma_counters_get(fixture.net.ends[1].ts, &counters);
        assert_int_equal(counters.refused + counters.records_bad, i + 1);
    }
    fixture_close(&fixture);
    free(bytes);
}

/* A put up to a certain size is a single message. */
static void small_puts_are_one_message(void **state)
{
    const struct variant variant = {KIT_RMA_INLINE, true, false, false};
    struct fixture fixture;

    (void) state;
    fixture_open(&fixture, &variant, BOTH);
    move(&fixture, 3, NET_INLINE, true);
    assert_int_equal(fixture.net.puts, 0);
    move(&fixture, 3, NET_INLINE + 1, true);
    fixture.net.control_again = 3;
    move(&fixture, 5, NET_EAGER, true);
    assert_int_equal(fixture.net.puts, 2);
    move(&fixture, 5, NET_EAGER + 1, true);
    move(&fixture, 5, NET_EAGER, false);
    assert_int_equal(fixture.net.puts, 2);
    fixture_close(&fixture);
}

/* An owner that copies the bytes itself is asked to copy all of them. */
static void the_owner_copies_what_is_inline(void **state)
{
    const struct variant variant = {KIT_RMA_INLINE, true, false, true};
    struct {
        struct rma_record record;
        uint8_t bytes[NET_INLINE];
    } message = {
        .record = {.magic = htole32(RMA_MAGIC),
                   .version = RMA_VERSION,
                   .kind = RMA_REQUEST,
                   .flags = RMA_FROM_ORIGIN | RMA_IS_PUT | KIT_RMA_INLINE << RMA_MOVER_SHIFT,
                   .transfer = htole64(1000),
                   .length = htole64(NET_INLINE),
                   .piece_size = htole32(NET_INLINE)}};
    struct kit_rma_counters counters;
    struct fixture fixture;

    (void) state;
    fixture_open(&fixture, &variant, BOTH);
    move(&fixture, 3, 3 * NET_APART + 1, true);
    move(&fixture, 3, 2 * NET_APART, false);
    assert_int_equal(fixture.net.puts, 6);
    assert_int_equal(fixture.net.takes, 6);
    memcpy(fixture.expected, fixture.target_bytes, NET_MEMORY);
    message.record.memory = htole64(fixture.region->id);
    message.record.key = fixture.region->key;
    kit_rma_control(fixture.net.ends[1].ts, &fixture.net.ends[0], &message, sizeof(message));
    net_run(&fixture.net);
    kit_rma_counters_get(fixture.net.ends[1].ts, &counters);
    assert_int_equal(counters.records_bad, 1);
    assert_memory_equal(fixture.target_bytes, fixture.expected, NET_MEMORY);
    fixture_close(&fixture);
}

/* Each sender chooses the size of its records, up to what its peer accepts. The number of records
 * shows the size. */
static void the_sender_chooses_the_size_of_its_records(void **state)
{
    static const uint32_t rooms[] = {1, 7, NET_APART / 2, NET_APART - 1, NET_APART, NET_APART + 1};
    const struct variant variant = {KIT_RMA_INLINE, true, false, true};

    (void) state;
    for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
        const uint32_t size = rooms[i] < NET_APART ? rooms[i] : NET_APART;
        const uint32_t length = 2 * NET_APART;
        struct fixture fixture;

        for (unsigned int end = 0; end < 2; end++) {
            fixture_open(&fixture, &variant, BOTH);
            fixture.net.ends[end].room = rooms[i];
            move(&fixture, 3, length, true);
            assert_int_equal(fixture.net.takes, end == 0 ? (length - 1) / size + 1 : 2);
            fixture.net.takes = 0;
            move(&fixture, 3, length, false);
            assert_int_equal(fixture.net.takes, end == 1 ? (length - 1) / size + 1 : 2);
            fixture_close(&fixture);
        }
    }
}

/* Records of another mover, or that only the other role may send, have no effect. */
static void records_of_another_mover_are_dropped(void **state)
{
    (void) state;
    for (size_t i = 0; i < VARIANTS; i++) {
        for (unsigned int kind = RMA_GRANT; kind < RMA_KINDS; kind++) {
            struct variant other = variants[i];
            struct kit_rma_counters counters;
            struct fixture fixture;

            if (kind == RMA_CANCEL || kind == RMA_PROBE || kind == RMA_ALIVE)
                continue;
            other.mover = other.mover == KIT_RMA_INLINE ? KIT_RMA_ATTACH : KIT_RMA_INLINE;
            fixture_open(&fixture, &variants[i], BOTH);
            assert_int_equal(fixture_start(&fixture, 0, NET_MEMORY, variants[i].is_put),
                             NA_PLUGIN_SUCCESS);
            forge(&fixture.net, 0, (enum rma_kind) kind, &other, fixture.op.transfer->id, 0, "", 0);
            kit_rma_counters_get(fixture.net.ends[0].ts, &counters);
            assert_int_equal(counters.records_bad, 1);
            net_run(&fixture.net);
            net_op_check(&fixture.op, NA_PLUGIN_SUCCESS);
            fixture_close(&fixture);
        }
    }
}

/* A REQUEST with a note of a wrong size, with too many bytes, or for a part that is too large. */
static void requests_are_checked(void **state)
{
    (void) state;
    for (size_t i = 0; i < VARIANTS; i++) {
        uint8_t bytes[KIT_RMA_CONTROL_MAX];
        struct kit_rma_counters counters;
        struct fixture fixture;
        struct rma_record record;

        memset(bytes, 0xA5, sizeof(bytes));
        fixture_open(&fixture, &variants[i], BOTH);
        memcpy(fixture.expected, fixture.target_bytes, NET_MEMORY);
        for (uint32_t size = 0; size <= RMA_PAYLOAD_MAX; size++) {
            record = (struct rma_record){
                .magic = htole32(RMA_MAGIC),
                .version = RMA_VERSION,
                .kind = RMA_REQUEST,
                .flags = (uint8_t) (variants[i].mover << RMA_MOVER_SHIFT | RMA_FROM_ORIGIN |
                                    (variants[i].is_put ? RMA_IS_PUT : 0u)),
                .transfer = htole64(1000 + size),
                .memory = htole64(fixture.region->id),
                .key = fixture.region->key,
                .length = htole64(variants[i].mover == KIT_RMA_ONE_SIDED ? NET_PART + 1 : 5000),
                .piece_size = htole32(NET_INLINE),
            };
            if (variants[i].mover == KIT_RMA_INLINE ? size == (variants[i].is_put ? NET_INLINE : 0)
                                                    : size == 8)
                continue;
            memcpy(bytes, &record, sizeof(record));
            kit_rma_control(fixture.net.ends[1].ts, &fixture.net.ends[0], bytes,
                            sizeof(record) + size);
            net_run(&fixture.net);
        }
        assert_memory_equal(fixture.target_bytes, fixture.expected, NET_MEMORY);
        kit_rma_counters_get(fixture.net.ends[1].ts, &counters);
        assert_true(counters.refused + counters.records_bad >= RMA_PAYLOAD_MAX - 1);
        fixture_close(&fixture);
    }
}

static void configs_are_checked(void **state)
{
    static const struct kit_rma_config wrong[] = {
        {.control_size = KIT_RMA_CONTROL_MIN - 1},
        {.control_size = KIT_RMA_CONTROL_MAX + 1},
        {.inline_size = KIT_RMA_CONTROL_MIN},
        {.inline_size = KIT_RMA_CONTROL_MAX, .control_size = KIT_RMA_CONTROL_MAX},
    };
    struct net net;

    (void) state;
    net_open(&net, NULL);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct kit_rma_config config = net.ends[0].ts->config;
        struct kit_rma *ts;

        config.control_size = wrong[i].control_size;
        config.inline_size = wrong[i].inline_size;
        assert_int_equal(kit_rma_open(&config, &ts), NA_PLUGIN_INVALID_ARG);
    }
    net_close(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_offsets),
        cmocka_unit_test(small_ones_are_inline),
        cmocka_unit_test(a_network_without_room_is_asked_again),
        cmocka_unit_test(what_is_not_granted_is_refused),
        cmocka_unit_test(a_cancelled_one_ends_at_each_step),
        cmocka_unit_test(deregistered_memory_is_left_at_each_step),
        cmocka_unit_test(a_peer_that_fails_ends_it_at_each_step),
        cmocka_unit_test(an_owner_may_close_at_any_time),
        cmocka_unit_test(a_move_that_fails_ends_the_transfer),
        cmocka_unit_test(an_answer_without_the_bytes_is_noticed),
        cmocka_unit_test(who_may_not_attach_does_otherwise),
        cmocka_unit_test(an_address_without_memory_fails),
        cmocka_unit_test(inline_bytes_are_checked),
        cmocka_unit_test(bytes_with_a_request_are_checked),
        cmocka_unit_test(small_puts_are_one_message),
        cmocka_unit_test(the_owner_copies_what_is_inline),
        cmocka_unit_test(the_sender_chooses_the_size_of_its_records),
        cmocka_unit_test(records_of_another_mover_are_dropped),
        cmocka_unit_test(requests_are_checked),
        cmocka_unit_test(configs_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
