/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages to a peer that does not read at first, or stops reading: order, cancelled sends, and
 * their status. The peers are sockets that speak the wire format. */

#include "bmi_fixture.h"

#include "tcp.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define EAGER 16384

static struct side side;
static BMI_addr_t address;
static int fd;

/* Opens a side and a peer that has introduced itself. */
static int setup(void **state)
{
    const struct wire_header hello = {.mode = WIRE_UNEXPECTED};
    struct BMI_unexpected_info info;

    (void) state;
    side_open(&side, 0);
    fd = socket_connect(&side);
    message_send(fd, &hello, NULL);
    info = sides_wait_unexpected(&side, NULL);
    assert_int_equal(BMI_unexpected_free(info.addr, info.buffer), 0);
    address = info.addr;
    assert_int_equal(BMI_set_info(address, BMI_INC_ADDR_REF, NULL), 0);
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    (void) close(fd);
    side_close(&side);
    return 0;
}

static const struct tcp_address *inside(void)
{
    return tcp_table_find(&((struct tcp_instance *) (void *) side.instance)->address_table,
                          address);
}

static void expect_message(uint32_t mode, bmi_msg_tag_t tag, size_t size)
{
    static uint8_t data[16777216];
    uint8_t bytes[WIRE_HEADER_SIZE];
    struct wire_header header;

    socket_receive(&side, fd, bytes, sizeof(bytes));
    assert_int_equal(wire_decode(bytes, &header), WIRE_MAGIC);
    assert_int_equal(header.mode, mode);
    assert_int_equal(header.tag, tag);
    assert_int_equal(header.size, size);
    socket_receive(&side, fd, data, size);
    assert_true(pattern_check(data, size, (uint32_t) tag));
}

static void expect_nothing(void)
{
    uint8_t byte;

    for (int i = 0; i < 4; i++)
        sides_progress(&side, NULL);
    assert_true(recv(fd, &byte, 1, MSG_DONTWAIT) < 0);
}

/* A small message that could be sent at once waits behind a large one. */
static void test_order(void **state)
{
    static uint8_t data[8000000], small[100], drained[1 << 16];
    size_t left = WIRE_HEADER_SIZE + sizeof(data);
    ssize_t got;

    (void) state;
    pattern_fill(data, sizeof(data), 1);
    pattern_fill(small, sizeof(small), 2);
    (void) side_send(&side, address, data, sizeof(data), 1, NULL);
    while ((got = recv(fd, drained, sizeof(drained), MSG_DONTWAIT)) > 0)
        left -= (size_t) got;
    assert_true(left != 0);
    (void) side_send(&side, address, small, sizeof(small), 2, NULL);
    for (; left != 0; left -= (size_t) got) {
        got = (ssize_t) (left < sizeof(drained) ? left : sizeof(drained));
        socket_receive(&side, fd, drained, (size_t) got);
    }
    expect_message(WIRE_EAGER, 2, sizeof(small));
    expect_nothing();
}

/* Small messages also leave in parts when there is little room: none is lost or sent twice. */
static void test_small_ones_in_parts(void **state)
{
    enum {
        COUNT = 8000,
        SIZE = 997
    };
    static uint8_t data[COUNT][SIZE];

    (void) state;
    for (int i = 0; i < COUNT; i++) {
        pattern_fill(data[i], SIZE, (uint32_t) i);
        (void) side_send(&side, address, data[i], SIZE, i, NULL);
    }
    assert_false(TAILQ_EMPTY(&inside()->sends));
    for (int i = 0; i < COUNT; i++)
        expect_message(WIRE_EAGER, i, SIZE);
    expect_nothing();
}

/* Of cancelled sends, the one that has begun arrives, and none of the others. */
static void test_cancel_all(void **state)
{
    enum {
        COUNT = 8000,
        SIZE = 997
    };
    static uint8_t data[COUNT][SIZE];
    static bmi_op_id_t ids[COUNT];
    bool has_begun;
    int queued = 0;

    (void) state;
    for (int i = 0; i < COUNT; i++) {
        pattern_fill(data[i], SIZE, (uint32_t) i);
        ids[i] = side_send(&side, address, data[i], SIZE, i, NULL);
        queued += ids[i] != 0;
    }
    assert_true(queued > 0);
    has_begun = TAILQ_FIRST(&inside()->sends)->done != 0;
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(BMI_cancel(ids[i], side.context), 0);
    memset(data, 0, sizeof(data));
    for (int i = 0; i < COUNT - queued + has_begun; i++)
        expect_message(WIRE_EAGER, i, SIZE);
    expect_nothing();
}

