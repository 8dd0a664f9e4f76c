/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forward and respond between two classes: input and output, results, and the references of
 * handles.
 */
#include "hg_fixture.h"

static void null_rpc_completes(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_NULL);
    int before = atomic_load(&pair->target.handled);

    assert_int_equal(pair_call(pair, handle, NULL), HG_SUCCESS);
    assert_int_equal(atomic_load(&pair->target.handled), before + 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static void input_and_output_arrive_unchanged(void **state)
{
    uint32_t size;

    for (size = 0; size < 600; size += 37)
        pair_echo(*state, size);
}

static void handle_is_reused_many_times(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_ECHO);
    int i;

    for (i = 0; i < 500; i++) {
        struct blob in, out;

        blob_make(&in, (uint32_t) i, (uint8_t) i);
        assert_int_equal(pair_call(pair, handle, &in), HG_SUCCESS);
        assert_int_equal(HG_Get_output(handle, &out), HG_SUCCESS);
        blob_check(&out, (uint32_t) i, (uint8_t) i);
        (void) HG_Free_output(handle, &out);
        free(in.data);
    }
    (void) HG_Destroy(handle);
}

static void many_rpcs_are_in_flight_at_once(void **state)
{
    enum {
        COUNT = 300
    };
    static struct outcome outcomes[COUNT];
    struct pair *pair = *state;
    hg_handle_t handles[COUNT];
    int i;

    memset(outcomes, 0, sizeof(outcomes));
    for (i = 0; i < COUNT; i++) {
        struct blob in;
        hg_return_t ret;

        blob_make(&in, 64, (uint8_t) i);
        handles[i] = pair_create(pair, RPC_ECHO);
        while ((ret = HG_Forward(handles[i], outcome_set, &outcomes[i], &in)) == HG_AGAIN)
            pair_progress(pair);
        assert_int_equal(ret, HG_SUCCESS);
        free(in.data);
    }
    for (i = 0; i < COUNT; i++) {
        struct blob out;

        pair_wait_for(pair, &outcomes[i].count, 1);
        assert_int_equal(outcomes[i].ret, HG_SUCCESS);
        assert_int_equal(HG_Get_output(handles[i], &out), HG_SUCCESS);
        blob_check(&out, 64, (uint8_t) i);
        (void) HG_Free_output(handles[i], &out);
        (void) HG_Destroy(handles[i]);
    }
}

static void oneway_completes_without_a_response(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_ONEWAY);
    int before = atomic_load(&pair->target.handled);
    struct blob in, out;

    blob_make(&in, 100, 3);
    assert_int_equal(pair_call(pair, handle, &in), HG_SUCCESS);
    pair_wait_for(pair, &pair->target.handled, before + 1);
    blob_check(&pair->target.last, 100, 3);
    assert_int_equal(HG_Get_output(handle, &out), HG_OPNOTSUPPORTED);
    free(in.data);
    (void) HG_Destroy(handle);
}

static void unknown_id_answers_the_origin(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle;
    struct hg_ext_counters before = side_ext_counters(&pair->target);

    assert_int_equal(HG_Register(pair->origin.hg_class, 1000, NULL, NULL, NULL), HG_SUCCESS);
    handle = pair_create(pair, 1000);
    assert_int_equal(pair_call(pair, handle, NULL), HG_NOENTRY);
    assert_int_equal(side_ext_counters(&pair->target).unknown_rpc_count,
                     before.unknown_rpc_count + 1);
    (void) HG_Destroy(handle);
    assert_int_equal(HG_Deregister(pair->origin.hg_class, 1000), HG_SUCCESS);
}

static void unknown_oneway_id_is_dropped_and_counted(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle;
    struct hg_ext_counters before = side_ext_counters(&pair->target);

    assert_int_equal(HG_Register(pair->origin.hg_class, 1001, NULL, NULL, NULL), HG_SUCCESS);
    assert_int_equal(HG_Registered_disable_response(pair->origin.hg_class, 1001, HG_TRUE),
                     HG_SUCCESS);
    handle = pair_create(pair, 1001);
    assert_int_equal(pair_call(pair, handle, NULL), HG_SUCCESS);
    pair_until(pair, side_ext_counters(&pair->target).unknown_rpc_count > before.unknown_rpc_count);
    assert_int_equal(side_ext_counters(&pair->target).unknown_rpc_count,
                     before.unknown_rpc_count + 1);
    (void) HG_Destroy(handle);
    assert_int_equal(HG_Deregister(pair->origin.hg_class, 1001), HG_SUCCESS);
}

