/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Expected messages: receives in a hash table for each context, by the process that sends, its
 * context and the tag; equal ones in the order of their posting.
 */

#include "state.h"

#include <string.h>

#define FABRIC_EXPECTED_BUCKETS 256u

static uint32_t fabric_expected_hash(const struct fabric_peer_state *identity, uint32_t source_id,
                                     uint32_t tag);
static void fabric_expected_remove(struct fabric_context *context, struct fabric_op *op);
static void fabric_expected_grow(struct fabric_context *context);

int32_t fabric_expected_setup(struct fabric_context *context)
{
    struct fabric_expected_table *table = &context->expected;

    if (table->buckets != NULL)
        return NA_PLUGIN_SUCCESS;
    table->buckets =
        context->endpoint->host->mem_alloc(FABRIC_EXPECTED_BUCKETS * sizeof(*table->buckets), 0);
    if (table->buckets == NULL)
        return NA_PLUGIN_NOMEM;
    table->mask = FABRIC_EXPECTED_BUCKETS - 1;
    for (uint32_t i = 0; i <= table->mask; i++)
        kit_list_init(&table->buckets[i]);
    return NA_PLUGIN_SUCCESS;
}

int32_t fabric_msg_recv_expected(struct na_plugin_context *na_context, void *op_p, void *buf,
                                 uint64_t size, void *data, struct na_plugin_addr *source,
                                 uint32_t source_id, uint32_t tag)
{
    struct fabric_context *context = fabric_context(na_context);
    struct fabric_peer_state *peer = fabric_addr_state(source);
    struct fabric_expected_table *table = &context->expected;
    struct fabric_op *op = op_p;
    int32_t ret = NA_PLUGIN_SUCCESS;
    uint32_t hash;

    (void) data;
    op->context = context;
    op->peer = peer;
    op->buf.recv = buf;
    op->size = size;
    op->kind = FABRIC_OP_RECV_EXPECTED;
    op->tag = tag;
    op->remote_id = source_id;
    kit_lock_take(&context->endpoint->state->lock);
    if (kit_unlikely(!context->active)) {
        ret = NA_PLUGIN_FAULT;
        goto out;
    }
    if (kit_unlikely(table->count > table->mask))
        fabric_expected_grow(context);
    op->epoch = peer->epoch;
    hash = fabric_expected_hash(peer->identity, source_id, tag);
    kit_list_append(&table->buckets[hash & table->mask], &op->link);
    table->count++;
    fabric_waiting_add(peer);

out:
    kit_lock_drop(&context->endpoint->state->lock);
    return ret;
}

void fabric_expected_deliver(struct fabric_peer_state *peer, struct fabric_context *context,
                             uint32_t source_id, uint32_t tag, const void *data, uint32_t size)
{
    struct fabric_expected_table *table = &context->expected;
    struct fabric_endpoint_state *state = peer->endpoint->state;
    struct fabric_peer_state *identity = peer->identity;

    if (kit_likely(table->count != 0)) {
        uint32_t hash = fabric_expected_hash(identity, source_id, tag);
        struct kit_link *bucket = &table->buckets[hash & table->mask];

        for (struct kit_link *link = bucket->next; link != bucket; link = link->next) {
            struct fabric_op *op = (struct fabric_op *) (void *) link;

            if (op->tag != tag || op->peer->identity != identity || op->remote_id != source_id)
                continue;
            fabric_expected_remove(context, op);
            if (kit_unlikely(size > op->size)) {
                fabric_complete_recv(state, op, NA_PLUGIN_MSGSIZE, 0, NULL, 0);
                return;
            }
            if (kit_likely(size != 0))
                memcpy(op->buf.recv, data, size);
            fabric_complete_recv(state, op, NA_PLUGIN_SUCCESS, size, NULL, tag);
            return;
        }
    }
    state->counters.messages_dropped++;
    FABRIC_LOG_DEBUG(peer->endpoint,
                     "dropped an expected message with tag %u from %s: no receive is posted", tag,
                     peer->peer.name);
}

bool fabric_expected_cancel(struct fabric_context *context, const struct fabric_op *op)
{
    struct fabric_expected_table *table = &context->expected;

    for (uint32_t i = 0; table->count != 0 && i <= table->mask; i++) {
        struct kit_link *bucket = &table->buckets[i];

        for (struct kit_link *link = bucket->next; link != bucket; link = link->next) {
            struct fabric_op *found = (struct fabric_op *) (void *) link;

            if (found != op)
                continue;
            fabric_expected_remove(context, found);
            fabric_complete(context->endpoint->state, found, NA_PLUGIN_CANCELED);
            return true;
        }
    }
    return false;
}

