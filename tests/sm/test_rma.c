/* SPDX-License-Identifier: BSD-3-Clause */
/* Put and get, by cross-memory attach and by copies: the same promises for both. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "sm_test.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES 3000000u

/* What a test of RMA works with: a peer that exposes memory. */
struct rma {
    struct sm_end end;
    struct sm_child child;
    na_addr_t *peer;
    uint8_t *local;
    uint8_t packed[8192];
    size_t packed_size;
    na_mem_handle_t *local_mem;
    na_mem_handle_t *remote_mem;
};

static uint8_t exposed(size_t index)
{
    return (uint8_t) (index * 7 + 3);
}

static int rma_open(struct rma *rma, const char *option, uint32_t flags, uint64_t pieces)
{
    memset(rma, 0, sizeof(*rma));
    sm_child_start(&rma->child, "na+sm", option);
    rma->end.na_class = NA_Initialize("na+sm", true);
    SM_REQUIRE(rma->end.na_class != NULL);
    rma->end.context = NA_Context_create(rma->end.na_class);
    SM_REQUIRE(NA_Addr_lookup(rma->end.na_class, rma->child.address, &rma->peer) == NA_SUCCESS);
    rma->packed_size = sizeof(rma->packed);
    SM_REQUIRE(sm_command(&rma->end, rma->peer, SM_EXPOSE, flags, BYTES, pieces, rma->packed,
                          &rma->packed_size) == NA_SUCCESS);
    SM_REQUIRE(NA_Mem_handle_deserialize(rma->end.na_class, &rma->remote_mem, rma->packed,
                                         rma->packed_size) == NA_SUCCESS);
    rma->local = calloc(1, BYTES);
    SM_REQUIRE(NA_Mem_handle_create(rma->end.na_class, rma->local, BYTES, NA_MEM_READWRITE,
                                    &rma->local_mem) == NA_SUCCESS);
    SM_REQUIRE(NA_Mem_register(rma->end.na_class, rma->local_mem, NA_MEM_TYPE_HOST, 0) ==
               NA_SUCCESS);
    return 0;
}

static void rma_close(struct rma *rma, bool is_alive)
{
    NA_Mem_handle_free(rma->end.na_class, rma->remote_mem);
    (void) NA_Mem_deregister(rma->end.na_class, rma->local_mem);
    NA_Mem_handle_free(rma->end.na_class, rma->local_mem);
    NA_Addr_free(rma->end.na_class, rma->peer);
    (void) NA_Context_destroy(rma->end.na_class, rma->end.context);
    (void) NA_Finalize(rma->end.na_class);
    if (is_alive)
        sm_child_stop(&rma->child);
    free(rma->local);
}

static na_return_t transfer(struct rma *rma, bool put, size_t local_offset, size_t remote_offset,
                            size_t size)
{
    na_op_id_t *op = NA_Op_create(rma->end.na_class, NA_OP_SINGLE);
    struct sm_event event = {0};
    na_return_t ret;

    ret = (put ? NA_Put : NA_Get)(rma->end.na_class, rma->end.context, sm_event_callback, &event,
                                  rma->local_mem, local_offset, rma->remote_mem, remote_offset,
                                  size, rma->peer, 0, op);
    if (ret == NA_SUCCESS)
        ret = sm_event_wait(&rma->end, &event, SM_TEST_WAIT_MS) ? event.ret : NA_TIMEOUT;
    NA_Op_destroy(rma->end.na_class, op);
    return ret;
}

static uint64_t local_sum(const struct rma *rma)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < BYTES; i++)
        sum += rma->local[i];
    return sum;
}

/* Where byte `index` of the exposed block is found by offset, with the pieces back to front. */
static size_t piece_offset(size_t index, size_t pieces)
{
    size_t piece = BYTES / pieces;

    return (pieces - 1 - index / piece) * piece + index % piece;
}

