/* SPDX-License-Identifier: BSD-3-Clause */
/* The file that is copied. */

#include "hg_cp/cp_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/tool_message.h"

/* Read size of the digest's thread. It reads instead of using the mapping, so that a file that
 * becomes shorter is an error and not a signal. */
#define READ_SIZE (UINT64_C(1) << 20)

static void bus_error_handler(int signal_number);
static bool source_refused(struct cp_source *source);
static void *digest_main(void *arg);
static bool digest_read(struct cp_source *source, XXH3_state_t *state, void *buffer);

bool cp_source_open(struct cp_source *source, const char *path)
{
    memset(source, 0, sizeof(*source));
    source->path = path;
    /* O_NONBLOCK: opening a pipe by mistake does not block. */
    source->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (source->fd < 0 || fstat(source->fd, &source->status) != 0) {
        tool_error("cannot open '%s': %s", path, strerror(errno));
        cp_source_close(source);
        return false;
    }
    if (source_refused(source)) {
        cp_source_close(source);
        return false;
    }
    source->size = (uint64_t) source->status.st_size;
    if (pthread_create(&source->thread, NULL, digest_main, source) != 0) {
        tool_error("cannot start a thread for the digest");
        cp_source_close(source);
        return false;
    }
    source->thread_started = true;
    return true;
}

void cp_source_catch_bus_errors(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    (void) sigemptyset(&action.sa_mask);
    action.sa_handler = bus_error_handler;
    (void) sigaction(SIGBUS, &action, NULL);
}

void *cp_source_map(const struct cp_source *source, uint64_t offset, uint64_t size)
{
    /* Private: before Linux 6.2 RDMA devices cannot register shared read-only mappings. */
    void *part =
        mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, source->fd, (off_t) offset);

    if (part != MAP_FAILED)
        return part;
    tool_error("cannot map %" PRIu64 " bytes of '%s': %s", size, source->path, strerror(errno));
    return NULL;
}

bool cp_source_is_digested(const struct cp_source *source)
{
    return atomic_load(&source->ended);
}

bool cp_source_finish(struct cp_source *source, XXH128_hash_t *digest)
{
    if (source->thread_started)
        (void) pthread_join(source->thread, NULL);
    source->thread_started = false;
    if (!source->digested) {
        tool_error("%s", source->text);
        return false;
    }
    if (cp_source_changed(source))
        return false;
    *digest = source->digest;
    return true;
}

bool cp_source_changed(const struct cp_source *source)
{
    struct stat now;

    return fstat(source->fd, &now) != 0 || now.st_size != source->status.st_size ||
           now.st_mtim.tv_sec != source->status.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != source->status.st_mtim.tv_nsec;
}

void cp_source_close(struct cp_source *source)
{
    atomic_store(&source->stop, true);
    if (source->thread_started)
        (void) pthread_join(source->thread, NULL);
    source->thread_started = false;
    if (source->fd >= 0)
        (void) close(source->fd);
    source->fd = -1;
}

/* Access to a mapped file that became shorter raises this signal only. The target drops the copy
 * when this process has ended. */
static void bus_error_handler(int signal_number)
{
    static const char text[] = "hg_cp: error: the file became shorter, or cannot be read, while it "
                               "was copied\n";

    (void) signal_number;
    (void) !write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(TOOL_EXIT_FAILED);
}

static bool source_refused(struct cp_source *source)
{
    if (S_ISREG(source->status.st_mode))
        return false;
    tool_error(S_ISDIR(source->status.st_mode) ? "'%s' is a directory; a file can be copied"
                                               : "'%s' is not a regular file",
               source->path);
    return true;
}

static void *digest_main(void *arg)
{
    struct cp_source *source = arg;
    XXH3_state_t *state = XXH3_createState();
    void *buffer = malloc(READ_SIZE);

    if (state == NULL || buffer == NULL || XXH3_128bits_reset(state) != XXH_OK) {
        (void) snprintf(source->text, sizeof(source->text), "no memory for the digest");
    } else if (digest_read(source, state, buffer)) {
        source->digest = XXH3_128bits_digest(state);
        source->digested = true;
    }
    if (state != NULL)
        (void) XXH3_freeState(state);
    free(buffer);
    atomic_store(&source->ended, true);
    return NULL;
}

/* Reads one byte beyond the original size, to detect that the file has grown. */
static bool digest_read(struct cp_source *source, XXH3_state_t *state, void *buffer)
{
    uint64_t offset = 0;

    while (!atomic_load_explicit(&source->stop, memory_order_relaxed)) {
        ssize_t got = pread(source->fd, buffer, READ_SIZE, (off_t) offset);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            (void) snprintf(source->text, sizeof(source->text), "cannot read '%.150s': %s",
                            source->path, strerror(errno));
            return false;
        }
        if (got == 0 && offset == source->size)
            return true;
        offset += (uint64_t) got;
        if (got == 0 || offset > source->size) {
            (void) snprintf(source->text, sizeof(source->text),
                            "'%.150s' became %s while it was copied", source->path,
                            got == 0 ? "shorter" : "longer");
            return false;
        }
        (void) XXH3_128bits_update(state, buffer, (size_t) got);
    }
    (void) snprintf(source->text, sizeof(source->text), "the copy was abandoned");
    return false;
}
