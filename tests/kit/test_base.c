/* SPDX-License-Identifier: BSD-3-Clause */
/* The base of the kit: the host's table, lists, tables, keys, digests, locks, processes. */

#include "kit_base.h"

#include "../kit/plugin_host.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define OBJECTS 5000u
#define LOCKERS 4u
#define LOCKS   20000u

static int setup(void **state)
{
    const char *reason = NULL;

    (void) state;
    return kit_host_set(&plugin_host, &reason);
}

static void a_host_of_another_abi_is_refused(void **state)
{
    struct na_host other = plugin_host;
    const char *reason = NULL;

    (void) state;
    other.abi_version = (NA_PLUGIN_ABI_MAJOR + 1u) << 16;
    assert_int_equal(kit_host_set(&other, &reason), NA_PLUGIN_OPNOTSUPPORTED);
    assert_non_null(strstr(reason, "ABI 1"));
    other = plugin_host;
    other.size = offsetof(struct na_host, clock_ns);
    reason = NULL;
    assert_int_equal(kit_host_set(&other, &reason), NA_PLUGIN_OPNOTSUPPORTED);
    assert_non_null(reason);
    assert_ptr_equal(kit_host, &plugin_host);
}

static void statuses_have_names(void **state)
{
    (void) state;
    assert_string_equal(kit_status_name(NA_PLUGIN_SUCCESS), "NA_SUCCESS");
    assert_string_equal(kit_status_name(NA_PLUGIN_HOSTFIREWALL), "NA_HOSTFIREWALL");
    assert_string_equal(kit_status_name(-1), "no known status");
    assert_string_equal(kit_status_name(NA_PLUGIN_HOSTFIREWALL + 1), "no known status");
}

static void the_name_in_an_address_is_found(void **state)
{
    static const char *const none[] = {
        "sim://x",         "other+net://x", "sim+other://x",   "net+sim://x", "sim+net:/x://y",
        "simulate+net://", "network://x",   "sim+network://x", "://x",        "simnet://x",
    };

    (void) state;
    assert_string_equal(kit_address_name("sim+net://x:1", "sim", "net"), "x:1");
    assert_string_equal(kit_address_name("net://x:1", "sim", "net"), "x:1");
    assert_string_equal(kit_address_name("x:1", "sim", "net"), "x:1");
    assert_string_equal(kit_address_name("sim+net://", "sim", "net"), "");
    assert_string_equal(kit_address_name("", "sim", "net"), "");
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_null(kit_address_name(none[i], "sim", "net"));
}

/* A list element with a number; a list is compared as a string of digits. */
struct item {
    struct kit_link link;
    int number;
};

static int list_read(const struct kit_link *list)
{
    int number = 0;

    for (struct kit_link *link = kit_list_first(list); link != NULL;
         link = kit_list_next(list, link))
        number = 10 * number + kit_container(link, struct item, link)->number;
    return number;
}

static void lists_keep_their_order(void **state)
{
    struct item items[5];
    struct kit_link list;

    (void) state;
    kit_list_init(&list);
    assert_true(kit_list_empty(&list));
    assert_null(kit_list_first(&list));
    for (int i = 0; i < 5; i++)
        items[i].number = i + 1;
    kit_list_start(&list, &items[1].link);
    kit_list_append(&list, &items[2].link);
    kit_list_prepend(&list, &items[0].link);
    kit_list_insert_after(&items[1].link, &items[4].link);
    assert_int_equal(list_read(&list), 1253);
    assert_true(kit_list_contains(&list, &items[4].link));
    kit_list_remove(&items[4].link);
    assert_false(kit_list_contains(&list, &items[4].link));
    kit_list_remove(&items[4].link); /* in no list any more: no effect */
    kit_list_take(&items[0].link);
    kit_list_append(&list, &items[0].link);
    assert_int_equal(list_read(&list), 231);
}