/* Runs in this process or in one whose system calls are filtered. */
static int rma_works(void *arg)
{
    static const size_t sizes[] = {1, 8, 72, 73, 100, 4096, 8151, 8152, 8153, 100000, BYTES};
    const char *option = arg;
    struct rma rma;
    uint64_t sum;
    size_t size;

    SM_REQUIRE(rma_open(&rma, option, NA_MEM_READWRITE, 1) == 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t from = (BYTES - sizes[i]) / 3, to = (BYTES - sizes[i]) / 2;

        memset(rma.local, 0, BYTES);
        SM_REQUIRE(transfer(&rma, false, to, from, sizes[i]) == NA_SUCCESS);
        for (size_t j = 0; j < sizes[i]; j++)
            SM_REQUIRE(rma.local[to + j] == exposed(from + j));
        SM_REQUIRE(to == 0 || rma.local[to - 1] == 0);
        SM_REQUIRE(to + sizes[i] == BYTES || rma.local[to + sizes[i]] == 0);
    }
    for (size_t j = 0; j < BYTES; j++)
        rma.local[j] = (uint8_t) (j * j);
    for (size_t done = 0; done < BYTES;) {
        size_t step = 1 + done / 2;

        step = step > BYTES - done ? BYTES - done : step;
        SM_REQUIRE(transfer(&rma, true, done, done, step) == NA_SUCCESS);
        done += step;
    }
    size = sizeof(sum);
    SM_REQUIRE(sm_command(&rma.end, rma.peer, SM_CHECK, 0, 0, 0, &sum, &size) == NA_SUCCESS);
    SM_REQUIRE(sum == local_sum(&rma));
    rma_close(&rma, true);
    return 0;
}

static int segments_work(void *arg)
{
    const char *option = arg;
    size_t pieces[] = {2, 100, 250};

    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct rma rma;

        SM_REQUIRE(rma_open(&rma, option, NA_MEM_READWRITE, pieces[i]) == 0);
        SM_REQUIRE(transfer(&rma, false, 5, 17, BYTES / 2) == NA_SUCCESS);
        for (size_t j = 0; j < BYTES; j++) {
            size_t offset = piece_offset(j, pieces[i]);

            if (offset >= 17 && offset < 17 + BYTES / 2)
                SM_REQUIRE(rma.local[5 + offset - 17] == exposed(j));
        }
        memset(rma.local, 9, BYTES);
        SM_REQUIRE(transfer(&rma, true, 0, 0, BYTES) == NA_SUCCESS);
        memset(rma.local, 0, BYTES);
        SM_REQUIRE(transfer(&rma, false, 0, 0, BYTES) == NA_SUCCESS);
        for (size_t j = 0; j < BYTES; j++)
            SM_REQUIRE(rma.local[j] == 9);
        rma_close(&rma, true);
    }
    return 0;
}

/* Many at once, more than the window of a peer, mixed. */
static int many_in_flight_work(void *arg)
{
    struct sm_event *events = calloc(300, sizeof(*events));
    na_op_id_t *ops[300];
    struct rma rma;

    SM_REQUIRE(rma_open(&rma, arg, NA_MEM_READWRITE, 1) == 0);
    for (size_t i = 0; i < 300; i++) {
        ops[i] = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
        SM_REQUIRE(NA_Get(rma.end.na_class, rma.end.context, sm_event_callback, &events[i],
                          rma.local_mem, i * 10000, rma.remote_mem, i * 10000, 10000, rma.peer, 0,
                          ops[i]) == NA_SUCCESS);
    }
    for (size_t i = 0; i < 300; i++) {
        SM_REQUIRE(sm_event_wait(&rma.end, &events[i], SM_TEST_WAIT_MS));
        SM_REQUIRE(events[i].ret == NA_SUCCESS);
        NA_Op_destroy(rma.end.na_class, ops[i]);
    }
    for (size_t i = 0; i < BYTES; i++)
        SM_REQUIRE(rma.local[i] == exposed(i));
    rma_close(&rma, true);
    free(events);
    return 0;
}

/* Cancelled at once and after some progress; the next transfer is not disturbed by late pieces. */
static int cancel_works(void *arg)
{
    struct rma rma;

    SM_REQUIRE(rma_open(&rma, arg, NA_MEM_READWRITE, 1) == 0);
    for (unsigned int i = 0; i < 60; i++) {
        na_op_id_t *op = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
        struct sm_event event = {0};

        SM_REQUIRE((i % 2 ? NA_Put : NA_Get)(rma.end.na_class, rma.end.context, sm_event_callback,
                                             &event, rma.local_mem, 0, rma.remote_mem, 0, BYTES,
                                             rma.peer, 0, op) == NA_SUCCESS);
        for (unsigned int j = 0; j < i / 2; j++) {
            unsigned int count;

            (void) NA_Poll(rma.end.na_class, rma.end.context, &count);
        }
        SM_REQUIRE(NA_Cancel(rma.end.na_class, rma.end.context, op) == NA_SUCCESS);
        SM_REQUIRE(sm_event_wait(&rma.end, &event, SM_TEST_WAIT_MS));
        SM_REQUIRE(event.ret == NA_CANCELED || event.ret == NA_SUCCESS);
        NA_Op_destroy(rma.end.na_class, op);
    }
    SM_REQUIRE(transfer(&rma, true, 0, 0, BYTES) == NA_SUCCESS);
    memset(rma.local, 0, BYTES);
    SM_REQUIRE(transfer(&rma, false, 0, 0, BYTES) == NA_SUCCESS);
    rma_close(&rma, true);
    return 0;
}

