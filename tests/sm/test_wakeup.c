/* SPDX-License-Identifier: BSD-3-Clause */
/* How a sleeping context is woken. The sleeper checks only its descriptor, so that no poll makes up
 * for a missing wake-up. The sendto() of this file counts the wake-ups, and can delay them. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "sm_test.h"
#include "transport_rma.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static _Atomic unsigned int wakeups;
static _Atomic int stop_before_wakeup;

SM_TEST_EXPORT ssize_t sendto(int fd, const void *buf, size_t size, int flags,
                              const struct sockaddr *address, socklen_t length);

ssize_t sendto(int fd, const void *buf, size_t size, int flags, const struct sockaddr *address,
               socklen_t length)
{
    if (size == 1)
        atomic_fetch_add(&wakeups, 1);
    if (atomic_exchange(&stop_before_wakeup, 0) != 0)
        (void) raise(SIGSTOP);
    return (ssize_t) syscall(SYS_sendto, fd, buf, size, flags, address, length);
}

static bool is_readable(struct end *end, int timeout_ms)
{
    struct pollfd descriptor = {.fd = NA_Poll_get_fd(end->na_class, end->context),
                                .events = POLLIN};

    return poll(&descriptor, 1, timeout_ms) == 1;
}

static void go_to_sleep(struct end *end)
{
    bool asleep = false;

    for (int i = 0; i < 1000 && !asleep; i++) { /* a wake-up for an earlier sleep may arrive late */
        asleep = NA_Poll_try_wait(end->na_class, end->context) && !is_readable(end, 0);
        if (!asleep)
            end_progress(end, 0);
    }
    assert_true(asleep);
}

static void receive_post(struct end *end, na_op_id_t *op, struct event *event, void *buf)
{
    event->done = 0;
    assert_int_equal(NA_Msg_recv_unexpected(end->na_class, end->context, event_callback, event, buf,
                                            SM_TEST_MESSAGE, NULL, op),
                     NA_SUCCESS);
}

static void receive_finish(struct end *end, struct event *event)
{
    for (int i = 0; i < 100 && event->done == 0; i++)
        end_progress(end, 0);
    assert_int_equal(event->done, 1);
    assert_int_equal(event->ret, NA_SUCCESS);
    NA_Addr_free(end->na_class, event->source);
}

struct stopped {
    char address[128];
    int out;
};

/* Connects, reports that, and is stopped between its second message and the wake-up for it. */
static int stop_between_message_and_wakeup(void *arg)
{
    const struct stopped *stopped = arg;
    struct end end;
    na_addr_t *peer;
    char go;

    end_open(&end, "na+sm", NULL);
    TEST_REQUIRE(NA_Addr_lookup(end.na_class, stopped->address, &peer) == NA_SUCCESS);
    TEST_REQUIRE(end_send(&end, peer, "first", 5, 0, false) == NA_SUCCESS);
    TEST_REQUIRE(write(stopped->out, "1", 1) == 1);
    TEST_REQUIRE(read(stopped->out, &go, 1) == 1);
    atomic_store(&stop_before_wakeup, 1);
    TEST_REQUIRE(end_send(&end, peer, "second", 6, 0, false) == NA_SUCCESS);
    NA_Addr_free(end.na_class, peer);
    end_close(&end);
    return 0;
}

/* A sender has seen that the receiver sleeps, and is stopped before it wakes the receiver. Another
 * sender must not rely on that wake-up. */
static void a_sender_that_is_stopped_before_its_wakeup_holds_back_nobody(void **state)
{
    struct end sleeper, sender;
    struct stopped stopped;
    struct event event = {0};
    uint8_t buf[SM_TEST_MESSAGE];
    int pair[2], status = 0;
    na_op_id_t *op;
    na_addr_t *peer;
    char line;
    pid_t pid;

    (void) state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    end_open(&sleeper, "na+sm", NULL);
    end_address(&sleeper, stopped.address, sizeof(stopped.address));
    op = NA_Op_create(sleeper.na_class, NA_OP_SINGLE);
    stopped.out = pair[1];
    pid = fork();
    if (pid == 0)
        _exit(stop_between_message_and_wakeup(&stopped));
    receive_post(&sleeper, op, &event, buf);
    assert_int_equal(read(pair[0], &line, 1), 1);
    receive_finish(&sleeper, &event);
    end_open(&sender, "na+sm", NULL);
    peer = end_lookup(&sender, &sleeper);
    receive_post(&sleeper, op, &event, buf);
    assert_int_equal(end_send(&sender, peer, "connect", 7, 0, false), NA_SUCCESS);
    receive_finish(&sleeper, &event);

    go_to_sleep(&sleeper);
    assert_int_equal(write(pair[0], "1", 1), 1);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    assert_false(is_readable(&sleeper, 0));
    assert_int_equal(end_send(&sender, peer, "wake", 4, 0, false), NA_SUCCESS);
    assert_true(is_readable(&sleeper, 1000));
    for (int i = 0; i < 2; i++) { /* both messages have arrived */
        receive_post(&sleeper, op, &event, buf);
        receive_finish(&sleeper, &event);
    }
    (void) kill(pid, SIGCONT);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    NA_Op_destroy(sleeper.na_class, op);
    NA_Addr_free(sender.na_class, peer);
    end_close(&sender);
    end_close(&sleeper);
    (void) close(pair[0]);
    (void) close(pair[1]);
    check_clean();
}

