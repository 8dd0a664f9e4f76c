/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal types and functions of the engine for remote memory. */

#ifndef RMA_STATE_H
#define RMA_STATE_H

#include "kit_region.h"
#include "kit_rma.h"

#define RMA_WINDOW_MAX            16u
#define RMA_WINDOW_PARTS          4u /* most GRANT records for one window */
#define RMA_PIECE_MIN             4096u
#define RMA_PIECE_MAX             (UINT32_C(1) << 30)
#define RMA_TAGS_MIN              1024u
#define RMA_TAGS_MAX              65536u
#define RMA_TARGET_MAX            65536u /* transfers of peers at a time, with the closing ones */
#define RMA_BUCKETS               1024u
#define RMA_TICK_NS               UINT64_C(250000000)
#define RMA_TICK_MS               250u
#define RMA_STALL_TICKS           2u   /* silence after which max_receives excludes the receives */
#define RMA_INLINE_WINDOW         512u /* most records of one transfer in flight */
#define RMA_INLINE_WINDOW_MIN     16u  /* the same, of sealed records, if they are large */
#define RMA_INLINE_BYTES          UINT32_C(262144) /* most bytes of sealed records in flight */
#define RMA_ATTACH_STEP           (UINT64_C(1) << 20)
#define RMA_ATTACH_BUDGET         (UINT64_C(4) << 20) /* bytes in one poll */

#define RMA_LOG(rma, level, ...)  KIT_LOG(level, (rma)->config.plugin, __VA_ARGS__)
#define RMA_LOG_ERROR(rma, ...)   RMA_LOG(rma, NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define RMA_LOG_WARNING(rma, ...) RMA_LOG(rma, NA_PLUGIN_LOG_WARNING, __VA_ARGS__)
#define RMA_LOG_DEBUG(rma, ...)   RMA_LOG(rma, NA_PLUGIN_LOG_DEBUG, __VA_ARGS__)

/* Kinds of control records, in the order in which a transfer sends them. */
enum rma_kind {
    RMA_REQUEST, /* origin: put or get, with region, offset, length and mover */
    RMA_GRANT,   /* receiver: tags of posted receives, or the inline records that may be sent */
    RMA_DATA,    /* sender: bytes of an inline transfer */
    RMA_DONE,    /* target: all bytes were moved; not for a get whose origin receives the bytes */
    RMA_STOP,    /* sender: pieces from this number on are not sent, no memory is accessed */
    RMA_CANCEL,  /* receiver: end the transfer; the sender answers with STOP */
    RMA_PROBE,   /* target: asks a silent origin for an ALIVE */
    RMA_ALIVE,   /* origin: answer to PROBE */
    RMA_KINDS,
};

#define RMA_PENDING(kind) (1u << (kind))

#define RMA_MAGIC         UINT32_C(0x57546d41)
#define RMA_VERSION       3u

/* Flags of a record. The bits between RMA_IS_PUT and RMA_IS_DEVICE are the mover. */
#define RMA_FROM_ORIGIN 0x01u
#define RMA_IS_PUT      0x02u
#define RMA_IS_DEVICE   0x80u /* REQUEST: one side's memory is not host memory */
#define RMA_MOVER_SHIFT 2u

static inline uint32_t kit_rma_flags_mover(uint8_t flags)
{
    return (flags & ~RMA_IS_DEVICE) >> RMA_MOVER_SHIFT;
}

/*
 * A control record, little-endian on the wire. The payload follows: `tag_count` tags; with DATA and
 * with an inline REQUEST of a put the bytes; with an attach REQUEST a struct rma_attach; with a
 * one-sided REQUEST the note.
 */
struct rma_record {
    uint32_t magic;
    uint8_t version;
    uint8_t kind;
    uint8_t flags;
    uint8_t tag_count;
    uint64_t transfer; /* the origin's id */
    uint64_t number;   /* REQUEST, GRANT: piece of the first tag, or first record not granted;
                        DATA: number of the record; STOP: first piece that is not sent */
    uint64_t memory;   /* memory to length: REQUEST only */
    struct kit_key key;
    uint64_t offset;
    uint64_t length;
    uint32_t piece_size; /* REQUEST; DATA of a get, whose target may choose a smaller size */
    int32_t status;      /* STOP, CANCEL */
};