static void force_copy(bool on)
{
    if (on)
        assert_int_equal(setenv("AMALGAM_SM_RMA", "copy", 1), 0);
    else
        assert_int_equal(unsetenv("AMALGAM_SM_RMA"), 0);
}

static void put_and_get_work_natively(void **state)
{
    (void) state;
    assert_int_equal(rma_works("idle"), 0); /* the peer need not poll: it sleeps */
    assert_int_equal(segments_work("plain"), 0);
    assert_int_equal(many_in_flight_work("plain"), 0);
    assert_int_equal(cancel_works("plain"), 0);
    sm_check_clean();
}

static void put_and_get_work_by_copies(void **state)
{
    (void) state;
    force_copy(true);
    assert_int_equal(rma_works("plain"), 0);
    assert_int_equal(segments_work("plain"), 0);
    assert_int_equal(many_in_flight_work("plain"), 0);
    assert_int_equal(cancel_works("plain"), 0);
    force_copy(false);
    sm_check_clean();
}

static int deny_attach(void *arg)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 77;
    return rma_works(arg) != 0 || many_in_flight_work(arg) != 0;
}

/* No capability here, and a peer that may not be traced: a real refusal by the kernel. */
static int drop_ptrace(void *arg)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &header, data) != 0)
        return 77;
    data[CAP_SYS_PTRACE / 32].effective &= ~(1u << (CAP_SYS_PTRACE % 32));
    data[CAP_SYS_PTRACE / 32].permitted &= ~(1u << (CAP_SYS_PTRACE % 32));
    if (syscall(SYS_capset, &header, data) != 0)
        return 77;
    (void) arg;
    return rma_works("undumpable");
}

static void a_refusal_of_the_system_leads_to_copies(void **state)
{
    int ret = sm_run_in_child(deny_attach, "plain");

    (void) state;
    if (ret == 77)
        print_message("skipped: no seccomp filter can be installed\n");
    else
        assert_int_equal(ret, 0);
    ret = sm_run_in_child(drop_ptrace, NULL);
    if (ret == 77)
        print_message("skipped: capabilities cannot be dropped\n");
    else
        assert_int_equal(ret, 0);
    sm_check_clean();
}

static void flags_are_enforced(void **state)
{
    struct rma rma;

    (void) state;
    for (int copy = 0; copy < 2; copy++) {
        force_copy(copy == 1);
        assert_int_equal(rma_open(&rma, "plain", NA_MEM_READ_ONLY, 1), 0);
        assert_int_equal(transfer(&rma, false, 0, 0, 100), NA_SUCCESS);
        assert_int_equal(transfer(&rma, true, 0, 0, 100), NA_PERMISSION);
        rma_close(&rma, true);
        assert_int_equal(rma_open(&rma, "plain", NA_MEM_WRITE_ONLY, 1), 0);
        assert_int_equal(transfer(&rma, true, 0, 0, 100), NA_SUCCESS);
        assert_int_equal(transfer(&rma, false, 0, 0, 100), NA_PERMISSION);
        rma_close(&rma, true);
    }
    force_copy(false);
    sm_check_clean();
}

static void ranges_are_checked(void **state)
{
    struct rma rma;

    (void) state;
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, 1), 0);
    assert_int_not_equal(transfer(&rma, false, 0, BYTES - 10, 11), NA_SUCCESS);
    assert_int_not_equal(transfer(&rma, false, BYTES - 10, 0, 11), NA_SUCCESS);
    assert_int_not_equal(transfer(&rma, false, 0, SIZE_MAX - 5, 11), NA_SUCCESS);
    assert_int_equal(transfer(&rma, false, 0, BYTES - 11, 11), NA_SUCCESS);
    rma_close(&rma, true);
    sm_check_clean();
}

