/* SPDX-License-Identifier: BSD-3-Clause */
/* The wire format, compared byte for byte with constants from the original BMI, and the treatment
 * of bytes that are not BMI's. */

#include "bmi_fixture.h"

#include "tcp.h"
#include "tcp_wire.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int setup(void **state)
{
    static struct side side;

    side_open(&side, 0);
    *state = &side;
    return 0;
}

static int teardown(void **state)
{
    side_close(*state);
    return 0;
}

static void test_hash(void **state)
{
    static const struct {
        const char *name;
        uint32_t hash;
    } known[] = {
        {"", 0xdeadcbf5u},
        {"t", 0x51191432u},
        {"tcp", 0x7015788cu},
        {"tcp://a:1", 0x41b74b61u},
        {"tcp://a:12", 0x892fa4b1u},
        {"tcp://abc:12", 0xaf3fd869u},
        {"tcp://abcd:12", 0x7d926c49u},
        {"tcp://127.0.0.1:1234", 0x18b44c4du},
        {"tcp://192.168.100.200:54321", 0x5dafaaefu},
        {"tcp://[fe80::1%eth0]:65535", 0x08249520u},
    };

    (void) state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        assert_int_equal(tcp_hash(known[i].name), known[i].hash);
}

static void test_header(void **state)
{
    static const uint8_t bytes[WIRE_HEADER_SIZE] = {
        0xc8, 0xca, 0x00, 0x00,                         /* magic 51912 */
        0x02, 0x00, 0x00, 0x00,                         /* unexpected */
        0x04, 0x03, 0x02, 0x81,                         /* tag */
        0x4d, 0x4c, 0xb4, 0x18,                         /* source */
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* size */
        0x09,                                           /* class */
    };
    const struct wire_header header = {
        .mode = WIRE_UNEXPECTED,
        .tag = (int32_t) 0x81020304,
        .source = 0x18b44c4d,
        .size = UINT64_C(0x1122334455667788),
        .class = 9,
    };
    struct wire_header decoded;
    uint8_t encoded[WIRE_HEADER_SIZE];

    (void) state;
    wire_encode(encoded, &header);
    assert_memory_equal(encoded, bytes, sizeof(bytes));
    assert_int_equal(wire_decode(bytes, &decoded), 51912);
    assert_int_equal(decoded.mode, header.mode);
    assert_int_equal(decoded.tag, header.tag);
    assert_int_equal(decoded.source, header.source);
    assert_true(decoded.size == header.size);
    assert_int_equal(decoded.class, header.class);
}

