/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool: memory for programs in a region of our segment. Peers map the region, so that a
 * transfer is one copy in user space (rma_shared.c). The region is address space; as with other
 * memory the system takes pages when they are touched first. A part of the free blocks keeps its
 * pages for the next use.
 */

#include "sm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define SM_POOL_MAX        (UINT64_C(1) << 40) /* largest budget */
#define SM_POOL_DEFAULT    (UINT64_C(16) << 30)
#define SM_POOL_KEPT_MAX   (UINT64_C(64) << 20) /* bytes of free blocks that keep their pages */
#define SM_POOL_KEPT_BLOCK (UINT64_C(16) << 20) /* the largest block that displaces kept ones */
#define SM_POOL_RINGS      (UINT64_C(64) << 20) /* left for rings below the limit of file sizes */
/* Address space for each byte of the budget: a free block is not used for another size. */
#define SM_POOL_SPREAD 4u

static void *sm_pool_alloc(struct na_plugin_class *na_class, uint64_t size);
static int32_t sm_pool_free(struct na_plugin_class *na_class, void *memory);
static bool sm_pool_parse(const char *text, uint64_t *bytes_p);
static bool sm_pool_open(struct na_plugin_class *na_class);
static uint32_t sm_pool_class(const struct sm_pool *pool, uint64_t size);
static uint64_t sm_pool_block_size(const struct sm_pool *pool, uint32_t size_class);
static uint32_t sm_pool_take(struct na_plugin_class *na_class, uint32_t size_class,
                             bool *is_ready_p);
static void sm_pool_give(struct na_plugin_class *na_class, uint32_t index);
static uint32_t sm_pool_extend(struct na_plugin_class *na_class, uint32_t size_class);
static bool sm_pool_restart(struct na_plugin_class *na_class);
static uint32_t sm_pool_find(const struct sm_pool *pool, uint64_t offset);
static uint32_t sm_pool_pop(struct sm_pool *pool, struct sm_block_list *list, uint32_t size_class);
static void sm_pool_push(struct sm_pool *pool, struct sm_block_list *list, uint32_t index);
static void sm_pool_flush(struct na_plugin_class *na_class);
static bool sm_pool_remove(const struct na_plugin_class *na_class, uint64_t offset, uint64_t size);

const struct na_plugin_mem_alloc sm_mem_alloc_extension = {
    .extension = {.size = sizeof(struct na_plugin_mem_alloc)},
    .mem_alloc = sm_pool_alloc,
    .mem_free = sm_pool_free,
};

/*
 * Reads the budget from the option `pool`. The default is a quarter of the machine's memory, and no
 * pool for a process whose address space is limited.
 */
int32_t sm_pool_configure(struct na_plugin_class *na_class, const struct na_plugin_init *init)
{
    struct sm_pool *pool = &na_class->pool;
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    char option[24] = "";
    int32_t ret = kit_option_get(init, "pool", option, sizeof(option));

    pool->page = page > 0 ? (uint64_t) page : 4096;
    memset(&pool->ready, 0xff, sizeof(pool->ready));
    memset(&pool->empty, 0xff, sizeof(pool->empty));
    if (ret == NA_PLUGIN_NOENTRY) {
        pool->budget = pages > 0 ? (uint64_t) pages / 4 * pool->page : 0;
        if (pool->budget > SM_POOL_DEFAULT)
            pool->budget = SM_POOL_DEFAULT;
        if (!sm_pool_is_allowed(pool->budget * SM_POOL_SPREAD))
            pool->budget = 0;
    } else if (ret != NA_PLUGIN_SUCCESS || !sm_pool_parse(option, &pool->budget)) {
        SM_LOG_ERROR("option pool is '%.24s'; give bytes, as 512M or 4G, up to 1024G, or 0",
                     option);
        return NA_PLUGIN_INVALID_ARG;
    }
    if (na_class->force_copy)
        pool->budget = 0;
    return NA_PLUGIN_SUCCESS;
}

/* Whether a process may map so much that it mostly does not use. */
bool sm_pool_is_allowed(uint64_t size)
{
    struct rlimit limit;

    return size <= SM_POOL_MAX * SM_POOL_SPREAD &&
           (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY);
}

/* Peers may have the pool mapped for some time: its pages are returned at once. */
void sm_pool_close(struct na_plugin_class *na_class)
{
    struct sm_pool *pool = &na_class->pool;
    uint8_t *base = sm_load(&pool->base);

    if (base != NULL && !na_class->forked && pool->next != 0)
        (void) sm_pool_remove(na_class, 0, pool->next);
    if (base != NULL)
        (void) munmap(base, pool->size);
    sm_store(&pool->base, NULL);
    kit_host->mem_free(pool->blocks);
    pool->blocks = NULL;
}