/* Many messages to a sleeper cost one wake-up, those to a receiver that is awake none. */
static void one_sleep_costs_one_wakeup(void **state)
{
    struct event events[8] = {0};
    struct end sleeper, sender;
    uint8_t buf[8][SM_TEST_MESSAGE];
    na_op_id_t *ops[8];
    na_addr_t *peer;

    (void) state;
    end_open(&sleeper, "na+sm", NULL);
    end_open(&sender, "na+sm", NULL);
    peer = end_lookup(&sender, &sleeper);
    for (int i = 0; i < 8; i++)
        ops[i] = NA_Op_create(sleeper.na_class, NA_OP_SINGLE);
    for (int round = 0; round < 20; round++) {
        bool is_asleep = round % 2 == 1;

        for (int i = 0; i < 8; i++)
            receive_post(&sleeper, ops[i], &events[i], buf[i]);
        end_progress(&sleeper, 0);
        if (is_asleep)
            go_to_sleep(&sleeper);
        atomic_store(&wakeups, 0);
        for (int i = 0; i < 8; i++)
            assert_int_equal(end_send(&sender, peer, "message", 7, 0, false), NA_SUCCESS);
        assert_int_equal(atomic_load(&wakeups), is_asleep);
        assert_int_equal(is_readable(&sleeper, 0), is_asleep);
        for (int i = 0; i < 8; i++)
            receive_finish(&sleeper, &events[i]);
    }
    for (int i = 0; i < 8; i++)
        NA_Op_destroy(sleeper.na_class, ops[i]);
    NA_Addr_free(sender.na_class, peer);
    end_close(&sender);
    end_close(&sleeper);
    check_clean();
}

/* When there are messages, a sleep is refused and not announced, so that no sender sends a wake-up
 * for it. */
static void a_sleep_that_will_not_be_is_not_announced(void **state)
{
    struct event events[2] = {0};
    struct end sleeper, sender;
    uint8_t buf[2][SM_TEST_MESSAGE];
    na_op_id_t *ops[2];
    na_addr_t *peer;

    (void) state;
    end_open(&sleeper, "na+sm", NULL);
    end_open(&sender, "na+sm", NULL);
    peer = end_lookup(&sender, &sleeper);
    for (int i = 0; i < 2; i++)
        ops[i] = NA_Op_create(sleeper.na_class, NA_OP_SINGLE);
    receive_post(&sleeper, ops[0], &events[0], buf[0]);
    assert_int_equal(end_send(&sender, peer, "connect", 7, 0, false), NA_SUCCESS);
    receive_finish(&sleeper, &events[0]);
    for (int i = 0; i < 2; i++)
        receive_post(&sleeper, ops[i], &events[i], buf[i]);
    atomic_store(&wakeups, 0);
    assert_int_equal(end_send(&sender, peer, "one", 3, 0, false), NA_SUCCESS);
    assert_false(NA_Poll_try_wait(sleeper.na_class, sleeper.context));
    assert_int_equal(end_send(&sender, peer, "two", 3, 0, false), NA_SUCCESS);
    assert_int_equal(atomic_load(&wakeups), 0);
    for (int i = 0; i < 2; i++) {
        receive_finish(&sleeper, &events[i]);
        NA_Op_destroy(sleeper.na_class, ops[i]);
    }
    NA_Addr_free(sender.na_class, peer);
    end_close(&sender);
    end_close(&sleeper);
    check_clean();
}

