/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of this node, from /proc; SIGPIPE. */

#include "kit_base.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROCESS_START_MASK ((UINT64_C(1) << 48) - 1)

static ssize_t process_file_read(const char *path, char *text, size_t size);

bool kit_process_read(uint32_t pid, uint64_t *start, bool *is_over)
{
    char path[64], text[1024], state;
    uint64_t threads;
    const char *rest;

    (void) snprintf(path, sizeof(path), "/proc/%u/stat", (unsigned) pid);
    if (process_file_read(path, text, sizeof(text)) <= 0)
        return false;
    rest = strrchr(text, ')'); /* the process name before it may contain any characters */
    if (rest == NULL || sscanf(rest,
                               ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                               "%*s %" SCNu64 " %*s %" SCNu64,
                               &state, &threads, start) != 3)
        return false;
    /* If the first thread ends before the others it is a zombie, but the process lives. */
    *is_over = strchr("ZXx", state) != NULL && threads <= 1;
    return true;
}

uint64_t kit_process_namespace(const char *kind)
{
    char path[32];
    struct stat status;

    (void) snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
    if (stat(path, &status) != 0)
        return 0;
    return ((uint64_t) status.st_dev << 32) ^ (uint64_t) status.st_ino;
}

uint64_t kit_process_identity(void)
{
    uint64_t start;
    bool is_over;

    if (!kit_process_read((uint32_t) getpid(), &start, &is_over))
        return 0;
    return (kit_process_namespace("time") << 48) | (start & PROCESS_START_MASK);
}

bool kit_process_is_dead(uint32_t pid, uint64_t identity)
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
        (start & PROCESS_START_MASK) != (identity & PROCESS_START_MASK))
        return true;
    return is_over;
}

uint64_t kit_process_node(void)
{
    char text[64];

    if (process_file_read("/proc/sys/kernel/random/boot_id", text, sizeof(text)) <= 0)
        return 0;
    return kit_digest(text, strlen(text));
}

void kit_process_ignore_sigpipe(void)
{
    struct sigaction action;

    if (sigaction(SIGPIPE, NULL, &action) != 0 || (action.sa_flags & SA_SIGINFO) != 0 ||
        action.sa_handler != SIG_DFL)
        return;
    action.sa_handler = SIG_IGN;
    (void) sigaction(SIGPIPE, &action, NULL);
}

static ssize_t process_file_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length;

    if (fd < 0)
        return -1;
    length = read(fd, text, size - 1);
    (void) close(fd);
    text[length > 0 ? length : 0] = '\0';
    return length;
}
