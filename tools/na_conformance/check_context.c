/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of contexts: delivery to the right context, and closing with outstanding operations. */

#include <string.h>
#include <sys/mman.h>

#include "na_conformance/check.h"
#include "na_conformance/peer.h"
#include "na_conformance/rma.h"
#include "na_conformance/traffic.h"

#define CONTEXTS 3u
#define BYTES    (8u << 20)

static void targets(void);
static void sources(void);
static void again(void);
static void again_peer(void);
static void stop(void);
static void post_everything(struct conf_traffic *traffic, struct conf_buffer *buffer,
                            uint32_t sends);
static void stop_refuses(void);
static void stop_twice(void);
static void stop_memory(void);
static void alone(void);
static void busy_close(void);

const struct conf_check conf_checks_context[] = {
    {301, "context.dest", "A message to a context arrives at that one and at no other", targets, 0},
    {302, "context.source", "An expected receive names the sender's context, too", sources, 0},
    {303, "context.again", "A context is destroyed and made again with its number", again, 0},
    {304, "context.stop", "context_stop completes everything outstanding, and waits for nobody",
     stop, 0},
    {305, "context.stop.refuses", "A stopped context accepts nothing and says FAULT", stop_refuses,
     0},
    {306, "context.stop.twice", "Stopping twice is stopping once", stop_twice, 0},
    {307, "context.stop.memory", "After context_stop no memory of its operations is touched",
     stop_memory, 0},
    {308, "context.alone", "Stopping one context leaves the others at work", alone, 0},
    {309, "context.finalize", "A class closes while peers send to it and access its memory",
     busy_close, 0},
    {310, "context.again.peer",
     "A peer that sent to a context reaches the one that is made again with its number", again_peer,
     0},
    {0, NULL, NULL, NULL, 0},
};

static void targets(void)
{
    const struct conf_open how = {.contexts = CONTEXTS};
    struct conf_buffer in[CONTEXTS], out;
    struct conf_op *ops[CONTEXTS];
    struct conf_end end;
    uint64_t header;

    conf_load();
    conf_open(&end, &how);
    header = conf_header(&end, false);
    conf_buffer_get(&out, &end, header + 64, NA_PLUGIN_BUF_SEND, false);
    for (uint32_t to = 0; to < CONTEXTS; to++) {
        for (uint32_t id = 0; id < CONTEXTS; id++) {
            conf_buffer_get(&in[id], &end, header + 64, NA_PLUGIN_BUF_RECV, false);
            ops[id] = conf_op_new(&end);
            conf_must_recv(&end, id, ops[id], &in[id]);
        }
        conf_fill(out.data + header, 64, to);
        conf_send_wait(&end, (to + 1) % CONTEXTS, &out, header + 64, end.self, to, 1, false);
        conf_wait_ok(ops[to], "the receive of the context that was sent to");
        conf_addr_free(&end, ops[to]->source);
        conf_progress_ms(20);
        for (uint32_t id = 0; id < CONTEXTS; id++) {
            conf_require(id == to || !conf_op_is_done(ops[id]),
                         "a message to context %u arrived at context %u", to, id);
            if (id != to) {
                (void) conf_cancel(&end, id, ops[id]);
                conf_wait(ops[id], "a cancelled receive");
            }
            conf_buffer_put(&in[id]);
        }
    }
    conf_buffer_put(&out);
    conf_close(&end);
}

/* The peer answers from the addressed context to the context that the message names. */
static void sources(void)
{
    const struct conf_open how = {.contexts = CONTEXTS};
    const struct conf_peer_options options = {.contexts = CONTEXTS};
    struct conf_peer_command command = {
        .kind = CONF_PEER_LISTEN, .mode = CONF_PEER_ECHO, .count = 4};
    struct conf_buffer in[CONTEXTS], out;
    struct conf_peer_reply reply;
    struct conf_op *ops[CONTEXTS];
    struct conf_peer peer;
    struct conf_end end;

    conf_load();
    conf_open(&end, &how);
    conf_peer_start(&peer, &options);
    conf_peer_meet(&peer, &end);
    conf_buffer_get(&out, &end, conf_header(&end, false) + 64, NA_PLUGIN_BUF_SEND, false);
    for (uint32_t from = 0; from < CONTEXTS; from++) {
        const uint32_t to = (from + 2) % CONTEXTS;

        command.dest = to;
        conf_peer_call(&peer, &command, &reply);
        for (uint32_t id = 0; id < CONTEXTS; id++) {
            conf_buffer_get(&in[id], &end, conf_header(&end, true) + 64, NA_PLUGIN_BUF_RECV, true);
            ops[id] = conf_op_new(&end);
            conf_must_recv_expected(&end, to, ops[id], &in[id], peer.addr, id, 9);
        }
        conf_send_wait(&end, 0, &out, out.size, peer.addr, from, 9, false);
        conf_wait_ok(ops[from], "the receive that names the context which sent");
        for (uint32_t id = 0; id < CONTEXTS; id++) {
            conf_require(id == from || !conf_op_is_done(ops[id]),
                         "a message from context %u filled the receive of context %u", from, id);
            if (id != from) {
                (void) conf_cancel(&end, to, ops[id]);
                conf_wait(ops[id], "a cancelled receive");
            }
            conf_buffer_put(&in[id]);
        }
    }
    conf_buffer_put(&out);
    conf_pair_close(&peer, &end);
}

