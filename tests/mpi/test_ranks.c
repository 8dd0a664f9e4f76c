/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets that are emulated with messages. This process is rank 1 of two, or a job of its
 * own; rank 0, or the other job, runs transport_peer. The tests check the data, that a cancel in
 * any phase completes at once, that memory is not touched afterwards, and that forged handles are
 * refused.
 */

#include "transport/transport_rma.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES    4000003u
#define SCRIBBLE 0xEEu
#define NAP_MS   1500u

static struct rma rma;

/* Returns the address of the peer: of another job, or of rank 0, which is derived from this rank's
 * address. */
static void peer_address(const struct end *end, char *address, size_t size)
{
    const char *given = getenv("AMALGAM_TEST_PEER_ADDRESS");
    char *rank;

    if (given != NULL) {
        (void) snprintf(address, size, "%s", given);
        return;
    }
    end_address(end, address, size);
    rank = strstr(address, "://");
    assert_non_null(rank);
    assert_int_equal(rank[3], '1');
    (void) strcpy(rank, "://0");
}

static na_addr_t *peer_lookup(struct end *end)
{
    char address[512];
    na_addr_t *peer;

    peer_address(end, address, sizeof(address));
    assert_int_equal(NA_Addr_lookup(end->na_class, address, &peer), NA_SUCCESS);
    return peer;
}

