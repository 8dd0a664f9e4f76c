/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of memory for what does not fit a message, and the descriptors of what is in them.
 */
#ifndef HG_BULK_BLOCK_H
#define HG_BULK_BLOCK_H

#include "engine/budget.h"
#include "mercury_bulk.h"

/* Lists of blocks: 4 KiB to 8 MiB, four sizes for each power of two. */
#define HG_BLOCK_CLASSES 45u

/* The blocks of a class that are not in use. */
struct hg_blocks {
    pthread_mutex_t lock;
    struct hg_block *free[HG_BLOCK_CLASSES]; /* linked by next, last in first out */
    hg_size_t kept;                          /* bytes of all of them */
};

void hg_blocks_init(struct hg_blocks *blocks);

/* Free what is kept. */
void hg_blocks_drain(hg_class_t *hg_class);

/* The bulk layer's part of a class. */
struct hg_bulk_class {
    _Atomic int32_t count; /* descriptors; a class that has some cannot be closed */
    bool no_eager;         /* small data do not travel inside of descriptors */
    bool has_grants;       /* peers reach memory that was granted to them alone (mem_per_session) */
    struct hg_blocks blocks;
};

/* A block that its holder alone uses. */
struct hg_block {
    hg_class_t *hg_class;
    void *memory;            /* page-aligned; what is in it is left from an earlier use */
    hg_size_t capacity;      /* bytes of it, a multiple of the page size */
    hg_bulk_t source;        /* describes what is in it for peers to read, from when it is asked for
                           until the block is given back */
    hg_bulk_t sink;          /* all of it for us to write to, HG_BULK_NULL until asked for */
    uint32_t index;          /* of its list in the class */
    struct hg_charge charge; /* what it counts for, until it is given back */
    struct hg_block *next;
};

/* Take a block of at least `size` bytes; a class of NULL keeps none. NULL if memory is out. */
struct hg_block *hg_block_get(hg_class_t *hg_class, hg_size_t size);

/* Give it back, to be used again. */
void hg_block_put(struct hg_block *block);

/* Keep its memory, to be freed by free(), and free the rest. */
void *hg_block_take(struct hg_block *block);

/*
 * The descriptor of the first `size` bytes of a block for peers to read, or of all of it for us to
 * write to. It stays the block's.
 */
hg_return_t hg_block_expose(struct hg_block *block, hg_size_t size, hg_bulk_t *bulk_p);
hg_return_t hg_block_describe(struct hg_block *block, hg_bulk_t *bulk_p);

#endif /* HG_BULK_BLOCK_H */
