/* SPDX-License-Identifier: BSD-3-Clause */
/* Classes and contexts: init infos of all versions, repeated opening and closing, and counters. */

#include "na/class.h"
#include "na_test.h"

/*
 * The members added after version 4.0 lie outside the allocated struct, so that AddressSanitizer
 * would report a read of them.
 */
static void the_old_entry_point_reads_no_more_than_the_old_struct(void **state)
{
    struct na_init_info_4_0 *info = malloc(sizeof(*info)); /* AddressSanitizer watches its end */
    na_class_t *na_class;

    (void) state;
    assert_non_null(info);
    *info = NA_INIT_INFO_INITIALIZER_4_0;
    info->max_contexts = 3;
    na_class = NA_Initialize_opt("loop+self", false, (const struct na_init_info *) (void *) info);
    assert_non_null(na_class);
    assert_int_equal(na_class->max_contexts, 3);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    na_class = NA_Initialize_opt2("loop+self", false, NA_VERSION(4, 99),
                                  (const struct na_init_info *) (void *) info);
    assert_non_null(na_class);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    free(info);
}

static void the_old_entry_point_ignores_newer_fields(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;

    (void) state;
    info.traffic_class = (enum na_traffic_class) 1000;
    na_class = NA_Initialize_opt("loop+self", false, &info);
    assert_non_null(na_class);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    assert_null(NA_Initialize_opt2("loop+self", false, NA_VERSION(5, 0), &info));
    assert_null(NA_Initialize_opt2("loop+self", false, NA_VERSION(6, 0), &info));
}

static void init_info_that_makes_no_sense_is_refused_by_name(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    char reason[256];
    na_class_t *na_class;

    (void) state;
    info.addr_format = (enum na_addr_format) 9;
    assert_int_equal(NA_Initialize_reason("loop+self", false, NA_VERSION(6, 0), &info, &na_class,
                                          reason, sizeof(reason)),
                     NA_INVALID_ARG);
    assert_non_null(strstr(reason, "addr_format"));
    assert_int_equal(
        NA_Initialize_reason("loop+self", false, NA_VERSION(6, 0), NULL, NULL, NULL, 0),
        NA_INVALID_ARG);
}

/* Open loop with the init info and with the capabilities `can`; returns the result. */
static na_return_t open_loop(unsigned int version, const struct na_init_info *info, uint64_t can,
                             char *reason, size_t reason_size)
{
    na_class_t *na_class = NA_Initialize("loop+self", false);
    struct loop_control *control;
    na_return_t ret;

    assert_non_null(na_class);
    control = (struct loop_control *) (uintptr_t) na_class->table.get_extension(LOOP_CONTROL_ID);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    control->more_capabilities = can;
    ret = NA_Initialize_reason("loop+self", false, version, info, &na_class, reason, reason_size);
    control->more_capabilities = 0;
    if (ret == NA_SUCCESS)
        assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    return ret;
}

static void check_open(const struct na_init_info *info, uint64_t capabilities, na_return_t expected,
                       const char *reason)
{
    char said[512];

    assert_int_equal(open_loop(NA_VERSION(6, 0), info, capabilities, said, sizeof(said)), expected);
    if (reason != NULL)
        assert_non_null(strstr(said, reason));
}

static void what_a_transport_cannot_do_with_keys_is_refused_with_a_reason(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    (void) state;
    info.encrypt = true;
    check_open(&info, 0, NA_INVALID_ARG, "encrypt of the init info needs auth_key");
    info.auth_key = "a";
    check_open(&info, NA_PLUGIN_CAP_AUTHENTICATED, NA_OPNOTSUPPORTED, "does not encrypt");
    check_open(&info, NA_PLUGIN_CAP_AUTHENTICATED | NA_PLUGIN_CAP_ENCRYPTED, NA_SUCCESS, NULL);

    info.encrypt = false;
    info.auth_key_also = "b";
    check_open(&info, NA_PLUGIN_CAP_AUTHENTICATED, NA_OPNOTSUPPORTED, "proves one key alone");
    check_open(&info, NA_PLUGIN_CAP_AUTHENTICATED | NA_PLUGIN_CAP_SECOND_KEY, NA_SUCCESS, NULL);
    info.auth_key = "";
    check_open(&info, 0, NA_INVALID_ARG, "auth_key_also of the init info needs auth_key");
}

