/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Integers and bytes: decoding returns the encoded value, the encoding is the documented one, and
 * no byte outside the buffer is read.
 */
#include "proc_fixture.h"

struct integer_case {
    hg_proc_cb_t proc_cb;
    size_t size;
    uint64_t value; /* the integer is in the low bytes */
    size_t portable_size;
    uint8_t portable[8];
};

static const struct integer_case cases[] = {
    {hg_proc_int8_t, 1, 0x7f, 4, {0, 0, 0, 0x7f}},
    {hg_proc_int8_t, 1, 0x80, 4, {0xff, 0xff, 0xff, 0x80}},
    {hg_proc_uint8_t, 1, 0xff, 4, {0, 0, 0, 0xff}},
    {hg_proc_int16_t, 2, 0x1234, 4, {0, 0, 0x12, 0x34}},
    {hg_proc_int16_t, 2, 0xfffe, 4, {0xff, 0xff, 0xff, 0xfe}},
    {hg_proc_uint16_t, 2, 0xfedc, 4, {0, 0, 0xfe, 0xdc}},
    {hg_proc_int32_t, 4, 0x12345678, 4, {0x12, 0x34, 0x56, 0x78}},
    {hg_proc_int32_t, 4, 0xffffffff, 4, {0xff, 0xff, 0xff, 0xff}},
    {hg_proc_uint32_t, 4, 0x89abcdef, 4, {0x89, 0xab, 0xcd, 0xef}},
    {hg_proc_int64_t, 8, 0x0123456789abcdef, 8, {1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}},
    {hg_proc_int64_t, 8, UINT64_MAX - 1, 8, {255, 255, 255, 255, 255, 255, 255, 254}},
    {hg_proc_uint64_t, 8, 0xfedcba9876543210, 8, {0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10}},
};

#define CASE_COUNT (sizeof(cases) / sizeof(cases[0]))

static void check_case(const struct integer_case *item, enum hg_proc_encoding encoding,
                       const void *bytes, size_t size)
{
    struct fixture fixture;
    uint64_t in = item->value;
    uint64_t out = 0;

    fixture_init(&fixture, encoding, HG_NOHASH);
    fixture_encode(&fixture, item->proc_cb, &in);
    assert_int_equal(fixture.used, size);
    assert_memory_equal(fixture.buf, bytes, size);
    assert_int_equal(fixture_decode(&fixture, item->proc_cb, &out, size), HG_SUCCESS);
    assert_memory_equal(&in, &out, item->size);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(fixture_decode(&fixture, item->proc_cb, &out, cut), HG_OVERFLOW);
    fixture_free(&fixture, item->proc_cb, &out);
    hg_proc_fini(&fixture.proc);
}

static void raw_integers_are_memory_images(void **state)
{
    (void) state;
    for (size_t i = 0; i < CASE_COUNT; i++)
        check_case(&cases[i], HG_PROC_ENCODING_RAW, &cases[i].value, cases[i].size);
}

static void portable_integers_are_xdr(void **state)
{
    (void) state;
    for (size_t i = 0; i < CASE_COUNT; i++)
        check_case(&cases[i], HG_PROC_ENCODING_PORTABLE, cases[i].portable, cases[i].portable_size);
}

static void portable_integer_that_does_not_fit_is_refused(void **state)
{
    static const struct {
        hg_proc_cb_t proc_cb;
        uint8_t bytes[4];
    } bad[] = {
        {hg_proc_int8_t, {0, 0, 0, 0x80}},
        {hg_proc_int8_t, {0, 0, 1, 0}},
        {hg_proc_int8_t, {0xff, 0xff, 0xff, 0x7f}},
        {hg_proc_uint8_t, {0, 0, 1, 0}},
        {hg_proc_uint8_t, {0xff, 0xff, 0xff, 0xff}},
        {hg_proc_int16_t, {0, 0, 0x80, 0}},
        {hg_proc_uint16_t, {0, 1, 0, 0}},
    };
    struct fixture fixture;
    uint64_t out = 0;

    (void) state;
    fixture_init(&fixture, HG_PROC_ENCODING_PORTABLE, HG_NOHASH);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        memcpy(fixture.buf, bad[i].bytes, 4);
        assert_int_equal(fixture_decode(&fixture, bad[i].proc_cb, &out, 4), HG_PROTOCOL_ERROR);
    }
    assert_int_equal(out, 0);
}

static void type_names_of_older_clients_work(void **state)
{
    struct fixture fixture;
    hg_size_t size = UINT64_MAX;
    hg_id_t id = 0x1122334455667788;
    hg_bool_t truth = HG_TRUE;
    hg_ptr_t pointer = 42;

    (void) state;
    fixture_init(&fixture, HG_PROC_ENCODING_RAW, HG_NOHASH);
    (void) hg_proc_reset(&fixture.proc, fixture.buf, sizeof(fixture.buf), HG_ENCODE);
    assert_int_equal(hg_proc_hg_size_t(&fixture.proc, &size), HG_SUCCESS);
    assert_int_equal(hg_proc_hg_id_t(&fixture.proc, &id), HG_SUCCESS);
    assert_int_equal(hg_proc_hg_bool_t(&fixture.proc, &truth), HG_SUCCESS);
    assert_int_equal(hg_proc_hg_ptr_t(&fixture.proc, &pointer), HG_SUCCESS);
    assert_int_equal(hg_proc_get_size_used(&fixture.proc), 8 + 8 + 1 + 8);
    (void) hg_proc_reset(&fixture.proc, fixture.buf, sizeof(fixture.buf), HG_DECODE);
    size = id = pointer = truth = 0;
    assert_int_equal(hg_proc_hg_size_t(&fixture.proc, &size), HG_SUCCESS);
    assert_int_equal(hg_proc_hg_id_t(&fixture.proc, &id), HG_SUCCESS);
    assert_int_equal(hg_proc_hg_bool_t(&fixture.proc, &truth), HG_SUCCESS);
    assert_int_equal(hg_proc_hg_ptr_t(&fixture.proc, &pointer), HG_SUCCESS);
    assert_true(size == UINT64_MAX && id == 0x1122334455667788 && truth == 1 && pointer == 42);
}

