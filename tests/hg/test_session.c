/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions of HG: what somebody on the way can do to messages between two who have the key. It sees
 * each message below HG, may alter it, and sends others in its sender's place.
 */
#include "hg_fixture.h"

#include "hg/header.h"
#include "hg/sessions.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY         "open sesame"
#define MESSAGE_MAX 8192u
#define TAKEN_MAX   64

struct message {
    na_class_t *na_class;
    na_context_t *context;
    na_addr_t *addr;
    size_t header; /* NA's own */
    size_t size;
    na_tag_t tag;
    uint8_t id;
    bool is_expected;
    char bytes[MESSAGE_MAX];
};

/* What is done to a message: it may alter `bytes` (those that are sent), size and tag. */
typedef na_return_t (*hook_t)(struct message *message, char *bytes);

static hook_t hook;
static size_t hook_at; /* for a hook: which byte */
static int hook_left;  /* for a hook: how often */
static struct message *taken[TAKEN_MAX];
static int taken_count;
static bool is_taking;
static const char *also; /* a second key of the next classes */

typedef na_return_t send_fn(na_class_t *na_class, na_context_t *context, na_cb_t callback,
                            void *arg, const void *buf, size_t size, void *data, na_addr_t *addr,
                            uint8_t id, na_tag_t tag, na_op_id_t *op);

send_fn __real_NA_Msg_send_unexpected, __wrap_NA_Msg_send_unexpected, __real_NA_Msg_send_expected,
    __wrap_NA_Msg_send_expected;

static na_return_t send_hooked(send_fn *send, bool is_expected, na_class_t *na_class,
                               na_context_t *context, na_cb_t callback, void *arg, const void *buf,
                               size_t size, void *data, na_addr_t *addr, uint8_t id, na_tag_t tag,
                               na_op_id_t *op)
{
    static struct message message;
    na_return_t ret = NA_SUCCESS;

    if (!is_taking && hook == NULL)
        return send(na_class, context, callback, arg, buf, size, data, addr, id, tag, op);
    assert_in_range(size, 1, MESSAGE_MAX);
    message = (struct message){na_class, context, addr, 0, size, tag, id, is_expected, {0}};
    message.header = is_expected ? NA_Msg_get_expected_header_size(na_class)
                                 : NA_Msg_get_unexpected_header_size(na_class);
    memcpy(message.bytes, buf, size);
    if (is_taking) {
        assert_in_range(taken_count, 0, TAKEN_MAX - 1);
        taken[taken_count] = malloc(sizeof(message));
        assert_non_null(taken[taken_count]);
        *taken[taken_count] = message;
        assert_int_equal(NA_Addr_dup(na_class, addr, &taken[taken_count]->addr), NA_SUCCESS);
        taken_count++;
    }
    if (hook != NULL)
        ret = hook(&message, (char *) (uintptr_t) buf);
    return ret == NA_SUCCESS ? send(na_class, context, callback, arg, buf, message.size, data, addr,
                                    message.id, message.tag, op)
                             : ret;
}

na_return_t __wrap_NA_Msg_send_unexpected(na_class_t *na_class, na_context_t *context,
                                          na_cb_t callback, void *arg, const void *buf, size_t size,
                                          void *data, na_addr_t *addr, uint8_t id, na_tag_t tag,
                                          na_op_id_t *op)
{
    return send_hooked(__real_NA_Msg_send_unexpected, false, na_class, context, callback, arg, buf,
                       size, data, addr, id, tag, op);
}

na_return_t __wrap_NA_Msg_send_expected(na_class_t *na_class, na_context_t *context,
                                        na_cb_t callback, void *arg, const void *buf, size_t size,
                                        void *data, na_addr_t *addr, uint8_t id, na_tag_t tag,
                                        na_op_id_t *op)
{
    return send_hooked(__real_NA_Msg_send_expected, true, na_class, context, callback, arg, buf,
                       size, data, addr, id, tag, op);
}

/* Forget what was taken; the classes are still open. */
static void taken_clear(void)
{
    while (taken_count > 0) {
        struct message *message = taken[--taken_count];

        NA_Addr_free(message->na_class, message->addr);
        free(message);
    }
    is_taking = false;
}