static int setup(void **state)
{
    (void) state;
    memset(&rma, 0, sizeof(rma));
    rma.bytes = BYTES;
    end_open(&rma.end, NULL, NULL);
    rma.peer = peer_lookup(&rma.end);
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

static void messages_of_all_sizes(void **state)
{
    size_t max = NA_Msg_get_max_unexpected_size(rma.end.na_class);
    uint8_t *out = malloc(max), *in = malloc(max);

    (void) state;
    assert_true(out != NULL && in != NULL);
    for (size_t size = sizeof(struct peer_request); size <= max;
         size = size < max && 2 * size > max ? max : 2 * size) {
        struct peer_request request = {.command = PEER_ECHO};
        size_t got = max;

        for (size_t i = 0; i < size; i++)
            out[i] = (uint8_t) (i * 31 + size);
        memcpy(out, &request, sizeof(request));
        assert_int_equal(end_call(&rma.end, rma.peer, out, size, in, &got), NA_SUCCESS);
        assert_int_equal(got, size);
        assert_memory_equal(in, out, size);
        if (size == max)
            break;
    }
    free(out);
    free(in);
}

static void puts_and_gets(void **state)
{
    static const size_t sizes[] = {1, 7, 4096, 65536, 262143, 262144, 262145, 1048577, BYTES - 9};

    (void) state;
    assert_int_equal(rma_expose(&rma, NA_MEM_READWRITE, 1), 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(rma.local, SCRIBBLE, BYTES);
        assert_int_equal(rma_transfer(&rma, false, 5, 9, sizes[i]), NA_SUCCESS);
        for (size_t k = 0; k < BYTES; k++)
            if (rma.local[k] !=
                (k >= 5 && k < 5 + sizes[i] ? rma_exposed(k + 4) : (uint8_t) SCRIBBLE))
                fail_msg("byte %zu of a get of %zu is wrong", k, sizes[i]);
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t before = rma_remote_sum(&rma), expected = before;

        for (size_t k = 0; k < sizes[i]; k++) {
            rma.local[3 + k] = (uint8_t) (k * 11 + i);
            expected += rma.local[3 + k];
        }
        /* The memory contains the data of the last put, and otherwise the initial bytes. */
        for (size_t k = 0; k < sizes[i]; k++)
            expected -= i > 0 && k < sizes[i - 1] ? (uint8_t) (k * 11 + i - 1) : rma_exposed(k + 2);
        assert_int_equal(rma_transfer(&rma, true, 3, 2, sizes[i]), NA_SUCCESS);
        assert_int_equal(rma_remote_sum(&rma), expected);
    }
}

/* The peer transfers, too: both sides are origin and target at once. */
static void the_peer_transfers(void **state)
{
    (void) state;
    for (uint32_t is_put = 0; is_put < 2; is_put++) {
        union {
            struct peer_request request;
            uint8_t bytes[1024];
        } message = {.request = {.command = PEER_TRANSFER, .a = is_put, .b = BYTES, .c = 77}};
        uint64_t reply[2] = {1, 0};
        size_t reply_size = sizeof(reply), size;

        for (size_t i = 0; i < BYTES; i++)
            rma.local[i] = (uint8_t) (i % 251);
        size = NA_Mem_handle_get_serialize_size(rma.end.na_class, rma.local_mem);
        assert_true(sizeof(message.request) + size <= sizeof(message));
        assert_int_equal(NA_Mem_handle_serialize(rma.end.na_class,
                                                 message.bytes + sizeof(message.request), size,
                                                 rma.local_mem),
                         NA_SUCCESS);
        assert_int_equal(end_call(&rma.end, rma.peer, message.bytes, sizeof(message.request) + size,
                                  reply, &reply_size),
                         NA_SUCCESS);
        assert_int_equal(reply[0], NA_SUCCESS);
        assert_int_equal(rma_local_sum(&rma), is_put != 0 ? UINT64_C(77) * BYTES : reply[1]);
    }
}

/* Cancels a transfer after `polls` polls and `ms` milliseconds. Returns the status of the
 * operation. */
static na_return_t cancel_after(bool is_put, unsigned int polls, unsigned int ms)
{
    na_op_id_t *op = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
    struct event event = {0};
    uint64_t begin;

    memset(rma.local, is_put ? 2 : 1, BYTES);
    assert_int_equal((is_put ? NA_Put : NA_Get)(rma.end.na_class, rma.end.context, event_callback,
                                                &event, rma.local_mem, 0, rma.remote_mem, 0, BYTES,
                                                rma.peer, 0, op),
                     NA_SUCCESS);
    for (unsigned int i = 0; i < polls && atomic_load(&event.done) == 0; i++)
        end_progress(&rma.end, 0);
    if (ms != 0)
        (void) event_wait(&rma.end, &event, ms);
    begin = now_ms();
    assert_int_equal(NA_Cancel(rma.end.na_class, rma.end.context, op), NA_SUCCESS);
    assert_true(event_wait(&rma.end, &event, TEST_WAIT_MS));
    /* A cancel does not wait for the target. */
    if (event.ret == NA_CANCELED)
        assert_true(now_ms() - begin < NAP_MS);
    memset(rma.local, SCRIBBLE, BYTES); /* the transport must not access the buffer any more */
    assert_int_equal(event.done, 1);
    NA_Op_destroy(rma.end.na_class, op);
    return event.ret;
}

/* No byte written to the local buffer after the end reached the target, and none from the target
 * arrived there. */
static void check_left_alone(void)
{
    end_progress(&rma.end, 20);
    for (size_t i = 0; i < BYTES; i++)
        if (rma.local[i] != SCRIBBLE)
            fail_msg("byte %zu was written after the end", i);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, BYTES), NA_SUCCESS);
    for (size_t i = 0; i < BYTES; i++)
        if (rma.local[i] != 2 && rma.local[i] != rma_exposed(i))
            fail_msg("byte %zu at the target is %u, which no put should have written", i,
                     rma.local[i]);
    memset(rma.local, SCRIBBLE, BYTES);
}

static void cancelled_at_every_phase(void **state)
{
    unsigned int ended[2] = {0};

    (void) state;
    assert_int_equal(rma_expose(&rma, NA_MEM_READWRITE, 1), 0);
    for (unsigned int i = 0; i < 80; i++) {
        unsigned int polls = i / 2 < 20 ? i / 2 : (i / 2 - 20) * 40;
        na_return_t ret = cancel_after(i % 2 != 0, polls, i < 40 ? 0 : (i - 40) / 4);

        assert_true(ret == NA_CANCELED || ret == NA_SUCCESS);
        ended[ret == NA_CANCELED]++;
        if (i % 8 == 7)
            check_left_alone();
    }
    print_message("%u of 80 were cancelled\n", ended[1]);
    assert_true(ended[1] > 0);
    check_left_alone();
}

