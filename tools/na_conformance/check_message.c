/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of messages: sizes, order, tags, sources. */

#include <string.h>

#include "na_conformance/check.h"
#include "na_conformance/peer.h"
#include "na_conformance/traffic.h"

#define WINDOW        32u
#define CONTEXTS      2u
#define STREAM_WINDOW 16u

/* State of numbered messages from one context to another. */
struct stream {
    struct conf_op *ops[STREAM_WINDOW];
    struct conf_buffer buffers[STREAM_WINDOW];
    uint32_t from, to, next;
};

static void sizes(void);
static void echo_sizes(struct conf_traffic *traffic, uint64_t most);
static void unexpected_max(void);
static void empty(void);
static void order_out(void);
static void order_in(void);
static void order_mixed(void);
static void order_contexts(void);
static void stream_send(struct stream *stream, struct conf_end *end, struct conf_peer *peer);
static void tags_unexpected(void);
static void tags_expected(void);
static void source(void);
static void source_reply(void);
static void source_expected(void);
static void self(void);
static void own_memory(void);
static void many_senders(void);

const struct conf_check conf_checks_message[] = {
    {501, "msg.sizes", "Messages of every size up to the largest arrive whole, both kinds", sizes,
     0},
    {502, "msg.max", "The largest unexpected message arrives whole", unexpected_max, 0},
    {503, "msg.empty", "A message without content arrives, with its tag and source", empty, 0},
    {504, "msg.order", "Messages to one context arrive in the order in which they were sent",
     order_out, 0},
    {505, "msg.order.in", "Messages from another process arrive in the order of their sends",
     order_in, 0},
    {506, "msg.order.mixed", "Unexpected and expected messages share one order", order_mixed, 0},
    {507, "msg.tags.unexpected", "An unexpected receive is told the tag, from 0 to max_tag",
     tags_unexpected, 0},
    {508, "msg.tags.expected", "An expected receive gets the message with its tag and no other",
     tags_expected, 0},
    {509, "msg.source", "The source of an unexpected message is its sender", source, 0},
    {510, "msg.source.reference",
     "The source is a reference of its own, that can be answered to until it is freed",
     source_reply, 0},
    {511, "msg.source.expected", "An expected receive gets the message of its source and no other",
     source_expected, 0},
    {512, "msg.self", "An endpoint sends to itself", self, 0},
    {513, "msg.memory", "Messages are sent from and received into any memory of the caller",
     own_memory, 0},
    {514, "msg.senders", "Many senders at once are told apart, each in its order", many_senders, 0},
    {515, "msg.order.contexts",
     "Messages of one context to one context keep their order while other contexts send, too",
     order_contexts, 0},
    {0, NULL, NULL, NULL, 0},
};

static void sizes(void)
{
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    echo_sizes(&traffic, conf_max_payload(&traffic.end));
    conf_traffic_close(&traffic);
}

/* Sizes around every power of two, and all small sizes. */
static void echo_sizes(struct conf_traffic *traffic, uint64_t most)
{
    uint32_t tag = 1;

    for (uint64_t size = 1; size <= most; size += size < 80 ? 1 : size / 3) {
        conf_traffic_echo(traffic, size, tag++ % 250);
        if (size > 64 && (size & (size - 1)) == 0)
            conf_traffic_echo(traffic, size - 1, tag++ % 250);
    }
    conf_traffic_echo(traffic, most - 1, 7);
    conf_traffic_echo(traffic, most, 8);
    conf_note("up to %llu bytes after the header", (unsigned long long) most);
}

static void unexpected_max(void)
{
    struct conf_traffic traffic;
    uint64_t size;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 8);
    size = conf_max_message(&traffic.end, false) - conf_header(&traffic.end, false);
    for (uint32_t i = 0; i < 20; i++)
        conf_traffic_number(&traffic, i, size - i % 2, 0);
    conf_peer_expect_count(&traffic.peer, 20);
    conf_traffic_close(&traffic);
}

static void empty(void)
{
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    for (uint32_t i = 0; i < 10; i++)
        conf_traffic_echo(&traffic, 0, i);
    conf_traffic_close(&traffic);
}

/* Many sends are outstanding at a time. */
static void order_out(void)
{
    const uint32_t count = conf_settings.fast ? 5000 : 100000;
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 32);
    conf_traffic_flood(&traffic, count, 100);
    conf_peer_expect_count(&traffic.peer, count);
    conf_note("%u messages", count);
    conf_traffic_close(&traffic);
}

