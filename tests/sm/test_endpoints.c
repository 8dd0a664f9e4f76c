/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and addresses of endpoints, files that dead processes leave, and the effect of a fork. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "sm_test.h"

#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void shm_path(char *path, size_t size, const char *name)
{
    (void) snprintf(path, size, "/dev/shm/amalgam-sm.%u.%s", (unsigned) geteuid(), name);
}

/* Counts the wake sockets of the file at `path`, and replaces `path` by one of them. */
static size_t find_sockets(char *path)
{
    char pattern[192];
    glob_t found;
    size_t count;

    (void) snprintf(pattern, sizeof(pattern), "%s.wake.*", path);
    if (glob(pattern, 0, NULL, &found) != 0)
        return 0;
    count = found.gl_pathc;
    (void) strcpy(path, found.gl_pathv[0]);
    globfree(&found);
    return count;
}

static void a_named_endpoint_is_found_by_its_name(void **state)
{
    char name[64], init[96], string[128];
    size_t size = sizeof(string);
    struct end server, client;
    na_addr_t *addr, *self;

    (void) state;
    (void) snprintf(name, sizeof(name), "test%d-named", (int) getpid());
    (void) snprintf(init, sizeof(init), "na+sm://%s", name);
    end_open(&server, init, NULL);
    end_open(&client, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(client.na_class, init, &addr), NA_SUCCESS);
    assert_int_equal(NA_Addr_to_string(client.na_class, string, &size, addr), NA_SUCCESS);
    assert_string_equal(string, init);
    assert_int_equal(size, strlen(init) + 1);
    assert_int_equal(NA_Addr_self(server.na_class, &self), NA_SUCCESS);
    assert_true(NA_Addr_is_self(server.na_class, self));
    assert_false(NA_Addr_is_self(client.na_class, addr));
    NA_Addr_free(server.na_class, self);
    NA_Addr_free(client.na_class, addr);
    end_close(&client);
    end_close(&server);
    check_clean();
}

/* An address of a process that is gone can be looked up; an operation with it fails. */
static void a_numbered_endpoint_that_is_gone_fails_at_its_first_use(void **state)
{
    static uint8_t buf[64];
    na_addr_t *addr, *again;
    char string[64], packed[128];
    size_t size = sizeof(string);
    struct end end;

    (void) state;
    end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, "na+sm://1-1", &addr), NA_SUCCESS);
    assert_int_equal(NA_Addr_to_string(end.na_class, string, &size, addr), NA_SUCCESS);
    assert_string_equal(string, "na+sm://1-1");
    assert_int_equal(end_send(&end, addr, buf, sizeof(buf), 1, false), NA_HOSTUNREACH);
    assert_int_equal(end_send(&end, addr, buf, sizeof(buf), 1, true), NA_HOSTUNREACH);
    assert_int_equal(NA_Addr_serialize(end.na_class, packed, sizeof(packed), addr), NA_NOENTRY);
    assert_int_equal(NA_Addr_lookup(end.na_class, "1-1", &again), NA_SUCCESS);
    assert_true(NA_Addr_cmp(end.na_class, addr, again));
    NA_Addr_free(end.na_class, addr);
    assert_int_equal(end_send(&end, again, buf, sizeof(buf), 1, false), NA_HOSTUNREACH);
    NA_Addr_free(end.na_class, again);
    assert_int_equal(NA_Addr_lookup(end.na_class, "na+sm://1-", &addr), NA_NOENTRY);
    end_close(&end);
    check_clean();
}

