/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auto_sm: a second lane towards peers on this node, which address strings speak of.
 */
#include "hg_fixture.h"

#include "na_ext.h"

/* Whether the class has a second lane: its own address string says so. */
static bool has_second_lane(const struct side *side)
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
    assert_false(has_second_lane(&pair.origin));
    pair_echo(&pair, 10);
    pair_close(&pair);
}

static void rpcs_take_the_second_lane(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0};
    hg_handle_t handle;

    (void) state;
    if (test_is_sm())
        test_skip("this run is over shared memory itself");
    info.auto_sm = 1;
    info.sm_info_string = "na+sm";
    pair_open(&pair, &info);
    if (!has_second_lane(&pair.origin)) {
        pair_close(&pair);
        test_skip("no shared memory beside the transport on this machine");
    }
    pair_echo(&pair, 10);
    pair_echo(&pair, 3000);
    pair_echo(&pair, 300000);
    handle = pair_create(&pair, RPC_NULL);
    assert_int_equal(pair_call(&pair, handle, NULL), HG_SUCCESS);
    (void) HG_Destroy(handle);
    pair_close(&pair);
}

/* A peer without the lane is reached as ever, and a handle can move between such peers. */
static void peers_without_the_lane_are_reached(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair with = {0}, without;
    hg_handle_t handle;
    int i;

    (void) state;
    if (test_is_sm())
        test_skip("this run is over shared memory itself");
    info.auto_sm = 1;
    info.sm_info_string = "na+sm";
    pair_open(&with, &info);
    without.origin = with.origin;
    memset(&without.target, 0, sizeof(without.target));
    side_open(&without.target, NULL);
    without.addr = side_lookup(&with.origin, &without.target);
    pair_echo(&without, 10);
    pair_echo(&without, 50000);

    handle = pair_create(&with, RPC_NULL);
    for (i = 0; i < 10; i++) {
        assert_int_equal(HG_Reset(handle, i % 2 == 0 ? without.addr : with.addr, 0), HG_SUCCESS);
        assert_int_equal(pair_call(i % 2 == 0 ? &without : &with, handle, NULL), HG_SUCCESS);
    }
    (void) HG_Destroy(handle);
    assert_int_equal(HG_Addr_free(without.origin.hg_class, without.addr), HG_SUCCESS);
    pair_run(&without, 5);
    side_close(&without.target);
    pair_close(&with);
}

static void addresses_of_other_nodes_use_the_main_lane(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asked_for_on_a_node_local_transport_it_changes_nothing),
        cmocka_unit_test(rpcs_take_the_second_lane),
        cmocka_unit_test(peers_without_the_lane_are_reached),
        cmocka_unit_test(addresses_of_other_nodes_use_the_main_lane),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
