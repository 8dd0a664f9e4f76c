/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_cp copies files of any size completely or not at all, does not leave its directory, and
 * reports errors.
 */

#include <dirent.h>
#include <fcntl.h>
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

#define MIB (1024UL * 1024UL)

static const char *hg_cp;
static struct tool_run run, target, second_target;
static char dir[64], source[128], inbox[128], address[512];

static int set_up(void **state)
{
    (void) state;
    tool_temp_dir(dir, sizeof(dir));
    (void) snprintf(source, sizeof(source), "%s/source", dir);
    (void) snprintf(inbox, sizeof(inbox), "%s/inbox", dir);
    memset(&target, 0, sizeof(target));
    memset(&second_target, 0, sizeof(second_target));
    return mkdir(inbox, 0700);
}

static int tear_down(void **state)
{
    (void) state;
    if (target.pid > 0)
        (void) kill(target.pid, SIGKILL);
    if (second_target.pid > 0)
        (void) kill(second_target.pid, SIGKILL);
    if (run.pid > 0)
        (void) kill(run.pid, SIGCONT);
    tool_temp_dir_remove(dir);
    return 0;
}

/* Create a file in which no two blocks are equal, or a hole for zeros. */
static void make_file(const char *path, unsigned long size, bool zeros)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    uint64_t block[512], number = 1;

    assert_true(fd >= 0);
    for (unsigned long done = 0; !zeros && done < size; done += sizeof(block)) {
        unsigned long part = size - done < sizeof(block) ? size - done : sizeof(block);

        for (size_t i = 0; i < 512; i++)
            block[i] = number++ * UINT64_C(0x9e3779b97f4a7c15);
        assert_int_equal(write(fd, block, part), (ssize_t) part);
    }
    assert_int_equal(ftruncate(fd, (off_t) size), 0);
    assert_int_equal(close(fd), 0);
}

static void assert_same_contents(const char *a, const char *b)
{
    static char left[MIB], right[MIB];
    int a_fd = open(a, O_RDONLY | O_CLOEXEC), b_fd = open(b, O_RDONLY | O_CLOEXEC);
    ssize_t got;

    assert_true(a_fd >= 0 && b_fd >= 0);
    do {
        got = read(a_fd, left, sizeof(left));
        assert_true(got >= 0);
        assert_int_equal(read(b_fd, right, sizeof(right)), got);
        assert_int_equal(memcmp(left, right, (size_t) got), 0);
    } while (got > 0);
    (void) close(a_fd);
    (void) close(b_fd);
}

/* Number of files in a directory. If one of them is a partial copy, its size is stored. */
static unsigned int count_files(const char *path, off_t *part_size)
{
    DIR *entries = opendir(path);
    unsigned int count = 0;
    struct dirent *entry;
    struct stat status;

    assert_non_null(entries);
    while ((entry = readdir(entries)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        if (part_size != NULL && strncmp(entry->d_name, ".hg_cp-", 7) == 0 &&
            fstatat(dirfd(entries), entry->d_name, &status, 0) == 0)
            *part_size = status.st_size;
    }
    (void) closedir(entries);
    return count;
}

static bool part_is_written(void)
{
    off_t part_size = 0;

    for (unsigned int i = 0; i < 20000 && part_size < (off_t) MIB; i++) {
        (void) count_files(inbox, &part_size);
        usleep(500);
    }
    return part_size >= (off_t) MIB;
}

static void wait_until_part_is_written(void)
{
    assert_true(part_is_written());
}

static void wait_until_inbox_is_empty(void)
{
    for (unsigned int i = 0; i < 10000 && count_files(inbox, NULL) > 0; i++)
        usleep(1000);
    assert_int_equal(count_files(inbox, NULL), 0);
}

static void start_target(const char *option)
{
    tool_run_start(&target, hg_cp, TEST_INIT, "--listen", "--dir", inbox, option, NULL);
    tool_run_first_line(&target, address, sizeof(address));
}

static void stop_target(void)
{
    assert_int_equal(kill(target.pid, SIGTERM), 0);
    tool_run_wait(&target, 10);
    assert_int_equal(target.code, 128 + SIGTERM);
    target.pid = 0;
}

static void kill_target(void)
{
    assert_int_equal(kill(target.pid, SIGKILL), 0);
    tool_run_wait(&target, 10);
    target.pid = 0;
}

/* Start a copy of a sparse file to a target of the test's own, and wait until it has begun. */
static void start_copy(unsigned long size)
{
    make_file(source, size, true);
    start_target(NULL);
    tool_run_start(&run, hg_cp, TEST_INIT, "--to", address, source, NULL);
    wait_until_part_is_written();
}

static void copies_files_of_all_sizes(void **state)
{
    static const unsigned long sizes[] = {0, 1, 4095, 4096, 4097, MIB - 1, MIB + 1, 100 * MIB};
    char copy[160];

    (void) state;
    (void) snprintf(copy, sizeof(copy), "%s/copy", inbox);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct stat status;

        make_file(source, sizes[i], false);
        tool_run(&run, hg_cp, TEST_INIT, source, copy);
        assert_int_equal(run.code, 0);
        assert_non_null(strstr(run.out, "XXH3-128"));
        assert_same_contents(source, copy);
        assert_int_equal(stat(copy, &status), 0);
        assert_int_equal(status.st_mode & 0137, 0);
        assert_int_equal(unlink(copy), 0);
        assert_int_equal(count_files(inbox, NULL), 0);
    }
}

