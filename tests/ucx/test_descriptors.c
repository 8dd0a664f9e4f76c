/* SPDX-License-Identifier: BSD-3-Clause */
/* More peers than there are descriptors for: some are refused, the others are served. */

#include "transport/transport_test.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define INIT    "ucx+tcp://127.0.0.1"
#define LIMIT   300 /* of the target, which opens some twenty for itself */
#define ORIGINS 200
#define SERVED  50 /* at least: three descriptors each, and a quarter is left to others */
#define SIZE    64

/* Answers nobody, but takes what comes, until `until` is closed. */
static void serve(int address_to, int until)
{
    const struct rlimit limit = {LIMIT, LIMIT};
    char address[512], buf[SIZE];
    struct event event = {0};
    struct end target;
    na_op_id_t *op;

    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        _exit(2);
    end_open(&target, INIT, NULL);
    end_address(&target, address, sizeof(address));
    if (write(address_to, address, sizeof(address)) != (ssize_t) sizeof(address))
        _exit(3);
    op = NA_Op_create(target.na_class, 0);
    (void) end_receive_unexpected(&target, &event, buf, sizeof(buf), op);
    while (read(until, buf, 1) != 0) {
        end_progress(&target, 1);
        if (event.done == 0)
            continue;
        if (event.ret == NA_SUCCESS)
            NA_Addr_free(target.na_class, event.source);
        memset(&event, 0, sizeof(event));
        (void) end_receive_unexpected(&target, &event, buf, sizeof(buf), op);
    }
    _exit(0);
}

static void progress_all(struct end *ends)
{
    for (int i = 0; i < ORIGINS; i++)
        end_progress(&ends[i], 0);
}

/* All of them send one message; with how many that succeeded. */
static int send_all(struct end *ends, na_addr_t **addrs, const bool *which, bool *served)
{
    const uint64_t size = SIZE;
    struct event events[ORIGINS];
    na_op_id_t *ops[ORIGINS];
    char buf[SIZE] = "knock";
    int count = 0;

    memset(events, 0, sizeof(events));
    for (int i = 0; i < ORIGINS; i++) {
        ops[i] = NULL;
        if (which != NULL && !which[i])
            continue;
        ops[i] = NA_Op_create(ends[i].na_class, 0);
        assert_int_equal(NA_Msg_send_unexpected(ends[i].na_class, ends[i].context, event_callback,
                                                &events[i], buf, size, NULL, addrs[i], 0, 1,
                                                ops[i]),
                         NA_SUCCESS);
    }
    for (int i = 0; i < ORIGINS; i++) {
        for (int k = 0; ops[i] != NULL && events[i].done == 0; k++) {
            assert_true(k < 200000);
            progress_all(ends);
        }
        served[i] = ops[i] != NULL && events[i].ret == NA_SUCCESS;
        count += served[i];
    }
    for (int i = 0; i < ORIGINS; i++)
        if (ops[i] != NULL)
            NA_Op_destroy(ends[i].na_class, ops[i]);
    return count;
}

static void a_target_that_runs_out_refuses_and_serves(void **state)
{
    struct end ends[ORIGINS];
    na_addr_t *addrs[ORIGINS];
    bool served[ORIGINS], again[ORIGINS];
    struct rlimit limit;
    char address[512];
    int address_pipe[2], life_pipe[2], status = 0, count;
    pid_t pid;

    (void) state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(pipe(address_pipe), 0);
    assert_int_equal(pipe(life_pipe), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void) close(life_pipe[1]);
        (void) fcntl(life_pipe[0], F_SETFL, O_NONBLOCK);
        serve(address_pipe[1], life_pipe[0]);
    }
    assert_int_equal(read(address_pipe[0], address, sizeof(address)), sizeof(address));
    for (int i = 0; i < ORIGINS; i++) {
        end_open(&ends[i], INIT, NULL);
        assert_int_equal(NA_Addr_lookup(ends[i].na_class, address, &addrs[i]), NA_SUCCESS);
    }
    count = send_all(ends, addrs, NULL, served);
    print_message("%d of %d were served with %d descriptors\n", count, ORIGINS, LIMIT);
    assert_true(count >= SERVED && count < ORIGINS);
    assert_int_equal(send_all(ends, addrs, served, again), count);
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    for (int i = 0; i < ORIGINS; i++) {
        NA_Addr_free(ends[i].na_class, addrs[i]);
        end_close(&ends[i]);
    }
    assert_int_equal(close(life_pipe[1]), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    for (int i = 0; i < 2; i++)
        (void) close(address_pipe[i]);
    (void) close(life_pipe[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_target_that_runs_out_refuses_and_serves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
