/* SPDX-License-Identifier: BSD-3-Clause */
/* Put and get: sizes, offsets, pieces, many at once, both directions, and refused transfers. */

#include "transport_agent.h"
#include "transport_rma.h"

#include "na_ext.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES RMA_BYTES
#define LARGE ((16u << 20) + 1)

/* Whether na+sm uses cross-memory attach: the system lets processes of one user access each other's
 * memory, whatever the rights of the handle. */
static bool is_attached(void)
{
    const char *way = getenv("AMALGAM_SM_RMA");

    return strstr(test_init_string(), "na+sm") != NULL && (way == NULL || strcmp(way, "copy") != 0);
}

static void transfer_every_size(const char *option);

/* The target sleeps without progress, unless the transport needs its progress for each piece. */
static void every_size_at_every_offset_is_exact(void **state)
{
    (void) state;
    transfer_every_size("idle");
}

static void every_size_in_allocated_memory_is_exact(void **state)
{
    (void) state;
    transfer_every_size("allocated");
}

static void transfer_every_size(const char *option)
{
    static const size_t sizes[] = {1,     8,    72,     73,     100,    4095,    4096,
                                   8151,  8152, 8153,   65536,  100000, 1000003, BYTES,
                                   65537, 3,    262144, 262145, 524288, 2000000};
    struct rma rma;
    uint64_t remote;

    assert_int_equal(rma_open(&rma, option, NA_MEM_READWRITE, BYTES, 1), 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t from = (BYTES - sizes[i]) / 3, to = (BYTES - sizes[i]) / 2;

        memset(rma.local, 0, BYTES);
        assert_int_equal(rma_transfer(&rma, false, to, from, sizes[i]), NA_SUCCESS);
        for (size_t j = 0; j < sizes[i]; j++)
            if (rma.local[to + j] != rma_exposed(from + j))
                fail_msg("byte %zu of %zu is wrong", j, sizes[i]);
        assert_true(to == 0 || rma.local[to - 1] == 0);
        assert_true(to + sizes[i] == BYTES || rma.local[to + sizes[i]] == 0);
    }
    for (size_t j = 0; j < BYTES; j++)
        rma.local[j] = (uint8_t) (j * j);
    for (size_t done = 0; done < BYTES;) {
        size_t step = 1 + done / 2;

        step = step > BYTES - done ? BYTES - done : step;
        assert_int_equal(rma_transfer(&rma, true, done, done, step), NA_SUCCESS);
        done += step;
    }
    remote = rma_remote_sum(&rma);
    assert_int_equal(remote, rma_local_sum(&rma));
    rma_close(&rma, true);
}

static void sixteen_mebibytes_and_a_byte_go_both_ways(void **state)
{
    struct rma rma;
    uint64_t remote;

    (void) state;
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, LARGE, 1), 0);
    if (NA_Class_get_max_rma_size(rma.end.na_class) < LARGE) {
        rma_close(&rma, true);
        test_skip("the largest single transfer is smaller");
    }
    assert_int_equal(rma_transfer(&rma, false, 0, 0, LARGE), NA_SUCCESS);
    for (size_t i = 0; i < LARGE; i++)
        if (rma.local[i] != rma_exposed(i))
            fail_msg("byte %zu is wrong", i);
    for (size_t i = 0; i < LARGE; i++)
        rma.local[i] = (uint8_t) (i * 13 + i / 4096);
    assert_int_equal(rma_transfer(&rma, true, 0, 0, LARGE), NA_SUCCESS);
    remote = rma_remote_sum(&rma);
    assert_int_equal(remote, rma_local_sum(&rma));
    rma_close(&rma, true);
}

/* Returns the offset of byte `index` of the exposed block, whose pieces are registered back to
 * front. */
static size_t piece_offset(size_t index, size_t pieces)
{
    size_t piece = BYTES / pieces;

    return (pieces - 1 - index / piece) * piece + index % piece;
}

