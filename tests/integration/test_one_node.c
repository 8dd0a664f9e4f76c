/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Target and origin in two network namespaces of one node that share everything else, like two
 * containers. A transport that detects the common node still has to wake each of them, with a key
 * and without.
 */
#include "child.h"
#include "hosts.h"
#include "hosts_pair.h"
#include "service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ECHOES  200
#define SOON_MS 25 /* less than the 50 ms after which a timer of the transport polls anyway */

static int role_origin(const char *init_string, const char *key);

static void echoes_wait_for_no_timer(const char *key)
{
    const char *transport = test_init_string();
    struct child target, origin;
    char target_init[256], origin_init[256], line[512], address[512];
    int soon = -1;

    (void) snprintf(target_init, sizeof(target_init), "%s://" HOSTS_TARGET ":7121", transport);
    (void) snprintf(origin_init, sizeof(origin_init), "%s://" HOSTS_ORIGIN, transport);
    hosts_start(&target, &origin, target_init, origin_init, key, 10000);
    assert_true(child_tell(&target, "open"));
    assert_true(child_read_line(&target, address, sizeof(address), 60000));
    assert_true(child_tell(&origin, address));
    assert_true(child_read_line(&origin, line, sizeof(line), 60000));
    print_message("%d echoes: %s\n", ECHOES, line);
    assert_int_equal(sscanf(line, "%d soon", &soon), 1);
    assert_in_range(soon, ECHOES / 2, ECHOES); /* on a busy machine some are late, but not most */
    assert_int_equal(child_collect(&origin, 20000), 0);
    assert_true(child_tell(&target, "stop"));
    assert_int_equal(child_collect(&target, 20000), 0);
}

static void without_a_key(void **state)
{
    (void) state;
    echoes_wait_for_no_timer("");
}

static void with_a_key(void **state)
{
    (void) state;
    echoes_wait_for_no_timer("a key of this test");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_key),
        cmocka_unit_test(with_a_key),
    };
    char reason[256];

    if (argc == 4 && strcmp(argv[1], "target") == 0)
        return host_serve(argv[2], argv[3][0] != '\0' ? argv[3] : NULL);
    if (argc == 4 && strcmp(argv[1], "origin") == 0)
        return role_origin(argv[2], argv[3][0] != '\0' ? argv[3] : NULL);
    if (!hosts_possible(reason, sizeof(reason))) {
        printf("skipped: %s\n", reason);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Sends echoes one after the other and prints how many were answered soon. The first one, which
 * connects, does not count. */
static int role_origin(const char *init_string, const char *key)
{
    struct service service;
    hg_addr_t address = HG_ADDR_NULL;
    char target[512];
    hg_return_t ret = HG_SUCCESS;
    int soon = 0;

    if (!host_begin(target, sizeof(target)) ||
        !service_open_with_key(&service, init_string, false, key) ||
        HG_Addr_lookup2(service.hg_class, target, &address) != HG_SUCCESS)
        return 1;
    for (uint64_t i = 0; i <= ECHOES && ret == HG_SUCCESS; i++) {
        const long long begun = now_ms();

        ret = service_echo(&service, address, i, "from the same node", 20000);
        soon += i > 0 && now_ms() - begun < SOON_MS;
    }
    if (ret == HG_SUCCESS)
        printf("%d soon\n", soon);
    else
        printf("%s\n", HG_Error_to_string(ret));
    fflush(stdout);
    HG_Addr_free(service.hg_class, address);
    return service_close(&service) ? 0 : 3;
}
