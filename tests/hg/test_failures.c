/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each NA function that can fail is made to fail in turn: the operation ends with that error, and
 * later operations work.
 */
#include "hg/context.h"
#include "hg/respond.h"
#include "hg_fixture.h"

/* The function that fails, and its result. NULL: none fails. */
static const char *failing;
static na_return_t failing_with = NA_NOMEM;
static int failing_after; /* calls that succeed first */
static atomic_int failed;

/*
 * If set, runs once inside the call that would fail, which then succeeds: a call of another thread
 * at this moment.
 */
static void (*meanwhile)(void);

static bool fails(const char *function)
{
    void (*now)(void) = meanwhile;

    if (now != NULL && failing != NULL && strcmp(failing, function) == 0) {
        failing = NULL;
        meanwhile = NULL;
        now();
    }
    if (failing == NULL || strcmp(failing, function) != 0)
        return false;
    if (failing_after-- > 0)
        return false;
    atomic_fetch_add(&failed, 1);
    return true;
}

#define WRAP(function, parameters, arguments)                                 \
    na_return_t __real_##function parameters;                                 \
    na_return_t __wrap_##function parameters;                                 \
    na_return_t __wrap_##function parameters                                  \
    {                                                                         \
        return fails(#function) ? failing_with : __real_##function arguments; \
    }

#define WRAP_POINTER(type, function, parameters, arguments)           \
    type *__real_##function parameters;                               \
    type *__wrap_##function parameters;                               \
    type *__wrap_##function parameters                                \
    {                                                                 \
        return fails(#function) ? NULL : __real_##function arguments; \
    }

WRAP(NA_Initialize_reason,
     (const char *string, bool listen, unsigned int version, const struct na_init_info *info,
      na_class_t **class_p, char *reason, size_t reason_size),
     (string, listen, version, info, class_p, reason, reason_size))
WRAP_POINTER(na_context_t, NA_Context_create_id, (na_class_t * c, uint8_t id), (c, id))
WRAP_POINTER(na_op_id_t, NA_Op_create, (na_class_t * c, unsigned long flags), (c, flags))
WRAP_POINTER(void, NA_Msg_buf_alloc,
             (na_class_t * c, size_t size, unsigned long flags, void **data_p),
             (c, size, flags, data_p))
WRAP(NA_Msg_init_unexpected, (na_class_t * c, void *buf, size_t size), (c, buf, size))
WRAP(NA_Msg_init_expected, (na_class_t * c, void *buf, size_t size), (c, buf, size))
WRAP(NA_Addr_self, (na_class_t * c, na_addr_t **addr_p), (c, addr_p))
WRAP(NA_Addr_dup, (na_class_t * c, na_addr_t *addr, na_addr_t **new_addr_p), (c, addr, new_addr_p))
WRAP(NA_Addr_lookup, (na_class_t * c, const char *name, na_addr_t **addr_p), (c, name, addr_p))
WRAP(NA_Addr_to_string, (na_class_t * c, char *buf, size_t *size, na_addr_t *addr),
     (c, buf, size, addr))
/*
 * Holds back the completion of one send, because a transport may report it after the message has
 * had its effect.
 */
static struct {
    const char *function; /* the function whose next send is held back; NULL: none */
    na_cb_t callback;
    void *arg;
    struct na_cb_info info;
    bool has_ended;
} late;

static void late_done(const struct na_cb_info *info)
{
    late.info = *info;
    late.info.arg = late.arg;
    late.has_ended = true;
}

static void late_take(const char *function, na_cb_t *callback_p, void **arg_p)
{
    if (late.function == NULL || strcmp(late.function, function) != 0)
        return;
    late.function = NULL;
    late.callback = *callback_p;
    late.arg = *arg_p;
    *callback_p = late_done;
    *arg_p = NULL;
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
        if (fails(#function))                                                                    \
            return failing_with;                                                                 \
        late_take(#function, &callback, &arg);                                                   \
        return __real_##function(c, context, callback, arg, buf, size, data, dest, id, tag, op); \
    }

WRAP_SEND(NA_Msg_send_unexpected)
WRAP_SEND(NA_Msg_send_expected)
WRAP(NA_Msg_recv_unexpected,
     (na_class_t * c, na_context_t *context, na_cb_t callback, void *arg, void *buf, size_t size,
      void *data, na_op_id_t *op),
     (c, context, callback, arg, buf, size, data, op))
WRAP(NA_Msg_recv_expected,
     (na_class_t * c, na_context_t *context, na_cb_t callback, void *arg, void *buf, size_t size,
      void *data, na_addr_t *source, uint8_t id, na_tag_t tag, na_op_id_t *op),
     (c, context, callback, arg, buf, size, data, source, id, tag, op))
WRAP(NA_Get,
     (na_class_t * c, na_context_t *context, na_cb_t callback, void *arg, na_mem_handle_t *local,
      na_offset_t local_offset, na_mem_handle_t *remote, na_offset_t remote_offset, size_t size,
      na_addr_t *addr, uint8_t id, na_op_id_t *op),
     (c, context, callback, arg, local, local_offset, remote, remote_offset, size, addr, id, op))
WRAP(NA_Mem_handle_create,
     (na_class_t * c, void *buf, size_t size, unsigned long flags, na_mem_handle_t **handle_p),
     (c, buf, size, flags, handle_p))
WRAP(NA_Mem_register,
     (na_class_t * c, na_mem_handle_t *handle, enum na_mem_type type, uint64_t device),
     (c, handle, type, device))
WRAP(NA_Poll, (na_class_t * c, na_context_t *context, unsigned int *count_p), (c, context, count_p))

static void arm(const char *function, na_return_t with, int after)
{
    atomic_store(&failed, 0);
    failing_with = with;
    failing_after = after;
    failing = function;
}

static void disarm(void)
{
    failing = NULL;
}

static void opening_fails(void **state)
{
    static const char *const functions[] = {
        "NA_Initialize_reason", "NA_Context_create_id", "NA_Op_create",
        "NA_Msg_buf_alloc",     "NA_Msg_init_expected", "NA_Msg_recv_unexpected",
    };
    size_t i;
    int after;

    (void) state;
    for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        for (after = 0; after < 3; after++) {
            struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
            hg_context_t *context = NULL;
            hg_class_t *hg_class;

            info.request_post_init = 8;
            arm(functions[i], NA_NOMEM, i < 2 ? 0 : after);
            hg_class = HG_Init_opt2(test_init_string(), HG_TRUE, HG_VERSION(2, 4), &info);
            if (hg_class != NULL)
                context = HG_Context_create(hg_class);
            disarm();
            assert_true(atomic_load(&failed) > 0);
            assert_null(context);
            if (hg_class != NULL)
                assert_int_equal(HG_Finalize(hg_class), HG_SUCCESS);
        }
    }
}

static void opening_tells_why_it_failed(void **state)
{
    static const na_return_t codes[] = {NA_NOMEM, NA_NODEV, NA_PERMISSION};
    hg_class_t *hg_class;
    size_t i;

    (void) state;
    for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        arm("NA_Initialize_reason", codes[i], 0);
        assert_int_equal(
            HG_Init_reason(test_init_string(), HG_TRUE, HG_VERSION(2, 4), NULL, &hg_class),
            (hg_return_t) codes[i]);
        disarm();
        assert_null(hg_class);
    }
    assert_int_equal(HG_Init_reason(NULL, HG_TRUE, HG_VERSION(2, 4), NULL, &hg_class),
                     HG_INVALID_ARG);
    assert_int_equal(HG_Init_reason(test_init_string(), HG_TRUE, HG_VERSION(2, 4), NULL, NULL),
                     HG_INVALID_ARG);
    assert_int_equal(HG_Init_reason(test_init_string(), HG_TRUE, HG_VERSION(2, 4), NULL, &hg_class),
                     HG_SUCCESS);
    assert_int_equal(HG_Finalize(hg_class), HG_SUCCESS);
}

static void addresses_fail(void **state)
{
    struct pair *pair = *state;
    hg_addr_t addr = HG_ADDR_NULL;
    hg_size_t size = 0;

    arm("NA_Addr_self", NA_NOMEM, 0);
    assert_int_equal(HG_Addr_self(pair->origin.hg_class, &addr), HG_NOMEM);
    arm("NA_Addr_lookup", NA_HOSTUNREACH, 0);
    assert_int_equal(HG_Addr_lookup2(pair->origin.hg_class, "x", &addr), HG_HOSTUNREACH);
    arm("NA_Addr_to_string", NA_OVERFLOW, 0);
    assert_int_equal(HG_Addr_to_string(pair->origin.hg_class, NULL, &size, pair->addr),
                     HG_OVERFLOW);
    disarm();
}

static void forward_fails_and_the_handle_is_reusable(void **state)
{
    static const na_return_t codes[] = {NA_AGAIN, NA_HOSTUNREACH, NA_NOMEM};
    static const char *const functions[] = {"NA_Msg_send_unexpected", "NA_Msg_recv_expected"};
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_ECHO);
    struct outcome outcome = {0};
    struct blob in;
    size_t i, k;

    blob_make(&in, 12, 1);
    for (i = 0; i < 2; i++) {
        for (k = 0; k < 3; k++) {
            arm(functions[i], codes[k], 0);
            assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in),
                             (hg_return_t) codes[k]);
            disarm();
            pair_run(pair, 5);
            assert_int_equal(outcome.count, 0);
            assert_int_equal(HG_Ref_get(handle), 1);
            assert_int_equal(pair_call(pair, handle, &in), HG_SUCCESS);
        }
    }
    free(in.data);
    (void) HG_Destroy(handle);
}

