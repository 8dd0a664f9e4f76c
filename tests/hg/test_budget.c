/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Budgets for inputs and outputs that do not fit a message. A payload beyond the budget waits or is
 * refused, and every byte that was charged is released.
 */
#include "hg_fixture.h"

#include "bulk/bulk_internal.h"
#include "hg/class.h"
#include "hg/context.h"
#include "hg/handle.h"

#include <stdio.h>
#include <sys/mman.h>

/* Bytes that the budget is charged for an input of size_of() bytes: whole pages. */
static hg_size_t unit_of(const struct pair *pair)
{
    return (pair_large(pair) + 200 + 4095) / 4096 * 4096;
}

/*
 * Size of the i-th input, 0 <= i <= 100. The sizes differ, so that a received input can be
 * identified, but all are charged the same.
 */
static uint32_t size_of(const struct pair *pair, int i)
{
    return (uint32_t) unit_of(pair) - 200 + (uint32_t) i;
}

static void set_budget(const struct side *side, hg_size_t class_bytes, hg_size_t peer_bytes)
{
    assert_int_equal(HG_Class_set_overflow_budget(side->hg_class, class_bytes, peer_bytes),
                     HG_SUCCESS);
}

static void wait_for_counter(const struct pair *pair, const struct side *side,
                             const uint64_t *counter, const struct hg_ext_counters *counters,
                             uint64_t value)
{
    const uint64_t end = now_ms() + WAIT_MS;
    const size_t offset = (size_t) ((const char *) counter - (const char *) counters);
    uint64_t now = 0;

    do {
        const struct hg_ext_counters read = side_ext_counters(side);

        memcpy(&now, (const char *) &read + offset, sizeof(now));
        if (now == value)
            break;
        pair_progress(pair);
    } while (now_ms() < end);
    assert_int_equal(now, value);
}

/* Progress until a field of a side's struct hg_ext_counters has the value. */
#define WAIT_FOR(pair, side, field, value)                           \
    do {                                                             \
        const struct hg_ext_counters any = {0};                      \
                                                                     \
        wait_for_counter((pair), (side), &any.field, &any, (value)); \
    } while (0)

/* A forward of an input that does not fit a message. */
struct call {
    hg_handle_t handle;
    struct outcome outcome;
    struct blob in;
};

static void call_start(struct call *call, const struct side *origin, hg_addr_t addr, hg_id_t id,
                       uint32_t size)
{
    memset(call, 0, sizeof(*call));
    assert_int_equal(HG_Create(origin->context, addr, id, &call->handle), HG_SUCCESS);
    blob_make(&call->in, size, 1);
    assert_int_equal(HG_Forward(call->handle, outcome_set, &call->outcome, &call->in), HG_SUCCESS);
}

static void call_end(const struct pair *pair, struct call *call, hg_return_t ret)
{
    pair_wait_for(pair, &call->outcome.count, 1);
    assert_int_equal(call->outcome.ret, ret);
    free(call->in.data);
    (void) HG_Destroy(call->handle);
}

/*
 * Polls until `held` requests are held and the other ones of `count` wait for room. A response
 * makes room once it is sent, and the receiver may have it before its sender knows that.
 */
static void wait_for_all(const struct pair *pair, int count, int held)
{
    const uint64_t end = now_ms() + WAIT_MS;
    uint64_t waiting = 0;

    do {
        pair_progress(pair);
        waiting = side_ext_counters(&pair->target).overflow_waiting_count;
    } while ((pair->target.held_count + (int) waiting < count || pair->target.held_count < held) &&
             now_ms() < end);
    assert_int_equal(pair->target.held_count + (int) waiting, count);
    assert_int_equal(pair->target.held_count, held);
}

/* Value of a metric in the side's text for Prometheus. */
static int prometheus_value(const struct side *side, const char *name)
{
    static char text[65536];
    hg_size_t size = sizeof(text);
    char sample[128];
    const char *at;

    assert_int_equal(HG_Class_get_prometheus(side->hg_class, "x", text, &size), HG_SUCCESS);
    assert_in_range(snprintf(sample, sizeof(sample), "\n%s{", name), 1, sizeof(sample) - 1);
    at = strstr(text, sample);
    assert_non_null(at);
    at = strchr(at, ' ');
    assert_non_null(at);
    return atoi(at + 1);
}