static void again(void)
{
    const struct conf_open how = {.contexts = 2};
    struct conf_buffer in, out;
    struct conf_end end;
    struct conf_op *op;

    conf_load();
    conf_open(&end, &how);
    conf_buffer_get(&in, &end, conf_header(&end, false) + 64, NA_PLUGIN_BUF_RECV, false);
    conf_buffer_get(&out, &end, conf_header(&end, false) + 64, NA_PLUGIN_BUF_SEND, false);
    op = conf_op_new(&end);
    for (int i = 0; i < 5; i++) {
        int32_t status;

        conf_must_recv(&end, 1, op, &in);
        conf_send_wait(&end, 0, &out, out.size, end.self, 1, 1, false);
        conf_wait_ok(op, "a receive of a context that was made again");
        conf_addr_free(&end, op->source);
        status = conf_plugin.table.context_stop(end.contexts[1]);
        conf_require(status == NA_PLUGIN_SUCCESS, "context_stop failed: %s",
                     conf_status_name(status));
        status = conf_plugin.table.context_destroy(end.contexts[1]);
        conf_require(status == NA_PLUGIN_SUCCESS, "context_destroy failed: %s",
                     conf_status_name(status));
        end.contexts[1] = NULL;
        status = conf_context_create(&end, 1);
        conf_require(status == NA_PLUGIN_SUCCESS, "context 1 cannot be made again: %s",
                     conf_status_name(status));
    }
    conf_buffer_put(&in);
    conf_buffer_put(&out);
    conf_close(&end);
}

/* The peer keeps its address and connection. */
static void again_peer(void)
{
    const struct conf_open how = {.contexts = 2};
    struct conf_peer_command command;
    struct conf_peer_reply reply;
    struct conf_buffer in;
    struct conf_peer peer;
    struct conf_end end;
    struct conf_op *op;

    conf_load();
    conf_open(&end, &how);
    conf_peer_start(&peer, NULL);
    conf_peer_meet(&peer, &end);
    conf_buffer_get(&in, &end, conf_max_message(&end, false), NA_PLUGIN_BUF_RECV, false);
    op = conf_op_new(&end);
    conf_peer_sending(&command, CONF_PEER_SEND, &end, CONF_PEER_UNEXPECTED, 1, 40, 3);
    command.dest = 1;
    for (int i = 0; i < 5; i++) {
        conf_must_recv(&end, 1, op, &in);
        conf_peer_call(&peer, &command, &reply);
        conf_require(reply.status == NA_PLUGIN_SUCCESS, "in the peer: sending ended with %s",
                     conf_status_name(reply.status));
        conf_wait_ok(op, "a receive of a context that was made again");
        conf_addr_free(&end, op->source);
        conf_require(conf_plugin.table.context_stop(end.contexts[1]) == NA_PLUGIN_SUCCESS &&
                         conf_plugin.table.context_destroy(end.contexts[1]) == NA_PLUGIN_SUCCESS,
                     "a context cannot be stopped and destroyed");
        end.contexts[1] = NULL;
        conf_require(conf_context_create(&end, 1) == NA_PLUGIN_SUCCESS,
                     "context 1 cannot be made again");
    }
    conf_buffer_put(&in);
    conf_pair_close(&peer, &end);
}

