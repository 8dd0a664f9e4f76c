/* SPDX-License-Identifier: BSD-3-Clause */
/* Put and get: the choice between cross-memory attach and copies, and the log messages about it. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "deny_attach.h"
#include "na_ext.h"
#include "sm_test.h"
#include "transport_rma.h"

#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES RMA_BYTES

/* Runs in a process whose system calls are filtered, or that lacks capabilities. */
static int transfers_work(void *arg)
{
    struct rma rma;

    TEST_REQUIRE(rma_open(&rma, arg, NA_MEM_READWRITE, BYTES, 1) == 0);
    for (size_t done = 0, step = 1; done < BYTES; done += step, step = 1 + done / 2) {
        step = step > BYTES - done ? BYTES - done : step;
        TEST_REQUIRE(rma_transfer(&rma, false, done, done, step) == NA_SUCCESS);
    }
    for (size_t i = 0; i < BYTES; i++)
        TEST_REQUIRE(rma.local[i] == rma_exposed(i));
    memset(rma.local, 9, BYTES);
    TEST_REQUIRE(rma_transfer(&rma, true, 0, 0, BYTES) == NA_SUCCESS);
    TEST_REQUIRE(rma_remote_sum(&rma) == 9ull * BYTES);
    TEST_REQUIRE(NA_Class_has_capability(rma.end.na_class, "native_rma"));
    TEST_REQUIRE(!NA_Addr_has_capability(rma.end.na_class, rma.peer, "native_rma"));
    TEST_REQUIRE(NA_Addr_has_capability(rma.end.na_class, rma.peer, "rma"));
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

static int deny_attach(void *arg)
{
    return deny_attach_install() ? transfers_work(arg) : 77;
}

/* Drops CAP_SYS_PTRACE, so that the kernel refuses access to a peer that is not dumpable. */
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
    return transfers_work("undumpable");
}

static void a_refusal_of_the_system_leads_to_copies(void **state)
{
    int ret = run_in_child(deny_attach, "plain");

    (void) state;
    if (ret == 77)
        print_message("skipped: no seccomp filter can be installed\n");
    else
        assert_int_equal(ret, 0);
    ret = run_in_child(drop_ptrace, NULL);
    if (ret == 77)
        print_message("skipped: capabilities cannot be dropped\n");
    else
        assert_int_equal(ret, 0);
    check_clean();
}

/* A put that the target refuses must not affect the first put of another context. */
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
    child_start(&rma.child, "na+sm", "plain");
    rma.end.na_class = NA_Initialize_opt2("na+sm", true, NA_VERSION(6, 0), &info);
    assert_non_null(rma.end.na_class);
    first = rma.end.context = NA_Context_create_id(rma.end.na_class, 0);
    second = NA_Context_create_id(rma.end.na_class, 1);
    assert_int_equal(NA_Addr_lookup(rma.end.na_class, rma.child.address, &rma.peer), NA_SUCCESS);
    rma.local = calloc(1, BYTES);
    rma.local_mem = mem_open(&rma.end, rma.local, BYTES, NA_MEM_READWRITE);
    for (int i = 0; i < 2; i++) {
        rma.end.context = first;
        rma.packed_size = sizeof(rma.packed);
        assert_int_equal(end_command(&rma.end, rma.peer, PEER_EXPOSE, NA_MEM_READWRITE, BYTES, 0,
                                     rma.packed, &rma.packed_size),
                         NA_SUCCESS);
        assert_int_equal(NA_Mem_handle_deserialize(rma.end.na_class, &rma.remote_mem, rma.packed,
                                                   rma.packed_size),
                         NA_SUCCESS);
        if (i == 0)
            assert_int_equal(end_command(&rma.end, rma.peer, PEER_HIDE, 0, 0, 0, reply, &size),
                             NA_SUCCESS);
        rma.end.context = i == 0 ? first : second;
        assert_int_equal(rma_transfer(&rma, true, 0, 0, 1000), i == 0 ? NA_PERMISSION : NA_SUCCESS);
        if (i == 0)
            NA_Mem_handle_free(rma.end.na_class, rma.remote_mem);
    }
    assert_int_equal(NA_Context_destroy(rma.end.na_class, second), NA_SUCCESS);
    rma.end.context = first;
    rma_close(&rma, true);
    force_copy(false);
    check_clean();
}

