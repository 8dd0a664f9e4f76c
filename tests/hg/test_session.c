/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions of HG: what an attacker on the network can do to the messages of two peers that have the
 * key.
 */
#include "session_fixture.h"

#include <pthread.h>
#include <string.h>

/*
 * All kinds of messages: small, large and one-way RPCs, acknowledgements in both directions, and
 * ABANDON.
 */
static void run_all_kinds(struct pair *pair)
{
    struct outcome outcome = {0};
    hg_handle_t handle;
    struct blob in;

    pair_echo(pair, 10);
    pair_echo(pair, pair_large(pair));
    blob_make(&in, 10, 1);
    handle = pair_create(pair, RPC_ONEWAY);
    assert_int_equal(pair_call(pair, handle, &in), HG_SUCCESS);
    free(in.data);
    blob_make(&in, pair_large(pair), 1);
    assert_int_equal(pair_call(pair, handle, &in), HG_SUCCESS);
    (void) HG_Destroy(handle);
    handle = pair_create(pair, RPC_HOLD);
    free(in.data);
    blob_make(&in, 10, 1);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    pair_wait_held(pair, &pair->target, 1);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, 1);
    side_respond_held(&pair->target, NULL);
    (void) HG_Destroy(handle);
    free(in.data);
    pair_wait_for(pair, &pair->target.handled, 5);
    pair_run(pair, 5);
}

static void replayed_is_refused(void **state)
{
    uint64_t refusals = 0;
    struct pair pair;
    int handled, kinds = 0;

    (void) state;
    is_taking = true;
    pair_open_keyed(&pair);
    run_all_kinds(&pair);
    is_taking = false;
    handled = atomic_load(&pair.target.handled);
    assert_int_equal(refused(&pair.target), 0);
    assert_int_equal(refused(&pair.origin), 0);
    for (int i = 0; i < taken_count; i++) {
        inject(&pair, taken[i]);
        if (taken[i]->is_expected || is_hello(taken[i]))
            continue; /* no receive is posted for it, or it is a HELLO, which only makes an offer */
        wait_refused(&pair, &pair.target, ++refusals);
        kinds++;
    }
    assert_in_range(kinds, 6, TAKEN_MAX); /* five requests and ABANDON */
    assert_int_equal(atomic_load(&pair.target.handled), handled);
    assert_int_equal(refused(&pair.origin), 0);
    pair_echo(&pair, 10);
    pair_end(&pair);
}

/* The request is sent back to its sender, first as a request and then as a response. */
static void reflected_is_refused(void **state)
{
    struct message back, *request;
    struct outcome outcome = {0};
    struct pair pair;
    hg_handle_t handle;
    struct blob in;

    (void) state;
    pair_open_keyed(&pair);
    blob_make(&in, 10, 1);
    is_taking = true;
    handle = pair_create(&pair, RPC_HOLD);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    pair_wait_held(&pair, &pair.target, 1);
    is_taking = false;
    request = taken_request();
    back = *request;
    message_is_from(&back, &pair.target, pair.target.held[0]->source.na_addr[HG_PATH_MAIN]);
    inject(&pair, &back);
    wait_refused(&pair, &pair.origin, 1);
    assert_int_equal(atomic_load(&pair.origin.handled), 0);
    /* It is sent as the expected message, with the first bytes of a response. */
    back.is_expected = true;
    memmove(back.bytes + NA_Msg_get_expected_header_size(back.na_class),
            request->bytes + request->header, request->size - request->header);
    back.size = request->size - request->header + NA_Msg_get_expected_header_size(back.na_class);
    back.bytes[NA_Msg_get_expected_header_size(back.na_class)] = 'H';
    back.bytes[NA_Msg_get_expected_header_size(back.na_class) + 1] = 'R';
    back.bytes[NA_Msg_get_expected_header_size(back.na_class) +
               offsetof(struct hg_core_header_response, ret_code)] = 0;
    inject(&pair, &back);
    pair_wait_for(&pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_PERMISSION);
    assert_int_equal(refused(&pair.origin), 2);
    side_respond_held(&pair.target, NULL);
    (void) HG_Destroy(handle);
    free(in.data);
    pair_echo(&pair, 10);
    pair_end(&pair);
}

