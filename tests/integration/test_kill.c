/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process is killed in the middle of RPCs and bulk transfers, over any transport. Everything that
 * its peers have pending completes with an error within a second (AMALGAM_TEST_DEATH_MS), and the
 * peers go on to work, also with a new process at the address of the killed one.
 */
#include "child.h"
#include "service.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define IN_FLIGHT       64
#define BULK_SIZE       (32u << 20)
#define ERROR_WITHIN_MS 1000
/* Added to the second under sanitizers and load: the test is that the wait is bounded. */
#define SLACK_MS 20000
/* Starting a target again may fail until the system has released the address of the killed one. */
#define RESTART_TRIES   100
#define SUCCESSOR_TRIES 30

struct pending {
    int open; /* forwards that have not completed */
    int answered;
    int failed;
    int none_left;
};

static int role_target(const char *init_string);
static int role_origin_echo(const char *init_string, const char *address);
static hg_return_t echo_after_death(struct service *service, const char *init_string,
                                    hg_addr_t addr, uint64_t number, const char *text);
static int role_origin_pull(const char *init_string, const char *address, const char *rounds);
static void start_target(struct child *child, char *address, size_t size);
static void restart_target(struct child *child, char *address, size_t size);
static int error_within_ms(void);
static void check_service(struct service *service, hg_addr_t addr);
static hg_return_t count_done(const struct hg_cb_info *info);
static hg_handle_t forward_pull(struct service *service, hg_addr_t address, hg_bulk_t memory,
                                uint32_t rounds, struct pending *pending);

static void target_killed_fails_every_pending_forward_within_a_second(void **state)
{
    struct service service;
    struct pending pending = {.open = IN_FLIGHT};
    struct child target;
    char address[256];
    hg_handle_t handles[IN_FLIGHT];
    hg_addr_t addr;
    echo_in_t in = {.number = 1, .text = "no answer comes"};

    (void) state;
    start_target(&target, address, sizeof(address));
    assert_true(service_open(&service, test_init_string(), false));
    assert_int_equal(HG_Addr_lookup2(service.hg_class, address, &addr), HG_SUCCESS);
    assert_int_equal(service_echo(&service, addr, 5, "hello", 60000), HG_SUCCESS);
    for (int i = 0; i < IN_FLIGHT; i++) {
        assert_int_equal(HG_Create(service.context, addr, service.silent, &handles[i]), HG_SUCCESS);
        assert_int_equal(HG_Forward(handles[i], count_done, &pending, &in), HG_SUCCESS);
    }
    assert_int_equal(service_echo(&service, addr, 6, "all are there", 60000), HG_SUCCESS);
    assert_int_equal(pending.open, IN_FLIGHT);

    child_kill(&target);
    service_run(&service, &pending.none_left, error_within_ms());
    assert_int_equal(pending.open, 0);
    assert_int_equal(pending.failed, IN_FLIGHT);

    assert_int_not_equal(service_echo(&service, addr, 7, "anybody?", 3000), HG_SUCCESS);
    for (int i = 0; i < IN_FLIGHT; i++)
        assert_int_equal(HG_Destroy(handles[i]), HG_SUCCESS);
    assert_int_equal(child_collect(&target, 60000), 128 + SIGKILL);
    assert_int_equal(HG_Addr_free(service.hg_class, addr), HG_SUCCESS);
    assert_true(service_close(&service));
}

static void origin_killed_during_rpcs_leaves_the_target_serving(void **state)
{
    struct service service;
    struct child target, origin;
    char address[256], line[64];
    hg_addr_t addr;

    (void) state;
    start_target(&target, address, sizeof(address));
    for (int round = 0; round < 3; round++) {
        assert_true(child_start(
            &origin, (const char *const[]){"origin-echo", test_init_string(), address, NULL}));
        assert_true(child_read_line(&origin, line, sizeof(line), 60000));
        child_kill(&origin);
        assert_int_equal(child_collect(&origin, 60000), 128 + SIGKILL);
    }
    assert_true(service_open(&service, test_init_string(), false));
    assert_int_equal(HG_Addr_lookup2(service.hg_class, address, &addr), HG_SUCCESS);
    assert_int_equal(echo_after_death(&service, test_init_string(), addr, 7, "still there"),
                     HG_SUCCESS);
    HG_Addr_free(service.hg_class, addr);
    assert_true(service_close(&service));
    child_tell(&target, "quit");
    assert_int_equal(child_collect(&target, 60000), 0);
}