static void memory_is_kept_to_sessions_or_the_class_refused(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    (void) state;
    info.mem_per_session = true;
    check_open(&info, 0, NA_INVALID_ARG, "mem_per_session of the init info needs auth_key");
    info.auth_key = "a";
    check_open(&info, NA_PLUGIN_CAP_AUTHENTICATED, NA_OPNOTSUPPORTED,
               "does not keep memory to the session");
    /* The plugin declares the capability but has no function to grant memory. */
    check_open(&info, NA_PLUGIN_CAP_AUTHENTICATED | NA_PLUGIN_CAP_MEM_PER_SESSION,
               NA_OPNOTSUPPORTED, "does not keep memory to the session");
}

/*
 * For a plugin whose memory is open to all peers, a grant has no effect. Objects that are no memory
 * of this class are refused.
 */
static void grants_mean_nothing_where_memory_is_open_to_all(void **state)
{
    na_class_t *na_class = NA_Initialize("loop+self", false);
    na_mem_handle_t *mem, *remote;
    uint8_t memory[16], packed[256];
    na_addr_t *self;

    (void) state;
    assert_non_null(na_class);
    assert_int_equal(NA_Addr_self(na_class, &self), NA_SUCCESS);
    assert_int_equal(NA_Mem_handle_create(na_class, memory, sizeof(memory), NA_MEM_READ_ONLY, &mem),
                     NA_SUCCESS);
    assert_int_equal(NA_Mem_register(na_class, mem, NA_MEM_TYPE_HOST, 0), NA_SUCCESS);
    assert_int_equal(NA_Mem_handle_serialize(na_class, packed, sizeof(packed), mem), NA_SUCCESS);
    assert_int_equal(NA_Mem_handle_deserialize(na_class, &remote, packed, sizeof(packed)),
                     NA_SUCCESS);
    assert_int_equal(NA_Mem_handle_grant(na_class, mem, self), NA_SUCCESS);
    assert_int_equal(NA_Mem_handle_grant(na_class, remote, self), NA_INVALID_ARG);
    assert_int_equal(NA_Mem_handle_grant(na_class, NULL, self), NA_INVALID_ARG);
    assert_int_equal(NA_Mem_handle_grant(na_class, mem, NULL), NA_INVALID_ARG);
    assert_int_equal(NA_Mem_handle_grant(NULL, mem, self), NA_INVALID_ARG);
    NA_Mem_handle_free(na_class, remote);
    NA_Mem_handle_free(na_class, mem);
    NA_Addr_free(na_class, self);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

/* A version without the additional members is passed, so that these members must not be read. */
static void programs_of_older_headers_have_no_further_members(void **state)
{
    const unsigned int version = NA_VERSION(6, 0) & NA_VERSION_MASK;
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    char reason[512];

    (void) state;
    info.encrypt = true;
    info.mem_per_session = true;
    info.auth_key_also = (const char *) (uintptr_t) 16;
    assert_int_equal(open_loop(version, &info, 0, reason, sizeof(reason)), NA_SUCCESS);
    assert_int_equal(NA_MAJOR(NA_VERSION(6, 1)), 6);
    assert_int_equal(NA_MINOR(NA_VERSION(6, 1)), 1);
    assert_true(NA_VERSION_GE(version, NA_VERSION(6, 0)));
    assert_true(NA_VERSION_LT(NA_VERSION(5, 9), version));
}

static void zero_contexts_mean_one_and_ids_are_checked(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;
    na_context_t *contexts[2];

    (void) state;
    info.max_contexts = 0;
    na_class = NA_Initialize_opt2("loop+self", false, NA_VERSION(6, 0), &info);
    contexts[0] = NA_Context_create(na_class);
    assert_non_null(contexts[0]);
    assert_null(NA_Context_create(na_class));
    assert_null(NA_Context_create_id(na_class, 1));
    assert_int_equal(NA_Context_destroy(na_class, contexts[0]), NA_SUCCESS);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);

    info.max_contexts = 2;
    na_class = NA_Initialize_opt2("loop+self", false, NA_VERSION(6, 0), &info);
    contexts[1] = NA_Context_create_id(na_class, 1);
    contexts[0] = NA_Context_create_id(na_class, 0);
    assert_non_null(contexts[0]);
    assert_non_null(contexts[1]);
    assert_null(NA_Context_create_id(na_class, 2));
    assert_int_equal(NA_Finalize(na_class), NA_BUSY);
    assert_int_equal(NA_Context_destroy(na_class, contexts[0]), NA_SUCCESS);
    assert_int_equal(NA_Context_destroy(NULL, contexts[1]), NA_INVALID_ARG);
    assert_int_equal(NA_Context_destroy(na_class, contexts[1]), NA_SUCCESS);
    contexts[0] = NA_Context_create_id(na_class, 0); /* the id is free again */
    assert_non_null(contexts[0]);
    assert_int_equal(NA_Context_destroy(na_class, contexts[0]), NA_SUCCESS);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

static void a_class_is_opened_and_closed_again_and_again(void **state)
{
    struct loop loops[4];

    (void) state;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 4; i++)
            loop_open(&loops[i], "loop+self");
        for (int i = 0; i < 4; i++)
            loop_close(&loops[(i + round) % 4]);
    }
}

