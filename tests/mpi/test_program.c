/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that uses MPI itself, with classes over the plugin: who initializes MPI and how, which
 * ranks the addresses name, and the error messages when something is unsupported.
 *
 * Usage: test_program SCENARIO; rank 0 reports what went wrong.
 */

#include "transport/transport_test.h"

#include "na_ext.h"
#include "na_mpi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct scenario {
    const char *name;
    int (*run)(void);
};

static char init_string[64];

/* Opening a class fails, with an error text that contains the word. */
static int refused(const struct na_init_info *info, const char *word)
{
    char reason[1024] = "";
    na_class_t *na_class = NULL;
    na_return_t ret = NA_Initialize_reason(init_string, true, NA_VERSION(6, 0), info, &na_class,
                                           reason, sizeof(reason));

    TEST_REQUIRE(ret != NA_SUCCESS && na_class == NULL);
    if (strstr(reason, word) == NULL) {
        (void) fprintf(stderr, "not said: '%s' in: %s\n", word, reason);
        return 1;
    }
    return 0;
}

/* Rank `me` of the communicator sends to the next of `count` ranks and receives from the previous
 * one. */
static int ring(int me, int count, const struct na_init_info *info)
{
    char address[512], expected[512];
    uint8_t in[64] = {0}, out[64];
    struct event event = {0};
    na_addr_t *next = NULL;
    struct end end;
    na_op_id_t *op;

    end_open(&end, init_string, info);
    end_address(&end, address, sizeof(address));
    (void) snprintf(expected, sizeof(expected), "%s://%d", init_string, me);
    TEST_REQUIRE(strcmp(address, expected) == 0);
    (void) snprintf(address, sizeof(address), "%s://%d", init_string, count);
    TEST_REQUIRE(NA_Addr_lookup(end.na_class, address, &next) == NA_NOENTRY);
    (void) snprintf(address, sizeof(address), "%s://%d", init_string, (me + 1) % count);
    TEST_REQUIRE(NA_Addr_lookup(end.na_class, address, &next) == NA_SUCCESS);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    TEST_REQUIRE(end_receive_unexpected(&end, &event, in, sizeof(in), op) == NA_SUCCESS);
    memset(out, 1 + me, sizeof(out));
    TEST_REQUIRE(end_send(&end, next, out, sizeof(out), 5, false) == NA_SUCCESS);
    TEST_REQUIRE(event_wait(&end, &event, TEST_WAIT_MS) && event.ret == NA_SUCCESS);
    TEST_REQUIRE(event.size == sizeof(in) && in[7] == 1 + (me + count - 1) % count);
    NA_Addr_free(end.na_class, event.source);
    NA_Addr_free(end.na_class, next);
    NA_Op_destroy(end.na_class, op);
    (void) MPI_Barrier(MPI_COMM_WORLD);
    end_close(&end);
    return 0;
}

static int rank_and_size(int *rank, int *size)
{
    TEST_REQUIRE(MPI_Comm_rank(MPI_COMM_WORLD, rank) == MPI_SUCCESS);
    TEST_REQUIRE(MPI_Comm_size(MPI_COMM_WORLD, size) == MPI_SUCCESS);
    return 0;
}

/* The program's own messages continue meanwhile, including receives from any source. */
static int run_multiple(void)
{
    int rank, size, level, got = 0, sent;
    MPI_Request request;

    TEST_REQUIRE(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) == MPI_SUCCESS);
    TEST_REQUIRE(level == MPI_THREAD_MULTIPLE && rank_and_size(&rank, &size) == 0);
    sent = 100 + rank;
    TEST_REQUIRE(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                           &request) == MPI_SUCCESS);
    TEST_REQUIRE(ring(rank, size, NULL) == 0);
    TEST_REQUIRE(MPI_Send(&sent, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    TEST_REQUIRE(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    TEST_REQUIRE(got == 100 + (rank + size - 1) % size);
    TEST_REQUIRE(MPI_Finalize() == MPI_SUCCESS);
    return refused(NULL, "MPI was finalized");
}

/* A program that initializes MPI for one thread. */
static int run_funneled(void)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    int rank, size, level;

    TEST_REQUIRE(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) == MPI_SUCCESS);
    TEST_REQUIRE(rank_and_size(&rank, &size) == 0);
    if (level < MPI_THREAD_MULTIPLE) /* MPI may provide a higher level than requested */
        TEST_REQUIRE(refused(NULL, "MPI_THREAD_MULTIPLE") == 0);
    info.thread_mode = NA_THREAD_MODE_SINGLE;
    TEST_REQUIRE(ring(rank, size, &info) == 0);
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}

