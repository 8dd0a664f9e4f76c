/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer dies or closes while operations with it are pending: all of them end with an error,
 * soon. */

#include "transport_rma.h"

#include "na_ext.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define OPS   200
#define BYTES (64u << 20)

static na_op_id_t *ops[OPS];
static struct event events[OPS];

static void ops_create(struct end *end)
{
    memset(events, 0, sizeof(events));
    for (int i = 0; i < OPS; i++)
        ops[i] = NA_Op_create(end->na_class, NA_OP_SINGLE);
}

static void ops_destroy(struct end *end)
{
    for (int i = 0; i < OPS; i++) {
        assert_in_range(events[i].done, 0, 1);
        NA_Op_destroy(end->na_class, ops[i]);
    }
}

/* Requires that all operations end in time. Returns how many ended with the error of a dead
 * peer. */
static unsigned int ended_in_time(struct end *end, int count)
{
    uint64_t from = now_ms();
    unsigned int failed = 0;

    for (int i = 0; i < count; i++) {
        if (!event_wait(end, &events[i], TEST_WAIT_MS))
            fail_msg("operation %d of %d has not ended in %u ms", i, count, TEST_WAIT_MS);
        if (events[i].ret != NA_SUCCESS && events[i].ret != NA_HOSTUNREACH)
            fail_msg("operation %d ended with %s", i, NA_Error_to_string(events[i].ret));
        failed += events[i].ret == NA_HOSTUNREACH;
    }
    assert_in_range(now_ms() - from, 0, TEST_DEATH_MS);
    return failed;
}

/* Starts a peer that is closed in the test, not killed. */
static void start_living(struct child *child, struct end *end, na_addr_t **peer)
{
    pair_open(child, end, peer, "plain");
    ops_create(end);
}

/* A process that is killed while it writes may leave UCX's shared memory inconsistent. The
 * transport replaces the memory then, and a message sent at that moment ends with an error. */
static void check_survivor(struct end *end, na_addr_t *peer)
{
    struct peer_request reply;
    size_t size = sizeof(reply);

    if (strcmp(test_init_string(), "ucx+all") == 0)
        (void) end_command(end, peer, PEER_ECHO, 11, 12, 13, &reply, &size);
    end_check_peer(end, peer);
}

static void start(struct child *child, struct end *end, na_addr_t **peer)
{
    start_living(child, end, peer);
    if (NA_Class_has_capability(end->na_class, "peer_death"))
        return;
    ops_destroy(end);
    pair_close(child, end, *peer);
    test_skip("the death of a peer is not noticed");
}

static void finish(struct end *end, na_addr_t *peer)
{
    ops_destroy(end);
    NA_Addr_free(end->na_class, peer);
    end_close(end);
}

/* Skips the test where the transport chooses the addresses: MPI opens none twice. */
static void require_given_addresses(void)
{
    if (strncmp(test_init_string(), "mpi", 3) == 0)
        test_skip("the transport chooses the addresses, no two processes have the same");
    if (getenv("FI_PROVIDER_PATH") != NULL) /* the strict provider, under the name of any profile */
        test_skip("nobody listens at an address of bytes that is given");
}

/* Skips the test where many sends to a killed process block for ever, or loop. */
static void require_writes_to_the_dead(void)
{
    if (strncmp(test_init_string(), "mpi", 3) == 0)
        test_skip("Open MPI 4.1 locks itself out where a write to a killed process fails: "
                  "mca_btl_tcp_endpoint_close sends, and takes the endpoint's lock a second time");
}

static void awaited_replies_fail(void **state)
{
    static uint8_t buf[64];
    struct child child;
    struct end end;
    na_addr_t *peer;
    na_return_t ret;

    (void) state;
    start(&child, &end, &peer);
    end_check_peer(&end, peer);
    for (uint32_t i = 0; i < OPS; i++)
        assert_int_equal(end_receive_expected(&end, &events[i], buf, sizeof(buf), peer, i, ops[i]),
                         NA_SUCCESS);
    end_progress(&end, 100);
    child_kill(&child);
    assert_int_equal(ended_in_time(&end, OPS), OPS);
    /* Later operations fail, too, at once or soon. */
    events[0].done = 0;
    ret = end_receive_expected(&end, &events[0], buf, sizeof(buf), peer, 1, ops[0]);
    if (ret == NA_SUCCESS)
        assert_int_equal(ended_in_time(&end, 1), 1);
    else
        assert_int_equal(ret, NA_HOSTUNREACH);
    finish(&end, peer);
}

