/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of the RPCs in flight to one target: forwards beyond the limit wait in order, and end like
 * any other.
 */
#include "hg_fixture.h"

#include <pthread.h>

enum {
    RPC_NUMBER = 70,
    NUMBERS_MAX = 2000
};

static hg_handle_t kept[NUMBERS_MAX];
static uint32_t numbers[NUMBERS_MAX]; /* in the order of arrival */
static atomic_int arrived, answered, most;

/* How many of the next sends the transport refuses, and with which result. */
static void refuse_some(unsigned int max_in_flight);

static atomic_int refuse_count;
static _Atomic na_return_t refuse_with;

na_return_t __real_NA_Msg_send_unexpected(na_class_t *na_class, na_context_t *context,
                                          na_cb_t callback, void *arg, const void *buf, size_t size,
                                          void *data, na_addr_t *addr, uint8_t id, na_tag_t tag,
                                          na_op_id_t *op);
na_return_t __wrap_NA_Msg_send_unexpected(na_class_t *na_class, na_context_t *context,
                                          na_cb_t callback, void *arg, const void *buf, size_t size,
                                          void *data, na_addr_t *addr, uint8_t id, na_tag_t tag,
                                          na_op_id_t *op);

na_return_t __wrap_NA_Msg_send_unexpected(na_class_t *na_class, na_context_t *context,
                                          na_cb_t callback, void *arg, const void *buf, size_t size,
                                          void *data, na_addr_t *addr, uint8_t id, na_tag_t tag,
                                          na_op_id_t *op)
{
    if (atomic_load(&refuse_count) > 0) {
        atomic_fetch_sub(&refuse_count, 1);
        return atomic_load(&refuse_with);
    }
    return __real_NA_Msg_send_unexpected(na_class, context, callback, arg, buf, size, data, addr,
                                         id, tag, op);
}

/* Keeps the request without a response. */
static hg_return_t handle_number(hg_handle_t handle)
{
    int i = atomic_load(&arrived), now;

    assert_true(i < NUMBERS_MAX);
    assert_int_equal(HG_Get_input(handle, &numbers[i]), HG_SUCCESS);
    (void) HG_Free_input(handle, &numbers[i]);
    kept[i] = handle;
    atomic_store(&arrived, i + 1);
    now = i + 1 - atomic_load(&answered);
    if (now > atomic_load(&most))
        atomic_store(&most, now);
    return HG_SUCCESS;
}

static void answer(int count)
{
    for (int i = 0; i < count; i++) {
        int next = atomic_load(&answered);

        atomic_store(&answered, next + 1);
        assert_int_equal(HG_Respond(kept[next], NULL, NULL, NULL), HG_SUCCESS);
        assert_int_equal(HG_Destroy(kept[next]), HG_SUCCESS);
    }
}

static void flow_open(struct pair *pair, const struct hg_init_info *info)
{
    pair_open(pair, info);
    atomic_store(&arrived, 0);
    atomic_store(&answered, 0);
    atomic_store(&most, 0);
    assert_int_equal(HG_Register(pair->origin.hg_class, RPC_NUMBER, proc_size, NULL, NULL),
                     HG_SUCCESS);
    assert_int_equal(HG_Register(pair->target.hg_class, RPC_NUMBER, proc_size, NULL, handle_number),
                     HG_SUCCESS);
}

/* The ends of forwards, in the order of their callbacks. */
struct ends {
    atomic_int count;
    hg_handle_t handles[NUMBERS_MAX];
    hg_return_t rets[NUMBERS_MAX];
};

static hg_return_t ends_add(const struct hg_cb_info *info)
{
    struct ends *ends = info->arg;
    int i = atomic_load(&ends->count);

    ends->handles[i] = info->info.forward.handle;
    ends->rets[i] = info->ret;
    atomic_store(&ends->count, i + 1);
    return HG_SUCCESS;
}

