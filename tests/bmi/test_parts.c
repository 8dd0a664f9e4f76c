/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that have arrived in part, or wait in their connection until a receive is posted, while
 * something happens to the connection or to the receive. The peers are sockets that speak the wire
 * format.
 */

#include "bmi_fixture.h"

#include "tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Polls after which everything that has arrived was processed. */
#define STEPS 4

static struct side side;

static int setup(void **state)
{
    (void) state;
    side_open(&side, 0);
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    side_close(&side);
    return 0;
}

static struct tcp_instance *inside(void)
{
    return (struct tcp_instance *) (void *) side.instance;
}

static void steps(void)
{
    for (int i = 0; i < STEPS; i++)
        sides_progress(&side, NULL);
}

static void expect_unexpected(bmi_msg_tag_t tag)
{
    struct BMI_unexpected_info info = sides_wait_unexpected(&side, NULL);

    assert_int_equal(info.tag, tag);
    assert_int_equal(BMI_unexpected_free(info.addr, info.buffer), 0);
}

/* Opens a connection that has introduced itself; takes a reference to its address. */
static int meet(uint32_t source, BMI_addr_t *address)
{
    const struct wire_header hello = {.mode = WIRE_UNEXPECTED, .source = source};
    int fd = socket_connect(&side);
    struct BMI_unexpected_info info;

    message_send(fd, &hello, NULL);
    info = sides_wait_unexpected(&side, NULL);
    assert_int_equal(BMI_set_info(info.addr, BMI_INC_ADDR_REF, NULL), 0);
    assert_int_equal(BMI_unexpected_free(info.addr, info.buffer), 0);
    *address = info.addr;
    return fd;
}

static void leave(int fd, BMI_addr_t address)
{
    struct BMI_unexpected_info info;

    (void) close(fd);
    assert_true(sides_poll_unexpected(&side, NULL, 10000, &info));
    assert_int_not_equal(info.error_code, 0);
    assert_int_equal(info.addr, address);
    assert_int_equal(BMI_set_info(address, BMI_DEC_ADDR_REF, NULL), 0);
    assert_true(TAILQ_EMPTY(&inside()->closed));
}

static void send_message(int fd, uint32_t mode, bmi_msg_tag_t tag, const void *data, size_t size)
{
    const struct wire_header header = {.mode = mode, .tag = tag, .size = size};

    message_send(fd, &header, data);
}

static void send_beginning(int fd, uint32_t mode, bmi_msg_tag_t tag, const void *data, size_t size,
                           size_t part)
{
    send_message(fd, mode, tag, NULL, size);
    socket_send(fd, data, part);
    steps();
}

/* A receive that is posted while its message is arriving gets it; the next receive gets the next
 * message. */
static void test_receive_meets_its_message(void **state)
{
    uint8_t sent[2][100], received[2][100];
    BMI_addr_t address;
    int fd = meet(0, &address);

    (void) state;
    for (uint32_t i = 0; i < 100; i++) {
        memset(received, 0, sizeof(received));
        for (uint32_t k = 0; k < 2; k++)
            pattern_fill(sent[k], sizeof(sent[k]), 2 * i + k);
        send_beginning(fd, WIRE_EAGER, 5, sent[0], 100, i % 100);
        for (int k = 0; k < 2; k++)
            (void) side_receive(&side, address, received[k], 100, 5, received[k]);
        socket_send(fd, sent[0] + i % 100, 100 - i % 100);
        send_message(fd, WIRE_EAGER, 5, sent[1], 100);
        sides_wait(&side, NULL, 2);
        for (uint32_t k = 0; k < 2; k++) {
            assert_int_equal(side_take(&side, received[k]).error, 0);
            assert_true(pattern_check(received[k], 100, 2 * i + k));
        }
        assert_int_equal(inside()->early_size, 0);
    }
    leave(fd, address);
}

/* An unexpected message does not match an expected receive with the same tag. */
static void test_receive_meets_an_unexpected(void **state)
{
    BMI_addr_t address;
    int fd = meet(0, &address);
    char received[5];

    (void) state;
    send_beginning(fd, WIRE_UNEXPECTED, 7, "hello", 5, 2);
    (void) side_receive(&side, address, received, 5, 7, received);
    socket_send(fd, "llo", 3);
    expect_unexpected(7);
    assert_int_equal(side.count, 0);
    send_message(fd, WIRE_EAGER, 7, "there", 5);
    sides_wait(&side, NULL, 1);
    assert_int_equal(side_take(&side, received).error, 0);
    assert_memory_equal(received, "there", 5);
    leave(fd, address);
}

