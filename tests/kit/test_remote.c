/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory between two endpoints of a fabric that exists in memory only. The engine runs the
 * puts and gets of the message layer, and deregistered memory is not accessed any more. */

#include "kit_remote.h"
#include "msg_sim.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY 1000u
#define SIGN   8u /* bytes of a pattern by which memory contents are found in frames */

/* How the fabric of both endpoints treats a piece: it is held for some polls or for ever. */
static struct {
    struct kit_rma_piece *piece;
    bool is_cancelled;
    uint32_t polls; /* counted since it was cancelled */
    uint32_t release_after;
} held;

static enum kit_rma_mover mover;
static const struct kit_msg_ops *sim_ops;

struct fixture {
    struct sim_pair *pair;
    uint8_t local[MEMORY], remote[MEMORY];
    struct na_plugin_mem *at_a, *at_b, *b_at_a; /* a's and b's own handles, and b's as deserialized
                                                 * by a */
};

static struct fixture fixture;

static int32_t no_piece_send(void *owner, struct kit_rma_piece *piece)
{
    (void) owner;
    (void) piece;
    return NA_PLUGIN_AGAIN;
}

static int32_t hold_piece(void *owner, struct kit_rma_piece *piece)
{
    (void) owner;
    if (held.piece != NULL)
        return NA_PLUGIN_AGAIN;
    held.piece = piece;
    return NA_PLUGIN_SUCCESS;
}

static bool cancel_piece(void *owner, struct kit_rma_piece *piece)
{
    (void) owner;
    assert_ptr_equal(piece, held.piece);
    held.is_cancelled = true;
    return false;
}

static void withdraw_piece(void *owner, struct kit_rma_piece *piece)
{
    (void) owner;
    (void) piece;
}

static enum kit_rma_mover choose_mover(void *owner, const struct kit_rma_request *request)
{
    (void) owner;
    (void) request;
    return mover;
}

static const struct kit_rma_ops rma_ops = {
    .control_send = kit_remote_control_send,
    .mover = choose_mover,
    .piece_send = no_piece_send,
    .piece_recv = hold_piece,
    .piece_cancel = cancel_piece,
    .piece_withdraw = withdraw_piece,
    .transfer_done = kit_remote_transfer_done,
    .peer_hold = kit_msg_peer_hold,
    .peer_release = kit_msg_peer_release,
};

/* The clock advances a second with each poll that waits for the piece. */
static int32_t poll_all(struct kit_endpoint *endpoint)
{
    int32_t ret = sim_ops->poll(endpoint);

    if (held.is_cancelled) {
        sim_clock_skip += UINT64_C(1000000000);
        if (++held.polls == held.release_after)
            kit_rma_piece_released(endpoint->rma, held.piece);
    }
    kit_rma_poll(endpoint->rma, 0);
    return ret;
}

static void put_on_engine(struct na_plugin_class *node)
{
    const struct kit_rma_config config = {
        .ops = &rma_ops, .owner = &fixture, .plugin = "sim", .piece_size = 4096};
    static struct kit_msg_ops before;

    before = node->ops;
    sim_ops = &before;
    node->ops.poll = poll_all;
    node->ops.rma_start = kit_remote_start;
    node->ops.rma_abandon = kit_remote_abandon;
    node->ops.control = kit_remote_control;
    assert_int_equal(kit_remote_open(&node->endpoint, &config), NA_PLUGIN_SUCCESS);
    assert_non_null(node->endpoint.rma);
}

