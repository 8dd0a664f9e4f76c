/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hostile messages: a raw NA sender sends what is no request, or a wrong one, to an RPC target.
 */
#include "hg_fixture.h"

#include "mercury_core_header.h"
#include "na.h"

#include <unistd.h>

/* How long a message may be under way on a slow transport. */
#define ARRIVAL_MS 2000u

/* After so long fewer random messages do, on a slow transport. */
#define RANDOM_MS 10000u

struct sender {
    struct side target;
    na_class_t *na_class;
    na_context_t *na_context;
    na_addr_t *addr;
    na_op_id_t *op;
    char *buf;
    void *plugin_data;
    size_t header;
    size_t max;
    atomic_int sent;
};

static int sender_setup(void **state)
{
    struct sender *sender = calloc(1, sizeof(*sender));
    char name[512];
    hg_size_t size = sizeof(name);
    hg_addr_t self;

    assert_non_null(sender);
    side_open(&sender->target, NULL);
    assert_int_equal(HG_Addr_self(sender->target.hg_class, &self), HG_SUCCESS);
    assert_int_equal(HG_Addr_to_string(sender->target.hg_class, name, &size, self), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(sender->target.hg_class, self), HG_SUCCESS);
    sender->na_class = NA_Initialize(test_init_string(), false);
    assert_non_null(sender->na_class);
    sender->na_context = NA_Context_create(sender->na_class);
    assert_non_null(sender->na_context);
    assert_int_equal(NA_Addr_lookup(sender->na_class, name, &sender->addr), NA_SUCCESS);
    sender->op = NA_Op_create(sender->na_class, NA_OP_SINGLE);
    sender->max = NA_Msg_get_max_unexpected_size(sender->na_class);
    sender->header = NA_Msg_get_unexpected_header_size(sender->na_class);
    sender->buf = NA_Msg_buf_alloc(sender->na_class, sender->max, NA_SEND, &sender->plugin_data);
    assert_non_null(sender->buf);
    assert_int_equal(NA_Msg_init_unexpected(sender->na_class, sender->buf, sender->max),
                     NA_SUCCESS);
    *state = sender;
    return 0;
}

static int sender_teardown(void **state)
{
    struct sender *sender = *state;

    if (sender == NULL)
        return -1; /* setup failed */
    NA_Msg_buf_free(sender->na_class, sender->buf, sender->plugin_data);
    NA_Op_destroy(sender->na_class, sender->op);
    NA_Addr_free(sender->na_class, sender->addr);
    assert_int_equal(NA_Context_destroy(sender->na_class, sender->na_context), NA_SUCCESS);
    assert_int_equal(NA_Finalize(sender->na_class), NA_SUCCESS);
    side_close(&sender->target);
    free(sender);
    return 0;
}

static void send_done(const struct na_cb_info *info)
{
    struct sender *sender = info->arg;

    assert_int_equal(info->ret, NA_SUCCESS);
    atomic_fetch_add(&sender->sent, 1);
}

static void sender_progress(const struct sender *sender)
{
    unsigned int count;

    (void) NA_Poll(sender->na_class, sender->na_context, &count);
    (void) NA_Trigger(sender->na_context, 10, &count);
    side_progress(&sender->target);
}

/* Messages that the target took or refused. */
static uint64_t messages_seen(const struct side *side)
{
    struct hg_ext_counters refused = side_ext_counters(side);

    return side_counters(side).rpc_req_recv_count + refused.refused_magic_count +
           refused.refused_version_count + refused.refused_header_count +
           refused.refused_checksum_count + refused.refused_key_count;
}

/* Send bytes as an unexpected message and wait until the target has seen them. */
static void send_bytes(struct sender *sender, const void *bytes, size_t size)
{
    uint64_t seen = messages_seen(&sender->target), end = now_ms() + ARRIVAL_MS;
    int before = atomic_load(&sender->sent), polls = 0;

    memcpy(sender->buf + sender->header, bytes, size);
    assert_int_equal(NA_Msg_send_unexpected(sender->na_class, sender->na_context, send_done, sender,
                                            sender->buf, sender->header + size, sender->plugin_data,
                                            sender->addr, 0, 1, sender->op),
                     NA_SUCCESS);
    while ((atomic_load(&sender->sent) == before || messages_seen(&sender->target) == seen) &&
           now_ms() < end) {
        sender_progress(sender);
        if (++polls % 64 == 0)
            (void) usleep(20); /* threads of the transport may need the processor */
    }
    assert_int_equal(atomic_load(&sender->sent), before + 1);
    assert_true(messages_seen(&sender->target) > seen);
    side_progress(&sender->target); /* handlers run */
}

static struct hg_core_header_request valid_request(hg_id_t id)
{
    struct hg_core_header_request request = {
        .hg = HG_CORE_REQUEST_MAGIC,
        .protocol = HG_CORE_PROTOCOL_VERSION,
        .flags = HG_CORE_HEADER_NO_RESPONSE,
        .id = id,
    };

    return request;
}

static void valid_request_is_handled(void **state)
{
    struct sender *sender = *state;
    struct hg_core_header_request request = valid_request(RPC_ONEWAY);
    char message[sizeof(request) + 4 + 3];
    int before = atomic_load(&sender->target.handled);

    memcpy(message, &request, sizeof(request));
    memcpy(message + sizeof(request), "\3\0\0\0abc", 7);
    send_bytes(sender, message, sizeof(message));
    assert_int_equal(atomic_load(&sender->target.handled), before + 1);
    assert_int_equal(sender->target.last.size, 3);
    assert_memory_equal(sender->target.last.data, "abc", 3);
}

