/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of receives: order, messages without a receive, messages too large for their receive,
 * and multi-receives. */

#include <string.h>

#include "na_conformance/check.h"
#include "na_conformance/peer.h"
#include "na_conformance/traffic.h"

#define FLOOD_BYTES (128u << 20) /* more than a plugin and the kernel should buffer of one sender */
#define FLOOD_SIZE  16384u
#define FLOOD_SENDS 64u
#define HELD_MS     1500u /* a send that takes longer is held back */

static void order(void);
static void order_expected(void);
static void held(void);
static void bounded(void);
static void bounded_sender(void);
static bool flood_is_held_back(struct conf_traffic *traffic, struct conf_buffer *buffer);
static void dropped(void);
static void too_large(void);
static void too_large_held(void);
static void no_retry(void);
static void no_retry_refused(void);
static void multi(void);
static void multi_queue(void);
static void multi_again(void);
static bool multi_take(struct conf_op *op, int32_t status, uint8_t *data, uint64_t size,
                       struct na_plugin_addr *source, uint32_t tag, bool last);
static bool multi_take_seldom(struct conf_op *op, int32_t status, uint8_t *data, uint64_t size,
                              struct na_plugin_addr *source, uint32_t tag, bool last);

const struct conf_check conf_checks_receive[] = {
    {520, "recv.order", "Unexpected receives are filled in the order in which they were posted",
     order, 0},
    {521, "recv.order.expected",
     "Of receives with one source and tag the first one posted is filled first", order_expected, 0},
    {522, "recv.held", "An unexpected message without a receive waits for one, and none is lost",
     held, 0},
    {523, "recv.bounded",
     "A flood that finds no receives arrives whole and in order in the end, also a large one",
     bounded, 180},
    {524, "recv.dropped", "An expected message without a receive is dropped, not kept for later",
     dropped, 0},
    {525, "recv.toolarge", "A message larger than its receive completes that with MSGSIZE",
     too_large, 0},
    {526, "recv.toolarge.held", "So does one that waited for its receive", too_large_held, 0},
    {527, "recv.noretry", "Told to report back-pressure, it loses and repeats no message", no_retry,
     0},
    {528, "recv.bounded.sender",
     "A flood that finds no receives holds back its sender, within a bound", bounded_sender, 180},
    {529, "recv.noretry.refused",
     "Told to report back-pressure, it refuses sends when there is no room", no_retry_refused, 180},
    {540, "multi.recv", "A multi-receive takes messages until less than the largest fits", multi,
     0},
    {541, "multi.queue", "Multi-receives and single ones are one queue in posting order",
     multi_queue, 0},
    {542, "multi.again", "A message that the core cannot take now is reported again", multi_again,
     0},
    {0, NULL, NULL, NULL, 0},
};

/* Message i must complete receive i. */
static void order(void)
{
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 0);
    conf_traffic_receive(&traffic, 50);
    conf_peer_send(&traffic.peer, CONF_PEER_SEND, &traffic.end, CONF_PEER_UNEXPECTED, 50, 100, 0);
    for (uint32_t i = 0; i < 50; i++) {
        uint64_t number;

        conf_wait_ok(traffic.receives[i], "an unexpected receive");
        memcpy(&number, traffic.in[i].data + conf_header(&traffic.end, false), sizeof(number));
        conf_require(number == i, "receive %u has message %llu", i, (unsigned long long) number);
    }
    conf_traffic_close(&traffic);
}

static void order_expected(void)
{
    struct conf_buffer buffers[20];
    struct conf_traffic traffic;
    struct conf_op *ops[20];

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    for (uint32_t i = 0; i < 20; i++) {
        ops[i] = conf_op_new(&traffic.end);
        conf_buffer_get(&buffers[i], &traffic.end, conf_header(&traffic.end, true) + 100,
                        NA_PLUGIN_BUF_RECV, true);
        conf_must_recv_expected(&traffic.end, 0, ops[i], &buffers[i], traffic.peer.addr, 0, 5);
    }
    for (uint32_t i = 0; i < 20; i++)
        conf_traffic_number(&traffic, i, 100, 5);
    for (uint32_t i = 0; i < 20; i++) {
        conf_wait_ok(ops[i], "an expected receive");
        conf_require(buffers[i].data[conf_header(&traffic.end, true)] == i,
                     "receive %u has message %u", i,
                     buffers[i].data[conf_header(&traffic.end, true)]);
    }
    conf_traffic_close(&traffic);
    for (uint32_t i = 0; i < 20; i++)
        conf_buffer_put(&buffers[i]);
}

