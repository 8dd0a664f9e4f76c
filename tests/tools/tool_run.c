/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a tool as a process. */

#include "tool_run.h"

#include <ftw.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static unsigned long file_size_limit;

static void run_child(struct tool_run *run, char *const argv[]);
static void run_collect(int fd, char *text);
static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk);

void tool_run_start(struct tool_run *run, const char *path, ...)
{
    char *argv[TOOL_RUN_ARGS_MAX + 2];
    unsigned int count = 0;
    va_list args;

    va_start(args, path);
    argv[count++] = (char *) path;
    while (count <= TOOL_RUN_ARGS_MAX && (argv[count] = va_arg(args, char *)) != NULL)
        count++;
    va_end(args);
    assert_true(count <= TOOL_RUN_ARGS_MAX);
    memset(run, 0, sizeof(*run));
    run->out_fd = memfd_create("stdout", MFD_CLOEXEC);
    run->err_fd = memfd_create("stderr", MFD_CLOEXEC);
    assert_true(run->out_fd >= 0 && run->err_fd >= 0);
    run->pid = fork();
    assert_true(run->pid >= 0);
    if (run->pid == 0)
        run_child(run, argv);
    (void) setpgid(run->pid, run->pid); /* in parent and child, whichever is first */
}

void tool_run_wait(struct tool_run *run, unsigned int seconds)
{
    pid_t ended = 0;
    int status = 0;

    for (unsigned int i = 0; i < seconds * 1000 && ended == 0; i++) {
        ended = waitpid(run->pid, &status, WNOHANG);
        if (ended == 0)
            usleep(1000);
    }
    if (ended == 0) {
        (void) kill(run->pid, SIGKILL);
        (void) waitpid(run->pid, NULL, 0);
    }
    run_collect(run->out_fd, run->out);
    run_collect(run->err_fd, run->err);
    if (ended != run->pid)
        fail_msg("not finished after %u s: %s%s", seconds, run->out, run->err);
    run->code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    if (run->err[0] != '\0')
        print_message("stderr: %s", run->err);
}

void tool_run_first_line(struct tool_run *run, char *line, size_t line_size)
{
    for (unsigned int i = 0; i < 20000; i++) {
        ssize_t got = pread(run->out_fd, line, line_size - 1, 0);
        char *end;

        line[got > 0 ? got : 0] = '\0';
        end = strchr(line, '\n');
        if (end != NULL) {
            *end = '\0';
            return;
        }
        usleep(1000);
    }
    fail_msg("no line was printed");
}

const char *test_init_string(void)
{
    const char *string = getenv("AMALGAM_TEST_INIT");

    return string != NULL && string[0] != '\0' ? string : "na+sm";
}

bool test_is_sm(void)
{
    return strcmp(test_init_string(), "na+sm") == 0;
}

unsigned int tool_count_lines(const char *text)
{
    unsigned int count = 0;

    for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        count += strncmp(line, "# [", 3) != 0;
    return count;
}

void tool_run_limit_file_size(unsigned long size)
{
    file_size_limit = size;
}

struct json_object *tool_run_json(const struct tool_run *run)
{
    struct json_tokener *tokener = json_tokener_new_ex(64);
    struct json_object *object;

    assert_non_null(tokener);
    object = json_tokener_parse_ex(tokener, run->out, (int) strlen(run->out));
    if (json_tokener_get_error(tokener) != json_tokener_success || object == NULL)
        fail_msg("not JSON: %s%s", run->out, run->err);
    /* There is a single object, and nothing follows it. */
    assert_int_equal(strspn(run->out + json_tokener_get_parse_end(tokener), "\n"),
                     strlen(run->out + json_tokener_get_parse_end(tokener)));
    json_tokener_free(tokener);
    return object;
}

struct json_object *tool_json_at(struct json_object *object, const char *path)
{
    char name[128];

    while (*path != '\0') {
        size_t len = strcspn(path, ".");

        (void) snprintf(name, sizeof(name), "%.*s", (int) len, path);
        if (!json_object_object_get_ex(object, name, &object))
            fail_msg("no member '%s'", path);
        path += len;
        if (*path == '.')
            path++;
    }
    return object;
}

double tool_json_number(struct json_object *object, const char *path)
{
    struct json_object *member = tool_json_at(object, path);

    assert_true(json_object_is_type(member, json_type_double) ||
                json_object_is_type(member, json_type_int));
    assert_true(isfinite(json_object_get_double(member)));
    return json_object_get_double(member);
}

const char *tool_json_string(struct json_object *object, const char *path)
{
    struct json_object *member = tool_json_at(object, path);

    assert_true(json_object_is_type(member, json_type_string));
    return json_object_get_string(member);
}

void tool_temp_dir(char *path, size_t size)
{
    (void) snprintf(path, size, "/tmp/amalgam-tools-XXXXXX");
    assert_non_null(mkdtemp(path));
}

void tool_temp_dir_remove(const char *path)
{
    (void) nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

unsigned int tool_children(pid_t pid, pid_t *children, unsigned int max)
{
    char path[64];
    unsigned int count = 0;
    FILE *file;

    (void) snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int) pid, (int) pid);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    while (count < max && fscanf(file, "%d", &children[count]) == 1)
        count++;
    (void) fclose(file);
    return count;
}

static void run_child(struct tool_run *run, char *const argv[])
{
    struct rlimit limit = {file_size_limit, file_size_limit};

    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void) setpgid(0, 0);
    (void) signal(SIGINT, SIG_DFL); /* background jobs of a shell inherit it as ignored */
    (void) dup2(run->out_fd, STDOUT_FILENO);
    (void) dup2(run->err_fd, STDERR_FILENO);
    if (file_size_limit != 0)
        (void) setrlimit(RLIMIT_FSIZE, &limit);
    (void) execv(argv[0], argv);
    _exit(127);
}

static void run_collect(int fd, char *text)
{
    ssize_t got = pread(fd, text, TOOL_RUN_OUTPUT_SIZE - 1, 0);

    text[got > 0 ? got : 0] = '\0';
    (void) close(fd);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void) status;
    (void) type;
    (void) walk;
    return remove(path);
}