static uint8_t flags_of(const struct message *message)
{
    return (uint8_t)
        message->bytes[message->header + offsetof(struct hg_core_header_request, flags)];
}

static bool is_hello(const struct message *message)
{
    return (flags_of(message) & HG_CORE_HEADER_HELLO) != 0;
}

static bool is_request(const struct message *message)
{
    return !message->is_expected && !is_hello(message) &&
           message->bytes[message->header + 1] == 'Q';
}

/* The last that was taken. */
static struct message *taken_request(void)
{
    struct message *request = NULL;

    for (int i = 0; i < taken_count; i++)
        if (is_request(taken[i]))
            request = taken[i];
    assert_non_null(request);
    return request;
}

static void injected(const struct na_cb_info *info)
{
    atomic_fetch_add((atomic_int *) info->arg, 1);
}

/* Send it in the name of the sender of another one, who is one of the pair. */
static void inject_as(const struct pair *pair, const struct message *sender,
                      const struct message *message, na_tag_t tag)
{
    na_op_id_t *op = NA_Op_create(sender->na_class, NA_OP_SINGLE);
    send_fn *send =
        sender->is_expected ? __real_NA_Msg_send_expected : __real_NA_Msg_send_unexpected;
    atomic_int count = 0;
    void *data = NULL;
    char *buf = NA_Msg_buf_alloc(sender->na_class, message->size, NA_SEND, &data);

    assert_non_null(op);
    assert_non_null(buf);
    memcpy(buf, message->bytes, message->size);
    while (send(sender->na_class, sender->context, injected, &count, buf, message->size, data,
                sender->addr, sender->id, tag, op) == NA_AGAIN)
        pair_progress(pair);
    pair_wait_for(pair, &count, 1);
    NA_Msg_buf_free(sender->na_class, buf, data);
    NA_Op_destroy(sender->na_class, op);
}

static void inject(const struct pair *pair, const struct message *message)
{
    inject_as(pair, message, message, message->tag);
}

static void keyed_info(struct hg_init_info *info, const char *key)
{
    *info = HG_INIT_INFO_INITIALIZER;
    info->na_init_info.auth_key = key;
    info->auth_key_also = also;
}

static void side_open_keyed(struct side *side, const char *key)
{
    struct hg_init_info info;

    keyed_info(&info, key);
    side->hg_class = HG_Init_opt2(test_init_string(), HG_TRUE,
                                  HG_VERSION(HG_VERSION_MAJOR, HG_VERSION_MINOR), &info);
    assert_non_null(side->hg_class);
    side_register(side);
    side->context = HG_Context_create(side->hg_class);
    assert_non_null(side->context);
}

static void pair_open_keyed(struct pair *pair)
{
    memset(pair, 0, sizeof(*pair));
    side_open_keyed(&pair->origin, KEY);
    side_open_keyed(&pair->target, KEY);
    pair->addr = side_lookup(&pair->origin, &pair->target);
}

static void pair_end(struct pair *pair)
{
    hook = NULL;
    taken_clear();
    pair_close(pair);
}

static uint64_t refused(const struct side *side)
{
    return side_ext_counters(side).refused_key_count;
}

static void wait_refused(const struct pair *pair, const struct side *side, uint64_t count)
{
    const uint64_t start = now_ms();

    while (refused(side) < count && now_ms() - start < WAIT_MS)
        pair_progress(pair);
    assert_int_equal(refused(side), count);
}

/* All kinds of messages: small and large ones, one-way, acknowledged both ways, abandoned. */
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
            continue; /* nobody waits for it; or an offer, which changes nothing */
        wait_refused(&pair, &pair.target, ++refusals);
        kinds++;
    }
    assert_in_range(kinds, 6, TAKEN_MAX); /* five requests and ABANDON */
    assert_int_equal(atomic_load(&pair.target.handled), handled);
    assert_int_equal(refused(&pair.origin), 0);
    pair_echo(&pair, 10);
    pair_end(&pair);
}

/* A message that is sent back to its sender, as a request and as a response. */
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
    back.na_class = HG_Class_get_na(pair.target.hg_class);
    back.context = pair.target.context->na_context[HG_PATH_MAIN];
    back.addr = pair.target.held[0]->source.na_addr[HG_PATH_MAIN];
    inject(&pair, &back);
    wait_refused(&pair, &pair.origin, 1);
    assert_int_equal(atomic_load(&pair.origin.handled), 0);
    /* Where its response is awaited, with a response's first bytes. */
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

