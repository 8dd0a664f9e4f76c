/* SPDX-License-Identifier: BSD-3-Clause */
/* Selection: named plugins, aliases, protocols alone, preference lists, auto; and the report of
 * it. */

#include "na_test.h"

static na_class_t *open_reason(const char *init, na_return_t expected, char *reason, size_t size)
{
    na_class_t *na_class;

    assert_int_equal(
        NA_Initialize_reason(init, true, NA_VERSION(6, 0), NULL, &na_class, reason, size),
        expected);
    return na_class;
}

static void use_loop_and_wires(void)
{
    char path[8300];

    (void) snprintf(path, sizeof(path), "%s/loop:%s/wires", TEST_PLUGIN_DIR, TEST_PLUGIN_DIR);
    assert_int_equal(setenv("NA_PLUGIN_PATH", path, 1), 0);
}

static const struct na_selection_candidate *candidate(const struct na_selection *selection,
                                                      const char *class_name, const char *protocol)
{
    for (size_t i = 0; i < selection->candidate_count; i++)
        if (strcmp(selection->candidates[i].class_name, class_name) == 0 &&
            strcmp(selection->candidates[i].protocol_name, protocol) == 0)
            return &selection->candidates[i];
    return NULL;
}

static void a_plugin_is_found_by_name_alias_and_protocol(void **state)
{
    static const char *const inits[] = {"loop+self", "loop-alias+self", "loop+self://x"};
    char reason[4096];
    na_class_t *na_class;

    (void) state;
    use_plugins("loop");
    for (size_t i = 0; i < sizeof(inits) / sizeof(inits[0]); i++) {
        na_class = open_reason(inits[i], NA_SUCCESS, reason, sizeof(reason));
        assert_string_equal(reason, "");
        assert_string_equal(NA_Get_class_name(na_class), "loop-alias");
        assert_string_equal(NA_Get_class_protocol(na_class), "self");
        assert_true(NA_Is_listening(na_class));
        assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    }
    na_class = open_reason("self", NA_SUCCESS, reason, sizeof(reason));
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    assert_null(open_reason("no-alias+self", NA_NOENTRY, reason, sizeof(reason)));
    assert_non_null(strstr(reason, "class name \"no-alias\""));
}

static void an_unknown_protocol_is_refused_with_what_there_is(void **state)
{
    char reason[4096];

    (void) state;
    use_plugins("loop");
    assert_null(open_reason("loop+tcp", NA_PROTONOSUPPORT, reason, sizeof(reason)));
    assert_non_null(strstr(reason, "self"));
    assert_null(open_reason("tcp", NA_PROTONOSUPPORT, reason, sizeof(reason)));
    assert_non_null(strstr(reason, "plugins offers tcp"));
}

static void a_protocol_that_is_not_usable_is_refused_with_the_plugins_reason(void **state)
{
    char reason[4096];

    (void) state;
    use_plugins("loop");
    assert_null(open_reason("loop+absent", NA_NODEV, reason, sizeof(reason)));
    assert_non_null(strstr(reason, "there is no such device"));
}

static void a_failed_opening_says_the_plugins_code(void **state)
{
    char reason[4096];

    (void) state;
    use_plugins("loop");
    assert_null(open_reason("loop+self://bad", NA_INVALID_ARG, reason, sizeof(reason)));
    assert_non_null(strstr(reason, "NA_INVALID_ARG"));
}

