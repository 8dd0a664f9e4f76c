/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with verifiable content. */

#include "na_conformance/traffic.h"

#include <string.h>

static void message_write(const struct conf_buffer *buffer, uint64_t header, uint64_t number,
                          uint64_t size);
static void first_again(struct conf_traffic *traffic);

void conf_traffic_open(struct conf_traffic *traffic, enum conf_peer_mode mode, uint32_t receives)
{
    conf_traffic_open_with(traffic, mode, receives, NULL);
}

void conf_traffic_open_with(struct conf_traffic *traffic, enum conf_peer_mode mode,
                            uint32_t receives, const struct conf_open *how)
{
    memset(traffic, 0, sizeof(*traffic));
    traffic->buffer_flags = NA_PLUGIN_BUF_SEND | NA_PLUGIN_BUF_RECV;
    conf_pair_open(&traffic->peer, &traffic->end, how);
    if (receives > 0)
        conf_peer_tell(&traffic->peer, CONF_PEER_LISTEN, mode, receives);
    traffic->echo_op = conf_op_new(&traffic->end);
}

/* Buffers are freed when nothing is outstanding, and before the class. */
void conf_traffic_close(struct conf_traffic *traffic)
{
    if (traffic->peer.addr != NULL)
        conf_addr_free(&traffic->end, traffic->peer.addr);
    conf_stop(&traffic->end);
    for (uint32_t i = 0; i < traffic->window; i++) {
        if (conf_op_is_done(traffic->receives[i]) && traffic->receives[i]->source != NULL)
            conf_addr_free(&traffic->end, traffic->receives[i]->source);
        conf_buffer_put(&traffic->in[i]);
    }
    for (uint32_t i = 0; i < CONF_TRAFFIC_WINDOW; i++)
        if (traffic->sends[i] != NULL)
            conf_buffer_put(&traffic->out[i]);
    conf_destroy(&traffic->end);
    conf_peer_stop(&traffic->peer);
}

_Noreturn void conf_traffic_skip(struct conf_traffic *traffic, const char *reason)
{
    conf_traffic_close(traffic);
    conf_skip("%s", reason);
}

void conf_traffic_echo(struct conf_traffic *traffic, uint64_t size, uint32_t tag)
{
    const uint64_t to = conf_header(&traffic->end, false), back = conf_header(&traffic->end, true);
    const uint64_t seed = size + tag;
    struct conf_buffer out, in;
    int64_t differs;

    conf_buffer_get(&out, &traffic->end, to + size, traffic->buffer_flags & NA_PLUGIN_BUF_SEND,
                    false);
    conf_buffer_get(&in, &traffic->end, back + size, traffic->buffer_flags & NA_PLUGIN_BUF_RECV,
                    true);
    conf_fill(out.data + to, size, seed);
    conf_must_recv_expected(&traffic->end, 0, traffic->echo_op, &in, traffic->peer.addr, 0, tag);
    conf_send_wait(&traffic->end, 0, &out, to + size, traffic->peer.addr, 0, tag, false);
    conf_wait(traffic->echo_op, "the expected receive of an answer");
    conf_require(traffic->echo_op->status == NA_PLUGIN_SUCCESS,
                 "a message of %llu bytes and its echo: the receive ended with %s",
                 (unsigned long long) size, conf_status_name(traffic->echo_op->status));
    conf_require(traffic->echo_op->size == back + size,
                 "a message of %llu bytes came back with %llu", (unsigned long long) size,
                 (unsigned long long) (traffic->echo_op->size - back));
    differs = conf_is_filled(in.data + back, size, seed);
    conf_require(differs < 0, "a message of %llu bytes came back and differs at byte %lld",
                 (unsigned long long) size, (long long) differs);
    conf_buffer_put(&out);
    conf_buffer_put(&in);
}

void conf_traffic_number(struct conf_traffic *traffic, uint64_t number, uint64_t size, uint32_t tag)
{
    const uint64_t header = conf_header(&traffic->end, false);
    struct conf_buffer out;

    conf_buffer_get(&out, &traffic->end, header + size, traffic->buffer_flags & NA_PLUGIN_BUF_SEND,
                    false);
    message_write(&out, header, number, size);
    conf_send_wait(&traffic->end, 0, &out, header + size, traffic->peer.addr, 0, tag, false);
    conf_buffer_put(&out);
}

