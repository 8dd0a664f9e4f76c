/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hostile messages: a raw NA peer sends malformed requests, and bytes that are no request, to an
 * RPC target.
 */
#include "hg_fixture.h"

#include "mercury_bulk.h"
#include "mercury_core_header.h"
#include "na.h"

#include <endian.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* How long a message may be in flight on a slow transport. */
#define ARRIVAL_MS WAIT_MS

/*
 * The rate limit of the log: each place in the code writes at most LOG_LINES warnings and errors in
 * LOG_MS.
 */
#define LOG_LINES 10u
#define LOG_MS    10000u

/* Messages of each kind: more than the lines that one place may write. */
#define FLOOD 25u

/* Time after which the test of random messages may end with fewer of them, on a slow transport. */
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

/* Messages that the target received: requests it took and messages it refused. */
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
    side_progress(&sender->target); /* run the handlers */
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

/* A raw NA peer that receives a request and responds with given bytes. */
struct answerer {
    na_class_t *na_class;
    na_context_t *na_context;
    na_op_id_t *recv_op, *send_op;
    char *in, *out;
    void *in_data, *out_data;
    size_t max;
    atomic_int received, sent;
    na_addr_t *source;
    na_tag_t tag;
};

static void answer_received(const struct na_cb_info *info)
{
    struct answerer *answerer = info->arg;

    assert_int_equal(info->ret, NA_SUCCESS);
    answerer->source = info->info.recv_unexpected.source;
    answerer->tag = info->info.recv_unexpected.tag;
    atomic_fetch_add(&answerer->received, 1);
}

static void answer_sent(const struct na_cb_info *info)
{
    struct answerer *answerer = info->arg;

    assert_int_equal(info->ret, NA_SUCCESS);
    atomic_fetch_add(&answerer->sent, 1);
}

static hg_addr_t answerer_open(struct answerer *answerer, const struct side *origin)
{
    char name[512];
    size_t size = sizeof(name);
    na_addr_t *self;
    hg_addr_t addr;

    answerer->na_class = NA_Initialize(test_init_string(), true);
    assert_non_null(answerer->na_class);
    answerer->na_context = NA_Context_create(answerer->na_class);
    assert_non_null(answerer->na_context);
    answerer->recv_op = NA_Op_create(answerer->na_class, NA_OP_SINGLE);
    answerer->send_op = NA_Op_create(answerer->na_class, NA_OP_SINGLE);
    answerer->max = NA_Msg_get_max_unexpected_size(answerer->na_class);
    answerer->in = NA_Msg_buf_alloc(answerer->na_class, answerer->max, NA_RECV, &answerer->in_data);
    answerer->out =
        NA_Msg_buf_alloc(answerer->na_class, answerer->max, NA_SEND, &answerer->out_data);
    assert_int_equal(NA_Msg_init_expected(answerer->na_class, answerer->out, answerer->max),
                     NA_SUCCESS);
    assert_int_equal(NA_Addr_self(answerer->na_class, &self), NA_SUCCESS);
    assert_int_equal(NA_Addr_to_string(answerer->na_class, name, &size, self), NA_SUCCESS);
    NA_Addr_free(answerer->na_class, self);
    assert_int_equal(HG_Addr_lookup2(origin->hg_class, name, &addr), HG_SUCCESS);
    return addr;
}

static void answerer_close(struct answerer *answerer)
{
    NA_Msg_buf_free(answerer->na_class, answerer->in, answerer->in_data);
    NA_Msg_buf_free(answerer->na_class, answerer->out, answerer->out_data);
    NA_Op_destroy(answerer->na_class, answerer->recv_op);
    NA_Op_destroy(answerer->na_class, answerer->send_op);
    assert_int_equal(NA_Context_destroy(answerer->na_class, answerer->na_context), NA_SUCCESS);
    assert_int_equal(NA_Finalize(answerer->na_class), NA_SUCCESS);
}