/* Processes of a launcher may look each other up before all endpoints are open. */
static void a_numbered_endpoint_may_come_after_its_address(void **state)
{
    static uint8_t buf[64];
    char string[64], later[64];
    size_t size = sizeof(string);
    struct end first, second;
    na_addr_t *addr, *self;
    unsigned int number;

    (void) state;
    end_open(&first, "na+sm", NULL);
    assert_int_equal(NA_Addr_self(first.na_class, &self), NA_SUCCESS);
    assert_int_equal(NA_Addr_to_string(first.na_class, string, &size, self), NA_SUCCESS);
    NA_Addr_free(first.na_class, self);
    assert_int_equal(sscanf(strchr(string, '-'), "-%u", &number), 1);
    (void) snprintf(later, sizeof(later), "na+sm://%d-%u", (int) getpid(), number + 1);

    assert_int_equal(NA_Addr_lookup(first.na_class, later, &addr), NA_SUCCESS);
    assert_int_equal(end_send(&first, addr, buf, sizeof(buf), 1, false), NA_HOSTUNREACH);
    assert_int_equal(end_send(&first, addr, buf, sizeof(buf), 1, true), NA_HOSTUNREACH);
    end_open(&second, "na+sm", NULL);
    self = end_lookup(&first, &second);
    size = sizeof(string);
    assert_int_equal(NA_Addr_to_string(first.na_class, string, &size, self), NA_SUCCESS);
    assert_string_equal(string, later);
    assert_true(NA_Addr_cmp(first.na_class, addr, self));
    NA_Addr_free(first.na_class, self);
    for (int i = 0; i < 3; i++)
        assert_int_equal(end_send(&first, addr, buf, sizeof(buf), 1, i % 2 != 0), NA_SUCCESS);
    assert_true(NA_Addr_get_serialize_size(first.na_class, addr) > 0);
    /* A reference to the address of a closed endpoint is released afterwards. */
    end_close(&second);
    NA_Addr_free(first.na_class, addr);
    end_close(&first);
    check_clean();
}

static void a_taken_name_is_refused(void **state)
{
    struct end first, second;
    char init[96];

    (void) state;
    (void) snprintf(init, sizeof(init), "na+sm://test%d-taken", (int) getpid());
    end_open(&first, init, NULL);
    assert_null(NA_Initialize(init, true));
    end_close(&first);
    end_open(&second, init, NULL);
    end_close(&second);
    check_clean();
}

static void missing_and_malformed_addresses_are_told_apart(void **state)
{
    static const char *const malformed[] = {
        "na+sm://",
        "na+sm://..",
        "na+sm://a/b",
        "na+sm:///etc/passwd",
        "na+sm://a b",
        "na+sm://.hidden",
        "na+sm://a..b",
        "ofi+tcp://1.2.3.4:5",
        "na+sm://x.wake.0",
        "na+sm://\xc3\xa4x",
        "na+sm://a\nb",
        "na+sm://0123456789012345678901234567890123456789012345678901234567890123",
    };
    struct end end;
    na_addr_t *addr = NULL;

    (void) state;
    end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, "na+sm://nobody-is-here", &addr), NA_NOENTRY);
    assert_int_equal(NA_Addr_lookup(end.na_class, "nobody-is-here", &addr), NA_NOENTRY);
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++)
        assert_int_equal(NA_Addr_lookup(end.na_class, malformed[i], &addr), NA_INVALID_ARG);
    assert_null(addr);
    end_close(&end);
    for (size_t i = 1; i < sizeof(malformed) / sizeof(malformed[0]); i++)
        if (strncmp(malformed[i], "na+sm", 5) == 0)
            assert_null(NA_Initialize(malformed[i], true));
    check_clean();
}

static void an_address_travels_in_compact_form(void **state)
{
    uint8_t packed[256];
    struct end one, two;
    na_addr_t *self, *copy, *again;
    size_t size;

    (void) state;
    end_open(&one, "na+sm", NULL);
    end_open(&two, "na+sm", NULL);
    assert_int_equal(NA_Addr_self(one.na_class, &self), NA_SUCCESS);
    size = NA_Addr_get_serialize_size(one.na_class, self);
    assert_in_range(size, 16, 80);
    assert_int_equal(NA_Addr_serialize(one.na_class, packed, size, self), NA_SUCCESS);
    assert_int_equal(NA_Addr_deserialize(two.na_class, &copy, packed, size, 0), NA_SUCCESS);
    assert_int_equal(NA_Addr_deserialize(two.na_class, &again, packed, size, 0), NA_SUCCESS);
    assert_true(NA_Addr_cmp(two.na_class, copy, again));
    NA_Addr_free(two.na_class, copy);
    NA_Addr_free(two.na_class, again);
    for (size_t i = 0; i < size; i++) {
        assert_int_not_equal(NA_Addr_deserialize(two.na_class, &copy, packed, i, 0), NA_SUCCESS);
        packed[i] ^= 0x80;
        assert_int_not_equal(NA_Addr_deserialize(two.na_class, &copy, packed, size, 0), NA_SUCCESS);
        packed[i] ^= 0x80;
    }
    /* The name is longer than allowed; its length follows the first four bytes. */
    for (uint32_t length = 60; length < sizeof(packed) - 16; length++) {
        uint8_t longer[sizeof(packed)];

        memset(longer, 'x', sizeof(longer));
        memcpy(longer, packed, 16);
        memcpy(longer + 4, &length, sizeof(length));
        assert_int_not_equal(NA_Addr_deserialize(two.na_class, &copy, longer, sizeof(longer), 0),
                             NA_SUCCESS);
    }
    NA_Addr_free(one.na_class, self);
    end_close(&one);
    assert_int_not_equal(NA_Addr_deserialize(two.na_class, &copy, packed, size, 0), NA_SUCCESS);
    end_close(&two);
    check_clean();
}

