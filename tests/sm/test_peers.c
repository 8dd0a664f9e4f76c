/* SPDX-License-Identifier: BSD-3-Clause */
/* A thousand peers with 1,024 descriptors, and the cost of each peer. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "sm_test.h"

#include "../test_count.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Sanitizers are slow, and find the same with a few. */
#define PROCESSES   (TEST_SANITIZED ? 4 : 20)
#define PER_PROCESS 50
#define PEERS       (PROCESSES * PER_PROCESS)
#define DESCRIPTORS 1024
#define CLIENTS     (TEST_SANITIZED ? 90 : 300)

struct echo {
    struct end end;
    na_op_id_t *recv_op;
    na_op_id_t *send_op;
    uint8_t buf[SM_TEST_MESSAGE];
};

static void echo_sent(const struct na_cb_info *info)
{
    (void) info;
}

static void echo_received(const struct na_cb_info *info)
{
    struct echo *echo = info->arg;
    na_addr_t *source = info->info.recv_unexpected.source;

    if (info->ret != NA_SUCCESS)
        return;
    (void) NA_Msg_send_expected(echo->end.na_class, echo->end.context, echo_sent, echo, echo->buf,
                                info->info.recv_unexpected.actual_buf_size, NULL, source, 0,
                                info->info.recv_unexpected.tag, echo->send_op);
    (void) NA_Msg_recv_unexpected(echo->end.na_class, echo->end.context, echo_received, echo,
                                  echo->buf, sizeof(echo->buf), NULL, echo->recv_op);
    NA_Addr_free(echo->end.na_class, source);
}

/* The main function of a process with many endpoints; writes their addresses to `out`. */
static void serve(int out)
{
    struct echo *echos = calloc(PER_PROCESS, sizeof(*echos));
    struct pollfd fds[PER_PROCESS];

    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < PER_PROCESS; i++) {
        struct echo *echo = &echos[i];
        char address[128] = {0};
        size_t size = sizeof(address);
        na_addr_t *self;

        echo->end.na_class = NA_Initialize("na+sm", true);
        if (echo->end.na_class == NULL)
            _exit(1);
        echo->end.context = NA_Context_create(echo->end.na_class);
        echo->recv_op = NA_Op_create(echo->end.na_class, NA_OP_SINGLE);
        echo->send_op = NA_Op_create(echo->end.na_class, NA_OP_SINGLE);
        (void) NA_Msg_recv_unexpected(echo->end.na_class, echo->end.context, echo_received, echo,
                                      echo->buf, sizeof(echo->buf), NULL, echo->recv_op);
        (void) NA_Addr_self(echo->end.na_class, &self);
        (void) NA_Addr_to_string(echo->end.na_class, address, &size, self);
        if (write(out, address, sizeof(address)) != (ssize_t) sizeof(address))
            _exit(1);
        fds[i].fd = NA_Poll_get_fd(echo->end.na_class, echo->end.context);
        fds[i].events = POLLIN;
    }
    for (;;) {
        bool may_wait = true;

        for (int i = 0; i < PER_PROCESS; i++) {
            unsigned int count = 0;

            (void) NA_Poll(echos[i].end.na_class, echos[i].end.context, &count);
            if (count != 0)
                (void) NA_Trigger(echos[i].end.context, count, NULL);
            may_wait = may_wait && count == 0 &&
                       NA_Poll_try_wait(echos[i].end.na_class, echos[i].end.context);
        }
        (void) poll(fds, PER_PROCESS, may_wait ? 1000 : 0);
    }
}

static long status_kb(const char *field)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long value = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            value = strtol(line + strlen(field) + 1, NULL, 10);
    if (file != NULL)
        (void) fclose(file);
    return value;
}

/* Returns the KiB in use by our segment and those of `count` peers. */
static long segments_kb(char (*addresses)[128], int count, const char *own)
{
    long sum = 0;

    for (int i = -1; i < count; i++) {
        int fd = sm_memory_of(i < 0 ? own : addresses[i]);
        struct stat status;

        if (fstat(fd, &status) == 0)
            sum += (long) status.st_blocks / 2;
        (void) close(fd);
    }
    return sum;
}

static unsigned int open_descriptors(void)
{
    return (unsigned int) test_count("/proc/self/fd");
}