/* The ring of a silent sender is not polled any more; its next message still wakes the receiver. */
static void a_sender_of_an_idle_ring_wakes(void **state)
{
    struct event event = {0};
    struct end sleeper, sender;
    uint8_t buf[SM_TEST_MESSAGE];
    na_op_id_t *op;
    na_addr_t *peer;

    (void) state;
    end_open(&sleeper, "na+sm", NULL);
    end_open(&sender, "na+sm", NULL);
    peer = end_lookup(&sender, &sleeper);
    op = NA_Op_create(sleeper.na_class, NA_OP_SINGLE);
    for (int i = 0; i < 3; i++) {
        receive_post(&sleeper, op, &event, buf);
        if (i > 0)
            go_to_sleep(&sleeper);
        assert_int_equal(end_send(&sender, peer, "message", 7, 0, false), NA_SUCCESS);
        assert_true(i == 0 || is_readable(&sleeper, 1000));
        receive_finish(&sleeper, &event);
        for (int j = 0; j < 100000; j++)
            end_progress(&sleeper, 0);
    }
    NA_Op_destroy(sleeper.na_class, op);
    NA_Addr_free(sender.na_class, peer);
    end_close(&sender);
    end_close(&sleeper);
    check_clean();
}

/* A sender whose message waits for space in the ring sleeps, and is woken when the receiver has
 * read. */
static void a_sender_that_waits_for_space_is_woken(void **state)
{
    static struct event sent[400], got;
    static uint8_t out[1024], in[SM_TEST_MESSAGE];
    struct end receiver, sender;
    na_op_id_t *ops[400], *op;
    na_addr_t *peer;

    (void) state;
    end_open(&receiver, "na+sm", NULL);
    end_open(&sender, "na+sm", NULL);
    peer = end_lookup(&sender, &receiver);
    op = NA_Op_create(receiver.na_class, NA_OP_SINGLE);
    for (int i = 0; i < 400; i++) {
        sent[i].done = 0;
        ops[i] = NA_Op_create(sender.na_class, NA_OP_SINGLE);
        assert_int_equal(NA_Msg_send_unexpected(sender.na_class, sender.context, event_callback,
                                                &sent[i], out, sizeof(out), NULL, peer, 0,
                                                (na_tag_t) i, ops[i]),
                         NA_SUCCESS);
    }
    end_progress(&sender, 0);
    assert_int_equal(sent[399].done, 0);
    for (int i = 0; i < 400; i++) {
        if (sent[399].done == 0 && i % 50 == 0)
            go_to_sleep(&sender);
        receive_post(&receiver, op, &got, in);
        for (int j = 0; j < 1000 && got.done == 0; j++) {
            end_progress(&receiver, 0);
            if (is_readable(&sender, 0))
                end_progress(&sender, 0);
        }
        receive_finish(&receiver, &got);
        assert_int_equal(got.tag, i);
    }
    for (int i = 0; i < 400; i++) {
        assert_int_equal(sent[i].done, 1);
        NA_Op_destroy(sender.na_class, ops[i]);
    }
    NA_Op_destroy(receiver.na_class, op);
    NA_Addr_free(sender.na_class, peer);
    end_close(&sender);
    end_close(&receiver);
    check_clean();
}

/* An operation that one thread starts wakes another thread: a receive that fails at once because
 * its peer is dead, a transfer, a message that waits. */
static void what_another_thread_starts_wakes_the_sleeper(void **state)
{
    struct event event = {0};
    na_op_id_t *op;
    struct rma rma;
    struct end end;

    (void) state;
    for (int copy = 0; copy < 2; copy++) {
        if (copy)
            assert_int_equal(setenv("AMALGAM_SM_RMA", "copy", 1), 0);
        assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, RMA_BYTES, 0), 0);
        op = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
        go_to_sleep(&rma.end);
        event.done = 0;
        assert_int_equal(NA_Get(rma.end.na_class, rma.end.context, event_callback, &event,
                                rma.local_mem, 0, rma.remote_mem, 0, RMA_BYTES, rma.peer, 0, op),
                         NA_SUCCESS);
        assert_true(is_readable(&rma.end, 1000));
        assert_true(event_wait(&rma.end, &event, TEST_WAIT_MS));
        assert_int_equal(event.ret, NA_SUCCESS);

        /* The posted receive starts the timer that detects the death of the peer. */
        go_to_sleep(&rma.end);
        event.done = 0;
        assert_int_equal(NA_Msg_recv_expected(rma.end.na_class, rma.end.context, event_callback,
                                              &event, rma.local, 64, NULL, rma.peer, 0, 77, op),
                         NA_SUCCESS);
        assert_true(is_readable(&rma.end, 1000));
        go_to_sleep(&rma.end);
        child_kill(&rma.child);
        assert_true(is_readable(&rma.end, 1000));
        assert_true(event_wait(&rma.end, &event, 1000));
        assert_int_equal(event.ret, NA_HOSTUNREACH);
        NA_Op_destroy(rma.end.na_class, op);
        rma_close(&rma, false);
        assert_int_equal(unsetenv("AMALGAM_SM_RMA"), 0);
    }
    end_open(&end, "na+sm", NULL); /* opening an endpoint removes what the killed process left */
    end_close(&end);
    check_clean();
}

