/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strings and string objects, sound and forged.
 */
#include "mercury_proc_string.h"
#include "proc_fixture.h"

static const char *const strings[] = {"", "a", "abc", "abcd", "a longer string with spaces"};

#define STRING_COUNT (sizeof(strings) / sizeof(strings[0]))

static void check_round_trip(enum hg_proc_encoding encoding, const char *string, size_t size)
{
    struct fixture fixture;
    hg_string_t in = string != NULL ? strdup(string) : NULL;
    hg_string_t out = in;
    hg_const_string_t constant = in;

    fixture_init(&fixture, encoding, HG_NOHASH);
    fixture_encode(&fixture, hg_proc_hg_string_t, &in);
    assert_int_equal(fixture.used, size);
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_equal(fixture_decode(&fixture, hg_proc_hg_string_t, &out, cut), HG_OVERFLOW);
        assert_null(out);
    }
    assert_int_equal(fixture_decode(&fixture, hg_proc_hg_string_t, &out, size), HG_SUCCESS);
    assert_int_equal(fixture_decode(&fixture, hg_proc_hg_const_string_t, &constant, size),
                     HG_SUCCESS);
    if (string != NULL) {
        assert_string_equal(out, string);
        assert_string_equal(constant, string);
    } else {
        assert_null(out);
        assert_null(constant);
    }
    fixture_free(&fixture, hg_proc_hg_string_t, &out);
    fixture_free(&fixture, hg_proc_hg_const_string_t, &constant);
    assert_null(out);
    assert_null(constant);
    fixture_free(&fixture, hg_proc_hg_string_t, &out);
    free(in);
}

static void strings_arrive(void **state)
{
    (void) state;
    for (size_t i = 0; i < STRING_COUNT; i++) {
        size_t length = strlen(strings[i]);

        check_round_trip(HG_PROC_ENCODING_RAW, strings[i], 4 + length + 1);
        check_round_trip(HG_PROC_ENCODING_PORTABLE, strings[i], 4 + (length + 3) / 4 * 4);
    }
    check_round_trip(HG_PROC_ENCODING_RAW, NULL, 4);
    check_round_trip(HG_PROC_ENCODING_PORTABLE, NULL, 4);
}

static void portable_string_is_xdr(void **state)
{
    static const char xdr[] = {0, 0, 0, 5, 'h', 'e', 'l', 'l', 'o', 0, 0, 0};
    struct fixture fixture;
    hg_const_string_t in = "hello";

    (void) state;
    fixture_init(&fixture, HG_PROC_ENCODING_PORTABLE, HG_NOHASH);
    fixture_encode(&fixture, hg_proc_hg_const_string_t, &in);
    assert_int_equal(fixture.used, sizeof(xdr));
    assert_memory_equal(fixture.buf, xdr, sizeof(xdr));
}

static void string_objects_arrive_owned(void **state)
{
    struct fixture fixture;
    hg_string_object_t in;
    hg_string_object_t out;

    (void) state;
    for (int encoding = 0; encoding < 2; encoding++) {
        fixture_init(&fixture, (enum hg_proc_encoding) encoding, HG_NOHASH);
        assert_int_equal(hg_string_object_init_const_char(&in, "object", 0), HG_SUCCESS);
        fixture_encode(&fixture, hg_proc_hg_string_object_t, &in);
        assert_int_equal(fixture_decode(&fixture, hg_proc_hg_string_object_t, &out, fixture.used),
                         HG_SUCCESS);
        assert_string_equal(out.data, "object");
        assert_true(out.is_owned);
        assert_false(out.is_const);
        fixture_free(&fixture, hg_proc_hg_string_object_t, &out);
        assert_null(out.data);
        fixture_free(&fixture, hg_proc_hg_string_object_t, &in);
        assert_int_equal(
            fixture_decode(&fixture, hg_proc_hg_string_object_t, &out, fixture.used - 1),
            HG_OVERFLOW);
        assert_null(out.data);
    }
}