static void deregistered_id_is_refused_by_forward(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle, other = HG_HANDLE_NULL;

    assert_int_equal(HG_Register(pair->origin.hg_class, 1002, NULL, NULL, NULL), HG_SUCCESS);
    handle = pair_create(pair, 1002);
    assert_int_equal(HG_Deregister(pair->origin.hg_class, 1002), HG_SUCCESS);
    assert_int_equal(HG_Forward(handle, NULL, NULL, NULL), HG_NOENTRY);
    assert_int_equal(HG_Create(pair->origin.context, pair->addr, 1002, &other), HG_NOENTRY);
    (void) HG_Destroy(handle);
}

static void error_of_a_handler_reaches_the_origin(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_FAIL);

    assert_int_equal(pair_call(pair, handle, NULL), HG_FAULT);
    assert_int_equal(pair_call(pair, handle, NULL), HG_FAULT);
    (void) HG_Destroy(handle);
}

static hg_return_t handle_again(hg_handle_t handle)
{
    (void) HG_Destroy(handle);
    return HG_AGAIN;
}

/*
 * HG_AGAIN of a handler ends the RPC, although the layers below use that code for refused
 * operations.
 */
static void handler_that_is_not_ready_fails_the_rpc(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle;
    int i;

    assert_int_equal(HG_Register(pair->origin.hg_class, 3000, NULL, NULL, NULL), HG_SUCCESS);
    assert_int_equal(HG_Register(pair->target.hg_class, 3000, NULL, NULL, handle_again),
                     HG_SUCCESS);
    handle = pair_create(pair, 3000);
    for (i = 0; i < 3; i++)
        assert_int_equal(pair_call(pair, handle, NULL), HG_AGAIN);
    (void) HG_Destroy(handle);
}

static hg_handle_t kept;

static hg_return_t keep_and_fail(hg_handle_t handle)
{
    kept = handle;
    return HG_FAULT;
}

static void handler_that_fails_but_keeps_its_handle_may_respond_later(void **state)
{
    struct pair *pair = *state;
    const hg_id_t id = 77;
    struct outcome outcome = {0};
    hg_handle_t handle;

    kept = HG_HANDLE_NULL;
    assert_int_equal(HG_Register(pair->origin.hg_class, id, NULL, NULL, NULL), HG_SUCCESS);
    assert_int_equal(HG_Register(pair->target.hg_class, id, NULL, NULL, keep_and_fail), HG_SUCCESS);
    handle = pair_create(pair, id);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, NULL), HG_SUCCESS);
    while (kept == HG_HANDLE_NULL)
        pair_progress(pair);
    pair_run(pair, 20);
    assert_int_equal(outcome.count, 0);
    assert_int_equal(HG_Respond(kept, NULL, NULL, NULL), HG_SUCCESS);
    (void) HG_Destroy(kept);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    (void) HG_Destroy(handle);
    assert_int_equal(HG_Deregister(pair->origin.hg_class, id), HG_SUCCESS);
    assert_int_equal(HG_Deregister(pair->target.hg_class, id), HG_SUCCESS);
}

static void no_structure_is_an_empty_payload(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_HOLD);
    struct outcome outcome = {0};
    struct blob blob;

    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, NULL), HG_SUCCESS);
    pair_wait_held(pair, &pair->target, 1);
    assert_int_equal(HG_Get_input_payload_size(pair->target.held[0]), 0);
    assert_int_not_equal(HG_Get_input(pair->target.held[0], &blob), HG_SUCCESS);
    side_respond_held(&pair->target, NULL);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    assert_int_equal(HG_Get_output_payload_size(handle), 0);
    (void) HG_Destroy(handle);
}