static int setup(void **state)
{
    uint8_t packed[KIT_REGION_PACKED];
    struct sim_pair *pair;

    assert_int_equal(sim_pair_setup(state), 0);
    pair = *state;
    memset(&held, 0, sizeof(held));
    memset(&fixture, 0, sizeof(fixture));
    mover = KIT_RMA_INLINE;
    fixture.pair = pair;
    put_on_engine(pair->a);
    put_on_engine(pair->b);
    for (uint32_t i = 0; i < MEMORY; i++) {
        fixture.local[i] = (uint8_t) (i * 7);
        fixture.remote[i] = (uint8_t) (i * 11 + 1);
    }
    assert_int_equal(kit_remote_mem_create(pair->a, fixture.local, MEMORY,
                                           NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE, &fixture.at_a),
                     0);
    assert_int_equal(kit_remote_mem_create(pair->b, fixture.remote, MEMORY,
                                           NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE, &fixture.at_b),
                     0);
    assert_int_equal(kit_remote_mem_register(pair->a, fixture.at_a, NA_PLUGIN_MEM_TYPE_HOST, 0), 0);
    assert_int_equal(kit_remote_mem_register(pair->b, fixture.at_b, NA_PLUGIN_MEM_TYPE_HOST, 0), 0);
    assert_int_equal(kit_remote_mem_serialize_size(pair->b, fixture.at_b), sizeof(packed));
    assert_int_equal(kit_remote_mem_serialize(pair->b, fixture.at_b, packed, sizeof(packed)), 0);
    assert_int_equal(kit_remote_mem_deserialize(pair->a, packed, sizeof(packed), &fixture.b_at_a),
                     0);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct sim_pair *pair = fixture.pair;

    kit_remote_mem_destroy(pair->a, fixture.b_at_a);
    kit_remote_mem_destroy(pair->a, fixture.at_a);
    kit_remote_mem_destroy(pair->b, fixture.at_b);
    pair->a->ops = pair->b->ops = *sim_ops;
    kit_remote_close(&pair->a->endpoint);
    kit_remote_close(&pair->b->endpoint);
    assert_null(pair->a->endpoint.rma);
    *state = pair;
    return sim_pair_teardown(state);
}

static void start(struct sim_op *op, bool is_put, struct na_plugin_mem *remote, uint64_t length)
{
    assert_int_equal((is_put ? kit_msg_put : kit_msg_get)(fixture.pair->ca, op, fixture.at_a, 8,
                                                          remote, 16, length, fixture.pair->b_at_a,
                                                          0),
                     NA_PLUGIN_SUCCESS);
}

static struct kit_rma_counters counters_of(const struct na_plugin_class *node)
{
    struct kit_rma_counters counters;

    kit_rma_counters_get(node->endpoint.rma, &counters);
    return counters;
}

static void test_put_and_get(void **state)
{
    struct sim_pair *pair = fixture.pair;
    struct sim_op put = {0}, get = {0};

    (void) state;
    start(&put, true, fixture.b_at_a, 900);
    sim_poll_until(pair->ca, pair->cb, &put);
    assert_int_equal(put.status, NA_PLUGIN_SUCCESS);
    assert_memory_equal(fixture.remote + 16, fixture.local + 8, 900);
    assert_int_equal(fixture.remote[15], (uint8_t) (15 * 11 + 1));
    assert_int_equal(fixture.remote[916], (uint8_t) (916 * 11 + 1));
    memset(fixture.local, 0, MEMORY);
    start(&get, false, fixture.b_at_a, 900);
    sim_poll_until(pair->ca, pair->cb, &get);
    assert_int_equal(get.status, NA_PLUGIN_SUCCESS);
    assert_memory_equal(fixture.local + 8, fixture.remote + 16, 900);
    assert_int_equal(counters_of(pair->b).records_bad, 0);
}

static uint32_t watched; /* frames that were searched for memory contents */

static bool has_bytes(const struct kit_frame *frame, const uint8_t *bytes)
{
    for (uint64_t i = 0; i + SIGN <= frame->size; i++)
        if (memcmp((const uint8_t *) frame->data + i, bytes, SIGN) == 0)
            return true;
    return false;
}

static int32_t watch_send(struct kit_endpoint *endpoint, struct kit_frame *frame)
{
    for (uint32_t i = 0; i + SIGN <= MEMORY; i += SIGN) {
        assert_false(has_bytes(frame, fixture.local + i));
        assert_false(has_bytes(frame, fixture.remote + i));
    }
    watched++;
    return sim_ops->send(endpoint, frame);
}