static hg_handle_t forward_number(const struct pair *pair, hg_addr_t addr, uint32_t number,
                                  unsigned int deadline_ms, struct ends *ends)
{
    hg_handle_t handle;

    assert_int_equal(HG_Create(pair->origin.context, addr, RPC_NUMBER, &handle), HG_SUCCESS);
    assert_int_equal(HG_Set_deadline(handle, deadline_ms), HG_SUCCESS);
    assert_int_equal(HG_Forward(handle, ends_add, ends, &number), HG_SUCCESS);
    return handle;
}

/* Respond to all requests until `count` forwards have ended. */
static void serve_until(const struct pair *pair, const struct ends *ends, int count)
{
    const uint64_t end = now_ms() + WAIT_MS;

    while (atomic_load(&ends->count) < count) {
        pair_progress(pair);
        answer(atomic_load(&arrived) - atomic_load(&answered));
        assert_true(now_ms() < end);
    }
}

static void what_is_beyond_waits_in_order(void **state)
{
    static struct ends ends;
    struct pair pair = {0};
    hg_handle_t handles[20];

    (void) state;
    memset(&ends, 0, sizeof(ends));
    flow_open(&pair, NULL);
    assert_int_equal(HG_Class_get_max_in_flight(pair.origin.hg_class), 0);
    assert_int_equal(HG_Class_set_max_in_flight(pair.origin.hg_class, 3), HG_SUCCESS);
    assert_int_equal(HG_Class_get_max_in_flight(pair.origin.hg_class), 3);
    for (uint32_t i = 0; i < 20; i++)
        handles[i] = forward_number(&pair, pair.addr, i, 0, &ends);
    pair_wait_for(&pair, &arrived, 3);
    pair_run(&pair, 5);
    assert_int_equal(atomic_load(&arrived), 3);
    assert_int_equal(side_ext_counters(&pair.origin).queued_count, 17);
    assert_int_equal(side_ext_counters(&pair.origin).waiting_count, 17);
    answer(1);
    pair_wait_for(&pair, &arrived, 4);
    serve_until(&pair, &ends, 20);
    assert_int_equal(atomic_load(&most), 3);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(numbers[i], i);
        assert_int_equal(ends.rets[i], HG_SUCCESS);
        (void) HG_Destroy(handles[i]);
    }
    assert_int_equal(side_ext_counters(&pair.origin).waiting_count, 0);
    pair_close(&pair);
}

/* The two forwards that waited are never sent; the one behind them is. */
static void deadline_and_cancel_end_who_waits(void **state)
{
    static struct ends ends;
    struct pair pair = {0};
    hg_handle_t handles[4];

    (void) state;
    memset(&ends, 0, sizeof(ends));
    flow_open(&pair, NULL);
    assert_int_equal(HG_Class_set_max_in_flight(pair.origin.hg_class, 1), HG_SUCCESS);
    handles[0] = forward_number(&pair, pair.addr, 0, 5000, &ends);
    handles[1] = forward_number(&pair, pair.addr, 1, 5, &ends);
    handles[2] = forward_number(&pair, pair.addr, 2, 5000, &ends);
    handles[3] = forward_number(&pair, pair.addr, 3, 5000, &ends);
    pair_wait_for(&pair, &arrived, 1);
    assert_int_equal(HG_Cancel(handles[2]), HG_SUCCESS);
    assert_int_equal(HG_Cancel(handles[2]), HG_SUCCESS);
    pair_wait_for(&pair, &ends.count, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ends.rets[i], ends.handles[i] == handles[2] ? HG_CANCELED : HG_TIMEOUT);
    assert_int_equal(side_ext_counters(&pair.origin).waiting_count, 1);
    serve_until(&pair, &ends, 4);
    assert_int_equal(atomic_load(&arrived), 2);
    assert_int_equal(numbers[1], 3);
    assert_int_equal(ends.rets[2], HG_SUCCESS);
    assert_int_equal(ends.rets[3], HG_SUCCESS);
    /* Their handles can be used again. */
    for (int i = 1; i < 3; i++) {
        uint32_t number = 9;

        assert_int_equal(HG_Forward(handles[i], ends_add, &ends, &number), HG_SUCCESS);
    }
    serve_until(&pair, &ends, 6);
    for (int i = 0; i < 4; i++)
        (void) HG_Destroy(handles[i]);
    pair_close(&pair);
}

