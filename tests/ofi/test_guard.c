/* SPDX-License-Identifier: BSD-3-Clause */
/* The guard of an endpoint in shared memory: one holder at a time, and none who is dead. */

#include "ofi.h"

#include "kit/plugin_host.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Where libfabric 1.17 has them in such a file. */
#define LOCK     24
#define COMMANDS 48

struct opened {
    struct na_plugin_class *na_class;
    struct ofi_guard peer; /* as a peer has it open */
};

static int setup(void **state)
{
    static struct opened opened;
    struct na_plugin_init init = {
        .size = sizeof(init),
        .class_name = "ofi",
        .protocol = "shm",
        .max_contexts = 1,
    };
    struct na_plugin_class_info info = {.size = sizeof(info)};

    *state = &opened;
    if (ofi_class_initialize(&init, NULL, &opened.na_class, &info) != NA_PLUGIN_SUCCESS)
        return -1;
    return ofi_guard_open(&opened.peer, opened.na_class->name, false);
}

static int teardown(void **state)
{
    struct opened *opened = *state;

    ofi_guard_close(&opened->peer);
    return ofi_class_finalize(opened->na_class);
}

static pthread_spinlock_t *region_lock(const struct ofi_guard *guard)
{
    return (void *) ((uint8_t *) guard->memory + LOCK);
}

static uint64_t region_commands(const struct ofi_guard *guard)
{
    return *(const uint64_t *) (const void *) ((const uint8_t *) guard->memory + COMMANDS);
}

/* A process that holds the guard, with or without the provider's lock. */
static pid_t hold(struct opened *opened, bool with_lock)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!ofi_guard_take(&opened->peer, ofi_guard_self()) ||
            (with_lock && pthread_spin_trylock(region_lock(&opened->peer)) != 0) ||
            write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            (void) pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void) close(ready[0]);
    (void) close(ready[1]);
    return pid;
}

static bool take_within(struct ofi_guard *guard, unsigned int ms)
{
    uint64_t end = plugin_host.clock_ns() + ms * UINT64_C(1000000);

    do {
        if (ofi_guard_take(guard, ofi_guard_self()))
            return true;
    } while (plugin_host.clock_ns() < end);
    return false;
}

static void need_guard(const struct opened *opened)
{
    if (opened->na_class->guard.memory != NULL)
        return;
    print_message("skipped: the layout of this libfabric's shared memory is not known\n");
    skip();
}

static void one_holds_it_at_a_time(void **state)
{
    struct opened *opened = *state;
    struct ofi_guard *own = &opened->na_class->guard;

    need_guard(opened);
    assert_true(ofi_guard_take(own, ofi_guard_self()));
    assert_false(take_within(&opened->peer, 20));
    ofi_guard_release(own);
    assert_true(ofi_guard_take(&opened->peer, ofi_guard_self()));
    assert_false(take_within(own, 20));
    ofi_guard_release(&opened->peer);
}

static void who_lives_keeps_it(void **state)
{
    struct opened *opened = *state;
    pid_t pid;

    need_guard(opened);
    pid = hold(opened, true);
    (void) kill(pid, SIGSTOP);
    assert_false(take_within(&opened->na_class->guard, 200));
    (void) kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(take_within(&opened->na_class->guard, 1000));
    ofi_guard_release(&opened->na_class->guard);
}

