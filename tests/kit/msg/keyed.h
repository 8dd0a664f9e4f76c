/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two endpoints with keys over the simulated fabric, and somebody who takes frames out of it, makes
 * some, and hands them over.
 */
#ifndef TESTS_KIT_MSG_KEYED_H
#define TESTS_KIT_MSG_KEYED_H

#include "kit_base.h"
#include "msg_sim.h"

#define KEY "open sesame"

/* A frame that was taken out of the network. */
struct frame {
    uint8_t data[SIM_FRAME_MAX];
    uint64_t size;
};

/* One direction of a pair. */
struct way {
    struct na_plugin_class *from, *to;
    struct na_plugin_context *from_context, *to_context;
    struct na_plugin_addr *to_at_from, *from_at_to;
};

/* What counts at an endpoint. */
struct key_pair {
    const char *key, *also;
};

/* Of KEY; as long as a group of tests runs. */
extern struct kit_auth_secret *kept;

/* Setup and teardown of a group: the key is stretched once. */
int key_keep(void **state);
int key_drop(void **state);

struct na_plugin_class *keyed_node(struct sim_pair *pair, const char *name,
                                   const struct key_pair *keys);
/* Two that do not know each other. */
void rotating_open(struct sim_pair *pair, const struct key_pair *keys_a,
                   const struct key_pair *keys_b);
/* NULL: without a key. */
void keyed_open(struct sim_pair *pair, const char *key_a, const char *key_b);
void keyed_close(struct sim_pair *pair);
int met_setup(void **state);
int met_teardown(void **state);

struct way way_of(const struct sim_pair *pair, uint32_t direction);
uint64_t refused(const struct na_plugin_class *node);
/* The first frame that waits for the node. */
void take(struct na_plugin_class *node, struct frame *frame);
void hand_over(struct na_plugin_class *node, struct na_plugin_context *context,
               const struct frame *frame);
void post(struct na_plugin_context *context, struct sim_op *receive, char buf[8]);
/* What the session is good for. */
void check_alive(const struct way *way);
/* The HELLO that a makes for b, with another share: whoever saw it can make one. */
void forge(const struct frame *hello, struct frame *forged);

#endif