static void options_of_the_init_string_are_found_by_name(void **state)
{
    struct na_plugin_init init = {.size = sizeof(init), .options = "rm=a&rma=copy&empty=&x=1=2"};
    char value[8] = "before";

    (void) state;
    assert_int_equal(kit_option_get(&init, "rma", value, sizeof(value)), NA_PLUGIN_SUCCESS);
    assert_string_equal(value, "copy");
    assert_int_equal(kit_option_get(&init, "x", value, sizeof(value)), NA_PLUGIN_SUCCESS);
    assert_string_equal(value, "1=2");
    assert_int_equal(kit_option_get(&init, "empty", value, sizeof(value)), NA_PLUGIN_SUCCESS);
    assert_string_equal(value, "");
    assert_int_equal(kit_option_get(&init, "rma", value, 4), NA_PLUGIN_OVERFLOW);
    assert_int_equal(kit_option_get(&init, "none", value, sizeof(value)), NA_PLUGIN_NOENTRY);
    init.size = offsetof(struct na_plugin_init, options); /* a core of ABI 1.1, without options */
    assert_int_equal(kit_option_get(&init, "rma", value, sizeof(value)), NA_PLUGIN_NOENTRY);
    init = (struct na_plugin_init){.size = sizeof(init)};
    assert_int_equal(kit_option_get(&init, "rma", value, sizeof(value)), NA_PLUGIN_NOENTRY);
    assert_string_equal(value, "");
}

static void ids_of_what_is_gone_find_nothing(void **state)
{
    struct kit_table table = {0};
    uint64_t *ids = calloc(OBJECTS, sizeof(*ids)), again;
    int object;

    (void) state;
    assert_null(kit_table_find(&table, 0));
    kit_table_remove(&table, 1);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        assert_int_equal(kit_table_add(&table, &ids[i], &ids[i]), NA_PLUGIN_SUCCESS);
        assert_true(ids[i] != 0);
    }
    for (uint32_t i = 0; i < OBJECTS; i++)
        assert_ptr_equal(kit_table_find(&table, ids[i]), &ids[i]);
    kit_table_remove(&table, ids[7]);
    kit_table_remove(&table, ids[7]);
    assert_null(kit_table_find(&table, ids[7]));
    assert_int_equal(kit_table_add(&table, &object, &again), NA_PLUGIN_SUCCESS);
    assert_int_equal((uint32_t) again, (uint32_t) ids[7]); /* the slot is reused */
    assert_null(kit_table_find(&table, ids[7]));
    assert_ptr_equal(kit_table_find(&table, again), &object);
    kit_table_remove(&table, ids[7]);
    assert_ptr_equal(kit_table_find(&table, again), &object);
    assert_null(kit_table_find(&table, UINT64_MAX));
    assert_null(kit_table_find(&table, again ^ UINT64_C(1) << 32));
    assert_null(kit_table_find(&table, (again & ~UINT64_C(0xffffffff)) | UINT32_MAX));
    kit_table_free(&table);
    assert_null(kit_table_find(&table, again));
    free(ids);
}

/* Ids of a table begin at a random number, so that a process that reuses an address does not reuse
 * the ids of its predecessor. */
static void ids_begin_at_random(void **state)
{
    struct kit_table tables[8] = {{0}};
    uint64_t ids[8];
    int differ = 0;

    (void) state;
    for (int i = 0; i < 8; i++)
        assert_int_equal(kit_table_add(&tables[i], ids, &ids[i]), NA_PLUGIN_SUCCESS);
    for (int i = 1; i < 8; i++)
        differ += ids[i] != ids[0];
    assert_true(differ >= 6);
    for (int i = 0; i < 8; i++)
        kit_table_free(&tables[i]);
}

static void a_table_is_full_at_its_limit(void **state)
{
    struct kit_table table = {0};
    uint64_t id;

    (void) state;
    for (uint32_t i = 0; i < KIT_TABLE_MAX; i++)
        assert_int_equal(kit_table_add(&table, &table, &id), NA_PLUGIN_SUCCESS);
    assert_int_equal(kit_table_add(&table, &table, &id), NA_PLUGIN_NOMEM);
    kit_table_remove(&table, id);
    assert_int_equal(kit_table_add(&table, &table, &id), NA_PLUGIN_SUCCESS);
    kit_table_free(&table);
}

