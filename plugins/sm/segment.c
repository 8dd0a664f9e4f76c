/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments: making our own and the file that says where it is, finding a peer's, regions for rings.
 */

#include "sm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SM_CREATE_TRIES 64

static int32_t sm_segment_make(struct sm_segment *segment, const char *name,
                               enum sm_reaped *reaped_p);
static int32_t sm_segment_make_numbered(struct na_plugin_class *na_class);
static int32_t sm_segment_taken(const char *path, enum sm_reaped reaped, int error);
static bool sm_segment_is_at_path(int fd, const char *path);
static int32_t sm_segment_write(const struct sm_segment *segment, const void *data, size_t size);
static int32_t sm_segment_build(struct na_plugin_class *na_class);
static int32_t sm_segment_check(int fd, const char *path, struct sm_segment_header *copy,
                                struct stat *status);
static uint64_t sm_page_round(uint64_t size);

/* Makes the file and the memory of our endpoint. `name` NULL: a free number is its name. */
int32_t sm_segment_create(struct na_plugin_class *na_class, const char *name)
{
    struct sm_segment *segment = &na_class->segment;
    enum sm_reaped reaped;
    int32_t ret;

    if (name != NULL) {
        (void) snprintf(na_class->name, sizeof(na_class->name), "%s", name);
        ret = sm_segment_make(segment, na_class->name, &reaped);
        if (ret == NA_PLUGIN_ADDRINUSE)
            ret = sm_segment_taken(segment->path, reaped, errno);
    } else {
        ret = sm_segment_make_numbered(na_class);
    }
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    return sm_segment_build(na_class);
}

/*
 * Copies the header without the magic to the file. A process that removes stale files then finds
 * our sockets, but peers do not find us yet.
 */
int32_t sm_segment_describe(struct na_plugin_class *na_class)
{
    const struct sm_segment *segment = &na_class->segment;

    return sm_segment_write(segment, segment->header, sizeof(*segment->header));
}

/* Writes the magic, by which peers find us. */
int32_t sm_segment_publish(struct na_plugin_class *na_class)
{
    struct sm_segment *segment = &na_class->segment;
    const uint64_t magic = SM_MAGIC;

    sm_store(&segment->header->state, SM_STATE_OPEN);
    sm_store_release(&segment->header->magic, SM_MAGIC);
    return sm_segment_write(segment, &magic, sizeof(magic));
}

void sm_segment_destroy(struct na_plugin_class *na_class)
{
    struct sm_segment *segment = &na_class->segment;

    if (segment->header != NULL)
        (void) munmap(segment->header, segment->base_size);
    if (segment->fd >= 0)
        (void) close(segment->fd);
    if (segment->file_fd >= 0) {
        if (!na_class->forked && sm_segment_is_at_path(segment->file_fd, segment->path))
            (void) unlink(segment->path);
        (void) close(segment->file_fd);
    }
    while (segment->free_regions != NULL) {
        struct sm_region *region = segment->free_regions;

        segment->free_regions = region->next;
        kit_host->mem_free(region);
    }
    segment->header = NULL;
    segment->fd = -1;
    segment->file_fd = -1;
}

/*
 * Reads the file of another endpoint into `copy`. Its owner, layout and limits are checked; the
 * other members are as the peer wrote them.
 */
int32_t sm_segment_find(const char *name, struct sm_segment_header *copy, dev_t *device_p,
                        ino_t *inode_p)
{
    char path[SM_PATH_MAX];
    struct stat status;
    int32_t ret;
    int fd;

    sm_segment_path(path, name);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        ret = errno == ENOENT ? NA_PLUGIN_NOENTRY : sm_error_status(errno);
        if (ret != NA_PLUGIN_NOENTRY)
            SM_LOG_ERROR("%s cannot be opened (%s)%s", path, strerror(errno), sm_error_hint(errno));
        return ret;
    }
    ret = sm_segment_check(fd, path, copy, &status);
    (void) close(fd);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    *device_p = status.st_dev;
    *inode_p = status.st_ino;
    return NA_PLUGIN_SUCCESS;
}

/* Takes a region of our segment and reserves its first bytes. connect_lock is held. */
int32_t sm_region_take(struct sm_segment *segment, uint64_t size, uint64_t reserved,
                       uint32_t log_level, uint64_t *offset_p)
{
    int32_t ret;

    size = sm_page_round(size);
    for (struct sm_region **link = &segment->free_regions; *link != NULL; link = &(*link)->next) {
        struct sm_region *region = *link;

        if (region->size != size)
            continue;
        ret = sm_reserve(segment->fd, region->offset, reserved, log_level);
        if (ret != NA_PLUGIN_SUCCESS)
            return ret;
        *offset_p = region->offset;
        *link = region->next;
        kit_host->mem_free(region);
        return NA_PLUGIN_SUCCESS;
    }
    if (!sm_file_size_allowed(segment->file_size + size, log_level))
        return NA_PLUGIN_NOMEM;
    if (ftruncate(segment->fd, (off_t) (segment->file_size + size)) != 0) {
        SM_LOG(log_level, "the shared memory cannot grow by %llu bytes (%s)",
               (unsigned long long) size, strerror(errno));
        return NA_PLUGIN_NOMEM;
    }
    ret = sm_reserve(segment->fd, segment->file_size, reserved, log_level);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    *offset_p = segment->file_size;
    segment->file_size += size;
    return NA_PLUGIN_SUCCESS;
}