/* Respond to the first held handle. */
static void respond_first(struct side *side)
{
    struct blob none = {0, NULL};
    hg_handle_t handle = side->held[0];

    side->held_count--;
    memmove(side->held, side->held + 1, (size_t) side->held_count * sizeof(side->held[0]));
    assert_int_equal(HG_Respond(handle, NULL, NULL, &none), HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

/* All charges were released; the target releases its last one when its response is sent. */
static void check_released(const struct pair *pair)
{
    WAIT_FOR(pair, &pair->target, overflow_bytes, 0);
    WAIT_FOR(pair, &pair->origin, overflow_bytes, 0);
    assert_null(hg_rpc_class(pair->target.hg_class)->in_budget.first);
    assert_null(hg_rpc_class(pair->origin.hg_class)->out_budget.first);
}

static void inputs_beyond_the_budget_of_a_peer_wait_their_turn(void **state)
{
    enum {
        CALLS = 6
    };
    struct pair pair = {0};
    struct call calls[CALLS];
    hg_size_t unit;

    (void) state;
    pair_open(&pair, NULL);
    unit = unit_of(&pair);
    set_budget(&pair.target, 100 * unit, 2 * unit);
    for (int i = 0; i < CALLS; i++)
        call_start(&calls[i], &pair.origin, pair.addr, RPC_HOLD, size_of(&pair, i));
    wait_for_all(&pair, CALLS, 2);
    assert_int_equal(side_ext_counters(&pair.target).overflow_bytes, 2 * unit);
    for (int i = 0; i < CALLS; i++) {
        const int left = CALLS - i;

        wait_for_all(&pair, left, left < 2 ? left : 2);
        assert_int_equal(HG_Get_input_payload_size(pair.target.held[0]),
                         size_of(&pair, i) + BLOB_OVERHEAD);
        respond_first(&pair.target);
        call_end(&pair, &calls[i], HG_SUCCESS);
    }
    assert_int_equal(side_ext_counters(&pair.target).overflow_queued_count, CALLS - 2);
    assert_int_equal(side_ext_counters(&pair.target).overflow_refused_count, 0);
    check_released(&pair);
    pair_close(&pair);
}

/* The program releases the input buffer while it keeps the request. */
static void input_that_is_released_counts_no_more(void **state)
{
    struct pair pair = {0};
    struct call calls[2];

    (void) state;
    pair_open(&pair, NULL);
    set_budget(&pair.target, unit_of(&pair), unit_of(&pair));
    for (int i = 0; i < 2; i++)
        call_start(&calls[i], &pair.origin, pair.addr, RPC_HOLD, size_of(&pair, i));
    wait_for_all(&pair, 2, 1);
    assert_int_equal(HG_Release_input_buf(pair.target.held[0]), HG_SUCCESS);
    pair_wait_held(&pair, &pair.target, 2);
    respond_first(&pair.target);
    respond_first(&pair.target);
    for (int i = 0; i < 2; i++)
        call_end(&pair, &calls[i], HG_SUCCESS);
    check_released(&pair);
    pair_close(&pair);
}

/*
 * The first peer has used all of its share, and more inputs of it wait; a second peer still gets
 * its share.
 */
static void peer_that_waits_does_not_hold_up_others(void **state)
{
    struct pair pair = {0};
    struct side other = {0};
    struct call calls[5];
    hg_addr_t addr;
    hg_size_t unit;

    (void) state;
    pair_open(&pair, NULL);
    side_open(&other, NULL);
    addr = side_lookup(&other, &pair.target);
    unit = unit_of(&pair);
    set_budget(&pair.target, 8 * unit, 0);
    /* The first four use half of the budget, which is the share of a peer; the fifth waits. */
    for (int i = 0; i < 5; i++)
        call_start(&calls[i], &pair.origin, pair.addr, RPC_HOLD, size_of(&pair, i));
    wait_for_all(&pair, 5, 4);
    {
        struct call call;
        struct pair others = {.origin = other, .target = pair.target, .addr = addr};
        const uint64_t end = now_ms() + WAIT_MS;

        call_start(&call, &other, addr, RPC_ECHO, size_of(&pair, 0));
        while (atomic_load(&call.outcome.count) == 0 && now_ms() < end)
            pair_progress(&others);
        call_end(&others, &call, HG_SUCCESS);
    }
    assert_int_equal(pair.target.held_count, 4);
    for (int i = 0; i < 5; i++) {
        pair_wait_held(&pair, &pair.target, 1);
        respond_first(&pair.target);
        call_end(&pair, &calls[i], HG_SUCCESS);
    }
    check_released(&pair);
    assert_int_equal(HG_Addr_free(other.hg_class, addr), HG_SUCCESS);
    side_close(&other);
    pair_close(&pair);
}

static void input_larger_than_the_budget_is_refused(void **state)
{
    struct pair pair = {0};
    struct call call;

    (void) state;
    pair_open(&pair, NULL);
    set_budget(&pair.target, 0, pair_large(&pair));
    call_start(&call, &pair.origin, pair.addr, RPC_ECHO, pair_large(&pair) + 1);
    call_end(&pair, &call, HG_MSGSIZE);
    /* The origin of a one-way RPC gets this error as well, although it waits for no response. */
    call_start(&call, &pair.origin, pair.addr, RPC_ONEWAY, pair_large(&pair) + 1);
    call_end(&pair, &call, HG_MSGSIZE);
    assert_int_equal(side_ext_counters(&pair.target).overflow_refused_count, 2);
    assert_int_equal(prometheus_value(&pair.target, "amalgam_rpc_overflows_refused_total"), 2);
    assert_int_equal(atomic_load(&pair.target.handled), 0);
    set_budget(&pair.target, pair_large(&pair), 0);
    call_start(&call, &pair.origin, pair.addr, RPC_ECHO, pair_large(&pair) + 1);
    call_end(&pair, &call, HG_MSGSIZE);
    set_budget(&pair.target, 0, 0);
    pair_echo(&pair, pair_large(&pair));
    check_released(&pair);
    pair_close(&pair);
}

/* The target answers a small request with an output larger than the origin's budget. */
static void output_larger_than_the_budget_is_refused(void **state)
{
    struct pair pair = {0};
    uint32_t size;
    hg_handle_t handle;

    (void) state;
    pair_open(&pair, NULL);
    size = pair_large(&pair);
    set_budget(&pair.origin, size, size);
    handle = pair_create(&pair, RPC_FILL);
    assert_int_equal(pair_call(&pair, handle, &size), HG_MSGSIZE);
    pair_wait_for(&pair, &pair.target.responded, 1);
    assert_int_equal(pair.target.respond_ret, HG_MSGSIZE);
    assert_int_equal(side_ext_counters(&pair.origin).overflow_refused_count, 1);
    set_budget(&pair.origin, size + 4096, 0);
    assert_int_equal(pair_call(&pair, handle, &size), HG_SUCCESS);
    (void) HG_Destroy(handle);
    check_released(&pair);
    pair_close(&pair);
}

/*
 * With the default budget no input is too large, but inputs beyond the budget are taken one at a
 * time.
 */
static void larger_ones_are_taken_one_at_a_time_by_default(void **state)
{
    struct pair pair = {0};
    struct call calls[3];
    hg_size_t unit;

    (void) state;
    pair_open(&pair, NULL);
    unit = unit_of(&pair);
    hg_budget_set(&hg_rpc_class(pair.target.hg_class)->in_budget, 8 * unit, unit, 0);
    for (int i = 0; i < 3; i++)
        call_start(&calls[i], &pair.origin, pair.addr, RPC_HOLD, 20 * size_of(&pair, 0));
    for (int i = 0; i < 3; i++) {
        wait_for_all(&pair, 3 - i, 1);
        respond_first(&pair.target);
        call_end(&pair, &calls[i], HG_SUCCESS);
    }
    check_released(&pair);
    pair_close(&pair);
}

static void wait_for_the_budget_ends_by_the_overflow_timeout(void **state)
{
    struct pair pair = {0};
    struct call calls[3];

    (void) state;
    pair_open(&pair, NULL);
    set_budget(&pair.target, unit_of(&pair), 0);
    call_start(&calls[0], &pair.origin, pair.addr, RPC_HOLD, size_of(&pair, 0));
    pair_wait_held(&pair, &pair.target, 1);
    assert_int_equal(HG_Class_set_overflow_timeout(pair.target.hg_class, 50), HG_SUCCESS);
    call_start(&calls[1], &pair.origin, pair.addr, RPC_HOLD, size_of(&pair, 1));
    call_end(&pair, &calls[1], HG_TIMEOUT);
    call_start(&calls[2], &pair.origin, pair.addr, RPC_ONEWAY, size_of(&pair, 2));
    call_end(&pair, &calls[2], HG_TIMEOUT);
    assert_int_equal(pair.target.held_count, 1);
    assert_int_equal(HG_Class_set_overflow_timeout(pair.target.hg_class, 0), HG_SUCCESS);
    call_start(&calls[1], &pair.origin, pair.addr, RPC_HOLD, size_of(&pair, 1));
    wait_for_all(&pair, 2, 1);
    respond_first(&pair.target);
    call_end(&pair, &calls[0], HG_SUCCESS);
    pair_wait_held(&pair, &pair.target, 1);
    respond_first(&pair.target);
    call_end(&pair, &calls[1], HG_SUCCESS);
    check_released(&pair);
    pair_close(&pair);
}

static void more_than_may_wait_are_refused(void **state)
{
    struct pair pair = {0};
    struct call calls[3];

    (void) state;
    pair_open(&pair, NULL);
    set_budget(&pair.target, unit_of(&pair), 0);
    hg_rpc_class(pair.target.hg_class)->in_budget.peer_waiting_max = 1;
    call_start(&calls[0], &pair.origin, pair.addr, RPC_HOLD, size_of(&pair, 0));
    pair_wait_held(&pair, &pair.target, 1);
    call_start(&calls[1], &pair.origin, pair.addr, RPC_HOLD, size_of(&pair, 1));
    wait_for_all(&pair, 2, 1);
    call_start(&calls[2], &pair.origin, pair.addr, RPC_HOLD, size_of(&pair, 2));
    call_end(&pair, &calls[2], HG_AGAIN);
    assert_int_equal(side_ext_counters(&pair.target).overflow_refused_count, 1);
    respond_first(&pair.target);
    call_end(&pair, &calls[0], HG_SUCCESS);
    pair_wait_held(&pair, &pair.target, 1);
    respond_first(&pair.target);
    call_end(&pair, &calls[1], HG_SUCCESS);
    check_released(&pair);
    pair_close(&pair);
}

/* Charge 1000 bytes to a budget of the origin, in the name of the target. */
static void budget_occupy(struct pair *pair, struct hg_budget *budget, struct hg_budget_wait *wait)
{
    const struct hg_class_path *path = &pair->origin.hg_class->paths[HG_PATH_MAIN];
    bool is_waiting = true;

    memset(wait, 0, sizeof(*wait));
    assert_int_equal(hg_budget_enter(budget, path->na_class, pair->addr->na_addr[HG_PATH_MAIN],
                                     1000, wait, 0, &is_waiting),
                     HG_SUCCESS);
    assert_false(is_waiting);
}

static void output_that_waits_can_be_cancelled_and_has_a_deadline(void **state)
{
    struct pair pair = {0};
    struct outcome outcome = {0};
    struct hg_budget_wait wait;
    struct hg_budget *budget;
    uint32_t size;
    hg_handle_t handle;
    struct blob out;

    (void) state;
    pair_open(&pair, NULL);
    budget = &hg_rpc_class(pair.origin.hg_class)->out_budget;
    size = pair_large(&pair);
    set_budget(&pair.origin, unit_of(&pair), 0);
    budget_occupy(&pair, budget, &wait);
    handle = pair_create(&pair, RPC_FILL);

    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &size), HG_SUCCESS);
    WAIT_FOR(&pair, &pair.origin, overflow_waiting_count, 1);
    assert_int_equal(outcome.count, 0);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(&pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_CANCELED);
    pair_wait_for(&pair, &pair.target.responded, 1);

    assert_int_equal(HG_Set_deadline(handle, 100), HG_SUCCESS);
    assert_int_equal(pair_call(&pair, handle, &size), HG_TIMEOUT);
    assert_int_equal(HG_Set_deadline(handle, 0), HG_SUCCESS);

    assert_int_equal(HG_Class_set_overflow_timeout(pair.origin.hg_class, 50), HG_SUCCESS);
    assert_int_equal(pair_call(&pair, handle, &size), HG_TIMEOUT);
    assert_int_equal(
        HG_Class_set_overflow_timeout(pair.origin.hg_class, HG_OVERFLOW_TIMEOUT_DEFAULT),
        HG_SUCCESS);

    atomic_store(&outcome.count, 0);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &size), HG_SUCCESS);
    WAIT_FOR(&pair, &pair.origin, overflow_waiting_count, 1);
    hg_budget_leave(&wait.charge);
    pair_wait_for(&pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    assert_int_equal(HG_Get_output(handle, &out), HG_SUCCESS);
    blob_check(&out, size, 9);
    (void) HG_Free_output(handle, &out);
    (void) HG_Destroy(handle);
    check_released(&pair);
    pair_close(&pair);
}

