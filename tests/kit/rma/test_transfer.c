/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets that succeed, or wait: sizes, credits, back-pressure, handles. */

#include "rma_net.h"

#include <stdlib.h>
#include <string.h>

#define BOTH (NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE)

struct side {
    struct net_op op;
    uint8_t *target_bytes;
    struct kit_region *local, *region, *remote;
};

/* Allocates memory at both ends; end 0 is the origin. */
static void side_open(struct net *net, struct side *side)
{
    net_op_init(&side->op);
    side->target_bytes = malloc(NET_MEMORY);
    assert_non_null(side->target_bytes);
    for (unsigned int i = 0; i < NET_MEMORY; i++) {
        side->op.memory[i] = (uint8_t) (i * 7 + 1);
        side->target_bytes[i] = (uint8_t) (i * 13 + 5);
    }
    side->local = net_region(&net->ends[0], side->op.memory, NET_MEMORY, BOTH);
    side->region = net_region(&net->ends[1], side->target_bytes, NET_MEMORY, BOTH);
    side->remote = net_remote(&net->ends[0], &net->ends[1], side->region);
}

static void side_close(struct net *net, struct side *side)
{
    assert_true(kit_rma_mem_deregister(net->ends[0].ts, side->local));
    kit_rma_mem_destroy(net->ends[0].ts, side->local);
    kit_rma_mem_destroy(net->ends[0].ts, side->remote);
    assert_true(kit_rma_mem_deregister(net->ends[1].ts, side->region));
    kit_rma_mem_destroy(net->ends[1].ts, side->region);
    free(side->target_bytes);
    net_op_free(&side->op);
}

/* Moves a range, and checks that this range changed and nothing else. */
static void move(struct net *net, uint64_t offset, uint64_t length, bool is_put)
{
    uint8_t *expected = malloc(NET_MEMORY);
    struct side side;

    assert_non_null(expected);
    side_open(net, &side);
    memcpy(expected, is_put ? side.target_bytes : side.op.memory, NET_MEMORY);
    memcpy(expected + offset, (is_put ? side.op.memory : side.target_bytes) + offset, length);
    assert_int_equal(net_start(&net->ends[0], &net->ends[1], &side.op, side.local, side.remote,
                               offset, length, is_put),
                     NA_PLUGIN_SUCCESS);
    net_run(net);
    net_op_check(&side.op, NA_PLUGIN_SUCCESS);
    assert_memory_equal(is_put ? side.target_bytes : side.op.memory, expected, NET_MEMORY);
    assert_int_equal(net->lost_receives, 0);
    side_close(net, &side);
    free(expected);
}

static void sizes_and_offsets(void **state)
{
    static const uint64_t lengths[] = {
        1,
        100,
        NET_PIECE - 1,
        NET_PIECE,
        NET_PIECE + 1,
        4 * NET_PIECE,
        5 * NET_PIECE + 17,
        NET_MEMORY - 10,
    };

    (void) state;
    for (int at_once = 0; at_once < 2; at_once++) {
        struct net net;

        net_open(&net, NULL);
        net.is_sent_at_once = at_once != 0;
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            move(&net, 10, lengths[i], true);
            move(&net, 10, lengths[i], false);
        }
        move(&net, 0, NET_MEMORY, true);
        move(&net, 0, NET_MEMORY, false);
        net_close(&net);
    }
}

static void a_network_without_room_is_asked_again(void **state)
{
    struct net net;

    (void) state;
    net_open(&net, NULL);
    for (unsigned int again = 1; again < 12; again++) {
        for (int is_put = 0; is_put < 2; is_put++) {
            net.control_again = again;
            move(&net, 3, 6 * NET_PIECE, is_put != 0);
            net.piece_again = again;
            move(&net, 3, 6 * NET_PIECE, is_put != 0);
            net.control_again = net.piece_again = again;
            move(&net, 3, 6 * NET_PIECE, is_put != 0);
        }
    }
    net_close(&net);
}

/* Many transfers share the limits on sends and receives; the first ones do not starve the
 * others. */
static void credits_are_respected(void **state)
{
    static const struct kit_rma_config limits = {.window = 3, .max_sends = 4, .max_receives = 7};
    enum {
        COUNT = 24
    };
    struct side sides[COUNT];
    struct net net;

    (void) state;
    for (int is_put = 0; is_put < 2; is_put++) {
        net_open(&net, &limits);
        for (unsigned int i = 0; i < COUNT; i++) {
            side_open(&net, &sides[i]);
            assert_int_equal(net_start(&net.ends[0], &net.ends[1], &sides[i].op, sides[i].local,
                                       sides[i].remote, 0, NET_MEMORY, is_put != 0),
                             NA_PLUGIN_SUCCESS);
        }
        net_run(&net);
        for (unsigned int i = 0; i < COUNT; i++) {
            net_op_check(&sides[i].op, NA_PLUGIN_SUCCESS);
            assert_memory_equal(sides[i].op.memory, sides[i].target_bytes, NET_MEMORY);
            side_close(&net, &sides[i]);
        }
        assert_int_equal(net.ends[is_put != 0 ? 1 : 0].most_receives, 7);
        assert_true(net.ends[is_put != 0 ? 0 : 1].most_sends <= 4);
        assert_int_equal(net.lost_receives, 0);
        net_close(&net);
    }
}

