/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool: memory for programs in a region of our segment. Peers map the region, so that a
 * transfer is one copy in user space (rma_shared.c). The region is address space; a block's memory
 * is reserved when the block is allocated, and a part of the free blocks keeps it for the next use.
 */

#include "sm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SM_POOL_MAX        (UINT64_C(1) << 40) /* largest budget */
#define SM_POOL_DEFAULT    (UINT64_C(16) << 30)
#define SM_POOL_CACHED_MAX (UINT64_C(64) << 20) /* bytes of free blocks that keep their memory */
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
static uint32_t sm_pool_extend(struct sm_pool *pool, uint32_t size_class);
static uint32_t sm_pool_find(const struct sm_pool *pool, uint64_t offset);
static uint32_t sm_pool_pop(struct sm_pool *pool, struct sm_block_list *list, uint32_t size_class);
static void sm_pool_push(struct sm_pool *pool, struct sm_block_list *list, uint32_t index);
static void sm_pool_flush(struct na_plugin_class *na_class);
static bool sm_pool_discard(const struct na_plugin_class *na_class, uint32_t index);

const struct na_plugin_mem_alloc sm_mem_alloc_extension = {
    .extension = {.size = sizeof(struct na_plugin_mem_alloc)},
    .mem_alloc = sm_pool_alloc,
    .mem_free = sm_pool_free,
};

/* Reads the budget from the option `pool`. The default is a quarter of the machine's memory. */
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
    } else if (ret != NA_PLUGIN_SUCCESS || !sm_pool_parse(option, &pool->budget)) {
        SM_LOG_ERROR("option pool is '%.24s'; give bytes, as 512M or 4G, up to 1024G, or 0",
                     option);
        return NA_PLUGIN_INVALID_ARG;
    }
    if (na_class->force_copy)
        pool->budget = 0;
    return NA_PLUGIN_SUCCESS;
}

void sm_pool_close(struct na_plugin_class *na_class)
{
    struct sm_pool *pool = &na_class->pool;

    if (pool->base != NULL)
        (void) munmap(pool->base, pool->size);
    pool->base = NULL;
    kit_host->mem_free(pool->blocks);
    pool->blocks = NULL;
}

static void *sm_pool_alloc(struct na_plugin_class *na_class, uint64_t size)
{
    struct sm_pool *pool = &na_class->pool;
    uint32_t size_class, index = SM_BLOCK_NONE;
    bool is_ready = false;
    uint8_t *memory;

    if (size < pool->page || size > pool->budget || na_class->forked)
        return NULL;
    size_class = sm_pool_class(pool, size);
    kit_lock_take(&pool->lock);
    if (sm_pool_open(na_class))
        index = sm_pool_take(na_class, size_class, &is_ready);
    memory = index != SM_BLOCK_NONE ? pool->base + pool->blocks[index].offset : NULL;
    kit_lock_drop(&pool->lock);
    if (memory != NULL && is_ready)
        memset(memory, 0, size); /* the last user's data */
    return memory;
}

static int32_t sm_pool_free(struct na_plugin_class *na_class, void *memory)
{
    struct sm_pool *pool = &na_class->pool;
    const uint64_t offset = (uint64_t) ((uintptr_t) memory - (uintptr_t) pool->base);
    uint32_t index;
    uint64_t size;

    if (offset >= pool->size)
        return NA_PLUGIN_NOENTRY;
    if (na_class->forked)
        return NA_PLUGIN_SUCCESS; /* the block is the parent's */
    kit_lock_take(&pool->lock);
    index = sm_pool_find(pool, offset);
    if (index != SM_BLOCK_NONE) {
        pool->blocks[index].is_used = false;
        size = sm_pool_block_size(pool, pool->blocks[index].size_class);
        if (pool->cached + size > SM_POOL_CACHED_MAX && sm_pool_discard(na_class, index)) {
            pool->reserved -= size;
            sm_pool_push(pool, &pool->empty, index);
        } else {
            pool->cached += size;
            sm_pool_push(pool, &pool->ready, index);
        }
    }
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
    uint64_t offset;
    void *map = MAP_FAILED;

    if (kit_likely(pool->base != NULL || pool->is_refused))
        return pool->base != NULL;
    kit_lock_take(&na_class->connect_lock);
    if (sm_region_take(&na_class->segment, size, 0, NA_PLUGIN_LOG_DEBUG, &offset) ==
        NA_PLUGIN_SUCCESS) {
        map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                   na_class->segment.fd, (off_t) offset);
        if (map == MAP_FAILED)
            sm_region_give(&na_class->segment, offset, size);
    }
    kit_lock_drop(&na_class->connect_lock);
    if (map == MAP_FAILED) {
        pool->is_refused = true;
        SM_LOG_INFO("no address space of %llu bytes for a pool (`ulimit -f`, `ulimit -v`): "
                    "ordinary memory is allocated, to which transfers are slower",
                    (unsigned long long) size);
        return false;
    }
    (void) madvise(map, size, MADV_DONTDUMP); /* a core file would have all of its pages */
    (void) madvise(map, size, MADV_HUGEPAGE); /* where shmem_enabled is advise */
    pool->base = map;
    pool->size = size;
    header->pool_base = (uint64_t) (uintptr_t) map;
    header->pool_size = size;
    sm_store_release(&header->pool_offset, offset);
    return true;
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

