/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk descriptors: the owner of the memory, references, sizes of zero, the order in which
 * descriptors may be freed, and the reports of transfers.
 */
#include "compat/compat_fixture.h"

#define SIZE 100

static char origin_memory[SIZE];
static char target_memory[SIZE];

static hg_bulk_t describe(const struct side *side, void *memory, uint8_t flags)
{
    hg_size_t size = SIZE;
    hg_bulk_t bulk = HG_BULK_NULL;

    assert_int_equal(HG_Bulk_create(side->hg_class, 1, &memory, &size, flags, &bulk), HG_SUCCESS);
    assert_non_null(bulk);
    return bulk;
}

/* Deserialize the origin's descriptor at the target. */
static hg_bulk_t send_to_target(const struct compat *compat, hg_bulk_t bulk)
{
    hg_size_t size = HG_Bulk_get_serialize_size(bulk, 0);
    hg_bulk_t remote = HG_BULK_NULL;
    char *buf = malloc(size);

    assert_non_null(buf);
    assert_int_equal(HG_Bulk_serialize(buf, size - 1, 0, bulk), HG_OVERFLOW);
    assert_int_equal(HG_Bulk_serialize(buf, size, 0, bulk), HG_SUCCESS);
    assert_int_equal(HG_Bulk_deserialize(compat->target.hg_class, &remote, buf, size), HG_SUCCESS);
    free(buf);
    return remote;
}

static void memory_of_the_program(void **state)
{
    struct compat *compat = *state;
    void *bufs[3] = {origin_memory, origin_memory + 40, NULL};
    hg_size_t sizes[3] = {40, 20, 0};
    hg_bulk_t bulk;

    assert_int_equal(
        HG_Bulk_create(compat->origin.hg_class, 3, bufs, sizes, HG_BULK_READWRITE, &bulk),
        HG_SUCCESS);
    assert_int_equal(HG_Bulk_get_size(bulk), 60);
    assert_int_equal(HG_Bulk_get_segment_count(bulk), 3);
    assert_int_equal(HG_Bulk_get_flags(bulk), HG_BULK_READWRITE);
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(HG_BULK_NULL), HG_SUCCESS);
    assert_int_equal(HG_Bulk_ref_incr(HG_BULK_NULL), HG_INVALID_ARG);
}