/* A single transfer has at most its window in flight. */
static void the_window_is_respected(void **state)
{
    static const struct kit_rma_config limits = {.window = 2};
    struct net net;

    (void) state;
    net_open(&net, &limits);
    move(&net, 0, NET_MEMORY, true);
    assert_int_equal(net.ends[1].most_receives, 2);
    move(&net, 0, NET_MEMORY, false);
    assert_int_equal(net.ends[0].most_receives, 2);
    net_close(&net);
}

/* One GRANT covers several pieces, as long as enough of the window remains. */
static void grants_gather(void **state)
{
    static const struct kit_rma_config limits = {.window = 8};
    struct net net;

    (void) state;
    net_open(&net, &limits);
    move(&net, 0, 16 * NET_PIECE, true);
    assert_int_equal(net.ends[1].most_receives, 8);
    assert_int_equal(net.ends[1].records, 1 + 4 + 1); /* REQUEST, a GRANT for each quarter, DONE */
    net_close(&net);
}

/* The handle returns to the process that made it. */
static void own_memory_is_copied(void **state)
{
    struct kit_region *remote;
    struct side side;
    struct net net;

    (void) state;
    net_open(&net, NULL);
    side_open(&net, &side);
    remote = net_remote(&net.ends[1], &net.ends[1], side.region);
    assert_int_equal(
        net_start(&net.ends[1], &net.ends[1], &side.op, side.local, remote, 5, 9000, true),
        NA_PLUGIN_SUCCESS);
    net_op_check(&side.op, NA_PLUGIN_SUCCESS);
    assert_memory_equal(side.target_bytes + 5, side.op.memory + 5, 9000);
    assert_null(net.first);
    side.region->mem_type = NA_PLUGIN_MEM_TYPE_CUDA;
    assert_int_equal(
        net_start(&net.ends[1], &net.ends[1], &side.op, side.local, remote, 5, 9000, true),
        NA_PLUGIN_OPNOTSUPPORTED);
    assert_true(kit_rma_mem_deregister(net.ends[1].ts, side.region));
    assert_int_equal(
        net_start(&net.ends[1], &net.ends[1], &side.op, side.local, remote, 5, 9000, true),
        NA_PLUGIN_PERMISSION);
    kit_rma_mem_destroy(net.ends[1].ts, remote);
    side_close(&net, &side);
    net_close(&net);
}

/* Both sides know which pieces have memory at either side that is not the host's. */
static void device_memory_is_told_to_both_sides(void **state)
{
    (void) state;
    for (int variant = 0; variant < 8; variant++) {
        const bool is_local = variant % 2 != 0, is_remote = variant / 2 % 2 != 0;
        struct side side;
        struct net net;

        net_open(&net, NULL);
        side_open(&net, &side);
        if (is_local)
            side.local->mem_type = NA_PLUGIN_MEM_TYPE_CUDA;
        if (is_remote)
            side.region->mem_type = side.remote->mem_type = NA_PLUGIN_MEM_TYPE_CUDA;
        assert_int_equal(net_start(&net.ends[0], &net.ends[1], &side.op, side.local, side.remote, 5,
                                   NET_PIECE, variant / 4 != 0),
                         NA_PLUGIN_SUCCESS);
        net_run(&net);
        net_op_check(&side.op, NA_PLUGIN_SUCCESS);
        assert_int_equal(net.ends[0].device_pieces, is_local || is_remote);
        assert_int_equal(net.ends[1].device_pieces, is_local || is_remote);
        side_close(&net, &side);
        net_close(&net);
    }
}

/* A damaged handle is refused at once, and a forged one by the owner of the memory. */
static void handles_are_checked(void **state)
{
    uint8_t packed[KIT_REGION_PACKED], copy[KIT_REGION_PACKED];
    struct side side;
    struct net net;

    (void) state;
    net_open(&net, NULL);
    side_open(&net, &side);
    assert_int_equal(kit_rma_mem_serialize(net.ends[1].ts, side.region, packed, 10),
                     NA_PLUGIN_OVERFLOW);
    assert_int_equal(kit_rma_mem_serialize(net.ends[1].ts, side.region, packed, sizeof(packed)), 0);
    for (uint64_t size = 0; size < sizeof(packed); size++) {
        struct kit_region *memory;

        assert_int_equal(kit_rma_mem_deserialize(net.ends[0].ts, packed, size, &memory),
                         NA_PLUGIN_PROTOCOL_ERROR);
    }
    for (size_t i = 0; i < sizeof(packed); i++) {
        struct kit_region *memory;

        memcpy(copy, packed, sizeof(packed));
        copy[i] ^= 0x80;
        assert_int_equal(kit_rma_mem_deserialize(net.ends[0].ts, copy, sizeof(copy), &memory),
                         NA_PLUGIN_PROTOCOL_ERROR);
    }
    for (int i = 0; i < 3; i++) {
        struct kit_region *memory = net_remote(&net.ends[0], &net.ends[1], side.region);

        memory->id ^= i == 0;
        memory->key.word[0] ^= i == 1;
        memory->key.word[1] ^= i == 2;
        assert_int_equal(
            net_start(&net.ends[0], &net.ends[1], &side.op, side.local, memory, 0, 10, true), 0);
        net_run(&net);
        net_op_check(&side.op, NA_PLUGIN_PERMISSION);
        kit_rma_mem_destroy(net.ends[0].ts, memory);
    }
    side_close(&net, &side);
    net_close(&net);
}

