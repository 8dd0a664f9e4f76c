/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects inherited by fork() belong to the parent process, and are refused in the child. */
#ifndef HG_ENGINE_FORK_H
#define HG_ENGINE_FORK_H

#include "engine/class.h"
#include "util/compiler.h"

/* Number of fork() calls from the first process with the library to this one. Set by the child. */
extern UTIL_HIDDEN unsigned int hg_forks;

/* Whether a class was inherited by fork() and belongs to the parent; logs an error if so. */
bool hg_fork_refuses(const hg_class_t *hg_class, const char *function);

static inline bool hg_class_is_inherited(const hg_class_t *hg_class)
{
    return hg_class->forks != hg_forks;
}

static inline bool hg_class_is_usable(const hg_class_t *hg_class)
{
    return hg_class != NULL && !hg_class_is_inherited(hg_class);
}

/* Log why a class is unusable: HG_PERMISSION if inherited by fork(), HG_INVALID_ARG if NULL. */
hg_return_t hg_class_refuse(const hg_class_t *hg_class, const char *function);

/* Like hg_fork_refuses(), but cheap for usable classes. NULL: false. */
static inline bool hg_class_fork_refused(const hg_class_t *hg_class, const char *function)
{
    return util_unlikely(hg_class != NULL && hg_class_is_inherited(hg_class)) &&
           hg_fork_refuses(hg_class, function);
}

#endif /* HG_ENGINE_FORK_H */
