/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals that ask a tool to stop: it ends its loop, cleans up, and exits as killed by them. */

#ifndef AMALGAM_TOOL_SIGNAL_H
#define AMALGAM_TOOL_SIGNAL_H

#include <stdbool.h>

/* Installs handlers for SIGINT, SIGTERM and SIGHUP, except where whoever started the tool had them
 * ignored (nohup, a shell's background); ignores SIGPIPE and SIGXFSZ, so that writes that cannot be
 * done are errors. */
void tool_signal_install(void);

/* Ignores the signals of a terminal, which are for the process that started this one. */
void tool_signal_ignore_terminal(void);

/* The signal that asked the tool to stop, 0 when none did. */
int tool_signal_received(void);

/* Forgets a signal, for a child process that was made by fork(). */
void tool_signal_clear(void);

/* The exit code for a tool that a signal stopped: 128 + signal, as a shell shows it. */
int tool_signal_exit_code(void);

/* Says on stderr which signal ended the work, and what became of it. */
void tool_signal_note(const char *outcome);

/* Lets SIGUSR1 pause this process and SIGUSR2 have it go on: one that never sleeps makes room for a
 * measurement without it. */
void tool_signal_install_pause(void);

/* Returns at once unless the process is paused; then when it is not any more, or shall end. */
void tool_signal_wait_while_paused(void);

#endif /* AMALGAM_TOOL_SIGNAL_H */