void conf_traffic_flood(struct conf_traffic *traffic, uint32_t count, uint64_t size)
{
    const uint64_t header = conf_header(&traffic->end, false);

    for (uint32_t i = 0; i < count + CONF_TRAFFIC_WINDOW; i++) {
        const uint32_t slot = i % CONF_TRAFFIC_WINDOW;

        if (traffic->sends[slot] == NULL) {
            traffic->sends[slot] = conf_op_new(&traffic->end);
            conf_buffer_get(&traffic->out[slot], &traffic->end, header + size,
                            traffic->buffer_flags & NA_PLUGIN_BUF_SEND, false);
        } else if (i >= CONF_TRAFFIC_WINDOW && i - CONF_TRAFFIC_WINDOW < count) {
            conf_wait_ok(traffic->sends[slot], "an unexpected send");
        }
        if (i >= count)
            continue;
        message_write(&traffic->out[slot], header, i, size);
        conf_must_send(&traffic->end, 0, traffic->sends[slot], &traffic->out[slot], header + size,
                       traffic->peer.addr, 0, i % 100, false);
    }
}

void conf_traffic_receive(struct conf_traffic *traffic, uint32_t window)
{
    traffic->window = window;
    for (uint32_t i = 0; i < window; i++) {
        traffic->receives[i] = conf_op_new(&traffic->end);
        conf_buffer_get(&traffic->in[i], &traffic->end, conf_max_message(&traffic->end, false),
                        traffic->buffer_flags & NA_PLUGIN_BUF_RECV, false);
        conf_must_recv(&traffic->end, 0, traffic->receives[i], &traffic->in[i]);
    }
}

void conf_traffic_wait_first(struct conf_traffic *traffic)
{
    conf_wait_ok(traffic->receives[traffic->first], "the unexpected receive that was posted first");
}

bool conf_traffic_first_is_done(const struct conf_traffic *traffic)
{
    return conf_op_is_done(traffic->receives[traffic->first]);
}

uint32_t conf_traffic_first_tag(const struct conf_traffic *traffic)
{
    return traffic->receives[traffic->first]->tag;
}

struct na_plugin_addr *conf_traffic_first_source(const struct conf_traffic *traffic)
{
    return traffic->receives[traffic->first]->source;
}

void conf_traffic_take(struct conf_traffic *traffic, uint32_t number, uint64_t size, bool tagged)
{
    const uint64_t header = conf_header(&traffic->end, false);
    const uint8_t *payload = traffic->in[traffic->first].data + header;
    const struct conf_op *op = traffic->receives[traffic->first];
    const uint64_t tags = (uint64_t) traffic->end.info.max_tag + 1;
    uint64_t found;

    conf_traffic_wait_first(traffic);
    conf_require(op->size == header + size, "message %u has %llu bytes, %llu were sent", number,
                 (unsigned long long) (op->size - header), (unsigned long long) size);
    memcpy(&found, payload, sizeof(found));
    conf_require(found == number, "message %llu came where number %u belongs",
                 (unsigned long long) found, number);
    conf_require(conf_is_filled(payload + sizeof(found), size - sizeof(found), number) < 0,
                 "message %u does not have its content", number);
    conf_require(!tagged || op->tag == number % tags, "the message with tag %u came with tag %u",
                 (uint32_t) (number % tags), op->tag);
    conf_addr_free(&traffic->end, op->source);
    first_again(traffic);
}

struct na_plugin_addr *conf_traffic_first_keep(struct conf_traffic *traffic)
{
    struct na_plugin_addr *source = conf_traffic_first_source(traffic);

    first_again(traffic);
    return source;
}

static void message_write(const struct conf_buffer *buffer, uint64_t header, uint64_t number,
                          uint64_t size)
{
    memcpy(buffer->data + header, &number, sizeof(number));
    conf_fill(buffer->data + header + sizeof(number), size - sizeof(number), number);
}

static void first_again(struct conf_traffic *traffic)
{
    conf_must_recv(&traffic->end, 0, traffic->receives[traffic->first],
                   &traffic->in[traffic->first]);
    traffic->first = (traffic->first + 1) % traffic->window;
}