/* Each send to a dead peer ends. When the first one fails depends on the buffers that took the
 * earlier ones. */
static void later_sends_end(void **state)
{
    static uint8_t buf[64];
    unsigned int sent = 0;
    na_return_t ret = NA_SUCCESS;
    struct child child;
    struct end end;
    na_addr_t *peer;
    uint64_t from;

    (void) state;
    start(&child, &end, &peer);
    end_check_peer(&end, peer);
    child_kill(&child);
    from = now_ms();
    while (ret == NA_SUCCESS && now_ms() - from < 2000) {
        ret = end_send(&end, peer, buf, sizeof(buf), 1, false);
        sent++;
        end_progress(&end, 20);
    }
    print_message("send number %u ended with %s\n", sent, NA_Error_to_string(ret));
    assert_true(ret == NA_SUCCESS || ret == NA_HOSTUNREACH);
    finish(&end, peer);
}

/* The process sleeps on the descriptor, which becomes readable when the peer dies. */
static void a_process_that_sleeps_is_told(void **state)
{
    static uint8_t buf[64];
    unsigned int count = 0;
    struct child child;
    struct end end;
    na_addr_t *peer;
    uint64_t from;

    (void) state;
    start(&child, &end, &peer);
    end_check_peer(&end, peer);
    assert_int_equal(end_receive_expected(&end, &events[0], buf, sizeof(buf), peer, 1, ops[0]),
                     NA_SUCCESS);
    child_kill(&child);
    from = now_ms();
    while (count == 0 && now_ms() - from < TEST_WAIT_MS)
        (void) NA_Poll_wait(end.na_class, end.context, TEST_WAIT_MS, &count);
    assert_in_range(now_ms() - from, 0, TEST_DEATH_MS);
    (void) NA_Trigger(end.context, 1, NULL);
    assert_int_equal(events[0].ret, NA_HOSTUNREACH);
    finish(&end, peer);
}

/* After the death of a peer the descriptor does not stay readable. A forked child shares our
 * descriptors, so that closing one does not remove it from an epoll set. */
static void the_dead_wake_nobody_for_ever(void **state)
{
    struct pollfd descriptor = {.events = POLLIN};
    static uint8_t buf[64];
    struct child child;
    struct end end;
    bool is_quiet = false;
    na_addr_t *peer;
    pid_t pid;

    (void) state;
    start(&child, &end, &peer);
    end_check_peer(&end, peer);
    pid = fork();
    if (pid == 0) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            (void) pause();
    }
    assert_true(pid > 0);
    assert_int_equal(end_receive_expected(&end, &events[0], buf, sizeof(buf), peer, 1, ops[0]),
                     NA_SUCCESS);
    child_kill(&child);
    assert_int_equal(ended_in_time(&end, 1), 1);
    descriptor.fd = NA_Poll_get_fd(end.na_class, end.context);
    for (uint64_t from = now_ms(); !is_quiet && now_ms() - from < TEST_DEATH_MS;) {
        end_progress(&end, 0);
        is_quiet = descriptor.fd < 0 ||
                   (NA_Poll_try_wait(end.na_class, end.context) && poll(&descriptor, 1, 50) == 0);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(is_quiet);
    finish(&end, peer);
}

static void queued_sends_end(void **state)
{
    static uint8_t buf[2000];
    struct child child;
    struct end end;
    na_addr_t *peer;

    (void) state;
    start(&child, &end, &peer);
    end_check_peer(&end, peer);
    assert_int_equal(end_command(&end, peer, PEER_NAP, 5000, 0, 0, NULL, NULL), NA_SUCCESS);
    end_progress(&end, 50);
    for (uint32_t i = 0; i < OPS; i++)
        assert_int_equal(NA_Msg_send_unexpected(end.na_class, end.context, event_callback,
                                                &events[i], buf, sizeof(buf), NULL, peer, 0, i,
                                                ops[i]),
                         NA_SUCCESS);
    child_kill(&child);
    print_message("%u of %d sends failed\n", ended_in_time(&end, OPS), OPS);
    finish(&end, peer);
}

/* The sender dies in the middle of many messages. Those that arrived are complete, and the receiver
 * goes on. */