static void copies_with_blocks_that_do_not_fit_the_parts(void **state)
{
    char copy[160];

    (void) state;
    (void) snprintf(copy, sizeof(copy), "%s/source", inbox);
    make_file(source, 5 * MIB + 77, false);
    tool_run(&run, hg_cp, TEST_INIT, "--block-size", "100001", "--depth", "3", "--part-size", "64k",
             source, inbox);
    assert_int_equal(run.code, 0);
    assert_same_contents(source, copy);
}

static void sends_files_to_a_target_that_runs_already(void **state)
{
    char copy[160];

    (void) state;
    make_file(source, 3 * MIB, false);
    start_target(NULL);
    tool_run(&run, hg_cp, TEST_INIT, "--to", address, source);
    assert_int_equal(run.code, 0);
    tool_run(&run, hg_cp, TEST_INIT, "--to", address, source, "other name");
    assert_int_equal(run.code, 0);
    (void) snprintf(copy, sizeof(copy), "%s/source", inbox);
    assert_same_contents(source, copy);
    (void) snprintf(copy, sizeof(copy), "%s/other name", inbox);
    assert_same_contents(source, copy);
    stop_target();
}

static const char *write_key(const char *name, const char *text, mode_t mode)
{
    static char path[160];
    FILE *file;

    (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

/* The target has the right key. The origin has a wrong key, none, and then the right one. */
static void with_the_right_key_alone_a_target_takes_files(void **state)
{
    char right[160], wrong[160], copy[160];

    (void) state;
    (void) snprintf(copy, sizeof(copy), "%s/source", inbox);
    (void) strcpy(right, write_key("right", "correct horse\nand a second line\n", 0600));
    (void) strcpy(wrong, write_key("wrong", "battery staple", 0400));
    make_file(source, 3 * MIB, false);
    tool_run_start(&target, hg_cp, TEST_INIT, "--listen", "--dir", inbox, "--key-file", right,
                   NULL);
    tool_run_first_line(&target, address, sizeof(address));
    tool_run(&run, hg_cp, TEST_INIT, "--to", address, "--key-file", wrong, source);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "it has another key than this side"));
    tool_run(&run, hg_cp, TEST_INIT, "--to", address, source);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "it wants a key, and this side has none"));
    assert_int_equal(count_files(inbox, NULL), 0);
    tool_run(&run, hg_cp, TEST_INIT, "--to", address, "--key-file", right, source);
    assert_int_equal(run.code, 0);
    assert_same_contents(source, copy);
    assert_int_equal(setenv("HG_CP_KEY", "correct horse", 1), 0);
    tool_run(&run, hg_cp, TEST_INIT, "--to", address, source, "again");
    (void) unsetenv("HG_CP_KEY");
    assert_int_equal(run.code, 0);
    stop_target();
}