static void respond_fails_and_may_be_tried_again(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_HOLD);
    struct outcome outcome = {0};
    struct blob in;

    blob_make(&in, 12, 1);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    pair_wait_held(pair, &pair->target, 1);
    arm("NA_Msg_send_expected", NA_AGAIN, 0);
    assert_int_equal(HG_Respond(pair->target.held[0], NULL, NULL, &in), HG_AGAIN);
    disarm();
    side_respond_held(&pair->target, &in);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    free(in.data);
    (void) HG_Destroy(handle);
}

static hg_handle_t canceling;

static void cancel_now(void)
{
    assert_int_equal(HG_Cancel(canceling), HG_SUCCESS);
    atomic_store(&failed, 1);
}

/*
 * The cancel comes before the receive is posted, or between the receive and the send of the
 * request.
 */
static void cancel_while_a_request_is_started(void **state)
{
    static const char *const functions[] = {"NA_Msg_recv_expected", "NA_Msg_send_unexpected"};
    struct pair *pair = *state;

    for (int i = 0; i < 4; i++) {
        struct outcome outcome = {0};
        struct blob in;

        canceling = pair_create(pair, RPC_HOLD);
        blob_make(&in, 12, 1);
        assert_int_equal(HG_Set_deadline(canceling, i < 2 ? 0 : 60000), HG_SUCCESS);
        arm(functions[i % 2], NA_NOMEM, 0);
        meanwhile = cancel_now;
        assert_int_equal(HG_Forward(canceling, outcome_set, &outcome, &in), HG_SUCCESS);
        assert_int_equal(atomic_load(&failed), 1);
        disarm();
        pair_wait_for(pair, &outcome.count, 1);
        assert_int_equal(outcome.ret, HG_CANCELED);
        free(in.data);
        pair_respond_all(pair);
        assert_int_equal(outcome.count, 1);
        (void) HG_Destroy(canceling);
        pair_echo(pair, 12);
    }
}

