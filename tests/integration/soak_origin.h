/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of the soak's origin: its state and its operations. The course is in soak_origin.c. */
#ifndef TESTS_INTEGRATION_SOAK_ORIGIN_H
#define TESTS_INTEGRATION_SOAK_ORIGIN_H

#include "soak.h"

/* The kinds of operations. The last two are bulk transfers, the others RPCs. */
enum soak_kind {
    SOAK_ECHO,
    SOAK_EXPOSE,
    SOAK_CHECK,
    SOAK_MOVE,
    SOAK_PULL,
    SOAK_PUSH
};

enum soak_record_state {
    SOAK_UNUSED,
    SOAK_ISSUED,
    SOAK_REFUSED,
    SOAK_ENDED
};

/* One for each operation, never reused, so that a second callback of the same operation is
 * found. */
struct soak_record {
    struct soak_slot *slot;
    enum soak_record_state state;
};

/* Memory that the transport still uses after its operation has ended. */
struct soak_parked {
    struct soak_parked *next;
    hg_bulk_t bulk;
    unsigned char *buffer;
};

struct soak_slot {
    struct soak *soak;
    struct soak_record *record; /* of the operation in flight, or NULL */
    struct soak_peer *peer;
    enum soak_kind kind;
    uint64_t number;
    uint64_t generation; /* of the peer when it was issued */
    hg_handle_t handle;  /* kept for the next RPC */
    hg_op_id_t op_id;
    unsigned int deadline_ms; /* 0: no deadline */
    long long due_ms;         /* when the deadline passes */
    long long cancel_ms;      /* when to cancel the operation; 0: never */
    bool is_twice;            /* is cancelled twice */

    uint64_t offset; /* of a transfer */
    uint64_t size;
    unsigned char *buffer; /* allocated by the slot, SOAK_BULK_MAX bytes */
    unsigned char *memory; /* what the transfer uses: `buffer`, or memory of the library */
    hg_bulk_t local;
    bool is_library_memory;
    bool is_withdrawn; /* the buffer was exposed and is so no longer; what it contained then: */
    uint64_t withdrawn_size;
    uint64_t withdrawn_digest;

    bool has_pushed; /* a push has yet to be checked: */
    uint64_t pushed_digest;
    uint64_t pushed_size;
    long long push_after_ms; /* a push of before may still arrive until then */
};

struct soak {
    const struct soak_options *options;
    struct soak_report *report;
    hg_class_t *hg_class;
    hg_context_t *context;
    struct soak_ids ids;
    uint64_t random;
    struct soak_record *records;
    uint64_t record_count;
    uint64_t records_used;
    uint64_t in_flight;
    uint64_t steps;
    struct soak_slot *slots; /* options->window for operations, and one for each peer's
                              * SOAK_EXPOSE */
    uint32_t slot_count;
    struct soak_peer peers[SOAK_PEERS_MAX];
    struct soak_parked *parked;
    long long progress_ms;        /* when the last progress call began */
    long long progress_before_ms; /* when the one before it began */
    int64_t handles;              /* created and not yet destroyed */
    int64_t bulks;
    int64_t addresses;
};

/* A random number below `limit`. */
uint64_t soak_below(struct soak *soak, uint64_t limit);

/* How many operations are still to be issued. */
uint64_t soak_left(uint64_t wanted, const struct soak_sums *sums);

/* Starts an operation in a free slot, unless there is none to start now. */
void soak_slot_start(struct soak_slot *slot);

/* Asks a peer for its descriptors. */
void soak_slot_expose(struct soak_slot *slot, struct soak_peer *peer);

/* Cancels the operations whose time to be cancelled has come. */
void soak_cancel_due(struct soak *soak);

/* Frees memory that the transport no longer uses; false if some is left. */
bool soak_free_parked(struct soak *soak);

/* Memory (soak_memory.c) */

/* Prepares the slot's memory for `size` bytes, and a bulk descriptor of it. */
bool soak_memory_take(struct soak_slot *slot, uint64_t size, uint8_t flags);

/* Called when the operation has ended: frees the descriptor, or keeps it and the memory while the
 * transport uses them. */
void soak_memory_give(struct soak_slot *slot, bool is_exposed);

/* Checks that withdrawn memory was not written since; otherwise counts it in `touched`. */
void soak_memory_check(struct soak_slot *slot);

#endif
