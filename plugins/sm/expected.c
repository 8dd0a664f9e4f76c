/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Expected messages: receives in a hash table by source, its context and the tag; equal ones in the
 * order of their posting. match_lock guards the table.
 */

#include "sm.h"

#define SM_EXPECTED_BUCKETS 256u

static uint32_t sm_expected_hash(const struct na_plugin_addr *peer, uint32_t source_id,
                                 uint32_t tag);
static void sm_expected_remove(struct na_plugin_context *context, struct sm_op *op);
static void sm_expected_grow(struct sm_expected_table *table);
static void sm_expected_count(struct na_plugin_context *context);

int32_t sm_expected_setup(struct sm_expected_table *table)
{
    table->buckets = kit_host->mem_alloc(SM_EXPECTED_BUCKETS * sizeof(*table->buckets), 0);
    if (table->buckets == NULL)
        return NA_PLUGIN_NOMEM;
    table->mask = SM_EXPECTED_BUCKETS - 1;
    for (uint32_t i = 0; i <= table->mask; i++)
        kit_list_init(&table->buckets[i]);
    return NA_PLUGIN_SUCCESS;
}

int32_t sm_recv_expected(struct na_plugin_context *context, void *op_p, void *buf, uint64_t size,
                         void *data, struct na_plugin_addr *source, uint32_t source_id,
                         uint32_t tag)
{
    struct sm_expected_table *table = &context->expected;
    struct sm_op *op = op_p;
    int32_t ret;

    (void) data;
    source = sm_peer_current(source);
    op->context = context;
    op->peer = source;
    op->kind = SM_OP_RECV_EXPECTED;
    op->tag = tag;
    op->remote_id = source_id;
    op->gone = false;
    op->recv_buf = buf;
    op->size = size;
    sm_lock_take(&context->match_lock);
    ret = sm_peer_failure(source);
    if (kit_unlikely(!atomic_load_explicit(&context->active, memory_order_relaxed)))
        ret = NA_PLUGIN_FAULT;
    if (kit_likely(ret == NA_PLUGIN_SUCCESS)) {
        if (kit_unlikely(table->count > table->mask))
            sm_expected_grow(table);
        kit_list_append(&table->buckets[sm_expected_hash(source, source_id, tag) & table->mask],
                        &op->link);
        table->count++;
        sm_expected_count(context);
    }
    sm_lock_drop(&context->match_lock);
    sm_context_watch(context);
    return ret;
}

/* A message from a ring. poll_lock is held. */
enum sm_verdict sm_receive_expected(struct na_plugin_context *context, struct sm_in_ring *ring,
                                    const struct sm_message *message)
{
    struct sm_expected_table *table = &context->expected;
    struct sm_op *op = NULL;

    if (kit_unlikely(message->size > context->na_class->max_message))
        return SM_BAD;
    sm_lock_take(&context->match_lock);
    if (kit_likely(table->count != 0)) {
        uint32_t hash = sm_expected_hash(ring->peer, message->source_id, message->tag);
        struct kit_link *bucket = &table->buckets[hash & table->mask];

        for (struct kit_link *link = bucket->next; link != bucket; link = link->next) {
            struct sm_op *candidate = (struct sm_op *) link;

            if (candidate->tag != message->tag || candidate->peer != ring->peer ||
                candidate->remote_id != message->source_id)
                continue;
            op = candidate;
            sm_expected_remove(context, op);
            break;
        }
    }
    if (op == NULL)
        context->dropped++;
    sm_lock_drop(&context->match_lock);

    if (kit_unlikely(op == NULL)) {
        SM_LOG_DEBUG("dropped an expected message with tag %u from %s: no receive is posted",
                     message->tag, ring->peer->name);
        return SM_TAKEN;
    }
    if (kit_unlikely(message->size > op->size)) {
        kit_host->op_complete_recv(op, NA_PLUGIN_MSGSIZE, 0, NULL, 0);
        return SM_TAKEN_COMPLETED;
    }
    sm_message_copy(op->recv_buf, message, 0, message->size);
    kit_host->op_complete_recv(op, NA_PLUGIN_SUCCESS, message->size, NULL, message->tag);
    return SM_TAKEN_COMPLETED;
}

