/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timer wheel, compared with a plain list: which timers are due, when to check again, removing
 * timers and moving them forward.
 */
#include "engine/timer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define TICK_NS     (UINT64_C(1) << HG_TIMER_TICK_BITS)
#define TIMER_COUNT 400

struct model {
    struct hg_timer timer; /* first, so that a due timer can be cast to its model */
    uint64_t at_ns;
    bool is_armed;
};

static uint64_t seed = 7;

static uint64_t draw(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

/* Distances of all magnitudes, up to 2^52 ns. */
static uint64_t draw_distance(void)
{
    return draw(UINT64_C(1) << (1 + draw(52)));
}

/* Advance to `now` and check that the right timers are due; returns how many are. */
static int advance(struct hg_timers *timers, struct model *models, uint64_t now)
{
    struct hg_timer *due = hg_timers_advance(timers, now);
    int count = 0;

    for (; due != NULL; due = due->next) {
        struct model *model = (struct model *) (void *) due;

        assert_true(model->is_armed);
        assert_true(model->at_ns <= now);
        model->is_armed = false;
        count++;
    }
    for (int i = 0; i < TIMER_COUNT; i++)
        assert_false(models[i].is_armed && models[i].at_ns + 2 * TICK_NS <= now);
    return count;
}

/* next_ns is not later than the first timer, and HG_TIMER_NEVER without timers. */
static void check_next(const struct hg_timers *timers, const struct model *models)
{
    uint64_t first = HG_TIMER_NEVER;

    for (int i = 0; i < TIMER_COUNT; i++)
        if (models[i].is_armed && models[i].at_ns < first)
            first = models[i].at_ns;
    if (first == HG_TIMER_NEVER)
        assert_true(atomic_load(&timers->next_ns) == HG_TIMER_NEVER);
    else
        assert_true(atomic_load(&timers->next_ns) < first + 2 * TICK_NS);
}

static void wheel_agrees_with_a_list(void **state)
{
    static struct model models[TIMER_COUNT];
    struct hg_timers timers;
    uint64_t now = UINT64_C(123456789012345);
    int fired = 0;

    (void) state;
    hg_timers_init(&timers);
    for (int step = 0; step < 60000; step++) {
        struct model *model = &models[draw(TIMER_COUNT)];

        if (!model->is_armed) {
            model->at_ns = now + draw_distance();
            model->is_armed = true;
            hg_timers_add(&timers, &model->timer, now, model->at_ns);
        } else if (draw(4) == 0) {
            assert_true(hg_timers_remove(&timers, &model->timer));
            assert_false(hg_timers_remove(&timers, &model->timer));
            model->is_armed = false;
        } else if (draw(3) == 0) {
            uint64_t at = now + draw_distance();

            hg_timers_expedite(&timers, &model->timer, at);
            if (at < model->at_ns)
                model->at_ns = at;
        }
        check_next(&timers, models);
        if (draw(3) == 0)
            now += draw_distance() / 16;
        /* Advance exactly to next_ns, as a thread does that sleeps until then. */
        else if (draw(5) == 0 && atomic_load(&timers.next_ns) != HG_TIMER_NEVER &&
                 atomic_load(&timers.next_ns) > now)
            now = atomic_load(&timers.next_ns);
        fired += advance(&timers, models, now);
    }
    assert_true(fired > 10000);
    hg_timers_fini(&timers);
}

static void never_too_soon(void **state)
{
    struct model models[TIMER_COUNT] = {0};
    struct hg_timers timers;
    uint64_t now = 5 * TICK_NS + 1;

    (void) state;
    hg_timers_init(&timers);
    models[0].at_ns = now + 1;
    models[0].is_armed = true;
    hg_timers_add(&timers, &models[0].timer, now, models[0].at_ns);
    assert_null(hg_timers_advance(&timers, now));
    assert_true(atomic_load(&timers.next_ns) == 6 * TICK_NS);
    assert_null(hg_timers_advance(&timers, 6 * TICK_NS - 1));
    assert_ptr_equal(hg_timers_advance(&timers, 6 * TICK_NS), &models[0].timer);
    assert_false(hg_timers_remove(&timers, &models[0].timer));
    assert_true(atomic_load(&timers.next_ns) == HG_TIMER_NEVER);
    hg_timers_fini(&timers);
}

static void long_rest_passes_all_levels(void **state)
{
    struct model models[TIMER_COUNT] = {0};
    struct hg_timers timers;
    uint64_t now = 1000;

    (void) state;
    hg_timers_init(&timers);
    for (int i = 0; i < TIMER_COUNT; i++) {
        models[i].at_ns = now + draw_distance();
        models[i].is_armed = true;
        hg_timers_add(&timers, &models[i].timer, now, models[i].at_ns);
    }
    assert_int_equal(advance(&timers, models, now + (UINT64_C(1) << 53)), TIMER_COUNT);
    assert_true(atomic_load(&timers.next_ns) == HG_TIMER_NEVER);
    hg_timers_fini(&timers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wheel_agrees_with_a_list),
        cmocka_unit_test(never_too_soon),
        cmocka_unit_test(long_rest_passes_all_levels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