static int setup_encrypted(void **state)
{
    int ret;

    (void) setenv("SIM_KEY", "open sesame", 1);
    (void) setenv("SIM_ENCRYPT", "1", 1);
    ret = setup(state);
    (void) unsetenv("SIM_KEY");
    (void) unsetenv("SIM_ENCRYPT");
    return ret;
}

/* Movers that would send the bytes in clear are not used, and refused when a peer requests them. */
static void test_encrypted(void **state)
{
    struct sim_pair *pair = fixture.pair;
    struct sim_op put = {0}, get = {0};

    (void) state;
    mover = KIT_RMA_PIECES;
    pair->a->ops.send = pair->b->ops.send = watch_send;
    start(&put, true, fixture.b_at_a, 900);
    sim_poll_until(pair->ca, pair->cb, &put);
    assert_int_equal(put.status, NA_PLUGIN_SUCCESS);
    assert_memory_equal(fixture.remote + 16, fixture.local + 8, 900);
    for (uint32_t i = 0; i < MEMORY; i++)
        fixture.remote[i] = (uint8_t) (i * 13 + 5);
    start(&get, false, fixture.b_at_a, 900);
    sim_poll_until(pair->ca, pair->cb, &get);
    assert_int_equal(get.status, NA_PLUGIN_SUCCESS);
    assert_memory_equal(fixture.local + 8, fixture.remote + 16, 900);
    assert_true(watched >= 4);
    assert_int_equal(counters_of(pair->a).moved[KIT_RMA_INLINE], 2);
    assert_int_equal(counters_of(pair->b).refused, 0);
}

/* More bytes than may be in flight, in records as large as a frame, in both directions. */
static void test_encrypted_large(void **state)
{
    static uint8_t memory[2][700001];
    struct sim_pair *pair = fixture.pair;
    struct na_plugin_class *sides[] = {pair->a, pair->b};
    struct na_plugin_mem *mem[2], *remote;
    uint8_t packed[KIT_REGION_PACKED];

    (void) state;
    assert_true(kit_msg_control_most(&pair->a->endpoint) > 4 * KIT_CONTROL_MAX);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(kit_remote_mem_create(sides[i], memory[i], sizeof(memory[i]),
                                               NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE, &mem[i]),
                         0);
        assert_int_equal(kit_remote_mem_register(sides[i], mem[i], NA_PLUGIN_MEM_TYPE_HOST, 0), 0);
    }
    assert_int_equal(kit_remote_mem_serialize(pair->b, mem[1], packed, sizeof(packed)), 0);
    assert_int_equal(kit_remote_mem_deserialize(pair->a, packed, sizeof(packed), &remote), 0);
    for (uint32_t is_get = 0; is_get < 2; is_get++) {
        struct sim_op op = {0};

        for (size_t i = 0; i < sizeof(memory[0]); i++)
            memory[is_get][i] = (uint8_t) (i * 7 + i / 251 + is_get);
        assert_int_equal((is_get ? kit_msg_get : kit_msg_put)(pair->ca, &op, mem[0], 1, remote, 1,
                                                              sizeof(memory[0]) - 1, pair->b_at_a,
                                                              0),
                         0);
        sim_poll_until(pair->ca, pair->cb, &op);
        assert_int_equal(op.status, NA_PLUGIN_SUCCESS);
        assert_memory_equal(memory[0] + 1, memory[1] + 1, sizeof(memory[0]) - 1);
    }
    assert_int_equal(counters_of(pair->b).refused, 0);
    kit_remote_mem_destroy(pair->a, remote);
    for (uint32_t i = 0; i < 2; i++)
        kit_remote_mem_destroy(sides[i], mem[i]);
}