void sm_region_give(struct sm_segment *segment, uint64_t offset, uint64_t size)
{
    struct sm_region *region = kit_host->mem_alloc(sizeof(*region), 0);

    if (region == NULL)
        return; /* the region stays unused until the endpoint closes */
    region->offset = offset;
    region->size = sm_page_round(size);
    region->next = segment->free_regions;
    segment->free_regions = region;
}

/*
 * Makes and locks the file. A process that removes stale files may unlink it before it is locked,
 * so it is made again then.
 */
static int32_t sm_segment_make(struct sm_segment *segment, const char *name,
                               enum sm_reaped *reaped_p)
{
    int fd;

    sm_segment_path(segment->path, name);
    for (int i = 0; i < SM_CREATE_TRIES; i++) {
        fd = open(segment->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno == EEXIST) {
            *reaped_p = sm_reap_name(name);
            if (*reaped_p == SM_REAPED_BUSY)
                (void) usleep(1000);
            if (*reaped_p == SM_REAPED_NONE || *reaped_p == SM_REAPED_BUSY)
                continue;
            return NA_PLUGIN_ADDRINUSE;
        }
        if (fd < 0) {
            SM_LOG_ERROR("%s cannot be made (%s)%s", segment->path, strerror(errno),
                         sm_error_hint(errno));
            return sm_error_status(errno);
        }
        if (flock(fd, LOCK_EX) == 0 && sm_segment_is_at_path(fd, segment->path)) {
            segment->file_fd = fd;
            return NA_PLUGIN_SUCCESS;
        }
        (void) close(fd);
    }
    *reaped_p = SM_REAPED_BUSY;
    return NA_PLUGIN_ADDRINUSE;
}

/*
 * The name is the pid and a counter. Another user can predict both, so random numbers replace the
 * counter once another user has taken a name.
 */
static int32_t sm_segment_make_numbered(struct na_plugin_class *na_class)
{
    static _Atomic uint32_t counter;
    struct sm_segment *segment = &na_class->segment;
    enum sm_reaped reaped = SM_REAPED_ALIVE;
    int32_t ret = NA_PLUGIN_ADDRINUSE;

    for (int i = 0; i < SM_CREATE_TRIES && ret == NA_PLUGIN_ADDRINUSE; i++) {
        struct kit_key random;
        uint64_t number;

        if (reaped == SM_REAPED_ALIVE) {
            number = atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
        } else if (kit_key_draw(&random) == NA_PLUGIN_SUCCESS) {
            number = random.word[0];
        } else {
            SM_LOG_ERROR("no random numbers (%s)", strerror(errno));
            return NA_PLUGIN_IO_ERROR;
        }
        (void) snprintf(na_class->name, sizeof(na_class->name), "%u-%u", (unsigned) na_class->pid,
                        (unsigned) (number & INT32_MAX));
        ret = sm_segment_make(segment, na_class->name, &reaped);
        if (ret == NA_PLUGIN_ADDRINUSE && reaped == SM_REAPED_FOREIGN)
            SM_LOG_INFO("%s is another user's: a random number is taken", segment->path);
    }
    return ret == NA_PLUGIN_ADDRINUSE ? sm_segment_taken(segment->path, reaped, errno) : ret;
}

/* Logs what already has the wanted name. */
static int32_t sm_segment_taken(const char *path, enum sm_reaped reaped, int error)
{
    struct stat status;

    if (reaped == SM_REAPED_UNKNOWN) {
        SM_LOG_ERROR("%s exists and can be neither opened nor removed (%s)%s", path,
                     strerror(error), sm_error_hint(error));
        return sm_error_status(error);
    }
    if (reaped == SM_REAPED_BUSY)
        SM_LOG_ERROR("%s: others make and remove this name all the time; choose another", path);
    else if (reaped == SM_REAPED_ALIVE)
        SM_LOG_ERROR("%s: the name is taken by a living endpoint; choose another", path);
    else if (lstat(path, &status) == 0)
        SM_LOG_ERROR("%s is %s of user %u, not an endpoint of user %u: remove it or choose another "
                     "name",
                     path,
                     S_ISLNK(status.st_mode)   ? "a symbolic link"
                     : S_ISREG(status.st_mode) ? "a file"
                                               : "no regular file, one",
                     (unsigned) status.st_uid, (unsigned) sm_user());
    return NA_PLUGIN_ADDRINUSE;
}

static bool sm_segment_is_at_path(int fd, const char *path)
{
    struct stat ours, there;

    return fstat(fd, &ours) == 0 && lstat(path, &there) == 0 && ours.st_dev == there.st_dev &&
           ours.st_ino == there.st_ino;
}

