/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long HG_Progress() polls before it sleeps: the time adapts to what the earlier waits were for
 * and how long they took.
 */
#include "hg_fixture.h"

#include "engine/progress.h"

#define ROUNDS 200

static uint32_t poll_ns(const struct side *side, enum hg_poll what)
{
    return atomic_load(&side->context->poll_ns[what]);
}

/* Opens a side whose progress can sleep, or skips the test. */
static void sleeper_open(struct side *side)
{
    side_open(side, NULL);
    if (HG_Event_get_wait_fd(side->context) < 0) {
        side_close(side);
        test_skip("this transport has no descriptor to sleep on");
    }
}

/*
 * Idles until the poll time has become short. A round in which other processes had the processor
 * does not count, so that several rounds may be needed.
 */
static bool idling_teaches(struct side *side, enum hg_poll what, uint32_t most)
{
    for (int i = 0; i < ROUNDS && poll_ns(side, what) >= most / 100; i++)
        assert_int_equal(HG_Progress(side->context, 5), HG_TIMEOUT);
    return poll_ns(side, what) < most / 100;
}

static void idling_teaches_nothing_about_transfers(void **state)
{
    struct side side = {0};

    (void) state;
    sleeper_open(&side);
    assert_int_equal(poll_ns(&side, HG_POLL_MESSAGE), HG_POLL_NS_MAX_MESSAGE);
    assert_true(idling_teaches(&side, HG_POLL_MESSAGE, HG_POLL_NS_MAX_MESSAGE));
    assert_int_equal(poll_ns(&side, HG_POLL_TRANSFER), HG_POLL_NS_MAX_TRANSFER);

    /* With a transfer that hangs, progress also learns to sleep instead of polling. */
    hg_context_op_begin(side.context);
    assert_true(idling_teaches(&side, HG_POLL_TRANSFER, HG_POLL_NS_MAX_TRANSFER));
    hg_context_op_end(side.context);
    side_close(&side);
}

/* Allows sleep and asks again at once, as if a sleep had ended. */
static void wait_briefly(const struct side *side)
{
    bool is_ready = HG_Event_ready(side->context);

    is_ready = HG_Event_ready(side->context) || is_ready;
    (void) is_ready; /* some transports have work of their own */
}

/* A wait that ends shortly after polling ended is one that polling would have spared. */
static void short_waits_teach_to_poll_as_long_as_is_set(void **state)
{
    static const unsigned int times_us[] = {20, 5000, 100000, HG_POLL_TIME_DEFAULT};
    static const uint32_t learned_ns[] = {20000, 5000000, 100000000, HG_POLL_NS_MAX_MESSAGE};
    struct side side = {0};

    (void) state;
    sleeper_open(&side);
    for (size_t i = 0; i < sizeof(times_us) / sizeof(times_us[0]); i++) {
        assert_int_equal(HG_Class_set_poll_time(side.hg_class, times_us[i]), HG_SUCCESS);
        /* On a busy machine more time than a short one may pass between two calls. */
        for (int j = 0; j < ROUNDS && poll_ns(&side, HG_POLL_MESSAGE) != learned_ns[i]; j++) {
            atomic_store(&side.context->poll_ns[HG_POLL_MESSAGE], HG_POLL_NS_MIN);
            wait_briefly(&side);
        }
        assert_int_equal(poll_ns(&side, HG_POLL_MESSAGE), learned_ns[i]);
    }
    assert_int_equal(HG_Class_set_poll_time(side.hg_class, 0), HG_SUCCESS);
    wait_briefly(&side);
    assert_true(poll_ns(&side, HG_POLL_MESSAGE) <= HG_POLL_NS_MAX_MESSAGE / 2);
    assert_int_equal(HG_Class_set_poll_time(side.hg_class, 1000001), HG_INVALID_ARG);
    assert_int_equal(HG_Class_set_poll_time(NULL, 1), HG_INVALID_ARG);
    side_close(&side);
}

/* Polling for a second at most does not keep a call beyond its own timeout. */
static void a_long_polling_time_does_not_delay_a_timeout(void **state)
{
    struct side side = {0};
    uint64_t start;

    (void) state;
    side_open(&side, NULL);
    assert_int_equal(HG_Class_set_poll_time(side.hg_class, 1000000), HG_SUCCESS);
    if (HG_Event_get_wait_fd(side.context) >= 0)
        atomic_store(&side.context->poll_ns[HG_POLL_MESSAGE], 1000000000);
    start = hg_clock_ns();
    assert_int_equal(HG_Progress(side.context, 2), HG_TIMEOUT);
    assert_true(hg_clock_ns() - start < 900 * HG_NS_PER_MS);
    /* Nor does an idle context poll for long, though each call ends before polling does. */
    if (HG_Event_get_wait_fd(side.context) >= 0)
        assert_true(idling_teaches(&side, HG_POLL_MESSAGE, 100 * HG_POLL_NS_MIN * 10));
    side_close(&side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idling_teaches_nothing_about_transfers),
        cmocka_unit_test(short_waits_teach_to_poll_as_long_as_is_set),
        cmocka_unit_test(a_long_polling_time_does_not_delay_a_timeout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