/* Starts in pieces, like an origin that ignores the encryption. */
static int32_t start_in_pieces(struct kit_endpoint *endpoint, struct kit_msg_rma *rma)
{
    const struct kit_rma_request request = {
        .peer = rma->peer,
        .local = (struct kit_region *) (void *) rma->local,
        .local_offset = rma->local_offset,
        .remote = (struct kit_region *) (void *) rma->remote,
        .remote_offset = rma->remote_offset,
        .length = rma->length,
        .is_put = rma->is_put,
        .cookie = rma,
    };

    return kit_rma_start(endpoint->rma, &request, &rma->transfer);
}

static void test_encrypted_alone(void **state)
{
    struct sim_pair *pair = fixture.pair;
    struct sim_op op = {0};

    (void) state;
    mover = KIT_RMA_PIECES;
    pair->a->ops.rma_start = start_in_pieces;
    start(&op, true, fixture.b_at_a, 980);
    sim_poll_until(pair->ca, pair->cb, &op);
    assert_int_equal(op.status, NA_PLUGIN_OPNOTSUPPORTED);
    assert_int_equal(counters_of(pair->b).refused, 1);
}

/* The target is the origin itself: the operation completes when it starts. */
static void test_own_memory(void **state)
{
    struct sim_pair *pair = fixture.pair;
    uint8_t packed[KIT_REGION_PACKED];
    struct na_plugin_mem *own;
    struct sim_op op = {0};

    (void) state;
    assert_int_equal(kit_remote_mem_serialize(pair->a, fixture.at_a, packed, sizeof(packed)), 0);
    assert_int_equal(kit_remote_mem_deserialize(pair->a, packed, sizeof(packed), &own), 0);
    assert_int_equal(kit_msg_put(pair->ca, &op, fixture.at_a, 0, own, 500, 100, pair->b_at_a, 0),
                     0);
    sim_poll_until(pair->ca, NULL, &op);
    assert_int_equal(op.status, NA_PLUGIN_SUCCESS);
    assert_memory_equal(fixture.local, fixture.local + 500, 100);
    kit_remote_mem_destroy(pair->a, own);
}

static int32_t start_part(struct kit_endpoint *endpoint, struct kit_msg_rma *rma)
{
    return kit_remote_start_part(endpoint, rma, 100, 50);
}

static void test_part(void **state)
{
    struct sim_pair *pair = fixture.pair;
    struct sim_op op = {0};

    (void) state;
    pair->a->ops.rma_start = start_part;
    start(&op, true, fixture.b_at_a, 900);
    sim_poll_until(pair->ca, pair->cb, &op);
    assert_int_equal(op.status, NA_PLUGIN_SUCCESS);
    assert_memory_equal(fixture.remote + 116, fixture.local + 108, 50);
    assert_int_equal(fixture.remote[115], (uint8_t) (115 * 11 + 1));
    assert_int_equal(fixture.remote[166], (uint8_t) (166 * 11 + 1));
}

static void test_cancel(void **state)
{
    struct sim_pair *pair = fixture.pair;
    struct sim_op op = {0}, later = {0};

    (void) state;
    start(&op, true, fixture.b_at_a, 900);
    assert_int_equal(kit_msg_cancel(pair->ca, &op), NA_PLUGIN_SUCCESS);
    assert_int_equal(op.completions, 1);
    assert_int_equal(op.status, NA_PLUGIN_CANCELED);
    sim_poll(pair->ca, pair->cb, 20);
    assert_int_equal(counters_of(pair->a).transfers, 0);
    assert_int_equal(counters_of(pair->b).targets, 0);
    assert_int_equal(op.completions, 1);
    start(&later, true, fixture.b_at_a, 900);
    sim_poll_until(pair->ca, pair->cb, &later);
    assert_int_equal(later.status, NA_PLUGIN_SUCCESS);
}

