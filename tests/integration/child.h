/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Child processes of integration tests: the test program runs itself again in another role, talks
 * with it in lines over two pipes, kills it and collects it.
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

/* Starts this program with the given arguments (NULL-terminated); it dies when the test dies. */
bool child_start(struct child *child, const char *const *arguments);

/* Reads one line without its newline; false after `timeout_ms` or when the child is gone. */
bool child_read_line(struct child *child, char *line, size_t size, int timeout_ms);

/* Writes one line to the child. */
bool child_tell(struct child *child, const char *line);

/* In the child: reads a line of the test's, and not further than its end; whether there is one. */
bool child_hear(char *line, size_t size);
bool child_is_told(void);

/* Kills the child with SIGKILL and leaves it as a zombie until child_collect. */
void child_kill(struct child *child);

/* Waits for the child's end; its exit code, 128 + signal, or -1 after `timeout_ms` (then it is
 * killed). */
int child_collect(struct child *child, int timeout_ms);

/* Whether shared-memory files that carry the child's process number are left. */
bool child_left_files(pid_t pid);

/* Milliseconds of the monotonic clock. */
long long now_ms(void);

/* The init string under test: AMALGAM_TEST_INIT, na+sm by default. */
const char *test_init_string(void);

/*
 * What the tests expect of a transport, which the environment can change: a number, or the default
 * when the variable is not set or no number.
 */
long test_number(const char *variable, long default_value);

#endif
