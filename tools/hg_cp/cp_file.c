/* SPDX-License-Identifier: BSD-3-Clause */
/* The destination file of a copy. */

#include "hg_cp/cp_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/tool_options.h"

/* Prefix and suffix of the names of temporary files. */
#define TEMPORARY_PREFIX ".hg_cp-"
#define TEMPORARY_SUFFIX ".part"

/* Attempts to create a temporary file, which another process may remove before it is locked. */
#define CREATE_ATTEMPTS 8U

static bool file_exists_refused(const struct cp_file *file, bool overwrite, char *text,
                                size_t text_size);
static bool file_has_room(const struct cp_file *file, uint64_t size, char *text, size_t text_size);
static bool file_create_temporary(struct cp_file *file);
static bool file_lock(int fd);
static bool file_flush(int fd);
static bool file_remove_if_stale(int dir_fd, const char *name);
static bool file_rename(const struct cp_file *file, bool overwrite);
static bool file_failed(const char *what, const char *name, char *text, size_t text_size);

bool cp_file_create(struct cp_file *file, int dir_fd, const char *name, uint64_t size,
                    bool overwrite, char *text, size_t text_size)
{
    file->dir_fd = dir_fd;
    file->fd = -1;
    if (!cp_file_name_valid(name, text, text_size))
        return false;
    (void) snprintf(file->name, sizeof(file->name), "%s", name);
    if (!file_exists_refused(file, overwrite, text, text_size) ||
        !file_has_room(file, size, text, text_size))
        return false;
    for (unsigned int i = 0; i < CREATE_ATTEMPTS; i++) {
        if (!file_create_temporary(file))
            return file_failed("cannot create", file->name, text, text_size);
        if (file_lock(file->fd))
            return true;
        cp_file_discard(file);
    }
    errno = EBUSY;
    return file_failed("cannot lock", file->name, text, text_size);
}

bool cp_file_write(const struct cp_file *file, const void *block, uint64_t size, uint64_t offset,
                   char *text, size_t text_size)
{
    const char *next = block;

    while (size > 0) {
        ssize_t written = pwrite(file->fd, next, size, (off_t) offset);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return file_failed("cannot write", file->name, text, text_size);
        next += written;
        offset += (uint64_t) written;
        size -= (uint64_t) written;
    }
    return true;
}

bool cp_file_publish(struct cp_file *file, uint32_t mode, bool overwrite, bool sync, char *text,
                     size_t text_size)
{
    mode_t mask = umask(0);

    (void) umask(mask);
    if (fchmod(file->fd, (mode_t) (mode & 0777) & ~mask) != 0 || (sync && fsync(file->fd) != 0) ||
        !file_flush(file->fd)) {
        (void) file_failed("cannot complete", file->name, text, text_size);
        cp_file_discard(file);
        return false;
    }
    if (!file_rename(file, overwrite)) {
        (void) file_failed("cannot give its name to", file->name, text, text_size);
        cp_file_discard(file);
        return false;
    }
    (void) close(file->fd); /* releases the lock, which the published file does not need */
    file->fd = -1;
    file->temporary_name[0] = '\0';
    if (sync)
        (void) fsync(file->dir_fd);
    return true;
}

void cp_file_discard(struct cp_file *file)
{
    if (file->temporary_name[0] != '\0')
        (void) unlinkat(file->dir_fd, file->temporary_name, 0);
    file->temporary_name[0] = '\0';
    if (file->fd >= 0)
        (void) close(file->fd);
    file->fd = -1;
}

unsigned int cp_file_remove_stale(int dir_fd)
{
    int list_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = list_fd >= 0 ? fdopendir(list_fd) : NULL;
    const struct dirent *entry;
    unsigned int removed = 0;

    if (list == NULL) {
        if (list_fd >= 0)
            (void) close(list_fd);
        return 0;
    }
    while ((entry = readdir(list)) != NULL) {
        size_t len = strlen(entry->d_name), suffix_len = strlen(TEMPORARY_SUFFIX);

        if (len > suffix_len &&
            strncmp(entry->d_name, TEMPORARY_PREFIX, strlen(TEMPORARY_PREFIX)) == 0 &&
            strcmp(entry->d_name + len - suffix_len, TEMPORARY_SUFFIX) == 0 &&
            file_remove_if_stale(dir_fd, entry->d_name))
            removed++;
    }
    (void) closedir(list);
    return removed;
}

