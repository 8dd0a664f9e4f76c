/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps the program's signal handlers when libraries of fabrics install their own. */

#ifndef NA_SIGNALS_H
#define NA_SIGNALS_H

#include "util/compiler.h"

#include <pthread.h>

/*
 * Surround every call in which a plugin's libraries may install handlers: loading, listing of
 * protocols, opening and closing of a class, creation of a context. Any thread; calls may nest; no
 * lock is held in between.
 */
void na_signals_enter(void);
void na_signals_leave(void);

/* Guards the state of these functions; fork.c holds it around a fork(). */
extern UTIL_HIDDEN pthread_mutex_t na_signals_mutex;

#endif /* NA_SIGNALS_H */
