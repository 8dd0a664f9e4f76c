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
    side_open(&side, NULL);
    if (HG_Event_get_wait_fd(side.context) < 0) {
        side_close(&side);
        test_skip("this transport has no descriptor to sleep on");
    }
    assert_int_equal(poll_ns(&side, HG_POLL_MESSAGE), HG_POLL_NS_MAX_MESSAGE);
    assert_true(idling_teaches(&side, HG_POLL_MESSAGE, HG_POLL_NS_MAX_MESSAGE));
    assert_int_equal(poll_ns(&side, HG_POLL_TRANSFER), HG_POLL_NS_MAX_TRANSFER);

    /* With a transfer that hangs, progress also learns to sleep instead of polling. */
    hg_context_op_begin(side.context);
    assert_true(idling_teaches(&side, HG_POLL_TRANSFER, HG_POLL_NS_MAX_TRANSFER));
    hg_context_op_end(side.context);
    side_close(&side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idling_teaches_nothing_about_transfers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