/* The rest of a message whose receive was cancelled is dropped. */
static void test_receive_meets_a_rest(void **state)
{
    BMI_addr_t address;
    int fd = meet(0, &address);
    char first[5] = "-----", second[5];
    bmi_op_id_t id = side_receive(&side, address, first, 5, 7, first);

    (void) state;
    send_beginning(fd, WIRE_EAGER, 7, "hello", 5, 2);
    assert_int_equal(BMI_cancel(id, side.context), 0);
    (void) side_receive(&side, address, second, 5, 7, second);
    socket_send(fd, "llo", 3);
    send_message(fd, WIRE_EAGER, 7, "there", 5);
    sides_wait(&side, NULL, 2);
    assert_int_equal(side_take(&side, first).error, -BMI_ECANCEL);
    assert_memory_equal(first, "he---", 5);
    assert_int_equal(side_take(&side, second).error, 0);
    assert_memory_equal(second, "there", 5);
    leave(fd, address);
}

/* A message that has arrived and is too long for the receive fails it, writes nothing, and uses no
 * memory afterwards. */
static void test_early_does_not_fit(void **state)
{
    BMI_addr_t address;
    int fd = meet(0, &address);
    char received[10];

    (void) state;
    memset(received, '-', sizeof(received));
    send_message(fd, WIRE_EAGER, 1, "hello", 5);
    steps();
    (void) side_receive(&side, address, received, 4, 1, received);
    assert_int_equal(side_take(&side, received).error, -BMI_EMSGSIZE);
    assert_memory_equal(received, "----------", sizeof(received));
    assert_int_equal(inside()->early_size, 0);
    leave(fd, address);
}

static size_t append(uint8_t *stream, size_t at, uint32_t mode, bmi_msg_tag_t tag, const void *data,
                     size_t size)
{
    const struct wire_header header = {.mode = mode, .tag = tag, .size = size};

    wire_encode(stream + at, &header);
    memcpy(stream + at + WIRE_HEADER_SIZE, data, size);
    return at + WIRE_HEADER_SIZE + size;
}

/* Bytes that were read together with a message that waits are not lost, however often messages
 * wait. */
static void test_waits_in_its_connection(void **state)
{
    BMI_addr_t address;
    int fd = meet(0, &address);
    char received[3][5];
    uint8_t stream[256];
    size_t size;

    (void) state;
    size = append(stream, 0, WIRE_RENDEZVOUS, 1, "first", 5);
    size = append(stream, size, WIRE_RENDEZVOUS, 2, "other", 5);
    size = append(stream, size, WIRE_UNEXPECTED, 3, "hello", 5);
    size = append(stream, size, WIRE_EAGER, 1, "third", 5);
    socket_send(fd, stream, size);
    steps();

    /* The receive for which the connection would resume is cancelled. */
    assert_int_equal(
        BMI_cancel(side_receive(&side, address, received[0], 5, 1, received[0]), side.context), 0);
    steps();
    assert_int_equal(side_take(&side, received[0]).error, -BMI_ECANCEL);

    for (int i = 0; i < 3; i += 2)
        (void) side_receive(&side, address, received[i], 5, 1, received[i]);
    assert_int_equal(BMI_may_wait(), 0);
    /* does not wait, since there is something to do */
    assert_int_equal(BMI_progress(3600 * 1000), 0);
    sides_wait(&side, NULL, 1);
    assert_memory_equal(received[0], "first", 5);
    steps();
    assert_int_equal(side.count, 1);
    (void) side_receive(&side, address, received[1], 5, 2, received[1]);
    expect_unexpected(3);
    sides_wait(&side, NULL, 3);
    assert_memory_equal(received[1], "other", 5);
    assert_memory_equal(received[2], "third", 5);
    for (int i = 0; i < 3; i++)
        assert_int_equal(side_take(&side, received[i]).error, 0);
    leave(fd, address);
}

/* Bytes that arrive behind a waiting message do not wake the process, also while it is sending on
 * that connection. */
