/* SPDX-License-Identifier: BSD-3-Clause */
/* A fabric that exists in memory only, and a core that only records completions, to test the
 * message layer alone. Switches determine what the fabric does to a frame. */

#ifndef MSG_SIM_H
#define MSG_SIM_H

#include "kit_msg.h"
#include "msg_state.h"

#include <pthread.h>
#include <stdatomic.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SIM_FRAME_MAX 4096u

/* The memory handle of the simulation. */
struct na_plugin_mem {
    uint8_t *base;
};

/* A frame in flight. */
struct sim_packet {
    struct sim_packet *next;
    char source[64]; /* the name of the node that sent it */
    uint64_t size;
    uint8_t data[];
};

/* A frame or a transfer in progress at the fabric. */
struct sim_job {
    struct sim_job *next;
    struct kit_frame *frame; /* or */
    struct kit_msg_rma *rma;
    int32_t status;
    uint32_t delay; /* polls until it is done */
    bool is_old;    /* the peer was closed after it began */
};

enum sim_rma_mode {
    SIM_RMA_AT_ONCE,  /* completes inside the call */
    SIM_RMA_LATER,    /* completes at the next poll */
    SIM_RMA_NEVER,    /* completes only when abandoned */
    SIM_RMA_STUBBORN, /* when abandoned, completes a few polls later */
    SIM_RMA_DEAF      /* completes only at ops.reset */
};

struct na_plugin_class {
    struct kit_endpoint endpoint; /* has to be the first member */
    struct kit_msg_ops ops;
    char name[64];
    struct sim_net *net;
    pthread_mutex_t inbox_lock;
    struct sim_packet *inbox_first, *inbox_last;
    struct sim_job *jobs;
    int event_fd;
    bool is_dead; /* receives and sends nothing any more */

    /* Switches */
    _Atomic uint32_t again;      /* how many of the next sends find no room */
    _Atomic uint32_t delay;      /* polls until a frame is sent; 0: sent in the call */
    _Atomic int32_t send_status; /* result of the send call, if not success */
    _Atomic int32_t sent_status; /* status with which frames complete */
    _Atomic bool is_copying;     /* sent frames are marked as copied */
    _Atomic bool is_cut;         /* frames neither arrive nor complete */
    _Atomic uint32_t lose;       /* how many of the next frames succeed but do not arrive */
    bool has_paths;              /* reports the sender of each frame (sim_tell_paths) */
    bool has_no_cookies;         /* frames must be copied, or stay in the inbox */
    uint32_t open_again;         /* how many of the next peer_open calls are delayed */
    int32_t open_status;
    enum sim_rma_mode rma_mode;
    uint32_t rma_again;
    int32_t rma_status;

    /* Counts */
    uint32_t frames;        /* frames sent */
    uint32_t polled_frames; /* frames sent when the fabric was last polled */
    uint32_t messages;      /* message records in the frames */
    uint32_t opened, closed, released, slabs, controls, resets;
    uint32_t hellos; /* frames with a HELLO */
    uint32_t held;
    uint8_t control_data[512];
    uint64_t control_size;
};

struct sim_net {
    pthread_mutex_t lock;
    struct na_plugin_class *nodes[16];
    uint32_t count;
};

/* An operation and its completions. */
struct sim_op {
    struct msg_op priv; /* has to be the first member */
    _Atomic uint32_t completions;
    int32_t status;
    uint64_t size;
    uint32_t tag;
    struct na_plugin_addr *source;
    uint32_t messages; /* taken by a multi-receive */
    uint32_t last;
    uint64_t sizes[64];
    void *places[64];
};

extern const struct na_host sim_host;
extern _Atomic int64_t sim_allocations;        /* allocations that are not freed */
extern _Atomic uint64_t sim_allocations_made;  /* allocations made in total */
extern _Atomic int64_t sim_allocation_to_fail; /* counts down to the allocation that fails;
                                                * negative: none */
extern _Atomic uint64_t sim_clock_skip;        /* ns by which the clock is ahead */
extern _Atomic uint64_t sim_clock_stopped;     /* ns at which the clock stands still; 0: it runs */
extern _Atomic uint64_t sim_clock_looks;       /* how often the clock was read */
extern _Atomic uint32_t sim_events_to_refuse;  /* how many multi-receive events find no memory */

void sim_net_setup(struct sim_net *net);
struct na_plugin_init sim_init(void);

/* The auth_key of all nodes that are opened without an init; from the environment. NULL: none. */
const char *sim_key(void);

/* Open a node that takes over the name of a dead one. NULL when that fails. */
struct na_plugin_class *sim_open(struct sim_net *net, const char *name,
                                 const struct na_plugin_init *init);
struct na_plugin_class *sim_try_open(struct sim_net *net, const char *name,
                                     const struct na_plugin_init *init, uint32_t max_sends);
struct na_plugin_context *sim_context(struct na_plugin_class *node, uint32_t id);

/* Stops and destroys context 0, then the node. */
void sim_close(struct na_plugin_class *node, struct na_plugin_context *context);

/* From now on the fabric reports the sender of each frame to the node. */
void sim_tell_paths(struct na_plugin_class *node);

/* The node vanishes without a BYE. */
void sim_kill(struct na_plugin_class *node);

struct na_plugin_addr *sim_lookup(struct na_plugin_class *node, const char *name);

/* Delivers a frame to a node as if it had come from the network. */
void sim_inject(struct na_plugin_class *node, const void *data, uint64_t size);

/* Polls both contexts until the operation has completed, at most 10000 times. */
void sim_poll_until(struct na_plugin_context *a, struct na_plugin_context *b,
                    const struct sim_op *op);
void sim_poll(struct na_plugin_context *a, struct na_plugin_context *b, uint32_t count);

/* Passes one unexpected message, so that the two have met. */
void sim_meet(struct na_plugin_context *a, struct na_plugin_context *b,
              struct na_plugin_addr *b_at_a, struct na_plugin_addr **a_at_b_p);

/* Two nodes, a and b, with one context each, that have met. */
struct sim_pair {
    struct sim_net net;
    struct na_plugin_class *a, *b;
    struct na_plugin_context *ca, *cb;
    struct na_plugin_addr *b_at_a, *a_at_b;
};

/* Setup and teardown for cmocka. A test that closed a node itself sets it to NULL. */
int sim_pair_setup(void **state);
/* Setup with an init of its own (NULL: the usual one), and a limit on the frames of a that are in
 * flight (0: the usual one). */
int sim_pair_setup_with(void **state, const struct na_plugin_init *init, uint32_t max_sends);
int sim_pair_teardown(void **state);

#endif /* MSG_SIM_H */