static void null_is_freed_without_effect_and_asked_without_harm(void **state)
{
    (void) state;
    assert_int_equal(NA_Finalize(NULL), NA_SUCCESS);
    assert_int_equal(NA_Context_destroy(NULL, NULL), NA_SUCCESS);
    NA_Op_destroy(NULL, NULL);
    NA_Addr_free(NULL, NULL);
    NA_Msg_buf_free(NULL, NULL, NULL);
    NA_Mem_handle_free(NULL, NULL);
    assert_null(NA_Get_class_name(NULL));
    assert_null(NA_Get_class_protocol(NULL));
    assert_false(NA_Is_listening(NULL));
    assert_false(NA_Has_opt_feature(NULL, 0));
    assert_int_equal(NA_Msg_get_max_unexpected_size(NULL), 0);
    assert_int_equal(NA_Msg_get_max_tag(NULL), 0);
    assert_int_equal(NA_Mem_handle_get_max_segments(NULL), 1);
    assert_int_equal(NA_Context_get_completion_count(NULL), 0);
    assert_int_equal(NA_Poll_get_fd(NULL, NULL), -1);
    assert_false(NA_Poll_try_wait(NULL, NULL));
    assert_int_equal(NA_Class_get_max_rma_size(NULL), 0);
    assert_false(NA_Class_has_capability(NULL, "rma"));
    assert_null(NA_Context_create(NULL));
}

static void limits_come_from_the_plugin(void **state)
{
    struct loop loop;

    (void) state;
    loop_open(&loop, "loop+self");
    assert_int_equal(NA_Msg_get_max_unexpected_size(loop.na_class), 4096);
    assert_int_equal(NA_Msg_get_max_expected_size(loop.na_class), 2048);
    assert_int_equal(NA_Msg_get_unexpected_header_size(loop.na_class), 4);
    assert_int_equal(NA_Msg_get_expected_header_size(loop.na_class), 0);
    assert_int_equal(NA_Msg_get_max_tag(loop.na_class), 65535);
    assert_int_equal(NA_Class_get_max_rma_size(loop.na_class), 1 << 20);
    assert_int_equal(NA_Mem_handle_get_max_segments(loop.na_class), 4);
    loop_close(&loop);
}

