/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for plugins: counted, guarded, failing on demand; and blocks between inaccessible
 * pages. */

#include "na_conformance/host_memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "na_conformance/host.h"
#include "na_conformance/shared.h"

#define MEMORY_MAGIC UINT64_C(0x6d656d2d6c697665)
#define MEMORY_FREED UINT64_C(0x6d656d2d66726565)
#define HEAD_ROOM    64u /* malloc()'s data in freed memory do not overwrite the head */
#define TAIL         32u
#define BLOCK_GUARD  64u
/* Large blocks are mapped; AddressSanitizer watches only malloc()'s memory. */
#ifdef __SANITIZE_ADDRESS__
#    define LARGE UINT64_MAX
#else
#    define LARGE (UINT64_C(256) << 10)
#endif
#define GUARD_BYTE 0xa5u
#define FREED_BYTE 0xddu

/* In front of the memory that the plugin gets. */
struct memory_head {
    uint64_t magic;
    uint64_t size;
    void *raw;
    uint64_t mapped; /* size of the mapping of a large block */
    uint64_t guard;
};

static uint8_t *raw_alloc(uint64_t room, uint64_t size, uint64_t *mapped);
static void raw_free(struct memory_head *head);

static _Atomic uint64_t live, total;
static _Atomic int64_t until_failure = -1;

void *conf_memory_alloc(uint64_t size, uint64_t align)
{
    const uint64_t room = align > HEAD_ROOM ? align : HEAD_ROOM;
    struct memory_head *head;
    uint64_t mapped = 0;
    uint8_t *raw;

    (void) atomic_fetch_add(&total, 1);
    if (atomic_load(&until_failure) >= 0 && atomic_fetch_sub(&until_failure, 1) <= 0) {
        atomic_store(&until_failure, 0); /* and all later ones fail */
        return NULL;
    }
    if ((align & (align - 1)) != 0 || size > PTRDIFF_MAX || align > (1u << 30)) {
        conf_watch_broken(CONF_WATCH_FREE, "mem_alloc was asked for %llu bytes at %llu",
                          (unsigned long long) size, (unsigned long long) align);
        return NULL;
    }
    raw = raw_alloc(room, room + size + TAIL, &mapped);
    if (raw == NULL)
        return NULL;
    conf_guard_set(raw + room + size, TAIL);
    head = (struct memory_head *) (void *) (raw + room) - 1;
    *head = (struct memory_head){MEMORY_MAGIC, size, raw, mapped, MEMORY_MAGIC};
    (void) atomic_fetch_add(&live, 1);
    return raw + room;
}

/* Checks and frees. The head of a small block stays readable for a while, to detect a second
 * free. */
void conf_memory_free(void *ptr)
{
    struct memory_head *head = ptr == NULL ? NULL : (struct memory_head *) ptr - 1;

    if (head == NULL)
        return;
    if (head->magic != MEMORY_MAGIC) {
        conf_watch_broken(CONF_WATCH_FREE, "mem_free was called %s",
                          head->magic == MEMORY_FREED ? "twice for the same memory"
                                                      : "for memory that mem_alloc did not give");
        return;
    }
    if (head->guard != MEMORY_MAGIC || conf_guard_broken((uint8_t *) ptr + head->size, TAIL) >= 0)
        conf_watch_broken(
            CONF_WATCH_BOUNDS, "memory of %llu bytes from mem_alloc was written past its %s",
            (unsigned long long) head->size, head->guard != MEMORY_MAGIC ? "beginning" : "end");
    (void) atomic_fetch_sub(&live, 1);
    raw_free(head);
}

/* Allocates zeroed memory. A large block has new pages, which the plugin touches first. */
static uint8_t *raw_alloc(uint64_t room, uint64_t size, uint64_t *mapped)
{
    const bool is_large = size >= LARGE && room <= (uint64_t) sysconf(_SC_PAGESIZE);
    void *raw = NULL;

    if (is_large) {
        raw = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *mapped = size;
        return raw != MAP_FAILED ? raw : NULL;
    }
    if (posix_memalign(&raw, room, size) != 0)
        return NULL;
    memset(raw, 0, size);
    return raw;
}

/* Frees memory; an access to a large block then crashes. */
static void raw_free(struct memory_head *head)
{
    if (head->mapped != 0) {
        (void) munmap(head->raw, head->mapped);
        return;
    }
    memset(head + 1, FREED_BYTE, head->size);
    head->magic = MEMORY_FREED;
    free(head->raw);
}

uint64_t conf_host_allocations(void)
{
    return atomic_load(&live);
}

uint64_t conf_host_allocated(void)
{
    return atomic_load(&total);
}

void conf_host_fail_allocation(int64_t count)
{
    atomic_store(&until_failure, count);
}

/* The data ends at a multiple of 64 bytes, followed by a guard and an inaccessible page. */
void conf_block_map(struct conf_block *block, uint64_t size)
{
    const uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE);
    const uint64_t used = (size + 63) / 64 * 64 + 2 * BLOCK_GUARD;
    const uint64_t pages = (used + page - 1) / page * page;

    block->map_size = pages + 2 * page;
    block->map =
        mmap(NULL, block->map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block->map == MAP_FAILED)
        conf_fail("no memory for a buffer of %llu bytes", (unsigned long long) size);
    block->size = size;
    block->data = block->map + page + pages - BLOCK_GUARD - (size + 63) / 64 * 64;
    conf_guard_set(block->map + page, (uint64_t) (block->data - block->map) - page);
    conf_guard_set(block->data + size, (uint64_t) (block->map + page + pages - block->data) - size);
    (void) mprotect(block->map, page, PROT_NONE);
    (void) mprotect(block->map + page + pages, page, PROT_NONE);
}

void conf_block_check(const struct conf_block *block, const char *what)
{
    const uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE);
    const uint8_t *end = block->map + block->map_size - page;
    int64_t before = conf_guard_broken(block->data - BLOCK_GUARD, BLOCK_GUARD);
    int64_t after =
        conf_guard_broken(block->data + block->size, (uint64_t) (end - block->data) - block->size);

    if (before >= 0)
        conf_watch_broken(CONF_WATCH_BOUNDS, "%s of %llu bytes was written to %lld bytes before it",
                          what, (unsigned long long) block->size,
                          (long long) (BLOCK_GUARD - before));
    if (after >= 0)
        conf_watch_broken(CONF_WATCH_BOUNDS, "%s of %llu bytes was written to %lld bytes past it",
                          what, (unsigned long long) block->size, (long long) after + 1);
}

void conf_block_unmap(struct conf_block *block)
{
    if (block->map != NULL)
        (void) munmap(block->map, block->map_size);
    memset(block, 0, sizeof(*block));
}

void conf_guard_set(uint8_t *guard, uint64_t size)
{
    memset(guard, GUARD_BYTE, size);
}

int64_t conf_guard_broken(const uint8_t *guard, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        if (guard[i] != GUARD_BYTE)
            return (int64_t) i;
    return -1;
}
