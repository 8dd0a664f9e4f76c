/* SPDX-License-Identifier: BSD-3-Clause */
/* Signal handlers that change while a plugin's code runs are restored. */

#include "na/signals.h"

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* RTLD_NEXT */
#endif

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef void (*handler_fn)(int);

static void own_handler(int number)
{
    (void) number;
}

static void other_handler(int number)
{
    (void) number;
}

/* A function of another library, used as a handler. */
static handler_fn foreign_handler(void)
{
    void *symbol = dlsym(RTLD_NEXT, "exit");
    handler_fn handler;

    assert_non_null(symbol);
    memcpy(&handler, &symbol, sizeof(handler));
    return handler;
}

static handler_fn handler_of(int number)
{
    struct sigaction action;

    assert_int_equal(sigaction(number, NULL, &action), 0);
    return action.sa_handler;
}

static void handlers_of_libraries_are_put_back(void **state)
{
    (void) state;
    (void) signal(SIGTERM, own_handler);
    (void) signal(SIGINT, SIG_IGN);
    (void) signal(SIGUSR1, own_handler);
    na_signals_enter();
    (void) signal(SIGTERM, foreign_handler());
    (void) signal(SIGINT, foreign_handler());
    (void) signal(SIGHUP, foreign_handler());
    (void) signal(SIGUSR1, foreign_handler());
    na_signals_leave();
    assert_ptr_equal(handler_of(SIGTERM), own_handler);
    assert_ptr_equal(handler_of(SIGINT), SIG_IGN);
    assert_ptr_equal(handler_of(SIGHUP), SIG_DFL);
    assert_ptr_equal(handler_of(SIGUSR1), own_handler);
}

/* For example the signal of a timer, which would end the process without the handler. */
static void a_library_keeps_the_signals_it_sends_itself(void **state)
{
    (void) state;
    na_signals_enter();
    (void) signal(SIGALRM, foreign_handler());
    (void) signal(SIGPIPE, SIG_IGN);
    na_signals_leave();
    assert_ptr_equal(handler_of(SIGALRM), foreign_handler());
    assert_ptr_equal(handler_of(SIGPIPE), SIG_IGN);
    (void) signal(SIGALRM, SIG_DFL);
    (void) signal(SIGPIPE, SIG_DFL);
}

/* The program changes handlers meanwhile, as another thread may, and enter and leave are nested. */
static void what_the_program_sets_meanwhile_stays(void **state)
{
    (void) state;
    (void) signal(SIGTERM, own_handler);
    (void) signal(SIGINT, own_handler);
    na_signals_enter();
    (void) signal(SIGTERM, foreign_handler());
    na_signals_enter();
    assert_ptr_equal(handler_of(SIGTERM), own_handler);
    (void) signal(SIGTERM, other_handler);
    na_signals_leave();
    assert_ptr_equal(handler_of(SIGTERM), other_handler);
    (void) signal(SIGTERM, foreign_handler());
    (void) signal(SIGINT, SIG_DFL);
    na_signals_leave();
    assert_ptr_equal(handler_of(SIGTERM), other_handler);
    assert_ptr_equal(handler_of(SIGINT), SIG_DFL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handlers_of_libraries_are_put_back),
        cmocka_unit_test(a_library_keeps_the_signals_it_sends_itself),
        cmocka_unit_test(what_the_program_sets_meanwhile_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