static void test_refused(void **state)
{
    struct sim_pair *pair = fixture.pair;
    uint8_t small[KIT_REGION_PACKED - 1];
    struct sim_op op = {0};

    (void) state;
    assert_int_equal(kit_remote_mem_serialize(pair->b, fixture.at_b, small, sizeof(small)),
                     NA_PLUGIN_OVERFLOW);
    assert_int_equal(kit_remote_mem_deregister(pair->b, fixture.at_b), NA_PLUGIN_SUCCESS);
    assert_int_equal(kit_remote_mem_register(pair->b, fixture.at_b, NA_PLUGIN_MEM_TYPE_CUDA, 0),
                     NA_PLUGIN_OPNOTSUPPORTED);
    start(&op, false, fixture.b_at_a, 100);
    sim_poll_until(pair->ca, pair->cb, &op);
    assert_int_equal(op.status, NA_PLUGIN_PERMISSION);
    assert_int_equal(counters_of(pair->b).refused, 1);
}

/* Control records of the engine's type reach the engine, those of another type do not. */
static void test_control(void **state)
{
    struct sim_pair *pair = fixture.pair;
    struct kit_peer *peer = &msg_peer_of(pair->b_at_a)->base;

    (void) state;
    assert_int_equal(kit_msg_control_send(&pair->a->endpoint, peer, 7, "no record", 10), 0);
    sim_poll(pair->ca, pair->cb, 5);
    assert_int_equal(counters_of(pair->b).records_bad, 0);
    assert_int_equal(kit_remote_control_send(&pair->a->endpoint, peer, "no record", 10), 0);
    sim_poll(pair->ca, pair->cb, 5);
    assert_int_equal(counters_of(pair->b).records_bad, 1);
}

static void close_all(struct kit_endpoint *endpoint, struct kit_peer *peer)
{
    kit_rma_peer_failed(endpoint->rma, peer, NA_PLUGIN_HOSTUNREACH);
    sim_ops->peer_close(endpoint, peer);
}

static int setup_keyed(void **state)
{
    int ret;

    (void) setenv("SIM_KEY", "open sesame", 1);
    ret = setup(state);
    (void) unsetenv("SIM_KEY");
    return ret;
}

/* The first sealed message of a restarted peer is a request for memory. The fabric then closes its
 * connection to the predecessor, which must not end that request. */
static void test_restarted_origin(void **state)
{
    struct sim_pair *pair = fixture.pair;
    struct na_plugin_init init = sim_init();
    struct na_plugin_class *old = pair->a;
    struct na_plugin_context *old_context = pair->ca;
    struct na_plugin_addr *old_addr = pair->b_at_a;
    struct na_plugin_mem *old_mem = fixture.at_a, *old_remote = fixture.b_at_a;
    uint8_t packed[KIT_REGION_PACKED];
    struct sim_op put = {0};

    (void) state;
    init.auth_key = "open sesame";
    pair->b->ops.peer_close = close_all;
    sim_kill(old);
    pair->a = sim_open(&pair->net, "a", &init);
    pair->ca = sim_context(pair->a, 0);
    pair->b_at_a = sim_lookup(pair->a, "b");
    put_on_engine(pair->a);
    assert_int_equal(
        kit_remote_mem_create(pair->a, fixture.local, MEMORY, NA_PLUGIN_MEM_READ, &fixture.at_a),
        0);
    assert_int_equal(kit_remote_mem_register(pair->a, fixture.at_a, NA_PLUGIN_MEM_TYPE_HOST, 0), 0);
    assert_int_equal(kit_remote_mem_serialize(pair->b, fixture.at_b, packed, sizeof(packed)), 0);
    assert_int_equal(kit_remote_mem_deserialize(pair->a, packed, sizeof(packed), &fixture.b_at_a),
                     0);
    mover = KIT_RMA_PIECES;
    start(&put, true, fixture.b_at_a, 980);
    for (uint32_t i = 0; i < 100 && held.piece == NULL; i++)
        sim_poll(pair->ca, pair->cb, 1);
    assert_non_null(held.piece);
    sim_poll(pair->ca, pair->cb, 20);
    assert_int_equal(pair->b->closed, 1); /* the connection to the predecessor */
    assert_int_equal(counters_of(pair->b).targets, 1);
    assert_false(held.is_cancelled);

    assert_int_equal(kit_msg_cancel(pair->ca, &put), 0);
    sim_poll_until(pair->ca, pair->cb, &put);
    sim_poll(pair->ca, pair->cb, 20);
    kit_rma_piece_done(pair->b->endpoint.rma, held.piece, NA_PLUGIN_CANCELED, 0);
    held.is_cancelled = false;
    kit_remote_mem_destroy(old, old_remote);
    kit_remote_mem_destroy(old, old_mem);
    old->ops = *sim_ops;
    kit_remote_close(&old->endpoint);
    kit_msg_addr_free(old, old_addr);
    sim_close(old, old_context);
}

