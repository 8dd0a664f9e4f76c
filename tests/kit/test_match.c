/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching of messages and receives, deferred messages, and refusals for lack of memory. */

#include "kit_match.h"

#include "../kit/plugin_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MESSAGE 64u /* the largest unexpected message */
#define MANY    1000u

/* An operation of a plugin, and the completions that the core received. */
struct op {
    struct kit_recv recv;
    uint8_t buf[4 * MESSAGE];
    uint32_t completions;
    int32_t status;
    uint32_t messages; /* taken by a multi-receive */
    uint32_t tags[8];
    uint64_t sizes[8];
    bool is_over;
};

struct fixture {
    struct kit_match match;
    struct kit_deferrals deferrals;
};

/* Each peer is a reference count. */
static int32_t peers[2];
static uint32_t refusals;
static bool is_memory_short;
static struct na_host host;

static struct na_plugin_addr *peer_addr(uint32_t index)
{
    return (struct na_plugin_addr *) (void *) &peers[index];
}

static void peer_release(struct na_plugin_addr *peer)
{
    --*(int32_t *) (void *) peer;
}

static void complete_recv(void *op_p, int32_t status, uint64_t size, struct na_plugin_addr *source,
                          uint32_t tag)
{
    struct op *op = op_p;

    assert_null(op->recv.match); /* a later cancel does not find the receive */
    op->completions++;
    op->status = status;
    op->tags[0] = tag;
    op->sizes[0] = size;
    op->is_over = true;
    if (source != NULL)
        peer_release(source); /* as the core does when the program has freed the source */
}

static int32_t complete_multi(void *op_p, int32_t status, void *buf, uint64_t size,
                              struct na_plugin_addr *source, uint32_t tag, uint32_t last)
{
    struct op *op = op_p;

    if (refusals != 0) {
        refusals--;
        return NA_PLUGIN_NOMEM;
    }
    assert_in_range((uint64_t) ((uint8_t *) buf - op->buf), 0, sizeof(op->buf) - MESSAGE);
    assert_int_equal(((uint8_t *) buf)[0], (uint8_t) tag);
    assert_false(op->is_over);
    assert_true((op->recv.match == NULL) == (last != 0));
    op->status = status;
    op->tags[op->messages] = tag;
    op->sizes[op->messages++] = size;
    op->is_over = last != 0;
    peer_release(source);
    return NA_PLUGIN_SUCCESS;
}

static void *allocate(uint64_t size, uint64_t align)
{
    return is_memory_short ? NULL : plugin_host.mem_alloc(size, align);
}

static int open_match(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    if (fixture == NULL)
        return -1;
    host = plugin_host;
    host.op_complete_recv = complete_recv;
    host.op_complete_multi_recv = complete_multi;
    host.mem_alloc = allocate;
    kit_host = &host;
    peers[0] = peers[1] = 0;
    fixture->deferrals.bytes_max = 65536;
    kit_match_open(&fixture->match, &fixture->deferrals, MESSAGE, peer_release);
    *state = fixture;
    return 0;
}

/* Removes the receives that a test has not completed, since they are on its stack. */
static void take_all(struct fixture *fixture)
{
    struct kit_link taken;

    kit_list_init(&taken);
    kit_match_take_if(&fixture->match, NULL, NULL, &taken);
}

/* The teardown of each test: no memory is left, and each reference was released once. */
static int close_match(void **state)
{
    struct fixture *fixture = *state;

    is_memory_short = false;
    refusals = 0;
    assert_true(kit_list_empty(&fixture->match.receives));
    kit_match_drop(&fixture->match);
    assert_int_equal(fixture->match.expected, 0);
    assert_int_equal(fixture->deferrals.count, 0);
    assert_int_equal(fixture->deferrals.bytes, 0);
    assert_int_equal(peers[0], 0);
    assert_int_equal(peers[1], 0);
    kit_match_close(&fixture->match);
    kit_deferrals_free(&fixture->deferrals);
    free(fixture);
    return 0;
}

static void post(struct fixture *fixture, struct op *op, enum kit_recv_kind kind, uint64_t size)
{
    memset(op, 0, sizeof(*op));
    op->recv.buf = op->buf;
    op->recv.size = size;
    kit_match_post(&fixture->match, &op->recv, kind);
    (void) kit_match_dispatch(&fixture->match);
}

static void post_expected(struct fixture *fixture, struct op *op, uint32_t peer, uint32_t source_id,
                          uint32_t tag)
{
    memset(op, 0, sizeof(*op));
    assert_int_equal(
        kit_match_post_expected(&fixture->match, &op->recv, &peers[peer], source_id, tag),
        NA_PLUGIN_SUCCESS);
}

