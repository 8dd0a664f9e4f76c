/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers: encoding continues in an extra buffer, decoding never reads outside its buffer, and
 * encoding by hand through pointers.
 */
#include "proc_fixture.h"

#include "bulk/block.h"

static void encoding_grows_into_an_extra_buffer(void **state)
{
    struct fixture fixture;
    char *extra;

    (void) state;
    fixture_init(&fixture, HG_PROC_ENCODING_RAW, HG_NOHASH);
    /* The size of the buffer decides which item is the first that does not fit. */
    for (hg_size_t size = 0; size <= 64; size++) {
        assert_int_equal(hg_proc_reset(&fixture.proc, fixture.buf, size, HG_ENCODE), HG_SUCCESS);
        for (uint32_t i = 0; i < 4000; i++)
            assert_int_equal(hg_proc_uint32_t(&fixture.proc, &i), HG_SUCCESS);
        assert_int_equal(hg_proc_get_size_used(&fixture.proc), 16000);
        extra = hg_proc_get_extra_buf(&fixture.proc);
        assert_non_null(extra);
        assert_true(hg_proc_get_extra_size(&fixture.proc) >= 16000);
        assert_int_equal(hg_proc_get_size(&fixture.proc),
                         size + hg_proc_get_extra_size(&fixture.proc));
        for (uint32_t i = 0; i < 4000; i++)
            assert_memory_equal(extra + 4 * i, &i, 4);
    }
    hg_proc_fini(&fixture.proc);
}

static void no_extra_buffer_while_all_fits(void **state)
{
    struct fixture fixture;
    uint64_t value = 1;

    (void) state;
    fixture_init(&fixture, HG_PROC_ENCODING_RAW, HG_NOHASH);
    assert_int_equal(hg_proc_reset(&fixture.proc, fixture.buf, 8, HG_ENCODE), HG_SUCCESS);
    assert_int_equal(hg_proc_uint64_t(&fixture.proc, &value), HG_SUCCESS);
    assert_null(hg_proc_get_extra_buf(&fixture.proc));
    assert_int_equal(hg_proc_get_extra_size(&fixture.proc), 0);
    assert_int_equal(hg_proc_set_extra_buf_is_mine(&fixture.proc, 0), HG_INVALID_ARG);
    assert_int_equal(hg_proc_uint64_t(&fixture.proc, &value), HG_SUCCESS);
    assert_non_null(hg_proc_get_extra_buf(&fixture.proc));
    assert_int_equal(hg_proc_reset(&fixture.proc, fixture.buf, 8, HG_ENCODE), HG_SUCCESS);
    assert_null(hg_proc_get_extra_buf(&fixture.proc));
}

static void extra_buffer_can_be_given_away(void **state)
{
    struct fixture fixture;
    struct hg_block *block;
    void *extra;

    (void) state;
    fixture_init(&fixture, HG_PROC_ENCODING_RAW, HG_NOHASH);
    assert_int_equal(hg_proc_reset(&fixture.proc, fixture.buf, 8, HG_ENCODE), HG_SUCCESS);
    assert_int_equal(hg_proc_set_size(&fixture.proc, 9), HG_SUCCESS);
    extra = hg_proc_get_extra_buf(&fixture.proc);
    assert_int_equal(hg_proc_set_extra_buf_is_mine(&fixture.proc, 0), HG_SUCCESS);
    assert_int_equal(hg_proc_reset(&fixture.proc, fixture.buf, 8, HG_ENCODE), HG_SUCCESS);
    free(extra);

    assert_int_equal(hg_proc_set_size(&fixture.proc, 9), HG_SUCCESS);
    block = hg_proc_take_extra_block(&fixture.proc);
    assert_non_null(block);
    assert_true(block->capacity >= 9);
    hg_proc_fini(&fixture.proc);
    hg_block_put(block);
}

static void absurd_sizes_are_refused(void **state)
{
    static const hg_size_t sizes[] = {HG_SIZE_MAX, HG_SIZE_MAX - 3, HG_SIZE_MAX / 2,
                                      (hg_size_t) 1 << 60};
    struct fixture fixture;
    char byte = 0;

    (void) state;
    for (int encoding = 0; encoding < 2; encoding++) {
        fixture_init(&fixture, (enum hg_proc_encoding) encoding, HG_NOHASH);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            (void) hg_proc_reset(&fixture.proc, fixture.buf, 16, HG_ENCODE);
            assert_int_equal(hg_proc_set_size(&fixture.proc, sizes[i]), HG_OVERFLOW);
            assert_int_equal(hg_proc_bytes(&fixture.proc, &byte, sizes[i]), HG_OVERFLOW);
            assert_null(hg_proc_save_ptr(&fixture.proc, sizes[i]));
            (void) hg_proc_reset(&fixture.proc, fixture.buf, 16, HG_DECODE);
            assert_int_equal(hg_proc_bytes(&fixture.proc, &byte, sizes[i]), HG_OVERFLOW);
            assert_null(hg_proc_save_ptr(&fixture.proc, sizes[i]));
        }
    }
}

