/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inputs and outputs around and above the eager size, with and without a response.
 */
#include "hg_fixture.h"

/* Sizes of blobs whose encoding has exactly the eager size, one more, one less. */
static uint32_t input_blob(const struct pair *pair, int delta)
{
    hg_size_t eager = HG_Class_get_input_eager_size(pair->origin.hg_class);

    return (uint32_t) ((int64_t) (eager - BLOB_OVERHEAD) + delta);
}

static uint32_t output_blob(const struct pair *pair, int delta)
{
    hg_size_t eager = HG_Class_get_output_eager_size(pair->origin.hg_class);

    return (uint32_t) ((int64_t) (eager - BLOB_OVERHEAD) + delta);
}

/*
 * With our own transports the eager size is at least 64 KiB, whatever the size of a frame or ring.
 */
static void arguments_of_64_KiB_fit_a_message(void **state)
{
    const struct pair *pair = *state;
    const bool is_ours = strncmp(HG_Class_get_name(pair->origin.hg_class), "loop", 4) != 0;

    assert_true(!is_ours || input_blob(pair, 0) >= 65536);
    assert_true(!is_ours || output_blob(pair, 0) >= 65536);
}

static void input_around_the_eager_size_arrives(void **state)
{
    struct pair *pair = *state;
    int delta;

    for (delta = -1; delta <= 1; delta++) {
        uint64_t extra = side_counters(&pair->origin).rpc_req_extra_count;
        hg_handle_t handle = pair_create(pair, RPC_HOLD);
        uint32_t size = input_blob(pair, delta);
        struct outcome outcome = {0};
        struct blob in, got, out = {.size = 0};
        void *buf;

        blob_make(&in, size, 5);
        blob_make(&out, 3, 6);
        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
        pair_wait_held(pair, &pair->target, 1);
        assert_int_equal(HG_Get_input_payload_size(pair->target.held[0]), size + BLOB_OVERHEAD);
        assert_int_equal(HG_Get_input_extra_buf(pair->target.held[0], &buf, NULL), HG_SUCCESS);
        assert_int_equal(buf != NULL, delta > 0);
        assert_int_equal(HG_Get_input(pair->target.held[0], &got), HG_SUCCESS);
        blob_check(&got, size, 5);
        (void) HG_Free_input(pair->target.held[0], &got);
        side_respond_held(&pair->target, &out);
        pair_wait_for(pair, &outcome.count, 1);
        assert_int_equal(outcome.ret, HG_SUCCESS);
        assert_int_equal(side_counters(&pair->origin).rpc_req_extra_count,
                         extra + (delta > 0 ? 1 : 0));
        free(in.data);
        free(out.data);
        (void) HG_Destroy(handle);
    }
}

static void output_around_the_eager_size_arrives(void **state)
{
    struct pair *pair = *state;
    int delta;

    for (delta = -1; delta <= 1; delta++) {
        uint64_t extra = side_counters(&pair->target).rpc_resp_extra_count;
        hg_handle_t handle = pair_create(pair, RPC_FILL);
        int responded = atomic_load(&pair->target.responded);
        uint32_t size = output_blob(pair, delta);
        struct blob out;
        hg_size_t extra_size;
        void *buf;

        assert_int_equal(pair_call(pair, handle, &size), HG_SUCCESS);
        assert_int_equal(HG_Get_output_payload_size(handle), size + BLOB_OVERHEAD);
        assert_int_equal(HG_Get_output_extra_buf(handle, &buf, &extra_size), HG_SUCCESS);
        assert_int_equal(extra_size, delta > 0 ? size + BLOB_OVERHEAD : 0);
        assert_int_equal(HG_Get_output(handle, &out), HG_SUCCESS);
        blob_check(&out, size, 9);
        (void) HG_Free_output(handle, &out);
        pair_wait_for(pair, &pair->target.responded, responded + 1);
        assert_int_equal(pair->target.respond_ret, HG_SUCCESS);
        assert_int_equal(side_counters(&pair->target).rpc_resp_extra_count,
                         extra + (delta > 0 ? 1 : 0));
        (void) HG_Destroy(handle);
    }
}

static void oneway_input_around_the_eager_size_arrives(void **state)
{
    struct pair *pair = *state;
    int delta;

    for (delta = -1; delta <= 1; delta++) {
        hg_handle_t handle = pair_create(pair, RPC_ONEWAY);
        int handled = atomic_load(&pair->target.handled);
        struct blob in;

        blob_make(&in, input_blob(pair, delta), 8);
        assert_int_equal(pair_call(pair, handle, &in), HG_SUCCESS);
        pair_wait_for(pair, &pair->target.handled, handled + 1);
        blob_check(&pair->target.last, in.size, 8);
        free(in.data);
        (void) HG_Destroy(handle);
    }
}

static void large_input_and_output_arrive(void **state)
{
    pair_echo(*state, 100000);
    pair_echo(*state, 5u << 20);
}

static void handle_alternates_between_small_and_large(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_ECHO);
    int i;

    for (i = 0; i < 40; i++) {
        uint32_t size = i % 2 == 0 ? 10u : pair_large(pair);
        struct blob in, out;

        blob_make(&in, size, (uint8_t) i);
        assert_int_equal(pair_call(pair, handle, &in), HG_SUCCESS);
        assert_int_equal(HG_Get_output(handle, &out), HG_SUCCESS);
        blob_check(&out, size, (uint8_t) i);
        (void) HG_Free_output(handle, &out);
        free(in.data);
    }
    (void) HG_Destroy(handle);
}