bool cp_file_name_valid(const char *name, char *text, size_t text_size)
{
    const char *wrong = NULL;

    if (name == NULL || name[0] == '\0')
        wrong = "it is empty";
    else if (strchr(name, '/') != NULL)
        wrong = "it has a slash";
    else if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        wrong = "it is a directory";
    else if (strncmp(name, TEMPORARY_PREFIX, sizeof(TEMPORARY_PREFIX) - 1) == 0)
        wrong = "it looks like one of its temporary files";
    else if (strlen(name) > NAME_MAX)
        wrong = "it is too long";
    for (const char *c = name; wrong == NULL && *c != '\0'; c++) {
        if ((unsigned char) *c < ' ' || *c == 0x7f)
            wrong = "it has a control character";
    }
    if (wrong != NULL)
        (void) snprintf(text, text_size, "the target refuses the name: %s", wrong);
    return wrong == NULL;
}

/* Without this early check, the refusal would come after all the data. */
static bool file_exists_refused(const struct cp_file *file, bool overwrite, char *text,
                                size_t text_size)
{
    struct stat status;

    if (fstatat(file->dir_fd, file->name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return true;
    if (S_ISDIR(status.st_mode)) {
        (void) snprintf(text, text_size, "'%.200s' is a directory at the target", file->name);
        return false;
    }
    if (!overwrite)
        (void) snprintf(text, text_size,
                        "'%.200s' exists at the target; --force, on both sides, "
                        "overwrites it",
                        file->name);
    return overwrite;
}

static bool file_has_room(const struct cp_file *file, uint64_t size, char *text, size_t text_size)
{
    char need[32], have[32];
    struct statvfs space;
    uint64_t room;

    if (size > INT64_MAX) {
        (void) snprintf(text, text_size, "%" PRIu64 " bytes are more than a file can have", size);
        return false;
    }
    /* File systems that do not know their size report 0 blocks. */
    if (fstatvfs(file->dir_fd, &space) != 0 || space.f_blocks == 0)
        return true;
    room = (uint64_t) space.f_bavail * space.f_frsize;
    if (room >= size)
        return true;
    (void) snprintf(text, text_size, "no room at the target: the file has %s, %s are free",
                    tool_format_size(size, need, sizeof(need)),
                    tool_format_size(room, have, sizeof(have)));
    return false;
}

/* Creates the temporary file under a new random name. Only a process that created or locked such
 * a file removes it. */
static bool file_create_temporary(struct cp_file *file)
{
    uint64_t number;

    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        return false;
    (void) snprintf(file->temporary_name, sizeof(file->temporary_name),
                    TEMPORARY_PREFIX "%016" PRIx64 TEMPORARY_SUFFIX, number);
    file->fd = openat(file->dir_fd, file->temporary_name,
                      O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file->fd < 0)
        file->temporary_name[0] = '\0'; /* another process's file is not ours to remove */
    return file->fd >= 0;
}

/* Locks the file. False if another process has locked and removed it before. On a file system
 * without locks no stale file is ever removed, so that counts as locked. */
static bool file_lock(int fd)
{
    struct stat status;

    while (flock(fd, LOCK_EX) != 0 && errno == EINTR)
        ;
    return fstat(fd, &status) == 0 && status.st_nlink > 0;
}

/* Has the file system report write errors, as close() does, and keeps the lock. */
static bool file_flush(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    return copy >= 0 && close(copy) == 0;
}

static bool file_remove_if_stale(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat status;
    bool removed = false;

    if (fd < 0)
        return false;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0)
        removed = unlinkat(dir_fd, name, 0) == 0;
    (void) close(fd);
    return removed;
}

/* Renames the file. Without overwrite, a file that was created meanwhile is not replaced. */
static bool file_rename(const struct cp_file *file, bool overwrite)
{
    const char *from = file->temporary_name;

    if (overwrite)
        return renameat(file->dir_fd, from, file->dir_fd, file->name) == 0;
    if (renameat2(file->dir_fd, from, file->dir_fd, file->name, RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    /* The file system lacks RENAME_NOREPLACE: linkat() does not replace a file either. */
    return linkat(file->dir_fd, from, file->dir_fd, file->name, 0) == 0 &&
           unlinkat(file->dir_fd, from, 0) == 0;
}

static bool file_failed(const char *what, const char *name, char *text, size_t text_size)
{
    (void) snprintf(text, text_size, "%s '%.200s' at the target: %s", what, name, strerror(errno));
    return false;
}
