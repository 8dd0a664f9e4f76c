/* SPDX-License-Identifier: BSD-3-Clause */
/* Tries plugin files in processes of their own, before many of them are loaded into this one. */

#ifndef NA_LOADER_PROBE_H
#define NA_LOADER_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file to be tried. */
struct na_probe {
    const char *name; /* plugin name */
    const char *path; /* file in the search path */
    bool has_ended;   /* it ended the process that tried it, or did not come to an end itself */
    char text[256];   /* how */
};

/*
 * Loads each file in a process of its own and asks it for its protocols, all of them at the same
 * time, and waits for the answers. Where no process can be had nothing is tried: has_ended is false
 * then. `protocol` is what the plugins are going to be asked for, or NULL. Nothing may be locked.
 */
void na_probe_all(struct na_probe *probes, size_t count, uint32_t core_owner, const char *protocol);

#endif /* NA_LOADER_PROBE_H */
