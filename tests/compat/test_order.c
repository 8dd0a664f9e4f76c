/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order in which a program may destroy classes, contexts and the objects that belong to them,
 * and the calls that return HG_BUSY meanwhile.
 */
#include "compat/compat_fixture.h"

static void finalize_with_a_context(void **state)
{
    hg_class_t *c = test_class_open(HG_TRUE, NULL);
    hg_context_t *context;

    (void) state;
    assert_non_null(c);
    context = HG_Context_create(c);
    assert_non_null(context);
    assert_int_equal(HG_Context_get_id(context), 0);
    assert_ptr_equal(HG_Context_get_class(context), c);
    assert_int_equal(HG_Finalize(c), HG_BUSY);
    assert_int_equal(HG_Context_destroy(context), HG_SUCCESS);
    assert_int_equal(HG_Finalize(c), HG_SUCCESS);
}

static void finalize_with_an_address(void **state)
{
    hg_class_t *c = test_class_open(HG_TRUE, NULL);
    hg_addr_t self;

    (void) state;
    assert_non_null(c);
    assert_int_equal(HG_Addr_self(c, &self), HG_SUCCESS);
    assert_int_equal(HG_Finalize(c), HG_BUSY);
    assert_int_equal(HG_Addr_free(c, self), HG_SUCCESS);
    assert_int_equal(HG_Finalize(c), HG_SUCCESS);
}

static void finalize_with_a_bulk_descriptor(void **state)
{
    hg_class_t *c = test_class_open(HG_TRUE, NULL);
    static char memory[100];
    void *buf = memory;
    hg_size_t size = sizeof(memory);
    hg_bulk_t bulk;

    (void) state;
    assert_non_null(c);
    assert_int_equal(HG_Bulk_create(c, 1, &buf, &size, HG_BULK_READWRITE, &bulk), HG_SUCCESS);
    assert_int_equal(HG_Finalize(c), HG_BUSY);
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
    assert_int_equal(HG_Finalize(c), HG_SUCCESS);
}

static void context_with_an_origins_handle(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_CALL);

    assert_int_equal(HG_Context_destroy(compat->origin.context), HG_BUSY);
    assert_ptr_equal(HG_Get_info(handle)->context, compat->origin.context);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Context_destroy(compat->origin.context), HG_SUCCESS);
    compat->origin.context = NULL;
}

/* An unanswered request keeps the target's context. */
static void context_with_a_targets_handle(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_ONEWAY);

    compat->handler = compat_keep;
    compat_forward(compat, handle);
    compat_wait(compat, &compat->handled, 1);
    compat_wait(compat, &compat->forwarded, 1);
    compat_run(compat, 5);
    assert_int_equal(HG_Ref_get(compat->kept), 1);
    assert_int_equal(HG_Context_destroy(compat->target.context), HG_BUSY);
    assert_int_equal(HG_Destroy(compat->kept), HG_SUCCESS);
    assert_int_equal(HG_Context_destroy(compat->target.context), HG_SUCCESS);
    compat->target.context = NULL;
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

/* HG_Context_destroy() triggers the callbacks of completed operations. */
static void context_with_callbacks_to_trigger(void **state)
{
    struct compat *compat = *state;
    hg_handle_t handle = compat_create(compat, RPC_ONEWAY);
    int i;

    compat_forward(compat, handle);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    for (i = 0; i < 5000 && HG_Progress(compat->origin.context, 1) != HG_SUCCESS; i++)
        (void) HG_Progress(compat->target.context, 0);
    assert_int_equal(compat->forwarded, 0);
    assert_int_equal(HG_Context_destroy(compat->origin.context), HG_SUCCESS);
    assert_int_equal(compat->forwarded, 1);
    compat->origin.context = NULL;
}

static void unposted_context(void **state)
{
    struct compat *compat = *state;

    assert_int_equal(HG_Context_unpost(compat->origin.context), HG_SUCCESS);
    assert_int_equal(HG_Context_unpost(compat->origin.context), HG_SUCCESS);
    assert_int_equal(HG_Context_unpost(compat->target.context), HG_SUCCESS);
    assert_int_equal(HG_Context_unpost(compat->target.context), HG_SUCCESS);
    assert_int_equal(HG_Context_unpost(NULL), HG_INVALID_ARG);
}

/* Handles and addresses of a closed peer are freed like any other. */
static void target_closed_first(void **state)
{
    struct compat compat = {0};
    hg_handle_t handle;

    (void) state;
    side_open(&compat.origin, &compat, HG_FALSE);
    side_open(&compat.target, &compat, HG_TRUE);
    compat.addr = side_lookup(&compat.origin, &compat.target);
    compat.handler = compat_answer;
    handle = compat_call(&compat, RPC_CALL);
    compat_wait(&compat, &compat.responded, 1);
    compat_run(&compat, 20);
    side_close(&compat.target);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Context_destroy(compat.origin.context), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(compat.origin.hg_class, compat.addr), HG_SUCCESS);
    assert_int_equal(HG_Finalize(compat.origin.hg_class), HG_SUCCESS);
}

/*
 * With the default increment the target posts more receives as needed, however few it posts first.
 */
static void few_receives_first(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct compat compat = {0};
    hg_handle_t handles[6], kept[6];
    int i;

    (void) state;
    info.request_post_init = 2;
    info.no_multi_recv = true;
    side_open(&compat.origin, &compat, HG_FALSE);
    compat.target.hg_class = test_class_open(HG_TRUE, &info);
    assert_non_null(compat.target.hg_class);
    side_register(&compat.target, &compat);
    compat.target.context = HG_Context_create(compat.target.hg_class);
    assert_non_null(compat.target.context);
    compat.addr = side_lookup(&compat.origin, &compat.target);
    compat.handler = compat_keep;
    for (i = 0; i < 6; i++) {
        handles[i] = compat_create(&compat, RPC_CALL);
        compat_forward(&compat, handles[i]);
        compat_wait(&compat, &compat.handled, i + 1);
        kept[i] = compat.kept;
    }
    for (i = 0; i < 6; i++)
        assert_int_equal(compat_answer(&compat, kept[i]), HG_SUCCESS);
    compat_wait(&compat, &compat.forwarded, 6);
    compat_wait(&compat, &compat.responded, 6);
    for (i = 0; i < 6; i++)
        assert_int_equal(HG_Destroy(handles[i]), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(compat.origin.hg_class, compat.addr), HG_SUCCESS);
    side_close(&compat.origin);
    side_close(&compat.target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, compat_setup, compat_teardown)
        cmocka_unit_test(finalize_with_a_context),
        cmocka_unit_test(finalize_with_an_address),
        cmocka_unit_test(finalize_with_a_bulk_descriptor),
        TEST(context_with_an_origins_handle),
        TEST(context_with_a_targets_handle),
        TEST(context_with_callbacks_to_trigger),
        cmocka_unit_test(target_closed_first),
        cmocka_unit_test(few_receives_first),
        TEST(unposted_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