static void test_waits_quietly(void **state)
{
    static uint8_t data[4 << 20], drained[1 << 16];
    BMI_addr_t address;
    int fd = meet(0, &address);
    char received[5];

    (void) state;
    send_message(fd, WIRE_RENDEZVOUS, 1, "first", 5);
    steps();
    send_message(fd, WIRE_UNEXPECTED, 2, "hello", 5);
    assert_false(side_is_awake(&side));
    for (int i = 0; i < 4; i++)
        (void) side_send(&side, address, data, sizeof(data), 1, NULL);
    assert_false(side_is_awake(&side));
    assert_true(recv(fd, drained, sizeof(drained), MSG_WAITALL) > 0);
    while (recv(fd, drained, sizeof(drained), MSG_DONTWAIT) > 0)
        continue;
    assert_true(side_is_awake(&side)); /* more of the data can be sent */
    steps();
    assert_false(side_is_awake(&side));

    (void) side_receive(&side, address, received, 5, 1, received);
    expect_unexpected(2);
    sides_wait(&side, NULL, 1);
    assert_memory_equal(received, "first", 5);
    leave(fd, address);
}

/* Behind the waiting message are bytes that are not BMI's: the connection fails when it resumes. */
static void test_breaks_when_it_goes_on(void **state)
{
    static const uint8_t wrong[WIRE_HEADER_SIZE];
    BMI_addr_t address;
    int fd = meet(0, &address);
    char received[5];

    (void) state;
    send_message(fd, WIRE_RENDEZVOUS, 1, "first", 5);
    socket_send(fd, wrong, sizeof(wrong));
    send_message(fd, WIRE_UNEXPECTED, 2, "hello", 5);
    steps();
    (void) side_receive(&side, address, received, 5, 1, received);
    sides_wait(&side, NULL, 1);
    assert_int_equal(side_take(&side, received).error, 0);
    assert_memory_equal(received, "first", 5);
    leave(fd, address); /* "hello" was not received */
}

/* The connection is closed just before it would resume. */
static void test_closed_before_it_goes_on(void **state)
{
    BMI_addr_t address;
    int fd = meet(0, &address);
    char received[5];

    (void) state;
    send_message(fd, WIRE_RENDEZVOUS, 1, "first", 5);
    steps();
    (void) side_receive(&side, address, received, 5, 1, received);
    assert_int_equal(BMI_set_info(address, BMI_TCP_CLOSE_SOCKET, NULL), 0);
    assert_true(TAILQ_EMPTY(&inside()->resume));
    steps();
    assert_int_equal(side_take(&side, received).error, -BMI_ECANCEL);
    assert_int_equal(BMI_set_info(address, BMI_DEC_ADDR_REF, NULL), 0);
    (void) close(fd);
}

/* A connection that waits is not read, but a reset is detected, of which the system notifies. */
static void test_reset_while_it_waits(void **state)
{
    const struct linger reset = {.l_onoff = 1};
    BMI_addr_t address;
    int fd = meet(0, &address);
    char received[5];

    (void) state;
    send_message(fd, WIRE_RENDEZVOUS, 1, "first", 5);
    steps();
    (void) side_receive(&side, address, received, 5, 2, received);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    leave(fd, address);
    sides_wait(&side, NULL, 1);
    assert_true(side_take(&side, received).error < 0);
}

/* The connection ends in the middle of a message of each kind, or behind one without a receive. */
static void test_breaks_in_the_middle(void **state)
{
    BMI_addr_t address;
    char received[5];
    int fd;

    (void) state;
    fd = meet(0, &address);
    (void) side_receive(&side, address, received, 5, 1, received);
    send_beginning(fd, WIRE_EAGER, 1, "hello", 5, 2);
    leave(fd, address);
    sides_wait(&side, NULL, 1);
    assert_true(side_take(&side, received).error < 0);

    fd = meet(0, &address);
    send_beginning(fd, WIRE_EAGER, 1, "hello", 5, 2);
    assert_int_not_equal(inside()->early_size, 0);
    leave(fd, address);
    assert_int_equal(inside()->early_size, 0);

    fd = meet(0, &address);
    send_message(fd, WIRE_EAGER, 1, "hello", 5);
    send_beginning(fd, WIRE_UNEXPECTED, 1, "hello", 5, 2);
    assert_int_not_equal(inside()->early_size, 0);
    leave(fd, address);
    assert_int_equal(inside()->early_size, 0);
}

