/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers of a session's messages: each is accepted once, in any order. */

#include "hg/window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define MOST (HG_WINDOW_WORDS_MAX * UINT64_C(64))

static void each_counts_once(void **state)
{
    struct hg_window window = {0};

    (void) state;
    assert_false(hg_window_take(&window, 0));
    for (uint64_t i = 1; i <= 5000; i++) {
        assert_true(hg_window_take(&window, i));
        assert_false(hg_window_take(&window, i));
    }
    assert_false(hg_window_take(&window, 1));
    assert_null(window.words); /* the numbers came in order, so that the window did not grow */
    hg_window_fini(&window);
}

/* The numbers are shuffled within blocks that are larger than the smallest window. */
static void order_does_not_count(void **state)
{
    const uint64_t block = 3000;
    struct hg_window window = {0};

    (void) state;
    for (uint64_t first = 1; first < 10 * block; first += block) {
        for (uint64_t i = 0; i < block; i++)
            assert_true(hg_window_take(&window, first + (i * 7 + 11) % block));
        for (uint64_t i = 0; i < block; i++)
            assert_false(hg_window_take(&window, first + i));
    }
    hg_window_fini(&window);
}

/* A late number is accepted while the window still covers it. */
static void late_ones_are_awaited(void **state)
{
    struct hg_window window = {0};

    (void) state;
    for (uint64_t i = 2; i <= MOST; i++)
        assert_true(hg_window_take(&window, i));
    assert_true(hg_window_take(&window, 1));
    assert_false(hg_window_take(&window, 1));
    assert_int_equal(window.word_count, HG_WINDOW_WORDS_MAX);
    /* A number older than the window is refused, because it may have been received before. */
    assert_true(hg_window_take(&window, 3 * MOST));
    assert_false(hg_window_take(&window, 2 * MOST));
    assert_true(hg_window_take(&window, 2 * MOST + 1));
    assert_int_equal(window.word_count, HG_WINDOW_WORDS_MAX);
    hg_window_fini(&window);
}

/* However far the numbers jump, the window does not grow beyond its largest size. */
static void jumps_are_bounded(void **state)
{
    struct hg_window window = {0};

    (void) state;
    assert_true(hg_window_take(&window, 5));
    assert_true(hg_window_take(&window, UINT64_C(1) << 62));
    assert_false(hg_window_take(&window, 5));
    assert_false(hg_window_take(&window, 6));
    assert_true(hg_window_take(&window, (UINT64_C(1) << 62) - 1));
    assert_in_range(window.word_count, 1, HG_WINDOW_WORDS_MAX);
    hg_window_fini(&window);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_counts_once),
        cmocka_unit_test(order_does_not_count),
        cmocka_unit_test(late_ones_are_awaited),
        cmocka_unit_test(jumps_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
