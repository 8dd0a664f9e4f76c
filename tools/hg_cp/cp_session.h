/* SPDX-License-Identifier: BSD-3-Clause */
/* One copy at the target: a ring of blocks that are pulled from the origin in any order and written
 * in order by a thread of its own, so that both happen at the same time. */

#ifndef AMALGAM_CP_SESSION_H
#define AMALGAM_CP_SESSION_H

#include <mercury.h>
#include <stdbool.h>
#include <stdint.h>

#include "hg_cp/cp_protocol.h"

/* What the target's command line says about every copy. */
struct cp_session_options {
    int dir_fd;
    unsigned int depth;
    uint64_t block_size;
    bool force;  /* overwrite where the origin asks for it */
    bool sync;   /* a file is on disk before it has its name */
    int wake_fd; /* eventfd: the writing thread has done something */
};

struct cp_session;

/* All functions are for the one thread that makes progress on the context. */

/* Begins a copy. NULL: text says why. */
struct cp_session *cp_session_open(hg_class_t *hg_class, hg_context_t *context, hg_addr_t origin,
                                   const struct cp_session_options *options, const cp_open_in_t *in,
                                   char *text, size_t text_size);

/* The number that the origin names it by. */
uint64_t cp_session_id(const struct cp_session *session);

/* True when the copy is this origin's. */
bool cp_session_belongs_to(const struct cp_session *session, hg_addr_t origin);

/* Takes a pull request; the session answers and destroys the handle. in is the handle's input,
 * which the session frees. */
void cp_session_pull(struct cp_session *session, hg_handle_t handle, const cp_pull_in_t *in);

/* Starts pulls for blocks that have become free, answers what is written, and looks now and then
 * whether the origin lives; to be called after wake_fd was signalled and after callbacks, and a few
 * times a second. */
void cp_session_continue(struct cp_session *session);

/* True when the copy has ended, well or not, and nothing is in flight: it can be closed. */
bool cp_session_is_over(const struct cp_session *session);

/* Monotonic time at which the copy last did something, or its origin was seen to run, in
 * nanoseconds; now while it is at work. */
uint64_t cp_session_active_ns(const struct cp_session *session);

/* The file's name, and what became of the copy: NULL unless it has failed. */
const char *cp_session_name(const struct cp_session *session);
const char *cp_session_failure(const struct cp_session *session);

/* Compares the digests and gives the file its name. False: text says why, the file is gone. The
 * session still has to be closed, when it is over. */
bool cp_session_finish(struct cp_session *session, const cp_close_in_t *in, char *text,
                       size_t text_size);

/* Cancels what is in flight; cp_session_is_over() says when that is done. */
void cp_session_abort(struct cp_session *session, const char *text);

/* Releases everything; a file that has not got its name is removed. Nothing may be in flight. */
void cp_session_close(struct cp_session *session);

#endif /* AMALGAM_CP_SESSION_H */