/* The rest of a cancelled message is sent before the next message. */
static void test_cancel_first(void **state)
{
    static uint8_t data[8000000], small[100];
    bmi_op_id_t id;

    (void) state;
    pattern_fill(data, sizeof(data), 1);
    pattern_fill(small, sizeof(small), 2);
    id = side_send(&side, address, data, sizeof(data), 1, data);
    (void) side_send(&side, address, small, sizeof(small), 2, small);
    assert_int_equal(BMI_detach(id), 0);
    assert_int_equal(BMI_detach(id), 0);
    assert_int_equal(BMI_cancel(id, side.context), 0);
    memset(data, 0, sizeof(data));
    expect_message(WIRE_RENDEZVOUS, 1, sizeof(data));
    expect_message(WIRE_EAGER, 2, sizeof(small));
    sides_wait(&side, NULL, 2);
    assert_int_equal(side_take(&side, data).error, -BMI_ECANCEL);
    assert_int_equal(side_take(&side, small).error, 0);
}

/* Cancelling or detaching a completed operation has no effect, and BMI_leave() fails. Its id does
 * not denote a later operation. */
static void test_what_is_over(void **state)
{
    const struct wire_header message = {.mode = WIRE_EAGER, .tag = 1, .size = 5};
    bmi_op_id_t ids[1], first;
    bmi_error_code_t error;
    char received[2][5];
    bmi_size_t size;
    void *user_ptr;
    int count;

    (void) state;
    first = side_receive(&side, address, received[0], 5, 1, received[0]);
    assert_true(BMI_leave(first) < 0);
    message_send(fd, &message, "hello");
    assert_int_equal(BMI_progress(1000), 0);
    assert_int_equal(BMI_cancel(first, side.context), 0);
    assert_int_equal(BMI_detach(first), 0);
    assert_true(BMI_leave(first) < 0);
    assert_int_equal(
        BMI_testcontext(1, ids, &count, &error, &size, &user_ptr, BMI_TEST_ONLY, side.context), 1);
    assert_int_equal(ids[0], first);
    assert_int_equal(error, 0);
    assert_int_equal(size, 5);
    assert_ptr_equal(user_ptr, received[0]);
    assert_memory_equal(received[0], "hello", 5);

    (void) side_receive(&side, address, received[1], 5, 1, received[1]);
    assert_int_equal(BMI_cancel(first, side.context), 0);
    message_send(fd, &message, "there");
    sides_wait(&side, NULL, 1);
    assert_int_equal(side_take(&side, received[1]).error, 0);
    assert_memory_equal(received[1], "there", 5);
}

/* BMI_leave() comes after the completion of the send: the completion is still reported. */
static void test_leave_too_late(void **state)
{
    static uint8_t data[8000000];
    bmi_op_id_t id;

    (void) state;
    pattern_fill(data, sizeof(data), 1);
    id = side_send(&side, address, data, sizeof(data), 1, data);
    assert_int_not_equal(id, 0);
    assert_int_equal(BMI_cancel(id, side.context), 0);
    assert_true(BMI_leave(id) < 0);
    sides_wait(&side, NULL, 1);
    assert_int_equal(side_take(&side, data).error, -BMI_ECANCEL);
}

static int post_unexpected(const void *data, bmi_op_id_t *id)
{
    return BMI_post_sendunexpected(id, address, data, EAGER, BMI_EXT_ALLOC, 0, NULL, side.context,
                                   NULL);
}

/* Another unexpected message may be sent when none is queued, whether the earlier ones were sent or
 * cancelled. */
static void test_may_send(void **state)
{
    static uint8_t data[EAGER];
    bmi_op_id_t first, second;
    bool has_begun;
    int count = 0;

    (void) state;
    pattern_fill(data, sizeof(data), 0);
    do {
        assert_int_equal(BMI_may_send(address), 1);
        count++;
    } while (post_unexpected(data, &first) == 1);
    assert_int_equal(BMI_may_send(address), 0);
    assert_int_equal(post_unexpected(data, &second), 0);
    assert_int_equal(BMI_cancel(second, side.context), 0);
    assert_int_equal(BMI_may_send(address), 0);
    has_begun = TAILQ_FIRST(&inside()->sends)->done != 0; /* a send that has begun continues */
    assert_int_equal(BMI_cancel(first, side.context), 0);
    assert_int_equal(BMI_may_send(address), !has_begun);
    for (int i = has_begun ? 0 : 1; i < count; i++)
        expect_message(WIRE_UNEXPECTED, 0, EAGER);
    expect_nothing();
    assert_int_equal(BMI_may_send(address), 1);
}

