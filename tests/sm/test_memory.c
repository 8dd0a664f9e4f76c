/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of an endpoint cannot be shrunk by others, is shared also with processes that cannot
 * open its descriptors in /proc, and cannot be prevented by others who take its names beforehand.
 */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "sm_test.h"

#include "layout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define NAMES 300

static bool proc_is_closed;

SM_TEST_EXPORT int stat(const char *path, struct stat *status);

/* While it is set, no process can open the descriptors of another one, as between PID
 * namespaces. */
int stat(const char *path, struct stat *status)
{
    if (proc_is_closed && strncmp(path, "/proc/", 6) == 0 && strstr(path, "/fd/") != NULL) {
        errno = EACCES;
        return -1;
    }
    return fstatat(AT_FDCWD, path, status, 0);
}

/* Counts the descriptors of these endpoints that a process of the same user can shrink. */
static int shrink_all(const struct end *ends, size_t count)
{
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    char path[300], target[256];
    int tried = 0;

    for (size_t i = 0; i < count; i++) {
        char address[128];
        int fd;

        end_address(&ends[i], address, sizeof(address));
        (void) snprintf(path, sizeof(path), "/dev/shm/amalgam-sm.%u.%s", (unsigned) geteuid(),
                        address + strlen("na+sm://"));
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0 || ftruncate(fd, 0) != 0)
            return -1;
        (void) close(fd);
        tried++;
    }
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        ssize_t size = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);

        target[size < 0 ? 0 : size] = '\0';
        if (strstr(target, "amalgam-sm") == NULL)
            continue;
        (void) ftruncate((int) strtol(entry->d_name, NULL, 10), 0);
        tried++;
    }
    if (directory != NULL)
        (void) closedir(directory);
    return tried;
}

static int live_with_a_peer_that_shrinks(void *arg)
{
    struct end ends[2]; /* the victim and the attacker */
    struct event event = {0};
    uint8_t reply[64], buf[64];
    size_t size = sizeof(reply);
    na_addr_t *honest_addr, *victim_addr;
    struct child honest;
    na_op_id_t *op;

    (void) arg;
    child_start(&honest, "na+sm", "plain");
    end_open(&ends[0], "na+sm", NULL);
    end_open(&ends[1], "na+sm", NULL);
    TEST_REQUIRE(NA_Addr_lookup(ends[0].na_class, honest.address, &honest_addr) == NA_SUCCESS);
    TEST_REQUIRE(end_command(&ends[0], honest_addr, PEER_ECHO, 1, 2, 3, reply, &size) ==
                 NA_SUCCESS);
    victim_addr = end_lookup(&ends[1], &ends[0]);
    op = NA_Op_create(ends[0].na_class, NA_OP_SINGLE);
    TEST_REQUIRE(NA_Msg_recv_unexpected(ends[0].na_class, ends[0].context, event_callback, &event,
                                        buf, sizeof(buf), NULL, op) == NA_SUCCESS);
    TEST_REQUIRE(end_send(&ends[1], victim_addr, "hi", 3, 1, false) == NA_SUCCESS);
    TEST_REQUIRE(event_wait(&ends[0], &event, TEST_WAIT_MS));
    NA_Addr_free(ends[0].na_class, event.source);
    TEST_REQUIRE(shrink_all(ends, 2) >= 4);
    for (int i = 0; i < 1000; i++) {
        unsigned int count;

        (void) NA_Poll(ends[0].na_class, ends[0].context, &count);
    }
    size = sizeof(reply);
    TEST_REQUIRE(end_command(&ends[0], honest_addr, PEER_ECHO, 1, 2, 3, reply, &size) ==
                 NA_SUCCESS);
    NA_Op_destroy(ends[0].na_class, op);
    NA_Addr_free(ends[1].na_class, victim_addr);
    NA_Addr_free(ends[0].na_class, honest_addr);
    end_close(&ends[1]);
    end_close(&ends[0]);
    child_stop(&honest);
    return 0;
}

static void a_peer_cannot_shrink_what_others_have_mapped(void **state)
{
    (void) state;
    assert_int_equal(run_in_child(live_with_a_peer_that_shrinks, NULL), 0);
    check_clean();
}

