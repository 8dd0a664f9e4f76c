/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Target and origin on two hosts, and a network between them that becomes silent: packets vanish
 * without an error. Every pending operation ends with an error, on established and on new
 * connections. When the network works again, the target is reachable again. A target that is only
 * stopped (SIGSTOP) is waited for.
 */
#include "child.h"
#include "hosts.h"
#include "hosts_pair.h"
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

#define RPCS        8
#define PULL_SIZE   (8u << 20)
#define PULL_ROUNDS 1000000u
#define STILL_US    10000000 /* twice AMALGAM_SILENCE_TIMEOUT of this test */
#define END_MS      120000

/* RPCs that are never answered, and one whose target pulls our memory again and again. */
struct pending {
    int open, unreachable;
    int none_left;
    hg_handle_t handles[RPCS + 1];
    hg_bulk_t memory;
};

static int role_origin(const char *init_string);
static void tell(const char *what, int value);
static hg_return_t echo_at_last(struct service *service, hg_addr_t address);
static bool pending_start(struct service *service, hg_addr_t address, struct pending *pending);
static hg_return_t pending_done(const struct hg_cb_info *info);
static void pending_free(struct pending *pending);
static void at_address(char *text, size_t size, const char *address);
static unsigned int connections_to_accept(pid_t pid);
static int expect(struct child *child, const char *what);
static void hosts_meet(struct child *target, struct child *origin);
static void hosts_end(struct child *target, struct child *origin);

static void silence_is_an_error_and_its_end_is_not(void **state)
{
    struct child target, origin;

    (void) state;
    hosts_meet(&target, &origin);
    assert_true(child_tell(&origin, "begin"));
    assert_int_equal(expect(&origin, "begun"), RPCS + 1);
    assert_true(host_silence(target.pid, HOSTS_ORIGIN, true));
    assert_true(host_silence(origin.pid, HOSTS_TARGET, true));
    assert_true(child_tell(&origin, "wait"));
    assert_int_equal(expect(&origin, "unreachable"), RPCS + 1);
    assert_true(child_tell(&origin, "new"));
    assert_int_equal(expect(&origin, "echo"), HG_HOSTUNREACH);
    assert_true(host_silence(target.pid, HOSTS_ORIGIN, false));
    assert_true(host_silence(origin.pid, HOSTS_TARGET, false));
    assert_true(child_tell(&origin, "again"));
    assert_int_equal(expect(&origin, "echo"), HG_SUCCESS);
    hosts_end(&target, &origin);
}

/* A stopped target is not an error. The probes of the origin do not fill its queue of connections
 * to accept. */
static void standing_still_is_no_silence(void **state)
{
    struct child target, origin;
    unsigned int queued;

    (void) state;
    hosts_meet(&target, &origin);
    assert_int_equal(kill(target.pid, SIGSTOP), 0);
    assert_true(child_tell(&origin, "still"));
    usleep(STILL_US);
    queued = connections_to_accept(target.pid);
    print_message("%u connections wait for the target to accept them\n", queued);
    assert_in_range(queued, 0, 2);
    assert_int_equal(kill(target.pid, SIGCONT), 0);
    assert_int_equal(expect(&origin, "echo"), HG_SUCCESS);
    hosts_end(&target, &origin);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_is_an_error_and_its_end_is_not),
        cmocka_unit_test(standing_still_is_no_silence),
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

static void hosts_meet(struct child *target, struct child *origin)
{
    char target_init[256], origin_init[256], address[512];

    at_address(target_init, sizeof(target_init), HOSTS_TARGET ":7119");
    at_address(origin_init, sizeof(origin_init), HOSTS_ORIGIN);
    hosts_start(target, origin, target_init, origin_init, NULL, END_MS + 20000);
    assert_true(child_tell(target, "open"));
    assert_true(child_read_line(target, address, sizeof(address), END_MS));
    assert_true(child_tell(origin, address));
    assert_int_equal(expect(origin, "echo"), HG_SUCCESS);
}

static void hosts_end(struct child *target, struct child *origin)
{
    assert_true(child_tell(origin, "stop"));
    assert_int_equal(child_collect(origin, END_MS), 0);
    assert_true(child_tell(target, "stop"));
    assert_int_equal(child_collect(target, END_MS), 0);
}

/* Reads the child's next line, which has to be about `what`, and returns its number. */
static int expect(struct child *child, const char *what)
{
    char line[128], word[64] = "";
    int value = -1;

    assert_true(child_read_line(child, line, sizeof(line), END_MS + 20000));
    print_message("%s\n", line);
    (void) sscanf(line, "%63s %d", word, &value);
    assert_string_equal(word, what);
    return value;
}