/* A target that hg_cp starts gets the key; a target without a key is refused. */
static void a_key_reaches_the_target_that_is_started(void **state)
{
    char key[160], copy[160];

    (void) state;
    (void) snprintf(copy, sizeof(copy), "%s/source", inbox);
    (void) strcpy(key, write_key("key", "correct horse", 0600));
    make_file(source, 100, false);
    tool_run(&run, hg_cp, TEST_INIT, "--key-file", key, source, inbox);
    assert_int_equal(run.code, 0);
    assert_same_contents(source, copy);
    start_target(NULL);
    tool_run(&run, hg_cp, TEST_INIT, "--to", address, "--key-file", key, source);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "or none"));
    stop_target();
}

static void what_is_no_key_is_refused(void **state)
{
    (void) state;
    make_file(source, 100, false);
    tool_run(&run, hg_cp, TEST_INIT, "--key-file", write_key("open", "key", 0644), source, inbox);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "mode 644): chmod 600"));
    tool_run(&run, hg_cp, TEST_INIT, "--key-file", write_key("empty", "\n", 0600), source, inbox);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "is no key"));
    tool_run(&run, hg_cp, TEST_INIT, "--key-file", "/nowhere/key", source, inbox);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "cannot open '/nowhere/key'"));
    assert_int_equal(setenv("HG_CP_KEY", "", 1), 0);
    tool_run(&run, hg_cp, TEST_INIT, source, inbox);
    (void) unsetenv("HG_CP_KEY");
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "HG_CP_KEY is no key"));
    assert_int_equal(count_files(inbox, NULL), 0);
}

static void writes_its_address_to_a_file(void **state)
{
    char path[160], line[512] = "";
    FILE *file;

    (void) state;
    (void) snprintf(path, sizeof(path), "%s/address", dir);
    tool_run_start(&target, hg_cp, TEST_INIT, "--listen", "--dir", inbox, "--address-file", path,
                   NULL);
    tool_run_first_line(&target, address, sizeof(address));
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    (void) fclose(file);
    line[strcspn(line, "\n")] = '\0';
    assert_string_equal(line, address);
    stop_target();
}

static void target_refuses_names_that_leave_its_directory(void **state)
{
    static const char *const names[] = {"../stolen", "a/b", "/tmp/amalgam-stolen", "..",
                                        ".",         "",    "line\nbreak",         ".hg_cp-fake"};

    (void) state;
    make_file(source, 100, false);
    start_target(NULL);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        tool_run(&run, hg_cp, TEST_INIT, "--to", address, source, names[i]);
        assert_int_equal(run.code, 1);
        assert_non_null(strstr(run.err, "refuses the name"));
    }
    assert_int_equal(count_files(inbox, NULL), 0);
    assert_int_equal(count_files(dir, NULL), 2);
    stop_target();
}

static void overwrites_only_when_both_sides_want_it(void **state)
{
    char copy[160];

    (void) state;
    (void) snprintf(copy, sizeof(copy), "%s/source", inbox);
    make_file(source, 100, false);
    make_file(copy, 50, false);
    start_target(NULL);
    tool_run(&run, hg_cp, TEST_INIT, "--to", address, source);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "--force"));
    tool_run(&run, hg_cp, TEST_INIT, "--force", "--to", address, source);
    assert_int_equal(run.code, 1);
    stop_target();
    start_target("--force");
    tool_run(&run, hg_cp, TEST_INIT, "--to", address, source);
    assert_int_equal(run.code, 1);
    tool_run(&run, hg_cp, TEST_INIT, "--force", "--to", address, source);
    assert_int_equal(run.code, 0);
    assert_same_contents(source, copy);
    stop_target();
}