static void context_with_inputs_that_wait_can_be_destroyed(void **state)
{
    struct pair pair = {0};
    struct hg_budget_wait wait;
    struct call call;
    const uint64_t end = now_ms() + WAIT_MS;

    (void) state;
    pair_open(&pair, NULL);
    set_budget(&pair.target, unit_of(&pair), 0);
    {
        const struct hg_class_path *path = &pair.target.hg_class->paths[HG_PATH_MAIN];
        hg_addr_t self;
        bool is_waiting = true;

        assert_int_equal(HG_Addr_self(pair.target.hg_class, &self), HG_SUCCESS);
        memset(&wait, 0, sizeof(wait));
        assert_int_equal(hg_budget_enter(&hg_rpc_class(pair.target.hg_class)->in_budget,
                                         path->na_class, self->na_addr[HG_PATH_MAIN], 1000, &wait,
                                         0, &is_waiting),
                         HG_SUCCESS);
        assert_int_equal(HG_Addr_free(pair.target.hg_class, self), HG_SUCCESS);
    }
    call_start(&call, &pair.origin, pair.addr, RPC_ECHO, size_of(&pair, 0));
    assert_int_equal(HG_Set_deadline(call.handle, 0), HG_SUCCESS);
    WAIT_FOR(&pair, &pair.target, overflow_waiting_count, 1);
    assert_int_equal(HG_Context_destroy(pair.target.context), HG_SUCCESS);
    hg_budget_leave(&wait.charge);
    assert_null(hg_rpc_class(pair.target.hg_class)->in_budget.first);
    (void) HG_Cancel(call.handle);
    while (atomic_load(&call.outcome.count) == 0 && now_ms() < end)
        side_progress(&pair.origin);
    assert_int_equal(atomic_load(&call.outcome.count), 1);
    assert_int_not_equal(call.outcome.ret, HG_SUCCESS);
    free(call.in.data);
    (void) HG_Destroy(call.handle);
    assert_int_equal(HG_Addr_free(pair.origin.hg_class, pair.addr), HG_SUCCESS);
    side_close(&pair.origin);
    assert_int_equal(HG_Finalize(pair.target.hg_class), HG_SUCCESS);
}

