/* SPDX-License-Identifier: BSD-3-Clause */
/* What the system says about processes and limits. */

#include "sm.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define SM_START_MASK ((UINT64_C(1) << 48) - 1)

/*
 * When this process began, together with the time namespace in which that is so: what a number that
 * was given to another process does not have. 0 when that cannot be known.
 */
uint64_t sm_process_self(void)
{
    uint64_t start;
    bool is_over;

    if (!kit_process_read((uint32_t) getpid(), &start, &is_over))
        return 0;
    return (kit_process_namespace("time") << 48) | (start & SM_START_MASK);
}

/*
 * True when no thread of the process that was `identity` runs any more, though a child of it may
 * hold its files open, its number may be another's by now, or nobody has collected it. False when
 * in doubt.
 */
bool sm_process_is_dead(uint32_t pid, uint64_t identity)
{
    uint64_t start;
    bool is_over;

    if (pid == 0 || pid > INT32_MAX)
        return false;
    if (kill((pid_t) pid, 0) != 0 && errno == ESRCH)
        return true;
    if (identity == 0 || !kit_process_read(pid, &start, &is_over))
        return false;
    if ((kit_process_namespace("time") & 0xffff) == identity >> 48 &&
        (start & SM_START_MASK) != (identity & SM_START_MASK))
        return true;
    return is_over;
}

/* What to do about an error, to be put behind its text; empty when nothing is known to help. */
const char *sm_error_hint(int error)
{
    switch (error) {
    case EMFILE:
        return "; no descriptor is left: raise `ulimit -n`";
    case ENFILE:
        return "; the system has no descriptor left: close files or raise fs.file-max";
    case ENOSPC:
        return "; make room in " SM_DIRECTORY;
    case ELOOP:
        return "; it is a symbolic link, and none is followed";
    default:
        return "";
    }
}

/* Files that are too large for the limit would end the process with SIGXFSZ. */
bool sm_file_size_allowed(uint64_t size, uint32_t log_level)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        size <= limit.rlim_cur)
        return true;
    SM_LOG(log_level,
           "a shared-memory file of %llu bytes is needed, %llu are allowed; raise `ulimit -f`",
           (unsigned long long) size, (unsigned long long) limit.rlim_cur);
    return false;
}