static void a_sender_that_dies_does_no_harm(void **state)
{
    static uint8_t bufs[OPS][2048];
    struct child child, other;
    struct end end;
    na_addr_t *peer, *second;

    (void) state;
    start(&child, &end, &peer);
    child_start(&other, NULL, "plain");
    assert_int_equal(NA_Addr_lookup(end.na_class, other.address, &second), NA_SUCCESS);
    assert_int_equal(end_command(&end, peer, PEER_FLOOD, 1000000, 1500, 0, NULL, NULL), NA_SUCCESS);
    for (int i = 0; i < OPS; i++)
        assert_int_equal(end_receive_unexpected(&end, &events[i], bufs[i], sizeof(bufs[i]), ops[i]),
                         NA_SUCCESS);
    for (int i = 0; i < 100; i++)
        assert_true(event_wait(&end, &events[i], TEST_WAIT_MS));
    child_kill(&child);
    end_progress(&end, 300); /* messages in flight still arrive */
    for (int i = 0; i < OPS; i++) {
        if (events[i].done == 0)
            assert_int_equal(NA_Cancel(end.na_class, end.context, ops[i]), NA_SUCCESS);
        assert_true(event_wait(&end, &events[i], TEST_WAIT_MS));
        assert_true(events[i].ret == NA_SUCCESS || events[i].ret == NA_CANCELED);
        if (events[i].ret == NA_SUCCESS) {
            assert_int_equal(events[i].size, 1500);
            assert_int_equal(bufs[i][0], bufs[i][1499]);
            NA_Addr_free(end.na_class, events[i].source);
        }
    }
    check_survivor(&end, second);
    NA_Addr_free(end.na_class, second);
    finish(&end, peer);
    child_stop(&other);
}

/* Starts `count` transfers of `size` bytes, gets and puts in turn. */
static void transfers_start(struct end *end, na_mem_handle_t *local, na_mem_handle_t *remote,
                            na_addr_t *peer, int count, size_t size)
{
    for (int i = 0; i < count; i++)
        assert_int_equal((i % 2 ? NA_Put : NA_Get)(end->na_class, end->context, event_callback,
                                                   &events[i], local, 0, remote, 0, size, peer, 0,
                                                   ops[i]),
                         NA_SUCCESS);
}

static void transfers_fail_when_their_target_dies(void **state)
{
    uint8_t packed[512], *local;
    size_t size = sizeof(packed);
    na_mem_handle_t *mem, *remote;
    struct child child;
    struct end end;
    na_addr_t *peer;

    (void) state;
    require_writes_to_the_dead();
    start(&child, &end, &peer);
    local = malloc(BYTES);
    assert_int_equal(
        end_command(&end, peer, PEER_EXPOSE, NA_MEM_READWRITE, BYTES, 0, packed, &size),
        NA_SUCCESS);
    assert_int_equal(NA_Mem_handle_deserialize(end.na_class, &remote, packed, size), NA_SUCCESS);
    memset(local, 1, BYTES);
    mem = mem_open(&end, local, BYTES, NA_MEM_READWRITE);
    transfers_start(&end, mem, remote, peer, 40, BYTES);
    end_progress(&end, 5);
    child_kill(&child);
    assert_in_range(ended_in_time(&end, 40), 1, 40);
    NA_Mem_handle_free(end.na_class, remote);
    mem_close(&end, mem);
    finish(&end, peer);
    free(local);
}

/* The origin of a transfer dies. The target is unharmed and serves others. */
static void an_origin_that_dies_does_no_harm(void **state)
{
    struct peer_request head = {.command = PEER_GET_LOOP};
    uint8_t request[512], *memory;
    struct child child, other;
    na_addr_t *peer, *second;
    na_mem_handle_t *mem;
    struct end end;
    size_t size;

    (void) state;
    require_writes_to_the_dead();
    start(&child, &end, &peer);
    child_start(&other, NULL, "plain");
    memory = calloc(1, 1 << 20);
    mem = mem_open(&end, memory, 1 << 20, NA_MEM_READ_ONLY);
    memcpy(request, &head, sizeof(head));
    size = NA_Mem_handle_get_serialize_size(end.na_class, mem);
    assert_int_equal(NA_Mem_handle_serialize(end.na_class, request + sizeof(head), size, mem),
                     NA_SUCCESS);
    assert_int_equal(end_send(&end, peer, request, sizeof(head) + size, 0, false), NA_SUCCESS);
    end_progress(&end, 100);
    child_kill(&child);
    end_progress(&end, 300);
    mem_close(&end, mem);
    free(memory);
    assert_int_equal(NA_Addr_lookup(end.na_class, other.address, &second), NA_SUCCESS);
    check_survivor(&end, second);
    NA_Addr_free(end.na_class, second);
    finish(&end, peer);
    child_stop(&other);
}

