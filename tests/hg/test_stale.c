/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Late responses, acknowledgements and ABANDON messages of RPCs that are over do not affect later
 * RPCs, even those of a new context at the same address.
 */
#include "hg_words.h"

#include <stdlib.h>

/* Forward a small blob to RPC_HOLD and wait until the target has the request. */
static hg_handle_t forward_held(struct pair *pair, struct outcome *outcome, uint8_t seed)
{
    int held = pair->target.held_count + 1;
    hg_handle_t handle = pair_create(pair, RPC_HOLD);
    struct blob in;

    blob_make(&in, 16, seed);
    assert_int_equal(HG_Forward(handle, outcome_set, outcome, &in), HG_SUCCESS);
    free(in.data);
    pair_wait_held(pair, &pair->target, held);
    return handle;
}

/* The first RPC of an origin: the request arrives, and the origin cancels. */
static void forward_and_cancel(struct pair *pair)
{
    uint32_t words = words_kept(pair);
    struct outcome outcome = {0};
    hg_handle_t handle = forward_held(pair, &outcome, 1);

    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_CANCELED);
    wait_for_words(pair, words + 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static hg_return_t respond(hg_handle_t handle, struct outcome *outcome, uint32_t size, uint8_t seed)
{
    struct blob out;
    hg_return_t ret;

    blob_make(&out, size, seed);
    ret = HG_Respond(handle, outcome_set, outcome, &out);
    free(out.data);
    return ret;
}

/* Progress until the origin has dropped `count` late responses. */
static void wait_late(const struct pair *pair, uint64_t count)
{
    uint64_t end = now_ms() + WAIT_MS;

    while (side_ext_counters(&pair->origin).late_response_count < count && now_ms() < end)
        side_progress(&pair->origin);
    assert_int_equal(side_ext_counters(&pair->origin).late_response_count, count);
}

static void output_check(hg_handle_t handle, uint32_t size, uint8_t seed)
{
    struct blob out;

    assert_int_equal(HG_Get_output(handle, &out), HG_SUCCESS);
    blob_check(&out, size, seed);
    assert_int_equal(HG_Free_output(handle, &out), HG_SUCCESS);
}

/* The target holds a request of the old origin and one of the new origin at the same address. */
static void answer_old_then_new(struct pair *pair)
{
    struct outcome outcome = {0}, responds = {0};
    hg_handle_t handle = forward_held(pair, &outcome, 2);
    hg_handle_t *held = pair->target.held;

    assert_int_equal(pair->target.held_count, 2);
    assert_int_equal(respond(held[0], &responds, 16, 111), HG_SUCCESS);
    pair_wait_for(pair, &responds.count, 1);
    pair_run(pair, 20);
    assert_int_equal(outcome.count, 0);
    assert_int_equal(respond(held[1], &responds, 16, 222), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    output_check(handle, 16, 222);
    pair_wait_for(pair, &responds.count, 2);
    assert_int_equal(HG_Destroy(held[0]), HG_SUCCESS);
    assert_int_equal(HG_Destroy(held[1]), HG_SUCCESS);
    pair->target.held_count = 0;
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static void context_anew(struct side *side)
{
    assert_int_equal(HG_Context_destroy(side->context), HG_SUCCESS);
    side->context = HG_Context_create(side->hg_class);
    assert_non_null(side->context);
}

static void new_context_gets_no_answer_to_the_old_one(void **state)
{
    struct pair pair = {0};

    (void) state;
    pair_open(&pair, NULL);
    forward_and_cancel(&pair);
    context_anew(&pair.origin);
    answer_old_then_new(&pair);
    pair_close(&pair);
}

static void new_class_over_one_na_class_gets_no_answer_to_the_old_one(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    na_class_t *na_class = NA_Initialize(test_init_string(), true);
    struct pair pair = {0};

    (void) state;
    assert_non_null(na_class);
    info.na_class = na_class;
    side_open(&pair.origin, &info);
    side_open(&pair.target, NULL);
    pair.addr = side_lookup(&pair.origin, &pair.target);
    forward_and_cancel(&pair);
    assert_int_equal(HG_Addr_free(pair.origin.hg_class, pair.addr), HG_SUCCESS);
    side_close(&pair.origin);
    side_open(&pair.origin, &info);
    pair.addr = side_lookup(&pair.origin, &pair.target);
    answer_old_then_new(&pair);
    pair_close(&pair);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

/* The target still remembers that the old context's RPC was abandoned. */
static void new_context_gets_its_large_response(void **state)
{
    struct outcome outcome = {0}, responded = {0};
    struct pair pair = {0};
    hg_handle_t handle;
    uint32_t size;

    (void) state;
    pair_open(&pair, NULL);
    size = pair_large(&pair);
    forward_and_cancel(&pair);
    assert_int_equal(HG_Destroy(pair.target.held[0]), HG_SUCCESS);
    pair.target.held_count = 0;
    context_anew(&pair.origin);
    handle = forward_held(&pair, &outcome, 2);
    assert_int_equal(respond(pair.target.held[0], &responded, size, 33), HG_SUCCESS);
    pair_wait_for(&pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    output_check(handle, size, 33);
    pair_wait_for(&pair, &responded.count, 1);
    assert_int_equal(responded.ret, HG_SUCCESS);
    assert_int_equal(HG_Destroy(pair.target.held[0]), HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    pair_close(&pair);
}

/*
 * The target believes by mistake that the RPC was abandoned. It then tells the origin, which still
 * waits.
 */
static void rpc_that_its_target_believes_given_up_ends(void **state)
{
    struct pair *pair = *state;
    struct outcome outcome = {0}, responded = {0};
    hg_handle_t handle = forward_held(pair, &outcome, 2);
    uint32_t words = words_kept(pair);

    hg_control_send_abandon(handle);
    wait_for_words(pair, words + 1);
    assert_int_equal(respond(pair->target.held[0], &responded, pair_large(pair), 3), HG_SUCCESS);
    assert_int_equal(HG_Destroy(pair->target.held[0]), HG_SUCCESS);
    pair->target.held_count = 0;
    pair_wait_for(pair, &responded.count, 1);
    assert_int_equal(responded.ret, HG_CANCELED);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_CANCELED);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    pair_echo(pair, pair_large(pair));
}

/* Prevent the origin from sending ABANDON, or allow it again. */
static void hold_back_words(struct pair *pair, bool is_held_back)
{
    struct hg_controls *controls = &hg_rpc_context(pair->origin.context)->controls;

    (void) pthread_mutex_lock(&controls->lock);
    controls->sending = is_held_back ? controls->sending + 1000 : controls->sending - 1000;
    (void) pthread_mutex_unlock(&controls->lock);
}

/*
 * Make the handle's next tag equal to the last one, as after so many cancelled RPCs that the stale
 * tag was forgotten.
 */
static void come_to_the_same_tag(hg_handle_t handle)
{
    free(handle->stale);
    handle->stale = NULL;
    handle->generation += (1u << hg_handle_tags(handle)->generation_bits) - 1;
}

/*
 * Two responses with the same tag wait to be fetched. The acknowledgement of the second one arrives
 * in the receive that was posted for the first.
 */
static void acknowledgement_ends_the_response_that_it_is_of(void **state)
{
    struct pair *pair = *state;
    struct outcome outcome = {0}, first = {0}, second = {0};
    uint64_t late = side_ext_counters(&pair->origin).late_response_count;
    hg_handle_t handle = forward_held(pair, &outcome, 1), *held = pair->target.held;
    uint32_t size = pair_large(pair);
    struct blob in;

    hold_back_words(pair, true);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, 1);
    hold_back_words(pair, false);
    come_to_the_same_tag(handle);
    blob_make(&in, 16, 2);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    free(in.data);
    pair_wait_held(pair, &pair->target, 2);
    assert_int_equal(held[0]->tag, held[1]->tag);

    assert_int_equal(respond(held[0], &first, size, 111), HG_SUCCESS);
    wait_late(pair, late + 1);
    assert_int_equal(respond(held[1], &second, size, 222), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, 2);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    output_check(handle, size, 222);
    pair_wait_for(pair, &second.count, 1);
    assert_int_equal(second.ret, HG_SUCCESS);
    assert_int_equal(first.count, 0);

    assert_int_equal(HG_Cancel(held[0]), HG_SUCCESS);
    pair_wait_for(pair, &first.count, 1);
    assert_int_equal(first.ret, HG_CANCELED);
    assert_int_equal(HG_Destroy(held[0]), HG_SUCCESS);
    assert_int_equal(HG_Destroy(held[1]), HG_SUCCESS);
    pair->target.held_count = 0;
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

/*
 * The cookie tells the late response from the right one, also if the new request is for another
 * RPC.
 */
static void late_response_with_the_same_tag_is_dropped(void **state)
{
    struct pair *pair = *state;
    hg_handle_t *held = pair->target.held;

    for (int other = 0; other < 2; other++) {
        uint64_t late = side_ext_counters(&pair->origin).late_response_count;
        struct outcome outcome = {0}, responds = {0};
        hg_handle_t handle = forward_held(pair, &outcome, 1);
        struct blob in;

        assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
        pair_wait_for(pair, &outcome.count, 1);
        come_to_the_same_tag(handle);
        blob_make(&in, 16, 2);
        if (other)
            assert_int_equal(HG_Reset(handle, pair->addr, RPC_NULL), HG_SUCCESS);
        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, other ? NULL : &in), HG_SUCCESS);
        free(in.data);
        if (!other)
            pair_wait_held(pair, &pair->target, 2);
        /* The target sends the old response before it receives the new request. */
        assert_int_equal(respond(held[0], &responds, 16, 111), HG_SUCCESS);
        wait_late(pair, late + 1);
        assert_int_equal(outcome.count, 1);
        if (!other)
            assert_int_equal(respond(held[1], &responds, 16, 222), HG_SUCCESS);
        pair_wait_for(pair, &outcome.count, 2);
        assert_int_equal(outcome.ret, HG_SUCCESS);
        if (!other)
            output_check(handle, 16, 222);
        pair_wait_for(pair, &responds.count, other ? 1 : 2);
        while (pair->target.held_count > 0)
            assert_int_equal(HG_Destroy(held[--pair->target.held_count]), HG_SUCCESS);
        assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    }
}

/*
 * The handle would use the same tag again, but skips it as stale; both responses arrive together.
 */
static void answer_of_old_does_not_take_the_place_of_the_right_one(void **state)
{
    struct pair *pair = *state;
    struct outcome outcome = {0}, responds = {0};
    hg_handle_t handle = forward_held(pair, &outcome, 1), *held = pair->target.held;
    uint64_t end = now_ms() + WAIT_MS;
    struct blob in;

    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, 1);
    handle->generation += (1u << hg_handle_tags(handle)->generation_bits) - 1;
    blob_make(&in, 16, 2);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    free(in.data);
    pair_wait_held(pair, &pair->target, 2);
    assert_int_not_equal(held[0]->tag, held[1]->tag);

    assert_int_equal(respond(held[0], &responds, 16, 111), HG_SUCCESS);
    assert_int_equal(respond(held[1], &responds, 16, 222), HG_SUCCESS);
    while (responds.count < 2 && now_ms() < end)
        side_progress(&pair->target);
    pair_wait_for(pair, &outcome.count, 2);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    output_check(handle, 16, 222);
    assert_int_equal(HG_Destroy(held[0]), HG_SUCCESS);
    assert_int_equal(HG_Destroy(held[1]), HG_SUCCESS);
    pair->target.held_count = 0;
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

/* The stale tags never take more than half of a handle's tags, however many RPCs are cancelled. */
static void tags_do_not_run_out(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_ECHO);
    uint32_t tags = 1u << hg_handle_tags(handle)->generation_bits;

    for (uint32_t i = 0; i < 3 * tags; i++) {
        uint64_t generation = hg_generation_after(handle);

        assert_in_range(generation - handle->generation, 1, tags / 2 + 1);
        handle->generation = generation;
        hg_generation_mark_stale(handle);
        assert_in_range(handle->stale->count, 1, tags / 2);
    }
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    pair_echo(pair, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_context_gets_no_answer_to_the_old_one),
        cmocka_unit_test(new_class_over_one_na_class_gets_no_answer_to_the_old_one),
        cmocka_unit_test(new_context_gets_its_large_response),
        cmocka_unit_test_setup_teardown(rpc_that_its_target_believes_given_up_ends, pair_setup,
                                        pair_teardown),
        cmocka_unit_test_setup_teardown(acknowledgement_ends_the_response_that_it_is_of, pair_setup,
                                        pair_teardown),
        cmocka_unit_test_setup_teardown(late_response_with_the_same_tag_is_dropped, pair_setup,
                                        pair_teardown),
        cmocka_unit_test_setup_teardown(answer_of_old_does_not_take_the_place_of_the_right_one,
                                        pair_setup, pair_teardown),
        cmocka_unit_test_setup_teardown(tags_do_not_run_out, pair_setup, pair_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
