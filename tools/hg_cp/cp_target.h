/* SPDX-License-Identifier: BSD-3-Clause */
/* The target: receives files until a signal. */

#ifndef AMALGAM_CP_TARGET_H
#define AMALGAM_CP_TARGET_H

#include "hg_cp/cp_options.h"

/* Runs the target; returns the exit code. */
int cp_target_run(const struct cp_options *options);

#endif /* AMALGAM_CP_TARGET_H */
