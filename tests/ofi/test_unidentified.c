/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unidentified connections over TCP. Those that begin a message and end cost nothing. Those that
 * end early leave no descriptor behind, whatever value errno had. Silent ones are closed, the
 * oldest first when there are many.
 */

#include "ofi_side.h"

#include "../test_count.h"
#include "kit/plugin_host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_NS  UINT64_C(60000000000)
#define AGAIN_NS UINT64_C(1000000000)
#define AT_ONCE  16
#define MANY     400
#define EARLY    40
#define POLLS    64
#define SILENT   100
#define SPARE    30
#define HIGHEST  4096 /* the highest descriptor number of the test */
#define STALLED  100  /* more than the receives that are posted at first */
#define UNTAGGED 0
#define TAGGED   1

/* A connection request as libfabric's tcp provider sends it. */
struct request {
    uint8_t version, type;
    uint16_t size; /* size of what follows, in network byte order */
    uint32_t number;
    uint64_t connection, message, is_same_order;
};

/* The data that follow the request. */
struct request_end {
    uint8_t version, padding;
    uint16_t port; /* in network byte order */
    uint32_t id;
};

/* The first 8 bytes of a message. */
struct beginning {
    uint8_t header[8];
    uint64_t size;
    uint8_t bytes[8];
};
_Static_assert(sizeof(struct request) == 32 && sizeof(struct request_end) == 8 &&
                   sizeof(struct beginning) == 24,
               "as they are on the wire");

static bool is_sending, has_arrived;

static void completed(void *op, int32_t status)
{
    (void) op;
    (void) status;
    is_sending = false;
}

static void completed_recv(void *op, int32_t status, uint64_t size, struct na_plugin_addr *source,
                           uint32_t tag)
{
    (void) op;
    (void) size;
    (void) tag;
    (void) source;
    has_arrived = status == NA_PLUGIN_SUCCESS;
}

static void side_open(struct side *side, bool is_target)
{
    side_open_as(side, "tcp", is_target);
}

/* Opens both sides. Returns the target's address at the origin. */
static struct na_plugin_addr *pair_open(struct side *origin, struct side *target)
{
    struct na_plugin_addr *addr;

    side_open(origin, false);
    side_open(target, true);
    assert_int_equal(ofi_addr_lookup(origin->na_class, target->na_class->name, &addr),
                     NA_PLUGIN_SUCCESS);
    return addr;
}

static void pair_close(struct side *origin, struct side *target, struct na_plugin_addr *addr)
{
    kit_msg_addr_free(origin->na_class, addr);
    side_close(origin);
    side_close(target);
}

/* Polls like a program that waits. */
static void side_poll(struct side *side)
{
    uint32_t count = 0;

    (void) kit_msg_poll(side->context, &count);
    (void) kit_msg_poll_try_wait(side->context);
}

/* Sends messages one after the other until one arrives. */
static bool message_arrives(struct side *from, struct na_plugin_addr *to, struct side *target)
{
    uint64_t end = kit_host->clock_ns() + WAIT_NS, again = 0;
    void *op = plugin_host_alloc(kit_msg_op_size(), kit_msg_op_align());
    void *recv_op = plugin_host_alloc(kit_msg_op_size(), kit_msg_op_align());
    char buffer[64];

    has_arrived = false;
    is_sending = false;
    assert_int_equal(
        kit_msg_recv_unexpected(target->context, recv_op, buffer, sizeof(buffer), NULL),
        NA_PLUGIN_SUCCESS);
    while ((!has_arrived || is_sending) && kit_host->clock_ns() < end) {
        if (!has_arrived && !is_sending && kit_host->clock_ns() >= again) {
            is_sending = true;
            again = kit_host->clock_ns() + AGAIN_NS;
            assert_int_equal(kit_msg_send_unexpected(from->context, op, "hello", 5, NULL, to, 0, 1),
                             NA_PLUGIN_SUCCESS);
        }
        side_poll(from);
        side_poll(target);
    }
    if (!has_arrived)
        (void) kit_msg_cancel(target->context, recv_op);
    plugin_host_free(op);
    plugin_host_free(recv_op);
    return has_arrived;
}