static void unknown_oneway_id_with_large_input_completes(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle;
    struct blob in;

    assert_int_equal(HG_Register(pair->origin.hg_class, 2000, proc_blob, NULL, NULL), HG_SUCCESS);
    assert_int_equal(HG_Registered_disable_response(pair->origin.hg_class, 2000, HG_TRUE),
                     HG_SUCCESS);
    handle = pair_create(pair, 2000);
    blob_make(&in, pair_large(pair), 0);
    assert_int_equal(pair_call(pair, handle, &in), HG_NOENTRY);
    free(in.data);
    (void) HG_Destroy(handle);
    assert_int_equal(HG_Deregister(pair->origin.hg_class, 2000), HG_SUCCESS);
}

static void no_overflow_refuses_what_does_not_fit(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0};
    struct outcome outcome = {0};
    hg_handle_t handle;
    struct blob blob, small;

    (void) state;
    info.no_overflow = true;
    pair_open(&pair, &info);
    handle = pair_create(&pair, RPC_HOLD);
    blob_make(&blob, input_blob(&pair, 1), 0);
    blob_make(&small, 4, 0);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &blob), HG_MSGSIZE);
    assert_int_equal(outcome.count, 0);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &small), HG_SUCCESS);
    pair_wait_held(&pair, &pair.target, 1);
    assert_int_equal(HG_Respond(pair.target.held[0], NULL, NULL, &blob), HG_MSGSIZE);
    side_respond_held(&pair.target, &small);
    pair_wait_for(&pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    free(blob.data);
    free(small.data);
    (void) HG_Destroy(handle);
    pair_close(&pair);
}

static void offsets_and_overflow_work_together(void **state)
{
    struct pair pair = {0};
    hg_size_t offset = 16;

    (void) state;
    pair_open(&pair, NULL);
    (void) HG_Class_set_input_offset(pair.origin.hg_class, offset);
    (void) HG_Class_set_input_offset(pair.target.hg_class, offset);
    (void) HG_Class_set_output_offset(pair.origin.hg_class, offset);
    (void) HG_Class_set_output_offset(pair.target.hg_class, offset);
    pair_echo(&pair, pair_large(&pair));
    pair_close(&pair);
}

static void release_input_early_still_decodes_large_input(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0};

    (void) state;
    info.release_input_early = 1;
    pair_open(&pair, &info);
    pair_echo(&pair, pair_large(&pair));
    pair_echo(&pair, 70);
    pair_close(&pair);
}

static void cancel_while_the_response_is_large_frees_both_sides(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_HOLD);
    struct outcome outcome = {0}, respond = {0};
    struct blob blob;

    blob_make(&blob, pair_large(pair), 0);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &blob), HG_SUCCESS);
    pair_wait_held(pair, &pair->target, 1);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_CANCELED);
    /* The ABANDON arrives before or after the target responds; in both cases the response ends. */
    pair_run(pair, 10);
    if (HG_Respond(pair->target.held[0], outcome_set, &respond, &blob) == HG_SUCCESS) {
        pair_wait_for(pair, &respond.count, 1);
        assert_int_equal(respond.ret, HG_CANCELED);
    }
    (void) HG_Destroy(pair->target.held[0]);
    pair->target.held_count = 0;
    free(blob.data);
    (void) HG_Destroy(handle);
    pair_echo(pair, pair_large(pair));
}

static void response_nobody_fetches_ends_when_its_origin_gives_up(void **state)
{
    struct pair *pair = *state;
    const uint64_t detached = side_ext_counters(&pair->target).parked_count;
    hg_handle_t handle = pair_create(pair, RPC_HOLD);
    struct outcome outcome = {0}, respond = {0};
    struct blob blob;

    blob_make(&blob, pair_large(pair), 0);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &blob), HG_SUCCESS);
    pair_wait_held(pair, &pair->target, 1);
    /*
     * The origin cancels first, then the target responds, and then the target learns that the RPC
     * was abandoned.
     */
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    while (atomic_load(&outcome.count) == 0)
        side_progress(&pair->origin);
    assert_int_equal(outcome.ret, HG_CANCELED);
    assert_int_equal(HG_Respond(pair->target.held[0], outcome_set, &respond, &blob), HG_SUCCESS);
    (void) HG_Destroy(pair->target.held[0]);
    pair->target.held_count = 0;
    pair_wait_for(pair, &respond.count, 1);
    assert_int_equal(respond.ret, HG_CANCELED);
    /* The response ended by the ABANDON, and was not detached after a time-out. */
    assert_int_equal(side_ext_counters(&pair->target).parked_count, detached);
    free(blob.data);
    (void) HG_Destroy(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_of_64_KiB_fit_a_message),
        cmocka_unit_test(input_around_the_eager_size_arrives),
        cmocka_unit_test(output_around_the_eager_size_arrives),
        cmocka_unit_test(oneway_input_around_the_eager_size_arrives),
        cmocka_unit_test(large_input_and_output_arrive),
        cmocka_unit_test(handle_alternates_between_small_and_large),
        cmocka_unit_test(unknown_oneway_id_with_large_input_completes),
        cmocka_unit_test(no_overflow_refuses_what_does_not_fit),
        cmocka_unit_test(offsets_and_overflow_work_together),
        cmocka_unit_test(release_input_early_still_decodes_large_input),
        cmocka_unit_test(cancel_while_the_response_is_large_frees_both_sides),
        cmocka_unit_test(response_nobody_fetches_ends_when_its_origin_gives_up),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}