static void decoding_cannot_grow(void **state)
{
    struct fixture fixture;

    (void) state;
    fixture_init(&fixture, HG_PROC_ENCODING_RAW, HG_NOHASH);
    (void) hg_proc_reset(&fixture.proc, fixture.buf, 16, HG_DECODE);
    assert_int_equal(hg_proc_set_size(&fixture.proc, 16), HG_SUCCESS);
    assert_int_equal(hg_proc_set_size(&fixture.proc, 17), HG_OVERFLOW);
    assert_null(hg_proc_get_extra_buf(&fixture.proc));
}

static void pointers_reserve_and_are_checked(void **state)
{
    struct fixture fixture;
    void *data;

    (void) state;
    fixture_init(&fixture, HG_PROC_ENCODING_PORTABLE, HG_NOHASH);
    (void) hg_proc_reset(&fixture.proc, fixture.buf, 16, HG_ENCODE);
    data = hg_proc_save_ptr(&fixture.proc, 5);
    assert_ptr_equal(data, fixture.buf);
    memcpy(data, "hello", 5);
    assert_int_equal(hg_proc_get_size_used(&fixture.proc), 8);
    assert_int_equal(hg_proc_restore_ptr(&fixture.proc, data, 5), HG_SUCCESS);
    assert_memory_equal(fixture.buf, "hello\0\0\0", 8);
    assert_int_equal(hg_proc_restore_ptr(&fixture.proc, data, 9), HG_INVALID_ARG);
    assert_int_equal(hg_proc_restore_ptr(&fixture.proc, fixture.buf + 9, 1), HG_INVALID_ARG);
    assert_int_equal(hg_proc_restore_ptr(&fixture.proc, &fixture, 1), HG_INVALID_ARG);
    assert_int_equal(hg_proc_restore_ptr(&fixture.proc, NULL, 0), HG_INVALID_ARG);

    (void) hg_proc_reset(&fixture.proc, fixture.buf, 8, HG_DECODE);
    assert_non_null(hg_proc_save_ptr(&fixture.proc, 8));
    assert_null(hg_proc_save_ptr(&fixture.proc, 1));
    (void) hg_proc_reset(&fixture.proc, fixture.buf, 8, HG_FREE);
    assert_null(hg_proc_save_ptr(&fixture.proc, 1));
}

static void settings_are_kept_and_reset(void **state)
{
    struct fixture fixture;
    hg_handle_t handle = (hg_handle_t) (void *) &fixture;

    (void) state;
    fixture_init(&fixture, HG_PROC_ENCODING_PORTABLE, HG_NOHASH);
    assert_null(hg_proc_get_class(&fixture.proc));
    assert_null(hg_proc_get_handle(&fixture.proc));
    hg_proc_set_handle(&fixture.proc, handle);
    assert_ptr_equal(hg_proc_get_handle(&fixture.proc), handle);
    assert_int_equal(hg_proc_get_encoding(&fixture.proc), HG_PROC_ENCODING_PORTABLE);
    hg_proc_set_flags(&fixture.proc, HG_PROC_SM | HG_PROC_BULK_EAGER);
    assert_int_equal(hg_proc_get_flags(&fixture.proc), HG_PROC_SM | HG_PROC_BULK_EAGER);
    (void) hg_proc_reset(&fixture.proc, fixture.buf, 10, HG_DECODE);
    assert_int_equal(hg_proc_get_flags(&fixture.proc), 0);
    assert_int_equal(hg_proc_get_op(&fixture.proc), HG_DECODE);
    assert_int_equal(hg_proc_get_size(&fixture.proc), 10);
    assert_int_equal(hg_proc_get_size_left(&fixture.proc), 10);
    assert_int_equal(hg_proc_get_size_used(&fixture.proc), 0);
}

static void empty_buffers_work(void **state)
{
    struct fixture fixture;
    uint8_t value = 9;

    (void) state;
    fixture_init(&fixture, HG_PROC_ENCODING_RAW, HG_CRC32);
    assert_int_equal(hg_proc_reset(&fixture.proc, NULL, 0, HG_DECODE), HG_SUCCESS);
    assert_int_equal(hg_proc_uint8_t(&fixture.proc, &value), HG_OVERFLOW);
    assert_int_equal(hg_proc_flush(&fixture.proc), HG_SUCCESS);
    assert_int_equal(hg_proc_reset(&fixture.proc, NULL, 0, HG_ENCODE), HG_SUCCESS);
    assert_int_equal(hg_proc_uint8_t(&fixture.proc, &value), HG_SUCCESS);
    assert_int_equal(hg_proc_flush(&fixture.proc), HG_SUCCESS);
    hg_proc_fini(&fixture.proc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoding_grows_into_an_extra_buffer),
        cmocka_unit_test(no_extra_buffer_while_all_fits),
        cmocka_unit_test(extra_buffer_can_be_given_away),
        cmocka_unit_test(absurd_sizes_are_refused),
        cmocka_unit_test(decoding_cannot_grow),
        cmocka_unit_test(pointers_reserve_and_are_checked),
        cmocka_unit_test(settings_are_kept_and_reset),
        cmocka_unit_test(empty_buffers_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