static void a_peer_that_closes_is_noticed(void **state)
{
    static uint8_t buf[64];
    struct child child;
    struct end end;
    na_addr_t *peer;

    (void) state;
    start_living(&child, &end, &peer);
    end_check_peer(&end, peer);
    assert_int_equal(end_receive_expected(&end, &events[0], buf, sizeof(buf), peer, 1, ops[0]),
                     NA_SUCCESS);
    child_stop(&child);
    assert_int_equal(ended_in_time(&end, 1), 1);
    finish(&end, peer);
}

/* Nothing listens at the address: the lookup or the first operation fails. */
static void a_peer_that_was_never_there_is_an_error(void **state)
{
    static uint8_t buf[64];
    char address[512];
    struct child child;
    struct end end;
    na_addr_t *peer;
    na_return_t ret;

    (void) state;
    start_living(&child, &end, &peer);
    (void) strcpy(address, child.address);
    NA_Addr_free(end.na_class, peer);
    child_stop(&child);
    ret = NA_Addr_lookup(end.na_class, address, &peer);
    if (ret != NA_SUCCESS) {
        assert_true(ret == NA_NOENTRY || ret == NA_HOSTUNREACH);
        peer = NULL;
    } else {
        assert_int_equal(end_send(&end, peer, buf, sizeof(buf), 1, false), NA_HOSTUNREACH);
    }
    finish(&end, peer);
}

/* Operations with a dead peer fail. Operations with its successor at the same address succeed. */
static void a_peer_comes_back_at_the_same_address(void **state)
{
    static uint8_t buf[64];
    struct child child, next;
    na_addr_t *peer, *again;
    struct end end;

    (void) state;
    require_given_addresses();
    start(&child, &end, &peer);
    end_check_peer(&end, peer);
    assert_int_equal(end_receive_expected(&end, &events[0], buf, sizeof(buf), peer, 1, ops[0]),
                     NA_SUCCESS);
    child_kill(&child);
    child_start(&next, child.address, "plain");
    assert_string_equal(next.address, child.address);
    assert_int_equal(ended_in_time(&end, 1), 1);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &again), NA_SUCCESS);
    for (int i = 0; i < 20; i++)
        end_check_peer(&end, again);
    NA_Addr_free(end.na_class, again);
    finish(&end, peer);
    child_stop(&next);
}

/* Pending puts and gets with a dead peer do not disturb those with its successor. */
static void transfers_go_to_the_next_one_at_its_address(void **state)
{
    uint8_t packed[512], *local;
    struct child child, next;
    na_mem_handle_t *mem, *remote;
    na_return_t ret = NA_HOSTUNREACH;
    na_addr_t *peer, *again;
    size_t size = sizeof(packed);
    struct end end;

    (void) state;
    require_given_addresses();
    start(&child, &end, &peer);
    local = calloc(1, BYTES);
    mem = mem_open(&end, local, BYTES, NA_MEM_READWRITE);
    assert_int_equal(
        end_command(&end, peer, PEER_EXPOSE, NA_MEM_READWRITE, BYTES, 0, packed, &size),
        NA_SUCCESS);
    assert_int_equal(NA_Mem_handle_deserialize(end.na_class, &remote, packed, size), NA_SUCCESS);
    assert_int_equal(end_command(&end, peer, PEER_NAP, 5000, 0, 0, NULL, NULL), NA_SUCCESS);
    transfers_start(&end, mem, remote, peer, 40, BYTES);
    end_progress(&end, 50);
    child_kill(&child);
    (void) ended_in_time(&end, 40);
    NA_Mem_handle_free(end.na_class, remote);

    child_start(&next, child.address, "plain");
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &again), NA_SUCCESS);
    /* The first message may reach the old connection, which has ended. */
    for (uint64_t until = now_ms() + TEST_WAIT_MS; ret != NA_SUCCESS && now_ms() < until;) {
        size = sizeof(packed);
        ret = end_command(&end, again, PEER_EXPOSE, NA_MEM_READWRITE, BYTES, 0, packed, &size);
    }
    assert_int_equal(ret, NA_SUCCESS);
    assert_int_equal(NA_Mem_handle_deserialize(end.na_class, &remote, packed, size), NA_SUCCESS);
    memset(events, 0, sizeof(events));
    transfers_start(&end, mem, remote, again, 4, BYTES / 16);
    for (int i = 0; i < 4; i++) {
        assert_true(event_wait(&end, &events[i], TEST_WAIT_MS));
        assert_int_equal(events[i].ret, NA_SUCCESS);
    }
    NA_Mem_handle_free(end.na_class, remote);
    NA_Addr_free(end.na_class, again);
    mem_close(&end, mem);
    finish(&end, peer);
    child_stop(&next);
    free(local);
}

