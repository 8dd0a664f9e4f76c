/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that connect, close, die and come back; operations that are cancelled or detached. */

#include "bmi_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGE 8000000

static struct side a, b;
static uint8_t sent[LARGE], received[LARGE];

static int setup(void **state)
{
    (void) state;
    side_open(&a, 0);
    side_open(&b, 0);
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    side_close(&a);
    if (b.instance != NULL)
        side_close(&b);
    return 0;
}

/* Returns the next unexpected message, or the notification of an ended connection. */
static struct BMI_unexpected_info next_notice(struct side *side, struct side *other)
{
    struct BMI_unexpected_info info = {0};

    assert_true(sides_poll_unexpected(side, other, 10000, &info));
    return info;
}

static void say_hello(struct side *from, struct side *to, BMI_addr_t address)
{
    struct BMI_unexpected_info info;

    side_send_unexpected(from, address, "hello", 5, 1);
    info = sides_wait_unexpected(to, from);
    assert_memory_equal(info.buffer, "hello", 5);
    BMI_instance_use(to->instance);
    assert_int_equal(BMI_unexpected_free(info.addr, info.buffer), 0);
}

static void test_nobody_listens(void **state)
{
    BMI_addr_t to_b = side_lookup(&a, &b);
    int ret, is_free;
    bmi_op_id_t id;

    (void) state;
    side_close(&b);
    BMI_instance_use(a.instance);
    ret = BMI_post_sendunexpected(&id, to_b, sent, 10, BMI_EXT_ALLOC, 1, sent, a.context, NULL);
    if (ret == 0) {
        sides_wait(&a, NULL, 1);
        ret = side_take(&a, sent).error;
    }
    assert_int_equal(ret, -BMI_ECONNREFUSED);
    is_free = BMI_may_send(to_b);
    assert_true(is_free <= 0);
}

static void test_bad_names(void **state)
{
    static const char *const names[] = {"",          "tcp://",         "tcp://127.0.0.1",
                                        "tcp://:80", "ib://host:1",    "tcp://[::1:80",
                                        "tcp://1:x", "127.0.0.1:1234", "tcp://127.0.0.1:123456"};
    BMI_addr_t address;

    (void) state;
    BMI_instance_use(a.instance);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_true(BMI_addr_lookup(&address, names[i]) < 0);
        assert_int_equal(address, 0);
    }
}

/* Every pending operation with the peer ends, and a notification follows its last message. */
static void test_peer_closes(void **state)
{
    BMI_addr_t to_b = side_lookup(&a, &b), from_b;
    struct BMI_unexpected_info info;

    (void) state;
    say_hello(&a, &b, to_b);
    from_b = side_lookup(&b, &a);
    (void) side_receive(&a, to_b, received, sizeof(received), 1, received);
    side_send_unexpected(&b, from_b, "last", 4, 9);
    side_close(&b);
    info = next_notice(&a, NULL);
    assert_int_equal(info.error_code, 0);
    assert_int_equal(info.tag, 9);
    (void) BMI_unexpected_free(info.addr, info.buffer);
    info = next_notice(&a, NULL);
    assert_int_not_equal(info.error_code, 0);
    assert_int_equal(info.addr, to_b);
    assert_null(info.buffer);
    sides_wait(&a, NULL, 1);
    assert_true(side_take(&a, received).error < 0);
}

static void test_peer_comes_back(void **state)
{
    BMI_addr_t to_b = side_lookup(&a, &b);
    int port = b.port;

    (void) state;
    for (int i = 0; i < 5; i++) {
        struct BMI_unexpected_info info;

        say_hello(&a, &b, to_b);
        say_hello(&b, &a, side_lookup(&b, &a));
        side_close(&b);
        info = next_notice(&a, NULL);
        assert_int_not_equal(info.error_code, 0);
        side_open(&b, port);
    }
    /* Now the peer connects; its messages come from the same address. */
    side_send_unexpected(&b, side_lookup(&b, &a), "hello", 5, 1);
    assert_int_equal(sides_wait_unexpected(&a, &b).addr, to_b);
}

