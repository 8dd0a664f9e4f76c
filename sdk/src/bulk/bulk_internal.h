/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of bulk descriptors and transfers, shared by the files of this folder.
 */
#ifndef HG_BULK_INTERNAL_H
#define HG_BULK_INTERNAL_H

#include "bulk/block.h"
#include "bulk/bulk_map.h"
#include "bulk/bulk_wire.h"
#include "engine/addr.h"
#include "engine/library.h"
#include "engine/log.h"
#include "engine/queue.h"
#include "mercury_bulk.h"

#include <pthread.h>
#include <stdatomic.h>

/* Transport operations that one transfer has running at the most. */
#define HG_BULK_PIECES_MAX 16u

/* A descriptor. Immutable after it was made, but for the reference count and HG_Bulk_bind(). */
struct hg_bulk {
    hg_class_t *hg_class;
    _Atomic uint32_t refs;
    uint32_t segment_count; /* as its origin described it */
    hg_size_t size;
    uint8_t access;     /* HG_BULK_READWRITE or a part of it */
    uint8_t context_id; /* of a bound descriptor */
    bool is_local;      /* made by HG_Bulk_create(), not received */
    hg_mem_type_t mem_type;
    uint64_t device;

    struct hg_bulk_map memory;             /* empty if the bytes are not in this process */
    struct hg_bulk_map paths[HG_PATH_MAX]; /* memory handles, empty where a path is not open */
    void *owned;                           /* memory that HG_Bulk_create() allocated */
    void (*owned_free)(void *);

    hg_addr_t addr;             /* of a bound descriptor */
    void *addr_wire;            /* the same as it travels */
    bool addr_is_string;        /* the transport has no other form */
    _Atomic uint32_t addr_size; /* bytes of it; written last: 0 until it is bound */

    struct hg_bulk *canonical; /* received as we made it: the local descriptor, referenced */
    void *wire;                /* received: a copy of what came */
    uint32_t wire_size;

    _Atomic uint32_t in_use; /* transfers that ended before the transport let go of the memory */

    struct hg_bulk_name name;
    _Atomic uint32_t named; /* it is in the registry of the process with this number */
    struct hg_bulk *registry_next;
};

/* bulk.c: an empty descriptor with one reference, counted by its class; NULL if memory is out. */
struct hg_bulk *hg_bulk_new(hg_class_t *hg_class);

/* bulk.c: call a function with the last reference to a local descriptor. */
void hg_bulk_own(hg_bulk_t bulk, void (*free_callback)(void *), void *arg);

/* bulk_register.c: registers the memory of a local descriptor on all paths; undoes it. */
hg_return_t hg_bulk_register(struct hg_bulk *bulk);
void hg_bulk_deregister(struct hg_bulk *bulk);

/* bulk_register.c: makes room for `count` extents, 0 for none; frees them. */
hg_return_t hg_bulk_map_init(struct hg_bulk_map *map, uint32_t count);
void hg_bulk_map_fini(struct hg_bulk_map *map);

/* bulk_serialize.c: checksum of a serialized descriptor of at least its fixed size. */
uint32_t hg_bulk_wire_checksum(const void *buf, size_t total);

/*
 * Whether these bytes, whose fixed part was read, are what a local descriptor is serialized to,
 * every one of them. It may have been bound since. Never for data that are there themselves.
 */
bool hg_bulk_is_wire_of(const void *buf, const struct hg_bulk_wire *wire, struct hg_bulk *bulk);

/* bulk_op.c */

/* One piece of a transfer, and the transport operation that carries it. */
struct hg_bulk_piece {
    struct hg_bulk_transfer *op;
    na_op_id_t *na_op[HG_PATH_MAX]; /* made at the first use */
    enum hg_bulk_piece_state {
        HG_BULK_PIECE_IDLE,    /* not in use */
        HG_BULK_PIECE_POSTING, /* the transport is being asked */
        HG_BULK_PIECE_POSTED,  /* the transport has it */
        HG_BULK_PIECE_ENDED,   /* ended before the asking thread came back */
        HG_BULK_PIECE_REFUSED  /* the transport wants to be asked again later */
    } state;
    hg_return_t ret; /* for HG_BULK_PIECE_ENDED */
    struct hg_bulk_cursor local;
    struct hg_bulk_cursor origin;
    hg_size_t size;
};

