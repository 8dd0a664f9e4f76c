/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals that ask a tool to stop: it ends its loop, cleans up, and exits as killed by them. */

#ifndef AMALGAM_TOOL_SIGNAL_H
#define AMALGAM_TOOL_SIGNAL_H

/* Installs handlers for SIGINT, SIGTERM and SIGHUP; ignores SIGPIPE and SIGXFSZ, so that writes
 * that cannot be done are errors. */
void tool_signal_install(void);

/* The signal that asked the tool to stop, 0 when none did. */
int tool_signal_received(void);

/* Forgets a signal, for a child process that was made by fork(). */
void tool_signal_clear(void);

/* The exit code for a tool that a signal stopped: 128 + signal, as a shell shows it. */
int tool_signal_exit_code(void);

#endif /* AMALGAM_TOOL_SIGNAL_H */
