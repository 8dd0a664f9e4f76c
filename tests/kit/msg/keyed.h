/* SPDX-License-Identifier: BSD-3-Clause */
/* Two endpoints with keys over the simulated fabric, and an attacker who takes frames out of the
 * network, makes frames, and delivers them. */
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

/* The keys of an endpoint: the current one, and another one that it accepts. */
struct key_pair {
    const char *key, *also;
};

/* The stretched form of KEY, kept while a group of tests runs. */
extern struct kit_auth_secret *kept;

/* Setup and teardown of a group, so that the key is stretched only once. */
int key_keep(void **state);
int key_drop(void **state);

struct na_plugin_class *keyed_node(struct sim_pair *pair, const char *name,
                                   const struct key_pair *keys);
/* Opens two endpoints that have not met. */
void rotating_open(struct sim_pair *pair, const struct key_pair *keys_a,
                   const struct key_pair *keys_b);
/* A key of NULL: none. */
void keyed_open(struct sim_pair *pair, const char *key_a, const char *key_b);
void keyed_close(struct sim_pair *pair);
int met_setup(void **state);
int met_teardown(void **state);

struct way way_of(const struct sim_pair *pair, uint32_t direction);
uint64_t refused(const struct na_plugin_class *node);
/* Takes the first frame in the inbox of the node. */
void take(struct na_plugin_class *node, struct frame *frame);
void hand_over(struct na_plugin_class *node, struct na_plugin_context *context,
               const struct frame *frame);
void post(struct na_plugin_context *context, struct sim_op *receive, char buf[8]);
/* Checks that the session passes a message. */
void check_alive(const struct way *way);
/* Makes a copy of a HELLO with another share, as anybody who saw the HELLO can. */
void forge(const struct frame *hello, struct frame *forged);

#endif