static const struct kit_recv *arrive_expected(struct fixture *fixture, uint32_t peer,
                                              uint32_t source_id, uint32_t tag)
{
    return kit_match_expected(&fixture->match, &peers[peer], source_id, tag);
}

/* Dispatches a message as a plugin does. False: it remains in the network. */
static bool arrive(struct fixture *fixture, uint32_t peer, uint32_t tag, uint32_t size)
{
    struct kit_recv *recv;
    uint8_t *place;

    (void) kit_match_dispatch(&fixture->match);
    recv = kit_match_unexpected(&fixture->match);
    peers[peer]++;
    if (recv == NULL) {
        place = kit_match_defer(&fixture->match, peer_addr(peer), tag, size);
        if (place == NULL)
            peers[peer]--;
        else
            memset(place, (uint8_t) tag, size);
        return place != NULL;
    }
    if (recv->kind == KIT_RECV_UNEXPECTED) {
        kit_match_remove(&fixture->match, recv);
        memset(recv->buf, (uint8_t) tag, size);
        complete_recv(recv, NA_PLUGIN_SUCCESS, size, peer_addr(peer), tag);
        return true;
    }
    memset(kit_match_place(recv), (uint8_t) tag, size);
    if (kit_match_complete_multi(&fixture->match, recv, peer_addr(peer), tag, size) ==
        NA_PLUGIN_SUCCESS)
        return true;
    peers[peer]--;
    return false;
}

static void an_expected_message_goes_to_the_oldest_receive_of_its_kind(void **state)
{
    struct fixture *fixture = *state;
    struct op op[6];

    post_expected(fixture, &op[0], 0, 0, 7);
    post_expected(fixture, &op[1], 0, 0, 7);
    post_expected(fixture, &op[2], 0, 1, 7);
    post_expected(fixture, &op[3], 1, 0, 7);
    post_expected(fixture, &op[4], 0, 0, 8);
    assert_int_equal(kit_match_expected_count(&fixture->match), 5);
    assert_null(arrive_expected(fixture, 1, 1, 7));
    assert_int_equal(fixture->match.dropped, 1);
    assert_ptr_equal(arrive_expected(fixture, 0, 0, 8), &op[4].recv);
    assert_ptr_equal(arrive_expected(fixture, 0, 1, 7), &op[2].recv);
    assert_ptr_equal(arrive_expected(fixture, 0, 0, 7), &op[0].recv);
    post_expected(fixture, &op[5], 0, 0, 7);
    assert_ptr_equal(arrive_expected(fixture, 0, 0, 7), &op[1].recv);
    assert_ptr_equal(arrive_expected(fixture, 0, 0, 7), &op[5].recv);
    assert_null(arrive_expected(fixture, 0, 0, 7));
    assert_ptr_equal(arrive_expected(fixture, 1, 0, 7), &op[3].recv);
    assert_int_equal(kit_match_expected_count(&fixture->match), 0);
}

/* The hash table grows twice during the test. */
static void many_receives_keep_their_order(void **state)
{
    struct fixture *fixture = *state;
    struct op *op = calloc(MANY, sizeof(*op));

    assert_non_null(op);
    for (uint32_t i = 0; i < MANY; i++)
        post_expected(fixture, &op[i], i % 2, 0, i / 20);
    assert_true(fixture->match.bucket_count >= MANY);
    for (uint32_t i = 0; i < MANY; i++)
        assert_ptr_equal(arrive_expected(fixture, i % 2, 0, i / 20), &op[i].recv);
    free(op);
}

static void deferred_messages_go_first(void **state)
{
    struct fixture *fixture = *state;
    struct op op[3];

    for (uint32_t tag = 1; tag <= 3; tag++)
        assert_true(arrive(fixture, tag % 2, tag, tag));
    assert_int_equal(fixture->deferrals.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        post(fixture, &op[i], KIT_RECV_UNEXPECTED, MESSAGE);
        assert_int_equal(op[i].completions, 1);
        assert_int_equal(op[i].tags[0], i + 1);
        assert_int_equal(op[i].sizes[0], i + 1);
        assert_int_equal(op[i].buf[i], i + 1);
        assert_int_equal(op[i].buf[i + 1], 0);
    }
    post(fixture, &op[0], KIT_RECV_UNEXPECTED, MESSAGE);
    post(fixture, &op[1], KIT_RECV_UNEXPECTED, MESSAGE);
    assert_true(arrive(fixture, 0, 4, 1));
    assert_true(arrive(fixture, 0, 5, 1));
    assert_int_equal(op[0].tags[0], 4);
    assert_int_equal(op[1].tags[0], 5);
}

