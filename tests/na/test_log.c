/* SPDX-License-Identifier: BSD-3-Clause */
/* The log: levels, subsystems, log function, streams and environment; and host ids. */

#include "na_sm.h"
#include "na_test.h"

#include <sys/wait.h>
#include <unistd.h>

static void write_one(enum na_log_level level, const char *subsys)
{
    log_last[0] = '\0';
    NA_Log_write(level, subsys, "some_function", 12, "value is %d", 34);
}

static int set_up(void **state)
{
    (void) state;
    NA_Set_log_func(log_keep);
    NA_Set_log_subsys(NULL);
    NA_Set_log_level("debug");
    return 0;
}

static void a_level_shows_itself_and_what_is_worse(void **state)
{
    static const char *const names[] = {"none", "error", "warning", "info", "debug"};

    (void) state;
    for (int set = 0; set < NA_LOG_LEVEL_MAX; set++) {
        NA_Set_log_level(names[set]);
        for (int level = NA_LOG_LEVEL_ERROR; level < NA_LOG_LEVEL_MAX; level++) {
            assert_int_equal(NA_Log_enabled((enum na_log_level) level, "na"), level <= set);
            write_one((enum na_log_level) level, "na");
            assert_int_equal(log_last[0] != '\0', level <= set);
        }
        assert_false(NA_Log_enabled(NA_LOG_LEVEL_NONE, "na"));
        assert_false(NA_Log_enabled(NA_LOG_LEVEL_MAX, "na"));
    }
}

static void a_line_names_level_subsystem_function_and_line(void **state)
{
    (void) state;
    write_one(NA_LOG_LEVEL_WARNING, "hg");
    assert_non_null(strstr(log_last, "hg: [warning] some_function():12 value is 34\n"));
    NA_Log_write(NA_LOG_LEVEL_ERROR, NULL, NULL, 0, "x");
    assert_non_null(strstr(log_last, "[error]"));
}

static void an_unknown_level_is_reported_and_ignored(void **state)
{
    (void) state;
    NA_Set_log_level("warning");
    NA_Set_log_level("loud");
    assert_non_null(strstr(log_last, "\"loud\""));
    assert_true(NA_Log_enabled(NA_LOG_LEVEL_WARNING, "na"));
    assert_false(NA_Log_enabled(NA_LOG_LEVEL_INFO, "na"));
    NA_Set_log_level(NULL);
    NA_Set_log_level("DEBUG");
    assert_true(NA_Log_enabled(NA_LOG_LEVEL_DEBUG, "na"));
}

/* A wrong setting is reported at each level, also at "error", but not at "none". */
static void what_is_wrong_is_said_at_each_level(void **state)
{
    static const char *const levels[] = {"error", "warning", "info", "debug", "none"};

    (void) state;
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        const bool is_shown = strcmp(levels[i], "none") != 0;

        NA_Set_log_level(levels[i]);
        (void) setenv("HG_LOG_LEVEL", "lout", 1);
        log_last[0] = '\0';
        NA_Log_reload();
        assert_int_equal(strstr(log_last, "HG_LOG_LEVEL is \"lout\"") != NULL, is_shown);
        (void) setenv("HG_LOG_LEVEL", "@/nowhere/at/all", 1);
        log_last[0] = '\0';
        NA_Log_reload();
        assert_int_equal(strstr(log_last, "cannot be read") != NULL, is_shown);
        (void) unsetenv("HG_LOG_LEVEL");
        log_last[0] = '\0';
        NA_Set_log_subsys("everything");
        assert_int_equal(strstr(log_last, "\"everything\"") != NULL, is_shown);
        NA_Set_log_subsys(NULL);
        assert_int_equal(NA_Log_enabled(NA_LOG_LEVEL_ERROR, "na"), is_shown);
        assert_int_equal(NA_Log_enabled(NA_LOG_LEVEL_WARNING, "na"), is_shown && i > 0);
    }
}

