/* SPDX-License-Identifier: BSD-3-Clause */
/* Target processes: a tool runs its own program again as the target, learns its address through a
 * pipe, and ends it. A target never outlives the tool that started it. */

#ifndef AMALGAM_TOOL_PROCESS_H
#define AMALGAM_TOOL_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Longest address that a target may report, with the terminating zero. */
#define TOOL_ADDRESS_SIZE 2048

/* Maximum number of arguments of a target, with the program's name. */
#define TOOL_ARGS_MAX 48

struct tool_target {
    pid_t pid;                       /* 0: not running */
    char address[TOOL_ADDRESS_SIZE]; /* as the target printed it */
};

/* Runs this program again with the arguments args (NULL-terminated, without the program's name)
 * followed by "--address-fd N", and waits at most timeout_ms for its address on that descriptor.
 * The target ignores the signals of the terminal: this process ends it. */
bool tool_target_start(struct tool_target *target, const char *const args[],
                       unsigned int timeout_ms);

/* True while the target runs. Otherwise text says how it ended. */
bool tool_target_running(struct tool_target *target, char *text, size_t text_size);

/* Pauses or resumes a target that has called tool_signal_install_pause(). */
void tool_target_pause(const struct tool_target *target, bool pause);

/* Asks the target to end, and kills it if it has not ended after two seconds. */
void tool_target_stop(struct tool_target *target);

/* In a target: writes the address to fd, for the process that started it, and closes fd. */
bool tool_target_report(int fd, const char *address);

/* In a child process: delivers the signal when the parent ends, for whatever reason. */
bool tool_process_die_with_parent(pid_t parent, int signal_number);

/* Waits for a child at most timeout_ms; returns true when it has ended. */
bool tool_process_wait(pid_t pid, unsigned int timeout_ms, int *status);

/* Writes how a child ended: "ended with code 1", "was killed by signal 9 (Killed)". */
void tool_process_describe(int status, char *text, size_t text_size);

/* Raises the limit of open files to its maximum: a thousand peers need a few thousand. */
void tool_process_raise_file_limit(void);

#endif /* AMALGAM_TOOL_PROCESS_H */
