/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is inside of an endpoint's shared memory. shm keeps the queue of an endpoint under a spin
 * lock that its peers take, too; one that a killed process holds stays taken, and every call that
 * needs it spins for ever. So nobody calls the provider about an endpoint without holding its
 * guard, a word in the part of the file that the provider does not use: it says who holds it, and
 * whoever finds that this one has died takes the guard over and sets the lock free.
 */

#include "ofi.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define OFI_GUARD_DIRECTORY "/dev/shm"
#define OFI_GUARD_MAGIC     UINT64_C(0x647261756749464f)
#define OFI_GUARD_SPINS     1024u
#define OFI_GUARD_LOOK_NS   UINT64_C(1000000) /* between two looks at the holder's process */
#define OFI_GUARD_PID_BITS  22                /* the kernel has no longer ones */
#define OFI_GUARD_FILE_MAX  (UINT64_C(1) << 32)

/* How libfabric 1.17 begins such a file; the layout that is checked before anything is believed. */
#define OFI_REGION_VERSION  4u
#define OFI_REGION_COMMANDS (UINT64_C(1) << 24) /* more than any queue has */
#define OFI_REGION_OFFSETS  7
#define OFI_REGION_LAST     108u /* bytes of what the last offset leads to */

struct ofi_region {
    uint8_t version;
    uint8_t reserved;
    uint16_t flags;
    int32_t pid;
    uint8_t attach[4];
    uint32_t buffers;
    uint64_t base;
    pthread_spinlock_t lock;
    int32_t signal;
    uint64_t map;
    uint64_t size;
    uint64_t commands; /* free places of the queue */
    uint64_t transfers;
    uint64_t offsets[OFI_REGION_OFFSETS];
};

_Static_assert(sizeof(pthread_spinlock_t) == 4 && offsetof(struct ofi_region, lock) == 24 &&
                   offsetof(struct ofi_region, commands) == 48 && sizeof(struct ofi_region) == 120,
               "as libfabric has it");

/* The last bytes of the file. */
struct ofi_guard_word {
    _Atomic uint64_t magic;
    _Atomic uint64_t pid_namespace; /* of the endpoint's owner */
    _Atomic uint64_t holder;        /* start time and process id; 0: nobody */
    uint64_t reserved[5];
};

_Static_assert(sizeof(struct ofi_guard_word) == OFI_CACHE_LINE, "a line of its own");

static int32_t ofi_guard_map(struct ofi_guard *guard, int fd);
static bool ofi_region_is_known(const struct ofi_region *region, uint64_t size);
static bool ofi_guard_take_over(struct ofi_guard *guard, uint64_t self);
static bool ofi_holder_is_dead(uint64_t holder);
static void ofi_region_repair(struct ofi_region *region);

/* This process, as the holder of a guard. */
uint64_t ofi_guard_self(void)
{
    uint64_t start = 0;
    bool is_over;

    if (!kit_process_read((uint32_t) getpid(), &start, &is_over))
        start = 0;
    return start << OFI_GUARD_PID_BITS | (uint64_t) getpid();
}

/*
 * The guard of the endpoint of that name, whose owner calls this first. NA_PLUGIN_AGAIN: it is not
 * there yet. A file of a layout that is not known has none: taking it always succeeds.
 */
int32_t ofi_guard_open(struct ofi_guard *guard, const char *name, bool is_owner)
{
    char path[sizeof(OFI_GUARD_DIRECTORY "/") + FABRIC_NAME_MAX];
    uint64_t pid_namespace = kit_process_namespace("pid");
    int32_t ret;
    int fd;

    *guard = (struct ofi_guard){0};
    (void) snprintf(path, sizeof(path), OFI_GUARD_DIRECTORY "/%s", name);
    fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? NA_PLUGIN_AGAIN : NA_PLUGIN_SUCCESS;
    ret = ofi_guard_map(guard, fd);
    (void) close(fd);
    if (guard->memory == NULL)
        return ret;
    if (is_owner) { /* a holder that a predecessor left is found out like any other */
        atomic_store(&guard->word->pid_namespace, pid_namespace);
        atomic_store(&guard->word->magic, OFI_GUARD_MAGIC);
    } else if (atomic_load(&guard->word->magic) != OFI_GUARD_MAGIC) {
        ofi_guard_close(guard);
        ret = NA_PLUGIN_AGAIN;
    } else if (atomic_load(&guard->word->pid_namespace) != pid_namespace) {
        ofi_guard_close(guard); /* nobody could tell who lives */
    }
    return ret;
}

void ofi_guard_close(struct ofi_guard *guard)
{
    if (guard->memory != NULL)
        (void) munmap(guard->memory, guard->size);
    *guard = (struct ofi_guard){0};
}

/*
 * Whose endpoint of that name is another user's, who cannot open ours: libfabric ends that process
 * for an answer that it wants to send. True as well for one that is not there yet.
 */
bool ofi_guard_is_ours(const char *name, unsigned int *user)
{
    char path[sizeof(OFI_GUARD_DIRECTORY "/") + FABRIC_NAME_MAX];
    struct stat status;

    (void) snprintf(path, sizeof(path), OFI_GUARD_DIRECTORY "/%s", name);
    if (lstat(path, &status) != 0)
        return true;
    *user = (unsigned int) status.st_uid;
    return status.st_uid == geteuid();
}