/* The peer is stopped, so that no operation can end by itself. */
static void stop(void)
{
    struct conf_peer_command expose = {
        .kind = CONF_PEER_EXPOSE, .size = BYTES, .mode = NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE};
    struct conf_memory local = {0};
    struct na_plugin_mem *remote = NULL;
    struct conf_traffic traffic;
    struct conf_peer_reply reply;
    struct conf_buffer buffer;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 4);
    conf_traffic_echo(&traffic, 10, 1);
    if ((traffic.end.info.capabilities & NA_PLUGIN_CAP_RMA) != 0) {
        conf_peer_call(&traffic.peer, &expose, &reply);
        remote = conf_memory_deserialize(&traffic.end, reply.handle, reply.handle_size);
        conf_memory_open(&local, &traffic.end, BYTES, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    }
    conf_peer_pause(&traffic.peer, true);
    post_everything(&traffic, &buffer, 300);
    for (int i = 0; remote != NULL && i < 4; i++)
        (void) conf_transfer(&traffic.end, 0, conf_op_new(&traffic.end), i % 2 != 0, &local, 0,
                             remote, 0, conf_transfer_most(&traffic.end, BYTES), traffic.peer.addr,
                             0);
    conf_progress_ms(50);
    conf_stop(&traffic.end);
    conf_peer_pause(&traffic.peer, false);
    if (remote != NULL) {
        conf_memory_forget(&traffic.end, remote);
        conf_memory_close(&local);
    }
    conf_traffic_close(&traffic);
    conf_buffer_put(&buffer);
}

/* Posts receives of both kinds and many sends. Some sends may be refused for lack of resources. */
static void post_everything(struct conf_traffic *traffic, struct conf_buffer *buffer,
                            uint32_t sends)
{
    conf_traffic_receive(traffic, 32);
    conf_buffer_get(buffer, &traffic->end,
                    conf_max_message(&traffic->end, true) + conf_header(&traffic->end, false),
                    NA_PLUGIN_BUF_RECV | NA_PLUGIN_BUF_SEND, false);
    for (uint32_t i = 0; i < 32; i++)
        conf_require(conf_recv_expected(&traffic->end, 0, conf_op_new(&traffic->end), buffer,
                                        conf_max_message(&traffic->end, true), traffic->peer.addr,
                                        0, i) == NA_PLUGIN_SUCCESS,
                     "an expected receive was refused");
    for (uint32_t i = 0; i < sends; i++)
        (void) conf_send(&traffic->end, 0, conf_op_new(&traffic->end), buffer,
                         conf_header(&traffic->end, false) + 200, traffic->peer.addr, 0, i % 200,
                         false);
}

static void stop_refuses(void)
{
    struct conf_traffic traffic;
    struct conf_end *end = &traffic.end;
    struct conf_buffer buffer;
    int32_t status[4];

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    conf_traffic_echo(&traffic, 10, 1);
    conf_buffer_get(&buffer, end, conf_max_message(end, false) + conf_max_message(end, true),
                    NA_PLUGIN_BUF_RECV | NA_PLUGIN_BUF_SEND, false);
    conf_stop(end);
    status[0] =
        conf_recv_unexpected(end, 0, conf_op_new(end), &buffer, conf_max_message(end, false));
    status[1] = conf_recv_expected(end, 0, conf_op_new(end), &buffer, conf_max_message(end, true),
                                   traffic.peer.addr, 0, 1);
    status[2] = conf_send(end, 0, conf_op_new(end), &buffer, conf_header(end, false) + 8,
                          traffic.peer.addr, 0, 1, false);
    status[3] = conf_send(end, 0, conf_op_new(end), &buffer, conf_header(end, true) + 8,
                          traffic.peer.addr, 0, 1, true);
    for (int i = 0; i < 4; i++)
        conf_require(status[i] == NA_PLUGIN_FAULT, "%s on a stopped context returned %s",
                     i < 2 ? "a receive" : "a send", conf_status_name(status[i]));
    conf_buffer_put(&buffer);
    conf_traffic_close(&traffic);
}

static void stop_twice(void)
{
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 4);
    conf_traffic_receive(&traffic, 8);
    conf_stop(&traffic.end);
    conf_stop(&traffic.end);
    conf_traffic_close(&traffic); /* stops the context a third time */
}