static void target_address(const struct side *target, struct sockaddr_in *address)
{
    const char *port = strrchr(target->na_class->name, ':');

    assert_non_null(port);
    *address = (struct sockaddr_in){.sin_family = AF_INET,
                                    .sin_port = htons((uint16_t) atoi(port + 1)),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int stranger_connect(const struct side *target)
{
    struct sockaddr_in address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    target_address(target, &address);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *) &address, sizeof(address)), 0);
    return fd;
}

/* Opens a connection, sends a connection request, and begins a message of that kind. */
static int stranger_begin(const struct side *target, unsigned int number, uint8_t operation,
                          uint64_t size)
{
    const struct request_end end = {.port = htons((uint16_t) (1024 + number)), .id = number};
    const struct beginning message = {.header = {3, operation, 0, 0, 0, 0, 16, 0}, .size = size};
    const struct request request = {.version = 3, .size = htons(sizeof(end)), .is_same_order = 1};
    uint8_t bytes[sizeof(request) + sizeof(end) + sizeof(message)];
    int fd = stranger_connect(target);

    memcpy(bytes, &request, sizeof(request));
    memcpy(bytes + sizeof(request), &end, sizeof(end));
    memcpy(bytes + sizeof(request) + sizeof(end), &message, sizeof(message));
    (void) send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
    return fd;
}

/* Closes the connection with a reset. */
static void stranger_leave(int fd)
{
    const struct linger linger = {.l_onoff = 1};

    (void) setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    (void) close(fd);
}

/* Waits until each connection has its answer, and polls some times for the message. */
static void strangers_await(struct side *target, const int *fds, int count)
{
    uint64_t end = kit_host->clock_ns() + WAIT_NS;
    char answer[64];

    for (int i = 0; i < count; i++)
        while (kit_host->clock_ns() < end &&
               recv(fds[i], answer, sizeof(answer), MSG_DONTWAIT) < 0 && errno == EAGAIN)
            side_poll(target);
    for (int i = 0; i < POLLS; i++)
        side_poll(target);
}

/* Opens connections, waits for the answer to each and polls some times for the message, then closes
 * them. */
static void strangers_come_and_go(struct side *target, unsigned int number, uint8_t operation,
                                  uint64_t size)
{
    int fds[AT_ONCE];

    for (int i = 0; i < AT_ONCE; i++)
        fds[i] = stranger_begin(target, number + (unsigned int) i, operation, size);
    strangers_await(target, fds, AT_ONCE);
    for (int i = 0; i < AT_ONCE; i++)
        stranger_leave(fds[i]);
}

static int descriptors(void)
{
    const int count = test_count("/proc/self/fd");

    assert_int_not_equal(count, 0);
    return count;
}

/* Counts the open connections of this process to that address. */
static int connections_to(const struct sockaddr_in *address)
{
    int count = 0;

    for (int fd = 0; fd < HIGHEST; fd++) {
        struct sockaddr_in far = {0};
        struct tcp_info info = {0};
        socklen_t size = sizeof(far), info_size = sizeof(info);

        count += getpeername(fd, (struct sockaddr *) &far, &size) == 0 &&
                 far.sin_family == AF_INET && far.sin_port == address->sin_port &&
                 getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_size) == 0 &&
                 info.tcpi_state == TCP_ESTABLISHED;
    }
    return count;
}

/* Two classes of this process are connected to one target, and one of them aborts its connection as
 * silent. The connection of the other class stays. */
