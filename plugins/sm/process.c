/* SPDX-License-Identifier: BSD-3-Clause */
/* What the system says about processes and limits. */

#include "sm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fields of /proc/<pid>/stat, counted from the one that follows the name in parentheses. */
#define SM_STAT_STATE   0
#define SM_STAT_THREADS 17
#define SM_STAT_START   19

#define SM_START_MASK   ((UINT64_C(1) << 48) - 1)

static uint64_t sm_namespace(const char *kind);
static bool sm_process_stat(uint32_t pid, char *state, uint64_t *threads, uint64_t *start);

uint64_t sm_pid_namespace(void)
{
    return sm_namespace("pid");
}

/*
 * When this process began, together with the time namespace in which that is so: what a number that
 * was given to another process does not have. 0 when that cannot be known.
 */
uint64_t sm_process_self(void)
{
    uint64_t threads, start;
    char state;

    if (!sm_process_stat((uint32_t) getpid(), &state, &threads, &start))
        return 0;
    return (sm_namespace("time") << 48) | (start & SM_START_MASK);
}

/*
 * True when no thread of the process that was `identity` runs any more, though a child of it may
 * hold its files open, its number may be another's by now, or nobody has collected it. False when
 * in doubt.
 */
bool sm_process_is_dead(uint32_t pid, uint64_t identity)
{
    uint64_t threads, start;
    char state;

    if (pid == 0 || pid > INT32_MAX)
        return false;
    if (kill((pid_t) pid, 0) != 0 && errno == ESRCH)
        return true;
    if (identity == 0 || !sm_process_stat(pid, &state, &threads, &start))
        return false;
    if ((sm_namespace("time") & 0xffff) == identity >> 48 &&
        (start & SM_START_MASK) != (identity & SM_START_MASK))
        return true;
    /* The first thread of a process may end before the others: it is a zombie, they live. */
    return strchr("ZXx", state) != NULL && threads <= 1;
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

static uint64_t sm_namespace(const char *kind)
{
    char path[32];
    struct stat status;

    (void) snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
    return stat(path, &status) == 0 ? (uint64_t) status.st_ino : 0;
}

static bool sm_process_stat(uint32_t pid, char *state, uint64_t *threads, uint64_t *start)
{
    char path[32], text[1024];
    char *at, *rest = NULL;
    ssize_t size;
    int fd;

    (void) snprintf(path, sizeof(path), "/proc/%u/stat", (unsigned) pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size = read(fd, text, sizeof(text) - 1);
    (void) close(fd);
    if (size <= 0)
        return false;
    text[size] = '\0';
    at = strrchr(text, ')'); /* the name may contain anything */
    at = at != NULL ? strtok_r(at + 1, " ", &rest) : NULL;
    for (int i = SM_STAT_STATE; at != NULL; i++, at = strtok_r(NULL, " ", &rest)) {
        if (i == SM_STAT_STATE)
            *state = *at;
        else if (i == SM_STAT_THREADS)
            *threads = strtoull(at, NULL, 10);
        else if (i == SM_STAT_START) {
            *start = strtoull(at, NULL, 10);
            return true;
        }
    }
    return false;
}