static void files_are_for_their_owner_alone(void **state)
{
    char init[96], name[64], path[160];
    struct stat status;
    struct end end;

    (void) state;
    (void) snprintf(name, sizeof(name), "test%d-mode", (int) getpid());
    (void) snprintf(init, sizeof(init), "na+sm://%s", name);
    end_open(&end, init, NULL);
    shm_path(path, sizeof(path), name);
    assert_int_equal(lstat(path, &status), 0);
    assert_true(S_ISREG(status.st_mode));
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(find_sockets(path), 1);
    assert_int_equal(lstat(path, &status), 0);
    assert_true(S_ISSOCK(status.st_mode));
    assert_int_equal(status.st_mode & 0777, 0600);
    end_close(&end);
    check_clean();
}

static void a_file_of_another_user_is_refused(void **state)
{
    char name[64], path[160], address[96];
    struct end end;
    na_addr_t *addr;
    int fd;

    (void) state;
    if (geteuid() != 0) {
        print_message("skipped: only root can change the owner of a file\n");
        skip();
    }
    (void) snprintf(name, sizeof(name), "test%d-foreign", (int) getpid());
    (void) snprintf(address, sizeof(address), "na+sm://%s", name);
    shm_path(path, sizeof(path), name);
    fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 1 << 21), 0);
    assert_int_equal(fchown(fd, 65534, 65534), 0);
    (void) close(fd);
    end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, address, &addr), NA_PERMISSION);
    assert_null(NA_Initialize(address, true)); /* its file is neither taken over nor removed */
    assert_int_equal(access(path, F_OK), 0);
    end_close(&end);
    assert_int_equal(unlink(path), 0);
    check_clean();
}

static void a_symbolic_link_is_not_followed(void **state)
{
    char name[64], path[160], address[96], target[96];
    struct end end, named;
    na_addr_t *addr;

    (void) state;
    (void) snprintf(target, sizeof(target), "na+sm://test%d-real", (int) getpid());
    end_open(&named, target, NULL);
    (void) snprintf(name, sizeof(name), "test%d-real", (int) getpid());
    shm_path(target, sizeof(target), name);
    (void) snprintf(name, sizeof(name), "test%d-link", (int) getpid());
    (void) snprintf(address, sizeof(address), "na+sm://%s", name);
    shm_path(path, sizeof(path), name);
    assert_int_equal(symlink(target, path), 0);
    end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, address, &addr), NA_ACCESS);
    assert_null(NA_Initialize(address, true));
    assert_int_equal(unlink(path), 0);
    end_close(&end);
    end_close(&named);
    check_clean();
}

static void a_start_removes_what_the_dead_left_and_nothing_else(void **state)
{
    char init[96], name[64], path[160], living_path[640];
    struct child dead, living;
    struct end end;
    na_addr_t *addr;

    (void) state;
    (void) snprintf(name, sizeof(name), "test%d-dead", (int) getpid());
    (void) snprintf(init, sizeof(init), "na+sm://%s", name);
    child_start(&dead, init, "plain");
    child_start(&living, "na+sm", "plain");
    child_kill(&dead);
    shm_path(path, sizeof(path), name);
    shm_path(living_path, sizeof(living_path), living.address + strlen("na+sm://"));
    /* An endpoint that another test opens at the same time may be removing the files already. */
    end_open(&end, "na+sm", NULL);
    for (int i = 0; i < 1000 && access(path, F_OK) == 0; i++)
        (void) usleep(1000);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(find_sockets(path), 0);
    assert_int_equal(access(living_path, F_OK), 0);
    assert_int_equal(NA_Addr_lookup(end.na_class, living.address, &addr), NA_SUCCESS);
    NA_Addr_free(end.na_class, addr);
    end_close(&end);
    child_stop(&living);
    check_clean();
}