static void order_in(void)
{
    const uint32_t count = conf_settings.fast ? 5000 : 100000;
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 0);
    conf_traffic_receive(&traffic, WINDOW);
    conf_peer_send(&traffic.peer, CONF_PEER_START, &traffic.end, CONF_PEER_UNEXPECTED, count, 100,
                   0);
    for (uint32_t i = 0; i < count; i++)
        conf_traffic_take(&traffic, i, 100, true);
    conf_note("%u messages", count);
    conf_traffic_close(&traffic);
}

/* Each expected message is sent after the unexpected one with its number. So if it has arrived,
 * the unexpected one has, too. */
static void order_mixed(void)
{
    const uint32_t count = 200;
    struct conf_op *expected[200];
    struct conf_traffic traffic;
    struct conf_buffer buffer;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 0);
    conf_traffic_receive(&traffic, WINDOW);
    conf_buffer_get(&buffer, &traffic.end, conf_max_message(&traffic.end, true), NA_PLUGIN_BUF_RECV,
                    true);
    for (uint32_t i = 0; i < count; i++) {
        expected[i] = conf_op_new(&traffic.end);
        conf_must_recv_expected(&traffic.end, 0, expected[i], &buffer, traffic.peer.addr, 0, i);
    }
    conf_peer_send(&traffic.peer, CONF_PEER_START, &traffic.end, CONF_PEER_MIXED, count, 60, 0);
    for (uint32_t i = 0; i < count; i++) {
        conf_traffic_wait_first(&traffic);
        conf_require(!conf_op_is_done(expected[i]) || conf_traffic_first_is_done(&traffic),
                     "expected message %u overtook the unexpected one before it", i);
        conf_traffic_take(&traffic, i, 60, true);
        conf_wait_ok(expected[i], "an expected receive");
    }
    conf_traffic_close(&traffic);
    conf_buffer_put(&buffer);
}

/* Each of two contexts sends to each of two, alternately small and large messages, and the peer
 * does not poll at first. */
static void order_contexts(void)
{
    const struct conf_peer_options options = {.contexts = CONTEXTS};
    const struct conf_open how = {.contexts = CONTEXTS};
    const uint32_t count = conf_settings.fast ? 1500 : 20000;
    struct stream streams[CONTEXTS * CONTEXTS] = {0};
    struct conf_peer peer;
    struct conf_end end;

    conf_load();
    conf_open(&end, &how);
    conf_peer_start(&peer, &options);
    conf_peer_meet(&peer, &end);
    conf_peer_tell(&peer, CONF_PEER_LISTEN, CONF_PEER_COUNT, WINDOW);
    conf_peer_tell(&peer, CONF_PEER_NAP, CONF_PEER_COUNT, 200);
    for (uint32_t i = 0; i < CONTEXTS * CONTEXTS; i++) {
        streams[i].from = i / CONTEXTS;
        streams[i].to = i % CONTEXTS;
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < CONTEXTS * CONTEXTS; j++)
            stream_send(&streams[j], &end, &peer);
    conf_peer_expect_count(&peer, (uint64_t) count * CONTEXTS * CONTEXTS);
    conf_note("%u messages of each context to each", count);
    conf_addr_free(&end, peer.addr);
    conf_stop(&end);
    for (uint32_t i = 0; i < CONTEXTS * CONTEXTS * STREAM_WINDOW; i++)
        conf_buffer_put(&streams[i / STREAM_WINDOW].buffers[i % STREAM_WINDOW]);
    conf_destroy(&end);
    conf_peer_stop(&peer);
}

static void stream_send(struct stream *stream, struct conf_end *end, struct conf_peer *peer)
{
    const uint64_t header = conf_header(end, false),
                   number = CONF_IN_STREAM(stream->from, stream->next);
    const uint64_t most = conf_max_payload(end) < 3000 ? conf_max_payload(end) : 3000;
    const uint64_t size = stream->next % 3 == 0 ? most : 16 + stream->next % 100;
    const uint32_t slot = stream->next++ % STREAM_WINDOW;
    struct conf_buffer *buffer = &stream->buffers[slot];

    if (stream->ops[slot] == NULL) {
        stream->ops[slot] = conf_op_new(end);
        conf_buffer_get(buffer, end, header + most, NA_PLUGIN_BUF_SEND, false);
    } else {
        conf_wait_ok(stream->ops[slot], "an unexpected send");
    }
    memcpy(buffer->data + header, &number, sizeof(number));
    conf_fill(buffer->data + header + sizeof(number), size - sizeof(number), number);
    conf_must_send(end, stream->from, stream->ops[slot], buffer, header + size, peer->addr,
                   stream->to, slot, false);
}