/* Progress until the target has freed all memory of large inputs and outputs. */
static void wait_for_no_bulks(const struct pair *pair)
{
    hg_class_t *hg_class = pair->target.hg_class;
    uint64_t end = now_ms() + WAIT_MS;

    hg_blocks_drain(hg_class);
    while (atomic_load(&hg_class->bulk->count) > 0 && now_ms() < end) {
        pair_progress(pair);
        hg_blocks_drain(hg_class);
    }
    assert_int_equal(atomic_load(&hg_class->bulk->count), 0);
}

/*
 * The origin makes no progress while the target fetches its inputs. If the transport needs the
 * origin's progress for that, the requests end by the overflow time-out, and the memory fetched so
 * far is freed.
 */
static void inputs_of_an_origin_that_stops_leave_nothing_behind(void **state)
{
    enum {
        CALLS = 4
    };
    struct pair pair = {0};
    struct call calls[CALLS];
    uint64_t end;

    (void) state;
    pair_open(&pair, NULL);
    pair_echo(&pair, pair_large(&pair));
    wait_for_no_bulks(&pair);
    assert_int_equal(HG_Class_set_overflow_timeout(pair.target.hg_class, 200), HG_SUCCESS);
    for (int i = 0; i < CALLS; i++)
        call_start(&calls[i], &pair.origin, pair.addr, RPC_ONEWAY, 12u << 20);
    end = now_ms() + WAIT_MS;
    while (side_counters(&pair.target).rpc_req_recv_count < 1 + CALLS && now_ms() < end)
        pair_progress(&pair);
    /* The origin makes no progress for 600 ms. */
    end = now_ms() + 600;
    while (now_ms() < end)
        side_progress(&pair.target);
    for (int i = 0; i < CALLS; i++) {
        pair_wait_for(&pair, &calls[i].outcome.count, 1);
        assert_true(calls[i].outcome.ret == HG_SUCCESS || calls[i].outcome.ret == HG_TIMEOUT);
        free(calls[i].in.data);
        (void) HG_Destroy(calls[i].handle);
    }
    check_released(&pair);
    wait_for_no_bulks(&pair);
    pair_close(&pair);
}

