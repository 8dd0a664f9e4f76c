/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer that listens and accepts nobody, as one does that is out of descriptors: it is waited for,
 * but not for ever, and reached when it accepts again.
 */

#include "ofi_side.h"

#include "kit/plugin_host.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define CONNECT_NS UINT64_C(300000000)
#define WAIT_NS    UINT64_C(10000000000)

static int32_t last_status = -1;

static void completed(void *op, int32_t status)
{
    (void) op;
    last_status = status;
}

/* What a message ends with; the other side polls, or does not. */
static int32_t message(struct side *from, struct na_plugin_addr *to, struct side *polls)
{
    uint64_t end = kit_host->clock_ns() + WAIT_NS;
    void *op = plugin_host_alloc(kit_msg_op_size(), kit_msg_op_align());
    uint32_t count = 0;

    last_status = -1;
    assert_int_equal(kit_msg_send_unexpected(from->context, op, "hello", 5, NULL, to, 0, 1),
                     NA_PLUGIN_SUCCESS);
    while (last_status < 0 && kit_host->clock_ns() < end) {
        (void) kit_msg_poll(from->context, &count);
        if (polls != NULL)
            (void) kit_msg_poll(polls->context, &count);
    }
    plugin_host_free(op);
    return last_status;
}

static void who_accepts_nobody_is_given_up(void **state)
{
    struct side origin, target;
    struct na_plugin_addr *addr;

    (void) state;
    side_open_as(&origin, "tcp", true, 0);
    side_open_as(&target, "tcp", true, 0);
    origin.na_class->connect_ns = CONNECT_NS;
    assert_int_equal(ofi_addr_lookup(origin.na_class, target.na_class->name, &addr),
                     NA_PLUGIN_SUCCESS);
    assert_int_equal(message(&origin, addr, NULL), NA_PLUGIN_HOSTUNREACH);
    assert_int_equal(message(&origin, addr, &target), NA_PLUGIN_SUCCESS);
    kit_msg_addr_free(origin.na_class, addr);
    side_close(&origin);
    side_close(&target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_accepts_nobody_is_given_up),
    };
    struct na_host host = plugin_host;
    int ret;

    host.op_complete = completed;
    kit_host = &host;
    ret = cmocka_run_group_tests(tests, NULL, NULL);
    ofi_enumerate_cleanup();
    return ret;
}
