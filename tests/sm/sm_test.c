/* SPDX-License-Identifier: BSD-3-Clause */
/* Catching what is logged. */

#include "sm_test.h"

#include "na_ext.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static FILE *sm_log;

void sm_log_catch(const char *level)
{
    sm_log = tmpfile();
    assert_non_null(sm_log);
    NA_Set_log_level(level);
    NA_Set_log_stream(level, sm_log);
}

void sm_log_caught(char *text, size_t size)
{
    size_t got;

    NA_Set_log_stream("error", NULL);
    NA_Set_log_stream("warning", NULL);
    NA_Set_log_stream("info", NULL);
    NA_Set_log_level("warning");
    rewind(sm_log);
    got = fread(text, 1, size - 1, sm_log);
    text[got] = '\0';
    (void) fclose(sm_log);
}