/*
 * A request that is sealed with the session's key, but like an expected message, is refused; the
 * same request, sealed like an unexpected message, is accepted.
 */
static void a_request_has_a_requests_number(void **state)
{
    struct hg_session *session;
    struct message *request;
    struct pair pair;
    hg_handle_t handle;
    struct blob in;

    (void) state;
    pair_open_keyed(&pair);
    blob_make(&in, 10, 1);
    handle = pair_create(&pair, RPC_ECHO);
    is_taking = true;
    assert_int_equal(pair_call(&pair, handle, &in), HG_SUCCESS);
    is_taking = false;
    request = taken_request();
    session = handle->session;
    assert_non_null(session);
    request->tag = 0; /* the tag in the seal of an expected message */
    hg_session_seal_expected(session, request->bytes + request->header,
                             request->size - request->header, session->id);
    inject(&pair, request);
    wait_refused(&pair, &pair.target, 1);
    assert_int_equal(atomic_load(&pair.target.handled), 1);
    (void) hg_session_seal(session, request->bytes + request->header,
                           request->size - request->header, request->tag);
    inject(&pair, request);
    pair_wait_for(&pair, &pair.target.handled, 2);
    assert_int_equal(refused(&pair.target), 1);
    (void) HG_Destroy(handle);
    free(in.data);
    pair_echo(&pair, 10);
    pair_end(&pair);
}

/* Likewise for a response, sealed by the target. */
static void a_response_has_a_responses_number(void **state)
{
    const struct hg_core_header_response header = {.flags = HG_CORE_HEADER_HAS_SEAL,
                                                   .protocol = HG_CORE_SEALED_VERSION,
                                                   .hg = htole16(HG_CORE_RESPONSE_MAGIC),
                                                   .id = htole64(RPC_HOLD)};
    const size_t size = sizeof(header) + sizeof(struct hg_core_header_seal);
    struct hg_session *session;
    struct message response;
    struct pair pair;
    struct blob in;

    (void) state;
    pair_open_keyed(&pair);
    blob_make(&in, 10, 1);
    for (int is_expected = 0; is_expected < 2; is_expected++) {
        hg_handle_t handle = pair_create(&pair, RPC_HOLD);
        struct outcome outcome = {0};
        uint64_t id;

        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
        pair_wait_held(&pair, &pair.target, 1);
        response_make(&pair, handle, header, size, &response);
        /* Both ways of sealing are bound to this request's number. */
        session = pair.target.held[0]->session;
        id = session->id;
        session->id = handle->number;
        if (is_expected)
            hg_session_seal_expected(session, response.bytes + response.header, size,
                                     handle->number);
        else
            (void) hg_session_seal(session, response.bytes + response.header, size, 0);
        session->id = id;
        inject_as(&pair, &response, &response, handle->tag);
        pair_wait_for(&pair, &outcome.count, 1);
        assert_int_equal(outcome.ret, is_expected ? HG_SUCCESS : HG_PERMISSION);
        assert_int_equal(refused(&pair.origin), 1);
        side_respond_held(&pair.target, NULL);
        (void) HG_Destroy(handle);
    }
    free(in.data);
    pair_echo(&pair, 10);
    pair_end(&pair);
}

static na_return_t edit_request(struct message *message, char *bytes)
{
    if (is_request(message))
        bytes[message->header + hook_at] ^= 1;
    return NA_SUCCESS;
}

static na_return_t edit_tag(struct message *message, char *bytes)
{
    (void) bytes;
    if (is_request(message))
        message->tag ^= 1;
    return NA_SUCCESS;
}

static na_return_t cut_request(struct message *message, char *bytes)
{
    (void) bytes;
    if (is_request(message))
        message->size -= hook_at;
    return NA_SUCCESS;
}

static na_return_t edit_response(struct message *message, char *bytes)
{
    if (message->is_expected)
        bytes[message->header + hook_at] ^= 1;
    return NA_SUCCESS;
}

static na_return_t cut_response(struct message *message, char *bytes)
{
    (void) bytes;
    if (message->is_expected)
        message->size -= hook_at;
    return NA_SUCCESS;
}

