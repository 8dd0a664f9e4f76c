/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks whether an init string works, by opening it and moving data. */

#ifndef AMALGAM_INFO_CHECK_H
#define AMALGAM_INFO_CHECK_H

/* Opens the endpoint, and sends RPCs, pulls and pushes to this process and to a child; prints a
 * line for each step. Returns the tool's exit code. */
int info_check(const char *init);

/* The child process: answers until it gets a signal; writes its address to address_fd. */
int info_check_target(const char *init, int address_fd);

#endif /* AMALGAM_INFO_CHECK_H */
