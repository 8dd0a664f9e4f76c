/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How HG's sessions are made: HELLOs, which any peer may send, and their answers; two keys, tried
 * one after the other; RPCs that wait for a session; and sessions that one side has forgotten.
 */
#include "session_fixture.h"

#include <string.h>

/* Damages the magic of HELLOs, so that the target drops them. */
static na_return_t lose_hello(struct message *message, char *bytes)
{
    if (is_hello(message))
        bytes[message->header] ^= 1;
    return NA_SUCCESS;
}

static void wait_taken(const struct pair *pair, int count)
{
    for (const uint64_t start = now_ms(); taken_count < count;) {
        assert_true(now_ms() - start < WAIT_MS);
        pair_progress(pair);
    }
}

/*
 * The attacker sends the origin's HELLO back to the origin, which answers with the right key. The
 * origin must not accept its own answer.
 */
static void own_answer_is_refused(void **state)
{
    struct outcome outcome = {0};
    struct message sent_back;
    struct pair pair;
    hg_addr_t origin;
    hg_handle_t handle;
    struct blob in;

    (void) state;
    pair_open_keyed(&pair);
    origin = side_lookup(&pair.target, &pair.origin);
    blob_make(&in, 10, 1);
    handle = pair_create(&pair, RPC_ECHO);
    is_taking = true;
    hook = lose_hello;
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    wait_taken(&pair, 1);
    hook = NULL;
    /* First the HELLO is sent back in the target's name, then the answer. */
    for (int i = 0; i < 2; i++) {
        wait_taken(&pair, i + 1);
        assert_true(is_hello(taken[i]));
        assert_int_equal(taken[i]->is_expected, i == 1);
        sent_back = *taken[i];
        message_is_from(&sent_back, &pair.target, origin->na_addr[HG_PATH_MAIN]);
        inject(&pair, &sent_back);
    }
    is_taking = false;
    pair_wait_for(&pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_PERMISSION);
    assert_int_equal(refused(&pair.origin), 1);
    assert_int_equal(atomic_load(&pair.origin.handled) + atomic_load(&pair.target.handled), 0);
    (void) HG_Destroy(handle);
    free(in.data);
    pair_echo(&pair, 10);
    assert_int_equal(HG_Addr_free(pair.target.hg_class, origin), HG_SUCCESS);
    pair_end(&pair);
}

/* Any number of HELLOs neither closes the open sessions nor prevents new ones. */
static void offers_displace_nothing(void **state)
{
    const struct hg_sessions *sessions;
    struct message *hello = NULL;
    struct pair pair, other = {0};

    (void) state;
    is_taking = true;
    pair_open_keyed(&pair);
    pair_echo(&pair, 10);
    is_taking = false;
    for (int i = 0; i < taken_count; i++)
        if (!taken[i]->is_expected && is_hello(taken[i]))
            hello = taken[i];
    assert_non_null(hello);
    sessions = &hg_rpc_context(pair.target.context)->sessions;
    assert_int_equal(sessions->offers.count, 0);
    assert_int_equal(sessions->open.count, 1);
    for (uint32_t i = 0; i < HG_OFFERS_MAX + 20; i++)
        inject(&pair, hello);
    for (int i = 0; i < 100000 && refused(&pair.target) < 20; i++)
        pair_progress(&pair);
    assert_in_range(sessions->offers.count, 1, HG_OFFERS_MAX);
    assert_int_equal(sessions->open.count, 1);
    assert_true(refused(&pair.target) >= 20);
    pair_echo(&pair, 10);
    side_open_keyed(&other.origin, KEY);
    other.target = pair.target;
    other.addr = side_lookup(&other.origin, &pair.target);
    pair_echo(&other, 10);
    assert_int_equal(sessions->open.count, 2);
    assert_int_equal(HG_Addr_free(other.origin.hg_class, other.addr), HG_SUCCESS);
    side_close(&other.origin);
    pair_end(&pair);
}

/*
 * The refusal of a peer without the key is the same for all keys, and has no seal: it tells nothing
 * about the key.
 */
