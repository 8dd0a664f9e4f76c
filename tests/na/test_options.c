/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of plugins in init strings, and counters of plugins, over the loop plugin. */

#include "na/class.h"
#include "na_test.h"

#include <stdio.h>

static struct loop loop;
static struct loop_control *control;

static int open_loop(void **state)
{
    (void) state;
    use_plugins("loop");
    loop_open(&loop, "loop+self");
    control =
        (struct loop_control *) (uintptr_t) loop.na_class->table.get_extension(LOOP_CONTROL_ID);
    assert_non_null(control);
    return 0;
}

static int close_loop(void **state)
{
    (void) state;
    control->more_counters = 0;
    loop_close(&loop);
    return 0;
}

static void expect_opened(const char *init, const char *address, const char *options)
{
    na_class_t *na_class = NA_Initialize(init, true);

    assert_non_null(na_class);
    assert_string_equal(control->address, address);
    assert_string_equal(control->options, options);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

static void expect_refused(const char *init, const char *what)
{
    char reason[1024] = "";
    na_class_t *na_class;

    assert_int_equal(NA_Initialize_reason(init, true, 0, NULL, &na_class, reason, sizeof(reason)),
                     NA_INVALID_ARG);
    assert_null(na_class);
    if (strstr(reason, what) == NULL)
        fail_msg("%s: \"%s\" is not in \"%s\"", init, what, reason);
}

static void options_are_what_follows_the_last_question_mark(void **state)
{
    (void) state;
    expect_opened("loop+self", "(none)", "(none)");
    expect_opened("loop+self://here", "here", "(none)");
    expect_opened("loop+self://here?", "here", "(none)");
    expect_opened("loop+self://here?depth=3", "here", "depth=3");
    expect_opened("loop+self://?depth=3&way=", "(none)", "depth=3&way=");
    expect_opened("loop+self://a?b?way=x=y", "a?b", "way=x=y");
    expect_opened("loop+self://?depth=1,loop+self://second", "(none)", "depth=1");
}

static void an_option_that_is_unknown_is_refused_with_the_list(void **state)
{
    (void) state;
    expect_refused("loop+self://here?deep=3",
                   "option \"deep=3\": it is unknown; the options of loop are: depth, way");
    expect_refused("loop+self://?depth=3&=1", "option \"=1\": it is unknown");
    expect_refused("loop+self://?depth=3&", "option \"\": it is unknown");
    expect_refused("loop+self://?dept=3", "it is unknown");
    expect_refused("loop+self://?depth", "option \"depth\": \"name=value\" is expected");
    expect_refused("loop+self://?depth=1&way=2&depth=1", "option \"depth=1\": it is given twice");
}

static void without_options_a_question_mark_is_of_the_address(void **state)
{
    na_class_t *na_class = NA_Initialize("loopbare+self://here?depth=3", true);
    const struct loop_control *bare;

    (void) state;
    assert_non_null(na_class);
    bare = na_class->table.get_extension(LOOP_CONTROL_ID);
    assert_string_equal(bare->address, "here?depth=3");
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

static void counters_of_the_plugin_follow_those_of_the_core(void **state)
{
    struct na_counter counters[32];
    size_t count = 32;

    (void) state;
    assert_int_equal(NA_Class_get_counters(loop.na_class, counters, &count), NA_SUCCESS);
    assert_int_equal(count, 8);
    assert_string_equal(counters[6].name, "na_plugin_left_outstanding");
    assert_string_equal(counters[7].name, "na_loop_wakes");
    assert_int_equal(counters[7].value, atomic_load(&control->wakes));
}

static void counters_with_wrong_names_and_too_many_are_left_out(void **state)
{
    struct na_counter counters[64];
    size_t count = 64;

    (void) state;
    NA_Set_log_func(log_keep);
    log_last[0] = '\0';
    control->more_counters = 1;
    assert_int_equal(NA_Class_get_counters(loop.na_class, counters, &count), NA_SUCCESS);
    assert_int_equal(count, 9);
    assert_string_equal(counters[8].name, "na_loop_more_0");
    assert_non_null(strstr(log_last, "a_name_that_is_longer_than_32_bytes"));
    NA_Set_log_func(NULL);
    control->more_counters = 100;
    count = 64;
    assert_int_equal(NA_Class_get_counters(loop.na_class, counters, &count), NA_SUCCESS);
    assert_int_equal(count, 7 + 24);
    assert_string_equal(counters[30].name, "na_loop_more_22");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_loop, close_loop)
    const struct CMUnitTest tests[] = {
        TEST(options_are_what_follows_the_last_question_mark),
        TEST(an_option_that_is_unknown_is_refused_with_the_list),
        TEST(without_options_a_question_mark_is_of_the_address),
        TEST(counters_of_the_plugin_follow_those_of_the_core),
        TEST(counters_with_wrong_names_and_too_many_are_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
