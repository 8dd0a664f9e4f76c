/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Death of a peer. This process is rank 1 of two, or a job of its own; rank 0, or the other job,
 * runs transport_peer and is stopped or killed in the middle of a put or get. Among ranks this
 * needs an mpiexec that lets the other ranks continue (run_ranks.sh RECOVER=1).
 */

#include "transport/transport_rma.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES    20000003u
#define SCRIBBLE 0xEEu

static struct rma rma;

static pid_t peer_pid(void)
{
    const char *path = getenv("AMALGAM_TEST_PEER_PID");
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    int pid = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    (void) fclose(file);
    assert_true(pid > 1);
    return pid;
}

static int setup(void **state)
{
    const char *given = getenv("AMALGAM_TEST_PEER_ADDRESS");
    char address[512];

    (void) state;
    memset(&rma, 0, sizeof(rma));
    rma.bytes = BYTES;
    end_open(&rma.end, NULL, NULL);
    end_address(&rma.end, address, sizeof(address));
    if (given != NULL)
        (void) snprintf(address, sizeof(address), "%s", given);
    else
        (void) strcpy(strstr(address, "://"), "://0");
    assert_int_equal(NA_Addr_lookup(rma.end.na_class, address, &rma.peer), NA_SUCCESS);
    assert_int_equal(rma_expose(&rma, NA_MEM_READWRITE, 1), 0);
    rma.local = calloc(1, BYTES);
    assert_non_null(rma.local);
    rma.local_mem = mem_open(&rma.end, rma.local, BYTES, NA_MEM_READWRITE);
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    NA_Mem_handle_free(rma.end.na_class, rma.remote_mem);
    mem_close(&rma.end, rma.local_mem);
    NA_Addr_free(rma.end.na_class, rma.peer);
    end_close(&rma.end);
    free(rma.local);
    return 0;
}

/* While the peer is stopped, cancels complete at once; when it continues, everything works. */
static void stopped_in_the_middle(void **state)
{
    pid_t pid = peer_pid();

    (void) state;
    for (unsigned int i = 0; i < 12; i++) {
        na_op_id_t *op = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
        bool is_put = i % 2 != 0;
        struct event event = {0};

        memset(rma.local, 2, BYTES);
        assert_int_equal((is_put ? NA_Put : NA_Get)(rma.end.na_class, rma.end.context,
                                                    event_callback, &event, rma.local_mem, 0,
                                                    rma.remote_mem, 0, BYTES, rma.peer, 0, op),
                         NA_SUCCESS);
        (void) event_wait(&rma.end, &event, i / 2);
        assert_int_equal(kill(pid, SIGSTOP), 0);
        end_progress(&rma.end, 50);
        assert_int_equal(NA_Cancel(rma.end.na_class, rma.end.context, op), NA_SUCCESS);
        assert_true(event_wait(&rma.end, &event, TEST_WAIT_MS));
        assert_true(event.ret == NA_CANCELED || event.ret == NA_SUCCESS);
        memset(rma.local, SCRIBBLE, BYTES);
        assert_int_equal(kill(pid, SIGCONT), 0);
        end_progress(&rma.end, 100);
        for (size_t k = 0; k < BYTES; k++)
            if (rma.local[k] != SCRIBBLE)
                fail_msg("byte %zu was written after the end", k);
        NA_Op_destroy(rma.end.na_class, op);
        assert_int_equal(rma_transfer(&rma, false, 0, 0, BYTES), NA_SUCCESS);
        for (size_t k = 0; k < BYTES; k++)
            if (rma.local[k] != 2 && rma.local[k] != rma_exposed(k))
                fail_msg("byte %zu at the target was written by no put", k);
    }
}

/* The peer is killed during puts, gets and a message: all end, and later operations fail at once or
 * soon. */
static void killed_in_the_middle(void **state)
{
    struct event events[4] = {0};
    na_op_id_t *ops[4];
    uint8_t reply[64];
    uint64_t begin;

    (void) state;
    memset(rma.local, 2, BYTES);
    for (unsigned int i = 0; i < 4; i++)
        ops[i] = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
    for (unsigned int i = 0; i < 2; i++)
        assert_int_equal(
            (i == 0 ? NA_Put : NA_Get)(rma.end.na_class, rma.end.context, event_callback,
                                       &events[i], rma.local_mem, i * (BYTES / 2), rma.remote_mem,
                                       i * (BYTES / 2), BYTES / 2, rma.peer, 0, ops[i]),
            NA_SUCCESS);
    assert_int_equal(
        end_receive_expected(&rma.end, &events[2], reply, sizeof(reply), rma.peer, 9, ops[2]),
        NA_SUCCESS);
    end_progress(&rma.end, 2);
    assert_int_equal(kill(peer_pid(), SIGKILL), 0);
    begin = now_ms();
    for (unsigned int i = 0; i < 3; i++) {
        assert_true(event_wait(&rma.end, &events[i], TEST_WAIT_MS));
        if (events[i].ret != NA_SUCCESS || i == 2)
            assert_int_equal(events[i].ret, NA_HOSTUNREACH);
    }
    print_message("all ended after %u ms\n", (unsigned int) (now_ms() - begin));
    assert_true(now_ms() - begin < 2 * TEST_DEATH_MS);
    memset(rma.local, SCRIBBLE, BYTES);
    end_progress(&rma.end, 200);
    for (size_t k = 0; k < BYTES; k++)
        if (rma.local[k] != SCRIBBLE)
            fail_msg("byte %zu was written after the end", k);
    /* A put to the dead peer either fails or can be cancelled. */
    assert_int_equal(NA_Put(rma.end.na_class, rma.end.context, event_callback, &events[3],
                            rma.local_mem, 0, rma.remote_mem, 0, BYTES, rma.peer, 0, ops[3]),
                     NA_SUCCESS);
    if (!event_wait(&rma.end, &events[3], 300))
        assert_int_equal(NA_Cancel(rma.end.na_class, rma.end.context, ops[3]), NA_SUCCESS);
    assert_true(event_wait(&rma.end, &events[3], TEST_WAIT_MS));
    assert_int_not_equal(events[3].ret, NA_SUCCESS);
    for (unsigned int i = 0; i < 4; i++)
        NA_Op_destroy(rma.end.na_class, ops[i]);
}

/* "stopped": the peer is only stopped, for an MPI that ends all ranks when one is killed. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_in_the_middle),
        cmocka_unit_test(killed_in_the_middle),
    };
    const struct CMUnitTest stopped[] = {cmocka_unit_test(stopped_in_the_middle)};
    int failed = argc > 1 && strcmp(argv[1], "stopped") == 0
                     ? cmocka_run_group_tests(stopped, setup, teardown)
                     : cmocka_run_group_tests(tests, setup, teardown);
    const char *path = getenv("AMALGAM_TEST_RESULT");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;

    if (file != NULL) {
        (void) fprintf(file, "%d\n", failed);
        (void) fclose(file);
    }
    (void) fflush(NULL);
    if (argc > 1)
        return failed;
    _exit(failed); /* MPI_Finalize() would not return with a dead rank */
}