static void pieces_are_one_range(void **state)
{
    static const size_t pieces[] = {2, 100, 250};
    struct rma rma;

    (void) state;
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, BYTES, 1), 0);
    if (NA_Mem_handle_get_max_segments(rma.end.na_class) < 2) {
        rma_close(&rma, true);
        test_skip("a handle has one piece only");
    }
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        if (pieces[i] > NA_Mem_handle_get_max_segments(rma.end.na_class)) {
            print_message("left out: %zu pieces, the limit is %zu\n", pieces[i],
                          NA_Mem_handle_get_max_segments(rma.end.na_class));
            continue;
        }
        assert_int_equal(rma_expose(&rma, NA_MEM_READWRITE, pieces[i]), 0);
        assert_int_equal(rma_transfer(&rma, false, 5, 17, BYTES / 2), NA_SUCCESS);
        for (size_t j = 0; j < BYTES; j++) {
            size_t offset = piece_offset(j, pieces[i]);

            if (offset >= 17 && offset < 17 + BYTES / 2 &&
                rma.local[5 + offset - 17] != rma_exposed(j))
                fail_msg("byte %zu of %zu pieces is wrong", j, pieces[i]);
        }
        memset(rma.local, 9, BYTES);
        assert_int_equal(rma_transfer(&rma, true, 0, 0, BYTES), NA_SUCCESS);
        memset(rma.local, 0, BYTES);
        assert_int_equal(rma_transfer(&rma, false, 0, 0, BYTES), NA_SUCCESS);
        assert_int_equal(rma_local_sum(&rma), 9ull * BYTES);
    }
    rma_close(&rma, true);
}

/* More transfers than any queue holds: puts to one half of the memory, gets from the other. */
static void many_in_flight_end_each_for_itself(void **state)
{
    struct event *events = calloc(600, sizeof(*events));
    na_op_id_t *ops[600];
    struct rma rma;
    uint64_t sum = 0;

    (void) state;
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, BYTES, 1), 0);
    memset(rma.local, 5, BYTES);
    for (size_t i = 0; i < 600; i++) {
        ops[i] = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
        assert_int_equal((i % 2 ? NA_Put : NA_Get)(rma.end.na_class, rma.end.context,
                                                   event_callback, &events[i], rma.local_mem,
                                                   i * 5000, rma.remote_mem, i * 5000, 5000,
                                                   rma.peer, 0, ops[i]),
                         NA_SUCCESS);
    }
    for (size_t i = 0; i < 600; i++) {
        assert_true(event_wait(&rma.end, &events[i], TEST_WAIT_MS));
        assert_int_equal(events[i].ret, NA_SUCCESS);
        assert_int_equal(events[i].done, 1);
        NA_Op_destroy(rma.end.na_class, ops[i]);
    }
    for (size_t i = 0; i < BYTES; i++) {
        uint8_t is = i / 5000 % 2 ? 5 : rma_exposed(i);

        if (rma.local[i] != is)
            fail_msg("byte %zu is wrong", i);
        sum += is;
    }
    assert_int_equal(rma_remote_sum(&rma), sum);
    rma_close(&rma, true);
    free(events);
}

/* The peer and this process are origins of transfers at the same time. */
static void both_sides_transfer_at_a_time(void **state)
{
    struct peer_request request = {.command = PEER_TRANSFER, .b = 1 << 20};
    uint8_t message[1024], *mine = malloc(1 << 20);
    na_mem_handle_t *mem;
    struct rma rma;
    size_t size;

    (void) state;
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, BYTES, 1), 0);
    mem = mem_open(&rma.end, mine, 1 << 20, NA_MEM_READWRITE);
    size = NA_Mem_handle_get_serialize_size(rma.end.na_class, mem);
    assert_in_range(size, 1, sizeof(message) - sizeof(request));
    assert_int_equal(
        NA_Mem_handle_serialize(rma.end.na_class, message + sizeof(request), size, mem),
        NA_SUCCESS);
    for (uint32_t i = 0; i < 20; i++) {
        na_op_id_t *ops[2];
        struct event events[2] = {0};
        uint64_t reply[2] = {99, 0};

        memset(mine, 0x11, 1 << 20);
        request.a = i % 2;
        request.c = 0x22;
        memcpy(message, &request, sizeof(request));
        ops[0] = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
        ops[1] = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
        assert_int_equal(
            end_receive_expected(&rma.end, &events[0], reply, sizeof(reply), rma.peer, i, ops[0]),
            NA_SUCCESS);
        assert_int_equal(end_send(&rma.end, rma.peer, message, sizeof(request) + size, i, false),
                         NA_SUCCESS);
        assert_int_equal(NA_Get(rma.end.na_class, rma.end.context, event_callback, &events[1],
                                rma.local_mem, 0, rma.remote_mem, 0, BYTES, rma.peer, 0, ops[1]),
                         NA_SUCCESS);
        for (int j = 0; j < 2; j++) {
            assert_true(event_wait(&rma.end, &events[j], TEST_WAIT_MS));
            assert_int_equal(events[j].ret, NA_SUCCESS);
            NA_Op_destroy(rma.end.na_class, ops[j]);
        }
        assert_int_equal(reply[0], NA_SUCCESS);
        assert_int_equal(reply[1], (i % 2 ? 0x22ull : 0x11ull) << 20);
        for (size_t j = 0; j < 1 << 20; j++)
            if (mine[j] != (i % 2 ? 0x22 : 0x11))
                fail_msg("byte %zu is wrong", j);
    }
    mem_close(&rma.end, mem);
    rma_close(&rma, true);
    free(mine);
}

