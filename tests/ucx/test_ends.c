/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many UCX endpoints two processes create for each other: both create the same number, also
 * when the link is established again, since UCX pairs them in order. And which memory a device gets
 * to know.
 */

#include "ucx_message.h"

#include <string.h>

#define WAIT_NS UINT64_C(20000000000)
#define ROUNDS  4u

/* The options of one side. */
struct choice {
    const char *rma;
    uint32_t mem_per_session;
};

static struct side sides[2];

static const char *protocol(void)
{
    /* for example ucx+rc, where there is a device */
    const char *init = getenv("AMALGAM_TEST_INIT");

    return init != NULL && strncmp(init, "ucx+", 4) == 0 ? init + 4 : "tcp";
}

static void open_with(struct side *side, const struct choice *choice)
{
    struct na_plugin_init init = side_init(protocol());

    if (getenv("AMALGAM_TEST_INIT") != NULL)
        init.address = NULL;
    init.mem_per_session = choice->mem_per_session;
    assert_int_equal(setenv("AMALGAM_UCX_RMA", choice->rma, 1), 0);
    (void) side_open_init(side, &init);
    assert_int_equal(unsetenv("AMALGAM_UCX_RMA"), 0);
}

/* Returns the link in use; NULL: none. */
static struct ucx_link *link_of(const struct side *side)
{
    const struct kit_link *links = &side->na_class->links;

    for (struct kit_link *node = links->next; node != links; node = node->next) {
        struct ucx_link *link = kit_container(node, struct ucx_link, node);

        if (link->phase == UCX_LINK_READY && link->is_met)
            return link;
    }
    return NULL;
}

static void poll_both(void)
{
    side_poll(&sides[0]);
    side_poll(&sides[1]);
}

/* Aborts the link; both processes and their UCX workers continue. */
static void abort_link(uint32_t side)
{
    const uint64_t end = kit_host->clock_ns() + WAIT_NS;

    assert_non_null(link_of(&sides[side]));
    ucx_link_fail(link_of(&sides[side]), NA_PLUGIN_HOSTUNREACH, "the test aborts it");
    while (!kit_list_empty(&sides[0].na_class->links) ||
           !kit_list_empty(&sides[1].na_class->links)) {
        assert_true(kit_host->clock_ns() < end);
        poll_both();
    }
}

/* Whether there is an endpoint for data: never, always, or if a device reads and writes by
 * itself. */
enum has_data {
    NO_DATA,
    BY_SOFTWARE,
    BY_DEVICE
};

static void check_pair(const struct choice *a, const struct choice *b, enum has_data expected)
{
    struct na_plugin_addr *addrs[2];
    bool has_data = expected == BY_SOFTWARE;

    open_with(&sides[0], a);
    open_with(&sides[1], b);
    if (expected == BY_DEVICE)
        has_data = sides[0].na_class->is_native;
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(ucx_addr_lookup(sides[i].na_class, sides[1 - i].na_class->name, &addrs[i]),
                         0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t from = (round + i) % 2;

            (void) message_pass(&sides[from], &sides[1 - from], addrs[from]);
        }
        for (uint32_t i = 0; i < 2; i++) {
            assert_non_null(link_of(&sides[i]));
            assert_int_equal(link_of(&sides[i])->data.ep != NULL, has_data);
        }
        abort_link(round / 2 % 2);
    }
    for (uint32_t i = 0; i < 2; i++)
        kit_msg_addr_free(sides[i].na_class, addrs[i]);
    side_close(&sides[0]);
    side_close(&sides[1]);
}

static void both_have_one_for_data_or_none(void **state)
{
    static const struct choice ucp = {"ucp", 0}, session = {"ucp", 1}, usual = {"auto", 0},
                               usual_session = {"auto", 1}, messages = {"messages", 0};

    (void) state;
    pending_host();
    check_pair(&ucp, &ucp, BY_SOFTWARE);
    check_pair(&ucp, &session, NO_DATA);
    check_pair(&session, &ucp, NO_DATA);
    check_pair(&usual, &ucp, BY_DEVICE);
    check_pair(&usual, &usual, BY_DEVICE);
    check_pair(&usual, &usual_session, NO_DATA);
    check_pair(&usual, &messages, NO_DATA);
    kit_host = &plugin_host;
}

/* A device allows peers to read and write all memory that it knows, so it gets only memory with
 * both rights. */
static void the_device_knows_what_peers_may_read_and_write(void **state)
{
    static const struct choice usual = {"auto", 0};
    static uint8_t memory[4096];
    const uint32_t rights[] = {NA_PLUGIN_MEM_READ, NA_PLUGIN_MEM_WRITE,
                               NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE};
    struct na_plugin_class *na_class;

    (void) state;
    open_with(&sides[0], &usual);
    na_class = sides[0].na_class;
    for (uint32_t i = 0; i < 3; i++) {
        struct na_plugin_mem *mem;

        assert_int_equal(ucx_mem_create(na_class, memory, sizeof(memory), rights[i], &mem), 0);
        assert_int_equal(ucx_mem_register(na_class, mem, NA_PLUGIN_MEM_TYPE_HOST, 0), 0);
        assert_int_equal(mem->mem != NULL, i == 2 && na_class->has_hardware);
        assert_int_equal(mem->packed_size != 0, i == 2 && na_class->has_hardware);
        ucx_mem_destroy(na_class, mem);
    }
    side_close(&sides[0]);
}

/* The plugin cancels no request itself: UCX reports those with a dead peer as cancelled. */
static void what_a_death_ends_is_unreachable(void **state)
{
    (void) state;
    assert_int_equal(ucx_status(UCS_ERR_CANCELED), NA_PLUGIN_HOSTUNREACH);
    assert_int_equal(ucx_status(UCS_ERR_ENDPOINT_TIMEOUT), NA_PLUGIN_HOSTUNREACH);
    assert_int_equal(ucx_status(UCS_OK), NA_PLUGIN_SUCCESS);
}

/* This test does not call the plugin's entry point, which sets what soft RoCE needs. */
static int setup(void **state)
{
    return setenv("UCX_UD_VERBS_ETH_DGID_CHECK", "n", 0) != 0 ? -1 : ucx_test_setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_have_one_for_data_or_none),
        cmocka_unit_test(the_device_knows_what_peers_may_read_and_write),
        cmocka_unit_test(what_a_death_ends_is_unreachable),
    };

    return cmocka_run_group_tests(tests, setup, ucx_test_teardown);
}