/* It has no magic any more: nobody answers. */
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

/* A HELLO that is sent back is answered by its own sender, whose key fits. */
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
    /* First the HELLO in the target's name, and then its answer. */
    for (int i = 0; i < 2; i++) {
        wait_taken(&pair, i + 1);
        assert_true(is_hello(taken[i]));
        assert_int_equal(taken[i]->is_expected, i == 1);
        sent_back = *taken[i];
        sent_back.na_class = HG_Class_get_na(pair.target.hg_class);
        sent_back.context = pair.target.context->na_context[HG_PATH_MAIN];
        sent_back.addr = origin->na_addr[HG_PATH_MAIN];
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

/* A request that is sealed, with the session's key, as what is expected is, and as it has to be. */
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
    request->tag = 0; /* that of what is expected */
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

/* Likewise a response, by the target's keys. */
static void a_response_has_a_responses_number(void **state)
{
    struct hg_core_header_response header = {.flags = HG_CORE_HEADER_HAS_SEAL,
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
        header.cookie = htole16((uint16_t) handle->cookie);
        header.cookie_high = (uint8_t) (handle->cookie >> 16);
        memset(&response, 0, sizeof(response));
        response.na_class = HG_Class_get_na(pair.target.hg_class);
        response.context = pair.target.context->na_context[HG_PATH_MAIN];
        response.addr = pair.target.held[0]->source.na_addr[HG_PATH_MAIN];
        response.is_expected = true;
        response.header = NA_Msg_get_expected_header_size(response.na_class);
        response.size = response.header + size;
        memcpy(response.bytes + response.header, &header, sizeof(header));
        /* Both are about this request. */
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

/* Whatever it was refused for: some bytes are read before the seal is. */
static uint64_t refused_at_all(const struct side *side)
{
    const struct hg_ext_counters counters = side_ext_counters(side);

    return counters.refused_key_count + counters.refused_header_count +
           counters.refused_magic_count + counters.refused_version_count +
           counters.late_response_count;
}

/*
 * An RPC whose messages are altered. It ends when `refusing` has refused one, which need not be
 * answered. NULL: nobody does.
 */
static hg_return_t call_altered(const struct pair *pair, hook_t with, size_t at,
                                const struct side *refusing)
{
    const uint64_t before = refusing != NULL ? refused_at_all(refusing) : 0;
    hg_handle_t handle = pair_create(pair, RPC_ECHO);
    struct outcome outcome = {0};
    struct blob in;

    blob_make(&in, 10, 1);
    hook = with;
    hook_at = at;
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    for (const uint64_t start = now_ms(); refusing != NULL && refused_at_all(refusing) == before &&
                                          atomic_load(&outcome.count) == 0;) {
        assert_true(now_ms() - start < WAIT_MS);
        pair_progress(pair);
    }
    hook = NULL;
    if (refusing != NULL)
        (void) HG_Cancel(handle);
    pair_wait_for(pair, &outcome.count, 1);
    (void) HG_Destroy(handle);
    free(in.data);
    return outcome.ret;
}

static hg_return_t call_hooked(const struct pair *pair, hook_t with, size_t at)
{
    return call_altered(pair, with, at, NULL);
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

/* A response that was sealed for another request of the session, before the right one. */
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

/* A request of one origin that another one sends, who has the key as well. */
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
    /* It does not come, and may be sent anew. */
    is_taking = true;
    assert_int_not_equal(call_hooked(&pair, edit_request, sizeof(struct hg_core_header_request)),
                         HG_SUCCESS);
    is_taking = false;
    own = taken_request();
    stolen = *own;
    stolen.na_class = HG_Class_get_na(other.origin.hg_class);
    stolen.context = other.origin.context->na_context[HG_PATH_MAIN];
    stolen.addr = other.addr->na_addr[HG_PATH_MAIN];
    before = refused(&pair.target);
    inject(&other, &stolen);
    wait_refused(&other, &pair.target, before + 1);
    assert_int_equal(atomic_load(&pair.target.handled), 2);
    /* It was as it should be but for its sender. */
    inject(&pair, own);
    for (int i = 0; i < 10000 && atomic_load(&pair.target.handled) == 2; i++)
        pair_progress(&pair);
    assert_int_equal(atomic_load(&pair.target.handled), 3);
    assert_int_equal(HG_Addr_free(other.origin.hg_class, other.addr), HG_SUCCESS);
    side_close(&other.origin);
    pair_end(&pair);
}

/* However many ask for sessions, those that are there go on, and others are made. */
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

/* What somebody without the key is told: the same for all keys, and no seal. */
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
        /* The cookie is the caller's own. */
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

/* As if the target had been restarted. */
static void target_forgets(struct pair *pair)
{
    struct hg_sessions *sessions = &hg_rpc_context(pair->target.context)->sessions;

    hg_sessions_fini(sessions);
    memset(sessions, 0, sizeof(*sessions));
    hg_sessions_init(sessions);
}

/* One RPC fails with a code that says so, and the next ones go on. */
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
    /* Of the origin's: another class of the same process takes its place. */
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

/* Who says that there is no session ends an RPC, and no session. */
static void a_forged_refusal_ends_one_rpc(void **state)
{
    struct hg_core_header_response header = {.ret_code = HG_HOSTUNREACH,
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
        header.cookie = htole16((uint16_t) handle->cookie);
        header.cookie_high = (uint8_t) (handle->cookie >> 16);
        memset(&forged, 0, sizeof(forged));
        forged.na_class = HG_Class_get_na(pair.target.hg_class);
        forged.context = pair.target.context->na_context[HG_PATH_MAIN];
        forged.addr = pair.target.held[0]->source.na_addr[HG_PATH_MAIN];
        forged.is_expected = true;
        forged.header = NA_Msg_get_expected_header_size(forged.na_class);
        forged.size = forged.header + sizeof(header);
        memcpy(forged.bytes + forged.header, &header, sizeof(header));
        inject_as(&pair, &forged, &forged, handle->tag);
        pair_wait_for(&pair, &outcome.count, 1);
        assert_int_equal(outcome.ret, HG_HOSTUNREACH);
        side_respond_held(&pair.target, NULL);
        (void) HG_Destroy(handle);
        free(in.data);
        /* No other session can be made: the old one is as good as it was. Then one can. */
        hook = round == 0 ? spoil_hello_ack : NULL;
        pair_echo(&pair, 10);
        hook = NULL;
        assert_int_equal(sessions->open.count, 1);
        assert_int_equal(sessions->open.first->id == id, round == 0);
    }
    pair_end(&pair);
}

/* The first answer proves nothing, and no other HELLO leaves. */
static na_return_t spoil_and_stall(struct message *message, char *bytes)
{
    if (!message->is_expected && hook_left-- <= 0)
        return NA_AGAIN;
    return spoil_hello_ack(message, bytes);
}

static void keys_rotate(void **state)
{
    /* Of origin and target: first and second keys. */
    static const struct {
        const char *origin[2], *target[2];
        uint32_t guesses; /* HELLOs under a key that the target has not got */
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
        /* Another session begins with the key that was good. */
        target_forgets(&pair);
        assert_int_equal(call_hooked(&pair, NULL, 0), HG_HOSTUNREACH);
        assert_int_equal(refused(&pair.origin), steps[i].guesses + 1); /* what has no seal */
        pair_echo(&pair, 10);
        assert_int_equal(sessions->offers.count, 0);
        assert_int_equal(refused(&pair.origin), steps[i].guesses + 1);
        pair_end(&pair);
    }
}

/* As if ten seconds had passed. */
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

/* No HELLO comes after a guess: who reads the counters sees it, also where the context has gone. */
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

/* Each HELLO has one share, of one key, and there is one for each key. */
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

/* The HELLO under the second key finds no room, and what waits for it is cancelled. */
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
    /* It begins with the second key, which the target has not got, and turns to the first. */
    assert_int_equal(pair_call(&pair, handle, &in), HG_SUCCESS);
    assert_int_equal(refused(&pair.origin), 2);
    (void) HG_Destroy(handle);
    free(in.data);
    pair_end(&pair);
}

/* The target does nothing: what waits for a session ends all the same. */
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
    /* The session is made for those that come later. */
    for (int i = 0; i < 2; i++) {
        (void) HG_Set_deadline(handles[i], 0);
        assert_int_equal(pair_call(&pair, handles[i], &in), HG_SUCCESS);
        (void) HG_Destroy(handles[i]);
    }
    assert_int_equal(atomic_load(&pair.target.handled), 2);
    free(in.data);
    pair_end(&pair);
}

/* Nobody answers, and nobody waits any more: contexts can be destroyed. */
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

/* Neither a HELLO, nor what waits for it, nor its answer is lost when the transport is full. */
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

/* Many contexts of many origins, to each context of a target: a session for each pair. */
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
    /* Another address of the same peer has the same session. */
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

/* Numbers are drawn, and looked at, in any order: nothing of that is refused. */
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

/* As if so much time had passed since a notice. */
static void lost_age(struct hg_sessions *sessions)
{
    for (struct hg_session *session = sessions->lost.first; session != NULL;
         session = session->next)
        session->lost_ns -= HG_LOST_NS + 1;
}

/* The session of a lost peer goes some time later, and what was sealed by it is refused. */
static void a_lost_peers_session_is_dropped(void **state)
{
    struct pair pair, other = {0};
    struct message *request;
    struct hg_sessions *sessions;

    (void) state;
    pair_open_keyed(&pair);
    sessions = &hg_rpc_context(pair.target.context)->sessions;
    is_taking = true;
    pair_echo(&pair, 10);
    is_taking = false;
    request = taken_request();
    hg_sessions_lose(pair.target.context, HG_PATH_MAIN, sessions->open.first->na_addr);
    assert_int_equal(sessions->open.count, 0);
    assert_int_equal(sessions->lost.count, 1);
    /* A replay is none, and makes it no peer that lives; a request does. */
    inject(&pair, request);
    wait_refused(&pair, &pair.target, 1);
    assert_int_equal(sessions->lost.count, 1);
    pair_echo(&pair, 10);
    assert_int_equal(sessions->open.count, 1);
    assert_int_equal(sessions->lost.count, 0);
    hg_sessions_lose(pair.target.context, HG_PATH_MAIN, sessions->open.first->na_addr);
    lost_age(sessions);
    side_open_keyed(&other.origin, KEY);
    other.target = pair.target;
    other.addr = side_lookup(&other.origin, &pair.target);
    pair_echo(&other, 10);
    assert_int_equal(sessions->open.count, 1);
    assert_int_equal(sessions->lost.count, 0);
    assert_int_equal(refused(&pair.target), 1);
    inject(&pair, request);
    wait_refused(&pair, &pair.target, 2);
    assert_int_equal(call_hooked(&pair, NULL, 0), HG_HOSTUNREACH);
    assert_int_equal(atomic_load(&pair.target.handled), 3);
    pair_echo(&pair, 10);
    assert_int_equal(HG_Addr_free(other.origin.hg_class, other.addr), HG_SUCCESS);
    side_close(&other.origin);
    pair_end(&pair);
}

/* The notice is told before the last request of the peer is read: that counts. */
static void what_a_lost_peer_sent_last_is_taken(void **state)
{
    const struct hg_session *session;
    struct outcome outcome = {0};
    hg_handle_t handle;
    struct pair pair;
    struct blob in;

    (void) state;
    pair_open_keyed(&pair);
    pair_echo(&pair, 10);
    blob_make(&in, 10, 1);
    handle = pair_create(&pair, RPC_ONEWAY);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    while (atomic_load(&outcome.count) == 0)
        side_progress(&pair.origin);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    (void) HG_Destroy(handle);
    free(in.data);
    assert_int_equal(HG_Addr_free(pair.origin.hg_class, pair.addr), HG_SUCCESS);
    side_close(&pair.origin);
    session = hg_rpc_context(pair.target.context)->sessions.open.first;
    hg_sessions_lose(pair.target.context, HG_PATH_MAIN, session->na_addr);
    for (const uint64_t start = now_ms(); atomic_load(&pair.target.handled) < 2;) {
        assert_true(now_ms() - start < WAIT_MS);
        side_progress(&pair.target);
    }
    assert_int_equal(refused(&pair.target), 0);
    side_close(&pair.target);
}

/* A process that calls the target once, and does nothing more until it is killed. */
static void child_call(int fd)
{
    struct outcome outcome = {0};
    struct side side = {0};
    char address[512] = "";
    hg_handle_t handle;
    hg_addr_t addr;

    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void) alarm(2 * WAIT_MS / 1000);
    if (read(fd, address, sizeof(address) - 1) <= 0)
        _exit(1);
    side_open_keyed(&side, KEY);
    if (HG_Addr_lookup2(side.hg_class, address, &addr) != HG_SUCCESS ||
        HG_Create(side.context, addr, RPC_NULL, &handle) != HG_SUCCESS ||
        HG_Forward(handle, outcome_set, &outcome, NULL) != HG_SUCCESS)
        _exit(1);
    while (atomic_load(&outcome.count) == 0)
        side_progress(&side);
    for (;;)
        (void) pause();
}

