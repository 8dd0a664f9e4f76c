/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for tests of keys; see keyed.h. */

#include "keyed.h"

#include <stdlib.h>
#include <string.h>

struct kit_auth_secret *kept;

int key_keep(void **state)
{
    (void) state;
    kit_host = &sim_host;
    return kit_auth_secret_open("test", KEY, &kept);
}

int key_drop(void **state)
{
    (void) state;
    kit_auth_secret_close(kept);
    return 0;
}

struct na_plugin_class *keyed_node(struct sim_pair *pair, const char *name,
                                   const struct key_pair *keys)
{
    struct na_plugin_init init = sim_init();

    init.auth_key = keys->key;
    init.auth_key_also = keys->also;
    return sim_open(&pair->net, name, &init);
}

void rotating_open(struct sim_pair *pair, const struct key_pair *keys_a,
                   const struct key_pair *keys_b)
{
    memset(pair, 0, sizeof(*pair));
    sim_net_setup(&pair->net);
    pair->a = keyed_node(pair, "a", keys_a);
    pair->b = keyed_node(pair, "b", keys_b);
    pair->ca = sim_context(pair->a, 0);
    pair->cb = sim_context(pair->b, 0);
    pair->b_at_a = sim_lookup(pair->a, "b");
}

void keyed_open(struct sim_pair *pair, const char *key_a, const char *key_b)
{
    rotating_open(pair, &(struct key_pair){key_a, NULL}, &(struct key_pair){key_b, NULL});
}

void keyed_close(struct sim_pair *pair)
{
    kit_msg_addr_free(pair->a, pair->b_at_a);
    if (pair->a_at_b != NULL)
        kit_msg_addr_free(pair->b, pair->a_at_b);
    sim_close(pair->a, pair->ca);
    sim_close(pair->b, pair->cb);
    assert_int_equal(sim_allocations, 0);
}

int met_setup(void **state)
{
    static struct sim_pair pair;

    keyed_open(&pair, KEY, KEY);
    sim_meet(pair.ca, pair.cb, pair.b_at_a, &pair.a_at_b);
    *state = &pair;
    return 0;
}

int met_teardown(void **state)
{
    keyed_close(*state);
    return 0;
}

struct way way_of(const struct sim_pair *pair, uint32_t direction)
{
    const struct way ways[] = {
        {pair->a, pair->b, pair->ca, pair->cb, pair->b_at_a, pair->a_at_b},
        {pair->b, pair->a, pair->cb, pair->ca, pair->a_at_b, pair->b_at_a},
    };

    return ways[direction];
}

uint64_t refused(const struct na_plugin_class *node)
{
    const struct msg_endpoint *state = node->endpoint.state;

    return state->session.refused + state->session.bad + state->counters.frames_stale;
}

void take(struct na_plugin_class *node, struct frame *frame)
{
    struct sim_packet *packet = node->inbox_first;

    assert_non_null(packet);
    node->inbox_first = packet->next;
    if (node->inbox_first == NULL)
        node->inbox_last = NULL;
    frame->size = packet->size;
    memcpy(frame->data, packet->data, packet->size);
    free(packet);
}

void hand_over(struct na_plugin_class *node, struct na_plugin_context *context,
               const struct frame *frame)
{
    sim_inject(node, frame->data, frame->size);
    sim_poll(context, NULL, 1);
}

void post(struct na_plugin_context *context, struct sim_op *receive, char buf[8])
{
    memset(receive, 0, sizeof(*receive));
    assert_int_equal(kit_msg_recv_unexpected(context, receive, buf, 8, NULL), 0);
}

void check_alive(const struct way *way)
{
    struct sim_op send = {0}, receive;
    char buf[8];

    post(way->to_context, &receive, buf);
    assert_int_equal(
        kit_msg_send_unexpected(way->from_context, &send, "alive", 6, NULL, way->to_at_from, 0, 9),
        0);
    sim_poll_until(way->from_context, way->to_context, &receive);
    assert_int_equal(receive.status, 0);
    assert_string_equal(buf, "alive");
    kit_msg_addr_free(way->to, receive.source);
}

void forge(const struct frame *hello, struct frame *forged)
{
    struct kit_auth_exchange exchange;

    kit_auth_exchange_begin(kept, &exchange);
    *forged = *hello;
    memcpy(forged->data + sizeof(struct wire_header) + sizeof(struct wire_record) +
               sizeof(struct kit_hello_wire),
           exchange.share, sizeof(exchange.share));
}