static void fails_in_time_when_the_target_is_killed(void **state)
{
    (void) state;
    start_copy(2048 * MIB);
    kill_target();
    tool_run_wait(&run, 10);
    assert_int_equal(run.code, 1);
    assert_true(strlen(run.err) > 0);
}

static void target_drops_the_part_when_the_origin_is_killed(void **state)
{
    (void) state;
    start_copy(2048 * MIB);
    assert_int_equal(kill(run.pid, SIGKILL), 0);
    tool_run_wait(&run, 10);
    wait_until_inbox_is_empty();
    make_file(source, 1000, false);
    tool_run(&run, hg_cp, TEST_INIT, "--to", address, source); /* the target still works */
    assert_int_equal(run.code, 0);
    stop_target();
}

static void next_target_removes_the_part_of_a_killed_one(void **state)
{
    (void) state;
    start_copy(2048 * MIB);
    kill_target();
    tool_run_wait(&run, 20);
    assert_int_equal(count_files(inbox, NULL), 1);
    start_target(NULL);
    assert_int_equal(count_files(inbox, NULL), 0);
    stop_target();
}

static void next_target_leaves_the_part_of_a_living_one(void **state)
{
    char copy[160], other_address[512];

    (void) state;
    (void) snprintf(copy, sizeof(copy), "%s/source", inbox);
    start_copy(400 * MIB);
    assert_int_equal(kill(run.pid, SIGSTOP), 0);
    tool_run_start(&second_target, hg_cp, TEST_INIT, "--listen", "--dir", inbox, NULL);
    tool_run_first_line(&second_target, other_address, sizeof(other_address));
    assert_int_equal(count_files(inbox, NULL), 1);
    assert_int_equal(kill(run.pid, SIGCONT), 0);
    tool_run_wait(&run, 60);
    assert_int_equal(run.code, 0);
    assert_same_contents(source, copy);
    assert_int_equal(kill(second_target.pid, SIGTERM), 0);
    tool_run_wait(&second_target, 10);
    second_target.pid = 0;
    stop_target();
}

/*
 * The origin is stopped until the target has received everything that was sent, so that no part of
 * the file is in flight when the origin dies. The stop alone does no harm.
 */
static void target_notices_the_death_of_a_silent_origin(void **state)
{
    (void) state;
    make_file(source, 2048 * MIB, true);
    start_target(NULL);
    tool_run_start(&run, hg_cp, TEST_INIT, "--part-size", "1M", "--to", address, source, NULL);
    wait_until_part_is_written();
    assert_int_equal(kill(run.pid, SIGSTOP), 0);
    sleep(3);
    assert_int_equal(count_files(inbox, NULL), 1);
    assert_int_equal(kill(run.pid, SIGKILL), 0);
    tool_run_wait(&run, 10);
    wait_until_inbox_is_empty();
    stop_target();
    assert_non_null(strstr(target.err, "dropped 'source'"));
}

static void target_started_under_nohup_outlives_the_terminal(void **state)
{
    (void) state;
    (void) signal(SIGHUP, SIG_IGN);
    start_target(NULL);
    (void) signal(SIGHUP, SIG_DFL);
    assert_int_equal(kill(target.pid, SIGHUP), 0);
    make_file(source, 1000, false);
    tool_run(&run, hg_cp, TEST_INIT, "--to", address, source);
    assert_int_equal(run.code, 0);
    stop_target();
}

static void a_signal_removes_the_part_and_the_target(void **state)
{
    pid_t children[4];
    char copy[160];

    (void) state;
    (void) snprintf(copy, sizeof(copy), "%s/copy", inbox);
    make_file(source, 2048 * MIB, true);
    tool_run_start(&run, hg_cp, TEST_INIT, source, copy, NULL);
    wait_until_part_is_written();
    assert_int_equal(tool_children(run.pid, children, 4), 1);
    assert_int_equal(kill(-run.pid, SIGINT), 0); /* Ctrl-C signals the whole process group */
    tool_run_wait(&run, 20);
    assert_int_equal(run.code, 128 + SIGINT);
    assert_int_equal(tool_count_lines(run.err), 1);
    assert_non_null(strstr(run.err, "nothing was copied"));
    assert_int_equal(kill(children[0], 0), -1);
    assert_int_equal(count_files(inbox, NULL), 0);
}

