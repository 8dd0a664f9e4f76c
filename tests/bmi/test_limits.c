/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits on the memory, descriptors, names and arguments that peers and callers can use, and the
 * management of addresses and references. */

#include "bmi_fixture.h"

#include "tcp.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static struct side side;
static int logged;

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
    for (int i = 0; i < 4; i++)
        sides_progress(&side, NULL);
}

static void send_empty(int fd, uint32_t mode, bmi_msg_tag_t tag, int count)
{
    const struct wire_header header = {.mode = mode, .tag = tag};

    for (int i = 0; i < count; i++)
        message_send(fd, &header, NULL);
}

static void expect_unexpected(bmi_msg_tag_t tag, BMI_addr_t *address)
{
    struct BMI_unexpected_info info = sides_wait_unexpected(&side, NULL);

    assert_int_equal(info.tag, tag);
    assert_int_equal(BMI_unexpected_free(info.addr, info.buffer), 0);
    *address = info.addr;
}

static void expect_notice(BMI_addr_t address)
{
    struct BMI_unexpected_info info;

    assert_true(sides_poll_unexpected(&side, NULL, 10000, &info));
    assert_int_not_equal(info.error_code, 0);
    assert_int_equal(info.addr, address);
}

/* Many peers together cannot use more memory than the common limit, although each stays within its
 * own. */
static void test_early_of_all(void **state)
{
    enum {
        EACH = TCP_EARLY_MAX / TCP_MESSAGE_SIZE,
        PEERS = TCP_EARLY_ALL / TCP_EARLY_MAX + 8
    };
    int fds[PEERS];

    (void) state;
    for (int i = 0; i < PEERS; i++) {
        fds[i] = socket_connect(&side);
        send_empty(fds[i], WIRE_EAGER, 1, EACH);
        steps();
    }
    assert_true(inside()->early_size >= TCP_EARLY_ALL);
    assert_true(inside()->early_size < TCP_EARLY_ALL + TCP_MESSAGE_SIZE);
    for (int i = 0; i < PEERS; i++)
        (void) close(fds[i]);
    steps();
}

/*
 * A moderate number of unexpected messages without a receive does not hold back expected messages,
 * a large number does. When they are received, all peers continue. The free list of messages is
 * limited, too.
 */
static void test_unexpected_before_what_is_awaited(void **state)
{
    enum {
        SOFT = TCP_UNEXPECTED_SOFT / TCP_MESSAGE_SIZE + 1,
        HARD = TCP_UNEXPECTED_HARD / TCP_MESSAGE_SIZE + 1
    };
    int fd = socket_connect(&side), other = socket_connect(&side);
    BMI_addr_t address, others;
    struct tcp_message *message;
    uint32_t kept = 0;
    char received[2];

    (void) state;
    send_empty(fd, WIRE_UNEXPECTED, 1, 1);
    expect_unexpected(1, &address);
    assert_int_equal(BMI_set_info(address, BMI_INC_ADDR_REF, NULL), 0);
    for (int i = 0; i < 2; i++)
        (void) side_receive(&side, address, &received[i], 1, i, &received[i]);
    send_empty(fd, WIRE_UNEXPECTED, 2, 2 * SOFT);
    send_empty(fd, WIRE_EAGER, 0, 1);
    sides_wait(&side, NULL, 1);
    send_empty(fd, WIRE_UNEXPECTED, 2, HARD - 2 * SOFT + 1);
    send_empty(fd, WIRE_EAGER, 1, 1);
    send_empty(other, WIRE_UNEXPECTED, 3, 1);
    for (int i = 0; i < 50; i++)
        steps();
    assert_int_equal(side.count, 1);
    assert_int_equal(inside()->unexpected_size, HARD * TCP_MESSAGE_SIZE);
    for (int i = 0; i < HARD + 2; i++) {
        struct BMI_unexpected_info info;
        int count;

        BMI_instance_use(side.instance);
        assert_true(BMI_testunexpected(1, &count, &info, BMI_TEST_ONLY) >= 0);
        if (count == 0)
            info = sides_wait_unexpected(&side, NULL);
        others = info.addr;
        assert_int_equal(info.tag, others == address ? 2 : 3);
        assert_int_equal(BMI_unexpected_free(others, info.buffer), 0);
    }
    sides_wait(&side, NULL, 2);
    assert_int_equal(inside()->unexpected_size, 0);
    assert_false(inside()->is_full);
    for (message = TAILQ_FIRST(&inside()->free_messages); message != NULL;
         message = TAILQ_NEXT(message, link))
        kept++;
    assert_int_equal(inside()->free_message_count, kept);
    assert_true(kept > 0 && kept < 200);
    (void) close(fd);
    (void) close(other);
}

