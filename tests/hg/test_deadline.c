/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deadlines of forwards and responses: in time and too late, with a transport that does not
 * complete a cancelled operation, with sleeping threads, and with late responses.
 */
#include "hg_fixture.h"

#include "na_ext.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

/*
 * The linker wraps these functions of NA. While `cancel_is_deaf` is set, NA_Cancel() does nothing.
 * A send that `swallow` takes never reaches the transport and does not complete before
 * swallow_end().
 */
static atomic_bool cancel_is_deaf;
static struct {
    bool is_on;
    na_op_id_t *op;
    na_cb_t callback;
    void *arg;
} swallow;

na_return_t __real_NA_Cancel(na_class_t *, na_context_t *, na_op_id_t *);
na_return_t __wrap_NA_Cancel(na_class_t *, na_context_t *, na_op_id_t *);
bool __real_NA_Op_set_callback(na_class_t *, na_context_t *, na_op_id_t *, na_cb_t, void *);
bool __wrap_NA_Op_set_callback(na_class_t *, na_context_t *, na_op_id_t *, na_cb_t, void *);

na_return_t __wrap_NA_Cancel(na_class_t *na_class, na_context_t *context, na_op_id_t *op)
{
    if (atomic_load(&cancel_is_deaf) || (op != NULL && op == swallow.op))
        return NA_SUCCESS;
    return __real_NA_Cancel(na_class, context, op);
}

bool __wrap_NA_Op_set_callback(na_class_t *na_class, na_context_t *context, na_op_id_t *op,
                               na_cb_t callback, void *arg)
{
    if (op != swallow.op || op == NULL)
        return __real_NA_Op_set_callback(na_class, context, op, callback, arg);
    swallow.callback = callback;
    swallow.arg = arg;
    return true;
}

#define WRAP_SEND(function)                                                                      \
    na_return_t __real_##function(na_class_t *, na_context_t *, na_cb_t, void *, const void *,   \
                                  size_t, void *, na_addr_t *, uint8_t, na_tag_t, na_op_id_t *); \
    na_return_t __wrap_##function(na_class_t *, na_context_t *, na_cb_t, void *, const void *,   \
                                  size_t, void *, na_addr_t *, uint8_t, na_tag_t, na_op_id_t *); \
    na_return_t __wrap_##function(na_class_t *c, na_context_t *context, na_cb_t callback,        \
                                  void *arg, const void *buf, size_t size, void *data,           \
                                  na_addr_t *dest, uint8_t id, na_tag_t tag, na_op_id_t *op)     \
    {                                                                                            \
        if (!swallow.is_on)                                                                      \
            return __real_##function(c, context, callback, arg, buf, size, data, dest, id, tag,  \
                                     op);                                                        \
        swallow.is_on = false;                                                                   \
        swallow.op = op;                                                                         \
        swallow.callback = callback;                                                             \
        swallow.arg = arg;                                                                       \
        return NA_SUCCESS;                                                                       \
    }

WRAP_SEND(NA_Msg_send_unexpected)
WRAP_SEND(NA_Msg_send_expected)

/* The transport completes the swallowed send at last. */
static void swallow_end(na_return_t ret)
{
    struct na_cb_info info;

    memset(&info, 0, sizeof(info));
    info.arg = swallow.arg;
    info.type = NA_CB_SEND_EXPECTED;
    info.ret = ret;
    swallow.op = NULL;
    swallow.callback(&info);
}

static void sleep_ms(unsigned int ms)
{
    (void) usleep(ms * 1000u);
}

static hg_handle_t forward_held(struct pair *pair, struct outcome *outcome, unsigned int ms)
{
    hg_handle_t handle = pair_create(pair, RPC_HOLD);
    struct blob in;

    blob_make(&in, 16, 1);
    assert_int_equal(HG_Set_deadline(handle, ms), HG_SUCCESS);
    assert_int_equal(HG_Get_deadline(handle), ms);
    assert_int_equal(HG_Forward(handle, outcome_set, outcome, &in), HG_SUCCESS);
    free(in.data);
    return handle;
}

/* One call of progress and one of trigger are enough for the RPC to end. */
static void ends_now(const struct side *side, const struct outcome *outcome, hg_return_t ret)
{
    unsigned int count = 0;

    /* On a slow machine, an earlier call may have ended the RPC already. */
    if (atomic_load(&outcome->count) == 0) {
        assert_int_equal(HG_Progress(side->context, 0), HG_SUCCESS);
        assert_int_equal(HG_Trigger(side->context, 0, 10, &count), HG_SUCCESS);
    }
    assert_int_equal(atomic_load(&outcome->count), 1);
    assert_int_equal(outcome->ret, ret);
}