/* Stale sockets with names that another release used are removed. */
static void a_start_removes_sockets_without_a_file(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct end end;
    int fd;

    (void) state;
    (void) snprintf(address.sun_path, sizeof(address.sun_path),
                    "/dev/shm/amalgam-sm.%u.test%d-orphan.wake.0", (unsigned) geteuid(),
                    (int) getpid());
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *) &address, sizeof(address)), 0);
    end_open(&end, "na+sm", NULL);
    end_close(&end);
    assert_int_equal(access(address.sun_path, F_OK), 0); /* its owner is alive */
    (void) close(fd);
    end_open(&end, "na+sm", NULL);
    end_close(&end);
    assert_int_not_equal(access(address.sun_path, F_OK), 0);
    check_clean();
}

static void the_name_of_a_dead_endpoint_is_free_again(void **state)
{
    char init[96];
    struct child dead;
    struct end client, again;
    na_addr_t *old, *new;

    (void) state;
    (void) snprintf(init, sizeof(init), "na+sm://test%d-phoenix", (int) getpid());
    end_open(&client, "na+sm", NULL);
    child_start(&dead, init, "plain");
    assert_int_equal(NA_Addr_lookup(client.na_class, init, &old), NA_SUCCESS);
    child_kill(&dead);
    assert_int_equal(NA_Addr_lookup(client.na_class, init, &new), NA_NOENTRY);
    end_open(&again, init, NULL);
    assert_int_equal(NA_Addr_lookup(client.na_class, init, &new), NA_SUCCESS);
    assert_false(NA_Addr_cmp(client.na_class, old, new));
    NA_Addr_free(client.na_class, old);
    NA_Addr_free(client.na_class, new);
    end_close(&again);
    end_close(&client);
    check_clean();
}

static int close_in_child(void *arg)
{
    struct end *end = arg;

    (void) NA_Context_destroy(end->na_class, end->context);
    (void) NA_Finalize(end->na_class);
    return 0;
}

static void a_forked_child_does_not_destroy_the_endpoint(void **state)
{
    uint8_t reply[64];
    size_t size = sizeof(reply);
    struct child child;
    struct end end;
    na_addr_t *peer;

    (void) state;
    child_start(&child, "na+sm", "plain");
    end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    assert_int_equal(end_command(&end, peer, PEER_ECHO, 1, 2, 3, reply, &size), NA_SUCCESS);
    assert_int_equal(run_in_child(close_in_child, &end), 0);
    size = sizeof(reply);
    assert_int_equal(end_command(&end, peer, PEER_ECHO, 1, 2, 3, reply, &size), NA_SUCCESS);
    NA_Addr_free(end.na_class, peer);
    end_close(&end);
    child_stop(&child);
    check_clean();
}

/* A forked child that only sleeps does not keep the parent's name and socket in use. */
static void a_forked_child_does_not_outlive_the_endpoint_in_its_place(void **state)
{
    char init[96];
    struct end end;
    na_addr_t *addr;
    struct end client;
    pid_t pid;

    (void) state;
    (void) snprintf(init, sizeof(init), "na+sm://test%d-forker", (int) getpid());
    end_open(&client, "na+sm", NULL);
    end_open(&end, init, NULL);
    pid = fork();
    if (pid == 0) {
        (void) sleep(30);
        _exit(0);
    }
    end_close(&end);
    assert_int_equal(NA_Addr_lookup(client.na_class, init, &addr), NA_NOENTRY);
    end_open(&end, init, NULL);
    end_close(&end);
    (void) kill(pid, SIGKILL);
    (void) waitpid(pid, NULL, 0);
    end_close(&client);
    check_clean();
}

struct orphan {
    char init[96];
    int out; /* the id of the child that stays alive */
};

/* Forks without the handlers of pthread_atfork(), as a runtime of another language may. */
static pid_t fork_unnoticed(void)
{
    return (pid_t) syscall(SYS_clone, (unsigned long) SIGCHLD, 0, 0, 0, 0);
}

static int open_and_leave_a_child(void *arg)
{
    struct orphan *orphan = arg;
    struct end end;
    pid_t pid;

    end_open(&end, orphan->init, NULL);
    pid = fork_unnoticed();
    if (pid == 0) {
        (void) sleep(60);
        _exit(0);
    }
    (void) write(orphan->out, &pid, sizeof(pid));
    (void) sleep(60);
    return 1;
}

/* The child inherited the locks and sockets of a killed process, which was reaped if `collected`,
 * and otherwise is a zombie. */