static void a_subsystem_has_a_level_of_its_own(void **state)
{
    (void) state;
    NA_Set_log_level("warning,na_sm=debug,hg=none");
    assert_true(NA_Log_enabled(NA_LOG_LEVEL_DEBUG, "na_sm"));
    assert_false(NA_Log_enabled(NA_LOG_LEVEL_INFO, "na_ofi"));
    assert_true(NA_Log_enabled(NA_LOG_LEVEL_WARNING, "na"));
    assert_false(NA_Log_enabled(NA_LOG_LEVEL_ERROR, "hg"));
    NA_Set_log_level("na=info,na_sm=error");
    assert_true(NA_Log_enabled(NA_LOG_LEVEL_INFO, "na_ofi"));
    assert_false(NA_Log_enabled(NA_LOG_LEVEL_WARNING, "na_sm"));
    assert_true(NA_Log_enabled(NA_LOG_LEVEL_WARNING, "hg"));
    assert_false(NA_Log_enabled(NA_LOG_LEVEL_INFO, "hg"));
    for (size_t i = 0; i < 5; i++) {
        static const char *const wrong[] = {"info,debug", "=debug", "na_sm=loud", "info,", ","};

        log_last[0] = '\0';
        NA_Set_log_level(wrong[i]);
        assert_non_null(strstr(log_last, "ignored"));
        assert_true(NA_Log_enabled(NA_LOG_LEVEL_INFO, "na_ofi"));
    }
    NA_Set_log_level("error");
    assert_false(NA_Log_enabled(NA_LOG_LEVEL_WARNING, "na_sm"));
    log_last[0] = '\0';
    NA_Set_log_level("warning,na_sm=error,hg=info");
    assert_string_equal(log_last, "");
    NA_Set_log_level("warning,hg=info,sm=debug,na_sm=error");
    assert_non_null(strstr(log_last, "\"sm\" is unknown"));
    assert_true(NA_Log_enabled(NA_LOG_LEVEL_INFO, "hg"));
}

/* Settings are read from the current environment, and from a file that the environment names. */
static void settings_are_read_again(void **state)
{
    char name[] = "/tmp/amalgam_log_XXXXXX", value[64];
    int fd = mkstemp(name);
    FILE *file;

    (void) state;
    assert_true(fd >= 0);
    (void) unsetenv("HG_LOG_SUBSYS");
    assert_int_equal(setenv("HG_LOG_LEVEL", "error,na_sm=info", 1), 0);
    NA_Log_reload();
    assert_true(NA_Log_enabled(NA_LOG_LEVEL_INFO, "na_sm"));
    assert_false(NA_Log_enabled(NA_LOG_LEVEL_WARNING, "hg"));
    file = fdopen(fd, "w");
    (void) fprintf(file, "info,hg=debug\nthe rest is not read\n");
    (void) fclose(file);
    (void) snprintf(value, sizeof(value), "@%s", name);
    assert_int_equal(setenv("HG_LOG_LEVEL", value, 1), 0);
    NA_Log_reload();
    assert_true(NA_Log_enabled(NA_LOG_LEVEL_DEBUG, "hg"));
    assert_true(NA_Log_enabled(NA_LOG_LEVEL_INFO, "na"));
    assert_false(NA_Log_enabled(NA_LOG_LEVEL_DEBUG, "na"));
    file = fopen(name, "w");
    assert_non_null(file);
    (void) fprintf(file, "none");
    for (int i = 0; i < 100; i++)
        (void) fprintf(file, ",hg=none");
    (void) fclose(file);
    NA_Log_reload();
    assert_non_null(strstr(log_last, "is longer than"));
    assert_true(NA_Log_enabled(NA_LOG_LEVEL_DEBUG, "hg"));
    (void) unlink(name);
    NA_Log_reload();
    assert_non_null(strstr(log_last, "cannot be read"));
    assert_true(NA_Log_enabled(NA_LOG_LEVEL_DEBUG, "hg"));
    (void) unsetenv("HG_LOG_LEVEL");
    NA_Log_reload();
    assert_true(NA_Log_enabled(NA_LOG_LEVEL_DEBUG, "hg"));
}