/* A handle that was passed on can be used in any session under the same key, as the API promises.
 * Requests under another key are not processed at all. */
static void test_descriptor_handed_on(void **state)
{
    static const char *const keys[] = {"abracadabra", "open sesame"};
    struct sim_pair *pair = fixture.pair;
    uint8_t packed[KIT_REGION_PACKED];

    (void) state;
    assert_int_equal(kit_remote_mem_serialize(pair->b, fixture.at_b, packed, sizeof(packed)), 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct na_plugin_init init = sim_init();
        struct na_plugin_mem *own, *theirs;
        struct na_plugin_context *context;
        struct na_plugin_class *c;
        struct na_plugin_addr *b_at_c;
        struct sim_op put = {0};

        init.auth_key = keys[i];
        c = sim_open(&pair->net, i == 0 ? "c" : "d", &init);
        context = sim_context(c, 0);
        b_at_c = sim_lookup(c, "b");
        put_on_engine(c);
        assert_int_equal(kit_remote_mem_create(c, fixture.local, MEMORY, NA_PLUGIN_MEM_READ, &own),
                         0);
        assert_int_equal(kit_remote_mem_register(c, own, NA_PLUGIN_MEM_TYPE_HOST, 0), 0);
        assert_int_equal(kit_remote_mem_deserialize(c, packed, sizeof(packed), &theirs), 0);
        assert_int_equal(kit_msg_put(context, &put, own, 8, theirs, 16, 900, b_at_c, 0), 0);
        sim_poll_until(context, pair->cb, &put);
        assert_int_equal(put.status, i == 0 ? NA_PLUGIN_PERMISSION : NA_PLUGIN_SUCCESS);
        assert_int_equal(memcmp(fixture.remote + 16, fixture.local + 8, 900) == 0, i == 1);
        assert_int_equal(counters_of(pair->b).refused + counters_of(pair->b).records_bad, 0);
        kit_remote_mem_destroy(c, theirs);
        kit_remote_mem_destroy(c, own);
        c->ops = *sim_ops;
        kit_remote_close(&c->endpoint);
        kit_msg_addr_free(c, b_at_c);
        sim_close(c, context);
    }
}

static int32_t put_with(struct na_plugin_mem *remote)
{
    struct sim_op put = {0};

    start(&put, true, remote, 100);
    sim_poll_until(fixture.pair->ca, fixture.pair->cb, &put);
    return put.status;
}

/* Opens the target again with the same name and memory; only its handles are new. */
static void target_reopen(void)
{
    struct sim_pair *pair = fixture.pair;
    struct na_plugin_init init = sim_init();

    kit_remote_mem_destroy(pair->b, fixture.at_b);
    kit_msg_addr_free(pair->b, pair->a_at_b);
    pair->b->ops = *sim_ops;
    kit_remote_close(&pair->b->endpoint);
    sim_close(pair->b, pair->cb);
    sim_poll(pair->ca, NULL, 5);
    init.auth_key = "open sesame";
    pair->b = sim_open(&pair->net, "b", &init);
    pair->cb = sim_context(pair->b, 0);
    pair->a_at_b = sim_lookup(pair->b, "a");
    put_on_engine(pair->b);
    assert_int_equal(kit_remote_mem_create(pair->b, fixture.remote, MEMORY,
                                           NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE, &fixture.at_b),
                     0);
    assert_int_equal(kit_remote_mem_register(pair->b, fixture.at_b, NA_PLUGIN_MEM_TYPE_HOST, 0), 0);
}

