/* SPDX-License-Identifier: BSD-3-Clause */
/* How endpoints establish links: both at once, nobody there, a new process at the same address, and
 * connections from programs that are no endpoints. */

#include "transport/transport_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define INIT    "ucx+tcp://127.0.0.1"
#define CALLERS 200
#define SIZE    64

static const char *const inits[] = {INIT, "ucx+all://127.0.0.1", "ucx+tcp://[::1]"};

/* Progresses both ends until the event has happened. */
static bool wait_for(struct event *event, struct end *a, struct end *b)
{
    const uint64_t limit = now_ms() + TEST_WAIT_MS;

    while (event->done == 0 && now_ms() < limit) {
        end_progress(a, 0);
        if (b != NULL)
            end_progress(b, 0);
    }
    return event->done != 0;
}

static na_op_id_t *op_new(struct end *end)
{
    na_op_id_t *op = NA_Op_create(end->na_class, 0);

    assert_non_null(op);
    return op;
}

static void send_to(struct end *from, na_addr_t *to, const char *text, struct event *event,
                    na_op_id_t *op)
{
    assert_int_equal(NA_Msg_send_unexpected(from->na_class, from->context, event_callback, event,
                                            text, strlen(text) + 1, NULL, to, 0, 1, op),
                     NA_SUCCESS);
}

/* Passes a message from one end to the other. Returns the status of the send. */
static na_return_t send_one(struct end *from, struct end *to, na_addr_t *addr)
{
    struct event sent = {0}, received = {0};
    char buf[SIZE] = "";
    na_op_id_t *send_op = op_new(from), *receive_op = op_new(to);

    assert_int_equal(end_receive_unexpected(to, &received, buf, sizeof(buf), receive_op),
                     NA_SUCCESS);
    send_to(from, addr, "hello", &sent, send_op);
    assert_true(wait_for(&sent, from, to));
    if (sent.ret != NA_SUCCESS)
        assert_int_equal(NA_Cancel(to->na_class, to->context, receive_op), NA_SUCCESS);
    assert_true(wait_for(&received, to, from));
    if (sent.ret == NA_SUCCESS) {
        assert_int_equal(received.ret, NA_SUCCESS);
        assert_string_equal(buf, "hello");
        NA_Addr_free(to->na_class, received.source);
    }
    NA_Op_destroy(from->na_class, send_op);
    NA_Op_destroy(to->na_class, receive_op);
    return sent.ret;
}

static void both_sides_call_at_once(void **state)
{
    (void) state;
    for (size_t round = 0; round < 20; round++) {
        const char *init = inits[round % (sizeof(inits) / sizeof(inits[0]))];
        struct event events[4] = {{0}};
        char bufs[2][SIZE] = {"", ""};
        struct end ends[2];
        na_addr_t *addrs[2];
        na_op_id_t *ops[4];

        for (int i = 0; i < 2; i++)
            end_open(&ends[i], init, NULL);
        for (int i = 0; i < 2; i++) {
            addrs[i] = end_lookup(&ends[i], &ends[1 - i]);
            ops[i] = op_new(&ends[i]);
            ops[2 + i] = op_new(&ends[i]);
            assert_int_equal(end_receive_unexpected(&ends[i], &events[i], bufs[i], SIZE, ops[i]),
                             NA_SUCCESS);
        }
        for (int i = 0; i < 2; i++)
            send_to(&ends[i], addrs[i], i == 0 ? "zero" : "one", &events[2 + i], ops[2 + i]);
        for (int i = 0; i < 4; i++) {
            assert_true(wait_for(&events[i], &ends[0], &ends[1]));
            assert_int_equal(events[i].ret, NA_SUCCESS);
        }
        assert_string_equal(bufs[0], "one");
        assert_string_equal(bufs[1], "zero");
        for (int i = 0; i < 2; i++) {
            /* There is one link: the source equals the address that was looked up. */
            assert_true(NA_Addr_cmp(ends[i].na_class, events[i].source, addrs[i]));
            NA_Addr_free(ends[i].na_class, events[i].source);
            assert_int_equal(send_one(&ends[i], &ends[1 - i], addrs[i]), NA_SUCCESS);
        }
        for (int i = 0; i < 2; i++) {
            NA_Addr_free(ends[i].na_class, addrs[i]);
            NA_Op_destroy(ends[i].na_class, ops[i]);
            NA_Op_destroy(ends[i].na_class, ops[2 + i]);
        }
        end_close(&ends[round % 2]);
        end_close(&ends[1 - round % 2]);
    }
}

/* Returns an address on this machine where nothing listens. */
static void free_port(char *address, size_t size)
{
    struct end end;

    end_open(&end, INIT, NULL);
    end_address(&end, address, size);
    end_close(&end);
}

