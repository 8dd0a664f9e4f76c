/* SPDX-License-Identifier: BSD-3-Clause */
/* hg_info lists the plugins and the skipped files, and says what an init string picks. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool_run.h"

#include <cmocka.h>

static const char *hg_info;
static struct tool_run run;

static struct json_object *find_by_name(struct json_object *array, const char *name)
{
    for (size_t i = 0; i < json_object_array_length(array); i++) {
        struct json_object *item = json_object_array_get_idx(array, i);

        if (strcmp(tool_json_string(item, "name"), name) == 0)
            return item;
    }
    fail_msg("no plugin '%s' is listed", name);
    return NULL;
}

static void lists_the_sm_plugin_with_all_it_declares(void **state)
{
    struct json_object *object, *plugin;

    (void) state;
    tool_run(&run, hg_info, "--json");
    assert_int_equal(run.code, 0);
    object = tool_run_json(&run);
    plugin = find_by_name(tool_json_at(object, "plugins"), "sm");
    assert_non_null(strstr(tool_json_string(plugin, "file"), "na_sm.so"));
    assert_string_equal(tool_json_string(plugin, "abi_version"),
                        tool_json_string(object, "abi_version"));
    assert_true(strlen(tool_json_string(plugin, "version")) > 0);
    assert_true(json_object_array_length(tool_json_at(plugin, "protocols")) > 0);
    assert_true(json_object_array_length(tool_json_at(plugin, "capabilities")) > 0);
    assert_true(json_object_object_length(tool_json_at(plugin, "limits")) > 0);
    assert_true(strlen(tool_json_string(object, "search_path")) > 0);
    (void) json_object_put(object);
}

/* The details of an offer say how data are moved and how memory is registered. */
static void says_how_an_offer_moves_data(void **state)
{
    struct json_object *object, *plugins, *protocols;
    size_t described = 0;

    (void) state;
    tool_run(&run, hg_info, "--json");
    object = tool_run_json(&run);
    plugins = tool_json_at(object, "plugins");
    for (size_t i = 0; i < json_object_array_length(plugins); i++) {
        struct json_object *plugin = json_object_array_get_idx(plugins, i);

        protocols = tool_json_at(plugin, "protocols");
        for (size_t k = 0; k < json_object_array_length(protocols); k++) {
            struct json_object *protocol = json_object_array_get_idx(protocols, k), *details;

            details = tool_json_at(protocol, "details");
            if (!json_object_get_boolean(tool_json_at(protocol, "usable"))) {
                assert_null(details);
                continue;
            }
            assert_non_null(strstr(json_object_get_string(details), " RMA"));
            assert_non_null(strstr(json_object_get_string(details), "; registration: "));
            described++;
        }
    }
    assert_true(described > 0);
    (void) json_object_put(object);
}

static void prints_the_same_for_people(void **state)
{
    (void) state;
    tool_run(&run, hg_info);
    assert_int_equal(run.code, 0);
    assert_non_null(strstr(run.out, "plugin sm"));
    assert_non_null(strstr(run.out, "search path"));
}

static void names_a_file_that_is_no_plugin_and_the_reason(void **state)
{
    char dir[64], path[128];
    struct json_object *object, *skipped;
    FILE *file;

    (void) state;
    tool_temp_dir(dir, sizeof(dir));
    (void) snprintf(path, sizeof(path), "%s/na_junk.so", dir);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs("not a shared object\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    (void) snprintf(path, sizeof(path), "%s:<default>", dir);
    assert_int_equal(setenv("NA_PLUGIN_PATH", path, 1), 0);
    tool_run(&run, hg_info, "--json");
    (void) unsetenv("NA_PLUGIN_PATH");
    tool_temp_dir_remove(dir);
    assert_int_equal(run.code, 0);
    object = tool_run_json(&run);
    skipped = find_by_name(tool_json_at(object, "skipped"), "junk");
    assert_true(strlen(tool_json_string(skipped, "reason")) > 0);
    assert_true(strlen(tool_json_string(skipped, "stage")) > 0);
    assert_true(strlen(tool_json_string(skipped, "code")) > 0);
    (void) find_by_name(tool_json_at(object, "plugins"), "sm");
    (void) json_object_put(object);
}

static void says_what_an_init_string_picks_and_why(void **state)
{
    struct json_object *object, *candidates;
    unsigned int picked = 0;

    (void) state;
    tool_run(&run, hg_info, TEST_INIT, "--listen", "--json");
    assert_int_equal(run.code, 0);
    object = tool_run_json(&run);
    assert_true(json_object_get_boolean(tool_json_at(object, "init.opened")));
    if (test_is_sm())
        assert_non_null(strstr(tool_json_string(object, "init.file"), "na_sm.so"));
    assert_true(strlen(tool_json_string(object, "init.address")) > 0);
    assert_true(tool_json_number(object, "init.max_unexpected_size") > 0);
    candidates = tool_json_at(object, "init.candidates");
    for (size_t i = 0; i < json_object_array_length(candidates); i++) {
        struct json_object *candidate = json_object_array_get_idx(candidates, i);

        if (json_object_get_boolean(tool_json_at(candidate, "picked")))
            picked++;
        assert_true(strlen(tool_json_string(candidate, "reason")) > 0);
    }
    assert_int_equal(picked, 1);
    (void) json_object_put(object);
}

static void fails_with_a_reason_when_nothing_can_be_opened(void **state)
{
    static const char *const strings[] = {"nosuch+proto", "na+sm://a:b:c", "", "+"};

    (void) state;
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        struct json_object *object;

        tool_run(&run, hg_info, "--init", strings[i], "--json");
        assert_int_equal(run.code, 1);
        object = tool_run_json(&run);
        assert_false(json_object_get_boolean(tool_json_at(object, "init.opened")));
        assert_true(strlen(tool_json_string(object, "init.reason")) > 0);
        (void) json_object_put(object);
    }
}

