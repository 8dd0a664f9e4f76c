/* SPDX-License-Identifier: BSD-3-Clause */
/* What endpoints reveal to any process that accepts their connection, before anything is proved. */

#include "ucx_side.h"

#include <endian.h>
#include <stdlib.h>

#define WAIT_NS UINT64_C(10000000000)

static struct side a, b;
static struct na_plugin_addr *to_b;
static struct na_host host;
static void *op;

static void ignore(void *which, int32_t status)
{
    (void) which;
    (void) status;
}

static int setup(void **state)
{
    (void) state;
    host = plugin_host;
    host.op_complete = ignore;
    kit_host = &host;
    side_open(&a);
    side_open(&b);
    assert_int_equal(kit_msg_peer_lookup(&a.na_class->fabric, b.na_class->name, NULL, 0, &to_b), 0);
    op = calloc(1, 4096);
    assert_non_null(op);
    assert_int_equal(kit_msg_send_unexpected(a.context, op, "x", 1, NULL, to_b, 0, 1), 0);
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    kit_msg_addr_free(a.na_class, to_b);
    side_close(&a);
    side_close(&b);
    free(op);
    return 0;
}

static const struct ucx_link *link_of(const struct side *side)
{
    const struct kit_link *links = &side->na_class->links;

    return kit_list_empty(links) ? NULL : kit_container(links->next, struct ucx_link, node);
}

static bool is_known(const struct side *side)
{
    return link_of(side) != NULL && link_of(side)->their_registry != 0;
}

/* The address of the registry is told only through the sockets between processes of one node, never
 * in the introduction. */
static void test_no_address_of_memory(void **state)
{
    const uint64_t end = host.clock_ns() + WAIT_NS;
    const struct side *sides[] = {&a, &b};

    (void) state;
    while (!(is_known(&a) && is_known(&b)) && host.clock_ns() < end) {
        side_poll(&a);
        side_poll(&b);
    }
    for (uint32_t i = 0; i < 2; i++) {
        const struct side *other = sides[1 - i];
        const uint64_t registry = htole64((uint64_t) (uintptr_t) sides[i]->na_class->registry);
        uint32_t size;
        uint8_t *data;

        assert_true(is_known(other));
        assert_true(link_of(other)->their_registry == le64toh(registry));
        data = ucx_hello_write(link_of(sides[i]), &size);
        assert_non_null(data);
        for (uint32_t at = 0; at + sizeof(registry) <= size; at++)
            assert_memory_not_equal(data + at, &registry, sizeof(registry));
        kit_host->mem_free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_address_of_memory, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