static void each_byte_is_sealed(void **state)
{
    const size_t size = sizeof(struct hg_core_header_request) + sizeof(struct hg_core_header_seal) +
                        BLOB_OVERHEAD + 10;
    const struct side *side;
    struct pair pair;

    (void) state;
    pair_open_keyed(&pair);
    pair_echo(&pair, 10);
    side = &pair.target;
    for (size_t i = 0; i < size; i++) {
        assert_int_not_equal(call_altered(&pair, edit_request, i, side), HG_SUCCESS);
        assert_int_not_equal(call_altered(&pair, cut_request, i + 1, side), HG_SUCCESS);
    }
    assert_int_not_equal(call_altered(&pair, edit_tag, 0, side), HG_SUCCESS);
    assert_int_equal(refused_at_all(side), 2 * size + 1);
    assert_int_equal(atomic_load(&pair.target.handled), 1);
    side = &pair.origin;
    for (size_t i = 0; i < size; i++) {
        assert_int_not_equal(call_altered(&pair, edit_response, i, side), HG_SUCCESS);
        assert_int_not_equal(call_altered(&pair, cut_response, i + 1, side), HG_SUCCESS);
    }
    pair_echo(&pair, 10);
    pair_end(&pair);
}

/* The response to another request of the session arrives before the right one. */
static void swapped_response_is_refused(void **state)
{
    struct message *request = NULL, *old = NULL, as;
    struct outcome outcome = {0};
    struct blob in, out = {0};
    struct pair pair;
    hg_handle_t handle;

    (void) state;
    pair_open_keyed(&pair);
    is_taking = true;
    pair_echo(&pair, 10);
    blob_make(&in, 10, 1);
    handle = pair_create(&pair, RPC_ECHO);
    assert_int_equal(pair_call(&pair, handle, &in), HG_SUCCESS);
    (void) HG_Destroy(handle);
    for (int i = 0; i < taken_count; i++)
        if (taken[i]->is_expected && !is_hello(taken[i]))
            old = taken[i];
    assert_non_null(old);
    handle = pair_create(&pair, RPC_HOLD);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    request = taken[taken_count - 1];
    pair_wait_held(&pair, &pair.target, 1);
    is_taking = false;
    as = *old;
    inject_as(&pair, &as, old, request->tag);
    for (int i = 0; i < 10000 && refused(&pair.origin) == 0 &&
                    side_ext_counters(&pair.origin).late_response_count == 0;
         i++)
        pair_progress(&pair);
    assert_int_equal(refused(&pair.origin) + side_ext_counters(&pair.origin).late_response_count,
                     1);
    assert_int_equal(atomic_load(&outcome.count), 0);
    side_respond_held(&pair.target, &in);
    pair_wait_for(&pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    assert_int_equal(HG_Get_output(handle, &out), HG_SUCCESS);
    blob_check(&out, 10, 1);
    (void) HG_Free_output(handle, &out);
    (void) HG_Destroy(handle);
    free(in.data);
    pair_end(&pair);
}

/*
 * Another origin, which has the key as well, sends a request that was sealed in the first origin's
 * session.
 */
static void a_session_is_its_origins(void **state)
{
    struct message stolen, *own;
    struct pair pair, other = {0};
    uint64_t before;

    (void) state;
    pair_open_keyed(&pair);
    side_open_keyed(&other.origin, KEY);
    other.target = pair.target;
    other.addr = side_lookup(&other.origin, &pair.target);
    pair_echo(&other, 10);
    pair_echo(&pair, 10);
    /*
     * This request is damaged on the wire, so that its number is unused and the copy that was taken
     * may be sent again.
     */
    is_taking = true;
    assert_int_not_equal(call_hooked(&pair, edit_request, sizeof(struct hg_core_header_request)),
                         HG_SUCCESS);
    is_taking = false;
    own = taken_request();
    stolen = *own;
    message_is_from(&stolen, &other.origin, other.addr->na_addr[HG_PATH_MAIN]);
    before = refused(&pair.target);
    inject(&other, &stolen);
    wait_refused(&other, &pair.target, before + 1);
    assert_int_equal(atomic_load(&pair.target.handled), 2);
    /* The same request is accepted from the right origin. */
    inject(&pair, own);
    for (int i = 0; i < 10000 && atomic_load(&pair.target.handled) == 2; i++)
        pair_progress(&pair);
    assert_int_equal(atomic_load(&pair.target.handled), 3);
    assert_int_equal(HG_Addr_free(other.origin.hg_class, other.addr), HG_SUCCESS);
    side_close(&other.origin);
    pair_end(&pair);
}

/* Contexts of many origins call one target: each pair of contexts has a session of its own. */
static void each_pair_of_contexts_has_its_own(void **state)
{
    struct pair pair, others[8];
    hg_addr_t again;

    (void) state;
    pair_open_keyed(&pair);
    for (size_t i = 0; i < 8; i++) {
        memset(&others[i], 0, sizeof(others[i]));
        side_open_keyed(&others[i].origin, KEY);
        others[i].target = pair.target;
        others[i].addr = side_lookup(&others[i].origin, &pair.target);
        pair_echo(&others[i], 10);
    }
    for (size_t i = 0; i < 8; i++)
        pair_echo(&others[i], 10);
    /* Another address of the same peer uses the same session. */
    again = side_lookup(&others[0].origin, &pair.target);
    assert_int_equal(HG_Addr_free(others[0].origin.hg_class, others[0].addr), HG_SUCCESS);
    others[0].addr = again;
    pair_echo(&others[0], 10);
    assert_in_range(hg_rpc_context(pair.target.context)->sessions.open.count, 8, 9);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(HG_Addr_free(others[i].origin.hg_class, others[i].addr), HG_SUCCESS);
        side_close(&others[i].origin);
    }
    pair_end(&pair);
}