/*
 * A place in the code writes at most ten lines, the last of which says that further ones are left
 * out. Other places are not affected, nor are lines at level info.
 */
static void a_place_cannot_flood_the_log(void **state)
{
    int shown = 0;

    (void) state;
    NA_Set_log_level("info");
    for (int i = 0; i < 1000; i++) {
        log_last[0] = '\0';
        NA_Log_write(NA_LOG_LEVEL_ERROR, "hg", "flooding", 77, "refused %d", i);
        if (log_last[0] == '\0')
            continue;
        shown++;
        assert_int_equal(strstr(log_last, "left out for some seconds") != NULL, shown == 10);
    }
    assert_int_equal(shown, 10);
    NA_Log_write(NA_LOG_LEVEL_WARNING, "hg", "flooding", 78, "other");
    assert_non_null(strstr(log_last, "other"));
    NA_Log_write(NA_LOG_LEVEL_INFO, "hg", "flooding", 77, "info");
    assert_non_null(strstr(log_last, "info"));
    /* A level of debug for another subsystem does not lift the limit. */
    NA_Set_log_level("warning,na_sm=debug");
    log_last[0] = '\0';
    NA_Log_write(NA_LOG_LEVEL_ERROR, "hg", "flooding", 77, "all");
    assert_string_equal(log_last, "");
    NA_Set_log_level("debug");
    NA_Log_write(NA_LOG_LEVEL_ERROR, "hg", "flooding", 77, "all");
    assert_non_null(strstr(log_last, "all"));
}

static void subsystems_are_chosen_and_turned_off(void **state)
{
    static const struct {
        const char *list;
        bool na, na_sm, hg;
    } cases[] = {
        {"", true, true, true},        {"na", true, true, false},
        {"hg", false, false, true},    {"~na", false, false, true},
        {"~na_sm", true, false, true}, {"na,~na_sm", true, false, false},
        {"na_sm", false, true, false}, {"~na,na_sm", false, true, false},
        {"hg,na", true, true, true},   {"n", false, false, false},
        {",,na,", true, true, false},  {"~", true, true, true},
    };

    (void) state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        NA_Set_log_subsys(cases[i].list);
        print_message("  \"%s\"\n", cases[i].list);
        assert_int_equal(NA_Log_enabled(NA_LOG_LEVEL_ERROR, "na"), cases[i].na);
        assert_int_equal(NA_Log_enabled(NA_LOG_LEVEL_ERROR, "na_sm"), cases[i].na_sm);
        assert_int_equal(NA_Log_enabled(NA_LOG_LEVEL_ERROR, "hg"), cases[i].hg);
    }
    NA_Set_log_subsys(NULL);
}

static void an_unknown_subsystem_is_reported_whatever_is_hidden(void **state)
{
    static const char *const good[] = {"", "~", "hg", "na", "~na_sm", "hg_x,~na_ofi,na", ",,"};
    static const char *const bad[] = {"n", "nax", "hg,all", "~hgg", "na,*"};

    (void) state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        log_last[0] = '\0';
        NA_Set_log_subsys(good[i]);
        assert_string_equal(log_last, "");
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        log_last[0] = '\0';
        NA_Set_log_subsys(bad[i]);
        assert_non_null(strstr(log_last, "[error]"));
        assert_non_null(strstr(log_last, "na_<plugin>"));
    }
    assert_non_null(strstr(log_last, "\"*\""));
    NA_Set_log_subsys(NULL);
}

static void control_characters_do_not_reach_the_terminal(void **state)
{
    (void) state;
    NA_Log_write(NA_LOG_LEVEL_ERROR, "na\a", "f\t", 1, "a\033[31mb\nc\177d\302\233e%s",
                 "\303\244\r");
    assert_non_null(strstr(log_last, "na\\x07: [error] f\\x09():1 a\\x1b[31mb\\x0ac\\x7fd"
                                     "\\xc2\\x9be\303\244\\x0d\n"));
    assert_ptr_equal(strchr(log_last, '\n'), log_last + strlen(log_last) - 1);
}