static void auto_takes_the_highest_usable_priority_that_opens(void **state)
{
    const struct na_selection *selection;
    char reason[4096];
    na_class_t *na_class;

    (void) state;
    use_loop_and_wires();
    na_class = open_reason("auto", NA_SUCCESS, reason, sizeof(reason));
    selection = NA_Class_get_selection(na_class);
    assert_string_equal(selection->info_string, "auto");
    assert_string_equal(selection->protocol_name, "self"); /* priority 10 */
    assert_non_null(strstr(selection->plugin_path, "na_loop"));
    /* 50, but opening it fails; 2, too low; 99 and 90, not usable. */
    assert_non_null(strstr(candidate(selection, "high", "wire")->reason, "NA_ADDRNOTAVAIL"));
    assert_non_null(strstr(candidate(selection, "low", "wire")->reason, "priority 2"));
    assert_non_null(strstr(candidate(selection, "unplugged", "wire")->reason, "not usable"));
    assert_false(candidate(selection, "unplugged", "wire")->picked);
    assert_true(candidate(selection, selection->class_name, "self")->picked);
    assert_null(NA_Class_get_selection(NULL));
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

static void a_protocol_alone_asks_every_plugin_in_order_of_priority(void **state)
{
    char reason[4096];

    (void) state;
    use_loop_and_wires();
    assert_null(open_reason("wire", NA_ADDRNOTAVAIL, reason, sizeof(reason)));
    assert_non_null(strstr(reason, "high+wire"));
    assert_non_null(strstr(reason, "low+wire"));
    assert_true(strstr(reason, "high+wire") < strstr(reason, "low+wire"));
    assert_non_null(strstr(reason, "unplugged+wire: not usable here: nothing is plugged in"));
}

static void a_preference_list_is_tried_in_order(void **state)
{
    const struct na_selection *selection;
    char reason[4096];
    na_class_t *na_class;

    (void) state;
    use_loop_and_wires();
    na_class =
        open_reason("nosuch+tcp,high+wire,loop+self,low+wire", NA_SUCCESS, reason, sizeof(reason));
    selection = NA_Class_get_selection(na_class);
    assert_int_equal(selection->candidate_count, 4);
    assert_string_equal(selection->candidates[0].class_name, "nosuch");
    assert_false(selection->candidates[0].picked);
    assert_true(selection->candidates[2].picked);
    assert_non_null(strstr(selection->candidates[3].reason, "earlier choice"));
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);

    assert_null(open_reason("nosuch+tcp,high+wire", NA_ADDRNOTAVAIL, reason, sizeof(reason)));
    assert_non_null(strstr(reason, "nosuch+tcp"));
    assert_non_null(strstr(reason, "high+wire"));
}

static void protocols_are_listed_by_plugin_by_protocol_and_all(void **state)
{
    struct na_protocol_info *list;
    unsigned int count = 0;

    (void) state;
    use_loop_and_wires();
    assert_int_equal(NA_Get_protocol_info("loop+self", &list), NA_SUCCESS);
    assert_string_equal(list->class_name, "loop-alias");
    assert_string_equal(list->protocol_name, "self");
    assert_string_equal(list->device_name, "loop0");
    assert_string_equal(list->next->device_name, "loop1");
    assert_null(list->next->next);
    NA_Free_protocol_info(list);

    assert_int_equal(NA_Get_protocol_info(NULL, &list), NA_SUCCESS);
    for (struct na_protocol_info *info = list; info != NULL; info = info->next) {
        assert_string_not_equal(info->protocol_name, "absent");
        count++;
    }
    assert_true(count >= 6);
    NA_Free_protocol_info(list);

    assert_int_equal(NA_Get_protocol_info("loop", &list), NA_SUCCESS); /* a plugin's name */
    NA_Free_protocol_info(list);
    assert_int_equal(NA_Get_protocol_info("wire", &list), NA_SUCCESS);
    assert_string_equal(list->class_name, "high");
    NA_Free_protocol_info(list);
    assert_int_equal(NA_Get_protocol_info("loop+absent", &list), NA_PROTONOSUPPORT);
    assert_null(list);
    assert_int_equal(NA_Get_protocol_info("nosuch+x", &list), NA_PROTONOSUPPORT);
    assert_int_equal(NA_Get_protocol_info("a b", &list), NA_INVALID_ARG);
    assert_int_equal(NA_Get_protocol_info("a,b", &list), NA_INVALID_ARG);
    assert_int_equal(NA_Get_protocol_info(NULL, NULL), NA_INVALID_ARG);
    NA_Free_protocol_info(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plugin_is_found_by_name_alias_and_protocol),
        cmocka_unit_test(an_unknown_protocol_is_refused_with_what_there_is),
        cmocka_unit_test(a_protocol_that_is_not_usable_is_refused_with_the_plugins_reason),
        cmocka_unit_test(a_failed_opening_says_the_plugins_code),
        cmocka_unit_test(auto_takes_the_highest_usable_priority_that_opens),
        cmocka_unit_test(a_protocol_alone_asks_every_plugin_in_order_of_priority),
        cmocka_unit_test(a_preference_list_is_tried_in_order),
        cmocka_unit_test(protocols_are_listed_by_plugin_by_protocol_and_all),
    };

    NA_Set_log_level("none");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