static void held(void)
{
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 0);
    conf_peer_send(&traffic.peer, CONF_PEER_START, &traffic.end, CONF_PEER_UNEXPECTED, 300, 60, 0);
    conf_progress_ms(200);
    conf_traffic_receive(&traffic, 16);
    for (uint32_t i = 0; i < 300; i++)
        conf_traffic_take(&traffic, i, 60, true);
    conf_traffic_close(&traffic);
}

/* More messages than a queue should defer. */
static void bounded(void)
{
    const uint32_t count = conf_settings.fast ? 3000 : 20000;
    struct conf_traffic traffic;
    uint64_t size;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 0);
    size = conf_max_payload(&traffic.end) < 4000 ? conf_max_payload(&traffic.end) : 4000;
    conf_peer_send(&traffic.peer, CONF_PEER_START, &traffic.end, CONF_PEER_UNEXPECTED, count, size,
                   0);
    conf_progress_ms(conf_settings.fast ? 300 : 2000);
    conf_traffic_receive(&traffic, 16);
    for (uint32_t i = 0; i < count; i++)
        conf_traffic_take(&traffic, i, size, false);
    conf_note("%u messages of %llu bytes", count, (unsigned long long) size);
    conf_traffic_close(&traffic);
}

/* The peer polls all the time, and never posts a receive. */
static void bounded_sender(void)
{
    struct conf_traffic traffic;
    struct conf_buffer buffer;
    uint64_t size;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 0);
    size =
        conf_max_payload(&traffic.end) < FLOOD_SIZE ? conf_max_payload(&traffic.end) : FLOOD_SIZE;
    conf_buffer_get(&buffer, &traffic.end, conf_header(&traffic.end, false) + size,
                    NA_PLUGIN_BUF_SEND, false);
    conf_require(flood_is_held_back(&traffic, &buffer),
                 "%u MiB of messages were taken, and there is no receive for any",
                 FLOOD_BYTES >> 20);
    conf_stop(&traffic.end);
    conf_buffer_put(&buffer);
    conf_traffic_close(&traffic);
}

static bool flood_is_held_back(struct conf_traffic *traffic, struct conf_buffer *buffer)
{
    struct conf_op *ops[FLOOD_SENDS] = {NULL};
    uint64_t sent = 0;

    for (uint32_t slot = 0; sent < FLOOD_BYTES; slot = (slot + 1) % FLOOD_SENDS) {
        uint64_t until = 0;
        int32_t status;

        if (ops[slot] == NULL)
            ops[slot] = conf_op_new(&traffic->end);
        else if (!conf_wait_for(ops[slot], HELD_MS * conf_patience))
            break;
        while ((status = conf_send(&traffic->end, 0, ops[slot], buffer, buffer->size,
                                   traffic->peer.addr, 0, 1, false)) == NA_PLUGIN_AGAIN) {
            if (until == 0)
                until = conf_now_ms() + HELD_MS * conf_patience;
            else if (conf_now_ms() > until)
                break;
            conf_progress_ms(0);
        }
        if (status == NA_PLUGIN_AGAIN)
            break;
        conf_require(status == NA_PLUGIN_SUCCESS, "a send was refused: %s",
                     conf_status_name(status));
        sent += buffer->size;
    }
    conf_note("after %llu KiB", (unsigned long long) sent >> 10);
    return sent < FLOOD_BYTES;
}

/* The unexpected message is sent after the expected ones: when it has arrived, so have they. Its
 * size differs, so that an expected message in its place is detected. */