/* The classes are of two variants of the plugin. */
static void capabilities_are_those_of_the_class(void **state)
{
    struct loop loop;

    (void) state;
    loop_open(&loop, "loop+self");
    assert_true(NA_Class_has_capability(loop.na_class, "rma"));
    assert_true(NA_Class_has_capability(loop.na_class, "poll_wait"));
    assert_true(NA_Class_has_capability(loop.na_class, "multi_recv"));
    assert_false(NA_Class_has_capability(loop.na_class, "device_memory"));
    assert_false(NA_Class_has_capability(loop.na_class, "telepathy"));
    assert_false(NA_Class_has_capability(loop.na_class, NULL));
    assert_false(NA_Addr_has_capability(loop.na_class, loop.self, "rma"));
    assert_false(NA_Addr_has_capability(loop.na_class, loop.self, "device_memory"));
    assert_true(NA_Addr_has_capability(loop.na_class, loop.self, "multi_recv"));
    assert_false(NA_Addr_has_capability(loop.na_class, NULL, "multi_recv"));
    assert_false(NA_Addr_has_capability(loop.na_class, loop.self, NULL));
    assert_false(NA_Addr_has_capability(NULL, loop.self, "multi_recv"));
    loop_close(&loop);
    loop_open(&loop, "loopbare+self");
    assert_true(NA_Class_has_capability(loop.na_class, "rma"));
    assert_true(NA_Addr_has_capability(loop.na_class, loop.self, "rma")); /* as the class */
    assert_false(NA_Class_has_capability(loop.na_class, "poll_wait"));
    assert_false(NA_Class_has_capability(loop.na_class, "multi_recv"));
    loop_close(&loop);
}

static void counters_are_listed_and_dumped(void **state)
{
    struct na_counter counters[2];
    struct loop loop;
    size_t count = 0;

    (void) state;
    loop_open(&loop, "loop+self");
    assert_int_equal(NA_Class_get_counters(loop.na_class, NULL, &count), NA_SUCCESS);
    assert_true(count > 2);
    count = 2;
    assert_int_equal(NA_Class_get_counters(loop.na_class, counters, &count), NA_OVERFLOW);
    assert_true(count > 2);
    assert_string_equal(counters[0].name, "na_completed");
    assert_int_equal(NA_Class_get_counters(NULL, counters, &count), NA_INVALID_ARG);
    NA_Set_log_func(log_keep);
    NA_Diag_dump_counters();
    NA_Set_log_func(NULL);
    assert_non_null(strstr(log_last, "na_completed=0"));
    loop_close(&loop);
}

static void versions_and_codes_have_names(void **state)
{
    unsigned int major, minor, patch;

    (void) state;
    NA_Version_get(&major, &minor, &patch);
    assert_int_equal(major, 6);
    assert_int_equal(minor, 0);
    assert_int_equal(patch, 0);
    NA_Version_get(NULL, NULL, NULL);
    assert_string_equal(NA_Error_to_string(NA_SUCCESS), "NA_SUCCESS");
    assert_string_equal(NA_Error_to_string(NA_HOSTFIREWALL), "NA_HOSTFIREWALL");
    assert_int_equal(NA_CANCELED, 21);
    assert_non_null(NA_Error_to_string((na_return_t) -1));
    assert_non_null(NA_Error_to_string(NA_RETURN_MAX));
}

static void cleaning_up_needs_no_class(void **state)
{
    (void) state;
    NA_Cleanup();
    NA_Cleanup();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_old_entry_point_reads_no_more_than_the_old_struct),
        cmocka_unit_test(the_old_entry_point_ignores_newer_fields),
        cmocka_unit_test(init_info_that_makes_no_sense_is_refused_by_name),
        cmocka_unit_test(what_a_transport_cannot_do_with_keys_is_refused_with_a_reason),
        cmocka_unit_test(memory_is_kept_to_sessions_or_the_class_refused),
        cmocka_unit_test(grants_mean_nothing_where_memory_is_open_to_all),
        cmocka_unit_test(programs_of_older_headers_have_no_further_members),
        cmocka_unit_test(zero_contexts_mean_one_and_ids_are_checked),
        cmocka_unit_test(a_class_is_opened_and_closed_again_and_again),
        cmocka_unit_test(null_is_freed_without_effect_and_asked_without_harm),
        cmocka_unit_test(limits_come_from_the_plugin),
        cmocka_unit_test(capabilities_are_those_of_the_class),
        cmocka_unit_test(counters_are_listed_and_dumped),
        cmocka_unit_test(versions_and_codes_have_names),
        cmocka_unit_test(cleaning_up_needs_no_class),
    };

    NA_Set_log_level("none");
    use_plugins("loop");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
