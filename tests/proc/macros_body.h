/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of mercury_macros.h; included by a C program and by a C++ program.
 */
#include "macros_support.h"

#include "mercury_macros.h"
#include "mercury_proc_string.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif
#include <cmocka.h>
#ifdef __cplusplus
}
#endif

/* A type with a hand-written routine that counts the decoded values that were not freed. */
typedef struct {
    uint32_t *value;
} held_t;

static int held_count;

static hg_return_t hg_proc_held_t(hg_proc_t proc, void *data)
{
    held_t *held = (held_t *) data;
    hg_return_t ret;

    if (hg_proc_get_op(proc) == HG_ENCODE)
        return hg_proc_uint32_t(proc, held->value);
    if (hg_proc_get_op(proc) == HG_DECODE) {
        uint32_t value = 0;

        ret = hg_proc_uint32_t(proc, &value);
        if (ret != HG_SUCCESS)
            return ret;
        held->value = (uint32_t *) malloc(sizeof(*held->value));
        *held->value = value;
        held_count++;
        return HG_SUCCESS;
    }
    free(held->value);
    held->value = NULL;
    held_count--;
    return HG_SUCCESS;
}

/* A struct that the program has defined itself. */
typedef struct {
    uint64_t cookie;
    int not_sent;
} point_t;

MERCURY_GEN_STRUCT_PROC(point_t, ((uint64_t) (cookie)))

MERCURY_GEN_PROC(one_t, ((int32_t) (value)))
MERCURY_GEN_PROC(all_t, ((int8_t) (a))((uint8_t) (b))((int16_t) (c))((uint16_t) (d))((int32_t) (e))(
                            (uint32_t) (f))((int64_t) (g))((uint64_t) (h))((hg_size_t) (i))(
                            (hg_bool_t) (j))((hg_string_t) (k))((hg_const_string_t) (l))(
                            (point_t) (m))((one_t) (n))((held_t) (o)))
MERCURY_GEN_PROC(holder_t, ((held_t) (a))((hg_string_t) (b))((held_t) (c))((held_t) (d)))
MERCURY_GEN_PROC(nested_t, ((held_t) (a))((holder_t) (b))((holder_t) (c))((hg_string_t) (d)))

