/* SPDX-License-Identifier: BSD-3-Clause */
/* Target and origin on two hosts. The cable between them is pulled in the middle of RPCs and bulk
 * transfers, and plugged in again: each operation completes once, and new ones work. */
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

#define RPCS       16
#define PULLS      2
#define PULL_SIZE  (8u << 20)
#define OUTAGE_US  2000000
#define ALL_END_MS 60000

/* An operation of the origin that is started again after each completion. */
struct call {
    struct load *load;
    hg_handle_t handle;
    int running;
};

struct load {
    struct service service;
    hg_addr_t address;
    hg_bulk_t memory;
    struct call calls[RPCS + PULLS];
    unsigned long succeeded, failed, twice;
    int open;
    int stopping;
    int none_left;
};

static int role_origin(const char *init_string);
static bool load_open(struct load *load, const char *init_string, const char *target);
static hg_return_t call_start(struct call *call);
static hg_return_t call_done(const struct hg_cb_info *info);
static void at_address(char *text, size_t size, const char *address);

static void cable_pulled_during_rpcs_and_bulk_loses_nothing(void **state)
{
    struct child target, origin;
    char target_init[256], origin_init[256], line[512], address[512];
    unsigned long succeeded = 0, failed = 0, twice = 1;
    int open = -1, echo = -1;

    (void) state;
    at_address(target_init, sizeof(target_init), HOSTS_TARGET ":7117");
    at_address(origin_init, sizeof(origin_init), HOSTS_ORIGIN);
    hosts_start(&target, &origin, target_init, origin_init, NULL, 10000);
    assert_true(child_tell(&target, "open"));
    assert_true(child_read_line(&target, address, sizeof(address), 60000));
    assert_true(child_tell(&origin, address));
    assert_true(child_read_line(&origin, line, sizeof(line), 60000));
    assert_string_equal(line, "running");
    usleep(500000);
    assert_true(host_cable(target.pid, false));
    usleep(OUTAGE_US);
    assert_true(host_cable(target.pid, true));
    usleep(500000);

    assert_true(child_tell(&origin, "stop"));
    assert_true(child_read_line(&origin, line, sizeof(line), ALL_END_MS + 20000));
    print_message("%s\n", line);
    assert_int_equal(sscanf(line, "succeeded %lu failed %lu twice %lu open %d echo %d", &succeeded,
                            &failed, &twice, &open, &echo),
                     5);
    assert_true(succeeded > 0);
    assert_int_equal(twice, 0);
    assert_int_equal(open, 0);
    assert_int_equal(echo, HG_SUCCESS);
    assert_int_equal(child_collect(&origin, 20000), 0);
    assert_true(child_tell(&target, "stop"));
    assert_int_equal(child_collect(&target, 20000), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cable_pulled_during_rpcs_and_bulk_loses_nothing),
    };
    char reason[256];

    if (argc == 3 && strcmp(argv[1], "target") == 0)
        return host_serve(argv[2], NULL);
    if (argc == 3 && strcmp(argv[1], "origin") == 0)
        return role_origin(argv[2]);
    if (!hosts_possible(reason, sizeof(reason))) {
        printf("skipped: %s\n", reason);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Keeps RPCs and pulls in flight until the test says stop, waits for all to end, and prints the
 * counts and the result of one last echo. */
static int role_origin(const char *init_string)
{
    struct load load = {0};
    char target[512];
    hg_return_t echo;

    if (!host_begin(target, sizeof(target)) || !load_open(&load, init_string, target))
        return 1;
    for (int i = 0; i < RPCS + PULLS; i++) {
        if (call_start(&load.calls[i]) != HG_SUCCESS)
            return 2;
    }
    printf("running\n");
    fflush(stdout);
    while (!child_is_told())
        service_run(&load.service, &load.none_left, 20);
    load.stopping = 1;
    service_run(&load.service, &load.none_left, ALL_END_MS);

    echo = service_echo(&load.service, load.address, 5, "after the outage", 20000);
    printf("succeeded %lu failed %lu twice %lu open %d echo %d\n", load.succeeded, load.failed,
           load.twice, load.open, (int) echo);
    fflush(stdout);
    for (int i = 0; i < RPCS + PULLS; i++)
        HG_Destroy(load.calls[i].handle);
    HG_Bulk_free(load.memory);
    HG_Addr_free(load.service.hg_class, load.address);
    return service_close(&load.service) ? 0 : 3;
}

static bool load_open(struct load *load, const char *init_string, const char *target)
{
    hg_size_t size = PULL_SIZE;

    if (!service_open(&load->service, init_string, false) ||
        HG_Addr_lookup2(load->service.hg_class, target, &load->address) != HG_SUCCESS ||
        HG_Bulk_create(load->service.hg_class, 1, NULL, &size, HG_BULK_READ_ONLY, &load->memory) !=
            HG_SUCCESS)
        return false;
    for (int i = 0; i < RPCS + PULLS; i++) {
        struct call *call = &load->calls[i];

        call->load = load;
        if (HG_Create(load->service.context, load->address,
                      i < RPCS ? load->service.echo : load->service.pull,
                      &call->handle) != HG_SUCCESS)
            return false;
    }
    return true;
}

static hg_return_t call_start(struct call *call)
{
    struct load *load = call->load;
    echo_in_t echo = {.number = 1, .text = "hello"};
    pull_in_t pull = {.memory = load->memory, .rounds = 2};
    const bool is_echo = call < &load->calls[RPCS];
    hg_return_t ret;

    call->running = 1;
    load->open++;
    ret = HG_Forward(call->handle, call_done, call, is_echo ? (void *) &echo : (void *) &pull);
    if (ret != HG_SUCCESS) {
        call->running = 0;
        load->open--;
    }
    return ret;
}

static hg_return_t call_done(const struct hg_cb_info *info)
{
    struct call *call = info->arg;
    struct load *load = call->load;

    if (!call->running)
        load->twice++;
    call->running = 0;
    load->open--;
    if (info->ret == HG_SUCCESS)
        load->succeeded++;
    else
        load->failed++;
    /* Not restarted at once after an error, or a broken link would cause a busy loop. */
    if (!load->stopping && info->ret == HG_SUCCESS)
        call_start(call);
    load->none_left = load->stopping && load->open == 0;
    return HG_SUCCESS;
}

/* The init string under test with another address after "://". */
static void at_address(char *text, size_t size, const char *address)
{
    const char *init = test_init_string();
    const char *end = strstr(init, "://");

    snprintf(text, size, "%.*s://%s", (int) (end != NULL ? (size_t) (end - init) : strlen(init)),
             init, address);
}