static void busy_handle_is_refused(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_HOLD);
    struct outcome outcome = {0};
    struct blob in;

    blob_make(&in, 8, 0);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_BUSY);
    assert_int_equal(HG_Reset(handle, pair->addr, RPC_NULL), HG_BUSY);
    pair_wait_held(pair, &pair->target, 1);
    side_respond_held(&pair->target, &in);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    assert_int_equal(HG_Reset(handle, pair->addr, RPC_NULL), HG_SUCCESS);
    assert_int_equal(pair_call(pair, handle, NULL), HG_SUCCESS);
    free(in.data);
    (void) HG_Destroy(handle);
}

static void second_response_is_refused(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_HOLD), held;
    struct outcome outcome = {0};
    struct blob in;

    blob_make(&in, 8, 0);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    pair_wait_held(pair, &pair->target, 1);
    held = pair->target.held[--pair->target.held_count];
    assert_int_equal(HG_Respond(held, NULL, NULL, &in), HG_SUCCESS);
    assert_int_equal(HG_Respond(held, NULL, NULL, &in), HG_BUSY);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(HG_Respond(held, NULL, NULL, &in), HG_BUSY);
    (void) HG_Destroy(held);
    free(in.data);
    (void) HG_Destroy(handle);
}

struct again {
    struct pair *pair;
    int left;
    struct outcome outcome;
};

static hg_return_t forward_again(const struct hg_cb_info *info)
{
    struct again *again = info->arg;

    assert_int_equal(info->ret, HG_SUCCESS);
    if (--again->left > 0)
        return HG_Forward(info->info.forward.handle, forward_again, again, NULL);
    atomic_fetch_add(&again->outcome.count, 1);
    return HG_SUCCESS;
}

static void callback_may_forward_the_same_handle(void **state)
{
    struct again again = {.pair = *state, .left = 50};
    hg_handle_t handle = pair_create(*state, RPC_NULL);

    assert_int_equal(HG_Forward(handle, forward_again, &again, NULL), HG_SUCCESS);
    pair_wait_for(*state, &again.outcome.count, 1);
    (void) HG_Destroy(handle);
}

static void handle_may_be_destroyed_while_it_is_forwarded(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_NULL);
    struct outcome outcome = {0};

    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, NULL), HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
}

static void references_keep_a_handle(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_NULL);

    assert_int_equal(HG_Ref_get(handle), 1);
    assert_int_equal(HG_Ref_incr(handle), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 2);
    (void) HG_Destroy(handle);
    assert_int_equal(HG_Ref_get(handle), 1);
    assert_int_equal(pair_call(pair, handle, NULL), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 1);
    (void) HG_Destroy(handle);
}

static void count_frees(void *data)
{
    ++*(int *) data;
}

static void handle_data_is_freed_with_the_handle(void **state)
{
    hg_handle_t handle = pair_create(*state, RPC_NULL);
    int frees = 0;

    assert_null(HG_Get_data(handle));
    assert_int_equal(HG_Set_data(handle, &frees, count_frees), HG_SUCCESS);
    assert_ptr_equal(HG_Get_data(handle), &frees);
    (void) HG_Destroy(handle);
    assert_int_equal(frees, 1);
    handle = pair_create(*state, RPC_NULL);
    assert_null(HG_Get_data(handle));
    (void) HG_Destroy(handle);
}

