/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers for measurements, and the memory use of processes according to /proc. */

#include "hg_perf/perf_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/tool_message.h"

/* A shared segment that a process maps. */
struct segment {
    unsigned int device_major, device_minor;
    uint64_t inode;
    uint64_t bytes;
};

struct segment_list {
    struct segment *items;
    size_t count, capacity;
};

static uint64_t pattern_word(uint64_t seed, uint64_t index);
static uint64_t process_private(pid_t pid);
static bool segments_add_process(struct segment_list *list, pid_t pid);
static bool segments_add(struct segment_list *list, pid_t pid, const char *line);
static uint64_t segment_bytes(pid_t pid, const char *range, const char *path,
                              const struct segment *segment);

void *perf_buffer_create(uint64_t size, uint64_t seed)
{
    void *buffer = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (buffer == MAP_FAILED) {
        tool_error("cannot map a buffer of %" PRIu64 " bytes: %s", size, strerror(errno));
        return NULL;
    }
    perf_buffer_fill(buffer, size, seed);
    return buffer;
}

void perf_buffer_fill(void *buffer, uint64_t size, uint64_t seed)
{
    uint64_t *words = buffer, count = size / sizeof(*words);

    for (uint64_t i = 0; i < count; i++)
        words[i] = pattern_word(seed, i);
    memset(words + count, (int) (seed & 0x7f), size % sizeof(*words));
}

bool perf_buffer_check(const void *buffer, uint64_t size, uint64_t seed)
{
    const uint64_t *words = buffer;
    const unsigned char *bytes = buffer;
    uint64_t count = size / sizeof(*words);

    for (uint64_t i = 0; i < count; i++) {
        if (words[i] != pattern_word(seed, i))
            return false;
    }
    for (uint64_t i = count * sizeof(*words); i < size; i++) {
        if (bytes[i] != (seed & 0x7f))
            return false;
    }
    return true;
}

void perf_buffer_destroy(void *buffer, uint64_t size)
{
    if (buffer != NULL)
        (void) munmap(buffer, size);
}

bool perf_memory_measure(pid_t target, const pid_t *origins, size_t origin_count,
                         struct perf_memory *memory)
{
    struct segment_list list = {NULL, 0, 0};
    bool done = true;

    memset(memory, 0, sizeof(*memory));
    if (target > 0) {
        memory->target_private = process_private(target);
        done = segments_add_process(&list, target);
    }
    for (size_t i = 0; i < origin_count && done; i++) {
        memory->origin_private += process_private(origins[i]);
        done = segments_add_process(&list, origins[i]);
    }
    for (size_t i = 0; i < list.count; i++)
        memory->shared += list.items[i].bytes;
    free(list.items);
    return done;
}

static uint64_t pattern_word(uint64_t seed, uint64_t index)
{
    return (index + seed) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Private anonymous memory of a process, from its smaps_rollup. */
static uint64_t process_private(pid_t pid)
{
    char path[64], line[256];
    uint64_t kib = 0;
    FILE *file;

    (void) snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int) pid);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "Pss_Anon: %" SCNu64, &kib) == 1)
            break;
    }
    (void) fclose(file);
    return kib * 1024;
}

static bool segments_add_process(struct segment_list *list, pid_t pid)
{
    char path[64], *line = NULL;
    size_t line_size = 0;
    bool added = true;
    FILE *file;

    (void) snprintf(path, sizeof(path), "/proc/%d/maps", (int) pid);
    file = fopen(path, "re");
    if (file == NULL) {
        tool_error("cannot read %s: %s", path, strerror(errno));
        return false;
    }
    while (added && getline(&line, &line_size, file) > 0)
        added = segments_add(list, pid, line);
    free(line);
    (void) fclose(file);
    return added;
}

/* Parses a line of /proc/PID/maps: range, permissions, offset, device, inode, path. */
static bool segments_add(struct segment_list *list, pid_t pid, const char *line)
{
    struct segment segment = {0, 0, 0, 0};
    char range[64], permissions[8];
    int path_start = 0;

    if (sscanf(line, "%63s %7s %*s %x:%x %" SCNu64 " %n", range, permissions, &segment.device_major,
               &segment.device_minor, &segment.inode, &path_start) < 5 ||
        permissions[3] != 's' || segment.inode == 0 || path_start == 0)
        return true;
    if (strncmp(line + path_start, "/dev/shm/", 9) != 0 &&
        strncmp(line + path_start, "/memfd:", 7) != 0)
        return true;
    for (size_t i = 0; i < list->count; i++) {
        const struct segment *known = &list->items[i];

        if (known->inode == segment.inode && known->device_minor == segment.device_minor &&
            known->device_major == segment.device_major)
            return true;
    }
    if (list->count == list->capacity) {
        size_t capacity = list->capacity != 0 ? 2 * list->capacity : 256;
        struct segment *items = realloc(list->items, capacity * sizeof(*items));

        if (items == NULL)
            return false;
        list->items = items;
        list->capacity = capacity;
    }
    segment.bytes = segment_bytes(pid, range, line + path_start, &segment);
    list->items[list->count++] = segment;
    return true;
}

/* Memory use of a segment: its blocks, which include pages that no process has touched. */
static uint64_t segment_bytes(pid_t pid, const char *range, const char *path,
                              const struct segment *segment)
{
    char link[128], name[512];
    struct stat status;
    uint64_t start, end;

    (void) snprintf(name, sizeof(name), "%.*s", (int) strcspn(path, "\n"), path);
    if (stat(name, &status) == 0 && status.st_ino == segment->inode)
        return (uint64_t) status.st_blocks * 512;
    (void) snprintf(link, sizeof(link), "/proc/%d/map_files/%s", (int) pid, range);
    if (stat(link, &status) == 0 && status.st_ino == segment->inode)
        return (uint64_t) status.st_blocks * 512;
    /* Removed, and not accessible: the mapped size is an upper bound. */
    if (sscanf(range, "%" SCNx64 "-%" SCNx64, &start, &end) == 2)
        return end - start;
    return 0;
}