/*
 * The program cannot repeat an error response that the library itself sends, so that the library
 * repeats it: the origin must not wait for ever.
 */
static void error_response_is_sent_again(void **state)
{
    struct pair *pair = *state;
    const struct hg_ext_counters before = side_ext_counters(&pair->target);
    hg_handle_t handle = pair_create(pair, RPC_FAIL);
    struct outcome outcome = {0};
    struct hg_ext_counters after;
    struct blob in;

    blob_make(&in, 12, 1);
    arm("NA_Msg_send_expected", NA_AGAIN, 0);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    for (int i = 0; i < 10000 && atomic_load(&failed) < 3; i++)
        pair_run(pair, 1);
    assert_true(atomic_load(&failed) >= 3);
    assert_int_equal(outcome.count, 0);
    disarm();
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_FAULT);
    after = side_ext_counters(&pair->target);
    assert_int_equal(after.send_error_count, before.send_error_count + (uint64_t) failed);
    assert_int_equal(after.retry_count, before.retry_count + (uint64_t) failed);
    free(in.data);
    (void) HG_Destroy(handle);
}

/* Counters of the requests of an origin, or of the responses of a target. */
struct counted {
    uint64_t count, bytes, extra;
};

static struct counted counted_requests(const struct side *side)
{
    const struct hg_diag_counters diag = side_counters(side);