static void reset_gives_a_handle_another_rpc(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = HG_HANDLE_NULL;
    struct blob in, out;

    assert_int_equal(HG_Create(pair->origin.context, HG_ADDR_NULL, 0, &handle), HG_SUCCESS);
    assert_int_equal(HG_Forward(handle, NULL, NULL, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Reset(handle, pair->addr, RPC_NULL), HG_SUCCESS);
    assert_int_equal(pair_call(pair, handle, NULL), HG_SUCCESS);
    assert_int_equal(HG_Reset(handle, pair->addr, RPC_ECHO), HG_SUCCESS);
    assert_int_equal(HG_Get_info(handle)->id, RPC_ECHO);
    blob_make(&in, 5, 1);
    assert_int_equal(pair_call(pair, handle, &in), HG_SUCCESS);
    assert_int_equal(HG_Get_output(handle, &out), HG_SUCCESS);
    blob_check(&out, 5, 1);
    (void) HG_Free_output(handle, &out);
    assert_int_equal(HG_Reset(handle, HG_ADDR_NULL, 4711), HG_NOENTRY);
    free(in.data);
    (void) HG_Destroy(handle);
}

static void a_handle_may_lack_its_address_or_its_rpc(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = HG_HANDLE_NULL;

    assert_int_equal(HG_Create(pair->origin.context, HG_ADDR_NULL, 4711, &handle), HG_NOENTRY);
    assert_int_equal(HG_Create(pair->origin.context, HG_ADDR_NULL, RPC_NULL, &handle), HG_SUCCESS);
    assert_int_equal(HG_Get_info(handle)->id, RPC_NULL);
    assert_int_equal(HG_Forward(handle, NULL, NULL, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Reset(handle, pair->addr, 0), HG_SUCCESS);
    assert_int_equal(HG_Get_info(handle)->id, RPC_NULL);
    assert_non_null(HG_Get_info(handle)->addr);
    assert_int_equal(pair_call(pair, handle, NULL), HG_SUCCESS);
    assert_int_equal(HG_Reset(handle, HG_ADDR_NULL, RPC_NULL), HG_SUCCESS);
    assert_null(HG_Get_info(handle)->addr);
    assert_int_equal(HG_Reset(handle, pair->addr, RPC_NULL), HG_SUCCESS);
    assert_int_equal(pair_call(pair, handle, NULL), HG_SUCCESS);
    (void) HG_Destroy(handle);
    assert_int_equal(HG_Create(pair->origin.context, pair->addr, 0, &handle), HG_SUCCESS);
    assert_int_equal(HG_Get_info(handle)->id, 0);
    assert_int_equal(HG_Forward(handle, NULL, NULL, NULL), HG_FAULT);
    assert_int_equal(HG_Reset(handle, pair->addr, 0), HG_SUCCESS);
    assert_int_equal(HG_Forward(handle, NULL, NULL, NULL), HG_FAULT);
    assert_int_equal(HG_Reset(handle, pair->addr, RPC_NULL), HG_SUCCESS);
    assert_int_equal(pair_call(pair, handle, NULL), HG_SUCCESS);
    (void) HG_Destroy(handle);
}

static void forward_without_a_callback_completes(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_NULL);
    int before = atomic_load(&pair->target.handled);

    assert_int_equal(HG_Forward(handle, NULL, NULL, NULL), HG_SUCCESS);
    pair_wait_for(pair, &pair->target.handled, before + 1);
    pair_until(pair, HG_Ref_get(handle) == 1);
    assert_int_equal(HG_Ref_get(handle), 1);
    assert_int_equal(pair_call(pair, handle, NULL), HG_SUCCESS);
    (void) HG_Destroy(handle);
}

static void bad_arguments_are_refused(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_ECHO);
    struct blob blob;
    void *buf;

    assert_int_equal(HG_Forward(NULL, NULL, NULL, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Respond(handle, NULL, NULL, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Respond(NULL, NULL, NULL, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Get_output(handle, &blob), HG_FAULT);
    assert_int_equal(HG_Get_output(NULL, &blob), HG_INVALID_ARG);
    assert_int_equal(HG_Get_input_buf(NULL, &buf, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Create(NULL, pair->addr, RPC_ECHO, &handle), HG_INVALID_ARG);
    assert_int_equal(HG_Create(pair->origin.context, pair->addr, RPC_ECHO, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Create(pair->target.context, pair->addr, RPC_ECHO, &handle),
                     HG_INVALID_ARG);
    assert_int_equal(HG_Destroy(HG_HANDLE_NULL), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(HG_HANDLE_NULL), -1);
    assert_null(HG_Get_info(HG_HANDLE_NULL));
    (void) HG_Destroy(handle);
}

static void offsets_reserve_room_for_own_headers(void **state)
{
    struct pair pair = {0};
    hg_handle_t handle;
    uint8_t *in, *out;
    hg_size_t size;
    int i;

    (void) state;
    pair_open(&pair, NULL);
    (void) HG_Class_set_input_offset(pair.origin.hg_class, 24);
    (void) HG_Class_set_input_offset(pair.target.hg_class, 24);
    (void) HG_Class_set_output_offset(pair.origin.hg_class, 24);
    (void) HG_Class_set_output_offset(pair.target.hg_class, 24);
    assert_int_equal(
        HG_Class_set_input_offset(pair.origin.hg_class,
                                  HG_Class_get_input_eager_size(pair.origin.hg_class) + 1),
        HG_INVALID_ARG);
    handle = pair_create(&pair, RPC_MANUAL);
    assert_int_equal(HG_Get_input_buf(handle, (void **) &in, &size), HG_SUCCESS);
    assert_int_equal(size, HG_Class_get_input_eager_size(pair.origin.hg_class));
    for (i = 0; i < 24; i++)
        in[i] = (uint8_t) i;
    assert_int_equal(pair_call(&pair, handle, NULL), HG_SUCCESS);
    assert_int_equal(HG_Get_output_payload_size(handle), 24);
    assert_int_equal(HG_Get_output_buf(handle, (void **) &out, NULL), HG_SUCCESS);
    for (i = 0; i < 24; i++)
        assert_int_equal(out[i], i + 1);
    (void) HG_Destroy(handle);
    pair_echo(&pair, 333);
    pair_close(&pair);
}

static void counters_count_rpcs(void **state)
{
    struct pair pair = {0};
    int i;

    (void) state;
    pair_open(&pair, NULL);
    for (i = 0; i < 10; i++)
        pair_echo(&pair, 10);
    pair_until(&pair, side_counters(&pair.target).rpc_resp_sent_count == 10 &&
                          side_counters(&pair.target).rpc_req_recv_active_count == 0);
    assert_int_equal(side_counters(&pair.origin).rpc_req_sent_count, 10);
    assert_int_equal(side_counters(&pair.origin).rpc_resp_recv_count, 10);
    assert_int_equal(side_counters(&pair.target).rpc_req_recv_count, 10);
    assert_int_equal(side_counters(&pair.target).rpc_resp_sent_count, 10);
    assert_int_equal(side_counters(&pair.target).rpc_req_recv_active_count, 0);
    assert_int_equal(side_counters(&pair.target).rpc_req_extra_count, 0);
    pair_close(&pair);
}

static void checksums_protect_both_ways(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0};

    (void) state;
    info.checksum_level = HG_CHECKSUM_RPC_PAYLOAD;
    pair_open(&pair, &info);
    pair_echo(&pair, 0);
    pair_echo(&pair, 200);
    pair_echo(&pair, 20000);
    pair_close(&pair);
    memset(&pair, 0, sizeof(pair));
    info.checksum_level = HG_CHECKSUM_RPC_HEADERS;
    side_open(&pair.origin, &info);
    side_open(&pair.target, NULL);
    pair.addr = side_lookup(&pair.origin, &pair.target);
    pair_echo(&pair, 200);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_rpc_completes),
        cmocka_unit_test(input_and_output_arrive_unchanged),
        cmocka_unit_test(handle_is_reused_many_times),
        cmocka_unit_test(many_rpcs_are_in_flight_at_once),
        cmocka_unit_test(oneway_completes_without_a_response),
        cmocka_unit_test(unknown_id_answers_the_origin),
        cmocka_unit_test(unknown_oneway_id_is_dropped_and_counted),
        cmocka_unit_test(deregistered_id_is_refused_by_forward),
        cmocka_unit_test(error_of_a_handler_reaches_the_origin),
        cmocka_unit_test(handler_that_fails_but_keeps_its_handle_may_respond_later),
        cmocka_unit_test(handler_that_is_not_ready_fails_the_rpc),
        cmocka_unit_test(no_structure_is_an_empty_payload),
        cmocka_unit_test(busy_handle_is_refused),
        cmocka_unit_test(second_response_is_refused),
        cmocka_unit_test(callback_may_forward_the_same_handle),
        cmocka_unit_test(handle_may_be_destroyed_while_it_is_forwarded),
        cmocka_unit_test(references_keep_a_handle),
        cmocka_unit_test(handle_data_is_freed_with_the_handle),
        cmocka_unit_test(reset_gives_a_handle_another_rpc),
        cmocka_unit_test(a_handle_may_lack_its_address_or_its_rpc),
        cmocka_unit_test(forward_without_a_callback_completes),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(offsets_reserve_room_for_own_headers),
        cmocka_unit_test(counters_count_rpcs),
        cmocka_unit_test(checksums_protect_both_ways),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}
