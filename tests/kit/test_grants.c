/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that is accessible only in the sessions to which it was granted (mem_per_session): an
 * owner, and users with the same key, over a fabric that exists in memory only. */

#include "kit_remote.h"
#include "msg_sim.h"
#include "na_plugin_mem_grant.h"
#include "rma_state.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY 1000u
#define LARGE  4000000u
#define FILL   0x5a

/* An endpoint that uses the owner's memory, or the owner itself. */
struct side {
    struct na_plugin_class *node;
    struct na_plugin_context *context;
    struct na_plugin_addr *owner; /* the owner, as this endpoint addresses it */
    uint8_t memory[MEMORY];
    struct na_plugin_mem *mem;    /* registered by this endpoint */
    struct na_plugin_mem *remote; /* deserialized from the owner's handle */
};

static struct {
    struct sim_net net;
    struct side owner, a, b;
    const struct na_plugin_mem_grant *table;
} fixture;

static enum kit_rma_mover choose_mover(void *owner, const struct kit_rma_request *request)
{
    (void) owner;
    (void) request;
    return KIT_RMA_INLINE;
}

static const struct kit_rma_ops rma_ops = {
    .control_send = kit_remote_control_send,
    .mover = choose_mover,
    .transfer_done = kit_remote_transfer_done,
    .peer_hold = kit_msg_peer_hold,
    .peer_release = kit_msg_peer_release,
};

static const struct kit_msg_ops *sim_ops;

static int32_t poll_all(struct kit_endpoint *endpoint)
{
    int32_t ret = sim_ops->poll(endpoint);

    kit_rma_poll(endpoint->rma, 0);
    return ret;
}

static void side_open(struct side *side, const char *name, bool has_grants, bool encrypts)
{
    const struct kit_rma_config config = {.ops = &rma_ops, .plugin = "sim", .piece_size = 4096};
    struct na_plugin_init init = sim_init();
    static struct kit_msg_ops before;

    memset(side->memory, FILL, MEMORY);
    init.mem_per_session = has_grants;
    init.encrypt = encrypts;
    side->node = sim_open(&fixture.net, name, &init);
    side->context = sim_context(side->node, 0);
    before = side->node->ops;
    sim_ops = &before;
    side->node->ops.poll = poll_all;
    side->node->ops.rma_start = kit_remote_start;
    side->node->ops.rma_abandon = kit_remote_abandon;
    side->node->ops.control = kit_remote_control;
    assert_int_equal(kit_remote_open(&side->node->endpoint, &config), NA_PLUGIN_SUCCESS);
    assert_int_equal(kit_remote_mem_create(side->node, side->memory, MEMORY,
                                           NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE, &side->mem),
                     NA_PLUGIN_SUCCESS);
    assert_int_equal(kit_remote_mem_register(side->node, side->mem, NA_PLUGIN_MEM_TYPE_HOST, 0), 0);
}

static void side_close(struct side *side)
{
    if (side->remote != NULL)
        kit_remote_mem_destroy(side->node, side->remote);
    kit_remote_mem_destroy(side->node, side->mem);
    if (side->owner != NULL)
        kit_msg_addr_free(side->node, side->owner);
    side->remote = NULL;
    side->owner = NULL;
    side->node->ops = *sim_ops;
    kit_remote_close(&side->node->endpoint);
    sim_close(side->node, side->context);
}

/* Gives the endpoint the serialized handle of the owner's memory, granted or not. */
static void side_tell(struct side *side)
{
    uint8_t packed[KIT_REGION_PACKED];

    if (side->remote != NULL)
        kit_remote_mem_destroy(side->node, side->remote);
    assert_int_equal(
        kit_remote_mem_serialize(fixture.owner.node, fixture.owner.mem, packed, sizeof(packed)),
        NA_PLUGIN_SUCCESS);
    assert_int_equal(kit_remote_mem_deserialize(side->node, packed, sizeof(packed), &side->remote),
                     0);
}

static void user_open(struct side *side, const char *name)
{
    side_open(side, name, false, false);
    side->owner = sim_lookup(side->node, "owner");
    side_tell(side);
}

static void setup_owner(bool encrypts)
{
    memset(&fixture, 0, sizeof(fixture));
    sim_net_setup(&fixture.net);
    side_open(&fixture.owner, "owner", true, encrypts);
    fixture.owner.owner = sim_lookup(fixture.owner.node, "owner");
    fixture.table = kit_remote_get_extension(NA_PLUGIN_EXT_MEM_GRANT);
    assert_non_null(fixture.table);
}

