/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two peers that cannot be reached for a while. One listens without accepting, like a process that
 * is out of descriptors: messages wait for a limited time, and arrive when it accepts again. The
 * other one accepts and closes at once, like a proxy whose target is gone: the connection is
 * retried, but not in a busy loop.
 */

#include "ofi_side.h"

#include "test_listen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* There may be some hundred attempts in the first 20 ms; 480 and 100 follow. */
#define CLOSING_NS  UINT64_C(1500000000)
#define CLOSING_MAX 1500
#define CONNECT_NS  UINT64_C(300000000)
#define WAIT_NS     UINT64_C(10000000000)

/* Sends a message and returns its status. `polls`, the peer, is polled unless it is NULL. */
static int32_t message(struct side *from, struct na_plugin_addr *to, struct side *polls)
{
    void *op = plugin_host_alloc(kit_msg_op_size(), kit_msg_op_align());
    int32_t status;

    side_status = -1;
    assert_int_equal(kit_msg_send_unexpected(from->context, op, "hello", 5, NULL, to, 0, 1),
                     NA_PLUGIN_SUCCESS);
    status = side_await(from, polls, WAIT_NS);
    plugin_host_free(op);
    return status;
}

static void who_accepts_nobody_is_given_up(void **state)
{
    struct side origin, target;
    struct na_plugin_addr *addr;

    (void) state;
    side_open_as(&origin, "tcp", true);
    side_open_as(&target, "tcp", true);
    origin.na_class->connect_ns = CONNECT_NS;
    assert_int_equal(ofi_addr_lookup(origin.na_class, target.na_class->name, &addr),
                     NA_PLUGIN_SUCCESS);
    assert_int_equal(message(&origin, addr, NULL), NA_PLUGIN_HOSTUNREACH);
    assert_int_equal(message(&origin, addr, &target), NA_PLUGIN_SUCCESS);
    kit_msg_addr_free(origin.na_class, addr);
    side_close(&origin);
    side_close(&target);
}

/* Closes connections with a reset, as when their process is gone. Returns how many there were. */
static unsigned int accept_and_close(int fd)
{
    const struct linger at_once = {.l_onoff = 1};
    unsigned int count = 0;
    int accepted;

    for (; (accepted = accept(fd, NULL, NULL)) >= 0; count++) {
        (void) setsockopt(accepted, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        (void) close(accepted);
    }
    return count;
}

static void who_closes_at_once_is_not_hammered(void **state)
{
    void *op = plugin_host_alloc(kit_msg_op_size(), kit_msg_op_align());
    struct na_plugin_addr *addr;
    unsigned int connections = 0;
    uint32_t count = 0;
    struct side origin;
    char name[32];
    uint64_t end;
    int fd = test_listen(name, sizeof(name), 64);

    (void) state;
    side_open_as(&origin, "tcp", true);
    assert_int_equal(ofi_addr_lookup(origin.na_class, name, &addr), NA_PLUGIN_SUCCESS);
    assert_int_equal(kit_msg_send_unexpected(origin.context, op, "hello", 5, NULL, addr, 0, 1),
                     NA_PLUGIN_SUCCESS);
    for (end = kit_host->clock_ns() + CLOSING_NS; kit_host->clock_ns() < end;) {
        (void) kit_msg_poll(origin.context, &count);
        connections += accept_and_close(fd);
    }
    assert_in_range(connections, 2, CLOSING_MAX);
    kit_msg_addr_free(origin.na_class, addr);
    side_close(&origin);
    plugin_host_free(op);
    (void) close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_accepts_nobody_is_given_up),
        cmocka_unit_test(who_closes_at_once_is_not_hammered),
    };
    struct na_host host;
    int ret;

    side_host_use(&host);
    ret = cmocka_run_group_tests(tests, NULL, NULL);
    ofi_enumerate_cleanup();
    return ret;
}