/* The owner has closed and opened its class. The key and the address are the same, but the old
 * handle is refused. */
static void test_descriptor_of_closed_class(void **state)
{
    struct sim_pair *pair = fixture.pair;
    uint8_t packed[KIT_REGION_PACKED], before[MEMORY];
    struct na_plugin_mem *again;

    (void) state;
    assert_int_equal(put_with(fixture.b_at_a), NA_PLUGIN_SUCCESS);
    target_reopen();
    memset(fixture.remote, 0x5a, MEMORY);
    memcpy(before, fixture.remote, MEMORY);
    assert_int_equal(put_with(fixture.b_at_a), NA_PLUGIN_PERMISSION);
    assert_memory_equal(fixture.remote, before, MEMORY);
    assert_int_equal(counters_of(pair->b).refused, 1);
    assert_int_equal(kit_remote_mem_serialize(pair->b, fixture.at_b, packed, sizeof(packed)), 0);
    assert_int_equal(kit_remote_mem_deserialize(pair->a, packed, sizeof(packed), &again), 0);
    assert_int_equal(put_with(again), NA_PLUGIN_SUCCESS);
    assert_memory_equal(fixture.remote + 16, fixture.local + 8, 100);
    kit_remote_mem_destroy(pair->a, again);
}

static void sessions_end(void)
{
    struct sim_pair *pair = fixture.pair;

    kit_msg_lock(&pair->a->endpoint);
    kit_peer_failed(&msg_peer_of(pair->b_at_a)->base, NA_PLUGIN_HOSTUNREACH, "the test says so");
    kit_msg_unlock(&pair->a->endpoint);
    sim_poll(pair->ca, pair->cb, 10);
}

/* A recorded request for memory is replayed, in the same session and in a later one. */
static void test_request_replayed(void **state)
{
    struct sim_pair *pair = fixture.pair;
    struct msg_endpoint *inside = pair->b->endpoint.state;
    struct sim_op put = {0};
    uint8_t data[SIM_FRAME_MAX], before[MEMORY];
    uint64_t size, refused, targets;

    (void) state;
    assert_int_equal(put_with(fixture.b_at_a), NA_PLUGIN_SUCCESS);
    start(&put, true, fixture.b_at_a, 100);
    assert_non_null(pair->b->inbox_first);
    assert_ptr_equal(pair->b->inbox_first, pair->b->inbox_last);
    size = pair->b->inbox_first->size;
    memcpy(data, pair->b->inbox_first->data, size);
    sim_poll_until(pair->ca, pair->cb, &put);
    assert_int_equal(put.status, NA_PLUGIN_SUCCESS);
    memset(fixture.remote, 0x5a, MEMORY);
    memcpy(before, fixture.remote, MEMORY);
    targets = counters_of(pair->b).targets;
    for (uint32_t i = 0; i < 2; i++) {
        refused = inside->session.refused + inside->session.bad + inside->counters.frames_stale;
        sim_inject(pair->b, data, size);
        sim_poll(pair->ca, pair->cb, 10);
        assert_int_equal(inside->session.refused + inside->session.bad +
                             inside->counters.frames_stale,
                         refused + 1);
        assert_memory_equal(fixture.remote, before, MEMORY);
        assert_int_equal(counters_of(pair->b).targets, targets);
        if (i != 0)
            continue;
        sessions_end();
        assert_int_equal(put_with(fixture.b_at_a), NA_PLUGIN_SUCCESS);
        memcpy(fixture.remote, before, MEMORY);
        targets = counters_of(pair->b).targets;
    }
}