void fabric_expected_cancel_all(struct fabric_context *context)
{
    struct fabric_expected_table *table = &context->expected;

    for (uint32_t i = 0; table->count != 0 && i <= table->mask; i++) {
        while (!kit_list_empty(&table->buckets[i])) {
            struct fabric_op *op = fabric_list_first_op(&table->buckets[i]);

            fabric_expected_remove(context, op);
            fabric_complete(context->endpoint->state, op, NA_PLUGIN_CANCELED);
        }
    }
}

/* Ends the receives from a peer that failed, or those that were posted before the epoch. */
void fabric_expected_fail(struct fabric_peer_state *peer, uint32_t before_epoch, bool all,
                          int32_t status)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;

    for (uint32_t id = 0; peer->waiting != 0 && id < state->max_contexts; id++) {
        struct fabric_context *context = &state->contexts[id];
        struct fabric_expected_table *table = &context->expected;

        for (uint32_t i = 0; table->count != 0 && i <= table->mask; i++) {
            struct kit_link *bucket = &table->buckets[i];
            struct kit_link *link, *next;

            for (link = bucket->next; link != bucket; link = next) {
                struct fabric_op *op = (struct fabric_op *) (void *) link;

                next = link->next;
                if (op->peer != peer || (!all && op->epoch >= before_epoch))
                    continue;
                fabric_expected_remove(context, op);
                fabric_complete(state, op, status);
            }
        }
    }
}

/* The peer turned out to be a process that is known under another name: its receives move. */
void fabric_expected_rehash(struct fabric_peer_state *peer, struct fabric_peer_state *identity)
{
    struct fabric_endpoint_state *state = peer->endpoint->state;

    peer->identity = identity;
    for (uint32_t id = 0; id < state->max_contexts; id++) {
        struct fabric_expected_table *table = &state->contexts[id].expected;
        struct kit_link moved;

        kit_list_init(&moved);
        for (uint32_t i = 0; table->count != 0 && i <= table->mask; i++) {
            struct kit_link *bucket = &table->buckets[i];
            struct kit_link *link, *next;

            for (link = bucket->next; link != bucket; link = next) {
                next = link->next;
                if (((struct fabric_op *) (void *) link)->peer != peer)
                    continue;
                kit_list_remove(link);
                kit_list_append(&moved, link);
            }
        }
        while (!kit_list_empty(&moved)) {
            struct fabric_op *op = fabric_list_first_op(&moved);
            uint32_t hash = fabric_expected_hash(identity, op->remote_id, op->tag);

            kit_list_remove(&op->link);
            kit_list_append(&table->buckets[hash & table->mask], &op->link);
        }
    }
}

static uint32_t fabric_expected_hash(const struct fabric_peer_state *identity, uint32_t source_id,
                                     uint32_t tag)
{
    uint64_t hash = (uint64_t) (uintptr_t) identity >> 6;

    hash = (hash ^ tag ^ ((uint64_t) source_id << 32)) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t) (hash >> 32);
}

static void fabric_expected_remove(struct fabric_context *context, struct fabric_op *op)
{
    kit_list_remove(&op->link);
    context->expected.count--;
    fabric_waiting_remove(op->peer);
}

/* Without memory the table stays as it is, only slower. Order in a bucket is kept. */
static void fabric_expected_grow(struct fabric_context *context)
{
    struct fabric_expected_table *table = &context->expected;
    const struct na_host *host = context->endpoint->host;
    uint32_t size = 2 * (table->mask + 1);
    struct kit_link *buckets = host->mem_alloc(size * sizeof(*buckets), 0);

    if (buckets == NULL)
        return;
    for (uint32_t i = 0; i < size; i++)
        kit_list_init(&buckets[i]);
    for (uint32_t i = 0; i <= table->mask; i++) {
        while (!kit_list_empty(&table->buckets[i])) {
            struct fabric_op *op = fabric_list_first_op(&table->buckets[i]);
            uint32_t hash = fabric_expected_hash(op->peer->identity, op->remote_id, op->tag);

            kit_list_remove(&op->link);
            kit_list_append(&buckets[hash & (size - 1)], &op->link);
        }
    }
    host->mem_free(table->buckets);
    table->buckets = buckets;
    table->mask = size - 1;
}