/* Nothing after invalid bytes is received, even if it is valid. */
static void test_nothing_after_nonsense(void **state)
{
    struct BMI_unexpected_info info;
    uint8_t stream[256] = {0};
    size_t size = append(stream, WIRE_HEADER_SIZE, WIRE_UNEXPECTED, 1, "hello", 5);
    int fd = socket_connect(&side);

    (void) state;
    socket_send(fd, stream, size);
    assert_false(sides_poll_unexpected(&side, NULL, 20, &info));
    (void) close(fd);
}

/* When a peer has a second connection, that one is read first, before the waiting one resumes. */
static void test_newer_connection_waits(void **state)
{
    const struct wire_header later = {.mode = WIRE_UNEXPECTED, .source = 1234, .tag = 2};
    BMI_addr_t address;
    int fd = meet(1234, &address), newer = socket_connect(&side);

    (void) state;
    steps();
    message_send(newer, &later, NULL);
    sides_progress(&side, NULL);
    send_message(fd, WIRE_UNEXPECTED, 1, NULL, 0);
    expect_unexpected(1);
    expect_unexpected(2);
    (void) close(newer);
    leave(fd, address);
}

static void expect_answer(int fd, bmi_msg_tag_t tag)
{
    uint8_t bytes[WIRE_HEADER_SIZE];
    struct wire_header header;

    assert_int_equal(recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT), sizeof(bytes));
    assert_int_equal(wire_decode(bytes, &header), WIRE_MAGIC);
    assert_int_equal(header.tag, tag);
}

/* Messages to a peer leave by the older of its two connections, and by the newer one when the older
 * has ended. */
static void test_answers_leave_by_one(void **state)
{
    BMI_addr_t address, same;
    int fd = meet(1234, &address), newer = meet(1234, &same);
    struct BMI_unexpected_info info;

    (void) state;
    assert_int_equal(same, address);
    (void) side_send(&side, address, NULL, 0, 1, NULL);
    expect_answer(fd, 1);
    (void) close(fd);
    assert_true(sides_poll_unexpected(&side, NULL, 10000, &info));
    assert_int_not_equal(info.error_code, 0);
    (void) side_send(&side, address, NULL, 0, 2, NULL);
    expect_answer(newer, 2);
    assert_int_equal(BMI_set_info(address, BMI_DEC_ADDR_REF, NULL), 0);
    leave(newer, address);
}

/* When both connections of a peer end, there is one notification. */
static void test_both_end(void **state)
{
    BMI_addr_t address, same;
    int fd = meet(1234, &address), newer = meet(1234, &same);
    struct BMI_unexpected_info info;

    (void) state;
    assert_int_equal(BMI_set_info(same, BMI_DEC_ADDR_REF, NULL), 0);
    (void) close(newer);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(BMI_progress(1), 0);
    leave(fd, address);
    assert_false(sides_poll_unexpected(&side, NULL, 0, &info));
}

/* A message that waits from a process that has gone does not match a receive from its successor of
 * the same name. */
static void test_early_of_the_gone(void **state)
{
    const struct wire_header message = {.mode = WIRE_EAGER, .tag = 1, .source = 1234, .size = 5};
    BMI_addr_t address, same;
    int fd = meet(1234, &address), next;
    struct BMI_unexpected_info info;
    char received[5];

    (void) state;
    message_send(fd, &message, "first");
    steps();
    (void) close(fd);
    assert_true(sides_poll_unexpected(&side, NULL, 10000, &info));
    assert_int_not_equal(info.error_code, 0);
    next = meet(1234, &same);
    assert_int_equal(same, address);
    (void) side_receive(&side, address, received, 5, 1, received);
    message_send(next, &message, "other");
    sides_wait(&side, NULL, 1);
    assert_int_equal(side_take(&side, received).error, 0);
    assert_memory_equal(received, "other", 5);
    assert_int_equal(BMI_set_info(address, BMI_DEC_ADDR_REF, NULL), 0);
    leave(next, address);
}

/* A receive from a peer that has gone and does not listen fails at once. */
static void test_receive_from_who_is_gone(void **state)
{
    BMI_addr_t address;
    int fd = meet(0, &address);
    struct BMI_unexpected_info info;
    bmi_size_t actual;
    bmi_op_id_t id;
    char data[5];

    (void) state;
    (void) close(fd);
    assert_true(sides_poll_unexpected(&side, NULL, 10000, &info));
    assert_int_equal(
        BMI_post_recv(&id, address, data, 5, &actual, BMI_EXT_ALLOC, 1, NULL, side.context, NULL),
        -BMI_EPIPE);
    assert_int_equal(
        BMI_post_send(&id, address, data, 5, BMI_EXT_ALLOC, 1, NULL, side.context, NULL),
        -BMI_EPIPE);
    assert_int_equal(BMI_set_info(address, BMI_DEC_ADDR_REF, NULL), 0);
    assert_int_equal(BMI_set_info(address, BMI_DEC_ADDR_REF, NULL), -BMI_EINVAL);
}