struct lost {
    const struct end *end;
    na_addr_t *killed;
    int count, others;
    na_return_t reason;
};

static void take_lost(na_class_t *na_class, na_addr_t *addr, na_return_t reason, void *arg)
{
    struct lost *lost = arg;

    assert_ptr_equal(na_class, lost->end->na_class);
    if (NA_Addr_cmp(na_class, addr, lost->killed)) {
        lost->count++;
        lost->reason = reason;
    } else {
        lost->others++;
    }
}

/* The notification is enabled for one peer before the first contact, for another one after it. No
 * operation is outstanding when they die. */
static void the_death_of_an_idle_peer_is_told(void **state)
{
    struct child children[2], living;
    struct lost lost = {0};
    na_addr_t *peers[2], *other;
    struct end end;

    (void) state;
    start(&children[0], &end, &peers[0]);
    if (!NA_Class_has_capability(end.na_class, "peer_events")) {
        child_kill(&children[0]);
        finish(&end, peers[0]);
        test_skip("no notice is given of peers that are lost");
    }
    end_check_peer(&end, peers[0]);
    lost.end = &end;
    assert_int_equal(NA_Class_set_peer_lost(end.na_class, take_lost, &lost), NA_SUCCESS);
    child_start(&children[1], NULL, "plain");
    child_start(&living, NULL, "plain");
    assert_int_equal(NA_Addr_lookup(end.na_class, children[1].address, &peers[1]), NA_SUCCESS);
    assert_int_equal(NA_Addr_lookup(end.na_class, living.address, &other), NA_SUCCESS);
    end_check_peer(&end, peers[1]);
    end_check_peer(&end, other);
    for (int i = 0; i < 2; i++) {
        uint64_t from = now_ms();

        lost.killed = peers[i];
        lost.count = 0;
        child_kill(&children[i]);
        while (lost.count == 0 && now_ms() - from < TEST_WAIT_MS)
            (void) NA_Poll_wait(end.na_class, end.context, i == 0 ? 0 : 1000, NULL);
        assert_int_equal(lost.count, 1);
        assert_int_equal(lost.reason, NA_HOSTUNREACH);
    }
    end_check_peer(&end, other);
    assert_int_equal(lost.count, 1);
    assert_int_equal(lost.others, 0);
    NA_Addr_free(end.na_class, peers[1]);
    NA_Addr_free(end.na_class, other);
    finish(&end, peers[0]); /* a peer lost after this is not reported */
    child_stop(&living);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(awaited_replies_fail),
        cmocka_unit_test(later_sends_end),
        cmocka_unit_test(a_process_that_sleeps_is_told),
        cmocka_unit_test(the_dead_wake_nobody_for_ever),
        cmocka_unit_test(queued_sends_end),
        cmocka_unit_test(a_sender_that_dies_does_no_harm),
        cmocka_unit_test(transfers_fail_when_their_target_dies),
        cmocka_unit_test(an_origin_that_dies_does_no_harm),
        cmocka_unit_test(a_peer_that_closes_is_noticed),
        cmocka_unit_test(the_death_of_an_idle_peer_is_told),
        /* After this test Open MPI establishes no connection for minutes. */
        cmocka_unit_test(a_peer_that_was_never_there_is_an_error),
        cmocka_unit_test(a_peer_comes_back_at_the_same_address),
        cmocka_unit_test(transfers_go_to_the_next_one_at_its_address),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