static void forged_lengths_allocate_nothing(void **state)
{
    static const uint32_t lengths[] = {
        UINT32_MAX, UINT32_MAX - 1, UINT32_MAX - 3, 0x80000000, 0x7fffffff, 4096, 8, 7};
    struct fixture fixture;
    hg_string_t out = NULL;

    (void) state;
    for (int encoding = 0; encoding < 2; encoding++) {
        fixture_init(&fixture, (enum hg_proc_encoding) encoding, HG_NOHASH);
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            uint32_t length = lengths[i];

            if (encoding == HG_PROC_ENCODING_PORTABLE && length == UINT32_MAX)
                continue;
            fixture_encode(&fixture, hg_proc_uint32_t, &length);
            memset(fixture.buf + 4, 'x', 6);
            assert_int_equal(fixture_decode(&fixture, hg_proc_hg_string_t, &out, 10), HG_OVERFLOW);
            assert_null(out);
        }
    }
}

static void nul_is_at_the_end_and_nowhere_else(void **state)
{
    struct fixture fixture;
    hg_const_string_t in = "abcdefg";
    hg_string_t out = NULL;

    (void) state;
    for (int encoding = 0; encoding < 2; encoding++) {
        fixture_init(&fixture, (enum hg_proc_encoding) encoding, HG_NOHASH);
        fixture_encode(&fixture, hg_proc_hg_const_string_t, &in);
        for (size_t i = 4; i < 11; i++) {
            char saved = fixture.buf[i];

            fixture.buf[i] = 0;
            assert_int_equal(fixture_decode(&fixture, hg_proc_hg_string_t, &out, fixture.used),
                             HG_PROTOCOL_ERROR);
            assert_null(out);
            fixture.buf[i] = saved;
        }
        /* The byte is the terminating NUL, or the padding in its place. */
        fixture.buf[11] = 'h';
        assert_int_equal(fixture_decode(&fixture, hg_proc_hg_string_t, &out, fixture.used),
                         HG_PROTOCOL_ERROR);
        assert_null(out);
    }
}

static void string_objects_know_who_frees(void **state)
{
    hg_string_object_t string;
    hg_string_object_t copy;
    char text[] = "text";

    (void) state;
    assert_int_equal(hg_string_object_init(&string), HG_SUCCESS);
    assert_null(string.data);
    assert_int_equal(hg_string_object_free(&string), HG_SUCCESS);
    assert_int_equal(hg_string_object_init_char(&string, text, 0), HG_SUCCESS);
    assert_int_equal(hg_string_object_dup(string, &copy), HG_SUCCESS);
    assert_ptr_not_equal(copy.data, text);
    assert_string_equal(copy.data, "text");
    assert_int_equal(hg_string_object_free(&copy), HG_SUCCESS);
    assert_ptr_equal(hg_string_object_swap(&string, NULL), text);
    assert_null(hg_string_object_swap(&string, text));
    assert_int_equal(hg_string_object_free(&string), HG_SUCCESS);
    assert_int_equal(hg_string_object_init_char(&string, strdup("owned"), 1), HG_SUCCESS);
    assert_int_equal(hg_string_object_free(&string), HG_SUCCESS);
    assert_int_equal(hg_string_object_init_const_char(&string, NULL, 1), HG_SUCCESS);
    assert_int_equal(hg_string_object_dup(string, &copy), HG_SUCCESS);
    assert_null(copy.data);

    assert_int_equal(hg_string_object_init(NULL), HG_INVALID_ARG);
    assert_int_equal(hg_string_object_init_char(NULL, text, 0), HG_INVALID_ARG);
    assert_int_equal(hg_string_object_init_const_char(NULL, text, 0), HG_INVALID_ARG);
    assert_int_equal(hg_string_object_free(NULL), HG_INVALID_ARG);
    assert_int_equal(hg_string_object_dup(string, NULL), HG_INVALID_ARG);
    assert_null(hg_string_object_swap(NULL, text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_arrive),
        cmocka_unit_test(portable_string_is_xdr),
        cmocka_unit_test(string_objects_arrive_owned),
        cmocka_unit_test(forged_lengths_allocate_nothing),
        cmocka_unit_test(nul_is_at_the_end_and_nowhere_else),
        cmocka_unit_test(string_objects_know_who_frees),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