/* Two equal addresses of one target share a limit. Without a limit all waiting forwards start. */
static void equal_addresses_are_one_target(void **state)
{
    static struct ends ends;
    struct pair pair = {0};
    hg_handle_t handles[8];
    hg_addr_t other;

    (void) state;
    memset(&ends, 0, sizeof(ends));
    flow_open(&pair, NULL);
    other = side_lookup(&pair.origin, &pair.target);
    assert_int_equal(HG_Addr_set_max_in_flight(NULL, other, 2), HG_INVALID_ARG);
    assert_int_equal(HG_Addr_set_max_in_flight(pair.origin.hg_class, HG_ADDR_NULL, 2),
                     HG_INVALID_ARG);
    assert_int_equal(HG_Class_set_max_in_flight(pair.origin.hg_class, HG_MAX_IN_FLIGHT_DEFAULT),
                     HG_INVALID_ARG);
    assert_int_equal(HG_Addr_set_max_in_flight(pair.origin.hg_class, other, 2), HG_SUCCESS);
    for (uint32_t i = 0; i < 8; i++)
        handles[i] = forward_number(&pair, i % 2 ? other : pair.addr, i, 0, &ends);
    pair_wait_for(&pair, &arrived, 2);
    pair_run(&pair, 5);
    assert_int_equal(atomic_load(&arrived), 2);
    assert_int_equal(
        HG_Addr_set_max_in_flight(pair.origin.hg_class, pair.addr, HG_MAX_IN_FLIGHT_DEFAULT),
        HG_SUCCESS);
    pair_wait_for(&pair, &arrived, 8);
    serve_until(&pair, &ends, 8);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(numbers[i], i);
        (void) HG_Destroy(handles[i]);
    }
    (void) HG_Addr_free(pair.origin.hg_class, other);
    pair_close(&pair);
}

/* First the RPC in flight ends, then the waiting ones, each with the error of its own send. */
static void who_waits_for_a_lost_target_fails_in_order(void **state)
{
    enum {
        COUNT = 400
    };
    static struct ends ends;
    struct pair pair = {0};
    hg_handle_t handles[COUNT];

    (void) state;
    memset(&ends, 0, sizeof(ends));
    flow_open(&pair, NULL);
    HG_Set_log_level("none");
    assert_int_equal(HG_Class_set_max_in_flight(pair.origin.hg_class, 1), HG_SUCCESS);
    for (uint32_t i = 0; i < COUNT; i++)
        handles[i] = forward_number(&pair, pair.addr, i, i % 2 ? 60000 : 0, &ends);
    pair_wait_for(&pair, &arrived, 1);
    atomic_store(&refuse_with, NA_HOSTUNREACH);
    atomic_store(&refuse_count, COUNT);
    answer(1);
    pair_wait_for(&pair, &ends.count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(ends.rets[i], i == 0 ? HG_SUCCESS : HG_HOSTUNREACH);
        assert_ptr_equal(ends.handles[i], handles[i]);
        (void) HG_Destroy(handles[i]);
    }
    assert_int_equal(atomic_load(&refuse_count), 1);
    atomic_store(&refuse_count, 0);
    HG_Set_log_level("warning");
    pair_close(&pair);
}

/*
 * Progress tries a forward again that the transport refused for lack of resources, and the order
 * stays.
 */
static void who_is_refused_stays_the_first(void **state)
{
    (void) state;
    refuse_some(1);
}

/* All forwards that the limit lets start together are refused. */
static void several_that_are_refused_keep_their_order(void **state)
{
    (void) state;
    refuse_some(3);
}