/* The peer is restarted, and its new connection arrives before the end of the old one is
 * detected. */
static void test_quick_restart(void **state)
{
    BMI_addr_t to_b = side_lookup(&a, &b);
    struct BMI_unexpected_info info;
    int port = b.port;

    (void) state;
    say_hello(&a, &b, to_b);
    say_hello(&b, &a, side_lookup(&b, &a));
    side_send_unexpected(&b, side_lookup(&b, &a), "old", 3, 1);
    side_close(&b);
    side_open(&b, port);
    side_send_unexpected(&b, side_lookup(&b, &a), "new", 3, 2);
    for (int i = 0; i < 20; i++) { /* the system accepts the connection before a does */
        sides_progress(&b, NULL);
    }
    info = next_notice(&a, &b);
    assert_int_equal(info.tag, 1);
    assert_int_not_equal(next_notice(&a, &b).error_code, 0);
    info = next_notice(&a, &b);
    assert_int_equal(info.error_code, 0);
    assert_int_equal(info.tag, 2);
    assert_int_equal(info.addr, to_b);
    BMI_instance_use(a.instance);
    (void) side_send(&a, to_b, "answer", 6, 3, NULL);
    (void) side_receive(&b, side_lookup(&b, &a), received, 6, 3, received);
    sides_wait(&b, &a, 1);
    assert_int_equal(side_take(&b, received).error, 0);
}

/* Two sides connect to each other at once: there are two connections, and each side sends over its
 * own. */
static void test_calls_cross(void **state)
{
    BMI_addr_t to_b = side_lookup(&a, &b), to_a = side_lookup(&b, &a);

    (void) state;
    for (uint32_t i = 0; i < 100; i++) {
        struct BMI_unexpected_info info;

        side_send_unexpected(&a, to_b, &i, sizeof(i), 1);
        side_send_unexpected(&b, to_a, &i, sizeof(i), 2);
        (void) side_receive(&a, to_b, received, 4, 3, received);
        (void) side_send(&b, to_a, &i, sizeof(i), 3, NULL);
        info = sides_wait_unexpected(&a, &b);
        assert_int_equal(info.addr, to_b);
        assert_memory_equal(info.buffer, &i, sizeof(i));
        (void) BMI_unexpected_free(info.addr, info.buffer);
        info = sides_wait_unexpected(&b, &a);
        assert_int_equal(info.addr, to_a);
        assert_memory_equal(info.buffer, &i, sizeof(i));
        (void) BMI_unexpected_free(info.addr, info.buffer);
        sides_wait(&a, &b, 1);
        assert_int_equal(side_take(&a, received).error, 0);
        assert_memory_equal(received, &i, sizeof(i));
    }
}

/* A peer that does not listen is answered over its connection, and its address is freed with
 * that. */
static void test_origin_only(void **state)
{
    struct side client;
    struct BMI_unexpected_info info;
    bmi_size_t actual;
    bmi_op_id_t id;

    (void) state;
    side_open(&client, -1);
    side_send_unexpected(&client, side_lookup(&client, &b), "hello", 5, 1);
    info = sides_wait_unexpected(&b, &client);
    BMI_instance_use(b.instance);
    (void) BMI_unexpected_free(info.addr, info.buffer);
    (void) side_receive(&client, side_lookup(&client, &b), received, 5, 2, received);
    (void) side_send(&b, info.addr, "there", 5, 2, NULL);
    sides_wait(&client, &b, 1);
    assert_memory_equal(received, "there", 5);
    side_close(&client);
    assert_int_not_equal(next_notice(&b, NULL).error_code, 0);
    assert_int_equal(
        BMI_post_send(&id, info.addr, sent, 5, BMI_EXT_ALLOC, 1, NULL, b.context, NULL),
        -BMI_EINVAL);
    assert_int_equal(BMI_post_recv(&id, info.addr, received, 5, &actual, BMI_EXT_ALLOC, 1, NULL,
                                   b.context, NULL),
                     -BMI_EINVAL);
}