static void answerer_run(struct answerer *answerer, const struct side *origin,
                         const atomic_int *counter, int value)
{
    const uint64_t end = now_ms() + WAIT_MS;
    unsigned int count;

    while (atomic_load(counter) < value && now_ms() < end) {
        (void) NA_Poll(answerer->na_class, answerer->na_context, &count);
        (void) NA_Trigger(answerer->na_context, 10, &count);
        side_progress(origin);
    }
    assert_int_equal(atomic_load(counter), value);
}

/*
 * Forward an RPC and respond with the first `bytes` bytes of a valid response; returns the result.
 */
static hg_return_t answerer_call(struct answerer *answerer, const struct side *origin,
                                 hg_handle_t handle, size_t bytes)
{
    const struct hg_core_header_response response = {.hg = HG_CORE_RESPONSE_MAGIC,
                                                     .protocol = HG_CORE_PROTOCOL_VERSION};
    const size_t header = NA_Msg_get_expected_header_size(answerer->na_class);
    const int received = atomic_load(&answerer->received), sent = atomic_load(&answerer->sent);
    struct outcome outcome = {0};

    assert_int_equal(NA_Msg_recv_unexpected(answerer->na_class, answerer->na_context,
                                            answer_received, answerer, answerer->in, answerer->max,
                                            answerer->in_data, answerer->recv_op),
                     NA_SUCCESS);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, NULL), HG_SUCCESS);
    answerer_run(answerer, origin, &answerer->received, received + 1);
    memcpy(answerer->out + header, &response, bytes);
    assert_int_equal(NA_Msg_send_expected(answerer->na_class, answerer->na_context, answer_sent,
                                          answerer, answerer->out, header + bytes,
                                          answerer->out_data, answerer->source, 0, answerer->tag,
                                          answerer->send_op),
                     NA_SUCCESS);
    answerer_run(answerer, origin, &answerer->sent, sent + 1);
    answerer_run(answerer, origin, &outcome.count, 1);
    NA_Addr_free(answerer->na_class, answerer->source);
    return outcome.ret;
}

static void short_responses_are_refused_and_counted(void **state)
{
    const struct sender *sender = *state;
    const struct side *origin = &sender->target;
    const uint64_t before = side_ext_counters(origin).refused_header_count;
    struct answerer answerer = {0};
    hg_addr_t addr = answerer_open(&answerer, origin);
    hg_handle_t handle;

    assert_int_equal(HG_Create(origin->context, addr, RPC_NULL, &handle), HG_SUCCESS);
    for (size_t bytes = 1; bytes < sizeof(struct hg_core_header_response); bytes++)
        assert_int_equal(answerer_call(&answerer, origin, handle, bytes), HG_PROTOCOL_ERROR);
    assert_int_equal(side_ext_counters(origin).refused_header_count,
                     before + sizeof(struct hg_core_header_response) - 1);
    (void) HG_Destroy(handle);
    assert_int_equal(HG_Addr_free(origin->hg_class, addr), HG_SUCCESS);
    answerer_close(&answerer);
}