static int setup(void **state)
{
    (void) state;
    setup_owner(false);
    user_open(&fixture.a, "a");
    user_open(&fixture.b, "b");
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    side_close(&fixture.a);
    side_close(&fixture.b);
    side_close(&fixture.owner);
    assert_int_equal(sim_allocations, 0);
    return 0;
}

static void grant(const char *name)
{
    struct na_plugin_addr *addr = sim_lookup(fixture.owner.node, name);

    assert_int_equal(fixture.table->mem_grant(fixture.owner.node, fixture.owner.mem, addr), 0);
    kit_msg_addr_free(fixture.owner.node, addr);
}

static uint64_t refused(void)
{
    return fixture.owner.node->endpoint.state->session.refused_memory;
}

static void poll_both(struct side *side, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        sim_poll(side->context, fixture.owner.context, 1);
}

/* Runs a put or a get. A refused one leaves all memory unchanged. */
static int32_t use(struct side *side, bool is_put)
{
    struct sim_op op = {0};
    uint8_t before[MEMORY];
    static uint8_t seed;

    memset(side->memory, ++seed, MEMORY);
    memcpy(before, is_put ? fixture.owner.memory : side->memory, MEMORY);
    assert_int_equal((is_put ? kit_msg_put : kit_msg_get)(side->context, &op, side->mem, 0,
                                                          side->remote, 0, MEMORY, side->owner, 0),
                     NA_PLUGIN_SUCCESS);
    sim_poll_until(side->context, fixture.owner.context, &op);
    if (op.status == NA_PLUGIN_SUCCESS)
        assert_memory_equal(side->memory, fixture.owner.memory, MEMORY);
    else
        assert_memory_equal(before, is_put ? fixture.owner.memory : side->memory, MEMORY);
    return op.status;
}

/* Requires that both a put and a get are allowed, or that both are refused and counted. */
static void check(struct side *side, bool is_allowed)
{
    const int32_t status = is_allowed ? NA_PLUGIN_SUCCESS : NA_PLUGIN_PERMISSION;
    const uint64_t before = refused();

    assert_int_equal(use(side, true), status);
    assert_int_equal(use(side, false), status);
    assert_int_equal(refused(), before + (is_allowed ? 0 : 2));
}

static void session_fail(struct side *side, const char *name)
{
    struct kit_session *session = &side->node->endpoint.state->session;

    kit_msg_lock(&side->node->endpoint);
    kit_peer_failed(kit_peer_by_name(session, name), NA_PLUGIN_HOSTUNREACH, "the test says so");
    kit_msg_unlock(&side->node->endpoint);
    poll_both(&fixture.a, 10);
    /* the user detects the end of the session by the error of its next request */
    (void) use(&fixture.a, true);
}

static void test_granted_alone(void **state)
{
    (void) state;
    check(&fixture.a, false);
    grant("a");
    check(&fixture.a, true);
    check(&fixture.b, false);
    check(&fixture.a, true);
    grant("b");
    check(&fixture.b, true);
    check(&fixture.a, true);
}

/* A grant to a peer without a session applies to the session that is established next. */
static void test_before_session(void **state)
{
    (void) state;
    grant("a");
    assert_int_equal(kit_peer_by_name(&fixture.owner.node->endpoint.state->session, "a")->phase,
                     KIT_PEER_NEW);
    check(&fixture.a, true);
    check(&fixture.b, false);
}

/* The grant ends with the session, whichever side detects the end first. */
static void test_ends_with_session(void **state)
{
    struct side *sides[] = {&fixture.owner, &fixture.a};

    (void) state;
    for (uint32_t i = 0; i < 2; i++) {
        grant("a");
        grant("b");
        check(&fixture.a, true);
        check(&fixture.b, true);
        session_fail(sides[i], i == 0 ? "a" : "owner");
        check(&fixture.a, false);
        check(&fixture.b, true);
        grant("a");
        check(&fixture.a, true);
    }
}

/* The owner looks up a name again that belongs to another process by now, and grants its memory to
 * that. */
static void test_behind_lookup(void **state)
{
    struct na_plugin_addr *addr;
    struct side successor = {0};
    struct sim_op request = {0};

    (void) state;
    grant("a");
    check(&fixture.a, true);
    sim_kill(fixture.a.node);
    user_open(&successor, "a");
    addr = sim_lookup(fixture.owner.node, "a");
    assert_int_equal(fixture.table->mem_grant(fixture.owner.node, fixture.owner.mem, addr), 0);
    assert_int_equal(
        kit_msg_send_unexpected(fixture.owner.context, &request, "q", 2, NULL, addr, 0, 1), 0);
    sim_poll_until(fixture.owner.context, successor.context, &request);
    assert_int_equal(request.status, NA_PLUGIN_SUCCESS);
    check(&successor, true);
    kit_msg_addr_free(fixture.owner.node, addr);
    side_close(&successor);
}

