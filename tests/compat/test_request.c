/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: their flags, and how often wait calls progress and trigger.
 */
#include "mercury_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

struct loop {
    int progressed;
    int triggered;
    int complete_at; /* trigger that completes the request, 0 for none */
    hg_request_t *request;
};

static int loop_progress(unsigned int timeout, void *arg)
{
    struct loop *loop = arg;

    (void) timeout;
    loop->progressed++;
    return HG_UTIL_FAIL;
}

static int loop_trigger(unsigned int timeout, unsigned int *flag, void *arg)
{
    struct loop *loop = arg;

    (void) timeout;
    *flag = 0;
    if (++loop->triggered == loop->complete_at) {
        hg_request_complete(loop->request);
        *flag = 1;
    }
    return HG_UTIL_SUCCESS;
}

static void completed_by_trigger(void **state)
{
    struct loop loop = {0, 0, 3, NULL};
    hg_request_class_t *c = hg_request_init(loop_progress, loop_trigger, &loop);
    unsigned int flag = 9;
    void *arg = NULL;

    (void) state;
    assert_non_null(c);
    loop.request = hg_request_create(c);
    assert_non_null(loop.request);
    assert_int_equal(hg_request_wait(loop.request, 1000, &flag), HG_UTIL_SUCCESS);
    assert_int_equal(flag, 1);
    assert_true(loop.progressed >= 1);
    hg_request_destroy(loop.request);
    hg_request_finalize(c, &arg);
    assert_ptr_equal(arg, &loop);
    c = hg_request_init(loop_progress, loop_trigger, NULL);
    hg_request_finalize(c, NULL);
}

/* A completed request stays completed until it is reset. */
static void flags(void **state)
{
    struct loop loop = {0};
    hg_request_class_t *c = hg_request_init(loop_progress, loop_trigger, &loop);
    hg_request_t *request = hg_request_create(c);
    unsigned int flag = 9;

    (void) state;
    assert_null(hg_request_get_data(request));
    hg_request_set_data(request, &loop);
    assert_int_equal(hg_request_wait(request, 0, &flag), HG_UTIL_SUCCESS);
    assert_int_equal(flag, 0);
    assert_true(loop.triggered >= 1);
    assert_true(loop.progressed >= 1);
    assert_int_equal(hg_request_wait(request, 20, &flag), HG_UTIL_SUCCESS);
    assert_int_equal(flag, 0);
    hg_request_complete(request);
    loop.progressed = 0;
    assert_int_equal(hg_request_wait(request, 0, &flag), HG_UTIL_SUCCESS);
    assert_int_equal(flag, 1);
    assert_int_equal(loop.progressed, 0);
    assert_int_equal(hg_request_wait(request, 0, &flag), HG_UTIL_SUCCESS);
    assert_int_equal(flag, 1);
    assert_int_equal(hg_request_wait(request, 0, NULL), HG_UTIL_SUCCESS);
    hg_request_reset(request);
    assert_int_equal(hg_request_wait(request, 0, &flag), HG_UTIL_SUCCESS);
    assert_int_equal(flag, 0);
    assert_ptr_equal(hg_request_get_data(request), &loop);
    hg_request_destroy(request);
    hg_request_finalize(c, NULL);
}

static void wait_for_all(void **state)
{
    struct loop loop = {0};
    hg_request_class_t *c = hg_request_init(loop_progress, loop_trigger, &loop);
    hg_request_t *both[2] = {hg_request_create(c), hg_request_create(c)};
    unsigned int flag = 9;

    (void) state;
    hg_request_complete(both[0]);
    assert_int_equal(hg_request_waitall(2, both, 5, &flag), HG_UTIL_SUCCESS);
    assert_int_equal(flag, 0);
    hg_request_complete(both[1]);
    assert_int_equal(hg_request_waitall(2, both, 5, &flag), HG_UTIL_SUCCESS);
    assert_int_equal(flag, 1);
    hg_request_destroy(both[0]);
    hg_request_destroy(both[1]);
    hg_request_destroy(NULL);
    hg_request_finalize(c, NULL);
    hg_request_finalize(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completed_by_trigger),
        cmocka_unit_test(flags),
        cmocka_unit_test(wait_for_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
