/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration of RPCs, and data attached to them, to classes and to contexts.
 */
#include "compat/compat_fixture.h"

static int freed[4];

static void count_free(void *data)
{
    ++*(int *) data;
}

static int class_setup(void **state)
{
    *state = test_class_open(HG_FALSE, NULL);
    memset(freed, 0, sizeof(freed));
    return *state != NULL ? 0 : -1;
}

static int class_teardown(void **state)
{
    return HG_Finalize(*state) == HG_SUCCESS ? 0 : -1;
}

static void names(void **state)
{
    hg_class_t *c = *state;
    hg_proc_cb_t in = NULL, out = NULL;
    hg_id_t id, before = 0, after = 0;
    uint8_t flag = 9;

    assert_int_equal(HG_Registered_name(c, "abc", &before, &flag), HG_SUCCESS);
    assert_false(flag);
    id = HG_Register_name(c, "abc", NULL, proc_call_out, NULL);
    assert_int_not_equal(id, 0);
    assert_int_equal(id, before);
    assert_int_equal(HG_Registered_name(c, "abc", &after, &flag), HG_SUCCESS);
    assert_true(flag);
    assert_int_equal(after, id);
    assert_int_equal(HG_Registered_name(c, "abc", NULL, &flag), HG_SUCCESS);
    assert_int_equal(HG_Register_name(c, "abc", proc_call_in, NULL, NULL), id);
    assert_int_equal(HG_Registered_proc_cb(c, id, &flag, &in, &out), HG_SUCCESS);
    assert_true(flag);
    assert_true(in == proc_call_in);
    assert_null(out);
    assert_int_equal(HG_Deregister(c, id), HG_SUCCESS);
    assert_int_equal(HG_Registered_name(c, "abc", NULL, &flag), HG_SUCCESS);
    assert_false(flag);
}

static void numbers(void **state)
{
    hg_class_t *c = *state;
    uint8_t flag = 9;

    assert_int_equal(HG_Register(c, 0, NULL, NULL, NULL), HG_SUCCESS);
    assert_int_equal(HG_Registered(c, 0, &flag), HG_SUCCESS);
    assert_true(flag);
    assert_int_equal(HG_Registered(c, 7, &flag), HG_SUCCESS);
    assert_false(flag);
    assert_int_equal(HG_Registered_proc_cb(c, 7, &flag, NULL, NULL), HG_SUCCESS);
    assert_false(flag);
    assert_int_equal(HG_Deregister(c, 7), HG_NOENTRY);
    assert_int_equal(HG_Register(c, 7, NULL, NULL, NULL), HG_SUCCESS);
    assert_int_equal(HG_Deregister(c, 7), HG_SUCCESS);
    assert_int_equal(HG_Deregister(c, 7), HG_NOENTRY);
}

static void unknown_ids(void **state)
{
    hg_class_t *c = *state;
    uint8_t flag = 9;

    assert_null(HG_Registered_data(c, 8));
    assert_int_equal(HG_Register_data(c, 8, &freed[0], count_free), HG_NOENTRY);
    assert_int_equal(HG_Registered_disable_response(c, 8, HG_TRUE), HG_NOENTRY);
    assert_int_equal(HG_Registered_disabled_response(c, 8, &flag), HG_NOENTRY);
    assert_int_equal(freed[0], 0);
}

static void null_arguments(void **state)
{
    hg_class_t *c = *state;
    uint8_t flag;

    assert_int_equal(HG_Register_name(c, NULL, NULL, NULL, NULL), 0);
    assert_int_equal(HG_Register_name(NULL, "abc", NULL, NULL, NULL), 0);
    assert_int_equal(HG_Register(NULL, 1, NULL, NULL, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Deregister(NULL, 1), HG_INVALID_ARG);
    assert_int_equal(HG_Registered(NULL, 1, &flag), HG_INVALID_ARG);
    assert_int_equal(HG_Registered(c, 1, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Registered_proc_cb(c, 1, NULL, NULL, NULL), HG_INVALID_ARG);
    assert_null(HG_Registered_data(NULL, 1));
}

/* A second registration replaces the functions; data and disabled responses stay. */
static void registered_again(void **state)
{
    hg_class_t *c = *state;
    uint8_t flag = 9;

    assert_int_equal(HG_Register(c, 7, NULL, NULL, NULL), HG_SUCCESS);
    assert_null(HG_Registered_data(c, 7));
    assert_int_equal(HG_Registered_disabled_response(c, 7, &flag), HG_SUCCESS);
    assert_false(flag);
    assert_int_equal(HG_Register_data(c, 7, &freed[0], count_free), HG_SUCCESS);
    assert_int_equal(HG_Registered_disable_response(c, 7, HG_TRUE), HG_SUCCESS);
    assert_int_equal(HG_Register(c, 7, proc_call_in, NULL, NULL), HG_SUCCESS);
    assert_ptr_equal(HG_Registered_data(c, 7), &freed[0]);
    assert_int_equal(HG_Registered_disabled_response(c, 7, &flag), HG_SUCCESS);
    assert_true(flag);
    assert_int_equal(freed[0], 0);
    assert_int_equal(HG_Deregister(c, 7), HG_SUCCESS);
    assert_int_equal(freed[0], 1);
}

/* Data that were replaced are not freed, neither those of classes nor those of contexts. */
static void data_are_freed_at_the_end(void **state)
{
    hg_class_t *c = test_class_open(HG_FALSE, NULL);
    hg_context_t *context;

    (void) state;
    assert_non_null(c);
    assert_null(HG_Class_get_data(c));
    assert_int_equal(HG_Class_set_data(c, &freed[0], count_free), HG_SUCCESS);
    assert_int_equal(HG_Class_set_data(c, &freed[1], count_free), HG_SUCCESS);
    assert_ptr_equal(HG_Class_get_data(c), &freed[1]);
    assert_int_equal(HG_Register(c, 7, NULL, NULL, NULL), HG_SUCCESS);
    assert_int_equal(HG_Register_data(c, 7, &freed[2], count_free), HG_SUCCESS);
    context = HG_Context_create(c);
    assert_non_null(context);
    assert_null(HG_Context_get_data(context));
    assert_int_equal(HG_Context_set_data(context, &freed[0], count_free), HG_SUCCESS);
    assert_int_equal(HG_Context_set_data(context, &freed[3], count_free), HG_SUCCESS);
    assert_ptr_equal(HG_Context_get_data(context), &freed[3]);
    assert_int_equal(HG_Context_destroy(context), HG_SUCCESS);
    assert_int_equal(freed[3], 1);
    assert_int_equal(freed[1] + freed[2], 0);
    assert_int_equal(HG_Finalize(c), HG_SUCCESS);
    assert_int_equal(freed[0], 0);
    assert_int_equal(freed[1], 1);
    assert_int_equal(freed[2], 1);
}

static void offsets(void **state)
{
    hg_class_t *c = *state;
    hg_size_t in = HG_Class_get_input_eager_size(c), out = HG_Class_get_output_eager_size(c);

    assert_int_equal(HG_Class_set_input_offset(c, in), HG_SUCCESS);
    assert_int_equal(HG_Class_get_input_eager_size(c), in);
    assert_int_equal(HG_Class_set_input_offset(c, in + 1), HG_INVALID_ARG);
    assert_int_equal(HG_Class_set_output_offset(c, out + 1), HG_INVALID_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, class_setup, class_teardown)
        TEST(names),
        TEST(numbers),
        TEST(unknown_ids),
        TEST(null_arguments),
        TEST(registered_again),
        TEST(offsets),
        cmocka_unit_test(data_are_freed_at_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
