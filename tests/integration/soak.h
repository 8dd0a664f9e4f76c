/* SPDX-License-Identifier: BSD-3-Clause */
/* What both sides of the soak share: an origin that injects faults into its own operations, and
 * targets that are killed and started again. */
#ifndef TESTS_INTEGRATION_SOAK_H
#define TESTS_INTEGRATION_SOAK_H

#include "child.h"

#include <mercury.h>
#include <mercury_bulk.h>
#include <mercury_ext.h>
#include <mercury_macros.h>
#include <mercury_proc.h>

#include <stdbool.h>
#include <stdint.h>

#define SOAK_BLOCK      (2u << 20)   /* bytes from which payloads are taken */
#define SOAK_BULK_MAX   (256u << 10) /* bytes of a transfer */
#define SOAK_PAYLOAD    (192u << 10) /* bytes of a request or a response */
#define SOAK_SOURCE     (1u << 20)   /* bytes that a target offers for reading */
#define SOAK_PEERS_MAX  8
#define SOAK_WINDOW_MAX 512
#define SOAK_HOLD_MAX   128 /* requests that a target may answer later */

/* A request or a response: bytes and their digest. */
struct soak_data {
    uint64_t number;
    uint64_t digest;
    uint32_t size;
    uint32_t reply_size;
    uint32_t hold_ms; /* how long the target waits before it answers */
    uint32_t is_wrong;
    void *bytes;
};

/* Processes a struct soak_data; decoded bytes are allocated. */
hg_return_t soak_proc_data(hg_proc_t proc, void *data);

MERCURY_GEN_PROC(soak_expose_t, ((uint64_t) (generation))((hg_bulk_t) (source))((hg_bulk_t) (sink)))
MERCURY_GEN_PROC(soak_check_in_t, ((uint64_t) (offset))((uint64_t) (size)))
MERCURY_GEN_PROC(soak_check_out_t, ((uint64_t) (generation))((uint64_t) (digest)))
MERCURY_GEN_PROC(soak_move_in_t, ((hg_bulk_t) (memory))((uint64_t) (number))((uint32_t) (pull)))
MERCURY_GEN_PROC(soak_move_out_t, ((uint64_t) (digest))((int32_t) (status)))

struct soak_ids {
    hg_id_t echo;
    hg_id_t expose;
    hg_id_t check;
    hg_id_t move;
};

/* Returns SOAK_BLOCK bytes, the same in all processes. */
const unsigned char *soak_block(void);

/* Fills `source`, of SOAK_SOURCE bytes, with what a target of this generation offers for
 * reading. */
void soak_fill_source(unsigned char *source, uint64_t generation);

/* Returns `size` bytes of the block, at a place that depends on `number`. */
const unsigned char *soak_bytes(uint64_t number, uint64_t size);

uint64_t soak_digest(const void *bytes, uint64_t size);

/* Counts the open descriptors of this process. The second one opens and closes a class first: a
 * descriptor that a library of the transport opens once for the process is no leak. */
int soak_descriptors(void);
int soak_descriptors_at_rest(const char *init_string);

/* The main function of a target: init string, generation, number of sink places. It serves until
 * the end of its input. */
int soak_target_main(const char *init_string, uint64_t generation, uint64_t places);

/* The origin */

struct soak_options {
    char init[256];
    char faults[128];        /* injected at the origin */
    char target_faults[128]; /* injected at the targets; empty: none */
    uint64_t rpcs;
    uint64_t bulks;
    uint64_t kills;
    uint64_t seed;
    uint32_t window;
    uint32_t peers;
    uint32_t seconds; /* no operation is issued after this time; 0: no limit */
};

/* How the operations of one kind ended. */
struct soak_sums {
    uint64_t issued;
    uint64_t succeeded;
    uint64_t cancelled;
    uint64_t timed_out;
    uint64_t failed;
    uint64_t refused; /* not accepted: the call returned an error, and no callback follows */
    uint64_t again;
};

struct soak_report {
    struct soak_sums rpc;
    struct soak_sums bulk;
    uint64_t lost;
    uint64_t twice;
    uint64_t digests;
    uint64_t digests_wrong;
    uint64_t touched; /* memory that was written after it had been withdrawn */
    uint64_t progress_errors;
    uint64_t latest_ms; /* the longest time from a deadline to a progress call that did not complete
                         * the operation */
    uint64_t kills;
    uint64_t targets_unclean; /* targets that crashed, or that left something behind */
    int64_t leaked_handles;
    int64_t leaked_bulks;
    int64_t leaked_addresses;
    int64_t leaked_descriptors;
    int64_t leaked_bytes; /* growth of the memory between a quarter of the operations and the end */
    bool is_closed;
};

/* Runs the whole soak; false if it could not begin. */
bool soak_origin_run(const struct soak_options *options, struct soak_report *report);

/* Targets as the origin sees them (soak_peers.c) */

enum soak_peer_state {
    SOAK_PEER_STARTING, /* its address has not been read */
    SOAK_PEER_UNKNOWN,  /* its descriptors have not been requested */
    SOAK_PEER_ASKED,
    SOAK_PEER_UP
};

struct soak_peer {
    struct child child;
    enum soak_peer_state state;
    bool is_running;
    uint64_t generation;
    uint64_t crashes;
    char address[256];
    char line[256];
    size_t line_used;
    hg_addr_t addr;
    hg_bulk_t source;
    hg_bulk_t sink;
    unsigned char *expected; /* SOAK_SOURCE bytes: what its source contains in that generation */
    uint64_t expected_generation;
};

/* Starts a target, at its previous address if it has one. */
bool soak_peer_start(struct soak_peer *peer, const struct soak_options *options);

/* Reads what a starting target has printed; true once its address is complete. */
bool soak_peer_poll(struct soak_peer *peer, const struct soak_options *options);

/* Returns the digest of a part of a target's source. */
uint64_t soak_peer_digest(struct soak_peer *peer, uint64_t generation, uint64_t offset,
                          uint64_t size);

/* Kills the target with SIGKILL and starts the next generation. */
bool soak_peer_restart(struct soak_peer *peer, const struct soak_options *options);

/* Whether the target has ended without being asked to. */
bool soak_peer_has_died(const struct soak_peer *peer);

/* Asks the target to end; false if it left something behind. */
bool soak_peer_end(struct soak_peer *peer);

#endif