/* The peer is killed in the middle of a large message, with others queued behind it. */
static void test_peer_is_killed(void **state)
{
    int fds[2], status;
    pid_t pid;
    struct side child;
    BMI_addr_t to_child;

    (void) state;
    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct BMI_unexpected_info info;

        side_open(&child, 0);
        if (write(fds[1], &child.port, sizeof(child.port)) != sizeof(child.port))
            _exit(1);
        info = sides_wait_unexpected(&child, NULL);
        (void) side_receive(&child, info.addr, received, LARGE, 5, received);
        for (int i = 0; i < 10; i++)
            sides_progress(&child, NULL);
        (void) pause();
        _exit(1);
    }
    child = b;
    assert_int_equal(read(fds[0], &child.port, sizeof(child.port)), sizeof(child.port));
    (void) snprintf(child.name, sizeof(child.name), LOCALHOST "%d", child.port);
    to_child = side_lookup(&a, &child);
    side_send_unexpected(&a, to_child, "hello", 5, 1);
    /* More than the buffers of the sockets hold, which may be 32 MiB. */
    for (int i = 0; i < 8; i++)
        (void) side_send(&a, to_child, sent, LARGE, 5 + i, &sent[i]);
    (void) side_receive(&a, to_child, received, 10, 7, received);
    for (int i = 0; i < 20; i++)
        sides_progress(&a, NULL);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_not_equal(next_notice(&a, NULL).error_code, 0);
    sides_wait(&a, NULL, 9);
    assert_true(side_take(&a, &sent[7]).error < 0); /* earlier messages may have been sent */
    assert_true(side_take(&a, received).error < 0);
    a.count = 0;
    (void) close(fds[0]);
    (void) close(fds[1]);
}

static void test_cancel_receive(void **state)
{
    BMI_addr_t to_b = side_lookup(&a, &b), from_a;
    bmi_op_id_t id;

    (void) state;
    say_hello(&a, &b, to_b);
    from_a = side_lookup(&b, &a);
    id = side_receive(&b, from_a, received, 10, 1, received);
    assert_int_equal(BMI_cancel(id, b.context), 0);
    sides_wait(&b, &a, 1);
    assert_int_equal(side_take(&b, received).error, -BMI_ECANCEL);
    assert_int_equal(BMI_cancel(id, b.context), 0); /* has completed: no effect */

    /* Cancelled while the message is arriving: the next message is not affected. */
    memset(received, 0x55, sizeof(received));
    id = side_receive(&b, from_a, received, LARGE, 2, received);
    (void) side_send(&a, to_b, sent, LARGE, 2, sent);
    while (received[0] == 0x55)
        sides_progress(&a, &b);
    BMI_instance_use(b.instance);
    assert_int_equal(BMI_cancel(id, b.context), 0);
    sides_wait(&b, &a, 1);
    assert_int_equal(side_take(&b, received).error, -BMI_ECANCEL);
    memset(received, 0x77, sizeof(received));
    sides_wait(&a, &b, 1);
    assert_int_equal(side_take(&a, sent).error, 0);
    say_hello(&a, &b, to_b);
    for (size_t i = 0; i < sizeof(received); i++)
        assert_int_equal(received[i], 0x77);
}

/* The memory is unmapped after the cancel; a message that has begun still arrives with the original
 * contents. */
