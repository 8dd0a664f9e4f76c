/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * na_probe FILE NAME [PROTOCOL]: loads one plugin file and asks it for its protocols, to find out
 * whether it crashes (loader_probe.c). Writes the mark 's' to stdout at the start and 'd' at the
 * end, whether the plugin could be loaded or not.
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
    /* A parent that ended before this call sends no signal, but SIGPIPE ends the process at its
     * first write. */
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
    _exit(0); /* without the plugin's exit handlers and destructors */
}

/*
 * Closes the descriptors that the program left open over exec(), and has a plugin's output to
 * stdout go where stderr goes. Returns the descriptor from which the parent reads the marks.
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

/* Naming the plugin loads it, and making its record asks it for all its protocols. */
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