/* The fabric holds a piece of the target's memory, so that deregistering has to poll for it. */
static void hold_target(struct sim_op *op)
{
    mover = KIT_RMA_PIECES;
    start(op, true, fixture.b_at_a, 900);
    for (uint32_t i = 0; i < 100 && held.piece == NULL; i++)
        sim_poll(fixture.pair->ca, fixture.pair->cb, 1);
    assert_non_null(held.piece);
}

static void test_deregister_waits(void **state)
{
    struct sim_pair *pair = fixture.pair;
    struct sim_op op = {0};

    (void) state;
    hold_target(&op);
    held.release_after = 3;
    assert_int_equal(kit_remote_mem_deregister(pair->b, fixture.at_b), NA_PLUGIN_SUCCESS);
    assert_int_equal(held.polls, 3);
    kit_rma_piece_done(pair->b->endpoint.rma, held.piece, NA_PLUGIN_CANCELED, 0);
    held.is_cancelled = false;
    sim_poll_until(pair->ca, pair->cb, &op);
    assert_int_not_equal(op.status, NA_PLUGIN_SUCCESS);
}

static void test_deregister_ends(void **state)
{
    struct sim_pair *pair = fixture.pair;
    struct sim_op op = {0};

    (void) state;
    hold_target(&op);
    assert_int_equal(kit_remote_mem_deregister(pair->b, fixture.at_b), NA_PLUGIN_SUCCESS);
    assert_in_range(held.polls, 4, 6);
    /* the peer was abandoned */
    assert_int_equal(msg_peer_of(pair->a_at_b)->base.phase, KIT_PEER_NEW);
    kit_rma_piece_done(pair->b->endpoint.rma, held.piece, NA_PLUGIN_CANCELED, 0);
    held.is_cancelled = false;
    sim_poll_until(pair->ca, pair->cb, &op);
    assert_int_not_equal(op.status, NA_PLUGIN_SUCCESS);
}

/* While deregistering waits, frames that the fabric had no room for are sent again: the wait may be
 * for a response to one of them. */
static void test_deregister_sends(void **state)
{
    struct sim_pair *pair = fixture.pair;
    struct msg_endpoint *b = pair->b->endpoint.state;
    struct sim_op op = {0};

    (void) state;
    hold_target(&op);
    pair->b->again = 1;
    kit_msg_lock(&pair->b->endpoint);
    assert_int_equal(
        kit_msg_control_send(&pair->b->endpoint, &msg_peer_of(pair->a_at_b)->base, 7, "later", 5),
        NA_PLUGIN_SUCCESS);
    kit_msg_unlock(&pair->b->endpoint);
    assert_int_equal(pair->b->again, 0);
    assert_false(kit_list_empty(&b->retry));
    held.release_after = 3;
    assert_int_equal(kit_remote_mem_deregister(pair->b, fixture.at_b), NA_PLUGIN_SUCCESS);
    assert_true(kit_list_empty(&b->retry));
    kit_rma_piece_done(pair->b->endpoint.rma, held.piece, NA_PLUGIN_CANCELED, 0);
    held.is_cancelled = false;
    sim_poll_until(pair->ca, pair->cb, &op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_put_and_get, setup, teardown),
        cmocka_unit_test_setup_teardown(test_encrypted, setup_encrypted, teardown),
        cmocka_unit_test_setup_teardown(test_encrypted_large, setup_encrypted, teardown),
        cmocka_unit_test_setup_teardown(test_encrypted_alone, setup_encrypted, teardown),
        cmocka_unit_test_setup_teardown(test_own_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_part, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancel, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_control, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restarted_origin, setup_keyed, teardown),
        cmocka_unit_test_setup_teardown(test_descriptor_handed_on, setup_keyed, teardown),
        cmocka_unit_test_setup_teardown(test_descriptor_of_closed_class, setup_keyed, teardown),
        cmocka_unit_test_setup_teardown(test_request_replayed, setup_keyed, teardown),
        cmocka_unit_test_setup_teardown(test_deregister_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deregister_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deregister_sends, setup, teardown),
    };

    return cmocka_run_group_tests_name("kit remote", tests, NULL, NULL);
}
