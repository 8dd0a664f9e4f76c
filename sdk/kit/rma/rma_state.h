/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the engine for remote memory share. */

#ifndef RMA_STATE_H
#define RMA_STATE_H

#include "kit_region.h"
#include "kit_rma.h"

#define RMA_WINDOW_MAX            16u
#define RMA_WINDOW_PARTS          4u /* GRANT records to a window, at most */
#define RMA_PIECE_MIN             4096u
#define RMA_PIECE_MAX             (UINT32_C(1) << 30)
#define RMA_TAGS_MIN              1024u
#define RMA_TAGS_MAX              65536u
#define RMA_TARGET_MAX            65536u /* of peers, at a time */
#define RMA_BUCKETS               1024u
#define RMA_TICK_NS               UINT64_C(250000000)
#define RMA_TICK_MS               250u
#define RMA_STALL_TICKS           2u /* silence after which a transfer's receives are not counted */
#define RMA_INLINE_WINDOW         512u /* records of one transfer under way, */
#define RMA_INLINE_WINDOW_MIN     16u  /* or where they are large so many, or */
#define RMA_INLINE_BYTES          UINT32_C(262144)
#define RMA_ATTACH_STEP           (UINT64_C(1) << 20)
#define RMA_ATTACH_BUDGET         (UINT64_C(4) << 20) /* bytes in one poll */

#define RMA_LOG(rma, level, ...)  KIT_LOG(level, (rma)->config.plugin, __VA_ARGS__)
#define RMA_LOG_ERROR(rma, ...)   RMA_LOG(rma, NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define RMA_LOG_WARNING(rma, ...) RMA_LOG(rma, NA_PLUGIN_LOG_WARNING, __VA_ARGS__)
#define RMA_LOG_DEBUG(rma, ...)   RMA_LOG(rma, NA_PLUGIN_LOG_DEBUG, __VA_ARGS__)

/* Kinds of control records, in the order in which a transfer sends them. */
enum rma_kind {
    RMA_REQUEST, /* origin: put or get, of this region, offset, length, by this mover */
    RMA_GRANT,   /* receiver: receives with these tags are posted, or this record may be sent */
    RMA_DATA,    /* sender: bytes of an inline transfer */
    RMA_DONE,    /* target: all of it was moved, but of a get that the origin itself receives */
    RMA_STOP,    /* sender: no pieces come from this one on, nothing is touched any more */
    RMA_CANCEL,  /* receiver: stop; answered so */
    RMA_PROBE,   /* target: is anybody there? */
    RMA_ALIVE,   /* origin: yes */
    RMA_KINDS,
};

#define RMA_PENDING(kind) (1u << (kind))

#define RMA_MAGIC         UINT32_C(0x57546d41)
#define RMA_VERSION       3u

/* Flags of a record; the mover is between them. */
#define RMA_FROM_ORIGIN 0x01u
#define RMA_IS_PUT      0x02u
#define RMA_IS_DEVICE   0x80u /* REQUEST: memory of a side is not the host's */
#define RMA_MOVER_SHIFT 2u

static inline uint32_t kit_rma_flags_mover(uint8_t flags)
{
    return (flags & ~RMA_IS_DEVICE) >> RMA_MOVER_SHIFT;
}

/*
 * Little-endian on the wire. Behind it: as many tags as it says; with an inline REQUEST of a put,
 * and with DATA, the bytes; with a REQUEST to attach a struct rma_attach; with a one-sided REQUEST
 * the note.
 */
struct rma_record {
    uint32_t magic;
    uint8_t version;
    uint8_t kind;
    uint8_t flags;
    uint8_t tag_count;
    uint64_t transfer; /* the origin's id */
    uint64_t number;   /* REQUEST, GRANT: piece of the first tag, or the first that may not be sent;
                        DATA: which; STOP: first one that is not sent */
    uint64_t memory;   /* these: REQUEST */
    struct kit_key key;
    uint64_t offset;
    uint64_t length;
    uint32_t piece_size; /* REQUEST; DATA of a get, whose target may choose a smaller one */
    int32_t status;      /* STOP, CANCEL */
};

_Static_assert(sizeof(struct rma_record) == KIT_RMA_RECORD_SIZE, "layout of the wire");
_Static_assert(sizeof(struct rma_record) + 4 * RMA_WINDOW_MAX <= KIT_RMA_CONTROL_MIN &&
                   sizeof(struct rma_record) + KIT_RMA_NOTE_MAX <= KIT_RMA_CONTROL_MIN,
               "a record fits");

/*
 * Where the bytes are in the origin's process, and a word there that has this value as long as the
 * target may touch them. Little-endian. An origin that does not wait for a target which stands
 * still changes the word.
 */
struct rma_attach {
    uint64_t address;
    uint64_t guard;
    uint64_t value;
};

/* Most bytes behind a record. */
#define RMA_PAYLOAD_MAX (KIT_RMA_CONTROL_MAX - sizeof(struct rma_record))

/* A record that came, in our byte order. */
struct rma_in {
    struct rma_record record;
    uint32_t tags[RMA_WINDOW_MAX];
    enum kit_rma_mover mover;
    const uint8_t *payload; /* behind the record, but for tags */
    uint32_t payload_size;
    bool is_eager; /* all bytes of a put came with it */
};