static void dropped(void)
{
    const uint64_t size = 40, behind = 200;
    struct conf_traffic traffic;
    struct conf_buffer buffer;
    struct conf_op *op;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 0);
    conf_traffic_receive(&traffic, 2);
    conf_peer_send(&traffic.peer, CONF_PEER_SEND, &traffic.end, CONF_PEER_EXPECTED, 10, 24, 0);
    conf_peer_send(&traffic.peer, CONF_PEER_SEND, &traffic.end, CONF_PEER_UNEXPECTED, 1, behind, 0);
    conf_traffic_wait_first(&traffic);
    conf_require(traffic.receives[0]->size == conf_header(&traffic.end, false) + behind,
                 "an unexpected receive has an expected message, of %llu bytes",
                 (unsigned long long) traffic.receives[0]->size);
    conf_traffic_take(&traffic, 0, behind, false);
    op = conf_op_new(&traffic.end);
    conf_buffer_get(&buffer, &traffic.end, conf_max_message(&traffic.end, true), NA_PLUGIN_BUF_RECV,
                    true);
    conf_must_recv_expected(&traffic.end, 0, op, &buffer, traffic.peer.addr, 0, 0);
    conf_progress_ms(50);
    conf_require(!conf_op_is_done(op), "a receive has the message that came before it was posted");
    conf_require(!conf_traffic_first_is_done(&traffic),
                 "one unexpected message was sent, and a second one came");
    conf_peer_send(&traffic.peer, CONF_PEER_SEND, &traffic.end, CONF_PEER_EXPECTED, 1, size, 0);
    conf_wait_ok(op, "an expected receive");
    conf_require(op->size == conf_header(&traffic.end, true) + size,
                 "the receive has a message of %llu bytes, the one after it has %llu",
                 (unsigned long long) op->size,
                 (unsigned long long) (conf_header(&traffic.end, true) + size));
    conf_traffic_close(&traffic);
    conf_buffer_put(&buffer);
}

static void too_large(void)
{
    struct conf_traffic traffic;
    struct conf_buffer buffer;
    struct conf_op *op;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 0);
    op = conf_op_new(&traffic.end);
    for (int expected = 0; expected < 2; expected++) {
        conf_buffer_get(&buffer, &traffic.end, conf_header(&traffic.end, expected != 0) + 100,
                        NA_PLUGIN_BUF_RECV, expected != 0);
        for (uint64_t size = 101; size <= conf_max_payload(&traffic.end); size += 1 + size) {
            if (expected)
                conf_must_recv_expected(&traffic.end, 0, op, &buffer, traffic.peer.addr, 0, 3);
            else
                conf_must_recv(&traffic.end, 0, op, &buffer);
            conf_peer_send(&traffic.peer, CONF_PEER_SEND, &traffic.end,
                           expected ? CONF_PEER_EXPECTED : CONF_PEER_UNEXPECTED, 1, size, 3);
            conf_wait(op, "a receive that is too small");
            conf_require(op->status == NA_PLUGIN_MSGSIZE,
                         "a receive of 100 bytes ended with %s for a message of %llu",
                         conf_status_name(op->status), (unsigned long long) size);
        }
        conf_buffer_put(&buffer);
    }
    conf_traffic_close(&traffic);
}

static void too_large_held(void)
{
    struct conf_traffic traffic;
    struct conf_buffer buffer;
    struct conf_op *op;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 0);
    op = conf_op_new(&traffic.end);
    conf_buffer_get(&buffer, &traffic.end, conf_header(&traffic.end, false) + 100,
                    NA_PLUGIN_BUF_RECV, false);
    for (uint64_t size = 101; size <= conf_max_payload(&traffic.end); size += 1 + size) {
        conf_peer_send(&traffic.peer, CONF_PEER_SEND, &traffic.end, CONF_PEER_UNEXPECTED, 1, size,
                       3);
        conf_progress_ms(50);
        conf_must_recv(&traffic.end, 0, op, &buffer);
        conf_wait(op, "a receive that is too small");
        conf_require(op->status == NA_PLUGIN_MSGSIZE,
                     "a receive of 100 bytes ended with %s for a message of %llu",
                     conf_status_name(op->status), (unsigned long long) size);
    }
    conf_traffic_close(&traffic);
    conf_buffer_put(&buffer);
}

static void no_retry(void)
{
    const struct conf_open how = {.progress_mode = NA_PLUGIN_PROGRESS_NO_RETRY};
    const uint32_t count = conf_settings.fast ? 500 : 3000;
    struct conf_traffic traffic;

    conf_traffic_open_with(&traffic, CONF_PEER_COUNT, 8, &how);
    conf_traffic_number(&traffic, 0, 100, 0);
    conf_peer_expect_count(&traffic.peer, 1);
    conf_peer_tell(&traffic.peer, CONF_PEER_LISTEN, CONF_PEER_COUNT,
                   8); /* restarts the count at 0 */
    conf_peer_tell(&traffic.peer, CONF_PEER_NAP, CONF_PEER_COUNT, 200);
    conf_traffic_flood(&traffic, count, 100);
    conf_peer_expect_count(&traffic.peer, count);
    conf_traffic_close(&traffic);
}

