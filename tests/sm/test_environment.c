/* SPDX-License-Identifier: BSD-3-Clause */
/* Other PID namespaces, a full /dev/shm, no free descriptors, hundreds of sleepers, and no
 * allocation in the steady state. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "sm_test.h"
#include "transport_rma.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SKIPPED 77
#define BYTES   300000u

/* More than the number of unread datagrams that the default buffer of one socket holds. */
#define SLEEPERS 400

static _Atomic unsigned long allocations;

#if !TEST_SANITIZED
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
SM_TEST_EXPORT void *malloc(size_t size);
SM_TEST_EXPORT void *calloc(size_t count, size_t size);
SM_TEST_EXPORT void *aligned_alloc(size_t align, size_t size);
SM_TEST_EXPORT int posix_memalign(void **ptr, size_t align, size_t size);

void *malloc(size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_calloc(count, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_memalign(align, size);
}

int posix_memalign(void **ptr, size_t align, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    *ptr = __libc_memalign(align, size);
    return *ptr != NULL ? 0 : ENOMEM;
}
#endif

static void nothing_is_allocated_in_the_steady_state(void **state)
{
    uint8_t request[64] = {0}, reply[64];
    na_op_id_t *send_op, *recv_op;
    unsigned long before = 0;
    struct rma rma;

    (void) state;
    for (int copy = 0; copy < 2; copy++) {
        if (copy)
            assert_int_equal(setenv("AMALGAM_SM_RMA", "copy", 1), 0);
        assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, BYTES, 0), 0);
        send_op = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
        recv_op = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
        for (uint32_t i = 0; i < 3000; i++) {
            struct event got = {0}, sent = {0}, done = {0};

            if (i == 1000)
                before = atomic_load(&allocations);
            if (i == 1000 && !TEST_SANITIZED)
                assert_true(before > 10); /* includes those of the plugin */
            assert_int_equal(NA_Msg_recv_expected(rma.end.na_class, rma.end.context, event_callback,
                                                  &got, reply, sizeof(reply), NULL, rma.peer, 0, i,
                                                  recv_op),
                             NA_SUCCESS);
            assert_int_equal(NA_Msg_send_unexpected(rma.end.na_class, rma.end.context,
                                                    event_callback, &sent, request, sizeof(request),
                                                    NULL, rma.peer, 0, i, send_op),
                             NA_SUCCESS);
            assert_true(event_wait(&rma.end, &sent, TEST_WAIT_MS));
            assert_true(event_wait(&rma.end, &got, TEST_WAIT_MS));
            if (i % 10 != 0)
                continue;
            assert_int_equal((i % 20 ? NA_Put : NA_Get)(
                                 rma.end.na_class, rma.end.context, event_callback, &done,
                                 rma.local_mem, 0, rma.remote_mem, 0, BYTES, rma.peer, 0, send_op),
                             NA_SUCCESS);
            assert_true(event_wait(&rma.end, &done, TEST_WAIT_MS));
        }
        assert_int_equal(atomic_load(&allocations) - before, 0);
        NA_Op_destroy(rma.end.na_class, send_op);
        NA_Op_destroy(rma.end.na_class, recv_op);
        rma_close(&rma, true);
        assert_int_equal(unsetenv("AMALGAM_SM_RMA"), 0);
    }
    if (TEST_SANITIZED)
        print_message("allocations are not counted: a sanitizer replaces malloc\n");
    check_clean();
}

/* The peer is in a PID namespace of its own: messages and copied transfers work, and its death is
 * detected. */
