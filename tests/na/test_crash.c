/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_info with plugins that end the process: it names their files and lists the other plugins.
 * Also, texts of plugins that contain control characters are escaped.
 */

#include "na_test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static char output[65536]; /* stdout and stderr of the last run */

static int run(const char *init, bool ignores_children);

/* Run hg_info with the plugins of a folder; returns the status of waitpid(). */
static int run_hg_info(const char *folder, const char *init)
{
    use_plugins(folder);
    return run(init, false);
}

/* The same, with those of loop behind them in the search path. */
static int run_with_loop(const char *folder, const char *init, bool ignores_children)
{
    char path[8300];

    (void) snprintf(path, sizeof(path), "%s/%s:%s/loop", TEST_PLUGIN_DIR, folder, TEST_PLUGIN_DIR);
    assert_int_equal(setenv("NA_PLUGIN_PATH", path, 1), 0);
    return run(init, ignores_children);
}

static int run(const char *init, bool ignores_children)
{
    size_t length = 0;
    ssize_t got;
    int ends[2], status;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void) dup2(ends[1], STDOUT_FILENO);
        (void) dup2(ends[1], STDERR_FILENO);
        if (ignores_children)
            (void) signal(SIGCHLD, SIG_IGN);
        (void) execl(TEST_HG_INFO, "hg_info", init != NULL ? "--init" : NULL, init, (char *) NULL);
        _exit(127);
    }
    close(ends[1]);
    while ((got = read(ends[0], output + length, sizeof(output) - 1 - length)) > 0)
        length += (size_t) got;
    output[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/*
 * Plugins that crash in their entry function, in a constructor, while they list their protocols, or
 * after they have written a byte that could be taken for success; and one that calls exit().
 */
static void a_plugin_that_ends_its_process_is_skipped_and_named(void **state)
{
    static const char *const names[] = {"crash", "crash-loaded", "crash-listed", "crash-printing",
                                        "exit"};
    char file[64], choice[64];

    (void) state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void) snprintf(file, sizeof(file), "/%s/na_%s.so", names[i], names[i]);
        assert_int_equal(run_with_loop(names[i], NULL, false), 0);
        assert_non_null(strstr(output, "\nplugin loop\n"));
        assert_non_null(strstr(output, file));
        assert_non_null(strstr(output, "crashed"));
        assert_non_null(strstr(output, "the process that tried it was "));
        /* A run with "auto" or with a protocol alone must not crash either. */
        assert_int_equal(run_with_loop(names[i], "auto", false), 0);
        assert_int_equal(run_with_loop(names[i], "self", false), 0);
        /*
         * Nor is the plugin loaded if the choice is its name alone, which could be a protocol's
         * name.
         */
        assert_true(WIFEXITED(run_with_loop(names[i], names[i], false)));
        assert_non_null(strstr(output, file));
        (void) snprintf(choice, sizeof(choice), "%s,self", names[i]);
        assert_int_equal(run_with_loop(names[i], choice, false), 0);
        assert_int_equal(run_with_loop(names[i], NULL, true), 0);
        assert_non_null(strstr(output, file));
    }
    assert_int_equal(run_with_loop("crash", NULL, false), 0);
    assert_non_null(strstr(output, "killed by signal 6 (Aborted)"));
}

static void a_plugin_that_hangs_is_skipped_and_named(void **state)
{
    (void) state;
    assert_int_equal(setenv("NA_PLUGIN_PROBE_MS", "5000", 1), 0);
    assert_int_equal(run_with_loop("hang", NULL, false), 0);
    (void) unsetenv("NA_PLUGIN_PROBE_MS");
    assert_non_null(strstr(output, "/hang/na_hang.so"));
    assert_non_null(strstr(output, "did not come to an end"));
}

/*
 * A plugin that is chosen by name is loaded in the process itself, and its crash ends the process.
 */
static void a_plugin_that_is_asked_for_by_name_is_named_when_it_crashes(void **state)
{
    int status = run_hg_info("crash", "crash+wire");

    (void) state;
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(output, "/crash/na_crash.so"));
    assert_ptr_equal(strchr(output, '\n'), output + strlen(output) - 1);
    assert_true(WIFEXITED(run_hg_info("exit", "exit+wire")));
    assert_non_null(strstr(output, "/exit/na_exit.so"));
}

static void nothing_is_said_when_all_goes_well(void **state)
{
    (void) state;
    assert_int_equal(run_hg_info("loop", NULL), 0);
    assert_null(strstr(output, "hg_info:"));
}

static void texts_of_plugins_do_not_paint_the_terminal(void **state)
{
    (void) state;
    assert_int_equal(run_hg_info("paint", NULL), 0);
    assert_null(strchr(output, '\033'));
    assert_non_null(strstr(output, "a\\x1b[31mb\\x0ac\n"));
    assert_int_not_equal(run_hg_info("loop", "a\033b\nc"), 0);
    assert_null(strchr(output, '\033'));
    assert_non_null(strstr(output, "a\\x1bb\\x0ac cannot be opened"));
}

static void what_is_shown_of_a_choice_is_clean(void **state)
{
    (void) state;
    assert_int_equal(run_hg_info("loop", "nosuch,loopbare+self"), 0);
    assert_non_null(strstr(output, "    - nosuch: no plugin offers"));
    assert_null(strstr(output, "+nosuch"));
    assert_non_null(strstr(output, "waiting        by polling"));
    assert_non_null(strstr(output, "memory         1 segment in a handle"));
    assert_int_equal(run_hg_info("loop", "loop+self"), 0);
    assert_non_null(strstr(output, "waiting        inside the transport"));
    assert_non_null(strstr(output, "memory         4 segments in a handle"));
    assert_int_equal(run_hg_info("loop", "loopfd+self"), 0);
    assert_non_null(strstr(output, "waiting        by file descriptor"));
    assert_int_not_equal(run_hg_info("loop", "loop-alias+nosuch"), 0);
    assert_null(strstr(output, "na_loop-alias.so"));
    assert_null(strstr(output, "na_nosuch.so"));
    assert_int_not_equal(run_hg_info("loop", "nosuch+tcp"), 0);
    assert_non_null(strstr(output, "there is no na_nosuch.so"));
    assert_null(strstr(output, "missing"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plugin_that_ends_its_process_is_skipped_and_named),
        cmocka_unit_test(a_plugin_that_hangs_is_skipped_and_named),
        cmocka_unit_test(a_plugin_that_is_asked_for_by_name_is_named_when_it_crashes),
        cmocka_unit_test(nothing_is_said_when_all_goes_well),
        cmocka_unit_test(texts_of_plugins_do_not_paint_the_terminal),
        cmocka_unit_test(what_is_shown_of_a_choice_is_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
