/* SPDX-License-Identifier: BSD-3-Clause */
/* The network interfaces that UCX uses: the loopback interface in addition to others only for a
 * peer there. */

#include "ucx_message.h"

#include <sys/resource.h>

#define LIMIT 256

static uint32_t workers_of(const struct side *side)
{
    const struct kit_link *workers = &side->na_class->workers;
    uint32_t count = 0;

    for (const struct kit_link *node = workers->next; node != workers; node = node->next)
        count++;
    return count;
}

static void open_at(struct side *side, const char *address, uint32_t listen)
{
    struct na_plugin_init init = side_init("tcp");

    init.address = address;
    init.listen = listen;
    (void) side_open_init(side, &init);
}

static void send_one(struct side *origin, struct side *target)
{
    struct na_plugin_addr *addr;

    assert_int_equal(ucx_addr_lookup(origin->na_class, target->na_class->name, &addr), 0);
    (void) message_pass(origin, target, addr);
    kit_msg_addr_free(origin->na_class, addr);
}

/* Whether this machine has another interface than the loopback one. */
static bool has_others(void)
{
    char devices[UCX_DEVICES_MAX], loopback[UCX_DEVICES_MAX];

    ucx_devices_choose(devices, loopback);
    assert_int_equal(devices[0] != '\0', loopback[0] != '\0');
    if (devices[0] == '\0')
        print_message("not run: there is no interface but the loopback one\n");
    return devices[0] != '\0';
}

static void the_loopback_interface_is_opened_for_who_is_there(void **state)
{
    struct side origin, near, far;
    const uint32_t more = has_others() ? 1 : 0;

    (void) state;
    pending_host();
    open_at(&origin, NULL, 0);
    open_at(&near, "127.0.0.1", 1);
    open_at(&far, NULL, 1);
    assert_int_equal(workers_of(&origin), 1);
    send_one(&origin, &far);
    assert_int_equal(workers_of(&origin), 1);
    for (uint32_t i = 0; i < 2; i++) {
        send_one(&origin, &near);
        assert_int_equal(workers_of(&origin), 1 + more);
    }
    assert_int_equal(workers_of(&near), 1);
    side_close(&origin);
    side_close(&near);
    side_close(&far);
    kit_host = &plugin_host;
}

/* The worker is not opened with too few descriptors: UCX would end the process, however many it
 * got. */
static void without_descriptors_it_is_not_opened(void **state)
{
    struct rlimit limit, low;
    struct side origin, near;

    (void) state;
    if (!has_others())
        skip();
    pending_host();
    open_at(&origin, NULL, 0);
    open_at(&near, "127.0.0.1", 1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = LIMIT;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (int left = 0; left < 32; left++) {
        int fds[LIMIT], count = descriptors_take_all(fds, LIMIT);
        struct ucx_worker *worker;

        for (int i = 0; i < left; i++)
            (void) close(fds[--count]);
        worker = ucx_worker_for(origin.na_class, near.na_class->name);
        while (count > 0)
            (void) close(fds[--count]);
        assert_null(worker);
        assert_int_equal(workers_of(&origin), 1);
        origin.na_class->descriptors_at = 0; /* makes the plugin count again */
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    send_one(&origin, &near);
    assert_int_equal(workers_of(&origin), 2);
    side_close(&origin);
    side_close(&near);
    kit_host = &plugin_host;
}

/* With this variable, the loopback interface is in the same UCX context as the others. */
static void check_one_context(const char *variable, const char *value)
{
    struct side origin, near;

    pending_host();
    assert_int_equal(setenv(variable, value, 1), 0);
    open_at(&origin, NULL, 0);
    open_at(&near, "127.0.0.1", 1);
    send_one(&origin, &near);
    assert_int_equal(workers_of(&origin), 1);
    side_close(&origin);
    side_close(&near);
    assert_int_equal(unsetenv(variable), 0);
    kit_host = &plugin_host;
}

static void what_the_user_names_is_all(void **state)
{
    char devices[UCX_DEVICES_MAX], loopback[UCX_DEVICES_MAX];

    (void) state;
    assert_int_equal(setenv("UCX_NET_DEVICES", "lo", 1), 0);
    ucx_devices_choose(devices, loopback);
    assert_string_equal(devices, "");
    assert_string_equal(loopback, "");
    check_one_context("UCX_NET_DEVICES", "lo");
}

/* Where UCX moves the data, its memory keys belong to one context. */
static void keys_to_memory_are_of_one_context(void **state)
{
    (void) state;
    check_one_context("AMALGAM_UCX_RMA", "ucp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loopback_interface_is_opened_for_who_is_there),
        cmocka_unit_test(without_descriptors_it_is_not_opened),
        cmocka_unit_test(what_the_user_names_is_all),
        cmocka_unit_test(keys_to_memory_are_of_one_context),
    };

    return cmocka_run_group_tests(tests, ucx_test_setup, ucx_test_teardown);
}
