/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers for the tests of the core: folders of test plugins, a class of the loop plugin with one
 * context, and captured log lines.
 */

#ifndef NA_TEST_H
#define NA_TEST_H

#include "na.h"
#include "na_ext.h"
#include "plugins/loop_control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Search for plugins only in this folder of test plugins and in the built-in place. */
static inline void use_plugins(const char *folder)
{
    char path[4096];

    (void) snprintf(path, sizeof(path), "%s/%s", TEST_PLUGIN_DIR, folder);
    assert_int_equal(setenv("NA_PLUGIN_PATH", path, 1), 0);
}

/* A class of the loop plugin with one context. */
struct loop {
    na_class_t *na_class;
    na_context_t *context;
    na_addr_t *self;
};

/* How often a callback ran, and its last argument. */
struct told {
    unsigned int count;
    struct na_cb_info last;
};

static inline void tell(const struct na_cb_info *info)
{
    struct told *told = info->arg;

    told->count++;
    told->last = *info;
}

static inline void loop_open(struct loop *loop, const char *init)
{
    loop->na_class = NA_Initialize(init, true);
    assert_non_null(loop->na_class);
    loop->context = NA_Context_create(loop->na_class);
    assert_non_null(loop->context);
    assert_int_equal(NA_Addr_self(loop->na_class, &loop->self), NA_SUCCESS);
}

static inline unsigned int trigger_all(na_context_t *context)
{
    unsigned int count = 0;

    assert_int_equal(NA_Trigger(context, 1000, &count), NA_SUCCESS);
    return count;
}

static inline unsigned int poll_all(struct loop *loop)
{
    assert_int_equal(NA_Poll(loop->na_class, loop->context, NULL), NA_SUCCESS);
    return trigger_all(loop->context);
}

static inline void loop_close(struct loop *loop)
{
    NA_Addr_free(loop->na_class, loop->self);
    while (NA_Context_destroy(loop->na_class, loop->context) == NA_BUSY)
        (void) trigger_all(loop->context);
    assert_int_equal(NA_Finalize(loop->na_class), NA_SUCCESS);
}

/* A log function that keeps the last line in log_last. */
static char log_last[4096];

static inline int log_keep(FILE *stream, const char *format, ...)
{
    va_list args;

    (void) stream;
    va_start(args, format);
    (void) vsnprintf(log_last, sizeof(log_last), format, args);
    va_end(args);
    return 0;
}

#endif /* NA_TEST_H */
