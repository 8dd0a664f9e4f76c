/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processors that a program creates for a class, and the encoding that the class selects.
 */
#include "mercury.h"
#include "mercury_proc.h"
#include "mercury_proc_ext.h"

#include "hg/test_transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static int open_class(void **state)
{
    *state = test_class_open(HG_FALSE, NULL);
    return *state != NULL ? 0 : -1;
}

static int close_class(void **state)
{
    return HG_Finalize(*state) == HG_SUCCESS ? 0 : -1;
}

static void class_chooses_the_encoding(void **state)
{
    static const char portable[8] = {0, 0, 0, 7, 0, 0, 0, 7};
    uint16_t value = 7;
    hg_proc_t procs[2];
    char buf[8];

    assert_int_equal(hg_proc_class_get_encoding(*state), HG_PROC_ENCODING_RAW);
    assert_int_equal(hg_proc_create(*state, HG_NOHASH, &procs[0]), HG_SUCCESS);
    assert_int_equal(hg_proc_class_set_encoding(*state, HG_PROC_ENCODING_PORTABLE), HG_SUCCESS);
    assert_int_equal(hg_proc_class_get_encoding(*state), HG_PROC_ENCODING_PORTABLE);
    assert_int_equal(hg_proc_create_set(*state, buf, sizeof(buf), HG_ENCODE, HG_NOHASH, &procs[1]),
                     HG_SUCCESS);
    /* A processor that already exists keeps its encoding. */
    assert_int_equal(hg_proc_get_encoding(procs[0]), HG_PROC_ENCODING_RAW);
    assert_int_equal(hg_proc_get_encoding(procs[1]), HG_PROC_ENCODING_PORTABLE);
    assert_ptr_equal(hg_proc_get_class(procs[1]), *state);
    assert_int_equal(hg_proc_uint16_t(procs[1], &value), HG_SUCCESS);
    assert_int_equal(hg_proc_uint16_t(procs[1], &value), HG_SUCCESS);
    assert_memory_equal(buf, portable, sizeof(portable));
    assert_int_equal(hg_proc_class_set_encoding(*state, HG_PROC_ENCODING_RAW), HG_SUCCESS);
    assert_int_equal(hg_proc_free(procs[0]), HG_SUCCESS);
    assert_int_equal(hg_proc_free(procs[1]), HG_SUCCESS);
}

static void bad_arguments_are_refused(void **state)
{
    hg_proc_t proc = HG_PROC_NULL;
    char buf[8];

    assert_int_equal(hg_proc_class_set_encoding(NULL, HG_PROC_ENCODING_RAW), HG_INVALID_ARG);
    assert_int_equal(hg_proc_class_set_encoding(*state, (enum hg_proc_encoding) 2), HG_INVALID_ARG);
    assert_int_equal(hg_proc_create(NULL, HG_NOHASH, &proc), HG_INVALID_ARG);
    assert_int_equal(hg_proc_create(*state, (hg_proc_hash_t) 9, &proc), HG_INVALID_ARG);
    assert_int_equal(hg_proc_create(*state, HG_NOHASH, NULL), HG_INVALID_ARG);
    assert_int_equal(hg_proc_create_set(*state, NULL, 8, HG_ENCODE, HG_NOHASH, &proc),
                     HG_INVALID_ARG);
    assert_int_equal(hg_proc_create_set(*state, buf, 8, (hg_proc_op_t) 9, HG_NOHASH, &proc),
                     HG_INVALID_ARG);
    assert_int_equal(hg_proc_create_set(*state, buf, 8, HG_ENCODE, HG_NOHASH, NULL),
                     HG_INVALID_ARG);
    assert_ptr_equal(proc, HG_PROC_NULL);
}

/* Programs that encode into buffers of their own may pass a token instead of a class. */
static void a_token_serves_as_a_class(void **state)
{
    hg_class_t *token = (hg_class_t *) (uintptr_t) 1;
    uint32_t in = 77, out = 0;
    char buf[64];
    hg_proc_t proc;

    (void) state;
    assert_int_equal(hg_proc_create_set(token, buf, sizeof(buf), HG_ENCODE, HG_NOHASH, &proc),
                     HG_SUCCESS);
    assert_ptr_equal(hg_proc_get_class(proc), token);
    assert_int_equal(hg_proc_uint32_t(proc, &in), HG_SUCCESS);
    assert_int_equal(hg_proc_flush(proc), HG_SUCCESS);
    assert_int_equal(hg_proc_reset(proc, buf, sizeof(buf), HG_DECODE), HG_SUCCESS);
    assert_int_equal(hg_proc_uint32_t(proc, &out), HG_SUCCESS);
    assert_int_equal(out, 77);
    assert_int_equal(hg_proc_free(proc), HG_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(class_chooses_the_encoding),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(a_token_serves_as_a_class),
    };

    return cmocka_run_group_tests(tests, open_class, close_class);
}