static void log_count(int level, const char *message)
{
    (void) level;
    logged += strstr(message, "no file descriptor") != NULL;
}

/* A connection that arrives when there is no free descriptor is closed, and does not keep the
 * process awake. */
static void test_no_descriptors(void **state)
{
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t) side.port)};
    struct rlimit before, none;
    int fds[3], next;
    uint8_t byte;

    (void) state;
    inside()->log = log_count;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 3; i++)
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
    next = dup(fds[2]);
    (void) close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t) next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(connect(fds[i], (struct sockaddr *) &place, sizeof(place)), 0);
        for (int k = 0; k < 4; k++) {
            BMI_instance_use(side.instance);
            assert_int_equal(BMI_progress(0), 0);
        }
        assert_int_equal(recv(fds[i], &byte, 1, MSG_DONTWAIT), 0);
        assert_false(side_is_awake(&side));
    }
    assert_int_equal(logged, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < 3; i++)
        (void) close(fds[i]);
}

static int descriptors(void)
{
    int count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Failed and closed connections release their descriptors. A connection to the broadcast address
 * fails at once. */
static void test_descriptors_come_back(void **state)
{
    int before = descriptors();
    struct side other;
    BMI_addr_t address;
    struct BMI_instance *instance;
    char name[64];

    (void) state;
    side_open(&other, 0);
    assert_int_equal(BMI_addr_lookup(&address, "tcp://255.255.255.255:1"), 0);
    for (int i = 0; i < 3; i++)
        assert_true(BMI_may_send(address) < 0);
    assert_int_equal(BMI_wake_in(1), 0);
    side_close(&other);
    assert_int_equal(descriptors(), before);

    instance = BMI_instance_create(NULL);
    assert_non_null(instance);
    BMI_instance_use(instance);
    (void) snprintf(name, sizeof(name), LOCALHOST "%d", side.port);
    assert_int_equal(BMI_initialize("bmi_tcp", name, BMI_INIT_SERVER), -BMI_EADDRINUSE);
    assert_int_equal(descriptors(), before);
    assert_int_equal(BMI_initialize("bmi_tcp", NULL, BMI_INIT_SERVER), -BMI_EINVAL);
    assert_int_equal(BMI_initialize("bmi_gm", NULL, 0), -BMI_EINVAL);
    assert_int_equal(BMI_initialize("bmi_tcp", NULL, 0), 0);
    assert_int_equal(BMI_finalize(), 0);
    assert_int_equal(BMI_finalize(), -BMI_EINVAL);
    BMI_instance_destroy(instance);
    assert_int_equal(descriptors(), before);
}

/* With BMI_TCP_BIND_SPECIFIC the side listens at the given address only. */
static void test_place(void **state)
{
    struct sockaddr_in place = {.sin_family = AF_INET};
    int flags[] = {BMI_INIT_SERVER | BMI_TCP_BIND_SPECIFIC, BMI_INIT_SERVER};

    (void) state;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    for (int i = 0; i < 2; i++) {
        struct BMI_instance *instance = BMI_instance_create(NULL);
        int fd = socket(AF_INET, SOCK_STREAM, 0), port;

        BMI_instance_use(instance);
        assert_int_equal(BMI_initialize("bmi_tcp", LOCALHOST "0", flags[i]), 0);
        assert_int_equal(BMI_get_info(0, BMI_TCP_GET_PORT, &port), 0);
        place.sin_port = htons((uint16_t) port);
        assert_int_equal(connect(fd, (struct sockaddr *) &place, sizeof(place)) == 0, i == 1);
        (void) close(fd);
        assert_int_equal(BMI_finalize(), 0);
        BMI_instance_destroy(instance);
    }
}

static void *sleeper_wake;

static void on_alarm(int number)
{
    (void) number;
    sleeper_wake = &sleeper_wake;
}

/* A wake-up ends one sleep; so does a signal, which is not an error. */
static void test_sleep(void **state)
{
    const struct itimerval soon = {.it_value = {.tv_usec = 2000}};
    struct sigaction action = {.sa_handler = on_alarm}, before;
    struct pollfd wait = {.events = POLLIN};

    (void) state;
    assert_int_equal(BMI_wake_in(1), 0);
    wait.fd = BMI_get_wait_fd();
    assert_int_equal(poll(&wait, 1, 10000), 1);
    assert_int_equal(BMI_progress(0), 0);
    assert_false(side_is_awake(&side));

    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    while (sleeper_wake == NULL)
        assert_int_equal(BMI_progress(10000), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    assert_int_equal(BMI_progress(-1), -BMI_EINVAL);
    assert_int_equal(BMI_wake_in(-1), -BMI_EINVAL);
}

/* Invalid numbers, too small and too large. */
static void test_arguments(void **state)
{
    static const bmi_context_id contexts[] = {-1, TCP_CONTEXTS};
    bmi_op_id_t id;
    bmi_size_t actual;
    BMI_addr_t address;
    char data[1] = {0};
    int count;

    (void) state;
    assert_int_equal(BMI_addr_lookup(&address, LOCALHOST "1"), 0);
    for (size_t i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++) {
        bmi_context_id context = contexts[i];

        assert_int_equal(
            BMI_post_recv(&id, address, data, 1, &actual, BMI_EXT_ALLOC, 1, NULL, context, NULL),
            -BMI_EINVAL);
        assert_int_equal(
            BMI_post_send(&id, address, data, 1, BMI_EXT_ALLOC, 1, NULL, context, NULL),
            -BMI_EINVAL);
        assert_int_equal(BMI_testcontext(1, &id, &count, NULL, NULL, NULL, 0, context),
                         -BMI_EINVAL);
        BMI_close_context(context);
    }
    assert_true(inside()->contexts[0]);
    for (int64_t index = 0; index < 200; index++) {
        if (index != (address & UINT32_MAX))
            assert_true(BMI_may_send((address & ~(int64_t) UINT32_MAX) | index) < 0);
        if (index != address >> 32)
            assert_true(BMI_may_send(index << 32 | (address & UINT32_MAX)) < 0);
    }
    assert_int_equal(BMI_set_info(address, BMI_DEC_ADDR_REF, NULL), -BMI_EINVAL);
    assert_int_equal(BMI_unexpected_free(address, NULL), -BMI_EINVAL);
    for (int i = 1; i < TCP_CONTEXTS; i++)
        assert_int_equal(BMI_open_context(&(bmi_context_id){0}), 0);
    assert_int_equal(BMI_open_context(&(bmi_context_id){0}), -BMI_EBUSY);
}

/* A receive from a peer that was never connected ends when the class closes. */
static void test_closing_with_a_receive(void **state)
{
    BMI_addr_t address;
    char data[1];

    (void) state;
    assert_int_equal(BMI_addr_lookup(&address, LOCALHOST "1"), 0);
    (void) side_receive(&side, address, data, 1, 1, data);
}

static void test_long_names(void **state)
{
    static const char prefix[] = LOCALHOST;
    struct BMI_instance *instance = BMI_instance_create(NULL);
    char name[3 * BMI_MAX_ADDR_LEN];
    BMI_addr_t address, found;

    (void) state;
    for (size_t length = BMI_MAX_ADDR_LEN - 1; length <= BMI_MAX_ADDR_LEN; length++) {
        memset(name, '0', sizeof(name));
        memcpy(name, prefix, sizeof(prefix) - 1);
        memcpy(name + length - 1, "1", 2);
        assert_int_equal(BMI_addr_lookup(&address, name) == 0, length < BMI_MAX_ADDR_LEN);
    }
    BMI_instance_use(instance);
    memset(name, 'a', sizeof(name));
    memcpy(name, "tcp://", 6);
    memcpy(name + sizeof(name) - 3, ":1", 3);
    assert_int_equal(BMI_initialize("bmi_tcp", name, BMI_INIT_SERVER), -BMI_EINVAL);
    BMI_instance_destroy(instance);

    /* Two names with the same hash. */
    BMI_instance_use(side.instance);
    assert_int_equal(tcp_hash(LOCALHOST "19376"), tcp_hash("tcp://127.0.0.2:31641"));
    assert_int_equal(BMI_addr_lookup(&address, LOCALHOST "19376"), 0);
    assert_int_equal(BMI_addr_lookup(&found, "tcp://127.0.0.2:31641"), 0);
    assert_int_not_equal(found, address);
    assert_int_equal(BMI_addr_lookup(&found, LOCALHOST "19376"), 0);
    assert_int_equal(found, address);
}

/* Invalid names leave nothing behind. */
static void test_bad_names(void **state)
{
    BMI_addr_t address;

    (void) state;
    assert_true(BMI_addr_lookup(&address, "tcp://127.0.0.1:x") < 0);
    for (uint32_t i = 0; i < TCP_BUCKETS; i++)
        assert_true(TAILQ_EMPTY(&inside()->addresses[i]));
}

/* A caller that takes a reference again, after releasing the last one, is notified again of the end
 * of the connection. */
static void test_reference_comes_back(void **state)
{
    int fd = socket_connect(&side);
    BMI_addr_t address, same;

    (void) state;
    send_empty(fd, WIRE_UNEXPECTED, 1, 1);
    expect_unexpected(1, &address);
    assert_int_equal(BMI_set_info(address, BMI_INC_ADDR_REF, NULL), 0);
    assert_int_equal(BMI_set_info(address, BMI_DEC_ADDR_REF, NULL), 0);
    send_empty(fd, WIRE_UNEXPECTED, 2, 1);
    expect_unexpected(2, &same);
    assert_int_equal(same, address);
    assert_int_equal(BMI_set_info(address, BMI_INC_ADDR_REF, NULL), 0);
    assert_int_equal(inside()->dropped_count, 0);
    (void) close(fd);
    expect_notice(address);
}

/* The same for a caller that looks the address up again. */
static void test_lookup_comes_back(void **state)
{
    struct side other;
    BMI_addr_t address;

    (void) state;
    side_open(&other, 0);
    address = side_lookup(&side, &other);
    assert_int_equal(BMI_set_info(address, BMI_INC_ADDR_REF, NULL), 0);
    side_send_unexpected(&side, address, "hello", 5, 1);
    (void) sides_wait_unexpected(&other, &side);
    BMI_instance_use(side.instance);
    assert_int_equal(BMI_set_info(address, BMI_DEC_ADDR_REF, NULL), 0);
    assert_int_equal(inside()->dropped_count, 1);
    assert_int_equal(side_lookup(&side, &other), address);
    assert_int_equal(inside()->dropped_count, 0);
    side_close(&other);
    expect_notice(address);
}

/* No notification of the end of a connection is given for an address without references, whether
 * the last one was released before or after the end. */
static void test_end_without_a_reference(void **state)
{
    struct BMI_unexpected_info info;
    BMI_addr_t address;

    (void) state;
    for (int i = 0; i < 2; i++) {
        int fd = socket_connect(&side);

        send_empty(fd, WIRE_UNEXPECTED, 1, 1);
        expect_unexpected(1, &address);
        assert_int_equal(BMI_set_info(address, BMI_INC_ADDR_REF, NULL), 0);
        if (i == 0) {
            (void) close(fd);
            steps();
        }
        assert_int_equal(BMI_set_info(address, BMI_DEC_ADDR_REF, NULL), 0);
        if (i == 1)
            (void) close(fd);
        assert_false(sides_poll_unexpected(&side, NULL, 10, &info));
    }
}

/* An address counts once as unreferenced, however often its last reference was released. */
static void test_dropped_twice(void **state)
{
    int fd = socket_connect(&side);
    BMI_addr_t address;

    (void) state;
    send_empty(fd, WIRE_UNEXPECTED, 1, 2);
    expect_unexpected(1, &address);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(BMI_set_info(address, BMI_INC_ADDR_REF, NULL), 0);
        assert_int_equal(BMI_set_info(address, BMI_DEC_ADDR_REF, NULL), 0);
        assert_int_equal(inside()->dropped_count, 1);
    }
    (void) close(fd);
    steps();
}

/* An unreferenced address remains until its unexpected message was received, or its completion was
 * fetched. */
static void test_address_stays(void **state)
{
    BMI_addr_t address, again;
    char data[1];

    (void) state;
    for (int i = 0; i < 2; i++) {
        int fd = socket_connect(&side);

        send_empty(fd, WIRE_UNEXPECTED, 1, 1);
        expect_unexpected(1, &address);
        assert_int_equal(BMI_set_info(address, BMI_INC_ADDR_REF, NULL), 0);
        if (i == 0)
            send_empty(fd, WIRE_UNEXPECTED, 2, 1);
        else
            (void) side_receive(&side, address, data, 1, 1, data);
        (void) close(fd);
        for (int k = 0; k < 4; k++)
            assert_int_equal(BMI_progress(1), 0);
        assert_int_equal(BMI_set_info(address, BMI_DEC_ADDR_REF, NULL), 0);
        assert_string_not_equal(BMI_addr_rev_lookup_unexpected(address), "unknown");
        if (i == 0) {
            expect_unexpected(2, &again);
            assert_int_equal(again, address);
            assert_int_equal(BMI_set_info(address, BMI_INC_ADDR_REF, NULL), 0);
            assert_int_equal(BMI_set_info(address, BMI_DEC_ADDR_REF, NULL), 0);
        } else {
            sides_wait(&side, NULL, 1);
            assert_true(side_take(&side, data).error < 0);
        }
        assert_string_equal(BMI_addr_rev_lookup_unexpected(address), "unknown");
    }
}

/* With BMI_AUTO_REF_COUNT each unexpected message brings a reference. */
static void test_auto_references(void **state)
{
    int fd = socket_connect(&side);
    BMI_addr_t address;

    (void) state;
    inside()->flags |= BMI_AUTO_REF_COUNT;
    for (int i = 0; i < 3; i++) {
        send_empty(fd, WIRE_UNEXPECTED, 1, 1);
        expect_unexpected(1, &address);
        if (i == 0) /* releases the reference; the next message brings another one */
            assert_int_equal(BMI_set_info(address, BMI_DEC_ADDR_REF, NULL), 0);
    }
    assert_int_equal(inside()->dropped_count, 0);
    (void) close(fd);
    expect_notice(address);
    for (int i = 0; i < 3; i++)
        assert_int_equal(BMI_set_info(address, BMI_DEC_ADDR_REF, NULL), i < 2 ? 0 : -BMI_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_early_of_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unexpected_before_what_is_awaited, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_descriptors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_descriptors_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sleep, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arguments, setup, teardown),
        cmocka_unit_test_setup_teardown(test_closing_with_a_receive, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reference_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lookup_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end_without_a_reference, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dropped_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(test_address_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_auto_references, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