static void origin_killed_during_bulk_fails_the_pull_and_nothing_else(void **state)
{
    struct service service;
    struct child target, origin;
    char address[256], line[64];
    hg_addr_t addr;

    (void) state;
    start_target(&target, address, sizeof(address));
    assert_true(child_start(&origin, (const char *const[]){"origin-pull", test_init_string(),
                                                           address, "1000000", NULL}));
    assert_true(child_read_line(&origin, line, sizeof(line), 60000));
    child_kill(&origin);
    assert_int_equal(child_collect(&origin, 60000), 128 + SIGKILL);

    assert_true(service_open(&service, test_init_string(), false));
    assert_int_equal(HG_Addr_lookup2(service.hg_class, address, &addr), HG_SUCCESS);
    assert_int_equal(echo_after_death(&service, test_init_string(), addr, 8, "next caller"),
                     HG_SUCCESS);
    HG_Addr_free(service.hg_class, addr);
    assert_true(service_close(&service));

    child_tell(&target, "quit");
    assert_true(child_read_line(&target, line, sizeof(line), 2 * error_within_ms()));
    assert_string_equal(line, "pulls ok 0 failed 1");
    assert_int_equal(child_collect(&target, 60000), 0);
}

static void target_killed_during_bulk_fails_the_forward_within_a_second(void **state)
{
    struct service service;
    struct pending pending = {.open = 1};
    struct child target;
    char address[256];
    hg_addr_t addr;
    hg_bulk_t memory;
    hg_size_t size = BULK_SIZE;
    void *buffer = calloc(1, size);

    (void) state;
    start_target(&target, address, sizeof(address));
    assert_true(service_open(&service, test_init_string(), false));
    assert_int_equal(HG_Addr_lookup2(service.hg_class, address, &addr), HG_SUCCESS);
    assert_int_equal(
        HG_Bulk_create(service.hg_class, 1, &buffer, &size, HG_BULK_READ_ONLY, &memory),
        HG_SUCCESS);
    hg_handle_t handle = forward_pull(&service, addr, memory, 1000000, &pending);
    assert_int_equal(service_echo(&service, addr, 8, "begun", 60000), HG_SUCCESS);
    assert_int_equal(pending.open, 1);

    child_kill(&target);
    service_run(&service, &pending.none_left, error_within_ms());
    assert_int_equal(pending.failed, 1);

    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(memory), HG_SUCCESS);
    assert_int_equal(child_collect(&target, 60000), 128 + SIGKILL);
    HG_Addr_free(service.hg_class, addr);
    assert_true(service_close(&service));
    free(buffer);
}

static void restarted_target_is_found_and_the_dead_one_is_cleaned_up(void **state)
{
    struct service service;
    struct child target;
    char address[256];
    hg_addr_t addr;
    pid_t dead;

    (void) state;
    start_target(&target, address, sizeof(address));
    dead = target.pid;
    child_kill(&target);
    assert_int_equal(child_collect(&target, 60000), 128 + SIGKILL);

    start_target(&target, address, sizeof(address));
    assert_false(child_left_files(dead));
    assert_true(service_open(&service, test_init_string(), false));
    assert_int_equal(HG_Addr_lookup2(service.hg_class, address, &addr), HG_SUCCESS);
    assert_int_equal(service_echo(&service, addr, 9, "new life", 60000), HG_SUCCESS);
    HG_Addr_free(service.hg_class, addr);
    assert_true(service_close(&service));
    child_tell(&target, "quit");
    assert_int_equal(child_collect(&target, 60000), 0);
    assert_false(child_left_files(target.pid));
    assert_false(child_left_files(getpid()));
}

/*
 * The target is killed and started again at the same address. Pending operations of the origin end
 * with an error. RPCs and bulk transfers to the new target work, although the origin still keeps
 * the old address.
 */
