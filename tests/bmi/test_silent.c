/* SPDX-License-Identifier: BSD-3-Clause */
/* Silent connections: they are closed after a time, the oldest one when there are too many, and
 * when a descriptor is needed for another connection. */

#include "bmi_fixture.h"

#include "tcp.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define MANY 40
#define LOW  96u /* descriptors, of which a quarter may belong to silent connections */

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

static bool is_closed(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static bool becomes_closed(int fd)
{
    double end = seconds() + 20;

    while (!is_closed(fd) && seconds() < end)
        sides_progress(&side, NULL);
    return is_closed(fd);
}

static void expect_served(int fd)
{
    const struct wire_header header = {.mode = WIRE_UNEXPECTED, .tag = 7};
    struct BMI_unexpected_info info;

    message_send(fd, &header, NULL);
    assert_true(sides_poll_unexpected(&side, NULL, 20000, &info));
    assert_int_equal(info.tag, 7);
    assert_int_equal(BMI_unexpected_free(info.addr, info.buffer), 0);
}

static void test_silence_ends(void **state)
{
    static const char part[WIRE_HEADER_SIZE - 1] = {0};
    int silent, half, speaking;

    (void) state;
    speaking = socket_connect(&side);
    expect_served(speaking);
    inside()->silent_ms = 50;
    silent = socket_connect(&side);
    half = socket_connect(&side);
    socket_send(half, part, sizeof(part));
    assert_true(becomes_closed(silent));
    assert_true(becomes_closed(half));
    assert_int_equal(inside()->silent_count, 0);
    expect_served(speaking);
    (void) close(silent);
    (void) close(half);
    (void) close(speaking);
}

static void test_oldest_of_many_goes(void **state)
{
    struct rlimit limit, low;
    int fds[MANY], last;

    (void) state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = LOW + MANY;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (int i = 0; i < MANY; i++) {
        fds[i] = socket_connect(&side);
        sides_progress(&side, NULL);
    }
    last = socket_connect(&side);
    expect_served(last);
    assert_true(becomes_closed(fds[0]));
    assert_false(is_closed(fds[MANY - 1]));
    assert_true(inside()->silent_count <= (LOW + MANY) / TCP_SILENT_SHARE);
    expect_served(fds[MANY - 1]);
    for (int i = 0; i < MANY; i++)
        (void) close(fds[i]);
    (void) close(last);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* A connection that has sent something is not closed to make room, though it has not been read
 * yet. */
static void test_silence_makes_room(void **state)
{
    const struct wire_header header = {.mode = WIRE_UNEXPECTED, .tag = 7};
    struct sockaddr_in place = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t) side.port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct BMI_unexpected_info info;
    struct rlimit limit, none;
    int silent, speaking, next;

    (void) state;
    speaking = socket_connect(&side);
    silent = socket_connect(&side);
    sides_progress(&side, NULL);
    next = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = (rlim_t) next + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    message_send(speaking, &header, NULL);
    assert_int_equal(connect(next, (struct sockaddr *) &place, sizeof(place)), 0);
    message_send(next, &header, NULL);
    for (int i = 0; i < 2; i++) {
        assert_true(sides_poll_unexpected(&side, NULL, 20000, &info));
        assert_int_equal(BMI_unexpected_free(info.addr, info.buffer), 0);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(becomes_closed(silent));
    assert_false(is_closed(speaking));
    (void) close(silent);
    (void) close(speaking);
    (void) close(next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_silence_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_oldest_of_many_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silence_makes_room, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
