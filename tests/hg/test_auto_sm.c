/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auto_sm: a second path, over shared memory, to peers on this node. The address string of a peer
 * says whether it has one.
 */
#include "hg_fixture.h"

#include "mercury_bulk.h"
#include "na_ext.h"

/* Whether the class has a second path: its own address string says so. */
static bool has_second_path(const struct side *side)
{
    char name[512];
    hg_size_t size = sizeof(name);
    hg_addr_t self;

    assert_int_equal(HG_Addr_self(side->hg_class, &self), HG_SUCCESS);
    assert_int_equal(HG_Addr_to_string(side->hg_class, name, &size, self), HG_SUCCESS);
    assert_int_equal(strlen(name) + 1, size);
    assert_int_equal(HG_Addr_free(side->hg_class, self), HG_SUCCESS);
    return strstr(name, ";sm=") != NULL;
}

static void asked_for_on_a_node_local_transport_it_changes_nothing(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0};

    (void) state;
    if (!test_is_sm())
        test_skip("this run is over a transport that is not node-local");
    info.auto_sm = 1;
    pair_open(&pair, &info);
    assert_false(has_second_path(&pair.origin));
    pair_echo(&pair, 10);
    pair_close(&pair);
}

/* The target pulls from the origin, using a descriptor as it would have received it in an RPC. */
static void pull(const struct pair *pair, hg_addr_t origin_addr, hg_bulk_t bulk, bool is_bound)
{
    hg_class_t *hg_class = pair->target.hg_class;
    hg_size_t size = HG_Bulk_get_serialize_size(bulk, HG_BULK_SM);
    struct outcome outcome = {0};
    hg_bulk_t received, local;
    char wire[4096];
    char bytes[100];
    void *ptr = bytes;
    hg_size_t length = sizeof(bytes);

    memset(bytes, 0, sizeof(bytes));
    assert_true(size <= sizeof(wire));
    assert_int_equal(HG_Bulk_serialize(wire, size, HG_BULK_SM, bulk), HG_SUCCESS);
    assert_int_equal(HG_Bulk_deserialize(hg_class, &received, wire, size), HG_SUCCESS);
    assert_int_equal(HG_Bulk_create(hg_class, 1, &ptr, &length, HG_BULK_READWRITE, &local),
                     HG_SUCCESS);
    assert_int_equal(
        is_bound ? HG_Bulk_bind_transfer(pair->target.context, outcome_set, &outcome, HG_BULK_PULL,
                                         received, 0, local, 0, length, NULL)
                 : HG_Bulk_transfer(pair->target.context, outcome_set, &outcome, HG_BULK_PULL,
                                    origin_addr, received, 0, local, 0, length, NULL),
        HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    assert_int_equal(bytes[99], 7);
    (void) HG_Bulk_free(received);
    (void) HG_Bulk_free(local);
}

/* The number of transfers with memory that the peer's library allocated. */
static uint64_t shared_count(const struct side *side)
{
    struct na_counter counters[32];
    size_t count = 32;

    assert_int_equal(NA_Class_get_counters(HG_Class_get_na_sm(side->hg_class), counters, &count),
                     NA_SUCCESS);
    for (size_t i = 0; i < count; i++)
        if (strcmp(counters[i].name, "na_sm_transfers_shared") == 0)
            return counters[i].value;
    fail_msg("there is no such counter");
    return 0;
}

/* Memory that the library allocates is mapped by peers on this node. */
static void pull_allocated(const struct pair *pair, hg_addr_t origin_addr)
{
    hg_size_t length = 8192;
    hg_bulk_t bulk;
    uint64_t count;
    void *memory;

    assert_int_equal(
        HG_Bulk_create(pair->origin.hg_class, 1, NULL, &length, HG_BULK_READ_ONLY, &bulk),
        HG_SUCCESS);
    assert_int_equal(HG_Bulk_access(bulk, 0, length, HG_BULK_READWRITE, 1, &memory, NULL, NULL),
                     HG_SUCCESS);
    memset(memory, 7, length);
    count = shared_count(&pair->target);
    pull(pair, origin_addr, bulk, false);
    assert_int_equal(shared_count(&pair->target), count + 1);
    (void) HG_Bulk_free(bulk);
}

static const char *key; /* auth_key of the classes in the next two tests; NULL: none */

static void rpcs_and_bulk_take_the_second_path(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0};
    hg_addr_t origin_addr;
    char bytes[100];
    void *ptr = bytes;
    hg_size_t length = sizeof(bytes);
    hg_bulk_t bulk;
    uint64_t bulk_count;

    (void) state;
    if (test_is_sm())
        test_skip("this run is over shared memory itself");
    info.auto_sm = 1;
    info.sm_info_string = "na+sm";
    info.na_init_info.auth_key = key;
    pair_open(&pair, &info);
    assert_true(has_second_path(&pair.origin));
    assert_true(HG_Addr_is_auto_sm(pair.origin.hg_class, pair.addr));
    assert_string_equal(NA_Get_class_protocol(HG_Class_get_na_sm(pair.origin.hg_class)), "sm");
    assert_null(HG_Class_get_na_sm(NULL));
    assert_int_not_equal(HG_Class_get_number(pair.origin.hg_class),
                         HG_Class_get_number(pair.target.hg_class));
    assert_false(HG_Addr_is_auto_sm(pair.target.hg_class, pair.addr));
    assert_false(HG_Addr_is_auto_sm(pair.origin.hg_class, HG_ADDR_NULL));
    pair_echo(&pair, 10);
    pair_echo(&pair, 3000);
    assert_int_equal(side_ext_counters(&pair.origin).sm_req_sent_count, 2);
    assert_int_equal(side_ext_counters(&pair.target).sm_req_recv_count, 2);
    pair_echo(&pair, pair_large(&pair));
    assert_int_equal(side_counters(&pair.origin).rpc_req_sent_count, 3);
    assert_int_equal(side_ext_counters(&pair.origin).sm_req_sent_count, 3);

    memset(bytes, 7, sizeof(bytes));
    origin_addr = side_lookup(&pair.target, &pair.origin);
    assert_int_equal(
        HG_Bulk_create(pair.origin.hg_class, 1, &ptr, &length, HG_BULK_READ_ONLY, &bulk),
        HG_SUCCESS);
    bulk_count = side_ext_counters(&pair.target).sm_bulk_count;
    pull(&pair, origin_addr, bulk, false);
    assert_int_equal(side_ext_counters(&pair.target).sm_bulk_count, bulk_count + 1);
    assert_int_equal(HG_Bulk_bind(bulk, pair.origin.context), HG_SUCCESS);
    pull(&pair, origin_addr, bulk, true);
    assert_int_equal(side_ext_counters(&pair.target).sm_bulk_count, bulk_count + 2);
    (void) HG_Bulk_free(bulk);
    pull_allocated(&pair, origin_addr);
    assert_int_equal(HG_Addr_free(pair.target.hg_class, origin_addr), HG_SUCCESS);
    pair_close(&pair);
}