static void the_connections_of_another_class_stay(void **state)
{
    struct side origin, other, target;
    struct na_plugin_addr *addr, *others;
    struct sockaddr_in address;

    (void) state;
    side_open(&target, true);
    side_open(&origin, false);
    side_open(&other, false);
    target_address(&target, &address);
    assert_int_equal(ofi_addr_lookup(origin.na_class, target.na_class->name, &addr),
                     NA_PLUGIN_SUCCESS);
    assert_int_equal(ofi_addr_lookup(other.na_class, target.na_class->name, &others),
                     NA_PLUGIN_SUCCESS);
    assert_true(message_arrives(&origin, addr, &target));
    assert_true(message_arrives(&other, others, &target));
    assert_int_equal(connections_to(&address), 2);
    kit_msg_lock(&origin.na_class->base);
    ofi_peer_abort(&origin.na_class->base, (struct kit_peer *) (void *) addr, 0);
    kit_msg_unlock(&origin.na_class->base);
    assert_int_equal(connections_to(&address), 1);
    assert_true(message_arrives(&other, others, &target));
    assert_int_equal(connections_to(&address), 1);
    kit_msg_addr_free(origin.na_class, addr);
    kit_msg_addr_free(other.na_class, others);
    side_close(&origin);
    side_close(&other);
    side_close(&target);
}

static void unfinished_messages_cost_nothing(void **state)
{
    struct side origin, target;
    struct na_plugin_addr *addr;
    int before;

    (void) state;
    addr = pair_open(&origin, &target);
    assert_true(message_arrives(&origin, addr, &target));
    before = descriptors();
    for (unsigned int i = 0; i < MANY; i += AT_ONCE) {
        strangers_come_and_go(&target, i, UNTAGGED, 16 + 200);
        assert_true(message_arrives(&origin, addr, &target));
    }
    assert_true(descriptors() <= before + AT_ONCE);
    pair_close(&origin, &target, addr);
}

/* The provider keeps a tagged message that no receive matches, and its connection, for ever. */
static void tagged_messages_hold_no_descriptors(void **state)
{
    static const uint64_t sizes[] = {16, 16 + 8, 16 + 200, 1 << 20, UINT64_C(1) << 40};
    uint64_t end = kit_host->clock_ns() + WAIT_NS;
    struct side origin, target;
    struct na_plugin_addr *addr;
    int before;

    (void) state;
    addr = pair_open(&origin, &target);
    assert_true(message_arrives(&origin, addr, &target));
    before = descriptors();
    for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        strangers_come_and_go(&target, i * AT_ONCE, TAGGED, sizes[i]);
    while (descriptors() > before && kit_host->clock_ns() < end)
        side_poll(&target);
    assert_int_equal(descriptors(), before);
    assert_true(message_arrives(&origin, addr, &target));
    pair_close(&origin, &target, addr);
}

/* Each connection in the middle of a message has one of the posted receives. */
static void stalled_messages_leave_receives_for_others(void **state)
{
    struct side origin, target;
    struct na_plugin_addr *addr;
    int fds[STALLED];

    (void) state;
    addr = pair_open(&origin, &target);
    for (unsigned int i = 0; i < STALLED; i++) {
        fds[i] = stranger_begin(&target, i, UNTAGGED, 16 + 200);
        side_poll(&target);
    }
    strangers_await(&target, fds, STALLED);
    assert_true(message_arrives(&origin, addr, &target));
    for (unsigned int i = 0; i < STALLED; i++)
        stranger_leave(fds[i]);
    assert_true(message_arrives(&origin, addr, &target));
    pair_close(&origin, &target, addr);
}

