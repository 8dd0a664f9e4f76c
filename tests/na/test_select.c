/* SPDX-License-Identifier: BSD-3-Clause */
/* Selection: plugins by name and alias, protocols alone, preference lists, auto; and its report. */

#include "na/class.h"
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
    assert_non_null(strstr(reason, "na_no-alias.so"));
}

static void an_unknown_protocol_is_refused_with_what_there_is(void **state)
{
    char reason[4096];

    (void) state;
    use_plugins("loop");
    assert_null(open_reason("loop+tcp", NA_PROTONOSUPPORT, reason, sizeof(reason)));
    assert_non_null(strstr(reason, "self"));
    assert_null(open_reason("tcp", NA_PROTONOSUPPORT, reason, sizeof(reason)));
    assert_non_null(strstr(reason, "no plugin offers tcp"));
    assert_true(strncmp(reason, "tcp: ", 5) == 0);
    /* With the plugin's alias, the text is the same. */
    assert_null(open_reason("loop-alias+tcp", NA_PROTONOSUPPORT, reason, sizeof(reason)));
    assert_string_equal(reason, "loop-alias+tcp: plugin loop does not offer the protocol \"tcp\"; "
                                "it offers self, absent");
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
    /*
     * "high" has priority 50, but opening it fails; "low" has only 2; "unplugged" (99) and "absent"
     * (90) are not usable.
     */
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

/* The control struct of a plugin lives as long as the process. */
static struct loop_control *control_of(const char *init)
{
    na_class_t *na_class = NA_Initialize(init, false);
    struct loop_control *control;

    assert_non_null(na_class);
    control = (struct loop_control *) (uintptr_t) na_class->table.get_extension(LOOP_CONTROL_ID);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    return control;
}

static void a_plugin_that_cannot_list_hides_no_other(void **state)
{
    static const char *const inits[] = {"self", "auto", "loop+self,self"};
    struct loop_control *control;
    char reason[4096];

    (void) state;
    use_plugins("loop");
    control = control_of("loop+self");
    control->fail = "enumerate";
    control->fail_status = NA_PLUGIN_NOMEM;
    for (size_t i = 0; i < sizeof(inits) / sizeof(inits[0]); i++) {
        na_class_t *na_class = open_reason(inits[i], NA_SUCCESS, reason, sizeof(reason));
        const struct na_selection *selection = NA_Class_get_selection(na_class);
        const char *word = i == 1 ? "auto" : "self";

        assert_string_not_equal(selection->class_name, "loop-alias");
        assert_non_null(candidate(selection, "loop", word));
        assert_non_null(strstr(candidate(selection, "loop", word)->reason, "NA_NOMEM"));
        assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    }
    assert_null(open_reason("loop+self", NA_NOMEM, reason, sizeof(reason)));
    assert_string_equal(reason, "loop+self: plugin loop cannot list its protocols: NA_NOMEM");
    control->fail = NULL;
}

static void a_plugins_name_alone_takes_its_best_protocol(void **state)
{
    static const char *const inits[] = {"loop", "loop-alias", "loop://x", "nosuch,loop", "loop"};
    struct loop_control *control;
    char reason[4096];

    (void) state;
    use_loop_and_wires();
    control = control_of("loop+self");
    for (size_t i = 0; i < sizeof(inits) / sizeof(inits[0]); i++) {
        na_class_t *na_class;

        control->odd_offers = i == 4; /* the plugin also has an offer for a protocol of this name */
        na_class = open_reason(inits[i], NA_SUCCESS, reason, sizeof(reason));

        assert_string_equal(NA_Get_class_name(na_class), "loop-alias");
        assert_string_equal(NA_Get_class_protocol(na_class), "self");
        assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    }
    control->odd_offers = 0;
}

/* "self" is a protocol of the plugin loop, and here also the name of another plugin. */
static void a_plugins_name_comes_before_a_protocol_of_another_one(void **state)
{
    const struct na_selection *selection;
    struct na_protocol_info *list;
    char reason[4096], path[8300];
    na_class_t *na_class;

    (void) state;
    (void) snprintf(path, sizeof(path), "%s/loop:%s/words", TEST_PLUGIN_DIR, TEST_PLUGIN_DIR);
    assert_int_equal(setenv("NA_PLUGIN_PATH", path, 1), 0);
    assert_null(open_reason("self", NA_ADDRNOTAVAIL, reason, sizeof(reason)));
    assert_non_null(strstr(reason, "self+own: opening it failed"));
    assert_non_null(strstr(reason, "loop-alias+self: not considered: self is also the name of a "
                                   "plugin, which comes first; write loop-alias+self for"));
    assert_int_equal(NA_Get_protocol_info("self", &list), NA_SUCCESS);
    assert_string_equal(list->protocol_name, "own");
    assert_null(list->next);
    NA_Free_protocol_info(list);
    na_class = open_reason("self,loop+self", NA_SUCCESS, reason, sizeof(reason));
    selection = NA_Class_get_selection(na_class);
    assert_false(selection->candidates[0].picked);
    assert_non_null(candidate(selection, "self", "own"));
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

static void a_protocol_is_taken_when_the_plugin_of_that_name_has_nothing_usable(void **state)
{
    const struct na_selection *selection;
    char reason[4096], path[8300];
    na_class_t *na_class;

    (void) state;
    (void) snprintf(path, sizeof(path), "%s/loop:%s/words-unplugged", TEST_PLUGIN_DIR,
                    TEST_PLUGIN_DIR);
    assert_int_equal(setenv("NA_PLUGIN_PATH", path, 1), 0);
    na_class = open_reason("self", NA_SUCCESS, reason, sizeof(reason));
    selection = NA_Class_get_selection(na_class);
    assert_string_equal(selection->class_name, "loop-alias");
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

/*
 * A protocol that the plugin does not list, such as a provider's raw name: a plugin that was chosen
 * by name decides whether it is valid.
 */
static void a_plugin_that_is_named_decides_on_what_it_does_not_list(void **state)
{
    struct na_protocol_info *list;
    char reason[4096];
    na_class_t *na_class;

    (void) state;
    use_plugins("loop");
    na_class = open_reason("loop+raw;a;b://x", NA_SUCCESS, reason, sizeof(reason));
    assert_string_equal(NA_Get_class_protocol(na_class), "raw;a;b");
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    assert_null(open_reason("loop+raw;c", NA_NODEV, reason, sizeof(reason)));
    assert_non_null(strstr(reason, "not usable here: there is no c"));
    /* A choice that does not name the plugin never gets such a protocol. */
    assert_null(open_reason("raw;a;b", NA_PROTONOSUPPORT, reason, sizeof(reason)));
    na_class = open_reason("auto", NA_SUCCESS, reason, sizeof(reason));
    assert_string_equal(NA_Get_class_protocol(na_class), "self");
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    assert_int_equal(NA_Get_protocol_info("raw;a;b", &list), NA_PROTONOSUPPORT);
}

static void a_plugin_that_answers_with_another_protocol_is_not_believed(void **state)
{
    struct loop_control *control;
    char reason[4096];

    (void) state;
    use_plugins("loop");
    control = control_of("loop+self");
    control->fail = "enumerate_all";
    control->fail_status = 1;
    assert_null(open_reason("loop+tcp", NA_PROTONOSUPPORT, reason, sizeof(reason)));
    control->fail = NULL;
}

static void names_that_no_init_string_has_are_shown_and_not_used(void **state)
{
    struct loop_control *control;
    const struct na_selection *selection;
    na_class_t *na_class;
    char reason[4096];

    (void) state;
    use_plugins("loop");
    control = control_of("loop+self");
    control->odd_offers = 1;
    NA_Set_log_func(log_keep);
    NA_Set_log_level("warning");
    na_class = open_reason("auto", NA_SUCCESS, reason, sizeof(reason));
    NA_Set_log_level("none");
    NA_Set_log_func(NULL);
    control->odd_offers = 0;
    selection = NA_Class_get_selection(na_class);
    assert_string_equal(selection->protocol_name, "self");
    assert_non_null(candidate(selection, "loop-alias", "two words"));
    assert_non_null(strstr(candidate(selection, "loop-alias", "ends+")->reason, "not usable"));
    assert_non_null(strstr(log_last, "plugin loop offers the protocol \"\\x1b[31mred\""));
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

/*
 * Mercury's lists of UCX transports contain commas. The reason suggests the right form, and a lost
 * address is logged.
 */
static void a_word_after_a_plugins_choice_may_have_been_meant_as_its_list(void **state)
{
    char reason[4096];
    na_class_t *na_class;

    (void) state;
    use_plugins("loop");
    assert_null(open_reason("loop+rc,cma", NA_PROTONOSUPPORT, reason, sizeof(reason)));
    assert_non_null(strstr(reason, "write loop+rc;cma"));
    NA_Set_log_func(log_keep);
    NA_Set_log_level("warning");
    na_class = open_reason("loop+self,cma://h:1", NA_SUCCESS, reason, sizeof(reason));
    assert_non_null(strstr(log_last, "without an address"));
    assert_non_null(strstr(log_last, "loop+self;cma://h:1"));
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    log_last[0] = '\0';
    na_class = open_reason("loop+self,loop+cma://h:1,auto", NA_SUCCESS, reason, sizeof(reason));
    assert_string_equal(log_last, "");
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    NA_Set_log_level("none");
    NA_Set_log_func(NULL);
}

/* A reason is one line, states each fact once, and has text on both sides of each separator. */
static void reasons_are_one_clean_line(void **state)
{
    static const char *const inits[] = {"nosuch", "nosuch+tcp", "loop-alias+tcp", "auto",
                                        "a,b+c,d"};
    static const char *const folders[] = {"loop", "nowhere"};
    char reason[4096];
    na_class_t *na_class;

    (void) state;
    for (size_t i = 0; i < 2 * sizeof(inits) / sizeof(inits[0]); i++) {
        use_plugins(folders[i % 2]);
        if (NA_Initialize_reason(inits[i / 2], true, 0, NULL, &na_class, reason, sizeof(reason)) ==
            NA_SUCCESS) {
            assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
            continue;
        }
        print_message("  %s\n", reason);
        assert_null(strpbrk(reason, "\n"));
        assert_null(strstr(reason, ": ;"));
        assert_null(strstr(reason, "; ;"));
        assert_null(strstr(reason, ".soplugin"));
        assert_true(reason[0] != '+' && reason[strlen(reason) - 1] != ' ');
        if (i % 2 == 1) {
            const char *where = strstr(reason, "nowhere (no such directory)");

            assert_non_null(where);
            assert_true(strchr(inits[i / 2], ',') != NULL || strstr(where + 1, "nowhere") == NULL);
        }
    }
}

/* The log line says what was picked, and why the other candidates were not. */
static void the_choice_is_one_line_of_the_log(void **state)
{
    char reason[4096];
    na_class_t *na_class;

    (void) state;
    use_loop_and_wires();
    NA_Set_log_func(log_keep);
    NA_Set_log_level("info");
    na_class = open_reason("nosuch+tcp,auto", NA_SUCCESS, reason, sizeof(reason));
    NA_Set_log_level("none");
    NA_Set_log_func(NULL);
    assert_non_null(strstr(log_last, "opened loop"));
    assert_non_null(strstr(log_last, "nosuch+tcp: there is no na_nosuch.so in"));
    assert_non_null(strstr(log_last, "unplugged+wire: not usable here: nothing is plugged in"));
    assert_non_null(strstr(log_last, "self: picked, priority 10"));
    assert_non_null(strstr(log_last, "low+wire: priority 2 is below 10"));
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
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
        cmocka_unit_test(a_plugin_that_cannot_list_hides_no_other),
        cmocka_unit_test(a_plugins_name_alone_takes_its_best_protocol),
        cmocka_unit_test(a_plugins_name_comes_before_a_protocol_of_another_one),
        cmocka_unit_test(a_protocol_is_taken_when_the_plugin_of_that_name_has_nothing_usable),
        cmocka_unit_test(a_plugin_that_is_named_decides_on_what_it_does_not_list),
        cmocka_unit_test(a_plugin_that_answers_with_another_protocol_is_not_believed),
        cmocka_unit_test(names_that_no_init_string_has_are_shown_and_not_used),
        cmocka_unit_test(a_word_after_a_plugins_choice_may_have_been_meant_as_its_list),
        cmocka_unit_test(reasons_are_one_clean_line),
        cmocka_unit_test(the_choice_is_one_line_of_the_log),
    };

    NA_Set_log_level("none");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
