/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RPCs of a class to its own address, through the internal loopback and, without it, through the
 * transport.
 */
#include "hg_fixture.h"

/* Opens one side that is its own target. */
static void self_open(struct pair *pair, const struct hg_init_info *info)
{
    side_open(&pair->origin, info);
    pair->target = pair->origin;
    assert_int_equal(HG_Addr_self(pair->origin.hg_class, &pair->addr), HG_SUCCESS);
}

static void self_close(struct pair *pair)
{
    pair_run(pair, 5);
    assert_int_equal(HG_Addr_free(pair->origin.hg_class, pair->addr), HG_SUCCESS);
    side_close(&pair->origin);
}

static void rpc_to_self_completes(void **state)
{
    struct pair pair = {0};
    hg_handle_t handle;

    (void) state;
    self_open(&pair, NULL);
    handle = pair_create(&pair, RPC_NULL);
    assert_int_equal(pair_call(&pair, handle, NULL), HG_SUCCESS);
    (void) HG_Destroy(handle);
    pair_echo(&pair, 0);
    pair_echo(&pair, 500);
    pair_echo(&pair, 200000);
    self_close(&pair);
}

static int calls[2];
static int call_count;

static hg_return_t note_call(const struct hg_cb_info *info)
{
    calls[call_count++ % 2] = (int) info->type;
    return HG_SUCCESS;
}

static hg_return_t respond_and_note(hg_handle_t handle)
{
    assert_int_equal(HG_Respond(handle, note_call, NULL, NULL), HG_SUCCESS);
    return HG_Destroy(handle);
}

static void target_is_called_back_before_the_origin(void **state)
{
    struct pair pair = {0};
    hg_handle_t handle;

    (void) state;
    call_count = 0;
    self_open(&pair, NULL);
    assert_int_equal(HG_Register(pair.origin.hg_class, 88, NULL, NULL, respond_and_note),
                     HG_SUCCESS);
    handle = pair_create(&pair, 88);
    assert_int_equal(HG_Forward(handle, note_call, NULL, NULL), HG_SUCCESS);
    while (call_count < 2)
        pair_progress(&pair);
    assert_int_equal(calls[0], HG_CB_RESPOND);
    assert_int_equal(calls[1], HG_CB_FORWARD);
    (void) HG_Destroy(handle);
    self_close(&pair);
}

static hg_handle_t kept;

static hg_return_t keep_and_respond(hg_handle_t handle)
{
    kept = handle;
    return HG_Respond(handle, NULL, NULL, NULL);
}

/*
 * An RPC to self has a handle at its origin and one at its target, and their references are counted
 * together.
 */
static void both_ends_count_as_one_rpc(void **state)
{
    struct pair pair = {0};
    hg_handle_t handle;

    (void) state;
    self_open(&pair, NULL);
    assert_int_equal(HG_Register(pair.origin.hg_class, 89, NULL, NULL, keep_and_respond),
                     HG_SUCCESS);
    handle = pair_create(&pair, 89);
    assert_int_equal(HG_Ref_get(handle), 1);
    assert_int_equal(pair_call(&pair, handle, NULL), HG_SUCCESS);
    pair_until(&pair, HG_Ref_get(handle) == 2);
    assert_int_equal(HG_Ref_get(handle), 2);
    assert_int_equal(HG_Ref_get(kept), 2);
    assert_int_equal(HG_Destroy(kept), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 1);
    assert_int_equal(pair_call(&pair, handle, NULL), HG_SUCCESS);
    pair_run(&pair, 5);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(kept), 1);
    assert_int_equal(HG_Destroy(kept), HG_SUCCESS);
    self_close(&pair);
}

/*
 * The target still has the handle of the first RPC when the origin's handle is used for the next
 * RPC.
 */
static void an_end_that_was_left_counts_alone(void **state)
{
    struct pair pair = {0};
    hg_handle_t handle, first;

    (void) state;
    self_open(&pair, NULL);
    assert_int_equal(HG_Register(pair.origin.hg_class, 89, NULL, NULL, keep_and_respond),
                     HG_SUCCESS);
    handle = pair_create(&pair, 89);
    assert_int_equal(pair_call(&pair, handle, NULL), HG_SUCCESS);
    first = kept;
    assert_int_equal(pair_call(&pair, handle, NULL), HG_SUCCESS);
    pair_until(&pair, HG_Ref_get(first) == 1 && HG_Ref_get(handle) == 2);
    assert_int_equal(HG_Ref_get(first), 1);
    assert_int_equal(HG_Ref_get(handle), 2);
    assert_int_equal(HG_Destroy(first), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 2);
    assert_int_equal(HG_Destroy(kept), HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    self_close(&pair);
}

static void oneway_to_self_completes(void **state)
{
    struct pair pair = {0};
    hg_handle_t handle;
    struct blob in;

    (void) state;
    self_open(&pair, NULL);
    handle = pair_create(&pair, RPC_ONEWAY);
    blob_make(&in, 40000, 1);
    assert_int_equal(pair_call(&pair, handle, &in), HG_SUCCESS);
    pair_wait_for(&pair, &pair.origin.handled, 1);
    blob_check(&pair.origin.last, 40000, 1);
    free(in.data);
    (void) HG_Destroy(handle);
    self_close(&pair);
}

static void error_of_a_handler_comes_back(void **state)
{
    struct pair pair = {0};
    hg_handle_t handle;

    (void) state;
    self_open(&pair, NULL);
    handle = pair_create(&pair, RPC_FAIL);
    assert_int_equal(pair_call(&pair, handle, NULL), HG_FAULT);
    (void) HG_Destroy(handle);
    self_close(&pair);
}

static void no_loopback_goes_through_the_transport(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0};

    (void) state;
    info.no_loopback = 1;
    self_open(&pair, &info);
    pair_echo(&pair, 0);
    pair_echo(&pair, 500);
    pair_echo(&pair, 200000);
    self_close(&pair);
}

