/* SPDX-License-Identifier: BSD-3-Clause */
/* Spare descriptors, which are closed so that UCX finds free ones when it creates an endpoint. */

#include "ucx_side.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define LIMIT 256

static bool are_open(const struct side *side)
{
    for (uint32_t i = 0; i < UCX_SPARES; i++)
        if (side->na_class->spares[i] < 0)
            return false;
    return true;
}

/* As with shared memory, UCX opens a socket to activate the interface. */
static void an_endpoint_is_made_when_all_others_are_taken(void **state)
{
    struct rlimit limit, low;
    struct side side, peer;
    struct ucx_hello hello = {.incarnation = 1, .link_id = 1};
    struct ucx_link *link;
    int fds[LIMIT], count;

    (void) state;
    assert_int_equal(setenv("UCX_ADAPTIVE_PROGRESS", "y", 1), 0);
    side_open_as(&side, "tcp");
    side_open_as(&peer, "tcp");
    assert_true(ucx_descriptors_take_peer(side.na_class));
    assert_true(are_open(&side));
    hello.address = peer.na_class->worker->address;
    hello.address_size = (uint32_t) peer.na_class->worker->address_size;
    link = ucx_link_create(side.na_class->worker, peer.na_class->name);
    assert_non_null(link);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = LIMIT;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    count = descriptors_take_all(fds, LIMIT);
    ucx_link_met(link, &hello);
    assert_int_equal(link->phase, UCX_LINK_READY);
    assert_false(ucx_descriptors_take_peer(side.na_class)); /* UCX has kept some of them */
    assert_false(are_open(&side));
    for (int i = 0; i < count; i++)
        (void) close(fds[i]);
    assert_true(ucx_descriptors_take_peer(side.na_class));
    assert_true(are_open(&side));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    side_close(&side);
    side_close(&peer);
    assert_int_equal(unsetenv("UCX_ADAPTIVE_PROGRESS"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_endpoint_is_made_when_all_others_are_taken),
    };

    return cmocka_run_group_tests(tests, ucx_test_setup, ucx_test_teardown);
}