/* A process that has introduced itself may be silent for as long as it likes. */
static void silent_peers_stay(void **state)
{
    struct side origin, target;
    struct na_plugin_addr *addr;
    struct sockaddr_in address;
    uint64_t end;
    char byte;
    int fd;

    (void) state;
    addr = pair_open(&origin, &target);
    target_address(&target, &address);
    assert_true(message_arrives(&origin, addr, &target));
    assert_int_equal(connections_to(&address), 1);
    target.na_class->unidentified_ms = 100;
    fd = stranger_connect(&target);
    end = kit_host->clock_ns() + WAIT_NS;
    while (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) < 0 && kit_host->clock_ns() < end)
        side_poll(&target);
    assert_true(kit_host->clock_ns() < end); /* the unidentified one was closed */
    assert_int_equal(connections_to(&address), 1);
    (void) close(fd);
    pair_close(&origin, &target, addr);
}

/* At each poll, errno is still EAGAIN from another call. */
static void early_ends_leave_no_descriptors(void **state)
{
    uint64_t end = kit_host->clock_ns() + WAIT_NS;
    struct side target;
    int before, now;

    (void) state;
    side_open(&target, true);
    before = descriptors();
    for (int i = 0; i < EARLY; i++) {
        int fd = stranger_connect(&target);

        assert_true(fd >= 0);
        side_poll(&target);
        (void) close(fd);
    }
    do {
        errno = EAGAIN;
        side_poll(&target);
        (void) usleep(100);
        now = descriptors();
    } while (now > before && kit_host->clock_ns() < end);
    assert_int_equal(now, before);
    side_close(&target);
}

static void silent_connections_are_closed(void **state)
{
    uint64_t end = kit_host->clock_ns() + WAIT_NS;
    struct side target;
    ssize_t got = -1;
    char byte;
    int fd;

    (void) state;
    side_open(&target, true);
    target.na_class->unidentified_ms = 100;
    fd = stranger_connect(&target);
    assert_true(fd >= 0);
    while (got < 0 && kit_host->clock_ns() < end) {
        side_poll(&target);
        got = recv(fd, &byte, sizeof(byte), MSG_DONTWAIT);
    }
    assert_int_equal(got, 0);
    (void) close(fd);
    side_close(&target);
}

/* The silent connections belong to another process, so that only the target's ends use descriptors
 * of this one. */
static pid_t silent_strangers_start(const struct side *target)
{
    struct sockaddr_in address;
    int ready[2];
    char byte;
    pid_t pid;

    target_address(target, &address);
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        for (int i = 0; i < SILENT; i++) {
            int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

            (void) connect(fd, (struct sockaddr *) &address, sizeof(address));
        }
        (void) !write(ready[1], "x", 1);
        (void) pause();
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void) close(ready[0]);
    (void) close(ready[1]);
    return pid;
}

static void silent_connections_leave_room_for_others(void **state)
{
    struct side origin, target;
    struct na_plugin_addr *addr;
    struct rlimit limit, low;
    pid_t strangers;
    bool is_served;

    (void) state;
    addr = pair_open(&origin, &target);
    strangers = silent_strangers_start(&target);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = (rlim_t) descriptors() + SPARE;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (int i = 0; i < SILENT * 4; i++)
        side_poll(&target);
    is_served = message_arrives(&origin, addr, &target);
    (void) kill(strangers, SIGKILL);
    (void) waitpid(strangers, NULL, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(is_served);
    pair_close(&origin, &target, addr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_connections_of_another_class_stay),
        cmocka_unit_test(unfinished_messages_cost_nothing),
        cmocka_unit_test(tagged_messages_hold_no_descriptors),
        cmocka_unit_test(stalled_messages_leave_receives_for_others),
        cmocka_unit_test(silent_peers_stay),
        cmocka_unit_test(early_ends_leave_no_descriptors),
        cmocka_unit_test(silent_connections_are_closed),
        cmocka_unit_test(silent_connections_leave_room_for_others),
    };
    struct na_host host = plugin_host;
    int ret;

    host.op_complete = completed;
    host.op_complete_recv = completed_recv;
    kit_host = &host;
    ret = cmocka_run_group_tests(tests, NULL, NULL);
    ofi_enumerate_cleanup();
    return ret;
}
