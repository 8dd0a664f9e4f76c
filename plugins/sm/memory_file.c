/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of an endpoint: a memfd, sealed against shrinking, which would end the processes that
 * have it mapped with SIGBUS. Making ours, opening and checking a peer's.
 */

#include "sm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#    define MFD_NOEXEC_SEAL 0x0008U
#endif

static int32_t sm_memory_reach(const struct na_plugin_class *na_class,
                               const struct sm_segment_header *header, int flags, int *fd_p);
static const char *sm_memory_fault(int fd, const struct sm_segment_header *header,
                                   const struct stat *status);

/* The memory may grow, for further rings, but not shrink, and its seals are final. */
int32_t sm_memory_create(struct sm_segment *segment, const char *name, uint64_t size)
{
    char label[sizeof(SM_PREFIX) + SM_NAME_MAX];
    int fd;

    (void) snprintf(label, sizeof(label), SM_PREFIX "%s", name);
    fd = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
        fd = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        SM_LOG_ERROR("no shared-memory file (%s)%s: memfd_create must be allowed", strerror(errno),
                     sm_error_hint(errno));
        return sm_error_status(errno);
    }
    segment->fd = fd;
    if (fchmod(fd, 0600) != 0 || ftruncate(fd, (off_t) size) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
        SM_LOG_ERROR("a memory file of %llu bytes cannot be set up (%s)", (unsigned long long) size,
                     strerror(errno));
        return NA_PLUGIN_ACCESS;
    }
    return NA_PLUGIN_SUCCESS;
}

/*
 * Opens and checks the memory of the endpoint that `header` describes. NA_PLUGIN_AGAIN when the
 * system does not let us open it: the peer must hand it over.
 */
int32_t sm_memory_open(const struct na_plugin_class *na_class, const char *name,
                       const struct sm_segment_header *header, int flags, int *fd_p,
                       uint64_t *size_p)
{
    int32_t ret = sm_memory_reach(na_class, header, flags, fd_p);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    ret = sm_memory_check(*fd_p, name, header, size_p);
    if (ret != NA_PLUGIN_SUCCESS)
        (void) close(*fd_p);
    return ret;
}

/* A peer's memory is mapped only after this check. */
int32_t sm_memory_check(int fd, const char *name, const struct sm_segment_header *header,
                        uint64_t *size_p)
{
    struct sm_segment_header copy;
    const char *fault;
    struct stat status;

    fault =
        fstat(fd, &status) != 0 ? "it cannot be looked at" : sm_memory_fault(fd, header, &status);
    if (fault != NULL) {
        SM_LOG_ERROR("the memory of %s is refused: %s", name, fault);
        return NA_PLUGIN_PERMISSION;
    }
    if (pread(fd, &copy, sizeof(copy), 0) != (ssize_t) sizeof(copy) ||
        sm_load(&copy.magic) != SM_MAGIC || copy.incarnation != header->incarnation ||
        copy.max_contexts != header->max_contexts ||
        (uint64_t) status.st_size < sm_layout_base_size(header->max_contexts)) {
        SM_LOG_ERROR("the memory of %s is refused: it contradicts " SM_DIRECTORY SM_PREFIX "%u.%s",
                     name, sm_user(), name);
        return NA_PLUGIN_PROTOCOL_ERROR;
    }
    *size_p = (uint64_t) status.st_size;
    return NA_PLUGIN_SUCCESS;
}

/*
 * Opens the memory through /proc/<pid>/fd, which works for a dumpable process of our PID namespace.
 * The pid may be another process's by now, so device and inode are compared.
 */
static int32_t sm_memory_reach(const struct na_plugin_class *na_class,
                               const struct sm_segment_header *header, int flags, int *fd_p)
{
    struct stat status;
    char path[48];

    if (header->pid_namespace != na_class->pid_namespace || header->memory_fd > INT32_MAX)
        return NA_PLUGIN_AGAIN;
    if (header->pid == na_class->pid) {
        *fd_p = fcntl((int) header->memory_fd, F_DUPFD_CLOEXEC, 0);
    } else {
        (void) snprintf(path, sizeof(path), "/proc/%u/fd/%u", (unsigned) header->pid,
                        (unsigned) header->memory_fd);
        if (stat(path, &status) != 0 || (uint64_t) status.st_dev != header->memory_device ||
            (uint64_t) status.st_ino != header->memory_inode)
            return NA_PLUGIN_AGAIN;
        *fd_p = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    }
    if (*fd_p >= 0)
        return NA_PLUGIN_SUCCESS;
    if (errno != EMFILE && errno != ENFILE && errno != ENOMEM)
        return NA_PLUGIN_AGAIN;
    SM_LOG_ERROR("a peer's memory cannot be opened (%s)%s", strerror(errno), sm_error_hint(errno));
    return NA_PLUGIN_NOMEM;
}

/* Huge pages are refused because touching them fails when there are none left. */
static const char *sm_memory_fault(int fd, const struct sm_segment_header *header,
                                   const struct stat *status)
{
    struct statfs system;
    int seals = fcntl(fd, F_GET_SEALS);

    if (!S_ISREG(status->st_mode) || (uint64_t) status->st_dev != header->memory_device ||
        (uint64_t) status->st_ino != header->memory_inode)
        return "it is another file than its owner says";
    if (status->st_uid != sm_user() || (status->st_mode & 077) != 0)
        return "it is not this user's alone";
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return "it is not sealed against shrinking, which would end this process; a peer of this "
               "release seals it";
    if (fstatfs(fd, &system) != 0 || (uint64_t) system.f_type != TMPFS_MAGIC)
        return "it is not of ordinary pages";
    return NULL;
}
