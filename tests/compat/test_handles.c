/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RPC handles, apart from their references: RPC id and address, attached data, message buffers,
 * calls that a busy handle refuses, and cancellation.
 */
#include "compat/compat_fixture.h"

static void create_without_id(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, 0);
    struct call_in in = {3, NULL};

    assert_int_equal(HG_Get_info(handle)->id, 0);
    assert_true(HG_Addr_cmp(compat->origin.hg_class, HG_Get_info(handle)->addr, compat->addr));
    assert_int_equal(HG_Forward(handle, compat_forwarded, compat, &in), HG_FAULT);
    assert_int_equal(HG_Ref_get(handle), 1);
    assert_int_equal(HG_Reset(handle, compat->addr, RPC_CALL), HG_SUCCESS);
    compat_forward(compat, handle);
    compat_wait(compat, &compat->forwarded, 1);
    assert_int_equal(compat->number, 4);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static void reset_to_no_id_and_no_address(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);
    struct call_in in = {3, NULL};

    /* With id 0, HG_Reset() keeps the handle's RPC. */
    assert_int_equal(HG_Reset(handle, compat->addr, 0), HG_SUCCESS);
    compat_forward(compat, handle);
    compat_wait(compat, &compat->forwarded, 1);
    assert_int_equal(compat->ret, HG_SUCCESS);
    assert_int_equal(HG_Reset(handle, HG_ADDR_NULL, RPC_CALL), HG_SUCCESS);
    assert_null(HG_Get_info(handle)->addr);
    assert_int_equal(HG_Get_info(handle)->id, RPC_CALL);
    assert_int_equal(HG_Forward(handle, compat_forwarded, compat, &in), HG_INVALID_ARG);
    assert_int_equal(HG_Reset(handle, HG_ADDR_NULL, 0), HG_SUCCESS);
    assert_null(HG_Get_info(handle)->addr);
    assert_int_equal(HG_Reset(handle, compat->addr, RPC_CALL), HG_SUCCESS);
    compat_forward(compat, handle);
    compat_wait(compat, &compat->forwarded, 2);
    assert_int_equal(compat->number, 4);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static void create_without_address(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle;
    struct call_in in = {3, NULL};

    assert_int_equal(HG_Create(compat->origin.context, HG_ADDR_NULL, RPC_CALL, &handle),
                     HG_SUCCESS);
    assert_null(HG_Get_info(handle)->addr);
    assert_int_equal(HG_Forward(handle, compat_forwarded, compat, &in), HG_INVALID_ARG);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Create(compat->origin.context, HG_ADDR_NULL, 0, &handle), HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static void unregistered_ids(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = HG_HANDLE_NULL;

    assert_int_equal(HG_Create(compat->origin.context, compat->addr, 12345, &handle), HG_NOENTRY);
    assert_null(handle);
    handle = compat_create(compat, RPC_CALL);
    assert_int_equal(HG_Reset(handle, compat->addr, 12345), HG_NOENTRY);
    assert_int_equal(HG_Get_info(handle)->id, RPC_CALL);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

/* HG_Reset() sets the target id back to 0. */
static void reset_of_the_target_id(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);

    assert_int_equal(HG_Set_target_id(handle, 3), HG_SUCCESS);
    assert_int_equal(HG_Get_info(handle)->context_id, 3);
    assert_int_equal(HG_Reset(handle, compat->addr, RPC_CALL), HG_SUCCESS);
    assert_int_equal(HG_Get_info(handle)->context_id, 0);
    compat_forward(compat, handle);
    compat_wait(compat, &compat->forwarded, 1);
    assert_int_equal(compat->number, 4);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static void null_handles(void **state)
{
    void *buf;

    (void) state;
    assert_int_equal(HG_Destroy(HG_HANDLE_NULL), HG_SUCCESS);
    assert_int_equal(HG_Reset(HG_HANDLE_NULL, HG_ADDR_NULL, 0), HG_INVALID_ARG);
    assert_int_equal(HG_Forward(HG_HANDLE_NULL, NULL, NULL, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Respond(HG_HANDLE_NULL, NULL, NULL, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Cancel(HG_HANDLE_NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Get_input(HG_HANDLE_NULL, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Free_input(HG_HANDLE_NULL, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Get_output(HG_HANDLE_NULL, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Free_output(HG_HANDLE_NULL, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Release_input_buf(HG_HANDLE_NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Get_input_buf(HG_HANDLE_NULL, &buf, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Get_output_buf(HG_HANDLE_NULL, &buf, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Get_input_payload_size(HG_HANDLE_NULL), 0);
}

static void busy_handle(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);

    compat->handler = compat_keep;
    compat_forward(compat, handle);
    assert_int_equal(HG_Forward(handle, compat_forwarded, compat, NULL), HG_BUSY);
    assert_int_equal(HG_Reset(handle, compat->addr, RPC_CALL), HG_BUSY);
    assert_int_equal(HG_Ref_get(handle), 2);
    compat_wait(compat, &compat->handled, 1);
    assert_int_equal(compat_answer(compat, compat->kept), HG_SUCCESS);
    compat_wait(compat, &compat->forwarded, 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static hg_return_t forward_thrice(const struct hg_cb_info *info)
{
    struct compat *compat = info->arg;
    struct call_in in = {3, NULL};

    assert_int_equal(info->ret, HG_SUCCESS);
    if (++compat->forwarded < 3)
        assert_int_equal(HG_Forward(info->info.forward.handle, forward_thrice, compat, &in),
                         HG_SUCCESS);
    return HG_SUCCESS;
}

static void forward_again_in_the_callback(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);
    struct call_in in = {3, NULL};

    assert_int_equal(HG_Forward(handle, forward_thrice, compat, &in), HG_SUCCESS);
    compat_wait(compat, &compat->forwarded, 3);
    assert_int_equal(HG_Ref_get(handle), 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static hg_return_t reset_and_forward(const struct hg_cb_info *info)
{
    struct compat *compat = info->arg;

    assert_int_equal(HG_Reset(info->info.forward.handle, compat->addr, RPC_ONEWAY), HG_SUCCESS);
    compat_forward(compat, info->info.forward.handle);
    return HG_SUCCESS;
}

static void reset_in_the_callback(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);
    struct call_in in = {3, NULL};

    assert_int_equal(HG_Forward(handle, reset_and_forward, compat, &in), HG_SUCCESS);
    compat_wait(compat, &compat->handled, 2);
    compat_wait(compat, &compat->forwarded, 1);
    assert_int_equal(compat->ret, HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

/* A handle keeps its address alive. */
static void address_freed_before_forward(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle;
    hg_addr_t addr;

    assert_int_equal(HG_Addr_dup(compat->origin.hg_class, compat->addr, &addr), HG_SUCCESS);
    assert_int_equal(HG_Create(compat->origin.context, addr, RPC_CALL, &handle), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(compat->origin.hg_class, addr), HG_SUCCESS);
    compat_forward(compat, handle);
    compat_wait(compat, &compat->forwarded, 1);
    assert_int_equal(compat->number, 4);
    assert_int_equal(HG_Addr_dup(compat->origin.hg_class, compat->addr, &addr), HG_SUCCESS);
    assert_int_equal(HG_Reset(handle, addr, RPC_CALL), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(compat->origin.hg_class, addr), HG_SUCCESS);
    compat_forward(compat, handle);
    compat_wait(compat, &compat->forwarded, 2);
    assert_int_equal(compat->number, 4);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static hg_addr_t kept_addr;

static hg_return_t handler_dup_addr(struct compat *compat, hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);

    assert_ptr_equal(info->hg_class, compat->target.hg_class);
    assert_ptr_equal(info->context, compat->target.context);
    assert_int_equal(info->id, RPC_CALL);
    assert_int_equal(info->context_id, 0);
    assert_int_equal(HG_Addr_dup(info->hg_class, info->addr, &kept_addr), HG_SUCCESS);
    assert_true(HG_Addr_cmp(info->hg_class, kept_addr, info->addr));
    return compat_answer(compat, handle);
}

/* The address of HG_Get_info() belongs to the handle; a duplicate may outlive the handle. */
static void duplicate_of_the_peers_address(void **state)
{
    struct compat *compat = *state;
    char name[512];
    hg_size_t size = sizeof(name);
    hg_handle_t handle;

    compat->handler = handler_dup_addr;
    handle = compat_call(compat, RPC_CALL);
    compat_wait(compat, &compat->responded, 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    compat_run(compat, 5);
    assert_int_equal(HG_Addr_to_string(compat->target.hg_class, name, &size, kept_addr),
                     HG_SUCCESS);
    assert_int_equal(HG_Addr_free(compat->target.hg_class, kept_addr), HG_SUCCESS);
}

static int freed[3];

static void count_free(void *data)
{
    ++*(int *) data;
}

/* Data are freed with the last reference; data that were replaced are not freed. */
static void data_of_an_origins_handle(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);

    memset(freed, 0, sizeof(freed));
    assert_null(HG_Get_data(handle));
    assert_int_equal(HG_Set_data(handle, &freed[0], count_free), HG_SUCCESS);
    assert_int_equal(HG_Set_data(handle, &freed[1], count_free), HG_SUCCESS);
    compat_forward(compat, handle);
    compat_wait(compat, &compat->forwarded, 1);
    assert_int_equal(HG_Reset(handle, compat->addr, RPC_ONEWAY), HG_SUCCESS);
    assert_ptr_equal(HG_Get_data(handle), &freed[1]);
    assert_int_equal(HG_Ref_incr(handle), HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(freed[1], 0);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(freed[0], 0);
    assert_int_equal(freed[1], 1);
}

static hg_return_t handler_set_data(struct compat *compat, hg_handle_t handle)
{
    assert_int_equal(HG_Set_data(handle, &freed[2], count_free), HG_SUCCESS);
    return compat_answer(compat, handle);
}

/* A target's handle is reused, so that its data are freed only with the context. */
static void data_of_a_targets_handle(void **state)
{
    struct compat *compat = *state;
    struct side side = compat->target;
    hg_addr_t addr;
    hg_handle_t handle;

    memset(freed, 0, sizeof(freed));
    side_open(&compat->target, compat, HG_TRUE);
    addr = compat->addr;
    compat->addr = side_lookup(&compat->origin, &compat->target);
    compat->handler = handler_set_data;
    handle = compat_call(compat, RPC_CALL);
    compat_wait(compat, &compat->responded, 1);
    compat_run(compat, 5);
    assert_int_equal(freed[2], 0);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(compat->origin.hg_class, compat->addr), HG_SUCCESS);
    side_close(&compat->target);
    assert_int_equal(freed[2], 1);
    compat->addr = addr;
    compat->target = side;
}

static hg_return_t handler_sizes(struct compat *compat, hg_handle_t handle)
{
    hg_size_t payload = HG_Get_input_payload_size(handle), size = 0;
    int32_t *number;
    void *buf;

    assert_true(payload > sizeof(int32_t) + sizeof("three"));
    assert_int_equal(HG_Get_output_payload_size(handle), 0);
    assert_int_equal(HG_Get_input_buf(handle, (void **) &number, &size), HG_SUCCESS);
    assert_true(size >= payload);
    assert_int_equal(*number, 3);
    assert_int_equal(HG_Get_input_buf(handle, (void **) &number, NULL), HG_SUCCESS);
    assert_int_equal(HG_Get_output_buf(handle, &buf, &size), HG_SUCCESS);
    assert_int_equal(size, HG_Class_get_output_eager_size(compat->target.hg_class));
    buf = &size;
    assert_int_equal(HG_Get_input_extra_buf(handle, &buf, &size), HG_SUCCESS);
    assert_null(buf);
    assert_int_equal(size, 0);
    assert_int_equal(HG_Ref_get(handle), 3);
    assert_int_equal(HG_Release_input_buf(handle), HG_SUCCESS);
    assert_int_equal(HG_Release_input_buf(handle), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 3);
    return compat_answer(compat, handle);
}

static void buffers_and_payload_sizes(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);
    hg_size_t size = 0;
    void *buf;

    assert_int_equal(HG_Get_input_payload_size(handle), 0);
    assert_int_equal(HG_Get_input_buf(handle, &buf, &size), HG_SUCCESS);
    assert_int_equal(size, HG_Class_get_input_eager_size(compat->origin.hg_class));
    assert_int_equal(HG_Get_output_payload_size(handle), 0);
    compat->handler = handler_sizes;
    compat_forward(compat, handle);
    compat_wait(compat, &compat->forwarded, 1);
    assert_int_equal(HG_Get_output_payload_size(handle), sizeof(int32_t));
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static void cancel_codes(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);

    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    compat->handler = compat_keep;
    compat_forward(compat, handle);
    compat_wait(compat, &compat->handled, 1);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    assert_int_equal(compat->forwarded, 0);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    compat_wait(compat, &compat->forwarded, 1);
    assert_int_equal(compat->ret, HG_CANCELED);
    assert_int_equal(HG_Ref_get(handle), 1);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    assert_int_equal(compat_respond(compat, compat->kept), HG_SUCCESS);
    compat_wait(compat, &compat->responded, 1);
    assert_int_equal(HG_Destroy(compat->kept), HG_SUCCESS);
    compat->handler = compat_answer;
    compat_forward(compat, handle);
    compat_wait(compat, &compat->forwarded, 2);
    assert_int_equal(compat->ret, HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static hg_return_t handler_respond_to_oneway(struct compat *compat, hg_handle_t handle)
{
    assert_int_equal(compat_respond(compat, handle), HG_OPNOTSUPPORTED);
    return HG_Destroy(handle);
}

static void no_response_to_oneway(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle;

    compat->handler = handler_respond_to_oneway;
    handle = compat_call(compat, RPC_ONEWAY);
    compat_wait(compat, &compat->handled, 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static void unknown_at_the_target(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_call(compat, RPC_UNKNOWN);

    assert_int_equal(compat->ret, HG_NOENTRY);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static hg_return_t proc_fail(hg_proc_t proc, void *data)
{
    (void) proc;
    (void) data;
    return HG_OTHER_ERROR;
}

static void failing_proc(void **state)
{
    struct compat *compat = *state;
    struct call_in in = {3, NULL};
    hg_handle_t handle;

    assert_int_equal(HG_Register(compat->origin.hg_class, 99, proc_fail, NULL, NULL), HG_SUCCESS);
    handle = compat_create(compat, 99);
    assert_int_equal(HG_Forward(handle, compat_forwarded, compat, &in), HG_OTHER_ERROR);
    assert_int_equal(HG_Ref_get(handle), 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static hg_return_t handler_answer_and_fail(struct compat *compat, hg_handle_t handle)
{
    (void) compat_answer(compat, handle);
    return HG_FAULT;
}

/* The result of a handler that has responded changes nothing. */
static void handler_that_answers_and_fails(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle;

    compat->handler = handler_answer_and_fail;
    handle = compat_call(compat, RPC_CALL);
    assert_int_equal(compat->ret, HG_SUCCESS);
    assert_int_equal(compat->number, 4);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static hg_return_t handler_null_output(struct compat *compat, hg_handle_t handle)
{
    assert_int_equal(HG_Respond(handle, compat_responded, compat, NULL), HG_SUCCESS);
    return HG_Destroy(handle);
}

static hg_return_t count_other(const struct hg_cb_info *info)
{
    struct compat *compat = info->arg;

    assert_int_equal(info->ret, HG_SUCCESS);
    compat->other++;
    return HG_SUCCESS;
}

static void null_input_and_output(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);

    compat->handler = handler_null_output;
    assert_int_equal(HG_Forward(handle, count_other, compat, NULL), HG_SUCCESS);
    compat_wait(compat, &compat->other, 1);
    assert_int_equal(HG_Get_input_payload_size(handle), 0);
    assert_int_equal(HG_Get_output_payload_size(handle), 0);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, compat_setup, compat_teardown)
        TEST(create_without_id),
        TEST(reset_to_no_id_and_no_address),
        TEST(create_without_address),
        TEST(unregistered_ids),
        TEST(reset_of_the_target_id),
        TEST(null_handles),
        TEST(busy_handle),
        TEST(forward_again_in_the_callback),
        TEST(reset_in_the_callback),
        TEST(address_freed_before_forward),
        TEST(duplicate_of_the_peers_address),
        TEST(data_of_an_origins_handle),
        TEST(data_of_a_targets_handle),
        TEST(buffers_and_payload_sizes),
        TEST(cancel_codes),
        TEST(no_response_to_oneway),
        TEST(unknown_at_the_target),
        TEST(failing_proc),
        TEST(handler_that_answers_and_fails),
        TEST(null_input_and_output),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
