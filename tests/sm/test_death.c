/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer dies or closes while something depends on it: everything ends with an error within a
 * second.
 */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "sm_test.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define OPS   200
#define BYTES (64u << 20)

static na_op_id_t *ops[OPS];
static struct sm_event events[OPS];

static void ops_create(struct sm_end *end)
{
    memset(events, 0, sizeof(events));
    for (int i = 0; i < OPS; i++)
        ops[i] = NA_Op_create(end->na_class, NA_OP_SINGLE);
}

static void ops_destroy(struct sm_end *end)
{
    for (int i = 0; i < OPS; i++)
        NA_Op_destroy(end->na_class, ops[i]);
}

/* All must have ended by now plus a second; tells how many with an error of the peer's death. */
static unsigned int ended_within_a_second(struct sm_end *end, int count)
{
    uint64_t from = sm_now_ms();
    unsigned int failed = 0;

    for (int i = 0; i < count; i++) {
        assert_true(sm_event_wait(end, &events[i], 3000));
        assert_true(events[i].ret == NA_SUCCESS || events[i].ret == NA_HOSTUNREACH);
        failed += events[i].ret == NA_HOSTUNREACH;
    }
    assert_in_range(sm_now_ms() - from, 0, 1000);
    return failed;
}

static void start(struct sm_child *child, struct sm_end *end, na_addr_t **peer)
{
    sm_child_start(child, "na+sm", "plain");
    sm_end_open(end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end->na_class, child->address, peer), NA_SUCCESS);
    ops_create(end);
}

static void finish(struct sm_end *end, na_addr_t *peer)
{
    struct sm_end reaper;

    ops_destroy(end);
    NA_Addr_free(end->na_class, peer);
    sm_end_close(end);
    sm_end_open(&reaper, "na+sm", NULL); /* removes what the killed left */
    sm_end_close(&reaper);
    sm_check_clean();
}

static void awaited_replies_fail(void **state)
{
    static uint8_t buf[64];
    struct sm_child child;
    struct sm_end end;
    na_addr_t *peer;

    (void) state;
    start(&child, &end, &peer);
    for (uint32_t i = 0; i < OPS; i++)
        assert_int_equal(NA_Msg_recv_expected(end.na_class, end.context, sm_event_callback,
                                              &events[i], buf, sizeof(buf), NULL, peer, 0, i,
                                              ops[i]),
                         NA_SUCCESS);
    sm_end_progress(&end, 100);
    sm_child_kill(&child);
    assert_int_equal(ended_within_a_second(&end, OPS), OPS);
    /* Later ones fail at once. */
    assert_int_equal(NA_Msg_recv_expected(end.na_class, end.context, sm_event_callback, &events[0],
                                          buf, sizeof(buf), NULL, peer, 0, 1, ops[0]),
                     NA_HOSTUNREACH);
    assert_int_equal(sm_send(&end, peer, buf, 8, 1, false), NA_HOSTUNREACH);
    finish(&end, peer);
}

/* The fd sleeper, too: nobody polls until the descriptor says so. */
static void a_process_that_sleeps_is_told(void **state)
{
    static uint8_t buf[64];
    struct sm_child child;
    struct sm_end end;
    na_addr_t *peer;

    (void) state;
    start(&child, &end, &peer);
    assert_int_equal(NA_Msg_recv_expected(end.na_class, end.context, sm_event_callback, &events[0],
                                          buf, sizeof(buf), NULL, peer, 0, 1, ops[0]),
                     NA_SUCCESS);
    sm_child_kill(&child);
    {
        uint64_t from = sm_now_ms();
        unsigned int count = 0;

        while (count == 0 && sm_now_ms() - from < 5000)
            (void) NA_Poll_wait(end.na_class, end.context, 5000, &count);
        assert_in_range(sm_now_ms() - from, 0, 1000);
        (void) NA_Trigger(end.context, 1, NULL);
        assert_int_equal(events[0].ret, NA_HOSTUNREACH);
    }
    finish(&end, peer);
}

static void a_zombie_counts_as_dead(void **state)
{
    static uint8_t buf[64];
    struct sm_child child;
    struct sm_end end;
    na_addr_t *peer;

    (void) state;
    start(&child, &end, &peer);
    assert_int_equal(NA_Msg_recv_expected(end.na_class, end.context, sm_event_callback, &events[0],
                                          buf, sizeof(buf), NULL, peer, 0, 1, ops[0]),
                     NA_SUCCESS);
    (void) kill(child.pid, SIGKILL); /* not waited for */
    assert_int_equal(ended_within_a_second(&end, 1), 1);
    sm_child_kill(&child);
    finish(&end, peer);
}