/* The mode depends only on the size. */
static void test_modes(void **state)
{
    static uint8_t data[EAGER + 1];

    (void) state;
    pattern_fill(data, sizeof(data), 3);
    (void) side_send(&side, address, data, EAGER, 3, NULL);
    (void) side_send(&side, address, data, EAGER + 1, 3, NULL);
    expect_message(WIRE_EAGER, 3, EAGER);
    expect_message(WIRE_RENDEZVOUS, 3, EAGER + 1);
}

/* A send to a closed peer gets an error and a notification, and no signal. */
static void send_to_the_closed(size_t size)
{
    static uint8_t data[10000];
    struct BMI_unexpected_info info;
    int count, ret = 1;
    bmi_op_id_t id;

    (void) close(fd);
    for (int i = 0; i < 3 && ret == 1; i++)
        ret = BMI_post_send(&id, address, data, (bmi_size_t) size, BMI_EXT_ALLOC, 1, NULL,
                            side.context, NULL);
    assert_true(ret < 0);
    assert_int_equal(BMI_testunexpected(1, &count, &info, BMI_TEST_ONLY), 1);
    assert_int_not_equal(info.error_code, 0);
    fd = dup(0);
}

static void test_small_to_the_closed(void **state)
{
    (void) state;
    send_to_the_closed(10);
}

static void test_large_to_the_closed(void **state)
{
    (void) state;
    send_to_the_closed(10000);
}

/* Another connection of the same peer ends, and its operations in flight with it. Nothing is
 * written behind the half message that was sent on the remaining connection. */
static void test_other_connection_ends(void **state)
{
    static uint8_t data[8000000], drained[1 << 16];
    const struct wire_header hello = {.mode = WIRE_UNEXPECTED, .source = 1234};
    int fds[2] = {socket_connect(&side), socket_connect(&side)};
    struct BMI_unexpected_info info;
    size_t total = 0;
    double end = seconds() + 10;
    ssize_t got = 0;

    (void) state;
    for (int i = 0; i < 2; i++) {
        message_send(fds[i], &hello, NULL);
        info = sides_wait_unexpected(&side, NULL);
        assert_int_equal(BMI_unexpected_free(info.addr, info.buffer), 0);
    }
    (void) side_send(&side, info.addr, data, sizeof(data), 1, data);
    assert_int_equal(side.count, 0);
    (void) close(fds[1]);
    sides_wait(&side, NULL, 1);
    assert_true(side_take(&side, data).error < 0);
    (void) side_send(&side, info.addr, "hello", 5, 2, NULL);
    while (seconds() < end) { /* the first message is truncated, and its connection closed */
        got = recv(fds[0], drained, sizeof(drained), MSG_DONTWAIT);
        if (got == 0)
            break;
        total += got > 0 ? (size_t) got : 0;
        sides_progress(&side, NULL);
    }
    assert_int_equal(got, 0);
    assert_true(total < WIRE_HEADER_SIZE + sizeof(data));
    (void) close(fds[0]);
}

/* The same when the connection that ends was to be read before the one that is sent to. */
static void test_older_connection_ends(void **state)
{
    static uint8_t data[8000000];
    const struct wire_header hello = {.mode = WIRE_UNEXPECTED, .source = 1234};
    struct BMI_unexpected_info info;
    int fds[3], ret = 1, count;
    bmi_op_id_t id;

    (void) state;
    for (int i = 0; i < 2; i++) {
        fds[i] = socket_connect(&side);
        message_send(fds[i], &hello, NULL);
        info = sides_wait_unexpected(&side, NULL);
        assert_int_equal(BMI_unexpected_free(info.addr, info.buffer), 0);
    }
    fds[2] = socket_connect(&side);
    sides_progress(&side, NULL);
    message_send(fds[2], &hello, NULL);
    sides_progress(&side, NULL); /* waits for the others */
    (void) close(fds[0]);
    for (int i = 0; i < 3 && ret == 1; i++)
        ret = BMI_post_send(&id, info.addr, data, 10, BMI_EXT_ALLOC, 1, NULL, side.context, NULL);
    assert_true(ret < 0);
    (void) side_send(&side, info.addr, data, sizeof(data), 2, data);
    assert_int_equal(side.count, 0);
    (void) close(fds[1]);
    sides_wait(&side, NULL, 1);
    assert_true(side_take(&side, data).error < 0);
    assert_int_equal(BMI_testunexpected(1, &count, &info, BMI_TEST_ONLY), 1);
    assert_int_not_equal(info.error_code, 0);
    (void) close(fds[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_small_ones_in_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancel_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancel_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leave_too_late, setup, teardown),
        cmocka_unit_test_setup_teardown(test_may_send, setup, teardown),
        cmocka_unit_test_setup_teardown(test_modes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_connection_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_older_connection_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_small_to_the_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_to_the_closed, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