    return (struct counted){diag.rpc_req_sent_count, side_ext_counters(side).req_sent_bytes,
                            diag.rpc_req_extra_count};
}

static struct counted counted_responses(const struct side *side)
{
    const struct hg_diag_counters diag = side_counters(side);

    return (struct counted){diag.rpc_resp_sent_count, side_ext_counters(side).resp_sent_bytes,
                            diag.rpc_resp_extra_count};
}

static void counted_check(struct counted before, struct counted now, uint64_t bytes, bool is_large)
{
    assert_int_equal(now.count, before.count + 1);
    assert_int_equal(now.bytes, before.bytes + bytes);
    assert_int_equal(now.extra, before.extra + is_large);
}

/* A message that the transport refuses and that is sent again counts once. */
static void refused_messages_are_not_counted(void **state)
{
    struct pair *pair = *state;

    for (int is_large = 0; is_large < 2; is_large++) {
        hg_handle_t handle = pair_create(pair, RPC_ECHO);
        struct counted request = counted_requests(&pair->origin);
        struct counted response = counted_responses(&pair->target), later;
        uint64_t request_bytes, response_bytes;
        struct blob in;

        blob_make(&in, is_large ? pair_large(pair) : 12, 1);
        assert_int_equal(pair_call(pair, handle, &in), HG_SUCCESS);
        later = counted_requests(&pair->origin);
        request_bytes = later.bytes - request.bytes;
        counted_check(request, later, request_bytes, is_large);
        response_bytes = counted_responses(&pair->target).bytes - response.bytes;
        request = later;
        response = counted_responses(&pair->target);
        for (int i = 0; i < 3; i++) {
            arm("NA_Msg_send_unexpected", NA_AGAIN, 0);
            assert_int_equal(HG_Forward(handle, NULL, NULL, &in), HG_AGAIN);
            disarm();
            pair_run(pair, 2);
            assert_int_equal(counted_requests(&pair->origin).count, request.count);
            assert_int_equal(counted_requests(&pair->origin).extra, request.extra);
        }
        assert_int_equal(pair_call(pair, handle, &in), HG_SUCCESS);
        counted_check(request, counted_requests(&pair->origin), request_bytes, is_large);
        counted_check(response, counted_responses(&pair->target), response_bytes, is_large);
        free(in.data);
        (void) HG_Destroy(handle);
    }
}

static void refused_responses_are_not_counted(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_HOLD);
    struct counted before = counted_responses(&pair->target);
    struct outcome outcome = {0};
    struct blob in;

    blob_make(&in, 12, 1);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    pair_wait_held(pair, &pair->target, 1);
    arm("NA_Msg_send_expected", NA_AGAIN, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(HG_Respond(pair->target.held[0], NULL, NULL, &in), HG_AGAIN);
    disarm();
    assert_int_equal(counted_responses(&pair->target).count, before.count);
    assert_int_equal(counted_responses(&pair->target).bytes, before.bytes);
    side_respond_held(&pair->target, &in);
    pair_wait_for(pair, &outcome.count, 1);
    counted_check(before, counted_responses(&pair->target), 16 + 4 + 12, false);
    free(in.data);
    (void) HG_Destroy(handle);
}

/*
 * The target keeps at most HG_RESPOND_REFUSED_MAX error responses that the transport refused. The
 * other RPCs get no response and end by cancel here.
 */
