/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An attacker connects and claims to be another listener: messages to that listener's name still
 * reach the real one. Tested with BMI alone, and with two endpoints over it, with a key and
 * without.
 */

#include "bmi_fixture.h"

#include "../transport/transport_test.h"
#include "tcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Connects to the port, and sends a message in the name of "tcp://host:port". */
static int stranger_connect(int port, const char *name)
{
    const struct wire_header header = {
        .mode = WIRE_UNEXPECTED, .source = tcp_hash(name), .size = 4};
    const struct side side = {.port = port};
    int fd = socket_connect(&side);

    message_send(fd, &header, "fake");
    return fd;
}

/* Opens two listeners, of which the first takes another process for the second. Returns that
 * process's socket. */
static int sides_open(struct side *a, struct side *b, BMI_addr_t *to_b_p)
{
    struct BMI_unexpected_info info;
    int fd;

    side_open(a, 0);
    side_open(b, 0);
    fd = stranger_connect(a->port, b->name);
    info = sides_wait_unexpected(a, NULL);
    assert_memory_equal(info.buffer, "fake", 4);
    *to_b_p = side_lookup(a, b);
    assert_int_equal(info.addr, *to_b_p); /* so far the other process is taken for b */
    assert_int_equal(BMI_unexpected_free(info.addr, info.buffer), 0);
    assert_int_equal(BMI_set_info(*to_b_p, BMI_INC_ADDR_REF, NULL), 0);
    return fd;
}

static void check_reached(struct side *a, struct side *b, BMI_addr_t to_b)
{
    struct BMI_unexpected_info info;

    side_send_unexpected(a, to_b, "for b", 5, 1);
    info = sides_wait_unexpected(b, a);
    assert_memory_equal(info.buffer, "for b", 5);
    BMI_instance_use(b->instance);
    assert_int_equal(BMI_unexpected_free(info.addr, info.buffer), 0);
}

static void test_listener_is_dialed(void **state)
{
    struct side a, b;
    BMI_addr_t to_b;
    char byte;
    int fd;

    (void) state;
    fd = sides_open(&a, &b, &to_b);
    assert_int_equal(BMI_set_info(to_b, BMI_DIAL, NULL), 0);
    check_reached(&a, &b, to_b);
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    (void) close(fd);
    side_close(&a);
    side_close(&b);
}

/* Messages queued for the attacker, who reads nothing, do not keep later ones from the real
 * listener. */
static void test_stranger_that_reads_nothing(void **state)
{
    static uint8_t large[16000000];
    struct side a, b;
    BMI_addr_t to_b;
    int fd;

    (void) state;
    fd = sides_open(&a, &b, &to_b);
    assert_int_not_equal(side_send(&a, to_b, large, sizeof(large), 2, large), 0);
    assert_int_equal(BMI_set_info(to_b, BMI_DIAL, NULL), 0);
    sides_wait(&a, NULL, 1);
    assert_true(side_take(&a, large).error < 0);
    check_reached(&a, &b, to_b);
    (void) close(fd);
    side_close(&a);
    side_close(&b);
}

/* Returns the name by which BMI knows an endpoint, and its port. */
static int bmi_name(const struct end *end, char *name, size_t size)
{
    char address[256];

    end_address(end, address, sizeof(address));
    (void) snprintf(name, size, "%s", strstr(address, "tcp://"));
    return atoi(strrchr(name, ':') + 1);
}

static void call_listener(const char *key)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct event sent = {0}, received = {0};
    struct end a, b;
    char name_a[256], name_b[256], buf[4096];
    na_op_id_t *send_op, *receive_op;
    na_addr_t *to_b;
    uint64_t end;
    int fd;

    info.auth_key = key;
    end_open(&a, "bmi+tcp://127.0.0.1", &info);
    end_open(&b, "bmi+tcp://127.0.0.1", &info);
    (void) bmi_name(&b, name_b, sizeof(name_b));
    fd = stranger_connect(bmi_name(&a, name_a, sizeof(name_a)), name_b);
    end_progress(&a, 50); /* so that the attacker's message arrives first */
    to_b = end_lookup(&a, &b);
    send_op = NA_Op_create(a.na_class, 0);
    receive_op = NA_Op_create(b.na_class, 0);
    assert_int_equal(end_receive_unexpected(&b, &received, buf, sizeof(buf), receive_op),
                     NA_SUCCESS);
    assert_int_equal(NA_Msg_send_unexpected(a.na_class, a.context, event_callback, &sent, "for b",
                                            6, NULL, to_b, 0, 1, send_op),
                     NA_SUCCESS);
    for (end = now_ms() + TEST_WAIT_MS; (!received.done || !sent.done) && now_ms() < end;) {
        end_progress(&a, 0);
        end_progress(&b, 0);
    }
    assert_int_equal(sent.done, 1);
    assert_int_equal(sent.ret, NA_SUCCESS);
    assert_int_equal(received.done, 1);
    assert_int_equal(received.ret, NA_SUCCESS);
    assert_string_equal(buf, "for b");
    NA_Addr_free(b.na_class, received.source);
    NA_Op_destroy(a.na_class, send_op);
    NA_Op_destroy(b.na_class, receive_op);
    NA_Addr_free(a.na_class, to_b);
    (void) close(fd);
    end_close(&a);
    end_close(&b);
}

static void test_call_without_key(void **state)
{
    (void) state;
    call_listener(NULL);
}

static void test_call_with_key(void **state)
{
    (void) state;
    call_listener("open sesame");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listener_is_dialed),
        cmocka_unit_test(test_stranger_that_reads_nothing),
        cmocka_unit_test(test_call_without_key),
        cmocka_unit_test(test_call_with_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
