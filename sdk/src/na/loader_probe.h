/* SPDX-License-Identifier: BSD-3-Clause */
/* Tries plugin files in processes of their own before all are loaded into this one. */

#ifndef NA_LOADER_PROBE_H
#define NA_LOADER_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file to be tried. */
struct na_probe {
    const char *name; /* plugin name */
    const char *path; /* file in the search path */
    bool has_crashed; /* the process that tried the file crashed, exited early or took too long */
    char text[256];   /* how, if has_crashed */
};

/*
 * Loads each file in a process of its own, several at a time, and asks it for `protocol`, unless
 * that is NULL, and for all its protocols. Returns when the processes have ended. A file whose
 * process cannot be started counts as one that did not crash. The caller holds no lock.
 */
void na_probe_all(struct na_probe *probes, size_t count, uint32_t core_owner, const char *protocol);

#endif /* NA_LOADER_PROBE_H */
