/* SPDX-License-Identifier: BSD-3-Clause */
/* Handling of fork(): the child has no locks held, and its parent's objects return an error. */

#ifndef NA_FORK_H
#define NA_FORK_H

#include "na.h"
#include "util/compiler.h"

#include <pthread.h>
#include <stdbool.h>

/* Number of forks between the process that called na_fork_watch() first and this one. */
extern UTIL_HIDDEN unsigned int na_forks;

/* Installs the fork handlers, once. Called before any lock or class that they handle is used. */
void na_fork_watch(void);

/* Logs that an object was inherited from the parent. Returns NA_PERMISSION. */
na_return_t na_fork_refused(const char *function);

/* Replaces the functions of posts and polls with ones that return an error, so that the hot path
 * needs no check for a fork. */
struct na_plugin;
void na_fork_disable(struct na_plugin *table);

/* Held by NA_Cleanup() throughout. */
extern UTIL_HIDDEN pthread_mutex_t na_cleanup_mutex;

#endif /* NA_FORK_H */
