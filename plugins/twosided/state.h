/* SPDX-License-Identifier: BSD-3-Clause */
/* The inside of the emulated put and get, and what its rooms offer each other. */

#ifndef TWOSIDED_STATE_H
#define TWOSIDED_STATE_H

#include "kit_region.h"
#include "twosided.h"

#define TWOSIDED_WINDOW_MAX  16u
#define TWOSIDED_PIECE_MIN   4096u
#define TWOSIDED_PIECE_MAX   (UINT32_C(1) << 30)
#define TWOSIDED_TAGS_MIN    1024u
#define TWOSIDED_TAGS_MAX    65536u
#define TWOSIDED_JOBS_MAX    65536u /* of peers, at a time */
#define TWOSIDED_BUCKETS     1024u
#define TWOSIDED_TICK_NS     UINT64_C(250000000)
#define TWOSIDED_TICK_MS     250u
#define TWOSIDED_STALL_TICKS 2u /* silence after which a transfer's receives are not counted */

#define TWOSIDED_LOG(ts, level, ...) \
    na_plugin_log((ts)->host, level, (ts)->config.plugin, __func__, __LINE__, __VA_ARGS__)
#define TWOSIDED_LOG_ERROR(ts, ...)   TWOSIDED_LOG(ts, NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define TWOSIDED_LOG_WARNING(ts, ...) TWOSIDED_LOG(ts, NA_PLUGIN_LOG_WARNING, __VA_ARGS__)
#define TWOSIDED_LOG_DEBUG(ts, ...)   TWOSIDED_LOG(ts, NA_PLUGIN_LOG_DEBUG, __VA_ARGS__)

/* Kinds of control records, in the order in which a transfer sends them. */
enum twosided_kind {
    TWOSIDED_REQUEST, /* origin: put or get, of this region, offset, length */
    TWOSIDED_GRANT,   /* receiver: receives with these tags are posted */
    TWOSIDED_DONE,    /* target of a put: all of it is in memory */
    TWOSIDED_STOP,    /* sender: no pieces come from this one on */
    TWOSIDED_CANCEL,  /* receiver: stop; answered so */
    TWOSIDED_PROBE,   /* target: is anybody there? */
    TWOSIDED_ALIVE,   /* origin: yes */
    TWOSIDED_KINDS,
};

#define TWOSIDED_OWES(kind) (1u << (kind))

#define TWOSIDED_MAGIC      UINT32_C(0x57546d41)
#define TWOSIDED_VERSION    2u

/* Flags of a record */
#define TWOSIDED_FROM_ORIGIN 0x01u
#define TWOSIDED_IS_PUT      0x02u

/* Little-endian on the wire; as many tags follow as it says. */
struct twosided_record {
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

_Static_assert(sizeof(struct twosided_record) == 72, "layout of the wire");
_Static_assert(sizeof(struct twosided_record) + 4 * TWOSIDED_WINDOW_MAX <= TWOSIDED_CONTROL_MAX,
               "a record fits");

/* A region of ours, or a peer's. */
struct twosided_memory {
    struct kit_region region;
};

/* A piece; the owner's private bytes lie behind it. */
struct twosided_part {
    struct twosided_piece piece; /* first */
    struct kit_link node;        /* of its transfer, or free */
    struct twosided_transfer *transfer;
    uint64_t number;
    bool is_in_touch;  /* the memory is in the network's hands */
    bool is_withdrawn; /* the network was told that it will not come */
};

#define TWOSIDED_PART_SIZE ((sizeof(struct twosided_part) + 15) / 16 * 16)

/* One put or get, at its origin (of ours) or at its target (a job). */
struct twosided_transfer {
    struct kit_link node;  /* of those that run, or of the orphans; or free */
    struct kit_link room;  /* of those that wait for room for a piece */
    struct kit_link retry; /* of those that the owner told to try again */
    struct twosided_transfer *hash_next;
    struct twosided *ts;
    void *peer;
    void *cookie;
    uint64_t id; /* the origin's */
    bool is_origin;
    bool is_put;
    bool is_sender;
    bool is_over;     /* it failed or was given up */
    bool is_cut;      /* the peer is gone: no record goes to it or is taken from it */
    bool is_reported; /* transfer_done was called, or need not be */
    bool is_landed;   /* a put: the target said so, or is to say so */
    bool is_known;    /* origin: the request was sent */
    bool is_running;
    bool is_changed;                   /* while it was running */
    uint32_t holds;                    /* not 0: it is neither reported nor freed now */
    struct twosided_transfer **handle; /* of the start that is being called */
    int32_t status;
    uint32_t owes; /* records */
    uint32_t piece_size;
    uint32_t in_touch; /* pieces */
    uint32_t quiet;    /* ticks without a sign of the other side */
    uint8_t *base;
    uint64_t length;
    uint64_t pieces;  /* of the whole */
    uint64_t granted; /* sender: told by the receiver; receiver: posted */
    uint64_t moved;   /* sender: started; receiver: told to the sender */
    uint64_t done;
    uint64_t stop;                      /* receiver: pieces from here do not come */
    struct kit_link parts;              /* pieces under way */
    uint32_t tags[TWOSIDED_WINDOW_MAX]; /* of the pieces from `moved` to `granted`, by number */
    struct twosided_memory *memory;     /* target: the region */
    uint64_t remote_id, remote_offset;  /* origin: the target's region */
    struct kit_key remote_key;
};

struct twosided {
    const struct na_host *host;
    const struct twosided_ops *ops;
    void *owner;
    struct twosided_config config;
    uint32_t timeout_ticks;