static void refused_error_responses_are_bounded(void **state)
{
    enum {
        UNKNOWN = 12345,
        EXTRA = 20,
        COUNT = HG_RESPOND_REFUSED_MAX + EXTRA
    };
    static hg_handle_t handles[COUNT];
    struct pair *pair = *state;
    struct outcome outcome = {0};
    uint64_t end = now_ms() + WAIT_MS;

    assert_int_equal(HG_Register(pair->origin.hg_class, UNKNOWN, NULL, NULL, NULL), HG_SUCCESS);
    arm("NA_Msg_send_expected", NA_AGAIN, 0);
    for (int i = 0; i < COUNT; i++) {
        const uint64_t unknown = side_ext_counters(&pair->target).unknown_rpc_count;

        handles[i] = pair_create(pair, UNKNOWN);
        assert_int_equal(HG_Forward(handles[i], outcome_set, &outcome, NULL), HG_SUCCESS);
        while (side_ext_counters(&pair->target).unknown_rpc_count == unknown && now_ms() < end)
            pair_progress(pair);
    }
    assert_int_equal(
        hg_pools_count(hg_rpc_context(pair->target.context)->targets),
        (uint32_t) atomic_load(&hg_rpc_context(pair->target.context)->posted[HG_PATH_MAIN]) +
            HG_RESPOND_REFUSED_MAX);
    assert_int_equal(outcome.count, 0);
    disarm();
    pair_wait_for(pair, &outcome.count, HG_RESPOND_REFUSED_MAX);
    assert_int_equal(outcome.ret, HG_NOENTRY);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(HG_Cancel(handles[i]), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, COUNT);
    assert_int_equal(outcome.ret, HG_CANCELED);
    for (int i = 0; i < COUNT; i++)
        (void) HG_Destroy(handles[i]);
    pair_echo(pair, 12);
}

/* NA functions fail at either side during RPCs with a large input and output. */
static void overflow_fails_and_the_next_one_works(void **state)
{
    static const char *const functions[] = {
        "NA_Get",       "NA_Mem_handle_create", "NA_Mem_register",      "NA_Addr_dup",
        "NA_Op_create", "NA_Msg_buf_alloc",     "NA_Msg_recv_expected", "NA_Msg_init_expected",
    };
    struct pair pairs = {0}, *pair = &pairs;
    size_t i;
    int after;

    (void) state;
    pair_open(pair, NULL);
    for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        for (after = 0; after < 4; after++) {
            struct outcome outcome = {0};
            hg_handle_t handle = HG_HANDLE_NULL;
            hg_return_t ret;
            struct blob in;

            blob_make(&in, pair_large(pair), 1);
            arm(functions[i], NA_NOMEM, after);
            ret = HG_Create(pair->origin.context, pair->addr, RPC_ECHO, &handle);
            if (ret == HG_SUCCESS) {
                ret = HG_Forward(handle, outcome_set, &outcome, &in);
                if (ret == HG_SUCCESS)
                    pair_wait_for(pair, &outcome.count, 1);
                pair_run(pair, 2);
                disarm();
                (void) HG_Cancel(handle);
                pair_run(pair, 2);
                (void) HG_Destroy(handle);
            }
            disarm();
            free(in.data);
            pair_echo(pair, pair_large(pair));
        }
    }
    /*
     * The origin could not acknowledge some of the outputs it fetched; these responses end with the
     * target's context.
     */
    while (HG_Context_destroy(pair->target.context) == HG_BUSY)
        side_progress(&pair->target);
    pair->target.context = NULL;
    side_progress(&pair->origin);
    assert_int_equal(HG_Addr_free(pair->origin.hg_class, pair->addr), HG_SUCCESS);
    side_close(&pair->origin);
    side_close(&pair->target);
}

static void acknowledgement_is_retried(void **state)
{
    struct pair *pair = *state;
    int responded = atomic_load(&pair->target.responded);

    /* The first expected message is the response, the second one the acknowledgement. */
    arm("NA_Msg_send_expected", NA_AGAIN, 1);
    {
        hg_handle_t handle = pair_create(pair, RPC_FILL);
        uint32_t size = pair_large(pair);

        assert_int_equal(pair_call(pair, handle, &size), HG_SUCCESS);
        assert_true(atomic_load(&failed) > 0);
        pair_run(pair, 5);
        assert_int_equal(atomic_load(&pair->target.responded), responded);
        disarm();
        pair_wait_for(pair, &pair->target.responded, responded + 1);
        (void) HG_Destroy(handle);
    }
}

