/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads and processes that use a ring at critical moments. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "sm_test.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SENDERS 3

struct worker {
    pthread_t thread;
    struct end *end;
    na_addr_t *peer;
    unsigned int index;
    unsigned int errors;
};

/* Two processes poll without sleeping. They exchange messages after pauses that are long enough for
 * the rings to become idle. */
static void busy_processes_find_each_other_after_silence(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    uint8_t reply[64];
    struct child child;
    struct end end;
    na_addr_t *peer;

    (void) state;
    info.progress_mode = NA_NO_BLOCK;
    child_start(&child, "na+sm", "busy");
    end_open(&end, "na+sm", &info);
    assert_int_equal(NA_Poll_get_fd(end.na_class, end.context), -1);
    assert_false(NA_Poll_try_wait(end.na_class, end.context));
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    for (int i = 0; i < 200; i++) {
        size_t size = sizeof(reply);
        unsigned int count;

        for (int j = 0; j < (i % 10 == 0 ? 100000 : 100); j++)
            (void) NA_Poll(end.na_class, end.context, &count);
        assert_int_equal(end_command(&end, peer, PEER_ECHO, 0, 0, 0, reply, &size), NA_SUCCESS);
    }
    NA_Addr_free(end.na_class, peer);
    end_close(&end);
    child_stop(&child);
    check_clean();
}

/* Interrupts the thread wherever it is, while the other threads and the receiver continue. */
static void nap(int number)
{
    const struct timespec time = {.tv_nsec = 200000};
    int before = errno;

    (void) number;
    (void) nanosleep(&time, NULL);
    errno = before;
}

static _Atomic bool senders_stop;

static void *send_until_stopped(void *arg)
{
    struct worker *worker = arg;
    na_op_id_t *op = NA_Op_create(worker->end->na_class, NA_OP_SINGLE);
    const struct peer_request request = {.command = PEER_COUNT};

    while (!atomic_load(&senders_stop) && worker->errors == 0) {
        struct event sent = {0};

        if (NA_Msg_send_unexpected(worker->end->na_class, worker->end->context, event_callback,
                                   &sent, &request, sizeof(request), NULL, worker->peer, 0, 0,
                                   op) != NA_SUCCESS) {
            worker->errors++;
            break;
        }
        while (atomic_load(&sent.done) == 0)
            end_progress(worker->end, 0);
        worker->errors += sent.ret != NA_SUCCESS;
    }
    NA_Op_destroy(worker->end->na_class, op);
    return NULL;
}

/* An interrupted thread continues with a stale head of the ring; that must not count as an error of
 * the peer. */
static void threads_that_are_interrupted_keep_the_connection(void **state)
{
    struct sigaction action = {.sa_handler = nap, .sa_flags = SA_RESTART};
    struct worker workers[SENDERS];
    struct child child;
    struct end end;
    na_addr_t *peer;
    uint64_t until;

    (void) state;
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    child_start(&child, "na+sm", "busy");
    end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    atomic_store(&senders_stop, false);
    for (unsigned int i = 0; i < SENDERS; i++) {
        workers[i] = (struct worker){.end = &end, .peer = peer, .index = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, send_until_stopped, &workers[i]),
                         0);
    }
    until = now_ms() + (TEST_SANITIZED ? 1000 : 4000);
    while (now_ms() < until) {
        (void) usleep(200);
        (void) pthread_kill(workers[0].thread, SIGUSR1);
    }
    atomic_store(&senders_stop, true);
    for (unsigned int i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    for (unsigned int i = 0; i < SENDERS; i++)
        assert_int_equal(workers[i].errors, 0);
    NA_Addr_free(end.na_class, peer);
    end_close(&end);
    child_stop(&child);
    check_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_are_interrupted_keep_the_connection),
        cmocka_unit_test(busy_processes_find_each_other_after_silence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