static void cancel_send(bool is_detached)
{
    BMI_addr_t to_b = side_lookup(&a, &b), from_a;
    uint8_t *memory;
    bmi_op_id_t id, queued;

    say_hello(&a, &b, to_b);
    from_a = side_lookup(&b, &a);
    memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    pattern_fill(memory, LARGE, 1);
    id = side_send(&a, to_b, memory, LARGE, 1, memory);
    assert_int_not_equal(id, 0);
    queued = side_send(&a, to_b, memory, 100, 2, &queued);
    BMI_instance_use(a.instance);
    if (is_detached) {
        assert_int_equal(BMI_detach(id), 0);
        assert_int_equal(BMI_detach(queued), 0);
    } else {
        assert_int_equal(BMI_cancel(id, a.context), 0);
        assert_int_equal(BMI_cancel(queued, a.context), 0);
        sides_wait(&a, NULL, 2);
        assert_int_equal(side_take(&a, memory).error, -BMI_ECANCEL);
        assert_int_equal(side_take(&a, &queued).error, -BMI_ECANCEL);
    }
    assert_int_equal(munmap(memory, LARGE), 0);
    (void) side_receive(&b, from_a, received, LARGE, 1, received);
    sides_wait(&b, &a, 1);
    assert_int_equal(side_take(&b, received).error, 0);
    assert_true(pattern_check(received, LARGE, 1));
    if (is_detached) {
        sides_wait(&a, &b, 2);
        assert_int_equal(side_take(&a, memory).error, 0);
        assert_int_equal(side_take(&a, &queued).error, 0);
        (void) side_receive(&b, from_a, received, 100, 2, received);
        sides_wait(&b, &a, 1);
        assert_true(pattern_check(received, 100, 1));
    }
    say_hello(&a, &b, to_b);
}

static void test_cancel_send(void **state)
{
    (void) state;
    cancel_send(false);
}

static void test_detach_send(void **state)
{
    (void) state;
    cancel_send(true);
}

static void test_detach_receive(void **state)
{
    BMI_addr_t to_b = side_lookup(&a, &b), from_a;
    bmi_op_id_t ids[2];

    (void) state;
    say_hello(&a, &b, to_b);
    from_a = side_lookup(&b, &a);
    memset(received, 0x55, sizeof(received));
    ids[0] = side_receive(&b, from_a, received, LARGE, 1, &ids[0]);
    ids[1] = side_receive(&b, from_a, received, LARGE, 2, &ids[1]);
    (void) side_send(&a, to_b, sent, LARGE, 1, NULL);
    (void) side_send(&a, to_b, sent, LARGE, 2, NULL);
    while (received[0] == 0x55)
        sides_progress(&a, &b);
    BMI_instance_use(b.instance);
    for (int i = 0; i < 2; i++)
        assert_int_equal(BMI_detach(ids[i]), 0);
    memset(received, 0x77, sizeof(received));
    sides_wait(&b, &a, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(side_take(&b, &ids[i]).error, 0);
    }
    for (size_t i = 0; i < sizeof(received); i++)
        assert_int_equal(received[i], 0x77);
    say_hello(&a, &b, to_b);
}

/* Closing a connection ends its operations; the next message opens a new one. */
static void test_close_socket(void **state)
{
    BMI_addr_t to_b = side_lookup(&a, &b);
    int count = 0;
    struct BMI_unexpected_info info;

    (void) state;
    say_hello(&a, &b, to_b);
    (void) side_receive(&a, to_b, received, 10, 1, received);
    assert_int_equal(BMI_set_info(to_b, BMI_TCP_CLOSE_SOCKET, NULL), 0);
    sides_wait(&a, &b, 1);
    assert_int_equal(side_take(&a, received).error, -BMI_ECANCEL);
    BMI_instance_use(a.instance);
    assert_int_equal(BMI_testunexpected(1, &count, &info, BMI_TEST_ONLY), 0); /* no notification */
    assert_int_not_equal(next_notice(&b, &a).error_code, 0);
    say_hello(&a, &b, to_b);
}