/* Without buffers the library allocates them, zeroed, and frees them with the last reference. */
static void memory_of_the_library(void **state)
{
    struct compat *compat = *state;
    hg_size_t sizes[2] = {SIZE, 2 * SIZE}, got[2];
    uint32_t count = 0;
    void *bufs[2];
    hg_bulk_t bulk;

    assert_int_equal(
        HG_Bulk_create(compat->origin.hg_class, 2, NULL, sizes, HG_BULK_READWRITE, &bulk),
        HG_SUCCESS);
    assert_int_equal(HG_Bulk_access(bulk, 0, 3 * SIZE, HG_BULK_READWRITE, 2, bufs, got, &count),
                     HG_SUCCESS);
    assert_int_equal(count, 2);
    assert_int_equal(got[0], SIZE);
    assert_int_equal(got[1], 2 * SIZE);
    assert_int_equal(((char *) bufs[0])[SIZE - 1], 0);
    memset(bufs[0], 1, SIZE);
    assert_int_equal(HG_Bulk_ref_incr(bulk), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
    assert_int_equal(((char *) bufs[0])[SIZE - 1], 1);
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
}

static void refused_descriptions(void **state)
{
    struct compat *compat = *state;
    hg_class_t *c = compat->origin.hg_class;
    void *buf = origin_memory;
    hg_size_t size = SIZE;
    hg_bulk_t bulk;

    assert_int_equal(HG_Bulk_create(NULL, 1, &buf, &size, HG_BULK_READWRITE, &bulk),
                     HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_create(c, 0, &buf, &size, HG_BULK_READWRITE, &bulk), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_create(c, 1, NULL, NULL, HG_BULK_READWRITE, &bulk), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_create(c, 1, &buf, &size, 0, &bulk), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_create(c, 1, &buf, &size, 8, &bulk), HG_INVALID_ARG);
}

/* An access of size zero leaves the results unchanged. */
static void access_to_segments(void **state)
{
    struct compat *compat = *state;
    void *bufs[3] = {origin_memory, origin_memory + 50, origin_memory + 80}, *got[3];
    hg_size_t sizes[3] = {40, 20, 10}, got_sizes[3];
    uint32_t count = 9;
    hg_bulk_t bulk;

    assert_int_equal(
        HG_Bulk_create(compat->origin.hg_class, 3, bufs, sizes, HG_BULK_READ_ONLY, &bulk),
        HG_SUCCESS);
    memset(got, 0, sizeof(got));
    assert_int_equal(HG_Bulk_access(bulk, 0, 0, HG_BULK_READ_ONLY, 3, got, got_sizes, &count),
                     HG_SUCCESS);
    assert_int_equal(count, 9);
    assert_null(got[0]);
    assert_int_equal(HG_Bulk_access(bulk, 39, 2, HG_BULK_READ_ONLY, 3, got, got_sizes, &count),
                     HG_SUCCESS);
    assert_int_equal(count, 2);
    assert_ptr_equal(got[0], origin_memory + 39);
    assert_ptr_equal(got[1], origin_memory + 50);
    assert_int_equal(got_sizes[0], 1);
    assert_int_equal(got_sizes[1], 1);
    assert_int_equal(HG_Bulk_access(bulk, 0, 70, HG_BULK_READ_ONLY, 2, got, got_sizes, &count),
                     HG_SUCCESS);
    assert_int_equal(count, 2);
    assert_int_equal(HG_Bulk_access(bulk, 0, 70, HG_BULK_READ_ONLY, 3, NULL, NULL, &count),
                     HG_SUCCESS);
    assert_int_equal(count, 3);
    assert_int_equal(HG_Bulk_access(bulk, 0, 70, HG_BULK_READ_ONLY, 3, got, NULL, NULL),
                     HG_SUCCESS);
    assert_int_equal(HG_Bulk_access(HG_BULK_NULL, 0, 0, 3, 1, NULL, NULL, &count), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
}

/* Both ends of a serialized descriptor are freed in either order. */
static void freed_in_either_order(void **state)
{
    struct compat *compat = *state;
    hg_bulk_t bulk = describe(&compat->origin, origin_memory, HG_BULK_READ_ONLY);
    hg_bulk_t remote = send_to_target(compat, bulk);

    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
    assert_int_equal(HG_Bulk_get_size(remote), SIZE);
    assert_int_equal(HG_Bulk_get_segment_count(remote), 1);
    assert_int_equal(HG_Bulk_get_flags(remote), HG_BULK_READ_ONLY);
    assert_int_equal(HG_Bulk_free(remote), HG_SUCCESS);
    bulk = describe(&compat->origin, origin_memory, HG_BULK_READ_ONLY);
    remote = send_to_target(compat, bulk);
    assert_int_equal(HG_Bulk_free(remote), HG_SUCCESS);
    remote = send_to_target(compat, bulk);
    assert_int_equal(HG_Bulk_free(remote), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
}

static void bound_descriptors(void **state)
{
    struct compat *compat = *state;
    hg_bulk_t bulk = describe(&compat->origin, origin_memory, HG_BULK_READWRITE), remote;
    hg_size_t size = HG_Bulk_get_serialize_size(bulk, 0);
    hg_addr_t self;

    assert_null(HG_Bulk_get_addr(bulk));
    assert_int_equal(HG_Bulk_get_context_id(bulk), 0);
    assert_int_equal(HG_Bulk_bind(bulk, compat->origin.context), HG_SUCCESS);
    assert_int_equal(HG_Bulk_bind(bulk, compat->origin.context), HG_INVALID_ARG);
    assert_true(HG_Bulk_get_serialize_size(bulk, 0) > size);
    assert_int_equal(HG_Addr_self(compat->origin.hg_class, &self), HG_SUCCESS);
    assert_true(HG_Addr_cmp(compat->origin.hg_class, HG_Bulk_get_addr(bulk), self));
    assert_int_equal(HG_Addr_free(compat->origin.hg_class, self), HG_SUCCESS);
    remote = send_to_target(compat, bulk);
    assert_non_null(HG_Bulk_get_addr(remote));
    assert_int_equal(HG_Bulk_bind(remote, compat->target.context), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_free(remote), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
}

struct outcome {
    int count;
    struct hg_cb_info info;
};

static struct outcome outcome;

static hg_return_t transferred(const struct hg_cb_info *info)
{
    outcome.info = *info;
    outcome.count++;
    return HG_SUCCESS;
}

static hg_addr_t origin_addr;

static hg_return_t handler_dup_addr(struct compat *compat, hg_handle_t handle)
{
    assert_int_equal(HG_Addr_dup(compat->target.hg_class, HG_Get_info(handle)->addr, &origin_addr),
                     HG_SUCCESS);
    return compat_answer(compat, handle);
}

/* Returns the origin's address in the target's class. */
static hg_addr_t transfer_setup(struct compat *compat)
{
    compat->handler = handler_dup_addr;
    assert_int_equal(HG_Destroy(compat_call(compat, RPC_CALL)), HG_SUCCESS);
    memset(&outcome, 0, sizeof(outcome));
    memset(origin_memory, 7, SIZE);
    memset(target_memory, 0, SIZE);
    return origin_addr;
}

static hg_return_t pull(struct compat *compat, hg_addr_t addr, hg_bulk_t remote, hg_bulk_t local,
                        hg_size_t size)
{
    return HG_Bulk_transfer(compat->target.context, transferred, compat, HG_BULK_PULL, addr, remote,
                            0, local, 0, size, HG_OP_ID_IGNORE);
}

/* A running transfer keeps both descriptors alive, and its callback reports them. */
static void freed_while_transferred(void **state)
{
    struct compat *compat = *state;
    hg_addr_t addr = transfer_setup(compat);
    hg_bulk_t bulk = describe(&compat->origin, origin_memory, HG_BULK_READWRITE);
    hg_bulk_t remote = send_to_target(compat, bulk);
    hg_bulk_t local = describe(&compat->target, target_memory, HG_BULK_READWRITE);

    assert_int_equal(pull(compat, addr, remote, local, SIZE), HG_SUCCESS);
    assert_int_equal(outcome.count, 0);
    assert_int_equal(HG_Bulk_free(remote), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(local), HG_SUCCESS);
    compat_wait(compat, &outcome.count, 1);
    assert_int_equal(outcome.info.ret, HG_SUCCESS);
    assert_int_equal(outcome.info.type, HG_CB_BULK);
    assert_ptr_equal(outcome.info.arg, compat);
    assert_int_equal(outcome.info.info.bulk.op, HG_BULK_PULL);
    assert_int_equal(outcome.info.info.bulk.size, SIZE);
    assert_ptr_equal(outcome.info.info.bulk.origin_handle, remote);
    assert_ptr_equal(outcome.info.info.bulk.local_handle, local);
    assert_memory_equal(origin_memory, target_memory, SIZE);
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(compat->target.hg_class, addr), HG_SUCCESS);
}

static void transfer_of_nothing(void **state)
{
    struct compat *compat = *state;
    hg_addr_t addr = transfer_setup(compat);
    hg_bulk_t bulk = describe(&compat->origin, origin_memory, HG_BULK_READWRITE);
    hg_bulk_t remote = send_to_target(compat, bulk);
    hg_bulk_t local = describe(&compat->target, target_memory, HG_BULK_READWRITE);

    assert_int_equal(pull(compat, addr, remote, local, 0), HG_SUCCESS);
    assert_int_equal(outcome.count, 0);
    compat_wait(compat, &outcome.count, 1);
    assert_int_equal(outcome.info.ret, HG_SUCCESS);
    assert_int_equal(target_memory[0], 0);
    assert_int_equal(HG_Bulk_free(local), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(remote), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(compat->target.hg_class, addr), HG_SUCCESS);
}

/* A transfer that is refused has no callback. */
static void refused_transfers(void **state)
{
    struct compat *compat = *state;
    hg_addr_t addr = transfer_setup(compat);
    hg_bulk_t bulk = describe(&compat->origin, origin_memory, HG_BULK_WRITE_ONLY);
    hg_bulk_t remote = send_to_target(compat, bulk);
    hg_bulk_t local = describe(&compat->target, target_memory, HG_BULK_READWRITE);

    assert_int_equal(pull(compat, addr, remote, local, SIZE), HG_PERMISSION);
    assert_int_equal(pull(compat, HG_ADDR_NULL, remote, local, SIZE), HG_INVALID_ARG);
    assert_int_equal(pull(compat, addr, HG_BULK_NULL, local, SIZE), HG_INVALID_ARG);
    assert_int_equal(pull(compat, addr, remote, HG_BULK_NULL, SIZE), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_bind_transfer(compat->target.context, transferred, compat,
                                           HG_BULK_PUSH, remote, 0, local, 0, SIZE,
                                           HG_OP_ID_IGNORE),
                     HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_cancel(HG_OP_ID_NULL), HG_INVALID_ARG);
    compat_run(compat, 5);
    assert_int_equal(outcome.count, 0);
    assert_int_equal(HG_Bulk_free(local), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(remote), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(compat->target.hg_class, addr), HG_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, compat_setup, compat_teardown)
        TEST(memory_of_the_program),   TEST(memory_of_the_library), TEST(refused_descriptions),
        TEST(access_to_segments),      TEST(freed_in_either_order), TEST(bound_descriptors),
        TEST(freed_while_transferred), TEST(transfer_of_nothing),   TEST(refused_transfers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