/* Copies go by the handle's number alone: one that was given up, or made up, reaches nothing. */
static void stale_and_forged_handles_reach_nothing(void **state)
{
    uint64_t sum, before;
    size_t size = sizeof(sum);
    uint8_t reply[64];
    struct rma rma;

    (void) state;
    force_copy(true);
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, 1), 0);
    assert_int_equal(sm_command(&rma.end, rma.peer, SM_CHECK, 0, 0, 0, &before, &size), NA_SUCCESS);
    for (size_t i = 0; i < rma.packed_size; i++) {
        na_mem_handle_t *whole = rma.remote_mem;

        rma.packed[i] ^= 0x41;
        if (NA_Mem_handle_deserialize(rma.end.na_class, &rma.remote_mem, rma.packed,
                                      rma.packed_size) == NA_SUCCESS) {
            memset(rma.local, 0x55, 64);
            (void) transfer(&rma, false, 0, 0, 64); /* at most what the true handle gives */
            NA_Mem_handle_free(rma.end.na_class, rma.remote_mem);
        }
        rma.remote_mem = whole;
        rma.packed[i] ^= 0x41;
    }
    for (size_t i = 0; i < rma.packed_size; i++) {
        na_mem_handle_t *cut;

        assert_int_not_equal(NA_Mem_handle_deserialize(rma.end.na_class, &cut, rma.packed, i),
                             NA_SUCCESS);
    }
    size = sizeof(reply);
    assert_int_equal(sm_command(&rma.end, rma.peer, SM_HIDE, 0, 0, 0, reply, &size), NA_SUCCESS);
    assert_int_equal(transfer(&rma, true, 0, 0, 100000), NA_PERMISSION);
    assert_int_equal(transfer(&rma, false, 0, 0, 100000), NA_PERMISSION);
    size = sizeof(sum);
    assert_int_equal(sm_command(&rma.end, rma.peer, SM_CHECK, 0, 0, 0, &sum, &size), NA_SUCCESS);
    assert_int_equal(sum, before);
    rma_close(&rma, true);
    force_copy(false);
    sm_check_clean();
}

static void an_endpoint_reaches_its_own_memory(void **state)
{
    (void) state;
    for (int copy = 0; copy < 2; copy++) {
        struct rma rma = {0};
        uint8_t *other = malloc(BYTES);
        na_mem_handle_t *mem;

        force_copy(copy == 1);
        memset(other, 0x77, BYTES);
        sm_end_open(&rma.end, "na+sm", NULL);
        rma.local = calloc(1, BYTES);
        assert_int_equal(NA_Addr_self(rma.end.na_class, &rma.peer), NA_SUCCESS);
        mem = sm_mem_open(&rma.end, other, BYTES, NA_MEM_READWRITE);
        rma.local_mem = sm_mem_open(&rma.end, rma.local, BYTES, NA_MEM_READWRITE);
        rma.packed_size = NA_Mem_handle_get_serialize_size(rma.end.na_class, mem);
        assert_int_equal(
            NA_Mem_handle_serialize(rma.end.na_class, rma.packed, rma.packed_size, mem),
            NA_SUCCESS);
        assert_int_equal(NA_Mem_handle_deserialize(rma.end.na_class, &rma.remote_mem, rma.packed,
                                                   rma.packed_size),
                         NA_SUCCESS);
        assert_int_equal(transfer(&rma, false, 0, 0, BYTES), NA_SUCCESS);
        assert_memory_equal(rma.local, other, BYTES);
        sm_mem_close(&rma.end, mem);
        free(other);
        rma_close(&rma, false);
    }
    force_copy(false);
    sm_check_clean();
}

/* A put that the target refused says nothing about the first put of another context. */
static void contexts_do_not_take_each_others_refusals(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct rma rma = {0};
    na_context_t *first, *second;
    size_t size = 64;
    uint8_t reply[64];

    (void) state;
    force_copy(true);
    info.max_contexts = 2;
    sm_child_start(&rma.child, "na+sm", "plain");
    rma.end.na_class = NA_Initialize_opt2("na+sm", true, NA_VERSION(6, 0), &info);
    assert_non_null(rma.end.na_class);
    first = rma.end.context = NA_Context_create_id(rma.end.na_class, 0);
    second = NA_Context_create_id(rma.end.na_class, 1);
    assert_int_equal(NA_Addr_lookup(rma.end.na_class, rma.child.address, &rma.peer), NA_SUCCESS);
    rma.local = calloc(1, BYTES);
    rma.local_mem = sm_mem_open(&rma.end, rma.local, BYTES, NA_MEM_READWRITE);
    for (int i = 0; i < 2; i++) {
        rma.end.context = first;
        rma.packed_size = sizeof(rma.packed);
        assert_int_equal(sm_command(&rma.end, rma.peer, SM_EXPOSE, NA_MEM_READWRITE, BYTES, 0,
                                    rma.packed, &rma.packed_size),
                         NA_SUCCESS);
        assert_int_equal(NA_Mem_handle_deserialize(rma.end.na_class, &rma.remote_mem, rma.packed,
                                                   rma.packed_size),
                         NA_SUCCESS);
        if (i == 0)
            assert_int_equal(sm_command(&rma.end, rma.peer, SM_HIDE, 0, 0, 0, reply, &size),
                             NA_SUCCESS);
        rma.end.context = i == 0 ? first : second;
        assert_int_equal(transfer(&rma, true, 0, 0, 1000), i == 0 ? NA_PERMISSION : NA_SUCCESS);
        if (i == 0)
            NA_Mem_handle_free(rma.end.na_class, rma.remote_mem);
    }
    assert_int_equal(NA_Context_destroy(rma.end.na_class, second), NA_SUCCESS);
    rma.end.context = first;
    rma_close(&rma, true);
    force_copy(false);
    sm_check_clean();
}

