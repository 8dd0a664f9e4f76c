/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of na_conformance. */

#ifndef AMALGAM_CONF_OPTIONS_H
#define AMALGAM_CONF_OPTIONS_H

#include <stdbool.h>

#include "na_conformance/load.h"
#include "na_conformance/peer.h"
#include "na_conformance/report.h"

struct conf_options {
    struct conf_settings settings;
    const char *only, *skip;
    unsigned int patience;
    bool list;
    enum conf_form form;
    /* Options of a peer process, which na_conformance starts itself. */
    unsigned int control_fd; /* 0: not a peer process */
    unsigned int shared_fd;
    struct conf_peer_options peer;
};

/* Reads the command line. Returns true when there is something to do; otherwise *exit_code is set,
 * and help or an error has been printed. */
bool conf_options_parse(int argc, char *argv[], struct conf_options *options, int *exit_code);

#endif /* AMALGAM_CONF_OPTIONS_H */
