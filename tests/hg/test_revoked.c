/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The right to access memory ends when the descriptor is freed, and for an input that did not fit
 * the request, when its RPC is answered or cancelled. Later accesses are refused, and neither
 * side's memory changes; a new descriptor of the same memory works.
 */
#include "hg_fixture.h"

#include "hg/header.h"

#include <endian.h>
#include <stdlib.h>

#define BYTES (1u << 20)

/* The target's side of a transfer. */
struct local {
    void *memory;
    hg_size_t size;
    hg_bulk_t bulk;
    hg_addr_t origin;
};

static void local_open(struct local *local, const struct pair *pair, hg_size_t size)
{
    local->size = size;
    local->memory = malloc((size_t) size);
    assert_non_null(local->memory);
    assert_int_equal(HG_Bulk_create(pair->target.hg_class, 1, &local->memory, &local->size,
                                    HG_BULK_READWRITE, &local->bulk),
                     HG_SUCCESS);
    local->origin = side_lookup(&pair->target, &pair->origin);
}

static void local_close(struct local *local, const struct pair *pair)
{
    assert_int_equal(HG_Addr_free(pair->target.hg_class, local->origin), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(local->bulk), HG_SUCCESS);
    free(local->memory);
}

static hg_return_t transfer(const struct pair *pair, struct local *local, hg_bulk_op_t direction,
                            hg_bulk_t remote, hg_size_t size)
{
    struct outcome outcome = {0};
    hg_op_id_t op_id;
    hg_return_t ret;

    ret = HG_Bulk_transfer(pair->target.context, outcome_set, &outcome, direction, local->origin,
                           remote, 0, local->bulk, 0, size, &op_id);
    if (ret != HG_SUCCESS)
        return ret;
    pair_wait_for(pair, &outcome.count, 1);
    return outcome.ret;
}

static void fill_check(const void *memory, size_t size, uint8_t value)
{
    const uint8_t *bytes = memory;
    size_t i;

    for (i = 0; i < size; i++)
        if (bytes[i] != value)
            fail_msg("byte %zu of %zu has changed", i, size);
}

/* A small and a large transfer are refused, and nothing of them arrives. */
static void refused(const struct pair *pair, struct local *local, hg_bulk_op_t direction,
                    hg_bulk_t remote)
{
    const hg_size_t sizes[] = {100, local->size};
    size_t i;

    memset(local->memory, 0x55, (size_t) local->size);
    for (i = 0; i < 2; i++) {
        hg_return_t ret = transfer(pair, local, direction, remote, sizes[i]);

        if (ret != HG_PERMISSION)
            fail_msg("a %s of %zu bytes ends with %s", direction == HG_BULK_PULL ? "pull" : "push",
                     (size_t) sizes[i], HG_Error_to_string(ret));
    }
    fill_check(local->memory, (size_t) local->size, 0x55);
}

/* Make a descriptor of the origin's memory in *mine_p; returns it as the target receives it. */
static hg_bulk_t expose(const struct pair *pair, void *memory, hg_bulk_t *mine_p)
{
    hg_size_t size = BYTES, wire_size;
    hg_bulk_t received = HG_BULK_NULL;
    void *wire;

    assert_int_equal(
        HG_Bulk_create(pair->origin.hg_class, 1, &memory, &size, HG_BULK_READWRITE, mine_p),
        HG_SUCCESS);
    wire_size = HG_Bulk_get_serialize_size(*mine_p, 0);
    wire = malloc((size_t) wire_size);
    assert_int_equal(HG_Bulk_serialize(wire, wire_size, 0, *mine_p), HG_SUCCESS);
    assert_int_equal(HG_Bulk_deserialize(pair->target.hg_class, &received, wire, wire_size),
                     HG_SUCCESS);
    free(wire);
    return received;
}