#define THREADS 4
#define CALLS   300

static void *call_often(void *arg)
{
    const struct pair *pair = arg;
    struct outcome outcome = {0};
    hg_handle_t handle;
    uintptr_t failed = 0;

    if (HG_Create(pair->origin.context, pair->addr, RPC_NULL, &handle) != HG_SUCCESS)
        return arg;
    for (int i = 1; i <= CALLS && failed == 0; i++) {
        failed = HG_Forward(handle, outcome_set, &outcome, NULL) != HG_SUCCESS;
        while (failed == 0 && atomic_load(&outcome.count) < i)
            pair_progress(pair);
        failed |= outcome.ret != HG_SUCCESS;
    }
    (void) HG_Destroy(handle);
    return (void *) failed;
}

/* Threads take numbers, and the target receives them, in any order; none is refused. */
static void threads_share_a_session(void **state)
{
    pthread_t threads[THREADS];
    struct pair pair;

    (void) state;
    pair_open_keyed(&pair);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &pair), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;

        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(atomic_load(&pair.target.handled), THREADS * CALLS);
    assert_int_equal(refused(&pair.target) + refused(&pair.origin), 0);
    assert_int_equal(hg_rpc_context(pair.target.context)->sessions.open.count, 1);
    pair_end(&pair);
}

/* Releases without sessions sealed messages with a tag, in version 1 of the protocol. */
static void an_older_release_is_refused(void **state)
{
    struct message *request;
    struct pair pair;

    (void) state;
    pair_open_keyed(&pair);
    is_taking = true;
    pair_echo(&pair, 10);
    is_taking = false;
    request = taken_request();
    request->bytes[request->header + offsetof(struct hg_core_header_request, protocol)] =
        HG_CORE_PROTOCOL_VERSION;
    inject(&pair, request);
    for (int i = 0; i < 10000 && side_ext_counters(&pair.target).refused_version_count == 0; i++)
        pair_progress(&pair);
    assert_int_equal(side_ext_counters(&pair.target).refused_version_count, 1);
    pair_end(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replayed_is_refused),
        cmocka_unit_test(reflected_is_refused),
        cmocka_unit_test(a_request_has_a_requests_number),
        cmocka_unit_test(a_response_has_a_responses_number),
        cmocka_unit_test(each_byte_is_sealed),
        cmocka_unit_test(swapped_response_is_refused),
        cmocka_unit_test(a_session_is_its_origins),
        cmocka_unit_test(each_pair_of_contexts_has_its_own),
        cmocka_unit_test(threads_share_a_session),
        cmocka_unit_test(an_older_release_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