static void gives_up_when_the_target_says_nothing(void **state)
{
    /* On a busy machine, a target may send nothing for a second although it is not stopped. */
    static const char *const timeouts[] = {"1", "4", "16"};
    bool is_copying = false;

    (void) state;
    make_file(source, 2048 * MIB, true);
    start_target(NULL);
    for (unsigned int i = 0; i < 3 && !is_copying; i++) {
        if (i > 0)
            tool_run_wait(&run, 20);
        wait_until_inbox_is_empty();
        tool_run_start(&run, hg_cp, TEST_INIT, "--timeout", timeouts[i], "--to", address, source,
                       NULL);
        is_copying = part_is_written();
    }
    assert_true(is_copying);
    assert_int_equal(kill(target.pid, SIGSTOP), 0);
    tool_run_wait(&run, 60);
    assert_int_equal(kill(target.pid, SIGCONT), 0);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "--timeout"));
    wait_until_inbox_is_empty();
    stop_target();
}

static void a_file_that_becomes_shorter_is_not_copied(void **state)
{
    (void) state;
    start_copy(2048 * MIB);
    assert_int_equal(kill(target.pid, SIGSTOP), 0);
    assert_int_equal(truncate(source, MIB), 0);
    assert_int_equal(kill(target.pid, SIGCONT), 0);
    tool_run_wait(&run, 30);
    assert_int_equal(run.code, 1);
    assert_true(strlen(run.err) > 0);
    wait_until_inbox_is_empty();
    stop_target();
}

static void a_write_that_fails_is_reported_and_leaves_nothing(void **state)
{
    char copy[160];

    (void) state;
    (void) snprintf(copy, sizeof(copy), "%s/copy", inbox);
    make_file(source, 20 * MIB, false);
    tool_run_limit_file_size(10 * MIB);
    tool_run(&run, hg_cp, TEST_INIT, source, copy);
    tool_run_limit_file_size(0);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "cannot write"));
    assert_int_equal(count_files(inbox, NULL), 0);
}

static void says_what_is_wrong_with_a_source(void **state)
{
    char missing[160];

    (void) state;
    (void) snprintf(missing, sizeof(missing), "%s/missing", dir);
    tool_run(&run, hg_cp, TEST_INIT, missing, inbox);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "missing"));
    tool_run(&run, hg_cp, TEST_INIT, dir, inbox);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "directory"));
    tool_run(&run, hg_cp, TEST_INIT, "/dev/null", inbox);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "regular"));
    make_file(source, 10, false);
    tool_run(&run, hg_cp, TEST_INIT, source, "/nonexistent-directory/copy");
    assert_int_equal(run.code, 1);
    assert_int_equal(tool_count_lines(run.err), 1);
    assert_non_null(strstr(run.err, "no directory '/nonexistent-directory/'"));
    assert_int_equal(count_files(inbox, NULL), 0);
}

static void output_that_is_lost_is_a_failure(void **state)
{
    static const char script[] = "exec \"$0\" \"$@\" >/dev/full";
    char copy[160];

    (void) state;
    (void) snprintf(copy, sizeof(copy), "%s/copy", dir);
    make_file(source, 10, false);
    tool_run(&run, "/bin/sh", "-c", script, hg_cp, TEST_INIT, source, copy);
    assert_int_equal(run.code, 1);
    assert_int_equal(tool_count_lines(run.err), 1);
    assert_non_null(strstr(run.err, "was copied"));
    assert_int_equal(unlink(copy), 0);
    tool_run(&run, "/bin/sh", "-c", script, hg_cp, TEST_INIT, "--quiet", source, copy);
    assert_int_equal(run.code, 0);
    assert_int_equal(unlink(copy), 0);
    tool_run(&run, "/bin/sh", "-c", script, hg_cp, TEST_INIT, "--listen", "--dir", inbox);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "cannot write the address"));
}