static void a_refusal_proves_nothing(void **state)
{
    static const char *const keys[] = {KEY, "abracadabra"};
    char refusals[2][sizeof(struct hg_core_header_response)];
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    (void) state;
    for (int i = 0; i < 2; i++) {
        struct pair pair = {0};
        hg_handle_t handle;
        struct blob in;

        side_open(&pair.origin, &info);
        side_open_keyed(&pair.target, keys[i]);
        pair.addr = side_lookup(&pair.origin, &pair.target);
        blob_make(&in, 10, 1);
        handle = pair_create(&pair, RPC_ECHO);
        is_taking = true;
        assert_int_equal(pair_call(&pair, handle, &in), HG_PERMISSION);
        is_taking = false;
        assert_int_equal(taken_count, 2);
        assert_true(taken[1]->is_expected);
        assert_int_equal(taken[1]->size, taken[1]->header + sizeof(refusals[i]));
        memcpy(refusals[i], taken[1]->bytes + taken[1]->header, sizeof(refusals[i]));
        /* The cookie differs, because the origin chose it. */
        memset(refusals[i] + offsetof(struct hg_core_header_response, cookie), 0, 2);
        refusals[i][offsetof(struct hg_core_header_response, cookie_high)] = 0;
        (void) HG_Destroy(handle);
        free(in.data);
        pair_end(&pair);
    }
    assert_memory_equal(refusals[0], refusals[1], sizeof(refusals[0]));
}

static void both_call_at_once(void **state)
{
    struct outcome outcomes[2] = {{0}, {0}};
    struct pair pair, back = {0};
    hg_handle_t handles[2];
    struct blob in;

    (void) state;
    pair_open_keyed(&pair);
    back.origin = pair.target;
    back.target = pair.origin;
    back.addr = side_lookup(&pair.target, &pair.origin);
    blob_make(&in, 10, 1);
    handles[0] = pair_create(&pair, RPC_ECHO);
    handles[1] = pair_create(&back, RPC_ECHO);
    assert_int_equal(HG_Forward(handles[0], outcome_set, &outcomes[0], &in), HG_SUCCESS);
    assert_int_equal(HG_Forward(handles[1], outcome_set, &outcomes[1], &in), HG_SUCCESS);
    for (int i = 0; i < 2; i++) {
        pair_wait_for(&pair, &outcomes[i].count, 1);
        assert_int_equal(outcomes[i].ret, HG_SUCCESS);
        (void) HG_Destroy(handles[i]);
    }
    free(in.data);
    assert_int_equal(HG_Addr_free(pair.target.hg_class, back.addr), HG_SUCCESS);
    pair_end(&pair);
}

/* The target loses its sessions, as in a restart. */
static void target_forgets(struct pair *pair)
{
    struct hg_sessions *sessions = &hg_rpc_context(pair->target.context)->sessions;

    hg_sessions_fini(sessions);
    memset(sessions, 0, sizeof(*sessions));
    hg_sessions_init(sessions);
}

/* One RPC fails with HG_HOSTUNREACH, and the next ones succeed. */
static void a_restart_costs_one_rpc(void **state)
{
    struct pair pair;

    (void) state;
    pair_open_keyed(&pair);
    pair_echo(&pair, 10);
    target_forgets(&pair);
    assert_int_equal(call_hooked(&pair, NULL, 0), HG_HOSTUNREACH);
    assert_int_equal(atomic_load(&pair.target.handled), 1);
    pair_echo(&pair, 10);
    /* The origin restarts: another class of the same process takes its place. */
    assert_int_equal(HG_Addr_free(pair.origin.hg_class, pair.addr), HG_SUCCESS);
    side_close(&pair.origin);
    memset(&pair.origin, 0, sizeof(pair.origin));
    side_open_keyed(&pair.origin, KEY);
    pair.addr = side_lookup(&pair.origin, &pair.target);
    pair_echo(&pair, 10);
    pair_end(&pair);
}

static na_return_t spoil_hello_ack(struct message *message, char *bytes)
{
    if (message->is_expected && is_hello(message))
        bytes[message->size - 1] ^= 1;
    return NA_SUCCESS;
}