/* Also before anybody has waited for it. */
static void what_the_dead_held_is_free(void **state)
{
    struct opened *opened = *state;
    uint64_t commands;
    siginfo_t info;
    pid_t pid;

    need_guard(opened);
    commands = region_commands(&opened->peer);
    pid = hold(opened, true);
    (void) kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_not_equal(pthread_spin_trylock(region_lock(&opened->peer)), 0);
    assert_true(take_within(&opened->na_class->guard, 1000));
    assert_int_equal(pthread_spin_trylock(region_lock(&opened->peer)), 0);
    (void) pthread_spin_unlock(region_lock(&opened->peer));
    assert_int_equal(region_commands(&opened->peer), commands - 1); /* the one that was begun */
    ofi_guard_release(&opened->na_class->guard);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void who_died_outside_of_the_provider_took_no_place(void **state)
{
    struct opened *opened = *state;
    uint64_t commands;
    pid_t pid;

    need_guard(opened);
    commands = region_commands(&opened->peer);
    pid = hold(opened, false);
    (void) kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(take_within(&opened->peer, 1000));
    assert_int_equal(region_commands(&opened->peer), commands);
    ofi_guard_release(&opened->peer);
}

/* The provider would spin in here for ever. */
static void an_endpoint_goes_on_after_a_death(void **state)
{
    struct opened *opened = *state;
    pid_t pid;

    need_guard(opened);
    pid = hold(opened, true);
    for (int i = 0; i < 100; i++)
        assert_int_equal(ofi_poll(&opened->na_class->base), NA_PLUGIN_SUCCESS);
    (void) kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    for (int i = 0; i < 100; i++)
        assert_int_equal(ofi_poll(&opened->na_class->base), NA_PLUGIN_SUCCESS);
    assert_true(ofi_guard_take(&opened->peer, ofi_guard_self()));
    ofi_guard_release(&opened->peer);
}

/* What the provider has not finished is not there yet; what it does not look like is let be. */
static void files_that_are_none_have_no_guard(void **state)
{
    uint32_t head[32] = {0};
    struct ofi_guard guard;
    char name[64], path[80];
    int fd;

    (void) state;
    (void) snprintf(name, sizeof(name), "amalgam-ofi-guard-test-%d", (int) getpid());
    (void) snprintf(path, sizeof(path), "/dev/shm/%s", name);
    assert_int_equal(ofi_guard_open(&guard, name, false), NA_PLUGIN_AGAIN);
    assert_null(guard.memory);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ofi_guard_open(&guard, name, false), NA_PLUGIN_AGAIN); /* empty */
    assert_int_equal(ftruncate(fd, 65536), 0);
    assert_int_equal(ofi_guard_open(&guard, name, false), NA_PLUGIN_AGAIN); /* no owner yet */
    head[0] = 5;                                                            /* another version */
    head[1] = (uint32_t) getpid();
    assert_int_equal(pwrite(fd, head, sizeof(head), 0), sizeof(head));
    assert_int_equal(ofi_guard_open(&guard, name, false), NA_PLUGIN_SUCCESS);
    assert_null(guard.memory);
    head[0] = 4; /* that version, but the offsets are 0 */
    assert_int_equal(pwrite(fd, head, sizeof(head), 0), sizeof(head));
    assert_int_equal(ofi_guard_open(&guard, name, true), NA_PLUGIN_SUCCESS);
    assert_null(guard.memory);
    assert_true(ofi_guard_take(&guard, ofi_guard_self()));
    ofi_guard_release(&guard);
    ofi_guard_close(&guard);
    (void) close(fd);
    assert_int_equal(unlink(path), 0);
}

/* Only one of the two could open the other's file. */
static void endpoints_of_others_are_told_apart(void **state)
{
    const char *name = "amalgam-test-owner";
    unsigned int user = 0;
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);

    (void) state;
    assert_true(fd >= 0);
    assert_true(ofi_guard_is_ours(name, &user));
    assert_int_equal(user, geteuid());
    if (geteuid() == 0) {
        assert_int_equal(fchown(fd, 65534, (gid_t) -1), 0);
        assert_false(ofi_guard_is_ours(name, &user));
        assert_int_equal(user, 65534);
    }
    (void) close(fd);
    assert_int_equal(shm_unlink(name), 0);
    assert_true(ofi_guard_is_ours(name, &user)); /* there may be one soon */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_holds_it_at_a_time),
        cmocka_unit_test(who_lives_keeps_it),
        cmocka_unit_test(what_the_dead_held_is_free),
        cmocka_unit_test(who_died_outside_of_the_provider_took_no_place),
        cmocka_unit_test(an_endpoint_goes_on_after_a_death),
        cmocka_unit_test(files_that_are_none_have_no_guard),
        cmocka_unit_test(endpoints_of_others_are_told_apart),
    };
    int ret;

    kit_host = &plugin_host;
    ret = cmocka_run_group_tests(tests, setup, teardown);
    ofi_enumerate_cleanup();
    return ret;
}