static void tags_unexpected(void)
{
    struct conf_traffic traffic;
    uint32_t tags[4];

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 0);
    conf_traffic_receive(&traffic, 4);
    tags[0] = 0;
    tags[1] = 1;
    tags[2] = traffic.end.info.max_tag / 2;
    tags[3] = traffic.end.info.max_tag;
    for (int i = 0; i < 4; i++) {
        conf_peer_send(&traffic.peer, CONF_PEER_SEND, &traffic.end, CONF_PEER_UNEXPECTED, 1, 40,
                       tags[i]);
        conf_traffic_wait_first(&traffic);
        conf_require(conf_traffic_first_tag(&traffic) == tags[i],
                     "a message with tag %u came with %u", tags[i],
                     conf_traffic_first_tag(&traffic));
        conf_traffic_take(&traffic, 0, 40, false);
    }
    conf_note("max_tag is %u", tags[3]);
    conf_traffic_close(&traffic);
}

/* The messages are sent in the opposite order of the receives. */
static void tags_expected(void)
{
    struct conf_buffer buffers[4];
    struct conf_op *ops[4];
    struct conf_traffic traffic;
    uint32_t tags[4], max;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    max = traffic.end.info.max_tag;
    memcpy(tags, (uint32_t[]){0, 1, max / 2 + 1, max}, sizeof(tags));
    for (int i = 0; i < 4; i++) {
        conf_buffer_get(&buffers[i], &traffic.end, conf_header(&traffic.end, true) + 16,
                        NA_PLUGIN_BUF_RECV, true);
        ops[i] = conf_op_new(&traffic.end);
        conf_must_recv_expected(&traffic.end, 0, ops[i], &buffers[i], traffic.peer.addr, 0,
                                tags[i]);
    }
    for (int i = 3; i >= 0; i--) {
        conf_traffic_number(&traffic, (uint64_t) i, 16, tags[i]);
        conf_wait_ok(ops[i], "the expected receive of the tag that was sent");
        for (int j = 0; j < i; j++)
            conf_require(!conf_op_is_done(ops[j]), "tag %u was sent, the receive of tag %u has it",
                         tags[i], tags[j]);
        conf_require(buffers[i].data[conf_header(&traffic.end, true)] == i,
                     "the receive of tag %u has the content of another message", tags[i]);
    }
    conf_traffic_close(&traffic);
    for (int i = 0; i < 4; i++)
        conf_buffer_put(&buffers[i]);
}

static void source(void)
{
    struct conf_traffic traffic;
    struct conf_peer other;
    char text[CONF_ADDRESS_SIZE];

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 0);
    conf_peer_start(&other, NULL);
    conf_peer_meet(&other, &traffic.end);
    conf_traffic_receive(&traffic, 4);
    for (int i = 0; i < 6; i++) {
        struct conf_peer *from = i % 2 ? &other : &traffic.peer;
        struct na_plugin_addr *addr;

        conf_peer_send(from, CONF_PEER_SEND, &traffic.end, CONF_PEER_UNEXPECTED, 1, 40, 3);
        conf_traffic_wait_first(&traffic);
        addr = conf_traffic_first_source(&traffic);
        conf_require(conf_addr_same(&traffic.end, addr, from->addr),
                     "the source of a message is not the address of its sender");
        conf_require(!conf_addr_same(&traffic.end, addr, i % 2 ? traffic.peer.addr : other.addr),
                     "the source of a message is the address of another process, too");
        conf_addr_string(&traffic.end, addr, text, sizeof(text));
        conf_require(strcmp(text, from->address) == 0,
                     "the source of a message is %.200s, its sender %.200s", text, from->address);
        conf_traffic_take(&traffic, 0, 40, false);
    }
    conf_addr_free(&traffic.end, other.addr);
    conf_peer_stop(&other);
    conf_traffic_close(&traffic);
}

/* The address from the lookup is freed first; the peer counts the answers. */
static void source_reply(void)
{
    struct na_plugin_addr *addr;
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 8);
    conf_traffic_receive(&traffic, 2);
    conf_addr_free(&traffic.end, traffic.peer.addr);
    conf_peer_send(&traffic.peer, CONF_PEER_SEND, &traffic.end, CONF_PEER_UNEXPECTED, 1, 40, 3);
    conf_traffic_wait_first(&traffic);
    addr = conf_traffic_first_keep(&traffic);
    traffic.peer.addr = addr;
    for (uint32_t i = 0; i < 10; i++)
        conf_traffic_number(&traffic, i, 40, 1);
    conf_peer_expect_count(&traffic.peer, 10);
    conf_traffic_close(&traffic); /* frees the source, too */
}