static void a_deferred_message_that_is_too_long_ends_its_receive(void **state)
{
    struct fixture *fixture = *state;
    struct op op;

    assert_true(arrive(fixture, 0, 1, MESSAGE));
    post(fixture, &op, KIT_RECV_UNEXPECTED, MESSAGE - 1);
    assert_int_equal(op.completions, 1);
    assert_int_equal(op.status, NA_PLUGIN_MSGSIZE);
    assert_int_equal(op.buf[0], 0);
}

static void a_multi_receive_ends_when_a_message_may_not_fit(void **state)
{
    struct fixture *fixture = *state;
    struct op op;

    assert_true(arrive(fixture, 0, 1, 3));
    post(fixture, &op, KIT_RECV_MULTI, 2 * MESSAGE);
    assert_int_equal(op.messages, 1);
    for (uint32_t tag = 2; tag <= 8; tag++)
        assert_true(arrive(fixture, 1, tag, 8));
    assert_int_equal(op.messages, 8);
    assert_false(op.is_over); /* 64 of the 128 bytes are left */
    op.messages = 0;
    assert_true(arrive(fixture, 1, 9, 1));
    assert_true(op.is_over);
    assert_true(arrive(fixture, 1, 10, 1)); /* deferred: the buffer belongs to the program again */
    assert_int_equal(op.messages, 1);
    assert_int_equal(fixture->deferrals.count, 1);
}

/* A message larger than this endpoint's maximum may not fit what is left of a multi-receive. */
static void a_multi_receive_takes_no_larger_message(void **state)
{
    struct fixture *fixture = *state;
    struct op op;

    assert_true(arrive(fixture, 0, 1, MESSAGE + 1));
    assert_true(arrive(fixture, 0, 2, 1));
    post(fixture, &op, KIT_RECV_MULTI, 2 * MESSAGE);
    assert_int_equal(op.messages, 1);
    assert_int_equal(op.tags[0], 2);
    assert_int_equal(fixture->match.dropped, 1);
    take_all(fixture);
}

static void what_the_core_has_no_memory_for_stays_in_order(void **state)
{
    struct fixture *fixture = *state;
    struct op op, next;

    post(fixture, &op, KIT_RECV_MULTI, 2 * MESSAGE - 8);
    refusals = 1;
    /* it would have been the last message of the receive */
    assert_false(arrive(fixture, 0, 1, MESSAGE));
    assert_int_equal(op.recv.used, 0);
    assert_ptr_equal(kit_match_find(&fixture->match, &op), &op.recv);
    peers[0]++;
    memset(kit_match_defer(&fixture->match, peer_addr(0), 1, MESSAGE), 1, MESSAGE);
    assert_true(kit_match_is_pending(&fixture->match));
    refusals = 2;
    assert_int_equal(kit_match_dispatch(&fixture->match), 0);
    assert_true(arrive(fixture, 0, 2, 1)); /* deferred behind the first message */
    assert_int_equal(op.messages, 0);
    assert_int_equal(kit_match_dispatch(&fixture->match), 1);
    assert_int_equal(op.tags[0], 1);
    assert_true(op.is_over);
    assert_false(kit_match_is_pending(&fixture->match));
    post(fixture, &next, KIT_RECV_UNEXPECTED, MESSAGE);
    assert_int_equal(next.tags[0], 2);
}

/* Each message counts with its overhead, so that small ones exhaust the budget, too. A minimum
 * number is deferred whatever the budget. */
static void deferred_messages_have_a_budget(void **state)
{
    struct fixture *fixture = *state;
    struct op op;
    uint32_t count = 0;

    while (arrive(fixture, 0, count, 1))
        count++;
    assert_in_range(count, KIT_DEFERRED_MIN, fixture->deferrals.bytes_max / 256);
    assert_false(kit_deferrals_have_room(&fixture->deferrals, 1));
    assert_true(fixture->deferrals.bytes <= fixture->deferrals.bytes_max);
    post(fixture, &op, KIT_RECV_UNEXPECTED, MESSAGE);
    assert_int_equal(op.tags[0], 0);
    assert_true(arrive(fixture, 1, count, 1));
    assert_false(arrive(fixture, 1, count, 1));
    kit_match_drop(&fixture->match);

    fixture->deferrals.bytes_max = 0;
    for (count = 0; arrive(fixture, 0, count, 4096); count++)
        ;
    assert_int_equal(count, KIT_DEFERRED_MIN);
}

