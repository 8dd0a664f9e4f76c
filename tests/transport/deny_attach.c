/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a program that may not touch the memory of other processes, nor may the programs that it
 * starts: deny_attach PROGRAM [ARGUMENT...]. Code 77 when the system has no filter for that.
 */

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