static void sends_in_the_middle_of_a_full_ring_fail(void **state)
{
    static uint8_t buf[2000];
    struct sm_child child;
    struct sm_end end;
    na_addr_t *peer;

    (void) state;
    start(&child, &end, &peer);
    assert_int_equal(sm_command(&end, peer, SM_NAP, 5000, 0, 0, NULL, NULL), NA_SUCCESS);
    sm_end_progress(&end, 50);
    for (uint32_t i = 0; i < OPS; i++)
        assert_int_equal(NA_Msg_send_unexpected(end.na_class, end.context, sm_event_callback,
                                                &events[i], buf, sizeof(buf), NULL, peer, 0, i,
                                                ops[i]),
                         NA_SUCCESS);
    sm_child_kill(&child);
    assert_in_range(ended_within_a_second(&end, OPS), OPS - 128, OPS);
    finish(&end, peer);
}

/* The sender dies while it floods: what it sent arrives, and the receiver goes on. */
static void a_sender_that_dies_does_no_harm(void **state)
{
    static uint8_t bufs[OPS][2048];
    struct sm_child child, other;
    struct sm_end end;
    uint8_t reply[64];
    size_t size = sizeof(reply);
    na_addr_t *peer, *second;

    (void) state;
    start(&child, &end, &peer);
    sm_child_start(&other, "na+sm", "plain");
    assert_int_equal(NA_Addr_lookup(end.na_class, other.address, &second), NA_SUCCESS);
    assert_int_equal(sm_command(&end, peer, SM_FLOOD, 1000000, 1500, 0, NULL, NULL), NA_SUCCESS);
    for (int i = 0; i < OPS; i++)
        assert_int_equal(NA_Msg_recv_unexpected(end.na_class, end.context, sm_event_callback,
                                                &events[i], bufs[i], sizeof(bufs[i]), NULL, ops[i]),
                         NA_SUCCESS);
    for (int i = 0; i < 100; i++)
        assert_true(sm_event_wait(&end, &events[i], SM_TEST_WAIT_MS));
    sm_child_kill(&child);
    sm_end_progress(&end, 300); /* what lay in the ring still arrives */
    for (int i = 0; i < OPS; i++) {
        if (events[i].done == 0)
            assert_int_equal(NA_Cancel(end.na_class, end.context, ops[i]), NA_SUCCESS);
        assert_true(sm_event_wait(&end, &events[i], SM_TEST_WAIT_MS));
        assert_true(events[i].ret == NA_SUCCESS || events[i].ret == NA_CANCELED);
        if (events[i].ret == NA_SUCCESS) {
            assert_int_equal(events[i].size, 1500);
            NA_Addr_free(end.na_class, events[i].source);
        }
    }
    assert_int_equal(sm_command(&end, second, SM_ECHO, 0, 0, 0, reply, &size), NA_SUCCESS);
    NA_Addr_free(end.na_class, second);
    sm_child_stop(&other);
    finish(&end, peer);
}

/* `copy`: through the rings. The target dies in the middle. */
static void rma_with_a_dying_target(bool copy)
{
    uint8_t packed[512], *local = malloc(BYTES);
    size_t size = sizeof(packed);
    na_mem_handle_t *mem, *remote;
    struct sm_child child;
    struct sm_end end;
    na_addr_t *peer;

    if (copy)
        assert_int_equal(setenv("AMALGAM_SM_RMA", "copy", 1), 0);
    start(&child, &end, &peer);
    assert_int_equal(sm_command(&end, peer, SM_EXPOSE, NA_MEM_READWRITE, BYTES, 0, packed, &size),
                     NA_SUCCESS);
    assert_int_equal(NA_Mem_handle_deserialize(end.na_class, &remote, packed, size), NA_SUCCESS);
    memset(local, 1, BYTES);
    mem = sm_mem_open(&end, local, BYTES, NA_MEM_READWRITE);
    for (int i = 0; i < 40; i++)
        assert_int_equal((i % 2 ? NA_Put : NA_Get)(end.na_class, end.context, sm_event_callback,
                                                   &events[i], mem, 0, remote, 0, BYTES, peer, 0,
                                                   ops[i]),
                         NA_SUCCESS);
    sm_end_progress(&end, 5);
    sm_child_kill(&child);
    assert_in_range(ended_within_a_second(&end, 40), 30, 40);
    NA_Mem_handle_free(end.na_class, remote);
    sm_mem_close(&end, mem);
    finish(&end, peer);
    assert_int_equal(unsetenv("AMALGAM_SM_RMA"), 0);
    free(local);
}

