/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the engine for remote memory share. */

#ifndef RMA_STATE_H
#define RMA_STATE_H

#include "kit_region.h"
#include "kit_rma.h"

#define RMA_WINDOW_MAX            16u
#define RMA_PIECE_MIN             4096u
#define RMA_PIECE_MAX             (UINT32_C(1) << 30)
#define RMA_TAGS_MIN              1024u
#define RMA_TAGS_MAX              65536u
#define RMA_TARGET_MAX            65536u /* of peers, at a time */
#define RMA_BUCKETS               1024u
#define RMA_TICK_NS               UINT64_C(250000000)
#define RMA_TICK_MS               250u
#define RMA_STALL_TICKS           2u /* silence after which a transfer's receives are not counted */

#define RMA_LOG(rma, level, ...)  KIT_LOG(level, (rma)->config.plugin, __VA_ARGS__)
#define RMA_LOG_ERROR(rma, ...)   RMA_LOG(rma, NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define RMA_LOG_WARNING(rma, ...) RMA_LOG(rma, NA_PLUGIN_LOG_WARNING, __VA_ARGS__)
#define RMA_LOG_DEBUG(rma, ...)   RMA_LOG(rma, NA_PLUGIN_LOG_DEBUG, __VA_ARGS__)

/* Kinds of control records, in the order in which a transfer sends them. */
enum rma_kind {
    RMA_REQUEST, /* origin: put or get, of this region, offset, length */
    RMA_GRANT,   /* receiver: receives with these tags are posted */
    RMA_DONE,    /* target of a put: all of it is in memory */
    RMA_STOP,    /* sender: no pieces come from this one on */
    RMA_CANCEL,  /* receiver: stop; answered so */
    RMA_PROBE,   /* target: is anybody there? */
    RMA_ALIVE,   /* origin: yes */
    RMA_KINDS,
};

#define RMA_PENDING(kind) (1u << (kind))

#define RMA_MAGIC         UINT32_C(0x57546d41)
#define RMA_VERSION       2u

/* Flags of a record */
#define RMA_FROM_ORIGIN 0x01u
#define RMA_IS_PUT      0x02u

/* Little-endian on the wire; as many tags follow as it says. */
struct rma_record {
    uint32_t magic;
    uint8_t version;
    uint8_t kind;
    uint8_t flags;
    uint8_t tag_count;
    uint64_t transfer; /* the origin's id */
    uint64_t number; /* REQUEST, GRANT: piece of the first tag; STOP: first one that is not sent */
    uint64_t memory; /* these: REQUEST */
    struct kit_key key;
    uint64_t offset;
    uint64_t length;
    uint32_t piece_size;
    int32_t status; /* STOP, CANCEL */
};

_Static_assert(sizeof(struct rma_record) == 72, "layout of the wire");
_Static_assert(sizeof(struct rma_record) + 4 * RMA_WINDOW_MAX <= KIT_RMA_CONTROL_MAX,
               "a record fits");

/* A piece; the owner's private bytes lie behind it. */
struct rma_part {
    struct kit_rma_piece piece; /* first */
    struct kit_link node;       /* of its transfer, or free */
    struct kit_rma_transfer *transfer;
    uint64_t number;
    bool is_in_touch;  /* the memory is in the network's hands */
    bool is_withdrawn; /* the network was told that it will not come */
};

#define RMA_PART_SIZE ((sizeof(struct rma_part) + 15) / 16 * 16)

