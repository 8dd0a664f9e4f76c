/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of memory for data that do not fit a message, and their bulk descriptors. */
#ifndef HG_BULK_BLOCK_H
#define HG_BULK_BLOCK_H

#include "engine/budget.h"
#include "mercury_bulk.h"

/* Number of free lists: 4 KiB to 8 MiB, four sizes for each power of two. */
#define HG_BLOCK_CLASSES 45u

/* What a block of a class is for. Peers read a source, so its memory is hg_memory_alloc()'s. */
enum hg_block_kind {
    HG_BLOCK_SOURCE,
    HG_BLOCK_SINK,
    HG_BLOCK_KINDS
};

/* Cache of the free blocks of a class. */
struct hg_blocks {
    pthread_mutex_t lock;
    struct hg_block *free[HG_BLOCK_KINDS][HG_BLOCK_CLASSES]; /* linked by next, LIFO */
    hg_size_t kept;                                          /* total bytes */
};

void hg_blocks_init(struct hg_blocks *blocks);

/* Free the cached blocks. */
void hg_blocks_drain(hg_class_t *hg_class);

/* The bulk layer's part of a class. */
struct hg_bulk_class {
    _Atomic int32_t count; /* open descriptors; a class with any cannot be closed */
    bool no_eager;         /* never embed small data in descriptors */
    bool has_grants;       /* mem_per_session: peers reach only memory granted to them */
    struct hg_blocks blocks;
};

/* A block has a single owner. */
struct hg_block {
    hg_class_t *hg_class;
    void *memory;       /* contains data of an earlier use */
    hg_size_t capacity; /* in bytes, a multiple of HG_BLOCK_PAGE */
    enum hg_block_kind kind;
    hg_bulk_t source; /* descriptor for peers to read; HG_BULK_NULL until hg_block_expose() */
    hg_bulk_t sink;   /* descriptor for local writes; HG_BULK_NULL until hg_block_describe() */
    uint32_t index;   /* of its free list */
    struct hg_charge charge; /* what the block is charged to until hg_block_put() */
    struct hg_block *next;
};

/* Take a block of at least `size` bytes; without a class nothing is cached. NULL: out of memory. */
struct hg_block *hg_block_get(hg_class_t *hg_class, enum hg_block_kind kind, hg_size_t size);

/* Return a block to the cache, or free it. */
void hg_block_put(struct hg_block *block);

/* Free a block without a class, but not its memory, which the caller frees by free(). */
void *hg_block_take(struct hg_block *block);

/*
 * Return the descriptor of the first `size` bytes for peers to read, or of the whole block for
 * local writes. The block owns the descriptor.
 */
hg_return_t hg_block_expose(struct hg_block *block, hg_size_t size, hg_bulk_t *bulk_p);
hg_return_t hg_block_describe(struct hg_block *block, hg_bulk_t *bulk_p);

#endif /* HG_BULK_BLOCK_H */
