/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors without a peer: creating them, querying them, and transfers within the process.
 */
#include "bulk_fixture.h"

#include <stdarg.h>
#include <stdio.h>

static hg_return_t self_transfer(struct pair *pair, hg_bulk_op_t op, hg_bulk_t origin,
                                 hg_size_t origin_offset, hg_bulk_t local, hg_size_t local_offset,
                                 hg_size_t size)
{
    struct outcome outcome = {0, HG_OTHER_ERROR, {{{NULL}}, NULL, HG_CB_LOOKUP, HG_OTHER_ERROR}};
    hg_return_t ret;

    ret = HG_Bulk_transfer(pair->target.context, outcome_set, &outcome, op, pair->target.self,
                           origin, origin_offset, local, local_offset, size, HG_OP_ID_IGNORE);
    if (ret != HG_SUCCESS)
        return ret;
    assert_int_equal(outcome.count, 0);
    pair_wait(pair, &outcome);
    return outcome.ret;
}

static void bad_arguments_are_refused(void **state)
{
    struct pair *pair = *state;
    hg_class_t *hg_class = pair->target.hg_class;
    char byte = 0;
    void *ptr = &byte;
    void *null = NULL;
    hg_size_t one = 1;
    hg_size_t huge[2] = {HG_SIZE_MAX / 2, HG_SIZE_MAX / 2};
    void *ptrs[2] = {&byte, &byte};
    hg_bulk_t bulk = HG_BULK_NULL;

    assert_int_equal(HG_Bulk_create(NULL, 1, &ptr, &one, HG_BULK_READ_ONLY, &bulk), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_create(hg_class, 0, &ptr, &one, HG_BULK_READ_ONLY, &bulk),
                     HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_create(hg_class, 1, &ptr, NULL, HG_BULK_READ_ONLY, &bulk),
                     HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_create(hg_class, 1, &ptr, &one, HG_BULK_READ_ONLY, NULL),
                     HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_create(hg_class, 1, &null, &one, HG_BULK_READ_ONLY, &bulk),
                     HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_create(hg_class, 1, &ptr, &one, 0, &bulk), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_create(hg_class, 1, &ptr, &one, 4, &bulk), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_create(hg_class, 2, ptrs, huge, HG_BULK_READ_ONLY, &bulk),
                     HG_OVERFLOW);
    assert_int_equal(HG_Bulk_create(hg_class, 2, NULL, huge, HG_BULK_READ_ONLY, &bulk),
                     HG_OVERFLOW);
    huge[0] = (hg_size_t) 1 << 60;
    assert_int_equal(HG_Bulk_create(hg_class, 1, NULL, huge, HG_BULK_READ_ONLY, &bulk), HG_NOMEM);
    assert_ptr_equal(bulk, HG_BULK_NULL);
    assert_int_equal(HG_Bulk_ref_incr(HG_BULK_NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_free(HG_BULK_NULL), HG_SUCCESS);
    assert_int_equal(HG_Bulk_cancel(HG_OP_ID_NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_get_size(HG_BULK_NULL), 0);
    assert_int_equal(HG_Bulk_get_segment_count(HG_BULK_NULL), 0);
    assert_int_equal(HG_Bulk_get_flags(HG_BULK_NULL), 0);
    assert_int_equal(HG_Bulk_get_serialize_size(HG_BULK_NULL, 0), 0);
    assert_ptr_equal(HG_Bulk_get_addr(HG_BULK_NULL), HG_ADDR_NULL);
}

static void device_memory_needs_a_transport_for_it(void **state)
{
    struct pair *pair = *state;
    struct hg_bulk_attr attr = {HG_MEM_TYPE_CUDA, 0};
    char byte = 0;
    void *ptr = &byte;
    hg_size_t one = 1;
    hg_bulk_t bulk = HG_BULK_NULL;

    assert_int_equal(
        HG_Bulk_create_attr(pair->target.hg_class, 1, &ptr, &one, HG_BULK_READ_ONLY, &attr, &bulk),
        HG_OPNOTSUPPORTED);
    attr.mem_type = HG_MEM_TYPE_UNKNOWN;
    assert_int_equal(
        HG_Bulk_create_attr(pair->target.hg_class, 1, &ptr, &one, HG_BULK_READ_ONLY, &attr, &bulk),
        HG_INVALID_ARG);
    attr.mem_type = HG_MEM_TYPE_HOST;
    assert_int_equal(
        HG_Bulk_create_attr(pair->target.hg_class, 1, &ptr, &one, HG_BULK_READ_ONLY, &attr, &bulk),
        HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
}

static void allocated_memory_is_zero_and_accessible(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[4] = {1000, 0, 3, 70000};
    void *ptrs[4];
    hg_size_t got[4];
    uint32_t count = 0;
    hg_bulk_t bulk = HG_BULK_NULL;

    assert_int_equal(
        HG_Bulk_create(pair->target.hg_class, 4, NULL, sizes, HG_BULK_READWRITE, &bulk),
        HG_SUCCESS);
    assert_int_equal(HG_Bulk_get_segment_count(bulk), 4);
    assert_int_equal(
        HG_Bulk_access(bulk, 0, HG_Bulk_get_size(bulk), HG_BULK_READWRITE, 4, ptrs, got, &count),
        HG_SUCCESS);
    assert_int_equal(count, 3);
    assert_true(got[0] == 1000 && got[1] == 3 && got[2] == 70000);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal((uintptr_t) ptrs[i] % 16, 0);
        for (hg_size_t j = 0; j < got[i]; j++)
            assert_int_equal(((char *) ptrs[i])[j], 0);
        memset(ptrs[i], 1, (size_t) got[i]);
    }
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
}

static void access_gives_the_parts_of_a_range(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[3] = {10, 20, 30};
    struct memory memory;
    void *ptrs[3];
    hg_size_t got[3];
    uint32_t count = 0;

    memory_make(&memory, pair->target.hg_class, 3, sizes, HG_BULK_READ_ONLY, 1);
    assert_int_equal(HG_Bulk_access(memory.bulk, 5, 30, HG_BULK_READ_ONLY, 3, ptrs, got, &count),
                     HG_SUCCESS);
    assert_int_equal(count, 3);
    assert_ptr_equal(ptrs[0], (char *) memory.ptrs[0] + 5);
    assert_ptr_equal(ptrs[1], memory.ptrs[1]);
    assert_ptr_equal(ptrs[2], memory.ptrs[2]);
    assert_true(got[0] == 5 && got[1] == 20 && got[2] == 5);
    assert_int_equal(HG_Bulk_access(memory.bulk, 0, 60, HG_BULK_READ_ONLY, 2, ptrs, got, &count),
                     HG_SUCCESS);
    assert_int_equal(count, 2);
    /* An access of no bytes leaves the results unchanged. */
    assert_int_equal(HG_Bulk_access(memory.bulk, 60, 0, HG_BULK_READ_ONLY, 1, ptrs, got, &count),
                     HG_SUCCESS);
    assert_int_equal(count, 2);
    assert_ptr_equal(ptrs[0], memory.ptrs[0]);
    assert_true(got[0] == 10);
    assert_int_equal(HG_Bulk_access(memory.bulk, 60, 1, HG_BULK_READ_ONLY, 1, ptrs, got, &count),
                     HG_SUCCESS);
    assert_int_equal(count, 0);
    assert_int_equal(HG_Bulk_access(memory.bulk, 59, 1, HG_BULK_READ_ONLY, 1, NULL, NULL, NULL),
                     HG_SUCCESS);
    /* A range is cut off at the end of the memory. */
    assert_int_equal(HG_Bulk_access(memory.bulk, 59, 2, HG_BULK_READ_ONLY, 1, ptrs, got, &count),
                     HG_SUCCESS);
    assert_true(count == 1 && got[0] == 1);
    assert_int_equal(
        HG_Bulk_access(memory.bulk, 1, HG_SIZE_MAX, HG_BULK_READ_ONLY, 1, ptrs, got, &count),
        HG_SUCCESS);
    assert_true(count == 1 && got[0] == 9);
    assert_int_equal(
        HG_Bulk_access(memory.bulk, HG_SIZE_MAX, 1, HG_BULK_READ_ONLY, 1, ptrs, got, &count),
        HG_OVERFLOW);
    assert_int_equal(count, 1); /* unchanged */
    /* Access flags restrict peers, not the owner. */
    assert_int_equal(HG_Bulk_access(memory.bulk, 0, 1, HG_BULK_READWRITE, 1, ptrs, got, &count),
                     HG_SUCCESS);
    assert_int_equal(count, 1);
    assert_int_equal(HG_Bulk_access(HG_BULK_NULL, 0, 1, 1, 1, ptrs, got, &count), HG_INVALID_ARG);
    memory_free(&memory);
}

static void memory_of_others_cannot_be_accessed(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[1] = {10000};
    struct memory memory;
    hg_bulk_t received;

    memory_make(&memory, pair->origin.hg_class, 1, sizes, HG_BULK_READ_ONLY, 1);
    received = bulk_send(memory.bulk, 0, pair->target.hg_class);
    assert_int_equal(HG_Bulk_access(received, 0, 1, HG_BULK_READ_ONLY, 1, NULL, NULL, NULL),
                     HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_free(received), HG_SUCCESS);
    memory_free(&memory);
}

static void own_descriptor_that_comes_back_is_recognized(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[2] = {10, 20};
    struct memory memory;
    hg_bulk_t received;
    void *ptrs[2];
    uint32_t count = 0;

    memory_make(&memory, pair->target.hg_class, 2, sizes, HG_BULK_READWRITE, 1);
    received = bulk_send(memory.bulk, 0, pair->target.hg_class);
    assert_int_equal(HG_Bulk_access(received, 0, 30, HG_BULK_READWRITE, 2, ptrs, NULL, &count),
                     HG_SUCCESS);
    assert_int_equal(count, 2);
    assert_ptr_equal(ptrs[0], memory.ptrs[0]);
    assert_ptr_equal(ptrs[1], memory.ptrs[1]);
    assert_int_equal(HG_Bulk_free(received), HG_SUCCESS);
    memory_free(&memory);
}

static void self_transfers_copy(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[3] = {100, 0, 28};
    static const hg_size_t other[2] = {27, 101};
    char before[128];
    char after[128];
    struct memory a;
    struct memory b;
    hg_bulk_t received;

    memory_make(&a, pair->target.hg_class, 3, sizes, HG_BULK_READWRITE, 1);
    memory_make(&b, pair->target.hg_class, 2, other, HG_BULK_READWRITE, 2);
    memory_get(&a, before);
    assert_int_equal(self_transfer(pair, HG_BULK_PULL, a.bulk, 0, b.bulk, 0, 128), HG_SUCCESS);
    memory_get(&b, after);
    assert_memory_equal(before, after, 128);

    received = bulk_send(a.bulk, 0, pair->target.hg_class);
    memset(after, 7, sizeof(after));
    memory_put(&b, after);
    assert_int_equal(self_transfer(pair, HG_BULK_PUSH, received, 3, b.bulk, 2, 120), HG_SUCCESS);
    memory_get(&a, after);
    assert_memory_equal(before, after, 3);
    for (int i = 3; i < 123; i++)
        assert_int_equal(after[i], 7);
    assert_memory_equal(before + 123, after + 123, 5);

    assert_int_equal(self_transfer(pair, HG_BULK_PULL, a.bulk, 128, b.bulk, 128, 0), HG_SUCCESS);
    assert_int_equal(self_transfer(pair, HG_BULK_PULL, a.bulk, 129, b.bulk, 0, 0), HG_OVERFLOW);
    assert_int_equal(self_transfer(pair, HG_BULK_PULL, a.bulk, 1, b.bulk, 0, 128), HG_OVERFLOW);
    assert_int_equal(self_transfer(pair, HG_BULK_PULL, a.bulk, 0, b.bulk, 0, HG_SIZE_MAX),
                     HG_OVERFLOW);
    /* The received descriptor keeps the original one and its memory alive. */
    assert_int_equal(HG_Bulk_free(a.bulk), HG_SUCCESS);
    assert_int_equal(self_transfer(pair, HG_BULK_PULL, received, 0, b.bulk, 0, 128), HG_SUCCESS);
    a.bulk = received;
    memory_free(&a);
    memory_free(&b);
}

static void descriptor_without_bytes_works(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[2] = {0, 0};
    struct memory a;
    struct memory b;
    hg_bulk_t received;

    memory_make(&a, pair->origin.hg_class, 2, sizes, HG_BULK_READWRITE, 1);
    memory_make(&b, pair->target.hg_class, 1, sizes, HG_BULK_READWRITE, 1);
    received = bulk_send(a.bulk, 0, pair->target.hg_class);
    assert_int_equal(transfer(pair, HG_BULK_PULL, received, 0, b.bulk, 0, 0), HG_SUCCESS);
    assert_int_equal(transfer(pair, HG_BULK_PULL, received, 0, b.bulk, 0, 1), HG_OVERFLOW);
    assert_int_equal(HG_Bulk_access(b.bulk, 0, 0, HG_BULK_READ_ONLY, 1, NULL, NULL, NULL),
                     HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(received), HG_SUCCESS);
    memory_free(&a);
    memory_free(&b);
}

static char line[512]; /* the last line of the log */

static int keep_line(FILE *stream, const char *format, ...)
{
    va_list args;
    int ret;

    (void) stream;
    va_start(args, format);
    ret = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    return ret;
}

/*
 * The memory that a pull writes to needs HG_BULK_WRITE_ONLY, although it is local. This test runs
 * before one that logs the same line more often than the log's rate limit allows.
 */
static void the_log_says_which_flags_are_needed(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[1] = {64};
    struct memory a;
    struct memory b;

    memory_make(&a, pair->target.hg_class, 1, sizes, HG_BULK_READ_ONLY, 1);
    memory_make(&b, pair->target.hg_class, 1, sizes, HG_BULK_READ_ONLY, 2);
    HG_Set_log_func(keep_line);
    assert_int_equal(self_transfer(pair, HG_BULK_PULL, a.bulk, 0, b.bulk, 0, 64), HG_PERMISSION);
    assert_non_null(strstr(line, "HG_BULK_READ_ONLY there and HG_BULK_WRITE_ONLY here"));
    assert_int_equal(self_transfer(pair, HG_BULK_PUSH, a.bulk, 0, b.bulk, 0, 64), HG_PERMISSION);
    assert_non_null(strstr(line, "HG_BULK_WRITE_ONLY there and HG_BULK_READ_ONLY here"));
    HG_Set_log_func(NULL);
    memory_free(&a);
    memory_free(&b);
}

static void access_flags_hold_on_both_sides(void **state)
{
    struct pair *pair = *state;
    static const uint8_t flags[3] = {HG_BULK_READ_ONLY, HG_BULK_WRITE_ONLY, HG_BULK_READWRITE};
    static const hg_size_t sizes[1] = {64};

    for (int i = 0; i < 9; i++) {
        uint8_t origin_flags = flags[i / 3];
        uint8_t local_flags = flags[i % 3];
        bool can_pull = (origin_flags & HG_BULK_READ_ONLY) && (local_flags & HG_BULK_WRITE_ONLY);
        bool can_push = (origin_flags & HG_BULK_WRITE_ONLY) && (local_flags & HG_BULK_READ_ONLY);
        struct memory a;
        struct memory b;
        hg_bulk_t received;

        memory_make(&a, pair->origin.hg_class, 1, sizes, origin_flags, 1);
        memory_make(&b, pair->target.hg_class, 1, sizes, local_flags, 2);
        received = bulk_send(a.bulk, 0, pair->target.hg_class);
        assert_int_equal(transfer(pair, HG_BULK_PULL, received, 0, b.bulk, 0, 64),
                         can_pull ? HG_SUCCESS : HG_PERMISSION);
        assert_int_equal(transfer(pair, HG_BULK_PUSH, received, 0, b.bulk, 0, 64),
                         can_push ? HG_SUCCESS : HG_PERMISSION);
        assert_int_equal(HG_Bulk_free(received), HG_SUCCESS);
        memory_free(&a);
        memory_free(&b);
    }
}

static void transfers_that_make_no_sense_are_refused(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[1] = {64};
    struct memory a;
    struct memory b;
    hg_bulk_t received;

    memory_make(&a, pair->origin.hg_class, 1, sizes, HG_BULK_READWRITE, 1);
    memory_make(&b, pair->target.hg_class, 1, sizes, HG_BULK_READWRITE, 2);
    received = bulk_send(a.bulk, 0, pair->target.hg_class);
    assert_int_equal(transfer(pair, HG_BULK_PULL, HG_BULK_NULL, 0, b.bulk, 0, 64), HG_INVALID_ARG);
    assert_int_equal(transfer(pair, HG_BULK_PULL, received, 0, HG_BULK_NULL, 0, 64),
                     HG_INVALID_ARG);
    assert_int_equal(transfer(pair, (hg_bulk_op_t) 5, received, 0, b.bulk, 0, 64), HG_INVALID_ARG);
    /*
     * A local descriptor of another class, a received one as the local side, a local one as the
     * remote side.
     */
    assert_int_equal(transfer(pair, HG_BULK_PULL, a.bulk, 0, b.bulk, 0, 64), HG_INVALID_ARG);
    assert_int_equal(transfer(pair, HG_BULK_PULL, received, 0, received, 0, 64), HG_INVALID_ARG);
    assert_int_equal(transfer(pair, HG_BULK_PULL, b.bulk, 0, b.bulk, 0, 64), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_transfer(NULL, outcome_set, NULL, HG_BULK_PULL, pair->origin_addr,
                                      received, 0, b.bulk, 0, 64, NULL),
                     HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_transfer(pair->target.context, outcome_set, NULL, HG_BULK_PULL,
                                      HG_ADDR_NULL, received, 0, b.bulk, 0, 64, NULL),
                     HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_bind_transfer(pair->target.context, outcome_set, NULL, HG_BULK_PULL,
                                           received, 0, b.bulk, 0, 64, NULL),
                     HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_bind(received, pair->target.context), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_bind(a.bulk, pair->target.context), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_bind(a.bulk, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_free(received), HG_SUCCESS);
    memory_free(&a);
    memory_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(device_memory_needs_a_transport_for_it),
        cmocka_unit_test(allocated_memory_is_zero_and_accessible),
        cmocka_unit_test(access_gives_the_parts_of_a_range),
        cmocka_unit_test(memory_of_others_cannot_be_accessed),
        cmocka_unit_test(own_descriptor_that_comes_back_is_recognized),
        cmocka_unit_test(self_transfers_copy),
        cmocka_unit_test(descriptor_without_bytes_works),
        cmocka_unit_test(the_log_says_which_flags_are_needed),
        cmocka_unit_test(access_flags_hold_on_both_sides),
        cmocka_unit_test(transfers_that_make_no_sense_are_refused),
    };

    return cmocka_run_group_tests(tests, pair_open, pair_close);
}