/* The portable encoding pads these five bytes to eight. */
static hg_return_t proc_five(hg_proc_t proc, void *data)
{
    return hg_proc_memcpy(proc, data, 5);
}

static void bytes_are_padded_only_in_the_portable_encoding(void **state)
{
    struct fixture fixture;
    char in[5] = {1, 2, 3, 4, 5};
    char out[5] = {0};
    static const char padded[8] = {1, 2, 3, 4, 5, 0, 0, 0};

    (void) state;
    fixture_init(&fixture, HG_PROC_ENCODING_RAW, HG_NOHASH);
    fixture_encode(&fixture, proc_five, in);
    assert_int_equal(fixture.used, 5);
    assert_int_equal(fixture_decode(&fixture, proc_five, out, 5), HG_SUCCESS);
    assert_memory_equal(in, out, 5);

    fixture_init(&fixture, HG_PROC_ENCODING_PORTABLE, HG_NOHASH);
    fixture_encode(&fixture, proc_five, in);
    assert_int_equal(fixture.used, 8);
    assert_memory_equal(fixture.buf, padded, 8);
    for (size_t cut = 0; cut < 8; cut++)
        assert_int_equal(fixture_decode(&fixture, proc_five, out, cut), HG_OVERFLOW);
    fixture.buf[7] = 1;
    assert_int_equal(fixture_decode(&fixture, proc_five, out, 8), HG_PROTOCOL_ERROR);
}

static void bad_arguments_are_refused(void **state)
{
    struct fixture fixture;
    uint32_t value = 0;

    (void) state;
    fixture_init(&fixture, HG_PROC_ENCODING_RAW, HG_NOHASH);
    assert_int_equal(hg_proc_reset(NULL, fixture.buf, 8, HG_ENCODE), HG_INVALID_ARG);
    assert_int_equal(hg_proc_reset(&fixture.proc, NULL, 8, HG_ENCODE), HG_INVALID_ARG);
    assert_int_equal(hg_proc_reset(&fixture.proc, fixture.buf, 8, (hg_proc_op_t) 7),
                     HG_INVALID_ARG);
    assert_int_equal(hg_proc_reset(&fixture.proc, fixture.buf, 8, HG_ENCODE), HG_SUCCESS);
    assert_int_equal(hg_proc_bytes(&fixture.proc, NULL, 4), HG_INVALID_ARG);
    assert_int_equal(hg_proc_bytes(&fixture.proc, NULL, 0), HG_SUCCESS);
    assert_int_equal(hg_proc_integer(&fixture.proc, &value, 3, 0), HG_INVALID_ARG);
    assert_int_equal(hg_proc_create(NULL, HG_NOHASH, NULL), HG_INVALID_ARG);
    assert_int_equal(hg_proc_set_size(NULL, 1), HG_INVALID_ARG);
    assert_int_equal(hg_proc_flush(NULL), HG_INVALID_ARG);
    assert_int_equal(hg_proc_free(HG_PROC_NULL), HG_SUCCESS);
}

static void macros_for_own_routines_work(void **state)
{
    struct fixture fixture;
    uint32_t value = 7;
    hg_return_t ret = HG_OTHER_ERROR;

    (void) state;
    fixture_init(&fixture, HG_PROC_ENCODING_RAW, HG_NOHASH);
    (void) hg_proc_reset(&fixture.proc, fixture.buf, 8, HG_ENCODE);
    HG_PROC_TYPE(&fixture.proc, uint32_t, &value, done, ret);
    HG_PROC_CHECK_SIZE(&fixture.proc, sizeof(value), done, ret);
    HG_PROC_TYPE_ENCODE(&fixture.proc, &value, sizeof(value));
    HG_PROC_UPDATE(&fixture.proc, sizeof(value));
    HG_PROC_CHECKSUM_UPDATE(&fixture.proc, &value, sizeof(value));
    assert_int_equal(hg_proc_get_size_used(&fixture.proc), 8);
    assert_int_equal(hg_proc_get_size_left(&fixture.proc), 0);
    HG_PROC_BYTES(&fixture.proc, &value, sizeof(value), done, ret);
done:
    assert_int_equal(ret, HG_SUCCESS);
    assert_int_equal(hg_proc_get_size_used(&fixture.proc), 12);
    hg_proc_fini(&fixture.proc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raw_integers_are_memory_images),
        cmocka_unit_test(portable_integers_are_xdr),
        cmocka_unit_test(portable_integer_that_does_not_fit_is_refused),
        cmocka_unit_test(type_names_of_older_clients_work),
        cmocka_unit_test(bytes_are_padded_only_in_the_portable_encoding),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(macros_for_own_routines_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