static int talk_across_pid_namespaces(void *arg)
{
    uint8_t packed[512], local[5000], reply[64];
    struct event event = {0};
    size_t size = sizeof(packed);
    na_mem_handle_t *mem, *remote;
    struct child child;
    struct end end;
    na_op_id_t *op;
    na_addr_t *peer;
    uint64_t from;

    (void) arg;
    if (unshare(CLONE_NEWPID) != 0)
        return SKIPPED;
    child_start(&child, "na+sm", "plain"); /* has the process id 1 in its namespace */
    end.na_class = NA_Initialize("na+sm", true);
    TEST_REQUIRE(end.na_class != NULL);
    end.context = NA_Context_create(end.na_class);
    TEST_REQUIRE(strncmp(child.address, "na+sm://1-", 10) == 0);
    TEST_REQUIRE(NA_Addr_lookup(end.na_class, child.address, &peer) == NA_SUCCESS);
    TEST_REQUIRE(end_command(&end, peer, PEER_EXPOSE, NA_MEM_READWRITE, sizeof(local), 0, packed,
                             &size) == NA_SUCCESS);
    TEST_REQUIRE(NA_Mem_handle_deserialize(end.na_class, &remote, packed, size) == NA_SUCCESS);
    mem = mem_open(&end, local, sizeof(local), NA_MEM_READWRITE);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    TEST_REQUIRE(NA_Get(end.na_class, end.context, event_callback, &event, mem, 0, remote, 0,
                        sizeof(local), peer, 0, op) == NA_SUCCESS);
    TEST_REQUIRE(event_wait(&end, &event, TEST_WAIT_MS) && event.ret == NA_SUCCESS);
    for (size_t i = 0; i < sizeof(local); i++)
        TEST_REQUIRE(local[i] == (uint8_t) (i * 7 + 3));
    event.done = 0;
    TEST_REQUIRE(NA_Msg_recv_expected(end.na_class, end.context, event_callback, &event, reply,
                                      sizeof(reply), NULL, peer, 0, 1, op) == NA_SUCCESS);
    child_kill(&child);
    from = now_ms();
    TEST_REQUIRE(event_wait(&end, &event, TEST_WAIT_MS) && event.ret == NA_HOSTUNREACH);
    TEST_REQUIRE(now_ms() - from < TEST_DEATH_MS);
    NA_Op_destroy(end.na_class, op);
    NA_Mem_handle_free(end.na_class, remote);
    mem_close(&end, mem);
    NA_Addr_free(end.na_class, peer);
    TEST_REQUIRE(NA_Context_destroy(end.na_class, end.context) == NA_SUCCESS);
    TEST_REQUIRE(NA_Finalize(end.na_class) == NA_SUCCESS);
    /* opening an endpoint removes what the killed process left */
    end.na_class = NA_Initialize("na+sm", true);
    TEST_REQUIRE(end.na_class != NULL && NA_Finalize(end.na_class) == NA_SUCCESS);
    return 0;
}

static void run_or_skip(int (*function)(void *), const char *why)
{
    int ret = run_in_child(function, NULL);

    if (ret == SKIPPED) {
        print_message("skipped: %s (%s)\n", why, strerror(EPERM));
        skip();
    }
    assert_int_equal(ret, 0);
}

static void peers_in_another_pid_namespace_work(void **state)
{
    (void) state;
    run_or_skip(talk_across_pid_namespaces, "no PID namespace can be made");
    check_clean();
}

static bool mount_small_shm(const char *options)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", "/dev/shm", "tmpfs", 0, options) == 0;
}

/* The file of a new endpoint does not fit into /dev/shm: an error, never SIGBUS. Existing endpoints
 * keep working. */