static void setters_check_their_object(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_NULL);

    assert_int_equal(HG_Set_deadline(HG_HANDLE_NULL, 1), HG_INVALID_ARG);
    assert_int_equal(HG_Class_set_default_deadline(NULL, 1), HG_INVALID_ARG);
    assert_int_equal(HG_Class_set_overflow_timeout(NULL, 1), HG_INVALID_ARG);
    assert_int_equal(HG_Get_deadline(handle), 0);
    assert_int_equal(HG_Get_deadline(HG_HANDLE_NULL), 0);
    assert_int_equal(HG_Class_get_default_deadline(pair->origin.hg_class), 0);
    assert_int_equal(HG_Class_get_default_deadline(NULL), 0);
    (void) HG_Destroy(handle);
}

static void answer_in_time_is_no_timeout(void **state)
{
    struct pair *pair = *state;
    uint64_t timeouts = side_ext_counters(&pair->origin).timeout_count;
    hg_handle_t handle = pair_create(pair, RPC_ECHO);

    assert_int_equal(HG_Set_deadline(handle, 20000), HG_SUCCESS);
    for (int i = 0; i < 200; i++) {
        struct blob in, out;

        blob_make(&in, i % 10 == 0 ? pair_large(pair) : 20, (uint8_t) i);
        assert_int_equal(pair_call(pair, handle, &in), HG_SUCCESS);
        assert_int_equal(HG_Get_output(handle, &out), HG_SUCCESS);
        blob_check(&out, in.size, (uint8_t) i);
        (void) HG_Free_output(handle, &out);
        free(in.data);
    }
    (void) HG_Destroy(handle);
    assert_int_equal(side_ext_counters(&pair->origin).timeout_count, timeouts);
}

static void rpc_ends_when_its_time_is_over(void **state)
{
    struct pair *pair = *state;
    uint64_t timeouts = side_ext_counters(&pair->origin).timeout_count;
    struct outcome outcome = {0};
    uint64_t start = now_ms();
    hg_handle_t handle = forward_held(pair, &outcome, 100);
    uint64_t latest = now_ms() + 100;
    struct blob out;

    pair_wait_held(pair, &pair->target, 1);
    while (now_ms() < start + 100) {
        assert_int_equal(atomic_load(&outcome.count), 0);
        pair_progress(pair);
    }
    while (now_ms() < latest + 3)
        sleep_ms(1);
    ends_now(&pair->origin, &outcome, HG_TIMEOUT);
    assert_int_equal(side_ext_counters(&pair->origin).timeout_count, timeouts + 1);
    assert_int_equal(HG_Get_output(handle, &out), HG_FAULT);
    assert_int_equal(HG_Ref_get(handle), 1);
    assert_true(HG_Addr_cmp(pair->origin.hg_class, HG_Get_info(handle)->addr, pair->addr));
    pair_respond_all(pair);
    assert_int_equal(atomic_load(&outcome.count), 1);
    (void) HG_Destroy(handle);
}

static void deaf_transport_ends_as_soon(void **state)
{
    struct pair *pair = *state;
    uint64_t detached = side_ext_counters(&pair->origin).parked_count;
    hg_handle_t handle = HG_HANDLE_NULL;

    for (int i = 0; i < 5; i++) {
        struct outcome outcome = {0};
        struct blob in, out;

        atomic_store(&cancel_is_deaf, true);
        if (i == 0) {
            handle = forward_held(pair, &outcome, 20);
        } else {
            assert_int_equal(HG_Reset(handle, pair->addr, RPC_HOLD), HG_SUCCESS);
            assert_int_equal(HG_Set_deadline(handle, 20), HG_SUCCESS);
            blob_make(&in, 16, 1);
            assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
            free(in.data);
        }
        sleep_ms(25);
        ends_now(&pair->origin, &outcome, HG_TIMEOUT);
        assert_int_equal(side_ext_counters(&pair->origin).parked_count,
                         detached + 1 + (uint64_t) i);

        /*
         * The handle is used again while the transport still holds the buffers of its previous use.
         */
        atomic_store(&outcome.count, 0);
        blob_make(&in, 16, (uint8_t) i);
        assert_int_equal(HG_Reset(handle, pair->addr, RPC_ECHO), HG_SUCCESS);
        assert_int_equal(HG_Set_deadline(handle, 20000), HG_SUCCESS);
        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
        free(in.data);
        pair_wait_for(pair, &outcome.count, 1);
        assert_int_equal(outcome.ret, HG_SUCCESS);
        assert_int_equal(HG_Get_output(handle, &out), HG_SUCCESS);
        blob_check(&out, 16, (uint8_t) i);
        (void) HG_Free_output(handle, &out);
    }
    atomic_store(&cancel_is_deaf, false);
    pair_respond_all(pair);
    (void) HG_Destroy(handle);
}

