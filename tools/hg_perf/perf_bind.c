/* SPDX-License-Identifier: BSD-3-Clause */
/* Cores that processes are bound to. */

#include "hg_perf/perf_bind.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "common/tool_message.h"

bool perf_bind(const struct perf_options *options, enum perf_bind_role role)
{
    int core = options->bind[role];
    cpu_set_t set;

    if (core < 0)
        return true;
    CPU_ZERO(&set);
    CPU_SET((unsigned int) core, &set);
    if (sched_setaffinity(0, sizeof(set), &set) == 0)
        return true;
    tool_error("--bind: cannot use core %d: %s", core, strerror(errno));
    return false;
}
