/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A target without enough descriptors. With more peers than descriptors, some are refused and the
 * others served. Silent connections, again and again, do not use up all descriptors. Unidentified
 * connections to UCX's own port, which leave only one or two descriptors, do not end the process.
 */

#include "transport/transport_test.h"

#include "../test_count.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define INIT    "ucx+tcp://127.0.0.1"
#define LIMIT   300 /* of the target, which opens some twenty descriptors for itself */
#define ORIGINS 200
/* at least: a new peer counts for five descriptors, and a quarter is reserved for others */
#define SERVED  36
#define SILENT  50 /* at least: a quarter of the descriptors that are not reserved for others */
#define HONEST  10 /* origins, beside the silent connections */
#define SIZE    64
#define FEW     80 /* the limit in the test where unidentified connections take all descriptors */
#define WAIT_MS 60000
#define BASE    10 /* open in a process before a class is opened */

/* What a target reports about itself. */
struct place {
    char address[512];
    uint16_t port; /* the port of UCX itself */
};

/* Returns the port that the process listens at in addition to that of its address; 0: none. */
static uint16_t other_port(const char *address)
{
    const char *colon = strrchr(address, ':');
    uint16_t own = (uint16_t) atoi(colon != NULL ? colon + 1 : "0");

    for (int fd = 0; fd < FEW; fd++) {
        struct sockaddr_in in = {0};
        socklen_t size = sizeof(in), int_size = sizeof(int);
        int is_listening = 0;

        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &int_size) == 0 &&
            is_listening != 0 && getsockname(fd, (struct sockaddr *) &in, &size) == 0 &&
            in.sin_family == AF_INET && ntohs(in.sin_port) != own)
            return ntohs(in.sin_port);
    }
    return 0;
}

/* The main function of a target: receives without answering until `until` is closed. */
static void serve(rlim_t descriptors, int place_to, int until)
{
    const struct rlimit limit = {descriptors, descriptors}, no_core = {0, 0};
    struct place place = {.port = 0};
    char buf[SIZE];
    struct event event = {0};
    struct end target;
    na_op_id_t *op;

    for (int fd = BASE; fd < LIMIT; fd++) /* inherited from the test */
        if (fd != place_to && fd != until)
            (void) close(fd);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || setrlimit(RLIMIT_CORE, &no_core) != 0)
        _exit(2);
    end_open(&target, INIT, NULL);
    end_address(&target, place.address, sizeof(place.address));
    place.port = other_port(place.address);
    if (write(place_to, &place, sizeof(place)) != (ssize_t) sizeof(place))
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

/* Starts a target. Returns where it listens, and a descriptor whose closing ends it. */
static pid_t target_start(rlim_t descriptors, struct place *place, int *life_p)
{
    int place_pipe[2], life_pipe[2];
    pid_t pid;

    assert_int_equal(pipe(place_pipe), 0);
    assert_int_equal(pipe(life_pipe), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void) close(life_pipe[1]);
        (void) fcntl(life_pipe[0], F_SETFL, O_NONBLOCK);
        serve(descriptors, place_pipe[1], life_pipe[0]);
    }
    (void) close(place_pipe[1]); /* so that the pipe ends when the process does */
    assert_int_equal(read(place_pipe[0], place, sizeof(*place)), sizeof(*place));
    (void) close(place_pipe[0]);
    (void) close(life_pipe[0]);
    *life_p = life_pipe[1];
    return pid;
}

static void target_end(pid_t pid, int life)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    assert_int_equal(close(life), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Counts the open descriptors of a process. */
static int count_open(pid_t pid)
{
    char path[64];

    (void) snprintf(path, sizeof(path), "/proc/%d/fd", (int) pid);
    return test_count(path);
}

static void wait_for_open(pid_t pid, int count)
{
    const uint64_t limit = now_ms() + WAIT_MS;

    while (count_open(pid) < count) {
        assert_true(now_ms() < limit);
        (void) usleep(1000);
    }
}

static int call(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_port = htons(port);
    assert_int_equal(connect(fd, (const struct sockaddr *) &to, sizeof(to)), 0);
    return fd;
}

/* Keeps silent connections open, and replaces each one that is closed. */
static void say_nothing(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const char *port = strrchr(address, ':');
    int fds[LIMIT];
    char byte;

    to.sin_port = htons((uint16_t) atoi(port != NULL ? port + 1 : "0"));
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < LIMIT; i++)
        fds[i] = -1;
    for (;;) {
        for (int i = 0; i < LIMIT; i++) {
            ssize_t size = fds[i] >= 0 ? recv(fds[i], &byte, 1, MSG_DONTWAIT) : 0;

            if (size > 0 || (size < 0 && errno == EAGAIN))
                continue;
            if (fds[i] >= 0)
                (void) close(fds[i]);
            fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
            (void) !connect(fds[i], (const struct sockaddr *) &to, sizeof(to));
        }
        (void) usleep(1000);
    }
}

static void progress_all(struct end *ends, int count)
{
    for (int i = 0; i < count; i++)
        end_progress(&ends[i], 0);
}

