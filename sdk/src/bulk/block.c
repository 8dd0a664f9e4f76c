/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of memory for inputs and outputs that do not fit a message. A class caches free blocks,
 * within a bound, so that RPCs reuse their pages and the registration for local writes (the sink).
 * The registration that peers read (the source) ends with its RPC: a peer must not read the next
 * content of the block.
 */
#include "bulk/block.h"

#include "bulk/bulk_internal.h"
#include "engine/memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HG_BLOCK_PAGE 4096u

/* Larger blocks are not cached, nor more than this number of bytes in total. */
#define HG_BLOCK_CACHED_SIZE_MAX (UINT64_C(8) << 20)
#define HG_BLOCKS_CACHED_MAX     (UINT64_C(64) << 20)

static uint32_t hg_block_class_of(hg_size_t size, hg_size_t *capacity_p);
static struct hg_block *hg_block_new(hg_class_t *hg_class, enum hg_block_kind kind,
                                     hg_size_t capacity, uint32_t index);
static void hg_block_delete(struct hg_block *block);
static void hg_block_discard(const struct hg_block *block);
static void hg_block_sink_freed(void *arg);

void hg_blocks_init(struct hg_blocks *blocks)
{
    (void) pthread_mutex_init(&blocks->lock, NULL);
}

void hg_blocks_drain(hg_class_t *hg_class)
{
    struct hg_blocks *blocks = &hg_class->bulk->blocks;
    struct hg_block **lists = &blocks->free[0][0];

    (void) pthread_mutex_lock(&blocks->lock);
    for (uint32_t i = 0; i < HG_BLOCK_KINDS * HG_BLOCK_CLASSES; i++) {
        while (lists[i] != NULL) {
            struct hg_block *block = lists[i];

            lists[i] = block->next;
            hg_block_delete(block);
        }
    }
    blocks->kept = 0;
    (void) pthread_mutex_unlock(&blocks->lock);
}

struct hg_block *hg_block_get(hg_class_t *hg_class, enum hg_block_kind kind, hg_size_t size)
{
    struct hg_block *block, **list;
    hg_size_t capacity;
    uint32_t index = hg_block_class_of(size, &capacity);

    if (hg_class == NULL || index == HG_BLOCK_CLASSES)
        return hg_block_new(hg_class, kind, capacity, index);
    list = &hg_class->bulk->blocks.free[kind][index];
    (void) pthread_mutex_lock(&hg_class->bulk->blocks.lock);
    block = *list;
    if (block != NULL) {
        *list = block->next;
        hg_class->bulk->blocks.kept -= capacity;
    }
    (void) pthread_mutex_unlock(&hg_class->bulk->blocks.lock);
    return block != NULL ? block : hg_block_new(hg_class, kind, capacity, index);
}

void hg_block_put(struct hg_block *block)
{
    struct hg_charge charge = block->charge;
    const hg_bulk_t sink = block->sink;
    struct hg_blocks *blocks;
    bool is_cached;

    (void) HG_Bulk_free(block->source);
    block->source = HG_BULK_NULL;
    if (util_unlikely(HG_Bulk_in_use(sink))) {
        /*
         * A fetch that timed out may still write to the block, so the block stays charged. Nobody
         * needs its content: its pages are discarded, and come back only if something is written.
         */
        hg_block_discard(block);
        block->sink = HG_BULK_NULL;
        hg_bulk_own(sink, hg_block_sink_freed, block);
        (void) HG_Bulk_free(sink);
        return;
    }
    block->charge.budget = NULL;
    if (block->hg_class == NULL || block->index == HG_BLOCK_CLASSES) {
        hg_block_delete(block);
        hg_budget_leave(&charge);
        return;
    }
    blocks = &block->hg_class->bulk->blocks;
    (void) pthread_mutex_lock(&blocks->lock);
    is_cached = blocks->kept + block->capacity <= HG_BLOCKS_CACHED_MAX;
    if (is_cached) {
        block->next = blocks->free[block->kind][block->index];
        blocks->free[block->kind][block->index] = block;
        blocks->kept += block->capacity;
    }
    (void) pthread_mutex_unlock(&blocks->lock);
    if (!is_cached)
        hg_block_delete(block);
    hg_budget_leave(&charge);
}