/* Each thread starts transfers and waits for them, so that others poll while it starts one. */
static void *transfer_many(void *arg)
{
    struct rma *rma = arg;
    intptr_t failed = 0;

    for (int i = 0; i < 30; i++)
        failed += transfer(rma, false, 0, 0, 100000) != NA_SUCCESS;
    return (void *) failed;
}

static void many_threads_transfer_at_a_time(void **state)
{
    (void) state;
    for (int copy = 0; copy < 2; copy++) {
        pthread_t threads[4];
        struct rma rmas[4];

        force_copy(copy == 1);
        assert_int_equal(rma_open(&rmas[0], "plain", NA_MEM_READWRITE, 1), 0);
        for (int i = 0; i < 4; i++) {
            if (i > 0) { /* the same, but memory of its own */
                rmas[i] = rmas[0];
                rmas[i].local = calloc(1, BYTES);
                rmas[i].local_mem =
                    sm_mem_open(&rmas[0].end, rmas[i].local, BYTES, NA_MEM_READWRITE);
            }
            assert_int_equal(pthread_create(&threads[i], NULL, transfer_many, &rmas[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            void *failed;

            assert_int_equal(pthread_join(threads[i], &failed), 0);
            assert_null(failed);
        }
        for (int i = 0; i < 4; i++) {
            for (size_t j = 0; j < 100000; j++)
                assert_int_equal(rmas[i].local[j], exposed(j));
            if (i > 0) {
                sm_mem_close(&rmas[0].end, rmas[i].local_mem);
                free(rmas[i].local);
            }
        }
        rma_close(&rmas[0], true);
    }
    force_copy(false);
    sm_check_clean();
}

/* One line for the peer, however many transfers there are. */
static void the_way_of_transfers_is_said_once(void **state)
{
    static const char *const said[] = {": cross-memory attach\n", "AMALGAM_SM_RMA says so"};

    (void) state;
    for (int copy = 0; copy < 2; copy++) {
        char text[4096];
        const char *line;
        struct rma rma;

        force_copy(copy == 1);
        sm_log_catch("info");
        assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, 1), 0);
        for (int i = 0; i < 3; i++)
            assert_int_equal(transfer(&rma, i % 2, 0, 0, 1000), NA_SUCCESS);
        sm_log_caught(text, sizeof(text));
        line = strstr(text, "transfers with");
        assert_non_null(line);
        assert_non_null(strstr(line, said[copy]));
        assert_null(strstr(line + 1, "transfers with"));
        rma_close(&rma, true);
    }
    force_copy(false);
    sm_check_clean();
}

static void unmapped_memory_is_an_error(void **state)
{
    struct rma rma;
    na_mem_handle_t *whole, *bad;

    (void) state;
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, 1), 0);
    whole = rma.local_mem;
    bad = sm_mem_open(&rma.end, (void *) 4096, 65536, NA_MEM_READWRITE);
    rma.local_mem = bad;
    assert_int_equal(transfer(&rma, false, 0, 0, 65536), NA_FAULT);
    rma.local_mem = whole;
    sm_mem_close(&rma.end, bad);
    rma_close(&rma, true);
    sm_check_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_and_get_work_natively),
        cmocka_unit_test(put_and_get_work_by_copies),
        cmocka_unit_test(a_refusal_of_the_system_leads_to_copies),
        cmocka_unit_test(flags_are_enforced),
        cmocka_unit_test(ranges_are_checked),
        cmocka_unit_test(stale_and_forged_handles_reach_nothing),
        cmocka_unit_test(an_endpoint_reaches_its_own_memory),
        cmocka_unit_test(contexts_do_not_take_each_others_refusals),
        cmocka_unit_test(many_threads_transfer_at_a_time),
        cmocka_unit_test(the_way_of_transfers_is_said_once),
        cmocka_unit_test(unmapped_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
