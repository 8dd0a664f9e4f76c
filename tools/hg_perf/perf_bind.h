/* SPDX-License-Identifier: BSD-3-Clause */
/* Cores that processes are bound to when --bind asks for it. */

#ifndef AMALGAM_PERF_BIND_H
#define AMALGAM_PERF_BIND_H

#include <stdbool.h>

#include "hg_perf/perf_options.h"

enum perf_bind_role {
    PERF_BIND_ORIGIN,
    PERF_BIND_TARGET
};

/* Binds the calling process to the core that --bind gives to its role, if it is given. */
bool perf_bind(const struct perf_options *options, enum perf_bind_role role);

#endif /* AMALGAM_PERF_BIND_H */