static void count_lost(hg_class_t *hg_class, hg_addr_t addr, hg_return_t reason, void *arg)
{
    (void) hg_class;
    if (addr != HG_ADDR_NULL && reason == HG_HOSTUNREACH)
        atomic_fetch_add((atomic_int *) arg, 1);
}

static void child_tell(const struct side *side, int fd)
{
    char address[512];
    hg_size_t size = sizeof(address);
    hg_addr_t self;

    assert_int_equal(HG_Addr_self(side->hg_class, &self), HG_SUCCESS);
    assert_int_equal(HG_Addr_to_string(side->hg_class, address, &size, self), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(side->hg_class, self), HG_SUCCESS);
    assert_int_equal(write(fd, address, (size_t) size), (ssize_t) size);
}

static void wait_count(const struct side *side, const uint32_t *count, uint32_t value)
{
    for (const uint64_t start = now_ms(); *count != value;) {
        assert_true(now_ms() - start < WAIT_MS);
        side_progress(side);
    }
}

/* Before the program has a callback of its own, with it, and after it. */
static void killed_peers_leave_no_sessions(void **state)
{
    struct hg_sessions *sessions;
    struct side target = {0};
    atomic_int told = 0;
    pid_t children[3];
    int fds[3][2];

    (void) state;
    if (test_is_loop())
        test_skip("it is within a process");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pipe(fds[i]), 0);
        children[i] = fork();
        if (children[i] == 0)
            child_call(fds[i][0]);
        assert_true(children[i] > 0);
    }
    side_open_keyed(&target, KEY);
    sessions = &hg_rpc_context(target.context)->sessions;
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            assert_int_equal(HG_Class_set_peer_lost_callback(target.hg_class, count_lost, &told),
                             HG_SUCCESS);
        else if (i == 2)
            assert_int_equal(HG_Class_set_peer_lost_callback(target.hg_class, NULL, NULL),
                             HG_SUCCESS);
        child_tell(&target, fds[i][1]);
        wait_count(&target, &sessions->open.count, 1);
        assert_int_equal(sessions->lost.count, 0); /* the HELLO has dropped the last one */
        assert_int_equal(kill(children[i], SIGKILL), 0);
        assert_int_equal(waitpid(children[i], NULL, 0), children[i]);
        wait_count(&target, &sessions->open.count, 0);
        assert_int_equal(sessions->lost.count, 1);
        assert_int_equal(atomic_load(&told), i > 0 ? 1 : 0);
        lost_age(sessions);
        (void) close(fds[i][0]);
        (void) close(fds[i][1]);
    }
    side_close(&target);
}

/* The releases before sessions had tags, in version 1. */
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
        cmocka_unit_test(own_answer_is_refused),
        cmocka_unit_test(a_request_has_a_requests_number),
        cmocka_unit_test(a_response_has_a_responses_number),
        cmocka_unit_test(each_byte_is_sealed),
        cmocka_unit_test(swapped_response_is_refused),
        cmocka_unit_test(a_session_is_its_origins),
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
        cmocka_unit_test(each_pair_of_contexts_has_its_own),
        cmocka_unit_test(threads_share_a_session),
        cmocka_unit_test(a_lost_peers_session_is_dropped),
        cmocka_unit_test(what_a_lost_peer_sent_last_is_taken),
        cmocka_unit_test(killed_peers_leave_no_sessions),
        cmocka_unit_test(an_older_release_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