static void each_level_has_its_stream(void **state)
{
    char *errors = NULL, *infos = NULL;
    size_t errors_size = 0, infos_size = 0;
    FILE *error_stream = open_memstream(&errors, &errors_size);
    FILE *info_stream = open_memstream(&infos, &infos_size);

    (void) state;
    NA_Set_log_func(NULL);
    NA_Set_log_stream("error", error_stream);
    NA_Set_log_stream("info", info_stream);
    write_one(NA_LOG_LEVEL_ERROR, "na");
    write_one(NA_LOG_LEVEL_INFO, "na");
    NA_Set_log_stream("error", NULL);
    NA_Set_log_stream("info", NULL);
    fclose(error_stream);
    fclose(info_stream);
    assert_non_null(strstr(errors, "[error]"));
    assert_null(strstr(errors, "[info]"));
    assert_non_null(strstr(infos, "[info]"));
    free(errors);
    free(infos);
    NA_Set_log_func(log_keep);
    NA_Set_log_stream("none", stderr);
    assert_non_null(strstr(log_last, "has no stream"));
}

/* A log function that logs itself must not recurse deeply or deadlock. */
static unsigned int depth;

static int log_again(FILE *stream, const char *format, ...)
{
    (void) stream;
    (void) format;
    if (depth++ == 0)
        NA_Log_write(NA_LOG_LEVEL_ERROR, "na", "log_again", 1, "from inside");
    return 0;
}

static void a_log_function_may_log(void **state)
{
    (void) state;
    NA_Set_log_func(log_again);
    write_one(NA_LOG_LEVEL_ERROR, "na");
    assert_int_equal(depth, 2);
}

static void long_messages_are_cut(void **state)
{
    char *big = malloc(100000);

    (void) state;
    memset(big, 'x', 99999);
    big[99999] = '\0';
    NA_Log_write(NA_LOG_LEVEL_ERROR, "na", __func__, 1, "%s", big);
    assert_true(strlen(log_last) < 4000);
    NA_Set_log_subsys(big); /* refused */
    assert_true(NA_Log_enabled(NA_LOG_LEVEL_ERROR, "na"));
    free(big);
}

static void host_ids_are_stable_and_travel_as_strings(void **state)
{
    na_sm_id_t id, again, read;
    char string[NA_SM_HOST_ID_LEN + 1];

    (void) state;
    assert_int_equal(NA_SM_Host_id_get(&id), NA_SUCCESS);
    assert_int_equal(NA_SM_Host_id_get(&again), NA_SUCCESS);
    assert_true(NA_SM_Host_id_cmp(id, again));
    assert_int_equal(NA_SM_Host_id_to_string(id, string), NA_SUCCESS);
    assert_int_equal(strlen(string), NA_SM_HOST_ID_LEN);
    assert_int_equal(NA_SM_String_to_host_id(string, &read), NA_SUCCESS);
    assert_true(NA_SM_Host_id_cmp(id, read));
    read[15] ^= 1;
    assert_false(NA_SM_Host_id_cmp(id, read));
    NA_SM_Host_id_copy(&read, id);
    assert_true(NA_SM_Host_id_cmp(id, read));

    assert_int_equal(NA_SM_String_to_host_id("", &read), NA_PROTOCOL_ERROR);
    string[NA_SM_HOST_ID_LEN - 1] = 'g';
    assert_int_equal(NA_SM_String_to_host_id(string, &read), NA_PROTOCOL_ERROR);
    string[NA_SM_HOST_ID_LEN - 1] = '\0';
    assert_int_equal(NA_SM_String_to_host_id(string, &read), NA_PROTOCOL_ERROR);
    assert_true(NA_SM_Host_id_cmp(id, read));
    assert_int_equal(NA_SM_Host_id_get(NULL), NA_INVALID_ARG);
    assert_int_equal(NA_SM_Host_id_to_string(id, NULL), NA_INVALID_ARG);
    assert_int_equal(NA_SM_String_to_host_id(NULL, &read), NA_INVALID_ARG);
}