static void end_with_a_child_left(bool collected)
{
    struct end client, again;
    struct orphan orphan;
    na_addr_t *addr;
    pid_t pid, child;
    int out[2];

    (void) snprintf(orphan.init, sizeof(orphan.init), "na+sm://test%d-orphan", (int) getpid());
    assert_int_equal(pipe(out), 0);
    orphan.out = out[1];
    pid = fork();
    if (pid == 0)
        _exit(open_and_leave_a_child(&orphan));
    assert_int_equal(read(out[0], &child, sizeof(child)), sizeof(child));
    end_open(&client, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(client.na_class, orphan.init, &addr), NA_SUCCESS);
    NA_Addr_free(client.na_class, addr);
    assert_null(NA_Initialize(orphan.init, true));
    (void) kill(pid, SIGKILL);
    if (collected)
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    else
        assert_int_equal(waitid(P_PID, (id_t) pid, NULL, WEXITED | WNOWAIT), 0);
    assert_int_equal(kill(child, 0), 0);
    assert_int_equal(NA_Addr_lookup(client.na_class, orphan.init, &addr), NA_NOENTRY);
    end_open(&again, orphan.init, NULL);
    assert_int_equal(NA_Addr_lookup(client.na_class, orphan.init, &addr), NA_SUCCESS);
    NA_Addr_free(client.na_class, addr);
    (void) kill(child, SIGKILL);
    if (!collected)
        (void) waitpid(pid, NULL, 0);
    end_close(&again);
    end_close(&client);
    (void) close(out[0]);
    (void) close(out[1]);
    check_clean();
}

static void an_endpoint_that_was_killed_does_not_live_on_in_a_child(void **state)
{
    (void) state;
    end_with_a_child_left(true);
    end_with_a_child_left(false);
}

/* Requires that opening the name fails, with a log message that contains `said`. */
static void expect_refusal_of_name(const char *init, const char *said)
{
    char text[1024];

    sm_log_catch("error");
    assert_null(NA_Initialize(init, true));
    sm_log_caught(text, sizeof(text));
    if (strstr(text, said) == NULL)
        print_error("'%s' is not in: %s\n", said, text);
    assert_non_null(strstr(text, said));
}

static void who_has_a_name_is_said(void **state)
{
    char name[64], path[160], init[96];
    struct end end;
    int fd;

    (void) state;
    (void) snprintf(name, sizeof(name), "test%d-whose", (int) getpid());
    (void) snprintf(init, sizeof(init), "na+sm://%s", name);
    shm_path(path, sizeof(path), name);
    end_open(&end, init, NULL);
    expect_refusal_of_name(init, "taken by a living endpoint");
    end_close(&end);
    assert_int_equal(symlink("/dev/null", path), 0);
    expect_refusal_of_name(init, "a symbolic link");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refusal_of_name(init, "no regular file");
    assert_int_equal(rmdir(path), 0);
    if (geteuid() == 0) { /* only root can change the owner of a file */
        fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
        assert_true(fd >= 0);
        assert_int_equal(fchown(fd, 65534, 65534), 0);
        (void) close(fd);
        expect_refusal_of_name(init, "a file of user 65534");
        assert_int_equal(unlink(path), 0);
    }
    check_clean();
}

static void each_of_its_names_opens_it(void **state)
{
    static const char *const names[] = {"sm", "na+sm", "sm+sm"};

    (void) state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct end end;

        end_open(&end, names[i], NULL);
        assert_string_equal(NA_Get_class_protocol(end.na_class), "sm");
        end_close(&end);
    }
    check_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_named_endpoint_is_found_by_its_name),
        cmocka_unit_test(a_numbered_endpoint_that_is_gone_fails_at_its_first_use),
        cmocka_unit_test(a_numbered_endpoint_may_come_after_its_address),
        cmocka_unit_test(a_taken_name_is_refused),
        cmocka_unit_test(missing_and_malformed_addresses_are_told_apart),
        cmocka_unit_test(an_address_travels_in_compact_form),
        cmocka_unit_test(files_are_for_their_owner_alone),
        cmocka_unit_test(a_file_of_another_user_is_refused),
        cmocka_unit_test(a_symbolic_link_is_not_followed),
        cmocka_unit_test(a_start_removes_what_the_dead_left_and_nothing_else),
        cmocka_unit_test(a_start_removes_sockets_without_a_file),
        cmocka_unit_test(the_name_of_a_dead_endpoint_is_free_again),
        cmocka_unit_test(a_forked_child_does_not_destroy_the_endpoint),
        cmocka_unit_test(a_forked_child_does_not_outlive_the_endpoint_in_its_place),
        cmocka_unit_test(an_endpoint_that_was_killed_does_not_live_on_in_a_child),
        cmocka_unit_test(who_has_a_name_is_said),
        cmocka_unit_test(each_of_its_names_opens_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