static void flags_are_enforced(void **state)
{
    struct rma rma;

    (void) state;
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READ_ONLY, BYTES, 1), 0);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, 100), NA_SUCCESS);
    assert_int_equal(rma_transfer(&rma, true, 0, 0, 100), NA_PERMISSION);
    assert_int_equal(rma_expose(&rma, NA_MEM_WRITE_ONLY, 1), 0);
    assert_int_equal(rma_transfer(&rma, true, 0, 0, 100), NA_SUCCESS);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, 100), NA_PERMISSION);
    rma_close(&rma, true);
}

static void ranges_are_checked(void **state)
{
    struct rma rma;

    (void) state;
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, BYTES, 1), 0);
    for (int put = 0; put < 2; put++) {
        assert_int_equal(rma_transfer(&rma, put, 0, BYTES - 10, 11), NA_OVERFLOW);
        assert_int_equal(rma_transfer(&rma, put, BYTES - 10, 0, 11), NA_OVERFLOW);
        assert_int_equal(rma_transfer(&rma, put, 0, SIZE_MAX - 5, 11), NA_OVERFLOW);
        assert_int_equal(rma_transfer(&rma, put, SIZE_MAX - 5, 0, 11), NA_OVERFLOW);
        assert_int_equal(rma_transfer(&rma, put, 0, 0, BYTES + 1u), NA_OVERFLOW);
        assert_int_equal(rma_transfer(&rma, put, 11, BYTES - 11, 11), NA_SUCCESS);
    }
    rma_close(&rma, true);
}

/* Waits until the peer answers again: some fabrics abort the connection of an origin whose access
 * is refused, and establish a new one. */
static void wait_for_peer(struct rma *rma)
{
    uint64_t until = now_ms() + TEST_WAIT_MS;
    struct peer_request reply;
    size_t size = sizeof(reply);

    while (end_command(&rma->end, rma->peer, PEER_ECHO, 1, 0, 0, &reply, &size) != NA_SUCCESS &&
           now_ms() < until) {
        end_progress(&rma->end, 50);
        NA_Addr_free(rma->end.na_class, rma->peer);
        assert_int_equal(NA_Addr_lookup(rma->end.na_class, rma->child.address, &rma->peer),
                         NA_SUCCESS);
        size = sizeof(reply);
    }
    end_check_peer(&rma->end, rma->peer);
}

/* Tries each forgery of the handle with a get or a put; `count_p` receives how many succeeded. Each
 * transfer ends, and touches no memory that the true handle does not cover. */
static void forge(struct rma *rma, bool put, uint8_t flip, unsigned int *count_p)
{
    uint8_t packed[sizeof(rma->packed)];
    na_mem_handle_t *whole = rma->remote_mem;

    memcpy(packed, rma->packed, sizeof(packed));
    for (size_t i = 0; i < rma->packed_size; i++) {
        packed[i] ^= flip;
        if (NA_Mem_handle_deserialize(rma->end.na_class, &rma->remote_mem, packed,
                                      rma->packed_size) == NA_SUCCESS) {
            na_return_t ret;

            memset(rma->local, 0x55, 4096);
            ret = rma_transfer(rma, put, 1024, 64, 64);
            if (ret == NA_TIMEOUT)
                fail_msg("byte %zu of %zu ^ %#x: the %s does not end", i, rma->packed_size, flip,
                         put ? "put" : "get");
            *count_p += ret == NA_SUCCESS;
            assert_int_equal(rma->local[1023], 0x55);
            assert_int_equal(rma->local[1024 + 64], 0x55);
            NA_Mem_handle_free(rma->end.na_class, rma->remote_mem);
        }
        packed[i] ^= flip;
    }
    rma->remote_mem = whole;
}