static void late_answer_finds_its_receive_and_is_dropped(void **state)
{
    struct pair *pair = *state;
    uint64_t late = side_ext_counters(&pair->origin).late_response_count;
    struct outcome outcome = {0};
    hg_handle_t handle;

    atomic_store(&cancel_is_deaf, true);
    handle = forward_held(pair, &outcome, 50);
    pair_wait_held(pair, &pair->target, 1);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_TIMEOUT);
    (void) HG_Destroy(handle);
    side_respond_all(&pair->target, 16);
    pair_until(pair, side_ext_counters(&pair->origin).late_response_count > late);
    /* Late responses of the previous test may be counted as well. */
    assert_true(side_ext_counters(&pair->origin).late_response_count > late);
    atomic_store(&cancel_is_deaf, false);
    assert_int_equal(atomic_load(&outcome.count), 1);
}

static void parked_handles_do_not_keep_a_context(void **state)
{
    struct pair pair = {0};

    (void) state;
    pair_open(&pair, NULL);
    atomic_store(&cancel_is_deaf, true);
    for (int i = 0; i < 3; i++) {
        struct outcome outcome = {0};
        hg_handle_t handle = forward_held(&pair, &outcome, 10);

        sleep_ms(15);
        ends_now(&pair.origin, &outcome, HG_TIMEOUT);
        (void) HG_Destroy(handle);
    }
    atomic_store(&cancel_is_deaf, false);
    pair_wait_held(&pair, &pair.target, 3);
    while (pair.target.held_count > 0)
        (void) HG_Destroy(pair.target.held[--pair.target.held_count]);
    pair_close(&pair);
}

/* The request cannot be sent, as if the peer did not receive it. */
static void request_that_is_stuck_ends_in_time(void **state)
{
    struct pair *pair = *state;
    struct outcome outcome = {0};
    hg_handle_t handle;
    struct blob in;

    blob_make(&in, 16, 1);
    for (int oneway = 0; oneway < 2; oneway++) {
        atomic_store(&outcome.count, 0);
        handle = pair_create(pair, oneway ? RPC_ONEWAY : RPC_ECHO);
        assert_int_equal(HG_Set_deadline(handle, 10), HG_SUCCESS);
        swallow.is_on = true;
        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
        sleep_ms(15);
        ends_now(&pair->origin, &outcome, HG_TIMEOUT);
        assert_int_equal(HG_Set_deadline(handle, 0), HG_SUCCESS);
        assert_int_equal(pair_call(pair, handle, &in), HG_SUCCESS);
        (void) HG_Destroy(handle);
        swallow_end(NA_CANCELED);
        pair_run(pair, 10);
        assert_int_equal(atomic_load(&outcome.count), 1);
    }
    free(in.data);
}

static void cancel_with_a_deadline_ends_without_the_transport(void **state)
{
    struct pair *pair = *state;
    uint64_t timeouts = side_ext_counters(&pair->origin).timeout_count;
    struct outcome outcome = {0};
    uint64_t start = now_ms();
    hg_handle_t handle;

    atomic_store(&cancel_is_deaf, true);
    handle = forward_held(pair, &outcome, 60000);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, 1);
    atomic_store(&cancel_is_deaf, false);
    assert_int_equal(outcome.ret, HG_CANCELED);
    assert_true(now_ms() < start + 10000);
    assert_int_equal(side_ext_counters(&pair->origin).timeout_count, timeouts);
    (void) HG_Destroy(handle);
    pair_respond_all(pair);
}

/*
 * An operation with a deadline ends soon after it. A loaded machine may be late now and then, so
 * that three prompt ends in 40 attempts are enough; a transport that only polls periodically would
 * always be late.
 */
