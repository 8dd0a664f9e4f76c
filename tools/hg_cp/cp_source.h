/* SPDX-License-Identifier: BSD-3-Clause */
/* The file that is copied: mapped in parts for the target to pull from, and digested by a thread of
 * its own in the meantime. */

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
    atomic_bool ended; /* the thread is at its end: what follows can be read */
    bool digested;     /* there is a digest */
    XXH128_hash_t digest;
    char text[256]; /* why the digest is not there */
};

/* Opens a regular file and starts its digest; false: said on stderr. */
bool cp_source_open(struct cp_source *source, const char *path);

/* Has the process end with a message when a mapped file becomes shorter; after an endpoint was
 * opened, because libraries under a transport install handlers, too. */
void cp_source_catch_bus_errors(void);

/* Maps a part for reading, with its pages present; NULL: said on stderr. */
void *cp_source_map(const struct cp_source *source, uint64_t offset, uint64_t size);

/* True when cp_source_finish() will not have to wait. */
bool cp_source_is_digested(const struct cp_source *source);

/* Waits for the digest; false: said on stderr, or the file has changed. */
bool cp_source_finish(struct cp_source *source, XXH128_hash_t *digest);

/* True when the file is not the one any more that was opened. */
bool cp_source_changed(const struct cp_source *source);

/* Ends the thread and closes the file. */
void cp_source_close(struct cp_source *source);

#endif /* AMALGAM_CP_SOURCE_H */
