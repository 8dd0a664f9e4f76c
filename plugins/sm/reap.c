/* SPDX-License-Identifier: BSD-3-Clause */
/* Removing what endpoints of our user that died left behind. Whose lock is held is alive. */

#include "sm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SM_REAP_MAX 4096 /* entries looked at in one start */

static void sm_reap_sockets(int fd, const char *name);

/* Called at the start of an endpoint. */
void sm_reap_all(void)
{
    char prefix[32];
    size_t prefix_length;
    struct dirent *entry;
    int seen = 0;
    DIR *directory = opendir(SM_DIRECTORY);

    if (directory == NULL)
        return;
    (void) snprintf(prefix, sizeof(prefix), SM_PREFIX "%u.", sm_user());
    prefix_length = strlen(prefix);
    while (seen < SM_REAP_MAX && (entry = readdir(directory)) != NULL) {
        const char *name = entry->d_name + prefix_length;
        const char *reason;

        if (strncmp(entry->d_name, prefix, prefix_length) != 0 ||
            !sm_name_check(name, strlen(name), &reason))
            continue;
        seen++;
        (void) sm_reap_name(name);
    }
    (void) closedir(directory);
}

/* True when nothing is at the name any more, so that it may be tried again. */
bool sm_reap_name(const char *name)
{
    char path[SM_PATH_MAX];
    struct stat status, there;
    bool gone = false;
    int fd;

    sm_segment_path(path, name);
    fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != sm_user())
        goto out;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        goto out; /* its owner lives */
    gone = lstat(path, &there) != 0
               ? errno == ENOENT
               : there.st_dev != status.st_dev || there.st_ino != status.st_ino;
    if (gone)
        goto out; /* another process was faster */
    sm_reap_sockets(fd, name);
    gone = unlink(path) == 0;
    if (gone)
        SM_LOG_INFO("removed %s, whose owner is dead", path);

out:
    (void) close(fd);
    return gone;
}

/* While we hold the segment's lock, nobody else makes or removes the sockets beside it. */
static void sm_reap_sockets(int fd, const char *name)
{
    struct sm_segment_header header;
    uint32_t count = 1;

    if (pread(fd, &header, sizeof(header), 0) == (ssize_t) sizeof(header) &&
        header.max_contexts <= SM_MAX_CONTEXTS && header.max_contexts > 0)
        count = header.max_contexts;
    for (uint32_t i = 0; i < count; i++) {
        char path[SM_PATH_MAX];

        sm_wake_path(path, name, i);
        (void) unlink(path);
    }
}