/* Rank 0 is not in the communicator; the others have new ranks in it. */
static int run_communicator(void)
{
    int rank, size, level;
    MPI_Comm comm;

    /* MPI is not initialized */
    TEST_REQUIRE(NA_MPI_Set_init_intra_comm(MPI_COMM_SELF) == NA_FAULT);
    TEST_REQUIRE(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) == MPI_SUCCESS);
    TEST_REQUIRE(rank_and_size(&rank, &size) == 0 && size > 2);
    TEST_REQUIRE(MPI_Comm_split(MPI_COMM_WORLD, rank == 0, -rank, &comm) == MPI_SUCCESS);
    if (rank == 0) {
        (void) MPI_Barrier(MPI_COMM_WORLD);
    } else {
        TEST_REQUIRE(NA_MPI_Set_init_intra_comm(comm) == NA_SUCCESS);
        TEST_REQUIRE(ring(size - 1 - rank, size - 1, NULL) == 0);
        TEST_REQUIRE(NA_MPI_Set_init_intra_comm(MPI_COMM_NULL) == NA_SUCCESS);
    }
    TEST_REQUIRE(MPI_Comm_free(&comm) == MPI_SUCCESS);
    /* Now with MPI_COMM_WORLD. */
    TEST_REQUIRE(ring(rank, size, NULL) == 0);
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}

/* In a forked child MPI is not usable, and opening a class is an error. */
static int run_forked(void)
{
    struct end end;
    int status;
    pid_t pid;

    end_open(&end, init_string, NULL);
    TEST_REQUIRE(NA_MPI_Get_port_name(end.na_class) == NULL);
    TEST_REQUIRE(NA_MPI_Gni_job_setup() == NA_OPNOTSUPPORTED);
    pid = fork();
    if (pid == 0)
        _exit(refused(NULL, "before this process was forked"));
    TEST_REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    end_close(&end);
    return 0;
}

/* Started without mpiexec, or by the mpiexec of another MPI. */
static int run_alone(void)
{
    char address[128];
    na_addr_t *addr;
    struct end end;

    end_open(&end, init_string, NULL);
    (void) snprintf(address, sizeof(address), "%s://1", init_string);
    TEST_REQUIRE(NA_Addr_lookup(end.na_class, address, &addr) == NA_NOENTRY);
    end_close(&end);
    return 0;
}

/* Open MPI 4.1 may crash when MPI_Finalize() is called while a thread still continues the
 * initialization; there is no call that waits for that. */
static int run_foreign(void)
{
    const int ret = refused(NULL, "by the mpiexec of another MPI");

    (void) usleep(500000);
    return ret;
}

/* mpi+dynamic where it does not exist, or where jobs cannot find each other. */
static int run_unsupported(void)
{
    return refused(NULL, "MPI_Open_port");
}

static int run_unreachable(void)
{
    char address[512];
    na_addr_t *addr;
    struct end end;
    const char *port;

    end_open(&end, init_string, NULL);
    port = NA_MPI_Get_port_name(end.na_class);
    TEST_REQUIRE(port != NULL);
    end_address(&end, address, sizeof(address));
    TEST_REQUIRE(strstr(address, port) != NULL);
    /* The port of another job. */
    (void) snprintf(address, sizeof(address), "%s://1234567890.0:1718256616#0", init_string);
    TEST_REQUIRE(NA_Addr_lookup(end.na_class, address, &addr) == NA_SUCCESS);
    TEST_REQUIRE(end_send(&end, addr, "hello", 5, 1, false) == NA_HOSTUNREACH);
    NA_Addr_free(end.na_class, addr);
    end_close(&end);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct scenario scenarios[] = {
        {"multiple", run_multiple},
        {"funneled", run_funneled},
        {"communicator", run_communicator},
        {"forked", run_forked},
        {"alone", run_alone},
        {"foreign", run_foreign},
        {"unsupported", run_unsupported},
        {"unreachable", run_unreachable},
    };

    (void) snprintf(init_string, sizeof(init_string), "%s", test_init_string());
    for (size_t i = 0; argc == 2 && i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
        if (strcmp(argv[1], scenarios[i].name) == 0)
            return scenarios[i].run();
    (void) fprintf(stderr, "usage: %s SCENARIO\n", argv[0]);
    return 2;
}