/* A cancel after the last piece has no effect. */
static void cancelled_after_the_end(void **state)
{
    (void) state;
    for (int is_put = 0; is_put < 2; is_put++)
        assert_int_equal(cancel_after(is_put != 0, 0, TEST_WAIT_MS), NA_SUCCESS);
    check_left_alone();
}

/* The target does not progress for a while; a cancelled operation completes nevertheless. */
static void cancelled_while_the_target_sleeps(void **state)
{
    (void) state;
    for (unsigned int i = 0; i < 4; i++) {
        assert_int_equal(end_command(&rma.end, rma.peer, PEER_NAP, NAP_MS, 0, 0, NULL, NULL),
                         NA_SUCCESS);
        end_progress(&rma.end, 50);
        assert_int_equal(cancel_after(i % 2 != 0, i < 2 ? 0 : 50, 0), NA_CANCELED);
        check_left_alone();
    }
}

/* The target deregisters its memory during a transfer: the rest fails, and a new handle works. */
static void deregistered_in_the_middle(void **state)
{
    (void) state;
    for (unsigned int i = 0; i < 20; i++) {
        struct peer_request reply;
        size_t size = sizeof(reply);
        na_op_id_t *op = NA_Op_create(rma.end.na_class, NA_OP_SINGLE);
        struct event event = {0};

        assert_int_equal((i % 2 != 0 ? NA_Put : NA_Get)(rma.end.na_class, rma.end.context,
                                                        event_callback, &event, rma.local_mem, 0,
                                                        rma.remote_mem, 0, BYTES, rma.peer, 0, op),
                         NA_SUCCESS);
        assert_int_equal(end_command(&rma.end, rma.peer, PEER_HIDE, 0, 0, 0, &reply, &size),
                         NA_SUCCESS);
        assert_true(event_wait(&rma.end, &event, TEST_WAIT_MS));
        NA_Op_destroy(rma.end.na_class, op);
        assert_int_not_equal(rma_transfer(&rma, i % 2 != 0, 0, 0, 100), NA_SUCCESS);
        assert_int_equal(rma_expose(&rma, NA_MEM_READWRITE, 1), 0);
        memset(rma.local, 1, BYTES);
        assert_int_equal(rma_transfer(&rma, false, 0, 0, BYTES), NA_SUCCESS);
        for (size_t k = 0; k < BYTES; k++)
            if (rma.local[k] != rma_exposed(k))
                fail_msg("byte %zu is wrong", k);
    }
}

/* Handles with one flipped bit give no access to memory beyond the peer's region. */
static void forged_handles(void **state)
{
    uint64_t before;

    (void) state;
    assert_int_equal(rma_expose(&rma, NA_MEM_READWRITE, 1), 0);
    before = rma_remote_sum(&rma);
    memset(rma.local, 0, BYTES);
    for (size_t i = 0; i < rma.packed_size * 8; i++) {
        na_mem_handle_t *forged = NULL;

        rma.packed[i / 8] ^= (uint8_t) (1u << i % 8);
        if (NA_Mem_handle_deserialize(rma.end.na_class, &forged, rma.packed, rma.packed_size) ==
            NA_SUCCESS) {
            na_mem_handle_t *good = rma.remote_mem;

            rma.remote_mem = forged;
            /* The range is out of bounds, so that even the true handle is refused. */
            assert_int_not_equal(rma_transfer(&rma, i % 2 != 0, 0, BYTES - 5, 10), NA_SUCCESS);
            assert_int_not_equal(rma_transfer(&rma, i % 2 == 0, 0, SIZE_MAX - 5, 10), NA_SUCCESS);
            rma.remote_mem = good;
            NA_Mem_handle_free(rma.end.na_class, forged);
        }
        rma.packed[i / 8] ^= (uint8_t) (1u << i % 8);
    }
    assert_int_equal(rma_remote_sum(&rma), before);
    for (size_t i = 0; i < BYTES; i++)
        if (rma.local[i] != 0)
            fail_msg("byte %zu was read with a forged handle", i);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, BYTES), NA_SUCCESS);
}

