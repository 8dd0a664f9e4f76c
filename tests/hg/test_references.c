/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * References to the handles of requests: which calls take one, in which order they may be dropped,
 * and what a call with a handle without references returns.
 */
#include "hg_fixture.h"

enum {
    RPC_FREES = 90, /* a blob; its handler drops its reference by HG_Free_input() alone */
    RPC_LEFT = 91   /* a blob; its handler destroys the handle and does not respond */
};

static hg_handle_t last;

/* The handler decodes from the buffer and never calls HG_Get_input(). */
static hg_return_t handle_frees(hg_handle_t handle)
{
    struct blob blob = {0};
    void *buf;

    last = handle;
    assert_int_equal(HG_Get_input_buf(handle, &buf, NULL), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 3);
    assert_int_equal(HG_Respond(handle, NULL, NULL, NULL), HG_SUCCESS);
    assert_int_equal(HG_Free_input(handle, &blob), HG_SUCCESS);
    return HG_SUCCESS;
}

static hg_return_t handle_left(hg_handle_t handle)
{
    last = handle;
    return HG_Destroy(handle);
}

static void side_add(const struct side *side)
{
    assert_int_equal(HG_Register(side->hg_class, RPC_FREES, proc_blob, proc_blob, handle_frees),
                     HG_SUCCESS);
    assert_int_equal(HG_Register(side->hg_class, RPC_LEFT, proc_blob, proc_blob, handle_left),
                     HG_SUCCESS);
}

static int references_setup(void **state)
{
    struct pair *pair;

    if (pair_setup(state) != 0)
        return -1;
    pair = *state;
    side_add(&pair->origin);
    side_add(&pair->target);
    return 0;
}

/* Handles of requests that were not released yet. */
static int64_t active(const struct pair *pair)
{
    return (int64_t) side_counters(&pair->target).rpc_req_recv_active_count;
}

static void wait_inactive(const struct pair *pair)
{
    const uint64_t end = now_ms() + WAIT_MS;

    while (active(pair) != 0 && now_ms() < end)
        pair_progress(pair);
    assert_int_equal(active(pair), 0);
}

static void an_input_that_is_freed_may_be_the_last_reference(void **state)
{
    struct pair *pair = *state;
    struct blob in;

    blob_make(&in, 32, 1);
    for (int i = 0; i < 300; i++) {
        hg_handle_t handle = pair_create(pair, RPC_FREES);

        assert_int_equal(pair_call(pair, handle, &in), HG_SUCCESS);
        (void) HG_Destroy(handle);
    }
    free(in.data);
    wait_inactive(pair);
}

static void an_input_outlives_its_handles_destruction(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_HOLD), held;
    struct outcome outcome = {0};
    struct blob in, first, second;

    blob_make(&in, 5000, 3);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    pair_wait_held(pair, &pair->target, 1);
    held = pair->target.held[0];
    assert_int_equal(HG_Ref_get(held), 2);
    assert_int_equal(HG_Get_input(held, &first), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(held), 3);
    assert_int_equal(HG_Get_input(held, &second), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(held), 4);
    assert_int_equal(HG_Free_input(held, &first), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(held), 3);
    side_respond_held(&pair->target, &in);
    pair_wait_for(pair, &outcome.count, 1);
    pair_wait_for(pair, &pair->target.responded, 1);
    pair_until(pair, HG_Ref_get(held) == 1);
    assert_int_equal(HG_Ref_get(held), 1);
    blob_check(&second, 5000, 3);
    assert_int_equal(HG_Free_input(held, &second), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(held), 0);

    assert_int_equal(HG_Get_output(handle, &first), HG_SUCCESS);
    assert_int_equal(HG_Get_output(handle, &second), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 3);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Free_output(handle, &first), HG_SUCCESS);
    blob_check(&second, 5000, 3);
    assert_int_equal(HG_Free_output(handle, &second), HG_SUCCESS);
    free(in.data);
    wait_inactive(pair);
}

/* Forwards RPC_LEFT and waits until its handler has run. */
static hg_handle_t forward_left(const struct pair *pair, struct outcome *outcome)
{
    hg_handle_t handle = pair_create(pair, RPC_LEFT);
    struct blob in;

    blob_make(&in, 16, 4);
    last = HG_HANDLE_NULL;
    assert_int_equal(HG_Forward(handle, outcome_set, outcome, &in), HG_SUCCESS);
    while (last == HG_HANDLE_NULL)
        pair_progress(pair);
    free(in.data);
    return handle;
}

static void a_response_may_follow_the_destruction(void **state)
{
    struct pair *pair = *state;
    struct outcome outcome = {0};
    hg_handle_t handle = forward_left(pair, &outcome);
    struct blob out;

    assert_int_equal(HG_Ref_get(last), 1);
    blob_make(&out, 16, 5);
    assert_int_equal(HG_Respond(last, NULL, NULL, &out), HG_SUCCESS);
    free(out.data);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    assert_int_equal(HG_Get_output(handle, &out), HG_SUCCESS);
    blob_check(&out, 16, 5);
    assert_int_equal(HG_Free_output(handle, &out), HG_SUCCESS);
    (void) HG_Destroy(handle);
    wait_inactive(pair);
}

/* The target ends a request that gets no response. */
static void a_second_destruction_takes_the_responses_reference(void **state)
{
    struct pair *pair = *state;
    struct outcome outcome = {0};
    hg_handle_t handle = forward_left(pair, &outcome);

    assert_int_equal(active(pair), 1);
    assert_int_equal(HG_Destroy(last), HG_SUCCESS);
    assert_int_equal(active(pair), 0);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_CANCELED);
    (void) HG_Destroy(handle);
}

