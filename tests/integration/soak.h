/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The soak: an origin that disturbs itself, and targets that are killed and started again. What the
 * files of both sides share.
 */
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

#define SOAK_BLOCK      (2u << 20)   /* bytes that payloads are cut from */
#define SOAK_BULK_MAX   (256u << 10) /* bytes of a transfer */
#define SOAK_PAYLOAD    (192u << 10) /* bytes of a request or a response */
#define SOAK_SOURCE     (1u << 20)   /* bytes that a target offers for reading */
#define SOAK_PEERS_MAX  8
#define SOAK_WINDOW_MAX 512
#define SOAK_HOLD_MAX   128 /* requests that a target keeps for later */

/* A request, and a response, with bytes whose digest goes along. */
struct soak_data {
    uint64_t number;
    uint64_t digest;
    uint32_t size;
    uint32_t reply_size;
    uint32_t hold_ms; /* how long the target is to wait before it answers */
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

/* SOAK_BLOCK bytes, the same in all processes. */
const unsigned char *soak_block(void);

/* What a target of a generation offers for reading, written to `source`, of SOAK_SOURCE bytes. */
void soak_fill_source(unsigned char *source, uint64_t generation);

/* `size` bytes of the block that a number stands for. */
const unsigned char *soak_bytes(uint64_t number, uint64_t size);

uint64_t soak_digest(const void *bytes, uint64_t size);

/* Open descriptors of this process; the same when a class was opened and closed, since what the
 * transport's library opens once for the process is no leak. */
int soak_descriptors(void);
int soak_descriptors_at_rest(const char *init_string);

/* The target: arguments are init string, generation, sink places. Serves until its input ends. */
int soak_target_main(const char *init_string, uint64_t generation, uint64_t places);

/*
 * The origin's side
 */

struct soak_options {
    char init[256];
    char faults[128];        /* of the origin */
    char target_faults[128]; /* of the targets, none if empty */
    uint64_t rpcs;
    uint64_t bulks;
    uint64_t kills;
    uint64_t seed;
    uint32_t window;
    uint32_t peers;
    uint32_t seconds; /* stops issuing after that long; 0: never */
};

/* What became of operations of one kind. */
struct soak_sums {
    uint64_t issued;
    uint64_t succeeded;
    uint64_t cancelled;
    uint64_t timed_out;
    uint64_t failed;
    uint64_t refused; /* not accepted, by an error of the call: no callback belongs to it */
    uint64_t again;
};

struct soak_report {
    struct soak_sums rpc;
    struct soak_sums bulk;
    uint64_t lost;
    uint64_t twice;
    uint64_t digests;
    uint64_t digests_wrong;
    uint64_t touched; /* memory that was written after it was withdrawn */
    uint64_t progress_errors;
    uint64_t latest_ms; /* the most between a deadline and a progress call that did not heed it */
    uint64_t kills;
    uint64_t targets_unclean; /* that crashed, or ended with something left */
    int64_t leaked_handles;
    int64_t leaked_bulks;
    int64_t leaked_addresses;
    int64_t leaked_descriptors;
    int64_t leaked_bytes; /* growth from a quarter of the way to the end */
    bool is_closed;
};

/* Runs all of it; false if it could not begin. */
bool soak_origin_run(const struct soak_options *options, struct soak_report *report);

/* Targets as the origin sees them [soak_peers.c] */

enum soak_peer_state {
    SOAK_PEER_STARTING, /* its address is awaited */
    SOAK_PEER_UNKNOWN,  /* its descriptors are to be asked for */
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
    unsigned char *expected; /* SOAK_SOURCE bytes, what its source has in that generation: */
    uint64_t expected_generation;
};

/* Starts a target, at its old address if it has one. */
bool soak_peer_start(struct soak_peer *peer, const struct soak_options *options);

/* Reads what a target that starts has printed; true once its address is complete. */
bool soak_peer_poll(struct soak_peer *peer, const struct soak_options *options);

/* The digest of what a target's source has. */
uint64_t soak_peer_digest(struct soak_peer *peer, uint64_t generation, uint64_t offset,
                          uint64_t size);

/* SIGKILL, and the next generation is started. */
bool soak_peer_restart(struct soak_peer *peer, const struct soak_options *options);

/* Whether it has ended although nobody asked it to. */
bool soak_peer_has_died(const struct soak_peer *peer);

/* Asks it to end; false if it left something. */
bool soak_peer_end(struct soak_peer *peer);

#endif
