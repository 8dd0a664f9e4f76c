/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration: ids of names, collisions, data, disabled responses, many ids, and readers beside a
 * writer.
 */
#include "hg_fixture.h"

#include "hg/class.h"

static int class_setup(void **state)
{
    *state = HG_Init(test_init_string(), HG_FALSE);
    return *state != NULL ? 0 : -1;
}

static int class_teardown(void **state)
{
    return HG_Finalize(*state) == HG_SUCCESS ? 0 : -1;
}

static hg_return_t never(hg_handle_t handle)
{
    (void) handle;
    return HG_SUCCESS;
}

static void name_has_the_documented_id(void **state)
{
    uint8_t flag;
    hg_id_t id = HG_Register_name(*state, "snapshot", NULL, NULL, never), found;

    /* XXH64 with seed 0, computed by another program: these ids must never change. */
    assert_int_equal(HG_Register_name(*state, "", NULL, NULL, never), 0xef46db3751d8e999u);
    assert_int_equal(HG_Register_name(*state, "abc", NULL, NULL, never), 0x44bc2cf5ad770999u);
    assert_int_not_equal(id, 0);
    assert_int_equal(HG_Registered_name(*state, "snapshot", &found, &flag), HG_SUCCESS);
    assert_int_equal(found, id);
    assert_int_equal(flag, HG_TRUE);
    assert_int_equal(HG_Registered_name(*state, "no such", &found, &flag), HG_SUCCESS);
    assert_int_not_equal(found, 0); /* the id that the name would get */
    assert_int_equal(flag, HG_FALSE);
}

static void two_names_with_one_id_collide(void **state)
{
    hg_class_t *hg_class = *state;

    assert_int_equal(
        hg_registry_add(&hg_rpc_class(hg_class)->registry, 77, "one", NULL, NULL, never),
        HG_SUCCESS);
    assert_int_equal(
        hg_registry_add(&hg_rpc_class(hg_class)->registry, 77, "two", NULL, NULL, never), HG_EXIST);
    assert_int_equal(
        hg_registry_add(&hg_rpc_class(hg_class)->registry, 77, "one", NULL, NULL, NULL),
        HG_SUCCESS);
    assert_int_equal(HG_Deregister(hg_class, 77), HG_SUCCESS);
    assert_int_equal(
        hg_registry_add(&hg_rpc_class(hg_class)->registry, 77, "two", NULL, NULL, never),
        HG_SUCCESS);
}

static void register_again_replaces_the_functions(void **state)
{
    hg_proc_cb_t in, out;
    uint8_t flag;

    assert_int_equal(HG_Register(*state, 5, proc_blob, NULL, never), HG_SUCCESS);
    assert_int_equal(HG_Registered_disable_response(*state, 5, HG_TRUE), HG_SUCCESS);
    assert_int_equal(HG_Register(*state, 5, NULL, proc_size, never), HG_SUCCESS);
    assert_int_equal(HG_Registered_proc_cb(*state, 5, &flag, &in, &out), HG_SUCCESS);
    assert_int_equal(flag, HG_TRUE);
    assert_null(in);
    assert_ptr_equal((void *) (uintptr_t) out, (void *) (uintptr_t) proc_size);
    assert_int_equal(HG_Registered_disabled_response(*state, 5, &flag), HG_SUCCESS);
    assert_int_equal(flag, HG_TRUE);
}

static void deregistered_id_is_unknown(void **state)
{
    uint8_t flag;

    assert_int_equal(HG_Register(*state, 6, NULL, NULL, never), HG_SUCCESS);
    assert_int_equal(HG_Registered_disable_response(*state, 6, HG_TRUE), HG_SUCCESS);
    assert_int_equal(HG_Registered(*state, 6, &flag), HG_SUCCESS);
    assert_int_equal(flag, HG_TRUE);
    assert_int_equal(HG_Deregister(*state, 6), HG_SUCCESS);
    assert_int_equal(HG_Registered(*state, 6, &flag), HG_SUCCESS);
    assert_int_equal(flag, HG_FALSE);
    assert_int_equal(HG_Deregister(*state, 6), HG_NOENTRY);
    assert_int_equal(HG_Registered_disabled_response(*state, 6, &flag), HG_NOENTRY);
    assert_int_equal(HG_Register_data(*state, 6, &flag, NULL), HG_NOENTRY);
    assert_int_equal(HG_Register(*state, 6, NULL, NULL, never), HG_SUCCESS);
    assert_int_equal(HG_Registered_disabled_response(*state, 6, &flag), HG_SUCCESS);
    assert_int_equal(flag, HG_FALSE);
}

