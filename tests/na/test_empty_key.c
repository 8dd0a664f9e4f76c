/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An empty auth_key, for example read from an empty file, counts as no key, and the log says so
 * once.
 */

#include "na_test.h"

#include <stdio.h>
#include <string.h>

static uint32_t lines;

static int log_count(FILE *stream, const char *format, ...)
{
    char text[1024];
    va_list args;

    (void) stream;
    va_start(args, format);
    (void) vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    lines += strstr(text, "auth_key of the init info is empty") != NULL;
    return 0;
}

static uint32_t lines_of(const char *key)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;

    info.auth_key = key;
    lines = 0;
    NA_Set_log_level("warning");
    NA_Set_log_func(log_count);
    na_class = NA_Initialize_opt2("loop+self", true, NA_VERSION(6, 0), &info);
    NA_Set_log_func(NULL);
    assert_non_null(na_class);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    return lines;
}

static void an_empty_key_is_said(void **state)
{
    (void) state;
    use_plugins("loop");
    assert_int_equal(lines_of(""), 1);
    assert_int_equal(lines_of(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_key_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