static void forged_handles_reach_nothing(void **state)
{
    static const uint8_t flips[] = {0x01, 0x41, 0x80, 0xff};
    unsigned int gets = 0, puts = 0;
    uint64_t before;
    struct rma rma;

    (void) state;
    if (is_attached())
        test_skip("cross-memory attach: the system asks who reads, not by which handle");
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READ_ONLY, BYTES, 1), 0);
    for (size_t i = 0; i < rma.packed_size; i++) {
        na_mem_handle_t *cut;

        assert_int_not_equal(NA_Mem_handle_deserialize(rma.end.na_class, &cut, rma.packed, i),
                             NA_SUCCESS);
    }
    before = rma_remote_sum(&rma);
    for (size_t i = 0; i < sizeof(flips); i++) {
        forge(&rma, false, flips[i], &gets);
        forge(&rma, true, flips[i], &puts);
    }
    print_message("forged handles that were accepted: %u gets, %u puts\n", gets, puts);
    wait_for_peer(&rma);
    assert_int_equal(puts, 0); /* no handle allows writing to this memory */
    assert_int_equal(rma_remote_sum(&rma), before);
    memset(rma.local, 0, BYTES);
    /* the true handle works */
    assert_int_equal(rma_transfer(&rma, false, 0, 0, BYTES), NA_SUCCESS);
    assert_int_equal(rma_local_sum(&rma), before);
    rma_close(&rma, true);
}

static void deregistered_memory_is_out_of_reach(void **state)
{
    uint8_t reply[64];
    size_t size = sizeof(reply);
    uint64_t before;
    struct rma rma;

    (void) state;
    if (is_attached())
        test_skip("cross-memory attach: the target is not asked");
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, BYTES, 1), 0);
    before = rma_remote_sum(&rma);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, 1000), NA_SUCCESS);
    assert_int_equal(end_command(&rma.end, rma.peer, PEER_HIDE, 0, 0, 0, reply, &size), NA_SUCCESS);
    memset(rma.local, 0x55, BYTES);
    for (int i = 0; i < 4; i++) {
        na_return_t ret = rma_transfer(&rma, i % 2, 0, 0, i < 2 ? 100 : 1000000);

        assert_int_not_equal(ret, NA_SUCCESS);
        assert_int_not_equal(ret, NA_TIMEOUT);
    }
    for (size_t i = 0; i < BYTES; i++)
        if (rma.local[i] != 0x55)
            fail_msg("byte %zu was read", i);
    wait_for_peer(&rma);
    assert_int_equal(rma_remote_sum(&rma), before);
    assert_int_equal(rma_expose(&rma, NA_MEM_READWRITE, 1), 0);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, BYTES), NA_SUCCESS);
    rma_close(&rma, true);
}

/* A refused transfer does not end the connection, nor the operations of other processes with the
 * target. */
static void a_refused_transfer_costs_nobody_else(void **state)
{
    struct peer_request reply;
    size_t size = sizeof(reply);
    struct rma rma;

    (void) state;
    if (is_attached())
        test_skip("cross-memory attach: the target is not asked");
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, BYTES, 1), 0);
    assert_int_equal(end_command(&rma.end, rma.peer, PEER_HIDE, 0, 0, 0, &reply, &size),
                     NA_SUCCESS);
    for (int i = 0; i < 20; i++) {
        na_return_t ret = rma_transfer(&rma, i % 2, 0, 0, i < 10 ? 1000 : 1000000);

        if (ret != NA_PERMISSION)
            fail_msg("a refused transfer ends with %s", NA_Error_to_string(ret));
        size = sizeof(reply);
        assert_int_equal(end_command(&rma.end, rma.peer, PEER_ECHO, 1, 0, 0, &reply, &size),
                         NA_SUCCESS);
    }
    rma_close(&rma, true);
}

