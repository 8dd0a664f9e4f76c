/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a tool as a process and keeps what it printed. */

#ifndef AMALGAM_TEST_TOOL_RUN_H
#define AMALGAM_TEST_TOOL_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <json-c/json.h>

#define TOOL_RUN_OUTPUT_SIZE (1U << 20)
#define TOOL_RUN_ARGS_MAX    32

/* A process and what it printed. */
struct tool_run {
    pid_t pid;
    int out_fd, err_fd;
    int code;                       /* exit code, or minus the signal that killed it */
    char out[TOOL_RUN_OUTPUT_SIZE]; /* stdout and stderr, ended by a zero */
    char err[TOOL_RUN_OUTPUT_SIZE];
};

/* Starts path with arguments, the last of which is NULL, in a process group of its own. */
void tool_run_start(struct tool_run *run, const char *path, ...) __attribute__((sentinel));

/* Waits for it; a test fails when that takes longer. */
void tool_run_wait(struct tool_run *run, unsigned int seconds);

/* Both, with two minutes. */
#define tool_run(run, ...)                      \
    do {                                        \
        tool_run_start(run, __VA_ARGS__, NULL); \
        tool_run_wait(run, 120);                \
    } while (0)

/* Waits until the process has printed a line, and copies that. */
void tool_run_first_line(struct tool_run *run, char *line, size_t line_size);

/* The init string under test: AMALGAM_TEST_INIT, na+sm by default; and whether it is that. */
const char *test_init_string(void);
bool test_is_sm(void);

/* What tells a tool to use it. */
#define TEST_INIT "--init", test_init_string()

/* Skips the rest of a test that is about shared memory when another transport is tested. */
#define TEST_NEEDS_SM()                                                 \
    do {                                                                \
        if (!test_is_sm()) {                                            \
            print_message("skipped: only for transports like na+sm\n"); \
            skip();                                                     \
        }                                                               \
    } while (0)

/* Lines of a text but for those of the library's log. */
unsigned int tool_count_lines(const char *text);

/* Processes that are started from now on may write files up to this size; 0: any. */
void tool_run_limit_file_size(unsigned long size);

/* What was printed, as JSON; the caller owns it. */
struct json_object *tool_run_json(const struct tool_run *run);

/* A member, by names separated by dots; the test fails when it is not there. */
struct json_object *tool_json_at(struct json_object *object, const char *path);
double tool_json_number(struct json_object *object, const char *path);
const char *tool_json_string(struct json_object *object, const char *path);

/* A new directory; removed with all that is in it. */
void tool_temp_dir(char *path, size_t size);
void tool_temp_dir_remove(const char *path);

/* Children of a process that are alive. */
unsigned int tool_children(pid_t pid, pid_t *children, unsigned int max);

#endif /* AMALGAM_TEST_TOOL_RUN_H */