/* Memory that a stopped process may still write to: its blocks are not used again. */
void sm_pool_lose(struct na_plugin_class *na_class, const struct na_plugin_mem *mem)
{
    struct sm_pool *pool = &na_class->pool;

    kit_lock_take(&pool->lock);
    for (uint32_t i = 0; i < mem->segment_count; i++) {
        const uint64_t offset =
            (uint64_t) ((uintptr_t) mem->segments[i].base - (uintptr_t) sm_load(&pool->base));
        const uint32_t index = offset < pool->next ? sm_pool_find(pool, offset) : SM_BLOCK_NONE;

        if (index != SM_BLOCK_NONE)
            pool->blocks[index].is_lost = true;
    }
    kit_lock_drop(&pool->lock);
}

static void *sm_pool_alloc(struct na_plugin_class *na_class, uint64_t size)
{
    struct sm_pool *pool = &na_class->pool;
    uint32_t size_class, index = SM_BLOCK_NONE;
    bool is_ready = false;
    uint8_t *memory = NULL;

    if (size < pool->page || size > pool->budget || na_class->forked)
        return NULL;
    size_class = sm_pool_class(pool, size);
    kit_lock_take(&pool->lock);
    if (sm_pool_open(na_class))
        index = sm_pool_take(na_class, size_class, &is_ready);
    if (index != SM_BLOCK_NONE)
        memory = sm_load(&pool->base) + pool->blocks[index].offset;
    kit_lock_drop(&pool->lock);
    if (memory != NULL && is_ready)
        memset(memory, 0, size); /* the last user's data */
    return memory;
}

static int32_t sm_pool_free(struct na_plugin_class *na_class, void *memory)
{
    struct sm_pool *pool = &na_class->pool;
    uint8_t *base = sm_load_acquire(&pool->base);
    const uint64_t offset = (uint64_t) ((uintptr_t) memory - (uintptr_t) base);
    uint32_t index;

    if (base == NULL || offset >= pool->size)
        return NA_PLUGIN_NOENTRY;
    if (na_class->forked)
        return NA_PLUGIN_SUCCESS; /* the block is the parent's */
    kit_lock_take(&pool->lock);
    index = sm_pool_find(pool, offset);
    if (index != SM_BLOCK_NONE && pool->blocks[index].offset == offset)
        sm_pool_give(na_class, index);
    else
        index = SM_BLOCK_NONE;
    kit_lock_drop(&pool->lock);
    if (index == SM_BLOCK_NONE)
        SM_LOG_ERROR("%p is not the beginning of allocated memory: it was freed before, or is a "
                     "part of a larger allocation",
                     memory);
    return NA_PLUGIN_SUCCESS;
}

/* Reads a number with an optional K, M, G or T. */
static bool sm_pool_parse(const char *text, uint64_t *bytes_p)
{
    static const char units[] = "KMGT";
    const char *unit;
    char *end;
    unsigned long long value;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    value = strtoull(text, &end, 10);
    unit = *end != '\0' ? strchr(units, *end & ~0x20) : NULL;
    if (errno != 0 || value > SM_POOL_MAX || (*end != '\0' && (unit == NULL || end[1] != '\0')))
        return false;
    for (; unit != NULL && unit >= units && value <= SM_POOL_MAX; unit--)
        value *= 1024;
    *bytes_p = value;
    return value <= SM_POOL_MAX;
}

/* Makes the region at the first allocation. False: there is none. The lock is held. */
static bool sm_pool_open(struct na_plugin_class *na_class)
{
    struct sm_segment_header *header = na_class->segment.header;
    struct sm_pool *pool = &na_class->pool;
    const uint64_t size = pool->budget * SM_POOL_SPREAD / pool->page * pool->page;
    void *map = MAP_FAILED;

    if (kit_likely(sm_load(&pool->base) != NULL || pool->is_refused))
        return !pool->is_refused;
    kit_lock_take(&na_class->connect_lock);
    if (sm_pool_is_lazy() &&
        sm_file_size_allowed(na_class->segment.file_size + size + SM_POOL_RINGS,
                             NA_PLUGIN_LOG_DEBUG) &&
        sm_region_take(&na_class->segment, size, 0, NA_PLUGIN_LOG_DEBUG, &pool->offset) ==
            NA_PLUGIN_SUCCESS) {
        map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                   na_class->segment.fd, (off_t) pool->offset);
        if (map == MAP_FAILED)
            sm_region_give(&na_class->segment, pool->offset, size);
    }
    kit_lock_drop(&na_class->connect_lock);
    if (map == MAP_FAILED) {
        pool->is_refused = true;
        SM_LOG_INFO("no address space of %llu bytes for a pool (locked memory, no overcommitment, "
                    "`ulimit -f`, `ulimit -v`): ordinary memory is allocated, to which transfers "
                    "are slower",
                    (unsigned long long) size);
        return false;
    }
    sm_pool_advise(map, size);
    pool->size = size;
    header->pool_base = (uint64_t) (uintptr_t) map;
    header->pool_size = size;
    sm_store_release(&header->pool_offset, pool->offset);
    sm_store_release(&pool->base, map);
    return true;
}