/* Transfers that are in flight before and after a refused one succeed. The refused ones use a stale
 * handle, whose memory is deregistered. */
static void transfers_under_way_outlive_a_refused_one(void **state)
{
    enum {
        COUNT = 40,
        SIZE = BYTES / COUNT
    };
    struct event events[COUNT] = {{0}};
    na_op_id_t *ops[COUNT];
    na_mem_handle_t *stale;
    struct rma rma;

    (void) state;
    if (is_attached())
        test_skip("cross-memory attach: the target is not asked");
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, BYTES, 1), 0);
    stale = rma.remote_mem;
    rma.remote_mem = NULL;
    assert_int_equal(rma_expose(&rma, NA_MEM_READWRITE, 1), 0);
    for (size_t i = 0; i < COUNT; i++) {
        ops[i] = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
        assert_int_equal(NA_Get(rma.end.na_class, rma.end.context, event_callback, &events[i],
                                rma.local_mem, i * SIZE, i % 16 == 9 ? stale : rma.remote_mem,
                                i * SIZE, SIZE, rma.peer, 0, ops[i]),
                         NA_SUCCESS);
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(event_wait(&rma.end, &events[i], TEST_WAIT_MS));
        if (events[i].ret != (i % 16 == 9 ? NA_PERMISSION : NA_SUCCESS))
            fail_msg("transfer %zu ends with %s", i, NA_Error_to_string(events[i].ret));
        for (size_t j = i * SIZE; j < (i + 1) * SIZE && events[i].ret == NA_SUCCESS; j++)
            assert_int_equal(rma.local[j], rma_exposed(j));
        NA_Op_destroy(rma.end.na_class, ops[i]);
    }
    wait_for_peer(&rma);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, BYTES), NA_SUCCESS);
    NA_Mem_handle_free(rma.end.na_class, stale);
    rma_close(&rma, true);
}

/* The peer puts to our memory, which is deregistered as soon as the first bytes have arrived. */
static void put_and_deregister(bool is_stopped)
{
    struct peer_request request = {.command = PEER_TRANSFER, .a = 1, .b = 3 * LARGE, .c = 0x22};
    uint8_t message[1024], *mine = malloc(3 * LARGE), *copy = malloc(3 * LARGE);
    uint64_t from = now_ms();
    na_mem_handle_t *mem;
    struct rma rma;
    size_t size;

    memset(mine, 0x11, 3 * LARGE);
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, 4096, 1), 0);
    mem = mem_open(&rma.end, mine, 3 * LARGE, NA_MEM_READWRITE);
    size = NA_Mem_handle_get_serialize_size(rma.end.na_class, mem);
    assert_in_range(size, 1, sizeof(message) - sizeof(request));
    memcpy(message, &request, sizeof(request));
    assert_int_equal(
        NA_Mem_handle_serialize(rma.end.na_class, message + sizeof(request), size, mem),
        NA_SUCCESS);
    assert_int_equal(end_send(&rma.end, rma.peer, message, sizeof(request) + size, 0, false),
                     NA_SUCCESS);
    while (mine[0] == 0x11 && now_ms() - from < TEST_WAIT_MS)
        end_progress(&rma.end, 0);
    if (is_stopped)
        assert_int_equal(kill(rma.child.pid, SIGSTOP), 0);
    from = now_ms();
    assert_int_equal(NA_Mem_deregister(rma.end.na_class, mem), NA_SUCCESS);
    assert_in_range(now_ms() - from, 0, TEST_WAIT_MS / 2);
    memcpy(copy, mine, 3 * LARGE);
    if (is_stopped)
        assert_int_equal(kill(rma.child.pid, SIGCONT), 0);
    wait_for_peer(&rma); /* the peer answers after its put has ended */
    assert_memory_equal(copy, mine, 3 * LARGE);
    NA_Mem_handle_free(rma.end.na_class, mem);
    rma_close(&rma, true);
    free(copy);
    free(mine);
}

static void a_put_under_way_leaves_deregistered_memory_alone(void **state)
{
    (void) state;
    if (is_attached())
        test_skip("cross-memory attach: the target is not asked");
    put_and_deregister(false);
}