/* Addresses without references are freed with their connection. */
static void test_references(void **state)
{
    BMI_addr_t to_b = side_lookup(&a, &b);
    bmi_op_id_t id;

    (void) state;
    assert_int_equal(BMI_set_info(to_b, BMI_INC_ADDR_REF, NULL), 0);
    assert_int_equal(BMI_set_info(to_b, BMI_DEC_ADDR_REF, NULL), 0);
    assert_int_equal(
        BMI_post_sendunexpected(&id, to_b, sent, 1, BMI_EXT_ALLOC, 1, NULL, a.context, NULL),
        -BMI_EINVAL);
    to_b = side_lookup(&a, &b);
    assert_int_equal(BMI_set_info(to_b, BMI_INC_ADDR_REF, NULL), 0);
    say_hello(&a, &b, to_b);
    BMI_instance_use(a.instance);
    assert_int_equal(BMI_set_info(to_b, BMI_DEC_ADDR_REF, NULL), 0);
    assert_int_equal(side_lookup(&a, &b), to_b); /* its connection is kept open */
    assert_int_equal(BMI_set_info(to_b, BMI_INC_ADDR_REF, NULL), 0);
    assert_int_equal(BMI_set_info(to_b, BMI_DEC_ADDR_REF, NULL), 0);
    side_close(&b);
    for (int i = 0; i < 100 && BMI_set_info(to_b, BMI_INC_ADDR_REF, NULL) == 0; i++) {
        assert_int_equal(BMI_set_info(to_b, BMI_DEC_ADDR_REF, NULL), 0);
        sides_progress(&a, NULL);
    }
    assert_int_equal(BMI_set_info(to_b, BMI_INC_ADDR_REF, NULL), -BMI_EINVAL);
}

/* A failed connection attempt from before the last reference was released is not reported to a
 * later caller. */
static void test_stale_attempt(void **state)
{
    BMI_addr_t to_b = side_lookup(&a, &b);
    int port = b.port;

    (void) state;
    side_close(&b);
    BMI_instance_use(a.instance);
    assert_int_equal(BMI_set_info(to_b, BMI_INC_ADDR_REF, NULL), 0);
    assert_int_equal(BMI_may_send(to_b), 0);
    assert_int_equal(BMI_set_info(to_b, BMI_DEC_ADDR_REF, NULL), 0);
    side_open(&b, port);
    to_b = side_lookup(&a, &b);
    assert_int_equal(BMI_set_info(to_b, BMI_INC_ADDR_REF, NULL), 0);
    say_hello(&a, &b, to_b);
}

/* Of many unused connections, only some are kept open. */
static void test_many_dropped(void **state)
{
    enum {
        COUNT = 70
    };
    static struct side many[COUNT];
    int closed = 0;

    (void) state;
    for (int i = 0; i < COUNT; i++) {
        BMI_addr_t address;

        side_open(&many[i], 0);
        address = side_lookup(&a, &many[i]);
        assert_int_equal(BMI_set_info(address, BMI_INC_ADDR_REF, NULL), 0);
        say_hello(&a, &many[i], address);
        BMI_instance_use(a.instance);
        assert_int_equal(BMI_set_info(address, BMI_DEC_ADDR_REF, NULL), 0);
    }
    for (int i = 0; i < COUNT; i++) {
        struct BMI_unexpected_info info;

        if (sides_poll_unexpected(&many[i], &a, 20, &info))
            closed++;
    }
    assert_int_equal(closed, COUNT - 64);
    for (int i = 0; i < COUNT; i++)
        side_close(&many[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nobody_listens, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_peer_closes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_peer_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quick_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calls_cross, setup, teardown),
        cmocka_unit_test_setup_teardown(test_origin_only, setup, teardown),
        cmocka_unit_test_setup_teardown(test_peer_is_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancel_receive, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancel_send, setup, teardown),
        cmocka_unit_test_setup_teardown(test_detach_send, setup, teardown),
        cmocka_unit_test_setup_teardown(test_detach_receive, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close_socket, setup, teardown),
        cmocka_unit_test_setup_teardown(test_references, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stale_attempt, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_dropped, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
