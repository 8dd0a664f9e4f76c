/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of this machine, as /proc tells of them, and this one. */

#ifndef FABRIC_PROCESS_H
#define FABRIC_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * When a process began, in ticks since boot, and whether all of it has ended. False when that
 * cannot be read.
 */
bool fabric_process_read(uint32_t pid, uint64_t *start, bool *is_over);

/* Equal where process ids mean the same; 0 when not known. */
uint64_t fabric_process_namespace(void);

/* Equal on one node until it boots again; 0 when not known. */
uint64_t fabric_process_node(void);

/*
 * For a library that writes to sockets whose other end may be gone: that does not end this process.
 * Who handles the signal keeps it.
 */
void fabric_process_ignore_sigpipe(void);

#endif /* FABRIC_PROCESS_H */
