/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of hg_cp. */

#ifndef AMALGAM_CP_OPTIONS_H
#define AMALGAM_CP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct cp_options {
    bool listen;              /* be the target */
    const char *init;         /* init string */
    const char *to;           /* origin: address of a target that runs already */
    const char *source;       /* origin: the file */
    const char *name;         /* origin: its name at the target; with a target of its own: the
                                 file or directory that it becomes */
    const char *dir;          /* target: where files go */
    const char *address_file; /* target: file that gets the address */
    const char *key_file;     /* file with the key of RPCs; NULL: the environment has it, or none */
    const char *key;          /* the key that was read; NULL: none */
    int address_fd;           /* target: where its starter waits for the address; -1: none */
    unsigned int depth;       /* target: blocks in the pipeline */
    uint64_t block_size;      /* target: bytes of each */
    uint64_t part_size;       /* origin: bytes that one RPC offers */
    double timeout;           /* both: seconds without any progress */
    bool force;               /* overwrite */
    bool sync;                /* target: write to the disk before the file gets its name */
    bool encrypt;
    bool quiet;
};

/* Reads the command line. Returns true when there is something to do; otherwise *exit_code is set,
 * and help or an error has been printed. */
bool cp_options_parse(int argc, char *argv[], struct cp_options *options, int *exit_code);

#endif /* AMALGAM_CP_OPTIONS_H */