static void a_thousand_peers_fit(void **state)
{
    struct rlimit limit = {.rlim_cur = DESCRIPTORS, .rlim_max = DESCRIPTORS};
    char(*addresses)[128] = calloc(PEERS, sizeof(*addresses));
    na_addr_t **peers = calloc(PEERS, sizeof(*peers)), *self;
    char own[128], request[200] = {0}, reply[200];
    long private_before, private_after, shared_before, shared_after;
    unsigned int descriptors;
    size_t size = sizeof(own);
    pid_t pids[PROCESSES];
    struct end end, reaper;
    double per_peer;

    (void) state;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int i = 0; i < PROCESSES; i++) {
        int fds[2];

        assert_int_equal(pipe(fds), 0);
        pids[i] = fork();
        if (pids[i] == 0)
            serve(fds[1]);
        (void) close(fds[1]);
        for (int j = 0; j < PER_PROCESS; j++)
            assert_int_equal(read(fds[0], addresses[i * PER_PROCESS + j], 128), 128);
        (void) close(fds[0]);
    }
    end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    assert_int_equal(NA_Addr_to_string(end.na_class, own, &size, self), NA_SUCCESS);
    NA_Addr_free(end.na_class, self);
    descriptors = open_descriptors();
    private_before = status_kb("VmPTE:") + status_kb("RssAnon:");
    shared_before = segments_kb(addresses, 0, own);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PEERS; i++) {
            size = sizeof(reply);
            if (round == 0)
                assert_int_equal(NA_Addr_lookup(end.na_class, addresses[i], &peers[i]), NA_SUCCESS);
            request[8] = (char) i;
            assert_int_equal(end_call(&end, peers[i], request, sizeof(request), reply, &size),
                             NA_SUCCESS);
            assert_int_equal(reply[8], (char) i);
        }
        for (int i = 0; i < (TEST_SANITIZED ? 3000 : 100000);
             i++) { /* long enough for the rings to become idle */
            unsigned int count;

            (void) NA_Poll(end.na_class, end.context, &count);
        }
    }
    private_after = status_kb("VmPTE:") + status_kb("RssAnon:");
    shared_after = segments_kb(addresses, PEERS, own);
    assert_int_equal(open_descriptors(), descriptors);
    per_peer =
        (double) (shared_after - shared_before + 2 * (private_after - private_before)) / PEERS;
    print_message("%d peers: %u descriptors here, %.1f KiB a peer (%.1f shared, %.1f private on "
                  "each side)\n",
                  PEERS, descriptors, per_peer, (double) (shared_after - shared_before) / PEERS,
                  (double) (private_after - private_before) / PEERS);
    assert_true(per_peer < 32 || TEST_SANITIZED);
    for (int i = 0; i < PEERS; i++)
        NA_Addr_free(end.na_class, peers[i]);
    for (int i = 0; i < PROCESSES; i++)
        (void) kill(pids[i], SIGKILL);
    for (int i = 0; i < PROCESSES; i++)
        (void) waitpid(pids[i], NULL, 0);
    end_open(&reaper, "na+sm", NULL);
    for (int i = 0; i < PEERS; i++) {
        char path[256];

        (void) snprintf(path, sizeof(path), "/dev/shm/amalgam-sm.%u.%s", (unsigned) geteuid(),
                        addresses[i] + strlen("na+sm://"));
        /* Another process on the machine may be removing the files at this moment. */
        for (int j = 0; j < 1000 && access(path, F_OK) == 0; j++)
            (void) usleep(1000);
        assert_int_not_equal(access(path, F_OK), 0);
    }
    end_close(&reaper);
    end_close(&end);
    free(peers);
    free(addresses);
    check_clean();
}

/* Clients connect, die and are replaced: a server that never looks them up does not accumulate
 * their state. */
static void dead_clients_do_not_pile_up(void **state)
{
    struct child server;
    long before = 0, after;
    char path[256], line[512];

    (void) state;
    child_start(&server, "na+sm", "plain");
    for (int i = 0; i < CLIENTS; i++) {
        struct end end;
        uint8_t reply[64];
        size_t size = sizeof(reply);
        na_addr_t *addr;
        pid_t pid = fork();

        if (pid == 0) {
            end.na_class = NA_Initialize("na+sm", true);
            end.context = NA_Context_create(end.na_class);
            if (NA_Addr_lookup(end.na_class, server.address, &addr) != NA_SUCCESS ||
                end_command(&end, addr, PEER_ECHO, 0, 0, 0, reply, &size) != NA_SUCCESS)
                _exit(1);
            (void) raise(SIGKILL);
        }
        (void) waitpid(pid, NULL, 0);
        if (i != CLIENTS / 3 && i != CLIENTS - 1)
            continue;
        after = 0;
        (void) snprintf(path, sizeof(path), "/proc/%d/maps", (int) server.pid);
        {
            FILE *file = fopen(path, "r");

            assert_non_null(file);
            while (fgets(line, sizeof(line), file) != NULL)
                after += strstr(line, "amalgam-sm") != NULL;
            (void) fclose(file);
        }
        if (i == CLIENTS / 3)
            before = after;
    }
    print_message("mappings of the server after %d dead clients: %ld, after %d: %ld\n", CLIENTS / 3,
                  before, CLIENTS, after);
    assert_true(after < before + CLIENTS);
    child_stop(&server);
    {
        struct end end;

        end_open(&end, "na+sm", NULL);
        end_close(&end);
    }
    check_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_peers_fit),
        cmocka_unit_test(dead_clients_do_not_pile_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