/* What a transfer keeps alive until its callback returned. */
struct hg_bulk_holds {
    hg_context_t *context;
    struct hg_bulk *origin;
    struct hg_bulk *local;
    na_class_t *na_class;
    na_addr_t *na_addr; /* NULL if no transport is needed */
};

/* A transfer. What follows the lock is protected by it. */
struct hg_bulk_transfer {
    struct hg_completion completion;
    struct hg_bulk_transfer *next; /* in the pool, or in the queue of those to be tried again */
    struct hg_bulk_transfer *next_made;
    struct hg_bulk_holds holds;
    hg_cb_t callback;
    void *arg;
    hg_bulk_op_t direction;
    hg_size_t size;
    na_context_t *na_context;
    enum hg_path path;
    uint8_t origin_id;
    uint32_t deadline_ms;                /* 0: none */
    hg_size_t piece_max;                 /* bytes that the transport takes at once */
    na_class_t *na_classes[HG_PATH_MAX]; /* of the pieces' transport operations */

    pthread_mutex_t lock;
    uint16_t use;         /* which of the operations that it was in turn */
    hg_return_t ret;      /* the first error */
    bool is_ended;        /* the completion is queued */
    bool is_retry_queued; /* in the queue of those to be tried again */
    bool is_timed;        /* the timer is armed or fires, and counts as running */
    struct hg_timer timer;
    uint32_t accepted;    /* pieces that the transport ever took */
    uint32_t running;     /* pieces that are not idle */
    uint32_t refused;     /* of those, to be posted again */
    hg_size_t unassigned; /* bytes that no piece covers yet */
    struct hg_bulk_cursor local_next;
    struct hg_bulk_cursor origin_next;
    struct hg_bulk_piece pieces[HG_BULK_PIECES_MAX];
};

/* The deadline of a transfer for which none is said. */
#define HG_BULK_DEADLINE_DEFAULT UINT32_MAX

/* What a transfer is to do. */
struct hg_bulk_request {
    hg_context_t *context;
    hg_cb_t callback;
    void *arg;
    hg_bulk_op_t direction;
    hg_addr_t origin_addr;
    uint8_t origin_id;
    struct hg_bulk *origin;
    hg_size_t origin_offset;
    struct hg_bulk *local;
    hg_size_t local_offset;
    hg_size_t size;
    uint32_t deadline_ms;
};

/* An operation from the context's pool, with its references taken. */
hg_return_t hg_bulk_op_get(const struct hg_bulk_request *request, struct hg_bulk_transfer **op_p);

/* Drops the references and puts it back. For an operation that did not start. */
void hg_bulk_op_drop(struct hg_bulk_transfer *op);

/* What a program cancels it by. */
hg_op_id_t hg_bulk_op_id(const struct hg_bulk_transfer *op);

/* Starts it on a path. Fails only if nothing was started; then it is the caller's to drop. */
hg_return_t hg_bulk_op_start(struct hg_bulk_transfer *op, const struct hg_bulk_request *request,
                             enum hg_path path);

/* Ends an operation that needs no transport. */
void hg_bulk_op_end(struct hg_bulk_transfer *op);

/* Keeps the first error, abandons what is not with the transport, and cancels what is. */
void hg_bulk_op_fail(struct hg_bulk_transfer *op, hg_return_t ret);

/* True once: when nothing runs and nothing is left to run; the completion is to be pushed. */
bool hg_bulk_op_finish(struct hg_bulk_transfer *op);

/* bulk_deadline.c: starts the time of an operation that has a deadline. All with its lock held. */
void hg_bulk_deadline_start(struct hg_bulk_transfer *op);

#endif /* HG_BULK_INTERNAL_H */