static void test_restarted_user(void **state)
{
    struct side successor = {0};

    (void) state;
    grant("a");
    check(&fixture.a, true);
    sim_kill(fixture.a.node);
    user_open(&successor, "a");
    check(&successor, false);
    grant("a");
    check(&successor, true);
    side_close(&successor);
}

/* Sends the next bytes of a put, which another process may have begun. */
static void go_on(struct side *side, uint64_t id, uint64_t number, uint32_t size)
{
    const struct rma_record record = {
        .magic = htole32(RMA_MAGIC),
        .version = RMA_VERSION,
        .kind = RMA_DATA,
        .flags = (uint32_t) KIT_RMA_INLINE << RMA_MOVER_SHIFT | RMA_FROM_ORIGIN | RMA_IS_PUT,
        .transfer = htole64(id),
        .number = htole64(number),
    };
    struct kit_endpoint *endpoint = &side->node->endpoint;
    uint8_t data[KIT_CONTROL_MAX] = {0};

    memcpy(data, &record, sizeof(record));
    kit_msg_lock(endpoint);
    assert_int_equal(kit_msg_control_send(endpoint,
                                          kit_peer_by_name(&endpoint->state->session, "owner"),
                                          KIT_REMOTE_CONTROL, data, sizeof(record) + size),
                     NA_PLUGIN_SUCCESS);
    kit_msg_unlock(endpoint);
    poll_both(side, 20);
}

/* The target of a put keeps it when the origin dies. A successor with the key answers the owner's
 * HELLO under the same name, and continues the put by its id: the bytes are refused. */
static void test_transfer_ends_with_session(void **state)
{
    static uint8_t memories[2][LARGE];
    struct na_plugin_class *nodes[] = {fixture.owner.node, fixture.a.node};
    struct kit_link *targets = &fixture.owner.node->endpoint.rma->targets;
    struct na_plugin_addr *addr = sim_lookup(fixture.owner.node, "a");
    const struct kit_rma_transfer *transfer;
    struct na_plugin_mem *mems[2], *remote;
    uint8_t packed[KIT_REGION_PACKED];
    struct side successor = {0};
    static struct sim_op put; /* static, for it ends only with the class */
    struct sim_op request = {0};

    (void) state;
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(kit_remote_mem_create(nodes[i], memories[i], LARGE,
                                               NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE, &mems[i]),
                         0);
        assert_int_equal(kit_remote_mem_register(nodes[i], mems[i], NA_PLUGIN_MEM_TYPE_HOST, 0), 0);
    }
    assert_int_equal(kit_remote_mem_serialize(nodes[0], mems[0], packed, sizeof(packed)), 0);
    assert_int_equal(kit_remote_mem_deserialize(nodes[1], packed, sizeof(packed), &remote), 0);
    assert_int_equal(fixture.table->mem_grant(nodes[0], mems[0], addr), 0);
    assert_int_equal(
        kit_msg_put(fixture.a.context, &put, mems[1], 0, remote, 0, LARGE, fixture.a.owner, 0),
        NA_PLUGIN_SUCCESS);
    poll_both(&fixture.a, 12);
    assert_false(kit_list_empty(targets));
    transfer = kit_container(targets->next, struct kit_rma_transfer, node);
    kit_remote_mem_destroy(nodes[1], remote);
    sim_kill(fixture.a.node);
    kit_msg_addr_free(fixture.owner.node, addr);
    user_open(&successor, "a");
    addr = sim_lookup(fixture.owner.node, "a");
    assert_int_equal(
        kit_msg_send_unexpected(fixture.owner.context, &request, "q", 2, NULL, addr, 0, 1), 0);
    sim_poll_until(fixture.owner.context, successor.context, &request);
    poll_both(&successor, 20);
    assert_false(kit_list_empty(targets));
    memset(memories[0], FILL, LARGE);
    go_on(&successor, transfer->id, transfer->done, transfer->piece_size);
    for (uint32_t i = 0; i < LARGE; i++)
        assert_int_equal(memories[0][i], FILL);
    assert_int_equal(refused(), 1);
    kit_remote_mem_destroy(nodes[0], mems[0]);
    kit_msg_addr_free(fixture.owner.node, addr);
    side_close(&successor);
}

/* A process with the key may claim the incarnation of another one, and becomes its alias; but its
 * session is another one, and has no grant. */