/* Takes a block with memory. The lock is held. */
static uint32_t sm_pool_take(struct na_plugin_class *na_class, uint32_t size_class,
                             bool *is_ready_p)
{
    struct sm_pool *pool = &na_class->pool;
    const uint64_t size = sm_pool_block_size(pool, size_class);
    uint32_t index = sm_pool_pop(pool, &pool->ready, size_class);

    *is_ready_p = index != SM_BLOCK_NONE;
    if (*is_ready_p) {
        pool->cached -= size;
        return index;
    }
    if (size > pool->budget - pool->reserved)
        sm_pool_flush(na_class);
    if (size > pool->budget - pool->reserved)
        return SM_BLOCK_NONE;
    index = sm_pool_pop(pool, &pool->empty, size_class);
    if (index == SM_BLOCK_NONE)
        index = sm_pool_extend(pool, size_class);
    if (index == SM_BLOCK_NONE)
        return SM_BLOCK_NONE;
    if (sm_reserve(na_class->segment.fd,
                   na_class->segment.header->pool_offset + pool->blocks[index].offset, size,
                   NA_PLUGIN_LOG_INFO) != NA_PLUGIN_SUCCESS) {
        (void) sm_pool_discard(na_class, index); /* what was reserved of it */
        pool->blocks[index].is_used = false;
        sm_pool_push(pool, &pool->empty, index);
        return SM_BLOCK_NONE;
    }
    pool->reserved += size;
    return index;
}

/* Makes a block at the end, without memory. */
static uint32_t sm_pool_extend(struct sm_pool *pool, uint32_t size_class)
{
    const uint64_t size = sm_pool_block_size(pool, size_class);

    if (size > pool->size - pool->next)
        return SM_BLOCK_NONE;
    if (pool->block_count == pool->block_room) {
        const uint32_t room = pool->block_room != 0 ? 2 * pool->block_room : 64;
        struct sm_block *blocks = kit_host->mem_alloc((uint64_t) room * sizeof(*blocks), 0);

        if (blocks == NULL)
            return SM_BLOCK_NONE;
        if (pool->block_count != 0)
            memcpy(blocks, pool->blocks, pool->block_count * sizeof(*blocks));
        kit_host->mem_free(pool->blocks);
        pool->blocks = blocks;
        pool->block_room = room;
    }
    pool->blocks[pool->block_count] = (struct sm_block){
        .offset = pool->next, .size_class = (uint8_t) size_class, .is_used = true};
    pool->next += size;
    return pool->block_count++;
}

/* Returns the used block that begins there. */
static uint32_t sm_pool_find(const struct sm_pool *pool, uint64_t offset)
{
    uint32_t first = 0, end = pool->block_count;

    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;

        if (pool->blocks[middle].offset == offset)
            return pool->blocks[middle].is_used ? middle : SM_BLOCK_NONE;
        if (pool->blocks[middle].offset < offset)
            first = middle + 1;
        else
            end = middle;
    }
    return SM_BLOCK_NONE;
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

        while (index != SM_BLOCK_NONE && sm_pool_discard(na_class, index)) {
            pool->ready.first[size_class] = pool->blocks[index].next;
            sm_pool_push(pool, &pool->empty, index);
            pool->cached -= size;
            pool->reserved -= size;
            index = pool->ready.first[size_class];
        }
    }
}

static bool sm_pool_discard(const struct na_plugin_class *na_class, uint32_t index)
{
    const struct sm_pool *pool = &na_class->pool;
    const struct sm_block *block = &pool->blocks[index];

    return fallocate(na_class->segment.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     (off_t) (na_class->segment.header->pool_offset + block->offset),
                     (off_t) sm_pool_block_size(pool, block->size_class)) == 0;
}