/* Makes an endpoint's file by hand, with `memory` as its shared memory, and looks it up. */
static na_return_t lookup_forged(const struct end *end, int memory, char *log, size_t log_size)
{
    /* The lock keeps an endpoint that starts at the same time from removing the file as stale. */
    struct flock mine = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    char path[160], address[96], real[128];
    struct sm_segment_header header;
    struct stat status;
    na_return_t ret;
    na_addr_t *addr;
    int fd;

    end_address(end, real, sizeof(real));
    fd = sm_memory_of(real);
    assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
    (void) close(fd);
    assert_int_equal(ftruncate(memory, (off_t) sm_layout_base_size(header.max_contexts)), 0);
    assert_int_equal(fchmod(memory, 0600), 0);
    assert_int_equal(fstat(memory, &status), 0);
    header.incarnation ^= 2;
    header.memory_fd = (uint32_t) memory;
    header.memory_device = status.st_dev;
    header.memory_inode = status.st_ino;
    assert_int_equal(pwrite(memory, &header, sizeof(header), 0), sizeof(header));
    (void) snprintf(address, sizeof(address), "na+sm://test%d-forged", (int) getpid());
    (void) snprintf(path, sizeof(path), "/dev/shm/amalgam-sm.%u.test%d-forged",
                    (unsigned) geteuid(), (int) getpid());
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_OFD_SETLKW, &mine), 0);
    assert_int_equal(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
    sm_log_catch("error");
    ret = NA_Addr_lookup(end->na_class, address, &addr);
    sm_log_caught(log, log_size);
    assert_int_equal(unlink(path), 0);
    (void) close(fd);
    (void) close(memory);
    return ret;
}

static void memory_that_may_shrink_is_refused(void **state)
{
    char log[1024];
    struct end end;
    int fd;

    (void) state;
    end_open(&end, "na+sm", NULL);
    assert_int_equal(
        lookup_forged(&end, memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING), log, 1024),
        NA_PERMISSION);
    assert_non_null(strstr(log, "not sealed"));
    assert_int_equal(
        lookup_forged(&end, open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), log, 1024),
        NA_PERMISSION);
    assert_non_null(strstr(log, "not sealed"));
    /* With a seal the same memory is accepted as an endpoint, though as a dead one, for it has no
     * socket. */
    fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(lookup_forged(&end, fd, log, sizeof(log)), NA_NOENTRY);
    end_close(&end);
    check_clean();
}

static void memory_that_proc_does_not_show_is_handed_over(void **state)
{
    uint8_t reply[64];
    size_t size = sizeof(reply);
    struct child child;
    struct end end;
    na_addr_t *peer;

    (void) state;
    child_start(&child, "na+sm", "plain");
    end_open(&end, "na+sm", NULL);
    proc_is_closed = true;
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    for (int i = 0; i < 3; i++) {
        size = sizeof(reply);
        assert_int_equal(end_command(&end, peer, PEER_ECHO, 1, 2, 3, reply, &size), NA_SUCCESS);
    }
    proc_is_closed = false;
    NA_Addr_free(end.na_class, peer);
    end_close(&end);
    child_stop(&child);
    check_clean();
}

struct sender {
    char address[128];
    int until; /* the sender ends when this is readable */
};

static int send_and_poll(void *arg)
{
    struct sender *sender = arg;
    struct end end;
    na_addr_t *peer;
    char byte;

    (void) fcntl(sender->until, F_SETFL, O_NONBLOCK);
    end_open(&end, "na+sm", NULL);
    TEST_REQUIRE(NA_Addr_lookup(end.na_class, sender->address, &peer) == NA_SUCCESS);
    TEST_REQUIRE(end_send(&end, peer, "hello", 5, 1, false) == NA_SUCCESS);
    while (read(sender->until, &byte, 1) < 0)
        end_progress(&end, 10);
    NA_Addr_free(end.na_class, peer);
    end_close(&end);
    return 0;
}

