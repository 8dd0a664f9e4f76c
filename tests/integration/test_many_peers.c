/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One target and 1,000 origins (AMALGAM_TEST_PEERS) that are all connected at the same time, in
 * processes that hold several endpoints each (AMALGAM_TEST_PER_PROCESS), under the usual limit of
 * 1,024 descriptors (AMALGAM_TEST_DESCRIPTORS: a transport with a socket for each peer needs more).
 */
#include "child.h"
#include "service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define PER_PROCESS   50
#define PROCESSES_MAX 512
#define DESCRIPTORS   1024
#define ROUND_SECONDS 200

static int role_origins(const char *init_string, const char *address, const char *count);
static void limit_descriptors(void);
static int round_ms(void);

static void a_target_serves_many_connected_origins(void **state)
{
    struct service service;
    struct child origins[PROCESSES_MAX];
    char address[256], line[64], count[16];
    hg_size_t size = sizeof(address);
    const int peers = (int) test_number("AMALGAM_TEST_PEERS", PEERS);
    const int each = (int) test_number("AMALGAM_TEST_PER_PROCESS", PER_PROCESS);
    const int processes = (peers + each - 1) / each;
    hg_addr_t self;

    (void) state;
    assert_in_range(processes, 1, PROCESSES_MAX);
    limit_descriptors();
    assert_true(service_open(&service, test_init_string(), true));
    assert_int_equal(HG_Addr_self(service.hg_class, &self), HG_SUCCESS);
    assert_int_equal(HG_Addr_to_string(service.hg_class, address, &size, self), HG_SUCCESS);
    HG_Addr_free(service.hg_class, self);
    for (int i = 0; i < processes; i++) {
        snprintf(count, sizeof(count), "%d", i + 1 < processes ? each : peers - i * each);
        assert_true(child_start(&origins[i], (const char *const[]){"origins", test_init_string(),
                                                                   address, count, NULL}));
    }

    /* Each endpoint calls once while the others connect, and once more when all are connected. */
    for (unsigned int round = 1; round <= 2; round++) {
        const long long end = now_ms() + round_ms();

        while (service.echoes < round * (unsigned int) peers && now_ms() < end)
            service_run(&service, NULL, 20);
        assert_int_equal(service.echoes, round * (unsigned int) peers);
        for (int i = 0; i < processes; i++) {
            assert_true(child_read_line(&origins[i], line, sizeof(line), 60000));
            assert_string_equal(line, "ok");
        }
        for (int i = 0; i < processes; i++)
            child_tell(&origins[i], "go on");
    }
    for (int i = 0; i < processes; i++)
        assert_int_equal(child_collect(&origins[i], 60000), 0);
    assert_true(service_close(&service));
    assert_false(child_left_files(getpid()));
    for (int i = 0; i < processes; i++)
        assert_false(child_left_files(origins[i].pid));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_target_serves_many_connected_origins),
    };

    if (argc == 5 && strcmp(argv[1], "origins") == 0)
        return role_origins(argv[2], argv[3], argv[4]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

static int role_origins(const char *init_string, const char *address, const char *count)
{
    const int endpoints = atoi(count);
    struct service *services = calloc((size_t) endpoints, sizeof(*services));
    hg_addr_t *addrs = calloc((size_t) endpoints, sizeof(*addrs));
    char line[16];

    for (int i = 0; i < endpoints; i++)
        if (!service_open(&services[i], init_string, false) ||
            HG_Addr_lookup2(services[i].hg_class, address, &addrs[i]) != HG_SUCCESS)
            return 1;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < endpoints; i++) {
            const hg_return_t ret =
                service_echo(&services[i], addrs[i], (uint64_t) i, "one of many", round_ms());

            if (ret != HG_SUCCESS) {
                printf("endpoint %d: %s\n", i, HG_Error_to_string(ret));
                fflush(stdout);
                return 2;
            }
        }
        printf("ok\n");
        fflush(stdout);
        if (fgets(line, sizeof(line), stdin) == NULL)
            return 3;
    }
    for (int i = 0; i < endpoints; i++) {
        HG_Addr_free(services[i].hg_class, addrs[i]);
        if (!service_close(&services[i]))
            return 4;
    }
    free(addrs);
    free(services);
    return 0;
}

static void limit_descriptors(void)
{
    const rlim_t wanted = (rlim_t) test_number("AMALGAM_TEST_DESCRIPTORS", DESCRIPTORS);
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    limit.rlim_max = limit.rlim_cur;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* The longest time for one call of every origin. */
static int round_ms(void)
{
    return (int) test_number("AMALGAM_TEST_ROUND_SECONDS", ROUND_SECONDS) * 1000;
}
