/* SPDX-License-Identifier: BSD-3-Clause */
/* The source file of a copy: mapped in parts for the target to pull from, and digested by a
 * thread meanwhile. */

#ifndef AMALGAM_CP_SOURCE_H
#define AMALGAM_CP_SOURCE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include <xxhash.h>

struct cp_source {
    const char *path;
    int fd;
    struct stat status; /* when it was opened */
    uint64_t size;
    pthread_t thread;
    bool thread_started;
    atomic_bool stop;
    atomic_bool ended; /* the thread has ended: the members below can be read */
    bool digested;     /* the digest is valid */
    XXH128_hash_t digest;
    char text[256]; /* otherwise: why there is no digest */
};

/* Opens a regular file and starts its digest; false after an error on stderr. */
bool cp_source_open(struct cp_source *source, const char *path);

/* Has the process end with a message if a mapped file becomes shorter. To be called after an
 * endpoint was opened, because libraries of transports install handlers, too. */
void cp_source_catch_bus_errors(void);

/* Maps a part for reading, with its pages present; NULL after an error on stderr. */
void *cp_source_map(const struct cp_source *source, uint64_t offset, uint64_t size);

/* True if cp_source_finish() will not wait. */
bool cp_source_is_digested(const struct cp_source *source);

/* Waits for the digest; false if the file has changed, or after an error on stderr. */
bool cp_source_finish(struct cp_source *source, XXH128_hash_t *digest);

/* True if the file has changed since it was opened. */
bool cp_source_changed(const struct cp_source *source);

/* Ends the thread and closes the file. */
void cp_source_close(struct cp_source *source);

#endif /* AMALGAM_CP_SOURCE_H */
