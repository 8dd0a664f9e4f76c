/* SPDX-License-Identifier: BSD-3-Clause */
/* The origin: sends one file. */

#ifndef AMALGAM_CP_ORIGIN_H
#define AMALGAM_CP_ORIGIN_H

#include "common/tool_process.h"
#include "hg_cp/cp_options.h"

/* Sends the file to the target at address, under name. own_target is the process if it was
 * started for this copy, else NULL. Returns the exit code. */
int cp_origin_run(const struct cp_options *options, const char *address, const char *name,
                  struct tool_target *own_target);

#endif /* AMALGAM_CP_ORIGIN_H */