static void unknown_flags_are_refused(void **state)
{
    struct sender *sender = *state;
    struct hg_core_header_request request = valid_request(RPC_NULL);
    uint64_t before = side_ext_counters(&sender->target).refused_header_count;

    request.flags |= 1u << 3;
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

/* Requests whose overflow description is random, with a chosen size and a chosen length. */
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

/*
 * The descriptor of 4096 bytes is valid, but the sizes beside it fit neither the descriptor nor the
 * message.
 */
static void overflow_descriptions_are_held_against_the_message(void **state)
{
    static const struct {
        uint64_t size;
        int desc; /* difference to the descriptor's size */
    } forgeries[] = {{4096, 1}, {4096, -1}, {4096, 100000}, {4097, 0}, {UINT64_MAX, 0}, {0, 0}};
    struct sender *sender = *state;
    struct hg_core_header_request request = valid_request(RPC_ONEWAY);
    int handled = atomic_load(&sender->target.handled);
    hg_size_t memory_size = 4096, desc_size;
    char message[512];
    hg_bulk_t bulk;

    request.flags |= HG_CORE_HEADER_MORE_DATA;
    assert_int_equal(
        HG_Bulk_create(sender->target.hg_class, 1, NULL, &memory_size, HG_BULK_READ_ONLY, &bulk),
        HG_SUCCESS);
    desc_size = HG_Bulk_get_serialize_size(bulk, 0);
    assert_in_range(desc_size, 1, sizeof(message) - sizeof(request) - 24);
    for (size_t i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
        const uint64_t before = side_ext_counters(&sender->target).refused_header_count;
        const uint32_t said = (uint32_t) ((int) desc_size + forgeries[i].desc);
        char *at = message + sizeof(request);

        memset(message, 0, sizeof(message));
        memcpy(message, &request, sizeof(request));
        memcpy(at, &forgeries[i].size, 8);
        memcpy(at + 16, &said, 4);
        assert_int_equal(HG_Bulk_serialize(at + 24, desc_size, 0, bulk), HG_SUCCESS);
        send_bytes(sender, message, sizeof(request) + 24 + (size_t) desc_size);
        assert_int_equal(side_ext_counters(&sender->target).refused_header_count, before + 1);
    }
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
    assert_int_equal(atomic_load(&sender->target.handled), handled);
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
        /* Every other message begins like a request. */
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

/* Lines of the log, counted by the place in the code that wrote them. */
static struct {
    pthread_mutex_t lock;
    unsigned int count; /* of places */
    struct {
        char name[128];
        unsigned int lines;
        bool has_said; /* a line said that further ones are left out */
    } places[32];
} written = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Counts a line by its place; it begins with "# [pid] subsystem: [level] function():line ". */
static int write_line(FILE *stream, const char *format, ...)
{
    char line[4096], name[128];
    char *begin, *end;
    unsigned int i = 0;
    va_list args;

    (void) stream;
    va_start(args, format);
    (void) vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    begin = strstr(line, "] ");
    end = begin != NULL ? strstr(begin, "():") : NULL;
    if (end == NULL)
        return 0;
    end += strspn(end, "():0123456789");
    (void) snprintf(name, sizeof(name), "%.*s", (int) (end - begin - 2), begin + 2);
    (void) pthread_mutex_lock(&written.lock);
    while (i < written.count && strcmp(written.places[i].name, name) != 0)
        i++;
    if (i < sizeof(written.places) / sizeof(written.places[0])) {
        (void) strcpy(written.places[i].name, name);
        written.places[i].lines++;
        if (strstr(line, "more from here is left out") != NULL)
            written.places[i].has_said = true;
        if (i == written.count)
            written.count++;
    }
    (void) pthread_mutex_unlock(&written.lock);
    return 0;
}

/* Writes a request whose input is fetched by the descriptor `bulk`; returns the message's size. */
static size_t overflow_request(char *message, hg_id_t id, hg_bulk_t bulk)
{
    struct hg_core_header_request request = valid_request(id);
    const hg_size_t size = HG_Bulk_get_serialize_size(bulk, 0);
    const uint64_t bytes = htole64(HG_Bulk_get_size(bulk));
    const uint32_t desc_size = htole32((uint32_t) size);

    request.flags |= HG_CORE_HEADER_MORE_DATA;
    memset(message, 0, sizeof(request) + 24);
    memcpy(message, &request, sizeof(request));
    memcpy(message + sizeof(request), &bytes, sizeof(bytes));
    memcpy(message + sizeof(request) + 16, &desc_size, sizeof(desc_size));
    assert_int_equal(HG_Bulk_serialize(message + sizeof(request) + 24, size, 0, bulk), HG_SUCCESS);
    return sizeof(request) + 24 + (size_t) size;
}

/* Sends a request whose input was freed before the target can fetch it. */
static void send_revoked(struct sender *sender, hg_class_t *hg_class)
{
    hg_size_t size = 100000;
    void *memory = malloc((size_t) size);
    hg_bulk_t bulk = HG_BULK_NULL;
    char message[1024];
    size_t length;

    assert_non_null(memory);
    assert_int_equal(HG_Bulk_create(hg_class, 1, &memory, &size, HG_BULK_READ_ONLY, &bulk),
                     HG_SUCCESS);
    assert_in_range(HG_Bulk_get_serialize_size(bulk, 0), 1, sizeof(message) - 64);
    length = overflow_request(message, RPC_ONEWAY, bulk);
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
    free(memory);
    send_bytes(sender, message, length);
}

/* One message of each kind that is no request or cannot be served. */
static void send_hostile(struct sender *sender, hg_class_t *hg_class)
{
    struct hg_core_header_request request = valid_request(RPC_ONEWAY);
    char message[sizeof(request) + 100] = {0};

    request.hg++;
    send_bytes(sender, &request, sizeof(request)); /* wrong magic */
    request = valid_request(RPC_ONEWAY);
    request.protocol++;
    send_bytes(sender, &request, sizeof(request)); /* wrong version */
    request = valid_request(0xbad);
    send_bytes(sender, &request, sizeof(request)); /* unknown RPC */
    request = valid_request(RPC_ONEWAY);
    request.flags |= HG_CORE_HEADER_HAS_HASH;
    memcpy(message, &request, sizeof(request));
    send_bytes(sender, message, sizeof(message)); /* wrong checksum */
    request.flags = HG_CORE_HEADER_NO_RESPONSE | HG_CORE_HEADER_MORE_DATA;
    memcpy(message, &request, sizeof(request));
    send_bytes(sender, message, sizeof(message)); /* empty overflow description */
    message[sizeof(request)] = 100;
    message[sizeof(request) + 16] = 76;
    send_bytes(sender, message, sizeof(message)); /* invalid descriptor */
    send_revoked(sender, hg_class);
}

/* The log says what is wrong with a peer's messages, but a peer cannot fill the log. */
static void flood_writes_few_lines(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    uint64_t start = now_ms(), end;
    struct sender *sender = *state;
    unsigned int i, full_hg = 0, full_na = 0;
    hg_class_t *hg_class;
    size_t most;

    info.na_class = sender->na_class;
    hg_class = HG_Init_opt2(NULL, HG_FALSE, HG_VERSION(2, 4), &info);
    assert_non_null(hg_class);
    HG_Set_log_func(write_line);
    HG_Set_log_level("warning");
    for (i = 0; i < FLOOD; i++)
        send_hostile(sender, hg_class);
    end = now_ms() + ARRIVAL_MS;
    while (side_counters(&sender->target).rpc_req_recv_active_count != 0 && now_ms() < end)
        sender_progress(sender);
    HG_Set_log_level("none");
    HG_Set_log_func(NULL);
    assert_int_equal(HG_Finalize(hg_class), HG_SUCCESS);

    /* A period of the rate limit may have begun in an earlier test and end in this one. */
    most = (2 + (now_ms() - start) / LOG_MS) * LOG_LINES;
    print_message("%u messages of each kind in %u ms\n", FLOOD, (unsigned int) (now_ms() - start));
    for (i = 0; i < written.count; i++) {
        print_message("%u lines of %s\n", written.places[i].lines, written.places[i].name);
        assert_in_range(written.places[i].lines, 1, most);
        if (written.places[i].has_said && strncmp(written.places[i].name, "hg:", 3) == 0)
            full_hg++;
        else if (written.places[i].has_said)
            full_na++;
    }
    /* At least the invalid descriptors and the failed fetches are more than one place may log. */
    assert_in_range(written.count, 2, 20);
    assert_true(full_hg >= 2);
    assert_true(full_na >= 1 || !test_is_sm());
    valid_request_is_handled(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_request_is_handled),
        cmocka_unit_test(other_versions_are_refused_and_counted),
        cmocka_unit_test(short_messages_are_refused_and_counted),
        cmocka_unit_test(short_responses_are_refused_and_counted),
        cmocka_unit_test(unknown_flags_are_refused),
        cmocka_unit_test(wrong_checksums_are_refused),
        cmocka_unit_test(forged_overflow_descriptions_are_refused),
        cmocka_unit_test(overflow_descriptions_are_held_against_the_message),
        cmocka_unit_test(random_bytes_do_no_harm),
        cmocka_unit_test(flood_writes_few_lines),
    };

    HG_Set_log_level("none");
    return cmocka_run_group_tests(tests, sender_setup, sender_teardown);
}