/* A forged refusal, saying that the target has no session, ends one RPC but not the session. */
static void a_forged_refusal_ends_one_rpc(void **state)
{
    const struct hg_core_header_response header = {.ret_code = HG_HOSTUNREACH,
                                                   .protocol = HG_CORE_PROTOCOL_VERSION,
                                                   .hg = htole16(HG_CORE_RESPONSE_MAGIC),
                                                   .id = htole64(RPC_HOLD)};
    const struct hg_sessions *sessions;
    struct outcome outcome = {0};
    struct message forged;
    struct pair pair;
    hg_handle_t handle;
    struct blob in;

    (void) state;
    pair_open_keyed(&pair);
    pair_echo(&pair, 10);
    sessions = &hg_rpc_context(pair.target.context)->sessions;
    for (int round = 0; round < 2; round++) {
        const uint64_t id = sessions->open.first->id;

        atomic_store(&outcome.count, 0);
        blob_make(&in, 10, 1);
        handle = pair_create(&pair, RPC_HOLD);
        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
        pair_wait_held(&pair, &pair.target, 1);
        response_make(&pair, handle, header, sizeof(header), &forged);
        inject_as(&pair, &forged, &forged, handle->tag);
        pair_wait_for(&pair, &outcome.count, 1);
        assert_int_equal(outcome.ret, HG_HOSTUNREACH);
        side_respond_held(&pair.target, NULL);
        (void) HG_Destroy(handle);
        free(in.data);
        /*
         * In the first round no new session can be made, and the old one stays in use. In the
         * second round a new session replaces it.
         */
        hook = round == 0 ? spoil_hello_ack : NULL;
        pair_echo(&pair, 10);
        hook = NULL;
        assert_int_equal(sessions->open.count, 1);
        assert_int_equal(sessions->open.first->id == id, round == 0);
    }
    pair_end(&pair);
}

/* Spoils the HELLO_ACK, and refuses further HELLOs and requests. */
static na_return_t spoil_and_stall(struct message *message, char *bytes)
{
    if (!message->is_expected && hook_left-- <= 0)
        return NA_AGAIN;
    return spoil_hello_ack(message, bytes);
}

static void keys_rotate(void **state)
{
    /* The first and the second key of origin and target. */
    static const struct {
        const char *origin[2], *target[2];
        uint32_t guesses; /* HELLOs under a key that the target does not have */
    } steps[] = {
        {{"old", NULL}, {"old", "new"}, 0},  {{"old", "new"}, {"new", "old"}, 0},
        {{"new", "old"}, {"old", "new"}, 0}, {{"new", "old"}, {"new", NULL}, 0},
        {{"new", "old"}, {"old", NULL}, 1},
    };

    (void) state;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        const struct hg_sessions *sessions;
        struct pair pair = {0};

        also = steps[i].origin[1];
        side_open_keyed(&pair.origin, steps[i].origin[0]);
        also = steps[i].target[1];
        side_open_keyed(&pair.target, steps[i].target[0]);
        also = NULL;
        pair.addr = side_lookup(&pair.origin, &pair.target);
        pair_echo(&pair, 10);
        pair_echo(&pair, 10);
        sessions = &hg_rpc_context(pair.target.context)->sessions;
        assert_int_equal(sessions->offers.count, steps[i].guesses);
        assert_int_equal(refused(&pair.origin), steps[i].guesses);
        /* The next session begins with the key that worked before. */
        target_forgets(&pair);
        assert_int_equal(call_hooked(&pair, NULL, 0), HG_HOSTUNREACH);
        assert_int_equal(refused(&pair.origin), steps[i].guesses + 1); /* the refusal has no seal */
        pair_echo(&pair, 10);
        assert_int_equal(sessions->offers.count, 0);
        assert_int_equal(refused(&pair.origin), steps[i].guesses + 1);
        pair_end(&pair);
    }
}

/* Make all offers ten seconds older. */
static void offers_age(struct hg_rpc_context *context)
{
    struct hg_session *offer = context->sessions.offers.first;

    for (; offer != NULL; offer = offer->next)
        offer->made_ns -= HG_OFFERS_NS;
}

static char counters_line[2048];

static int keep_counters(FILE *stream, const char *format, ...)
{
    char line[sizeof(counters_line)];
    va_list args;

    (void) stream;
    va_start(args, format);
    (void) vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (strstr(line, "counters of class: ") != NULL)
        (void) strcpy(counters_line, line);
    return 0;
}

/*
 * A wrong key is counted when the counters are read, even if no other HELLO arrives and the context
 * is destroyed.
 */