_Static_assert(sizeof(struct rma_record) == KIT_RMA_RECORD_SIZE, "layout of the wire");
_Static_assert(sizeof(struct rma_record) + 4 * RMA_WINDOW_MAX <= KIT_RMA_CONTROL_MIN &&
                   sizeof(struct rma_record) + KIT_RMA_NOTE_MAX <= KIT_RMA_CONTROL_MIN,
               "a record fits");

/*
 * Address of the bytes in the origin's process, and of a guard word there, which has this value as
 * long as the target may access the bytes. Little-endian. An origin that does not wait for the
 * target, because that is gone or hangs, ends the access by changing the word.
 */
struct rma_attach {
    uint64_t address;
    uint64_t guard;
    uint64_t value;
};

/* Largest payload of a record that is sent by control_send. */
#define RMA_PAYLOAD_MAX (KIT_RMA_CONTROL_MAX - sizeof(struct rma_record))

/* A received record, in host byte order. */
struct rma_in {
    struct rma_record record;
    uint32_t tags[RMA_WINDOW_MAX];
    enum kit_rma_mover mover;
    const uint8_t *payload; /* bytes of the payload, unless it is tags */
    uint32_t payload_size;
    bool is_eager; /* all bytes of the put follow the REQUEST (data_send) */
};

/* A piece; the owner's private bytes follow it. */
struct rma_part {
    struct kit_rma_piece piece; /* first: kit_rma_piece_done() casts it back */
    struct kit_link node;       /* in transfer->parts or free_parts */
    struct kit_rma_transfer *transfer;
    uint64_t number;
    bool is_in_use; /* the network may access the memory */
    bool is_canceled;
    bool is_withdrawn; /* piece_withdraw was called */
};

#define RMA_PART_SIZE ((sizeof(struct rma_part) + 15) / 16 * 16)

/* One put or get, at its origin or at its target. */
struct kit_rma_transfer {
    struct kit_link node;   /* in origins, targets, closing or free_transfers */
    struct kit_link active; /* in rma->active: its state has changed */
    struct kit_link room;   /* in send_room or receive_room: max_sends or max_receives is reached */
    struct kit_link retry;  /* in rma->retry: the owner returned NA_PLUGIN_AGAIN */
    struct kit_rma_transfer *hash_next;
    struct kit_rma *rma;
    void *peer;
    struct kit_rma_request request; /* origin */
    uint64_t id;                    /* chosen by the origin */
    enum kit_rma_mover mover;
    bool is_origin;
    bool is_put;
    bool is_device;
    bool is_eager;     /* origin: all bytes are sent with the REQUEST (data_send) */
    bool is_sender;    /* this side moves the bytes */
    bool is_over;      /* failed or abandoned */
    bool is_aborted;   /* the peer is gone: no record is sent to it or accepted from it */
    bool is_reported;  /* origin: the owner knows the result */
    bool is_delivered; /* all bytes, or those of a part, arrived: DONE came, or is to be sent */
    bool is_known;     /* origin: the REQUEST was sent */
    bool is_canceled;  /* piece_cancel was called for its pieces */
    int32_t status;
    uint32_t pending; /* records to be sent, RMA_PENDING() of their kinds */
    uint32_t piece_size;
    uint32_t in_use;       /* pieces whose memory the network may access; without pieces 0 or 1 */
    uint32_t silent_ticks; /* ticks without a sign of the other side */
    uint8_t *base;         /* our memory */
    uint64_t length;
    uint64_t pieces;  /* number of pieces or inline records; 1 with attach and one-sided */
    uint64_t granted; /* sender: granted by the receiver; receiver: posted */
    uint64_t moved;   /* sender: started; receiver: granted to the sender by a record */
    uint64_t done;
    uint64_t stop;                 /* receiver: pieces from this number on are not sent */
    struct kit_link parts;         /* pieces in flight */
    uint32_t tags[RMA_WINDOW_MAX]; /* tags of the pieces from `moved` to `granted`, by number */
    struct kit_region *region;     /* region of our memory */

