/* SPDX-License-Identifier: BSD-3-Clause */
/* One copy at the target: blocks are pulled from the origin in any order into a ring, and written
 * in order by a separate thread, so that both overlap. */

#ifndef AMALGAM_CP_SESSION_H
#define AMALGAM_CP_SESSION_H

#include <mercury.h>
#include <stdbool.h>
#include <stdint.h>

#include "hg_cp/cp_protocol.h"

/* Settings of the target for every copy. */
struct cp_session_options {
    int dir_fd;
    unsigned int depth;
    uint64_t block_size;
    bool force;  /* overwrite if the origin asks for it */
    bool sync;   /* fsync a file before it gets its name */
    int wake_fd; /* eventfd that the writing thread signals */
};

struct cp_session;

/* All functions are called by the thread that makes progress on the context. */

/* Starts a copy. NULL: text says why. */
struct cp_session *cp_session_open(hg_class_t *hg_class, hg_context_t *context, hg_addr_t origin,
                                   const struct cp_session_options *options, const cp_open_in_t *in,
                                   char *text, size_t text_size);

/* Returns the number by which the origin refers to the copy. */
uint64_t cp_session_id(const struct cp_session *session);

/* True if this origin started the copy. */
bool cp_session_belongs_to(const struct cp_session *session, hg_addr_t origin);

/* Takes a pull request; the session answers and destroys the handle. in is the handle's input,
 * which the session frees. */
void cp_session_pull(struct cp_session *session, hg_handle_t handle, const cp_pull_in_t *in);

/* Starts pulls into free blocks, answers written parts, and checks now and then whether the
 * origin is alive. To be called after wake_fd was signalled, after callbacks, and periodically. */
void cp_session_continue(struct cp_session *session);

/* True if the copy has ended, successfully or not, and nothing is in flight: it can be closed. */
bool cp_session_is_over(const struct cp_session *session);

/* Monotonic time in nanoseconds at which the copy last made progress, or its origin was seen
 * alive; the current time while it is working. */
uint64_t cp_session_active_ns(const struct cp_session *session);

/* Returns the file's name, and why the copy failed, or NULL. */
const char *cp_session_name(const struct cp_session *session);
const char *cp_session_failure(const struct cp_session *session);

/* Compares the digests and gives the file its name. False: text says why, and the file is
 * removed. The session must still be closed, once it is over. */
bool cp_session_finish(struct cp_session *session, const cp_close_in_t *in, char *text,
                       size_t text_size);

/* Cancels the operations in flight; cp_session_is_over() tells when they have ended. */
void cp_session_abort(struct cp_session *session, const char *text);

/* Releases the session, and removes a file that has not got its name. Nothing may be in flight. */
void cp_session_close(struct cp_session *session);

#endif /* AMALGAM_CP_SESSION_H */
