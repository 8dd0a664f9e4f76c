/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of hg_info. */

#ifndef AMALGAM_INFO_OPTIONS_H
#define AMALGAM_INFO_OPTIONS_H

#include <stdbool.h>

struct info_options {
    const char *init; /* init string to show, or NULL */
    bool listen;      /* open it as a target would */
    bool json;
    const char *check; /* init string to check, or NULL */
    bool is_child;     /* the peer of the check, which reports its address */
    unsigned int address_fd;
};

/* Reads the command line. Returns true when there is something to do; otherwise *exit_code is set,
 * and help or an error has been printed. */
bool info_options_parse(int argc, char *argv[], struct info_options *options, int *exit_code);

#endif /* AMALGAM_INFO_OPTIONS_H */