static void a_guess_is_counted_without_another_hello(void **state)
{
    const struct hg_sessions *sessions;
    struct pair pair = {0};

    (void) state;
    side_open_keyed(&pair.origin, "other");
    side_open_keyed(&pair.target, KEY);
    pair.addr = side_lookup(&pair.origin, &pair.target);
    sessions = &hg_rpc_context(pair.target.context)->sessions;
    assert_int_equal(call_hooked(&pair, NULL, 0), HG_PERMISSION);
    assert_int_equal(refused(&pair.target), 0);
    assert_int_equal(sessions->offers.count, 1);
    offers_age(hg_rpc_context(pair.target.context));
    assert_int_equal(refused(&pair.target), 1);
    assert_int_equal(sessions->offers.count, 0);
    assert_int_equal(call_hooked(&pair, NULL, 0), HG_PERMISSION);
    assert_int_equal(refused(&pair.target), 1);
    assert_int_equal(sessions->offers.count, 1);
    assert_int_equal(HG_Addr_free(pair.origin.hg_class, pair.addr), HG_SUCCESS);
    side_close(&pair.origin);
    assert_int_equal(HG_Context_destroy(pair.target.context), HG_SUCCESS);
    assert_int_equal(refused(&pair.target), 2);
    hg_rpc_class(pair.target.hg_class)->stats = true;
    HG_Set_log_func(keep_counters);
    assert_int_equal(HG_Finalize(pair.target.hg_class), HG_SUCCESS);
    HG_Set_log_func(NULL);
    assert_non_null(strstr(counters_line, ", key 2;"));
}

/* A HELLO proves one key, so that an origin with two wrong keys sends one HELLO for each. */
static void a_third_key_is_one_guess_for_each(void **state)
{
    const struct hg_sessions *sessions;
    struct message *hellos[2];
    struct pair pair = {0};

    (void) state;
    also = "old";
    side_open_keyed(&pair.origin, "new");
    also = NULL;
    side_open_keyed(&pair.target, "other");
    pair.addr = side_lookup(&pair.origin, &pair.target);
    sessions = &hg_rpc_context(pair.target.context)->sessions;
    for (uint32_t i = 1; i <= 3; i++) {
        int count = 0;

        is_taking = true;
        assert_int_equal(call_hooked(&pair, NULL, 0), HG_PERMISSION);
        is_taking = false;
        for (int k = 0; k < taken_count; k++)
            if (!taken[k]->is_expected) {
                assert_true(is_hello(taken[k]));
                assert_in_range(count, 0, 1);
                hellos[count++] = taken[k];
            }
        assert_int_equal(count, 2);
        assert_int_equal(hellos[0]->size, hellos[1]->size);
        assert_memory_not_equal(hellos[0]->bytes + hellos[0]->size - KIT_AUTH_SHARE,
                                hellos[1]->bytes + hellos[1]->size - KIT_AUTH_SHARE,
                                KIT_AUTH_SHARE);
        taken_clear();
        assert_int_equal(refused(&pair.origin), 2 * i);
        assert_int_equal(sessions->offers.count, 2);
        assert_int_equal(refused(&pair.target), 2 * (i - 1)); /* the next HELLO counts them */
        offers_age(hg_rpc_context(pair.target.context));
    }
    assert_int_equal(atomic_load(&pair.target.handled), 0);
    pair_end(&pair);
}

/*
 * The HELLO under the second key is not sent, because the transport is full, and the RPC that waits
 * for the session is cancelled.
 */
static void an_attempt_that_is_left_tries_both_keys_anew(void **state)
{
    struct outcome outcome = {0};
    hg_handle_t handle;
    struct pair pair = {0};
    struct blob in;

    (void) state;
    also = "old";
    side_open_keyed(&pair.origin, "new");
    also = NULL;
    side_open_keyed(&pair.target, "new");
    pair.addr = side_lookup(&pair.origin, &pair.target);
    blob_make(&in, 10, 1);
    handle = pair_create(&pair, RPC_ECHO);
    hook = spoil_and_stall;
    hook_left = 1;
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    for (uint64_t start = now_ms(); refused(&pair.origin) == 0 && now_ms() - start < WAIT_MS;)
        pair_progress(&pair);
    assert_int_equal(refused(&pair.origin), 1);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(&pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_CANCELED);
    hook = NULL;
    /*
     * The next attempt begins with the second key, which the target does not have, and then tries
     * the first.
     */
    assert_int_equal(pair_call(&pair, handle, &in), HG_SUCCESS);
    assert_int_equal(refused(&pair.origin), 2);
    (void) HG_Destroy(handle);
    free(in.data);
    pair_end(&pair);
}