/* The peer is stopped, so that it receives nothing. */
static void no_retry_refused(void)
{
    const struct conf_open how = {.progress_mode = NA_PLUGIN_PROGRESS_NO_RETRY};
    int32_t status = NA_PLUGIN_SUCCESS;
    struct conf_traffic traffic;
    struct conf_buffer buffer;
    uint64_t size, sent = 0;

    conf_traffic_open_with(&traffic, CONF_PEER_COUNT, 8, &how);
    conf_traffic_number(&traffic, 0, 100, 0);
    conf_peer_expect_count(&traffic.peer, 1);
    size =
        conf_max_payload(&traffic.end) < FLOOD_SIZE ? conf_max_payload(&traffic.end) : FLOOD_SIZE;
    conf_buffer_get(&buffer, &traffic.end, conf_header(&traffic.end, false) + size,
                    NA_PLUGIN_BUF_SEND, false);
    conf_peer_pause(&traffic.peer, true);
    for (; status == NA_PLUGIN_SUCCESS && sent < FLOOD_BYTES / 2; sent += size) {
        status = conf_send(&traffic.end, 0, conf_op_new(&traffic.end), &buffer, buffer.size,
                           traffic.peer.addr, 0, 1, false);
        conf_progress();
    }
    conf_peer_pause(&traffic.peer, false);
    conf_require(status == NA_PLUGIN_AGAIN, "%llu KiB of sends to a peer that takes none, then %s",
                 (unsigned long long) sent >> 10, conf_status_name(status));
    conf_note("after %llu KiB", (unsigned long long) sent >> 10);
    conf_stop(&traffic.end);
    conf_buffer_put(&buffer);
    conf_traffic_close(&traffic);
}

/* State of a multi-receive's callback. */
struct multi_state {
    struct conf_end *end;
    uint32_t next, calls;
    int32_t status;
};

static void multi(void)
{
    struct multi_state state = {0};
    uint32_t posted = 0, count = 1000;
    struct conf_traffic traffic;
    struct conf_buffer buffer;
    struct conf_op *op;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 0);
    if (conf_plugin.multi_recv == NULL)
        conf_traffic_skip(&traffic, "there is no multi-receive");
    state.end = &traffic.end;
    op = conf_op_new(&traffic.end);
    conf_buffer_get(&buffer, &traffic.end, conf_max_message(&traffic.end, false) + 5000,
                    NA_PLUGIN_BUF_RECV | NA_PLUGIN_BUF_MULTI_RECV, false);
    conf_peer_send(&traffic.peer, CONF_PEER_START, &traffic.end, CONF_PEER_UNEXPECTED, count, 100,
                   0);
    for (uint64_t until = conf_now_ms() + CONF_WAIT_MS;
         state.next < count && conf_now_ms() < until;) {
        if (posted == 0 || conf_op_is_done(op)) {
            conf_require(posted == 0 || op->status == NA_PLUGIN_SUCCESS,
                         "a multi-receive ended with %s", conf_status_name(op->status));
            conf_require(conf_recv_multi(&traffic.end, 0, op, &buffer, buffer.size, multi_take,
                                         &state) == NA_PLUGIN_SUCCESS,
                         "a multi-receive cannot be posted");
            posted++;
        }
        conf_progress();
    }
    conf_require(state.next == count, "%u of %u messages arrived", state.next, count);
    conf_require(posted >= 2 && posted <= count / (5000 / 256) + 2,
                 "%u multi-receives were needed for %u messages of 100 bytes", posted, count);
    conf_traffic_close(&traffic);
    conf_buffer_put(&buffer);
}

/* The multi-receive is posted between two single receives, so the first message completes the
 * first of them, and the next messages are the multi-receive's. */
