/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of bulk descriptors and transfers, shared by the files of this folder. */
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

/* Maximum number of transport operations of one transfer in flight. */
#define HG_BULK_PIECES_MAX 16u

/* A descriptor. Immutable after its creation, except for the reference count and HG_Bulk_bind(). */
struct hg_bulk {
    hg_class_t *hg_class;
    _Atomic uint32_t refs;
    uint32_t segment_count; /* number of segments given to HG_Bulk_create() by the origin */
    hg_size_t size;
    uint8_t access;     /* HG_BULK_READWRITE or one of its bits */
    uint8_t context_id; /* of a bound descriptor */
    bool is_local;      /* created by HG_Bulk_create(), not received */
    hg_mem_type_t mem_type;
    uint64_t device;

    struct hg_bulk_map memory;             /* empty if the bytes are not in this process */
    struct hg_bulk_map paths[HG_PATH_MAX]; /* memory handles; empty for closed paths */
    void *allocated;                       /* the memory, if HG_Bulk_create() allocated it */
    void *owned;                           /* argument of owned_free */
    void (*owned_free)(void *);

    hg_addr_t addr;             /* of a bound descriptor; else HG_ADDR_NULL */
    void *addr_wire;            /* the address serialized */
    bool addr_is_string;        /* addr_wire is an address string */
    _Atomic uint32_t addr_size; /* size of addr_wire; stored last, 0 until bound */

    struct hg_bulk *canonical; /* received from our own class: the original, referenced */
    void *wire;                /* of a received descriptor: a copy of its serialized form */
    uint32_t wire_size;

    _Atomic uint32_t in_use; /* transfers that ended while the transport still uses the memory */

    struct hg_bulk_name name;
    _Atomic uint32_t
        named; /* hg_bulk_process_number() of the process whose registry it is in; 0: none */
    struct hg_bulk *registry_next;
};

/* bulk.c: create an empty descriptor with one reference, counted by its class; NULL on failure. */
struct hg_bulk *hg_bulk_new(hg_class_t *hg_class);

/* bulk.c: have a function called when the last reference to a local descriptor is dropped. */
void hg_bulk_own(hg_bulk_t bulk, void (*free_callback)(void *), void *arg);

/* bulk_register.c: register the memory of a local descriptor on all paths, and undo that. */
hg_return_t hg_bulk_register(struct hg_bulk *bulk);
void hg_bulk_deregister(struct hg_bulk *bulk);

/* bulk_register.c: allocate a map of `count` extents, 0 for none, and free it. */
hg_return_t hg_bulk_map_init(struct hg_bulk_map *map, uint32_t count);
void hg_bulk_map_fini(struct hg_bulk_map *map);

/*
 * bulk_serialize.c: checksum of a serialized descriptor; `total` is at least
 * HG_BULK_WIRE_HEADER_SIZE.
 */
uint32_t hg_bulk_wire_checksum(const void *buf, size_t total);

/*
 * bulk_serialize.c: whether a serialized descriptor, whose fixed part was read into `wire`, is byte
 * by byte what a local descriptor is serialized to, bound or not bound yet. Always false for one
 * with eager data.
 */
bool hg_bulk_is_wire_of(const void *buf, const struct hg_bulk_wire *wire, struct hg_bulk *bulk);

/* One piece of a transfer, and the transport operation that moves it. */
struct hg_bulk_piece {
    struct hg_bulk_transfer *op;
    na_op_id_t *na_op[HG_PATH_MAX]; /* created at the first use */
    enum hg_bulk_piece_state {
        HG_BULK_PIECE_IDLE,    /* not in use */
        HG_BULK_PIECE_POSTING, /* being passed to the transport */
        HG_BULK_PIECE_POSTED,  /* in flight */
        HG_BULK_PIECE_ENDED,   /* completed before the posting call returned */
        HG_BULK_PIECE_REFUSED  /* the transport returned NA_AGAIN; to be posted again */
    } state;
    hg_return_t ret; /* valid in HG_BULK_PIECE_ENDED */
    struct hg_bulk_cursor local;
    struct hg_bulk_cursor origin;
    hg_size_t size;
};

/* References of a transfer, released after its callback returned. */
struct hg_bulk_refs {
    hg_context_t *context;
    struct hg_bulk *origin;
    struct hg_bulk *local;
    na_class_t *na_class;
    na_addr_t *na_addr; /* NULL: no transport is used */
};

/* A transfer. Its lock guards the members after it. */
struct hg_bulk_transfer {
    struct hg_completion completion;
    struct hg_bulk_transfer *next; /* in the pool's free list or retry queue */
    struct hg_bulk_transfer *next_all;
    struct hg_bulk_refs refs;
    hg_cb_t callback;
    void *arg;
    hg_bulk_op_t direction;
    hg_size_t size;
    na_context_t *na_context;
    enum hg_path path;
    uint8_t origin_id;
    uint32_t deadline_ms;                /* 0: none */
    hg_size_t piece_max;                 /* maximum size of one transport operation, in bytes */
    na_class_t *na_classes[HG_PATH_MAX]; /* classes that created the pieces' operations */

    pthread_mutex_t lock;
    uint16_t use;         /* use count of this object, a part of the operation's id */
    hg_return_t ret;      /* the first error */
    bool is_ended;        /* the completion is queued */
    bool is_retry_queued; /* in the retry queue */
    bool is_timed;        /* the timer is armed or fires; it counts as running */
    struct hg_timer timer;
    uint32_t accepted;    /* number of pieces that the transport accepted */
    uint32_t running;     /* pieces that are not idle, plus 1 for the start and 1 for the timer */
    uint32_t refused;     /* running pieces that are to be posted again */
    hg_size_t unassigned; /* bytes that are not assigned to a piece yet */
    struct hg_bulk_cursor local_next;
    struct hg_bulk_cursor origin_next;
    struct hg_bulk_piece pieces[HG_BULK_PIECES_MAX];
};

/* deadline_ms of a transfer that takes its class's default. */
#define HG_BULK_DEADLINE_DEFAULT UINT32_MAX

/* Arguments of a transfer. */
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

/* bulk_op.c: take an operation from the context's pool, and references for it. */
hg_return_t hg_bulk_op_get(const struct hg_bulk_request *request, struct hg_bulk_transfer **op_p);

/* Return an operation that did not start to the pool, and release its references. */
void hg_bulk_op_drop(struct hg_bulk_transfer *op);

/* Return the id by which a program cancels the operation. */
hg_op_id_t hg_bulk_op_id(const struct hg_bulk_transfer *op);

/* Start the operation on a path. On an error nothing was started, and the caller drops it. */
hg_return_t hg_bulk_op_start(struct hg_bulk_transfer *op, const struct hg_bulk_request *request,
                             enum hg_path path);

/* Complete an operation that needs no transport. */
void hg_bulk_op_end(struct hg_bulk_transfer *op);

/* Record the first error, drop unposted pieces and cancel those in flight. The lock is held. */
void hg_bulk_op_fail(struct hg_bulk_transfer *op, hg_return_t ret);

/*
 * If nothing is left to do, mark the operation as ended and return true, once: the caller then
 * pushes its completion. The lock is held.
 */
bool hg_bulk_op_finish(struct hg_bulk_transfer *op);

/* bulk_deadline.c: arm the timer of an operation with a deadline. The lock is held. */
void hg_bulk_deadline_start(struct hg_bulk_transfer *op);

#endif /* HG_BULK_INTERNAL_H */