/* The end of the connection that is polled first, because it was busy last, is detected, also when
 * its socket was passed to another process. */
static void test_busy_one_ends(void **state)
{
    struct tcp_connection *connection;
    BMI_addr_t address;
    int fd = meet(0, &address), copy;

    (void) state;
    connection = TAILQ_LAST(&inside()->connections, tcp_connections);
    copy = dup(connection->fd);
    assert_true(copy >= 0);
    for (bmi_msg_tag_t i = 0; i < 10; i++) {
        send_message(fd, WIRE_UNEXPECTED, i, NULL, 0);
        expect_unexpected(i);
    }
    assert_ptr_equal(inside()->hot, connection);
    leave(fd, address);
    assert_null(inside()->hot);
    for (int i = 0; i < 40; i++)
        assert_int_equal(BMI_progress(0), 0);
    assert_false(side_is_awake(&side));
    (void) close(copy);
}

/* Other connections are polled now and then, too. */
static void test_busy_one_is_not_alone(void **state)
{
    BMI_addr_t address, other;
    int fd = meet(0, &address), second = meet(0, &other), count = 0;
    struct BMI_unexpected_info info;

    (void) state;
    for (bmi_msg_tag_t i = 0; i < 10; i++) {
        send_message(fd, WIRE_UNEXPECTED, i, NULL, 0);
        expect_unexpected(i);
    }
    send_message(second, WIRE_UNEXPECTED, 100, NULL, 0);
    for (int i = 0; i < 40 && count == 0; i++) {
        assert_int_equal(BMI_progress(0), 0);
        assert_int_equal(BMI_testunexpected(1, &count, &info, BMI_TEST_ONLY) < 0, 0);
    }
    assert_int_equal(count, 1);
    assert_int_equal(info.tag, 100);
    (void) BMI_unexpected_free(info.addr, info.buffer);
    leave(fd, address);
    leave(second, other);
}

/* After a sleep each connection can wake the process. */
static void test_busy_one_after_a_sleep(void **state)
{
    BMI_addr_t address, other;
    int fd = meet(0, &address), second = meet(0, &other), count = 0;
    struct BMI_unexpected_info info;

    (void) state;
    for (bmi_msg_tag_t i = 0; i < 10; i++) {
        send_message(fd, WIRE_UNEXPECTED, i, NULL, 0);
        expect_unexpected(i);
    }
    assert_int_equal(BMI_may_wait(), 1);
    send_message(second, WIRE_UNEXPECTED, 100, NULL, 0);
    assert_int_equal(BMI_progress(0), 0);
    assert_int_equal(BMI_testunexpected(1, &count, &info, BMI_TEST_ONLY), 1);
    assert_int_equal(info.tag, 100);
    (void) BMI_unexpected_free(info.addr, info.buffer);
    leave(fd, address);
    leave(second, other);
}

/* The busy connection is also sent to. */
static void test_busy_one_is_sent_to(void **state)
{
    static uint8_t data[16 << 20], drained[1 << 16];
    BMI_addr_t address;
    int fd = meet(0, &address);

    (void) state;
    for (bmi_msg_tag_t i = 0; i < 10; i++) {
        send_message(fd, WIRE_UNEXPECTED, i, NULL, 0);
        expect_unexpected(i);
    }
    (void) side_send(&side, address, data, sizeof(data), 1, NULL);
    while (recv(fd, drained, sizeof(drained), MSG_DONTWAIT) > 0)
        continue;
    assert_int_equal(BMI_progress(0), 0);
    assert_true(recv(fd, drained, sizeof(drained), MSG_DONTWAIT) > 0);
    leave(fd, address);
}

/* A message that waits in its connection resumes although another connection is busy. */
static void test_waits_beside_a_busy_one(void **state)
{
    BMI_addr_t address, other;
    int fd = meet(0, &address), second = meet(0, &other);
    char received[5];

    (void) state;
    send_message(second, WIRE_RENDEZVOUS, 1, "first", 5);
    for (bmi_msg_tag_t i = 0; i < 10; i++) {
        send_message(fd, WIRE_UNEXPECTED, i, NULL, 0);
        expect_unexpected(i);
    }
    (void) side_receive(&side, other, received, 5, 1, received);
    assert_int_equal(BMI_progress(0), 0);
    assert_true(TAILQ_EMPTY(&inside()->resume));
    sides_wait(&side, NULL, 1);
    assert_int_equal(side_take(&side, received).error, 0);
    leave(fd, address);
    leave(second, other);
}