static void freed_descriptor_gives_no_access(void **state)
{
    hg_bulk_t mine, old, anew;
    struct pair *pair = *state;
    void *memory = malloc(BYTES);
    struct local local;

    assert_non_null(memory);
    local_open(&local, pair, BYTES);
    memset(memory, 0x11, BYTES);
    old = expose(pair, memory, &mine);
    assert_int_equal(transfer(pair, &local, HG_BULK_PULL, old, BYTES), HG_SUCCESS);
    fill_check(local.memory, BYTES, 0x11);
    assert_int_equal(transfer(pair, &local, HG_BULK_PUSH, old, BYTES), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(mine), HG_SUCCESS);

    memset(memory, 0x22, BYTES);
    refused(pair, &local, HG_BULK_PULL, old);
    refused(pair, &local, HG_BULK_PUSH, old);
    pair_echo(pair, 16);
    fill_check(memory, BYTES, 0x22);

    /* The same memory is described again: the old descriptor still gives no access. */
    anew = expose(pair, memory, &mine);
    refused(pair, &local, HG_BULK_PUSH, old);
    assert_int_equal(transfer(pair, &local, HG_BULK_PULL, anew, BYTES), HG_SUCCESS);
    fill_check(local.memory, BYTES, 0x22);
    fill_check(memory, BYTES, 0x22);
    assert_int_equal(HG_Bulk_free(mine), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(anew), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(old), HG_SUCCESS);
    local_close(&local, pair);
    free(memory);
}

/* The descriptor that the target received with a request whose input did not fit. */
static hg_bulk_t told_of(hg_handle_t held)
{
    const char *at = held->in.buf + hg_msg_payload_offset(&held->in, held->in.flags);
    hg_bulk_t bulk = HG_BULK_NULL;
    uint32_t size;

    assert_true((held->in.flags & HG_CORE_HEADER_MORE_DATA) != 0);
    memcpy(&size, at + 16, sizeof(size));
    assert_int_equal(HG_Bulk_deserialize(held->info.hg_class, &bulk, at + 24, le32toh(size)),
                     HG_SUCCESS);
    return bulk;
}

static hg_handle_t forward_large(struct pair *pair, struct outcome *outcome, uint8_t seed)
{
    hg_handle_t handle = pair_create(pair, RPC_HOLD);
    int held = pair->target.held_count + 1;
    struct blob in;

    blob_make(&in, pair_large(pair), seed);
    assert_int_equal(HG_Forward(handle, outcome_set, outcome, &in), HG_SUCCESS);
    free(in.data);
    pair_wait_held(pair, &pair->target, held);
    return handle;
}

static void end_held(struct pair *pair, hg_handle_t handle, const struct outcome *outcome)
{
    struct blob out = {.size = 0};

    side_respond_held(&pair->target, &out);
    pair_wait_for(pair, &outcome->count, 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

/*
 * After the RPC, the input's memory may hold the input of another RPC, which the peer must not
 * read.
 */
static void right_to_read_an_input_ends_with_its_rpc(void **state)
{
    struct outcome first = {0}, second = {0};
    struct pair *pair = *state;
    struct local local;
    hg_handle_t handle;
    hg_bulk_t bulk;

    local_open(&local, pair, pair_large(pair));
    handle = forward_large(pair, &first, 1);
    bulk = told_of(pair->target.held[0]);
    assert_int_equal(transfer(pair, &local, HG_BULK_PULL, bulk, local.size), HG_SUCCESS);
    end_held(pair, handle, &first);

    handle = forward_large(pair, &second, 2);
    refused(pair, &local, HG_BULK_PULL, bulk);
    end_held(pair, handle, &second);
    assert_int_equal(second.ret, HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
    local_close(&local, pair);
}

static void right_to_read_an_input_ends_with_a_cancel(void **state)
{
    struct outcome outcome = {0};
    struct pair *pair = *state;
    struct local local;
    hg_handle_t handle;
    hg_bulk_t bulk;

    local_open(&local, pair, pair_large(pair));
    handle = forward_large(pair, &outcome, 3);
    bulk = told_of(pair->target.held[0]);
    assert_int_equal(transfer(pair, &local, HG_BULK_PULL, bulk, local.size), HG_SUCCESS);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_CANCELED);
    refused(pair, &local, HG_BULK_PULL, bulk);
    end_held(pair, handle, &outcome);
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
    local_close(&local, pair);
    pair_echo(pair, pair_large(pair));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(freed_descriptor_gives_no_access),
        cmocka_unit_test(right_to_read_an_input_ends_with_its_rpc),
        cmocka_unit_test(right_to_read_an_input_ends_with_a_cancel),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}