/* The buffers of the stopped context are made inaccessible, while messages for them arrive. */
static void stop_memory(void)
{
    const struct conf_open how = {.contexts = 2};
    struct conf_block block;
    struct conf_peer_command command;
    struct conf_peer_reply reply;
    struct conf_buffer buffer;
    struct conf_peer peer;
    struct conf_end end;

    conf_pair_open(&peer, &end, &how);
    conf_block_map(&block, conf_max_message(&end, false));
    memset(&buffer, 0, sizeof(buffer));
    buffer.data = block.data;
    buffer.size = block.size;
    buffer.end = &end;
    for (uint32_t i = 0; i < 8; i++) {
        conf_must_recv(&end, 0, conf_op_new(&end), &buffer);
        conf_must_recv_expected(&end, 0, conf_op_new(&end), &buffer, peer.addr, 0, i);
    }
    conf_require(conf_plugin.table.context_stop(end.contexts[0]) == NA_PLUGIN_SUCCESS,
                 "context_stop failed");
    (void) mprotect(block.map, block.map_size, PROT_NONE);
    conf_peer_sending(&command, CONF_PEER_START, &end, CONF_PEER_MIXED, 8, 100, 0);
    conf_peer_call(&peer, &command, &reply);
    for (uint64_t until = conf_now_ms() + 300; conf_now_ms() < until;) {
        uint32_t count = 0;

        (void) conf_poll(&end, 1, &count);
    }
    conf_addr_free(&end, peer.addr);
    conf_close(&end);
    conf_peer_stop(&peer);
    conf_block_unmap(&block);
}

static void alone(void)
{
    const struct conf_open how = {.contexts = 2};
    struct conf_buffer in, out;
    struct conf_end end;
    struct conf_op *op;

    conf_load();
    conf_open(&end, &how);
    conf_buffer_get(&in, &end, conf_header(&end, false) + 64, NA_PLUGIN_BUF_RECV, false);
    conf_buffer_get(&out, &end, conf_header(&end, false) + 64, NA_PLUGIN_BUF_SEND, false);
    conf_must_recv(&end, 0, conf_op_new(&end), &in);
    conf_require(conf_plugin.table.context_stop(end.contexts[0]) == NA_PLUGIN_SUCCESS,
                 "context_stop failed");
    conf_require(conf_plugin.table.context_destroy(end.contexts[0]) == NA_PLUGIN_SUCCESS,
                 "context_destroy failed");
    end.contexts[0] = NULL;
    op = conf_op_new(&end);
    for (int i = 0; i < 10; i++) {
        conf_must_recv(&end, 1, op, &in);
        conf_send_wait(&end, 1, &out, out.size, end.self, 1, 1, false);
        conf_wait_ok(op, "a receive of the other context");
        conf_addr_free(&end, op->source);
    }
    conf_buffer_put(&in);
    conf_buffer_put(&out);
    conf_close(&end);
}

/* The peer floods us and accesses our memory. Its operations may fail, but it must survive. */
static void busy_close(void)
{
    struct conf_peer_command command;
    struct conf_peer_reply reply;
    struct conf_memory memory = {0};
    struct conf_traffic traffic;
    struct conf_buffer buffer;
    struct conf_peer other;
    uint64_t size;
    bool rma;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 4);
    conf_peer_start(&other, NULL);
    rma = (traffic.end.info.capabilities & NA_PLUGIN_CAP_RMA) != 0;
    conf_traffic_number(&traffic, 0, 100, 1);
    if (rma) {
        conf_memory_open(&memory, &traffic.end, 1 << 20, 1, NA_PLUGIN_MEM_READ);
        conf_memory_fill(&memory, 0, memory.size, 7);
        conf_peer_sending(&command, CONF_PEER_GET_LOOP, &traffic.end, CONF_PEER_UNEXPECTED, 0,
                          memory.size, 7);
        command.handle_size =
            conf_memory_serialize(&memory, command.handle, sizeof(command.handle));
        conf_peer_call(&traffic.peer, &command, &reply);
    }
    size = conf_max_payload(&traffic.end) < 1000 ? conf_max_payload(&traffic.end) : 1000;
    conf_peer_send(&other, CONF_PEER_START, &traffic.end, CONF_PEER_UNEXPECTED, 100, size, 0);
    conf_progress_ms(50);
    post_everything(&traffic, &buffer, 30);
    conf_stop(&traffic.end);
    conf_memory_close(&memory);
    conf_addr_free(&traffic.end, traffic.peer.addr);
    traffic.peer.addr = NULL;
    for (uint32_t i = 0; i < traffic.window; i++)
        if (traffic.receives[i]->source != NULL)
            conf_addr_free(&traffic.end, traffic.receives[i]->source);
    for (uint32_t i = 0; i < traffic.window; i++)
        conf_buffer_put(&traffic.in[i]);
    conf_buffer_put(&buffer);
    conf_destroy(&traffic.end);
    conf_require(conf_peers_live(), "a peer did not survive");
    conf_peer_kill(&traffic.peer); /* it may wait for messages that never arrive */
    conf_peer_kill(&other);
}
