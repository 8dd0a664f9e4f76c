/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * na_probe FILE NAME [PROTOCOL]: loads one plugin file and asks it for its protocols, for a process
 * that wants to know whether it survives that (loader_probe.c). Writes 's' to stdout when it begins
 * and 'd' when it is done, whatever came of it.
 */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* close_range */
#endif

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "na.h"
#include "na_ext.h"

static int inherit_nothing(void);
static void try(const char *name, const char *protocol);

int main(int argc, char *argv[])
{
    const struct rlimit no_core = {0, 0};
    char *slash;
    int parent;

    if (argc < 3 || (slash = strrchr(argv[1], '/')) == NULL)
        return 2;
    /* With a parent that has ended before this, writing ends the process. */
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    parent = inherit_nothing();
    (void) setrlimit(RLIMIT_CORE, &no_core);
    *slash = '\0';
    if (setenv("NA_PLUGIN_PATH", slash == argv[1] ? "/" : argv[1], 1) != 0 ||
        write(parent, "s", 1) != 1)
        return 1;
    NA_Set_log_level("none");
    try(argv[2], argc > 3 ? argv[3] : argv[2]);
    if (write(parent, "d", 1) != 1)
        _exit(1);
    _exit(0); /* what the plugin wants to do at the end is no matter of ours */
}

/*
 * The program's descriptors, those that exec() leaves open, are none of a plugin's, and what a
 * plugin prints is not for the parent: returns where that reads.
 */
static int inherit_nothing(void)
{
    int parent;

#ifdef SYS_close_range
    (void) syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);
#endif
    parent = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    (void) dup2(STDERR_FILENO, STDOUT_FILENO);
    return parent;
}

/* A plugin that is named is loaded here. What is known of loaded ones includes all protocols. */
static void try(const char *name, const char *protocol)
{
    struct na_plugin_record *records = NULL;
    struct na_protocol_info *info = NULL;
    char choice[512];

    (void) snprintf(choice, sizeof(choice), "%s+%s", name, protocol);
    (void) NA_Get_protocol_info(choice, &info);
    NA_Free_protocol_info(info);
    (void) NA_Plugin_get_records(0, &records);
    NA_Plugin_free_records(records);
}
