/* SPDX-License-Identifier: BSD-3-Clause */
/* A listener that is out of descriptors logs that, sleeps, and accepts connections again when it
 * has some. */

#include "transport_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <na_ext.h>

#define WATCH_MS 400

static const char *init_string(void)
{
    static char text[128];

    (void) snprintf(text, sizeof(text), "%s://127.0.0.1", test_init_string());
    return text;
}

static double own_cpu_ms(void)
{
    struct timespec used;

    (void) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double) used.tv_sec * 1e3 + (double) used.tv_nsec / 1e6;
}

static unsigned int logged(FILE *log)
{
    static char text[4096];
    unsigned int count = 0;
    size_t got;

    (void) fflush(log);
    rewind(log);
    got = fread(text, 1, sizeof(text) - 1, log);
    text[got] = '\0';
    for (const char *at = text; (at = strstr(at, "ulimit -n")) != NULL; at++)
        count++;
    return count;
}

/* Sends its address through the socket `arg`. Returns success if a message arrived in the end. */
static int serve_without_descriptors(void *arg)
{
    const int talk = *(const int *) arg;
    struct rlimit before, none;
    struct event got = {0};
    unsigned int count = 0;
    char address[512] = "";
    struct end server;
    na_op_id_t *op;
    uint8_t in[64];
    uint64_t end;
    double cpu;
    FILE *log;

    NA_Set_log_level("error");
    log = tmpfile();
    TEST_REQUIRE(log != NULL);
    NA_Set_log_stream("error", log);
    end_open(&server, init_string(), NULL);
    end_address(&server, address, sizeof(address));
    op = NA_Op_create(server.na_class, NA_OP_SINGLE);
    TEST_REQUIRE(end_receive_unexpected(&server, &got, in, sizeof(in), op) == NA_SUCCESS);
    TEST_REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before;
    none.rlim_cur = 3;
    TEST_REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    TEST_REQUIRE(write(talk, address, sizeof(address)) == sizeof(address));
    TEST_REQUIRE(read(talk, in, 1) == 1); /* a client has connected and waits to be accepted */
    end = now_ms() + TEST_WAIT_MS;
    while (logged(log) == 0 && now_ms() < end)
        end_progress(&server, 50);
    TEST_REQUIRE(logged(log) == 1);
    cpu = own_cpu_ms();
    (void) NA_Poll_wait(server.na_class, server.context, WATCH_MS, &count);
    TEST_REQUIRE(own_cpu_ms() - cpu < WATCH_MS / 8.0);
    TEST_REQUIRE(logged(log) == 1 && got.done == 0);
    TEST_REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    TEST_REQUIRE(event_wait(&server, &got, TEST_WAIT_MS) && got.ret == NA_SUCCESS);
    NA_Addr_free(server.na_class, got.source);
    NA_Op_destroy(server.na_class, op);
    end_close(&server);
    NA_Set_log_stream("error", NULL);
    (void) fclose(log);
    return 0;
}

static void a_listener_without_descriptors_sleeps(void **state)
{
    struct event sent = {0};
    char address[512];
    struct end client;
    na_addr_t *peer;
    int talk[2], status;
    na_op_id_t *op;
    pid_t pid;

    (void) state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, talk), 0);
    (void) fflush(NULL);
    pid = fork();
    if (pid == 0)
        _exit(serve_without_descriptors(&talk[1]));
    (void) close(talk[1]);
    assert_int_equal(read(talk[0], address, sizeof(address)), sizeof(address));
    end_open(&client, init_string(), NULL);
    assert_int_equal(NA_Addr_lookup(client.na_class, address, &peer), NA_SUCCESS);
    op = NA_Op_create(client.na_class, NA_OP_SINGLE);
    assert_int_equal(NA_Msg_send_unexpected(client.na_class, client.context, event_callback, &sent,
                                            "hello", 5, NULL, peer, 0, 0, op),
                     NA_SUCCESS);
    end_progress(&client, 50); /* connects: the connection waits in the listener's backlog */
    assert_int_equal(write(talk[0], "", 1), 1);
    assert_true(event_wait(&client, &sent, 2 * TEST_WAIT_MS));
    assert_int_equal(sent.ret, NA_SUCCESS);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    NA_Op_destroy(client.na_class, op);
    NA_Addr_free(client.na_class, peer);
    end_close(&client);
    (void) close(talk[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_listener_without_descriptors_sleeps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