/* The receiver cannot open the descriptors of the sender in /proc. */
static void a_sender_that_proc_does_not_show_is_received_from(void **state)
{
    struct event event = {0};
    struct sender sender;
    struct end end;
    na_op_id_t *op;
    uint8_t buf[64];
    int pipes[2], result;
    pid_t pid;

    (void) state;
    assert_int_equal(pipe(pipes), 0);
    end_open(&end, "na+sm", NULL);
    end_address(&end, sender.address, sizeof(sender.address));
    sender.until = pipes[0];
    pid = fork();
    if (pid == 0)
        _exit(send_and_poll(&sender));
    proc_is_closed = true;
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    assert_int_equal(NA_Msg_recv_unexpected(end.na_class, end.context, event_callback, &event, buf,
                                            sizeof(buf), NULL, op),
                     NA_SUCCESS);
    assert_true(event_wait(&end, &event, TEST_WAIT_MS));
    assert_int_equal(event.ret, NA_SUCCESS);
    assert_memory_equal(buf, "hello", 5);
    proc_is_closed = false;
    assert_int_equal(write(pipes[1], "x", 1), 1);
    assert_int_equal(waitpid(pid, &result, 0), pid);
    assert_int_equal(result, 0);
    NA_Addr_free(end.na_class, event.source);
    NA_Op_destroy(end.na_class, op);
    end_close(&end);
    (void) close(pipes[0]);
    (void) close(pipes[1]);
    check_clean();
}

/* Takes the names that the parent would choose; as another user where possible. */
static int take_names(void *arg)
{
    char(*paths)[160] = arg;

    if (geteuid() == 0 && (syscall(SYS_setgid, 65534) != 0 || syscall(SYS_setuid, 65534) != 0))
        return 1;
    for (int i = 0; i < NAMES; i++) {
        int fd = geteuid() == 65534 ? open(paths[i], O_CREAT | O_EXCL | O_WRONLY, 0666) : -1;

        if (fd < 0 && mkdir(paths[i], 0700) != 0)
            return 2;
        if (fd >= 0)
            (void) close(fd);
    }
    return 0;
}

/* Opens an endpoint while its usual names are taken, and checks that it can be reached. Returns the
 * number in its address. */
static unsigned int open_with_names_taken(const char *behind)
{
    static char paths[NAMES][160];
    uint8_t reply[64];
    size_t size = sizeof(reply);
    char address[128];
    struct child child;
    struct end end, client;
    unsigned int pid, number;
    na_addr_t *peer;

    for (int i = 0; i < NAMES; i++)
        (void) snprintf(paths[i], sizeof(paths[i]), "/dev/shm/amalgam-sm.%u.%d-%d%s",
                        (unsigned) geteuid(), (int) getpid(), i, behind);
    assert_int_equal(run_in_child(take_names, paths), 0);
    child_start(&child, "na+sm", "plain");
    end_open(&end, "na+sm", NULL);
    end_open(&client, "na+sm", NULL);
    for (int i = 0; i < NAMES; i++)
        assert_true(unlink(paths[i]) == 0 || rmdir(paths[i]) == 0);
    end_address(&end, address, sizeof(address));
    assert_int_equal(sscanf(address, "na+sm://%u-%u", &pid, &number), 2);
    assert_int_equal(pid, getpid());
    peer = end_lookup(&client, &end);
    assert_int_equal(end_send(&client, peer, "hello", 5, 1, false), NA_SUCCESS);
    NA_Addr_free(client.na_class, peer);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    assert_int_equal(end_command(&end, peer, PEER_ECHO, 1, 2, 3, reply, &size), NA_SUCCESS);
    NA_Addr_free(end.na_class, peer);
    end_close(&client);
    end_close(&end);
    child_stop(&child);
    check_clean();
    return number;
}

static void names_that_others_take_do_not_keep_it_from_opening(void **state)
{
    (void) state;
    assert_true(open_with_names_taken("") >= NAMES);
}

/* The names of an endpoint's sockets cannot be predicted, so nobody can take them beforehand. */
static void sockets_that_others_take_do_not_keep_it_from_opening(void **state)
{
    (void) state;
    (void) open_with_names_taken(".wake.0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_cannot_shrink_what_others_have_mapped),
        cmocka_unit_test(memory_that_may_shrink_is_refused),
        cmocka_unit_test(memory_that_proc_does_not_show_is_handed_over),
        cmocka_unit_test(a_sender_that_proc_does_not_show_is_received_from),
        cmocka_unit_test(names_that_others_take_do_not_keep_it_from_opening),
        cmocka_unit_test(sockets_that_others_take_do_not_keep_it_from_opening),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