    uint64_t position; /* attach, one-sided: bytes that were moved */
    bool is_refused;   /* origin: the target cannot attach */
    bool is_exposed;   /* origin: conceal has to be called */
    bool is_moving;    /* target: kit_rma_move_done() is outstanding */
    bool has_note;     /* origin: `note` is that of the next REQUEST */
    uint64_t guard;    /* origin: guard word of struct rma_attach */
    uint32_t note_size;
    uint8_t note[KIT_RMA_NOTE_MAX]; /* payload of the REQUEST */
    union {
        struct kit_rma_exposure exposure;
        struct kit_rma_move move;
    };
};

/* The owner's bytes (config.transfer_private) follow the transfer. */
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
    struct kit_rma_ops sealed_ops; /* is_inline_only: the owner's, but for the functions for data */
    bool (*may_reach)(void *owner, void *peer, struct kit_region *region); /* NULL: all may */

    struct kit_link active; /* transfers that the next poll runs */
    struct kit_link retry;
    struct kit_link send_room;
    struct kit_link receive_room;
    uint32_t sends;
    uint32_t receives;
    uint32_t stalled; /* receives of transfers whose sender is silent, counted each tick */
    uint64_t tick_last;

    struct kit_link origins; /* transfers of ours */
    struct kit_link targets; /* transfers of peers */
    struct kit_link closing; /* ended transfers with a record or piece left */
    uint32_t origin_count, target_count, closing_count;
    struct kit_link free_transfers;
    struct kit_link free_parts;
    struct kit_table ids; /* ids of transfers of ours */
    struct kit_rma_transfer *buckets[RMA_BUCKETS];

    struct kit_regions *regions;
    struct kit_regions own_regions;
    uint64_t guards;        /* last value of a guard word */
    uint64_t attach_budget; /* bytes that may still be copied in this poll */

    uint32_t tag_next;
    uint64_t tags_used[RMA_TAGS_MAX / 64];
    struct kit_rma_counters counters;
};

/* memory.c */
void kit_rma_mem_free_all(struct kit_rma *rma);

static inline uint8_t *kit_rma_mem_base(const struct kit_region *memory)
{
    return (uint8_t *) (uintptr_t) memory->base;
}

/* The state of the transfer has changed: the next poll runs it. */
static inline void kit_rma_activate(struct kit_rma_transfer *transfer)
{
    if (kit_list_empty(&transfer->active))
        kit_list_append(&transfer->rma->active, &transfer->active);
}

/* The owner copies the bytes of inline transfers, whose memory need not be contiguous. */
static inline bool kit_rma_owner_copies(const struct kit_rma *rma)
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
void kit_rma_transfer_end(struct kit_rma_transfer *transfer, int32_t status, bool tell_peer);
void kit_rma_transfer_abort(struct kit_rma_transfer *transfer);

/* piece.c */
bool kit_rma_pieces_move(struct kit_rma_transfer *transfer);
void kit_rma_pieces_quiesce(struct kit_rma_transfer *transfer);
bool kit_rma_room_activate(struct kit_rma *rma);
bool kit_rma_tags_take(struct kit_rma_transfer *transfer, const struct rma_record *record,
                       const uint32_t *tags);

/* inline.c */
uint32_t kit_rma_inline_size_max(const struct kit_rma *rma, void *peer, uint32_t piece_size);
uint64_t kit_rma_inline_first_grant(const struct kit_rma_transfer *transfer);
bool kit_rma_inline_move(struct kit_rma_transfer *transfer);
uint32_t kit_rma_inline_size(const struct kit_rma_transfer *transfer, uint64_t number);
uint64_t kit_rma_inline_offset(const struct kit_rma_transfer *transfer, uint64_t number);
bool kit_rma_inline_grant(struct kit_rma_transfer *transfer, uint64_t granted);
bool kit_rma_inline_take(struct kit_rma_transfer *transfer, const struct rma_in *in);

/* mover.c */
bool kit_rma_move_run(struct kit_rma_transfer *transfer);
void kit_rma_move_quiesce(struct kit_rma_transfer *transfer);

/* target.c */
int32_t kit_rma_target_start(struct kit_rma *rma, void *peer, const struct rma_in *in);

/* record.c */
bool kit_rma_records_send(struct kit_rma_transfer *transfer);

/* rma.c */
void kit_rma_dispatch(struct kit_rma *rma);

#endif /* RMA_STATE_H */