/* Two threads move 3 MB through the rings, and sleep whenever possible. */
static void copied_transfers_cost_few_wakeups(void **state)
{
    struct event event = {0};
    na_op_id_t *op;
    struct rma rma;

    (void) state;
    assert_int_equal(setenv("AMALGAM_SM_RMA", "copy", 1), 0);
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, RMA_BYTES, 0), 0);
    op = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
    atomic_store(&wakeups, 0);
    for (int i = 0; i < 100; i++) {
        event.done = 0;
        assert_int_equal((i % 2 ? NA_Put : NA_Get)(rma.end.na_class, rma.end.context,
                                                   event_callback, &event, rma.local_mem, 0,
                                                   rma.remote_mem, 0, RMA_BYTES, rma.peer, 0, op),
                         NA_SUCCESS);
        assert_true(event_wait(&rma.end, &event, TEST_WAIT_MS));
        assert_int_equal(event.ret, NA_SUCCESS);
    }
    print_message("%u wake-ups for 100 transfers of %u bytes\n", atomic_load(&wakeups), RMA_BYTES);
    assert_in_range(atomic_load(&wakeups), 0, 100 * RMA_BYTES / 65536);
    NA_Op_destroy(rma.end.na_class, op);
    rma_close(&rma, true);
    assert_int_equal(unsetenv("AMALGAM_SM_RMA"), 0);
    check_clean();
}

static int deny_membarrier(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = 4, .filter = filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
               ? -1
               : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* If membarrier() is refused before the endpoint opens, senders use fences. If it is refused later,
 * the endpoint does not sleep any more. */
static int live_without_membarrier(void *arg)
{
    bool later = *(const bool *) arg;
    struct child child;
    struct end end;
    uint8_t reply[64];
    na_addr_t *peer;

    if (later)
        end_open(&end, "na+sm", NULL);
    TEST_REQUIRE(deny_membarrier() == 0);
    if (!later)
        end_open(&end, "na+sm", NULL);
    TEST_REQUIRE(NA_Poll_try_wait(end.na_class, end.context) == !later);
    child_start(&child, "na+sm", "idle"); /* the filter applies to the child, too */
    TEST_REQUIRE(NA_Addr_lookup(end.na_class, child.address, &peer) == NA_SUCCESS);
    for (int i = 0; i < 300; i++) {
        size_t size = sizeof(reply);
        uint64_t from = now_ms();

        TEST_REQUIRE(end_command(&end, peer, PEER_ECHO, 0, 0, 0, reply, &size) == NA_SUCCESS);
        TEST_REQUIRE(now_ms() - from < 5000);
    }
    NA_Addr_free(end.na_class, peer);
    end_close(&end);
    child_stop(&child);
    return 0;
}

static void sleeping_works_or_is_given_up_without_membarrier(void **state)
{
    bool later = false;

    (void) state;
    assert_int_equal(run_in_child(live_without_membarrier, &later), 0);
    later = true;
    assert_int_equal(run_in_child(live_without_membarrier, &later), 0);
    check_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sender_that_is_stopped_before_its_wakeup_holds_back_nobody),
        cmocka_unit_test(one_sleep_costs_one_wakeup),
        cmocka_unit_test(a_sleep_that_will_not_be_is_not_announced),
        cmocka_unit_test(a_sender_of_an_idle_ring_wakes),
        cmocka_unit_test(a_sender_that_waits_for_space_is_woken),
        cmocka_unit_test(what_another_thread_starts_wakes_the_sleeper),
        cmocka_unit_test(copied_transfers_cost_few_wakeups),
        cmocka_unit_test(sleeping_works_or_is_given_up_without_membarrier),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
