/* SPDX-License-Identifier: BSD-3-Clause */
#include "session_fixture.h"

#include <string.h>

hook_t hook;
size_t hook_at;
int hook_left;
struct message *taken[TAKEN_MAX];
int taken_count;
bool is_taking;
const char *also;

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

static uint8_t flags_of(const struct message *message)
{
    return (uint8_t)
        message->bytes[message->header + offsetof(struct hg_core_header_request, flags)];
}

bool is_hello(const struct message *message)
{
    return (flags_of(message) & HG_CORE_HEADER_HELLO) != 0;
}

bool is_request(const struct message *message)
{
    return !message->is_expected && !is_hello(message) &&
           message->bytes[message->header + 1] == 'Q';
}

struct message *taken_request(void)
{
    struct message *request = NULL;

    for (int i = 0; i < taken_count; i++)
        if (is_request(taken[i]))
            request = taken[i];
    assert_non_null(request);
    return request;
}

void taken_clear(void)
{
    while (taken_count > 0) {
        struct message *message = taken[--taken_count];

        NA_Addr_free(message->na_class, message->addr);
        free(message);
    }
    is_taking = false;
}

void message_is_from(struct message *message, const struct side *side, na_addr_t *to)
{
    message->na_class = HG_Class_get_na(side->hg_class);
    message->context = side->context->na_context[HG_PATH_MAIN];
    message->addr = to;
}

void response_make(const struct pair *pair, const hg_handle_t handle,
                   struct hg_core_header_response header, size_t size, struct message *response)
{
    header.cookie = htole16((uint16_t) handle->cookie);
    header.cookie_high = (uint8_t) (handle->cookie >> 16);
    memset(response, 0, sizeof(*response));
    message_is_from(response, &pair->target, pair->target.held[0]->source.na_addr[HG_PATH_MAIN]);
    response->is_expected = true;
    response->header = NA_Msg_get_expected_header_size(response->na_class);
    response->size = response->header + size;
    memcpy(response->bytes + response->header, &header, sizeof(header));
}

static void injected(const struct na_cb_info *info)
{
    atomic_fetch_add((atomic_int *) info->arg, 1);
}

void inject_as(const struct pair *pair, const struct message *sender, const struct message *message,
               na_tag_t tag)
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

void inject(const struct pair *pair, const struct message *message)
{
    inject_as(pair, message, message, message->tag);
}

static void keyed_info(struct hg_init_info *info, const char *key)
{
    *info = HG_INIT_INFO_INITIALIZER;
    info->na_init_info.auth_key = key;
    info->auth_key_also = also;
}

void side_open_keyed(struct side *side, const char *key)
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

void pair_open_keyed(struct pair *pair)
{
    memset(pair, 0, sizeof(*pair));
    side_open_keyed(&pair->origin, KEY);
    side_open_keyed(&pair->target, KEY);
    pair->addr = side_lookup(&pair->origin, &pair->target);
}

void pair_end(struct pair *pair)
{
    hook = NULL;
    taken_clear();
    pair_close(pair);
}

uint64_t refused(const struct side *side)
{
    return side_ext_counters(side).refused_key_count;
}

void wait_refused(const struct pair *pair, const struct side *side, uint64_t count)
{
    const uint64_t start = now_ms();

    while (refused(side) < count && now_ms() - start < WAIT_MS)
        pair_progress(pair);
    assert_int_equal(refused(side), count);
}

uint64_t refused_at_all(const struct side *side)
{
    const struct hg_ext_counters counters = side_ext_counters(side);

    return counters.refused_key_count + counters.refused_header_count +
           counters.refused_magic_count + counters.refused_version_count +
           counters.late_response_count;
}

hg_return_t call_altered(const struct pair *pair, hook_t with, size_t at,
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

hg_return_t call_hooked(const struct pair *pair, hook_t with, size_t at)
{
    return call_altered(pair, with, at, NULL);
}