/* Let the send that was held back complete. */
static void late_release(struct pair *pair)
{
    pair_until(pair, late.has_ended);
    assert_true(late.has_ended);
    late.has_ended = false;
    late.callback(&late.info);
}

/* A transport may report the receive of a response before the completion of its request's send. */
static void response_may_come_before_the_request_is_sent(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_ECHO);
    uint32_t sizes[2] = {16, pair_large(pair)};
    int i;

    for (i = 0; i < 2; i++) {
        struct outcome outcome = {0};
        int responded = atomic_load(&pair->target.responded);
        struct blob in, out;

        blob_make(&in, sizes[i], 3);
        late.function = "NA_Msg_send_unexpected";
        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
        pair_wait_for(pair, &pair->target.responded, responded + 1);
        pair_run(pair, 10);
        /* The request's buffer still belongs to the transport, so that the RPC must not end. */
        assert_int_equal(outcome.count, 0);
        late_release(pair);
        pair_wait_for(pair, &outcome.count, 1);
        assert_int_equal(outcome.ret, HG_SUCCESS);
        assert_int_equal(HG_Get_output(handle, &out), HG_SUCCESS);
        blob_check(&out, sizes[i], 3);
        (void) HG_Free_output(handle, &out);
        free(in.data);
    }
    (void) HG_Destroy(handle);
}

static void response_may_arrive_before_it_is_sent(void **state)
{
    struct pair *pair = *state;
    hg_handle_t handle = pair_create(pair, RPC_FILL);
    uint32_t sizes[2] = {16, pair_large(pair)};
    int i;

    for (i = 0; i < 2; i++) {
        int responded = atomic_load(&pair->target.responded);

        late.function = "NA_Msg_send_expected";
        assert_int_equal(pair_call(pair, handle, &sizes[i]), HG_SUCCESS);
        pair_run(pair, 10);
        assert_int_equal(atomic_load(&pair->target.responded), responded);
        late_release(pair);
        pair_wait_for(pair, &pair->target.responded, responded + 1);
        assert_int_equal(pair->target.respond_ret, HG_SUCCESS);
    }
    (void) HG_Destroy(handle);
}

static void receives_that_fail_to_post_are_posted_later(void **state)
{
    struct pair *pair = *state;
    int i;

    arm("NA_Msg_recv_unexpected", NA_AGAIN, 0);
    for (i = 0; i < 40; i++)
        pair_echo(pair, 10);
    disarm();
    for (i = 0; i < 200; i++)
        pair_echo(pair, 10);
}

static void progress_reports_a_broken_transport(void **state)
{
    struct pair *pair = *state;

    arm("NA_Poll", NA_IO_ERROR, 0);
    failing_after = 0;
    assert_int_equal(HG_Progress(pair->origin.context, 10), HG_IO_ERROR);
    disarm();
    pair_echo(pair, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_fails),
        cmocka_unit_test(opening_tells_why_it_failed),
        cmocka_unit_test(addresses_fail),
        cmocka_unit_test(forward_fails_and_the_handle_is_reusable),
        cmocka_unit_test(respond_fails_and_may_be_tried_again),
        cmocka_unit_test(cancel_while_a_request_is_started),
        cmocka_unit_test(error_response_is_sent_again),
        cmocka_unit_test(refused_messages_are_not_counted),
        cmocka_unit_test(refused_responses_are_not_counted),
        cmocka_unit_test(refused_error_responses_are_bounded),
        cmocka_unit_test(overflow_fails_and_the_next_one_works),
        cmocka_unit_test(acknowledgement_is_retried),
        cmocka_unit_test(response_may_come_before_the_request_is_sent),
        cmocka_unit_test(response_may_arrive_before_it_is_sent),
        cmocka_unit_test(receives_that_fail_to_post_are_posted_later),
        cmocka_unit_test(progress_reports_a_broken_transport),
    };

    HG_Set_log_level(getenv("HG_LOG_LEVEL") ? getenv("HG_LOG_LEVEL") : "none");
    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}