static void refuse_some(unsigned int max_in_flight)
{
    static struct ends ends;
    struct pair pair = {0};
    hg_handle_t handles[9];

    memset(&ends, 0, sizeof(ends));
    flow_open(&pair, NULL);
    assert_int_equal(HG_Class_set_max_in_flight(pair.origin.hg_class, max_in_flight), HG_SUCCESS);
    for (uint32_t i = 0; i < 9; i++)
        handles[i] = forward_number(&pair, pair.addr, i, i % 2 ? 60000 : 0, &ends);
    pair_wait_for(&pair, &arrived, (int) max_in_flight);
    atomic_store(&refuse_with, NA_AGAIN);
    /* fewer than the forwards that wait: the refusals do not reach all of them */
    atomic_store(&refuse_count, 3);
    serve_until(&pair, &ends, 9);
    assert_int_equal(atomic_load(&refuse_count), 0);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(numbers[i], i);
        assert_int_equal(ends.rets[i], HG_SUCCESS);
        (void) HG_Destroy(handles[i]);
    }
    pair_close(&pair);
}

/*
 * The transport refuses the forward at the head of the queue, which is then cancelled. The next
 * forward is of another context, which has nothing to try again and has to learn that it may start.
 */
static void cancel_of_who_is_refused_lets_the_next_go(void **state)
{
    static struct ends ends;
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0}, other;
    hg_handle_t handles[3];

    (void) state;
    memset(&ends, 0, sizeof(ends));
    info.na_init_info.max_contexts = 2;
    flow_open(&pair, &info);
    other = pair;
    other.origin.context = HG_Context_create(pair.origin.hg_class);
    assert_non_null(other.origin.context);
    assert_int_equal(HG_Class_set_max_in_flight(pair.origin.hg_class, 1), HG_SUCCESS);
    for (uint32_t i = 0; i < 3; i++)
        handles[i] = forward_number(i < 2 ? &pair : &other, pair.addr, i, 0, &ends);
    pair_wait_for(&pair, &arrived, 1);
    atomic_store(&refuse_with, NA_AGAIN);
    atomic_store(&refuse_count, 1);
    answer(1);
    while (atomic_load(&refuse_count) > 0)
        pair_progress(&pair);
    assert_int_equal(HG_Cancel(handles[1]), HG_SUCCESS);
    pair_wait_for(&other, &arrived, 2);
    answer(1);
    pair_wait_for(&pair, &ends.count, 2);
    pair_wait_for(&other, &ends.count, 3);
    for (uint32_t i = 0; i < 3; i++)
        (void) HG_Destroy(handles[i]);
    assert_int_equal(HG_Context_destroy(other.origin.context), HG_SUCCESS);
    pair_close(&pair);
}

/*
 * The failing HG_Context_destroy() takes half a second, so that the test runs over one transport
 * only.
 */
static void context_with_waiting_forwards_is_busy(void **state)
{
    static struct ends ends;
    struct pair pair = {0};
    hg_handle_t handles[3];

    (void) state;
    if (!test_is_loop())
        test_skip("the same over all transports; tried over one");
    memset(&ends, 0, sizeof(ends));
    flow_open(&pair, NULL);
    assert_int_equal(HG_Class_set_max_in_flight(pair.origin.hg_class, 1), HG_SUCCESS);
    for (uint32_t i = 0; i < 3; i++)
        handles[i] = forward_number(&pair, pair.addr, i, 0, &ends);
    HG_Set_log_level("none");
    assert_int_equal(HG_Context_destroy(pair.origin.context), HG_BUSY);
    HG_Set_log_level("warning");
    serve_until(&pair, &ends, 3);
    for (int i = 0; i < 3; i++)
        (void) HG_Destroy(handles[i]);
    pair_close(&pair);
}

/* Threads that each have a context of their own, and one target for all of them. */

enum {
    THREADS = 3,
    ROUNDS = 60,
    WINDOW = 6
};