/* One log line for each peer, however many transfers there are. */
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
        assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, BYTES, 1), 0);
        for (int i = 0; i < 3; i++)
            assert_int_equal(rma_transfer(&rma, i % 2, 0, 0, 1000), NA_SUCCESS);
        sm_log_caught(text, sizeof(text));
        line = strstr(text, "transfers with");
        assert_non_null(line);
        assert_non_null(strstr(line, said[copy]));
        assert_null(strstr(line + 1, "transfers with"));
        rma_close(&rma, true);
    }
    force_copy(false);
    check_clean();
}

/* The init string overrides the environment. */
static void the_init_string_says_how_memory_is_copied(void **state)
{
    static const char *const inits[] = {"na+sm://?rma=auto", "na+sm://?rma=copy"};

    (void) state;
    for (int copy = 0; copy < 2; copy++) {
        struct rma rma;

        force_copy(copy == 0);
        assert_int_equal(setenv("AMALGAM_TEST_INIT", inits[copy], 1), 0);
        assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, BYTES, 1), 0);
        assert_int_equal(NA_Class_has_capability(rma.end.na_class, "native_rma"), copy == 0);
        for (int i = 0; i < 3; i++)
            assert_int_equal(rma_transfer(&rma, i % 2, 0, 0, 1000), NA_SUCCESS);
        assert_int_equal(NA_Addr_has_capability(rma.end.na_class, rma.peer, "native_rma"),
                         copy == 0);
        if (copy == 1)
            assert_int_equal(sm_counter(&rma.end, "na_sm_transfers_copied"), 3);
        rma_close(&rma, true);
    }
    assert_int_equal(unsetenv("AMALGAM_TEST_INIT"), 0);
    force_copy(false);
    check_clean();
}

static void an_option_that_sm_does_not_know_is_refused(void **state)
{
    static const char *const wrong[][2] = {
        {"na+sm://?rma=sometimes", "option rma is '(a longer word)'; 'auto' and 'copy' are known"},
        {"na+sm://?rma=", "option rma is ''"},
        {"na+sm://?arm=copy",
         "option \"arm=copy\": it is unknown; the options of sm are: rma, pool"},
    };

    (void) state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char reason[1024] = "";
        na_class_t *na_class;

        assert_int_equal(
            NA_Initialize_reason(wrong[i][0], true, 0, NULL, &na_class, reason, sizeof(reason)),
            NA_INVALID_ARG);
        assert_non_null(strstr(reason, wrong[i][1]));
    }
}

static void unmapped_memory_is_an_error(void **state)
{
    struct rma rma;
    na_mem_handle_t *whole, *bad;

    (void) state;
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, BYTES, 1), 0);
    whole = rma.local_mem;
    bad = mem_open(&rma.end, (void *) 4096, 65536, NA_MEM_READWRITE);
    rma.local_mem = bad;
    assert_int_equal(rma_transfer(&rma, false, 0, 0, 65536), NA_FAULT);
    rma.local_mem = whole;
    mem_close(&rma.end, bad);
    rma_close(&rma, true);
    check_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_of_the_system_leads_to_copies),
        cmocka_unit_test(contexts_do_not_take_each_others_refusals),
        cmocka_unit_test(the_way_of_transfers_is_said_once),
        cmocka_unit_test(the_init_string_says_how_memory_is_copied),
        cmocka_unit_test(an_option_that_sm_does_not_know_is_refused),
        cmocka_unit_test(unmapped_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
