/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared-memory files of endpoints over shm. The provider makes one by the name of the endpoint and
 * removes it at the close, but not when the process is killed. The names that we give say whose a
 * file is, and its owner holds a lock on it; whoever opens or closes such an endpoint removes those
 * of the dead.
 */

#include "ofi.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define OFI_REMAINS_DIRECTORY "/dev/shm"
#define OFI_REMAINS_PREFIX    "amalgam-ofi."
#define OFI_REMAINS_MAX       4096 /* files looked at in one go */

/* Who a name says that its file belongs to. */
struct ofi_owner {
    uint64_t user;
    uint64_t pid;
    uint64_t start;         /* ticks since boot; 0: unknown */
    uint64_t pid_namespace; /* 0: unknown */
};

static bool ofi_owner_parse(const char *name, struct ofi_owner *owner);
static bool ofi_owner_is_dead(const struct ofi_owner *owner, uint64_t pid_namespace);
static void ofi_remains_remove(int directory, const char *name);

/* A name that no other endpoint of the node has: "amalgam-ofi.user.pid-start-namespace-random". */
int32_t ofi_remains_name(char *name, size_t size)
{
    struct kit_key random;
    uint64_t start = 0;
    bool is_over;

    if (kit_key_draw(&random) != NA_PLUGIN_SUCCESS) {
        OFI_LOG_ERROR("no random numbers for the name of an endpoint");
        return NA_PLUGIN_IO_ERROR;
    }
    if (!kit_process_read((uint32_t) getpid(), &start, &is_over))
        start = 0;
    (void) snprintf(name, size, OFI_REMAINS_PREFIX "%u.%u-%" PRIx64 "-%" PRIx64 "-%016" PRIx64,
                    (unsigned) geteuid(), (unsigned) getpid(), start, kit_process_namespace("pid"),
                    random.word[0]);
    return NA_PLUGIN_SUCCESS;
}

/*
 * An endpoint may be given a name that was a dead process's. Until ofi_remains_hold() nobody may
 * take its file for what that one left: returns a descriptor that sees to it and has to be closed,
 * negative when none is needed.
 */
int ofi_remains_guard(const char *name)
{
    struct ofi_owner owner;
    int directory;

    if (!ofi_owner_parse(name, &owner) || owner.pid == (uint64_t) getpid())
        return -1;
    directory = open(OFI_REMAINS_DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0)
        (void) flock(directory, LOCK_SH);
    return directory;
}

/* The lock by which others see that the owner of a file lives; negative when there is no file. */
int ofi_remains_hold(const char *name)
{
    char path[sizeof(OFI_REMAINS_DIRECTORY "/") + FABRIC_NAME_MAX];
    struct ofi_owner owner;
    int fd;

    if (!ofi_owner_parse(name, &owner))
        return -1;
    (void) snprintf(path, sizeof(path), OFI_REMAINS_DIRECTORY "/%s", name);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        (void) flock(fd, LOCK_SH | LOCK_NB);
    return fd;
}

/* 0 when there is a file of that name, or nobody can tell; ENOENT when there is none. */
int ofi_remains_find(const char *name)
{
    char path[sizeof(OFI_REMAINS_DIRECTORY "/") + FABRIC_NAME_MAX];
    struct stat status;

    (void) snprintf(path, sizeof(path), OFI_REMAINS_DIRECTORY "/%s", name);
    return lstat(path, &status) != 0 && errno == ENOENT ? ENOENT : 0;
}

void ofi_remains_reap(void)
{
    uint64_t pid_namespace = kit_process_namespace("pid");
    struct dirent *entry;
    int seen = 0;
    DIR *directory = opendir(OFI_REMAINS_DIRECTORY);

    if (directory == NULL)
        return;
    /* A name is being taken over, or another process is at it: the next one does it. */
    if (flock(dirfd(directory), LOCK_EX | LOCK_NB) != 0)
        goto out;
    while (seen < OFI_REMAINS_MAX && (entry = readdir(directory)) != NULL) {
        struct ofi_owner owner;

        if (!ofi_owner_parse(entry->d_name, &owner))
            continue;
        seen++;
        if (ofi_owner_is_dead(&owner, pid_namespace))
            ofi_remains_remove(dirfd(directory), entry->d_name);
    }

out:
    (void) closedir(directory);
}

/* Whether it is such a name, and our user's. */
static bool ofi_owner_parse(const char *name, struct ofi_owner *owner)
{
    uint64_t random;
    int end = 0;

    return sscanf(name,
                  OFI_REMAINS_PREFIX "%10" SCNu64 ".%10" SCNu64 "-%15" SCNx64 "-%15" SCNx64
                                     "-%16" SCNx64 "%n",
                  &owner->user, &owner->pid, &owner->start, &owner->pid_namespace, &random,
                  &end) == 5 &&
           name[end] == '\0' && owner->user == geteuid() && owner->pid != 0 &&
           owner->pid <= INT32_MAX;
}

/* False when in doubt. */
static bool ofi_owner_is_dead(const struct ofi_owner *owner, uint64_t pid_namespace)
{
    uint64_t start;
    bool is_over;

    if (owner->pid_namespace == 0 || owner->pid_namespace != pid_namespace)
        return false;
    if (kill((pid_t) owner->pid, 0) != 0 && errno == ESRCH)
        return true;
    if (owner->start == 0 || !kit_process_read((uint32_t) owner->pid, &start, &is_over))
        return false;
    return start != owner->start || is_over;
}

/* The file, unless it is no file of ours or the lock says that somebody has it. */
static void ofi_remains_remove(int directory, const char *name)
{
    struct stat status, there;
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        fstatat(directory, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        there.st_dev == status.st_dev && there.st_ino == status.st_ino &&
        unlinkat(directory, name, 0) == 0)
        OFI_LOG_INFO("removed " OFI_REMAINS_DIRECTORY "/%s, whose owner is dead", name);
    (void) close(fd);
}