static void native_rma_fails_when_its_target_dies(void **state)
{
    (void) state;
    rma_with_a_dying_target(false);
}

static void copied_rma_fails_when_its_target_dies(void **state)
{
    (void) state;
    rma_with_a_dying_target(true);
}

/* The one who asks dies; the target is unharmed and serves others. */
static void an_origin_that_dies_does_no_harm(void **state)
{
    (void) state;
    for (int copy = 0; copy < 2; copy++) {
        uint8_t request[512], reply[64], *memory = calloc(1, 1 << 20);
        struct sm_request head = {.command = SM_GET_LOOP};
        struct sm_child child, other;
        size_t size;
        struct sm_end end;
        na_addr_t *peer, *second;
        na_mem_handle_t *mem;

        if (copy) /* the child inherits it */
            assert_int_equal(setenv("AMALGAM_SM_RMA", "copy", 1), 0);
        start(&child, &end, &peer);
        sm_child_start(&other, "na+sm", "plain");
        mem = sm_mem_open(&end, memory, 1 << 20, NA_MEM_READ_ONLY);
        memcpy(request, &head, sizeof(head));
        size = NA_Mem_handle_get_serialize_size(end.na_class, mem);
        assert_int_equal(NA_Mem_handle_serialize(end.na_class, request + sizeof(head), size, mem),
                         NA_SUCCESS);
        assert_int_equal(sm_send(&end, peer, request, sizeof(head) + size, 0, false), NA_SUCCESS);
        sm_end_progress(&end, 100);
        sm_child_kill(&child);
        sm_end_progress(&end, 500);
        sm_mem_close(&end, mem);
        free(memory);
        assert_int_equal(NA_Addr_lookup(end.na_class, other.address, &second), NA_SUCCESS);
        size = sizeof(reply);
        assert_int_equal(sm_command(&end, second, SM_ECHO, 0, 0, 0, reply, &size), NA_SUCCESS);
        NA_Addr_free(end.na_class, second);
        sm_child_stop(&other);
        finish(&end, peer);
        assert_int_equal(unsetenv("AMALGAM_SM_RMA"), 0);
    }
}

static void a_peer_that_closes_is_noticed(void **state)
{
    static uint8_t buf[64];
    struct sm_child child;
    struct sm_end end;
    na_addr_t *peer;

    (void) state;
    start(&child, &end, &peer);
    assert_int_equal(NA_Msg_recv_expected(end.na_class, end.context, sm_event_callback, &events[0],
                                          buf, sizeof(buf), NULL, peer, 0, 1, ops[0]),
                     NA_SUCCESS);
    sm_child_stop(&child);
    assert_int_equal(ended_within_a_second(&end, 1), 1);
    finish(&end, peer);
}

/* Without anything outstanding there is no timer: the process makes no voluntary switch. */
static void an_idle_process_does_not_tick(void **state)
{
    struct sm_child child;
    struct sm_end end;
    na_addr_t *peer;
    uint8_t reply[64];
    size_t size = sizeof(reply);
    char path[64], line[256];
    long switches[2] = {0, 0};

    (void) state;
    sm_child_start(&child, "na+sm", "idle");
    sm_end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    assert_int_equal(sm_command(&end, peer, SM_ECHO, 0, 0, 0, reply, &size), NA_SUCCESS);
    (void) snprintf(path, sizeof(path), "/proc/%d/status", (int) child.pid);
    for (int i = 0; i < 2; i++) {
        FILE *file;

        sm_end_progress(&end, i == 0 ? 100 : 2000);
        file = fopen(path, "r");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file) != NULL)
            (void) sscanf(line, "voluntary_ctxt_switches: %ld", &switches[i]);
        (void) fclose(file);
    }
    assert_in_range(switches[1] - switches[0], 0, 6); /* its own timeouts of a second */
    NA_Addr_free(end.na_class, peer);
    sm_end_close(&end);
    sm_child_stop(&child);
    sm_check_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(awaited_replies_fail),
        cmocka_unit_test(a_process_that_sleeps_is_told),
        cmocka_unit_test(a_zombie_counts_as_dead),
        cmocka_unit_test(sends_in_the_middle_of_a_full_ring_fail),
        cmocka_unit_test(a_sender_that_dies_does_no_harm),
        cmocka_unit_test(native_rma_fails_when_its_target_dies),
        cmocka_unit_test(copied_rma_fails_when_its_target_dies),
        cmocka_unit_test(an_origin_that_dies_does_no_harm),
        cmocka_unit_test(a_peer_that_closes_is_noticed),
        cmocka_unit_test(an_idle_process_does_not_tick),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