static void a_stopped_peer_does_not_keep_deregistered_memory(void **state)
{
    (void) state;
    if (is_attached())
        test_skip("cross-memory attach: the target is not asked");
    if (agent_is_used())
        test_skip("MPI's processes are started before: the peer is no child that could be stopped");
    put_and_deregister(true);
}

static void an_endpoint_reaches_its_own_memory(void **state)
{
    uint8_t *other = malloc(BYTES);
    struct rma rma = {.bytes = BYTES};
    na_mem_handle_t *mem;

    (void) state;
    memset(other, 0x77, BYTES);
    end_open(&rma.end, NULL, NULL);
    rma.local = calloc(1, BYTES);
    assert_int_equal(NA_Addr_self(rma.end.na_class, &rma.peer), NA_SUCCESS);
    mem = mem_open(&rma.end, other, BYTES, NA_MEM_READWRITE);
    rma.local_mem = mem_open(&rma.end, rma.local, BYTES, NA_MEM_READWRITE);
    rma.packed_size = NA_Mem_handle_get_serialize_size(rma.end.na_class, mem);
    assert_int_equal(NA_Mem_handle_serialize(rma.end.na_class, rma.packed, rma.packed_size, mem),
                     NA_SUCCESS);
    assert_int_equal(
        NA_Mem_handle_deserialize(rma.end.na_class, &rma.remote_mem, rma.packed, rma.packed_size),
        NA_SUCCESS);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, BYTES), NA_SUCCESS);
    assert_memory_equal(rma.local, other, BYTES);
    memset(rma.local, 0x78, BYTES);
    assert_int_equal(rma_transfer(&rma, true, 1, 1, BYTES - 1), NA_SUCCESS);
    assert_int_equal(other[0], 0x77);
    assert_memory_equal(rma.local + 1, other + 1, BYTES - 1);
    mem_close(&rma.end, mem);
    free(other);
    rma_close(&rma, false);
}

/* Each thread starts transfers and waits for them, so that other threads poll meanwhile. */
static void *transfer_many(void *arg)
{
    struct rma *rma = arg;
    intptr_t failed = 0;

    for (int i = 0; i < 30; i++)
        failed += rma_transfer(rma, false, 0, 0, 100000) != NA_SUCCESS;
    return (void *) failed;
}

static void many_threads_transfer_at_a_time(void **state)
{
    pthread_t threads[4];
    struct rma rmas[4];

    (void) state;
    assert_int_equal(rma_open(&rmas[0], "plain", NA_MEM_READWRITE, BYTES, 1), 0);
    for (int i = 0; i < 4; i++) {
        if (i > 0) { /* the same peer and endpoint, but memory of its own */
            rmas[i] = rmas[0];
            rmas[i].local = calloc(1, BYTES);
            rmas[i].local_mem = mem_open(&rmas[0].end, rmas[i].local, BYTES, NA_MEM_READWRITE);
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
            assert_int_equal(rmas[i].local[j], rma_exposed(j));
        if (i > 0) {
            mem_close(&rmas[0].end, rmas[i].local_mem);
            free(rmas[i].local);
        }
    }
    rma_close(&rmas[0], true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_at_every_offset_is_exact),
        cmocka_unit_test(every_size_in_allocated_memory_is_exact),
        cmocka_unit_test(sixteen_mebibytes_and_a_byte_go_both_ways),
        cmocka_unit_test(pieces_are_one_range),
        cmocka_unit_test(many_in_flight_end_each_for_itself),
        cmocka_unit_test(both_sides_transfer_at_a_time),
        cmocka_unit_test(flags_are_enforced),
        cmocka_unit_test(ranges_are_checked),
        cmocka_unit_test(forged_handles_reach_nothing),
        cmocka_unit_test(deregistered_memory_is_out_of_reach),
        cmocka_unit_test(a_refused_transfer_costs_nobody_else),
        cmocka_unit_test(transfers_under_way_outlive_a_refused_one),
        cmocka_unit_test(a_put_under_way_leaves_deregistered_memory_alone),
        cmocka_unit_test(a_stopped_peer_does_not_keep_deregistered_memory),
        cmocka_unit_test(an_endpoint_reaches_its_own_memory),
        cmocka_unit_test(many_threads_transfer_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
