/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Child processes of integration tests: the test program executes itself again in another role. The
 * test and the child exchange lines over two pipes; the test kills the child or waits for its end.
 */
#ifndef TESTS_INTEGRATION_CHILD_H
#define TESTS_INTEGRATION_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct child {
    pid_t pid;
    int to;   /* its standard input */
    int from; /* its standard output */
};

/* Starts this program with the given arguments (NULL-terminated). The child is killed when the test
 * process dies. */
bool child_start(struct child *child, const char *const *arguments);

/* Reads one line without its newline; false after `timeout_ms` or when the child is gone. */
bool child_read_line(struct child *child, char *line, size_t size, int timeout_ms);

/* Writes one line to the child. */
bool child_tell(struct child *child, const char *line);

/* Called in the child: reads one line from the test and nothing after it; false at the end of
 * input. */
bool child_hear(char *line, size_t size);
bool child_is_told(void);

/* Kills the child with SIGKILL. It remains a zombie until child_collect() reaps it. */
void child_kill(struct child *child);

/* Waits for the end of the child. Returns its exit code, 128 + the signal that ended it, or -1
 * after `timeout_ms` (then the child is killed). */
int child_collect(struct child *child, int timeout_ms);

/* Whether files in /dev/shm whose names contain the child's process id are left. */
bool child_left_files(pid_t pid);

/* Milliseconds of the monotonic clock. */
long long now_ms(void);

/* The init string under test: AMALGAM_TEST_INIT, na+sm by default. */
const char *test_init_string(void);

/* Reads an expectation of a transport from an environment variable: its number, or the default when
 * the variable is unset or not a positive number. */
long test_number(const char *variable, long default_value);

#endif