/* Late records for one process match no transfer of a process that took its place. */
static void two_processes_do_not_share_ids(void **state)
{
    struct side sides[2];
    struct net nets[2];

    (void) state;
    for (unsigned int i = 0; i < 2; i++) {
        net_open(&nets[i], NULL);
        side_open(&nets[i], &sides[i]);
    }
    assert_true(sides[0].region->id != sides[1].region->id);
    assert_false(kit_key_is_equal(&sides[0].region->key, &sides[1].region->key));
    for (unsigned int i = 0; i < 2; i++) {
        side_close(&nets[i], &sides[i]);
        net_close(&nets[i]);
    }
}

static void regions_are_checked(void **state)
{
    uint8_t packed[KIT_REGION_PACKED], bytes[8];
    struct kit_region *memory;
    struct kit_rma *ts;
    struct net net;

    (void) state;
    net_open(&net, NULL);
    ts = net.ends[0].ts;
    assert_int_equal(kit_rma_mem_create(ts, bytes, UINT64_C(1) << 63, NA_PLUGIN_MEM_READ, &memory),
                     NA_PLUGIN_INVALID_ARG);
    assert_int_equal(kit_rma_mem_create(ts, (void *) (UINTPTR_MAX - sizeof(bytes)),
                                        sizeof(bytes) + 1, NA_PLUGIN_MEM_READ, &memory),
                     NA_PLUGIN_INVALID_ARG);
    assert_int_equal(kit_rma_mem_create(ts, bytes, sizeof(bytes), NA_PLUGIN_MEM_READ, &memory), 0);
    assert_int_equal(kit_rma_mem_serialize(ts, memory, packed, sizeof(packed)),
                     NA_PLUGIN_INVALID_ARG);
    kit_rma_mem_destroy(ts, memory);
    net_close(&net);
}

static void configs_are_checked(void **state)
{
    static const struct kit_rma_config wrong[] = {
        {.piece_size = 100}, {.piece_size = UINT32_MAX},     {.window = 17},
        {.tag_count = 10},   {.first_tag = UINT32_MAX - 10},
    };
    struct net net;

    (void) state;
    net_open(&net, NULL);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct kit_rma_config config = net.ends[0].ts->config;
        struct kit_rma *ts;

        if (wrong[i].piece_size != 0)
            config.piece_size = wrong[i].piece_size;
        if (wrong[i].window != 0)
            config.window = wrong[i].window;
        if (wrong[i].tag_count != 0)
            config.tag_count = wrong[i].tag_count;
        if (wrong[i].first_tag != 0)
            config.first_tag = wrong[i].first_tag;
        assert_int_equal(kit_rma_open(&config, &ts), NA_PLUGIN_INVALID_ARG);
    }
    net_close(&net);
}

/* An owner closes with transfers in flight. */
static void an_owner_may_close_at_any_time(void **state)
{
    (void) state;
    for (unsigned int steps = 0; steps < 30; steps++) {
        struct side side;
        struct net net;

        net_open(&net, NULL);
        side_open(&net, &side);
        assert_int_equal(net_start(&net.ends[0], &net.ends[1], &side.op, side.local, side.remote, 0,
                                   NET_MEMORY, steps % 2 != 0),
                         0);
        for (unsigned int i = 0; i < steps; i++)
            (void) net_step(&net);
        net_close_busy(&net);
        for (unsigned int i = 0; i < NET_ENDS; i++)
            assert_int_equal(net.ends[i].holds, 0);
        free(side.target_bytes);
        net_op_free(&side.op);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_offsets),
        cmocka_unit_test(a_network_without_room_is_asked_again),
        cmocka_unit_test(credits_are_respected),
        cmocka_unit_test(the_window_is_respected),
        cmocka_unit_test(grants_gather),
        cmocka_unit_test(own_memory_is_copied),
        cmocka_unit_test(device_memory_is_told_to_both_sides),
        cmocka_unit_test(handles_are_checked),
        cmocka_unit_test(two_processes_do_not_share_ids),
        cmocka_unit_test(regions_are_checked),
        cmocka_unit_test(configs_are_checked),
        cmocka_unit_test(an_owner_may_close_at_any_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