/* The target makes no progress, but RPCs that wait for a session end by cancel and deadline. */
static void waiting_ends_by_cancel_and_deadline(void **state)
{
    struct outcome outcomes[2] = {{0}, {0}};
    hg_handle_t handles[2];
    struct pair pair;
    struct blob in;

    (void) state;
    pair_open_keyed(&pair);
    blob_make(&in, 10, 1);
    for (int i = 0; i < 2; i++) {
        handles[i] = pair_create(&pair, RPC_ECHO);
        if (i == 1)
            (void) HG_Set_deadline(handles[i], 10);
        assert_int_equal(HG_Forward(handles[i], outcome_set, &outcomes[i], &in), HG_SUCCESS);
    }
    assert_int_equal(HG_Cancel(handles[0]), HG_SUCCESS);
    while (atomic_load(&outcomes[0].count) == 0 || atomic_load(&outcomes[1].count) == 0)
        side_progress(&pair.origin);
    assert_int_equal(outcomes[0].ret, HG_CANCELED);
    assert_int_equal(outcomes[1].ret, HG_TIMEOUT);
    /* The session is made nevertheless, and later RPCs use it. */
    for (int i = 0; i < 2; i++) {
        (void) HG_Set_deadline(handles[i], 0);
        assert_int_equal(pair_call(&pair, handles[i], &in), HG_SUCCESS);
        (void) HG_Destroy(handles[i]);
    }
    assert_int_equal(atomic_load(&pair.target.handled), 2);
    free(in.data);
    pair_end(&pair);
}

/* The HELLO is in flight, but no RPC waits for its answer: the contexts can be destroyed. */
static void a_hello_on_its_way_keeps_no_context(void **state)
{
    struct outcome outcome = {0};
    hg_handle_t handle;
    struct pair pair;

    (void) state;
    pair_open_keyed(&pair);
    handle = pair_create(&pair, RPC_NULL);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, NULL), HG_SUCCESS);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    while (atomic_load(&outcome.count) == 0)
        side_progress(&pair.origin);
    (void) HG_Destroy(handle);
    assert_int_equal(HG_Addr_free(pair.origin.hg_class, pair.addr), HG_SUCCESS);
    side_close(&pair.origin);
    side_close(&pair.target);
}

static na_return_t no_room(struct message *message, char *bytes)
{
    (void) message;
    (void) bytes;
    return hook_left-- > 0 ? NA_AGAIN : NA_SUCCESS;
}

/* HELLOs, their answers and the RPCs that wait for a session survive a transport that is full. */
static void waiting_survives_a_full_transport(void **state)
{
    struct outcome outcomes[4] = {{0}, {0}, {0}, {0}};
    hg_handle_t handles[4];
    struct blob in;

    (void) state;
    for (unsigned int limit = 0; limit < 2; limit++) {
        struct pair pair;

        pair_open_keyed(&pair);
        (void) HG_Class_set_max_in_flight(pair.origin.hg_class, limit);
        blob_make(&in, 10, 1);
        hook = no_room;
        hook_left = 3;
        for (int i = 0; i < 4; i++) {
            atomic_store(&outcomes[i].count, 0);
            handles[i] = pair_create(&pair, RPC_ECHO);
            assert_int_equal(HG_Forward(handles[i], outcome_set, &outcomes[i], &in), HG_SUCCESS);
        }
        for (int i = 0; i < 4; i++) {
            hook_left = 2;
            pair_wait_for(&pair, &outcomes[i].count, 1);
            assert_int_equal(outcomes[i].ret, HG_SUCCESS);
            (void) HG_Destroy(handles[i]);
        }
        free(in.data);
        assert_int_equal(atomic_load(&pair.target.handled), 4);
        assert_int_equal(refused(&pair.target), 0);
        pair_end(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_answer_is_refused),
        cmocka_unit_test(offers_displace_nothing),
        cmocka_unit_test(a_refusal_proves_nothing),
        cmocka_unit_test(both_call_at_once),
        cmocka_unit_test(a_restart_costs_one_rpc),
        cmocka_unit_test(a_forged_refusal_ends_one_rpc),
        cmocka_unit_test(keys_rotate),
        cmocka_unit_test(a_guess_is_counted_without_another_hello),
        cmocka_unit_test(a_third_key_is_one_guess_for_each),
        cmocka_unit_test(an_attempt_that_is_left_tries_both_keys_anew),
        cmocka_unit_test(waiting_ends_by_cancel_and_deadline),
        cmocka_unit_test(a_hello_on_its_way_keeps_no_context),
        cmocka_unit_test(waiting_survives_a_full_transport),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
