/* SPDX-License-Identifier: BSD-3-Clause */
/* Removing the stale files and sockets of dead endpoints of this user. */

#include "sm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SM_REAP_MAX 4096 /* files checked in one call */

/* What a search need not ask again for each of perhaps thousands of files. */
struct sm_reaper {
    uint64_t pid_namespace; /* of this process */
    uint32_t pid;           /* of the owner last found alive, or 0 */
    uint64_t process;
};

static void sm_reap_orphan(const char *entry);
static enum sm_reaped sm_reap_file(struct sm_reaper *reaper, const char *name);
static bool sm_reap_owner_is_dead(struct sm_reaper *reaper, int fd);
static void sm_reap_sockets(int fd, const char *name);

/* Called when an endpoint is opened, and as na_plugin.cleanup. */
void sm_reap_all(void)
{
    struct sm_reaper reaper = {.pid_namespace = kit_process_namespace("pid")};
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

        if (strncmp(entry->d_name, prefix, prefix_length) != 0)
            continue;
        if (strstr(name, ".wake.") != NULL)
            sm_reap_orphan(entry->d_name);
        if (!sm_name_check(name, strlen(name), &reason))
            continue;
        seen++;
        (void) sm_reap_file(&reaper, name);
    }
    (void) closedir(directory);
}

enum sm_reaped sm_reap_name(const char *name)
{
    struct sm_reaper reaper = {.pid_namespace = kit_process_namespace("pid")};

    return sm_reap_file(&reaper, name);
}

/*
 * The owner of a name is dead when no process holds the flock on its file, or when the process
 * named in the file is dead: a child forked past pthread_atfork keeps the flock of a dead parent.
 * The OFD lock lets one process at a time remove.
 */
static enum sm_reaped sm_reap_file(struct sm_reaper *reaper, const char *name)
{
    struct flock only_me = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    enum sm_reaped reaped = SM_REAPED_FOREIGN;
    char path[SM_PATH_MAX];
    struct stat status, there;
    int error = 0;
    int fd;

    sm_segment_path(path, name);
    fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        error = errno;
        if (error == ENOENT)
            return SM_REAPED_NONE;
        if (lstat(path, &status) == 0 && (!S_ISREG(status.st_mode) || status.st_uid != sm_user()))
            return SM_REAPED_FOREIGN;
        errno = error;
        return SM_REAPED_UNKNOWN;
    }
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != sm_user())
        goto out;
    reaped = SM_REAPED_BUSY;
    if (fcntl(fd, F_OFD_SETLK, &only_me) != 0)
        goto out;
    reaped = SM_REAPED_ALIVE;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && !sm_reap_owner_is_dead(reaper, fd))
        goto out;
    reaped = SM_REAPED_NONE;
    if (lstat(path, &there) != 0 || there.st_dev != status.st_dev || there.st_ino != status.st_ino)
        goto out; /* another process has removed it */
    sm_reap_sockets(fd, name);
    if (unlink(path) == 0) {
        SM_LOG_INFO("removed %s, whose owner is dead", path);
    } else {
        error = errno;
        reaped = SM_REAPED_UNKNOWN;
    }

out:
    (void) close(fd);
    errno = error;
    return reaped;
}

/*
 * Removes a socket whose file is gone, because a release with other names for sockets removed the
 * file alone. A file exists at least as long as its sockets; a socket that accepts connect() stays.
 */
static void sm_reap_orphan(const char *entry)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[SM_PATH_MAX];
    struct stat status;
    int fd;

    if (strlen(SM_DIRECTORY) + strlen(entry) >= sizeof(address.sun_path))
        return;
    (void) snprintf(address.sun_path, sizeof(address.sun_path), SM_DIRECTORY "%s", entry);
    memcpy(path, address.sun_path, sizeof(path));
    *strstr(path, ".wake.") = '\0';
    if (access(path, F_OK) == 0 || errno != ENOENT || lstat(address.sun_path, &status) != 0 ||
        !S_ISSOCK(status.st_mode) || status.st_uid != sm_user())
        return;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *) &address, sizeof(address)) != 0 &&
        errno == ECONNREFUSED)
        (void) unlink(address.sun_path);
    (void) close(fd);
}

/* False when in doubt. For a process of another PID namespace only the flock counts. */
static bool sm_reap_owner_is_dead(struct sm_reaper *reaper, int fd)
{
    struct sm_segment_header header;

    if (pread(fd, &header, sizeof(header), 0) != (ssize_t) sizeof(header) ||
        header.pid_namespace == 0 || header.pid_namespace != reaper->pid_namespace)
        return false;
    if (header.pid == reaper->pid && header.process == reaper->process)
        return false;
    if (kit_process_is_dead(header.pid, header.process))
        return true;
    reaper->pid = header.pid;
    reaper->process = header.process;
    return false;
}

/* The OFD lock is held, so no other process makes or removes sockets of this name. */
static void sm_reap_sockets(int fd, const char *name)
{
    struct sm_segment_header header;
    uint32_t count = 1;

    if (pread(fd, &header, sizeof(header), 0) != (ssize_t) sizeof(header))
        return; /* its owner died before it made a socket */
    if (header.max_contexts <= SM_MAX_CONTEXTS && header.max_contexts > 0)
        count = header.max_contexts;
    for (uint32_t i = 0; i < count; i++) {
        char path[SM_PATH_MAX];

        sm_wake_path(path, name, &header.secret, i);
        (void) unlink(path);
    }
}