#define SLEEP_MS 30u
#define LATE_MS  250u

static void ends_soon(struct pair *pair, uint64_t (*wait)(struct pair *pair, unsigned int ms),
                      unsigned int least_ms)
{
    int soon = 0;

    for (int i = 0; i < 40 && soon < 3; i++) {
        const uint64_t waited = wait(pair, SLEEP_MS);

        assert_in_range(waited, least_ms, 15000);
        soon += waited < SLEEP_MS + LATE_MS;
        pair_respond_all(pair);
    }
    assert_int_equal(soon, 3);
}

static uint64_t wait_in_progress(struct pair *pair, unsigned int ms)
{
    struct outcome outcome = {0};
    const uint64_t start = now_ms();
    hg_handle_t handle = forward_held(pair, &outcome, ms);
    unsigned int count;
    uint64_t end;

    /* Progress may return early at first, because the transport sends the request. */
    while (atomic_load(&outcome.count) == 0) {
        (void) HG_Progress(pair->origin.context, 30000);
        (void) HG_Trigger(pair->origin.context, 0, 10, &count);
    }
    end = now_ms();
    assert_int_equal(outcome.ret, HG_TIMEOUT);
    (void) HG_Destroy(handle);
    return end - start;
}

static void sleeping_progress_wakes_in_time(void **state)
{
    ends_soon(*state, wait_in_progress, SLEEP_MS - 1);
}

static void *sleep_in_progress(void *arg)
{
    const struct side *side = arg;
    unsigned int count = 0;

    while (count == 0) {
        (void) HG_Progress(side->context, 30000);
        (void) HG_Trigger(side->context, 0, 10, &count);
    }
    return NULL;
}

static uint64_t wait_in_another_thread(struct pair *pair, unsigned int ms)
{
    struct outcome outcome = {0};
    hg_handle_t handle;
    uint64_t start, end;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, sleep_in_progress, &pair->origin), 0);
    sleep_ms(20);
    start = now_ms();
    handle = forward_held(pair, &outcome, ms);
    (void) pthread_join(thread, NULL);
    end = now_ms();
    assert_int_equal(atomic_load(&outcome.count), 1);
    assert_int_equal(outcome.ret, HG_TIMEOUT);
    (void) HG_Destroy(handle);
    return end - start;
}

/* A thread that sleeps in progress since before the forward has to wake at its deadline. */
static void thread_that_sleeps_already_wakes_in_time(void **state)
{
    ends_soon(*state, wait_in_another_thread, SLEEP_MS - 1);
}

static uint64_t wait_for_cancel(struct pair *pair, unsigned int ms)
{
    struct outcome outcome = {0};
    hg_handle_t handle;
    uint64_t start, end;
    pthread_t thread;

    handle = forward_held(pair, &outcome, 60000);
    pair_wait_held(pair, &pair->target, 1);
    assert_int_equal(pthread_create(&thread, NULL, sleep_in_progress, &pair->origin), 0);
    sleep_ms(ms);
    atomic_store(&cancel_is_deaf, true);
    start = now_ms();
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    (void) pthread_join(thread, NULL);
    end = now_ms();
    atomic_store(&cancel_is_deaf, false);
    assert_int_equal(atomic_load(&outcome.count), 1);
    assert_int_equal(outcome.ret, HG_CANCELED);
    (void) HG_Destroy(handle);
    return end - start;
}

/* The transport neither completes the cancelled operation nor wakes the thread. */
static void thread_that_sleeps_already_learns_of_a_cancel(void **state)
{
    ends_soon(*state, wait_for_cancel, 1);
}

/* Wait on the descriptor whenever no event is ready, until the RPC has ended. */
static void wait_on_descriptor(const struct side *side, const struct outcome *outcome)
{
    struct pollfd fd = {.fd = HG_Event_get_wait_fd(side->context), .events = POLLIN};
    uint64_t start = now_ms();
    unsigned int count;

    while (atomic_load(&outcome->count) == 0 && now_ms() < start + 20000) {
        if (!HG_Event_ready(side->context))
            (void) poll(&fd, 1, 20000);
        (void) HG_Event_progress(side->context, &count);
        (void) HG_Event_trigger(side->context, 10, &count);
    }
}

