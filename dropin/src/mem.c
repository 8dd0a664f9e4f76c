/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Aligned, huge-page and shared memory.
 */
#define _GNU_SOURCE
#include "mercury_mem.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t hg_mem_header_room(size_t header_size, size_t alignment);

long hg_mem_get_page_size(void)
{
    long size = sysconf(_SC_PAGESIZE);

    return size > 0 ? size : 0;
}

long hg_mem_get_hugepage_size(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    long kib = 0;

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "Hugepagesize: %ld kB", &kib) == 1)
            break;
    (void) fclose(file);
    return kib > 0 ? kib * 1024 : 0;
}

void *hg_mem_aligned_alloc(size_t alignment, size_t size)
{
    void *mem = NULL;

    /* posix_memalign() wants at least the alignment of a pointer. */
    if (alignment != 0 && alignment < sizeof(void *) && (alignment & (alignment - 1)) == 0)
        alignment = sizeof(void *);
    return posix_memalign(&mem, alignment, size) == 0 ? mem : NULL;
}

void hg_mem_aligned_free(void *mem_ptr)
{
    free(mem_ptr);
}

void *hg_mem_huge_alloc(size_t size)
{
    void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0);

    return mem != MAP_FAILED ? mem : NULL;
}

int hg_mem_huge_free(void *mem_ptr, size_t size)
{
    return munmap(mem_ptr, size) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

void *hg_mem_header_alloc(size_t header_size, size_t alignment, size_t size)
{
    size_t room = hg_mem_header_room(header_size, alignment);
    char *mem;

    if (room < header_size || room > SIZE_MAX - size)
        return NULL;
    mem = alignment != 0 ? hg_mem_aligned_alloc(alignment, room + size) : malloc(room + size);
    return mem != NULL ? mem + room : NULL;
}

void hg_mem_header_free(size_t header_size, size_t alignment, void *mem_ptr)
{
    if (mem_ptr != NULL)
        free((char *) mem_ptr - hg_mem_header_room(header_size, alignment));
}

void *hg_mem_shm_map(const char *name, size_t size, bool create)
{
    void *mem = MAP_FAILED;
    struct stat info;
    int fd;

    fd = shm_open(name, O_RDWR | (create ? O_CREAT : 0), S_IRUSR | S_IWUSR);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &info) != 0)
        goto out;
    /* What is there already never shrinks under those who have mapped it. */
    if (create && (size_t) info.st_size < size && ftruncate(fd, (off_t) size) != 0)
        goto out;
    if (!create && (size_t) info.st_size < size)
        goto out;
    mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

out:
    (void) close(fd);
    return mem != MAP_FAILED ? mem : NULL;
}

int hg_mem_shm_unmap(const char *name, void *mem_ptr, size_t size)
{
    int ret = HG_UTIL_SUCCESS;

    if (mem_ptr != NULL && munmap(mem_ptr, size) != 0)
        ret = HG_UTIL_FAIL;
    if (name != NULL && shm_unlink(name) != 0)
        ret = HG_UTIL_FAIL;
    return ret;
}

/* Bytes before the memory: the header, and in front of it what aligns the memory. */
static size_t hg_mem_header_room(size_t header_size, size_t alignment)
{
    return alignment != 0 ? (header_size + alignment - 1) & ~(alignment - 1) : header_size;
}