/* Each origin (or each in `which`) sends a message. Returns how many succeeded. */
static int send_all(struct end *ends, int origins, na_addr_t **addrs, const bool *which,
                    bool *served)
{
    const uint64_t size = SIZE, limit = now_ms() + WAIT_MS;
    struct event events[ORIGINS];
    na_op_id_t *ops[ORIGINS];
    char buf[SIZE] = "knock";
    int count = 0;

    memset(events, 0, sizeof(events));
    for (int i = 0; i < origins; i++) {
        ops[i] = NULL;
        if (which != NULL && !which[i])
            continue;
        ops[i] = NA_Op_create(ends[i].na_class, 0);
        assert_int_equal(NA_Msg_send_unexpected(ends[i].na_class, ends[i].context, event_callback,
                                                &events[i], buf, size, NULL, addrs[i], 0, 1,
                                                ops[i]),
                         NA_SUCCESS);
    }
    for (int i = 0; i < origins; i++) {
        while (ops[i] != NULL && events[i].done == 0) {
            assert_true(now_ms() < limit);
            progress_all(ends, origins);
        }
        served[i] = ops[i] != NULL && events[i].ret == NA_SUCCESS;
        count += served[i];
    }
    for (int i = 0; i < origins; i++)
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
    struct place place;
    int life, count;
    pid_t pid;

    (void) state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    pid = target_start(LIMIT, &place, &life);
    for (int i = 0; i < ORIGINS; i++) {
        end_open(&ends[i], INIT, NULL);
        assert_int_equal(NA_Addr_lookup(ends[i].na_class, place.address, &addrs[i]), NA_SUCCESS);
    }
    count = send_all(ends, ORIGINS, addrs, NULL, served);
    print_message("%d of %d were served with %d descriptors\n", count, ORIGINS, LIMIT);
    assert_true(count >= SERVED && count < ORIGINS);
    assert_int_equal(send_all(ends, ORIGINS, addrs, served, again), count);
    for (int i = 0; i < ORIGINS; i++) {
        NA_Addr_free(ends[i].na_class, addrs[i]);
        end_close(&ends[i]);
    }
    target_end(pid, life);
}

static void callers_that_say_nothing_shut_nobody_out(void **state)
{
    struct end ends[HONEST];
    na_addr_t *addrs[HONEST];
    bool waits[HONEST], served[HONEST];
    const uint64_t limit = now_ms() + WAIT_MS;
    struct place place;
    pid_t pid, silent;
    int life, open, count = 0;

    (void) state;
    pid = target_start(LIMIT, &place, &life);
    open = count_open(pid);
    silent = fork();
    assert_true(silent >= 0);
    if (silent == 0) {
        /* in case the test fails before it ends the child */
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        say_nothing(place.address);
    }
    wait_for_open(pid, open + SILENT);
    for (int i = 0; i < HONEST; i++) {
        end_open(&ends[i], INIT, NULL);
        assert_int_equal(NA_Addr_lookup(ends[i].na_class, place.address, &addrs[i]), NA_SUCCESS);
        waits[i] = true;
    }
    /* An origin that gets no processor time for a tenth of a second is taken for a silent one, and
     * connects again. */
    while (count < HONEST && now_ms() < limit) {
        count += send_all(ends, HONEST, addrs, waits, served);
        for (int i = 0; i < HONEST; i++)
            waits[i] = waits[i] && !served[i];
    }
    assert_int_equal(count, HONEST);
    assert_int_equal(kill(silent, SIGKILL), 0);
    assert_int_equal(waitpid(silent, NULL, 0), silent);
    for (int i = 0; i < HONEST; i++) {
        NA_Addr_free(ends[i].na_class, addrs[i]);
        end_close(&ends[i]);
    }
    target_end(pid, life);
}

/* Opens connections until the process has only `left` descriptors. Returns how many were opened. */
static int crowd_in(pid_t pid, uint16_t port, int left, int strangers[FEW])
{
    int count = 0;

    for (int open = count_open(pid); open < FEW - left; open = count_open(pid)) {
        assert_true(count < FEW);
        strangers[count++] = call(port);
        wait_for_open(pid, open + 1);
    }
    return count;
}

/* UCX accepts the connections itself, right after the plugin has counted the descriptors. */
static void strangers_at_the_port_of_ucx_end_nobody(void **state)
{
    int strangers[FEW], life, count, caller;
    struct place place;
    struct end end;
    na_addr_t *addr;
    bool is_served;
    pid_t pid;

    (void) state;
    for (int left = 1; left <= 4; left++) {
        pid = target_start(FEW, &place, &life);
        assert_int_not_equal(place.port, 0);
        count = count_open(pid);
        /* the plugin counts descriptors when this connection arrives */
        caller = call((uint16_t) atoi(strrchr(place.address, ':') + 1));
        wait_for_open(pid, count + 1);
        end_open(&end, INIT, NULL);
        assert_int_equal(NA_Addr_lookup(end.na_class, place.address, &addr), NA_SUCCESS);
        count = crowd_in(pid, place.port, left, strangers);
        assert_int_equal(send_all(&end, 1, &addr, NULL, &is_served), 0);
        for (int i = 0; i < count; i++)
            (void) close(strangers[i]);
        (void) close(caller);
        NA_Addr_free(end.na_class, addr);
        end_close(&end);
        target_end(pid, life);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_target_that_runs_out_refuses_and_serves),
        cmocka_unit_test(callers_that_say_nothing_shut_nobody_out),
        cmocka_unit_test(strangers_at_the_port_of_ucx_end_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
