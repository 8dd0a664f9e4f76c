/* SPDX-License-Identifier: BSD-3-Clause */
/* What fork() leaves to a child: objects of its parent that it must not touch, and no lock held. */

#ifndef NA_FORK_H
#define NA_FORK_H

#include "na.h"
#include "util/compiler.h"

#include <pthread.h>
#include <stdbool.h>

/* Forks between the first process that watched and this one. Written by a child alone. */
extern UTIL_HIDDEN unsigned int na_forks;

/* Has forks watched from now on. To be called before anything that they concern. */
void na_fork_watch(void);

/* Logs that a class, or an object of it, is the parent's. Returns NA_PERMISSION. */
na_return_t na_fork_refused(const char *function);

/* Takes from a class's table what its operations and progress call, so that they need no check. */
struct na_plugin;
void na_fork_disable(struct na_plugin *table);

/* Held by NA_Cleanup(). */
extern UTIL_HIDDEN pthread_mutex_t na_cleanup_mutex;

#endif /* NA_FORK_H */
