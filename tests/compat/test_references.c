/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * References of RPC handles: how many there are after each call, and in which order a program may
 * drop them. A handle in its handler has one reference of the program, one of the response (unless
 * the RPC is one-way) and one of the running handler.
 */
#include "compat/compat_fixture.h"

/* Each HG_Get_input() takes a reference, which HG_Free_input() drops. */
static hg_return_t handler_input(struct compat *compat, hg_handle_t handle)
{
    struct call_in first, second;

    assert_int_equal(HG_Ref_get(handle), 3);
    assert_int_equal(HG_Get_input(handle, &first), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 4);
    assert_int_equal(HG_Get_input(handle, &second), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 5);
    assert_string_equal(first.text, second.text);
    assert_int_equal(HG_Free_input(handle, &first), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 4);
    assert_int_equal(HG_Free_input(handle, &second), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 3);
    assert_int_equal(compat_respond(compat, handle), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 3);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 2);
    return HG_SUCCESS;
}

static void input_holds_references(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle;

    compat->handler = handler_input;
    handle = compat_call(compat, RPC_CALL);
    assert_int_equal(compat->number, 4);
    compat_wait(compat, &compat->responded, 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

/* The response keeps its reference while the respond callback runs. */
static void response_holds_a_reference(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_call(compat, RPC_CALL);

    compat_wait(compat, &compat->responded, 1);
    assert_int_equal(compat->sent_refs, 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static hg_return_t handler_oneway(struct compat *compat, hg_handle_t handle)
{
    struct call_in in;

    (void) compat;
    assert_int_equal(HG_Ref_get(handle), 2);
    assert_int_equal(HG_Get_input(handle, &in), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 3);
    assert_int_equal(HG_Free_input(handle, &in), HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 1);
    return HG_SUCCESS;
}

static void oneway_has_no_reference_of_a_response(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle;

    compat->handler = handler_oneway;
    handle = compat_call(compat, RPC_ONEWAY);
    assert_int_equal(compat->ret, HG_SUCCESS);
    compat_wait(compat, &compat->handled, 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static hg_return_t handler_destroy_in_between(struct compat *compat, hg_handle_t handle)
{
    struct call_in in;

    assert_int_equal(HG_Get_input(handle, &in), HG_SUCCESS);
    assert_int_equal(compat_respond(compat, handle), HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 3);
    assert_int_equal(in.number, 3);
    assert_string_equal(in.text, "three");
    assert_int_equal(HG_Free_input(handle, &in), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 2);
    return HG_SUCCESS;
}

static void destroy_between_get_and_free_of_input(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle;

    compat->handler = handler_destroy_in_between;
    handle = compat_call(compat, RPC_CALL);
    assert_int_equal(compat->number, 4);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

/* An input that is freed after the handler returned and the response was sent. */
static struct call_in kept_input;

static hg_return_t handler_keep_input(struct compat *compat, hg_handle_t handle)
{
    compat->kept = handle;
    assert_int_equal(HG_Get_input(handle, &kept_input), HG_SUCCESS);
    assert_int_equal(compat_respond(compat, handle), HG_SUCCESS);
    return HG_Destroy(handle);
}

static void input_outlives_handler_and_response(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle;

    compat->handler = handler_keep_input;
    handle = compat_call(compat, RPC_CALL);
    compat_wait(compat, &compat->responded, 1);
    compat_run(compat, 5);
    assert_int_equal(HG_Ref_get(compat->kept), 1);
    assert_string_equal(kept_input.text, "three");
    assert_int_equal(HG_Free_input(compat->kept, &kept_input), HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static hg_return_t handler_destroy_and_keep(struct compat *compat, hg_handle_t handle)
{
    compat->kept = handle;
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 2);
    return HG_SUCCESS;
}

static void respond_after_destroy(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);

    compat->handler = handler_destroy_and_keep;
    compat_forward(compat, handle);
    compat_wait(compat, &compat->handled, 1);
    compat_run(compat, 5);
    assert_int_equal(HG_Ref_get(compat->kept), 1);
    assert_int_equal(compat->forwarded, 0);
    assert_int_equal(compat_respond(compat, compat->kept), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(compat->kept), 1);
    compat_wait(compat, &compat->forwarded, 1);
    assert_int_equal(compat->number, 4);
    compat_wait(compat, &compat->responded, 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static hg_return_t handler_destroy_twice(struct compat *compat, hg_handle_t handle)
{
    (void) compat;
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 2);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 1);
    return HG_SUCCESS;
}

/* For a request without a response, a second HG_Destroy() drops the response's reference. */
static void second_destroy_of_an_unanswered_request(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);

    compat->handler = handler_destroy_twice;
    compat_forward(compat, handle);
    compat_wait(compat, &compat->handled, 1);
    compat_run(compat, 5);
    if (compat->forwarded == 0)
        assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    compat_wait(compat, &compat->forwarded, 1);
    assert_int_not_equal(compat->ret, HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static hg_return_t handler_free_without_get(struct compat *compat, hg_handle_t handle)
{
    struct call_in in = {0, NULL};

    assert_int_equal(HG_Free_input(handle, &in), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 2);
    assert_int_equal(compat_respond(compat, handle), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 2);
    return HG_SUCCESS;
}

/* Without HG_Get_input(), HG_Free_input() drops the program's reference, as HG_Destroy() does. */
static void free_input_without_get_input(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle;

    compat->handler = handler_free_without_get;
    handle = compat_call(compat, RPC_CALL);
    assert_int_equal(compat->number, 4);
    compat_wait(compat, &compat->responded, 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static void respond_after_the_handler_returned(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);

    compat->handler = compat_keep;
    compat_forward(compat, handle);
    compat_wait(compat, &compat->handled, 1);
    compat_run(compat, 5);
    assert_int_equal(HG_Ref_get(compat->kept), 2);
    assert_int_equal(HG_Ref_incr(compat->kept), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(compat->kept), 3);
    assert_int_equal(HG_Destroy(compat->kept), HG_SUCCESS);
    assert_int_equal(compat_respond(compat, compat->kept), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(compat->kept), 2);
    compat_wait(compat, &compat->responded, 1);
    assert_int_equal(compat->sent_refs, 2);
    compat_run(compat, 5);
    assert_int_equal(HG_Ref_get(compat->kept), 1);
    assert_int_equal(HG_Destroy(compat->kept), HG_SUCCESS);
    compat_wait(compat, &compat->forwarded, 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

/*
 * The origin's handle has the program's reference, and one of the RPC until the callback has run.
 */
static void origin_counts(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);

    assert_int_equal(HG_Ref_get(handle), 1);
    assert_int_equal(HG_Ref_incr(handle), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 2);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 1);
    compat_forward(compat, handle);
    assert_int_equal(HG_Ref_get(handle), 2);
    compat_wait(compat, &compat->forwarded, 1);
    assert_int_equal(compat->refs, 2);
    assert_int_equal(HG_Ref_get(handle), 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

static void output_holds_references(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_call(compat, RPC_CALL);
    struct call_out first, second;

    assert_int_equal(HG_Get_output(handle, &first), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 2);
    assert_int_equal(HG_Get_output(handle, &second), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 3);
    assert_int_equal(second.number, 4);
    assert_int_equal(HG_Free_output(handle, &first), HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 1);
    assert_int_equal(HG_Free_output(handle, &second), HG_SUCCESS);
}

/* The program may drop its reference right after HG_Forward(), or in the callback. */
static void destroy_while_forwarded(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);

    compat_forward(compat, handle);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Ref_get(handle), 1);
    compat_wait(compat, &compat->forwarded, 1);
    assert_int_equal(compat->refs, 1);
    assert_int_equal(compat->number, 4);
}

static void destroy_in_the_callback(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);

    compat->destroy_handle = true;
    compat_forward(compat, handle);
    compat_wait(compat, &compat->forwarded, 1);
    assert_int_equal(compat->number, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, compat_setup, compat_teardown)
        TEST(input_holds_references),
        TEST(response_holds_a_reference),
        TEST(oneway_has_no_reference_of_a_response),
        TEST(destroy_between_get_and_free_of_input),
        TEST(input_outlives_handler_and_response),
        TEST(respond_after_destroy),
        TEST(second_destroy_of_an_unanswered_request),
        TEST(free_input_without_get_input),
        TEST(respond_after_the_handler_returned),
        TEST(origin_counts),
        TEST(output_holds_references),
        TEST(destroy_while_forwarded),
        TEST(destroy_in_the_callback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