static void says_that_there_is_no_such_target(void **state)
{
    (void) state;
    TEST_NEEDS_SM();
    make_file(source, 10, false);
    tool_run(&run, hg_cp, "--to", "na+sm://no-such-endpoint", source);
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "no-such-endpoint"));
}

static void a_named_endpoint_is_the_targets_alone(void **state)
{
    (void) state;
    TEST_NEEDS_SM();
    make_file(source, 10, false);
    tool_run(&run, hg_cp, "--init", "na+sm://amalgam-tools-test", source, inbox);
    assert_int_equal(run.code, 0);
}

static void refuses_wrong_command_lines_with_code_2(void **state)
{
    (void) state;
    tool_run(&run, hg_cp);
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_cp, TEST_INIT, "only-one");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_cp, TEST_INIT, "--listen", "--to", "x");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_cp, TEST_INIT, "--block-size", "12", "a", "b");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_cp, TEST_INIT, "--part-size", "5000", "a", "b");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_cp, TEST_INIT, "--nonsense");
    assert_int_equal(run.code, 2);
    assert_non_null(strstr(run.err, "--nonsense"));
    tool_run(&run, hg_cp, "--force=yes", "a", "b");
    assert_int_equal(run.code, 2);
    assert_non_null(strstr(run.err, "--force takes no value"));
    tool_run(&run, hg_cp, "-xyz", "a", "b");
    assert_int_equal(run.code, 2);
    assert_non_null(strstr(run.err, "-x is not an option"));
    tool_run(&run, hg_cp, "a", "b", "--depth");
    assert_int_equal(run.code, 2);
    assert_non_null(strstr(run.err, "--depth needs a value"));
    tool_run(&run, hg_cp, "-h");
    assert_int_equal(run.code, 0);
    tool_run(&run, hg_cp, TEST_INIT, "--help");
    assert_int_equal(run.code, 0);
    assert_non_null(strstr(run.out, "--block-size"));
}

#define CP_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        CP_TEST(copies_files_of_all_sizes),
        CP_TEST(copies_with_blocks_that_do_not_fit_the_parts),
        CP_TEST(sends_files_to_a_target_that_runs_already),
        CP_TEST(with_the_right_key_alone_a_target_takes_files),
        CP_TEST(a_key_reaches_the_target_that_is_started),
        CP_TEST(what_is_no_key_is_refused),
        CP_TEST(writes_its_address_to_a_file),
        CP_TEST(fails_in_time_when_the_target_is_killed),
        CP_TEST(target_drops_the_part_when_the_origin_is_killed),
        CP_TEST(next_target_removes_the_part_of_a_killed_one),
        CP_TEST(next_target_leaves_the_part_of_a_living_one),
        CP_TEST(target_notices_the_death_of_a_silent_origin),
        CP_TEST(a_signal_removes_the_part_and_the_target),
        CP_TEST(gives_up_when_the_target_says_nothing),
        CP_TEST(a_file_that_becomes_shorter_is_not_copied),
    };
    /* Tests that do not depend on the transport. */
    const struct CMUnitTest of_the_tool[] = {
        CP_TEST(target_refuses_names_that_leave_its_directory),
        CP_TEST(overwrites_only_when_both_sides_want_it),
        CP_TEST(target_started_under_nohup_outlives_the_terminal),
        CP_TEST(a_write_that_fails_is_reported_and_leaves_nothing),
        CP_TEST(says_what_is_wrong_with_a_source),
        CP_TEST(output_that_is_lost_is_a_failure),
        CP_TEST(says_that_there_is_no_such_target),
        CP_TEST(a_named_endpoint_is_the_targets_alone),
        CP_TEST(refuses_wrong_command_lines_with_code_2),
    };
    int failed;

    if (argc != 2)
        return 2;
    hg_cp = argv[1];
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (test_is_sm())
        failed += cmocka_run_group_tests(of_the_tool, NULL, NULL);
    return failed;
}
