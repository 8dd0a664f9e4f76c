/* SPDX-License-Identifier: BSD-3-Clause */
/* Forks of a process that has classes. */
#ifndef HG_FORK_H
#define HG_FORK_H

#include "engine/fork.h"

/* Register the handlers for fork(), once. */
void hg_fork_watch(void);

#endif /* HG_FORK_H */
