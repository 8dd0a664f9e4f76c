/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress and trigger: the meaning of the counts, and the result when there is nothing to do.
 */
#include "compat/compat_fixture.h"

static char target_name[512];
static hg_return_t looked_up(const struct hg_cb_info *info);

/* Queues `count` callbacks in the origin's completion queue. */
static void queue_callbacks(struct compat *compat, unsigned int count)
{
    hg_size_t size = sizeof(target_name);
    unsigned int i, queued = 0;

    assert_int_equal(HG_Addr_to_string(compat->origin.hg_class, target_name, &size, compat->addr),
                     HG_SUCCESS);
    for (i = 0; i < count; i++)
        assert_int_equal(HG_Addr_lookup1(compat->origin.context, looked_up, compat, target_name,
                                         HG_OP_ID_IGNORE),
                         HG_SUCCESS);
    for (i = 0; i < 5000 && queued < count; i++)
        if (HG_Event_progress(compat->origin.context, &queued) == HG_SUCCESS && queued < count)
            (void) HG_Progress(compat->origin.context, 1);
    assert_int_equal(queued, count);
}

static hg_return_t looked_up(const struct hg_cb_info *info)
{
    struct compat *compat = info->arg;
    unsigned int count = 9;

    assert_int_equal(HG_Addr_free(compat->origin.hg_class, info->info.lookup.addr), HG_SUCCESS);
    if (compat->other++ == 100) {
        assert_int_equal(HG_Trigger(compat->origin.context, 0, 1, &count), HG_SUCCESS);
        assert_int_equal(count, 1);
    }
    return compat->other > 10 ? HG_FAULT : HG_SUCCESS;
}

static void nothing_to_do(void **state)
{
    struct compat *compat = *state;
    hg_context_t *context = compat->origin.context;
    unsigned int count = 9;

    compat_run(compat, 20);
    assert_int_equal(HG_Progress(context, 0), HG_TIMEOUT);
    assert_int_equal(HG_Progress(context, 10), HG_TIMEOUT);
    assert_int_equal(HG_Trigger(context, 0, 1, &count), HG_TIMEOUT);
    assert_int_equal(count, 0);
    count = 9;
    assert_int_equal(HG_Trigger(context, 10, 1, &count), HG_TIMEOUT);
    assert_int_equal(count, 0);
    count = 9;
    assert_int_equal(HG_Trigger(context, 0, 0, &count), HG_SUCCESS);
    assert_int_equal(count, 0);
    assert_int_equal(HG_Trigger(context, 0, 1, NULL), HG_TIMEOUT);
    count = 9;
    assert_int_equal(HG_Event_progress(context, &count), HG_SUCCESS);
    assert_int_equal(count, 0);
    count = 9;
    assert_int_equal(HG_Event_trigger(context, 1, &count), HG_SUCCESS);
    assert_int_equal(count, 0);
    assert_int_equal(HG_Event_progress(context, NULL), HG_SUCCESS);
    assert_int_equal(HG_Event_trigger(context, 1, NULL), HG_SUCCESS);
    assert_int_equal(HG_Progress(NULL, 0), HG_INVALID_ARG);
    assert_int_equal(HG_Trigger(NULL, 0, 1, NULL), HG_INVALID_ARG);
}

/*
 * HG_Event_progress() returns the length of the queue. While the queue is not empty, progress does
 * not wait.
 */
static void counts(void **state)
{
    struct compat *compat = *state;
    hg_context_t *context = compat->origin.context;
    unsigned int count = 9;

    queue_callbacks(compat, 5);
    assert_int_equal(HG_Event_progress(context, &count), HG_SUCCESS);
    assert_int_equal(count, 5);
    assert_true(HG_Event_ready(context));
    assert_int_equal(HG_Event_trigger(context, 2, &count), HG_SUCCESS);
    assert_int_equal(count, 2);
    assert_int_equal(compat->other, 2);
    assert_int_equal(HG_Event_progress(context, &count), HG_SUCCESS);
    assert_int_equal(count, 3);
    assert_int_equal(HG_Progress(context, 0), HG_SUCCESS);
    assert_int_equal(HG_Progress(context, 100000), HG_SUCCESS);
    count = 9;
    assert_int_equal(HG_Trigger(context, 0, 10, &count), HG_SUCCESS);
    assert_int_equal(count, 3);
    assert_int_equal(HG_Event_progress(context, &count), HG_SUCCESS);
    assert_int_equal(count, 0);
}

/* The result of a callback neither ends the trigger nor changes its result. */
static void failing_callbacks(void **state)
{
    struct compat *compat = *state;
    unsigned int count = 9;

    compat->other = 50;
    queue_callbacks(compat, 3);
    assert_int_equal(HG_Trigger(compat->origin.context, 0, 2, &count), HG_SUCCESS);
    assert_int_equal(count, 2);
    assert_int_equal(HG_Event_trigger(compat->origin.context, 5, &count), HG_SUCCESS);
    assert_int_equal(count, 1);
}

static void trigger_inside_of_a_callback(void **state)
{
    struct compat *compat = *state;
    unsigned int count = 9;

    compat->other = 100;
    queue_callbacks(compat, 3);
    assert_int_equal(HG_Trigger(compat->origin.context, 0, 1, &count), HG_SUCCESS);
    assert_int_equal(count, 1);
    assert_int_equal(compat->other, 102);
    assert_int_equal(HG_Trigger(compat->origin.context, 0, 5, &count), HG_SUCCESS);
    assert_int_equal(count, 1);
    assert_int_equal(compat->other, 103);
}

/* The end of an RPC without a callback counts as triggered as well. */
static void forward_without_a_callback(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);
    char text[] = "three";
    struct call_in in = {3, text};
    unsigned int count = 0, total = 0;
    int i;

    assert_int_equal(HG_Forward(handle, NULL, NULL, &in), HG_SUCCESS);
    for (i = 0; i < 20000 && HG_Ref_get(handle) > 1; i++) {
        (void) HG_Progress(compat->target.context, 0);
        (void) HG_Trigger(compat->target.context, 0, 1, NULL);
        (void) HG_Progress(compat->origin.context, 1);
        count = 0;
        (void) HG_Trigger(compat->origin.context, 0, 1, &count);
        total += count;
    }
    assert_int_equal(total, 1);
    assert_int_equal(HG_Ref_get(handle), 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, compat_setup, compat_teardown)
        TEST(nothing_to_do),
        TEST(counts),
        TEST(failing_callbacks),
        TEST(trigger_inside_of_a_callback),
        TEST(forward_without_a_callback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