static int role_origin(const char *init_string)
{
    struct service service, other;
    struct pending pending = {0};
    char word[512], target[512];
    hg_addr_t address, again;

    if (!host_begin(target, sizeof(target)) || !service_open(&service, init_string, false) ||
        HG_Addr_lookup2(service.hg_class, target, &address) != HG_SUCCESS)
        return 1;
    tell("echo", (int) service_echo(&service, address, 1, "hello", END_MS));
    while (child_hear(word, sizeof(word)) && strcmp(word, "stop") != 0) {
        if (strcmp(word, "begin") == 0) {
            if (!pending_start(&service, address, &pending))
                return 2;
            service_run(&service, &pending.none_left, 200);
            tell("begun", pending.open);
        } else if (strcmp(word, "wait") == 0) {
            service_run(&service, &pending.none_left, END_MS);
            tell("unreachable", pending.unreachable);
        } else if (strcmp(word, "still") == 0) {
            tell("echo", (int) service_echo(&service, address, 2, "still there", END_MS));
        } else if (strcmp(word, "again") == 0) {
            tell("echo", (int) echo_at_last(&service, address));
        } else if (!service_open(&other, init_string, false) ||
                   HG_Addr_lookup2(other.hg_class, target, &again) != HG_SUCCESS) {
            return 3;
        } else {
            tell("echo", (int) service_echo(&other, again, 3, "anybody", END_MS));
            HG_Addr_free(other.hg_class, again);
            if (!service_close(&other))
                return 4;
        }
    }
    pending_free(&pending);
    HG_Addr_free(service.hg_class, address);
    return service_close(&service) ? 0 : 5;
}

/* Repeats the echo: the first ones may fail until each side has noticed that the other one
 * abandoned it. */
static hg_return_t echo_at_last(struct service *service, hg_addr_t address)
{
    const long long end = now_ms() + END_MS;
    hg_return_t ret;

    do {
        ret = service_echo(service, address, 2, "again", END_MS);
    } while (ret == HG_HOSTUNREACH && now_ms() < end);
    return ret;
}

static bool pending_start(struct service *service, hg_addr_t address, struct pending *pending)
{
    hg_size_t size = PULL_SIZE;
    echo_in_t echo = {.number = 1, .text = "no answer comes"};
    pull_in_t pull = {.rounds = PULL_ROUNDS};

    if (HG_Bulk_create(service->hg_class, 1, NULL, &size, HG_BULK_READ_ONLY, &pending->memory) !=
        HG_SUCCESS)
        return false;
    pull.memory = pending->memory;
    for (int i = 0; i < RPCS + 1; i++) {
        if (HG_Create(service->context, address, i < RPCS ? service->silent : service->pull,
                      &pending->handles[i]) != HG_SUCCESS ||
            HG_Forward(pending->handles[i], pending_done, pending,
                       i < RPCS ? (void *) &echo : (void *) &pull) != HG_SUCCESS)
            return false;
        pending->open++;
    }
    return true;
}

static hg_return_t pending_done(const struct hg_cb_info *info)
{
    struct pending *pending = info->arg;

    pending->open--;
    pending->unreachable += info->ret == HG_HOSTUNREACH;
    pending->none_left = pending->open == 0;
    return HG_SUCCESS;
}

static void pending_free(struct pending *pending)
{
    for (int i = 0; i < RPCS + 1; i++)
        if (pending->handles[i] != HG_HANDLE_NULL)
            HG_Destroy(pending->handles[i]);
    if (pending->memory != HG_BULK_NULL)
        HG_Bulk_free(pending->memory);
}

static void tell(const char *what, int value)
{
    printf("%s %d\n", what, value);
    fflush(stdout);
}

/* The init string under test with another address after "://". */
static void at_address(char *text, size_t size, const char *address)
{
    const char *init = test_init_string();
    const char *end = strstr(init, "://");

    snprintf(text, size, "%.*s://%s", (int) (end != NULL ? (size_t) (end - init) : strlen(init)),
             init, address);
}

/* Returns how many connections wait in the accept queues of the network namespace of a process. */
static unsigned int connections_to_accept(pid_t pid)
{
    static const char *const tables[] = {"tcp", "tcp6"};
    unsigned int sum = 0;

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        unsigned int state, queue;
        char path[64], line[512];
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/net/%s", (int) pid, tables[i]);
        file = fopen(path, "r");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file) != NULL)
            if (sscanf(line, " %*u: %*s %*s %x %*x:%x", &state, &queue) == 2 && state == 0x0a)
                sum += queue;
        (void) fclose(file);
    }
    return sum;
}
