/* SPDX-License-Identifier: BSD-3-Clause */
/* Lookups that end by a callback. */
#ifndef HG_LOOKUP_H
#define HG_LOOKUP_H

#include "engine/class.h"

/* Guards the list of lookups; hg/fork.c takes it around a fork(). */
extern UTIL_HIDDEN pthread_mutex_t hg_lookup_lock;

#endif /* HG_LOOKUP_H */