static void class_that_does_not_listen_can_call_itself(void **state)
{
    struct pair pair = {0};

    (void) state;
    pair.origin.hg_class = HG_Init(test_init_string(), HG_FALSE);
    assert_non_null(pair.origin.hg_class);
    assert_false(HG_Class_is_listening(pair.origin.hg_class));
    side_register(&pair.origin);
    pair.origin.context = HG_Context_create(pair.origin.hg_class);
    assert_non_null(pair.origin.context);
    pair.target = pair.origin;
    assert_int_equal(HG_Addr_self(pair.origin.hg_class, &pair.addr), HG_SUCCESS);
    pair_echo(&pair, 77);
    self_close(&pair);
}

static void queued_rpc_to_self_can_be_cancelled(void **state)
{
    struct pair pair = {0};
    struct outcome outcome = {0};
    hg_handle_t handle;

    (void) state;
    self_open(&pair, NULL);
    handle = pair_create(&pair, RPC_NULL);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, NULL), HG_SUCCESS);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(&pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_CANCELED);
    pair_run(&pair, 5);
    assert_int_equal(outcome.count, 1);
    assert_int_equal(pair.origin.handled, 0);
    assert_int_equal(pair_call(&pair, handle, NULL), HG_SUCCESS);
    (void) HG_Destroy(handle);
    self_close(&pair);
}

static void running_rpc_to_self_can_be_cancelled(void **state)
{
    struct pair pair = {0};
    struct outcome outcome = {0};
    hg_handle_t handle;
    struct blob in;

    (void) state;
    self_open(&pair, NULL);
    handle = pair_create(&pair, RPC_HOLD);
    blob_make(&in, 4, 0);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    pair_wait_held(&pair, &pair.origin, 1);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(&pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_CANCELED);
    /* The handler's response is dropped, even if the handle is in use again. */
    assert_int_equal(HG_Reset(handle, pair.addr, RPC_NULL), HG_SUCCESS);
    assert_int_equal(pair_call(&pair, handle, NULL), HG_SUCCESS);
    side_respond_held(&pair.origin, &in);
    pair_wait_for(&pair, &pair.origin.responded, 1);
    assert_int_equal(pair.origin.respond_ret, HG_SUCCESS);
    assert_int_equal(outcome.count, 1);
    free(in.data);
    (void) HG_Destroy(handle);
    self_close(&pair);
}

static void rpc_to_self_whose_handler_drops_it_can_be_cancelled(void **state)
{
    struct pair pair = {0};
    struct outcome outcome = {0};
    hg_handle_t handle;
    struct blob in;

    (void) state;
    self_open(&pair, NULL);
    handle = pair_create(&pair, RPC_HOLD);
    blob_make(&in, 4, 0);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    pair_wait_held(&pair, &pair.origin, 1);
    (void) HG_Destroy(pair.origin.held[0]);
    pair_run(&pair, 5);
    assert_int_equal(outcome.count, 0);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(&pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_CANCELED);
    free(in.data);
    (void) HG_Destroy(handle);
    self_close(&pair);
}

static void context_id_chooses_the_own_context(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0};
    hg_context_t *second;
    hg_handle_t handle;
    struct outcome outcome = {0};
    unsigned int count;

    (void) state;
    info.na_init_info.max_contexts = 2;
    self_open(&pair, &info);
    second = HG_Context_create_id(pair.origin.hg_class, 1);
    assert_non_null(second);
    handle = pair_create(&pair, RPC_NULL);
    assert_int_equal(HG_Set_target_id(handle, 1), HG_SUCCESS);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, NULL), HG_SUCCESS);
    pair_run(&pair, 5);
    assert_int_equal(outcome.count, 0);
    assert_int_equal(HG_Trigger(second, 0, 10, &count), HG_SUCCESS);
    pair_wait_for(&pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    assert_int_equal(HG_Set_target_id(handle, 9), HG_SUCCESS);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, NULL), HG_INVALID_ARG);
    (void) HG_Destroy(handle);
    while (HG_Trigger(second, 0, 10, &count) == HG_SUCCESS && count > 0)
        ;
    assert_int_equal(HG_Context_destroy(second), HG_SUCCESS);
    self_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rpc_to_self_completes),
        cmocka_unit_test(target_is_called_back_before_the_origin),
        cmocka_unit_test(both_ends_count_as_one_rpc),
        cmocka_unit_test(an_end_that_was_left_counts_alone),
        cmocka_unit_test(oneway_to_self_completes),
        cmocka_unit_test(error_of_a_handler_comes_back),
        cmocka_unit_test(no_loopback_goes_through_the_transport),
        cmocka_unit_test(class_that_does_not_listen_can_call_itself),
        cmocka_unit_test(queued_rpc_to_self_can_be_cancelled),
        cmocka_unit_test(running_rpc_to_self_can_be_cancelled),
        cmocka_unit_test(rpc_to_self_whose_handler_drops_it_can_be_cancelled),
        cmocka_unit_test(context_id_chooses_the_own_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
