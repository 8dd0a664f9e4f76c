/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of rings: it is allocated as messages need it; and what happens when there is none. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "sm_test.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS 300 /* more than twice the slots of a ring */
#define LIVES  8

static atomic_bool memory_is_short;

SM_TEST_EXPORT int fallocate(int fd, int mode, off_t offset, off_t size);

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    if (memory_is_short) {
        errno = ENOSPC;
        return -1;
    }
    return (int) syscall(SYS_fallocate, fd, mode, offset, size);
}

static long segment_kb(const char *address)
{
    int fd = sm_memory_of(address);
    struct stat status;

    assert_int_equal(fstat(fd, &status), 0);
    (void) close(fd);
    return (long) status.st_blocks / 2;
}

/* Sends a message, and checks that the peer returns the same. */
static void echo(struct end *end, na_addr_t *peer, uint8_t seed, size_t size)
{
    static uint8_t request[SM_TEST_MESSAGE], reply[SM_TEST_MESSAGE];
    const struct peer_request head = {.command = PEER_ECHO};
    size_t reply_size = sizeof(reply);

    for (size_t i = 0; i < size; i++)
        request[i] = (uint8_t) (i * 7 + seed);
    memcpy(request, &head, sizeof(head));
    assert_int_equal(end_call(end, peer, request, size, reply, &reply_size), NA_SUCCESS);
    assert_int_equal(reply_size, size);
    assert_memory_equal(reply, request, size);
}

static void a_ring_takes_memory_as_it_is_used(void **state)
{
    long before, connected, used;
    struct child child;
    struct end end;
    char own[256];
    na_addr_t *peer;

    (void) state;
    pair_open(&child, &end, &peer, "plain");
    end_address(&end, own, sizeof(own));
    before = segment_kb(own);
    echo(&end, peer, 0, sizeof(struct peer_request));
    connected = segment_kb(own);
    assert_in_range(connected - before, 1, 4);
    assert_in_range(segment_kb(child.address) + connected, 1, 16);
    for (int i = 1; i < ROUNDS; i++)
        echo(&end, peer, (uint8_t) i, sizeof(struct peer_request));
    used = segment_kb(own);
    assert_int_equal(used - before, 16); /* all slots, and nothing for data */
    for (int i = 0; i < ROUNDS; i++)
        echo(&end, peer, (uint8_t) i, 100 + 13 * (size_t) i);
    assert_int_equal(segment_kb(own) - before, 48);
    pair_close(&child, &end, peer);
}

/* The memory of a ring is reused for the next peer, which must not receive old messages. */
static void a_ring_is_used_again(void **state)
{
    long once = 0;
    struct end end;
    char own[256];

    (void) state;
    end_open(&end, NULL, NULL);
    end_address(&end, own, sizeof(own));
    for (int round = 0; round < LIVES; round++) {
        struct child child;
        na_addr_t *peer;

        child_start(&child, NULL, "plain");
        assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
        for (int i = 0; i < ROUNDS / 2 + round; i++)
            echo(&end, peer, (uint8_t) (i + round), 50 + 3 * (size_t) i);
        child_kill(&child);
        NA_Addr_free(end.na_class, peer);
        end_progress(&end, 100);
        if (round == 0)
            once = segment_kb(own);
    }
    /* some memory was reused: a death is detected with a delay */
    assert_true(segment_kb(own) < LIVES * once);
    end_close(&end);
}

/* Without memory a message waits, as if the receiver did not read. */
static void messages_wait_for_memory(void **state)
{
    struct peer_request *requests = calloc(ROUNDS, sizeof(*requests));
    struct event *events = calloc(ROUNDS, sizeof(*events));
    na_op_id_t *ops[ROUNDS];
    struct child child;
    struct end end;
    char said[4096];
    na_addr_t *peer;
    int sent = 0;

    (void) state;
    pair_open(&child, &end, &peer, "plain");
    end_check_peer(&end, peer);
    sm_log_catch("warning");
    memory_is_short = true;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        ops[i] = NA_Op_create(end.na_class, NA_OP_SINGLE);
        requests[i].command = PEER_COUNT;
        requests[i].a = i + 1;
        assert_int_equal(NA_Msg_send_unexpected(end.na_class, end.context, event_callback,
                                                &events[i], &requests[i], sizeof(*requests), NULL,
                                                peer, 0, 0, ops[i]),
                         NA_SUCCESS);
    }
    end_progress(&end, 100);
    sm_log_caught(said, sizeof(said));
    for (int i = 0; i < ROUNDS; i++)
        sent += events[i].done;
    assert_in_range(sent, 1, 40);
    assert_non_null(strstr(said, "cannot be reserved"));
    assert_null(strstr(strstr(said, "cannot be reserved") + 1, "cannot be reserved"));
    memory_is_short = false;
    for (int i = 0; i < ROUNDS; i++) {
        assert_true(event_wait(&end, &events[i], TEST_WAIT_MS));
        assert_int_equal(events[i].ret, NA_SUCCESS);
        NA_Op_destroy(end.na_class, ops[i]);
    }
    assert_int_equal(end_peer_count(&end, peer), ROUNDS);
    pair_close(&child, &end, peer);
    free(requests);
    free(events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_takes_memory_as_it_is_used),
        cmocka_unit_test(a_ring_is_used_again),
        cmocka_unit_test(messages_wait_for_memory),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