static void test_claimed_process(void **state)
{
    struct kit_session *session = &fixture.owner.node->endpoint.state->session;
    struct na_plugin_addr *addr = sim_lookup(fixture.owner.node, "b");
    struct sim_op request = {0};

    (void) state;
    grant("a");
    check(&fixture.a, true);
    fixture.b.node->endpoint.state->session.incarnation =
        fixture.a.node->endpoint.state->session.incarnation;
    assert_int_equal(
        kit_msg_send_unexpected(fixture.owner.context, &request, "q", 2, NULL, addr, 0, 1), 0);
    sim_poll_until(fixture.owner.context, fixture.b.context, &request);
    assert_ptr_equal(kit_peer_by_name(session, "b")->canonical, kit_peer_by_name(session, "a"));
    check(&fixture.b, false);
    check(&fixture.a, true);
    kit_msg_addr_free(fixture.owner.node, addr);
}

/* A process that connects under two names has two sessions. The first one continues beside the
 * second, and cannot use memory that was granted in the second. */
static void test_old_seal(void **state)
{
    struct kit_session *session = &fixture.owner.node->endpoint.state->session;
    struct na_plugin_addr *alias = sim_lookup(fixture.a.node, "alias-of-owner");
    struct na_plugin_addr *first = fixture.a.owner;
    struct sim_op put = {0};

    (void) state;
    grant("a");
    check(&fixture.a, true);
    fixture.a.owner = alias;
    check(&fixture.a, false);
    assert_true(kit_peer_by_name(session, "a")->auth->has_old);
    grant("a");
    check(&fixture.a, true);
    memset(fixture.owner.memory, FILL, MEMORY);
    assert_int_equal(kit_msg_put(fixture.a.context, &put, fixture.a.mem, 0, fixture.a.remote, 0,
                                 MEMORY, first, 0),
                     NA_PLUGIN_SUCCESS);
    poll_both(&fixture.a, 50);
    assert_int_equal(refused(), 3);
    assert_int_equal(fixture.owner.memory[0], FILL);
    assert_int_equal(kit_msg_cancel(fixture.a.context, &put), 0);
    sim_poll_until(fixture.a.context, fixture.owner.context, &put);
    check(&fixture.a, true);
    fixture.a.owner = first;
    kit_msg_addr_free(fixture.a.node, alias);
}

/* A put request is deferred behind messages without a receive. It is refused because its session
 * has ended when it is processed. */
static void test_deferred(void **state)
{
    enum {
        COUNT = KIT_DEFERRED_MIN + 1
    };
    struct msg_endpoint *owner = fixture.owner.node->endpoint.state;
    static struct sim_op sends[COUNT], receives[COUNT];
    struct sim_op stale = {0}, next = {0};
    struct sim_op put = {0};
    struct kit_peer *peer;
    char buf[COUNT][8];

    (void) state;
    grant("a");
    check(&fixture.a, true);
    peer = kit_peer_by_name(&owner->session, "a");
    owner->deferrals.bytes_max = 0;
    memset(fixture.owner.memory, FILL, MEMORY);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(kit_msg_send_unexpected(fixture.a.context, &sends[i], "q", 2, NULL,
                                                 fixture.a.owner, 0, 1),
                         0);
    assert_int_equal(kit_msg_put(fixture.a.context, &put, fixture.a.mem, 0, fixture.a.remote, 0,
                                 100, fixture.a.owner, 0),
                     NA_PLUGIN_SUCCESS);
    poll_both(&fixture.a, 5);
    assert_true(owner->deferred_count >= 1);
    kit_msg_lock(&fixture.owner.node->endpoint);
    kit_peer_failed(peer, NA_PLUGIN_HOSTUNREACH, "the test says so");
    kit_msg_unlock(&fixture.owner.node->endpoint);
    /* The session was reset, but unexpected messages are still deferred, as they found no room
     * before. */
    assert_int_equal(
        kit_msg_send_expected(fixture.a.context, &stale, "s", 2, NULL, fixture.a.owner, 0, 1), 0);
    sim_poll_until(fixture.a.context, fixture.owner.context, &put);
    assert_int_equal(put.status, NA_PLUGIN_HOSTUNREACH);
    poll_both(&fixture.a, 20);
    assert_int_equal(peer->phase, KIT_PEER_READY);
    grant("a");
    assert_int_equal(
        kit_msg_send_unexpected(fixture.a.context, &next, "n", 2, NULL, fixture.a.owner, 0, 1), 0);
    poll_both(&fixture.a, 20);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(
            kit_msg_recv_unexpected(fixture.owner.context, &receives[i], buf[i], 8, NULL), 0);
        sim_poll_until(fixture.a.context, fixture.owner.context, &receives[i]);
        kit_msg_addr_free(fixture.owner.node, receives[i].source);
    }
    poll_both(&fixture.a, 20);
    assert_int_equal(owner->deferred_count, 0);
    assert_int_equal(refused(), 1);
    assert_int_equal(fixture.owner.memory[0], FILL);
    check(&fixture.a, true);
}