/* Whether the file of that name is still the one that was opened. */
bool ofi_guard_is_of(const struct ofi_guard *guard, const char *name)
{
    char path[sizeof(OFI_GUARD_DIRECTORY "/") + FABRIC_NAME_MAX];
    struct stat status;

    if (guard->memory == NULL)
        return true;
    (void) snprintf(path, sizeof(path), OFI_GUARD_DIRECTORY "/%s", name);
    return lstat(path, &status) == 0 && (uint64_t) status.st_dev == guard->device &&
           (uint64_t) status.st_ino == guard->inode;
}

/* False when somebody else holds it for long: try again later. */
bool ofi_guard_take(struct ofi_guard *guard, uint64_t self)
{
    if (guard->memory == NULL)
        return true;
    for (uint32_t i = 0; i < OFI_GUARD_SPINS; i++) {
        uint64_t nobody = 0;

        if (atomic_load_explicit(&guard->word->holder, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&guard->word->holder, &nobody, self,
                                                    memory_order_acquire, memory_order_relaxed))
            return true;
        kit_cpu_relax();
    }
    return ofi_guard_take_over(guard, self);
}

void ofi_guard_release(struct ofi_guard *guard)
{
    if (guard->memory != NULL)
        atomic_store_explicit(&guard->word->holder, 0, memory_order_release);
}

/* NA_PLUGIN_AGAIN: the provider has not finished the file. Nothing is mapped when the layout is
 * another. */
static int32_t ofi_guard_map(struct ofi_guard *guard, int fd)
{
    const struct ofi_region *region;
    struct stat status;
    int32_t ret;

    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
        (uint64_t) status.st_size > OFI_GUARD_FILE_MAX || status.st_size % OFI_CACHE_LINE != 0)
        return NA_PLUGIN_SUCCESS;
    guard->size = (uint64_t) status.st_size;
    if (guard->size < sizeof(struct ofi_region) + sizeof(struct ofi_guard_word))
        return NA_PLUGIN_AGAIN;
    guard->memory = mmap(NULL, guard->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (guard->memory == MAP_FAILED) {
        guard->memory = NULL;
        return NA_PLUGIN_SUCCESS;
    }
    guard->device = (uint64_t) status.st_dev;
    guard->inode = (uint64_t) status.st_ino;
    guard->word =
        (void *) ((uint8_t *) guard->memory + guard->size - sizeof(struct ofi_guard_word));
    region = guard->memory;
    if (ofi_region_is_known(region, guard->size))
        return NA_PLUGIN_SUCCESS;
    ret = region->pid == 0 ? NA_PLUGIN_AGAIN : NA_PLUGIN_SUCCESS;
    ofi_guard_close(guard);
    return ret;
}

/* Everything that is known of the layout holds, and the guard lies behind it. */
static bool ofi_region_is_known(const struct ofi_region *region, uint64_t size)
{
    const struct ofi_region copy = *region;
    uint64_t last = (sizeof(copy) + 15) & ~UINT64_C(15);

    if (copy.version != OFI_REGION_VERSION || copy.pid <= 0 || copy.size != size ||
        copy.commands > OFI_REGION_COMMANDS || copy.transfers > OFI_REGION_COMMANDS ||
        copy.offsets[0] != last)
        return false;
    for (int i = 1; i < OFI_REGION_OFFSETS; i++) {
        if (copy.offsets[i] <= last || copy.offsets[i] > size)
            return false;
        last = copy.offsets[i];
    }
    return last + OFI_REGION_LAST + sizeof(struct ofi_guard_word) <= size;
}

/* From a holder that has died. */
static bool ofi_guard_take_over(struct ofi_guard *guard, uint64_t self)
{
    uint64_t now = kit_host->clock_ns();
    uint64_t holder;

    if (now - guard->looked_at < OFI_GUARD_LOOK_NS)
        return false;
    guard->looked_at = now;
    holder = atomic_load_explicit(&guard->word->holder, memory_order_relaxed);
    if (holder != 0 && !ofi_holder_is_dead(holder))
        return false;
    if (!atomic_compare_exchange_strong(&guard->word->holder, &holder, self))
        return false;
    if (holder != 0)
        ofi_region_repair(guard->memory);
    return true;
}

static bool ofi_holder_is_dead(uint64_t holder)
{
    uint64_t pid = holder & ((UINT64_C(1) << OFI_GUARD_PID_BITS) - 1);
    uint64_t start;
    bool is_over;

    if (pid == 0)
        return true; /* nobody's mark */
    if (kill((pid_t) pid, 0) != 0 && errno == ESRCH)
        return true;
    if (holder >> OFI_GUARD_PID_BITS == 0 || !kit_process_read((uint32_t) pid, &start, &is_over))
        return false;
    return is_over || start << OFI_GUARD_PID_BITS != holder - pid;
}

/*
 * Who writes a command makes it visible in its last step but one; the last counts the place that it
 * took. So what is there is whole, and counting one place too many as taken is the safe side.
 */
static void ofi_region_repair(struct ofi_region *region)
{
    if (pthread_spin_trylock(&region->lock) != 0 && region->commands != 0)
        region->commands--;
    /* Not an unlock: whoever held it is dead. */
    (void) pthread_spin_init(&region->lock, PTHREAD_PROCESS_SHARED);
    OFI_LOG_INFO("a process that was killed held the queue of an endpoint: it is set free");
}