/* Whether the connection is closed within the time. */
static bool socket_is_closed(struct side *side, int fd, int ms)
{
    double end = seconds() + ms / 1000.0;

    while (seconds() < end) {
        uint8_t byte;
        ssize_t got;

        sides_progress(side, NULL);
        got = recv(fd, &byte, 1, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return true;
    }
    return false;
}

/* A message from a program without a listener, and the answer to it. */
static void test_conversation(void **state)
{
    static const uint8_t request[] = {0xc8, 0xca, 0, 0, 2, 0, 0, 0, 7, 0, 0,   0,   0,   0,   0,
                                      0,    5,    0, 0, 0, 0, 0, 0, 0, 0, 'h', 'e', 'l', 'l', 'o'};
    struct side *side = *state;
    int fd = socket_connect(side);
    struct BMI_unexpected_info info;
    uint8_t answer[WIRE_HEADER_SIZE + 3];
    struct wire_header header;

    socket_send(fd, request, sizeof(request));
    info = sides_wait_unexpected(side, NULL);
    assert_int_equal(info.tag, 7);
    assert_int_equal(info.size, 5);
    assert_memory_equal(info.buffer, "hello", 5);
    BMI_instance_use(side->instance);
    assert_int_equal(strncmp(BMI_addr_rev_lookup_unexpected(info.addr), "tcp://127.0.0.1:", 16), 0);

    (void) side_send(side, info.addr, "yes", 3, -2, NULL);
    socket_receive(side, fd, answer, sizeof(answer));
    assert_int_equal(wire_decode(answer, &header), WIRE_MAGIC);
    assert_int_equal(header.mode, WIRE_EAGER);
    assert_int_equal(header.tag, -2);
    assert_int_equal(header.size, 3);
    assert_int_equal(header.source, tcp_hash(side->name));
    assert_memory_equal(answer + WIRE_HEADER_SIZE, "yes", 3);
    (void) close(fd);
    BMI_instance_use(side->instance);
    (void) BMI_unexpected_free(info.addr, info.buffer);
}

/* Headers and payloads arrive in pieces of any size. */
static void test_pieces(void **state)
{
    struct side *side = *state;
    int fd = socket_connect(side);
    uint8_t stream[3 * (WIRE_HEADER_SIZE + 10)];

    for (int i = 0; i < 3; i++) {
        const struct wire_header header = {.mode = WIRE_UNEXPECTED, .tag = i, .size = 10};
        uint8_t *place = stream + (size_t) i * (WIRE_HEADER_SIZE + 10);

        wire_encode(place, &header);
        pattern_fill(place + WIRE_HEADER_SIZE, 10, (uint32_t) i);
    }
    for (size_t cut = 1; cut < 60; cut += 7) {
        for (size_t at = 0; at < sizeof(stream); at += cut) {
            socket_send(fd, stream + at, at + cut < sizeof(stream) ? cut : sizeof(stream) - at);
            sides_progress(side, NULL);
        }
        for (int i = 0; i < 3; i++) {
            struct BMI_unexpected_info info = sides_wait_unexpected(side, NULL);

            assert_int_equal(info.tag, i);
            assert_true(pattern_check(info.buffer, 10, (uint32_t) i));
            (void) BMI_unexpected_free(info.addr, info.buffer);
        }
    }
    (void) close(fd);
}

static void test_bad_headers(void **state)
{
    static const struct {
        uint32_t mode;
        uint64_t size;
    } bad[] = {
        {0, 1},
        {1, 1},
        {3, 1},
        {16, 1},
        {UINT32_MAX, 1},
        {WIRE_UNEXPECTED, WIRE_EAGER_MAX + 1},
        {WIRE_UNEXPECTED, UINT64_MAX},
        {WIRE_EAGER, WIRE_EAGER_MAX + 1},
        {WIRE_EAGER, UINT64_MAX},
        {WIRE_RENDEZVOUS, WIRE_RENDEZVOUS_MAX + 1},
        {WIRE_RENDEZVOUS, UINT64_MAX},
        {WIRE_RENDEZVOUS, UINT64_C(1) << 63},
    };
    struct side *side = *state;
    struct BMI_unexpected_info info;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct wire_header header = {.mode = bad[i].mode, .tag = 1, .size = bad[i].size};
        int fd = socket_connect(side);

        message_send(fd, &header, NULL);
        assert_true(socket_is_closed(side, fd, 2000));
        (void) close(fd);
    }
    for (size_t i = 0; i < 4; i++) { /* each byte of the magic number */
        uint8_t bytes[WIRE_HEADER_SIZE];
        const struct wire_header header = {.mode = WIRE_UNEXPECTED};
        int fd = socket_connect(side);

        wire_encode(bytes, &header);
        bytes[i] ^= 1;
        socket_send(fd, bytes, sizeof(bytes));
        assert_true(socket_is_closed(side, fd, 2000));
        (void) close(fd);
    }
    assert_false(sides_poll_unexpected(side, NULL, 10, &info));
}

/* A connection that claims to be a known peer does not affect receives from that peer. */
static void test_impostor(void **state)
{
    struct side *side = *state, peer;
    BMI_addr_t to_peer, to_side;
    char data[5], more[5];
    int fd;

    side_open(&peer, 0);
    to_peer = side_lookup(side, &peer);
    to_side = side_lookup(&peer, side);
    (void) side_receive(side, to_peer, data, sizeof(data), 1, data);
    (void) side_receive(side, to_peer, more, sizeof(more), 2, more);
    (void) side_send(&peer, to_side, "first", 5, 1, NULL);
    sides_wait(side, &peer, 1);
    assert_int_equal(side_take(side, data).error, 0);

    fd = socket_connect(side);
    {
        const struct wire_header header = {
            .mode = UINT32_MAX, .source = tcp_hash(peer.name), .size = 1};
        uint8_t bytes[WIRE_HEADER_SIZE];

        wire_encode(bytes, &header);
        socket_send(fd, bytes, sizeof(bytes));
    }
    assert_true(socket_is_closed(side, fd, 2000));
    (void) close(fd);
    assert_int_equal(side->count, 0);
    (void) side_send(&peer, to_side, "other", 5, 2, NULL);
    sides_wait(side, &peer, 1);
    assert_int_equal(side_take(side, more).error, 0);
    assert_memory_equal(more, "other", 5);
    side_close(&peer);
}