static void count_frees(void *data)
{
    ++*(int *) data;
}

static void data_is_freed_once(void **state)
{
    int first = 0, second = 0, third = 0;
    hg_class_t *other = HG_Init(test_init_string(), HG_FALSE);

    assert_int_equal(HG_Register(*state, 7, NULL, NULL, never), HG_SUCCESS);
    assert_null(HG_Registered_data(*state, 7));
    assert_int_equal(HG_Register_data(*state, 7, &first, count_frees), HG_SUCCESS);
    assert_ptr_equal(HG_Registered_data(*state, 7), &first);
    assert_int_equal(HG_Register_data(*state, 7, &second, count_frees), HG_SUCCESS);
    assert_int_equal(first, 0); /* replaced data belong to the program again */
    assert_int_equal(HG_Deregister(*state, 7), HG_SUCCESS);
    assert_int_equal(first, 0);
    assert_int_equal(second, 1);
    assert_null(HG_Registered_data(*state, 7));

    assert_non_null(other);
    assert_int_equal(HG_Register(other, 7, NULL, NULL, never), HG_SUCCESS);
    assert_int_equal(HG_Register_data(other, 7, &third, count_frees), HG_SUCCESS);
    assert_int_equal(HG_Finalize(other), HG_SUCCESS);
    assert_int_equal(third, 1);
}

static void many_ids_are_found(void **state)
{
    hg_id_t id;
    uint8_t flag;

    for (id = 1u << 20; id < (1u << 20) + 5000u; id++)
        assert_int_equal(HG_Register(*state, id, NULL, NULL, never), HG_SUCCESS);
    for (id = 1u << 20; id < (1u << 20) + 5000u; id++) {
        assert_int_equal(HG_Registered(*state, id, &flag), HG_SUCCESS);
        assert_int_equal(flag, HG_TRUE);
    }
}

struct reader {
    hg_class_t *hg_class;
    atomic_bool stop;
    int missing;
};

static void *read_registry(void *arg)
{
    struct reader *reader = arg;

    while (!atomic_load(&reader->stop)) {
        uint8_t flag = HG_FALSE;

        (void) HG_Registered(reader->hg_class, 8, &flag);
        reader->missing += flag ? 0 : 1;
    }
    return NULL;
}

static void readers_find_an_id_while_others_are_added(void **state)
{
    struct reader reader = {.hg_class = *state};
    pthread_t thread;
    hg_id_t id;

    assert_int_equal(HG_Register(*state, 8, NULL, NULL, never), HG_SUCCESS);
    assert_int_equal(pthread_create(&thread, NULL, read_registry, &reader), 0);
    for (id = 1u << 24; id < (1u << 24) + 5000u; id++)
        assert_int_equal(HG_Register(*state, id, NULL, NULL, never), HG_SUCCESS);
    atomic_store(&reader.stop, true);
    (void) pthread_join(thread, NULL);
    assert_int_equal(reader.missing, 0);
}

static void bad_arguments_are_refused(void **state)
{
    uint8_t flag;

    assert_int_equal(HG_Register_name(NULL, "a", NULL, NULL, never), 0);
    assert_int_equal(HG_Register_name(*state, NULL, NULL, NULL, never), 0);
    assert_int_equal(HG_Register(NULL, 1, NULL, NULL, never), HG_INVALID_ARG);
    assert_int_equal(HG_Deregister(NULL, 1), HG_INVALID_ARG);
    assert_int_equal(HG_Registered(NULL, 1, &flag), HG_INVALID_ARG);
    assert_int_equal(HG_Registered(*state, 1, NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Registered_name(*state, NULL, NULL, &flag), HG_INVALID_ARG);
    assert_int_equal(HG_Registered_disable_response(NULL, 1, HG_TRUE), HG_INVALID_ARG);
    assert_int_equal(HG_Registered_disabled_response(*state, 1, NULL), HG_INVALID_ARG);
    assert_null(HG_Registered_data(NULL, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_has_the_documented_id),
        cmocka_unit_test(two_names_with_one_id_collide),
        cmocka_unit_test(register_again_replaces_the_functions),
        cmocka_unit_test(deregistered_id_is_unknown),
        cmocka_unit_test(data_is_freed_once),
        cmocka_unit_test(many_ids_are_found),
        cmocka_unit_test(readers_find_an_id_while_others_are_added),
        cmocka_unit_test(bad_arguments_are_refused),
    };

    return cmocka_run_group_tests(tests, class_setup, class_teardown);
}