static void target_restarted_at_its_address_serves_the_same_origin(void **state)
{
    struct service service;
    struct child target;
    char address[256];
    hg_addr_t old, addr;
    echo_in_t in = {.number = 1, .text = "no answer comes"};

    (void) state;
    start_target(&target, address, sizeof(address));
    assert_true(service_open(&service, test_init_string(), false));
    assert_int_equal(HG_Addr_lookup2(service.hg_class, address, &old), HG_SUCCESS);
    for (int round = 0; round < 3; round++) {
        struct pending pending = {.open = IN_FLIGHT};
        hg_handle_t handles[IN_FLIGHT];

        check_service(&service, old);
        for (int i = 0; i < IN_FLIGHT; i++) {
            assert_int_equal(HG_Create(service.context, old, service.silent, &handles[i]),
                             HG_SUCCESS);
            assert_int_equal(HG_Forward(handles[i], count_done, &pending, &in), HG_SUCCESS);
        }
        service_run(&service, &pending.none_left, 50);
        child_kill(&target);
        if (round > 0) /* in the first round the target remains a zombie meanwhile */
            assert_int_equal(child_collect(&target, 60000), 128 + SIGKILL);
        service_run(&service, &pending.none_left, error_within_ms());
        assert_int_equal(pending.failed, IN_FLIGHT);
        for (int i = 0; i < IN_FLIGHT; i++)
            assert_int_equal(HG_Destroy(handles[i]), HG_SUCCESS);
        if (round == 0)
            assert_int_equal(child_collect(&target, 60000), 128 + SIGKILL);

        restart_target(&target, address, sizeof(address));
        assert_int_equal(HG_Addr_lookup2(service.hg_class, address, &addr), HG_SUCCESS);
        check_service(&service, addr);
        assert_int_equal(HG_Addr_free(service.hg_class, old), HG_SUCCESS);
        old = addr;
    }
    assert_int_equal(HG_Addr_free(service.hg_class, old), HG_SUCCESS);
    assert_true(service_close(&service));
    child_tell(&target, "quit");
    assert_int_equal(child_collect(&target, 60000), 0);
    assert_false(child_left_files(getpid()));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(target_killed_fails_every_pending_forward_within_a_second),
        cmocka_unit_test(origin_killed_during_rpcs_leaves_the_target_serving),
        cmocka_unit_test(origin_killed_during_bulk_fails_the_pull_and_nothing_else),
        cmocka_unit_test(target_killed_during_bulk_fails_the_forward_within_a_second),
        cmocka_unit_test(restarted_target_is_found_and_the_dead_one_is_cleaned_up),
        cmocka_unit_test(target_restarted_at_its_address_serves_the_same_origin),
    };

    if (argc == 3 && strcmp(argv[1], "target") == 0)
        return role_target(argv[2]);
    if (argc == 4 && strcmp(argv[1], "origin-echo") == 0)
        return role_origin_echo(argv[2], argv[3]);
    if (argc == 5 && strcmp(argv[1], "origin-pull") == 0)
        return role_origin_pull(argv[2], argv[3], argv[4]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Serves until the test sends a line and each pull has ended, then prints the counts. */
static int role_target(const char *init_string)
{
    struct service service;

    if (!service_open(&service, init_string, true) || !service_print_address(&service))
        return 1;
    for (;;) {
        fd_set readable;
        struct timeval none = {0, 0};

        service_run(&service, NULL, 20);
        FD_ZERO(&readable);
        FD_SET(STDIN_FILENO, &readable);
        if (select(STDIN_FILENO + 1, &readable, NULL, NULL, &none) > 0)
            break;
    }
    for (int ms = 0;
         service.pulls_ok + service.pulls_failed < service.pulls_started && ms < error_within_ms();
         ms += 20)
        service_run(&service, NULL, 20);
    printf("pulls ok %u failed %u\n", service.pulls_ok, service.pulls_failed);
    fflush(stdout);
    return service_close(&service) ? 0 : 2;
}

/* Echoes for ever. After the first echoes it tells the test that it is running. */
static int role_origin_echo(const char *init_string, const char *address)
{
    struct service service;
    hg_addr_t addr;

    if (!service_open(&service, init_string, false) ||
        HG_Addr_lookup2(service.hg_class, address, &addr) != HG_SUCCESS)
        return 1;
    for (uint64_t i = 0;; i++) {
        if (echo_after_death(&service, init_string, addr, i, "around") != HG_SUCCESS)
            return 2;
        if (i == 50) {
            printf("running\n");
            fflush(stdout);
        }
    }
}

/* With UCX's shared memory the target may notice late that a killed process left the memory
 * inconsistent. Then all peers on the node reconnect, and their operations in flight fail. */
static hg_return_t echo_after_death(struct service *service, const char *init_string,
                                    hg_addr_t addr, uint64_t number, const char *text)
{
    const int tries = strcmp(init_string, "ucx+all") == 0 ? 4 : 1;
    hg_return_t ret = HG_HOSTUNREACH;

    for (int i = 0; i < tries && ret == HG_HOSTUNREACH; i++)
        ret = service_echo(service, addr, number, text, 60000);
    return ret;
}

/* Exposes memory that the target pulls many times. */
static int role_origin_pull(const char *init_string, const char *address, const char *rounds)
{
    struct service service;
    struct pending pending = {.open = 1};
    hg_addr_t addr;
    hg_bulk_t memory;
    hg_size_t size = BULK_SIZE;
    void *buffer = calloc(1, size);

    if (!service_open(&service, init_string, false) ||
        HG_Addr_lookup2(service.hg_class, address, &addr) != HG_SUCCESS ||
        HG_Bulk_create(service.hg_class, 1, &buffer, &size, HG_BULK_READ_ONLY, &memory) !=
            HG_SUCCESS)
        return 1;
    forward_pull(&service, addr, memory, (uint32_t) strtoul(rounds, NULL, 10), &pending);
    /* RPCs arrive in order: when this one is answered, the pull has begun. */
    if (service_echo(&service, addr, 8, "begun", 60000) != HG_SUCCESS)
        return 2;
    printf("running\n");
    fflush(stdout);
    service_run(&service, &pending.none_left, 60000);
    return 3;
}

static void start_target(struct child *child, char *address, size_t size)
{
    assert_true(child_start(child, (const char *const[]){"target", test_init_string(), NULL}));
    assert_true(child_read_line(child, address, size, 60000));
}

/*
 * Starts a new target at the address that the last one printed: the address of an endpoint is also
 * the init string that opens it. MPI chooses the addresses, so there the new target has another
 * one.
 */
static void restart_target(struct child *child, char *address, size_t size)
{
    char again[256];

    if (strcmp(test_init_string(), "mpi+dynamic") == 0) {
        start_target(child, address, size);
        return;
    }
    for (int i = 0; i < RESTART_TRIES; i++) {
        assert_true(child_start(child, (const char *const[]){"target", address, NULL}));
        if (child_read_line(child, again, sizeof(again), 60000)) {
            assert_string_equal(again, address);
            return;
        }
        /* the system has not released the address yet */
        assert_int_equal(child_collect(child, 60000), 1);
        usleep(50000);
    }
    fail();
}

static int error_within_ms(void)
{
    return (int) test_number("AMALGAM_TEST_DEATH_MS", ERROR_WITHIN_MS) + SLACK_MS;
}

/*
 * Checks an echo, and an RPC whose target pulls our memory. A new process at the address of a
 * killed one has a second to answer, which may be too short on a busy machine: the echo is
 * repeated.
 */
static void check_service(struct service *service, hg_addr_t addr)
{
    hg_return_t ret = HG_HOSTUNREACH;
    struct pending pending = {.open = 1};
    hg_size_t size = 1 << 20;
    void *buffer = calloc(1, size);
    hg_handle_t handle;
    hg_bulk_t memory;

    for (int i = 0; ret == HG_HOSTUNREACH && i < SUCCESSOR_TRIES; i++)
        ret = service_echo(service, addr, 8, "are you there", 60000);
    assert_int_equal(ret, HG_SUCCESS);
    assert_int_equal(
        HG_Bulk_create(service->hg_class, 1, &buffer, &size, HG_BULK_READ_ONLY, &memory),
        HG_SUCCESS);
    handle = forward_pull(service, addr, memory, 3, &pending);
    service_run(service, &pending.none_left, 60000);
    assert_int_equal(pending.answered, 1);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(memory), HG_SUCCESS);
    free(buffer);
}

static hg_return_t count_done(const struct hg_cb_info *info)
{
    struct pending *pending = info->arg;

    pending->open--;
    if (info->ret == HG_SUCCESS)
        pending->answered++;
    else
        pending->failed++;
    pending->none_left = pending->open == 0;
    return HG_SUCCESS;
}

static hg_handle_t forward_pull(struct service *service, hg_addr_t address, hg_bulk_t memory,
                                uint32_t rounds, struct pending *pending)
{
    pull_in_t in = {.memory = memory, .rounds = rounds};
    hg_handle_t handle = HG_HANDLE_NULL;

    if (HG_Create(service->context, address, service->pull, &handle) != HG_SUCCESS ||
        HG_Forward(handle, count_done, pending, &in) != HG_SUCCESS)
        pending->open = -1;
    return handle;
}
