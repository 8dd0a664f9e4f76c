/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a program under a filter that denies it and its children cross-memory attach: deny_attach
 * PROGRAM [ARGUMENT...]. Exits with 77 when the system has no such filters. */

#include "deny_attach.h"

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void) fprintf(stderr, "usage: deny_attach PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    if (!deny_attach_install()) {
        (void) printf("skipped: no seccomp filter can be installed\n");
        return 77;
    }
    (void) execv(argv[1], argv + 1);
    perror(argv[1]);
    return 2;
}