/* One put or get, at its origin or at its target. */
struct kit_rma_transfer {
    struct kit_link node;   /* of the origin's, the target's or the closing ones; or free */
    struct kit_link active; /* something about it has changed */
    struct kit_link room;   /* of those that wait for room for a piece */
    struct kit_link retry;  /* of those that the owner told to try again */
    struct kit_rma_transfer *hash_next;
    struct kit_rma *rma;
    void *peer;
    void *cookie;
    uint64_t id; /* the origin's */
    bool is_origin;
    bool is_put;
    bool is_sender;
    bool is_over;      /* it failed or was abandoned */
    bool is_aborted;   /* the peer is gone: no record goes to it or is taken from it */
    bool is_reported;  /* transfer_done was called, or need not be */
    bool is_delivered; /* a put: the target said so, or is to say so */
    bool is_known;     /* origin: the request was sent */
    bool is_canceled;  /* the network was asked to let go of its pieces */
    int32_t status;
    uint32_t pending; /* records */
    uint32_t piece_size;
    uint32_t in_touch; /* pieces */
    uint32_t quiet;    /* ticks without a sign of the other side */
    uint8_t *base;
    uint64_t length;
    uint64_t pieces;  /* of the whole */
    uint64_t granted; /* sender: told by the receiver; receiver: posted */
    uint64_t moved;   /* sender: started; receiver: told to the sender */
    uint64_t done;
    uint64_t stop;                     /* receiver: pieces from here do not come */
    struct kit_link parts;             /* pieces under way */
    uint32_t tags[RMA_WINDOW_MAX];     /* of the pieces from `moved` to `granted`, by number */
    struct kit_region *region;         /* target: of the memory */
    uint64_t remote_id, remote_offset; /* origin: the target's region */
    struct kit_key remote_key;
};

struct kit_rma {
    const struct kit_rma_ops *ops;
    void *owner;
    struct kit_rma_config config;
    uint32_t timeout_ticks;

    struct kit_link active; /* transfers that the next poll looks after */
    struct kit_link retry;
    struct kit_link send_room;
    struct kit_link receive_room;
    uint32_t sends;
    uint32_t receives;
    uint32_t stalled; /* receives of transfers that stall */
    uint64_t tick_last;

    struct kit_link origins; /* transfers of ours */
    struct kit_link targets; /* of peers */
    struct kit_link closing; /* over but for what the network still has of them */
    uint32_t origin_count, target_count, closing_count;
    struct kit_link free_transfers;
    struct kit_link free_parts;
    struct kit_table ids; /* of transfers of ours */
    struct kit_rma_transfer *buckets[RMA_BUCKETS];

    struct kit_regions regions;

    uint32_t tag_next;
    uint64_t tags_used[RMA_TAGS_MAX / 64];
    struct kit_rma_counters counters;
};

/* memory.c */
void kit_rma_mem_free_all(struct kit_rma *rma);

/* Where a region of ours lies. */
static inline uint8_t *kit_rma_mem_base(const struct kit_region *memory)
{
    return (uint8_t *) (uintptr_t) memory->base;
}

/* Something about it has changed: the next poll does what is to be done. */
static inline void kit_rma_activate(struct kit_rma_transfer *transfer)
{
    if (kit_list_empty(&transfer->active))
        kit_list_append(&transfer->rma->active, &transfer->active);
}

/* transfer.c */
struct kit_rma_transfer *kit_rma_transfer_get(struct kit_rma *rma, void *peer, uint64_t length,
                                              uint32_t piece_size);
void kit_rma_transfer_put(struct kit_rma_transfer *transfer);
void kit_rma_target_add(struct kit_rma_transfer *transfer);
struct kit_rma_transfer *kit_rma_transfer_find(struct kit_rma *rma, const void *peer, uint64_t id,
                                               bool is_origin);
void kit_rma_transfer_end(struct kit_rma_transfer *transfer, int32_t status, bool is_told);
void kit_rma_transfer_abort(struct kit_rma_transfer *transfer);

/* piece.c */
bool kit_rma_pieces_move(struct kit_rma_transfer *transfer);
void kit_rma_pieces_leave(struct kit_rma_transfer *transfer);
bool kit_rma_room_pass(struct kit_rma *rma);
bool kit_rma_tags_take(struct kit_rma_transfer *transfer, const struct rma_record *record,
                       const uint32_t *tags);

/* target.c */
int32_t kit_rma_target_start(struct kit_rma *rma, void *peer, const struct rma_record *record,
                             const uint32_t *tags);

/* record.c */
bool kit_rma_records_send(struct kit_rma_transfer *transfer);

/* rma.c */
void kit_rma_dispatch(struct kit_rma *rma);

#endif /* RMA_STATE_H */