static void test_deregistered(void **state)
{
    (void) state;
    grant("a");
    check(&fixture.a, true);
    assert_int_equal(kit_remote_mem_deregister(fixture.owner.node, fixture.owner.mem), 0);
    assert_int_equal(
        fixture.table->mem_grant(fixture.owner.node, fixture.owner.mem, fixture.owner.owner),
        NA_PLUGIN_SUCCESS); /* the owner needs no grant for its own memory */
    assert_int_equal(
        kit_remote_mem_register(fixture.owner.node, fixture.owner.mem, NA_PLUGIN_MEM_TYPE_HOST, 0),
        0);
    side_tell(&fixture.a);
    check(&fixture.a, false);
    grant("a");
    check(&fixture.a, true);
}

/* A wrong key is refused as before, also for granted memory. */
static void test_rights_stay(void **state)
{
    struct kit_region *remote = (struct kit_region *) (void *) fixture.a.remote;

    (void) state;
    grant("a");
    remote->key.word[0] ^= 1;
    assert_int_equal(use(&fixture.a, true), NA_PLUGIN_PERMISSION);
    assert_int_equal(refused(), 0);
}

/* An owner can use its own handle without a grant, also with encryption. */
static void test_own_memory(void **state)
{
    (void) state;
    for (int encrypts = 0; encrypts < 2; encrypts++) {
        struct side *owner = &fixture.owner;
        uint8_t packed[KIT_REGION_PACKED], copy[MEMORY];
        struct na_plugin_mem *mem, *own;
        struct sim_op op = {0};

        setup_owner(encrypts != 0);
        assert_int_equal(kit_remote_mem_serialize(owner->node, owner->mem, packed, sizeof(packed)),
                         0);
        assert_int_equal(kit_remote_mem_deserialize(owner->node, packed, sizeof(packed), &own), 0);
        assert_int_equal(kit_remote_mem_create(owner->node, copy, MEMORY, NA_PLUGIN_MEM_READ, &mem),
                         0);
        assert_int_equal(kit_remote_mem_register(owner->node, mem, NA_PLUGIN_MEM_TYPE_HOST, 0), 0);
        memset(copy, 7, MEMORY);
        assert_int_equal(kit_msg_put(owner->context, &op, mem, 0, own, 0, MEMORY, owner->owner, 0),
                         0);
        sim_poll_until(owner->context, NULL, &op);
        assert_int_equal(op.status, NA_PLUGIN_SUCCESS);
        assert_memory_equal(owner->memory, copy, MEMORY);
        kit_remote_mem_destroy(owner->node, own);
        kit_remote_mem_destroy(owner->node, mem);
        side_close(owner);
    }
}

/* Without the option every process with the handle can use it, and no grants are recorded. */
static void test_option_off(void **state)
{
    (void) state;
    memset(&fixture, 0, sizeof(fixture));
    sim_net_setup(&fixture.net);
    side_open(&fixture.owner, "owner", false, false);
    fixture.table = kit_remote_get_extension(NA_PLUGIN_EXT_MEM_GRANT);
    user_open(&fixture.a, "a");
    check(&fixture.a, true);
    grant("a");
    assert_int_equal(((struct kit_region *) (void *) fixture.owner.mem)->grant_count, 0);
    side_close(&fixture.a);
    side_close(&fixture.owner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_granted_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_before_session, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ends_with_session, setup, teardown),
        cmocka_unit_test_setup_teardown(test_behind_lookup, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restarted_user, setup, teardown),
        cmocka_unit_test_setup_teardown(test_transfer_ends_with_session, setup, teardown),
        cmocka_unit_test_setup_teardown(test_claimed_process, setup, teardown),
        cmocka_unit_test_setup_teardown(test_old_seal, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deferred, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deregistered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rights_stay, setup, teardown),
        cmocka_unit_test(test_own_memory),
        cmocka_unit_test(test_option_off),
    };

    (void) setenv("SIM_KEY", "open sesame", 1);
    return cmocka_run_group_tests_name("kit grants", tests, NULL, NULL);
}
