/* SPDX-License-Identifier: BSD-3-Clause */
/* How many endpoints of UCX two processes make for each other: both as many, for UCX pairs them by
 * their order, also when the link is made anew. */

#include "ucx_message.h"

#include <string.h>

#define WAIT_NS UINT64_C(20000000000)
#define ROUNDS  4u

/* What one side is opened with. */
struct choice {
    const char *rma;
    uint32_t mem_per_session;
};

static struct side sides[2];

static void open_with(struct side *side, const struct choice *choice)
{
    struct na_plugin_init init = side_init("tcp");

    init.mem_per_session = choice->mem_per_session;
    assert_int_equal(setenv("AMALGAM_UCX_RMA", choice->rma, 1), 0);
    (void) side_open_init(side, &init);
    assert_int_equal(unsetenv("AMALGAM_UCX_RMA"), 0);
}

/* The one that is in use; NULL: there is none. */
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

static void send_one(uint32_t from, struct na_plugin_addr *addr)
{
    const uint64_t end = kit_host->clock_ns() + WAIT_NS;
    struct pending *send = pending_new(), *receive = pending_new();
    char text[8] = "";

    assert_int_equal(
        kit_msg_recv_unexpected(sides[1 - from].context, receive->op, text, sizeof(text), NULL), 0);
    assert_int_equal(
        kit_msg_send_unexpected(sides[from].context, send->op, "hello", 6, NULL, addr, 0, 1), 0);
    while (send->status == PENDING_WAITS || receive->status == PENDING_WAITS) {
        assert_true(kit_host->clock_ns() < end);
        poll_both();
    }
    assert_int_equal(send->status, 0);
    assert_int_equal(receive->status, 0);
    assert_string_equal(text, "hello");
    free(send);
    free(receive);
}

/* Both processes live on, and so do UCX's workers. */
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

static void check_pair(const struct choice *a, const struct choice *b, bool has_data)
{
    struct na_plugin_addr *addrs[2];

    open_with(&sides[0], a);
    open_with(&sides[1], b);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(ucx_addr_lookup(sides[i].na_class, sides[1 - i].na_class->name, &addrs[i]),
                         0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        send_one(round % 2, addrs[round % 2]);
        send_one(1 - round % 2, addrs[1 - round % 2]);
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
    static const struct choice ucp = {"ucp", 0}, session = {"ucp", 1}, usual = {"auto", 0};

    (void) state;
    pending_host();
    check_pair(&ucp, &ucp, true);
    check_pair(&ucp, &session, false);
    check_pair(&session, &ucp, false);
    check_pair(&usual, &ucp, false);
    check_pair(&usual, &usual, false);
    kit_host = &plugin_host;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_have_one_for_data_or_none),
    };

    return cmocka_run_group_tests(tests, ucx_test_setup, ucx_test_teardown);
}