/*
 * The fetch ended by a time-out, but the transport still holds the memory: the memory is charged,
 * but its pages are returned to the system.
 */
static void what_the_transport_keeps_counts_but_holds_no_pages(void **state)
{
    static unsigned char pages[(12u << 20) / 4096];
    const hg_size_t size = sizeof(pages) * 4096;
    struct pair pair = {0};
    struct hg_budget_wait wait;
    struct hg_block *block;
    hg_class_t *hg_class;
    hg_bulk_t sink;
    void *memory;

    (void) state;
    pair_open(&pair, NULL);
    hg_class = pair.origin.hg_class;
    set_budget(&pair.origin, 2 * size, 0);
    budget_occupy(&pair, &hg_rpc_class(hg_class)->in_budget, &wait);
    block = hg_block_get(hg_class, HG_BLOCK_SINK, size);
    assert_non_null(block);
    block->charge = wait.charge;
    memory = block->memory;
    assert_int_equal(hg_block_describe(block, &sink), HG_SUCCESS);
    memset(memory, 1, (size_t) size);
    /* Stands for a transfer that the transport has not completed. */
    assert_int_equal(HG_Bulk_ref_incr(sink), HG_SUCCESS);
    atomic_fetch_add(&sink->in_use, 1);
    hg_block_put(block);
    assert_int_equal(mincore(memory, (size_t) size, pages), 0);
    for (size_t i = 0; i < sizeof(pages); i++)
        assert_int_equal(pages[i] & 1, 0);
    assert_true(side_ext_counters(&pair.origin).overflow_bytes > 0);
    memset(memory, 2, 100); /* the transport may still write */
    atomic_fetch_sub(&sink->in_use, 1);
    assert_int_equal(HG_Bulk_free(sink), HG_SUCCESS);
    assert_int_equal(side_ext_counters(&pair.origin).overflow_bytes, 0);
    pair_close(&pair);
}

static void bad_arguments_are_refused(void **state)
{
    (void) state;
    assert_int_equal(HG_Class_set_overflow_budget(NULL, 1, 1), HG_INVALID_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_beyond_the_budget_of_a_peer_wait_their_turn),
        cmocka_unit_test(input_that_is_released_counts_no_more),
        cmocka_unit_test(peer_that_waits_does_not_hold_up_others),
        cmocka_unit_test(input_larger_than_the_budget_is_refused),
        cmocka_unit_test(output_larger_than_the_budget_is_refused),
        cmocka_unit_test(larger_ones_are_taken_one_at_a_time_by_default),
        cmocka_unit_test(wait_for_the_budget_ends_by_the_overflow_timeout),
        cmocka_unit_test(more_than_may_wait_are_refused),
        cmocka_unit_test(output_that_waits_can_be_cancelled_and_has_a_deadline),
        cmocka_unit_test(context_with_inputs_that_wait_can_be_destroyed),
        cmocka_unit_test(inputs_of_an_origin_that_stops_leave_nothing_behind),
        cmocka_unit_test(what_the_transport_keeps_counts_but_holds_no_pages),
        cmocka_unit_test(bad_arguments_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