static void nobody_there_fails_the_send(void **state)
{
    char address[512];
    struct event event = {0};
    struct end end;
    na_addr_t *addr;
    na_op_id_t *op;

    (void) state;
    free_port(address, sizeof(address));
    end_open(&end, INIT, NULL);
    op = op_new(&end);
    assert_int_equal(NA_Addr_lookup(end.na_class, address, &addr), NA_SUCCESS);
    send_to(&end, addr, "anybody?", &event, op);
    assert_true(wait_for(&event, &end, NULL));
    assert_int_equal(event.ret, NA_HOSTUNREACH);
    NA_Addr_free(end.na_class, addr);
    assert_int_not_equal(NA_Addr_lookup(end.na_class, "ucx+tcp://127.0.0.1", &addr), NA_SUCCESS);
    assert_int_not_equal(NA_Addr_lookup(end.na_class, "ucx+tcp://127.0.0.1:99999", &addr),
                         NA_SUCCESS);
    assert_int_not_equal(NA_Addr_lookup(end.na_class, "ofi+tcp://127.0.0.1:99", &addr), NA_SUCCESS);
    NA_Op_destroy(end.na_class, op);
    end_close(&end);
}

static void the_next_one_at_the_same_place_is_reached(void **state)
{
    struct end origin, target;
    char address[512];
    na_addr_t *addr;

    (void) state;
    free_port(address, sizeof(address));
    end_open(&origin, INIT, NULL);
    for (int round = 0; round < 4; round++) {
        na_return_t ret = NA_HOSTUNREACH;

        end_open(&target, address, NULL);
        assert_int_equal(NA_Addr_lookup(origin.na_class, address, &addr), NA_SUCCESS);
        for (int i = 0; i < 3 && ret != NA_SUCCESS; i++)
            ret = send_one(&origin, &target, addr);
        assert_int_equal(ret, NA_SUCCESS);
        NA_Addr_free(origin.na_class, addr);
        end_close(&target);
    }
    end_close(&origin);
}

static int call(const char *address)
{
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *colon = strrchr(address, ':');
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_non_null(colon);
    assert_true(fd >= 0);
    there.sin_port = htons((uint16_t) atoi(colon + 1));
    assert_int_equal(connect(fd, (struct sockaddr *) &there, sizeof(there)), 0);
    return fd;
}

/* Reads until the endpoint closes the connection; the endpoint progresses meanwhile. */
static bool is_hung_up(int fd, struct end *end)
{
    const uint64_t limit = now_ms() + TEST_WAIT_MS;
    char buf[256];

    while (now_ms() < limit) {
        ssize_t size = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

        /* Reset, since the endpoint had not read everything. */
        if (size == 0 || (size < 0 && errno == ECONNRESET))
            return true;
        end_progress(end, 1);
    }
    return false;
}

static void callers_that_are_no_endpoints_do_no_harm(void **state)
{
    /* The head of an introduction that announces 4 GiB; an incomplete introduction is waited
     * for. */
    static const uint8_t greedy[160] = {0x55, 0x58, 0x48, 0x4c, 1,    0,    0,
                                        0,    0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const char http[] =
        "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: somebody who came to the wrong door\r\n"
        "Accept: everything you have, and then some more of it\r\n\r\n";
    struct end target, origin;
    char address[512];
    int fds[CALLERS];
    na_addr_t *addr;

    (void) state;
    end_open(&target, INIT, NULL);
    end_open(&origin, INIT, NULL);
    end_address(&target, address, sizeof(address));
    for (int i = 0; i < CALLERS; i++) {
        fds[i] = call(address);
        if (i % 3 == 1)
            assert_true(send(fds[i], greedy, sizeof(greedy), MSG_NOSIGNAL) > 0);
        if (i % 3 == 2)
            assert_true(send(fds[i], http, sizeof(http), MSG_NOSIGNAL) > 0);
        end_progress(&target, 0);
    }
    addr = end_lookup(&origin, &target);
    assert_int_equal(send_one(&origin, &target, addr), NA_SUCCESS);
    for (int i = 0; i < CALLERS; i++) {
        if (i % 3 != 0 && !is_hung_up(fds[i], &target))
            fail_msg("connection %d was not closed", i);
        assert_int_equal(close(fds[i]), 0);
    }
    end_progress(&target, 50);
    assert_int_equal(send_one(&origin, &target, addr), NA_SUCCESS);
    NA_Addr_free(origin.na_class, addr);
    end_close(&origin);
    end_close(&target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_call_at_once),
        cmocka_unit_test(nobody_there_fails_the_send),
        cmocka_unit_test(the_next_one_at_the_same_place_is_reached),
        cmocka_unit_test(callers_that_are_no_endpoints_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
