/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects that a process inherited by fork(): they are its parent's, and refused. */
#ifndef HG_ENGINE_FORK_H
#define HG_ENGINE_FORK_H

#include "engine/class.h"
#include "util/compiler.h"

/* Forks between the first process that watched and this one. Written by a child alone. */
extern UTIL_HIDDEN unsigned int hg_forks;

/* Whether the class is the parent's, from before a fork(), with a line in the log if it is. */
bool hg_fork_refuses(const hg_class_t *hg_class, const char *function);

static inline bool hg_class_is_inherited(const hg_class_t *hg_class)
{
    return hg_class->forks != hg_forks;
}

static inline bool hg_class_is_usable(const hg_class_t *hg_class)
{
    return hg_class != NULL && !hg_class_is_inherited(hg_class);
}

/* Says why it is not: HG_PERMISSION if it is the parent's, HG_INVALID_ARG if it is NULL. */
hg_return_t hg_class_refuse(const hg_class_t *hg_class, const char *function);

/* Whether an object is the parent's, with a line in the log. NULL: false. */
static inline bool hg_class_is_refused(const hg_class_t *hg_class, const char *function)
{
    return util_unlikely(hg_class != NULL && hg_class_is_inherited(hg_class)) &&
           hg_fork_refuses(hg_class, function);
}

#endif /* HG_ENGINE_FORK_H */