static void checks_that_what_is_opened_moves_data(void **state)
{
    static const char *const lines[] = {"ok      open ",
                                        "\nok      message to itself, ",
                                        "\nok      RPC to itself, ",
                                        "\nok      pull from itself, ",
                                        "\nok      push to itself, ",
                                        "\nok      message to a child, ",
                                        "\nok      RPC to a child, ",
                                        "\nok      pull from a child, ",
                                        "\nok      push to a child, "};

    (void) state;
    tool_run(&run, hg_info, "--check", test_init_string());
    assert_int_equal(run.code, 0);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        assert_non_null(strstr(run.out, lines[i]));
    assert_null(strstr(run.out, "FAILED"));
}

/*
 * Both ends use the address of the init string; neither is where the transport would prefer to be.
 */
static void checks_at_the_address_that_is_given(void **state)
{
    char name[32], init[128];

    (void) state;
    (void) snprintf(name, sizeof(name), "check-%d", (int) getpid());
    (void) snprintf(init, sizeof(init), "%s://%s", test_init_string(),
                    test_is_sm() ? name : "127.0.0.1");
    tool_run(&run, hg_info, "--check", init);
    assert_int_equal(run.code, 0);
    assert_non_null(strstr(run.out, "\nok      push to a child, "));
    assert_null(strstr(run.out, "FAILED"));
}

static void checks_with_the_reason_where_it_cannot_be_opened(void **state)
{
    (void) state;
    tool_run(&run, hg_info, "--check", "nosuch+proto");
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.out, "FAILED  open nosuch+proto: "));
    assert_non_null(strstr(run.out, "na_nosuch.so"));
}

static void checks_find_what_a_plugin_reports_and_did_not_do(void **state)
{
    (void) state;
#ifdef BROKEN_DIR
    assert_int_equal(setenv("NA_PLUGIN_PATH", BROKEN_DIR, 1), 0);
    tool_run(&run, hg_info, "--check", "lies+sm");
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.out, "\nok      RPC to a child, "));
    assert_non_null(strstr(run.out, "\nFAILED  pull from a child: HG_CHECKSUM_ERROR"));
    assert_non_null(strstr(run.out, "\nok      push to a child, "));
    tool_run(&run, hg_info, "--check", "drops+sm");
    (void) unsetenv("NA_PLUGIN_PATH");
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.out, "\nFAILED  message to a child: 1 of 3 that were sent"));
    assert_non_null(strstr(run.out, "\nok      RPC to a child, "));
    assert_non_null(strstr(run.out, "\nok      push to a child, "));
#else
    print_message("skipped: the broken plugins are not built (AMALGAM_TEST_CONFORMANCE)\n");
    skip();
#endif
}

static void refuses_unknown_options_with_code_2(void **state)
{
    (void) state;
    tool_run(&run, hg_info, "--nonsense");
    assert_int_equal(run.code, 2);
    assert_non_null(strstr(run.err, "--nonsense"));
    tool_run(&run, hg_info, "surplus");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_info, "--init");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_info, "--check", "na+sm", "--init", "na+sm");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_info, "--address-fd", "5");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_info, "--help");
    assert_int_equal(run.code, 0);
    assert_non_null(strstr(run.out, "NA_PLUGIN_PATH"));
}

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_the_sm_plugin_with_all_it_declares),
        cmocka_unit_test(says_how_an_offer_moves_data),
        cmocka_unit_test(prints_the_same_for_people),
        cmocka_unit_test(names_a_file_that_is_no_plugin_and_the_reason),
        cmocka_unit_test(says_what_an_init_string_picks_and_why),
        cmocka_unit_test(fails_with_a_reason_when_nothing_can_be_opened),
        cmocka_unit_test(checks_that_what_is_opened_moves_data),
        cmocka_unit_test(checks_at_the_address_that_is_given),
        cmocka_unit_test(checks_with_the_reason_where_it_cannot_be_opened),
        cmocka_unit_test(checks_find_what_a_plugin_reports_and_did_not_do),
        cmocka_unit_test(refuses_unknown_options_with_code_2),
    };

    if (argc != 2)
        return 2;
    hg_info = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
