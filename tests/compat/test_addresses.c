/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses: their references, their strings and sizes, comparison, and lookup with a callback.
 */
#include "compat/compat_fixture.h"

static void sizes_of_strings(void **state)
{
    struct compat *compat = *state;
    hg_class_t *c = compat->target.hg_class;
    char name[512];
    hg_size_t need = 0, size = sizeof(name);
    hg_addr_t self;

    assert_int_equal(HG_Addr_self(c, &self), HG_SUCCESS);
    assert_int_equal(HG_Addr_to_string(c, NULL, &need, self), HG_SUCCESS);
    assert_int_equal(HG_Addr_to_string(c, name, &size, self), HG_SUCCESS);
    assert_int_equal(size, need);
    assert_int_equal(size, strlen(name) + 1);
    assert_int_equal(HG_Addr_to_string(c, name, &size, self), HG_SUCCESS);
    size--;
    assert_int_equal(HG_Addr_to_string(c, name, &size, self), HG_OVERFLOW);
    size = 0;
    assert_int_equal(HG_Addr_to_string(c, name, &size, self), HG_OVERFLOW);
    assert_int_equal(HG_Addr_free(c, self), HG_SUCCESS);
}

static void duplicates_are_freed_one_by_one(void **state)
{
    struct compat *compat = *state;
    hg_class_t *c = compat->origin.hg_class;
    char name[512], again[512];
    hg_size_t size = sizeof(name);
    hg_addr_t addr;

    assert_int_equal(HG_Addr_to_string(c, name, &size, compat->addr), HG_SUCCESS);
    assert_int_equal(HG_Addr_dup(c, compat->addr, &addr), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(c, compat->addr), HG_SUCCESS);
    compat->addr = addr;
    size = sizeof(again);
    assert_int_equal(HG_Addr_to_string(c, again, &size, addr), HG_SUCCESS);
    assert_string_equal(name, again);
    assert_int_equal(HG_Addr_lookup2(c, name, &addr), HG_SUCCESS);
    assert_true(HG_Addr_cmp(c, addr, compat->addr));
    assert_int_equal(HG_Addr_free(c, addr), HG_SUCCESS);
    assert_int_equal(HG_Destroy(compat_call(compat, RPC_CALL)), HG_SUCCESS);
    assert_int_equal(compat->number, 4);
}

static void comparison(void **state)
{
    struct compat *compat = *state;
    hg_class_t *c = compat->target.hg_class;
    hg_addr_t self, again;

    assert_int_equal(HG_Addr_self(c, &self), HG_SUCCESS);
    assert_int_equal(HG_Addr_self(c, &again), HG_SUCCESS);
    assert_true(HG_Addr_cmp(c, self, again));
    assert_true(HG_Addr_cmp(c, HG_ADDR_NULL, HG_ADDR_NULL));
    assert_false(HG_Addr_cmp(c, self, HG_ADDR_NULL));
    assert_false(HG_Addr_cmp(c, HG_ADDR_NULL, self));
    assert_int_equal(HG_Addr_free(c, again), HG_SUCCESS);
    again = side_lookup(&compat->target, &compat->target);
    assert_true(HG_Addr_cmp(c, self, again));
    assert_int_equal(HG_Addr_free(c, again), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(c, self), HG_SUCCESS);
    assert_int_equal(HG_Addr_self(compat->origin.hg_class, &self), HG_SUCCESS);
    assert_false(HG_Addr_cmp(compat->origin.hg_class, self, compat->addr));
    assert_int_equal(HG_Addr_free(compat->origin.hg_class, self), HG_SUCCESS);
}

static void null_arguments(void **state)
{
    struct compat *compat = *state;
    hg_class_t *c = compat->origin.hg_class;
    hg_size_t size = 0;
    hg_addr_t addr;

    assert_int_equal(HG_Addr_free(c, HG_ADDR_NULL), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(NULL, HG_ADDR_NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Addr_dup(c, HG_ADDR_NULL, &addr), HG_INVALID_ARG);
    assert_int_equal(HG_Addr_self(NULL, &addr), HG_INVALID_ARG);
    assert_int_equal(HG_Addr_lookup2(c, NULL, &addr), HG_INVALID_ARG);
    assert_int_equal(HG_Addr_set_remove(c, HG_ADDR_NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Addr_to_string(c, NULL, &size, HG_ADDR_NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Addr_to_string(c, NULL, NULL, compat->addr), HG_INVALID_ARG);
}

/* The address can still be used after the hint. */
static void set_remove_is_a_hint(void **state)
{
    struct compat *compat = *state;

    if (strncmp(test_init_string(), "na+sm", 5) != 0)
        test_skip("what happens after the hint is the transport's choice");
    assert_int_equal(HG_Addr_set_remove(compat->origin.hg_class, compat->addr), HG_SUCCESS);
    assert_int_equal(HG_Destroy(compat_call(compat, RPC_CALL)), HG_SUCCESS);
    assert_int_equal(compat->number, 4);
}

static hg_addr_t found;

static hg_return_t looked_up(const struct hg_cb_info *info)
{
    struct compat *compat = info->arg;

    assert_int_equal(info->type, HG_CB_LOOKUP);
    assert_int_equal(info->ret, HG_SUCCESS);
    found = info->info.lookup.addr;
    compat->other++;
    return HG_SUCCESS;
}

/*
 * The callback runs in HG_Trigger(), never inside the lookup call; the program frees the address.
 */
static void lookup_with_a_callback(void **state)
{
    struct compat *compat = *state;
    hg_class_t *c = compat->origin.hg_class;
    hg_op_id_t op_id = HG_OP_ID_NULL;
    char name[512];
    hg_size_t size = sizeof(name);

    assert_int_equal(HG_Addr_to_string(c, name, &size, compat->addr), HG_SUCCESS);
    assert_int_equal(HG_Addr_lookup1(compat->origin.context, looked_up, compat, name, &op_id),
                     HG_SUCCESS);
    assert_int_equal(compat->other, 0);
    memset(name + strlen(name) / 2, '#', 1);
    compat_wait(compat, &compat->other, 1);
    assert_true(HG_Addr_cmp(c, found, compat->addr));
    assert_int_equal(HG_Addr_free(c, found), HG_SUCCESS);
    size = sizeof(name);
    assert_int_equal(HG_Addr_to_string(c, name, &size, compat->addr), HG_SUCCESS);
    assert_int_equal(
        HG_Addr_lookup(compat->origin.context, looked_up, compat, name, HG_OP_ID_IGNORE),
        HG_SUCCESS);
    assert_int_equal(HG_Addr_lookup(compat->origin.context, looked_up, compat, NULL, NULL),
                     HG_INVALID_ARG);
    compat_wait(compat, &compat->other, 2);
    assert_int_equal(HG_Addr_free(c, found), HG_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, compat_setup, compat_teardown)
        TEST(sizes_of_strings),     TEST(duplicates_are_freed_one_by_one),
        TEST(comparison),           TEST(null_arguments),
        TEST(set_remove_is_a_hint), TEST(lookup_with_a_callback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