/*
 * A peer without the second path is reached over the main path. A handle can be reset from a peer
 * with the second path to one without it, and back.
 */
static void peers_without_the_path_are_reached(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct hg_init_info plain = HG_INIT_INFO_INITIALIZER;
    struct pair with = {0}, without;
    hg_handle_t handle;
    struct blob in;
    int i;

    (void) state;
    if (test_is_sm())
        test_skip("this run is over shared memory itself");
    info.auto_sm = 1;
    info.sm_info_string = "na+sm";
    info.na_init_info.auth_key = key;
    pair_open(&with, &info);
    without.origin = with.origin;
    memset(&without.target, 0, sizeof(without.target));
    plain.na_init_info.auth_key = key;
    side_open(&without.target, &plain);
    without.addr = side_lookup(&with.origin, &without.target);
    assert_false(HG_Addr_is_auto_sm(with.origin.hg_class, without.addr));
    pair_echo(&without, 10);
    assert_int_equal(side_ext_counters(&with.origin).sm_req_sent_count, 0);
    pair_echo(&without, pair_large(&without));

    /*
     * The payloads are large, because the origin then acknowledges that it has fetched the output.
     * The acknowledgement has to take the path of the RPC as well.
     */
    blob_make(&in, pair_large(&with), 1);
    handle = pair_create(&with, RPC_ECHO);
    for (i = 0; i < 10; i++) {
        assert_int_equal(HG_Reset(handle, i % 2 == 0 ? without.addr : with.addr, RPC_ECHO),
                         HG_SUCCESS);
        assert_int_equal(pair_call(i % 2 == 0 ? &without : &with, handle, &in), HG_SUCCESS);
    }
    pair_wait_for(&without, &without.target.responded, atomic_load(&without.target.handled));
    assert_int_equal(atomic_load(&without.target.respond_ret), HG_SUCCESS);
    free(in.data);
    (void) HG_Destroy(handle);
    assert_int_equal(side_ext_counters(&with.origin).sm_req_sent_count, 5);
    assert_int_equal(HG_Addr_free(without.origin.hg_class, without.addr), HG_SUCCESS);
    pair_run(&without, 5);
    side_close(&without.target);
    pair_close(&with);
}

