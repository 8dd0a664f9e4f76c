/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of hg_cp. */

#ifndef AMALGAM_CP_OPTIONS_H
#define AMALGAM_CP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct cp_options {
    bool listen;        /* run as the target */
    const char *init;   /* init string */
    const char *to;     /* origin: address of a running target */
    const char *source; /* origin: the file */
    const char *name;   /* origin: name at the target, or with an own target its destination */
    const char *dir;    /* target: destination directory */
    const char *address_file; /* target: file to write the address to */
    const char *key_file;     /* file with the key of RPCs; NULL: from the environment, or none */
    const char *key;          /* key as read; NULL: none */
    int address_fd;           /* target: where its parent reads the address; -1: none */
    unsigned int depth;       /* target: blocks in the pipeline */
    uint64_t block_size;      /* target: bytes of each */
    uint64_t part_size;       /* origin: bytes offered by one RPC */
    double timeout;           /* seconds without progress */
    bool force;               /* overwrite */
    bool sync;                /* target: fsync before the file gets its name */
    bool encrypt;
    bool quiet;
};

/* Reads the command line. Returns true when there is something to do; otherwise *exit_code is set,
 * and help or an error has been printed. */
bool cp_options_parse(int argc, char *argv[], struct cp_options *options, int *exit_code);

#endif /* AMALGAM_CP_OPTIONS_H */