/*
 * This test runs before the others: the environment is read at the first use, and not when the
 * library is loaded.
 */
static void the_environment_sets_level_and_subsystems_at_the_first_use(void **state)
{
    (void) state;
    assert_int_equal(setenv("HG_LOG_LEVEL", "info", 1), 0);
    assert_int_equal(setenv("HG_LOG_SUBSYS", "~hg", 1), 0);
    assert_true(NA_Log_enabled(NA_LOG_LEVEL_INFO, "na"));
    assert_false(NA_Log_enabled(NA_LOG_LEVEL_DEBUG, "na"));
    assert_false(NA_Log_enabled(NA_LOG_LEVEL_ERROR, "hg"));
}

static char log_all[4096];

static int log_append(FILE *stream, const char *format, ...)
{
    size_t length = strlen(log_all);
    va_list args;

    (void) stream;
    va_start(args, format);
    (void) vsnprintf(log_all + length, sizeof(log_all) - length, format, args);
    va_end(args);
    return 0;
}

/* In a child process, because a process reads the environment only once. */
static void unknown_values_in_the_environment_are_reported_once(void **state)
{
    static const char level[] = "HG_LOG_LEVEL is \"loud\", which is unknown and ignored; use none, "
                                "error, warning, info or debug\n";
    static const char subsys[] = "log subsystem \"everything\" is unknown and matches nothing; use "
                                 "hg, na or na_<plugin>, with ~ before it to turn it off\n";
    char expected[1024];
    pid_t pid = fork();
    int status;

    (void) state;
    assert_true(pid >= 0);
    if (pid == 0) {
        bool enabled;

        (void) snprintf(expected, sizeof(expected), ": [error] %s# [%d] na: [error] %s", level,
                        (int) getpid(), subsys);
        (void) setenv("HG_LOG_LEVEL", "loud", 1);
        (void) setenv("HG_LOG_SUBSYS", "hg,everything", 1);
        NA_Set_log_func(log_append);
        enabled =
            NA_Log_enabled(NA_LOG_LEVEL_WARNING, "hg") && !NA_Log_enabled(NA_LOG_LEVEL_INFO, "hg");
        NA_Set_log_level("none");
        (void) NA_Log_enabled(NA_LOG_LEVEL_WARNING, "na");
        _exit(!enabled || strcmp(log_all + strcspn(log_all, ":"), expected) != 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_values_in_the_environment_are_reported_once),
        cmocka_unit_test(the_environment_sets_level_and_subsystems_at_the_first_use),
        cmocka_unit_test_setup(a_level_shows_itself_and_what_is_worse, set_up),
        cmocka_unit_test_setup(a_line_names_level_subsystem_function_and_line, set_up),
        cmocka_unit_test_setup(an_unknown_level_is_reported_and_ignored, set_up),
        cmocka_unit_test_setup(what_is_wrong_is_said_at_each_level, set_up),
        cmocka_unit_test_setup(a_subsystem_has_a_level_of_its_own, set_up),
        cmocka_unit_test_setup(settings_are_read_again, set_up),
        cmocka_unit_test_setup(a_place_cannot_flood_the_log, set_up),
        cmocka_unit_test_setup(subsystems_are_chosen_and_turned_off, set_up),
        cmocka_unit_test_setup(an_unknown_subsystem_is_reported_whatever_is_hidden, set_up),
        cmocka_unit_test_setup(control_characters_do_not_reach_the_terminal, set_up),
        cmocka_unit_test_setup(each_level_has_its_stream, set_up),
        cmocka_unit_test_setup(a_log_function_may_log, set_up),
        cmocka_unit_test_setup(long_messages_are_cut, set_up),
        cmocka_unit_test_setup(host_ids_are_stable_and_travel_as_strings, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