static uint64_t wait_for_readable(struct pair *pair, unsigned int ms)
{
    struct outcome outcome = {0};
    const uint64_t start = now_ms();
    hg_handle_t handle = forward_held(pair, &outcome, ms);
    uint64_t end;

    wait_on_descriptor(&pair->origin, &outcome);
    end = now_ms();
    assert_int_equal(outcome.ret, HG_TIMEOUT);
    (void) HG_Destroy(handle);
    return end - start;
}

static void descriptor_is_readable_in_time(void **state)
{
    const struct pair *pair = *state;

    if (HG_Event_get_wait_fd(pair->origin.context) < 0) {
        test_skip("it has no descriptor");
        return;
    }
    ends_soon(*state, wait_for_readable, SLEEP_MS - 1);
}

/* A deadline that passes after its RPC has ended must not wake the descriptor again and again. */
static void descriptor_rests_after_an_early_end(void **state)
{
    struct pair *pair = *state;
    struct pollfd fd = {.fd = HG_Event_get_wait_fd(pair->origin.context), .events = POLLIN};
    struct outcome outcome = {0};
    uint64_t end;
    hg_handle_t handle;
    unsigned int count;
    int polls = 0;

    if (fd.fd < 0) {
        test_skip("it has no descriptor");
        return;
    }
    handle = forward_held(pair, &outcome, 50);
    for (int i = 0; i < 1000 && HG_Event_ready(pair->origin.context); i++) {
        (void) HG_Event_progress(pair->origin.context, &count);
        (void) HG_Event_trigger(pair->origin.context, 10, &count);
    }
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    wait_on_descriptor(&pair->origin, &outcome);
    assert_int_equal(outcome.ret, HG_CANCELED);
    end = now_ms() + 200;
    while (now_ms() < end) {
        if (!HG_Event_ready(pair->origin.context))
            (void) poll(&fd, 1, 200);
        (void) HG_Event_progress(pair->origin.context, &count);
        (void) HG_Event_trigger(pair->origin.context, 10, &count);
        polls++;
    }
    if (test_is_sm())
        assert_in_range(polls, 1, 20);
    (void) HG_Destroy(handle);
    pair_respond_all(pair);
}

static void default_is_for_new_handles(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_HOLD), timed;
    struct outcome outcome = {0};
    struct blob in;

    assert_int_equal(HG_Class_set_default_deadline(pair->origin.hg_class, 30), HG_SUCCESS);
    assert_int_equal(HG_Class_get_default_deadline(pair->origin.hg_class), 30);
    timed = pair_create(pair, RPC_HOLD);
    assert_int_equal(HG_Class_set_default_deadline(pair->origin.hg_class, 0), HG_SUCCESS);
    assert_int_equal(HG_Get_deadline(handle), 0);
    assert_int_equal(HG_Get_deadline(timed), 30);
    blob_make(&in, 4, 0);
    assert_int_equal(HG_Forward(timed, outcome_set, &outcome, &in), HG_SUCCESS);
    free(in.data);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_TIMEOUT);
    (void) HG_Destroy(handle);
    (void) HG_Destroy(timed);
    /* A handle from the pool does not keep the deadline of its previous use. */
    handle = pair_create(pair, RPC_HOLD);
    assert_int_equal(HG_Get_deadline(handle), 0);
    (void) HG_Destroy(handle);
    pair_respond_all(pair);
}

static hg_return_t forward_again(const struct hg_cb_info *info)
{
    struct outcome *outcome = info->arg;

    assert_int_equal(info->ret, HG_TIMEOUT);
    if (atomic_fetch_add(&outcome->count, 1) < 4) {
        struct blob in;

        blob_make(&in, 4, 0);
        assert_int_equal(HG_Forward(info->info.forward.handle, forward_again, outcome, &in),
                         HG_SUCCESS);
        free(in.data);
    } else {
        assert_int_equal(HG_Destroy(info->info.forward.handle), HG_SUCCESS);
    }
    return HG_SUCCESS;
}

static void callback_may_forward_again_or_destroy(void **state)
{
    struct pair *pair = *state;

    for (int deaf = 0; deaf < 2; deaf++) {
        struct outcome outcome = {0};
        hg_handle_t handle = pair_create(pair, RPC_HOLD);
        struct blob in;

        atomic_store(&cancel_is_deaf, deaf == 1);
        blob_make(&in, 4, 0);
        assert_int_equal(HG_Set_deadline(handle, 5), HG_SUCCESS);
        assert_int_equal(HG_Forward(handle, forward_again, &outcome, &in), HG_SUCCESS);
        free(in.data);
        pair_wait_for(pair, &outcome.count, 5);
        atomic_store(&cancel_is_deaf, false);
        pair_respond_all(pair);
    }
}