static int live_with_a_full_shm(void *arg)
{
    uint8_t reply[64], filler[4096] = {0};
    size_t size = sizeof(reply);
    struct child child;
    struct end end;
    na_addr_t *peer;
    int fd;

    (void) arg;
    if (!mount_small_shm("size=256k"))
        return SKIPPED;
    fd = open("/dev/shm/filler", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    TEST_REQUIRE(fd >= 0);
    while (write(fd, filler, sizeof(filler)) > 0)
        continue;
    TEST_REQUIRE(NA_Initialize("na+sm", true) == NULL);
    TEST_REQUIRE(ftruncate(fd, 0) == 0);
    end.na_class = NA_Initialize("na+sm", true);
    TEST_REQUIRE(end.na_class != NULL);
    end.context = NA_Context_create(end.na_class);
    child_start(&child, "na+sm", "plain");
    TEST_REQUIRE(NA_Addr_lookup(end.na_class, child.address, &peer) == NA_SUCCESS);
    while (write(fd, filler, sizeof(filler)) > 0)
        continue;
    for (int i = 0; i < 1000; i++) { /* connects and works, although /dev/shm is full */
        size = sizeof(reply);
        TEST_REQUIRE(end_command(&end, peer, PEER_ECHO, 0, 0, 0, reply, &size) == NA_SUCCESS);
    }
    NA_Addr_free(end.na_class, peer);
    TEST_REQUIRE(NA_Context_destroy(end.na_class, end.context) == NA_SUCCESS);
    TEST_REQUIRE(NA_Finalize(end.na_class) == NA_SUCCESS);
    child_stop(&child);
    return 0;
}

/* The rings of copied transfers take no space in /dev/shm. */
static int copy_in_a_small_shm(void *arg)
{
    static uint8_t local[BYTES];
    struct event event = {0};
    na_mem_handle_t *mem, *remote;
    uint8_t packed[512];
    size_t size = sizeof(packed);
    struct child child;
    struct end end;
    na_op_id_t *op;
    na_addr_t *peer;

    (void) arg;
    if (!mount_small_shm("size=256k"))
        return SKIPPED;
    TEST_REQUIRE(setenv("AMALGAM_SM_RMA", "copy", 1) == 0);
    child_start(&child, "na+sm", "plain");
    end_open(&end, "na+sm", NULL);
    TEST_REQUIRE(NA_Addr_lookup(end.na_class, child.address, &peer) == NA_SUCCESS);
    TEST_REQUIRE(end_command(&end, peer, PEER_EXPOSE, NA_MEM_READWRITE, BYTES, 0, packed, &size) ==
                 NA_SUCCESS);
    TEST_REQUIRE(NA_Mem_handle_deserialize(end.na_class, &remote, packed, size) == NA_SUCCESS);
    mem = mem_open(&end, local, BYTES, NA_MEM_READWRITE);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    for (int i = 0; i < 2; i++) {
        event.done = 0;
        TEST_REQUIRE((i ? NA_Put : NA_Get)(end.na_class, end.context, event_callback, &event, mem,
                                           0, remote, 0, BYTES, peer, 0, op) == NA_SUCCESS);
        TEST_REQUIRE(event_wait(&end, &event, TEST_WAIT_MS) && event.ret == NA_SUCCESS);
    }
    for (size_t i = 0; i < BYTES; i++)
        TEST_REQUIRE(local[i] == (uint8_t) (i * 7 + 3));
    NA_Op_destroy(end.na_class, op);
    NA_Mem_handle_free(end.na_class, remote);
    mem_close(&end, mem);
    NA_Addr_free(end.na_class, peer);
    end_close(&end);
    child_stop(&child);
    return 0;
}

static void copied_transfers_work_with_little_room(void **state)
{
    (void) state;
    run_or_skip(copy_in_a_small_shm, "no mount namespace can be made");
}

static void a_full_shm_is_an_error_not_a_crash(void **state)
{
    (void) state;
    run_or_skip(live_with_a_full_shm, "no mount namespace can be made");
}

static int open_without_descriptors(void *arg)
{
    struct rlimit limit = {.rlim_max = 64};
    na_class_t *na_class;
    char text[4096];

    (void) arg;
    na_class = NA_Initialize("na+sm", true); /* the plugin is loaded */
    TEST_REQUIRE(na_class != NULL && NA_Finalize(na_class) == NA_SUCCESS);
    for (rlim_t i = 0; i < 14; i++) {
        limit.rlim_cur = 64;
        TEST_REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        sm_log_catch("error");
        limit.rlim_cur = i;
        TEST_REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        na_class = NA_Initialize("na+sm", true);
        TEST_REQUIRE(na_class == NULL || NA_Finalize(na_class) == NA_SUCCESS);
        sm_log_caught(text, sizeof(text));
        TEST_REQUIRE(na_class != NULL || strstr(text, "ulimit -n") != NULL);
    }
    limit.rlim_cur = 64;
    TEST_REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    na_class = NA_Initialize("na+sm", true);
    TEST_REQUIRE(na_class != NULL && NA_Finalize(na_class) == NA_SUCCESS);
    return 0;
}

static void running_out_of_descriptors_is_an_error(void **state)
{
    (void) state;
    assert_int_equal(run_in_child(open_without_descriptors, NULL), 0);
    check_clean();
}

/* The file size limit first forbids the segment, then the ring: each call is refused, and SIGXFSZ
 * is never raised. */
static int live_with_a_file_size_limit(void *arg)
{
    struct rlimit limit = {.rlim_cur = 65536, .rlim_max = RLIM_INFINITY};
    struct end end, other;
    na_addr_t *peer;
    char text[1024];

    (void) arg;
    end_open(&end, "na+sm", NULL);
    TEST_REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    sm_log_catch("error");
    limit.rlim_cur = 65536;
    TEST_REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    TEST_REQUIRE(NA_Initialize("na+sm", true) == NULL);
    limit.rlim_cur = 1150000; /* enough for an endpoint with one context, but not for a ring in
                               * addition */
    TEST_REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    end_open(&other, "na+sm", NULL);
    peer = end_lookup(&other, &end);
    TEST_REQUIRE(end_send(&other, peer, "hello", 5, 0, false) == NA_NOMEM);
    limit.rlim_cur = limit.rlim_max;
    TEST_REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    sm_log_caught(text, sizeof(text));
    TEST_REQUIRE(strstr(text, "ulimit -f") != NULL);
    TEST_REQUIRE(end_send(&other, peer, "hello", 5, 0, false) == NA_SUCCESS);
    NA_Addr_free(other.na_class, peer);
    end_close(&other);
    end_close(&end);
    return 0;
}

static void a_limit_of_file_sizes_is_an_error_not_a_signal(void **state)
{
    (void) state;
    assert_int_equal(run_in_child(live_with_a_file_size_limit, NULL), 0);
    check_clean();
}

/* The receiver has no free descriptor when a sender connects. It receives the message once it has
 * one again. */
static int accept_without_descriptors(void *arg)
{
    struct rlimit before, none;
    struct event got[2] = {0};
    struct end server, client;
    na_addr_t *peer;
    uint8_t in[64];
    na_op_id_t *op;

    (void) arg;
    end_open(&server, "na+sm", NULL);
    end_open(&client, "na+sm", NULL);
    op = NA_Op_create(server.na_class, NA_OP_SINGLE);
    peer = end_lookup(&client, &server);
    TEST_REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    for (int i = 0; i < 2; i++) {
        TEST_REQUIRE(NA_Msg_recv_unexpected(server.na_class, server.context, event_callback,
                                            &got[i], in, sizeof(in), NULL, op) == NA_SUCCESS);
        TEST_REQUIRE(end_send(&client, peer, "hello", 5, 0, false) == NA_SUCCESS);
        if (i == 0) { /* the receiver has not polled yet */
            none = before;
            none.rlim_cur = 3;
            TEST_REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
            for (int j = 0; j < 3; j++)
                end_progress(&server, 0);
            TEST_REQUIRE(got[0].done == 0);
            TEST_REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
        }
        TEST_REQUIRE(event_wait(&server, &got[i], 2000) && got[i].ret == NA_SUCCESS);
        NA_Addr_free(server.na_class, got[i].source);
    }
    NA_Op_destroy(server.na_class, op);
    NA_Addr_free(client.na_class, peer);
    end_close(&client);
    end_close(&server);
    return 0;
}

static void a_sender_is_accepted_once_there_are_descriptors_again(void **state)
{
    (void) state;
    assert_int_equal(run_in_child(accept_without_descriptors, NULL), 0);
    check_clean();
}

/* The receivers sleep without reading. The wake-up of each one does not depend on the buffers of
 * the others. */
static int wake_many_sleepers(void *arg)
{
    static struct end sleepers[SLEEPERS];
    static na_addr_t *peers[SLEEPERS];
    struct rlimit limit;
    struct end sender;

    (void) arg;
    TEST_REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_max < SLEEPERS * 10)
        return SKIPPED;
    limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
    TEST_REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    end_open(&sender, "na+sm", NULL);
    for (int i = 0; i < SLEEPERS; i++) {
        end_open(&sleepers[i], "na+sm", NULL);
        peers[i] = end_lookup(&sender, &sleepers[i]);
        TEST_REQUIRE(NA_Poll_try_wait(sleepers[i].na_class, sleepers[i].context));
    }
    for (int i = 0; i < SLEEPERS; i++)
        TEST_REQUIRE(end_send(&sender, peers[i], "hello", 5, 0, false) == NA_SUCCESS);
    for (int i = 0; i < SLEEPERS; i++) {
        struct pollfd woken = {.events = POLLIN};

        woken.fd = NA_Poll_get_fd(sleepers[i].na_class, sleepers[i].context);
        TEST_REQUIRE(poll(&woken, 1, 0) == 1);
    }
    for (int i = 0; i < SLEEPERS; i++) {
        NA_Addr_free(sender.na_class, peers[i]);
        end_progress(&sleepers[i], 0);
        end_close(&sleepers[i]);
    }
    end_close(&sender);
    return 0;
}

static void any_number_of_sleepers_is_woken(void **state)
{
    (void) state;
    run_or_skip(wake_many_sleepers, "too few descriptors are allowed");
    check_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_allocated_in_the_steady_state),
        cmocka_unit_test(peers_in_another_pid_namespace_work),
        cmocka_unit_test(copied_transfers_work_with_little_room),
        cmocka_unit_test(a_full_shm_is_an_error_not_a_crash),
        cmocka_unit_test(running_out_of_descriptors_is_an_error),
        cmocka_unit_test(a_limit_of_file_sizes_is_an_error_not_a_signal),
        cmocka_unit_test(a_sender_is_accepted_once_there_are_descriptors_again),
        cmocka_unit_test(any_number_of_sleepers_is_woken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
