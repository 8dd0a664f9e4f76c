/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals that ask a tool to stop: it ends its loop, cleans up, and exits as killed by the
 * signal. */

#ifndef AMALGAM_TOOL_SIGNAL_H
#define AMALGAM_TOOL_SIGNAL_H

/* Installs handlers for SIGINT, SIGTERM and SIGHUP, unless they are ignored already (nohup, a
 * shell's background jobs). Ignores SIGPIPE and SIGXFSZ, so that such writes fail with an error. */
void tool_signal_install(void);

/* Ignores the signals of the terminal, which are for the process that started this one. */
void tool_signal_ignore_terminal(void);

/* Returns the signal that asked the tool to stop, or 0. */
int tool_signal_received(void);

/* Forgets a received signal, in a child process after fork(). */
void tool_signal_clear(void);

/* The exit code for a tool that a signal stopped: 128 + signal, as a shell shows it. */
int tool_signal_exit_code(void);

/* Reports on stderr which signal ended the work, and with which outcome. */
void tool_signal_note(const char *outcome);

/* Has SIGUSR1 pause this process and SIGUSR2 resume it: a busy process frees its core for a
 * measurement without it. */
void tool_signal_install_pause(void);

/* Returns at once unless the process is paused; otherwise when it is resumed or asked to stop. */
void tool_signal_wait_while_paused(void);

#endif /* AMALGAM_TOOL_SIGNAL_H */