void *hg_block_take(struct hg_block *block)
{
    void *memory = block->memory;

    block->memory = NULL;
    hg_block_delete(block);
    return memory;
}

/* Expose `size` bytes only: the rest of the block may contain data of earlier users. */
hg_return_t hg_block_expose(struct hg_block *block, hg_size_t size, hg_bulk_t *bulk_p)
{
    hg_return_t ret = HG_SUCCESS;

    if (block->source == HG_BULK_NULL)
        ret = HG_Bulk_create(block->hg_class, 1, &block->memory, &size, HG_BULK_READ_ONLY,
                             &block->source);
    *bulk_p = block->source;
    return ret;
}

hg_return_t hg_block_describe(struct hg_block *block, hg_bulk_t *bulk_p)
{
    hg_return_t ret = HG_SUCCESS;

    if (block->sink == HG_BULK_NULL)
        ret = HG_Bulk_create(block->hg_class, 1, &block->memory, &block->capacity,
                             HG_BULK_WRITE_ONLY, &block->sink);
    *bulk_p = block->sink;
    return ret;
}

/*
 * Select the list and the capacity for a size: four sizes for each power of two, so that at most a
 * fifth is unused. HG_BLOCK_CLASSES: a block of that size is not cached.
 */
static uint32_t hg_block_class_of(hg_size_t size, hg_size_t *capacity_p)
{
    hg_size_t base = HG_BLOCK_PAGE, step;
    uint32_t index = 0;

    if (size > HG_BLOCK_CACHED_SIZE_MAX) {
        *capacity_p = (size + HG_BLOCK_PAGE - 1) / HG_BLOCK_PAGE * HG_BLOCK_PAGE;
        return HG_BLOCK_CLASSES;
    }
    while (2 * base < size) {
        base *= 2;
        index += 4;
    }
    step = base / 4 < HG_BLOCK_PAGE ? HG_BLOCK_PAGE : base / 4;
    *capacity_p = base;
    while (*capacity_p < size) {
        *capacity_p += step;
        index++;
    }
    return index;
}

static struct hg_block *hg_block_new(hg_class_t *hg_class, enum hg_block_kind kind,
                                     hg_size_t capacity, uint32_t index)
{
    struct hg_block *block = calloc(1, sizeof(*block));

    if (block == NULL)
        return NULL;
    block->hg_class = hg_class;
    block->capacity = capacity;
    block->kind = kind;
    block->index = index;
    if (hg_class != NULL && kind == HG_BLOCK_SOURCE)
        block->memory = hg_memory_alloc(hg_class, capacity);
    else
        block->memory = aligned_alloc(HG_BLOCK_PAGE, (size_t) capacity);
    if (block->memory == NULL) {
        free(block);
        return NULL;
    }
    return block;
}

static void hg_block_delete(struct hg_block *block)
{
    (void) HG_Bulk_free(block->source);
    (void) HG_Bulk_free(block->sink);
    if (block->hg_class != NULL && block->kind == HG_BLOCK_SOURCE)
        hg_memory_free(block->hg_class, block->memory);
    else
        free(block->memory);
    free(block);
}

/*
 * Discard whole pages only: if pages are larger than the alignment of blocks, neighbours share the
 * first and the last.
 */
static void hg_block_discard(const struct hg_block *block)
{
    const long size = sysconf(_SC_PAGESIZE);
    const uintptr_t page = size > 0 ? (uintptr_t) size : HG_BLOCK_PAGE;
    const uintptr_t begin = ((uintptr_t) block->memory + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t) block->memory + (uintptr_t) block->capacity) / page * page;

    if (begin < end)
        (void) madvise((void *) begin, end - begin, MADV_DONTNEED);
}

/* Called with the last reference to the sink: the transport does not use the memory any more. */
static void hg_block_sink_freed(void *arg)
{
    struct hg_block *block = arg;
    struct hg_charge charge = block->charge;

    hg_block_delete(block);
    hg_budget_leave(&charge);
}