static void multi_queue(void)
{
    struct multi_state state = {0};
    struct conf_buffer buffer, single;
    struct conf_traffic traffic;
    struct conf_op *op, *before;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 0);
    if (conf_plugin.multi_recv == NULL)
        conf_traffic_skip(&traffic, "there is no multi-receive");
    state.end = &traffic.end;
    op = conf_op_new(&traffic.end);
    before = conf_op_new(&traffic.end);
    conf_buffer_get(&single, &traffic.end, conf_max_message(&traffic.end, false),
                    NA_PLUGIN_BUF_RECV, false);
    conf_buffer_get(&buffer, &traffic.end, 2 * conf_max_message(&traffic.end, false),
                    NA_PLUGIN_BUF_RECV | NA_PLUGIN_BUF_MULTI_RECV, false);
    conf_must_recv(&traffic.end, 0, before, &single);
    conf_require(conf_recv_multi(&traffic.end, 0, op, &buffer, buffer.size, multi_take, &state) ==
                     NA_PLUGIN_SUCCESS,
                 "a multi-receive cannot be posted");
    conf_traffic_receive(&traffic, 1);
    state.next = 1;
    conf_peer_send(&traffic.peer, CONF_PEER_SEND, &traffic.end, CONF_PEER_UNEXPECTED, 3, 100, 0);
    conf_wait_ok(before, "the receive in front of a multi-receive");
    conf_addr_free(&traffic.end, before->source);
    for (uint64_t until = conf_now_ms() + CONF_WAIT_MS; state.next < 3 && conf_now_ms() < until;)
        conf_progress();
    conf_require(state.next == 3 && !conf_traffic_first_is_done(&traffic),
                 "a receive behind a multi-receive has a message that belongs to that");
    conf_traffic_close(&traffic);
    conf_buffer_put(&buffer);
    conf_buffer_put(&single);
}

static void multi_again(void)
{
    struct multi_state state = {0};
    struct conf_traffic traffic;
    struct conf_buffer buffer;
    struct conf_op *op;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 0);
    if (conf_plugin.multi_recv == NULL)
        conf_traffic_skip(&traffic, "there is no multi-receive");
    state.end = &traffic.end;
    op = conf_op_new(&traffic.end);
    conf_buffer_get(&buffer, &traffic.end, 2 * conf_max_message(&traffic.end, false) + 100 * 256,
                    NA_PLUGIN_BUF_RECV | NA_PLUGIN_BUF_MULTI_RECV, false);
    conf_require(conf_recv_multi(&traffic.end, 0, op, &buffer, buffer.size, multi_take_seldom,
                                 &state) == NA_PLUGIN_SUCCESS,
                 "a multi-receive cannot be posted");
    conf_peer_send(&traffic.peer, CONF_PEER_START, &traffic.end, CONF_PEER_UNEXPECTED, 50, 100, 0);
    for (uint64_t until = conf_now_ms() + CONF_WAIT_MS; state.next < 50 && conf_now_ms() < until;)
        conf_progress();
    conf_require(state.next == 50, "%u of 50 messages arrived", state.next);
    conf_traffic_close(&traffic);
    conf_buffer_put(&buffer);
}

static bool multi_take(struct conf_op *op, int32_t status, uint8_t *data, uint64_t size,
                       struct na_plugin_addr *source, uint32_t tag, bool last)
{
    struct multi_state *state = op->arg;
    const uint64_t header = conf_header(state->end, false);
    const uint64_t tags = (uint64_t) state->end->info.max_tag + 1;
    uint64_t number = 0;

    (void) last;
    state->status = status;
    if (status != NA_PLUGIN_SUCCESS)
        return true;
    memcpy(&number, data + header, sizeof(number));
    conf_require(size == header + 100 && number == state->next && tag == number % tags &&
                     conf_is_filled(data + header + sizeof(number), 92, number) < 0,
                 "message %u of a multi-receive has %llu bytes, tag %u, number %llu", state->next,
                 (unsigned long long) size, tag, (unsigned long long) number);
    conf_addr_free(state->end, source);
    state->next++;
    return true;
}

/* Refuses the message in two of three calls, as a core without free requests does. */
static bool multi_take_seldom(struct conf_op *op, int32_t status, uint8_t *data, uint64_t size,
                              struct na_plugin_addr *source, uint32_t tag, bool last)
{
    struct multi_state *state = op->arg;

    if (status == NA_PLUGIN_SUCCESS && ++state->calls % 3 != 0)
        return false;
    return multi_take(op, status, data, size, source, tag, last);
}