/*
 * Whether the system takes pages when they are touched, and not all of them when they are mapped:
 * after mlockall(MCL_FUTURE) a mapping would fill all of the region. Without overcommitment a page
 * that cannot be taken would end the process.
 */
bool sm_pool_is_lazy(void)
{
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    unsigned char is_resident = 0;
    FILE *file = fopen("/proc/sys/vm/overcommit_memory", "re");
    int mode = file != NULL ? fgetc(file) : EOF;
    void *probe;

    if (file != NULL)
        (void) fclose(file);
    probe = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (probe == MAP_FAILED)
        return false;
    if (mincore(probe, page, &is_resident) != 0)
        is_resident = 1;
    (void) munmap(probe, page);
    return mode != '2' && (is_resident & 1) == 0;
}

/* For a pool that was mapped, here or by a peer. */
void sm_pool_advise(void *map, uint64_t size)
{
    (void) madvise(map, size, MADV_DONTDUMP); /* a core file would have all of its pages */
    (void) madvise(map, size, MADV_HUGEPAGE); /* where shmem_enabled is advise */
}

/* Four sizes for each power of two, so that at most a fifth of a block is unused. */
static uint32_t sm_pool_class(const struct sm_pool *pool, uint64_t size)
{
    const uint64_t pages = (size + pool->page - 1) / pool->page;
    uint32_t power;

    if (pages <= 4)
        return (uint32_t) pages - 1;
    power = 63 - (uint32_t) __builtin_clzll(pages - 1);
    return power * 4 - 8 + (uint32_t) ((pages - 1) >> (power - 2));
}

static uint64_t sm_pool_block_size(const struct sm_pool *pool, uint32_t size_class)
{
    const uint32_t power = size_class / 4 + 1;

    if (size_class < 4)
        return (size_class + 1) * pool->page;
    return (UINT64_C(5) + size_class % 4) * pool->page << (power - 2);
}

/* Takes a block within the budget. The lock is held. */
static uint32_t sm_pool_take(struct na_plugin_class *na_class, uint32_t size_class,
                             bool *is_ready_p)
{
    struct sm_pool *pool = &na_class->pool;
    const uint64_t size = sm_pool_block_size(pool, size_class);
    uint32_t index = sm_pool_pop(pool, &pool->ready, size_class);

    *is_ready_p = index != SM_BLOCK_NONE;
    if (*is_ready_p) {
        pool->kept -= size;
        pool->used++;
        return index;
    }
    if (size > pool->budget - (pool->held - pool->kept))
        return SM_BLOCK_NONE;
    if (size > pool->budget - pool->held)
        sm_pool_flush(na_class);
    if (size > pool->budget - pool->held)
        return SM_BLOCK_NONE;
    index = sm_pool_pop(pool, &pool->empty, size_class);
    if (index == SM_BLOCK_NONE)
        index = sm_pool_extend(na_class, size_class);
    if (index == SM_BLOCK_NONE)
        return SM_BLOCK_NONE;
    pool->held += size;
    pool->used++;
    return index;
}

/* Takes a used block back. The lock is held. */
static void sm_pool_give(struct na_plugin_class *na_class, uint32_t index)
{
    struct sm_pool *pool = &na_class->pool;
    const uint64_t size = sm_pool_block_size(pool, pool->blocks[index].size_class);

    pool->blocks[index].is_used = false;
    if (pool->blocks[index].is_lost)
        return; /* it stays in the sums, too */
    pool->used--;
    if (pool->kept + size > SM_POOL_KEPT_MAX && size <= SM_POOL_KEPT_BLOCK)
        sm_pool_flush(na_class);
    if (pool->kept + size > SM_POOL_KEPT_MAX &&
        sm_pool_remove(na_class, pool->blocks[index].offset, size)) {
        pool->held -= size;
        sm_pool_push(pool, &pool->empty, index);
    } else {
        pool->kept += size;
        sm_pool_push(pool, &pool->ready, index);
    }
}