/* A piece; the owner's private bytes lie behind it. */
struct rma_part {
    struct kit_rma_piece piece; /* first */
    struct kit_link node;       /* of its transfer, or free */
    struct kit_rma_transfer *transfer;
    uint64_t number;
    bool is_in_touch; /* the memory is in the network's hands */
    bool is_canceled;
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
    struct kit_rma_request request; /* origin */
    uint64_t id;                    /* the origin's */
    enum kit_rma_mover mover;
    bool is_origin;
    bool is_put;
    bool is_device;
    bool is_eager;     /* origin: the bytes leave with the REQUEST */
    bool is_sender;    /* it moves the bytes */
    bool is_over;      /* it failed or was abandoned */
    bool is_aborted;   /* the peer is gone: no record goes to it or is taken from it */
    bool is_reported;  /* transfer_done was called, or need not be */
    bool is_delivered; /* the target said so, or is to say so */
    bool is_known;     /* origin: the request was sent */
    bool is_canceled;  /* the network was asked to let go of its pieces */
    int32_t status;
    uint32_t pending; /* records */
    uint32_t piece_size;
    uint32_t in_touch; /* pieces; 1: the target, or the network, is at memory of ours */
    uint32_t quiet;    /* ticks without a sign of the other side */
    uint8_t *base;
    uint64_t length;
    uint64_t pieces;  /* of the whole, or inline records; others have 1 */
    uint64_t granted; /* sender: told by the receiver; receiver: posted */
    uint64_t moved;   /* sender: started; receiver: told to the sender */
    uint64_t done;
    uint64_t stop;                 /* receiver: pieces from here do not come */
    struct kit_link parts;         /* pieces under way */
    uint32_t tags[RMA_WINDOW_MAX]; /* of the pieces from `moved` to `granted`, by number */
    struct kit_region *region;     /* of the memory of ours */

    uint64_t position; /* attach, one-sided: bytes that were moved */
    bool is_refused;   /* origin: the target may not attach */
    bool is_exposed;   /* origin: to be concealed */
    bool is_moving;    /* target: the network is at it */
    bool has_note;     /* origin: of the next part */
    uint64_t guard;    /* origin: struct rma_attach */
    uint32_t note_size;
    uint8_t note[KIT_RMA_NOTE_MAX]; /* behind the REQUEST */
    union {
        struct kit_rma_exposure exposure;
        struct kit_rma_move move;
    };
};

/* The owner's bytes lie behind it. */
#define RMA_TRANSFER_SIZE ((sizeof(struct kit_rma_transfer) + 15) / 16 * 16)

static inline void *kit_rma_transfer_priv(struct kit_rma_transfer *transfer)
{
    return (uint8_t *) transfer + RMA_TRANSFER_SIZE;
}

struct kit_rma {
    const struct kit_rma_ops *ops;
    void *owner;
    struct kit_rma_config config;
    uint32_t timeout_ticks;
    bool is_inline_only;
    struct kit_rma_ops sealed_ops; /* then: the owner's, with other functions for data */
    bool (*may_reach)(void *owner, void *peer, struct kit_region *region); /* NULL: all may */

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

    struct kit_regions *regions;
    struct kit_regions own_regions;
    uint64_t guards;        /* of attached transfers of ours, so far */
    uint64_t attach_budget; /* bytes that may still be copied in this poll */

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

/* The owner reads and writes the memory of inline transfers. */
static inline bool kit_rma_is_apart(const struct kit_rma *rma)
{
    return rma->ops->data_take != NULL;
}

/* The target moves the bytes of a put as well as of a get. */
static inline bool kit_rma_is_remote(enum kit_rma_mover mover)
{
    return mover == KIT_RMA_ATTACH || mover == KIT_RMA_ONE_SIDED;
}

/* transfer.c */
struct kit_rma_transfer *kit_rma_transfer_get(struct kit_rma *rma, void *peer, uint64_t length);
void kit_rma_transfer_plan(struct kit_rma_transfer *transfer);
void kit_rma_transfer_set_mover(struct kit_rma_transfer *transfer, enum kit_rma_mover mover,
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

/* inline.c */
uint32_t kit_rma_inline_most(const struct kit_rma *rma, void *peer, uint32_t piece_size);
uint64_t kit_rma_inline_first(const struct kit_rma_transfer *transfer);
bool kit_rma_inline_move(struct kit_rma_transfer *transfer);
uint32_t kit_rma_inline_size(const struct kit_rma_transfer *transfer, uint64_t number);
uint64_t kit_rma_inline_offset(const struct kit_rma_transfer *transfer, uint64_t number);
bool kit_rma_inline_grant(struct kit_rma_transfer *transfer, uint64_t granted);
bool kit_rma_inline_take(struct kit_rma_transfer *transfer, const struct rma_in *in);

/* mover.c */
bool kit_rma_move_run(struct kit_rma_transfer *transfer);
void kit_rma_move_leave(struct kit_rma_transfer *transfer);

/* target.c */
int32_t kit_rma_target_start(struct kit_rma *rma, void *peer, const struct rma_in *in);

/* record.c */
bool kit_rma_records_send(struct kit_rma_transfer *transfer);

/* rma.c */
void kit_rma_dispatch(struct kit_rma *rma);

#endif /* RMA_STATE_H */