/* Takes the operation out if it is there. match_lock is held. */
bool sm_expected_take(struct na_plugin_context *context, struct sm_op *op)
{
    struct sm_expected_table *table = &context->expected;

    for (uint32_t i = 0; table->count != 0 && i <= table->mask; i++) {
        if (kit_list_contains(&table->buckets[i], op)) {
            sm_expected_remove(context, op);
            return true;
        }
    }
    return false;
}

/* match_lock is held. */
void sm_expected_cancel_all(struct na_plugin_context *context)
{
    struct sm_expected_table *table = &context->expected;

    for (uint32_t i = 0; table->count != 0 && i <= table->mask; i++) {
        while (!kit_list_empty(&table->buckets[i])) {
            struct sm_op *op = (struct sm_op *) table->buckets[i].next;

            sm_expected_remove(context, op);
            kit_host->op_complete(op, NA_PLUGIN_CANCELED);
        }
    }
}

/* Ends the receives whose peer failed or destroyed the context. Returns how many. */
uint32_t sm_expected_fail_peers(struct na_plugin_context *context)
{
    struct sm_expected_table *table = &context->expected;
    uint32_t completed = 0;

    sm_lock_take(&context->match_lock);
    for (uint32_t i = 0; table->count != 0 && i <= table->mask; i++) {
        struct kit_link *next;

        for (struct kit_link *link = table->buckets[i].next; link != &table->buckets[i];
             link = next) {
            struct sm_op *op = (struct sm_op *) link;
            int32_t failure = sm_peer_failure(op->peer);

            next = link->next;
            if (failure == 0 && op->gone)
                failure = NA_PLUGIN_HOSTUNREACH;
            if (failure == 0)
                continue;
            sm_expected_remove(context, op);
            kit_host->op_complete(op, failure);
            completed++;
        }
    }
    sm_lock_drop(&context->match_lock);
    return completed;
}

static uint32_t sm_expected_hash(const struct na_plugin_addr *peer, uint32_t source_id,
                                 uint32_t tag)
{
    uint64_t hash = (uint64_t) (uintptr_t) peer >> 6;

    hash = (hash ^ tag ^ ((uint64_t) source_id << 32)) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t) (hash >> 32);
}

static void sm_expected_remove(struct na_plugin_context *context, struct sm_op *op)
{
    kit_list_remove(&op->link);
    context->expected.count--;
    sm_expected_count(context);
}

/* Without memory the table stays as it is, only slower. Order in a bucket is kept. */
static void sm_expected_grow(struct sm_expected_table *table)
{
    uint32_t size = 2 * (table->mask + 1);
    struct kit_link *buckets = kit_host->mem_alloc(size * sizeof(*buckets), 0);

    if (buckets == NULL)
        return;
    for (uint32_t i = 0; i < size; i++)
        kit_list_init(&buckets[i]);
    for (uint32_t i = 0; i <= table->mask; i++) {
        while (!kit_list_empty(&table->buckets[i])) {
            struct sm_op *op = (struct sm_op *) table->buckets[i].next;
            uint32_t hash = sm_expected_hash(op->peer, op->remote_id, op->tag);

            kit_list_remove(&op->link);
            kit_list_append(&buckets[hash & (size - 1)], &op->link);
        }
    }
    kit_host->mem_free(table->buckets);
    table->buckets = buckets;
    table->mask = size - 1;
}

/* For those who decide without the lock whether anything is awaited. */
static void sm_expected_count(struct na_plugin_context *context)
{
    atomic_store_explicit(&context->expected_count, context->expected.count, memory_order_relaxed);
}