/* A wait is refused while there is something to receive. */
static void test_may_wait(void **state)
{
    BMI_addr_t address;
    int fd = meet(0, &address);
    char received[5];

    (void) state;
    assert_int_equal(BMI_may_wait(), 1);
    (void) side_receive(&side, address, received, 5, 1, received);
    send_message(fd, WIRE_UNEXPECTED, 1, NULL, 0);
    assert_int_equal(BMI_progress(1000), 0);
    assert_int_equal(BMI_may_wait(), 0);
    expect_unexpected(1);
    assert_int_equal(BMI_may_wait(), 1);
    send_message(fd, WIRE_EAGER, 1, "hello", 5);
    assert_int_equal(BMI_progress(1000), 0);
    assert_int_equal(BMI_may_wait(), 0);
    sides_wait(&side, NULL, 1);
    assert_int_equal(BMI_may_wait(), 1);
    leave(fd, address);
}

/* The sockets detect hosts that vanish (keep-alive), and send small messages without delay. */
static void test_socket_options(void **state)
{
    static const struct {
        int level, name;
    } options[] = {{SOL_SOCKET, SO_KEEPALIVE}, {IPPROTO_TCP, TCP_NODELAY}};
    BMI_addr_t address;
    int fd = meet(0, &address);

    (void) state;
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        socklen_t size = sizeof(int);
        int value = 0;

        assert_int_equal(getsockopt(TAILQ_FIRST(&inside()->connections)->fd, options[i].level,
                                    options[i].name, &value, &size),
                         0);
        assert_int_not_equal(value, 0);
    }
    leave(fd, address);
}

/* Closing reads what has arrived, so that messages sent before arrive, followed by an orderly
 * end. */
static void test_closing_ends_in_order(void **state)
{
    BMI_addr_t address;
    int fd = meet(0, &address);
    uint8_t byte;

    (void) state;
    (void) side_send(&side, address, NULL, 0, 1, NULL);
    send_message(fd, WIRE_UNEXPECTED, 1, NULL, 0);
    side_close(&side);
    expect_answer(fd, 1);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    (void) close(fd);
    side_open(&side, 0);
}

/* A silent connection does not delay closing. */
static void test_closing_with_a_stranger(void **state)
{
    int fd = socket_connect(&side);
    uint8_t byte;

    (void) state;
    steps();
    side_close(&side);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    (void) close(fd);
    side_open(&side, 0);
}

/* More connections than the system reports in one call. */
static void test_many_connect(void **state)
{
    enum {
        COUNT = 100
    };
    const struct wire_header hello = {.mode = WIRE_UNEXPECTED};
    int fds[COUNT];

    (void) state;
    for (int i = 0; i < COUNT; i++) {
        fds[i] = socket_connect(&side);
        message_send(fds[i], &hello, NULL);
    }
    for (int i = 0; i < COUNT; i++)
        expect_unexpected(0);
    for (int i = 0; i < COUNT; i++)
        (void) close(fds[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_receive_meets_its_message, setup, teardown),
        cmocka_unit_test_setup_teardown(test_receive_meets_an_unexpected, setup, teardown),
        cmocka_unit_test_setup_teardown(test_receive_meets_a_rest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_early_does_not_fit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waits_in_its_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waits_quietly, setup, teardown),
        cmocka_unit_test_setup_teardown(test_breaks_when_it_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_closed_before_it_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reset_while_it_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_breaks_in_the_middle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_after_nonsense, setup, teardown),
        cmocka_unit_test_setup_teardown(test_newer_connection_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_answers_leave_by_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_both_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_early_of_the_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_receive_from_who_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_busy_one_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_busy_one_is_not_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_busy_one_after_a_sleep, setup, teardown),
        cmocka_unit_test_setup_teardown(test_busy_one_is_sent_to, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waits_beside_a_busy_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_may_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(test_socket_options, setup, teardown),
        cmocka_unit_test_setup_teardown(test_closing_ends_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_closing_with_a_stranger, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_connect, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