static void a_receive_is_found_until_it_ends(void **state)
{
    struct fixture *fixture = *state;
    struct op op[3], other = {0};
    struct kit_match elsewhere = {0};

    post(fixture, &op[0], KIT_RECV_UNEXPECTED, MESSAGE);
    post(fixture, &op[1], KIT_RECV_MULTI, MESSAGE);
    post_expected(fixture, &op[2], 0, 0, 1);
    assert_null(kit_match_find(&fixture->match, &other));
    assert_null(kit_match_find_trusted(&fixture->match, &other));
    for (uint32_t i = 0; i < 3; i++) {
        assert_ptr_equal(kit_match_find(&fixture->match, &op[i]), &op[i].recv);
        assert_ptr_equal(kit_match_find_trusted(&fixture->match, &op[i]), &op[i].recv);
        assert_null(kit_match_find_trusted(&elsewhere, &op[i]));
        kit_match_remove(&fixture->match, &op[i].recv);
        assert_null(kit_match_find(&fixture->match, &op[i]));
        assert_null(kit_match_find_trusted(&fixture->match, &op[i]));
    }
    assert_int_equal(kit_match_expected_count(&fixture->match), 0);
    assert_true(arrive(fixture, 0, 1, 1)); /* matches none of the removed receives */
    assert_int_equal(fixture->deferrals.count, 1);
}

static bool is_of_first_peer(struct kit_recv *recv, void *arg)
{
    ++*(uint32_t *) arg;
    return recv->kind == KIT_RECV_EXPECTED && recv->source == &peers[0];
}

static void receives_are_taken_by_choice(void **state)
{
    struct fixture *fixture = *state;
    struct op op[5];
    struct kit_link taken;
    uint32_t seen = 0;

    kit_list_init(&taken);
    post(fixture, &op[0], KIT_RECV_UNEXPECTED, MESSAGE);
    for (uint32_t i = 1; i < 5; i++)
        post_expected(fixture, &op[i], i % 2, 0, 1);
    kit_match_take_if(&fixture->match, is_of_first_peer, &seen, &taken);
    assert_int_equal(seen, 5);
    assert_ptr_equal(taken.next, &op[2].recv.link);
    assert_ptr_equal(taken.next->next, &op[4].recv.link);
    assert_ptr_equal(taken.prev, &op[4].recv.link);
    assert_int_equal(kit_match_expected_count(&fixture->match), 2);
    kit_match_take_if(&fixture->match, NULL, NULL, &taken);
    assert_ptr_equal(taken.next->next->next, &op[0].recv.link);
    assert_int_equal(kit_match_expected_count(&fixture->match), 0);
}

static void without_memory_it_says_so(void **state)
{
    struct fixture *fixture = *state;
    struct op op = {0}, *more = calloc(MANY, sizeof(*more));

    assert_non_null(more);
    is_memory_short = true;
    assert_int_equal(kit_match_post_expected(&fixture->match, &op.recv, &peers[0], 0, 1),
                     NA_PLUGIN_NOMEM);
    assert_int_equal(kit_match_expected_count(&fixture->match), 0);
    assert_false(arrive(fixture, 0, 1, 1));
    is_memory_short = false;
    post_expected(fixture, &op, 0, 0, 1);
    is_memory_short = true; /* the table cannot grow, and still works */
    for (uint32_t i = 0; i < MANY; i++)
        post_expected(fixture, &more[i], 1, i % (MANY / 2), i / (MANY / 2));
    for (uint32_t i = MANY; i-- > 0;)
        assert_ptr_equal(arrive_expected(fixture, 1, i % (MANY / 2), i / (MANY / 2)),
                         &more[i].recv);
    assert_ptr_equal(arrive_expected(fixture, 0, 0, 1), &op.recv);
    free(more);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_match, close_match)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_expected_message_goes_to_the_oldest_receive_of_its_kind),
        TEST(many_receives_keep_their_order),
        TEST(deferred_messages_go_first),
        TEST(a_deferred_message_that_is_too_long_ends_its_receive),
        TEST(a_multi_receive_ends_when_a_message_may_not_fit),
        TEST(a_multi_receive_takes_no_larger_message),
        TEST(what_the_core_has_no_memory_for_stays_in_order),
        TEST(deferred_messages_have_a_budget),
        TEST(a_receive_is_found_until_it_ends),
        TEST(receives_are_taken_by_choice),
        TEST(without_memory_it_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