    struct kit_link retry;
    struct kit_link send_room;
    struct kit_link receive_room;
    uint32_t sends;
    uint32_t receives;
    uint32_t stalled; /* receives of transfers that stall */
    bool is_serving;
    uint64_t tick_last;

    struct kit_link transfers; /* ours */
    struct kit_link jobs;      /* of peers */
    struct kit_link orphans;
    uint32_t transfer_count, job_count, orphan_count;
    struct kit_link free_transfers;
    struct kit_link free_parts;
    struct kit_table ids; /* of transfers of ours */
    struct twosided_transfer *buckets[TWOSIDED_BUCKETS];

    struct kit_regions regions;

    uint32_t tag_next;
    uint64_t tags_used[TWOSIDED_TAGS_MAX / 64];
    struct twosided_counters counters;
};

/* memory.c */
int32_t twosided_mem_find(struct twosided *ts, uint64_t id, const struct kit_key *key,
                          uint32_t access, uint64_t offset, uint64_t length,
                          struct twosided_memory **memory_p);
void twosided_mem_free_all(struct twosided *ts);

/* Where a region of ours lies. */
static inline uint8_t *twosided_mem_base(const struct twosided_memory *memory)
{
    return (uint8_t *) (uintptr_t) memory->region.base;
}

/* transfer.c */
struct twosided_transfer *twosided_transfer_get(struct twosided *ts, void *peer, uint64_t length,
                                                uint32_t piece_size);
void twosided_transfer_run(struct twosided_transfer *transfer);
void twosided_transfer_end(struct twosided_transfer *transfer, int32_t status, bool is_told);
void twosided_transfer_cut(struct twosided_transfer *transfer);
void twosided_retry_add(struct twosided_transfer *transfer);

/* job.c: the target's side of the life */
void twosided_job_start(struct twosided *ts, void *peer, const struct twosided_record *record,
                        const uint32_t *tags);
struct twosided_transfer *twosided_job_find(struct twosided *ts, const void *peer, uint64_t id);
void twosided_job_forget(struct twosided_transfer *job);

/* piece.c */
bool twosided_pieces_move(struct twosided_transfer *transfer);
void twosided_pieces_look(struct twosided *ts);
void twosided_pieces_cancel(struct twosided_transfer *transfer);
void twosided_pieces_withdraw(struct twosided_transfer *transfer);
bool twosided_tags_take(struct twosided_transfer *transfer, const struct twosided_record *record,
                        const uint32_t *tags);

/* record.c */
bool twosided_records_send(struct twosided_transfer *transfer);
void twosided_answer(struct twosided *ts, void *peer, const struct twosided_record *to,
                     enum twosided_kind kind, uint64_t number, int32_t status);

#endif /* TWOSIDED_STATE_H */