/* Writes to the beginning of our file. */
static int32_t sm_segment_write(const struct sm_segment *segment, const void *data, size_t size)
{
    if (pwrite(segment->file_fd, data, size, 0) == (ssize_t) size)
        return NA_PLUGIN_SUCCESS;
    SM_LOG_ERROR("%s cannot be written (%s)%s", segment->path, strerror(errno),
                 sm_error_hint(errno));
    return sm_error_status(errno);
}

/*
 * Reserves and maps the base. The tables of peer slots stay holes: a sender reserves the memory of
 * a slot before it takes the slot.
 */
static int32_t sm_segment_build(struct na_plugin_class *na_class)
{
    struct sm_segment *segment = &na_class->segment;
    uint64_t base_size = sm_layout_base_size(na_class->max_contexts);
    struct stat status;
    void *base;
    int32_t ret;

    if (!sm_file_size_allowed(base_size, NA_PLUGIN_LOG_ERROR))
        return NA_PLUGIN_NOMEM;
    ret = sm_memory_create(segment, na_class->name, base_size);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    if (fchmod(segment->file_fd, 0600) != 0 || fstat(segment->fd, &status) != 0) {
        SM_LOG_ERROR("%s cannot be set up (%s)", segment->path, strerror(errno));
        return NA_PLUGIN_ACCESS;
    }
    ret = sm_reserve(segment->fd, 0, sizeof(struct sm_segment_header), NA_PLUGIN_LOG_ERROR);
    for (uint32_t i = 0; i < na_class->max_contexts && ret == NA_PLUGIN_SUCCESS; i++)
        ret = sm_reserve(segment->fd, sm_layout_context(i), sizeof(struct sm_context_area),
                         NA_PLUGIN_LOG_ERROR);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    base = mmap(NULL, base_size, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd, 0);
    if (base == MAP_FAILED) {
        SM_LOG_ERROR("%s cannot be mapped (%s)", segment->path, strerror(errno));
        return NA_PLUGIN_NOMEM;
    }
    segment->header = base;
    segment->base_size = base_size;
    segment->file_size = base_size;
    segment->device = status.st_dev;
    segment->inode = status.st_ino;
    return NA_PLUGIN_SUCCESS;
}

/* When memory runs out, touching bytes that are not reserved ends in SIGBUS. */
int32_t sm_reserve(int fd, uint64_t offset, uint64_t size, uint32_t log_level)
{
    int ret;

    if (size == 0)
        return NA_PLUGIN_SUCCESS;
    do {
        ret = fallocate(fd, 0, (off_t) offset, (off_t) size);
    } while (ret != 0 && errno == EINTR);
    if (ret == 0)
        return NA_PLUGIN_SUCCESS;
    SM_LOG(log_level,
           "%llu bytes of shared memory cannot be reserved (%s): free memory, or raise "
           "the limit of this process",
           (unsigned long long) size, strerror(errno));
    return NA_PLUGIN_NOMEM;
}

static int32_t sm_segment_check(int fd, const char *path, struct sm_segment_header *copy,
                                struct stat *status)
{
    uint64_t magic;

    if (fstat(fd, status) != 0 || !S_ISREG(status->st_mode)) {
        SM_LOG_ERROR("%s is not a regular file: refused", path);
        return NA_PLUGIN_PERMISSION;
    }
    if (status->st_uid != sm_user() || (status->st_mode & 077) != 0) {
        SM_LOG_ERROR("%s belongs to user %u with mode %03o, not to user %u alone: refused", path,
                     (unsigned) status->st_uid, (unsigned) (status->st_mode & 0777),
                     (unsigned) sm_user());
        return NA_PLUGIN_PERMISSION;
    }
    if (pread(fd, copy, sizeof(*copy), 0) != (ssize_t) sizeof(*copy))
        return NA_PLUGIN_NOENTRY; /* its owner is writing it, or died before it did */
    magic = sm_load(&copy->magic);
    if (magic == 0)
        return NA_PLUGIN_NOENTRY;
    if (magic != SM_MAGIC || copy->version != SM_LAYOUT_VERSION) {
        SM_LOG_ERROR("%s has layout %u, ours is %u: both sides need the same release", path,
                     magic == SM_MAGIC ? copy->version : 0, SM_LAYOUT_VERSION);
        return NA_PLUGIN_PROTOCOL_ERROR;
    }
    if (copy->pid > INT32_MAX || copy->max_contexts == 0 || copy->max_contexts > SM_MAX_CONTEXTS ||
        copy->uid != status->st_uid || copy->max_unexpected > SM_MESSAGE_MAX ||
        copy->max_expected > SM_MESSAGE_MAX || copy->incarnation == 0) {
        SM_LOG_ERROR("%s contradicts itself: refused", path);
        return NA_PLUGIN_PROTOCOL_ERROR;
    }
    return NA_PLUGIN_SUCCESS;
}

/* Growing a file beyond the limit would end the process with SIGXFSZ. */
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

static uint64_t sm_page_round(uint64_t size)
{
    uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE);

    return (size + page - 1) / page * page;
}
