/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a tool as a process and keeps its output. */

#ifndef AMALGAM_TEST_TOOL_RUN_H
#define AMALGAM_TEST_TOOL_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <json-c/json.h>

#define TOOL_RUN_OUTPUT_SIZE (1U << 20)
#define TOOL_RUN_ARGS_MAX    32

/* A process and its output. */
struct tool_run {
    pid_t pid;
    int out_fd, err_fd;
    int code;                       /* exit code, or minus the signal that killed it */
    char out[TOOL_RUN_OUTPUT_SIZE]; /* stdout and stderr, ended by a zero */
    char err[TOOL_RUN_OUTPUT_SIZE];
};

/*
 * Start the program `path` with the arguments, the last of which is NULL, in its own process group.
 */
void tool_run_start(struct tool_run *run, const char *path, ...) __attribute__((sentinel));

/* Wait for the end of the process; the test fails if that takes longer. */
void tool_run_wait(struct tool_run *run, unsigned int seconds);

/* Start a process and wait for its end, for at most two minutes. */
#define tool_run(run, ...)                      \
    do {                                        \
        tool_run_start(run, __VA_ARGS__, NULL); \
        tool_run_wait(run, 120);                \
    } while (0)

/* Wait until the process has printed a line, and copy the line. */
void tool_run_first_line(struct tool_run *run, char *line, size_t line_size);

/* The init string under test, which is AMALGAM_TEST_INIT or "na+sm"; and whether it is "na+sm". */
const char *test_init_string(void);
bool test_is_sm(void);

/* The arguments that make a tool use this init string. */
#define TEST_INIT "--init", test_init_string()

/* Skips the rest of a test that applies to shared memory only, when another transport is tested. */
#define TEST_NEEDS_SM()                                                 \
    do {                                                                \
        if (!test_is_sm()) {                                            \
            print_message("skipped: only for transports like na+sm\n"); \
            skip();                                                     \
        }                                                               \
    } while (0)

/* Number of lines in a text, without those of the library's log. */
unsigned int tool_count_lines(const char *text);

/* Limit the size of files that processes started from now on may write; 0: no limit. */
void tool_run_limit_file_size(unsigned long size);

/* Parse the output as JSON; the caller owns the object. */
struct json_object *tool_run_json(const struct tool_run *run);

/* Get a member by its path, names separated by dots; the test fails if the member is missing. */
struct json_object *tool_json_at(struct json_object *object, const char *path);
double tool_json_number(struct json_object *object, const char *path);
const char *tool_json_string(struct json_object *object, const char *path);

/* Create a temporary directory; remove it with its contents. */
void tool_temp_dir(char *path, size_t size);
void tool_temp_dir_remove(const char *path);

/* Living children of a process. */
unsigned int tool_children(pid_t pid, pid_t *children, unsigned int max);

#endif /* AMALGAM_TEST_TOOL_RUN_H */