static void other_versions_are_refused_and_counted(void **state)
{
    struct sender *sender = *state;
    uint64_t before = side_ext_counters(&sender->target).refused_version_count;
    int handled = atomic_load(&sender->target.handled);
    int version;

    for (version = 0; version < 256; version++) {
        struct hg_core_header_request request = valid_request(RPC_NULL);

        if (version == HG_CORE_PROTOCOL_VERSION)
            continue;
        request.protocol = (uint8_t) version;
        send_bytes(sender, &request, sizeof(request));
    }
    assert_int_equal(side_ext_counters(&sender->target).refused_version_count, before + 255);
    assert_int_equal(atomic_load(&sender->target.handled), handled);
}

static void short_messages_are_refused_and_counted(void **state)
{
    struct sender *sender = *state;
    struct hg_core_header_request request = valid_request(RPC_NULL);
    uint64_t before = side_ext_counters(&sender->target).refused_header_count;
    size_t size;

    for (size = 1; size < sizeof(request); size++)
        send_bytes(sender, &request, size);
    request.flags |= HG_CORE_HEADER_HAS_HASH;
    send_bytes(sender, &request, sizeof(request));
    assert_int_equal(side_ext_counters(&sender->target).refused_header_count,
                     before + sizeof(request));
}

static void unknown_flags_are_refused(void **state)
{
    struct sender *sender = *state;
    struct hg_core_header_request request = valid_request(RPC_NULL);
    uint64_t before = side_ext_counters(&sender->target).refused_header_count;

    request.flags |= 1u << 4;
    send_bytes(sender, &request, sizeof(request));
    assert_int_equal(side_ext_counters(&sender->target).refused_header_count, before + 1);
}

static void wrong_checksums_are_refused(void **state)
{
    struct sender *sender = *state;
    struct hg_core_header_request request = valid_request(RPC_NULL);
    char message[sizeof(request) + sizeof(struct hg_core_header_hash)] = {0};
    uint64_t before = side_ext_counters(&sender->target).refused_checksum_count;

    request.flags |= HG_CORE_HEADER_HAS_HASH;
    memcpy(message, &request, sizeof(request));
    send_bytes(sender, message, sizeof(message));
    assert_int_equal(side_ext_counters(&sender->target).refused_checksum_count, before + 1);
}

/* Descriptions of data to fetch that lie about themselves. */
static void forged_overflow_descriptions_are_refused(void **state)
{
    struct sender *sender = *state;
    struct hg_core_header_request request = valid_request(RPC_ONEWAY);
    int handled = atomic_load(&sender->target.handled);
    char message[512];
    uint64_t sizes[] = {0, 1, 4096, UINT64_C(1) << 31, UINT64_C(1) << 40, UINT64_MAX};
    uint64_t end;
    uint32_t seed = 1;
    size_t i, k, length;

    request.flags |= HG_CORE_HEADER_MORE_DATA;
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (length = 0; length < 200; length += 9) {
            uint32_t desc_size = (uint32_t) (length > 24 ? length - 24 : 0);

            for (k = 0; k < sizeof(message); k++) {
                seed = seed * 1664525u + 1013904223u;
                message[k] = (char) (seed >> 24);
            }
            memcpy(message, &request, sizeof(request));
            memcpy(message + sizeof(request), &sizes[i], 8);
            memcpy(message + sizeof(request) + 16, &desc_size, 4);
            send_bytes(sender, message, sizeof(request) + length);
        }
    }
    end = now_ms() + ARRIVAL_MS;
    while (side_counters(&sender->target).rpc_req_recv_active_count != 0 && now_ms() < end)
        sender_progress(sender);
    assert_int_equal(atomic_load(&sender->target.handled), handled);
    assert_int_equal(side_counters(&sender->target).rpc_req_recv_active_count, 0);
}

static void random_bytes_do_no_harm(void **state)
{
    struct sender *sender = *state;
    int handled = atomic_load(&sender->target.handled);
    uint64_t refused = side_ext_counters(&sender->target).refused_magic_count;
    uint64_t end = now_ms() + RANDOM_MS;
    uint32_t seed = 12345;
    char message[1024];
    int round;

    for (round = 0; round < 2000 && (round < 200 || now_ms() < end); round++) {
        size_t size = 1 + (seed >> 8) % sizeof(message), i;

        for (i = 0; i < size; i++) {
            seed = seed * 1664525u + 1013904223u;
            message[i] = (char) (seed >> 24);
        }
        /* Every other one looks like a request at first. */
        if (round % 2 == 0 && size >= 4) {
            message[0] = (char) (HG_CORE_REQUEST_MAGIC & 0xff);
            message[1] = (char) (HG_CORE_REQUEST_MAGIC >> 8);
            message[2] = HG_CORE_PROTOCOL_VERSION;
        }
        send_bytes(sender, message, size);
    }
    assert_int_equal(atomic_load(&sender->target.handled), handled);
    refused = side_ext_counters(&sender->target).refused_magic_count - refused;
    assert_true(refused >= (uint64_t) round * 9 / 20);
    end = now_ms() + ARRIVAL_MS;
    while (side_counters(&sender->target).rpc_req_recv_active_count != 0 && now_ms() < end)
        sender_progress(sender);
    assert_int_equal(side_counters(&sender->target).rpc_req_recv_active_count, 0);
    valid_request_is_handled(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_request_is_handled),
        cmocka_unit_test(other_versions_are_refused_and_counted),
        cmocka_unit_test(short_messages_are_refused_and_counted),
        cmocka_unit_test(unknown_flags_are_refused),
        cmocka_unit_test(wrong_checksums_are_refused),
        cmocka_unit_test(forged_overflow_descriptions_are_refused),
        cmocka_unit_test(random_bytes_do_no_harm),
    };

    HG_Set_log_level("none");
    return cmocka_run_group_tests(tests, sender_setup, sender_teardown);
}
