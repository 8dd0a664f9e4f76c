/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether an init string works: it is opened, and asked to move something. */

#ifndef AMALGAM_INFO_CHECK_H
#define AMALGAM_INFO_CHECK_H

/* Opens the endpoint and sends an RPC, pulls and pushes, to this process and to a child; prints a
 * line for each. Returns the tool's exit code. */
int info_check(const char *init);

/* The child: answers until it gets a signal; its address goes to address_fd. */
int info_check_target(const char *init, int address_fd);

#endif /* AMALGAM_INFO_CHECK_H */