static void rpc_to_self_ends_in_time(void **state)
{
    struct pair pair = {0};
    struct outcome outcome = {0};
    hg_handle_t handle;

    (void) state;
    side_open(&pair.origin, NULL);
    pair.target = pair.origin;
    assert_int_equal(HG_Addr_self(pair.origin.hg_class, &pair.addr), HG_SUCCESS);
    for (int i = 0; i < 3; i++) {
        const unsigned int deadline = i == 0 ? 20 : 300; /* time for the handler to run */

        atomic_store(&outcome.count, 0);
        handle = forward_held(&pair, &outcome, deadline);
        if (i > 0)
            pair_wait_held(&pair, &pair.origin, 1);
        if (i == 2) /* the target destroys its handle without a response */
            (void) HG_Destroy(pair.origin.held[--pair.origin.held_count]);
        sleep_ms(deadline + 5);
        if (atomic_load(&outcome.count) == 0)
            assert_int_equal(HG_Progress(pair.origin.context, 0), HG_SUCCESS);
        pair_wait_for(&pair, &outcome.count, 1);
        assert_int_equal(outcome.ret, HG_TIMEOUT);
        side_respond_all(&pair.origin, 16);
        pair_run(&pair, 5);
        assert_int_equal(pair.origin.held_count, 0);
        assert_int_equal(atomic_load(&outcome.count), 1);
        (void) HG_Destroy(handle);
    }
    pair_echo(&pair, 10);
    assert_int_equal(HG_Addr_free(pair.origin.hg_class, pair.addr), HG_SUCCESS);
    side_close(&pair.origin);
}

/* The origin does not receive the response, or, for a large one, does not fetch it. */
static void response_ends_in_time(void **state)
{
    struct pair *pair = *state;

    for (int large = 0; large < 2; large++) {
        struct outcome outcome = {0}, respond = {0};
        hg_handle_t handle = forward_held(pair, &outcome, 0), held;
        struct blob out;

        pair_wait_held(pair, &pair->target, 1);
        held = pair->target.held[--pair->target.held_count];
        assert_int_equal(HG_Set_deadline(held, 20), HG_SUCCESS);
        blob_make(&out, large ? pair_large(pair) : 16, 2);
        swallow.is_on = true;
        atomic_store(&cancel_is_deaf, true);
        assert_int_equal(HG_Respond(held, outcome_set, &respond, &out), HG_SUCCESS);
        free(out.data);
        sleep_ms(25);
        ends_now(&pair->target, &respond, HG_TIMEOUT);
        assert_int_equal(respond.type, HG_CB_RESPOND);
        atomic_store(&cancel_is_deaf, false);
        (void) HG_Destroy(held);
        pair_echo(pair, pair_large(pair));
        swallow_end(NA_CANCELED);
        assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
        pair_wait_for(pair, &outcome.count, 1);
        (void) HG_Destroy(handle);
        pair_run(pair, 10);
    }
}

/* The target responds, but the transport neither sends the response nor completes the send. */
static void respond_swallowed(struct pair *pair, unsigned int deadline_ms)
{
    struct outcome outcome = {0}, respond = {0};
    hg_handle_t handle = forward_held(pair, &outcome, 0), held;
    struct blob out;

    pair_wait_held(pair, &pair->target, 1);
    held = pair->target.held[--pair->target.held_count];
    assert_int_equal(HG_Get_deadline(held), deadline_ms);
    blob_make(&out, 16, 2);
    swallow.is_on = true;
    assert_int_equal(HG_Respond(held, outcome_set, &respond, &out), HG_SUCCESS);
    free(out.data);
    pair_wait_for(pair, &respond.count, 1);
    assert_int_equal(respond.ret, HG_TIMEOUT);
    (void) HG_Destroy(held);
    swallow_end(NA_CANCELED);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, 1);
    (void) HG_Destroy(handle);
}

/*
 * The default deadline applies as it is when the request arrives, not when its handle was created.
 */