static void keys_differ(void **state)
{
    struct kit_keys stock = {.left = 0};
    struct kit_key keys[4 * KIT_KEYS];

    (void) state;
    for (uint32_t i = 0; i < 4 * KIT_KEYS; i++) {
        if (i % 2 == 0)
            assert_int_equal(kit_key_draw(&keys[i]), NA_PLUGIN_SUCCESS);
        else
            assert_int_equal(kit_key_take(&stock, &keys[i]), NA_PLUGIN_SUCCESS);
        assert_true(keys[i].word[0] != 0);
        for (uint32_t j = 0; j < i; j++)
            assert_false(kit_key_is_equal(&keys[i], &keys[j]));
        /* Keys that were handed out are erased from the stock. */
        for (uint32_t j = stock.left; j < KIT_KEYS; j++)
            assert_true((stock.keys[j].word[0] | stock.keys[j].word[1]) == 0);
    }
    keys[1] = keys[0];
    assert_true(kit_key_is_equal(&keys[0], &keys[1]));
    keys[1].word[1] ^= UINT64_C(1) << 63;
    assert_false(kit_key_is_equal(&keys[0], &keys[1]));
}

static void digests_are_those_of_fnv(void **state)
{
    (void) state;
    assert_true(kit_digest_add(KIT_DIGEST_NONE, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(kit_digest_add(KIT_DIGEST_NONE, "foobar", 6) == UINT64_C(0x85944171f73967e8));
    assert_true(kit_digest_add(kit_digest_add(KIT_DIGEST_NONE, "foo", 3), "bar", 3) ==
                kit_digest_add(KIT_DIGEST_NONE, "foobar", 6));
    assert_true(kit_digest("foo", 3) != kit_digest("bar", 3));
}

struct locker {
    struct kit_lock lock;
    uint64_t sum; /* guarded by the lock alone */
};

/* Sometimes holds the lock so long that the other threads go to sleep. */
static void *lock_often(void *arg)
{
    const struct timespec nap = {.tv_nsec = 200000};
    struct locker *locker = arg;

    for (uint32_t i = 0; i < LOCKS; i++) {
        kit_lock_take(&locker->lock);
        locker->sum++;
        if (i % (LOCKS / 16) == 0)
            (void) nanosleep(&nap, NULL);
        kit_lock_drop(&locker->lock);
    }
    return NULL;
}

static void a_lock_is_one_threads(void **state)
{
    struct locker locker = {.sum = 0};
    pthread_t threads[LOCKERS];

    (void) state;
    for (uint32_t i = 0; i < LOCKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, lock_often, &locker), 0);
    for (uint32_t i = 0; i < LOCKERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(locker.sum, LOCKERS * LOCKS);
    assert_false(kit_lock_is_wanted(&locker.lock));
    assert_int_equal(locker.lock.sleepers, 0);
    assert_true(kit_lock_try(&locker.lock));
    assert_false(kit_lock_try(&locker.lock));
    kit_lock_drop(&locker.lock);
    locker.lock.is_elided = true;
    kit_lock_take(&locker.lock);
    kit_lock_take(&locker.lock);
    kit_lock_drop(&locker.lock);
}

static void processes_are_known(void **state)
{
    uint64_t own = 0, start = 0;
    uint64_t identity = kit_process_identity();
    bool is_over = true;
    siginfo_t info;
    pid_t pid;

    (void) state;
    assert_true(kit_process_read((uint32_t) getpid(), &own, &is_over));
    assert_false(is_over);
    assert_true(identity != 0);
    assert_false(kit_process_is_dead((uint32_t) getpid(), identity));
    /* an earlier process with the same id */
    assert_true(kit_process_is_dead((uint32_t) getpid(), identity ^ 1));
    assert_false(kit_process_is_dead((uint32_t) getpid(), 0));
    assert_false(kit_process_is_dead(0, identity));
    assert_false(kit_process_is_dead(UINT32_MAX, identity));
    pid = fork();
    if (pid == 0)
        _exit(0);
    assert_true(pid > 0);
    assert_int_equal(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(kit_process_read((uint32_t) pid, &start, &is_over));
    assert_true(is_over); /* although it has not been reaped */
    assert_true(start >= own);
    assert_true(
        kit_process_is_dead((uint32_t) pid, (identity & ~UINT64_C(0xffffffffffff)) | start));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(kit_process_read((uint32_t) pid, &start, &is_over));
    assert_true(kit_process_is_dead((uint32_t) pid, 0));
    assert_true(kit_process_namespace("pid") != 0);
    assert_true(kit_process_namespace("pid") == kit_process_namespace("pid"));
    assert_true(kit_process_namespace("none such") == 0);
    assert_true(kit_process_node() != 0);
}

/* Starts a child with two pages, of which the second is not mapped. It exits when the pipe is
 * closed. */
static pid_t attach_child(uint8_t *pages, size_t page, int *end_p)
{
    int ready[2], end[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(end), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void) close(end[1]);
        memset(pages, 'c', page);
        if (munmap(pages + page, page) != 0 || write(ready[1], "r", 1) != 1)
            _exit(1);
        (void) read(end[0], &byte, 1);
        _exit(pages[0] == 'p' ? 0 : 2);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void) close(ready[0]);
    (void) close(ready[1]);
    (void) close(end[0]);
    *end_p = end[1];
    return pid;
}

static void memory_of_another_process_is_read_and_written(void **state)
{
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    uint8_t *pages =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const uint64_t there = (uint64_t) (uintptr_t) pages;
    uint8_t bytes[32] = {0};
    struct iovec local = {bytes, 16}, remote = kit_iovec(there + page - 16, 16);
    uint64_t moved;
    int end, status;
    pid_t pid;

    (void) state;
    assert_true(pages != MAP_FAILED);
    pid = attach_child(pages, page, &end);
    assert_true(kit_attach_is_allowed((uint32_t) pid, there));
    assert_true(kit_attach_is_allowed((uint32_t) pid, there + page));
    assert_int_equal(kit_attach_read((uint32_t) pid, &local, 1, &remote, 1, &moved),
                     NA_PLUGIN_SUCCESS);
    assert_int_equal(moved, 16);
    assert_int_equal(bytes[0], 'c');
    assert_int_equal(bytes[15], 'c');
    assert_int_equal(pages[page - 1], 0); /* our own page is unchanged */

    local.iov_len = remote.iov_len = 32; /* only the first half is mapped */
    assert_int_equal(kit_attach_read((uint32_t) pid, &local, 1, &remote, 1, &moved),
                     NA_PLUGIN_SUCCESS);
    assert_int_equal(moved, 16);
    remote = kit_iovec(there + page, 32);
    assert_int_equal(kit_attach_read((uint32_t) pid, &local, 1, &remote, 1, &moved),
                     NA_PLUGIN_FAULT);
    assert_int_equal(moved, 0);

    bytes[0] = 'p';
    local.iov_len = 1;
    remote = kit_iovec(there, 1);
    assert_int_equal(kit_attach_write((uint32_t) pid, &local, 1, &remote, 1, &moved),
                     NA_PLUGIN_SUCCESS);
    assert_int_equal(moved, 1);
    (void) close(end);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(kit_attach_write((uint32_t) pid, &local, 1, &remote, 1, &moved),
                     NA_PLUGIN_HOSTUNREACH);
    assert_int_equal(moved, 0);
    assert_false(kit_attach_is_allowed((uint32_t) pid, there));
    assert_int_equal(munmap(pages, 2 * page), 0);
}

static void sigpipe_is_ignored_unless_it_is_handled(void **state)
{
    struct sigaction action = {.sa_handler = SIG_DFL}, now;

    (void) state;
    assert_int_equal(sigaction(SIGPIPE, &action, NULL), 0);
    kit_process_ignore_sigpipe();
    assert_int_equal(sigaction(SIGPIPE, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, SIG_IGN);
    action.sa_handler = (void (*)(int)) abort;
    assert_int_equal(sigaction(SIGPIPE, &action, NULL), 0);
    kit_process_ignore_sigpipe();
    assert_int_equal(sigaction(SIGPIPE, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, action.sa_handler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_of_another_abi_is_refused),
        cmocka_unit_test(statuses_have_names),
        cmocka_unit_test(the_name_in_an_address_is_found),
        cmocka_unit_test(lists_keep_their_order),
        cmocka_unit_test(options_of_the_init_string_are_found_by_name),
        cmocka_unit_test(ids_of_what_is_gone_find_nothing),
        cmocka_unit_test(ids_begin_at_random),
        cmocka_unit_test(a_table_is_full_at_its_limit),
        cmocka_unit_test(keys_differ),
        cmocka_unit_test(digests_are_those_of_fnv),
        cmocka_unit_test(a_lock_is_one_threads),
        cmocka_unit_test(processes_are_known),
        cmocka_unit_test(memory_of_another_process_is_read_and_written),
        cmocka_unit_test(sigpipe_is_ignored_unless_it_is_handled),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