/* Shared memory does not prove the key itself, so that HG's sessions do this on the second path. */
static void with_a_key_each_path_is_sealed_once(void **state)
{
    if (test_is_sm())
        test_skip("this run is over shared memory itself");
    key = "open sesame";
    rpcs_and_bulk_take_the_second_path(state);
    peers_without_the_path_are_reached(state);
    key = NULL;
}

/* Returns an address with the main path of one process and the second path of another. */
static hg_addr_t lookup_mixed(const struct side *from, const struct side *main_side,
                              const struct side *sm_side)
{
    const struct side *sides[] = {main_side, sm_side};
    char names[2][512], *part;
    hg_addr_t addr;

    for (int i = 0; i < 2; i++) {
        hg_size_t size = sizeof(names[i]);

        assert_int_equal(HG_Addr_self(sides[i]->hg_class, &addr), HG_SUCCESS);
        assert_int_equal(HG_Addr_to_string(sides[i]->hg_class, names[i], &size, addr), HG_SUCCESS);
        assert_int_equal(HG_Addr_free(sides[i]->hg_class, addr), HG_SUCCESS);
        part = strstr(names[i], ";sm=");
        assert_non_null(part);
        if (i == 0)
            *part = '\0';
    }
    assert_true(strlen(names[0]) + strlen(part) < sizeof(names[0]));
    strcat(names[0], part);
    assert_int_equal(HG_Addr_lookup2(from->hg_class, names[0], &addr), HG_SUCCESS);
    return addr;
}

/* After a refused forward the handle may be busy for a moment. */
static hg_return_t call_or_fail(const struct pair *pair, hg_handle_t handle)
{
    hg_return_t ret = pair_call(pair, handle, NULL);

    while (ret != HG_SUCCESS && HG_Reset(handle, pair->addr, RPC_NULL) == HG_BUSY)
        pair_progress(pair);
    return ret;
}

/*
 * The target seems to have restarted: it has its old main address and a new second one, so that the
 * second path of the origin's address leads to nobody.
 */
static void a_peer_gone_from_the_second_path_is_reached_on_the_main_one(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0}, gone = {0};
    hg_handle_t handle, buf_handle;
    char name[512];
    hg_size_t size = sizeof(name);
    void *buf;

    (void) state;
    if (test_is_sm())
        test_skip("this run is over shared memory itself");
    info.auto_sm = 1;
    info.sm_info_string = "na+sm";
    pair_open(&pair, &info);
    gone.origin = pair.origin;
    side_open(&gone.target, &info);
    assert_int_equal(HG_Addr_free(pair.origin.hg_class, pair.addr), HG_SUCCESS);
    pair.addr = lookup_mixed(&pair.origin, &pair.target, &gone.target);
    assert_true(HG_Addr_is_auto_sm(pair.origin.hg_class, pair.addr));
    handle = pair_create(&pair, RPC_NULL);
    buf_handle = pair_create(&pair, RPC_NULL);
    assert_int_equal(HG_Get_input_buf(buf_handle, &buf, NULL), HG_SUCCESS);
    assert_int_equal(pair_call(&gone, handle, NULL), HG_SUCCESS);
    side_close(&gone.target);

    assert_int_equal(call_or_fail(&pair, handle), HG_HOSTUNREACH);
    assert_int_equal(call_or_fail(&pair, handle), HG_SUCCESS);
    pair_echo(&pair, 10);
    pair_echo(&pair, pair_large(&pair));
    assert_false(HG_Addr_is_auto_sm(pair.origin.hg_class, pair.addr));
    assert_int_equal(HG_Addr_to_string(pair.origin.hg_class, name, &size, pair.addr), HG_SUCCESS);
    assert_null(strstr(name, ";sm="));

    /*
     * A request whose buffer the program has obtained cannot be moved to the other path: its first
     * forward fails.
     */
    assert_int_equal(call_or_fail(&pair, buf_handle), HG_HOSTUNREACH);
    assert_int_equal(HG_Reset(buf_handle, pair.addr, RPC_NULL), HG_SUCCESS);
    assert_int_equal(pair_call(&pair, buf_handle, NULL), HG_SUCCESS);
    (void) HG_Destroy(buf_handle);
    (void) HG_Destroy(handle);
    pair_close(&pair);
}