/* More fields than a preprocessor can count. */
/* clang-format off */
#define FIELDS_10(x)                                                     \
    ((uint8_t)(x##0))((uint8_t)(x##1))((uint8_t)(x##2))((uint8_t)(x##3)) \
    ((uint8_t)(x##4))((uint8_t)(x##5))((uint8_t)(x##6))((uint8_t)(x##7)) \
    ((uint8_t)(x##8))((uint8_t)(x##9))
#define FIELDS_100(x)                                                               \
    FIELDS_10(x##0) FIELDS_10(x##1) FIELDS_10(x##2) FIELDS_10(x##3) FIELDS_10(x##4) \
    FIELDS_10(x##5) FIELDS_10(x##6) FIELDS_10(x##7) FIELDS_10(x##8) FIELDS_10(x##9)
/* clang-format on */
MERCURY_GEN_PROC(many_t, FIELDS_100(f0) FIELDS_100(f1) FIELDS_100(f2) FIELDS_100(f3)((uint8_t) (z)))

static char buf[4096];

static size_t encode(hg_proc_cb_t proc_cb, void *data, int encoding)
{
    hg_proc_t proc = macros_proc(buf, sizeof(buf), HG_ENCODE, (enum hg_proc_encoding) encoding);

    assert_non_null(proc);
    assert_int_equal(proc_cb(proc, data), HG_SUCCESS);
    return (size_t) hg_proc_get_size_used(proc);
}

static hg_return_t decode(hg_proc_cb_t proc_cb, void *data, size_t size, int encoding)
{
    hg_proc_t proc = macros_proc(buf, size, HG_DECODE, (enum hg_proc_encoding) encoding);
    hg_return_t ret = proc_cb(proc, data);

    assert_int_equal(hg_proc_get_op(proc), HG_DECODE);
    return ret;
}

static void release(hg_proc_cb_t proc_cb, void *data)
{
    hg_proc_t proc = macros_proc(NULL, 0, HG_FREE, HG_PROC_ENCODING_RAW);

    assert_int_equal(proc_cb(proc, data), HG_SUCCESS);
}

static void every_field_type_arrives(void **state)
{
    uint32_t held = 77;
    char text[] = "text";
    all_t in;
    all_t out;

    (void) state;
    for (int encoding = 0; encoding < 2; encoding++) {
        size_t size;

        memset(&in, 0, sizeof(in));
        memset(&out, 0, sizeof(out));
        in.a = -1;
        in.b = 200;
        in.c = -3000;
        in.d = 60000;
        in.e = -2000000000;
        in.f = 4000000000u;
        in.g = INT64_MIN;
        in.h = UINT64_MAX;
        in.i = 123;
        in.j = HG_TRUE;
        in.k = text;
        in.l = "constant";
        in.m.cookie = 5;
        in.m.not_sent = 6;
        in.n.value = -7;
        in.o.value = &held;
        size = encode(hg_proc_all_t, &in, encoding);
        assert_int_equal(decode(hg_proc_all_t, &out, size, encoding), HG_SUCCESS);
        assert_true(out.a == -1 && out.b == 200 && out.c == -3000 && out.d == 60000);
        assert_true(out.e == -2000000000 && out.f == 4000000000u && out.g == INT64_MIN);
        assert_true(out.h == UINT64_MAX && out.i == 123 && out.j == HG_TRUE);
        assert_string_equal(out.k, "text");
        assert_string_equal(out.l, "constant");
        assert_true(out.m.cookie == 5 && out.m.not_sent == 0 && out.n.value == -7);
        assert_int_equal(*out.o.value, 77);
        release(hg_proc_all_t, &out);
        assert_null(out.k);
        assert_int_equal(held_count, 0);
    }
}

static void hundreds_of_fields_arrive(void **state)
{
    static many_t in;
    static many_t out;
    size_t size;

    (void) state;
    for (size_t i = 0; i < sizeof(in); i++)
        ((unsigned char *) &in)[i] = (unsigned char) i;
    size = encode(hg_proc_many_t, &in, HG_PROC_ENCODING_RAW);
    assert_int_equal(size, 401);
    assert_int_equal(decode(hg_proc_many_t, &out, size, HG_PROC_ENCODING_RAW), HG_SUCCESS);
    assert_memory_equal(&in, &out, sizeof(in));
    assert_int_equal(out.z, 400 % 256);
}

static void nothing_is_left_of_what_was_cut_off(void **state)
{
    uint32_t values[7] = {1, 2, 3, 4, 5, 6, 7};
    char text[] = "some text";
    nested_t in;

    (void) state;
    in.a.value = &values[0];
    in.b.a.value = &values[1];
    in.b.b = text;
    in.b.c.value = &values[2];
    in.b.d.value = &values[3];
    in.c.a.value = &values[4];
    in.c.b = text;
    in.c.c.value = &values[5];
    in.c.d.value = &values[6];
    in.d = text;
    for (int encoding = 0; encoding < 2; encoding++) {
        size_t size = encode(hg_proc_nested_t, &in, encoding);
        nested_t out;

        for (size_t cut = 0; cut < size; cut++) {
            /* Bytes that were there before must not be taken for decoded values, and freed. */
            memset(&out, 0x5a, sizeof(out));
            assert_int_equal(decode(hg_proc_nested_t, &out, cut, encoding), HG_OVERFLOW);
            assert_int_equal(held_count, 0);
        }
        assert_int_equal(decode(hg_proc_nested_t, &out, size, encoding), HG_SUCCESS);
        assert_int_equal(held_count, 7);
        release(hg_proc_nested_t, &out);
        assert_int_equal(held_count, 0);
    }
}

static void registration_macro_takes_void(void **state)
{
    (void) state;
    /* Without a class the macro returns 0; the test is that it compiles. */
    assert_int_equal(MERCURY_REGISTER(NULL, "name", one_t, void, NULL), 0);
    assert_int_equal(MERCURY_REGISTER(NULL, "name", void, all_t, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_type_arrives),
        cmocka_unit_test(hundreds_of_fields_arrive),
        cmocka_unit_test(nothing_is_left_of_what_was_cut_off),
        cmocka_unit_test(registration_macro_takes_void),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
