/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps the program's signal handlers from libraries that install their own. */

#ifndef NA_SIGNALS_H
#define NA_SIGNALS_H

#include "util/compiler.h"

#include <pthread.h>

/*
 * Around every call that may have a plugin's libraries install handlers: those that load, list,
 * open and close, and that create contexts. Any thread, may be nested, no lock is held in between.
 */
void na_signals_enter(void);
void na_signals_leave(void);

/* For a fork(). */
extern UTIL_HIDDEN pthread_mutex_t na_signals_mutex;

#endif /* NA_SIGNALS_H */
