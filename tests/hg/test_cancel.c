/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cancel: before, while and after an RPC runs, from callbacks and from other threads. Late
 * responses are dropped, and the handle can be used again.
 */
#include "hg_fixture.h"

#include <pthread.h>

static hg_handle_t forward_held(struct pair *pair, struct outcome *outcome)
{
    hg_handle_t handle = pair_create(pair, RPC_HOLD);
    struct blob in;

    blob_make(&in, 16, 1);
    assert_int_equal(HG_Forward(handle, outcome_set, outcome, &in), HG_SUCCESS);
    free(in.data);
    return handle;
}

static void cancel_of_an_idle_handle_does_nothing(void **state)
{
    hg_handle_t handle = pair_create(*state, RPC_NULL);

    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    assert_int_equal(pair_call(*state, handle, NULL), HG_SUCCESS);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    assert_int_equal(pair_call(*state, handle, NULL), HG_SUCCESS);
    assert_int_equal(HG_Cancel(HG_HANDLE_NULL), HG_INVALID_ARG);
    (void) HG_Destroy(handle);
}

static void cancelled_rpc_calls_back_once(void **state)
{
    struct pair *pair = *state;
    struct outcome outcome = {0};
    hg_handle_t handle = forward_held(pair, &outcome);
    struct blob out;

    pair_wait_held(pair, &pair->target, 1);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_CANCELED);
    assert_int_equal(HG_Get_output(handle, &out), HG_FAULT);
    blob_make(&out, 16, 2);
    side_respond_held(&pair->target, &out);
    free(out.data);
    pair_run(pair, 20);
    assert_int_equal(outcome.count, 1);
    (void) HG_Destroy(handle);
}

static void handle_is_reused_after_cancel_and_the_late_response_is_dropped(void **state)
{
    struct pair *pair = *state;
    struct outcome outcome = {0};
    hg_handle_t handle = forward_held(pair, &outcome);
    struct blob late, in, out;
    int i;

    blob_make(&late, 16, 99);
    for (i = 0; i < 20; i++) {
        pair_wait_held(pair, &pair->target, 1);
        assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
        pair_wait_for(pair, &outcome.count, 1);
        assert_int_equal(outcome.ret, HG_CANCELED);

        /* The next RPC of the handle is in flight when the response to the previous one arrives. */
        atomic_store(&outcome.count, 0);
        blob_make(&in, 16, (uint8_t) i);
        assert_int_equal(HG_Reset(handle, pair->addr, RPC_ECHO), HG_SUCCESS);
        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
        side_respond_held(&pair->target, &late);
        pair_wait_for(pair, &outcome.count, 1);
        assert_int_equal(outcome.ret, HG_SUCCESS);
        assert_int_equal(HG_Get_output(handle, &out), HG_SUCCESS);
        blob_check(&out, 16, (uint8_t) i);
        (void) HG_Free_output(handle, &out);

        atomic_store(&outcome.count, 0);
        assert_int_equal(HG_Reset(handle, pair->addr, RPC_HOLD), HG_SUCCESS);
        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
        free(in.data);
    }
    pair_wait_held(pair, &pair->target, 1);
    side_respond_held(&pair->target, &late);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    free(late.data);
    (void) HG_Destroy(handle);
}

static hg_return_t cancel_other(const struct hg_cb_info *info)
{
    hg_handle_t *handles = info->arg;

    assert_int_equal(HG_Cancel(handles[0]), HG_SUCCESS);
    assert_int_equal(HG_Cancel(info->info.forward.handle), HG_SUCCESS);
    return HG_SUCCESS;
}

static void callback_may_cancel_other_rpcs(void **state)
{
    struct pair *pair = *state;
    struct outcome outcome = {0};
    hg_handle_t handles[1] = {forward_held(pair, &outcome)};
    hg_handle_t handle = pair_create(pair, RPC_NULL);
    struct blob out;

    pair_wait_held(pair, &pair->target, 1);
    assert_int_equal(HG_Forward(handle, cancel_other, handles, NULL), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_CANCELED);
    blob_make(&out, 1, 1);
    side_respond_held(&pair->target, &out);
    free(out.data);
    pair_run(pair, 10);
    (void) HG_Destroy(handle);
    (void) HG_Destroy(handles[0]);
}

static void *cancel_thread(void *arg)
{
    assert_int_equal(HG_Cancel(arg), HG_SUCCESS);
    return NULL;
}

static void other_thread_may_cancel(void **state)
{
    struct pair *pair = *state;
    int i;

    for (i = 0; i < 50; i++) {
        struct outcome outcome = {0};
        hg_handle_t handle = forward_held(pair, &outcome);
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, cancel_thread, handle), 0);
        pair_wait_for(pair, &outcome.count, 1);
        assert_int_equal(outcome.ret, HG_CANCELED);
        (void) pthread_join(thread, NULL);
        /* If the cancel came before the request was sent, the request never arrives. */
        pair_respond_all(pair);
        (void) HG_Destroy(handle);
    }
}

