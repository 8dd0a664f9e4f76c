/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The statistics of hg_perf: medians that a single bad round does not move, ratios round by round,
 * and rates over the time that was measured.
 */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "hg_perf/perf_series.h"
#include "hg_perf/perf_window.h"

#define MS UINT64_C(1000000)

static struct perf_series series_of(const double *values, unsigned int count)
{
    struct perf_series series = {.count = 0};

    for (unsigned int i = 0; i < count; i++)
        perf_series_add(&series, values[i]);
    return series;
}

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%g instead of %g", value, expected);
}

static void a_bad_round_does_not_move_the_median(void **state)
{
    static const double values[] = {10000, 19, 11000, 10500, 9900};
    struct perf_series series = series_of(values, 5);

    (void) state;
    assert_near(perf_series_median(&series), 10000);
    assert_near(perf_series_min(&series), 19);
    assert_near(perf_series_max(&series), 11000);
    series = series_of(values, 4);
    assert_near(perf_series_median(&series), 10250);
}

static void what_was_refused_once_has_no_median(void **state)
{
    const double values[] = {1, NAN, 3};
    struct perf_series series = series_of(values, 3);

    (void) state;
    assert_true(isnan(perf_series_median(&series)));
    series = series_of(values, 0);
    assert_true(isnan(perf_series_median(&series)));
}

static void ratios_are_of_rounds_and_not_of_medians(void **state)
{
    static const double values[] = {9, 4, 18}, limits[] = {10, 5, 20};
    struct perf_series series = series_of(values, 3), by = series_of(limits, 3);
    struct perf_series ratios = perf_series_divide(&series, &by);

    (void) state;
    assert_int_equal(ratios.count, 3);
    assert_near(ratios.values[1], 0.8);
    assert_near(perf_series_median(&ratios), 0.9);
}

static void a_rate_is_of_the_time_between_completions(void **state)
{
    struct perf_window *window = calloc(1, sizeof(*window));
    uint64_t now;

    (void) state;
    assert_non_null(window);
    perf_window_open(window, 0, 60);
    now = window->from_ns;
    for (unsigned int i = 0; i <= 10; i++)
        perf_window_complete(window, now + i * MS, now + (i + 1) * MS);
    /* No more completions arrive, as if the target had died. */
    assert_int_equal(window->latency.count, 10);
    assert_false(window->closed);
    assert_near(perf_window_seconds(window), 0.01);
    assert_near(perf_window_rate(window), 1000);
    free(window);
}

static void an_operation_longer_than_the_time_counts(void **state)
{
    struct perf_window *window = calloc(1, sizeof(*window));
    uint64_t now;

    (void) state;
    assert_non_null(window);
    perf_window_open(window, 0, 0.1);
    now = window->from_ns;
    perf_window_complete(window, now, now + 300 * MS);
    assert_false(window->closed);
    perf_window_complete(window, now + 300 * MS, now + 600 * MS);
    assert_true(window->closed);
    assert_int_equal(window->latency.count, 1);
    assert_near(perf_window_seconds(window), 0.3);
    free(window);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_round_does_not_move_the_median),
        cmocka_unit_test(what_was_refused_once_has_no_median),
        cmocka_unit_test(ratios_are_of_rounds_and_not_of_medians),
        cmocka_unit_test(a_rate_is_of_the_time_between_completions),
        cmocka_unit_test(an_operation_longer_than_the_time_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