static void addresses_of_other_nodes_use_the_main_path(void **state)
{
    struct pair pair = {0};
    char name[600];
    hg_size_t size = 512;
    hg_addr_t self, addr;

    (void) state;
    pair_open(&pair, NULL);
    assert_int_equal(HG_Addr_self(pair.target.hg_class, &self), HG_SUCCESS);
    assert_int_equal(HG_Addr_to_string(pair.target.hg_class, name, &size, self), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(pair.target.hg_class, self), HG_SUCCESS);
    strcat(name, ";sm=00000000-elsewhere@na+sm://nobody");
    assert_int_equal(HG_Addr_lookup2(pair.origin.hg_class, name, &addr), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(pair.origin.hg_class, pair.addr), HG_SUCCESS);
    pair.addr = addr;
    pair_echo(&pair, 100);
    assert_int_not_equal(HG_Addr_lookup2(pair.origin.hg_class, ";sm=nowhere@x", &addr), HG_SUCCESS);
    assert_int_not_equal(HG_Addr_lookup2(pair.origin.hg_class, ";sm=", &addr), HG_SUCCESS);
    pair_close(&pair);
}

/*
 * The program opened the endpoint itself, with encryption or with memory per session. Shared memory
 * offers neither, so that RPCs stay on the main path.
 */
static void what_shared_memory_cannot_hold_takes_no_second_path(void **state)
{
    (void) state;
    if (test_is_sm())
        test_skip("this run is over shared memory itself");
    for (int asked = 0; asked < 3; asked++) {
        struct na_init_info na_info = NA_INIT_INFO_INITIALIZER;
        struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
        struct side side = {0};

        na_info.auth_key = "open sesame";
        na_info.encrypt = asked == 1;
        na_info.mem_per_session = asked == 2;
        info.na_class = NA_Initialize_opt2(
            test_init_string(), true, NA_VERSION(NA_VERSION_MAJOR, NA_VERSION_MINOR), &na_info);
        if (info.na_class == NULL && asked != 0)
            test_skip("this transport does not encrypt");
        assert_non_null(info.na_class);
        info.auto_sm = 1;
        info.sm_info_string = "na+sm";
        side.hg_class =
            HG_Init_opt2(NULL, HG_TRUE, HG_VERSION(HG_VERSION_MAJOR, HG_VERSION_MINOR), &info);
        assert_non_null(side.hg_class);
        assert_int_equal(has_second_path(&side), asked == 0);
        assert_int_equal(HG_Finalize(side.hg_class), HG_SUCCESS);
        assert_int_equal(NA_Finalize(info.na_class), NA_SUCCESS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asked_for_on_a_node_local_transport_it_changes_nothing),
        cmocka_unit_test(rpcs_and_bulk_take_the_second_path),
        cmocka_unit_test(peers_without_the_path_are_reached),
        cmocka_unit_test(with_a_key_each_path_is_sealed_once),
        cmocka_unit_test(a_peer_gone_from_the_second_path_is_reached_on_the_main_one),
        cmocka_unit_test(addresses_of_other_nodes_use_the_main_path),
        cmocka_unit_test(what_shared_memory_cannot_hold_takes_no_second_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
