/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport that a run of the tests uses: the value of the environment variable
 * AMALGAM_TEST_INIT, by default "na+sm". In a value without "://" a colon stands for a semicolon
 * (layered providers), because lists of the build system cannot contain semicolons. Each test makes
 * the same demands on every transport; where the nature of a transport rules a demand out, the test
 * is skipped with a reason.
 */
#ifndef TESTS_HG_TEST_TRANSPORT_H
#define TESTS_HG_TEST_TRANSPORT_H

#include "mercury.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline const char *test_init_string(void)
{
    const char *string = getenv("AMALGAM_TEST_INIT");
    static char layered[128];
    const char *colon;

    if (string == NULL)
        return "na+sm";
    colon = strchr(string, ':');
    if (colon == NULL || strncmp(colon, "://", 3) == 0 || strlen(string) >= sizeof(layered))
        return string;
    (void) strcpy(layered, string);
    layered[colon - string] = ';';
    return layered;
}

static inline bool test_is_sm(void)
{
    return strncmp(test_init_string(), "na+sm", 5) == 0 || strcmp(test_init_string(), "sm") == 0;
}

static inline bool test_is_loop(void)
{
    return strncmp(test_init_string(), "loop", 4) == 0;
}

/* Skip the test and print the reason. */
static inline void test_skip(const char *why)
{
    print_message("skipped: %s: %s\n", test_init_string(), why);
    skip();
}

static inline hg_class_t *test_class_open(uint8_t listen, const struct hg_init_info *info)
{
    hg_class_t *hg_class = HG_Init_opt2(test_init_string(), listen, HG_VERSION(2, 4), info);

    if (hg_class == NULL)
        print_error("cannot open \"%s\"\n", test_init_string());
    return hg_class;
}

#endif /* TESTS_HG_TEST_TRANSPORT_H */
