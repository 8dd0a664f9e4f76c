/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of all open classes of the process. */

#ifndef NA_CLASSES_H
#define NA_CLASSES_H

#include "na/class.h"

/* Guards the list; fork.c holds it around a fork(). */
extern UTIL_HIDDEN pthread_mutex_t na_classes_mutex;

void na_classes_add(struct na_class *na_class);
void na_classes_remove(struct na_class *na_class);

/* Calls `visit` for each open class of this process. */
void na_classes_visit(void (*visit)(struct na_class *na_class));

/* In the child of a fork(): makes posts and polls of the parent's classes return an error. */
void na_classes_disable(void);

#endif /* NA_CLASSES_H */