/* The cancel races with the response: the callback runs once, with either result. */
static void cancel_races_with_completion(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_NULL);
    int i;

    for (i = 0; i < 200; i++) {
        struct outcome outcome = {0};
        pthread_t thread;

        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, NULL), HG_SUCCESS);
        assert_int_equal(pthread_create(&thread, NULL, cancel_thread, handle), 0);
        pair_wait_for(pair, &outcome.count, 1);
        assert_true(outcome.ret == HG_SUCCESS || outcome.ret == HG_CANCELED);
        (void) pthread_join(thread, NULL);
        pair_progress(pair);
        assert_int_equal(outcome.count, 1);
    }
    (void) HG_Destroy(handle);
}

/*
 * The target cancels its response before the origin has fetched the output: the origin cannot fetch
 * the output any more.
 */
static void cancelled_response_calls_back_once(void **state)
{
    struct pair *pair = *state;

    if (!test_is_sm()) {
        test_skip("a response needs progress of both sides there, so the origin may be faster");
        return;
    }
    for (int other = 0; other < 2; other++) {
        const uint64_t detached = side_ext_counters(&pair->target).parked_count;
        struct outcome outcome = {0}, respond = {0};
        hg_handle_t handle = forward_held(pair, &outcome), held;
        pthread_t thread;
        struct blob out;

        pair_wait_held(pair, &pair->target, 1);
        held = pair->target.held[--pair->target.held_count];
        blob_make(&out, pair_large(pair), 3);
        assert_int_equal(HG_Respond(held, outcome_set, &respond, &out), HG_SUCCESS);
        free(out.data);
        if (other) {
            assert_int_equal(pthread_create(&thread, NULL, cancel_thread, held), 0);
            (void) pthread_join(thread, NULL);
        } else {
            assert_int_equal(HG_Cancel(held), HG_SUCCESS);
        }
        assert_int_equal(HG_Cancel(held), HG_SUCCESS);
        /*
         * The origin makes no progress yet, because it could complete the response before the
         * cancel.
         */
        for (uint64_t end = now_ms() + WAIT_MS; now_ms() < end && atomic_load(&respond.count) == 0;)
            side_progress(&pair->target);
        assert_int_equal(respond.count, 1);
        assert_int_equal(respond.type, HG_CB_RESPOND);
        assert_int_equal(respond.ret, HG_CANCELED);
        /* The transport cancelled the send; the operation was not detached after a time-out. */
        assert_int_equal(side_ext_counters(&pair->target).parked_count, detached);
        assert_int_equal(HG_Cancel(held), HG_SUCCESS); /* after the end */
        /* Either the origin is told that there is no output, or it has to cancel its RPC itself. */
        pair_run(pair, 50);
        if (atomic_load(&outcome.count) == 0)
            assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
        pair_wait_for(pair, &outcome.count, 1);
        assert_int_not_equal(outcome.ret, HG_SUCCESS);
        assert_int_equal(respond.count, 1);
        assert_int_equal(HG_Destroy(held), HG_SUCCESS);
        (void) HG_Destroy(handle);
        pair_echo(pair, pair_large(pair));
    }
}

static void sleeping_progress_sees_a_cancel(void **state)
{
    struct pair *pair = *state;
    struct outcome outcome = {0};
    hg_handle_t handle = forward_held(pair, &outcome);
    pthread_t thread;
    unsigned int count;
    struct blob out;

    pair_wait_held(pair, &pair->target, 1);
    assert_int_equal(pthread_create(&thread, NULL, cancel_thread, handle), 0);
    assert_int_equal(HG_Progress(pair->origin.context, 10000), HG_SUCCESS);
    assert_int_equal(HG_Trigger(pair->origin.context, 0, 1, &count), HG_SUCCESS);
    assert_int_equal(outcome.ret, HG_CANCELED);
    (void) pthread_join(thread, NULL);
    blob_make(&out, 16, 2);
    side_respond_held(&pair->target, &out);
    free(out.data);
    pair_run(pair, 10);
    (void) HG_Destroy(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_of_an_idle_handle_does_nothing),
        cmocka_unit_test(cancelled_rpc_calls_back_once),
        cmocka_unit_test(handle_is_reused_after_cancel_and_the_late_response_is_dropped),
        cmocka_unit_test(callback_may_cancel_other_rpcs),
        cmocka_unit_test(other_thread_may_cancel),
        cmocka_unit_test(cancel_races_with_completion),
        cmocka_unit_test(cancelled_response_calls_back_once),
        cmocka_unit_test(sleeping_progress_sees_a_cancel),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}