static void source_expected(void)
{
    struct conf_buffer buffers[2];
    struct conf_traffic traffic;
    struct conf_op *ops[2];
    struct conf_peer other, *peers[2];

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 0);
    conf_peer_start(&other, NULL);
    conf_peer_meet(&other, &traffic.end);
    peers[0] = &traffic.peer;
    peers[1] = &other;
    for (int i = 0; i < 2; i++) {
        conf_buffer_get(&buffers[i], &traffic.end, conf_max_message(&traffic.end, true),
                        NA_PLUGIN_BUF_RECV, true);
        ops[i] = conf_op_new(&traffic.end);
        conf_must_recv_expected(&traffic.end, 0, ops[i], &buffers[i], peers[i]->addr, 0, 7);
    }
    for (int i = 1; i >= 0; i--) {
        conf_peer_send(peers[i], CONF_PEER_SEND, &traffic.end, CONF_PEER_EXPECTED, 1, 40, 7);
        conf_wait_ok(ops[i], "the expected receive of the peer that sent");
        conf_require(i == 0 || !conf_op_is_done(ops[0]),
                     "an expected receive has the message of another source");
    }
    conf_addr_free(&traffic.end, other.addr);
    conf_peer_stop(&other);
    conf_traffic_close(&traffic);
    conf_buffer_put(&buffers[0]);
    conf_buffer_put(&buffers[1]);
}

static void self(void)
{
    struct conf_buffer in, out;
    struct conf_end end;
    struct conf_op *op;

    conf_load();
    conf_open(&end, NULL);
    for (int expected = 0; expected < 2; expected++) {
        const uint64_t header = conf_header(&end, expected != 0);
        const uint64_t size = conf_max_message(&end, expected != 0);

        conf_buffer_get(&out, &end, size, NA_PLUGIN_BUF_SEND, expected != 0);
        conf_buffer_get(&in, &end, size, NA_PLUGIN_BUF_RECV, expected != 0);
        conf_fill(out.data + header, size - header, 5);
        op = conf_op_new(&end);
        if (expected)
            conf_must_recv_expected(&end, 0, op, &in, end.self, 0, 9);
        else
            conf_must_recv(&end, 0, op, &in);
        conf_send_wait(&end, 0, &out, size, end.self, 0, 9, expected != 0);
        conf_wait_ok(op, "a receive from oneself");
        conf_require(op->size == size && conf_is_filled(in.data + header, size - header, 5) < 0,
                     "a message to oneself of %llu bytes has %llu, or other content",
                     (unsigned long long) size, (unsigned long long) op->size);
        if (!expected) {
            conf_require(conf_plugin.table.addr_is_self(end.na_class, op->source) == 1,
                         "the source of a message to oneself is not oneself");
            conf_addr_free(&end, op->source);
        }
        conf_buffer_put(&out);
        conf_buffer_put(&in);
    }
    conf_close(&end);
}

/* Buffers are between guard pages, and not aligned. */
static void own_memory(void)
{
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    traffic.buffer_flags = 0;
    if (conf_header(&traffic.end, false) != 0 || conf_header(&traffic.end, true) != 0)
        conf_traffic_skip(&traffic, "messages have headers, for which buffers are prepared");
    for (uint64_t size = 1; size <= conf_max_payload(&traffic.end); size += 1 + size / 2)
        conf_traffic_echo(&traffic, size, 3);
    conf_traffic_close(&traffic);
}

static void many_senders(void)
{
    enum {
        PEERS = 4
    };
    const uint32_t count = conf_settings.fast ? 200 : 2000;
    struct conf_peer peers[PEERS];
    uint32_t next[PEERS] = {0};
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 0);
    conf_traffic_receive(&traffic, WINDOW);
    for (int i = 0; i < PEERS; i++) {
        conf_peer_start(&peers[i], NULL);
        conf_peer_meet(&peers[i], &traffic.end);
        conf_peer_send(&peers[i], CONF_PEER_START, &traffic.end, CONF_PEER_UNEXPECTED, count, 60,
                       0);
    }
    for (uint32_t i = 0; i < PEERS * count; i++) {
        int from = 0;

        conf_traffic_wait_first(&traffic);
        while (from < PEERS &&
               !conf_addr_same(&traffic.end, peers[from].addr, conf_traffic_first_source(&traffic)))
            from++;
        conf_require(from < PEERS, "the source of a message is none of the senders");
        conf_traffic_take(&traffic, next[from]++, 60, true);
    }
    for (int i = 0; i < PEERS; i++) {
        conf_addr_free(&traffic.end, peers[i].addr);
        conf_peer_stop(&peers[i]);
    }
    conf_traffic_close(&traffic);
}