static void test_noise(void **state)
{
    struct side *side = *state;
    struct BMI_unexpected_info info;
    uint32_t random = 12345;

    for (int round = 0; round < 200; round++) {
        int fd = socket_connect(side);
        uint8_t bytes[300];
        size_t size = 0;

        if (round % 2 != 0) { /* with a valid beginning */
            const struct wire_header header = {
                .mode = 1u << (round % 5), .tag = round, .size = (uint64_t) round};

            wire_encode(bytes, &header);
            size = WIRE_HEADER_SIZE;
        }
        for (; size < sizeof(bytes); size++) {
            random = random * 1664525 + 1013904223;
            bytes[size] = (uint8_t) (random >> 24);
        }
        (void) send(fd, bytes, (size_t) round + 1, MSG_NOSIGNAL);
        sides_progress(side, NULL);
        (void) close(fd);
        sides_progress(side, NULL);
        if (sides_poll_unexpected(side, NULL, 0, &info))
            (void) BMI_unexpected_free(info.addr, info.buffer);
    }
}

/* Expected messages without a receive use a limited amount of memory. */
static void test_early_flood(void **state)
{
    struct side *side = *state;
    int fd = socket_connect(side);
    static uint8_t data[WIRE_EAGER_MAX + WIRE_HEADER_SIZE];
    const struct wire_header hello = {.mode = WIRE_UNEXPECTED};
    struct wire_header header = {.mode = WIRE_EAGER, .size = WIRE_EAGER_MAX};
    size_t sent = 0;

    message_send(fd, &hello, NULL);
    for (int i = 0; i < 20000; i++) {
        ssize_t size;

        wire_encode(data, &header);
        size = send(fd, data, sizeof(data), MSG_NOSIGNAL | MSG_DONTWAIT);
        sides_progress(side, NULL);
        if (size > 0)
            sent += (size_t) size;
        if (size > 0 && (size_t) size < sizeof(data))
            break;
    }
    assert_true(sent < (size_t) 64 << 20);
    (void) close(fd);
}

/* Unexpected messages of a class that nobody tests for use no room of others, however many
 * arrive. */
static void test_unknown_class(void **state)
{
    static uint8_t data[WIRE_HEADER_SIZE + WIRE_EAGER_MAX];
    const struct wire_header unknown = {
        .mode = WIRE_UNEXPECTED, .size = WIRE_EAGER_MAX, .class = 1};
    const struct wire_header known = {.mode = WIRE_UNEXPECTED, .tag = 5, .size = 5};
    struct side *side = *state;
    struct BMI_unexpected_info info;
    int fd = socket_connect(side), classes = 1;
    double end = seconds() + 10;
    uint64_t left = 2 * TCP_UNEXPECTED_SOFT / sizeof(data);
    size_t at = 0;

    BMI_instance_use(side->instance);
    assert_int_equal(BMI_set_info(0, BMI_CLASSES, &classes), 0);
    wire_encode(data, &unknown);
    while (left != 0 && seconds() < end) {
        ssize_t size = send(fd, data + at, sizeof(data) - at, MSG_NOSIGNAL | MSG_DONTWAIT);

        at += size > 0 ? (size_t) size : 0;
        if (at == sizeof(data)) {
            at = 0;
            left--;
        }
        sides_progress(side, NULL);
    }
    assert_int_equal(left, 0);
    message_send(fd, &known, "known");
    info = sides_wait_unexpected(side, NULL);
    assert_int_equal(info.tag, 5);
    assert_memory_equal(info.buffer, "known", 5);
    BMI_instance_use(side->instance);
    (void) BMI_unexpected_free(info.addr, info.buffer);
    (void) close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_header),
        cmocka_unit_test_setup_teardown(test_conversation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_headers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_impostor, setup, teardown),
        cmocka_unit_test_setup_teardown(test_noise, setup, teardown),
        cmocka_unit_test_setup_teardown(test_early_flood, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_class, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