/*
 * A handle without references is posted again or free: a call with it must not touch its receive.
 */
static void a_handle_without_a_reference_is_refused(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_FREES);
    struct blob blob;
    void *buf;

    blob_make(&blob, 32, 1);
    assert_int_equal(pair_call(pair, handle, &blob), HG_SUCCESS);
    free(blob.data);
    wait_inactive(pair);
    assert_int_equal(HG_Ref_get(last), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(HG_Destroy(last), HG_INVALID_ARG);
        assert_int_equal(HG_Ref_incr(last), HG_INVALID_ARG);
        assert_int_equal(HG_Respond(last, NULL, NULL, NULL), HG_INVALID_ARG);
        assert_int_equal(HG_Get_input(last, &blob), HG_INVALID_ARG);
        assert_int_equal(HG_Free_input(last, &blob), HG_INVALID_ARG);
        assert_int_equal(HG_Get_output_buf(last, &buf, NULL), HG_INVALID_ARG);
        assert_int_equal(HG_Release_input_buf(last), HG_INVALID_ARG);
        assert_int_equal(HG_Cancel(last), HG_INVALID_ARG);
        pair_echo(pair, 100);
    }
    (void) HG_Destroy(handle);
    for (int i = 0; i < 100; i++)
        pair_echo(pair, 100);
    wait_inactive(pair);
}

/*
 * One handle receives all requests, so that the old pointer names a handle whose next request is
 * already queued.
 */
static void an_old_pointer_does_not_reach_the_next_request(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct outcome outcome = {0};
    struct pair pair = {0};
    unsigned int count = 0;
    hg_handle_t handle;
    struct blob in;

    (void) state;
    info.request_post_init = 1;
    pair_open(&pair, &info);
    side_add(&pair.origin);
    side_add(&pair.target);
    handle = pair_create(&pair, RPC_FREES);
    blob_make(&in, 32, 1);
    assert_int_equal(pair_call(&pair, handle, &in), HG_SUCCESS);
    while (HG_Ref_get(last) != 0)
        pair_progress(&pair);
    assert_int_equal(HG_Reset(handle, pair.addr, RPC_ECHO), HG_SUCCESS);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    while (count == 0) {
        assert_int_equal(HG_Event_progress(pair.origin.context, NULL), HG_SUCCESS);
        assert_int_equal(HG_Event_progress(pair.target.context, &count), HG_SUCCESS);
    }
    assert_int_equal(HG_Destroy(last), HG_INVALID_ARG);
    assert_int_equal(HG_Free_input(last, &in), HG_INVALID_ARG);
    assert_int_equal(HG_Respond(last, NULL, NULL, NULL), HG_INVALID_ARG);
    pair_wait_for(&pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    free(in.data);
    (void) HG_Destroy(handle);
    pair_close(&pair);
}

/*
 * A failed HG_Context_destroy() does not disturb the requests that the program still has. Once none
 * is left, the context can be destroyed.
 */
static void unanswered_requests_end_with_their_context(void **state)
{
    struct pair pair = {0};
    struct outcome outcomes[3] = {{0}};
    hg_handle_t handles[3], first;
    struct blob in, out;

    (void) state;
    pair_open(&pair, NULL);
    side_add(&pair.origin);
    side_add(&pair.target);
    handles[0] = forward_left(&pair, &outcomes[0]);
    first = last;
    handles[1] = pair_create(&pair, RPC_HOLD);
    blob_make(&in, 16, 4);
    assert_int_equal(HG_Forward(handles[1], outcome_set, &outcomes[1], &in), HG_SUCCESS);
    pair_wait_held(&pair, &pair.target, 1);
    assert_int_equal(HG_Context_destroy(pair.target.context), HG_BUSY);
    assert_int_equal(HG_Respond(first, NULL, NULL, &in), HG_SUCCESS);
    side_respond_held(&pair.target, &in);
    for (int i = 0; i < 2; i++) {
        pair_wait_for(&pair, &outcomes[i].count, 1);
        assert_int_equal(outcomes[i].ret, HG_SUCCESS);
        assert_int_equal(HG_Get_output(handles[i], &out), HG_SUCCESS);
        blob_check(&out, 16, 4);
        assert_int_equal(HG_Free_output(handles[i], &out), HG_SUCCESS);
        assert_int_equal(HG_Destroy(handles[i]), HG_SUCCESS);
    }
    free(in.data);

    handles[2] = forward_left(&pair, &outcomes[2]);
    assert_int_equal(HG_Cancel(handles[2]), HG_SUCCESS);
    pair_wait_for(&pair, &outcomes[2].count, 1);
    assert_int_equal(HG_Destroy(handles[2]), HG_SUCCESS);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_input_that_is_freed_may_be_the_last_reference),
        cmocka_unit_test(an_input_outlives_its_handles_destruction),
        cmocka_unit_test(a_response_may_follow_the_destruction),
        cmocka_unit_test(a_second_destruction_takes_the_responses_reference),
        cmocka_unit_test(a_handle_without_a_reference_is_refused),
        cmocka_unit_test(an_old_pointer_does_not_reach_the_next_request),
        cmocka_unit_test(unanswered_requests_end_with_their_context),
    };

    return cmocka_run_group_tests(tests, references_setup, pair_teardown);
}