struct load {
    struct pair *pair;
    hg_context_t *context;
    pthread_t thread;
    int number;
};

static void *load_run(void *arg)
{
    struct load *load = arg;
    const uint32_t number = (uint32_t) load->number;

    for (int round = 0; round < ROUNDS; round++) {
        struct outcome outcomes[WINDOW] = {{0}};
        hg_handle_t handles[WINDOW];

        for (int i = 0; i < WINDOW; i++) {
            uint32_t in = number;

            assert_int_equal(HG_Create(load->context, load->pair->addr, RPC_NULL, &handles[i]),
                             HG_SUCCESS);
            assert_int_equal(HG_Set_deadline(handles[i], i == 3 ? 1 : 0), HG_SUCCESS);
            while (HG_Forward(handles[i], outcome_set, &outcomes[i], &in) == HG_AGAIN)
                (void) HG_Progress(load->context, 0);
        }
        assert_int_equal(HG_Cancel(handles[round % WINDOW]), HG_SUCCESS);
        if (load->number == 0)
            (void) HG_Class_set_max_in_flight(load->pair->origin.hg_class,
                                              (unsigned int) (round % 5));
        for (int i = 0; i < WINDOW; i++) {
            while (atomic_load(&outcomes[i].count) == 0) {
                (void) HG_Progress(load->context, 5);
                (void) HG_Trigger(load->context, 0, 10, NULL);
            }
            assert_true(outcomes[i].ret == HG_SUCCESS ||
                        (i == 3 && outcomes[i].ret == HG_TIMEOUT) ||
                        (i == round % WINDOW && outcomes[i].ret == HG_CANCELED));
            (void) HG_Destroy(handles[i]);
        }
    }
    return NULL;
}

static atomic_bool is_over;

static void *serve(void *arg)
{
    while (!atomic_load(&is_over)) {
        (void) HG_Progress(arg, 5);
        (void) HG_Trigger(arg, 0, 10, NULL);
    }
    return NULL;
}

static void threads_share_a_limit(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct load loads[THREADS] = {{0}};
    struct pair pair = {0};
    pthread_t target;

    (void) state;
    info.na_init_info.max_contexts = THREADS;
    pair_open(&pair, &info);
    assert_int_equal(HG_Class_set_max_in_flight(pair.origin.hg_class, 2), HG_SUCCESS);
    atomic_store(&is_over, false);
    assert_int_equal(pthread_create(&target, NULL, serve, pair.target.context), 0);
    for (int i = 0; i < THREADS; i++) {
        loads[i].pair = &pair;
        loads[i].number = i;
        loads[i].context = i == 0 ? pair.origin.context : HG_Context_create(pair.origin.hg_class);
        assert_non_null(loads[i].context);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&loads[i].thread, NULL, load_run, &loads[i]), 0);
    for (int i = 0; i < THREADS; i++)
        (void) pthread_join(loads[i].thread, NULL);
    atomic_store(&is_over, true);
    (void) pthread_join(target, NULL);
    assert_int_equal(side_ext_counters(&pair.origin).waiting_count, 0);
    assert_true(side_ext_counters(&pair.origin).queued_count > 0);
    for (int i = 1; i < THREADS; i++)
        assert_int_equal(HG_Context_destroy(loads[i].context), HG_SUCCESS);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_beyond_waits_in_order),
        cmocka_unit_test(deadline_and_cancel_end_who_waits),
        cmocka_unit_test(equal_addresses_are_one_target),
        cmocka_unit_test(who_waits_for_a_lost_target_fails_in_order),
        cmocka_unit_test(who_is_refused_stays_the_first),
        cmocka_unit_test(several_that_are_refused_keep_their_order),
        cmocka_unit_test(cancel_of_who_is_refused_lets_the_next_go),
        cmocka_unit_test(context_with_waiting_forwards_is_busy),
        cmocka_unit_test(threads_share_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
