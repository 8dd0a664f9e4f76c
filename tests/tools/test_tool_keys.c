/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options for keys, --key-file and --encrypt, of hg_perf and hg_cp, which read the same files.
 * test_hg_cp.c has the tests of hg_cp with a key and without encryption.
 */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool_run.h"

#include <cmocka.h>

static const char *hg_perf, *hg_cp;
static struct tool_run run, target;
static char dir[64], key[128], other[128], address[512];

static const char *path_of(const char *name)
{
    static char path[128];

    (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void write_file(char path[128], const char *name, const char *text, size_t size, mode_t mode)
{
    FILE *file;

    (void) strcpy(path, path_of(name));
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static int setup(void **state)
{
    (void) state;
    memset(&target, 0, sizeof(target));
    tool_temp_dir(dir, sizeof(dir));
    write_file(key, "key", "correct horse\n", 14, 0600);
    write_file(other, "other", "battery staple\n", 15, 0600);
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    if (target.pid > 0)
        (void) kill(target.pid, SIGKILL);
    tool_temp_dir_remove(dir);
    return 0;
}

static void target_stop(void)
{
    assert_int_equal(kill(target.pid, SIGTERM), 0);
    tool_run_wait(&target, 60);
    assert_int_equal(target.code, 128 + SIGTERM);
    target.pid = 0;
}

#define PERF(...) tool_run(&run, hg_perf, TEST_INIT, "rpc", "--seconds", "0.1", __VA_ARGS__)

/* A target that hg_perf starts gets the key as well. */
static void a_key_is_for_both_sides(void **state)
{
    (void) state;
    PERF("--key-file", key);
    assert_int_equal(run.code, 0);
    assert_int_equal(setenv("HG_PERF_KEY", "correct horse", 1), 0);
    PERF("--json");
    (void) unsetenv("HG_PERF_KEY");
    assert_int_equal(run.code, 0);
    tool_run(&run, hg_perf, TEST_INIT, "bulk", "--seconds", "0.1", "--key-file", key);
    assert_int_equal(run.code, 0);
}

static void another_key_or_none_is_refused(void **state)
{
    (void) state;
    tool_run_start(&target, hg_perf, TEST_INIT, "rpc", "--listen", "--key-file", key, NULL);
    tool_run_first_line(&target, address, sizeof(address));
    PERF("--target", address, "--key-file", other);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "HG_PERMISSION"));
    PERF("--target", address);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "HG_PERMISSION"));
    PERF("--target", address, "--key-file", key);
    assert_int_equal(run.code, 0);
    target_stop();
    tool_run_start(&target, hg_perf, TEST_INIT, "rpc", "--listen", NULL);
    tool_run_first_line(&target, address, sizeof(address));
    PERF("--target", address, "--key-file", key);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "HG_PERMISSION"));
    target_stop();
}

/* Neither tool starts with such a file, and both say why. */
static void files_that_are_no_key_are_refused(void **state)
{
    static const struct {
        const char *text;
        size_t size;
        mode_t mode;
        const char *why;
    } files[] = {
        {"correct horse\n", 14, 0640, "(mode 640): chmod 600"},
        {"correct horse\n", 14, 0604, "(mode 604): chmod 600"},
        {"", 0, 0600, "is no key"},
        {"\ncorrect horse\n", 15, 0600, "is no key"},
        {"a\0b", 3, 0600, "is no key"},
    };
    char path[128], copy[128], long_text[300];

    (void) state;
    (void) strcpy(copy, path_of("copy"));
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        write_file(path, "bad", files[i].text, files[i].size, files[i].mode);
        PERF("--key-file", path);
        assert_int_equal(run.code, 1);
        assert_non_null(strstr(run.err, files[i].why));
        tool_run(&run, hg_cp, TEST_INIT, "--key-file", path, key, copy);
        assert_int_equal(run.code, 1);
        assert_non_null(strstr(run.err, files[i].why));
        assert_int_equal(access(copy, F_OK), -1);
    }
    memset(long_text, 'k', sizeof(long_text));
    write_file(path, "long", long_text, sizeof(long_text), 0600);
    PERF("--key-file", path);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "is no key"));
    PERF("--key-file", path_of("missing"));
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "cannot open"));
    tool_run(&run, hg_cp, TEST_INIT, "--key-file", path_of("missing"), key, copy);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "cannot open"));
}

static void encryption_needs_a_key(void **state)
{
    char copy[128];

    (void) state;
    (void) strcpy(copy, path_of("copy"));
    PERF("--encrypt");
    assert_int_equal(run.code, 2);
    assert_non_null(strstr(run.err, "--encrypt needs a key"));
    tool_run(&run, hg_cp, TEST_INIT, "--encrypt", key, copy);
    assert_int_equal(run.code, 2);
    assert_non_null(strstr(run.err, "--encrypt needs a key"));
    assert_int_equal(access(copy, F_OK), -1);
}

/*
 * If the transport encrypts, the tools encrypt to a peer that does so as well; otherwise they
 * refuse to start.
 */
static void both_sides_encrypt_or_neither(void **state)
{
    char inbox[128], copy[128];

    (void) state;
    PERF("--key-file", key, "--encrypt");
    if (test_is_sm()) {
        assert_int_equal(run.code, 1);
        assert_non_null(strstr(run.err, "encrypt"));
        return;
    }
    assert_int_equal(run.code, 0);
    tool_run(&run, hg_perf, TEST_INIT, "bulk", "--seconds", "0.1", "--key-file", key, "--encrypt");
    assert_int_equal(run.code, 0);
    tool_run_start(&target, hg_perf, TEST_INIT, "rpc", "--listen", "--key-file", key, "--encrypt",
                   NULL);
    tool_run_first_line(&target, address, sizeof(address));
    PERF("--target", address, "--key-file", key);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "HG_PERMISSION"));
    PERF("--target", address, "--key-file", other, "--encrypt");
    assert_int_equal(run.code, 1);
    PERF("--target", address, "--key-file", key, "--encrypt");
    assert_int_equal(run.code, 0);
    target_stop();
    (void) strcpy(inbox, path_of("inbox"));
    assert_int_equal(mkdir(inbox, 0700), 0);
    tool_run_start(&target, hg_cp, TEST_INIT, "--listen", "--dir", inbox, "--key-file", key,
                   "--encrypt", NULL);
    tool_run_first_line(&target, address, sizeof(address));
    tool_run(&run, hg_cp, TEST_INIT, "--to", address, "--key-file", key, other);
    assert_int_equal(run.code, 1);
    (void) strcpy(copy, path_of("inbox/other"));
    assert_int_equal(access(copy, F_OK), -1);
    tool_run(&run, hg_cp, TEST_INIT, "--to", address, "--key-file", key, "--encrypt", other);
    assert_int_equal(run.code, 0);
    assert_int_equal(access(copy, F_OK), 0);
    target_stop();
}

int main(int argc, char **argv)
{
#define KEY_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        KEY_TEST(a_key_is_for_both_sides),           KEY_TEST(another_key_or_none_is_refused),
        KEY_TEST(files_that_are_no_key_are_refused), KEY_TEST(encryption_needs_a_key),
        KEY_TEST(both_sides_encrypt_or_neither),
    };

    if (argc != 3)
        return 1;
    hg_perf = argv[1];
    hg_cp = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
