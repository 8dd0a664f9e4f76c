/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fabric that exists in memory only, and a core that does nothing but note completions, so that
 * the message layer can be driven by itself. What the fabric does to a frame is set by switches.
 */

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

/* A frame on its way. */
struct sim_packet {
    struct sim_packet *next;
    char source[64]; /* the name of the node that sent it */
    uint64_t size;
    uint8_t data[];
};

/* A frame or a transfer that the fabric works on. */
struct sim_job {
    struct sim_job *next;
    struct kit_frame *frame; /* or */
    struct kit_msg_rma *rma;
    int32_t status;
    uint32_t delay; /* polls */
    bool is_old;    /* its peer was closed since */
};

enum sim_rma_mode {
    SIM_RMA_AT_ONCE,  /* done inside of the call */
    SIM_RMA_LATER,    /* at the next poll */
    SIM_RMA_NEVER,    /* until it is abandoned, which works */
    SIM_RMA_STUBBORN, /* abandoning it ends it a few polls later */
    SIM_RMA_DEAF      /* only ops.reset ends it */
};

struct na_plugin_class {
    struct kit_endpoint endpoint; /* first */
    struct kit_msg_ops ops;
    char name[64];
    struct sim_net *net;
    pthread_mutex_t inbox_lock;
    struct sim_packet *inbox_first, *inbox_last;
    struct sim_job *jobs;
    int event_fd;
    bool is_dead; /* nothing gets to it any more, nothing leaves it */

    /* Switches */
    _Atomic uint32_t again;      /* the next so many sends have no room */
    _Atomic uint32_t delay;      /* polls until a frame is sent; 0: in the call */
    _Atomic int32_t send_status; /* what sending returns, if not success */
    _Atomic int32_t sent_status; /* how frames end */
    _Atomic bool is_copying;     /* frames that were sent are marked as copied */
    _Atomic bool is_cut;         /* frames neither arrive nor end */
    _Atomic uint32_t lose;       /* the next so many frames end well and do not arrive */
    bool has_paths;              /* says from where a frame came (sim_tell_paths) */
    bool has_no_cookies;         /* leaves frames to be copied, and in the inbox */
    uint32_t open_again;         /* the next so many peer_open have to wait */
    int32_t open_status;
    enum sim_rma_mode rma_mode;
    uint32_t rma_again;
    int32_t rma_status;

    /* What it saw */
    uint32_t frames;        /* sent */
    uint32_t polled_frames; /* sent when the fabric was polled last */
    uint32_t messages;      /* records of messages in them */
    uint32_t opened, closed, released, slabs, controls, resets;
    uint32_t hellos; /* frames with one */
    uint32_t held;
    uint8_t control_data[512];
    uint64_t control_size;
};

struct sim_net {
    pthread_mutex_t lock;
    struct na_plugin_class *nodes[16];
    uint32_t count;
};

/* An operation as a test sees it. */
struct sim_op {
    struct msg_op priv; /* first */
    _Atomic uint32_t completions;
    int32_t status;
    uint64_t size;
    uint32_t tag;
    struct na_plugin_addr *source;
    uint32_t messages; /* of a multi-receive */
    uint32_t last;
    uint64_t sizes[64];
    void *places[64];
};

extern const struct na_host sim_host;
extern _Atomic int64_t sim_allocations;        /* that are not freed */
extern _Atomic uint64_t sim_allocations_made;  /* in all */
extern _Atomic int64_t sim_allocation_to_fail; /* counts down; negative: none */
extern _Atomic uint64_t sim_clock_skip;        /* ns that the clock is ahead */
extern _Atomic uint64_t sim_clock_looks;       /* how often it was read */
extern _Atomic uint32_t sim_events_to_refuse;  /* multi-receive events without memory */

void sim_net_setup(struct sim_net *net);
struct na_plugin_init sim_init(void);

/* The auth_key of all nodes that are given no init, from the environment; NULL: none. */
const char *sim_key(void);

/* NULL when it could not be opened. A node takes the name of a dead one. */
struct na_plugin_class *sim_open(struct sim_net *net, const char *name,
                                 const struct na_plugin_init *init);
struct na_plugin_class *sim_try_open(struct sim_net *net, const char *name,
                                     const struct na_plugin_init *init, uint32_t max_sends);
struct na_plugin_context *sim_context(struct na_plugin_class *node, uint32_t id);

/* Context 0 is stopped and destroyed, and the node. */
void sim_close(struct na_plugin_class *node, struct na_plugin_context *context);

/* From now on the fabric tells the node of each frame from whom it came. */
void sim_tell_paths(struct na_plugin_class *node);

/* It vanishes without a word. */
void sim_kill(struct na_plugin_class *node);

struct na_plugin_addr *sim_lookup(struct na_plugin_class *node, const char *name);

/* Hands a frame to a node as if it had come from the network. */
void sim_inject(struct na_plugin_class *node, const void *data, uint64_t size);

/* Polls both until the operation has completed, at most 10000 times. */
void sim_poll_until(struct na_plugin_context *a, struct na_plugin_context *b,
                    const struct sim_op *op);
void sim_poll(struct na_plugin_context *a, struct na_plugin_context *b, uint32_t count);

/* Sends and receives one unexpected message, so that both know each other. */
void sim_meet(struct na_plugin_context *a, struct na_plugin_context *b,
              struct na_plugin_addr *b_at_a, struct na_plugin_addr **a_at_b_p);

/* Two nodes, a and b, with one context each, that know each other. */
struct sim_pair {
    struct sim_net net;
    struct na_plugin_class *a, *b;
    struct na_plugin_context *ca, *cb;
    struct na_plugin_addr *b_at_a, *a_at_b;
};

/* For cmocka; whoever closed a node by itself sets it to NULL. */
int sim_pair_setup(void **state);
/* With a class of its own; NULL: as above. So many frames of a at a time; 0: as many as usual. */
int sim_pair_setup_with(void **state, const struct na_plugin_init *init, uint32_t max_sends);
int sim_pair_teardown(void **state);

#endif /* MSG_SIM_H */
