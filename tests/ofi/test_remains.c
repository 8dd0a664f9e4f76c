/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared-memory files of killed processes go when others come; those of the living stay. */

#include "ofi.h"

#include "kit/plugin_host.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A process with an endpoint over shm. */
struct owner {
    pid_t pid;
    char path[sizeof("/dev/shm/") + FABRIC_NAME_MAX];
};

static struct na_plugin_class *open_class(const char *address)
{
    struct na_plugin_init init = {
        .size = sizeof(init),
        .class_name = "ofi",
        .protocol = "shm",
        .address = address,
        .max_contexts = 1,
    };
    struct na_plugin_class_info info = {.size = sizeof(info)};
    struct na_plugin_class *na_class = NULL;

    return ofi_class_initialize(&init, NULL, &na_class, &info) == NA_PLUGIN_SUCCESS ? na_class
                                                                                    : NULL;
}

static void path_of(const char *name, char *path)
{
    (void) snprintf(path, sizeof(((struct owner *) 0)->path), "/dev/shm/%s", name);
}

static void live(int ready, const char *address)
{
    struct na_plugin_class *na_class;

    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    na_class = open_class(address);
    if (na_class == NULL || write(ready, na_class->name, FABRIC_NAME_MAX) != FABRIC_NAME_MAX)
        _exit(1);
    for (;;)
        (void) pause();
}

static void owner_start(struct owner *owner, const char *address)
{
    char name[FABRIC_NAME_MAX];
    int ready[2];

    assert_int_equal(pipe(ready), 0);
    owner->pid = fork();
    assert_true(owner->pid >= 0);
    if (owner->pid == 0)
        live(ready[1], address);
    (void) close(ready[1]);
    assert_int_equal(read(ready[0], name, sizeof(name)), sizeof(name));
    (void) close(ready[0]);
    path_of(name, owner->path);
    assert_int_equal(access(owner->path, F_OK), 0);
}

static void owner_kill(const struct owner *owner, bool collect)
{
    siginfo_t info;

    assert_int_equal(kill(owner->pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t) owner->pid, &info, WEXITED | (collect ? 0 : WNOWAIT)), 0);
}

/* Other endpoints that are opened at this moment may hold one attempt off. */
static bool is_removed(const char *path)
{
    for (int i = 0; i < 50 && access(path, F_OK) == 0; i++) {
        (void) ofi_class_finalize(open_class(NULL));
        (void) usleep(1000);
    }
    return access(path, F_OK) != 0;
}

static void files_of_killed_processes_are_removed(void **state)
{
    struct owner dead, zombie, living;

    (void) state;
    owner_start(&living, NULL);
    owner_start(&dead, NULL);
    owner_start(&zombie, NULL);
    owner_kill(&dead, true);
    owner_kill(&zombie, false);
    assert_true(is_removed(dead.path));
    assert_true(is_removed(zombie.path));
    assert_int_equal(access(living.path, F_OK), 0);
    owner_kill(&living, true);
    assert_true(is_removed(living.path));
    (void) waitpid(zombie.pid, NULL, 0);
}

/* It lives under a name that says the opposite. */
static void a_name_that_was_taken_over_is_alive(void **state)
{
    struct owner dead, living;

    (void) state;
    owner_start(&dead, NULL);
    owner_kill(&dead, true);
    owner_start(&living, dead.path + strlen("/dev/shm/"));
    assert_string_equal(living.path, dead.path);
    for (int i = 0; i < 5; i++)
        (void) ofi_class_finalize(open_class(NULL));
    assert_int_equal(access(living.path, F_OK), 0);
    owner_kill(&living, true);
    assert_true(is_removed(living.path));
}

/* Names that begin alike, and things that are no files, are nobody's remains. */
static void nothing_else_is_removed(void **state)
{
    static const char *const kinds[] = {"link", "directory", "name"};
    char name[FABRIC_NAME_MAX], path[3][sizeof(((struct owner *) 0)->path)];
    pid_t gone = fork();
    const char *rest;
    struct stat status;

    (void) state;
    if (gone == 0)
        _exit(0);
    assert_int_equal(waitpid(gone, NULL, 0), gone);
    assert_int_equal(ofi_remains_name(name, sizeof(name)), NA_PLUGIN_SUCCESS);
    rest = strchr(name, '-');
    rest = strchr(rest + 1, '-'); /* behind the process */
    for (size_t i = 0; i < 3; i++)
        (void) snprintf(path[i], sizeof(path[i]), "/dev/shm/amalgam-ofi.%u.%d%s%s",
                        (unsigned) geteuid(), (int) gone, rest, i == 2 ? kinds[i] : "");
    path[1][strlen(path[1]) - 1] ^= 1; /* still a digit */
    assert_int_equal(symlink("/dev/null", path[0]), 0);
    assert_int_equal(mkdir(path[1], 0700), 0);
    assert_int_equal(close(open(path[2], O_CREAT | O_RDWR | O_EXCL, 0600)), 0);
    for (int i = 0; i < 5; i++)
        ofi_remains_reap();
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(lstat(path[i], &status), 0);
    assert_int_equal(unlink(path[0]), 0);
    assert_int_equal(rmdir(path[1]), 0);
    assert_int_equal(unlink(path[2]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_killed_processes_are_removed),
        cmocka_unit_test(a_name_that_was_taken_over_is_alive),
        cmocka_unit_test(nothing_else_is_removed),
    };
    struct na_plugin_class *na_class;
    int ret;

    kit_host = &plugin_host;
    na_class = open_class(NULL);
    if (na_class == NULL) {
        (void) puts("skipped: libfabric offers no shm here");
        return 77;
    }
    (void) ofi_class_finalize(na_class);
    ret = cmocka_run_group_tests(tests, NULL, NULL);
    ofi_enumerate_cleanup();
    return ret;
}