static void requests_have_the_default_of_their_class(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0};

    (void) state;
    info.request_post_init = 4;
    side_open(&pair.origin, NULL);
    pair.target.hg_class = test_class_open(HG_TRUE, &info);
    assert_non_null(pair.target.hg_class);
    side_register(&pair.target);
    assert_int_equal(HG_Class_set_default_deadline(pair.target.hg_class, 10), HG_SUCCESS);
    pair.target.context = HG_Context_create(pair.target.hg_class);
    assert_non_null(pair.target.context);
    pair.addr = side_lookup(&pair.origin, &pair.target);
    respond_swallowed(&pair, 10);

    assert_int_equal(HG_Class_set_default_deadline(pair.target.hg_class, 20), HG_SUCCESS);
    respond_swallowed(&pair, 20);
    pair_close(&pair);
}

#define RACERS 3
#define ROUNDS 150

struct racer {
    struct pair *pair;
    atomic_int forwarded;
    atomic_int called;
    atomic_bool is_done;
};

static hg_return_t racer_called(const struct hg_cb_info *info)
{
    struct racer *racer = info->arg;

    assert_true(info->ret == HG_SUCCESS || info->ret == HG_TIMEOUT || info->ret == HG_CANCELED);
    atomic_fetch_add(&racer->called, 1);
    return HG_SUCCESS;
}

/* Forwards with a deadline about as long as an answer takes, and cancels now and then. */
static void *race(void *arg)
{
    struct racer *racer = arg;
    hg_handle_t handle = pair_create(racer->pair, RPC_ECHO);
    struct blob in;

    blob_make(&in, 100, 1);
    for (int i = 0; i < ROUNDS; i++) {
        unsigned int count;

        assert_int_equal(HG_Set_deadline(handle, i % 3 == 0 ? 1 : 2000), HG_SUCCESS);
        if (HG_Forward(handle, racer_called, racer, &in) != HG_SUCCESS)
            continue;
        atomic_fetch_add(&racer->forwarded, 1);
        if (i % 7 == 0)
            sleep_ms(1);
        if (i % 5 == 0)
            assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
        while (atomic_load(&racer->called) < atomic_load(&racer->forwarded)) {
            (void) HG_Progress(racer->pair->origin.context, 1);
            (void) HG_Trigger(racer->pair->origin.context, 0, 1, &count);
        }
        assert_int_equal(atomic_load(&racer->called), atomic_load(&racer->forwarded));
    }
    free(in.data);
    (void) HG_Destroy(handle);
    atomic_store(&racer->is_done, true);
    return NULL;
}

static void deadlines_race_with_answers_and_cancels(void **state)
{
    struct pair *pair = *state;
    struct racer racers[RACERS];
    pthread_t threads[RACERS];

    for (int deaf = 0; deaf < 2; deaf++) {
        bool is_done = false;

        memset(racers, 0, sizeof(racers));
        for (int i = 0; i < RACERS; i++) {
            racers[i].pair = pair;
            atomic_store(&cancel_is_deaf, deaf == 1);
            assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
        }
        while (!is_done) {
            side_progress(&pair->target);
            is_done = true;
            for (int i = 0; i < RACERS; i++)
                is_done = is_done && atomic_load(&racers[i].is_done);
        }
        for (int i = 0; i < RACERS; i++)
            (void) pthread_join(threads[i], NULL);
    }
    atomic_store(&cancel_is_deaf, false);
    pair_run(pair, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setters_check_their_object),
        cmocka_unit_test(answer_in_time_is_no_timeout),
        cmocka_unit_test(rpc_ends_when_its_time_is_over),
        cmocka_unit_test(deaf_transport_ends_as_soon),
        cmocka_unit_test(late_answer_finds_its_receive_and_is_dropped),
        cmocka_unit_test(parked_handles_do_not_keep_a_context),
        cmocka_unit_test(request_that_is_stuck_ends_in_time),
        cmocka_unit_test(cancel_with_a_deadline_ends_without_the_transport),
        cmocka_unit_test(sleeping_progress_wakes_in_time),
        cmocka_unit_test(thread_that_sleeps_already_wakes_in_time),
        cmocka_unit_test(thread_that_sleeps_already_learns_of_a_cancel),
        cmocka_unit_test(descriptor_is_readable_in_time),
        cmocka_unit_test(descriptor_rests_after_an_early_end),
        cmocka_unit_test(default_is_for_new_handles),
        cmocka_unit_test(callback_may_forward_again_or_destroy),
        cmocka_unit_test(rpc_to_self_ends_in_time),
        cmocka_unit_test(response_ends_in_time),
        cmocka_unit_test(requests_have_the_default_of_their_class),
        cmocka_unit_test(deadlines_race_with_answers_and_cancels),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}