/* The peer checks the flags of its own region. */
static void access_flags(void **state)
{
    (void) state;
    assert_int_equal(rma_expose(&rma, NA_MEM_READ_ONLY, 1), 0);
    assert_int_equal(rma_transfer(&rma, true, 0, 0, 100), NA_PERMISSION);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, 100), NA_SUCCESS);
    assert_int_equal(rma_expose(&rma, NA_MEM_WRITE_ONLY, 1), 0);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, 100), NA_PERMISSION);
    assert_int_equal(rma_transfer(&rma, true, 0, 0, 100), NA_SUCCESS);
    assert_int_equal(rma_expose(&rma, NA_MEM_READWRITE, 1), 0);
}

/* Other endpoints of this rank are opened and closed; none of them gets a message for another
 * one. */
static void endpoints_come_and_go(void **state)
{
    struct end ends[3];

    (void) state;
    for (unsigned int round = 0; round < 20; round++) {
        for (unsigned int i = 0; i < 3; i++) {
            na_addr_t *peer;

            end_open(&ends[i], NULL, NULL);
            peer = peer_lookup(&ends[i]);
            end_check_peer(&ends[i], peer);
            NA_Addr_free(ends[i].na_class, peer);
        }
        for (unsigned int i = 0; i < 3; i++) {
            na_addr_t *next = end_lookup(&ends[i], &ends[(i + 1) % 3]);

            assert_int_equal(end_send(&ends[i], next, "hello", 5, i, false), NA_SUCCESS);
            NA_Addr_free(ends[i].na_class, next);
        }
        end_check_peer(&rma.end, rma.peer);
        for (unsigned int i = 0; i < 3; i++)
            end_close(&ends[i]);
    }
}

static void wrong_addresses(void **state)
{
    static const char *const ranks[] = {"", "x", "-1", "0/", "0/x", "0x", "0/99999999", "7", "2"};
    static const char *const ports[] = {"", "x", "#0", "a#", "a#x", "a#0x", "a#99999999"};
    bool is_dynamic = strstr(test_init_string(), "+dynamic") != NULL;
    const char *const *wrong = is_dynamic ? ports : ranks;
    size_t count = is_dynamic ? sizeof(ports) / sizeof(ports[0]) : sizeof(ranks) / sizeof(ranks[0]);
    char address[128];
    na_addr_t *addr;

    (void) state;
    for (size_t i = 0; i < count; i++) {
        (void) snprintf(address, sizeof(address), "%.60s://%s", test_init_string(), wrong[i]);
        assert_int_not_equal(NA_Addr_lookup(rma.end.na_class, address, &addr), NA_SUCCESS);
    }
    (void) snprintf(address, sizeof(address), "%.60s://somewhere:1", test_init_string());
    assert_null(NA_Initialize(address, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_all_sizes),
        cmocka_unit_test(puts_and_gets),
        cmocka_unit_test(the_peer_transfers),
        cmocka_unit_test(cancelled_at_every_phase),
        cmocka_unit_test(cancelled_after_the_end),
        cmocka_unit_test(cancelled_while_the_target_sleeps),
        cmocka_unit_test(deregistered_in_the_middle),
        cmocka_unit_test(forged_handles),
        cmocka_unit_test(access_flags),
        cmocka_unit_test(endpoints_come_and_go),
        cmocka_unit_test(wrong_addresses),
    };

    int failed = cmocka_run_group_tests(tests, setup, teardown);
    const char *path = getenv("AMALGAM_TEST_RESULT");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;

    if (file != NULL) {
        (void) fprintf(file, "%d\n", failed);
        (void) fclose(file);
    }
    return failed;
}
