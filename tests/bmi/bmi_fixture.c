/* SPDX-License-Identifier: BSD-3-Clause */

#include "bmi_fixture.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define PATIENCE 10.0

static void side_remember(struct side *side, void *user_ptr, bmi_error_code_t error,
                          bmi_size_t size);
static void side_progress(struct side *side, int ms);

void side_open(struct side *side, int port)
{
    char name[64];

    *side = (struct side){0};
    side->instance = BMI_instance_create(NULL);
    assert_non_null(side->instance);
    BMI_instance_use(side->instance);
    (void) snprintf(name, sizeof(name), LOCALHOST "%d", port);
    assert_int_equal(BMI_initialize("bmi_tcp", port < 0 ? NULL : name,
                                    port < 0 ? 0 : BMI_INIT_SERVER | BMI_TCP_BIND_SPECIFIC),
                     0);
    assert_int_equal(BMI_open_context(&side->context), 0);
    assert_int_equal(BMI_get_info(0, BMI_TCP_GET_PORT, &side->port), 0);
    (void) snprintf(side->name, sizeof(side->name), LOCALHOST "%d", side->port);
}

void side_close(struct side *side)
{
    BMI_instance_use(side->instance);
    BMI_close_context(side->context);
    assert_int_equal(BMI_finalize(), 0);
    BMI_instance_destroy(side->instance);
    side->instance = NULL;
}

BMI_addr_t side_lookup(struct side *side, const struct side *other)
{
    BMI_addr_t address = 0;

    BMI_instance_use(side->instance);
    assert_int_equal(BMI_addr_lookup(&address, other->name), 0);
    assert_int_not_equal(address, 0);
    return address;
}

void sides_progress(struct side *a, struct side *b)
{
    side_progress(a, b == NULL);
    if (b != NULL)
        side_progress(b, 0);
}

void sides_wait(struct side *side, struct side *other, int count)
{
    double end = seconds() + PATIENCE;

    while (side->count < count && seconds() < end)
        sides_progress(side, other);
    assert_true(side->count >= count);
}

bool sides_poll_unexpected(struct side *side, struct side *other, int ms,
                           struct BMI_unexpected_info *info)
{
    double end = seconds() + ms / 1000.0;
    int count = 0;

    do {
        sides_progress(side, other);
        BMI_instance_use(side->instance);
        assert_true(BMI_testunexpected(1, &count, info, BMI_TEST_ONLY) >= 0);
    } while (count == 0 && seconds() < end);
    return count == 1;
}

struct BMI_unexpected_info sides_wait_unexpected(struct side *side, struct side *other)
{
    struct BMI_unexpected_info info = {0};

    assert_true(sides_poll_unexpected(side, other, (int) (PATIENCE * 1000), &info));
    assert_int_equal(info.error_code, 0);
    return info;
}

bmi_op_id_t side_send(struct side *side, BMI_addr_t to, const void *data, size_t size,
                      bmi_msg_tag_t tag, void *user_ptr)
{
    bmi_op_id_t id = 0;
    int ret;

    BMI_instance_use(side->instance);
    ret = BMI_post_send(&id, to, data, (bmi_size_t) size, BMI_EXT_ALLOC, tag, user_ptr,
                        side->context, NULL);
    if (ret != 0)
        side_remember(side, user_ptr, ret < 0 ? ret : 0, (bmi_size_t) size);
    return id;
}

void side_send_unexpected(struct side *side, BMI_addr_t to, const void *data, size_t size,
                          bmi_msg_tag_t tag)
{
    bmi_op_id_t id;

    BMI_instance_use(side->instance);
    assert_true(BMI_post_sendunexpected(&id, to, data, (bmi_size_t) size, BMI_EXT_ALLOC, tag, NULL,
                                        side->context, NULL) >= 0);
}

bmi_op_id_t side_receive(struct side *side, BMI_addr_t from, void *data, size_t size,
                         bmi_msg_tag_t tag, void *user_ptr)
{
    bmi_op_id_t id = 0;
    bmi_size_t actual;
    int ret;

    BMI_instance_use(side->instance);
    ret = BMI_post_recv(&id, from, data, (bmi_size_t) size, &actual, BMI_EXT_ALLOC, tag, user_ptr,
                        side->context, NULL);
    if (ret != 0)
        side_remember(side, user_ptr, ret < 0 ? ret : 0, actual);
    return id;
}

struct completion side_take(struct side *side, void *user_ptr)
{
    struct completion found;

    for (int i = 0; i < side->count; i++) {
        if (side->completions[i].user_ptr != user_ptr)
            continue;
        found = side->completions[i];
        side->completions[i] = side->completions[--side->count];
        return found;
    }
    fail_msg("the operation has not completed");
    return (struct completion){0};
}

int socket_connect(const struct side *side)
{
    struct sockaddr_in place = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t) side->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *) &place, sizeof(place)), 0);
    return fd;
}

void socket_send(int fd, const void *data, size_t size)
{
    assert_int_equal(send(fd, data, size, MSG_NOSIGNAL), size);
}

void message_send(int fd, const struct wire_header *header, const void *data)
{
    uint8_t bytes[WIRE_HEADER_SIZE];

    wire_encode(bytes, header);
    socket_send(fd, bytes, sizeof(bytes));
    if (data != NULL && header->size != 0)
        socket_send(fd, data, header->size);
}

void socket_receive(struct side *side, int fd, void *data, size_t size)
{
    uint8_t *bytes = data;
    double end = seconds() + 10;

    while (size != 0 && seconds() < end) {
        ssize_t got = recv(fd, bytes, size, MSG_DONTWAIT);

        if (got > 0) {
            bytes += got;
            size -= (size_t) got;
        }
        sides_progress(side, NULL);
    }
    assert_int_equal(size, 0);
}

bool side_is_awake(struct side *side)
{
    struct pollfd wait = {.events = POLLIN};

    BMI_instance_use(side->instance);
    wait.fd = BMI_get_wait_fd();
    return poll(&wait, 1, 0) != 0;
}

void pattern_fill(void *data, size_t size, uint32_t seed)
{
    uint8_t *bytes = data;

    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t) (seed * 37 + i * 7 + (i >> 8));
}

bool pattern_check(const void *data, size_t size, uint32_t seed)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < size; i++)
        if (bytes[i] != (uint8_t) (seed * 37 + i * 7 + (i >> 8)))
            return false;
    return true;
}

double seconds(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static void side_remember(struct side *side, void *user_ptr, bmi_error_code_t error,
                          bmi_size_t size)
{
    if (user_ptr == NULL)
        return;
    assert_true(side->count < SIDE_COMPLETIONS);
    side->completions[side->count++] = (struct completion){user_ptr, error, size};
}

static void side_progress(struct side *side, int ms)
{
    bmi_op_id_t ids[16];
    bmi_error_code_t errors[16];
    bmi_size_t sizes[16];
    void *user_ptrs[16];
    int count;

    BMI_instance_use(side->instance);
    assert_int_equal(BMI_progress(ms), 0);
    assert_true(BMI_testcontext(16, ids, &count, errors, sizes, user_ptrs, BMI_TEST_ONLY,
                                side->context) >= 0);
    for (int i = 0; i < count; i++)
        side_remember(side, user_ptrs[i], errors[i], sizes[i]);
}