/* Makes a block at the end, without memory. */
static uint32_t sm_pool_extend(struct na_plugin_class *na_class, uint32_t size_class)
{
    struct sm_pool *pool = &na_class->pool;
    const uint64_t size = sm_pool_block_size(pool, size_class);

    if (size > pool->size - pool->next && !sm_pool_restart(na_class))
        return SM_BLOCK_NONE;
    if (pool->block_count == pool->block_capacity) {
        const uint32_t capacity = pool->block_capacity != 0 ? 2 * pool->block_capacity : 64;
        struct sm_block *blocks = kit_host->mem_alloc((uint64_t) capacity * sizeof(*blocks), 0);

        if (blocks == NULL)
            return SM_BLOCK_NONE;
        if (pool->block_count != 0)
            memcpy(blocks, pool->blocks, pool->block_count * sizeof(*blocks));
        kit_host->mem_free(pool->blocks);
        pool->blocks = blocks;
        pool->block_capacity = capacity;
    }
    pool->blocks[pool->block_count] = (struct sm_block){
        .offset = pool->next, .size_class = (uint8_t) size_class, .is_used = true};
    pool->next += size;
    return pool->block_count++;
}

/* The region is used up by free blocks of other sizes. False while any block is used. */
static bool sm_pool_restart(struct na_plugin_class *na_class)
{
    struct sm_pool *pool = &na_class->pool;

    if (pool->used == 0 && sm_pool_remove(na_class, 0, pool->next)) {
        memset(&pool->ready, 0xff, sizeof(pool->ready));
        memset(&pool->empty, 0xff, sizeof(pool->empty));
        pool->held = pool->kept = pool->next = 0;
        pool->block_count = 0;
        return true;
    }
    if (!pool->is_full_logged)
        SM_LOG_INFO("blocks of other sizes use up the address space of the pool: ordinary memory "
                    "is allocated; a larger pool (na+sm://?pool=) has more");
    pool->is_full_logged = true;
    return false;
}

/* Returns the used block that has this byte. */
static uint32_t sm_pool_find(const struct sm_pool *pool, uint64_t offset)
{
    uint32_t first = 0, end = pool->block_count;

    while (end - first > 1) {
        const uint32_t middle = first + (end - first) / 2;

        if (pool->blocks[middle].offset <= offset)
            first = middle;
        else
            end = middle;
    }
    return end != 0 && offset < pool->next && pool->blocks[first].is_used ? first : SM_BLOCK_NONE;
}

static uint32_t sm_pool_pop(struct sm_pool *pool, struct sm_block_list *list, uint32_t size_class)
{
    const uint32_t index = list->first[size_class];

    if (index != SM_BLOCK_NONE) {
        list->first[size_class] = pool->blocks[index].next;
        pool->blocks[index].is_used = true;
    }
    return index;
}

static void sm_pool_push(struct sm_pool *pool, struct sm_block_list *list, uint32_t index)
{
    struct sm_block *block = &pool->blocks[index];

    block->next = list->first[block->size_class];
    list->first[block->size_class] = index;
}

/* Returns the memory of the free blocks to the system. */
static void sm_pool_flush(struct na_plugin_class *na_class)
{
    struct sm_pool *pool = &na_class->pool;

    for (uint32_t size_class = 0; size_class < SM_POOL_CLASSES; size_class++) {
        const uint64_t size = sm_pool_block_size(pool, size_class);
        uint32_t index = pool->ready.first[size_class];

        while (index != SM_BLOCK_NONE &&
               sm_pool_remove(na_class, pool->blocks[index].offset, size)) {
            pool->ready.first[size_class] = pool->blocks[index].next;
            sm_pool_push(pool, &pool->empty, index);
            pool->kept -= size;
            pool->held -= size;
            index = pool->ready.first[size_class];
        }
    }
}

/* By address, which caches of registrations notice; locked memory is returned by its file alone. */
static bool sm_pool_remove(const struct na_plugin_class *na_class, uint64_t offset, uint64_t size)
{
    const struct sm_pool *pool = &na_class->pool;

    return madvise(sm_load(&pool->base) + offset, size, MADV_REMOVE) == 0 ||
           fallocate(na_class->segment.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     (off_t) (pool->offset + offset), (off_t) size) == 0;
}
